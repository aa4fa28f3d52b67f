//! The index: characteristics of every block, sorted for lookup, and the merging of the ranks' fragments.
//!
//! Each rank makes an [`Index`] of its process group, its *fragment*. Rank 0 appends the fragments in rank order: the sets of
//! each variable are joined as bytes, and only names are decoded, so that the cost is linear in blocks. In a file, the index is
//! preceded by the extension section ([`crate::extension`]) and followed by tag and minifooter ([`crate::footer`]).
//!
//! | section | content |
//! |---|---|
//! | process groups | u64 count, u64 length, per group u16 length, str16 group, u8 `y`/`n` Fortran, u32 rank, str16 time name, u32 time index, u64 offset |
//! | variables | u32 count, u64 length, per variable u32 length, u32 id, str16 group, str16 name, str16 path, u8 type, u64 sets, the sets |
//! | attributes | as variables |
//!
//! In memory and in fragments, a set has all statistics of its block; [`Index::encode`] moves counts and sums that are not part
//! of the BP index to the extension section ([`crate::sums`]).
//!
//! Sets are in order of time and, within a step, of rank. Source: `docs/format/bp3.md`, section 4.

use crate::characteristic::{self, Location};
use crate::extension::{self, Directory, DirectoryEntry, Records, Tag};
use crate::footer::Footer;
use crate::process_group::{Block, Header, attribute_code};
use crate::sums::{self, LengthAndCrc, Split, SplitPart, SumsLocations};
use crate::wire::{Cursor, Put};
use hashbrown::{DefaultHashBuilder, HashTable};
use std::borrow::Cow;
use std::hash::BuildHasher;
use thalweg_types::checksum::{combined, crc32c};
use thalweg_types::{AttributeValue, ByteOrder, Error, ErrorKind, Extent, Result, Value, equal};

/// One variable or attribute with its sets, still encoded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// Id in its group.
    pub id: u32,
    /// Group.
    pub group: String,
    /// Name.
    pub name: String,
    /// Path.
    pub path: String,
    /// Type code.
    pub code: u8,
    /// Number of sets.
    pub count: u64,
    /// The concatenated sets.
    pub sets: Vec<u8>,
}

/// The head of an entry, without its sets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Head {
    /// Id in its group.
    pub id: u32,
    /// Group.
    pub group: String,
    /// Name.
    pub name: String,
    /// Path.
    pub path: String,
    /// Type code.
    pub code: u8,
    /// Number of sets.
    pub count: u64,
}

impl Head {
    /// Reads a head, without the length field; the cursor is then at the first set.
    ///
    /// # Errors
    /// As [`Cursor::take`].
    pub fn decode(c: &mut Cursor<'_>) -> Result<Head> {
        Ok(Head {
            id: c.u32("index entry")?,
            group: c.name("index entry")?,
            name: c.name("index entry")?,
            path: c.name("index entry")?,
            code: c.u8("index entry")?,
            count: c.u64("index entry")?,
        })
    }
}

impl Entry {
    /// Bytes of the head, including its length field.
    fn head_length(&self) -> u64 {
        (4 + 4 + 2 + self.group.len() + 2 + self.name.len() + 2 + self.path.len() + 1 + 8) as u64
    }

    /// Encodes the head of an entry with `sets` bytes of sets.
    fn encode_head(&self, sets: usize) -> Vec<u8> {
        let mut out = Vec::with_capacity(self.head_length() as usize);
        out.put_u32(0);
        out.put_u32(self.id);
        out.put_str16(self.group.as_bytes());
        out.put_str16(self.name.as_bytes());
        out.put_str16(self.path.as_bytes());
        out.put_u8(self.code);
        out.put_u64(self.count);
        let length = (out.len() - 4 + sets) as u32;
        out[..4].copy_from_slice(&length.to_ne_bytes());
        out
    }
}

