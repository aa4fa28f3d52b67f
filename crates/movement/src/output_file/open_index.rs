//! The index of a file that is open for an output: on rank 0, or on its successor after the loss of rank 0.
//!
//! | question | answer |
//! |---|---|
//! | who begins | rank 0 creates the file or finds the end of its last index ([`begin`]) |
//! | when is the output open | after an agreement of all ranks, in one reduction ([`OpenIndex::agree`]); a second reduction if steps are dropped, a broadcast if the file has other statistics levels |
//! | what is cached | the index of a closed output, for the next one; if an output is dropped, the index before it |
//!
//! Shared by methods with a single file and methods with subfiles.

use crate::method::{Indexing, Mode, OpenRequest, Opened, folder_of};
use crate::output_file::cache::{Cache, File, InUse};
use crate::output_file::commit::{Commit, IndexFile};
use crate::output_file::levels::{self, ArrayLevel};
use crate::output_file::live_index::{ClosedSteps, LiveIndex};
use crate::output_file::{made, spill};
use std::sync::Arc;
use thalweg_comm::agreement::agree;
use thalweg_comm::guarded::caught;
use thalweg_layout::{Layout, Lease, OpenWrite, WriteObject, WriterId};
use thalweg_types::{Error, ErrorKind, Result};

/// The result of [`begin`] on rank 0.
pub struct First {
    /// The index.
    pub live: LiveIndex,
    /// Run id.
    pub run: u64,
    /// Arrays whose statistics level in the file differs from the requested one.
    levels: Vec<ArrayLevel>,
    in_use: InUse,
    /// The index was cached since this process wrote it, and the file still contains it.
    pub known: bool,
    /// The file is assumed to be for this output only.
    single: bool,
    /// Lease of such a file, held until close.
    lease: Option<Lease>,
}

/// Begins an output on rank 0: creates the file with the index, or finds its live end.
///
/// - `subfiles`: the file is a metadata file.
///
/// # Errors
/// `Unsupported` where the file has its data elsewhere; `InvalidArgument` where the file is open for another output; `NotFound` where a
/// file with closed steps was removed; `Corrupt` or `Torn` where its index is damaged or the file was replaced; errors of the store.
pub fn begin(request: &OpenRequest<'_>, subfiles: bool) -> Result<(Box<dyn WriteObject>, First)> {
    let writer = WriterId(0);
    let in_use = request.cache.begin(request.layout, request.path)?;
    spill::remove_stale(request);
    if request.mode == Mode::Write {
        request.cache.forget(request.layout, request.path);
        let object = request.layout.open_write(request.path, OpenWrite::Replace, writer)?;
        if !subfiles {
            made::show(request, &*object)?;
        }
        let single = request.cache.begins(request.group, request.layout, request.path);
        // A file for this output only is leased while the output is open, if a lease is a lock on the open file; in other
        // layouts a lease would create objects.
        let lease = if single && object.is_file() { object.lease()? } else { None };
        if !single {
            request.cache.take_lease(request.layout, request.path, &*object)?;
        }
        let live = LiveIndex::new(subfiles);
        return Ok((object, First { live, run: request.run, levels: Vec::new(), in_use, known: false, single, lease }));
    }
    request.cache.goes_on(request.group);
    request.cache.check_arrangement(request.layout, request.path, subfiles)?;
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
    request.cache.take_lease(request.layout, request.path, &*object)?;
    object.will_write()?;
    let far = request.layout.request_cost(request.path) > 0;
    let kept = match kept {
        // One without a step may have been begun by a method of the other kind.
        Some(kept) if kept.index.has_subfiles() != subfiles => None,
        Some(kept) if (!far || kept.index.is_last_in(&*object)?) && kept.index.is_in(&*object)? => Some(kept),
        _ => None,
    };
    let known = kept.is_some();
    let (mut live, run) = match kept {
        Some(kept) => (kept.index, kept.run),
        None if object.length()? == 0 => {
            if !subfiles {
                made::show(request, &*object)?;
            }
            (LiveIndex::new(subfiles), request.run)
        }
        None => (LiveIndex::load_with(&*object, subfiles, closed)?, request.run),
    };
    live.check_steps(closed)?;
    if let Mode::AppendAfter(step) = request.mode {
        live.drop_after(step)?;
    }
    let levels = live.differing_levels(request.arrays)?;
    Ok((object, First { live, run, levels, in_use, known, single: false, lease: None }))
}

/// Flag: the file has other statistics levels than requested.
const LEVELS: u64 = 1;
/// Flag: steps are to be dropped from the file.
const DROPS: u64 = 2;

/// The time index of an output after `last`.
pub fn next_time(mode: Mode, last: u32) -> u32 {
    match mode {
        Mode::Write => 1,
        Mode::Append | Mode::AppendAfter(_) => last + 1,
        Mode::Update => last.max(1),
    }
}

