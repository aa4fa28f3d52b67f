//! Wrappers: stores around other stores, for runs, tests and measurements.
//!
//! | room | adds |
//! |------|--------------|
//! | [`counting`] | counts of operations and bytes |
//! | [`tally`] | the same counts, in a file |
//! | [`locked`] | locks that move from writer to writer, as on parallel filesystems |
//! | [`slow`] | a latency per operation, a rate for bytes |
//! | [`failing`] | failures of chosen operations, writes that stop half way, a disk that fills |
//! | [`forgetful`] | the content after a kill or a power cut; a store in memory |
//! | [`limit`] | a rate limit |
//! | [`retry`] | repetition of failed operations |
//! | [`tiered`] | the burst buffer: a fast store before a slow one |
//! | [`sequential`] | the limits of HDFS or S3; a store in memory |
//!
//! Counting, slow, failing and limited stores are one wrapper, [`Wrapped`], with a [`Watch`] that is called before and after each operation.

use crate::pieces::{self, Rest};
use crate::{
    Attributes, Capability, Change, Lease, Life, OpenWrite, ReadObject, SetXattr, Space, Stat, Store, WriteObject,
};
use std::io::{IoSlice, IoSliceMut};
use std::sync::Arc;
use thalweg_types::{Error, Result};

pub mod counting;
pub mod failing;
pub mod forgetful;
pub mod limit;
pub mod locked;
pub mod retry;
pub mod sequential;
pub mod slow;
pub mod tally;
pub mod tiered;

pub use counting::Counting;
pub use failing::{Failing, Fault};
pub use forgetful::Forgetful;
pub use limit::Limited;
pub use locked::Locked;
pub use retry::{Patience, Retry};
pub use sequential::Sequential;
pub use slow::Slow;
pub use tally::Tallied;
pub use tiered::Tiered;

/// Kind of operation on a store.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[allow(missing_docs)]
pub enum StoreCall {
    OpenWrite,
    OpenRead,
    Stat,
    List,
    Rename,
    Remove,
    MakeFolder,
    SyncFolder,
    Length,
    Read,
    Write,
    Reserve,
    Truncate,
    Punch,
    Sync,
    Close,
    Attributes,
    /// A lease or lock is taken or looked at. [`Watch::after`] is not called for it: it moves no bytes and changes no name.
    Lease,
}

/// One operation on its way to a store.
#[derive(Clone, Copy)]
pub struct Operation<'a> {
    /// Its kind.
    pub asked: StoreCall,
    /// The object or folder; for renames the old name. Operations on an open object have the name that it was opened by.
    pub name: &'a str,
    /// First byte, for operations on bytes; for a truncation the new length.
    pub offset: u64,
    /// Number of bytes, for operations on bytes.
    pub bytes: u64,
    /// Number of pieces, for a write.
    pub pieces: usize,
    /// The object, if it is open for writing.
    pub object: Option<&'a dyn WriteObject>,
}

/// Decision on an operation.
pub enum Verdict {
    /// The operation is done.
    Pass,
    /// The operation is not done; it fails with this error.
    Fail(Error),
    /// A write writes this many bytes and fails with this error. Other operations are not done and fail with it.
    FailAfter(u64, Error),
}

/// Observes and decides on the operations of a store's callers.
pub trait Watch: Send + Sync {
    /// For messages: `counting`.
    fn describe(&self) -> &'static str;
    /// Abilities of the wrapped store: those of the store inside, or fewer.
    fn capability(&self, inner: Capability) -> Capability {
        inner
    }
    /// Called before each operation.
    fn before(&self, operation: &Operation<'_>) -> Verdict {
        let _ = operation;
        Verdict::Pass
    }
    /// Cost of a request through this wrapper ([`Store::request_cost`]), given the cost without.
    fn request_cost(&self, inner: u64) -> u64 {
        inner
    }
    /// Called after each operation, with the number of bytes moved or the error.
    fn after(&self, operation: &Operation<'_>, outcome: std::result::Result<u64, &Error>) {
        let _ = (operation, outcome);
    }
}

/// A store with a [`Watch`] around it.
pub struct Wrapped<W> {
    inner: Arc<dyn Store>,
    watch: Arc<W>,
}

impl<W: Watch> Wrapped<W> {
    /// Puts a watch around a store; for tests with a watch of their own.
    pub fn with(inner: Arc<dyn Store>, watch: W) -> Wrapped<W> {
        Wrapped { inner, watch: Arc::new(watch) }
    }

