//! Step records: the index entries of one output, written after it if a full index would cost too much.
//!
//! | byte | size | field |
//! |---|---|---|
//! | 0 | 8 | magic `TWSTEPRC` |
//! | 8 | 4 | version, 1 or 2 |
//! | 12 | 4 | version 1: 0; version 2: CRC-32C of the variable section, which the record omits |
//! | 16 | 8 | length, head to tail |
//! | 24 | ... | the sections, packed as in [`crate::index::Index::to_fragment`]; version 2: without the variable section, its length 0 |
//! | -64 | 8 | where the record starts in its file |
//! | -56 | 8 | its length |
//! | -48 | 8 | where the index or step record before it ends |
//! | -40 | 8 | run id |
//! | -32 | 4 | number of step records since the last full index, this one included |
//! | -28 | 4 | CRC-32C of everything before these 64 bytes |
//! | -24 | 4 | CRC-32C of these 64 bytes up to here |
//! | -20 | 12 | 0 |
//! | -8 | 8 | magic `TWSTEPND` |
//!
//! A record of version 2 is for small outputs, whose process groups are hardly larger than their entries: the variable section is
//! made again from the groups, which precede the record in its file ([`crate::index::Index::add_encoded_group`]).

use crate::extension::Tag;
use crate::index::{Index, RawProcessGroup, raw_process_groups};
use crate::scan::{self, Found};
use crate::source::{self, Source};
use crate::wire::{Cursor, Put, patch_u64};
use std::ops::Range;
use thalweg_types::checksum::crc32c;
use thalweg_types::{ByteOrder, Error, ErrorKind, Extent, Result};

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

/// Where the process groups of an output are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Groups {
    /// In the file of the record, between it and the index or step record before it.
    Here,
    /// In other files.
    Elsewhere,
}

/// Most bytes of process groups from which a variable section is made again: a reader holds them in memory.
const MOST_GROUPS: u64 = 1 << 20;
/// A variable section is omitted if the process groups are at most this many times as long.
const TIMES: u64 = 2;

/// Encodes a record for offset `start`; `previous`: the end of the index or step record before it.
pub fn encode(step: &Index, start: u64, previous: u64, run: u64, number: u32, groups: Groups) -> Vec<u8> {
    encode_fragment(&step.to_fragment(), start, previous, run, number, groups)
}

/// As [`encode`], from the packed sections of the output, as [`Index::to_fragment`] packs them.
pub fn encode_fragment(sections: &[u8], start: u64, previous: u64, run: u64, number: u32, groups: Groups) -> Vec<u8> {
    let omitted = variables_of(sections)
        .filter(|variables| groups == Groups::Here && are_near(sections, variables.len() as u64, previous, start));
    let left = sections.len() - omitted.as_ref().map_or(0, Range::len);
    let length = HEAD + left as u64 + TAIL;
    let mut out = Vec::with_capacity(length as usize);
    out.put(MAGIC);
    out.put_u32(if omitted.is_some() { 2 } else { 1 });
    out.put_u32(omitted.as_ref().map_or(0, |variables| crc32c(&sections[variables.clone()])));
    out.put_u64(length);
    match omitted {
        Some(variables) => {
            out.put(&sections[..variables.start]);
            out.put(&sections[variables.end..]);
            patch_u64(&mut out, HEAD as usize + VARIABLES_LENGTH, 0);
        }
        None => out.put(sections),
    }
    let crc = crc32c(&out);
    let record = StepRecord { extent: Extent::new(start, length), previous, run, number, crc };
    out.put(&record.tail());
    out
}

/// Place of the length of the variable section in packed sections.
const VARIABLES_LENGTH: usize = 8;
/// Bytes of the four lengths in front of packed sections.
const LENGTHS: usize = 32;

/// Place of the variable section in packed sections; `None` if there is none.
fn variables_of(sections: &[u8]) -> Option<Range<usize>> {
    let mut c = Cursor::new(sections, ByteOrder::NATIVE, 0);
    let groups = usize::try_from(c.u64("").ok()?).ok()?;
    let variables = usize::try_from(c.u64("").ok()?).ok()?;
    let start = LENGTHS.checked_add(groups)?;
    let end = start.checked_add(variables).filter(|end| *end <= sections.len())?;
    (variables > 0).then_some(start..end)
}

