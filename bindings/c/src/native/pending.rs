//! Outputs in flight: closed by the program, ended in the background; also those of `adios.h`.

use super::session::NativeSession;
use super::{handle, place, pointer, status, take_back, wrong};
use crate::adios1::error::Outcome;
use crate::adios1::process;
use std::ffi::{c_int, c_void};
use thalweg_io::PendingOutput;

/// `thalweg_pending`.
pub(super) struct NativePending(pub(super) PendingOutput);

/// `thalweg_completion` and its context.
struct Completion {
    function: unsafe extern "C" fn(status: c_int, context: *mut c_void),
    context: *mut c_void,
}

// SAFETY: the context is only passed back to the program, in one of its calls.
unsafe impl Send for Completion {}

/// # Safety
/// See [`crate::pointer`].
#[unsafe(no_mangle)]
unsafe extern "C" fn thalweg_test(pending: *const NativePending, complete: *mut c_int) -> c_int {
    status(|| {
        // SAFETY: from C.
        let (complete, pending) =
            unsafe { (pointer::out(complete, "the place for the answer")?, handle(pending, "pending output")?) };
        // An output that failed is complete.
        *complete = 1;
        *complete = c_int::from(pending.0.test()?.is_some());
        Ok(())
    })
}

/// # Safety
/// See [`crate::pointer`].
#[unsafe(no_mangle)]
unsafe extern "C" fn thalweg_wait(pending: *mut NativePending) -> c_int {
    status(|| {
        // SAFETY: from C.
        let pending = unsafe { take_back(pending, "pending output") }?;
        pending.0.wait().map(drop)
    })
}

/// # Safety
/// See [`crate::pointer`].
#[unsafe(no_mangle)]
unsafe extern "C" fn thalweg_on_completion(
    pending: *const NativePending,
    function: Option<unsafe extern "C" fn(c_int, *mut c_void)>,
    context: *mut c_void,
) -> c_int {
    status(|| {
        let function = function.ok_or_else(|| wrong("the callback is a null pointer"))?;
        // SAFETY: from C.
        let pending = unsafe { handle(pending, "pending output") }?;
        let completion = Completion { function, context };
        pending.0.on_completion(Box::new(move |result| {
            let completion = completion;
            let status = status(|| result.map(drop));
            // SAFETY: a function of the program, with its own context.
            unsafe { (completion.function)(status, completion.context) };
        }));
        Ok(())
    })
}

/// # Safety
/// See [`crate::pointer`].
#[unsafe(no_mangle)]
unsafe extern "C" fn thalweg_pending_drop(pending: *mut NativePending) {
    if !pending.is_null() {
        status(|| {
            // SAFETY: from C.
            drop(unsafe { take_back(pending, "pending output") }?);
            Ok(())
        });
    }
}

/// # Safety
/// See [`crate::pointer`].
#[unsafe(no_mangle)]
unsafe extern "C" fn thalweg_wait_all(session: *const NativeSession) -> c_int {
    status(|| {
        // SAFETY: from C.
        unsafe { handle(session, "session") }?.session.wait_for_outputs()
    })
}

/// # Safety
/// See [`crate::pointer`].
#[unsafe(no_mangle)]
unsafe extern "C" fn thalweg_progress(session: *const NativeSession) -> c_int {
    status(|| {
        // SAFETY: from C.
        unsafe { handle(session, "session") }?.session.progress();
        Ok(())
    })
}

/// A failure of `adios.h`, for a call that returns statuses.
pub(super) fn of_adios<T>(outcome: Outcome<T>) -> thalweg_types::Result<T> {
    outcome.map_err(|failure| wrong(&failure.text))
}

/// # Safety
/// See [`crate::pointer`].
#[unsafe(no_mangle)]
unsafe extern "C" fn thalweg_adios_start_close(fd: i64, pending: *mut *mut NativePending) -> c_int {
    status(|| {
        // SAFETY: from C.
        let pending = unsafe { place(pending, "the place for the pending output") };
        // Without a place for the result, the other ranks must not wait for this one's close.
        let started = of_adios(process::take_file(fd).and_then(|file| file.start_close()))?;
        *pending? = Box::into_raw(Box::new(NativePending(started)));
        Ok(())
    })
}

#[unsafe(no_mangle)]
extern "C" fn thalweg_adios_wait_all() -> c_int {
    status(|| of_adios(process::session())?.wait_for_outputs())
}

#[unsafe(no_mangle)]
extern "C" fn thalweg_adios_progress() -> c_int {
    status(|| {
        of_adios(process::session())?.progress();
        Ok(())
    })
}