/// Entries with a lookup by path and name.
#[derive(Debug, Clone, Default)]
pub struct Table {
    entries: Vec<Entry>,
    /// Positions in `entries`, by path and name.
    by_name: HashTable<usize>,
    hasher: DefaultHashBuilder,
    bytes: u64,
}

impl Table {
    /// All entries, in order of first appearance.
    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// The entry of this path and name.
    pub fn find(&self, path: &str, name: &str) -> Option<&Entry> {
        self.place(path, name).map(|at| &self.entries[at])
    }

    /// Position of the entry of this path and name in [`Table::entries`].
    pub fn place(&self, path: &str, name: &str) -> Option<usize> {
        let is = |at: &usize| {
            let entry = &self.entries[*at];
            entry.name == name && equal(&entry.path, path)
        };
        self.by_name.find(self.hasher.hash_one((path, name)), is).copied()
    }

    /// Position of the entry of this path and name; adds an entry if there is none.
    fn place_of(&mut self, id: u32, group: &str, path: &str, name: &str, code: u8) -> usize {
        if let Some(at) = self.place(path, name) {
            return at;
        }
        let at = self.entries.len();
        self.entries.push(Entry {
            id,
            group: group.to_string(),
            name: name.to_string(),
            path: path.to_string(),
            code,
            count: 0,
            sets: Vec::new(),
        });
        let hash = |at: &usize| {
            let entry = &self.entries[*at];
            self.hasher.hash_one((entry.path.as_str(), entry.name.as_str()))
        };
        self.by_name.insert_unique(hash(&at), at, hash);
        at
    }

    /// The entry at a position; `InvalidArgument` if it has another group or type.
    fn sets_at(&mut self, at: usize, group: &[u8], code: u8) -> Result<&mut Entry> {
        let entry = &mut self.entries[at];
        if entry.group.as_bytes() != group {
            let message = format!(
                "\"{}/{}\" is in group \"{}\" of this file; a file holds a name once",
                entry.path, entry.name, entry.group
            );
            return Err(Error::new(ErrorKind::InvalidArgument, message).in_group(String::from_utf8_lossy(group)));
        }
        if entry.code != code {
            return Err(Error::new(
                ErrorKind::InvalidArgument,
                format!("type code {code}, but the file has type code {}", entry.code),
            )
            .in_variable(entry.name.clone()));
        }
        Ok(entry)
    }

    fn add(
        &mut self,
        id: u32,
        group: &str,
        path: &str,
        name: &str,
        code: u8,
        set: impl FnOnce(&mut Vec<u8>),
    ) -> Result<()> {
        let at = self.place_of(id, group, path, name, code);
        let entry = self.sets_at(at, group.as_bytes(), code)?;
        let before = entry.sets.len();
        // Most sets have one dimension to three, and statistics.
        entry.sets.reserve(192);
        set(&mut entry.sets);
        entry.count += 1;
        let added = entry.sets.len() - before;
        self.bytes += added as u64;
        Ok(())
    }

    fn append(&mut self, c: &mut Cursor<'_>) -> Result<()> {
        let count = c.u32("index section")?;
        c.u64("index section")?;
        // Ranks usually write their variables in the same order: names are then not looked up.
        let mut next = 0;
        for _ in 0..count {
            let length = c.u32("index entry")?;
            let mut inside = c.inside(u64::from(length), "index entry")?;
            let start = inside.clone();
            let id = inside.u32("index entry")?;
            let mut name = || inside.str16("index entry");
            let (group, name, path) = (name()?, name()?, name()?);
            let code = inside.u8("index entry")?;
            let count = inside.u64("index entry")?;
            let sets = inside.take(inside.left(), "characteristics")?;
            // A set has 5 bytes at least.
            if count.checked_mul(5).is_none_or(|least| least > sets.len() as u64) {
                return Err(inside.fail(ErrorKind::Corrupt, format!("{count} sets in {} bytes", sets.len())));
            }
            let same = |e: &Entry| e.name.as_bytes() == name && equal(&e.path, path);
            let entry = if self.entries.get(next).is_some_and(same) {
                self.sets_at(next, group, code)?
            } else {
                // Bytes that are not UTF-8 are replaced here.
                let head = Head::decode(&mut start.clone())?;
                next = self.place_of(id, &head.group, &head.path, &head.name, code);
                self.sets_at(next, head.group.as_bytes(), code)?
            };
            next += 1;
            entry.sets.extend_from_slice(sets);
            entry.count += count;
            self.bytes += sets.len() as u64;
        }
        Ok(())
    }

