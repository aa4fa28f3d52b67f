//! The spare: reserved room on a store for removing, renaming and changing names when the store is full.
//!
//! | question | answer |
//! |---|---|
//! | where    | the object `spare` in the hidden folder of the store's own folder: [`SPARE`] bytes of zeros; one for all folders and processes |
//! | created  | by the first process that begins a log, under a temporary name, then renamed: no process takes an incomplete spare |
//! | taken    | by a process that has no room for a record: one rename turns the spare into its log, whose records replace the zeros. One of several processes gets it |
//! | restored | when that log ends, it is truncated, and a new spare is created from the free room |
//! | used for | records that remove, rename or change a name, and accepted writes. New and growing files are refused earlier |
//! | needs    | a store that writes at any offset and renames atomically |

use super::folder::hidden;
use super::log::{Writer, data_name};
use std::io::IoSlice;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use thalweg_store::{OpenWrite, Rename, Store, StoreExt, fresh};
use thalweg_types::{ErrorKind, Result};

/// Bytes of the spare.
pub const SPARE: u64 = 128 << 10;
/// Bytes of the smallest useful spare.
const LEAST: u64 = 8 << 10;

/// The spare of a store. See the module's page.
pub struct Spare {
    store: Arc<dyn Store>,
    /// Whether this process has made sure that there is one.
    seen_to: AtomicBool,
}

fn name() -> String {
    format!("{}spare", hidden(""))
}

impl Spare {
    pub fn of(store: Arc<dyn Store>) -> Spare {
        Spare { store, seen_to: AtomicBool::new(false) }
    }

    fn possible(&self) -> bool {
        let can = self.store.capability();
        can.write_at && can.truncate && can.rename == Rename::Atomic
    }

    /// Creates the spare if there is none and there is room, once per process.
    pub fn see_to(&self) {
        if self.possible() && !self.seen_to.swap(true, Ordering::Relaxed) {
            // Stores without these capabilities have no spare.
            let _ = self.make();
        }
    }

    fn make(&self) -> Result<()> {
        if self.store.exists(&name())? {
            return Ok(());
        }
        let place = hidden("");
        match self.store.make_one_folder(place.trim_end_matches('/'), 0o777) {
            Err(e) if e.kind() != ErrorKind::AlreadyExists => return Err(e),
            _ => {}
        }
        let own = format!("{}.{:016x}", name(), fresh());
        let made = self.fill(&own).and_then(|()| self.store.rename(&own, &name()));
        if made.is_err() {
            let _ = self.store.remove(&own);
        }
        made
    }

    /// Writes zeros, as many as there is room for.
    fn fill(&self, own: &str) -> Result<()> {
        let object = self.store.open_write(own, OpenWrite::New)?;
        let zeros = [0; LEAST as usize];
        for at in (0..SPARE).step_by(zeros.len()) {
            match object.write_at(at, &[IoSlice::new(&zeros)]) {
                Err(e) if e.kind() == ErrorKind::NoSpace && at >= LEAST => break,
                other => other?,
            }
        }
        object.close()
    }

    /// Turns the spare into a new log in the hidden folder `place`; `None` if there is no spare.
    pub fn take(&self, place: &str) -> Result<Option<Writer>> {
        if !self.possible() {
            return Ok(None);
        }
        let number = fresh();
        let object = format!("{place}/{}", data_name(number));
        match self.store.rename(&name(), &object) {
            Err(e) if e.kind() == ErrorKind::NotFound => return Ok(None),
            other => other?,
        }
        self.seen_to.store(true, Ordering::Relaxed);
        Writer::of_spare(self.store.clone(), place, number).map(Some)
    }

    /// Creates a new spare from the free room, after the log that was made from the old one has ended.
    pub fn again(&self) {
        let _ = self.make();
    }
}
