//! What is done to containers beside reading and writing: to look at them, to make them small, plain or whole again.
//!
//! | call | does | needs |
//! |------|------|-------|
//! | [`Container::map`] | tells which bytes lie where | nothing |
//! | [`Container::about`] | sessions, bytes, index, memory | nothing |
//! | [`Container::flatten`] | makes a plain object of a file | no open writer |
//! | [`Container::snapshot`] | writes the index of all sessions into one object | no open writer |
//! | [`Container::compact`] | writes what is left of a file into one log and removes the others | no open writer; one that begins meanwhile ends it, or waits |
//! | [`Container::check`] | reads everything, tells what is wrong | nothing |
//! | [`Container::repair`] | closes what dead writers left, makes index logs again | nothing: what a living session holds is left alone |
//! | [`Container::nameless`] | finds containers that no name leads to | nothing |

use super::clock::Summary;
use super::file::{self, File};
use super::index::block::{self, Entry};
use super::index::{Piece, Source};
use super::load::{self, Alive, Unclean};
use super::marks::{self, Mark, Published};
use super::place::{Guard, HIDDEN, MOST_TRIES, Place, TEMPORARY, now, put_new, put_new_as, remove_if_there};
use super::record::{Kind, Log as Which, Record, SEGMENT_HEADER, Segment};
use super::session::{Session, close_mark};
use super::snapshot::{self, Snapshot};
use super::stamp::Stamp;
use super::{Container, Found, Reader, scan};
use std::collections::{BTreeMap, BTreeSet};
use std::io::IoSlice;
use std::sync::Arc;
use std::time::Duration;
use thalweg_store::{Hold, OpenWrite, ReadObject, Store, StoreExt, name};
use thalweg_types::{Error, ErrorKind, Extent, Result};

/// Bytes looked at, or copied, at a time.
const WINDOW: u64 = 4 << 20;
/// Entries in a block of a rebuilt index log.
const MOST_ENTRIES: usize = 1 << 16;

/// Bytes of a file and where they lie.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mapped {
    /// Bytes of the logical file.
    pub extent: Extent,
    /// Where they are; `None` for bytes that nobody wrote.
    pub at: Option<At>,
}

/// Where bytes of a file are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct At {
    /// The data log, with its store.
    pub object: String,
    /// First byte in it; `None` for a hole that was punched.
    pub byte: Option<u64>,
    /// Who wrote them.
    pub writer: u32,
    /// In which session.
    pub session: u64,
    /// When, by the container's clock.
    pub clock: u64,
}

/// What is known of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct About {
    /// The container's number.
    pub container: u128,
    /// Its index module.
    pub module: &'static str,
    /// Its stores, as the mount had them when it was made.
    pub stores: Vec<String>,
    /// Length of the file.
    pub length: u64,
    /// Sessions that wrote.
    pub sessions: usize,
    /// Of them, not closed.
    pub open: usize,
    /// Bytes written, those that were overwritten included.
    pub written: u64,
    /// Bytes of index logs.
    pub index_bytes: u64,
    /// Entries of the open file's index.
    pub entries: u64,
    /// Bytes of memory that it takes.
    pub memory: usize,
    /// Highest clock.
    pub clock: u64,
}

/// What may be wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Trouble {
    /// A writer died before it closed. `repair` accepts what is there.
    Died,
    /// A writer has not closed, and whether it lives cannot be told. `repair` accepts what is there when it is told to.
    Open,
    /// A writer is at work.
    Writing,
    /// A writer has not closed, and all that it wrote is published: nothing is missing. `repair` closes it where no process can
    /// be at it, else when it is told to.
    Idle,
    /// An index log is missing, torn or says other things than the data log. `repair` makes it again.
    Index,
    /// Bytes of a data log are damaged or missing: they are lost.
    Data,
    /// A store is not there.
    Store,
    /// A log that no mark tells of. `repair` removes it.
    Stray,
    /// Bytes that sessions wrote without either having seen the other: the greater writer's number won.
    Tie,
}

impl Trouble {
    /// Whether `repair` mends it.
    pub fn mended(self) -> bool {
        matches!(self, Trouble::Died | Trouble::Open | Trouble::Idle | Trouble::Index | Trouble::Stray)
    }
}

/// Something that is wrong, or worth knowing.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Finding {
    /// What sort.
    pub trouble: Trouble,
    /// The object, or the bytes of the file.
    pub place: String,
    /// In words.
    pub words: String,
}

/// What a check found.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Report {
    /// Length of the file, as far as it is known.
    pub length: u64,
    /// Sessions that wrote.
    pub sessions: usize,
    /// Records read and checked.
    pub records: u64,
    /// Bytes of them.
    pub bytes: u64,
    /// Sorted by trouble, then place.
    pub findings: Vec<Finding>,
}

impl Report {
    /// Whether nothing is wrong: ties and writers that have not closed and lack nothing are no faults.
    pub fn is_clean(&self) -> bool {
        self.findings.iter().all(|f| matches!(f.trouble, Trouble::Tie | Trouble::Writing | Trouble::Idle))
    }

    fn add(&mut self, trouble: Trouble, place: impl Into<String>, words: impl Into<String>) {
        self.findings.push(Finding { trouble, place: place.into(), words: words.into() });
    }
}

