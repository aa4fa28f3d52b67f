//! Slots: places in a shared file that ranks are given at open, where their last output says how large this one will be.
//!
//! A rank that knows its place writes large blocks from the program's memory at once; without it they are copied and wait
//! for close. A slot costs one scan at open, so none is asked for where outputs are small, and none where a rank's size
//! changes: it is *steady* when the program tells it beforehand ([`crate::Pack::expect`]) or two outputs had nearly the
//! same.
//!
//! | at close | done |
//! |---|---|
//! | the group fits its slot | it lies there, filled up with zeros where it is a little shorter |
//! | it does not, on some ranks | these write behind all slots, as without; theirs stay empty |

use super::memory::Memory;
use crate::pack::Reach;
use crate::plan;
use std::collections::HashMap;
use thalweg_comm::{Communicator, Reduce};
use thalweg_types::{Extent, Result};

/// Bytes of an output, as a mean over the ranks, from which it is worth a scan at open.
const WORTH: u64 = 4 << 20;
/// Most zeros that are written behind a group to fill its slot; behind larger gaps a scan has to search.
const FILLED: u64 = 1 << 20;

/// What a rank's last output of a group was like.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Last {
    size: u64,
    /// What the program said beforehand; 0: nothing.
    expected: u64,
    steady: bool,
    /// All ranks' together was large.
    large: bool,
}

/// The last output of each group, as one rank of a communicator remembers it.
#[derive(Debug, Default)]
pub struct Sizes(HashMap<(String, u32, u32), Last>);

impl Memory for Sizes {}

/// A rank's place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Slot {
    extent: Extent,
    expected: u64,
}

fn key(group: &str, comm: &dyn Communicator) -> (String, u32, u32) {
    (group.to_string(), comm.rank(), comm.size())
}

impl Sizes {
    /// Whether slots are worth their scan. Rank 0's answer counts.
    pub fn are_large(&self, group: &str, comm: &dyn Communicator) -> bool {
        self.0.get(&key(group, comm)).is_some_and(|last| last.large)
    }

    /// What this rank's slot is to be like: bytes (0: it needs none), and what the program said for that.
    pub fn wanted(&self, group: &str, comm: &dyn Communicator) -> (u64, u64) {
        self.0.get(&key(group, comm)).filter(|last| last.steady).map_or((0, 0), |last| (last.size, last.expected))
    }

    /// Remembers an output that all ranks closed.
    ///
    /// - `size`: bytes of this rank's group; `expected`: what the program said; `fitted`: it fitted its slot, or there was
    ///   none; `all`: bytes of all ranks.
    pub fn note(&mut self, group: &str, comm: &dyn Communicator, size: u64, expected: u64, fitted: bool, all: u64) {
        let key = key(group, comm);
        // Attributes are written once, so that the second output is a little shorter than the first.
        let same = self.0.get(&key).and_then(|last| last.size.checked_sub(size)).is_some_and(|less| less <= FILLED);
        let large = all / u64::from(comm.size().max(1)) >= WORTH;
        self.0.insert(key, Last { size, expected, steady: fitted && (expected > 0 || same), large });
    }

    /// Forgets a group's last output: it failed.
    pub fn forget(&mut self, group: &str, comm: &dyn Communicator) {
        self.0.remove(&key(group, comm));
    }
}

impl Slot {
    /// Collective: gives each rank its slot, one behind the other from `base` on. `wanted`: as [`Sizes::wanted`] says.
    ///
    /// # Errors
    /// A lost rank.
    pub fn give(comm: &dyn Communicator, base: u64, wanted: (u64, u64)) -> Result<Option<Slot>> {
        let before = comm.exclusive_scan(wanted.0)?;
        // Sizes that leave the file: no slots, and close says so.
        let place = plan::shared(comm.rank(), base, before, wanted.0).ok().filter(|p| p.extent.length > 0);
        Ok(place.map(|p| Slot { extent: p.extent, expected: wanted.1 }))
    }

    /// The whole slot.
    pub fn extent(&self) -> Extent {
        self.extent
    }

    /// First byte.
    pub fn start(&self) -> u64 {
        self.extent.offset
    }

    /// Whether what will be written is what was written last, so that blocks may go there before its size is known.
    pub fn expects(&self, reach: &Reach) -> bool {
        reach.expected == self.expected && self.holds(reach.length)
    }

