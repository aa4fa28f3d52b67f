//! Adaptive writing: subfiles one per storage target; ranks write where storage is fast, and what is stuck is written again
//! elsewhere.
//!
//! | question     | answer |
//! |--------------|--------|
//! | who writes   | every rank its own process group; rank 0 decides where and when, and writes the index when all have written: before that it is not known where the last groups will lie |
//! | when         | inside `close`, when rank 0 says so: at most `writers_per_target` ranks at a time at each target |
//! | where        | subfile `<name>.dir/<name>.K` of a storage target K: at first K = rank modulo `num_files`; a target that has nothing left to do takes groups that wait for a slower one; the index in `<name>` says where each went |
//! | what moves   | sizes to rank 0 (one gather); an order and a report per write, one order more per rank; index fragments up a tree, outcomes (reductions); no data |
//! | memory       | what waits for close, beyond the buffer limit the rank's own spill file; `chunk` bytes while a rank writes, within the limit, fewer where that is low. A write that is left to itself keeps its own until it ends, and the next one takes what the limit leaves then |
//! | who calls    | every rank calls `open` and `close`; a rank without blocks writes an empty process group |
//! | on failure   | a target that fails gets nothing more in this output, the others take its groups. Where all fail, or a rank does, all ranks return the kind of the lowest failing rank's error, the others' groups are indexed, the step is partial. Where a rank is lost and the communicator can go on without it, those whose groups do not rest yet write a subfile of their own (`<name>.<num_files + rank>`), and the survivors close the step: [`crate::output_file::commit`] |
//!
//! What is decided is [`crate::plan::adaptive::next`], a pure function; who hears of it when is [`crate::method::adaptive::coordinator`].
//!
//! A write runs in a thread of its own ([`crate::method::adaptive::in_flight`]), so that its rank can go on where it is stuck: its group is
//! then written elsewhere, and nobody waits for the first copy, neither here nor in `close`. It may end at any time without harm.
//! A group is written as a hole at first ([`thalweg_bp::hole`]), and becomes one by its first 32 bytes, which are written
//! last, and for one copy only. Its place is given to nobody else. What could cut or replace the file
//! waits until the write has ended: `finalize`, an open that replaces the file, one that drops steps, one that finds the file
//! changed by somebody else. `thalweg stat` counts such copies among the dead bytes.
//!
//! How fast targets drained is kept from output to output, also to other files of the same folder.
//!
//! Sources: Lofstead et al., SAND2009-7763 (writers that finish early take work from slow storage targets); CUG 2009.
//! Differs: a write that is stuck in flight is written again, and the index needs no second pass over the files.

use crate::buffer::{self, BufferPool, LEAST_PIECE, Reservation};
use crate::method::adaptive::coordinator::{Asks, Coordinator, Decides, Order, Report};
use crate::method::adaptive::in_flight::{InFlight, Task};
use crate::method::adaptive::rates::TargetRates;
use crate::method::{
    CloseRequest, Closed, INDEX, INDEX_FAN_IN, Indexing, Method, MethodKind, Mode, OpenRequest, Opened, Parameter,
    Parameters, SPILL_COPY, SYNC, Tried, folder_of, not_open, spill_copy,
};
use crate::output_file::cache::name_of;
use crate::output_file::closing::{Closing, OpenOutput};
use crate::output_file::commit::{IndexKeeper, Part, Written};
use crate::output_file::handle::Handle;
use crate::output_file::open_index::OpenIndex;
use crate::output_file::spill::{self, Spill};
use crate::output_file::subfiles::{Early, Metadata, begin, check_known, open_own, subfile, subfile_folder};
use crate::output_file::targets;
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
use thalweg_layout::{OpenWrite, WriteObject, WriterId};
use thalweg_params::Unit;
use thalweg_types::{ByteOrder, Error, ErrorKind, Extent, Result};

