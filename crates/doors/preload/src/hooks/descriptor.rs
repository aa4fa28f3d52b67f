//! Descriptors: open, duplicate, query, close.
#![allow(unsafe_code)] // hooks

use super::by_path;
use crate::border::{Fail, enter, inside, set_errno, text};
use crate::open::{self, borrow, close_raw, drop_last};
use crate::real::hooks;
use crate::table::{self, get, is_ours};
use crate::world::{World, world};
use crate::{lock, private};
use libc::{c_char, c_int, c_uint, c_ulong, c_void, mode_t};
use std::os::fd::RawFd;

const CWD: c_int = libc::AT_FDCWD;

/// Moves a descriptor opened by our own code to the private range.
fn own(fd: c_int, flags: c_int) -> c_int {
    if inside() && private::closes_on_exec(flags) { private::take(fd) } else { fd }
}

hooks! {
    fn open|open64|__open|__open64(path: *const c_char, flags: c_int, mode: mode_t) -> c_int = |real| {
        by_path!(CWD, path, own(real(path, flags, mode), flags), |world, place| open::open(world, &place, flags, mode))
    }
    fn openat|openat64(folder: c_int, path: *const c_char, flags: c_int, mode: mode_t) -> c_int = |real| {
        by_path!(folder, path, own(real(folder, path, flags, mode), flags), |world, place| open::open(world, &place, flags, mode))
    }
    fn __open_2|__open64_2(path: *const c_char, flags: c_int) -> c_int = |real| {
        by_path!(CWD, path, real(path, flags), |world, place| open::open(world, &place, flags, 0))
    }
    fn __openat_2|__openat64_2(folder: c_int, path: *const c_char, flags: c_int) -> c_int = |real| {
        by_path!(folder, path, real(folder, path, flags), |world, place| open::open(world, &place, flags, 0))
    }
    fn creat|creat64(path: *const c_char, mode: mode_t) -> c_int = |real| {
        let flags = libc::O_WRONLY | libc::O_CREAT | libc::O_TRUNC;
        by_path!(CWD, path, real(path, mode), |world, place| open::open(world, &place, flags, mode))
    }
    fn mkstemp|mkstemp64(template: *mut c_char) -> c_int = |real| {
        temporary(template, 0, 0).unwrap_or_else(|| real(template))
    }
    fn mkostemp|mkostemp64(template: *mut c_char, flags: c_int) -> c_int = |real| {
        temporary(template, 0, flags).unwrap_or_else(|| real(template, flags))
    }
    fn mkstemps|mkstemps64(template: *mut c_char, suffix: c_int) -> c_int = |real| {
        temporary(template, suffix, 0).unwrap_or_else(|| real(template, suffix))
    }
    fn mkostemps|mkostemps64(template: *mut c_char, suffix: c_int, flags: c_int) -> c_int = |real| {
        temporary(template, suffix, flags).unwrap_or_else(|| real(template, suffix, flags))
    }
    fn mkdtemp(template: *mut c_char) -> *mut c_char = |real| {
        match super::locate(CWD, template) {
            None => real(template),
            Some(_) => enter(|| {
                fill(template, 0, |path| crate::hooks::name::make_folder(path, 0o700))?;
                Ok(template)
            }),
        }
    }
    fn close(fd: c_int) -> c_int = |real| {
        if inside() {
            private::forget(fd);
            return real(fd);
        }
        if private::is(fd) {
            set_errno(libc::EBADF);
            return -1;
        }
        if !is_ours(fd) {
            return real(fd);
        }
        match world() {
            Some(world) => enter(|| close_one(world, fd)),
            None => real(fd),
        }
    }
    fn close_range(first: c_uint, last: c_uint, flags: c_int) -> c_int = |real| {
        let Some(world) = world() else { return real(first, last, flags) };
        if flags & libc::CLOSE_RANGE_CLOEXEC as c_int != 0 {
            return real(first, last, flags);
        }
        between(world, first, last, |first, last| real(first, last, flags))
    }
    fn closefrom(first: c_int) -> () = |real| {
        let Some(world) = world() else { return real(first) };
        between(world, first.max(0) as c_uint, c_uint::MAX, |first, last| {
            libc::syscall(libc::SYS_close_range, first, last, 0) as c_int
        });
    }
    fn dup(fd: c_int) -> c_int = |real| {
        let new = real(fd);
        same(fd, new)
    }
    fn dup2|__dup2(fd: c_int, new: c_int) -> c_int = |real| {
        match onto(fd, new) {
            Some(answer) => answer,
            None => same(fd, real(fd, new)),
        }
    }
    fn dup3(fd: c_int, new: c_int, flags: c_int) -> c_int = |real| {
        if fd == new {
            return real(fd, new, flags);
        }
        match onto(fd, new) {
            Some(answer) => answer,
            None => same(fd, real(fd, new, flags)),
        }
    }
    fn fcntl|fcntl64|__fcntl(fd: c_int, command: c_int, argument: c_ulong) -> c_int = |real| {
        if inside() {
            return match command {
                libc::F_DUPFD_CLOEXEC => {
                    let new = real(fd, command, private::base() as c_ulong);
                    private::mark(new);
                    new
                }
                _ => real(fd, command, argument),
            };
        }
        let Some(open) = get(fd) else { return real(fd, command, argument) };
        match command {
            libc::F_DUPFD | libc::F_DUPFD_CLOEXEC => same(fd, real(fd, command, argument)),
            libc::F_GETFL => match real(fd, command, argument) {
                flags if flags < 0 => flags,
                flags => flags & !libc::O_ACCMODE | open.access.flags() & (libc::O_ACCMODE | libc::O_SYNC),
            },
            libc::F_GETLK | libc::F_SETLK | libc::F_SETLKW | libc::F_OFD_GETLK | libc::F_OFD_SETLK | libc::F_OFD_SETLKW => {
                enter(|| {
                    let range = (argument as *mut libc::flock).as_mut().ok_or(Fail(libc::EFAULT))?;
                    lock::range(&open, fd, command, range)
                })
            }
            libc::F_ADD_SEALS | libc::F_GET_SEALS => enter(|| Err(Fail(libc::EINVAL))),
            _ => real(fd, command, argument),
        }
    }
    fn flock(fd: c_int, how: c_int) -> c_int = |real| {
        match world().and_then(|_| get(fd)) {
            Some(open) => enter(|| lock::whole(&open, fd, how)),
            None => real(fd, how),
        }
    }
    fn lockf|lockf64(fd: c_int, command: c_int, length: i64) -> c_int = |real| {
        match world().and_then(|_| get(fd)) {
            Some(open) => enter(|| lock::ahead(&open, fd, command, length)),
            None => real(fd, command, length),
        }
    }
    fn ioctl(fd: c_int, request: c_ulong, argument: *mut c_void) -> c_int = |real| {
        match world().and_then(|_| get(fd)) {
            Some(open) => enter(|| match request {
                libc::FIONREAD if !argument.is_null() && !open.is_folder() => {
                    let left = open.file()?.length()?.saturating_sub(crate::placeholder::offset(borrow(fd))?);
                    *argument.cast::<c_int>() = left.min(c_int::MAX as u64) as c_int;
                    Ok(0)
                }
                libc::FIOCLEX | libc::FIONCLEX => Ok(real(fd, request, argument)),
                // Reflinks are not supported: programs fall back to a copy.
                libc::FICLONE | libc::FICLONERANGE => Err(Fail(libc::EOPNOTSUPP)),
                _ => Err(Fail(libc::ENOTTY)),
            }),
            None => real(fd, request, argument),
        }
    }
}

