//! What each call of the kernel does, in terms of numbers, names and the layout.
//!
//! A call takes the lock on names for reading while it uses one, and those that take names away for writing: so a call under a
//! name never meets another file there. Reading and writing of open files takes no lock that all share.

use crate::attribute_cache::AttributeCache;
use crate::helpers::Helpers;
use crate::nodes::{Nodes, Number, ROOT, Seen};
use crate::open::Open;
use crate::settings::{Cache, Settings};
use fuser::{Errno, FileAttr, FileType, INodeNo};
use std::collections::HashMap;
use std::ffi::OsStr;
use std::os::fd::AsRawFd;
use std::os::unix::fs::MetadataExt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, MutexGuard, RwLockReadGuard, RwLockWriteGuard};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use thalweg_layout::errno::{self, PosixCall};
use thalweg_layout::{Attributes, Change, Kind, Layout, SetXattr, Space, WriterId};
use thalweg_types::mutex::{Mutex, RwLock};
use thalweg_types::{Error, ErrorKind};

mod files;
mod list;
mod locks;
mod make;
#[cfg(test)]
mod rename_ahead;

use files::Shared;
use list::Listed;
pub use locks::LockRequest;
use locks::Locks;

pub type Result<T> = std::result::Result<T, Errno>;

/// The extended attribute of the root that tells the number of the process that serves it; shown to nobody who does not ask.
pub const PROCESS: &str = "user.thalweg.process";

/// The extended attribute of the root that tells of the errors since the mount: their number, the time of the last in seconds since
/// 1970, the file that they are written to, the last; a line each.
pub const ERRORS: &str = "user.thalweg.errors";

const O_EXCL: i32 = rustix::fs::OFlags::EXCL.bits() as i32;
const O_TRUNC: i32 = rustix::fs::OFlags::TRUNC.bits() as i32;
const O_SYNC: i32 = rustix::fs::OFlags::DSYNC.bits() as i32;
const SUID: u32 = 0o4000;
const SGID: u32 = 0o2000;

/// Who asks.
#[derive(Debug, Clone, Copy)]
pub struct Asker {
    pub uid: u32,
    pub gid: u32,
}

/// A name that was found or made.
pub struct Entry {
    pub attributes: FileAttr,
    pub generation: u64,
}

/// A mount, as the kernel sees it.
pub struct Door {
    layout: Arc<dyn Layout>,
    pub settings: Settings,
    /// Files are files of this machine.
    plain: bool,
    /// All handles are one writer's: layouts keep the order of its calls.
    writer: WriterId,
    nodes: Mutex<Nodes>,
    names: RwLock<()>,
    next: AtomicU64,
    handles: RwLock<HashMap<u64, Arc<Open>>>,
    folders: Mutex<HashMap<u64, Listed>>,
    helpers: Helpers,
    held: Mutex<AttributeCache>,
    shared: Mutex<HashMap<u64, Shared>>,
    /// Attributes of what has no name any more.
    nameless: Mutex<HashMap<u64, Attributes>>,
    /// Times that programs or the kernel set where the layout keeps none; as long as the kernel knows the file.
    times: Mutex<HashMap<u64, Change>>,
    pub passthrough: AtomicBool,
    /// The kernel drops its pages of what is written past them.
    pub drops_what_is_written: AtomicBool,
    locks: Locks,
    /// The first failure to let others see what programs wrote that no program was told of.
    unpublished: Mutex<Option<Error>>,
    started: SystemTime,
    uid: u32,
    gid: u32,
}

fn number(error: Error) -> Errno {
    crate::errors::note(&error);
    Errno::from_i32(errno::of(&error))
}

fn number_of(call: PosixCall) -> impl Fn(Error) -> Errno {
    move |error| {
        crate::errors::note(&error);
        Errno::from_i32(errno::of_call(call, &error))
    }
}

/// Bytes of the longest name, whatever lies below.
const LONGEST_NAME: usize = 255;

fn text(name: &OsStr) -> Result<&str> {
    match name.len() > LONGEST_NAME {
        true => Err(Errno::ENAMETOOLONG),
        false => name.to_str().ok_or(Errno::EILSEQ),
    }
}

