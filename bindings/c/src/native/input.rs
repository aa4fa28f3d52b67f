//! Input windows: bytes that owners read ahead in the background.

use super::failure::status;
use super::windows::COptions;
use super::{communicator, handle, place, pointer, take_back, text, wrong};
use std::collections::VecDeque;
use std::ffi::{c_char, c_int, c_void};
use std::sync::Arc;
use std::time::Duration;
use thalweg_comm::Communicator;
use thalweg_comm::agreement::agree;
use thalweg_comm_mpi::ThalwegMpiTable;
use thalweg_comm_processes::Rendezvous;
use thalweg_io::mounts;
use thalweg_layout::Layout;
use thalweg_owners::file::DEFAULT_MEMORY;
use thalweg_owners::{Input, InputWindow, OpenInput, ReadId};
use thalweg_types::Result;
use thalweg_types::mutex::Mutex;

/// `thalweg_input`.
struct NativeInput {
    file: Mutex<Input>,
    due: Due,
}

/// Results whose callbacks are called when the file is no longer locked, so that a callback may use it.
type Due = Arc<Mutex<VecDeque<(Callback, Result<Vec<u8>>)>>>;

/// `thalweg_input_callback`.
type Function =
    unsafe extern "C" fn(request: u64, status: c_int, data: *const c_void, bytes: u64, context: *mut c_void);

/// `thalweg_input_callback` and its context.
#[derive(Clone, Copy)]
struct Callback {
    function: Function,
    request: u64,
    context: *mut c_void,
}

// SAFETY: the context is only passed back to the program, in one of its calls.
unsafe impl Send for Callback {}

/// Opens over `comm`; a rank with wrong arguments fails the open of all.
fn open(arguments: Result<(&mut *mut NativeInput, &str)>, memory: u64, comm: &dyn Communicator) -> Result<()> {
    let found = arguments.and_then(|(out, path)| {
        let mounts = mounts::of_process()?;
        let at = mounts.place(path)?;
        let layout: Arc<dyn Layout> = at.layout.clone();
        Ok((out, layout, at.name))
    });
    let (found, own) = thalweg_comm::outcome::apart(found);
    agree(comm, own, "open the file for input windows", &[])?;
    let Some((out, layout, path)) = found else { return Err(wrong("no place for the file")) };
    let memory = if memory == 0 { DEFAULT_MEMORY } else { memory };
    let file = Input::open(&OpenInput { memory, ..OpenInput::new(comm, &layout, &path) })?;
    *out = Box::into_raw(Box::new(NativeInput { file: Mutex::new(file), due: Due::default() }));
    Ok(())
}

/// # Safety
/// See [`crate::pointer`].
unsafe fn arguments<'c>(
    out: *mut *mut NativeInput,
    path: *const c_char,
) -> Result<(&'c mut *mut NativeInput, &'c str)> {
    // SAFETY: from C.
    unsafe { Ok((place(out, "the place for the file")?, text(path, "the path")?)) }
}

/// # Safety
/// See [`crate::pointer`]; `table` and `comm` as in `MpiCommunicator::from_raw`.
#[unsafe(no_mangle)]
unsafe extern "C" fn thalweg_core_input_open(
    out: *mut *mut NativeInput,
    path: *const c_char,
    memory: u64,
    table: *const ThalwegMpiTable,
    comm: *mut c_void,
) -> c_int {
    // SAFETY: from C.
    status(|| unsafe { open(arguments(out, path), memory, &*communicator(table, comm)?) })
}

/// # Safety
/// See [`crate::pointer`].
#[unsafe(no_mangle)]
unsafe extern "C" fn thalweg_input_open(out: *mut *mut NativeInput, path: *const c_char, memory: u64) -> c_int {
    // SAFETY: from C.
    unsafe { thalweg_core_input_open(out, path, memory, std::ptr::null(), std::ptr::null_mut()) }
}

