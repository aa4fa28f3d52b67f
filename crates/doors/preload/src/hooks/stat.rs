//! File status: the `stat` family, `access`, free space of the filesystem.
#![allow(unsafe_code)] // hooks

use super::{by_path, locate};
use crate::border::{Fail, Outcome, enter};
use crate::real::hooks;
use crate::table::{is_ours, need};
use crate::world::{Followed, Located, Place, World, world};
use libc::{c_char, c_int, c_long, c_uint};
use rustix::fs::AtFlags;
use rustix::io::Errno;
use std::time::SystemTime;
use thalweg_layout::{Attributes, Kind};
use thalweg_open_file::about;

const CWD: c_int = libc::AT_FDCWD;
/// Preferred block size for reads and writes.
const BLOCK: i64 = 64 << 10;

/// Runs a call on the file of a name.
macro_rules! stat_at {
    ($folder:expr, $path:ident, $flags:expr, $out:ident, $real:expr) => {
        match locate($folder, $path) {
            _ if $flags & libc::AT_EMPTY_PATH != 0 && is_ours($folder) && is_empty($path) => {
                enter(|| fill_open($folder, $out))
            }
            None => $real,
            Some((_, Located::Untouched)) => $real,
            Some((_, Located::Elsewhere(path))) => {
                let $path = path.as_ptr();
                $real
            }
            Some((_, Located::Nowhere(fail))) => enter(|| Err(fail)),
            Some((world, Located::Ours(place))) => enter(|| fill_named(world, &place, $flags, $out)),
        }
    };
}

hooks! {
    fn stat|stat64(path: *const c_char, out: *mut libc::stat) -> c_int = |real| {
        stat_at!(CWD, path, 0, out, real(path, out))
    }
    fn lstat|lstat64(path: *const c_char, out: *mut libc::stat) -> c_int = |real| {
        stat_at!(CWD, path, libc::AT_SYMLINK_NOFOLLOW, out, real(path, out))
    }
    fn fstatat|fstatat64(folder: c_int, path: *const c_char, out: *mut libc::stat, flags: c_int) -> c_int = |real| {
        stat_at!(folder, path, flags, out, real(folder, path, out, flags))
    }
    fn fstat|fstat64(fd: c_int, out: *mut libc::stat) -> c_int = |real| {
        if is_ours(fd) && world().is_some() { enter(|| fill_open(fd, out)) } else { real(fd, out) }
    }
    fn __xstat|__xstat64(version: c_int, path: *const c_char, out: *mut libc::stat) -> c_int = |real| {
        stat_at!(CWD, path, 0, out, real(version, path, out))
    }
    fn __lxstat|__lxstat64(version: c_int, path: *const c_char, out: *mut libc::stat) -> c_int = |real| {
        stat_at!(CWD, path, libc::AT_SYMLINK_NOFOLLOW, out, real(version, path, out))
    }
    fn __fxstatat|__fxstatat64(version: c_int, folder: c_int, path: *const c_char, out: *mut libc::stat, flags: c_int) -> c_int = |real| {
        stat_at!(folder, path, flags, out, real(version, folder, path, out, flags))
    }
    fn __fxstat|__fxstat64(version: c_int, fd: c_int, out: *mut libc::stat) -> c_int = |real| {
        if is_ours(fd) && world().is_some() { enter(|| fill_open(fd, out)) } else { real(version, fd, out) }
    }
    fn statx(folder: c_int, path: *const c_char, flags: c_int, mask: c_uint, out: *mut libc::statx) -> c_int = |real| {
        // The C library accepts a null path for the folder itself.
        if is_ours(folder) && world().is_some() && (path.is_null() || flags & libc::AT_EMPTY_PATH != 0 && is_empty(path)) {
            return enter(|| fill_x(&of_open(folder)?, out));
        }
        match locate(folder, path) {
            None => real(folder, path, flags, mask, out),
            Some((_, Located::Untouched)) => real(folder, path, flags, mask, out),
            Some((_, Located::Elsewhere(path))) => real(folder, path.as_ptr(), flags, mask, out),
            Some((_, Located::Nowhere(fail))) => enter(|| Err(fail)),
            Some((world, Located::Ours(place))) => enter(|| fill_x(&of_name(world, &place, flags)?, out)),
        }
    }
    fn access(path: *const c_char, mode: c_int) -> c_int = |real| {
        by_path!(CWD, path, real(path, mode), |world, place| may(world, &place, mode, 0))
    }
    fn euidaccess|eaccess(path: *const c_char, mode: c_int) -> c_int = |real| {
        by_path!(CWD, path, real(path, mode), |world, place| may(world, &place, mode, libc::AT_EACCESS))
    }
    fn faccessat(folder: c_int, path: *const c_char, mode: c_int, flags: c_int) -> c_int = |real| {
        by_path!(folder, path, real(folder, path, mode, flags), |world, place| may(world, &place, mode, flags))
    }
    fn statvfs|statvfs64(path: *const c_char, out: *mut libc::statvfs) -> c_int = |real| {
        by_path!(CWD, path, real(path, out), |world, place| room(world, &place, out))
    }
    fn fstatvfs|fstatvfs64(fd: c_int, out: *mut libc::statvfs) -> c_int = |real| {
        match world().filter(|_| is_ours(fd)) {
            Some(world) => enter(|| room(world, &need(fd)?.place(), out)),
            None => real(fd, out),
        }
    }
    fn statfs|statfs64(path: *const c_char, out: *mut libc::statfs) -> c_int = |real| {
        by_path!(CWD, path, real(path, out), |world, place| room_fs(world, &place, out))
    }
    fn fstatfs|fstatfs64(fd: c_int, out: *mut libc::statfs) -> c_int = |real| {
        match world().filter(|_| is_ours(fd)) {
            Some(world) => enter(|| room_fs(world, &need(fd)?.place(), out)),
            None => real(fd, out),
        }
    }
    fn pathconf(path: *const c_char, name: c_int) -> c_long = |real| {
        match locate(CWD, path) {
            None => real(path, name),
            Some((_, Located::Elsewhere(path))) => real(path.as_ptr(), name),
            // The limits of names and paths are those of the system.
            Some(_) => real(c"/".as_ptr(), name),
        }
    }
}

