//! Readers: open, inquire, requests at once and noted.

use super::describe::{CAttribute, CBlocks, CSummary, CVariable, CachedAttribute, CachedVariable};
use super::failure::{self, c_text};
use super::{
    CMemory, check_type, communicator, handle, memory_selection, numbers, place, pointer, status, take_back, text,
    wrong,
};
use crate::adios1::read::Layouts;
use crate::collective::on_all_ranks;
use std::collections::HashMap;
use std::ffi::{CString, c_char, c_int, c_void};
use std::ptr::null;
use std::sync::Arc;
use std::time::Duration;
use thalweg_comm::Communicator;
use thalweg_comm::agreement::agree;
use thalweg_comm::guarded::caught;
use thalweg_comm_mpi::ThalwegMpiTable;
use thalweg_layout::Layout;
use thalweg_reader::follow::{Follower, Next, Wait};
use thalweg_reader::{Batch, Digits, Reader, Reads};
use thalweg_types::mutex::Mutex;
use thalweg_types::{BoundingBox, Error, ErrorKind, Result, Selection};

/// `thalweg_reader`.
struct NativeReader(Mutex<ReaderState>);

/// An open file, and the memory whose addresses the program has.
struct ReaderState {
    reader: Reader,
    following: Option<Following>,
    variables: HashMap<String, Box<CachedVariable>>,
    attributes: HashMap<String, Box<CachedAttribute>>,
    names: Option<Names>,
    /// Noted and not yet performed.
    later: Vec<PendingReads>,
}

#[derive(Default)]
struct Names {
    variables: Vec<CString>,
    attributes: Vec<CString>,
    groups: Vec<CString>,
}

/// A request to be carried out: its memory, and the values to fill it.
struct Noted {
    name: String,
    data: *mut c_void,
    /// Of the memory at `data`.
    bytes: u64,
    source: From,
}

enum From {
    /// A read of the batch.
    Batch,
    /// Texts, which come from the index: they are here already.
    Index(Vec<u8>),
}

/// Requests that one perform carries out, all of the same state of the file.
struct PendingReads {
    batch: Batch,
    noted: Vec<Noted>,
}

impl PendingReads {
    fn of(reader: &Reader) -> PendingReads {
        PendingReads { batch: reader.batch(), noted: Vec::new() }
    }

    /// Fills the memory of all of them.
    ///
    /// # Safety
    /// See [`crate::pointer`]; no two of them share memory.
    unsafe fn perform(self) -> Result<()> {
        let mut out = Vec::new();
        for Noted { name, data, bytes, source } in &self.noted {
            // SAFETY: from C.
            let memory = unsafe { pointer::bytes_mut(*data, *bytes, name) }?;
            match source {
                From::Batch => out.push(memory),
                From::Index(text) => {
                    // Checked when it was noted.
                    memory[..text.len()].copy_from_slice(text);
                    if let Some(end) = memory.get_mut(text.len()) {
                        *end = 0;
                    }
                }
            }
        }
        self.batch.perform(&mut out).map(|_| ())
    }
}

/// `thalweg_selection`.
#[repr(C)]
struct CSelection {
    kind: c_int,
    ndim: usize,
    offset: *const u64,
    count: *const u64,
    npoints: u64,
    points: *const u64,
    block: u64,
    stride: *const u64,
}

/// `thalweg_request`.
#[repr(C)]
struct CRequest {
    name: *const c_char,
    check_type: c_int,
    number: c_int,
    step: i64,
    steps: u64,
    selection: *const CSelection,
    memory: *const CMemory,
    data: *mut c_void,
    bytes: u64,
}

/// `thalweg_file_info`.
#[repr(C)]
struct CInfo {
    steps: u64,
    finished: c_int,
    torn_bytes: u64,
    variables: usize,
    attributes: usize,
    groups: usize,
}

/// Where paths lead: the mounts of this process.
fn layout() -> Result<Arc<dyn Layout>> {
    thalweg_io::mounts::layout()
}

impl ReaderState {
    fn new(reader: Reader) -> ReaderState {
        ReaderState {
            reader,
            following: None,
            variables: HashMap::new(),
            attributes: HashMap::new(),
            names: None,
            later: Vec::new(),
        }
    }