/// What compacting did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Compacted {
    /// Sessions before.
    pub sessions: usize,
    /// Bytes written to the new log.
    pub bytes: u64,
    /// Bytes that nobody saw any more.
    pub dead: u64,
}

impl Container {
    fn opened(&self, path: &str, what: &str) -> Result<(Arc<File>, String)> {
        let path = self.inside(path, what)?;
        Ok((self.look(&path)?, path))
    }

    /// Tells which bytes of a file lie where, from byte `from` to byte `to`, in order and without gaps.
    pub fn map(&self, path: &str, from: u64, to: u64, mut tell: impl FnMut(Mapped)) -> Result<()> {
        let (file, _) = self.opened(path, "map")?;
        let end = file.length()?.min(to);
        let mut next: Option<Mapped> = None;
        let mut put = |mapped: Mapped| {
            if let Some(before) = &mut next {
                let behind = before.extent.offset + before.extent.length == mapped.extent.offset;
                let goes_on = match (&before.at, &mapped.at) {
                    (None, None) => true,
                    (Some(a), Some(b)) => {
                        let on = match (a.byte, b.byte) {
                            (Some(x), Some(y)) => x + before.extent.length == y,
                            (x, y) => x == y,
                        };
                        on && (&a.object, a.session, a.clock) == (&b.object, b.session, b.clock)
                    }
                    _ => false,
                };
                if behind && goes_on {
                    before.extent.length += mapped.extent.length;
                    return;
                }
            }
            if let Some(before) = next.replace(mapped) {
                tell(before);
            }
        };
        let mut at = from;
        while at < end {
            let stop = end.min(at + 64 * WINDOW);
            let found = file.with_index(|index| {
                let pieces = index.resolve(at, stop)?;
                Ok(pieces.iter().map(|p| (*p, index.source_of(p).clone(), index.clock(p))).collect::<Vec<_>>())
            })?;
            for (piece, source, clock) in found {
                if piece.start > at {
                    put(Mapped { extent: Extent { offset: at, length: piece.start - at }, at: None });
                }
                let place = At {
                    object: file.place.shown(&source),
                    byte: (!piece.hole).then_some(piece.log),
                    writer: source.writer,
                    session: source.session,
                    clock,
                };
                put(Mapped {
                    extent: Extent { offset: piece.start, length: piece.end - piece.start },
                    at: Some(place),
                });
                at = piece.end;
            }
            if at < stop {
                put(Mapped { extent: Extent { offset: at, length: stop - at }, at: None });
            }
            at = stop;
        }
        if let Some(last) = next {
            tell(last);
        }
        Ok(())
    }

    /// What is known of a file. Its index is loaded for it.
    pub fn about(&self, path: &str) -> Result<About> {
        let (file, _) = self.opened(path, "look at")?;
        let marks = file.marks();
        let (entries, memory) = file.with_index(|index| Ok((index.entries(), index.memory())))?;
        let published = || marks.iter().filter_map(|m| m.published);
        Ok(About {
            container: file.place.stamp.container,
            module: file.place.stamp.module.name(),
            stores: file.place.stamp.stores.iter().map(|(_, name)| name.clone()).collect(),
            length: file.length()?,
            sessions: marks.len(),
            open: marks.iter().filter(|m| !m.closed()).count(),
            written: published().map(|p| p.summary.bytes).sum(),
            index_bytes: published().map(|p| p.index).sum(),
            entries,
            memory,
            clock: file.clock(),
        })
    }

    /// Whether all that was written of a file is published: no session of any process is open.
    ///
    /// # Errors
    /// `NotReady` naming a writer that has not closed, `Torn` one that died.
    pub fn settled(&self, path: &str) -> Result<()> {
        let (file, path) = self.opened(path, "look at")?;
        settled(&file).map_err(|e| e.in_object(path))
    }

    /// Makes a plain object of a file, front to back, durable at the end. Returns its length.
    ///
    /// # Errors
    /// `NotReady` or `Torn` where a writer has not closed; `AlreadyExists` where there is an object of this name; those of
    /// reading, after which the object is removed.
    pub fn flatten(&self, path: &str, to: &dyn Store, name: &str) -> Result<u64> {
        let (file, path) = self.opened(path, "flatten")?;
        settled(&file).map_err(|e| e.in_object(path.clone()))?;
        let reader = Reader { file, path };
        let object = to.open_write(name, OpenWrite::New)?;
        let copied = (|| {
            let length = reader.length()?;
            let mut bytes = vec![0; WINDOW.min(length) as usize];
            let mut at = 0;
            while at < length {
                let run = &mut bytes[..(length - at).min(WINDOW) as usize];
                reader.read_exact_at(at, run)?;
                object.write_at(at, &[IoSlice::new(run)])?;
                at += run.len() as u64;
            }
            object.sync()?;
            Ok(length)
        })();
        match copied {
            Ok(length) => {
                object.close()?;
                Ok(length)
            }
            Err(e) => {
                drop(object);
                let _ = remove_if_there(to, name);
                Err(e)
            }
        }
    }

