//! Removes the hidden folder of an empty folder, while other processes may create a file in it.

use super::bell::REMOVED;
use super::{Folder, Inner, hidden};
use crate::errno;
use crate::small_file::record::Content;
use rustix::io::Errno;
use std::io::IoSlice;
use thalweg_store::OpenWrite;
use thalweg_types::{ErrorKind, Result};

impl Folder {
    /// Removes the hidden folder of a folder without files, so that the folder itself can be removed.
    ///
    /// # Errors
    /// `InvalidArgument` (`ENOTEMPTY`) if there is a file, or another process has just created one; errors of the store.
    pub fn clear(&self) -> Result<()> {
        let mut inner = self.fresh()?;
        let empty = |inner: &Inner| inner.real.is_empty() && inner.names.values().all(|e| e.content == Content::Gone);
        let refused =
            |inner: &Inner| Err(errno::failure(Errno::NOTEMPTY, "remove a folder that is not empty", &inner.path));
        if !empty(&inner) || inner.open.values().any(|n| n.upgrade().is_some_and(|n| n.is_linked())) {
            return refused(&inner);
        }
        if !inner.hidden {
            return Ok(());
        }
        if !self.store.capability().write_at {
            return self.remove_hidden(&mut inner);
        }
        // From here on other processes wait before they rely on their own records; earlier records are visible now. The lease
        // keeps them from waiting for a dead process.
        let bell = self.store.open_write(&format!("{}bell", hidden(&inner.path)), OpenWrite::Any)?;
        let lease = bell.lease()?;
        // If the folder stays after all, the bell is rung.
        inner.unrung = true;
        let removed = (|| {
            bell.write_at(0, &[IoSlice::new(&REMOVED)])?;
            inner.bell = None;
            self.look(&mut inner)?;
            if empty(&inner) { self.remove_hidden(&mut inner) } else { refused(&inner) }
        })();
        drop((bell, lease));
        match removed {
            Ok(()) => inner.unrung = false,
            Err(_) => {
                let _ = self.ring(&mut inner);
            }
        }
        removed
    }

    fn remove_hidden(&self, inner: &mut Inner) -> Result<()> {
        let place = hidden(&inner.path);
        inner.writer = None;
        inner.known.clear();
        inner.names.clear();
        for name in self.store.list(place.trim_end_matches('/'))? {
            match self.store.remove(&format!("{place}{name}")) {
                Err(e) if e.kind() != ErrorKind::NotFound => return Err(e),
                _ => {}
            }
        }
        inner.hidden = false;
        self.store.remove(place.trim_end_matches('/'))
    }
}