    fn variable(&mut self, name: &str) -> Result<&CachedVariable> {
        if !self.variables.contains_key(name) {
            let variable = self.reader.variable(name)?;
            self.variables.insert(name.to_string(), CachedVariable::new(variable));
        }
        self.variables.get(name).map(|v| &**v).ok_or_else(|| wrong("no variable"))
    }

    /// The steps of the file that a program means by a step, counted from the end below 0, and a number of steps.
    fn steps(&mut self, name: &str, step: i64, count: u64) -> Result<Vec<u64>> {
        let steps = &self.variable(name)?.variable.steps;
        let no_step = |what: String| Error::new(ErrorKind::NotFound, what).in_variable(name);
        let first = match u64::try_from(step) {
            Ok(step) => steps.binary_search(&step).map_err(|_| {
                let last = steps.last().map_or("nothing".into(), |last| format!("steps up to {last}"));
                no_step(format!("not written in step {step}; the file has {last} of it"))
            })?,
            Err(_) => usize::try_from(step.unsigned_abs())
                .ok()
                .and_then(|back| steps.len().checked_sub(back))
                .ok_or_else(|| no_step(format!("step {step} of {} steps", steps.len())))?,
        };
        let left = &steps[first..];
        let count = if count == u64::MAX { left.len() as u64 } else { count.max(1) };
        let taken = usize::try_from(count).ok().and_then(|n| left.get(..n));
        Ok(taken
            .ok_or_else(|| no_step(format!("{count} steps from {}, {} are there", steps[first], left.len())))?
            .to_vec())
    }

    fn names(&mut self) -> &Names {
        let reader = &self.reader;
        self.names.get_or_insert_with(|| Names {
            variables: reader.variables().iter().map(|h| c_text(&h.name)).collect(),
            attributes: reader.attributes().iter().map(|h| c_text(&h.name)).collect(),
            groups: reader.status().groups.iter().map(c_text).collect(),
        })
    }

    /// Plans a request, adding it to `to`. Returns the bytes of memory that it needs.
    ///
    /// # Safety
    /// See [`crate::pointer`].
    unsafe fn note(&mut self, request: &CRequest, to: &mut PendingReads) -> Result<u64> {
        // SAFETY: from C.
        let (name, selection, memory) = unsafe {
            let name = text(request.name, "the variable's name")?;
            (name, selection(request.selection)?, memory_selection(request.memory)?)
        };
        let element = self.variable(name)?.variable.element;
        check_type(request.check_type, request.number, element, name)?;
        let steps = self.steps(name, request.step, request.steps)?;
        let (source, needed) = if element.is_text() {
            let mut all = Vec::new();
            for step in &steps {
                all.extend(self.reader.read_to_vec(name, *step, &selection)?);
            }
            let needed = all.len() as u64;
            (From::Index(all), needed)
        } else {
            let number = to.batch.add(name, &steps, &selection, memory.as_ref())?;
            (From::Batch, to.batch.bytes(number))
        };
        to.noted.push(Noted { name: name.to_string(), data: request.data, bytes: request.bytes, source });
        Ok(needed)
    }

    /// As [`ReaderState::note`], for a request with memory.
    ///
    /// # Safety
    /// See [`crate::pointer`].
    unsafe fn ready(&mut self, request: &CRequest, to: &mut PendingReads) -> Result<()> {
        // SAFETY: from C.
        let needed = unsafe { self.note(request, to) }?;
        let Some(noted) = to.noted.last() else { return Ok(()) };
        let longer = matches!(noted.source, From::Index(_)) && noted.bytes > needed;
        if noted.bytes != needed && !longer {
            let what = format!("{} bytes of memory were given, {needed} are needed", noted.bytes);
            return Err(wrong(what).in_variable(&*noted.name));
        }
        if noted.data.is_null() && noted.bytes > 0 {
            return Err(wrong(format!("a null pointer for {} bytes", noted.bytes)).in_variable(&*noted.name));
        }
        Ok(())
    }
}

