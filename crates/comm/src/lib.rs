//! Communicators: the ranks that open a file together.
//!
//! | room | what it owns |
//! |------|--------------|
//! | [`alone`] | one rank, no peers |
//! | [`threads`] | hundreds of ranks as threads of one process, for tests and small machines |
//! | [`watched`] | reports every call and message of a communicator to an observer |
//! | [`counting`] | counts calls and messages by kind |
//! | [`messages`] | a communicator whose collective calls are made of messages, over anything that carries these |
//! | [`in_calls`] | a communicator for threads that may not call the one below: its messages move inside the program's calls |
//! | [`inbox`] | matches messages with receives; shared by all of them |
//! | [`check`] | checks of arguments, with the same error texts everywhere |
//! | [`agreement`] | all ranks learn the same outcome in one reduction |
//! | [`at_end`] | work that needs messages for the last time |
//! | [`outcome`] | as `agreement`, and the failure itself with its place and cause |
//! | [`guarded`] | a panic between two collective calls becomes an error |
//! | [`tree`] | the tree towards rank 0, as a pure function |
//! | [`tree_gather`] | gathers messages of all ranks at rank 0 up the tree |
//! | [`tags`] | the only table of message tags of the library |
//!
//! `thalweg-comm-mpi` implements the same trait over an MPI library, `thalweg-comm-processes` over sockets between processes. Every wait is bounded by [`Communicator::timeout`]; if a
//! rank died or left, the calls of the others fail with `PeerLost`, or with `Timeout` if a dead rank cannot be distinguished from
//! a slow one.
#![forbid(unsafe_code)]

use std::sync::OnceLock;
use std::time::{Duration, Instant};
use thalweg_types::{Error, ErrorKind, Result};

pub mod agreement;
pub mod alone;
pub mod at_end;
pub mod check;
pub mod counting;
pub use thalweg_types::guarded;
pub mod in_calls;
pub mod inbox;
pub mod messages;
pub mod outcome;
pub mod tags;
pub mod threads;
pub mod tree;
pub mod tree_gather;
pub mod watched;

/// Default of [`Communicator::timeout`].
pub const DEFAULT_TIMEOUT: Duration = Duration::from_secs(600);

/// Zeros; `NoMemory` if they cannot be allocated.
fn zeroed(bytes: u64) -> Result<Vec<u8>> {
    let no_memory = || Error::new(ErrorKind::NoMemory, format!("{bytes} bytes for a shared window"));
    let count = usize::try_from(bytes).map_err(|_| no_memory())?;
    let mut part = Vec::new();
    part.try_reserve_exact(count).map_err(|_| no_memory())?;
    part.resize(count, 0);
    Ok(part)
}

/// The error of a receive that cannot complete.
pub fn no_message(from: Option<u32>, tag: u32, waited: Duration) -> Error {
    let sender = from.map_or("any rank".to_owned(), |from| format!("rank {from}"));
    Error::new(ErrorKind::Timeout, format!("no message with tag {tag} from {sender} within {waited:?}"))
}

/// Which threads may call the communicator, as in MPI.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum ThreadLevel {
    /// Only the thread that initialised MPI.
    Single,
    /// The process has threads, but only the main thread calls.
    Funneled,
    /// Any thread, one at a time.
    Serialized,
    /// Any thread at any time.
    Multiple,
}

impl Reduce {
    /// Packs the two numbers into one `u64`.
    pub fn combine(self, a: u64, b: u64) -> u64 {
        match self {
            Reduce::Sum => a.wrapping_add(b),
            Reduce::Min => a.min(b),
            Reduce::Max => a.max(b),
        }
    }
}

/// A received message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Message {
    /// Rank of the sender.
    pub from: u32,
    /// Its tag.
    pub tag: u32,
    /// Its content.
    pub bytes: Vec<u8>,
}

/// Operation of [`Communicator::all_reduce`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reduce {
    /// Sum, wrapping.
    Sum,
    /// Minimum.
    Min,
    /// Maximum.
    Max,
}

/// A pending send or receive. Dropping it waits for a send and cancels a receive.
///
/// A request may be kept after its communicator's handle was dropped; it then ends, possibly with `PeerLost`.
pub trait Request: Send {
    /// Whether it is complete, without waiting.
    ///
    /// # Errors
    /// `PeerLost` if the other rank died or left; `NoMemory` if the message cannot be stored.
    fn test(&mut self) -> Result<bool>;
    /// Waits, at most [`Communicator::timeout`]; a receive returns its message, a send `None`.
    ///
    /// # Errors
    /// `PeerLost` if the other rank died or left; `Timeout`; `NoMemory` if the message cannot be stored: it can be received
    /// again.
    fn wait(self: Box<Self>) -> Result<Option<Message>>;
}

