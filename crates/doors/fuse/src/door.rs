//! Implements the kernel's requests with inode numbers, names and the layout.
//!
//! A request holds the lock on names for reading while it uses a name; removals and renames hold the lock for writing, so that a name
//! always means the same file within a request. Reads and writes of open files take no shared lock.

use crate::attribute_cache::AttributeCache;
use crate::helpers::Helpers;
use crate::nodes::{FileIdentity, Nodes, Number};
use crate::open::OpenHandle;
use crate::settings::{Cache, Settings};
use fuser::{Errno, FileAttr};
use std::collections::HashMap;
use std::ffi::OsStr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, MutexGuard, RwLockReadGuard, RwLockWriteGuard};
use std::time::{Duration, Instant, SystemTime};
use thalweg_layout::errno::{self, PosixCall};
use thalweg_layout::{Attributes, Change, Kind, Layout, Space, WriterId};
use thalweg_types::Error;
use thalweg_types::mutex::{Mutex, RwLock};

mod attributes;
mod files;
mod list;
mod locks;
mod make;
#[cfg(test)]
mod rename_ahead;
#[cfg(test)]
mod tests;
mod xattrs;

pub use attributes::now;
use attributes::{SGID, SUID, kind};
use files::Shared;
use list::Listed;
pub use locks::LockRequest;
use locks::Locks;
pub use xattrs::{ERRORS, PROCESS};

pub type Result<T> = std::result::Result<T, Errno>;

const O_EXCL: i32 = rustix::fs::OFlags::EXCL.bits() as i32;
const O_TRUNC: i32 = rustix::fs::OFlags::TRUNC.bits() as i32;
const O_APPEND: i32 = rustix::fs::OFlags::APPEND.bits() as i32;
const O_SYNC: i32 = rustix::fs::OFlags::DSYNC.bits() as i32;
/// The user of a request.
#[derive(Debug, Clone, Copy)]
pub struct Caller {
    pub uid: u32,
    pub gid: u32,
}

/// A directory entry that was found or made.
pub struct Entry {
    pub attributes: FileAttr,
    pub generation: u64,
}

/// A mount as seen by the kernel.
pub struct Door {
    layout: Arc<dyn Layout>,
    pub settings: Settings,
    /// The layout's files are files of this machine.
    plain: bool,
    /// One writer for all handles, so that layouts keep the order of calls.
    writer: WriterId,
    nodes: Mutex<Nodes>,
    names: RwLock<()>,
    next: AtomicU64,
    handles: RwLock<HashMap<u64, Arc<OpenHandle>>>,
    folders: Mutex<HashMap<u64, Listed>>,
    helpers: Helpers,
    attributes: Mutex<AttributeCache>,
    shared: Mutex<HashMap<u64, Shared>>,
    /// Attributes of removed files that are still open.
    nameless: Mutex<HashMap<u64, Attributes>>,
    /// Times set by programs or the kernel, for layouts that store none; until the kernel forgets the inode.
    times: Mutex<HashMap<u64, Change>>,
    pub passthrough: AtomicBool,
    /// The kernel invalidates cached pages of direct writes.
    pub drops_what_is_written: AtomicBool,
    locks: Locks,
    /// The first publish error that was not reported to any program.
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

/// Bytes of the longest name on any layout.
const LONGEST_NAME: usize = 255;

fn text(name: &OsStr) -> Result<&str> {
    match name.len() > LONGEST_NAME {
        true => Err(Errno::ENAMETOOLONG),
        false => name.to_str().ok_or(Errno::EILSEQ),
    }
}

/// A name for a lookup: a name that is not UTF-8 does not exist.
fn sought(name: &OsStr) -> Result<&str> {
    text(name).map_err(|e| if e == Errno::EILSEQ { Errno::ENOENT } else { e })
}

impl Door {
    pub fn new(layout: Arc<dyn Layout>, settings: Settings) -> Door {
        let plain = layout.plain_file("").is_some();
        let lease = if plain { Duration::ZERO } else { settings.timeout };
        Door {
            attributes: Mutex::new(AttributeCache::new(lease)),
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

    fn entry(&self, folder: u64, name: &str, about: &Attributes) -> Entry {
        let seen = FileIdentity { identity: about.identity, kind: about.kind, links: about.links };
        let Number { ino, generation } = self.nodes().found(folder, name, seen);
        Entry { attributes: self.shown(ino, about), generation }
    }

    pub fn lookup(&self, folder: u64, name: &OsStr) -> Result<Entry> {
        let name = sought(name)?;
        let _names = self.use_names();
        let asked = self.attributes.lock().ask(Instant::now());
        let about = self.about(&self.below(folder, name)?).map_err(number)?;
        Ok(self.found(folder, name, asked, about))
    }

    /// The entry of a lookup; the kernel's lookup count of the inode rises by one.
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
            let about = self.attributes.lock().answer(ino, asked, about);
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
            self.attributes.lock().forget(ino);
        }
    }

    pub fn read_link(&self, ino: u64) -> Result<String> {
        let _names = self.use_names();
        self.layout.read_link(&self.path(ino)?).map_err(number_of(PosixCall::ReadLink))
    }

    /// Attributes of a file before one of its names is removed, for later requests on its open handles.
    fn before_loss(&self, folder: u64, name: &str, path: &str) -> Option<(u64, Attributes)> {
        let ino = self.nodes().child(folder, name)?;
        // A file that is not open gets no later requests: the store is not asked.
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
            true => self.attributes.lock().touched(folder, now()),
            false => self.changed(folder),
        }
        self.keep(lost);
        Ok(())
    }

    pub fn rename(&self, folder: u64, name: &OsStr, to_folder: u64, to: &OsStr, replace: bool) -> Result<()> {
        let (name, to) = (sought(name)?, text(to)?);
        // Bytes are copied before the lock on names is taken for writing. Errors are reported by the rename itself.
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

    pub fn timeout(&self) -> Duration {
        self.settings.timeout
    }

    /// Flags of a handle for the kernel.
    pub fn flags(&self, ino: u64, writing: bool) -> fuser::FopenFlags {
        use fuser::FopenFlags as F;
        let mut flags = F::empty();
        // A close has nothing to do, not even to release locks: locks of a read-only handle end at `release`.
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

    /// More flags for a handle without passthrough: write-only handles and handles that append bypass the kernel's page cache.
    ///
    /// Appends may go to another offset than the kernel knows. Direct writes save one copy, and the kernel requests no attribute before
    /// the first write; it invalidates cached pages of the written range. Files of this machine are excluded: they normally use passthrough, and all handles of a file need the same mode.
    ///
    /// - `flags`: of the open.
    pub fn open_flags(&self, flags: i32) -> fuser::FopenFlags {
        let straight = match fuser::OpenFlags(flags).acc_mode() {
            fuser::OpenAccMode::O_WRONLY => true,
            fuser::OpenAccMode::O_RDWR => flags & O_APPEND != 0,
            fuser::OpenAccMode::O_RDONLY => false,
        };
        let straight = straight && !self.plain && self.settings.cache == Cache::Through;
        match straight && self.drops_what_is_written.load(Ordering::Relaxed) {
            true => fuser::FopenFlags::FOPEN_DIRECT_IO,
            false => fuser::FopenFlags::empty(),
        }
    }
}