/// How the registry lists it.
pub const KIND: MethodKind = MethodKind {
    names: &["ADAPTIVE"],
    id: 13,
    about: "subfiles one per storage target; groups go where storage is fast, also while they are written",
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
    .or_else("what the filesystem says (Lustre), else 4; at most one per rank, but at least 2");
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

/// Smallest piece: it holds the record of a hole.
const LEAST: u64 = 4096;
/// Writes of one group that may be under way at a time.
const COPIES: u32 = 3;
/// Longest sleep of a rank that waits for its write and for orders.
const NAP: Duration = Duration::from_micros(200);
/// A group that there is not.
const NONE: u64 = u64::MAX;

/// The planner's eagerness as the parameters set it. Places are aligned to nothing until the stripe of the file is known.
///
/// # Errors
/// `Config` as of [`Parameters::get`].
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
    open: Option<Open>,
}

struct Open {
    metadata: Metadata,
    files: u32,
    /// On rank 0: where this output begins in each subfile.
    bases: Vec<u64>,
    /// Subfiles that this rank has opened.
    objects: HashMap<u32, Arc<Handle>>,
    spill: Spill,
    /// What this rank's write will hold: two pieces.
    held: Option<Reservation>,
    buffer: Arc<BufferPool>,
    /// Names under which the process keeps what it learns: of the file, and of the targets.
    file_key: String,
    targets_key: String,
}

/// Subfiles that a rank has opened for all.
#[derive(Default)]
struct Made {
    objects: HashMap<u32, Arc<Handle>>,
    /// Those that were not there.
    new: HashSet<u32>,
}

impl Open {
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

    /// All ranks have written: the next output of this process finds the subfiles as long as they are now. One request each.
    fn note_lengths(&self, comm: &dyn Communicator) {
        let index = &self.metadata.index;
        for file in (comm.rank()..self.files).step_by(comm.size() as usize) {
            let path = subfile(&index.path, file);
            // Where that cannot be told, what was known before holds. A layout tells at least what closed handles have written; were it
            // less, a subfile that somebody cuts would be missed later, and nothing written wrongly: each output finds its start in the
            // file itself.
            if let Ok(about) = index.layout.stat(&path) {
                index.cache.set_least(&path, about.length);
            }
        }
    }

    /// Closes the subfiles; and the spill file, unless this rank's group is still to be written from it.
    fn end(&mut self, rests: bool) -> Result<()> {
        let index = &self.metadata.index;
        let ended = self.objects.drain().map(|(file, object)| {
            object.end(false).map_err(|e| e.at_rank(index.rank).in_object(subfile(&index.path, file)))
        });
        let ended = ended.fold(Ok(()), Result::and);
        if rests { ended.and(self.spill.end()) } else { ended }
    }

    /// A write nobody waits for: it is remembered until it has ended, and closes the subfile then.
    fn leave(&mut self, late: in_flight::Late) {
        self.objects.remove(&late.target);
        self.metadata.index.cache.of::<TargetRates>().lock().leave(&self.file_key, &self.targets_key, late);
    }
}

