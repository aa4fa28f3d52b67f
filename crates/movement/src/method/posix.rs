//! A file per rank: every rank appends its process group to its own subfile; rank 0 keeps the merged index.
//!
//! | question     | answer |
//! |--------------|--------|
//! | who writes   | every rank its own subfile; rank 0 also the index |
//! | when         | blocks of at least `direct` bytes inside `write`, the rest inside `close` |
//! | where        | `<name>.dir/<name>.<rank>`; the index in `<name>` |
//! | what moves   | index fragments to rank 0 (one gather), the outcome (two reductions); no data |
//! | memory       | what waits for close, within the buffer limit; beyond it blocks go straight to the subfile |
//! | who calls    | every rank calls `open` and `close`; a rank without blocks writes an empty process group |
//! | on failure   | all ranks return the kind of the lowest failing rank's error; groups of the others are indexed, the step is partial |
//!
//! Per rank and output: one open (rank 0: two), one write per contiguous piece (one where nothing went at once), no
//! receive, one gather, two reductions, no broadcast.
//!
//! Sources: Lofstead et al., SAND2009-7763, the POSIX method; Bent et al., PLFS, SC 2009 (a log per writer).
//! Differs: the index is merged at every output, and no rank waits for another before its data is written.

use super::independent::next_time;
use super::{
    Closed, INDEX, Method, MethodKind, Mode, OpenRequest, Opened, Parameter, Parameters, SYNC, file_name, folder_of,
};
use crate::pack::{Pack, Writer};
use crate::parts::agreement::agree;
use crate::parts::kept::Kept;
use crate::parts::live_index::{AsSource, LiveIndex};
use crate::parts::step_commit::{Commit, IndexWriter, Written, commit};
use crate::plan;
use std::sync::Arc;
use thalweg_bp::footer::{Footer, MINIFOOTER};
use thalweg_bp::process_group::Header;
use thalweg_bp::scan;
use thalweg_bp::source::{self, Source};
use thalweg_bp::trailer::Trailer;
use thalweg_comm::Communicator;
use thalweg_layout::{Layout, OpenWrite, WriteObject, WriterId};
use thalweg_types::{ByteOrder, Error, ErrorKind, Result};

/// How the registry lists it.
pub const KIND: MethodKind = MethodKind {
    names: &["POSIX", "POSIX1"],
    id: 2,
    about: "a file per rank and a merged index",
    parameters: &[SYNC, INDEX, DIRECT, HAVE_METADATA, LOCAL_FS],
    make,
};

const DIRECT: Parameter = Parameter {
    key: "direct",
    about: "bytes from which a block is written at once from the program's memory, without a copy; default 4 MiB",
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
    layout: Arc<dyn Layout>,
    kept: Arc<Kept>,
    path: String,
    own_path: String,
    own: Box<dyn WriteObject>,
    /// Where this output's process group starts.
    start: u64,
    /// On rank 0.
    index: Option<(Box<dyn WriteObject>, LiveIndex)>,
    time_index: u32,
    run: u64,
    rank: u32,
}

/// The folder of subfiles.
pub fn subfile_folder(path: &str) -> String {
    format!("{path}.dir")
}

/// The path of a subfile.
pub fn subfile(path: &str, number: u32) -> String {
    format!("{path}.dir/{}.{number}", file_name(path))
}

/// What rank 0 does with the file that holds the index.
fn begin(request: &OpenRequest<'_>) -> Result<(Box<dyn WriteObject>, LiveIndex, u64)> {
    let writer = WriterId(0);
    if request.mode == Mode::Write {
        request.kept.forget(request.layout, request.path);
        let object = request.layout.open_write(request.path, OpenWrite::Replace, writer)?;
        remove_stale(request)?;
        return Ok((object, LiveIndex::new(true), request.run));
    }
    let kept = request.kept.take(request.layout, request.path);
    let object = request.layout.open_write(request.path, OpenWrite::Any, writer)?;
    if let Some(kept) = kept {
        return Ok((object, kept.index, kept.run));
    }
    let live = if object.length()? == 0 { LiveIndex::new(true) } else { LiveIndex::load(&*object, true)? };
    Ok((object, live, request.run))
}

/// Removes subfiles of an earlier, larger run.
fn remove_stale(request: &OpenRequest<'_>) -> Result<()> {
    let folder = subfile_folder(request.path);
    let prefix = format!("{}.", file_name(request.path));
    for name in request.layout.list(&folder)? {
        let number = name.strip_prefix(&prefix).and_then(|n| n.parse::<u32>().ok());
        if number.is_some_and(|n| n >= request.comm.size()) {
            request.layout.remove(&format!("{folder}/{name}"))?;
        }
    }
    Ok(())
}

/// The end of the last process group of a subfile that belongs to a closed step.
///
/// - `time_index`: of the output that opens. In append mode a group of that step or a later one was left by an output
///   that never closed.
fn closed_end(object: &dyn WriteObject, mode: Mode, time_index: u32) -> Result<u64> {
    let source = AsSource::new(object)?;
    let mut end = source.length();
    let leftover = |time: u32| match mode {
        Mode::Write => true,
        Mode::Append => time >= time_index,
        Mode::Update => time > time_index,
    };
    while end > 0 {
        let Some(trailer) = trailer_before(&source, end) else { break };
        if !leftover(trailer.time_index) {
            return Ok(end);
        }
        end = trailer.group.offset;
    }
    if end == 0 {
        return Ok(0);
    }
    // The subfiles of ADIOS 1.13 end with an index of their own.
    if end >= MINIFOOTER {
        let tail = source::array(&source, end - MINIFOOTER)?;
        if Footer::decode(&tail, end).is_ok() {
            return Ok(end);
        }
    }
    let scan = scan::scan(&source, ByteOrder::NATIVE)?;
    Ok(scan.groups.iter().filter(|g| !leftover(g.header.time_index)).filter_map(|g| g.extent.end()).max().unwrap_or(0))
}

