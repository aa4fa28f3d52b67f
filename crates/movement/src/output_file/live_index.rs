//! The index of a file that is being extended.
//!
//! An output adds its entries to the index in memory, and to the file either as a *full index*, which every reader
//! opens, or as a *step record*, which costs no more than the output itself. Nothing that was written before is
//! overwritten, so a kill at any byte leaves the last good end in place.
//!
//! | written | when |
//! |---|---|
//! | full index | the first output; when its entries have doubled since the last one; when all full indexes together, this one included, stay under a twentieth of the data; at each output with `index=each`; when the file is closed for good |
//! | step record | otherwise |
//!
//! So a million small outputs cost the same each: indexes that double cost twice the last one in all.
//!
//! Either is valid by its last bytes alone, the footer or the tail of the record. So it can be written in two: what comes
//! before these is *staged* while data are still on their way to storage, and the last bytes *seal* it when they are there.
//! Until then every reader sees the file as it was, and what was staged can be dropped.
//!
//! Steps are dropped (a restart from an earlier one) by writing a full index of the others behind everything, then one
//! where the first dropped step began, and cutting the file off behind that. The first says that it is on the way, so
//! that whoever writes or recovers the file next ends what a kill has left. A metadata file needs the first alone.
//!
//! Closing for good changes 8 bytes in place, the end mark. They never straddle two sectors, so that no power cut can
//! leave half of them; the index may start a few bytes behind the data for that. The index of a file that is taken for one
//! of a single output bears the mark from the beginning ([`LiveIndex::ends_with_next`]).

use crate::output_file::levels::{self, ArrayLevel};
use std::io::IoSlice;
use thalweg_bp::extension::{self, Tag};
use thalweg_bp::footer::FOOTER;
use thalweg_bp::index::{Entry, Index};
use thalweg_bp::live::Live;
use thalweg_bp::opening::Openings;
use thalweg_bp::shorten;
use thalweg_bp::source::Source;
use thalweg_bp::step_record;
use thalweg_bp::wire::{Cursor, Put};
use thalweg_layout::WriteObject;
use thalweg_types::{ByteOrder, Error, ErrorKind, Extent, Result};

/// Bytes that a device writes whole or not at all.
const SECTOR: u64 = 512;
/// Smallest dead extent whose space is given back.
const WORTH_PUNCHING: u64 = 64 * 1024;

/// Reads an object being written, as the decoders of `bp` want it.
pub struct AsSource<'o> {
    object: &'o dyn WriteObject,
    length: u64,
}

impl<'o> AsSource<'o> {
    /// The object as it is now.
    ///
    /// # Errors
    /// Those of asking the store for the length.
    pub fn new(object: &'o dyn WriteObject) -> Result<AsSource<'o>> {
        Ok(AsSource { object, length: object.length()? })
    }

    /// Its first `length` bytes; the store is not asked for the length.
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
}

/// The index of one file, kept on the rank that writes it.
#[derive(Debug)]
pub struct LiveIndex {
    index: Index,
    /// First byte behind the last index or step record.
    end: u64,
    subfiles: bool,
    /// Sets of the index when a full one was last written.
    sets_then: u64,
    /// Bytes of all full indexes of this process.
    full_bytes: u64,
    /// Bytes of process groups.
    data_bytes: u64,
    /// The last full index, where it is the last thing in the file.
    last_full: Option<Extent>,
    /// Full indexes and step records that a later full index has replaced.
    dead: Vec<Extent>,
    step_records: u32,
    finished: bool,
    /// A full index is taken for the last one.
    last: bool,
    /// Whether `finish` has anything to do.
    touched: bool,
    /// Steps were dropped from the entries and not yet from the file: where the first of them starts.
    dropped: Option<u64>,
    /// Set once this process has written an index or step record.
    mark: Option<Mark>,
}

/// Bytes of the last index or step record that no other file has at the same place: lengths, places and checksums, which
/// depend on the run id.
#[derive(Debug)]
struct Mark {
    offset: u64,
    bytes: Vec<u8>,
}

/// What a process knows to be in a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ClosedSteps {
    /// The smallest number of steps.
    pub steps: u32,
    /// A run that wrote some of them; 0: not known.
    pub run: u64,
}

/// What is told of an output beside its entries, as [`LiveIndex::commit`] says.
#[derive(Clone, Copy)]
struct Output {
    data_end: u64,
    data: u64,
    run: u64,
    each: bool,
}

/// The entries of an output in the file, but for the last bytes, which make them valid. In memory they are not yet counted.
#[derive(Debug)]
#[must_use = "what is staged is sealed or dropped"]
pub struct Staged {
    /// Where they lie, the last bytes included.
    extent: Extent,
    /// These.
    seal: Vec<u8>,
    /// Bytes of process groups.
    data: u64,
    /// Entries of a step record; those of a full index are with the others already.
    record: Option<Index>,
    mark: Mark,
}

