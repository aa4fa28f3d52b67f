//! A container as one process has it open: the clock that its handles share, its length, and its index after the first read.
//!
//! | question | answer |
//! |----------|--------|
//! | handles of one process | see each other's writes immediately; with one writer number, later writes replace earlier ones; of different numbers (ranks as threads), the greater number wins until one of them syncs |
//! | other processes | their marks are read when a handle is opened, at its first write, and by `sync` |
//! | appends | are ordered after every write this process knows of, by any of its handles, and before its later writes |
//! | the index | is loaded by the first read and then updated with this process's writes; a process that only writes loads none |
//! | unreadable logs | for example in another node's burst buffer: bytes after the last byte of their sessions are read without these logs; other reads fail |
//! | a fork   | a child that continues with a handle begins its own session, ordered after all that the parent wrote; unpublished bytes stay the parent's |
//! | room `reading` | length, index and bytes |
//! | lock order | a handle's session, then this state |

use super::index::Merged;
use super::index::block::Entry;
use super::index::{Source, highest};
use super::load::{self, Unclean};
use super::marks::{self, Home, Mark, Published};
use super::place::{HIDDEN, Place, now};
use super::record::{Kind, MOST};
use super::removal::{Going, remove_container, remove_inside};
use super::session::{LeasedObject, Log, Session};
use super::synopsis::{End, Guessed, Synopsis};
use super::{Options, clock};
use std::collections::{BTreeMap, HashMap};
use std::io::IoSlice;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, MutexGuard};
use std::time::{Duration, Instant};
use thalweg_store::{ReadObject, pieces, viewed};
use thalweg_types::mutex::Mutex;
use thalweg_types::{Error, ErrorKind, Result};
use thalweg_view::View;

/// Fails for bytes beyond the largest offset of a file.
fn within(offset: u64, length: u64) -> Result<()> {
    match offset.checked_add(length).is_none_or(|end| end > MOST) {
        true => Err(Error::new(ErrorKind::OutOfBounds, "cannot write: file offsets end at 2^63 - 1").at_byte(offset)),
        false => Ok(()),
    }
}

mod reading;

/// Largest number of data logs kept open for reading.
const MOST_OPEN: usize = 64;

/// An open container.
pub struct File {
    pub place: Arc<Place>,
    options: Arc<Options>,
    state: Mutex<State>,
    /// Locked while the index is loaded, so that one thread loads it.
    loading: Mutex<()>,
    /// Locked during an append: appends are serialized.
    appending: Mutex<()>,
    readers: Mutex<Readers>,
    /// The process whose sessions `state` knows.
    process: AtomicU32,
}

#[derive(Default)]
struct Readers {
    open: HashMap<Source, (u64, Arc<dyn ReadObject>)>,
    asked: u64,
}

#[derive(Default)]
struct State {
    looked: bool,
    /// Not refreshed since the file was opened to be written, or since the process was forked.
    inherited: bool,
    /// Number of handles opened for writing so far.
    sessions: u64,
    /// Number of handles closed so far.
    closes: u64,
    /// Names in the folder of marks at the last refresh.
    seen: Vec<String>,
    /// Names in the folder of marks that are no marks: attributes, snapshots.
    beside: Vec<String>,
    /// Marks of other processes' sessions and of this process's closed handles.
    others: Vec<Mark>,
    local: BTreeMap<u64, Local>,
    /// Highest clock in use.
    used: u64,
    /// All later writes of this process have this clock at least: that of its last cut, or one that its caller knows to be later than
    /// those of other processes.
    floor: u64,
    /// The session of the last write if that was an append, and the clock of the last append.
    appender: (Option<u64>, u64),
    /// Data log and clock of the last append, and the offset in the file at which their appends begin.
    tail: Option<(Source, u64, u64)>,
    /// Session that wrote last, by writer number.
    last: HashMap<u32, u64>,
    length: u64,
    cut: u64,
    /// The marks do not determine the length: the index is needed.
    by_index: bool,
    /// Other sessions are open. The marks determine the length unless a writer died: the records in its logs count too.
    unsettled: bool,
    index: Option<Merged>,
    /// The last bytes of the file, from its synopsis: while `index` is the index of that.
    end: Option<Arc<End>>,
    /// Highest clock of this process's writes and cuts that were noted without the index.
    noted: u64,
    /// Highest clock and lowest place of what was appended, where the length is known without the index: a write of an earlier clock
    /// beyond that place moves these appends.
    appended: Option<(u64, u64)>,
    /// Entries written while the index is being loaded.
    recorded: Option<Vec<(Source, Entry)>>,
    unclean: Vec<Unclean>,
    /// The file was unlinked.
    unlinked: Option<Arc<Going>>,
    /// The container is durable.
    rooted: bool,
}

