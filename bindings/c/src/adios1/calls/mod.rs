//! The functions of ADIOS 1.x, grouped as in `adios.h`. The requirements on their pointers are on the first page of `pointer`.
//!
//! No panic crosses into C: each function runs inside `status` or `value`.
#![allow(unsafe_code)] // exported symbols, and pointers from C

pub mod declare;
pub mod errors;
pub mod extended;
pub mod fortran;
pub mod inquire;
pub mod life;
pub mod memory;
pub mod mesh;
pub mod meshes;
pub mod methods;
pub mod output;
pub mod query;
pub mod read;
pub mod schedule;
pub mod selection;
pub mod structures;

use crate::adios1::error::{self, Failure, Outcome, number};
use crate::pointer;
use std::ffi::c_int;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Runs a call that returns a number: 0, or that of its failure.
fn status(body: impl FnOnce() -> Outcome<()>) -> c_int {
    outcome(body).map_or_else(|failure| failure.tell(), |()| 0)
}

/// Runs a call that returns something else, and `failed` where it fails.
fn value<T>(failed: T, body: impl FnOnce() -> Outcome<T>) -> T {
    outcome(body).unwrap_or_else(|failure| {
        failure.tell();
        failed
    })
}

fn outcome<T>(body: impl FnOnce() -> Outcome<T>) -> Outcome<T> {
    error::begin();
    // State that a panic leaves is protected by a lock that stays usable, or belongs to the file being used, whose next call
    // fails.
    catch_unwind(AssertUnwindSafe(body)).unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<&str>().copied().or_else(|| panic.downcast_ref::<String>().map(String::as_str));
        let text = format!("this is a mistake in Thalweg, please report it: {}", text.unwrap_or("no message"));
        Err(Failure::new(number::UNSPECIFIED, text))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ffi::CStr;
    use std::sync::atomic::Ordering;

    #[test]
    fn a_panic_becomes_a_number_and_a_text() {
        assert_eq!(status(|| panic!("oh")), number::UNSPECIFIED);
        assert_eq!(error::ERRNO.load(Ordering::Relaxed), number::UNSPECIFIED);
        // SAFETY: the text of this thread, not changed meanwhile.
        let text = unsafe { CStr::from_ptr(error::last_text()) };
        assert!(text.to_str().unwrap().ends_with(": oh"), "{text:?}");
    }
}