/// Whether a full index follows an output.
///
/// - `sets`: entries now; `sets_then`: at the last full index; `full_bytes`: of all full indexes so far; `next`: of
///   this one; `data`: bytes of process groups.
pub fn full_index_is_due(sets: u64, sets_then: u64, full_bytes: u64, next: u64, data: u64) -> bool {
    sets >= sets_then.saturating_mul(2) || full_bytes.saturating_add(next) <= data / 20
}

impl LiveIndex {
    /// Of a new file. `subfiles`: process groups lie in subfiles, this file holds the index alone.
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

    /// The next full index is taken for the last one: it bears the end mark when it is written, and [`LiveIndex::finish`] has
    /// nothing left to do. More can be added all the same.
    pub fn ends_with_next(&mut self) {
        self.last = true;
    }

    /// Of a file that is there: the last good end is found, what lies behind it is cut off.
    ///
    /// # Errors
    /// `Torn` where no end of it checks; `Unsupported` for a file of the other byte order, or where payloads lie in
    /// subfiles and `subfiles` says otherwise.
    pub fn load(object: &dyn WriteObject, subfiles: bool) -> Result<LiveIndex> {
        LiveIndex::load_with(object, subfiles, ClosedSteps::default())
    }

    /// As [`LiveIndex::load`], of a file that holds at least what is `closed`.
    ///
    /// # Errors
    /// Also those of [`LiveIndex::check_steps`]; the file is not changed then.
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

    /// Checks that the file holds the steps that this process knows to be closed.
    ///
    /// # Errors
    /// `Torn` where it has fewer steps, `Corrupt` where it names other runs alone.
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

    /// The runs that wrote the file, as its index lists them.
    pub fn openings(&self) -> Openings {
        let mut openings = Openings::default();
        openings.add(self.index.records.get(Tag::Run), ByteOrder::NATIVE);
        openings
    }

    /// Whether `object` holds the index or step record that this process wrote last; `true` where it has written none, or where
    /// the store reads no object that is open for writing.
    ///
    /// # Errors
    /// Those of reading.
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

    fn load_from(source: &AsSource<'_>, subfiles: bool) -> Result<LiveIndex> {
        let live = Live::find(source)?;
        let has_subfiles = live.base.as_ref().map(|b| b.footer.subfiles);
        if has_subfiles.is_some_and(|has| has != subfiles) {
            let words = if subfiles { "holds its data itself" } else { "has its data in subfiles" };
            return Err(Error::new(
                ErrorKind::Unsupported,
                format!("the file {words}: append with the method that wrote it (POSIX writes subfiles, MPI one file)"),
            ));
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
        // A full index without an extension section is another library's; ours will follow it.
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
            // A foreign index that nothing was added to stays as it is.
            touched: !finished && (ours || !is_last),
            dropped: live.dropped_from(),
            mark: None,
        };
        superseded.into_iter().chain(records).for_each(|extent| loaded.retire(extent));
        Ok(loaded)
    }

    /// As [`LiveIndex::load`], from the first `end` bytes alone: what lies behind them is in flight and stays.
    ///
    /// # Errors
    /// As [`LiveIndex::load`].
    pub fn load_up_to(object: &dyn WriteObject, subfiles: bool, end: u64) -> Result<LiveIndex> {
        LiveIndex::load_from(&AsSource { object, length: end }, subfiles)
    }

    /// Drops all steps behind one (from 0) from the entries; [`LiveIndex::shorten`] does so in the file.
    ///
    /// # Errors
    /// `OutOfBounds` where the file has no such step; `Unsupported` where steps do not lie one behind the other.
    pub fn drop_after(&mut self, step: u64) -> Result<()> {
        let steps = u64::from(self.steps());
        if step >= steps {
            let what = match steps {
                0 => format!("there is no step {step} to go on from: the file has none"),
                n => format!("there is no step {step} to go on from: the last one is {}", n - 1),
            };
            return Err(Error::new(ErrorKind::OutOfBounds, what).at_step(step));
        }
        let last = (step as u32).saturating_add(self.first_time());
        let groups = self.index.process_groups()?;
        let offsets = |kept: bool| groups.iter().filter(move |g| (g.time_index <= last) == kept).map(|g| g.offset);
        let start = offsets(false).min();
        if !self.subfiles && offsets(true).max() > start.or(Some(u64::MAX)) {
            let what = "later steps lie in front of earlier ones in this file: none can be dropped";
            return Err(Error::new(ErrorKind::Unsupported, what).at_step(step));
        }
        if let Some(start) = start {
            self.index = shorten::up_to(&self.index, last)?;
            self.dropped = Some(start);
        }
        Ok(())
    }

    /// Whether entries were dropped that the file still has.
    pub fn is_dropping(&self) -> bool {
        self.dropped.is_some()
    }

    /// Makes the file what it was before the dropped steps. Until the first new index is written nothing has changed;
    /// then they are gone. Steps that are kept are safe at any moment.
    ///
    /// - `sync`: each of these is on the device before the next one begins.
    ///
    /// # Errors
    /// Those of the store; the file is then as it was, or as it is to be.
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
            // Not where the second one will be.
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

