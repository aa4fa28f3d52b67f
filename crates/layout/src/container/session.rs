//! A writer session: the data log and index log of one handle. Logs are only appended to.
//!
//! | question | answer |
//! |----------|--------|
//! | begins   | with the first write: an open mark is created before any byte is accepted, so that other processes notice the writer's death. The mark is leased before it gets its name. On stores without leases, each sync removes the open mark and the next write creates it again |
//! | a small one | is stored in the inline object, if the store can and no other open inline session exists: mark and data log are records, and the buffer keeps the whole log. When the log exceeds the option `inline`, the session continues in the container's folder |
//! | a write  | is copied to a buffer (`buffer`, bytes); a write that does not fit is written to the data log immediately, together with the buffer. Contiguous writes become one record |
//! | a full store | space for buffered bytes and for the end of the log is reserved when a buffer begins to fill: the write itself returns `NoSpace`. Without space for the index log, a session closes without it, and readers scan the data log |
//! | segments | a segment is one data log and one index log. The next begins when the object would grow too long, or when bytes must become visible on a store that shows only closed objects. A closed segment is never opened again |
//! | published | by `sync` and `close`: data first, then the index, then a mark whose name contains the lengths |
//! | ends     | with `close`, or when the handle is dropped: an end record in the logs, a closed mark. After a failure the published part is closed and the rest removed |
//! | memory   | the buffer, and up to 65,536 index entries |
//!
//! | room | what it owns |
//! |------|--------------|
//! | `inline` | inline sessions |
//! | `packing` | small sessions that are stored packed |
//! | `publishing` | the marks that publish and end a session |
//! | `space` | reservation of space before bytes are buffered |

use super::Options;
use super::clock::Summary;
use super::guard::Guard;
use super::index::block::{self, Entry};
use super::index::run::Run;
use super::index::{Recorder, Source};
use super::marks::{self, Home, Published};
use super::objects::{MOST_TRIES, appears_early, moved, remove_if_there};
use super::place::Place;
use super::record::{Kind, Log as Which, RECORD_HEADER, Record, SEGMENT_HEADER, Segment};
use std::io::IoSlice;
use std::sync::{Arc, MutexGuard};
use thalweg_store::pieces::{self, Rest};
use thalweg_store::{Lease, Store, Visible, WriteObject};
use thalweg_types::checksum::Crc32c;
use thalweg_types::mutex::Mutex;
use thalweg_types::{Error, ErrorKind, Result};

mod inline;
mod packing;
pub mod publishing;
mod space;

use space::BLOCK;

/// Entries in a block of the index log, and the largest number buffered before a block is written.
const MOST_ENTRIES: usize = 1 << 16;
/// Longest record.
const MOST_RECORD: u64 = 1 << 30;

/// An object that a session keeps open, with a lease that shows other processes that the writer lives.
pub type LeasedObject = (Arc<dyn WriteObject>, Lease);

/// The session of a handle.
pub struct Session {
    /// Location of its logs.
    pub home: Home,
    place: Arc<Place>,
    about: String,
    buffer: usize,
    /// Largest data log that may be stored in the inline object, in bytes.
    inline_limit: usize,
    longest: u64,
    /// PID of the process that began the session.
    process: u32,
    log: Mutex<Log>,
}

/// State of a session.
pub struct Log {
    /// Clock of the next writes.
    pub clock: u64,
    /// Summary of the session's writes.
    pub summary: Summary,
    started: bool,
    /// The open mark exists: readers expect more bytes than are published.
    marked: bool,
    finished: bool,
    broken: Option<String>,
    /// The folders of the logs are durable.
    rooted: bool,
    /// Bytes were written since the last published mark.
    dirty: bool,
    mark: Option<LeasedObject>,
    /// The inline object, kept open while it contains the session's marks and data log. The buffer contains the whole log.
    inside: Option<LeasedObject>,
    /// The mark was created with the file: other processes may have published since.
    unlooked: bool,
    last_mark: Option<(String, Published)>,
    /// The published mark, if it is the renamed open mark: leased until the session ends.
    leased_mark: Option<LeasedObject>,
    /// Published bytes are not yet durable.
    owed: bool,
    /// A mark whose creation failed: it may exist or not.
    doubtful: Option<String>,
    /// Permission bits and owner of the session's objects, as of its begin.
    guard: Option<Guard>,
    version: u64,
    segment: u32,
    data: Option<Box<dyn WriteObject>>,
    /// Bytes of the data log that were written to the store.
    end: u64,
    /// End of the space that the store reserved, as an offset in the data log.
    reserved: u64,
    /// The same for an inline session, as an offset in the inline object.
    reserved_inside: u64,
    /// Bytes that follow the written ones.
    buffer: Vec<u8>,
    open: Option<OpenRecord>,
    /// Bytes of the data log that are visible to readers of the store.
    seen: u64,
    /// Bytes of the data log that are durable.
    synced: u64,
    /// Closed segments that are not known to be durable.
    unsynced: Vec<u32>,
    index: Option<Box<dyn WriteObject>>,
    index_end: u64,
    /// Index blocks whose write failed, to be written again.
    unwritten: Vec<u8>,
    /// Bytes of the data log that the index log covers.
    covered: u64,
    recorder: Box<dyn Recorder>,
    others: Vec<Entry>,
    /// Time of the last write, nanoseconds since 1970.
    pub time: u64,
    /// Lengths of the data log and index log of the last closed segment.
    before: (u64, u64),
    /// A clock, and the number of bytes appended to this segment at that clock.
    appended: (u64, u64),
    /// The session closed packed.
    packed: bool,
    /// The open mark, if it is still there after the close.
    pub left_open: Option<String>,
}

