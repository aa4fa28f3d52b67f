//! The small-file layout: all small files that one process creates in a folder are stored in one log, their names in a name log.
//!
//! | question | answer |
//! |----------|--------|
//! | needs    | any store; for files larger than `small`, a store that writes at any offset |
//! | where    | a folder is a folder of the store; it contains a hidden folder with one log and one name log per process |
//! | who writes | each process its own log only |
//! | cost of a new file | one write at the end of the log at its close, if it was opened with truncation and no other process is known to write in the folder; else one more. No operation on the store's names, also not to find that the name is free |
//! | larger files | are moved from the log to their own object |
//! | a change of a file, chmod, rename, remove | an intent, a look whether others were first, then one record about that name; a rename within a folder is one record for both names |
//! | order    | a logical clock: a process refreshes its view before it records, and its record is newer than all records in that view; log numbers break ties |
//! | visible to other processes | after a close or sync of the file. On stores that show bytes only after an object's close, each file's close ends a log; with `publish=sync` only syncs, full logs and the end of the process do |
//! | exclusive creation | exactly one of several processes succeeds if the store shows bytes immediately; elsewhere not guaranteed |
//! | one file written by several processes | each merges its writes over the bytes that others have published; if the file was removed or replaced, the close fails (`merge`) |
//! | a crash  | closed and synced files are safe; a record is complete or ignored; bytes that fail their checksum are an error, never zeros |
//! | a fork   | the child uses names of its own; the parent's log and unrecorded bytes stay the parent's |
//! | a full store | a write is accepted if the log has room for the file's record (`reserve` of stores); removals, renames and changes use room that each log keeps back, or the spare |
//! | modes    | a file that fewer users may read than the log has its own object, with its mode and owner |
//! | memory   | about 200 bytes per name of the folders in use; open files' bytes |
//! | times of a folder | the time of the last record in it, or the times that a program set later; ending a log and compaction do not change them |
//! | links    | symbolic links are records; no hard links |
//! | extended attributes | records; at most 64 KiB per value and 256 KiB per file. The store keeps those of folders |
//! | space    | `thalweg layout compact` frees the space of removed and rewritten files; on a full store it punches holes in place |
//!
//! Bytes: `docs/format/small_file.md`. Source: the small-file container of Cranor, Polte, Gibson, PDSW 2013. Differs: every
//! record names its file, so that an operation on one file changes only that file, and a lost name log loses nothing.

use crate::links::Step;
use crate::{
    Attributes, Change as AttributeChange, Kind, Layout, OpenWrite, OtherNodes, ReadObject, SetXattr, Space, Stat,
    WriteObject, WriterId, errno,
};
use rustix::io::Errno;
use std::cell::Cell;
use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, MutexGuard};
use std::time::{SystemTime, UNIX_EPOCH};
use thalweg_store::{Store, fresh, name};
use thalweg_types::mutex::Mutex;
use thalweg_types::{Error, ErrorKind, Result};

mod file;
mod folder;
mod log;
mod merge;
mod names;
pub mod record;
mod rename;
mod spare;
mod upkeep;

use file::{Node, OpenToRead, OpenToWrite, initial_attributes};
use folder::{Folder, Inner, below, hidden};
use record::{Change, Content, LONGEST_XATTR, MOST_XATTRS, More, RecordedAttributes};
use spare::Spare;
pub use upkeep::{Compacted, Report};

/// Name of the hidden folder in each folder.
pub const HIDDEN: &str = ".thalweg-small";
/// How often a change is tried again after another process was first.
const TIMES: usize = 100;
/// Folders whose logs a process keeps open.
const MOST_FOLDERS: usize = 256;
/// Bytes of the longest name in a folder, as on the system's filesystems; also of an extended attribute's.
const LONGEST_NAME: usize = 255;
/// Bytes of the longest target of a symbolic link.
const LONGEST_TARGET: usize = 4095;
/// Parameters of the layout.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Settings {
    /// Bytes of the largest file that stays in the log.
    pub small: u64,
    /// Size in bytes at which a log is ended and the next begins.
    pub log: u64,
    /// Whether other processes see a file after its close, also if that ends a log.
    pub publish_at_close: bool,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings { small: 1 << 20, log: 1 << 30, publish_at_close: true }
    }
}