struct Local {
    session: Arc<Session>,
    summary: clock::Summary,
    published: u64,
    written: u64,
}

impl State {
    fn published(&self, but: u64) -> u64 {
        let others = highest(self.others.iter().filter_map(|m| m.published.map(|p| p.summary)));
        let local = self.local.iter().filter(|(session, _)| **session != but).map(|(_, l)| l.published).max();
        others.max(local.unwrap_or(0))
    }

    /// Computes the length from the marks after a refresh.
    fn measure(&mut self) {
        let others =
            self.others.iter().map(|m| (m.home.writer, m.home.session, m.published.unwrap_or_default().summary));
        let local = self.local.iter().map(|(session, l)| (l.session.home.writer, *session, l.summary));
        let all: Vec<_> = others.chain(local).collect();
        self.cut = all.iter().map(|(_, _, s)| s.cut_clock).max().unwrap_or(0);
        let appends = all.iter().filter_map(|(_, _, s)| s.base.map(|base| (s.last, base)));
        self.appended = appends.reduce(|(last, place), (other, base)| (last.max(other), place.min(base)));
        let length = clock::length(all.into_iter());
        self.by_index = length.is_none();
        self.unsettled = self.others.iter().any(|m| !m.closed() && m.open.is_some());
        if let Some(length) = length {
            self.length = length;
        }
    }

    /// Whether the length is known without reading logs.
    fn knows_length(&self) -> bool {
        self.index.is_some() || !(self.by_index || self.unsettled)
    }

    /// Orders a session's next writes after everything that others have published.
    fn follow(&mut self, session: &Session, log: &mut Log) {
        let published = self.published(session.home.session);
        if published >= log.clock {
            log.clock = published + 1;
            self.used = self.used.max(log.clock);
        }
    }

    /// Called before a handle writes.
    fn begins(&mut self, session: &Arc<Session>, log: &mut Log) {
        log.time = now();
        self.open(session);
    }

    /// Registers a session of this process that has a mark or is about to create one.
    fn open(&mut self, session: &Arc<Session>) {
        self.local.entry(session.home.session).or_insert_with(|| Local {
            session: session.clone(),
            summary: clock::Summary::default(),
            published: 0,
            written: 0,
        });
    }

    fn note(&mut self, source: &Source, entry: Entry) {
        self.end = None;
        if let Some(recorded) = &mut self.recorded {
            recorded.push((source.clone(), entry));
        }
        if let Some(index) = &mut self.index {
            if !index.add(source, &entry) {
                // Concurrent calls: an entry with an earlier clock moves appended bytes. The index is loaded again from the
                // logs.
                (self.index, self.by_index) = (None, true);
                return;
            }
            self.length = index.length;
            if let Entry::Run(run) = entry
                && run.appended
            {
                self.tail = index.base(source, run.clock).map(|base| (source.clone(), run.clock, base));
            }
            return;
        }
        let clock = match entry {
            Entry::Cut { clock, .. } => clock,
            Entry::Run(run) => run.clock,
        };
        let is_late = clock < self.noted;
        self.noted = self.noted.max(clock);
        match entry {
            // Concurrent calls: a later write was noted first.
            Entry::Cut { .. } if is_late => self.by_index = true,
            Entry::Cut { clock, length, .. } => (self.cut, self.length) = (clock, length),
            Entry::Run(run) if run.appended => {
                let known = self.tail.as_ref().filter(|(of, clock, _)| (of, *clock) == (source, run.clock));
                let base = known.map_or(self.length, |(_, _, base)| *base);
                self.tail = Some((source.clone(), run.clock, base));
                let (last, place) = self.appended.unwrap_or((0, u64::MAX));
                self.appended = Some((last.max(run.clock), place.min(base)));
                self.length = self.length.max(base.saturating_add(run.bounds().1));
            }
            Entry::Run(run) => {
                let end = run.bounds().1;
                self.by_index |= self.appended.is_some_and(|(clock, place)| run.clock <= clock && end > place);
                if run.clock >= self.cut {
                    self.length = self.length.max(end);
                }
            }
        }
    }
}

