//! The border of the door for MPI-IO: what `crates/doors/mpiio/mpi/door.c` calls.
//!
//! Every call returns the number of an error class ([`thalweg_mpiio::Class`]), 0 where all is well. A class that says too little is
//! explained on the standard error stream, once for each text.
#![allow(unsafe_code)] // exported symbols, and pointers from C

use crate::pointer;
use std::ffi::{c_char, c_int, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::slice;
use std::sync::OnceLock;
use thalweg_comm::Communicator;
use thalweg_comm::alone::Alone;
use thalweg_comm_mpi::{MpiCommunicator, ThalwegMpiTable};
use thalweg_io::mounts;
use thalweg_layout::{Layout, WriterId};
use thalweg_mpiio::{At, Caller, Class, Failure, File, Given, Memory, MemoryMut, Mode, Outcome, Whence, tree};
use thalweg_profile::calls::Begin;
use thalweg_view::Pattern;

/// `ThalwegMpiioMemory`: memory of a program.
#[repr(C)]
pub struct CMemory {
    /// The program's address.
    start: *mut c_void,
    /// Number of instances; of bytes where there is no pattern.
    count: u64,
    /// Null: one run of bytes.
    pattern: *const Pattern,
}

/// Prefix of paths that are ours without a mount.
const PREFIX: &str = thalweg_layout::mount::NAMED;

/// Runs a call: 0, or the number of its class. No panic crosses into C.
fn classed(body: impl FnOnce() -> Outcome<()>) -> c_int {
    let failure = match catch_unwind(AssertUnwindSafe(body)) {
        Ok(Ok(())) => return 0,
        Ok(Err(failure)) => failure,
        Err(_) => Failure::new(Class::Other, "a call of MPI-IO panicked"),
    };
    if !failure.class.explains_itself() {
        thalweg_warnings::tell_once(&format!("MPI-IO: {failure}"));
    }
    c_int::from(failure.class as u8)
}

fn wrong(what: &str) -> Failure {
    Failure::new(Class::Argument, what)
}

impl From<pointer::BadPointer> for Failure {
    fn from(bad: pointer::BadPointer) -> Failure {
        wrong(&bad.text)
    }
}

/// The file of a handle.
///
/// # Safety
/// Null, or a handle that was not given back.
unsafe fn file<'c>(file: *const File) -> Outcome<&'c File> {
    // SAFETY: as the caller promises.
    unsafe { file.as_ref() }.ok_or_else(|| wrong("the file is a null pointer"))
}

/// The mount's layout and the name in it; `None` for a path that is not ours.
fn found(path: &str) -> Outcome<Option<(std::sync::Arc<dyn Layout>, String)>> {
    let mounts = mounts::of_process()?;
    if let Some(at) = mounts.place_named(path)? {
        return Ok(Some((at.layout.clone(), at.name)));
    }
    let (path, ours) = path.strip_prefix(PREFIX).map_or((path, false), |rest| (rest, true));
    let at = mounts.place(path)?;
    Ok((ours || at.mount.is_some()).then(|| (at.layout.clone(), at.name)))
}

/// 1: the path is ours; 0: it is another's; negative: a class, for a mount table that cannot be read.
#[unsafe(no_mangle)]
unsafe extern "C" fn thalweg_core_mpiio_is_ours(path: *const c_char) -> c_int {
    let mut ours = false;
    let class = classed(|| {
        // SAFETY: from C. A path that is no UTF-8 is below no mount.
        if let Ok(path) = unsafe { pointer::text(path, "the path") } {
            // What is wrong with a mount that the path is below is reported when it is opened.
            ours = match mounts::of_process()?.place(path.strip_prefix(PREFIX).unwrap_or(path)) {
                Ok(at) => at.mount.is_some() || path.starts_with(PREFIX),
                Err(_) => true,
            };
        }
        Ok(())
    });
    if class == 0 { c_int::from(ours) } else { -class }
}

/// Hints of C: keys and values in turn, each with a NUL behind it.
///
/// # Safety
/// `bytes` bytes at `hints`, which may be null.
unsafe fn hints_of(hints: *const c_char, bytes: u64) -> Given {
    if hints.is_null() {
        return Given::default();
    }
    // SAFETY: as the caller promises.
    let bytes = unsafe { slice::from_raw_parts(hints.cast::<u8>(), bytes as usize) };
    let mut words = bytes.split(|byte| *byte == 0).map(|word| std::str::from_utf8(word).unwrap_or(""));
    Given::of(std::iter::from_fn(|| Some((words.next()?, words.next()?))))
}

/// # Safety
/// `table` and `comm` as in `MpiCommunicator::from_raw`; both null for a file of one process. Hints as in [`hints_of`].
#[unsafe(no_mangle)]
unsafe extern "C" fn thalweg_core_mpiio_open(
    out: *mut *mut File,
    path: *const c_char,
    mode: u32,
    hints: *const c_char,
    hints_bytes: u64,
    table: *const ThalwegMpiTable,
    comm: *mut c_void,
) -> c_int {
    static WRITER: OnceLock<WriterId> = OnceLock::new();
    classed(|| {
        let comm: Box<dyn Communicator> = match table.is_null() {
            true => Box::new(Alone::new()),
            // SAFETY: as the caller promises.
            false => Box::new(unsafe { MpiCommunicator::from_raw(table, comm) }?),
        };
        // SAFETY: from C.
        let at = unsafe { pointer::text(path, "the path") }.map_err(Failure::from).and_then(found);
        let at = at.and_then(|found| found.ok_or_else(|| wrong("a path below no mount")));
        crate::leaving::listen();
        let writer = *WRITER.get_or_init(thalweg_open_file::writer);
        let (at, mode) = match Mode::of_bits(mode) {
            Ok(mode) => (at, mode),
            // The same on all ranks, or a mistake of one of them that all hear of.
            Err(failure) => (Err(failure), Mode::of_bits(1)?),
        };
        // SAFETY: from C.
        let hints = unsafe { hints_of(hints, hints_bytes) };
        let (profiled, at) = match thalweg_profile::requested() {
            Ok(profiled) => (profiled, at),
            Err(e) => (false, Err(e.into())),
        };
        let file = File::open(comm, at, mode, writer, hints, profiled)?;
        // SAFETY: from C.
        *unsafe { pointer::out(out, "place for the file") }? = Box::into_raw(Box::new(file));
        Ok(())
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn thalweg_core_mpiio_close(file: *mut File) -> c_int {
    classed(|| {
        if file.is_null() {
            return Err(wrong("the file is a null pointer"));
        }
        // SAFETY: made by `thalweg_core_mpiio_open`, and given back once.
        unsafe { Box::from_raw(file) }.close()
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn thalweg_core_mpiio_delete(path: *const c_char) -> c_int {
    classed(|| {
        // SAFETY: from C.
        let path = unsafe { pointer::text(path, "the path") }?;
        let (layout, name) = found(path)?.ok_or_else(|| wrong("a path below no mount"))?;
        Ok(layout.remove(&name)?)
    })
}

/// Whether a profile of the file is taken: then its calls are told.
#[unsafe(no_mangle)]
unsafe extern "C" fn thalweg_core_mpiio_is_profiled(of: *const File) -> c_int {
    // SAFETY: null, or a file.
    c_int::from(unsafe { of.as_ref() }.is_some_and(|of| of.profile().is_some()))
}

/// A call of a profiled file begins: its time, and that which the rank has waited so far.
#[unsafe(no_mangle)]
unsafe extern "C" fn thalweg_core_mpiio_call_begins(of: *const File, at: *mut i64, waited: *mut u64) {
    classed(|| {
        // SAFETY: from C.
        let (of, at, waited) = unsafe { (file(of)?, pointer::out(at, "place")?, pointer::out(waited, "place")?) };
        let begin = of.profile().map(thalweg_mpiio::profile::Profile::begins).unwrap_or_default();
        (*at, *waited) = (begin.at, begin.waited);
        Ok(())
    });
}

/// The call ends; `name` is without `MPI_File_`.
#[unsafe(no_mangle)]
unsafe extern "C" fn thalweg_core_mpiio_call_ends(
    of: *const File,
    name: *const c_char,
    at: i64,
    waited: u64,
    bytes: u64,
) {
    classed(|| {
        // SAFETY: from C.
        let (of, name) = unsafe { (file(of)?, pointer::text(name, "the name of a call")?) };
        if let Some(profile) = of.profile() {
            profile.ends(Begin { at, waited }, name, bytes);
        }
        Ok(())
    });
}

/// The pattern of a datatype, from its words ([`tree`]).
#[unsafe(no_mangle)]
unsafe extern "C" fn thalweg_core_mpiio_pattern(out: *mut *mut Pattern, words: *const i64, count: u64) -> c_int {
    classed(|| {
        // SAFETY: from C: `count` numbers.
        let words = match words.is_null() {
            true => &[][..],
            false => unsafe { slice::from_raw_parts(words, count as usize) },
        };
        let pattern = tree::datatype(words)?.pattern()?;
        // SAFETY: from C.
        *unsafe { pointer::out(out, "place for the pattern") }? = Box::into_raw(Box::new(pattern));
        Ok(())
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn thalweg_core_mpiio_pattern_free(pattern: *mut Pattern) {
    if !pattern.is_null() {
        // SAFETY: made by `thalweg_core_mpiio_pattern`, and given back once.
        drop(unsafe { Box::from_raw(pattern) });
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn thalweg_core_mpiio_pattern_extent(pattern: *const Pattern) -> i64 {
    // SAFETY: null, or from `thalweg_core_mpiio_pattern`.
    unsafe { pattern.as_ref() }.map_or(0, Pattern::extent)
}

/// A pattern that C has, or its failure to make one.
///
/// # Safety
/// Null, or from `thalweg_core_mpiio_pattern`.
unsafe fn pattern(pattern: *const Pattern, what: &str) -> Outcome<Pattern> {
    // SAFETY: as the caller promises.
    unsafe { pattern.as_ref() }.cloned().ok_or_else(|| Failure::new(Class::Type, format!("no pattern of the {what}")))
}

/// Collective. `displacement`: negative for `MPI_DISPLACEMENT_CURRENT`. A null pattern is this rank's failure.
#[unsafe(no_mangle)]
unsafe extern "C" fn thalweg_core_mpiio_set_view(
    of: *const File,
    displacement: i64,
    etype: *const Pattern,
    filetype: *const Pattern,
    hints: *const c_char,
    hints_bytes: u64,
) -> c_int {
    classed(|| {
        // SAFETY: from C.
        let (of, etype, filetype, hints) = unsafe {
            (file(of)?, pattern(etype, "etype"), pattern(filetype, "filetype"), hints_of(hints, hints_bytes))
        };
        of.set_view(u64::try_from(displacement).ok(), etype, filetype, &hints)
    })
}

/// Collective: takes over hints.
#[unsafe(no_mangle)]
unsafe extern "C" fn thalweg_core_mpiio_set_hints(of: *const File, hints: *const c_char, hints_bytes: u64) -> c_int {
    // SAFETY: from C.
    classed(|| unsafe { file(of)?.set_hints(&hints_of(hints, hints_bytes)) })
}

/// Key and value of a hint in use, by its number from 0, each with a NUL behind it, in places for `room` bytes each. Returns whether
/// there is one of this number; places stay as they are if there is none. A value without room is empty.
#[unsafe(no_mangle)]
unsafe extern "C" fn thalweg_core_mpiio_hint(
    of: *const File,
    number: u64,
    key: *mut c_char,
    value: *mut c_char,
    room: u64,
) -> c_int {
    let mut found = false;
    let class = classed(|| {
        // SAFETY: from C.
        let all = unsafe { file(of) }?.hints_in_use();
        let Some((name, text)) = all.get(number as usize) else { return Ok(()) };
        for (place, word) in [(key, *name), (value, text.as_str())] {
            // SAFETY: from C: `room` bytes, which nothing else uses meanwhile.
            let place = unsafe { pointer::bytes_mut(place.cast(), room, "place for a hint") }?;
            let word = if word.len() < place.len() { word } else { "" };
            let Some((here, rest)) = place.split_at_mut_checked(word.len()) else { continue };
            here.copy_from_slice(word.as_bytes());
            rest.iter_mut().take(1).for_each(|byte| *byte = 0);
        }
        found = true;
        Ok(())
    });
    c_int::from(found && class == 0)
}

fn whence(number: c_int) -> Outcome<Whence> {
    match number {
        0 => Ok(Whence::Set),
        1 => Ok(Whence::Current),
        2 => Ok(Whence::End),
        _ => Err(wrong("neither MPI_SEEK_SET nor MPI_SEEK_CUR nor MPI_SEEK_END")),
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn thalweg_core_mpiio_seek(of: *const File, offset: i64, from: c_int, shared: c_int) -> c_int {
    // SAFETY: from C.
    classed(|| match (unsafe { file(of) }?, shared) {
        (of, 0) => of.seek(offset, whence(from)?),
        (of, _) => of.seek_shared(offset, whence(from)?),
    })
}

/// A number of a file: see the enumeration in `thalweg_mpiio.h`.
#[unsafe(no_mangle)]
unsafe extern "C" fn thalweg_core_mpiio_ask(of: *const File, what: c_int, argument: i64, answer: *mut i64) -> c_int {
    classed(|| {
        // SAFETY: from C.
        let of = unsafe { file(of) }?;
        let number = match what {
            0 => of.length()?,
            1 => of.position()?,
            2 => of.shared_position()?,
            3 => of.byte_offset(u64::try_from(argument).map_err(|_| wrong("a negative offset"))?)?,
            4 => u64::from(of.is_atomic()),
            5 => of.displacement(),
            _ => return Err(wrong("an unknown question")),
        };
        let number = i64::try_from(number).map_err(|_| Failure::new(Class::Io, "a number of more than 63 bits"))?;
        // SAFETY: from C.
        *unsafe { pointer::out(answer, "place for the answer") }? = number;
        Ok(())
    })
}

/// Collective: see the enumeration in `thalweg_mpiio.h`.
#[unsafe(no_mangle)]
unsafe extern "C" fn thalweg_core_mpiio_change(of: *const File, what: c_int, argument: i64) -> c_int {
    classed(|| {
        // SAFETY: from C.
        let of = unsafe { file(of) }?;
        // A negative length is beyond every file too, and refused on all ranks.
        let bytes = argument as u64;
        match what {
            0 => of.set_size(bytes),
            1 => of.preallocate(bytes),
            2 => of.set_atomicity(argument != 0),
            3 => of.sync(),
            _ => Err(wrong("an unknown change")),
        }
    })
}

/// Bits of a place: all ranks make the call; they may wait for each other.
const COLLECTIVE: c_int = 8;
const WAITING: c_int = 16;

fn caller(how: c_int) -> Caller {
    match (how & COLLECTIVE != 0, how & WAITING != 0) {
        (false, _) => Caller::OneRank,
        (true, false) => Caller::AllRanks,
        (true, true) => Caller::AllRanksWaiting,
    }
}

fn at(how: c_int, offset: i64) -> Outcome<At> {
    match how & !(COLLECTIVE | WAITING) {
        0 => u64::try_from(offset).map(At::Offset).map_err(|_| wrong("a negative offset")),
        1 => Ok(At::Individual),
        2 => Ok(At::Shared),
        3 => Ok(At::Ordered),
        _ => Err(wrong("an unknown place")),
    }
}

/// All memory that a call touches.
struct Touched<'p> {
    /// Its first byte.
    start: *mut c_void,
    /// Its length in bytes.
    length: u64,
    /// The datatype and where displacement 0 of the first instance is; `None` for one run of bytes.
    instances: Option<(&'p Pattern, i64)>,
}

impl CMemory {
    /// # Safety
    /// Its pattern is null, or from `thalweg_core_mpiio_pattern`.
    unsafe fn touched(&self) -> Outcome<Touched<'_>> {
        let too_large = || wrong("instances of a datatype beyond any memory");
        let at = |displacement: i64| self.start.cast::<u8>().wrapping_offset(displacement as isize).cast();
        // SAFETY: as the caller promises.
        let Some(pattern) = (unsafe { self.pattern.as_ref() }) else {
            return Ok(Touched { start: self.start, length: self.count, instances: None });
        };
        let (low, high) = pattern.true_bounds();
        let size = pattern.size();
        if pattern.is_contiguous() && (self.count <= 1 || u64::try_from(pattern.extent()) == Ok(size)) {
            let length = size.checked_mul(self.count).ok_or_else(too_large)?;
            return Ok(Touched { start: at(low), length, instances: None });
        }
        let last = i64::try_from(self.count.saturating_sub(1)).ok().and_then(|n| n.checked_mul(pattern.extent()));
        let last = last.ok_or_else(too_large)?;
        let low = low.checked_add(last.min(0)).ok_or_else(too_large)?;
        let high = high.checked_add(last.max(0)).ok_or_else(too_large)?;
        let length = if self.count == 0 { 0 } else { high.checked_sub(low).ok_or_else(too_large)? };
        let origin = low.checked_neg().ok_or_else(too_large)?;
        Ok(Touched { start: at(low), length: length.unsigned_abs(), instances: Some((pattern, origin)) })
    }
}

/// Writes. A null `from` is this rank's failure, which calls at [`At::Ordered`] tell the others.
#[unsafe(no_mangle)]
unsafe extern "C" fn thalweg_core_mpiio_write(
    of: *const File,
    how: c_int,
    offset: i64,
    from: *const CMemory,
    moved: *mut u64,
) -> c_int {
    classed(|| {
        // SAFETY: from C; the memory is as long as datatype and count say.
        let (of, at, moved, memory) = unsafe {
            let memory = from.as_ref().ok_or_else(|| Failure::new(Class::Type, "no memory to write from"));
            let memory = memory.and_then(|memory| {
                let touched = memory.touched()?;
                let bytes = pointer::bytes(touched.start, touched.length, "the memory")?;
                Ok(match touched.instances {
                    None => Memory::Run(bytes),
                    Some((pattern, origin)) => Memory::Pattern { pattern, count: memory.count, memory: bytes, origin },
                })
            });
            (file(of)?, at(how, offset), pointer::out(moved, "place for the number of bytes")?, memory)
        };
        // A rank that failed so far takes part in a call in which others wait for it.
        let (at, memory) = at.map_or_else(|failure| (At::Offset(0), Err(failure)), |at| (at, memory));
        *moved = of.write(at, caller(how), memory)?;
        Ok(())
    })
}

/// Reads. A null `into` is this rank's failure, as for `thalweg_core_mpiio_write`.
#[unsafe(no_mangle)]
unsafe extern "C" fn thalweg_core_mpiio_read(
    of: *const File,
    how: c_int,
    offset: i64,
    into: *const CMemory,
    moved: *mut u64,
) -> c_int {
    classed(|| {
        // SAFETY: from C; the memory is as long as datatype and count say, and nothing else uses it meanwhile.
        let (of, at, moved, memory) = unsafe {
            let memory = into.as_ref().ok_or_else(|| Failure::new(Class::Type, "no memory to read into"));
            let memory = memory.and_then(|memory| {
                let touched = memory.touched()?;
                let bytes = pointer::bytes_mut(touched.start, touched.length, "the memory")?;
                Ok(match touched.instances {
                    None => MemoryMut::Run(bytes),
                    Some((pattern, origin)) => {
                        MemoryMut::Pattern { pattern, count: memory.count, memory: bytes, origin }
                    }
                })
            });
            (file(of)?, at(how, offset), pointer::out(moved, "place for the number of bytes")?, memory)
        };
        // A rank that failed so far takes part in a call in which others wait for it.
        let (at, memory) = at.map_or_else(|failure| (At::Offset(0), Err(failure)), |at| (at, memory));
        *moved = of.read(at, caller(how), memory)?;
        Ok(())
    })
}
