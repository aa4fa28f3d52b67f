//! The extension section: Thalweg's additional records, between the last process group and the index, where other readers ignore
//! them.
//!
//! | byte | size | field |
//! |---|---|---|
//! | 0 | 8 | magic `TWEXTSEC` |
//! | 8 | 4 | version, 1 |
//! | 12 | 4 | number of counts and sums, of 20 bytes each, in the last record, [`crate::sums`] |
//! | 16 | 8 | length of the section, head to tail |
//! | 24 | 8 | length of section, index, tag and minifooter together |
//! | 32 | ... | records: u32 tag, u32 0, u64 length, bytes; unknown tags are skipped |
//! | -48 | 8 | `FOLLOWED`: more steps may come; `FINISHED`: the file was closed for good |
//! | -40 | 8 | where the section starts in its file |
//! | -32 | 8 | its length |
//! | -24 | 8 | length of index, tag and minifooter |
//! | -16 | 4 | CRC-32C of these |
//! | -12 | 4 | CRC-32C of the section without the state and what follows here |
//! | -8 | 8 | magic `TWEXTEND` |
//!
//! The size of the last record, with counts and sums, grows with the number of blocks. In a large section this record is not
//! read with the others: its checksum is combined from those in [`crate::sums::SumsLocations`].
//!
//! The state is outside the checksum, so that closing a file for good changes only 8 bytes in place. A mixture of bytes of both
//! states is a partly written mark: more steps may come.

use crate::source::{self, Source};
use crate::sums::{self, SumsLocations};
use crate::wire::{Cursor, Put};
use std::collections::BTreeMap;
use thalweg_types::checksum::{Crc32c, combined, crc32c};
use thalweg_types::{ByteOrder, ErrorKind, Extent, Result};

/// Magic at the start of the section.
pub const MAGIC: &[u8; 8] = b"TWEXTSEC";
/// Magic at the end of the section.
pub const END: &[u8; 8] = b"TWEXTEND";
/// Bytes before the records.
pub const HEAD: u64 = 32;
/// Bytes after the records.
pub const TAIL: u64 = 48;
/// More steps may come.
pub const FOLLOWED: &[u8; 8] = b"FOLLOWED";
/// The file was closed for good.
pub const FINISHED: &[u8; 8] = b"FINISHED";

/// Tags of records. Every record except the directory, the first time index, the locations of sums and the sums is a list of
/// entries: joining two files concatenates the lists.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u32)]
pub enum Tag {
    /// Locations of the index entries, with checksums: [`Directory`].
    Directory = 1,
    /// Statistics of complex blocks: u32 subfile, u32 0, u64 payload offset, u64 finite, then for magnitude, real and
    /// imaginary part f64 min, max, sum, sum of squares.
    ComplexStatistics = 2,
    /// Integer sums beyond the precision of a double: u32 subfile, u32 0, u64 payload offset, i128 sum.
    ExactSum = 3,
    /// Missing process groups of partial steps: u32 time index, u32 rank, u32 error kind, u32 0.
    Partial = 4,
    /// Openings: u64 run id, u32 first time index, u32 ranks.
    Run = 5,
    /// Counts beyond 32 bits: u32 subfile, u32 0, u64 payload offset, u64 finite.
    WideCount = 6,
    /// In an index file: the data file. u64 its length, str16 its name in the same folder.
    DataFile = 8,
    /// In an index that follows steps that it drops: u64 offset of these steps, at which the file is to be truncated.
    Dropped = 10,
    /// A damaged index that recovery left before this one; steps that only the damaged index lists stay in the file: u64 its
    /// offset, u64 its length.
    Damaged = 9,
    /// Whole process groups of outputs that were not closed, which recovery left in the file without indexing them: u32 time
    /// index, u32 rank, u32 subfile, u32 0, u64 offset.
    Left = 11,
    /// The first time index, if it is not 1: u32. Later files of a process of ADIOS 1.x begin with the time at which they were
    /// opened. Each index writes it again; it is not joined.
    FirstTime = 12,
    /// Locations of the counts and sums in record [`Tag::Sums`]: [`crate::sums::SumsLocations`]. Each index writes both records again;
    /// they are not joined.
    SumsOf = 13,
    /// Counts and sums that are not in the BP index; always the last record.
    Sums = 14,
}

/// Records by tag.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Records(pub BTreeMap<u32, Vec<u8>>);

impl Records {
    /// The bytes of a record.
    pub fn get(&self, tag: Tag) -> &[u8] {
        self.0.get(&(tag as u32)).map_or(&[], Vec::as_slice)
    }

