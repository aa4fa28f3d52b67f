//! A store that repeats failed operations.
//!
//! | question | answer |
//! |----------|--------|
//! | failures repeated | `Timeout`, `Io`, `PeerLost`; other kinds are final |
//! | operations repeated | those that may be done twice: opens except `New`, reads, stat, list, making folders, positional writes, truncation, reading and setting attributes |
//! | operations not repeated | `New`, rename, remove, lock: if only the answer was lost, the second attempt would find the result of the first. `sync` and `close`: after a failure written bytes may be lost, and a second success would hide the loss. Appending writes |
//! | attempts | up to [`Patience::times`] more, with pauses that double from `first` to `longest`, each shortened at random by up to half |
//! | budget   | shared by all operations: each repetition takes one from it, each operation that succeeds at first returns a tenth. With an empty budget failures are final, so that a broken store is not flooded with repetitions |

use crate::{
    Attributes, Capability, Change, Lease, Life, OpenWrite, ReadObject, SetXattr, Space, Stat, Store, WriteObject,
};
use std::io::{IoSlice, IoSliceMut};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use thalweg_types::mutex::Mutex;
use thalweg_types::{Error, ErrorKind, Result};

/// Limits of repetition.
#[derive(Debug, Clone, Copy)]
pub struct Patience {
    /// Most repetitions of one operation.
    pub times: u32,
    /// Pause before the first repetition.
    pub first: Duration,
    /// Longest pause.
    pub longest: Duration,
    /// Repetitions in the budget when the store is opened, and at most.
    pub budget: u32,
}

impl Default for Patience {
    fn default() -> Patience {
        let (first, longest) = (Duration::from_millis(50), Duration::from_secs(5));
        Patience { times: 5, first, longest, budget: 100 }
    }
}

/// A store that repeats failed operations. See the module's page.
pub struct Retry {
    inner: Arc<dyn Store>,
    again: Arc<Again>,
}

struct Again {
    patience: Patience,
    /// Tenths of repetitions left.
    budget: Mutex<u64>,
    made: AtomicU64,
}

impl Retry {
    /// Around a store.
    pub fn new(inner: Arc<dyn Store>, patience: Patience) -> Retry {
        let budget = Mutex::new(u64::from(patience.budget) * 10);
        Retry { inner, again: Arc::new(Again { patience, budget, made: AtomicU64::new(0) }) }
    }

    /// Number of repetitions so far.
    pub fn tried_again(&self) -> u64 {
        self.again.made.load(Ordering::Relaxed)
    }
}

impl Again {
    fn run<T>(&self, mut operation: impl FnMut() -> Result<T>) -> Result<T> {
        let mut pause = self.patience.first;
        for attempt in 0.. {
            let error = match operation() {
                Ok(done) => {
                    if attempt == 0 {
                        let most = u64::from(self.patience.budget) * 10;
                        let mut budget = self.budget.lock();
                        *budget = (*budget + 1).min(most);
                    }
                    return Ok(done);
                }
                Err(error) => error,
            };
            if attempt == self.patience.times || !may_pass(&error) || !self.pay() {
                return Err(error);
            }
            std::thread::sleep(pause.mul_f64(0.5 + 0.5 * fastrand::f64()));
            pause = (pause * 2).min(self.patience.longest);
            self.made.fetch_add(1, Ordering::Relaxed);
        }
        unreachable!("the last attempt returns")
    }

    fn pay(&self) -> bool {
        let mut budget = self.budget.lock();
        let paid = *budget >= 10;
        *budget = budget.saturating_sub(10);
        paid
    }
}

fn may_pass(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::Io | ErrorKind::Timeout | ErrorKind::PeerLost)
}

impl Retry {
    fn opened(&self, how: OpenWrite, open: impl Fn() -> Result<Box<dyn WriteObject>>) -> Result<Box<dyn WriteObject>> {
        // Without `append`, a second `Any` cannot open the object that the first one made.
        let twice = match how {
            OpenWrite::New => false,
            OpenWrite::Any => self.inner.capability().append,
            _ => true,
        };
        let inner = if twice { self.again.run(open)? } else { open()? };
        let anywhere = self.inner.capability().write_at;
        Ok(Box::new(Writing { inner, again: self.again.clone(), anywhere }))
    }
}

impl Store for Retry {
    fn describe(&self) -> String {
        format!("patient with {}", self.inner.describe())
    }

    fn capability(&self) -> Capability {
        self.inner.capability()
    }

    fn open_write(&self, name: &str, how: OpenWrite) -> Result<Box<dyn WriteObject>> {
        self.opened(how, || self.inner.open_write(name, how))
    }

    fn open_write_as(&self, name: &str, how: OpenWrite, mode: u32) -> Result<Box<dyn WriteObject>> {
        self.opened(how, || self.inner.open_write_as(name, how, mode))
    }

    fn make_for_all(&self, name: &str, mode: u32) -> Result<Box<dyn WriteObject>> {
        let inner = self.inner.make_for_all(name, mode)?;
        let anywhere = self.inner.capability().write_at;
        Ok(Box::new(Writing { inner, again: self.again.clone(), anywhere }))
    }

