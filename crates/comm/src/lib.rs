//! Communicators: the ranks that open a file together.
//!
//! | room | what it owns |
//! |------|--------------|
//! | [`alone`] | one rank, no peers |
//! | [`threads`] | hundreds of ranks as threads of one process, for tests and small machines |
//! | [`watched`] | shows what passes through a communicator to whoever watches |
//! | [`counting`] | counts what passes, by kind of call |
//! | [`inbox`] | which receive gets which message; shared by all of them |
//! | [`check`] | checks of arguments, in the same words everywhere |
//! | [`agreement`] | all ranks learn the same outcome in one reduction |
//! | [`guarded`] | a panic between two collective calls becomes an error |
//! | [`tree`] | who sends to whom on the way to rank 0, as a pure function |
//! | [`tree_gather`] | what every rank has to say travels to rank 0 up a tree, joined on the way |
//! | [`tags`] | the one table of message tags of the library |
//!
//! `thalweg-comm-mpi` is the same trait over an MPI library. Every wait is bounded by [`Communicator::timeout`]; a
//! rank that died or left makes the others' calls fail with `PeerLost` (or `Timeout` where it cannot be told apart).
#![forbid(unsafe_code)]

use std::time::Duration;
use thalweg_types::{Error, ErrorKind, Result};

pub mod agreement;
pub mod alone;
pub mod check;
pub mod counting;
pub mod guarded;
pub mod inbox;
pub mod tags;
pub mod threads;
pub mod tree;
pub mod tree_gather;
pub mod watched;

/// The longest wait inside one call unless [`Communicator::set_timeout`] says otherwise.
pub const DEFAULT_TIMEOUT: Duration = Duration::from_secs(600);

/// Zeros, or `NoMemory`.
fn zeroed(bytes: u64) -> Result<Vec<u8>> {
    let no_memory = || Error::new(ErrorKind::NoMemory, format!("{bytes} bytes for a shared window"));
    let count = usize::try_from(bytes).map_err(|_| no_memory())?;
    let mut part = Vec::new();
    part.try_reserve_exact(count).map_err(|_| no_memory())?;
    part.resize(count, 0);
    Ok(part)
}

/// What a receive says that waited in vain.
pub fn no_message(from: Option<u32>, tag: u32, waited: Duration) -> Error {
    let sender = from.map_or("any rank".to_owned(), |from| format!("rank {from}"));
    Error::new(ErrorKind::Timeout, format!("no message with tag {tag} from {sender} within {waited:?}"))
}

/// How many threads may call the communicator, as in MPI.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum ThreadLevel {
    /// Only the thread that initialised.
    Single,
    /// The process has threads; only the main one calls.
    Funneled,
    /// Any thread, one at a time.
    Serialized,
    /// Any thread at any time.
    Multiple,
}

impl Reduce {
    /// The two values as one.
    pub fn combine(self, a: u64, b: u64) -> u64 {
        match self {
            Reduce::Sum => a.wrapping_add(b),
            Reduce::Min => a.min(b),
            Reduce::Max => a.max(b),
        }
    }
}

/// A message that came in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Message {
    /// Who sent it.
    pub from: u32,
    /// With which tag.
    pub tag: u32,
    /// What it says.
    pub bytes: Vec<u8>,
}

/// How [`Communicator::all_reduce`] combines.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reduce {
    /// Adds, wrapping.
    Sum,
    /// Keeps the smallest.
    Min,
    /// Keeps the largest.
    Max,
}

/// A send or receive under way. Dropping one waits for a send and cancels a receive.
pub trait Request {
    /// Whether it is done, without waiting.
    fn test(&mut self) -> Result<bool>;
    /// Waits (bounded); a receive returns its message, a send `None`.
    fn wait(self: Box<Self>) -> Result<Option<Message>>;
}

/// Memory that all ranks of a node see. Each rank owns one part.
pub trait SharedWindow: Send {
    /// Bytes of the part of `rank`.
    fn length(&self, rank: u32) -> u64;
    /// Copies into the part of `rank`; `OutOfBounds` where it leaves it.
    fn put(&self, rank: u32, offset: u64, bytes: &[u8]) -> Result<()>;
    /// Copies out of the part of `rank`; `OutOfBounds` where it leaves it.
    fn get(&self, rank: u32, offset: u64, out: &mut [u8]) -> Result<()>;
    /// Shows bytes of this rank's own part without copying them; `OutOfBounds` where they leave it.
    ///
    /// What others have put there and told by a message is seen. Nobody may put there until `with` is over, and `with` calls
    /// nothing of the window but `put` to another rank: the ranks agree on that.
    fn show(&self, offset: u64, length: u64, with: &mut dyn FnMut(&[u8])) -> Result<()>;
    /// Makes this rank's writes visible and waits for all ranks of the window.
    fn fence(&self) -> Result<()>;
}

