//! One file that all ranks share, while it is open for an output: the file, its index on rank 0, and the spill file of
//! a rank whose process group found no room in the buffer.

use super::agreement::agree;
use super::kept::{File, InUse, Kept};
use super::levels::{self, ArrayLevel};
use super::live_index::LiveIndex;
use super::serial_open::one_after_the_other;
use super::spill::Spill;
use super::step_commit::{IndexFile, Written};
use crate::method::{Mode, OpenRequest, Opened, folder_of};
use crate::pack::{self, Pack, Writer};
use std::sync::Arc;
use thalweg_bp::characteristic::SINGLE_FILE;
use thalweg_bp::process_group::Header;
use thalweg_layout::{Layout, OpenWrite, WriteObject, WriterId};
use thalweg_types::{Error, ErrorKind, Extent, Result};

/// The file, as one rank has it open. Dropped, it leaves the file as it was before, and keeps its index for the next output.
pub struct SharedFile {
    sync: bool,
    layout: Arc<dyn Layout>,
    /// What the process keeps.
    pub kept: Arc<Kept>,
    /// Its name.
    pub path: String,
    /// On ranks that opened it.
    object: Option<Box<dyn WriteObject>>,
    /// On rank 0.
    live: Option<LiveIndex>,
    /// First free byte.
    pub base: u64,
    /// Step + 1.
    pub time_index: u32,
    /// Run id.
    pub run: u64,
    /// This rank.
    pub rank: u32,
    spill: Spill,
    spill_copy: usize,
    /// Bytes may lie behind the index before the output is closed: one that is dropped has to be looked at again.
    pub written_early: bool,
    closed: bool,
    /// On rank 0.
    in_use: Option<InUse>,
    /// On rank 0: it is taken for a file of this output alone, and closed for good with it. More can be added all the same.
    single: bool,
}

/// What rank 0 finds out first.
struct First {
    live: LiveIndex,
    run: u64,
    levels: Vec<ArrayLevel>,
    in_use: InUse,
    single: bool,
}

/// What rank 0 does first: makes the file or finds its live end.
fn begin(request: &OpenRequest<'_>) -> Result<(Box<dyn WriteObject>, First)> {
    let writer = WriterId(0);
    let in_use = request.kept.begin(request.layout, request.path)?;
    if request.mode == Mode::Write {
        request.kept.forget(request.layout, request.path);
        let object = request.layout.open_write(request.path, OpenWrite::Replace, writer)?;
        let single = request.kept.begins(request.group, request.layout, request.path);
        if !single {
            request.kept.hold(request.layout, request.path, &*object);
        }
        let live = LiveIndex::new(false);
        return Ok((object, First { live, run: request.run, levels: Vec::new(), in_use, single }));
    }
    request.kept.goes_on(request.group);
    let kept = request.kept.take(request.layout, request.path);
    let object = request.layout.open_write(request.path, request.mode.how(), writer)?;
    request.kept.hold(request.layout, request.path, &*object);
    let (mut live, run) = match kept {
        Some(kept) => (kept.index, kept.run),
        None if object.length()? == 0 => (LiveIndex::new(false), request.run),
        None => (LiveIndex::load(&*object, false)?, request.run),
    };
    if let Mode::AppendAfter(step) = request.mode {
        live.drop_after(step)?;
    }
    let levels = live.differing_levels(request.arrays)?;
    Ok((object, First { live, run, levels, in_use, single: false }))
}

/// A file keeps other statistics than asked for.
pub(crate) const LEVELS: u64 = 1;
/// Steps are to be dropped from it.
pub(crate) const DROPS: u64 = 2;

/// What rank 0 tells about a file it has opened.
pub(crate) fn flags(live: &LiveIndex, levels: &[ArrayLevel]) -> u64 {
    (if levels.is_empty() { 0 } else { LEVELS }) | (if live.is_dropping() { DROPS } else { 0 })
}

