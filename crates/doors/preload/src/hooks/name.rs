//! Names: creation, removal, renames, links; modes, owners and times.
#![allow(unsafe_code)] // hooks

use super::{by_path, locate};
use crate::border::{Fail, Outcome, enter, text};
use crate::real::hooks;
use crate::table::{is_ours, need};
use crate::world::{Located, Place, World, world};
use libc::{c_char, c_int, c_uint, dev_t, gid_t, mode_t, size_t, ssize_t, timespec, timeval, uid_t};
use rustix::io::Errno;
use std::time::{Duration, SystemTime};
use thalweg_layout::errno::PosixCall;
use thalweg_layout::{Change, Kind};
use thalweg_open_file::about;

const CWD: c_int = libc::AT_FDCWD;

hooks! {
    fn unlink(path: *const c_char) -> c_int = |real| {
        by_path!(CWD, path, real(path), |world, place| remove_one(world, &place, Some(false)))
    }
    fn rmdir(path: *const c_char) -> c_int = |real| {
        by_path!(CWD, path, real(path), |world, place| remove_one(world, &place, Some(true)))
    }
    fn remove(path: *const c_char) -> c_int = |real| {
        by_path!(CWD, path, real(path), |world, place| remove_any(world, &place))
    }
    fn unlinkat(folder: c_int, path: *const c_char, flags: c_int) -> c_int = |real| {
        by_path!(folder, path, real(folder, path, flags), |world, place| {
            remove_one(world, &place, Some(flags & libc::AT_REMOVEDIR != 0))
        })
    }
    fn mkdir(path: *const c_char, mode: mode_t) -> c_int = |real| {
        by_path!(CWD, path, real(path, mode), |world, place| make(world, &place, mode))
    }
    fn mkdirat(folder: c_int, path: *const c_char, mode: mode_t) -> c_int = |real| {
        by_path!(folder, path, real(folder, path, mode), |world, place| make(world, &place, mode))
    }
    fn rename(from: *const c_char, to: *const c_char) -> c_int = |real| {
        match both(CWD, from, CWD, to) {
            None => real(from, to),
            Some((world, from, to)) => two(world, from, to, |world, a, b| moved(world, a, b, 0), |a, b| Ok(rustix::fs::rename(a, b)?)),
        }
    }
    fn renameat(folder: c_int, from: *const c_char, other: c_int, to: *const c_char) -> c_int = |real| {
        match both(folder, from, other, to) {
            None => real(folder, from, other, to),
            Some((world, from, to)) => two(world, from, to, |world, a, b| moved(world, a, b, 0), |a, b| Ok(rustix::fs::rename(a, b)?)),
        }
    }
    fn renameat2(folder: c_int, from: *const c_char, other: c_int, to: *const c_char, flags: c_uint) -> c_int = |real| {
        match both(folder, from, other, to) {
            None => real(folder, from, other, to, flags),
            Some((world, from, to)) => two(world, from, to, |world, a, b| moved(world, a, b, flags), |a, b| {
                let flags = rustix::fs::RenameFlags::from_bits_retain(flags);
                Ok(rustix::fs::renameat_with(rustix::fs::CWD, a, rustix::fs::CWD, b, flags)?)
            }),
        }
    }
    fn link(from: *const c_char, to: *const c_char) -> c_int = |real| {
        match both(CWD, from, CWD, to) {
            None => real(from, to),
            Some((world, from, to)) => two(world, from, to, hard_link, |a, b| Ok(rustix::fs::link(a, b)?)),
        }
    }
    fn linkat(folder: c_int, from: *const c_char, other: c_int, to: *const c_char, flags: c_int) -> c_int = |real| {
        match both(folder, from, other, to) {
            None => real(folder, from, other, to, flags),
            Some((world, from, to)) => two(world, from, to, hard_link, |a, b| Ok(rustix::fs::link(a, b)?)),
        }
    }
    fn symlink(target: *const c_char, path: *const c_char) -> c_int = |real| {
        by_path!(CWD, path, real(target, path), |world, place| leads_to(world, &place, text(target)?))
    }
    fn symlinkat(target: *const c_char, folder: c_int, path: *const c_char) -> c_int = |real| {
        by_path!(folder, path, real(target, folder, path), |world, place| leads_to(world, &place, text(target)?))
    }
    fn readlink(path: *const c_char, out: *mut c_char, space: size_t) -> ssize_t = |real| {
        by_path!(CWD, path, real(path, out, space), |world, place| target(world, &place, out, space))
    }
    fn __readlink_chk(path: *const c_char, out: *mut c_char, space: size_t, there: size_t) -> ssize_t = |real| {
        by_path!(CWD, path, real(path, out, space, there), |world, place| target(world, &place, out, space.min(there)))
    }
    fn readlinkat(folder: c_int, path: *const c_char, out: *mut c_char, space: size_t) -> ssize_t = |real| {
        by_path!(folder, path, real(folder, path, out, space), |world, place| target(world, &place, out, space))
    }
    fn __readlinkat_chk(folder: c_int, path: *const c_char, out: *mut c_char, space: size_t, there: size_t) -> ssize_t = |real| {
        by_path!(folder, path, real(folder, path, out, space, there), |world, place| target(world, &place, out, space.min(there)))
    }
    fn mknod(path: *const c_char, mode: mode_t, device: dev_t) -> c_int = |real| {
        by_path!(CWD, path, real(path, mode, device), |world, place| node(world, &place, mode))
    }
    fn mknodat(folder: c_int, path: *const c_char, mode: mode_t, device: dev_t) -> c_int = |real| {
        by_path!(folder, path, real(folder, path, mode, device), |world, place| node(world, &place, mode))
    }
    fn mkfifo(path: *const c_char, mode: mode_t) -> c_int = |real| {
        by_path!(CWD, path, real(path, mode), |world, place| node(world, &place, libc::S_IFIFO))
    }
    fn mkfifoat(folder: c_int, path: *const c_char, mode: mode_t) -> c_int = |real| {
        by_path!(folder, path, real(folder, path, mode), |world, place| node(world, &place, libc::S_IFIFO))
    }
    fn chmod(path: *const c_char, mode: mode_t) -> c_int = |real| {
        by_path!(CWD, path, real(path, mode), |world, place| change(world, &place, true, &mode_of(mode)))
    }
    fn lchmod(path: *const c_char, mode: mode_t) -> c_int = |real| {
        by_path!(CWD, path, real(path, mode), |world, place| change(world, &place, false, &mode_of(mode)))
    }
    fn fchmodat(folder: c_int, path: *const c_char, mode: mode_t, flags: c_int) -> c_int = |real| {
        by_path!(folder, path, real(folder, path, mode, flags), |world, place| {
            change(world, &place, flags & libc::AT_SYMLINK_NOFOLLOW == 0, &mode_of(mode))
        })
    }
    fn fchmod(fd: c_int, mode: mode_t) -> c_int = |real| {
        if ours(fd) { enter(|| change_open(fd, &mode_of(mode))) } else { real(fd, mode) }
    }
    fn chown(path: *const c_char, uid: uid_t, gid: gid_t) -> c_int = |real| {
        by_path!(CWD, path, real(path, uid, gid), |world, place| change(world, &place, true, &owner_of(uid, gid)))
    }
    fn lchown(path: *const c_char, uid: uid_t, gid: gid_t) -> c_int = |real| {
        by_path!(CWD, path, real(path, uid, gid), |world, place| change(world, &place, false, &owner_of(uid, gid)))
    }
    fn fchownat(folder: c_int, path: *const c_char, uid: uid_t, gid: gid_t, flags: c_int) -> c_int = |real| {
        if flags & libc::AT_EMPTY_PATH != 0 && ours(folder) && !path.is_null() && *path == 0 {
            return enter(|| change_open(folder, &owner_of(uid, gid)));
        }
        by_path!(folder, path, real(folder, path, uid, gid, flags), |world, place| {
            change(world, &place, flags & libc::AT_SYMLINK_NOFOLLOW == 0, &owner_of(uid, gid))
        })
    }
    fn fchown(fd: c_int, uid: uid_t, gid: gid_t) -> c_int = |real| {
        if ours(fd) { enter(|| change_open(fd, &owner_of(uid, gid))) } else { real(fd, uid, gid) }
    }
    fn utimensat(folder: c_int, path: *const c_char, times: *const timespec, flags: c_int) -> c_int = |real| {
        if path.is_null() && ours(folder) {
            return enter(|| change_open(folder, &times_of(times)?));
        }
        by_path!(folder, path, real(folder, path, times, flags), |world, place| {
            change(world, &place, flags & libc::AT_SYMLINK_NOFOLLOW == 0, &times_of(times)?)
        })
    }
    fn futimens(fd: c_int, times: *const timespec) -> c_int = |real| {
        if ours(fd) { enter(|| change_open(fd, &times_of(times)?)) } else { real(fd, times) }
    }
    fn utimes(path: *const c_char, times: *const timeval) -> c_int = |real| {
        by_path!(CWD, path, real(path, times), |world, place| change(world, &place, true, &times_of_values(times)?))
    }
    fn lutimes(path: *const c_char, times: *const timeval) -> c_int = |real| {
        by_path!(CWD, path, real(path, times), |world, place| change(world, &place, false, &times_of_values(times)?))
    }
    fn futimes(fd: c_int, times: *const timeval) -> c_int = |real| {
        if ours(fd) { enter(|| change_open(fd, &times_of_values(times)?)) } else { real(fd, times) }
    }
    fn futimesat(folder: c_int, path: *const c_char, times: *const timeval) -> c_int = |real| {
        by_path!(folder, path, real(folder, path, times), |world, place| change(world, &place, true, &times_of_values(times)?))
    }
    fn utime(path: *const c_char, times: *const libc::utimbuf) -> c_int = |real| {
        by_path!(CWD, path, real(path, times), |world, place| {
            let two = times.as_ref().map(|t| [timeval { tv_sec: t.actime, tv_usec: 0 }, timeval { tv_sec: t.modtime, tv_usec: 0 }]);
            change(world, &place, true, &times_of_values(two.as_ref().map_or(std::ptr::null(), |two| two.as_ptr()))?)
        })
    }
}

