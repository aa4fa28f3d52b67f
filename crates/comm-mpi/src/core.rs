//! One communicator's messages in flight.
//!
//! MPI needs a buffer to start a receive, but only the sender knows its length. A started receive therefore first probes for
//! its message and then receives it. All communicators are probed whenever any call waits: as with MPI's own receives, a wait
//! for one operation makes progress on the others.
//!
//! Methods that return `Result` fail with `InvalidArgument` if MPI may not be called now from this thread, and with the
//! kinds of [`error::failed`] if MPI fails; `broken` makes collective ones fail.

use crate::error;
use crate::ffi::{Buffers, Matched, Operation, RawComm};
use crate::patience::Patience;
use std::sync::{Arc, Weak};
use std::time::Duration;
use thalweg_comm::in_calls;
use thalweg_comm::inbox::{Inbox, Ticket};
use thalweg_types::mutex::Mutex;
use thalweg_types::{Error, ErrorKind, Result};

/// A message being received.
enum Incoming {
    /// Matched in MPI, not yet received.
    Found(Matched),
    Receiving(Operation),
    Here(Vec<u8>),
    /// MPI failed to receive the message.
    Lost,
}

impl Incoming {
    fn advance(&mut self, raw: &RawComm) -> Result<()> {
        if let Incoming::Found(matched) = self {
            // After `NoMemory` the message stays matched, and can be received later.
            let memory = matched.memory()?;
            if let Incoming::Found(matched) = std::mem::replace(self, Incoming::Lost) {
                *self = Incoming::Receiving(raw.receive_found(matched, memory)?);
            }
        }
        let Incoming::Receiving(operation) = self else { return Ok(()) };
        match operation.test() {
            Ok(false) => Ok(()),
            Ok(true) => {
                if let Incoming::Receiving(operation) = std::mem::replace(self, Incoming::Lost) {
                    *self = Incoming::Here(operation.finish().incoming);
                }
                Ok(())
            }
            Err(error) => {
                *self = Incoming::Lost;
                Err(error)
            }
        }
    }

    fn bytes(&self) -> u64 {
        match self {
            Incoming::Found(matched) => matched.bytes,
            Incoming::Receiving(operation) => operation.incoming_bytes(),
            Incoming::Here(bytes) => bytes.len() as u64,
            Incoming::Lost => 0,
        }
    }
}

/// The state of one communicator, shared by its handle, requests and windows.
pub struct Core {
    pub raw: Arc<RawComm>,
    inbox: Mutex<Inbox<Incoming>>,
    broken: Mutex<Option<ErrorKind>>,
}

/// Communicators with started receives, once per receive.
static RECEIVING: Mutex<Vec<Weak<Core>>> = Mutex::new(Vec::new());

/// Makes progress on started receives of all communicators.
fn progress() {
    let cores: Vec<Arc<Core>> = RECEIVING.lock().iter().filter_map(Weak::upgrade).collect();
    for core in cores {
        // A locked inbox is in progress in another thread. Errors are returned by the wait for the message.
        if let Some(mut inbox) = core.inbox.try_lock() {
            let _ = core.advance(&mut inbox);
        }
    }
}

impl Core {
    pub fn new(raw: RawComm) -> Arc<Core> {
        Arc::new(Core { raw: Arc::new(raw), inbox: Mutex::default(), broken: Mutex::new(None) })
    }

    /// Fails unless MPI may be called now.
    pub fn ready(&self) -> Result<()> {
        self.raw.library().ready().map_err(|e| e.at_rank(self.raw.rank()))
    }

    /// Fails unless a collective call may be made now.
    pub fn ready_for_all(&self) -> Result<()> {
        self.ready()?;
        self.broken.lock().map_or(Ok(()), |kind| Err(error::broken(kind).at_rank(self.raw.rank())))
    }

    /// Makes all further collective calls fail.
    pub fn break_off(&self, error: Error) -> Error {
        *self.broken.lock() = Some(error.kind());
        self.raw.abandon();
        error.at_rank(self.raw.rank())
    }

    /// Waits until `done` returns `true`; fails with `over` after `timeout`.
    pub fn wait(
        &self,
        timeout: Duration,
        over: impl FnOnce() -> Error,
        mut done: impl FnMut() -> Result<bool>,
    ) -> Result<()> {
        let mut patience = Patience::new(timeout);
        let waited = loop {
            match done() {
                Ok(true) => break Ok(()),
                Ok(false) => {}
                Err(error) => break Err(error),
            }
            progress();
            // Ranks of outputs in the background: a rank that is waited for may itself wait for messages of this one.
            in_calls::move_messages();
            if !patience.pause() {
                break Err(over());
            }
        };
        waited.map_err(|e| e.at_rank(self.raw.rank()))
    }

