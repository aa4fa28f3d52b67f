//! Bytes between a program's memory and the extents of a view.
//!
//! | question | answer |
//! |----------|--------|
//! | extents | are the layout's: it gets the view and the bytes ([`OpenFile::write_view`]) |
//! | memory that is one run | is written from and read into directly |
//! | other memory | is gathered into, or scattered from, a buffer of at most [`BUFFER`] bytes, or as a hint says |
//! | end of the file | a read ends there and returns what there was |

use std::ops::Range;
use std::sync::Arc;
use thalweg_open_file::OpenFile;
use thalweg_types::{Error, ErrorKind, Result};
use thalweg_view::{Pattern, View};

/// Largest buffer of a call, in bytes, without a hint.
pub const BUFFER: usize = 4 << 20;

/// Memory to write from.
#[derive(Debug, Clone, Copy)]
pub enum Memory<'m> {
    /// One run of bytes.
    Run(&'m [u8]),
    /// Instances of a datatype.
    Pattern {
        /// The datatype.
        pattern: &'m Pattern,
        /// How many.
        count: u64,
        /// All memory that they touch.
        memory: &'m [u8],
        /// Where displacement 0 of the first instance is in it.
        origin: i64,
    },
}

/// Memory to read into.
#[derive(Debug)]
pub enum MemoryMut<'m> {
    /// One run of bytes.
    Run(&'m mut [u8]),
    /// Instances of a datatype, as [`Memory::Pattern`].
    Pattern {
        /// The datatype.
        pattern: &'m Pattern,
        /// How many.
        count: u64,
        /// All memory that they touch.
        memory: &'m mut [u8],
        /// Where displacement 0 of the first instance is in it.
        origin: i64,
    },
}

fn size(pattern: &Pattern, count: u64) -> u64 {
    pattern.size().saturating_mul(count)
}

impl Memory<'_> {
    /// Bytes that move.
    pub fn size(&self) -> u64 {
        match self {
            Memory::Run(bytes) => bytes.len() as u64,
            Memory::Pattern { pattern, count, .. } => size(pattern, *count),
        }
    }
}

impl Memory<'_> {
    /// A copy of some of the bytes that move, in their order.
    ///
    /// # Errors
    /// `OutOfBounds` for bytes that are not there; `NoMemory`.
    pub fn part(&self, range: Range<u64>) -> Result<Vec<u8>> {
        let length = range.end.saturating_sub(range.start);
        let no_memory = || Error::new(ErrorKind::NoMemory, format!("cannot hold {length} bytes"));
        let mut out = Vec::new();
        out.try_reserve_exact(usize::try_from(length).map_err(|_| no_memory())?).map_err(|_| no_memory())?;
        match self {
            Memory::Run(bytes) => {
                let part = bytes.get(range.start as usize..).and_then(|rest| rest.get(..length as usize));
                let outside = || Error::new(ErrorKind::OutOfBounds, "bytes outside of the memory that was given");
                out.extend_from_slice(part.ok_or_else(outside)?);
            }
            Memory::Pattern { pattern, count, memory, origin } => {
                out.resize(length as usize, 0);
                pattern.gather(*count, memory, *origin, range.start, &mut out)?;
            }
        }
        Ok(out)
    }
}

impl MemoryMut<'_> {
    /// Puts bytes into their places, from byte `start` of those that move on.
    ///
    /// # Errors
    /// `OutOfBounds` for bytes that have no place.
    pub fn set(&mut self, start: u64, bytes: &[u8]) -> Result<()> {
        match self {
            MemoryMut::Run(memory) => {
                let outside = || Error::new(ErrorKind::OutOfBounds, "bytes outside of the memory that was given");
                let from = usize::try_from(start).map_err(|_| outside())?;
                let place = memory.get_mut(from..).and_then(|rest| rest.get_mut(..bytes.len()));
                place.ok_or_else(outside)?.copy_from_slice(bytes);
                Ok(())
            }
            MemoryMut::Pattern { pattern, count, memory, origin } => {
                pattern.scatter(*count, memory, *origin, start, bytes)
            }
        }
    }

    /// Bytes that move.
    pub fn size(&self) -> u64 {
        match self {
            MemoryMut::Run(bytes) => bytes.len() as u64,
            MemoryMut::Pattern { pattern, count, .. } => size(pattern, *count),
        }
    }
}

/// A buffer for `total` bytes, at most `most` at a time.
fn buffer(total: u64, most: usize) -> Result<Vec<u8>> {
    let bytes = usize::try_from(total).unwrap_or(usize::MAX).min(most.max(1));
    let mut made = Vec::new();
    let no_memory = |_| Error::new(ErrorKind::NoMemory, format!("cannot hold {bytes} bytes"));
    made.try_reserve_exact(bytes).map_err(no_memory)?;
    made.resize(bytes, 0);
    Ok(made)
}

/// Writes memory at bytes `start..` of a view.
///
/// - `most`: bytes of a buffer for memory that is not one run.
///
/// # Errors
/// Those of the layout, which name the byte of the file; bytes before it are written, later ones perhaps. `OutOfBounds` for bytes that
/// the view does not have, and nothing is written then.
/// # Cost
/// As [`thalweg_layout::WriteObject::write_view`], once for each buffer of memory that is not one run.
pub fn write(file: &OpenFile, view: &Arc<View>, start: u64, memory: Memory<'_>, most: usize) -> Result<()> {
    let total = memory.size();
    match memory {
        Memory::Run(bytes) => file.write_view(view, start, bytes),
        Memory::Pattern { pattern, count, memory, origin } => {
            let mut buffer = buffer(total, most)?;
            let mut done = 0;
            while done < total {
                let part = usize::try_from(total - done).unwrap_or(usize::MAX).min(buffer.len());
                pattern.gather(count, memory, origin, done, &mut buffer[..part])?;
                file.write_view(view, start + done, &buffer[..part])?;
                done += part as u64;
            }
            Ok(())
        }
    }
}

/// Reads bytes `start..` of a view into memory; returns how many there were before the end of the file.
///
/// - `most`: bytes of a buffer for memory that is not one run.
///
/// # Errors
/// Those of the layout; part of the memory may be filled. `OutOfBounds` as [`write()`].
/// # Cost
/// As [`thalweg_layout::ReadObject::read_view`], once for each buffer of memory that is not one run.
pub fn read(file: &OpenFile, view: &Arc<View>, start: u64, memory: MemoryMut<'_>, most: usize) -> Result<u64> {
    let total = memory.size();
    match memory {
        MemoryMut::Run(bytes) => file.read_view(view, start, bytes),
        MemoryMut::Pattern { pattern, count, memory, origin } => {
            let mut buffer = buffer(total, most)?;
            let mut done = 0;
            while done < total {
                let part = usize::try_from(total - done).unwrap_or(usize::MAX).min(buffer.len());
                let got = file.read_view(view, start + done, &mut buffer[..part])?;
                pattern.scatter(count, memory, origin, done, &buffer[..got as usize])?;
                done += got;
                if got < part as u64 {
                    break;
                }
            }
            Ok(done)
        }
    }
}
