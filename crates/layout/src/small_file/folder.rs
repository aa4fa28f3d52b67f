//! What is known of one folder: its names, put together from all logs, and the log this process writes.

use super::log::{self, Ended, Position, Writer};
use super::record::{self, Change, Content, Head, More, RecordedAttributes, Stamp};
use super::spare::Spare;
use super::{HIDDEN, Node, Settings, fresh};
use crate::{Change as AttributeChange, errno};
use rustix::io::Errno;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::io::IoSlice;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, MutexGuard, Weak};
use std::time::{Duration, Instant, SystemTime};
use thalweg_store::{OpenWrite, ReadObject, Store, StoreExt, WriteObject};
use thalweg_types::checksum::crc32c;
use thalweg_types::mutex::Mutex;
use thalweg_types::{Error, ErrorKind, Result};

/// What the bell holds where the folder is being removed.
const REMOVED: [u8; 8] = [0xff; 8];

/// A name, as far as the logs tell.
#[derive(Debug, Clone)]
pub struct Entry {
    pub content: Content,
    /// When `content` was recorded.
    pub stamp: Stamp,
    pub kept: Option<RecordedAttributes>,
    kept_stamp: Stamp,
    pub more: Option<Arc<More>>,
    more_stamp: Stamp,
}

/// Bytes of a file, or the log to read them from.
enum Found {
    Bytes(Vec<u8>),
    Log(String, Arc<dyn ReadObject>),
}

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

    /// Whether the bell is as it was heard last; `false` for a folder without one. Costs no operation on names.
    pub fn is_silent(&self) -> bool {
        let inner = self.lock();
        let mut rung = [0; 8];
        let read = |bell: &dyn ReadObject, rung: &mut [u8]| bell.read_at(0, rung).is_ok_and(|got| got == rung.len());
        inner.bell.as_deref().is_some_and(|bell| read(bell, &mut rung)) && rung == inner.rung
    }

    /// Another process removes the folder, or tries to.
    fn wait_for_removal(&self, inner: &mut Inner) -> Result<()> {
        for _ in 0..200 {
            let name = format!("{}bell", hidden(&inner.path));
            match self.store.read_all(&name) {
                Ok(rung) if rung != REMOVED => return self.look(inner),
                Ok(_) => std::thread::sleep(Duration::from_millis(5)),
                // Removed; another folder may have the name by now.
                Err(e) if e.kind() == ErrorKind::NotFound => return self.look(inner),
                Err(e) => return Err(e),
            }
        }
        let held = self.store.open_read(&format!("{}bell", hidden(&inner.path)))?.life()?.held;
        if held == Some(false) {
            // Who removed it has died, or could not.
            return self.ring(inner);
        }
        Err(errno::failure(Errno::NOENT, "use a folder that was removed", &inner.path))
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

    /// Sees to it that `bytes` of records can be put beside those that are promised.
    ///
    /// # Errors
    /// `NoSpace`.
    pub fn room(&self, inner: &mut Inner, bytes: u64) -> Result<()> {
        if !self.store.capability().write_at {
            return Ok(());
        }
        let all = self.promised.load(Ordering::Relaxed).saturating_add(bytes);
        if inner.writer.as_ref().is_some_and(|w| w.of_spare && w.usable()) {
            // The spare is for others. Is there room again?
            let place = self.place(inner)?;
            let mut writer = Writer::new(self.store.clone(), &place)?;
            if let Err(e) = writer.find(all) {
                let name = format!("{place}/{}", log::data_name(writer.number));
                drop(writer);
                let _ = self.store.remove(&name);
                return Err(e);
            }
            self.retire(inner)?;
            inner.begin(writer);
        }
        self.writer(inner)?.find(all)
    }

    /// As [`Folder::room`]; the room is kept until [`Folder::kept_promise`].
    pub fn promise(&self, inner: &mut Inner, bytes: u64) -> Result<()> {
        self.room(inner, bytes)?;
        self.promised.fetch_add(bytes, Ordering::Relaxed);
        Ok(())
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

    /// A new log in the hidden folder `place`, of the spare where that is asked for and there is one.
    pub fn new_log(&self, place: &str, spare: bool) -> Result<Writer> {
        match if spare { self.spare.take(place)? } else { None } {
            Some(writer) => Ok(writer),
            None => Writer::new(self.store.clone(), place),
        }
    }

    /// A log that was made of the spare has ended.
    pub fn spare_again(&self) {
        self.spare.again();
    }

    /// Bytes that were promised are recorded, or will not be.
    pub fn kept_promise(&self, bytes: u64) {
        self.promised.fetch_sub(bytes, Ordering::Relaxed);
    }

    /// Where there was no room for a record: the spare becomes this process's log.
    ///
    /// - `why`: what there was, for a store without a spare.
    fn take_spare(&self, inner: &mut Inner, why: Error) -> Result<()> {
        if why.kind() != ErrorKind::NoSpace {
            return Err(why);
        }
        let Ok(place) = self.place(inner) else { return Err(why) };
        let Some(writer) = self.spare.take(&place)? else { return Err(why) };
        let retired = self.retire(inner);
        inner.begin(writer);
        retired?;
        self.ring(inner)
    }

    /// Tells other processes that names beside known logs have changed.
    pub fn ring(&self, inner: &mut Inner) -> Result<()> {
        if !inner.hidden || !self.store.capability().write_at {
            // As long as there is no bell, everybody looks each time.
            inner.unrung = false;
            return Ok(());
        }
        let mut rung = fresh().to_le_bytes();
        rung[7] &= 0x7f;
        inner.unrung = true;
        match self.ring_with(inner, rung) {
            // No room for a bell: as long as there is none, everybody looks each time.
            Err(e) if e.kind() == ErrorKind::NoSpace => {}
            other => other.map(|()| inner.unrung = false)?,
        }
        // Another's ring may have been rung over: what it was about is there by now.
        self.look(inner)
    }

    /// Rings the bell of a folder that this process does not use; nothing where it has none.
    pub fn ring_of(store: &dyn Store, path: &str) -> Result<()> {
        let mut rung = fresh().to_le_bytes();
        rung[7] &= 0x7f;
        match store.open_write(&format!("{}bell", hidden(path)), OpenWrite::Existing) {
            Ok(bell) => bell.write_at(0, &[IoSlice::new(&rung)]).and_then(|()| bell.close()),
            Err(e) if e.kind() == ErrorKind::NotFound => Ok(()),
            Err(e) => Err(e),
        }
    }

    fn ring_with(&self, inner: &Inner, rung: [u8; 8]) -> Result<()> {
        let name = format!("{}bell", hidden(&inner.path));
        let bell = self.store.open_write(&name, OpenWrite::Any)?;
        let written = match bell.write_at(0, &[IoSlice::new(&rung)]) {
            Ok(()) => bell.close(),
            Err(e) => Err(e),
        };
        if written.as_ref().is_err_and(|e| e.kind() == ErrorKind::NoSpace) {
            // On a store that writes elsewhere what it writes again, or that tells at the close that it had no room: others may hear the old
            // ring. A bell that holds nothing says nothing: everybody looks.
            let bell = self.store.open_write(&name, OpenWrite::Existing)?;
            bell.truncate(0)?;
            bell.close()?;
        }
        written
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

    /// Records a name that no other process records too: one at most succeeds, as far as the store shows bytes at once.
    ///
    /// # Errors
    /// `AlreadyExists`.
    pub fn record_new(&self, inner: &mut Inner, name: &str, change: Change) -> Result<()> {
        if !self.store.capability().write_at {
            return self.record(inner, vec![change], &[]);
        }
        // Up to three records, and what the link or the file is to have.
        let more = change.more.as_ref().map_or(0, |more| more.bytes() + more.target.as_ref().map_or(0, String::len));
        self.room(inner, (3 * (record::MOST_OF_CHANGE + name.len()) + more) as u64)?;
        match self.alone(inner, change, &[], &|inner| inner.file(name).is_some())? {
            true => Ok(()),
            false => Err(errno::failure(Errno::EXIST, "make", name)),
        }
    }

    /// Records what is only right as long as no other process recorded something about the same name: `false`, and nothing is
    /// recorded, where `comes_late`. As far as the store shows bytes at once.
    pub fn record_alone(
        &self,
        inner: &mut Inner,
        change: Change,
        data: &[u8],
        comes_late: &dyn Fn(&Inner) -> bool,
    ) -> Result<bool> {
        if !self.is_shared(inner) {
            return self.record(inner, vec![change], data).map(|()| true);
        }
        self.alone(inner, change, data, comes_late)
    }

    /// Whether other processes wrote in this folder while this one did, as far as that can be told.
    fn is_shared(&self, inner: &mut Inner) -> bool {
        inner.shared |= self.store.capability().write_at && inner.others().any(|known| known.live);
        inner.shared
    }

    /// Whether another process is about to record something about this name. What a dead one intended stays undone.
    fn has_rivals(inner: &Inner, name: &str) -> Result<bool> {
        let mut rivals = false;
        for log in inner.others().filter(|k| k.live && k.intends.as_deref() == Some(name)) {
            rivals |= log.object.life()?.held != Some(false);
        }
        Ok(rivals)
    }

    fn alone(
        &self,
        inner: &mut Inner,
        change: Change,
        data: &[u8],
        comes_late: &dyn Fn(&Inner) -> bool,
    ) -> Result<bool> {
        let intent = Change::of(&change.name);
        for _ in 0..500 {
            if comes_late(inner) {
                return Ok(false);
            }
            // All write what they intend first and look then, so of two at least one sees the other.
            self.record(inner, vec![intent.clone()], &[])?;
            let told_in = inner.writer.as_ref().map(|writer| writer.number);
            self.refresh(inner)?;
            if inner.writer.as_ref().map(|writer| writer.number) != told_in {
                // The log was ended by what was found, and the intent with it.
                continue;
            }
            let rivals = Folder::has_rivals(inner, &change.name)?;
            let late = comes_late(inner);
            if !rivals && !late {
                return self.record(inner, vec![change], data).map(|()| true);
            }
            self.record(inner, Vec::new(), &[])?;
            if !late {
                // Whoever withdrew tries again after a while of its own.
                std::thread::sleep(Duration::from_micros(fresh() % 5000));
                self.refresh(inner)?;
            }
        }
        Err(errno::failure(Errno::BUSY, "write a file that others are making or writing", &change.name))
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

    /// The bytes of a file, checked.
    ///
    /// # Errors
    /// `Corrupt` names log and byte; `NotFound` where the log is gone, which another process compacted.
    pub fn bytes(&self, log: u64, offset: u64, length: u32, crc: u32) -> Result<Vec<u8>> {
        let found = self.find_bytes(&mut self.lock(), log, offset, length, crc)?;
        Folder::read_bytes(found, offset, length, crc)
    }

    /// As [`Folder::bytes`], where the folder is locked already.
    pub fn bytes_in(&self, inner: &mut Inner, log: u64, offset: u64, length: u32, crc: u32) -> Result<Vec<u8>> {
        let found = self.find_bytes(inner, log, offset, length, crc)?;
        Folder::read_bytes(found, offset, length, crc)
    }

    fn damaged(name: &str, offset: u64) -> Error {
        let what = "the bytes of a small file do not match their checksum: they were not synced before its writer died, or were damaged";
        Error::new(ErrorKind::Corrupt, what).in_object(name).at_byte(offset)
    }

    /// The bytes, or the log that holds them, which is read without the folder's lock.
    fn find_bytes(&self, inner: &mut Inner, log: u64, offset: u64, length: u32, crc: u32) -> Result<Found> {
        if length == 0 {
            return match crc {
                0 => Ok(Found::Bytes(Vec::new())),
                _ => Err(Folder::damaged(&log::data_name(log), offset)),
            };
        }
        let name = format!("{}{}", hidden(&inner.path), log::data_name(log));
        if let Some(recent) = inner.recent.get(&(log, offset)) {
            return Ok(Found::Bytes(recent.to_vec()));
        }
        if let Some(writer) = inner.writer.as_ref().filter(|w| w.number == log) {
            if offset.saturating_add(u64::from(length)) > writer.end {
                return Err(Folder::damaged(&name, offset));
            }
            let mut bytes = vec![0; length as usize];
            let got = writer.read_at(offset, &mut bytes)?;
            let good = got == bytes.len() && crc32c(&bytes) == crc;
            return if good { Ok(Found::Bytes(bytes)) } else { Err(Folder::damaged(&name, offset)) };
        }
        if !inner.known.contains_key(&log) {
            self.look(inner)?;
        }
        let object = inner.known.get(&log).map(|k| k.object.clone());
        let gone = || Error::new(ErrorKind::NotFound, "a log is gone").in_object(name.clone());
        Ok(Found::Log(name.clone(), object.ok_or_else(gone)?))
    }

    fn read_bytes(found: Found, offset: u64, length: u32, crc: u32) -> Result<Vec<u8>> {
        /// Longer ones are held against the log's length before memory is taken for them.
        const TAKEN_UNSEEN: u32 = 64 << 10;
        let (name, object) = match found {
            Found::Bytes(bytes) => return Ok(bytes),
            Found::Log(name, object) => (name, object),
        };
        if length > TAKEN_UNSEEN && object.length()? < offset.saturating_add(u64::from(length)) {
            return Err(Folder::damaged(&name, offset));
        }
        let mut bytes = vec![0; length as usize];
        let got = object.read_at(offset, &mut bytes)?;
        let good = got == bytes.len() && crc32c(&bytes) == crc;
        if good { Ok(bytes) } else { Err(Folder::damaged(&name, offset)) }
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

    /// Removes the hidden folder of a folder without files, so that the folder itself can go.
    ///
    /// # Errors
    /// `InvalidArgument` where another process made a file in this moment.
    pub fn clear(&self) -> Result<()> {
        let mut inner = self.fresh()?;
        let empty = |inner: &Inner| inner.real.is_empty() && inner.names.values().all(|e| e.content == Content::Gone);
        let refused =
            |inner: &Inner| Err(errno::failure(Errno::NOTEMPTY, "remove a folder that is not empty", &inner.path));
        if !empty(&inner) || inner.open.values().any(|n| n.upgrade().is_some_and(|n| n.is_linked())) {
            return refused(&inner);
        }
        if !inner.hidden {
            return Ok(());
        }
        if !self.store.capability().write_at {
            return self.remove_hidden(&mut inner);
        }
        // From here on others wait before they trust their own records; what they recorded before is seen now. Held, so that they
        // do not wait for a process that has died.
        let bell = self.store.open_write(&format!("{}bell", hidden(&inner.path)), OpenWrite::Any)?;
        let lease = bell.lease();
        // Where the folder stays after all, others are told.
        inner.unrung = true;
        let removed = (|| {
            bell.write_at(0, &[IoSlice::new(&REMOVED)])?;
            inner.bell = None;
            self.look(&mut inner)?;
            if empty(&inner) { self.remove_hidden(&mut inner) } else { refused(&inner) }
        })();
        drop((bell, lease));
        match removed {
            Ok(()) => inner.unrung = false,
            Err(_) => {
                let _ = self.ring(&mut inner);
            }
        }
        removed
    }

    fn remove_hidden(&self, inner: &mut Inner) -> Result<()> {
        let place = hidden(&inner.path);
        inner.writer = None;
        inner.known.clear();
        inner.names.clear();
        for name in self.store.list(place.trim_end_matches('/'))? {
            match self.store.remove(&format!("{place}{name}")) {
                Err(e) if e.kind() != ErrorKind::NotFound => return Err(e),
                _ => {}
            }
        }
        inner.hidden = false;
        self.store.remove(place.trim_end_matches('/'))
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

impl Entry {
    const NONE: Entry = Entry {
        content: Content::Gone,
        stamp: Stamp { clock: 0, log: 0 },
        kept: None,
        kept_stamp: Stamp { clock: 0, log: 0 },
        more: None,
        more_stamp: Stamp { clock: 0, log: 0 },
    };

    pub fn kept_stamp(&self) -> Stamp {
        self.kept_stamp
    }

    pub fn more_stamp(&self) -> Stamp {
        self.more_stamp
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

    /// A file that is there.
    pub fn file(&self, name: &str) -> Option<&Entry> {
        self.names.get(name).filter(|e| e.content != Content::Gone)
    }

    /// A file that was made and could not be recorded: there is none.
    pub fn forget_pretended(&mut self, name: &str) {
        if let Some(entry) = self.names.get_mut(name)
            && matches!(entry.content, Content::Here { .. })
        {
            entry.content = Content::Gone;
        }
    }

    /// A file that is made but not recorded yet: known to this process alone.
    pub fn pretend(&mut self, name: &str, kept: RecordedAttributes) {
        let entry = self.names.entry(name.to_string()).or_insert(Entry::NONE);
        entry.content = Content::Here { length: 0, crc: 0 };
        (entry.kept, entry.more) = (Some(kept), None);
    }

    /// What a name that is made new has to record, so that what another file of this name had is not its own.
    pub fn nothing_more(&self, name: &str) -> Option<More> {
        let recorded = self.names.get(name).is_some_and(|entry| entry.more_stamp != Stamp::default());
        recorded.then(More::default)
    }

    /// Where a symbolic link leads: another name of the layout; `None` where this is no link.
    ///
    /// # Errors
    /// `NotFound` for one that leads out of the layout.
    pub fn leads(&self, name: &str) -> Result<Option<String>> {
        match self.target(name)? {
            Some(target) => crate::container::beside(&below(&self.path, name), &target).map(Some),
            None => Ok(None),
        }
    }

    /// What a symbolic link holds; `None` where this is no link.
    pub fn target(&self, name: &str) -> Result<Option<String>> {
        let Some(entry) = self.file(name).filter(|entry| entry.content == Content::Link) else { return Ok(None) };
        let target = entry.more.as_ref().and_then(|more| more.target.clone());
        let lost = || Error::new(ErrorKind::Corrupt, "a symbolic link of which nobody recorded where it leads");
        target.ok_or_else(|| lost().in_object(name)).map(Some)
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

/// Takes a record over: for each name, the newest content and the newest of what is kept win.
fn take(names: &mut BTreeMap<String, Entry>, clock: &mut u64, log: u64, at: u64, head: Head) {
    let Head::Changes { clock: recorded, changes } = head else { return };
    *clock = (*clock).max(recorded);
    for change in changes.into_iter().filter(|c| c.content.is_some() || c.kept.is_some() || c.more.is_some()) {
        let stamp = change.stamp.unwrap_or(Stamp { clock: recorded, log });
        *clock = (*clock).max(stamp.clock);
        // A copy that compaction made has the stamp of what it copied, and replaces it.
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
        if change.kept.is_some() && newer(stamp, entry.kept_stamp) {
            (entry.kept, entry.kept_stamp) = (change.kept, stamp);
        }
        if let Some(more) = change.more
            && newer(stamp, entry.more_stamp)
        {
            (entry.more, entry.more_stamp) = (Some(Arc::new(more)), stamp);
        }
    }
}

/// The name that a record is an intent about: one change that changes nothing.
fn intent(changes: &[Change]) -> Option<String> {
    match changes {
        [Change { name, stamp: None, content: None, kept: None, more: None }] => Some(name.clone()),
        _ => None,
    }
}

/// The hidden folder of a folder, with `/` behind it.
pub fn hidden(path: &str) -> String {
    below(path, HIDDEN) + "/"
}

/// A name below a folder.
pub fn below(path: &str, name: &str) -> String {
    if path.is_empty() { name.to_string() } else { format!("{path}/{name}") }
}