/// Call after a system call has duplicated a descriptor.
fn same(fd: RawFd, new: RawFd) -> RawFd {
    if new < 0 || new == fd {
        return new;
    }
    let Some(world) = world().filter(|_| is_ours(fd) || is_ours(new)) else { return new };
    if !world.is_own() {
        return new;
    }
    enter(|| {
        // The call closed the previous file of the new number.
        let before = table::remove(world, new);
        if let Some(open) = get(fd) {
            table::insert(world, new, open)?;
        }
        let _ = drop_last(before);
        Ok(new)
    })
}

/// Call before `dup2`: refuses our private descriptors, and closes the file that `new` replaces.
fn onto(fd: RawFd, new: RawFd) -> Option<c_int> {
    if !inside() && (private::is(new) || private::is(fd)) {
        set_errno(libc::EBADF);
        return Some(-1);
    }
    let world = world().filter(|world| fd != new && (is_ours(new) || is_ours(fd)) && world.is_own())?;
    if rustix::io::fcntl_getfd(borrow(fd)).is_ok() {
        // Streams are flushed while the descriptor still refers to the file.
        let _inside = crate::border::Inside::new();
        crate::stdio::write_out(new);
        let _ = drop_last(table::remove(world, new));
    }
    None
}

fn close_one(world: &World, fd: RawFd) -> crate::border::Outcome<c_int> {
    if world.current_fd() == Some(fd) {
        return Err(Fail(libc::EBADF));
    }
    // A `vfork` child closes its own descriptor; this process keeps its file.
    if !world.is_own() {
        close_raw(fd);
        return Ok(0);
    }
    let open = table::remove(world, fd);
    close_raw(fd);
    drop_last(open).map(|()| 0)
}

