//! The system's error numbers, as the manual pages of the file calls use them: one table for all doors.
//!
//! A failure of the system keeps its number. A failure of ours has the number of its kind. Numbers that no file call returns (those of
//! sockets below a network store, for example) become `EIO`, because programs cannot interpret them.

pub use rustix::io::Errno;
use std::io;
use thalweg_types::{Error, ErrorKind};

/// The numbers that the manual pages of file calls name.
const OF_FILES: &[Errno] = &[
    Errno::PERM,
    Errno::NOENT,
    Errno::INTR,
    Errno::IO,
    Errno::NXIO,
    Errno::TOOBIG,
    Errno::BADF,
    Errno::AGAIN,
    Errno::NOMEM,
    Errno::ACCESS,
    Errno::FAULT,
    Errno::BUSY,
    Errno::EXIST,
    Errno::XDEV,
    Errno::NODEV,
    Errno::NOTDIR,
    Errno::ISDIR,
    Errno::INVAL,
    Errno::NFILE,
    Errno::MFILE,
    Errno::NOTTY,
    Errno::TXTBSY,
    Errno::FBIG,
    Errno::NOSPC,
    Errno::SPIPE,
    Errno::ROFS,
    Errno::MLINK,
    Errno::RANGE,
    Errno::NAMETOOLONG,
    Errno::NOSYS,
    Errno::NOTEMPTY,
    Errno::LOOP,
    Errno::NODATA,
    Errno::OVERFLOW,
    Errno::OPNOTSUPP,
    Errno::STALE,
    Errno::DQUOT,
    Errno::NOLCK,
];

/// Calls of programs for which a failure has another number than for other calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PosixCall {
    /// Any other call.
    Other,
    /// `rename`: programs copy on `EXDEV`.
    Rename,
    /// `link`, `symlink`, `mknod`: `EPERM` if the filesystem does not support them.
    Make,
    /// `readlink`: `EINVAL` if the name is no link.
    ReadLink,
}

/// The number of a failure.
pub fn of(error: &Error) -> i32 {
    of_call(PosixCall::Other, error)
}

/// The number of a failure in this call.
pub fn of_call(call: PosixCall, error: &Error) -> i32 {
    let number = from_source(error).unwrap_or(match error.kind() {
        ErrorKind::NotFound => Errno::NOENT,
        ErrorKind::AlreadyExists => Errno::EXIST,
        ErrorKind::PermissionDenied => Errno::ACCESS,
        ErrorKind::NoSpace => Errno::NOSPC,
        ErrorKind::NoMemory => Errno::NOMEM,
        ErrorKind::OutOfBounds => Errno::FBIG,
        ErrorKind::Unsupported => Errno::OPNOTSUPP,
        ErrorKind::InvalidArgument | ErrorKind::Config => Errno::INVAL,
        ErrorKind::NotReady => Errno::AGAIN,
        ErrorKind::Io
        | ErrorKind::Corrupt
        | ErrorKind::Torn
        | ErrorKind::PeerLost
        | ErrorKind::Timeout
        | ErrorKind::EndOfStream => Errno::IO,
    });
    let number = match (call, number) {
        (PosixCall::Rename, Errno::OPNOTSUPP) => Errno::XDEV,
        (PosixCall::Make, Errno::OPNOTSUPP) => Errno::PERM,
        (PosixCall::ReadLink, Errno::OPNOTSUPP) => Errno::INVAL,
        (_, number) => number,
    };
    number.raw_os_error()
}

/// The system's number in the error's sources, at any depth.
fn from_source(error: &Error) -> Option<Errno> {
    let mut source = std::error::Error::source(error);
    while let Some(below) = source {
        if let Some(cause) = below.downcast_ref::<io::Error>() {
            return from_io(cause);
        }
        if let Some(number) = below.downcast_ref::<Errno>() {
            return Some(*number).filter(|n| OF_FILES.contains(n));
        }
        source = below.source();
    }
    None
}

