//! Calls of a program that a door serves: of each kind their number, bytes and time; of collective ones the rank that came last.
//!
//! | question | answer |
//! |---|---|
//! | what is kept | totals of each kind, exact; of collective calls their times, of at most [`MOST_CALLS`] to twice as many. Beyond that every second one is dropped, the same ones on all ranks, as these make the same collective calls in the same order |
//! | who came last | the rank that entered the call last, by aligned clocks |
//! | how long others waited | the time that a rank spent in messages and barriers during the call ([`crate::Phase::Wait`]), at most from its own begin to that of the last rank. A collective call in which no rank needs another one has no waiting, however far apart the ranks enter it |

use crate::document::{Document, RankPart};
use crate::recorder::Recorder;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use thalweg_types::mutex::Mutex;

/// Most collective calls of which a rank sends times.
pub const MOST_CALLS: usize = 1024;

/// Totals of a kind of call on one rank.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CallTotal {
    /// Its name.
    pub name: String,
    /// Number of calls.
    pub calls: u64,
    /// Bytes that they moved.
    pub bytes: u64,
    /// From begin to end.
    pub time_ns: u64,
}

/// The calls of one rank.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Calls {
    /// By kind, in the order of their first use.
    pub totals: Vec<CallTotal>,
    /// Position of the kind in `totals`, begin, length, time waited, bytes.
    pub collective: Vec<[i64; 5]>,
    /// Which of the collective calls are there: every first, second, fourth and so on.
    pub every: u64,
}

impl Calls {
    /// Halves the collective calls until there are at most `most`.
    pub fn shorten(&mut self, most: usize) {
        while self.collective.len() > most.max(1) {
            let mut kept = false;
            self.collective.retain(|_| {
                kept = !kept;
                kept
            });
            self.every = self.every.saturating_mul(2);
        }
    }
}

#[derive(Default)]
struct State {
    calls: Calls,
    places: HashMap<String, usize>,
    /// Collective calls so far.
    seen: u64,
}

/// Records the calls of one rank.
pub struct CallLog {
    recorder: Arc<Recorder>,
    state: Mutex<State>,
}

/// The begin of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Begin {
    /// In ns since the recorder's zero.
    pub at: i64,
    /// Time that the rank had waited before.
    pub waited: u64,
}

impl CallLog {
    /// A log of the calls during which `recorder` records waits.
    pub fn new(recorder: Arc<Recorder>) -> CallLog {
        CallLog { recorder, state: Mutex::default() }
    }

    /// A call begins.
    pub fn begins(&self) -> Begin {
        Begin { at: self.recorder.now(), waited: self.recorder.waited() }
    }

    /// The call ends.
    ///
    /// - `collective`: whether all ranks make it, in the same order.
    pub fn ends(&self, begin: Begin, name: &str, collective: bool, bytes: u64) {
        let length = self.recorder.now().saturating_sub(begin.at).max(0);
        let waited = self.recorder.waited().saturating_sub(begin.waited);
        let mut guard = self.state.lock();
        let State { calls, places, seen } = &mut *guard;
        let place = match places.get(name) {
            Some(place) => *place,
            None => {
                let place = calls.totals.len();
                calls.totals.push(CallTotal { name: name.to_string(), calls: 0, bytes: 0, time_ns: 0 });
                places.insert(name.to_string(), place);
                place
            }
        };
        if let Some(total) = calls.totals.get_mut(place) {
            total.calls += 1;
            total.bytes = total.bytes.saturating_add(bytes);
            total.time_ns = total.time_ns.saturating_add(length.unsigned_abs());
        }
        if !collective {
            return;
        }
        calls.every = calls.every.max(1);
        if seen.is_multiple_of(calls.every) {
            let whole = |n: u64| i64::try_from(n).unwrap_or(i64::MAX);
            let waited = whole(waited).min(length);
            calls.collective.push([place as i64, begin.at, length, waited, whole(bytes)]);
            if calls.collective.len() >= 2 * MOST_CALLS {
                calls.shorten(MOST_CALLS);
            }
        }
        *seen += 1;
    }

    /// Bytes of all calls so far.
    pub fn bytes(&self) -> u64 {
        self.state.lock().calls.totals.iter().fold(0, |sum, total| sum.saturating_add(total.bytes))
    }

    /// What was recorded.
    pub fn finish(&self) -> Calls {
        std::mem::take(&mut self.state.lock().calls)
    }
}

/// The time of a kind of call over the ranks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CallRow {
    /// The kind.
    pub name: String,
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

/// One collective call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CollectiveCall {
    /// Its number among the collective calls, from 0.
    pub number: u64,
    /// The kind.
    pub name: String,
    /// When the first rank began it, in ns.
    pub begin: i64,
    /// The rank that began it last.
    pub last: u32,
    /// From the first begin to the last one, in ns.
    pub apart: u64,
    /// Sum of the times that other ranks waited for the last one, in ns.
    pub waited: u64,
}

