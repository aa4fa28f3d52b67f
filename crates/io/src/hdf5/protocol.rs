//! What a method asks of the program `thalweg-convert`, which is linked with HDF5, and what that answers: a line of JSON each.
//!
//! | asked | answered |
//! |---|---|
//! | [`Ask::Open`] | [`Answer::Steps`]: how many the file has |
//! | [`Ask::Step`] | [`Answer::Places`]: where in the file the values of its arrays belong; the file itself is as before |
//! | [`Ask::Commit`] | [`Answer::Done`]: the file has the step |
//!
//! Each may be answered by [`Answer::Failed`]. Whoever does not want a step that was asked for ends the program: what it has not
//! committed is in its memory alone.

use serde::{Deserialize, Serialize};
use thalweg_types::{Error, ErrorKind};
use thalweg_views::hdf5::{Attribute, Kind, Values};

/// What is asked.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Ask {
    /// How many steps has a file? 0 if there is none.
    Open {
        /// Its name.
        path: String,
    },
    /// Makes room for a step.
    Step(Box<Content>),
    /// Writes what the file says of the step: its arrays have their values.
    Commit {
        /// It is on the device when this is answered.
        sync: bool,
    },
}

/// A step of a file.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Content {
    /// Name of the file.
    pub path: String,
    /// The file is new, or takes the place of another one.
    pub is_new: bool,
    /// Its number, from 0.
    pub step: u64,
    /// Attributes of the file.
    pub attributes: Vec<Attribute>,
    /// The arrays, whose values the ranks write.
    pub arrays: Vec<Array>,
    /// Single values, one for each step.
    pub values: Vec<Single>,
}

/// An array of a step.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Array {
    /// Full name, without a slash at its begin.
    pub name: String,
    /// Type of the elements.
    pub kind: Kind,
    /// Extents, slowest axis first, without the axis of steps.
    pub shape: Vec<u64>,
    /// Whether it has an axis of steps; else it is of this step alone.
    pub has_steps: bool,
    /// Names of its axes; `None`: they have none.
    pub axes: Option<Vec<String>>,
    /// Its attributes.
    pub attributes: Vec<Attribute>,
}

/// A single value of a step.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Single {
    /// Full name, without a slash at its begin.
    pub name: String,
    /// Its type.
    pub kind: Kind,
    /// The value.
    pub value: Values,
    /// Its attributes.
    pub attributes: Vec<Attribute>,
}

/// What is answered.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Answer {
    /// The steps of a file.
    Steps(u64),
    /// Where values belong.
    Places {
        /// The file with these bytes: a new one gets its name when the step is committed.
        file: String,
        /// One for each of [`Content::arrays`].
        arrays: Vec<Places>,
    },
    /// It is done.
    Done,
    /// It failed.
    Failed {
        /// [`ErrorKind::code`].
        kind: u8,
        /// Why.
        what: String,
    },
}

/// Where the values of an array belong: the rows along its slowest axis lie in chunks, one after the other inside of each.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Places {
    /// Rows of a chunk.
    pub rows: u64,
    /// The first byte of each chunk of this step.
    pub chunks: Vec<u64>,
    /// The first byte of each chunk of steps before, in which the array was not written.
    pub skipped: Vec<u64>,
}

impl Answer {
    /// The answer to what failed.
    pub fn failed(e: &Error) -> Answer {
        Answer::Failed { kind: e.kind().code(), what: e.to_string() }
    }

    /// The answer, unless it is a failure.
    ///
    /// # Errors
    /// The failure.
    pub fn heard(self) -> thalweg_types::Result<Answer> {
        match self {
            Answer::Failed { kind, what } => Err(Error::new(ErrorKind::from_code(kind), what)),
            answer => Ok(answer),
        }
    }
}
