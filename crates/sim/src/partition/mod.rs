//! Collective calls on files that are striped over data servers, in virtual time: a partition's own way beside two-phase.
//!
//! | contender | who sends to servers | room |
//! |---|---|---|
//! | `partition` | every rank, its own bytes; servers scatter and gather them by its view, which they got once (`optimizations = 0`) | [`clock`] |
//! | `two-phase` | aggregators, one per node, after an exchange of bytes among ranks; the same servers (`optimizations = 1`) | [`clock`] |
//! | `pvfs2` | as `two-phase`, each request asked for first, then in flows of `flow_kib`: PVFS2 below ROMIO | [`clock`] |
//!
//! | thing | how it behaves |
//! |---|---|
//! | message | waits for the sender's link, arrives a latency later, waits for the receiver's link, then for the server's processor |
//! | server | one processor: per message, per byte and per run of the file. It replies when the bytes are in its memory |
//! | write | waits for the server's disk where more than `cache_mib` are in memory. Between collective calls the program computes for so long that all is written; a program that writes once waits for the disks at its end |
//! | read | finds its bytes in the server's memory |
//! | aggregator | per byte of the exchange, and per offset-length pair. All begin a round together: each begins with a message of all ranks to all |
//!
//! No noise. The plan ([`plan`]) comes from the code of `thalweg-view`, `thalweg-partition` and `thalweg-movement`; time alone is simulated.
//! Source: Isaila et al., *AHPIOS*, sections 3.1 and 4; two-phase: Thakur, Gropp, Lusk, Frontiers 1999.

pub mod clock;
pub mod plan;
pub mod published;
pub mod station;

use crate::load::Load;
use crate::machine::Machine;
use plan::{Plan, Wire};
use thalweg_types::{Error, ErrorKind, Result};

/// Who carries out collective calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Contender {
    /// A partition with `optimizations = 0`.
    Full,
    /// A partition with `optimizations = 1`.
    TwoPhase,
    /// Two-phase on PVFS2.
    Pvfs2,
}

/// All contenders.
pub const CONTENDERS: [Contender; 3] = [Contender::Full, Contender::TwoPhase, Contender::Pvfs2];

impl Contender {
    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Contender::Full => "partition",
            Contender::TwoPhase => "two-phase",
            Contender::Pvfs2 => "pvfs2",
        }
    }
}

/// Writes or reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// From ranks to servers.
    Write,
    /// From servers to ranks.
    Read,
}

/// Seconds of a contender with a load.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Timed {
    /// Who.
    pub contender: Contender,
    /// In all collective writes: of each, from its begin until its last rank returns.
    pub write_seconds: f64,
    /// In all collective reads.
    pub read_seconds: f64,
    /// What its writes sent.
    pub wire: Wire,
}

impl Timed {
    /// Seconds of one direction.
    pub fn seconds(&self, direction: Direction) -> f64 {
        match direction {
            Direction::Write => self.write_seconds,
            Direction::Read => self.read_seconds,
        }
    }
}

/// Most ranks of a load: each has a view of its own.
pub const MOST_RANKS: u32 = 4096;

/// The plans of all contenders with a load.
///
/// # Errors
/// `InvalidArgument` where the load cannot be divided among the ranks; `Config` for a machine without servers.
pub fn plans(machine: &Machine, load: Load, ranks: u32) -> Result<[Plan; 3]> {
    if ranks == 0 || ranks > MOST_RANKS {
        let what = format!("a load of {ranks} ranks can't be simulated; 1 to {MOST_RANKS} can");
        return Err(Error::new(ErrorKind::InvalidArgument, what));
    }
    let [full, two_phase, pvfs2] = CONTENDERS;
    let plan = |contender| Plan::new(machine, load, ranks, contender);
    Ok([plan(full)?, plan(two_phase)?, plan(pvfs2)?])
}

/// Carries out the writes, then the reads of a plan.
///
/// # Errors
/// `Config` for a machine without servers.
pub fn timed(machine: &Machine, plan: &Plan) -> Result<Timed> {
    Ok(Timed {
        contender: plan.contender,
        write_seconds: clock::seconds(machine, plan, Direction::Write)?,
        read_seconds: clock::seconds(machine, plan, Direction::Read)?,
        wire: plan.wire,
    })
}

/// All contenders with a load.
///
/// # Errors
/// As [`plans`].
pub fn compare(machine: &Machine, load: Load, ranks: u32) -> Result<Vec<Timed>> {
    plans(machine, load, ranks)?.iter().map(|plan| timed(machine, plan)).collect()
}

/// How many times as fast the partition's own way is as the better of the others.
pub fn advantage(timed: &[Timed], direction: Direction) -> f64 {
    let seconds = |full: bool| {
        let of = timed.iter().filter(|one| (one.contender == Contender::Full) == full);
        of.map(|one| one.seconds(direction)).fold(f64::INFINITY, f64::min)
    };
    seconds(false) / seconds(true)
}
