//! Streams: the `fopen` family.
#![allow(unsafe_code)] // hooks

use super::by_path;
use crate::border::{Fail, Outcome, enter, set_errno};
use crate::open;
use crate::real::hooks;
use crate::stdio;
use crate::table::is_ours;
use crate::world::{Place, World, world};
use libc::{FILE, c_char, c_int};
use std::ffi::CStr;

const CWD: c_int = libc::AT_FDCWD;

hooks! {
    fn fopen|fopen64(path: *const c_char, mode: *const c_char) -> *mut FILE = |real| {
        by_path!(CWD, path, real(path, mode), |world, place| opened(world, &place, mode))
    }
    fn fdopen(fd: c_int, mode: *const c_char) -> *mut FILE = |real| {
        match world().filter(|_| is_ours(fd)) {
            Some(_) => enter(|| stream(fd, mode)),
            None => real(fd, mode),
        }
    }
    fn freopen|freopen64(path: *const c_char, mode: *const c_char, stream: *mut FILE) -> *mut FILE = |real| {
        let ours = stdio::descriptor(stream);
        match super::locate(CWD, path) {
            None if ours.is_none() || world().is_none() => real(path, mode, stream),
            _ if path.is_null() => {
                // A null path changes only the mode: not supported.
                set_errno(libc::EBADF);
                std::ptr::null_mut()
            }
            _ => again(path, mode, stream),
        }
    }
    fn fileno|fileno_unlocked(stream: *mut FILE) -> c_int = |real| {
        match stdio::descriptor(stream) {
            Some(fd) => fd,
            None => real(stream),
        }
    }
}

/// The flags of `open` for a mode of `fopen`.
fn flags(mode: &CStr) -> Outcome<c_int> {
    let mode = mode.to_bytes();
    let both = mode.contains(&b'+');
    let access = |one: c_int| if both { libc::O_RDWR } else { one };
    let flags = match mode.first() {
        Some(b'r') => access(libc::O_RDONLY),
        Some(b'w') => access(libc::O_WRONLY) | libc::O_CREAT | libc::O_TRUNC,
        Some(b'a') => access(libc::O_WRONLY) | libc::O_CREAT | libc::O_APPEND,
        _ => return Err(Fail(libc::EINVAL)),
    };
    let exclusive = if mode.contains(&b'x') { libc::O_EXCL } else { 0 };
    let close = if mode.contains(&b'e') { libc::O_CLOEXEC } else { 0 };
    Ok(flags | exclusive | close)
}

unsafe fn opened(world: &World, place: &Place, mode: *const c_char) -> Outcome<*mut FILE> {
    // SAFETY: a text.
    let fd = open::open(world, place, flags(unsafe { CStr::from_ptr(mode) })?, 0o666)?;
    // SAFETY: as above.
    unsafe { stream(fd, mode) }
}

unsafe fn stream(fd: c_int, mode: *const c_char) -> Outcome<*mut FILE> {
    // SAFETY: a text; the C library's own for a file of the system.
    let stream = unsafe { if is_ours(fd) { stdio::over(fd, mode) } else { libc::fdopen(fd, mode) } };
    if stream.is_null() { Err(Fail(libc::ENOMEM)) } else { Ok(stream) }
}

/// `freopen` if the old or the new file is under a mount. A standard stream keeps its descriptor, and its variable refers to the
/// new stream; any other stream is closed, and the program must use the returned one.
unsafe fn again(path: *const c_char, mode: *const c_char, stream: *mut FILE) -> *mut FILE {
    // SAFETY: the arguments of `freopen`, passed to functions of the C library and our hooks of them.
    unsafe {
        let Ok(flags) = flags(CStr::from_ptr(mode)) else {
            set_errno(libc::EINVAL);
            return std::ptr::null_mut();
        };
        libc::fflush(stream);
        let number = libc::fileno(stream);
        let fd = libc::open(path, flags, 0o666);
        if fd < 0 {
            libc::fclose(stream);
            return std::ptr::null_mut();
        }
        if (0..3).contains(&number) {
            // The variable then refers to the descriptor's new stream.
            if fd != number {
                libc::dup2(fd, number);
                libc::close(fd);
            }
            return stdio::standard(number as usize);
        }
        libc::fclose(stream);
        libc::fdopen(fd, mode)
    }
}