/// Small files packed into logs. See the module's page.
pub struct SmallFile {
    store: Arc<dyn Store>,
    settings: Settings,
    spare: Arc<Spare>,
    folders: Mutex<HashMap<String, Arc<Folder>>>,
}

impl SmallFile {
    /// The layout over this store.
    ///
    /// # Errors
    /// `Config` for a parameter out of range.
    pub fn new(store: Arc<dyn Store>, settings: Settings) -> Result<SmallFile> {
        if settings.small > 1 << 30 || settings.log < 1 << 16 {
            let what = "layout \"small_file\": small= is 1 GiB at most, log= 64 KiB at least";
            return Err(Error::new(ErrorKind::Config, what));
        }
        let spare = Arc::new(Spare::of(store.clone()));
        Ok(SmallFile { store, settings, spare, folders: Mutex::default() })
    }

    /// Ends all logs of this process: every process sees everything recorded.
    ///
    /// # Errors
    /// The first failure; the other logs are ended all the same.
    pub fn finish(&self) -> Result<()> {
        let folders: Vec<Arc<Folder>> = self.map().values().cloned().collect();
        let mut outcome = Ok(());
        for folder in folders {
            let ended = folder.retire(&mut folder.lock());
            outcome = outcome.and(ended);
        }
        outcome
    }

