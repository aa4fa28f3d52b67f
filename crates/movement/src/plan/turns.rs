//! Turns: the order in which ranks open and write, which limits the load of the metadata server and of each storage target.
//!
//! | operation | turn |
//! |---|---|
//! | open of one shared file | rank 0, then at most [`OPENS_AT_ONCE`] ranks at a time |
//! | open of several files | the ranks of a file one after the other; files start one turn apart, so that each turn has at most one open per file, and the first turns have few |
//! | write | the ranks of a target in the order of their position, `writers_per_target` per turn |
//!
//! Turns do not depend on clocks: a rank's turn begins with a message from a rank of the preceding turn.
//!
//! Source: Lofstead et al., CUG 2009: serialised and staggered opens, a bounded number of writers per target.

use super::stripes::Striped;

/// Most ranks that open a shared file at a time. A metadata server has this many requests in hand at any time on a machine with
/// thousands of ranks; and on few ranks, no rank waits for another one but rank 0.
pub const OPENS_AT_ONCE: u32 = 16;

/// Whose open a rank waits for before it opens the shared file; `None` for rank 0.
pub fn opens_shared_after(rank: u32) -> Option<u32> {
    (rank > 0).then(|| rank.saturating_sub(OPENS_AT_ONCE))
}

/// The ranks that wait for this rank's open of the shared file.
///
/// - `ranks`: size of the communicator.
pub fn opens_shared_before(rank: u32, ranks: u32) -> Vec<u32> {
    let last = rank.saturating_add(OPENS_AT_ONCE);
    let first = if rank == 0 { 1 } else { last };
    (first..=last).filter(|waiting| *waiting < ranks).collect()
}

/// The turn in which a rank opens its file.
pub fn opening(striped: &Striped, rank: u32) -> u32 {
    striped.file(rank).saturating_add(striped.place_in_file(rank))
}

/// The rank that opens before this one: its predecessor in the file; for a file's first rank, the first rank of the preceding
/// file.
pub fn opens_after(striped: &Striped, rank: u32) -> Option<u32> {
    rank.checked_sub(if rank < striped.files { 1 } else { striped.files })
}

/// The ranks that open after this one.
pub fn opens_before(striped: &Striped, rank: u32) -> Vec<u32> {
    let first_of_next_file = rank.checked_add(1).filter(|next| *next < striped.files);
    let next_of_file = rank.checked_add(striped.files);
    first_of_next_file.into_iter().chain(next_of_file).filter(|r| *r < striped.ranks).collect()
}

/// The turn in which a rank writes.
///
/// - `writers_per_target`: most concurrent writers at a target; 0: no limit.
pub fn writing(striped: &Striped, rank: u32, writers_per_target: u32) -> u32 {
    if writers_per_target == 0 {
        return 0;
    }
    place_at_target(striped, rank) / writers_per_target
}

/// Position of a rank among the ranks of its target, ordered by position in the file, then by file.
fn place_at_target(striped: &Striped, rank: u32) -> u32 {
    let file = striped.file(rank);
    let target = striped.target(file);
    let others = (striped.files.saturating_sub(target)).div_ceil(striped.targets);
    striped.place_in_file(rank).saturating_mul(others).saturating_add(file / striped.targets)
}

/// The rank whose completion begins this rank's turn; `None` if the rank may write immediately.
pub fn after(striped: &Striped, rank: u32, writers_per_target: u32) -> Option<u32> {
    let place = place_at_target(striped, rank);
    let before = place.checked_sub(writers_per_target).filter(|_| writers_per_target > 0)?;
    Some(at_target(striped, striped.target(striped.file(rank)), before)).filter(|r| *r < striped.ranks)
}

/// The rank at a position of a target.
fn at_target(striped: &Striped, target: u32, place: u32) -> u32 {
    let others = (striped.files.saturating_sub(target)).div_ceil(striped.targets).max(1);
    let file = target + (place % others) * striped.targets;
    (place / others).saturating_mul(striped.files).saturating_add(file)
}

