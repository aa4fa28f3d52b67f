//! `thalweg copy`: a file, or parts of it, in other blocks, types and transforms.

use crate::arguments::Copy as Arguments;
use crate::document;
use crate::file;
use crate::outcome::{Failure, Outcome};
use crate::progress::Progress;
use crate::terminal::{Terminal, complain, plain};
use serde_json::json;
use signal_hook::consts::{SIGINT, SIGTERM, SIGURG};
use std::io::{IsTerminal, Write, stderr};
use std::path::Path;
use thalweg_copy::copy::Ended;
use thalweg_copy::services::Unprocessed;
use thalweg_copy::{Asked, Copied, Existing, Options, Served, copy};
use thalweg_functions::caller::Hosts;
use thalweg_reader::{Reader, Wait};
use thalweg_report::text::count;
use thalweg_types::Error;

pub fn run(arguments: &Arguments, out: &mut Terminal) -> Result<Outcome, Failure> {
    let options = options(arguments)?;
    file::not_itself(&arguments.file, &arguments.output, "its copy")?;
    let (from, source) = match &arguments.through {
        Some(partition) => thalweg_io::staging::held(partition, &arguments.file)?,
        // A program that is followed may begin later.
        None if arguments.follow => file::awaited(&arguments.file)?,
        None => file::place(&arguments.file, None)?,
    };
    let total = match arguments.follow || arguments.through.is_some() {
        true => 0,
        // Warns about files that were cut off, too.
        false => {
            file::open(&arguments.file, None).map(|reader| if stderr().is_terminal() { values(&reader) } else { 0 })?
        }
    };
    let to = thalweg_io::mounts::layout()?;
    let target = shown(&arguments.output);
    let asked = asked(arguments.follow)?;
    let mut bar = Progress::bytes("copying");
    let mut progress = |done: u64| {
        if total > 0 {
            bar.at(done.min(total), total);
        }
    };
    let copied = copy((&from, &source), (&to, &target), &options, &asked, &mut progress)?;
    drop(bar);
    tell(arguments, &copied, out)
}

/// How signals ask a copy that follows to end.
fn asked(follows: bool) -> Result<Asked, Error> {
    let asked = Asked::default();
    if follows {
        // A server that has to end asks with one that does nothing to a process which does not listen yet.
        for (signal, flag) in [(SIGINT, &asked.at_once), (SIGTERM, &asked.at_once), (SIGURG, &asked.when_quiet)] {
            let heard = signal_hook::flag::register(signal, flag.clone());
            heard.map_err(|e| Error::io("cannot listen for signals", e))?;
        }
    }
    Ok(asked)
}

fn shown(path: &Path) -> String {
    path.display().to_string()
}

/// Bytes of values of a file, for the progress bar.
fn values(reader: &Reader) -> u64 {
    let of = |name: &str| {
        let mut bytes = 0u64;
        let variable = reader.variable(name)?;
        reader.for_each_block(name, 0..u64::MAX, &mut |block| {
            bytes = bytes.saturating_add(block.elements().saturating_mul(variable.element.size()));
            Ok(())
        })?;
        Ok::<u64, Error>(bytes)
    };
    reader.variables().iter().map(|head| of(&head.name).unwrap_or(0)).fold(0, u64::saturating_add)
}

fn options(arguments: &Arguments) -> Result<Options, Failure> {
    let usage = |e: Error| Failure::Usage(e.what().to_string());
    let choice = arguments.chosen.written(Some(arguments.blocks.clone()));
    let choice = choice.parse().map_err(usage)?;
    let services = arguments.services.as_ref().map(|config| served(config, arguments.group.as_deref())).transpose()?;
    let (method, parameters) = arguments.method.split_once(';').unwrap_or((&arguments.method, ""));
    Ok(Options {
        choice,
        method: method.to_string(),
        parameters: parameters.to_string(),
        memory: arguments.memory,
        existing: match (arguments.force, arguments.go_on) {
            (true, _) => Existing::Replace,
            (false, true) => Existing::Continue,
            (false, false) => Existing::Refuse,
        },
        follow: arguments.follow.then(|| Wait { timeout: arguments.wait, ..Wait::default() }),
        services,
    })
}

/// The services of a group, from an XML document.
fn served(config: &Path, group: Option<&str>) -> Result<Served, Failure> {
    let (schema, report) = document::read(config)?;
    eprint!("{}", report.render(false));
    let usage = |what: String| Failure::Usage(format!("{}: {what}", config.display()));
    let Some(schema) = schema.filter(|_| report.errors() == 0) else { return Err(usage("it has errors".into())) };
    let mut fitting: Vec<_> =
        schema.services.into_iter().filter(|s| group.is_none_or(|name| name == s.group)).collect();
    let services = match (fitting.pop(), fitting.is_empty(), group) {
        (Some(services), true, _) => services,
        (Some(_), false, _) => {
            return Err(usage("several groups have services: --group says whose outputs are meant".into()));
        }
        (None, _, Some(group)) => return Err(usage(format!("group '{group}' has no services"))),
        (None, _, None) => return Err(usage("no group has services: <services group=\"...\">".into())),
    };
    let thalweg = std::env::current_exe().map_err(|e| Error::io("cannot find this program", e))?;
    Ok(Served { services, hosts: Hosts::of(thalweg) })
}

fn tell(arguments: &Arguments, copied: &Copied, out: &mut Terminal) -> Result<Outcome, Failure> {
    for thalweg_copy::LeftOut { name, why } in &copied.left_out {
        complain("thalweg", &format!("not as it was: {}: {}", plain(name), plain(why)));
    }
    for pattern in &copied.unknown {
        complain("thalweg", &format!("no variable fits '{}'", plain(pattern)));
    }
    let ended = match copied.ended {
        Ended::Whole => "whole",
        Ended::WriterDied => "the writer died",
        Ended::TimedOut => "no step came in time",
        Ended::Stopped => "stopped",
    };
    if arguments.json {
        let left_out: Vec<_> = copied.left_out.iter().map(|left| json!({"name": left.name, "why": left.why})).collect();
        let unprocessed: Vec<_> = copied
            .unprocessed
            .iter()
            .map(|Unprocessed { step, service, why }| json!({"step": step, "service": service, "why": why}))
            .collect();
        let document = json!({
            "steps": copied.steps,
            "had": copied.had,
            "blocks": copied.blocks,
            "bytes": copied.bytes,
            "not_as_it_was": left_out,
            "unprocessed": unprocessed,
            "ended": ended,
        });
        writeln!(out, "{document:#}")?;
    } else {
        let shown = plain(&arguments.output.display().to_string());
        let had = if copied.had > 0 { format!(" behind {}", count(copied.had, "step")) } else { String::new() };
        let steps = count(copied.steps, "step");
        let blocks = count(copied.blocks, "block");
        writeln!(out, "{shown}: {steps}{had}, {blocks}, {}", count(copied.bytes, "byte"))?;
    }
    match copied.ended {
        Ended::WriterDied | Ended::TimedOut => {
            complain("thalweg", &format!("the copy ends early: {ended}; --continue adds what comes later"));
            Ok(Outcome::No)
        }
        Ended::Whole if copied.steps == 0 && copied.had == 0 => {
            complain("thalweg", "nothing was copied: no step has such a variable");
            Ok(Outcome::No)
        }
        Ended::Whole | Ended::Stopped if copied.unprocessed.is_empty() => Ok(Outcome::Done),
        Ended::Whole | Ended::Stopped => Ok(Outcome::No),
    }
}
