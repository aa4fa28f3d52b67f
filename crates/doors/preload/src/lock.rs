//! Locks of files whose layout has none: taken on a file of this machine that stands for them, so that the processes of one
//! machine and user meet. Other machines' are not seen.

use crate::border::{Fail, Outcome};
use crate::open::Open;
use libc::c_int;
use rustix::io::Errno;
use std::fs::{File, OpenOptions};
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::sync::PoisonError;

/// Runs a call on the file that stands for an open one.
fn with<T>(open: &Open, call: impl FnOnce(RawFd) -> Outcome<T>) -> Outcome<T> {
    let mut kept = open.lock.lock().unwrap_or_else(PoisonError::into_inner);
    let file = match &*kept {
        Some(file) => file,
        None => kept.insert(stand_in(open)?),
    };
    let fd = file.as_raw_fd();
    drop(kept);
    call(fd)
}

fn stand_in(open: &Open) -> Outcome<File> {
    let cannot = |e: std::io::Error| Fail(e.raw_os_error().unwrap_or(libc::ENOLCK));
    let uid = rustix::process::geteuid().as_raw();
    let folder = format!("/tmp/thalweg-locks-{uid}");
    match std::fs::DirBuilder::new().mode(0o700).create(&folder) {
        Err(e) if e.kind() != std::io::ErrorKind::AlreadyExists => return Err(cannot(e)),
        _ => {}
    }
    let about = std::fs::symlink_metadata(&folder).map_err(cannot)?;
    if !about.is_dir() || about.uid() != uid {
        return Err(Errno::NOLCK.into());
    }
    let path = format!("{folder}/{:016x}", open.attributes()?.identity);
    OpenOptions::new().read(true).write(true).create(true).truncate(false).mode(0o600).open(path).map_err(cannot)
}

#[allow(unsafe_code)]
fn control(fd: RawFd, command: c_int, range: &mut libc::flock) -> Outcome<c_int> {
    // SAFETY: a descriptor of our own and the argument that the command takes.
    match unsafe { libc::syscall(libc::SYS_fcntl, fd, command, std::ptr::from_mut(range)) } {
        -1 => Err(Fail(std::io::Error::last_os_error().raw_os_error().unwrap_or(libc::EIO))),
        answer => Ok(answer as c_int),
    }
}

/// `fcntl` with a range.
pub fn range(open: &Open, fd: RawFd, command: c_int, range: &mut libc::flock) -> Outcome<c_int> {
    // The stand-in has neither the offset nor the length.
    let start = match c_int::from(range.l_whence) {
        libc::SEEK_SET => 0,
        libc::SEEK_CUR => crate::placeholder::offset(crate::open::borrow(fd))? as i64,
        libc::SEEK_END => open.file()?.length()? as i64,
        _ => return Err(Errno::INVAL.into()),
    };
    let taken = c_int::from(range.l_type);
    let locks = matches!(command, libc::F_SETLK | libc::F_SETLKW | libc::F_OFD_SETLK | libc::F_OFD_SETLKW);
    if locks && (taken == libc::F_WRLCK && !open.access.write || taken == libc::F_RDLCK && !open.access.read) {
        return Err(Errno::BADF.into());
    }
    range.l_start = range.l_start.checked_add(start).filter(|at| *at >= 0).ok_or(Errno::INVAL)?;
    range.l_whence = libc::SEEK_SET as _;
    with(open, |stand_in| control(stand_in, command, range))
}

/// `flock`.
pub fn whole(open: &Open, how: c_int) -> Outcome<c_int> {
    with(open, |stand_in| {
        #[allow(unsafe_code)]
        // SAFETY: a descriptor of our own.
        match unsafe { libc::syscall(libc::SYS_flock, stand_in, how) } {
            -1 => Err(Fail(std::io::Error::last_os_error().raw_os_error().unwrap_or(libc::EIO))),
            _ => Ok(0),
        }
    })
}

/// `lockf`: from the offset.
pub fn ahead(open: &Open, fd: RawFd, command: c_int, length: i64) -> Outcome<c_int> {
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
