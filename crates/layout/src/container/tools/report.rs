//! What a check finds in a container, and what a repair may accept.

/// Kinds of findings.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Trouble {
    /// A writer died before it closed. `repair` closes its session with the whole records of its logs.
    Died,
    /// A writer has not closed, and may live or not. `repair` closes its session with [`Accept::open`].
    Open,
    /// A living writer has the file open.
    Writing,
    /// A session is open, and all its writes are published: nothing is missing. `repair` closes it if its process is dead,
    /// or with [`Accept::open`].
    Idle,
    /// An index log is missing, torn or does not match its data log. `repair` rebuilds it.
    Index,
    /// Bytes of a data log are damaged or missing, and lost.
    Data,
    /// A data log is shorter than its mark states: the power failed before the log was durable, or the store lost bytes.
    /// `repair` accepts the shorter log with [`Accept::lost`].
    Lost,
    /// A store is not in the mount.
    Store,
    /// A log without a mark. `repair` removes it.
    Stray,
    /// Bytes that two sessions wrote at the same clock: the greater writer's number won.
    Tie,
}

impl Trouble {
    /// Whether `repair` fixes it.
    pub fn mended(self) -> bool {
        matches!(self, Trouble::Died | Trouble::Open | Trouble::Idle | Trouble::Index | Trouble::Lost | Trouble::Stray)
    }
}

/// What a repair may accept, in addition to the sessions of writers that are known to be dead.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Accept {
    /// Sessions whose writers may live or not. A writer that lives fails at its next publish.
    pub open: bool,
    /// Logs that end early: their whole records are kept.
    pub lost: bool,
}

impl Accept {
    /// Only sessions of dead writers.
    pub const SURE: Accept = Accept { open: false, lost: false };
    /// All open sessions.
    pub const OPEN: Accept = Accept { open: true, lost: false };
    /// Everything.
    pub const ALL: Accept = Accept { open: true, lost: true };
}

/// A finding of a check, or an action of a repair.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Finding {
    /// Its kind.
    pub trouble: Trouble,
    /// The object, or the byte range of the file.
    pub place: String,
    /// Description for users.
    pub words: String,
    /// The repair did not fix it: it needs an option of [`Accept`].
    pub left: bool,
}

/// Result of a check.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Report {
    /// Length of the file, as far as known.
    pub length: u64,
    /// Number of sessions.
    pub sessions: usize,
    /// Records read and checked.
    pub records: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Sorted by trouble, then place.
    pub findings: Vec<Finding>,
}

impl Report {
    /// Whether there is no damage. Ties, living writers and idle sessions are none.
    pub fn is_clean(&self) -> bool {
        self.findings.iter().all(|f| matches!(f.trouble, Trouble::Tie | Trouble::Writing | Trouble::Idle))
    }

    pub(super) fn add(&mut self, trouble: Trouble, place: impl Into<String>, words: impl Into<String>) {
        self.findings.push(Finding { trouble, place: place.into(), words: words.into(), left: false });
    }
}
