//! `thalweg control`: changes what a run writes, how, and how often, and says from which output on.

use crate::arguments::Control as Arguments;
use crate::outcome::{Failure, Outcome};
use crate::terminal::{Terminal, complain, plain};
use serde_json::json;
use std::io::Write;
use std::path::Path;
use thalweg_control::{Change, Method, Region, Request, Settings, Stop};
use thalweg_io::steering::asking::{Run, Since};
use thalweg_io::steering::files::{self, Seen};
use thalweg_types::{Error, ErrorKind};

pub fn run(arguments: &Arguments, out: &mut Terminal) -> Result<Outcome, Failure> {
    let control = arguments.control.clone().unwrap_or_else(|| files::of_output(&arguments.file));
    let change = change(arguments)?;
    if arguments.status {
        return status(arguments, &control, out);
    }
    if change.is_empty() {
        return Err(Failure::Usage(
            "nothing to change: give --every, --only, --box, --method, --stop, --stop-after, --go-on or --status"
                .into(),
        ));
    }
    let (run, seen) = Run::find(&arguments.file, &control).map_err(absent)?;
    if !seen.locked {
        let host = plain(&seen.record.host);
        complain("thalweg", &format!("remark: whether the run on host {host} is alive cannot be told from here"));
    }
    let Since { output, step } = run.ask(&change, arguments.wait, || Ok(())).map_err(absent)?;
    match arguments.json {
        true => writeln!(out, "{}", json!({ "output": output, "step": step, "change": change.to_string() }))?,
        false => writeln!(out, "from output {output} (step {step} of the file) on: {}", plain(&change.to_string()))?,
    }
    Ok(Outcome::Done)
}

/// A run that isn't there, refuses or does not answer is no failure of the command.
fn absent(e: Error) -> Failure {
    match e.kind() {
        ErrorKind::NotFound | ErrorKind::PeerLost | ErrorKind::Timeout | ErrorKind::InvalidArgument => {
            Failure::Absent(plain(e.what()).to_string())
        }
        _ => e.into(),
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
    let stop = match (arguments.stop, arguments.go_on, &arguments.stop_after) {
        (true, ..) => Some(Stop::Now),
        (_, true, _) => Some(Stop::No),
        (.., Some(group)) => Some(Stop::After(group.clone())),
        _ => None,
    };
    let method = match arguments.method.as_deref() {
        None => None,
        Some("declared") => Some(None),
        Some(text) => Some(Some(text.parse::<Method>().map_err(|e| Failure::Usage(e.what().to_string()))?)),
    };
    Ok(Change { every: arguments.every, only, region, stop, method })
}

fn status(arguments: &Arguments, control: &Path, out: &mut Terminal) -> Result<Outcome, Failure> {
    let (_, Seen { record, locked }) = Run::find(&arguments.file, control).map_err(absent)?;
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
