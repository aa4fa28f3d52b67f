//! The small-file layout: all small files that one process makes in a folder lie in one log, their names in a name log.
//!
//! | question | answer |
//! |----------|--------|
//! | needs    | any store; to keep files larger than `small`, one that writes at any offset |
//! | where    | a folder is a folder of the store; in it, hidden, a log per process and its name log |
//! | who writes | each process its own log; nobody writes another's |
//! | a file made | one write behind the log's end when it is closed; no operation on names below, nor to find that it is not there yet |
//! | larger files | grow out of the log into an object of their own |
//! | chmod, rename, remove | a record about that name alone; a rename within a folder is one record, both names at once |
//! | order    | a logical clock: a record is newer than all its writer had seen, and it looks before it records; logs' numbers break ties |
//! | others see it | once the file is closed or synced. On stores that show bytes when objects are closed, each close ends a log; with `publish=sync` only syncs, full logs and the end of the process do |
//! | made exclusively | one of several processes succeeds, where the store shows bytes at once; elsewhere not promised |
//! | one file written by several processes | the last to close wins as a whole: that is `container`'s work |
//! | a crash  | what was closed and synced is there; a record is there wholly or not at all; bytes that fail their checksum are an error, never zeros |
//! | memory   | about 200 bytes per name of the folders in use; open files' bytes |
//! | times of a folder | those of the last record in it, whatever it was about, or what a program set since |
//! | links    | neither symbolic ones nor second names |
//! | space    | of removed and rewritten files comes back by `thalweg layout compact` |
//!
//! Bytes: `docs/format/small_file.md`. Source: the small-file container of Cranor, Polte, Gibson, PDSW 2013. Differs: every
//! record names its file, so that what concerns one file changes only that one, and a lost name log loses nothing.

use crate::{
    Attributes, Change as AttributeChange, Kind, Layout, OpenWrite, ReadObject, Space, Stat, WriteObject, WriterId,
    errno,
};
use rustix::io::Errno;
use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};
use thalweg_store::{Store, name};
use thalweg_types::{Error, ErrorKind, Result};

mod file;
mod folder;
mod log;
pub mod record;
mod upkeep;

use file::{Node, OpenToRead, OpenToWrite, first_kept};
use folder::{Folder, Inner, below, hidden};
use record::{Change, Content, Kept};
pub use upkeep::{Compacted, Report};

/// Name of the hidden folder in each folder.
pub const HIDDEN: &str = ".thalweg-small";
/// Folders whose logs a process keeps open.
const MOST_FOLDERS: usize = 256;

/// Parameters of the layout.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Settings {
    /// Bytes of the largest file that stays in the log.
    pub small: u64,
    /// Bytes after which a log is ended and another begun.
    pub log: u64,
    /// Whether a file is seen by others once it is closed, also where that ends a log.
    pub publish_at_close: bool,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings { small: 1 << 20, log: 1 << 30, publish_at_close: true }
    }
}

/// A number that no other has.
fn fresh() -> u64 {
    use std::cell::Cell;
    use std::hash::{BuildHasher, RandomState};
    thread_local! { static NEXT: Cell<u64> = Cell::new(RandomState::new().hash_one((std::process::id(), SystemTime::now()))); }
    NEXT.with(|next| {
        // Numbers of one thread are mixed from one start that is random.
        next.set(next.get().wrapping_add(0x9e37_79b9_7f4a_7c15));
        let mut z = next.get();
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)).max(1)
    })
}

/// Small files packed into logs. See the module's page.
pub struct SmallFile {
    store: Arc<dyn Store>,
    settings: Settings,
    folders: Mutex<HashMap<String, Arc<Folder>>>,
}

impl SmallFile {
    /// Over this store.
    ///
    /// # Errors
    /// `Config` where a parameter makes no sense.
    pub fn new(store: Arc<dyn Store>, settings: Settings) -> Result<SmallFile> {
        if settings.small > 1 << 30 || settings.log < 1 << 16 {
            let what = "layout \"small_file\": small= is 1 GiB at most, log= 64 KiB at least";
            return Err(Error::new(ErrorKind::Config, what));
        }
        Ok(SmallFile { store, settings, folders: Mutex::default() })
    }

