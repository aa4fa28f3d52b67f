//! Scanning: finds process groups without an index.
//!
//! Groups follow each other; between them are indexes, step records and holes, which contain their own length. At other bytes (an
//! index of another library, the hole of a failed rank) the scan searches for the next trailer, extension section or step record, and
//! skips what the store knows as a hole.
//! A group of this library is whole if the checksums of its trailer and framing are right; a group without a trailer (ADIOS
//! 1.13), if its records fill it exactly.

use crate::characteristic::{Location, Transform};
use crate::extension::{self, Records, Tag};
use crate::hole;
use crate::index::Index;
use crate::process_group::{Applied, AttributeRecord, Block, Header, SECTION_HEAD, VariableRecord};
use crate::source::{self, Metered, Source};
use crate::statistics::{Accumulator, Level};
use crate::step_record;
use crate::trailer::{self, Trailer};
use crate::wire::Cursor;
use memchr::memmem;
use std::collections::{BTreeMap, BTreeSet};
use thalweg_types::checksum::Crc32c;
use thalweg_types::{ByteOrder, Error, ErrorKind, Extent, Result, Value};

/// A whole process group.
#[derive(Debug, Clone)]
pub struct Found {
    /// Its extent.
    pub extent: Extent,
    /// Its header.
    pub header: Header,
    /// Its trailer; `None` in foreign files.
    pub trailer: Option<Trailer>,
    /// Its variable records with their offsets in the file.
    pub variables: Vec<(u64, VariableRecord)>,
    /// Its attribute records with their offsets in the file.
    pub attributes: Vec<(u64, AttributeRecord)>,
}

/// Undoes a transform: from the block's transform and stored bytes to its values; `None`: statistics are not computed again.
pub type Undo<'u> = &'u dyn Fn(&Transform, &[u8]) -> Result<Option<Vec<u8>>>;

/// The result of a scan.
#[derive(Debug, Default)]
pub struct Scan {
    /// Whole process groups in the order of the file.
    pub groups: Vec<Found>,
    /// Indexes, step records, holes and unknown bytes.
    pub dead: Vec<Extent>,
    /// Offset of the first torn process group, and the error.
    pub torn: Option<(u64, Error)>,
    /// Partial steps, from the records in the file: (time index, rank, kind).
    pub partial: Vec<(u32, u32, u32)>,
    /// Process groups of outputs that were not closed, which recovery did not index, from the records in the file: (time index,
    /// rank, subfile, offset).
    pub left: Vec<(u32, u32, u32, u64)>,
}

/// Scans a file or subfile from its first byte.
///
/// - `order`: byte order of its numbers.
///
/// # Errors
/// Errors of reading. Damaged and missing bytes are no error: [`Scan::torn`] says where they begin.
///
/// # Cost
/// A few short reads per group, variable and attribute, and all bytes except payloads.
pub fn scan(source: &(impl Source + ?Sized), order: ByteOrder) -> Result<Scan> {
    scan_from(source, 0, order)
}

/// As [`scan`], from byte `start` on.
///
/// # Errors
/// As [`scan`].
pub fn scan_from(source: &(impl Source + ?Sized), start: u64, order: ByteOrder) -> Result<Scan> {
    let source = &Metered::new(source);
    let end = source.length();
    let mut scan = Scan::default();
    let mut search = Search::new(source, order);
    let (mut partial, mut left) = (BTreeSet::new(), BTreeSet::new());
    let mut at = start;
    while at < end {
        let before = source.read_so_far();
        if let Some(length) = known_length(source, at, order, &mut |records| {
            let partial_here = partial_steps(records.get(Tag::Partial), order);
            scan.partial.extend(partial_here.into_iter().filter(|entry| partial.insert(*entry)));
            scan.left.extend(left_groups_in(records, order).into_iter().filter(|entry| left.insert(*entry)));
        })? {
            scan.dead.push(Extent::new(at, length));
            at += length;
            continue;
        }
        match group_at(source, at, order) {
            Ok(found) => {
                at += found.extent.length;
                scan.groups.push(found);
            }
            Err(e) if !source::is_damage(&e) => return Err(e),
            Err(reason) => {
                search.wasted += source.read_so_far() - before;
                let Some(next) = search.next(at + 1)? else {
                    scan.torn = Some((at, reason));
                    break;
                };
                scan.dead.push(Extent::new(at, next - at));
                at = next;
            }
        }
    }
    Ok(scan)
}