/// The time index of an output behind `last`.
pub(crate) fn next_time(mode: Mode, last: u32) -> u32 {
    match mode {
        Mode::Write => 1,
        Mode::Append | Mode::AppendAfter(_) => last + 1,
        Mode::Update => last.max(1),
    }
}

pub(crate) fn not_open() -> Error {
    Error::new(ErrorKind::InvalidArgument, "the output is not open")
}

impl SharedFile {
    /// Collective: rank 0 makes the file or finds its live end, then the others open it, one after the other.
    ///
    /// - `spill_copy`: bytes copied at a time from the spill file; `opens`: this rank does; rank 0 always does. `told`: numbers of rank 0 that all are to know.
    ///
    /// Returns the file, what the program is to know, and rank 0's numbers.
    pub fn open(
        request: &OpenRequest<'_>,
        sync: bool,
        spill_copy: usize,
        opens: bool,
        told: &[u64],
    ) -> Result<(SharedFile, Opened, Vec<u64>)> {
        let rank = request.comm.rank();
        let mut first = None;
        let opened = one_after_the_other(request.comm, || {
            if rank == 0 {
                let (object, begun) = begin(request)?;
                first = Some(begun);
                return Ok(Some(object));
            }
            let open = || request.layout.open_write(request.path, OpenWrite::Existing, WriterId(rank));
            opens.then(open).transpose()
        })
        .map_err(|e| e.in_object(request.path));
        let mut numbers = first.as_ref().map_or(vec![0; 4], |f| {
            let time_index = u64::from(next_time(request.mode, f.live.last_time()));
            vec![f.live.end(), time_index, f.run, flags(&f.live, &f.levels)]
        });
        numbers.extend(told.iter().map(|n| if rank == 0 { *n } else { 0 }));
        let (object, outcome) = match opened {
            Ok(object) => (Some(object), Ok(())),
            Err(e) => (None, Err(e)),
        };
        let agreed = agree(request.comm, outcome, "open the output", &numbers).map_err(|e| e.in_object(request.path));
        let (Ok(agreed), Some(object)) = (&agreed, object) else {
            if let Some(first) = first {
                // Another rank failed: the file is as it was.
                let file = File { layout: request.layout, path: request.path, subfiles: false, sync };
                request.kept.keep(file, Some(first.live).filter(|live| !live.is_dropping()), first.run);
            }
            return Err(agreed.err().unwrap_or_else(not_open));
        };
        let single = first.as_ref().is_some_and(|f| f.single);
        let (mut live, levels, in_use) = match first {
            Some(first) => (Some(first.live), first.levels, Some(first.in_use)),
            None => (None, Vec::new(), None),
        };
        let mut base = agreed[0];
        if agreed[3] & DROPS > 0 {
            let shortened = match (&mut live, &object) {
                (Some(live), Some(object)) => live.shorten(&**object, sync),
                _ => Ok(()),
            };
            let end = live.as_ref().map_or(0, LiveIndex::end);
            base =
                agree(request.comm, shortened, "drop later steps", &[end]).map_err(|e| e.in_object(request.path))?[0];
        }
        let file = SharedFile {
            sync,
            layout: request.layout.clone(),
            kept: request.kept.clone(),
            path: request.path.to_string(),
            object,
            live,
            base,
            time_index: agreed[1] as u32,
            run: agreed[2],
            rank,
            spill: Spill::new(request.layout, request.path, rank, spill_copy),
            spill_copy,
            written_early: false,
            closed: false,
            in_use,
            single,
        };
        let levels = levels::tell(request.comm, agreed[3] & LEVELS > 0, levels)?;
        let opened = Opened { time_index: file.time_index, run: file.run, levels };
        Ok((file, opened, agreed[4..].to_vec()))
    }

    /// The file; opened now on a rank that has not done so before.
    pub fn object(&mut self) -> Result<&dyn WriteObject> {
        if self.object.is_none() {
            let object = self.layout.open_write(&self.path, OpenWrite::Existing, WriterId(self.rank));
            self.object = Some(object.map_err(|e| e.at_rank(self.rank).in_object(self.path.clone()))?);
        }
        self.opened()
    }

