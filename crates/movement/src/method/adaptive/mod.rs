//! Adaptive writing: one subfile per storage target; ranks write to fast targets, and a stuck write is repeated on another
//! target.
//!
//! | question     | answer |
//! |--------------|--------|
//! | who writes   | every rank its own process group; rank 0, the coordinator, decides on the target and time of each write; it writes the index after all groups, because their offsets are only then known |
//! | when         | inside `close`, on the coordinator's order: at most `writers_per_target` ranks at a time at each target |
//! | where        | subfile `<name>.dir/<name>.K` of storage target K: initially K = rank modulo `num_files`; an idle target takes groups that wait for a slower one; the index in `<name>` records the location of each group |
//! | what moves   | last process groups of the subfiles to all ranks (with the agreement on the open); sizes to rank 0 (one gather); an order and a report per write, and a final order per rank; index fragments up a tree, outcomes (reductions); no data |
//! | memory       | the blocks buffered until close; blocks beyond the buffer limit are written to the rank's own spill file; `chunk` bytes while a rank writes, less if the limit is low. An abandoned write keeps its memory until it ends, and the next write uses the memory that the limit then leaves |
//! | who calls    | every rank calls `open` and `close`; a rank without blocks writes an empty process group |
//! | on failure   | a target that fails receives no further groups in this output, other targets take its groups. If all targets fail, or a rank does, all ranks return the kind of the lowest failing rank's error, the other groups are indexed, the step is partial. After the loss of a rank, if the communicator can continue without it, ranks without a written group write subfiles of their own (`<name>.<num_files + rank>`), and the survivors close the step: [`crate::output_file::commit`] |
//!
//! Decisions: [`crate::plan::adaptive::next`], a pure function. Messages: [`crate::method::adaptive::coordinator`].
//!
//! A write runs in its own thread ([`crate::method::adaptive::in_flight`]), so that a rank can abandon a stuck write: its group is
//! then written to another target, and neither the rank nor `close` waits for the first copy, which may end at any time
//! without harm. Each copy begins as a hole ([`thalweg_bp::hole`]). Its first 32 bytes, written last and for one copy only,
//! turn it into a process group. The extent of an abandoned copy is not reused. Operations that could truncate or replace the
//! file wait for abandoned writes: `finalize`, an open that replaces the file or drops steps, and an open that finds the file
//! changed by another process. `thalweg stat` counts abandoned copies as dead bytes.
//!
//! A process that has extended a file knows the end and run of the last process group of each subfile, and compares them at each
//! open ([`crate::output_file::subfiles::check_known`]); an abandoned write that ends later lies behind them. Where a file belongs to
//! one node until a burst buffer has drained it, outputs of ranks on several nodes are refused.
//!
//! The measured speed of targets is kept between outputs, also for other files of the same folder.
//!
//! Sources: Lofstead et al., SAND2009-7763 (writers that finish early take work from slow storage targets); CUG 2009.
//! Differs: a stuck write is repeated while in flight, and the index needs no second pass over the files.

use crate::buffer::{self, BufferPool, LEAST_PIECE, Reservation};
use crate::method::adaptive::coordinator::{Asks, Coordinator, Decides, Order, Report};
use crate::method::adaptive::in_flight::{Task, WriteInFlight};
use crate::method::adaptive::rates::TargetRates;
use crate::method::{
    CloseRequest, Closed, INDEX, INDEX_FAN_IN, Indexing, Method, MethodKind, Mode, OpenRequest, Opened, Parameter,
    Parameters, SPILL_COPY, SYNC, Tried, folder_of, not_open, spill_copy,
};
use crate::output_file::cache::name_of;
use crate::output_file::closing::{Closing, OpenOutput};
use crate::output_file::commit::{IndexKeeper, Participant, Written};
use crate::output_file::handle::Handle;
use crate::output_file::open_index::OpenIndex;
use crate::output_file::spill::{self, Spill};
use crate::output_file::subfiles::{Early, LastGroup, Metadata, begin, check_known, open_own, subfile, subfile_folder};
use crate::output_file::{made, targets};
use crate::pack::{Reach, WORTH_RESERVING};
use crate::plan::adaptive::{Late, Params, State};
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;
use thalweg_bp::hole;
use thalweg_bp::wire::{Cursor, Put};
use thalweg_comm::agreement::agree;
use thalweg_comm::guarded::caught;
use thalweg_comm::{Communicator, Reduce};
use thalweg_layout::{OpenWrite, OtherNodes, WriteObject, WriterId};
use thalweg_params::Unit;
use thalweg_types::{ByteOrder, Error, ErrorKind, Extent, Result};

