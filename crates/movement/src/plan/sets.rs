//! Sets of ranks that share an *aggregator*: the other ranks of a set pass their data to it.
//!
//! | question | answer |
//! |---|---|
//! | ranks per set | the smallest number for which there are at most as many sets as aggregators; all sets but the last have this size |
//! | the aggregator | the first rank of each set |
//! | order of data in the aggregator's file | the order of the set's ranks |
//! | with known nodes | a set takes ranks of one node first; aggregators are spread evenly over nodes |
//!
//! Source: Lofstead et al., CUG 2009: 30,000 ranks over 442 writers, 67 passers each and 11 for the last.

use std::ops::Range;

/// Sets of consecutive ranks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sets {
    ranks: u32,
    size: u32,
}

impl Sets {
    /// - `ranks`: number of ranks; `writers`: most aggregators (0 counts as 1).
    pub fn new(ranks: u32, writers: u32) -> Sets {
        Sets { ranks, size: ranks.div_ceil(writers.clamp(1, ranks.max(1))).max(1) }
    }

    /// Number of sets, which is at most `writers`.
    pub fn count(&self) -> u32 {
        self.ranks.div_ceil(self.size)
    }

    /// The set of a rank.
    pub fn of(&self, rank: u32) -> u32 {
        rank / self.size
    }

    /// The ranks of a set, its aggregator first.
    pub fn members(&self, set: u32) -> Range<u32> {
        let first = set.saturating_mul(self.size).min(self.ranks);
        first..first.saturating_add(self.size).min(self.ranks)
    }

    /// The aggregator of a set.
    pub fn writer(&self, set: u32) -> u32 {
        self.members(set).start
    }

    /// Number of ranks that pass data to a set's aggregator.
    pub fn passers(&self, set: u32) -> u32 {
        (self.members(set).len() as u32).saturating_sub(1)
    }
}

/// A rank's part in its set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Role {
    /// Number of sets.
    pub sets: u32,
    /// The rank's set.
    pub set: u32,
    /// The ranks of the set, its writer first.
    pub members: Vec<u32>,
    /// Whether the rank is the writer.
    pub writes: bool,
}

impl Role {
    /// - `nodes`: node of each rank; `writers`: most sets.
    pub fn of(rank: u32, nodes: &[u32], writers: u32) -> Role {
        let order = by_node(nodes);
        let sets = Sets::new(nodes.len() as u32, writers);
        let place = order.iter().position(|r| *r == rank).unwrap_or(0) as u32;
        let set = sets.of(place);
        let members: Vec<u32> = sets.members(set).map(|place| order[place as usize]).collect();
        Role { sets: sets.count(), set, writes: members.first() == Some(&rank), members }
    }

    /// Position of a rank among the members.
    pub fn place_of(&self, rank: u32) -> u32 {
        self.members.iter().position(|member| *member == rank).unwrap_or(0) as u32
    }
}

/// All ranks ordered by node, then by rank; nodes are in the order of their first rank. [`Sets`] over positions in this order
/// contain ranks of one node first.
///
/// - `nodes`: node of each rank.
pub fn by_node(nodes: &[u32]) -> Vec<u32> {
    let mut first: std::collections::HashMap<u32, u32> = std::collections::HashMap::new();
    for (rank, node) in nodes.iter().enumerate() {
        first.entry(*node).or_insert(rank as u32);
    }
    let mut order: Vec<u32> = (0..nodes.len() as u32).collect();
    order.sort_by_key(|rank| (first[&nodes[*rank as usize]], *rank));
    order
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::shared_by_all;
    use proptest::prelude::*;
    use thalweg_types::Extent;

    #[test]
    fn thirty_thousand_ranks_over_442_writers_as_published() {
        let sets = Sets::new(30_000, 442);
        assert_eq!(sets.count(), 442);
        assert!((0..441).all(|set| sets.passers(set) == 67));
        assert_eq!(sets.passers(441), 11);
        assert_eq!(sets.members(441), 29_988..30_000);
        // 8 MB a rank, one behind the other in the writer's file.
        const RANK: u64 = 8_000_000;
        let mut bytes = 0;
        for set in 0..442 {
            let members: Vec<u32> = sets.members(set).collect();
            let places = shared_by_all(0, &vec![RANK; members.len()]).unwrap();
            for (place, rank) in places.iter().zip(&members) {
                assert_eq!((sets.of(*rank), sets.writer(set)), (rank / 68, rank / 68 * 68));
                assert_eq!(place.extent, Extent::new(u64::from(rank % 68) * RANK, RANK));
            }
            let file = places.last().and_then(|p| p.extent.end()).unwrap();
            assert_eq!(file, if set < 441 { 544_000_000 } else { 96_000_000 });
            bytes += file;
        }
        assert_eq!(bytes, 240_000_000_000);
    }

    #[test]
    fn nodes_are_kept_together_however_ranks_are_dealt_out() {
        // 8 ranks dealt out to 4 nodes in turn.
        let order = by_node(&[0, 1, 2, 3, 0, 1, 2, 3]);
        assert_eq!(order, [0, 4, 1, 5, 2, 6, 3, 7]);
        assert_eq!(by_node(&[7, 7, 7, 7]), [0, 1, 2, 3]);
    }

    proptest! {
        #[test]
        fn every_rank_is_in_one_set_and_no_more_write_than_may(ranks in 1u32..200_000, writers in 0u32..5000) {
            let sets = Sets::new(ranks, writers);
            prop_assert!(sets.count() >= 1 && sets.count() <= writers.max(1));
            let mut next = 0;
            for set in 0..sets.count() {
                let members = sets.members(set);
                prop_assert_eq!(members.start, next);
                prop_assert!(!members.is_empty());
                prop_assert_eq!(sets.of(members.start), set);
                prop_assert_eq!(sets.of(members.end - 1), set);
                prop_assert_eq!(sets.writer(set), members.start);
                next = members.end;
            }
            prop_assert_eq!(next, ranks);
        }
    }
}
