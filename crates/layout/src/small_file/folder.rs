//! One folder: what this process knows of its names, and the log that this process writes.
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
use super::record::{Change, Content, Head, RecordedAttributes};
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

/// A log of another process, or one that was closed.
struct Known {
    object: Arc<dyn ReadObject>,
    position: Position,
    ended: Ended,
    /// Whether records may still come.
    live: bool,
    /// The name that its process is about to make exclusively: told by the last record, if by any.
    intends: Option<String>,
}

/// What is known of a folder at the moment.
pub struct Inner {
    /// The folder's own name, in the store.
    pub path: String,
    pub names: BTreeMap<String, Entry>,
    /// Objects and folders beside the logs, in the folder itself: folders (true) and what lay there before.
    pub real: BTreeMap<String, Option<bool>>,
    known: HashMap<u64, Known>,
    pub writer: Option<Writer>,
    /// Content of the log being written, where the store does not give it back.
    recent: HashMap<(u64, u64), Arc<[u8]>>,
    recent_bytes: u64,
    clock: u64,
    bell: Option<Box<dyn ReadObject>>,
    rung: [u8; 8],
    /// Others have to be told of a change, and were not yet: the bell could not be rung.
    pub unrung: bool,
    /// Logs that this process began; one that could not be given an end looks as if it were written.
    own: HashSet<u64>,
    /// A log of another process was seen that was not ended.
    shared: bool,
    /// Whether the hidden folder is there.
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
    /// Bytes of records that files which are open will make of what programs were told is written.
    promised: AtomicU64,
    inner: Mutex<Inner>,
}

