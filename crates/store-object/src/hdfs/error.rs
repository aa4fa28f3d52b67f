//! Translation of HDFS errors: the only place that knows its codes.

use hdfs_native::HdfsError;
use std::fmt;
use thalweg_types::{Error, ErrorKind};

/// An error of HDFS in one line: exceptions of its servers come with stack traces.
#[derive(Debug)]
pub struct Failure(pub HdfsError);

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = self.0.to_string();
        f.write_str(text.lines().next().unwrap_or_default())
    }
}

impl std::error::Error for Failure {}

/// Translates an error.
///
/// - `what`: completes "cannot ...".
pub fn failed(what: &str, cause: HdfsError) -> Error {
    let kind = match &cause {
        HdfsError::FileNotFound(_) => ErrorKind::NotFound,
        HdfsError::AlreadyExists(_) => ErrorKind::AlreadyExists,
        HdfsError::IsADirectoryError(_) | HdfsError::InvalidPath(_) | HdfsError::InvalidArgument(_) => {
            ErrorKind::InvalidArgument
        }
        // The bytes differ from those written.
        HdfsError::ChecksumError | HdfsError::ErasureCodingError(_) => ErrorKind::Corrupt,
        HdfsError::UnsupportedErasureCodingPolicy(_) | HdfsError::UnsupportedFeature(_) => ErrorKind::Unsupported,
        HdfsError::SASLError(_) | HdfsError::GSSAPIError(..) | HdfsError::NoSASLMechanism => {
            ErrorKind::PermissionDenied
        }
        HdfsError::UrlParseError(_) | HdfsError::XmlParseError(_) => ErrorKind::Config,
        HdfsError::RPCError(class, text) | HdfsError::FatalRPCError(class, text) => of_exception(class, text),
        HdfsError::IOError(cause) => match cause.kind() {
            std::io::ErrorKind::TimedOut => ErrorKind::Timeout,
            _ => ErrorKind::Io,
        },
        _ => ErrorKind::Io,
    };
    Error::new(kind, format!("cannot {what}")).caused_by(Failure(cause))
}

/// The kind of an exception of a server.
fn of_exception(class: &str, text: &str) -> ErrorKind {
    match class.rsplit('.').next().unwrap_or(class) {
        // Also if a part of the name that should be a folder is an object.
        "FileNotFoundException" | "ParentNotDirectoryException" => ErrorKind::NotFound,
        // Also if another process is writing an object of this name.
        "FileAlreadyExistsException" | "AlreadyBeingCreatedException" => ErrorKind::AlreadyExists,
        "PathIsNotEmptyDirectoryException" | "InvalidPathException" | "PathIsDirectoryException" => {
            ErrorKind::InvalidArgument
        }
        // Names with a part too long, folders with too many entries.
        "PathComponentTooLongException" => ErrorKind::InvalidArgument,
        // Also an object that is not executable as a part of the name.
        "AccessControlException" if text.contains("is not a directory") => ErrorKind::NotFound,
        "AccessControlException" | "AuthorizationException" => ErrorKind::PermissionDenied,
        "DSQuotaExceededException"
        | "NSQuotaExceededException"
        | "QuotaByStorageTypeExceededException"
        | "MaxDirectoryItemsExceededException" => ErrorKind::NoSpace,
        // No data node has room, or none is left.
        "IOException" if text.contains("could only be written to 0 of") => ErrorKind::NoSpace,
        _ => ErrorKind::Io,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_exception_of_a_server_is_one_line_of_a_kind() {
        let trace = "Permission denied: user=x\n\tat org.apache.hadoop.hdfs...\n\tat java.lang...";
        let class = "org.apache.hadoop.security.AccessControlException";
        let error = failed("make", HdfsError::RPCError(class.into(), trace.into())).in_object("hdfs://n/a");
        assert_eq!(error.kind(), ErrorKind::PermissionDenied);
        let text = error.to_string();
        assert!(text.contains("Permission denied: user=x") && !text.contains("at org"), "{text}");
    }
}