/// A record at the end of the buffer that may still grow.
struct OpenRecord {
    record: Record,
    crc: Crc32c,
}

/// A session's index logs and buffered entries, from which an index is built.
pub struct View {
    /// Index logs, and the number of valid bytes of each.
    pub logs: Vec<(Source, u64)>,
    /// Entries that no index log contains yet.
    pub buffered: Vec<Entry>,
    /// The segment of these entries.
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
            leased_mark: None,
            owed: false,
            doubtful: None,
            guard: None,
            version: 0,
            segment: 0,
            data: None,
            end: 0,
            reserved: 0,
            reserved_inside: 0,
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
            packed: false,
            left_open: None,
        };
        Session {
            home,
            place,
            about,
            buffer,
            inline_limit: options.inline(1).min(buffer),
            longest: longest.max(1 << 20),
            process: thalweg_store::pid(),
            log: Mutex::new(log),
        }
    }

    /// A session whose mark was created with the file.
    pub fn begun(place: Arc<Place>, home: Home, about: String, options: &Options, inline: LeasedObject) -> Session {
        let session = Session::new(place, home, about, options, 1);
        {
            let mut log = session.lock();
            (log.started, log.marked, log.unlooked, log.inside) = (true, true, true, Some(inline));
        }
        session
    }

    /// Locks the session's state.
    pub fn lock(&self) -> MutexGuard<'_, Log> {
        self.log.lock()
    }

    /// Whether this process is a forked child of the session's process.
    pub fn is_left(&self) -> bool {
        self.process != thalweg_store::pid()
    }

    /// Abandons a forked child's copy: the parent writes and ends the logs.
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

    /// The segment that is being written.
    pub fn source(&self, log: &Log) -> Source {
        Source::of(&self.home, log.segment)
    }

    /// Begins the session, before its first byte is accepted. `true` if this call created the open mark: others may have
    /// published, truncated or compacted since this process's last refresh, so the caller refreshes before it assigns a
    /// clock.
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
        if let Some(inline) = &self.place.inline
            && self.begin_inside(log, inline)?
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
                // A repair removed the object before it was renamed.
                Err(e) if e.kind() == ErrorKind::NotFound && tried < MOST_TRIES => tried += 1,
                outcome => break outcome?,
            }
        };
        (log.started, log.marked) = (true, true);
        Ok(true)
    }

    /// Capacity of the buffer in bytes.
    fn most(&self, log: &Log) -> usize {
        if log.inside.is_some() { self.inline_limit } else { self.buffer }
    }

    /// Creates an object with the file's access rights.
    ///
    /// - `make`: creates the object in the store, with at most these permission bits.
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
        // A door that serves many users created the object for another user.
        let me = rustix::process::geteuid().as_raw();
        if me != guard.uid && me == 0 {
            guard.give(store, name)?;
        }
        Ok(object)
    }

    /// Creates the open mark. If the store can, the mark is written and leased before it gets its name: a mark without a
    /// lease belongs to a dead writer.
    fn mark(&self, guard: Option<Guard>) -> Result<Option<LeasedObject>> {
        let (store, name) = (self.place.first(), format!("{}/{}", self.place.marks(), marks::open_name(self.home)));
        // Only a lease has to be taken before the mark has its name.
        let early = appears_early(&**store) && store.has_leases();
        let at = if early { self.place.temporary() } else { name.clone() };
        let made = (|| {
            let object = self.make_object(&**store, &at, guard, |mode| store.make_for_all(&at, mode))?;
            // Leased first: cleaning up spares leased objects.
            let lease = object.lease()?;
            object.write_at(0, &[IoSlice::new(self.about.as_bytes())])?;
            let leased = match lease {
                Some(lease) => Some((object.into(), lease)),
                None => object.close().map(|()| None)?,
            };
            if early {
                moved(&**store, &at, &name)?;
            }
            Ok(leased)
        })();
        if made.is_err() {
            let _ = remove_if_there(&**store, &at);
        }
        made
    }

    /// Adds bytes of the logical file; passes their index entries to `tell`, for an index in memory.
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

    /// Adds bytes at the end of the logical file, whose offset follows from the order of all records. The session must not
    /// have written anything else at this clock.
    ///
    /// - `seen`: end of the file as this process sees it.
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

    /// Writes buffered entries to the index log if there are enough for a block.
    fn hand_on(&self, log: &mut Log) -> Result<()> {
        if log.recorder.count() >= MOST_ENTRIES {
            self.flush(log)?;
            self.write_blocks(log)?;
        }
        Ok(())
    }

    /// Adds one record, or extends the last one. Returns the written bytes as an entry.
    ///
    /// - `at`: offset in the logical file; `None` for an append.
    fn record(&self, log: &mut Log, at: Option<u64>, pieces: &[IoSlice<'_>], total: u64) -> Result<Run> {
        let kind = if at.is_some() { Kind::Write } else { Kind::Append };
        let offset = at.unwrap_or_else(|| log.behind());
        let entry = |clock: u64, offset: u64, place: u64| Run {
            appended: kind == Kind::Append,
            ..Run::one(clock, offset, total, place)
        };
        let room = self.most(log).saturating_sub(log.buffer.len()) as u64;
        if total <= room {
            self.reserve(log, total + RECORD_HEADER)?;
        }
        log.dirty = true;
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
        // A new segment contains no earlier appends.
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
        // The bytes do not fit the buffer: one operation writes the buffer and the caller's memory.
        record.crc = crc.finish();
        let head = record.encode();
        let waiting = std::mem::take(&mut log.buffer);
        let mut all = vec![IoSlice::new(&waiting), IoSlice::new(&head)];
        all.extend(pieces.iter().map(|piece| IoSlice::new(piece)));
        let written = self.put(log, &all);
        // The allocation is reused: new pages cost as much as the copy into them.
        log.buffer = waiting;
        if written.is_err() {
            self.unbegin(log);
        }
        written?;
        log.end += log.buffer.len() as u64 + RECORD_HEADER + total;
        log.buffer.clear();
        let written = entry(log.clock, offset, at + RECORD_HEADER);
        log.recorder.add(written);
        Ok(written)
    }

    /// Adds a cut or a hole: a record without bytes.
    pub fn bare(&self, log: &mut Log, kind: Kind, offset: u64, length: u64) -> Result<(Source, Entry)> {
        log.seal();
        if log.buffer.len() + RECORD_HEADER as usize > self.most(log) {
            self.flush(log)?;
        }
        self.reserve(log, RECORD_HEADER)?;
        log.dirty = true;
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

    /// Puts the segment header into an empty buffer.
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
        if log.inside.is_some() {
            return self.leave_inside(log, all);
        }
        self.open_data(log)?;
        let Some(data) = &log.data else { return Ok(()) };
        let written = data.write_at(log.end, all);
        if let Err(e) = &written {
            // A store that writes at any offset allows another attempt from here; on other stores the object is lost.
            if !self.store()?.capability().write_at {
                log.broken = Some(e.to_string());
            }
        }
        written
    }

    /// Creates the segment's data log, unless it is open.
    fn open_data(&self, log: &mut Log) -> Result<()> {
        let store = self.store()?;
        if log.data.is_none() {
            let name = self.place.data(&self.home, log.segment);
            let make = |mode| store.make_unused(&name, mode);
            // If others wrote before, the folder usually exists.
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
        Ok(())
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

    /// Writes the missing blocks of the index log.
    fn write_blocks(&self, log: &mut Log) -> Result<()> {
        if log.covered >= log.end && log.unwritten.is_empty() {
            return Ok(());
        }
        if log.index.is_none() {
            let name = self.place.index(&self.home, log.segment);
            let store = self.store()?;
            let make = |mode| store.make_unused(&name, mode);
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
            // A store that writes at any offset allows another attempt from here; on other stores the object is lost.
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
        if let Some(data) = log.data.as_ref().filter(|_| log.reserved > log.end.next_multiple_of(BLOCK)) {
            // Frees unused reserved space. If that fails, the space is freed with the log.
            let _ = data.truncate(log.end);
        }
        let closed = log.data.take().map_or(Ok(()), |data| data.close());
        let closed = closed.and(log.index.take().map_or(Ok(()), |index| index.close()));
        if let Err(e) = &closed {
            log.broken = Some(e.to_string());
        }
        closed
    }

    /// The session's index logs, made visible to readers of the store, and its buffered entries.
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
        let mut buffered = log.recorder.buffered();
        buffered.extend_from_slice(&log.others);
        Ok(View { logs, buffered, source: self.source(&log) })
    }

    /// Bytes of the data log that are in the store, if this segment is being written: those behind are buffered.
    pub fn written(&self, segment: u32) -> Option<u64> {
        let log = self.lock();
        (segment == log.segment && !log.finished).then_some(log.end)
    }

    /// Reads from the segment that is being written; `false` if the bytes are to be read from the store.
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

impl Log {
    /// Number of bytes already appended to this segment at this clock.
    fn behind(&self) -> u64 {
        if self.appended.0 == self.clock { self.appended.1 } else { 0 }
    }

    /// Whether only the log's end record is not on the store yet, and the log can still be written.
    fn is_ended(&self) -> bool {
        self.end > 0 && self.buffer.len() as u64 == RECORD_HEADER && self.broken.is_none()
    }

    fn next_segment(&mut self) {
        self.segment += 1;
        (self.end, self.seen, self.synced) = (0, 0, 0);
        (self.index_end, self.covered, self.reserved) = (0, SEGMENT_HEADER, 0);
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
