//! Calls a function in a child process, and ends the child when it takes too long.

use crate::message::{self, Answer, Argument, Call, Form};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid};
use std::ffi::OsString;
use std::io::{BufReader, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};
use thalweg_types::{Error, ErrorKind, Result};

/// The child that calls functions of Python.
const PYTHON_HOST: &str = include_str!("host.py");

/// What a function is written in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Language {
    /// A shared library.
    Library(PathBuf),
    /// A file of Python.
    Python(PathBuf),
}

/// A function of a user.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Function {
    /// Where it is.
    pub language: Language,
    /// Its name there.
    pub name: String,
    /// Longest time of a call, and of the start of the child.
    pub limit: Duration,
}

impl std::fmt::Display for Function {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (Language::Library(path) | Language::Python(path)) = &self.language;
        write!(f, "function {} of {}", self.name, path.display())
    }
}

/// The programs that children run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hosts {
    /// A program and its first arguments, behind which library and function are put: it calls [`crate::host::run`].
    pub library: Vec<OsString>,
    /// The interpreter of Python.
    pub python: OsString,
}

impl Hosts {
    /// `thalweg function-host`, and the interpreter that `THALWEG_PYTHON` names, or `python3`.
    pub fn of(thalweg: impl Into<OsString>) -> Hosts {
        let python = std::env::var_os("THALWEG_PYTHON").filter(|name| !name.is_empty());
        Hosts { library: vec![thalweg.into(), "function-host".into()], python: python.unwrap_or("python3".into()) }
    }
}

/// Calls a function. The child is started by the first call, and anew after one that has failed.
pub struct Caller {
    function: Function,
    hosts: Hosts,
    child: Option<Running>,
}

impl Drop for Caller {
    /// A child that waits for a call ends by itself, and writes what it has printed.
    fn drop(&mut self) {
        if let Some(child) = self.child.take() {
            child.end(true);
        }
    }
}

impl Caller {
    /// - `hosts`: what children run.
    pub fn new(function: Function, hosts: Hosts) -> Caller {
        Caller { function, hosts, child: None }
    }

    /// The function.
    pub fn function(&self) -> &Function {
        &self.function
    }

    /// Calls the function.
    ///
    /// - `arguments`: each with its values; `result`: gets the values that the function gives; of unknown content after a failure.
    ///
    /// # Errors
    /// `NotFound` where there is no such library, file or function; `Timeout` for one that took too long; `PeerLost` where the child died, with
    /// its exit code or signal; `InvalidArgument` with what the function says. The next call starts a new child after any of them.
    /// # Cost
    /// The arguments and the result cross a pipe each, at some 2 GB/s. The first call starts a process: some 5 ms for a library, 150 ms for
    /// Python with NumPy.
    pub fn call(&mut self, step: u64, arguments: &[(Argument, &[u8])], form: &Form, result: &mut [u8]) -> Result<()> {
        let deadline = Instant::now() + self.function.limit;
        let outcome = self.try_call(step, arguments, form, result, deadline);
        outcome.map_err(|e| {
            // What it still would say is no answer to another call.
            let ended = self.child.take().map(|child| child.end(e.kind() == ErrorKind::PeerLost));
            match (e.kind(), ended.flatten()) {
                (ErrorKind::Timeout, _) => {
                    Error::new(ErrorKind::Timeout, format!("it took longer than {:?}", self.function.limit))
                }
                (ErrorKind::PeerLost, Some(how)) => Error::new(ErrorKind::PeerLost, format!("its process {how}")),
                _ => e,
            }
        })
    }

    fn try_call(
        &mut self,
        step: u64,
        arguments: &[(Argument, &[u8])],
        form: &Form,
        result: &mut [u8],
        deadline: Instant,
    ) -> Result<()> {
        let child = match &mut self.child {
            Some(child) => child,
            none => none.insert(Running::start(&self.function, &self.hosts)?),
        };
        child.allow_until(deadline);
        if !child.ready {
            child.answer(ErrorKind::NotFound)?;
            child.ready = true;
        }
        let call = Call {
            step,
            arguments: arguments.iter().map(|(argument, _)| argument.clone()).collect(),
            result: form.clone(),
        };
        let mut send = |bytes: &[u8]| child.to.write_all(bytes).map_err(lost);
        send(&message::line(&call))?;
        arguments.iter().try_for_each(|(_, values)| send(values))?;
        child.answer(ErrorKind::InvalidArgument)?;
        child.from.read_exact(result).map_err(lost)
    }
}

/// The kind of a failure of a pipe.
fn lost(e: std::io::Error) -> Error {
    match e.kind() {
        std::io::ErrorKind::TimedOut => Error::new(ErrorKind::Timeout, "it took too long"),
        std::io::ErrorKind::BrokenPipe | std::io::ErrorKind::UnexpectedEof => {
            Error::new(ErrorKind::PeerLost, "its process has ended")
        }
        _ => Error::io("cannot exchange values with its process", e),
    }
}

