//! One pass over a block: statistics, checksum and copy are computed together for each cache-sized piece.

use crate::rows::Rows;
use crate::statistics::{Accumulator, Level, Statistics};
use thalweg_types::ElementType;
use thalweg_types::checksum::Crc32c;

/// Bytes of a piece: it stays in a core's second-level cache while it is read two or three times. A multiple of every element
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

/// Statistics and checksum of a block in memory, in this machine's byte order. Each piece is passed to `then` (to be copied or
/// written) while it is in the cache. The result does not depend on whether the block is contiguous.
///
/// # Errors
/// Errors of `then`, which is not called again then.
pub fn over<'d, E>(
    bytes: impl Into<Rows<'d>>,
    element: ElementType,
    level: Level,
    mut then: impl FnMut(&[u8]) -> Result<(), E>,
) -> Result<Digest, E> {
    let mut statistics = Accumulator::new(element, level);
    let mut crc = Crc32c::new();
    bytes.into().pieces(PIECE, |piece| {
        statistics.update(piece);
        crc.update(piece);
        then(piece)
    })?;
    Ok(Digest { statistics: statistics.finish(), crc: crc.finish() })
}

/// Statistics and checksum, and the bytes appended to `out`.
pub fn copy<'d>(bytes: impl Into<Rows<'d>>, element: ElementType, level: Level, out: &mut Vec<u8>) -> Digest {
    let done: Result<Digest, std::convert::Infallible> = over(bytes, element, level, |piece| {
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
    let done: Result<Digest, std::convert::Infallible> = over(bytes, element, level, |_| Ok(()));
    match done {
        Ok(digest) => digest,
        Err(never) => match never {},
    }
}
