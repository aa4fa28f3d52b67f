//! Locks of programs on logical files: on a file that they lock in its place ([`LockFile`]), or at the file's server ([`LockDescription`]).
//!
//! | question | answer |
//! |----------|--------|
//! | which file | if the layout stores the bytes in a plain file: that file, so that programs without a door meet the same locks. Else the *lock object*: an empty file `lock-IDENTITY` in the layout's lock folder, on the store that holds names |
//! | scope | all processes, doors and machines that open the lock object; across machines if the store's filesystem passes locks on |
//! | kinds | the system's own: `flock`, ranges of a process, ranges of a description, kept apart as the system keeps them |
//! | lifetime of a lock | that of a [`LockFile`]'s descriptors: the locks of a killed process end |
//! | lifetime of the object | created by the first process that locks, removed by the last that closes it; a killed process may leave an empty file, which the next use removes |
//! | modes | the object has those of the logical file without the right to execute, and its owner if the process may change owners |
//! | no lock folder | `ENOLCK`: never a success without a lock |
//! | locks at a server | for layouts whose clients are on several hosts ([`thalweg_layout::locks`]): locks of open file descriptions alone. A waiting caller asks again, after pauses from [`SHORTEST_PAUSE`] to [`LONGEST_PAUSE`] |
//!
//! Each process that has a lock object open holds a shared lock on its last byte. Removing the object needs that byte exclusively,
//! through another file description: no object is removed while any descriptor of it exists.

use nix::errno::Errno;
use nix::fcntl::{FcntlArg, fcntl};
use nix::libc::{self, F_RDLCK, F_UNLCK, F_WRLCK, SEEK_SET, flock};
use rustix::fs::FlockOperation;
use std::fs::{DirBuilder, File, OpenOptions};
use std::io;
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use thalweg_layout::locks::{Family, FileLocks, Refused};
pub use thalweg_layout::locks::{Kind, Met, Range};
use thalweg_layout::{Attributes, Layout, errno};
use thalweg_types::{Error, ErrorKind, Result};

/// Prefix of the names of lock objects.
const NAME: &str = "lock-";
/// The byte that every process with the lock object open locks in shared mode. Programs' locks end before it.
const PRESENT: i64 = i64::MAX - 1;
/// How often an object is created again that other processes remove at the same moment.
const ATTEMPTS: usize = 1000;
/// The shortest pause of a caller that waits for a lock at a server.
pub const SHORTEST_PAUSE: Duration = Duration::from_micros(200);
/// Its longest pause.
pub const LONGEST_PAUSE: Duration = Duration::from_millis(20);

/// How long a caller waits for a lock at a server before it is told of the one that it waits for.
pub const LONG_WAIT: Duration = Duration::from_secs(30);

/// The pause before a caller asks a server again for a lock.
///
/// - `waited`: since it asked first.
/// - `ahead`: how many come first.
fn pause(waited: Duration, ahead: u32) -> Duration {
    // A released lock is idle for a small part of the time that the next one waited for it.
    let part = if ahead == 0 { 64 } else { 8 };
    (waited / part).clamp(SHORTEST_PAUSE, LONGEST_PAUSE)
}

/// Owner of a lock on a range.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Owner {
    /// The process: `F_SETLK`, `F_SETLKW`, `F_GETLK`.
    Process,
    /// The open file description: `F_OFD_SETLK`, `F_OFD_SETLKW`, `F_OFD_GETLK`.
    Description,
}

/// A description of the file that is locked in place of a logical file. See the module's page.
#[derive(Debug)]
pub struct LockFile {
    /// `Some` until it is dropped.
    file: Option<File>,
    /// The lock object to remove; `None` for a file of the program itself.
    object: Option<PathBuf>,
}

fn unavailable(layout: &dyn Layout, name: &str, why: &str) -> Error {
    let what = format!("cannot lock: {} {why}", layout.describe());
    Error::new(ErrorKind::Unsupported, what).caused_by(io::Error::from(rustix::io::Errno::NOLCK)).in_object(name)
}