/// The method's entry in the registry.
pub const KIND: MethodKind = MethodKind {
    names: &["ADAPTIVE"],
    id: 13,
    about: "one subfile per storage target; data is moved to fast targets, also while it is written",
    parameters: &[SYNC, INDEX, INDEX_FAN_IN, NUM_FILES, WRITERS, STUCK, PATIENCE, CHUNK, SPILL_COPY],
    least: 2 * LEAST_PIECE + spill::LEAST,
    tried: &[Tried::powers_of_two(NUM_FILES, |ranks| ranks.min(256))],
    make,
};

pub mod coordinator;
pub mod in_flight;
pub mod rates;

/// `num_files`.
pub const NUM_FILES: Parameter = Parameter::count("num_files", 0, "subfiles, one per storage target")
    .at_least(1)
    .or_else("the filesystem's number of storage targets (Lustre), else 4; at most one per rank, but at least 2");
/// `writers_per_target`.
pub const WRITERS: Parameter =
    Parameter::count("writers_per_target", 1, "largest number of ranks that write to one storage target at a time")
        .at_least(1);
/// `stuck`.
pub const STUCK: Parameter = Parameter::real(
    "stuck",
    3.0,
    "a write that takes this many times as long as usual, and longer than patience, is repeated on another storage target",
)
.between(1.0, 1e9);
/// `patience`.
pub const PATIENCE: Parameter = Parameter::time(
    "patience",
    Duration::from_millis(100),
    Unit::Milliseconds,
    "shortest time after which a write counts as stuck",
);
/// `chunk`.
pub const CHUNK: Parameter = Parameter::size(
    "chunk",
    8 << 20,
    "largest memory of a rank for writing its process group: half for the piece being written, half for the next one",
);

/// Smallest piece; a hole record fits in it.
const LEAST: u64 = 4096;
/// Most writes of one group per output, including repeats of stuck ones.
const COPIES: u32 = 3;
/// Longest sleep of a rank between polls of its write and of orders.
const NAP: Duration = Duration::from_micros(200);
/// As a size: the rank has no process group.
const NONE: u64 = u64::MAX;

/// The planner's parameters. Offsets are not aligned (`align` is 1).
///
/// # Errors
/// `Config`, as [`Parameters::get`].
pub fn eagerness(parameters: &Parameters) -> Result<Params> {
    Ok(Params {
        writers_per_target: parameters.get(&WRITERS)?,
        stuck: parameters.get(&STUCK)?,
        patience: parameters.get::<Duration>(&PATIENCE)?.as_secs_f64(),
        copies: COPIES,
        align: 1,
    })
}

fn make(parameters: &Parameters) -> Result<Box<dyn Method>> {
    Ok(Box::new(Adaptive {
        sync: parameters.get(&SYNC)?,
        indexing: Indexing::of(parameters)?,
        files: parameters.get(&NUM_FILES)?,
        params: eagerness(parameters)?,
        piece: (parameters.get::<u64>(&CHUNK)? / 2).clamp(LEAST, 1 << 30),
        spill_copy: spill_copy(parameters)?,
        open: None,
    }))
}

struct Adaptive {
    sync: bool,
    indexing: Indexing,
    files: Option<u32>,
    params: Params,
    piece: u64,
    spill_copy: usize,
    open: Option<AdaptiveOutput>,
}

/// State of an output, from open to close.
struct AdaptiveOutput {
    metadata: Metadata,
    files: u32,
    /// On rank 0: the offset at which this output begins in each subfile.
    bases: Vec<u64>,
    /// The last process group of each subfile before this output.
    lasts: Vec<LastGroup>,
    /// Subfiles that this rank has opened.
    objects: HashMap<u32, Arc<Handle>>,
    spill: Spill,
    /// Reservation for the two pieces of this rank's write.
    reservation: Option<Reservation>,
    buffer: Arc<BufferPool>,
    /// Cache keys of the file and of its targets.
    file_key: String,
    targets_key: String,
}

/// Subfiles that a rank has created or opened on behalf of all ranks.
#[derive(Default)]
struct Made {
    objects: HashMap<u32, Arc<Handle>>,
    /// The created subfiles.
    new: HashSet<u32>,
}

