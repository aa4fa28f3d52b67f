//! What the command asks the program for, and what the program answers: JSON on standard input, a line of JSON for each answer.

use serde::{Deserialize, Serialize};
use thalweg_choice::Written;

/// A conversion.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Request {
    /// The file that is read.
    pub source: String,
    /// The file that is written; what is there is replaced.
    pub target: String,
    /// What is chosen.
    pub chosen: Written,
    /// Bytes of memory for values.
    pub memory: u64,
    /// From what to what.
    pub task: Task,
}

/// From what to what a file is converted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Task {
    /// From BP to HDF5.
    BpToHdf5 {
        /// Extents of chunks, `PATTERN=64x64`, without the axis of steps.
        chunks: Vec<String>,
    },
    /// From HDF5 to BP.
    Hdf5ToBp {
        /// The axis whose positions become steps.
        steps_along: Option<String>,
        /// The method that writes the target.
        method: String,
        /// Its parameters.
        parameters: String,
    },
}

/// What the program says.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Message {
    /// Bytes of values that there are.
    Total(u64),
    /// Bytes of values written so far.
    Done(u64),
    /// Everything is written.
    End(Converted),
}

/// What was converted.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Converted {
    /// Variables, or arrays of the target.
    pub variables: u64,
    /// Steps.
    pub steps: u64,
    /// Bytes of values written, before compression.
    pub bytes: u64,
    /// What has no place in the target, or another form there.
    pub left_out: Vec<LeftOut>,
    /// Patterns of the choice that fit no variable.
    pub unknown: Vec<String>,
}

/// Something that has no place in the target, or another form there.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LeftOut {
    /// Name of the variable or attribute.
    pub name: String,
    /// What is missing, and why.
    pub why: String,
}

impl LeftOut {
    /// What, and why.
    pub fn new(name: impl Into<String>, why: impl Into<String>) -> LeftOut {
        LeftOut { name: name.into(), why: why.into() }
    }
}
