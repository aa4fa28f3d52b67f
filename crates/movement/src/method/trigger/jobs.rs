//! Jobs: commands and notifications that follow an output, run concurrently with the program, one after the other.
//!
//! | question | answer |
//! |---|---|
//! | who runs them | one thread per line (a queue of jobs), started with the line's first job; the program's threads only enqueue |
//! | how long | each job has a time limit. On timeout a command's process group is killed; a request is abandoned |
//! | how many wait | as many as the line allows; further jobs are not run, and the log says so |
//! | at the end | [`Jobs::finish`] waits for running and queued jobs, at most as long as each line allows; then running commands are killed and queued jobs are not started |
//! | on failure | the error is logged and never reaches the program |
//!
//! A command reads its document from an unnamed file, not from a pipe: a write to a pipe that the command does not read
//! would kill a program that does not ignore SIGPIPE.

use crate::output_file::memory::{Memory, Remembered};
use std::collections::VecDeque;
use std::fmt::Write as _;
use std::fs::{File, OpenOptions};
use std::io::{Read, Seek, SeekFrom, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::{Duration, Instant, SystemTime};
use thalweg_types::Result;
use thalweg_types::mutex::{Condvar, Mutex};
use thalweg_types::printable::printable;

/// Most bytes of the end of a command's error output that are kept.
const TAIL: usize = 4096;
/// Longest interval between polls of a running command.
const LOOK: Duration = Duration::from_millis(10);
/// Longest wait for the end of a killed command.
const GONE: Duration = Duration::from_secs(1);

/// What a job does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    /// A command for `sh -c`, the document on its standard input.
    Command(String),
    /// An HTTP address to which the document is posted.
    Post(String),
}

impl std::fmt::Display for Action {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            // Only a command's first word and an address's host: the rest may contain passwords and tokens.
            Action::Command(command) => {
                let mut words = command.split_whitespace();
                let first = words.find(|word| !word.contains('=')).unwrap_or("...");
                write!(f, "command {first:?}{}", if words.next().is_some() { " ..." } else { "" })
            }
            Action::Post(url) => {
                let rest = url.split_once("://").map_or(url.as_str(), |(_, rest)| rest);
                let place = rest.split(['/', '?', '#']).next().unwrap_or("");
                let host = place.rsplit_once('@').map_or(place, |(_, host)| host);
                write!(f, "post to {}", printable(host))
            }
        }
    }
}

impl Action {
    /// The command or address, whose parts may be secret.
    fn text(&self) -> &str {
        match self {
            Action::Command(text) | Action::Post(text) => text,
        }
    }

    /// A line of a command's or server's output without words of the action: shells quote commands in errors, and servers
    /// quote addresses.
    fn without_secrets(&self, line: &str) -> String {
        let mut words: Vec<&str> =
            self.text().split(|c: char| c.is_whitespace() || "\"'=&?;|<>()".contains(c)).collect();
        // Short words are names of programs and options, which would match in unrelated text.
        words.retain(|w| w.len() >= 8 && w.bytes().any(|b| b.is_ascii_digit()) && !w.starts_with('/'));
        words.sort_by_key(|w| std::cmp::Reverse(w.len()));
        words.iter().fold(line.to_string(), |line, word| line.replace(word, "..."))
    }
}

/// The rules of one line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rules {
    /// The command or request.
    pub action: Action,
    /// Longest time of one job.
    pub timeout: Duration,
    /// Most queued jobs.
    pub waiting: usize,
    /// Longest wait for the line's jobs at the end of the program.
    pub at_end: Duration,
}

