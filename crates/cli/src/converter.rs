//! The program that is linked with the libraries of other formats, and files that replace others when they are whole.

use crate::outcome::Failure;
use serde::Serialize;
use signal_hook::consts::{SIGINT, SIGTERM};
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use thalweg_types::{Error, ErrorKind};

/// Its name.
const CONVERT: &str = "thalweg-convert";

/// Its exit code for a file that can't be read or written, with the reason on standard error.
const SAID: i32 = 3;

/// What a failure leaves as it was.
pub const SAFE: &str = "the data, and an earlier file of this name";

/// The running program.
pub struct Program {
    running: Child,
    target: PathBuf,
    safe: &'static str,
    /// This process was told to end; so is the program, and what was made is removed.
    ended: Arc<AtomicBool>,
}

impl Program {
    /// Starts it.
    ///
    /// - `what`: what it is needed for, as the begin of a sentence; `target`: what is written, and `safe`: what a failure leaves as it was,
    ///   for messages.
    pub fn start(what: &str, arguments: &[&OsStr], target: &Path, safe: &'static str) -> Result<Program, Failure> {
        let (program, ended) = (program(), told_to_end()?);
        let mut command = Command::new(&program);
        let running = command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().map_err(|e| {
            let what = match e.kind() {
                io::ErrorKind::NotFound => format!(
                    "{what} by the program {CONVERT}, which is neither beside thalweg nor in PATH; it is installed with thalweg where HDF5 \
                     is (Debian: libhdf5-dev)"
                ),
                _ => format!("cannot start '{}'", program.display()),
            };
            Error::io(what, e)
        })?;
        Ok(Program { running, target: target.to_path_buf(), safe, ended })
    }

    /// Tells it what to do, and waits until it has done it.
    ///
    /// - `line`: gets each line that it prints.
    pub fn ask<T: Serialize>(mut self, what: &T, line: &mut dyn FnMut(&str)) -> Result<(), Failure> {
        let mut input = BufWriter::new(self.running.stdin.take().expect("a pipe was asked for"));
        let sent = serde_json::to_writer(&mut input, what).map_err(io::Error::from).and_then(|()| input.flush());
        drop(input);
        let told = BufReader::new(self.running.stdout.take().expect("a pipe was asked for"));
        let heard = told.lines().try_for_each(|text| {
            if self.ended.load(Ordering::Relaxed) {
                self.running.kill()?;
            }
            text.map(|text| line(&text))
        });
        self.end()?;
        sent.and(heard).map_err(|e| self.unheard(e))
    }

    /// The program, which stays and does one thing after the other.
    pub fn stay(mut self) -> Staying {
        let input = self.running.stdin.take().expect("a pipe was asked for");
        let told = BufReader::new(self.running.stdout.take().expect("a pipe was asked for"));
        Staying { program: self, input: Some(BufWriter::new(input)), told }
    }

    fn unheard(&self, e: io::Error) -> Failure {
        let what = format!("cannot speak with {CONVERT} about '{}'", self.target.display());
        Error::io(what, e).safe(self.safe).into()
    }

    /// Waits until it has ended; a failure if it did not succeed.
    fn end(&mut self) -> Result<(), Failure> {
        let status = self.running.wait().map_err(|e| self.unheard(e))?;
        if self.ended.load(Ordering::Relaxed) {
            let what = format!("'{}': {CONVERT} was told to end", self.target.display());
            return Err(Error::new(ErrorKind::Io, what).safe(self.safe).into());
        }
        if status.code() == Some(SAID) {
            return Err(Failure::Told);
        }
        if !status.success() {
            let what = format!("'{}': {CONVERT} failed ({status})", self.target.display());
            return Err(Error::new(ErrorKind::Io, what).safe(self.safe).into());
        }
        Ok(())
    }
}

/// The program, which does one thing after the other, and ends when this is dropped.
pub struct Staying {
    program: Program,
    /// `None` when it is to end.
    input: Option<BufWriter<ChildStdin>>,
    told: BufReader<ChildStdout>,
}

