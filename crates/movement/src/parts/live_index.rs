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

use std::io::IoSlice;
use thalweg_bp::extension;
use thalweg_bp::index::Index;
use thalweg_bp::live::Live;
use thalweg_bp::source::Source;
use thalweg_bp::step_record;
use thalweg_layout::WriteObject;
use thalweg_types::{Extent, Result};

/// Reads an object being written, as the decoders of `bp` want it.
pub struct AsSource<'o> {
    object: &'o dyn WriteObject,
    length: u64,
}

impl<'o> AsSource<'o> {
    /// The object as it is now.
    pub fn new(object: &'o dyn WriteObject) -> Result<AsSource<'o>> {
        Ok(AsSource { object, length: object.length()? })
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
        Err(thalweg_types::Error::new(thalweg_types::ErrorKind::Torn, "the file ends").at_byte(offset + got as u64))
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
    /// Whether `finish` has anything to do.
    touched: bool,
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
            touched: false,
        }
    }

    /// Of a file that is there: the last good end is found, what lies behind it is cut off.
    ///
    /// # Errors
    /// `Torn` where no end of it checks; `Unsupported` for a file of the other byte order, or where payloads lie in
    /// subfiles and `subfiles` says otherwise.
    pub fn load(object: &dyn WriteObject, subfiles: bool) -> Result<LiveIndex> {
        let source = AsSource::new(object)?;
        let live = LiveIndex::load_from(&source, subfiles)?;
        if source.length > live.end {
            tracing::warn!(
                torn = source.length - live.end,
                end = live.end,
                "cutting off an output that was interrupted"
            );
            object.truncate(live.end)?;
        }
        Ok(live)
    }

    fn load_from(source: &AsSource<'_>, subfiles: bool) -> Result<LiveIndex> {
        let live = Live::find(source)?;
        let has_subfiles = live.base.as_ref().map(|b| b.footer.subfiles);
        if has_subfiles.is_some_and(|has| has != subfiles) {
            let words = if subfiles { "holds its data itself" } else { "has its data in subfiles" };
            return Err(thalweg_types::Error::new(
                thalweg_types::ErrorKind::Unsupported,
                format!("the file {words}: append with the method that wrote it (POSIX writes subfiles, MPI one file)"),
            ));
        }
        let index = live.load(source)?;
        let mut dead = Vec::new();
        let mut full = None;
        if let Some(base) = &live.base {
            let start = base.extension.as_ref().map_or(base.footer.process_groups, |e| e.extent.offset);
            full = Some(Extent::new(start, base.end - start));
        }
        let sets_then = index.sets() - live.steps.sets();
        let full_bytes = full.map_or(0, |f| f.length);
        let is_last = live.step_records.is_empty();
        dead.extend(live.step_records.iter().map(|r| r.extent));
        let finished = is_last && live.base.as_ref().is_some_and(|b| b.extension.as_ref().is_some_and(|e| e.finished));
        // A full index without an extension section is another library's; ours will follow it.
        let ours = live.base.as_ref().is_some_and(|b| b.extension.is_some());
        if let (Some(full), false) = (full, is_last) {
            dead.push(full);
        }
        Ok(LiveIndex {
            data_bytes: live.end.saturating_sub(full_bytes),
            index,
            end: live.end,
            subfiles,
            sets_then,
            full_bytes,
            last_full: full.filter(|_| is_last && ours),
            dead,
            step_records: live.step_records.len() as u32,
            finished,
            touched: !finished,
        })
    }

    /// As [`LiveIndex::load`], from the first `end` bytes alone: what lies behind them is in flight and stays.
    pub fn load_up_to(object: &dyn WriteObject, subfiles: bool, end: u64) -> Result<LiveIndex> {
        LiveIndex::load_from(&AsSource { object, length: end }, subfiles)
    }

    /// The last time index; 0 for none.
    pub fn last_time(&self) -> u32 {
        self.index.last_time()
    }

    /// First free byte.
    pub fn end(&self) -> u64 {
        self.end
    }

    /// The entries.
    pub fn index(&self) -> &Index {
        &self.index
    }

    /// Adds an output: fragments of its ranks in rank order, behind data that ends at `data_end` (in a metadata file:
    /// the end of the index itself), `data` bytes of it. `each`: a full index whatever it costs.
    ///
    /// On failure the file still has its last good end; this state is then of no use and must be loaded again.
    pub fn commit(
        &mut self,
        object: &dyn WriteObject,
        step: Index,
        data_end: u64,
        data: u64,
        run: u64,
        each: bool,
    ) -> Result<()> {
        self.touched = true;
        self.finished = false;
        self.data_bytes += data;
        let sets = self.index.sets() + step.sets();
        let next = self.index.length() + step.length();
        if each || self.end == 0 || full_index_is_due(sets, self.sets_then, self.full_bytes, next, self.data_bytes) {
            self.index.append_fragment(&step.to_fragment())?;
            return self.write_full(object, data_end, false);
        }
        let record = step_record::encode(&step, data_end, self.end, run, self.step_records + 1);
        object.write_at(data_end, &[IoSlice::new(&record)])?;
        self.step_records += 1;
        self.retire_last_full();
        self.dead.push(Extent::new(data_end, record.len() as u64));
        self.end = data_end + record.len() as u64;
        self.index.append_fragment(&step.to_fragment())
    }

    fn retire_last_full(&mut self) {
        if let Some(extent) = self.last_full.take() {
            self.dead.push(extent);
        }
    }

    fn write_full(&mut self, object: &dyn WriteObject, at: u64, finished: bool) -> Result<()> {
        self.retire_last_full();
        let encoded = self.index.encode(at, self.subfiles, finished)?;
        let pieces: Vec<IoSlice<'_>> =
            encoded.pieces.iter().filter(|p| !p.is_empty()).map(|p| IoSlice::new(p)).collect();
        object.write_at(at, &pieces)?;
        self.last_full = Some(Extent::new(at, encoded.length));
        self.full_bytes += encoded.length;
        self.end = at + encoded.length;
        self.sets_then = self.index.sets();
        self.step_records = 0;
        self.finished = finished;
        Ok(())
    }

    /// Closes the file for good: a full index where the last output left a step record, the end mark, and the space
    /// of indexes that nobody needs any more given back.
    pub fn finish(&mut self, object: &dyn WriteObject) -> Result<()> {
        if !self.touched || self.finished {
            return Ok(());
        }
        match self.last_full {
            Some(full) => {
                let section = extension_of(object, full)?;
                let at = extension::state_offset(section);
                object.write_at(at, &[IoSlice::new(extension::FINISHED)])?;
                self.finished = true;
            }
            None => self.write_full(object, self.end, true)?,
        }
        for extent in self.dead.drain(..).filter(|e| e.length >= 64 * 1024) {
            // The head stays, so that a scan still knows the length.
            let start = extent.offset.next_multiple_of(4096) + 4096;
            let end = (extent.offset + extent.length) & !4095;
            if start < end {
                object.punch(start, end - start)?;
            }
        }
        self.touched = false;
        Ok(())
    }
}

/// The extension section at the front of a full index.
fn extension_of(object: &dyn WriteObject, full: Extent) -> Result<Extent> {
    let mut head = [0; extension::HEAD as usize];
    object.read_at(full.offset, &mut head)?;
    let length = thalweg_bp::wire::Cursor::new(&head[16..], thalweg_types::ByteOrder::NATIVE, full.offset)
        .u64("extension section")?;
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
