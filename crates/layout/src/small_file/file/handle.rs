//! Handles of a small file, which the layout returns from an open.

use super::Node;
use std::io::IoSlice;
use std::sync::Arc;
use thalweg_store::{ReadObject, WriteObject};
use thalweg_types::Result;

/// A file open for writing.
pub struct OpenToWrite(pub Arc<Node>);

/// A file open for reading.
pub struct OpenToRead(pub Arc<Node>);

impl WriteObject for OpenToWrite {
    fn write_at(&self, offset: u64, pieces: &[IoSlice<'_>]) -> Result<()> {
        self.0.write_at(offset, pieces)
    }

    fn append(&self, pieces: &[IoSlice<'_>]) -> Result<u64> {
        self.0.put(None, pieces)
    }

    fn length(&self) -> Result<u64> {
        self.0.length()
    }

    fn read_at(&self, offset: u64, out: &mut [u8]) -> Result<usize> {
        self.0.read_at(offset, out)
    }

    fn stored_before(&self, offset: u64) -> Result<u64> {
        self.0.stored_before(offset)
    }

    fn truncate(&self, length: u64) -> Result<()> {
        self.0.truncate(length)
    }

    fn punch(&self, offset: u64, length: u64) -> Result<()> {
        self.0.punch(offset, length)
    }

    fn sync(&self) -> Result<()> {
        self.0.sync()
    }

    fn publish(&self) -> Result<()> {
        self.0.publish()
    }

    fn close(self: Box<Self>) -> Result<()> {
        let closed = self.0.publish();
        self.last(&closed);
        let others = Arc::strong_count(&self.0) > 1;
        // The object of an unlinked file could not be opened again.
        let ends = self.0.is_linked() || !others;
        closed.and_then(|()| if ends { self.0.close_own(others) } else { Ok(()) })
    }
}

impl Drop for OpenToWrite {
    fn drop(&mut self) {
        // Nothing to do after a close. Without one, a failure cannot be reported.
        let outcome = self.0.publish();
        self.last(&outcome);
    }
}

impl OpenToWrite {
    /// Forgets a file that this process created and could not record, at its last close.
    fn last(&self, published: &Result<()>) {
        if published.is_err() && Arc::strong_count(&self.0) == 1 {
            self.0.give_up();
        }
    }
}

impl ReadObject for OpenToRead {
    fn length(&self) -> Result<u64> {
        self.0.length()
    }

    fn read_at(&self, offset: u64, out: &mut [u8]) -> Result<usize> {
        self.0.read_at(offset, out)
    }

    fn stored_before(&self, offset: u64) -> Result<u64> {
        self.0.stored_before(offset)
    }
}
