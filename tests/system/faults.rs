//! The sweep over system calls: each system call of an output, and of operations on files of a mount, fails once.
//!
//!   faults bp PATH METHOD PARAMETERS RANKS FIRST COUNT   writes steps FIRST.. of a BP file; ranks are threads
//!   faults file PATH OPERATION                           one operation on a file; OPERATIONS below
//!   faults judge bp FOLDER [RANKS [METHOD]]              sweeps over the methods
//!   faults judge file FOLDER [LAYOUT]                    sweeps over the layouts
//!   faults judge preload FOLDER THALWEG [LAYOUT]         sweeps over programs under `thalweg run`; THALWEG is the command
//!   faults judge fuse FOLDER THALWEG [LAYOUT]            sweeps over the process behind `thalweg mount`
//!   faults check FOLDER METHOD PARAMETERS RANKS FIRST success|failure
//!                                                        FOLDER/x.bp after step FIRST was written by another program
//!
//! The worker (`bp`, `file`) says `ready PID`, waits for a line, works, and says with its exit code what became of it: 0 success,
//! 100 + the kind of the error where all ranks had the same, 3 where ranks had different ones, 101 a panic. The judge attaches `strace`
//! to it between the two, which lets the k-th call of one kind of each thread fail with an error (`EIO`, `ENOSPC`), for every k
//! that there is.
//!
//! Through the doors the operations are those of `cp`, `dd`, `mv`, `rm`, `truncate`, `chmod` and `mkdir`, and the outcome is their exit
//! code: any but 0 is an error. Under preload every call from the program's start fails once, so the loader's too; behind FUSE
//! those of the process that serves the mount.
//!
//! | promise | how it is checked |
//! |---|---|
//! | the outcome is success, or an error, the same kind on all ranks | the exit code; no panic, no death, no time-out |
//! | success means that the step, or the file, is there | it is read afterwards |
//! | a file that was written to and cannot be closed is no success | `strace` says which file the call was for, and what was written through it |
//! | what was closed before stays as it was | every value of every step, every byte of the other files |
//! | the next output goes on | one more step or operation without a fault, and `verify` |
//!
//! `THIN=N` tries one of N faults, another one in each run. The mounts of `file` come from `THALWEG_MOUNTS`. Exit code of the judge: 0 where every promise was kept.

use std::collections::BTreeMap;
use std::error::Error as AnyError;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};
use thalweg_comm::{Communicator, threads};
use thalweg_io::places::mounts;
use thalweg_io::registry::{self, METHODS};
use thalweg_io::{Mode, Session};
use thalweg_layout::{Change, Direct, Layout, OpenWrite, WriterId, write_all_at};
use thalweg_reader::{FindingKind, Reader, verify};
use thalweg_schema::xml;
use thalweg_store::Posix;
use thalweg_types::{Error, ErrorKind, Result, Selection};

type Outcome<T> = std::result::Result<T, Box<dyn AnyError>>;

/// The system calls that fail, one kind after the other, and with what.
const CALLS: &[(&str, &str)] = &[
    ("openat", "EIO"),
    ("openat", "ENOSPC"),
    ("read", "EIO"),
    ("pread64", "EIO"),
    ("preadv", "EIO"),
    ("preadv2", "EIO"),
    ("write", "ENOSPC"),
    ("pwrite64", "EIO"),
    ("pwrite64", "ENOSPC"),
    ("pwritev", "ENOSPC"),
    ("pwritev2", "ENOSPC"),
    ("fsync", "EIO"),
    ("fdatasync", "EIO"),
    ("close", "EIO"),
    ("rename", "EIO"),
    ("renameat", "EIO"),
    ("renameat2", "EIO"),
    ("unlink", "EIO"),
    ("unlinkat", "EIO"),
    ("mkdir", "ENOSPC"),
    ("mkdirat", "ENOSPC"),
    ("ftruncate", "EIO"),
    ("fallocate", "ENOSPC"),
    ("fallocate", "EIO"),
    ("getdents64", "EIO"),
    ("fstat", "EIO"),
    ("newfstatat", "EIO"),
    ("statx", "EIO"),
    ("lseek", "EIO"),
    ("linkat", "EIO"),
    ("utimensat", "EIO"),
    ("fchmod", "EIO"),
    ("fchmodat", "EIO"),
    ("flock", "EIO"),
    ("fcntl", "EIO"),
    ("fstatfs", "EIO"),
    ("statfs", "EIO"),
];

