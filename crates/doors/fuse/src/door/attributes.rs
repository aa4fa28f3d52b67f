//! Attributes: read from the layout or the cache, changed, and kept for files without a name.

use super::{Caller, Door, Errno, Result, number};
use fuser::{FileAttr, FileType, INodeNo};
use std::os::fd::AsRawFd;
use std::os::unix::fs::MetadataExt;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use thalweg_layout::{Attributes, Change, Kind};
use thalweg_types::ErrorKind;

pub(super) const SUID: u32 = 0o4000;
pub(super) const SGID: u32 = 0o2000;

impl Door {
    pub(super) fn about(&self, path: &str) -> thalweg_types::Result<Attributes> {
        match self.layout.attributes(path) {
            Err(e) if e.kind() == ErrorKind::Unsupported => {}
            other => return other,
        }
        let about = self.layout.stat(path)?;
        let (kind, mode) = if about.is_folder { (Kind::Folder, 0o755) } else { (Kind::File, 0o644) };
        Ok(Attributes {
            kind,
            length: about.length,
            mode,
            uid: self.uid,
            gid: self.gid,
            atime: self.started,
            mtime: self.started,
            ctime: self.started,
            links: 1,
            identity: about.identity,
        })
    }

    /// [`Door::about`] of a known inode, and how long the kernel may cache the attributes. Call with the lock on names held.
    pub(super) fn about_known(&self, ino: u64, path: &str) -> thalweg_types::Result<(Attributes, Duration)> {
        if !self.nodes().is_folder(ino) {
            return Ok((self.about(path)?, self.settings.timeout));
        }
        let now = Instant::now();
        let mut attributes = self.attributes.lock();
        if let Some(known) = attributes.get(ino, now) {
            return Ok(known);
        }
        let asked = attributes.ask(now);
        drop(attributes);
        let about = self.about(path)?;
        Ok((self.attributes.lock().answer(ino, asked, about), self.settings.timeout))
    }

    /// Call after a change to an inode, or inside a folder: cached attributes of a folder become invalid.
    pub(super) fn changed(&self, ino: u64) {
        if self.nodes().is_folder(ino) {
            self.attributes.lock().changed(ino);
        }
    }

    pub(super) fn shown(&self, ino: u64, about: &Attributes) -> FileAttr {
        let kept = self.times.lock().get(&ino).copied().unwrap_or_default();
        FileAttr {
            ino: INodeNo(ino),
            size: about.length,
            blocks: about.length.div_ceil(512),
            atime: kept.atime.unwrap_or(about.atime),
            mtime: kept.mtime.unwrap_or(about.mtime),
            ctime: about.ctime,
            crtime: about.ctime,
            kind: kind(about.kind),
            perm: (about.mode & 0o7777) as u16,
            nlink: u32::try_from(about.links).unwrap_or(u32::MAX),
            uid: about.uid,
            gid: about.gid,
            rdev: 0,
            blksize: if self.plain { 4096 } else { 128 << 10 },
            flags: 0,
        }
    }

    /// Attributes, and how long the kernel may cache them.
    pub fn attributes(&self, ino: u64) -> Result<(FileAttr, Duration)> {
        let _names = self.use_names();
        let path = self.nodes().path(ino);
        let (about, holds) = match path {
            Some(path) => self.about_known(ino, &path).map_err(number)?,
            None => (self.about_nameless(ino)?, self.settings.timeout),
        };
        Ok((self.shown(ino, &about), holds))
    }

    fn about_or_nameless(&self, ino: u64, path: Option<&str>) -> Result<Attributes> {
        match path {
            Some(path) => self.about(path).map_err(number),
            None => self.about_nameless(ino),
        }
    }

    pub(super) fn about_nameless(&self, ino: u64) -> Result<Attributes> {
        let shared = self.shared.lock();
        let (file, handles) =
            shared.get(&ino).map(|shared| (shared.file.clone(), shared.handles.clone())).unwrap_or_default();
        drop(shared);
        let mut about = self.nameless.lock().get(&ino).cloned().ok_or(Errno::ENOENT)?;
        if let Some(now) = file.and_then(|file| file.metadata().ok()) {
            about.length = now.len();
            (about.mode, about.uid, about.gid) = (now.mode() & 0o7777, now.uid(), now.gid());
            (about.atime, about.mtime) = (now.accessed().unwrap_or(about.atime), now.modified().unwrap_or(about.mtime));
            about.ctime = since_1970(now.ctime(), now.ctime_nsec()).unwrap_or(about.ctime);
            about.links = now.nlink();
            return Ok(about);
        }
        for handle in handles.iter().filter_map(|fh| self.handle(*fh).ok()) {
            if let Ok(length) = handle.length() {
                about.length = length;
                break;
            }
        }
        Ok(about)
    }

    /// Changes attributes; `length` through the handle `fh` if given.
    pub fn change(
        &self,
        ino: u64,
        change: Change,
        length: Option<u64>,
        fh: Option<u64>,
        caller: Caller,
    ) -> Result<FileAttr> {
        let _names = self.use_names();
        let path = self.nodes().path(ino);
        if let Some(length) = length {
            self.cut(ino, path.as_deref(), length, fh)?;
            if caller.uid != 0 {
                self.drop_privilege(ino)?;
            }
        }
        if change != Change::default() {
            // A change of owner without a mode clears setuid and setgid.
            let change = match (change.uid.is_some() || change.gid.is_some()) && change.mode.is_none() {
                true => without_privilege(change, &self.about_or_nameless(ino, path.as_deref())?),
                false => change,
            };
            match &path {
                Some(path) => match self.layout.set_attributes(path, &change) {
                    Err(e) if e.kind() == ErrorKind::Unsupported && is_times(&change) => self.keep_times(ino, &change),
                    other => other.map_err(number)?,
                },
                None => self.change_nameless(ino, &change)?,
            }
            self.changed(ino);
        }
        Ok(self.shown(ino, &self.about_or_nameless(ino, path.as_deref())?))
    }

