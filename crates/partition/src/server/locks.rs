//! The locks and counters of one file. Pure: a table of values, without waiting, time or connections.
//!
//! | question | answer |
//! |----------|--------|
//! | which server | the file's first one, as for the places of appends |
//! | owner | a number for each open description: [`Table::release`] ends all that it has, when it is closed or its client has gone |
//! | an owner's own locks | never conflict: a new lock replaces, splits or joins them, as ranges of `fcntl` do |
//! | waiting | nobody waits here, so nothing is queued: whoever asks first after a release gets the lock |
//! | memory | at most [`MOST_LOCKS`] locks and [`MOST_COUNTERS`] counters for each file |

use std::collections::HashMap;
use thalweg_layout::locks::{Count, Family, Kind, Met, Range};
use thalweg_types::{Error, ErrorKind, Result};

/// Most locks of a family on a file.
pub const MOST_LOCKS: usize = 1 << 14;
/// Most counters of a file.
pub const MOST_COUNTERS: usize = 1 << 12;

/// A lock: bytes `start..end`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Lock {
    owner: u64,
    exclusive: bool,
    start: u64,
    end: u64,
}

impl Lock {
    fn meets(&self, start: u64, end: u64) -> bool {
        self.start < end && start < self.end
    }

    fn met(&self) -> Met {
        let length = if self.end == u64::MAX { 0 } else { self.end - self.start };
        let kind = if self.exclusive { Kind::Exclusive } else { Kind::Shared };
        Met { kind, range: Range { start: self.start, length }, pid: -1 }
    }
}

/// The locks and counters of a file.
#[derive(Debug, Default)]
pub struct Table {
    ranges: Vec<Lock>,
    whole: Vec<Lock>,
    /// Owner and value.
    counters: HashMap<u64, (u64, u64)>,
}

fn conflict(locks: &[Lock], owner: u64, kind: Kind, range: Range) -> Option<Met> {
    let (start, end) = (range.start, range.end());
    let excludes = |lock: &Lock| kind == Kind::Exclusive || lock.exclusive && kind == Kind::Shared;
    locks.iter().find(|lock| lock.owner != owner && lock.meets(start, end) && excludes(lock)).map(Lock::met)
}

impl Table {
    /// Takes, changes or releases a lock. Returns one that conflicts; the table is as before then.
    ///
    /// # Errors
    /// `OutOfBounds` for a range that begins behind the largest file; `NoMemory` where the table is full. The table is as before.
    /// # Cost
    /// Grows with the number of locks on the file.
    pub fn lock(&mut self, owner: u64, family: Family, kind: Kind, range: Range) -> Result<Option<Met>> {
        let (locks, range) = match family {
            Family::Ranges => (&mut self.ranges, range),
            Family::Whole => (&mut self.whole, Range::ALL),
        };
        let (start, end) = (range.start, range.end());
        if start > i64::MAX as u64 {
            return Err(Error::new(ErrorKind::OutOfBounds, "a lock behind the largest file").at_byte(start));
        }
        if let Some(met) = conflict(locks, owner, kind, range) {
            return Ok(Some(met));
        }
        // A lock of its own in the middle of another one makes three of one.
        if locks.len() + 2 > MOST_LOCKS && kind != Kind::None {
            return Err(Error::new(ErrorKind::NoMemory, format!("a file has at most {MOST_LOCKS} locks")));
        }
        let mut new = (kind != Kind::None).then_some(Lock { owner, exclusive: kind == Kind::Exclusive, start, end });
        let mut rest = Vec::new();
        locks.retain(|lock| {
            if lock.owner != owner {
                return true;
            }
            match &mut new {
                // Equal neighbours become one.
                Some(new) if new.exclusive == lock.exclusive && lock.start <= new.end && new.start <= lock.end => {
                    (new.start, new.end) = (new.start.min(lock.start), new.end.max(lock.end));
                    false
                }
                _ if lock.meets(start, end) => {
                    rest.extend([Lock { end: start, ..*lock }, Lock { start: end, ..*lock }]);
                    false
                }
                _ => true,
            }
        });
        locks.extend(rest.into_iter().filter(|lock| lock.start < lock.end).chain(new));
        Ok(None)
    }

    /// A lock on a range that conflicts with a requested one.
    pub fn test(&self, owner: u64, kind: Kind, range: Range) -> Option<Met> {
        conflict(&self.ranges, owner, kind, range)
    }

    /// Makes a counter that begins at 0 and ends with its owner.
    ///
    /// # Errors
    /// `AlreadyExists`; `NoMemory` where the table is full.
    pub fn make_counter(&mut self, owner: u64, key: u64) -> Result<()> {
        if self.counters.contains_key(&key) {
            return Err(Error::new(ErrorKind::AlreadyExists, "the file has a counter of this key"));
        }
        if self.counters.len() >= MOST_COUNTERS {
            return Err(Error::new(ErrorKind::NoMemory, format!("a file has at most {MOST_COUNTERS} counters")));
        }
        self.counters.insert(key, (owner, 0));
        Ok(())
    }

    /// Changes a counter; returns its value before.
    ///
    /// # Errors
    /// `PeerLost` if there is none.
    pub fn count(&mut self, key: u64, count: Count) -> Result<u64> {
        let lost = "this counter is lost: the process that made it has ended, or the server was started again";
        let (_, value) = self.counters.get_mut(&key).ok_or_else(|| Error::new(ErrorKind::PeerLost, lost))?;
        let before = *value;
        *value = count.after(before);
        Ok(before)
    }

    /// Ends all that an owner has.
    pub fn release(&mut self, owner: u64) {
        self.ranges.retain(|lock| lock.owner != owner);
        self.whole.retain(|lock| lock.owner != owner);
        self.counters.retain(|_, (of, _)| *of != owner);
    }

    /// Number of locks of both families, and of counters.
    pub fn held(&self) -> (usize, usize) {
        (self.ranges.len() + self.whole.len(), self.counters.len())
    }
}