    /// Joins separately stored counts and sums to the sets of an entry.
    pub(crate) fn join_sums(&mut self, path: &str, name: &str, sums: &[u8]) -> Result<()> {
        let Some(at) = self.place(path, name) else { return Ok(()) };
        let entry = &mut self.entries[at];
        let sets = sums::join(&mut Cursor::new(&entry.sets, ByteOrder::NATIVE, 0), sums)?;
        self.bytes += (sets.len() - entry.sets.len()) as u64;
        entry.sets = sets;
        Ok(())
    }

    /// Appends the section, as in fragments.
    fn encode(&self, out: &mut Vec<u8>) {
        out.put_u32(self.entries.len() as u32);
        out.put_u64(self.section_length() - 12);
        for entry in &self.entries {
            out.put(&entry.encode_head(entry.sets.len()));
            out.put(&entry.sets);
        }
    }

    fn section_length(&self) -> u64 {
        let heads: u64 = self.entries.iter().map(Entry::head_length).sum();
        12 + heads + self.bytes
    }
}

/// An index in memory, in this machine's byte order.
#[derive(Debug, Clone, Default)]
pub struct Index {
    process_groups: Vec<u8>,
    process_group_count: u64,
    last_time: u32,
    last_time_groups: u64,
    /// 0 means 1, the first time index of this library's files.
    first_time: u32,
    /// Variables.
    pub variables: Table,
    /// Attributes.
    pub attributes: Table,
    /// Records of the extension section.
    pub records: Records,
}

/// One entry of the process group index.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProcessGroupEntry {
    /// Group.
    pub group: String,
    /// Dimensions fastest first.
    pub fortran: bool,
    /// Writer.
    pub rank: u32,
    /// Time name.
    pub time_name: String,
    /// Step + 1.
    pub time_index: u32,
    /// Offset in its file or subfile.
    pub offset: u64,
}

impl ProcessGroupEntry {
    /// Reads one entry.
    ///
    /// # Errors
    /// As [`RawProcessGroup::decode`].
    pub fn decode(c: &mut Cursor<'_>) -> Result<ProcessGroupEntry> {
        RawProcessGroup::decode(c).map(|raw| raw.to_entry())
    }
}

/// As [`ProcessGroupEntry`], with names borrowed from the index: no memory is allocated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct RawProcessGroup<'a> {
    pub group: &'a [u8],
    pub fortran: bool,
    pub rank: u32,
    pub time_name: &'a [u8],
    pub time_index: u32,
    pub offset: u64,
}