impl File {
    pub fn new(place: Arc<Place>, options: Arc<Options>) -> File {
        File {
            place,
            options,
            state: Mutex::default(),
            loading: Mutex::default(),
            appending: Mutex::default(),
            readers: Mutex::default(),
            process: AtomicU32::new(thalweg_store::pid()),
        }
    }

    /// In a forked child: the parent's sessions belong to another process, and the child's writes are ordered after all
    /// writes of the parent before the fork.
    pub fn belong(&self) {
        let process = thalweg_store::pid();
        if self.process.load(Ordering::Acquire) == process {
            return;
        }
        let mut state = self.state();
        if self.process.load(Ordering::Acquire) == process {
            return;
        }
        let (used, sessions, rooted) = (state.used + 1, state.sessions, state.rooted);
        let own = State { used, floor: used, sessions, rooted, inherited: true, ..State::default() };
        let parents = std::mem::replace(&mut *state, own);
        self.process.store(process, Ordering::Release);
        drop(state);
        parents.local.into_values().for_each(|local| local.session.leave());
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }

    /// Refreshes this process's view of what others published. Local sessions are kept.
    pub fn look(&self) -> Result<()> {
        self.belong();
        loop {
            let closes = self.state().closes;
            let names = self.place.list().map_err(|e| self.gone(e))?;
            let known = {
                let state = self.state();
                state.looked && state.seen == names
            };
            if !known && self.place.has_folder() && !self.place.stamp.packed {
                // A removal deletes the stamp first: without the stamp the list may be incomplete.
                self.place.first().stat(&self.place.stamp_copy()).map_err(|e| self.gone(e))?;
            }
            if self.learn(names, closes)? {
                return Ok(());
            }
        }
    }

    /// As [`File::look`], for a caller that has locked the inline object and just read it.
    pub fn look_locked(&self) -> Result<()> {
        self.belong();
        let closes = self.state().closes;
        let names = self.place.names_inside();
        match names.map_or(Ok(false), |names| self.learn(names, closes))? {
            true => Ok(()),
            false => self.look(),
        }
    }

    /// Uses the list of marks that another rank has just read, if this process has not refreshed yet; else refreshes.
    pub fn see(&self, names: &[String]) -> Result<()> {
        self.belong();
        let closes = {
            let state = self.state();
            if state.looked && state.seen == names {
                return Ok(());
            }
            (!state.looked).then_some(state.closes)
        };
        match closes {
            Some(closes) if self.learn(names.to_vec(), closes)? => Ok(()),
            _ => self.look(),
        }
    }

    /// Uses what was read while the name was looked up, if this process has not refreshed yet; else refreshes.
    pub fn see_guessed(&self, guessed: Guessed) -> Result<()> {
        let synopsis = guessed.synopsis.and_then(|bytes| Synopsis::decode(&bytes).ok());
        let synopsis = synopsis.filter(|synopsis| synopsis.snapshot.container == self.place.stamp.container);
        if let Some(synopsis) = &synopsis {
            self.place.note_heads(&synopsis.heads);
        }
        match guessed.names.map_or(Ok(None), |names| self.place.listed(names))? {
            Some(names) => self.see(&names)?,
            None => self.look()?,
        }
        if let Some(synopsis) = synopsis {
            self.take_synopsis(synopsis);
        }
        Ok(())
    }

    /// Applies a list of marks. `false` if the list is outdated: a handle was closed since the count was `closes`.
    fn learn(&self, names: Vec<String>, closes: u64) -> Result<bool> {
        let mut others = marks::read(&names)?;
        let mut state = self.state();
        if state.closes != closes {
            return Ok(false);
        }
        others.retain(|m| !state.local.contains_key(&m.home.session));
        let beside = names.iter().filter(|n| matches!(marks::parse(n), Ok(marks::MarkName::Other)));
        state.beside = beside.cloned().collect();
        state.seen = names;
        if state.looked && others == state.others {
            return Ok(true);
        }
        let new = others.iter().any(|m| !state.others.contains(m));
        let gone = state.others.iter().any(|m| !others.iter().any(|o| o.home.session == m.home.session));
        if new || gone {
            (state.index, state.end) = (None, None);
        }
        (state.looked, state.inherited) = (true, false);
        if !others.is_empty() {
            self.place.note_written();
        }
        state.others = others;
        state.used = state.used.max(highest(state.others.iter().filter_map(|m| m.published.map(|p| p.summary))));
        if state.index.is_none() {
            state.measure();
        }
        Ok(true)
    }

