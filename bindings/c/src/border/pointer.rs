//! Pointers from C, checked for null.

use crate::error::{Failure, Outcome};
use std::ffi::{CStr, c_char, c_void};

/// A text that may be missing.
///
/// # Safety
/// Null, or a text that ends with a zero byte.
pub unsafe fn optional_text<'c>(text: *const c_char) -> Option<&'c CStr> {
    // SAFETY: not null, and ends, as the caller promises.
    (!text.is_null()).then(|| unsafe { CStr::from_ptr(text) })
}

/// A text. Bytes that are no UTF-8 make it a mistake: names are told apart by their characters.
///
/// # Safety
/// Null, or a text that ends with a zero byte.
pub unsafe fn text<'c>(text: *const c_char, what: &str) -> Outcome<&'c str> {
    // SAFETY: as the caller promises.
    let text = unsafe { optional_text(text) }.ok_or_else(|| Failure::argument(format!("{what} is a null pointer")))?;
    utf8(text, what)
}

/// A text, empty where the pointer is null.
///
/// # Safety
/// Null, or a text that ends with a zero byte.
pub unsafe fn text_or_empty<'c>(text: *const c_char, what: &str) -> Outcome<&'c str> {
    // SAFETY: as the caller promises.
    unsafe { optional_text(text) }.map_or(Ok(""), |text| utf8(text, what))
}

/// A text of which null and `""` both mean that there is none.
///
/// # Safety
/// Null, or a text that ends with a zero byte.
pub unsafe fn some_text<'c>(text: *const c_char, what: &str) -> Outcome<Option<&'c str>> {
    // SAFETY: as the caller promises.
    unsafe { text_or_empty(text, what) }.map(|text| Some(text).filter(|t| !t.is_empty()))
}

fn utf8<'c>(text: &'c CStr, what: &str) -> Outcome<&'c str> {
    text.to_str().map_err(|_| Failure::argument(format!("{what} {text:?} is no UTF-8 text")))
}

/// Where a result goes.
///
/// # Safety
/// Null, or memory for one `T` that nobody else uses during the call.
pub unsafe fn out<'c, T>(place: *mut T, what: &str) -> Outcome<&'c mut T> {
    // SAFETY: as the caller promises.
    unsafe { place.as_mut() }.ok_or_else(|| Failure::argument(format!("{what} is a null pointer")))
}

fn count(bytes: u64, what: &str) -> Outcome<usize> {
    let fits = usize::try_from(bytes).ok().filter(|n| *n <= isize::MAX as usize);
    fits.ok_or_else(|| Failure::argument(format!("{what}: no memory has {bytes} bytes")))
}

/// The bytes of a variable.
///
/// # Safety
/// Null, or that many bytes that stay as long as `'c`.
pub unsafe fn bytes<'c>(start: *const c_void, length: u64, what: &str) -> Outcome<&'c [u8]> {
    if length == 0 {
        return Ok(&[]);
    }
    if start.is_null() {
        return Err(Failure::argument(format!("{what}: a null pointer for {length} bytes")));
    }
    // SAFETY: not null, and that long, as the caller promises.
    Ok(unsafe { std::slice::from_raw_parts(start.cast(), count(length, what)?) })
}

/// Memory to read a variable into.
///
/// # Safety
/// Null, or that many bytes that nobody else uses during the call.
pub unsafe fn bytes_mut<'c>(start: *mut c_void, length: u64, what: &str) -> Outcome<&'c mut [u8]> {
    if length == 0 {
        return Ok(&mut []);
    }
    if start.is_null() {
        return Err(Failure::argument(format!("{what}: a null pointer for {length} bytes")));
    }
    // SAFETY: not null, and that long, as the caller promises.
    Ok(unsafe { std::slice::from_raw_parts_mut(start.cast(), count(length, what)?) })
}
