//! Records that only one process may make: a name that is created exclusively, a change that holds only if no other process
//! changed the same name.
//!
//! Every process first records its intent, then reads the other logs: of two that intend the same, at least one sees the other.

use super::{Folder, Inner};
use crate::errno;
use crate::small_file::fresh;
use crate::small_file::record::{self, Change, Stamp};
use rustix::io::Errno;
use std::collections::HashMap;
use std::time::{Duration, Instant};
use thalweg_types::Result;

/// How long a compaction waits for the changes that other processes intend.
const PATIENCE: Duration = Duration::from_secs(5);

impl Folder {
    /// Records a new name exclusively: at most one process succeeds, if the store shows bytes immediately.
    ///
    /// # Errors
    /// `AlreadyExists` if another process was first; `EBUSY` if no process could complete; errors of the store.
    pub fn record_new(&self, inner: &mut Inner, name: &str, change: Change) -> Result<()> {
        if !self.store.capability().write_at {
            return self.record(inner, vec![change], &[]).map(drop);
        }
        // Room for up to three records with the extended attributes or the link's target.
        let more = change.more.as_ref().map_or(0, |more| more.bytes() + more.target.as_ref().map_or(0, String::len));
        self.room(inner, (3 * (record::MOST_OF_CHANGE + name.len()) + more) as u64)?;
        match self.alone(inner, vec![change], &[], &|inner| inner.file(name).is_some())? {
            Some(_) => Ok(()),
            None => Err(errno::failure(Errno::EXIST, "make", name)),
        }
    }

    /// Records changes in one record, valid only if no other process changed the first one's name meanwhile: `None`, and nothing
    /// recorded, if `comes_late`. Exact if the store shows bytes immediately.
    ///
    /// # Cost
    /// Two records and a look at the bell, also where no other process is known: one may begin to write between look and record.
    pub fn record_alone(
        &self,
        inner: &mut Inner,
        changes: Vec<Change>,
        data: &[u8],
        comes_late: &dyn Fn(&Inner) -> bool,
    ) -> Result<Option<Stamp>> {
        if !self.store.capability().write_at {
            return self.record(inner, changes, data).map(Some);
        }
        self.alone(inner, changes, data, comes_late)
    }

    /// Whether other processes have written in this folder while this one did, as far as that is known.
    pub fn is_shared(&self, inner: &mut Inner) -> bool {
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

    /// Waits until each process that intended a change when this was called has made or withdrawn it, or has died; `false` after
    /// [`PATIENCE`].
    pub fn wait_for_intents(&self) -> Result<bool> {
        let intended = |inner: &Inner| -> HashMap<u64, u64> {
            let live = inner.known.iter().filter(|(_, log)| log.live && log.intends.is_some());
            live.map(|(number, log)| (*number, log.position.at)).collect()
        };
        let mut waited = intended(&*self.fresh()?);
        let end = Instant::now() + PATIENCE;
        while !waited.is_empty() {
            let inner = self.fresh()?;
            let now = intended(&inner);
            waited.retain(|number, at| now.get(number) == Some(at));
            for number in waited.keys().copied().collect::<Vec<_>>() {
                if inner.known.get(&number).map(|log| log.object.life()).transpose()?.and_then(|life| life.leased)
                    == Some(false)
                {
                    waited.remove(&number);
                }
            }
            if Instant::now() > end {
                return Ok(waited.is_empty());
            }
            drop(inner);
            if !waited.is_empty() {
                std::thread::sleep(Duration::from_millis(1));
            }
        }
        Ok(true)
    }

    fn alone(
        &self,
        inner: &mut Inner,
        changes: Vec<Change>,
        data: &[u8],
        comes_late: &dyn Fn(&Inner) -> bool,
    ) -> Result<Option<Stamp>> {
        let outcome = self.try_alone(inner, changes, data, comes_late);
        // An intent that stays after a failure would keep all other processes from changing the file while this one lives.
        if outcome.is_err() && self.record(inner, Vec::new(), &[]).is_err() {
            // Without this log's lease, its process counts as dead.
            inner.writer = None;
        }
        outcome
    }

    fn try_alone(
        &self,
        inner: &mut Inner,
        changes: Vec<Change>,
        data: &[u8],
        comes_late: &dyn Fn(&Inner) -> bool,
    ) -> Result<Option<Stamp>> {
        let name = changes.first().map_or_else(String::new, |change| change.name.clone());
        let intent = Change::of(&name);
        for _ in 0..500 {
            if comes_late(inner) {
                return Ok(None);
            }
            // All processes record their intent before they read, so of two at least one sees the other.
            self.record(inner, vec![intent.clone()], &[])?;
            let told_in = inner.writer.as_ref().map(|writer| writer.number);
            self.refresh(inner)?;
            if inner.writer.as_ref().map(|writer| writer.number) != told_in {
                // The refresh ended this process's log, and the intent with it.
                continue;
            }
            let rivals = Folder::has_rivals(inner, &name)?;
            let late = comes_late(inner);
            if !rivals && !late {
                return self.record(inner, changes, data).map(Some);
            }
            self.record(inner, Vec::new(), &[])?;
            if !late {
                // Withdrawn; the next attempt follows after a random pause.
                std::thread::sleep(Duration::from_micros(fresh() % 5000));
                self.refresh(inner)?;
            }
        }
        Err(errno::failure(Errno::BUSY, "write a file that others are making or writing", &name))
    }
}