    /// Writes what all index logs say into one object, which opens faster. Returns its bytes.
    ///
    /// # Errors
    /// `Torn` or `NotReady` where a writer has not closed.
    pub fn snapshot(&self, path: &str) -> Result<u64> {
        let (file, _) = self.opened(path, "take a snapshot of")?;
        let marks = file.marks();
        let Some(covers) = snapshot::covers(&marks).filter(|_| !file.is_written()) else {
            return Err(
                Error::new(ErrorKind::NotReady, "cannot take a snapshot: a writer has not closed").in_object(path)
            );
        };
        let index = load::gathered(&file.place, &marks)?;
        let name = snapshot::name(&covers);
        let bytes = Snapshot { container: file.place.stamp.container, covers, index }.encode();
        let (store, folder) = (file.place.first(), file.place.marks());
        if !file.beside().contains(&name) {
            let mode = file.place.guard()?.map_or(0o666, |guard| guard.object());
            put_new_as(&**store, &format!("{folder}/{name}"), &bytes, mode)?;
        }
        for old in file.beside().iter().filter(|n| n.starts_with("x-") && **n != name) {
            remove_if_there(&**store, &format!("{folder}/{old}"))?;
        }
        file.look()?;
        Ok(bytes.len() as u64)
    }

    /// Writes what is left of a file into one log and removes all others. Readers that are open find the new one.
    ///
    /// A kill at any moment leaves a file of the same bytes: the new log takes effect with its last record, a cut of all
    /// that came before.
    ///
    /// # Errors
    /// `NotReady` where a writer has not closed, or began while the file was copied; nothing is changed then.
    pub fn compact(&self, path: &str) -> Result<Compacted> {
        let (file, path) = self.opened(path, "compact")?;
        let _alone = alone(&file.place, true)?;
        file.look()?;
        let busy =
            || Error::new(ErrorKind::NotReady, "cannot compact: a writer has not closed").in_object(path.clone());
        end_sessions(&file)?;
        let marks = file.marks();
        if file.is_written() || marks.iter().any(|m| !m.closed()) {
            return Err(busy());
        }
        let written: u64 = marks.iter().filter_map(|m| m.published).map(|p| p.summary.bytes).sum();
        if marks.is_empty() {
            return Ok(Compacted { sessions: 0, bytes: 0, dead: 0 });
        }
        let (clock, length) = (file.clock(), file.length()?);
        let home = file.place.home(&self.options.host, u32::MAX, 0);
        let about = load::about_compacting();
        let session = Session::new(file.place.clone(), home, about, self.options.buffer, self.options.segment, clock);
        let (first, folder) = (file.place.first(), file.place.marks());
        let commit = format!("{folder}/{}", marks::commit_name(home.session));
        let copied = self.copy_live(&file, &session, length).and_then(|bytes| {
            // Who begins to write from here on sees this and waits; who began before is seen by the list.
            put_new(&**first, &commit, &[])?;
            let mut now = marks::read(&first.list(&folder)?)?;
            now.retain(|m| m.home.session != home.session);
            if now != marks {
                return Err(busy());
            }
            let mut log = session.lock();
            // By the clock it comes before the writes of its session, so those stay.
            session.bare(&mut log, Kind::Cut, 0, 0)?;
            session.publish(&mut log, true, true)?;
            Ok(bytes)
        });
        if copied.is_err() {
            // Nothing of it counts yet.
            session.give_up(&mut session.lock());
        }
        remove_if_there(&**first, &commit)?;
        let bytes = copied.map_err(|e| e.in_object(path.clone()))?;
        for mark in &marks {
            file::remove_session(&file.place, mark)?;
        }
        file.look()?;
        Ok(Compacted { sessions: marks.len(), bytes, dead: written.saturating_sub(bytes) })
    }

    fn copy_live(&self, file: &File, session: &Session, length: u64) -> Result<u64> {
        let mut log = session.lock();
        session.start(&mut log)?;
        log.time = file.written().unwrap_or_else(now);
        let (mut at, mut end, mut copied) = (0, 0, 0);
        let mut bytes = Vec::new();
        while at < length {
            let stop = length.min(at + WINDOW);
            let (pieces, appended): (Vec<Piece>, bool) =
                file.with_index(|index| Ok((index.resolve(at, stop)?, index.has_appended())))?;
            for piece in pieces.iter().filter(|p| !p.hole) {
                // Appends of the last clock lie elsewhere once the cut is seen, until their log is gone: nothing of them shows.
                if appended && piece.start > end {
                    session.bare(&mut log, Kind::Hole, end, piece.start - end)?;
                }
                bytes.resize((piece.end - piece.start) as usize, 0);
                if file.read(piece.start, &mut bytes)? != bytes.len() {
                    return Err(Error::new(ErrorKind::Io, "the file was cut while it was compacted"));
                }
                session.write(&mut log, piece.start, &[IoSlice::new(&bytes)], |_, _| {})?;
                copied += bytes.len() as u64;
                end = piece.end;
            }
            at = stop;
        }
        if end < length {
            session.bare(&mut log, Kind::Hole, end, length - end)?;
        }
        session.hand_over(&mut log)?;
        Ok(copied)
    }

