//! The current folder, which may be a mount's: the system's current folder is then a removed one, so that calls that bypass
//! the hooks fail instead of reaching another folder.
#![allow(unsafe_code)] // hooks

use super::{by_path, locate};
use crate::border::{Fail, Outcome, enter};
use crate::open::close_raw;
use crate::placeholder::{self, Description, Kind};
use crate::real::hooks;
use crate::table::{get, is_ours};
use crate::world::{Followed, Located, Place, World, world};
use libc::{c_char, c_int, size_t};
use rustix::io::Errno;
use thalweg_layout::links::Led;
use thalweg_open_file::{Access, about};

const CWD: c_int = libc::AT_FDCWD;

hooks! {
    fn chdir(path: *const c_char) -> c_int = |real| {
        let answer = by_path!(CWD, path, real(path), |world, place| into(world, &place));
        left(answer)
    }
    fn fchdir(fd: c_int) -> c_int = |real| {
        match world().filter(|_| is_ours(fd)) {
            Some(world) => enter(|| into(world, &get(fd).ok_or(Fail(libc::EBADF))?.place())),
            None => left(real(fd)),
        }
    }
    fn getcwd(out: *mut c_char, space: size_t) -> *mut c_char = |real| {
        match world().and_then(World::current_folder) {
            Some(path) => enter(|| given(&path, out, space)),
            None => real(out, space),
        }
    }
    fn __getcwd_chk(out: *mut c_char, space: size_t, there: size_t) -> *mut c_char = |real| {
        match world().and_then(World::current_folder) {
            Some(path) => enter(|| given(&path, out, space.min(there))),
            None => real(out, space, there),
        }
    }
    fn getwd(out: *mut c_char) -> *mut c_char = |real| {
        match world().and_then(World::current_folder) {
            Some(path) => enter(|| given(&path, out, libc::PATH_MAX as size_t)),
            None => real(out),
        }
    }
    fn get_current_dir_name() -> *mut c_char = |real| {
        match world().and_then(World::current_folder) {
            Some(path) => enter(|| given(&path, std::ptr::null_mut(), 0)),
            None => real(),
        }
    }
    fn realpath(path: *const c_char, out: *mut c_char) -> *mut c_char = |real| {
        match locate(CWD, path) {
            Some((_, Located::Elsewhere(path))) => real(path.as_ptr(), out),
            _ => by_path!(CWD, path, real(path, out), |world, place| given(&resolved(world, &place)?, out, libc::PATH_MAX as size_t)),
        }
    }
    fn __realpath_chk(path: *const c_char, out: *mut c_char, there: size_t) -> *mut c_char = |real| {
        by_path!(CWD, path, real(path, out, there), |world, place| given(&resolved(world, &place)?, out, there))
    }
    fn canonicalize_file_name(path: *const c_char) -> *mut c_char = |real| {
        by_path!(CWD, path, real(path), |world, place| given(&resolved(world, &place)?, std::ptr::null_mut(), 0))
    }
}

/// Call after the system's current folder changed.
fn left(answer: c_int) -> c_int {
    if answer == 0
        && let Some(world) = world()
        && world.current_fd().is_none_or(|_| rustix::fs::stat(".").is_ok_and(|about| about.st_nlink > 0))
        && let Some(fd) = world.set_current(None)
    {
        close_raw(fd);
    }
    answer
}

fn into(world: &World, place: &Place) -> Outcome<c_int> {
    let (name, found) = about::followed(&**place.layout(world)?, &place.name)?;
    if found.kind != thalweg_layout::Kind::Folder {
        return Err(Errno::NOTDIR.into());
    }
    let path = if name == place.name { place.path.clone() } else { resolved(world, place)? };
    // A high number, which programs do not expect or use.
    let low = placeholder::make(&Description { kind: Kind::Current, access: Access::READ, path: path.clone() }, false)?;
    let high = rustix::io::fcntl_dupfd_cloexec(crate::open::borrow(low), crate::private::base());
    close_raw(low);
    let high = high?;
    rustix::io::fcntl_setfd(&high, rustix::io::FdFlags::empty())?;
    nowhere()?;
    let before = world.set_current(Some((path, std::os::fd::IntoRawFd::into_raw_fd(high))));
    before.into_iter().for_each(close_raw);
    Ok(0)
}

/// Sets the system's current folder to a removed one.
fn nowhere() -> Outcome<()> {
    if rustix::fs::stat(".").is_ok_and(|about| about.st_nlink == 0) {
        return Ok(());
    }
    for attempt in 0..100 {
        let path = format!("/tmp/.thalweg-nowhere-{}-{attempt}", std::process::id());
        match rustix::fs::mkdir(&*path, rustix::fs::Mode::RWXU) {
            Ok(()) => {
                let moved = rustix::process::chdir(&*path);
                rustix::fs::rmdir(&*path)?;
                return Ok(moved?);
            }
            Err(Errno::EXIST) => {}
            Err(e) => return Err(e.into()),
        }
    }
    Err(Errno::EXIST.into())
}

/// The path with links resolved; it must exist.
fn resolved(world: &World, place: &Place) -> Outcome<String> {
    let without_links = |place: &Place| match world.led(place)? {
        Led::Within(walked) => {
            let found = place.beside(world, walked.name);
            about::attributes(&**found.layout(world)?, &found.name)?;
            Ok(found.path)
        }
        // Makes `follow` leave the mount.
        Led::Out(_) => Err(Errno::LOOP.into()),
    };
    match world.follow(place, without_links)? {
        Followed::Here(path) => Ok(path),
        Followed::Outside(path) => {
            let real = std::fs::canonicalize(path.to_str().map_err(|_| Errno::ILSEQ)?);
            let real = real.map_err(|e| Fail(e.raw_os_error().unwrap_or(libc::EIO)))?;
            Ok(real.to_string_lossy().into_owned())
        }
    }
}

/// Copies a path into the program's memory, or into new memory that the program frees.
unsafe fn given(path: &str, out: *mut c_char, space: size_t) -> Outcome<*mut c_char> {
    let needed = path.len() + 1;
    let to = match out.is_null() {
        false if space < needed => return Err(Errno::RANGE.into()),
        false => out,
        true if space != 0 && space < needed => return Err(Errno::RANGE.into()),
        // SAFETY: the program frees it, as in the manual pages.
        true => unsafe { libc::malloc(needed.max(space)).cast() },
    };
    if to.is_null() {
        return Err(Errno::NOMEM.into());
    }
    // SAFETY: room for the path and its end.
    unsafe {
        to.copy_from_nonoverlapping(path.as_ptr().cast(), path.len());
        *to.add(path.len()) = 0;
    }
    Ok(to)
}
