//! Maintenance of logs: check and compaction.

use super::SmallFile;
use super::folder::{Entry, Folder, Inner, hidden};
use super::log::{self, Ended, Position};
use super::record::{Change, Content, Head, More, Stamp};
use crate::Change as AttributeChange;
use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::time::{Duration, SystemTime};
use thalweg_store::{OpenWrite, name};
use thalweg_types::{Error, ErrorKind, Result};

/// Result of a check of a folder.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Report {
    /// Logs.
    pub logs: u64,
    /// Logs that a living process still writes, as far as that can be determined.
    pub live: u64,
    /// Files.
    pub files: u64,
    /// Files with their own object.
    pub own: u64,
    /// Bytes of files in the logs.
    pub bytes: u64,
    /// Bytes of all logs.
    pub log_bytes: u64,
    /// Logs that end in an incomplete record, and its first byte: a writer died, or is writing. Logs whose process is known to live
    /// are left out.
    pub torn: Vec<(String, u64)>,
    /// Files whose bytes cannot be read, and why.
    pub damaged: Vec<(String, String)>,
}

/// Result of a compaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Compacted {
    /// Removed logs.
    pub logs: u64,
    /// Copied files.
    pub files: u64,
    /// Bytes of the removed logs, less those of the new one.
    pub freed: u64,
}

impl Compacted {
    fn add(&mut self, other: Compacted) {
        self.logs += other.logs;
        self.files += other.files;
        self.freed += other.freed;
    }
}

/// How files are copied to a new log.
struct Copying<'a> {
    /// The hidden folder, with a trailing `/`.
    place: &'a str,
    /// Logs that stay, and keep what they have.
    staying: &'a BTreeSet<u64>,
    /// Whether one log is replaced and none stays.
    single: bool,
    /// Mode, user and group of the new log.
    owner: Option<Owner>,
    /// Whether the new log may be made from the spare.
    spare: bool,
    /// Bytes that a new log with fewer bytes is worth.
    most: u64,
}

/// A new log with copies.
struct Copied {
    /// Its object.
    log: String,
    files: u64,
    bytes: u64,
    of_spare: bool,
}

/// Mode, user and group of a log's object.
type Owner = (u32, u32, u32);

/// How long a log without a header and without a lease is left alone.
const OLD: Duration = Duration::from_secs(3600);
/// How often a check looks at a file that other processes change all the time.
const LOOKS: usize = 100;
/// Longer than the write of a record takes.
const A_WRITE: Duration = Duration::from_millis(20);
/// Shorter runs of bytes fill no block of a filesystem, so no space could be freed.
const LEAST_HOLE: u64 = 4 << 10;

