//! The index of a file that is being extended.
//!
//! An output adds its entries to the index in memory, and to the file either as a *full index*, which every reader
//! opens, or as a *step record*, whose size is that of the output's entries. Earlier bytes are not overwritten, so that a
//! kill at any byte leaves the last valid end in place.
//!
//! | written | when |
//! |---|---|
//! | full index | at the first output; when the number of entries has doubled since the last full index; when all full indexes, including this one, are at most a twentieth of the data; at each output with `index=each`; when the file is closed for good |
//! | step record | otherwise |
//!
//! The average cost per output is therefore independent of the number of outputs: full indexes that double in size sum up to
//! twice the last one.
//!
//! A full index or step record becomes valid with its last bytes, the footer or the record's tail. It can therefore be
//! written in two parts: all bytes before these are *staged* while data are still being written, and the last bytes *seal*
//! it when the data are stored. Until then every reader sees the previous state, and the staged bytes can be dropped.
//!
//! Dropping steps (a restart from an earlier step) writes a full index of the kept steps at the end of the file, then a
//! second one at the first dropped step, and truncates the file behind the second. The first index records the operation, so
//! that the next writer or recovery completes it after a kill. A metadata file needs only the first index.
//!
//! Closing for good changes 8 bytes in place, the end mark. They lie within one sector, so that a power failure cannot
//! leave them half written; to this end the index may start a few bytes behind the data. In a file that is assumed to hold a
//! single output, the index contains the mark from the beginning ([`LiveIndex::ends_with_next`]).

use crate::output_file::levels::{self, ArrayLevel};
use std::io::IoSlice;
use thalweg_bp::extension::{self, Tag};
use thalweg_bp::footer::FOOTER;
use thalweg_bp::index::{Entry, Index};
use thalweg_bp::live::Live;
use thalweg_bp::opening::Openings;
use thalweg_bp::shorten;
use thalweg_bp::source::Source;
use thalweg_bp::step_record::{self, Groups};
use thalweg_bp::wire::{Cursor, Put};
use thalweg_layout::WriteObject;
use thalweg_types::{ByteOrder, Error, ErrorKind, Extent, Result};

/// Bytes that a device writes atomically.
const SECTOR: u64 = 512;
/// Smallest dead extent whose space is freed.
const WORTH_PUNCHING: u64 = 64 * 1024;

/// An object being written, as a [`Source`] of the `bp` decoders.
pub struct AsSource<'o> {
    object: &'o dyn WriteObject,
    length: u64,
}