impl<'a> RawProcessGroup<'a> {
    /// Reads one entry.
    ///
    /// # Errors
    /// As [`Cursor::take`]: fields that exceed the entry or the cursor.
    pub fn decode(c: &mut Cursor<'a>) -> Result<RawProcessGroup<'a>> {
        let length = c.u16("process group entry")?;
        let mut c = c.inside(u64::from(length), "process group entry")?;
        Ok(RawProcessGroup {
            group: c.str16("group name")?,
            fortran: c.u8("process group entry")? == b'y',
            rank: c.u32("process group entry")?,
            time_name: c.str16("time name")?,
            time_index: c.u32("process group entry")?,
            offset: c.u64("process group entry")?,
        })
    }

    /// Converts to an entry with owned names; bytes that are not UTF-8 are replaced.
    pub fn to_entry(self) -> ProcessGroupEntry {
        let name = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        ProcessGroupEntry {
            group: name(self.group),
            fortran: self.fortran,
            rank: self.rank,
            time_name: name(self.time_name),
            time_index: self.time_index,
            offset: self.offset,
        }
    }
}

/// Decodes the entries of a process group index, including the section head.
///
/// # Errors
/// As [`RawProcessGroup::decode`], of the first entry that fails.
pub fn process_groups(c: &mut Cursor<'_>) -> Result<Vec<ProcessGroupEntry>> {
    raw_process_groups(c)?.map(|entry| entry.map(RawProcessGroup::to_entry)).collect()
}

/// As [`process_groups`], as an iterator without memory for all entries; it ends after an error.
///
/// # Errors
/// As [`Cursor::take`], where the section head is incomplete; entries fail as in [`RawProcessGroup::decode`].
pub fn raw_process_groups<'a>(c: &mut Cursor<'a>) -> Result<impl Iterator<Item = Result<RawProcessGroup<'a>>>> {
    let mut left = c.u64("process group index")?;
    c.u64("process group index")?;
    Ok(std::iter::from_fn(move || {
        left = left.checked_sub(1)?;
        Some(RawProcessGroup::decode(c).inspect_err(|_| left = 0))
    }))
}

impl Index {
    /// Adds a process group; its blocks and attributes are added afterwards.
    pub fn add_process_group(&mut self, header: &Header, rank: u32, offset: u64) {
        let at = self.process_groups.len();
        let out = &mut self.process_groups;
        out.put_u16(0);
        out.put_str16(header.group.as_bytes());
        out.put_u8(if header.fortran { b'y' } else { b'n' });
        out.put_u32(rank);
        out.put_str16(header.time_name.as_bytes());
        out.put_u32(header.time_index);
        out.put_u64(offset);
        let length = (out.len() - at - 2) as u16;
        out[at..at + 2].copy_from_slice(&length.to_ne_bytes());
        self.count_group(header.time_index);
    }

    fn count_group(&mut self, time: u32) {
        self.process_group_count += 1;
        if time > self.last_time {
            (self.last_time, self.last_time_groups) = (time, 0);
        }
        self.last_time_groups += 1;
    }

    /// Adds a block. `value` is the value of a scalar or string.
    ///
    /// # Errors
    /// `InvalidArgument` where the index has the variable in another group or with another type; the index is then unchanged.
    pub fn add_block(&mut self, group: &str, block: &Block<'_>, at: Location, value: Option<&Value>) -> Result<()> {
        self.variables.add(block.id, group, block.path, block.name, block.stored_element().code(), |out| {
            match (block.shape, value) {
                (Some(shape), _) => characteristic::put_array_set(out, at, shape, block),
                (None, value) => characteristic::put_scalar_set(out, at, value.unwrap_or(&Value::String(Vec::new()))),
            }
        })?;
        if let (Some(s), Some(_)) = (block.statistics, block.shape) {
            let key = |out: &mut Vec<u8>| {
                out.put_u32(at.file_index);
                out.put_u32(0);
                out.put_u64(at.payload_offset);
            };
            // Statistics with bounds only have no count and sum: no records, as in an index that was built from the groups.
            let full = s.level.has_sums();
            if let Some(parts) = &s.complex {
                let out = self.records.list(Tag::ComplexStatistics);
                key(out);
                out.put_u64(s.finite);
                for p in parts {
                    [p.min, p.max, p.sum, p.sum_of_squares].into_iter().for_each(|v| out.put_f64(v));
                }
            } else if full && s.finite > u64::from(u32::MAX) {
                let out = self.records.list(Tag::WideCount);
                key(out);
                out.put_u64(s.finite);
            }
            if let Some(sum) = s.exact_sum.filter(|sum| full && sum.unsigned_abs() > 1 << 53) {
                let out = self.records.list(Tag::ExactSum);
                key(out);
                out.put(&sum.to_ne_bytes());
            }
        }
        Ok(())
    }