/// One job to run.
#[derive(Debug, Clone, Default)]
pub struct Job {
    /// The output, for the log.
    pub about: String,
    /// Path of the log; `None`: no log.
    pub log: Option<String>,
    /// The JSON document.
    pub document: Vec<u8>,
    /// Environment of a command, added to the program's.
    pub environment: Vec<(&'static str, String)>,
}

/// An entry of a line's queue.
enum Queued {
    Run(Job),
    /// A job that is not run, with the reason for the log.
    Leave(Job, String),
}

#[derive(Default)]
struct State {
    queue: VecDeque<Queued>,
    /// Number of queued jobs that are to be run.
    waiting: usize,
    /// No more jobs will be added.
    closed: bool,
    /// Deadline of all jobs.
    end: Option<Instant>,
    done: bool,
}

struct Line {
    /// Key of the line.
    name: String,
    rules: Rules,
    state: Mutex<State>,
    changed: Condvar,
}

/// All lines of a process. If it is dropped without [`Jobs::finish`], queued jobs run until the process ends.
#[derive(Default)]
pub struct Jobs {
    lines: Vec<Arc<Line>>,
}

impl Jobs {
    /// Enqueues a job; does not block.
    ///
    /// - `name`: jobs with the same name and rules run one after the other.
    pub fn send(&mut self, name: &str, rules: &Rules, job: Job) {
        self.line(name, rules).push(Queued::Run(job));
    }

    /// Logs why an output has no job, in the order of the queue.
    pub fn leave_out(&mut self, name: &str, rules: &Rules, job: Job, why: &str) {
        self.line(name, rules).push(Queued::Leave(job, why.to_string()));
    }

    fn line(&mut self, name: &str, rules: &Rules) -> Arc<Line> {
        if let Some(known) = self.lines.iter().find(|line| line.name == name && line.rules == *rules) {
            return known.clone();
        }
        let line = Line::begin(name, rules);
        self.lines.push(line.clone());
        line
    }

    /// Waits for all jobs, at most as long as each line allows.
    pub fn finish(&mut self) {
        let lines = std::mem::take(&mut self.lines);
        let now = Instant::now();
        for line in &lines {
            line.close(now.checked_add(line.rules.at_end));
        }
        for line in lines {
            // Time to kill a command.
            let until = now + line.rules.at_end + 2 * GONE;
            let mut state = line.state.lock();
            while !state.done {
                let left = until.saturating_duration_since(Instant::now());
                if left.is_zero() {
                    tracing::warn!("{} does not end; going on without it", line.rules.action);
                    break;
                }
                state = line.changed.wait_timeout(state, left).0;
            }
        }
    }
}

impl Memory for Jobs {
    fn end(memory: &Remembered<Jobs>) -> Result<()> {
        // Outside the lock, so that other threads can enqueue meanwhile.
        let mut jobs = std::mem::take(&mut *memory.lock());
        jobs.finish();
        Ok(())
    }
}

impl Drop for Jobs {
    fn drop(&mut self) {
        for line in &self.lines {
            line.close(None);
        }
    }
}

/// The outcome of a job.
struct Ended {
    what: String,
    /// End of the error output.
    tail: Vec<u8>,
    failed: bool,
}

impl Ended {
    fn failed(what: impl Into<String>) -> Ended {
        Ended { what: what.into(), tail: Vec::new(), failed: true }
    }
}

impl Line {
    fn begin(name: &str, rules: &Rules) -> Arc<Line> {
        let (name, rules) = (name.to_string(), rules.clone());
        let line = Arc::new(Line { name, rules, state: Mutex::default(), changed: Condvar::new() });
        let own = line.clone();
        let begun = std::thread::Builder::new().name("jobs".into()).spawn(move || own.run());
        if let Err(e) = begun {
            tracing::warn!("{} is never run: no thread: {e}", line.rules.action);
            // `finish` must not wait for the line.
            line.state.lock().done = true;
        }
        line
    }

    fn push(&self, job: Queued) {
        let mut state = self.state.lock();
        if state.done {
            // The line has no thread; this was logged before.
            return;
        }
        let most = self.rules.waiting.max(1);
        let job = match job {
            Queued::Run(job) if state.waiting >= most => {
                Queued::Leave(Job { document: Vec::new(), ..job }, format!("{most} outputs wait already"))
            }
            other => other,
        };
        state.waiting += usize::from(matches!(job, Queued::Run(_)));
        state.queue.push_back(job);
        self.changed.notify_all();
    }