impl<'o> AsSource<'o> {
    /// The object with its current length.
    ///
    /// # Errors
    /// Errors of [`WriteObject::length`].
    pub fn new(object: &'o dyn WriteObject) -> Result<AsSource<'o>> {
        Ok(AsSource { object, length: object.length()? })
    }

    /// The object's first `length` bytes, without a store request.
    pub fn up_to(object: &'o dyn WriteObject, length: u64) -> AsSource<'o> {
        AsSource { object, length }
    }
}

impl Source for AsSource<'_> {
    fn length(&self) -> u64 {
        self.length
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> Result<()> {
        let got = self.object.read_at(offset, out)?;
        if got == out.len() {
            return Ok(());
        }
        Err(Error::new(ErrorKind::Torn, "the file ends").at_byte(offset + got as u64))
    }

    fn stored_before(&self, offset: u64) -> Result<u64> {
        self.object.stored_before(offset)
    }
}

/// The index of one file, kept on the rank that writes it.
#[derive(Debug)]
pub struct LiveIndex {
    index: Index,
    /// First byte behind the last index or step record.
    end: u64,
    subfiles: bool,
    /// Number of sets in the last full index.
    sets_then: u64,
    /// Bytes of all full indexes of this process.
    full_bytes: u64,
    /// Bytes of process groups.
    data_bytes: u64,
    /// The last full index, if it is at the end of the file.
    last_full: Option<Extent>,
    /// Full indexes and step records that a later full index replaces.
    dead: Vec<Extent>,
    step_records: u32,
    finished: bool,
    /// The next full index is written with the end mark.
    last: bool,
    /// Whether `finish` has anything to do.
    touched: bool,
    /// Offset of the first step that was dropped from the entries but not yet from the file.
    dropped: Option<u64>,
    /// Set once this process has written an index or step record.
    mark: Option<Mark>,
}

/// Bytes of the last index or step record that identify the file: lengths, offsets and checksums, which depend on the
/// run id.
#[derive(Debug)]
struct Mark {
    offset: u64,
    bytes: Vec<u8>,
}

/// The steps that a process knows to be in a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ClosedSteps {
    /// Least number of steps.
    pub steps: u32,
    /// Run id of an output that wrote some of them; 0: not known.
    pub run: u64,
}

/// The parameters of [`LiveIndex::commit`].
#[derive(Clone, Copy)]
struct Output {
    data_end: u64,
    data: u64,
    run: u64,
    each: bool,
}

/// The staged index or step record of an output: written except for its seal.
#[derive(Debug)]
#[must_use = "a staged index must be sealed or dropped"]
pub struct Staged {
    /// Its extent, including the seal.
    extent: Extent,
    /// The last bytes, which make it valid.
    seal: Vec<u8>,
    /// Bytes of the output's process groups.
    data: u64,
    /// Entries of a step record, packed; `None` for a full index, whose entries are already in the index in memory.
    record: Option<Vec<u8>>,
    mark: Mark,
}

/// Whether an output is followed by a full index.
///
/// - `sets`: number of sets now; `sets_then`: in the last full index; `full_bytes`: bytes of all full indexes so far; `next`:
///   bytes of this one; `data`: bytes of process groups.
pub fn full_index_is_due(sets: u64, sets_then: u64, full_bytes: u64, next: u64, data: u64) -> bool {
    sets >= sets_then.saturating_mul(2) || full_bytes.saturating_add(next) <= data / 20
}

impl LiveIndex {
    /// The empty index of a new file; `subfiles`: the file is a metadata file.
    pub fn new(subfiles: bool) -> LiveIndex {
        LiveIndex {
            index: Index::default(),
            end: 0,
            subfiles,
            sets_then: 0,
            full_bytes: 0,
            data_bytes: 0,
            last_full: None,
            dead: Vec::new(),
            step_records: 0,
            finished: false,
            last: false,
            touched: false,
            dropped: None,
            mark: None,
        }
    }

    /// Writes the next full index with the end mark, so that [`LiveIndex::finish`] has nothing to do. Outputs can still be added.
    pub fn ends_with_next(&mut self) {
        self.last = true;
    }

    /// Loads the index of an existing file, and truncates the file at its last valid end.
    ///
    /// # Errors
    /// `Torn` where no valid end is found; `Unsupported` for a file of the other byte order, or if `subfiles` does not match the
    /// file; errors of the store.
    pub fn load(object: &dyn WriteObject, subfiles: bool) -> Result<LiveIndex> {
        LiveIndex::load_with(object, subfiles, ClosedSteps::default())
    }

    /// As [`LiveIndex::load`]; the file must contain the steps of `closed`.
    ///
    /// # Errors
    /// Also errors of [`LiveIndex::check_steps`]; the file is then unchanged.
    pub fn load_with(object: &dyn WriteObject, subfiles: bool, closed: ClosedSteps) -> Result<LiveIndex> {
        let source = AsSource::new(object)?;
        let mut live = LiveIndex::load_from(&source, subfiles)?;
        live.check_steps(closed)?;
        if source.length > live.end {
            tracing::warn!(
                torn = source.length - live.end,
                end = live.end,
                "cutting off an output that was interrupted"
            );
            object.truncate(live.end)?;
        }
        if let Some(start) = live.dropped {
            tracing::warn!(start, "going on with dropping steps, which was interrupted");
            live.shorten(object, false)?;
        }
        Ok(live)
    }

