//! Bytes between a program's memory and the extents of a view.
//!
//! | question | answer |
//! |----------|--------|
//! | writes | one call of the layout for each extent of the view |
//! | reads | neighbouring extents are read with one call, the bytes between them too, where that costs less than one more call ([`GAP`]) |
//! | memory that is one run | is written from and read into directly |
//! | other memory | is gathered into, or scattered from, a buffer of at most [`BUFFER`] bytes |
//! | end of the file | a read ends there and returns what there was |

use thalweg_open_file::OpenFile;
use thalweg_types::{Error, ErrorKind, Extent, Result};
use thalweg_view::{Pattern, View};

/// Largest buffer of a call, in bytes.
pub const BUFFER: usize = 4 << 20;
/// Bytes between two extents that are read along rather than asked for separately: about what a system call costs.
pub const GAP: u64 = 8 << 10;

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

impl MemoryMut<'_> {
    /// Bytes that move.
    pub fn size(&self) -> u64 {
        match self {
            MemoryMut::Run(bytes) => bytes.len() as u64,
            MemoryMut::Pattern { pattern, count, .. } => size(pattern, *count),
        }
    }
}

/// A buffer for `total` bytes, a part at a time.
fn buffer(total: u64) -> Result<Vec<u8>> {
    let bytes = usize::try_from(total).unwrap_or(usize::MAX).min(BUFFER);
    let mut made = Vec::new();
    let no_memory = |_| Error::new(ErrorKind::NoMemory, format!("cannot hold {bytes} bytes"));
    made.try_reserve_exact(bytes).map_err(no_memory)?;
    made.resize(bytes, 0);
    Ok(made)
}

/// Fails where bytes of the view lie beyond the largest file.
fn reachable(view: &View, start: u64, bytes: u64) -> Result<()> {
    let beyond = || {
        Error::new(
            ErrorKind::OutOfBounds,
            format!("byte {start} of the view and {bytes} from there: beyond the largest file"),
        )
    };
    match bytes.checked_sub(1) {
        None => Ok(()),
        Some(last) => start.checked_add(last).and_then(|last| view.file_offset(last)).map(drop).ok_or_else(beyond),
    }
}

/// Writes memory at bytes `start..` of a view.
///
/// # Errors
/// Those of the layout, which name the byte of the file; bytes before it are written, later ones perhaps. `OutOfBounds` for bytes that
/// the view does not have, and nothing is written then.
/// # Cost
/// One call of the layout for each extent.
pub fn write(file: &OpenFile, view: &View, start: u64, memory: Memory<'_>) -> Result<()> {
    let total = memory.size();
    reachable(view, start, total)?;
    match memory {
        Memory::Run(bytes) => write_run(file, view, start, bytes),
        Memory::Pattern { pattern, count, memory, origin } => {
            let mut buffer = buffer(total)?;
            let mut done = 0;
            while done < total {
                let part = usize::try_from(total - done).unwrap_or(usize::MAX).min(buffer.len());
                pattern.gather(count, memory, origin, done, &mut buffer[..part])?;
                write_run(file, view, start + done, &buffer[..part])?;
                done += part as u64;
            }
            Ok(())
        }
    }
}

fn write_run(file: &OpenFile, view: &View, start: u64, bytes: &[u8]) -> Result<()> {
    let mut rest = bytes;
    for extent in view.extents(start..start + bytes.len() as u64) {
        let (part, after) = rest.split_at(extent.length as usize);
        file.write_at(extent.offset, &[std::io::IoSlice::new(part)])?;
        rest = after;
    }
    Ok(())
}

/// Reads bytes `start..` of a view into memory; returns how many there were before the end of the file.
///
/// # Errors
/// Those of the layout; part of the memory may be filled. `OutOfBounds` as [`write()`].
/// # Cost
/// One call of the layout for each group of extents: see the module's page.
pub fn read(file: &OpenFile, view: &View, start: u64, memory: MemoryMut<'_>) -> Result<u64> {
    let total = memory.size();
    reachable(view, start, total)?;
    match memory {
        MemoryMut::Run(bytes) => read_run(file, view, start, bytes),
        MemoryMut::Pattern { pattern, count, memory, origin } => {
            let mut buffer = buffer(total)?;
            let mut done = 0;
            while done < total {
                let part = usize::try_from(total - done).unwrap_or(usize::MAX).min(buffer.len());
                let got = read_run(file, view, start + done, &mut buffer[..part])?;
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

fn read_run(file: &OpenFile, view: &View, start: u64, out: &mut [u8]) -> Result<u64> {
    let mut extents = view.extents(start..start + out.len() as u64).peekable();
    let mut group: Vec<Extent> = Vec::new();
    let mut between = Vec::new();
    let mut done = 0;
    while let Some(first) = extents.next() {
        let mut end = first.offset + first.length;
        group.clear();
        group.push(first);
        while let Some(next) = extents.next_if(|next| {
            let near = next.offset >= end && next.offset - end <= GAP;
            near && next.offset + next.length - first.offset <= BUFFER as u64
        }) {
            end = next.offset + next.length;
            group.push(next);
        }
        let got = match group.as_slice() {
            [one] => file.read_at(one.offset, &mut out[done..done + one.length as usize])? as u64,
            _ => {
                between.resize((end - first.offset) as usize, 0);
                let got = file.read_at(first.offset, &mut between)?;
                let mut at = done;
                for extent in &group {
                    let from = ((extent.offset - first.offset) as usize).min(got);
                    let to = (from + extent.length as usize).min(got);
                    out[at..at + to - from].copy_from_slice(&between[from..to]);
                    at += to - from;
                    if to - from < extent.length as usize {
                        return Ok(at as u64);
                    }
                }
                (at - done) as u64
            }
        };
        done += got as usize;
        if group.len() == 1 && got < first.length {
            break;
        }
    }
    Ok(done as u64)
}
