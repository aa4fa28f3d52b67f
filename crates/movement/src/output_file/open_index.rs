//! The index of a file that is open for an output: on rank 0, and on whoever keeps it after that one is lost.
//!
//! | question | answer |
//! |---|---|
//! | who looks first | rank 0 makes the file or finds the end of its last index ([`begin`]) |
//! | when is it open | when all ranks have agreed so, in one reduction ([`OpenIndex::agree`]); one more where steps are dropped, a broadcast where the file keeps other statistics |
//! | what stays | the index of a closed output is kept for the next one; of one that was dropped, that of the outputs before |
//!
//! Shared by the methods that write one file and those that write subfiles beside it.

use crate::method::{Indexing, Mode, OpenRequest, Opened, folder_of};
use crate::output_file::cache::{Cache, File, InUse};
use crate::output_file::commit::{Commit, IndexFile};
use crate::output_file::levels::{self, ArrayLevel};
use crate::output_file::live_index::{ClosedSteps, LiveIndex};
use crate::output_file::spill;
use std::sync::Arc;
use thalweg_comm::agreement::agree;
use thalweg_comm::guarded::caught;
use thalweg_layout::{Layout, Lease, OpenWrite, WriteObject, WriterId};
use thalweg_types::{Error, ErrorKind, Result};

/// What rank 0 finds out first.
pub struct First {
    /// The index.
    pub live: LiveIndex,
    /// Run id.
    pub run: u64,
    /// Arrays of which the file keeps other statistics than asked for.
    levels: Vec<ArrayLevel>,
    in_use: InUse,
    /// This process has kept the index since it wrote it: nobody else has touched the file.
    pub known: bool,
    /// It is taken for a file of this output alone.
    single: bool,
    /// Of a file of this output alone, until it is closed.
    lease: Option<Lease>,
}

/// What rank 0 does first: makes the file that holds the index or finds its live end.
///
/// - `subfiles`: the file holds the index alone.
///
/// # Errors
/// `InvalidArgument` where the file is open for another output; `NotFound` where a file with closed steps is gone; `Corrupt` or `Torn` where its index cannot be read, or the file was
/// exchanged for another; those of the store.
pub fn begin(request: &OpenRequest<'_>, subfiles: bool) -> Result<(Box<dyn WriteObject>, First)> {
    let writer = WriterId(0);
    let in_use = request.cache.begin(request.layout, request.path)?;
    spill::remove_stale(request);
    if request.mode == Mode::Write {
        request.cache.forget(request.layout, request.path);
        let object = request.layout.open_write(request.path, OpenWrite::Replace, writer)?;
        let single = request.cache.begins(request.group, request.layout, request.path);
        // A file of this output alone is leased while the output is open, where a lease is a lock on a file that is open already;
        // other layouts make objects for it.
        let lease = if single && object.file().is_some() { object.lease()? } else { None };
        if !single {
            request.cache.hold(request.layout, request.path, &*object)?;
        }
        let live = LiveIndex::new(subfiles);
        return Ok((object, First { live, run: request.run, levels: Vec::new(), in_use, known: false, single, lease }));
    }
    request.cache.goes_on(request.group);
    let kept = request.cache.take(request.layout, request.path);
    let closed = request.cache.closed_steps(request.layout, request.path);
    let how = if closed.steps > 0 { OpenWrite::Existing } else { request.mode.how() };
    let object = request.layout.open_write(request.path, how, writer).map_err(|e| match (e.kind(), closed.steps) {
        (ErrorKind::NotFound, 1..) => {
            let what = format!(
                "the file was removed or renamed: this process has closed steps 0..={} of it; mode \"w\" begins a new one",
                closed.steps - 1
            );
            Error::new(ErrorKind::NotFound, what).caused_by(e)
        }
        _ => e,
    })?;
    request.cache.hold(request.layout, request.path, &*object)?;
    let kept = match kept {
        Some(kept) if kept.index.is_in(&*object)? => Some(kept),
        _ => None,
    };
    let known = kept.is_some();
    let (mut live, run) = match kept {
        Some(kept) => (kept.index, kept.run),
        None if object.length()? == 0 => (LiveIndex::new(subfiles), request.run),
        None => (LiveIndex::load_with(&*object, subfiles, closed)?, request.run),
    };
    live.check_steps(closed)?;
    if let Mode::AppendAfter(step) = request.mode {
        live.drop_after(step)?;
    }
    let levels = live.differing_levels(request.arrays)?;
    Ok((object, First { live, run, levels, in_use, known, single: false, lease: None }))
}

