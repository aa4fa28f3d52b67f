//! Whether an output is wanted, and what of it; also for programs of `adios.h`.

use super::pending::of_adios;
use super::session::NativeSession;
use super::{handle, pointer, status, text};
use crate::adios1::process;
use std::ffi::{c_char, c_int};
use thalweg_io::Session;
use thalweg_types::Result;

/// # Safety
/// See [`crate::pointer`].
unsafe fn wanted(
    session: &Session,
    group: *const c_char,
    path: *const c_char,
    step: u64,
    variable: *const c_char,
    wanted: *mut c_int,
) -> Result<()> {
    // SAFETY: from C.
    let (out, group, path) = unsafe {
        (
            pointer::out(wanted, "the place for the answer")?,
            text(group, "the group's name")?,
            text(path, "the file's name")?,
        )
    };
    let answer = match variable.is_null() {
        true => session.wanted(group, path, step)?,
        // SAFETY: from C.
        false => session.wants_array(group, path, unsafe { text(variable, "the variable's name") }?)?,
    };
    *out = c_int::from(answer);
    Ok(())
}

/// # Safety
/// See [`crate::pointer`].
#[unsafe(no_mangle)]
unsafe extern "C" fn thalweg_wanted(
    session: *const NativeSession,
    group: *const c_char,
    path: *const c_char,
    step: u64,
    variable: *const c_char,
    answer: *mut c_int,
) -> c_int {
    status(|| {
        // SAFETY: from C.
        unsafe { wanted(&handle(session, "session")?.session, group, path, step, variable, answer) }
    })
}

/// # Safety
/// See [`crate::pointer`].
#[unsafe(no_mangle)]
unsafe extern "C" fn thalweg_stop_requested(session: *const NativeSession, requested: *mut c_int) -> c_int {
    status(|| {
        // SAFETY: from C.
        let (out, session) =
            unsafe { (pointer::out(requested, "the place for the answer")?, handle(session, "session")?) };
        *out = c_int::from(session.session.stop_requested());
        Ok(())
    })
}

/// # Safety
/// See [`crate::pointer`].
#[unsafe(no_mangle)]
unsafe extern "C" fn thalweg_adios_wanted(
    group: *const c_char,
    path: *const c_char,
    step: u64,
    variable: *const c_char,
    answer: *mut c_int,
) -> c_int {
    // SAFETY: from C.
    status(|| unsafe { wanted(&*of_adios(process::session())?, group, path, step, variable, answer) })
}

/// # Safety
/// See [`crate::pointer`].
#[unsafe(no_mangle)]
unsafe extern "C" fn thalweg_adios_stop_requested(requested: *mut c_int) -> c_int {
    status(|| {
        // SAFETY: from C.
        let out = unsafe { pointer::out(requested, "the place for the answer") }?;
        *out = c_int::from(of_adios(process::session())?.stop_requested());
        Ok(())
    })
}