fn ours(fd: c_int) -> bool {
    is_ours(fd) && world().is_some()
}

/// Opens a path under a mount that our own code composed.
pub fn open(path: &str, flags: c_int, mode: mode_t) -> Outcome<c_int> {
    let world = crate::world::current_world().ok_or(Fail(libc::ENOENT))?;
    match world.locate(CWD, path.as_bytes()) {
        Located::Ours(place) => crate::open::open(world, &place, flags, mode),
        _ => Err(Errno::NOENT.into()),
    }
}

/// Creates a folder at such a path.
pub fn make_folder(path: &str, mode: mode_t) -> Outcome<()> {
    let world = crate::world::current_world().ok_or(Fail(libc::ENOENT))?;
    match world.locate(CWD, path.as_bytes()) {
        Located::Ours(place) => make(world, &place, mode).map(drop),
        _ => Err(Errno::NOENT.into()),
    }
}

fn not_the_root(place: &Place) -> Outcome<()> {
    if place.name.is_empty() { Err(Errno::BUSY.into()) } else { Ok(()) }
}

fn kind(world: &World, place: &Place) -> Outcome<Kind> {
    Ok(about::attributes(&**place.layout(world)?, &place.name)?.kind)
}

fn remove_any(world: &World, place: &Place) -> Outcome<c_int> {
    remove_one(world, place, None)
}

