//! One folder: this process's view of its names, and the log that this process writes.
//!
//! | room | what it owns |
//! |---|---|
//! | `bell` | how processes notice that names beside the logs they know have changed |
//! | `bytes` | reading a file's bytes out of a log |
//! | `entry` | names, put together from the records of all logs |
//! | `exclusive` | records that only one process may make |
//! | `removal` | removing the hidden folder |
//! | `room` | room for records on a full store |

mod bell;
mod bytes;
mod entry;
mod exclusive;
mod removal;
mod room;

pub use entry::Entry;

use super::log::{self, Ended, Position, Writer};
use super::record::{Change, Content, Head, RecordedAttributes, Stamp};
use super::spare::Spare;
use super::{HIDDEN, Node, Settings, fresh};
use crate::Change as AttributeChange;
use bell::REMOVED;
use entry::{intent, take};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, MutexGuard, Weak};
use std::time::{Duration, Instant, SystemTime};
use thalweg_store::{OpenWrite, ReadObject, Store, WriteObject};
use thalweg_types::mutex::Mutex;
use thalweg_types::{Error, ErrorKind, Result};

/// A log of another process, or a closed log.
struct TrackedLog {
    object: Arc<dyn ReadObject>,
    position: Position,
    ended: Ended,
    /// Whether records may still come.
    live: bool,
    /// The name that its process intends to create exclusively, according to the log's last record.
    intends: Option<String>,
}

/// Everything this process knows of a folder.
pub struct Inner {
    /// The folder's name in the store.
    pub path: String,
    pub names: BTreeMap<String, Entry>,
    /// Objects and folders in the folder itself, beside the logs: folders (true), and objects that existed before the mount.
    pub real: BTreeMap<String, Option<bool>>,
    known: HashMap<u64, TrackedLog>,
    pub writer: Option<Writer>,
    /// Content of the log being written, if the store cannot read an open object.
    recent: HashMap<(u64, u64), Arc<[u8]>>,
    recent_bytes: u64,
    clock: u64,
    bell: Option<Box<dyn ReadObject>>,
    rung: [u8; 8],
    /// The bell must be rung for a change, and could not be yet.
    pub unrung: bool,
    /// Logs that this process began; a log whose end could not be written looks like one in use.
    own: HashSet<u64>,
    /// A log of another process was seen before its end.
    shared: bool,
    /// Whether the hidden folder exists.
    hidden: bool,
    looked: Option<Instant>,
    /// Files that are open in this process.
    pub open: HashMap<String, Weak<Node>>,
}

/// A folder. See the module's page.
pub struct Folder {
    pub store: Arc<dyn Store>,
    pub settings: Settings,
    spare: Arc<Spare>,
    /// Bytes reserved for records of accepted writes of open files.
    promised: AtomicU64,
    inner: Mutex<Inner>,
}

impl Folder {
    /// The folder of this name in the store.
    ///
    /// # Errors
    /// `NotFound` if there is none.
    pub fn open(store: Arc<dyn Store>, settings: Settings, spare: Arc<Spare>, path: &str) -> Result<Folder> {
        let inner = Inner {
            path: path.to_string(),
            names: BTreeMap::new(),
            real: BTreeMap::new(),
            known: HashMap::new(),
            writer: None,
            recent: HashMap::new(),
            recent_bytes: 0,
            clock: 0,
            bell: None,
            rung: [0; 8],
            unrung: false,
            own: HashSet::new(),
            shared: false,
            hidden: false,
            looked: None,
            open: HashMap::new(),
        };
        let folder = Folder { store, settings, spare, promised: AtomicU64::new(0), inner: Mutex::new(inner) };
        folder.look(&mut folder.lock())?;
        Ok(folder)
    }