    /// The list of entries of this tag, for appending.
    pub fn list(&mut self, tag: Tag) -> &mut Vec<u8> {
        self.0.entry(tag as u32).or_default()
    }

    /// Appends all records.
    pub fn encode(&self, out: &mut Vec<u8>) {
        for (tag, bytes) in &self.0 {
            put_record_head(out, *tag, bytes.len() as u64);
            out.put(bytes);
        }
    }

    /// Reads records to the end of the cursor.
    ///
    /// # Errors
    /// As [`Cursor::take_u64`].
    pub fn decode(c: &mut Cursor<'_>) -> Result<Records> {
        let mut records = Records::default();
        while c.left() > 0 {
            let tag = c.u32("extension record")?;
            c.u32("extension record")?;
            let length = c.u64("extension record")?;
            let bytes = c.take_u64(length, "extension record")?;
            records.0.entry(tag).or_default().extend_from_slice(bytes);
        }
        Ok(records)
    }

    /// Joins another file's or step's lists to these.
    pub fn append(&mut self, other: &Records) {
        for (tag, bytes) in &other.0 {
            if ![Tag::Directory, Tag::FirstTime, Tag::SumsOf, Tag::Sums].iter().any(|own| *own as u32 == *tag) {
                self.0.entry(*tag).or_default().extend_from_slice(bytes);
            }
        }
    }
}

fn put_record_head(out: &mut Vec<u8>, tag: u32, length: u64) {
    out.put_u32(tag);
    out.put_u32(0);
    out.put_u64(length);
}

/// The location of one entry of the index.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DirectoryEntry {
    /// The entry is an attribute, otherwise a variable.
    pub is_attribute: bool,
    /// Its type code.
    pub code: u8,
    /// CRC-32C of the entry.
    pub crc: u32,
    /// The entry, from its length field to its last set, relative to the start of the process group index.
    pub extent: Extent,
    /// Number of sets.
    pub sets: u64,
    /// Id.
    pub id: u32,
    /// Group.
    pub group: String,
    /// Path.
    pub path: String,
    /// Name.
    pub name: String,
}

/// The directory of the index, with which a reader opens a file without reading the index.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Directory {
    /// Number of steps: the last time index.
    pub steps: u32,
    /// Number of process groups.
    pub process_groups: u64,
    /// CRC-32C of the process group index.
    pub process_groups_crc: u32,
    /// CRC-32C of the remaining bytes: heads of the variable and attribute index, tag, minifooter.
    pub rest_crc: u32,
    /// Entries in the order of the file.
    pub entries: Vec<DirectoryEntry>,
}

impl Directory {
    /// Encodes the directory.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        out.put_u32(self.steps);
        out.put_u32(self.entries.len() as u32);
        out.put_u64(self.process_groups);
        out.put_u32(self.process_groups_crc);
        out.put_u32(self.rest_crc);
        for e in &self.entries {
            out.put(&[u8::from(e.is_attribute), e.code, 0, 0]);
            out.put_u32(e.crc);
            out.put_u64(e.extent.offset);
            out.put_u64(e.extent.length);
            out.put_u64(e.sets);
            out.put_u32(e.id);
            out.put_str16(e.group.as_bytes());
            out.put_str16(e.path.as_bytes());
            out.put_str16(e.name.as_bytes());
        }
        out
    }

    /// Decodes a directory.
    ///
    /// # Errors
    /// As [`Cursor::take`].
    pub fn decode(c: &mut Cursor<'_>) -> Result<Directory> {
        let steps = c.u32("directory")?;
        let n = c.u32("directory")?;
        let mut directory = Directory {
            steps,
            process_groups: c.u64("directory")?,
            process_groups_crc: c.u32("directory")?,
            rest_crc: c.u32("directory")?,
            entries: Vec::new(),
        };
        for _ in 0..n {
            let is_attribute = c.u8("directory")? != 0;
            let code = c.u8("directory")?;
            c.u16("directory")?;
            directory.entries.push(DirectoryEntry {
                is_attribute,
                code,
                crc: c.u32("directory")?,
                extent: Extent::new(c.u64("directory")?, c.u64("directory")?),
                sets: c.u64("directory")?,
                id: c.u32("directory")?,
                group: c.name("directory")?,
                path: c.name("directory")?,
                name: c.name("directory")?,
            });
        }
        Ok(directory)
    }
}

