//! The door's own descriptors: those of the stores' files and of the connections to the daemon.
//!
//! Their numbers are far above the program's, because a program expects the lowest free number from each open and may close
//! or replace any descriptor. The program's calls never affect them.

use crate::numbers::Numbers;
use rustix::fs::OFlags;
use std::os::fd::{AsRawFd, FromRawFd, IntoRawFd, OwnedFd, RawFd};

const MOST: usize = 1 << 16;
static OURS: Numbers<{ MOST / 64 }> = Numbers::new();

/// Whether a descriptor is private.
#[inline]
pub fn is(fd: RawFd) -> bool {
    OURS.has(fd)
}

/// All private descriptors, in ascending order.
pub fn all() -> impl Iterator<Item = RawFd> {
    OURS.all()
}

/// Lowest private number: three quarters of the process's limit, of which at most 65,536 count.
pub fn base() -> RawFd {
    let most = rustix::process::getrlimit(rustix::process::Resource::Nofile).current.unwrap_or(1 << 16);
    (most.min(MOST as u64) / 4 * 3) as RawFd
}

/// Moves a descriptor that our own code opened to the private range. Without a free number there the descriptor keeps its
/// number.
#[allow(unsafe_code)]
pub fn take(fd: RawFd) -> RawFd {
    if fd < 0 {
        return fd;
    }
    // SAFETY: just opened, without other users.
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

/// As [`take`], for a connection to a server.
#[allow(unsafe_code)]
pub fn keep(fd: OwnedFd) -> OwnedFd {
    // SAFETY: the old number is given up here, and the new one has no other user.
    unsafe { OwnedFd::from_raw_fd(take(fd.into_raw_fd())) }
}

/// Records a descriptor as private.
pub fn mark(fd: RawFd) {
    OURS.add(fd);
}

/// Call when our own code closes a private descriptor.
pub fn forget(fd: RawFd) {
    OURS.take(fd);
}

/// Closes all private descriptors in a child that does not use them, so that the parent's leases and locks end with the
/// parent.
///
/// - `keep`: descriptors that the child shares.
pub fn close_all(keep: &[RawFd]) {
    // The kernel copies the descriptors first and the memory, with this set, afterwards: what another thread of the parent opened in
    // between is in the set alone.
    let is_open = |fd: &RawFd| rustix::io::fcntl_getfd(crate::open::borrow(*fd)).is_ok();
    OURS.all().filter(|fd| !keep.contains(fd) && OURS.take(*fd)).filter(is_open).for_each(crate::open::close_raw);
}

/// Whether the flags of an open contain `O_CLOEXEC`, as all opens by our own code do.
pub fn closes_on_exec(flags: i32) -> bool {
    OFlags::from_bits_retain(flags as u32).contains(OFlags::CLOEXEC)
}
