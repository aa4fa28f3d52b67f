//! One pass over a block: statistics, checksum and copy are computed together for each cache-sized piece.

use crate::rows::Rows;
use crate::statistics::{Accumulator, Level, Statistics};
use thalweg_types::ElementType;
use thalweg_types::checksum::combined;

/// Bytes of a piece that is copied: it stays in a core's second-level cache while it is read two or three times. A multiple of every element
/// size.
pub const PIECE: usize = 128 * 1024;

/// The result of one pass over a block.
#[derive(Debug, Clone, PartialEq)]
pub struct Digest {
    /// Its statistics, if type and level have any.
    pub statistics: Option<Statistics>,
    /// CRC-32C of its bytes.
    pub crc: u32,
}

/// A pass under way.
#[derive(Debug, Clone)]
pub struct Pass {
    statistics: Accumulator,
    crc: u32,
}

impl Pass {
    /// Before the first byte of a block.
    pub fn new(element: ElementType, level: Level) -> Pass {
        Pass { statistics: Accumulator::new(element, level), crc: 0 }
    }

    /// Adds bytes, in this machine's byte order and as whole elements. Sums of real numbers do not depend on how a block is divided if all
    /// pieces but the last have a multiple of [`PIECE`] bytes.
    pub fn add(&mut self, piece: &[u8]) {
        self.crc = combined(self.crc, self.statistics.update_with_checksum(piece), piece.len() as u64);
    }

    /// Statistics and checksum of all pieces.
    pub fn finish(self) -> Digest {
        Digest { statistics: self.statistics.finish(), crc: self.crc }
    }
}

/// Statistics and checksum of a block in memory, in this machine's byte order. Each piece is passed to `first` (to be copied or
/// written), then its statistics and checksum are computed from the cache, where `first` has brought it. The result does not
/// depend on whether the block is contiguous.
///
/// - `piece`: bytes of a piece, a multiple of [`PIECE`].
///
/// # Errors
/// Errors of `first`, which is not called again then.
pub fn over<'d, E>(
    bytes: impl Into<Rows<'d>>,
    element: ElementType,
    level: Level,
    piece: usize,
    mut first: impl FnMut(&[u8]) -> Result<(), E>,
) -> Result<Digest, E> {
    let mut pass = Pass::new(element, level);
    bytes.into().pieces(piece, |piece| {
        first(piece)?;
        pass.add(piece);
        Ok(())
    })?;
    Ok(pass.finish())
}

/// Statistics and checksum, and the bytes appended to `out`.
pub fn copy<'d>(bytes: impl Into<Rows<'d>>, element: ElementType, level: Level, out: &mut Vec<u8>) -> Digest {
    let done: Result<Digest, std::convert::Infallible> = over(bytes, element, level, PIECE, |piece| {
        out.extend_from_slice(piece);
        Ok(())
    });
    match done {
        Ok(digest) => digest,
        Err(never) => match never {},
    }
}

/// Statistics and checksum alone.
pub fn look<'d>(bytes: impl Into<Rows<'d>>, element: ElementType, level: Level) -> Digest {
    let done: Result<Digest, std::convert::Infallible> = over(bytes, element, level, PIECE, |_| Ok(()));
    match done {
        Ok(digest) => digest,
        Err(never) => match never {},
    }
}
