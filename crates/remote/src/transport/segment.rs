//! Memory that one process fills and another one reads: bodies of messages between processes of one machine pass through it, so that
//! the socket carries heads only.
//!
//! | question | answer |
//! |----------|--------|
//! | form     | a `memfd` of [`LENGTH`] bytes, passed over the connection (`SCM_RIGHTS`); pages exist once they were filled |
//! | whose    | each end fills its own and reads the other's: the client's has bodies of requests, the server's those of replies |
//! | who can write | the maker alone: sealed against further writers (`F_SEAL_FUTURE_WRITE`) once it is mapped |
//! | length   | sealed (`F_SEAL_SHRINK`, `F_SEAL_GROW`): a page that was there cannot go away under a reader. An unsealed or shorter one is refused |
//! | trust    | none: a reader copies the bytes out once, and looks at its copy |
//! | the server | reads with `pread` and never maps its client's memory: whatever a client passes, it is an error there, not a signal |
//! | several messages | each connection has one request or reply under way, whose body begins at byte 0 |
//! | the end  | nothing has a name: the kernel frees the memory with the last process that has it |

use crate::message::LONGEST_PIECE;
use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, fcntl_get_seals, fstat, ftruncate, memfd_create};
use rustix::io::{Errno, pread};
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
use rustix::process::{Resource, getrlimit};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::ptr::{NonNull, null_mut};
use thalweg_types::{Error, ErrorKind, Result};

/// Bytes of a segment: the largest read or write of a message.
pub const LENGTH: usize = LONGEST_PIECE;

fn refused(what: &str, cause: impl Into<io::Error>) -> Error {
    Error::new(ErrorKind::Unsupported, what.to_string()).caused_by(cause.into())
}

/// A mapping of a whole segment.
struct Map(NonNull<u8>);

// SAFETY: addresses of memory that belongs to no thread.
#[allow(unsafe_code)]
unsafe impl Send for Map {}
// SAFETY: a shared reference gives out addresses only.
#[allow(unsafe_code)]
unsafe impl Sync for Map {}

impl Map {
    fn of(file: impl AsFd, access: ProtFlags) -> rustix::io::Result<Map> {
        // SAFETY: a new mapping at a place of the kernel's choice, which nothing else refers to.
        #[allow(unsafe_code)]
        let base = unsafe { mmap(null_mut(), LENGTH, access, MapFlags::SHARED, file, 0)? };
        NonNull::new(base.cast()).map(Map).ok_or(Errno::NOMEM)
    }
}

impl Drop for Map {
    fn drop(&mut self) {
        // SAFETY: the mapping that `of` has made; nothing borrows from it any more.
        #[allow(unsafe_code)]
        let _ = unsafe { munmap(self.0.as_ptr().cast(), LENGTH) };
    }
}

/// A segment that this process fills.
pub struct Filled(Map);

impl Filled {
    /// A new segment, and the descriptor for the other end.
    ///
    /// - `placed`: receives the descriptor, returns the one to use.
    ///
    /// # Errors
    /// `Unsupported` if the system has no such memory (before Linux 5.1), no descriptor or no address space left, and for a process that may
    /// not write files of this length.
    pub(crate) fn make(placed: impl FnOnce(OwnedFd) -> OwnedFd) -> Result<(Filled, OwnedFd)> {
        let make = || -> rustix::io::Result<(Filled, OwnedFd)> {
            // A longer file is a signal that ends the program.
            if getrlimit(Resource::Fsize).current.is_some_and(|most| most < LENGTH as u64) {
                return Err(Errno::FBIG);
            }
            let file = placed(memfd_create("thalweg messages", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?);
            ftruncate(&file, LENGTH as u64)?;
            let map = Map::of(&file, ProtFlags::READ | ProtFlags::WRITE)?;
            // The mapping stays writable.
            let seals = SealFlags::SHRINK | SealFlags::GROW | SealFlags::FUTURE_WRITE | SealFlags::SEAL;
            fcntl_add_seals(&file, seals)?;
            Ok((Filled(map), file))
        };
        make().map_err(|e| refused("there is no memory for messages", e))
    }

    /// Its bytes.
    pub fn bytes(&mut self) -> &mut [u8] {
        // SAFETY: the mapping has LENGTH bytes, and lives as long as the borrow. The seals let no other process change them. A forked
        // child has this mapping too, but does not use its parent's connections.
        #[allow(unsafe_code)]
        unsafe {
            std::slice::from_raw_parts_mut(self.0.0.as_ptr(), LENGTH)
        }
    }
}

/// A segment that the other end fills.
pub struct Read {
    file: Option<OwnedFd>,
    map: Option<Map>,
}

impl Read {
    /// A segment that was received, read with system calls.
    ///
    /// # Errors
    /// `Unsupported` if it is not memory, can be shortened, or is too short.
    pub(crate) fn of(file: OwnedFd) -> Result<Read> {
        let bad = |what: &str| Error::new(ErrorKind::Unsupported, format!("memory for messages that is {what}"));
        // Only memory has seals: a read of another file might never return.
        let seals = fcntl_get_seals(&file).map_err(|e| refused("memory for messages that is none", e))?;
        if !seals.contains(SealFlags::SHRINK) {
            return Err(bad("not sealed: it could be shortened"));
        }
        let about = fstat(&file).map_err(|e| refused("memory for messages that is none", e))?;
        if about.st_size < LENGTH as i64 {
            return Err(bad("too short"));
        }
        Ok(Read { file: Some(file), map: None })
    }