    /// Adds one writing of an attribute.
    ///
    /// # Errors
    /// `InvalidArgument` where the index has the attribute in another group or with another type; the index is then unchanged.
    pub fn add_attribute(
        &mut self,
        group: &str,
        id: u32,
        path: &str,
        name: &str,
        value: &AttributeValue,
        at: Location,
    ) -> Result<()> {
        self.attributes.add(id, group, path, name, attribute_code(value), |out| {
            characteristic::put_attribute_set(out, at, value);
        })
    }

    /// Number of process groups.
    pub fn process_group_count(&self) -> u64 {
        self.process_group_count
    }

    /// The last time index; 0 for none.
    pub fn last_time(&self) -> u32 {
        self.last_time
    }

    /// The time index of step 0: 1, except in files that another library began with a later one.
    pub fn first_time(&self) -> u32 {
        self.first_time.max(1)
    }

    /// Sets the time index of step 0.
    pub fn set_first_time(&mut self, time: u32) {
        self.first_time = time;
    }

    /// Number of sets and process groups, a measure of the index's cost.
    pub fn sets(&self) -> u64 {
        let of = |t: &Table| t.entries.iter().map(|e| e.count).sum::<u64>();
        self.process_group_count + of(&self.variables) + of(&self.attributes)
    }

    /// Bytes of the three sections.
    pub fn length(&self) -> u64 {
        16 + self.process_groups.len() as u64 + self.variables.section_length() + self.attributes.section_length()
    }

    /// Process groups in memory.
    ///
    /// # Errors
    /// `Torn` where the process groups in memory are damaged.
    pub fn process_groups(&self) -> Result<Vec<ProcessGroupEntry>> {
        self.raw_process_groups().map(|entry| entry.map(RawProcessGroup::to_entry)).collect()
    }

