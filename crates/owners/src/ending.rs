//! The end of a window, as numbers: who has ended its part, how many bytes each owner gets, and what the owners report.
//!
//! Each rank adds up, for each owner, the bytes that it and the ranks below it in the tree wrote, and sends the sums to its parent when
//! all of them have ended their part. Rank 0 then knows how many bytes each owner gets, and tells it. An owner that has written as many
//! reports to rank 0, which makes one [`Outcome`] of all reports and sends it down the tree. These are two messages for each rank and
//! two for each owner, and no rank waits inside a call.

use crate::gather::Count;
use std::collections::{BTreeMap, BTreeSet};
use thalweg_comm::outcome::ErrorReport;
use thalweg_comm::tree::Node;
use thalweg_types::{Error, ErrorKind};

/// Sums of one rank and the ranks below it in the tree.
#[derive(Debug)]
pub struct Ending {
    /// Children, and this rank, that have not ended their part.
    waits_for: BTreeSet<u32>,
    /// Bytes by the number of their owner.
    bytes: BTreeMap<u32, u64>,
    /// The lowest rank that started a different window.
    differs: Option<u32>,
}

/// The sums of a rank and all ranks below it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Sums {
    /// Bytes by the number of their owner.
    pub bytes: BTreeMap<u32, u64>,
    /// The lowest rank that started a different window.
    pub differs: Option<u32>,
}

impl Ending {
    /// Of the rank at this position of the tree.
    pub fn new(node: &Node) -> Ending {
        let waits_for = node.children.iter().map(|child| child.start).chain([node.ranks.start]).collect();
        Ending { waits_for, bytes: BTreeMap::new(), differs: None }
    }

    /// A rank, this one or a child, has ended: its sums count. A second end of the same rank is ignored.
    pub fn ended(&mut self, rank: u32, sums: Sums) {
        if !self.waits_for.remove(&rank) {
            return;
        }
        for (owner, bytes) in sums.bytes {
            let sum = self.bytes.entry(owner).or_default();
            *sum = sum.saturating_add(bytes);
        }
        self.differs = self.differs.into_iter().chain(sums.differs).min();
    }

    /// The ranks that have not ended.
    pub fn waits_for(&self) -> &BTreeSet<u32> {
        &self.waits_for
    }

    /// The sums so far.
    pub fn sums(&self) -> Sums {
        Sums { bytes: self.bytes.clone(), differs: self.differs }
    }

    /// Bytes for an owner, so far.
    pub fn bytes_for(&self, owner: u32) -> u64 {
        self.bytes.get(&owner).copied().unwrap_or(0)
    }
}

/// What an owner reports.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Report {
    /// Bytes received.
    pub received: u64,
    /// Bytes that no rank wrote.
    pub missing: Count,
    /// Bytes that were written more than once.
    pub repeated: Count,
    /// Highest number in the order of writes ([`thalweg_layout::WriteObject::order`]).
    pub order: u64,
    /// An encoded [`ErrorReport`]; empty if all bytes are written.
    pub failure: Vec<u8>,
}

/// How a window ended, the same on all ranks.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Outcome {
    /// Bytes received from all ranks.
    pub bytes: u64,
    /// Later writes are ordered behind this number.
    pub order: u64,
    /// The rank that found the failure.
    pub by: u32,
    /// Ranks of the owners that failed, or did not report, ascending: their bytes may not be written. All, if some were told not to wait
    /// for bytes any longer.
    pub failed: Vec<u32>,
    /// Whether the owners were told so.
    pub overdue: bool,
    /// An encoded [`ErrorReport`]; empty for success.
    pub failure: Vec<u8>,
}

/// What rank 0 knows when it decides.
#[derive(Debug)]
pub struct Known<'k> {
    /// Reports, by rank of the owner.
    pub reports: &'k BTreeMap<u32, Report>,
    /// Ranks of the owners, whether they reported or not.
    pub owners: &'k [u32],
    /// Ranks that did not end their part within the time limit.
    pub late: Vec<u32>,
    /// Whether the owners were told not to wait any longer.
    pub overdue: bool,
    /// The lowest rank that started a different window.
    pub differs: Option<u32>,
    /// Whether bytes that no rank wrote are allowed.
    pub holes: bool,
}