/// A child.
struct Running {
    child: Child,
    to: Timed<ChildStdin>,
    from: BufReader<Timed<ChildStdout>>,
    /// It has found the function.
    ready: bool,
}

impl Running {
    fn start(function: &Function, hosts: &Hosts) -> Result<Running> {
        let (program, path) = match &function.language {
            Language::Library(path) => (hosts.library.clone(), path),
            Language::Python(path) => (vec![hosts.python.clone(), "-u".into(), "-c".into(), PYTHON_HOST.into()], path),
        };
        let Some((program, first)) = program.split_first() else {
            return Err(Error::new(ErrorKind::Config, "no program calls functions of shared libraries"));
        };
        let mut command = Command::new(program);
        command.args(first).arg(path).arg(&function.name).stdin(Stdio::piped()).stdout(Stdio::piped());
        // A Ctrl-C is meant for the caller, which ends behind a whole step.
        command.process_group(0);
        let started = command.spawn().and_then(|mut child| {
            let missing = || std::io::Error::other("no pipe");
            let to = Timed::new(child.stdin.take().ok_or_else(missing)?)?;
            let from = Timed::new(child.stdout.take().ok_or_else(missing)?)?;
            Ok(Running { child, to, from: BufReader::new(from), ready: false })
        });
        started.map_err(|e| Error::io(format!("cannot start {}", program.display()), e))
    }

    fn allow_until(&mut self, deadline: Instant) {
        self.to.deadline = deadline;
        self.from.get_mut().deadline = deadline;
    }

    fn answer(&mut self, refused: ErrorKind) -> Result<()> {
        let answer = message::read::<Answer>(&mut self.from).map_err(|e| {
            let timed_out = std::error::Error::source(&e)
                .and_then(|cause| cause.downcast_ref::<std::io::Error>())
                .is_some_and(|cause| cause.kind() == std::io::ErrorKind::TimedOut);
            if timed_out { Error::new(ErrorKind::Timeout, "it took too long") } else { e }
        })?;
        match answer {
            Some(Answer { failed: None }) => Ok(()),
            Some(Answer { failed: Some(why) }) => Err(Error::new(refused, why)),
            None => Err(Error::new(ErrorKind::PeerLost, "its process has ended")),
        }
    }

    /// Ends the child, and says how it ended by itself.
    ///
    /// - `by_itself`: it is given a moment for that, and killed only then.
    fn end(self, by_itself: bool) -> Option<String> {
        let Running { mut child, to, from, .. } = self;
        // The end of its calls.
        drop((to, from));
        let pid = Pid::from_child(&child);
        // It is not reaped by this: until then its number, which is that of its group, is no other's.
        let looks = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        let has_ended = || matches!(waitid(WaitId::Pid(pid), looks), Ok(Some(_)));
        let until = Instant::now() + Duration::from_secs(2);
        while by_itself && !has_ended() && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(2));
        }
        let ended = has_ended();
        // With the processes that it has started.
        let _ = kill_process_group(pid, Signal::KILL);
        let status = child.wait().ok().filter(|_| ended)?;
        match (status.code(), status.signal()) {
            (Some(code), _) => Some(format!("ended with exit code {code}")),
            (None, Some(signal)) => Some(format!("was ended by signal {signal}")),
            (None, None) => None,
        }
    }
}

/// A pipe whose reads and writes end at a deadline.
struct Timed<P> {
    pipe: P,
    deadline: Instant,
}

impl<P: AsFd> Timed<P> {
    fn new(pipe: P) -> std::io::Result<Timed<P>> {
        rustix::io::ioctl_fionbio(&pipe, true)?;
        Ok(Timed { pipe, deadline: Instant::now() })
    }

    /// Waits until the pipe can be used.
    fn wait(&self, how: PollFlags) -> std::io::Result<()> {
        loop {
            let left = self.deadline.saturating_duration_since(Instant::now());
            let left = Timespec::try_from(left).map_err(std::io::Error::other)?;
            match poll(&mut [PollFd::new(&self.pipe, how)], Some(&left)) {
                Ok(0) => return Err(std::io::ErrorKind::TimedOut.into()),
                Ok(_) => return Ok(()),
                Err(rustix::io::Errno::INTR) => {}
                Err(e) => return Err(e.into()),
            }
        }
    }
}

impl<P: AsFd + Read> Read for Timed<P> {
    fn read(&mut self, out: &mut [u8]) -> std::io::Result<usize> {
        loop {
            match self.pipe.read(out) {
                Err(e) if e.kind() == std::io::ErrorKind::WouldBlock => self.wait(PollFlags::IN)?,
                other => return other,
            }
        }
    }
}

impl<P: AsFd + Write> Write for Timed<P> {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        loop {
            match self.pipe.write(bytes) {
                Err(e) if e.kind() == std::io::ErrorKind::WouldBlock => self.wait(PollFlags::OUT)?,
                other => return other,
            }
        }
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.pipe.flush()
    }
}
