//! The outcome of a command: its exit code, and the message of a failure.

use std::fmt;
use std::io;
use thalweg_types::{Error, ErrorKind};

/// How a command that could do its work ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// Exit code 0.
    Done,
    /// Exit code 1: nothing matches, or the check found something, as the command has printed.
    No,
}

impl Outcome {
    pub fn code(self) -> u8 {
        match self {
            Outcome::Done => 0,
            Outcome::No => 1,
        }
    }
}

/// Why a command could not do its work.
#[derive(Debug)]
pub enum Failure {
    /// The reader of our output has ended (`| head`), which is no failure.
    Pipe,
    /// A file can't be read or written, as another program of ours has said: exit code 3.
    Told,
    /// The file does not contain the requested item: exit code 1.
    Absent(String),
    /// The command line makes no sense: exit code 2.
    Usage(String),
    /// A file can't be read or written: exit code 3.
    File(Error),
}

impl Failure {
    pub fn code(&self) -> u8 {
        match self {
            Failure::Pipe => 0,
            Failure::Absent(_) => 1,
            Failure::Usage(_) => 2,
            Failure::File(_) | Failure::Told => 3,
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failure::Pipe | Failure::Told => Ok(()),
            Failure::Absent(what) | Failure::Usage(what) => f.write_str(what),
            Failure::File(error) => write!(f, "{error}"),
        }
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Failure {
        Failure::File(error)
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Failure {
        match error.kind() {
            io::ErrorKind::BrokenPipe => Failure::Pipe,
            _ => Failure::File(Error::io("cannot write the output", error)),
        }
    }
}

impl From<serde_json::Error> for Failure {
    fn from(error: serde_json::Error) -> Failure {
        match error.io_error_kind() {
            Some(kind) => io::Error::from(kind).into(),
            None => Failure::File(Error::new(ErrorKind::Unsupported, format!("cannot write JSON: {error}"))),
        }
    }
}