/// # Safety
/// See [`crate::pointer`].
unsafe fn selection(selection: *const CSelection) -> Result<Selection> {
    // SAFETY: from C.
    let Some(c) = (unsafe { selection.as_ref() }) else { return Ok(Selection::All) };
    // SAFETY: from C: the stated number of values.
    unsafe {
        Ok(match c.kind {
            0 => Selection::All,
            1 | 4 => {
                let offset = numbers(c.offset, c.ndim, "the box's offset")?;
                let bounds = BoundingBox::new(offset, numbers(c.count, c.ndim, "the box's count")?);
                match c.kind {
                    1 => Selection::Box(bounds),
                    _ => Selection::Strided { bounds, stride: numbers(c.stride, c.ndim, "the strides")? },
                }
            }
            2 => {
                let total = usize::try_from(c.npoints).ok().and_then(|n| n.checked_mul(c.ndim));
                let total = total.filter(|_| c.ndim > 0).ok_or_else(|| wrong(format!("{} points", c.npoints)))?;
                let all = numbers(c.points, total, "the points")?;
                Selection::Points(all.chunks_exact(c.ndim).map(<[u64]>::to_vec).collect())
            }
            3 => Selection::Block(c.block),
            other => return Err(wrong(format!("{other} is no kind of selection"))),
        })
    }
}

/// # Safety
/// See [`crate::pointer`]; `table` and `comm` as in `MpiCommunicator::from_raw`.
/// # Cost
/// Two reductions and a duplicate of the communicator, which is freed on return. Every rank opens the file by itself:
/// [`Reader::open`].
#[unsafe(no_mangle)]
unsafe extern "C" fn thalweg_core_reader_open(
    reader: *mut *mut NativeReader,
    path: *const c_char,
    table: *const ThalwegMpiTable,
    comm: *mut c_void,
) -> c_int {
    status(|| {
        // SAFETY: from C.
        let (comm, asked) = unsafe {
            let comm = communicator(table, comm)?;
            (comm, place(reader, "the place for the reader").and_then(|p| Ok((p, text(path, "the file's name")?))))
        };
        let (place, path) = apart(asked);
        let opened = open_reader(&*comm, path, &layout)?;
        *place? = Box::into_raw(Box::new(NativeReader(Mutex::new(ReaderState::new(opened)))));
        Ok(())
    })
}

/// Collective: opens a file on each rank.
///
/// # Errors
/// As [`on_all_ranks`].
pub(crate) fn open_reader(comm: &dyn Communicator, path: Result<&str>, layout: Layouts<'_>) -> Result<Reader> {
    each(comm, "open the file", || Reader::open(layout()?, path?))
}

/// The place and the path; a mistake in either is an error of the path, which ranks agree on first.
fn apart<P>(asked: Result<(P, &str)>) -> (Result<P>, Result<&str>) {
    match asked {
        Ok((place, path)) => (Ok(place), Ok(path)),
        Err(e) => (Err(wrong("no place")), Err(e)),
    }
}

/// [`on_all_ranks`]; errors of a program of one rank name no rank.
fn each<T>(comm: &dyn Communicator, doing: &str, work: impl FnOnce() -> Result<T>) -> Result<T> {
    if comm.size() == 1 { caught(doing, work) } else { on_all_ranks(comm, doing, work) }
}

/// # Safety
/// See [`crate::pointer`].
#[unsafe(no_mangle)]
unsafe extern "C" fn thalweg_reader_open(reader: *mut *mut NativeReader, path: *const c_char) -> c_int {
    // SAFETY: from C.
    unsafe { thalweg_core_reader_open(reader, path, null(), std::ptr::null_mut()) }
}

/// A file that is being written, and the ranks that follow it together.
pub(crate) struct Following {
    follower: Follower,
    comm: Box<dyn Communicator>,
}

/// How long a program waits: below 0 for ever.
fn wait(seconds: f64) -> Result<Wait> {
    if seconds.is_nan() {
        return Err(wrong("a timeout that is no number"));
    }
    // More seconds than a duration can represent mean no limit.
    let timeout = if seconds < 0.0 { None } else { Duration::try_from_secs_f64(seconds).ok() };
    Ok(Wait { timeout, ..Wait::default() })
}

impl Following {
    /// Collective: opens a file on each rank.
    ///
    /// # Errors
    /// As [`on_all_ranks`].
    pub(crate) fn open(
        comm: Box<dyn Communicator>,
        path: Result<&str>,
        wait: &Wait,
        layout: Layouts<'_>,
    ) -> Result<Following> {
        let follower = each(&*comm, "follow the file", || Follower::open(layout()?, path?, wait))?;
        Ok(Following { follower, comm })
    }

