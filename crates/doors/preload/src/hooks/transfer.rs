//! Reads and writes in all forms; the offset; lengths.
#![allow(unsafe_code)] // hooks

use super::by_path;
use crate::border::{Fail, Outcome, enter, enter_number, memory, memory_mut};
use crate::open::OpenFileDescription;
use crate::real::hooks;
use crate::table::{is_ours, need};
use crate::world::{Place, World, world};
use libc::{c_char, c_int, c_void, iovec, off_t, size_t, ssize_t};
use rustix::io::Errno;
use std::io::IoSlice;
use std::sync::Arc;

/// The open file of a descriptor, unless our own code makes the call.
#[inline]
fn ours(fd: c_int) -> bool {
    is_ours(fd) && world().is_some()
}

unsafe fn pieces<'a>(at: *const iovec, count: c_int) -> Outcome<&'a [IoSlice<'a>]> {
    if !(0..=1024).contains(&count) {
        return Err(Errno::INVAL.into());
    }
    if count == 0 {
        return Ok(&[]);
    }
    if at.is_null() {
        return Err(Errno::FAULT.into());
    }
    // SAFETY: `IoSlice` is an `iovec`; the caller promises as many.
    Ok(unsafe { std::slice::from_raw_parts(at.cast(), count as usize) })
}

unsafe fn pieces_mut<'a>(at: *const iovec, count: c_int) -> Outcome<Vec<&'a mut [u8]>> {
    // SAFETY: as above; the program lets us write there.
    let pieces = unsafe { pieces(at, count)? };
    pieces.iter().map(|piece| unsafe { memory_mut(piece.as_ptr().cast_mut().cast(), piece.len()) }).collect()
}

unsafe fn take(fd: c_int, out: *mut c_void, count: size_t) -> ssize_t {
    // SAFETY: the arguments of `read`.
    enter(|| Ok(need(fd)?.read(fd, &mut [unsafe { memory_mut(out, count)? }])? as ssize_t))
}

unsafe fn take_at(fd: c_int, out: *mut c_void, count: size_t, at: off_t) -> ssize_t {
    // SAFETY: the arguments of `pread`.
    enter(|| Ok(need(fd)?.read_at(at, &mut [unsafe { memory_mut(out, count)? }])? as ssize_t))
}

hooks! {
    fn read|__read(fd: c_int, out: *mut c_void, count: size_t) -> ssize_t = |real| {
        if ours(fd) { take(fd, out, count) } else { real(fd, out, count) }
    }
    fn __read_chk(fd: c_int, out: *mut c_void, count: size_t, space: size_t) -> ssize_t = |real| {
        if ours(fd) && count <= space { take(fd, out, count) } else { real(fd, out, count, space) }
    }
    fn pread|pread64|__pread64(fd: c_int, out: *mut c_void, count: size_t, at: off_t) -> ssize_t = |real| {
        if ours(fd) { take_at(fd, out, count, at) } else { real(fd, out, count, at) }
    }
    fn __pread_chk|__pread64_chk(fd: c_int, out: *mut c_void, count: size_t, at: off_t, space: size_t) -> ssize_t = |real| {
        if ours(fd) && count <= space { take_at(fd, out, count, at) } else { real(fd, out, count, at, space) }
    }
    fn readv(fd: c_int, at: *const iovec, count: c_int) -> ssize_t = |real| {
        match ours(fd) {
            true => enter(|| Ok(need(fd)?.read(fd, &mut pieces_mut(at, count)?)? as ssize_t)),
            false => real(fd, at, count),
        }
    }
    fn preadv|preadv64(fd: c_int, at: *const iovec, count: c_int, offset: off_t) -> ssize_t = |real| {
        match ours(fd) {
            true => enter(|| Ok(need(fd)?.read_at(offset, &mut pieces_mut(at, count)?)? as ssize_t)),
            false => real(fd, at, count, offset),
        }
    }
    fn preadv2|preadv64v2(fd: c_int, at: *const iovec, count: c_int, offset: off_t, flags: c_int) -> ssize_t = |real| {
        match ours(fd) {
            true if offset == -1 => enter(|| Ok(need(fd)?.read(fd, &mut pieces_mut(at, count)?)? as ssize_t)),
            true => enter(|| Ok(need(fd)?.read_at(offset, &mut pieces_mut(at, count)?)? as ssize_t)),
            false => real(fd, at, count, offset, flags),
        }
    }
    fn write|__write(fd: c_int, data: *const c_void, count: size_t) -> ssize_t = |real| {
        match ours(fd) {
            true => enter(|| Ok(need(fd)?.write(fd, &[IoSlice::new(memory(data, count)?)])? as ssize_t)),
            false => real(fd, data, count),
        }
    }
    fn pwrite|pwrite64|__pwrite64(fd: c_int, data: *const c_void, count: size_t, at: off_t) -> ssize_t = |real| {
        match ours(fd) {
            true => enter(|| Ok(need(fd)?.write_at(fd, at, &[IoSlice::new(memory(data, count)?)])? as ssize_t)),
            false => real(fd, data, count, at),
        }
    }
    fn writev(fd: c_int, at: *const iovec, count: c_int) -> ssize_t = |real| {
        match ours(fd) {
            true => enter(|| Ok(need(fd)?.write(fd, pieces(at, count)?)? as ssize_t)),
            false => real(fd, at, count),
        }
    }
    fn pwritev|pwritev64(fd: c_int, at: *const iovec, count: c_int, offset: off_t) -> ssize_t = |real| {
        match ours(fd) {
            true => enter(|| Ok(need(fd)?.write_at(fd, offset, pieces(at, count)?)? as ssize_t)),
            false => real(fd, at, count, offset),
        }
    }
    fn pwritev2|pwritev64v2(fd: c_int, at: *const iovec, count: c_int, offset: off_t, flags: c_int) -> ssize_t = |real| {
        match ours(fd) {
            true => enter(|| {
                let open = need(fd)?;
                let done = match offset {
                    -1 => open.write(fd, pieces(at, count)?)?,
                    offset => open.write_at(fd, offset, pieces(at, count)?)?,
                };
                if flags & (libc::RWF_SYNC | libc::RWF_DSYNC) != 0 {
                    open.sync()?;
                }
                Ok(done as ssize_t)
            }),
            false => real(fd, at, count, offset, flags),
        }
    }
    fn lseek|lseek64|__lseek(fd: c_int, to: off_t, whence: c_int) -> off_t = |real| {
        match ours(fd) {
            true => enter(|| need(fd)?.seek(fd, to, whence)),
            false => real(fd, to, whence),
        }
    }
    fn fsync|fdatasync(fd: c_int) -> c_int = |real| {
        match ours(fd) {
            true => enter(|| sync(&*need(fd)?)),
            false => real(fd),
        }
    }
    fn syncfs(fd: c_int) -> c_int = |real| {
        match ours(fd) {
            true => enter(|| sync(&*need(fd)?)),
            false => real(fd),
        }
    }
    fn sync_file_range(fd: c_int, from: off_t, count: off_t, flags: libc::c_uint) -> c_int = |real| {
        match ours(fd) {
            true => enter(|| sync(&*need(fd)?)),
            false => real(fd, from, count, flags),
        }
    }
    fn ftruncate|ftruncate64(fd: c_int, length: off_t) -> c_int = |real| {
        match ours(fd) {
            true => enter(|| cut(&need(fd)?, length)),
            false => real(fd, length),
        }
    }
    fn truncate|truncate64(path: *const c_char, length: off_t) -> c_int = |real| {
        by_path!(libc::AT_FDCWD, path, real(path, length), |world, place| cut_by_name(world, &place, length))
    }
    fn fallocate|fallocate64(fd: c_int, mode: c_int, from: off_t, count: off_t) -> c_int = |real| {
        match ours(fd) {
            true => enter(|| allocate(&*need(fd)?, mode, from, count).map(|()| 0)),
            false => real(fd, mode, from, count),
        }
    }
    fn posix_fallocate|posix_fallocate64(fd: c_int, from: off_t, count: off_t) -> c_int = |real| {
        match ours(fd) {
            true => enter_number(|| allocate(&*need(fd)?, 0, from, count)),
            false => real(fd, from, count),
        }
    }
    fn posix_fadvise|posix_fadvise64(fd: c_int, from: off_t, count: off_t, advice: c_int) -> c_int = |real| {
        if ours(fd) { 0 } else { real(fd, from, count, advice) }
    }
    fn readahead(fd: c_int, from: off_t, count: size_t) -> ssize_t = |real| {
        if ours(fd) { 0 } else { real(fd, from, count) }
    }
}

