//! The last error of a thread, with its place.

use super::wrong;
use std::cell::RefCell;
use std::error::Error as _;
use std::ffi::{CStr, CString, c_char, c_int};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::null;
use thalweg_types::{Error, ErrorKind, Result};

/// `thalweg_error`.
#[repr(C)]
struct CError {
    status: c_int,
    text: *const c_char,
    what: *const c_char,
    rank: i64,
    group: *const c_char,
    step: i64,
    variable: *const c_char,
    object: *const c_char,
    byte: i64,
    safe: *const c_char,
    reported_by: i64,
}

/// An error as C reads it, and the texts it points to.
struct LastError {
    error: CError,
    _texts: Vec<CString>,
}

/// As C reads it; zero bytes inside are left out.
pub(super) fn c_text(text: impl AsRef<[u8]>) -> CString {
    CString::new(text.as_ref().iter().copied().filter(|b| *b != 0).collect::<Vec<u8>>()).unwrap_or_default()
}

impl LastError {
    fn none() -> Box<LastError> {
        let error = CError {
            status: 0,
            text: c"".as_ptr(),
            what: c"".as_ptr(),
            rank: -1,
            group: null(),
            step: -1,
            variable: null(),
            object: null(),
            byte: -1,
            safe: null(),
            reported_by: -1,
        };
        Box::new(LastError { error, _texts: Vec::new() })
    }

    fn of(error: &Error) -> Box<LastError> {
        let mut texts = Vec::new();
        let mut keep = |text: &str| {
            texts.push(c_text(text));
            // The text stays where it is when the list moves.
            texts.last().map_or(null(), |t| t.as_ptr())
        };
        let mut optional = |text: Option<&str>| text.map_or(null(), &mut keep);
        let number = |number: Option<u64>| number.and_then(|n| i64::try_from(n).ok()).unwrap_or(-1);
        let place = error.place();
        let what = match error.source() {
            Some(cause) => format!("{}: {cause}", error.what()),
            None => error.what().to_string(),
        };
        let made = CError {
            status: c_int::from(error.kind().code()),
            text: optional(Some(&error.to_string())),
            what: optional(Some(&what)),
            rank: number(place.rank.map(u64::from)),
            group: optional(place.group.as_deref()),
            step: number(place.step),
            variable: optional(place.variable.as_deref()),
            object: optional(place.object.as_deref()),
            byte: number(place.byte),
            safe: optional(error.still_safe()),
            reported_by: number(error.reported_by().map(u64::from)),
        };
        Box::new(LastError { error: made, _texts: texts })
    }
}

thread_local! {
    static LAST: RefCell<Box<LastError>> = RefCell::new(LastError::none());
}

thread_local! {
    static NUMBER: std::cell::Cell<c_int> = const { std::cell::Cell::new(0) };
}

/// Keeps the system's number of this thread's last failure of a call on files.
pub(super) fn keep_number(number: c_int) {
    NUMBER.set(number);
}

#[unsafe(no_mangle)]
extern "C" fn thalweg_last_errno() -> c_int {
    NUMBER.get()
}

/// Makes it this thread's last error and returns its number.
fn keep(error: &Error) -> c_int {
    let kept = LastError::of(error);
    let number = kept.error.status;
    LAST.with_borrow_mut(|last| *last = kept);
    number
}

/// Runs a call: 0, or the number of its failure. No panic crosses into C.
pub(super) fn status(body: impl FnOnce() -> Result<()>) -> c_int {
    // State that a panic leaves is protected by a lock that stays usable; the next call on that handle returns an error.
    match catch_unwind(AssertUnwindSafe(body)) {
        Ok(Ok(())) => 0,
        Ok(Err(error)) => keep(&error),
        Err(panic) => {
            let text =
                panic.downcast_ref::<&str>().copied().or_else(|| panic.downcast_ref::<String>().map(String::as_str));
            let what = format!("this is a mistake in Thalweg, please report it: {}", text.unwrap_or("no message"));
            keep(&Error::new(ErrorKind::Io, what))
        }
    }
}

/// Runs a call that returns something else, and `failed` where it fails.
pub(super) fn value<T>(failed: T, body: impl FnOnce() -> Result<T>) -> T {
    let mut got = None;
    status(|| {
        got = Some(body()?);
        Ok(())
    });
    got.unwrap_or(failed)
}

#[unsafe(no_mangle)]
extern "C" fn thalweg_last_error() -> *const CError {
    LAST.with_borrow(|last| &raw const last.error)
}

#[unsafe(no_mangle)]
extern "C" fn thalweg_status_text(number: c_int) -> *const c_char {
    const TEXTS: [&CStr; 17] = [
        c"no error",
        c"input/output error",
        c"not found",
        c"exists already",
        c"permission denied",
        c"no space left",
        c"out of buffer memory",
        c"corrupt",
        c"torn",
        c"out of bounds",
        c"not supported",
        c"configuration error",
        c"invalid argument",
        c"a rank was lost",
        c"timed out",
        c"not ready",
        c"end of stream",
    ];
    let text = usize::try_from(number).ok().and_then(|n| TEXTS.get(n)).copied();
    text.unwrap_or(c"an unknown status").as_ptr()
}

/// A failure that the program requested, with its own text.
pub(super) fn of_program(why: &str) -> Error {
    if why.is_empty() {
        wrong("the program cancelled this step")
    } else {
        wrong(format!("the program cancelled this step: {why}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// # Safety
    /// A text of this thread's last error.
    unsafe fn read(text: *const c_char) -> String {
        // SAFETY: not changed meanwhile.
        unsafe { CStr::from_ptr(text) }.to_str().unwrap().to_string()
    }

    #[test]
    fn every_kind_has_its_words() {
        for kind in ErrorKind::ALL {
            // SAFETY: a constant.
            assert_eq!(unsafe { read(thalweg_status_text(c_int::from(kind.code()))) }, kind.words());
        }
    }

    #[test]
    fn an_error_keeps_its_place_and_what_is_safe() {
        let error = Error::io("cannot append", std::io::Error::from_raw_os_error(28))
            .at_rank(3)
            .in_group("g")
            .at_step(4)
            .in_variable("T")
            .in_object("x.bp")
            .at_byte(8)
            .safe("steps 0..=3");
        assert_eq!(status(|| Err(error)), 5);
        // SAFETY: this thread's.
        let last = unsafe { &*thalweg_last_error() };
        assert_eq!((last.rank, last.step, last.byte, last.reported_by), (3, 4, 8, -1));
        // SAFETY: this thread's.
        unsafe {
            assert_eq!(
                (read(last.group), read(last.variable), read(last.object), read(last.safe)),
                ("g".into(), "T".into(), "x.bp".into(), "steps 0..=3".into())
            );
            assert!(read(last.what).starts_with("cannot append: "), "{}", read(last.what));
            assert!(read(last.text).starts_with("rank 3: cannot append"), "{}", read(last.text));
        }
    }

    #[test]
    fn a_panic_becomes_a_number_and_a_text() {
        assert_eq!(status(|| panic!("oh")), 1);
        // SAFETY: this thread's.
        assert!(unsafe { read((*thalweg_last_error()).text) }.contains("oh"));
    }
}
