//! Errors of a mount's server: counted, the last one kept, all written to a log file if there is one.
//!
//! A program gets only an error number from the kernel; the log has the full message. Expected failures (a name that does
//! not exist, one that is taken, a missing right) are not recorded.

use std::fmt;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::MutexGuard;
use std::time::{SystemTime, UNIX_EPOCH};
use thalweg_types::mutex::Mutex;
use thalweg_types::{Error, ErrorKind};

/// Largest size of the log in bytes; later errors are only counted.
const LONGEST: u64 = 4 << 20;

/// The errors since the process started.
#[derive(Debug, Clone, Default)]
pub struct Errors {
    /// Number of errors.
    pub count: u64,
    /// The last error, and its time in seconds since 1970.
    pub last: Option<(u64, String)>,
    /// The log file.
    pub log: Option<PathBuf>,
}

impl fmt::Display for Errors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (at, what) = self.last.as_ref().map_or((0, ""), |(at, what)| (*at, what.as_str()));
        let log = self.log.as_ref().map(|log| log.display().to_string()).unwrap_or_default();
        write!(f, "{}\n{at}\n{log}\n{what}", self.count)
    }
}

impl Errors {
    /// Parses the text that a mount reports: see [`fmt::Display`].
    pub fn told(text: &str) -> Option<Errors> {
        let mut lines = text.splitn(4, '\n');
        let mut next = || lines.next();
        let (count, at, log, what) = (next()?.parse().ok()?, next()?.parse().ok()?, next()?, next()?);
        let last = (count > 0).then(|| (at, what.to_string()));
        Some(Errors { count, last, log: (!log.is_empty()).then(|| log.into()) })
    }
}

#[derive(Default)]
struct ErrorLog {
    errors: Errors,
    file: Option<File>,
    written: u64,
}

static ERROR_LOG: Mutex<Option<ErrorLog>> = Mutex::new(None);

fn error_log() -> MutexGuard<'static, Option<ErrorLog>> {
    ERROR_LOG.lock()
}

/// Writes further errors to this file, which only its user may read.
///
/// # Errors
/// Errors of the system.
pub fn log_to(path: &Path) -> io::Result<()> {
    let file =
        OpenOptions::new().read(true).append(true).create(true).mode(0o600).custom_flags(no_follow()).open(path)?;
    let mut log = error_log();
    let log = log.get_or_insert_default();
    log.file = Some(file);
    log.errors.log = Some(path.to_path_buf());
    Ok(())
}

fn no_follow() -> i32 {
    rustix::fs::OFlags::NOFOLLOW.bits() as i32
}

/// The errors so far.
pub fn so_far() -> Errors {
    error_log().as_ref().map(|log| log.errors.clone()).unwrap_or_default()
}

/// Counts and writes an error of which a program gets only a number.
pub fn note(error: &Error) {
    let known = matches!(
        error.kind(),
        ErrorKind::Config
            | ErrorKind::Corrupt
            | ErrorKind::Torn
            | ErrorKind::PeerLost
            | ErrorKind::NoSpace
            | ErrorKind::Timeout
    );
    if known || thalweg_layout::errno::of(error) == rustix::io::Errno::IO.raw_os_error() {
        write(&error.to_string());
    }
}

/// Counts and writes a message.
pub fn write(what: &str) {
    // File names come from programs and may contain line breaks: each error stays one line of the log.
    let what: String = what.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    let mut log = error_log();
    let log = log.get_or_insert_default();
    log.errors.count += 1;
    let line = format!("{now} {what}\n");
    log.errors.last = Some((now, what));
    if let Some(file) = &mut log.file
        && log.written < LONGEST
    {
        log.written += line.len() as u64;
        let _ = file.write_all(line.as_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn errors_are_counted_and_written_a_line_each_for_the_user_alone_and_answers_are_not() {
        let folder = tempfile::tempdir().unwrap();
        let log = folder.path().join("log");
        log_to(&log).unwrap();
        let before = so_far().count;
        note(&Error::new(ErrorKind::Corrupt, "torn\nby a name").in_object("a\u{1b}[2Jb"));
        note(&Error::new(ErrorKind::NotFound, "no such file"));
        let errors = so_far();
        assert_eq!(errors.count, before + 1);
        let text = std::fs::read_to_string(&log).unwrap();
        assert_eq!(text.lines().filter(|line| line.contains("by a name")).count(), 1, "{text}");
        assert!(!text.contains('\u{1b}'), "{text}");
        assert_eq!(std::fs::metadata(&log).unwrap().permissions().mode() & 0o777, 0o600);
        let told = Errors::told(&errors.to_string()).unwrap();
        assert_eq!((told.count, told.last, told.log), (errors.count, errors.last, errors.log));
        assert!(Errors::told("x").is_none());
    }
}
