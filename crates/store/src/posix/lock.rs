//! Locks and leases of open files.
//!
//! | question | answer |
//! |----------|--------|
//! | a lease  | a shared lock on one byte far behind the file's end ([`LEASED`]): any number of processes and handles |
//! | a lock   | an exclusive lock on the byte before: one handle |
//! | ends     | with the open file description: when the last descriptor of it is closed, which the system does for a process that is killed |
//! | threads  | each open file has its own description: a lock that one thread drops does not drop another's |
//! | `fork`   | a child shares the descriptions of its parent, and keeps no lease of its parent alive (`forked`) |
//! | where    | Linux; on other systems there are no locks, and leases can't be told |

#[cfg(target_os = "linux")]
use super::forked::Unshared;
use crate::Lease;
use std::fs::File;
use std::io;
use std::sync::{Arc, OnceLock};
pub use system::{exclusive, is_leased};
use thalweg_types::mutex::Mutex;

/// The byte that processes extending a file lock. No file is that long, so no other program locks it.
pub const LEASED: i64 = i64::MAX - 1;

/// The leases of one open file.
#[derive(Default)]
pub struct Leases {
    /// Set with the first lease.
    unshared: OnceLock<Unshared>,
    /// How many there are. The lock is given up with the last one, whether the file stays open or not.
    count: Arc<Mutex<u32>>,
}

impl Leases {
    /// Takes a lease; `None` where the filesystem has no locks.
    ///
    /// # Errors
    /// Errors of the system.
    pub fn take(&self, file: &File) -> io::Result<Option<Lease>> {
        // Another descriptor of the same open file: no name is looked up again.
        let again = file.try_clone()?;
        self.unshared.get_or_init(|| Unshared::note(file));
        let unshared = Unshared::note(&again);
        let mut count = self.count.lock();
        if !system::share(&again)? {
            return Ok(None);
        }
        *count += 1;
        let process = std::process::id();
        Ok(Some(Lease::new(Leased { _unshared: unshared, file: again, count: self.count.clone(), process })))
    }
}

/// One lease of an open file.
struct Leased {
    /// Dropped before the file.
    _unshared: Unshared,
    file: File,
    count: Arc<Mutex<u32>>,
    process: u32,
}

impl Drop for Leased {
    fn drop(&mut self) {
        let mut count = self.count.lock();
        *count -= 1;
        // In a child that was forked there may be no lock, or its parent's.
        if *count == 0 && self.process == std::process::id() {
            system::end_share(&self.file);
        }
    }
}

/// Locks the open file for one handle; `None` where another one has it and `wait` is not set.
///
/// The lock ends when the lease is dropped; other descriptors of the same open file stay open.
pub fn handle(file: &File, wait: bool) -> io::Result<Option<Lease>> {
    match exclusive(file, wait)? {
        // The lock ends with the description: that of this handle and of the lease.
        true => Ok(Some(Lease::new(Unlock(file.try_clone()?)))),
        false => Ok(None),
    }
}

/// Gives up the lock of an open file when it is dropped.
struct Unlock(File);

impl Drop for Unlock {
    fn drop(&mut self) {
        system::end_exclusive(&self.0);
    }
}

#[cfg(target_os = "linux")]
mod system {
    use super::LEASED;
    use nix::errno::Errno;
    use nix::fcntl::{FcntlArg, fcntl};
    use nix::libc::{F_RDLCK, F_UNLCK, F_WRLCK, SEEK_SET, flock};
    use nix::sys::statfs::{self, FsType};
    use std::fs::File;
    use std::io;

    /// Filesystems of one machine: every lock on them is seen here.
    const LOCAL: &[FsType] = &[
        statfs::EXT4_SUPER_MAGIC,
        statfs::XFS_SUPER_MAGIC,
        statfs::BTRFS_SUPER_MAGIC,
        statfs::TMPFS_MAGIC,
        statfs::OVERLAYFS_SUPER_MAGIC,
    ];

    fn range(kind: i32) -> flock {
        flock { l_type: kind as _, l_whence: SEEK_SET as _, l_start: LEASED, l_len: 1, l_pid: 0 }
    }

    /// Locks the byte before that of leases. `false` where another handle has it and `wait` is not set.
    pub fn exclusive(file: &File, wait: bool) -> io::Result<bool> {
        let range = flock { l_start: LEASED - 1, ..range(F_WRLCK) };
        loop {
            let how = if wait { FcntlArg::F_OFD_SETLKW(&range) } else { FcntlArg::F_OFD_SETLK(&range) };
            match fcntl(file, how) {
                Ok(_) => return Ok(true),
                Err(Errno::EINTR) => {}
                Err(Errno::EAGAIN | Errno::EACCES) if !wait => return Ok(false),
                Err(e) => return Err(e.into()),
            }
        }
    }

    /// Gives up the lock of [`exclusive`]. It ends with the description at the latest.
    pub fn end_exclusive(file: &File) {
        let _ = fcntl(file, FcntlArg::F_OFD_SETLK(&flock { l_start: LEASED - 1, ..range(F_UNLCK) }));
    }

    /// Takes the lock of a lease; `false` where the filesystem has no locks.
    pub fn share(file: &File) -> io::Result<bool> {
        match fcntl(file, FcntlArg::F_OFD_SETLK(&range(F_RDLCK))) {
            Ok(_) => Ok(true),
            Err(Errno::ENOLCK | Errno::EINVAL | Errno::ENOSYS | Errno::EOPNOTSUPP | Errno::EOVERFLOW) => Ok(false),
            Err(e) => Err(e.into()),
        }
    }

    /// Gives up the lock of [`share`]. It ends with the description at the latest.
    pub fn end_share(file: &File) {
        let _ = fcntl(file, FcntlArg::F_OFD_SETLK(&range(F_UNLCK)));
    }

    /// Whether another open file description has a lease; `None` where locks of other machines are not seen here.
    ///
    /// # Errors
    /// Errors of the system, which do not mean that the filesystem has no locks.
    pub fn is_leased(file: &File) -> io::Result<Option<bool>> {
        // Requests the lock that conflicts with an exclusive one; takes none.
        let mut met = range(F_WRLCK);
        match fcntl(file, FcntlArg::F_OFD_GETLK(&mut met)) {
            Ok(_) => {}
            Err(Errno::ENOLCK | Errno::EINVAL | Errno::ENOSYS | Errno::EOPNOTSUPP | Errno::EOVERFLOW) => {
                return Ok(None);
            }
            Err(e) => return Err(e.into()),
        }
        if i32::from(met.l_type) != F_UNLCK {
            return Ok(Some(true));
        }
        let kind = statfs::fstatfs(file)?.filesystem_type();
        Ok(LOCAL.contains(&kind).then_some(false))
    }
}

#[cfg(not(target_os = "linux"))]
mod system {
    use std::fs::File;
    use std::io;

    pub fn exclusive(_file: &File, _wait: bool) -> io::Result<bool> {
        Err(io::ErrorKind::Unsupported.into())
    }

    pub fn end_exclusive(_file: &File) {}

    pub fn share(_file: &File) -> io::Result<bool> {
        Ok(false)
    }

    pub fn end_share(_file: &File) {}

    pub fn is_leased(_file: &File) -> io::Result<Option<bool>> {
        Ok(None)
    }
}

/// Nothing to note: no lock is taken here.
#[cfg(not(target_os = "linux"))]
struct Unshared;

#[cfg(not(target_os = "linux"))]
impl Unshared {
    fn note(_fd: &File) -> Unshared {
        Unshared
    }
}