impl AdaptiveOutput {
    fn object(&mut self, file: u32) -> Result<Arc<Handle>> {
        if let Some(object) = self.objects.get(&file) {
            return Ok(object.clone());
        }
        let index = &self.metadata.index;
        let path = subfile(&index.path, file);
        let object = index.layout.open_write(&path, OpenWrite::Existing, WriterId(index.rank));
        let object = Arc::new(Handle::from(object.map_err(|e| e.at_rank(index.rank).in_object(path))?));
        self.objects.insert(file, object.clone());
        Ok(object)
    }

    /// After all ranks have written: caches the subfiles' lengths for the next output. One store request per subfile.
    fn note_lengths(&self, comm: &dyn Communicator) {
        let index = &self.metadata.index;
        for file in (comm.rank()..self.files).step_by(comm.size() as usize) {
            let path = subfile(&index.path, file);
            // Relies on `Layout::stat`, whose length includes the bytes of closed handles. If `stat` fails, the cached length remains:
            // the truncation of a subfile is then detected later, but all offsets stay correct.
            if let Ok(about) = caught("find the length of a subfile", || index.layout.stat(&path)) {
                index.cache.set_least(&path, about.length);
            }
        }
    }

    /// Closes the subfiles; also the spill file if this rank's group is written (`rests`).
    fn end(&mut self, rests: bool) -> Result<()> {
        let index = &self.metadata.index;
        let ended = self.objects.drain().map(|(file, object)| {
            let ended = caught("close a subfile", || object.end(false));
            ended.map_err(|e| e.at_rank(index.rank).in_object(subfile(&index.path, file)))
        });
        let ended = ended.fold(Ok(()), Result::and);
        if rests { ended.and(caught("close the spill file", || self.spill.end())) } else { ended }
    }

    /// Records an abandoned write until it ends; its handle then closes the subfile.
    fn leave(&mut self, late: in_flight::Late) {
        self.objects.remove(&late.target);
        self.metadata.index.cache.of::<TargetRates>().lock().leave(&self.file_key, &self.targets_key, late);
    }
}

impl Adaptive {
    /// Creates or opens this rank's share of the subfiles.
    fn make_files(&self, request: &OpenRequest<'_>, files: u32) -> Result<Made> {
        let (rank, ranks) = (request.comm.rank(), request.comm.size());
        let mut made = Made::default();
        for file in (rank..files).step_by(ranks as usize) {
            if made.objects.is_empty() {
                request.layout.make_folder(&subfile_folder(request.path))?;
            }
            let path = subfile(request.path, file);
            let opened = match request.mode {
                Mode::Write => {
                    let how = targets::place(request, file, &path);
                    request.layout.open_write(&path, how, WriterId(rank)).map(|object| (object, false))
                }
                mode => open_own(&**request.layout, &path, mode, rank),
            };
            let shown = opened.and_then(|(object, is_new)| {
                if is_new || request.mode == Mode::Write {
                    made::show(request, &*object)?;
                }
                Ok((object, is_new))
            });
            let (object, is_new) = shown.map_err(|e| e.at_rank(rank).in_object(&*path))?;
            if request.mode == Mode::Write {
                request.cache.set_least(&path, 0);
            }
            made.objects.insert(file, Arc::new(Handle::from(object)));
            if is_new {
                made.new.insert(file);
            }
        }
        Ok(made)
    }

    /// Collective: checks the subfiles that this process has extended before.
    ///
    /// - `new`: the subfiles that this rank has created.
    fn check_files(request: &OpenRequest<'_>, open: &AdaptiveOutput, new: &HashSet<u32>) -> Result<()> {
        let rank = request.comm.rank();
        let outcome = (rank..open.files).step_by(request.comm.size() as usize).try_for_each(|file| {
            let Some(object) = open.objects.get(&file) else { return Ok(()) };
            let path = subfile(request.path, file);
            let last = open.lasts.get(file as usize).copied().unwrap_or_default();
            let check = || check_known(request, file, &path, &**object, new.contains(&file), last);
            caught("check a subfile", check).map_err(|e| e.at_rank(rank).in_object(path))
        });
        let agreed = agree(request.comm, outcome, "extend the subfiles", &[]).map(drop);
        Self::remove_new(request, new, agreed)
    }

    /// After a failure: removes the subfiles that this rank has created.
    fn remove_new(request: &OpenRequest<'_>, new: &HashSet<u32>, outcome: Result<()>) -> Result<()> {
        if outcome.is_err() {
            for file in new {
                // Best effort: an empty subfile is treated as a missing one.
                let _ = caught("remove a subfile", || request.layout.remove(&subfile(request.path, *file)));
            }
        }
        outcome
    }

