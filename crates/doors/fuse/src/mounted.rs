//! Mounting, unmounting, and cleaning up mounts whose server died.

use crate::door::{Door, ERRORS, PROCESS};
use crate::errors::Errors;
use crate::kernel::Kernel;
use crate::last_words::{MountServer, last_words};
use crate::readers::{PAUSE, Readers, TICK};
use crate::settings::Settings;
use fuser::{BackgroundSession, Config, MountOption, SessionACL};
use rustix::io::Errno;
use rustix::mount::{UnmountFlags, unmount as detach};
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use std::fs;
use std::io;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};
use thalweg_layout::Layout;
use thalweg_types::{Error, ErrorKind, Result};

/// How long unmounting waits for open files after the mount point is detached.
const PATIENCE: Duration = Duration::from_secs(2);
/// How long `unmount` waits for the server to close its files.
const CLOSING: Duration = Duration::from_secs(600);
/// Timeout of a request to a mount.
const SILENCE: Duration = Duration::from_secs(10);
/// Read-ahead of the kernel for sequential reads, in KiB.
const AHEAD: &str = "1024";

/// A mount, served until it is unmounted or dropped.
pub struct Mounted {
    point: PathBuf,
    door: Arc<Door>,
    readers: Arc<Readers>,
    session: Option<BackgroundSession>,
}

fn failed(what: &str, point: &Path, cause: impl Into<io::Error>) -> Error {
    Error::io(format!("cannot {what}"), cause.into()).in_object(point.display().to_string())
}

/// Mounts a layout at a folder. An existing mount there whose server died is unmounted first.
///
/// # Errors
/// `AlreadyExists` if Thalweg has mounted there already; `NotFound` if the folder does not exist; the system's errors.
pub fn mount(layout: Arc<dyn Layout>, point: &Path, settings: Settings) -> Result<Mounted> {
    if is_dead(point) {
        take_away(point, true)?;
    }
    // Serializes concurrent mounts: the second process finds the first one's mount.
    let turn = fs::File::open(point).map_err(|e| failed("mount", point, e))?;
    let _ = rustix::fs::flock(&turn, rustix::fs::FlockOperation::LockExclusive);
    if let Some(Ok(process)) = asked(point, PROCESS) {
        let what =
            format!("cannot mount: process {process} has mounted there already; `thalweg unmount` removes the mount");
        let cause = io::Error::from(Errno::BUSY);
        return Err(Error::new(ErrorKind::AlreadyExists, what).caused_by(cause).in_object(shown(point)));
    }
    let about = fs::metadata(point).map_err(|e| failed("mount", point, e))?;
    if !about.is_dir() {
        let cause = io::Error::from(Errno::NOTDIR);
        return Err(Error::new(ErrorKind::InvalidArgument, "cannot mount").caused_by(cause).in_object(shown(point)));
    }
    let point = fs::canonicalize(point).map_err(|e| failed("mount", point, e))?;
    let mut config = Config::default();
    config.mount_options = vec![
        MountOption::FSName(settings.name.clone()),
        MountOption::Subtype("thalweg".into()),
        MountOption::DefaultPermissions,
        MountOption::NoDev,
        MountOption::NoSuid,
    ];
    config.acl = if settings.others { SessionACL::All } else { SessionACL::Owner };
    config.n_threads = Some(settings.threads.max(1));
    config.clone_fd = true;
    let door = Arc::new(Door::new(layout, settings));
    if door.is_plain() {
        // No other user can open a file between its creation and the change of its mode.
        rustix::process::umask(rustix::fs::Mode::from_raw_mode(0o077));
    }
    let readers = Readers::new(TICK, PAUSE).map_err(|e| failed("mount", &point, e))?;
    let kernel = Kernel(door.clone(), readers.clone());
    let session = fuser::Session::new(kernel, &point, &config).and_then(fuser::Session::spawn);
    let session = session.inspect_err(|_| readers.leave()).map_err(|e| match e.kind() {
        io::ErrorKind::NotFound => Error::io("cannot mount: there is no /dev/fuse or no fusermount3", e),
        _ => Error::io("cannot mount", e),
    });
    let session = session.map_err(|e| e.in_object(shown(&point)))?;
    read_ahead(&point);
    door.tells(session.notifier());
    Ok(Mounted { point, door, readers, session: Some(session) })
}

fn shown(path: &Path) -> String {
    path.display().to_string()
}

/// Raises the kernel's read-ahead, 128 KiB by default; without permission the default stays. `statx` must not send a
/// request to the server, which may have failed and would never answer.
fn read_ahead(point: &Path) {
    use rustix::fs::{AtFlags, CWD, StatxFlags, statx};
    if let Ok(about) = statx(CWD, point, AtFlags::STATX_DONT_SYNC, StatxFlags::empty()) {
        let (major, minor) = (about.stx_dev_major, about.stx_dev_minor);
        let _ = fs::write(format!("/sys/class/bdi/{major}:{minor}/read_ahead_kb"), AHEAD);
    }
}

