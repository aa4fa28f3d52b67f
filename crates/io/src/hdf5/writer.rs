//! The program that is linked with HDF5, as rank 0 speaks with it. Each output has one of its own, so outputs in flight do not meet; between
//! outputs programs wait for the next one.

use super::protocol::{Answer, Ask};
use rustix::net::{SendFlags, send};
use std::io::{BufRead, BufReader, ErrorKind as Cause};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::{Child, Command};
use std::time::Duration;
use thalweg_mounts::draining;
use thalweg_movement::output_file::memory::{Memory, Remembered};
use thalweg_types::{Error, ErrorKind, Result};

/// Its name.
const PROGRAM: &str = "thalweg-convert";

/// The programs of a session that wait for an output.
#[derive(Default)]
pub struct Waiting(Vec<Writer>);

impl Memory for Waiting {
    fn end(memory: &Remembered<Waiting>) -> Result<()> {
        memory.lock().0.clear();
        Ok(())
    }
}

/// A program. What it was asked for since the last commit is in its memory alone: dropping it gives that up.
pub struct Writer {
    process: Child,
    /// Its standard input and output. A socket, because a write to a pipe that nobody reads would kill a program that does not ignore
    /// SIGPIPE.
    channel: BufReader<UnixStream>,
    /// The process that has started it.
    by: u32,
    /// It was told to commit a step, and has not said that it is done: nothing may end it now.
    commits: bool,
}

impl Drop for Writer {
    fn drop(&mut self) {
        // In a child of `fork` it is the parent's.
        if self.by != std::process::id() || self.commits {
            return;
        }
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

impl Writer {
    /// One that waits, else a new one.
    ///
    /// # Errors
    /// `NotFound` if the program is not there; errors of the system.
    pub fn take(waiting: &Remembered<Waiting>) -> Result<Writer> {
        let last = || waiting.lock().0.pop();
        while let Some(mut writer) = last() {
            // One that somebody has killed is not asked.
            if matches!(writer.process.try_wait(), Ok(None)) {
                return Ok(writer);
            }
        }
        start()
    }

    /// It has committed its step, and waits for the next output.
    pub fn give_back(self, waiting: &Remembered<Waiting>) {
        waiting.lock().0.push(self);
    }

    /// Asks, and waits for the answer.
    ///
    /// # Errors
    /// Its failure; `Io` if it has ended, or has not answered within `patience`. It is of no use then.
    pub fn ask(&mut self, ask: &Ask, patience: Duration) -> Result<Answer> {
        let unheard = |e: std::io::Error| Error::io(format!("cannot speak with {PROGRAM}"), e);
        let mut line = serde_json::to_vec(ask)
            .map_err(|e| Error::new(ErrorKind::InvalidArgument, format!("the step cannot be told: {e}")))?;
        line.push(b'\n');
        let channel = self.channel.get_ref();
        let patience = Some(patience.max(Duration::from_millis(1)));
        channel.set_write_timeout(patience).and_then(|()| channel.set_read_timeout(patience)).map_err(unheard)?;
        let mut rest = &line[..];
        while !rest.is_empty() {
            match send(channel, rest, SendFlags::NOSIGNAL) {
                Ok(sent) => rest = &rest[sent..],
                Err(rustix::io::Errno::INTR) => {}
                Err(e) => return Err(unheard(e.into())),
            }
        }
        self.commits = matches!(ask, Ask::Commit { .. });
        let mut line = String::new();
        if self.channel.read_line(&mut line).map_err(unheard)? == 0 {
            self.commits = false;
            return Err(Error::new(ErrorKind::Io, format!("{PROGRAM}, which writes the file, has ended")));
        }
        self.commits = false;
        let answer: Answer = serde_json::from_str(&line)
            .map_err(|e| Error::new(ErrorKind::Io, format!("{PROGRAM} is of another release: {e}")))?;
        answer.heard()
    }
}

/// The programs to try: beside the command of this installation, then in `PATH`.
fn programs() -> [PathBuf; 2] {
    [draining::command().with_file_name(PROGRAM), PROGRAM.into()]
}

fn start() -> Result<Writer> {
    let failed = |what: &str| {
        let what = format!("cannot start '{what}'");
        move |e: std::io::Error| Error::io(what, e)
    };
    for program in programs() {
        let shown = program.display().to_string();
        let (ours, theirs) = UnixStream::pair().map_err(failed(&shown))?;
        let answers = OwnedFd::from(theirs.try_clone().map_err(failed(&shown))?);
        let mut command = Command::new(&program);
        // It writes files as they are, also those that readers have open: it has locks of its own.
        command
            .arg("output")
            .env_remove("LD_PRELOAD")
            .env("HDF5_USE_FILE_LOCKING", "FALSE")
            .stdin(OwnedFd::from(theirs))
            .stdout(answers);
        match command.spawn() {
            Ok(process) => {
                return Ok(Writer { process, channel: BufReader::new(ours), by: std::process::id(), commits: false });
            }
            Err(e) if e.kind() == Cause::NotFound => {}
            Err(e) => return Err(failed(&shown)(e)),
        }
    }
    let what = format!(
        "the program {PROGRAM}, which writes HDF5 files, is neither beside thalweg nor in PATH; it is installed with thalweg where HDF5 is \
         (Debian: libhdf5-dev), and $THALWEG_COMMAND names the command thalweg beside it"
    );
    Err(Error::new(ErrorKind::NotFound, what))
}