    fn make_unused(&self, name: &str, mode: u32) -> Result<Box<dyn WriteObject>> {
        let inner = self.inner.make_unused(name, mode)?;
        let anywhere = self.inner.capability().write_at;
        Ok(Box::new(Writing { inner, again: self.again.clone(), anywhere }))
    }

    fn sync_closed(&self, name: &str) -> Result<()> {
        // As `sync`: after a failure a second success may hide lost bytes.
        self.inner.sync_closed(name)
    }

    fn url(&self, name: &str) -> Option<String> {
        self.inner.url(name)
    }

    fn request_cost(&self) -> u64 {
        self.inner.request_cost()
    }

    fn has_leases(&self) -> bool {
        self.inner.has_leases()
    }

    fn reopens(&self) -> bool {
        self.inner.reopens()
    }

    fn open_read(&self, name: &str) -> Result<Box<dyn ReadObject>> {
        let inner = self.again.run(|| self.inner.open_read(name))?;
        let anywhere = self.inner.capability().write_at;
        Ok(Box::new(Reading { inner, again: self.again.clone(), anywhere }))
    }

    fn open_copied(&self, name: &str) -> Result<Box<dyn ReadObject>> {
        let inner = self.again.run(|| self.inner.open_copied(name))?;
        let anywhere = self.inner.capability().write_at;
        Ok(Box::new(Reading { inner, again: self.again.clone(), anywhere }))
    }

    fn open_known_to_exist(&self, name: &str) -> Result<Box<dyn ReadObject>> {
        let inner = self.again.run(|| self.inner.open_known_to_exist(name))?;
        let anywhere = self.inner.capability().write_at;
        Ok(Box::new(Reading { inner, again: self.again.clone(), anywhere }))
    }

    fn open_first(&self, name: &str, most: usize) -> Result<(Box<dyn ReadObject>, Vec<u8>)> {
        let (inner, bytes) = self.again.run(|| self.inner.open_first(name, most))?;
        let anywhere = self.inner.capability().write_at;
        Ok((Box::new(Reading { inner, again: self.again.clone(), anywhere }), bytes))
    }

    fn first_if_there(&self, name: &str, most: usize) -> Result<Option<Vec<u8>>> {
        self.again.run(|| self.inner.first_if_there(name, most))
    }

    fn open_known(&self, name: &str) -> Result<(Attributes, Option<Box<dyn ReadObject>>)> {
        let (about, inner) = self.again.run(|| self.inner.open_known(name))?;
        let anywhere = self.inner.capability().write_at;
        let object = inner
            .map(|inner| -> Box<dyn ReadObject> { Box::new(Reading { inner, again: self.again.clone(), anywhere }) });
        Ok((about, object))
    }

    fn stat(&self, name: &str) -> Result<Stat> {
        self.again.run(|| self.inner.stat(name))
    }

    fn list(&self, folder: &str) -> Result<Vec<String>> {
        self.again.run(|| self.inner.list(folder))
    }

    fn list_beginning(&self, prefix: &str) -> Result<Option<Vec<String>>> {
        self.again.run(|| self.inner.list_beginning(prefix))
    }

    fn rename(&self, from: &str, to: &str) -> Result<()> {
        self.inner.rename(from, to)
    }

    fn rename_new(&self, from: &str, to: &str) -> Result<()> {
        self.inner.rename_new(from, to)
    }

    fn remove(&self, name: &str) -> Result<()> {
        self.inner.remove(name)
    }

    /// Repeated: names that are gone already are no error.
    fn remove_many(&self, names: &[String]) -> Result<()> {
        self.again.run(|| self.inner.remove_many(names))
    }

    fn make_folder(&self, name: &str) -> Result<()> {
        self.again.run(|| self.inner.make_folder(name))
    }

    fn make_new_folder(&self, name: &str) -> Result<bool> {
        self.again.run(|| self.inner.make_new_folder(name))
    }

    fn make_one_folder(&self, name: &str, mode: u32) -> Result<()> {
        self.inner.make_one_folder(name, mode)
    }

    fn sync_folder(&self, folder: &str) -> Result<()> {
        self.inner.sync_folder(folder)
    }

    fn targets(&self, folder: &str) -> Result<Option<u32>> {
        self.again.run(|| self.inner.targets(folder))
    }

    fn make_on_target(&self, name: &str, target: u32, stripe: u64) -> Result<bool> {
        self.inner.make_on_target(name, target, stripe)
    }

    fn settle(&self, name: &str) -> Result<()> {
        self.again.run(|| self.inner.settle(name))
    }

    fn lock(&self, name: &str, wait: bool) -> Result<Option<Lease>> {
        self.inner.lock(name, wait)
    }

    fn lock_place(&self, name: &str) -> Option<PathBuf> {
        self.inner.lock_place(name)
    }

    fn attributes(&self, name: &str) -> Result<Attributes> {
        self.again.run(|| self.inner.attributes(name))
    }

    fn set_attributes(&self, name: &str, change: &Change) -> Result<()> {
        self.again.run(|| self.inner.set_attributes(name, change))
    }