    /// Starts and completes one collective operation of MPI; on failure, breaks off the communicator.
    pub fn collective(
        &self,
        timeout: Duration,
        what: &str,
        start: impl FnOnce(&RawComm) -> Result<Operation>,
    ) -> Result<Buffers> {
        self.ready_for_all()?;
        let over = || Error::new(ErrorKind::Timeout, format!("{what}: not every rank came within {timeout:?}"));
        let done = start(&self.raw).and_then(|mut operation| {
            self.wait(timeout, over, || operation.test())?;
            Ok(operation.finish())
        });
        done.map_err(|error| self.break_off(error))
    }

    /// A message from this rank to itself.
    pub fn deliver_to_self(&self, tag: u32, bytes: Vec<u8>) {
        self.inbox.lock().arrive(self.raw.rank(), tag, Incoming::Here(bytes));
    }

    /// Matches messages to waiting receives, and receives matched messages.
    fn advance(&self, inbox: &mut Inbox<Incoming>) -> Result<()> {
        self.ready()?;
        let wanted: Vec<_> = inbox.waiting().collect();
        for (from, tag) in wanted {
            if let Some((sender, matched)) = self.raw.find(from, tag)? {
                // The message may match an earlier receive than the one that probed.
                inbox.arrive(sender, tag, Incoming::Found(matched));
            }
        }
        inbox.all_matched().try_for_each(|incoming| incoming.advance(&self.raw))
    }

    /// Starts a receive that makes progress only in its own wait.
    pub fn post(&self, from: Option<u32>, tag: u32) -> Ticket {
        self.inbox.lock().post(from, tag)
    }

    /// Makes progress on a receive; returns whether its message is here.
    pub fn poll(&self, ticket: Ticket) -> Result<bool> {
        let mut inbox = self.inbox.lock();
        self.advance(&mut inbox)?;
        match inbox.matched(ticket) {
            None => Ok(false),
            Some(Incoming::Here(_)) => Ok(true),
            Some(Incoming::Lost) => Err(Error::new(ErrorKind::Io, "this message was lost when it was received")),
            Some(_) => Ok(false),
        }
    }

    /// Ends a receive that has its message.
    pub fn take(&self, ticket: Ticket) -> Result<(u32, Vec<u8>)> {
        match self.inbox.lock().take(ticket) {
            Some((from, Incoming::Here(bytes))) => Ok((from, bytes)),
            _ => Err(Error::new(ErrorKind::InvalidArgument, "a receive that is not done")),
        }
    }

    /// Cancels a receive; its message, if it has one, goes to another receive.
    pub fn withdraw(&self, ticket: Ticket) {
        self.inbox.lock().withdraw(ticket);
    }

    /// Sender and length of the message that a receive would get.
    pub fn peek(&self, from: Option<u32>, tag: u32) -> Result<Option<(u32, u64)>> {
        let mut inbox = self.inbox.lock();
        self.advance(&mut inbox)?;
        loop {
            if let Some((sender, incoming)) = inbox.peek(from, tag) {
                return Ok(Some((sender, incoming.bytes())));
            }
            let Some((sender, matched)) = self.raw.find(from, tag)? else { return Ok(None) };
            inbox.arrive(sender, tag, Incoming::Found(matched));
        }
    }
}

/// A started receive that makes progress whenever any call waits; cancelled when dropped.
pub struct Started {
    pub core: Arc<Core>,
    pub ticket: Ticket,
}

impl Started {
    pub fn new(core: &Arc<Core>, from: Option<u32>, tag: u32) -> Started {
        RECEIVING.lock().push(Arc::downgrade(core));
        Started { core: core.clone(), ticket: core.post(from, tag) }
    }
}

impl Drop for Started {
    fn drop(&mut self) {
        let mut receiving = RECEIVING.lock();
        if let Some(at) = receiving.iter().position(|core| std::ptr::eq(core.as_ptr(), Arc::as_ptr(&self.core))) {
            receiving.swap_remove(at);
        }
        drop(receiving);
        self.core.withdraw(self.ticket);
    }
}