    /// Checks that the file contains the steps that this process knows to be closed.
    ///
    /// # Errors
    /// `Torn` where the file has fewer steps, `Corrupt` where it lists only other runs.
    pub fn check_steps(&self, closed: ClosedSteps) -> Result<()> {
        let ClosedSteps { steps: closed, run } = closed;
        if self.steps() >= closed {
            let openings = self.openings();
            if run == 0 || openings.is_empty() || openings.names(run) {
                return Ok(());
            }
            let what = format!(
                "the file was exchanged for another: this process wrote steps of run {run:x} to it, the index lists other runs"
            );
            return Err(Error::new(ErrorKind::Corrupt, what).safe("nothing was changed"));
        }
        let there = match self.steps() {
            0 => "none of them is in it any more".to_string(),
            1 => "only step 0 is in it any more".to_string(),
            n => format!("only steps 0..={} are in it any more", n - 1),
        };
        let what = format!("the file was cut or replaced: this process has closed steps 0..={}, {there}", closed - 1);
        Err(Error::new(ErrorKind::Torn, what).safe("nothing was changed"))
    }

    /// The runs that the index lists.
    pub fn openings(&self) -> Openings {
        let mut openings = Openings::default();
        openings.add(self.index.records.get(Tag::Run), ByteOrder::NATIVE);
        openings
    }

    /// Whether `object` contains the last index or step record of this process; `true` also if there is none, or if the store
    /// cannot read an object that is open for writing.
    ///
    /// # Errors
    /// Errors of reading.
    /// # Cost
    /// One read of at most 64 bytes.
    pub fn is_in(&self, object: &dyn WriteObject) -> Result<bool> {
        let Some(Mark { offset, bytes }) = &self.mark else { return Ok(true) };
        let mut there = vec![0; bytes.len()];
        match object.read_at(*offset, &mut there) {
            Ok(n) => Ok(n == bytes.len() && there == *bytes),
            Err(e) if e.kind() == ErrorKind::Unsupported => Ok(true),
            Err(e) => Err(e),
        }
    }

    /// Whether the file ends where this index ends.
    ///
    /// # Errors
    /// Errors of the length.
    pub fn is_last_in(&self, object: &dyn WriteObject) -> Result<bool> {
        Ok(object.length()? == self.end)
    }

    /// Checks that payloads are where a method adds them: a file whose index names subfiles for some blocks only is read wrongly.
    ///
    /// # Errors
    /// `Unsupported`.
    pub fn check_arrangement(&self, subfiles: bool) -> Result<()> {
        match self.steps() {
            0 => Ok(()),
            _ => check_arrangement(self.subfiles, subfiles),
        }
    }

    /// Whether steps that are added have their payloads in subfiles.
    pub fn has_subfiles(&self) -> bool {
        self.subfiles
    }

    fn load_from(source: &AsSource<'_>, subfiles: bool) -> Result<LiveIndex> {
        let live = Live::find(source)?;
        if let Some(has) = live.subfiles() {
            check_arrangement(has, subfiles)?;
        }
        let index = live.load(source)?;
        let mut full = None;
        if let Some(base) = &live.base {
            let start = base.extension.as_ref().map_or(base.footer.process_groups, |e| e.extent.offset);
            full = Some(Extent::new(start, base.end - start));
        }
        let sets_then = index.sets() - live.steps.sets();
        let full_bytes = full.map_or(0, |f| f.length);
        let is_last = live.step_records.is_empty();
        let finished = is_last && live.base.as_ref().is_some_and(|b| b.extension.as_ref().is_some_and(|e| e.finished));
        // A full index without an extension section was written by another library; ours follows it.
        let ours = live.base.as_ref().is_some_and(|b| b.extension.is_some());
        let records = live.step_records.iter().map(|r| r.extent);
        let superseded = if is_last { None } else { full };
        let mut loaded = LiveIndex {
            data_bytes: live.end.saturating_sub(full_bytes),
            index,
            end: live.end,
            subfiles,
            sets_then,
            full_bytes,
            last_full: full.filter(|_| is_last && ours),
            dead: Vec::new(),
            step_records: live.step_records.len() as u32,
            finished,
            last: false,
            // The index of another library stays as it is if no output is added.
            touched: !finished && (ours || !is_last),
            dropped: live.dropped_from(),
            mark: None,
        };
        superseded.into_iter().chain(records).for_each(|extent| loaded.retire(extent));
        Ok(loaded)
    }