impl Adaptive {
    /// Collective: makes the subfiles, or finds those that are there.
    ///
    /// - `known`: rank 0 knows where each ends.
    fn make_files(&self, request: &OpenRequest<'_>, files: u32, known: bool) -> Result<Made> {
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
            let checked = opened.and_then(|(object, is_new)| {
                match (known, request.mode) {
                    (true, Mode::Append) => check_known(request, &path, &*object, is_new)?,
                    (_, Mode::Write) => request.cache.set_least(&path, 0),
                    _ => {}
                }
                Ok((object, is_new))
            });
            let (object, is_new) = checked.map_err(|e| e.at_rank(rank).in_object(path))?;
            made.objects.insert(file, Arc::new(Handle::from(object)));
            if is_new {
                made.new.insert(file);
            }
        }
        Ok(made)
    }

    /// Collective: where this output begins in each subfile, as the files say.
    fn find_bases(request: &OpenRequest<'_>, open: &Open, new: &HashSet<u32>) -> Result<Vec<u64>> {
        let mut bases = vec![0; open.files as usize];
        let mut outcome = Ok(());
        for file in (open.metadata.index.rank..open.files).step_by(request.comm.size() as usize) {
            let path = subfile(request.path, file);
            let Some(object) = open.objects.get(&file) else { continue };
            let is_new = new.contains(&file);
            match caught("find the end of a subfile", || open.metadata.start_in(file, &path, &**object, is_new)) {
                Ok(base) => {
                    request.cache.set_least(&path, base);
                    bases[file as usize] = base;
                }
                Err(e) => outcome = Err(e.at_rank(open.metadata.index.rank).in_object(path)),
            }
        }
        agree(request.comm, outcome, "find the ends of the subfiles", &bases)
    }

    /// Collective: where a write of an earlier output may be under way on any rank, waits for it.
    fn wait_for_late(request: &OpenRequest<'_>, file: &str) -> Result<()> {
        let waited = request.cache.settle(file);
        agree(request.comm, waited, "end writes of an earlier output", &[]).map(drop)
    }

    /// Collective: writes all groups. On rank 0 it returns what was learnt.
    fn write_all(&self, part: &mut Part, files: &mut Closing<'_, '_, Open>) -> Result<Option<State>> {
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
        let (mut ranks, mut sizes, mut late) = (Vec::new(), Vec::new(), Vec::new());
        for (rank, message) in (0..).zip(&messages) {
            let size = read_message(message, &mut late).map_err(|e| e.at_rank(rank))?;
            if size != NONE {
                ranks.push(rank);
                sizes.push(size);
            }
        }
        let known = index.cache.of::<TargetRates>().lock().learnt(&files.open.targets_key);
        let state = match known {
            Some(known) => known.again(self.params, sizes, &files.open.bases, &late),
            None => State::new(self.params, sizes, &ranks, files.open.files, &files.open.bases),
        };
        let mut desk = Decides::new(comm, run, time_index, state, ranks);
        let mut written = desk.begin();
        if has_group && written.is_ok() {
            written = files.carry(&mut desk, part, self.piece);
        }
        let written = written.and_then(|()| desk.finish());
        debug_assert_eq!(rank, 0);
        let state = desk.into_state();
        written.map(|()| state)
    }
}

