//! Locks and counters that a file's server keeps, for processes of all hosts.
//!
//! | question | answer |
//! |----------|--------|
//! | owner | a [`FileLocks`]: one open file description. Its own locks never conflict; a new lock replaces its older ones on the same bytes |
//! | waiting | the server never waits: a lock that cannot be taken is answered with one that conflicts, and the caller asks again. Callers that do so soon get their turns in the order of their first requests |
//! | end | locks and counters end when their [`FileLocks`] is dropped, and when the server learns that its process has ended |
//! | a server that ends | forgets all of them: each later call is an error, so that nobody goes on with a lock that another process may have |

use thalweg_types::Result;

/// Kind of a lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Shared: excludes exclusive locks.
    Shared,
    /// Exclusive: excludes all locks.
    Exclusive,
    /// None: releases a lock.
    None,
}

/// A run of bytes, which may lie beyond the end of the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Range {
    /// Its first byte.
    pub start: u64,
    /// Its length; 0 for all that follows, however long the file becomes.
    pub length: u64,
}

impl Range {
    /// All bytes.
    pub const ALL: Range = Range { start: 0, length: 0 };

    /// The byte behind its last one; the largest number for all that follows.
    pub fn end(&self) -> u64 {
        if self.length == 0 { u64::MAX } else { self.start.saturating_add(self.length) }
    }
}

/// Which locks a lock can conflict with. Both kinds of calls are independent of each other, as on a local filesystem.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Family {
    /// Those of `flock`.
    Whole,
    /// Those of ranges.
    Ranges,
}

/// A lock that conflicts with a requested one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Met {
    /// Shared or exclusive.
    pub kind: Kind,
    /// Its bytes.
    pub range: Range,
    /// PID of its process; -1 if a file description owns it, as the system reports it.
    pub pid: i32,
}

/// Why a lock was not taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Refused {
    /// A lock that conflicts: one that another description has, or that one waits for whose turn comes first.
    pub met: Met,
    /// How many descriptions wait for conflicting locks and come first.
    pub ahead: u32,
}

/// What happens to a counter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Count {
    /// It stays.
    Read,
    /// It gets this value.
    Set(u64),
    /// It grows by so much, to the largest number at most.
    Add(u64),
}

impl Count {
    /// The counter afterwards.
    pub fn after(self, before: u64) -> u64 {
        match self {
            Count::Read => before,
            Count::Set(to) => to,
            Count::Add(more) => before.saturating_add(more),
        }
    }
}

/// A description of an open file for locks and counters. Any thread may call it.
///
/// # Errors
/// Each call: `PeerLost` or `Timeout` names a server that ended or does not answer: its locks and counters are lost.
/// # Cost
/// Each call is one request.
pub trait FileLocks: Send + Sync {
    /// Takes, changes or releases a lock, without waiting. Returns why it was not taken; no lock was changed then.
    ///
    /// - `again`: the caller asks again soon if it is refused: it gets a turn, and leaves that of others to them. A description that
    ///   has a lock, and a caller that does not ask again, take every lock that conflicts with none.
    ///
    /// # Errors
    /// `NoMemory` for more locks than a server keeps for a file; `OutOfBounds` for a range that begins behind the largest file.
    fn lock(&self, family: Family, kind: Kind, range: Range, again: bool) -> Result<Option<Refused>>;
    /// A lock on a range that conflicts with the requested one, if there is one.
    ///
    /// # Errors
    /// Those of each call.
    fn test(&self, kind: Kind, range: Range) -> Result<Option<Met>>;
    /// Makes a counter that begins at 0 and ends with this description.
    ///
    /// - `key`: a number that no other counter of the file has: random.
    ///
    /// # Errors
    /// `AlreadyExists`; `NoMemory` for more counters than a server keeps for a file.
    fn make_counter(&self, key: u64) -> Result<()>;
    /// Changes a counter, which may belong to another description; returns its value before.
    ///
    /// # Errors
    /// `PeerLost` if there is none: its owner has ended, or the server was started again.
    fn count(&self, key: u64, count: Count) -> Result<u64>;
}