    /// Leaves the refresh of an open to the first call that needs it: the first write refreshes after its session's mark was made,
    /// and a refresh before would be one more request.
    pub fn look_later(&self) {
        let mut state = self.state();
        state.inherited |= !state.looked;
    }

    /// Begins a handle's session before its first write.
    pub fn will_write(&self, session: &Arc<Session>) -> Result<()> {
        match self.place.stamp.packed {
            true => self.begin(session, &mut session.lock()),
            false => Ok(()),
        }
    }

    /// Refreshes if nothing was refreshed since an open or a fork.
    fn known(&self) -> Result<()> {
        self.belong();
        let inherited = self.state().inherited;
        if inherited { self.look() } else { Ok(()) }
    }

    /// Names in the folder of marks that are no marks, as of the last refresh: attributes, snapshots.
    pub fn beside(&self) -> Vec<String> {
        self.state().beside.clone()
    }

    /// Names in the folder of marks, as of the last refresh.
    pub fn seen(&self) -> Vec<String> {
        self.state().seen.clone()
    }

    /// Translates `NotFound` of a container's object to `Io`.
    pub fn gone(&self, e: Error) -> Error {
        match e.kind() {
            ErrorKind::NotFound => Error::new(ErrorKind::Io, "the container of this file is gone").caused_by(e),
            _ => e,
        }
    }

    /// Creates a session for a handle.
    pub fn session(&self, writer: u32) -> Arc<Session> {
        let about = load::about(&format!("writer {writer}"));
        let mut state = self.state();
        let home = self.place.home(&self.options.host, writer, state.sessions);
        let clock = (state.published(0) + 1).max(state.floor);
        state.used = state.used.max(clock);
        state.sessions += 1;
        Arc::new(Session::new(self.place.clone(), home, about, &self.options, clock))
    }

    /// Creates the session of a handle that created the file; the session's mark was written with the stamp.
    pub fn first_session(&self, home: Home, inline: LeasedObject) -> Arc<Session> {
        let about = load::about(&format!("writer {}", home.writer));
        let mut state = self.state();
        state.used = state.used.max(1);
        state.sessions += 1;
        let session = Arc::new(Session::begun(self.place.clone(), home, about, &self.options, inline));
        state.open(&session);
        session
    }

    /// Highest clock that this process knows of.
    pub fn order(&self) -> u64 {
        let state = self.state();
        state.used.max(state.published(0)).max(state.floor)
    }

    /// All later writes of this process have this clock at least.
    pub fn order_from(&self, clock: u64) {
        let mut state = self.state();
        state.floor = state.floor.max(clock);
        state.used = state.used.max(clock);
    }

    /// Assigns the handle a clock for its write, later than the writes of other handles with the same writer number.
    fn turn(&self, session: &Arc<Session>, log: &mut Log) {
        let id = session.home.session;
        let mut state = self.state();
        let before = state.last.insert(session.home.writer, id);
        // Earlier writes stay before the append.
        if before.is_some_and(|before| before != id) || log.clock <= state.appender.1 {
            state.used = state.used.max(log.clock) + 1;
            log.clock = state.used;
        }
        log.clock = log.clock.max(state.floor);
        state.appender.0 = None;
    }

    /// Begins a handle's session, or continues it. The begin of a session refreshes the marks, so that its writes are
    /// ordered after other processes' truncations and compactions since the handle was opened.
    fn begin(&self, session: &Arc<Session>, log: &mut Log) -> Result<()> {
        self.state().begins(session, log);
        if !session.start(log)? {
            return Ok(());
        }
        self.look()?;
        self.await_compaction()?;
        self.state().follow(session, log);
        Ok(())
    }

