//! The live end of a file: the last valid index or step record.
//!
//! A closed file ends with a minifooter or a step record. After an interrupted output the file may end with any bytes; the last
//! valid end is then searched backwards, which costs one pass over the torn output; holes of sparse files are skipped where the
//! store knows them ([`Source::stored_before`]). Earlier bytes are intact, because appending
//! never overwrites an index.

use crate::characteristic::{self, Characteristics};
use crate::extension::{self, Directory, Extension, Records, Tag};
use crate::footer::{FOOTER, Footer, MINIFOOTER};
use crate::foreign;
use crate::index::{Head, Index};
use crate::source::{self, Metered, Source};
use crate::step_record::{self, StepRecord};
use crate::sums;
use crate::wire::Cursor;
use memchr::memmem;
use std::borrow::Cow;
use std::collections::HashSet;
use thalweg_types::{ByteOrder, ElementType, Error, ErrorKind, Extent, Result, holes};

/// The head of an index entry, and its location in the file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EntryPlace {
    /// Names, type code, number of sets.
    pub head: Head,
    /// The entry is an attribute, otherwise a variable.
    pub is_attribute: bool,
    /// The entry in the file, including its length field.
    pub extent: Extent,
    /// Its checksum, if the file has a directory.
    pub crc: Option<u32>,
    /// Counts and sums of its sets that are stored separately.
    pub sums: Option<SumsPlace>,
}

/// The location of one variable's counts and sums.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SumsPlace {
    /// Their extent in the file.
    pub extent: Extent,
    /// Their checksum.
    pub crc: u32,
    /// Their bytes, if they were read with the extension section.
    pub bytes: Option<Vec<u8>>,
}

impl EntryPlace {
    /// Reads the entry and compares its checksums. Returns its length field (of the entry in the BP index), its head, and its
    /// sets joined with their sums.
    ///
    /// # Errors
    /// `Corrupt`, with the byte, where the checksum of the entry or its sums is wrong; errors of reading.
    /// # Cost
    /// One read; a second one for sums of a large extension section, which an open does not read.
    pub fn read(&self, source: &(impl Source + ?Sized), order: ByteOrder) -> Result<Vec<u8>> {
        let mut bytes = source::bytes(source, self.extent.offset, self.extent.length, "index entry")?;
        if self.crc.is_some_and(|crc| extension::entry_crc(&bytes) != crc) {
            return Err(Error::new(ErrorKind::Corrupt, "the checksum of its index entry is wrong")
                .in_variable(self.head.name.clone())
                .at_byte(self.extent.offset));
        }
        let Some(sums) = &self.sums else { return Ok(bytes) };
        let named = |e: Error| e.in_variable(self.head.name.clone());
        let sums = sums.read(source).map_err(named)?;
        let mut c = Cursor::new(&bytes, order, self.extent.offset);
        c.u32("index entry")?;
        Head::decode(&mut c)?;
        let head = c.position();
        let sets = sums::join(&mut c, &sums).map_err(named)?;
        bytes.truncate(head);
        bytes.extend_from_slice(&sets);
        Ok(bytes)
    }

    /// Reads and checks the entry, and passes every set to `each`, in the order of the file.
    ///
    /// # Errors
    /// As [`EntryPlace::read`] and [`for_each_set`].
    pub fn for_each_set(
        &self,
        source: &(impl Source + ?Sized),
        order: ByteOrder,
        each: impl FnMut(Characteristics) -> Result<()>,
    ) -> Result<()> {
        let bytes = self.read(source, order)?;
        let mut c = Cursor::new(&bytes, order, self.extent.offset);
        c.u32("index entry")?;
        let head = Head::decode(&mut c)?;
        for_each_set(&mut c, head.code, head.count, each)
    }
}