    /// As [`LiveIndex::load`], from the first `end` bytes only: later bytes are in flight and are not truncated.
    ///
    /// # Errors
    /// As [`LiveIndex::load`].
    pub fn load_up_to(object: &dyn WriteObject, subfiles: bool, end: u64) -> Result<LiveIndex> {
        LiveIndex::load_from(&AsSource { object, length: end }, subfiles)
    }

    /// Drops all steps after `step` (from 0) from the index in memory; [`LiveIndex::shorten`] drops them from the file.
    ///
    /// # Errors
    /// `OutOfBounds` where the file has no such step; `Unsupported` where the steps are not stored in order.
    pub fn drop_after(&mut self, step: u64) -> Result<()> {
        let steps = u64::from(self.steps());
        if step >= steps {
            let what = match steps {
                0 => format!("cannot continue after step {step}: the file has no steps"),
                n => format!("cannot continue after step {step}: the last one is {}", n - 1),
            };
            return Err(Error::new(ErrorKind::OutOfBounds, what).at_step(step));
        }
        let last = (step as u32).saturating_add(self.first_time());
        let groups = self.index.process_groups()?;
        let offsets = |kept: bool| groups.iter().filter(move |g| (g.time_index <= last) == kept).map(|g| g.offset);
        let start = offsets(false).min();
        if !self.subfiles && offsets(true).max() > start.or(Some(u64::MAX)) {
            let what = "later steps are stored before earlier ones in this file: no step can be dropped";
            return Err(Error::new(ErrorKind::Unsupported, what).at_step(step));
        }
        if let Some(start) = start {
            self.index = shorten::up_to(&self.index, last)?;
            self.dropped = Some(start);
        }
        Ok(())
    }

    /// Whether steps were dropped from the index in memory, but not yet from the file.
    pub fn is_dropping(&self) -> bool {
        self.dropped.is_some()
    }

    /// Drops the steps of [`LiveIndex::drop_after`] from the file. Until the first new index is written, the file is unchanged;
    /// from then on readers see only the kept steps, which are safe at any time.
    ///
    /// - `sync`: each write is durable before the next one begins.
    ///
    /// # Errors
    /// Errors of the store; the file then has either its old or its new steps.
    pub fn shorten(&mut self, object: &dyn WriteObject, sync: bool) -> Result<()> {
        let Some(start) = self.dropped else { return Ok(()) };
        let sync = || if sync { object.sync() } else { Ok(()) };
        self.touched = true;
        if self.subfiles {
            self.write_full(object, self.end)?;
            self.dropped = None;
            return sync();
        }
        if self.index.records.get(Tag::Dropped).is_empty() {
            self.index.records.list(Tag::Dropped).put_u64(start);
            let room = self.index.encode(start, false, false)?.length + SECTOR;
            // The first index must not overlap the second one.
            self.write_full(object, self.end.max(start + room))?;
            sync()?;
        }
        self.index.records.0.remove(&(Tag::Dropped as u32));
        self.last_full = None;
        self.dead.retain(|e| e.end().is_some_and(|end| end <= start));
        self.full_bytes = 0;
        self.data_bytes = start;
        self.write_full(object, start)?;
        sync()?;
        object.truncate(self.end)?;
        self.dropped = None;
        sync()
    }

    /// The last time index; 0 for none.
    pub fn last_time(&self) -> u32 {
        self.index.last_time()
    }

    /// The time index of step 0: 1, except in files that another library began with a later one.
    pub fn first_time(&self) -> u32 {
        self.index.first_time()
    }

    /// Number of steps: from the first time index to the last.
    pub fn steps(&self) -> u32 {
        match self.last_time() {
            0 => 0,
            last => last.saturating_sub(self.first_time()).saturating_add(1),
        }
    }

    /// Offset of the first free byte.
    pub fn end(&self) -> u64 {
        self.end
    }

    /// The entries.
    pub fn index(&self) -> &Index {
        &self.index
    }

    /// The arrays whose blocks in the file have another statistics level than wanted, with the file's level.
    ///
    /// # Errors
    /// `Unsupported` for statistics that this library does not write.
    pub fn differing_levels(&self, wanted: &[ArrayLevel]) -> Result<Vec<ArrayLevel>> {
        levels::differing(&self.index, wanted)
    }

