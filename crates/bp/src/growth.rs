//! Steps that a writer has added behind a known end, while it continues to write.
//!
//! Between outputs the source ends with a step record or a full index, and the chain of records leads back to the known
//! end. While an output is being written, the source may end with any bytes; the records are then found forwards from the known
//! end, from one length to the next, without reading the content of process groups.
//!
//! Only ends with valid checksums are used, and only records whose chain leads back to the known end. Bytes being written look
//! damaged, which is not an error here; a failed read is.

use crate::extension;
use crate::live::Base;
use crate::source::{self, Source};
use crate::step_record::{self, StepRecord};
use crate::wire::Cursor;
use thalweg_types::{ByteOrder, Error, ErrorKind, Result};

/// Most process groups and records that are skipped in the search for an end.
const MOST_HOPS: usize = 1 << 20;
/// Most unused bytes before an index, which is moved so that its mark lies within one sector.
const GAP: usize = 8;

/// The steps that were added. The bodies of the records are not read: see [`step_record::body`].
#[derive(Debug, Clone)]
pub struct Growth {
    /// A full index that replaces the known index.
    pub base: Option<Base>,
    /// Step records after this index, or after the known end, in the order of the file.
    pub records: Vec<StepRecord>,
    /// End of the last record or index.
    pub end: u64,
}

/// The steps behind byte `known`, the end of an index or step record (or 0); `None` if no further step is complete.
///
/// # Errors
/// `NotFound` if the file's steps do not follow the known ones: the file was created again; errors of reading.
/// # Cost
/// One read per step record; one per process group too while an output is being written.
pub fn since(source: &(impl Source + ?Sized), known: u64) -> Result<Option<Growth>> {
    if source.length() <= known {
        return Ok(None);
    }
    if let Some(growth) = ending_at(source, source.length(), known)? {
        return Ok(Some(growth));
    }
    for end in ends(source, known)?.into_iter().rev() {
        if let Some(growth) = ending_at(source, end, known)? {
            return Ok(Some(growth));
        }
    }
    Ok(None)
}

/// The steps between `known` and an index or step record that ends at byte `end`; `None` if no valid one ends there.
///
/// # Errors
/// `NotFound` if the chain of records passes `known`: the file was created again. Errors of reading; damaged bytes are no error.
pub fn ending_at(source: &(impl Source + ?Sized), end: u64, known: u64) -> Result<Option<Growth>> {
    let mut records = Vec::new();
    let mut at = end;
    let base = loop {
        if at == known {
            break None;
        }
        if at < known {
            return Err(Error::new(
                ErrorKind::NotFound,
                "the file was created again: its steps do not follow the known ones",
            )
            .at_byte(at));
        }
        match source::unless_damaged(step_record::before(source, at, ByteOrder::NATIVE))?.flatten() {
            Some(record) if record.extent.offset < at => {
                at = record.previous;
                records.push(record);
                continue;
            }
            _ => {}
        }
        match source::unless_damaged(Base::ending_at(source, at))?.flatten() {
            Some(base) => break Some(base),
            None => return Ok(None),
        }
    };
    records.reverse();
    Ok(Some(Growth { base, records, end }))
}

/// Ends of records and indexes behind `known`, from their heads, up to the first incomplete one.
fn ends(source: &(impl Source + ?Sized), known: u64) -> Result<Vec<u64>> {
    const LOOK: u64 = extension::HEAD + GAP as u64;
    let mut ends = Vec::new();
    let mut at = known;
    for _ in 0..MOST_HOPS {
        if source.length() - at < LOOK {
            break;
        }
        let head: [u8; LOOK as usize] = match source::unless_damaged(source::array(source, at))? {
            Some(head) => head,
            None => break,
        };
        let mut end_mark = None;
        for gap in 0..GAP {
            let head = &head[gap..];
            let record = head[..step_record::HEAD as usize].try_into().ok();
            let index = head[..extension::HEAD as usize].try_into().ok();
            let length = record
                .and_then(|h| step_record::length_from_head(h, ByteOrder::NATIVE))
                .or(index.and_then(|h| extension::length_from_head(h, ByteOrder::NATIVE)));
            if let Some(length) = length {
                end_mark = Some(length.saturating_add(gap as u64));
                break;
            }
            if head[0] != 0 {
                break;
            }
        }
        let group = || Cursor::new(&head, ByteOrder::NATIVE, at).u64("process group");
        let (length, is_end) = match end_mark {
            Some(length) => (length, true),
            None => (group()?, false),
        };
        match at.checked_add(length) {
            Some(next) if length >= step_record::HEAD && next <= source.length() => at = next,
            _ => break,
        }
        if is_end {
            ends.push(at);
        }
    }
    Ok(ends)
}
