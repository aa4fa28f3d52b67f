//! The names of a folder, merged from the records of all logs: for each name the newest content and the newest attributes.

use super::{Inner, below};
use crate::links::Step;
use crate::small_file::record::{Change, Content, Head, More, RecordedAttributes, Stamp};
use std::collections::BTreeMap;
use std::sync::Arc;
use thalweg_types::{Error, ErrorKind, Result};

/// A name according to the logs.
#[derive(Debug, Clone)]
pub struct Entry {
    pub content: Content,
    /// When `content` was recorded.
    pub stamp: Stamp,
    pub stored: Option<RecordedAttributes>,
    stored_stamp: Stamp,
    pub more: Option<Arc<More>>,
    more_stamp: Stamp,
}

impl Entry {
    const NONE: Entry = Entry {
        content: Content::Gone,
        stamp: Stamp { clock: 0, log: 0 },
        stored: None,
        stored_stamp: Stamp { clock: 0, log: 0 },
        more: None,
        more_stamp: Stamp { clock: 0, log: 0 },
    };

    pub fn stored_stamp(&self) -> Stamp {
        self.stored_stamp
    }

    pub fn more_stamp(&self) -> Stamp {
        self.more_stamp
    }
}

impl Inner {
    /// When the attributes of a name were recorded.
    pub fn stored_stamp(&self, name: &str) -> Stamp {
        self.names.get(name).map_or(Stamp::default(), |entry| entry.stored_stamp)
    }

    /// Whether another version of this name or of its attributes was recorded than `seen`, or its bytes lie elsewhere.
    pub fn differs(&self, name: &str, seen: &Entry) -> bool {
        let told = |entry: &Entry| (entry.stamp, entry.stored_stamp, entry.more_stamp);
        self.names.get(name).is_none_or(|now| told(now) != told(seen) || now.content != seen.content)
    }

    /// An existing file.
    pub fn file(&self, name: &str) -> Option<&Entry> {
        self.names.get(name).filter(|e| e.content != Content::Gone)
    }

    /// Removes a file that was created and could not be recorded.
    pub fn forget_pretended(&mut self, name: &str) {
        if let Some(entry) = self.names.get_mut(name)
            && matches!(entry.content, Content::Here { .. })
        {
            entry.content = Content::Gone;
        }
    }

    /// Adds a file that is created but not recorded yet: only this process knows it.
    pub fn pretend(&mut self, name: &str, stored: RecordedAttributes) {
        let entry = self.names.entry(name.to_string()).or_insert(Entry::NONE);
        entry.content = Content::Here { length: 0, crc: 0 };
        (entry.stored, entry.more) = (Some(stored), None);
    }

    /// The record that a new file needs so that it does not inherit the extended attributes of a removed file of this name.
    pub fn nothing_more(&self, name: &str) -> Option<More> {
        let recorded = self.names.get(name).is_some_and(|entry| entry.more_stamp != Stamp::default());
        recorded.then(More::default)
    }

    /// A step of [`crate::links::follow`] for a symbolic link; `None` if this is no link.
    pub fn step<T>(&self, name: &str) -> Result<Option<Step<T>>> {
        Ok(self.target(name)?.map(|target| Step::Link { at: below(&self.path, name), target }))
    }

    /// Contents of a symbolic link; `None` if this is no link.
    pub fn target(&self, name: &str) -> Result<Option<String>> {
        let Some(entry) = self.file(name).filter(|entry| entry.content == Content::Link) else { return Ok(None) };
        let target = entry.more.as_ref().and_then(|more| more.target.clone());
        let lost = || Error::new(ErrorKind::Corrupt, "a symbolic link without a recorded target");
        target.ok_or_else(|| lost().in_object(name)).map(Some)
    }
}

/// Applies a record: for each name, the newest content and the newest attributes win.
pub(super) fn take(names: &mut BTreeMap<String, Entry>, clock: &mut u64, log: u64, at: u64, head: Head) {
    let Head::Changes { clock: recorded, changes } = head else { return };
    *clock = (*clock).max(recorded);
    for change in changes.into_iter().filter(|c| c.content.is_some() || c.stored.is_some() || c.more.is_some()) {
        let stamp = change.stamp.unwrap_or(Stamp { clock: recorded, log });
        *clock = (*clock).max(stamp.clock);
        // A copy by compaction has the stamp of its original, and replaces it.
        let copied = change.stamp.is_some();
        let newer = |new: Stamp, old: Stamp| new > old || (copied && new == old);
        let content = change.content.map(|content| match content {
            Content::Here { length, crc } => Content::There { log, offset: at, length, crc },
            other => other,
        });
        let entry = names.entry(change.name).or_insert(Entry::NONE);
        if let Some(content) = content
            && newer(stamp, entry.stamp)
        {
            (entry.content, entry.stamp) = (content, stamp);
        }
        if change.stored.is_some() && newer(stamp, entry.stored_stamp) {
            (entry.stored, entry.stored_stamp) = (change.stored, stamp);
        }
        if let Some(more) = change.more
            && newer(stamp, entry.more_stamp)
        {
            (entry.more, entry.more_stamp) = (Some(Arc::new(more)), stamp);
        }
    }
}

/// The name of a record that is an intent: one change without contents.
pub(super) fn intent(changes: &[Change]) -> Option<String> {
    match changes {
        [Change { name, stamp: None, content: None, stored: None, more: None }] => Some(name.clone()),
        _ => None,
    }
}
