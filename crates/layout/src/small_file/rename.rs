//! Renames of files and folders.
//!
//! | question | answer |
//! |---|---|
//! | within a folder | one record for both names. The bytes stay where they are: a compaction waits for intended renames before it removes logs |
//! | another process changes the file meanwhile | the rename begins again with that version |
//! | into another folder | recorded under the new name first, then removed under the old one: a process that dies in between leaves it under both names |
//! | a file with its own object | the object has two hard links while it moves, and is locked. A process that writes an unlocked object with two links copies it first: the mover has died, and the names are two files |
//! | a folder | the store's rename; folders in use below it continue under their new names, and the bells of other processes ring |

use super::file::{Node, initial_attributes};
use super::folder::{Folder, Inner, below, hidden};
use super::merge::Base;
use super::record::{Change, Content, RecordedAttributes, Stamp};
use super::{HIDDEN, SmallFile, TIMES, fresh, log};
use crate::errno;
use rustix::io::Errno;
use std::io::IoSlice;
use std::sync::Arc;
use std::time::SystemTime;
use thalweg_store::{Lease, OpenWrite, Store, WriteObject, name};
use thalweg_types::checksum::crc32c;
use thalweg_types::{Error, ErrorKind, Result};

impl SmallFile {
    pub(super) fn rename_file(&self, source: &Arc<Folder>, from: &str, to: &str) -> Result<()> {
        for _ in 0..TIMES {
            if self.rename_once(source, from, to)? {
                return Ok(());
            }
        }
        Err(errno::failure(Errno::BUSY, "rename a file that others change", from))
    }

