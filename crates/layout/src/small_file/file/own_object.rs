//! A small file with its own object: because it is larger than the log takes, or fewer users may read it than the log.

use super::{Bytes, Node, State, TIMES, initial_attributes};
use crate::errno;
use crate::small_file::folder::{Folder, Inner, hidden};
use crate::small_file::log;
use crate::small_file::merge::Changes;
use crate::small_file::record::{self, Change, Content, RecordedAttributes};
use rustix::io::Errno;
use std::io::IoSlice;
use std::time::SystemTime;
use thalweg_store::{OpenWrite, WriteObject};
use thalweg_types::{Error, ErrorKind, Result};

impl Node {
    /// Moves a file that becomes longer than `small` to its own object.
    pub(super) fn grow_out(&self, state: &mut State, end: u64) -> Result<()> {
        let Bytes::Memory(_) = &state.bytes else { return Ok(()) };
        if end <= self.folder().settings.small {
            return Ok(());
        }
        let folder = self.folder();
        let store = &folder.store;
        if !store.capability().write_at {
            let what = format!(
                "a file of more than {} bytes: layout \"small_file\" keeps larger files only on stores that write at any offset, not on {}; use \"container\"",
                self.folder().settings.small,
                store.describe()
            );
            return Err(Error::new(ErrorKind::Unsupported, what).in_object(self.name()).at_byte(end));
        }
        let mut inner = folder.fresh()?;
        if self.is_linked() {
            folder.room(&mut inner, (record::MOST_OF_CHANGE + self.name().len()) as u64)?;
        }
        self.keep_own(&folder, &mut inner, state, None).map(drop)
    }

    /// Moves a file to its own object, or uses the object that another process has created for it: `false`, and no attributes are
    /// recorded.
    ///
    /// - `stored`: its new attributes, if they are not those that follow from a write now.
    pub(super) fn keep_own(
        &self,
        folder: &Folder,
        inner: &mut Inner,
        state: &mut State,
        stored: Option<RecordedAttributes>,
    ) -> Result<bool> {
        for _ in 0..TIMES {
            if self.is_linked() {
                self.take_over(folder, inner, state)?;
            }
            let Bytes::Memory(bytes) = &state.bytes else { return Ok(false) };
            let written = self.change(inner, Content::Gone, SystemTime::now());
            let change = Change { stored: stored.or(written.stored), ..written };
            let fill = |object: &dyn WriteObject| object.write_at(0, &[IoSlice::new(bytes)]);
            if let Some((number, object)) = self.to_own(folder, inner, change, &fill)? {
                state.bytes = Bytes::Own(number, object);
                state.changes = Changes::default();
                return Ok(true);
            }
        }
        Err(errno::failure(Errno::BUSY, "write a file that others write", &self.name()))
    }

    /// Fills the file's own object and records it together with `change`; `None` if another process published another version
    /// meanwhile.
    pub(in crate::small_file) fn to_own(
        &self,
        folder: &Folder,
        inner: &mut Inner,
        change: Change,
        fill: &dyn Fn(&dyn WriteObject) -> Result<()>,
    ) -> Result<Option<(u64, Box<dyn WriteObject>)>> {
        let seen = inner.stored_stamp(&change.name);
        let stored = change.stored.unwrap_or_else(|| initial_attributes(SystemTime::now()));
        let (number, object) = folder.own_object(inner, &stored, fill)?;
        if self.is_linked() {
            let (name, base) = (change.name.clone(), self.base());
            let before = inner.file(&name).map(|entry| entry.content);
            let change_stored = change.stored;
            let change = Change { content: Some(Content::Own { number }), ..change };
            let late = |inner: &Inner| Node::is_behind(inner, &name, base) || inner.stored_stamp(&name) != seen;
            let recorded = folder.record_alone(inner, vec![change], &[], &late);
            let Ok(Some(stamp)) = recorded else {
                // The object is not recorded; the file is unchanged.
                drop(object);
                let _ = folder.store.remove(&Folder::own(inner, number));
                return recorded.map(|_| None);
            };
            self.based_on_own(stamp, change_stored);
            remove_own(folder, inner, before)?;
        }
        Ok(Some((number, object)))
    }

    /// Moves the bytes of a file out of a log that more users can read than the file, and records its attributes; `false` if they are
    /// not recorded, because another process removed the file or gave it an object.
    ///
    /// - `others`: the file has other open handles.
    pub fn protect(&self, stored: RecordedAttributes, others: bool) -> Result<bool> {
        let mut state = self.state();
        self.load(&mut state, false)?;
        let folder = self.folder();
        let mut inner = folder.fresh()?;
        if !self.is_linked() || !matches!(state.bytes, Bytes::Memory(_)) {
            return Ok(false);
        }
        let recorded = self.keep_own(&folder, &mut inner, &mut state, Some(stored))?;
        drop(inner);
        self.let_own_go(&mut state, others).map(|()| recorded)
    }

    /// Closes the file's own object.
    ///
    /// - `others`: the file has other open handles: the object is opened again first, because its name may be removed any time.
    pub(super) fn close_own(&self, others: bool) -> Result<()> {
        self.let_own_go(&mut self.state(), others)
    }

    pub(super) fn let_own_go(&self, state: &mut State, others: bool) -> Result<()> {
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
}

/// Appends to a file's own object under a lock, because other processes may append too.
pub(in crate::small_file) fn append_alone(object: &dyn WriteObject, slices: &[IoSlice<'_>]) -> Result<u64> {
    let _alone = match object.lock(true) {
        Err(e) if e.kind() == ErrorKind::Unsupported => None,
        outcome => outcome?,
    };
    object.append(slices)
}

/// Removes a file's former object after its bytes were recorded elsewhere.
pub(super) fn remove_own(folder: &Folder, inner: &Inner, before: Option<Content>) -> Result<()> {
    let Some(Content::Own { number }) = before else { return Ok(()) };
    match folder.store.remove(&Folder::own(inner, number)) {
        Err(e) if e.kind() != ErrorKind::NotFound => Err(e),
        _ => Ok(()),
    }
}

pub(super) fn own(folder: &Folder, number: u64) -> String {
    format!("{}{}", hidden(&folder.lock().path), log::own_name(number))
}
