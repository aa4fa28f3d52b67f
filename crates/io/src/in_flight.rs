//! Outputs in flight: closed by the program, and ended later, by methods that end outputs later
//! ([`thalweg_movement::method::pending`]) or because of `async=yes` ([`ASYNC`]).
//!
//! | question | answer |
//! |---|---|
//! | order | outputs of one file end in the order in which they were closed; those of different files concurrently |
//! | thread | one per file, while outputs of the file are in flight. For outputs with a profile, the program's close ends them itself, after the waiting ones |
//! | messages | of that thread; if the MPI library allows calls of the program's threads only, they move inside the program's calls ([`thalweg_comm::in_calls`]), also while these wait |
//! | a further output of the same file | by the same method: with `async=yes` its open runs on the thread of the file, behind the outputs in flight (`opening`). By another method, or a reader: the open waits until all have ended |
//! | failures | reported once, on all ranks: by a wait for the output; at the next open of the file, which then fails, as soon as all ranks have ended that output; otherwise at the end of the session |
//! | callbacks | called by the program's own thread, inside its next call (`OutputsInFlight::call_back`) |
//! | memory | the blocks of an output count in the buffer until the output has ended; beyond the limit, writes and closes wait for earlier outputs, then blocks are written through |
//! | memory, if messages move inside the program's calls | a rank that waits inside a write needs calls of the others, which may not be in the library. So the open, in which all ranks are, waits for the outputs in flight if on any rank the limit has no room for an output as long as the last one |
//! | end of the messages | in `MPI_Finalize`, outputs of sessions that are still open end (`end_all`); their failures are reported by the end of the session or of the process |
//! | length of a wait | unlimited while outputs end, each within the communicator's timeout |
//! | communicators | of outputs that have ended are given back by the program's calls, in the order of the opens, as on all ranks: a program that writes a new file at each step needs no more of them than it has outputs in flight |

use crate::staging::pacing::Pacer;
use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::{Arc, MutexGuard, Weak};
use std::time::{Duration, Instant};
use thalweg_bp::statistics::Level;
use thalweg_comm::agreement::agree;
use thalweg_comm::guarded::caught;
use thalweg_comm::{Communicator, Reduce, at_end, in_calls};
use thalweg_movement::Closed;
use thalweg_params::Parameter;
use thalweg_types::mutex::{Condvar, Mutex};
use thalweg_types::{Error, ErrorKind, Result};

/// `async`, of every method.
pub const ASYNC: Parameter = Parameter::switch(
    "async",
    false,
    "yes: close returns when the blocks are copied, and the output is written in the background (guide: Outputs in flight)",
);

/// `in_flight`, of every method.
pub const IN_FLIGHT: Parameter = Parameter::count(
    "in_flight",
    4,
    "async=yes: largest number of outputs in flight; close waits until earlier ones have ended. 0: close waits for its own output, too",
);

/// Longest sleep of the program's thread between two moves of messages.
const BETWEEN_MOVES: Duration = Duration::from_micros(100);

/// How an output ended.
pub(crate) struct Done {
    pub(crate) outcome: Result<Closed>,
    /// Dropped when the outcome is reported: in the same order on all ranks.
    pub(crate) comm: Option<Box<dyn Communicator>>,
}

/// The work that opens an output.
pub(crate) type OpenWork = Box<dyn FnOnce() + Send>;

/// The work that ends an output.
pub(crate) type Work = Box<dyn FnOnce() -> Done + Send>;

/// Called with the result of an output.
pub type Callback = Box<dyn FnOnce(Result<Closed>) + Send>;

/// Callbacks of outputs that have ended, with the results.
type Due = Mutex<VecDeque<(Callback, Result<Closed>)>>;

/// What the next open of a file needs before the outputs in front of it have ended.
#[derive(Clone, Default)]
pub(crate) struct Upcoming {
    /// The step of the last output, if all outputs in front of it succeed.
    pub(crate) step: u64,
    /// Arrays whose statistics the file records at another level than declared, by path and name.
    pub(crate) levels: HashMap<(String, String), Level>,
    /// Length of this rank's part of the last output.
    pub(crate) bytes: u64,
}

