//! Open, write, read, close.

use super::{life, pointer, status};
use crate::adios1::error::{Doing, Failure, Outcome, number};
use crate::adios1::file::{File, Length};
use crate::adios1::handle;
use crate::adios1::process::{self, OpenArguments, OpenMode};
use std::ffi::{CStr, c_char, c_int, c_void};
use std::sync::Arc;
use thalweg_comm_mpi::ThalwegMpiTable;

/// Collective: `adios_open`. `table` null: no MPI. `*fd` is 0 where it fails.
///
/// # Safety
/// As [`life::thalweg_core_init`].
/// # Cost
/// Modes `w`, `a`, `u`: one reduction, in which the ranks also agree on a duplicate of the communicator (as
/// [`thalweg_comm_mpi::MpiCommunicator::from_raw`]), and the collective calls of the group's methods, which their first pages
/// list; further ones with full consistency, and for methods that end outputs later than close. Mode `r`: the reduction; every
/// rank opens the file by itself.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn thalweg_core_open(
    fd: *mut i64,
    group: *const c_char,
    name: *const c_char,
    mode: *const c_char,
    table: *const ThalwegMpiTable,
    handle: *mut c_void,
) -> c_int {
    status(|| {
        // SAFETY: from C.
        let comm = unsafe { life::communicator_to_agree(table, handle) }?;
        // SAFETY: from C.
        let mut place = unsafe { pointer::out(fd, "the place for the file's handle") };
        if let Ok(fd) = &mut place {
            **fd = 0;
        }
        let asked = || -> Outcome<OpenArguments> {
            place.as_ref().map_err(Clone::clone)?;
            // SAFETY: from C.
            unsafe {
                Ok(OpenArguments {
                    group: pointer::text(group, "the group's name")?.to_string(),
                    path: pointer::text(name, "the file's name")?.to_string(),
                    mode: OpenMode::parse(pointer::text(mode, "the mode")?)?,
                })
            }
        };
        let opened = process::open(asked(), comm)?;
        *place? = opened;
        Ok(())
    })
}

/// How much this rank is about to write, in bytes; optional. `*total` is with names and statistics.
///
/// # Safety
/// See [`super`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn adios_group_size(fd: i64, data_size: u64, total: *mut u64) -> c_int {
    status(|| {
        process::with_file(fd, |file| {
            let size = match file {
                File::Output(w) => w.output().group_size(data_size),
                File::Input(_) => data_size,
            };
            // SAFETY: from C; a program may not care.
            if let Some(total) = unsafe { total.as_mut() } {
                *total = size;
            }
            Ok(())
        })
    })
}

/// The bytes at `var` that a variable takes.
///
/// # Safety
/// Null, or a variable's memory that stays as long as `'c`.
unsafe fn memory<'c>(var: *const c_void, length: Length, name: &str) -> Outcome<&'c [u8]> {
    match length {
        // SAFETY: as the caller promises.
        Length::Bytes(n) => Ok(unsafe { pointer::bytes(var, n, name) }?),
        // SAFETY: as the caller promises: texts end with a zero byte.
        Length::Text => unsafe { pointer::optional_text(var.cast()) }
            .map(CStr::to_bytes)
            .ok_or_else(|| Failure::argument(format!("{name}: a null pointer for a text"))),
    }
}

/// Writes one block of a variable. Where a group is read back: sets a scalar by which dimensions are resolved.
///
/// # Safety
/// See [`super`].
/// # Cost
/// As [`thalweg_io::Output::put`]: no communication, one pass over the values. Only blocks that are written through or do not fit
/// the buffer are written to a file here.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn adios_write(fd: i64, name: *const c_char, var: *const c_void) -> c_int {
    status(|| {
        // SAFETY: from C.
        let name = unsafe { pointer::text(name, "the variable's name") }?;
        // SAFETY: from C. The bytes are looked at after this call only for variables of which the group promises that
        // their memory stays unchanged until close (copy-on-write="no").
        process::with_file(fd, |file| file.put(name, true, |length, name| unsafe { memory(var, length, name) }))
    })
}

