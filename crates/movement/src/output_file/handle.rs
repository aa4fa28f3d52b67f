//! A file that is open for an output, whose close errors are reported.
//!
//! | question | answer |
//! |---|---|
//! | why | a network filesystem, or one with a quota, may report only at close that earlier writes failed |
//! | when | a rank that writes process groups closes after the last byte, and before their index fragments count, so that the index never lists a group whose file could not be closed. The rank that keeps the index closes after the index, before the ranks agree on the outcome |
//! | who gets the error | all ranks, as of a failed write |
//! | cost | none: the file is closed once in any case |
//! | when close errors are ignored | for an output that was dropped or failed earlier; for an abandoned write of [`crate::method::adaptive::in_flight`] |

use std::io::IoSlice;
use thalweg_layout::{Lease, WriteObject};
use thalweg_types::mutex::RwLock;
use thalweg_types::{Error, ErrorKind, Result};

/// See the module's page.
pub struct Handle(RwLock<Option<Box<dyn WriteObject>>>);

impl From<Box<dyn WriteObject>> for Handle {
    fn from(object: Box<dyn WriteObject>) -> Handle {
        Handle(RwLock::new(Some(object)))
    }
}

fn closed() -> Error {
    Error::new(ErrorKind::InvalidArgument, "the file is closed")
}

impl Handle {
    /// Closes the file, after a sync if `sync` is set; does nothing if the file is closed.
    ///
    /// # Errors
    /// Errors of [`WriteObject::sync`] and [`WriteObject::close`]: bytes written through this handle may be lost. The file is
    /// closed nevertheless.
    pub fn end(&self, sync: bool) -> Result<()> {
        let object = self.0.write().take();
        let Some(object) = object else { return Ok(()) };
        if sync {
            object.sync()?;
        }
        object.close()
    }

    /// The file, if it is open.
    pub fn into_object(self) -> Option<Box<dyn WriteObject>> {
        self.0.into_inner()
    }

    /// Whether the file is open.
    pub fn is_open(&self) -> bool {
        self.0.read().is_some()
    }

    fn ask<T>(&self, what: impl FnOnce(&dyn WriteObject) -> Result<T>) -> Result<T> {
        let object = self.0.read();
        what(&**object.as_ref().ok_or_else(closed)?)
    }
}

impl WriteObject for Handle {
    fn write_at(&self, offset: u64, pieces: &[IoSlice<'_>]) -> Result<()> {
        self.ask(|object| object.write_at(offset, pieces))
    }

    fn append(&self, pieces: &[IoSlice<'_>]) -> Result<u64> {
        self.ask(|object| object.append(pieces))
    }

    fn reserve(&self, offset: u64, length: u64) -> Result<()> {
        self.ask(|object| object.reserve(offset, length))
    }

    fn length(&self) -> Result<u64> {
        self.ask(|object| object.length())
    }

    fn read_at(&self, offset: u64, out: &mut [u8]) -> Result<usize> {
        self.ask(|object| object.read_at(offset, out))
    }

    fn stored_before(&self, offset: u64) -> Result<u64> {
        self.ask(|object| object.stored_before(offset))
    }

    fn truncate(&self, length: u64) -> Result<()> {
        self.ask(|object| object.truncate(length))
    }

    fn punch(&self, offset: u64, length: u64) -> Result<()> {
        self.ask(|object| object.punch(offset, length))
    }

    fn sync(&self) -> Result<()> {
        self.ask(|object| object.sync())
    }

    fn publish(&self) -> Result<()> {
        self.ask(|object| object.publish())
    }

    fn will_write(&self) -> Result<()> {
        self.ask(|object| object.will_write())
    }

    fn close(self: Box<Self>) -> Result<()> {
        self.end(false)
    }

    fn lease(&self) -> Result<Option<Lease>> {
        self.ask(|object| object.lease())
    }

    fn is_file(&self) -> bool {
        self.ask(|object| Ok(object.is_file())).unwrap_or(false)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use thalweg_layout::OpenWrite;
    use thalweg_store::memory::Memory;
    use thalweg_store::wrap::{Failing, Fault, StoreCall};
    use thalweg_store::{Store, StoreExt};

    #[test]
    fn a_failing_close_is_told_once_and_nothing_can_be_written_afterwards() {
        let memory = Arc::new(Memory::new());
        let failing = Arc::new(Failing::new(memory.clone()));
        let handle = Handle::from(failing.open_write("x", OpenWrite::New).unwrap());
        handle.write_at(0, &[IoSlice::new(b"values")]).unwrap();
        assert!(handle.is_open());
        failing.fail(Fault::of(StoreCall::Close));
        assert_eq!(handle.end(true).unwrap_err().kind(), ErrorKind::Io);
        assert!(handle.end(true).is_ok() && !handle.is_open());
        assert_eq!(handle.write_at(6, &[IoSlice::new(b"more")]).unwrap_err().kind(), ErrorKind::InvalidArgument);
        assert_eq!(memory.read_all("x").unwrap(), b"values");
        assert!(handle.into_object().is_none());
    }
}