/// Exit codes beside 0 and 100 + the kind of an error.
const MIXED: i32 = 3;
/// Of the `thalweg` command: an error.
const FAILURE: i32 = 3;
const PANIC: i32 = 101;
const ROW: usize = 40;
/// For hangs: a worker needs a fraction of a second.
const PATIENCE: Duration = Duration::from_secs(90);

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let number = |word: &str| word.parse::<u64>().unwrap_or_else(|e| panic!("{word}: {e}"));
    match &words[..] {
        ["bp", path, method, parameters, ranks, first, count] => {
            wait_for_a_line();
            leave(write_bp(
                path,
                method,
                parameters,
                number(ranks) as u32,
                number(first)..number(first) + number(count),
            ));
        }
        ["file", path, operation] => {
            let layout = mounts::layout();
            wait_for_a_line();
            leave(vec![layout.and_then(|layout| operate(&*layout, path, operation))]);
        }
        ["check", folder, method, parameters, ranks, first, end] => {
            let end = if *end == "success" { End::Success } else { End::Failed(ErrorKind::Io) };
            let kept = check_bp(Path::new(folder), method, parameters, number(ranks) as u32, number(first), end);
            if let Err(e) = kept {
                eprintln!("{e}");
                std::process::exit(1);
            }
        }
        ["judge", "bp", folder, rest @ ..] => {
            let ranks = rest.first().map_or(1, |n| number(n) as u32);
            judge(&mut sweeps_bp(Path::new(folder), ranks, rest.get(1).copied()));
        }
        ["judge", "file", folder, rest @ ..] => {
            judge(&mut sweeps_file(Path::new(folder), rest.first().copied(), &|_| Launch::Itself));
        }
        ["judge", door @ ("preload" | "fuse"), folder, thalweg, rest @ ..] => {
            let launch = |folder: &Path| match *door {
                "preload" => Launch::Preload { thalweg: thalweg.to_string() },
                _ => Launch::Fuse { thalweg: thalweg.to_string(), at: folder.with_extension("at") },
            };
            judge(&mut sweeps_file(Path::new(folder), rest.first().copied(), &launch));
        }
        _ => panic!("faults bp | file | judge: see the first page of tests/system/faults.rs"),
    }
}

// The worker.

fn wait_for_a_line() {
    println!("ready {}", std::process::id());
    // Its read is traced, too, and may be the one that fails.
    while std::io::stdin().lock().read_line(&mut String::new()).is_err() {}
}

/// Ends the process as the outcomes of its ranks say.
fn leave(outcomes: Vec<Result<()>>) -> ! {
    let kinds: Vec<Option<ErrorKind>> = outcomes.iter().map(|o| o.as_ref().err().map(Error::kind)).collect();
    // Logs end, as a process that exits drops nothing that is static.
    let _ = mounts::finish();
    if let Some(error) = outcomes.iter().find_map(|o| o.as_ref().err()) {
        eprintln!("{error}");
    }
    std::process::exit(match kinds[0] {
        _ if kinds.iter().any(|kind| *kind != kinds[0]) => {
            eprintln!("ranks differ: {kinds:?}");
            MIXED
        }
        Some(kind) => 100 + 2 + i32::from(kind.code()),
        None => 0,
    })
}

fn row(rank: u32, step: u64) -> Vec<f64> {
    (0..ROW).map(|i| i as f64 + 100.0 * f64::from(rank) + 10_000.0 * step as f64).collect()
}

fn write_bp(path: &str, method: &str, parameters: &str, ranks: u32, steps: std::ops::Range<u64>) -> Vec<Result<()>> {
    let document = format!(
        r#"<adios-config host-language="C"><adios-group name="g">
  <var name="n" type="integer"/><var name="ranks" type="integer"/><var name="rank" type="integer"/>
  <global-bounds dimensions="ranks,n" offsets="rank,0"><var name="t" type="double" dimensions="1,n"/></global-bounds>
</adios-group><method group="g" method="{method}">{parameters}</method></adios-config>"#
    );
    threads::run(ranks, |comm| {
        let layout = mounts::layout()?;
        let session = Session::with_layout(xml::parse(&document, "faults.xml").unwrap(), layout, comm.duplicate()?)?;
        let mut one = |step: u64| -> Result<()> {
            let mode = if step == 0 { Mode::Write } else { Mode::Append };
            let mut output = session.open("g", path, mode, comm.duplicate()?)?;
            if output.step() != step {
                let what = format!("open tells step {}, not {step}", output.step());
                return Err(Error::new(ErrorKind::OutOfBounds, what));
            }
            // What fails here close tells again, and tells it to all.
            let _ = output.write_values("n", &[ROW as i32]);
            let _ = output.write_values("ranks", &[comm.size() as i32]);
            let _ = output.write_values("rank", &[comm.rank() as i32]);
            let _ = output.write_values("t", &row(comm.rank(), step));
            output.close().map(|_| ())
        };
        let written = steps.clone().try_for_each(&mut one);
        written.and(session.finalize())
    })
}

