//! Errands: commands and notices that follow an output, run beside the program, one after the other.
//!
//! | question | answer |
//! |---|---|
//! | who runs them | one thread for each line of errands, begun with the first one; the program's threads hand over and go on |
//! | how long | each has a time limit. A command that passes it is killed with all that it began; a request is left alone |
//! | how many wait | so many as the line allows; what comes beyond them is not run, and the log says so |
//! | at the end | [`Errands::finish`] waits for what runs and waits, at most as long as each line allows; what is not done by then is killed, or not begun |
//! | on failure | the log says what happened; nothing reaches the program |
//!
//! A command reads its document from a file that has no name rather than a pipe: writing to a pipe that nobody reads
//! would kill a program that has not asked to be spared of the signal.

use std::collections::VecDeque;
use std::fmt::Write as _;
use std::fs::{File, OpenOptions};
use std::io::{Read, Seek, SeekFrom, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime};
use thalweg_types::printable::printable;

/// How much of what a command complains of is kept: the end.
const TAIL: usize = 4096;
/// How often a running command is looked at.
const LOOK: Duration = Duration::from_millis(10);
/// How long a killed command may take to go, and the last of its complaints to come.
const GONE: Duration = Duration::from_secs(1);

/// What an errand is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Errand {
    /// A command for `sh -c`, the document on its standard input.
    Command(String),
    /// An HTTP address to which the document is posted.
    Post(String),
}

impl std::fmt::Display for Errand {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            // The first word alone, and of an address neither user nor path: the rest may hold passwords and tokens.
            Errand::Command(command) => {
                let mut words = command.split_whitespace();
                let first = words.find(|word| !word.contains('=')).unwrap_or("...");
                write!(f, "command {first:?}{}", if words.next().is_some() { " ..." } else { "" })
            }
            Errand::Post(url) => {
                let rest = url.split_once("://").map_or(url.as_str(), |(_, rest)| rest);
                let place = rest.split(['/', '?', '#']).next().unwrap_or("");
                let host = place.rsplit_once('@').map_or(place, |(_, host)| host);
                write!(f, "post to {}", printable(host))
            }
        }
    }
}

impl Errand {
    /// The text whose parts may be secret.
    fn text(&self) -> &str {
        match self {
            Errand::Command(text) | Errand::Post(text) => text,
        }
    }

    /// A line of what a command or server says, without the words of the errand: a shell quotes them in its complaints, a
    /// server its address.
    fn without_secrets(&self, line: &str) -> String {
        let mut words: Vec<&str> =
            self.text().split(|c: char| c.is_whitespace() || "\"'=&?;|<>()".contains(c)).collect();
        // Short words are names of programs and options, and would be found everywhere.
        words.retain(|w| w.len() >= 8 && w.bytes().any(|b| b.is_ascii_digit()) && !w.starts_with('/'));
        words.sort_by_key(|w| std::cmp::Reverse(w.len()));
        words.iter().fold(line.to_string(), |line, word| line.replace(word, "..."))
    }
}

/// How errands of one line are run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rules {
    /// What is run.
    pub errand: Errand,
    /// Longest time of one.
    pub timeout: Duration,
    /// Most that wait.
    pub waiting: usize,
    /// How long the end of the program is held up for them at most.
    pub at_end: Duration,
}

