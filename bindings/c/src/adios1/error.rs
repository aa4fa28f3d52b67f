//! Failures as C programs see them: a number of `ADIOS_ERRCODES` and a text.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::ffi::{CStr, CString, c_char, c_int};
use std::io::Write;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};
use thalweg_types::mutex::Mutex;
use thalweg_types::{Error, ErrorKind};

/// Numbers of `adios_error.h` that we use.
#[allow(missing_docs)] // their names say it
pub mod number {
    use std::ffi::c_int;
    pub const NO_MEMORY: c_int = -1;
    pub const FILE_OPEN_ERROR: c_int = -2;
    pub const FILE_NOT_FOUND: c_int = -3;
    pub const INVALID_FILE_POINTER: c_int = -4;
    pub const INVALID_GROUP: c_int = -5;
    pub const INVALID_VARID: c_int = -7;
    pub const INVALID_VARNAME: c_int = -8;
    pub const CORRUPTED_VARIABLE: c_int = -9;
    pub const INVALID_ATTRID: c_int = -10;
    pub const INVALID_ATTRNAME: c_int = -11;
    pub const INVALID_TIMESTEP: c_int = -14;
    pub const INVALID_READ_METHOD: c_int = -17;
    pub const CONNECTION_FAILED: c_int = -18;
    pub const OUT_OF_BOUND: c_int = -19;
    pub const OPERATION_NOT_SUPPORTED: c_int = -20;
    pub const END_OF_STREAM: c_int = -21;
    pub const STEP_NOTREADY: c_int = -22;
    pub const FILE_READ_ERROR: c_int = -25;
    pub const MISSING_CONFIG_FILE: c_int = -55;
    pub const INVALID_XML_DOC: c_int = -58;
    pub const INVALID_DIMENSION: c_int = -66;
    pub const INVALID_FILE_MODE: c_int = -100;
    pub const INVALID_FILE_VERSION: c_int = -101;
    pub const INVALID_WRITE_METHOD: c_int = -105;
    pub const WRITE_ERROR: c_int = -106;
    pub const INVALID_ARGUMENT: c_int = -140;
    pub const MESH_MISSING: c_int = -148;
    pub const INVALID_TRANSFORM_TYPE: c_int = -300;
    pub const UNSUPPORTED_SELECTION: c_int = -401;
    pub const INVALID_QUERY_VALUE: c_int = -402;
    pub const INCOMPATIBLE_QUERIES: c_int = -403;
    pub const INVALID_SELECTION: c_int = -404;
    pub const UNSPECIFIED: c_int = -1000;
}

/// The program's operation: the reference has several numbers for one kind of failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Doing {
    /// `adios_init*`.
    Start,
    /// Declaring a group, or naming one.
    Group,
    /// Choosing a method.
    Method,
    /// Defining a variable.
    Variable,
    /// Defining an attribute.
    Attribute,
    /// Defining a mesh, or placing a variable on it.
    Mesh,
    /// Choosing a transform.
    Transform,
    /// `adios_open` to write.
    Open,
    /// `adios_open` to read.
    OpenToRead,
    /// Writing a variable.
    Write,
    /// Reading a variable.
    Read,
    /// Committing.
    Close,
}

impl Doing {
    /// The one table from our kinds of failure to the numbers of the reference. It looks at nothing but the kind, so that
    /// all ranks of a collective call get the same number.
    fn number(self, kind: ErrorKind) -> c_int {
        use ErrorKind as K;
        use number::*;
        match (kind, self) {
            (K::NotFound, Doing::Start) => MISSING_CONFIG_FILE,
            (K::NotFound, Doing::Group) => INVALID_GROUP,
            (K::NotFound, Doing::Mesh) => MESH_MISSING,
            (K::NotFound, Doing::Open) => FILE_OPEN_ERROR,
            (K::NotFound, Doing::OpenToRead) => FILE_NOT_FOUND,
            (K::NotFound, Doing::Variable | Doing::Write | Doing::Read | Doing::Transform) => INVALID_VARNAME,
            (K::NotFound, _) => INVALID_ARGUMENT,
            (K::Config, Doing::Start) => INVALID_XML_DOC,
            (K::Config, Doing::Group) => INVALID_GROUP,
            (K::Config, Doing::Method) => INVALID_WRITE_METHOD,
            (K::Config, Doing::Variable) => INVALID_DIMENSION,
            (K::Config, Doing::Attribute) => INVALID_ATTRNAME,
            (K::Config, Doing::Transform) => INVALID_TRANSFORM_TYPE,
            // A group that is not declared, or has no method.
            (K::Config, Doing::Open | Doing::OpenToRead) => INVALID_GROUP,
            (K::Config, _) => INVALID_ARGUMENT,
            (K::Io | K::PermissionDenied | K::AlreadyExists | K::NoSpace, doing) => match doing {
                Doing::Start => MISSING_CONFIG_FILE,
                Doing::Open | Doing::OpenToRead => FILE_OPEN_ERROR,
                Doing::Read => FILE_READ_ERROR,
                _ => WRITE_ERROR,
            },
            (K::Corrupt | K::Torn, Doing::Start) => INVALID_XML_DOC,
            (K::Corrupt | K::Torn, Doing::Open | Doing::OpenToRead) => INVALID_FILE_VERSION,
            (K::Corrupt | K::Torn, _) => CORRUPTED_VARIABLE,
            (K::NoMemory, _) => NO_MEMORY,
            (K::OutOfBounds, _) => OUT_OF_BOUND,
            (K::Unsupported, _) => OPERATION_NOT_SUPPORTED,
            (K::InvalidArgument, _) => INVALID_ARGUMENT,
            (K::PeerLost | K::Timeout, _) => CONNECTION_FAILED,
            (K::NotReady, _) => STEP_NOTREADY,
            (K::EndOfStream, _) => END_OF_STREAM,
        }
    }