    fn map(&self) -> MutexGuard<'_, HashMap<String, Arc<Folder>>> {
        self.folders.lock()
    }

    /// The folder of this name; read if it is not known yet.
    fn folder(&self, path: &str) -> Result<Arc<Folder>> {
        if let Some(known) = self.map().get(path) {
            return Ok(known.clone());
        }
        let opened = Arc::new(Folder::open(self.store.clone(), self.settings, self.spare.clone(), path)?);
        let mut map = self.map();
        if map.len() >= MOST_FOLDERS {
            let idle =
                |f: &Arc<Folder>| Arc::strong_count(f) == 1 && f.lock().open.values().all(|n| n.strong_count() == 0);
            let out: Vec<String> =
                map.iter().filter(|(_, f)| idle(f)).take(MOST_FOLDERS / 4).map(|(p, _)| p.clone()).collect();
            for path in out {
                if let Some(folder) = map.remove(&path) {
                    folder.retire(&mut folder.lock())?;
                }
            }
        }
        // Another thread may have been first.
        Ok(map.entry(path.to_string()).or_insert(opened).clone())
    }

    /// Changes the extended attributes of a file of the logs; `None` for other names: folders, and objects that existed before the
    /// mount.
    fn change_xattrs(&self, path: &str, what: &str, change: impl Fn(&mut More) -> Result<()>) -> Result<Option<()>> {
        self.at(path, |folder, last| {
            self.flushed(folder, last)?;
            let mut inner = folder.fresh()?;
            for _ in 0..TIMES {
                let Some(entry) = inner.file(last).cloned() else {
                    return match folder.real(&mut inner, last)? {
                        Some(_) => Ok(None),
                        None => Err(errno::failure(Errno::NOENT, what, path)),
                    };
                };
                if entry.content == Content::Link {
                    return Err(errno::failure(Errno::PERM, "set extended attributes of a symbolic link", path));
                }
                let mut more = entry.more.as_ref().map_or_else(More::default, |more| (**more).clone());
                let before = more.bytes();
                change(&mut more)?;
                if more.bytes() > before {
                    folder.room(&mut inner, (record::MOST_OF_CHANGE + last.len() + more.bytes()) as u64)?;
                }
                if more.bytes() > MOST_XATTRS {
                    return Err(errno::failure(Errno::NOSPC, "keep more than 256 KiB of extended attributes", path));
                }
                let now = SystemTime::now();
                let stored =
                    RecordedAttributes { ctime: now, ..entry.stored.unwrap_or_else(|| initial_attributes(now)) };
                let change = Change { stored: Some(stored), more: Some(more), ..Change::of(last) };
                if folder.record_alone(&mut inner, vec![change], &[], &|inner| inner.differs(last, &entry))?.is_some() {
                    drop(inner);
                    return self.publish(folder).map(Some);
                }
            }
            Err(errno::failure(Errno::BUSY, "change a file that others change", path))
        })
    }

    /// Extended attributes of a file of the logs, and its target; `None` as in [`SmallFile::change_xattrs`].
    fn more(&self, path: &str) -> Result<Option<Arc<More>>> {
        if name::relative(path)?.is_empty() {
            return Ok(None);
        }
        self.at(path, |folder, last| {
            let mut inner = folder.fresh()?;
            match inner.file(last) {
                Some(entry) => Ok(Some(entry.more.clone().unwrap_or_default())),
                None => match folder.real(&mut inner, last)? {
                    Some(_) => Ok(None),
                    None => Err(errno::failure(Errno::NOENT, "read extended attributes", path)),
                },
            }
        })
    }

    /// Opens the file's own object, if it has one, before another process removes it; `false` if the file was replaced first.
    fn has_object(node: &Node, to_write: bool) -> Result<bool> {
        match node.open_object(to_write) {
            Err(e) if e.kind() == ErrorKind::NotFound && !node.is_linked() => Ok(false),
            other => other.map(|()| true),
        }
    }

    fn open_node(folder: &Arc<Folder>, inner: &mut Inner, name: &str, made: bool) -> Arc<Node> {
        // A file that another process replaced goes on for the handles that have it open.
        let replaced = |node: &Arc<Node>| node.base().is_other(inner.file(name));
        if let Some(node) = inner.open.get(name).and_then(|n| n.upgrade()).filter(|node| !replaced(node)) {
            return node;
        }
        let content = inner.file(name).map_or(Content::Gone, |entry| entry.content);
        let node = Arc::new(Node::new(folder.clone(), name, content, made));
        node.based_on(inner, name);
        if inner.open.len() >= 64 && inner.open.len().is_power_of_two() {
            inner.open.retain(|_, n| n.strong_count() > 0);
        }
        inner.open.insert(name.to_string(), Arc::downgrade(&node));
        node
    }

    /// Records the unrecorded changes of a file of the logs that is open in this process.
    fn flushed(&self, folder: &Folder, name: &str) -> Result<()> {
        let node = folder.lock().open.get(name).and_then(|n| n.upgrade());
        match node {
            Some(node) if node.is_linked() => node.flush(),
            _ => Ok(()),
        }
    }

    /// After a file lost its name: removes its own object.
    fn let_go(folder: &Folder, inner: &mut Inner, name: &str, old: Content) -> Result<()> {
        if let Some(node) = inner.open.remove(name).and_then(|n| n.upgrade()) {
            // Open handles keep reading its bytes.
            node.unlink();
        }
        if let Content::Own { number } = old {
            match folder.store.remove(&format!("{}{}", hidden(&inner.path), log::own_name(number))) {
                Err(e) if e.kind() != ErrorKind::NotFound => return Err(e),
                _ => {}
            }
        }
        Ok(())
    }

    /// After a change of names: publishes it, as a close does.
    fn publish(&self, folder: &Folder) -> Result<()> {
        if !self.store.capability().write_at && self.settings.publish_at_close {
            return folder.retire(&mut folder.lock());
        }
        Ok(())
    }

    /// Kind, length and identity of a name, or the link that it is.
    fn stat_one(&self, path: &str) -> Result<Step<Stat>> {
        self.at(path, |folder, last| {
            let mut inner = folder.fresh()?;
            if let Some(link) = inner.step(last)? {
                return Ok(link);
            }
            let Some(entry) = inner.file(last).cloned() else {
                return match folder.real(&mut inner, last)? {
                    Some(_) => self.store.stat(&below(&inner.path, last)).map(Step::Here),
                    None => Err(errno::failure(Errno::NOENT, "stat", path)),
                };
            };
            let open = inner.open.get(last).and_then(|n| n.upgrade());
            drop(inner);
            let node = match open {
                Some(node) => {
                    node.catch_up();
                    node
                }
                None => Arc::new(Node::new(folder.clone(), last, entry.content, false)),
            };
            let identity = entry.stored.map_or(0, |stored| stored.identity);
            Ok(Step::Here(Stat { length: node.length()?, is_folder: false, identity }))
        })
    }
}