/// Memory shared by the ranks of a node. Each rank owns a part.
pub trait SharedWindow: Send {
    /// Bytes of the part of `rank`.
    fn length(&self, rank: u32) -> u64;
    /// Copies `bytes` into the part of `rank`.
    ///
    /// # Errors
    /// `OutOfBounds` if they exceed the part, `InvalidArgument` for an unknown rank; then nothing is copied.
    fn put(&self, rank: u32, offset: u64, bytes: &[u8]) -> Result<()>;
    /// Copies bytes out of the part of `rank`.
    ///
    /// # Errors
    /// As [`SharedWindow::put`].
    fn get(&self, rank: u32, offset: u64, out: &mut [u8]) -> Result<()>;
    /// Gives access to bytes of this rank's own part without copying them.
    ///
    /// `with` gets bytes that other ranks have put there and announced by a message. The caller must ensure that no rank puts
    /// bytes there until `with` returns, and that `with` calls no method of the window except `put` to another rank.
    ///
    /// # Errors
    /// `OutOfBounds` if the bytes exceed the part; then `with` is not called.
    fn show(&self, offset: u64, length: u64, with: &mut dyn FnMut(&[u8])) -> Result<()>;
    /// Collective: makes this rank's writes visible and waits for all ranks of the window.
    ///
    /// # Errors
    /// `PeerLost`, `Timeout`.
    /// # Cost
    /// One barrier of the window's ranks.
    fn fence(&self) -> Result<()>;
}

/// Time since the first call of this function.
pub(crate) fn wall_clock() -> Duration {
    static BEGUN: OnceLock<Instant> = OnceLock::new();
    BEGUN.get_or_init(Instant::now).elapsed()
}

/// The ranks that open a file together.
///
/// Collective calls (marked) must be made by every rank in the same order. Messages between two ranks with one tag arrive in
/// order. Tags are below 2^15; the upper half is reserved for the library.
///
/// # Cost
/// A send or receive is one message. A collective call waits for all ranks and is one collective call of MPI for short arguments:
/// up to 248 bytes for each pair of ranks, up to 1016 for a broadcast. Longer arguments add messages or collective calls of up to
/// 16 MiB.
pub trait Communicator: Send {
    /// This process, from 0.
    fn rank(&self) -> u32;
    /// Number of processes, at least 1.
    fn size(&self) -> u32;
    /// Which threads may call.
    fn thread_level(&self) -> ThreadLevel;
    /// Longest wait inside a call; 10 minutes by default.
    fn timeout(&self) -> Duration;
    /// Sets the longest wait of this handle; communicators created from it inherit it.
    fn set_timeout(&mut self, timeout: Duration);
    /// The time that counts in waits, since some moment. Where messages move inside the program's calls only, it stands still while the
    /// program computes ([`in_calls`]).
    fn clock(&self) -> Duration {
        wall_clock()
    }

    /// Sends; returns when `bytes` may be reused.
    ///
    /// # Errors
    /// `InvalidArgument` for a rank or tag out of range; `PeerLost` if `to` died or left; `Timeout` if it does not accept the
    /// message.
    fn send(&self, to: u32, tag: u32, bytes: &[u8]) -> Result<()>;
    /// Receives the next message with `tag` from `from`, or from any rank.
    ///
    /// # Errors
    /// `InvalidArgument` for a rank or tag out of range; `PeerLost`, `Timeout`; `NoMemory` if the message cannot be stored: it
    /// remains and can be received again.
    fn receive(&self, from: Option<u32>, tag: u32) -> Result<Message>;
    /// Starts a send; the request owns the bytes.
    ///
    /// # Errors
    /// As [`Communicator::send`]; errors of the transfer are returned by the request.
    fn start_send(&self, to: u32, tag: u32, bytes: Vec<u8>) -> Result<Box<dyn Request>>;
    /// Starts a receive.
    ///
    /// # Errors
    /// As [`Communicator::receive`]; errors of the transfer are returned by the request.
    fn start_receive(&self, from: Option<u32>, tag: u32) -> Result<Box<dyn Request>>;
    /// Sender and length of the next message with `tag`, if one has arrived; returns immediately.
    ///
    /// # Errors
    /// `InvalidArgument` for a rank or tag out of range; `PeerLost` if `from` died or left.
    fn probe(&self, from: Option<u32>, tag: u32) -> Result<Option<(u32, u64)>>;