    /// Collective: the offset at which this output begins in each subfile, and the last process group there, read from the files.
    fn find_bases(
        request: &OpenRequest<'_>,
        open: &AdaptiveOutput,
        new: &HashSet<u32>,
    ) -> Result<(Vec<u64>, Vec<LastGroup>)> {
        let files = open.files as usize;
        // Per subfile, the offset, then the run of the last group.
        let mut bases = vec![0; 2 * files];
        let mut outcome = Ok(());
        for file in (open.metadata.index.rank..open.files).step_by(request.comm.size() as usize) {
            let path = subfile(request.path, file);
            let Some(object) = open.objects.get(&file) else { continue };
            let is_new = new.contains(&file);
            let find = || {
                let base = open.metadata.start_in(file, &path, &**object, is_new)?;
                Ok((base, LastGroup::before(&**object, base)?))
            };
            match caught("find the end of a subfile", find) {
                Ok((base, last)) => {
                    request.cache.set_least(&path, base);
                    (bases[file as usize], bases[files + file as usize]) = (base, last.run);
                }
                Err(e) => outcome = Err(e.at_rank(open.metadata.index.rank).in_object(path)),
            }
        }
        let mut bases = agree(request.comm, outcome, "find the ends of the subfiles", &bases)?;
        let runs = bases.split_off(files);
        let last = |(end, run): (&u64, u64)| if run == 0 { LastGroup::default() } else { LastGroup { end: *end, run } };
        let lasts = bases.iter().zip(runs).map(last).collect();
        Ok((bases, lasts))
    }

    /// Collective: refuses the output if a file belongs to one node and the ranks are on several: any rank may have to write to any
    /// subfile. The ranks that created the subfiles have them open, so that each rank need only open one.
    ///
    /// - `new`: the subfiles that this rank has created; they are removed on failure.
    fn check_reach(request: &OpenRequest<'_>, new: &HashSet<u32>) -> Result<()> {
        let rank = request.comm.rank();
        let path = subfile(request.path, 0);
        let open = || request.layout.open_write(&path, OpenWrite::Existing, WriterId(rank))?.close();
        let reached = caught("open a subfile", open).map_err(|e| {
            let what = "ADAPTIVE needs subfiles that every rank can open, as it moves process groups between them";
            Error::new(e.kind(), what).caused_by(e).at_rank(rank).in_object(&*path)
        });
        let agreed = agree(request.comm, reached, "open the subfiles of other ranks", &[]).map(drop);
        Self::remove_new(request, new, agreed)
    }

    /// Collective: each rank waits for its abandoned writes to this file.
    fn wait_for_late(request: &OpenRequest<'_>, file: &str) -> Result<()> {
        let waited = request.cache.settle(file);
        agree(request.comm, waited, "end writes of an earlier output", &[]).map(drop)
    }

    /// Collective: writes all groups. Returns the planner's final state on rank 0, `None` elsewhere.
    fn write_all(&self, part: &mut Participant, files: &mut Closing<'_, '_, AdaptiveOutput>) -> Result<Option<State>> {
        let comm = files.request.comm;
        let (rank, has_group) = (comm.rank(), part.size() > 0);
        let index = &files.open.metadata.index;
        let (run, time_index) = (index.run, index.time_index);
        let mut message = Vec::new();
        message.put_u64(if has_group { part.size() } else { NONE });
        for late in index.cache.of::<TargetRates>().lock().late(&files.open.targets_key) {
            message.put_u32(late.target);
            message.put_u8(u8::from(late.landed));
            message.put_u64(late.bytes);
            message.put_u64(late.seconds.to_bits());
        }
        let Some(messages) = comm.gather(0, &message)? else {
            return match has_group {
                true => files.carry(&mut Asks::new(comm, run, time_index), part, self.piece).map(|()| None),
                false => Ok(None),
            };
        };
        let known = index.cache.of::<TargetRates>().lock().learnt(&files.open.targets_key);
        let plan = || {
            let (mut ranks, mut sizes, mut late) = (Vec::new(), Vec::new(), Vec::new());
            for (rank, message) in (0..).zip(&messages) {
                let size = read_message(message, &mut late).map_err(|e| e.at_rank(rank))?;
                if size != NONE {
                    ranks.push(rank);
                    sizes.push(size);
                }
            }
            let state = match known {
                Some(known) => known.again(self.params, sizes, &files.open.bases, &late),
                None => State::new(self.params, sizes, &ranks, files.open.files, &files.open.bases),
            };
            Ok((state, ranks))
        };
        let (state, ranks) = match caught("plan the output", plan) {
            Ok(planned) => planned,
            Err(e) => {
                coordinator::stop_all(comm, run, time_index, e.kind());
                return Err(e);
            }
        };
        let mut coordinator = Decides::new(comm, run, time_index, state, ranks);
        let mut written = coordinator.begin();
        if has_group && written.is_ok() {
            written = files.carry(&mut coordinator, part, self.piece);
        }
        let written = written.and_then(|()| coordinator.finish());
        debug_assert_eq!(rank, 0);
        let state = coordinator.into_state();
        written.map(|()| state)
    }
}