    pub fn lock(&self) -> MutexGuard<'_, Inner> {
        // Entries change only after their record is written, so a panic of another thread leaves no inconsistency.
        let mut inner = self.inner.lock();
        if inner.writer.as_ref().is_some_and(|writer| !writer.is_own()) {
            // Forked: the parent goes on writing this log, which the child now reads like any other; without a bell the logs are
            // listed again. The parent records its own changes.
            (inner.writer, inner.bell) = (None, None);
            inner.own.clear();
        }
        inner
    }

    /// The folder, refreshed: includes the records of other processes.
    pub fn fresh(&self) -> Result<MutexGuard<'_, Inner>> {
        let mut inner = self.lock();
        self.refresh(&mut inner)?;
        Ok(inner)
    }

    /// Like [`Folder::fresh`], for a new file: where a refresh costs an operation on names, at most once a second.
    pub fn fresh_enough(&self) -> Result<MutexGuard<'_, Inner>> {
        let mut inner = self.lock();
        let costly = !self.store.capability().write_at;
        if !(costly && inner.looked.is_some_and(|at| at.elapsed() < Duration::from_secs(1))) {
            self.refresh(&mut inner)?;
        }
        Ok(inner)
    }

    fn refresh(&self, inner: &mut Inner) -> Result<()> {
        // Ringing refreshes too, if there is a hidden folder.
        if inner.unrung && inner.hidden && self.ring(inner).is_ok() {
            return Ok(());
        }
        if let Some((got, rung)) = self.hear(inner)? {
            if rung == REMOVED {
                return self.wait_for_removal(inner);
            }
            // A bell created on a full store is empty, and its value does not change.
            if got == rung.len() && rung == inner.rung {
                return follow(&self.store, inner);
            }
        }
        self.look(inner)
    }

    /// Lists the folder and its logs, and reads new records.
    fn look(&self, inner: &mut Inner) -> Result<()> {
        let looked = Instant::now();
        let place = hidden(&inner.path);
        // After a failure the next call lists again.
        (inner.bell, inner.looked) = (None, None);
        let mut heard = None;
        // The bell first, then the logs: a log created in between rings the bell again.
        if self.store.capability().write_at {
            match self.store.open_read(&format!("{place}bell")) {
                Ok(bell) => {
                    let mut rung = [0; 8];
                    bell.read_at(0, &mut rung)?;
                    heard = Some((bell, rung));
                }
                Err(e) if e.kind() == ErrorKind::NotFound => {}
                Err(e) => return Err(e),
            }
        }
        let mut real = self.store.list(&inner.path)?;
        inner.hidden = real.iter().any(|n| n == HIDDEN);
        real.retain(|n| n != HIDDEN);
        let old = std::mem::take(&mut inner.real);
        inner.real = real.into_iter().map(|n| (old.get(&n).copied().flatten(), n)).map(|(k, n)| (n, k)).collect();
        if !self.store.capability().write_at {
            // A log that was read before its close is opened again.
            inner.known.retain(|_, known| known.ended == Ended::Closed);
        }
        if !inner.hidden && (inner.writer.is_some() || !inner.known.is_empty()) {
            self.forget(inner, &[])?;
        }
        // A listed log that is gone was compacted into another, which the list may lack.
        for _ in 0..100 {
            if !inner.hidden || self.open_logs(inner, &place)? {
                break;
            }
        }
        follow(&self.store, inner)?;
        if let Some((bell, rung)) = heard {
            (inner.bell, inner.rung) = (Some(bell), rung);
        }
        inner.looked = Some(looked);
        self.is_shared(inner);
        Ok(())
    }

    /// Opens the logs that are not known yet; returns whether all listed logs existed.
    fn open_logs(&self, inner: &mut Inner, place: &str) -> Result<bool> {
        let logs = match self.store.list(place.trim_end_matches('/')) {
            Ok(logs) => logs,
            Err(e) if e.kind() == ErrorKind::NotFound => Vec::new(),
            Err(e) => return Err(e),
        };
        // Stores that show bytes immediately also list a log that is being written.
        let listed = self.store.capability().write_at;
        let own_gone = |w: &Writer| listed && !logs.contains(&log::data_name(w.number));
        if inner.known.keys().any(|n| !logs.contains(&log::data_name(*n)))
            || inner.writer.as_ref().is_some_and(own_gone)
        {
            self.forget(inner, &logs)?;
        }
        let own = inner.writer.as_ref().map(|w| w.number);
        let mut all = true;
        for number in logs.iter().filter_map(|n| log::number(n, "data")) {
            if Some(number) == own || inner.known.contains_key(&number) {
                continue;
            }
            let object = match self.store.open_read(&format!("{place}{}", log::data_name(number))) {
                Ok(object) => Arc::from(object),
                Err(e) if e.kind() == ErrorKind::NotFound => {
                    all = false;
                    continue;
                }
                Err(e) => return Err(e),
            };
            let known =
                TrackedLog { object, position: Position::start(), ended: Ended::Whole, live: true, intends: None };
            inner.known.insert(number, known);
        }
        Ok(all)
    }

    /// Known logs are gone: another process compacted them, or this folder is another one under the same name. Reads everything
    /// again.
    fn forget(&self, inner: &mut Inner, logs: &[String]) -> Result<()> {
        if let Some(writer) = inner.writer.take()
            && logs.contains(&log::data_name(writer.number))
        {
            writer.close()?;
        }
        (inner.recent, inner.recent_bytes) = (HashMap::new(), 0);
        inner.known.clear();
        // Only this process knows of files that it has not recorded yet.
        inner.names.retain(|_, entry| matches!(entry.content, Content::Here { .. }));
        Ok(())
    }

    /// This process's log; created with the hidden folder if missing.
    fn writer<'i>(&self, inner: &'i mut Inner) -> Result<&'i mut Writer> {
        if inner.writer.as_ref().is_some_and(|w| !w.usable()) {
            self.retire(inner)?;
        }
        // Ringing refreshes, and may find that another process compacted the logs: this process's log then ends too.
        for _ in 0..100 {
            if inner.writer.is_none() {
                let place = self.place(inner)?;
                let writer = Writer::new(self.store.clone(), &place)?;
                inner.begin(writer);
                self.spare.see_to();
            }
            if inner.unrung {
                self.ring(inner)?;
            }
            if inner.writer.is_some() {
                break;
            }
        }
        inner.writer.as_mut().ok_or_else(|| Error::new(ErrorKind::Io, "no log is open"))
    }

    /// The hidden folder; created if missing.
    fn place(&self, inner: &mut Inner) -> Result<String> {
        let place = hidden(&inner.path);
        let place = place.trim_end_matches('/');
        if !inner.hidden {
            // Never creates the folder itself, which may have been removed.
            match self.store.make_one_folder(place, 0o777) {
                Err(e) if e.kind() != ErrorKind::AlreadyExists => return Err(e),
                _ => inner.hidden = true,
            }
        }
        Ok(place.to_string())
    }

    /// Whether users may read this process's log who may not read a file with these permission bits. The file then needs its own
    /// object.
    pub fn shows_more(&self, inner: &mut Inner, mode: u32) -> Result<bool> {
        // On a store that only appends, a file with its own object could not be changed any more.
        let can = self.store.capability();
        if !(can.modes && can.write_at) {
            return Ok(false);
        }
        if let Err(e) = self.writer(inner) {
            self.take_spare(inner, e)?;
        }
        let log = inner.writer.as_ref().and_then(|writer| writer.mode);
        Ok(log.is_some_and(|log| log & !mode & 0o044 != 0))
    }

    /// Name of a file's own object.
    pub fn own(inner: &Inner, number: u64) -> String {
        format!("{}{}", hidden(&inner.path), log::own_name(number))
    }

    /// Creates a file's own object with the file's owner and mode, and fills it. Other processes see it after its number is recorded.
    pub fn own_object(
        &self,
        inner: &mut Inner,
        stored: &RecordedAttributes,
        fill: &dyn Fn(&dyn WriteObject) -> Result<()>,
    ) -> Result<(u64, Box<dyn WriteObject>)> {
        // The hidden folder is created with the log.
        self.writer(inner)?;
        let number = fresh();
        let name = Folder::own(inner, number);
        let object = self.store.open_write(&name, OpenWrite::New)?;
        match self.protect(&name, stored).and_then(|()| fill(&*object)) {
            Ok(()) => Ok((number, object)),
            Err(e) => {
                drop(object);
                let _ = self.store.remove(&name);
                Err(e)
            }
        }
    }

    /// Sets the permission bits of a file's object, and its owner if this process may. The owner of an object can always read and
    /// write it.
    pub fn protect(&self, object: &str, stored: &RecordedAttributes) -> Result<()> {
        if !self.store.capability().modes {
            return Ok(());
        }
        let about = self.store.attributes(object)?;
        let mode = stored.mode & 0o777 | 0o600;
        if about.mode != mode {
            self.store.set_attributes(object, &AttributeChange { mode: Some(mode), ..AttributeChange::default() })?;
        }
        let changed = |old: u32, new: u32| (old != new).then_some(new);
        let (uid, gid) = (changed(about.uid, stored.uid), changed(about.gid, stored.gid));
        if uid.is_none() && gid.is_none() {
            return Ok(());
        }
        match self.store.set_attributes(object, &AttributeChange { uid, gid, ..AttributeChange::default() }) {
            // Only root changes owners.
            Err(e) if e.kind() != ErrorKind::PermissionDenied => Err(e),
            _ => Ok(()),
        }
    }

    /// Writes one record with all changes, newer than every known record, and returns its stamp. `data`: the bytes of the change with
    /// `Content::Here`.
    ///
    /// Where the record fills the log, the view may then include later records of other processes.
    pub fn record(&self, inner: &mut Inner, changes: Vec<Change>, data: &[u8]) -> Result<Stamp> {
        let keeps_recent = !self.store.capability().write_at;
        if let Err(e) = self.writer(inner) {
            self.take_spare(inner, e)?;
        }
        let mut head = Head::Changes { clock: inner.clock + 1, changes };
        let put = |inner: &mut Inner, head: &Head| match &mut inner.writer {
            Some(writer) => writer.put(head, data).map(|at| (writer.number, at)),
            None => Err(Error::new(ErrorKind::Io, "no log is open")),
        };
        let (number, at) = match put(inner, &head) {
            Err(e) => {
                self.take_spare(inner, e)?;
                if let Head::Changes { clock, .. } = &mut head {
                    *clock = inner.clock + 1;
                }
                put(inner, &head)?
            }
            Ok(at) => at,
        };
        if keeps_recent && !data.is_empty() {
            inner.recent_bytes += data.len() as u64;
            inner.recent.insert((number, at), Arc::from(data));
        }
        // Other processes look for intents in logs in use, so an intent never ends a log.
        let intends = matches!(&head, Head::Changes { changes, .. } if intent(changes).is_some());
        let clock = if let Head::Changes { clock, .. } = head { clock } else { 0 };
        let stamp = Stamp { clock, log: number };
        take(&mut inner.names, &mut inner.clock, number, at, head);
        let full = !intends && inner.writer.as_ref().is_some_and(|w| w.end >= self.settings.log);
        if full || (keeps_recent && inner.recent_bytes >= self.settings.log.min(16 << 20)) {
            self.retire(inner)?;
        }
        Ok(stamp)
    }

    /// Ends this process's log in the folder; the next record begins another.
    pub fn retire(&self, inner: &mut Inner) -> Result<()> {
        let Some(writer) = inner.writer.take() else { return Ok(()) };
        let (number, end, of_spare) = (writer.number, writer.end, writer.of_spare);
        if let Err(e) = writer.close() {
            // The bell is rung all the same; if that fails too, the next refresh rings it.
            inner.unrung = true;
            let _ = self.ring(inner);
            return Err(e);
        }
        if of_spare {
            self.spare.again();
        }
        (inner.recent, inner.recent_bytes) = (HashMap::new(), 0);
        let name = format!("{}{}", hidden(&inner.path), log::data_name(number));
        match self.store.open_read(&name) {
            Ok(object) => {
                let (object, mut position) = (Arc::from(object), Position::start());
                position.at = end;
                inner
                    .known
                    .insert(number, TrackedLog { object, position, ended: Ended::Closed, live: false, intends: None });
            }
            // Another process has compacted it already: its files are in another log.
            Err(e) if e.kind() == ErrorKind::NotFound => {}
            Err(e) => {
                inner.unrung = true;
                return Err(e);
            }
        }
        self.ring(inner)
    }

    /// Time of the last record in this folder, if the store provides times: those of the store's folder do not change with its
    /// files.
    pub fn recorded(store: &dyn Store, path: &str) -> Result<Option<SystemTime>> {
        let place = hidden(path);
        let logs = match store.list(place.trim_end_matches('/')) {
            Ok(logs) => logs,
            Err(e) if e.kind() == ErrorKind::NotFound => return Ok(None),
            Err(e) => return Err(e),
        };
        let mut last = None;
        for name in logs.iter().filter(|name| log::number(name, "data").is_some()) {
            match store.attributes(&format!("{place}{name}")) {
                Ok(about) => last = last.max(Some(about.mtime)),
                Err(e) if e.kind() == ErrorKind::NotFound => {}
                Err(e) => return Err(e),
            }
        }
        Ok(last)
    }

    /// Whether a name beside the logs is a folder (`Some(true)`), an object, or not there.
    pub fn real(&self, inner: &mut Inner, name: &str) -> Result<Option<bool>> {
        match inner.real.get(name).copied() {
            None => Ok(None),
            Some(Some(kind)) => Ok(Some(kind)),
            Some(None) => {
                let path = below(&inner.path, name);
                match self.store.stat(&path) {
                    Ok(about) => {
                        inner.real.insert(name.to_string(), Some(about.is_folder));
                        Ok(Some(about.is_folder))
                    }
                    Err(e) if e.kind() == ErrorKind::NotFound => {
                        inner.real.remove(name);
                        Ok(None)
                    }
                    Err(e) => Err(e),
                }
            }
        }
    }

    /// The known logs, and where reading each one ended: for `check`, `compact` and `stat`.
    pub fn logs(inner: &Inner) -> Vec<(u64, Ended, bool, Position)> {
        inner.known.iter().map(|(n, k)| (*n, k.ended, k.live, k.position.clone())).collect()
    }

    /// Whether records may still be written to a log.
    pub fn is_live(inner: &Inner, log: u64) -> bool {
        inner.known.get(&log).is_some_and(|known| known.live)
    }

    /// Reads everything again, after another process compacted logs.
    pub fn reload(&self, inner: &mut Inner) -> Result<()> {
        let own = inner.writer.is_some();
        if own {
            self.retire(inner)?;
        }
        let unrecorded: Vec<(String, Entry)> = inner
            .names
            .iter()
            .filter(|(_, e)| matches!(e.content, Content::Here { .. }))
            .map(|(n, e)| (n.clone(), e.clone()))
            .collect();
        inner.known.clear();
        inner.names = unrecorded.into_iter().collect();
        self.look(inner)
    }
}

