//! An open small file: its bytes in memory until they are recorded, shared by all handles of this process.

mod handle;
mod own_object;

pub use handle::{OpenToRead, OpenToWrite};
pub(super) use own_object::append_alone;

use super::TIMES;
use super::folder::{Folder, Inner};
use super::fresh;
use super::merge::{Base, Changes};
use super::record::{self, Change, Content, RecordedAttributes, Stamp};
use crate::errno;
use own_object::{own, remove_own};
use rustix::io::Errno;
use std::io::IoSlice;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, MutexGuard};
use std::time::SystemTime;
use thalweg_store::{ReadObject, WriteObject, pieces};
use thalweg_types::checksum::crc32c;
use thalweg_types::mutex::Mutex;
use thalweg_types::{Error, ErrorKind, Result};

/// A file with open handles in this process.
pub struct Node {
    /// Folder and name; changed by renames, under the folder's lock.
    place: Mutex<(Arc<Folder>, String)>,
    linked: AtomicBool,
    /// Bytes of its record that the folder has reserved.
    promised: AtomicU64,
    /// It did not exist when it was opened; other processes may have created it at the same time.
    made: bool,
    /// The recorded version that the bytes are based on. Last in the lock order.
    base: Mutex<Base>,
    state: Mutex<State>,
}

pub(super) struct State {
    pub bytes: Bytes,
    /// Changes of this process since then, of bytes in memory.
    pub changes: Changes,
    /// Length of the version that the bytes are based on.
    pub base_length: u64,
    /// PID of the process that changed it since it was recorded; a forked child leaves its parent's changes to the parent.
    dirty: Option<u32>,
    /// Time of the last write.
    written: SystemTime,
}

pub(super) enum Bytes {
    /// In a log or object.
    Recorded(Content),
    Memory(Vec<u8>),
    /// In the file's own object: its number, and the open object.
    Own(u64, Box<dyn WriteObject>),
    /// The same, open for reading only.
    OwnRead(u64, Box<dyn ReadObject>),
}

impl State {
    /// This process changes the bytes.
    fn touch(&mut self) {
        let own = Some(thalweg_store::pid());
        if self.dirty.is_some() && self.dirty != own {
            // The parent process publishes its own writes.
            self.changes = Changes::default();
        }
        (self.dirty, self.written) = (own, SystemTime::now());
    }

    /// Whether it has changes that are not recorded yet.
    pub(super) fn is_changed(&self) -> bool {
        self.dirty.is_some()
    }
}

impl Node {
    /// - `made`: the file is new or was truncated: its bytes in memory are not recorded yet.
    pub fn new(folder: Arc<Folder>, name: &str, content: Content, made: bool) -> Node {
        let bytes = if made { Bytes::Memory(Vec::new()) } else { Bytes::Recorded(content) };
        let base_length = match content {
            Content::There { length, .. } if !made => u64::from(length),
            _ => 0,
        };
        Node {
            place: Mutex::new((folder, name.to_string())),
            linked: AtomicBool::new(true),
            promised: AtomicU64::new(0),
            made,
            base: Mutex::default(),
            state: Mutex::new(State {
                bytes,
                changes: Changes::default(),
                base_length,
                dirty: made.then(std::process::id),
                written: SystemTime::now(),
            }),
        }
    }

    /// The recorded version that its bytes are based on.
    pub(super) fn base(&self) -> Base {
        *self.base.lock()
    }

    /// Bases its bytes on this version from now on.
    pub(super) fn based(&self, base: Base) {
        *self.base.lock() = base;
    }

    /// Bases its bytes on the version that this process has recorded now. Not on the newest one: when its record had filled the log,
    /// the folder's view was refreshed and may include one of another process.
    pub(super) fn based_on_own(&self, stamp: Stamp, stored: Option<RecordedAttributes>) {
        let identity = stored.filter(|_| !self.made).map(|stored| stored.identity);
        self.based(Base { stamp, identity });
    }