/// Decodes a rank's message: returns the size of its group, and appends its abandoned writes to `late`.
fn read_message(message: &[u8], late: &mut Vec<Late>) -> Result<u64> {
    let mut c = Cursor::new(message, ByteOrder::NATIVE, 0);
    let size = c.u64("size")?;
    while c.left() > 0 {
        let (target, landed) = (c.u32("target")?, c.u8("landed")? != 0);
        let (bytes, seconds) = (c.u64("bytes")?, f64::from_bits(c.u64("seconds")?));
        late.push(Late { target, bytes, seconds, landed });
    }
    Ok(size)
}

impl Method for Adaptive {
    fn name(&self) -> &'static str {
        "ADAPTIVE"
    }

    fn subfiles(&self) -> Option<bool> {
        Some(true)
    }

    fn open(&mut self, request: &OpenRequest<'_>) -> Result<Opened> {
        let (rank, ranks) = (request.comm.rank(), request.comm.size());
        let named = |e: Error| e.in_object(request.path);
        let file_key = name_of(request.layout, request.path);
        let mut numbers = [0; 3];
        request.cache.of::<TargetRates>().lock().uses();
        if rank == 0 {
            let files = self.files.unwrap_or_else(|| targets::seen(request).min(ranks.max(2)));
            let known = request.mode == Mode::Append
                && request.cache.of::<TargetRates>().lock().ends(&file_key, files as usize).is_some();
            numbers = [u64::from(files), u64::from(known), 0];
        }
        numbers[2] = u64::from(request.cache.of::<TargetRates>().lock().is_late(&file_key));
        let told = request.comm.all_reduce(&numbers, Reduce::Max).map_err(named)?;
        let (files, late) = (told[0] as u32, told[2] > 0);
        let targets_key = format!("{files} in {}", name_of(request.layout, folder_of(request.path)));
        let waits = late && told[1] == 0;
        if waits {
            Self::wait_for_late(request, &file_key).map_err(named)?;
        }
        let mut first = None;
        let mut open = || {
            if rank == 0 {
                first = Some(begin(request, files, self.sync).map_err(named)?);
            }
            self.make_files(request, files)
        };
        let (Made { objects, new }, outcome) = match caught("open", &mut open) {
            Ok(made) => (made, Ok(())),
            Err(e) => (Made::default(), Err(e)),
        };
        let known = first.as_ref().map(|begun| &begun.first).filter(|f| request.mode == Mode::Append && f.known);
        let known = known.and_then(|first| {
            let kept = request.cache.of::<TargetRates>().lock().ends(&file_key, files as usize);
            kept.filter(|(run, _)| *run == first.run).map(|(_, ends)| ends)
        });
        let extends = first
            .as_ref()
            .map(|begun| &begun.first)
            .filter(|f| f.known && matches!(request.mode, Mode::Append | Mode::Update));
        let lasts = extends.and_then(|first| {
            let kept = request.cache.of::<TargetRates>().lock().lasts(&file_key, files as usize);
            kept.filter(|(run, _)| *run == first.run).map(|(_, lasts)| lasts)
        });
        let of_one_node = request.layout.other_nodes(request.path) == OtherNodes::Nothing;
        let checks = known.is_some() || lasts.is_some();
        let mut told = vec![u64::from(known.is_some()), u64::from(of_one_node), u64::from(checks)];
        let lasts = lasts.unwrap_or_else(|| vec![LastGroup::default(); files as usize]);
        told.extend(lasts.iter().flat_map(|last| [last.end, last.run]));
        let paths: HashMap<u32, String> = objects.keys().map(|file| (*file, subfile(request.path, *file))).collect();
        let early: Vec<Early<'_>> = objects
            .iter()
            .map(|(file, object)| Early {
                number: *file,
                path: &paths[file],
                object: &**object,
                made: new.contains(file),
            })
            .collect();
        let (metadata, opened, told) = Metadata::agree(request, (files, self.sync), outcome, first, &told, &early)?;
        drop(early);
        let mut open = AdaptiveOutput {
            metadata,
            files,
            bases: known.unwrap_or_else(|| vec![0; files as usize]),
            lasts: told[3..].chunks_exact(2).map(|last| LastGroup { end: last[0], run: last[1] }).collect(),
            objects,
            spill: Spill::new(request.layout, request.path, rank, self.spill_copy, request.buffer),
            reservation: Some(reserve_pieces(request.buffer, self.piece)),
            buffer: request.buffer.clone(),
            file_key,
            targets_key,
        };
        if told[1] > 0 {
            let reached = Self::check_reach(request, &new);
            if reached.is_err() {
                open.metadata.compare_again();
            }
            reached.map_err(named)?;
        }
        if told[2] > 0 {
            let checked = Self::check_files(request, &open, &new);
            if checked.is_err() {
                open.metadata.compare_again();
            }
            checked.map_err(named)?;
        }
        if request.mode != Mode::Write && told[0] == 0 {
            if late && !waits {
                Self::wait_for_late(request, &open.file_key).map_err(named)?;
            }
            let found = Self::find_bases(request, &open, &new);
            if found.is_err() {
                open.metadata.compare_again();
            }
            (open.bases, open.lasts) = found.map_err(named)?;
        }
        self.open = Some(open);
        Ok(opened)
    }

    fn through(&mut self, _: &Reach) -> Result<(&dyn WriteObject, u64)> {
        let open = self.open.as_mut().ok_or_else(not_open)?;
        Ok((open.spill.through()?, 0))
    }

    fn close(&mut self, request: CloseRequest<'_, '_>) -> Result<Closed> {
        let open = self.open.take().ok_or_else(not_open)?;
        let how = open.metadata.index.commit(self.indexing, false);
        let comm = request.comm;
        let (mut closing, mut part) = Closing::begin(open, request, how);
        let written = self.write_all(&mut part, &mut closing);
        if let (Err(e), Some(_)) = (closing.open.end(part.extent().is_some()), part.extent()) {
            part.fail(e);
        }
        let (first, state) = match written {
            Ok(state) => (closing.commit(&mut part, None), state),
            Err(lost) => (Err(lost), None),
        };
        let outcome = closing.end(first, &mut part);
        let open = &mut closing.open;
        let index = &open.metadata.index;
        if let Some(state) = state {
            let ends = (0..open.files).map(|file| state.end(file)).collect();
            let rates = index.cache.of::<TargetRates>();
            let mut rates = rates.lock();
            if outcome.is_ok() {
                for (target, end) in state.written() {
                    if let Some(last) = open.lasts.get_mut(target as usize).filter(|last| last.end < end) {
                        *last = LastGroup { end, run: index.run };
                    }
                }
            }
            rates.set_lasts(&open.file_key, index.run, open.lasts.clone());
            // After a failure the next output searches for the files' ends: whether the index contains the step is not known.
            rates.set_ends(&open.file_key, index.run, Some(ends).filter(|_| outcome.is_ok()));
            rates.learn(&open.targets_key, state);
        } else {
            index.cache.of::<TargetRates>().lock().set_ends(&open.file_key, index.run, None);
        }
        if outcome.is_ok() {
            open.note_lengths(comm);
        }
        open.metadata.closed(part.is_indexed());
        outcome
    }
}