/// The outcome of a window. Of several failures the first of this list counts: ranks that started different windows; a failed write;
/// an owner that did not report; ranks that did not end their part; bytes that did not come in time; repeated bytes; missing bytes. Among owners, the lowest rank's.
pub fn decide(known: &Known<'_>) -> Outcome {
    let failed = |rank: &u32| known.overdue || known.reports.get(rank).is_none_or(|report| !report.failure.is_empty());
    let mut outcome = Outcome {
        bytes: known.reports.values().map(|report| report.received).sum(),
        order: known.reports.values().map(|report| report.order).max().unwrap_or(0),
        overdue: known.overdue,
        failed: known.owners.iter().copied().filter(failed).collect(),
        ..Outcome::default()
    };
    outcome.failed.sort_unstable();
    if let Some((by, failure)) = failure(known) {
        (outcome.by, outcome.failure) = (by, failure);
    }
    outcome
}

fn failure(known: &Known<'_>) -> Option<(u32, Vec<u8>)> {
    let encoded = |error: Error| ErrorReport::of(&error).encode();
    if let Some(rank) = known.differs {
        let what = format!("rank {rank} started a window of other bytes or options than rank 0");
        return Some((0, encoded(Error::new(ErrorKind::InvalidArgument, what))));
    }
    if let Some((rank, report)) = known.reports.iter().find(|(_, report)| !report.failure.is_empty()) {
        return Some((*rank, report.failure.clone()));
    }
    let (missing_at, missing) = sum(known.reports, |report| report.missing);
    let holes = match missing.bytes {
        0 => String::new(),
        bytes => format!("; {bytes} bytes are missing, the first at {}", missing.first),
    };
    if let Some(rank) = known.owners.iter().filter(|rank| !known.reports.contains_key(rank)).min() {
        let what = format!("rank {rank}, an owner, did not report that its bytes are written{holes}");
        return Some((0, encoded(Error::new(ErrorKind::Timeout, what))));
    }
    if !known.late.is_empty() {
        let what = format!("{} did not end their part of the window within the time limit{holes}", named(&known.late));
        return Some((0, encoded(Error::new(ErrorKind::Timeout, what))));
    }
    if known.overdue && missing.bytes > 0 {
        let what = format!(
            "all ranks have ended their part, but not all bytes reached the owners within the time limit{holes}"
        );
        return Some((0, encoded(Error::new(ErrorKind::Timeout, what))));
    }
    let (repeated_at, repeated) = sum(known.reports, |report| report.repeated);
    if let Some(rank) = repeated_at {
        let what = format!("{} bytes of the window were written more than once{holes}", repeated.bytes);
        return Some((rank, encoded(Error::new(ErrorKind::InvalidArgument, what).at_byte(repeated.first))));
    }
    missing_at.filter(|_| !known.holes).map(|rank| {
        let what = format!("{} bytes of the window were written by no rank", missing.bytes);
        (rank, encoded(Error::new(ErrorKind::InvalidArgument, what).at_byte(missing.first)))
    })
}

/// Bytes of all owners, the first by offset, and the rank whose byte that is.
fn sum(reports: &BTreeMap<u32, Report>, of: impl Fn(&Report) -> Count) -> (Option<u32>, Count) {
    let (mut at, mut all) = (None, Count::default());
    for (rank, count) in reports.iter().map(|(rank, report)| (*rank, of(report))).filter(|(_, count)| count.bytes > 0) {
        if at.is_none() || count.first < all.first {
            (at, all.first) = (Some(rank), count.first);
        }
        all.bytes += count.bytes;
    }
    (at, all)
}