impl SumsPlace {
    fn read(&self, source: &(impl Source + ?Sized)) -> Result<Cow<'_, [u8]>> {
        let bytes = match &self.bytes {
            Some(bytes) => Cow::Borrowed(bytes.as_slice()),
            None => source::bytes(source, self.extent.offset, self.extent.length, "sums")?.into(),
        };
        if extension::entry_crc(&bytes) != self.crc {
            return Err(Error::new(ErrorKind::Corrupt, "the checksum of its sums is wrong").at_byte(self.extent.offset));
        }
        Ok(bytes)
    }
}

/// Decodes `count` sets, and passes each to `each`.
///
/// # Errors
/// As [`characteristic::decode_set`]; `Corrupt` for bytes after the last set; errors of `each`, which is not called again then.
pub fn for_each_set(
    c: &mut Cursor<'_>,
    code: u8,
    count: u64,
    mut each: impl FnMut(Characteristics) -> Result<()>,
) -> Result<()> {
    let element = ElementType::from_code(code);
    for _ in 0..count {
        each(characteristic::decode_set(c, element, false)?)?;
    }
    if c.left() > 0 {
        return Err(c.fail(ErrorKind::Corrupt, format!("{} bytes after the last set", c.left())));
    }
    Ok(())
}

/// A full index in a file, without its entries.
#[derive(Debug, Clone)]
pub struct Base {
    /// Footer.
    pub footer: Footer,
    /// End of the minifooter.
    pub end: u64,
    /// Extension section; `None` in files of other libraries.
    pub extension: Option<Extension>,
    /// The time index of step 0: 1 in files of this library. Later files of a process of ADIOS 1.x begin with another.
    pub first_time: u32,
    /// The last time index.
    pub last_time: u32,
    /// Number of process groups.
    pub process_groups: u64,
    /// Entries of variables and attributes.
    pub entries: Vec<EntryPlace>,
}

impl Base {
    /// The full index whose minifooter ends at byte `end`; `None` if no minifooter ends there.
    ///
    /// # Errors
    /// `Corrupt` where footer, extension section or the structure of the index is damaged; errors of reading.
    pub fn ending_at(source: &(impl Source + ?Sized), end: u64) -> Result<Option<Base>> {
        if end < FOOTER {
            return Ok(None);
        }
        let tail: [u8; MINIFOOTER as usize] = source::array(source, end - MINIFOOTER)?;
        let Ok(footer) = Footer::decode(&tail, end) else { return Ok(None) };
        let extension = extension::before(source, footer.process_groups, footer.order)?;
        if let Some(extension) = extension {
            if footer.process_groups.checked_add(extension.index_length) != Some(end) {
                return Err(Error::new(
                    ErrorKind::Corrupt,
                    "the extension section describes an index of another length",
                )
                .at_byte(footer.process_groups));
            }
            let directory = extension.records.get(Tag::Directory);
            let directory = Directory::decode(&mut Cursor::new(directory, footer.order, extension.extent.offset))?;
            let base = Base::with_directory(footer, end, extension, directory)?;
            // A file closed for good was complete when its mark was written; other files may be incomplete after a power failure.
            if !base.extension.as_ref().is_some_and(|e| e.finished) {
                base.check_bytes(source)?;
            }
            return Ok(Some(base));
        }
        // A file of this library with a damaged section must not be taken for another library's, which has no checksums.
        let tag: [u8; (FOOTER - MINIFOOTER) as usize] = source::array(source, end - FOOTER)?;
        if Footer::is_ours(&tag) || Footer::is_cut(&tag, end) {
            return Err(Error::new(ErrorKind::Corrupt, "the extension section in front of the index is not there")
                .at_byte(footer.process_groups));
        }
        Base::walk(source, footer, end).map(Some)
    }

