//! Descriptors of our own: those of the stores' files, and of the connections to the daemon.
//!
//! They lie high above those of the program, which expects the lowest free number of each open and may close or replace
//! whatever it finds; its calls never reach them.

use crate::numbers::Numbers;
use rustix::fs::OFlags;
use std::os::fd::{AsRawFd, FromRawFd, IntoRawFd, OwnedFd, RawFd};

const MOST: usize = 1 << 16;
static OURS: Numbers<{ MOST / 64 }> = Numbers::new();

/// Whether a descriptor is one of our own.
#[inline]
pub fn is(fd: RawFd) -> bool {
    OURS.has(fd)
}

/// All of them, the lowest first.
pub fn all() -> impl Iterator<Item = RawFd> {
    OURS.all()
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

/// As [`take`], for a connection to the daemon.
#[allow(unsafe_code)]
pub fn keep(fd: OwnedFd) -> OwnedFd {
    // SAFETY: the number is given up here, and nobody else has the one that comes back.
    unsafe { OwnedFd::from_raw_fd(take(fd.into_raw_fd())) }
}

/// Notes a descriptor as one of our own.
pub fn mark(fd: RawFd) {
    OURS.add(fd);
}

/// Our own code closes one.
pub fn forget(fd: RawFd) {
    OURS.take(fd);
}

/// Closes all, in a child that does not use them: what the parent holds with them ends with the parent.
///
/// - `keep`: those that the child shares after all.
pub fn close_all(keep: &[RawFd]) {
    OURS.all().filter(|fd| !keep.contains(fd) && OURS.take(*fd)).for_each(crate::open::close_raw);
}

/// Whether flags of an open are those of our own code, which never hands a descriptor on.
pub fn closes_on_exec(flags: i32) -> bool {
    OFlags::from_bits_retain(flags as u32).contains(OFlags::CLOEXEC)
}
