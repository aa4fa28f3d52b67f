//! Measuring beside others: contenders run in turns, medians are compared, each target is told with what was got.
//!
//! | room | what it owns |
//! |------|--------------|
//! | [`options`] | what every bench is told: check, small, keep |
//! | [`contender`] | a program that is run and says its measurements |
//! | [`samples`] | measurements of one thing: median and minimum |
//! | [`report`] | table, targets, JSON, the section in `RESULTS.md` |
//! | [`machine`] | what was measured on |
//! | [`memory`] | what this process has taken, and the machine's memory before a measurement |
//! | [`partitions`] | partitions of data servers, on this machine or on nodes of it |
//!
//! Every contender of a comparison is measured in the same run, in turns with the others, several times. Files are
//! removed after each measurement, so that no contender pays for the write-back of another's pages.
#![forbid(unsafe_code)]

pub mod contender;
pub mod machine;
pub mod memory;
pub mod options;
pub mod partitions;
pub mod report;
pub mod samples;

/// What a bench stops with.
pub type Failure = Box<dyn std::error::Error>;
