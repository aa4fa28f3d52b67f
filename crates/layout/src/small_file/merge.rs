//! Merging concurrent writes of one file: a process keeps its unpublished changes and applies them over the version that another process has published since.
//!
//! | question | answer |
//! |---|---|
//! | how another writer is noticed | the stamp of the file's content differs from the version that this process started with |
//! | bytes written at an offset | replace the other's bytes at that offset |
//! | bytes appended | go to the end of the other's version if that has another length |
//! | truncation | becomes visible immediately and removes published bytes; an open with truncation replaces the version at its open, and everything that others publish until its close |
//! | file removed, or another file under its name | `ESTALE`, nothing is recorded |
//! | what open handles show | this process's changes over the version that it started with. Without unpublished changes: the newest version that a later open, `stat` or sync of the file in this process found |
//! | two processes at the same time | each records its intent, refreshes its view, then records its version: one after the other. Only after an open with truncation, and while no other process is known to write in the folder, the version alone |

use super::file::{Bytes, Node, State, append_alone};
use super::folder::{Entry, Folder, Inner};
use super::record::{Content, Stamp};
use crate::errno;
use rustix::io::Errno;
use std::collections::BTreeMap;
use std::io::IoSlice;
use thalweg_store::WriteObject;
use thalweg_types::Result;

/// The recorded version that bytes in memory are based on.
#[derive(Debug, Clone, Copy, Default)]
pub struct Base {
    /// When it was recorded.
    pub stamp: Stamp,
    /// Identity of that file; `None` for a file that this process created, perhaps at the same time as others.
    pub identity: Option<u64>,
}

impl Base {
    /// Whether the file that has the name now is known to be another one.
    pub(super) fn is_other(&self, entry: Option<&Entry>) -> bool {
        let there = entry.and_then(|entry| entry.stored).map(|stored| stored.identity);
        self.identity.zip(there).is_some_and(|(ours, theirs)| ours != theirs)
    }
}

/// Changes of this process since then.
#[derive(Debug, Default)]
pub struct Changes {
    /// First byte and end of written ranges, disjoint.
    written: BTreeMap<u64, u64>,
    /// First byte and end of appended ranges, in order.
    appended: Vec<(u64, u64)>,
    /// The smallest length that the file was truncated to.
    cut: Option<u64>,
    /// Least length of the file.
    reach: u64,
    /// It was truncated to zero bytes: earlier bytes do not count.
    emptied: bool,
}

impl Changes {
    /// Bytes `from..to` were written.
    pub fn wrote(&mut self, mut from: u64, mut to: u64) {
        while let Some((at, end)) = self.written.range(..=to).next_back().map(|(at, end)| (*at, *end)) {
            if end < from {
                break;
            }
            self.written.remove(&at);
            (from, to) = (from.min(at), to.max(end));
        }
        self.written.insert(from, to);
    }

    /// Bytes `from..to` were appended.
    pub fn appended(&mut self, from: u64, to: u64) {
        match self.appended.last_mut() {
            Some((_, end)) if *end == from => *end = to,
            _ => self.appended.push((from, to)),
        }
    }

    /// The length was set.
    ///
    /// - `base`: length of the version that this process started with.
    pub fn resized(&mut self, length: u64, base: u64) {
        self.written.split_off(&length);
        self.written.values_mut().for_each(|end| *end = length.min(*end));
        self.appended.retain(|(from, _)| *from < length);
        self.appended.iter_mut().for_each(|(_, end)| *end = length.min(*end));
        if length < base {
            self.cut = Some(self.cut.map_or(length, |cut| cut.min(length)));
        }
        self.reach = length;
        self.emptied |= length == 0;
    }

    /// Whether the file was truncated to zero bytes, at its open or later.
    pub(super) fn empties(&self) -> bool {
        self.emptied
    }

    /// Whether no published byte of other processes remains.
    fn replaces(&self) -> bool {
        self.cut == Some(0)
    }