    /// The watch.
    pub fn watch(&self) -> &W {
        &self.watch
    }

    fn ask<T>(&self, asked: StoreCall, name: &str, run: impl FnOnce() -> Result<T>) -> Result<T> {
        let operation = Operation { asked, name, offset: 0, bytes: 0, pieces: 0, object: None };
        through(&*self.watch, &operation, |_| run(), |_| 0)
    }
}

/// Takes or looks at a lease as the watch decides.
fn lease<W: Watch, T>(watch: &W, operation: &Operation<'_>, run: impl FnOnce() -> Result<T>) -> Result<T> {
    match watch.before(operation) {
        Verdict::Pass => run(),
        Verdict::Fail(error) | Verdict::FailAfter(_, error) => Err(error),
    }
}

/// Does one operation as the watch decides. The argument of `run` is the number of bytes to stop after, if any.
fn through<W: Watch, T>(
    watch: &W,
    operation: &Operation<'_>,
    run: impl FnOnce(Option<u64>) -> Result<T>,
    moved: impl FnOnce(&T) -> u64,
) -> Result<T> {
    let result = match watch.before(operation) {
        Verdict::Pass => run(None),
        Verdict::FailAfter(bytes, error) if operation.asked == StoreCall::Write => run(Some(bytes)).and(Err(error)),
        Verdict::Fail(error) | Verdict::FailAfter(_, error) => Err(error),
    };
    watch.after(operation, result.as_ref().map(moved));
    result
}