/// Collective calls of a kind that the same rank entered last.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LastRow {
    /// The kind.
    pub name: String,
    /// The rank that came last.
    pub rank: u32,
    /// Number of calls.
    pub calls: u64,
    /// Longest time from the first rank's begin to its own, in ns.
    pub apart: u64,
    /// Sum of the times that other ranks waited for it, in ns.
    pub waited: u64,
}

/// Each kind of call of some profiles, those that took longest first.
pub fn rows(documents: &[Document]) -> Vec<CallRow> {
    let mut by_name: BTreeMap<&str, BTreeMap<u32, CallTotal>> = BTreeMap::new();
    let mut ranks = std::collections::BTreeSet::new();
    for part in documents.iter().flat_map(|document| &document.by_rank) {
        ranks.insert(part.rank);
        for total in &part.calls {
            let none = CallTotal { name: String::new(), calls: 0, bytes: 0, time_ns: 0 };
            let sum = by_name.entry(&total.name).or_default().entry(part.rank).or_insert(none);
            sum.calls = sum.calls.saturating_add(total.calls);
            sum.bytes = sum.bytes.saturating_add(total.bytes);
            sum.time_ns = sum.time_ns.saturating_add(total.time_ns);
        }
    }
    let row = |(name, by_rank): (&str, BTreeMap<u32, CallTotal>)| {
        let time = |rank: &u32| by_rank.get(rank).map_or(0, |total| total.time_ns);
        let mut times: Vec<(u64, u32)> = ranks.iter().map(|rank| (time(rank), *rank)).collect();
        times.sort_unstable_by_key(|(time, rank)| (*time, std::cmp::Reverse(*rank)));
        let (first, last) = (times.first()?, times.last()?);
        let sum = |what: fn(&CallTotal) -> u64| by_rank.values().map(what).fold(0, u64::saturating_add);
        Some(CallRow {
            name: name.to_string(),
            min: first.0,
            median: times[(times.len() - 1) / 2].0,
            max: last.0,
            slowest: last.1,
            calls: sum(|total| total.calls),
            bytes: sum(|total| total.bytes),
        })
    };
    let mut rows: Vec<CallRow> = by_name.into_iter().filter_map(row).collect();
    rows.sort_by(|a, b| (b.max, &a.name).cmp(&(a.max, &b.name)));
    rows
}

/// A collective call of one rank.
struct OwnCall<'d> {
    name: &'d str,
    begin: i64,
    waited: u64,
}

/// A rank's collective calls, by their numbers.
fn by_number(part: &RankPart) -> BTreeMap<u64, OwnCall<'_>> {
    let every = part.collective_every.max(1);
    let one = |(index, call): (usize, &[i64; 5])| {
        let [kind, begin, _, waited, _] = *call;
        let name = part.calls.get(usize::try_from(kind).ok()?)?.name.as_str();
        Some(((index as u64).saturating_mul(every), OwnCall { name, begin, waited: waited.unsigned_abs() }))
    };
    part.collective.iter().enumerate().filter_map(one).collect()
}

/// The collective calls of a profile that all its ranks recorded.
pub fn collective(document: &Document) -> Vec<CollectiveCall> {
    let ranks: Vec<_> = document.by_rank.iter().map(|part| (part.rank, by_number(part))).collect();
    let Some((_, first)) = ranks.first() else { return Vec::new() };
    let one = |(number, name): (u64, &str)| {
        // A rank that lacks the call, or made another one, was lost or is wrong.
        let own = |calls: &BTreeMap<u64, OwnCall<'_>>| {
            calls.get(&number).filter(|call| call.name == name).map(|call| (call.begin, call.waited))
        };
        let all: Option<Vec<(u32, (i64, u64))>> =
            ranks.iter().map(|(rank, calls)| own(calls).map(|call| (*rank, call))).collect();
        let all = all?;
        let begin = all.iter().map(|(_, (begin, _))| *begin).min()?;
        let (last, (latest, _)) = *all.iter().max_by_key(|(rank, (begin, _))| (*begin, std::cmp::Reverse(*rank)))?;
        let others = all.iter().filter(|(rank, _)| *rank != last);
        let waited = others.map(|(_, (begin, waited))| latest.abs_diff(*begin).min(*waited));
        let waited = waited.fold(0, u64::saturating_add);
        Some(CollectiveCall { number, name: name.to_string(), begin, last, apart: latest.abs_diff(begin), waited })
    };
    first.iter().filter_map(|(number, call)| one((*number, call.name))).collect()
}

