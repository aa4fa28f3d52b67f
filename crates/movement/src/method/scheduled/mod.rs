//! Scheduled writing into split files: the ranks of a subfile write to disjoint stripes, a few at a time at each storage target.
//!
//! | question     | answer |
//! |--------------|--------|
//! | who writes   | every rank its process group; rank 0 also the index, concurrently with the data of large outputs: ranks send their index fragments before their turn ([`crate::output_file::commit`]) |
//! | when         | inside `close`, after the rank `writers_per_target` places earlier at the same target has written |
//! | where        | rank r in subfile `<name>.dir/<name>.K`, K = r modulo `num_files`, at a stripe boundary; the index in `<name>` |
//! | what moves   | a token per open and per turn, the largest size (one reduction), index fragments up a tree to rank 0, outcomes (two reductions; a third with the ends of the subfiles when a file is extended), the number of targets (one broadcast, unless `targets` is given); no data |
//! | memory       | the blocks buffered until close, within the buffer limit; beyond it the rank's own spill file |
//! | who calls    | every rank calls `open` and `close`; a rank without blocks writes an empty process group |
//! | on failure   | a rank that fails passes its turn on; all ranks return the kind of the lowest failing rank's error; the other groups are indexed, the step is partial. After the loss of a rank, if the communicator can continue without it, the survivors close the step: [`crate::output_file::commit`] |
//!
//! Opens are serialised within each file, and the files start one after the other, to limit the load of a metadata server.
//! A stripe has the length of the largest process group, rounded up to 64 KiB; the rest of a stripe behind a shorter group is a
//! hole, of which only a record of its length is written ([`thalweg_bp::hole`]). `thalweg stat` counts the holes.
//!
//! A step begins at the end of its subfile, as determined by the file's first rank. On Lustre the subfiles are created with
//! one stripe on a chosen target before their first byte is written, if the store supports this ([`thalweg_layout::Layout`]).
//!
//! Sources: Lofstead et al., CUG 2009 (split files, stripe sizes from the largest group, staggered opens, turns).
//! Differs: turns end by a message, not by a clock; the index is merged at every output.

use crate::method::scheduled::writing_turn::Turn;
use crate::method::{
    CloseRequest, Closed, INDEX, INDEX_AHEAD, INDEX_FAN_IN, Indexing, Method, MethodKind, Mode, OpenRequest, Opened,
    Parameter, Parameters, SPILL_COPY, SYNC, Tried, not_open, spill_copy,
};
use crate::output_file::closing::{Closing, OpenOutput};
use crate::output_file::commit::{Ahead, Commit, IndexKeeper, Participant, Written};
use crate::output_file::handle::Handle;
use crate::output_file::open_index::OpenIndex;
use crate::output_file::serial_open::in_turns;
use crate::output_file::spill::{self, Spill};
use crate::output_file::subfiles::{Early, Metadata, begin, open_own, subfile, take_over};
use crate::output_file::{made, targets};
use crate::pack::Reach;
use crate::plan::stripes::Striped;
use crate::plan::turns;
use std::io::IoSlice;
use thalweg_bp::hole;
use thalweg_comm::agreement::agree;
use thalweg_comm::guarded::caught;
use thalweg_comm::{Communicator, Reduce};
use thalweg_layout::{OpenWrite, WriteObject, WriterId};
use thalweg_types::{Error, Extent, Result};

/// How the registry lists it.
pub const KIND: MethodKind = MethodKind {
    names: &["MPI_SCHEDULED", "MPI_LUSTRE", "MPI_STRIPE"],
    id: 10,
    about: "split files, groups at stripe boundaries, few ranks at a time at each storage target",
    parameters: &[
        SYNC,
        INDEX,
        INDEX_FAN_IN,
        INDEX_AHEAD,
        NUM_FILES,
        TARGETS,
        WRITERS,
        SPILL_COPY,
        ignored("stripe_count"),
        ignored("stripe_size"),
        ignored("stripe_offset"),
        ignored("block_size"),
    ],
    least: spill::LEAST,
    tried: &[Tried::powers_of_two(NUM_FILES, |ranks| ranks.min(256)), Tried::these(WRITERS, &["1", "4", "0"])],
    make,
};

pub mod writing_turn;

/// `num_files`.
pub const NUM_FILES: Parameter = Parameter::count(
    "num_files",
    0,
    "subfiles that the ranks share, at most one per rank: rank r writes to subfile r modulo their number",
)
.at_least(1)
.or_else("one per storage target");
/// `targets`.
pub const TARGETS: Parameter =
    Parameter::count("targets", 0, "number of storage targets; subfiles are assigned to them in turn")
        .at_least(1)
        .or_else("the filesystem's number of storage targets (Lustre), else 4");
/// `writers_per_target`.
pub const WRITERS: Parameter = Parameter::count(
    "writers_per_target",
    2,
    "largest number of ranks that write to one storage target at a time; 0: no limit",
);
const fn ignored(key: &'static str) -> Parameter {
    Parameter::no_effect(key, "as in ADIOS 1.x; stripes are as long as the largest process group")
}

