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

use crate::whole_arrays::content::Content;
use crate::whole_arrays::places::Places;
use serde::{Deserialize, Serialize};
use thalweg_types::{Error, ErrorKind};

/// What is asked.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Ask {
    /// How many steps has a file? 0 if there is none.
    Open {
        /// Its name.
        path: String,
    },
    /// Makes room for a step.
    Step {
        /// Name of the file.
        path: String,
        /// The file is new, or takes the place of another one.
        is_new: bool,
        /// The step.
        content: Box<Content>,
    },
    /// Writes what the file says of the step: its arrays have their values.
    Commit {
        /// It is on the device when this is answered.
        sync: bool,
    },
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
        /// One for each array of the content.
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