unsafe fn is_empty(path: *const c_char) -> bool {
    // SAFETY: a text.
    !path.is_null() && unsafe { *path } == 0
}

/// Status of a file: from the system for an underlying file, else from the layout's attributes.
pub struct StatResult {
    stat: libc::stat,
}

fn of_open(fd: c_int) -> Outcome<StatResult> {
    let open = need(fd)?;
    let world = crate::world::current_world().ok_or(Fail(libc::EBADF))?;
    match open.is_folder() {
        true => of_name(world, &open.place(), 0),
        false => known(world, open.mount, &open.attributes()?),
    }
}

unsafe fn fill_open(fd: c_int, out: *mut libc::stat) -> Outcome<c_int> {
    // SAFETY: the argument of the call.
    unsafe { put(out, of_open(fd)?.stat) }
}

unsafe fn fill_named(world: &World, place: &Place, flags: c_int, out: *mut libc::stat) -> Outcome<c_int> {
    // SAFETY: the argument of the call.
    unsafe { put(out, of_name(world, place, flags)?.stat) }
}

unsafe fn put<T>(out: *mut T, value: T) -> Outcome<c_int> {
    if out.is_null() {
        return Err(Errno::FAULT.into());
    }
    // SAFETY: the caller's promise.
    unsafe { *out = value };
    Ok(0)
}

/// Status of a name; links are followed unless the flags forbid it.
pub fn of_name(world: &World, place: &Place, flags: c_int) -> Outcome<StatResult> {
    match world.follow(place, |place| of_name_here(world, place, flags))? {
        Followed::Here(known) => Ok(known),
        Followed::Outside(path) => {
            let stat = rustix::fs::statat(rustix::fs::CWD, &*path, AtFlags::from_bits_retain(flags as u32))?;
            Ok(StatResult { stat: of_system(&stat) })
        }
    }
}

