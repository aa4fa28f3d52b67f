//! Attributes of files: the filesystem's own. Symbolic links are not followed.

use super::{Posix, failed, identity, shown};
use crate::{Attributes, Change, Kind, SetXattr, Space};
use rustix::fs::{
    AtFlags, CWD, Gid, Mode, Timespec, Timestamps, UTIME_OMIT, Uid, XattrFlags, chmodat, chownat, fchmod, futimens,
    lgetxattr, llistxattr, lremovexattr, lsetxattr, statvfs, symlink, utimensat,
};
use rustix::io::Errno;
use std::fs::{self, File};
use std::os::unix::fs::{self as fs_unix, MetadataExt};
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use thalweg_types::{Error, ErrorKind, Result};

impl Posix {
    pub(super) fn attributes_of(&self, path: &Path) -> Result<Attributes> {
        let about = fs::symlink_metadata(path).map_err(|e| failed("read attributes", path, e))?;
        Ok(of(&about))
    }

    /// Changes the owner first, as that clears bits of the mode.
    pub(super) fn change(&self, path: &Path, change: &Change) -> Result<()> {
        if change.uid.is_some() || change.gid.is_some() {
            let (uid, gid) = (change.uid.map(Uid::from_raw), change.gid.map(Gid::from_raw));
            chownat(CWD, path, uid, gid, AtFlags::SYMLINK_NOFOLLOW)
                .map_err(|e| failed("change the owner", path, e.into()))?;
        }
        if let Some(mode) = change.mode {
            let link = fs::symlink_metadata(path).map_err(|e| failed("change the mode", path, e))?.is_symlink();
            if link {
                let what = "cannot change the mode of a symbolic link";
                return Err(Error::new(ErrorKind::Unsupported, what).in_object(shown(path)));
            }
            chmodat(CWD, path, Mode::from_raw_mode(mode & 0o7777), AtFlags::empty())
                .map_err(|e| failed("change the mode", path, e.into()))?;
        }
        if change.atime.is_some() || change.mtime.is_some() {
            utimensat(CWD, path, &stamps(change), AtFlags::SYMLINK_NOFOLLOW)
                .map_err(|e| failed("change times", path, e.into()))?;
        }
        Ok(())
    }

    pub(super) fn link(&self, target: &str, path: &Path) -> Result<()> {
        symlink(target, path).map_err(|e| failed("make a symbolic link", path, e.into()))
    }

    pub(super) fn target(&self, path: &Path) -> Result<String> {
        let target = fs::read_link(path).map_err(|e| failed("read a symbolic link", path, e))?;
        target.into_os_string().into_string().map_err(|_| {
            Error::new(ErrorKind::Unsupported, "the target of a symbolic link is not UTF-8").in_object(shown(path))
        })
    }

    pub(super) fn xattr_of(&self, path: &Path, key: &str) -> Result<Option<Vec<u8>>> {
        match growing(|out| lgetxattr(path, key, out)) {
            Ok(value) => Ok(Some(value)),
            Err(Errno::NODATA) => Ok(None),
            Err(e) => Err(failed(&format!("read extended attribute {key}"), path, e.into())),
        }
    }

    pub(super) fn set_xattr_of(&self, path: &Path, key: &str, value: &[u8], how: SetXattr) -> Result<()> {
        let flags = match how {
            SetXattr::Any => XattrFlags::empty(),
            SetXattr::New => XattrFlags::CREATE,
            SetXattr::Existing => XattrFlags::REPLACE,
        };
        lsetxattr(path, key, value, flags).map_err(|e| xattr_failed(&format!("set extended attribute {key}"), path, e))
    }

    pub(super) fn xattrs_of(&self, path: &Path) -> Result<Vec<String>> {
        let bytes =
            growing(|out| llistxattr(path, out)).map_err(|e| failed("list extended attributes", path, e.into()))?;
        let keys = bytes.split(|byte| *byte == 0).filter(|key| !key.is_empty());
        let mut keys: Vec<String> = keys.filter_map(|key| String::from_utf8(key.to_vec()).ok()).collect();
        keys.sort_unstable();
        Ok(keys)
    }

    pub(super) fn remove_xattr_of(&self, path: &Path, key: &str) -> Result<()> {
        lremovexattr(path, key).map_err(|e| xattr_failed(&format!("remove extended attribute {key}"), path, e))
    }

