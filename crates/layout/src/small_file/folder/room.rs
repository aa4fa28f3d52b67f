//! Room for records on a full store: reserved before a write is accepted, or provided by the spare log.

use super::{Folder, Inner};
use crate::small_file::log::{self, Writer};
use std::sync::atomic::Ordering;
use thalweg_types::{Error, ErrorKind, Result};

impl Folder {
    /// Makes sure that `bytes` of records fit beside the reserved ones.
    ///
    /// # Errors
    /// `NoSpace`; other errors of the store.
    pub fn room(&self, inner: &mut Inner, bytes: u64) -> Result<()> {
        if !self.store.capability().write_at {
            return Ok(());
        }
        let all = self.promised.load(Ordering::Relaxed).saturating_add(bytes);
        if inner.writer.as_ref().is_some_and(|w| w.of_spare && w.usable()) {
            // The spare should be free for other processes: use an ordinary log if there is room again.
            let place = self.place(inner)?;
            let mut writer = Writer::new(self.store.clone(), &place)?;
            if let Err(e) = writer.find(all) {
                let name = format!("{place}/{}", log::data_name(writer.number));
                drop(writer);
                let _ = self.store.remove(&name);
                return Err(e);
            }
            self.retire(inner)?;
            inner.begin(writer);
        }
        self.writer(inner)?.find(all)
    }

    /// Like [`Folder::room`]; the room stays reserved until [`Folder::release_room`].
    pub fn promise(&self, inner: &mut Inner, bytes: u64) -> Result<()> {
        self.room(inner, bytes)?;
        self.promised.fetch_add(bytes, Ordering::Relaxed);
        Ok(())
    }

    /// Releases reserved bytes: they are recorded, or will not be.
    pub fn release_room(&self, bytes: u64) {
        self.promised.fetch_sub(bytes, Ordering::Relaxed);
    }

    /// A new log in the hidden folder `place`; made from the spare if `spare` and there is one.
    pub fn new_log(&self, place: &str, spare: bool) -> Result<Writer> {
        match if spare { self.spare.take(place)? } else { None } {
            Some(writer) => Ok(writer),
            None => Writer::new(self.store.clone(), place),
        }
    }

    /// If there was no room for a record: makes the spare this process's log.
    ///
    /// - `why`: the failure, which is returned if there is no spare.
    pub(super) fn take_spare(&self, inner: &mut Inner, why: Error) -> Result<()> {
        if why.kind() != ErrorKind::NoSpace {
            return Err(why);
        }
        let Ok(place) = self.place(inner) else { return Err(why) };
        let Some(writer) = self.spare.take(&place)? else { return Err(why) };
        let retired = self.retire(inner);
        inner.begin(writer);
        retired?;
        self.ring(inner)
    }

    /// Restores the spare after the log that was made from it has ended.
    pub fn spare_again(&self) {
        self.spare.again();
    }
}
