//! A store that counts operations, per object and in total.
//!
//! ```
//! # use std::sync::Arc;
//! # use thalweg_store::{Memory, StoreExt, wrap::Counting};
//! let store = Arc::new(Counting::new(Arc::new(Memory::new())));
//! store.write_all("a", b"seven!!").unwrap();
//! let counted = store.counted();
//! assert_eq!((counted.object("a").writes, counted.total().bytes_written), (1, 7));
//! ```

use super::{Operation, StoreCall, Watch, Wrapped};
use crate::Store;
use std::collections::BTreeMap;
use std::sync::{Arc, MutexGuard};
use thalweg_types::Error;
use thalweg_types::mutex::Mutex;

/// A store that counts the operations on the store inside.
pub type Counting = Wrapped<Count>;

/// Number of operations by kind. Failed operations are counted in `failed` only.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[allow(missing_docs)]
pub struct Counts {
    pub opens_for_writing: u64,
    pub opens_for_reading: u64,
    /// Calls of `write_at`, however many pieces.
    pub writes: u64,
    /// Pieces of all writes.
    pub pieces: u64,
    pub bytes_written: u64,
    pub reserves: u64,
    pub reads: u64,
    pub bytes_read: u64,
    pub truncates: u64,
    pub punches: u64,
    pub syncs: u64,
    pub lengths: u64,
    pub stats: u64,
    pub lists: u64,
    pub renames: u64,
    pub removes: u64,
    pub folders_made: u64,
    pub folder_syncs: u64,
    pub closes: u64,
    /// Attributes, links and extended attributes read or changed; space read.
    pub attributes: u64,
    /// Operations of any kind that ended in an error.
    pub failed: u64,
}

/// Counts up to some moment, by the name that each operation used.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Counted {
    /// Per object or folder.
    pub objects: BTreeMap<String, Counts>,
}

impl Counted {
    /// Counts of one object or folder.
    pub fn object(&self, name: &str) -> Counts {
        self.objects.get(name).copied().unwrap_or_default()
    }

    /// Counts of all objects and folders.
    pub fn total(&self) -> Counts {
        let mut total = Counts::default();
        for counts in self.objects.values() {
            total.add(counts);
        }
        total
    }
}

impl Counts {
    fn add(&mut self, more: &Counts) {
        // Destructured, so that a new field cannot be forgotten.
        let Counts {
            opens_for_writing,
            opens_for_reading,
            writes,
            pieces,
            bytes_written,
            reserves,
            reads,
            bytes_read,
            truncates,
            punches,
            syncs,
            lengths,
            stats,
            lists,
            renames,
            removes,
            folders_made,
            folder_syncs,
            closes,
            attributes,
            failed,
        } = more;
        self.opens_for_writing += opens_for_writing;
        self.opens_for_reading += opens_for_reading;
        self.writes += writes;
        self.pieces += pieces;
        self.bytes_written += bytes_written;
        self.reserves += reserves;
        self.reads += reads;
        self.bytes_read += bytes_read;
        self.truncates += truncates;
        self.punches += punches;
        self.syncs += syncs;
        self.lengths += lengths;
        self.stats += stats;
        self.lists += lists;
        self.renames += renames;
        self.removes += removes;
        self.folders_made += folders_made;
        self.folder_syncs += folder_syncs;
        self.closes += closes;
        self.attributes += attributes;
        self.failed += failed;
    }
}

/// Counts operations.
#[derive(Debug, Default)]
pub struct Count(Mutex<Counted>);

impl Count {
    fn lock(&self) -> MutexGuard<'_, Counted> {
        self.0.lock()
    }
}

impl Wrapped<Count> {
    /// A store around `inner`, with all counts zero.
    pub fn new(inner: Arc<dyn Store>) -> Counting {
        Wrapped::with(inner, Count::default())
    }

    /// The current counts.
    pub fn counted(&self) -> Counted {
        self.watch.lock().clone()
    }

    /// The current counts, which are set to zero.
    pub fn take(&self) -> Counted {
        std::mem::take(&mut self.watch.lock())
    }
}

impl Watch for Count {
    fn describe(&self) -> &'static str {
        "counting"
    }

    fn after(&self, operation: &Operation<'_>, outcome: Result<u64, &Error>) {
        let mut counted = self.lock();
        if !counted.objects.contains_key(operation.name) {
            counted.objects.insert(operation.name.to_string(), Counts::default());
        }
        let Some(counts) = counted.objects.get_mut(operation.name) else { return };
        let Ok(bytes) = outcome else {
            counts.failed += 1;
            return;
        };
        *match operation.asked {
            StoreCall::OpenWrite => &mut counts.opens_for_writing,
            StoreCall::OpenRead => {
                counts.bytes_read += bytes;
                &mut counts.opens_for_reading
            }
            StoreCall::Stat => &mut counts.stats,
            StoreCall::List => &mut counts.lists,
            StoreCall::Rename => &mut counts.renames,
            StoreCall::Remove => &mut counts.removes,
            StoreCall::MakeFolder => &mut counts.folders_made,
            StoreCall::SyncFolder => &mut counts.folder_syncs,
            StoreCall::Reserve => &mut counts.reserves,
            StoreCall::Length => &mut counts.lengths,
            StoreCall::Truncate => &mut counts.truncates,
            StoreCall::Punch => &mut counts.punches,
            StoreCall::Sync => &mut counts.syncs,
            StoreCall::Close => &mut counts.closes,
            StoreCall::Attributes => &mut counts.attributes,
            StoreCall::Lease => return,
            StoreCall::Read => {
                counts.bytes_read += bytes;
                &mut counts.reads
            }
            StoreCall::Write => {
                counts.bytes_written += bytes;
                counts.pieces += operation.pieces as u64;
                &mut counts.writes
            }
        } += 1;
    }
}
