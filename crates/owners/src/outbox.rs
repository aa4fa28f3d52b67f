//! Bytes that a rank has written into a window and not yet sent to one owner.

use crate::gather::{PIECE, memory_of};
use std::collections::VecDeque;

/// Longest piece that short writes are joined to.
const JOINED: usize = 64 << 10;
/// A shorter piece of a longer write is not made: the writer waits for more room.
const SHORTEST: u64 = 4096;

/// The pieces for one owner, in the order in which they were written.
#[derive(Debug, Default)]
pub struct Outbox {
    pieces: VecDeque<(u64, Vec<u8>)>,
    memory: u64,
    cost: u64,
    /// Whether the owner knows that there is something to send.
    pub asked: bool,
}

impl Outbox {
    /// Copies as many bytes as `room`, in bytes of memory, allows; returns how many.
    ///
    /// - `joins`: whether `offset` and the byte before it lie in the same fraction, so that a piece may contain both.
    pub fn push(&mut self, offset: u64, bytes: &[u8], joins: bool, room: u64) -> usize {
        if joins
            && let Some((last, piece)) = self.pieces.back_mut()
            && *last + piece.len() as u64 == offset
            && piece.len() + bytes.len() <= JOINED
        {
            let (length, capacity) = (piece.len() + bytes.len(), piece.capacity());
            if length > capacity {
                let doubled = (2 * capacity).min(JOINED).max(length);
                let grown = if (doubled - capacity) as u64 <= room { doubled } else { length };
                if (grown - capacity) as u64 > room {
                    return 0;
                }
                piece.reserve_exact(grown - piece.len());
                self.memory += (piece.capacity() - capacity) as u64;
            }
            piece.extend_from_slice(bytes);
            self.cost += bytes.len() as u64;
            return bytes.len();
        }
        let count = (bytes.len() as u64).min(room.saturating_sub(PIECE));
        if count < (bytes.len() as u64).min(SHORTEST) {
            return 0;
        }
        let piece = bytes[..count as usize].to_vec();
        self.memory += memory_of(&piece);
        self.cost += count + PIECE;
        self.pieces.push_back((offset, piece));
        count as usize
    }

    /// Removes the first pieces that an owner can hold in `limit` bytes of memory; the last of them may be a part of a piece.
    pub fn take(&mut self, limit: u64) -> Vec<(u64, Vec<u8>)> {
        let (mut taken, mut left) = (Vec::new(), limit);
        while left > PIECE
            && let Some((offset, piece)) = self.pieces.front_mut()
        {
            let count = (piece.len() as u64).min(left - PIECE);
            left -= count + PIECE;
            if count < piece.len() as u64 {
                let before = memory_of(piece);
                let rest = piece.split_off(count as usize);
                let first = (*offset, std::mem::replace(piece, rest));
                *offset += count;
                self.memory = self.memory - before + memory_of(piece);
                self.cost -= count;
                taken.push(first);
            } else if let Some(first) = self.pieces.pop_front() {
                self.memory -= memory_of(&first.1);
                self.cost -= count + PIECE;
                taken.push(first);
            }
        }
        // Room that a joined piece did not use is not the owner's.
        taken.iter_mut().for_each(|(_, piece)| piece.shrink_to_fit());
        taken
    }

    /// Memory of the pieces.
    pub fn memory(&self) -> u64 {
        self.memory
    }

    /// Memory that an owner needs for all pieces.
    pub fn cost(&self) -> u64 {
        self.cost
    }

    /// Whether there is nothing to send.
    pub fn is_empty(&self) -> bool {
        self.pieces.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn short_writes_are_joined_within_a_fraction() {
        let mut outbox = Outbox::default();
        for at in 0..1000u64 {
            assert_eq!(outbox.push(at, &[at as u8], at != 500, u64::MAX), 1);
        }
        assert_eq!(outbox.cost(), 1000 + 2 * PIECE);
        let taken = outbox.take(u64::MAX);
        assert_eq!(taken.iter().map(|(at, piece)| (*at, piece.len())).collect::<Vec<_>>(), [(0, 500), (500, 500)]);
    }

    proptest! {
        #[test]
        fn bytes_leave_in_order_and_memory_is_counted(
            writes in proptest::collection::vec((0u64..50_000, 0usize..9000, any::<bool>()), 0..40),
            limits in proptest::collection::vec(97u64..20_000, 1..60), cap in 5000u64..60_000,
        ) {
            let (mut outbox, mut limits) = (Outbox::default(), limits.into_iter().cycle());
            let (mut sent, mut came) = (Vec::new(), Vec::new());
            let mut next = 0u8;
            let mut end = None;
            for (offset, length, follows) in writes {
                let start = if follows { end.unwrap_or(offset) } else { offset };
                let mut done = 0;
                while done < length {
                    let bytes: Vec<u8> = (done..length).map(|_| { next = next.wrapping_add(1); next }).collect();
                    let count = outbox.push(start + done as u64, &bytes, true, cap - outbox.memory());
                    prop_assert!(outbox.memory() <= cap, "{} of {cap} bytes", outbox.memory());
                    sent.extend(bytes[..count].iter().enumerate().map(|(i, byte)| (start + (done + i) as u64, *byte)));
                    done += count;
                    if count == 0 {
                        let limit = limits.next().unwrap();
                        let taken = outbox.take(limit);
                        prop_assert!(!taken.is_empty() && taken.iter().map(|(_, piece)| memory_of(piece)).sum::<u64>() <= limit);
                        came.extend(taken);
                    }
                }
                end = Some(start + length as u64);
            }
            while !outbox.is_empty() {
                came.extend(outbox.take(limits.next().unwrap()));
            }
            prop_assert_eq!((outbox.memory(), outbox.cost()), (0, 0));
            let came: Vec<(u64, u8)> =
                came.into_iter().flat_map(|(at, piece)| piece.into_iter().enumerate().map(move |(i, byte)| (at + i as u64, byte))).collect();
            prop_assert_eq!(came, sent);
        }
    }
}
