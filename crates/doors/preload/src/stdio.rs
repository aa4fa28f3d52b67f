//! Streams of the C library on placeholders' descriptors, and the three standard streams while their descriptors are
//! placeholders.
//!
//! A stream of the C library reads and writes internally, without the hooks. So streams on our descriptors are created with
//! `fopencookie` and our functions, and `stdin`, `stdout` and `stderr` refer to such streams as long as 0, 1 or 2 is a
//! placeholder.
#![allow(unsafe_code)] // streams are pointers of the C library

use crate::border::enter;
use crate::table::need;
use libc::{FILE, c_char, c_int, c_void, off64_t, size_t, ssize_t};
use std::collections::HashMap;
use std::io::IoSlice;
use std::os::fd::RawFd;
use std::ptr::null_mut;
use std::sync::RwLockWriteGuard;
use std::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};
use thalweg_types::mutex::RwLock;

/// `cookie_io_functions_t`.
#[repr(C)]
struct Functions {
    read: unsafe extern "C" fn(*mut c_void, *mut c_char, size_t) -> ssize_t,
    write: unsafe extern "C" fn(*mut c_void, *const c_char, size_t) -> ssize_t,
    seek: unsafe extern "C" fn(*mut c_void, *mut off64_t, c_int) -> c_int,
    close: unsafe extern "C" fn(*mut c_void) -> c_int,
}

unsafe extern "C" {
    fn fopencookie(cookie: *mut c_void, mode: *const c_char, functions: Functions) -> *mut FILE;
    static mut stdin: *mut FILE;
    static mut stdout: *mut FILE;
    static mut stderr: *mut FILE;
}

/// State of our stream. The descriptor is -1 once the stream must not use it.
struct Cookie {
    fd: RawFd,
    stream: *mut FILE,
}

static STREAMS: RwLock<Option<HashMap<usize, RawFd>>> = RwLock::new(None);
static COUNT: AtomicUsize = AtomicUsize::new(0);

/// Streams that replace the standard ones, and the replaced streams.
static IN_PLACE: [AtomicPtr<FILE>; 3] = [const { AtomicPtr::new(null_mut()) }; 3];
static BEFORE: [AtomicPtr<FILE>; 3] = [const { AtomicPtr::new(null_mut()) }; 3];
static COOKIES: [AtomicPtr<Cookie>; 3] = [const { AtomicPtr::new(null_mut()) }; 3];

/// Locks the list during a `fork`.
pub fn lock_streams() -> RwLockWriteGuard<'static, Option<HashMap<usize, RawFd>>> {
    STREAMS.write()
}

/// The descriptor of a stream of ours.
pub fn descriptor(stream: *mut FILE) -> Option<RawFd> {
    if COUNT.load(Ordering::Relaxed) == 0 {
        return None;
    }
    STREAMS.read().as_ref()?.get(&(stream as usize)).copied()
}

unsafe extern "C" fn read(cookie: *mut c_void, out: *mut c_char, count: size_t) -> ssize_t {
    // SAFETY: made by `over`; the C library promises the memory.
    enter(|| unsafe {
        let fd = (*cookie.cast::<Cookie>()).fd;
        Ok(need(fd)?.read(fd, &mut [crate::border::memory_mut(out.cast(), count)?])? as ssize_t)
    })
}

unsafe extern "C" fn write(cookie: *mut c_void, data: *const c_char, count: size_t) -> ssize_t {
    // SAFETY: as above.
    let done: ssize_t = enter(|| unsafe {
        let fd = (*cookie.cast::<Cookie>()).fd;
        Ok(need(fd)?.write(fd, &[IoSlice::new(crate::border::memory(data.cast(), count)?)])? as ssize_t)
    });
    // This function returns 0 to report a failure.
    done.max(0)
}

unsafe extern "C" fn seek(cookie: *mut c_void, to: *mut off64_t, whence: c_int) -> c_int {
    // SAFETY: as above.
    enter(|| unsafe {
        let fd = (*cookie.cast::<Cookie>()).fd;
        *to = need(fd)?.seek(fd, *to, whence)?;
        Ok(0)
    })
}