    fn close(&self, end: Option<Instant>) {
        let mut state = self.state.lock();
        state.closed = true;
        state.end = end;
        self.changed.notify_all();
    }

    fn next(&self) -> Option<Queued> {
        let mut state = self.state.lock();
        loop {
            if let Some(job) = state.queue.pop_front() {
                state.waiting -= usize::from(matches!(job, Queued::Run(_)));
                return Some(job);
            }
            if state.closed {
                state.done = true;
                self.changed.notify_all();
                return None;
            }
            state = self.changed.wait(state);
        }
    }

    /// The thread.
    fn run(&self) {
        while let Some(job) = self.next() {
            let job = match job {
                Queued::Run(job) if !self.is_over() => job,
                Queued::Run(job) => {
                    self.tell(&job, "not run: the program ended", b"", true);
                    continue;
                }
                Queued::Leave(job, why) => {
                    self.tell(&job, &format!("not run: {why}"), b"", true);
                    continue;
                }
            };
            let began = Instant::now();
            let ended = match &self.rules.action {
                Action::Command(command) => self.command(command, &job, began),
                Action::Post(url) => self.post(url, &job, began),
            };
            let what = format!("{}, {:.3} s", ended.what, began.elapsed().as_secs_f64());
            self.tell(&job, &what, &ended.tail, ended.failed);
        }
    }

    /// Appends to the log: time, output, action, outcome, and the end of the error output.
    fn tell(&self, job: &Job, what: &str, tail: &[u8], failed: bool) {
        let (about, action) = (printable(&job.about), &self.rules.action);
        let what = printable(&action.without_secrets(what)).into_owned();
        if failed {
            tracing::warn!("{about}: {action}: {what}");
        }
        let Some(log) = &job.log else { return };
        let mut text = String::new();
        let now = humantime::format_rfc3339_millis(SystemTime::now());
        let _ = writeln!(text, "{now} {about}: {action}: {what}");
        for line in String::from_utf8_lossy(tail).lines() {
            let _ = writeln!(text, "    {}", printable(&action.without_secrets(line.trim_end())));
        }
        // Readable only by the owner, whatever the umask: error output may quote the command's arguments.
        let opened = OpenOptions::new().create(true).append(true).mode(0o600).open(log);
        if let Err(e) = opened.and_then(|mut file: File| file.write_all(text.as_bytes())) {
            tracing::warn!("cannot write the log {}: {e}", printable(log));
        }
    }

    fn is_over(&self) -> bool {
        self.state.lock().end.is_some_and(|end| Instant::now() >= end)
    }

    /// The reason to stop a job that began at `began`, if any.
    fn must_stop(&self, began: Instant) -> Option<String> {
        if began.elapsed() >= self.rules.timeout {
            Some(format!("over its time limit of {}", humantime::format_duration(self.rules.timeout)))
        } else if self.is_over() {
            Some("the program ended".to_string())
        } else {
            None
        }
    }

    fn command(&self, command: &str, job: &Job, began: Instant) -> Ended {
        let mut child = match start(command, job) {
            Ok(child) => child,
            Err(e) => return Ended::failed(format!("cannot be started: {e}")),
        };
        let tail = tail_of(&mut child);
        let mut look = Duration::from_millis(1);
        let (what, failed) = loop {
            match child.try_wait() {
                Ok(Some(status)) => {
                    let how = match (status.code(), status.signal()) {
                        (Some(code), _) => format!("exit {code}"),
                        (None, Some(signal)) => format!("killed by signal {signal}"),
                        (None, None) => "ended".to_string(),
                    };
                    break (how, !status.success());
                }
                Ok(None) => {}
                // The program ignores SIGCHLD, so that the exit status is not available.
                Err(_) => break ("ended, exit unknown".to_string(), false),
            }
            if let Some(why) = self.must_stop(began) {
                kill(&mut child);
                break (format!("killed, {why}"), true);
            }
            std::thread::sleep(look);
            look = (2 * look).min(LOOK);
        };
        Ended { what, tail: tail.recv_timeout(GONE / 4).unwrap_or_default(), failed }
    }

