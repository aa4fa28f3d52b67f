//! Exit status of the FUSE server, kept beside its log: `thalweg unmount` reads it after the server has ended.
//!
//! | file | holds |
//! |---|---|
//! | `mount-PID.at` | the mount point; locked while the server lives. If the server failed, a zero byte and the reason follow. Removed by the server if it ends well, else by the next `unmount` or `mount` at this mount point |
//! | `mount-PID.unpublished` | bytes that could not be published, or why the server failed; removed by the `unmount` that reports it |

use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use std::cell::Cell;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use thalweg_types::{Error, ErrorKind, Result};

/// Extension of the file with the mount point.
const AT: &str = "at";

/// The file for publish errors, beside a log.
pub fn unpublished(log: &Path) -> PathBuf {
    log.with_extension("unpublished")
}

/// The absolute path of a mount point, found without a request to the mount, whose server may be dead.
fn named(point: &Path) -> io::Result<PathBuf> {
    let point = std::path::absolute(point)?;
    match (point.parent().map(fs::canonicalize), point.file_name()) {
        (Some(parent), Some(name)) => Ok(parent?.join(name)),
        _ => Ok(point),
    }
}

/// Registration of this process as the server of a mount, held while the process lives.
pub struct Serving {
    path: PathBuf,
    file: File,
    log: PathBuf,
    told: Cell<bool>,
}

impl Serving {
    /// Registers the process with this log as the server of the mount at `point`.
    ///
    /// # Errors
    /// Errors of the system.
    pub fn begin(log: &Path, point: &Path) -> io::Result<Serving> {
        let path = log.with_extension(AT);
        // Left behind by a killed process with the same PID, or by a killed server of this mount.
        let _ = fs::remove_file(&path);
        let folder = log.parent().unwrap_or(Path::new("."));
        while let Some(known) = MountServer::of(folder, point).filter(MountServer::has_ended) {
            fs::remove_file(&known.path)?;
        }
        let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path)?;
        flock(&file, FlockOperation::NonBlockingLockExclusive)?;
        file.write_all(named(point)?.as_os_str().as_bytes())?;
        Ok(Serving { path, file, log: log.to_path_buf(), told: Cell::new(false) })
    }

    /// Records that the server failed: in the file with the mount point, which is open already, and in a file of its own.
    ///
    /// # Errors
    /// Errors of the system, if neither file could be written.
    pub fn say(&self, why: &Error) -> io::Result<()> {
        let why = why.to_string();
        let mut known = &self.file;
        let beside = known.write_all(&[&[0], why.as_bytes()].concat());
        let path = unpublished(&self.log);
        let _ = fs::remove_file(&path);
        let own = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path);
        let own = own.and_then(|mut file| writeln!(file, "{why}"));
        // `unmount` finds the record by the mount point.
        self.told.set(beside.is_ok() || own.is_ok());
        beside.or(own)
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        if !self.told.get() {
            let _ = fs::remove_file(&self.path);
        }
        let _ = flock(&self.file, FlockOperation::Unlock);
    }
}

/// The current or last server of a mount.
pub struct MountServer {
    path: PathBuf,
    file: File,
}

impl MountServer {
    /// Finds the server of the mount at `point` in `folder`, where logs are: a living process first, else a killed one.
    pub fn of(folder: &Path, point: &Path) -> Option<MountServer> {
        let point = named(point).ok()?;
        let mut known = None;
        for entry in fs::read_dir(folder).ok()?.flatten() {
            let path = entry.path();
            let is_of_point = |bytes: Vec<u8>| bytes.split(|b| *b == 0).next() == Some(point.as_os_str().as_bytes());
            if path.extension().is_none_or(|e| e != AT) || !fs::read(&path).is_ok_and(is_of_point) {
                continue;
            }
            let Ok(file) = File::open(&path) else { continue };
            let found = MountServer { path, file };
            if !found.has_ended() {
                return Some(found);
            }
            known = Some(found);
        }
        known
    }

    fn has_ended(&self) -> bool {
        flock(&self.file, FlockOperation::NonBlockingLockShared) != Err(Errno::WOULDBLOCK)
    }

    /// Waits until the process has ended and returns its exit status.
    ///
    /// # Errors
    /// The error that the server recorded; `Timeout`.
    pub fn hear(&self, point: &Path, limit: Duration) -> Result<()> {
        let started = Instant::now();
        while !self.has_ended() {
            if started.elapsed() > limit {
                let what = "the process that served the mount still closes its files";
                return Err(Error::new(ErrorKind::Timeout, what).in_object(point.display().to_string()));
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        let told = last_words(&self.path, point);
        let _ = fs::remove_file(&self.path);
        told
    }
}

/// Publish errors of a server, kept until an `unmount` has reported them.
///
/// # Errors
/// `Io` where the server recorded errors; its records are then removed.
pub fn last_words(log: &Path, point: &Path) -> Result<()> {
    let path = unpublished(log);
    let beside = || {
        let bytes = fs::read(log.with_extension(AT)).ok()?;
        let why = bytes.splitn(2, |b| *b == 0).nth(1)?;
        Some(String::from_utf8_lossy(why).into_owned())
    };
    let Some(what) = fs::read_to_string(&path).ok().filter(|what| !what.is_empty()).or_else(beside) else {
        return Ok(());
    };
    let _ = fs::remove_file(&path);
    let _ = fs::remove_file(log.with_extension(AT));
    let what = format!("unmounted, but {}", what.trim_end());
    Err(Error::new(ErrorKind::Io, what).in_object(point.display().to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_unmounts_hears_of_a_process_that_ended_before_it_could_be_asked() {
        let folder = tempfile::tempdir().unwrap();
        let (log, other) = (folder.path().join("mount-7.log"), folder.path().join("mount-8.log"));
        let point = folder.path().join("at");
        let serving = Serving::begin(&log, &point).unwrap();
        let _other = Serving::begin(&other, &folder.path().join("elsewhere")).unwrap();
        let known = MountServer::of(folder.path(), &point).unwrap();
        assert_eq!(known.hear(&point, Duration::ZERO).unwrap_err().kind(), ErrorKind::Timeout);
        serving.say(&Error::new(ErrorKind::Io, "the store is gone")).unwrap();
        drop(serving);
        // A later `unmount` finds the record, too.
        drop(known);
        let known = MountServer::of(folder.path(), &point).unwrap();
        let told = known.hear(&point, Duration::ZERO).unwrap_err().to_string();
        assert!(told.contains("the store is gone"), "{told}");
        known.hear(&point, Duration::ZERO).unwrap();
        assert!(MountServer::of(folder.path(), &point).is_none());
        // Unreported errors do not carry over to the next mount at this point.
        for why in ["first", "second"] {
            Serving::begin(&log, &point).unwrap().say(&Error::new(ErrorKind::Io, why)).unwrap();
        }
        drop(Serving::begin(&folder.path().join("mount-9.log"), &point).unwrap());
        assert!(MountServer::of(folder.path(), &point).is_none());
    }
}