    /// As [`Index::process_groups`], as an iterator without memory for all entries.
    pub fn raw_process_groups(&self) -> impl Iterator<Item = Result<RawProcessGroup<'_>>> {
        let mut c = Cursor::new(&self.process_groups, ByteOrder::NATIVE, 0);
        std::iter::from_fn(move || (c.left() > 0).then(|| RawProcessGroup::decode(&mut c)))
    }

    /// Appends another index, given as its three sections; its time indexes must not be earlier.
    ///
    /// # Errors
    /// `Unsupported` for sections of the other byte order, and `self` is then unchanged. `Torn` or `Corrupt` where a section
    /// is damaged; `InvalidArgument` where a name has another group or type here. `self` may then contain part of the sections.
    pub fn append_sections(
        &mut self,
        groups: &mut Cursor<'_>,
        variables: &mut Cursor<'_>,
        attributes: &mut Cursor<'_>,
    ) -> Result<()> {
        if groups.order() != ByteOrder::NATIVE {
            return Err(groups.fail(
                ErrorKind::Unsupported,
                "the file was written in the other byte order: it can be read, not extended",
            ));
        }
        let count = groups.u64("process group index")?;
        groups.u64("process group index")?;
        for _ in 0..count {
            let mut look = groups.clone();
            let entry = RawProcessGroup::decode(&mut look)?;
            let bytes = groups.take(look.position() - groups.position(), "process group entry")?;
            self.process_groups.extend_from_slice(bytes);
            self.count_group(entry.time_index);
        }
        self.variables.append(variables)?;
        self.attributes.append(attributes)
    }

    /// Appends a fragment of [`Index::to_fragment`].
    ///
    /// # Errors
    /// As [`Index::append_packed`].
    pub fn append_fragment(&mut self, fragment: &[u8]) -> Result<()> {
        self.append_packed(&mut Cursor::new(fragment, ByteOrder::NATIVE, 0))
    }

    /// Appends sections packed as in fragments and step records.
    ///
    /// # Errors
    /// As [`Index::append_sections`]; `Torn` where the sections exceed the cursor.
    pub fn append_packed(&mut self, c: &mut Cursor<'_>) -> Result<()> {
        let lengths = [c.u64("fragment")?, c.u64("fragment")?, c.u64("fragment")?, c.u64("fragment")?];
        let mut groups = c.inside(lengths[0], "process group index")?;
        let mut variables = c.inside(lengths[1], "variable index")?;
        let mut attributes = c.inside(lengths[2], "attribute index")?;
        self.append_sections(&mut groups, &mut variables, &mut attributes)?;
        self.records.append(&Records::decode(&mut c.inside(lengths[3], "extension records")?)?);
        Ok(())
    }

    /// Packs the sections: four u64 lengths (process groups, variables, attributes, extension records), then the sections.
    pub fn to_fragment(&self) -> Vec<u8> {
        let mut records = Vec::new();
        self.records.encode(&mut records);
        let mut out = Vec::with_capacity(self.length() as usize + records.len() + 32);
        out.put_u64(16 + self.process_groups.len() as u64);
        out.put_u64(self.variables.section_length());
        out.put_u64(self.attributes.section_length());
        out.put_u64(records.len() as u64);
        out.put_u64(self.process_group_count);
        out.put_u64(self.process_groups.len() as u64);
        out.put(&self.process_groups);
        self.variables.encode(&mut out);
        self.attributes.encode(&mut out);
        out.put(&records);
        out
    }

    /// The variable section, encoded as in a fragment.
    pub(crate) fn variables_section(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(self.variables.section_length() as usize);
        self.variables.encode(&mut out);
        out
    }

    /// Adds the variables of an encoded process group of a single file, as its writer added them; `c`: at the start of the group.
    /// The process group itself, its attributes and its records of the extension section are not added.
    ///
    /// Everything but the location and the values of scalars is copied: the set inside a variable record is the end of its index set.
    ///
    /// # Errors
    /// `Torn` where the group exceeds the cursor; as [`Header::decode`], [`characteristic::next_set`] and [`Index::add_block`].
    pub fn add_encoded_group(&mut self, c: &mut Cursor<'_>) -> Result<()> {
        let start = c.clone();
        let (length, header) = Header::decode(c)?;
        let head = c.position() - start.position();
        let left = length.checked_sub(head as u64);
        let left = left.ok_or_else(|| c.fail(ErrorKind::Corrupt, format!("a process group of {length} bytes")))?;
        let mut c = c.inside(left, "process group")?;
        let (count, _) = (c.u32("variables")?, c.u64("variables")?);
        for _ in 0..count {
            let record_offset = c.place();
            let mut record = {
                let length = c.clone().u64("variable record")?;
                c.inside(length, "variable record")?
            };
            record.u64("variable record")?;
            let id = record.u32("variable record")?;
            let (name, path) = (record.name("variable name")?, record.name("variable path")?);
            let code = record.u8("variable type")?;
            record.u8("variable record")?;
            record.u8("dimensions")?;
            record.str16("dimensions")?;
            let (records, mut set) = characteristic::next_set(&mut record)?;
            let at = Location {
                record_offset,
                payload_offset: record.place(),
                file_index: characteristic::SINGLE_FILE,
                time_index: header.time_index,
            };
            let set = set.take(set.left(), "characteristics")?;
            let payload = record.take(record.left(), "payload")?;
            self.variables.add(id, &header.group, &path, &name, code, |out| {
                characteristic::put_set_of_record(out, at, records, set, code, payload);
            })?;
        }
        Ok(())
    }

    /// Encodes the index for byte `start` of a file: extension section, three sections, tag, minifooter, as consecutive pieces.
    /// Large pieces are borrowed.
    ///
    /// - `subfiles`: the file is a metadata file.
    /// - `finished`: the file is closed for good.
    ///
    /// # Errors
    /// `OutOfBounds` where an entry exceeds 4 GiB, the limit of BP version 3.
    pub fn encode(&self, start: u64, subfiles: bool, finished: bool) -> Result<EncodedIndex<'_>> {
        let mut index: Vec<IndexSegment<'_>> = Vec::new();
        let mut directory =
            Directory { steps: self.last_time, process_groups: self.process_group_count, ..Directory::default() };
        let mut head = Vec::new();
        head.put_u64(self.process_group_count);
        head.put_u64(self.process_groups.len() as u64);
        index.push(IndexSegment::of(head));
        index.push(IndexSegment::of(self.process_groups.as_slice()));
        directory.process_groups_crc = crc_of(&index);
        let mut at = 16 + self.process_groups.len() as u64;
        let mut rest = Vec::new();
        let mut sections = [0; 2];
        let (mut locations, mut beside) = (SumsLocations::default(), Vec::new());
        for (i, table) in [&self.variables, &self.attributes].into_iter().enumerate() {
            sections[i] = at;
            let mut sets: Vec<IndexSegment<'_>> = Vec::with_capacity(table.entries.len());
            for (number, entry) in table.entries.iter().enumerate() {
                sets.push(match sums::split(&entry.sets).filter(|_| i == 0) {
                    Some(split) => {
                        locations.add(number as u32, split.sums);
                        beside.push(IndexSegment { checksum: split.sums, bytes: Bytes::Apart(split, SplitPart::Sums) });
                        IndexSegment { checksum: split.sets, bytes: Bytes::Apart(split, SplitPart::Sets) }
                    }
                    None => IndexSegment::of(entry.sets.as_slice()),
                });
            }
            let mut head = Vec::new();
            head.put_u32(sets.len() as u32);
            head.put_u64(table.entries.iter().zip(&sets).map(|(e, sets)| e.head_length() + sets.checksum.length).sum());
            at += head.len() as u64;
            rest.push(head.clone());
            index.push(IndexSegment::of(head));
            for (entry, sets) in table.entries.iter().zip(sets) {
                let head = IndexSegment::of(entry.encode_head(sets.checksum.length as usize));
                let length = head.checksum.length + sets.checksum.length;
                if u32::try_from(length - 4).is_err() {
                    return Err(Error::new(
                        ErrorKind::OutOfBounds,
                        format!("an index entry of {length} bytes; BP version 3 holds 4 GiB"),
                    )
                    .in_variable(entry.name.clone()));
                }
                directory.entries.push(DirectoryEntry {
                    is_attribute: i == 1,
                    code: entry.code,
                    crc: crc_of([&head, &sets]),
                    extent: Extent::new(at, length),
                    sets: entry.count,
                    id: entry.id,
                    group: entry.group.clone(),
                    path: entry.path.clone(),
                    name: entry.name.clone(),
                });
                at += length;
                index.push(head);
                index.push(sets);
            }
        }
        // The extension section precedes the index: the footer's offsets depend on its length.
        let mut records = self.records.clone();
        records.0.insert(Tag::Directory as u32, directory.encode());
        if self.first_time() > 1 {
            let mut first = Vec::new();
            first.put_u32(self.first_time());
            records.0.insert(Tag::FirstTime as u32, first);
        }
        if !beside.is_empty() {
            records.0.insert(Tag::SumsOf as u32, locations.encode());
        }
        let index_start = start + extension::length(&records, locations.length());
        let mut footer = Vec::new();
        Footer {
            process_groups: index_start,
            variables: index_start + sections[0],
            attributes: index_start + sections[1],
            order: ByteOrder::NATIVE,
            subfiles,
        }
        .encode(&mut footer);
        directory.rest_crc = extension::crc_of(rest.iter().map(Vec::as_slice).chain([footer.as_slice()]));
        records.0.insert(Tag::Directory as u32, directory.encode());
        index.push(IndexSegment::of(footer));
        let index_length = index.iter().map(|p| p.checksum.length).sum();
        let (front, tail) = extension::encode(start, &records, &locations, finished, index_length, crc_of(&index));
        let extension = Extent::new(start, index_start - start);
        let section = std::iter::once(IndexSegment::of(front)).chain(beside).chain([IndexSegment::of(tail)]);
        let pieces = section.chain(index).filter(|p| p.checksum.length > 0).collect();
        Ok(EncodedIndex { pieces, extension, length: extension.length + index_length })
    }
}

