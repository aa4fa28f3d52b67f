//! The shared file pointer: one number that all ranks of an open file move.
//!
//! | question | answer |
//! |----------|--------|
//! | where | in memory of rank 0's process (a `memfd`), which other ranks of the same machine open below `/proc`, at their first use. It goes with the process, however that ends |
//! | ranks that do not wait | are never needed: a rank moves the pointer alone, whatever the others do |
//! | mutual exclusion | locks on the memory's file: between processes, and between threads of a process |
//! | ranks on other machines | cannot reach it: `Unsupported` |
//!
//! Differs from ROMIO, whose shared pointer is a file beside the data file.

use crate::class::{Class, Failure, Outcome};
use rustix::fs::MemfdFlags;
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use thalweg_open_file::lock::{Kind, LockFile, Owner, Range};
use thalweg_types::mutex::Mutex;

/// The number's place, and behind it the cookie.
const BYTES: usize = 16;

/// Where the memory of an open file's shared pointer is: 3 numbers that rank 0 tells the others.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Place {
    /// PID of rank 0.
    pub process: u64,
    /// Its descriptor.
    pub descriptor: u64,
    /// A random number that is found there.
    pub cookie: u64,
}

/// The shared pointer of an open file, as one rank holds it.
#[derive(Debug)]
pub struct SharedPointer {
    place: Place,
    /// Rank 0: the memory, which stays until the file is closed.
    _memory: Option<File>,
    /// A description of this rank's own, once it was used.
    open: Mutex<Option<LockFile>>,
}

impl SharedPointer {
    /// On rank 0: a pointer at 0. Without memory for it there is none, and its use fails.
    ///
    /// - `cookie`: a random number.
    ///
    /// # Cost
    /// Two system calls.
    pub fn make(cookie: u64) -> SharedPointer {
        let made = || -> io::Result<File> {
            let memory = File::from(rustix::fs::memfd_create("thalweg-shared-pointer", MemfdFlags::CLOEXEC)?);
            let mut bytes = [0; BYTES];
            bytes[8..].copy_from_slice(&cookie.to_le_bytes());
            memory.write_all_at(&bytes, 0)?;
            Ok(memory)
        };
        let memory = made().ok();
        let place = memory.as_ref().map_or(Place::default(), |memory| Place {
            process: u64::from(std::process::id()),
            descriptor: memory.as_raw_fd() as u64,
            cookie,
        });
        SharedPointer { place, _memory: memory, open: Mutex::default() }
    }

    /// On the other ranks.
    pub fn at(place: Place) -> SharedPointer {
        SharedPointer { place, _memory: None, open: Mutex::default() }
    }

    /// Where it is.
    pub fn place(&self) -> Place {
        self.place
    }

    /// Sets the pointer. Nothing is done where rank 0 has no memory for it: its uses fail then, and calls that only reset it do not.
    ///
    /// # Errors
    /// As [`SharedPointer::replace`].
    /// # Cost
    /// As [`SharedPointer::replace`].
    pub fn set(&self, to: u64) -> Outcome<()> {
        if self.place.process == 0 { Ok(()) } else { self.replace(|_| to).map(drop) }
    }

    fn reach(&self) -> io::Result<LockFile> {
        let Place { process, descriptor, cookie } = self.place;
        if process == 0 {
            return Err(io::Error::other("rank 0 has no memory for it"));
        }
        let own = process == u64::from(std::process::id());
        let path = match own {
            true => format!("/proc/self/fd/{descriptor}"),
            false => format!("/proc/{process}/fd/{descriptor}"),
        };
        let file = File::options().read(true).write(true).open(path)?;
        let mut bytes = [0; BYTES];
        file.read_exact_at(&mut bytes, 0)?;
        if bytes[8..] != cookie.to_le_bytes() {
            return Err(io::Error::other("the process of that number is another one"));
        }
        LockFile::of_plain(&file)
    }

    /// Replaces the pointer by what `change` makes of it; returns what it was.
    ///
    /// # Errors
    /// `Unsupported` where this rank cannot reach rank 0's memory. The pointer is as before.
    /// # Cost
    /// Four system calls; waits for other ranks that are at the pointer.
    pub fn replace(&self, change: impl FnOnce(u64) -> u64) -> Outcome<u64> {
        let mut open = self.open.lock();
        let failed = |e: io::Error| {
            let mut failure = Failure::new(
                Class::Unsupported,
                "cannot reach the shared file pointer: it is in the memory of rank 0, for ranks of the same machine",
            );
            failure.error = failure.error.caused_by(e);
            failure
        };
        let memory = match &mut *open {
            Some(memory) => memory,
            none => none.insert(self.reach().map_err(failed)?),
        };
        let range = Range { start: 0, length: BYTES as u64 };
        memory.range(Owner::Description, Kind::Exclusive, range, true).map_err(failed)?;
        let moved = (|| {
            let mut bytes = [0; 8];
            memory.descriptor().read_exact_at(&mut bytes, 0)?;
            let before = u64::from_le_bytes(bytes);
            let after = change(before);
            if after != before {
                memory.descriptor().write_all_at(&after.to_le_bytes(), 0)?;
            }
            Ok(before)
        })();
        let left = memory.range(Owner::Description, Kind::None, range, true);
        let before = moved.map_err(failed)?;
        left.map_err(failed)?;
        Ok(before)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_that_move_the_pointer_at_once_get_places_of_their_own() {
        let first = SharedPointer::make(7);
        let place = first.place();
        let mut seen: Vec<u64> = std::thread::scope(|threads| {
            let started: Vec<_> = (0..4)
                .map(|_| {
                    threads.spawn(move || {
                        let own = SharedPointer::at(place);
                        (0..500).map(|_| own.replace(|at| at + 3).unwrap()).collect::<Vec<_>>()
                    })
                })
                .collect();
            started.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
        });
        seen.sort_unstable();
        assert_eq!(seen, (0..2000).map(|n| n * 3).collect::<Vec<_>>());
        assert_eq!(first.replace(|at| at).unwrap(), 6000);
    }

    #[test]
    fn a_pointer_that_is_not_there_is_an_error() {
        let first = SharedPointer::make(7);
        for place in [
            Place::default(),
            Place { cookie: 8, ..first.place() },
            Place { descriptor: 1 << 20, ..first.place() },
            Place { process: 1 << 31, ..first.place() },
        ] {
            let failure = SharedPointer::at(place).replace(|at| at + 1).unwrap_err();
            assert_eq!(failure.class, Class::Unsupported);
            assert_eq!(SharedPointer::at(place).set(5).is_ok(), place.process == 0, "{place:?}");
        }
        assert_eq!(first.replace(|at| at).unwrap(), 0);
    }
}