/// - `folder`: whether a folder or a file may be removed; `None` for both.
fn remove_one(world: &World, place: &Place, folder: Option<bool>) -> Outcome<c_int> {
    not_the_root(place)?;
    match (folder, kind(world, place)? == Kind::Folder) {
        (Some(false), true) => return Err(Errno::ISDIR.into()),
        (Some(true), false) => return Err(Errno::NOTDIR.into()),
        _ => {}
    }
    lose_name(world, place);
    place.layout(world)?.remove(&place.name)?;
    Ok(0)
}

/// Prepares the open files of a name for its removal.
fn lose_name(world: &World, place: &Place) {
    if crate::table::any() {
        world.open_below(place).iter().filter(|open| !open.is_folder()).for_each(|open| open.unlinked());
    }
}

fn make(world: &World, place: &Place, mode: mode_t) -> Outcome<c_int> {
    if place.name.is_empty() {
        return Err(Errno::EXIST.into());
    }
    place.layout(world)?.make_one_folder(&place.name, mode & 0o7777 & !crate::process::umask())?;
    Ok(0)
}

/// Both paths of a call, if one is under a mount.
unsafe fn both(
    folder: c_int,
    from: *const c_char,
    other: c_int,
    to: *const c_char,
) -> Option<(&'static World, Located, Located)> {
    // SAFETY: texts.
    let (a, b) = unsafe { (locate(folder, from), locate(other, to)) };
    let world = a.as_ref().or(b.as_ref())?.0;
    let whole = |at: c_int, path: *const c_char, located: Option<(&'static World, Located)>| {
        located.map(|(_, located)| located).unwrap_or_else(|| {
            // If one path is under a mount, the other is needed as an absolute path. SAFETY: texts, as above.
            let bytes = unsafe { std::ffi::CStr::from_ptr(path) };
            let _inside = crate::border::Inside::new();
            match at == CWD || bytes.to_bytes().first() == Some(&b'/') {
                true => Located::Elsewhere(bytes.to_owned()),
                false => match rustix::fs::readlink(format!("/proc/self/fd/{at}"), Vec::new()) {
                    Ok(folder) => {
                        let path = [folder.to_bytes(), b"/", bytes.to_bytes()].concat();
                        std::ffi::CString::new(path).map_or(Located::Nowhere(Fail(libc::EINVAL)), Located::Elsewhere)
                    }
                    Err(e) => Located::Nowhere(e.into()),
                },
            }
        })
    };
    if from.is_null() || to.is_null() {
        return None;
    }
    Some((world, whole(folder, from, a), whole(other, to, b)))
}

