//! `adios_error.h`.

use super::{pointer, status};
use crate::adios1::error::{self, Failure};
use std::ffi::{c_char, c_int};
use std::sync::atomic::AtomicI32;

/// 0, or the number of the last failure. An `int` to C.
#[allow(non_upper_case_globals)] // its name in C
#[unsafe(no_mangle)]
pub static adios_errno: AtomicI32 = AtomicI32::new(0);

/// The text of this thread's last failed call: rank, group, step, variable, file, cause, and what is still safe. Valid until its
/// next failing call.
#[unsafe(no_mangle)]
pub extern "C" fn adios_get_last_errmsg() -> *const c_char {
    error::last_text()
}

/// As [`adios_get_last_errmsg`].
#[unsafe(no_mangle)]
pub extern "C" fn adios_errmsg() -> *const c_char {
    error::last_text()
}

/// Forgets the last failure.
#[unsafe(no_mangle)]
pub extern "C" fn adios_clear_error() {
    error::clear();
}

/// A failure that a program raises itself; `adios_error` of the thin libraries, which puts the text together.
///
/// # Safety
/// See [`super`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn thalweg_core_error(number: c_int, text: *const c_char) {
    status(|| {
        // SAFETY: from C.
        let text = unsafe { pointer::optional_text(text) };
        Err(Failure::new(number, text.unwrap_or_default().to_string_lossy().trim_end()))
    });
}
