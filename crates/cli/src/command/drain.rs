//! `thalweg drain`: moves the closed objects of a burst buffer from its fast store to the canonical store.

use crate::arguments::Drain as Arguments;
use crate::detached;
use crate::outcome::{Failure, Outcome};
use crate::terminal::{BAD, GOOD, Terminal, complain, plain};
use serde_json::json;
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};
use thalweg_io::mounts::{draining, stores};
use thalweg_report::text::count;
use thalweg_store::wrap::Tiered;
use thalweg_store::wrap::tiered::{Drain, Pace, Passed, run_until_idle, status};
use thalweg_types::{Error, ErrorKind};

/// Failures of one round that are printed individually.
const TOLD: usize = 5;
/// How long `--once` waits for a running drain that moves nothing.
const STUCK: Duration = Duration::from_secs(30);

pub fn run(arguments: &Arguments, out: &mut Terminal) -> Result<Outcome, Failure> {
    if arguments.behind && arguments.idle.is_none() {
        return send_behind(&arguments.store);
    }
    if arguments.behind {
        detached::leave();
    }
    let tiered = stores::tiered(&arguments.store)?;
    if arguments.status {
        return tell(&tiered, arguments.json, out);
    }
    if let Some(lost) = arguments.forget {
        if lost == tiered.pointers().us.number {
            let what = "--forget: this is the fast store of this node, which is not lost; drain it";
            return Err(Failure::Usage(what.into()));
        }
        writeln!(out, "given up: {}", count(tiered.pointers().forget(lost)?, "object"))?;
        return Ok(Outcome::Done);
    }
    let bytes_per_second = arguments.rate.map_or(f64::INFINITY, |rate| rate as f64);
    let pace = Pace { bytes_per_second, streams: arguments.streams as usize, ..Pace::default() };
    // Never set: the drain ends with its process.
    let go = AtomicBool::new(false);
    if let Some(idle) = arguments.idle {
        return until_idle(&tiered, pace, Duration::from_secs(idle), &go);
    }
    let begun = Instant::now();
    let drain = loop {
        match Drain::new(&tiered, pace) {
            // The running drain moves the object as well.
            Err(e) if arguments.once && e.kind() == ErrorKind::AlreadyExists => {
                if status(&tiered)?.waiting.iter().all(|object| object.written) {
                    writeln!(out, "another drain has moved all that is closed")?;
                    return Ok(Outcome::Done);
                }
                if begun.elapsed() > STUCK
                    && let Some(failure) = draining::log_of(&tiered).as_deref().and_then(last_failure)
                {
                    complain("thalweg drain", &format!("the running drain makes no progress: {failure}"));
                    return Ok(Outcome::No);
                }
                std::thread::sleep(Duration::from_millis(50));
            }
            drain => break drain?,
        }
    };
    if arguments.once {
        loop {
            let passed = drain.pass(&go)?;
            say(&passed, out)?;
            if !passed.failed.is_empty() {
                return Ok(Outcome::No);
            }
            if passed.objects == 0 {
                if passed.busy > 0 {
                    writeln!(out, "left: {} being written", count(passed.busy, "object"))?;
                }
                return Ok(Outcome::Done);
            }
        }
    }
    writeln!(out, "draining; end it in any way, at any moment")?;
    out.flush()?;
    let mut failure = None;
    drain.run(&go, |passed| {
        if let Err(error) = say(passed, out) {
            failure.get_or_insert(error);
        }
    })?;
    failure.map_or(Ok(Outcome::Done), Err)
}

/// Prints the result of a round that moved or failed to move an object.
fn say(passed: &Passed, out: &mut Terminal) -> Result<(), Failure> {
    if passed.objects > 0 {
        out.styled(GOOD, "moved")?;
        writeln!(out, " {}, {} bytes", count(passed.objects, "object"), passed.bytes)?;
    }
    for (name, error) in &passed.failed {
        complain("thalweg drain", &format!("{} stays in the fast store: {error}", plain(name)));
    }
    out.flush()?;
    Ok(())
}

/// Starts the drain in a background process.
fn send_behind(store: &str) -> Result<Outcome, Failure> {
    let start = |e| Error::io("cannot start the drain", e);
    let idle = draining::IDLE.as_secs().to_string();
    Command::new(std::env::current_exe().map_err(start)?)
        .args(["drain", store, "--behind", "--idle", &idle])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .spawn()
        .map_err(start)?;
    Ok(Outcome::Done)
}