/// Names that are looked for and are no text are not there.
fn sought(name: &OsStr) -> Result<&str> {
    text(name).map_err(|e| if e == Errno::EILSEQ { Errno::ENOENT } else { e })
}

impl Door {
    pub fn new(layout: Arc<dyn Layout>, settings: Settings) -> Door {
        let plain = layout.plain_file("").is_some();
        let lease = if plain { Duration::ZERO } else { settings.timeout };
        Door {
            held: Mutex::new(AttributeCache::new(lease)),
            plain,
            writer: thalweg_open_file::writer(),
            passthrough: AtomicBool::new(false),
            drops_what_is_written: AtomicBool::new(false),
            locks: Locks::default(),
            unpublished: Mutex::default(),
            settings,
            layout,
            nodes: Mutex::default(),
            names: RwLock::new(()),
            next: AtomicU64::new(1),
            handles: RwLock::default(),
            folders: Mutex::default(),
            helpers: Helpers::default(),
            shared: Mutex::default(),
            nameless: Mutex::default(),
            times: Mutex::default(),
            started: SystemTime::now(),
            uid: rustix::process::geteuid().as_raw(),
            gid: rustix::process::getegid().as_raw(),
        }
    }

    pub fn is_plain(&self) -> bool {
        self.plain
    }