/// The ranks that open a file together.
///
/// Collective calls (marked) must be made by every rank in the same order. Message order between two ranks with one
/// tag is kept. Tags are below 2^15; the upper half of that is the library's.
pub trait Communicator: Send {
    /// This process, from 0.
    fn rank(&self) -> u32;
    /// Number of processes, at least 1.
    fn size(&self) -> u32;
    /// How many threads may call.
    fn thread_level(&self) -> ThreadLevel;
    /// Longest wait inside one call; the default of every communicator is 10 minutes.
    fn timeout(&self) -> Duration;
    /// Sets it for this handle; communicators made from it afterwards keep it.
    fn set_timeout(&mut self, timeout: Duration);

    /// Sends; returns when `bytes` may be reused.
    fn send(&self, to: u32, tag: u32, bytes: &[u8]) -> Result<()>;
    /// Receives the next message with `tag` from `from`, or from anyone.
    fn receive(&self, from: Option<u32>, tag: u32) -> Result<Message>;
    /// Starts a send; the bytes are owned by the request.
    fn start_send(&self, to: u32, tag: u32, bytes: Vec<u8>) -> Result<Box<dyn Request + '_>>;
    /// Starts a receive.
    fn start_receive(&self, from: Option<u32>, tag: u32) -> Result<Box<dyn Request + '_>>;
    /// Sender and length of the next message with `tag`, if one is there.
    fn probe(&self, from: Option<u32>, tag: u32) -> Result<Option<(u32, u64)>>;

    /// Collective: waits for all.
    fn barrier(&self) -> Result<()>;
    /// Collective: `bytes` of `root` on every rank.
    fn broadcast(&self, root: u32, bytes: &mut Vec<u8>) -> Result<()>;
    /// Collective: everyone's bytes on `root`, by rank; `None` elsewhere. Lengths may differ.
    fn gather(&self, root: u32, bytes: &[u8]) -> Result<Option<Vec<Vec<u8>>>>;
    /// Collective: everyone's bytes on every rank, by rank. Lengths may differ.
    fn all_gather(&self, bytes: &[u8]) -> Result<Vec<Vec<u8>>>;
    /// Collective: part `r` of what `root` gives goes to rank `r`; the others give `None`.
    fn scatter(&self, root: u32, parts: Option<&[Vec<u8>]>) -> Result<Vec<u8>>;
    /// Collective: part `r` of what each rank gives goes to rank `r`; what came, by sender.
    fn all_to_all(&self, parts: &[Vec<u8>]) -> Result<Vec<Vec<u8>>>;
    /// Collective: the sum of the values of all lower ranks; 0 on rank 0.
    fn exclusive_scan(&self, value: u64) -> Result<u64>;
    /// Collective: element by element over all ranks; lists are equally long.
    fn all_reduce(&self, values: &[u64], how: Reduce) -> Result<Vec<u64>>;

    /// Collective: a communicator of the same ranks whose messages never mix with this one's.
    fn duplicate(&self) -> Result<Box<dyn Communicator>>;
    /// Collective: ranks with one `color` become one communicator, ordered by `key`, then rank; `None` leaves out.
    fn split(&self, color: Option<u32>, key: u32) -> Result<Option<Box<dyn Communicator>>>;
    /// Collective: the ranks that share this rank's node.
    fn split_by_node(&self) -> Result<Box<dyn Communicator>>;
    /// Collective over the ranks of one node: memory that all of them see, `bytes` of it owned by this rank.
    fn shared_window(&self, bytes: u64) -> Result<Box<dyn SharedWindow>>;
    /// Says that nothing of this handle's is under way any more, here or on any other rank, and that it will be dropped: what it
    /// stands on may then serve the next one who opens something with the same ranks. Not collective.
    fn set_idle(&self) {}
    /// Collective over the ranks that are left after `PeerLost`: a communicator of these, in the old order.
    /// `Unsupported` where the library below cannot go on without a rank.
    fn survivors(&self) -> Result<Box<dyn Communicator>>;
}
