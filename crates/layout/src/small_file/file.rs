//! An open small file: its bytes in memory until they are recorded, shared by all handles of this process.

use super::folder::{Folder, Inner, hidden};
use super::fresh;
use super::log;
use super::merge::{Base, Changes};
use super::record::{self, Change, Content, RecordedAttributes};
use crate::errno;
use rustix::io::Errno;
use std::io::IoSlice;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, MutexGuard};
use std::time::SystemTime;
use thalweg_store::{OpenWrite, ReadObject, WriteObject, pieces};
use thalweg_types::checksum::crc32c;
use thalweg_types::mutex::Mutex;
use thalweg_types::{Error, ErrorKind, Result};

/// How often a record is tried again after another process was first.
const TIMES: usize = 100;

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
        let own = Some(std::process::id());
        if self.dirty.is_some() && self.dirty != own {
            // The parent process publishes its own writes.
            self.changes = Changes::default();
        }
        (self.dirty, self.written) = (own, SystemTime::now());
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

    /// Bases its bytes on the version recorded under this name. Under the folder's lock.
    pub fn based_on(&self, inner: &Inner, name: &str) {
        let entry = inner.names.get(name);
        let recorded = entry.filter(|_| !self.made);
        let identity = recorded.and_then(|entry| entry.kept).map(|kept| kept.identity);
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
            place.0.kept_promise(self.promised.swap(0, Ordering::Relaxed));
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
    /// `NoSpace`, as far as the store can tell before a write.
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
    pub fn take_hold(&self, to_write: bool) -> Result<()> {
        let mut state = self.state();
        match state.bytes {
            Bytes::Recorded(Content::Own { .. }) | Bytes::OwnRead(..) => self.load(&mut state, to_write),
            _ => Ok(()),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
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
                        let moved = self.folder().fresh()?.file(&self.name()).map(|entry| entry.content);
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

    pub fn write_at(&self, offset: u64, slices: &[IoSlice<'_>]) -> Result<()> {
        self.put(Some(offset), slices).map(|_| ())
    }

    /// Writes at `offset`, or behind the end; returns where the bytes end.
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
            _ => Err(Error::new(ErrorKind::Io, "the file's bytes are not at hand")),
        }
    }

    /// Has room for a file that is to end at `end`: in the log, or in an object of its own.
    fn accept(&self, state: &mut State, end: u64) -> Result<()> {
        self.grow_out(state, end)?;
        match &state.bytes {
            Bytes::Memory(bytes) => self.promise(end.max(bytes.len() as u64)),
            _ => self.promise(0),
        }
    }

    /// Gives a file that becomes longer than small ones are an object of its own.
    fn grow_out(&self, state: &mut State, end: u64) -> Result<()> {
        let Bytes::Memory(_) = &state.bytes else { return Ok(()) };
        if end <= self.folder().settings.small {
            return Ok(());
        }
        let folder = self.folder();
        let store = &folder.store;
        if !store.capability().write_at {
            let what = format!(
                "a file of more than {} bytes: layout \"small_file\" keeps larger ones only on stores that write at any offset, not on {}; use \"container\"",
                self.folder().settings.small,
                store.describe()
            );
            return Err(Error::new(ErrorKind::Unsupported, what).in_object(self.name()).at_byte(end));
        }
        let mut inner = folder.fresh()?;
        if self.is_linked() {
            folder.room(&mut inner, (record::MOST_OF_CHANGE + self.name().len()) as u64)?;
        }
        self.keep_own(&folder, &mut inner, state, None)
    }

    /// Gives a file an object of its own, or goes on with the one that another process gave it.
    ///
    /// - `kept`: what is kept of it from now on, where that is not what follows from a write now.
    fn keep_own(
        &self,
        folder: &Folder,
        inner: &mut Inner,
        state: &mut State,
        kept: Option<RecordedAttributes>,
    ) -> Result<()> {
        let mut found = Ok(());
        for _ in 0..TIMES {
            if self.is_linked() {
                self.take_over(folder, inner, state)?;
            }
            let Bytes::Memory(bytes) = &state.bytes else { break };
            let written = self.change(inner, Content::Gone, SystemTime::now());
            let change = Change { kept: kept.or(written.kept), ..written };
            match self.to_own(folder, inner, change, &|object| object.write_at(0, &[IoSlice::new(bytes)]))? {
                Some((number, object)) => {
                    state.bytes = Bytes::Own(number, object);
                    state.changes = Changes::default();
                    break;
                }
                None => found = Err(errno::failure(Errno::BUSY, "write a file that others write", &self.name())),
            }
        }
        if matches!(state.bytes, Bytes::Memory(_)) { found } else { Ok(()) }
    }

    /// Fills an object of the file's own and records it, with what else `change` says; `None` where another process published
    /// something else meanwhile.
    pub(super) fn to_own(
        &self,
        folder: &Folder,
        inner: &mut Inner,
        change: Change,
        fill: &dyn Fn(&dyn WriteObject) -> Result<()>,
    ) -> Result<Option<(u64, Box<dyn WriteObject>)>> {
        let kept = change.kept.unwrap_or_else(|| first_kept(SystemTime::now()));
        let (number, object) = folder.own_object(inner, &kept, fill)?;
        if self.is_linked() {
            let (name, base) = (change.name.clone(), self.base());
            let before = inner.file(&name).map(|entry| entry.content);
            let change = Change { content: Some(Content::Own { number }), ..change };
            let recorded = folder.record_alone(inner, change, &[], &|inner| Node::is_behind(inner, &name, base));
            if !matches!(recorded, Ok(true)) {
                // Nobody knows of the object; the file is as it was.
                drop(object);
                let _ = folder.store.remove(&Folder::own(inner, number));
                return recorded.map(|_| None);
            }
            self.based_on(inner, &name);
            remove_own(folder, inner, before)?;
        }
        Ok(Some((number, object)))
    }

    /// Takes the bytes of a file out of a log that more users can read than the file, and records what is kept of it.
    ///
    /// - `others`: somebody has the file open besides.
    pub fn protect(&self, kept: RecordedAttributes, others: bool) -> Result<()> {
        let mut state = self.state();
        self.load(&mut state, false)?;
        let folder = self.folder();
        let mut inner = folder.fresh()?;
        if !self.is_linked() || !matches!(state.bytes, Bytes::Memory(_)) {
            return Ok(());
        }
        self.keep_own(&folder, &mut inner, &mut state, Some(kept))?;
        drop(inner);
        self.let_own_go(&mut state, others)
    }

    /// - `written`: when.
    fn change(&self, inner: &Inner, content: Content, written: SystemTime) -> Change {
        let name = self.name();
        let mut kept = inner.names.get(&name).and_then(|entry| entry.kept).unwrap_or_else(|| first_kept(written));
        (kept.mtime, kept.ctime) = (written, written);
        // New, and not recorded yet.
        let more = match inner.names.get(&name).is_some_and(|entry| entry.more.is_none()) {
            true => inner.nothing_more(&name),
            false => None,
        };
        Change { content: Some(content), kept: Some(kept), more, ..Change::of(&name) }
    }

    /// Cuts or extends it; a cut of what was there before is published at once, so that it takes nothing that others write later.
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
            _ => Err(Error::new(ErrorKind::Io, "the file's bytes are not at hand")),
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

    /// When it was written last, where that is not recorded yet.
    pub fn written(&self) -> Option<SystemTime> {
        let state = self.state();
        state.dirty.map(|_| state.written)
    }

    /// Records what is not recorded yet; other processes see it, where the store shows bytes at once.
    pub fn flush(&self) -> Result<()> {
        let mut state = self.state();
        if state.dirty != Some(std::process::id()) {
            return Ok(());
        }
        if self.is_linked() {
            // As new as anything that was recorded before, whoever did it.
            let folder = self.folder();
            let mut inner = folder.fresh_enough()?;
            self.record(&folder, &mut inner, &mut state)?;
        }
        state.changes = Changes::default();
        if let Bytes::Memory(bytes) = &state.bytes {
            state.base_length = bytes.len() as u64;
        }
        state.dirty = None;
        self.folder().kept_promise(self.promised.swap(0, Ordering::Relaxed));
        Ok(())
    }

    /// Records what this process changed, over what others published since.
    fn record(&self, folder: &Folder, inner: &mut Inner, state: &mut State) -> Result<()> {
        for _ in 0..TIMES {
            if !self.is_linked() {
                return Ok(());
            }
            self.take_over(folder, inner, state)?;
            let name = self.name();
            let bytes = match &state.bytes {
                Bytes::Memory(bytes) => bytes,
                Bytes::Own(..) => {
                    let mut change = self.change(inner, Content::Gone, state.written);
                    change.content = None;
                    return folder.record(inner, vec![change], &[]);
                }
                _ => return Ok(()),
            };
            let content = Content::Here { length: bytes.len() as u32, crc: crc32c(bytes) };
            let change = self.change(inner, content, state.written);
            let mode = change.kept.map_or(0o644, |kept| kept.mode);
            let grown = bytes.len() as u64 > folder.settings.small && folder.store.capability().write_at;
            if !bytes.is_empty() && (grown || folder.shows_more(inner, mode)?) {
                return self.keep_own(folder, inner, state, change.kept);
            }
            let before = inner.file(&name).map(|entry| entry.content);
            let base = self.base();
            if folder.record_alone(inner, change, bytes, &|inner| Node::is_behind(inner, &name, base))? {
                self.based_on(inner, &name);
                return remove_own(folder, inner, before);
            }
        }
        Err(errno::failure(Errno::BUSY, "write a file that others write", &self.name()))
    }

    /// As [`Node::flush`], and durable.
    pub fn sync(&self) -> Result<()> {
        self.flush()?;
        if let Bytes::Own(_, object) = &self.state().bytes {
            object.sync()?;
        }
        let folder = self.folder();
        let mut inner = folder.lock();
        if !folder.store.capability().write_at {
            // There, what is closed is durable and seen.
            return folder.retire(&mut inner);
        }
        if let Some(writer) = &mut inner.writer {
            writer.sync()?;
        }
        Ok(())
    }

    /// Closes the object of a file that grew out of the log.
    ///
    /// - `others`: somebody has the file open besides: the object is opened again first, as its name may be removed any time.
    fn close_own(&self, others: bool) -> Result<()> {
        self.let_own_go(&mut self.state(), others)
    }

    fn let_own_go(&self, state: &mut State, others: bool) -> Result<()> {
        let Bytes::Own(number, _) = state.bytes else { return Ok(()) };
        let next = match others {
            true => {
                let folder = self.folder();
                Bytes::Own(number, folder.store.open_write(&own(&folder, number), OpenWrite::Existing)?)
            }
            false => Bytes::Recorded(Content::Own { number }),
        };
        match std::mem::replace(&mut state.bytes, next) {
            Bytes::Own(_, object) => object.close(),
            _ => Ok(()),
        }
    }

    /// As [`Node::flush`], where a close has to be seen by others.
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

/// What is kept of a file that is made now.
pub fn first_kept(now: SystemTime) -> RecordedAttributes {
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

/// Appends to the object of a file, of which other processes may append to it.
pub(super) fn append_alone(object: &dyn WriteObject, slices: &[IoSlice<'_>]) -> Result<u64> {
    let _alone = match object.lock(true) {
        Err(e) if e.kind() == ErrorKind::Unsupported => None,
        outcome => outcome?,
    };
    object.append(slices)
}

/// Removes the object that a file had, now that its bytes are recorded elsewhere.
fn remove_own(folder: &Folder, inner: &Inner, before: Option<Content>) -> Result<()> {
    let Some(Content::Own { number }) = before else { return Ok(()) };
    match folder.store.remove(&Folder::own(inner, number)) {
        Err(e) if e.kind() != ErrorKind::NotFound => Err(e),
        _ => Ok(()),
    }
}

fn own(folder: &Folder, number: u64) -> String {
    format!("{}{}", hidden(&folder.lock().path), log::own_name(number))
}

/// A file open for writing.
pub struct OpenToWrite(pub Arc<Node>);

/// A file open for reading.
pub struct OpenToRead(pub Arc<Node>);

impl WriteObject for OpenToWrite {
    fn write_at(&self, offset: u64, pieces: &[IoSlice<'_>]) -> Result<()> {
        self.0.write_at(offset, pieces)
    }

    fn append(&self, pieces: &[IoSlice<'_>]) -> Result<u64> {
        self.0.put(None, pieces)
    }

    fn length(&self) -> Result<u64> {
        self.0.length()
    }

    fn read_at(&self, offset: u64, out: &mut [u8]) -> Result<usize> {
        self.0.read_at(offset, out)
    }

    fn truncate(&self, length: u64) -> Result<()> {
        self.0.truncate(length)
    }

    fn punch(&self, offset: u64, length: u64) -> Result<()> {
        self.0.punch(offset, length)
    }

    fn sync(&self) -> Result<()> {
        self.0.sync()
    }

    fn publish(&self) -> Result<()> {
        self.0.publish()
    }

    fn close(self: Box<Self>) -> Result<()> {
        let closed = self.0.publish();
        self.last(&closed);
        let others = Arc::strong_count(&self.0) > 1;
        // One that has no name any more could not be opened again.
        let ends = self.0.is_linked() || !others;
        closed.and_then(|()| if ends { self.0.close_own(others) } else { Ok(()) })
    }
}

impl Drop for OpenToWrite {
    fn drop(&mut self) {
        // Closed, there is nothing left to do; dropped without, nobody is there to be told of a failure.
        let outcome = self.0.publish();
        self.last(&outcome);
    }
}

impl OpenToWrite {
    /// A file that was made by this process, could not be recorded and is open no longer, is not there.
    fn last(&self, published: &Result<()>) {
        if published.is_err() && Arc::strong_count(&self.0) == 1 {
            self.0.give_up();
        }
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        let promised = *self.promised.get_mut();
        self.folder().kept_promise(promised);
    }
}

impl ReadObject for OpenToRead {
    fn length(&self) -> Result<u64> {
        self.0.length()
    }

    fn read_at(&self, offset: u64, out: &mut [u8]) -> Result<usize> {
        self.0.read_at(offset, out)
    }
}
