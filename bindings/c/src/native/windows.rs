//! Output windows: bytes that ranks write into a file in the background.

use super::failure::status;
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
use thalweg_layout::{Layout, OpenWrite};
use thalweg_owners::file::DEFAULT_MEMORY;
use thalweg_owners::{Commit, Completed, File, OpenFile, Options, Owners, WindowId};
use thalweg_types::Result;
use thalweg_types::mutex::Mutex;

/// `thalweg_windows`.
struct NativeWindows {
    file: Mutex<File>,
    due: Due,
}

/// Results whose callbacks are called when the file is no longer locked, so that a callback may use it.
type Due = Arc<Mutex<VecDeque<(Callback, Result<Completed>)>>>;

/// `thalweg_window_callback` and its context.
#[derive(Clone, Copy)]
struct Callback {
    function: unsafe extern "C" fn(window: u64, status: c_int, context: *mut c_void),
    window: u64,
    context: *mut c_void,
}

// SAFETY: the context is only passed back to the program, in one of its calls.
unsafe impl Send for Callback {}

/// `thalweg_window_options`.
#[repr(C)]
pub(super) struct COptions {
    owners: *const u32,
    owner_count: usize,
    active: u32,
    base: u32,
    skip: u32,
    owner_stripe: u64,
    write_stripe: u64,
    fraction: u64,
    alignment: u64,
    time_limit: f64,
    durable: c_int,
    commit_offset: u64,
    commit: *const c_void,
    commit_bytes: u64,
}

impl COptions {
    /// # Safety
    /// The pointers are null or point to as many values as stated.
    pub(super) unsafe fn options(&self) -> Result<(Options, Option<Commit>)> {
        let defaults = Options::default();
        let or = |given: u64, default: u64| if given == 0 { default } else { given };
        let owners = match (self.owner_count, self.active) {
            (0, 0) => Owners::PerNode,
            (0, active) => Owners::Every { active, base: self.base, skip: self.skip.max(1) },
            (count, 0) => {
                // SAFETY: as the caller promises.
                let bytes = unsafe { pointer::bytes(self.owners.cast(), 4 * count as u64, "the owners") }?;
                Owners::Ranks(bytes.as_chunks().0.iter().map(|rank| u32::from_ne_bytes(*rank)).collect())
            }
            _ => return Err(wrong("either a list of owners or their number is given, not both")),
        };
        let time_limit = match self.time_limit {
            0.0 => None,
            seconds => Some(
                Duration::try_from_secs_f64(seconds)
                    .map_err(|_| wrong(format!("a time limit of {seconds} seconds")))?,
            ),
        };
        // SAFETY: as the caller promises.
        let bytes = unsafe { pointer::bytes(self.commit, self.commit_bytes, "the bytes to commit") }?;
        let commit = (!bytes.is_empty()).then(|| Commit { offset: self.commit_offset, bytes: bytes.to_vec() });
        let options = Options {
            owners,
            owner_stripe: Some(self.owner_stripe).filter(|bytes| *bytes > 0),
            write_stripe: or(self.write_stripe, defaults.write_stripe),
            fraction: or(self.fraction, defaults.fraction),
            alignment: or(self.alignment, defaults.alignment),
            time_limit,
            durable: self.durable != 0,
            holes: false,
            closes: false,
        };
        Ok((options, commit))
    }
}

/// Opens over `comm`; a rank with wrong arguments fails the open of all.
fn open(
    arguments: Result<(&mut *mut NativeWindows, &str)>,
    keep: c_int,
    memory: u64,
    comm: &dyn Communicator,
) -> Result<()> {
    let found = arguments.and_then(|(out, path)| {
        crate::leaving::listen();
        let mounts = mounts::of_process()?;
        let at = mounts.place(path)?;
        let layout: Arc<dyn Layout> = at.layout.clone();
        Ok((out, layout, at.name))
    });
    let (found, own) = thalweg_comm::outcome::apart(found);
    agree(comm, own, "open the file for output windows", &[])?;
    let Some((out, layout, path)) = found else { return Err(wrong("no place for the file")) };
    let how = if keep != 0 { OpenWrite::Any } else { OpenWrite::Replace };
    let memory = if memory == 0 { DEFAULT_MEMORY } else { memory };
    let file = File::open(&OpenFile { memory, ..OpenFile::new(comm, &layout, &path, how) })?;
    *out = Box::into_raw(Box::new(NativeWindows { file: Mutex::new(file), due: Due::default() }));
    Ok(())
}

/// # Safety
/// See [`crate::pointer`].
unsafe fn arguments<'c>(
    out: *mut *mut NativeWindows,
    path: *const c_char,
) -> Result<(&'c mut *mut NativeWindows, &'c str)> {
    // SAFETY: from C.
    unsafe { Ok((place(out, "the place for the file")?, text(path, "the path")?)) }
}

/// # Safety
/// See [`crate::pointer`]; `table` and `comm` as in `MpiCommunicator::from_raw`.
#[unsafe(no_mangle)]
unsafe extern "C" fn thalweg_core_windows_open(
    out: *mut *mut NativeWindows,
    path: *const c_char,
    keep: c_int,
    memory: u64,
    table: *const ThalwegMpiTable,
    comm: *mut c_void,
) -> c_int {
    // SAFETY: from C.
    status(|| unsafe { open(arguments(out, path), keep, memory, &*communicator(table, comm)?) })
}

/// # Safety
/// See [`crate::pointer`].
#[unsafe(no_mangle)]
unsafe extern "C" fn thalweg_windows_open(
    out: *mut *mut NativeWindows,
    path: *const c_char,
    keep: c_int,
    memory: u64,
) -> c_int {
    // SAFETY: from C.
    unsafe { thalweg_core_windows_open(out, path, keep, memory, std::ptr::null(), std::ptr::null_mut()) }
}

