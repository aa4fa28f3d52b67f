//! Pointers from C, checked for null.
//!
//! Requirements on C that cannot be checked: a pointer is null or points to the object in the function's prototype, as long as
//! the call lasts (until close for memory of deferred blocks, and of variables with `copy-on-write="no"`), and a text ends with a
//! zero byte. Null is checked for everywhere.
#![allow(unsafe_code)] // pointers from C

use crate::adios1::error::Failure;
use std::ffi::{CStr, c_char, c_void};
use thalweg_types::{Error, ErrorKind};

/// An invalid pointer or content: an invalid argument in both interfaces.
#[derive(Debug, Clone)]
pub struct BadPointer {
    /// The mistake.
    pub text: String,
}

fn bad(text: String) -> BadPointer {
    BadPointer { text }
}

type Result<T> = std::result::Result<T, BadPointer>;

impl From<BadPointer> for Failure {
    fn from(bad: BadPointer) -> Failure {
        Failure::argument(bad.text)
    }
}

impl From<BadPointer> for Error {
    fn from(bad: BadPointer) -> Error {
        Error::new(ErrorKind::InvalidArgument, bad.text)
    }
}

/// A text that may be missing.
///
/// # Safety
/// Null, or a text that ends with a zero byte.
pub unsafe fn optional_text<'c>(text: *const c_char) -> Option<&'c CStr> {
    // SAFETY: not null, and ends, as the caller promises.
    (!text.is_null()).then(|| unsafe { CStr::from_ptr(text) })
}

/// A text. Text that is not UTF-8 is an error, because names are compared by characters.
///
/// # Errors
/// A null pointer; bytes that are no UTF-8.
///
/// # Safety
/// Null, or a text that ends with a zero byte.
pub unsafe fn text<'c>(text: *const c_char, what: &str) -> Result<&'c str> {
    // SAFETY: as the caller promises.
    let text = unsafe { optional_text(text) }.ok_or_else(|| bad(format!("{what} is a null pointer")))?;
    utf8(text, what)
}

/// A text, empty where the pointer is null.
///
/// # Errors
/// Bytes that are no UTF-8.
///
/// # Safety
/// Null, or a text that ends with a zero byte.
pub unsafe fn text_or_empty<'c>(text: *const c_char, what: &str) -> Result<&'c str> {
    // SAFETY: as the caller promises.
    unsafe { optional_text(text) }.map_or(Ok(""), |text| utf8(text, what))
}

/// A text of which null and `""` both mean that there is none.
///
/// # Errors
/// Bytes that are no UTF-8.
///
/// # Safety
/// Null, or a text that ends with a zero byte.
pub unsafe fn some_text<'c>(text: *const c_char, what: &str) -> Result<Option<&'c str>> {
    // SAFETY: as the caller promises.
    unsafe { text_or_empty(text, what) }.map(|text| Some(text).filter(|t| !t.is_empty()))
}

fn utf8<'c>(text: &'c CStr, what: &str) -> Result<&'c str> {
    text.to_str().map_err(|_| bad(format!("{what} {text:?} is no UTF-8 text")))
}

/// The memory for a result.
///
/// # Errors
/// A null pointer.
///
/// # Safety
/// Null, or memory for one `T` without other users during the call.
pub unsafe fn out<'c, T>(place: *mut T, what: &str) -> Result<&'c mut T> {
    // SAFETY: as the caller promises.
    unsafe { place.as_mut() }.ok_or_else(|| bad(format!("{what} is a null pointer")))
}

fn count(bytes: u64, what: &str) -> Result<usize> {
    let fits = usize::try_from(bytes).ok().filter(|n| *n <= isize::MAX as usize);
    fits.ok_or_else(|| bad(format!("{what}: no memory has {bytes} bytes")))
}

/// The bytes of a variable.
///
/// # Errors
/// A null pointer for a length that is not 0; a length that no memory has.
///
/// # Safety
/// Null, or that many bytes that stay as long as `'c`.
pub unsafe fn bytes<'c>(start: *const c_void, length: u64, what: &str) -> Result<&'c [u8]> {
    if length == 0 {
        return Ok(&[]);
    }
    if start.is_null() {
        return Err(bad(format!("{what}: a null pointer for {length} bytes")));
    }
    // SAFETY: not null, and that long, as the caller promises.
    Ok(unsafe { std::slice::from_raw_parts(start.cast(), count(length, what)?) })
}

/// Memory to read a variable into.
///
/// # Errors
/// As [`bytes`].
///
/// # Safety
/// Null, or that many bytes without other users during the call.
pub unsafe fn bytes_mut<'c>(start: *mut c_void, length: u64, what: &str) -> Result<&'c mut [u8]> {
    if length == 0 {
        return Ok(&mut []);
    }
    if start.is_null() {
        return Err(bad(format!("{what}: a null pointer for {length} bytes")));
    }
    // SAFETY: not null, and that long, as the caller promises.
    Ok(unsafe { std::slice::from_raw_parts_mut(start.cast(), count(length, what)?) })
}
