//! Outputs: open, put, close.

use super::failure::of_program;
use super::pending::NativePending;
use super::session::NativeSession;
use super::{
    CMemory, check_type, communicator_to_agree, failure, handle, memory_selection, numbers, place, pointer, status,
    take_back, text, text_or_empty, wrong,
};
use std::ffi::{CStr, c_char, c_int, c_void};
use std::sync::Arc;
use thalweg_comm::Communicator;
use thalweg_comm_mpi::ThalwegMpiTable;
use thalweg_io::{BlockBox, Mode, Output, Session, Values, output};
use thalweg_types::mutex::Mutex;
use thalweg_types::{Error, Result};

/// `thalweg_output`.
struct NativeOutput {
    /// `None` once the program has come to its end.
    output: Arc<Mutex<Option<Output<'static>>>>,
    /// Counted by the session's close.
    _session: Arc<Session>,
}

/// `thalweg_box`.
#[repr(C)]
struct CBox {
    ndim: usize,
    shape: *const u64,
    offset: *const u64,
    count: *const u64,
}

/// `thalweg_block_data`.
#[repr(C)]
struct CBlockData {
    data: *const c_void,
    bytes: u64,
    check_type: c_int,
    number: c_int,
    place: *const CBox,
    memory: *const CMemory,
    deferred: c_int,
}

/// `THALWEG_COMMITTED`.
const COMMITTED: c_int = 2;
/// `THALWEG_LENT`.
const LENT: c_int = 3;

/// Arguments of an open.
struct OutputArguments<'c> {
    out: &'c mut *mut NativeOutput,
    group: &'c str,
    path: &'c str,
    mode: Mode,
}

/// `thalweg_mode`; 3 is the mode of `thalweg_output_open_after`.
fn mode(number: c_int, after: u64) -> Result<Mode> {
    match number {
        0 => Ok(Mode::Write),
        1 => Ok(Mode::Append),
        2 => Ok(Mode::Update),
        3 => Ok(Mode::AppendAfter(after)),
        other => Err(wrong(format!("{other} is no mode"))),
    }
}

/// Opens over `comm`, or declines where the call makes no sense, so that no other rank waits.
fn open(arguments: Result<OutputArguments<'_>>, session: &NativeSession, comm: Box<dyn Communicator>) -> Result<()> {
    let OutputArguments { out, group, path, mode } = match arguments {
        Ok(arguments) => arguments,
        Err(e) => return Err(output::decline(&*comm, e)),
    };
    if let Err(e) = session.session.group(group) {
        return Err(output::decline(&*comm, e.in_group(group)));
    }
    let output = session.session.open(group, path, mode, comm)?;
    let output = Arc::new(Mutex::new(Some(output)));
    session.outputs.add(&output);
    let made = NativeOutput { output, _session: session.session.clone() };
    *out = Box::into_raw(Box::new(made));
    Ok(())
}

/// # Safety
/// See [`crate::pointer`].
unsafe fn open_arguments<'c>(
    out: *mut *mut NativeOutput,
    group: *const c_char,
    path: *const c_char,
    number: c_int,
    after: u64,
) -> Result<OutputArguments<'c>> {
    // SAFETY: from C.
    unsafe {
        let out = place(out, "the place for the output")?;
        Ok(OutputArguments {
            out,
            group: text(group, "the group's name")?,
            path: text(path, "the file's name")?,
            mode: mode(number, after)?,
        })
    }
}

/// # Safety
/// See [`crate::pointer`].
/// # Cost
/// As [`thalweg_core_output_open`]. In a session of MPI also a barrier and `MPI_Comm_dup`, at every call: only duplicates of the
/// program's communicators are reused, as by `thalweg_output_open_mpi`.
#[unsafe(no_mangle)]
unsafe extern "C" fn thalweg_output_open(
    out: *mut *mut NativeOutput,
    session: *const NativeSession,
    group: *const c_char,
    path: *const c_char,
    number: c_int,
) -> c_int {
    // 3 is not of this call.
    let number = if number == 3 { -1 } else { number };
    // SAFETY: from C.
    status(|| unsafe { of_session(out, session, group, path, number, 0) })
}

/// # Safety
/// See [`crate::pointer`].
#[unsafe(no_mangle)]
unsafe extern "C" fn thalweg_output_open_after(
    out: *mut *mut NativeOutput,
    session: *const NativeSession,
    group: *const c_char,
    path: *const c_char,
    step: u64,
) -> c_int {
    // SAFETY: from C.
    status(|| unsafe { of_session(out, session, group, path, 3, step) })
}

/// Opens over the ranks of the session.
///
/// # Safety
/// See [`crate::pointer`].
unsafe fn of_session(
    out: *mut *mut NativeOutput,
    session: *const NativeSession,
    group: *const c_char,
    path: *const c_char,
    number: c_int,
    after: u64,
) -> Result<()> {
    // SAFETY: from C.
    let (session, arguments) =
        unsafe { (handle(session, "session")?, open_arguments(out, group, path, number, after)) };
    let comm = session.session.comm().duplicate()?;
    open(arguments, session, comm)
}

