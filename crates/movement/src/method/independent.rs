//! Independent writing: every rank writes its process group into one shared file, at a planned place.
//!
//! | question     | answer |
//! |--------------|--------|
//! | who writes   | every rank its own process group; rank 0 the index |
//! | when         | inside `close` |
//! | where        | one file; rank r behind the groups of ranks 0 to r-1, the index behind all |
//! | what moves   | a size (one scan), index fragments to rank 0 (one gather), the outcome (one reduction); no data |
//! | memory       | the process group, within the buffer limit; large blocks go to the file at once where the rank has a [slot](crate::parts::slot); else, beyond the limit, blocks go to a spill file beside the output, `<name>.spill.<rank>`, and are copied at close: every such byte is written twice. Blocks marked `copy-on-write="no"` need no memory and no spill |
//! | who calls    | every rank calls `open` and `close`; a rank without blocks writes an empty process group |
//! | on failure   | all ranks return the kind of the lowest failing rank's error; groups of the others are indexed, the step is partial. Where a rank is lost and the communicator can go on without it, the survivors close the step: [`crate::parts::step_commit`] |
//!
//! Opens are serialised, one rank after the other, so that a metadata server sees one at a time.
//!
//! Per rank and output: one open, one write (more where blocks spilled), one receive, one scan, one gather, three
//! reductions, no broadcast (one where a file keeps other statistics than asked for). Large outputs of a size known from the
//! last one: a scan at open, a fourth reduction instead of the one at close, one write per block written at once.
//!
//! Sources: Lofstead et al., SAND2009-7763, the MPI method; CUG 2009, serialised opens.
//! Differs: places come from a scan inside `close`, or at open from what the last output was like.

use super::{
    Closed, DIRECT, INDEX, Method, MethodKind, Mode, OpenRequest, Opened, Parameter, Parameters, SYNC, folder_of,
};
use crate::pack::{self, Pack, Reach, Writer};
use crate::parts::agreement::agree;
use crate::parts::kept::{File, InUse, Kept};
use crate::parts::levels::{self, ArrayLevel};
use crate::parts::live_index::LiveIndex;
use crate::parts::serial_open::one_after_the_other;
use crate::parts::slot::{self, Slot};
use crate::parts::step_commit::{self, Commit, Files, IndexFile, Part, Written};
use crate::plan;
use std::sync::Arc;
use thalweg_bp::characteristic::SINGLE_FILE;
use thalweg_bp::process_group::Header;
use thalweg_comm::Communicator;
use thalweg_layout::{Layout, OpenWrite, WriteObject, WriterId};
use thalweg_types::{Error, ErrorKind, Extent, Result};

/// How the registry lists it.
pub const KIND: MethodKind = MethodKind {
    names: &["MPI"],
    id: 0,
    about: "every rank writes its part of one shared file",
    parameters: &[SYNC, INDEX, DIRECT, COPY],
    make,
};

const COPY: Parameter = Parameter {
    key: "spill_copy",
    about: "bytes copied at a time from the spill file at close, where the buffer was too small; default 64 KiB",
};

fn make(parameters: &Parameters) -> Result<Box<dyn Method>> {
    Ok(Box::new(Independent {
        sync: parameters.flag("sync", false)?,
        each: parameters.index_each()?,
        direct: parameters.bytes("direct", 4 << 20)?,
        spill_copy: parameters.bytes("spill_copy", 64 * 1024)?.clamp(512, 1 << 30) as usize,
        open: None,
    }))
}

struct Independent {
    sync: bool,
    each: bool,
    direct: u64,
    spill_copy: usize,
    open: Option<Open>,
}

struct Open {
    sync: bool,
    layout: Arc<dyn Layout>,
    kept: Arc<Kept>,
    path: String,
    object: Box<dyn WriteObject>,
    /// On rank 0.
    live: Option<LiveIndex>,
    base: u64,
    time_index: u32,
    run: u64,
    rank: u32,
    spill: Option<Box<dyn WriteObject>>,
    /// All ranks were asked for slots.
    slots: bool,
    /// This rank's, until it turns out too small.
    slot: Option<Slot>,
    /// On rank 0.
    in_use: Option<InUse>,
}

impl Open {
    /// Keeps the index for the next output; `None` where the file has to say it again.
    fn keep(&self, live: Option<LiveIndex>) {
        let file = File { layout: &self.layout, path: &self.path, subfiles: false, sync: self.sync };
        self.kept.keep(file, live, self.run);
    }

    /// Goes over to the spill file: what lies in the slot so far, `stored` bytes, is moved there.
    fn leave_slot(&mut self, stored: u64, step: usize) -> Result<&dyn WriteObject> {
        let slot = self.slot.take().filter(|_| stored > 0);
        if self.spill.is_none() {
            let path = self.spill_path();
            self.spill = Some(self.layout.open_write(&path, OpenWrite::Replace, WriterId(self.rank))?);
        }
        let spill = self.spill.as_deref().ok_or_else(not_open)?;
        if let Some(slot) = slot {
            pack::move_bytes(&*self.object, slot.start(), spill, 0, stored, step)?;
        }
        Ok(spill)
    }