    /// Waits while a compaction is being published: later writes must be ordered after it.
    fn await_compaction(&self) -> Result<()> {
        let (started, mut pause) = (Instant::now(), Duration::from_millis(1));
        loop {
            let committing: Vec<Mark> = {
                let state = self.state();
                let named = |m: &&Mark| !m.closed() && state.beside.contains(&marks::commit_name(m.home.session));
                state.others.iter().filter(named).cloned().collect()
            };
            let mut wait = false;
            for mark in &committing {
                match load::alive(&self.place, mark)?.0 {
                    load::Alive::Yes => wait = true,
                    // The compaction was abandoned.
                    load::Alive::No => {}
                    load::Alive::Unknown if started.elapsed() < super::PATIENCE => wait = true,
                    load::Alive::Unknown => {
                        let who = "`thalweg layout repair --all` ends it";
                        let what = format!("cannot write: the file is being compacted; if that process died, {who}");
                        return Err(Error::new(ErrorKind::NotReady, what));
                    }
                }
            }
            if !wait {
                return Ok(());
            }
            std::thread::sleep(pause);
            pause = (pause * 2).min(super::LONGEST_PAUSE);
            self.look()?;
        }
    }

    /// Assigns the handle a clock for its append, later than every write this process knows of. Returns the file's end;
    /// `None` if only the index gives it.
    fn turn_to_append(&self, session: &Arc<Session>, log: &mut Log) -> Option<u64> {
        let id = session.home.session;
        let mut state = self.state();
        if !state.knows_length() {
            return None;
        }
        // Records in the log of a writer that has not published count too.
        let newer = state.appender.0 != Some(id)
            || state.used > log.clock
            || state.published(id) >= log.clock
            || state.index.as_ref().is_some_and(|index| index.has_after(&session.source(log), log.clock));
        if newer {
            let known = state.index.as_ref().map_or(0, Merged::clock_of_last);
            state.used = state.used.max(log.clock).max(state.published(0)).max(known) + 1;
            log.clock = state.used;
        }
        state.appender = (Some(id), log.clock);
        state.last.insert(session.home.writer, id);
        Some(state.length)
    }

