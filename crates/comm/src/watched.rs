//! A communicator around another one, which reports each call to a [`Watch`] before the call is made, and each message when it
//! arrives. It serves to count calls, to find in profiles which rank waited, and to let a rank of a test die at a given time.
//!
//! Calls are forwarded unchanged, unless the watch refuses them. Communicators, windows and requests created from a watched one
//! are watched too.

use crate::{Communicator, Message, Reduce, Request, SharedWindow, ThreadLevel};
use std::sync::Arc;
use std::time::Duration;
use thalweg_types::{Error, Result};

/// A call that is about to be made on the communicator below.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MessageCall {
    /// A send, started or blocking.
    Send {
        /// Receiver.
        to: u32,
        /// Tag.
        tag: u32,
        /// Bytes of the message.
        bytes: u64,
    },
    /// A blocking receive.
    Receive {
        /// Sender, or any.
        from: Option<u32>,
        /// Tag.
        tag: u32,
    },
    /// A started receive.
    StartReceive {
        /// Sender, or any.
        from: Option<u32>,
        /// Tag.
        tag: u32,
    },
    /// The wait for a started send.
    WaitForSend {
        /// Receiver.
        to: u32,
    },
    /// The wait for a started receive.
    WaitForMessage {
        /// Sender, or any.
        from: Option<u32>,
    },
    /// A probe for a message.
    Probe,
    /// A collective call.
    Collective {
        /// Its kind.
        what: Collective,
        /// Bytes that this rank contributes, if the call does not fix their number.
        bytes: u64,
    },
    /// Bytes put into a shared window.
    Put {
        /// Number of bytes.
        bytes: u64,
    },
    /// A fence of a shared window.
    Fence,
}

/// Kinds of collective calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names of the trait's calls")]
pub enum Collective {
    Barrier,
    Broadcast,
    Gather,
    AllGather,
    Scatter,
    AllToAll,
    ExclusiveScan,
    AllReduce,
    Duplicate,
    Split,
    SplitByNode,
    SharedWindow,
    Survivors,
}

/// An observer of calls and messages.
pub trait Watch: Send + Sync + 'static {
    /// State that lives as long as the call.
    type During;

    /// A call is about to be made.
    fn begins(&self, call: MessageCall) -> Self::During;

    /// An error with which a receiving call fails instead of being made, for tests. Its message remains for another receive.
    fn refuses(&self, _call: &MessageCall) -> Option<Error> {
        None
    }

    /// A message arrived in the call that `during` belongs to.
    fn came(&self, _during: &mut Self::During, _message: &Message) {}

    /// The observer of a communicator or window created from the watched one.
    fn of_a_part(&self) -> Self;

    /// The observer of a communicator of the ranks that remain after others were lost.
    fn of_survivors(&self, _survivors: &dyn Communicator) -> Self
    where
        Self: Sized,
    {
        self.of_a_part()
    }
}

/// A watched communicator.
pub struct Watched<W> {
    inner: Box<dyn Communicator>,
    watch: Arc<W>,
}

impl<W: Watch> Watched<W> {
    /// Reports the calls on `inner` to `watch`.
    pub fn with(inner: Box<dyn Communicator>, watch: W) -> Watched<W> {
        Watched { inner, watch: Arc::new(watch) }
    }

    /// The observer.
    pub fn watch(&self) -> &W {
        &self.watch
    }

    fn part(&self, inner: Box<dyn Communicator>) -> Box<dyn Communicator> {
        Box::new(Watched::with(inner, self.watch.of_a_part()))
    }

    fn all(&self, what: Collective, bytes: usize) -> W::During {
        self.watch.begins(MessageCall::Collective { what, bytes: bytes as u64 })
    }
}

struct WatchedRequest<W> {
    inner: Box<dyn Request>,
    watch: Arc<W>,
    wait: MessageCall,
}

impl<W: Watch> Request for WatchedRequest<W> {
    fn test(&mut self) -> Result<bool> {
        self.inner.test()
    }

    fn wait(self: Box<Self>) -> Result<Option<Message>> {
        let mut during = self.watch.begins(self.wait);
        let message = self.inner.wait()?;
        if let Some(message) = &message {
            self.watch.came(&mut during, message);
        }
        Ok(message)
    }
}

struct WatchedWindow<W> {
    inner: Box<dyn SharedWindow>,
    watch: W,
}

impl<W: Watch> SharedWindow for WatchedWindow<W> {
    fn length(&self, rank: u32) -> u64 {
        self.inner.length(rank)
    }

    fn put(&self, rank: u32, offset: u64, bytes: &[u8]) -> Result<()> {
        let _during = self.watch.begins(MessageCall::Put { bytes: bytes.len() as u64 });
        self.inner.put(rank, offset, bytes)
    }

    fn get(&self, rank: u32, offset: u64, out: &mut [u8]) -> Result<()> {
        self.inner.get(rank, offset, out)
    }

    fn show(&self, offset: u64, length: u64, with: &mut dyn FnMut(&[u8])) -> Result<()> {
        self.inner.show(offset, length, with)
    }

