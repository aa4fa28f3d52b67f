//! Memory of the library that a program fills, and gives to an output without a copy; also of `adios.h`.

use super::pending::of_adios;
use super::session::NativeSession;
use super::{handle, place, status, text, wrong};
use crate::adios1::process;
use std::collections::BTreeMap;
use std::ffi::{c_char, c_int, c_void};
use thalweg_io::{BlockMemory, Resolved, Session};
use thalweg_types::Result;
use thalweg_types::mutex::Mutex;

/// Memory that programs have, by address.
static ALLOCATED: Mutex<BTreeMap<usize, BlockMemory>> = Mutex::new(BTreeMap::new());

/// Hands memory to the program.
fn hand_out(mut memory: BlockMemory) -> *mut c_void {
    let start: *mut u8 = memory.as_mut_ptr();
    ALLOCATED.lock().insert(start.addr(), memory);
    start.cast()
}

/// Takes memory back from the program.
fn take_back(start: *mut c_void) -> Result<BlockMemory> {
    let memory = ALLOCATED.lock().remove(&start.addr());
    memory.ok_or_else(|| wrong("this is no memory of thalweg_alloc, or it was committed or freed before"))
}

/// Memory for `bytes` bytes; of no bytes, it has an address, too.
///
/// # Safety
/// See [`crate::pointer`].
unsafe fn alloc(session: &Session, bytes: u64, memory: *mut *mut c_void) -> Result<()> {
    // SAFETY: from C.
    let memory = unsafe { place(memory, "the place for the memory") }?;
    *memory = hand_out(session.alloc(bytes.max(1))?);
    Ok(())
}

/// Gives memory to a block. If that fails, it is still the program's.
pub(super) fn commit(block: Resolved<'_, '_, '_>, start: *mut c_void) -> Result<()> {
    block.commit(take_back(start)?).map_err(|(e, memory)| {
        hand_out(memory);
        e
    })
}

/// # Safety
/// See [`crate::pointer`].
#[unsafe(no_mangle)]
unsafe extern "C" fn thalweg_alloc(session: *const NativeSession, bytes: u64, memory: *mut *mut c_void) -> c_int {
    // SAFETY: from C.
    status(|| unsafe { alloc(&handle(session, "session")?.session, bytes, memory) })
}

#[unsafe(no_mangle)]
extern "C" fn thalweg_free(memory: *mut c_void) -> c_int {
    status(|| if memory.is_null() { Ok(()) } else { take_back(memory).map(drop) })
}

/// # Safety
/// See [`crate::pointer`].
#[unsafe(no_mangle)]
unsafe extern "C" fn thalweg_adios_alloc(bytes: u64, memory: *mut *mut c_void) -> c_int {
    // SAFETY: from C.
    status(|| unsafe { alloc(&*of_adios(process::session())?, bytes, memory) })
}

/// # Safety
/// See [`crate::pointer`].
#[unsafe(no_mangle)]
unsafe extern "C" fn thalweg_adios_commit(fd: i64, name: *const c_char, memory: *mut c_void) -> c_int {
    status(|| {
        // SAFETY: from C.
        let name = unsafe { text(name, "the variable's name") }?;
        let mut ended = Ok(());
        of_adios(process::with_file(fd, |file| {
            ended = file.output()?.output().resolve(name, None, None).and_then(|block| commit(block, memory));
            Ok(())
        }))?;
        ended
    })
}