/// A call with two paths.
fn two(
    world: &World,
    from: Located,
    to: Located,
    ours: impl FnOnce(&World, &Place, &Place) -> Outcome<()>,
    others: impl FnOnce(&std::ffi::CStr, &std::ffi::CStr) -> Outcome<()>,
) -> c_int {
    enter(|| {
        match (&from, &to) {
            (Located::Nowhere(fail), _) | (_, Located::Nowhere(fail)) => return Err(*fail),
            (Located::Ours(a), Located::Ours(b)) if a.mount == b.mount => ours(world, a, b)?,
            (Located::Elsewhere(a), Located::Elsewhere(b)) => others(a, b)?,
            _ => return Err(Errno::XDEV.into()),
        }
        Ok(0)
    })
}

fn moved(world: &World, from: &Place, to: &Place, flags: c_uint) -> Outcome<()> {
    not_the_root(from)?;
    not_the_root(to)?;
    let layout = from.layout(world)?;
    match flags {
        0 => {}
        libc::RENAME_NOREPLACE => {
            if layout.attributes(&to.name).is_ok() {
                return Err(Errno::EXIST.into());
            }
        }
        _ => return Err(Errno::INVAL.into()),
    }
    let source = about::attributes(&**layout, &from.name)?;
    if let Ok(there) = about::attributes(&**layout, &to.name) {
        match (source.kind == Kind::Folder, there.kind == Kind::Folder) {
            (false, true) => return Err(Errno::ISDIR.into()),
            (true, false) => return Err(Errno::NOTDIR.into()),
            // Two hard links of one file: a rename has no effect.
            (false, false) if source.identity == there.identity && source.links > 1 => return Ok(()),
            (false, false) if from.name != to.name => lose_name(world, to),
            _ => {}
        }
    }
    layout.rename(&from.name, &to.name).map_err(|e| Fail::of(PosixCall::Rename, e))?;
    if crate::table::any() {
        world.open_below(from).iter().for_each(|open| open.renamed(from, to));
    }
    Ok(())
}

fn hard_link(world: &World, from: &Place, to: &Place) -> Outcome<()> {
    let layout = from.layout(world)?;
    if kind(world, from)? == Kind::Folder {
        return Err(Errno::PERM.into());
    }
    layout.make_hard_link(&from.name, &to.name).map_err(|e| Fail::of(PosixCall::Make, e))
}

fn leads_to(world: &World, place: &Place, target: &str) -> Outcome<c_int> {
    if target.is_empty() {
        return Err(Errno::NOENT.into());
    }
    place.layout(world)?.make_link(target, &place.name).map_err(|e| Fail::of(PosixCall::Make, e))?;
    Ok(0)
}