/// Closes the descriptor of a closed stream.
pub fn end(fd: RawFd) -> c_int {
    match crate::world::current_world() {
        Some(world) => enter(|| close_one(world, fd)),
        None => -1,
    }
}

/// Closes a range of descriptors: files of mounts one by one; private descriptors are skipped.
fn between(world: &World, first: c_uint, last: c_uint, real: impl Fn(c_uint, c_uint) -> c_int) -> c_int {
    // From our own table: reading /proc/self/fd would need a descriptor.
    let mut all: Vec<RawFd> = table::numbers().chain(private::all()).chain(world.current_fd()).collect();
    all.retain(|fd| (first..=last).contains(&(*fd as c_uint)));
    all.sort_unstable();
    let mut from = first;
    for fd in all {
        if fd as c_uint > from && real(from, fd as c_uint - 1) < 0 {
            return -1;
        }
        if get(fd).is_some() {
            enter(|| close_one(world, fd).or(Ok(0)));
        }
        from = fd as c_uint + 1;
    }
    if from <= last { real(from, last) } else { 0 }
}

/// The `mkstemp` family, for templates under a mount.
unsafe fn temporary(template: *mut c_char, suffix: c_int, flags: c_int) -> Option<c_int> {
    // SAFETY: the template is a text.
    unsafe { super::locate(CWD, template) }?;
    let flags = flags & !(libc::O_ACCMODE) | libc::O_RDWR | libc::O_CREAT | libc::O_EXCL;
    // SAFETY: as above.
    Some(enter(|| unsafe { fill(template, suffix, |path| crate::hooks::name::open(path, flags, 0o600)) }))
}

/// Tries names in place of `XXXXXX` until one is free.
unsafe fn fill<T>(
    template: *mut c_char,
    suffix: c_int,
    make: impl Fn(&str) -> crate::border::Outcome<T>,
) -> crate::border::Outcome<T> {
    const LETTERS: &[u8; 62] = b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789";
    // SAFETY: the template is a text.
    let length = unsafe { text(template)? }.len();
    let at =
        length.checked_sub(6 + usize::try_from(suffix).map_err(|_| Fail(libc::EINVAL))?).ok_or(Fail(libc::EINVAL))?;
    // SAFETY: within the text, which the program lets us write.
    let place = unsafe { std::slice::from_raw_parts_mut(template.cast::<u8>().add(at), 6) };
    if place != b"XXXXXX" {
        return Err(Fail(libc::EINVAL));
    }
    for _ in 0..1000 {
        use std::hash::{BuildHasher, RandomState};
        let mut number = RandomState::new().hash_one(std::process::id());
        for byte in place.iter_mut() {
            *byte = LETTERS[(number % 62) as usize];
            number /= 62;
        }
        // SAFETY: as above.
        match make(unsafe { text(template)? }) {
            Err(Fail(libc::EEXIST)) => {}
            outcome => return outcome,
        }
    }
    Err(Fail(libc::EEXIST))
}