/// One output in flight.
struct InFlight {
    number: u64,
    /// Outputs of one line end one after the other.
    line: String,
    /// Which output of its line, since the session began; the same on all ranks.
    turn: u64,
    /// Paths of the files that it writes.
    files: Vec<String>,
    /// Opens the output, if the thread of the line is yet to do it.
    open: Option<OpenWork>,
    /// Ends the output; `None` before the program's close, and when the thread of the line has taken it.
    end: Option<Work>,
    /// The program has closed the output.
    closed: bool,
    result: Arc<Outcome>,
    comm: Option<Box<dyn Communicator>>,
}

impl InFlight {
    fn writes(&self, files: &[String]) -> bool {
        files.iter().any(|file| self.files.contains(file))
    }

    fn has_ended(&self) -> bool {
        self.result.0.lock().result.is_some()
    }

    fn has_failed(&self) -> bool {
        matches!(self.result.0.lock().result, Some(Err(_)))
    }

    /// Closed by the program, and not ended.
    fn is_under_way(&self) -> bool {
        self.closed && !self.has_ended()
    }
}

/// The result of an output, once it has ended.
#[derive(Default)]
struct Outcome(Mutex<OutcomeState>);

#[derive(Default)]
struct OutcomeState {
    result: Option<Result<Closed>>,
    /// The program knows the result.
    heard: bool,
    callbacks: Vec<Callback>,
}

/// A copy of a result.
fn again(result: &Result<Closed>) -> Result<Closed> {
    match result {
        Ok(closed) => Ok(*closed),
        Err(e) => Err(e.again()),
    }
}

impl Outcome {
    fn set(&self, result: Result<Closed>, due: &Due) {
        let mut state = self.0.lock();
        let callbacks = std::mem::take(&mut state.callbacks);
        state.heard |= !callbacks.is_empty();
        due.lock().extend(callbacks.into_iter().map(|callback| (callback, again(&result))));
        state.result = Some(result);
    }

    fn hear(&self) -> Option<Result<Closed>> {
        let mut state = self.0.lock();
        let result = state.result.as_ref().map(again)?;
        state.heard = true;
        Some(result)
    }

    /// The failure, unless the program knows it.
    fn hear_failure(&self) -> Result<()> {
        let mut state = self.0.lock();
        match &state.result {
            Some(Err(e)) if !state.heard => {
                let e = e.again();
                state.heard = true;
                Err(e)
            }
            _ => Ok(()),
        }
    }
}

/// An output that the program has closed, to wait for its end or to ask for it. Not collective; the result is of the same kind on all
/// ranks. If it is dropped before the result is known, a failure is reported by the next open of the file or at the end of the session.
pub struct PendingOutput {
    of: Arc<OutputsInFlight>,
    /// Line, number and timeout; `None` if the output had ended when its close returned.
    place: Option<(String, u64, Duration)>,
    result: Arc<Outcome>,
}

impl PendingOutput {
    /// One that has ended.
    pub(crate) fn ended(of: Arc<OutputsInFlight>, result: Result<Closed>) -> PendingOutput {
        let state = OutcomeState { result: Some(result), ..OutcomeState::default() };
        PendingOutput { of, place: None, result: Arc::new(Outcome(Mutex::new(state))) }
    }

    /// Whether the output has ended, without asking for its result.
    pub fn has_ended(&self) -> bool {
        self.of.pacer.lift();
        in_calls::move_messages();
        self.result.0.lock().result.is_some()
    }

    /// The result if the output has ended; `None` if it is in flight. Returns immediately.
    ///
    /// # Errors
    /// The failure of the output, also when asked again.
    pub fn test(&self) -> Result<Option<Closed>> {
        self.of.pacer.lift();
        self.of.call_back();
        self.result.hear().transpose()
    }

    /// Waits until the output has ended; outputs of the file that were closed before end first.
    ///
    /// # Errors
    /// The failure of the output, also when asked again; `Timeout` if no output of the file ends within the communicator's timeout.
    pub fn wait(&self) -> Result<Closed> {
        if let Some((line, number, timeout)) = &self.place {
            self.of.wait(|o| o.line == *line && o.number <= *number, *timeout)?;
        }
        self.of.call_back();
        let unknown = || Error::new(ErrorKind::InvalidArgument, "the output was given up");
        self.result.hear().unwrap_or_else(|| Err(unknown()))
    }