    fn spill_path(&self) -> String {
        format!("{}.spill.{}", self.path, self.rank)
    }
}

/// What rank 0 finds out first.
struct First {
    live: LiveIndex,
    run: u64,
    levels: Vec<ArrayLevel>,
    in_use: InUse,
}

/// What rank 0 does first: makes the file or finds its live end.
fn begin(request: &OpenRequest<'_>) -> Result<(Box<dyn WriteObject>, First)> {
    let writer = WriterId(0);
    let in_use = request.kept.begin(request.layout, request.path)?;
    if request.mode == Mode::Write {
        request.kept.forget(request.layout, request.path);
        let object = request.layout.open_write(request.path, OpenWrite::Replace, writer)?;
        request.kept.hold(request.layout, request.path, &*object);
        let live = LiveIndex::new(false);
        return Ok((object, First { live, run: request.run, levels: Vec::new(), in_use }));
    }
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
    Ok((object, First { live, run, levels, in_use }))
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

impl Method for Independent {
    fn name(&self) -> &'static str {
        "MPI"
    }

    fn open(&mut self, request: &OpenRequest<'_>) -> Result<Opened> {
        let rank = request.comm.rank();
        let mut first = None;
        let opened = one_after_the_other(request.comm, || {
            if rank == 0 {
                let (object, begun) = begin(request)?;
                first = Some(begun);
                return Ok(object);
            }
            request.layout.open_write(request.path, OpenWrite::Existing, WriterId(rank))
        })
        .map_err(|e| e.in_object(request.path));
        let numbers = first.as_ref().map_or([0; 4], |f| {
            let time_index = u64::from(next_time(request.mode, f.live.last_time()));
            let large = request.kept.sizes().are_large(request.group, request.comm);
            [f.live.end(), time_index, f.run, flags(&f.live, &f.levels) | u64::from(large) << 2]
        });
        let (object, outcome) = match opened {
            Ok(object) => (Some(object), Ok(())),
            Err(e) => (None, Err(e)),
        };
        let agreed = agree(request.comm, outcome, "open the output", &numbers).map_err(|e| e.in_object(request.path));
        let (Ok(agreed), Some(object)) = (&agreed, object) else {
            if let Some(first) = first {
                // Another rank failed: the file is as it was.
                let file = File { layout: request.layout, path: request.path, subfiles: false, sync: self.sync };
                request.kept.keep(file, Some(first.live).filter(|live| !live.is_dropping()), first.run);
            }
            return Err(agreed.err().unwrap_or_else(not_open));
        };
        let (mut live, levels, in_use) = match first {
            Some(first) => (Some(first.live), first.levels, Some(first.in_use)),
            None => (None, Vec::new(), None),
        };
        let mut base = agreed[0];
        if agreed[3] & DROPS > 0 {
            let shortened = live.as_mut().map_or(Ok(()), |live| live.shorten(&*object, self.sync));
            let end = live.as_ref().map_or(0, LiveIndex::end);
            base =
                agree(request.comm, shortened, "drop later steps", &[end]).map_err(|e| e.in_object(request.path))?[0];
        }
        self.open = Some(Open {
            sync: self.sync,
            layout: request.layout.clone(),
            kept: request.kept.clone(),
            path: request.path.to_string(),
            object,
            live,
            base,
            time_index: agreed[1] as u32,
            run: agreed[2],
            rank,
            spill: None,
            slots: agreed[3] & 4 > 0,
            slot: None,
            in_use,
        });
        let levels = levels::tell(request.comm, agreed[3] & LEVELS > 0, levels)?;
        if let Some(open) = self.open.as_mut().filter(|open| open.slots) {
            let wanted = request.kept.sizes().wanted(request.group, request.comm);
            open.slot = Slot::give(request.comm, open.base, wanted)?;
        }
        Ok(Opened { time_index: agreed[1] as u32, run: agreed[2], levels })
    }

    fn at_once(&self, reach: &Reach) -> Option<u64> {
        let slot = self.open.as_ref().and_then(|open| open.slot.as_ref());
        slot.filter(|slot| slot.expects(reach)).map(|_| self.direct)
    }

    fn through(&mut self, reach: &Reach) -> Result<(&dyn WriteObject, u64)> {
        let spill_copy = self.spill_copy;
        let open = self.open.as_mut().ok_or_else(not_open)?;
        match open.slot {
            Some(slot) if slot.expects(reach) => Ok((&*open.object, slot.start())),
            _ => Ok((open.leave_slot(reach.stored, spill_copy)?, 0)),
        }
    }

    fn close(
        &mut self,
        comm: &dyn Communicator,
        header: &Header,
        pack: &mut Pack<'_>,
        failed: Option<Error>,
    ) -> Result<Closed> {
        let mut open = self.open.take().ok_or_else(not_open)?;
        let size = pack.length();
        let fitted = open.slot.is_none_or(|slot| slot.holds(size));
        let left = match pack.stored() {
            stored if stored > 0 && !fitted => open.leave_slot(stored, self.spill_copy).map(|_| ()),
            _ => Ok(()),
        };
        let failed = failed.or(left.err());
        let mut part = Part::new(open.rank, comm.size(), size, failed);
        let (kept, slots, slot, expected) = (open.kept.clone(), open.slots, open.slot, pack.expected());
        let how = Commit {
            time_index: open.time_index,
            run: open.run,
            base: open.base,
            each: self.each,
            shared: true,
            slots,
        };
        let mut files = Closing { open: &mut open, ranks: comm.size(), spill_copy: self.spill_copy, header, pack };
        let place = match slots {
            true => slot::place(comm, how.base, slot.as_ref(), part.size()),
            false => comm
                .exclusive_scan(part.size())
                .map(|before| plan::shared(files.open.rank, how.base, before, part.size()).map(|p| p.extent)),
        };
        let first = match place {
            Ok(place) => {
                match place {
                    Ok(extent) => part.write(extent, &mut files),
                    Err(e) => part.fail(e),
                }
                part.commit(comm, &mut files, how)
            }
            Err(lost) => {
                // What lies in a slot already stays there, where the others know of it.
                if let Some(extent) = slot::own_place(slot.as_ref(), part.size()) {
                    part.write(extent, &mut files);
                }
                Err(lost)
            }
        };
        let outcome = step_commit::finish(comm, first, &mut part, &mut files, how);
        if open.spill.take().is_some() {
            // The output is safe without it; a spill file that stays is overwritten by the next one.
            let _ = open.layout.remove(&open.spill_path());
        }
        match open.live.take() {
            Some(live) if part.is_indexed() => open.keep(Some(live)),
            _ if open.in_use.is_some() => open.keep(None),
            _ => {}
        }
        match &outcome {
            Ok(all) => kept.sizes().note(&header.group, comm, size, expected, fitted, *all),
            Err(_) => kept.sizes().forget(&header.group, comm),
        }
        outcome.map(|bytes| Closed { bytes }).map_err(|e| e.in_group(header.group.clone()).in_object(open.path.clone()))
    }
}

