//! Handles of an open file.

use super::attributes::{self, StoredAttributes};
use super::file::File;
use super::guard::Guard;
use super::identity_of;
use super::place::{fresh, now};
use super::session::Session;
use std::io::IoSlice;
use std::sync::Arc;
use std::time::{Duration, Instant};
use thalweg_store::{Attributes, Change, Kind, Lease, Life, OpenWrite, ReadObject, WriteObject};
use thalweg_types::mutex::Mutex;
use thalweg_types::{Error, ErrorKind, Result};
use thalweg_view::View;

/// A file, open for reading.
pub struct Reader {
    pub file: Arc<File>,
    pub path: String,
}

impl Reader {
    fn named<T>(&self, outcome: Result<T>) -> Result<T> {
        outcome.map_err(|e| e.in_object(self.path.clone()))
    }
}

impl ReadObject for Reader {
    fn length(&self) -> Result<u64> {
        self.named(self.file.length())
    }

    fn read_at(&self, offset: u64, out: &mut [u8]) -> Result<usize> {
        self.named(self.file.read(offset, out))
    }

    fn read_view(&self, view: &Arc<View>, start: u64, out: &mut [u8]) -> Result<u64> {
        self.named(self.file.read_view(view, start, out))
    }

    fn stored_before(&self, offset: u64) -> Result<u64> {
        self.named(self.file.stored_before(offset))
    }

    fn at_hand(&self) -> u64 {
        self.file.at_hand()
    }

    fn life(&self) -> Result<Life> {
        let name = self.file.place.lease_object();
        if let Some(inline) = &self.file.place.inline {
            self.named(inline.look())?;
        }
        if !self.file.place.has_folder() {
            return Ok(Life::default());
        }
        match self.file.place.first().open_read(&name) {
            Ok(object) => self.named(object.life()),
            Err(e) if e.kind() == ErrorKind::NotFound => Ok(Life::default()),
            Err(e) => Err(e),
        }
    }
}

/// A file, open for writing.
pub struct Writer {
    pub file: Arc<File>,
    session: Mutex<Arc<Session>>,
    path: String,
    closed: bool,
    /// Attributes of a file that this handle made, while no other process changed them.
    new: Mutex<Option<New>>,
}

/// Attributes of a new file.
struct New {
    since: Instant,
    stored: StoredAttributes,
    /// Version and number of the attributes object; `None`: the stamp's.
    number: Option<(u64, u64)>,
}

/// How long the handle that created a file reports its attributes without a refresh.
const JUST_NOW: Duration = Duration::from_millis(100);

impl Writer {
    pub fn new(file: Arc<File>, writer: u32, path: &str) -> Writer {
        let session = Mutex::new(file.session(writer));
        Writer { file, session, path: path.into(), closed: false, new: Mutex::new(None) }
    }

    /// A handle of a new file, whose session may have begun.
    pub fn of_new(session: Arc<Session>, file: Arc<File>, path: &str) -> Writer {
        let new = New { since: Instant::now(), stored: StoredAttributes::of(&file.place.stamp), number: None };
        Writer { file, session: Mutex::new(session), path: path.into(), closed: false, new: Mutex::new(Some(new)) }
    }

    /// Calls with the file's attributes, if this handle made the file just now.
    fn with_new<T>(&self, call: impl FnOnce(&mut New) -> Result<T>) -> Result<T> {
        let mut new = self.new.lock();
        match new.as_mut().filter(|new| new.since.elapsed() < JUST_NOW && self.file.is_untouched()) {
            Some(new) => self.named(call(new)),
            None => Err(Error::new(ErrorKind::Unsupported, "a container is asked for attributes by its name")),
        }
    }

    /// The handle's session; a child that was forked begins one of its own.
    fn session(&self) -> Arc<Session> {
        self.file.belong();
        let mut session = self.session.lock();
        if session.is_left() {
            *session = self.file.session(session.home.writer);
        }
        session.clone()
    }

    fn named<T>(&self, outcome: Result<T>) -> Result<T> {
        outcome.map_err(|e| e.in_object(self.path.clone()))
    }
}