    /// Collective: all ranks advance to the step of rank 0.
    ///
    /// # Errors
    /// As [`on_all_ranks`].
    pub(crate) fn advance(&mut self, to_last: bool, wait: &Wait) -> Result<Next> {
        const DOING: &str = "follow the file";
        if self.comm.size() == 1 {
            return self.follower.advance(to_last, wait);
        }
        let first = match self.comm.rank() {
            0 => caught(DOING, || self.follower.advance(to_last, wait)).map(Some),
            _ => Ok(None),
        };
        let (outcome, numbers) = match first {
            Ok(Some(Next::Step(step))) => (Ok(()), [1, step]),
            Ok(Some(Next::NotYet)) => (Ok(()), [2, 0]),
            Ok(Some(Next::End)) => (Ok(()), [3, 0]),
            Ok(Some(Next::WriterDied)) => (Ok(()), [4, 0]),
            Ok(None) => (Ok(()), [0, 0]),
            Err(e) => (Err(e), [0, 0]),
        };
        let agreed = agree(&*self.comm, outcome, DOING, &numbers)?;
        let step = match agreed[0] {
            1 => agreed[1],
            2 => return Ok(Next::NotYet),
            3 => return Ok(Next::End),
            _ => return Ok(Next::WriterDied),
        };
        // The step is in the file; this rank's node may see it a little later.
        let patience = Wait { timeout: Some(Duration::from_secs(60)), ..*wait };
        let follower = &mut self.follower;
        on_all_ranks(&*self.comm, DOING, || {
            while follower.step() < step {
                let Next::Step(_) = follower.advance(false, &patience)? else {
                    let what = "rank 0 found a step that this rank did not find";
                    return Err(Error::new(ErrorKind::Timeout, what).at_step(step));
                };
            }
            Ok(())
        })?;
        Ok(Next::Step(step))
    }
}

/// # Safety
/// See [`crate::pointer`]; `table` and `comm` as in `MpiCommunicator::from_raw`.
/// # Cost
/// Two reductions and a duplicate of the communicator. Every rank polls the file by itself, every 50 ms, until its first step.
#[unsafe(no_mangle)]
unsafe extern "C" fn thalweg_core_reader_follow(
    reader: *mut *mut NativeReader,
    path: *const c_char,
    timeout: f64,
    table: *const ThalwegMpiTable,
    comm: *mut c_void,
) -> c_int {
    status(|| {
        // SAFETY: from C.
        let (comm, asked) = unsafe {
            let comm = communicator(table, comm)?;
            (comm, place(reader, "the place for the reader").and_then(|p| Ok((p, text(path, "the file's name")?))))
        };
        let (place, path) = apart(asked);
        let (path, wait) = match wait(timeout) {
            Ok(wait) => (path, wait),
            Err(e) => (path.and(Err(e)), Wait::default()),
        };
        let following = Following::open(comm, path, &wait, &layout)?;
        let mut open = ReaderState::new(following.follower.reader().clone());
        open.following = Some(following);
        *place? = Box::into_raw(Box::new(NativeReader(Mutex::new(open))));
        Ok(())
    })
}

/// # Safety
/// See [`crate::pointer`].
#[unsafe(no_mangle)]
unsafe extern "C" fn thalweg_reader_follow(reader: *mut *mut NativeReader, path: *const c_char, timeout: f64) -> c_int {
    // SAFETY: from C.
    unsafe { thalweg_core_reader_follow(reader, path, timeout, null(), std::ptr::null_mut()) }
}