/// For each kind of collective call the ranks that came last; those that others waited for the longest first.
pub fn last_ranks(documents: &[Document]) -> Vec<LastRow> {
    let mut rows: BTreeMap<(String, u32), LastRow> = BTreeMap::new();
    for call in documents.iter().filter(|document| document.ranks > 1).flat_map(collective) {
        let none = LastRow { name: call.name.clone(), rank: call.last, calls: 0, apart: 0, waited: 0 };
        let row = rows.entry((call.name, call.last)).or_insert(none);
        row.calls += 1;
        row.apart = row.apart.max(call.apart);
        row.waited = row.waited.saturating_add(call.waited);
    }
    let mut rows: Vec<LastRow> = rows.into_values().collect();
    rows.sort_by(|a, b| (b.waited, b.apart, &a.name, a.rank).cmp(&(a.waited, a.apart, &b.name, b.rank)));
    rows
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Phase;
    use crate::document::{FORMAT, VERSION};
    use crate::recorder::Record;
    use std::time::Instant;

    fn total(name: &str, calls: u64, bytes: u64, time_ns: u64) -> CallTotal {
        CallTotal { name: name.into(), calls, bytes, time_ns }
    }

    fn document(ranks: Vec<(Vec<CallTotal>, Vec<[i64; 5]>)>) -> Document {
        let part = |(rank, (calls, collective)): (usize, (Vec<CallTotal>, Vec<[i64; 5]>))| {
            let mut part = RankPart::of(rank as u32, [0, 0], [1000, 1000], &Record::default());
            (part.calls, part.collective, part.collective_every) = (calls, collective, 2);
            part
        };
        Document {
            format: FORMAT.into(),
            version: VERSION,
            output: "x".into(),
            group: String::new(),
            methods: vec!["MPI-IO".into()],
            step: 0,
            run: "1".into(),
            ranks: ranks.len() as u32,
            began_unix_us: 0,
            clock_error_ns: 0,
            bytes: 0,
            error: None,
            phases: Phase::ALL.iter().map(|p| p.name().to_string()).collect(),
            by_rank: ranks.into_iter().enumerate().map(part).collect(),
        }
    }

    #[test]
    fn the_rank_that_came_last_and_the_time_that_others_waited_for_it_are_told() {
        // Rank 1 comes last to the first call; rank 0 waits 50 longer than for that, rank 2 not at all. In the second nobody waits.
        let document = document(vec![
            (vec![total("sync", 2, 0, 500)], vec![[0, 100, 400, 350, 0], [0, 600, 10, 0, 0]]),
            (vec![total("get_size", 9, 0, 1), total("sync", 2, 0, 90)], vec![[1, 400, 80, 0, 0], [1, 500, 10, 0, 0]]),
            (vec![total("sync", 2, 0, 90)], vec![[0, 300, 80, 0, 0], [0, 700, 10, 0, 0]]),
        ]);
        document.check().unwrap();
        let calls = collective(&document);
        let told: Vec<_> = calls.iter().map(|c| (c.number, c.begin, c.last, c.apart, c.waited)).collect();
        assert_eq!(told, [(0, 100, 1, 300, 300), (2, 500, 2, 200, 0)]);
        let rows: Vec<_> = last_ranks(&[document.clone(), document.clone()])
            .into_iter()
            .map(|row| (row.rank, row.calls, row.apart, row.waited))
            .collect();
        assert_eq!(rows, [(1, 2, 300, 600), (2, 2, 200, 0)]);
        let rows = super::rows(&[document]);
        let told: Vec<_> = rows.iter().map(|r| (r.name.as_str(), r.min, r.median, r.max, r.slowest, r.calls)).collect();
        assert_eq!(told, [("sync", 90, 90, 500, 0, 6), ("get_size", 0, 0, 1, 1, 9)]);
    }

    #[test]
    fn a_call_that_ranks_disagree_on_is_left_out() {
        let one = || (vec![total("sync", 1, 0, 5)], vec![[0, 100, 5, 5, 0]]);
        let other = || (vec![total("close", 1, 0, 5)], vec![[0, 200, 5, 5, 0]]);
        assert_eq!(collective(&document(vec![one(), other()])), []);
        assert_eq!(collective(&document(vec![one(), one()])).len(), 1);
    }

    #[test]
    fn many_collective_calls_are_thinned_out_alike_and_totals_stay_exact() {
        let log = CallLog::new(Recorder::new(Instant::now()));
        for i in 0..10_000u64 {
            let begin = Begin { at: i as i64, waited: 0 };
            log.ends(begin, "write_at_all", true, 3);
            if i % 7 == 0 {
                log.ends(begin, "get_size", false, 0);
            }
        }
        let mut calls = log.finish();
        assert_eq!((calls.totals[0].calls, calls.totals[0].bytes), (10_000, 30_000));
        assert!(calls.collective.len() <= 2 * MOST_CALLS);
        let numbers = |calls: &Calls| calls.collective.iter().map(|call| call[1] as u64).collect::<Vec<_>>();
        let every = |calls: &Calls| (0..calls.collective.len() as u64).map(|i| i * calls.every).collect::<Vec<_>>();
        assert_eq!(numbers(&calls), every(&calls));
        calls.shorten(10);
        assert!(calls.collective.len() <= 10 && calls.collective.len() > 4);
        assert_eq!(numbers(&calls), every(&calls));
    }
}
