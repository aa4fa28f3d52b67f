//! Extended attributes.
#![allow(unsafe_code)] // hooks

use super::by_path;
use crate::border::{Outcome, enter, memory, memory_mut, text};
use crate::real::hooks;
use crate::table::{is_ours, need};
use crate::world::{Place, World, current_world, world};
use libc::{c_char, c_int, c_void, size_t, ssize_t};
use rustix::io::Errno;
use thalweg_layout::SetXattr;
use thalweg_open_file::about;
use thalweg_types::ErrorKind;

const CWD: c_int = libc::AT_FDCWD;

hooks! {
    fn getxattr(path: *const c_char, key: *const c_char, out: *mut c_void, space: size_t) -> ssize_t = |real| {
        by_path!(CWD, path, real(path, key, out, space), |world, place| get(world, &followed(world, &place)?, key, out, space))
    }
    fn lgetxattr(path: *const c_char, key: *const c_char, out: *mut c_void, space: size_t) -> ssize_t = |real| {
        by_path!(CWD, path, real(path, key, out, space), |world, place| get(world, &place, key, out, space))
    }
    fn fgetxattr(fd: c_int, key: *const c_char, out: *mut c_void, space: size_t) -> ssize_t = |real| {
        if ours(fd) { enter(|| get(here()?, &need(fd)?.place(), key, out, space)) } else { real(fd, key, out, space) }
    }
    fn setxattr(path: *const c_char, key: *const c_char, value: *const c_void, bytes: size_t, flags: c_int) -> c_int = |real| {
        by_path!(CWD, path, real(path, key, value, bytes, flags), |world, place| set(world, &followed(world, &place)?, key, value, bytes, flags))
    }
    fn lsetxattr(path: *const c_char, key: *const c_char, value: *const c_void, bytes: size_t, flags: c_int) -> c_int = |real| {
        by_path!(CWD, path, real(path, key, value, bytes, flags), |world, place| set(world, &place, key, value, bytes, flags))
    }
    fn fsetxattr(fd: c_int, key: *const c_char, value: *const c_void, bytes: size_t, flags: c_int) -> c_int = |real| {
        if ours(fd) { enter(|| set(here()?, &need(fd)?.place(), key, value, bytes, flags)) } else { real(fd, key, value, bytes, flags) }
    }
    fn listxattr(path: *const c_char, out: *mut c_char, space: size_t) -> ssize_t = |real| {
        by_path!(CWD, path, real(path, out, space), |world, place| list(world, &followed(world, &place)?, out, space))
    }
    fn llistxattr(path: *const c_char, out: *mut c_char, space: size_t) -> ssize_t = |real| {
        by_path!(CWD, path, real(path, out, space), |world, place| list(world, &place, out, space))
    }
    fn flistxattr(fd: c_int, out: *mut c_char, space: size_t) -> ssize_t = |real| {
        if ours(fd) { enter(|| list(here()?, &need(fd)?.place(), out, space)) } else { real(fd, out, space) }
    }
    fn removexattr(path: *const c_char, key: *const c_char) -> c_int = |real| {
        by_path!(CWD, path, real(path, key), |world, place| drop_one(world, &followed(world, &place)?, key))
    }
    fn lremovexattr(path: *const c_char, key: *const c_char) -> c_int = |real| {
        by_path!(CWD, path, real(path, key), |world, place| drop_one(world, &place, key))
    }
    fn fremovexattr(fd: c_int, key: *const c_char) -> c_int = |real| {
        if ours(fd) { enter(|| drop_one(here()?, &need(fd)?.place(), key)) } else { real(fd, key) }
    }
}

fn ours(fd: c_int) -> bool {
    is_ours(fd) && world().is_some()
}

fn here() -> Outcome<&'static World> {
    Ok(current_world().ok_or(Errno::BADF)?)
}

fn followed(world: &World, place: &Place) -> Outcome<Place> {
    let (name, _) = about::followed(&**place.layout(world)?, &place.name)?;
    Ok(Place { name, ..place.clone() })
}

/// Fills the program's buffer; for size 0 returns the needed size.
unsafe fn answer(bytes: &[u8], out: *mut c_void, space: size_t) -> Outcome<ssize_t> {
    if space == 0 {
        return Ok(bytes.len() as ssize_t);
    }
    // SAFETY: the arguments of the call.
    let out = unsafe { memory_mut(out, space)? };
    out.get_mut(..bytes.len()).ok_or(Errno::RANGE)?.copy_from_slice(bytes);
    Ok(bytes.len() as ssize_t)
}

unsafe fn get(world: &World, place: &Place, key: *const c_char, out: *mut c_void, space: size_t) -> Outcome<ssize_t> {
    // SAFETY: a text.
    let key = unsafe { text(key)? };
    let value = place.layout(world)?.xattr_get(&place.name, key)?.ok_or(Errno::NODATA)?;
    // SAFETY: the arguments of the call.
    unsafe { answer(&value, out, space) }
}

unsafe fn set(
    world: &World,
    place: &Place,
    key: *const c_char,
    value: *const c_void,
    bytes: size_t,
    flags: c_int,
) -> Outcome<c_int> {
    let how = match flags {
        0 => SetXattr::Any,
        libc::XATTR_CREATE => SetXattr::New,
        libc::XATTR_REPLACE => SetXattr::Existing,
        _ => return Err(Errno::INVAL.into()),
    };
    // SAFETY: the arguments of the call.
    let (key, value) = unsafe { (text(key)?, memory(value, bytes)?) };
    place.layout(world)?.xattr_set(&place.name, key, value, how).map_err(missing)?;
    Ok(0)
}

/// Error for a missing attribute, not a missing file.
fn missing(e: thalweg_types::Error) -> crate::border::Fail {
    use thalweg_layout::errno;
    match (e.kind(), errno::of(&e)) {
        (ErrorKind::NotFound, libc::ENOENT) => Errno::NODATA.into(),
        _ => e.into(),
    }
}

unsafe fn list(world: &World, place: &Place, out: *mut c_char, space: size_t) -> Outcome<ssize_t> {
    let mut bytes = Vec::new();
    match place.layout(world)?.xattr_list(&place.name) {
        Ok(keys) => keys.iter().for_each(|key| bytes.extend(key.bytes().chain([0]))),
        // As for a file without attributes: copying programs list them all.
        Err(e) if e.kind() == ErrorKind::Unsupported => {}
        Err(e) => return Err(e.into()),
    }
    // SAFETY: the arguments of the call.
    unsafe { answer(&bytes, out.cast(), space) }
}

unsafe fn drop_one(world: &World, place: &Place, key: *const c_char) -> Outcome<c_int> {
    // SAFETY: a text.
    let key = unsafe { text(key)? };
    place.layout(world)?.xattr_remove(&place.name, key).map_err(missing)?;
    Ok(0)
}