/// Bytes of a rank's group; what it says of writes left to themselves is added to `late`.
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

    fn open(&mut self, request: &OpenRequest<'_>) -> Result<Opened> {
        let (rank, ranks) = (request.comm.rank(), request.comm.size());
        let named = |e: Error| e.in_object(request.path);
        let file_key = name_of(request.layout, request.path);
        let mut numbers = [0; 3];
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
            self.make_files(request, files, told[1] > 0)
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
        let told = [u64::from(known.is_some())];
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
        let mut open = Open {
            metadata,
            files,
            bases: known.unwrap_or_else(|| vec![0; files as usize]),
            objects,
            spill: Spill::new(request.layout, request.path, rank, self.spill_copy, request.buffer),
            held: Some(hold(request.buffer, self.piece)),
            buffer: request.buffer.clone(),
            file_key,
            targets_key,
        };
        if request.mode != Mode::Write && told[0] == 0 {
            if late && !waits {
                Self::wait_for_late(request, &open.file_key).map_err(named)?;
            }
            let found = Self::find_bases(request, &open, &new);
            if found.is_err() {
                open.metadata.compare_again();
            }
            open.bases = found.map_err(named)?;
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
            // After a failure the next output looks where the files end: the step may be in the index or not.
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

/// What became of one copy of a group.
enum Copied {
    /// Also why nobody can be told.
    Written(Box<Written>, Option<Error>),
    Failed(Error),
    /// It cannot be written, wherever to.
    Broken(Error),
    /// It was left to itself, for this order.
    Left(Order),
}

/// Memory of the buffer for the two pieces of a write, shorter ones where the limit is low.
fn hold(buffer: &Arc<BufferPool>, piece: u64) -> Reservation {
    buffer.reserve(buffer.room(0).share(2 * piece, 2 * LEAST_PIECE))
}

fn stopped(kind: ErrorKind) -> Error {
    Error::reported(kind, 0, "nobody says any more where to write")
}

impl Closing<'_, '_, Open> {
    /// Writes this rank's group where it is told to, until it rests or is lost.
    fn carry(&mut self, desk: &mut dyn Coordinator, part: &mut Part, piece: u64) -> Result<()> {
        let comm = self.request.comm;
        let size = part.size();
        let (mut order, mut failed) = (None, None);
        loop {
            let now = match order.take() {
                Some(order) => Some(order),
                None => desk.next(true)?,
            };
            match now {
                Some(Order::Write { target, offset }) if part.extent().is_some() => {
                    // It was on its way when this group was written elsewhere.
                    self.leave_hole(comm, target, Extent::new(offset, size));
                }
                Some(Order::Write { target, offset }) => {
                    match self.copy(desk, target, Extent::new(offset, size), piece)? {
                        Copied::Written(written, lost) => {
                            part.wrote(Ok(*written));
                            lost.map_or(Ok(()), Err)?;
                            desk.tell(target, Report::Wrote)?;
                        }
                        Copied::Left(other) => {
                            desk.tell(target, Report::Left)?;
                            order = Some(other);
                        }
                        Copied::Failed(e) => {
                            tracing::warn!(target, "a storage target failed, its groups go elsewhere: {e}");
                            desk.tell(target, Report::Failed(e.kind()))?;
                            failed = Some(e);
                        }
                        Copied::Broken(e) => {
                            desk.tell(target, Report::Broken(e.kind()))?;
                            failed = Some(e);
                        }
                    }
                }
                Some(Order::Lost { kind, by }) => {
                    let what = "no storage target takes the process group of this rank";
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
    /// A lost rank, or one that says nothing any more.
    fn copy(&mut self, desk: &mut dyn Coordinator, target: u32, place: Extent, piece: u64) -> Result<Copied> {
        let comm = self.request.comm;
        let writer = self.writer(target);
        let path = subfile(&self.open.metadata.index.path, target);
        let (sync, patience) = (self.open.metadata.index.sync, comm.timeout() / 2);
        let at = |e: Error| e.at_rank(writer.rank).in_object(path.clone());
        if place.end().is_none_or(|end| end >= 1 << 63) {
            let what = format!("{} bytes behind {} leave the file", place.length, place.offset);
            return Ok(Copied::Failed(at(Error::new(ErrorKind::OutOfBounds, what))));
        }
        let object = match self.open.object(target) {
            Ok(object) => object,
            Err(e) => return Ok(Copied::Failed(e)),
        };
        let (laid, fragment) = match self.request.pack.lay(self.open.spill.object(), place, self.request.header, writer)
        {
            Ok(laid) => laid,
            Err(e) => return Ok(Copied::Broken(e.at_rank(writer.rank))),
        };
        let held = self.open.held.take().unwrap_or_else(|| hold(&self.open.buffer, piece));
        let piece = match buffer::obtainable(2, held.bytes() / 2, LEAST_PIECE) {
            Ok(piece) => piece,
            Err(e) => return Ok(Copied::Broken(e.at_rank(writer.rank))),
        };
        let mark = (place.offset, hole::encode(place).to_vec());
        let mut flight = match InFlight::begin(object, Some(mark), Some(held)) {
            Ok(flight) => flight,
            Err(e) => return Ok(Copied::Broken(e.at_rank(writer.rank))),
        };
        if place.length >= WORTH_RESERVING {
            flight.give(Task::Reserve(place.offset, place.length));
        }
        let (mut given, mut head, mut synced, mut sealed) = (0, Vec::new(), !sync, false);
        let (mut spare, mut stale, mut lost) = (Vec::new(), Vec::new(), None);
        loop {
            while given < place.length && flight.waiting() < 2 {
                let part = Extent::new(given, piece.min(place.length - given));
                let mut bytes: Vec<u8> = std::mem::take(&mut spare);
                bytes.clear();
                match laid.append_to(part, &mut bytes) {
                    Ok(()) => {}
                    Err(e) => {
                        self.open.leave(flight.leave(target, patience));
                        return Ok(Copied::Broken(e.at_rank(writer.rank)));
                    }
                }
                if given == 0 {
                    let record = hole::encode_dead(place);
                    head = bytes[..record.len()].to_vec();
                    bytes[..record.len()].copy_from_slice(&record);
                }
                flight.give(Task::Write(place.offset + given, bytes));
                given += part.length;
            }
            if flight.waiting() == 0 {
                if sealed {
                    break;
                }
                if std::mem::replace(&mut synced, true) {
                    // From here on this copy is the one that counts, and no other becomes a process group.
                    flight.give(Task::Write(place.offset, std::mem::take(&mut head)));
                    sealed = true;
                    if !sync {
                        continue;
                    }
                }
                flight.give(Task::Sync);
            }
            match flight.wait(NAP) {
                Some(Ok(buffer)) if buffer.capacity() > 0 => spare = buffer,
                Some(Ok(_)) => {}
                Some(Err(e)) => return lost.map_or(Ok(Copied::Failed(at(e))), Err),
                None => {}
            }
            if flight.age() > comm.timeout() {
                let what = format!("a write to storage target {target} does not end");
                self.open.leave(flight.leave(target, patience));
                return Err(at(Error::new(ErrorKind::Timeout, what)));
            }
            if lost.is_some() {
                continue;
            }
            let asked = match desk.next(false) {
                Ok(Some(Order::Stop(kind))) => Err(stopped(kind)),
                asked => asked,
            };
            match asked {
                Ok(None) => {}
                Ok(Some(order)) if sealed => stale.push(order),
                // What becomes a process group now is not to be written once more.
                Err(e) if sealed => lost = Some(e),
                left => {
                    self.open.leave(flight.leave(target, patience));
                    return left.map(|order| Copied::Left(order.unwrap_or(Order::Rests)));
                }
            }
        }
        drop(laid);
        for order in stale {
            if let Order::Write { target, offset } = order {
                self.leave_hole(comm, target, Extent::new(offset, place.length));
            }
        }
        if sync && let Err(e) = self.open.metadata.index.layout.sync_folder(folder_of(&path)) {
            return Ok(Copied::Broken(at(e)));
        }
        Ok(Copied::Written(Box::new(Written { fragment, extent: place }), lost))
    }

    /// Says of a place that was given for nothing that it is a hole. Best effort: without it a scan searches the place.
    fn leave_hole(&mut self, comm: &dyn Communicator, target: u32, place: Extent) {
        // A handle of its own: that of this rank's group is closed where all can hear it.
        let own = self.open.objects.remove(&target);
        if let Ok(object) = self.open.object(target)
            && let Ok(mut flight) = InFlight::begin(object, None, None)
        {
            flight.give(Task::Write(place.offset, hole::encode(place).to_vec()));
            self.open.leave(flight.end_alone(target, comm.timeout() / 2));
        }
        self.open.objects.extend(own.map(|own| (target, own)));
    }
}

impl OpenOutput for Open {
    fn index(&self) -> &OpenIndex {
        &self.metadata.index
    }

    /// Called where a rank was lost before this rank's group came to rest: no copy of it has become a process group.
    fn write(&mut self, request: &mut CloseRequest<'_, '_>, _: Extent) -> Result<Written> {
        let number = self.files.saturating_add(self.metadata.index.rank);
        let writer = request.writer(self.index(), number);
        let (path, object, start) = self.metadata.open_subfile(number)?;
        let extent = Extent::new(start, request.pack.length());
        let fragment = self.spill.write(request.pack, &object, extent, request.header, writer);
        let fragment = fragment.map_err(|e| e.at_rank(writer.rank).in_object(path.clone()))?;
        self.metadata.end_subfile(&path, &object)?;
        Ok(Written { fragment, extent })
    }

    fn keeper(&mut self) -> &mut dyn IndexKeeper {
        &mut self.metadata
    }
}