    fn use_names(&self) -> RwLockReadGuard<'_, ()> {
        self.names.read()
    }

    fn change_names(&self) -> RwLockWriteGuard<'_, ()> {
        self.names.write()
    }

    fn nodes(&self) -> MutexGuard<'_, Nodes> {
        self.nodes.lock()
    }

    fn path(&self, ino: u64) -> Result<String> {
        self.nodes().path(ino).ok_or(Errno::ENOENT)
    }

    fn below(&self, folder: u64, name: &str) -> Result<String> {
        self.nodes().below(folder, name).ok_or(Errno::ENOENT)
    }

    fn about(&self, path: &str) -> thalweg_types::Result<Attributes> {
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

    /// As [`Door::about`], of what has a number; and how long it holds. With the lock on names held.
    fn about_known(&self, ino: u64, path: &str) -> thalweg_types::Result<(Attributes, Duration)> {
        if !self.nodes().is_folder(ino) {
            return Ok((self.about(path)?, self.settings.timeout));
        }
        let now = Instant::now();
        let mut held = self.held.lock();
        if let Some(known) = held.get(ino, now) {
            return Ok(known);
        }
        let asked = held.ask(now);
        drop(held);
        let about = self.about(path)?;
        Ok((self.held.lock().answer(ino, asked, about), self.settings.timeout))
    }

    /// Something was done to what has this number, or in it, that may change its attributes as a folder.
    fn changed(&self, ino: u64) {
        if self.nodes().is_folder(ino) {
            self.held.lock().changed(ino);
        }
    }

    fn entry(&self, folder: u64, name: &str, about: &Attributes) -> Entry {
        let seen = Seen { identity: about.identity, kind: about.kind, links: about.links };
        let Number { ino, generation } = self.nodes().found(folder, name, seen);
        Entry { attributes: self.shown(ino, about), generation }
    }

    fn shown(&self, ino: u64, about: &Attributes) -> FileAttr {
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

    pub fn lookup(&self, folder: u64, name: &OsStr) -> Result<Entry> {
        let name = sought(name)?;
        let _names = self.use_names();
        let asked = self.held.lock().ask(Instant::now());
        let about = self.about(&self.below(folder, name)?).map_err(number)?;
        Ok(self.found(folder, name, asked, about))
    }

    /// A name that was looked at, which the kernel now knows once more.
    fn found(
        &self,
        folder: u64,
        name: &str,
        asked: crate::attribute_cache::AttributeRequest,
        about: Attributes,
    ) -> Entry {
        let mut entry = self.entry(folder, name, &about);
        if about.kind == Kind::Folder {
            let ino = entry.attributes.ino.0;
            let about = self.held.lock().answer(ino, asked, about);
            entry.attributes = self.shown(ino, &about);
        }
        entry
    }

    pub fn forget(&self, ino: u64, times: u64) {
        let mut nodes = self.nodes();
        nodes.forget(ino, times);
        let gone = !nodes.knows(ino);
        drop(nodes);
        if gone {
            self.nameless.lock().remove(&ino);
            self.times.lock().remove(&ino);
            self.held.lock().forget(ino);
        }
    }

    /// Attributes, and how long they hold.
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

    fn about_nameless(&self, ino: u64) -> Result<Attributes> {
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

    /// Changes attributes; `length` through a handle where there is one.
    pub fn change(
        &self,
        ino: u64,
        change: Change,
        length: Option<u64>,
        fh: Option<u64>,
        asker: Asker,
    ) -> Result<FileAttr> {
        let _names = self.use_names();
        let path = self.nodes().path(ino);
        if let Some(length) = length {
            self.cut(ino, path.as_deref(), length, fh)?;
            if asker.uid != 0 {
                self.drop_privilege(ino)?;
            }
        }
        if change != Change::default() {
            // A change of owner alone takes bits of the mode.
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
            // Its name in the system that leads to the file, not to a link.
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

    /// A file that was written by who must not keep its special bits loses them.
    fn drop_privilege(&self, ino: u64) -> Result<()> {
        let Some(path) = self.nodes().path(ino) else { return Ok(()) };
        let about = self.about(&path).map_err(number)?;
        let mode = unprivileged(about.mode);
        if about.kind == Kind::File && mode != about.mode {
            let change = Change { mode: Some(mode), ..Change::default() };
            self.layout.set_attributes(&path, &change).map_err(number)?;
        }
        Ok(())
    }

    pub fn read_link(&self, ino: u64) -> Result<String> {
        let _names = self.use_names();
        self.layout.read_link(&self.path(ino)?).map_err(number_of(PosixCall::ReadLink))
    }

    /// What may be asked of a file later that loses this name.
    fn before_loss(&self, folder: u64, name: &str, path: &str) -> Option<(u64, Attributes)> {
        let ino = self.nodes().child(folder, name)?;
        // Of a file that nobody has open, nothing will be asked: nor is the store.
        let asked_later = self.nodes().is_folder(ino) || self.shared.lock().contains_key(&ino);
        let about = asked_later.then(|| self.about(path).ok()).flatten()?;
        Some((ino, Attributes { links: about.links.saturating_sub(1), ctime: now(), ..about }))
    }

    fn keep(&self, lost: Option<(u64, Attributes)>) {
        if let Some((ino, mut about)) = lost
            && self.nodes().path(ino).is_none()
        {
            if about.kind == Kind::Folder {
                about.links = 0;
            }
            self.nameless.lock().insert(ino, about);
        }
    }

    pub fn remove(&self, folder: u64, name: &OsStr) -> Result<()> {
        let name = sought(name)?;
        let _names = self.change_names();
        let path = self.below(folder, name)?;
        let lost = self.before_loss(folder, name, &path);
        self.layout.remove(&path).map_err(number)?;
        let mut nodes = self.nodes();
        let was = nodes.child(folder, name);
        let was_file = was.is_some_and(|ino| !nodes.is_folder(ino));
        nodes.removed(folder, name);
        drop(nodes);
        match was_file {
            true => self.held.lock().touched(folder, now()),
            false => self.changed(folder),
        }
        self.keep(lost);
        Ok(())
    }

    pub fn rename(&self, folder: u64, name: &OsStr, to_folder: u64, to: &OsStr, replace: bool) -> Result<()> {
        let (name, to) = (sought(name)?, text(to)?);
        // Bytes that have to be copied are, before other names wait. Whatever goes wrong is told by the rename itself.
        if let (Ok(from), Ok(new)) = (self.below(folder, name), self.below(to_folder, to)) {
            let _ = self.layout.prepare_rename(&from, &new);
        }
        let _names = self.change_names();
        let (from, new) = (self.below(folder, name)?, self.below(to_folder, to)?);
        if !replace && self.about(&new).is_ok() {
            return Err(Errno::EEXIST);
        }
        let lost = self.before_loss(to_folder, to, &new).filter(|_| from != new);
        self.layout.rename(&from, &new).map_err(number_of(PosixCall::Rename))?;
        self.nodes().renamed(folder, name, to_folder, to);
        self.changed(folder);
        self.changed(to_folder);
        self.keep(lost);
        if let Ok(about) = self.about(&new) {
            let mut nodes = self.nodes();
            let moved = nodes.child(to_folder, to);
            if let Some(ino) = moved {
                nodes.is_now(ino, about.identity);
            }
            drop(nodes);
            moved.into_iter().for_each(|ino| self.changed(ino));
        }
        Ok(())
    }

    pub fn folder_of(&self, ino: u64) -> u64 {
        self.nodes().folder_of(ino)
    }

    pub fn sync_folder(&self, ino: u64) -> Result<()> {
        let _names = self.use_names();
        self.layout.sync_folder(&self.path(ino)?).map_err(number)
    }

    pub fn space(&self, ino: u64) -> Option<Space> {
        let _names = self.use_names();
        self.layout.space(&self.path(ino).ok()?).ok()
    }

    pub fn xattr(&self, ino: u64, key: &OsStr) -> Result<Vec<u8>> {
        let key = sought(key).map_err(|_| Errno::ENODATA)?;
        if ino == ROOT && key == PROCESS {
            return Ok(std::process::id().to_string().into_bytes());
        }
        if ino == ROOT && key == ERRORS {
            return Ok(crate::errors::so_far().to_string().into_bytes());
        }
        not_of_the_system(key)?;
        let _names = self.use_names();
        let path = self.path(ino).map_err(|_| Errno::ENODATA)?;
        self.layout.xattr_get(&path, key).map_err(number)?.ok_or(Errno::ENODATA)
    }

    pub fn set_xattr(&self, ino: u64, key: &OsStr, value: &[u8], how: SetXattr) -> Result<()> {
        let key = text(key)?;
        not_of_the_system(key)?;
        let _names = self.use_names();
        let path = self.path(ino)?;
        self.layout.xattr_set(&path, key, value, how).map_err(xattr_number)?;
        self.changed(ino);
        Ok(())
    }

    pub fn xattrs(&self, ino: u64) -> Result<Vec<u8>> {
        let _names = self.use_names();
        let Ok(path) = self.path(ino) else { return Ok(Vec::new()) };
        match self.layout.xattr_list(&path) {
            Ok(keys) => {
                let keys = keys.iter().filter(|key| not_of_the_system(key).is_ok());
                Ok(keys.flat_map(|key| key.bytes().chain([0])).collect())
            }
            Err(e) if e.kind() == ErrorKind::Unsupported => Ok(Vec::new()),
            Err(e) => Err(number(e)),
        }
    }

    pub fn remove_xattr(&self, ino: u64, key: &OsStr) -> Result<()> {
        let key = text(key)?;
        not_of_the_system(key)?;
        let _names = self.use_names();
        self.layout.xattr_remove(&self.path(ino)?, key).map_err(xattr_number)?;
        self.changed(ino);
        Ok(())
    }

    pub fn timeout(&self) -> Duration {
        self.settings.timeout
    }

    /// What the kernel is told of a handle.
    pub fn flags(&self, ino: u64, writing: bool) -> fuser::FopenFlags {
        use fuser::FopenFlags as F;
        let mut flags = F::empty();
        // Nothing is to be done at a close, not even to give up locks: those of a handle that reads end with it.
        let only_ends = match writing {
            true => self.plain && !self.settings.locks,
            false => !self.settings.locks || !self.locks.any(ino),
        };
        if self.settings.cache == Cache::Writeback {
            flags |= F::FOPEN_KEEP_CACHE;
        } else if only_ends {
            flags |= F::FOPEN_NOFLUSH;
        }
        flags
    }

    /// What the kernel is told besides of a handle of a file that it does not read and write itself.
    ///
    /// Who only writes gains nothing by the kernel's pages: bytes that go past them are copied once less, and the kernel does not ask
    /// for an attribute before the first write. It drops what it keeps of these bytes for others. Files of this machine are
    /// passed through as a rule, and all handles of a file must be alike.
    ///
    /// - `flags`: of the open.
    pub fn way(&self, flags: i32) -> fuser::FopenFlags {
        let only_writes = fuser::OpenFlags(flags).acc_mode() == fuser::OpenAccMode::O_WRONLY;
        let straight = only_writes && !self.plain && self.settings.cache == Cache::Through;
        match straight && self.drops_what_is_written.load(Ordering::Relaxed) {
            true => fuser::FopenFlags::FOPEN_DIRECT_IO,
            false => fuser::FopenFlags::empty(),
        }
    }
}

/// Attributes of the system are lists of who may do what: the kernel, which decides by modes here, would not look at them.
fn not_of_the_system(key: &str) -> Result<()> {
    let known = ["user.", "trusted.", "security."].iter().any(|space| key.starts_with(space));
    if known { Ok(()) } else { Err(Errno::EOPNOTSUPP) }
}

/// The file is there: what is not found is the attribute.
fn xattr_number(error: Error) -> Errno {
    match number(error) {
        Errno::ENOENT => Errno::ENODATA,
        other => other,
    }
}

fn kind(kind: Kind) -> FileType {
    match kind {
        Kind::File => FileType::RegularFile,
        Kind::Folder => FileType::Directory,
        Kind::Link => FileType::Symlink,
    }
}

fn since_1970(seconds: i64, nanoseconds: i64) -> Option<SystemTime> {
    UNIX_EPOCH.checked_add(Duration::new(u64::try_from(seconds).ok()?, u32::try_from(nanoseconds).ok()?))
}

/// As the kernel stamps files: later calls never have earlier times.
pub fn now() -> SystemTime {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::RealtimeCoarse);
    since_1970(time.tv_sec, time.tv_nsec).unwrap_or_else(SystemTime::now)
}

/// Whether times alone are to be changed.
fn is_times(change: &Change) -> bool {
    change.mode.is_none() && change.uid.is_none() && change.gid.is_none()
}

/// A mode without what a program's owner lends it; a group that may not execute has SGID for another purpose.
fn unprivileged(mode: u32) -> u32 {
    let mode = mode & !SUID;
    if mode & 0o010 != 0 { mode & !SGID } else { mode }
}

/// A change of owner takes the special bits of a file, unless the mode is set at once.
fn without_privilege(change: Change, about: &Attributes) -> Change {
    let owner = change.uid.is_some() || change.gid.is_some();
    let mode = unprivileged(about.mode);
    match owner && change.mode.is_none() && about.kind == Kind::File && mode != about.mode {
        true => Change { mode: Some(mode), ..change },
        false => change,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ffi::OsString;
    use thalweg_layout::{Direct, SmallFile};
    use thalweg_store::wrap::Counting;
    use thalweg_store::wrap::counting::Counts;
    use thalweg_store::{Memory, Posix, Store};

    const ASKER: Asker = Asker { uid: 0, gid: 0 };

    /// What the kernel asks for one `open(O_CREAT)`, write and `close`; after each, it asks for the folder again.
    fn make(door: &Door, folder: u64, name: &str) -> Entry {
        let name = OsString::from(name);
        door.attributes(folder).unwrap();
        assert_eq!(door.lookup(folder, &name).err(), Some(Errno::ENOENT));
        let (entry, fh) = door.create(folder, &name, 0o644, 0, ASKER).unwrap();
        door.write(fh, 0, &[7; 1000], 0, false).unwrap();
        door.flush(fh, 0).unwrap();
        door.release(fh).unwrap();
        entry
    }

    fn door(store: Arc<dyn Store>, timeout: Duration) -> (Door, u64) {
        let layout: Arc<dyn Layout> = Arc::new(SmallFile::new(store, Default::default()).unwrap());
        let door = Door::new(layout.clone(), Settings { timeout, ..Settings::of(&*layout, true) });
        let folder = door.make_folder(ROOT, "d".as_ref(), 0o755, ASKER).unwrap().attributes.ino.0;
        (door, folder)
    }

    #[test]
    fn files_made_and_removed_one_after_the_other_are_no_operations_on_names() {
        let below = tempfile::tempdir().unwrap();
        let counting = Arc::new(Counting::new(Arc::new(Posix::at(below.path()).unwrap())));
        let (door, folder) = door(counting.clone(), Duration::from_secs(3600));
        make(&door, folder, "first");
        counting.take();
        for number in 0..300 {
            make(&door, folder, &format!("file.{number}"));
        }
        few_names(&counting.take().total());
        assert_eq!(door.layout.list("d").unwrap().len(), 301);
        counting.take();
        for number in 0..300 {
            let name = OsString::from(format!("file.{number}"));
            door.attributes(folder).unwrap();
            let ino = door.lookup(folder, &name).unwrap().attributes.ino.0;
            door.remove(folder, &name).unwrap();
            door.forget(ino, 2);
        }
        few_names(&counting.take().total());
        assert_eq!(door.layout.list("d").unwrap().len(), 1);
    }

    fn few_names(total: &Counts) {
        let on_names = total.opens_for_writing
            + total.opens_for_reading
            + total.stats
            + total.lists
            + total.renames
            + total.removes
            + total.folders_made
            + total.folder_syncs
            + total.attributes
            + total.failed;
        assert!(on_names <= 10, "{on_names} for 300 files: {total:?}");
    }

    #[test]
    fn a_folder_that_is_opened_is_listed_once_and_again_when_a_program_begins_again() {
        let counting = Arc::new(Counting::new(Arc::new(Memory::new())));
        let layout: Arc<dyn Layout> = Arc::new(Direct::new(counting.clone()).unwrap());
        let door = Door::new(layout.clone(), Settings::of(&*layout, true));
        make(&door, ROOT, "one");
        counting.take();
        let fh = door.open_folder(ROOT).unwrap();
        assert_eq!(door.names(ROOT, fh, true).unwrap().len(), 1);
        assert_eq!(door.names(ROOT, fh, false).unwrap().len(), 1);
        assert_eq!(counting.take().total().lists, 1);
        make(&door, ROOT, "two");
        assert_eq!(door.names(ROOT, fh, false).unwrap().len(), 1, "it goes on with what it has");
        assert_eq!(door.names(ROOT, fh, true).unwrap().len(), 2, "rewound");
        door.release_folder(fh);
        assert_eq!(door.names(ROOT, fh, true).err(), Some(Errno::EBADF));
    }

    #[test]
    fn who_only_reads_is_not_waited_for_at_a_close_and_who_only_writes_goes_past_the_kernels_pages() {
        use fuser::FopenFlags as F;
        let below = tempfile::tempdir().unwrap();
        let (read, write, both) = (0, 1, 2);
        let (packed, _) = door(Arc::new(Posix::at(below.path()).unwrap()), Duration::from_secs(1));
        assert_eq!(packed.flags(7, false), F::FOPEN_NOFLUSH);
        assert_eq!(packed.flags(7, true), F::empty(), "what was written is published");
        assert_eq!(packed.way(write), F::empty(), "this kernel would keep old bytes");
        packed.drops_what_is_written.store(true, Ordering::Relaxed);
        assert_eq!([read, write, both].map(|how| packed.way(how)), [F::empty(), F::FOPEN_DIRECT_IO, F::empty()]);
        let layout: Arc<dyn Layout> = Arc::new(Direct::new(Arc::new(Posix::at(below.path()).unwrap())).unwrap());
        let plain = Door::new(layout.clone(), Settings::of(&*layout, true));
        plain.drops_what_is_written.store(true, Ordering::Relaxed);
        assert_eq!(
            (plain.flags(7, false), plain.flags(7, true)),
            (F::FOPEN_NOFLUSH, F::empty()),
            "locks end at closes"
        );
        assert_eq!(plain.way(write), F::empty(), "all handles of a file are alike");
    }

    #[test]
    fn attributes_of_a_folder_follow_what_is_done_to_it_here_at_once_and_what_others_do_in_time() {
        let below = tempfile::tempdir().unwrap();
        let store: Arc<dyn Store> = Arc::new(Counting::new(Arc::new(Posix::at(below.path()).unwrap())));
        let (door, folder) = door(store.clone(), Duration::from_millis(300));
        let now = |door: &Door| door.attributes(folder).unwrap().0;
        let before = now(&door);
        std::thread::sleep(Duration::from_millis(30));
        make(&door, folder, "f");
        let after = now(&door);
        assert!(after.mtime > before.mtime && after.ctime > before.ctime, "a file was made");
        let mode = |mode| Change { mode: Some(mode), ..Change::default() };
        assert_eq!(door.change(folder, mode(0o700), None, None, ASKER).unwrap().perm, 0o700);
        assert_eq!(now(&door).perm, 0o700);
        door.make_folder(folder, "deep".as_ref(), 0o755, ASKER).unwrap();
        assert_eq!(now(&door).nlink, store.attributes("d").unwrap().links as u32);
        let group = door.change(folder, Change { gid: Some(7), ..mode(0o2770) }, None, None, ASKER).unwrap();
        assert_eq!((group.gid, group.perm), (7, 0o2770));
        assert_eq!(make(&door, folder, "inherits").attributes.gid, 7);
        // Another process.
        store.set_attributes("d", &mode(0o711)).unwrap();
        let began = Instant::now();
        while now(&door).perm != 0o711 {
            assert!(began.elapsed() < Duration::from_secs(20), "it is not seen");
            std::thread::sleep(Duration::from_millis(10));
        }
        door.rename(ROOT, "d".as_ref(), ROOT, "e".as_ref(), true).unwrap();
        assert_eq!(now(&door).perm, 0o711);
        door.remove(folder, "f".as_ref()).unwrap();
        assert_eq!(door.lookup(folder, "f".as_ref()).err(), Some(Errno::ENOENT));
    }

    #[test]
    fn a_list_tells_of_a_folder_what_a_look_at_it_tells() {
        let below = tempfile::tempdir().unwrap();
        let (door, folder) = door(Arc::new(Posix::at(below.path()).unwrap()), Duration::from_secs(3600));
        make(&door, folder, "one");
        std::thread::sleep(Duration::from_millis(50));
        // Of which the folder below tells nothing.
        make(&door, folder, "two");
        let times = |about: FileAttr| (about.mtime, about.ctime);
        let held = times(door.attributes(folder).unwrap().0);
        let told = times(door.lookup(ROOT, "d".as_ref()).unwrap().attributes);
        // The file's times were held for the folder, which a filesystem stamps a moment later.
        let later = told.0.duration_since(held.0).unwrap();
        assert!(later < Duration::from_millis(20), "{later:?}");
        let (fh, mut listed) = (door.open_folder(ROOT).unwrap(), Vec::new());
        Arc::new(door).list_plus(ROOT, fh, &Arc::new(vec!["d".to_string()]), 0, &mut |at, entry| {
            listed.push((at, times(entry.attributes)));
            false
        });
        assert_eq!(listed, [(0, told)]);
    }

    #[test]
    fn a_new_owner_takes_the_special_bits_of_programs_alone() {
        let about = |kind, mode| Attributes {
            kind,
            length: 0,
            mode,
            uid: 0,
            gid: 0,
            atime: UNIX_EPOCH,
            mtime: UNIX_EPOCH,
            ctime: UNIX_EPOCH,
            links: 1,
            identity: 0,
        };
        let chown = Change { uid: Some(7), ..Change::default() };
        let mode = |kind, mode| without_privilege(chown, &about(kind, mode)).mode;
        assert_eq!(mode(Kind::File, 0o6755), Some(0o755));
        assert_eq!(mode(Kind::File, 0o2644), None, "no program: a lock is meant");
        assert_eq!(mode(Kind::File, 0o755), None);
        assert_eq!(mode(Kind::Folder, 0o2755), None);
        let both = Change { mode: Some(0o4755), ..chown };
        assert_eq!(without_privilege(both, &about(Kind::File, 0o6755)).mode, Some(0o4755));
    }
}