/// The outcome of writing one copy of a group.
enum Copied {
    /// Written; with an error if the coordinator can no longer be reached.
    Written(Box<Written>, Option<Error>),
    /// The target failed.
    Failed(Error),
    /// The group cannot be written to any target.
    Broken(Error),
    /// Abandoned because of this order.
    Left(Order),
}

/// Reserves buffer memory for the two pieces of a write; shorter pieces if the limit is low.
fn reserve_pieces(buffer: &Arc<BufferPool>, piece: u64) -> Reservation {
    buffer.reserve(buffer.room(0).share(2 * piece, 2 * LEAST_PIECE))
}

fn stopped(kind: ErrorKind) -> Error {
    Error::reported(kind, 0, "the coordinator assigns no further writes")
}

impl Closing<'_, '_, AdaptiveOutput> {
    /// Follows the coordinator's orders until this rank's group is written or lost.
    fn carry(&mut self, coordinator: &mut dyn Coordinator, part: &mut Participant, piece: u64) -> Result<()> {
        let comm = self.request.comm;
        let size = part.size();
        let (mut order, mut failed) = (None, None);
        loop {
            let now = match order.take() {
                Some(order) => Some(order),
                None => coordinator.next(true)?,
            };
            match now {
                Some(Order::Write { target, offset }) if part.extent().is_some() => {
                    // The order was sent before the coordinator knew that the group is written.
                    self.leave_hole(comm, target, Extent::new(offset, size));
                }
                Some(Order::Write { target, offset }) => {
                    match self.copy(coordinator, target, Extent::new(offset, size), piece)? {
                        Copied::Written(written, lost) => {
                            part.wrote(Ok(*written));
                            lost.map_or(Ok(()), Err)?;
                            coordinator.tell(target, Report::Wrote)?;
                        }
                        Copied::Left(other) => {
                            coordinator.tell(target, Report::Left)?;
                            order = Some(other);
                        }
                        Copied::Failed(e) => {
                            tracing::warn!(
                                target,
                                "a storage target failed, its process groups are written to other targets: {e}"
                            );
                            coordinator.tell(target, Report::Failed(e.kind()))?;
                            failed = Some(e);
                        }
                        Copied::Broken(e) => {
                            coordinator.tell(target, Report::Broken(e.kind()))?;
                            failed = Some(e);
                        }
                    }
                }
                Some(Order::Lost { kind, by }) => {
                    let what = "no storage target could store the process group of this rank";
                    part.fail(failed.unwrap_or_else(|| Error::reported(kind, by, what)));
                    return Ok(());
                }
                Some(Order::Stop(kind)) => return Err(stopped(kind)),
                Some(Order::Rests) | None => return Ok(()),
            }
        }
    }

