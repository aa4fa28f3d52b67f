//! Outputs in flight: closed by the program, and ended later by their methods ([`thalweg_movement::method::pending`]).
//!
//! | question | answer |
//! |---|---|
//! | order | outputs of one file end in the order in which they were closed; those of different files concurrently |
//! | thread | one per file, from its first output to its last. If the MPI library allows calls from one thread only, and for outputs with a profile, the program's close ends them itself, after the waiting ones |
//! | a further output of the same file | by the same method: opens at once and queues. By another one, or a reader: the open waits until all have ended |
//! | failures | reported once, on all ranks: at the next open of the file, which then fails, as soon as all ranks have ended that output; otherwise at the end of the session |
//! | memory | the blocks of an output count in the buffer until the output has ended; beyond the limit blocks are spilled |
//! | length of a wait | unlimited while outputs end, each within the communicator's timeout |

use std::collections::HashSet;
use std::sync::Arc;
use std::time::{Duration, Instant};
use thalweg_comm::agreement::agree;
use thalweg_comm::guarded::caught;
use thalweg_comm::{Communicator, Reduce};
use thalweg_movement::Closed;
use thalweg_types::mutex::{Condvar, Mutex};
use thalweg_types::{Error, ErrorKind, Result};

/// How an output ended.
pub(crate) struct Done {
    pub(crate) outcome: Result<Closed>,
    /// Dropped when the outcome is reported: in the same order on all ranks.
    pub(crate) comm: Option<Box<dyn Communicator>>,
}

/// The work that ends an output.
pub(crate) type Work = Box<dyn FnOnce() -> Done + Send>;

enum State {
    Waits(Work),
    Runs,
    Ended(Done),
}

/// One output in flight.
struct InFlight {
    number: u64,
    /// Outputs of one line end one after the other.
    line: String,
    /// Paths of the files that it writes.
    files: Vec<String>,
    state: State,
}

impl InFlight {
    fn writes(&self, files: &[String]) -> bool {
        files.iter().any(|file| self.files.contains(file))
    }

    fn has_ended(&self) -> bool {
        matches!(self.state, State::Ended(_))
    }
}

#[derive(Default)]
struct Outputs {
    /// In the order in which they were closed.
    all: Vec<InFlight>,
    /// Lines that have a thread.
    busy: HashSet<String>,
    next: u64,
}

/// The outputs in flight of a session.
#[derive(Default)]
pub(crate) struct OutputsInFlight {
    outputs: Mutex<Outputs>,
    changed: Condvar,
}

impl OutputsInFlight {
    /// Adds an output after those of its line.
    pub(crate) fn add(self: &Arc<OutputsInFlight>, line: &str, files: Vec<String>, work: Work) {
        let mut outputs = self.outputs.lock();
        let number = outputs.next;
        outputs.next += 1;
        outputs.all.push(InFlight { number, line: line.to_string(), files, state: State::Waits(work) });
        if !outputs.busy.insert(line.to_string()) {
            return;
        }
        drop(outputs);
        let (own, name) = (self.clone(), line.to_string());
        let begun = std::thread::Builder::new().name("thalweg output".into()).spawn(move || own.run(&name));
        if begun.is_err() {
            // No thread is to be had: the program's own does it.
            self.run(line);
        }
    }

    /// Ends the outputs of a line, until none waits.
    fn run(&self, line: &str) {
        loop {
            let mut outputs = self.outputs.lock();
            let first = outputs.all.iter_mut().find(|o| o.line == line && matches!(o.state, State::Waits(_)));
            let Some(first) = first else {
                outputs.busy.remove(line);
                self.changed.notify_all();
                return;
            };
            let number = first.number;
            let State::Waits(work) = std::mem::replace(&mut first.state, State::Runs) else { continue };
            drop(outputs);
            let done = caught("end the output", || Ok(work()));
            let done = done.unwrap_or_else(|e| Done { outcome: Err(e), comm: None });
            let mut outputs = self.outputs.lock();
            if let Some(output) = outputs.all.iter_mut().find(|o| o.number == number) {
                output.state = State::Ended(done);
            }
            self.changed.notify_all();
        }
    }

