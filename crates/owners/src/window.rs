//! The state of one output window on one rank.

use crate::domains::Domains;
use crate::ending::{Ending, Report, Sums};
use crate::gather::Gather;
use crate::options::Options;
use crate::outbox::Outbox;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use thalweg_comm::Communicator;
use thalweg_comm::tree::Node;
use thalweg_types::{Error, Extent, Result};

/// An output window of an open file; the same number on all ranks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct WindowId(pub u64);

/// A window whose bytes are all written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Completed {
    /// Bytes of all ranks.
    pub bytes: u64,
}

/// How a window ended, for a program that goes on with the bytes that are written.
pub struct Ended {
    /// As [`crate::File::wait`] returns it.
    pub outcome: Result<Completed>,
    domains: Arc<Domains>,
    /// Ranks of the owners that failed; `None` if that is not known.
    failed: Option<Vec<u32>>,
    overdue: bool,
}

impl Ended {
    pub(crate) fn new(window: Window, outcome: Result<Completed>) -> Ended {
        Ended { outcome, domains: window.domains, failed: window.failed, overdue: window.overdue }
    }

    /// Whether all ranks ended their part, and all owners reported in time: a failure then is one of bytes and their store.
    pub fn is_complete(&self) -> bool {
        self.failed.is_some() && !self.overdue
    }

    /// Whether bytes that ranks wrote to this extent of the window are written for certain; the same on all ranks.
    pub fn wrote(&self, extent: Extent) -> bool {
        let Some(failed) = &self.failed else { return self.outcome.is_ok() };
        let is_safe = |owner: usize| failed.binary_search(&self.domains.owners()[owner]).is_err();
        self.domains.cut(extent).is_ok_and(|mut pieces| pieces.all(|piece| is_safe(piece.owner)))
    }
}

/// Called with the result of a window, inside a call of the program.
pub type Callback = Box<dyn FnOnce(Result<Completed>) + Send>;

/// Bytes that rank 0 writes when all bytes of a window are written, such as a header that makes them valid.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Commit {
    /// First byte in the file, inside the window or outside.
    pub offset: u64,
    /// The bytes.
    pub bytes: Vec<u8>,
}

/// When an owner is done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Expected {
    /// When it has received this many bytes.
    Bytes(u64),
    /// Now: the rest will not come in time.
    WhatCame,
}

/// A window on a rank that owns stripes of it.
pub(crate) struct Owned {
    pub gather: Gather,
    /// Ranks that wait for a grant, and the memory that they need; a rank waits at most once.
    pub wants: VecDeque<(u32, u64)>,
    /// Memory that was granted and not yet used, by rank.
    pub grants: BTreeMap<u32, u64>,
    pub expected: Option<Expected>,
    pub failed: Option<Error>,
    pub wrote: bool,
    pub reported: bool,
}

impl Owned {
    /// Memory that is held or granted.
    pub fn memory(&self) -> u64 {
        self.gather.memory() + self.grants.values().sum::<u64>()
    }

    /// Whether no byte will come any more.
    pub fn all_came(&self) -> bool {
        match self.expected {
            None => false,
            Some(Expected::Bytes(bytes)) => self.gather.received() >= bytes,
            Some(Expected::WhatCame) => true,
        }
    }

    /// Records a failure and stops keeping bytes. The first failure counts.
    pub fn fail(&mut self, error: Error) {
        self.gather.discard();
        self.failed.get_or_insert(error);
    }
}

/// What rank 0 waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Stage {
    /// For all ranks to end their part.
    #[default]
    Ending,
    /// For the owners, which know how many bytes come.
    Writing,
    /// For the owners, which report what has come by now.
    Judging,
}

/// A window on rank 0.
#[derive(Default)]
pub(crate) struct Root {
    pub stage: Stage,
    pub reports: BTreeMap<u32, Report>,
    /// Ranks that others wait for.
    pub waited_for: BTreeSet<u32>,
    /// Ranks that wait themselves.
    pub waiting: BTreeSet<u32>,
    /// Ranks that did not end their part in time.
    pub late: Vec<u32>,
    pub commit: Option<Commit>,
}

