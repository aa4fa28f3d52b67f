//! A communicator that counts what passes, by kind of call: how a method shows that it coordinates as rarely as it says.
//!
//! ```
//! use thalweg_comm::{Communicator, alone::Alone, counting::Counting};
//!
//! let comm = Counting::new(Box::new(Alone::new()));
//! let counts = comm.counts();
//! let before = counts.snapshot();
//! comm.barrier().unwrap();
//! assert_eq!(counts.snapshot().since(&before).barriers, 1);
//! ```
//!
//! Communicators made from a counted one add to the same counts, so one [`Counts`] shows all that a rank did. A call
//! counts when it is made, whatever comes of it; received messages and bytes count when they come.

use crate::{Communicator, Message, Reduce, Request, SharedWindow, ThreadLevel};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use thalweg_types::Result;

macro_rules! counters {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        #[derive(Debug, Default)]
        struct Counters { $($name: AtomicU64,)* }

        /// How often each kind of call was made.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
        pub struct Snapshot { $($(#[$doc])* pub $name: u64,)* }

        impl Counts {
            /// The counts now.
            pub fn snapshot(&self) -> Snapshot {
                Snapshot { $($name: self.0.$name.load(Ordering::Relaxed),)* }
            }
        }

        impl Snapshot {
            /// What was added since an earlier snapshot.
            pub fn since(&self, earlier: &Snapshot) -> Snapshot {
                Snapshot { $($name: self.$name.wrapping_sub(earlier.$name),)* }
            }
        }
    };
}

counters! {
    /// Sends, started or blocking.
    sends,
    /// Receives, started or blocking.
    receives,
    /// Messages that came.
    received,
    /// Probes.
    probes,
    /// Barriers.
    barriers,
    /// Broadcasts.
    broadcasts,
    /// Gathers.
    gathers,
    /// Gathers to all.
    all_gathers,
    /// Scatters.
    scatters,
    /// Exchanges of all with all.
    all_to_alls,
    /// Scans.
    scans,
    /// Reductions.
    reductions,
    /// Duplicates.
    duplicates,
    /// Splits, by color or by node.
    splits,
    /// Shared windows made.
    windows,
    /// Fences of shared windows.
    fences,
    /// Gatherings of survivors.
    survivors,
    /// Bytes given to sends.
    bytes_sent,
    /// Bytes of the messages that came.
    bytes_received,
    /// Bytes put into shared windows.
    bytes_put,
}

impl Snapshot {
    /// Calls that every rank has to make, of any kind.
    pub fn collective(&self) -> u64 {
        self.barriers
            + self.broadcasts
            + self.gathers
            + self.all_gathers
            + self.scatters
            + self.all_to_alls
            + self.scans
            + self.reductions
            + self.duplicates
            + self.splits
            + self.windows
            + self.fences
            + self.survivors
    }
}

/// Shared by a counted communicator, those made from it, and whoever looks.
#[derive(Debug, Clone, Default)]
pub struct Counts(Arc<Counters>);

impl Counts {
    fn add(&self, counter: impl FnOnce(&Counters) -> &AtomicU64, count: u64) {
        counter(&self.0).fetch_add(count, Ordering::Relaxed);
    }

    fn came(&self, message: &Message) {
        self.add(|c| &c.received, 1);
        self.add(|c| &c.bytes_received, message.bytes.len() as u64);
    }
}

/// See the module's page.
pub struct Counting {
    inner: Box<dyn Communicator>,
    counts: Counts,
}

impl Counting {
    /// Counts what passes through `inner`, from 0.
    pub fn new(inner: Box<dyn Communicator>) -> Counting {
        Counting::with(inner, Counts::default())
    }

    /// Adds to counts that are there already.
    pub fn with(inner: Box<dyn Communicator>, counts: Counts) -> Counting {
        Counting { inner, counts }
    }

    /// The counts; they go on after the communicator is gone.
    pub fn counts(&self) -> Counts {
        self.counts.clone()
    }

    fn wrap(&self, inner: Box<dyn Communicator>) -> Box<dyn Communicator> {
        Box::new(Counting::with(inner, self.counts.clone()))
    }
}

struct CountedRequest<'a> {
    inner: Box<dyn Request + 'a>,
    counts: &'a Counts,
}

impl Request for CountedRequest<'_> {
    fn test(&mut self) -> Result<bool> {
        self.inner.test()
    }

    fn wait(self: Box<Self>) -> Result<Option<Message>> {
        let message = self.inner.wait()?;
        if let Some(message) = &message {
            self.counts.came(message);
        }
        Ok(message)
    }
}

struct CountedWindow {
    inner: Box<dyn SharedWindow>,
    counts: Counts,
}

impl SharedWindow for CountedWindow {
    fn length(&self, rank: u32) -> u64 {
        self.inner.length(rank)
    }

    fn put(&self, rank: u32, offset: u64, bytes: &[u8]) -> Result<()> {
        self.counts.add(|c| &c.bytes_put, bytes.len() as u64);
        self.inner.put(rank, offset, bytes)
    }