    /// Waits until none of these outputs waits or runs.
    fn wait(&self, which: impl Fn(&InFlight) -> bool, timeout: Duration) -> Result<()> {
        let mut outputs = self.outputs.lock();
        let mut left = usize::MAX;
        let mut since = Instant::now();
        loop {
            let under_way = outputs.all.iter().filter(|o| which(o) && !o.has_ended()).count();
            if under_way == 0 {
                return Ok(());
            }
            if under_way != left {
                (left, since) = (under_way, Instant::now());
            }
            let Some(rest) = timeout.checked_sub(since.elapsed()) else {
                let what = format!("{under_way} outputs that were closed before do not end");
                return Err(Error::new(ErrorKind::Timeout, what));
            };
            outputs = self.changed.wait_timeout(outputs, rest).0;
        }
    }

    /// Removes the first `most` of these outputs if they have ended. Returns the first failure; further ones become warnings.
    fn hear(&self, which: impl Fn(&InFlight) -> bool, most: usize) -> Result<()> {
        let mut heard = Vec::new();
        let mut outputs = self.outputs.lock();
        while heard.len() < most
            && let Some(at) = outputs.all.iter().position(&which)
            && outputs.all[at].has_ended()
        {
            heard.push(outputs.all.remove(at));
        }
        drop(outputs);
        let mut outcome = Ok(());
        for output in heard {
            let State::Ended(Done { outcome: ended, comm }) = output.state else { continue };
            if let (Ok(_), Some(comm)) = (&ended, &comm) {
                comm.set_idle();
            }
            match (&outcome, ended) {
                (Ok(()), ended) => outcome = ended.map(drop),
                // One is returned; the others are not to get lost.
                (Err(_), Err(e)) => {
                    thalweg_warnings::tell_once(&format!("an output that was closed before failed, too: {e}"))
                }
                (Err(_), Ok(_)) => {}
            }
        }
        outcome
    }

    /// Waits for all outputs of these files, but not for those of `line`.
    ///
    /// # Errors
    /// The first failure of one of them; `Timeout`.
    pub(crate) fn settle(&self, files: &[String], line: Option<&str>, timeout: Duration) -> Result<()> {
        let which = |o: &InFlight| o.writes(files) && line != Some(o.line.as_str());
        self.wait(which, timeout)?;
        self.hear(which, usize::MAX)
    }

    /// Collective: reports the outputs of a line that have ended on all ranks, without waiting.
    ///
    /// # Errors
    /// On all ranks: the first failure of one of them.
    pub(crate) fn meet(&self, comm: &dyn Communicator, line: &str) -> Result<()> {
        let which = |o: &InFlight| o.line == line;
        let ended = {
            let outputs = self.outputs.lock();
            let mut of_line = outputs.all.iter().filter(|o| which(o)).peekable();
            match of_line.peek() {
                // This rank has no output of the line: the others determine the number.
                None => u64::MAX,
                Some(_) => of_line.take_while(|o| o.has_ended()).count() as u64,
            }
        };
        let ended = comm.all_reduce(&[ended], Reduce::Min)?[0];
        if ended == 0 || ended == u64::MAX {
            return Ok(());
        }
        let heard = self.hear(which, ended as usize);
        agree(comm, heard, "end an output of this file that was closed before", &[]).map(drop)
    }

    /// Waits for the turn of an output that the program's own thread ends.
    ///
    /// # Errors
    /// `Timeout`.
    pub(crate) fn wait_for_turn(&self, line: &str, timeout: Duration) -> Result<()> {
        self.wait(|o| o.line == line, timeout)
    }

    /// Waits for all outputs.
    ///
    /// # Errors
    /// The first failure that was not reported; `Timeout`.
    pub(crate) fn finish(&self, timeout: Duration) -> Result<()> {
        let waited = self.wait(|_| true, timeout);
        self.hear(|_| true, usize::MAX).and(waited)
    }
}