impl Drop for SmallFile {
    fn drop(&mut self) {
        let _ = self.finish();
    }
}

impl Layout for SmallFile {
    fn finish(&self) -> Result<()> {
        SmallFile::finish(self)
    }

    fn concrete(&self) -> Option<&dyn std::any::Any> {
        Some(self)
    }

    fn describe(&self) -> String {
        format!("small_file over {}", self.store.describe())
    }

    fn request_cost(&self, _path: &str) -> u64 {
        self.store.request_cost()
    }

    fn open_write(&self, path: &str, how: OpenWrite, _writer: WriterId) -> Result<Box<dyn WriteObject>> {
        if name::relative(path)?.is_empty() {
            return Err(errno::failure(Errno::ISDIR, "open a folder for writing", path));
        }
        self.led(path, |path| {
            self.until_opened(path, |folder, last| {
                let mut inner = if how == OpenWrite::Replace { folder.fresh_enough()? } else { folder.fresh()? };
                let exists = inner.file(last).is_some();
                // An existing link takes the name, wherever it leads.
                if how != OpenWrite::New
                    && let Some(link) = inner.step(last)?
                {
                    return Ok(Some(link));
                }
                if !exists && let Some(is_folder) = folder.real(&mut inner, last)? {
                    return match is_folder {
                        true => Err(errno::failure(Errno::ISDIR, "open a folder for writing", path)),
                        // An object that existed before the mount keeps being one.
                        false => {
                            self.store.open_write(&below(&inner.path, last), how).map(|object| Some(Step::Here(object)))
                        }
                    };
                }
                match how {
                    OpenWrite::New if exists => return Err(errno::failure(Errno::EXIST, "make", path)),
                    OpenWrite::Existing if !exists => return Err(errno::failure(Errno::NOENT, "open", path)),
                    _ => {}
                }
                if !exists {
                    let stored = initial_attributes(SystemTime::now());
                    match how {
                        OpenWrite::New => {
                            let content = Some(Content::Here { length: 0, crc: 0 });
                            let more = inner.nothing_more(last);
                            let change = Change { content, stored: Some(stored), more, ..Change::of(last) };
                            folder.record_new(&mut inner, last, change)?;
                        }
                        _ => inner.pretend(last, stored),
                    }
                }
                let made = !exists && how != OpenWrite::New;
                let node = Self::open_node(folder, &mut inner, last, made);
                drop(inner);
                node.catch_up();
                if made && let Err(e) = node.promise(0) {
                    node.give_up();
                    return Err(e);
                }
                if !Self::has_object(&node, true)? {
                    return Ok(None);
                }
                if how == OpenWrite::Replace {
                    node.empty()?;
                }
                Ok(Some(Step::Here(Box::new(OpenToWrite(node)) as Box<dyn WriteObject>)))
            })
        })
    }

    fn open_read(&self, path: &str) -> Result<Box<dyn ReadObject>> {
        if name::relative(path)?.is_empty() {
            return Err(errno::failure(Errno::ISDIR, "read a folder", path));
        }
        self.led(path, |path| {
            self.until_opened(path, |folder, last| {
                let mut inner = folder.fresh()?;
                if let Some(link) = inner.step(last)? {
                    return Ok(Some(link));
                }
                if inner.file(last).is_some() {
                    let node = Self::open_node(folder, &mut inner, last, false);
                    drop(inner);
                    node.catch_up();
                    let open = Self::has_object(&node, false)?;
                    return Ok(open.then(|| Step::Here(Box::new(OpenToRead(node)) as Box<dyn ReadObject>)));
                }
                match folder.real(&mut inner, last)? {
                    Some(true) => Err(errno::failure(Errno::ISDIR, "read a folder", path)),
                    Some(false) => {
                        self.store.open_read(&below(&inner.path, last)).map(|object| Some(Step::Here(object)))
                    }
                    None => Err(errno::failure(Errno::NOENT, "open", path)),
                }
            })
        })
    }