    fn make_link(&self, target: &str, name: &str) -> Result<()> {
        self.inner.make_link(target, name)
    }

    fn make_hard_link(&self, from: &str, to: &str) -> Result<()> {
        self.inner.make_hard_link(from, to)
    }

    fn read_link(&self, name: &str) -> Result<String> {
        self.again.run(|| self.inner.read_link(name))
    }

    fn xattr(&self, name: &str, key: &str) -> Result<Option<Vec<u8>>> {
        self.again.run(|| self.inner.xattr(name, key))
    }

    fn set_xattr(&self, name: &str, key: &str, value: &[u8], how: SetXattr) -> Result<()> {
        self.inner.set_xattr(name, key, value, how)
    }

    fn list_xattrs(&self, name: &str) -> Result<Vec<String>> {
        self.again.run(|| self.inner.list_xattrs(name))
    }

    fn remove_xattr(&self, name: &str, key: &str) -> Result<()> {
        self.inner.remove_xattr(name, key)
    }

    fn space(&self, folder: &str) -> Result<Space> {
        self.again.run(|| self.inner.space(folder))
    }
}

struct Reading {
    inner: Box<dyn ReadObject>,
    again: Arc<Again>,
    /// Whether the store writes at any offset.
    anywhere: bool,
}

impl ReadObject for Reading {
    fn length(&self) -> Result<u64> {
        self.again.run(|| self.inner.length())
    }

    fn read_at(&self, offset: u64, out: &mut [u8]) -> Result<usize> {
        self.again.run(|| self.inner.read_at(offset, out))
    }

    fn stored_before(&self, offset: u64) -> Result<u64> {
        self.again.run(|| self.inner.stored_before(offset))
    }

    fn read_vectored_at(&self, offset: u64, pieces: &mut [IoSliceMut<'_>]) -> Result<usize> {
        self.again.run(|| {
            // The store below may move the pieces it is given on as it fills them.
            let mut pieces: Vec<_> = pieces.iter_mut().map(|piece| IoSliceMut::new(piece)).collect();
            self.inner.read_vectored_at(offset, &mut pieces)
        })
    }

    fn at_hand(&self) -> u64 {
        self.inner.at_hand()
    }

    fn life(&self) -> Result<Life> {
        self.again.run(|| self.inner.life())
    }

    fn reopen(&self) -> Result<Box<dyn WriteObject>> {
        let inner = self.again.run(|| self.inner.reopen())?;
        Ok(Box::new(Writing { inner, again: self.again.clone(), anywhere: self.anywhere }))
    }

    fn attributes(&self) -> Result<Attributes> {
        self.again.run(|| self.inner.attributes())
    }
}

struct Writing {
    inner: Box<dyn WriteObject>,
    again: Arc<Again>,
    /// The store writes at any offset, so that a write may be done twice.
    anywhere: bool,
}

impl WriteObject for Writing {
    fn write_at(&self, offset: u64, pieces: &[IoSlice<'_>]) -> Result<()> {
        match self.anywhere {
            true => self.again.run(|| self.inner.write_at(offset, pieces)),
            false => self.inner.write_at(offset, pieces),
        }
    }

    fn reserve(&self, offset: u64, length: u64) -> Result<()> {
        self.again.run(|| self.inner.reserve(offset, length))
    }

    fn length(&self) -> Result<u64> {
        self.again.run(|| self.inner.length())
    }

    fn read_at(&self, offset: u64, out: &mut [u8]) -> Result<usize> {
        self.again.run(|| self.inner.read_at(offset, out))
    }

    fn stored_before(&self, offset: u64) -> Result<u64> {
        self.again.run(|| self.inner.stored_before(offset))
    }

    fn truncate(&self, length: u64) -> Result<()> {
        self.again.run(|| self.inner.truncate(length))
    }

    fn punch(&self, offset: u64, length: u64) -> Result<()> {
        self.again.run(|| self.inner.punch(offset, length))
    }

    fn sync(&self) -> Result<()> {
        self.inner.sync()
    }

    fn publish(&self) -> Result<()> {
        self.inner.publish()
    }

    fn will_write(&self) -> Result<()> {
        self.inner.will_write()
    }

    fn close(self: Box<Self>) -> Result<()> {
        self.inner.close()
    }

    fn lease(&self) -> Result<Option<Lease>> {
        self.again.run(|| self.inner.lease())
    }

    fn life(&self) -> Result<Life> {
        self.again.run(|| self.inner.life())
    }

    fn reopen(&self) -> Result<Box<dyn WriteObject>> {
        let inner = self.again.run(|| self.inner.reopen())?;
        Ok(Box::new(Writing { inner, again: self.again.clone(), anywhere: self.anywhere }))
    }

    fn attributes(&self) -> Result<Attributes> {
        self.again.run(|| self.inner.attributes())
    }

    fn set_attributes(&self, change: &Change) -> Result<()> {
        self.again.run(|| self.inner.set_attributes(change))
    }

    fn lock(&self, wait: bool) -> Result<Option<Lease>> {
        self.inner.lock(wait)
    }
}
