//! A file per rank: every rank appends its process group to its own subfile; rank 0 keeps the merged index.
//!
//! | question     | answer |
//! |--------------|--------|
//! | who writes   | every rank its own subfile; rank 0 also the index |
//! | when         | blocks of at least `direct` bytes inside `write`, the rest inside `close` |
//! | where        | `<name>.dir/<name>.<rank>`; the index in `<name>` |
//! | what moves   | index fragments to rank 0 (one gather), outcomes (three reductions, one of them before the method is asked); no data |
//! | memory       | what waits for close, within the buffer limit; beyond it blocks go straight to the subfile |
//! | who calls    | every rank calls `open` and `close`; a rank without blocks writes an empty process group |
//! | on failure   | all ranks return the kind of the lowest failing rank's error; groups of the others are indexed, the step is partial. Where a rank is lost and the communicator can go on without it, the survivors close the step: [`crate::parts::step_commit`] |
//!
//! Per rank and output: one open (rank 0: two), one write per contiguous piece (one where nothing went at once), no
//! receive, one gather, three reductions, no broadcast (one where a file keeps other statistics than asked for).
//!
//! Sources: Lofstead et al., SAND2009-7763, the POSIX method; Bent et al., PLFS, SC 2009 (a log per writer).
//! Differs: the index is merged at every output, and no rank waits for another before its data is written.

use super::independent::{DROPS, LEVELS, flags, next_time};
use super::{
    Closed, DIRECT, INDEX, Method, MethodKind, Mode, OpenRequest, Opened, Parameter, Parameters, SYNC, folder_of,
};
use crate::pack::{Pack, Reach, Writer};
use crate::parts::agreement::agree;
use crate::parts::kept::{File, InUse, Kept};
use crate::parts::levels;
use crate::parts::live_index::LiveIndex;
use crate::parts::step_commit::{self, Commit, Files, IndexFile, Part, Written};
use crate::parts::subfiles::{begin, closed_end, cut_leftovers, subfile, subfile_folder};
use crate::plan;
use std::sync::Arc;
use thalweg_bp::process_group::Header;
use thalweg_comm::Communicator;
use thalweg_layout::{Layout, OpenWrite, WriteObject, WriterId};
use thalweg_types::{Error, ErrorKind, Extent, Result};

/// How the registry lists it.
pub const KIND: MethodKind = MethodKind {
    names: &["POSIX", "POSIX1"],
    id: 2,
    about: "a file per rank and a merged index",
    parameters: &[SYNC, INDEX, DIRECT, HAVE_METADATA, LOCAL_FS],
    make,
};

const HAVE_METADATA: Parameter = Parameter {
    key: "have_metadata_file",
    about: "as in ADIOS 1.x; the merged index is always written, so only 1 is accepted",
};
const LOCAL_FS: Parameter = Parameter { key: "local-fs", about: "as in ADIOS 1.x; accepted, changes nothing" };

fn make(parameters: &Parameters) -> Result<Box<dyn Method>> {
    if !parameters.flag("have_metadata_file", true)? {
        return Err(Error::new(ErrorKind::Unsupported, "have_metadata_file=0: the merged index is always written"));
    }
    Ok(Box::new(Posix {
        sync: parameters.flag("sync", false)?,
        each: parameters.index_each()?,
        direct: parameters.bytes("direct", 4 << 20)?,
        open: None,
    }))
}

struct Posix {
    sync: bool,
    each: bool,
    direct: u64,
    open: Option<Open>,
}

struct Open {
    sync: bool,
    layout: Arc<dyn Layout>,
    kept: Arc<Kept>,
    path: String,
    own_path: String,
    own: Box<dyn WriteObject>,
    /// Where this output's process group starts, or why that cannot be told.
    start: Result<u64>,
    /// On rank 0: the file that holds the index.
    index_object: Option<Box<dyn WriteObject>>,
    /// On rank 0.
    live: Option<LiveIndex>,
    /// End of the index when the output was opened.
    base: u64,
    time_index: u32,
    run: u64,
    rank: u32,
    /// On rank 0.
    in_use: Option<InUse>,
}