impl Mounted {
    /// Whether the mount uses passthrough: the kernel reads and writes the underlying files itself.
    pub fn passes_through(&self) -> bool {
        self.door.passthrough.load(std::sync::atomic::Ordering::Relaxed)
    }

    /// Whether the kernel has ended the mount, because it was unmounted.
    pub fn has_ended(&self) -> bool {
        self.session.as_ref().is_none_or(|session| session.guard.is_finished())
    }

    /// Unmounts and closes all files; returns when all written bytes are published.
    ///
    /// # Errors
    /// A file that cannot be closed; a failure that ended the server before; the system's errors.
    pub fn unmount(mut self) -> Result<()> {
        self.end()
    }

    fn end(&mut self) -> Result<()> {
        let Some(session) = self.session.take() else { return Ok(()) };
        if !session.guard.is_finished() {
            flush(&self.point);
            take_away(&self.point, true)?;
            self.readers.leave();
            let started = Instant::now();
            // While files are open, the kernel sends requests until they are closed.
            while !session.guard.is_finished() && started.elapsed() < PATIENCE {
                std::thread::sleep(Duration::from_millis(5));
            }
        }
        self.readers.leave();
        let served = if session.guard.is_finished() { session.join() } else { Ok(()) };
        let closed = self.door.close_all();
        let failed = served.err().filter(|e| e.kind() != io::ErrorKind::ConnectionAborted);
        let failed =
            failed.map(|e| Error::io("requests to the mount are answered no longer", e).in_object(shown(&self.point)));
        closed.and(failed.map_or(Ok(()), Err))
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        let _ = self.end();
    }
}

/// Writes back the kernel's cache of the mount.
fn flush(point: &Path) {
    if let Ok(folder) = fs::File::open(point) {
        let _ = rustix::fs::syncfs(&folder);
    }
}

/// Whether a mount's server has died. The request is one that the kernel's attribute cache cannot answer.
pub fn is_dead(point: &Path) -> bool {
    matches!(asked(point, PROCESS), Some(Err(Errno::NOTCONN)))
}

/// Unmounts, directly as root, else with the helper `fusermount3`.
fn take_away(point: &Path, lazily: bool) -> Result<()> {
    let flags = if lazily { UnmountFlags::DETACH } else { UnmountFlags::empty() };
    match detach(point, flags) {
        Ok(()) => return Ok(()),
        Err(Errno::PERM) => {}
        Err(e) => return Err(failed("unmount", point, e)),
    }
    let mut helper = Command::new("fusermount3");
    helper.args(if lazily { &["-u", "-z"][..] } else { &["-u"] }).arg("--").arg(point);
    let outcome = helper.stdin(Stdio::null()).output().map_err(|e| failed("unmount: run fusermount3", point, e))?;
    match outcome.status.success() {
        true => Ok(()),
        false => {
            let what = format!("cannot unmount: {}", String::from_utf8_lossy(&outcome.stderr).trim());
            Err(Error::new(ErrorKind::PermissionDenied, what).in_object(shown(point)))
        }
    }
}

/// Unmounts a mount of another process and waits until that process has closed its files.
///
/// - `lazily`: unmounts also if files are open there; the server closes them.
/// - `known`: the server according to the files beside its log, for a mount that does not answer.
///
/// # Errors
/// `InvalidArgument` if Thalweg has nothing mounted there; busy, unless `lazily`; `Timeout` if the server does not end; the
/// bytes that the server could not publish, or the failure that ended it.
pub fn unmount(point: &Path, lazily: bool, known: Option<&MountServer>) -> Result<()> {
    let hear = |known: &MountServer| known.hear(point, CLOSING);
    let dead = || {
        // The server may unmount by itself.
        let taken = take_away(point, true);
        known.map_or(Ok(()), hear)?;
        if is_dead(point) { taken } else { Ok(()) }
    };
    if is_dead(point) {
        return dead();
    }
    let server = match (server(point), known) {
        // The server is ending.
        (Err(_), _) if is_dead(point) => return dead(),
        (Err(e), Some(known)) if e.kind() == ErrorKind::InvalidArgument => return hear(known),
        (server, _) => server?,
    };
    // The log beside which the server records its exit status.
    let log = asked(point, ERRORS).and_then(rustix::io::Result::ok).and_then(|told| Errors::told(&told)?.log);
    let waits = pidfd_open(server, PidfdFlags::empty());
    flush(point);
    match take_away(point, false) {
        Err(_) if lazily => {
            // The server closes the open files and unmounts.
            rustix::process::kill_process(server, rustix::process::Signal::TERM)
                .map_err(|e| failed("unmount: end the process that serves it", point, e))?;
        }
        other => other?,
    }
    let Ok(waits) = waits else { return Ok(()) };
    let mut ends = [rustix::event::PollFd::new(&waits, rustix::event::PollFlags::IN)];
    let limit = rustix::event::Timespec { tv_sec: CLOSING.as_secs() as i64, tv_nsec: 0 };
    match rustix::event::poll(&mut ends, Some(&limit)) {
        Ok(0) => {
            let what = format!("process {} still closes its files", server.as_raw_nonzero());
            Err(Error::new(ErrorKind::Timeout, what).in_object(shown(point)))
        }
        Ok(_) => match (log, known) {
            (Some(log), _) => last_words(&log, point),
            (None, known) => known.map_or(Ok(()), hear),
        },
        Err(e) => Err(failed("wait for the process that served it", point, e)),
    }
}