/// # Safety
/// See [`crate::pointer`].
#[unsafe(no_mangle)]
unsafe extern "C" fn thalweg_windows_open_processes(
    out: *mut *mut NativeWindows,
    path: *const c_char,
    keep: c_int,
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
        open(arguments, keep, memory, &comm)
    })
}

/// Runs a call on an open file, then the callbacks of the windows that it completed.
///
/// # Safety
/// See [`crate::pointer`].
unsafe fn on_file<T>(file: *const NativeWindows, body: impl FnOnce(&mut File) -> Result<T>) -> Result<T> {
    // SAFETY: from C.
    let windows = unsafe { handle(file, "file") }?;
    let result = body(&mut windows.file.lock());
    call_back(&windows.due);
    result
}

fn call_back(due: &Due) {
    loop {
        let next = due.lock().pop_front();
        let Some((Callback { function, window, context }, outcome)) = next else { return };
        let status = status(|| outcome.map(drop));
        // SAFETY: a function of the program, with its own context.
        unsafe { function(window, status, context) };
    }
}

/// # Safety
/// See [`crate::pointer`].
#[unsafe(no_mangle)]
unsafe extern "C" fn thalweg_window_start(
    file: *const NativeWindows,
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
        let start = |file: &mut File| match options {
            Ok((options, commit)) => file.start_with_commit(offset, length, &options, commit),
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
unsafe extern "C" fn thalweg_window_write(
    file: *const NativeWindows,
    window: u64,
    offset: u64,
    data: *const c_void,
    bytes: u64,
) -> c_int {
    status(|| {
        // SAFETY: from C.
        let data = unsafe { pointer::bytes(data, bytes, "the bytes to write") }?;
        // SAFETY: from C.
        unsafe { on_file(file, |file| file.write(WindowId(window), offset, data)) }
    })
}

/// # Safety
/// See [`crate::pointer`].
#[unsafe(no_mangle)]
unsafe extern "C" fn thalweg_window_try_write(
    file: *const NativeWindows,
    window: u64,
    offset: u64,
    data: *const c_void,
    bytes: u64,
    taken: *mut u64,
) -> c_int {
    status(|| {
        // SAFETY: from C.
        let (taken, data) = unsafe {
            (pointer::out(taken, "the place for a number")?, pointer::bytes(data, bytes, "the bytes to write")?)
        };
        *taken = 0;
        // SAFETY: from C.
        *taken = unsafe { on_file(file, |file| file.try_write(WindowId(window), offset, data)) }? as u64;
        Ok(())
    })
}

/// # Safety
/// See [`crate::pointer`].
#[unsafe(no_mangle)]
unsafe extern "C" fn thalweg_window_end(file: *const NativeWindows, window: u64) -> c_int {
    // SAFETY: from C.
    status(|| unsafe { on_file(file, |file| file.end(WindowId(window))) })
}

/// # Safety
/// See [`crate::pointer`].
#[unsafe(no_mangle)]
unsafe extern "C" fn thalweg_window_test(file: *const NativeWindows, window: u64, complete: *mut c_int) -> c_int {
    status(|| {
        // SAFETY: from C.
        let complete = unsafe { pointer::out(complete, "the place for the answer") }?;
        // A failure completes the window as well; where no window is, the program must not ask again either.
        *complete = 1;
        // SAFETY: from C.
        *complete = c_int::from(unsafe { on_file(file, |file| file.test(WindowId(window))) }?.is_some());
        Ok(())
    })
}

/// # Safety
/// See [`crate::pointer`].
#[unsafe(no_mangle)]
unsafe extern "C" fn thalweg_window_wait(file: *const NativeWindows, window: u64) -> c_int {
    // SAFETY: from C.
    status(|| unsafe { on_file(file, |file| file.wait(WindowId(window))) }.map(drop))
}

/// # Safety
/// See [`crate::pointer`].
#[unsafe(no_mangle)]
unsafe extern "C" fn thalweg_window_on_complete(
    file: *const NativeWindows,
    window: u64,
    function: Option<unsafe extern "C" fn(u64, c_int, *mut c_void)>,
    context: *mut c_void,
) -> c_int {
    status(|| {
        let function = function.ok_or_else(|| wrong("the callback is a null pointer"))?;
        // SAFETY: from C.
        let due = unsafe { handle(file, "file") }?.due.clone();
        let callback = Callback { function, window, context };
        let keep = move |outcome: Result<Completed>| due.lock().push_back((callback, outcome));
        // SAFETY: from C.
        unsafe { on_file(file, |file| file.on_complete(WindowId(window), Box::new(keep))) }
    })
}

/// # Safety
/// See [`crate::pointer`].
#[unsafe(no_mangle)]
unsafe extern "C" fn thalweg_windows_progress(file: *const NativeWindows) -> c_int {
    // SAFETY: from C.
    status(|| unsafe { on_file(file, |file| Ok(file.progress())) }.map(|_| ()))
}

/// # Safety
/// See [`crate::pointer`].
#[unsafe(no_mangle)]
unsafe extern "C" fn thalweg_windows_close(file: *mut NativeWindows) -> c_int {
    status(|| {
        // SAFETY: from C.
        let NativeWindows { file, due } = *unsafe { take_back(file, "file") }?;
        let closed = file.into_inner().close();
        call_back(&due);
        closed
    })
}

/// # Safety
/// See [`crate::pointer`].
#[unsafe(no_mangle)]
unsafe extern "C" fn thalweg_windows_drop(file: *mut NativeWindows) {
    if !file.is_null() {
        status(|| {
            // SAFETY: from C.
            drop(unsafe { take_back(file, "file") }?);
            Ok(())
        });
    }
}