    fn with_directory(footer: Footer, end: u64, mut extension: Extension, directory: Directory) -> Result<Base> {
        let first = extension.records.get(Tag::FirstTime);
        let first_time = Cursor::new(first, footer.order, 0).u32("").unwrap_or(1).max(1);
        let mut entries = directory
            .entries
            .into_iter()
            .map(|e| EntryPlace {
                is_attribute: e.is_attribute,
                extent: Extent::new(footer.process_groups.saturating_add(e.extent.offset), e.extent.length),
                crc: Some(e.crc),
                sums: None,
                head: Head { id: e.id, group: e.group, name: e.name, path: e.path, code: e.code, count: e.sets },
            })
            .collect::<Vec<_>>();
        if let Some(sums) = &mut extension.sums {
            let all = sums.bytes.take();
            for location in &sums.locations.0 {
                let entry = entries.get_mut(location.entry as usize).filter(|e| !e.is_attribute && e.sums.is_none());
                let entry = entry.ok_or_else(|| {
                    Error::new(ErrorKind::Corrupt, "sums of no variable").at_byte(extension.extent.offset)
                })?;
                let (from, length) = (location.extent.offset, location.extent.length);
                let bytes = all.as_ref().map(|all| all[from as usize..(from + length) as usize].to_vec());
                let extent = Extent::new(sums.extent.offset + from, length);
                entry.sums = Some(SumsPlace { extent, crc: location.crc, bytes });
            }
        }
        Ok(Base {
            footer,
            end,
            extension: Some(extension),
            first_time,
            last_time: directory.steps,
            process_groups: directory.process_groups,
            entries,
        })
    }

    /// Finds the entries of a file without a directory, with one short read per entry, and reads the process group index.
    fn walk(source: &(impl Source + ?Sized), footer: Footer, end: u64) -> Result<Base> {
        let groups = source::bytes(
            source,
            footer.process_groups,
            footer.variables - footer.process_groups,
            "process group index",
        )?;
        let groups = crate::index::process_groups(&mut Cursor::new(&groups, footer.order, footer.process_groups))?;
        let last_time = groups.iter().map(|g| g.time_index).max().unwrap_or(0);
        let first_time = groups.iter().map(|g| g.time_index).min().unwrap_or(1).max(1);
        let mut entries = Vec::new();
        for (is_attribute, start, stop) in
            [(false, footer.variables, footer.attributes), (true, footer.attributes, end - FOOTER)]
        {
            let head: [u8; 12] = source::array(source, start)?;
            let count = Cursor::new(&head, footer.order, start).u32("index section")?;
            let mut at = start + 12;
            for _ in 0..count {
                let window = source::bytes(source, at, (stop.saturating_sub(at)).min(1024), "index entry")?;
                let decoded = Self::head_of(&window, footer.order, at);
                let (length, head) = match decoded {
                    Err(e) if e.kind() == ErrorKind::Torn && window.len() == 1024 => {
                        // The head may contain three names of up to 64 KiB.
                        let window =
                            source::bytes(source, at, (stop.saturating_sub(at)).min(256 * 1024), "index entry")?;
                        Self::head_of(&window, footer.order, at)?
                    }
                    other => other?,
                };
                let extent = Extent::new(at, u64::from(length) + 4);
                at = match extent.end() {
                    Some(next) if next <= stop => next,
                    _ => {
                        return Err(Error::new(
                            ErrorKind::Corrupt,
                            format!("an index entry of {length} bytes leaves the index"),
                        )
                        .at_byte(at));
                    }
                };
                entries.push(EntryPlace { head, is_attribute, extent, crc: None, sums: None });
            }
        }
        Ok(Base { footer, end, extension: None, first_time, last_time, process_groups: groups.len() as u64, entries })
    }

    fn head_of(window: &[u8], order: ByteOrder, at: u64) -> Result<(u32, Head)> {
        let mut c = Cursor::new(window, order, at);
        Ok((c.u32("index entry")?, Head::decode(&mut c)?))
    }