    /// Whether an output can be added.
    ///
    /// # Errors
    /// As [`fits`].
    pub fn check(&self, step: &Index) -> Result<()> {
        fits(&self.index, step)
    }

    /// Adds an output. `step`: its ranks' fragments, joined in rank order, which must pass [`LiveIndex::check`]; `data_end`: end of
    /// its data (in a metadata file: of the index); `data`: bytes of its data; `each`: always write a full index.
    ///
    /// On failure the file still has its last valid end; this `LiveIndex` must be discarded and loaded again.
    ///
    /// # Errors
    /// Errors of the store; `OutOfBounds` for an index beyond the range of offsets.
    pub fn commit(
        &mut self,
        object: &dyn WriteObject,
        step: Index,
        data_end: u64,
        data: u64,
        run: u64,
        each: bool,
    ) -> Result<()> {
        let staged = self.put(object, step, Output { data_end, data, run, each }, true)?;
        self.count(staged)
    }

    /// As [`LiveIndex::commit`], except for the last bytes: the output becomes visible with [`LiveIndex::seal`]. Data before
    /// `data_end` may still be in flight. Until [`LiveIndex::seal`] or [`LiveIndex::drop_staged`], no other method may be called.
    ///
    /// # Errors
    /// As [`LiveIndex::commit`].
    pub fn stage(
        &mut self,
        object: &dyn WriteObject,
        step: Index,
        data_end: u64,
        data: u64,
        run: u64,
        each: bool,
    ) -> Result<Staged> {
        self.put(object, step, Output { data_end, data, run, each }, false)
    }

    /// Publishes a staged output: one write of less than a sector. The data must be written before.
    ///
    /// On failure as [`LiveIndex::commit`].
    ///
    /// # Errors
    /// Errors of the store.
    pub fn seal(&mut self, object: &dyn WriteObject, staged: Staged) -> Result<()> {
        let at = staged.extent.offset + staged.extent.length - staged.seal.len() as u64;
        object.write_at(at, &[IoSlice::new(&staged.seal)])?;
        self.count(staged)
    }

    /// Drops a staged output: restores the previous state, and truncates the file at the first staged byte.
    ///
    /// On failure as [`LiveIndex::commit`].
    ///
    /// # Errors
    /// Errors of the store; as [`LiveIndex::load_up_to`].
    /// # Cost
    /// If a full index was staged, the previous index is read again.
    pub fn drop_staged(&mut self, object: &dyn WriteObject, staged: Staged) -> Result<()> {
        if staged.record.is_none() {
            self.index = match self.end {
                0 => Index::default(),
                end => LiveIndex::load_up_to(object, self.subfiles, end)?.index,
            };
        }
        if object.length()? > staged.extent.offset {
            object.truncate(staged.extent.offset)?;
        }
        Ok(())
    }

    /// Writes an output's entries; `whole`: with the seal.
    fn put(&mut self, object: &dyn WriteObject, step: Index, output: Output, whole: bool) -> Result<Staged> {
        let Output { data_end, data, run, each } = output;
        let sets = self.index.sets() + step.sets();
        let next = self.index.length() + step.length();
        let data_bytes = self.data_bytes + data;
        let entries = step.to_fragment();
        if each || self.end == 0 || full_index_is_due(sets, self.sets_then, self.full_bytes, next, data_bytes) {
            self.index.append_fragment(&entries)?;
            return self.put_full(object, data_end, data, whole);
        }
        let groups = if self.subfiles { Groups::Elsewhere } else { Groups::Here };
        let number = self.step_records + 1;
        let mut record = step_record::encode_fragment(&entries, data_end, self.end, run, number, groups);
        let extent = Extent::new(data_end, record.len() as u64);
        let tail = record.len() - step_record::TAIL as usize;
        let mark = Mark { offset: data_end + tail as u64, bytes: record[tail..].to_vec() };
        let seal = if whole { Vec::new() } else { record.split_off(tail) };
        object.write_at(data_end, &[IoSlice::new(&record)])?;
        Ok(Staged { extent, seal, data, record: Some(entries), mark })
    }