/// Bytes of an index, with their length and checksum.
#[derive(Debug)]
struct IndexSegment<'a> {
    checksum: LengthAndCrc,
    bytes: Bytes<'a>,
}

#[derive(Debug)]
enum Bytes<'a> {
    /// Encoded bytes.
    Whole(Cow<'a, [u8]>),
    /// One part of split sets, which is encoded when it is written.
    Apart(Split<'a>, SplitPart),
}

impl<'a> IndexSegment<'a> {
    fn of(bytes: impl Into<Cow<'a, [u8]>>) -> IndexSegment<'a> {
        let bytes = bytes.into();
        IndexSegment {
            checksum: LengthAndCrc { length: bytes.len() as u64, crc: crc32c(&bytes) },
            bytes: Bytes::Whole(bytes),
        }
    }
}

fn crc_of<'a>(pieces: impl IntoIterator<Item = &'a IndexSegment<'a>>) -> u32 {
    pieces.into_iter().fold(crc32c(&[]), |crc, p| combined(crc, p.checksum.crc, p.checksum.length))
}

/// A full index ready to be written.
#[derive(Debug)]
pub struct EncodedIndex<'a> {
    pieces: Vec<IndexSegment<'a>>,
    /// Extent of its extension section in the file.
    pub extension: Extent,
    /// Bytes of the whole index, including the extension section.
    pub length: u64,
}