    /// Writes one copy of the group.
    ///
    /// # Errors
    /// `PeerLost`; `Timeout`, also if the write does not end.
    fn copy(&mut self, coordinator: &mut dyn Coordinator, target: u32, place: Extent, piece: u64) -> Result<Copied> {
        let comm = self.request.comm;
        let writer = self.writer(target);
        let path = subfile(&self.open.metadata.index.path, target);
        let (sync, patience) = (self.open.metadata.index.sync, comm.timeout() / 2);
        let at = |e: Error| e.at_rank(writer.rank).in_object(path.clone());
        if place.end().is_none_or(|end| end >= 1 << 63) {
            let what = format!("{} bytes after {} exceed the largest offset", place.length, place.offset);
            return Ok(Copied::Failed(at(Error::new(ErrorKind::OutOfBounds, what))));
        }
        let object = match caught("open a subfile", || self.open.object(target)) {
            Ok(object) => object,
            Err(e) => return Ok(Copied::Failed(e)),
        };
        let (pack, spill) = (&mut *self.request.pack, self.open.spill.object());
        let laid = caught("pack the process group", || pack.lay(spill, place, self.request.header, writer));
        let (laid, fragment) = match laid {
            Ok(laid) => laid,
            Err(e) => return Ok(Copied::Broken(e.at_rank(writer.rank))),
        };
        let reservation = self.open.reservation.take().unwrap_or_else(|| reserve_pieces(&self.open.buffer, piece));
        let piece = match buffer::obtainable(2, reservation.bytes() / 2, LEAST_PIECE) {
            Ok(piece) => piece,
            Err(e) => return Ok(Copied::Broken(e.at_rank(writer.rank))),
        };
        let mark = (place.offset, hole::encode(place).to_vec());
        let mut write = match WriteInFlight::begin(object, Some(mark), Some(reservation)) {
            Ok(write) => write,
            Err(e) => return Ok(Copied::Broken(e.at_rank(writer.rank))),
        };
        if place.length >= WORTH_RESERVING {
            write.give(Task::Reserve(place.offset, place.length));
        }
        let (mut given, mut head, mut is_all_given) = (0, Vec::new(), false);
        let (mut spare, mut stale, mut lost) = (Vec::new(), Vec::new(), None);
        loop {
            while given < place.length && write.waiting() < 2 {
                let part = Extent::new(given, piece.min(place.length - given));
                let mut bytes: Vec<u8> = std::mem::take(&mut spare);
                bytes.clear();
                match caught("pack the process group", || laid.append_to(part, &mut bytes)) {
                    Ok(()) => {}
                    Err(e) => {
                        self.open.leave(write.leave(target, patience));
                        return Ok(Copied::Broken(e.at_rank(writer.rank)));
                    }
                }
                if given == 0 {
                    let record = hole::encode_dead(place);
                    head = bytes[..record.len()].to_vec();
                    bytes[..record.len()].copy_from_slice(&record);
                }
                write.give(Task::Write(place.offset + given, bytes));
                given += part.length;
            }
            if given == place.length && !std::mem::replace(&mut is_all_given, true) {
                // From the seal on this copy is the process group, and no other copy becomes one.
                let seal = Task::Seal(place.offset, std::mem::take(&mut head));
                let before = sync.then_some(Task::Sync);
                let behind = sync.then_some(Task::Sync);
                before.into_iter().chain([seal]).chain(behind).for_each(|task| write.give(task));
            }
            if write.waiting() == 0 {
                break;
            }
            match write.wait(NAP) {
                Some(Ok(buffer)) if buffer.capacity() > 0 => spare = buffer,
                Some(Ok(_)) => {}
                Some(Err(e)) => return lost.map_or(Ok(Copied::Failed(at(e))), Err),
                None => {}
            }
            if write.age() > comm.timeout() {
                let what = format!("a write to storage target {target} does not end");
                self.open.leave(write.leave(target, patience));
                return Err(at(Error::new(ErrorKind::Timeout, what)));
            }
            if lost.is_some() {
                continue;
            }
            let asked = match coordinator.next(false) {
                Ok(Some(Order::Stop(kind))) => Err(stopped(kind)),
                asked => asked,
            };
            match asked {
                Ok(None) => {}
                asked if write.stop() => {
                    self.open.leave(write.leave(target, patience));
                    return asked.map(|order| Copied::Left(order.unwrap_or(Order::Rests)));
                }
                Ok(Some(order)) => stale.push(order),
                // This copy is becoming the process group and must not be written again.
                Err(e) => lost = Some(e),
            }
        }
        drop(laid);
        for order in stale {
            if let Order::Write { target, offset } = order {
                self.leave_hole(comm, target, Extent::new(offset, place.length));
            }
        }
        let layout = &self.open.metadata.index.layout;
        if sync && let Err(e) = caught("make names durable", || layout.sync_folder(folder_of(&path))) {
            return Ok(Copied::Broken(at(e)));
        }
        Ok(Copied::Written(Box::new(Written { fragment, extent: place }), lost))
    }

