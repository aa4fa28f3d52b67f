//! A file per rank: every rank appends its process group to its own subfile; rank 0 also writes the merged index.
//!
//! | question     | answer |
//! |--------------|--------|
//! | who writes   | every rank its own subfile; rank 0 also the index, while ranks with much data still write ([`crate::output_file::commit`]) |
//! | when         | blocks of at least `direct` bytes inside `write`, the rest inside `close`; a rank creates its subfile after rank 0 has opened the index, and waits for no other subfile |
//! | where        | `<name>.dir/<name>.<rank>`; the index in `<name>` |
//! | what moves   | index fragments up a tree to rank 0, and results (three reductions, one of them before the method is called); no data |
//! | memory       | data buffered until close, within the buffer limit; blocks beyond it are written directly to the subfile |
//! | who calls    | every rank calls `open` and `close`; a rank without blocks writes an empty process group |
//! | on failure   | if rank 0 cannot open the index, `open` fails on all ranks; a failure to open a subfile is returned by the first write to it and at close, like a failed write: all ranks return the kind of the lowest failing rank's error; groups of the others are indexed, the step is partial. If a rank is lost and the communicator can continue without it, the survivors close the step: [`crate::output_file::commit`] |
//!
//! Per rank and output: one open (rank 0: two), one read of the subfile's last bytes if the file is extended (rank 0: also one of
//! the index), one write per contiguous piece (one if no block was written through), receives only of index fragments (at most
//! `index_fan_in`), one send of them, three reductions, no broadcast (one if a file keeps other statistics than requested).
//! A rank with at least `index_ahead` bytes to write sends its fragment before its data, and a short message after it; rank 0
//! then writes the index in two writes.
//!
//! Sources: Lofstead et al., SAND2009-7763, the POSIX method; Bent et al., PLFS, SC 2009 (a log per writer).
//! Differs: the index is merged at every output, and no rank waits for another before its data is written.

use super::{
    CloseRequest, Closed, DIRECT, HAVE_METADATA, INDEX, INDEX_AHEAD, INDEX_FAN_IN, Indexing, Method, MethodKind, Mode,
    OpenRequest, Opened, Parameter, Parameters, SYNC, Tried, have_metadata_file, not_open,
};
use crate::output_file::closing::Closing;
use crate::output_file::subfile_output::{SubfileOutput, When};
use crate::pack::Reach;
use crate::plan;
use thalweg_layout::WriteObject;
use thalweg_types::{Extent, Result};

/// Entry of the registry.
pub const KIND: MethodKind = MethodKind {
    names: &["POSIX", "POSIX1"],
    id: 2,
    about: "a file per rank and a merged index",
    parameters: &[SYNC, INDEX, INDEX_FAN_IN, INDEX_AHEAD, DIRECT, HAVE_METADATA, LOCAL_FS],
    least: 0,
    tried: &[Tried::these(DIRECT, &["64KiB", "1MiB", "64MiB"])],
    make,
};

const LOCAL_FS: Parameter = Parameter::no_effect("local-fs", "as in ADIOS 1.x");

fn make(parameters: &Parameters) -> Result<Box<dyn Method>> {
    have_metadata_file(parameters)?;
    Ok(Box::new(Posix {
        sync: parameters.get(&SYNC)?,
        indexing: Indexing::of(parameters)?,
        direct: parameters.get(&DIRECT)?,
        open: None,
    }))
}

struct Posix {
    sync: bool,
    indexing: Indexing,
    direct: u64,
    open: Option<SubfileOutput>,
}

impl Method for Posix {
    fn name(&self) -> &'static str {
        "POSIX"
    }

    fn subfiles(&self) -> Option<bool> {
        Some(true)
    }

    fn open(&mut self, request: &OpenRequest<'_>) -> Result<Opened> {
        let (rank, ranks) = (request.comm.rank(), request.comm.size());
        // Steps are dropped only if every rank can continue.
        let when = if matches!(request.mode, Mode::AppendAfter(_)) { When::Together } else { When::Apart };
        let (open, opened) = SubfileOutput::open(request, ranks, Some(rank), when, self.sync)?;
        self.open = Some(open);
        Ok(opened)
    }

    fn at_once(&self, _: &Reach) -> Option<u64> {
        Some(self.direct)
    }

    fn through(&mut self, _: &Reach) -> Result<(&dyn WriteObject, u64)> {
        let (own, start) = self.open.as_ref().ok_or_else(not_open)?.start()?;
        Ok((&own.object, start))
    }

    fn close(&mut self, request: CloseRequest<'_, '_>) -> Result<Closed> {
        let open = self.open.take().ok_or_else(not_open)?;
        let how = open.metadata.index.commit(self.indexing, false);
        let (mut closing, mut part) = Closing::begin(open, request, how);
        let mut ahead = None;
        match closing.open.start().map(|(own, start)| (own.number, start)) {
            Ok((number, start)) => {
                let extent = plan::own(closing.open.rank(), start, part.size()).extent;
                let unwritten = closing.unwritten(false);
                ahead = closing.ahead(&part, extent, number, unwritten);
                part.write(extent, &mut closing);
            }
            Err(e) => part.fail(e),
        }
        let end = part.extent().and_then(Extent::end);
        let first = closing.commit(&mut part, ahead);
        let outcome = closing.end(first, &mut part);
        closing.open.closed(&part, end.filter(|_| outcome.is_ok()));
        outcome
    }
}
