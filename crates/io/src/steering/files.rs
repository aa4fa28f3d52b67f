//! The control file and the run file: only their owner may access them.
//!
//! | file | who writes | who removes |
//! |---|---|---|
//! | `OUTPUT.control` | whoever asks for a change, whole or not at all; one at a time | the run that takes it; or the asker |
//! | `OUTPUT.control.run` | rank 0 of the run, which holds its lock (`flock`) | the run at its end; after a crash the lock is free |

use rustix::fs::{FileType, FlockOperation, Mode, OFlags, flock};
use rustix::io::Errno;
use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::time::Duration;
use thalweg_control::{LONGEST, RUN_SUFFIX, Record, SUFFIX};
use thalweg_types::{Error, ErrorKind, Result};

/// Looks at a lock or at a file that is being changed.
const LOOKS: u32 = 20;
/// Between two looks.
const BETWEEN: Duration = Duration::from_millis(50);

/// The control file of an output.
pub fn of_output(output: &Path) -> PathBuf {
    with(output, SUFFIX)
}

/// The run file of a control file.
pub fn run_file(control: &Path) -> PathBuf {
    with(control, RUN_SUFFIX)
}

fn with(path: &Path, suffix: &str) -> PathBuf {
    let mut name = OsString::from(path);
    name.push(suffix);
    PathBuf::from(name)
}

/// The name of this host.
pub fn host() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}

fn failed(doing: &str, path: &Path, e: impl Into<io::Error>) -> Error {
    Error::io(format!("cannot {doing}"), e.into()).in_object(path.display().to_string())
}

/// Checks that only the process's user, or root, may access a file.
fn check(file: &File, path: &Path) -> Result<()> {
    let about = rustix::fs::fstat(file).map_err(|e| failed("look at the file", path, e))?;
    let place = || path.display().to_string();
    if FileType::from_raw_mode(about.st_mode) != FileType::RegularFile {
        return Err(Error::new(ErrorKind::Corrupt, "not a regular file").in_object(place()));
    }
    let (mode, user) = (about.st_mode & 0o7777, rustix::process::geteuid().as_raw());
    if about.st_uid != user && about.st_uid != 0 {
        let what = format!("the file must belong to user {user} or root; user {} owns it", about.st_uid);
        return Err(Error::new(ErrorKind::PermissionDenied, what).in_object(place()));
    }
    if mode & 0o077 != 0 {
        let what = format!("other users may access the file: mode {mode:03o}; run `chmod 600` on it");
        return Err(Error::new(ErrorKind::PermissionDenied, what).in_object(place()));
    }
    Ok(())
}

/// Opens a file that only its owner may access, to read it; `None` if there is none.
fn open_owned(path: &Path) -> Result<Option<File>> {
    // A link could name any file, and a FIFO would block the open.
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY;
    let file = match rustix::fs::open(path, flags, Mode::empty()) {
        Ok(file) => File::from(file),
        Err(Errno::NOENT) => return Ok(None),
        Err(e) => return Err(failed("open the file", path, e)),
    };
    check(&file, path)?;
    Ok(Some(file))
}

/// Reads a file that only its owner may access; `None` if there is none.
///
/// # Errors
/// `PermissionDenied` if another user than the process's and root owns it, or others may access it; `Corrupt` if it is too large, or
/// not a regular file; `Io`.
pub fn read_owned(path: &Path) -> Result<Option<Vec<u8>>> {
    open_owned(path)?.map(|file| whole(&file, path)).transpose()
}

/// The bytes of a file, from its beginning.
fn whole(mut file: &File, path: &Path) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let read = file.seek(SeekFrom::Start(0)).and_then(|_| file.take(LONGEST + 1).read_to_end(&mut bytes));
    read.map_err(|e| failed("read the file", path, e))?;
    match bytes.len() as u64 > LONGEST {
        true => Err(Error::new(ErrorKind::Corrupt, "a file of more than 1 MiB").in_object(path.display().to_string())),
        false => Ok(bytes),
    }
}

/// Makes a control file, whole or not at all.
///
/// # Errors
/// `AlreadyExists` if another request waits; `Io`.
pub fn place(path: &Path, text: &str) -> Result<()> {
    let own = with(path, &format!(".{}", std::process::id()));
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
    let made = rustix::fs::open(&own, flags, Mode::RUSR | Mode::WUSR).map_err(io::Error::from);
    let linked =
        made.and_then(|file| File::from(file).write_all(text.as_bytes())).and_then(|()| std::fs::hard_link(&own, path));
    let _ = std::fs::remove_file(&own);
    linked.map_err(|e| match e.kind() {
        io::ErrorKind::AlreadyExists => {
            let what = "another change waits for the run's next written output";
            Error::new(ErrorKind::AlreadyExists, what).in_object(path.display().to_string())
        }
        _ => failed("make the control file", path, e),
    })
}