    fn stat(&self, path: &str) -> Result<Stat> {
        if name::relative(path)?.is_empty() {
            return self.store.stat("");
        }
        self.led(path, |path| match path {
            "" => self.store.stat("").map(Step::Here),
            path => self.stat_one(path),
        })
    }

    fn list(&self, folder: &str) -> Result<Vec<String>> {
        // Looked up as a name in the folder, so that a folder that was removed meanwhile is searched again.
        let plain = name::relative(folder)?.into_owned();
        self.at(&below(&plain, "x"), |folder, _| {
            let inner = folder.fresh()?;
            let files = inner.names.iter().filter(|(_, e)| e.content != Content::Gone).map(|(n, _)| n.clone());
            let mut all: Vec<String> = files.chain(inner.real.keys().cloned()).collect();
            all.sort_unstable();
            all.dedup();
            Ok(all)
        })
        .map_err(|e| e.in_object(folder))
    }

    fn rename(&self, from: &str, to: &str) -> Result<()> {
        let (from, to) = (self.plain(from)?, self.plain(to)?);
        if from.is_empty() || to.is_empty() {
            return Err(errno::failure(Errno::BUSY, "rename the root folder", &from));
        }
        let is_folder = self.is_folder(&from)?;
        if is_folder {
            return self.rename_folder(&from, &to);
        }
        let in_log = self.at(&from, |folder, last| {
            Ok(folder.lock().file(last).is_some().then(|| (folder.clone(), last.to_string())))
        })?;
        if from == to {
            return Ok(());
        }
        // The folder of the new name must exist, whatever else is wrong.
        match in_log {
            Some((folder, last)) => {
                self.rename_file(&folder, &last, &to)?;
                self.publish(&folder)
            }
            None => self.at(&to, |folder, last| {
                let mut inner = folder.fresh()?;
                self.store.rename(&from, &to)?;
                inner.real.insert(last.to_string(), Some(false));
                if let Some(old) = inner.file(last).map(|e| e.content) {
                    let gone = Change { content: Some(Content::Gone), ..Change::of(last) };
                    if let Err(e) = folder.record(&mut inner, vec![gone], &[]) {
                        // An object hidden by a file of the logs would have no name.
                        let _ = self.store.rename(&to, &from);
                        inner.real.remove(last);
                        return Err(e);
                    }
                    Self::let_go(folder, &mut inner, last, old)?;
                }
                folder.ring(&mut inner)
            }),
        }
    }

    fn remove(&self, path: &str) -> Result<()> {
        let plain = self.plain(path)?;
        if plain.is_empty() {
            return Err(Error::new(ErrorKind::InvalidArgument, "cannot remove the root folder"));
        }
        self.at(path, |folder, last| {
            let mut inner = folder.fresh()?;
            if let Some(found) = inner.file(last).map(|e| e.content) {
                let old = Cell::new(found);
                let late = |inner: &Inner| {
                    let content = inner.file(last).map(|entry| entry.content);
                    content.inspect(|content| old.set(*content)).is_none()
                };
                let gone = Change { content: Some(Content::Gone), ..Change::of(last) };
                if folder.record_alone(&mut inner, vec![gone], &[], &late)?.is_some() {
                    Self::let_go(folder, &mut inner, last, old.get())?;
                    drop(inner);
                    return self.publish(folder);
                }
            }
            match folder.real(&mut inner, last)? {
                None => Err(errno::failure(Errno::NOENT, "remove", path)),
                Some(false) => {
                    self.store.remove(&plain)?;
                    inner.real.remove(last);
                    folder.ring(&mut inner)
                }
                Some(true) => {
                    drop(inner);
                    self.folder(&plain)?.clear()?;
                    self.map().remove(&plain);
                    self.store.remove(&plain)?;
                    let mut inner = folder.lock();
                    inner.real.remove(last);
                    folder.ring(&mut inner)
                }
            }
        })
    }

