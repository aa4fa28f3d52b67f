//! Memory maps: read-only maps are copies of the current bytes. Writes to memory cannot be observed, so maps that write to
//! the file are refused.
#![allow(unsafe_code)] // hooks

use crate::border::{Fail, Outcome, enter_or, memory_mut, tell};
use crate::open::OpenFileDescription;
use crate::real::hooks;
use crate::table::{is_ours, need};
use crate::world::world;
use libc::{c_int, c_void, off_t, size_t};
use rustix::fs::{MemfdFlags, Mode, OFlags};
use rustix::io::Errno;
use std::os::fd::AsRawFd;

hooks! {
    fn mmap|mmap64(at: *mut c_void, length: size_t, protection: c_int, flags: c_int, fd: c_int, offset: off_t) -> *mut c_void = |real| {
        if fd < 0 || flags & libc::MAP_ANONYMOUS != 0 || !is_ours(fd) || world().is_none() {
            return real(at, length, protection, flags, fd, offset);
        }
        enter_or(libc::MAP_FAILED, || {
            let open = need(fd)?;
            if length == 0 || offset < 0 || offset % libc::sysconf(libc::_SC_PAGESIZE) != 0 {
                return Err(Errno::INVAL.into());
            }
            if !open.access.read || open.is_folder() {
                return Err(Errno::ACCESS.into());
            }
            let shared = matches!(flags & libc::MAP_TYPE, libc::MAP_SHARED | libc::MAP_SHARED_VALIDATE);
            if shared && protection & libc::PROT_WRITE != 0 {
                tell(&format!("{}: a map that writes into the file is refused", open.path()));
                return Err(Errno::NODEV.into());
            }
            let flags = flags & !(libc::MAP_TYPE | libc::MAP_SHARED_VALIDATE);
            let request = MapRequest { at, length, protection, flags, offset, real };
            if shared { request.shared(&open) } else { request.private(&open) }
        })
    }
}

type Mmap = unsafe extern "C" fn(*mut c_void, size_t, c_int, c_int, c_int, off_t) -> *mut c_void;

fn failed() -> Fail {
    Fail(std::io::Error::last_os_error().raw_os_error().unwrap_or(libc::ENOMEM))
}

/// The requested map.
struct MapRequest {
    at: *mut c_void,
    length: size_t,
    protection: c_int,
    /// Its flags, without `MAP_PRIVATE` and `MAP_SHARED`.
    flags: c_int,
    offset: off_t,
    /// The C library's `mmap`.
    real: Mmap,
}

impl MapRequest {
    /// Private: anonymous memory, filled with the file's bytes.
    fn private(&self, open: &OpenFileDescription) -> Outcome<*mut c_void> {
        let flags = self.flags | libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        // SAFETY: the program's arguments, but without a file.
        let memory = unsafe { (self.real)(self.at, self.length, libc::PROT_READ | libc::PROT_WRITE, flags, -1, 0) };
        if memory == libc::MAP_FAILED {
            return Err(failed());
        }
        // SAFETY: just mapped, so long.
        let filled = unsafe { memory_mut(memory, self.length) }.and_then(|out| open.read_at(self.offset, &mut [out]));
        // SAFETY: as above.
        if filled.is_err() || unsafe { libc::mprotect(memory, self.length, self.protection) } != 0 {
            let fail = filled.err().unwrap_or_else(failed);
            // SAFETY: as above.
            unsafe { libc::munmap(memory, self.length) };
            return Err(fail);
        }
        Ok(memory)
    }

    /// Shared: a sealed memory file, so that a later `mprotect` for writing fails too.
    fn shared(&self, open: &OpenFileDescription) -> Outcome<*mut c_void> {
        let file = rustix::fs::memfd_create("thalweg map", MemfdFlags::CLOEXEC)?;
        rustix::fs::ftruncate(&file, self.length as u64)?;
        let mut buffer = vec![0; self.length.min(1 << 20)];
        let mut done = 0;
        while done < self.length {
            let part = buffer.len().min(self.length - done);
            let got = open.read_at(self.offset + done as off_t, &mut [&mut buffer[..part]])?;
            let mut written = 0;
            while written < got {
                written += rustix::io::pwrite(&file, &buffer[written..got], (done + written) as u64)?;
            }
            done += got;
            if got < part {
                break;
            }
        }
        let path = format!("/proc/self/fd/{}", file.as_raw_fd());
        let readable = rustix::fs::open(path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?;
        let flags = self.flags | libc::MAP_SHARED;
        // SAFETY: the program's arguments, for a file with the same bytes.
        let memory = unsafe { (self.real)(self.at, self.length, self.protection, flags, readable.as_raw_fd(), 0) };
        if memory == libc::MAP_FAILED { Err(failed()) } else { Ok(memory) }
    }
}
