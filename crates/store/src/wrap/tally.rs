//! A store that counts operations in a file. Each count is written when it changes, so that the file is complete however the
//! process ends.
//!
//! ```text
//! store hdfs://namenode:8020/runs
//! Write 00000000000000000012
//! ...
//! BytesWritten 00000000000000047001
//! Failed 00000000000000000000
//! ```
//!
//! A line for each [`StoreCall`], then bytes read, bytes written, and failed operations (which are counted in `Failed` only).

use super::{Operation, StoreCall, Watch, Wrapped};
use crate::Store;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use thalweg_types::mutex::Mutex;
use thalweg_types::{Error, Result};

/// A store that counts in a file.
pub type Tallied = Wrapped<Tally>;

const OPERATIONS: [StoreCall; 17] = [
    StoreCall::OpenWrite,
    StoreCall::OpenRead,
    StoreCall::Stat,
    StoreCall::List,
    StoreCall::Rename,
    StoreCall::Remove,
    StoreCall::MakeFolder,
    StoreCall::SyncFolder,
    StoreCall::Length,
    StoreCall::Read,
    StoreCall::Write,
    StoreCall::Reserve,
    StoreCall::Truncate,
    StoreCall::Punch,
    StoreCall::Sync,
    StoreCall::Close,
    StoreCall::Attributes,
];
const BYTES_READ: usize = OPERATIONS.len();
const BYTES_WRITTEN: usize = BYTES_READ + 1;
const FAILED: usize = BYTES_READ + 2;
const DIGITS: usize = 20;

/// The counts and their file.
pub struct Tally {
    file: File,
    /// Byte offset of each number in the file.
    places: Vec<u64>,
    counts: Mutex<[u64; FAILED + 1]>,
}

impl Wrapped<Tally> {
    /// A store around `inner`, with all counts zero in a new file `PID.NUMBER` of `folder`. Makes the folder if it is missing.
    ///
    /// # Errors
    /// The system's error for the folder or the file.
    pub fn new(inner: Arc<dyn Store>, folder: &Path) -> Result<Tallied> {
        static MADE: AtomicU32 = AtomicU32::new(0);
        let number = MADE.fetch_add(1, Ordering::Relaxed);
        let path = folder.join(format!("{}.{number}", std::process::id()));
        let failed = |e| Error::io("cannot make the file of counts", e).in_object(path.display().to_string());
        std::fs::create_dir_all(folder).map_err(failed)?;
        let file = File::create(&path).map_err(failed)?;
        let mut text = format!("store {}\n", inner.describe());
        let mut places = Vec::new();
        let names = OPERATIONS.iter().map(|asked| format!("{asked:?}"));
        for name in names.chain(["BytesRead", "BytesWritten", "Failed"].map(String::from)) {
            text.push_str(&name);
            text.push(' ');
            places.push(text.len() as u64);
            text.push_str(&format!("{:0DIGITS$}\n", 0));
        }
        file.write_all_at(text.as_bytes(), 0).map_err(failed)?;
        Ok(Wrapped::with(inner, Tally { file, places, counts: Mutex::new([0; FAILED + 1]) }))
    }
}

impl Watch for Tally {
    fn describe(&self) -> &'static str {
        "counting"
    }

    fn after(&self, operation: &Operation<'_>, outcome: std::result::Result<u64, &Error>) {
        let mut counts = self.counts.lock();
        let mut add = |what: usize, count: u64| {
            counts[what] += count;
            // A full disk does not fail the counted operation.
            let _ = self.file.write_all_at(format!("{:0DIGITS$}", counts[what]).as_bytes(), self.places[what]);
        };
        let Ok(bytes) = outcome else { return add(FAILED, 1) };
        if let Some(what) = OPERATIONS.iter().position(|asked| *asked == operation.asked) {
            add(what, 1);
        }
        match operation.asked {
            StoreCall::Read => add(BYTES_READ, bytes),
            StoreCall::Write => add(BYTES_WRITTEN, bytes),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Memory, StoreExt};

    #[test]
    fn the_file_tells_what_was_asked_so_far() {
        let folder = std::env::temp_dir().join(format!("thalweg-tally-{}", fastrand::u64(..)));
        let store = Tallied::new(Arc::new(Memory::new()), &folder).unwrap();
        store.write_all("a", &[0; 47_001]).unwrap();
        assert!(store.open_read("none").is_err());
        let file = std::fs::read_dir(&folder).unwrap().next().unwrap().unwrap().path();
        let text = std::fs::read_to_string(file).unwrap();
        let of = |name: &str| {
            let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
            line.and_then(|number| number.parse::<u64>().ok())
        };
        assert_eq!([of("Write"), of("BytesWritten"), of("OpenWrite"), of("Failed")], [1, 47_001, 1, 1].map(Some));
        assert_eq!(of("OpenRead"), Some(0), "what failed is counted as that alone");
        std::fs::remove_dir_all(folder).unwrap();
    }
}