    /// Bases its bytes on the version recorded under this name, whose bytes they are. Under the folder's lock.
    pub fn based_on(&self, inner: &Inner, name: &str) {
        let entry = inner.names.get(name);
        let recorded = entry.filter(|_| !self.made);
        let identity = recorded.and_then(|entry| entry.stored).map(|stored| stored.identity);
        self.based(Base { stamp: entry.map(|entry| entry.stamp).unwrap_or_default(), identity });
    }

    /// Whether its name still leads to it.
    pub fn is_linked(&self) -> bool {
        self.linked.load(Ordering::Acquire)
    }

    /// Its name is gone, or another file's. Under the folder's lock.
    pub fn unlink(&self) {
        self.linked.store(false, Ordering::Release);
    }

    /// Its new name. Under the folder's lock.
    pub fn rename(&self, folder: &Arc<Folder>, name: &str) {
        let mut place = self.place.lock();
        if !Arc::ptr_eq(&place.0, folder) {
            // The other folder reserves room for later writes.
            place.0.release_room(self.promised.swap(0, Ordering::Relaxed));
        }
        *place = (folder.clone(), name.to_string());
    }

    pub fn name(&self) -> String {
        self.place.lock().1.clone()
    }

    pub fn folder(&self) -> Arc<Folder> {
        self.place.lock().0.clone()
    }

    /// Reserves room for a record of so many bytes, so that an accepted write can be published later.
    ///
    /// # Errors
    /// `NoSpace`, if the store can determine it before a write.
    pub fn promise(&self, bytes: u64) -> Result<()> {
        let has = self.promised.load(Ordering::Relaxed);
        let needed = bytes.saturating_add((record::MOST_OF_CHANGE + self.name().len()) as u64);
        if needed <= has || !self.is_linked() {
            return Ok(());
        }
        let folder = self.folder();
        let mut inner = folder.lock();
        // Room is reserved ahead, so that a growing file needs no reservation at each write.
        let most = folder.settings.small.saturating_add(record::MOST_OF_CHANGE as u64);
        let ample = (2 * has).min(most).max(needed);
        let given = match folder.promise(&mut inner, ample - has) {
            Err(e) if e.kind() == ErrorKind::NoSpace && ample > needed => {
                folder.promise(&mut inner, needed - has)?;
                needed
            }
            other => other.map(|()| ample).map_err(|e| e.in_object(self.name()))?,
        };
        self.promised.store(given, Ordering::Relaxed);
        Ok(())
    }

    /// Forgets a file that this open created and that cannot be recorded. Not under the folder's lock.
    pub fn give_up(&self) {
        let mut state = self.state();
        if state.dirty.take().is_some() && self.is_linked() {
            self.folder().lock().forget_pretended(&self.name());
        }
    }

    /// Loads the bytes, so that their log may be removed.
    pub fn gather(&self) -> Result<()> {
        self.load(&mut self.state(), false)
    }

    /// Gives the file's own object another number.
    pub fn renumber(&self, given: u64) {
        match &mut self.state().bytes {
            Bytes::Own(number, _) | Bytes::OwnRead(number, _) | Bytes::Recorded(Content::Own { number }) => {
                *number = given
            }
            _ => {}
        }
    }

