//! Locks of files that have a placeholder.
//!
//! A lock is taken on the lock object of the logical file ([`LockFile`]), through a *companion*: one open file description
//! per placeholder, closed with it. So the system's own lock semantics apply: `flock` and locks of an open file description
//! last until its last descriptor in any process is closed, a process's range locks until the process closes the file or
//! ends.
//!
//! | moment | what happens |
//! |--------|--------------|
//! | the first lock | the companion is opened, unless another process may share the placeholder already |
//! | before `fork`, `vfork`, `exec`, `posix_spawn` | the companion is opened, so that all processes that share the placeholder share the companion. Its offset is the placeholder's inode, by which the next program finds the placeholder |
//! | after a lock was taken | the view of the file is refreshed: bytes that others closed or synced become visible |
//! | before a lock is released | written bytes are published |
//! | any descriptor of the file is closed | the process's range locks are released, as on any file |

use crate::border::{Fail, Outcome};
use crate::open::{OpenFileDescription, borrow};
use crate::world::World;
use libc::c_int;
use rustix::fs::SeekFrom;
use rustix::io::Errno;
use std::fs::File;
use std::os::fd::{AsRawFd, FromRawFd, RawFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use thalweg_open_file::lock::{Kind, LockFile, Owner, Range};

/// Whether this process has ever taken a range lock of its own.
static RANGES: AtomicBool = AtomicBool::new(false);

/// The open file description on which a placeholder's locks are taken.
pub struct Companion {
    file: LockFile,
    /// Whether this process has locked ranges through the companion.
    ranges: AtomicBool,
}

impl Companion {
    pub fn descriptor(&self) -> RawFd {
        self.file.descriptor().as_raw_fd()
    }

    /// The companion in a child of `fork`.
    #[allow(unsafe_code)]
    pub fn in_child(&self) -> Companion {
        // SAFETY: the child's own descriptor of this number; the parent's value is never dropped in the child.
        let file = unsafe { File::from_raw_fd(self.descriptor()) };
        Companion { file: self.file.in_child(file), ranges: AtomicBool::new(false) }
    }

    /// The companion behind a descriptor inherited at `exec`, and the inode of its placeholder.
    #[allow(unsafe_code)]
    pub fn inherited(fd: RawFd) -> Option<(u64, Companion)> {
        // SAFETY: no other code of this program uses the descriptor.
        let file = LockFile::inherited(fd, || unsafe { File::from_raw_fd(fd) })?;
        let of = rustix::fs::seek(file.descriptor(), SeekFrom::Current(0)).ok()?;
        crate::private::mark(fd);
        let _ = rustix::io::fcntl_setfd(file.descriptor(), rustix::io::FdFlags::CLOEXEC);
        // The process may have locked ranges before `exec`.
        RANGES.store(true, Ordering::Relaxed);
        Some((of, Companion { file, ranges: AtomicBool::new(true) }))
    }
}

/// The companion; opened if there is none.
fn companion(open: &OpenFileDescription, fd: RawFd) -> Outcome<Arc<Companion>> {
    if let Some(known) = &*open.lock.lock() {
        return Ok(known.clone());
    }
    let about = open.attributes()?;
    let world = crate::world::current_world().ok_or(Fail(libc::EBADF))?;
    let place = open.place();
    let mut kept = open.lock.lock();
    if let Some(known) = &*kept {
        return Ok(known.clone());
    }
    let file = LockFile::open(&**place.layout(world)?, &place.name, &about).map_err(|e| {
        crate::border::tell(&e.to_string());
        Fail(thalweg_layout::errno::of(&e))
    })?;
    rustix::fs::seek(file.descriptor(), SeekFrom::Start(placeholder(fd)?))?;
    Ok(kept.insert(Arc::new(Companion { file, ranges: AtomicBool::new(false) })).clone())
}

/// The inode of a placeholder, which identifies its open file description.
pub fn placeholder(fd: RawFd) -> Result<u64, Errno> {
    Ok(rustix::fs::fstat(borrow(fd))?.st_ino)
}

/// Call before other processes share this process's open files: opens the companion, if the layout has locks.
pub fn share(world: &World, open: &OpenFileDescription, fd: RawFd) {
    // A failure is not reported here: a later lock call reports it.
    if !open.is_gone()
        && open.companion().is_none()
        && open.place().layout(world).is_ok_and(|layout| layout.lock_folder(&open.place().name).is_some())
    {
        let _ = companion(open, fd);
    }
}

fn failed(e: std::io::Error) -> Fail {
    Fail(e.raw_os_error().unwrap_or(libc::EIO))
}

fn kind(taken: c_int) -> Outcome<Kind> {
    match taken {
        libc::F_RDLCK => Ok(Kind::Shared),
        libc::F_WRLCK => Ok(Kind::Exclusive),
        libc::F_UNLCK => Ok(Kind::None),
        _ => Err(Errno::INVAL.into()),
    }
}

/// Runs a lock call: publishes written bytes before a lock is released, refreshes the view after a lock was taken.
fn synchronized(open: &OpenFileDescription, kind: Kind, lock: impl FnOnce() -> std::io::Result<()>) -> Outcome<()> {
    // Also for a lock that is downgraded or converted.
    open.publish()?;
    lock().map_err(failed)?;
    if kind != Kind::None {
        open.see_others()?;
    }
    Ok(())
}

/// `fcntl` range locks.
pub fn range(open: &OpenFileDescription, fd: RawFd, command: c_int, range: &mut libc::flock) -> Outcome<c_int> {
    let (owner, locks, wait) = match command {
        libc::F_GETLK => (Owner::Process, false, false),
        libc::F_SETLK => (Owner::Process, true, false),
        libc::F_SETLKW => (Owner::Process, true, true),
        libc::F_OFD_GETLK => (Owner::Description, false, false),
        libc::F_OFD_SETLK => (Owner::Description, true, false),
        libc::F_OFD_SETLKW => (Owner::Description, true, true),
        _ => return Err(Errno::INVAL.into()),
    };
    if owner == Owner::Description && range.l_pid != 0 {
        return Err(Errno::INVAL.into());
    }
    // The companion has neither the offset nor the length.
    let start = match c_int::from(range.l_whence) {
        libc::SEEK_SET => 0,
        libc::SEEK_CUR => crate::placeholder::offset(borrow(fd))? as i64,
        libc::SEEK_END => open.file()?.length()? as i64,
        _ => return Err(Errno::INVAL.into()),
    };
    let kind = kind(c_int::from(range.l_type))?;
    if locks && (kind == Kind::Exclusive && !open.access.write || kind == Kind::Shared && !open.access.read) {
        return Err(Errno::BADF.into());
    }
    let from = range.l_start.checked_add(start).ok_or(Errno::OVERFLOW)?;
    // A negative length means the bytes before the start.
    let (from, length) = match range.l_len {
        length if length < 0 => {
            (from.checked_add(length).ok_or(Errno::INVAL)?, length.checked_neg().ok_or(Errno::INVAL)?)
        }
        length => (from, length),
    };
    let bytes = Range { start: u64::try_from(from).map_err(|_| Errno::INVAL)?, length: length as u64 };
    let companion = companion(open, fd)?;
    if locks {
        if owner == Owner::Process {
            RANGES.store(true, Ordering::Relaxed);
            companion.ranges.store(true, Ordering::Relaxed);
        }
        synchronized(open, kind, || companion.file.range(owner, kind, bytes, wait))?;
        return Ok(0);
    }
    match companion.file.test(owner, kind, bytes).map_err(failed)? {
        None => range.l_type = libc::F_UNLCK as _,
        Some(met) => {
            range.l_type = if met.kind == Kind::Shared { libc::F_RDLCK } else { libc::F_WRLCK } as _;
            range.l_whence = libc::SEEK_SET as _;
            range.l_start = met.range.start as i64;
            range.l_len = met.range.length as i64;
            range.l_pid = met.pid;
        }
    }
    Ok(0)
}

/// `flock`.
pub fn whole(open: &OpenFileDescription, fd: RawFd, how: c_int) -> Outcome<c_int> {
    let kind = match how & !libc::LOCK_NB {
        libc::LOCK_SH => Kind::Shared,
        libc::LOCK_EX => Kind::Exclusive,
        libc::LOCK_UN => Kind::None,
        _ => return Err(Errno::INVAL.into()),
    };
    let companion = companion(open, fd)?;
    synchronized(open, kind, || companion.file.whole(kind, how & libc::LOCK_NB == 0))?;
    Ok(0)
}

/// `lockf`: the range starts at the offset.
pub fn ahead(open: &OpenFileDescription, fd: RawFd, command: c_int, length: i64) -> Outcome<c_int> {
    let mut wanted =
        libc::flock { l_type: libc::F_WRLCK as _, l_whence: libc::SEEK_CUR as _, l_start: 0, l_len: length, l_pid: 0 };
    let command = match command {
        libc::F_LOCK => libc::F_SETLKW,
        libc::F_TLOCK => libc::F_SETLK,
        libc::F_ULOCK => {
            wanted.l_type = libc::F_UNLCK as _;
            libc::F_SETLK
        }
        libc::F_TEST => {
            range(open, fd, libc::F_GETLK, &mut wanted)?;
            return if c_int::from(wanted.l_type) == libc::F_UNLCK { Ok(0) } else { Err(Errno::ACCESS.into()) };
        }
        _ => return Err(Errno::INVAL.into()),
    };
    range(open, fd, command, &mut wanted)
}

/// Call before a descriptor of a file is closed: releases the process's range locks on the file, whichever descriptor they
/// were taken through.
pub fn before_close(world: &World, open: &OpenFileDescription) {
    if !RANGES.load(Ordering::Relaxed) || open.is_folder() {
        return;
    }
    for same in world.open_below(&open.place()) {
        let known = same.lock.lock().clone();
        if let Some(companion) = known.filter(|known| known.ranges.swap(false, Ordering::Relaxed)) {
            // Bytes are published and the handle closed first: a process that waits for the lock may read immediately.
            if let Err(Fail(number)) = same.settle() {
                same.failed.store(number, Ordering::Relaxed);
            }
            let _ = companion.file.range(Owner::Process, Kind::None, Range { start: 0, length: 0 }, false);
        }
    }
}