    /// Reads and checks all of a container.
    ///
    /// # Errors
    /// Where not even its stamp or its marks can be read. All else is in the report.
    pub fn check(&self, path: &str) -> Result<Report> {
        let path = self.inside(path, "check")?;
        let (_, stamp) = self.follow(&path)?;
        let place = Place::new(stamp, self.stores.clone());
        let mut report = Report::default();
        for k in 0..place.stamp.stores.len() {
            if let Err(e) = place.store(k as u8) {
                report.add(Trouble::Store, place.stamp.stores[k].1.clone(), e.what());
            }
        }
        if place.has_home().is_err() {
            // Nothing more is known of it.
            return Ok(report);
        }
        // Logs first: each had a mark before it was made.
        let logs = logs_of(&place)?;
        let marks = marks_of(&place)?;
        report.sessions = marks.len();
        for mark in &marks {
            check_present(&place, mark, &mut report)?;
        }
        for (name, _) in strays(&place, &logs)? {
            report.add(Trouble::Stray, name, "no mark tells of this log");
        }
        match load::merged(&place, &self.options, &marks, &[], &[]) {
            Ok((index, _)) => {
                report.length = index.length;
                let mut at = 0;
                while at < index.length {
                    let stop = index.length.min(at + 64 * WINDOW);
                    for tie in ties(&index, at, stop)? {
                        let (a, b) = (tie.1, tie.2);
                        let bytes = format!("bytes {}..{}", tie.0.offset, tie.0.offset + tie.0.length);
                        let words = format!("writers {a} and {b} wrote them without having seen each other");
                        report.add(Trouble::Tie, bytes, words);
                    }
                    at = stop;
                }
            }
            // What is missing is among the findings.
            Err(_) => report.length = super::clock::length(summaries(&marks)).unwrap_or(0),
        }
        report.findings.sort();
        report.findings.dedup();
        Ok(report)
    }

    /// Closes what dead writers left, makes index logs again where they don't tell what data logs hold, removes what no mark
    /// tells of. Returns what was done; [`check`](Container::check) finds nothing of it afterwards.
    ///
    /// - `all`: also sessions of which it cannot be told whether their writers live. One that lives after all fails.
    pub fn repair(&self, path: &str, all: bool) -> Result<Vec<Finding>> {
        let path = self.inside(path, "repair")?;
        let (_, stamp) = self.follow(&path)?;
        let file = self.file(stamp);
        file.place.has_home().map_err(|e| e.in_object(path.clone()))?;
        let _alone = alone(&file.place, true)?;
        if file.is_written() {
            return Err(Error::new(ErrorKind::NotReady, "cannot repair: this process writes the file").in_object(path));
        }
        let place = &file.place;
        let mut done = Report::default();
        for mark in marks_of(place)? {
            let mut found = Report::default();
            let Some(mark) = &check_present(place, &mark, &mut found)? else { continue };
            let idle = mark.open.is_none() && !mark.closed();
            let gone = idle && load::alive(place, mark)?.0 == Alive::No;
            let due = |f: &Finding| match f.trouble {
                Trouble::Open => all,
                Trouble::Idle => all || gone,
                Trouble::Died | Trouble::Index => true,
                _ => false,
            };
            let at_work =
                found.findings.iter().any(|f| f.trouble == Trouble::Writing || (f.trouble == Trouble::Open && !all));
            if !at_work && found.findings.iter().any(due) {
                let words = match mark.open.is_some() && load::compacts(&load::alive(place, mark)?.1) {
                    // All of it is in the sessions that it was to take the place of.
                    true => {
                        file::remove_session(place, mark).map(|()| "removed what was being compacted".to_string())?
                    }
                    false => rebuild(place, mark)?,
                };
                let finding = found.findings.iter().find(|f| due(f));
                done.add(finding.map_or(Trouble::Index, |f| f.trouble), place.data(&mark.home, 0), words);
            }
        }
        for (name, store) in strays(place, &logs_of(place)?)? {
            remove_if_there(&*store, &name)?;
            done.add(Trouble::Stray, name, "removed");
        }
        tidy(place)?;
        file.look()?;
        // Objects that were made before their folders were guarded.
        if let (kept, Some(_)) = self.kept(&file)? {
            file.place.put_guard(Guard::of(kept.mode, kept.uid, kept.gid), &path).map_err(|e| e.in_object(path))?;
        }
        Ok(done.findings)
    }

    /// Containers that no name of the mount leads to, made longer ago than `older`: what a kill in the middle of making or
    /// removing a file leaves. With `remove` they are removed.
    pub fn nameless(&self, older: Duration, remove: bool) -> Result<Vec<u128>> {
        let mut named = BTreeSet::new();
        self.names_below("", &mut named)?;
        let mut found = Vec::new();
        let root = format!("{HIDDEN}/c");
        for name in listed(&**self.first(), HIDDEN)?.iter().filter(|name| remove && name.starts_with(TEMPORARY)) {
            // Who is about to rename it makes it again.
            remove_if_there(&**self.first(), &format!("{HIDDEN}/{name}"))?;
        }
        for (k, store) in self.stores.all().enumerate() {
            for group in listed(&**store, &root)? {
                for number in listed(&**store, &format!("{root}/{group}"))? {
                    let Ok(container) = u128::from_str_radix(&number, 16) else { continue };
                    if named.contains(&container) {
                        continue;
                    }
                    let bytes = store.read_all(&format!("{root}/{group}/{number}/stamp"));
                    let stamp = bytes.ok().and_then(|bytes| Stamp::decode(&bytes).ok());
                    let made = stamp.as_ref().map_or(0, |s| s.made);
                    if u128::from(now().saturating_sub(made)) < older.as_nanos() {
                        continue;
                    }
                    found.push(container);
                    if remove {
                        let stamp = match stamp {
                            Some(stamp) => stamp,
                            None => Stamp { container, home: k as u8, ..self.stamp(None)? },
                        };
                        file::remove_container(&Place::new(stamp, self.stores.clone()))?;
                    }
                }
            }
        }
        Ok(found)
    }