    fn keep_times(&self, ino: u64, change: &Change) {
        let mut all = self.times.lock();
        let kept = all.entry(ino).or_default();
        kept.atime = change.atime.or(kept.atime);
        kept.mtime = change.mtime.or(kept.mtime);
    }

    fn change_nameless(&self, ino: u64, change: &Change) -> Result<()> {
        let file = self.shared.lock().get(&ino).and_then(|shared| shared.file.clone());
        if let Some(file) = file {
            // This name refers to the open file, even if the file's own name is a symbolic link.
            let name = format!("/proc/self/fd/{}", file.as_raw_fd());
            let io = |e: std::io::Error| Errno::from_i32(e.raw_os_error().unwrap_or(Errno::EIO.code()));
            if change.uid.is_some() || change.gid.is_some() {
                std::os::unix::fs::fchown(&*file, change.uid, change.gid).map_err(io)?;
            }
            if let Some(mode) = change.mode {
                let mode = std::os::unix::fs::PermissionsExt::from_mode(mode & 0o7777);
                std::fs::set_permissions(&name, mode).map_err(io)?;
            }
            let mut times = std::fs::FileTimes::new();
            if let Some(atime) = change.atime {
                times = times.set_accessed(atime);
            }
            if let Some(mtime) = change.mtime {
                times = times.set_modified(mtime);
            }
            if change.atime.is_some() || change.mtime.is_some() {
                file.set_times(times).map_err(io)?;
            }
            return Ok(());
        }
        let mut nameless = self.nameless.lock();
        let about = nameless.get_mut(&ino).ok_or(Errno::ENOENT)?;
        about.mode = change.mode.unwrap_or(about.mode);
        about.uid = change.uid.unwrap_or(about.uid);
        about.gid = change.gid.unwrap_or(about.gid);
        about.atime = change.atime.unwrap_or(about.atime);
        about.mtime = change.mtime.unwrap_or(about.mtime);
        about.ctime = now();
        Ok(())
    }

    fn cut(&self, ino: u64, path: Option<&str>, length: u64, fh: Option<u64>) -> Result<()> {
        if let Some(handle) = fh.and_then(|fh| self.handle(fh).ok()).filter(|handle| handle.writes()) {
            return handle.truncate(length).map_err(number);
        }
        if let Some(path) = path {
            return self.layout.truncate(path, length).map_err(number);
        }
        let handles = self.shared.lock().get(&ino).map(|shared| shared.handles.clone()).unwrap_or_default();
        let writes = handles.iter().filter_map(|fh| self.handle(*fh).ok()).find(|handle| handle.writes());
        writes.ok_or(Errno::ESTALE)?.truncate(length).map_err(number)
    }

    /// Clears setuid and setgid after a write by a user without privileges.
    pub(super) fn drop_privilege(&self, ino: u64) -> Result<()> {
        let Some(path) = self.nodes().path(ino) else { return Ok(()) };
        let about = self.about(&path).map_err(number)?;
        let mode = unprivileged(about.mode);
        if about.kind == Kind::File && mode != about.mode {
            let change = Change { mode: Some(mode), ..Change::default() };
            self.layout.set_attributes(&path, &change).map_err(number)?;
        }
        Ok(())
    }
}

pub(super) fn kind(kind: Kind) -> FileType {
    match kind {
        Kind::File => FileType::RegularFile,
        Kind::Folder => FileType::Directory,
        Kind::Link => FileType::Symlink,
    }
}

fn since_1970(seconds: i64, nanoseconds: i64) -> Option<SystemTime> {
    UNIX_EPOCH.checked_add(Duration::new(u64::try_from(seconds).ok()?, u32::try_from(nanoseconds).ok()?))
}

/// The clock of the kernel's file times: later calls never return earlier times.
pub fn now() -> SystemTime {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::RealtimeCoarse);
    since_1970(time.tv_sec, time.tv_nsec).unwrap_or_else(SystemTime::now)
}

/// Whether only times change.
fn is_times(change: &Change) -> bool {
    change.mode.is_none() && change.uid.is_none() && change.gid.is_none()
}

/// The mode without setuid and setgid; setgid without execute permission of the group means mandatory locking and stays.
fn unprivileged(mode: u32) -> u32 {
    let mode = mode & !SUID;
    if mode & 0o010 != 0 { mode & !SGID } else { mode }
}

/// Adds to a change of a file's owner that setuid and setgid are cleared, unless the change sets a mode.
pub(super) fn without_privilege(change: Change, about: &Attributes) -> Change {
    let owner = change.uid.is_some() || change.gid.is_some();
    let mode = unprivileged(about.mode);
    match owner && change.mode.is_none() && about.kind == Kind::File && mode != about.mode {
        true => Change { mode: Some(mode), ..change },
        false => change,
    }
}