/// # Safety
/// See [`crate::pointer`]; `table` and `comm` as in `MpiCommunicator::from_raw`.
/// # Cost
/// One reduction, in which the ranks also agree on a duplicate of the communicator, and the collective calls of the group's methods,
/// which their first pages list; further ones with full consistency, and for methods that end outputs later than close.
#[unsafe(no_mangle)]
unsafe extern "C" fn thalweg_core_output_open(
    out: *mut *mut NativeOutput,
    session: *const NativeSession,
    group: *const c_char,
    path: *const c_char,
    number: c_int,
    after: u64,
    table: *const ThalwegMpiTable,
    comm: *mut c_void,
) -> c_int {
    status(|| {
        // SAFETY: from C.
        let (comm, arguments) =
            unsafe { (communicator_to_agree(table, comm)?, open_arguments(out, group, path, number, after)) };
        // SAFETY: from C.
        match unsafe { handle(session, "session") } {
            Ok(session) => open(arguments, session, comm),
            Err(e) => Err(output::decline(&*comm, e)),
        }
    })
}

/// # Safety
/// See [`crate::pointer`].
#[unsafe(no_mangle)]
unsafe extern "C" fn thalweg_output_step(out: *const NativeOutput) -> u64 {
    // SAFETY: from C.
    failure::value(0, || unsafe { handle(out, "output") }?.with(|output| Ok(output.step())))
}

/// # Safety
/// See [`crate::pointer`].
#[unsafe(no_mangle)]
unsafe extern "C" fn thalweg_output_reserve(out: *const NativeOutput, bytes: u64) -> c_int {
    status(|| {
        // SAFETY: from C.
        unsafe { handle(out, "output") }?.with(|output| {
            output.group_size(bytes);
            Ok(())
        })
    })
}

/// # Safety
/// See [`crate::pointer`].
unsafe fn block_box(place: *const CBox) -> Result<Option<BlockBox>> {
    // SAFETY: from C.
    let Some(place) = (unsafe { place.as_ref() }) else { return Ok(None) };
    let optional = |start: *const u64, what: &str| {
        // SAFETY: from C: the stated number of values.
        (!start.is_null()).then(|| unsafe { numbers(start, place.ndim, what) }).transpose()
    };
    Ok(Some(BlockBox {
        shape: optional(place.shape, "the box's shape")?,
        offset: optional(place.offset, "the box's offset")?,
        // SAFETY: from C: the stated number of values.
        count: unsafe { numbers(place.count, place.ndim, "the box's count") }?,
    }))
}

fn ended() -> Error {
    wrong("the program has ended")
}

impl NativeOutput {
    /// Calls on one output take turns.
    fn with<T>(&self, f: impl FnOnce(&mut Output<'static>) -> Result<T>) -> Result<T> {
        f(self.output.lock().as_mut().ok_or_else(ended)?)
    }

    /// The output, for its end.
    fn take(&self) -> Result<Output<'static>> {
        self.output.lock().take().ok_or_else(ended)
    }

    /// Writes one block.
    ///
    /// # Safety
    /// See [`crate::pointer`]; memory that is deferred stays unchanged until close, or as [`LENT`] until the output has ended.
    unsafe fn put(&self, name: &str, block: &CBlockData) -> Result<()> {
        // SAFETY: from C.
        let (place, memory) = unsafe { (block_box(block.place)?, memory_selection(block.memory)?) };
        let output = &mut self.output.lock();
        let resolved = output.as_mut().ok_or_else(ended)?.resolve(name, place, memory.as_ref())?;
        check_type(block.check_type, block.number, resolved.element(), name)?;
        let length = resolved.bytes()?;
        if let Some(length) = length.filter(|length| block.bytes != 0 && block.bytes != *length) {
            let what = format!("{} bytes were given, the block takes {length}", block.bytes);
            return Err(wrong(what).in_variable(name));
        }
        match block.deferred {
            COMMITTED => return super::memory::commit(resolved, block.data.cast_mut()),
            // SAFETY: from C.
            LENT => return unsafe { super::memory::lend(resolved, block.data) },
            _ => {}
        }
        let data: &'static [u8] = match length {
            Some(length) => {
                // SAFETY: from C. Kept beyond this call only where the program promises that it stays unchanged.
                unsafe { pointer::bytes(block.data, length, name) }?
            }
            // SAFETY: from C.
            None if block.bytes != 0 => unsafe { pointer::bytes(block.data, block.bytes, name) }?,
            // SAFETY: from C: a text ends with a zero byte.
            None => unsafe { pointer::optional_text(block.data.cast()) }
                .map(CStr::to_bytes)
                .ok_or_else(|| wrong(format!("{name}: a null pointer for a text")))?,
        };
        resolved.write(if block.deferred != 0 { Values::Deferred(data) } else { Values::Copied(data) })
    }
}

