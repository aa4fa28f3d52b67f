//! The object of a file's name as one process has it open: the stamp, and the records behind it ([`tail`](super::tail)).
//!
//! | question | answer |
//! |----------|--------|
//! | which object | the opened one: renames, removals and replacements of the name have no effect |
//! | readers  | take no lock. A refresh requests the length and reads the new bytes |
//! | adding   | locks the object ([`WriteObject::lock`]), refreshes, truncates incomplete bytes of a dead writer after the last complete record, and writes all records in one operation |
//! | sessions | at most one open session is here: the one that leases the object ([`WriteObject::lease`]) |
//! | failed writes | are truncated. If that fails, incomplete records are ignored and complete ones count |
//! | a fork   | child and parent share open objects and their locks: the object is opened again for a lock or a query of leases |
//! | a close  | may report a failed write: each addition opens the object and closes it |
//! | memory   | all records, for each open file |

use super::stamp::Stamp;
use super::tail::{MOST, Record, Tail};
use std::cell::Cell;
use std::io::IoSlice;
use std::sync::{Arc, MutexGuard, OnceLock};
use std::time::Duration;
use thalweg_store::{Attributes, Change, Lease, Life, OpenWrite, ReadObject, Store, WriteObject};
use thalweg_types::mutex::Mutex;
use thalweg_types::{Error, ErrorKind, Result};

/// How often bytes with a wrong checksum are read again: a writer may be writing them.
const TRIES: u32 = 4;

/// An open inline object; see the module's page.
pub struct InlineObject {
    number: u128,
    names: Arc<dyn Store>,
    /// The name that the object had when it was opened.
    path: String,
    open: OnceLock<Object>,
    tail: Mutex<Tail>,
}

/// The object, open for reading or for writing.
enum Object {
    Reading(Box<dyn ReadObject>),
    /// Created by this process.
    Writing(Arc<dyn WriteObject>),
}

/// The stamp of a file, and its inline object.
pub struct Opened {
    pub stamp: Stamp,
    /// `None` for stamps that no records can follow.
    pub inline: Option<InlineObject>,
}

/// Reads all bytes of the object of a file's name.
///
/// - `length`: the object's current length.
pub fn read(object: &dyn ReadObject, length: u64) -> Result<Vec<u8>> {
    if length > MOST {
        return Err(Error::new(ErrorKind::Corrupt, format!("this is no file of layout \"container\": {length} bytes")));
    }
    let mut bytes = vec![0; length as usize];
    let got = object.read_at(0, &mut bytes)?;
    bytes.truncate(got);
    Ok(bytes)
}

impl Opened {
    /// - `bytes`: all bytes of the object.
    pub fn new(
        names: &Arc<dyn Store>,
        path: &str,
        object: Option<Box<dyn ReadObject>>,
        bytes: &[u8],
    ) -> Result<Opened> {
        let (stamp, length) = Stamp::decode_first(bytes)?;
        if !stamp.tail {
            return Ok(Opened { stamp, inline: None });
        }
        let open = OnceLock::new();
        if let Some(object) = object {
            let _ = open.set(Object::Reading(object));
        }
        let tail = Mutex::new(Tail::new(stamp.container, length as u64));
        let inline = InlineObject { number: stamp.container, names: names.clone(), path: path.into(), open, tail };
        // Records with a wrong checksum are read once more.
        if inline.tail().extend(&bytes[length..]).is_err() {
            inline.look()?;
        }
        Ok(Opened { stamp, inline: Some(inline) })
    }
}

impl InlineObject {
    /// An object that this process creates, with only the stamp so far.
    ///
    /// - `start`: length of the stamp in bytes.
    pub fn of_new(
        number: u128,
        names: &Arc<dyn Store>,
        path: &str,
        object: Arc<dyn WriteObject>,
        start: u64,
    ) -> InlineObject {
        let open = OnceLock::new();
        let _ = open.set(Object::Writing(object));
        InlineObject {
            number,
            names: names.clone(),
            path: path.into(),
            open,
            tail: Mutex::new(Tail::new(number, start)),
        }
    }

    /// Applies the record that was written together with the stamp.
    pub fn made(&self, record: Record, length: u64) {
        self.tail().wrote(vec![record], length);
    }