impl LockFile {
    /// Opens the file that is locked in place of a logical file; creates the lock object if there is none.
    ///
    /// - `name`: in the layout.
    /// - `about`: of the file.
    ///
    /// # Errors
    /// `Unsupported` with `ENOLCK` if the stores of this machine cannot hold lock objects, or if this process may not create
    /// one: the message says which.
    /// # Cost
    /// Calls of the local filesystem only: an open, for a new lock object also its creation and mode.
    pub fn open(layout: &dyn Layout, name: &str, about: &Attributes) -> Result<LockFile> {
        if let Some(plain) = layout.plain_file(name) {
            let file =
                for_locks(&plain).map_err(|e| unavailable(layout, name, &format!("does not let us open it: {e}")))?;
            return Ok(LockFile { file: Some(file), object: None });
        }
        let Some(folder) = layout.lock_folder(name) else {
            let why = match layout.locks(name) {
                Ok(Some(_)) => {
                    "keeps locks at its servers, which exclude open file descriptions of MPI-IO and FUSE, not processes and their children"
                }
                _ => "has no folder of this machine for files to be locked",
            };
            return Err(unavailable(layout, name, why));
        };
        if about.identity == 0 {
            return Err(unavailable(layout, name, "has no identity for each file"));
        }
        let path = folder.join(format!("{NAME}{:016x}", about.identity));
        match LockFile::make(&folder, &path, about) {
            Ok(file) => Ok(LockFile { file: Some(file), object: Some(path) }),
            Err(e) => Err(unavailable(layout, name, &format!("cannot have {}: {e}", path.display()))),
        }
    }

    /// Of an open file of the program's own, through a description of its own.
    ///
    /// # Errors
    /// Errors of the system.
    pub fn of_plain(file: &File) -> io::Result<LockFile> {
        Ok(LockFile { file: Some(for_locks(Path::new(&format!("/proc/self/fd/{}", file.as_raw_fd())))?), object: None })
    }

    fn make(folder: &Path, path: &Path, about: &Attributes) -> io::Result<File> {
        for _ in 0..ATTEMPTS {
            let made = OpenOptions::new().read(true).write(true).create_new(true).mode(0o600).open(path);
            let file = match made {
                Ok(file) => {
                    dress(&file, about);
                    file
                }
                Err(e) if e.kind() == io::ErrorKind::AlreadyExists => match for_locks(path) {
                    Ok(file) => file,
                    // Removed meanwhile.
                    Err(e) if e.kind() == io::ErrorKind::NotFound => continue,
                    // Made by another user, who gives it its mode now.
                    Err(e) if e.kind() == io::ErrorKind::PermissionDenied => {
                        std::thread::sleep(std::time::Duration::from_millis(1));
                        for_locks(path).map_err(|_| e)?
                    }
                    Err(e) => return Err(e),
                },
                Err(e) if e.kind() == io::ErrorKind::NotFound => {
                    make_folder(folder)?;
                    continue;
                }
                Err(e) => return Err(e),
            };
            let about = file.metadata()?;
            if !about.is_file() {
                return Err(Errno::EINVAL.into());
            }
            lock_presence(&file)?;
            if file.metadata()?.nlink() > 0 {
                return Ok(file);
            }
        }
        Err(Errno::EAGAIN.into())
    }

    /// Restores a lock file from an inherited descriptor; `None` if the descriptor is not of a lock object.
    pub fn inherited(fd: RawFd, take: impl FnOnce() -> File) -> Option<LockFile> {
        let path = std::fs::read_link(format!("/proc/self/fd/{fd}")).ok()?;
        let number = path.file_name()?.to_str()?.strip_prefix(NAME)?;
        let known = number.len() == 16 && number.bytes().all(|b| b.is_ascii_hexdigit());
        let below = path.parent().is_some_and(|folder| folder.ends_with("locks"));
        (known && below).then(|| LockFile { file: Some(take()), object: Some(path) })
    }

    /// The same file description in a forked child, which has the same descriptor.
    ///
    /// - `file`: of that descriptor. The child must not drop the parent's value.
    pub fn in_child(&self, file: File) -> LockFile {
        LockFile { file: Some(file), object: self.object.clone() }
    }

