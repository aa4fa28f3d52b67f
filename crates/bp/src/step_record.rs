//! Step records: the index entries of one output, written after it if a full index would cost too much.
//!
//! | byte | size | field |
//! |---|---|---|
//! | 0 | 8 | magic `TWSTEPRC` |
//! | 8 | 4 | version, 1 |
//! | 12 | 4 | 0 |
//! | 16 | 8 | length, head to tail |
//! | 24 | ... | the sections, packed as in [`crate::index::Index::to_fragment`] |
//! | -64 | 8 | where the record starts in its file |
//! | -56 | 8 | its length |
//! | -48 | 8 | where the index or step record before it ends |
//! | -40 | 8 | run id |
//! | -32 | 4 | number of step records since the last full index, this one included |
//! | -28 | 4 | CRC-32C of everything before these 64 bytes |
//! | -24 | 4 | CRC-32C of these 64 bytes up to here |
//! | -20 | 12 | 0 |
//! | -8 | 8 | magic `TWSTEPND` |

use crate::index::Index;
use crate::source::{self, Source};
use crate::wire::{Cursor, Put};
use thalweg_types::checksum::crc32c;
use thalweg_types::{ByteOrder, ErrorKind, Extent, Result};

/// Magic at the start of a record.
pub const MAGIC: &[u8; 8] = b"TWSTEPRC";
/// Magic at the end of a record.
pub const END: &[u8; 8] = b"TWSTEPND";
/// Bytes of its head.
pub const HEAD: u64 = 24;
/// Bytes of its tail.
pub const TAIL: u64 = 64;

/// The tail of a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StepRecord {
    /// Extent of the record.
    pub extent: Extent,
    /// End of the preceding index or step record.
    pub previous: u64,
    /// Run id.
    pub run: u64,
    /// Step records since the last full index.
    pub number: u32,
    /// Checksum of head and body.
    pub crc: u32,
}

/// Encodes a record for offset `start`.
pub fn encode(step: &Index, start: u64, previous: u64, run: u64, number: u32) -> Vec<u8> {
    let body = step.to_fragment();
    let length = HEAD + body.len() as u64 + TAIL;
    let mut out = Vec::with_capacity(length as usize);
    out.put(MAGIC);
    out.put_u32(1);
    out.put_u32(0);
    out.put_u64(length);
    out.put(&body);
    let crc = crc32c(&out);
    let record = StepRecord { extent: Extent::new(start, length), previous, run, number, crc };
    out.put(&record.tail());
    out
}

impl StepRecord {
    /// The last [`TAIL`] bytes of the record.
    pub fn tail(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(TAIL as usize);
        out.put_u64(self.extent.offset);
        out.put_u64(self.extent.length);
        out.put_u64(self.previous);
        out.put_u64(self.run);
        out.put_u32(self.number);
        out.put_u32(self.crc);
        let crc = crc32c(&out);
        out.put_u32(crc);
        out.put(&[0; 12]);
        out.put(END);
        out
    }
}

/// The record that ends at byte `end`; `None` if there is none.
///
/// # Errors
/// `Corrupt` where there is a record, and its tail is damaged; errors of reading. The body is checked by [`append`].
pub fn before(source: &(impl Source + ?Sized), end: u64, order: ByteOrder) -> Result<Option<StepRecord>> {
    let Some(at) = end.checked_sub(TAIL) else { return Ok(None) };
    let tail: [u8; TAIL as usize] = source::array(source, at)?;
    if &tail[56..] != END {
        return Ok(None);
    }
    let mut c = Cursor::new(&tail, order, at);
    let extent = Extent::new(c.u64("step record")?, c.u64("step record")?);
    let previous = c.u64("step record")?;
    let run = c.u64("step record")?;
    let number = c.u32("step record")?;
    let crc = c.u32("step record")?;
    let own = crc32c(&tail[..40]);
    let zeros = tail[44..56] == [0; 12];
    if c.u32("step record")? != own
        || !zeros
        || extent.end() != Some(end)
        || extent.length < HEAD + TAIL
        || previous > extent.offset
    {
        return Err(c.fail(ErrorKind::Corrupt, "the tail of a step record is damaged"));
    }
    Ok(Some(StepRecord { extent, previous, run, number, crc }))
}

/// Reads the body of a record and checks it: sections packed as [`Index::append_packed`] takes them.
///
/// # Errors
/// `Corrupt` where checksum or magic are wrong; errors of reading.
pub fn body(source: &(impl Source + ?Sized), record: &StepRecord, order: ByteOrder) -> Result<Vec<u8>> {
    let mut bytes = source::bytes(source, record.extent.offset, record.extent.length - TAIL, "step record")?;
    let mut c = Cursor::new(&bytes, order, record.extent.offset);
    if crc32c(&bytes) != record.crc || c.take(8, "step record")? != MAGIC {
        return Err(c.fail(ErrorKind::Corrupt, "the checksum of a step record is wrong"));
    }
    bytes.drain(..HEAD as usize);
    Ok(bytes)
}

/// Reads the body of a record, checks it, and joins it to `index`.
///
/// # Errors
/// As [`body`] and [`Index::append_packed`].
pub fn append(source: &(impl Source + ?Sized), record: &StepRecord, order: ByteOrder, index: &mut Index) -> Result<()> {
    let bytes = body(source, record, order)?;
    index.append_packed(&mut Cursor::new(&bytes, order, record.extent.offset + HEAD))
}

/// The length of a record, from its head; `None` if `head` is not a record's.
pub fn length_from_head(head: &[u8; HEAD as usize], order: ByteOrder) -> Option<u64> {
    if &head[..8] != MAGIC {
        return None;
    }
    Cursor::new(&head[16..], order, 0).u64("step record").ok()
}