    /// Appends; returns the new end as this process sees it.
    pub fn append(&self, session: &Arc<Session>, pieces: &[IoSlice<'_>]) -> Result<u64> {
        let total = pieces::total(pieces);
        if total > 0 {
            // Before the length is asked for: one refresh suffices.
            self.will_write(session)?;
        }
        self.known()?;
        let _turn = self.appending.lock();
        if total == 0 {
            return self.whole_length();
        }
        loop {
            let end = self.whole_length()?.checked_add(total);
            if end.is_none_or(|end| end > MOST) {
                return Err(Error::new(ErrorKind::OutOfBounds, "cannot append: file offsets end at 2^63 - 1"));
            }
            let mut log = session.lock();
            self.begin(session, &mut log)?;
            let Some(seen) = self.turn_to_append(session, &mut log) else { continue };
            let mut told = Vec::new();
            let outcome = session.append(&mut log, seen, pieces, |source, entry| told.push((source.clone(), entry)));
            self.tell(session, &log, &told);
            return outcome.map(|()| seen + total);
        }
    }

    fn tell(&self, session: &Session, log: &Log, told: &[(Source, Entry)]) {
        let mut state = self.state();
        if let Some(local) = state.local.get_mut(&session.home.session) {
            local.summary = log.summary;
            local.written = log.time;
        }
        told.iter().for_each(|(source, entry)| state.note(source, *entry));
    }

    pub fn write(&self, session: &Arc<Session>, offset: u64, pieces: &[IoSlice<'_>]) -> Result<()> {
        let total = pieces::total(pieces);
        within(offset, total)?;
        if total == 0 {
            return Ok(());
        }
        let mut log = session.lock();
        self.begin(session, &mut log)?;
        self.turn(session, &mut log);
        let mut told = Vec::new();
        let outcome = session.write(&mut log, offset, pieces, |source, entry| told.push((source.clone(), entry)));
        self.tell(session, &log, &told);
        outcome
    }

    /// As [`File::write`], for the extents of a view: one turn of the session for all of them.
    pub fn write_view(&self, session: &Arc<Session>, view: &View, start: u64, bytes: &[u8]) -> Result<()> {
        if bytes.is_empty() {
            return Ok(());
        }
        let mut log = session.lock();
        self.begin(session, &mut log)?;
        self.turn(session, &mut log);
        let mut told = Vec::new();
        let outcome = viewed::write(view, start, bytes, &mut |offset, part| {
            within(offset, part.len() as u64)?;
            session.write(&mut log, offset, &[IoSlice::new(part)], |source, entry| told.push((source.clone(), entry)))
        });
        self.tell(session, &log, &told);
        outcome
    }

    pub fn hole(&self, session: &Arc<Session>, offset: u64, length: u64) -> Result<()> {
        if offset >= offset.saturating_add(length).min(self.length()?) {
            return Ok(());
        }
        // The session's begin shows truncations by others, which a hole up to the old length would undo. The length may need the
        // session's lock.
        self.begin(session, &mut session.lock())?;
        let end = offset.saturating_add(length).min(self.length()?);
        if offset >= end {
            return Ok(());
        }
        let mut log = session.lock();
        self.begin(session, &mut log)?;
        self.turn(session, &mut log);
        let told = session.bare(&mut log, Kind::Hole, offset, end - offset)?;
        self.tell(session, &log, &[told]);
        Ok(())
    }

    /// Truncates: first refreshes this process's view, then becomes visible immediately.
    pub fn cut(&self, session: &Arc<Session>, length: u64) -> Result<()> {
        if length > MOST {
            let error = Error::new(ErrorKind::OutOfBounds, "cannot truncate: file offsets end at 2^63 - 1");
            return Err(error.at_byte(length));
        }
        self.look()?;
        if self.whole_length()? == length {
            return Ok(());
        }
        let mut log = session.lock();
        self.begin(session, &mut log)?;
        self.turn(session, &mut log);
        {
            let mut state = self.state();
            state.used = state.used.max(state.published(0)).max(log.clock) + 1;
            log.clock = state.used;
            state.floor = state.used;
            state.appender.0 = None;
        }
        let told = session.bare(&mut log, Kind::Cut, length, 0)?;
        self.tell(session, &log, &[told]);
        self.publish(session, &mut log, false, false)?;
        Ok(())
    }

    fn publish(
        &self,
        session: &Arc<Session>,
        log: &mut Log,
        durable: bool,
        closing: bool,
    ) -> Result<Option<Published>> {
        let published = session.publish(log, durable, closing)?;
        let mut state = self.state();
        if let (Some(local), Some(p)) = (state.local.get_mut(&session.home.session), &published) {
            local.published = p.summary.clock();
        }
        Ok(published)
    }

    pub fn sync(&self, session: &Arc<Session>, path: &str) -> Result<()> {
        match &self.place.inline {
            // The session's bytes and the stamp are one object; a session stored elsewhere created the folder.
            Some(inline) if !self.place.has_folder() => {
                let durable = self.meet(session, &mut session.lock(), true)?;
                match self.place.has_folder() {
                    true => self.root(path, false).map(|()| self.state().rooted = true),
                    false if durable => Ok(()),
                    false => inline.sync(),
                }
            }
            _ => {
                let mut log = session.lock();
                // Bytes first: the filesystem's journal then also writes the names, which are synced next.
                session.begin_sync(&mut log)?;
                // An ordinary session that publishes syncs the folder of marks itself.
                let marks = Session::will_sync_marks(&log);
                self.root(path, marks)?;
                self.meet(session, &mut log, true)?;
                self.state().rooted = true;
                Ok(())
            }
        }
    }

    /// Publishes the handle's writes and refreshes this process's view.
    pub fn show(&self, session: &Arc<Session>) -> Result<()> {
        self.meet(session, &mut session.lock(), false).map(|_| ())
    }

    /// Whether anything was published.
    fn meet(&self, session: &Arc<Session>, log: &mut Log, durable: bool) -> Result<bool> {
        let published = self.publish(session, log, durable, false)?;
        self.look()?;
        self.state().follow(session, log);
        Ok(published.is_some())
    }

    /// Makes the container durable if it is not yet: its stamp, by both names, and its folders. The program syncs the
    /// parent folder of the file's name, as with any file.
    ///
    /// - `marks`: the caller syncs the folder of marks next.
    fn root(&self, path: &str, marks: bool) -> Result<()> {
        if self.state().rooted {
            return Ok(());
        }
        let store = self.place.first();
        store.sync_closed(&self.place.stamp_copy())?;
        let name = match &self.place.inline {
            Some(inline) => inline.sync(),
            None => self.place.names().sync_closed(path),
        };
        match name {
            // The file was renamed or removed since it was opened: the name may now be a folder or a link.
            Err(e)
                if self.place.inline.is_some() || self.place.names().stat(path).is_ok_and(|about| !about.is_folder) =>
            {
                return Err(e);
            }
            _ => {}
        }
        self.place.sync_folder()?;
        if !marks {
            store.sync_folder(&self.place.marks())?;
        }
        if self.place.stamp.home != 0 {
            // The store on which the name's object was created.
            self.place.names().sync_folder(HIDDEN)?;
        }
        Ok(())
    }

    pub fn close(&self, session: &Arc<Session>) -> Result<()> {
        let mut log = session.lock();
        let outcome = self.publish(session, &mut log, false, true);
        let (home, open) = (log.home(session), log.left_open.take());
        if outcome.is_err() {
            session.give_up(&mut log);
        }
        let mut state = self.state();
        if state.local.remove(&session.home.session).is_none() {
            return outcome.map(|_| ());
        }
        state.closes += 1;
        match &outcome {
            // The index contains the entries already, and the next refresh finds this mark.
            Ok(published) if published.is_some() => {
                let at = state.others.partition_point(|m| m.home.session < session.home.session);
                state.others.insert(at, Mark { home, open, published: *published, overridden: Vec::new() });
            }
            Ok(_) => {}
            Err(_) => {
                // The published part stays; buffered bytes are lost, which the error states.
                (state.index, state.end, state.looked) = (None, None, false);
            }
        }
        outcome.map(|_| ())
    }

    /// Removes logs without live bytes after a truncation to zero, and logs of dead writers. Open handles of other
    /// processes notice at their next refresh.
    pub fn drop_dead(&self) -> Result<()> {
        self.look()?;
        let mut dead: Vec<Mark> = {
            let state = self.state();
            let cut = state.others.iter().filter_map(|m| m.published.map(|p| p.summary));
            let cut =
                cut.chain(state.local.values().map(|l| l.summary)).filter(|s| s.cut_clock > 0 && s.cut_length == 0);
            let cut = cut.map(|s| s.cut_clock).max().unwrap_or(0);
            state
                .others
                .iter()
                .filter(|m| m.closed() && m.published.is_some_and(|p| p.summary.clock() < cut))
                .cloned()
                .collect()
        };
        for mark in self.marks().into_iter().filter(|m| !m.closed() && m.open.is_some()) {
            if load::alive(&self.place, &mark)?.0 == load::Alive::No {
                dead.push(mark);
            }
        }
        // One in a bundle with live sessions stays.
        let bundles = self.place.bundles_of(&dead);
        dead.retain(|mark| !self.place.stays_bundled(mark, &bundles));
        if dead.is_empty() {
            return Ok(());
        }
        if remove_inside(&self.place, &dead)? {
            return self.look();
        }
        // During maintenance by a tool the logs stay: the tool may use them.
        let Some(_alone) = super::tools::alone(&self.place, false)? else { return Ok(()) };
        super::removal::remove_sessions(&self.place, &dead)?;
        self.look()
    }

    /// Whether this process has only created the file: no refresh, no write since.
    pub fn is_untouched(&self) -> bool {
        let state = self.state();
        !state.looked && state.local.values().all(|local| local.summary == clock::Summary::default())
    }

    /// Whether a handle of this process writes the file.
    pub fn is_written(&self) -> bool {
        !self.state().local.is_empty()
    }

    /// The file was unlinked: the container is removed when the last handle closes; until then its number is in `going`.
    pub fn unlink(&self, going: &Arc<Going>) {
        let mut state = self.state();
        if state.unlinked.is_none() {
            going.add(self.place.stamp.container);
            state.unlinked = Some(going.clone());
        }
    }

    /// Latest time of a write, by the writers' wall clocks; `None` if nothing was written.
    pub fn written(&self) -> Option<u64> {
        let state = self.state();
        let others = state.others.iter().filter_map(|m| m.published.map(|p| p.time));
        others.chain(state.local.values().map(|l| l.written)).max().filter(|t| *t > 0)
    }

    /// Highest published clock.
    pub fn clock(&self) -> u64 {
        self.state().published(0)
    }

    /// Marks of other processes' sessions and of this process's closed handles, as of the last refresh.
    pub fn marks(&self) -> Vec<Mark> {
        self.state().others.clone()
    }
}

impl Drop for File {
    fn drop(&mut self) {
        self.belong();
        let unlinked = self.state().unlinked.take();
        if unlinked.is_some() || self.place.is_nameless() {
            // No caller to report to: `check` of the mount finds objects left behind.
            let _ = remove_container(&self.place);
        }
        if let Some(going) = unlinked {
            going.end(self.place.stamp.container);
        }
    }
}
