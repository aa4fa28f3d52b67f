//! A writer session: one handle's data log and index log, only ever extended at their ends.
//!
//! | question | answer |
//! |----------|--------|
//! | begins   | with the first write: a mark says so before any byte is taken, so that a death is noticed. It is held before it has its name, so that nobody takes it for a dead writer's. Where nobody can tell whether a process lives, the mark goes with each sync and comes with the next write |
//! | a small one | lies behind the stamp ([`drawer`](super::drawer)) where that can be and no other session that has not closed does: mark and data log are records there, and the buffer keeps all of the log. It becomes an ordinary one, with the container's folder, when its log would exceed `inline` |
//! | a write  | goes to a buffer (`buffer`, bytes); the one that finds no room goes to the data log with all that waits. Writes behind each other become one record |
//! | segments | one data log and one index log; the next one begins where a store shows bytes only once they are closed, and where an object would grow too long. None is opened again |
//! | published | by `sync` and `close`: bytes first, then the index of them, then a mark whose name says how far |
//! | ends     | with `close`, or when it is dropped; the logs get an end mark and the marks say closed. One that fails is given up: what it published is closed, the rest taken back |
//! | memory   | the buffer, and what the index module holds: up to 65,536 entries |

use super::Options;
use super::clock::Summary;
use super::drawer::Drawer;
use super::index::block::{self, Entry};
use super::index::run::Run;
use super::index::{Recorder, Source};
use super::marks::{self, Home, Mark, Published};
use super::place::{Guard, MOST_TRIES, Place, appears_early, data_name, moved, put_new_as, remove_if_there};
use super::record::{Kind, Log as Which, RECORD_HEADER, Record, SEGMENT_HEADER, Segment};
use super::tail;
use std::io::IoSlice;
use std::sync::{Arc, MutexGuard};
use thalweg_store::pieces::{self, Rest};
use thalweg_store::{Lease, OpenWrite, Store, Visible, WriteObject};
use thalweg_types::checksum::Crc32c;
use thalweg_types::mutex::Mutex;
use thalweg_types::{Error, ErrorKind, Result};

/// Entries in a block of the index log, and held before one is written.
const MOST_ENTRIES: usize = 1 << 16;
/// Longest record.
const MOST_RECORD: u64 = 1 << 30;

/// An object that a session keeps open, and that others see held by it.
pub type LeasedObject = (Arc<dyn WriteObject>, Lease);

/// A handle's session.
pub struct Session {
    /// Where its logs lie.
    pub home: Home,
    place: Arc<Place>,
    about: String,
    buffer: usize,
    /// Bytes of a data log that may lie behind the stamp.
    inline: usize,
    longest: u64,
    /// The process that it is of.
    process: u32,
    log: Mutex<Log>,
}

/// What a session is doing.
pub struct Log {
    /// What the next writes are ordered by.
    pub clock: u64,
    /// What was written.
    pub summary: Summary,
    started: bool,
    /// A mark says that there may be more than is published.
    marked: bool,
    finished: bool,
    broken: Option<String>,
    /// The folders of its logs are durable.
    rooted: bool,
    /// Written since the last mark.
    dirty: bool,
    mark: Option<LeasedObject>,
    /// The object of the file's name, held, while marks and data log lie behind its stamp. The buffer has all of the log.
    inside: Option<LeasedObject>,
    /// The mark was made with the file: others may have published since.
    unlooked: bool,
    last_mark: Option<(String, Published)>,
    /// The mark of what is published, where it was the one that said that the session began: held while the session lasts.
    held: Option<LeasedObject>,
    /// Published since all was made durable.
    owed: bool,
    /// A mark whose making failed; whether it is there is not known.
    doubtful: Option<String>,
    /// Who may reach its objects, asked for when it began.
    guard: Option<Guard>,
    version: u64,
    segment: u32,
    data: Option<Box<dyn WriteObject>>,
    /// Bytes of the data log that the store has.
    end: u64,
    /// What follows them.
    buffer: Vec<u8>,
    open: Option<OpenRecord>,
    /// Bytes of the data log that readers of the store see.
    seen: u64,
    /// Bytes of the data log that are durable.
    synced: u64,
    /// Segments that were closed and are not known to be durable.
    unsynced: Vec<u32>,
    index: Option<Box<dyn WriteObject>>,
    index_end: u64,
    /// Blocks that the index log lacks, since the store did not take them.
    unwritten: Vec<u8>,
    /// Bytes of the data log that the index log covers.
    covered: u64,
    recorder: Box<dyn Recorder>,
    others: Vec<Entry>,
    /// When the last write came, nanoseconds since 1970.
    pub time: u64,
    /// Lengths of the data and index log of the last segment that was closed.
    before: (u64, u64),
    /// A clock, and how many bytes were appended at it to this segment.
    appended: (u64, u64),
}

/// A record at the end of the buffer that may still grow.
struct OpenRecord {
    record: Record,
    crc: Crc32c,
}