/// # Safety
/// See [`crate::pointer`].
#[unsafe(no_mangle)]
unsafe extern "C" fn thalweg_input_open_processes(
    out: *mut *mut NativeInput,
    path: *const c_char,
    memory: u64,
    folder: *const c_char,
    rank: u32,
    ranks: u32,
    within: f64,
) -> c_int {
    status(|| {
        // SAFETY: from C.
        let (arguments, folder) = unsafe { (arguments(out, path), text(folder, "the folder")?) };
        let within = Duration::try_from_secs_f64(within).map_err(|_| wrong(format!("a wait of {within} seconds")))?;
        let comm = Rendezvous::new(folder, rank, ranks).within(within).join()?;
        open(arguments, memory, &comm)
    })
}

/// Runs a call on an open file, then the callbacks of the reads that it completed.
///
/// # Safety
/// See [`crate::pointer`].
unsafe fn on_file<T>(file: *const NativeInput, body: impl FnOnce(&mut Input) -> Result<T>) -> Result<T> {
    // SAFETY: from C.
    let input = unsafe { handle(file, "file") }?;
    let result = body(&mut input.file.lock());
    call_back(&input.due);
    result
}

fn call_back(due: &Due) {
    loop {
        let next = due.lock().pop_front();
        let Some((Callback { function, request, context }, outcome)) = next else { return };
        let mut bytes = Vec::new();
        let status = status(|| {
            bytes = outcome?;
            Ok(())
        });
        // SAFETY: a function of the program, with its own context; the bytes live until it returns.
        unsafe { function(request, status, bytes.as_ptr().cast(), bytes.len() as u64, context) };
    }
}

/// # Safety
/// See [`crate::pointer`].
#[unsafe(no_mangle)]
unsafe extern "C" fn thalweg_input_length(file: *const NativeInput) -> u64 {
    // SAFETY: from C.
    super::failure::value(0, || unsafe { on_file(file, |file| Ok(file.length())) })
}

/// # Safety
/// See [`crate::pointer`].
#[unsafe(no_mangle)]
unsafe extern "C" fn thalweg_input_start(
    file: *const NativeInput,
    window: *mut u64,
    offset: u64,
    length: u64,
    options: *const COptions,
) -> c_int {
    status(|| {
        // SAFETY: from C.
        let (window, given) = unsafe { (pointer::out(window, "the place for the window")?, options.as_ref()) };
        // SAFETY: from C.
        let options = given.map_or_else(|| Ok(Default::default()), |given| unsafe { given.options() });
        let options = options.and_then(|(options, commit)| match commit {
            Some(_) => Err(wrong("an input window has no bytes to commit")),
            None => Ok(options),
        });
        let start = |file: &mut Input| match options {
            Ok(options) => file.start(offset, length, &options),
            Err(e) => {
                file.skip();
                Err(e)
            }
        };
        // SAFETY: from C.
        *window = unsafe { on_file(file, start) }?.0;
        Ok(())
    })
}

/// # Safety
/// See [`crate::pointer`].
#[unsafe(no_mangle)]
unsafe extern "C" fn thalweg_input_read(
    file: *const NativeInput,
    window: u64,
    offset: u64,
    bytes: u64,
    request: *mut u64,
) -> c_int {
    status(|| {
        // SAFETY: from C.
        let request = unsafe { pointer::out(request, "the place for the request") }?;
        // SAFETY: from C.
        *request = unsafe { on_file(file, |file| file.read(InputWindow(window), offset, bytes)) }?.0;
        Ok(())
    })
}

/// Memory of the program for the bytes of a read.
///
/// # Safety
/// See [`crate::pointer`].
unsafe fn target<'c>(file: &mut Input, request: u64, data: *mut c_void, bytes: u64) -> Result<&'c mut [u8]> {
    let length = file.length_of(ReadId(request))?;
    if length != bytes {
        return Err(wrong(format!("the read has {length} bytes, the memory {bytes}")));
    }
    // SAFETY: from C.
    unsafe { Ok(pointer::bytes_mut(data, bytes, "the memory")?) }
}