/// One errand to run.
#[derive(Debug, Clone, Default)]
pub struct Task {
    /// For the log: which output.
    pub about: String,
    /// The file that is told what ran; `None` for no such file.
    pub log: Option<String>,
    /// What is handed over.
    pub document: Vec<u8>,
    /// Environment of a command, beside the program's.
    pub environment: Vec<(&'static str, String)>,
}

/// What a line has to do.
enum Job {
    Run(Task),
    /// Why a task is not run, for the log.
    Leave(Task, String),
}

#[derive(Default)]
struct State {
    queue: VecDeque<Job>,
    /// How many of these are to be run.
    waiting: usize,
    /// No more will come.
    closed: bool,
    /// When all is to be over.
    end: Option<Instant>,
    done: bool,
}

struct Line {
    /// Whose errands these are.
    name: String,
    rules: Rules,
    state: Mutex<State>,
    changed: Condvar,
}

/// All lines of a process. Dropped without [`Errands::finish`], what waits is run as long as the process lives.
#[derive(Default)]
pub struct Errands {
    lines: Mutex<Vec<Arc<Line>>>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Errands {
    /// Hands over an errand; returns at once.
    ///
    /// - `name`: errands of one name and one set of rules run one after the other.
    pub fn send(&self, name: &str, rules: &Rules, task: Task) {
        self.line(name, rules).push(Job::Run(task));
    }

    /// Says in the log why an output has no errand.
    pub fn leave_out(&self, name: &str, rules: &Rules, task: Task, why: &str) {
        self.line(name, rules).push(Job::Leave(task, why.to_string()));
    }

    fn line(&self, name: &str, rules: &Rules) -> Arc<Line> {
        let mut lines = lock(&self.lines);
        if let Some(known) = lines.iter().find(|line| line.name == name && line.rules == *rules) {
            return known.clone();
        }
        let line = Line::begin(name, rules);
        lines.push(line.clone());
        line
    }

    /// Waits for all, as long as their lines allow.
    pub fn finish(&self) {
        let lines = std::mem::take(&mut *lock(&self.lines));
        let now = Instant::now();
        for line in &lines {
            line.close(now.checked_add(line.rules.at_end));
        }
        for line in lines {
            // Killing takes a moment.
            let until = now + line.rules.at_end + 2 * GONE;
            let mut state = lock(&line.state);
            while !state.done {
                let left = until.saturating_duration_since(Instant::now());
                if left.is_zero() {
                    tracing::warn!("{} does not end; going on without it", line.rules.errand);
                    break;
                }
                state = line.changed.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
            }
        }
    }
}

impl Drop for Errands {
    fn drop(&mut self) {
        for line in lock(&self.lines).iter() {
            line.close(None);
        }
    }
}

/// How a task ended.
struct Ended {
    what: String,
    /// What it complained of.
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
        let begun = std::thread::Builder::new().name("errands".into()).spawn(move || own.run());
        if let Err(e) = begun {
            tracing::warn!("{} is never run: no thread: {e}", line.rules.errand);
            // Nobody waits for it.
            lock(&line.state).done = true;
        }
        line
    }

    fn push(&self, job: Job) {
        let mut state = lock(&self.state);
        if state.done {
            // There is no thread for it, which was told before.
            return;
        }
        let most = self.rules.waiting.max(1);
        let job = match job {
            Job::Run(task) if state.waiting >= most => {
                Job::Leave(Task { document: Vec::new(), ..task }, format!("{most} outputs wait already"))
            }
            other => other,
        };
        state.waiting += usize::from(matches!(job, Job::Run(_)));
        state.queue.push_back(job);
        self.changed.notify_all();
    }

    fn close(&self, end: Option<Instant>) {
        let mut state = lock(&self.state);
        state.closed = true;
        state.end = end;
        self.changed.notify_all();
    }

