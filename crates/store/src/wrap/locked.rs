//! A store whose objects have a lock that moves from writer to writer, as on parallel filesystems: a process waits for the lock of an
//! object that another process wrote last.
//!
//! | question | answer |
//! |----------|--------|
//! | waits    | writes and truncations of an object that another process wrote or truncated last, one process after the other; a process that has the lock does not wait |
//! | duration | `cost`; on a real filesystem a message to the server, one to the lock's owner, and the owner's write-back |
//! | scope    | processes of this host: the owner of each lock is kept in a small file of a shared folder |
//! | rename   | loses the lock |
//!
//! For measurements and tests.

use super::{Operation, StoreCall, Verdict, Watch, Wrapped};
use crate::Store;
use rustix::fs::{FlockOperation, flock};
use std::collections::HashMap;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use thalweg_types::mutex::Mutex;
use thalweg_types::{Error, Result};

/// A store with locks that take time to move.
pub type Locked = Wrapped<Locks>;

/// The locks and their owners.
pub struct Locks {
    folder: PathBuf,
    cost: Duration,
    /// Identity of this process: a random number.
    me: u64,
    files: Mutex<HashMap<String, Arc<File>>>,
}

impl Wrapped<Locks> {
    /// - `folder`: where owners of locks are kept; the same for all processes that share locks. Made if missing.
    ///
    /// # Errors
    /// The system's error for the folder.
    pub fn new(inner: Arc<dyn Store>, folder: &Path, cost: Duration) -> Result<Locked> {
        std::fs::create_dir_all(folder)
            .map_err(|e| Error::io("cannot make the folder of locks", e).in_object(folder.display().to_string()))?;
        let me = crate::fresh();
        Ok(Wrapped::with(inner, Locks { folder: folder.into(), cost, me, files: Mutex::default() }))
    }
}

impl Locks {
    fn file(&self, name: &str) -> std::io::Result<Arc<File>> {
        let mut files = self.files.lock();
        if let Some(file) = files.get(name) {
            return Ok(file.clone());
        }
        let path = self.folder.join(name.replace('%', "%25").replace('/', "%2F"));
        let file = Arc::new(File::options().read(true).write(true).create(true).truncate(false).open(path)?);
        files.insert(name.to_string(), file.clone());
        Ok(file)
    }

    fn take(&self, name: &str) -> std::io::Result<()> {
        let file = self.file(name)?;
        flock(&*file, FlockOperation::LockExclusive)?;
        let mut holder = [0; 8];
        let known = file.read_at(&mut holder, 0)? == holder.len();
        let mine = known && u64::from_le_bytes(holder) == self.me;
        if !mine {
            // The first owner does not wait.
            if known {
                std::thread::sleep(self.cost);
            }
            file.write_all_at(&self.me.to_le_bytes(), 0)?;
        }
        flock(&*file, FlockOperation::Unlock)?;
        Ok(())
    }
}

impl Watch for Locks {
    fn describe(&self) -> &'static str {
        "locked"
    }

    fn before(&self, operation: &Operation<'_>) -> Verdict {
        if !matches!(operation.asked, StoreCall::Write | StoreCall::Truncate) {
            return Verdict::Pass;
        }
        match self.take(operation.name) {
            Ok(()) => Verdict::Pass,
            Err(e) => Verdict::Fail(Error::io("cannot take the lock of an object", e).in_object(operation.name)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Memory, OpenWrite};
    use std::io::IoSlice;
    use std::time::Instant;

    #[test]
    fn a_lock_costs_where_another_wrote_last_and_nothing_where_not() {
        let folder = std::env::temp_dir().join(format!("thalweg-locks-{}", fastrand::u64(..)));
        let below = Arc::new(Memory::new());
        // Long enough that eight writes of a busy machine take less than four times as long.
        let cost = Duration::from_secs(1);
        let processes: Vec<_> = (0..2).map(|_| Locked::new(below.clone(), &folder, cost).unwrap()).collect();
        let write = |process: usize, name: &str| {
            let object = processes[process].open_write(name, OpenWrite::Any).unwrap();
            let began = Instant::now();
            object.write_at(0, &[IoSlice::new(b"bytes")]).unwrap();
            began.elapsed()
        };
        write(0, "a");
        assert!(write(1, "a") >= cost && write(0, "a") >= cost);
        let own: Duration = (0..4).map(|_| write(0, "a") + write(1, "own")).sum();
        assert!(own < cost * 4, "{own:?}");
        std::fs::remove_dir_all(folder).unwrap();
    }
}