    /// Compares the checksum of the whole index, and those of separate sums.
    ///
    /// # Errors
    /// `Corrupt` where a checksum is wrong; errors of reading.
    pub fn check_bytes(&self, source: &(impl Source + ?Sized)) -> Result<()> {
        let Some(extension) = &self.extension else { return Ok(()) };
        let mut crc = thalweg_types::checksum::Crc32c::new();
        let (mut at, mut buffer) = (self.footer.process_groups, vec![0; 1 << 18]);
        while at < self.end {
            let n = (self.end - at).min(buffer.len() as u64) as usize;
            source::fill(source, at, &mut buffer[..n])?;
            crc.update(&buffer[..n]);
            at += n as u64;
        }
        if crc.finish() != extension.index_crc {
            return Err(Error::new(ErrorKind::Corrupt, "the checksum of the index is wrong")
                .at_byte(self.footer.process_groups));
        }
        self.entries.iter().filter_map(|e| e.sums.as_ref()).try_for_each(|sums| sums.read(source).map(drop))
    }

    /// Loads the whole index into memory, for extension.
    ///
    /// # Errors
    /// As [`Index::append_sections`]; `Corrupt` where the checksum of a variable's sums is wrong or they do not match its sets;
    /// errors of reading. Checksums of entries are not compared.
    pub fn load(&self, source: &(impl Source + ?Sized)) -> Result<Index> {
        let f = &self.footer;
        let bytes = source::bytes(source, f.process_groups, self.end - FOOTER - f.process_groups, "index")?;
        let (v, a) = ((f.variables - f.process_groups) as usize, (f.attributes - f.process_groups) as usize);
        let mut index = Index::default();
        index.append_sections(
            &mut Cursor::new(&bytes[..v], f.order, f.process_groups),
            &mut Cursor::new(&bytes[v..a], f.order, f.variables),
            &mut Cursor::new(&bytes[a..], f.order, f.attributes),
        )?;
        for entry in &self.entries {
            let Some(sums) = &entry.sums else { continue };
            let (path, name) = (&entry.head.path, &entry.head.name);
            let joined = sums.read(source).and_then(|sums| index.variables.join_sums(path, name, &sums));
            joined.map_err(|e| e.in_variable(name.clone()))?;
        }
        if let Some(extension) = &self.extension {
            index.records.append(&extension.records);
        }
        index.set_first_time(self.first_time);
        Ok(index)
    }

    /// The extension records; `None` in files of other libraries.
    pub fn records(&self) -> Option<&Records> {
        self.extension.as_ref().map(|e| &e.records)
    }
}

/// The live steps of a file.
#[derive(Debug, Clone)]
pub struct Live {
    /// End of the last valid index or step record.
    pub end: u64,
    /// Bytes behind this end, of an interrupted output.
    pub torn: u64,
    /// The last full index.
    pub base: Option<Base>,
    /// The step records after it, joined.
    pub steps: Index,
    /// These step records.
    pub step_records: Vec<StepRecord>,
}

enum Anchor {
    Full(Box<Base>),
    Step(StepRecord, ByteOrder),
}

impl Live {
    /// Whether payloads are in subfiles; `None` for a file without any, as far as its index tells. Without a full index this follows from
    /// the blocks.
    pub fn subfiles(&self) -> Option<bool> {
        if let Some(base) = self.base.as_ref().filter(|base| base.process_groups > 0) {
            return Some(base.footer.subfiles);
        }
        self.steps.variables.entries().iter().find_map(|entry| {
            let mut set = Cursor::new(&entry.sets, ByteOrder::NATIVE, 0);
            let set = characteristic::decode_set(&mut set, ElementType::from_code(entry.code), false).ok()?;
            Some(set.file_index != characteristic::SINGLE_FILE)
        })
    }