/// # Safety
/// See [`crate::pointer`].
#[unsafe(no_mangle)]
unsafe extern "C" fn thalweg_input_test(
    file: *const NativeInput,
    request: u64,
    data: *mut c_void,
    bytes: u64,
    complete: *mut c_int,
) -> c_int {
    status(|| {
        // SAFETY: from C.
        let complete = unsafe { pointer::out(complete, "the place for the answer") }?;
        *complete = 0;
        // SAFETY: from C.
        let came = unsafe {
            on_file(file, |file| {
                let to = target(file, request, data, bytes)?;
                // A failure completes the read as well.
                *complete = 1;
                Ok(file.test(ReadId(request))?.map(|came| to.copy_from_slice(&came)))
            })
        }?;
        *complete = c_int::from(came.is_some());
        Ok(())
    })
}

/// # Safety
/// See [`crate::pointer`].
#[unsafe(no_mangle)]
unsafe extern "C" fn thalweg_input_wait(
    file: *const NativeInput,
    request: u64,
    data: *mut c_void,
    bytes: u64,
) -> c_int {
    // SAFETY: from C.
    status(|| unsafe {
        on_file(file, |file| {
            let to = target(file, request, data, bytes)?;
            to.copy_from_slice(&file.wait(ReadId(request))?);
            Ok(())
        })
    })
}

/// # Safety
/// See [`crate::pointer`].
#[unsafe(no_mangle)]
unsafe extern "C" fn thalweg_input_on_read(
    file: *const NativeInput,
    request: u64,
    function: Option<Function>,
    context: *mut c_void,
) -> c_int {
    status(|| {
        let function = function.ok_or_else(|| wrong("the callback is a null pointer"))?;
        // SAFETY: from C.
        let due = unsafe { handle(file, "file") }?.due.clone();
        let callback = Callback { function, request, context };
        let keep = move |outcome: Result<Vec<u8>>| due.lock().push_back((callback, outcome));
        // SAFETY: from C.
        unsafe { on_file(file, |file| file.on_read(ReadId(request), Box::new(keep))) }
    })
}

/// # Safety
/// See [`crate::pointer`].
#[unsafe(no_mangle)]
unsafe extern "C" fn thalweg_input_end(file: *const NativeInput, window: u64) -> c_int {
    // SAFETY: from C.
    status(|| unsafe { on_file(file, |file| file.end(InputWindow(window))) })
}

/// # Safety
/// See [`crate::pointer`].
#[unsafe(no_mangle)]
unsafe extern "C" fn thalweg_input_finish(file: *const NativeInput, window: u64) -> c_int {
    // SAFETY: from C.
    status(|| unsafe { on_file(file, |file| file.finish(InputWindow(window))) })
}

/// # Safety
/// See [`crate::pointer`].
#[unsafe(no_mangle)]
unsafe extern "C" fn thalweg_input_progress(file: *const NativeInput) -> c_int {
    // SAFETY: from C.
    status(|| unsafe { on_file(file, |file| Ok(file.progress())) }.map(|_| ()))
}

/// # Safety
/// See [`crate::pointer`].
#[unsafe(no_mangle)]
unsafe extern "C" fn thalweg_input_close(file: *mut NativeInput) -> c_int {
    status(|| {
        // SAFETY: from C.
        let NativeInput { file, due } = *unsafe { take_back(file, "file") }?;
        let closed = file.into_inner().close();
        call_back(&due);
        closed
    })
}

/// # Safety
/// See [`crate::pointer`].
#[unsafe(no_mangle)]
unsafe extern "C" fn thalweg_input_drop(file: *mut NativeInput) {
    if !file.is_null() {
        status(|| {
            // SAFETY: from C.
            drop(unsafe { take_back(file, "file") }?);
            Ok(())
        });
    }
}