impl Staying {
    /// Tells it what to do next, and waits for the line that says that it is done.
    pub fn ask<T: Serialize>(&mut self, what: &T) -> Result<(), Failure> {
        let mut answer = String::new();
        let heard = self.input.as_mut().map_or(Ok(0), |input| {
            serde_json::to_writer(&mut *input, what).map_err(io::Error::from)?;
            input.write_all(b"\n").and_then(|()| input.flush())?;
            self.told.read_line(&mut answer)
        });
        if matches!(heard, Ok(length) if length > 0) {
            return Ok(());
        }
        self.input = None;
        self.program.end()?;
        Err(self.program.unheard(heard.err().unwrap_or_else(|| io::ErrorKind::UnexpectedEof.into())))
    }
}

impl Drop for Staying {
    fn drop(&mut self) {
        self.input = None;
        let _ = self.program.running.wait();
    }
}

/// Whether this process was told to end. From the first call on the first signal does nothing else: what was made is removed first.
pub fn told_to_end() -> Result<Arc<AtomicBool>, Error> {
    static ENDED: OnceLock<Arc<AtomicBool>> = OnceLock::new();
    let mut outcome = Ok(());
    let ended = ENDED.get_or_init(|| {
        let ended = Arc::new(AtomicBool::new(false));
        // The second one ends it.
        let heard = |signal| {
            signal_hook::flag::register_conditional_default(signal, ended.clone())?;
            signal_hook::flag::register(signal, ended.clone()).map(drop)
        };
        outcome = [SIGINT, SIGTERM].into_iter().try_for_each(heard);
        ended
    });
    outcome.map_err(|e| Error::io("cannot listen for signals", e))?;
    Ok(ended.clone())
}

/// The program beside this one; else its name, which is looked for in PATH.
fn program() -> PathBuf {
    let beside = std::env::current_exe().ok().map(|own| own.with_file_name(CONVERT));
    beside.filter(|program| program.is_file()).unwrap_or_else(|| CONVERT.into())
}

pub fn unwritten(target: &Path, cause: io::Error) -> Error {
    Error::io(format!("cannot write '{}'", target.display()), cause).safe(SAFE)
}

/// Writes a file under another name, and gives it its name: readers of an older one see it whole, before and after.
pub fn replace(
    target: &Path,
    write: impl FnOnce(&mut tempfile::NamedTempFile<File>) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let folder = target.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    told_to_end()?;
    let made = tempfile::Builder::new().prefix(".thalweg-new-").permissions(mode()).tempfile_in(folder);
    let mut file = made.map_err(|e| unwritten(target, e))?;
    write(&mut file)?;
    file.persist(target).map_err(|e| unwritten(target, e.error))?;
    Ok(())
}

/// Makes a folder under another name, and gives it its name: readers of an older one see it whole, before and after.
pub fn replace_folder(target: &Path, write: impl FnOnce(&Path) -> Result<(), Failure>) -> Result<(), Failure> {
    let unwritten = |e: io::Error| unwritten(target, e);
    let folder = target.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    told_to_end()?;
    let made = tempfile::Builder::new().prefix(".thalweg-new-").tempdir_in(folder).map_err(unwritten)?;
    let inner = made.path().join("made");
    fs::create_dir(&inner).map_err(unwritten)?;
    write(&inner)?;
    if fs::symlink_metadata(target).is_err() {
        fs::rename(&inner, target).map_err(unwritten)?;
        return Ok(made.close().map_err(unwritten)?);
    }
    // What was there is removed with the rest.
    let flags = rustix::fs::RenameFlags::EXCHANGE;
    match rustix::fs::renameat_with(rustix::fs::CWD, &inner, rustix::fs::CWD, target, flags) {
        // File systems that exchange no names: there is none for a moment.
        Err(rustix::io::Errno::INVAL | rustix::io::Errno::NOSYS | rustix::io::Errno::OPNOTSUPP) => {
            let before = made.path().join("before");
            fs::rename(target, &before).map_err(unwritten)?;
            if let Err(e) = fs::rename(&inner, target) {
                // The earlier one gets its name back, or stays under the other.
                if fs::rename(&before, target).is_err() {
                    let kept = made.keep().join("before");
                    let what = format!("cannot write '{}': the earlier one is '{}'", target.display(), kept.display());
                    return Err(Error::io(what, e).into());
                }
                return Err(unwritten(e).into());
            }
        }
        exchanged => exchanged.map_err(|e| unwritten(e.into()))?,
    }
    Ok(made.close().map_err(unwritten)?)
}

/// As for other new files: the umask is subtracted when the file is made.
fn mode() -> std::fs::Permissions {
    use std::os::unix::fs::PermissionsExt;
    std::fs::Permissions::from_mode(0o666)
}