/// Operations on a file, by name, and whether the file is there before.
const OPERATIONS: &[(&str, bool)] = &[
    ("create", false),
    ("append", true),
    ("replace", true),
    ("rename", true),
    ("remove", true),
    ("truncate", true),
    ("chmod", true),
    ("mkdir", false),
];
const OLD: &str = "the content that was closed before";
const NEW: &str = "what this operation writes";

fn operate(layout: &dyn Layout, path: &str, operation: &str) -> Result<()> {
    let write = |how, at, text: &str| -> Result<()> {
        let object = layout.open_write(path, how, WriterId(1))?;
        let written = write_all_at(&*object, at, text.as_bytes());
        let closed = object.close();
        written.and(closed)
    };
    match operation {
        "create" => write(OpenWrite::New, 0, NEW),
        "append" => write(OpenWrite::Existing, OLD.len() as u64, NEW),
        "replace" => write(OpenWrite::Replace, 0, NEW),
        "rename" => layout.rename(path, &format!("{path}.renamed")),
        "remove" => layout.remove(path),
        "truncate" => layout.truncate(path, 11),
        "chmod" => layout.set_attributes(path, &Change { mode: Some(0o600), ..Change::default() }),
        "mkdir" => layout.make_one_folder(path, 0o755),
        "prepare" => write(OpenWrite::New, 0, OLD),
        _ => panic!("unknown operation {operation}"),
    }
}

// The judge.

/// How a worker ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    Success,
    Failed(ErrorKind),
    Other(i32),
    Signal,
    TimeOut,
}

/// A fault: the k-th call of this name fails so. `None`: nothing fails.
type Fault<'f> = Option<(&'f str, &'f str, u64)>;

/// What runs under `strace`, and what says how it ended.
enum Launch {
    /// This program as a worker.
    Itself,
    /// A program of the system with the preload door.
    Preload { thalweg: String },
    /// The process that serves a mount; a program of the system works on it.
    Fuse { thalweg: String, at: PathBuf },
}

/// A program of the system that does an operation on a file.
fn tool(operation: &str, path: &str, new: &Path) -> Vec<String> {
    let new = new.display();
    let words: &[&str] = match operation {
        "create" | "replace" => &["cp", &format!("{new}"), path],
        "append" => &["dd", "status=none", "oflag=append", "conv=notrunc", &format!("if={new}"), &format!("of={path}")],
        "rename" => &["mv", path, &format!("{path}.renamed")],
        "remove" => &["rm", path],
        "truncate" => &["truncate", "-s", "11", path],
        "chmod" => &["chmod", "600", path],
        "mkdir" => &["mkdir", path],
        _ => panic!("unknown operation {operation}"),
    };
    words.iter().map(|word| word.to_string()).collect()
}

/// What lets a call fail, or counts all where nothing fails.
fn options(fault: Fault<'_>, log: &Path) -> Vec<String> {
    let mut options: Vec<String> = ["-f", "-qq", "-o"].map(str::to_string).to_vec();
    options.push(log.display().to_string());
    match fault {
        Some((call, error, k)) => {
            // Which file is closed, and whether it was written to.
            let with = if call == "close" { format!("{WRITES},close") } else { call.to_string() };
            options.extend(["-y".into(), "-e".into(), format!("trace={with}")]);
            options.extend(["-e".into(), format!("inject={call}:error={error}:when={k}")]);
        }
        None => options.extend(["-e".into(), "trace=file,desc".into()]),
    }
    options
}

/// How a program of the system ended.
fn ended(status: std::process::ExitStatus) -> End {
    match status.code() {
        Some(0) => End::Success,
        // `timeout`, which kills it then.
        Some(124 | 137) => End::TimeOut,
        Some(_) => End::Failed(ErrorKind::Io),
        None => End::Signal,
    }
}

