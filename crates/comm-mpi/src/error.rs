//! The mapping of MPI's error classes to error kinds.

use crate::ffi::{Library, Readiness, Sort};
use thalweg_types::{Error, ErrorKind, Result};

/// MPI's error text.
#[derive(Debug)]
struct MpiError(String);

impl std::fmt::Display for MpiError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for MpiError {}

/// The error for a call of MPI that returned `code`.
pub fn failed(library: Library, code: i32, what: &str) -> Error {
    let kind = match library.sort(code) {
        // The peer's process has died, or the communicator was revoked because a process died.
        Sort::PeerLost => ErrorKind::PeerLost,
        Sort::NoMemory => ErrorKind::NoMemory,
        // A message longer than announced: the ranks' calls do not match.
        Sort::Argument | Sort::Truncated => ErrorKind::InvalidArgument,
        Sort::Unsupported => ErrorKind::Unsupported,
        Sort::Other => ErrorKind::Io,
    };
    let text = library.text(code);
    let text = if text.is_empty() { format!("MPI error {code}") } else { format!("{text} (MPI error {code})") };
    Error::new(kind, format!("cannot {what}")).caused_by(MpiError(text))
}

/// Fails unless MPI may be called now.
pub fn not_ready(readiness: Readiness) -> Result<()> {
    let what = match readiness {
        Readiness::Ready => return Ok(()),
        Readiness::NotStarted => "MPI has not been initialised",
        Readiness::Finished => "MPI has been finalized",
        Readiness::Foreign => {
            let what = "the program runs with another MPI than this library of Thalweg is built for; link it with the \
                        libthalweg of its own MPI (pkg-config thalweg-openmpi, thalweg-mpich)";
            return Err(Error::new(ErrorKind::Unsupported, what));
        }
        Readiness::OtherThread => {
            "MPI was initialised for one thread, and this is another; initialise it with MPI_THREAD_MULTIPLE if threads write"
        }
    };
    Err(Error::new(ErrorKind::InvalidArgument, what))
}

/// The error after a failed collective call: further ones on this communicator might mix messages of different calls.
pub fn broken(kind: ErrorKind) -> Error {
    Error::new(kind, "an earlier collective call on this communicator failed, so it cannot be used for another")
}
