//! Independent writing: every rank writes its process group into one shared file, at a planned place.
//!
//! | question     | answer |
//! |--------------|--------|
//! | who writes   | every rank its own process group; rank 0 the index |
//! | when         | inside `close` |
//! | where        | one file; rank r behind the groups of ranks 0 to r-1, the index behind all |
//! | what moves   | a size (one scan), index fragments to rank 0 (one gather), the outcome (one reduction); no data |
//! | memory       | the process group, within the buffer limit; beyond it blocks go to a spill file beside the output, `<name>.spill.<rank>`, and are copied at close: every such byte is written twice. Blocks marked `copy-on-write="no"` need no memory and no spill |
//! | who calls    | every rank calls `open` and `close`; a rank without blocks writes an empty process group |
//! | on failure   | all ranks return the kind of the lowest failing rank's error; groups of the others are indexed, the step is partial. Where a rank is lost and the communicator can go on without it, the survivors close the step |
//!
//! Opens are serialised, one rank after the other, so that a metadata server sees one at a time.
//!
//! Per rank and output: one open, one write (two where blocks spilled), one receive, one scan, one gather, two
//! reductions, no broadcast.
//!
//! Sources: Lofstead et al., SAND2009-7763, the MPI method; CUG 2009, serialised opens.
//! Differs: places come from a scan inside `close`, not from sizes told at `open`.

use super::{Closed, INDEX, Method, MethodKind, Mode, OpenRequest, Opened, Parameter, Parameters, SYNC, folder_of};
use crate::pack::{Pack, Writer};
use crate::parts::agreement::agree;
use crate::parts::kept::Kept;
use crate::parts::live_index::LiveIndex;
use crate::parts::serial_open::one_after_the_other;
use crate::parts::step_commit::{Commit, IndexWriter, Written, commit};
use crate::plan;
use std::sync::Arc;
use thalweg_bp::characteristic::SINGLE_FILE;
use thalweg_bp::process_group::Header;
use thalweg_bp::wire::{Cursor, Put};
use thalweg_comm::Communicator;
use thalweg_layout::{Layout, OpenWrite, WriteObject, WriterId};
use thalweg_types::{ByteOrder, Error, ErrorKind, Extent, Result};

/// How the registry lists it.
pub const KIND: MethodKind = MethodKind {
    names: &["MPI"],
    id: 0,
    about: "every rank writes its part of one shared file",
    parameters: &[SYNC, INDEX, COPY],
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
        spill_copy: parameters.bytes("spill_copy", 64 * 1024)?.clamp(512, 1 << 30) as usize,
        open: None,
    }))
}

struct Independent {
    sync: bool,
    each: bool,
    spill_copy: usize,
    open: Option<Open>,
}

struct Open {
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
}

impl Open {
    fn spill_path(&self) -> String {
        format!("{}.spill.{}", self.path, self.rank)
    }
}

/// What rank 0 does first: makes the file or finds its live end.
fn begin(request: &OpenRequest<'_>) -> Result<(Box<dyn WriteObject>, LiveIndex, u64)> {
    let writer = WriterId(0);
    if request.mode == Mode::Write {
        request.kept.forget(request.layout, request.path);
        let object = request.layout.open_write(request.path, OpenWrite::Replace, writer)?;
        return Ok((object, LiveIndex::new(false), request.run));
    }
    let kept = request.kept.take(request.layout, request.path);
    let object = request.layout.open_write(request.path, OpenWrite::Any, writer)?;
    if let Some(kept) = kept {
        return Ok((object, kept.index, kept.run));
    }
    let live = if object.length()? == 0 { LiveIndex::new(false) } else { LiveIndex::load(&*object, false)? };
    Ok((object, live, request.run))
}

/// The time index of an output behind `last`.
pub(super) fn next_time(mode: Mode, last: u32) -> u32 {
    match mode {
        Mode::Write => 1,
        Mode::Append => last + 1,
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
                let (object, live, run) = begin(request)?;
                first = Some((live, run));
                return Ok(object);
            }
            request.layout.open_write(request.path, OpenWrite::Existing, WriterId(rank))
        })
        .map_err(|e| e.in_object(request.path));
        let numbers = first
            .as_ref()
            .map_or([0; 3], |(live, run)| [live.end(), u64::from(next_time(request.mode, live.last_time())), *run]);
        let (object, outcome) = match opened {
            Ok(object) => (Some(object), Ok(())),
            Err(e) => (None, Err(e)),
        };
        let agreed =
            agree(request.comm, outcome, "open the output", &numbers).map_err(|e| e.in_object(request.path))?;
        let Some(object) = object else {
            return Err(Error::new(ErrorKind::InvalidArgument, "ranks agreed on an output that is not open"));
        };
        self.open = Some(Open {
            layout: request.layout.clone(),
            kept: request.kept.clone(),
            path: request.path.to_string(),
            object,
            live: first.map(|(live, _)| live),
            base: agreed[0],
            time_index: agreed[1] as u32,
            run: agreed[2],
            rank,
            spill: None,
        });
        Ok(Opened { time_index: agreed[1] as u32, run: agreed[2] })
    }

    fn through(&mut self) -> Result<(&dyn WriteObject, u64)> {
        let open = self.open.as_mut().ok_or_else(not_open)?;
        if open.spill.is_none() {
            let path = open.spill_path();
            open.spill = Some(open.layout.open_write(&path, OpenWrite::Replace, WriterId(open.rank))?);
        }
        open.spill.as_deref().map(|s| (s, 0)).ok_or_else(not_open)
    }

    fn close(
        &mut self,
        comm: &dyn Communicator,
        header: &Header,
        pack: &mut Pack<'_>,
        failed: Option<Error>,
    ) -> Result<Closed> {
        let mut open = self.open.take().ok_or_else(not_open)?;
        let size = if failed.is_some() { 0 } else { pack.length() };
        let mut written = failed.map_or(Ok(None), Err);
        let outcome = match comm.exclusive_scan(size) {
            Ok(before) => {
                if let Ok(place) = &mut written {
                    match self.write(&open, comm.size(), header, pack, before, size) {
                        Ok(w) => *place = Some(w),
                        Err(e) => written = Err(e),
                    }
                }
                let extent = written.as_ref().ok().and_then(|w| w.as_ref()).map(|w| w.extent);
                let mine = written.and_then(|w| w.ok_or_else(not_open));
                self.commit(comm, &mut open, mine, None).map_err(|e| (e, extent))
            }
            Err(lost) => Err((lost, None)),
        };
        let outcome = match outcome {
            Err((e, extent)) if e.kind() == ErrorKind::PeerLost && e.reported_by().is_none() => {
                self.close_without_the_lost(comm, &mut open, header, pack, extent, e)
            }
            other => other.map_err(|(e, _)| e),
        };
        if open.spill.take().is_some() {
            // The output is safe without it; a spill file that stays is overwritten by the next one.
            let _ = open.layout.remove(&open.spill_path());
        }
        match outcome {
            Ok(bytes) => {
                if let Some(live) = open.live.take() {
                    open.kept.keep(&open.layout, &open.path, live, open.run)?;
                }
                Ok(Closed { bytes })
            }
            Err(e) => Err(e.in_group(header.group.clone()).in_object(open.path.clone())),
        }
    }
}