    fn next(&self) -> Option<Job> {
        let mut state = lock(&self.state);
        loop {
            if let Some(job) = state.queue.pop_front() {
                state.waiting -= usize::from(matches!(job, Job::Run(_)));
                return Some(job);
            }
            if state.closed {
                state.done = true;
                self.changed.notify_all();
                return None;
            }
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// The thread.
    fn run(&self) {
        while let Some(job) = self.next() {
            let task = match job {
                Job::Run(task) if !self.is_over() => task,
                Job::Run(task) => {
                    self.tell(&task, "not run: the program ended", b"", true);
                    continue;
                }
                Job::Leave(task, why) => {
                    self.tell(&task, &format!("not run: {why}"), b"", true);
                    continue;
                }
            };
            let began = Instant::now();
            let ended = match &self.rules.errand {
                Errand::Command(command) => self.command(command, &task, began),
                Errand::Post(url) => self.post(url, &task, began),
            };
            let what = format!("{}, {:.3} s", ended.what, began.elapsed().as_secs_f64());
            self.tell(&task, &what, &ended.tail, ended.failed);
        }
    }

    /// Adds to the log: when, which output, which errand, how it ended, and what it complained of.
    fn tell(&self, task: &Task, what: &str, tail: &[u8], failed: bool) {
        let (about, errand) = (printable(&task.about), &self.rules.errand);
        let what = printable(&errand.without_secrets(what)).into_owned();
        if failed {
            tracing::warn!("{about}: {errand}: {what}");
        }
        let Some(log) = &task.log else { return };
        let mut text = String::new();
        let now = humantime::format_rfc3339_millis(SystemTime::now());
        let _ = writeln!(text, "{now} {about}: {errand}: {what}");
        for line in String::from_utf8_lossy(tail).lines() {
            let _ = writeln!(text, "    {}", printable(&errand.without_secrets(line.trim_end())));
        }
        // For its owner alone, whatever the umask: complaints may quote what the program was given.
        let opened = OpenOptions::new().create(true).append(true).mode(0o600).open(log);
        if let Err(e) = opened.and_then(|mut file: File| file.write_all(text.as_bytes())) {
            tracing::warn!("cannot write the log {}: {e}", printable(log));
        }
    }

    fn is_over(&self) -> bool {
        lock(&self.state).end.is_some_and(|end| Instant::now() >= end)
    }

    /// Why a task that began then has to stop, if it has.
    fn must_stop(&self, began: Instant) -> Option<String> {
        if began.elapsed() >= self.rules.timeout {
            Some(format!("over its time limit of {}", humantime::format_duration(self.rules.timeout)))
        } else if self.is_over() {
            Some("the program ended".to_string())
        } else {
            None
        }
    }

    fn command(&self, command: &str, task: &Task, began: Instant) -> Ended {
        let mut child = match start(command, task) {
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
                // The program takes no notice of its children, so that nobody knows how this one ended.
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

    fn post(&self, url: &str, task: &Task, began: Instant) -> Ended {
        let (say, hear) = mpsc::channel();
        let (to, document, timeout) = (url.to_string(), task.document.clone(), self.rules.timeout);
        let begun = std::thread::Builder::new().name("errand post".into()).spawn(move || {
            // Nobody may be there any more to hear it.
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

fn start(command: &str, task: &Task) -> std::io::Result<Child> {
    let mut input = tempfile::tempfile()?;
    input.write_all(&task.document)?;
    input.seek(SeekFrom::Start(0))?;
    Command::new("/bin/sh")
        .arg("-c")
        .arg(command)
        .envs(task.environment.iter().map(|(key, value)| (*key, value.as_str())))
        .stdin(Stdio::from(input))
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        // So that it can be killed with all that it began.
        .process_group(0)
        .spawn()
}

/// The last of what the command complains of, once it has closed its end.
fn tail_of(child: &mut Child) -> mpsc::Receiver<Vec<u8>> {
    let (say, hear) = mpsc::channel();
    if let Some(mut from) = child.stderr.take() {
        let _ = std::thread::Builder::new().name("errand complaints".into()).spawn(move || {
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
        // It may have ended just now.
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
                // What a server says of a mistake helps; not to hear it is no other mistake.
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

    fn rules(errand: Errand) -> Rules {
        Rules { errand, timeout: Duration::from_secs(20), waiting: 100, at_end: Duration::from_secs(20) }
    }

    fn task(folder: &std::path::Path, about: &str) -> Task {
        Task {
            about: about.into(),
            log: Some(folder.join("log").display().to_string()),
            document: b"{\"step\":3}".to_vec(),
            environment: vec![("STEP", "3".into())],
        }
    }

    fn command(text: &str) -> Errand {
        Errand::Command(text.into())
    }

    fn log_of(folder: &std::path::Path) -> String {
        std::fs::read_to_string(folder.join("log")).unwrap()
    }

    #[test]
    fn commands_run_in_order_with_the_document_and_say_how_they_ended() {
        let folder = tempfile::tempdir().unwrap();
        let out = folder.path().join("out");
        let text = format!("cat >> {0}; echo $STEP >> {0}; echo complaint >&2; exit 4", out.display());
        let errands = Errands::default();
        for n in 0..3 {
            errands.send("a", &rules(command(&text)), task(folder.path(), &format!("step {n}")));
        }
        errands.finish();
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
        let rules =
            Rules { timeout: Duration::from_millis(200), ..rules(command("sleep 100 & echo $! >&2; sleep 100")) };
        let errands = Errands::default();
        let began = Instant::now();
        errands.send("a", &rules, task(folder.path(), "x"));
        assert!(began.elapsed() < Duration::from_millis(150), "handing over takes no time");
        errands.finish();
        assert!(began.elapsed() < Duration::from_secs(3));
        let log = log_of(folder.path());
        assert!(log.contains("killed, over its time limit of 200ms"), "{log}");
        // The one in the background too.
        let pid: i32 = log.lines().nth(1).unwrap().trim().parse().unwrap();
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        assert!(stat.is_empty() || stat.contains(" Z "), "{stat}");
    }

    #[test]
    fn the_end_of_the_program_is_held_up_no_longer_than_allowed() {
        let folder = tempfile::tempdir().unwrap();
        let rules = Rules { at_end: Duration::from_millis(100), ..rules(command("sleep 100")) };
        let errands = Errands::default();
        errands.send("a", &rules, task(folder.path(), "x"));
        errands.send("a", &rules, task(folder.path(), "y"));
        std::thread::sleep(Duration::from_millis(50));
        let began = Instant::now();
        errands.finish();
        assert!(began.elapsed() < Duration::from_secs(3));
        let log = log_of(folder.path());
        assert!(log.contains("x: command \"sleep\" ...: killed, the program ended"), "{log}");
        assert!(log.contains("y: command \"sleep\" ...: not run: the program ended"), "{log}");
    }

    #[test]
    fn what_comes_beyond_those_that_may_wait_is_left_out_and_told() {
        let folder = tempfile::tempdir().unwrap();
        let rules = Rules { waiting: 2, ..rules(command("sleep 0.3")) };
        let errands = Errands::default();
        for n in 0..6 {
            errands.send("a", &rules, task(folder.path(), &format!("step {n}")));
        }
        errands.finish();
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
        let errands = Errands::default();
        errands.send("a", &rules(command("/no/such/command")), task(folder.path(), "x"));
        let large = Task { document: vec![b' '; 1 << 20], ..task(folder.path(), "y") };
        errands.send("b", &rules(command("true")), large);
        errands.finish();
        let log = log_of(folder.path());
        assert!(log.contains("exit 127") && log.contains("exit 0"), "{log}");
    }

    #[test]
    fn of_long_complaints_the_end_is_kept() {
        let folder = tempfile::tempdir().unwrap();
        let errands = Errands::default();
        let text = "i=0; while [ $i -lt 2000 ]; do echo complaint $i >&2; i=$((i+1)); done";
        errands.send("a", &rules(command(text)), task(folder.path(), "x"));
        errands.finish();
        let log = log_of(folder.path());
        assert!(log.trim_end().ends_with("complaint 1999") && log.len() < 2 * TAIL, "{log}");
    }

    #[test]
    fn errands_of_one_name_go_one_after_the_other_whatever_their_logs_are() {
        let folder = tempfile::tempdir().unwrap();
        let errands = Errands::default();
        let out = folder.path().join("out");
        let text = format!("echo begin >> {0}; sleep 0.1; echo end >> {0}", out.display());
        for n in 0..3 {
            let log = Some(folder.path().join(format!("log{n}")).display().to_string());
            errands.send("a", &rules(command(&text)), Task { log, ..task(folder.path(), "x") });
        }
        errands.leave_out("a", &rules(command(&text)), task(folder.path(), "y"), "it failed");
        errands.finish();
        assert_eq!(std::fs::read_to_string(out).unwrap(), "begin\nend\n".repeat(3));
        assert!(log_of(folder.path()).ends_with("not run: it failed\n"));
    }

    #[test]
    fn the_log_is_its_owners_alone_repeats_no_secret_and_no_name_forges_a_line() {
        use std::os::unix::fs::PermissionsExt;
        let folder = tempfile::tempdir().unwrap();
        let errands = Errands::default();
        let forged = "x.bp\n2026-01-01T00:00:00.000Z y.bp: command \"true\": exit 0\u{1b}[2J step 3";
        let secret = "TOKEN=abcd1234efgh no-such-program-here --password hunter2hunter2 'x' y";
        errands.send("a", &rules(command(secret)), task(folder.path(), forged));
        errands.send("b", &rules(command("echo hunter2hunter2 >&2; echo '\u{1b}[31m' >&2")), task(folder.path(), "z"));
        let url = "http://user:pass1word@127.0.0.1:1/hook/s3cret-token?key=zzz99999";
        errands.send("c", &rules(Errand::Post(url.into())), task(folder.path(), "p"));
        errands.finish();
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
        let errands = Errands::default();
        errands.send("a", &rules(command("true")), task(&folder.path().join("no/such/folder"), "x"));
        errands.finish();
    }
}
