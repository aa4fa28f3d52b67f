//! Bytes of a file that were written and do not lie in the layout below yet. Pure.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

/// Bytes of one write, or what later writes have left of it.
#[derive(Debug, Clone)]
struct Piece {
    end: u64,
    /// All bytes of the write.
    bytes: Arc<Vec<u8>>,
    /// Where the first of them belongs in the file.
    first: u64,
    /// Which write.
    number: u64,
}

/// The newest bytes of each offset that has any.
#[derive(Debug, Default)]
pub(super) struct Overlay {
    /// By their first offset; they do not overlap.
    pieces: BTreeMap<u64, Piece>,
}

/// Bytes of a file that are held.
#[derive(Debug)]
pub(super) struct Covered {
    /// Where they belong in the file.
    pub(super) range: Range<u64>,
    bytes: Arc<Vec<u8>>,
    from: usize,
}

impl Covered {
    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes[self.from..self.from + (self.range.end - self.range.start) as usize]
    }
}

impl Overlay {
    /// Adds the bytes of a write, over those of earlier ones.
    ///
    /// - `number`: of the write, for [`Overlay::take_out`].
    pub(super) fn put(&mut self, offset: u64, bytes: &Arc<Vec<u8>>, number: u64) {
        let end = offset + bytes.len() as u64;
        if end == offset {
            return;
        }
        let before = self.pieces.range(..offset).next_back().filter(|(_, piece)| piece.end > offset);
        let starts: Vec<u64> =
            before.into_iter().chain(self.pieces.range(offset..end)).map(|(start, _)| *start).collect();
        for start in starts {
            let Some(piece) = self.pieces.remove(&start) else { continue };
            if start < offset {
                self.pieces.insert(start, Piece { end: offset, ..piece.clone() });
            }
            if piece.end > end {
                self.pieces.insert(end, piece);
            }
        }
        self.pieces.insert(offset, Piece { end, bytes: bytes.clone(), first: offset, number });
    }

    /// Takes out what is left of a write of these bytes.
    pub(super) fn take_out(&mut self, range: Range<u64>, number: u64) {
        let of_write = |(start, piece): (&u64, &Piece)| (piece.number == number).then_some(*start);
        let starts: Vec<u64> = self.pieces.range(range).filter_map(of_write).collect();
        for start in starts {
            self.pieces.remove(&start);
        }
    }

    /// The held bytes inside a range, in the order of their offsets.
    pub(super) fn within(&self, range: Range<u64>) -> Vec<Covered> {
        let before = self.pieces.range(..range.start).next_back().filter(|(_, piece)| piece.end > range.start);
        let pieces = before.into_iter().chain(self.pieces.range(range.clone()));
        let inside = |(start, piece): (&u64, &Piece)| {
            let (from, to) = ((*start).max(range.start), piece.end.min(range.end));
            Covered { range: from..to, bytes: piece.bytes.clone(), from: (from - piece.first) as usize }
        };
        pieces.map(inside).collect()
    }

    /// The end of the last held byte; 0 if there is none.
    pub(super) fn end(&self) -> u64 {
        self.pieces.last_key_value().map_or(0, |(_, piece)| piece.end)
    }

    pub(super) fn clear(&mut self) {
        self.pieces.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn the_newest_bytes_are_found_and_those_of_a_write_can_be_taken_out(
            writes in proptest::collection::vec((0u64..60, 0usize..20), 1..20),
            stored in 0usize..20,
            (from, length) in (0u64..60, 0u64..40),
        ) {
            let mut overlay = Overlay::default();
            let mut model: Vec<Option<(u64, u8)>> = vec![None; 100];
            for (number, (offset, length)) in writes.iter().enumerate() {
                let bytes: Vec<u8> = (0..*length).map(|n| (number * 31 + n) as u8).collect();
                for (n, byte) in bytes.iter().enumerate() {
                    model[*offset as usize + n] = Some((number as u64, *byte));
                }
                overlay.put(*offset, &Arc::new(bytes), number as u64);
            }
            for (number, (offset, length)) in writes.iter().enumerate().take(stored) {
                overlay.take_out(*offset..*offset + *length as u64, number as u64);
                model.iter_mut().filter(|byte| byte.is_some_and(|(of, _)| of == number as u64)).for_each(|byte| *byte = None);
            }
            let mut got = [None; 100];
            let mut last = 0;
            for covered in overlay.within(from..from + length) {
                prop_assert!(covered.range.start >= last.max(from) && covered.range.end <= from + length);
                last = covered.range.end;
                for (at, byte) in covered.range.clone().zip(covered.bytes()) {
                    got[at as usize] = Some(*byte);
                }
            }
            for at in 0..100u64 {
                let wanted = model[at as usize].filter(|_| (from..from + length).contains(&at)).map(|(_, byte)| byte);
                prop_assert_eq!(got[at as usize], wanted, "byte {}", at);
            }
        }
    }
}