fn not_open() -> Error {
    Error::new(ErrorKind::InvalidArgument, "the output is not open")
}

impl Independent {
    fn write(
        &self,
        open: &Open,
        ranks: u32,
        header: &Header,
        pack: &mut Pack<'_>,
        before: u64,
        size: u64,
    ) -> Result<Written> {
        let place = plan::shared(open.rank, open.base, before, size)?;
        self.write_at(open, ranks, header, pack, place.extent)
    }

    fn write_at(
        &self,
        open: &Open,
        ranks: u32,
        header: &Header,
        pack: &mut Pack<'_>,
        extent: Extent,
    ) -> Result<Written> {
        let writer = Writer { rank: open.rank, ranks, run: open.run, file_index: SINGLE_FILE };
        let fragment = match &open.spill {
            Some(spill) if pack.has_gone_through() => {
                pack.write_spilled(&**spill, &*open.object, extent.offset, header, writer, self.spill_copy)
            }
            _ => pack.write(&*open.object, extent.offset, header, writer),
        }
        .map_err(|e| e.at_rank(open.rank).in_object(open.path.clone()))?;
        if self.sync {
            open.object.sync()?;
        }
        Ok(Written { fragment, extent })
    }

    fn commit(
        &self,
        comm: &dyn Communicator,
        open: &mut Open,
        written: Result<Written>,
        missing: Option<(u32, u32)>,
    ) -> Result<u64> {
        let how = Commit { time_index: open.time_index, run: open.run, each: self.each, shared: true, missing };
        let (object, layout, path) = (&*open.object, &open.layout, &open.path);
        let sync = || object.sync().and_then(|()| layout.sync_folder(folder_of(path)));
        let index = open.live.as_mut().map(|live| IndexWriter {
            live,
            object,
            sync: if self.sync { Some(&sync) } else { None },
        });
        commit(comm, written, index, how)
    }

    /// Closes the step among the ranks that are left. Returns `Err` whatever happens: the step is partial.
    fn close_without_the_lost(
        &self,
        comm: &dyn Communicator,
        open: &mut Open,
        header: &Header,
        pack: &mut Pack<'_>,
        wrote: Option<Extent>,
        lost: Error,
    ) -> Result<u64> {
        let Ok(left) = comm.survivors() else { return Err(lost) };
        let mut message = Vec::new();
        message.put_u64(pack.length());
        message.put_u64(wrote.map_or(u64::MAX, |e| e.offset));
        message.put_u32(open.rank);
        let mut sizes = Vec::new();
        let mut ranks = Vec::new();
        for bytes in left.all_gather(&message)? {
            let mut c = Cursor::new(&bytes, ByteOrder::NATIVE, 0);
            let (size, offset) = (c.u64("size")?, c.u64("place")?);
            sizes.push((size, (offset != u64::MAX).then_some(Extent::new(offset, size))));
            ranks.push(c.u32("rank")?);
        }
        let place = plan::after_loss(open.base, &sizes)?[left.rank() as usize];
        let mine = self.write_at(open, comm.size(), header, pack, place);
        if left.rank() == 0 && open.live.is_none() {
            // Rank 0 is among the lost: its index is read from the file again.
            open.live = Some(match open.base {
                0 => LiveIndex::new(false),
                _ => LiveIndex::load_up_to(&*open.object, false, open.base)?,
            });
        }
        let first = (0..comm.size()).find(|r| !ranks.contains(r)).unwrap_or(comm.size());
        let missing = Some((first, comm.size() - ranks.len() as u32));
        self.commit(&*left, open, mine, missing)?;
        let step = u64::from(open.time_index - 1);
        Err(lost.at_rank(open.rank).at_step(step).safe(format!(
            "step {step} is partial ({} of {} process groups), all steps before it are whole",
            ranks.len(),
            comm.size()
        )))
    }
}
