//! Memory that no output copies: of the library, which a program fills and commits; or of the program, which it lends. Also of `adios.h`.

use super::pending::of_adios;
use super::session::NativeSession;
use super::{handle, place, status, text, wrong};
use crate::adios1::process;
use crate::pointer;
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
    if block.bytes()?.is_none() {
        return Err(wrong("a text cannot be committed: write it").in_variable(block.name()));
    }
    block.commit(take_back(start)?).map_err(|(e, memory)| {
        memory.map(hand_out);
        e
    })
}

/// Memory of the program that stays unchanged until an output has ended.
struct LentMemory {
    /// Its address.
    start: usize,
    length: usize,
}

impl LentMemory {
    /// # Safety
    /// So many bytes stay unchanged until the output has ended.
    unsafe fn new(bytes: &[u8]) -> LentMemory {
        LentMemory { start: bytes.as_ptr().expose_provenance(), length: bytes.len() }
    }
}

impl AsRef<[u8]> for LentMemory {
    fn as_ref(&self) -> &[u8] {
        if self.length == 0 {
            return &[];
        }
        // SAFETY: the bytes of the slice it was made of, which the program promised to leave as they are.
        unsafe { std::slice::from_raw_parts(std::ptr::with_exposed_provenance(self.start), self.length) }
    }
}

/// Lends memory to a block until the output has ended.
///
/// # Safety
/// See [`crate::pointer`]; the memory stays unchanged until then.
pub(super) unsafe fn lend(block: Resolved<'_, '_, '_>, start: *const c_void) -> Result<()> {
    let length = block.bytes()?.ok_or_else(|| wrong("a text cannot be lent: write it").in_variable(block.name()))?;
    // SAFETY: from C.
    let lent = unsafe { LentMemory::new(pointer::bytes(start, length, block.name())?) };
    block.commit(lent).map_err(|(e, _)| e)
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

/// Does this with a block of an open file.
///
/// # Safety
/// See [`crate::pointer`].
unsafe fn with_block(
    fd: i64,
    name: *const c_char,
    work: impl FnOnce(Resolved<'_, '_, '_>) -> Result<()>,
) -> Result<()> {
    // SAFETY: from C.
    let name = unsafe { text(name, "the variable's name") }?;
    let mut ended = Ok(());
    of_adios(process::with_file(fd, |file| {
        ended = file.output()?.output().resolve(name, None, None).and_then(work);
        Ok(())
    }))?;
    ended
}

/// # Safety
/// See [`crate::pointer`].
#[unsafe(no_mangle)]
unsafe extern "C" fn thalweg_adios_commit(fd: i64, name: *const c_char, memory: *mut c_void) -> c_int {
    // SAFETY: from C.
    status(|| unsafe { with_block(fd, name, |block| commit(block, memory)) })
}

/// # Safety
/// See [`crate::pointer`]; the memory stays unchanged until the output has ended.
#[unsafe(no_mangle)]
unsafe extern "C" fn thalweg_adios_lend(fd: i64, name: *const c_char, data: *const c_void) -> c_int {
    // SAFETY: from C.
    status(|| unsafe { with_block(fd, name, |block| lend(block, data)) })
}
