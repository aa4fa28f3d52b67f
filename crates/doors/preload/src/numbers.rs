//! Sets of descriptors: one bit for each, read and changed without a lock, also in a child that shares this process's memory.

use std::os::fd::RawFd;
use std::sync::atomic::{AtomicU64, Ordering};

/// A set of descriptors below `64 * WORDS`.
pub struct Numbers<const WORDS: usize>([AtomicU64; WORDS]);

impl<const WORDS: usize> Numbers<WORDS> {
    /// An empty set.
    pub const fn new() -> Self {
        Numbers([const { AtomicU64::new(0) }; WORDS])
    }

    #[inline]
    fn place(&self, fd: RawFd) -> Option<(&AtomicU64, u64)> {
        Some((self.0.get(fd as usize / 64)?, 1 << (fd as usize % 64)))
    }

    /// Whether the descriptor is in the set.
    #[inline]
    pub fn has(&self, fd: RawFd) -> bool {
        self.place(fd).is_some_and(|(word, bit)| word.load(Ordering::Relaxed) & bit != 0)
    }

    /// Adds a descriptor; returns whether it is new. Numbers that are negative or too high are ignored.
    pub fn add(&self, fd: RawFd) -> bool {
        self.place(fd).is_some_and(|(word, bit)| word.fetch_or(bit, Ordering::Relaxed) & bit == 0)
    }

    /// Removes a descriptor; returns whether it was in the set.
    pub fn take(&self, fd: RawFd) -> bool {
        self.place(fd).is_some_and(|(word, bit)| word.fetch_and(!bit, Ordering::Relaxed) & bit != 0)
    }

    /// All descriptors, in ascending order.
    pub fn all(&self) -> impl Iterator<Item = RawFd> + '_ {
        self.0.iter().enumerate().flat_map(|(at, word)| {
            let bits = word.load(Ordering::Relaxed);
            (0..64).filter(move |bit| bits & 1 << bit != 0).map(move |bit| (at * 64 + bit) as RawFd)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_in_the_set_until_they_are_taken_and_none_is_out_of_bounds() {
        let set: Numbers<2> = Numbers::new();
        assert!(set.add(127) && set.add(0) && set.add(64) && !set.add(64));
        assert_eq!(set.all().collect::<Vec<_>>(), [0, 64, 127]);
        assert!(set.take(64) && !set.take(64) && set.has(127) && !set.has(64));
        for beyond in [-1, 128, RawFd::MAX] {
            assert!(!set.add(beyond) && !set.has(beyond) && !set.take(beyond));
        }
    }
}