    /// Collective: waits for all ranks.
    ///
    /// # Errors
    /// `PeerLost` if a rank died or left, `Timeout` if no rank makes progress for [`Communicator::timeout`].
    fn barrier(&self) -> Result<()>;
    /// Collective: replaces `bytes` by those of `root` on every rank.
    ///
    /// # Errors
    /// As [`Communicator::barrier`]; `InvalidArgument` for an unknown rank `root`; `NoMemory`.
    fn broadcast(&self, root: u32, bytes: &mut Vec<u8>) -> Result<()>;
    /// Collective: gathers the bytes of all ranks on `root`, by rank; `None` on the others. Lengths may differ.
    ///
    /// # Errors
    /// As [`Communicator::broadcast`].
    /// # Cost
    /// Memory for the bytes of all ranks on `root`, and one message to it from each rank with more than 248 bytes.
    fn gather(&self, root: u32, bytes: &[u8]) -> Result<Option<Vec<Vec<u8>>>>;
    /// Collective: gathers the bytes of all ranks on every rank, by rank. Lengths may differ.
    ///
    /// # Errors
    /// As [`Communicator::barrier`]; `NoMemory`.
    /// # Cost
    /// Memory for the bytes of all ranks on each rank; further rounds if any rank has more than 248 bytes.
    fn all_gather(&self, bytes: &[u8]) -> Result<Vec<Vec<u8>>>;
    /// Collective: sends part `r` of `root`'s parts to rank `r`; the other ranks pass `None`.
    ///
    /// # Errors
    /// As [`Communicator::broadcast`]; `InvalidArgument` on all ranks if `root` does not have one part for each rank.
    /// # Cost
    /// One further message for each part of more than 248 bytes.
    fn scatter(&self, root: u32, parts: Option<&[Vec<u8>]>) -> Result<Vec<u8>>;
    /// Collective: sends part `r` of each rank to rank `r`; returns the parts received, by sender.
    ///
    /// # Errors
    /// As [`Communicator::barrier`]; `InvalidArgument` if there is not one part for each rank; `NoMemory`.
    /// # Cost
    /// Memory for the parts of all ranks; one further message for each part of more than 248 bytes.
    fn all_to_all(&self, parts: &[Vec<u8>]) -> Result<Vec<Vec<u8>>>;
    /// Collective: the sum of the values of all lower ranks; 0 on rank 0.
    ///
    /// # Errors
    /// As [`Communicator::barrier`].
    /// # Cost
    /// One scan; up to 16 ranks send and receive a message through rank 0.
    fn exclusive_scan(&self, value: u64) -> Result<u64>;
    /// Collective: combines the values of all ranks element by element; all lists have the same length.
    ///
    /// # Errors
    /// As [`Communicator::barrier`]; `InvalidArgument` if lengths differ.
    /// # Cost
    /// One reduction; up to 16 ranks exchange up to 32 values through rank 0.
    fn all_reduce(&self, values: &[u64], how: Reduce) -> Result<Vec<u64>>;

    /// Collective: creates a communicator of the same ranks with separate messages.
    ///
    /// # Errors
    /// As [`Communicator::barrier`].
    fn duplicate(&self) -> Result<Box<dyn Communicator>>;
    /// Collective: ranks with the same `color` form a communicator, ordered by `key`, then rank; a rank with `None` joins none.
    ///
    /// # Errors
    /// As [`Communicator::barrier`]; `Unsupported` for a color that the library below cannot represent.
    fn split(&self, color: Option<u32>, key: u32) -> Result<Option<Box<dyn Communicator>>>;
    /// Collective: creates a communicator of the ranks that share this rank's node.
    ///
    /// # Errors
    /// As [`Communicator::barrier`].
    fn split_by_node(&self) -> Result<Box<dyn Communicator>>;
    /// Whether ranks on one node can share memory through this communicator; the same on all ranks.
    fn shares_memory(&self) -> bool {
        true
    }
    /// Collective over the ranks of one node: creates memory that all of them share; this rank owns `bytes` of it.
    ///
    /// # Errors
    /// As [`Communicator::barrier`]; `NoMemory`; `OutOfBounds` for more bytes than can be addressed; `Unsupported` if
    /// ranks cannot share memory ([`Communicator::shares_memory`]); that or `InvalidArgument` if they are not on one node.
    fn shared_window(&self, bytes: u64) -> Result<Box<dyn SharedWindow>>;
    /// Declares that nothing of this handle is in flight on any rank, and that it will be dropped: its resources may then be
    /// reused by the next open of the same ranks. Not collective.
    fn set_idle(&self) {}
    /// Collective over the remaining ranks after `PeerLost`: creates a communicator of them, in the old order.
    ///
    /// # Errors
    /// `Unsupported` if the library below cannot continue without a rank; `PeerLost` if another rank is lost meanwhile;
    /// `Timeout`.
    fn survivors(&self) -> Result<Box<dyn Communicator>>;
}