    fn make_folder(&self, path: &str) -> Result<()> {
        let plain = self.plain(path)?;
        let ends: Vec<usize> = plain.match_indices('/').map(|(at, _)| at).chain([plain.len()]).collect();
        for end in ends {
            let part = &plain[..end];
            if part.is_empty() {
                continue;
            }
            self.at(part, |folder, last| {
                let mut inner = folder.fresh()?;
                if inner.file(last).is_some() {
                    let number = if end == plain.len() { Errno::EXIST } else { Errno::NOTDIR };
                    return Err(errno::failure(number, "make folder", path));
                }
                if folder.real(&mut inner, last)? != Some(true) {
                    self.store.make_folder(part)?;
                    inner.real.insert(last.to_string(), Some(true));
                    folder.ring(&mut inner)?;
                }
                Ok(())
            })?;
        }
        Ok(())
    }

    fn make_one_folder(&self, path: &str, mode: u32) -> Result<()> {
        let plain = self.plain(path)?;
        if plain.is_empty() {
            return Err(errno::failure(Errno::EXIST, "make folder", path));
        }
        self.at(path, |folder, last| {
            let mut inner = folder.fresh()?;
            if inner.file(last).is_some() {
                return Err(errno::failure(Errno::EXIST, "make folder", path));
            }
            self.store.make_one_folder(&plain, mode)?;
            inner.real.insert(last.to_string(), Some(true));
            folder.ring(&mut inner)
        })
    }

    fn sync_folder(&self, folder: &str) -> Result<()> {
        let plain = name::relative(folder)?.into_owned();
        let known = self.map().get(&plain).cloned();
        if let Some(known) = known {
            let mut inner = known.lock();
            match self.store.capability().write_at {
                true => {
                    if let Some(writer) = &mut inner.writer {
                        writer.sync()?;
                        self.store.sync_folder(hidden(&inner.path).trim_end_matches('/'))?;
                    }
                }
                false => known.retire(&mut inner)?,
            }
        }
        self.store.sync_folder(&plain).map_err(|e| e.in_object(folder))
    }

    fn attributes(&self, path: &str) -> Result<Attributes> {
        let plain = self.plain(path)?;
        let about = match plain.is_empty() {
            true => self.store.stat("")?,
            false => match self.stat_one(&plain)? {
                Step::Here(about) => about,
                Step::Link { .. } => Stat { length: 0, is_folder: false, identity: 0 },
            },
        };
        if !plain.is_empty() {
            let stored = self.at(&plain, |folder, last| {
                let inner = folder.lock();
                let Some(entry) = inner.file(last) else { return Ok(None) };
                let stored = entry.stored.unwrap_or_else(|| initial_attributes(UNIX_EPOCH));
                if let Some(target) = inner.target(last)? {
                    return Ok(Some(Attributes { kind: Kind::Link, ..stored.attributes(target.len() as u64) }));
                }
                let node = inner.open.get(last).and_then(|node| node.upgrade());
                drop(inner);
                let written = node.and_then(|node| node.written());
                let stored = RecordedAttributes {
                    mtime: written.unwrap_or(stored.mtime),
                    ctime: written.unwrap_or(stored.ctime),
                    ..stored
                };
                Ok(Some(stored.attributes(about.length)))
            })?;
            if let Some(stored) = stored {
                return Ok(stored);
            }
        }
        if self.store.capability().modes {
            let mut stored = self.store.attributes(&plain)?;
            if stored.kind == Kind::Folder
                && let Some(recorded) = Folder::recorded(&*self.store, &plain)?
                && recorded > stored.ctime
            {
                // Times that a program set later stay.
                (stored.mtime, stored.ctime) = (recorded, recorded);
            }
            return Ok(stored);
        }
        Ok(Attributes {
            kind: if about.is_folder { Kind::Folder } else { Kind::File },
            length: about.length,
            mode: if about.is_folder { 0o755 } else { 0o644 },
            uid: rustix::process::geteuid().as_raw(),
            gid: rustix::process::getegid().as_raw(),
            atime: UNIX_EPOCH,
            mtime: UNIX_EPOCH,
            ctime: UNIX_EPOCH,
            links: 1,
            identity: about.identity,
        })
    }