impl SmallFile {
    /// Checks the logs of a folder. Changes nothing. What other processes create, change or remove meanwhile is looked at again, and
    /// is no damage.
    ///
    /// - `read`: also compares every file's bytes with their checksums.
    ///
    /// # Errors
    /// `NotFound`; errors of the store. Damage is no error, but part of the report.
    pub fn check(&self, folder: &str, read: bool) -> Result<Report> {
        let folder = self.folder(&name::relative(folder)?)?;
        let mut report = Report::default();
        let mut torn = Vec::new();
        let files: Vec<(String, Content)> = {
            let mut inner = folder.fresh()?;
            folder.reload(&mut inner)?;
            for (number, ended, live, position) in Folder::logs(&inner) {
                let name = format!("{}{}", hidden(&inner.path), log::data_name(number));
                let object = match self.store.open_read(&name) {
                    // Another process has compacted it into another log.
                    Err(e) if e.kind() == ErrorKind::NotFound => continue,
                    object => object?,
                };
                let length = object.length()?;
                if length == 0 {
                    // Created, its header not written yet; or its process was killed then, and a later `compact` removes it.
                    continue;
                }
                report.logs += 1;
                report.log_bytes += length;
                let leased = if ended == Ended::Closed { Some(false) } else { object.life()?.leased };
                report.live += u64::from(live && leased != Some(false));
                if ended == Ended::Torn && leased != Some(true) {
                    torn.push((number, name, position.at));
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
            self.check_file(&folder, name, content, read, &mut report)?;
        }
        if !torn.is_empty() {
            // A process may have ended its log since.
            let logs = Folder::logs(&*folder.fresh()?);
            torn.retain(|(number, _, at)| {
                logs.iter().any(|(n, ended, _, position)| n == number && *ended == Ended::Torn && position.at == *at)
            });
            report.torn = torn.into_iter().map(|(_, name, at)| (name, at)).collect();
        }
        report.torn.sort();
        Ok(report)
    }

    /// Adds a file to the report.
    ///
    /// - `content`: as it was recorded when the check began.
    fn check_file(
        &self,
        folder: &Folder,
        name: String,
        mut content: Content,
        read: bool,
        report: &mut Report,
    ) -> Result<()> {
        let mut damage = None;
        let mut awaited = false;
        for _ in 0..LOOKS {
            let found = match content {
                Content::There { log, offset, length, crc } if read => folder.bytes(log, offset, length, crc).map(drop),
                Content::Own { number } => {
                    let place = hidden(&folder.lock().path);
                    self.store.stat(&format!("{place}{}", log::own_name(number))).map(drop)
                }
                _ => Ok(()),
            };
            let Err(e) = found else {
                damage = None;
                break;
            };
            let inner = folder.fresh()?;
            match inner.file(&name).map(|entry| entry.content) {
                None => return Ok(()),
                Some(now) if now != content => (content, damage) = (now, None),
                // A process that continues a log made from the spare may be writing the bytes.
                Some(Content::There { log, .. }) if !awaited && Folder::is_live(&inner, log) => {
                    drop(inner);
                    awaited = true;
                    std::thread::sleep(A_WRITE);
                    damage = Some(e.to_string());
                }
                Some(_) => {
                    damage = Some(e.to_string());
                    break;
                }
            }
        }
        report.files += 1;
        match content {
            Content::There { length, .. } => report.bytes += u64::from(length),
            Content::Own { .. } => report.own += 1,
            _ => {}
        }
        report.damaged.extend(damage.map(|why| (name, why)));
        Ok(())
    }

    /// Compacts the logs that no process writes any more: copies their files into one log per owner and mode, then removes the
    /// old logs. Without room for that, punches holes where no file's bytes are, and merges as many logs as fit: all, else half of
    /// them and so on, those with the fewest bytes of files first.
    ///
    /// # Errors
    /// `Corrupt` if a file's bytes cannot be read: nothing is removed then. `NoSpace` if no space could be freed. `NotReady` if another
    /// process announces a change and does not make it for 5 s: nothing is removed.
    pub fn compact(&self, folder: &str) -> Result<Compacted> {
        let folder = self.folder(&name::relative(folder)?)?;
        let (mut done, in_parts) = self.compact_once(&folder)?;
        if in_parts {
            // There may be room now to merge all.
            match self.compact_once(&folder) {
                Err(e) if e.kind() == ErrorKind::NoSpace => {}
                again => done.freed += again?.0.freed,
            }
        }
        Ok(done)
    }

    /// Compacts; returns whether a lack of room left several logs of one owner that could be one.
    fn compact_once(&self, folder: &Folder) -> Result<(Compacted, bool)> {
        let mut in_parts = false;
        let mut inner = folder.fresh()?;
        folder.retire(&mut inner)?;
        folder.reload(&mut inner)?;
        let place = hidden(&inner.path);
        let mut groups: BTreeMap<Option<Owner>, BTreeSet<u64>> = BTreeMap::new();
        for (number, ended, _, position) in Folder::logs(&inner) {
            let name = format!("{place}{}", log::data_name(number));
            // A log without an end mark is in use, unless the store knows that no process has its lease. A process takes the lease
            // before it writes the header: a log without both may be just created.
            let left = || -> Result<bool> {
                let leased = self.store.open_read(&name)?.life()?.leased;
                Ok(leased == Some(false) && (position.begun() || self.is_old(&name)?))
            };
            if ended == Ended::Closed || left()? {
                let owner = match self.store.capability().modes {
                    true => Some(self.store.attributes(&name).map(|about| (about.mode, about.uid, about.gid))?),
                    false => None,
                };
                groups.entry(owner).or_default().insert(number);
            }
        }
        drop(inner);
        let mut done = Compacted::default();
        for (owner, logs) in groups {
            let full = match self.put_together(folder, &logs, owner, false) {
                Err(e) if e.kind() == ErrorKind::NoSpace => e,
                other => {
                    done.add(other?);
                    continue;
                }
            };
            let mut freed = Compacted { freed: Self::give_back(folder, &logs)?, ..Compacted::default() };
            let mut parts = vec![Self::by_bytes(folder, &logs)];
            while let Some(mut part) = parts.pop() {
                match self.put_together(folder, &part.iter().copied().collect(), owner, true) {
                    Err(e) if e.kind() == ErrorKind::NoSpace => {
                        in_parts = true;
                        if part.len() > 1 {
                            let rest = part.split_off(part.len() / 2);
                            // Merging the first half frees room for the rest.
                            parts.extend([rest, part]);
                        }
                    }
                    other => freed.add(other?),
                }
            }
            if freed.freed == 0 {
                return Err(full);
            }
            done.add(freed);
        }
        Ok((done, in_parts))
    }

    /// Whether an object was last written so long ago that no process can be about to use it.
    fn is_old(&self, name: &str) -> Result<bool> {
        let age = |written: SystemTime| written.elapsed().unwrap_or_default();
        match self.store.attributes(name) {
            Err(e) if e.kind() == ErrorKind::Unsupported => Ok(false),
            about => Ok(age(about?.mtime) > OLD),
        }
    }

    /// The logs, those with the fewest bytes of files first.
    fn by_bytes(folder: &Folder, logs: &BTreeSet<u64>) -> Vec<u64> {
        let mut bytes: BTreeMap<u64, u64> = logs.iter().map(|number| (*number, 0)).collect();
        for entry in folder.lock().names.values() {
            if let Content::There { log, length, .. } = entry.content
                && let Some(sum) = bytes.get_mut(&log)
            {
                *sum += u64::from(length);
            }
        }
        let mut all: Vec<_> = bytes.into_iter().map(|(number, bytes)| (bytes, number)).collect();
        all.sort_unstable();
        all.into_iter().map(|(_, number)| number).collect()
    }

    /// Punches holes where no file's bytes are, in logs that no process writes. Returns how many bytes were freed.
    fn give_back(folder: &Folder, logs: &BTreeSet<u64>) -> Result<u64> {
        // A process may be giving bytes another name.
        if !folder.store.capability().punch || !folder.wait_for_intents()? {
            return Ok(0);
        }
        let inner = folder.fresh()?;
        let used = |entry: &Entry| match entry.content {
            Content::There { log, offset, .. } => Some((log, offset)),
            _ => None,
        };
        let used: HashSet<(u64, u64)> = inner.names.values().filter_map(used).collect();
        let mut freed = 0;
        for number in logs {
            let name = format!("{}{}", hidden(&inner.path), log::data_name(*number));
            let mut dead = Vec::new();
            let mut each = |at: u64, head: Head| {
                let length = u64::from(head.data_length());
                if length >= LEAST_HOLE && !used.contains(&(*number, at)) {
                    dead.push((at, length));
                }
            };
            let object = folder.store.open_read(&name)?;
            log::read_on(&*object, || Ok(None), *number, &mut Position::start(), &mut each)?;
            if dead.is_empty() {
                continue;
            }
            let object = folder.store.open_write(&name, OpenWrite::Existing)?;
            for (at, length) in dead {
                object.punch(at, length)?;
                freed += length;
            }
            object.close()?;
        }
        Ok(freed)
    }

    /// Copies the files of these logs, which no process writes, into one log, and removes them.
    ///
    /// - `owner`: mode, user and group of the logs and of the new one.
    /// - `short`: room is short. The new log may be made from the spare, and is dropped if it would not be shorter.
    fn put_together(
        &self,
        folder: &Folder,
        old: &BTreeSet<u64>,
        owner: Option<Owner>,
        short: bool,
    ) -> Result<Compacted> {
        if old.is_empty() {
            return Ok(Compacted::default());
        }
        let mut inner = folder.fresh()?;
        folder.retire(&mut inner)?;
        let place = hidden(&inner.path);
        let mut old_bytes = 0;
        let mut recorded = None;
        for number in old {
            let name = format!("{place}{}", log::data_name(*number));
            old_bytes += self.store.open_read(&name)?.length()?;
            if owner.is_some() {
                recorded = recorded.max(Some(self.store.attributes(&name)?.mtime));
            }
        }
        // Earlier copies have stamps of logs that are gone: only logs that stay keep their files.
        let staying: BTreeSet<u64> =
            Folder::logs(&inner).iter().map(|(number, ..)| *number).filter(|number| !old.contains(number)).collect();
        let single = old.len() == 1 && staying.is_empty();
        let mut entries: Vec<_> = inner.names.iter().map(|(n, e)| (n.clone(), e.clone())).collect();
        drop(inner);
        let mut done = Compacted { logs: old.len() as u64, ..Compacted::default() };
        let (mut new_bytes, mut of_spare) = (0, false);
        let most = if short { old_bytes } else { u64::MAX };
        let how = Copying { place: &place, staying: &staying, single, owner, spare: short, most };
        loop {
            let Some(copied) = self.copy_to_new_log(folder, entries, &how)? else { return Ok(Compacted::default()) };
            done.files += copied.files;
            new_bytes += copied.bytes;
            of_spare |= copied.of_spare;
            if recorded.is_some() {
                // The folder itself did not change.
                let change = AttributeChange { mtime: recorded, ..AttributeChange::default() };
                self.store.set_attributes(&copied.log, &change)?;
            }
            folder.ring(&mut folder.lock())?;
            // A process that did not see the copies yet may be giving bytes of an old log another name.
            if !folder.wait_for_intents()? {
                if of_spare {
                    folder.spare_again();
                }
                // The copies are duplicates, until the next compaction.
                let what = "cannot compact: another process has announced a change and has not made it for 5 s";
                let safe = "all files; nothing was removed";
                return Err(Error::new(ErrorKind::NotReady, what).in_object(place).safe(safe));
            }
            entries = Self::left_in(&*folder.fresh()?, old);
            if entries.is_empty() {
                break;
            }
        }
        let mut inner = folder.lock();
        for log in old {
            for name in [log::names_name(*log), log::data_name(*log)] {
                match self.store.remove(&format!("{place}{name}")) {
                    Err(e) if e.kind() != ErrorKind::NotFound => return Err(e),
                    _ => {}
                }
            }
        }
        folder.ring(&mut inner)?;
        folder.reload(&mut inner)?;
        if of_spare {
            folder.spare_again();
        }
        done.freed = old_bytes.saturating_sub(new_bytes);
        Ok(done)
    }

    /// Files whose bytes are in one of these logs.
    fn left_in(inner: &Inner, old: &BTreeSet<u64>) -> Vec<(String, Entry)> {
        let left = |entry: &Entry| matches!(entry.content, Content::There { log, .. } if old.contains(&log));
        inner.names.iter().filter(|(_, entry)| left(entry)).map(|(n, e)| (n.clone(), e.clone())).collect()
    }

    /// Copies what these names have in logs that do not stay into a new log; `None`, and no new log, if it would have `most` bytes or
    /// more.
    fn copy_to_new_log(
        &self,
        folder: &Folder,
        entries: Vec<(String, Entry)>,
        how: &Copying<'_>,
    ) -> Result<Option<Copied>> {
        let Copying { place, staying, single, owner, spare, most } = *how;
        let needed = |log: u64| !staying.contains(&log);
        let mut writer = folder.new_log(place.trim_end_matches('/'), spare)?;
        let (number, of_spare) = (writer.number, writer.of_spare);
        let new = format!("{place}{}", log::data_name(number));
        let mut files = 0;
        let given = self.give(&new, owner);
        let copied = given.and_then(|()| {
            entries.into_iter().try_for_each(|(name, entry)| {
                // Bytes in a log that stays need no copy, whatever their stamp.
                let from_old = match entry.content {
                    Content::There { log, .. } => needed(log),
                    _ => needed(entry.stamp.log),
                };
                let mut changes = Vec::new();
                let mut bytes = Vec::new();
                if from_old {
                    let content = match entry.content {
                        Content::There { log, offset, length, crc } => {
                            bytes = folder.bytes(log, offset, length, crc)?;
                            files += 1;
                            Some(Content::Here { length, crc })
                        }
                        // Created, not recorded yet: its process will record it.
                        Content::Here { .. } => None,
                        // With a single log no older record is left that could reappear.
                        Content::Gone if single => None,
                        other => Some(other),
                    };
                    if content.is_some() {
                        changes.push(Change { stamp: Some(entry.stamp), content, ..Change::of(&name) });
                    }
                }
                if entry.content != Content::Gone
                    && needed(entry.stored_stamp().log)
                    && entry.stored.is_some()
                    && entry.stored_stamp() != Stamp::default()
                {
                    changes.push(Change {
                        stamp: Some(entry.stored_stamp()),
                        stored: entry.stored,
                        ..Change::of(&name)
                    });
                }
                // Recorded explicitly as long as older logs stay that have extended attributes of this name.
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
            })
        });
        let bytes = writer.end;
        let closed = copied.and_then(|()| writer.sync()).and_then(|()| writer.close());
        if closed.is_err() || bytes >= most {
            let _ = self.store.remove(&new);
            let _ = self.store.remove(&format!("{place}{}", log::names_name(number)));
            if of_spare {
                folder.spare_again();
            }
            closed.map_err(|e| e.safe("all files; nothing was removed"))?;
            return Ok(None);
        }
        self.store.sync_folder(place.trim_end_matches('/'))?;
        Ok(Some(Copied { log: new, files, bytes, of_spare }))
    }

    /// Gives a new log the mode and owner of the logs that it replaces, so that the same users can read it.
    fn give(&self, log: &str, owner: Option<Owner>) -> Result<()> {
        let Some((mode, uid, gid)) = owner else { return Ok(()) };
        let about = self.store.attributes(log)?;
        let changed = |old: u32, new: u32| (old != new).then_some(new);
        let change = AttributeChange {
            mode: changed(about.mode, mode),
            uid: changed(about.uid, uid),
            gid: changed(about.gid, gid),
            ..AttributeChange::default()
        };
        if change == AttributeChange::default() { Ok(()) } else { self.store.set_attributes(log, &change) }
    }
}
