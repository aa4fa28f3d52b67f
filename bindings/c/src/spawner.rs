//! The border of what starts processes with `MPI_Comm_spawn`: `crates/comm-mpi/mpi/thalweg_mpi_spawn.h`.
#![allow(unsafe_code)] // functions and pointers of C

use std::ffi::{c_char, c_int, c_void};
use std::os::unix::process::ExitStatusExt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::ExitStatus;
use thalweg_io::mounts::starting::{OnHost, Spawned, Spawner, set_spawner};
use thalweg_types::{Error, ErrorKind, Result};

/// Bytes for what a call or a command says.
const ROOM: usize = 4096;
/// Instead of a host's name: this process's.
const HERE: &str = ".";

/// `ThalwegMpiSpawner`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct CSpawner {
    spawn: unsafe extern "C" fn(words: *const c_char, bytes: u64, said: *mut c_char, room: u64) -> *mut c_void,
    ended: unsafe extern "C" fn(
        spawned: *mut c_void,
        which: *mut c_int,
        status: *mut c_int,
        said: *mut c_char,
        room: u64,
    ) -> c_int,
    let_go: unsafe extern "C" fn(spawned: *mut c_void, end: c_int),
}

/// Registers an MPI's way to start processes; null for none.
///
/// # Safety
/// Null, or a table of functions that do what the header says, for as long as the process lives.
#[unsafe(no_mangle)]
unsafe extern "C" fn thalweg_core_spawner(table: *const CSpawner) {
    // SAFETY: as the caller promises.
    if let Some(table) = unsafe { table.as_ref() } {
        let _ = catch_unwind(AssertUnwindSafe(|| set_spawner(|| Box::new(*table))));
    }
}

/// Text up to its NUL.
fn text(bytes: &[u8]) -> String {
    let text = bytes.split(|byte| *byte == 0).next().unwrap_or_default();
    String::from_utf8_lossy(text).into_owned()
}

impl Spawner for CSpawner {
    fn spawn(&self, commands: &[OnHost]) -> Result<Box<dyn Spawned>> {
        let cannot = |why: &str| Error::new(ErrorKind::Unsupported, format!("MPI cannot start servers: {why}"));
        let mut words = Vec::new();
        for command in commands {
            let host = command.host.as_deref().unwrap_or(HERE);
            for word in std::iter::once(host).chain(command.words.iter().map(String::as_str)) {
                if word.is_empty() || word.contains('\0') {
                    return Err(cannot("a word of the command cannot be handed on"));
                }
                words.extend_from_slice(word.as_bytes());
                words.push(0);
            }
            words.push(0);
        }
        let mut said = vec![0u8; ROOM];
        // SAFETY: so many bytes of words, and of room, which the call writes to at most.
        let spawned = unsafe {
            (self.spawn)(words.as_ptr().cast(), words.len() as u64, said.as_mut_ptr().cast(), said.len() as u64)
        };
        match spawned.is_null() {
            true => Err(cannot(&text(&said))),
            false => Ok(Box::new(CSpawned { table: *self, spawned })),
        }
    }

    fn warn(&self, text: &str) {
        thalweg_warnings::tell_once(text);
    }
}

/// What a call of `spawn` returned, until `let_go`.
struct CSpawned {
    table: CSpawner,
    /// Null once let go.
    spawned: *mut c_void,
}

impl CSpawned {
    fn let_go(&mut self, end: bool) {
        let spawned = std::mem::replace(&mut self.spawned, std::ptr::null_mut());
        if !spawned.is_null() {
            // SAFETY: of `spawn`, and let go once.
            unsafe { (self.table.let_go)(spawned, c_int::from(end)) }
        }
    }
}

impl Spawned for CSpawned {
    fn ended(&mut self) -> Option<(usize, ExitStatus, String)> {
        if self.spawned.is_null() {
            return None;
        }
        let (mut which, mut status, mut said) = (0, 0, vec![0u8; ROOM]);
        // SAFETY: of `spawn`, not let go; places for two numbers and so many bytes.
        let any = unsafe {
            (self.table.ended)(self.spawned, &mut which, &mut status, said.as_mut_ptr().cast(), said.len() as u64)
        };
        (any != 0).then(|| (usize::try_from(which).unwrap_or(usize::MAX), ExitStatus::from_raw(status), text(&said)))
    }

    fn end(&mut self) {
        self.let_go(true);
    }
}

impl Drop for CSpawned {
    fn drop(&mut self) {
        self.let_go(false);
    }
}
