//! A file that a program has open: from `open` to `release`.
//!
//! `flush`, which the kernel sends at every `close(2)`, lets others see what was written: so the program is told of failures, and
//! others see the file when `close` returns.

use std::fs::File;
use std::io::IoSlice;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use thalweg_layout::errno::{self, Errno};
use thalweg_open_file::{Access, OpenFile};
use thalweg_types::Result;

/// A handle.
pub struct Open {
    /// The file's number.
    pub ino: u64,
    file: RwLock<Option<OpenFile>>,
    dirty: AtomicBool,
}

impl Open {
    /// Of this open file.
    pub fn new(ino: u64, file: OpenFile) -> Open {
        Open { ino, file: RwLock::new(Some(file)), dirty: AtomicBool::new(false) }
    }

    fn with<T>(&self, call: impl FnOnce(&OpenFile) -> Result<T>) -> Result<T> {
        match &*self.file.read().unwrap_or_else(PoisonError::into_inner) {
            Some(file) => call(file),
            None => Err(errno::failure(Errno::BADF, "use a file that was closed", "")),
        }
    }

    /// Of one that is closed meanwhile there is nothing to do: its close has done it.
    fn while_open(&self, call: impl FnOnce(&OpenFile) -> Result<()>) -> Result<()> {
        match &*self.file.read().unwrap_or_else(PoisonError::into_inner) {
            Some(file) => call(file),
            None => Ok(()),
        }
    }

    /// Bytes now.
    pub fn length(&self) -> Result<u64> {
        self.with(OpenFile::length)
    }

    /// Another descriptor of the file of this machine below, where this is open for writing and there is one.
    pub fn file(&self) -> Option<File> {
        self.with(|file| Ok(file.file().and_then(|file| file.try_clone().ok()))).ok().flatten()
    }

    /// Whether it can write.
    pub fn writes(&self) -> bool {
        self.with(|file| Ok(file.access().write)).unwrap_or(false)
    }

    /// Reads at an offset as much as there is.
    pub fn read_at(&self, offset: u64, out: &mut [u8]) -> Result<usize> {
        self.with(|file| file.read_at(offset, out))
    }

    /// Writes at an offset.
    pub fn write_at(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        self.dirty.store(true, Ordering::Release);
        self.with(|file| file.write_at(offset, &[IoSlice::new(bytes)]))
    }

    /// Cuts or extends.
    pub fn truncate(&self, length: u64) -> Result<()> {
        self.dirty.store(true, Ordering::Release);
        self.with(|file| file.truncate(length))
    }

    /// Makes what was written durable.
    pub fn sync(&self) -> Result<()> {
        self.with(OpenFile::sync)
    }

    /// Lets others see what was written.
    pub fn publish(&self) -> Result<()> {
        match self.dirty.swap(false, Ordering::AcqRel) {
            true => self.while_open(OpenFile::publish),
            false => Ok(()),
        }
    }

    /// Looks at what others closed or synced.
    pub fn refresh(&self) -> Result<()> {
        self.while_open(|file| match file.access().write {
            // So that what is written from now on comes behind what others wrote.
            true => file.publish(),
            false => file.refresh(),
        })
    }

    /// Closes all these handles and opens them again: of a file that shows what others wrote in no other way.
    pub fn renew(handles: &[Arc<Open>], open: impl Fn(Access) -> Result<OpenFile>) -> Result<()> {
        // Whoever uses one waits.
        let mut all: Vec<_> =
            handles.iter().map(|handle| handle.file.write().unwrap_or_else(PoisonError::into_inner)).collect();
        let accesses: Vec<_> = all.iter().map(|file| file.as_ref().map(|file| file.access().again())).collect();
        for file in all.iter_mut() {
            file.take().map_or(Ok(()), OpenFile::close)?;
        }
        for (file, access) in all.iter_mut().zip(accesses) {
            **file = access.map(&open).transpose()?;
        }
        Ok(())
    }

    /// Ends it.
    pub fn close(&self) -> Result<()> {
        let file = self.file.write().unwrap_or_else(PoisonError::into_inner).take();
        file.map_or(Ok(()), OpenFile::close)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use thalweg_layout::{Container, Layout, container::Options};
    use thalweg_store::Memory;

    #[test]
    fn what_was_written_is_seen_by_others_after_a_close_of_one_descriptor_and_the_other_goes_on() {
        let store = Arc::new(Memory::new());
        let layout = |store: &Arc<Memory>| -> Arc<dyn Layout> {
            Arc::new(Container::new(vec![store.clone()], Options::default()).unwrap())
        };
        let (ours, others) = (layout(&store), layout(&store));
        let access = Access { write: true, create: true, ..Access::READ };
        let file = OpenFile::open(&ours, "f", access, None, thalweg_open_file::writer()).unwrap();
        let open = Open::new(2, file);
        open.write_at(0, b"one").unwrap();
        let seen = |others: &Arc<dyn Layout>| others.stat("f").unwrap().length;
        assert_eq!(seen(&others), 0);
        open.publish().unwrap();
        assert_eq!(seen(&others), 3);
        open.write_at(3, b"two").unwrap();
        open.close().unwrap();
        assert_eq!(seen(&others), 6);
        assert_eq!(errno::of(&open.write_at(0, b"x").unwrap_err()), Errno::BADF.raw_os_error());
    }
}
