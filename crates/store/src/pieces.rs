//! Pieces: the buffers of one vectored write.

use std::io::{IoSlice, IoSliceMut};
use thalweg_types::Result;

/// Bytes of all pieces.
pub fn total(pieces: &[IoSlice<'_>]) -> u64 {
    pieces.iter().map(|piece| piece.len() as u64).sum()
}

/// Most bytes of one request for several buffers.
const JOINED: usize = 4 << 20;

/// Fills buffers one after the other with consecutive bytes, for stores that read into one buffer only: several small buffers
/// share one request and are filled by a copy; a buffer of 4 MiB or more is filled directly. Returns how many bytes were read.
///
/// - `read`: as [`crate::ReadObject::read_at`], `offset` counted from the first byte of the first piece.
///
/// # Errors
/// As `read`.
pub fn read_joined(
    pieces: &mut [IoSliceMut<'_>],
    mut read: impl FnMut(u64, &mut [u8]) -> Result<usize>,
) -> Result<usize> {
    let (mut done, mut joined) = (0, Vec::new());
    let mut rest = pieces;
    while !rest.is_empty() {
        let (mut count, mut bytes) = (1, rest[0].len());
        while count < rest.len() && bytes + rest[count].len() <= JOINED {
            bytes += rest[count].len();
            count += 1;
        }
        let (now, behind) = rest.split_at_mut(count);
        rest = behind;
        let got = match now {
            [piece] => read(done as u64, piece)?,
            _ => {
                joined.resize(bytes, 0);
                let got = read(done as u64, &mut joined)?;
                let mut there = &joined[..got];
                for piece in now {
                    let (own, behind) = there.split_at(there.len().min(piece.len()));
                    piece[..own.len()].copy_from_slice(own);
                    there = behind;
                }
                got
            }
        };
        done += got;
        if got < bytes {
            break;
        }
    }
    Ok(done)
}

/// The part of a vectored write that is not yet done.
#[derive(Debug, Clone)]
pub struct Rest<'a> {
    pieces: &'a [IoSlice<'a>],
    /// Bytes done of the first piece.
    skip: usize,
}

impl<'a> Rest<'a> {
    /// All pieces.
    pub fn new(pieces: &'a [IoSlice<'a>]) -> Rest<'a> {
        Rest { pieces, skip: 0 }.without_empty()
    }

    /// Whether nothing is left.
    pub fn is_empty(&self) -> bool {
        self.pieces.is_empty()
    }

    /// The next bytes, as at most `most` pieces that hold at most `bytes` bytes together. None of them is empty.
    pub fn next(&self, most: usize, bytes: u64) -> Vec<IoSlice<'a>> {
        let (mut next, mut room, mut skip) = (Vec::with_capacity(most.min(self.pieces.len())), bytes, self.skip);
        for piece in self.pieces {
            if next.len() == most || room == 0 {
                break;
            }
            let piece: &'a [u8] = &piece[std::mem::take(&mut skip)..];
            if piece.is_empty() {
                continue;
            }
            let take = usize::try_from(room).unwrap_or(usize::MAX).min(piece.len());
            room -= take as u64;
            next.push(IoSlice::new(&piece[..take]));
        }
        next
    }

    /// The rest after `bytes` more bytes.
    pub fn after(&self, bytes: u64) -> Rest<'a> {
        let (mut rest, mut bytes) = (self.clone(), bytes);
        while let Some(first) = rest.pieces.first() {
            let here = (first.len() - rest.skip) as u64;
            if bytes < here {
                rest.skip += bytes as usize;
                return rest.without_empty();
            }
            bytes -= here;
            rest = Rest { pieces: &rest.pieces[1..], skip: 0 };
        }
        rest
    }

    fn without_empty(mut self) -> Rest<'a> {
        while self.pieces.first().is_some_and(|first| first.len() == self.skip) {
            self = Rest { pieces: &self.pieces[1..], skip: 0 };
        }
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_are_handed_out_in_order_whatever_the_limits() {
        let parts: [&[u8]; 6] = [b"", b"abc", b"", b"d", b"efghi", b""];
        let pieces = parts.map(IoSlice::new);
        assert_eq!(total(&pieces), 9);
        for most in 1..4 {
            for bytes in 1..11 {
                for done_at_once in 1..=bytes {
                    let (mut rest, mut seen) = (Rest::new(&pieces), Vec::new());
                    while !rest.is_empty() {
                        let next = rest.next(most, bytes);
                        assert!(next.len() <= most && (1..=bytes).contains(&total(&next)));
                        let done = total(&next).min(done_at_once);
                        seen.extend(next.iter().flat_map(|piece| piece.iter().copied()).take(done as usize));
                        rest = rest.after(done);
                    }
                    assert_eq!(seen, b"abcdefghi");
                }
            }
        }
    }
}