    /// Applies these changes of `ours` over `theirs`.
    ///
    /// - `base`: length of the version that this process started with.
    fn over(&mut self, ours: &[u8], mut theirs: Vec<u8>, base: u64) -> Vec<u8> {
        let moved = theirs.len() as u64 != base;
        if let Some(cut) = self.cut {
            theirs.truncate(usize::try_from(cut).unwrap_or(usize::MAX));
        }
        let mut put = |at: u64, bytes: &[u8]| {
            let (at, end) = (at as usize, at as usize + bytes.len());
            if theirs.len() < end {
                theirs.resize(end, 0);
            }
            theirs[at..end].copy_from_slice(bytes);
            theirs.len() as u64
        };
        let mut length = put(0, &[]);
        for (from, to) in &self.written {
            length = put(*from, &ours[*from as usize..*to as usize]);
        }
        if self.reach > length {
            length = put(self.reach, &[]);
        }
        for (from, to) in &mut self.appended {
            let bytes = &ours[*from as usize..*to as usize];
            let at = if moved { length } else { *from };
            length = put(at, bytes);
            (*from, *to) = (at, at + bytes.len() as u64);
        }
        theirs
    }

    /// Writes these changes of `ours` into the file's own object.
    fn put_into(&self, ours: &[u8], object: &dyn WriteObject) -> Result<()> {
        if let Some(cut) = self.cut
            && object.length()? > cut
        {
            object.truncate(cut)?;
        }
        for (from, to) in &self.written {
            object.write_at(*from, &[IoSlice::new(&ours[*from as usize..*to as usize])])?;
        }
        if self.reach > object.length()? {
            object.truncate(self.reach)?;
        }
        for (from, to) in &self.appended {
            append_alone(object, &[IoSlice::new(&ours[*from as usize..*to as usize])])?;
        }
        Ok(())
    }
}

impl Node {
    /// Whether another process published a version that the bytes in memory do not include.
    pub(super) fn is_behind(inner: &Inner, name: &str, base: Base) -> bool {
        match inner.names.get(name) {
            Some(entry) => entry.stamp > base.stamp,
            None => base.stamp != Stamp::default(),
        }
    }

    /// Applies this process's changes over the version that another process published since.
    ///
    /// # Errors
    /// `ESTALE` if the file was removed or replaced: the published version stays.
    pub(super) fn take_over(&self, folder: &Folder, inner: &mut Inner, state: &mut State) -> Result<()> {
        let (name, base) = (self.name(), self.base());
        if !Node::is_behind(inner, &name, base) {
            return Ok(());
        }
        let entry = inner.file(&name);
        let there = entry.and_then(|entry| entry.stored).map(|stored| stored.identity);
        let stale = |what: &str| {
            let told = format!("publish writes to a file that another process {what}");
            let safe =
                "bytes that the other process published; bytes that this process wrote since its last sync are lost";
            Err(errno::failure(Errno::STALE, &told, &name).safe(safe))
        };
        if let Some(identity) = base.identity.filter(|_| !state.changes.emptied) {
            match entry {
                None => return stale("removed or renamed"),
                Some(_) if there.is_some_and(|there| there != identity) => return stale("replaced by another file"),
                Some(_) => {}
            }
        }
        let stamp = inner.names.get(&name).map_or(Stamp::default(), |entry| entry.stamp);
        let content = entry.map_or(Content::Gone, |entry| entry.content);
        match (&mut state.bytes, content) {
            (Bytes::Memory(ours), Content::Own { number }) => {
                let (number, object) = self.open_own(folder, inner, number)?;
                state.changes.put_into(ours, &*object)?;
                state.bytes = Bytes::Own(number, object);
                state.changes = Changes::default();
            }
            (Bytes::Memory(_), Content::There { .. }) if state.changes.replaces() => {}
            (Bytes::Memory(ours), Content::There { log, offset, length, crc }) => {
                let theirs = folder.bytes_in(inner, log, offset, length, crc)?;
                *ours = state.changes.over(ours, theirs, state.base_length);
            }
            (Bytes::Own(mine, _), Content::Own { number }) if *mine == number => {}
            (Bytes::Own(..), Content::Own { .. } | Content::There { .. }) => return stale("put elsewhere"),
            _ => {}
        }
        self.based(Base { stamp, identity: base.identity.and(there) });
        Ok(())
    }