fn of_name_here(world: &World, place: &Place, flags: c_int) -> Outcome<StatResult> {
    let layout = place.layout(world)?;
    let follow = flags & libc::AT_SYMLINK_NOFOLLOW == 0;
    if !follow {
        // The underlying file may be the target of the link.
        let about = about::attributes(&**layout, &place.name)?;
        if about.kind == Kind::Link {
            return known(world, place.mount, &about);
        }
    }
    if let Some(plain) = world.plain(place)? {
        let flags = if follow { AtFlags::empty() } else { AtFlags::SYMLINK_NOFOLLOW };
        let mut stat = of_system(&rustix::fs::statat(rustix::fs::CWD, plain, flags)?);
        if stat.st_mode & libc::S_IFMT == libc::S_IFDIR {
            // Several stores have the folder; the layout decides whose attributes apply.
            if let Ok(about) = about::attributes(&**layout, &place.name) {
                (stat.st_mode, stat.st_uid, stat.st_gid) = (libc::S_IFDIR | about.mode, about.uid, about.gid);
            }
        }
        return Ok(StatResult { stat });
    }
    let about = match follow {
        true => about::followed(&**layout, &place.name)?.1,
        false => about::attributes(&**layout, &place.name)?,
    };
    known(world, place.mount, &about)
}

/// Converts the system's structure to the C library's: the same bytes.
fn of_system(stat: &rustix::fs::Stat) -> libc::stat {
    // SAFETY: numbers only; zeros are values of all.
    let mut out: libc::stat = unsafe { std::mem::zeroed() };
    out.st_dev = stat.st_dev as _;
    out.st_ino = stat.st_ino as _;
    out.st_nlink = stat.st_nlink as _;
    out.st_mode = stat.st_mode;
    out.st_uid = stat.st_uid;
    out.st_gid = stat.st_gid;
    out.st_rdev = stat.st_rdev as _;
    out.st_size = stat.st_size as _;
    out.st_blksize = stat.st_blksize as _;
    out.st_blocks = stat.st_blocks as _;
    (out.st_atime, out.st_atime_nsec) = (stat.st_atime as _, stat.st_atime_nsec as _);
    (out.st_mtime, out.st_mtime_nsec) = (stat.st_mtime as _, stat.st_mtime_nsec as _);
    (out.st_ctime, out.st_ctime_nsec) = (stat.st_ctime as _, stat.st_ctime_nsec as _);
    out
}

fn known(world: &World, mount: usize, about: &Attributes) -> Outcome<StatResult> {
    // SAFETY: as above.
    let mut out: libc::stat = unsafe { std::mem::zeroed() };
    let kind = match about.kind {
        Kind::File => libc::S_IFREG,
        Kind::Folder => libc::S_IFDIR,
        Kind::Link => libc::S_IFLNK,
    };
    out.st_dev = world.mounts[mount].device;
    out.st_ino = about.identity.max(1);
    out.st_mode = kind | about.mode & 0o7777;
    // A folder with one link does not count its subfolders; `find` supports that.
    out.st_nlink = about.links as _;
    (out.st_uid, out.st_gid) = (about.uid, about.gid);
    out.st_size = i64::try_from(about.length).map_err(|_| Errno::OVERFLOW)?;
    out.st_blksize = BLOCK as _;
    out.st_blocks = about.length.div_ceil(512) as _;
    (out.st_atime, out.st_atime_nsec) = since_1970(about.atime);
    (out.st_mtime, out.st_mtime_nsec) = since_1970(about.mtime);
    (out.st_ctime, out.st_ctime_nsec) = since_1970(about.ctime);
    Ok(StatResult { stat: out })
}

fn since_1970(time: SystemTime) -> (i64, i64) {
    match time.duration_since(SystemTime::UNIX_EPOCH) {
        Ok(after) => (after.as_secs() as i64, i64::from(after.subsec_nanos())),
        Err(before) => match (before.duration().as_secs() as i64, i64::from(before.duration().subsec_nanos())) {
            (seconds, 0) => (-seconds, 0),
            (seconds, rest) => (-seconds - 1, 1_000_000_000 - rest),
        },
    }
}