fn make(parameters: &Parameters) -> Result<Box<dyn Method>> {
    Ok(Box::new(Scheduled {
        sync: parameters.get(&SYNC)?,
        indexing: Indexing::of(parameters)?,
        files: parameters.get(&NUM_FILES)?,
        targets: parameters.get(&TARGETS)?,
        writers_per_target: parameters.get(&WRITERS)?,
        spill_copy: spill_copy(parameters)?,
        open: None,
    }))
}

struct Scheduled {
    sync: bool,
    indexing: Indexing,
    files: Option<u32>,
    targets: Option<u32>,
    writers_per_target: u32,
    spill_copy: usize,
    open: Option<ScheduledOutput>,
}

/// State of an output, from open to close.
struct ScheduledOutput {
    /// This rank's subfile.
    file: u32,
    object: Handle,
    /// Whether this open created the subfile.
    made: bool,
    file_path: String,
    metadata: Metadata,
    /// Files and targets; the stripe length is known at close.
    files: Striped,
    /// Per subfile, the offset at which this output begins.
    bases: Vec<u64>,
    spill: Spill,
    /// This rank's stripe, set in close; `None` if the rank writes behind all stripes after the loss of a rank.
    stripe: Option<Extent>,
}

impl ScheduledOutput {
    fn rank(&self) -> u32 {
        self.metadata.index.rank
    }

    /// Whether this rank is the first of its subfile, which determines the subfile's end and caches it.
    fn leads(&self) -> bool {
        self.files.place_in_file(self.rank()) == 0
    }

    /// Collective: the first rank of each subfile determines its end, and all ranks get all ends.
    fn find_bases(&mut self, comm: &dyn Communicator) -> Result<()> {
        self.bases = vec![0; self.files.files as usize];
        if self.metadata.index.mode == Mode::Write {
            return Ok(());
        }
        let mut outcome = Ok(());
        if self.leads() {
            let start = || self.metadata.start_in(self.file, &self.file_path, &self.object, self.made);
            match caught("find the end of a subfile", start) {
                Ok(base) => self.bases[self.file as usize] = base,
                Err(e) => outcome = Err(e.at_rank(self.rank()).in_object(self.file_path.clone())),
            }
        }
        let found = agree(comm, outcome, "find the ends of the subfiles", &self.bases);
        if found.is_err() {
            self.metadata.compare_again();
        }
        self.bases = found?;
        Ok(())
    }

    fn base(&self) -> u64 {
        self.bases.get(self.file as usize).copied().unwrap_or(0)
    }

    /// Writes a hole record for bytes `from..to` of the subfile, for scans.
    fn mark_hole(&self, from: u64, to: u64) -> Result<()> {
        match to.checked_sub(from) {
            Some(length) if length >= hole::LENGTH => {
                let record = hole::encode(Extent::new(from, length));
                self.object.write_at(from, &[IoSlice::new(&record)])
            }
            _ => Ok(()),
        }
    }

    /// Marks the rest of this rank's stripe behind `end` as a hole; the first rank also marks the bytes before its stripe.
    fn mark_holes(&self, stripe: Extent, end: u64) -> Result<()> {
        if self.leads() {
            self.mark_hole(self.base(), stripe.offset)?;
        }
        let is_last = self.files.place_in_file(self.rank()) + 1 == self.files.ranks_of(self.file);
        if is_last { Ok(()) } else { self.mark_hole(end, stripe.offset + stripe.length) }
    }
}