    /// As [`Read::of`], for a program: mapped, so that no descriptor stays open.
    ///
    /// # Errors
    /// As [`Read::of`], and without address space.
    pub(crate) fn mapped(file: OwnedFd) -> Result<Read> {
        let checked = Read::of(file)?;
        let file = checked.file.as_ref().ok_or_else(|| Error::new(ErrorKind::Unsupported, "no memory for messages"))?;
        let map = Map::of(file, ProtFlags::READ).map_err(|e| refused("memory for messages cannot be mapped", e))?;
        Ok(Read { file: None, map: Some(map) })
    }

    /// Copies bytes out.
    ///
    /// - `at`: where they begin.
    ///
    /// # Errors
    /// `Corrupt` beyond the segment's end.
    pub(crate) fn copy(&self, at: usize, out: &mut [u8]) -> Result<()> {
        let length = out.len();
        let beyond = || {
            let what = format!("{length} bytes at {at} of memory of {LENGTH} bytes");
            Error::new(ErrorKind::Corrupt, what)
        };
        if at.checked_add(length).is_none_or(|end| end > LENGTH) {
            return Err(beyond());
        }
        match (&self.map, &self.file) {
            (Some(map), _) => {
                // SAFETY: the range is within the mapping, whose pages cannot go away (sealed); `out` is not part of it. No reference to
                // the mapping is made, as the other process may change it: what is copied then is not what it meant, and no more.
                #[allow(unsafe_code)]
                unsafe {
                    std::ptr::copy_nonoverlapping(map.0.as_ptr().add(at), out.as_mut_ptr(), length);
                }
                Ok(())
            }
            (None, Some(file)) => {
                let mut done = 0;
                while done < length {
                    match pread(file, &mut out[done..], (at + done) as u64) {
                        Ok(0) => return Err(beyond()),
                        Ok(got) => done += got,
                        Err(Errno::INTR) => {}
                        Err(e) => return Err(Error::io("cannot read memory for messages", e.into())),
                    }
                }
                Ok(())
            }
            (None, None) => Err(beyond()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;
    use std::os::unix::fs::FileExt;

    fn made() -> (Filled, OwnedFd) {
        Filled::make(|file| file).unwrap()
    }

    fn memory(length: usize, seals: SealFlags) -> OwnedFd {
        let file = memfd_create("test", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING).unwrap();
        ftruncate(&file, length as u64).unwrap();
        fcntl_add_seals(&file, seals).unwrap();
        file
    }

    #[test]
    fn what_its_maker_fills_in_its_reader_copies_out() {
        let (mut ours, file) = made();
        for read in [Read::of(file.try_clone().unwrap()).unwrap(), Read::mapped(file).unwrap()] {
            ours.bytes()[LENGTH - 5..].copy_from_slice(b"bytes");
            let mut out = [0; 5];
            read.copy(LENGTH - 5, &mut out).unwrap();
            assert_eq!(&out, b"bytes");
            for at in [LENGTH - 4, LENGTH, usize::MAX] {
                assert_eq!(read.copy(at, &mut out).unwrap_err().kind(), ErrorKind::Corrupt, "{at}");
            }
        }
    }

    #[test]
    fn nobody_else_writes_shortens_or_unseals_it() {
        let (_ours, file) = made();
        assert!(Map::of(&file, ProtFlags::READ | ProtFlags::WRITE).is_err(), "a second writer");
        assert!(ftruncate(&file, 0).is_err() && ftruncate(&file, 2 * LENGTH as u64).is_err());
        assert!(fcntl_add_seals(&file, SealFlags::WRITE).is_err());
        assert!(File::from(file).write_all_at(b"x", 0).is_err());
    }

    #[test]
    fn memory_that_could_be_shortened_or_is_too_short_or_none_is_refused() {
        let files = [
            (memory(LENGTH, SealFlags::GROW), "not sealed"),
            (memory(LENGTH - 1, SealFlags::SHRINK), "too short"),
            (tempfile::tempfile().unwrap().into(), "none"),
            (io::pipe().unwrap().0.into(), "none"),
        ];
        for (file, words) in files {
            for refused in [Read::of(file.try_clone().unwrap()), Read::mapped(file)] {
                let e = refused.err().expect(words);
                assert!(e.kind() == ErrorKind::Unsupported && e.to_string().contains(words), "{e}");
            }
        }
    }
}
