//! Open files of the write-behind layout.

use super::looks::ReaderBelow;
use super::{Owner, Promise};
use crate::{Attributes, Change, Lease, Life, ReadObject, WriteObject};
use std::io::IoSlice;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use thalweg_types::Result;
use thalweg_types::mutex::Mutex;

/// Open for writing.
pub(super) struct HeldWriter {
    owner: Arc<Owner>,
    file: u64,
    promise: Promise,
    closed: AtomicBool,
}

impl HeldWriter {
    pub(super) fn new(owner: Arc<Owner>, file: u64, promise: Promise) -> HeldWriter {
        HeldWriter { owner, file, promise, closed: AtomicBool::new(false) }
    }

    fn waits(&self) -> bool {
        self.promise == Promise::Stored
    }
}

impl WriteObject for HeldWriter {
    fn write_at(&self, offset: u64, pieces: &[IoSlice<'_>]) -> Result<()> {
        self.owner.queue.write(self.file, Some(offset), pieces).map(drop)
    }

    /// Appends of all handles get places behind each other.
    fn append(&self, pieces: &[IoSlice<'_>]) -> Result<u64> {
        self.owner.queue.write(self.file, None, pieces)
    }

    fn length(&self) -> Result<u64> {
        self.owner.queue.length(self.file)
    }

    fn read_at(&self, offset: u64, out: &mut [u8]) -> Result<usize> {
        self.owner.queue.read(self.file, offset, out, None)
    }

    fn truncate(&self, length: u64) -> Result<()> {
        self.owner.queue.truncate(self.file, length)
    }

    fn punch(&self, offset: u64, length: u64) -> Result<()> {
        self.owner.queue.forget_time_of(self.file);
        self.owner.queue.call(self.file, move |object| object.punch(offset, length))
    }

    fn sync(&self) -> Result<()> {
        self.owner.queue.call(self.file, |object| object.sync())
    }

    fn publish(&self) -> Result<()> {
        self.owner.queue.publish(self.file, self.waits())
    }

    fn close(self: Box<Self>) -> Result<()> {
        self.closed.store(true, Ordering::Relaxed);
        self.owner.queue.close(self.file, self.waits())
    }

    /// Ends for those who see the layout below when what was written before has reached it.
    fn lease(&self) -> Result<Option<Lease>> {
        let taken = self.owner.queue.lease(self.file)?;
        Ok(taken.then(|| Lease::new(HeldLease { owner: self.owner.clone(), file: self.file })))
    }

    fn life(&self) -> Result<Life> {
        self.owner.queue.life(self.file, None)
    }

    fn attributes(&self) -> Result<Attributes> {
        self.owner.queue.attributes_of(self.file)
    }

    fn set_attributes(&self, change: &Change) -> Result<()> {
        let own = *change;
        let set = self.owner.queue.call(self.file, move |object| object.set_attributes(&own));
        if change.mtime.is_some() {
            self.owner.queue.forget_time_of(self.file);
        }
        set
    }
}

/// A lease of a program.
struct HeldLease {
    owner: Arc<Owner>,
    file: u64,
}

impl Drop for HeldLease {
    fn drop(&mut self) {
        self.owner.queue.release(self.file);
    }
}

impl Drop for HeldWriter {
    fn drop(&mut self) {
        if !self.closed.load(Ordering::Relaxed) {
            // As after the end of a program: what was written stays written.
            self.owner.queue.leave(self.file);
        }
    }
}

/// Open for reading.
pub(super) struct HeldReader {
    owner: Arc<Owner>,
    file: u64,
    path: String,
    below: Mutex<ReaderBelow>,
}

impl HeldReader {
    pub(super) fn new(owner: Arc<Owner>, file: u64, path: &str, below: ReaderBelow) -> HeldReader {
        HeldReader { owner, file, path: path.to_string(), below: Mutex::new(below) }
    }
}

impl ReadObject for HeldReader {
    fn length(&self) -> Result<u64> {
        self.owner.queue.length_read(self.file, &self.path, &mut self.below.lock())
    }

    fn read_at(&self, offset: u64, out: &mut [u8]) -> Result<usize> {
        self.owner.queue.read(self.file, offset, out, Some((&self.path, &mut self.below.lock())))
    }

    fn life(&self) -> Result<Life> {
        self.owner.queue.life(self.file, Some((&self.path, &mut self.below.lock())))
    }
}

impl Drop for HeldReader {
    fn drop(&mut self) {
        self.owner.queue.close_reader(self.file);
    }
}
