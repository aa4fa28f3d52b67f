//! `thalweg.h`: the interface for new codes, on which C++ is built.
//!
//! | room | what it owns |
//! |------|--------------|
//! | `failure` | the last error of a thread, with its place |
//! | `file` | files by their bytes, through the mounts |
//! | `memory` | memory that the program fills and gives to an output |
//! | `messages` | warnings for a program with a handler of its own |
//! | `session` | sessions, groups declared from code |
//! | `output` | open, put, close |
//! | `pending` | outputs in flight: wait, test, callbacks |
//! | `steering` | whether an output is wanted, and what of it |
//! | `reader` | open, follow, requests |
//! | `windows` | output windows: bytes written in the background |
//! | `describe` | facts about variables, blocks and attributes in structures of C |
//!
//! Handles are addresses of boxes that the program gives back once. Calls on one handle take turns.
#![allow(unsafe_code)] // exported symbols, and pointers from C

mod describe;
mod failure;
mod file;
mod input;
mod memory;
mod messages;
mod output;
mod pending;
mod reader;
mod session;
mod steering;
mod windows;

#[cfg(test)]
pub(crate) use reader::{Following, open_reader};

use crate::pointer;
use failure::status;
use std::ffi::{c_char, c_int, c_void};
use thalweg_comm::Communicator;
use thalweg_comm::alone::Alone;
use thalweg_comm_mpi::{MpiCommunicator, ThalwegMpiTable};
use thalweg_types::{ElementType, Error, ErrorKind, MemorySelection, Result};

fn wrong(what: impl Into<String>) -> Error {
    Error::new(ErrorKind::InvalidArgument, what)
}

/// A text.
///
/// # Safety
/// Null, or a text that ends with a zero byte.
unsafe fn text<'c>(text: *const c_char, what: &str) -> Result<&'c str> {
    // SAFETY: as the caller promises.
    Ok(unsafe { pointer::text(text, what) }?)
}

/// A text, empty where the pointer is null.
///
/// # Safety
/// As for [`text`].
unsafe fn text_or_empty<'c>(text: *const c_char, what: &str) -> Result<&'c str> {
    // SAFETY: as the caller promises.
    Ok(unsafe { pointer::text_or_empty(text, what) }?)
}

/// The object of a handle.
///
/// # Safety
/// Null, or a handle that was not given back.
unsafe fn handle<'c, T>(handle: *const T, what: &str) -> Result<&'c T> {
    // SAFETY: as the caller promises.
    unsafe { handle.as_ref() }.ok_or_else(|| wrong(format!("the {what} is a null pointer")))
}

/// Takes a handle back.
///
/// # Safety
/// As for [`handle`]; it is not used again.
unsafe fn take_back<T>(handle: *mut T, what: &str) -> Result<Box<T>> {
    if handle.is_null() {
        return Err(wrong(format!("the {what} is a null pointer")));
    }
    // SAFETY: made by Box::into_raw, as the caller promises.
    Ok(unsafe { Box::from_raw(handle) })
}

/// A place for a handle, null as long as nothing is there.
///
/// # Safety
/// Null, or memory for one pointer.
unsafe fn place<'c, T>(place: *mut *mut T, what: &str) -> Result<&'c mut *mut T> {
    // SAFETY: as the caller promises.
    let place = unsafe { pointer::out(place, what) }?;
    *place = std::ptr::null_mut();
    Ok(place)
}

/// Numbers, copied.
///
/// # Safety
/// Null, or so many numbers.
unsafe fn numbers(start: *const u64, count: usize, what: &str) -> Result<Vec<u64>> {
    let length = (count as u64).checked_mul(8).ok_or_else(|| wrong(format!("{what}: {count} numbers")))?;
    // SAFETY: as the caller promises.
    let bytes = unsafe { pointer::bytes(start.cast::<c_void>(), length, what) }?;
    let number = |b: &[u8]| b.try_into().map(u64::from_ne_bytes).map_err(|_| wrong(format!("{what}: odd bytes")));
    bytes.chunks_exact(8).map(number).collect()
}

/// The ranks of a call: of an MPI, or this process alone where there is no table. Takes over `handle`.
///
/// # Safety
/// As in [`MpiCommunicator::from_raw`].
unsafe fn communicator(table: *const ThalwegMpiTable, handle: *mut c_void) -> Result<Box<dyn Communicator>> {
    if table.is_null() {
        return Ok(Box::new(Alone::new()));
    }
    // SAFETY: as the caller promises.
    Ok(Box::new(unsafe { MpiCommunicator::from_raw(table, handle) }?))
}

/// As [`communicator`], for calls that begin with an agreement of the ranks: see [`MpiCommunicator::from_raw_to_agree`].
///
/// # Safety
/// As there.
unsafe fn communicator_to_agree(table: *const ThalwegMpiTable, handle: *mut c_void) -> Result<Box<dyn Communicator>> {
    if table.is_null() {
        return Ok(Box::new(Alone::new()));
    }
    // SAFETY: as the caller promises.
    Ok(Box::new(unsafe { MpiCommunicator::from_raw_to_agree(table, handle) }?))
}

/// `thalweg_type` as an element type.
fn element(number: c_int) -> Result<ElementType> {
    let known = u8::try_from(number).ok().and_then(ElementType::from_code);
    known.ok_or_else(|| wrong(format!("{number} is no type")))
}

/// Refuses a type that is not the variable's, if the program requests the check.
fn check_type(check: c_int, number: c_int, known: ElementType, name: &str) -> Result<()> {
    // THALWEG_ANY
    if check == 0 || number == -1 {
        return Ok(());
    }
    match element(number)? {
        given if given == known => Ok(()),
        given => Err(wrong(format!("the program has a {given}, the variable is a {known}")).in_variable(name)),
    }
}

/// `thalweg_memory`.
#[repr(C)]
struct CMemory {
    ndim: usize,
    shape: *const u64,
    offset: *const u64,
}

/// # Safety
/// Null, or a structure with the stated number of values.
unsafe fn memory_selection(memory: *const CMemory) -> Result<Option<MemorySelection>> {
    // SAFETY: as the caller promises.
    let Some(memory) = (unsafe { memory.as_ref() }) else { return Ok(None) };
    // SAFETY: as the caller promises.
    unsafe {
        Ok(Some(MemorySelection::new(
            numbers(memory.shape, memory.ndim, "the shape of the memory")?,
            numbers(memory.offset, memory.ndim, "the offset in the memory")?,
        )))
    }
}

/// Bytes of one element of a type; 0 for text, and for an unknown type.
#[unsafe(no_mangle)]
extern "C" fn thalweg_type_size(number: c_int) -> usize {
    element(number).map_or(0, |t| t.size() as usize)
}

/// The version of the library.
#[unsafe(no_mangle)]
extern "C" fn thalweg_version() -> *const c_char {
    concat!(env!("CARGO_PKG_VERSION"), "\0").as_ptr().cast()
}
