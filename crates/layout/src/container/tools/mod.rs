//! Maintenance of containers: inspect, flatten, compact, check, repair.
//!
//! | call | does | needs |
//! |------|------|-------|
//! | [`Container::map`] | returns the locations of a file's bytes | nothing |
//! | [`Container::about`] | sessions, bytes, index, memory | nothing |
//! | [`Container::flatten`] | copies a file to a plain object | no open writer |
//! | [`Container::snapshot`] | writes the index of all sessions into one object | no open writer |
//! | [`Container::compact`] | writes a file's live bytes into one log and removes the others | no open writer; a writer that begins meanwhile ends the compaction, or waits |
//! | [`Container::check`] | reads everything, reports damage | nothing |
//! | [`Container::repair`] | closes sessions of dead writers, rebuilds index logs | nothing: sessions of living writers are left alone |
//! | [`Container::nameless`] | finds and removes containers without a name | nothing: containers that are open, young or in doubt are left |
//!
//! | room | what it owns |
//! |------|--------------|
//! | `report` | kinds of damage, findings, what a repair may accept |
//! | `check` | damage of sessions and logs, ties |
//! | `repair` | sessions of dead writers closed, index logs rebuilt, leftovers removed |
//! | `nameless` | containers without a name |
//! | `compact` | one log in place of many |

use super::file::File;
use super::load::{self, Alive, Unclean, Why};
use super::marks::{self, Mark};
use super::objects::{put_new_as, remove_if_there};
use super::place::Place;
use super::snapshot::{self, Snapshot};
use super::{Container, Reader};
use std::io::IoSlice;
use std::sync::Arc;
use thalweg_store::{Lease, OpenWrite, ReadObject, Store};
use thalweg_types::{Error, ErrorKind, Extent, Result, holes};

mod check;
mod compact;
mod nameless;
mod repair;
mod report;

pub use compact::Compacted;
pub use nameless::Nameless;
pub use report::{Accept, Finding, Report, Trouble};

/// Bytes read or copied at a time.
const WINDOW: u64 = 4 << 20;

/// A range of a file and its location.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mapped {
    /// Bytes of the logical file.
    pub extent: Extent,
    /// The location; `None` for bytes that were never written.
    pub at: Option<At>,
}

/// Location of bytes of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct At {
    /// The data log, with its store.
    pub object: String,
    /// Offset in it; `None` for a punched hole.
    pub byte: Option<u64>,
    /// Writer number.
    pub writer: u32,
    /// Its session.
    pub session: u64,
    /// The container's clock at the write.
    pub clock: u64,
}

/// A file's stores, sessions and index.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct About {
    /// The container's number.
    pub container: u128,
    /// Its index module.
    pub module: &'static str,
    /// Names of its stores, as in the mount table when the file was made.
    pub stores: Vec<String>,
    /// Length of the file.
    pub length: u64,
    /// Number of sessions.
    pub sessions: usize,
    /// Sessions that are not closed.
    pub open: usize,
    /// Bytes written, overwritten bytes included.
    pub written: u64,
    /// Bytes of index logs.
    pub index_bytes: u64,
    /// Entries of the open file's index.
    pub entries: u64,
    /// Memory of that index, in bytes.
    pub memory: usize,
    /// Highest published clock.
    pub clock: u64,
}

impl Container {
    fn opened(&self, path: &str, what: &str) -> Result<(Arc<File>, String)> {
        let path = self.store_name(path, what)?;
        Ok((self.look(&path)?, path))
    }

    /// The locations of a file's bytes from byte `from` to byte `to`, in order and without gaps.
    ///
    /// # Errors
    /// Errors of opening a file for reading.
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
            let (stop, found) = file.with_index(|index| {
                // A hole of any length is one range, or as many as were punched.
                let stop = end.min(index.recorded_after(at, end)?.max(at + 64 * WINDOW));
                let pieces = index.resolve(at, stop)?;
                Ok((stop, pieces.iter().map(|p| (*p, index.source_of(p).clone(), index.clock(p))).collect::<Vec<_>>()))
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

    /// A file's stores, sessions and index.
    ///
    /// # Errors
    /// Errors of opening a file for reading.
    /// # Cost
    /// Loads the file's index.
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

    /// Succeeds if no process has an open session: everything that was written is published.
    ///
    /// # Errors
    /// `NotReady` naming a writer that has not closed, `Torn` one that died.
    pub fn settled(&self, path: &str) -> Result<()> {
        let (file, path) = self.opened(path, "look at")?;
        settled(&file).map_err(|e| e.in_object(path))
    }

    /// Copies a file to a plain object, front to back, durable at the end. Returns its length. Holes stay holes where the store writes
    /// at any offset and truncates.
    ///
    /// # Errors
    /// `NotReady` or `Torn` if a writer has not closed; `AlreadyExists` if there is an object of this name; errors of
    /// reading, after which the object is removed.
    pub fn flatten(&self, path: &str, to: &dyn Store, name: &str) -> Result<u64> {
        let (file, path) = self.opened(path, "flatten")?;
        settled(&file).map_err(|e| e.in_object(path.clone()))?;
        let reader = Reader { file, path };
        let object = to.open_write(name, OpenWrite::New)?;
        let copied = (|| {
            let length = reader.length()?;
            let mut bytes = vec![0; WINDOW.min(length) as usize];
            let (can, mut at) = (to.capability(), 0);
            while at < length {
                if can.write_at && can.truncate {
                    // Gaps are no holes while bytes may be missing.
                    let next = holes::stored_after(at, length, |offset| reader.stored_before(offset))?;
                    if next == length {
                        object.truncate(length)?;
                        break;
                    }
                    at = next;
                }
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

    /// Writes the content of all index logs into one object, which opens faster. Returns its bytes.
    ///
    /// # Errors
    /// `Torn` or `NotReady` if a writer has not closed.
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

/// Locks a container's maintenance (repair, compaction, removal of sessions). `Some(None)` where the store has no locks; `None` where
/// another process holds the lock and `wait` is not set.
///
/// # Errors
/// Errors of the store. Without `wait`, a lock that the store refuses as `PermissionDenied` gives `None` instead.
pub fn alone(place: &Place, wait: bool) -> Result<Option<Option<Lease>>> {
    place.make_home()?;
    match place.first().lock(&upkeep(place), wait) {
        Err(e) if e.kind() == ErrorKind::Unsupported => Ok(Some(None)),
        // Another user's container.
        Err(e) if e.kind() == ErrorKind::PermissionDenied && !wait => Ok(None),
        outcome => Ok(outcome?.map(Some)),
    }
}

/// Name of the object that maintenance locks.
fn upkeep(place: &Place) -> String {
    format!("{}/upkeep", place.folder())
}

/// An error if a session is open.
fn settled(file: &File) -> Result<()> {
    if file.is_written() {
        return Err(Error::new(ErrorKind::NotReady, "this process has not closed the file"));
    }
    // A session that is just closing is checked again.
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

/// The sessions, by a fresh list of marks.
fn marks_of(place: &Place) -> Result<Vec<Mark>> {
    marks::read(&place.list()?)
}