    /// Updates the state for a written index or step record, which is the new end of the file.
    fn count(&mut self, staged: Staged) -> Result<()> {
        let Staged { extent, data, record, mark, .. } = staged;
        self.touched = true;
        self.mark = Some(mark);
        self.finished = self.last && record.is_none();
        self.data_bytes += data;
        self.retire_last_full();
        self.end = extent.offset + extent.length;
        match record {
            Some(entries) => {
                self.step_records += 1;
                self.retire(extent);
                self.index.append_fragment(&entries)
            }
            None => {
                self.last_full = Some(extent);
                self.full_bytes += extent.length;
                self.sets_then = self.index.sets();
                self.step_records = 0;
                Ok(())
            }
        }
    }

    fn retire_last_full(&mut self) {
        if let Some(extent) = self.last_full.take() {
            self.retire(extent);
        }
    }

    /// Records an extent that becomes dead with the next full index. In a metadata file such extents are contiguous.
    fn retire(&mut self, extent: Extent) {
        match self.dead.last_mut() {
            Some(last) if self.subfiles && last.end() == Some(extent.offset) => last.length += extent.length,
            Some(last) if last.length < WORTH_PUNCHING => *last = extent,
            _ => self.dead.push(extent),
        }
    }

    fn write_full(&mut self, object: &dyn WriteObject, at: u64) -> Result<()> {
        let full = self.put_full(object, at, 0, true)?;
        self.count(full)
    }

    /// Writes a full index at `at`, or up to a sector later; `whole`: with the footer.
    fn put_full(&self, object: &dyn WriteObject, at: u64, data: u64, whole: bool) -> Result<Staged> {
        let mut at = at;
        let mut encoded = self.index.encode(at, self.subfiles, self.last)?;
        let in_sector = extension::state_offset(encoded.extension) % SECTOR;
        if in_sector > SECTOR - extension::FINISHED.len() as u64 {
            at += SECTOR - in_sector;
            encoded = self.index.encode(at, self.subfiles, self.last)?;
        }
        let extent = Extent::new(at, encoded.length);
        let seal = if whole { Vec::new() } else { encoded.take_footer() };
        debug_assert!(whole || seal.len() as u64 == FOOTER);
        // The bytes after the state, as the state changes when the file is closed for good.
        let offset = extension::state_offset(encoded.extension) + extension::FINISHED.len() as u64;
        let marked = offset..offset + extension::TAIL - extension::FINISHED.len() as u64;
        let mut bytes = Vec::new();
        encoded.write(|before, slices| {
            let mut start = at + before;
            for slice in slices {
                let end = start + slice.len() as u64;
                let (from, to) = (marked.start.max(start), marked.end.min(end));
                if from < to {
                    bytes.extend_from_slice(&slice[(from - start) as usize..(to - start) as usize]);
                }
                start = end;
            }
            let slices: Vec<IoSlice<'_>> = slices.iter().map(|s| IoSlice::new(s)).collect();
            object.write_at(at + before, &slices)
        })?;
        Ok(Staged { extent, seal, data, record: None, mark: Mark { offset, bytes } })
    }

    /// Closes the file for good: writes a full index if the file ends with a step record, then the end mark, and frees the
    /// space of dead indexes.
    ///
    /// - `sync`: each write is durable before the next one begins.
    ///
    /// # Errors
    /// Errors of the store; closed steps stay readable.
    pub fn finish(&mut self, object: &dyn WriteObject, sync: bool) -> Result<()> {
        self.conclude(object, sync, true)
    }

    /// As [`LiveIndex::finish`], without the end mark: for a program that ends without closing the file for good, so that other
    /// libraries can read the closed steps, and a follower sees that the writer did not finish.
    ///
    /// # Errors
    /// As [`LiveIndex::finish`].
    pub fn leave(&mut self, object: &dyn WriteObject, sync: bool) -> Result<()> {
        self.last = false;
        self.conclude(object, sync, false)
    }

