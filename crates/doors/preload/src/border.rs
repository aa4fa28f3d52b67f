//! The border: entry into and return from our own code inside an unmodified program.
//!
//! Inside our own code, calls of the C library bypass the hooks. A failure becomes `errno`; if the number is not specific enough,
//! the message is printed on standard error, each message once; `THALWEG_LOG=off` suppresses it. Panics are caught and become `EIO`.
#![allow(unsafe_code)] // errno

use libc::{c_int, c_void};
use rustix::io::Errno;
use std::cell::Cell;
use std::collections::HashSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use thalweg_layout::errno::{self, PosixCall};
use thalweg_types::mutex::Mutex;
use thalweg_types::{Error, ErrorKind};

thread_local! {
    static DEPTH: Cell<u32> = const { Cell::new(0) };
}

/// Whether this thread runs our own code.
pub fn inside() -> bool {
    DEPTH.with(|depth| depth.get() > 0)
}

/// Marks this thread as running our own code, until it is dropped.
pub struct Inside(());

impl Inside {
    pub fn new() -> Inside {
        DEPTH.with(|depth| depth.set(depth.get() + 1));
        Inside(())
    }
}

impl Drop for Inside {
    fn drop(&mut self) {
        DEPTH.with(|depth| depth.set(depth.get() - 1));
    }
}

/// A failure, as the `errno` that the program gets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fail(pub c_int);

impl From<Errno> for Fail {
    fn from(number: Errno) -> Fail {
        Fail(number.raw_os_error())
    }
}

impl From<Error> for Fail {
    fn from(error: Error) -> Fail {
        Fail::of(PosixCall::Other, error)
    }
}

impl Fail {
    /// The failure of this call; printed if the number is not specific enough.
    pub fn of(call: PosixCall, error: Error) -> Fail {
        let number = errno::of_call(call, &error);
        let bare = number == Errno::IO.raw_os_error();
        if bare
            || matches!(error.kind(), ErrorKind::Config | ErrorKind::Corrupt | ErrorKind::Torn | ErrorKind::PeerLost)
        {
            tell(&error.to_string());
        }
        Fail(number)
    }
}

/// Result of our own code for a hook.
pub type Outcome<T> = Result<T, Fail>;

/// The value that a C function returns on failure.
pub trait Failed {
    const FAILED: Self;
}
impl Failed for c_int {
    const FAILED: c_int = -1;
}
impl Failed for isize {
    const FAILED: isize = -1;
}
impl Failed for i64 {
    const FAILED: i64 = -1;
}
impl<T> Failed for *mut T {
    const FAILED: *mut T = std::ptr::null_mut();
}

/// Runs our own code for a hook.
pub fn enter<T: Failed>(body: impl FnOnce() -> Outcome<T>) -> T {
    enter_or(T::FAILED, body)
}

/// As [`enter`], for functions with another failure value.
pub fn enter_or<T>(failed: T, body: impl FnOnce() -> Outcome<T>) -> T {
    match attempt(body) {
        Ok(value) => value,
        Err(Fail(number)) => {
            set_errno(number);
            failed
        }
    }
}

/// Runs our own code for a function that returns an error number.
pub fn enter_number(body: impl FnOnce() -> Outcome<()>) -> c_int {
    attempt(body).map_or_else(|Fail(number)| number, |()| 0)
}

fn attempt<T>(body: impl FnOnce() -> Outcome<T>) -> Outcome<T> {
    let before = get_errno();
    let inside = Inside::new();
    let outcome = catch_unwind(AssertUnwindSafe(body)).unwrap_or(Err(Fail(libc::EIO)));
    drop(inside);
    set_errno(before);
    outcome
}

pub fn set_errno(number: c_int) {
    // SAFETY: the address is this thread's own.
    unsafe { *libc::__errno_location() = number };
}

fn get_errno() -> c_int {
    // SAFETY: as above.
    unsafe { *libc::__errno_location() }
}

/// Whether the environment suppresses messages.
static QUIET: AtomicBool = AtomicBool::new(false);

/// Reads the environment variables for messages. Called once, before the program has threads that may change its environment.
pub fn read_environment() {
    let variable = |name: &str| std::env::var(name).ok();
    // The rule of `thalweg_warnings`, which is not linked here: its subscriber and its log file would be the program's, too.
    let quiet = match variable("THALWEG_LOG").as_deref().map(str::trim) {
        None | Some("") => variable("THALWEG_ERRORS").as_deref() == Some("quiet"),
        Some(level) => level == "off",
    };
    QUIET.store(quiet, Ordering::Relaxed);
}

/// Prints a message on standard error, each message once per process, unless the environment suppresses messages. For warnings, and
/// for explanations of an error number that the program gets.
pub fn tell(what: &str) {
    if !QUIET.load(Ordering::Relaxed) {
        tell_always(what);
    }
}

/// As [`tell`], in any environment: for refusals that end the program, and for lost bytes, which no call may report.
pub fn tell_always(what: &str) {
    static TOLD: Mutex<Option<HashSet<u64>>> = Mutex::new(None);
    // No wait: while another thread prints, this message is dropped.
    let Some(mut told) = TOLD.try_lock() else { return };
    let told = told.get_or_insert_default();
    use std::hash::{DefaultHasher, Hash, Hasher};
    let mut hash = DefaultHasher::new();
    what.hash(&mut hash);
    if told.len() < 100 && told.insert(hash.finish()) {
        // Standard error may be a file of a mount: then the message cannot be printed.
        let _ = rustix::io::write(std::io::stderr(), format!("thalweg: {}\n", what.trim_end()).as_bytes());
    }
}

/// The program's memory to write into; `EFAULT` for a null pointer.
///
/// # Safety
/// As the C function's manual page requires of its arguments.
pub unsafe fn memory_mut<'a>(at: *mut c_void, bytes: usize) -> Outcome<&'a mut [u8]> {
    match (at.is_null(), bytes) {
        (_, 0) => Ok(&mut []),
        (true, _) => Err(Errno::FAULT.into()),
        // SAFETY: the caller's promise; no slice is longer than this.
        (false, bytes) => Ok(unsafe { std::slice::from_raw_parts_mut(at.cast(), bytes.min(isize::MAX as usize)) }),
    }
}

/// The program's memory to read from.
///
/// # Safety
/// As [`memory_mut`].
pub unsafe fn memory<'a>(at: *const c_void, bytes: usize) -> Outcome<&'a [u8]> {
    // SAFETY: as above; nothing is written through it.
    unsafe { memory_mut(at.cast_mut(), bytes) }.map(|bytes| &*bytes)
}

/// A C string of the program.
///
/// # Safety
/// As [`memory_mut`].
pub unsafe fn text<'a>(at: *const libc::c_char) -> Outcome<&'a str> {
    if at.is_null() {
        return Err(Errno::FAULT.into());
    }
    // SAFETY: a text of C ends with a zero byte.
    unsafe { std::ffi::CStr::from_ptr(at) }.to_str().map_err(|_| Errno::ILSEQ.into())
}