impl Open {
    /// Keeps the index for the next output; `None` where the file has to say it again.
    fn keep(&self, live: Option<LiveIndex>) {
        let file = File { layout: &self.layout, path: &self.path, subfiles: true, sync: self.sync };
        self.kept.keep(file, live, self.run);
    }

    fn end_key(&self) -> String {
        format!("{}:{}", self.run, self.own_path)
    }

    /// Where the process group of this output starts; what an output that never closed left there is cut off.
    fn find_start(&self, mode: Mode) -> Result<u64> {
        if mode == Mode::Write {
            return Ok(0);
        }
        let length = self.own.length()?;
        if !matches!(mode, Mode::AppendAfter(_)) && self.kept.end_of(&self.end_key()) == Some(length) {
            return Ok(length);
        }
        let end = closed_end(&*self.own, mode, self.time_index)?;
        if length > end {
            self.own.truncate(end)?;
        }
        Ok(end)
    }

    /// As the owned result, which a failure is told with twice: to the one who writes, and at close to all.
    fn start(&self) -> Result<u64> {
        match &self.start {
            Ok(start) => Ok(*start),
            Err(e) => Err(Error::new(e.kind(), format!("the end of the subfile cannot be found: {e}"))
                .at_rank(self.rank)
                .in_object(self.own_path.clone())),
        }
    }
}

impl Method for Posix {
    fn name(&self) -> &'static str {
        "POSIX"
    }

    fn open(&mut self, request: &OpenRequest<'_>) -> Result<Opened> {
        let rank = request.comm.rank();
        let own_path = subfile(request.path, rank);
        let how = if request.mode == Mode::Write { OpenWrite::Replace } else { OpenWrite::Any };
        let mut first = None;
        let own = request
            .layout
            .make_folder(&subfile_folder(request.path))
            .and_then(|()| {
                if rank == 0 {
                    first =
                        Some(begin(request, request.comm.size(), self.sync).map_err(|e| e.in_object(request.path))?);
                }
                request.layout.open_write(&own_path, how, WriterId(rank))
            })
            .map_err(|e| e.at_rank(rank).in_object(own_path.clone()));
        let numbers = first.as_ref().map_or([0; 4], |f| {
            let time_index = u64::from(next_time(request.mode, f.live.last_time()));
            [f.live.end(), time_index, f.run, flags(&f.live, &f.levels)]
        });
        let (own, outcome) = match own {
            Ok(own) => (Some(own), Ok(())),
            Err(e) => (None, Err(e)),
        };
        let agreed = agree(request.comm, outcome, "open the output", &numbers).map_err(|e| e.in_object(request.path));
        let (Ok(agreed), Some(own)) = (&agreed, own) else {
            if let Some(first) = first {
                // Another rank failed: the file is as it was.
                let file = File { layout: request.layout, path: request.path, subfiles: true, sync: self.sync };
                request.kept.keep(file, Some(first.live).filter(|live| !live.is_dropping()), first.run);
            }
            return Err(agreed.err().unwrap_or_else(not_open));
        };
        let (index_object, mut live, levels, in_use) = match first {
            Some(f) => (Some(f.object), Some(f.live), f.levels, Some(f.in_use)),
            None => (None, None, Vec::new(), None),
        };
        let (time_index, run) = (agreed[1] as u32, agreed[2]);
        let mut base = agreed[0];
        if agreed[3] & DROPS > 0 {
            // Subfiles are cut only when no index lists those steps any more.
            let shortened = match (&index_object, &mut live) {
                (Some(object), Some(live)) => live
                    .shorten(&**object, self.sync)
                    .and_then(|()| cut_leftovers(request, request.comm.size(), time_index, self.sync)),
                _ => Ok(()),
            };
            let end = live.as_ref().map_or(0, LiveIndex::end);
            base =
                agree(request.comm, shortened, "drop later steps", &[end]).map_err(|e| e.in_object(request.path))?[0];
        }
        let mut open = Open {
            sync: self.sync,
            layout: request.layout.clone(),
            kept: request.kept.clone(),
            path: request.path.to_string(),
            own_path,
            own,
            start: Ok(0),
            index_object,
            live,
            base,
            time_index,
            run,
            rank,
            in_use,
        };
        // A failure here is told by the first write, and to all at close, where ranks meet again.
        open.start = open.find_start(request.mode);
        self.open = Some(open);
        let levels = levels::tell(request.comm, agreed[3] & LEVELS > 0, levels)?;
        Ok(Opened { time_index, run, levels })
    }

    fn at_once(&self, _: &Reach) -> Option<u64> {
        Some(self.direct)
    }

    fn through(&mut self, _: &Reach) -> Result<(&dyn WriteObject, u64)> {
        let open = self.open.as_ref().ok_or_else(not_open)?;
        Ok((&*open.own, open.start()?))
    }

    fn close(
        &mut self,
        comm: &dyn Communicator,
        header: &Header,
        pack: &mut Pack<'_>,
        failed: Option<Error>,
    ) -> Result<Closed> {
        let mut open = self.open.take().ok_or_else(not_open)?;
        let mut part = Part::new(open.rank, comm.size(), pack.length(), failed);
        let how = Commit {
            time_index: open.time_index,
            run: open.run,
            base: open.base,
            each: self.each,
            shared: false,
            slots: false,
        };
        let mut files = Closing { open: &mut open, ranks: comm.size(), header, pack };
        match files.open.start() {
            Ok(start) => part.write(plan::own(files.open.rank, start, part.size()).extent, &mut files),
            Err(e) => part.fail(e),
        }
        let end = part.extent().and_then(Extent::end);
        let first = part.commit(comm, &mut files, how);
        let outcome = step_commit::finish(comm, first, &mut part, &mut files, how);
        // After a failure the next output looks where its subfile ends: the step may be in the index or not.
        open.kept.set_end(&open.end_key(), if outcome.is_ok() { end } else { None });
        match open.live.take() {
            Some(live) if part.is_indexed() => open.keep(Some(live)),
            _ if open.in_use.is_some() => open.keep(None),
            _ => {}
        }
        outcome.map(|bytes| Closed { bytes }).map_err(|e| e.in_group(header.group.clone()).in_object(open.path.clone()))
    }
}