    /// Finds the live end.
    ///
    /// # Errors
    /// `Torn` where no valid index or step record is found, with the last one's error as its cause. A failed read ends the search
    /// with its error.
    pub fn find(source: &(impl Source + ?Sized)) -> Result<Live> {
        let length = source.length();
        let source = Metered::new(source);
        let mut ends = Ends::new(&source);
        let mut bad = HashSet::new();
        let (mut reason, mut wasted) = (None, 0);
        while let Some(end) = ends.next()? {
            let before = source.read_so_far();
            match anchor_at(&source, end).and_then(|a| a.map(|a| assemble(&source, end, a, &mut bad)).transpose()) {
                Ok(Some(mut live)) => {
                    live.torn = length - end;
                    return Ok(live);
                }
                Ok(None) => {}
                // After a failed read, an older end could hide closed steps, which would then be overwritten.
                Err(e) if !source::is_damage(&e) => return Err(e),
                Err(e) => {
                    reason.get_or_insert(e);
                }
            }
            wasted += source.read_so_far() - before;
            if wasted > source.patience() {
                reason = Some(Error::new(ErrorKind::Corrupt, "too many ends in it that do not check").at_byte(end));
                break;
            }
        }
        if let Some(told) = foreign::told(&source)? {
            return Err(told);
        }
        let error = Error::new(
            ErrorKind::Torn,
            "no index, footer or step record in it checks; `thalweg recover` looks at the data itself",
        );
        Err(match reason {
            Some(reason) => error.caused_by(reason),
            None => error,
        })
    }

    /// Whether the file was closed for good.
    pub fn finished(&self) -> bool {
        self.torn == 0
            && self.step_records.is_empty()
            && self.base.as_ref().is_some_and(|b| b.extension.as_ref().is_none_or(|e| e.finished))
    }

    /// Offset of the steps that the last index drops and the file still contains ([`Tag::Dropped`]).
    pub fn dropped_from(&self) -> Option<u64> {
        let base = self.base.as_ref().filter(|b| !b.footer.subfiles && self.step_records.is_empty())?;
        Cursor::new(base.records()?.get(Tag::Dropped), base.footer.order, 0).u64("").ok()
    }

    /// The time index of step 0.
    pub fn first_time(&self) -> u32 {
        self.base.as_ref().map_or(1, |b| b.first_time)
    }

    /// The last time index; 0 for none.
    pub fn last_time(&self) -> u32 {
        self.steps.last_time().max(self.base.as_ref().map_or(0, |b| b.last_time))
    }

    /// Number of steps: from the first time index to the last.
    pub fn step_count(&self) -> u32 {
        match self.last_time() {
            0 => 0,
            last => last.saturating_sub(self.first_time()).saturating_add(1),
        }
    }

    /// The step, from 0, of a time index.
    pub fn step_of(&self, time_index: u32) -> u64 {
        u64::from(time_index.saturating_sub(self.first_time()))
    }

    /// Loads the full index and the step records into memory, for extension.
    ///
    /// # Errors
    /// As [`Base::load`]; `InvalidArgument` where a step record declares a name with another group or type than the full index.
    pub fn load(&self, source: &(impl Source + ?Sized)) -> Result<Index> {
        let mut index = match &self.base {
            Some(base) => base.load(source)?,
            None => Index::default(),
        };
        index.append_fragment(&self.steps.to_fragment())?;
        Ok(index)
    }
}

/// Assembles the live steps that end with `anchor`. `bad`: ends of records that do not lead to an index.
fn assemble<S: Source + ?Sized>(
    source: &Metered<'_, S>,
    end: u64,
    anchor: Anchor,
    bad: &mut HashSet<u64>,
) -> Result<Live> {
    let mut chain = Vec::new();
    let joined = match anchor {
        Anchor::Full(base) => Ok((Some(*base), Index::default())),
        Anchor::Step(record, order) => follow(source, record, order, &mut chain, bad),
    };
    match joined {
        Ok((base, steps)) => {
            chain.reverse();
            Ok(Live { end, torn: 0, base, steps, step_records: chain })
        }
        Err((first_bad, e)) => {
            // The chain is newest first: records before the first bad one may be valid.
            bad.extend(chain.iter().take(first_bad + 1).filter_map(|r| r.extent.end()));
            Err(e)
        }
    }
}