impl Drop for Independent {
    fn drop(&mut self) {
        if let Some(mut open) = self.open.take() {
            if open.spill.take().is_some() {
                let _ = open.layout.remove(&open.spill_path());
            }
            if let Some(live) = open.live.take() {
                // What lies in slots is behind the index: the next output is to look where that ends, and cut it off.
                let kept = if open.slots { None } else { Some(live) };
                open.keep(kept);
            }
        }
    }
}

fn not_open() -> Error {
    Error::new(ErrorKind::InvalidArgument, "the output is not open")
}

struct Closing<'c, 'a> {
    open: &'c mut Open,
    ranks: u32,
    spill_copy: usize,
    header: &'c Header,
    pack: &'c mut Pack<'a>,
}

impl Files for Closing<'_, '_> {
    fn write(&mut self, extent: Extent) -> Result<Written> {
        let open = &*self.open;
        let writer = Writer { rank: open.rank, ranks: self.ranks, run: open.run, file_index: SINGLE_FILE };
        let fragment = match &open.spill {
            Some(spill) if self.pack.has_gone_through() => {
                self.pack.write_spilled(&**spill, &*open.object, extent, self.header, writer, self.spill_copy)
            }
            _ => self.pack.write(&*open.object, extent, self.header, writer),
        }
        .map_err(|e| e.at_rank(open.rank).in_object(open.path.clone()))?;
        if open.sync {
            open.object.sync()?;
        }
        Ok(Written { fragment, extent })
    }

    fn index(&mut self) -> Result<IndexFile<'_>> {
        let object = &*self.open.object;
        if self.open.live.is_none() {
            self.open.kept.hold(&self.open.layout, &self.open.path, object);
            self.open.live = Some(match self.open.base {
                0 => LiveIndex::new(false),
                base => LiveIndex::load_up_to(object, false, base)?,
            });
        }
        let live = self.open.live.as_mut().ok_or_else(not_open)?;
        Ok(IndexFile { live, object })
    }

    fn forget_index(&mut self) {
        self.open.live = None;
    }

    fn sync_index(&mut self) -> Result<()> {
        if !self.open.sync {
            return Ok(());
        }
        self.open.object.sync()?;
        self.open.layout.sync_folder(folder_of(&self.open.path))
    }
}