/// An extension section that was found and checked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Extension {
    /// Its extent.
    pub extent: Extent,
    /// Whether the file was closed for good.
    pub finished: bool,
    /// The end mark is partly written; [`Extension::finished`] is not set.
    pub half_marked: bool,
    /// Bytes of index, tag and minifooter after the section.
    pub index_length: u64,
    /// CRC-32C of these bytes.
    pub index_crc: u32,
    /// Its records, without counts and sums.
    pub records: Records,
    /// Counts and sums that are not in the index.
    pub sums: Option<Sums>,
}

/// The counts and sums of a section.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sums {
    /// Their extent in the file.
    pub extent: Extent,
    /// Their assignment to variables.
    pub locations: SumsLocations,
    /// Their bytes, if they were read with the section.
    pub bytes: Option<Vec<u8>>,
}

/// Sections of up to this many bytes are read at once.
const WORTH_ONE_READ: u64 = 64 * 1024;
/// Bytes of a record's head.
const RECORD_HEAD: usize = 16;

/// Bytes of a section with these records and `sums` bytes of sums.
pub fn length(records: &Records, sums: u64) -> u64 {
    let bodies: u64 = records.0.values().map(|bytes| (RECORD_HEAD + bytes.len()) as u64).sum();
    HEAD + bodies + if sums > 0 { RECORD_HEAD as u64 + sums } else { 0 } + TAIL
}

/// Encodes a section at byte `start`, followed by `index_length` bytes with checksum `index_crc`: returns the bytes before the
/// sums and those after them.
///
/// - `sums`: assignment of the sums, as in record [`Tag::SumsOf`].
pub fn encode(
    start: u64,
    records: &Records,
    sums: &SumsLocations,
    finished: bool,
    index_length: u64,
    index_crc: u32,
) -> (Vec<u8>, Vec<u8>) {
    let of_sums = sums.length();
    let length = length(records, of_sums);
    let mut front = Vec::with_capacity((length - of_sums - TAIL) as usize);
    front.put(MAGIC);
    front.put_u32(1);
    front.put_u32((of_sums / sums::LENGTH as u64) as u32);
    front.put_u64(length);
    front.put_u64(length + index_length);
    records.encode(&mut front);
    if of_sums > 0 {
        put_record_head(&mut front, Tag::Sums as u32, of_sums);
    }
    let mut tail = Vec::with_capacity(TAIL as usize);
    tail.put(if finished { FINISHED } else { FOLLOWED });
    tail.put_u64(start);
    tail.put_u64(length);
    tail.put_u64(index_length);
    tail.put_u32(index_crc);
    let checked = &tail[8..];
    let crc = combined(combined(crc32c(&front), sums.crc(), of_sums), crc32c(checked), checked.len() as u64);
    tail.put_u32(crc);
    tail.put(END);
    (front, tail)
}

impl Extension {
    /// Offset and bytes of the constant part of the tail: from the section's offset to the index's checksum.
    pub fn lasting_tail(&self, order: ByteOrder) -> (u64, Vec<u8>) {
        let mut out = Vec::new();
        for value in [self.extent.offset, self.extent.length, self.index_length] {
            out.put_u64(if order == ByteOrder::NATIVE { value } else { value.swap_bytes() });
        }
        out.put_u32(if order == ByteOrder::NATIVE { self.index_crc } else { self.index_crc.swap_bytes() });
        (state_offset(self.extent) + 8, out)
    }
}

/// Offset of the state of a section, the 8 bytes that are changed when the file is closed for good.
pub fn state_offset(extent: Extent) -> u64 {
    extent.offset + extent.length - TAIL
}