    fn names_below(&self, folder: &str, out: &mut BTreeSet<u128>) -> Result<()> {
        for entry in self.first().list(folder)? {
            if folder.is_empty() && entry == HIDDEN || entry == super::OF_FOLDER {
                continue;
            }
            let name = if folder.is_empty() { entry } else { format!("{folder}/{entry}") };
            // What leads nowhere, or goes meanwhile, names nothing.
            let Ok(about) = self.first().stat(&name) else { continue };
            if about.is_folder {
                self.names_below(&name, out)?;
            } else if let Ok(Found::File(stamp)) = self.found(&name) {
                out.insert(stamp.container);
            }
        }
        Ok(())
    }
}

fn listed(store: &dyn Store, folder: &str) -> Result<Vec<String>> {
    match store.list(folder) {
        Err(e) if e.kind() == ErrorKind::NotFound => Ok(Vec::new()),
        names => names,
    }
}

fn summaries(marks: &[Mark]) -> impl Iterator<Item = (u32, u64, Summary)> + Clone {
    marks.iter().map(|m| (m.home.writer, m.home.session, m.published.unwrap_or_default().summary))
}

/// The sessions that the marks tell of now.
fn marks_of(place: &Place) -> Result<Vec<Mark>> {
    marks::read(&place.first().list(&place.marks())?)
}

/// Keeps others from removing and repairing sessions of a container, where its store can: `None` inside where it cannot. `None`
/// where another does so now and `wait` is not set.
pub fn alone(place: &Place, wait: bool) -> Result<Option<Option<Hold>>> {
    match place.first().lock(&format!("{}/upkeep", place.folder()), wait) {
        Err(e) if e.kind() == ErrorKind::Unsupported => Ok(Some(None)),
        // Another user's to look after.
        Err(e) if e.kind() == ErrorKind::PermissionDenied && !wait => Ok(None),
        outcome => Ok(outcome?.map(Some)),
    }
}

/// Whether no session is open.
fn settled(file: &File) -> Result<()> {
    if file.is_written() {
        return Err(Error::new(ErrorKind::NotReady, "this process has not closed the file"));
    }
    // What is about to close is looked at again.
    for last in [false, true] {
        let Some(mark) = file.marks().into_iter().find(|m| !m.closed()) else { return Ok(()) };
        let (alive, who) = load::alive(&file.place, &mark)?;
        if last || alive != Alive::Unknown {
            let unclean = Unclean { session: mark.home.session, who, dead: alive == Alive::No };
            return Err(unclean.unsettled());
        }
        file.look()?;
    }
    Ok(())
}

/// Removes what compactions left that were killed: all of it is in the sessions that they were to take the place of. Closes
/// sessions of which nothing is outstanding and that no process is at.
fn end_sessions(file: &File) -> Result<()> {
    for mark in file.marks().iter().filter(|m| !m.closed()) {
        let (alive, who) = load::alive(&file.place, mark)?;
        match &mark.published {
            _ if alive != Alive::No => {}
            None if load::compacts(&who) => file::remove_session(&file.place, mark)?,
            Some(p) if mark.open.is_none() => close_mark(&file.place, mark.home, p)?,
            _ => {}
        }
    }
    tidy(&file.place)?;
    file.look()
}

/// Removes what kills left in a container's folders: objects that were being made, and what compactions had announced.
fn tidy(place: &Place) -> Result<()> {
    let (first, folder) = (place.first(), place.marks());
    let names = first.list(&folder)?;
    for name in names.iter().filter(|name| name.starts_with(TEMPORARY)) {
        let name = format!("{folder}/{name}");
        // Who is about to rename it makes it again.
        let life = first.open_read(&name).and_then(|object| object.life());
        if life.is_ok_and(|life| life.held != Some(true)) {
            remove_if_there(&**first, &name)?;
        }
    }
    let marks = marks::read(&names)?;
    for name in names.iter().filter(|name| name.starts_with("k-")) {
        let open = marks.iter().any(|m| *name == marks::commit_name(m.home.session) && !m.closed());
        if !open {
            remove_if_there(&**first, &format!("{folder}/{name}"))?;
        }
    }
    Ok(())
}

/// A log: its name, the store, and which.
type Lying = (String, Arc<dyn Store>, u8);