    /// Ends all logs of this process: everything recorded is seen by everybody.
    ///
    /// # Errors
    /// The first failure; all logs are tried.
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
        self.folders.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The folder of this name, known or read now.
    fn folder(&self, path: &str) -> Result<Arc<Folder>> {
        if let Some(known) = self.map().get(path) {
            return Ok(known.clone());
        }
        let opened = Arc::new(Folder::open(self.store.clone(), self.settings, path)?);
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
        // Another thread may have been faster.
        Ok(map.entry(path.to_string()).or_insert(opened).clone())
    }

    /// Calls with the folder that a name lies in and the last part of the name; once more where the folder that was known is
    /// gone by now.
    fn at<T>(&self, path: &str, mut call: impl FnMut(&Arc<Folder>, &str) -> Result<T>) -> Result<T> {
        let plain = name::relative(path)?;
        if plain.split('/').any(|part| part == HIDDEN) {
            return Err(errno::failure(Errno::NOENT, "use a name that the layout keeps for itself", path));
        }
        let (above, last) = (name::folder_of(&plain), name::last_part(&plain));
        let known = self.map().contains_key(above);
        // The name that was asked for, not only that of an object below.
        let told = |e: Error| match e.place().object.as_deref().is_none_or(|o| o == path) {
            true => e.in_object(path),
            false => Error::new(e.kind(), "cannot do this with a small file").caused_by(e).in_object(path),
        };
        match self.folder(above).and_then(|folder| call(&folder, last)) {
            Err(e) if known && e.kind() == ErrorKind::NotFound && !self.stays(above)? => {
                self.map().remove(above);
                self.folder(above).and_then(|folder| call(&folder, last)).map_err(told)
            }
            other => other.map_err(told),
        }
    }

    /// Whether the bytes of a file stay at hand; not where another file took its name before they could be.
    fn held(node: &Node, to_write: bool) -> Result<bool> {
        match node.take_hold(to_write) {
            Err(e) if e.kind() == ErrorKind::NotFound && !node.is_linked() => Ok(false),
            other => other.map(|()| true),
        }
    }

    /// As [`SmallFile::at`], again where a file went while it was opened.
    fn until_held<T>(&self, path: &str, mut call: impl FnMut(&Arc<Folder>, &str) -> Result<Option<T>>) -> Result<T> {
        for _ in 0..1000 {
            if let Some(opened) = self.at(path, &mut call)? {
                return Ok(opened);
            }
        }
        Err(errno::failure(Errno::BUSY, "open a file that others replace all the time", path))
    }

    /// Whether a folder that is known is still there. Who removes it or gives it another name rings its bell: as long as that is
    /// silent, the store is not asked.
    fn stays(&self, folder: &str) -> Result<bool> {
        let known = self.map().get(folder).cloned();
        match known.is_some_and(|known| known.is_silent()) {
            true => Ok(true),
            false => self.is_there(folder),
        }
    }

    fn is_there(&self, folder: &str) -> Result<bool> {
        match self.store.stat(folder) {
            Ok(about) => Ok(about.is_folder),
            Err(e) if e.kind() == ErrorKind::NotFound => Ok(false),
            Err(e) => Err(e),
        }
    }

    fn open_node(folder: &Arc<Folder>, inner: &mut Inner, name: &str, made: bool) -> Arc<Node> {
        if let Some(node) = inner.open.get(name).and_then(|n| n.upgrade()) {
            return node;
        }
        let content = inner.file(name).map_or(Content::Gone, |entry| entry.content);
        let node = Arc::new(Node::new(folder.clone(), name, content, made));
        if inner.open.len() >= 64 && inner.open.len().is_power_of_two() {
            inner.open.retain(|_, n| n.strong_count() > 0);
        }
        inner.open.insert(name.to_string(), Arc::downgrade(&node));
        node
    }

    /// A file of the logs that is open in this process, recorded as it is now.
    fn flushed(&self, folder: &Folder, name: &str) -> Result<()> {
        let node = folder.lock().open.get(name).and_then(|n| n.upgrade());
        match node {
            Some(node) if node.is_linked() => node.flush(),
            _ => Ok(()),
        }
    }