/// The section that ends at byte `end`; `None` if there is none.
///
/// # Errors
/// `Corrupt` where there is a section, and its checksum, offset or state is wrong; errors of reading.
pub fn before(source: &(impl Source + ?Sized), end: u64, order: ByteOrder) -> Result<Option<Extension>> {
    let Some(at) = end.checked_sub(TAIL) else { return Ok(None) };
    let tail: [u8; TAIL as usize] = source::array(source, at)?;
    if &tail[40..] != END {
        return Ok(None);
    }
    let mut c = Cursor::new(&tail, order, at);
    let (finished, half_marked) = match <&[u8; 8]>::try_from(c.take(8, "extension section")?) {
        Ok(FINISHED) => (true, false),
        Ok(FOLLOWED) => (false, false),
        // A partly written mark has bytes of both states: the file is not closed for good.
        Ok(state) if state.iter().zip(FINISHED.iter().zip(FOLLOWED)).all(|(s, (a, b))| s == a || s == b) => {
            (false, true)
        }
        _ => return Err(c.fail(ErrorKind::Corrupt, "the state of an extension section is damaged")),
    };
    let extent = Extent::new(c.u64("extension section")?, c.u64("extension section")?);
    let index_length = c.u64("extension section")?;
    let index_crc = c.u32("extension section")?;
    let stored = c.u32("extension section")?;
    if extent.end() != Some(end) || extent.length < HEAD + TAIL {
        return Err(c.fail(ErrorKind::Corrupt, "an extension section names another place than its own"));
    }
    let wrong = || c.fail(ErrorKind::Corrupt, "the checksum of an extension section is wrong");
    // Up to the tail, or up to the sums. These bytes are not checked yet: wrong bytes give a wrong checksum.
    let (mut bytes, of_sums);
    if extent.length <= WORTH_ONE_READ {
        bytes = source::bytes(source, extent.offset, extent.length - TAIL, "extension section")?;
        of_sums = length_of_sums(&bytes, extent, order).ok_or_else(wrong)?;
    } else {
        let head: [u8; HEAD as usize] = source::array(source, extent.offset)?;
        of_sums = length_of_sums(&head, extent, order).ok_or_else(wrong)?;
        bytes = source::bytes(source, extent.offset, extent.length - TAIL - of_sums, "extension section")?;
    }
    let front = (extent.length - TAIL - of_sums) as usize;
    let read = (bytes.len() > front).then(|| bytes.split_off(front));
    let mut records_end = front;
    if of_sums > 0 {
        records_end -= RECORD_HEAD;
        let mut c = Cursor::new(&bytes[records_end..], order, extent.offset + records_end as u64);
        if (c.u32("sums")?, c.u32("sums")?, c.u64("sums")?) != (Tag::Sums as u32, 0, of_sums) {
            return Err(wrong());
        }
    }
    let mut inside = Cursor::new(&bytes[HEAD as usize..records_end], order, extent.offset + HEAD);
    let mut records = Records::decode(&mut inside)?;
    // Without sums, an older release has copied these records from another index.
    let locations = records.0.remove(&(Tag::SumsOf as u32));
    records.0.remove(&(Tag::Sums as u32));
    let sums = match locations.filter(|_| of_sums > 0) {
        None if of_sums > 0 => return Err(wrong()),
        None => None,
        Some(locations) => {
            let locations = SumsLocations::decode(&mut Cursor::new(&locations, order, extent.offset), of_sums)?;
            let extent = Extent::new(extent.offset + front as u64, of_sums);
            Some(Sums { extent, locations, bytes: read })
        }
    };
    let mut crc = crc32c(&bytes);
    if let Some(sums) = &sums {
        let of_bytes = sums.bytes.as_ref().map(|bytes| crc32c(bytes));
        crc = combined(crc, of_bytes.unwrap_or_else(|| sums.locations.crc()), of_sums);
    }
    let lasting = &tail[8..TAIL as usize - 12];
    if combined(crc, crc32c(lasting), lasting.len() as u64) != stored || &bytes[..8] != MAGIC {
        return Err(wrong());
    }
    Ok(Some(Extension { extent, finished, half_marked, index_length, index_crc, records, sums }))
}

/// Bytes of sums in a section, from its head; `None` if they exceed the section.
fn length_of_sums(head: &[u8], extent: Extent, order: ByteOrder) -> Option<u64> {
    let count = Cursor::new(head.get(12..)?, order, extent.offset).u32("extension section").ok()?;
    let length = u64::from(count) * sums::LENGTH as u64;
    let least = HEAD + RECORD_HEAD as u64 + TAIL;
    (count == 0 || length.checked_add(least)? <= extent.length).then_some(length)
}

/// Length of section, index, tag and minifooter together, from the head of a section; `None` if `head` is not a section's.
pub fn length_from_head(head: &[u8; HEAD as usize], order: ByteOrder) -> Option<u64> {
    if &head[..8] != MAGIC {
        return None;
    }
    let mut c = Cursor::new(&head[24..], order, 0);
    c.u64("extension section").ok()
}

/// CRC-32C of the concatenation of several byte slices.
pub fn crc_of<'a>(parts: impl IntoIterator<Item = &'a [u8]>) -> u32 {
    let mut crc = Crc32c::new();
    parts.into_iter().for_each(|p| crc.update(p));
    crc.finish()
}

/// CRC-32C of an entry, for comparison with [`DirectoryEntry::crc`].
pub fn entry_crc(bytes: &[u8]) -> u32 {
    crc32c(bytes)
}
