//! `thalweg drain`: what a burst buffer's fast store holds goes to the store behind it.

use crate::arguments::Drain as Arguments;
use crate::format::count;
use crate::outcome::{Failure, Outcome};
use crate::terminal::{BAD, GOOD, Terminal, complain, plain};
use serde_json::json;
use std::io::Write;
use std::sync::atomic::AtomicBool;
use thalweg_io::places::stores;
use thalweg_store::wrap::tiered::{Drain, Pace, Passed, status};

pub fn run(arguments: &Arguments, out: &mut Terminal) -> Result<Outcome, Failure> {
    let tiered = stores::tiered(&arguments.store)?;
    if arguments.status {
        return tell(&status(&tiered)?, arguments.json, out);
    }
    let bytes_per_second = arguments.rate.map_or(f64::INFINITY, |rate| rate as f64);
    let pace = Pace { bytes_per_second, streams: arguments.streams as usize, ..Pace::default() };
    let drain = Drain::new(&tiered, pace)?;
    // Nobody sets it: ending the process is how the drain is ended.
    let go = AtomicBool::new(false);
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

/// What a round did, if anything.
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

fn tell(status: &thalweg_store::wrap::tiered::Status, as_json: bool, out: &mut Terminal) -> Result<Outcome, Failure> {
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
