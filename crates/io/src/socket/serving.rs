//! The program that serves viewers, as rank 0 has it: it is started at the first output, and ends with the session.
//!
//! Nothing here waits for a viewer: a thread passes messages on, the last ones alone if the program does not keep up.

use super::protocol::{Ready, Wanted};
use rustix::io::Errno;
use rustix::net::{SendFlags, send};
use std::collections::{HashMap, HashSet};
use std::io::{BufRead, BufReader};
use std::net::Shutdown;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::process::{Child, Command};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};
use thalweg_mounts::draining;
use thalweg_movement::output_file::memory::{Memory, Remembered};
use thalweg_types::mutex::{Condvar, Mutex};
use thalweg_types::{Error, ErrorKind, Result};

/// How long a program may take to begin.
const BEGIN: Duration = Duration::from_secs(10);
/// How long the end of a session waits for the last messages to be passed on.
const END: Duration = Duration::from_secs(2);

/// The viewers of a session, for each address and group.
#[derive(Default)]
pub struct Serving {
    /// On rank 0: the programs; `None`: it could not start.
    programs: HashMap<(String, String), Option<Program>>,
    /// On every rank: whether somebody looked at the last output.
    watched: HashSet<(String, String)>,
}

impl Memory for Serving {
    fn end(memory: &Remembered<Serving>) -> Result<()> {
        memory.lock().programs.clear();
        Ok(())
    }
}

impl Serving {
    /// What viewers of a group want of the program that listens there; it is started at the first call. `None` if there is none.
    pub fn wanted(&mut self, listen: &str, group: &str) -> Option<Wanted> {
        let program = self.programs.entry((listen.into(), group.into())).or_insert_with(|| {
            let failed = |e: Error| thalweg_warnings::tell_once(&format!("no viewer can see the group '{group}': {e}"));
            Program::start(listen, group).map_err(failed).ok()
        });
        program.as_ref().map(Program::wanted)
    }

    /// Whether somebody looked at the last output of a group.
    pub fn is_watched(&self, listen: &str, group: &str) -> bool {
        self.watched.contains(&(listen.into(), group.into()))
    }

    /// Somebody looks at a group, or nobody does.
    pub fn watches(&mut self, listen: &str, group: &str, is_watched: bool) {
        let key = (listen.into(), group.into());
        if is_watched {
            self.watched.insert(key)
        } else {
            self.watched.remove(&key)
        };
    }

    /// Passes messages on.
    pub fn tell(&self, listen: &str, group: &str, messages: Vec<u8>) {
        if let Some(Some(program)) = self.programs.get(&(listen.into(), group.into())) {
            program.tell(messages);
        }
    }
}

/// What threads share.
#[derive(Default)]
struct Shared {
    wanted: Wanted,
    /// Messages of the last output that are not passed on yet.
    next: Option<Vec<u8>>,
    /// A message is being passed on.
    busy: bool,
    ended: bool,
}

struct Program {
    process: Child,
    channel: UnixStream,
    shared: Arc<(Mutex<Shared>, Condvar)>,
    by: u32,
}

impl Program {
    fn start(listen: &str, group: &str) -> Result<Program> {
        let command = draining::command();
        let failed = |e: std::io::Error| Error::io(format!("cannot start '{} viewers'", command.display()), e);
        let (ours, theirs) = UnixStream::pair().map_err(failed)?;
        let output = OwnedFd::from(theirs.try_clone().map_err(failed)?);
        let mut told = Command::new(&command);
        told.args(["viewers", "--listen", listen]).env_remove("LD_PRELOAD").stdin(OwnedFd::from(theirs)).stdout(output);
        let mut process = told.spawn().map_err(failed)?;
        let heard = (|| -> Result<_> {
            ours.set_read_timeout(Some(BEGIN)).map_err(failed)?;
            let mut channel = BufReader::new(ours.try_clone().map_err(failed)?);
            let mut line = String::new();
            channel.read_line(&mut line).map_err(failed)?;
            let ready: Ready = serde_json::from_str(&line).map_err(|_| {
                Error::new(ErrorKind::Io, format!("'{} viewers --listen {listen}' has ended", command.display()))
            })?;
            ours.set_read_timeout(None).map_err(failed)?;
            Ok((ready, channel))
        })();
        let (ready, channel) = heard.inspect_err(|_| {
            let _ = process.kill();
            let _ = process.wait();
        })?;
        thalweg_warnings::tell_once(&format!("the group '{group}' can be seen at {}", ready.url));
        let shared = Arc::new((Mutex::new(Shared::default()), Condvar::new()));
        let (hears, tells) = (shared.clone(), shared.clone());
        thread::spawn(move || hear(channel, &hears));
        let to = ours.try_clone().map_err(failed)?;
        thread::spawn(move || pass_on(to, &tells));
        Ok(Program { process, channel: ours, shared, by: std::process::id() })
    }

    fn wanted(&self) -> Wanted {
        self.shared.0.lock().wanted.clone()
    }

    fn tell(&self, messages: Vec<u8>) {
        self.shared.0.lock().next = Some(messages);
        self.shared.1.notify_all();
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        // In a child of `fork` it is the parent's.
        if self.by != std::process::id() {
            return;
        }
        let until = Instant::now() + END;
        let mut shared = self.shared.0.lock();
        while (shared.next.is_some() || shared.busy) && Instant::now() < until {
            shared = self.shared.1.wait_timeout(shared, Duration::from_millis(20)).0;
        }
        shared.ended = true;
        drop(shared);
        self.shared.1.notify_all();
        // The program ends when it reads the end.
        let _ = self.channel.shutdown(Shutdown::Both);
        let until = Instant::now() + END;
        while Instant::now() < until {
            if !matches!(self.process.try_wait(), Ok(None)) {
                return;
            }
            thread::sleep(Duration::from_millis(5));
        }
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Reads what viewers want until the program ends.
fn hear(mut channel: BufReader<UnixStream>, shared: &(Mutex<Shared>, Condvar)) {
    let mut line = String::new();
    while matches!(channel.read_line(&mut line), Ok(1..)) {
        if let Ok(wanted) = serde_json::from_str(&line) {
            shared.0.lock().wanted = wanted;
        }
        line.clear();
    }
    shared.0.lock().wanted = Wanted::default();
}

/// Passes messages on until the session ends.
fn pass_on(to: UnixStream, shared: &(Mutex<Shared>, Condvar)) {
    loop {
        let mut own = shared.0.lock();
        let messages = loop {
            if let Some(messages) = own.next.take() {
                break messages;
            }
            if own.ended {
                return;
            }
            own = shared.1.wait_timeout(own, Duration::from_secs(1)).0;
        };
        own.busy = true;
        drop(own);
        let is_sent = send_all(&to, &messages);
        shared.0.lock().busy = false;
        shared.1.notify_all();
        if !is_sent {
            return;
        }
    }
}

/// A write to a socket that nobody reads would end the program; this does not.
fn send_all(to: &UnixStream, mut bytes: &[u8]) -> bool {
    while !bytes.is_empty() {
        match send(to, bytes, SendFlags::NOSIGNAL) {
            Ok(sent) => bytes = &bytes[sent..],
            Err(Errno::INTR) => {}
            Err(_) => return false,
        }
    }
    true
}
