//! The profile of an output: each rank's phases, their times, and the rank that it waited for.
//!
//! | room | what it owns |
//! |------|--------------|
//! | [`recorder`] | spans of one rank, from open to close |
//! | [`ranks`] | a communicator whose waits and sends are recorded |
//! | [`storage`] | a layout whose opens, writes and syncs are recorded |
//! | [`calls`] | calls of a program that a door serves, by kind, and the ranks that came last to collective ones |
//! | [`gather`] | all ranks' records on rank 0, with aligned clocks |
//! | [`document`] | the JSON document beside the output: encoding, checks |
//! | [`waits`] | the causes of waiting |
//!
//! Methods contain no profiling code: when a profile is taken, their communication and storage requests pass through [`ranks`] and
//! [`storage`]. Phases in memory are recorded with [`span`], by the recorder of the output that the thread works on. Without a
//! profile, a span reads a thread-local variable: 10 ns, measured; with a profile, a span costs 0.12 us.
//!
//! Format and words: `docs/format/profile.md`.

use thalweg_params::Parameter;
use thalweg_types::{Error, ErrorKind, Result};

pub mod calls;
pub mod document;
pub mod gather;
pub mod ranks;
pub mod recorder;
pub mod storage;
pub mod waits;

pub use calls::CallLog;
pub use document::Document;
pub use gather::{About, Begun, Taking};
pub use recorder::{Recorder, Working, span};

/// `profile`, a parameter of every method; an output is profiled if one of its methods sets it.
pub const PARAMETER: Parameter =
    Parameter::switch("profile", false, "write a profile beside each output: the phases of each rank with their times");

/// Whether the environment variable `THALWEG_PROFILE` asks for a profile of every output, and of every file that a program opens through
/// the door for MPI-IO.
///
/// # Errors
/// `Config` for a value that is neither yes nor no.
pub fn requested() -> Result<bool> {
    const NAME: &str = "THALWEG_PROFILE";
    let Some(value) = std::env::var_os(NAME) else { return Ok(false) };
    let value = value.to_string_lossy().trim().to_string();
    if value.is_empty() {
        return Ok(false);
    }
    thalweg_params::switch(&value).ok_or_else(|| {
        Error::new(ErrorKind::Config, format!("environment variable {NAME}={value}: expected yes or no"))
    })
}

/// A phase of a rank. The time of a phase excludes the phases inside it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Phase {
    /// Opening the output, and files in it.
    Open,
    /// Waiting for other ranks, including the transfer of their messages.
    Wait,
    /// Copying blocks into the buffer, including their characteristics, which are computed in the same pass.
    Copy,
    /// Characteristics and checksums of blocks that are not copied, and the group's part of the index.
    Characteristics,
    /// Transforms, such as compression.
    Transform,
    /// Sending to other ranks.
    Send,
    /// Writing data.
    Write,
    /// Making written data durable.
    Sync,
    /// Joining the index and writing it.
    Index,
    /// The rest of close.
    Close,
    /// The program's computation between `begin_calculation` and `end_calculation`.
    Calculation,
    /// The end of a program's iteration; without duration.
    Iteration,
    /// Reading data.
    Read,
}

impl Phase {
    /// All phases; files refer to a phase by its position here.
    pub const ALL: [Phase; 13] = [
        Phase::Open,
        Phase::Wait,
        Phase::Copy,
        Phase::Characteristics,
        Phase::Transform,
        Phase::Send,
        Phase::Write,
        Phase::Sync,
        Phase::Index,
        Phase::Close,
        Phase::Calculation,
        Phase::Iteration,
        Phase::Read,
    ];

    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Phase::Open => "open",
            Phase::Wait => "wait",
            Phase::Copy => "copy",
            Phase::Characteristics => "characteristics",
            Phase::Transform => "transform",
            Phase::Send => "send",
            Phase::Write => "write",
            Phase::Sync => "sync",
            Phase::Index => "index",
            Phase::Close => "close",
            Phase::Calculation => "calculation",
            Phase::Iteration => "iteration",
            Phase::Read => "read",
        }
    }

    /// Its position in [`Phase::ALL`].
    pub const fn place(self) -> usize {
        self as usize
    }

    /// Whether it is a phase of the program, which may be outside of open and close.
    pub const fn is_outside(self) -> bool {
        matches!(self, Phase::Calculation | Phase::Iteration)
    }
}