/// What a session has in its logs and in memory, for an index to be made of.
pub struct View {
    /// Index logs, and how many bytes of each count.
    pub logs: Vec<(Source, u64)>,
    /// Entries that are in no index log yet.
    pub held: Vec<Entry>,
    /// The segment they are of.
    pub source: Source,
}

impl Session {
    pub fn new(place: Arc<Place>, home: Home, about: String, options: &Options, clock: u64) -> Session {
        let (buffer, segment) = (options.buffer, options.segment);
        let longest = place.store(home.store).map_or(segment, |store| store.capability().largest_object.min(segment));
        let log = Log {
            clock,
            summary: Summary::default(),
            started: false,
            marked: false,
            finished: false,
            broken: None,
            rooted: false,
            dirty: false,
            mark: None,
            inside: None,
            unlooked: false,
            last_mark: None,
            held: None,
            owed: false,
            doubtful: None,
            guard: None,
            version: 0,
            segment: 0,
            data: None,
            end: 0,
            buffer: Vec::new(),
            open: None,
            seen: 0,
            synced: 0,
            unsynced: Vec::new(),
            index: None,
            index_end: 0,
            unwritten: Vec::new(),
            covered: SEGMENT_HEADER,
            recorder: place.stamp.module.recorder(),
            others: Vec::new(),
            time: 0,
            before: (0, 0),
            appended: (0, 0),
        };
        Session {
            home,
            place,
            about,
            buffer,
            inline: options.inline(1).min(buffer),
            longest: longest.max(1 << 20),
            process: std::process::id(),
            log: Mutex::new(log),
        }
    }

    /// One whose mark was made with the file.
    pub fn begun(place: Arc<Place>, home: Home, about: String, options: &Options, held: LeasedObject) -> Session {
        let session = Session::new(place, home, about, options, 1);
        {
            let mut log = session.lock();
            (log.started, log.marked, log.unlooked, log.inside) = (true, true, true, Some(held));
        }
        session
    }

