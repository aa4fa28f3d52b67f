//! Handles of a file: what a program holds while it has it open.

use super::file::File;
use super::place::Place;
use super::session::Session;
use std::io::IoSlice;
use std::sync::Arc;
use thalweg_store::{Hold, Life, OpenWrite, ReadObject, WriteObject};
use thalweg_types::{ErrorKind, Result};

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

    fn life(&self) -> Result<Life> {
        let name = held(&self.file.place);
        match self.file.place.first().open_read(&name) {
            Ok(object) => self.named(object.life()),
            Err(e) if e.kind() == ErrorKind::NotFound => Ok(Life::default()),
            Err(e) => Err(e),
        }
    }
}

/// The object that those hold who hold the file.
fn held(place: &Place) -> String {
    format!("{}/held", place.folder())
}

/// A file, open for writing.
pub struct Writer {
    pub file: Arc<File>,
    session: Arc<Session>,
    path: String,
    closed: bool,
}

impl Writer {
    pub fn new(file: Arc<File>, writer: u32, path: &str) -> Writer {
        let session = file.session(writer);
        Writer { file, session, path: path.into(), closed: false }
    }

    fn named<T>(&self, outcome: Result<T>) -> Result<T> {
        outcome.map_err(|e| e.in_object(self.path.clone()))
    }
}

impl WriteObject for Writer {
    fn write_at(&self, offset: u64, pieces: &[IoSlice<'_>]) -> Result<()> {
        self.named(self.file.write(&self.session, offset, pieces))
    }

    fn append(&self, pieces: &[IoSlice<'_>]) -> Result<u64> {
        self.named(self.file.append(&self.session, pieces))
    }

    fn length(&self) -> Result<u64> {
        self.named(self.file.length())
    }

    fn read_at(&self, offset: u64, out: &mut [u8]) -> Result<usize> {
        self.named(self.file.read(offset, out))
    }

    fn truncate(&self, length: u64) -> Result<()> {
        self.named(self.file.cut(&self.session, length))
    }

    fn punch(&self, offset: u64, length: u64) -> Result<()> {
        self.named(self.file.hole(&self.session, offset, length))
    }

    fn sync(&self) -> Result<()> {
        self.named(self.file.sync(&self.session, &self.path))
    }

    fn publish(&self) -> Result<()> {
        self.named(self.file.show(&self.session))
    }

    fn close(mut self: Box<Self>) -> Result<()> {
        self.closed = true;
        self.named(self.file.close(&self.session))
    }

    fn hold(&self) -> Option<Hold> {
        let store = self.file.place.first();
        if !store.tells_holders() {
            return None;
        }
        store.open_write(&held(&self.file.place), OpenWrite::Any).ok()?.hold()
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        if !self.closed {
            // Nobody is there to be told; what is not published is found by `check`.
            let _ = self.file.close(&self.session);
        }
    }
}
