//! MPI's failures in our words: the only place that knows what MPI's error classes mean to us.

use crate::ffi::{Library, Readiness, Sort};
use thalweg_types::{Error, ErrorKind, Result};

/// MPI's own text.
#[derive(Debug)]
struct MpiError(String);

impl std::fmt::Display for MpiError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for MpiError {}

/// A call into MPI returned `code`.
pub fn failed(library: Library, code: i32, what: &str) -> Error {
    let kind = match library.sort(code) {
        // The peer's process is gone, or its communicator was revoked because of one that is.
        Sort::PeerLost => ErrorKind::PeerLost,
        Sort::NoMemory => ErrorKind::NoMemory,
        // A message longer than announced: ranks do not agree on what they are doing.
        Sort::Argument | Sort::Truncated => ErrorKind::InvalidArgument,
        Sort::Unsupported => ErrorKind::Unsupported,
        Sort::Other => ErrorKind::Io,
    };
    let text = library.text(code);
    let text = if text.is_empty() { format!("MPI error {code}") } else { format!("{text} (MPI error {code})") };
    Error::new(kind, format!("cannot {what}")).caused_by(MpiError(text))
}

/// MPI cannot be called now.
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
            "MPI was initialised for one thread, and this is another; ask for MPI_THREAD_MULTIPLE where threads write"
        }
    };
    Err(Error::new(ErrorKind::InvalidArgument, what))
}

/// A collective call was given up before: what the ranks would exchange now is anyone's guess.
pub fn broken(kind: ErrorKind) -> Error {
    Error::new(kind, "an earlier collective call on this communicator failed, so it cannot be used for another")
}