/// As [`adios_write`], the variable named by the handle that `adios_define_var` returned.
///
/// # Safety
/// See [`super`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn adios_write_byid(fd: i64, id: i64, var: *const c_void) -> c_int {
    status(|| {
        let (group, position) = process::variable(id)?;
        process::with_file(fd, |file| {
            if !Arc::ptr_eq(file.group(), &group) {
                return Err(handle::no_variable(id));
            }
            // SAFETY: as for adios_write.
            file.put(position, true, |length, name| unsafe { memory(var, length, name) })
        })
    })
}

/// Memory for a variable that the program fills and `adios_close` writes. Its dimensions must be written before.
///
/// # Safety
/// See [`super`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn adios_get_write_buffer(
    fd: i64,
    name: *const c_char,
    size: *mut u64,
    buffer: *mut *mut c_void,
) -> c_int {
    status(|| {
        // SAFETY: from C.
        let (name, place) = unsafe {
            (pointer::text(name, "the variable's name")?, pointer::out(buffer, "the place for the buffer's address")?)
        };
        *place = std::ptr::null_mut();
        process::with_file(fd, |file| {
            let memory = file.output()?.lend(name)?;
            *place = memory.as_mut_ptr().cast();
            // SAFETY: from C; a program may not care.
            if let Some(size) = unsafe { size.as_mut() } {
                *size = memory.len() as u64;
            }
            Ok(())
        })
    })
}

/// Reads a variable of a file opened with `r`, at once: its last step, the box that the group's dimensions and offsets
/// describe. A text ends with a zero byte where there is room.
///
/// # Safety
/// See [`super`].
/// # Cost
/// As [`thalweg_reader::Reader::read`], for this variable alone: reads of several variables share no requests. Not collective.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn adios_read(fd: i64, name: *const c_char, buffer: *mut c_void, buffer_size: u64) -> c_int {
    status(|| {
        // SAFETY: from C.
        let name = unsafe { pointer::text(name, "the variable's name") }?;
        process::with_file(fd, |file| {
            let reading = file.input()?;
            let is_text = reading.element(name)?.is_text();
            // SAFETY: from C.
            let out = unsafe { pointer::bytes_mut(buffer, buffer_size, name) }?;
            let filled = reading.input.read(name, out).map_err(|e| Doing::Read.failed(e))?;
            if let (true, Some(end)) = (is_text, out.get_mut(filled as usize)) {
                *end = 0;
            }
            Ok(())
        })
    })
}

/// Collective: commits the step. When it returns 0 the step is readable.
///
/// # Cost
/// As [`thalweg_io::Output::close`]. Mode `r`: no communication.
#[unsafe(no_mangle)]
pub extern "C" fn adios_close(fd: i64) -> c_int {
    status(|| process::take_file(fd)?.close())
}

/// Writes all variables under this path from now on, until close. They keep their names in `adios_write`.
///
/// # Safety
/// See [`super`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn adios_set_path(fd: i64, path: *const c_char) -> c_int {
    status(|| {
        // SAFETY: from C.
        let path = unsafe { pointer::text_or_empty(path, "the path") }?;
        process::with_file(fd, |file| {
            file.output()?.output().set_path(path);
            Ok(())
        })
    })
}

/// As [`adios_set_path`], for one variable.
///
/// # Safety
/// See [`super`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn adios_set_path_var(fd: i64, path: *const c_char, name: *const c_char) -> c_int {
    status(|| {
        // SAFETY: from C.
        let (path, name) =
            unsafe { (pointer::text_or_empty(path, "the path")?, pointer::text(name, "the variable's name")?) };
        process::with_file(fd, |file| {
            file.output()?.output().set_path_of(name, path).map_err(|e| Doing::Write.failed(e))
        })
    })
}

/// Times are not kept; leaves `adios_errno` at `err_operation_not_supported`.
#[unsafe(no_mangle)]
pub extern "C" fn adios_timing_write_xml(_fd: i64, _filename: *const c_char) {
    status(|| Err(Failure::new(number::OPERATION_NOT_SUPPORTED, "adios_timing_write_xml: no times are kept")));
}