impl<W: Watch + 'static> Store for Wrapped<W> {
    fn describe(&self) -> String {
        format!("{} around {}", self.watch.describe(), self.inner.describe())
    }

    fn capability(&self) -> Capability {
        self.watch.capability(self.inner.capability())
    }

    fn open_write(&self, name: &str, how: OpenWrite) -> Result<Box<dyn WriteObject>> {
        let inner = self.ask(StoreCall::OpenWrite, name, || self.inner.open_write(name, how))?;
        Ok(Box::new(OpenForWriting { inner, watch: self.watch.clone(), name: name.into() }))
    }

    fn open_write_as(&self, name: &str, how: OpenWrite, mode: u32) -> Result<Box<dyn WriteObject>> {
        let inner = self.ask(StoreCall::OpenWrite, name, || self.inner.open_write_as(name, how, mode))?;
        Ok(Box::new(OpenForWriting { inner, watch: self.watch.clone(), name: name.into() }))
    }

    fn make_for_all(&self, name: &str, mode: u32) -> Result<Box<dyn WriteObject>> {
        let inner = self.ask(StoreCall::OpenWrite, name, || self.inner.make_for_all(name, mode))?;
        Ok(Box::new(OpenForWriting { inner, watch: self.watch.clone(), name: name.into() }))
    }

    fn make_unused(&self, name: &str, mode: u32) -> Result<Box<dyn WriteObject>> {
        let inner = self.ask(StoreCall::OpenWrite, name, || self.inner.make_unused(name, mode))?;
        Ok(Box::new(OpenForWriting { inner, watch: self.watch.clone(), name: name.into() }))
    }

    fn sync_closed(&self, name: &str) -> Result<()> {
        if !self.inner.capability().append {
            return self.inner.sync_closed(name);
        }
        self.ask(StoreCall::OpenWrite, name, || Ok(()))?;
        self.ask(StoreCall::Sync, name, || self.inner.sync_closed(name))
    }

    fn url(&self, name: &str) -> Option<String> {
        self.inner.url(name)
    }

    fn request_cost(&self) -> u64 {
        self.watch.request_cost(self.inner.request_cost())
    }

    fn has_leases(&self) -> bool {
        self.inner.has_leases()
    }

    fn reopens(&self) -> bool {
        self.inner.reopens()
    }

    fn open_read(&self, name: &str) -> Result<Box<dyn ReadObject>> {
        let inner = self.ask(StoreCall::OpenRead, name, || self.inner.open_read(name))?;
        Ok(Box::new(OpenForReading { inner, watch: self.watch.clone(), name: name.into() }))
    }

    fn open_copied(&self, name: &str) -> Result<Box<dyn ReadObject>> {
        let inner = self.ask(StoreCall::OpenRead, name, || self.inner.open_copied(name))?;
        Ok(Box::new(OpenForReading { inner, watch: self.watch.clone(), name: name.into() }))
    }

    fn open_known_to_exist(&self, name: &str) -> Result<Box<dyn ReadObject>> {
        let inner = self.ask(StoreCall::OpenRead, name, || self.inner.open_known_to_exist(name))?;
        Ok(Box::new(OpenForReading { inner, watch: self.watch.clone(), name: name.into() }))
    }

    /// Watched as an open that moves bytes.
    fn open_first(&self, name: &str, most: usize) -> Result<(Box<dyn ReadObject>, Vec<u8>)> {
        let asked = StoreCall::OpenRead;
        let operation = Operation { asked, name, offset: 0, bytes: most as u64, pieces: 0, object: None };
        let run = |_| self.inner.open_first(name, most);
        let (inner, bytes) = through(&*self.watch, &operation, run, |(_, bytes)| bytes.len() as u64)?;
        Ok((Box::new(OpenForReading { inner, watch: self.watch.clone(), name: name.into() }), bytes))
    }

    /// Watched as [`Store::open_first`].
    fn first_if_there(&self, name: &str, most: usize) -> Result<Option<Vec<u8>>> {
        let asked = StoreCall::OpenRead;
        let operation = Operation { asked, name, offset: 0, bytes: most as u64, pieces: 0, object: None };
        let run = |_| self.inner.first_if_there(name, most);
        through(&*self.watch, &operation, run, |bytes| bytes.as_ref().map_or(0, Vec::len) as u64)
    }

    fn open_known(&self, name: &str) -> Result<(Attributes, Option<Box<dyn ReadObject>>)> {
        let (about, inner) = self.ask(StoreCall::OpenRead, name, || self.inner.open_known(name))?;
        let object = inner.map(|inner| -> Box<dyn ReadObject> {
            Box::new(OpenForReading { inner, watch: self.watch.clone(), name: name.into() })
        });
        Ok((about, object))
    }

    fn stat(&self, name: &str) -> Result<Stat> {
        self.ask(StoreCall::Stat, name, || self.inner.stat(name))
    }

    fn list(&self, folder: &str) -> Result<Vec<String>> {
        self.ask(StoreCall::List, folder, || self.inner.list(folder))
    }

    fn list_beginning(&self, prefix: &str) -> Result<Option<Vec<String>>> {
        self.ask(StoreCall::List, prefix, || self.inner.list_beginning(prefix))
    }

    fn rename(&self, from: &str, to: &str) -> Result<()> {
        self.ask(StoreCall::Rename, from, || self.inner.rename(from, to))
    }

    fn rename_new(&self, from: &str, to: &str) -> Result<()> {
        self.ask(StoreCall::Rename, from, || self.inner.rename_new(from, to))
    }

    fn remove(&self, name: &str) -> Result<()> {
        self.ask(StoreCall::Remove, name, || self.inner.remove(name))
    }

    /// Watched as one removal, of the first name.
    fn remove_many(&self, names: &[String]) -> Result<()> {
        let Some(first) = names.first() else { return Ok(()) };
        self.ask(StoreCall::Remove, first, || self.inner.remove_many(names))
    }

    fn make_folder(&self, name: &str) -> Result<()> {
        self.ask(StoreCall::MakeFolder, name, || self.inner.make_folder(name))
    }

    fn make_new_folder(&self, name: &str) -> Result<bool> {
        self.ask(StoreCall::MakeFolder, name, || self.inner.make_new_folder(name))
    }

    fn sync_folder(&self, folder: &str) -> Result<()> {
        self.ask(StoreCall::SyncFolder, folder, || self.inner.sync_folder(folder))
    }

    fn targets(&self, folder: &str) -> Result<Option<u32>> {
        self.inner.targets(folder)
    }

    fn make_on_target(&self, name: &str, target: u32, stripe: u64) -> Result<bool> {
        self.inner.make_on_target(name, target, stripe)
    }

    fn make_one_folder(&self, name: &str, mode: u32) -> Result<()> {
        self.ask(StoreCall::MakeFolder, name, || self.inner.make_one_folder(name, mode))
    }

    /// None: the watch would miss operations on the file.
    fn plain_file(&self, _name: &str) -> Option<std::path::PathBuf> {
        None
    }

    fn lock_place(&self, name: &str) -> Option<std::path::PathBuf> {
        self.inner.lock_place(name)
    }

    fn make_hard_link(&self, from: &str, to: &str) -> Result<()> {
        self.ask(StoreCall::Attributes, from, || self.inner.make_hard_link(from, to))
    }

    fn settle(&self, name: &str) -> Result<()> {
        self.ask(StoreCall::Close, name, || self.inner.settle(name))
    }

    fn lock(&self, name: &str, wait: bool) -> Result<Option<Lease>> {
        let operation = Operation { asked: StoreCall::Lease, name, offset: 0, bytes: 0, pieces: 0, object: None };
        lease(&*self.watch, &operation, || self.inner.lock(name, wait))
    }

    fn attributes(&self, name: &str) -> Result<Attributes> {
        self.ask(StoreCall::Attributes, name, || self.inner.attributes(name))
    }

    fn set_attributes(&self, name: &str, change: &Change) -> Result<()> {
        self.ask(StoreCall::Attributes, name, || self.inner.set_attributes(name, change))
    }

    fn make_link(&self, target: &str, name: &str) -> Result<()> {
        self.ask(StoreCall::Attributes, name, || self.inner.make_link(target, name))
    }

    fn read_link(&self, name: &str) -> Result<String> {
        self.ask(StoreCall::Attributes, name, || self.inner.read_link(name))
    }

    fn xattr(&self, name: &str, key: &str) -> Result<Option<Vec<u8>>> {
        self.ask(StoreCall::Attributes, name, || self.inner.xattr(name, key))
    }

    fn set_xattr(&self, name: &str, key: &str, value: &[u8], how: SetXattr) -> Result<()> {
        self.ask(StoreCall::Attributes, name, || self.inner.set_xattr(name, key, value, how))
    }

    fn list_xattrs(&self, name: &str) -> Result<Vec<String>> {
        self.ask(StoreCall::Attributes, name, || self.inner.list_xattrs(name))
    }

    fn remove_xattr(&self, name: &str, key: &str) -> Result<()> {
        self.ask(StoreCall::Attributes, name, || self.inner.remove_xattr(name, key))
    }

    fn space(&self, folder: &str) -> Result<Space> {
        self.ask(StoreCall::Attributes, folder, || self.inner.space(folder))
    }
}