fn named(ranks: &[u32]) -> String {
    let shown: Vec<String> = ranks.iter().take(8).map(u32::to_string).collect();
    let more = ranks.len() - shown.len();
    let word = if ranks.len() == 1 { "rank" } else { "ranks" };
    let rest = if more > 0 { format!(" and {more} more") } else { String::new() };
    format!("{word} {}{rest}", shown.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use thalweg_comm::tree;

    fn reports(list: &[(u32, Report)]) -> BTreeMap<u32, Report> {
        list.iter().cloned().collect()
    }

    fn kind(outcome: &Outcome) -> (u32, Error) {
        (outcome.by, ErrorReport::decode(&outcome.failure).expect("a failure").error(outcome.by, 9))
    }

    #[test]
    fn sums_reach_rank_0_when_all_ranks_have_ended_in_any_order() {
        for (ranks, fan_in) in [(1, 64), (2, 64), (65, 64), (200, 3)] {
            let nodes: Vec<tree::Node> = (0..ranks).map(|rank| tree::node(rank, ranks, fan_in)).collect();
            let mut endings: Vec<Ending> = nodes.iter().map(Ending::new).collect();
            for step in 0..ranks {
                assert!(!endings[0].waits_for().is_empty(), "{ranks} ranks after {step}");
                let mut rank = (step * 7 + 3) % ranks;
                let mut from = rank;
                let own = BTreeMap::from([(rank % 5, u64::from(rank) + 1)]);
                let mut sums = Sums { bytes: own, differs: (rank % 90 == 77).then_some(rank) };
                loop {
                    endings[rank as usize].ended(from, sums.clone());
                    endings[rank as usize].ended(from, sums.clone());
                    let Some(parent) = nodes[rank as usize].parent else { break };
                    if !endings[rank as usize].waits_for().is_empty() {
                        break;
                    }
                    sums = endings[rank as usize].sums();
                    (from, rank) = (rank, parent);
                }
            }
            assert!(endings[0].waits_for().is_empty(), "{ranks} ranks");
            for owner in 0..5 {
                let expected = (0..ranks).filter(|rank| rank % 5 == owner).map(|rank| u64::from(rank) + 1).sum::<u64>();
                assert_eq!(endings[0].bytes_for(owner), expected);
            }
            assert_eq!(endings[0].sums().differs, (ranks > 77).then_some(77));
        }
    }

    #[test]
    fn success_needs_every_owner_and_every_byte() {
        let fine = Report { received: 10, order: 3, ..Report::default() };
        let all = reports(&[(0, fine.clone()), (4, Report { order: 7, ..fine.clone() })]);
        let known = |owners, late: &[u32]| Known {
            reports: &all,
            owners,
            late: late.to_vec(),
            overdue: false,
            differs: None,
            holes: false,
        };
        assert_eq!(
            decide(&known(&[0, 4], &[])),
            Outcome { bytes: 20, order: 7, by: 0, failed: vec![], overdue: false, failure: vec![] }
        );
        let (_, e) = kind(&decide(&known(&[0, 4, 8], &[2])));
        assert_eq!(e.kind(), ErrorKind::Timeout);
        assert!(e.what().contains("rank 8, an owner"), "{e}");
        let (_, e) = kind(&decide(&known(&[0, 4], &[2, 3])));
        assert!(e.kind() == ErrorKind::Timeout && e.what().contains("ranks 2, 3 did not end"), "{e}");
    }

    #[test]
    fn the_gravest_failure_counts_and_names_the_first_byte() {
        let count = |bytes, first| Count { bytes, first };
        let hole = Report { missing: count(5, 900), ..Report::default() };
        let earlier_hole = Report { missing: count(2, 100), ..Report::default() };
        let twice = Report { repeated: count(3, 40), ..Report::default() };
        let full = ErrorReport::of(&Error::new(ErrorKind::NoSpace, "cannot write").at_byte(77)).encode();
        let full = Report { failure: full, ..Report::default() };
        let owners = [1, 2, 3];
        let outcome = |list: &[(u32, Report)]| {
            let all = reports(list);
            decide(&Known {
                reports: &all,
                owners: &owners[..list.len()],
                late: vec![],
                overdue: false,
                differs: None,
                holes: false,
            })
        };
        let (by, e) = kind(&outcome(&[(1, hole.clone()), (2, earlier_hole.clone())]));
        assert_eq!((by, e.kind(), e.place().byte), (2, ErrorKind::InvalidArgument, Some(100)));
        assert!(e.what().contains("7 bytes of the window were written by no rank"), "{e}");
        let (by, e) = kind(&outcome(&[(1, hole.clone()), (2, twice.clone())]));
        assert_eq!((by, e.place().byte), (2, Some(40)));
        assert!(e.what().contains("more than once; 5 bytes are missing, the first at 900"), "{e}");
        let (by, e) = kind(&outcome(&[(1, hole), (2, twice), (3, full)]));
        assert_eq!((by, e.kind(), e.place().byte), (3, ErrorKind::NoSpace, Some(77)));
        let all = reports(&[(1, earlier_hole)]);
        let (_, e) = kind(&decide(&Known {
            reports: &all,
            owners: &[1],
            late: vec![],
            overdue: true,
            differs: None,
            holes: false,
        }));
        assert!(e.kind() == ErrorKind::Timeout && e.what().contains("not all bytes reached the owners"), "{e}");
        let (_, e) = kind(&decide(&Known {
            reports: &all,
            owners: &[1],
            late: vec![5],
            overdue: true,
            differs: Some(6),
            holes: false,
        }));
        assert!(e.what().contains("rank 6 started a window"), "{e}");
    }
}