    /// As [`PendingOutput::wait`], for at most this long; `None` if the output is still in flight then.
    ///
    /// # Errors
    /// The failure of the output.
    pub fn wait_for(&self, most: Duration) -> Result<Option<Closed>> {
        if let Some((line, number, _)) = &self.place {
            self.of.wait_until(|o| o.line == *line && o.number <= *number, Instant::now().checked_add(most));
        }
        self.test()
    }

    /// Calls `callback` once, when the output has ended: inside the program's next call of the session or of a pending output, on the
    /// thread that makes this call. The callback receives the result, which is then not reported elsewhere.
    pub fn on_completion(&self, callback: Callback) {
        let mut state = self.result.0.lock();
        match state.result.as_ref().map(again) {
            Some(result) => {
                state.heard = true;
                self.of.due.lock().push_back((callback, result));
            }
            None => state.callbacks.push(callback),
        }
    }
}

/// What remains known of the outputs of a line.
#[derive(Default)]
struct Line {
    /// How many there were.
    turns: u64,
    upcoming: Upcoming,
}

#[derive(Default)]
struct Outputs {
    /// In the order in which they were opened behind others or closed. One that has ended is removed by a call of the program: with
    /// success at once, otherwise when all ranks report the failure.
    all: Vec<InFlight>,
    lines: HashMap<String, Line>,
    /// Lines that have a thread.
    busy: HashSet<String>,
    next: u64,
}

/// The outputs in flight of a session.
#[derive(Default)]
pub(crate) struct OutputsInFlight {
    outputs: Mutex<Outputs>,
    changed: Condvar,
    due: Due,
    /// When methods that send outputs to servers do that.
    pub(crate) pacer: Arc<Pacer>,
}

/// Those of all sessions of the process, with the longest wait for one output.
static SESSIONS: Mutex<Vec<(Weak<OutputsInFlight>, Duration)>> = Mutex::new(Vec::new());

/// Ends the outputs in flight of all sessions. On all ranks, before the library that carries their messages ends; no callback is called,
/// as this is no call of the program's.
fn end_all() {
    let sessions = SESSIONS.lock().clone();
    let mut longest = Duration::ZERO;
    for (outputs, timeout) in sessions.iter().filter_map(|(of, timeout)| Some((of.upgrade()?, *timeout))) {
        longest = longest.max(timeout);
        outputs.end_threads(timeout);
    }
    // Ranks that are not as far wait for them.
    in_calls::send_all(longest);
}

/// An output to add to the outputs in flight.
pub(crate) struct Entry {
    pub(crate) line: String,
    pub(crate) files: Vec<String>,
    pub(crate) upcoming: Upcoming,
}

impl OutputsInFlight {
    /// The outputs in flight of a session.
    ///
    /// - `timeout`: as in [`OutputsInFlight::add`].
    pub(crate) fn of_session(timeout: Duration) -> Arc<OutputsInFlight> {
        let own: Arc<OutputsInFlight> = Arc::default();
        let mut sessions = SESSIONS.lock();
        sessions.retain(|(session, _)| session.strong_count() > 0);
        sessions.push((Arc::downgrade(&own), timeout));
        at_end::register(end_all);
        own
    }

    /// Waits until all outputs that the program has closed have ended, and no thread opens another one. Failures are kept.
    fn end_threads(&self, timeout: Duration) {
        if self.wait(|_| true, timeout).is_err() {
            return;
        }
        let begun = Instant::now();
        let _hurry = self.pacer.hurry();
        let mut outputs = self.outputs.lock();
        while !outputs.busy.is_empty() {
            let Some(rest) = timeout.checked_sub(begun.elapsed()) else { return };
            outputs = self.sleep(outputs, rest);
        }
        drop(outputs);
        self.give_back();
    }