    /// Opens the file's own object, before another process removes its name.
    pub fn open_object(&self, to_write: bool) -> Result<()> {
        let mut state = self.state();
        match state.bytes {
            Bytes::Recorded(Content::Own { .. }) | Bytes::OwnRead(..) => self.load(&mut state, to_write),
            _ => Ok(()),
        }
    }

    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }

    /// Truncates it to zero bytes, as an open with `Replace` does.
    pub fn empty(&self) -> Result<()> {
        self.resize(0)
    }

    pub fn length(&self) -> Result<u64> {
        self.length_of(&self.state())
    }

    fn length_of(&self, state: &State) -> Result<u64> {
        match &state.bytes {
            Bytes::Memory(bytes) => Ok(bytes.len() as u64),
            Bytes::Own(_, object) => object.length(),
            Bytes::OwnRead(_, object) => object.length(),
            Bytes::Recorded(Content::There { length, .. } | Content::Here { length, .. }) => Ok(u64::from(*length)),
            Bytes::Recorded(Content::Own { number }) => {
                let name = own(&self.folder(), *number);
                Ok(self.folder().store.stat(&name)?.length)
            }
            Bytes::Recorded(Content::Gone | Content::Link) => Ok(0),
        }
    }

    /// Loads the bytes, or opens the object that has them.
    fn load(&self, state: &mut State, to_write: bool) -> Result<()> {
        let content = match &state.bytes {
            Bytes::Recorded(content) => *content,
            Bytes::OwnRead(number, _) if to_write => Content::Own { number: *number },
            _ => return Ok(()),
        };
        state.bytes = match content {
            Content::There { log, offset, length, crc } => {
                let bytes = match self.folder().bytes(log, offset, length, crc) {
                    // Another process compacted the logs meanwhile: look the bytes up again.
                    Err(e) if e.kind() == ErrorKind::NotFound && self.is_linked() => {
                        let folder = self.folder();
                        let inner = folder.fresh()?;
                        let moved = inner.file(&self.name()).filter(|entry| !self.base().is_other(Some(entry)));
                        let moved = moved.map(|entry| entry.content);
                        drop(inner);
                        match moved {
                            Some(Content::There { log, offset, length, crc }) => {
                                self.folder().bytes(log, offset, length, crc)?
                            }
                            _ => return Err(e),
                        }
                    }
                    other => other?,
                };
                Bytes::Memory(bytes)
            }
            Content::Own { number } => {
                let folder = self.folder();
                match to_write {
                    true => {
                        let (number, object) = self.open_own(&folder, &mut folder.lock(), number)?;
                        Bytes::Own(number, object)
                    }
                    false => Bytes::OwnRead(number, folder.store.open_read(&own(&folder, number))?),
                }
            }
            Content::Here { .. } | Content::Gone | Content::Link => Bytes::Memory(Vec::new()),
        };
        Ok(())
    }

    pub fn read_at(&self, offset: u64, out: &mut [u8]) -> Result<usize> {
        let mut state = self.state();
        self.load(&mut state, false)?;
        match &state.bytes {
            Bytes::Memory(bytes) => {
                let there = usize::try_from(offset).ok().and_then(|at| bytes.get(at..)).unwrap_or_default();
                let count = there.len().min(out.len());
                out[..count].copy_from_slice(&there[..count]);
                Ok(count)
            }
            Bytes::Own(_, object) => object.read_at(offset, out),
            Bytes::OwnRead(_, object) => object.read_at(offset, out),
            Bytes::Recorded(_) => Ok(0),
        }
    }

    /// As [`ReadObject::stored_before`]: files that are kept in memory have no holes.
    pub fn stored_before(&self, offset: u64) -> Result<u64> {
        let mut state = self.state();
        self.load(&mut state, false)?;
        match &state.bytes {
            Bytes::Own(_, object) => object.stored_before(offset),
            Bytes::OwnRead(_, object) => object.stored_before(offset),
            Bytes::Memory(_) | Bytes::Recorded(_) => Ok(offset),
        }
    }

    pub fn write_at(&self, offset: u64, slices: &[IoSlice<'_>]) -> Result<()> {
        self.put(Some(offset), slices).map(|_| ())
    }

    /// Writes at `offset`, or appends for `None`; returns the end of the written bytes.
    pub fn put(&self, offset: Option<u64>, slices: &[IoSlice<'_>]) -> Result<u64> {
        let total = pieces::total(slices);
        let mut state = self.state();
        if offset.is_none() {
            self.load(&mut state, true)?;
        }
        let appends = offset.is_none();
        let offset = match offset {
            Some(offset) => offset,
            None => self.length_of(&state)?,
        };
        let beyond = || {
            Error::new(ErrorKind::OutOfBounds, "file offsets end at 2^63 - 1").in_object(self.name()).at_byte(offset)
        };
        let end = offset.checked_add(total).filter(|end| *end <= i64::MAX as u64).ok_or_else(beyond)?;
        if total == 0 {
            return Ok(end);
        }
        self.load(&mut state, true)?;
        self.accept(&mut state, end)?;
        state.touch();
        let State { bytes, changes, .. } = &mut *state;
        match bytes {
            Bytes::Memory(bytes) => {
                match appends {
                    true => changes.appended(offset, end),
                    false => changes.wrote(offset, end),
                }
                let (mut at, end) = (offset as usize, end as usize);
                if at == bytes.len() {
                    slices.iter().for_each(|piece| bytes.extend_from_slice(piece));
                    return Ok(end as u64);
                }
                if bytes.len() < end {
                    bytes.resize(end, 0);
                }
                for piece in slices {
                    bytes[at..at + piece.len()].copy_from_slice(piece);
                    at += piece.len();
                }
                Ok(end as u64)
            }
            Bytes::Own(_, object) if appends => append_alone(&**object, slices),
            Bytes::Own(_, object) => object.write_at(offset, slices).map(|()| end),
            _ => Err(Error::new(ErrorKind::Io, "the file's bytes are not loaded")),
        }
    }

    /// Reserves room for a file that will end at `end`: in the log, or in its own object.
    fn accept(&self, state: &mut State, end: u64) -> Result<()> {
        self.grow_out(state, end)?;
        match &state.bytes {
            Bytes::Memory(bytes) => self.promise(end.max(bytes.len() as u64)),
            _ => self.promise(0),
        }
    }

    /// - `written`: time of the write.
    fn change(&self, inner: &Inner, content: Content, written: SystemTime) -> Change {
        let name = self.name();
        let mut stored =
            inner.names.get(&name).and_then(|entry| entry.stored).unwrap_or_else(|| initial_attributes(written));
        (stored.mtime, stored.ctime) = (written, written);
        // A new file that is not recorded yet.
        let more = match inner.names.get(&name).is_some_and(|entry| entry.more.is_none()) {
            true => inner.nothing_more(&name),
            false => None,
        };
        Change { content: Some(content), stored: Some(stored), more, ..Change::of(&name) }
    }

    /// Truncates or extends the file. A truncation is published immediately, so that it removes nothing that others write later.
    pub fn truncate(&self, length: u64) -> Result<()> {
        let cuts = length < self.length()?;
        self.resize(length)?;
        if cuts && self.is_linked() { self.flush() } else { Ok(()) }
    }

    fn resize(&self, length: u64) -> Result<()> {
        if length > i64::MAX as u64 {
            let what = "file offsets end at 2^63 - 1";
            return Err(Error::new(ErrorKind::OutOfBounds, what).in_object(self.name()).at_byte(length));
        }
        let mut state = self.state();
        if length == 0 && matches!(state.bytes, Bytes::Recorded(Content::There { .. })) {
            state.bytes = Bytes::Memory(Vec::new());
        }
        self.load(&mut state, true)?;
        self.accept(&mut state, length)?;
        state.touch();
        let State { bytes, changes, base_length, .. } = &mut *state;
        match bytes {
            Bytes::Memory(bytes) => {
                changes.resized(length, *base_length);
                bytes.resize(length as usize, 0);
                Ok(())
            }
            Bytes::Own(_, object) => object.truncate(length),
            _ => Err(Error::new(ErrorKind::Io, "the file's bytes are not loaded")),
        }
    }

    pub fn punch(&self, offset: u64, length: u64) -> Result<()> {
        let mut state = self.state();
        self.load(&mut state, true)?;
        state.touch();
        let State { bytes, changes, .. } = &mut *state;
        match bytes {
            Bytes::Memory(bytes) => {
                let from = usize::try_from(offset).unwrap_or(usize::MAX).min(bytes.len());
                let to = usize::try_from(offset.saturating_add(length)).unwrap_or(usize::MAX).min(bytes.len());
                bytes[from..to].fill(0);
                changes.wrote(from as u64, to as u64);
                Ok(())
            }
            Bytes::Own(_, object) => object.punch(offset, length),
            _ => Ok(()),
        }
    }

    /// Time of the last write, if it is not recorded yet.
    pub fn written(&self) -> Option<SystemTime> {
        let state = self.state();
        state.dirty.map(|_| state.written)
    }

    /// Records unrecorded changes; other processes see them if the store shows bytes immediately.
    pub fn flush(&self) -> Result<()> {
        let mut state = self.state();
        if state.dirty != Some(thalweg_store::pid()) {
            return Ok(());
        }
        if self.is_linked() {
            // Refreshed first, so that the record is newer than all earlier ones.
            let folder = self.folder();
            let mut inner = folder.fresh_enough()?;
            self.record(&folder, &mut inner, &mut state)?;
        }
        state.changes = Changes::default();
        if let Bytes::Memory(bytes) = &state.bytes {
            state.base_length = bytes.len() as u64;
        }
        state.dirty = None;
        self.folder().release_room(self.promised.swap(0, Ordering::Relaxed));
        Ok(())
    }

    /// Records this process's changes, merged over the version that others published since.
    fn record(&self, folder: &Folder, inner: &mut Inner, state: &mut State) -> Result<()> {
        for _ in 0..TIMES {
            if !self.is_linked() {
                return Ok(());
            }
            self.take_over(folder, inner, state)?;
            let name = self.name();
            let seen = inner.stored_stamp(&name);
            let bytes = match &state.bytes {
                Bytes::Memory(bytes) => bytes,
                Bytes::Own(..) => {
                    let mut change = self.change(inner, Content::Gone, state.written);
                    change.content = None;
                    match folder.record_alone(inner, vec![change], &[], &|inner| inner.stored_stamp(&name) != seen)? {
                        Some(_) => return Ok(()),
                        None => continue,
                    }
                }
                _ => return Ok(()),
            };
            let content = Content::Here { length: bytes.len() as u32, crc: crc32c(bytes) };
            let change = self.change(inner, content, state.written);
            let mode = change.stored.map_or(0o644, |stored| stored.mode);
            let grown = bytes.len() as u64 > folder.settings.small && folder.store.capability().write_at;
            if !bytes.is_empty() && (grown || folder.shows_more(inner, mode)?) {
                return self.keep_own(folder, inner, state, change.stored).map(drop);
            }
            let before = inner.file(&name).map(|entry| entry.content);
            let (base, stored) = (self.base(), change.stored);
            let late = |inner: &Inner| Node::is_behind(inner, &name, base) || inner.stored_stamp(&name) != seen;
            // After an open with truncation, what others publish at the same time need not stay: one record, while no other process is
            // known.
            let recorded = match state.changes.empties() && !folder.is_shared(inner) {
                true => Some(folder.record(inner, vec![change], bytes)?),
                false => folder.record_alone(inner, vec![change], bytes, &late)?,
            };
            if let Some(stamp) = recorded {
                self.based_on_own(stamp, stored);
                return remove_own(folder, inner, before);
            }
        }
        Err(errno::failure(Errno::BUSY, "write a file that others write", &self.name()))
    }

    /// Like [`Node::flush`], and makes the bytes durable. Without changes to record, shows what other processes published.
    pub fn sync(&self) -> Result<()> {
        let changed = self.state().is_changed();
        if changed {
            self.flush()?;
        } else if self.is_linked() {
            drop(self.folder().fresh()?);
            self.catch_up();
        }
        if let Bytes::Own(_, object) = &self.state().bytes {
            object.sync()?;
        }
        let folder = self.folder();
        let mut inner = folder.lock();
        if !folder.store.capability().write_at {
            // On such a store, closed objects are durable and visible.
            return folder.retire(&mut inner);
        }
        if let Some(writer) = &mut inner.writer {
            writer.sync()?;
        }
        Ok(())
    }

    /// Like [`Node::flush`]; also ends the log if the store needs that to show a closed file to other processes.
    pub fn publish(&self) -> Result<()> {
        self.flush()?;
        if !self.folder().store.capability().write_at && self.folder().settings.publish_at_close {
            let folder = self.folder();
            let mut inner = folder.lock();
            return folder.retire(&mut inner);
        }
        Ok(())
    }
}

/// Attributes of a file that is created now.
pub fn initial_attributes(now: SystemTime) -> RecordedAttributes {
    RecordedAttributes {
        mode: 0o644,
        uid: rustix::process::geteuid().as_raw(),
        gid: rustix::process::getegid().as_raw(),
        atime: now,
        mtime: now,
        ctime: now,
        identity: fresh(),
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        let promised = *self.promised.get_mut();
        self.folder().release_room(promised);
    }
}
