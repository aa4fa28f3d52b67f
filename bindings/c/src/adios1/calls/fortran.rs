//! Functions for the Fortran bridge (`bindings/fortran`) beyond `adios.h`: the order of dimensions, and memory of known size,
//! with texts padded by blanks instead of ended by a zero byte.

use super::{pointer, status};
use crate::adios1::error::{Doing, Failure, Outcome};
use crate::adios1::file::Length;
use crate::adios1::handle;
use crate::adios1::process;
use std::ffi::{c_char, c_int, c_void};
use std::sync::Arc;
use thalweg_io::VariableKey;
use thalweg_schema::HostLanguage;

/// Values that a Fortran program passes to be written.
#[repr(C)]
pub struct FortranMemory {
    /// Its first byte.
    start: *const c_void,
    /// Available bytes; `u64::MAX` if the program's call does not contain them.
    room: u64,
    /// The same, where the variable is a text.
    text_room: u64,
    /// Not 0: a copy made for this call.
    copied: c_int,
}

/// Declares a Fortran program: dimensions are listed fastest first unless the XML sets the language.
#[unsafe(no_mangle)]
pub extern "C" fn thalweg_core_fortran_order() -> c_int {
    status(|| {
        process::session()?.set_host_language(HostLanguage::Fortran);
        Ok(())
    })
}

/// The text in the first `room` bytes: up to a zero byte; where there is none, without blanks at its end.
///
/// # Safety
/// Null, or `room` bytes; where that is `u64::MAX`, a zero byte ends them.
unsafe fn text<'c>(start: *const c_void, room: u64, name: &str) -> Outcome<&'c [u8]> {
    if start.is_null() && room > 0 {
        return Err(Failure::argument(format!("{name}: no memory for a text")));
    }
    let mut length = 0;
    // SAFETY: as the caller promises; no byte after the first zero is read.
    while (length as u64) < room && unsafe { *start.cast::<u8>().add(length) } != 0 {
        length += 1;
    }
    // SAFETY: just looked at.
    let text = unsafe { pointer::bytes(start, length as u64, name) }?;
    if (length as u64) < room {
        return Ok(text);
    }
    Ok(text.iter().rposition(|b| *b != b' ').map_or(&[], |last| &text[..=last]))
}

/// The bytes of a variable in the values that a program passes.
///
/// # Safety
/// `memory` describes valid memory, as long as `'c`.
unsafe fn bytes<'c>(memory: &FortranMemory, length: Length, name: &str) -> Outcome<&'c [u8]> {
    match length {
        // SAFETY: as the caller promises.
        Length::Text => unsafe { text(memory.start, memory.text_room, name) },
        Length::Bytes(needed) if needed > memory.room => {
            Err(Failure::argument(format!("{name} takes {needed} bytes, and the array has {}", memory.room)))
        }
        // SAFETY: as the caller promises.
        Length::Bytes(needed) => Ok(unsafe { pointer::bytes(memory.start, needed, name) }?),
    }
}

/// `adios_write`, or `adios_write_byid` where `name` is null.
///
/// # Safety
/// See [`super`]; `memory` describes valid memory.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn thalweg_core_fortran_write(
    fd: i64,
    name: *const c_char,
    id: i64,
    memory: *const FortranMemory,
) -> c_int {
    status(|| {
        // SAFETY: from the bridge.
        let memory = unsafe { memory.as_ref() }.ok_or_else(|| Failure::argument("no memory"))?;
        // SAFETY: from the bridge.
        let name = if name.is_null() { None } else { Some(unsafe { pointer::text(name, "the variable's name") }?) };
        let by_id = if name.is_none() { Some(process::variable(id)?) } else { None };
        process::with_file(fd, |file| {
            let variable = match (name, by_id) {
                (Some(name), _) => VariableKey::Name(name),
                (None, Some((group, position))) if Arc::ptr_eq(file.group(), &group) => VariableKey::Position(position),
                _ => return Err(handle::no_variable(id)),
            };
            // SAFETY: from the bridge; kept only where it is the program's own memory and the group promises that it
            // stays unchanged until close.
            file.put(variable, memory.copied == 0, |length, name| unsafe { bytes(memory, length, name) })
        })
    })
}

/// `adios_read`, with texts padded by blanks.
///
/// - `room`: the bytes at `buffer`; `text_room`: those that a text may take, and fills.
///
/// # Safety
/// See [`super`]; as many bytes at `buffer`, by the variable's type.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn thalweg_core_fortran_read(
    fd: i64,
    name: *const c_char,
    buffer: *mut c_void,
    room: u64,
    text_room: u64,
) -> c_int {
    status(|| {
        // SAFETY: from the bridge.
        let name = unsafe { pointer::text(name, "the variable's name") }?;
        process::with_file(fd, |file| {
            let reading = file.input()?;
            let is_text = reading.element(name)?.is_text();
            // SAFETY: from the bridge.
            let out = unsafe { pointer::bytes_mut(buffer, if is_text { text_room } else { room }, name) }?;
            let filled = reading.input.read(name, out).map_err(|e| Doing::Read.failed(e))?;
            if let (true, Some(rest)) = (is_text, out.get_mut(filled as usize..)) {
                rest.fill(b' ');
            }
            Ok(())
        })
    })
}