/// See the module's page. Dropping it before the output is closed caches the previous index for the next output.
pub struct OpenIndex {
    /// The layout of the file.
    pub layout: Arc<dyn Layout>,
    /// The process's cache.
    pub cache: Arc<Cache>,
    /// Path of the file.
    pub path: String,
    /// Mode of the open.
    pub mode: Mode,
    /// This rank in the communicator of the open.
    pub rank: u32,
    /// The step, counted from [`OpenIndex::first_time`].
    pub time_index: u32,
    /// The time index of step 0.
    pub first_time: u32,
    /// Run id.
    pub run: u64,
    /// End of the index when the output was opened.
    pub base: u64,
    /// The output is durable when its close returns.
    pub sync: bool,
    /// Bytes may follow the index before close: if the output is dropped, its index is not cached.
    pub written_early: bool,
    subfiles: bool,
    /// On rank 0: the file is assumed to be for this output only, and is closed for good with it. Outputs can still be added.
    single: bool,
    /// Lease of such a file, held until close.
    lease: Option<Lease>,
    /// The file is closed for good.
    finished: bool,
    live: Option<LiveIndex>,
    /// `Some` on rank 0.
    in_use: Option<InUse>,
}

impl OpenIndex {
    /// Collective: all ranks agree that the output is open; then rank 0 drops later steps if the mode requests it.
    ///
    /// - `outcome`: outcome of this rank's opens so far; `first`: the result of [`begin`] on rank 0.
    /// - `told`: numbers that rank 0 sends to all ranks.
    /// - `drop_steps`: called on rank 0 to drop steps from the file, with the time index of this output.
    ///
    /// Returns also the result for the program, and rank 0's numbers.
    ///
    /// # Errors
    /// The same kind on all ranks; the file is then unchanged, unless steps were being dropped.
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
        // On failure the file is unchanged: dropping `open` caches its index.
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

    /// The parameters of the step's commit.
    ///
    /// - `slots`: ranks had slots.
    pub fn commit(&self, indexing: Indexing, slots: bool) -> Commit {
        let OpenIndex { time_index, run, base, subfiles, .. } = *self;
        Commit { time_index, step: self.step(), run, base, indexing, shared: !subfiles, slots }
    }

    /// The index and its file, `object`; reads the index again if its keeper was lost or failed.
    ///
    /// # Errors
    /// Errors of reading the index again.
    pub fn file<'i>(&'i mut self, object: &'i dyn WriteObject) -> Result<IndexFile<'i>> {
        if self.live.is_none() {
            self.cache.take_lease(&self.layout, &self.path, object)?;
        }
        let mut live = match self.live.take() {
            Some(live) => live,
            None if self.base == 0 => LiveIndex::new(self.subfiles),
            None => LiveIndex::load_up_to(object, self.subfiles, self.base)?,
        };
        if self.single && !self.sync {
            // In a durable output the mark is written after the index is durable.
            live.ends_with_next();
        }
        Ok(IndexFile { live: self.live.insert(live), object })
    }

    /// Discards the index in memory, which no longer matches the file.
    pub fn forget(&mut self) {
        (self.live, self.finished) = (None, false);
    }

    /// Whether this rank keeps the index.
    pub fn keeps(&self) -> bool {
        self.in_use.is_some()
    }

    /// Called when the index contains the step: makes the file and its directory entry durable if the output is durable,
    /// finishes a file of a single output, and closes the file.
    ///
    /// # Errors
    /// Errors of the store; whether the file contains the step is then not known.
    pub fn end(&mut self, object: Box<dyn WriteObject>) -> Result<()> {
        if self.sync {
            object.sync()?;
            self.layout.sync_folder(folder_of(&self.path))?;
        }
        if let (true, Some(live)) = (self.single, &mut self.live) {
            // A failure here is ignored: the end of the session finishes the file again and reports errors.
            self.finished = live.finish(&*object, self.sync).is_ok();
        }
        let closed = object.close().map_err(|e| e.in_object(&*self.path));
        // The lease ends here: it would keep the space of a file that the program removes.
        self.lease = None;
        closed
    }

    /// Ends the output, and caches the index unless the file is finished.
    ///
    /// - `indexed`: the index contains the step, as [`crate::output_file::commit::Participant::is_indexed`] returns.
    pub fn closed(&mut self, indexed: bool) {
        if self.finished && indexed {
            // A finished file is not cached.
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

    /// Caches the index for the next output; `None`: the next output reads it from the file.
    fn keep(&self, live: Option<LiveIndex>) {
        if let Some(live) = &live {
            // A dropped output is not in the index.
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
            // An index with dropped steps does not match the file. After early writes, the next output must read the file, to
            // truncate them.
            self.keep(Some(live).filter(|live| !live.is_dropping() && !self.written_early));
        }
    }
}