/// Prints to standard error with a timestamp: the log of a background drain.
fn until_idle(tiered: &Tiered, pace: Pace, idle: Duration, go: &AtomicBool) -> Result<Outcome, Failure> {
    let say = |text: &str| {
        // A log that cannot be written has no other reader to inform.
        let _ = writeln!(std::io::stderr(), "{} {}", draining::moment(), plain(text));
    };
    let outcome = run_until_idle(tiered, pace, (idle, draining::PATIENCE), go, |passed| match passed {
        Ok(passed) => {
            if passed.objects > 0 {
                say(&format!("moved {}, {} bytes", count(passed.objects, "object"), passed.bytes));
            }
            for (name, error) in passed.failed.iter().take(TOLD) {
                say(&format!("failed: {name} stays in the fast store: {error}"));
            }
            if passed.failed.len() > TOLD {
                say(&format!("failed: {} more", count((passed.failed.len() - TOLD) as u64, "object")));
            }
        }
        Err(error) => say(&format!("failed: {error}")),
    });
    if let Err(error) = outcome {
        say(&format!("given up: {error}"));
        return Ok(Outcome::No);
    }
    Ok(Outcome::Done)
}

/// The last failure in the log, if nothing was moved since.
fn last_failure(log: &Path) -> Option<String> {
    let mut file = std::fs::File::open(log).ok()?;
    let length = file.metadata().ok()?.len();
    file.seek(SeekFrom::Start(length.saturating_sub(64 << 10))).ok()?;
    let mut bytes = Vec::new();
    file.take(64 << 10).read_to_end(&mut bytes).ok()?;
    let text = String::from_utf8_lossy(&bytes).into_owned();
    let last = text.lines().rfind(|line| !line.trim().is_empty())?;
    (last.split(' ').nth(1) != Some("moved")).then(|| plain(last))
}

fn tell(tiered: &Tiered, as_json: bool, out: &mut Terminal) -> Result<Outcome, Failure> {
    let status = &status(tiered)?;
    let log = draining::log_of(tiered).filter(|log| log.is_file());
    let failure = log.as_deref().and_then(last_failure);
    // Waiting objects are listed also if the slow store cannot be reached.
    let others = tiered.pointers().others().unwrap_or_default();
    let bytes: u64 = status.waiting.iter().map(|object| object.length).sum();
    if as_json {
        let waiting: Vec<_> = status
            .waiting
            .iter()
            .map(|o| json!({"name": o.name, "bytes": o.length, "written": o.written, "moving": o.moving}))
            .collect();
        let document = json!({
            "draining": status.draining,
            "waiting": {"objects": waiting.len(), "bytes": bytes, "list": waiting},
            "moved": {"objects": status.objects, "bytes": status.bytes},
            "log": log,
            "failure": failure,
            "others": others
                .iter()
                .map(|other| json!({"number": format!("{:032x}", other.number), "name": other.shown}))
                .collect::<Vec<_>>(),
        });
        serde_json::to_writer_pretty(&mut *out, &document)?;
        writeln!(out)?;
        return Ok(Outcome::Done);
    }
    let number = |n: usize| count(n as u64, "object");
    writeln!(out, "in the fast store   {}, {bytes} bytes", number(status.waiting.len()))?;
    writeln!(out, "moved so far        {}, {} bytes", count(status.objects, "object"), status.bytes)?;
    write!(out, "drain               ")?;
    match status.draining {
        true => out.styled(GOOD, "at work")?,
        false => out.styled(BAD, "none at work")?,
    }
    writeln!(out)?;
    if let Some(failure) = failure {
        write!(out, "last failure        ")?;
        out.styled(BAD, &failure)?;
        writeln!(out)?;
    }
    if let Some(log) = log {
        writeln!(out, "log                 {}", plain(&log.display().to_string()))?;
    }
    for other in others {
        writeln!(out, "another fast store  {:032x} {}", other.number, plain(&other.shown))?;
    }
    for object in &status.waiting {
        let state = match (object.moving, object.written) {
            (true, _) => "being moved",
            (false, true) => "being written",
            (false, false) => "waits",
        };
        writeln!(out, "  {:>14}  {state:<13}  {}", object.length, plain(&object.name))?;
    }
    Ok(Outcome::Done)
}