    fn tail(&self) -> MutexGuard<'_, Tail> {
        self.tail.lock()
    }

    /// The object; opened by its name if this process only received its bytes from another rank.
    fn object(&self) -> Result<&Object> {
        if let Some(object) = self.open.get() {
            return Ok(object);
        }
        let object = self.names.open_read(&self.path)?;
        let bytes = read(&*object, object.length()?)?;
        let (stamp, length) = Stamp::decode_first(&bytes)?;
        if stamp.container != self.number {
            let what = "the container of this file is gone: its name leads to another";
            return Err(Error::new(ErrorKind::Io, what).in_object(self.path.clone()));
        }
        let mut known = Tail::new(self.number, length as u64);
        known.extend(&bytes[length..])?;
        let mut tail = self.tail();
        // The other rank's copy has other offsets.
        let opened = self.open.get_or_init(|| {
            *tail = known;
            Object::Reading(object)
        });
        Ok(opened)
    }

    /// Reads added records.
    ///
    /// # Errors
    /// `Corrupt` with the first byte of the damaged record; errors of the store.
    pub fn look(&self) -> Result<()> {
        let object = self.object()?;
        for tried in 1.. {
            let looked = match object {
                Object::Reading(object) => {
                    self.take(object.length()?, |at, out| object.read_at(at, out), &mut self.tail())
                }
                Object::Writing(object) => {
                    self.take(object.length()?, |at, out| object.read_at(at, out), &mut self.tail())
                }
            };
            match looked {
                Err(e) if e.kind() == ErrorKind::Corrupt && tried < TRIES => {
                    std::thread::sleep(Duration::from_millis(1));
                }
                outcome => return outcome.map_err(|e| e.in_object(self.path.clone())),
            }
        }
        Ok(())
    }

    /// Applies the records between the known end and this length of the object.
    fn take(&self, length: u64, read: impl Fn(u64, &mut [u8]) -> Result<usize>, tail: &mut Tail) -> Result<()> {
        // Incomplete bytes may be a whole record now, of the same length.
        if length == tail.end() {
            return Ok(());
        }
        if length > MOST {
            let what = "the inline data of this file exceeds the largest length";
            return Err(Error::new(ErrorKind::Corrupt, what).at_byte(length));
        }
        // A write that failed was cut off, and some of it was whole.
        let mut known = if length < tail.end() { tail.anew() } else { tail.clone() };
        let from = known.end();
        let mut bytes = vec![0; length.saturating_sub(from) as usize];
        let got = read(from, &mut bytes)?;
        known.extend(&bytes[..got])?;
        *tail = known;
        Ok(())
    }

    /// Whether the container has a folder, as of the last refresh.
    pub fn has_home(&self) -> bool {
        self.tail().has_home()
    }

    /// Names of the objects, as of the last refresh.
    pub fn names(&self) -> Vec<String> {
        self.tail().names().map(str::to_string).collect()
    }

    /// As [`InlineObject::names`]; `None` if the container has a folder, which may contain more objects.
    pub fn all_names(&self) -> Option<Vec<String>> {
        let tail = self.tail();
        (!tail.has_home()).then(|| tail.names().map(str::to_string).collect())
    }

    /// The bytes of an object, as of the last refresh.
    pub fn get(&self, name: &str) -> Option<Arc<Vec<u8>>> {
        self.tail().get(name).cloned()
    }

    /// The stamp and its records, as of the last refresh, for other ranks.
    pub fn bytes(&self, stamp: &Stamp) -> Vec<u8> {
        let mut out = stamp.encode();
        let tail = self.tail();
        for record in tail.records() {
            let at = out.len() as u64;
            record.encode(self.number, at, &mut out);
        }
        out
    }

    /// Number of bytes after the stamp, as of the last refresh.
    pub fn length(&self) -> u64 {
        self.tail().length()
    }

    /// End of the last complete record, as of the last refresh.
    pub fn end(&self) -> u64 {
        self.tail().end()
    }

    /// Whether an inline session leases the object.
    pub fn life(&self) -> Result<Life> {
        match self.object()? {
            Object::Reading(object) => object.life(),
            Object::Writing(object) => object.reopen()?.life(),
        }
    }

    /// The object's attributes in the store.
    pub fn attributes(&self) -> Result<Attributes> {
        match self.object()? {
            Object::Reading(object) => object.attributes(),
            Object::Writing(object) => object.attributes(),
        }
    }

    /// Changes mode and owner of the object.
    pub fn set_attributes(&self, change: &Change) -> Result<()> {
        self.reopen()?.set_attributes(change)
    }

    /// Makes the stamp and all records durable.
    pub fn sync(&self) -> Result<()> {
        self.reopen()?.sync()
    }

    fn reopen(&self) -> Result<Box<dyn WriteObject>> {
        let again = match self.object()? {
            Object::Reading(object) => object.reopen(),
            Object::Writing(object) => object.reopen(),
        };
        match again {
            // The system shows this process no descriptors: by the name, where that still leads here.
            Err(e) if e.kind() == ErrorKind::NotFound => {
                let object = self.names.open_write(&self.path, OpenWrite::Existing)?;
                let mut head = vec![0; 1 << 16];
                let got = object.read_at(0, &mut head)?;
                match Stamp::decode(&head[..got]) {
                    Ok(stamp) if stamp.container == self.number => Ok(object),
                    _ => Err(e),
                }
            }
            again => again,
        }
    }

    /// Locks the object against other writers and refreshes.
    pub fn lock(&self) -> Result<Locked<'_>> {
        let object = self.reopen()?;
        let lock = object.lock(true)?;
        let length = object.length()?;
        self.take(length, |at, out| object.read_at(at, out), &mut self.tail())
            .map_err(|e| e.in_object(self.path.clone()))?;
        Ok(Locked { inline: self, object, length: Cell::new(length), lock })
    }
}