    fn fence(&self) -> Result<()> {
        let _during = self.watch.begins(MessageCall::Fence);
        self.inner.fence()
    }
}

impl<W: Watch> Communicator for Watched<W> {
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

    fn clock(&self) -> Duration {
        self.inner.clock()
    }

    fn send(&self, to: u32, tag: u32, bytes: &[u8]) -> Result<()> {
        let _during = self.watch.begins(MessageCall::Send { to, tag, bytes: bytes.len() as u64 });
        self.inner.send(to, tag, bytes)
    }

    fn receive(&self, from: Option<u32>, tag: u32) -> Result<Message> {
        let call = MessageCall::Receive { from, tag };
        if let Some(e) = self.watch.refuses(&call) {
            return Err(e);
        }
        let mut during = self.watch.begins(call);
        self.inner.receive(from, tag).inspect(|message| self.watch.came(&mut during, message))
    }

    fn start_send(&self, to: u32, tag: u32, bytes: Vec<u8>) -> Result<Box<dyn Request>> {
        let _during = self.watch.begins(MessageCall::Send { to, tag, bytes: bytes.len() as u64 });
        let inner = self.inner.start_send(to, tag, bytes)?;
        Ok(Box::new(WatchedRequest { inner, watch: self.watch.clone(), wait: MessageCall::WaitForSend { to } }))
    }

    fn start_receive(&self, from: Option<u32>, tag: u32) -> Result<Box<dyn Request>> {
        let _during = self.watch.begins(MessageCall::StartReceive { from, tag });
        let inner = self.inner.start_receive(from, tag)?;
        Ok(Box::new(WatchedRequest { inner, watch: self.watch.clone(), wait: MessageCall::WaitForMessage { from } }))
    }

    fn probe(&self, from: Option<u32>, tag: u32) -> Result<Option<(u32, u64)>> {
        let _during = self.watch.begins(MessageCall::Probe);
        self.inner.probe(from, tag)
    }

    fn barrier(&self) -> Result<()> {
        let _during = self.all(Collective::Barrier, 0);
        self.inner.barrier()
    }

    fn broadcast(&self, root: u32, bytes: &mut Vec<u8>) -> Result<()> {
        let _during = self.all(Collective::Broadcast, if root == self.rank() { bytes.len() } else { 0 });
        self.inner.broadcast(root, bytes)
    }

    fn gather(&self, root: u32, bytes: &[u8]) -> Result<Option<Vec<Vec<u8>>>> {
        let _during = self.all(Collective::Gather, bytes.len());
        self.inner.gather(root, bytes)
    }

    fn all_gather(&self, bytes: &[u8]) -> Result<Vec<Vec<u8>>> {
        let _during = self.all(Collective::AllGather, bytes.len());
        self.inner.all_gather(bytes)
    }

    fn scatter(&self, root: u32, parts: Option<&[Vec<u8>]>) -> Result<Vec<u8>> {
        let _during = self.all(Collective::Scatter, parts.map_or(0, total));
        self.inner.scatter(root, parts)
    }

    fn all_to_all(&self, parts: &[Vec<u8>]) -> Result<Vec<Vec<u8>>> {
        let _during = self.all(Collective::AllToAll, total(parts));
        self.inner.all_to_all(parts)
    }

    fn exclusive_scan(&self, value: u64) -> Result<u64> {
        let _during = self.all(Collective::ExclusiveScan, 0);
        self.inner.exclusive_scan(value)
    }

    fn all_reduce(&self, values: &[u64], how: Reduce) -> Result<Vec<u64>> {
        let _during = self.all(Collective::AllReduce, 0);
        self.inner.all_reduce(values, how)
    }

    fn duplicate(&self) -> Result<Box<dyn Communicator>> {
        let _during = self.all(Collective::Duplicate, 0);
        self.inner.duplicate().map(|inner| self.part(inner))
    }

    fn split(&self, color: Option<u32>, key: u32) -> Result<Option<Box<dyn Communicator>>> {
        let _during = self.all(Collective::Split, 0);
        Ok(self.inner.split(color, key)?.map(|inner| self.part(inner)))
    }

    fn split_by_node(&self) -> Result<Box<dyn Communicator>> {
        let _during = self.all(Collective::SplitByNode, 0);
        self.inner.split_by_node().map(|inner| self.part(inner))
    }

    fn shared_window(&self, bytes: u64) -> Result<Box<dyn SharedWindow>> {
        let _during = self.all(Collective::SharedWindow, 0);
        let inner = self.inner.shared_window(bytes)?;
        Ok(Box::new(WatchedWindow { inner, watch: self.watch.of_a_part() }))
    }

    fn shares_memory(&self) -> bool {
        self.inner.shares_memory()
    }

    fn set_idle(&self) {
        self.inner.set_idle();
    }

    fn survivors(&self) -> Result<Box<dyn Communicator>> {
        let _during = self.all(Collective::Survivors, 0);
        let inner = self.inner.survivors()?;
        let watch = self.watch.of_survivors(&*inner);
        Ok(Box::new(Watched::with(inner, watch)))
    }
}

fn total(parts: &[Vec<u8>]) -> usize {
    parts.iter().map(Vec::len).sum()
}