    /// The failure of a call that did this.
    pub fn failed(self, error: Error) -> Failure {
        Failure { number: self.number(error.kind()), text: error.to_string(), elsewhere: error.reported_by().is_some() }
    }
}

/// A call that failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// Of `ADIOS_ERRCODES`.
    pub number: c_int,
    /// The error, its place, and what is still safe.
    pub text: String,
    /// The cause is on another rank.
    pub elsewhere: bool,
}

/// Result of a call inside the library.
pub type Outcome<T> = Result<T, Failure>;

impl Failure {
    /// A mistake that is found before anything else is called.
    pub fn new(number: c_int, text: impl Into<String>) -> Failure {
        Failure { number, text: text.into(), elsewhere: false }
    }

    /// An argument that makes no sense.
    pub fn argument(text: impl Into<String>) -> Failure {
        Failure::new(number::INVALID_ARGUMENT, text)
    }

    /// Whether a line is printed: after a failed open, each later call fails for the invalid handle, by the hundred. Each text about
    /// such a handle is printed once, and 64 of them in all.
    fn is_news(&self) -> bool {
        static TOLD: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());
        const MOST_TEXTS: usize = 64;
        if self.number != number::INVALID_FILE_POINTER {
            return true;
        }
        let mut told = TOLD.lock();
        told.len() < MOST_TEXTS && told.insert(self.text.clone())
    }

    /// Makes it the program's last error, and prints it to standard error on the rank where it happened, because many programs
    /// ignore return values. `THALWEG_ERRORS=quiet` switches the line off, and so does `adios_read_init_method` with `quiet`.
    pub fn tell(&self) -> c_int {
        ERRNO.store(self.number, Ordering::Relaxed);
        let text: Vec<u8> = self.text.bytes().filter(|b| *b != 0).collect();
        LAST.with_borrow_mut(|last| *last = CString::new(text).unwrap_or_default());
        static SAID: OnceLock<bool> = OnceLock::new();
        let quiet = *SAID.get_or_init(|| std::env::var("THALWEG_ERRORS").is_ok_and(|v| v == "quiet"));
        if !self.elsewhere && !quiet && !QUIET.load(Ordering::Relaxed) && self.is_news() {
            // In one write, because several ranks share the stream; if it is closed, the message is dropped.
            let _ = std::io::stderr().write_all(format!("thalweg: {}\n", self.text).as_bytes());
        }
        self.number
    }
}

/// `adios_errno`: 0, or the number of the last failure. One for the process, as in the reference.
pub(crate) static ERRNO: &AtomicI32 = &crate::adios1::calls::errors::adios_errno;

static QUIET: AtomicBool = AtomicBool::new(false);

/// Chooses whether failures are printed to standard error.
pub fn be_quiet(quiet: bool) {
    QUIET.store(quiet, Ordering::Relaxed);
}

thread_local! {
    static LAST: RefCell<CString> = RefCell::default();
}

/// The text of this thread's last failure; valid until its next call that fails.
pub fn last_text() -> *const c_char {
    LAST.with_borrow(|last| CStr::as_ptr(last))
}

/// Forgets the last failure.
pub fn clear() {
    ERRNO.store(0, Ordering::Relaxed);
    LAST.with_borrow_mut(|last| *last = CString::default());
}

/// A call begins: as long as nothing fails, `adios_errno` is 0. The text of an earlier failure stays.
pub fn begin() {
    ERRNO.store(0, Ordering::Relaxed);
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: [Doing; 12] = [
        Doing::Start,
        Doing::Group,
        Doing::Method,
        Doing::Variable,
        Doing::Attribute,
        Doing::Mesh,
        Doing::Transform,
        Doing::Open,
        Doing::OpenToRead,
        Doing::Write,
        Doing::Read,
        Doing::Close,
    ];

    #[test]
    fn every_failure_has_a_number_that_is_no_success() {
        for doing in ALL {
            for kind in ErrorKind::ALL {
                assert!(doing.number(kind) < 0, "{doing:?} {kind:?}");
            }
        }
    }

    #[test]
    fn a_handle_of_no_file_is_told_once_and_other_failures_each_time() {
        let of = |number, text: &str| Failure::new(number, text).is_news();
        assert!(of(number::INVALID_FILE_POINTER, "77 is no open file"));
        assert!((0..300).all(|_| !of(number::INVALID_FILE_POINTER, "77 is no open file")));
        assert!(of(number::INVALID_FILE_POINTER, "78 is no open file"));
        assert!((0..3).all(|_| of(number::WRITE_ERROR, "no space left")));
        let many =
            || (1000..1300).filter(|handle| of(number::INVALID_FILE_POINTER, &format!("{handle} is no open file")));
        assert!(many().count() <= 64, "a program that uses a wrong handle each time is told some times");
        assert_eq!(many().count(), 0, "and nothing new after that");
    }

    #[test]
    fn a_rank_that_only_hears_of_a_failure_gets_the_number_of_the_rank_that_failed() {
        let own = Error::new(ErrorKind::NoSpace, "cannot write").at_rank(2).in_object("x.bp").at_byte(7);
        let heard = Error::reported(ErrorKind::NoSpace, 2, "cannot write").at_rank(0);
        let (own, heard) = (Doing::Close.failed(own), Doing::Close.failed(heard));
        assert_eq!(own.number, heard.number);
        assert!(heard.elsewhere && !own.elsewhere);
        assert!(heard.text.contains("reported by rank 2"), "{}", heard.text);
    }
}
