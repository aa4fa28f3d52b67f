//! Slots: extents of a shared file that are assigned to ranks at open, when the last output predicts each rank's size.
//!
//! A rank with a slot writes large blocks immediately from the program's memory; without a slot, blocks are copied and written at
//! close. Slots cost one scan over the ranks at open, so they are not used for small outputs, and a rank whose size varies has
//! none. A rank's size is *steady* if the program announces it ([`crate::Pack::expect`]) or if the last two outputs had nearly the
//! same size.
//!
//! | at close | action |
//! |---|---|
//! | the group fits into its slot | it is written there; a group that is slightly shorter is padded with zeros |
//! | on some ranks it does not fit | these ranks write behind all slots, as they do without slots; their slots stay empty |

use super::memory::Memory;
use crate::pack::Reach;
use crate::plan;
use std::collections::HashMap;
use thalweg_comm::{Communicator, Reduce};
use thalweg_types::{Extent, Result};

/// Smallest output that justifies the scan at open: bytes per rank, averaged over the ranks.
const WORTH: u64 = 4 << 20;
/// Most padding behind a group in its slot. A larger gap is left unwritten; a scan of the file must search it for the next group.
const FILLED: u64 = 1 << 20;

/// A rank's last output of a group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Last {
    size: u64,
    /// Bytes that the program announced; 0: none.
    expected: u64,
    steady: bool,
    /// The output of all ranks together was large.
    large: bool,
}

/// The last output of each group, recorded per rank of a communicator.
#[derive(Debug, Default)]
pub struct Sizes(HashMap<(String, u32, u32), Last>);

impl Memory for Sizes {}

/// A rank's slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Slot {
    extent: Extent,
    expected: u64,
}

fn key(group: &str, comm: &dyn Communicator) -> (String, u32, u32) {
    (group.to_string(), comm.rank(), comm.size())
}

impl Sizes {
    /// Whether the last output was large enough for slots. Rank 0's answer applies to all ranks.
    pub fn are_large(&self, group: &str, comm: &dyn Communicator) -> bool {
        self.0.get(&key(group, comm)).is_some_and(|last| last.large)
    }

    /// The slot that this rank requests: its size in bytes (0: no slot), and the announced bytes for which that size holds.
    pub fn requested(&self, group: &str, comm: &dyn Communicator) -> (u64, u64) {
        self.0.get(&key(group, comm)).filter(|last| last.steady).map_or((0, 0), |last| (last.size, last.expected))
    }

    /// Records an output that all ranks closed.
    ///
    /// - `size`: bytes of this rank's group; `expected`: bytes that the program announced; `fitted`: the group fitted into its slot,
    ///   or the rank had no slot; `all`: bytes of all ranks.
    pub fn note(&mut self, group: &str, comm: &dyn Communicator, size: u64, expected: u64, fitted: bool, all: u64) {
        let key = key(group, comm);
        // The first output also contains the attributes, so that the second one is slightly shorter.
        let same = self.0.get(&key).and_then(|last| last.size.checked_sub(size)).is_some_and(|less| less <= FILLED);
        let large = all / u64::from(comm.size().max(1)) >= WORTH;
        self.0.insert(key, Last { size, expected, steady: fitted && (expected > 0 || same), large });
    }

    /// Discards the record of a group's last output, because the output failed.
    pub fn forget(&mut self, group: &str, comm: &dyn Communicator) {
        self.0.remove(&key(group, comm));
    }
}

impl Slot {
    /// Collective: assigns each rank its slot; the slots are contiguous, in the order of ranks, from `base` on. `requested`: the result
    /// of [`Sizes::requested`].
    ///
    /// # Errors
    /// `PeerLost` or `Timeout` of the collective call.
    pub fn give(comm: &dyn Communicator, base: u64, requested: (u64, u64)) -> Result<Option<Slot>> {
        let before = comm.exclusive_scan(requested.0)?;
        // Slots past the largest file size: no slot; close then reports the error.
        let place = plan::shared(comm.rank(), base, before, requested.0).ok().filter(|p| p.extent.length > 0);
        Ok(place.map(|p| Slot { extent: p.extent, expected: requested.1 }))
    }

    /// The whole slot.
    pub fn extent(&self) -> Extent {
        self.extent
    }

    /// First byte.
    pub fn start(&self) -> u64 {
        self.extent.offset
    }

    /// Whether the output repeats the last one, so that blocks may be written to the slot before the group's size is known: the
    /// announced bytes are the same, and the bytes so far fit.
    pub fn expects(&self, reach: &Reach) -> bool {
        reach.expected == self.expected && self.holds(reach.length)
    }

    /// Whether a group of `length` bytes fits.
    pub fn holds(&self, length: u64) -> bool {
        length <= self.extent.length
    }

    /// First byte behind the slot.
    fn end(&self) -> u64 {
        self.extent.offset + self.extent.length
    }

    /// Extent of a group of `length` bytes in the slot, with its padding.
    fn place(&self, length: u64) -> Extent {
        let filled = self.extent.length - length <= FILLED;
        Extent::new(self.extent.offset, if filled { self.extent.length } else { length })
    }
}

/// Collective: the extent of this rank's group: in its slot if it fits, otherwise behind all slots. `given`: the slot that this
/// rank got at open, in which its bytes may lie although it has left it; `slot`: the same, unless it has left it; `size`: bytes of its
/// group, 0 if it has none.
///
/// # Errors
/// Outer: `PeerLost` or `Timeout` of a collective call; groups that fit into their slots may still be written there. Inner:
/// `OutOfBounds` if the extent passes the largest file size.
pub fn place(
    comm: &dyn Communicator,
    base: u64,
    given: Option<&Slot>,
    slot: Option<&Slot>,
    size: u64,
) -> Result<Result<Extent>> {
    let fits = slot.filter(|s| s.holds(size));
    let behind = if fits.is_some() { 0 } else { size };
    let told = comm.all_reduce(&[given.map_or(base, Slot::end), u64::from(behind > 0)], Reduce::Max)?;
    let before = if told[1] > 0 { comm.exclusive_scan(behind)? } else { 0 };
    Ok(match fits {
        Some(slot) => Ok(slot.place(size)),
        None => plan::shared(comm.rank(), told[0], before, size).map(|p| p.extent),
    })
}

/// The extent of this rank's group if it is known without communication: if the group fits into its slot.
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
        assert_eq!(sizes.requested("g", &comm), (0, 0));
        sizes.note("g", &comm, 100 << 20, 0, true, 100 << 20);
        assert_eq!(sizes.requested("g", &comm), (0, 0));
        sizes.note("g", &comm, 100 << 20, 0, true, 100 << 20);
        assert_eq!(sizes.requested("g", &comm), (100 << 20, 0));
        assert!(sizes.are_large("g", &comm) && !sizes.are_large("h", &comm));
        // The group has outgrown its slot: the next output requests no slot.
        sizes.note("g", &comm, 101 << 20, 7, false, 101 << 20);
        assert_eq!(sizes.requested("g", &comm), (0, 0));
        sizes.note("g", &comm, 90 << 20, 7, true, 90 << 20);
        assert_eq!(sizes.requested("g", &comm), (90 << 20, 7));
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
            // Rank 2 has left its slot.
            let kept = slot.as_ref().filter(|_| r != 2);
            place(&comm, 100, slot.as_ref(), kept, sizes[r]).unwrap().unwrap()
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