struct OpenForReading<W> {
    inner: Box<dyn ReadObject>,
    watch: Arc<W>,
    name: String,
}

impl<W> OpenForReading<W> {
    fn operation(&self, asked: StoreCall, offset: u64, bytes: u64) -> Operation<'_> {
        Operation { asked, name: &self.name, offset, bytes, pieces: 0, object: None }
    }
}

impl<W: Watch + 'static> ReadObject for OpenForReading<W> {
    fn length(&self) -> Result<u64> {
        through(&*self.watch, &self.operation(StoreCall::Length, 0, 0), |_| self.inner.length(), |_| 0)
    }

    fn read_at(&self, offset: u64, out: &mut [u8]) -> Result<usize> {
        let operation = self.operation(StoreCall::Read, offset, out.len() as u64);
        through(&*self.watch, &operation, |_| self.inner.read_at(offset, out), |got| *got as u64)
    }

    /// Watched as a look at the length: no bytes are read.
    fn stored_before(&self, offset: u64) -> Result<u64> {
        let operation = self.operation(StoreCall::Length, offset, 0);
        through(&*self.watch, &operation, |_| self.inner.stored_before(offset), |_| 0)
    }

    fn read_vectored_at(&self, offset: u64, pieces: &mut [IoSliceMut<'_>]) -> Result<usize> {
        let bytes = pieces.iter().map(|p| p.len() as u64).sum();
        let operation = Operation { pieces: pieces.len(), ..self.operation(StoreCall::Read, offset, bytes) };
        through(&*self.watch, &operation, |_| self.inner.read_vectored_at(offset, pieces), |got| *got as u64)
    }

    fn life(&self) -> Result<Life> {
        lease(&*self.watch, &self.operation(StoreCall::Lease, 0, 0), || self.inner.life())
    }

    fn reopen(&self) -> Result<Box<dyn WriteObject>> {
        let operation = self.operation(StoreCall::OpenWrite, 0, 0);
        let inner = through(&*self.watch, &operation, |_| self.inner.reopen(), |_| 0)?;
        Ok(Box::new(OpenForWriting { inner, watch: self.watch.clone(), name: self.name.clone() }))
    }

    fn attributes(&self) -> Result<Attributes> {
        through(&*self.watch, &self.operation(StoreCall::Attributes, 0, 0), |_| self.inner.attributes(), |_| 0)
    }
}

struct OpenForWriting<W> {
    inner: Box<dyn WriteObject>,
    watch: Arc<W>,
    name: String,
}