impl WriteObject for Writer {
    fn write_at(&self, offset: u64, pieces: &[IoSlice<'_>]) -> Result<()> {
        self.named(self.file.write(&self.session(), offset, pieces))
    }

    fn write_view(&self, view: &Arc<View>, start: u64, bytes: &[u8]) -> Result<()> {
        self.named(self.file.write_view(&self.session(), view, start, bytes))
    }

    fn append(&self, pieces: &[IoSlice<'_>]) -> Result<u64> {
        self.named(self.file.append(&self.session(), pieces))
    }

    fn length(&self) -> Result<u64> {
        self.named(self.file.length())
    }

    fn read_at(&self, offset: u64, out: &mut [u8]) -> Result<usize> {
        self.named(self.file.read(offset, out))
    }

    fn read_view(&self, view: &Arc<View>, start: u64, out: &mut [u8]) -> Result<u64> {
        self.named(self.file.read_view(view, start, out))
    }

    fn stored_before(&self, offset: u64) -> Result<u64> {
        self.named(self.file.stored_before(offset))
    }

    fn truncate(&self, length: u64) -> Result<()> {
        self.named(self.file.cut(&self.session(), length))
    }

    fn punch(&self, offset: u64, length: u64) -> Result<()> {
        self.named(self.file.hole(&self.session(), offset, length))
    }

    fn will_write(&self) -> Result<()> {
        self.named(self.file.will_write(&self.session()))
    }

    fn order(&self) -> u64 {
        self.file.order()
    }

    fn order_from(&self, number: u64) {
        self.file.order_from(number);
    }

    fn sync(&self) -> Result<()> {
        self.named(self.file.sync(&self.session(), &self.path))
    }

    fn publish(&self) -> Result<()> {
        self.named(self.file.show(&self.session()))
    }

    fn close(mut self: Box<Self>) -> Result<()> {
        self.closed = true;
        self.named(self.file.close(&self.session()))
    }

    /// Only of a file that this handle made just now; others are asked by name.
    fn attributes(&self) -> Result<Attributes> {
        self.with_new(|new| {
            let length = self.file.length()?;
            Ok(new.stored.told(Kind::File, length, new.stored.mtime, 1, identity_of(&self.file)))
        })
    }

    fn set_attributes(&self, change: &Change) -> Result<()> {
        self.with_new(|new| {
            let place = &self.file.place;
            let locked = place.inline.as_ref().map(|inline| inline.lock()).transpose()?;
            let theirs = |name: &String| attributes::parse(name).is_some_and(|number| Some(number) != new.number);
            if place.inline.as_ref().is_some_and(|inline| inline.names().iter().any(theirs)) {
                return Err(Error::new(ErrorKind::Unsupported, "another changed the attributes of this file"));
            }
            let mut stored = new.stored.clone();
            stored.change(change, now());
            if (stored.mode, stored.uid, stored.gid) != (new.stored.mode, new.stored.uid, new.stored.gid) {
                place.put_guard(Guard::of(stored.mode, stored.uid, stored.gid), &self.path)?;
            }
            let number = (new.number.map_or(1, |(version, _)| version + 1), fresh());
            let old: Vec<String> = new.number.iter().map(|old| attributes::name(old.0, old.1)).collect();
            place.put_attributes(number, &stored, &old, locked.as_ref(), u64::MAX)?;
            locked.map_or(Ok(()), |locked| locked.close())?;
            new.number = Some(number);
            new.stored = stored;
            Ok(())
        })
    }

    fn lease(&self) -> Result<Option<Lease>> {
        let store = self.file.place.first();
        if !store.has_leases() {
            return Ok(None);
        }
        self.file.place.make_home()?;
        match store.open_write(&self.file.place.lease_object(), OpenWrite::Any) {
            // A store that never extends an object has no leases.
            Err(e) if e.kind() == ErrorKind::Unsupported => Ok(None),
            object => object?.lease(),
        }
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        if !self.closed {
            // No caller to report to: `check` finds an unpublished session.
            let _ = self.file.close(&self.session());
        }
    }
}