    fn get(&self, rank: u32, offset: u64, out: &mut [u8]) -> Result<()> {
        self.inner.get(rank, offset, out)
    }

    fn show(&self, offset: u64, length: u64, with: &mut dyn FnMut(&[u8])) -> Result<()> {
        self.inner.show(offset, length, with)
    }

    fn fence(&self) -> Result<()> {
        self.counts.add(|c| &c.fences, 1);
        self.inner.fence()
    }
}

impl Communicator for Counting {
    fn rank(&self) -> u32 {
        self.inner.rank()
    }

    fn size(&self) -> u32 {
        self.inner.size()
    }

    fn thread_level(&self) -> ThreadLevel {
        self.inner.thread_level()
    }

    fn timeout(&self) -> Duration {
        self.inner.timeout()
    }

    fn set_timeout(&mut self, timeout: Duration) {
        self.inner.set_timeout(timeout);
    }

    fn send(&self, to: u32, tag: u32, bytes: &[u8]) -> Result<()> {
        self.counts.add(|c| &c.sends, 1);
        self.counts.add(|c| &c.bytes_sent, bytes.len() as u64);
        self.inner.send(to, tag, bytes)
    }

    fn receive(&self, from: Option<u32>, tag: u32) -> Result<Message> {
        self.counts.add(|c| &c.receives, 1);
        self.inner.receive(from, tag).inspect(|message| self.counts.came(message))
    }

    fn start_send(&self, to: u32, tag: u32, bytes: Vec<u8>) -> Result<Box<dyn Request + '_>> {
        self.counts.add(|c| &c.sends, 1);
        self.counts.add(|c| &c.bytes_sent, bytes.len() as u64);
        self.inner.start_send(to, tag, bytes)
    }

    fn start_receive(&self, from: Option<u32>, tag: u32) -> Result<Box<dyn Request + '_>> {
        self.counts.add(|c| &c.receives, 1);
        let inner = self.inner.start_receive(from, tag)?;
        Ok(Box::new(CountedRequest { inner, counts: &self.counts }))
    }

    fn probe(&self, from: Option<u32>, tag: u32) -> Result<Option<(u32, u64)>> {
        self.counts.add(|c| &c.probes, 1);
        self.inner.probe(from, tag)
    }

    fn barrier(&self) -> Result<()> {
        self.counts.add(|c| &c.barriers, 1);
        self.inner.barrier()
    }

    fn broadcast(&self, root: u32, bytes: &mut Vec<u8>) -> Result<()> {
        self.counts.add(|c| &c.broadcasts, 1);
        self.inner.broadcast(root, bytes)
    }

    fn gather(&self, root: u32, bytes: &[u8]) -> Result<Option<Vec<Vec<u8>>>> {
        self.counts.add(|c| &c.gathers, 1);
        self.inner.gather(root, bytes)
    }

    fn all_gather(&self, bytes: &[u8]) -> Result<Vec<Vec<u8>>> {
        self.counts.add(|c| &c.all_gathers, 1);
        self.inner.all_gather(bytes)
    }

    fn scatter(&self, root: u32, parts: Option<&[Vec<u8>]>) -> Result<Vec<u8>> {
        self.counts.add(|c| &c.scatters, 1);
        self.inner.scatter(root, parts)
    }

    fn all_to_all(&self, parts: &[Vec<u8>]) -> Result<Vec<Vec<u8>>> {
        self.counts.add(|c| &c.all_to_alls, 1);
        self.inner.all_to_all(parts)
    }

    fn exclusive_scan(&self, value: u64) -> Result<u64> {
        self.counts.add(|c| &c.scans, 1);
        self.inner.exclusive_scan(value)
    }

    fn all_reduce(&self, values: &[u64], how: Reduce) -> Result<Vec<u64>> {
        self.counts.add(|c| &c.reductions, 1);
        self.inner.all_reduce(values, how)
    }

    fn duplicate(&self) -> Result<Box<dyn Communicator>> {
        self.counts.add(|c| &c.duplicates, 1);
        self.inner.duplicate().map(|inner| self.wrap(inner))
    }

    fn split(&self, color: Option<u32>, key: u32) -> Result<Option<Box<dyn Communicator>>> {
        self.counts.add(|c| &c.splits, 1);
        Ok(self.inner.split(color, key)?.map(|inner| self.wrap(inner)))
    }

    fn split_by_node(&self) -> Result<Box<dyn Communicator>> {
        self.counts.add(|c| &c.splits, 1);
        self.inner.split_by_node().map(|inner| self.wrap(inner))
    }

    fn shared_window(&self, bytes: u64) -> Result<Box<dyn SharedWindow>> {
        self.counts.add(|c| &c.windows, 1);
        Ok(Box::new(CountedWindow { inner: self.inner.shared_window(bytes)?, counts: self.counts.clone() }))
    }

    fn set_idle(&self) {
        self.inner.set_idle();
    }

    fn survivors(&self) -> Result<Box<dyn Communicator>> {
        self.counts.add(|c| &c.survivors, 1);
        self.inner.survivors().map(|inner| self.wrap(inner))
    }
}
