//! The profile of an output: what each rank did, when, and for whom it waited.
//!
//! | room | what it owns |
//! |------|--------------|
//! | [`recorder`] | spans of one rank, from open to close |
//! | [`ranks`] | a communicator whose waits and sends are recorded |
//! | [`storage`] | a layout whose opens, writes and syncs are recorded |
//! | [`gather`] | every rank's record to rank 0, clocks aligned |
//! | [`document`] | the JSON that is written beside the output: made, checked |
//! | [`waits`] | who waited for whom, and what that one did meanwhile |
//!
//! Methods know nothing of it: what they send to ranks and write to storage passes through [`ranks`] and [`storage`] when
//! a profile is taken, and through neither when none is. What happens in memory is said by the few places that do it, with
//! [`span`], to the recorder of the output that this thread is working on. Without one that costs a look at a
//! variable of the thread: 10 ns, measured; with one a span costs 0.12 us.
//!
//! Format and words: `docs/format/profile.md`.

use thalweg_params::Parameter;

pub mod document;
pub mod gather;
pub mod ranks;
pub mod recorder;
pub mod storage;
pub mod waits;

pub use document::Document;
pub use gather::{About, Begun, Taking};
pub use recorder::{Recorder, Working, span};

/// `profile`, known to every method; one method that says so is enough for the output.
pub const PARAMETER: Parameter =
    Parameter::switch("profile", false, "what each rank did, and when, is written beside each output");

/// What a rank spends its time on. The time of a phase is that of no other phase inside it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Phase {
    /// Opening the output, and files in it.
    Open,
    /// Waiting for other ranks, what comes from them included.
    Wait,
    /// Copying blocks into the buffer; their characteristics are taken in the same pass.
    Copy,
    /// Characteristics and checksums of blocks that are not copied, and the group's part of the index.
    Characteristics,
    /// Transforms, such as compression.
    Transform,
    /// Sending to other ranks.
    Send,
    /// Writing data.
    Write,
    /// Making what was written durable.
    Sync,
    /// Joining the index and writing it.
    Index,
    /// The rest of close.
    Close,
    /// The program computes, as it says between `begin_calculation` and `end_calculation`.
    Calculation,
    /// The program has ended an iteration; takes no time.
    Iteration,
}

impl Phase {
    /// All of them; files say which by their place here.
    pub const ALL: [Phase; 12] = [
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
        }
    }

    /// Its place in [`Phase::ALL`].
    pub const fn place(self) -> usize {
        self as usize
    }

    /// What the program does by itself, which may lie outside of open and close.
    pub const fn is_outside(self) -> bool {
        matches!(self, Phase::Calculation | Phase::Iteration)
    }
}
