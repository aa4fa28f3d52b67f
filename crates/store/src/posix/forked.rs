//! Leases across `fork`: a forked child replaces its copies of the descriptors, so that they end with the parent.
//!
//! | question | answer |
//! |---|---|
//! | why | the system keeps the lock of an open file until its last descriptor is closed, in any process. A child that outlives its parent would keep the parent's leases, and hide the parent's death |
//! | what | in the child, each noted descriptor is replaced by one of a new open file description: the same file, the same number, no lock. Handles remain valid |
//! | when | first in a child of `fork` (`pthread_atfork`). `vfork` and `posix_spawn` run no handler; their children close the descriptors with `exec` |
//! | if the file cannot be reopened | the copy and its lock stay: a file that may no longer be opened, a system without `/proc` |
//! | calls | only system calls in the child: no allocation and no mutex, which another thread of the parent may have locked |
//! | cost | none without leases; else four system calls per noted descriptor and child |

use rustix::fs::{Mode, OFlags};
use std::ffi::CStr;
use std::mem::ManuallyDrop;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::sync::Once;
use std::sync::atomic::{AtomicI32, AtomicPtr, Ordering};
use thalweg_types::mutex::Mutex;

/// An entry of the list of noted descriptors. Entries are never freed, so that a child can walk the list at any moment.
struct DescriptorEntry {
    fd: AtomicI32,
    next: Option<&'static DescriptorEntry>,
}

const NONE: RawFd = -1;

static FIRST: AtomicPtr<DescriptorEntry> = AtomicPtr::new(std::ptr::null_mut());
/// Entries without descriptors.
static FREE: Mutex<Vec<&'static DescriptorEntry>> = Mutex::new(Vec::new());
static LISTENING: Once = Once::new();

/// A noted descriptor, until this value is dropped. Drop it before the descriptor is closed.
pub struct Unshared(&'static DescriptorEntry);

impl Unshared {
    /// Notes a descriptor. Call before a lock is taken through it or another descriptor of the same open file.
    pub fn note(fd: &impl AsRawFd) -> Unshared {
        LISTENING.call_once(|| {
            // SAFETY: the function lives as long as this library, whose handlers are removed when it is unloaded.
            #[allow(unsafe_code)]
            unsafe {
                nix::libc::pthread_atfork(None, None, Some(in_child));
            }
        });
        // No waiting: another thread may have the mutex, or have had it when this process was forked.
        let free = FREE.try_lock().and_then(|mut free| free.pop());
        let entry = free.unwrap_or_else(new_entry);
        entry.fd.store(fd.as_raw_fd(), Ordering::SeqCst);
        Unshared(entry)
    }
}

impl Drop for Unshared {
    fn drop(&mut self) {
        self.0.fd.store(NONE, Ordering::SeqCst);
        // Otherwise an entry of 16 bytes is never reused.
        if let Some(mut free) = FREE.try_lock() {
            free.push(self.0);
        }
    }
}

fn first() -> Option<&'static DescriptorEntry> {
    // SAFETY: null, or an entry that was leaked by `new_entry`.
    #[allow(unsafe_code)]
    unsafe {
        FIRST.load(Ordering::SeqCst).as_ref()
    }
}

fn new_entry() -> &'static DescriptorEntry {
    loop {
        let next = first();
        let entry = Box::leak(Box::new(DescriptorEntry { fd: AtomicI32::new(NONE), next }));
        let before = next.map_or(std::ptr::null_mut(), |next| std::ptr::from_ref(next).cast_mut());
        if FIRST.compare_exchange(before, entry, Ordering::SeqCst, Ordering::SeqCst).is_ok() {
            return entry;
        }
    }
}

extern "C" fn in_child() {
    let mut at = first();
    while let Some(entry) = at {
        let fd = entry.fd.load(Ordering::SeqCst);
        if fd != NONE {
            // A descriptor that cannot be reopened stays.
            let _ = unshare(fd);
        }
        at = entry.next;
    }
}

/// Gives a descriptor an open file description of this process' own.
fn unshare(fd: RawFd) -> rustix::io::Result<()> {
    // SAFETY: noted descriptors are open; this function neither closes nor keeps this one.
    #[allow(unsafe_code)]
    let (old, mut target) = unsafe { (BorrowedFd::borrow_raw(fd), ManuallyDrop::new(OwnedFd::from_raw_fd(fd))) };
    let flags = rustix::fs::fcntl_getfl(old)?;
    let mut path = [0; 32];
    let kept = flags & (OFlags::RWMODE | OFlags::APPEND | OFlags::NONBLOCK | OFlags::DIRECT | OFlags::DSYNC);
    let new = rustix::fs::open(through(fd, &mut path), kept | OFlags::CLOEXEC, Mode::empty())?;
    rustix::io::dup3(&new, &mut target, rustix::io::DupFlags::CLOEXEC)
}

/// The path that reopens the file of a descriptor.
fn through(fd: RawFd, path: &mut [u8; 32]) -> &CStr {
    const FOLDER: &[u8] = b"/proc/self/fd/";
    path[..FOLDER.len()].copy_from_slice(FOLDER);
    let digits = fd.checked_ilog10().unwrap_or(0) as usize + 1;
    let mut left = fd;
    for digit in path[FOLDER.len()..][..digits].iter_mut().rev() {
        *digit = b'0' + (left % 10) as u8;
        left /= 10;
    }
    CStr::from_bytes_until_nul(path).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_descriptors_are_written_without_memory() {
        for fd in [0, 7, 10, 99, 100, 49_152, RawFd::MAX] {
            assert_eq!(through(fd, &mut [0; 32]).to_str().unwrap(), format!("/proc/self/fd/{fd}"));
        }
    }
}