/// All logs of a container.
fn logs_of(place: &Place) -> Result<Vec<Lying>> {
    let mut found = Vec::new();
    for k in 0..place.stamp.stores.len() as u8 {
        let Ok(store) = place.store(k) else { continue };
        for folder in listed(&**store, &place.logs())? {
            let folder = format!("{}/{folder}", place.logs());
            found.extend(listed(&**store, &folder)?.iter().map(|name| (format!("{folder}/{name}"), store.clone(), k)));
        }
    }
    Ok(found)
}

/// Which of these logs no mark tells of. Marks are looked at here, after the logs: a session makes its mark before its logs, and
/// until it is removed it has one at every moment. A mark that changes while the names are listed may be missed once, so that
/// they are listed again.
fn strays(place: &Place, logs: &[Lying]) -> Result<Vec<(String, Arc<dyn Store>)>> {
    let mut left: Vec<&Lying> = logs.iter().collect();
    for _ in 0..2 {
        if left.is_empty() {
            break;
        }
        let marks = marks_of(place)?;
        let known: BTreeMap<u64, &Mark> = marks.iter().map(|m| (m.home.session, m)).collect();
        left.retain(|(name, _, k)| {
            let told = log_name(name::last_part(name)).is_some_and(|(session, segment)| {
                known.get(&session).is_some_and(|m| {
                    !m.closed() || (segment < m.published.map_or(0, |p| p.segments) && m.home.store == *k)
                })
            });
            !told
        });
    }
    // What was removed meanwhile is no stray.
    let there = |(name, store, _): &&&Lying| store.exists(name).unwrap_or(true);
    Ok(left.iter().filter(there).map(|(name, store, _)| (name.clone(), store.clone())).collect())
}

/// Checks a session as it is now; one that goes on meanwhile is checked again. Returns its mark; `None` where it was removed.
fn check_present(place: &Place, mark: &Mark, report: &mut Report) -> Result<Option<Mark>> {
    let mut mark = mark.clone();
    for _ in 0..MOST_TRIES {
        let mut found = Report::default();
        let outcome = check_session(place, &mark, &mut found);
        let fine = outcome.is_ok() && found.findings.is_empty();
        if !fine {
            // Closed, published more or removed since.
            match marks_of(place)?.into_iter().find(|m| m.home.session == mark.home.session) {
                None => return Ok(None),
                Some(now) if now != mark => {
                    mark = now;
                    continue;
                }
                Some(_) => {}
            }
        }
        outcome?;
        report.records += found.records;
        report.bytes += found.bytes;
        report.findings.append(&mut found.findings);
        return Ok(Some(mark));
    }
    // It publishes faster than it is looked through.
    report.add(Trouble::Writing, place.data(&mark.home, 0), "a writer is at work");
    Ok(Some(mark))
}

fn log_name(name: &str) -> Option<(u64, u32)> {
    let stem = name.strip_suffix(".data").or_else(|| name.strip_suffix(".index"))?;
    let (session, segment) = stem.split_once('-')?;
    Some((u64::from_str_radix(session, 16).ok()?, segment.parse().ok()?))
}

/// Bytes that two sessions wrote at the same clock: extent, writer, writer.
fn ties(index: &super::index::Merged, from: u64, to: u64) -> Result<Vec<(Extent, u32, u32)>> {
    let mut pieces = index.layers(from, to)?;
    pieces.sort_unstable_by_key(|p| p.start);
    let mut found: Vec<(Extent, u32, u32)> = Vec::new();
    let mut open: Vec<Piece> = Vec::new();
    for piece in pieces {
        open.retain(|p| p.end > piece.start);
        for other in &open {
            let (a, b) = (index.source_of(other), index.source_of(&piece));
            if a.session != b.session && index.clock(other) == index.clock(&piece) {
                let length = other.end.min(piece.end) - piece.start;
                let (low, high) = (a.writer.min(b.writer), a.writer.max(b.writer));
                found.push((Extent { offset: piece.start, length }, low, high));
            }
        }
        open.push(piece);
    }
    Ok(found)
}

/// A sum over records that does not depend on their order: two logs that hold the same have the same.
#[derive(Debug, Default, PartialEq, Eq)]
struct Sum(u64, u64);