/// A mount of this machine and the state of its server.
#[derive(Debug, Clone)]
pub struct Served {
    /// Mount point.
    pub point: PathBuf,
    /// Mounted source: `thalweg:/scratch/run7`.
    pub what: String,
    /// PID of the server; `None` if the server died or does not answer.
    pub pid: Option<i32>,
    /// The server's errors; `None` if it does not answer.
    pub errors: Option<Errors>,
}

/// All mounts of Thalweg in this process's mount namespace.
///
/// # Errors
/// Errors of reading the system's table of mounts.
pub fn all_mounted() -> Result<Vec<Served>> {
    let table = fs::read("/proc/self/mountinfo").map_err(|e| failed("read", Path::new("/proc/self/mountinfo"), e))?;
    let mut all = Vec::new();
    for line in table.split(|byte| *byte == b'\n') {
        let words: Vec<&[u8]> = line.split(|byte| *byte == b' ').collect();
        let Some(dash) = words.iter().position(|word| *word == b"-") else { continue };
        let (Some(point), Some(kind), Some(what)) = (words.get(4), words.get(dash + 1), words.get(dash + 2)) else {
            continue;
        };
        // The type is `fuse` for mounts by root, `fuse.thalweg` for mounts by the helper.
        if !kind.starts_with(b"fuse") || !what.starts_with(b"thalweg:") {
            continue;
        }
        let point = PathBuf::from(std::ffi::OsString::from_vec(unescaped(point)));
        let pid = asked(&point, PROCESS).and_then(rustix::io::Result::ok).and_then(|pid| pid.parse().ok());
        let errors = pid.and_then(|_| asked(&point, ERRORS)).and_then(rustix::io::Result::ok);
        let errors = errors.and_then(|told| Errors::told(&told));
        all.push(Served { point, what: String::from_utf8_lossy(&unescaped(what)).into_owned(), pid, errors });
    }
    Ok(all)
}

/// Decodes octal escapes of spaces and similar characters in the system's table.
fn unescaped(word: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(word.len());
    let mut rest = word;
    while let Some((first, behind)) = rest.split_first() {
        let number = behind.get(..3).and_then(|digits| u8::from_str_radix(std::str::from_utf8(digits).ok()?, 8).ok());
        match number.filter(|_| *first == b'\\') {
            Some(byte) => (out.push(byte), rest = &behind[3..]),
            None => (out.push(*first), rest = behind),
        };
    }
    out
}

/// The value of an extended attribute of a mount; `None` if the server does not answer in time.
fn asked(point: &Path, what: &'static str) -> Option<rustix::io::Result<String>> {
    let (tell, told) = std::sync::mpsc::channel();
    let point = point.to_path_buf();
    // In a thread of its own: a hanging server blocks the request forever.
    std::thread::spawn(move || {
        let mut out = vec![0; 64 << 10];
        let got = rustix::fs::getxattr(&point, what, &mut out[..]);
        let _ = tell.send(got.map(|length| String::from_utf8_lossy(&out[..length]).into_owned()));
    });
    told.recv_timeout(SILENCE).ok()
}

/// The PID of a mount's server, requested from the mount.
fn server(point: &Path) -> Result<Pid> {
    let no_mount = || Error::new(ErrorKind::InvalidArgument, "no mount of Thalweg is there").in_object(shown(point));
    match asked(point, PROCESS) {
        Some(Ok(number)) => number.parse().ok().and_then(Pid::from_raw).ok_or_else(no_mount),
        Some(Err(Errno::NODATA | Errno::OPNOTSUPP | Errno::NOSYS)) => Err(no_mount()),
        Some(Err(e)) => Err(failed("find the process that serves it", point, e)),
        None => {
            let what = "the process that serves the mount does not answer; end it, then unmount again";
            Err(Error::new(ErrorKind::Timeout, what).in_object(shown(point)))
        }
    }
}