/// A run file that is watched. What the run has told stays readable when it has ended and removed the file.
pub struct Watch {
    file: File,
    path: PathBuf,
}

/// What a run file says of its run.
#[derive(Debug)]
pub struct Seen {
    /// Its content.
    pub record: Record,
    /// The run holds its lock.
    pub locked: bool,
}

impl Watch {
    /// Opens a run file; `None` if there is none.
    ///
    /// # Errors
    /// As [`read_owned`].
    pub fn open(path: &Path) -> Result<Option<Watch>> {
        Ok(open_owned(path)?.map(|file| Watch { file, path: path.to_path_buf() }))
    }

    /// Looks at the run.
    ///
    /// # Errors
    /// As [`read_owned`]; `Corrupt`, `Torn` if it is no run file.
    pub fn look(&self) -> Result<Seen> {
        for _ in 0..LOOKS {
            // Before the content, which is final once the lock is free.
            let locked = is_locked(&self.file).map_err(|e| failed("look at the lock of the run", &self.path, e))?;
            let parsed = Record::parse(&whole(&self.file, &self.path)?);
            match parsed.map_err(|e| e.in_object(self.path.display().to_string()))? {
                Some(record) => return Ok(Seen { record, locked }),
                None => std::thread::sleep(BETWEEN),
            }
        }
        Err(Error::new(ErrorKind::Torn, "the run file is incomplete").in_object(self.path.display().to_string()))
    }
}

fn is_locked(file: &File) -> io::Result<bool> {
    loop {
        match flock(file, FlockOperation::NonBlockingLockShared) {
            // Not kept: the next run must find it free.
            Ok(()) => return flock(file, FlockOperation::Unlock).map(|()| false).map_err(io::Error::from),
            Err(Errno::WOULDBLOCK) => return Ok(true),
            Err(Errno::INTR) => {}
            Err(e) => return Err(e.into()),
        }
    }
}

/// The run file of this process, which holds its lock.
pub(crate) struct RunFile {
    file: File,
    path: PathBuf,
    version: u64,
    /// A child process that shares the file must not remove it.
    pid: u32,
}

impl RunFile {
    /// Takes the run file for this process.
    ///
    /// # Errors
    /// `AlreadyExists` if another run has it; as [`read_owned`].
    pub(crate) fn begin(path: &Path) -> Result<RunFile> {
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::CLOEXEC | OFlags::NOFOLLOW | OFlags::NONBLOCK;
        for _ in 0..LOOKS {
            let opened = rustix::fs::open(path, flags, Mode::RUSR | Mode::WUSR);
            let file = File::from(opened.map_err(|e| failed("make the run file", path, e))?);
            check(&file, path)?;
            match flock(&file, FlockOperation::NonBlockingLockExclusive) {
                Ok(()) => {
                    // An earlier run may have removed it meanwhile.
                    let same = |there: std::fs::Metadata| {
                        file.metadata().is_ok_and(|own| (own.dev(), own.ino()) == (there.dev(), there.ino()))
                    };
                    if std::fs::symlink_metadata(path).is_ok_and(same) {
                        return Ok(RunFile { file, path: path.to_path_buf(), version: 0, pid: std::process::id() });
                    }
                }
                // Another run, or a command that looks.
                Err(Errno::WOULDBLOCK) => std::thread::sleep(BETWEEN),
                Err(Errno::INTR) => {}
                Err(e) => return Err(failed("lock the run file", path, e)),
            }
        }
        let what = "another run is steered by the same control file";
        Err(Error::new(ErrorKind::AlreadyExists, what).in_object(path.display().to_string()))
    }

    /// Replaces the content.
    ///
    /// # Errors
    /// `Io`.
    pub(crate) fn write(&mut self, record: &Record) -> Result<()> {
        self.version += 1;
        let text = record.encode(self.version);
        let written = self.file.write_all_at(text.as_bytes(), 0).and_then(|()| self.file.set_len(text.len() as u64));
        written.map_err(|e| failed("write the run file", &self.path, e))
    }
}

impl Drop for RunFile {
    fn drop(&mut self) {
        if self.pid == std::process::id() {
            let _ = std::fs::remove_file(&self.path);
        }
    }
}
