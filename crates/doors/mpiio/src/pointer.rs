//! The shared file pointer: one number that all ranks of an open file move.
//!
//! | question | answer |
//! |----------|--------|
//! | ranks of one machine | in memory of rank 0's process (a `memfd`), which other ranks open below `/proc`, at their first use |
//! | ranks of several machines | a counter that the file's server keeps for rank 0, on layouts whose servers do ([`thalweg_layout::locks`]); elsewhere `Unsupported` |
//! | lifetime | the number goes with rank 0's process, however that ends, and with a server that ends: later uses are errors |
//! | ranks that do not wait | are never needed: a rank moves the pointer alone, whatever the others do |
//! | mutual exclusion | locks on the memory's file: between processes, and between threads of a process; a counter changes in one request |
//!
//! Differs from ROMIO, whose shared pointer is a file beside the data file.

use crate::class::{Class, Failure, Outcome};
use rustix::fs::MemfdFlags;
use std::collections::hash_map::DefaultHasher;
use std::fs::File;
use std::hash::Hasher;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::sync::{Arc, OnceLock};
use thalweg_layout::Layout;
use thalweg_layout::locks::{Count, FileLocks};
use thalweg_open_file::lock::{Kind, LockFile, Owner, Range};
use thalweg_types::mutex::Mutex;
use thalweg_types::{Error, ErrorKind};

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

/// A number that is the same for processes that find each other below `/proc`, and for no others.
///
/// # Cost
/// Four system calls, once in a process.
pub fn machine() -> u64 {
    static MACHINE: OnceLock<u64> = OnceLock::new();
    *MACHINE.get_or_init(|| {
        // Without random keys: it is compared between processes.
        let mut hash = DefaultHasher::new();
        hash.write(rustix::system::uname().nodename().to_bytes());
        hash.write(&std::fs::read("/proc/sys/kernel/random/boot_id").unwrap_or_default());
        let namespace = std::fs::read_link("/proc/self/ns/pid").unwrap_or_default();
        hash.write(namespace.as_os_str().as_encoded_bytes());
        hash.finish()
    })
}

/// The shared pointer of an open file, as one rank holds it.
pub struct SharedPointer(Home);

enum Home {
    /// Memory of rank 0.
    Memory {
        place: Place,
        /// Rank 0: the memory, which stays until the file is closed.
        _memory: Option<File>,
        /// A description of this rank's own, once it was used.
        open: Mutex<Option<LockFile>>,
    },
    /// A counter at the file's server.
    Counter {
        layout: Arc<dyn Layout>,
        name: String,
        key: u64,
        /// Rank 0: the description that the counter belongs to. Others: one of their own, once it was used.
        open: Mutex<Option<Box<dyn FileLocks>>>,
    },
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
        SharedPointer(Home::Memory { place, _memory: memory, open: Mutex::default() })
    }

    /// On the other ranks.
    pub fn at(place: Place) -> SharedPointer {
        SharedPointer(Home::Memory { place, _memory: None, open: Mutex::default() })
    }

    /// On rank 0, for ranks of several machines: a counter at the file's server, at 0. `None` if the layout's servers keep no counters.
    ///
    /// - `name`: of the file in the layout.
    /// - `cookie`: a random number.
    ///
    /// # Errors
    /// Those of [`Layout::locks`] and [`FileLocks::make_counter`].
    /// # Cost
    /// That of [`Layout::locks`], and one request.
    pub fn make_counter(
        layout: &Arc<dyn Layout>,
        name: &str,
        cookie: u64,
    ) -> thalweg_types::Result<Option<SharedPointer>> {
        let Some(locks) = layout.locks(name)? else { return Ok(None) };
        locks.make_counter(cookie)?;
        let open = Mutex::new(Some(locks));
        Ok(Some(SharedPointer(Home::Counter { layout: layout.clone(), name: name.to_owned(), key: cookie, open })))
    }

    /// On the other ranks, where rank 0 has made a counter.
    pub fn at_counter(layout: &Arc<dyn Layout>, name: &str, cookie: u64) -> SharedPointer {
        let (layout, name, open) = (layout.clone(), name.to_owned(), Mutex::default());
        SharedPointer(Home::Counter { layout, name, key: cookie, open })
    }

    /// Where its memory is; nowhere for a counter.
    pub fn place(&self) -> Place {
        match &self.0 {
            Home::Memory { place, .. } => *place,
            Home::Counter { .. } => Place::default(),
        }
    }

    /// Sets the pointer. Nothing is done where rank 0 has no memory for it: its uses fail then, and calls that only reset it do not.
    ///
    /// # Errors
    /// As [`SharedPointer::count`].
    /// # Cost
    /// As [`SharedPointer::count`].
    pub fn set(&self, to: u64) -> Outcome<()> {
        match &self.0 {
            Home::Memory { place, .. } if place.process == 0 => Ok(()),
            _ => self.count(Count::Set(to)).map(drop),
        }
    }

    fn reach(place: Place) -> io::Result<LockFile> {
        let Place { process, descriptor, cookie } = place;
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

    /// Changes the pointer; returns what it was.
    ///
    /// # Errors
    /// `Unsupported` where this rank cannot reach rank 0's memory: the pointer is as before. `Io` for a counter that is lost with its
    /// server, or with rank 0.
    /// # Cost
    /// In memory four system calls; waits for other ranks that are at the pointer. At a server one request, and [`Layout::locks`] at
    /// the first use.
    pub fn count(&self, count: Count) -> Outcome<u64> {
        match &self.0 {
            Home::Memory { place, open, .. } => SharedPointer::in_memory(*place, open, count),
            Home::Counter { layout, name, key, open } => {
                let mut open = open.lock();
                let locks = match &mut *open {
                    Some(locks) => locks,
                    none => {
                        let unable = || Error::new(ErrorKind::Unsupported, "the layout keeps no counters any more");
                        none.insert(layout.locks(name)?.ok_or_else(unable)?)
                    }
                };
                Ok(locks.count(*key, count)?)
            }
        }
    }

    fn in_memory(place: Place, open: &Mutex<Option<LockFile>>, count: Count) -> Outcome<u64> {
        let mut open = open.lock();
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
            none => none.insert(SharedPointer::reach(place).map_err(failed)?),
        };
        let range = Range { start: 0, length: BYTES as u64 };
        memory.range(Owner::Description, Kind::Exclusive, range, true).map_err(failed)?;
        let moved = (|| {
            let mut bytes = [0; 8];
            memory.descriptor().read_exact_at(&mut bytes, 0)?;
            let before = u64::from_le_bytes(bytes);
            let after = count.after(before);
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
                        (0..500).map(|_| own.count(Count::Add(3)).unwrap()).collect::<Vec<_>>()
                    })
                })
                .collect();
            started.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
        });
        seen.sort_unstable();
        assert_eq!(seen, (0..2000).map(|n| n * 3).collect::<Vec<_>>());
        assert_eq!(first.count(Count::Read).unwrap(), 6000);
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
            let failure = SharedPointer::at(place).count(Count::Add(1)).unwrap_err();
            assert_eq!(failure.class, Class::Unsupported);
            assert_eq!(SharedPointer::at(place).set(5).is_ok(), place.process == 0, "{place:?}");
        }
        assert_eq!(first.count(Count::Read).unwrap(), 0);
    }
}
