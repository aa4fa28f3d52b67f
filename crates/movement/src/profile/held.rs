//! Who waited for whom, and what that one did meanwhile.
//!
//! A rank that waits for a message waits for its sender; at a meeting of all ranks, for the one that comes last. Where that
//! one waited itself at the time, what it waited for is to blame, and so on: what is counted in the end is work that
//! kept others waiting, or the program that came late.

use super::document::{Document, RankPart};
use super::recorder::Whom;
use super::{Phase, recorder::Total};
use std::collections::HashMap;

/// Steps along chains of waiting that are followed; beyond these the next in the chain is blamed.
const MOST_STEPS: u64 = 20_000_000;

/// A run of time of one rank in which nothing else went on inside.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Leaf {
    /// When it began.
    pub begin: i64,
    /// When it ended.
    pub end: i64,
    /// What it went to.
    pub phase: Phase,
    /// With whom.
    pub whom: Whom,
    /// Of the span that it is a part of.
    pub bytes: u64,
}

/// A rank's spans as runs that don't overlap, in their order. Time in none of them is the program's.
pub fn leaves(part: &RankPart) -> Vec<Leaf> {
    let mut out: Vec<Leaf> = Vec::with_capacity(part.spans.len());
    let mut open: Vec<Leaf> = Vec::new();
    let mut now = i64::MIN;
    let mut emit = |leaf: &Leaf, from: &mut i64, to: i64| {
        if to > *from {
            out.push(Leaf { begin: *from, end: to, ..*leaf });
        }
        *from = to.max(*from);
    };
    for span in part.spans().filter(|s| s.phase != Phase::Iteration) {
        while let Some(top) = open.pop_if(|top| top.end <= span.begin) {
            emit(&top, &mut now, top.end);
        }
        let mut end = span.end();
        if let Some(top) = open.last() {
            emit(top, &mut now, span.begin);
            end = end.min(top.end);
        }
        now = now.max(span.begin);
        open.push(Leaf { begin: span.begin, end, phase: span.phase, whom: span.whom, bytes: span.bytes });
    }
    while let Some(top) = open.pop() {
        emit(&top, &mut now, top.end);
    }
    out
}

/// What kept others waiting.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Held {
    /// The rank.
    pub rank: u32,
    /// What it did; `None`: its program had not come yet, or was between open and close.
    pub doing: Option<Phase>,
    /// How long ranks waited for that, all together, in ns.
    pub waited: u64,
    /// How many ranks did.
    pub waiters: u32,
    /// Which one longest, and how long.
    pub longest: (u32, u64),
}

/// What a phase took on the ranks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PhaseRow {
    /// The phase.
    pub phase: Phase,
    /// Shortest time of any rank, in ns.
    pub min: u64,
    /// Half of the ranks took no longer.
    pub median: u64,
    /// Longest time.
    pub max: u64,
    /// The rank that took it.
    pub slowest: u32,
    /// Calls of all ranks.
    pub calls: u64,
    /// Bytes of all ranks.
    pub bytes: u64,
}

/// The outputs of one or more profiles together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Summary {
    /// Phases that any rank was in.
    pub phases: Vec<PhaseRow>,
    /// What kept others waiting, the longest first.
    pub held: Vec<Held>,
    /// How long all ranks waited together.
    pub waited: u64,
}

/// Sums up.
pub fn summary(documents: &[Document]) -> Summary {
    let mut by_rank: HashMap<u32, [Total; Phase::ALL.len()]> = HashMap::new();
    for part in documents.iter().flat_map(|d| &d.by_rank) {
        let totals = by_rank.entry(part.rank).or_default();
        for phase in Phase::ALL {
            let (sum, more) = (&mut totals[phase.place()], part.total(phase));
            sum.own = sum.own.saturating_add(more.own);
            sum.calls = sum.calls.saturating_add(more.calls);
            sum.bytes = sum.bytes.saturating_add(more.bytes);
        }
    }
    let row = |phase: Phase| {
        let mut times: Vec<(u64, u32)> = by_rank.iter().map(|(rank, t)| (t[phase.place()].own, *rank)).collect();
        times.sort_unstable_by_key(|(own, rank)| (*own, std::cmp::Reverse(*rank)));
        let sum =
            |what: fn(&Total) -> u64| by_rank.values().map(|t| what(&t[phase.place()])).fold(0, u64::saturating_add);
        let calls = sum(|t| t.calls);
        let (first, last) = (times.first().filter(|_| calls > 0)?, times.last()?);
        let median = times[(times.len() - 1) / 2].0;
        Some(PhaseRow { phase, min: first.0, median, max: last.0, slowest: last.1, calls, bytes: sum(|t| t.bytes) })
    };
    let mut blame = Blame::default();
    documents.iter().for_each(|document| blame.add(document));
    Summary {
        phases: Phase::ALL.into_iter().filter_map(row).collect(),
        held: blame.in_order(),
        waited: by_rank.values().map(|t| t[Phase::Wait.place()].own).fold(0, u64::saturating_add),
    }
}