/// The length of the index, step record or hole that starts at `at`; its end is checked too, because a damaged length must not
/// skip process groups.
fn known_length(source: &impl Source, at: u64, order: ByteOrder, met: &mut dyn FnMut(&Records)) -> Result<Option<u64>> {
    let left = source.length() - at;
    if left < extension::HEAD {
        return Ok(None);
    }
    let head: [u8; extension::HEAD as usize] = source::array(source, at)?;
    if let Some(length) = hole::length(&head, at, order) {
        // The file may end inside the hole.
        return Ok(Some(length.min(left)));
    }
    let mut short = [0; step_record::HEAD as usize];
    short.copy_from_slice(&head[..step_record::HEAD as usize]);
    let records = if let Some(length) = extension::length_from_head(&head, order) {
        let section = Cursor::new(&head[16..], order, at).u64("extension section")?;
        let found = at.checked_add(section).map(|end| source::unless_damaged(extension::before(source, end, order)));
        match found.transpose()?.flatten().flatten() {
            Some(found)
                if found.extent == Extent::new(at, section)
                    && section.checked_add(found.index_length) == Some(length)
                    && length <= left =>
            {
                Some((length, found.records))
            }
            _ => None,
        }
    } else if let Some(length) = step_record::length_from_head(&short, order).filter(|l| *l <= left) {
        match source::unless_damaged(step_record::before(source, at + length, order))?.flatten() {
            Some(found) if found.extent == Extent::new(at, length) => {
                let mut step = Index::default();
                let whole = match step_record::append_stored(source, &found, order, &mut step) {
                    // A record of the other byte order.
                    Err(e) if e.kind() == ErrorKind::Unsupported => None,
                    outcome => source::unless_damaged(outcome)?,
                };
                Some((length, if whole.is_some() { step.records } else { Records::default() }))
            }
            _ => None,
        }
    } else {
        None
    };
    Ok(records.map(|(length, records)| {
        met(&records);
        length
    }))
}

/// The entries of a record of partial steps: (time index, rank, number of the error's kind).
pub fn partial_steps(record: &[u8], order: ByteOrder) -> Vec<(u32, u32, u32)> {
    record
        .chunks_exact(16)
        .filter_map(|entry| {
            let mut c = Cursor::new(entry, order, 0);
            Some((c.u32("").ok()?, c.u32("").ok()?, c.u32("").ok()?))
        })
        .collect()
}

/// The process groups that [`Tag::Left`] lists, in this machine's byte order: (time index, rank, subfile, offset).
pub fn left_groups(records: &Records) -> Vec<(u32, u32, u32, u64)> {
    left_groups_in(records, ByteOrder::NATIVE)
}

/// As [`left_groups`], in any byte order.
pub fn left_groups_in(records: &Records, order: ByteOrder) -> Vec<(u32, u32, u32, u64)> {
    records
        .get(Tag::Left)
        .chunks_exact(24)
        .filter_map(|entry| {
            let mut c = Cursor::new(entry, order, 0);
            let (time, rank, subfile, _) = (c.u32("").ok()?, c.u32("").ok()?, c.u32("").ok()?, c.u32("").ok()?);
            Some((time, rank, subfile, c.u64("").ok()?))
        })
        .collect()
}

const MAGICS: [&[u8; 8]; 3] = [trailer::MAGIC, extension::MAGIC, step_record::MAGIC];

/// Searches forwards for the start of a known structure. Every byte is read once.
struct Search<'a, S: Source + ?Sized> {
    source: &'a Metered<'a, S>,
    order: ByteOrder,
    /// Bytes of the file from `start` on.
    window: Vec<u8>,
    start: u64,
    /// Offset of the next occurrence of each magic (`true`), or the end of its search (`false`).
    hits: [(u64, bool); MAGICS.len()],
    /// Bytes read of false candidates.
    wasted: u64,
}

