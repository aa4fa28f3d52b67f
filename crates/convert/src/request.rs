//! What the command asks the program for, and what the program answers: JSON on standard input, a line of JSON for each answer.

use crate::format::Format;
use serde::{Deserialize, Serialize};
use thalweg_choice::Written;
use thalweg_views::zarr::tables::Change;

/// A conversion, or a comparison.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Request {
    /// The file that is read; of a comparison the BP file.
    pub source: String,
    /// The file that is written, in place of one that is there; of a comparison the other file.
    pub target: String,
    /// The name that the target will have, for messages.
    pub shown: String,
    /// What is chosen.
    pub chosen: Written,
    /// Bytes of memory for values.
    pub memory: u64,
    /// From what to what.
    pub task: Task,
}

/// From what to what a file is converted.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Task {
    /// From BP to another format.
    FromBp {
        /// The format.
        to: Format,
        /// Extents of chunks, `PATTERN=64x64`, without the axis of steps.
        chunks: Vec<String>,
    },
    /// From another format to BP.
    ToBp {
        /// The format.
        from: Format,
        /// The axis whose positions become steps.
        steps_along: Option<String>,
        /// The method that writes the target.
        method: String,
        /// Its parameters.
        parameters: String,
    },
    /// A BP file is compared with a file of another format.
    Beside {
        /// The format.
        other: Format,
        /// Largest difference of equal values.
        absolute: f64,
        /// The same as a share of the larger magnitude.
        relative: f64,
        /// Attributes too.
        attributes: bool,
    },
}

/// Files of a view that is a folder, one request after the other; the program answers each with an empty line.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct InFolder {
    /// The folder.
    pub folder: String,
    /// The name that it has or will have, for messages.
    pub shown: String,
    /// The files.
    pub change: Change,
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
    /// Two files differ.
    Differs(Difference),
    /// Everything is compared.
    Compared(Compared),
}

/// One of two files that are compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Side {
    /// The BP file.
    Source,
    /// The other one.
    Target,
}

/// A difference; pairs have what is in the BP file first.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Difference {
    /// A variable is in one file alone.
    Variable {
        /// Its name.
        name: String,
        /// The file that has it.
        only_in: Side,
    },
    /// Types that cannot be compared.
    Form {
        /// Name of the variable.
        name: String,
        /// The types.
        forms: (String, String),
    },
    /// Other shapes, with the axis of steps.
    Shape {
        /// Name of the variable.
        name: String,
        /// The shapes.
        shapes: (String, String),
    },
    /// Other values.
    Values {
        /// Name of the variable.
        name: String,
        /// Position along the axis of steps.
        step: u64,
        /// How many elements.
        differing: u64,
        /// Of how many.
        elements: u64,
        /// The largest difference, which may be infinite; `None` for texts.
        largest: Option<String>,
        /// Where it is, without the axis of steps; empty for scalars.
        index: Vec<u64>,
        /// The values there.
        values: (String, String),
    },
    /// Other attributes.
    Attribute {
        /// Its name.
        name: String,
        /// The values, where they are.
        values: (Option<String>, Option<String>),
    },
}

/// What was compared.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Compared {
    /// Variables, or arrays of the other file.
    pub variables: u64,
    /// Those that differ in anything.
    pub differing: u64,
    /// Attributes.
    pub attributes: u64,
    /// Attributes that differ.
    pub differing_attributes: u64,
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