/// Whether the groups of packed sections lie between `previous` and `start`, and are short beside `variables` bytes.
fn are_near(sections: &[u8], variables: u64, previous: u64, start: u64) -> bool {
    let offsets = || {
        let mut c = Cursor::new(&sections[LENGTHS..], ByteOrder::NATIVE, 0);
        raw_process_groups(&mut c)?.map(|group| group.map(|g| g.offset)).collect::<Result<Vec<u64>>>()
    };
    let Ok(Some(first)) = offsets().map(|all| all.into_iter().min()) else { return false };
    let most = MOST_GROUPS.min(TIMES * variables);
    first >= previous && start.checked_sub(first).is_some_and(|bytes| (1..=most).contains(&bytes))
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

/// Reads the body of a record and checks it: sections packed as [`Index::append_packed`] takes them. A variable section that the
/// record omits is made again.
///
/// # Errors
/// `Corrupt` where checksum or magic are wrong, or the process groups do not give the section that was omitted; `Unsupported` for a
/// version of a later library, and for an omitted section in the other byte order; errors of reading.
/// # Cost
/// One read; a second one, of the process groups, if the variable section is omitted.
pub fn body(source: &(impl Source + ?Sized), record: &StepRecord, order: ByteOrder) -> Result<Vec<u8>> {
    let (sections, omitted) = stored(source, record, order)?;
    match omitted {
        Some(check) => with_variables(source, record, order, &sections, check),
        None => Ok(sections),
    }
}

/// The sections of a record without those that it omits.
///
/// # Errors
/// As [`body`].
pub fn append_stored(
    source: &(impl Source + ?Sized),
    record: &StepRecord,
    order: ByteOrder,
    index: &mut Index,
) -> Result<()> {
    let (mut sections, omitted) = stored(source, record, order)?;
    if omitted.is_some() {
        sections = insert_variables(&sections, order, &Index::default().variables_section())?;
    }
    index.append_packed(&mut Cursor::new(&sections, order, record.extent.offset + HEAD))
}

/// The sections as stored, and the checksum of an omitted variable section.
fn stored(source: &(impl Source + ?Sized), record: &StepRecord, order: ByteOrder) -> Result<(Vec<u8>, Option<u32>)> {
    let mut bytes = source::bytes(source, record.extent.offset, record.extent.length - TAIL, "step record")?;
    let mut c = Cursor::new(&bytes, order, record.extent.offset);
    if crc32c(&bytes) != record.crc || c.take(8, "step record")? != MAGIC {
        return Err(c.fail(ErrorKind::Corrupt, "the checksum of a step record is wrong"));
    }
    let (version, check) = (c.u32("step record")?, c.u32("step record")?);
    let omitted = match version {
        1 => None,
        2 => Some(check),
        other => {
            let what = format!("a step record of version {other}: written by a later version of this library");
            return Err(c.fail(ErrorKind::Unsupported, what));
        }
    };
    bytes.drain(..HEAD as usize);
    Ok((bytes, omitted))
}

/// `sections` with the variable section, from the process groups in front of the record.
fn with_variables(
    source: &(impl Source + ?Sized),
    record: &StepRecord,
    order: ByteOrder,
    sections: &[u8],
    check: u32,
) -> Result<Vec<u8>> {
    let start = record.extent.offset;
    if order != ByteOrder::NATIVE {
        let what = "a step record of the other byte order, whose entries are in the process groups";
        return Err(Error::new(ErrorKind::Unsupported, what).at_byte(start));
    }
    let damaged = |what: &str| Error::new(ErrorKind::Corrupt, what).at_byte(start);
    let listed = listed_groups(sections, order, start)?;
    let first = listed.iter().map(|group| group.offset).min().unwrap_or(start);
    let length = start.checked_sub(first).filter(|length| first >= record.previous && *length <= MOST_GROUPS);
    let length = length.ok_or_else(|| damaged("a step record refers to process groups that are not in front of it"))?;
    let groups = source::bytes(source, first, length, "process groups of a step record")?;
    let (mut index, mut left) = (Index::default(), length);
    for group in &listed {
        let at = usize::try_from(group.offset - first).ok().and_then(|at| groups.get(at..));
        let bytes = at.ok_or_else(|| damaged("a step record refers to a process group behind it"))?;
        let mut c = Cursor::new(bytes, order, group.offset);
        index.add_encoded_group(&mut c)?;
        // Each byte is decoded once, whatever a record claims.
        left = left
            .checked_sub(c.position() as u64)
            .ok_or_else(|| damaged("the process groups that a step record refers to overlap"))?;
    }
    let variables = index.variables_section();
    if crc32c(&variables) != check {
        return Err(damaged("the process groups in front of a step record are not those of its output"));
    }
    insert_variables(sections, order, &variables)
}

/// The process groups that the sections of a record at `start` list.
fn listed_groups(sections: &[u8], order: ByteOrder, start: u64) -> Result<Vec<RawProcessGroup<'_>>> {
    let mut c = Cursor::new(sections, order, start + HEAD);
    c.take(LENGTHS, "step record")?;
    raw_process_groups(&mut c)?.collect()
}