impl Method for Scheduled {
    fn name(&self) -> &'static str {
        "MPI_SCHEDULED"
    }

    fn subfiles(&self) -> Option<bool> {
        Some(true)
    }

    fn open(&mut self, request: &OpenRequest<'_>) -> Result<Opened> {
        let (rank, ranks) = (request.comm.rank(), request.comm.size());
        take_over(request).map_err(|e| e.in_object(request.path))?;
        let targets = match self.targets {
            Some(targets) => targets,
            None => targets::count(request)?,
        };
        let files = Striped::new(ranks, self.files.unwrap_or(targets), targets, 1)?;
        let file = files.file(rank);
        let file_path = subfile(request.path, file);
        let leads = files.place_in_file(rank) == 0;
        let mut first = None;
        let (before, after) = (turns::opens_after(&files, rank), turns::opens_before(&files, rank));
        let object = in_turns(request.comm, before, &after, || {
            if rank == 0 {
                first = Some(begin(request, files.files, self.sync).map_err(|e| e.in_object(request.path))?);
            }
            let open = |how| request.layout.open_write(&file_path, how, WriterId(rank));
            let (object, is_new) = match (leads, request.mode) {
                (true, Mode::Write) => (open(targets::place(request, files.target(file), &file_path))?, false),
                (true, mode) => open_own(&**request.layout, &file_path, mode, rank)?,
                (false, _) => (open(OpenWrite::Existing)?, false),
            };
            if leads && (is_new || request.mode == Mode::Write) {
                made::show(request, &*object)?;
            }
            Ok((object, is_new))
        });
        let (object, outcome) = match object {
            Ok(object) => (Some(object), Ok(())),
            Err(e) => (None, Err(e.at_rank(rank).in_object(file_path.clone()))),
        };
        let early = object.as_ref().filter(|_| leads);
        let early =
            early.map(|(object, made)| Early { number: file, path: &file_path, object: &**object, made: *made });
        let both = (files.files, self.sync);
        let (metadata, opened, _) = Metadata::agree(request, both, outcome, first, &[], early.as_slice())?;
        let (object, made) = object.ok_or_else(not_open)?;
        let mut open = ScheduledOutput {
            file,
            object: Handle::from(object),
            made,
            file_path,
            metadata,
            files,
            bases: Vec::new(),
            spill: Spill::new(request.layout, request.path, rank, self.spill_copy, request.buffer),
            stripe: None,
        };
        open.find_bases(request.comm).map_err(|e| e.in_object(request.path))?;
        self.open = Some(open);
        Ok(opened)
    }

    fn through(&mut self, _: &Reach) -> Result<(&dyn WriteObject, u64)> {
        let open = self.open.as_mut().ok_or_else(not_open)?;
        Ok((open.spill.through()?, 0))
    }

    fn close(&mut self, request: CloseRequest<'_, '_>) -> Result<Closed> {
        let open = self.open.take().ok_or_else(not_open)?;
        let how = Commit {
            // After the loss of a rank, survivors write behind this offset in any subfile.
            base: open.bases.iter().copied().max().unwrap_or(0),
            ..open.metadata.index.commit(self.indexing, false)
        };
        let comm = request.comm;
        let (mut closing, mut part) = Closing::begin(open, request, how);
        let first = match comm.all_reduce(&[part.size()], Reduce::Max) {
            Ok(largest) => {
                let ahead = scheduled(&mut closing, &mut part, largest[0], self.writers_per_target);
                closing.commit(&mut part, ahead)
            }
            Err(lost) => Err(lost),
        };
        let outcome = closing.end(first, &mut part);
        let open = &mut closing.open;
        if open.leads() {
            // Other ranks' handles wrote behind this rank's, and all are closed: relies on `Layout::stat`, whose length includes the
            // bytes of closed handles. If the length differs at the next open, that output searches for the end.
            let stat = || caught("find the end of a subfile", || open.metadata.index.layout.stat(&open.file_path));
            let end = if outcome.is_ok() { stat().ok().map(|about| about.length) } else { None };
            open.metadata.keep_end(&open.file_path, end);
        }
        open.metadata.closed(part.is_indexed());
        outcome
    }
}

/// Writes this rank's process group to its stripe in its turn. The index fragment is sent before, as the offset is known.
fn scheduled<'c>(
    closing: &mut Closing<'c, '_, ScheduledOutput>,
    part: &mut Participant,
    largest: u64,
    writers_per_target: u32,
) -> Option<Ahead<'c>> {
    let (comm, how) = (closing.request.comm, closing.how);
    let (rank, base, number) = (closing.open.rank(), closing.open.base(), closing.open.file);
    let known = closing.open.files;
    let striped = match Striped::new(known.ranks, known.files, known.targets, largest) {
        Ok(striped) => striped,
        // All ranks compute the same error.
        Err(e) => {
            part.fail(e);
            return None;
        }
    };
    closing.open.stripe = striped.stripe_of(rank, base);
    let place = striped.place(rank, base, part.size(), 0);
    let unwritten = closing.unwritten(true);
    let ahead = place.as_ref().ok().and_then(|place| closing.ahead(part, place.extent, number, unwritten));
    let turn = Turn::wait(comm, &striped, writers_per_target, how.run, how.time_index);
    match place {
        Ok(place) => part.write(place.extent, closing),
        Err(e) => part.fail(e),
    }
    if let (None, Some(stripe)) = (part.extent(), closing.open.stripe.take()) {
        // Best effort: without the record, a scan searches the stripe.
        let _ = caught("mark a hole", || closing.open.mark_holes(stripe, stripe.offset));
    }
    drop(turn);
    ahead
}

impl OpenOutput for ScheduledOutput {
    fn index(&self) -> &OpenIndex {
        &self.metadata.index
    }

    fn write(&mut self, request: &mut CloseRequest<'_, '_>, extent: Extent) -> Result<Written> {
        let writer = request.writer(self.index(), self.file);
        let mut write = || {
            let (spill, step) = (self.spill.object(), self.spill.step());
            let fragment = request.pack.write_spilled(spill, &self.object, extent, request.header, writer, step)?;
            self.spill.end()?;
            if let Some(stripe) = self.stripe {
                self.mark_holes(stripe, extent.offset + extent.length)?;
            }
            Ok(fragment)
        };
        let fragment = write().map_err(|e: Error| e.at_rank(self.rank()).in_object(self.file_path.clone()))?;
        self.metadata.end_subfile(&self.file_path, &self.object)?;
        Ok(Written { fragment, extent })
    }

    fn abandon(&mut self) {
        // The output has failed with an earlier error.
        let _ = caught("close a subfile", || self.object.end(false));
    }

    fn keeper(&mut self) -> &mut dyn IndexKeeper {
        &mut self.metadata
    }
}