unsafe extern "C" fn close(cookie: *mut c_void) -> c_int {
    // SAFETY: made by `over`, and closed once.
    let cookie = unsafe { Box::from_raw(cookie.cast::<Cookie>()) };
    if let Some(streams) = lock_streams().as_mut()
        && streams.remove(&(cookie.stream as usize)).is_some()
    {
        COUNT.fetch_sub(1, Ordering::Relaxed);
    }
    for (number, place) in IN_PLACE.iter().enumerate() {
        // The program closes its standard output: the variable refers to the original stream again.
        if place.compare_exchange(cookie.stream, null_mut(), Ordering::Relaxed, Ordering::Relaxed).is_ok() {
            COOKIES[number].store(null_mut(), Ordering::Relaxed);
            // SAFETY: a variable of the C library.
            unsafe { *variable(number) = BEFORE[number].load(Ordering::Relaxed) };
        }
    }
    match cookie.fd {
        fd if fd < 0 => 0,
        // Calls the hook, also from our own code.
        fd => crate::hooks::descriptor::end(fd),
    }
}

/// A stream over a descriptor of ours.
pub unsafe fn over(fd: RawFd, mode: *const c_char) -> *mut FILE {
    let cookie = Box::into_raw(Box::new(Cookie { fd, stream: null_mut() }));
    // SAFETY: the functions take such a cookie; `mode` is a text.
    let stream = unsafe { fopencookie(cookie.cast(), mode, Functions { read, write, seek, close }) };
    if stream.is_null() {
        // SAFETY: not passed to any other function.
        drop(unsafe { Box::from_raw(cookie) });
        return stream;
    }
    // SAFETY: ours until the stream is closed.
    unsafe { (*cookie).stream = stream };
    lock_streams().get_or_insert_default().insert(stream as usize, fd);
    COUNT.fetch_add(1, Ordering::Relaxed);
    if let 0..3 = fd {
        COOKIES[fd as usize].store(cookie, Ordering::Relaxed);
    }
    stream
}

/// The C library's variable for a standard stream.
fn variable(number: usize) -> *mut *mut FILE {
    match number {
        0 => &raw mut stdin,
        1 => &raw mut stdout,
        _ => &raw mut stderr,
    }
}

/// The current value of a standard stream's variable.
pub fn standard(number: usize) -> *mut FILE {
    // SAFETY: a variable of the C library.
    unsafe { *variable(number) }
}

/// Call after a descriptor has become a placeholder: a standard descriptor's stream is replaced.
pub fn follow(fd: RawFd) {
    let Some(place) = usize::try_from(fd).ok().and_then(|number| IN_PLACE.get(number)) else { return };
    let number = fd as usize;
    if !place.load(Ordering::Relaxed).is_null() {
        return;
    }
    let mode = if number == 0 { c"r" } else { c"w" };
    // SAFETY: the descriptor is ours, the variable the C library's.
    unsafe {
        let stream = over(fd, mode.as_ptr());
        if stream.is_null() {
            return;
        }
        if number == 2 {
            libc::setvbuf(stream, null_mut(), libc::_IONBF, 0);
        }
        BEFORE[number].store(*variable(number), Ordering::Relaxed);
        *variable(number) = stream;
        place.store(stream, Ordering::Relaxed);
    }
}

/// Call before a descriptor stops being a placeholder: its stream is flushed, and the variable refers to the original
/// stream again.
pub fn leave(fd: RawFd) {
    let Some(place) = usize::try_from(fd).ok().and_then(|number| IN_PLACE.get(number)) else { return };
    let stream = place.swap(null_mut(), Ordering::Relaxed);
    if stream.is_null() {
        return;
    }
    let number = fd as usize;
    // SAFETY: made by `follow`.
    unsafe {
        libc::fflush(stream);
        if *variable(number) == stream {
            *variable(number) = BEFORE[number].load(Ordering::Relaxed);
        }
        let cookie = COOKIES[number].swap(null_mut(), Ordering::Relaxed);
        if !cookie.is_null() {
            // The caller closes the descriptor itself.
            (*cookie).fd = -1;
            libc::fclose(stream);
        }
    }
}

/// Call before another file replaces a standard descriptor: the stream's buffered bytes go to the old file.
pub fn write_out(fd: RawFd) {
    let (1 | 2) = fd else { return };
    // SAFETY: a variable of the C library.
    unsafe {
        let stream = *variable(fd as usize);
        if !stream.is_null() {
            libc::fflush(stream);
        }
    }
}
