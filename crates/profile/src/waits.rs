//! The causes of waiting: for each wait, the rank that was waited for and its phase.
//!
//! A rank that waits for a message waits for its sender; at a meeting of all ranks, for the last rank to enter. If this rank was
//! itself waiting, its wait is traced further: the final cause is a phase in which a rank worked, or a program that came late.

use crate::document::{Document, RankPart};
use crate::recorder::{Span, Whom};
use crate::{Phase, recorder::Total};
use std::collections::{BinaryHeap, HashMap};

/// Most times that waits for a rank are traced. More are needed only if ranks appear to wait for each other, because of inexact
/// clocks; their waiting then counts as the cause.
const MOST_LOOKS: u32 = 64;
/// Most intervals of waiting for a rank that are traced separately; of more, adjacent ones are joined.
const MOST_RUNS: usize = 512;

/// An interval of one rank's span without other spans inside it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Leaf {
    /// Begin.
    pub begin: i64,
    /// End.
    pub end: i64,
    /// Phase.
    pub phase: Phase,
    /// Peer.
    pub whom: Whom,
    /// Bytes of its span.
    pub bytes: u64,
}

/// A rank's spans as consecutive intervals without overlap. Time between them is the program's.
pub fn leaves(part: &RankPart) -> Vec<Leaf> {
    runs(part.spans())
}

/// As [`leaves`], of spans in the order of their begins. If two spans overlap without one being inside the other (of two
/// threads), the overlap is assigned to the later one.
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

/// A cause of waiting.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WaitCause {
    /// The rank.
    pub rank: u32,
    /// Its phase; `None`: the program was before open, or between open and close.
    pub doing: Option<Phase>,
    /// Sum of all ranks' waits for this cause, in ns.
    pub waited: u64,
    /// Most ranks that waited for it at one time.
    pub at_a_time: u32,
}

/// The time of a phase over the ranks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PhaseRow {
    /// The phase.
    pub phase: Phase,
    /// Shortest time of any rank, in ns.
    pub min: u64,
    /// Median time.
    pub median: u64,
    /// Longest time.
    pub max: u64,
    /// The rank with the longest time.
    pub slowest: u32,
    /// Calls of all ranks.
    pub calls: u64,
    /// Bytes of all ranks.
    pub bytes: u64,
}

/// Summary of the outputs of one or more profiles.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Summary {
    /// Phases that any rank was in.
    pub phases: Vec<PhaseRow>,
    /// Causes of waiting, the longest first.
    pub causes: Vec<WaitCause>,
    /// Sum of all ranks' waits.
    pub waited: u64,
}

/// Summarises profiles.
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

/// By rank and phase: the sum of waits, and the most waiting ranks.
#[derive(Default)]
struct Blame(HashMap<(u32, Option<Phase>), (f64, u32)>);

/// An interval in which ranks wait.
#[derive(Debug, Clone, Copy)]
struct Wait {
    begin: i64,
    end: i64,
    /// Average number of waiting ranks.
    ranks: f64,
    /// Most waiting ranks.
    most: u32,
}

impl Wait {
    fn length(&self) -> f64 {
        self.end.abs_diff(self.begin) as f64
    }
}

/// Merges waits into intervals without overlap.
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

/// One output, prepared for tracing.
struct Traced {
    leaves: HashMap<u32, Vec<Leaf>>,
    /// By number: the last rank to enter, and when; `None` for meetings that not all ranks entered.
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

    /// The rank that an interval waited for, and the end of this wait.
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

/// Waits that are not yet traced, by the rank waited for; the latest wait comes first, because chains usually begin there.
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

    /// Assigns waits for a rank to its phases; if the rank itself waited, and `further` is set, the waits are passed on to the rank
    /// that it waited for.
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
        // A program that computes counts as late.
        let doing = doing.filter(|phase| !phase.is_outside());
        let (waited, at_a_time) = self.0.entry((rank, doing)).or_default();
        *waited += wait.length() * wait.ranks;
        *at_a_time = wait.most.min(others).max(*at_a_time);
    }

    fn in_order(self) -> Vec<WaitCause> {
        let cause = |((rank, doing), (waited, at_a_time)): ((u32, Option<Phase>), (f64, u32))| WaitCause {
            rank,
            doing,
            waited: waited.round() as u64,
            at_a_time,
        };
        let mut all: Vec<WaitCause> = self.0.into_iter().map(cause).collect();
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
        let causes: Vec<_> = summary.causes.iter().map(|h| (h.rank, h.doing, h.waited, h.at_a_time)).collect();
        assert_eq!(
            causes,
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