    fn push(&self, entry: Entry, open: Option<OpenWork>, end: Option<Work>) -> u64 {
        let Entry { line, files, upcoming } = entry;
        let mut outputs = self.outputs.lock();
        let number = outputs.next;
        outputs.next += 1;
        let of_line = outputs.lines.entry(line.clone()).or_default();
        let turn = of_line.turns;
        (of_line.turns, of_line.upcoming) = (turn + 1, upcoming);
        let (closed, result) = (end.is_some(), Arc::default());
        outputs.all.push(InFlight { number, line, turn, files, open, end, closed, result, comm: None });
        number
    }

    /// Adds an output that the program has closed, after those of its line.
    ///
    /// - `timeout`: longest wait of the program for one output.
    pub(crate) fn add(self: &Arc<OutputsInFlight>, entry: Entry, timeout: Duration, end: Work) -> PendingOutput {
        let line = entry.line.clone();
        let number = self.push(entry, None, Some(end));
        self.schedule(&line);
        self.pending(line, number, timeout)
    }

    /// Adds an output whose open runs behind those of its line. Returns its number, for [`OutputsInFlight::close`].
    pub(crate) fn add_open(self: &Arc<OutputsInFlight>, entry: Entry, open: OpenWork) -> u64 {
        let line = entry.line.clone();
        let number = self.push(entry, Some(open), None);
        self.schedule(&line);
        number
    }

    /// The program has closed an output that was added with its open; this rank's part has `bytes`.
    pub(crate) fn close(
        self: &Arc<OutputsInFlight>,
        line: &str,
        number: u64,
        bytes: u64,
        timeout: Duration,
        end: Work,
    ) -> PendingOutput {
        let mut outputs = self.outputs.lock();
        if let Some(output) = outputs.all.iter_mut().find(|o| o.number == number) {
            (output.end, output.closed) = (Some(end), true);
        }
        if let Some(line) = outputs.lines.get_mut(line) {
            line.upcoming.bytes = bytes;
        }
        drop(outputs);
        self.schedule(line);
        self.pending(line.to_string(), number, timeout)
    }

    fn pending(self: &Arc<OutputsInFlight>, line: String, number: u64, timeout: Duration) -> PendingOutput {
        // An output is removed from the list only by calls of the program, of which this is one.
        let of_number = |outputs: &Outputs| outputs.all.iter().find(|o| o.number == number).map(|o| o.result.clone());
        let result = of_number(&self.outputs.lock()).unwrap_or_default();
        PendingOutput { of: self.clone(), place: Some((line, number, timeout)), result }
    }

    /// Begins a thread for a line that has none.
    fn schedule(self: &Arc<OutputsInFlight>, line: &str) {
        if !self.outputs.lock().busy.insert(line.to_string()) {
            return;
        }
        let (own, name) = (self.clone(), line.to_string());
        let begun = std::thread::Builder::new().name("thalweg output".into()).spawn(move || {
            in_calls::in_background();
            own.run(&name);
        });
        if begun.is_err() {
            // No thread is to be had: the program's own does it.
            self.run(line);
        }
    }

    /// Opens and ends the outputs of a line, until it has none, or the program still writes the first one.
    fn run(&self, line: &str) {
        loop {
            let mut outputs = self.outputs.lock();
            let first = outputs.all.iter_mut().find(|o| o.line == line && !o.has_ended());
            let (open, end, number) = first.map_or((None, None, 0), |first| match first.open.take() {
                Some(open) => (Some(open), None, first.number),
                None => (None, first.end.take(), first.number),
            });
            if open.is_none() && end.is_none() {
                outputs.busy.remove(line);
                self.changed.notify_all();
                return;
            }
            drop(outputs);
            if let Some(open) = open {
                // The open keeps its own failures.
                let _ = caught("open the output", || {
                    open();
                    Ok(())
                });
            }
            if let Some(end) = end {
                let done = caught("end the output", || Ok(end()));
                let Done { outcome, comm } = done.unwrap_or_else(|e| Done { outcome: Err(e), comm: None });
                let mut outputs = self.outputs.lock();
                if let Some(output) = outputs.all.iter_mut().find(|o| o.number == number) {
                    output.comm = comm;
                    output.result.set(outcome, &self.due);
                }
            }
            self.changed.notify_all();
        }
    }