    /// Its descriptor.
    pub fn descriptor(&self) -> &File {
        self.file.as_ref().expect("open until it is dropped")
    }

    /// Locks or unlocks the whole file, as `flock(2)`: for the description.
    ///
    /// # Errors
    /// `EWOULDBLOCK` if a conflicting lock exists and `wait` is false; errors of the system.
    pub fn whole(&self, kind: Kind, wait: bool) -> io::Result<()> {
        let how = match (kind, wait) {
            (Kind::Shared, true) => FlockOperation::LockShared,
            (Kind::Shared, false) => FlockOperation::NonBlockingLockShared,
            (Kind::Exclusive, true) => FlockOperation::LockExclusive,
            (Kind::Exclusive, false) => FlockOperation::NonBlockingLockExclusive,
            (Kind::None, _) => FlockOperation::Unlock,
        };
        Ok(rustix::fs::flock(self.descriptor(), how)?)
    }

    /// Locks or unlocks a range.
    ///
    /// # Errors
    /// `EAGAIN` if a conflicting lock exists and `wait` is false; `EDEADLK`, `EINTR` and others of the system.
    pub fn range(&self, owner: Owner, kind: Kind, range: Range, wait: bool) -> io::Result<()> {
        let lock = system(kind, range)?;
        let how = match (owner, wait) {
            (Owner::Process, false) => FcntlArg::F_SETLK(&lock),
            (Owner::Process, true) => FcntlArg::F_SETLKW(&lock),
            (Owner::Description, false) => FcntlArg::F_OFD_SETLK(&lock),
            (Owner::Description, true) => FcntlArg::F_OFD_SETLKW(&lock),
        };
        fcntl(self.descriptor(), how)?;
        Ok(())
    }

    /// A lock that conflicts with the requested one, if there is one.
    ///
    /// # Errors
    /// Errors of the system.
    pub fn test(&self, owner: Owner, kind: Kind, range: Range) -> io::Result<Option<Met>> {
        let mut lock = system(kind, range)?;
        match owner {
            Owner::Process => fcntl(self.descriptor(), FcntlArg::F_GETLK(&mut lock))?,
            Owner::Description => fcntl(self.descriptor(), FcntlArg::F_OFD_GETLK(&mut lock))?,
        };
        let kind = match i32::from(lock.l_type) {
            F_UNLCK => return Ok(None),
            F_RDLCK => Kind::Shared,
            _ => Kind::Exclusive,
        };
        let to_the_end = lock.l_len == 0 || lock.l_start.saturating_add(lock.l_len) >= PRESENT;
        let length = if to_the_end { 0 } else { lock.l_len as u64 };
        Ok(Some(Met { kind, range: Range { start: lock.l_start as u64, length }, pid: lock.l_pid }))
    }
}

impl Drop for LockFile {
    fn drop(&mut self) {
        let Some(path) = self.object.take() else { return };
        // Other processes may share this description; only another description shows their presence.
        drop(self.file.take());
        let again = OpenOptions::new().read(true).write(true).custom_flags(libc::O_NOFOLLOW).open(&path);
        if let Ok(again) = again
            && fcntl(&again, FcntlArg::F_OFD_SETLK(&present(F_WRLCK))).is_ok()
            && again.metadata().is_ok_and(|about| about.nlink() > 0)
        {
            let _ = std::fs::remove_file(&path);
        }
    }
}

/// An open file description of a logical file for locks, wherever its layout has them.
pub enum LockDescription {
    /// Locks of the system.
    System(LockFile),
    /// Locks at the file's server.
    Served(Box<dyn FileLocks>),
}

/// The error for a lock that another description has.
fn none(refused: Option<Refused>) -> Result<()> {
    let Some(Refused { met, .. }) = refused else { return Ok(()) };
    let what = format!("another open file has a lock on bytes from {} on", met.range.start);
    Err(Error::new(ErrorKind::Io, what).caused_by(io::Error::from(errno::Errno::AGAIN)))
}

