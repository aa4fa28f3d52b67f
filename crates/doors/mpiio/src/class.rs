//! MPI's error classes of failures.

use std::fmt;
use thalweg_layout::errno::{self, Errno};
use thalweg_types::{Error, ErrorKind};

/// An error class of MPI; the numbers are those of `mpi/thalweg_mpiio.h`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Class {
    /// `MPI_ERR_OTHER`
    Other = 1,
    /// `MPI_ERR_ARG`
    Argument = 2,
    /// `MPI_ERR_AMODE`
    Mode = 3,
    /// `MPI_ERR_NOT_SAME`
    NotSame = 4,
    /// `MPI_ERR_NO_SUCH_FILE`
    NoSuchFile = 5,
    /// `MPI_ERR_FILE_EXISTS`
    Exists = 6,
    /// `MPI_ERR_BAD_FILE`
    BadFile = 7,
    /// `MPI_ERR_ACCESS`
    Access = 8,
    /// `MPI_ERR_NO_SPACE`
    NoSpace = 9,
    /// `MPI_ERR_QUOTA`
    Quota = 10,
    /// `MPI_ERR_READ_ONLY`
    ReadOnly = 11,
    /// `MPI_ERR_FILE_IN_USE`
    InUse = 12,
    /// `MPI_ERR_UNSUPPORTED_OPERATION`
    Unsupported = 13,
    /// `MPI_ERR_IO`
    Io = 14,
    /// `MPI_ERR_NO_MEM`
    NoMemory = 15,
    /// `MPI_ERR_TYPE`
    Type = 16,
}

impl Class {
    /// Whether programs expect it in the course of things, so that nobody needs an explanation.
    pub fn explains_itself(self) -> bool {
        use Class::*;
        matches!(self, NotSame | NoSuchFile | Exists | Access | ReadOnly)
    }
}

/// A failure and its class.
#[derive(Debug)]
pub struct Failure {
    /// What the program gets.
    pub class: Class,
    /// What failed, where, and why.
    pub error: Error,
}

/// The result of this crate's calls.
pub type Outcome<T> = Result<T, Failure>;

impl Failure {
    /// A failure of a call itself.
    pub fn new(class: Class, what: impl Into<String>) -> Failure {
        let kind = match class {
            Class::Unsupported => ErrorKind::Unsupported,
            _ => ErrorKind::InvalidArgument,
        };
        Failure { class, error: Error::new(kind, what) }
    }

    /// With the name of the file.
    pub fn in_object(self, name: &str) -> Failure {
        Failure { error: self.error.in_object(name), ..self }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.error.fmt(f)
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Failure {
        let class = match Errno::from_raw_os_error(errno::of(&error)) {
            Errno::NOENT => Class::NoSuchFile,
            Errno::EXIST => Class::Exists,
            Errno::ACCESS | Errno::PERM => Class::Access,
            Errno::ISDIR | Errno::NOTDIR | Errno::NAMETOOLONG | Errno::LOOP => Class::BadFile,
            Errno::NOSPC => Class::NoSpace,
            Errno::DQUOT => Class::Quota,
            Errno::ROFS => Class::ReadOnly,
            Errno::BUSY | Errno::TXTBSY => Class::InUse,
            Errno::OPNOTSUPP | Errno::NOLCK => Class::Unsupported,
            Errno::NOMEM => Class::NoMemory,
            Errno::INVAL => Class::Argument,
            _ => Class::Io,
        };
        Failure { class, error }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_has_the_class_of_its_cause() {
        let of = |kind, number: Option<Errno>| {
            let error = Error::new(kind, "cannot");
            Failure::from(match number {
                Some(number) => error.caused_by(std::io::Error::from(number)),
                None => error,
            })
            .class
        };
        for (kind, number, class) in [
            (ErrorKind::NotFound, None, Class::NoSuchFile),
            (ErrorKind::AlreadyExists, None, Class::Exists),
            (ErrorKind::Io, Some(Errno::DQUOT), Class::Quota),
            (ErrorKind::NoSpace, None, Class::NoSpace),
            (ErrorKind::PermissionDenied, Some(Errno::ROFS), Class::ReadOnly),
            (ErrorKind::Corrupt, None, Class::Io),
            (ErrorKind::PeerLost, None, Class::Io),
            (ErrorKind::Unsupported, None, Class::Unsupported),
            (ErrorKind::InvalidArgument, Some(Errno::ISDIR), Class::BadFile),
        ] {
            assert_eq!(of(kind, number), class, "{kind:?} {number:?}");
        }
    }
}