/// # Safety
/// See [`crate::pointer`].
/// # Cost
/// With several ranks a reduction, in which the others wait while rank 0 polls the file every 50 ms, and one more if there is a step.
/// Every rank reads the records of new steps by itself: [`Reader::catch_up`].
#[unsafe(no_mangle)]
unsafe extern "C" fn thalweg_reader_advance(reader: *const NativeReader, to_last: c_int, timeout: f64) -> c_int {
    // SAFETY: from C.
    status(|| unsafe {
        with(reader, |open| {
            let Some(following) = &mut open.following else {
                return Err(wrong("the file was opened, not followed"));
            };
            let next = following.advance(to_last != 0, &wait(timeout)?)?;
            let no = |kind, what: &str| Err(Error::new(kind, what).in_object(open.reader.path()));
            match next {
                Next::Step(_) => {}
                Next::NotYet => return no(ErrorKind::NotReady, "no further step yet"),
                Next::End => return no(ErrorKind::EndOfStream, "the file was closed for good"),
                Next::WriterDied => return no(ErrorKind::PeerLost, "the writer ended without closing the file"),
            }
            // Known facts about variables are those of the earlier steps; noted requests keep referring to the file's state at
            // that time.
            if open.later.last().is_some_and(|reads| !reads.noted.is_empty()) {
                open.later.push(PendingReads::of(following.follower.reader()));
            } else {
                open.later.clear();
            }
            open.reader = following.follower.reader().clone();
            open.variables.clear();
            open.attributes.clear();
            open.names = None;
            Ok(())
        })
    })
}

/// # Safety
/// See [`crate::pointer`].
#[unsafe(no_mangle)]
unsafe extern "C" fn thalweg_reader_step(reader: *const NativeReader) -> u64 {
    // SAFETY: from C.
    failure::value(0, || unsafe {
        with(reader, |open| match &open.following {
            Some(following) => Ok(following.follower.step()),
            None => Err(wrong("the file was opened, not followed")),
        })
    })
}

/// # Safety
/// See [`crate::pointer`].
#[unsafe(no_mangle)]
unsafe extern "C" fn thalweg_reader_close(reader: *mut NativeReader) {
    if !reader.is_null() {
        status(|| {
            // SAFETY: from C.
            drop(unsafe { take_back(reader, "reader") }?);
            Ok(())
        });
    }
}

/// Uses an open file.
///
/// # Safety
/// See [`crate::pointer`].
unsafe fn with<T>(reader: *const NativeReader, f: impl FnOnce(&mut ReaderState) -> Result<T>) -> Result<T> {
    // SAFETY: from C.
    let reader = unsafe { handle(reader, "reader") }?;
    f(&mut reader.0.lock())
}

/// # Safety
/// See [`crate::pointer`].
#[unsafe(no_mangle)]
unsafe extern "C" fn thalweg_reader_set_digits(reader: *const NativeReader, digits: u32) -> c_int {
    // SAFETY: from C.
    status(|| unsafe {
        with(reader, |open| {
            let digits = Digits::new(digits);
            open.reader = open.reader.clone().with_digits(digits);
            if let Some(following) = &mut open.following {
                following.follower.set_digits(digits);
            }
            Ok(())
        })
    })
}

/// # Safety
/// See [`crate::pointer`].
#[unsafe(no_mangle)]
unsafe extern "C" fn thalweg_reader_set_reads(reader: *const NativeReader, reads: *const c_char) -> c_int {
    // SAFETY: from C.
    status(|| unsafe {
        let reads: Reads = text(reads, "the comparisons of checksums")?.parse()?;
        with(reader, |open| {
            open.reader = open.reader.clone().with_reads(reads);
            if let Some(following) = &mut open.following {
                following.follower.set_reads(reads);
            }
            Ok(())
        })
    })
}

/// # Safety
/// See [`crate::pointer`].
#[unsafe(no_mangle)]
unsafe extern "C" fn thalweg_reader_blocks_without_checksum(reader: *const NativeReader, blocks: *mut u64) -> c_int {
    // SAFETY: from C.
    status(|| unsafe {
        let blocks = pointer::out(blocks, "the place for the number")?;
        with(reader, |open| {
            *blocks = open.reader.blocks_without_checksum();
            Ok(())
        })
    })
}

/// # Safety
/// See [`crate::pointer`].
#[unsafe(no_mangle)]
unsafe extern "C" fn thalweg_reader_info(reader: *const NativeReader, info: *mut CInfo) -> c_int {
    // SAFETY: from C.
    status(|| unsafe {
        let info = pointer::out(info, "the structure for the file's facts")?;
        with(reader, |open| {
            let status = open.reader.status();
            *info = CInfo {
                steps: status.steps,
                finished: c_int::from(status.finished),
                torn_bytes: status.torn_bytes,
                variables: open.reader.variables().len(),
                attributes: open.reader.attributes().len(),
                groups: status.groups.len(),
            };
            Ok(())
        })
    })
}

