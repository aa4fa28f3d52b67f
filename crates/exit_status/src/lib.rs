//! The exit status of a process that lost bytes which it had reported as written to the program (docs/decisions/0051).
//!
//! | question | answer |
//! |---|---|
//! | a loss is recorded by | the code that ends files and mounts after the program's last call: [`record_loss`] |
//! | effect | a process that would exit with 0 exits with 1; any other status is kept |
//! | how | [`watch`] registers a function with `on_exit` of the GNU C library; functions registered later run before it. Elsewhere the status stays, and the line on standard error is all |
//! | a child made by `fork` | inherits the record; where the loss is its parent's, it calls [`forget_loss`] |
//!
//! Each library that stands on this crate has a record of its own: two of them in one process register one function each.

use std::ffi::c_int;
use std::sync::Once;
use std::sync::atomic::{AtomicBool, Ordering};

static LOST: AtomicBool = AtomicBool::new(false);

/// Records that accepted bytes are lost and that no call of the program will report it.
pub fn record_loss() {
    LOST.store(true, Ordering::Relaxed);
}

/// Drops the record, in a child whose parent lost the bytes.
pub fn forget_loss() {
    LOST.store(false, Ordering::Relaxed);
}

/// Whether a loss was recorded.
pub fn has_loss() -> bool {
    LOST.load(Ordering::Relaxed)
}

/// The status that the process must exit with where the program chose `status`.
pub fn status_of(status: c_int) -> c_int {
    if status == 0 && has_loss() { libc::EXIT_FAILURE } else { status }
}

/// Applies [`status_of`] when the process exits. Later calls do nothing.
///
/// Call it before the functions are registered that may record a loss: functions run in the reverse order.
pub fn watch() {
    static WATCHED: Once = Once::new();
    WATCHED.call_once(|| {
        #[cfg(all(target_os = "linux", target_env = "gnu"))]
        gnu::register();
    });
}

#[cfg(all(target_os = "linux", target_env = "gnu"))]
#[allow(unsafe_code)] // a function that the C library calls
mod gnu {
    use std::ffi::{c_int, c_void};

    unsafe extern "C" {
        /// Of the GNU C library: like `atexit`, for a function that is passed the status.
        fn on_exit(function: extern "C" fn(c_int, *mut c_void), argument: *mut c_void) -> c_int;
    }

    extern "C" fn at_exit(status: c_int, _: *mut c_void) {
        let other = super::status_of(status);
        if other != status {
            // SAFETY: called from a function registered with `on_exit`, `exit` runs the remaining functions with the new status.
            unsafe { libc::exit(other) }
        }
    }

    pub fn register() {
        // SAFETY: the function lives as long as the process: libraries of ours are never unloaded.
        let _ = unsafe { on_exit(at_exit, std::ptr::null_mut()) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_loss_changes_success_alone() {
        assert_eq!((status_of(0), status_of(7)), (0, 7));
        record_loss();
        assert_eq!((status_of(0), status_of(7)), (1, 7));
        forget_loss();
        assert_eq!(status_of(0), 0);
    }
}