/// The communicator's time ([`thalweg_comm::Communicator::clock`]) at the last look, in microseconds, for the windows of a file.
#[derive(Debug, Clone, Default)]
pub(crate) struct Now(Arc<AtomicU64>);

impl Now {
    /// Looks at the communicator's clock.
    pub fn look(&self, comm: &dyn Communicator) {
        self.0.store(u64::try_from(comm.clock().as_micros()).unwrap_or(u64::MAX), Ordering::Relaxed);
    }

    /// The time at the last look.
    pub fn get(&self) -> Duration {
        Duration::from_micros(self.0.load(Ordering::Relaxed))
    }
}

/// Measures the time without events.
pub(crate) struct Clock {
    pub limit: Duration,
    pub last: Duration,
    now: Now,
    /// Something happened here that other ranks do not know of.
    moved: bool,
    told: Duration,
}

impl Clock {
    fn new(limit: Duration, now: Now) -> Clock {
        let (last, told) = (now.get(), now.get());
        Clock { limit, last, now, moved: false, told }
    }

    /// Something happened on this rank.
    pub fn event(&mut self) {
        self.last = self.now.get();
        self.moved = true;
    }

    /// Another rank says that something happened.
    pub fn hear(&mut self) {
        self.last = self.now.get();
    }

    /// Whether others should be told now that something happened.
    pub fn should_tell(&mut self) -> bool {
        let now = self.now.get();
        let tell = self.moved && now.saturating_sub(self.told) >= self.limit / 4;
        if tell {
            (self.moved, self.told) = (false, now);
        }
        tell
    }

    /// Time since the last event, in time limits.
    pub fn quiet_for(&self, part: f64) -> bool {
        self.now.get().saturating_sub(self.last) > self.limit.mul_f64(part)
    }
}

/// One output window.
pub(crate) struct Window {
    pub domains: Arc<Domains>,
    pub durable: bool,
    pub holes: bool,
    pub closes: bool,
    /// By number of the owner.
    pub outboxes: BTreeMap<usize, Outbox>,
    /// Memory of the bytes in the outboxes.
    pub queued: u64,
    /// What this rank wrote.
    pub sums: Sums,
    pub ended: bool,
    pub ending: Ending,
    pub told_parent: bool,
    pub told_late: bool,
    pub owned: Option<Owned>,
    pub root: Option<Root>,
    pub clock: Clock,
    pub outcome: Option<Result<Completed>>,
    /// Once rank 0 has decided: the owners that failed.
    pub failed: Option<Vec<u32>>,
    /// Rank 0 did not wait any longer.
    pub overdue: bool,
    pub callback: Option<Callback>,
}

impl Window {
    pub fn new(domains: Domains, node: &Node, options: &Options, limit: Duration, now: &Now) -> Window {
        let (domains, rank) = (Arc::new(domains), node.ranks.start);
        let owned = domains.number_of(rank).map(|number| Owned {
            gather: Gather::new(domains.clone(), number),
            wants: VecDeque::new(),
            grants: BTreeMap::new(),
            expected: None,
            failed: None,
            wrote: false,
            reported: false,
        });
        Window {
            domains,
            durable: options.durable,
            holes: options.holes,
            closes: options.closes,
            outboxes: BTreeMap::new(),
            queued: 0,
            sums: Sums::default(),
            ended: false,
            ending: Ending::new(node),
            told_parent: false,
            told_late: false,
            owned,
            root: (rank == 0).then(Root::default),
            clock: Clock::new(limit, now.clone()),
            outcome: None,
            failed: None,
            overdue: false,
            callback: None,
        }
    }

    /// Sets the result, and drops what is no longer needed.
    pub fn finish(&mut self, outcome: Result<Completed>) {
        self.outcome = Some(outcome);
        self.outboxes.clear();
        self.queued = 0;
        self.owned = None;
        self.root = None;
    }

    /// The owners that have bytes: their numbers and ranks.
    pub fn owners(&self) -> Vec<(u32, u32)> {
        let numbered = (0..).zip(self.domains.owners());
        numbered
            .filter(|(number, _)| self.domains.stripes_of(*number as usize).next().is_some())
            .map(|(n, rank)| (n, *rank))
            .collect()
    }
}
