//! The error of the whole library: failure, place, data that is still safe, and cause.
//!
//! On one line for logs, and the same facts as fields for programs:
//!
//! ```text
//! rank 16: cannot append process group (group "restart", step 4) to restart.bp.dir/restart.bp.2 at byte 8388608: no space left on device
//!   still safe: steps 0..=3 are indexed and readable
//! ```

use crate::printable::{printable, printable_lines};
use std::fmt;

/// The kind of a failure. Short and stable: C programs get [`ErrorKind::code`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum ErrorKind {
    /// Something failed below us that fits no other kind.
    Io = 1,
    /// No file, group, variable or step of that name.
    NotFound = 2,
    /// It is there already and was not to be.
    AlreadyExists = 3,
    /// The operating system or the store refused.
    PermissionDenied = 4,
    /// The store is full.
    NoSpace = 5,
    /// Memory, or the buffer limit, does not suffice.
    NoMemory = 6,
    /// Bytes that should be something are not.
    Corrupt = 7,
    /// Bytes end in the middle of something.
    Torn = 8,
    /// Outside the shape, the file or the range of a number.
    OutOfBounds = 9,
    /// Well formed, but beyond the abilities of this store, method or build.
    Unsupported = 10,
    /// The XML, the mount table or a parameter is wrong.
    Config = 11,
    /// A call was made with arguments or in an order that make no sense.
    InvalidArgument = 12,
    /// Another rank died or left.
    PeerLost = 13,
    /// A bounded wait ended.
    Timeout = 14,
    /// A step that does not exist yet, or a file that is still being written.
    NotReady = 15,
    /// No further step will come.
    EndOfStream = 16,
}

impl ErrorKind {
    /// Every kind.
    pub const ALL: [ErrorKind; 16] = {
        use ErrorKind::*;
        [
            Io,
            NotFound,
            AlreadyExists,
            PermissionDenied,
            NoSpace,
            NoMemory,
            Corrupt,
            Torn,
            OutOfBounds,
            Unsupported,
            Config,
            InvalidArgument,
            PeerLost,
            Timeout,
            NotReady,
            EndOfStream,
        ]
    };

    /// The number that ranks send each other; never 0.
    pub const fn code(self) -> u8 {
        self as u8
    }

    /// The kind with this number; [`ErrorKind::Io`] for an unknown number.
    pub fn from_code(code: u8) -> ErrorKind {
        ErrorKind::ALL.into_iter().find(|k| k.code() == code).unwrap_or(ErrorKind::Io)
    }

    /// In words.
    pub const fn words(self) -> &'static str {
        match self {
            ErrorKind::Io => "input/output error",
            ErrorKind::NotFound => "not found",
            ErrorKind::AlreadyExists => "exists already",
            ErrorKind::PermissionDenied => "permission denied",
            ErrorKind::NoSpace => "no space left",
            ErrorKind::NoMemory => "out of buffer memory",
            ErrorKind::Corrupt => "corrupt",
            ErrorKind::Torn => "torn",
            ErrorKind::OutOfBounds => "out of bounds",
            ErrorKind::Unsupported => "not supported",
            ErrorKind::Config => "configuration error",
            ErrorKind::InvalidArgument => "invalid argument",
            ErrorKind::PeerLost => "a rank was lost",
            ErrorKind::Timeout => "timed out",
            ErrorKind::NotReady => "not ready",
            ErrorKind::EndOfStream => "end of stream",
        }
    }
}

/// The place of a failure; unknown fields are `None`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Place {
    /// Rank of the process.
    pub rank: Option<u32>,
    /// Group being written or read.
    pub group: Option<String>,
    /// Step, from 0.
    pub step: Option<u64>,
    /// Variable or attribute.
    pub variable: Option<String>,
    /// File or object, with its store where that is not plain POSIX.
    pub object: Option<String>,
    /// Byte in that object.
    pub byte: Option<u64>,
}

/// A failure. See the module's page for how it reads.
#[derive(Debug)]
pub struct Error(Box<Inner>);