/// The name at a place of one of the lists; null beyond the last.
///
/// # Safety
/// See [`crate::pointer`].
unsafe fn name_of(reader: *const NativeReader, at: usize, list: fn(&Names) -> &[CString]) -> *const c_char {
    // SAFETY: from C.
    failure::value(null(), || unsafe {
        with(reader, |open| Ok(list(open.names()).get(at).map_or(null(), |name| name.as_ptr())))
    })
}

/// # Safety
/// See [`crate::pointer`].
#[unsafe(no_mangle)]
unsafe extern "C" fn thalweg_reader_variable_name(reader: *const NativeReader, at: usize) -> *const c_char {
    // SAFETY: from C.
    unsafe { name_of(reader, at, |names| &names.variables) }
}

/// # Safety
/// See [`crate::pointer`].
#[unsafe(no_mangle)]
unsafe extern "C" fn thalweg_reader_attribute_name(reader: *const NativeReader, at: usize) -> *const c_char {
    // SAFETY: from C.
    unsafe { name_of(reader, at, |names| &names.attributes) }
}

/// # Safety
/// See [`crate::pointer`].
#[unsafe(no_mangle)]
unsafe extern "C" fn thalweg_reader_group_name(reader: *const NativeReader, at: usize) -> *const c_char {
    // SAFETY: from C.
    unsafe { name_of(reader, at, |names| &names.groups) }
}

/// # Safety
/// See [`crate::pointer`].
#[unsafe(no_mangle)]
unsafe extern "C" fn thalweg_reader_variable(
    reader: *const NativeReader,
    name: *const c_char,
    variable: *mut *const CVariable,
) -> c_int {
    // SAFETY: from C.
    status(|| unsafe {
        let variable = pointer::out(variable, "the place for the variable")?;
        *variable = null();
        let name = text(name, "the variable's name")?;
        with(reader, |open| {
            *variable = &raw const open.variable(name)?.c;
            Ok(())
        })
    })
}

/// # Safety
/// See [`crate::pointer`].
#[unsafe(no_mangle)]
unsafe extern "C" fn thalweg_reader_shape(
    reader: *const NativeReader,
    name: *const c_char,
    step: i64,
    capacity: usize,
    shape: *mut u64,
    ndim: *mut usize,
) -> c_int {
    // SAFETY: from C.
    status(|| unsafe {
        let ndim = pointer::out(ndim, "the place for the number of dimensions")?;
        let name = text(name, "the variable's name")?;
        let found = with(reader, |open| {
            let step = open.steps(name, step, 1)?[0];
            open.reader.shape(name, step)
        })?;
        *ndim = found.len();
        if found.len() > capacity || (shape.is_null() && !found.is_empty()) {
            return Err(wrong(format!("room for {capacity} of {} dimensions", found.len())).in_variable(name));
        }
        for (d, extent) in found.into_iter().enumerate() {
            shape.add(d).write_unaligned(extent);
        }
        Ok(())
    })
}

/// # Safety
/// See [`crate::pointer`].
#[unsafe(no_mangle)]
unsafe extern "C" fn thalweg_reader_summary(
    reader: *const NativeReader,
    name: *const c_char,
    step: i64,
    count: u64,
    summary: *mut CSummary,
) -> c_int {
    // SAFETY: from C.
    status(|| unsafe {
        let summary = pointer::out(summary, "the place for the summary")?;
        let name = text(name, "the variable's name")?;
        let joined = with(reader, |open| {
            let steps = open.steps(name, step, count)?;
            // Steps without the variable between them have no blocks.
            open.reader.summary(name, steps[0]..steps[steps.len() - 1].saturating_add(1))
        })?;
        *summary = CSummary::new(&joined);
        Ok(())
    })
}

/// # Safety
/// See [`crate::pointer`].
#[unsafe(no_mangle)]
unsafe extern "C" fn thalweg_reader_blocks(
    reader: *const NativeReader,
    name: *const c_char,
    step: i64,
    blocks: *mut *mut CBlocks,
) -> c_int {
    // SAFETY: from C.
    status(|| unsafe {
        let blocks = place(blocks, "the place for the blocks")?;
        let name = text(name, "the variable's name")?;
        let found = with(reader, |open| {
            let step = open.steps(name, step, 1)?[0];
            open.reader.blocks(name, step)
        })?;
        *blocks = Box::into_raw(CBlocks::new(found));
        Ok(())
    })
}