/// Most bytes encoded for one write, in addition to borrowed ones.
const TOGETHER: usize = 1 << 20;

impl EncodedIndex<'_> {
    /// Removes and returns tag and minifooter, which the other methods then omit.
    pub fn take_footer(&mut self) -> Vec<u8> {
        match self.pieces.pop().map(|p| p.bytes) {
            Some(Bytes::Whole(bytes)) => bytes.into_owned(),
            _ => Vec::new(),
        }
    }

    /// Passes all bytes to `each`, in order: the number of earlier bytes, and consecutive slices. An index without sums, or with
    /// less than 1 MiB of sets and sums, is passed with one call.
    ///
    /// # Errors
    /// Errors of `each`, which is not called again then.
    /// # Memory
    /// 1 MiB, and the largest set.
    pub fn write<E>(
        &self,
        mut each: impl FnMut(u64, &[&[u8]]) -> std::result::Result<(), E>,
    ) -> std::result::Result<(), E> {
        /// Borrowed bytes, or a range of the encoded ones.
        enum At<'b> {
            There(&'b [u8]),
            Put(std::ops::Range<usize>),
        }
        let (mut written, mut all, mut put) = (0, Vec::new(), Vec::new());
        let mut flush = |all: &mut Vec<At<'_>>, put: &mut Vec<u8>| -> std::result::Result<(), E> {
            let slices: Vec<&[u8]> = all
                .iter()
                .map(|at| match at {
                    At::There(bytes) => *bytes,
                    At::Put(range) => &put[range.clone()],
                })
                .collect();
            let length: u64 = slices.iter().map(|s| s.len() as u64).sum();
            if length > 0 {
                each(written, &slices)?;
            }
            written += length;
            all.clear();
            put.clear();
            Ok(())
        };
        for piece in &self.pieces {
            match &piece.bytes {
                Bytes::Whole(bytes) => all.push(At::There(bytes)),
                Bytes::Apart(split, part) => {
                    let mut from = put.len();
                    split.put::<E>(*part, &mut put, &mut |put| {
                        if put.len() >= TOGETHER {
                            all.push(At::Put(from..put.len()));
                            flush(&mut all, put)?;
                            from = 0;
                        }
                        Ok(())
                    })?;
                    all.push(At::Put(from..put.len()));
                }
            }
        }
        flush(&mut all, &mut put)
    }

    /// The whole index as contiguous bytes.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(self.length as usize);
        let done = self.write(|_, slices| {
            slices.iter().for_each(|s| out.extend_from_slice(s));
            Ok::<_, std::convert::Infallible>(())
        });
        let Ok(()) = done;
        out
    }
}
