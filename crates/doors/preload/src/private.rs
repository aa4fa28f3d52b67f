//! Descriptors of our own: those of the stores' files.
//!
//! They lie high above those of the program, which expects the lowest free number of each open and may close or replace
//! whatever it finds; its calls never reach them.

use rustix::fs::OFlags;
use std::os::fd::{AsRawFd, FromRawFd, IntoRawFd, OwnedFd, RawFd};
use std::sync::atomic::{AtomicU64, Ordering};

const MOST: usize = 1 << 16;
static OURS: [AtomicU64; MOST / 64] = [const { AtomicU64::new(0) }; MOST / 64];

/// Whether a descriptor is one of our own.
#[inline]
pub fn is(fd: RawFd) -> bool {
    match OURS.get(fd as usize / 64) {
        Some(word) => word.load(Ordering::Relaxed) & (1 << (fd as usize % 64)) != 0,
        None => false,
    }
}

/// Where they begin: in the upper part of what the system lets a process have.
pub fn base() -> RawFd {
    let most = rustix::process::getrlimit(rustix::process::Resource::Nofile).current.unwrap_or(1 << 16);
    (most.min(MOST as u64) / 4 * 3) as RawFd
}

/// Moves a descriptor that our own code was given up to the others. It stays where it is where there is no room.
#[allow(unsafe_code)]
pub fn take(fd: RawFd) -> RawFd {
    if fd < 0 {
        return fd;
    }
    // SAFETY: just opened; nobody else knows it.
    let low = unsafe { OwnedFd::from_raw_fd(fd) };
    let fd = match rustix::io::fcntl_dupfd_cloexec(&low, base()) {
        Ok(high) => high.into_raw_fd(),
        Err(_) => low.as_raw_fd(),
    };
    if fd == low.as_raw_fd() {
        let _ = low.into_raw_fd();
    }
    mark(fd);
    fd
}

/// Notes a descriptor as one of our own.
pub fn mark(fd: RawFd) {
    if let Some(word) = OURS.get(fd as usize / 64) {
        word.fetch_or(1 << (fd as usize % 64), Ordering::Relaxed);
    }
}

/// Our own code closes one.
pub fn forget(fd: RawFd) {
    if let Some(word) = OURS.get(fd as usize / 64) {
        word.fetch_and(!(1 << (fd as usize % 64)), Ordering::Relaxed);
    }
}

/// Closes all, in a child that does not use them: what the parent holds with them ends with the parent.
pub fn close_all() {
    for (at, word) in OURS.iter().enumerate() {
        let mut bits = word.swap(0, Ordering::Relaxed);
        while bits != 0 {
            crate::open::close_raw((at * 64) as RawFd + bits.trailing_zeros() as RawFd);
            bits &= bits - 1;
        }
    }
}

/// Whether flags of an open are those of our own code, which never hands a descriptor on.
pub fn closes_on_exec(flags: i32) -> bool {
    OFlags::from_bits_retain(flags as u32).contains(OFlags::CLOEXEC)
}