fn sync(open: &OpenFileDescription) -> Outcome<c_int> {
    match open.is_folder() {
        true => {
            let world = world_inside()?;
            let place = open.place();
            place.layout(world)?.sync_folder(&place.name)?;
        }
        false => open.sync()?,
    }
    Ok(0)
}

fn world_inside() -> Outcome<&'static World> {
    crate::world::current_world().ok_or(Fail(libc::EBADF))
}

fn cut(open: &Arc<OpenFileDescription>, length: off_t) -> Outcome<c_int> {
    if open.is_folder() || !open.access.write || length < 0 {
        return Err(Errno::INVAL.into());
    }
    open.file()?.truncate(length as u64)?;
    Ok(0)
}

fn cut_by_name(world: &World, place: &Place, length: off_t) -> Outcome<c_int> {
    let length = u64::try_from(length).map_err(|_| Errno::INVAL)?;
    let layout = place.layout(world)?;
    layout.truncate(&place.name, length).map_err(|e| match layout.stat(&place.name) {
        Ok(about) if about.is_folder => Fail(libc::EISDIR),
        _ => e.into(),
    })?;
    Ok(0)
}

/// Space is allocated at writes; programs see only the length and the holes.
fn allocate(open: &OpenFileDescription, mode: c_int, from: off_t, count: off_t) -> Outcome<()> {
    const ZERO: c_int = libc::FALLOC_FL_ZERO_RANGE;
    const PUNCH: c_int = libc::FALLOC_FL_PUNCH_HOLE;
    const KEEP: c_int = libc::FALLOC_FL_KEEP_SIZE;
    if from < 0 || count <= 0 {
        return Err(Errno::INVAL.into());
    }
    if !open.access.write {
        return Err(Errno::BADF.into());
    }
    let (file, end) = (open.file()?, from.checked_add(count).ok_or(Errno::FBIG)? as u64);
    match mode {
        KEEP => Ok(()),
        0 if file.length()? < end => Ok(file.truncate(end)?),
        0 => Ok(()),
        mode if mode == PUNCH | KEEP || mode & !KEEP == ZERO => {
            let length = file.length()?;
            let to = end.min(length);
            if (from as u64) < to {
                file.punch(from as u64, to - from as u64)?;
            }
            if mode == ZERO && length < end {
                file.truncate(end)?;
            }
            Ok(())
        }
        _ => Err(Errno::OPNOTSUPP.into()),
    }
}