unsafe fn target(world: &World, place: &Place, out: *mut c_char, space: size_t) -> Outcome<ssize_t> {
    if kind(world, place)? != Kind::Link {
        return Err(Errno::INVAL.into());
    }
    let target = place.layout(world)?.read_link(&place.name).map_err(|e| Fail::of(PosixCall::ReadLink, e))?;
    // SAFETY: the arguments of the call.
    let out = unsafe { crate::border::memory_mut(out.cast(), space)? };
    let count = target.len().min(out.len());
    out[..count].copy_from_slice(&target.as_bytes()[..count]);
    Ok(count as ssize_t)
}

fn node(world: &World, place: &Place, mode: mode_t) -> Outcome<c_int> {
    match mode & libc::S_IFMT {
        0 | libc::S_IFREG => {
            let flags = libc::O_WRONLY | libc::O_CREAT | libc::O_EXCL | libc::O_CLOEXEC;
            let fd = crate::open::open(world, place, flags, mode)?;
            let open = crate::table::remove(world, fd);
            crate::open::close_raw(fd);
            crate::open::drop_one(open)?;
            Ok(0)
        }
        _ => Err(Errno::PERM.into()),
    }
}

fn mode_of(mode: mode_t) -> Change {
    Change { mode: Some(mode & 0o7777), ..Change::default() }
}

fn owner_of(uid: uid_t, gid: gid_t) -> Change {
    Change { uid: (uid != uid_t::MAX).then_some(uid), gid: (gid != gid_t::MAX).then_some(gid), ..Change::default() }
}

unsafe fn times_of(times: *const timespec) -> Outcome<Change> {
    let now = SystemTime::now();
    if times.is_null() {
        return Ok(Change { atime: Some(now), mtime: Some(now), ..Change::default() });
    }
    // SAFETY: two of them, according to the manual page.
    let times = unsafe { std::slice::from_raw_parts(times, 2) };
    let one = |time: &timespec| -> Outcome<Option<SystemTime>> {
        match time.tv_nsec {
            libc::UTIME_NOW => Ok(Some(now)),
            libc::UTIME_OMIT => Ok(None),
            rest @ 0..1_000_000_000 => {
                let whole = Duration::from_secs(time.tv_sec.unsigned_abs());
                let epoch = SystemTime::UNIX_EPOCH;
                let start = if time.tv_sec < 0 { epoch.checked_sub(whole) } else { epoch.checked_add(whole) };
                let exact = start.and_then(|start| start.checked_add(Duration::from_nanos(rest as u64)));
                Ok(Some(exact.ok_or(Errno::OVERFLOW)?))
            }
            _ => Err(Errno::INVAL.into()),
        }
    };
    Ok(Change { atime: one(&times[0])?, mtime: one(&times[1])?, ..Change::default() })
}

unsafe fn times_of_values(times: *const timeval) -> Outcome<Change> {
    if times.is_null() {
        // SAFETY: null stands for now.
        return unsafe { times_of(std::ptr::null()) };
    }
    // SAFETY: two of them, according to the manual page.
    let times = unsafe { std::slice::from_raw_parts(times, 2) };
    if times.iter().any(|time| !(0..1_000_000).contains(&time.tv_usec)) {
        return Err(Errno::INVAL.into());
    }
    let exact: Vec<timespec> =
        times.iter().map(|time| timespec { tv_sec: time.tv_sec, tv_nsec: time.tv_usec * 1000 }).collect();
    // SAFETY: two of them.
    unsafe { times_of(exact.as_ptr()) }
}

fn change(world: &World, place: &Place, follow: bool, change: &Change) -> Outcome<c_int> {
    let layout = place.layout(world)?;
    let name = match follow {
        true => about::followed(&**layout, &place.name)?.0,
        false => place.name.clone(),
    };
    layout.set_attributes(&name, change)?;
    Ok(0)
}

fn change_open(fd: c_int, to: &Change) -> Outcome<c_int> {
    let open = need(fd)?;
    match open.is_folder() {
        true => {
            let world = crate::world::current_world().ok_or(Fail(libc::EBADF))?;
            change(world, &open.place(), false, to)
        }
        false => {
            open.file()?.set_attributes(to)?;
            Ok(0)
        }
    }
}