/// The preload door: the program under `strace` from its start.
fn run_preloaded(
    thalweg: &str,
    words: &[String],
    mounts: &Path,
    fault: Fault<'_>,
    log: &Path,
) -> Outcome<(End, String)> {
    let told = Command::new(thalweg).args(["run", "--", "env"]).env("THALWEG_MOUNTS", mounts).output()?;
    let told = String::from_utf8_lossy(&told.stdout).into_owned();
    let mut command = Command::new("timeout");
    command.args(["-k", "1", &PATIENCE.as_secs().to_string(), "strace"]).args(options(fault, log));
    for line in told.lines().filter(|l| l.starts_with("LD_PRELOAD=") || l.starts_with("THALWEG_")) {
        command.args(["-E", line]);
    }
    let output = command.args(words).output()?;
    Ok((ended(output.status), String::from_utf8_lossy(&output.stderr).into_owned()))
}

/// The FUSE door: `strace` is attached to the process behind the mount, then the program works there.
fn run_mounted(
    (thalweg, at): (&str, &Path),
    words: &[String],
    mounts: &Path,
    fault: Fault<'_>,
    log: &Path,
) -> Outcome<(End, String)> {
    std::fs::create_dir_all(at)?;
    let door = || -> Command {
        let mut command = Command::new(thalweg);
        command.env("THALWEG_MOUNTS", mounts).stdout(Stdio::null()).stderr(Stdio::piped());
        command
    };
    let mut server = door().args(["mount", "--foreground", "--path", "/faults"]).arg(at).spawn()?;
    let began = Instant::now();
    while !std::fs::read_to_string("/proc/mounts")?.contains(at.to_str().unwrap_or_default()) {
        if began.elapsed() > PATIENCE || server.try_wait()?.is_some() {
            return Err("it is not mounted".into());
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    let pid = server.id().to_string();
    let mut strace = Command::new("strace");
    let mut strace = strace.args(options(fault, log)).args(["-p", &pid]).stderr(Stdio::piped()).spawn()?;
    let attached = wait_for_tracer(&pid, &mut strace);
    let words: Vec<String> = words.iter().map(|w| w.replace("/faults", at.to_str().unwrap_or_default())).collect();
    let worked = Command::new("timeout").args(["-k", "1", &PATIENCE.as_secs().to_string()]).args(&words).output();
    let mut unmounted = door().arg("unmount").arg(at).output();
    if std::fs::read_to_string("/proc/mounts")?.contains(at.to_str().unwrap_or_default()) {
        // The fault met the question who serves it.
        unmounted = door().arg("unmount").arg(at).output();
    }
    let gone = wait(&mut server);
    let _ = wait(&mut strace);
    attached?;
    let (worked, unmounted) = (worked?, unmounted?);
    let mut said = String::from_utf8_lossy(&worked.stderr).into_owned();
    said += &String::from_utf8_lossy(&unmounted.stderr);
    if !unmounted.status.success() {
        // It says so, and the folder is free for the next.
        let _ = Command::new("umount").arg("-l").arg(at).stderr(Stdio::null()).status();
    }
    Ok(match (ended(worked.status), gone?) {
        // It ended with an error, and says so.
        (_, End::Other(FAILURE)) => (End::Failed(ErrorKind::Io), said),
        (_, end @ (End::Signal | End::TimeOut | End::Other(_))) => (end, format!("the server: {said}")),
        // What was accepted may be refused when the mount goes, aloud.
        (End::Success, _) if !unmounted.status.success() => (End::Failed(ErrorKind::Io), said),
        (end, _) => (end, said),
    })
}

/// Runs a worker; its system calls of the name that fails, or all on files, are in `log` afterwards.
fn run(arguments: &[&str], mounts: Option<&Path>, fault: Fault<'_>, log: &Path) -> Outcome<(End, String)> {
    let mut command = Command::new(std::env::current_exe()?);
    command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command.env("THALWEG_MOUNTS", mounts.map_or("", |m| m.to_str().unwrap_or_default()));
    let mut worker = command.spawn()?;
    let mut line = String::new();
    BufReader::new(worker.stdout.take().ok_or("no output")?).read_line(&mut line)?;
    let pid = line.trim().strip_prefix("ready ").ok_or_else(|| format!("the worker says {line:?}"))?.to_string();
    let mut strace = Command::new("strace");
    strace.args(options(fault, log)).args(["-p", &pid]);
    let mut strace = strace.stderr(Stdio::piped()).spawn()?;
    wait_for_tracer(&pid, &mut strace)?;
    writeln!(worker.stdin.take().ok_or("no input")?)?;
    let end = wait(&mut worker)?;
    wait(&mut strace)?;
    let mut words = String::new();
    worker.stderr.take().ok_or("no errors")?.read_to_string(&mut words)?;
    Ok((end, words))
}

fn wait_for_tracer(pid: &str, strace: &mut Child) -> Outcome<()> {
    let began = Instant::now();
    while began.elapsed() < PATIENCE {
        if strace.try_wait()?.is_some() {
            let mut words = String::new();
            strace.stderr.take().ok_or("no errors")?.read_to_string(&mut words)?;
            return Err(format!("strace: {words}").into());
        }
        let status = std::fs::read_to_string(format!("/proc/{pid}/status"))?;
        if status.lines().any(|l| l.strip_prefix("TracerPid:").is_some_and(|p| p.trim() != "0")) {
            return Ok(());
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    strace.kill()?;
    Err(format!("strace has not attached after {} s", PATIENCE.as_secs()).into())
}

fn wait(child: &mut Child) -> Outcome<End> {
    let began = Instant::now();
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(match status.code() {
                Some(0) => End::Success,
                Some(MIXED) => End::Other(MIXED),
                Some(PANIC) => End::Other(PANIC),
                Some(code) if code > 102 => End::Failed(ErrorKind::from_code((code - 102) as u8)),
                Some(code) => End::Other(code),
                None => End::Signal,
            });
        }
        if began.elapsed() > PATIENCE {
            child.kill()?;
            child.wait()?;
            return Ok(End::TimeOut);
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Calls that change a file through its descriptor.
const WRITES: &str = "write,pwrite64,pwritev,pwritev2,ftruncate";

/// The file below `folder` whose close failed after it was written to through this descriptor.
fn lost_close(log: &Path, folder: &Path) -> Outcome<Option<String>> {
    let (mut written, mut closes) = (BTreeMap::new(), BTreeMap::new());
    for line in std::fs::read_to_string(log)?.lines() {
        let Some((thread, call)) = line.split_once(' ') else { continue };
        let call = call.trim_start();
        let file = call.split_once('(').and_then(|(name, rest)| {
            let (number, rest) = rest.split_once('<')?;
            Some((name, number.to_string(), rest.split_once('>')?.0.to_string()))
        });
        match file {
            Some(("close", number, path)) => {
                let path = written.remove(&number).filter(|known| *known == path);
                closes.insert(thread.to_string(), path);
            }
            Some((_, number, path)) if Path::new(&path).starts_with(folder) => drop(written.insert(number, path)),
            _ => {}
        }
        if line.ends_with("(INJECTED)") {
            return Ok(closes.remove(thread).flatten());
        }
    }
    Ok(None)
}

/// How often each thread has made each call, at most.
fn counts(log: &Path) -> Outcome<BTreeMap<String, u64>> {
    let mut by_thread: BTreeMap<(String, String), u64> = BTreeMap::new();
    for line in std::fs::read_to_string(log)?.lines() {
        let Some((thread, call)) = line.split_once(' ') else { continue };
        // `... resumed` has been counted where the call began.
        let Some((call, _)) = call.trim_start().split_once('(') else { continue };
        *by_thread.entry((thread.to_string(), call.to_string())).or_default() += 1;
    }
    let mut most = BTreeMap::new();
    for ((_, call), n) in by_thread {
        let entry: &mut u64 = most.entry(call).or_default();
        *entry = n.max(*entry);
    }
    Ok(most)
}

/// One thing whose every system call fails once.
struct Sweep<'s> {
    name: String,
    folder: PathBuf,
    launch: Launch,
    worker: Vec<String>,
    mounts: Option<PathBuf>,
    /// Puts the folder into the state before.
    prepare: Box<dyn Fn() -> Outcome<()> + 's>,
    /// Looks at what the worker has left.
    check: Box<dyn Fn(End) -> Outcome<()> + 's>,
}

fn judge(sweeps: &mut [Sweep<'_>]) {
    let mut broken = 0;
    for sweep in sweeps {
        match sweep.run() {
            Ok((faults, failed, wrong)) => {
                let said = if wrong.is_empty() { "ok" } else { "not ok" };
                println!("{said} {}: {faults} failing system calls, {failed} told as errors", sweep.name);
                wrong.iter().for_each(|line| println!("  {line}"));
                broken += wrong.len();
            }
            Err(e) => {
                println!("not ok {}: {e}", sweep.name);
                broken += 1;
            }
        }
    }
    std::process::exit(i32::from(broken > 0));
}

impl Sweep<'_> {
    fn run(&self) -> Outcome<(u64, u64, Vec<String>)> {
        let worker: Vec<&str> = self.worker.iter().map(String::as_str).collect();
        let log = self.folder.with_extension("strace");
        let mounts = self.mounts.as_deref();
        (self.prepare)()?;
        let run = |fault: Fault<'_>| match (&self.launch, mounts) {
            (Launch::Preload { thalweg }, Some(mounts)) => run_preloaded(thalweg, &self.worker, mounts, fault, &log),
            (Launch::Fuse { thalweg, at }, Some(mounts)) => {
                run_mounted((thalweg, at), &self.worker, mounts, fault, &log)
            }
            _ => run(&worker, mounts, fault, &log),
        };
        let (end, words) = run(None)?;
        if end != End::Success {
            return Err(format!("fails without a fault: {end:?} {words}").into());
        }
        (self.check)(end)?;
        let counts = counts(&log)?;
        let (mut faults, mut failed, mut wrong) = (0, 0, Vec::new());
        let every = thinned();
        // Another one of them in each run.
        let mut number = u64::from(std::process::id()) % every;
        // strace keeps a call that it lets fail from happening. A close that fails has closed all the same, and with it given up
        // the locks of its descriptor; a burst buffer then waits for its own process for ever.
        let happens = |call: &str| call != "close" || !self.name.starts_with("tiered");
        for (call, error) in CALLS.iter().filter(|(call, _)| happens(call)) {
            for k in 1..=counts.get(*call).copied().unwrap_or(0) {
                number += 1;
                if number % every != 0 {
                    continue;
                }
                (self.prepare)()?;
                let (end, words) = run(Some((call, error, k)))?;
                faults += 1;
                let words = words.lines().next().unwrap_or_default().to_string();
                match end {
                    End::Success if *call == "close" => {
                        if let Some(path) = lost_close(&log, &self.folder)? {
                            wrong.push(format!("close {k} {error}: {path} was not closed, and nobody was told"));
                        }
                    }
                    End::Success => {}
                    End::Failed(_) => failed += 1,
                    end => wrong.push(format!("{call} {k} {error}: {end:?}: {words}")),
                }
                if let Err(e) = (self.check)(end) {
                    wrong.push(format!("{call} {k} {error}: {end:?} ({words}), but {e}"));
                }
            }
        }
        Ok((faults, failed, wrong))
    }
}

/// `THIN=N`: one of N faults alone is tried.
fn thinned() -> u64 {
    std::env::var("THIN").ok().and_then(|n| n.parse().ok()).filter(|n| *n > 0).unwrap_or(1)
}

fn anew(folder: &Path) -> Outcome<()> {
    if folder.exists() {
        std::fs::remove_dir_all(folder)?;
    }
    Ok(std::fs::create_dir_all(folder)?)
}

fn copy(from: &Path, to: &Path) -> Outcome<()> {
    anew(to)?;
    let done = Command::new("cp").arg("-a").arg(from.join(".")).arg(to).status()?;
    if done.success() { Ok(()) } else { Err("cp failed".into()) }
}

/// Parameters with which methods are swept.
fn parameters(method: &str) -> &'static [&'static str] {
    match method {
        "MPI_AGGREGATE" => &["pattern=simple;aggregators=1", "pattern=brigade"],
        "MPI_SCHEDULED" | "ADAPTIVE" => &["num_files=2"],
        "MPI" | "POSIX" => &["", "sync=yes;index=each"],
        _ => &[""],
    }
}

fn sweeps_bp(folder: &Path, ranks: u32, only: Option<&str>) -> Vec<Sweep<'static>> {
    let mut sweeps = Vec::new();
    let methods = METHODS.iter().filter(|kind| registry::stores(kind)).map(|kind| kind.names[0]);
    for method in methods.filter(|m| only.is_none_or(|o| o == *m)) {
        for parameters in parameters(method) {
            for first in [0, 2] {
                let what = if first == 0 { "new file" } else { "append" };
                let slug = format!("{method}-{}-{what}-{ranks}", parameters.replace(['=', ';'], "-")).replace(' ', "-");
                let (work, before) = (folder.join(&slug), folder.join(format!("{slug}-before")));
                let path = work.join("x.bp").display().to_string();
                let worker = ["bp", &path, method, parameters, &ranks.to_string(), &first.to_string(), "1"];
                let worker: Vec<String> = worker.iter().map(|w| w.to_string()).collect();
                let prepare = {
                    let (work, before, path) = (work.clone(), before.clone(), path.clone());
                    move || -> Outcome<()> {
                        if !before.exists() {
                            anew(&work)?;
                            for outcome in write_bp(&path, method, parameters, ranks, 0..first) {
                                outcome?;
                            }
                            copy(&work, &before)?;
                        }
                        copy(&before, &work)
                    }
                };
                let check = {
                    let work = work.clone();
                    move |end: End| check_bp(&work, method, parameters, ranks, first, end)
                };
                let name = format!("{method} {parameters}, {ranks} ranks, {what}");
                sweeps.push(Sweep {
                    name,
                    folder: work,
                    launch: Launch::Itself,
                    worker,
                    mounts: None,
                    prepare: Box::new(prepare),
                    check: Box::new(check),
                });
            }
        }
    }
    sweeps
}

/// All steps before `first` are there; the one behind them is where the worker says so; one more goes on.
fn check_bp(work: &Path, method: &str, parameters: &str, ranks: u32, first: u64, end: End) -> Outcome<()> {
    let layout: Arc<dyn Layout> = Arc::new(Direct::new(Arc::new(Posix::at(work)?))?);
    let path = work.join("x.bp").display().to_string();
    let steps = match Reader::open(layout.clone(), "x.bp") {
        Ok(reader) => reads(&reader, ranks, first)?,
        Err(e) if first == 0 && end != End::Success => {
            // Nothing was closed; what is left must not stop a new file.
            let _ = e;
            0
        }
        Err(e) => return Err(format!("the file cannot be opened: {e}").into()),
    };
    if steps < first || (end == End::Success && steps != first + 1) {
        return Err(format!("{steps} steps are there").into());
    }
    for outcome in write_bp(&path, method, parameters, ranks, steps..steps + 1) {
        outcome.map_err(|e| format!("the next output fails: {e}"))?;
    }
    let reader = Reader::open(layout.clone(), "x.bp")?;
    if reads(&reader, ranks, first)? != steps + 1 {
        return Err(format!("the next output leaves {} steps", reader.status().steps).into());
    }
    let partial = !reader.status().partial.is_empty();
    let report = verify(&*layout, "x.bp")?;
    match report.findings.iter().find(|f| !(partial && matches!(f.kind, FindingKind::Gap | FindingKind::Partial))) {
        Some(finding) => Err(format!("verify after the next output: {finding:?}").into()),
        None => Ok(()),
    }
}

/// Compares every value. Steps before `whole` must have all ranks, and those that are not marked partial. Returns the number of steps.
fn reads(reader: &Reader, ranks: u32, whole: u64) -> Outcome<u64> {
    let steps = reader.status().steps;
    for step in 0..steps {
        let partial: Vec<u32> = reader.status().partial.iter().filter(|p| p.step == step).map(|p| p.rank).collect();
        let blocks = reader.blocks("t", step).map_err(|e| format!("step {step}: {e}"))?;
        if blocks.len() != ranks as usize - partial.len() || (step < whole && !partial.is_empty()) {
            return Err(format!("step {step} has {} blocks, lost ranks {partial:?}", blocks.len()).into());
        }
        for block in blocks {
            let values: Vec<f64> = reader.read_as("t", step, &Selection::Block(block.number))?;
            if values != row(block.offset[0] as u32, step) {
                return Err(format!("step {step}, block {} has other values", block.number).into());
            }
        }
    }
    Ok(steps)
}

/// Layouts, and the lines of their mount tables.
const LAYOUTS: &[(&str, &str)] = &[
    ("direct", "layout = \"direct\"\nstore = \"posix:@/a\"\n"),
    ("flat", "layout = \"flat\"\nstores = [\"posix:@/a\", \"posix:@/b\"]\n"),
    ("container", "layout = \"container\"\nstores = [\"posix:@/a\", \"posix:@/b\"]\n"),
    ("small_file", "layout = \"small_file\"\nstore = \"posix:@/a\"\n"),
    ("tiered", "layout = \"container\"\nstore = \"tiered:posix:@/a=>posix:@/b\"\ndrain = \"manual\"\n"),
];

fn sweeps_file(folder: &Path, only: Option<&str>, launch: &dyn Fn(&Path) -> Launch) -> Vec<Sweep<'static>> {
    let mut sweeps = Vec::new();
    std::fs::create_dir_all(folder)
        .and_then(|()| std::fs::write(folder.join("new"), NEW))
        .unwrap_or_else(|e| panic!("{e}"));
    for (layout, table) in LAYOUTS.iter().filter(|(name, _)| only.is_none_or(|o| o == *name)) {
        for (operation, there) in OPERATIONS {
            let work = folder.join(format!("{layout}-{operation}"));
            let before = folder.join(format!("{layout}-{operation}-before"));
            let mounts = folder.join(format!("{layout}-{operation}.toml"));
            let prepare = {
                let (work, before, mounts) = (work.clone(), before.clone(), mounts.clone());
                move || -> Outcome<()> {
                    if !before.exists() {
                        anew(&work)?;
                        std::fs::create_dir(work.join("a"))?;
                        std::fs::create_dir(work.join("b"))?;
                        let text = format!("[[mount]]\npath = \"/faults\"\n{table}");
                        std::fs::write(&mounts, text.replace('@', &work.display().to_string()))?;
                        let layout = mounts::of_files(std::slice::from_ref(&mounts))?;
                        layout.make_folder("/faults/d")?;
                        for name in ["kept", "other"] {
                            operate(&*layout, &format!("/faults/d/{name}"), "prepare")?;
                        }
                        if *there {
                            operate(&*layout, "/faults/d/x", "prepare")?;
                        }
                        drop(layout);
                        copy(&work, &before)?;
                    }
                    copy(&before, &work)
                }
            };
            let check = {
                let mounts = mounts.clone();
                move |end: End| check_file(&mounts, operation, *there, end)
            };
            let launch = launch(&work);
            let worker = match &launch {
                Launch::Itself => ["file", "/faults/d/x", operation].map(str::to_string).to_vec(),
                _ => tool(operation, "/faults/d/x", &folder.join("new")),
            };
            sweeps.push(Sweep {
                name: format!("{layout}, {operation}"),
                folder: work,
                launch,
                worker,
                mounts: Some(mounts),
                prepare: Box::new(prepare),
                check: Box::new(check),
            });
        }
    }
    sweeps
}