    pub(super) fn space_of(&self, path: &Path) -> Result<Space> {
        let about = statvfs(path).map_err(|e| failed("get the free space of", path, e.into()))?;
        let bytes = |blocks: u64| blocks.saturating_mul(about.f_frsize);
        Ok(Space {
            bytes: bytes(about.f_blocks),
            free: bytes(about.f_bfree),
            available: bytes(about.f_bavail),
            objects: about.f_files,
            objects_free: about.f_ffree,
        })
    }
}

/// Translates the system's attributes of a file.
pub(super) fn of(about: &fs::Metadata) -> Attributes {
    let kind = match about.file_type() {
        t if t.is_dir() => Kind::Folder,
        t if t.is_symlink() => Kind::Link,
        _ => Kind::File,
    };
    Attributes {
        kind,
        length: if kind == Kind::Folder { 0 } else { about.len() },
        mode: about.mode() & 0o7777,
        uid: about.uid(),
        gid: about.gid(),
        atime: time(about.atime(), about.atime_nsec()),
        mtime: time(about.mtime(), about.mtime_nsec()),
        ctime: time(about.ctime(), about.ctime_nsec()),
        links: about.nlink(),
        identity: identity(about),
    }
}

/// Like [`Posix::change`], for an open file.
///
/// - `path`: for messages.
pub(super) fn change_open(file: &File, path: &Path, change: &Change) -> Result<()> {
    if change.uid.is_some() || change.gid.is_some() {
        fs_unix::fchown(file, change.uid, change.gid).map_err(|e| failed("change the owner", path, e))?;
    }
    if let Some(mode) = change.mode {
        fchmod(file, Mode::from_raw_mode(mode & 0o7777)).map_err(|e| failed("change the mode", path, e.into()))?;
    }
    if change.atime.is_some() || change.mtime.is_some() {
        futimens(file, &stamps(change)).map_err(|e| failed("change times", path, e.into()))?;
    }
    Ok(())
}

fn stamps(change: &Change) -> Timestamps {
    Timestamps { last_access: stamp(change.atime), last_modification: stamp(change.mtime) }
}

/// Repeats a call with a larger buffer until the answer fits.
fn growing(mut ask: impl FnMut(&mut [u8]) -> rustix::io::Result<usize>) -> rustix::io::Result<Vec<u8>> {
    let mut out = vec![0; 256];
    loop {
        match ask(&mut out) {
            Ok(length) => {
                out.truncate(length);
                return Ok(out);
            }
            // Largest attribute of all filesystems of Linux.
            Err(Errno::RANGE) if out.len() < 16 << 20 => out.resize(out.len() * 8, 0),
            Err(e) => return Err(e),
        }
    }
}

fn xattr_failed(what: &str, path: &Path, cause: Errno) -> Error {
    match cause {
        Errno::NODATA => {
            Error::new(ErrorKind::NotFound, format!("cannot {what}: there is none")).in_object(shown(path))
        }
        _ => failed(what, path, cause.into()),
    }
}

fn time(seconds: i64, nanoseconds: i64) -> SystemTime {
    let nanoseconds = Duration::from_nanos(u64::try_from(nanoseconds).unwrap_or(0));
    let whole = Duration::from_secs(seconds.unsigned_abs());
    let time = if seconds < 0 { UNIX_EPOCH.checked_sub(whole) } else { UNIX_EPOCH.checked_add(whole) };
    time.and_then(|time| time.checked_add(nanoseconds)).unwrap_or(UNIX_EPOCH)
}

fn stamp(time: Option<SystemTime>) -> Timespec {
    let Some(time) = time else { return Timespec { tv_sec: 0, tv_nsec: UTIME_OMIT } };
    match time.duration_since(UNIX_EPOCH) {
        Ok(since) => Timespec {
            tv_sec: i64::try_from(since.as_secs()).unwrap_or(i64::MAX),
            tv_nsec: i64::from(since.subsec_nanos()),
        },
        Err(before) => {
            let before = before.duration();
            let (whole, part) = (before.as_secs(), before.subsec_nanos());
            let seconds = -i64::try_from(whole).unwrap_or(i64::MAX);
            match part {
                0 => Timespec { tv_sec: seconds, tv_nsec: 0 },
                part => Timespec { tv_sec: seconds - 1, tv_nsec: i64::from(1_000_000_000 - part) },
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_before_and_after_1970_go_there_and_back() {
        for (seconds, nanoseconds) in [(0, 0), (5, 1), (-5, 0), (-5, 999_999_999), (1_800_000_000, 123_456_789)] {
            let stamp = stamp(Some(time(seconds, nanoseconds)));
            assert_eq!((stamp.tv_sec, stamp.tv_nsec), (seconds, nanoseconds));
        }
        assert_eq!(stamp(None).tv_nsec, UTIME_OMIT);
    }
}