    fn set_attributes(&self, path: &str, change: &AttributeChange) -> Result<()> {
        let plain = self.plain(path)?;
        if plain.is_empty() {
            return self.store.set_attributes("", change);
        }
        // Unrecorded bytes are recorded after the mode has decided where.
        let mode_alone = change.mode.is_some() && change.atime.is_none() && change.mtime.is_none();
        self.at(path, |folder, last| {
            if !mode_alone {
                self.flushed(folder, last)?;
            }
            let mut inner = folder.fresh()?;
            for _ in 0..TIMES {
                let Some(entry) = inner.file(last).cloned() else {
                    return match folder.real(&mut inner, last)? {
                        Some(_) => self.store.set_attributes(&plain, change),
                        None => Err(errno::failure(Errno::NOENT, "change attributes", path)),
                    };
                };
                if entry.content == Content::Link && change.mode.is_some() {
                    return Err(errno::failure(Errno::OPNOTSUPP, "change the mode of a symbolic link", path));
                }
                let now = SystemTime::now();
                let stored = entry.stored.unwrap_or_else(|| initial_attributes(now)).changed(change, now);
                let protects = change.mode.is_some() || change.uid.is_some() || change.gid.is_some();
                match entry.content {
                    Content::Own { number } if protects => folder.protect(&Folder::own(&inner, number), &stored)?,
                    Content::There { length, .. }
                        if length > 0 && change.mode.is_some() && folder.shows_more(&mut inner, stored.mode)? =>
                    {
                        // Beginning a log refreshes the view.
                        if inner.differs(last, &entry) {
                            continue;
                        }
                        let node = Self::open_node(folder, &mut inner, last, false);
                        drop(inner);
                        let done = node.protect(stored, Arc::strong_count(&node) > 1)?;
                        self.flushed(folder, last)?;
                        if done {
                            return self.publish(folder);
                        }
                        inner = folder.fresh()?;
                        continue;
                    }
                    _ => {}
                }
                let recorded = Change { stored: Some(stored), ..Change::of(last) };
                let late = |inner: &Inner| inner.differs(last, &entry);
                if folder.record_alone(&mut inner, vec![recorded], &[], &late)?.is_some() {
                    drop(inner);
                    if mode_alone {
                        self.flushed(folder, last)?;
                    }
                    return self.publish(folder);
                }
            }
            Err(errno::failure(Errno::BUSY, "change a file that others change", path))
        })
    }

    fn truncate(&self, path: &str, length: u64) -> Result<()> {
        let object = self.open_write(path, OpenWrite::Existing, WriterId(0))?;
        object.truncate(length)?;
        object.close()
    }

    fn space(&self, path: &str) -> Result<Space> {
        let plain = self.plain(path)?;
        let folder = if self.is_folder(&plain)? { &plain } else { name::folder_of(&plain) };
        self.store.space(folder)
    }

    fn make_link(&self, target: &str, path: &str) -> Result<()> {
        if target.is_empty() {
            return Err(errno::failure(Errno::NOENT, "make a link without a target", path));
        }
        if target.len() > LONGEST_TARGET {
            return Err(errno::failure(Errno::NAMETOOLONG, "make a link to a name of more than 4095 bytes", path));
        }
        if name::relative(path)?.is_empty() {
            return Err(errno::failure(Errno::EXIST, "make a link", path));
        }
        self.at(path, |folder, last| {
            let mut inner = folder.fresh()?;
            if folder.real(&mut inner, last)?.is_some() {
                return Err(errno::failure(Errno::EXIST, "make a link", path));
            }
            if inner.file(last).is_some() {
                return Err(errno::failure(Errno::EXIST, "make a link", path));
            }
            let stored = RecordedAttributes { mode: 0o777, ..initial_attributes(SystemTime::now()) };
            let more = More { target: Some(target.to_string()), ..More::default() };
            let content = Some(Content::Link);
            let change = Change { content, stored: Some(stored), more: Some(more), ..Change::of(last) };
            folder.record_new(&mut inner, last, change)?;
            drop(inner);
            self.publish(folder)
        })
    }