/// The text of a file, `None` where there is none.
fn text(layout: &dyn Layout, path: &str) -> Outcome<Option<String>> {
    let object = match layout.open_read(path) {
        Ok(object) => object,
        Err(e) if e.kind() == ErrorKind::NotFound => return Ok(None),
        Err(e) => return Err(format!("{path} cannot be opened: {e}").into()),
    };
    let mut bytes = vec![0; object.length()? as usize];
    object.read_exact_at(0, &mut bytes).map_err(|e| format!("{path} cannot be read: {e}"))?;
    Ok(Some(String::from_utf8_lossy(&bytes).into_owned()))
}

fn check_file(mounts: &Path, operation: &str, there: bool, end: End) -> Outcome<()> {
    // A new table: another process, as far as layouts know.
    let layout = mounts::of_files(&[mounts.to_path_buf()])?;
    let layout = &*layout;
    for name in ["kept", "other"] {
        if text(layout, &format!("/faults/d/{name}"))?.as_deref() != Some(OLD) {
            return Err(format!("{name}, which nobody touched, is not as it was").into());
        }
    }
    let x = "/faults/d/x";
    let folder = operation == "mkdir";
    let found = if folder { layout.stat(x).ok().map(|_| String::new()) } else { text(layout, x)? };
    let before = there.then(|| OLD.to_string());
    let after = match operation {
        "create" | "replace" => Some(NEW.to_string()),
        "append" => Some(format!("{OLD}{NEW}")),
        "rename" | "remove" => None,
        "truncate" => Some(OLD[..11].to_string()),
        "mkdir" => Some(String::new()),
        _ => before.clone(),
    };
    // A file is emptied, or made, before bytes are written to it.
    let between = [&before, &after].contains(&&found)
        || (matches!(operation, "create" | "replace") && found.as_deref() == Some(""));
    if (end == End::Success && found != after) || !between {
        return Err(format!("the file has {found:?}, before {before:?}, wanted {after:?}").into());
    }
    if operation == "rename" {
        let renamed = text(layout, &format!("{x}.renamed"))?;
        if renamed.as_deref() == Some(OLD) && found.is_none() || renamed.is_none() && found.is_some() {
            // One of both names.
        } else {
            return Err(format!("old name {found:?}, new name {renamed:?}").into());
        }
    }
    // The name is usable: it can be written, read, and removed.
    if folder {
        if found.is_none() {
            layout.make_one_folder(x, 0o755).map_err(|e| format!("the folder cannot be made afterwards: {e}"))?;
        }
    } else {
        let object = layout.open_write(x, OpenWrite::Any, WriterId(2)).map_err(|e| format!("cannot be opened: {e}"))?;
        write_all_at(&*object, 0, b"AGAIN")?;
        object.close()?;
        if text(layout, x)?.is_none_or(|t| !t.starts_with("AGAIN")) {
            return Err("what was written afterwards is not there".into());
        }
    }
    layout.remove(x).map_err(|e| format!("the name cannot be removed afterwards: {e}"))?;
    Ok(())
}