impl Drop for Posix {
    fn drop(&mut self) {
        if let Some(mut open) = self.open.take() {
            // Blocks that went at once lie behind the end of the subfile.
            open.kept.set_end(&open.end_key(), None);
            if let Some(live) = open.live.take() {
                open.keep(Some(live));
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
    header: &'c Header,
    pack: &'c mut Pack<'a>,
}

impl Files for Closing<'_, '_> {
    fn write(&mut self, extent: Extent) -> Result<Written> {
        let open = &*self.open;
        let writer = Writer { rank: open.rank, ranks: self.ranks, run: open.run, file_index: open.rank };
        let fragment = self
            .pack
            .write(&*open.own, extent, self.header, writer)
            .map_err(|e| e.at_rank(open.rank).in_object(open.own_path.clone()))?;
        if open.sync {
            open.own.sync()?;
            open.layout.sync_folder(folder_of(&open.own_path))?;
        }
        Ok(Written { fragment, extent })
    }

    fn index(&mut self) -> Result<IndexFile<'_>> {
        let open = &mut *self.open;
        let object = match open.index_object.take() {
            Some(object) => object,
            None => open.layout.open_write(&open.path, OpenWrite::Any, WriterId(open.rank))?,
        };
        let object = &**open.index_object.insert(object);
        if open.live.is_none() {
            open.kept.hold(&open.layout, &open.path, object);
            open.live = Some(match open.base {
                0 => LiveIndex::new(true),
                base => LiveIndex::load_up_to(object, true, base)?,
            });
        }
        let live = open.live.as_mut().ok_or_else(not_open)?;
        Ok(IndexFile { live, object })
    }

    fn forget_index(&mut self) {
        self.open.live = None;
    }

    fn sync_index(&mut self) -> Result<()> {
        match &self.open.index_object {
            Some(object) if self.open.sync => {
                object.sync()?;
                self.open.layout.sync_folder(folder_of(&self.open.path))
            }
            _ => Ok(()),
        }
    }
}
