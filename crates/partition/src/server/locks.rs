//! The locks and counters of one file. Pure: a table of values, without waiting, time or connections.
//!
//! | question | answer |
//! |----------|--------|
//! | which server | the file's first one, as for the places of appends |
//! | owner | a number for each open description: [`Table::release`] ends all that it has, when it is closed or its client has gone |
//! | an owner's own locks | never conflict: a new lock replaces, splits or joins them, as ranges of `fcntl` do |
//! | waiting | nobody waits here: a caller is refused and asks again. One that does so within [`TURN`] keeps its turn, and those behind it are refused as if it had its lock: a lock that is released and taken again at once does not keep others away |
//! | who needs no turn | a description that has a lock of the file, as the one whose turn it is may wait for that lock; a caller that does not ask again |
//! | who has what | [`Table::status`]: the clients of locks and of turns, since when, and who waits for whom |
//! | memory | at most [`MOST_LOCKS`] locks and [`MOST_COUNTERS`] counters for each file |

use std::collections::HashMap;
use std::time::{Duration, Instant};
use thalweg_layout::locks::{Count, Family, Kind, Met, Range, Refused};
use thalweg_types::{Error, ErrorKind, Result};

/// Most locks of a family on a file.
pub const MOST_LOCKS: usize = 1 << 14;
/// Time after which a caller that does not ask again has lost its turn: several of the longest pauses of a
/// caller, which is 20 ms, with the time of a request.
pub const TURN: Duration = Duration::from_millis(150);
/// Most counters of a file.
pub const MOST_COUNTERS: usize = 1 << 12;

/// A lock: bytes `start..end`.
#[derive(Debug, Clone, Copy)]
struct Lock {
    owner: u64,
    exclusive: bool,
    start: u64,
    end: u64,
    /// When it was taken or first asked for.
    since: Instant,
}

impl Lock {
    fn excludes(&self, wanted: &Lock) -> bool {
        let meets = self.start < wanted.end && wanted.start < self.end;
        self.owner != wanted.owner && meets && (self.exclusive || wanted.exclusive)
    }

    /// Whether two calls ask for the same.
    fn is(&self, other: &Lock) -> bool {
        let key = |lock: &Lock| (lock.owner, lock.exclusive, lock.start, lock.end);
        key(self) == key(other)
    }

    fn met(&self) -> Met {
        let length = if self.end == u64::MAX { 0 } else { self.end - self.start };
        let kind = if self.exclusive { Kind::Exclusive } else { Kind::Shared };
        Met { kind, range: Range { start: self.start, length }, pid: -1 }
    }
}

/// A lock that a caller waits for, and when it asked last.
#[derive(Debug)]
struct Waiting {
    wanted: Lock,
    asked: Instant,
}

/// The locks of one family.
#[derive(Debug, Default)]
struct Locks {
    held: Vec<Lock>,
    /// In the order of their turns.
    waiting: Vec<Waiting>,
}

/// The locks and counters of a file.
#[derive(Debug, Default)]
pub struct Table {
    ranges: Locks,
    whole: Locks,
    /// Owner and value.
    counters: HashMap<u64, (u64, u64)>,
    /// Clients of the owners, for [`Table::status`].
    clients: HashMap<u64, String>,
}

/// A lock that a client has, or waits for.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct LockStatus {
    /// Name of the file's data; empty in a table, which knows none.
    pub file: String,
    /// The client.
    pub client: String,
    /// Whether it excludes shared locks.
    pub exclusive: bool,
    /// Whether it is of the whole file, not of a range.
    pub whole: bool,
    /// First byte.
    pub start: u64,
    /// Number of bytes; 0: all that follow.
    pub length: u64,
    /// Milliseconds since the client has it, or asked for it first.
    pub ms: u64,
    /// The client for which this one waits; `None` for one that has the lock.
    pub waits_for: Option<String>,
}

impl Locks {
    fn conflict(&self, wanted: &Lock) -> Option<Met> {
        self.held.iter().find(|lock| lock.excludes(wanted)).map(Lock::met)
    }

    /// Why a lock cannot be taken now. Keeps the turn of a caller that asks again.
    fn refuse(&mut self, wanted: Lock, now: Instant, again: bool) -> Option<Refused> {
        self.waiting.retain(|waiting| now.saturating_duration_since(waiting.asked) <= TURN);
        let place = self.waiting.iter().position(|waiting| waiting.wanted.is(&wanted));
        let first = &self.waiting[..place.unwrap_or(self.waiting.len())];
        let mut first = first.iter().map(|waiting| &waiting.wanted).filter(|other| other.excludes(&wanted));
        let turn = first.next().map(Lock::met);
        let ahead = turn.map_or(0, |_| 1 + first.count() as u32);
        let needs_turn = again && !self.held.iter().any(|lock| lock.owner == wanted.owner);
        let met = self.conflict(&wanted).or(turn.filter(|_| needs_turn));
        match (met, place) {
            (Some(_), Some(place)) if again => self.waiting[place].asked = now,
            (Some(_), None) if again && self.waiting.len() < MOST_LOCKS => {
                self.waiting.push(Waiting { wanted, asked: now });
            }
            (None, Some(place)) => drop(self.waiting.remove(place)),
            _ => {}
        }
        met.map(|met| Refused { met, ahead })
    }