#[derive(Debug)]
struct Inner {
    kind: ErrorKind,
    what: String,
    place: Place,
    safe: Option<String>,
    reported_by: Option<u32>,
    source: Option<Box<dyn std::error::Error + Send + Sync>>,
}

/// The library's result.
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    /// A failure of this kind; `what` completes "cannot ..." or states the fact ("entry length is 7, needs 12").
    pub fn new(kind: ErrorKind, what: impl Into<String>) -> Error {
        Error(Box::new(Inner {
            kind,
            what: what.into(),
            place: Place::default(),
            safe: None,
            reported_by: None,
            source: None,
        }))
    }

    /// An operating system's failure, its kind derived from the error code.
    pub fn io(what: impl Into<String>, source: std::io::Error) -> Error {
        use std::io::ErrorKind as K;
        let kind = match source.kind() {
            K::NotFound => ErrorKind::NotFound,
            K::AlreadyExists => ErrorKind::AlreadyExists,
            K::PermissionDenied | K::ReadOnlyFilesystem => ErrorKind::PermissionDenied,
            K::StorageFull | K::QuotaExceeded | K::FileTooLarge => ErrorKind::NoSpace,
            K::OutOfMemory => ErrorKind::NoMemory,
            K::TimedOut => ErrorKind::Timeout,
            K::UnexpectedEof => ErrorKind::Torn,
            K::InvalidInput => ErrorKind::InvalidArgument,
            K::Unsupported => ErrorKind::Unsupported,
            _ => ErrorKind::Io,
        };
        Error::new(kind, what).caused_by(source)
    }

    /// A failure reported by another rank: the same kind on every rank, the cause only on the failing one.
    pub fn reported(kind: ErrorKind, by: u32, what: impl Into<String>) -> Error {
        let mut error = Error::new(kind, what);
        error.0.reported_by = Some(by);
        error
    }

    /// Adds the cause.
    pub fn caused_by(mut self, source: impl std::error::Error + Send + Sync + 'static) -> Error {
        self.0.source = Some(Box::new(source));
        self
    }

    /// Adds the rank, where none is known yet.
    pub fn at_rank(mut self, rank: u32) -> Error {
        self.0.place.rank.get_or_insert(rank);
        self
    }

    /// The error of a part of the ranks, as all know it: `ranks[r]` is the rank that counts there as r.
    pub fn among(mut self, ranks: &[u32]) -> Error {
        let all = |rank: u32| ranks.get(rank as usize).copied().unwrap_or(rank);
        self.0.place.rank = self.0.place.rank.map(all);
        self.0.reported_by = self.0.reported_by.map(all);
        self
    }

    /// Adds the group, where none is known yet.
    pub fn in_group(mut self, group: impl Into<String>) -> Error {
        self.0.place.group.get_or_insert_with(|| group.into());
        self
    }

    /// Adds the step (from 0), where none is known yet.
    pub fn at_step(mut self, step: u64) -> Error {
        self.0.place.step.get_or_insert(step);
        self
    }

    /// Adds the variable or attribute, where none is known yet.
    pub fn in_variable(mut self, name: impl Into<String>) -> Error {
        self.0.place.variable.get_or_insert_with(|| name.into());
        self
    }

    /// Adds the file or object, where none is known yet.
    pub fn in_object(mut self, object: impl Into<String>) -> Error {
        self.0.place.object.get_or_insert_with(|| object.into());
        self
    }

    /// Adds the byte offset, where none is known yet.
    pub fn at_byte(mut self, byte: u64) -> Error {
        self.0.place.byte.get_or_insert(byte);
        self
    }

    /// Moves a known byte offset by `base`: a decoder knows offsets in its slice, its caller the slice's offset.
    pub fn shifted(mut self, base: u64) -> Error {
        if let Some(byte) = &mut self.0.place.byte {
            *byte = byte.saturating_add(base);
        }
        self
    }

    /// Sets the data that is still safe.
    pub fn safe(mut self, safe: impl Into<String>) -> Error {
        self.0.safe = Some(safe.into());
        self
    }

    /// A copy of the failure; the cause becomes part of the text.
    pub fn again(&self) -> Error {
        let Inner { kind, what, place, safe, reported_by, source } = &*self.0;
        let what = source.as_ref().map_or(what.clone(), |source| format!("{what}: {source}"));
        let (place, safe) = (place.clone(), safe.clone());
        Error(Box::new(Inner { kind: *kind, what, place, safe, reported_by: *reported_by, source: None }))
    }

    /// The kind.
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }

    /// The place.
    pub fn place(&self) -> &Place {
        &self.0.place
    }

    /// The failure as text, without the place.
    pub fn what(&self) -> &str {
        &self.0.what
    }

    /// The data that is still safe, if known.
    pub fn still_safe(&self) -> Option<&str> {
        self.0.safe.as_deref()
    }

    /// The rank that reported it, where it was another one.
    pub fn reported_by(&self) -> Option<u32> {
        self.0.reported_by
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Inner { kind, what, place, safe, reported_by, source } = &*self.0;
        if let Some(rank) = place.rank {
            write!(f, "rank {rank}: ")?;
        }
        // The text may quote names of files and of programs.
        f.write_str(&printable_lines(what))?;
        let mut about = Vec::new();
        if let Some(group) = &place.group {
            about.push(format!("group \"{}\"", printable(group)));
        }
        if let Some(step) = place.step {
            about.push(format!("step {step}"));
        }
        if let Some(variable) = &place.variable {
            about.push(format!("\"{}\"", printable(variable)));
        }
        if !about.is_empty() {
            write!(f, " ({})", about.join(", "))?;
        }
        if let Some(object) = &place.object {
            write!(f, " in {}", printable(object))?;
        }
        if let Some(byte) = place.byte {
            write!(f, " at byte {byte}")?;
        }
        match source {
            Some(source) => write!(f, ": {}", printable_lines(&source.to_string()))?,
            None => write!(f, " [{}]", kind.words())?,
        }
        if let Some(by) = reported_by {
            write!(f, "; reported by rank {by}")?;
        }
        if let Some(safe) = safe {
            write!(f, "\n  still safe: {}", printable_lines(safe))?;
        }
        Ok(())
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.0.source.as_deref().map(|s| s as &(dyn std::error::Error + 'static))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_names_rank_thing_place_and_what_is_safe() {
        let error = Error::io("cannot append process group", std::io::Error::from_raw_os_error(28))
            .at_rank(16)
            .in_group("restart")
            .at_step(4)
            .in_object("restart.bp.dir/restart.bp.2")
            .at_byte(8_388_608)
            .safe("steps 0..=3 are indexed and readable");
        assert_eq!(error.kind(), ErrorKind::NoSpace);
        let text = error.to_string();
        assert!(text.starts_with("rank 16: cannot append process group (group \"restart\", step 4) in restart.bp.dir/restart.bp.2 at byte 8388608: "), "{text}");
        assert!(text.ends_with("\n  still safe: steps 0..=3 are indexed and readable"), "{text}");
    }

    #[test]
    fn names_in_a_message_do_not_steer_the_terminal_it_is_shown_on() {
        let error = Error::new(ErrorKind::NotFound, "cannot open 'a\u{1b}[2J'")
            .in_group("g\u{202e}")
            .in_variable("v\nforged: line")
            .in_object("o\u{9b}31m")
            .caused_by(std::io::Error::other("said \u{7}"));
        let text = error.to_string();
        assert!(!text.chars().any(|c| c.is_control() || c == '\u{202e}'), "{text:?}");
        assert_eq!(error.place().variable.as_deref(), Some("v\nforged: line"), "programs get the exact name");
    }

    #[test]
    fn the_place_nearest_to_the_failure_wins() {
        let error =
            Error::new(ErrorKind::Torn, "entry ends early").at_byte(5).shifted(100).at_byte(9).at_rank(1).at_rank(2);
        assert_eq!(error.place().byte, Some(105));
        assert_eq!(error.place().rank, Some(1));
    }

    #[test]
    fn kinds_survive_being_sent_as_numbers() {
        for kind in ErrorKind::ALL {
            assert_eq!(ErrorKind::from_code(kind.code()), kind);
        }
    }
}
