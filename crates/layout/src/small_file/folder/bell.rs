//! The bell of a folder: eight bytes that a process changes after it created, ended or removed a log, or changed other names in the
//! folder. Every other process reads the bell before it relies on what it knows.

use super::{Folder, Inner, hidden};
use crate::errno;
use crate::small_file::fresh;
use rustix::io::Errno;
use std::io::IoSlice;
use std::time::Duration;
use thalweg_store::{OpenWrite, Store, StoreExt};
use thalweg_types::{ErrorKind, Result};

/// Contents of the bell while the folder is being removed.
pub(super) const REMOVED: [u8; 8] = [0xff; 8];
/// Where leases are not seen, a process that has been removing a folder for longer counts as dead.
const LONGEST_REMOVAL: Duration = Duration::from_secs(60);

impl Folder {
    /// Whether the bell has not changed since the last refresh; `false` for a folder without a bell. No operation on names, except
    /// as in [`Folder::hear`].
    pub fn is_silent(&self) -> bool {
        let mut inner = self.lock();
        let heard = self.hear(&mut inner);
        heard.is_ok_and(|heard| heard.is_some_and(|(got, rung)| got == rung.len() && rung == inner.rung))
    }

    /// Reads the bell that was found at the last listing: how many bytes it has, and the bytes. `None` without a bell.
    ///
    /// # Cost
    /// One read. On a store that moves objects also one open, as an open bell may be an old copy that nobody rings any more.
    pub(super) fn hear(&self, inner: &mut Inner) -> Result<Option<(usize, [u8; 8])>> {
        if inner.bell.is_some() && self.store.capability().moves {
            inner.bell = match self.store.open_read(&format!("{}bell", hidden(&inner.path))) {
                Ok(bell) => Some(bell),
                Err(e) if e.kind() == ErrorKind::NotFound => None,
                Err(e) => return Err(e),
            };
        }
        let Some(bell) = &inner.bell else { return Ok(None) };
        let mut rung = [0; 8];
        let got = bell.read_at(0, &mut rung)?;
        Ok(Some((got, rung)))
    }

    /// Waits while another process removes the folder, or tries to.
    pub(super) fn wait_for_removal(&self, inner: &mut Inner) -> Result<()> {
        for _ in 0..200 {
            let name = format!("{}bell", hidden(&inner.path));
            match self.store.read_all(&name) {
                Ok(rung) if rung != REMOVED => return self.look(inner),
                Ok(_) => std::thread::sleep(Duration::from_millis(5)),
                // Removed; another folder may have the name now.
                Err(e) if e.kind() == ErrorKind::NotFound => return self.look(inner),
                Err(e) => return Err(e),
            }
        }
        let life = self.store.open_read(&format!("{}bell", hidden(&inner.path)))?.life()?;
        // A burst buffer shows no leases of an object that it has drained.
        let age = || life.modified.and_then(|at| at.elapsed().ok()).unwrap_or_default();
        if life.leased.map_or_else(|| age() > LONGEST_REMOVAL, |leased| !leased) {
            // The removing process has died, or failed.
            return self.ring(inner);
        }
        Err(errno::failure(Errno::NOENT, "use a folder that was removed", &inner.path))
    }

    /// Rings the bell: other processes list the folder again.
    pub fn ring(&self, inner: &mut Inner) -> Result<()> {
        if !inner.hidden || !self.store.capability().write_at {
            // Without a bell, every process lists the folder at each refresh.
            inner.unrung = false;
            return Ok(());
        }
        let mut rung = fresh().to_le_bytes();
        rung[7] &= 0x7f;
        inner.unrung = true;
        match self.ring_with(inner, rung) {
            // No room for a bell: without one, every process lists the folder at each refresh.
            Err(e) if e.kind() == ErrorKind::NoSpace => {}
            other => other.map(|()| inner.unrung = false)?,
        }
        // This ring may have replaced another one, whose change is visible now.
        self.look(inner)
    }

    /// Rings the bell of a folder that this process does not use; does nothing if it has none.
    pub fn ring_of(store: &dyn Store, path: &str) -> Result<()> {
        let mut rung = fresh().to_le_bytes();
        rung[7] &= 0x7f;
        match store.open_write(&format!("{}bell", hidden(path)), OpenWrite::Existing) {
            Ok(bell) => bell.write_at(0, &[IoSlice::new(&rung)]).and_then(|()| bell.close()),
            Err(e) if e.kind() == ErrorKind::NotFound => Ok(()),
            Err(e) => Err(e),
        }
    }

    pub(super) fn ring_with(&self, inner: &Inner, rung: [u8; 8]) -> Result<()> {
        let name = format!("{}bell", hidden(&inner.path));
        let bell = self.store.open_write(&name, OpenWrite::Any)?;
        let written = match bell.write_at(0, &[IoSlice::new(&rung)]) {
            Ok(()) => bell.close(),
            Err(e) => Err(e),
        };
        if written.as_ref().is_err_and(|e| e.kind() == ErrorKind::NoSpace) {
            // Stores that never overwrite in place need space for this, and some report a lack of space at the close. Other processes
            // may then still read the old ring. An empty bell makes every process list the folder.
            let bell = self.store.open_write(&name, OpenWrite::Existing)?;
            bell.truncate(0)?;
            bell.close()?;
        }
        written
    }
}