/// A file keeps other statistics than asked for.
const LEVELS: u64 = 1;
/// Steps are to be dropped from it.
const DROPS: u64 = 2;

/// The time index of an output behind `last`.
pub fn next_time(mode: Mode, last: u32) -> u32 {
    match mode {
        Mode::Write => 1,
        Mode::Append | Mode::AppendAfter(_) => last + 1,
        Mode::Update => last.max(1),
    }
}

/// See the room's page. Dropped before the output was closed, it keeps the index of the outputs before for the next one.
pub struct OpenIndex {
    /// Where files are.
    pub layout: Arc<dyn Layout>,
    /// What the process keeps.
    pub cache: Arc<Cache>,
    /// Name of the file.
    pub path: String,
    /// How it was opened.
    pub mode: Mode,
    /// This rank among all that opened the output.
    pub rank: u32,
    /// The step, counted from [`OpenIndex::first_time`].
    pub time_index: u32,
    /// The time index of step 0.
    pub first_time: u32,
    /// Run id.
    pub run: u64,
    /// End of the index when the output was opened.
    pub base: u64,
    /// It is to be durable.
    pub sync: bool,
    /// Bytes may lie behind the index before the output is closed: one that is dropped has to be looked at again.
    pub written_early: bool,
    subfiles: bool,
    /// On rank 0: it is taken for a file of this output alone, and closed for good with it. More can be added all the same.
    single: bool,
    /// Of such a file, until it is closed.
    lease: Option<Lease>,
    /// It is closed for good.
    finished: bool,
    live: Option<LiveIndex>,
    /// On rank 0.
    in_use: Option<InUse>,
}

impl OpenIndex {
    /// Collective: all ranks agree that the output is open, and later steps are dropped where that is asked for.
    ///
    /// - `outcome`: what this rank has opened so far; `first`: on rank 0, what [`begin`] found.
    /// - `told`: numbers of rank 0 that all are to know.
    /// - `drop_steps`: called on rank 0 where steps are dropped, with the time index of this output: takes them out of the file.
    ///
    /// Returns also what the program is to know, and rank 0's numbers.
    ///
    /// # Errors
    /// The same kind on all ranks; the file is then as it was, unless steps were being dropped.
    pub fn agree(
        request: &OpenRequest<'_>,
        (subfiles, sync): (bool, bool),
        outcome: Result<()>,
        first: Option<First>,
        told: &[u64],
        drop_steps: impl FnOnce(&mut LiveIndex, u32) -> Result<()>,
    ) -> Result<(OpenIndex, Opened, Vec<u64>)> {
        let mut numbers = first.as_ref().map_or(vec![0; 5], |f| {
            let time_index = u64::from(next_time(request.mode, f.live.last_time()));
            let levels = if f.levels.is_empty() { 0 } else { LEVELS };
            let drops = if f.live.is_dropping() { DROPS } else { 0 };
            vec![f.live.end(), time_index, f.run, levels | drops, u64::from(f.live.first_time())]
        });
        numbers.extend(told.iter().map(|n| if request.comm.rank() == 0 { *n } else { 0 }));
        let mut open = OpenIndex {
            layout: request.layout.clone(),
            cache: request.cache.clone(),
            path: request.path.to_string(),
            mode: request.mode,
            rank: request.comm.rank(),
            time_index: 0,
            first_time: 1,
            run: request.run,
            base: 0,
            sync,
            written_early: false,
            subfiles,
            single: false,
            lease: None,
            finished: false,
            live: None,
            in_use: None,
        };
        let mut own_levels = Vec::new();
        if let Some(first) = first {
            own_levels = first.levels;
            (open.run, open.live, open.in_use) = (first.run, Some(first.live), Some(first.in_use));
            (open.single, open.lease) = (first.single, first.lease);
        }
        let named = |e: Error| e.in_object(request.path);
        // On failure the file is as it was: the drop of `open` keeps its index.
        let agreed = agree(request.comm, outcome, "open the output", &numbers).map_err(named)?;
        let flags = agreed[3];
        (open.base, open.time_index, open.run) = (agreed[0], agreed[1] as u32, agreed[2]);
        open.first_time = agreed[4] as u32;
        if flags & DROPS > 0 {
            if open.live.is_some() {
                let left = ClosedSteps { steps: open.step() as u32, run: 0 };
                open.cache.set_closed_steps(&open.layout, &open.path, left);
            }
            let time_index = open.time_index;
            let dropped =
                caught("drop later steps", || open.live.as_mut().map_or(Ok(()), |live| drop_steps(live, time_index)));
            let end = open.live.as_ref().map_or(0, LiveIndex::end);
            open.base = agree(request.comm, dropped, "drop later steps", &[end]).map_err(named)?[0];
        }
        let levels = levels::tell(request.comm, flags & LEVELS > 0, own_levels)?;
        let opened = Opened { time_index: open.time_index, first_time: open.first_time, run: open.run, levels };
        Ok((open, opened, agreed[5..].to_vec()))
    }