/// As [`with_variables`], where a process group is damaged: the variables of the other ones, and the damaged ones as the missing
/// parts of a partial step. `None` if none is found to be damaged.
fn without_damaged(
    source: &(impl Source + ?Sized),
    record: &StepRecord,
    order: ByteOrder,
    sections: &[u8],
) -> Result<Option<Vec<u8>>> {
    let start = record.extent.offset;
    let (mut index, mut missing) = (Index::default(), Vec::new());
    let listed = listed_groups(sections, order, start)?;
    let mut offsets: Vec<u64> = listed.iter().map(|group| group.offset).collect();
    offsets.sort_unstable();
    if offsets.windows(2).any(|pair| pair[0] == pair[1]) {
        return Ok(None);
    }
    for group in listed {
        // A group that reaches into the next one is not decoded: each byte is decoded once.
        let next = offsets.get(offsets.partition_point(|at| *at <= group.offset)).copied().unwrap_or(start);
        let claim = || source::array::<8>(source, group.offset);
        let claimed = source::unless_damaged(claim())?.and_then(|head| Cursor::new(&head, order, 0).u64("").ok());
        let end = claimed.and_then(|length| group.offset.checked_add(length));
        let in_front = group.offset >= record.previous && end.is_some_and(|end| end <= next.min(start));
        let read = || scan::group_at(source, group.offset, order);
        let found = if in_front { source::unless_damaged(read())? } else { None };
        let whole = |found: &Found| -> Result<Option<Index>> {
            let extent = found.extent;
            let own = found.trailer.is_some() && extent.end().is_some_and(|end| end <= start);
            if !own || found.header.time_index != group.time_index || scan::has_damaged_values(source, found)? {
                return Ok(None);
            }
            let bytes = source::bytes(source, extent.offset, extent.length, "process group")?;
            let mut entries = Index::default();
            let added = entries.add_encoded_group(&mut Cursor::new(&bytes, order, extent.offset));
            Ok(source::unless_damaged(added)?.map(|()| entries))
        };
        let joined = match found.as_ref().map(whole).transpose()?.flatten() {
            Some(entries) => source::unless_damaged(index.append_fragment(&entries.to_fragment()))?,
            None => None,
        };
        if joined.is_none() {
            missing.push((group.time_index, group.rank));
        }
    }
    if missing.is_empty() {
        return Ok(None);
    }
    let mut all = Index::default();
    let sections = insert_variables(sections, order, &index.variables_section())?;
    all.append_packed(&mut Cursor::new(&sections, order, start + HEAD))?;
    for (time, rank) in missing {
        let partial = all.records.list(Tag::Partial);
        [time, rank, u32::from(ErrorKind::Corrupt.code()), 0].into_iter().for_each(|n| partial.put_u32(n));
    }
    Ok(Some(all.to_fragment()))
}

/// The sections with a variable section where a record omits it.
fn insert_variables(sections: &[u8], order: ByteOrder, variables: &[u8]) -> Result<Vec<u8>> {
    let mut c = Cursor::new(sections, order, 0);
    let groups = c.u64("step record")?;
    let place = usize::try_from(groups).ok().and_then(|groups| LENGTHS.checked_add(groups));
    let place = place.filter(|place| *place <= sections.len());
    let place = place.ok_or_else(|| c.fail(ErrorKind::Corrupt, "the sections of a step record leave it"))?;
    if c.u64("step record")? != 0 {
        return Err(c.fail(ErrorKind::Corrupt, "a step record has the variable section that it omits"));
    }
    let mut whole = [&sections[..place], variables, &sections[place..]].concat();
    let length = variables.len() as u64;
    patch_u64(&mut whole, VARIABLES_LENGTH, if order == ByteOrder::NATIVE { length } else { length.swap_bytes() });
    Ok(whole)
}

/// Reads the body of a record, checks it, and joins it to `index`. Where the record omits its variable section and a process group is
/// damaged, the step is joined as a partial one: without the variables of this group, which is listed in [`Tag::Partial`].
///
/// # Errors
/// As [`body`] and [`Index::append_packed`].
pub fn append(source: &(impl Source + ?Sized), record: &StepRecord, order: ByteOrder, index: &mut Index) -> Result<()> {
    let (sections, omitted) = stored(source, record, order)?;
    let sections = match omitted {
        None => sections,
        Some(check) => match with_variables(source, record, order, &sections, check) {
            Err(e) if source::is_damage(&e) => without_damaged(source, record, order, &sections)?.ok_or(e)?,
            whole => whole?,
        },
    };
    index.append_packed(&mut Cursor::new(&sections, order, record.extent.offset + HEAD))
}

/// The length of a record, from its head; `None` if `head` is not a record's.
pub fn length_from_head(head: &[u8; HEAD as usize], order: ByteOrder) -> Option<u64> {
    if &head[..8] != MAGIC {
        return None;
    }
    Cursor::new(&head[16..], order, 0).u64("step record").ok()
}