impl Sum {
    fn add(&mut self, clock: u64, start: u64, length: u64, log: u64, kind: u64) {
        let mut hash = 0xcbf2_9ce4_8422_2325u64;
        for word in [clock, start, length, log, kind] {
            hash = (hash ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            hash ^= hash >> 29;
        }
        self.0 = self.0.wrapping_add(hash);
        self.1 += 1;
    }

    fn entry(&mut self, entry: &Entry) {
        match entry {
            Entry::Cut { clock, length, log } => self.add(*clock, *length, 0, *log, 2),
            Entry::Run(run) => {
                for i in 0..run.outer.count as i128 {
                    for j in 0..run.inner.count as i128 {
                        let at = |base: u64, a: i64, b: i64| {
                            (i128::from(base) + i * i128::from(a) + j * i128::from(b)) as u64
                        };
                        let start = at(run.start, run.outer.stride, run.inner.stride);
                        let log = at(run.log, run.outer.log_stride, run.inner.log_stride);
                        let kind = u64::from(run.hole) + 4 * u64::from(run.appended);
                        self.add(run.clock, start, run.length, log, kind);
                    }
                }
            }
        }
    }
}

fn check_session(place: &Place, mark: &Mark, report: &mut Report) -> Result<()> {
    let segments = mark.published.map_or(0, |p| p.segments);
    if place.store(mark.home.store).is_err() {
        // Told once, for the store.
        return Ok(());
    }
    for k in 0..segments {
        let p = mark.published.unwrap_or_default();
        let (index, data) = if k + 1 < segments { (u64::MAX, u64::MAX) } else { (p.index, p.data) };
        check_segment(place, &Source::of(&mark.home, k), index, data, report)?;
    }
    if mark.closed() {
        return Ok(());
    }
    let (alive, who) = load::alive(place, mark)?;
    if alive == Alive::Yes {
        report.add(Trouble::Writing, place.data(&mark.home, segments.saturating_sub(1)), who);
        return Ok(());
    }
    if mark.open.is_none() {
        let words = "a writer has not closed; all that it wrote is published";
        report.add(Trouble::Idle, place.data(&mark.home, segments.saturating_sub(1)), words);
        return Ok(());
    }
    let (records, bytes, torn) = tail(place, mark)?;
    let trouble = if alive == Alive::No { Trouble::Died } else { Trouble::Open };
    let mut words = format!("{who}: {bytes} bytes in {records} records behind what it synced are there");
    if torn > 0 {
        words.push_str(&format!(", {torn} bytes of a torn record are not"));
    }
    words.push_str("; what it had not handed to the store is lost");
    report.add(trouble, place.data(&mark.home, segments.saturating_sub(1)), words);
    Ok(())
}

/// Records, bytes, torn bytes behind what a session published.
fn tail(place: &Place, mark: &Mark) -> Result<(u64, u64, u64)> {
    let segments = mark.published.map_or(0, |p| p.segments);
    let mut from = if segments > 0 { mark.published.map_or(0, |p| p.data) } else { 0 };
    let (mut records, mut bytes, mut torn) = (0, 0, 0);
    for k in segments.saturating_sub(1).. {
        let source = Source::of(&mark.home, k);
        let Some(object) = load::open(place, &source, Which::Data)? else { break };
        let end = object.length()?;
        if from < end {
            let scanned = scan::data_log(place, &source, &*object, from, end, true, |record| {
                records += 1;
                bytes += record.payload();
                Ok(())
            })?;
            torn += end - scanned.whole.min(end);
            if !scanned.ended {
                break;
            }
        }
        from = 0;
    }
    Ok((records, bytes, torn))
}

fn check_segment(place: &Place, source: &Source, index: u64, data: u64, report: &mut Report) -> Result<()> {
    let shown = place.shown(source);
    let mut sums = (Sum::default(), Sum::default());
    let mut whole = false;
    match load::open(place, source, Which::Data)? {
        None => report.add(Trouble::Data, shown.clone(), "the data log is gone"),
        Some(object) => {
            let there = object.length()?;
            let end = if data == u64::MAX { there } else { data };
            if there < end {
                let words = format!("the data log has {there} bytes of {end}");
                report.add(Trouble::Data, shown.clone(), words);
            }
            let mut damaged = Vec::new();
            let scanned = scan::data_log(place, source, &*object, 0, end.min(there), false, |record| {
                report.records += 1;
                report.bytes += record.payload();
                if !scan::is_intact(&*object, record)? {
                    damaged.push(*record);
                }
                scan::entry_of(record).iter().for_each(|entry| sums.0.entry(entry));
                Ok(())
            })?;
            for record in damaged {
                let words = match record.kind {
                    Kind::Append => format!("{} bytes that were appended are damaged", record.length),
                    _ => format!("bytes {}..{} of the file are damaged", record.offset, record.offset + record.length),
                };
                report.add(Trouble::Data, format!("{shown} at byte {}", record.at), words);
            }
            whole = scanned.whole >= end || (data == u64::MAX && scanned.ended);
            if let Some(e) = scanned.torn.filter(|_| there >= end) {
                report.add(Trouble::Data, format!("{shown} at byte {}", scanned.whole), e.what());
            }
        }
    }
    let outcome = match load::open(place, source, Which::Index)? {
        None => Err("the index log is gone".to_string()),
        Some(object) => {
            let end = if index == u64::MAX { object.length()? } else { index };
            let told = scan::index_log(place, source, &*object, end, |entry| {
                // A run is unfolded only where the data log holds as many records.
                match entry {
                    Entry::Run(run) if run.records() > sums.0.1 => sums.1.1 = u64::MAX,
                    entry if sums.1.1 <= sums.0.1 => sums.1.entry(&entry),
                    _ => {}
                }
                Ok(())
            });
            match told {
                Ok((_, Some(e))) => Err(e.what().to_string()),
                Ok((covered, None)) if data != u64::MAX && covered < data => Err("the index log ends early".into()),
                Ok((_, None)) => Ok(()),
                Err(e) => return Err(e),
            }
        }
    };
    let name = load::name(place, source, Which::Index);
    match outcome {
        Err(words) => report.add(Trouble::Index, name, words),
        Ok(()) if whole && sums.0 != sums.1 => {
            report.add(Trouble::Index, name, "the index log says other things than the data log")
        }
        Ok(()) => {}
    }
    Ok(())
}

/// Makes index logs of what a session's data logs hold, and a mark that says it is closed.
fn rebuild(place: &Place, mark: &Mark) -> Result<String> {
    let (home, store) = (mark.home, place.store(mark.home.store)?.clone());
    let published = mark.published.unwrap_or_default();
    let mut new = Published {
        version: published.version + 1,
        closed: true,
        segments: 0,
        data: 0,
        index: 0,
        summary: Summary::default(),
        time: if published.time > 0 { published.time } else { now() },
    };
    let mut torn = 0;
    for k in 0.. {
        let source = Source::of(&home, k);
        let name = load::name(place, &source, Which::Data);
        if load::open(place, &source, Which::Data)?.is_some() {
            store.settle(&name)?;
        }
        let Some(object) = load::open(place, &source, Which::Data)? else {
            match k < published.segments {
                true => return Err(load::lost(place, &source, Which::Data)),
                false => break,
            }
        };
        // Behind the end of what a closed session published nothing counts.
        let last = k + 1 == published.segments;
        let end = if mark.closed() && last { published.data.min(object.length()?) } else { object.length()? };
        let trusted = if last {
            published.data
        } else if k < published.segments {
            u64::MAX
        } else {
            0
        };
        let mut recorder = place.stamp.module.recorder();
        let mut others = Vec::new();
        let mut summary = new.summary;
        let mut take = |record: &Record| {
            match scan::entry_of(record) {
                Some(Entry::Run(run)) if !run.hole => recorder.add(run),
                Some(entry) => others.push(entry),
                None => {}
            }
            match record.kind {
                Kind::Write => summary.write(record.clock, record.offset + record.length, record.length),
                Kind::Append => summary.append(record.clock, Summary::UNSEEN, record.length),
                Kind::Hole => summary.write(record.clock, record.offset + record.length, 0),
                Kind::Cut => summary.cut(record.clock, record.offset),
                Kind::End => {}
            }
            Ok(())
        };
        // What was published is kept even where its bytes are damaged; what was not must be whole.
        let mut from = 0;
        if trusted > 0 {
            let scanned = scan::data_log(place, &source, &*object, 0, end.min(trusted), false, &mut take)?;
            if scanned.whole < trusted && !(scanned.ended && trusted == u64::MAX) {
                let torn = Error::new(ErrorKind::Torn, "cannot repair: bytes that were published are missing");
                return Err(torn.in_object(place.shown(&source)).at_byte(scanned.whole));
            }
            from = scanned.whole;
        }
        let scanned = scan::data_log(place, &source, &*object, from, end, true, &mut take)?;
        torn += end - scanned.whole.min(end);
        if scanned.whole <= SEGMENT_HEADER && !scanned.ended && k >= published.segments {
            break;
        }
        new.summary = summary;
        let mut entries = recorder.take();
        entries.append(&mut others);
        let head = Segment { container: place.stamp.container, session: home.session, writer: home.writer, number: k };
        let mut bytes = head.encode(Which::Index).to_vec();
        if entries.is_empty() {
            bytes.extend_from_slice(&block::encode(home.session, SEGMENT_HEADER, scanned.whole, &[]));
        }
        for run in entries.chunks(MOST_ENTRIES) {
            bytes.extend_from_slice(&block::encode(home.session, SEGMENT_HEADER, scanned.whole, run));
        }
        let name = load::name(place, &source, Which::Index);
        if load::open(place, &source, Which::Index)?.is_some() {
            store.settle(&name)?;
        }
        // Until the new one is there, readers go by the data log.
        remove_if_there(&*store, &name)?;
        put_new_as(&*store, &name, &bytes, place.guard()?.map_or(0o666, |guard| guard.object()))?;
        (new.segments, new.data, new.index) = (k + 1, scanned.whole, bytes.len() as u64);
        if !scanned.ended && k >= published.segments.saturating_sub(1) {
            break;
        }
    }
    let (first, folder) = (place.first(), place.marks());
    put_new(&**first, &format!("{folder}/{}", marks::published_name(home, &new)), &[])?;
    if let Some(p) = mark.published.filter(|p| *p != new).as_ref() {
        remove_if_there(&**first, &format!("{folder}/{}", marks::published_name(home, p)))?;
    }
    if let Some(name) = &mark.open {
        let name = format!("{folder}/{name}");
        first.settle(&name).or_else(|e| if e.kind() == ErrorKind::NotFound { Ok(()) } else { Err(e) })?;
        remove_if_there(&**first, &name)?;
    }
    // What is behind the last whole record.
    for k in new.segments.. {
        let names = [Which::Data, Which::Index].map(|which| load::name(place, &Source::of(&home, k), which));
        if names.iter().all(|name| store.stat(name).is_err()) {
            break;
        }
        names.iter().try_for_each(|name| remove_if_there(&*store, name))?;
    }
    let mut words = format!("closed with {} bytes in {} logs, index made again", new.summary.bytes, new.segments);
    if torn > 0 {
        words.push_str(&format!("; {torn} bytes of a torn record are left out"));
    }
    Ok(words)
}
