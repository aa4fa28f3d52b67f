//! Calls that move bytes between two descriptors.
#![allow(unsafe_code)] // hooks

use crate::border::{Outcome, enter, set_errno};
use crate::open::borrow;
use crate::real::hooks;
use crate::table::{get, is_ours};
use crate::world::world;
use libc::{c_int, c_uint, off_t, size_t, ssize_t};
use rustix::io::Errno;
use std::io::IoSlice;

/// Bytes moved at a time.
const STEP: usize = 256 << 10;

hooks! {
    fn sendfile|sendfile64(to: c_int, from: c_int, at: *mut off_t, count: size_t) -> ssize_t = |real| {
        match world().filter(|_| is_ours(to) || is_ours(from)) {
            Some(_) => enter(|| carry(from, at.as_mut(), to, None, count)),
            None => real(to, from, at, count),
        }
    }
    fn copy_file_range(
        from: c_int, from_at: *mut off_t, to: c_int, to_at: *mut off_t, count: size_t, flags: c_uint,
    ) -> ssize_t = |real| {
        match world().filter(|_| is_ours(to) || is_ours(from)) {
            Some(_) => enter(|| carry(from, from_at.as_mut(), to, to_at.as_mut(), count)),
            None => real(from, from_at, to, to_at, count, flags),
        }
    }
    fn splice(
        from: c_int, from_at: *mut off_t, to: c_int, to_at: *mut off_t, count: size_t, flags: c_uint,
    ) -> ssize_t = |real| {
        if world().is_some() && (is_ours(from) || is_ours(to)) {
            // `EINVAL`, as for files without `splice`: programs fall back to read and write.
            set_errno(libc::EINVAL);
            return -1;
        }
        real(from, from_at, to, to_at, count, flags)
    }
}

fn carry(
    from: c_int,
    mut from_at: Option<&mut off_t>,
    to: c_int,
    mut to_at: Option<&mut off_t>,
    count: size_t,
) -> Outcome<ssize_t> {
    let mut buffer = vec![0; STEP.min(count)];
    let mut done = 0;
    while done < count {
        let part = &mut buffer[..STEP.min(count - done)];
        let got = match take(from, from_at.as_deref().copied(), part) {
            Err(_) if done > 0 => break,
            outcome => outcome?,
        };
        if got == 0 {
            break;
        }
        let put = match give(to, to_at.as_deref().copied(), &part[..got]) {
            Err(fail) if done == 0 => {
                if from_at.is_none() {
                    back(from, got);
                }
                return Err(fail);
            }
            Err(_) => 0,
            Ok(put) => put,
        };
        if from_at.is_none() && put < got {
            back(from, got - put);
        }
        if let Some(at) = &mut from_at {
            **at += put as off_t;
        }
        if let Some(at) = &mut to_at {
            **at += put as off_t;
        }
        done += put;
        if put < got {
            break;
        }
    }
    Ok(done as ssize_t)
}

fn take(fd: c_int, at: Option<off_t>, out: &mut [u8]) -> Outcome<usize> {
    match (get(fd), at) {
        (Some(open), None) => open.read(fd, &mut [out]),
        (Some(open), Some(at)) => open.read_at(at, &mut [out]),
        (None, None) => Ok(rustix::io::read(borrow(fd), out)?),
        (None, Some(at)) => Ok(rustix::io::pread(borrow(fd), out, at as u64)?),
    }
}

fn give(fd: c_int, at: Option<off_t>, bytes: &[u8]) -> Outcome<usize> {
    match (get(fd), at) {
        (Some(open), None) => open.write(fd, &[IoSlice::new(bytes)]),
        (Some(open), Some(at)) => open.write_at(fd, at, &[IoSlice::new(bytes)]),
        (None, None) => Ok(rustix::io::write(borrow(fd), bytes)?),
        (None, Some(at)) => Ok(rustix::io::pwrite(borrow(fd), bytes, at as u64)?),
    }
}

/// Moves the offset back over bytes that were read but not written.
fn back(fd: c_int, bytes: usize) {
    let to = rustix::fs::SeekFrom::Current(-(bytes as i64));
    let _: Result<u64, Errno> = crate::placeholder::seek(borrow(fd), to);
}
