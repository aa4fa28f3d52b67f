//! Checks whether a process still writes a file, before the file is changed or copied as a whole.
//!
//! | state | answer |
//! |---|---|
//! | a process holds a lease of the file or of a subfile | written |
//! | `container`: an unclosed session, unless its writer is known to be dead | written |
//! | `small_file`: a living process has a log in the file's folder | may be written: the process buffers the bytes of open files |
//! | the store shows leases, and no process holds one | not written |
//! | the store shows no leases (NFS, HDFS, S3), and the file changed within the last [`PATIENCE`] | may be written |
//! | the store shows no leases, and the file has not changed for longer, or the store keeps no times | not written |
//!
//! Other programs take no lease.

use crate::object::{self, Object};
use std::time::Duration;
use thalweg_layout::{Container, Layout, SmallFile};
use thalweg_types::{Error, ErrorKind, Result};

/// On stores without leases, a file counts as being written for this long after its last change, as for a
/// [`Follower`](crate::Follower).
pub const PATIENCE: Duration = Duration::from_secs(600);

/// Checks that no process writes a file or its subfiles: see the module's page.
///
/// # Errors
/// `NotReady` if a process writes one of them, or may write it; the failure of a check.
/// # Cost
/// The file and each subfile are opened.
pub fn check_no_writer(layout: &dyn Layout, path: &str) -> Result<()> {
    let subfiles = object::subfiles(layout, path)?.into_iter().map(|number| object::subfile(path, number));
    let unwritten = |path: &str| match check_object(layout, path) {
        Err(e) if e.kind() == ErrorKind::NotFound => Ok(()),
        outcome => outcome,
    };
    unwritten(path)?;
    subfiles.into_iter().try_for_each(|path| unwritten(&path))
}

/// As [`check_no_writer`], for one object.
///
/// # Errors
/// As there, and `NotFound`.
pub fn check_object(layout: &dyn Layout, path: &str) -> Result<()> {
    if let Some(any) = layout.concrete() {
        if let Some(container) = any.downcast_ref::<Container>() {
            match container.settled(path) {
                // A writer that died: its published bytes are read.
                Err(e) if e.kind() == ErrorKind::Torn => {}
                outcome => outcome.map_err(|e| e.safe("nothing was changed"))?,
            }
        }
        if let Some(small) = any.downcast_ref::<SmallFile>()
            && small.check(folder_of(path), false)?.live > 0
        {
            return Err(written(path, "a process that writes small files in its folder may have it open"));
        }
    }
    let life = Object::open(layout, path)?.life()?;
    match (life.leased, life.modified) {
        (Some(true), _) => Err(written(path, "a process that writes it holds a lease of it")),
        // A time to come, of a clock that is ahead, is a moment ago.
        (None, Some(at)) if at.elapsed().unwrap_or_default() < PATIENCE => {
            let age = at.elapsed().unwrap_or_default().as_secs();
            let why = format!("its store cannot show whether a process writes it, and it changed {age} s ago");
            Err(written(path, &why))
        }
        _ => Ok(()),
    }
}

fn folder_of(path: &str) -> &str {
    path.rsplit_once('/').map_or("", |(folder, _)| folder)
}

fn written(path: &str, why: &str) -> Error {
    Error::new(ErrorKind::NotReady, format!("the file is being written, or may be: {why}"))
        .in_object(path)
        .safe("nothing was changed")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::IoSliceMut;
    use std::sync::Arc;
    use std::time::SystemTime;
    use thalweg_layout::{Direct, Life, OpenWrite, ReadObject, Stat, WriteObject, WriterId};
    use thalweg_store::{Memory, StoreExt};

    /// A layout that returns this state of its objects.
    struct Says(Direct, Life);

    struct Object(Box<dyn ReadObject>, Life);

    impl ReadObject for Object {
        fn length(&self) -> Result<u64> {
            self.0.length()
        }
        fn read_at(&self, offset: u64, out: &mut [u8]) -> Result<usize> {
            self.0.read_at(offset, out)
        }
        fn read_vectored_at(&self, offset: u64, pieces: &mut [IoSliceMut<'_>]) -> Result<usize> {
            self.0.read_vectored_at(offset, pieces)
        }
        fn life(&self) -> Result<Life> {
            Ok(self.1)
        }
    }

    impl Layout for Says {
        fn describe(&self) -> String {
            self.0.describe()
        }
        fn open_write(&self, path: &str, how: OpenWrite, writer: WriterId) -> Result<Box<dyn WriteObject>> {
            self.0.open_write(path, how, writer)
        }
        fn open_read(&self, path: &str) -> Result<Box<dyn ReadObject>> {
            Ok(Box::new(Object(self.0.open_read(path)?, self.1)))
        }
        fn stat(&self, path: &str) -> Result<Stat> {
            self.0.stat(path)
        }
        fn list(&self, folder: &str) -> Result<Vec<String>> {
            self.0.list(folder)
        }
        fn rename(&self, from: &str, to: &str) -> Result<()> {
            self.0.rename(from, to)
        }
        fn remove(&self, path: &str) -> Result<()> {
            self.0.remove(path)
        }
        fn make_folder(&self, path: &str) -> Result<()> {
            self.0.make_folder(path)
        }
        fn sync_folder(&self, folder: &str) -> Result<()> {
            self.0.sync_folder(folder)
        }
    }

    #[test]
    fn where_a_store_shows_no_leases_the_time_of_the_last_change_tells() {
        let now = SystemTime::now();
        let (old, to_come) = (now - PATIENCE - Duration::from_secs(1), now + Duration::from_secs(3600));
        for (leased, modified, is_written) in [
            (Some(true), None, true),
            (Some(true), Some(old), true),
            (Some(false), Some(now), false),
            (None, Some(now), true),
            (None, Some(to_come), true),
            (None, Some(old), false),
            (None, None, false),
        ] {
            let memory = Arc::new(Memory::new());
            memory.write_all("a.bp", b"bytes").unwrap();
            let layout = Says(Direct::new(memory).unwrap(), Life { leased, modified });
            let outcome = check_no_writer(&layout, "a.bp");
            assert_eq!(
                outcome.as_ref().err().map(Error::kind),
                is_written.then_some(ErrorKind::NotReady),
                "{leased:?} {modified:?}: {outcome:?}"
            );
        }
    }
}
