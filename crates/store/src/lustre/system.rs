//! The system calls of [`super::Calls`], with one `unsafe` call.
#![allow(unsafe_code)]

use super::Calls;
use nix::libc;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// This system.
#[derive(Debug, Clone, Copy)]
pub struct System;

impl Calls for System {
    fn filesystem(&self, path: &Path) -> io::Result<u64> {
        let about = nix::sys::statfs::statfs(path)?;
        // 32 bits; the field's sign depends on the system.
        Ok(about.filesystem_type().0 as u64 & 0xFFFF_FFFF)
    }

    fn open_folder(&self, path: &Path) -> io::Result<File> {
        File::open(path)
    }

    fn make_delayed(&self, path: &Path) -> io::Result<File> {
        OpenOptions::new()
            .read(true)
            .write(true)
            .create_new(true)
            .custom_flags(libc::O_NOCTTY | libc::O_ASYNC)
            .open(path)
    }

    fn control(&self, file: &File, request: u64, argument: &mut [u8]) -> io::Result<()> {
        // SAFETY: the descriptor is open as long as `file`; both requests that are made read and write no more than the 8
        // or 32 bytes their callers give, and keep no pointer.
        let done = unsafe { libc::ioctl(file.as_raw_fd(), request as _, argument.as_mut_ptr()) };
        if done < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
    }
}