    fn read_link(&self, path: &str) -> Result<String> {
        let no_link = || errno::failure(Errno::INVAL, "read a link", path);
        let plain = self.plain(path)?;
        if plain.is_empty() {
            return Err(no_link());
        }
        self.at(&plain, |folder, last| {
            let mut inner = folder.fresh()?;
            if let Some(target) = inner.target(last)? {
                return Ok(target);
            }
            match inner.file(last).is_some() {
                true => Err(no_link()),
                false => match folder.real(&mut inner, last)? {
                    // An object that existed before the mount may be a link of the store.
                    Some(false) if self.store.capability().attributes => self.store.read_link(&plain),
                    Some(_) => Err(no_link()),
                    None => Err(errno::failure(Errno::NOENT, "read a link", path)),
                },
            }
        })
    }

    fn xattr_get(&self, path: &str, key: &str) -> Result<Option<Vec<u8>>> {
        match self.more(path)? {
            Some(more) => Ok(more.xattrs.get(key).cloned()),
            None => self.store.xattr(&self.plain(path)?, key),
        }
    }

    fn xattr_set(&self, path: &str, key: &str, value: &[u8], how: SetXattr) -> Result<()> {
        let refused = |number| Err(errno::failure(number, "set an extended attribute", path));
        if key.is_empty() || key.len() > LONGEST_NAME {
            return refused(Errno::RANGE);
        }
        if value.len() > LONGEST_XATTR {
            return refused(Errno::TOOBIG);
        }
        let of_log = match name::relative(path)?.is_empty() {
            true => None,
            false => self.change_xattrs(path, "set an extended attribute", |more| {
                crate::takes_xattr(key, path)?;
                match (how, more.xattrs.contains_key(key)) {
                    (SetXattr::New, true) => return refused(Errno::EXIST),
                    (SetXattr::Existing, false) => return refused(Errno::NODATA),
                    _ => {}
                }
                more.xattrs.insert(key.to_string(), value.to_vec());
                Ok(())
            })?,
        };
        match of_log {
            Some(()) => Ok(()),
            None => self.store.set_xattr(&self.plain(path)?, key, value, how),
        }
    }

    fn xattr_list(&self, path: &str) -> Result<Vec<String>> {
        match self.more(path)? {
            Some(more) => Ok(more.xattrs.keys().cloned().collect()),
            None => self.store.list_xattrs(&self.plain(path)?),
        }
    }

    fn xattr_remove(&self, path: &str, key: &str) -> Result<()> {
        let what = "remove an extended attribute";
        let of_log = match name::relative(path)?.is_empty() {
            true => None,
            false => self.change_xattrs(path, what, |more| match more.xattrs.remove(key) {
                Some(_) => Ok(()),
                None => Err(errno::failure(Errno::NODATA, what, path)),
            })?,
        };
        match of_log {
            Some(()) => Ok(()),
            None => self.store.remove_xattr(&self.plain(path)?, key),
        }
    }

    fn keeps_whole(&self, _path: &str) -> bool {
        true
    }

    fn other_nodes(&self, _path: &str) -> OtherNodes {
        OtherNodes::of_objects(&*self.store)
    }

    fn lock_folder(&self, _path: &str) -> Option<PathBuf> {
        self.store.lock_place(&format!("{HIDDEN}/locks"))
    }

    /// Only for objects that existed before the mount and are no files of the logs.
    fn plain_file(&self, path: &str) -> Option<PathBuf> {
        let plain = name::relative(path).ok()?.into_owned();
        let beside = self.at(path, |folder, last| {
            let mut inner = folder.fresh()?;
            Ok(inner.file(last).is_none() && folder.real(&mut inner, last)?.is_some())
        });
        beside.ok()?.then(|| self.store.plain_file(&plain))?
    }
}