    /// Renames a file; `false` if another process changed it meanwhile: it still has its old name, and perhaps the new one too.
    fn rename_once(&self, source: &Arc<Folder>, from: &str, to: &str) -> Result<bool> {
        self.flushed(source, from)?;
        self.at(to, |target, last| {
            self.flushed(target, last)?;
            // The bytes are read before both folders are locked.
            let Some(seen) = source.lock().file(from).cloned() else {
                return Err(errno::failure(Errno::NOENT, "rename", from));
            };
            let (content, more) = (seen.content, seen.more.clone());
            let late = |inner: &Inner| inner.differs(from, &seen);
            let stored = seen.stored.unwrap_or_else(|| initial_attributes(SystemTime::now()));
            let stored = RecordedAttributes { ctime: SystemTime::now(), ..stored };
            let more = more.map(|more| (*more).clone());
            let change =
                |name: &str, content, stored, more| Change { content: Some(content), stored, more, ..Change::of(name) };
            let mut inner = target.fresh()?;
            // An object that existed before the mount is removed after the new name, which hides it, is recorded.
            if target.real(&mut inner, last)? == Some(true) {
                return Err(errno::failure(Errno::ISDIR, "rename a file over a folder", to));
            }
            let replaced = inner.file(last).map_or(Content::Gone, |entry| entry.content);
            // The moved file does not inherit the replaced file's extended attributes.
            let more = more.or_else(|| inner.nothing_more(last));
            if Arc::ptr_eq(source, target) {
                let changes = vec![change(from, Content::Gone, None, None), change(last, content, Some(stored), more)];
                if target.record_alone(&mut inner, changes, &[], &late)?.is_none() {
                    return Ok(false);
                }
                Self::let_go(target, &mut inner, last, replaced)?;
                self.remove_hidden_object(target, &mut inner, last)?;
                if let Some(node) = inner.open.remove(from) {
                    if let Some(node) = node.upgrade() {
                        node.rename(target, last);
                    }
                    inner.open.insert(last.to_string(), node);
                }
                return Ok(true);
            }
            drop(inner);
            let node = source.lock().open.get(from).and_then(|n| n.upgrade());
            if let Some(node) = &node {
                node.gather()?;
            }
            // Under both names while it moves: if the process dies in between, the file has both.
            let twice = self.store.capability().attributes;
            let mut _moves = None;
            match content {
                Content::Own { number } => {
                    let mut inner = target.fresh()?;
                    target.record(&mut inner, Vec::new(), &[])?;
                    let given = fresh();
                    let old = format!("{}{}", hidden(&source.lock().path), log::own_name(number));
                    let new = format!("{}{}", hidden(&inner.path), log::own_name(given));
                    match twice {
                        true => {
                            let object = self.store.open_write(&old, OpenWrite::Existing)?;
                            _moves = locked(&*object, true)?.map(|lock| (lock, object));
                            self.store.make_hard_link(&old, &new)?;
                        }
                        false => self.copy(&old, &new)?,
                    }
                    let own = Content::Own { number: given };
                    if let Err(e) = target.record(&mut inner, vec![change(last, own, Some(stored), more)], &[]) {
                        // The first failure is reported.
                        let _ = self.store.remove(&new);
                        return Err(e);
                    }
                    if let Some(node) = &node {
                        node.renumber(given);
                    }
                    Self::let_go(target, &mut inner, last, replaced)?;
                    self.remove_hidden_object(target, &mut inner, last)?;
                }
                Content::Link => {
                    let mut inner = target.fresh()?;
                    target.record(&mut inner, vec![change(last, Content::Link, Some(stored), more)], &[])?;
                    Self::let_go(target, &mut inner, last, replaced)?;
                    self.remove_hidden_object(target, &mut inner, last)?;
                }
                _ => {
                    let bytes = match content {
                        Content::There { log, offset, length, crc } => source.bytes(log, offset, length, crc)?,
                        _ => Vec::new(),
                    };
                    let here = Content::Here { length: bytes.len() as u32, crc: crc32c(&bytes) };
                    let mut inner = target.fresh()?;
                    if !bytes.is_empty() && target.shows_more(&mut inner, stored.mode)? {
                        let fill = |object: &dyn WriteObject| object.write_at(0, &[IoSlice::new(&bytes)]);
                        let (number, object) = target.own_object(&mut inner, &stored, &fill)?;
                        let own = Content::Own { number };
                        if let Err(e) = target.record(&mut inner, vec![change(last, own, Some(stored), more)], &[]) {
                            drop(object);
                            let _ = self.store.remove(&Folder::own(&inner, number));
                            return Err(e);
                        }
                        object.close()?;
                    } else {
                        target.record(&mut inner, vec![change(last, here, Some(stored), more)], &bytes)?;
                    }
                    Self::let_go(target, &mut inner, last, replaced)?;
                    self.remove_hidden_object(target, &mut inner, last)?;
                }
            }
            // The new name is recorded before the old one is removed.
            let mut inner = source.fresh()?;
            if source.record_alone(&mut inner, vec![change(from, Content::Gone, None, None)], &[], &late)?.is_none() {
                return Ok(false);
            }
            inner.open.remove(from);
            if let Content::Own { number } = content {
                self.store.remove(&format!("{}{}", hidden(&inner.path), log::own_name(number)))?;
            }
            drop(inner);
            if let Some(node) = node {
                let mut inner = target.lock();
                node.rename(target, last);
                // Stamps of the other folder do not compare with those of this one.
                node.based(Base { stamp: Stamp::default(), ..node.base() });
                inner.open.insert(last.to_string(), Arc::downgrade(&node));
            }
            self.publish(source)?;
            self.publish(target).map(|()| true)
        })
    }

    /// Removes an object that existed before the mount under a name that is now a file of the logs.
    fn remove_hidden_object(&self, folder: &Folder, inner: &mut Inner, name: &str) -> Result<()> {
        if inner.real.contains_key(name) {
            match self.store.remove(&below(&inner.path, name)) {
                Err(e) if e.kind() != ErrorKind::NotFound => return Err(e),
                _ => {}
            }
            inner.real.remove(name);
            return folder.ring(inner);
        }
        Ok(())
    }