    /// Inside a call of the program: moves messages, calls the callbacks of outputs that have ended, and gives the communicators of these
    /// back.
    pub(crate) fn call_back(&self) {
        in_calls::move_messages();
        self.give_back();
        loop {
            let next = self.due.lock().pop_front();
            let Some((callback, result)) = next else { return };
            callback(result);
        }
    }

    /// Removes the outputs that have succeeded, up to the first one that has not ended: their communicators are idle in the same order
    /// on all ranks. Those of failed outputs are freed when all ranks report the failure.
    fn give_back(&self) {
        let mut outputs = self.outputs.lock();
        let ended = outputs.all.iter().position(|o| !o.has_ended()).unwrap_or(outputs.all.len());
        let succeeded: Vec<InFlight> = outputs.all.extract_if(..ended, |o| !o.has_failed()).collect();
        drop(outputs);
        succeeded.iter().filter_map(|o| o.comm.as_ref()).for_each(|comm| comm.set_idle());
    }

    /// Waits until none of these outputs is under way.
    fn wait(&self, which: impl Fn(&InFlight) -> bool, timeout: Duration) -> Result<()> {
        self.wait_for_fewer(which, 1, timeout)
    }

    /// Waits until fewer than `limit` of these outputs are under way.
    fn wait_for_fewer(&self, which: impl Fn(&InFlight) -> bool, limit: usize, timeout: Duration) -> Result<()> {
        let mut hurry = None;
        let mut outputs = self.outputs.lock();
        let mut left = usize::MAX;
        let mut since = Instant::now();
        loop {
            let under_way = outputs.all.iter().filter(|o| which(o) && o.is_under_way()).count();
            if under_way < limit {
                return Ok(());
            }
            hurry.get_or_insert_with(|| self.pacer.hurry());
            if under_way != left {
                (left, since) = (under_way, Instant::now());
            }
            let Some(rest) = timeout.checked_sub(since.elapsed()) else {
                let files = outputs.all.iter().filter(|o| which(o) && o.is_under_way()).flat_map(|o| o.files.first());
                let what =
                    format!("{under_way} outputs in flight do not end; none has ended for {} s", timeout.as_secs());
                let error = Error::new(ErrorKind::Timeout, what).safe("steps of outputs that have ended");
                return Err(files.fold(error, |error, file| error.in_object(file.as_str())));
            };
            outputs = self.sleep(outputs, rest);
        }
    }

    /// Gives the lock back until something may have changed. A program's thread moves messages meanwhile.
    fn sleep<'a>(&'a self, outputs: MutexGuard<'a, Outputs>, longest: Duration) -> MutexGuard<'a, Outputs> {
        if !in_calls::is_needed() {
            return self.changed.wait_timeout(outputs, longest).0;
        }
        drop(outputs);
        let moved = in_calls::move_messages();
        let outputs = self.outputs.lock();
        // Threads that got a message, and those that get the lock, need this one's core.
        let least = if moved { Duration::ZERO } else { BETWEEN_MOVES };
        self.changed.wait_timeout(outputs, longest.min(least)).0
    }

    /// Waits until none of these outputs is under way, or until a time.
    fn wait_until(&self, which: impl Fn(&InFlight) -> bool, end: Option<Instant>) {
        let mut hurry = None;
        let mut outputs = self.outputs.lock();
        while outputs.all.iter().any(|o| which(o) && o.is_under_way()) {
            hurry.get_or_insert_with(|| self.pacer.hurry());
            let rest = end.map_or(Duration::from_secs(3600), |end| end.saturating_duration_since(Instant::now()));
            if rest.is_zero() {
                return;
            }
            outputs = self.sleep(outputs, rest);
        }
    }

    /// Back-pressure: waits until an output has ended, whose memory is then free. `false` if none is under way, or none ends.
    pub(crate) fn wait_for_memory(&self, timeout: Duration) -> bool {
        let before = self.outputs.lock().all.iter().filter(|o| o.is_under_way()).count();
        before > 0 && self.wait_for_fewer(|_| true, before, timeout).is_ok()
    }

