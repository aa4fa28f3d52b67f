//! From `adios_init` to `adios_finalize`; calculation hints; the buffer.

use super::{pointer, status};
use crate::adios1::error::{Doing, Failure, Outcome};
use crate::adios1::process;
use std::ffi::{c_char, c_int, c_uint, c_void};
use thalweg_comm::Communicator;
use thalweg_comm::alone::Alone;
use thalweg_comm_mpi::{MpiCommunicator, ThalwegMpiTable};
use thalweg_io::Session;

/// The ranks of a call: of an MPI, or this process alone where there is no table. Takes over `handle`.
///
/// # Errors
/// As [`MpiCommunicator::from_raw`].
///
/// # Safety
/// As in [`MpiCommunicator::from_raw`].
pub unsafe fn communicator(table: *const ThalwegMpiTable, handle: *mut c_void) -> Outcome<Box<dyn Communicator>> {
    if table.is_null() {
        return Ok(Box::new(Alone::new()));
    }
    // SAFETY: as the caller promises.
    let comm = unsafe { MpiCommunicator::from_raw(table, handle) }.map_err(|e| Doing::Start.failed(e))?;
    Ok(Box::new(comm))
}

/// As [`communicator`], for calls that begin with an agreement of the ranks: see [`MpiCommunicator::from_raw_to_agree`].
///
/// # Errors
/// As [`MpiCommunicator::from_raw_to_agree`].
///
/// # Safety
/// As there.
pub unsafe fn communicator_to_agree(
    table: *const ThalwegMpiTable,
    handle: *mut c_void,
) -> Outcome<Box<dyn Communicator>> {
    if table.is_null() {
        return Ok(Box::new(Alone::new()));
    }
    // SAFETY: as the caller promises.
    let comm = unsafe { MpiCommunicator::from_raw_to_agree(table, handle) }.map_err(|e| Doing::Start.failed(e))?;
    Ok(Box::new(comm))
}

/// Collective: `adios_init`. `table` null: no MPI.
///
/// # Safety
/// See [`super`]; `table` and `handle` as in [`MpiCommunicator::from_raw`].
/// # Cost
/// Two reductions and the duplicate of [`MpiCommunicator::from_raw`]. Every rank reads and parses the document.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn thalweg_core_init(
    config: *const c_char,
    table: *const ThalwegMpiTable,
    handle: *mut c_void,
) -> c_int {
    status(|| {
        // SAFETY: from C.
        let comm = unsafe { communicator(table, handle) }?;
        // SAFETY: from C.
        let config = unsafe { pointer::optional_text(config) }.unwrap_or(c"(null pointer)");
        // Paths that are no UTF-8 are refused when the file isn't found, on all ranks.
        process::start(Some(&config.to_string_lossy()), comm)
    })
}

/// Collective: `adios_init_noxml`. `table` null: no MPI.
///
/// # Safety
/// As [`thalweg_core_init`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn thalweg_core_init_noxml(table: *const ThalwegMpiTable, handle: *mut c_void) -> c_int {
    // SAFETY: from C.
    status(|| process::start(None, unsafe { communicator(table, handle) }?))
}

/// Whether there is a session: 1 or 0.
#[unsafe(no_mangle)]
pub extern "C" fn adios_is_initialized() -> c_int {
    c_int::from(process::is_started())
}

/// Collective: closes all files for good. Where the rank is 0, servers of partitions that this run has started are told that it needs them no
/// longer: they end when their last client has left.
///
/// # Cost
/// One reduction, and a gather to all. Waits for outputs that methods end later than close. For each file in this process's cache: a
/// status request, an open, and the write of the full index.
#[unsafe(no_mangle)]
pub extern "C" fn adios_finalize(rank: c_int) -> c_int {
    status(|| process::finish(rank))
}

/// Before the library is started there is no listener, which is no error.
fn say(what: fn(&Session)) -> c_int {
    status(|| {
        if process::is_started() {
            what(&*process::session()?);
        }
        Ok(())
    })
}

/// The program begins to compute: methods that work in the background are notified, and profiles contain the event.
#[unsafe(no_mangle)]
pub extern "C" fn adios_start_calculation() -> c_int {
    say(Session::begin_calculation)
}

/// As [`adios_start_calculation`], the papers' spelling.
#[unsafe(no_mangle)]
pub extern "C" fn adios_begin_calculation() -> c_int {
    say(Session::begin_calculation)
}

/// The program ends computing: as [`adios_start_calculation`].
#[unsafe(no_mangle)]
pub extern "C" fn adios_stop_calculation() -> c_int {
    say(Session::end_calculation)
}

/// As [`adios_stop_calculation`], the papers' spelling.
#[unsafe(no_mangle)]
pub extern "C" fn adios_end_calculation() -> c_int {
    say(Session::end_calculation)
}

/// An iteration has ended: as [`adios_start_calculation`].
#[unsafe(no_mangle)]
pub extern "C" fn adios_end_iteration() -> c_int {
    say(Session::end_iteration)
}

/// The most memory, in MiB, that outputs of this process may use, all groups together.
#[unsafe(no_mangle)]
pub extern "C" fn adios_set_max_buffer_size(mib: u64) {
    status(|| {
        process::set_buffer_limit(mib.saturating_mul(1 << 20));
        Ok(())
    });
}

/// As [`adios_set_max_buffer_size`]; memory is taken as outputs need it, so `when` changes nothing.
#[unsafe(no_mangle)]
pub extern "C" fn adios_allocate_buffer(when: c_uint, mib: u64) -> c_int {
    status(|| {
        if when > 2 {
            return Err(Failure::argument(format!("{when} is no time to allocate a buffer")));
        }
        process::set_buffer_limit(mib.saturating_mul(1 << 20));
        Ok(())
    })
}