    /// Marks an unused extent as a hole. Best effort: without the record, a scan searches the extent.
    fn leave_hole(&mut self, comm: &dyn Communicator, target: u32, place: Extent) {
        // A second handle: the handle of this rank's group is closed in `end`, which reports errors.
        let own = self.open.objects.remove(&target);
        if let Ok(object) = caught("open a subfile", || self.open.object(target))
            && let Ok(mut write) = WriteInFlight::begin(object, None, None)
        {
            write.give(Task::Write(place.offset, hole::encode(place).to_vec()));
            self.open.leave(write.end_alone(target, comm.timeout() / 2));
        }
        self.open.objects.extend(own.map(|own| (target, own)));
    }
}

impl OpenOutput for AdaptiveOutput {
    fn index(&self) -> &OpenIndex {
        &self.metadata.index
    }

    /// Called after the loss of a rank if this rank's group is not written: no copy of it has become a process group.
    fn write(&mut self, request: &mut CloseRequest<'_, '_>, _: Extent) -> Result<Written> {
        let number = self.files.saturating_add(self.metadata.index.rank);
        let writer = request.writer(self.index(), number);
        let (path, object, start) = self.metadata.open_subfile(number)?;
        let extent = Extent::new(start, request.pack.length());
        let (spill, step) = (self.spill.object(), self.spill.step());
        let fragment = request.pack.write_spilled(spill, &object, extent, request.header, writer, step);
        let fragment = fragment.and_then(|fragment| self.spill.end().map(|()| fragment));
        let fragment = fragment.map_err(|e| e.at_rank(writer.rank).in_object(path.clone()))?;
        self.metadata.end_subfile(&path, &object)?;
        Ok(Written { fragment, extent })
    }

    fn keeper(&mut self) -> &mut dyn IndexKeeper {
        &mut self.metadata
    }
}