impl<'a, S: Source + ?Sized> Search<'a, S> {
    fn new(source: &'a Metered<'a, S>, order: ByteOrder) -> Search<'a, S> {
        Search { source, order, window: Vec::new(), start: 0, hits: [(0, false); MAGICS.len()], wasted: 0 }
    }

    /// The next offset from `from` at which a process group with a valid trailer, an index or a step record starts. The search
    /// is limited, against files that were made to waste time.
    fn next(&mut self, from: u64) -> Result<Option<u64>> {
        let mut at = from;
        while let Some((place, which)) = self.next_magic(at)?.filter(|_| self.wasted <= self.source.patience()) {
            let before = self.source.read_so_far();
            let start = match which {
                0 => group_of_trailer(self.source, place, self.order)?.filter(|start| *start >= from),
                _ => known_length(self.source, place, self.order, &mut |_| ())?.map(|_| place),
            };
            if start.is_some() {
                return Ok(start);
            }
            self.wasted += self.source.read_so_far() - before;
            at = place + 1;
        }
        Ok(None)
    }

    /// Offset of the next magic from `at`, and its number.
    fn next_magic(&mut self, mut at: u64) -> Result<Option<(u64, usize)>> {
        const STRETCH: u64 = 1 << 20;
        const OVERLAP: u64 = 7;
        let end = self.source.length();
        while at < end {
            let reach = self.start + self.window.len() as u64;
            if at < self.start || at + OVERLAP >= reach {
                // In a hole, as far as can be seen: a magic has no zero byte, so none starts in it.
                if self.window.iter().rev().take(OVERLAP as usize).all(|byte| *byte == 0) {
                    at = source::stored_after(self.source, at)?;
                    if at == end {
                        return Ok(None);
                    }
                }
                let n = (end - at).min(STRETCH + OVERLAP);
                self.window.resize(n as usize, 0);
                source::fill(self.source, at, &mut self.window)?;
                self.start = at;
                self.hits = [(at, false); MAGICS.len()];
            }
            let reach = self.start + self.window.len() as u64;
            for (hit, magic) in self.hits.iter_mut().zip(MAGICS) {
                if hit.0 < at || (hit.0 == at && !hit.1) {
                    let found = memmem::find(&self.window[(at - self.start) as usize..], magic);
                    *hit = found.map_or((reach, false), |i| (at + i as u64, true));
                }
            }
            let first = self.hits.iter().enumerate().filter(|(_, h)| h.1).min_by_key(|(_, h)| h.0);
            if let Some((which, hit)) = first {
                return Ok(Some((hit.0, which)));
            }
            if reach == end {
                return Ok(None);
            }
            at = reach - OVERLAP;
        }
        Ok(None)
    }
}

/// Offset of the group whose trailer starts at `at`, if the trailer is valid.
fn group_of_trailer(source: &(impl Source + ?Sized), at: u64, order: ByteOrder) -> Result<Option<u64>> {
    let trailer = || {
        let head: [u8; 56] = source::array(source, at)?;
        let blocks = Cursor::new(&head[48..], order, at).u32("trailer")? as usize;
        let bytes = source::bytes(source, at, trailer::length(blocks), "trailer")?;
        let trailer = Trailer::decode(&bytes, order, at)?;
        Ok((trailer.group.end() == at.checked_add(bytes.len() as u64)).then_some(trailer.group.offset))
    };
    Ok(source::unless_damaged(trailer())?.flatten())
}

/// A window of the file around the record being read: one read for many short records, and none of payloads.
struct Window<'a, S: Source + ?Sized> {
    source: &'a S,
    order: ByteOrder,
    bytes: Vec<u8>,
    start: u64,
}