fn refused(e: io::Error) -> Error {
    Error::io("cannot lock", e)
}

/// Asks a server for a lock until it is there.
fn wait_for(
    served: &dyn FileLocks,
    kind: Kind,
    range: Range,
    long: Duration,
    is_late: impl FnOnce(&Met),
) -> Result<()> {
    let mut begun = None;
    let mut is_late = Some(is_late);
    while let Some(refused) = served.lock(Family::Ranges, kind, range, true)? {
        let waited = begun.get_or_insert_with(Instant::now).elapsed();
        if waited >= long
            && let Some(is_late) = is_late.take()
        {
            is_late(&refused.met);
        }
        std::thread::sleep(pause(waited, refused.ahead));
    }
    Ok(())
}

impl LockDescription {
    /// Opens a description.
    ///
    /// - `name`: in the layout.
    /// - `about`: of the file.
    ///
    /// # Errors
    /// As [`LockFile::open`]; of locks at a server those of [`Layout::locks`].
    /// # Cost
    /// That of [`Layout::locks`]; where the layout has none, that of [`LockFile::open`].
    pub fn open(layout: &dyn Layout, name: &str, about: &Attributes) -> Result<LockDescription> {
        match layout.locks(name)? {
            Some(served) => Ok(LockDescription::Served(served)),
            None => LockFile::open(layout, name, about).map(LockDescription::System),
        }
    }

    /// Locks or unlocks the whole file, as `flock(2)`, without waiting.
    ///
    /// - `again`: the caller asks again soon if a conflicting lock exists, and keeps its turn at a server.
    ///
    /// # Errors
    /// `EAGAIN` as the cause if a conflicting lock exists; errors of the system; `PeerLost` names the server whose locks are lost.
    pub fn try_whole(&self, kind: Kind, again: bool) -> Result<()> {
        match self {
            LockDescription::System(file) => file.whole(kind, false).map_err(refused),
            LockDescription::Served(served) => none(served.lock(Family::Whole, kind, Range::ALL, again)?),
        }
    }

    /// Locks or unlocks a range for the description, without waiting.
    ///
    /// - `again`: as for [`LockDescription::try_whole`].
    ///
    /// # Errors
    /// As [`LockDescription::try_whole`].
    /// # Cost
    /// One system call or one request.
    pub fn try_range(&self, kind: Kind, range: Range, again: bool) -> Result<()> {
        match self {
            LockDescription::System(file) => file.range(Owner::Description, kind, range, false).map_err(refused),
            LockDescription::Served(served) => none(served.lock(Family::Ranges, kind, range, again)?),
        }
    }

    /// Locks a range for the description; waits until no conflicting lock exists.
    ///
    /// - `is_late`: called once, after [`LONG_WAIT`], with the lock that the caller waits for; only for locks at a server. The wait goes on.
    ///
    /// # Errors
    /// Errors of the system; `PeerLost` names the server whose locks are lost.
    /// # Cost
    /// One system call, or one request to a server and one after each pause.
    pub fn range(&self, kind: Kind, range: Range, is_late: impl FnOnce(&Met)) -> Result<()> {
        match self {
            LockDescription::System(file) => file.range(Owner::Description, kind, range, true).map_err(refused),
            LockDescription::Served(served) => wait_for(&**served, kind, range, LONG_WAIT, is_late),
        }
    }

    /// A lock on a range that conflicts with the requested one of this description, if there is one.
    ///
    /// # Errors
    /// As [`LockDescription::try_whole`].
    pub fn test(&self, kind: Kind, range: Range) -> Result<Option<Met>> {
        match self {
            LockDescription::System(file) => file.test(Owner::Description, kind, range).map_err(refused),
            LockDescription::Served(served) => served.test(kind, range),
        }
    }
}

/// Opens a file for shared and exclusive locks; for shared ones and `flock` only if the file may only be read.
fn for_locks(path: &Path) -> io::Result<File> {
    let open = |write: bool| OpenOptions::new().read(true).write(write).open(path);
    match open(true) {
        Err(e) if matches!(e.raw_os_error(), Some(libc::EACCES | libc::EROFS | libc::EPERM | libc::ETXTBSY)) => {
            open(false)
        }
        other => other,
    }
}