fn trailer_before(source: &AsSource<'_>, end: u64) -> Option<Trailer> {
    let last: [u8; 8] = source::array(source, end.checked_sub(8)?).ok()?;
    let length = Trailer::length_from_end(&last, ByteOrder::NATIVE)?;
    let at = end.checked_sub(length)?;
    let bytes = source::bytes(source, at, length, "trailer").ok()?;
    let trailer = Trailer::decode(&bytes, ByteOrder::NATIVE, at).ok()?;
    (trailer.group.end() == Some(end)).then_some(trailer)
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
                    first = Some(begin(request).map_err(|e| e.in_object(request.path))?);
                }
                request.layout.open_write(&own_path, how, WriterId(rank))
            })
            .map_err(|e| e.at_rank(rank).in_object(own_path.clone()));
        let numbers = first
            .as_ref()
            .map_or([0; 2], |(_, live, run)| [u64::from(next_time(request.mode, live.last_time())), *run]);
        let (own, outcome) = match own {
            Ok(own) => (Some(own), Ok(())),
            Err(e) => (None, Err(e)),
        };
        let agreed =
            agree(request.comm, outcome, "open the output", &numbers).map_err(|e| e.in_object(request.path))?;
        let Some(own) = own else {
            return Err(Error::new(ErrorKind::InvalidArgument, "ranks agreed on an output that is not open"));
        };
        let (time_index, run) = (agreed[0] as u32, agreed[1]);
        self.open = Some(Open {
            layout: request.layout.clone(),
            kept: request.kept.clone(),
            path: request.path.to_string(),
            own_path,
            own,
            start: u64::MAX,
            index: first.map(|(object, live, _)| (object, live)),
            time_index,
            run,
            rank,
        });
        if let Some(open) = &mut self.open {
            let key = format!("{run}:{}", open.own_path);
            open.start = match (request.mode, open.kept.end_of(&key)) {
                (Mode::Write, _) => 0,
                (_, Some(end)) if open.own.length()? == end => end,
                // A failure here is told at close, where all ranks meet again.
                (mode, _) => match closed_end(&*open.own, mode, time_index).and_then(|end| {
                    if open.own.length()? > end {
                        open.own.truncate(end)?;
                    }
                    Ok(end)
                }) {
                    Ok(end) => end,
                    Err(e) => {
                        tracing::error!(error = %e, "the end of a subfile cannot be found");
                        u64::MAX
                    }
                },
            };
        }
        Ok(Opened { time_index, run })
    }

    fn at_once(&self) -> Option<u64> {
        Some(self.direct)
    }

    fn through(&mut self) -> Result<(&dyn WriteObject, u64)> {
        let open = self.open.as_ref().ok_or_else(not_open)?;
        if open.start == u64::MAX {
            return Err(no_end(open));
        }
        Ok((&*open.own, open.start))
    }

    fn close(
        &mut self,
        comm: &dyn Communicator,
        header: &Header,
        pack: &mut Pack<'_>,
        failed: Option<Error>,
    ) -> Result<Closed> {
        let mut open = self.open.take().ok_or_else(not_open)?;
        let written = failed.map_or(Ok(()), Err).and_then(|()| self.write(&open, comm.size(), header, pack));
        let end = written.as_ref().ok().and_then(|w| w.extent.end());
        open.kept.set_end(&format!("{}:{}", open.run, open.own_path), end);
        let how = Commit { time_index: open.time_index, run: open.run, each: self.each, shared: false, missing: None };
        let (layout, path) = (&open.layout, &open.path);
        let outcome = match &mut open.index {
            Some((object, live)) => {
                let object = &**object;
                let sync = || object.sync().and_then(|()| layout.sync_folder(folder_of(path)));
                let sync: Option<&dyn Fn() -> Result<()>> = if self.sync { Some(&sync) } else { None };
                commit(comm, written, Some(IndexWriter { live, object, sync }), how)
            }
            None => commit(comm, written, None, how),
        };
        match outcome {
            Ok(bytes) => {
                if let Some((_, live)) = open.index.take() {
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

fn no_end(open: &Open) -> Error {
    Error::new(ErrorKind::Corrupt, "the end of the subfile cannot be found")
        .at_rank(open.rank)
        .in_object(open.own_path.clone())
}

impl Posix {
    fn write(&self, open: &Open, ranks: u32, header: &Header, pack: &mut Pack<'_>) -> Result<Written> {
        if open.start == u64::MAX {
            return Err(no_end(open));
        }
        let place = plan::own(open.rank, open.start, pack.length());
        let writer = Writer { rank: open.rank, ranks, run: open.run, file_index: open.rank };
        let fragment = pack
            .write(&*open.own, place.extent.offset, header, writer)
            .map_err(|e| e.at_rank(open.rank).in_object(open.own_path.clone()))?;
        if self.sync {
            open.own.sync()?;
            open.layout.sync_folder(folder_of(&open.own_path))?;
        }
        Ok(Written { fragment, extent: place.extent })
    }
}