    /// The session, for one thing after the other.
    pub fn lock(&self) -> MutexGuard<'_, Log> {
        self.log.lock()
    }

    /// Whether this process was forked from the session's.
    pub fn is_left(&self) -> bool {
        self.process != std::process::id()
    }

    /// Gives up a child's copy: the logs are the parent's to write and to end.
    pub fn leave(&self) {
        let Some(mut log) = self.log.try_lock() else { return };
        let shown = self.store().map(|store| store.capability().visible);
        if !matches!(shown, Ok(Visible::AtWrite)) {
            // Other stores end or abort an object when its handle is dropped.
            std::mem::forget((log.data.take(), log.index.take()));
        }
    }

    fn store(&self) -> Result<&Arc<dyn Store>> {
        self.place.store(self.home.store)
    }

    /// The segment that is written now.
    pub fn source(&self, log: &Log) -> Source {
        Source::of(&self.home, log.segment)
    }

    /// Says that the session begins, before its first byte is taken. `true` where a mark was made for that now: then others
    /// may have published, emptied or compacted since this process looked, and the caller looks before it takes a clock.
    pub fn start(&self, log: &mut Log) -> Result<bool> {
        if let Some(why) = &log.broken {
            return Err(Error::new(ErrorKind::Io, format!("this writer failed before: {why}")));
        }
        if log.finished {
            return Err(Error::new(ErrorKind::InvalidArgument, "cannot write: the file is closed"));
        }
        if log.marked {
            return Ok(std::mem::take(&mut log.unlooked));
        }
        if let Some(drawer) = &self.place.drawer
            && self.begin_inside(log, drawer)?
        {
            (log.started, log.marked) = (true, true);
            return Ok(true);
        }
        self.store()?;
        self.place.make_home()?;
        log.guard = self.place.guard()?;
        let mut tried = 0;
        log.mark = loop {
            match self.mark(log.guard) {
                // Taken away before it had its name, by who tidied up.
                Err(e) if e.kind() == ErrorKind::NotFound && tried < MOST_TRIES => tried += 1,
                outcome => break outcome?,
            }
        };
        (log.started, log.marked) = (true, true);
        Ok(true)
    }

    /// Says behind the stamp that the session begins. `false` where it has to lie elsewhere: the container has a folder, another
    /// session has not closed, or there is much already.
    fn begin_inside(&self, log: &mut Log, drawer: &Drawer) -> Result<bool> {
        if self.inline == 0 || (log.inside.is_none() && (log.started || drawer.has_home())) {
            return Ok(false);
        }
        let locked = drawer.lock()?;
        let begins = tail::Record::Put(marks::open_name(self.home), self.about.clone().into_bytes());
        if log.inside.is_some() {
            return locked.add(vec![begins]).map(|()| true);
        }
        let open = || Ok::<_, Error>(marks::read(&drawer.names())?.iter().any(|mark| !mark.closed()));
        if drawer.has_home() || drawer.length() > super::most_inside(self.inline) || open()? {
            return Ok(false);
        }
        let Some(held) = locked.lease() else { return Ok(false) };
        if let Err(e) = locked.add(vec![begins]) {
            // It may be there, and would be that of a dead writer.
            let _ = self.place.remove_if_there(&marks::open_name(self.home));
            return Err(e);
        }
        log.inside = Some(held);
        Ok(true)
    }

    /// Goes on as an ordinary session, with all that it has in the buffer: its marks stay behind the stamp until it publishes.
    fn leave_inside(&self, log: &mut Log) -> Result<()> {
        if log.inside.is_none() {
            return Ok(());
        }
        self.place.make_home()?;
        log.guard = self.place.guard()?;
        log.mark = log.inside.take();
        Ok(())
    }

    /// Bytes that the buffer takes.
    fn most(&self, log: &Log) -> usize {
        if log.inside.is_some() { self.inline } else { self.buffer }
    }

    /// Makes an object that only those reach who may reach the file.
    ///
    /// - `make`: makes it in the store, with these permission bits at most.
    fn make_object(
        &self,
        store: &dyn Store,
        name: &str,
        guard: Option<Guard>,
        make: impl Fn(u32) -> Result<Box<dyn WriteObject>>,
    ) -> Result<Box<dyn WriteObject>> {
        let Some(guard) = guard.filter(|_| store.capability().modes) else {
            return make(0o666);
        };
        let object = make(guard.object())?;
        // Made for another, by a door that serves many users.
        let me = rustix::process::geteuid().as_raw();
        if me != guard.uid && me == 0 {
            guard.give(store, name)?;
        }
        Ok(object)
    }

    /// Makes the mark that says that the session began. Where the store can, it has its bytes and is held before others see
    /// its name: a mark that nobody holds is that of a dead writer.
    fn mark(&self, guard: Option<Guard>) -> Result<Option<LeasedObject>> {
        let (store, name) = (self.place.first(), format!("{}/{}", self.place.marks(), marks::open_name(self.home)));
        let early = appears_early(&**store);
        let at = if early { self.place.temporary() } else { name.clone() };
        let made = (|| {
            let object = self.make_object(&**store, &at, guard, |mode| store.make_for_all(&at, mode))?;
            // Held first: a name in use is not tidied up.
            let lease = object.lease();
            object.write_at(0, &[IoSlice::new(self.about.as_bytes())])?;
            let held = match lease {
                Some(lease) => Some((object.into(), lease)),
                None => object.close().map(|()| None)?,
            };
            if early {
                moved(&**store, &at, &name)?;
            }
            Ok(held)
        })();
        if made.is_err() {
            let _ = remove_if_there(&**store, &at);
        }
        made
    }

    /// Adds bytes of the logical file; tells the entries that they are, one or several, for a map that is kept in memory.
    pub fn write(
        &self,
        log: &mut Log,
        offset: u64,
        pieces: &[IoSlice<'_>],
        mut tell: impl FnMut(&Source, Entry),
    ) -> Result<()> {
        let total = pieces::total(pieces);
        let (mut rest, mut at, mut left) = (Rest::new(pieces), offset, total);
        while left > 0 {
            let run = left.min(MOST_RECORD).min(self.longest - SEGMENT_HEADER - 2 * RECORD_HEADER);
            let written = self.record(log, Some(at), &rest.next(usize::MAX, run), run).map_err(|e| e.at_byte(at))?;
            log.summary.write(log.clock, at + run, run);
            tell(&self.source(log), Entry::Run(written));
            rest = rest.after(run);
            (at, left) = (at + run, left - run);
        }
        self.hand_on(log)
    }

    /// Adds bytes behind the end of the logical file, wherever that is by the order of all records. Its clock must be one at
    /// which this session has written nothing else.
    ///
    /// - `seen`: where the file ends as this process sees it.
    pub fn append(
        &self,
        log: &mut Log,
        seen: u64,
        pieces: &[IoSlice<'_>],
        mut tell: impl FnMut(&Source, Entry),
    ) -> Result<()> {
        let (mut rest, mut at, mut left) = (Rest::new(pieces), seen, pieces::total(pieces));
        while left > 0 {
            let run = left.min(MOST_RECORD).min(self.longest - SEGMENT_HEADER - 2 * RECORD_HEADER);
            let written = self.record(log, None, &rest.next(usize::MAX, run), run).map_err(|e| e.at_byte(at))?;
            log.appended = (log.clock, written.start + run);
            log.summary.append(log.clock, at, run);
            tell(&self.source(log), Entry::Run(written));
            rest = rest.after(run);
            (at, left) = (at + run, left - run);
        }
        self.hand_on(log)
    }

    /// Writes entries to the index log where they are many.
    fn hand_on(&self, log: &mut Log) -> Result<()> {
        if log.recorder.count() >= MOST_ENTRIES {
            self.flush(log)?;
            self.write_blocks(log)?;
        }
        Ok(())
    }

    /// One record, or more of the last one. Returns what was written, as an entry of its own.
    ///
    /// - `at`: where in the logical file; `None` for bytes that are appended.
    fn record(&self, log: &mut Log, at: Option<u64>, pieces: &[IoSlice<'_>], total: u64) -> Result<Run> {
        log.dirty = true;
        let kind = if at.is_some() { Kind::Write } else { Kind::Append };
        let offset = at.unwrap_or_else(|| log.behind());
        let entry = |clock: u64, offset: u64, place: u64| Run {
            appended: kind == Kind::Append,
            ..Run::one(clock, offset, total, place)
        };
        let room = self.most(log).saturating_sub(log.buffer.len()) as u64;
        if let Some(open) = &mut log.open {
            let goes_on = open.record.offset + open.record.length == offset
                && (open.record.clock, open.record.kind) == (log.clock, kind);
            if goes_on && total <= room && log.end + log.buffer.len() as u64 + total + RECORD_HEADER <= self.longest {
                let place = log.end + log.buffer.len() as u64;
                for piece in pieces {
                    open.crc.update(piece);
                    log.buffer.extend_from_slice(piece);
                }
                open.record.length += total;
                return Ok(entry(log.clock, offset, place));
            }
        }
        log.seal();
        if log.end + log.buffer.len() as u64 + total + 2 * RECORD_HEADER > self.longest {
            self.roll(log)?;
        }
        self.head(log);
        // In a new segment nothing was appended before.
        let offset = at.unwrap_or_else(|| log.behind());
        let at = log.end + log.buffer.len() as u64;
        let mut record = Record { kind, clock: log.clock, offset, length: total, at, crc: 0 };
        let mut crc = Crc32c::new();
        pieces.iter().for_each(|piece| crc.update(piece));
        if RECORD_HEADER + total <= room {
            log.buffer.extend_from_slice(&record.encode());
            pieces.iter().for_each(|piece| log.buffer.extend_from_slice(piece));
            log.open = Some(OpenRecord { record, crc });
            return Ok(entry(log.clock, offset, at + RECORD_HEADER));
        }
        // More than there is room for: from the caller's memory, behind what is waiting, in one operation.
        record.crc = crc.finish();
        let head = record.encode();
        let waiting = std::mem::take(&mut log.buffer);
        let mut all = vec![IoSlice::new(&waiting), IoSlice::new(&head)];
        all.extend(pieces.iter().map(|piece| IoSlice::new(piece)));
        let written = self.put(log, &all);
        // Its memory is kept: pages that the system gives anew cost as much as the copy into them.
        log.buffer = waiting;
        written?;
        log.end += log.buffer.len() as u64 + RECORD_HEADER + total;
        log.buffer.clear();
        let written = entry(log.clock, offset, at + RECORD_HEADER);
        log.recorder.add(written);
        Ok(written)
    }

    /// A cut or a hole, without bytes.
    pub fn bare(&self, log: &mut Log, kind: Kind, offset: u64, length: u64) -> Result<(Source, Entry)> {
        log.seal();
        log.dirty = true;
        if log.buffer.len() + RECORD_HEADER as usize > self.most(log) {
            self.flush(log)?;
        }
        self.head(log);
        let record = Record { kind, clock: log.clock, offset, length, at: log.end + log.buffer.len() as u64, crc: 0 };
        log.buffer.extend_from_slice(&record.encode());
        let entry = match kind {
            Kind::Hole => {
                log.summary.write(log.clock, offset + length, 0);
                Entry::Run(Run { hole: true, ..Run::one(log.clock, offset, length, record.at) })
            }
            _ => {
                log.summary.cut(log.clock, offset);
                Entry::Cut { clock: log.clock, length: offset, log: record.at }
            }
        };
        log.others.push(entry);
        Ok((self.source(log), entry))
    }

    /// Puts the segment's head first.
    fn head(&self, log: &mut Log) {
        if log.end == 0 && log.buffer.is_empty() {
            log.buffer.extend_from_slice(&self.segment(log).encode(Which::Data));
        }
    }

    fn segment(&self, log: &Log) -> Segment {
        Segment {
            container: self.place.stamp.container,
            session: self.home.session,
            writer: self.home.writer,
            number: log.segment,
        }
    }

    /// Writes at the end of the data log.
    fn put(&self, log: &mut Log, all: &[IoSlice<'_>]) -> Result<()> {
        self.leave_inside(log)?;
        let store = self.store()?;
        if log.data.is_none() {
            let name = self.place.data(&self.home, log.segment);
            let make = |mode| store.open_write_as(&name, OpenWrite::New, mode);
            // Where others wrote before, their folder is mostly there.
            let there = match self.place.was_written() && appears_early(&**store) {
                true => match self.make_object(&**store, &name, log.guard, make) {
                    Err(e) if e.kind() == ErrorKind::NotFound => None,
                    outcome => Some(outcome?),
                },
                false => None,
            };
            log.data = Some(match there {
                Some(data) => data,
                None => {
                    // The file's mode may have changed since the session began; an existing folder has changed with it.
                    log.guard = self.place.guard()?;
                    self.place.make_log_folder(&**store, self.home.folder, log.guard)?;
                    self.make_object(&**store, &name, log.guard, make)?
                }
            });
        }
        let Some(data) = &log.data else { return Ok(()) };
        let written = data.write_at(log.end, all);
        if let Err(e) = &written {
            // A store that writes at any offset lets us try again from here; of others the object is lost.
            if !store.capability().write_at {
                log.broken = Some(e.to_string());
            }
        }
        written
    }

    fn flush(&self, log: &mut Log) -> Result<()> {
        log.seal();
        if log.buffer.is_empty() {
            return Ok(());
        }
        let waiting = std::mem::take(&mut log.buffer);
        let written = self.put(log, &[IoSlice::new(&waiting)]);
        let length = waiting.len() as u64;
        log.buffer = waiting;
        written?;
        log.buffer.clear();
        log.end += length;
        Ok(())
    }

    /// Writes what the index log lacks.
    fn write_blocks(&self, log: &mut Log) -> Result<()> {
        if log.covered >= log.end && log.unwritten.is_empty() {
            return Ok(());
        }
        if log.index.is_none() {
            let name = self.place.index(&self.home, log.segment);
            let store = self.store()?;
            let make = |mode| store.open_write_as(&name, OpenWrite::New, mode);
            log.index = Some(self.make_object(&**store, &name, log.guard, make)?);
        }
        let mut bytes = std::mem::take(&mut log.unwritten);
        if log.index_end == 0 && bytes.is_empty() {
            bytes.extend_from_slice(&self.segment(log).encode(Which::Index));
        }
        if log.covered < log.end {
            let mut entries = log.recorder.take();
            entries.append(&mut log.others);
            for run in entries.chunks(MOST_ENTRIES) {
                bytes.extend_from_slice(&block::encode(self.home.session, log.covered, log.end, run));
            }
            if entries.is_empty() {
                bytes.extend_from_slice(&block::encode(self.home.session, log.covered, log.end, &[]));
            }
            log.covered = log.end;
        }
        let Some(index) = &log.index else { return Ok(()) };
        if let Err(e) = index.write_at(log.index_end, &[IoSlice::new(&bytes)]) {
            // A store that writes at any offset is asked again, from here; of others the object is lost.
            if !self.store()?.capability().write_at {
                log.broken = Some(e.to_string());
            }
            log.unwritten = bytes;
            return Err(e);
        }
        log.index_end += bytes.len() as u64;
        Ok(())
    }

    fn end_of_log(&self, log: &mut Log) {
        log.seal();
        self.head(log);
        let at = log.end + log.buffer.len() as u64;
        let record = Record { kind: Kind::End, clock: log.clock, offset: 0, length: 0, at, crc: 0 };
        log.buffer.extend_from_slice(&record.encode());
    }

    /// Closes the segment; the next write begins another.
    fn roll(&self, log: &mut Log) -> Result<()> {
        if log.end == 0 && log.buffer.is_empty() {
            return Ok(());
        }
        self.end_of_log(log);
        self.flush(log)?;
        self.write_blocks(log)?;
        self.close_logs(log)?;
        log.unsynced.push(log.segment);
        log.next_segment();
        Ok(())
    }

    fn close_logs(&self, log: &mut Log) -> Result<()> {
        log.before = (log.end, log.index_end);
        let closed = log.data.take().map_or(Ok(()), |data| data.close());
        let closed = closed.and(log.index.take().map_or(Ok(()), |index| index.close()));
        if let Err(e) = &closed {
            log.broken = Some(e.to_string());
        }
        closed
    }

    /// Makes all that was written seen by others, and durable if asked. Returns what the mark says, where there was
    /// anything new.
    pub fn publish(&self, log: &mut Log, durable: bool, closing: bool) -> Result<Option<Published>> {
        if !log.started || log.finished || !(log.dirty || closing || (durable && log.owed)) {
            return Ok(None);
        }
        if let Some(why) = &log.broken {
            return Err(Error::new(ErrorKind::Io, format!("what was written since the last sync is lost: {why}")));
        }
        if let Some(drawer) = self.place.drawer.as_ref().filter(|_| log.inside.is_some()) {
            return self.publish_inside(log, drawer, durable, closing);
        }
        let visible = self.store()?.capability().visible;
        let something = log.end > 0 || !log.buffer.is_empty();
        if something && (closing || visible == Visible::AtClose) {
            self.end_of_log(log);
        }
        self.flush(log)?;
        self.sync_data(log, durable || (visible == Visible::AtSync && !closing))?;
        self.write_blocks(log)?;
        if let (Some(index), true) = (&log.index, durable || (visible == Visible::AtSync && !closing)) {
            index.sync()?;
        }
        if something {
            log.before = (log.end, log.index_end);
        }
        let mut segments = log.segment + u32::from(something);
        if something && (closing || visible == Visible::AtClose) {
            self.close_logs(log)?;
            log.next_segment();
            segments = log.segment;
        }
        let store = self.place.first();
        if durable {
            let store = self.store()?;
            for segment in &log.unsynced {
                store.sync_closed(&self.place.data(&self.home, *segment))?;
                store.sync_closed(&self.place.index(&self.home, *segment))?;
            }
            log.unsynced.clear();
            match log.rooted {
                true => self.store()?.sync_folder(&self.place.log_folder(self.home.folder))?,
                false => self.place.sync_logs(&self.home)?,
            }
            log.rooted = true;
        }
        log.version += 1;
        let published = Published {
            version: log.version,
            closed: closing,
            segments,
            data: log.before.0,
            index: log.before.1,
            summary: log.summary,
            time: log.time,
        };
        let (folder, name) = (self.place.marks(), marks::published_name(self.home, &published));
        if let Some(doubtful) = &log.doubtful {
            remove_if_there(&**store, &format!("{folder}/{doubtful}"))?;
        }
        log.doubtful = Some(name.clone());
        // One mark becomes the next where the store can: no moment without either, and no room is needed. The first one
        // does too, held on: who publishes for others to see mostly closes next. Who syncs, or cut the file only, mostly
        // writes on, and its first one stays.
        let old = log.last_mark.as_ref().map(|(old, _)| old.clone());
        let first = log.marked && log.mark.is_some() && (closing || (!durable && log.summary.bytes > 0));
        let becomes = old.clone().or_else(|| first.then(|| marks::open_name(self.home)));
        match becomes.filter(|from| appears_early(&**store) && !self.place.is_inside(from)) {
            Some(from) => {
                let renamed = moved(&**store, &format!("{folder}/{from}"), &format!("{folder}/{name}"));
                renamed.map_err(|e| if e.kind() == ErrorKind::NotFound { self.taken_for_dead(log) } else { e })?;
                log.last_mark = Some((name.clone(), published));
                log.doubtful = None;
                if old.is_none() {
                    (log.marked, log.held) = (false, log.mark.take());
                }
            }
            None => {
                let mode = log.guard.map_or(0o666, |guard| guard.object());
                put_new_as(&**store, &format!("{folder}/{name}"), &[], mode)?;
                log.doubtful = None;
                log.last_mark = Some((name.clone(), published));
                // Marks that are gone were taken away by who took this writer for dead.
                if let Some(old) = &old {
                    self.take_away(log, old, &name)?;
                }
            }
        }
        if durable {
            store.sync_folder(&folder)?;
        }
        (log.dirty, log.owed) = (false, !durable);
        // Without a hold nobody can tell that this process lives, so that nothing is said of it while nothing is outstanding.
        if (closing || log.mark.is_none()) && log.marked {
            self.take_away(log, &marks::open_name(self.home), &name)?;
            log.marked = false;
            log.mark = None;
        }
        if closing {
            log.held = None;
            let inside = data_name(&self.home, 0);
            if self.place.is_inside(&inside) {
                // The whole log lies elsewhere, and is the one that counts.
                let _ = self.place.remove_if_there(&inside);
            }
        }
        log.finished = closing;
        Ok(Some(published))
    }

    /// As [`Session::publish`], of a session that lies behind the stamp: bytes and marks in one write.
    fn publish_inside(
        &self,
        log: &mut Log,
        drawer: &Drawer,
        durable: bool,
        closing: bool,
    ) -> Result<Option<Published>> {
        use tail::Record::{Became, Gone, More, Put};
        let (open, data) = (marks::open_name(self.home), data_name(&self.home, 0));
        let something = !log.buffer.is_empty();
        if something && closing {
            self.end_of_log(log);
        }
        log.seal();
        let locked = drawer.lock()?;
        // What there is decides: a write that failed may have left marks there that were asked for.
        let mark = marks::read(&drawer.names())?.into_iter().find(|mark| mark.home.session == self.home.session);
        let Some(mark) = mark.filter(|mark| !mark.closed()) else { return Err(self.taken_for_dead(log)) };
        let version = mark.published.map_or(0, |p| p.version).max(log.version) + 1;
        let old = mark.published.map(|p| marks::published_name(self.home, &p));
        let mut records = Vec::new();
        // What a write that failed left there is there.
        let there = drawer.get(&data).map_or(0, |bytes| bytes.len());
        if let Some(more) = log.buffer.get(there..).filter(|more| !more.is_empty()) {
            records.push(More(data, more.to_vec()));
        }
        let published = Published {
            version,
            closed: closing,
            segments: u32::from(something),
            data: log.buffer.len() as u64,
            index: 0,
            summary: log.summary,
            time: log.time,
        };
        let name = marks::published_name(self.home, &published);
        // As marks are renamed where they are objects of their own.
        let (mut marked, nothing) = (mark.open.is_some(), closing && !something && old.is_none());
        match old {
            None if nothing => {}
            Some(old) => records.push(Became(old, name.clone())),
            None if marked && (closing || (!durable && log.summary.bytes > 0)) => {
                records.push(Became(open.clone(), name.clone()));
                marked = false;
            }
            None => records.push(Put(name.clone(), Vec::new())),
        }
        if closing && marked {
            records.push(Gone(open));
            marked = false;
        }
        locked.add(records)?;
        (log.version, log.marked, log.dirty, log.owed, log.finished) = (version, marked, false, true, closing);
        if nothing {
            log.inside = None;
            return Ok(None);
        }
        log.last_mark = Some((name, published));
        if let (Some((object, _)), true) = (&log.inside, durable) {
            object.sync()?;
            log.owed = false;
        }
        if closing {
            log.inside = None;
        }
        Ok(Some(published))
    }

    /// As [`Session::give_up`], of a session that lies behind the stamp.
    fn give_up_inside(&self, log: &mut Log, drawer: &Drawer) -> Result<()> {
        use tail::Record::{Became, Gone};
        let (open, data) = (marks::open_name(self.home), data_name(&self.home, 0));
        let locked = drawer.lock()?;
        let mut records: Vec<tail::Record> =
            [open].into_iter().filter(|name| self.place.is_inside(name)).map(Gone).collect();
        // Whether a mark is there whose writing failed, the drawer tells.
        let names = drawer.names();
        match marks::read(&names)?.into_iter().find(|mark| mark.home.session == self.home.session) {
            Some(Mark { published: Some(p), .. }) if !p.closed => {
                let named = |p: &Published| marks::published_name(self.home, p);
                records.push(Became(named(&p), named(&Published { closed: true, ..p })));
            }
            Some(Mark { published: Some(_), .. }) => {}
            _ => records.extend([data].into_iter().filter(|name| self.place.is_inside(name)).map(Gone)),
        }
        match records.is_empty() {
            true => Ok(()),
            false => locked.add(records),
        }?;
        log.inside = None;
        Ok(())
    }

    fn take_away(&self, log: &mut Log, old: &str, new: &str) -> Result<()> {
        match self.place.remove(old) {
            Err(e) if e.kind() == ErrorKind::NotFound => {
                self.place.remove_if_there(new)?;
                Err(self.taken_for_dead(log))
            }
            outcome => outcome,
        }
    }

    fn taken_for_dead(&self, log: &mut Log) -> Error {
        let why = "this writer was taken for dead, and what it had published was closed";
        log.broken = Some(why.into());
        Error::new(ErrorKind::Io, why).safe("what it had synced before")
    }

    /// Hands all to the store, durable, and publishes nothing: what is left to do then takes a moment.
    pub fn hand_over(&self, log: &mut Log) -> Result<()> {
        self.flush(log)?;
        self.sync_data(log, true)?;
        self.write_blocks(log)
    }

    /// As [`Session::hand_over`], before a publishing that makes the rest durable; where bytes can be added behind those that were
    /// handed over, and the log does not lie behind the stamp.
    pub fn begin_sync(&self, log: &mut Log) -> Result<()> {
        let writes = log.started && !log.finished && log.broken.is_none() && log.inside.is_none() && log.dirty;
        match writes && self.store()?.capability().visible == Visible::AtWrite {
            true => self.hand_over(log),
            false => Ok(()),
        }
    }

    /// Makes the data log durable as far as it was written, unless it is, and shows it where that takes a sync.
    fn sync_data(&self, log: &mut Log, wanted: bool) -> Result<()> {
        if let (Some(data), true) = (&log.data, wanted && log.synced < log.end) {
            data.sync()?;
            (log.seen, log.synced) = (log.end, log.end);
        }
        Ok(())
    }

    /// Whether a durable publishing makes objects in the folder of marks, and syncs that.
    pub fn will_sync_marks(log: &Log) -> bool {
        log.started && !log.finished && log.inside.is_none() && (log.dirty || log.owed)
    }

    /// Ends a session that failed: what it published stays and is closed, the rest is taken back as far as the store lets it.
    /// Nothing is outstanding afterwards that readers would miss.
    pub fn give_up(&self, log: &mut Log) {
        if !log.started || log.finished {
            return;
        }
        log.finished = true;
        log.broken.get_or_insert_with(|| "it was given up".into());
        if let Some(drawer) = self.place.drawer.as_ref().filter(|_| log.inside.is_some()) {
            // Where not even that has room, it is told of as one that died.
            let _ = self.give_up_inside(log, drawer);
            log.inside = None;
            return;
        }
        (log.data, log.index) = (None, None);
        // Whether a mark took effect whose making failed, the list tells.
        let own = || -> Result<Option<Mark>> {
            Ok(marks::read(&self.place.list()?)?.into_iter().find(|m| m.home.session == self.home.session))
        };
        if let Ok(Some(Mark { published: Some(p), .. })) = own()
            && !p.closed
        {
            let _ = close_mark(&self.place, self.home, &p);
        }
        let opened = self.place.remove_if_there(&marks::open_name(self.home));
        (log.mark, log.held) = (None, None);
        let Ok(mark) = own() else { return };
        if opened.is_err() || mark.as_ref().is_some_and(|m| !m.closed()) {
            return;
        }
        let Ok(store) = self.store() else { return };
        for k in mark.and_then(|m| m.published).map_or(0, |p| p.segments)..=log.segment {
            let _ = remove_if_there(&**store, &self.place.data(&self.home, k));
            let _ = remove_if_there(&**store, &self.place.index(&self.home, k));
        }
    }

    /// What the session holds, its index logs seen by readers of the store.
    pub fn view(&self) -> Result<View> {
        let mut log = self.lock();
        log.seal();
        if let Some(why) = &log.broken {
            return Err(Error::new(ErrorKind::Io, format!("a writer of this file failed: {why}")));
        }
        let visible =
            if log.started && log.inside.is_none() { self.store()?.capability().visible } else { Visible::AtWrite };
        if !log.unwritten.is_empty() {
            self.write_blocks(&mut log)?;
        }
        if log.index_end > 0 && visible == Visible::AtClose {
            self.roll(&mut log)?;
        }
        if let (Some(index), Visible::AtSync) = (&log.index, visible) {
            index.sync()?;
        }
        let mut logs: Vec<_> = (0..log.segment).map(|k| (Source::of(&self.home, k), u64::MAX)).collect();
        if log.index_end > 0 {
            logs.push((self.source(&log), log.index_end));
        }
        let mut held = log.recorder.held();
        held.extend_from_slice(&log.others);
        Ok(View { logs, held, source: self.source(&log) })
    }

    /// Reads from the segment that is being written; `false` for another one, which any reader of the store sees.
    pub fn read(&self, segment: u32, at: u64, out: &mut [u8]) -> Result<bool> {
        let mut log = self.lock();
        if segment != log.segment || log.finished {
            return Ok(false);
        }
        if at >= log.end {
            let from = usize::try_from(at - log.end).unwrap_or(usize::MAX);
            let bytes = from.checked_add(out.len()).and_then(|to| log.buffer.get(from..to));
            let Some(bytes) = bytes else {
                return Err(Error::new(ErrorKind::Torn, "the buffer of a writer ends early").at_byte(at));
            };
            out.copy_from_slice(bytes);
            return Ok(true);
        }
        match self.store()?.capability().visible {
            Visible::AtWrite => {}
            Visible::AtSync if at + out.len() as u64 <= log.seen => {}
            Visible::AtSync => {
                if let Some(data) = &log.data {
                    data.sync()?;
                }
                log.seen = log.end;
            }
            Visible::AtClose => self.roll(&mut log)?,
        }
        Ok(false)
    }
}

/// Closes a session of which nothing is outstanding beyond what a mark says.
pub fn close_mark(place: &Place, home: Home, p: &Published) -> Result<()> {
    if let Some(drawer) = place.drawer.as_ref().filter(|_| place.is_inside(&marks::published_name(home, p))) {
        let closed = marks::published_name(home, &Published { closed: true, ..*p });
        return drawer.lock()?.add(vec![tail::Record::Became(marks::published_name(home, p), closed)]);
    }
    let store = place.first();
    let named = |p: &Published| format!("{}/{}", place.marks(), marks::published_name(home, p));
    let (from, to) = (named(p), named(&Published { closed: true, ..*p }));
    if appears_early(&**store) && moved(&**store, &from, &to).is_ok() {
        return Ok(());
    }
    let mode = place.guard()?.map_or(0o666, |guard| guard.object());
    put_new_as(&**store, &to, &[], mode)?;
    remove_if_there(&**store, &from)
}

impl Log {
    /// How many bytes this segment appended before, at this clock.
    fn behind(&self) -> u64 {
        if self.appended.0 == self.clock { self.appended.1 } else { 0 }
    }

    fn next_segment(&mut self) {
        self.segment += 1;
        (self.end, self.seen, self.synced) = (0, 0, 0);
        (self.index_end, self.covered) = (0, SEGMENT_HEADER);
        self.appended = (0, 0);
    }

    /// Ends the record at the end of the buffer.
    fn seal(&mut self) {
        let Some(mut open) = self.open.take() else { return };
        open.record.crc = open.crc.finish();
        let from = (open.record.at - self.end) as usize;
        self.buffer[from..from + RECORD_HEADER as usize].copy_from_slice(&open.record.encode());
        let record = &open.record;
        let run = Run::one(record.clock, record.offset, record.length, record.at + RECORD_HEADER);
        self.recorder.add(Run { appended: record.kind == Kind::Append, ..run });
    }
}