impl<W> OpenForWriting<W> {
    fn operation(&self, asked: StoreCall, offset: u64, bytes: u64) -> Operation<'_> {
        Operation { asked, name: &self.name, offset, bytes, pieces: 0, object: Some(&*self.inner) }
    }
}

impl<W: Watch + 'static> WriteObject for OpenForWriting<W> {
    fn write_at(&self, offset: u64, pieces: &[IoSlice<'_>]) -> Result<()> {
        let bytes = pieces::total(pieces);
        let operation = Operation { pieces: pieces.len(), ..self.operation(StoreCall::Write, offset, bytes) };
        let run = |stop_after: Option<u64>| match stop_after {
            None => self.inner.write_at(offset, pieces),
            Some(bytes) => self.inner.write_at(offset, &Rest::new(pieces).next(usize::MAX, bytes)),
        };
        through(&*self.watch, &operation, run, |()| bytes)
    }

    fn reserve(&self, offset: u64, length: u64) -> Result<()> {
        let operation = self.operation(StoreCall::Reserve, offset, length);
        through(&*self.watch, &operation, |_| self.inner.reserve(offset, length), |()| 0)
    }

    fn length(&self) -> Result<u64> {
        through(&*self.watch, &self.operation(StoreCall::Length, 0, 0), |_| self.inner.length(), |_| 0)
    }

    fn read_at(&self, offset: u64, out: &mut [u8]) -> Result<usize> {
        let operation = self.operation(StoreCall::Read, offset, out.len() as u64);
        through(&*self.watch, &operation, |_| self.inner.read_at(offset, out), |got| *got as u64)
    }

    /// Watched as a look at the length: no bytes are read.
    fn stored_before(&self, offset: u64) -> Result<u64> {
        let operation = self.operation(StoreCall::Length, offset, 0);
        through(&*self.watch, &operation, |_| self.inner.stored_before(offset), |_| 0)
    }

    fn truncate(&self, length: u64) -> Result<()> {
        let operation = self.operation(StoreCall::Truncate, length, 0);
        through(&*self.watch, &operation, |_| self.inner.truncate(length), |()| 0)
    }

    fn punch(&self, offset: u64, length: u64) -> Result<()> {
        let operation = self.operation(StoreCall::Punch, offset, length);
        through(&*self.watch, &operation, |_| self.inner.punch(offset, length), |()| 0)
    }

    fn sync(&self) -> Result<()> {
        through(&*self.watch, &self.operation(StoreCall::Sync, 0, 0), |_| self.inner.sync(), |()| 0)
    }

    /// Watched as a sync, as many stores implement it by one.
    fn publish(&self) -> Result<()> {
        through(&*self.watch, &self.operation(StoreCall::Sync, 0, 0), |_| self.inner.publish(), |()| 0)
    }

    fn close(self: Box<Self>) -> Result<()> {
        let OpenForWriting { inner, watch, name } = *self;
        let operation =
            Operation { asked: StoreCall::Close, name: &name, offset: 0, bytes: 0, pieces: 0, object: None };
        through(&*watch, &operation, |_| inner.close(), |()| 0)
    }

    fn will_write(&self) -> Result<()> {
        self.inner.will_write()
    }

    fn attributes(&self) -> Result<Attributes> {
        through(&*self.watch, &self.operation(StoreCall::Attributes, 0, 0), |_| self.inner.attributes(), |_| 0)
    }

    fn set_attributes(&self, change: &Change) -> Result<()> {
        through(
            &*self.watch,
            &self.operation(StoreCall::Attributes, 0, 0),
            |_| self.inner.set_attributes(change),
            |()| 0,
        )
    }

    fn lease(&self) -> Result<Option<Lease>> {
        lease(&*self.watch, &self.operation(StoreCall::Lease, 0, 0), || self.inner.lease())
    }

    fn life(&self) -> Result<Life> {
        lease(&*self.watch, &self.operation(StoreCall::Lease, 0, 0), || self.inner.life())
    }

    fn reopen(&self) -> Result<Box<dyn WriteObject>> {
        let operation = self.operation(StoreCall::OpenWrite, 0, 0);
        let inner = through(&*self.watch, &operation, |_| self.inner.reopen(), |_| 0)?;
        Ok(Box::new(OpenForWriting { inner, watch: self.watch.clone(), name: self.name.clone() }))
    }

    fn lock(&self, wait: bool) -> Result<Option<Lease>> {
        lease(&*self.watch, &self.operation(StoreCall::Lease, 0, 0), || self.inner.lock(wait))
    }
}