    fn conclude(&mut self, object: &dyn WriteObject, sync: bool, marked: bool) -> Result<()> {
        if !self.touched || self.finished || self.end == 0 {
            return Ok(());
        }
        let sync = || if sync { object.sync() } else { Ok(()) };
        if self.last_full.is_none() {
            self.write_full(object, self.end)?;
        }
        sync()?;
        if let Some(full) = self.last_full.filter(|_| marked) {
            let section = extension_of(object, full)?;
            let at = extension::state_offset(section);
            object.write_at(at, &[IoSlice::new(extension::FINISHED)])?;
            self.finished = true;
        }
        for extent in self.dead.drain(..).filter(|e| e.length >= WORTH_PUNCHING) {
            // The head stays, for scans to read the length.
            let start = extent.offset.next_multiple_of(4096) + 4096;
            let end = (extent.offset + extent.length) & !4095;
            if start < end {
                object.punch(start, end - start)?;
            }
        }
        self.touched = false;
        sync()
    }
}

/// Checks that the entries of `step` can be joined to those of `file`: a name has one group, one type and one statistics
/// level per file.
///
/// # Errors
/// `InvalidArgument`, with the variable or attribute.
pub fn fits(file: &Index, step: &Index) -> Result<()> {
    for (new, old) in [(&step.variables, &file.variables), (&step.attributes, &file.attributes)] {
        for entry in new.entries() {
            let Some(known) = old.find(&entry.path, &entry.name) else { continue };
            if known.group != entry.group {
                let what = format!("the file has this name in group \"{}\"; a file holds a name once", known.group);
                return Err(refused(entry, what));
            }
            if known.code != entry.code {
                let what = format!("type code {}, but the file has type code {}", entry.code, known.code);
                return Err(refused(entry, what));
            }
        }
    }
    levels::check(file, step)
}

fn refused(entry: &Entry, what: String) -> Error {
    let name = if entry.path.is_empty() { entry.name.clone() } else { format!("{}/{}", entry.path, entry.name) };
    Error::new(ErrorKind::InvalidArgument, what).in_variable(name).in_group(entry.group.clone())
}

/// Extent of the extension section at the start of a full index.
fn extension_of(object: &dyn WriteObject, full: Extent) -> Result<Extent> {
    let mut head = [0; extension::HEAD as usize];
    AsSource::up_to(object, full.offset + full.length).read(full.offset, &mut head)?;
    let length = Cursor::new(&head[16..], ByteOrder::NATIVE, full.offset).u64("extension section")?;
    // The bytes written at its end must not go to another offset.
    if !head.starts_with(extension::MAGIC) || !(extension::HEAD + extension::TAIL..=full.length).contains(&length) {
        let what = "the index that was written last cannot be read again: other bytes are in its place";
        return Err(Error::new(ErrorKind::Corrupt, what).at_byte(full.offset).safe("outputs closed before"));
    }
    Ok(Extent::new(full.offset, length))
}

/// - `has`: the file has its data in subfiles; `subfiles`: a method adds them there.
fn check_arrangement(has: bool, subfiles: bool) -> Result<()> {
    if has == subfiles {
        return Ok(());
    }
    let words = if subfiles { "holds its data itself" } else { "has its data in subfiles" };
    let what =
        format!("the file {words}: append with a method that does the same (POSIX writes subfiles, MPI a single file)");
    Err(Error::new(ErrorKind::Unsupported, what).safe("nothing was changed"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn full_indexes_of_small_steps_double_and_those_of_large_steps_follow_each() {
        // 20 entries a step, 100 bytes each; data 200 bytes a step: due when the entries have doubled.
        let (mut then, mut bytes, mut count) = (0, 0, 0);
        for step in 1..=100_000u64 {
            let (sets, next) = (20 * step, 2000 * step);
            if full_index_is_due(sets, then, bytes, next, 200 * step) {
                (then, bytes, count) = (sets, bytes + next, count + 1);
            }
        }
        assert_eq!(count, 17);
        assert!(bytes < 2 * 2000 * 100_000);
        // A large step: the index is nothing beside the data.
        assert!(full_index_is_due(40, 39, 10_000, 4000, 1 << 30));
    }
}