    /// A file's name leads nowhere or elsewhere from now on: what its bytes took beside the logs is given back.
    fn let_go(folder: &Folder, inner: &mut Inner, name: &str, old: Content) -> Result<()> {
        if let Some(node) = inner.open.remove(name).and_then(|n| n.upgrade()) {
            // Whoever has it open reads what was there.
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

    fn rename_file(&self, source: &Arc<Folder>, from: &str, to: &str) -> Result<()> {
        self.flushed(source, from)?;
        self.at(to, |target, last| {
            self.flushed(target, last)?;
            // The folder's bytes are read before any lock is held over both.
            let moved = source.lock().file(from).map(|entry| (entry.content, entry.kept));
            let Some((content, kept)) = moved else {
                return Err(errno::failure(Errno::NOENT, "rename", from));
            };
            let kept = kept.unwrap_or_else(|| first_kept(SystemTime::now()));
            let kept = Kept { ctime: SystemTime::now(), ..kept };
            let change = |name: &str, content, kept| Change {
                name: name.to_string(),
                stamp: None,
                content: Some(content),
                kept,
            };
            let mut inner = target.fresh()?;
            match target.real(&mut inner, last)? {
                Some(true) => return Err(errno::failure(Errno::ISDIR, "rename a file over a folder", to)),
                Some(false) => {
                    self.store.remove(&below(&inner.path, last))?;
                    inner.real.remove(last);
                }
                None => {}
            }
            let replaced = inner.file(last).map_or(Content::Gone, |entry| entry.content);
            if Arc::ptr_eq(source, target) {
                if inner.file(from).map(|e| e.content) != Some(content) {
                    return Err(errno::failure(Errno::BUSY, "rename a file that another process changes", from));
                }
                let changes = vec![change(from, Content::Gone, None), change(last, content, Some(kept))];
                target.record(&mut inner, changes, &[])?;
                Self::let_go(target, &mut inner, last, replaced)?;
                if let Some(node) = inner.open.remove(from) {
                    if let Some(node) = node.upgrade() {
                        node.rename(target, last);
                    }
                    inner.open.insert(last.to_string(), node);
                }
                return Ok(());
            }
            drop(inner);
            let node = source.lock().open.get(from).and_then(|n| n.upgrade());
            if let Some(node) = &node {
                node.gather()?;
            }
            // Under both names while it moves, so that a death in between loses it under neither.
            let twice = self.store.capability().attributes;
            match content {
                Content::Own { number } => {
                    let mut inner = target.fresh()?;
                    target.record(&mut inner, Vec::new(), &[])?;
                    let given = if twice { fresh() } else { number };
                    let old = format!("{}{}", hidden(&source.lock().path), log::own_name(number));
                    let new = format!("{}{}", hidden(&inner.path), log::own_name(given));
                    match twice {
                        true => self.store.make_hard_link(&old, &new)?,
                        false => self.store.rename(&old, &new)?,
                    }
                    if let Some(node) = &node {
                        node.renumber(given);
                    }
                    target.record(&mut inner, vec![change(last, Content::Own { number: given }, Some(kept))], &[])?;
                    Self::let_go(target, &mut inner, last, replaced)?;
                }
                _ => {
                    let bytes = match content {
                        Content::There { log, offset, length, crc } => source.bytes(log, offset, length, crc)?,
                        _ => Vec::new(),
                    };
                    let here = Content::Here { length: bytes.len() as u32, crc: crate::wire::crc32c(&bytes) };
                    let mut inner = target.fresh()?;
                    target.record(&mut inner, vec![change(last, here, Some(kept))], &bytes)?;
                    Self::let_go(target, &mut inner, last, replaced)?;
                }
            }
            // The new name is there before the old one goes.
            let mut inner = source.fresh()?;
            source.record(&mut inner, vec![change(from, Content::Gone, None)], &[])?;
            inner.open.remove(from);
            if let (true, Content::Own { number }) = (twice, content) {
                self.store.remove(&format!("{}{}", hidden(&inner.path), log::own_name(number)))?;
            }
            drop(inner);
            if let Some(node) = node {
                node.rename(target, last);
                target.lock().open.insert(last.to_string(), Arc::downgrade(&node));
            }
            self.publish(source)?;
            self.publish(target)
        })
    }

    /// After a change of names: seen by others, as a close is.
    fn publish(&self, folder: &Folder) -> Result<()> {
        if !self.store.capability().write_at && self.settings.publish_at_close {
            return folder.retire(&mut folder.lock());
        }
        Ok(())
    }

    fn rename_folder(&self, from: &str, to: &str) -> Result<()> {
        if to == from {
            return Ok(());
        }
        if to.starts_with(&format!("{from}/")) {
            return Err(errno::failure(Errno::INVAL, "rename a folder into itself", from));
        }
        if !self.store.capability().rename_folder {
            let what = format!("store {} renames no folders", self.store.describe());
            return Err(Error::new(ErrorKind::Unsupported, what).in_object(from));
        }
        // What the new name stands for now.
        let replaced = self.at(to, |folder, last| {
            let mut inner = folder.fresh()?;
            if inner.file(last).is_some() || folder.real(&mut inner, last)? == Some(false) {
                return Err(errno::failure(Errno::NOTDIR, "rename a folder over a file", to));
            }
            folder.real(&mut inner, last)
        })?;
        if replaced.is_some() {
            self.folder(to)?.clear()?;
            self.map().remove(to);
        }
        self.store.rename(from, to)?;
        // Folders in use go on under their new names.
        let below = format!("{from}/");
        let mut map = self.map();
        let moved: Vec<String> = map.keys().filter(|p| *p == from || p.starts_with(&below)).cloned().collect();
        // Other processes may use any of them under its old name.
        if self.store.capability().write_at {
            self.ring_below(to)?;
        }
        for path in moved {
            if let Some(folder) = map.remove(&path) {
                let new = format!("{to}{}", &path[from.len()..]);
                let mut inner = folder.lock();
                inner.path = new.clone();
                match folder.ring(&mut inner) {
                    // It was known here, and another process had moved it away before.
                    Err(e) if e.kind() == ErrorKind::NotFound => continue,
                    rung => rung?,
                }
                drop(inner);
                map.insert(new, folder);
            }
        }
        drop(map);
        for (path, there) in [(from, None), (to, Some(Some(true)))] {
            self.at(path, |folder, last| {
                let mut inner = folder.lock();
                match there {
                    Some(kind) => inner.real.insert(last.to_string(), kind),
                    None => inner.real.remove(last),
                };
                folder.ring(&mut inner)
            })?;
        }
        Ok(())
    }

    /// Tells other processes that a folder and those in it have other names now.
    fn ring_below(&self, folder: &str) -> Result<()> {
        Folder::ring_of(&*self.store, folder)?;
        for name in self.store.list(folder)?.iter().filter(|name| *name != HIDDEN) {
            let path = below(folder, name);
            match self.store.stat(&path) {
                Ok(about) if about.is_folder => self.ring_below(&path)?,
                Err(e) if e.kind() != ErrorKind::NotFound => return Err(e),
                _ => {}
            }
        }
        Ok(())
    }

    fn is_folder(&self, path: &str) -> Result<bool> {
        if name::relative(path)?.is_empty() {
            return Ok(true);
        }
        self.at(path, |folder, last| {
            let mut inner = folder.fresh()?;
            if inner.file(last).is_some() {
                return Ok(false);
            }
            match folder.real(&mut inner, last)? {
                Some(is_folder) => Ok(is_folder),
                None => Err(errno::failure(Errno::NOENT, "find", path)),
            }
        })
    }
}

impl Drop for SmallFile {
    fn drop(&mut self) {
        let _ = self.finish();
    }
}

impl Layout for SmallFile {
    fn concrete(&self) -> Option<&dyn std::any::Any> {
        Some(self)
    }

    fn describe(&self) -> String {
        format!("small_file over {}", self.store.describe())
    }

    fn open_write(&self, path: &str, how: OpenWrite, _writer: WriterId) -> Result<Box<dyn WriteObject>> {
        if name::relative(path)?.is_empty() {
            return Err(errno::failure(Errno::ISDIR, "open a folder for writing", path));
        }
        self.until_held(path, |folder, last| {
            let mut inner = if how == OpenWrite::Replace { folder.fresh_enough()? } else { folder.fresh()? };
            let exists = inner.file(last).is_some();
            if !exists && let Some(is_folder) = folder.real(&mut inner, last)? {
                return match is_folder {
                    true => Err(errno::failure(Errno::ISDIR, "open a folder for writing", path)),
                    // What lay there before stays an object of its own.
                    false => self.store.open_write(&below(&inner.path, last), how).map(Some),
                };
            }
            match how {
                OpenWrite::New if exists => return Err(errno::failure(Errno::EXIST, "make", path)),
                OpenWrite::Existing if !exists => return Err(errno::failure(Errno::NOENT, "open", path)),
                _ => {}
            }
            if !exists {
                let kept = first_kept(SystemTime::now());
                match how {
                    OpenWrite::New => {
                        let content = Some(Content::Here { length: 0, crc: 0 });
                        let change = Change { name: last.to_string(), stamp: None, content, kept: Some(kept) };
                        folder.record_new(&mut inner, last, change)?;
                    }
                    _ => inner.pretend(last, kept),
                }
            }
            let node = Self::open_node(folder, &mut inner, last, !exists && how != OpenWrite::New);
            drop(inner);
            if !Self::held(&node, true)? {
                return Ok(None);
            }
            if exists && how == OpenWrite::Replace {
                node.empty()?;
            }
            Ok(Some(Box::new(OpenToWrite(node)) as Box<dyn WriteObject>))
        })
    }

    fn open_read(&self, path: &str) -> Result<Box<dyn ReadObject>> {
        if name::relative(path)?.is_empty() {
            return Err(errno::failure(Errno::ISDIR, "read a folder", path));
        }
        self.until_held(path, |folder, last| {
            let mut inner = folder.fresh()?;
            if inner.file(last).is_some() {
                let node = Self::open_node(folder, &mut inner, last, false);
                drop(inner);
                return Ok(Self::held(&node, false)?.then(|| Box::new(OpenToRead(node)) as Box<dyn ReadObject>));
            }
            match folder.real(&mut inner, last)? {
                Some(true) => Err(errno::failure(Errno::ISDIR, "read a folder", path)),
                Some(false) => self.store.open_read(&below(&inner.path, last)).map(Some),
                None => Err(errno::failure(Errno::NOENT, "open", path)),
            }
        })
    }

    fn stat(&self, path: &str) -> Result<Stat> {
        if name::relative(path)?.is_empty() {
            return self.store.stat("");
        }
        self.at(path, |folder, last| {
            let mut inner = folder.fresh()?;
            let Some(entry) = inner.file(last).copied() else {
                return match folder.real(&mut inner, last)? {
                    Some(_) => self.store.stat(&below(&inner.path, last)),
                    None => Err(errno::failure(Errno::NOENT, "stat", path)),
                };
            };
            let node = inner.open.get(last).and_then(|n| n.upgrade());
            let node = node.unwrap_or_else(|| Arc::new(Node::new(folder.clone(), last, entry.content, false)));
            drop(inner);
            let identity = entry.kept.map_or(0, |kept| kept.identity);
            Ok(Stat { length: node.length()?, is_folder: false, identity })
        })
    }

    fn list(&self, folder: &str) -> Result<Vec<String>> {
        // As a name in it, so that a folder that went meanwhile is looked for again.
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
        let (from, to) = (name::relative(from)?.into_owned(), name::relative(to)?.into_owned());
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
        // The folder of the new name has to be there, whatever else is wrong.
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
                    let gone = Change { name: last.to_string(), stamp: None, content: Some(Content::Gone), kept: None };
                    folder.record(&mut inner, vec![gone], &[])?;
                    Self::let_go(folder, &mut inner, last, old)?;
                }
                folder.ring(&mut inner)
            }),
        }
    }

    fn remove(&self, path: &str) -> Result<()> {
        let plain = name::relative(path)?.into_owned();
        if plain.is_empty() {
            return Err(Error::new(ErrorKind::InvalidArgument, "cannot remove the root folder"));
        }
        self.at(path, |folder, last| {
            let mut inner = folder.fresh()?;
            if let Some(old) = inner.file(last).map(|e| e.content) {
                let gone = Change { name: last.to_string(), stamp: None, content: Some(Content::Gone), kept: None };
                folder.record(&mut inner, vec![gone], &[])?;
                Self::let_go(folder, &mut inner, last, old)?;
                drop(inner);
                return self.publish(folder);
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
        let plain = name::relative(path)?.into_owned();
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
        let plain = name::relative(path)?.into_owned();
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
        let plain = name::relative(path)?.into_owned();
        let about = self.stat(path)?;
        if !plain.is_empty() {
            let kept = self.at(path, |folder, last| {
                let inner = folder.lock();
                let Some(entry) = inner.file(last) else { return Ok(None) };
                let kept = entry.kept.unwrap_or_else(|| first_kept(UNIX_EPOCH));
                let node = inner.open.get(last).and_then(|node| node.upgrade());
                drop(inner);
                let written = node.and_then(|node| node.written());
                Ok(Some(Kept { mtime: written.unwrap_or(kept.mtime), ctime: written.unwrap_or(kept.ctime), ..kept }))
            })?;
            if let Some(kept) = kept {
                return Ok(kept.attributes(about.length));
            }
        }
        if self.store.capability().modes {
            let mut kept = self.store.attributes(&plain)?;
            if kept.kind == Kind::Folder
                && let Some(recorded) = Folder::recorded(&*self.store, &plain)?
                && recorded >= kept.ctime
            {
                // Not what a program set since.
                (kept.mtime, kept.ctime) = (recorded, recorded);
            }
            return Ok(kept);
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
        let plain = name::relative(path)?.into_owned();
        if plain.is_empty() {
            return self.store.set_attributes("", change);
        }
        self.at(path, |folder, last| {
            self.flushed(folder, last)?;
            let mut inner = folder.fresh()?;
            let Some(entry) = inner.file(last).copied() else {
                return match folder.real(&mut inner, last)? {
                    Some(_) => self.store.set_attributes(&plain, change),
                    None => Err(errno::failure(Errno::NOENT, "change attributes", path)),
                };
            };
            let now = SystemTime::now();
            let mut kept = entry.kept.unwrap_or_else(|| first_kept(now));
            if change.uid.is_some() || change.gid.is_some() {
                kept.uid = change.uid.unwrap_or(kept.uid);
                kept.gid = change.gid.unwrap_or(kept.gid);
                // As POSIX says of files that can be executed.
                if kept.mode & 0o111 != 0 {
                    kept.mode &= if kept.mode & 0o010 != 0 { !0o6000 } else { !0o4000 };
                }
            }
            kept.mode = change.mode.map_or(kept.mode, |mode| mode & 0o7777);
            kept.atime = change.atime.unwrap_or(kept.atime);
            kept.mtime = change.mtime.unwrap_or(kept.mtime);
            kept.ctime = now;
            let change = Change { name: last.to_string(), stamp: None, content: None, kept: Some(kept) };
            folder.record(&mut inner, vec![change], &[])?;
            drop(inner);
            self.publish(folder)
        })
    }

    fn truncate(&self, path: &str, length: u64) -> Result<()> {
        let object = self.open_write(path, OpenWrite::Existing, WriterId(0))?;
        object.truncate(length)?;
        object.close()
    }

    fn space(&self, path: &str) -> Result<Space> {
        let folder = if self.is_folder(path)? { path } else { name::folder_of(path) };
        self.store.space(folder)
    }

    /// Of what lay there before, and is no file of the logs.
    fn plain_file(&self, path: &str) -> Option<PathBuf> {
        let plain = name::relative(path).ok()?.into_owned();
        let beside = self.at(path, |folder, last| {
            let mut inner = folder.fresh()?;
            Ok(inner.file(last).is_none() && folder.real(&mut inner, last)?.is_some())
        });
        beside.ok()?.then(|| self.store.plain_file(&plain))?
    }
}
