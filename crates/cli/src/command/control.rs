//! `thalweg control`: changes what a run writes, and how often, and says from which output on.

use crate::arguments::Control as Arguments;
use crate::outcome::{Failure, Outcome};
use crate::terminal::{Terminal, complain, plain};
use serde_json::json;
use std::io::Write;
use std::path::Path;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use thalweg_control::{Change, Region, Request, Settings, Verdict};
use thalweg_io::steering::files::{self, Seen, Watch};
use thalweg_types::ErrorKind;

/// Between two looks at the run.
const BETWEEN: Duration = Duration::from_millis(100);
/// How long an answer is awaited of a run on another host of which nothing shows that it is alive.
const UNKNOWN: Duration = Duration::from_secs(600);
/// How long a run that has taken a request may need to answer it.
const ANSWERING: Duration = Duration::from_secs(60);

pub fn run(arguments: &Arguments, out: &mut Terminal) -> Result<Outcome, Failure> {
    let control = arguments.control.clone().unwrap_or_else(|| files::of_output(&arguments.file));
    let change = change(arguments)?;
    if arguments.status {
        return status(arguments, &control, out);
    }
    if change.is_empty() {
        return Err(Failure::Usage(
            "nothing to change: give --every, --only, --box, --stop, --go-on or --status".into(),
        ));
    }
    let (watch, seen) = find(arguments, &control)?;
    if !seen.locked {
        let host = plain(&seen.record.host);
        complain("thalweg", &format!("remark: whether the run on host {host} is alive cannot be told from here"));
    }
    let since = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_nanos());
    let id = format!("{}-{}-{since}", files::host(), std::process::id());
    files::place(&control, &Request { id: id.clone(), change: change.clone() }.encode())?;
    match answer(arguments, &control, &watch, &id)? {
        Verdict::Accepted { output, step } if arguments.json => {
            writeln!(out, "{}", json!({ "output": output, "step": step, "change": change.to_string() }))?;
            Ok(Outcome::Done)
        }
        Verdict::Accepted { output, step } => {
            writeln!(out, "from output {output} (step {step} of the file) on: {}", plain(&change.to_string()))?;
            Ok(Outcome::Done)
        }
        Verdict::Refused(why) => Err(Failure::Absent(format!("the run refuses the change: {}", plain(&why)))),
    }
}

fn change(arguments: &Arguments) -> Result<Change, Failure> {
    let all = |words: &str| words == "all";
    let only = match arguments.only.as_slice() {
        [] => None,
        [word] if all(word) => Some(None),
        names => Some(Some(names.iter().cloned().collect())),
    };
    let region = match arguments.region.as_deref() {
        None => None,
        Some(word) if all(word) => Some(None),
        Some(text) => Some(Some(text.parse::<Region>().map_err(|e| Failure::Usage(e.what().to_string()))?)),
    };
    let stop = match (arguments.stop, arguments.go_on) {
        (true, _) => Some(true),
        (_, true) => Some(false),
        _ => None,
    };
    Ok(Change { every: arguments.every, only, region, stop })
}

/// The run file of a run that may be alive.
fn find(arguments: &Arguments, control: &Path) -> Result<(Watch, Seen), Failure> {
    let Some(watch) = Watch::open(&files::run_file(control))? else {
        let file = plain(&arguments.file.display().to_string());
        return Err(Failure::Absent(format!(
            "no run that can be steered writes {file}: it has ended, has not opened the file yet, or its method has no control=yes"
        )));
    };
    let seen = watch.look()?;
    match dead(arguments, &seen) {
        Some(failure) => Err(failure),
        None => Ok((watch, seen)),
    }
}

/// The failure for a run that is not alive. That of one on another host without a lock can't be told.
fn dead(arguments: &Arguments, seen: &Seen) -> Option<Failure> {
    let Seen { record, locked } = seen;
    let file = plain(&arguments.file.display().to_string());
    let what = format!("the run that wrote {file}, process {}, has ended or is dead", record.pid);
    (!locked && record.host == files::host()).then_some(Failure::Absent(what))
}

/// Waits for the answer to a request. Without one, the request is withdrawn.
fn answer(arguments: &Arguments, control: &Path, watch: &Watch, id: &str) -> Result<Verdict, Failure> {
    let begun = Instant::now();
    // Since when the run has had the request.
    let mut taken: Option<Instant> = None;
    loop {
        let seen = watch.look()?;
        if let Some(answer) = seen.record.answers.iter().find(|answer| answer.id == id) {
            return Ok(answer.verdict.clone());
        }
        if let Some(failure) = dead(arguments, &seen) {
            withdraw(control, id);
            return Err(failure);
        }
        let longest = arguments.wait.or((!seen.locked).then_some(UNKNOWN));
        let expired = longest.is_some_and(|longest| begun.elapsed() >= longest);
        if expired && taken.is_none() {
            if withdraw(control, id) {
                let what = "the run has written no output meanwhile; the change is withdrawn";
                return Err(Failure::Absent(what.into()));
            }
            taken = Some(Instant::now());
        }
        if taken.is_some_and(|taken| taken.elapsed() > ANSWERING) {
            return Err(Failure::Absent("the run has taken the change and does not answer".into()));
        }
        std::thread::sleep(BETWEEN);
    }
}

/// Removes the request; `false` if the run has taken it.
fn withdraw(control: &Path, id: &str) -> bool {
    let own = files::read_owned(control).ok().flatten().and_then(|bytes| Request::id_of(&bytes));
    own.as_deref() == Some(id) && std::fs::remove_file(control).is_ok()
}

fn status(arguments: &Arguments, control: &Path, out: &mut Terminal) -> Result<Outcome, Failure> {
    let (_, Seen { record, locked }) = find(arguments, control)?;
    let mut settings = Settings::default();
    settings.apply(&record.settings);
    let waits = match files::read_owned(control) {
        Ok(waiting) => waiting.and_then(|bytes| Request::parse(&bytes).ok()),
        Err(e) if e.kind() == ErrorKind::PermissionDenied => return Err(e.into()),
        Err(_) => None,
    };
    if arguments.json {
        let document = json!({
            "host": record.host, "pid": record.pid, "alive": locked.then_some(true), "since": record.since,
            "settings": settings.to_string(), "waiting": waits.map(|request| request.change.to_string()),
        });
        writeln!(out, "{document}")?;
        return Ok(Outcome::Done);
    }
    let life = if locked { "" } else { ", perhaps dead" };
    writeln!(out, "run       process {} on {}{life}", record.pid, plain(&record.host))?;
    writeln!(out, "settings  {}, from output {} on", plain(&settings.to_string()), record.since)?;
    if let Some(request) = waits {
        writeln!(out, "waiting   {}", plain(&request.change.to_string()))?;
    }
    Ok(Outcome::Done)
}