/// The rank that waits for this rank's completion, if any.
pub fn before(striped: &Striped, rank: u32, writers_per_target: u32) -> Option<u32> {
    let place = place_at_target(striped, rank);
    let next = place.checked_add(writers_per_target).filter(|_| writers_per_target > 0)?;
    Some(at_target(striped, striped.target(striped.file(rank)), next)).filter(|r| *r < striped.ranks)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::File;
    use proptest::prelude::*;
    use std::collections::HashMap;
    use thalweg_types::Extent;

    #[test]
    fn at_most_so_many_ranks_open_a_shared_file_at_a_time_and_each_waits_for_one() {
        for ranks in [1, 2, 16, 17, 18, 33, 1000, 20_000] {
            let mut waits_for = vec![None; ranks as usize];
            for rank in 0..ranks {
                for waiting in opens_shared_before(rank, ranks) {
                    assert_eq!(waits_for[waiting as usize].replace(rank), None, "rank {waiting} of {ranks}");
                }
            }
            // The turn of each rank, if every open takes one.
            let mut turns = vec![0; ranks as usize];
            let mut opens = vec![0; ranks as usize];
            for rank in 0..ranks {
                assert_eq!(waits_for[rank as usize], opens_shared_after(rank), "rank {rank} of {ranks}");
                turns[rank as usize] = opens_shared_after(rank).map_or(0, |before| turns[before as usize] + 1);
                opens[turns[rank as usize]] += 1;
            }
            assert!(opens.iter().all(|opens| *opens <= OPENS_AT_ONCE));
            assert_eq!(opens[0], 1);
            assert_eq!(turns.iter().max(), Some(&((ranks - 1).div_ceil(OPENS_AT_ONCE) as usize)));
        }
    }

    #[test]
    fn opens_of_one_file_are_one_after_the_other_and_files_staggered() {
        let striped = Striped::new(12, 4, 4, 1).unwrap();
        let turns: Vec<u32> = (0..12).map(|rank| opening(&striped, rank)).collect();
        assert_eq!(turns, [0, 1, 2, 3, 1, 2, 3, 4, 2, 3, 4, 5]);
    }

    #[test]
    fn a_hundred_and_forty_thousand_ranks_over_672_targets_rank_by_rank() {
        const RANKS: u32 = 140_000;
        const BYTES: u64 = 8_000_000;
        const STRIPE: u64 = 8_060_928;
        // A file on each target, and files that go round: targets 0 to 327 have two.
        for (files, at_target) in [(672, 1), (1000, 2)] {
            let striped = Striped::new(RANKS, files, 672, BYTES).unwrap();
            let mut ends = vec![0; files as usize];
            let mut writers: HashMap<(u32, u32), u32> = HashMap::new();
            for rank in 0..RANKS {
                let (file, place) = (rank % files, rank / files);
                let turn = writing(&striped, rank, 2);
                let placed = striped.place(rank, 0, BYTES, turn).unwrap();
                assert_eq!((placed.rank, placed.file), (rank, File::Subfile(file)));
                assert_eq!(placed.extent, Extent::new(u64::from(place) * STRIPE, BYTES), "rank {rank}");
                assert_eq!(placed.extent.offset, ends[file as usize], "rank {rank}");
                ends[file as usize] += STRIPE;
                let target = if file < 672 { file } else { file - 672 };
                assert_eq!(striped.target(file), target);
                // Two write to a target at a time: of the same file, or one of each of its two files.
                let two = at_target == 2 && target < 328;
                assert_eq!(turn, if two { place } else { place / 2 }, "rank {rank}");
                assert_eq!(opening(&striped, rank), file + place);
                *writers.entry((target, turn)).or_default() += 1;
            }
            // 140,000 is 208 times 672 and 224 more; 140 times 1000.
            for (file, end) in (0u32..).zip(&ends) {
                let ranks = if files == 1000 { 140 } else { 208 + u64::from(file < 224) };
                assert_eq!(*end, ranks * STRIPE, "file {file}");
            }
            assert!(writers.values().all(|n| *n <= 2));
            let last = (0..RANKS).map(|rank| writing(&striped, rank, 2)).max();
            assert_eq!(last, Some(if files == 1000 { 139 } else { 104 }));
            let last = (0..RANKS).map(|rank| opening(&striped, rank)).max();
            assert_eq!(last, Some(if files == 1000 { 999 + 139 } else { 671 + 207 }));
        }
    }

    proptest! {
        #[test]
        fn a_target_has_no_more_writers_in_a_turn_than_may_and_all_get_one(ranks in 1u32..5000, files in 1u32..200, targets in 1u32..100, most in 1u32..6) {
            let striped = Striped::new(ranks, files, targets, 1).unwrap();
            let mut writers: HashMap<(u32, u32), u32> = HashMap::new();
            let mut openings: HashMap<(u32, u32), u32> = HashMap::new();
            let mut places = std::collections::HashSet::new();
            for rank in 0..ranks {
                let target = striped.target(striped.file(rank));
                *writers.entry((target, writing(&striped, rank, most))).or_default() += 1;
                *openings.entry((striped.file(rank), opening(&striped, rank))).or_default() += 1;
                let place = place_at_target(&striped, rank);
                prop_assert!(places.insert((target, place)));
                prop_assert_eq!(at_target(&striped, target, place), rank);
                match opens_after(&striped, rank) {
                    None => prop_assert_eq!((rank, opening(&striped, rank)), (0, 0)),
                    Some(other) => {
                        prop_assert!(opens_before(&striped, other).contains(&rank));
                        prop_assert_eq!(opening(&striped, other) + 1, opening(&striped, rank));
                    }
                }
                let waiting = opens_before(&striped, rank);
                prop_assert!(waiting.iter().all(|other| opens_after(&striped, *other) == Some(rank)), "{:?}", waiting);
                match after(&striped, rank, most) {
                    Some(other) => {
                        prop_assert_eq!(before(&striped, other, most), Some(rank));
                        prop_assert_eq!(writing(&striped, other, most) + 1, writing(&striped, rank, most));
                    }
                    // Either the first turn, or a place before it that no rank has.
                    None => prop_assert!(writing(&striped, rank, most) == 0),
                }
            }
            prop_assert!(writers.values().all(|n| *n <= most));
            prop_assert!(openings.values().all(|n| *n == 1));
        }
    }
}