/// Follows step records back to their full index and joins them; `chain` then contains the records, newest first.
/// An error is returned with the position in `chain` of the first unusable record in the order of the file.
fn follow<S: Source + ?Sized>(
    source: &Metered<'_, S>,
    newest: StepRecord,
    order: ByteOrder,
    chain: &mut Vec<StepRecord>,
    bad: &HashSet<u64>,
) -> std::result::Result<(Option<Base>, Index), (usize, Error)> {
    let mut record = newest;
    let base = loop {
        chain.push(record);
        let at = record.previous;
        if at == 0 {
            break None;
        }
        let all = chain.len() - 1;
        let corrupt = |what| Err((all, Error::new(ErrorKind::Corrupt, what).at_byte(at)));
        if bad.contains(&at) {
            return corrupt("a step record follows one that does not check");
        }
        match step_record::before(source, at, order).map_err(|e| (all, e))? {
            Some(before) if before.extent.offset < record.extent.offset => record = before,
            _ => match Base::ending_at(source, at).map_err(|e| (all, e))? {
                Some(base) => break Some(base),
                None => return corrupt("a step record follows no index"),
            },
        }
    };
    if order != ByteOrder::NATIVE {
        let what = "its last steps are in step records of the other byte order; recover it on a machine of that order";
        return Err((0, Error::new(ErrorKind::Unsupported, what).at_byte(newest.extent.offset)));
    }
    let mut steps = Index::default();
    for (i, record) in chain.iter().enumerate().rev() {
        // Decoding a short record takes longer than reading it.
        source.charge(2048);
        step_record::append(source, record, order, &mut steps).map_err(|e| (i, e))?;
    }
    Ok((base, steps))
}

fn anchor_at(source: &(impl Source + ?Sized), end: u64) -> Result<Option<Anchor>> {
    for order in [ByteOrder::Little, ByteOrder::Big] {
        if let Some(record) = source::unless_damaged(step_record::before(source, end, order))?.flatten() {
            return Ok(Some(Anchor::Step(record, order)));
        }
    }
    Ok(Base::ending_at(source, end)?.map(|b| Anchor::Full(Box::new(b))))
}

/// Offsets at which an index or a step record may end, from the end of the file backwards.
struct Ends<'a, S: Source> {
    source: &'a S,
    /// Ends in the last searched part of the file, ascending; the last one is next.
    found: Vec<u64>,
    /// Start of the searched part of the file.
    start: u64,
    buffer: Vec<u8>,
    begun: bool,
}

impl<'a, S: Source> Ends<'a, S> {
    fn new(source: &'a S) -> Ends<'a, S> {
        Ends { source, found: Vec::new(), start: source.length(), buffer: Vec::new(), begun: false }
    }

    fn next(&mut self) -> Result<Option<u64>> {
        const STRETCH: u64 = 1 << 20;
        // A tag that starts in this part may reach into the next one.
        const OVERLAP: u64 = 64;
        let length = self.source.length();
        if !self.begun {
            self.begun = true;
            return Ok(Some(length));
        }
        loop {
            if let Some(end) = self.found.pop() {
                return Ok(Some(end));
            }
            if self.start == 0 {
                return Ok(None);
            }
            // In a sparse file most of the length may be a hole. A tag has no zero byte, so it starts before the hole.
            let stored = source::stored_before(self.source, self.start)?;
            let stop = if self.start - stored >= holes::BELIEVED { stored } else { self.start };
            let start = stop.saturating_sub(STRETCH);
            let reach = stop.saturating_add(OVERLAP).min(length);
            self.buffer.resize((reach - start) as usize, 0);
            source::fill(self.source, start, &mut self.buffer)?;
            let tags = memmem::find_iter(&self.buffer, b"ADIOS-BP v").map(|i| (i, FOOTER));
            let steps = memmem::find_iter(&self.buffer, step_record::END).map(|i| (i, step_record::END.len() as u64));
            // A mark belongs to the part in which it starts.
            let starts = tags.chain(steps).map(|(i, length)| (start + i as u64, length)).filter(|(at, _)| *at < stop);
            self.found = starts.map(|(at, length)| at + length).filter(|end| *end < length).collect();
            self.found.sort_unstable();
            self.found.dedup();
            self.start = start;
        }
    }
}
