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
//!
//! | room | what it owns |
//! |------|--------------|
//! | `check` | what is wrong: sessions, logs, ties |
//! | `repair` | making whole: sessions closed, index logs made again, what kills left removed |
//! | `compact` | one log in place of many |

use super::file::File;
use super::load::{self, Alive, Unclean, Why};
use super::marks::{self, Mark};
use super::place::{Place, put_new_as, remove_if_there};
use super::snapshot::{self, Snapshot};
use super::{Container, Reader};
use std::io::IoSlice;
use std::sync::Arc;
use thalweg_store::{Lease, OpenWrite, ReadObject, Store};
use thalweg_types::{Error, ErrorKind, Extent, Result};

mod check;
mod compact;
mod repair;

/// Bytes looked at, or copied, at a time.
const WINDOW: u64 = 4 << 20;
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
    /// A data log ends before what was published: the power went before all of it was durable, or the store lost it. `repair` accepts
    /// what is there when it is told to.
    Lost,
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
        matches!(self, Trouble::Died | Trouble::Open | Trouble::Idle | Trouble::Index | Trouble::Lost | Trouble::Stray)
    }
}

/// What a repair accepts as it is, beside what is known for sure: what known dead writers left.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Accept {
    /// Sessions of which it cannot be told whether their writers live. One that lives after all fails.
    pub open: bool,
    /// Logs of which the end is missing: what is whole of them is kept.
    pub lost: bool,
}

impl Accept {
    /// Nothing beside what is known for sure.
    pub const SURE: Accept = Accept { open: false, lost: false };
    /// Sessions that have not closed.
    pub const OPEN: Accept = Accept { open: true, lost: false };
    /// Everything.
    pub const ALL: Accept = Accept { open: true, lost: true };
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
    /// A repair left it as it is: it waits to be told to accept it.
    pub left: bool,
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
        self.findings.push(Finding { trouble, place: place.into(), words: words.into(), left: false });
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
            file.place.make_home()?;
            let mode = file.place.guard()?.map_or(0o666, |guard| guard.object());
            put_new_as(&**store, &format!("{folder}/{name}"), &bytes, mode)?;
        }
        for old in file.beside().iter().filter(|n| n.starts_with("x-") && **n != name) {
            remove_if_there(&**store, &format!("{folder}/{old}"))?;
        }
        file.look()?;
        Ok(bytes.len() as u64)
    }
}

/// Keeps others from removing and repairing sessions of a container, where its store can: `None` inside where it cannot. `None`
/// where another does so now and `wait` is not set.
pub fn alone(place: &Place, wait: bool) -> Result<Option<Option<Lease>>> {
    place.make_home()?;
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
            let why = if alive == Alive::No { Why::Dead } else { Why::Open };
            return Err(Unclean { session: mark.home.session, who, why }.unsettled());
        }
        file.look()?;
    }
    Ok(())
}

/// The sessions that the marks tell of now.
fn marks_of(place: &Place) -> Result<Vec<Mark>> {
    marks::read(&place.list()?)
}
