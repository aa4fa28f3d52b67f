//! A communicator around another one, which shows a [`Watch`] each call before it is made and each message when it comes: how calls are
//! counted, how profiles know who waited, how a rank of a test dies at its time.
//!
//! Calls go through as they are, unless the watch refuses them. Communicators, windows and requests made from a watched one are watched too.

use crate::{Communicator, Message, Reduce, Request, SharedWindow, ThreadLevel};
use std::time::Duration;
use thalweg_types::{Error, Result};

/// What is about to be asked of the communicator below.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MessageCall {
    /// A send, started or blocking.
    Send {
        /// To this rank.
        to: u32,
        /// With this tag.
        tag: u32,
        /// Bytes of the message.
        bytes: u64,
    },
    /// A receive that waits.
    Receive {
        /// From this rank, or any.
        from: Option<u32>,
        /// With this tag.
        tag: u32,
    },
    /// A receive that is started.
    StartReceive {
        /// From this rank, or any.
        from: Option<u32>,
        /// With this tag.
        tag: u32,
    },
    /// Waiting for a send that was started.
    WaitForSend {
        /// To this rank.
        to: u32,
    },
    /// Waiting for a receive that was started.
    WaitForMessage {
        /// From this rank, or any.
        from: Option<u32>,
    },
    /// A look for a message.
    Probe,
    /// A call that every rank makes.
    Collective {
        /// Which one.
        what: Collective,
        /// Bytes that this rank hands in for others, where these are not of one size by the call's nature.
        bytes: u64,
    },
    /// Bytes put into a shared window.
    Put {
        /// How many.
        bytes: u64,
    },
    /// A fence of a shared window.
    Fence,
}

/// Calls that every rank makes.
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

/// Who is shown what passes.
pub trait Watch: Send + Sync + 'static {
    /// Lives as long as the call.
    type During;

    /// A call is about to be made.
    fn begins(&self, call: MessageCall) -> Self::During;

    /// Why a call that receives fails instead of being made: for tests. Its message waits for another.
    fn refuses(&self, _call: &MessageCall) -> Option<Error> {
        None
    }

    /// A message came by the call that `during` is of.
    fn came(&self, _during: &mut Self::During, _message: &Message) {}

    /// Who watches a communicator or window that was made from the watched one.
    fn of_a_part(&self) -> Self;

    /// The same where ranks were lost, and these go on among themselves.
    fn of_survivors(&self, _survivors: &dyn Communicator) -> Self
    where
        Self: Sized,
    {
        self.of_a_part()
    }
}

/// See the module's page.
pub struct Watched<W> {
    inner: Box<dyn Communicator>,
    watch: W,
}

impl<W: Watch> Watched<W> {
    /// Shows `watch` what passes through `inner`.
    pub fn with(inner: Box<dyn Communicator>, watch: W) -> Watched<W> {
        Watched { inner, watch }
    }

    /// Who watches.
    pub fn watch(&self) -> &W {
        &self.watch
    }

    fn part(&self, inner: Box<dyn Communicator>) -> Box<dyn Communicator> {
        Box::new(Watched { inner, watch: self.watch.of_a_part() })
    }

    fn all(&self, what: Collective, bytes: usize) -> W::During {
        self.watch.begins(MessageCall::Collective { what, bytes: bytes as u64 })
    }
}

struct WatchedRequest<'a, W> {
    inner: Box<dyn Request + 'a>,
    watch: &'a W,
    wait: MessageCall,
}

impl<W: Watch> Request for WatchedRequest<'_, W> {
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

    fn start_send(&self, to: u32, tag: u32, bytes: Vec<u8>) -> Result<Box<dyn Request + '_>> {
        let _during = self.watch.begins(MessageCall::Send { to, tag, bytes: bytes.len() as u64 });
        let inner = self.inner.start_send(to, tag, bytes)?;
        Ok(Box::new(WatchedRequest { inner, watch: &self.watch, wait: MessageCall::WaitForSend { to } }))
    }

    fn start_receive(&self, from: Option<u32>, tag: u32) -> Result<Box<dyn Request + '_>> {
        let _during = self.watch.begins(MessageCall::StartReceive { from, tag });
        let inner = self.inner.start_receive(from, tag)?;
        Ok(Box::new(WatchedRequest { inner, watch: &self.watch, wait: MessageCall::WaitForMessage { from } }))
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

    fn set_idle(&self) {
        self.inner.set_idle();
    }

    fn survivors(&self) -> Result<Box<dyn Communicator>> {
        let _during = self.all(Collective::Survivors, 0);
        let inner = self.inner.survivors()?;
        let watch = self.watch.of_survivors(&*inner);
        Ok(Box::new(Watched { inner, watch }))
    }
}

fn total(parts: &[Vec<u8>]) -> usize {
    parts.iter().map(Vec::len).sum()
}