/// An inline object, locked against other writers.
pub struct Locked<'a> {
    inline: &'a InlineObject,
    object: Box<dyn WriteObject>,
    /// Length of the object, incomplete bytes included.
    length: Cell<u64>,
    lock: Option<Lease>,
}

impl Locked<'_> {
    /// Adds records, all or none if the store can, and unlocks the object.
    ///
    /// # Errors
    /// Errors of the store; the next refresh shows which records were written.
    pub fn add(self, records: Vec<Record>) -> Result<()> {
        self.add_and_keep(records)?;
        self.close()
    }

    /// Reserves space for later records.
    ///
    /// # Errors
    /// `NoSpace`.
    pub fn reserve(&self, bytes: u64) -> Result<()> {
        let reserved = self.object.reserve(self.inline.end(), bytes);
        reserved.map_err(|e| e.in_object(self.inline.path.clone()))
    }

    /// Frees reserved space that is not used.
    pub fn give_back(&self) -> Result<()> {
        let end = self.inline.end();
        self.object.truncate(end).map_err(|e| e.in_object(self.inline.path.clone()))
    }

    /// Unlocks the object.
    ///
    /// # Errors
    /// A write error that the store reports at close.
    pub fn close(self) -> Result<()> {
        let Locked { inline, object, lock, .. } = self;
        drop(lock);
        object.close().map_err(|e| e.in_object(inline.path.clone()))
    }

    /// As [`Locked::add`], but the object stays locked until [`Locked::close`].
    pub fn add_and_keep(&self, records: Vec<Record>) -> Result<()> {
        let (mut tail, number) = (self.inline.tail(), self.inline.number);
        let at = tail.end();
        let mut bytes = Vec::new();
        for record in &records {
            let at = at + bytes.len() as u64;
            record.encode(number, at, &mut bytes);
        }
        // Incomplete bytes of a dead writer or a failed write.
        let cut = match self.length.get() > at {
            true => self.object.truncate(at),
            false => Ok(()),
        };
        let written = cut.and_then(|()| {
            let written = self.object.write_at(at, &[IoSlice::new(&bytes)]);
            // A failed write is truncated; if that fails, the next addition truncates it.
            written.inspect_err(|_| drop(self.object.truncate(at)))
        });
        self.length.set(if written.is_ok() { at + bytes.len() as u64 } else { u64::MAX });
        written.map_err(|e| e.in_object(self.inline.path.clone()))?;
        tail.wrote(records, bytes.len() as u64);
        Ok(())
    }

    /// Leases the object for a session that begins. `None` if it cannot be leased.
    pub fn lease(&self) -> Option<(Arc<dyn WriteObject>, Lease)> {
        let object: Arc<dyn WriteObject> = self.object.reopen().ok()?.into();
        let lease = object.lease().ok().flatten()?;
        Some((object, lease))
    }
}