/// All users may create lock objects and none may remove another user's, as in `/tmp`.
fn make_folder(folder: &Path) -> io::Result<()> {
    if let Some(above) = folder.parent() {
        DirBuilder::new().recursive(true).create(above)?;
    }
    match DirBuilder::new().mode(0o700).create(folder) {
        Ok(()) => std::fs::set_permissions(folder, std::fs::Permissions::from_mode(0o1777)),
        Err(e) if e.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        Err(e) => Err(e),
    }
}

/// Every user of the file may lock it. If the mode cannot be set, other users get an error, never a lock without effect.
fn dress(file: &File, about: &Attributes) {
    let own = rustix::process::geteuid().as_raw();
    if own != about.uid {
        let _ = std::os::unix::fs::fchown(file, Some(about.uid), Some(about.gid));
    }
    // The owner can always use it.
    let _ = file.set_permissions(std::fs::Permissions::from_mode(about.mode & 0o666 | 0o600));
}

fn present(kind: i32) -> flock {
    flock { l_type: kind as _, l_whence: SEEK_SET as _, l_start: PRESENT, l_len: 1, l_pid: 0 }
}

fn lock_presence(file: &File) -> io::Result<()> {
    loop {
        match fcntl(file, FcntlArg::F_OFD_SETLKW(&present(F_RDLCK))) {
            Ok(_) => return Ok(()),
            Err(Errno::EINTR) => {}
            Err(e) => return Err(e.into()),
        }
    }
}

/// The system's structure for a range, which ends before [`PRESENT`].
fn system(kind: Kind, range: Range) -> io::Result<flock> {
    let kind = match kind {
        Kind::Shared => F_RDLCK,
        Kind::Exclusive => F_WRLCK,
        Kind::None => F_UNLCK,
    };
    let start = i64::try_from(range.start).map_err(|_| Errno::EOVERFLOW)?;
    let end = match range.length {
        0 => PRESENT,
        length => {
            i64::try_from(length).ok().and_then(|length| start.checked_add(length)).unwrap_or(PRESENT).min(PRESENT)
        }
    };
    if end <= start {
        return Err(Errno::EOVERFLOW.into());
    }
    Ok(flock { l_type: kind as _, l_whence: SEEK_SET as _, l_start: start, l_len: end - start, l_pid: 0 })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU32, Ordering};
    use thalweg_layout::locks::Count;

    /// Locks of a server that grants them after so many refusals.
    struct Busy(AtomicU32);

    const MET: Met = Met { kind: Kind::Exclusive, range: Range { start: 7, length: 3 }, pid: -1 };

    impl FileLocks for Busy {
        fn lock(&self, _: Family, _: Kind, _: Range, again: bool) -> Result<Option<Refused>> {
            assert!(again, "a caller that waits keeps its turn");
            let left = self.0.load(Ordering::Relaxed);
            self.0.store(left.saturating_sub(1), Ordering::Relaxed);
            Ok((left > 0).then_some(Refused { met: MET, ahead: 1 }))
        }

        fn test(&self, _: Kind, _: Range) -> Result<Option<Met>> {
            Ok(None)
        }

        fn make_counter(&self, _: u64) -> Result<()> {
            Ok(())
        }

        fn count(&self, _: u64, _: Count) -> Result<u64> {
            Ok(0)
        }
    }

    #[test]
    fn a_caller_that_waits_long_for_a_lock_at_a_server_is_told_once_and_waits_on() {
        let told = |refusals, long| {
            let mut told = Vec::new();
            let served = Busy(AtomicU32::new(refusals));
            wait_for(&served, Kind::Exclusive, Range::ALL, long, |met| told.push(*met)).unwrap();
            assert_eq!(served.0.into_inner(), 0);
            told
        };
        assert_eq!(told(5, Duration::ZERO), [MET]);
        assert_eq!(told(5, Duration::from_secs(1000)), []);
        assert_eq!(told(0, Duration::ZERO), []);
    }
}