    /// Gives an owner a lock, or none, on `start..end`.
    fn replace(&mut self, owner: u64, kind: Kind, (start, end): (u64, u64), since: Instant) {
        let exclusive = kind == Kind::Exclusive;
        let mut new = (kind != Kind::None).then_some(Lock { owner, exclusive, start, end, since });
        let mut rest = Vec::new();
        self.held.retain(|lock| {
            if lock.owner != owner {
                return true;
            }
            match &mut new {
                // Equal neighbours become one.
                Some(new) if new.exclusive == lock.exclusive && lock.start <= new.end && new.start <= lock.end => {
                    (new.start, new.end) = (new.start.min(lock.start), new.end.max(lock.end));
                    new.since = new.since.min(lock.since);
                    false
                }
                _ if lock.start < end && start < lock.end => {
                    rest.extend([Lock { end: start, ..*lock }, Lock { start: end, ..*lock }]);
                    false
                }
                _ => true,
            }
        });
        self.held.extend(rest.into_iter().filter(|lock| lock.start < lock.end).chain(new));
    }

    fn release(&mut self, owner: u64) {
        self.held.retain(|lock| lock.owner != owner);
        self.waiting.retain(|waiting| waiting.wanted.owner != owner);
    }
}

impl Table {
    /// Takes, changes or releases a lock. Returns why not; the locks are as before then.
    ///
    /// - `again`: as for [`thalweg_layout::locks::FileLocks::lock`].
    ///
    /// # Errors
    /// `OutOfBounds` for a range that begins behind the largest file; `NoMemory` where the table is full. The table is as before.
    /// # Cost
    /// Grows with the number of locks on the file, and of those that callers wait for.
    pub fn lock(
        &mut self,
        owner: u64,
        (family, kind, range): (Family, Kind, Range),
        now: Instant,
        again: bool,
    ) -> Result<Option<Refused>> {
        let (locks, range) = match family {
            Family::Ranges => (&mut self.ranges, range),
            Family::Whole => (&mut self.whole, Range::ALL),
        };
        let (start, end) = (range.start, range.end());
        if start > i64::MAX as u64 {
            return Err(Error::new(ErrorKind::OutOfBounds, "a lock behind the largest file").at_byte(start));
        }
        if kind != Kind::None {
            let wanted = Lock { owner, exclusive: kind == Kind::Exclusive, start, end, since: now };
            if let Some(refused) = locks.refuse(wanted, now, again) {
                return Ok(Some(refused));
            }
            // A lock of its own in the middle of another one makes three of one.
            if locks.held.len() + 2 > MOST_LOCKS {
                return Err(Error::new(ErrorKind::NoMemory, format!("a file has at most {MOST_LOCKS} locks")));
            }
        }
        locks.replace(owner, kind, (start, end), now);
        Ok(None)
    }

    /// A lock on a range that conflicts with a requested one.
    pub fn test(&self, owner: u64, kind: Kind, range: Range) -> Option<Met> {
        let (exclusive, end) = (kind == Kind::Exclusive, range.end());
        let wanted = Lock { owner, exclusive, start: range.start, end, since: Instant::now() };
        self.ranges.conflict(&wanted).filter(|_| kind != Kind::None)
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
        self.ranges.release(owner);
        self.whole.release(owner);
        self.counters.retain(|_, (of, _)| *of != owner);
        self.clients.remove(&owner);
    }

    /// Names the client of an owner, for [`Table::status`].
    pub fn name(&mut self, owner: u64, client: String) {
        self.clients.insert(owner, client);
    }

    /// The locks that clients have, and behind them those that they wait for, in the order of their turns.
    pub fn status(&self, now: Instant) -> Vec<LockStatus> {
        let client = |lock: &Lock| self.clients.get(&lock.owner).cloned().unwrap_or_default();
        let told = |lock: &Lock, whole, waits_for| {
            let Met { range, .. } = lock.met();
            LockStatus {
                file: String::new(),
                client: client(lock),
                exclusive: lock.exclusive,
                whole,
                start: range.start,
                length: range.length,
                ms: now.saturating_duration_since(lock.since).as_millis() as u64,
                waits_for,
            }
        };
        let mut all = Vec::new();
        for (locks, whole) in [(&self.ranges, false), (&self.whole, true)] {
            all.extend(locks.held.iter().map(|lock| told(lock, whole, None)));
            let in_turn = |waiting: &&Waiting| now.saturating_duration_since(waiting.asked) <= TURN;
            let waiting: Vec<&Lock> = locks.waiting.iter().filter(in_turn).map(|waiting| &waiting.wanted).collect();
            for (place, wanted) in waiting.iter().enumerate() {
                let before = locks.held.iter().chain(waiting[..place].iter().copied());
                let met = before.into_iter().find(|lock| lock.excludes(wanted));
                // Free since it asked last: it has the lock when it asks again.
                all.push(told(wanted, whole, Some(met.map(client).unwrap_or_default())));
            }
        }
        all
    }

    /// Number of locks of both families, and of counters.
    pub fn held(&self) -> (usize, usize) {
        (self.ranges.held.len() + self.whole.held.len(), self.counters.len())
    }
}