    /// Back-pressure: waits until at most `most` outputs are under way.
    ///
    /// # Errors
    /// `Timeout`.
    pub(crate) fn wait_for_limit(&self, most: u64, timeout: Duration) -> Result<()> {
        let fewer = usize::try_from(most).unwrap_or(usize::MAX).saturating_add(1);
        self.wait_for_fewer(|_| true, fewer, timeout)
    }

    /// Removes those of these outputs that have failed. Returns the first failure that the program does not know; further ones become
    /// warnings.
    fn hear(&self, which: impl Fn(&InFlight) -> bool) -> Result<()> {
        self.give_back();
        let mut outputs = self.outputs.lock();
        let (heard, left): (Vec<InFlight>, _) = outputs.all.drain(..).partition(|o| which(o) && o.has_failed());
        outputs.all = left;
        drop(outputs);
        let mut outcome = Ok(());
        for InFlight { result, .. } in &heard {
            match (&outcome, result.hear_failure()) {
                (Ok(()), ended) => outcome = ended,
                // One is returned; the others are not to get lost.
                (Err(_), Err(e)) => {
                    thalweg_warnings::tell_once(&format!("an output that was closed before failed, too: {e}"))
                }
                (Err(_), Ok(())) => {}
            }
        }
        outcome
    }

    /// Waits for all outputs of these files, but not for those of `line`.
    ///
    /// # Errors
    /// The first failure of one of them; `Timeout`.
    pub(crate) fn settle(&self, files: &[String], line: Option<&str>, timeout: Duration) -> Result<()> {
        self.call_back();
        let which = |o: &InFlight| o.writes(files) && line != Some(o.line.as_str());
        self.wait(which, timeout)?;
        self.hear(which)
    }

    /// Checks that the program does not write an output of the line, whose open is behind others.
    ///
    /// # Errors
    /// `InvalidArgument`.
    pub(crate) fn check_closed(&self, line: &str) -> Result<()> {
        let outputs = self.outputs.lock();
        let Some(open) = outputs.all.iter().find(|o| o.line == line && !o.closed) else { return Ok(()) };
        let what = "this file is open for another output; close that output first";
        let error = Error::new(ErrorKind::InvalidArgument, what);
        Err(open.files.iter().fold(error, |error, file| error.in_object(file.as_str())))
    }

    /// Collective: reports the outputs of a line that have ended on all ranks, without waiting. Returns whether the next output of the
    /// line opens behind others, and whether any rank lacks memory for it; the same on all ranks.
    ///
    /// - `line`: `None` on a rank whose method does not end outputs later.
    /// - `lacks`: whether this rank lacks memory.
    ///
    /// # Errors
    /// On all ranks: the first failure of one of them.
    pub(crate) fn meet(&self, comm: &dyn Communicator, line: Option<&str>, lacks: bool) -> Result<(bool, bool)> {
        let which = |o: &InFlight| Some(o.line.as_str()) == line;
        // Turns: the first one that has not ended, how many there were, the first one that failed. Without a line this rank bounds none.
        let (ended, turns, failed) = {
            let outputs = self.outputs.lock();
            let first = |wanted: &dyn Fn(&InFlight) -> bool| {
                outputs.all.iter().filter(|o| which(o) && wanted(o)).map(|o| o.turn).min()
            };
            let turns = line.and_then(|line| outputs.lines.get(line)).map(|line| line.turns);
            let ended = first(&|o| !o.has_ended()).or(turns).unwrap_or(u64::MAX);
            (ended, turns.unwrap_or(0), first(&|o| o.has_failed()).unwrap_or(u64::MAX))
        };
        let agreed = comm.all_reduce(&[ended, !turns, failed, u64::from(!lacks)], Reduce::Min)?;
        let (ended, turns, failed) = (agreed[0], !agreed[1], agreed[2]);
        if failed < ended {
            let heard = self.hear(|o| which(o) && o.turn < ended);
            agree(comm, heard, "end an output of this file that was closed before", &[])?;
        }
        Ok((turns > ended, agreed[3] == 0))
    }

    /// The facts about the last output of a line.
    pub(crate) fn upcoming(&self, line: &str) -> Upcoming {
        self.outputs.lock().lines.get(line).map(|line| line.upcoming.clone()).unwrap_or_default()
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
        self.call_back();
        self.hear(|o| o.closed).and(waited)
    }
}