#[derive(Default)]
struct Blame(HashMap<(u32, Option<Phase>), Counted>);

#[derive(Default)]
struct Counted {
    waited: u64,
    waiters: u32,
    /// Who waits now, and how long so far.
    now: Option<(u32, u64)>,
    longest: (u32, u64),
}

impl Counted {
    fn next(&mut self) {
        if let Some(now) = self.now.take() {
            self.waiters += 1;
            if now.1 > self.longest.1 {
                self.longest = now;
            }
        }
    }
}

/// One output, as waiting is traced in it.
struct Traced {
    leaves: HashMap<u32, Vec<Leaf>>,
    /// By number: who came last, and when. Only meetings that all ranks came to.
    meetings: Vec<Option<(u32, i64)>>,
    steps: u64,
}

impl Traced {
    fn of(document: &Document) -> Traced {
        let mut last: HashMap<u32, (u32, i64, usize)> = HashMap::new();
        for part in &document.by_rank {
            for span in part.spans() {
                let Whom::Meeting(number) = span.whom else { continue };
                let (rank, at, count) = last.entry(number).or_insert((part.rank, span.begin, 0));
                *count += 1;
                if span.begin > *at {
                    (*rank, *at) = (part.rank, span.begin);
                }
            }
        }
        let most = last.keys().copied().max().map_or(0, |n| (n as usize + 1).min(last.len()));
        let whole = |n: usize| last.get(&(n as u32)).filter(|l| l.2 == document.by_rank.len()).map(|l| (l.0, l.1));
        Traced {
            leaves: document.by_rank.iter().map(|part| (part.rank, leaves(part))).collect(),
            meetings: (0..most).map(whole).collect(),
            steps: 0,
        }
    }

    /// For whom a rank waited in such a run of time, and until when at most.
    fn waited_for(&self, leaf: &Leaf) -> Option<(u32, i64)> {
        match leaf.whom {
            _ if leaf.phase != Phase::Wait => None,
            Whom::Nobody => None,
            Whom::Rank(rank) => Some((rank, leaf.end)),
            Whom::Meeting(number) => {
                self.meetings.get(number as usize).copied().flatten().map(|(rank, at)| (rank, at.min(leaf.end)))
            }
        }
    }
}

impl Blame {
    fn add(&mut self, document: &Document) {
        let mut traced = Traced::of(document);
        for part in &document.by_rank {
            let own = traced.leaves.get(&part.rank).cloned().unwrap_or_default();
            for leaf in own.iter().filter(|leaf| leaf.phase == Phase::Wait) {
                if let Some((rank, until)) = traced.waited_for(leaf).filter(|(rank, _)| *rank != part.rank) {
                    self.follow(&mut traced, part.rank, rank, leaf.begin, until);
                }
            }
            self.0.values_mut().for_each(Counted::next);
        }
    }

    /// `waiter` waited for `rank` in this run of time.
    fn follow(&mut self, traced: &mut Traced, waiter: u32, rank: u32, begin: i64, end: i64) {
        let mut work = vec![(rank, begin, end, 0usize)];
        while let Some((rank, begin, end, depth)) = work.pop() {
            let Some(leaves) = traced.leaves.get(&rank) else { continue };
            let first = leaves.partition_point(|leaf| leaf.end <= begin);
            let mut now = begin;
            for leaf in leaves[first..].iter().take_while(|leaf| leaf.begin < end) {
                traced.steps += 1;
                let (from, to) = (leaf.begin.max(now), leaf.end.min(end));
                self.blame(waiter, rank, None, now, from);
                now = to;
                match traced.waited_for(leaf) {
                    Some((next, until)) if traced.steps < MOST_STEPS && depth <= traced.leaves.len() => {
                        if next != rank && until.min(to) > from {
                            work.push((next, from, until.min(to), depth + 1));
                        }
                    }
                    _ => self.blame(waiter, rank, Some(leaf.phase), from, to),
                }
            }
            self.blame(waiter, rank, None, now, end);
        }
    }

    fn blame(&mut self, waiter: u32, rank: u32, doing: Option<Phase>, begin: i64, end: i64) {
        if end <= begin || rank == waiter {
            return;
        }
        // Computing is what a program does that comes late.
        let doing = doing.filter(|phase| !phase.is_outside());
        let waited = end.abs_diff(begin);
        let counted = self.0.entry((rank, doing)).or_default();
        counted.waited = counted.waited.saturating_add(waited);
        counted.now.get_or_insert((waiter, 0)).1 += waited;
    }