    pub(super) fn rename_folder(&self, from: &str, to: &str) -> Result<()> {
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
        // Kind of the new name now.
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
        // The rename is done: first this process's view is updated, then bells ring, whatever fails.
        for (path, there) in [(from, None), (to, Some(Some(true)))] {
            if let Some(above) = self.map().get(name::folder_of(path)) {
                let mut inner = above.lock();
                let last = name::last_part(path).to_string();
                match there {
                    Some(kind) => inner.real.insert(last, kind),
                    None => inner.real.remove(&last),
                };
                inner.unrung = true;
            }
        }
        // Folders in use continue under their new names.
        let below = format!("{from}/");
        let mut outcome = Ok(());
        let mut map = self.map();
        let moved: Vec<String> = map.keys().filter(|p| *p == from || p.starts_with(&below)).cloned().collect();
        // Other processes may use any of them under the old name.
        if self.store.capability().write_at {
            outcome = self.ring_below(to);
        }
        for path in moved {
            if let Some(folder) = map.remove(&path) {
                let new = format!("{to}{}", &path[from.len()..]);
                let mut inner = folder.lock();
                inner.path = new.clone();
                match folder.ring(&mut inner) {
                    // Known here, but another process had moved it away before.
                    Err(e) if e.kind() == ErrorKind::NotFound => continue,
                    // Its bell rings at its next use.
                    rung => outcome = outcome.and(rung),
                }
                drop(inner);
                map.insert(new, folder);
            }
        }
        drop(map);
        for path in [from, to] {
            outcome = outcome.and(self.at(path, |folder, _| folder.ring(&mut folder.lock())));
        }
        outcome
    }

    /// Copies an object, on stores without hard links.
    fn copy(&self, from: &str, to: &str) -> Result<()> {
        let copied = (|| {
            let (source, target) = (self.store.open_read(from)?, self.store.open_write(to, OpenWrite::New)?);
            copy(|at, out| source.read_at(at, out), &*target)?;
            target.close()
        })();
        if copied.is_err() {
            let _ = self.store.remove(to);
        }
        copied
    }

    /// Rings the bells of a folder and of those in it, which have new names.
    pub(super) fn ring_below(&self, folder: &str) -> Result<()> {
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
}

fn copy(read: impl Fn(u64, &mut [u8]) -> Result<usize>, target: &dyn WriteObject) -> Result<()> {
    let mut buffer = vec![0; 1 << 20];
    let mut at = 0;
    loop {
        match read(at, &mut buffer)? {
            0 => return Ok(()),
            got => {
                target.write_at(at, &[IoSlice::new(&buffer[..got])])?;
                at += got as u64;
            }
        }
    }
}

/// Locks an object while it moves, which shows that its process lives. `None` if the store cannot lock, or if the object is locked and
/// `wait` is not set.
fn locked(object: &dyn WriteObject, wait: bool) -> Result<Option<Lease>> {
    match object.lock(wait) {
        Err(e) if e.kind() == ErrorKind::Unsupported => Ok(None),
        lock => lock,
    }
}

/// Whether a process died while it gave the object of a file its second hard link, in another folder.
fn left_with_two_names(store: &dyn Store, name: &str, object: &dyn WriteObject) -> Result<bool> {
    if !store.capability().attributes {
        return Ok(false);
    }
    let two = || match object.attributes() {
        Err(e) if e.kind() == ErrorKind::Unsupported => match store.attributes(name) {
            Err(e) if e.kind() == ErrorKind::NotFound => Ok(false),
            about => Ok(about?.links > 1),
        },
        about => Ok(about?.links > 1),
    };
    // A locked object is being moved or appended to: it is one file.
    let Some(_lock) = (if two()? { locked(object, false)? } else { None }) else { return Ok(false) };
    two()
}

impl Node {
    /// Opens a file's own object for writing; a copy of it if a dead process left it two hard links, each of which is a file.
    pub(super) fn open_own(
        &self,
        folder: &Folder,
        inner: &mut Inner,
        number: u64,
    ) -> Result<(u64, Box<dyn WriteObject>)> {
        let name = Folder::own(inner, number);
        let object = folder.store.open_write(&name, OpenWrite::Existing)?;
        if !self.is_linked() || !left_with_two_names(&*folder.store, &name, &*object)? {
            return Ok((number, object));
        }
        // The attributes of the file stay.
        let stored = inner.names.get(&self.name()).and_then(|entry| entry.stored);
        let change = Change { stored, ..Change::of(&self.name()) };
        let parted = self.to_own(folder, inner, change, &|to| copy(|at, out| object.read_at(at, out), to))?;
        parted.ok_or_else(|| errno::failure(Errno::BUSY, "write a file that others write", &self.name()))
    }
}