    /// Whether a group of so many bytes fits.
    pub fn holds(&self, length: u64) -> bool {
        length <= self.extent.length
    }

    /// First byte behind it.
    fn end(&self) -> u64 {
        self.extent.offset + self.extent.length
    }

    /// Where a group of so many bytes lies in it.
    fn place(&self, length: u64) -> Extent {
        let filled = self.extent.length - length <= FILLED;
        Extent::new(self.extent.offset, if filled { self.extent.length } else { length })
    }
}

/// Collective: where this rank's group lies, all slots considered. `slot`: this rank's; `size`: bytes of its group, 0 where
/// it has none.
///
/// # Errors
/// Outside a lost rank, inside a place that leaves the file. After a loss what lies in a slot may be written there.
pub fn place(comm: &dyn Communicator, base: u64, slot: Option<&Slot>, size: u64) -> Result<Result<Extent>> {
    let fits = slot.filter(|s| s.holds(size));
    let behind = if fits.is_some() { 0 } else { size };
    let told = comm.all_reduce(&[slot.map_or(base, Slot::end), u64::from(behind > 0)], Reduce::Max)?;
    let before = if told[1] > 0 { comm.exclusive_scan(behind)? } else { 0 };
    Ok(match fits {
        Some(slot) => Ok(slot.place(size)),
        None => plan::shared(comm.rank(), told[0], before, size).map(|p| p.extent),
    })
}

/// Where this rank's group lies without asking anybody, where that is known.
pub fn own_place(slot: Option<&Slot>, size: u64) -> Option<Extent> {
    slot.filter(|s| s.holds(size)).map(|s| s.place(size))
}

#[cfg(test)]
mod tests {
    use super::*;
    use thalweg_comm::threads;

    #[test]
    fn a_size_is_steady_when_told_or_seen_twice() {
        let comm = thalweg_comm::alone::Alone::new();
        let mut sizes = Sizes::default();
        assert_eq!(sizes.wanted("g", &comm), (0, 0));
        sizes.note("g", &comm, 100 << 20, 0, true, 100 << 20);
        assert_eq!(sizes.wanted("g", &comm), (0, 0));
        sizes.note("g", &comm, 100 << 20, 0, true, 100 << 20);
        assert_eq!(sizes.wanted("g", &comm), (100 << 20, 0));
        assert!(sizes.are_large("g", &comm) && !sizes.are_large("h", &comm));
        // It has grown: its slot was too small, so that another is not asked for at once.
        sizes.note("g", &comm, 101 << 20, 7, false, 101 << 20);
        assert_eq!(sizes.wanted("g", &comm), (0, 0));
        sizes.note("g", &comm, 90 << 20, 7, true, 90 << 20);
        assert_eq!(sizes.wanted("g", &comm), (90 << 20, 7));
        sizes.note("g", &comm, 100, 7, true, 100);
        assert!(!sizes.are_large("g", &comm));
    }

    #[test]
    fn groups_that_do_not_fit_lie_behind_all_slots_and_nothing_overlaps() {
        let sizes = [10u64, 0, 3000, 7, 40];
        let slots = [10u64, 20, 2000, 0, 40];
        let places = threads::run(5, |comm| {
            let r = comm.rank() as usize;
            let slot = Slot::give(&comm, 100, (slots[r], 0)).unwrap();
            place(&comm, 100, slot.as_ref(), sizes[r]).unwrap().unwrap()
        });
        let end_of_slots = 100 + slots.iter().sum::<u64>();
        assert_eq!(places[0], Extent::new(100, 10));
        assert_eq!(places[2], Extent::new(end_of_slots, 3000));
        assert_eq!(places[3], Extent::new(end_of_slots + 3000, 7));
        for (i, a) in places.iter().enumerate() {
            for b in &places[..i] {
                assert!(a.length == 0 || b.length == 0 || !a.meets(*b), "{a:?} {b:?}");
            }
        }
    }

    #[test]
    fn a_group_a_little_shorter_than_its_slot_fills_it() {
        let slot = Slot { extent: Extent::new(0, 5 << 20), expected: 0 };
        assert_eq!(slot.place((5 << 20) - 10), slot.extent);
        assert_eq!(slot.place(1 << 20), Extent::new(0, 1 << 20));
    }
}