unsafe fn fill_x(known: &StatResult, out: *mut libc::statx) -> Outcome<c_int> {
    let stat = &known.stat;
    // SAFETY: numbers only.
    let mut x: libc::statx = unsafe { std::mem::zeroed() };
    x.stx_mask = libc::STATX_BASIC_STATS;
    x.stx_blksize = stat.st_blksize as _;
    x.stx_nlink = stat.st_nlink as _;
    (x.stx_uid, x.stx_gid, x.stx_mode) = (stat.st_uid, stat.st_gid, stat.st_mode as _);
    (x.stx_ino, x.stx_size, x.stx_blocks) = (stat.st_ino, stat.st_size as _, stat.st_blocks as _);
    (x.stx_atime.tv_sec, x.stx_atime.tv_nsec) = (stat.st_atime, stat.st_atime_nsec as u32);
    (x.stx_mtime.tv_sec, x.stx_mtime.tv_nsec) = (stat.st_mtime, stat.st_mtime_nsec as u32);
    (x.stx_ctime.tv_sec, x.stx_ctime.tv_nsec) = (stat.st_ctime, stat.st_ctime_nsec as u32);
    (x.stx_dev_major, x.stx_dev_minor) = (libc::major(stat.st_dev), libc::minor(stat.st_dev));
    // SAFETY: the argument of the call.
    unsafe { put(out, x) }
}

/// `access`: decided by the mode bits, as on a filesystem.
fn may(world: &World, place: &Place, mode: c_int, flags: c_int) -> Outcome<c_int> {
    let known = of_name(world, place, flags & libc::AT_SYMLINK_NOFOLLOW)?;
    let effective = flags & libc::AT_EACCESS != 0;
    let (uid, gid) = match effective {
        true => (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw()),
        false => (rustix::process::getuid().as_raw(), rustix::process::getgid().as_raw()),
    };
    let bits = known.stat.st_mode;
    let folder = bits & libc::S_IFMT == libc::S_IFDIR;
    let wanted = (mode & 7) as u32;
    let groups = || rustix::process::getgroups().unwrap_or_default();
    let allowed = match () {
        // Root may do everything except execute files without any execute bit.
        () if uid == 0 => 6 | u32::from(folder || bits & 0o111 != 0),
        () if uid == known.stat.st_uid => bits >> 6 & 7,
        () if gid == known.stat.st_gid || groups().iter().any(|g| g.as_raw() == known.stat.st_gid) => bits >> 3 & 7,
        () => bits & 7,
    };
    if wanted & !allowed == 0 { Ok(0) } else { Err(Errno::ACCESS.into()) }
}

unsafe fn room(world: &World, place: &Place, out: *mut libc::statvfs) -> Outcome<c_int> {
    let space = place.layout(world)?.space(&place.name).unwrap_or(UNKNOWN);
    // SAFETY: numbers only.
    let mut room: libc::statvfs = unsafe { std::mem::zeroed() };
    (room.f_bsize, room.f_frsize, room.f_namemax) = (BLOCK as _, 4096, 255);
    (room.f_blocks, room.f_bfree, room.f_bavail) = (space.bytes / 4096, space.free / 4096, space.available / 4096);
    (room.f_files, room.f_ffree, room.f_favail) = (space.objects, space.objects_free, space.objects_free);
    room.f_fsid = world.mounts[place.mount].device as _;
    // SAFETY: the argument of the call.
    unsafe { put(out, room) }
}

unsafe fn room_fs(world: &World, place: &Place, out: *mut libc::statfs) -> Outcome<c_int> {
    let space = place.layout(world)?.space(&place.name).unwrap_or(UNKNOWN);
    // SAFETY: numbers only.
    let mut room: libc::statfs = unsafe { std::mem::zeroed() };
    (room.f_type, room.f_bsize, room.f_frsize, room.f_namelen) = (MAGIC, 4096, 4096, 255);
    (room.f_blocks, room.f_bfree, room.f_bavail) = (space.bytes / 4096, space.free / 4096, space.available / 4096);
    (room.f_files, room.f_ffree) = (space.objects, space.objects_free);
    // SAFETY: the argument of the call.
    unsafe { put(out, room) }
}

/// Filesystem type of `statfs`: "THWG".
const MAGIC: i64 = 0x5448_5747;

/// Free space reported if the layout does not know it: a large value.
const UNKNOWN: thalweg_layout::Space =
    thalweg_layout::Space { bytes: 1 << 60, free: 1 << 60, available: 1 << 60, objects: 0, objects_free: 0 };
