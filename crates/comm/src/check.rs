//! Checks of arguments that every communicator makes in the same words.

use thalweg_types::{Error, ErrorKind, Result};

/// Tags are below this.
pub const TAG_LIMIT: u32 = 1 << 15;

/// A rank of a communicator of `size` ranks.
///
/// # Errors
/// `InvalidArgument` where there is no such rank.
pub fn rank(rank: u32, size: u32) -> Result<()> {
    if rank < size {
        return Ok(());
    }
    Err(Error::new(ErrorKind::InvalidArgument, format!("rank {rank} of a communicator of {size} ranks")))
}

/// A tag.
///
/// # Errors
/// `InvalidArgument` from [`TAG_LIMIT`] on.
pub fn tag(tag: u32) -> Result<()> {
    if tag < TAG_LIMIT {
        return Ok(());
    }
    Err(Error::new(ErrorKind::InvalidArgument, format!("tag {tag}; tags are below {TAG_LIMIT}")))
}

/// The other side of a message, and its tag.
///
/// # Errors
/// As [`rank`] and [`tag`].
pub fn peer(rank_or_any: Option<u32>, size: u32, its_tag: u32) -> Result<()> {
    rank_or_any.map_or(Ok(()), |r| rank(r, size))?;
    tag(its_tag)
}

/// One part per rank.
///
/// # Errors
/// `InvalidArgument` for another number of parts.
pub fn parts(count: usize, size: u32) -> Result<()> {
    if count == size as usize {
        return Ok(());
    }
    Err(Error::new(ErrorKind::InvalidArgument, format!("{count} parts for {size} ranks")))
}

/// A number of bytes as memory counts them.
///
/// # Errors
/// `OutOfBounds` where memory has no such addresses.
pub fn count(bytes: u64) -> Result<usize> {
    usize::try_from(bytes).map_err(|_| Error::new(ErrorKind::OutOfBounds, format!("{bytes} bytes of a shared window")))
}

/// Bytes inside a rank's part of a shared window; gives the range.
///
/// # Errors
/// `OutOfBounds` where they leave the part.
pub fn window(rank_: u32, part_bytes: u64, offset: u64, count: usize) -> Result<std::ops::Range<usize>> {
    let end = offset.checked_add(count as u64).filter(|end| *end <= part_bytes);
    match end {
        // The part is in memory, so its length fits.
        Some(end) => Ok(offset as usize..end as usize),
        None => Err(Error::new(
            ErrorKind::OutOfBounds,
            format!("{count} bytes leave the {part_bytes} bytes that rank {rank_} owns in a shared window"),
        )
        .at_byte(offset)),
    }
}