    /// The file, on a rank that opened it.
    pub fn opened(&self) -> Result<&dyn WriteObject> {
        self.object.as_deref().ok_or_else(not_open)
    }

    /// The spill file, made where there is none. `stored`: where bytes lie in the file that are moved there, and how many.
    pub fn spill(&mut self, stored: Option<(u64, u64)>) -> Result<&dyn WriteObject> {
        let SharedFile { spill, object, spill_copy, .. } = self;
        let to = spill.through()?;
        if let Some((start, length)) = stored {
            let from = object.as_deref().ok_or_else(not_open)?;
            pack::move_bytes(from, start, to, 0, length, *spill_copy)?;
        }
        Ok(to)
    }

    /// The spill file, if there is one.
    pub fn spilled(&self) -> Option<&dyn WriteObject> {
        self.spill.object()
    }

    /// Who writes, for the trailer.
    pub fn writer(&self, ranks: u32) -> Writer {
        Writer { rank: self.rank, ranks, run: self.run, file_index: SINGLE_FILE }
    }

    /// Writes this rank's process group to its place.
    pub fn write(&mut self, pack: &mut Pack<'_>, extent: Extent, header: &Header, ranks: u32) -> Result<Written> {
        self.object()?;
        let object = self.opened()?;
        let fragment = self
            .spill
            .write(pack, object, extent, header, self.writer(ranks))
            .map_err(|e| e.at_rank(self.rank).in_object(self.path.clone()))?;
        self.sync()?;
        Ok(Written { fragment, extent })
    }

    /// Makes this rank's bytes durable, where the output is to be.
    pub fn sync(&self) -> Result<()> {
        if self.sync { self.opened()?.sync() } else { Ok(()) }
    }

    /// As [`super::step_commit::Files::index`].
    pub fn index(&mut self) -> Result<IndexFile<'_>> {
        self.object()?;
        let object = self.object.as_deref().ok_or_else(not_open)?;
        if self.live.is_none() {
            self.kept.hold(&self.layout, &self.path, object);
            self.live = Some(match self.base {
                0 => LiveIndex::new(false),
                base => LiveIndex::load_up_to(object, false, base)?,
            });
        }
        let live = self.live.as_mut().ok_or_else(not_open)?;
        Ok(IndexFile { live, object })
    }

    /// As [`super::step_commit::Files::forget_index`].
    pub fn forget_index(&mut self) {
        self.live = None;
    }

    /// As [`super::step_commit::Files::sync_index`].
    pub fn sync_index(&mut self) -> Result<()> {
        if !self.sync {
            return Ok(());
        }
        self.opened()?.sync()?;
        self.layout.sync_folder(folder_of(&self.path))
    }

    /// Ends the output. `indexed`: the step is in this rank's index.
    pub fn close(mut self, indexed: bool) {
        self.closed = true;
        match self.live.take() {
            Some(mut live) if indexed => {
                let done = self.single && self.opened().is_ok_and(|object| live.finish(object, self.sync).is_ok());
                if !done {
                    self.keep(Some(live));
                }
            }
            _ if self.in_use.is_some() => self.keep(None),
            _ => {}
        }
    }

    /// Keeps the index for the next output; `None` where the file has to say it again.
    fn keep(&self, live: Option<LiveIndex>) {
        let file = File { layout: &self.layout, path: &self.path, subfiles: false, sync: self.sync };
        self.kept.keep(file, live, self.run);
    }
}

impl Drop for SharedFile {
    fn drop(&mut self) {
        if self.closed {
            return;
        }
        if let Some(live) = self.live.take() {
            // What was written early is behind the index: the next output is to look where that ends, and cut it off.
            self.keep(Some(live).filter(|_| !self.written_early));
        }
    }
}