impl Folder {
    /// The folder of this name in the store.
    ///
    /// # Errors
    /// `NotFound` where there is none.
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
        // Entries change after the record is written; a panicking thread loses its own call.
        let mut inner = self.inner.lock();
        if inner.writer.as_ref().is_some_and(|writer| !writer.is_own()) {
            // Forked: the log is the parent's, who goes on writing there. It is read from now on, as any other's; without a bell
            // the logs are listed anew. What the parent has not recorded, it records itself.
            (inner.writer, inner.bell) = (None, None);
            inner.own.clear();
        }
        inner
    }

    /// The folder as it is now: what other processes recorded is taken over.
    pub fn fresh(&self) -> Result<MutexGuard<'_, Inner>> {
        let mut inner = self.lock();
        self.refresh(&mut inner)?;
        Ok(inner)
    }

    /// As [`Folder::fresh`], for a file that is made: where looking costs an operation on names, not at each one.
    pub fn fresh_enough(&self) -> Result<MutexGuard<'_, Inner>> {
        let mut inner = self.lock();
        let costly = !self.store.capability().write_at;
        if !(costly && inner.looked.is_some_and(|at| at.elapsed() < Duration::from_secs(1))) {
            self.refresh(&mut inner)?;
        }
        Ok(inner)
    }

    fn refresh(&self, inner: &mut Inner) -> Result<()> {
        // Ringing looks, too, where there is a hidden folder to ring in.
        if inner.unrung && inner.hidden && self.ring(inner).is_ok() {
            return Ok(());
        }
        if let Some(bell) = &inner.bell {
            let mut rung = [0; 8];
            let got = bell.read_at(0, &mut rung)?;
            if rung == REMOVED {
                return self.wait_for_removal(inner);
            }
            // One that was made on a full store holds nothing, and says nothing.
            if got == rung.len() && rung == inner.rung {
                return follow(&self.store, inner);
            }
        }
        self.look(inner)
    }

    /// Lists the folder and its logs, and reads what is new.
    fn look(&self, inner: &mut Inner) -> Result<()> {
        let looked = Instant::now();
        let place = hidden(&inner.path);
        // Where anything fails, the next call looks again.
        (inner.bell, inner.looked) = (None, None);
        let mut heard = None;
        // First the bell, then the logs: one that comes between rings it again.
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
            // A log that was not closed when it was read is opened anew.
            inner.known.retain(|_, known| known.ended == Ended::Closed);
        }
        if !inner.hidden && (inner.writer.is_some() || !inner.known.is_empty()) {
            self.forget(inner, &[])?;
        }
        // A log that was listed and is gone was put together with others, into one that the list may not have.
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

    /// Opens the logs that are not known yet; whether all that were listed were there.
    fn open_logs(&self, inner: &mut Inner, place: &str) -> Result<bool> {
        let logs = match self.store.list(place.trim_end_matches('/')) {
            Ok(logs) => logs,
            Err(e) if e.kind() == ErrorKind::NotFound => Vec::new(),
            Err(e) => return Err(e),
        };
        // A log that is being written is listed where the store shows bytes at once.
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
            let known = Known { object, position: Position::start(), ended: Ended::Whole, live: true, intends: None };
            inner.known.insert(number, known);
        }
        Ok(all)
    }

    /// Logs that were known are gone: another process put them together, or gave the folder another name and this one its old
    /// one. All is read anew.
    fn forget(&self, inner: &mut Inner, logs: &[String]) -> Result<()> {
        if let Some(writer) = inner.writer.take()
            && logs.contains(&log::data_name(writer.number))
        {
            writer.close()?;
        }
        (inner.recent, inner.recent_bytes) = (HashMap::new(), 0);
        inner.known.clear();
        // What is made and not recorded yet only this process knows.
        inner.names.retain(|_, entry| matches!(entry.content, Content::Here { .. }));
        Ok(())
    }

    /// Makes the hidden folder and this process's log, where they are not there yet.
    fn writer<'i>(&self, inner: &'i mut Inner) -> Result<&'i mut Writer> {
        if inner.writer.as_ref().is_some_and(|w| !w.usable()) {
            self.retire(inner)?;
        }
        // Whoever rings looks, and may find that another process put logs together: its own ends with them.
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

    /// The hidden folder, made where it is not there.
    fn place(&self, inner: &mut Inner) -> Result<String> {
        let place = hidden(&inner.path);
        let place = place.trim_end_matches('/');
        if !inner.hidden {
            // Never the folder itself: it may have been removed.
            match self.store.make_one_folder(place, 0o777) {
                Err(e) if e.kind() != ErrorKind::AlreadyExists => return Err(e),
                _ => inner.hidden = true,
            }
        }
        Ok(place.to_string())
    }

    /// Whether this process's log can be read by users whom a file with these permission bits keeps out: its bytes do not belong there.
    pub fn shows_more(&self, inner: &mut Inner, mode: u32) -> Result<bool> {
        // Where a store writes at the end alone, a file of an object of its own could not be changed any more.
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

    /// The object of a file that is not in the logs.
    pub fn own(inner: &Inner, number: u64) -> String {
        format!("{}{}", hidden(&inner.path), log::own_name(number))
    }

    /// Makes an object with the file's owner and mode, and fills it. Nobody knows of it before its number is recorded.
    pub fn own_object(
        &self,
        inner: &mut Inner,
        kept: &RecordedAttributes,
        fill: &dyn Fn(&dyn WriteObject) -> Result<()>,
    ) -> Result<(u64, Box<dyn WriteObject>)> {
        // The hidden folder is made with the log.
        self.writer(inner)?;
        let number = fresh();
        let name = Folder::own(inner, number);
        let object = self.store.open_write(&name, OpenWrite::New)?;
        match self.protect(&name, kept).and_then(|()| fill(&*object)) {
            Ok(()) => Ok((number, object)),
            Err(e) => {
                drop(object);
                let _ = self.store.remove(&name);
                Err(e)
            }
        }
    }

    /// Gives the object of a file its permission bits, and its owner where this process may; whoever owns an object reads and writes it.
    pub fn protect(&self, object: &str, kept: &RecordedAttributes) -> Result<()> {
        if !self.store.capability().modes {
            return Ok(());
        }
        let about = self.store.attributes(object)?;
        let mode = kept.mode & 0o777 | 0o600;
        if about.mode != mode {
            self.store.set_attributes(object, &AttributeChange { mode: Some(mode), ..AttributeChange::default() })?;
        }
        let changed = |old: u32, new: u32| (old != new).then_some(new);
        let (uid, gid) = (changed(about.uid, kept.uid), changed(about.gid, kept.gid));
        if uid.is_none() && gid.is_none() {
            return Ok(());
        }
        match self.store.set_attributes(object, &AttributeChange { uid, gid, ..AttributeChange::default() }) {
            // Root alone gives files away.
            Err(e) if e.kind() != ErrorKind::PermissionDenied => Err(e),
            _ => Ok(()),
        }
    }

    /// Records changes, all or none; the newest of all that is known. `data` belongs to the change with `Content::Here`.
    pub fn record(&self, inner: &mut Inner, changes: Vec<Change>, data: &[u8]) -> Result<()> {
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
        // An intent is looked for in logs that are written: it is never the last record of one.
        let intends = matches!(&head, Head::Changes { changes, .. } if intent(changes).is_some());
        take(&mut inner.names, &mut inner.clock, number, at, head);
        let full = !intends && inner.writer.as_ref().is_some_and(|w| w.end >= self.settings.log);
        if full || (keeps_recent && inner.recent_bytes >= self.settings.log.min(16 << 20)) {
            self.retire(inner)?;
        }
        Ok(())
    }

    /// Ends this process's log in the folder; the next record begins another.
    pub fn retire(&self, inner: &mut Inner) -> Result<()> {
        let Some(writer) = inner.writer.take() else { return Ok(()) };
        let (number, end, of_spare) = (writer.number, writer.end, writer.of_spare);
        if let Err(e) = writer.close() {
            // Others hear of the log all the same; where that fails, too, the next look rings.
            inner.unrung = true;
            let _ = self.ring(inner);
            return Err(e);
        }
        if of_spare {
            self.spare.again();
        }
        (inner.recent, inner.recent_bytes) = (HashMap::new(), 0);
        let name = format!("{}{}", hidden(&inner.path), log::data_name(number));
        let object = Arc::from(self.store.open_read(&name)?);
        let mut position = Position::start();
        position.at = end;
        inner.known.insert(number, Known { object, position, ended: Ended::Closed, live: false, intends: None });
        self.ring(inner)
    }

    /// When this process, or another as far as the store tells, recorded something last: files that come and go leave the folder
    /// below as it is.
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

    /// Objects of the logs, and how the reading of each ended: for `check`, `compact` and `stat`.
    pub fn logs(inner: &Inner) -> Vec<(u64, Ended, bool, Position)> {
        inner.known.iter().map(|(n, k)| (*n, k.ended, k.live, k.position.clone())).collect()
    }

    /// What is known, put together anew: after another process compacted logs that are gone now.
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
    /// This process writes this log from now on, of which others are to hear.
    fn begin(&mut self, writer: Writer) {
        self.own.insert(writer.number);
        (self.writer, self.unrung) = (Some(writer), true);
    }

    /// Logs of other processes.
    fn others(&self) -> impl Iterator<Item = &Known> {
        self.known.iter().filter(|(number, _)| !self.own.contains(number)).map(|(_, known)| known)
    }
}

/// Reads what live logs have got since.
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
        // What is closed never changes, nor what became visible as a whole.
        log.live = log.ended != Ended::Closed && store.capability().write_at;
    }
    Ok(())
}

/// The hidden folder of a folder, with `/` behind it.
pub fn hidden(path: &str) -> String {
    below(path, HIDDEN) + "/"
}

/// A name below a folder.
pub fn below(path: &str, name: &str) -> String {
    if path.is_empty() { name.to_string() } else { format!("{path}/{name}") }
}