impl Inner {
    /// Makes this the log of this process; the bell must be rung.
    fn begin(&mut self, writer: Writer) {
        self.own.insert(writer.number);
        (self.writer, self.unrung) = (Some(writer), true);
    }

    /// Logs of other processes.
    fn others(&self) -> impl Iterator<Item = &TrackedLog> {
        self.known.iter().filter(|(number, _)| !self.own.contains(number)).map(|(_, known)| known)
    }
}

/// Reads new records of logs in use.
fn follow(store: &Arc<dyn Store>, inner: &mut Inner) -> Result<()> {
    let Inner { known, names, clock, path, .. } = inner;
    let place = hidden(path);
    for (number, log) in known.iter_mut().filter(|(_, k)| k.live) {
        let intends = &mut log.intends;
        let open_names = || match store.open_read(&format!("{place}{}", log::names_name(*number))) {
            Ok(object) => Ok(Some(object)),
            Err(e) if e.kind() == ErrorKind::NotFound => Ok(None),
            Err(e) => Err(e),
        };
        let mut each = |at: u64, head: Head| {
            *intends = match &head {
                Head::Changes { changes, .. } => intent(changes),
                Head::End => None,
            };
            take(names, clock, *number, at, head);
        };
        let ended = log::read_on(&*log.object, open_names, *number, &mut log.position, &mut each);
        log.ended = ended.map_err(|e| e.in_object(format!("{place}{}", log::data_name(*number))))?;
        // A closed log never changes, nor does one that became visible at its close.
        log.live = log.ended != Ended::Closed && store.capability().write_at;
    }
    Ok(())
}

/// The hidden folder of a folder, with a trailing `/`.
pub fn hidden(path: &str) -> String {
    below(path, HIDDEN) + "/"
}

/// A name below a folder.
pub fn below(path: &str, name: &str) -> String {
    if path.is_empty() { name.to_string() } else { format!("{path}/{name}") }
}