/// # Safety
/// See [`crate::pointer`].
#[unsafe(no_mangle)]
unsafe extern "C" fn thalweg_blocks_free(blocks: *mut CBlocks) {
    if !blocks.is_null() {
        status(|| {
            // SAFETY: from C.
            drop(unsafe { take_back(blocks, "blocks") }?);
            Ok(())
        });
    }
}

/// # Safety
/// See [`crate::pointer`].
#[unsafe(no_mangle)]
unsafe extern "C" fn thalweg_reader_attribute(
    reader: *const NativeReader,
    name: *const c_char,
    attribute: *mut *const CAttribute,
) -> c_int {
    // SAFETY: from C.
    status(|| unsafe {
        let attribute = pointer::out(attribute, "the place for the attribute")?;
        *attribute = null();
        let name = text(name, "the attribute's name")?;
        with(reader, |open| {
            let kept = match open.attributes.entry(name.to_string()) {
                std::collections::hash_map::Entry::Occupied(known) => known.into_mut(),
                std::collections::hash_map::Entry::Vacant(new) => {
                    new.insert(CachedAttribute::new(&open.reader.attribute(name)?))
                }
            };
            *attribute = &raw const kept.c;
            Ok(())
        })
    })
}

/// # Safety
/// See [`crate::pointer`].
/// # Cost
/// Index entries, without values; a text is read, from the index.
#[unsafe(no_mangle)]
unsafe extern "C" fn thalweg_get_bytes(
    reader: *const NativeReader,
    request: *const CRequest,
    bytes: *mut u64,
) -> c_int {
    // SAFETY: from C.
    status(|| unsafe {
        let bytes = pointer::out(bytes, "the place for the number of bytes")?;
        let request = handle(request, "request")?;
        with(reader, |open| {
            let mut alone = PendingReads::of(&open.reader);
            *bytes = open.note(request, &mut alone)?;
            Ok(())
        })
    })
}

/// # Safety
/// See [`crate::pointer`].
#[unsafe(no_mangle)]
unsafe extern "C" fn thalweg_get(reader: *const NativeReader, request: *const CRequest) -> c_int {
    // SAFETY: from C.
    status(|| unsafe {
        let request = handle(request, "request")?;
        with(reader, |open| {
            let mut alone = PendingReads::of(&open.reader);
            open.ready(request, &mut alone)?;
            alone.perform()
        })
    })
}

/// # Safety
/// See [`crate::pointer`].
#[unsafe(no_mangle)]
unsafe extern "C" fn thalweg_read(
    reader: *const NativeReader,
    name: *const c_char,
    step: i64,
    selection: *const CSelection,
    data: *mut c_void,
    bytes: u64,
) -> c_int {
    let request = CRequest { name, check_type: 0, number: -1, step, steps: 1, selection, memory: null(), data, bytes };
    // SAFETY: from C.
    unsafe { thalweg_get(reader, &request) }
}

/// # Safety
/// See [`crate::pointer`]; the memory is the library's until the next perform.
/// # Cost
/// The read is planned twice: alone, to check the request, then in the batch. Texts are read here and kept until the next perform.
#[unsafe(no_mangle)]
unsafe extern "C" fn thalweg_get_deferred(reader: *const NativeReader, request: *const CRequest) -> c_int {
    // SAFETY: from C.
    status(|| unsafe {
        let request = handle(request, "request")?;
        with(reader, |open| {
            // A request that is refused is not to be in the batch.
            let mut alone = PendingReads::of(&open.reader);
            open.ready(request, &mut alone)?;
            let mut last = match open.later.pop() {
                Some(last) => last,
                None => PendingReads::of(&open.reader),
            };
            let noted = open.ready(request, &mut last);
            open.later.push(last);
            noted
        })
    })
}

/// # Safety
/// See [`crate::pointer`].
/// # Cost
/// As [`Batch::perform`], once for each state of the file in which requests were noted.
#[unsafe(no_mangle)]
unsafe extern "C" fn thalweg_perform(reader: *const NativeReader) -> c_int {
    // SAFETY: from C.
    status(|| unsafe {
        with(reader, |open| std::mem::take(&mut open.later).into_iter().try_for_each(|reads| reads.perform()))
    })
}