    fn in_order(self) -> Vec<Held> {
        let held = |((rank, doing), c): ((u32, Option<Phase>), Counted)| Held {
            rank,
            doing,
            waited: c.waited,
            waiters: c.waiters,
            longest: c.longest,
        };
        let mut all: Vec<Held> = self.0.into_iter().map(held).collect();
        all.sort_unstable_by_key(|h| (std::cmp::Reverse(h.waited), h.rank, h.doing));
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::document::{FORMAT, VERSION};
    use crate::profile::recorder::{Record, Span};

    const NOBODY: Whom = Whom::Nobody;

    fn document(ranks: &[&[(Phase, i64, u64, Whom)]]) -> Document {
        let part = |(rank, spans): (usize, &&[(Phase, i64, u64, Whom)])| {
            let mut record = Record::default();
            for (phase, begin, length, whom) in spans.iter().copied() {
                record.spans.push(Span { phase, begin, length, bytes: 0, whom });
                record.totals[phase.place()].own += length;
                record.totals[phase.place()].calls += 1;
            }
            RankPart::of(rank as u32, [0, 0], [0, 1000], &record)
        };
        Document {
            format: FORMAT.into(),
            version: VERSION,
            output: "x".into(),
            group: "g".into(),
            methods: Vec::new(),
            step: 0,
            run: "1".into(),
            ranks: ranks.len() as u32,
            began_unix_us: 0,
            clock_error_ns: 0,
            bytes: 0,
            error: None,
            phases: Phase::ALL.iter().map(|p| p.name().to_string()).collect(),
            by_rank: ranks.iter().enumerate().map(part).collect(),
        }
    }

    #[test]
    fn nested_spans_become_runs_one_behind_the_other() {
        let document = document(&[&[
            (Phase::Close, 10, 100, NOBODY),
            (Phase::Index, 20, 50, NOBODY),
            (Phase::Wait, 20, 10, NOBODY),
            (Phase::Wait, 60, 5, NOBODY),
            (Phase::Calculation, 200, 10, NOBODY),
        ]]);
        let runs: Vec<_> = leaves(&document.by_rank[0]).iter().map(|l| (l.phase, l.begin, l.end)).collect();
        let (close, index, wait) = (Phase::Close, Phase::Index, Phase::Wait);
        assert_eq!(
            runs,
            [
                (close, 10, 20),
                (wait, 20, 30),
                (index, 30, 60),
                (wait, 60, 65),
                (index, 65, 70),
                (close, 70, 110),
                (Phase::Calculation, 200, 210)
            ]
        );
    }

    #[test]
    fn the_rank_whose_work_kept_others_waiting_is_named_at_the_end_of_the_chain() {
        // 2 waits for 1, which waits for 0, which writes; 3 comes late to the meeting that ends it.
        let meeting = Whom::Meeting(0);
        let document = document(&[
            &[(Phase::Write, 0, 100, NOBODY), (Phase::Wait, 100, 310, meeting)],
            &[(Phase::Wait, 0, 100, Whom::Rank(0)), (Phase::Write, 100, 20, NOBODY), (Phase::Wait, 120, 290, meeting)],
            &[(Phase::Wait, 0, 120, Whom::Rank(1)), (Phase::Write, 120, 20, NOBODY), (Phase::Wait, 140, 270, meeting)],
            &[(Phase::Wait, 400, 10, meeting)],
        ]);
        let summary = summary(std::slice::from_ref(&document));
        let held: Vec<_> = summary.held.iter().map(|h| (h.rank, h.doing, h.waited, h.waiters, h.longest)).collect();
        assert_eq!(
            held,
            [
                (3, None, 300 + 280 + 260, 3, (0, 300)),
                (0, Some(Phase::Write), 200, 2, (1, 100)),
                (1, Some(Phase::Write), 20, 1, (2, 20)),
            ]
        );
        let write = summary.phases.iter().find(|p| p.phase == Phase::Write).unwrap();
        assert_eq!((write.min, write.median, write.max, write.slowest), (0, 20, 100, 0));
    }

    #[test]
    fn ranks_that_seem_to_wait_for_each_other_end_the_search() {
        let document = document(&[&[(Phase::Wait, 0, 100, Whom::Rank(1))], &[(Phase::Wait, 0, 100, Whom::Rank(0))]]);
        assert_eq!(summary(std::slice::from_ref(&document)).waited, 200);
    }
}