/// # Safety
/// See [`crate::pointer`]; deferred memory stays unchanged until close.
#[unsafe(no_mangle)]
unsafe extern "C" fn thalweg_put(out: *const NativeOutput, name: *const c_char, block: *const CBlockData) -> c_int {
    status(|| {
        // SAFETY: from C.
        unsafe {
            let out = handle(out, "output")?;
            out.put(text(name, "the variable's name")?, handle(block, "block")?)
        }
    })
}

const PLAIN: CBlockData = CBlockData {
    data: std::ptr::null(),
    bytes: 0,
    check_type: 0,
    number: -1,
    place: std::ptr::null(),
    memory: std::ptr::null(),
    deferred: 0,
};

/// # Safety
/// See [`crate::pointer`].
#[unsafe(no_mangle)]
unsafe extern "C" fn thalweg_write(out: *const NativeOutput, name: *const c_char, data: *const c_void) -> c_int {
    // SAFETY: from C.
    unsafe { thalweg_put(out, name, &CBlockData { data, ..PLAIN }) }
}

/// # Safety
/// See [`crate::pointer`]; the memory stays unchanged until close.
#[unsafe(no_mangle)]
unsafe extern "C" fn thalweg_write_deferred(
    out: *const NativeOutput,
    name: *const c_char,
    data: *const c_void,
) -> c_int {
    // SAFETY: from C.
    unsafe { thalweg_put(out, name, &CBlockData { data, deferred: 1, ..PLAIN }) }
}

/// # Safety
/// See [`crate::pointer`].
#[unsafe(no_mangle)]
unsafe extern "C" fn thalweg_commit(
    out: *const NativeOutput,
    name: *const c_char,
    place: *const CBox,
    memory: *mut c_void,
) -> c_int {
    // SAFETY: from C.
    unsafe { thalweg_put(out, name, &CBlockData { data: memory, place, deferred: COMMITTED, ..PLAIN }) }
}

/// # Safety
/// See [`crate::pointer`]; the memory stays unchanged until the output has ended.
#[unsafe(no_mangle)]
unsafe extern "C" fn thalweg_lend(
    out: *const NativeOutput,
    name: *const c_char,
    place: *const CBox,
    data: *const c_void,
) -> c_int {
    // SAFETY: from C.
    unsafe { thalweg_put(out, name, &CBlockData { data, place, deferred: LENT, ..PLAIN }) }
}

/// # Safety
/// See [`crate::pointer`].
#[unsafe(no_mangle)]
unsafe extern "C" fn thalweg_write_box(
    out: *const NativeOutput,
    name: *const c_char,
    place: *const CBox,
    data: *const c_void,
) -> c_int {
    // SAFETY: from C.
    unsafe { thalweg_put(out, name, &CBlockData { data, place, ..PLAIN }) }
}

/// # Safety
/// See [`crate::pointer`].
#[unsafe(no_mangle)]
unsafe extern "C" fn thalweg_output_close(out: *mut NativeOutput) -> c_int {
    status(|| {
        // SAFETY: from C.
        let output = unsafe { take_back(out, "output") }?;
        output.take()?.close().map(|_| ())
    })
}

/// # Safety
/// See [`crate::pointer`].
#[unsafe(no_mangle)]
unsafe extern "C" fn thalweg_output_start_close(out: *mut NativeOutput, pending: *mut *mut NativePending) -> c_int {
    status(|| {
        // SAFETY: from C.
        let pending = unsafe { place(pending, "the place for the pending output") };
        // SAFETY: from C. Without a place for the result, the other ranks must not wait for this one's close.
        let output = unsafe { take_back(out, "output") }?.take()?;
        let started = output.start_close();
        *pending? = Box::into_raw(Box::new(NativePending(started)));
        Ok(())
    })
}

/// # Safety
/// See [`crate::pointer`].
#[unsafe(no_mangle)]
unsafe extern "C" fn thalweg_output_abandon(out: *mut NativeOutput, why: *const c_char) -> c_int {
    status(|| {
        // SAFETY: from C.
        let output = unsafe { take_back(out, "output") }?;
        // SAFETY: from C.
        let why = of_program(unsafe { text_or_empty(why, "the reason") }.unwrap_or(""));
        // The method may have nothing to fail at (NULL): the caller still gave up.
        output.take()?.abandon(why).and_then(|_| Err(of_program("")))
    })
}

/// # Safety
/// See [`crate::pointer`].
#[unsafe(no_mangle)]
unsafe extern "C" fn thalweg_output_drop(out: *mut NativeOutput) {
    if !out.is_null() {
        status(|| {
            // SAFETY: from C.
            drop(unsafe { take_back(out, "output") }?);
            Ok(())
        });
    }
}
