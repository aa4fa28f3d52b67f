//! Who waited for whom, and what that one did meanwhile.
//!
//! A rank that waits for a message waits for its sender; at a meeting of all ranks, for the one that comes last. Where that
//! one waited itself at the time, what it waited for is to blame, and so on: what is counted in the end is work that
//! kept others waiting, or the program that came late.

use crate::document::{Document, RankPart};
use crate::recorder::{Span, Whom};
use crate::{Phase, recorder::Total};
use std::collections::{BinaryHeap, HashMap};

/// How often it is looked at what a rank did while others waited for it. More is needed only where ranks wait for each other, as
/// clocks that differ a little can make it seem; then they are to blame.
const MOST_LOOKS: u32 = 64;
/// Runs of waiting for a rank that are looked at one by one; of more, neighbours are taken together.
const MOST_RUNS: usize = 512;

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
    runs(part.spans())
}

/// As [`leaves`], of spans in the order in which they began. Of those that overlap without one being inside the other, as
/// spans of two threads may, the later one counts, as far as the earlier one goes.
pub fn runs(spans: impl Iterator<Item = Span>) -> Vec<Leaf> {
    let mut out: Vec<Leaf> = Vec::new();
    let mut open: Vec<Leaf> = Vec::new();
    let mut now = i64::MIN;
    let mut emit = |leaf: &Leaf, from: &mut i64, to: i64| {
        if to > *from {
            out.push(Leaf { begin: *from, end: to, ..*leaf });
        }
        *from = to.max(*from);
    };
    for span in spans.filter(|s| s.phase != Phase::Iteration) {
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
pub struct WaitCause {
    /// The rank.
    pub rank: u32,
    /// What it did; `None`: its program had not come yet, or was between open and close.
    pub doing: Option<Phase>,
    /// How long ranks waited for that, all together, in ns.
    pub waited: u64,
    /// How many ranks did so at a time, at most.
    pub at_a_time: u32,
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
    pub causes: Vec<WaitCause>,
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
        causes: blame.in_order(),
        waited: by_rank.values().map(|t| t[Phase::Wait.place()].own).fold(0, u64::saturating_add),
    }
}

/// By rank and what it did: how long others waited for that, and how many at a time.
#[derive(Default)]
struct Blame(HashMap<(u32, Option<Phase>), (f64, u32)>);

/// So many ranks wait from then until then.
#[derive(Debug, Clone, Copy)]
struct Wait {
    begin: i64,
    end: i64,
    /// On the average.
    ranks: f64,
    /// At most.
    most: u32,
}

impl Wait {
    fn length(&self) -> f64 {
        self.end.abs_diff(self.begin) as f64
    }
}

/// The same waiting as runs of time that don't overlap.
fn added_up(waits: &[Wait]) -> Vec<Wait> {
    let begin = |w: &Wait| (w.begin, w.ranks, i64::from(w.most));
    let end = |w: &Wait| (w.end, -w.ranks, -i64::from(w.most));
    let real = waits.iter().filter(|w| w.end > w.begin);
    let mut changes: Vec<(i64, f64, i64)> = real.flat_map(|w| [begin(w), end(w)]).collect();
    changes.sort_unstable_by_key(|change| change.0);
    let mut out: Vec<Wait> = Vec::new();
    let (mut ranks, mut most, mut since) = (0.0, 0i64, 0);
    for (at, change, more) in changes {
        if most > 0 && at > since {
            out.push(Wait { begin: since, end: at, ranks, most: u32::try_from(most).unwrap_or(u32::MAX) });
        }
        (ranks, most, since) = (ranks + change, most + more, at);
    }
    let together = out.len().div_ceil(MOST_RUNS).max(1);
    if together == 1 {
        return out;
    }
    let mut fewer: Vec<Wait> = Vec::with_capacity(MOST_RUNS);
    for (i, wait) in out.into_iter().enumerate() {
        match fewer.last_mut() {
            Some(last) if i % together > 0 && last.end == wait.begin => {
                let sum = last.ranks * last.length() + wait.ranks * wait.length();
                (last.end, last.most) = (wait.end, last.most.max(wait.most));
                last.ranks = sum / last.length();
            }
            _ => fewer.push(wait),
        }
    }
    fewer
}

/// One output, as waiting is traced in it.
struct Traced {
    leaves: HashMap<u32, Vec<Leaf>>,
    /// By number: who came last, and when. Only meetings that all ranks came to.
    meetings: Vec<Option<(u32, i64)>>,
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

/// Waiting that is not yet traced to its end, by the rank that it is for; the one that is waited for last comes first, as
/// chains mostly run from there.
#[derive(Default)]
struct Untraced {
    waits: HashMap<u32, Vec<Wait>>,
    order: BinaryHeap<(i64, u32)>,
}

impl Untraced {
    fn push(&mut self, rank: u32, wait: Wait) {
        self.waits.entry(rank).or_default().push(wait);
        self.order.push((wait.end, rank));
    }

    fn pop(&mut self) -> Option<(u32, Vec<Wait>)> {
        loop {
            let (_, rank) = self.order.pop()?;
            if let Some(waits) = self.waits.remove(&rank) {
                return Some((rank, waits));
            }
        }
    }
}

impl Blame {
    fn add(&mut self, document: &Document) {
        let traced = Traced::of(document);
        let mut untraced = Untraced::default();
        for (own, leaves) in &traced.leaves {
            for leaf in leaves {
                if let Some((rank, end)) = traced.waited_for(leaf).filter(|(rank, _)| rank != own) {
                    untraced.push(rank, Wait { begin: leaf.begin, end, ranks: 1.0, most: 1 });
                }
            }
        }
        let mut looks: HashMap<u32, u32> = HashMap::new();
        while let Some((rank, waits)) = untraced.pop() {
            let looks = looks.entry(rank).or_default();
            *looks += 1;
            self.trace(&traced, rank, &added_up(&waits), *looks < MOST_LOOKS, &mut untraced);
        }
    }

    /// What a rank did while others waited for it; where it waited itself and `further` is to be looked, they waited for another.
    fn trace(&mut self, traced: &Traced, rank: u32, waits: &[Wait], further: bool, untraced: &mut Untraced) {
        let Some(leaves) = traced.leaves.get(&rank) else { return };
        let others = traced.leaves.len() as u32 - 1;
        for wait in waits {
            let first = leaves.partition_point(|leaf| leaf.end <= wait.begin);
            let mut now = wait.begin;
            for leaf in leaves[first..].iter().take_while(|leaf| leaf.begin < wait.end) {
                let part = Wait { begin: leaf.begin.max(now), end: leaf.end.min(wait.end), ..*wait };
                self.blame(others, rank, None, Wait { end: part.begin, begin: now, ..*wait });
                now = part.end;
                match traced.waited_for(leaf).filter(|(next, _)| further && *next != rank) {
                    Some((next, until)) if until.min(part.end) > part.begin => {
                        let until = until.min(part.end);
                        untraced.push(next, Wait { end: until, ..part });
                        self.blame(others, rank, Some(leaf.phase), Wait { begin: until, ..part });
                    }
                    _ => self.blame(others, rank, Some(leaf.phase), part),
                }
            }
            self.blame(others, rank, None, Wait { begin: now, ..*wait });
        }
    }

    fn blame(&mut self, others: u32, rank: u32, doing: Option<Phase>, wait: Wait) {
        if wait.end <= wait.begin {
            return;
        }
        // Computing is what a program does that comes late.
        let doing = doing.filter(|phase| !phase.is_outside());
        let (waited, at_a_time) = self.0.entry((rank, doing)).or_default();
        *waited += wait.length() * wait.ranks;
        *at_a_time = wait.most.min(others).max(*at_a_time);
    }

    fn in_order(self) -> Vec<WaitCause> {
        let held = |((rank, doing), (waited, at_a_time)): ((u32, Option<Phase>), (f64, u32))| WaitCause {
            rank,
            doing,
            waited: waited.round() as u64,
            at_a_time,
        };
        let mut all: Vec<WaitCause> = self.0.into_iter().map(held).collect();
        all.sort_unstable_by_key(|h| (std::cmp::Reverse(h.waited), h.rank, h.doing));
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::document::{FORMAT, VERSION};
    use crate::recorder::Record;

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
        let held: Vec<_> = summary.causes.iter().map(|h| (h.rank, h.doing, h.waited, h.at_a_time)).collect();
        assert_eq!(
            held,
            [(3, None, 300 + 280 + 260, 3), (0, Some(Phase::Write), 200, 2), (1, Some(Phase::Write), 20, 1),]
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