    /// Shows the version that another process published since, through all handles of this process, unless this process has
    /// unpublished changes or the file lost its name. Not under the folder's lock, whose view the caller has refreshed.
    pub(super) fn catch_up(&self) {
        let mut state = self.state();
        if state.is_changed() || !self.is_linked() {
            return;
        }
        let folder = self.folder();
        let inner = folder.lock();
        let (name, base) = (self.name(), self.base());
        let Some(entry) = inner.names.get(&name).filter(|_| Node::is_behind(&inner, &name, base)) else { return };
        if base.is_other(Some(entry)) {
            return;
        }
        match (&state.bytes, entry.content) {
            (
                Bytes::Own(mine, _) | Bytes::OwnRead(mine, _) | Bytes::Recorded(Content::Own { number: mine }),
                Content::Own { number },
            ) if *mine == number => {}
            (
                Bytes::Memory(_) | Bytes::Recorded(_) | Bytes::OwnRead(..),
                Content::Own { .. } | Content::There { .. },
            ) => {
                state.bytes = Bytes::Recorded(entry.content);
                state.changes = Changes::default();
                state.base_length = match entry.content {
                    Content::There { length, .. } => u64::from(length),
                    _ => 0,
                };
            }
            // Published by this process, or an object that a handle writes to.
            _ => return,
        }
        self.based(Base { stamp: entry.stamp, identity: base.identity });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Bytes that another wrote and this process did not stay; those of this process are there, whatever the order of its writes.
        #[test]
        fn both_ones_bytes_are_there(
            base in prop::collection::vec(1u8..2, 0..40),
            writes in prop::collection::vec((0u64..60, 1u64..20), 0..8),
            other in prop::collection::vec((0u64..60, 1u64..20), 0..8),
        ) {
            let (mut ours, mut theirs, mut changes) = (base.clone(), base.clone(), Changes::default());
            let put = |bytes: &mut Vec<u8>, at: u64, length: u64, value: u8| {
                let end = (at + length) as usize;
                if bytes.len() < end {
                    bytes.resize(end, 0);
                }
                bytes[at as usize..end].fill(value);
            };
            let mut both = base.clone();
            for (at, length) in &other {
                put(&mut theirs, *at, *length, 2);
                put(&mut both, *at, *length, 2);
            }
            for (at, length) in &writes {
                put(&mut ours, *at, *length, 3);
                put(&mut both, *at, *length, 3);
                changes.wrote(*at, *at + *length);
            }
            prop_assert_eq!(changes.over(&ours, theirs, base.len() as u64), both);
        }
    }

    #[test]
    fn appended_bytes_lie_behind_those_of_another_and_once() {
        let mut changes = Changes::default();
        changes.appended(3, 5);
        changes.appended(5, 6);
        assert_eq!(changes.over(b"abcdef", b"abcXY".to_vec(), 3), b"abcXYdef");
        assert_eq!(changes.over(b"abcXYdef", b"aBcXY".to_vec(), 5), b"aBcXYdef");
    }

    #[test]
    fn a_cut_takes_what_was_published() {
        let mut changes = Changes::default();
        changes.wrote(0, 9);
        changes.resized(2, 5);
        changes.wrote(4, 5);
        assert_eq!(changes.over(b"ab\0\0e", b"12345678".to_vec(), 5), b"ab\0\0e");
    }
}
