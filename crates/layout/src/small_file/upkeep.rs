//! Looking after logs: what they hold, whether all of it is whole, and giving back the space of what is gone.

use super::SmallFile;
use super::folder::{Folder, hidden};
use super::log::{self, Ended, Writer};
use super::record::{Change, Content, Head, More, Stamp};
use std::collections::BTreeSet;
use thalweg_store::name;
use thalweg_types::{ErrorKind, Result};

/// What was found in a folder.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Report {
    /// Logs.
    pub logs: u64,
    /// Logs that a process still writes, as far as that can be told.
    pub live: u64,
    /// Files.
    pub files: u64,
    /// Files that grew out of the logs.
    pub own: u64,
    /// Bytes of files in the logs.
    pub bytes: u64,
    /// Bytes of all logs.
    pub log_bytes: u64,
    /// Logs that end in bytes that are no whole record, and where these begin: a writer died, or is writing.
    pub torn: Vec<(String, u64)>,
    /// Files whose bytes cannot be read, and why.
    pub damaged: Vec<(String, String)>,
}

/// What a compaction did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Compacted {
    /// Logs that are gone.
    pub logs: u64,
    /// Files that were copied.
    pub files: u64,
    /// Bytes of the logs that are gone, less those of the new one.
    pub freed: u64,
}

impl SmallFile {
    /// What lies in the logs of a folder.
    ///
    /// - `read`: every file's bytes too, against their checksums.
    pub fn check(&self, folder: &str, read: bool) -> Result<Report> {
        let folder = self.folder(&name::relative(folder)?)?;
        let mut report = Report::default();
        let files: Vec<(String, Content)> = {
            let mut inner = folder.fresh()?;
            folder.reload(&mut inner)?;
            for (number, ended, live, at) in Folder::logs(&inner) {
                report.logs += 1;
                let name = format!("{}{}", hidden(&inner.path), log::data_name(number));
                let object = self.store.open_read(&name)?;
                report.log_bytes += object.length()?;
                let written = live && ended != Ended::Closed && object.life()?.held != Some(false);
                report.live += u64::from(written);
                if ended == Ended::Torn {
                    report.torn.push((name, at));
                }
            }
            if let Some(writer) = &inner.writer {
                (report.logs, report.live) = (report.logs + 1, report.live + 1);
                report.log_bytes += writer.end;
            }
            inner
                .names
                .iter()
                .filter(|(_, e)| e.content != Content::Gone)
                .map(|(n, e)| (n.clone(), e.content))
                .collect()
        };
        for (name, content) in files {
            report.files += 1;
            match content {
                Content::There { log, offset, length, crc } => {
                    report.bytes += u64::from(length);
                    if read && let Err(e) = folder.bytes(log, offset, length, crc) {
                        report.damaged.push((name, e.to_string()));
                    }
                }
                Content::Own { number } => {
                    report.own += 1;
                    let place = hidden(&folder.lock().path);
                    if let Err(e) = self.store.stat(&format!("{place}{}", log::own_name(number))) {
                        report.damaged.push((name, e.to_string()));
                    }
                }
                _ => {}
            }
        }
        report.torn.sort();
        Ok(report)
    }

    /// Copies what is still a file from all logs that nobody writes any more into one, and removes them.
    ///
    /// # Errors
    /// `Corrupt` where a file's bytes cannot be read: nothing is removed then.
    pub fn compact(&self, folder: &str) -> Result<Compacted> {
        let folder = self.folder(&name::relative(folder)?)?;
        let mut inner = folder.fresh()?;
        folder.retire(&mut inner)?;
        folder.reload(&mut inner)?;
        let place = hidden(&inner.path);
        let mut old = BTreeSet::new();
        let mut all = true;
        let mut old_bytes = 0;
        for (number, ended, _, _) in Folder::logs(&inner) {
            let object = self.store.open_read(&format!("{place}{}", log::data_name(number)))?;
            // A log without an end belongs to somebody, unless the store knows that nobody holds it.
            if ended == Ended::Closed || object.life()?.held == Some(false) {
                old.insert(number);
                old_bytes += object.length()?;
            } else {
                all = false;
            }
        }
        let single = old.len() == 1 && all;
        // What was copied before has the stamp of a log that is long gone: only logs that stay keep what they hold.
        let staying: BTreeSet<u64> =
            Folder::logs(&inner).iter().map(|(number, ..)| *number).filter(|number| !old.contains(number)).collect();
        let needed = |log: u64| !staying.contains(&log);
        let mut done = Compacted { logs: old.len() as u64, ..Compacted::default() };
        if old.is_empty() {
            return Ok(done);
        }
        let entries: Vec<_> = inner.names.iter().map(|(n, e)| (n.clone(), e.clone())).collect();
        drop(inner);
        let mut writer = Writer::new(self.store.clone(), place.trim_end_matches('/'))?;
        let copied = entries.into_iter().try_for_each(|(name, entry)| {
            let from_old =
                needed(entry.stamp.log) || matches!(entry.content, Content::There { log, .. } if needed(log));
            let mut changes = Vec::new();
            let mut bytes = Vec::new();
            if from_old {
                let content = match entry.content {
                    Content::There { log, offset, length, crc } => {
                        bytes = folder.bytes(log, offset, length, crc)?;
                        done.files += 1;
                        Some(Content::Here { length, crc })
                    }
                    // Made, not recorded: its process will.
                    Content::Here { .. } => None,
                    // In a single log nothing older is left that could come back.
                    Content::Gone if single => None,
                    other => Some(other),
                };
                if content.is_some() {
                    changes.push(Change { stamp: Some(entry.stamp), content, ..Change::of(&name) });
                }
            }
            if entry.content != Content::Gone
                && needed(entry.kept_stamp().log)
                && entry.kept.is_some()
                && entry.kept_stamp() != Stamp::default()
            {
                changes.push(Change { stamp: Some(entry.kept_stamp()), kept: entry.kept, ..Change::of(&name) });
            }
            // That there is nothing more has to be said as long as older logs stay that say otherwise.
            let more = entry.more.as_ref().filter(|more| !single || ***more != More::default());
            if let Some(more) = more
                && entry.content != Content::Gone
                && needed(entry.more_stamp().log)
            {
                let more = Some((**more).clone());
                changes.push(Change { stamp: Some(entry.more_stamp()), more, ..Change::of(&name) });
            }
            match changes.is_empty() {
                true => Ok(()),
                false => writer.put(&Head::Changes { clock: 0, changes }, &bytes).map(|_| ()),
            }
        });
        let number = writer.number;
        let new_bytes = writer.end;
        let closed = copied.and_then(|()| writer.sync()).and_then(|()| writer.close());
        if let Err(e) = closed {
            let _ = self.store.remove(&format!("{place}{}", log::data_name(number)));
            let _ = self.store.remove(&format!("{place}{}", log::names_name(number)));
            return Err(e.safe("all files; nothing was removed"));
        }
        self.store.sync_folder(place.trim_end_matches('/'))?;
        let mut inner = folder.lock();
        folder.ring(&mut inner)?;
        for log in &old {
            for name in [log::names_name(*log), log::data_name(*log)] {
                match self.store.remove(&format!("{place}{name}")) {
                    Err(e) if e.kind() != ErrorKind::NotFound => return Err(e),
                    _ => {}
                }
            }
        }
        folder.ring(&mut inner)?;
        folder.reload(&mut inner)?;
        done.freed = old_bytes.saturating_sub(new_bytes);
        Ok(done)
    }
}