fn from_io(cause: &io::Error) -> Option<Errno> {
    use io::ErrorKind as K;
    if let Some(raw) = cause.raw_os_error() {
        let number = Errno::from_raw_os_error(raw);
        return Some(if OF_FILES.contains(&number) { number } else { Errno::IO });
    }
    // Errors without a number, from the standard library or from us.
    Some(match cause.kind() {
        K::NotADirectory => Errno::NOTDIR,
        K::IsADirectory => Errno::ISDIR,
        K::DirectoryNotEmpty => Errno::NOTEMPTY,
        K::CrossesDevices => Errno::XDEV,
        K::TooManyLinks => Errno::MLINK,
        K::InvalidFilename => Errno::NAMETOOLONG,
        K::ReadOnlyFilesystem => Errno::ROFS,
        K::FileTooLarge => Errno::FBIG,
        K::QuotaExceeded => Errno::DQUOT,
        K::ResourceBusy => Errno::BUSY,
        _ => return None,
    })
}

/// A failure with this number, and the kind that stores give it.
///
/// - `what`: completes "cannot".
pub fn failure(number: Errno, what: &str, path: &str) -> Error {
    let kind = match number {
        Errno::NOENT | Errno::NOTDIR => ErrorKind::NotFound,
        Errno::EXIST => ErrorKind::AlreadyExists,
        Errno::PERM | Errno::ACCESS | Errno::ROFS => ErrorKind::PermissionDenied,
        Errno::NOSPC | Errno::DQUOT => ErrorKind::NoSpace,
        Errno::FBIG | Errno::OVERFLOW => ErrorKind::OutOfBounds,
        Errno::OPNOTSUPP | Errno::NOSYS | Errno::XDEV => ErrorKind::Unsupported,
        Errno::NOMEM => ErrorKind::NoMemory,
        Errno::NODATA => ErrorKind::NotFound,
        Errno::ISDIR | Errno::NOTEMPTY | Errno::INVAL | Errno::LOOP | Errno::NAMETOOLONG | Errno::RANGE => {
            ErrorKind::InvalidArgument
        }
        _ => ErrorKind::Io,
    };
    Error::new(kind, format!("cannot {what}")).caused_by(io::Error::from(number)).in_object(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_systems_own_number_wins_over_the_kind() {
        for number in OF_FILES {
            let cause = io::Error::from(*number);
            assert_eq!(of(&Error::io("cannot open", cause)), number.raw_os_error());
            let deep = Error::new(ErrorKind::Io, "cannot").caused_by(failure(*number, "open", "a"));
            assert_eq!(of(&deep), number.raw_os_error(), "also through a second error");
        }
    }

    #[test]
    fn numbers_that_no_file_call_returns_are_input_output_errors() {
        for number in [Errno::CONNREFUSED, Errno::PIPE, Errno::HOSTUNREACH, Errno::ILSEQ] {
            assert_eq!(of(&Error::io("cannot open", io::Error::from(number))), Errno::IO.raw_os_error());
        }
    }

    #[test]
    fn what_was_said_without_a_number_gets_that_of_the_manual_page() {
        let folder =
            Error::new(ErrorKind::InvalidArgument, "x").caused_by(io::Error::from(io::ErrorKind::IsADirectory));
        assert_eq!(of(&folder), Errno::ISDIR.raw_os_error());
        for kind in ErrorKind::ALL {
            let number = Errno::from_raw_os_error(of(&Error::new(kind, "x")));
            assert!(OF_FILES.contains(&number), "{kind:?} has {number:?}");
        }
        let lacks = Error::new(ErrorKind::Unsupported, "x");
        assert_eq!(of_call(PosixCall::Rename, &lacks), Errno::XDEV.raw_os_error(), "mv copies then");
        assert_eq!(of_call(PosixCall::Make, &lacks), Errno::PERM.raw_os_error());
    }
}