    fn post(&self, url: &str, job: &Job, began: Instant) -> Ended {
        let (say, hear) = mpsc::channel();
        let (to, document, timeout) = (url.to_string(), job.document.clone(), self.rules.timeout);
        let begun = std::thread::Builder::new().name("job post".into()).spawn(move || {
            // The receiver may be gone, after a timeout.
            let _ = say.send(post(&to, &document, timeout));
        });
        if let Err(e) = begun {
            return Ended::failed(format!("cannot be sent: no thread: {e}"));
        }
        loop {
            match hear.recv_timeout(LOOK) {
                Ok(ended) => return ended,
                Err(RecvTimeoutError::Disconnected) => return Ended::failed("cannot be sent"),
                Err(RecvTimeoutError::Timeout) => {}
            }
            if let Some(why) = self.must_stop(began) {
                return Ended::failed(format!("no answer, {why}"));
            }
        }
    }
}

fn start(command: &str, job: &Job) -> std::io::Result<Child> {
    let mut input = tempfile::tempfile()?;
    input.write_all(&job.document)?;
    input.seek(SeekFrom::Start(0))?;
    Command::new("/bin/sh")
        .arg("-c")
        .arg(command)
        .envs(job.environment.iter().map(|(key, value)| (*key, value.as_str())))
        .stdin(Stdio::from(input))
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        // A process group, to kill the command with all its children.
        .process_group(0)
        .spawn()
}

/// The end of the command's error output, sent when the command has closed it.
fn tail_of(child: &mut Child) -> mpsc::Receiver<Vec<u8>> {
    let (say, hear) = mpsc::channel();
    if let Some(mut from) = child.stderr.take() {
        let _ = std::thread::Builder::new().name("job complaints".into()).spawn(move || {
            let (mut tail, mut piece) = (Vec::new(), [0; 1024]);
            while let Ok(n @ 1..) = from.read(&mut piece) {
                tail.extend_from_slice(&piece[..n]);
                let old = tail.len().saturating_sub(TAIL);
                tail.drain(..old);
            }
            let _ = say.send(tail);
        });
    }
    hear
}

fn kill(child: &mut Child) {
    if let Some(group) = i32::try_from(child.id()).ok().and_then(rustix::process::Pid::from_raw) {
        // An error is ignored: the process may have ended just now.
        let _ = rustix::process::kill_process_group(group, rustix::process::Signal::KILL);
    }
    let until = Instant::now() + GONE;
    while matches!(child.try_wait(), Ok(None)) && Instant::now() < until {
        std::thread::sleep(Duration::from_millis(1));
    }
}

fn post(url: &str, document: &[u8], timeout: Duration) -> Ended {
    let agent: ureq::Agent = ureq::Agent::config_builder()
        .timeout_global(Some(timeout))
        .http_status_as_error(false)
        .proxy(None)
        .build()
        .into();
    match agent.post(url).header("content-type", "application/json").send(document) {
        Ok(mut answer) => {
            let status = answer.status();
            let failed = !status.is_success();
            let mut tail = Vec::new();
            if failed {
                // The body of an error response is for the log; failure to read it is ignored.
                let _ = answer.body_mut().as_reader().take(TAIL as u64).read_to_end(&mut tail);
            }
            Ended { what: format!("answer {status}"), tail, failed }
        }
        Err(e) => Ended::failed(format!("no answer: {e}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rules(action: Action) -> Rules {
        Rules { action, timeout: Duration::from_secs(20), waiting: 100, at_end: Duration::from_secs(20) }
    }

    fn job(folder: &std::path::Path, about: &str) -> Job {
        Job {
            about: about.into(),
            log: Some(folder.join("log").display().to_string()),
            document: b"{\"step\":3}".to_vec(),
            environment: vec![("STEP", "3".into())],
        }
    }

    fn command(text: &str) -> Action {
        Action::Command(text.into())
    }

    fn log_of(folder: &std::path::Path) -> String {
        std::fs::read_to_string(folder.join("log")).unwrap()
    }

    #[test]
    fn commands_run_in_order_with_the_document_and_say_how_they_ended() {
        let folder = tempfile::tempdir().unwrap();
        let out = folder.path().join("out");
        let text = format!("cat >> {0}; echo $STEP >> {0}; echo complaint >&2; exit 4", out.display());
        let mut jobs = Jobs::default();
        for n in 0..3 {
            jobs.send("a", &rules(command(&text)), job(folder.path(), &format!("step {n}")));
        }
        jobs.finish();
        assert_eq!(std::fs::read_to_string(out).unwrap(), "{\"step\":3}3\n".repeat(3));
        let log = log_of(folder.path());
        let lines: Vec<_> = log.lines().collect();
        assert_eq!(lines.len(), 6, "{log}");
        for n in 0..3 {
            assert!(lines[2 * n].contains(&format!("step {n}: command")), "{log}");
            assert!(lines[2 * n].contains("exit 4, 0."), "{log}");
            assert_eq!(lines[2 * n + 1], "    complaint");
        }
    }

    #[test]
    fn a_command_over_its_time_is_killed_with_all_that_it_began() {
        let folder = tempfile::tempdir().unwrap();
        let rules = Rules { timeout: Duration::from_secs(5), ..rules(command("sleep 100 & echo $! >&2; sleep 100")) };
        let mut jobs = Jobs::default();
        let began = Instant::now();
        jobs.send("a", &rules, job(folder.path(), "x"));
        assert!(began.elapsed() < Duration::from_millis(4500), "handing over does not wait for the command");
        jobs.finish();
        assert!(began.elapsed() < Duration::from_secs(60));
        let log = log_of(folder.path());
        assert!(log.contains("killed, over its time limit of 5s"), "{log}");
        // The one in the background too.
        let pid: i32 = log.lines().nth(1).unwrap().trim().parse().unwrap();
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        assert!(stat.is_empty() || stat.contains(" Z "), "{stat}");
    }

    #[test]
    fn the_end_of_the_program_is_held_up_no_longer_than_allowed() {
        let folder = tempfile::tempdir().unwrap();
        let rules = Rules { at_end: Duration::from_millis(100), ..rules(command("sleep 100")) };
        let mut jobs = Jobs::default();
        jobs.send("a", &rules, job(folder.path(), "x"));
        jobs.send("a", &rules, job(folder.path(), "y"));
        std::thread::sleep(Duration::from_millis(50));
        let began = Instant::now();
        jobs.finish();
        assert!(began.elapsed() < Duration::from_secs(60), "it waits for the command");
        let log = log_of(folder.path());
        assert!(log.contains("x: command \"sleep\" ...: killed, the program ended"), "{log}");
        assert!(log.contains("y: command \"sleep\" ...: not run: the program ended"), "{log}");
    }

    #[test]
    fn what_comes_beyond_those_that_may_wait_is_left_out_and_told() {
        let folder = tempfile::tempdir().unwrap();
        let rules = Rules { waiting: 2, ..rules(command("sleep 0.3")) };
        let mut jobs = Jobs::default();
        for n in 0..6 {
            jobs.send("a", &rules, job(folder.path(), &format!("step {n}")));
        }
        jobs.finish();
        let log = log_of(folder.path());
        let (ran, refused) = (log.matches("exit 0").count(), log.matches("2 outputs wait already").count());
        assert_eq!(ran + refused, 6, "{log}");
        let places: Vec<_> = (0..6).map(|n| log.find(&format!("step {n}:")).unwrap()).collect();
        assert!(places.is_sorted(), "in their order: {log}");
        assert!((2..=3).contains(&ran), "{log}");
    }

    #[test]
    fn a_command_that_does_not_exist_or_reads_nothing_harms_nobody() {
        let folder = tempfile::tempdir().unwrap();
        let mut jobs = Jobs::default();
        jobs.send("a", &rules(command("/no/such/command")), job(folder.path(), "x"));
        let large = Job { document: vec![b' '; 1 << 20], ..job(folder.path(), "y") };
        jobs.send("b", &rules(command("true")), large);
        jobs.finish();
        let log = log_of(folder.path());
        assert!(log.contains("exit 127") && log.contains("exit 0"), "{log}");
    }

    #[test]
    fn of_long_complaints_the_end_is_kept() {
        let folder = tempfile::tempdir().unwrap();
        let mut jobs = Jobs::default();
        let text = "i=0; while [ $i -lt 2000 ]; do echo complaint $i >&2; i=$((i+1)); done";
        jobs.send("a", &rules(command(text)), job(folder.path(), "x"));
        jobs.finish();
        let log = log_of(folder.path());
        assert!(log.trim_end().ends_with("complaint 1999") && log.len() < 2 * TAIL, "{log}");
    }

    #[test]
    fn jobs_of_one_name_go_one_after_the_other_whatever_their_logs_are() {
        let folder = tempfile::tempdir().unwrap();
        let mut jobs = Jobs::default();
        let out = folder.path().join("out");
        let text = format!("echo begin >> {0}; sleep 0.1; echo end >> {0}", out.display());
        for n in 0..3 {
            let log = Some(folder.path().join(format!("log{n}")).display().to_string());
            jobs.send("a", &rules(command(&text)), Job { log, ..job(folder.path(), "x") });
        }
        jobs.leave_out("a", &rules(command(&text)), job(folder.path(), "y"), "it failed");
        jobs.finish();
        assert_eq!(std::fs::read_to_string(out).unwrap(), "begin\nend\n".repeat(3));
        assert!(log_of(folder.path()).ends_with("not run: it failed\n"));
    }

    #[test]
    fn the_log_is_its_owners_alone_repeats_no_secret_and_no_name_forges_a_line() {
        use std::os::unix::fs::PermissionsExt;
        let folder = tempfile::tempdir().unwrap();
        let mut jobs = Jobs::default();
        let forged = "x.bp\n2026-01-01T00:00:00.000Z y.bp: command \"true\": exit 0\u{1b}[2J step 3";
        let secret = "TOKEN=abcd1234efgh no-such-program-here --password hunter2hunter2 'x' y";
        jobs.send("a", &rules(command(secret)), job(folder.path(), forged));
        jobs.send("b", &rules(command("echo hunter2hunter2 >&2; echo '\u{1b}[31m' >&2")), job(folder.path(), "z"));
        let url = "http://user:pass1word@127.0.0.1:1/hook/s3cret-token?key=zzz99999";
        jobs.send("c", &rules(Action::Post(url.into())), job(folder.path(), "p"));
        jobs.finish();
        let log = log_of(folder.path());
        for word in ["abcd1234efgh", "hunter2hunter2", "pass1word", "s3cret-token", "zzz99999"] {
            assert!(!log.contains(word), "{word}: {log}");
        }
        assert!(log.contains("post to 127.0.0.1:1: ") && log.contains("command \"no-such-program-here\" ..."), "{log}");
        assert!(!log.lines().any(|line| line.starts_with("2026-01-01T")), "{log}");
        assert!(!log.contains('\u{1b}'), "{log}");
        let mode = std::fs::metadata(folder.path().join("log")).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
    }

    #[test]
    fn a_log_that_cannot_be_written_harms_nobody() {
        let folder = tempfile::tempdir().unwrap();
        let mut jobs = Jobs::default();
        jobs.send("a", &rules(command("true")), job(&folder.path().join("no/such/folder"), "x"));
        jobs.finish();
    }
}
