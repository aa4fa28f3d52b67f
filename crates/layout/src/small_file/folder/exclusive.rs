//! Records that only one process may make: a name that is created exclusively, a change that holds only if no other process
//! changed the same name.
//!
//! Every process first records its intent, then reads the other logs: of two that intend the same, at least one sees the other.

use super::{Folder, Inner};
use crate::errno;
use crate::small_file::fresh;
use crate::small_file::record::{self, Change};
use rustix::io::Errno;
use std::time::Duration;
use thalweg_types::Result;

impl Folder {
    /// Records a new name exclusively: at most one process succeeds, if the store shows bytes immediately.
    ///
    /// # Errors
    /// `AlreadyExists` if another process was first; `EBUSY` if no process could complete; errors of the store.
    pub fn record_new(&self, inner: &mut Inner, name: &str, change: Change) -> Result<()> {
        if !self.store.capability().write_at {
            return self.record(inner, vec![change], &[]);
        }
        // Room for up to three records with the extended attributes or the link's target.
        let more = change.more.as_ref().map_or(0, |more| more.bytes() + more.target.as_ref().map_or(0, String::len));
        self.room(inner, (3 * (record::MOST_OF_CHANGE + name.len()) + more) as u64)?;
        match self.alone(inner, change, &[], &|inner| inner.file(name).is_some())? {
            true => Ok(()),
            false => Err(errno::failure(Errno::EXIST, "make", name)),
        }
    }

    /// Records a change that is valid only if no other process changed the same name: `false`, and nothing recorded, if
    /// `comes_late`. Exact if the store shows bytes immediately.
    pub fn record_alone(
        &self,
        inner: &mut Inner,
        change: Change,
        data: &[u8],
        comes_late: &dyn Fn(&Inner) -> bool,
    ) -> Result<bool> {
        if !self.is_shared(inner) {
            return self.record(inner, vec![change], data).map(|()| true);
        }
        self.alone(inner, change, data, comes_late)
    }

    /// Whether other processes have written in this folder while this one did, as far as that is known.
    pub(super) fn is_shared(&self, inner: &mut Inner) -> bool {
        inner.shared |= self.store.capability().write_at && inner.others().any(|known| known.live);
        inner.shared
    }

    /// Whether another living process has recorded an intent for this name.
    fn has_rivals(inner: &Inner, name: &str) -> Result<bool> {
        let mut rivals = false;
        for log in inner.others().filter(|k| k.live && k.intends.as_deref() == Some(name)) {
            rivals |= log.object.life()?.leased != Some(false);
        }
        Ok(rivals)
    }

    fn alone(
        &self,
        inner: &mut Inner,
        change: Change,
        data: &[u8],
        comes_late: &dyn Fn(&Inner) -> bool,
    ) -> Result<bool> {
        let intent = Change::of(&change.name);
        for _ in 0..500 {
            if comes_late(inner) {
                return Ok(false);
            }
            // All processes record their intent before they read, so of two at least one sees the other.
            self.record(inner, vec![intent.clone()], &[])?;
            let told_in = inner.writer.as_ref().map(|writer| writer.number);
            self.refresh(inner)?;
            if inner.writer.as_ref().map(|writer| writer.number) != told_in {
                // The refresh ended this process's log, and the intent with it.
                continue;
            }
            let rivals = Folder::has_rivals(inner, &change.name)?;
            let late = comes_late(inner);
            if !rivals && !late {
                return self.record(inner, vec![change], data).map(|()| true);
            }
            self.record(inner, Vec::new(), &[])?;
            if !late {
                // Withdrawn; the next attempt follows after a random pause.
                std::thread::sleep(Duration::from_micros(fresh() % 5000));
                self.refresh(inner)?;
            }
        }
        Err(errno::failure(Errno::BUSY, "write a file that others are making or writing", &change.name))
    }
}