    /// The step of this output, from 0.
    fn step(&self) -> u64 {
        u64::from(self.time_index.saturating_sub(self.first_time))
    }

    /// How the step is committed.
    ///
    /// - `slots`: ranks had slots.
    pub fn commit(&self, indexing: Indexing, slots: bool) -> Commit {
        let OpenIndex { time_index, run, base, subfiles, .. } = *self;
        Commit { time_index, step: self.step(), run, base, indexing, shared: !subfiles, slots }
    }

    /// The index and the file that holds it, `object`; read again where the rank that had it is lost or failed.
    ///
    /// # Errors
    /// Those of reading the index again.
    pub fn file<'i>(&'i mut self, object: &'i dyn WriteObject) -> Result<IndexFile<'i>> {
        if self.live.is_none() {
            self.cache.hold(&self.layout, &self.path, object)?;
        }
        let mut live = match self.live.take() {
            Some(live) => live,
            None if self.base == 0 => LiveIndex::new(self.subfiles),
            None => LiveIndex::load_up_to(object, self.subfiles, self.base)?,
        };
        if self.single && !self.sync {
            // Where it is to be durable the mark follows the index, as it says that the index is there.
            live.ends_with_next();
        }
        Ok(IndexFile { live: self.live.insert(live), object })
    }

    /// The index in memory is not what the file holds.
    pub fn forget(&mut self) {
        (self.live, self.finished) = (None, false);
    }

    /// Whether this rank keeps the index, unless it is lost.
    pub fn keeps(&self) -> bool {
        self.in_use.is_some()
    }

    /// The step is in the index: makes the file that holds the index and its name durable, where the output is to be, finishes
    /// the file where it is taken for one of a single output, and closes it.
    ///
    /// # Errors
    /// Whether the step is in the file is not known then.
    pub fn end(&mut self, object: Box<dyn WriteObject>) -> Result<()> {
        if self.sync {
            object.sync()?;
            self.layout.sync_folder(folder_of(&self.path))?;
        }
        if let (true, Some(live)) = (self.single, &mut self.live) {
            // What goes wrong here is done again at the session's end, and told there.
            self.finished = live.finish(&*object, self.sync).is_ok();
        }
        let closed = object.close().map_err(|e| e.in_object(&*self.path));
        // Not kept beyond: a lease keeps the space of a file that the program removes.
        self.lease = None;
        closed
    }

    /// The output is closed, and with it the file for good where it was finished.
    ///
    /// - `indexed`: its step is in the index, as [`crate::output_file::commit::Part::is_indexed`] says.
    pub fn closed(&mut self, indexed: bool) {
        if self.finished && indexed {
            // Nothing is kept of it.
            (self.live, self.in_use) = (None, None);
            return;
        }
        match self.live.take() {
            Some(live) if indexed => self.keep(Some(live)),
            _ if self.in_use.is_some() => self.keep(None),
            _ => {}
        }
        self.in_use = None;
    }

    /// Keeps the index for the next output; `None` where the file has to say it again.
    fn keep(&self, live: Option<LiveIndex>) {
        if let Some(live) = &live {
            // An output that was dropped has written nothing.
            let run = if live.openings().names(self.run) { self.run } else { 0 };
            self.cache.set_closed_steps(&self.layout, &self.path, ClosedSteps { steps: live.steps(), run });
        }
        let file = File { layout: &self.layout, path: &self.path, subfiles: self.subfiles, sync: self.sync };
        self.cache.keep(file, live, self.run);
    }
}

impl Drop for OpenIndex {
    fn drop(&mut self) {
        if let Some(live) = self.live.take() {
            // One that is about to drop steps is not what the file says; what was written early lies behind it, and is cut
            // off by the next output that looks.
            self.keep(Some(live).filter(|live| !live.is_dropping() && !self.written_early));
        }
    }
}