impl<'a, S: Source + ?Sized> Window<'a, S> {
    fn new(source: &'a S, order: ByteOrder) -> Window<'a, S> {
        Window { source, order, bytes: Vec::new(), start: 0 }
    }

    /// Reads a record at `at` that ends at or before `end`; enlarges the window until the record's head fits.
    fn record<T>(&mut self, at: u64, end: u64, read: impl Fn(&mut Cursor<'_>) -> Result<T>) -> Result<T> {
        let left = end.saturating_sub(at);
        let mut wanted = 4096;
        loop {
            let inside = at.checked_sub(self.start).and_then(|skip| self.bytes.get(usize::try_from(skip).ok()?..));
            let here = inside.filter(|b| !b.is_empty() || left == 0).unwrap_or(&[]);
            let here = &here[..here.len().min(usize::try_from(left).unwrap_or(usize::MAX))];
            if !here.is_empty() || left == 0 {
                match read(&mut Cursor::new(here, self.order, at)) {
                    Err(e) if e.kind() == ErrorKind::Torn && (here.len() as u64) < left => {}
                    other => return other,
                }
                while wanted <= here.len() as u64 {
                    wanted *= 16;
                }
            }
            // Limited by the end of the file, not of the section, so that the window may contain the next section.
            let length = wanted.min(self.source.length().saturating_sub(at)).max(1);
            self.bytes = source::bytes(self.source, at, length, "process group")?;
            self.start = at;
        }
    }
}

/// The whole process group that starts at byte `at`.
///
/// # Errors
/// `Torn` where it does not fit the file, `Corrupt` where its records or checksums are wrong.
pub fn group_at(source: &(impl Source + ?Sized), at: u64, order: ByteOrder) -> Result<Found> {
    let end = source.length();
    let mut window = Window::new(source, order);
    let (length, header, head) = window.record(at, end, |c| {
        let (length, header) = Header::decode(c)?;
        Ok((length, header, c.position() as u64))
    })?;
    let extent = Extent::new(at, length);
    let stop = extent.end().filter(|e| *e <= end).ok_or_else(|| {
        Error::new(ErrorKind::Torn, format!("a process group of {length} bytes, the file ends at byte {end}"))
            .at_byte(at)
    })?;
    if length < head + 2 * SECTION_HEAD as u64 {
        return Err(Error::new(ErrorKind::Corrupt, format!("a process group of {length} bytes")).at_byte(at));
    }
    let trailer = trailer_of(source, extent, order)?;
    let records_end = stop - trailer.as_ref().map_or(0, |t| trailer::length(t.blocks.len()));
    let section = |at: u64| -> Result<(u32, u64)> {
        let bytes = source::bytes(source, at, SECTION_HEAD as u64, "section of a process group")?;
        let mut c = Cursor::new(&bytes, order, at);
        let (count, length) = (c.u32("section")?, c.u64("section")?);
        match at.checked_add(length) {
            Some(end) if end <= records_end && length >= SECTION_HEAD as u64 => Ok((count, end)),
            _ => Err(Error::new(ErrorKind::Corrupt, "a section leaves its process group").at_byte(at)),
        }
    };
    let mut p = at + head;
    let (count, variables_end) = section(p)?;
    p += SECTION_HEAD as u64;
    let mut variables = Vec::new();
    for _ in 0..count {
        let record = window.record(p, variables_end, VariableRecord::decode)?;
        let next = p.checked_add(record.length).filter(|n| *n <= variables_end);
        let next =
            next.ok_or_else(|| Error::new(ErrorKind::Corrupt, "a variable leaves its process group").at_byte(p))?;
        variables.push((p, record));
        p = next;
    }
    if p != variables_end {
        return Err(Error::new(ErrorKind::Corrupt, "bytes after the last variable of a process group").at_byte(p));
    }
    let (count, attributes_end) = section(p)?;
    p += SECTION_HEAD as u64;
    let mut attributes = Vec::new();
    for _ in 0..count {
        let record = window.record(p, attributes_end, AttributeRecord::decode)?;
        let next = p + record.length;
        attributes.push((p, record));
        p = next;
    }
    if p != attributes_end || (trailer.is_none() && p != stop) {
        return Err(Error::new(ErrorKind::Corrupt, "the attributes of a process group do not fill it").at_byte(p));
    }
    if let Some(trailer) = &trailer {
        check_framing(source, extent, trailer, records_end)?;
    }
    Ok(Found { extent, header, trailer, variables, attributes })
}

/// The trailer of the group that starts at byte `start`; `None` if no group with a trailer starts there.
///
/// # Errors
/// Errors of reading.
pub fn trailer_at(source: &(impl Source + ?Sized), start: u64, order: ByteOrder) -> Result<Option<Trailer>> {
    let trailer = || {
        let first: [u8; 8] = source::array(source, start)?;
        let length = Cursor::new(&first, order, start).u64("process group")?;
        let group = Extent::new(start, length);
        match group.end() {
            Some(end) if end <= source.length() => trailer_of(source, group, order),
            _ => Ok(None),
        }
    };
    Ok(source::unless_damaged(trailer())?.flatten())
}

/// The trailer of the group that ends at byte `end`; `None` if no group with a trailer ends there.
///
/// # Errors
/// Errors of reading.
pub fn trailer_before(source: &(impl Source + ?Sized), end: u64, order: ByteOrder) -> Result<Option<Trailer>> {
    let trailer = || Ok(trailer_ending(source, end, end, order)?.filter(|t| t.group.end() == Some(end)));
    Ok(source::unless_damaged(trailer())?.flatten())
}

/// The trailer that ends at `end`, of at most `most` bytes: usually one read.
fn trailer_ending(source: &(impl Source + ?Sized), end: u64, most: u64, order: ByteOrder) -> Result<Option<Trailer>> {
    /// A trailer of 22 blocks fits.
    const TAIL: u64 = 512;
    let tail = source::bytes(source, end - end.min(TAIL), end.min(TAIL), "trailer")?;
    let length = tail.last_chunk().and_then(|last| Trailer::length_from_end(last, order));
    let Some(length) = length.filter(|l| *l <= most) else { return Ok(None) };
    let bytes = match tail.len().checked_sub(length as usize) {
        Some(start) => &tail[start..],
        None => &source::bytes(source, end - length, length, "trailer")?,
    };
    Trailer::decode(bytes, order, end - length).map(Some)
}

/// The trailer of a group; `None` where it has none.
fn trailer_of(source: &(impl Source + ?Sized), group: Extent, order: ByteOrder) -> Result<Option<Trailer>> {
    let stop = group.offset + group.length;
    let Some(trailer) = trailer_ending(source, stop, group.length, order)? else { return Ok(None) };
    if trailer.group != group {
        let at = stop - trailer::length(trailer.blocks.len());
        return Err(Error::new(ErrorKind::Corrupt, "a trailer names another process group").at_byte(at));
    }
    Ok(Some(trailer))
}

/// Compares the checksum of all bytes except payloads.
fn check_framing(source: &(impl Source + ?Sized), group: Extent, trailer: &Trailer, records_end: u64) -> Result<()> {
    let mut crc = Crc32c::new();
    let mut at = group.offset;
    let mut add = |from: u64, to: u64| -> Result<()> {
        if from > to {
            return Err(Error::new(ErrorKind::Corrupt, "blocks of a trailer overlap").at_byte(to));
        }
        crc.update(&source::bytes(source, from, to - from, "process group")?);
        Ok(())
    };
    for block in &trailer.blocks {
        let start = group.offset + block.payload.offset;
        add(at, start)?;
        at = start + block.payload.length;
    }
    add(at, records_end)?;
    let got = crc.finish();
    if got != trailer.framing {
        return Err(Error::new(
            ErrorKind::Corrupt,
            format!("framing checksum of a process group is {:#010x}, computed {got:#010x}", trailer.framing),
        )
        .at_byte(group.offset));
    }
    Ok(())
}

/// Compares the checksums of all payloads of a group; returns the damaged ones as (variable, extent in the file).
///
/// # Errors
/// Errors of reading. Damaged payloads are no error: they are returned.
pub fn damaged_payloads(source: &(impl Source + ?Sized), found: &Found) -> Result<Vec<(String, Extent)>> {
    let mut damaged = Vec::new();
    let Some(trailer) = &found.trailer else { return Ok(damaged) };
    let mut buffer = vec![0; 1 << 18];
    for block in &trailer.blocks {
        let extent = Extent::new(found.extent.offset + block.payload.offset, block.payload.length);
        let mut crc = Crc32c::new();
        for_each_piece(source, extent, &mut buffer, |piece| crc.update(piece))?;
        if crc.finish() != block.crc {
            let name = found
                .variables
                .iter()
                .find(|(at, v)| at + v.payload.offset == extent.offset)
                .map_or("?".to_string(), |(_, v)| v.name.clone());
            damaged.push((name, extent));
        }
    }
    Ok(damaged)
}

/// Whether the value of a scalar or string of a group is damaged: a value that stands in the index too.
///
/// # Errors
/// Errors of reading.
pub fn has_damaged_values(source: &(impl Source + ?Sized), found: &Found) -> Result<bool> {
    let damaged = damaged_payloads(source, found)?;
    let is_value = |extent: &Extent| {
        let at = |(at, v): &&(u64, VariableRecord)| at + v.payload.offset == extent.offset;
        found.variables.iter().find(at).is_none_or(|(_, v)| v.set.shape.is_none() && v.set.transform.is_none())
    };
    Ok(damaged.iter().any(|(_, extent)| is_value(extent)))
}

fn for_each_piece(
    source: &(impl Source + ?Sized),
    extent: Extent,
    buffer: &mut [u8],
    mut then: impl FnMut(&[u8]),
) -> Result<()> {
    let mut done = 0;
    while done < extent.length {
        let n = (extent.length - done).min(buffer.len() as u64) as usize;
        source::fill(source, extent.offset + done, &mut buffer[..n])?;
        then(&buffer[..n]);
        done += n as u64;
    }
    Ok(())
}

impl Found {
    /// The group's index fragment, as its writer made it.
    ///
    /// - `rank`: the writer of a group without a trailer.
    ///
    /// Statistics that only the extension section contains (complex blocks, exact sums) are computed from the payload, except
    /// for transformed blocks: see [`Found::fragment_undoing`].
    ///
    /// # Errors
    /// As [`Index::add_block`], where two records of the group use one name for different types; errors of reading.
    pub fn fragment(
        &self,
        source: &(impl Source + ?Sized),
        file_index: u32,
        rank: u32,
        order: ByteOrder,
    ) -> Result<Index> {
        self.fragment_undoing(source, file_index, rank, order, &|_, _| Ok(None))
    }

    /// As [`Found::fragment`]; `undo` returns the values of a transformed block.
    ///
    /// # Errors
    /// As [`Found::fragment`]; errors of `undo`.
    pub fn fragment_undoing(
        &self,
        source: &(impl Source + ?Sized),
        file_index: u32,
        rank: u32,
        order: ByteOrder,
        undo: Undo<'_>,
    ) -> Result<Index> {
        let mut index = Index::default();
        let header = &self.header;
        index.add_process_group(header, self.trailer.as_ref().map_or(rank, |t| t.rank), self.extent.offset);
        for (at, record) in &self.variables {
            let transform = record.set.transform.as_ref();
            let element = transform.map_or(record.element, |t| t.element);
            let payload = Extent::new(at + record.payload.offset, record.payload.length);
            let location = Location {
                record_offset: *at,
                payload_offset: payload.offset,
                file_index,
                time_index: header.time_index,
            };
            let shape = transform.map(|t| &t.shape).or(record.set.shape.as_ref());
            let mut statistics = record.set.statistics.clone();
            let mut value = None;
            if shape.is_none() {
                let bytes = source::bytes(source, payload.offset, payload.length.min(1 << 16), "value")?;
                value = Value::from_bytes(element, &bytes, order);
            } else if order == ByteOrder::NATIVE
                && (element.is_complex()
                    || statistics.as_ref().is_some_and(|s| {
                        s.finite >= u64::from(u32::MAX) || (element.is_integer() && s.sum.abs() >= (1u64 << 53) as f64)
                    }))
            {
                let mut all = Accumulator::new(element, Level::Full);
                if let Some(transform) = transform {
                    let bytes = source::bytes(source, payload.offset, payload.length, "block")?;
                    if let Some(values) = undo(transform, &bytes)? {
                        all.update(&values);
                        statistics = all.finish();
                    }
                } else {
                    let mut buffer = vec![0; 1 << 18];
                    for_each_piece(source, payload, &mut buffer, |piece| all.update(piece))?;
                    statistics = all.finish();
                }
            }
            let level = match &record.set.statistics {
                Some(s) => s.level,
                None if element.is_complex() => Level::Full,
                None => Level::Off,
            };
            let block = Block {
                id: record.id,
                name: &record.name,
                path: &record.path,
                element,
                is_dimension: false,
                shape,
                level,
                statistics: statistics.as_ref(),
                transform: transform.map(|t| Applied { uid: &t.uid, metadata: &t.metadata }),
                payload: payload.length,
            };
            index.add_block(&header.group, &block, location, value.as_ref())?;
        }
        for (at, record) in &self.attributes {
            let location = Location {
                record_offset: *at,
                payload_offset: at + record.length,
                file_index,
                time_index: header.time_index.max(1),
            };
            index.add_attribute(&header.group, record.id, &record.path, &record.name, &record.value, location)?;
        }
        Ok(index)
    }
}

/// The last time index before the first incomplete step; 0 if there is none.
///
/// - `groups`: (time index, rank, number of ranks in the step, `None` in files of other libraries) of all process groups.
/// - `partial`: time indexes of partial steps, which count as complete.
pub fn last_whole_step(groups: &[(u32, u32, Option<u32>)], partial: &[u32]) -> u32 {
    let mut steps: BTreeMap<u32, (BTreeSet<u32>, Option<u32>)> = BTreeMap::new();
    for (time, rank, wanted) in groups {
        let step = steps.entry(*time).or_default();
        step.0.insert(*rank);
        step.1 = step.1.or(*wanted);
    }
    let whole = |(time, (ranks, wanted)): &(&u32, &(BTreeSet<u32>, Option<u32>))| {
        wanted.is_none_or(|n| ranks.len() as u64 >= u64::from(n)) || partial.contains(time)
    };
    steps.iter().take_while(whole).last().map_or(0, |(time, _)| *time)
}
