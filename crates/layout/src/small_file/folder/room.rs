//! Room for records on a full store: reserved before a program is told that its bytes were taken, or given by the spare log.

use super::{Folder, Inner};
use crate::small_file::log::{self, Writer};
use std::sync::atomic::Ordering;
use thalweg_types::{Error, ErrorKind, Result};

impl Folder {
    /// Sees to it that `bytes` of records can be put beside those that are promised.
    ///
    /// # Errors
    /// `NoSpace`.
    pub fn room(&self, inner: &mut Inner, bytes: u64) -> Result<()> {
        if !self.store.capability().write_at {
            return Ok(());
        }
        let all = self.promised.load(Ordering::Relaxed).saturating_add(bytes);
        if inner.writer.as_ref().is_some_and(|w| w.of_spare && w.usable()) {
            // The spare is for others. Is there room again?
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

    /// As [`Folder::room`]; the room is kept until [`Folder::kept_promise`].
    pub fn promise(&self, inner: &mut Inner, bytes: u64) -> Result<()> {
        self.room(inner, bytes)?;
        self.promised.fetch_add(bytes, Ordering::Relaxed);
        Ok(())
    }

    /// Bytes that were promised are recorded, or will not be.
    pub fn kept_promise(&self, bytes: u64) {
        self.promised.fetch_sub(bytes, Ordering::Relaxed);
    }

    /// A new log in the hidden folder `place`, of the spare where that is asked for and there is one.
    pub fn new_log(&self, place: &str, spare: bool) -> Result<Writer> {
        match if spare { self.spare.take(place)? } else { None } {
            Some(writer) => Ok(writer),
            None => Writer::new(self.store.clone(), place),
        }
    }

    /// Where there was no room for a record: the spare becomes this process's log.
    ///
    /// - `why`: what there was, for a store without a spare.
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

    /// A log that was made of the spare has ended.
    pub fn spare_again(&self) {
        self.spare.again();
    }
}