    /// The time index of step 0: 1, but for files that another library began later.
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

    /// First free byte.
    pub fn end(&self) -> u64 {
        self.end
    }

    /// The entries.
    pub fn index(&self) -> &Index {
        &self.index
    }

    /// The arrays of which the file has blocks with other statistics than wanted, with the file's level.
    ///
    /// # Errors
    /// `Unsupported` for statistics that are not written here.
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

    /// Adds an output: fragments of its ranks in rank order, behind data that ends at `data_end` (in a metadata file:
    /// the end of the index itself), `data` bytes of it. `each`: a full index whatever it costs. It must pass
    /// [`LiveIndex::check`].
    ///
    /// On failure the file still has its last good end; this state is then of no use and must be loaded again.
    ///
    /// # Errors
    /// Those of the store; `OutOfBounds` for an index beyond the range of offsets.
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

    /// As [`LiveIndex::commit`], but that nobody sees the output before [`LiveIndex::seal`]: the same bytes, but the last.
    /// Data may still be on their way to anywhere before `data_end`. Until it is sealed or dropped nothing else is asked of this.
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

    /// Makes the output readable: one write of less than a sector. The data must be there.
    ///
    /// On failure as [`LiveIndex::commit`].
    ///
    /// # Errors
    /// Those of the store.
    pub fn seal(&mut self, object: &dyn WriteObject, staged: Staged) -> Result<()> {
        let at = staged.extent.offset + staged.extent.length - staged.seal.len() as u64;
        object.write_at(at, &[IoSlice::new(&staged.seal)])?;
        self.count(staged)
    }

    /// Takes back what was staged: this is what it was before, and the file ends where the staged bytes began, or before.
    ///
    /// On failure as [`LiveIndex::commit`].
    ///
    /// # Errors
    /// Those of the store; what reading the index again says.
    /// # Cost
    /// A full index is read again.
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

    /// Writes an output's entries: `whole`, or without the bytes that make them valid.
    fn put(&mut self, object: &dyn WriteObject, step: Index, output: Output, whole: bool) -> Result<Staged> {
        let Output { data_end, data, run, each } = output;
        let sets = self.index.sets() + step.sets();
        let next = self.index.length() + step.length();
        let data_bytes = self.data_bytes + data;
        if each || self.end == 0 || full_index_is_due(sets, self.sets_then, self.full_bytes, next, data_bytes) {
            self.index.append_fragment(&step.to_fragment())?;
            return self.put_full(object, data_end, data, whole);
        }
        let mut record = step_record::encode(&step, data_end, self.end, run, self.step_records + 1);
        let extent = Extent::new(data_end, record.len() as u64);
        let tail = record.len() - step_record::TAIL as usize;
        let mark = Mark { offset: data_end + tail as u64, bytes: record[tail..].to_vec() };
        let seal = if whole { Vec::new() } else { record.split_off(tail) };
        object.write_at(data_end, &[IoSlice::new(&record)])?;
        Ok(Staged { extent, seal, data, record: Some(step), mark })
    }

    /// Counts what was written as the last thing in the file.
    fn count(&mut self, staged: Staged) -> Result<()> {
        let Staged { extent, data, record, mark, .. } = staged;
        self.touched = true;
        self.mark = Some(mark);
        self.finished = self.last && record.is_none();
        self.data_bytes += data;
        self.retire_last_full();
        self.end = extent.offset + extent.length;
        match record {
            Some(step) => {
                self.step_records += 1;
                self.retire(extent);
                self.index.append_fragment(&step.to_fragment())
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

    /// Notes bytes that nobody will need once a full index follows. In a metadata file they lie one behind the other.
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

    /// Writes all entries at `at` or a little behind: `whole`, or without the footer.
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
        // What follows the state, which changes when the file is closed for good.
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

    /// Closes the file for good: a full index where the last output left a step record, the end mark, and the space
    /// of indexes that nobody needs any more given back.
    ///
    /// - `sync`: each of these is on the device before the next one begins.
    ///
    /// # Errors
    /// Those of the store; steps that were closed stay readable.
    pub fn finish(&mut self, object: &dyn WriteObject, sync: bool) -> Result<()> {
        self.conclude(object, sync, true)
    }

    /// As [`LiveIndex::finish`], without the end mark: for a program that ends without having closed the file, so that
    /// other libraries read what was closed and a follower learns that the writer did not come to its end.
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
            // The head stays, so that a scan still knows the length.
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

/// Whether entries can be joined: a file holds a name in one group and with one type, and its blocks record the same.
///
/// # Errors
/// `InvalidArgument` naming variable or attribute.
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

/// The extension section at the front of a full index.
fn extension_of(object: &dyn WriteObject, full: Extent) -> Result<Extent> {
    let mut head = [0; extension::HEAD as usize];
    object.read_at(full.offset, &mut head)?;
    let length = Cursor::new(&head[16..], ByteOrder::NATIVE, full.offset).u64("extension section")?;
    Ok(Extent::new(full.offset, length))
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
