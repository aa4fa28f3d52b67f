//! `thalweg copy`: a file, or parts of it, in other blocks, types and transforms.

use crate::arguments::Copy as Arguments;
use crate::file;
use crate::outcome::{Failure, Outcome};
use crate::progress::Progress;
use crate::terminal::{Terminal, complain, plain};
use serde_json::json;
use signal_hook::consts::{SIGINT, SIGTERM};
use std::io::{IsTerminal, Write, stderr};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use thalweg_copy::copy::Ended;
use thalweg_copy::{Blocks, Choice, Copied, Existing, Options, Pattern, Region, Steps, copy};
use thalweg_reader::{Reader, Wait};
use thalweg_report::text::count;
use thalweg_types::{ElementType, Error};

pub fn run(arguments: &Arguments, out: &mut Terminal) -> Result<Outcome, Failure> {
    let options = options(arguments)?;
    file::not_itself(&arguments.file, &arguments.output, "its copy")?;
    // A program that is followed may begin later.
    let waits = arguments.follow && !arguments.file.exists();
    let (from, source) = match waits {
        true => (thalweg_io::mounts::layout()?, shown(&arguments.file)),
        false => file::place(&arguments.file, None)?,
    };
    let total = match arguments.follow {
        true => 0,
        // Warns about files that were cut off, too.
        false => {
            file::open(&arguments.file, None).map(|reader| if stderr().is_terminal() { values(&reader) } else { 0 })?
        }
    };
    let to = thalweg_io::mounts::layout()?;
    let target = shown(&arguments.output);
    let stop = Arc::new(AtomicBool::new(false));
    if arguments.follow {
        for signal in [SIGINT, SIGTERM] {
            let heard = signal_hook::flag::register(signal, stop.clone());
            heard.map_err(|e| Error::io("cannot listen for signals", e))?;
        }
    }
    let mut bar = Progress::bytes("copying");
    let mut progress = |done: u64| {
        if total > 0 {
            bar.at(done.min(total), total);
        }
    };
    let copied = copy((&from, &source), (&to, &target), &options, &stop, &mut progress)?;
    drop(bar);
    tell(arguments, &copied, out)
}

fn shown(path: &std::path::Path) -> String {
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
    let patterns = |all: &[String]| all.iter().map(|text| Pattern::parse(text)).collect::<Result<Vec<_>, _>>();
    let mut choice = Choice {
        variables: patterns(&arguments.only).map_err(usage)?,
        without: patterns(&arguments.without).map_err(usage)?,
        blocks: blocks(&arguments.blocks)?,
        ..Choice::default()
    };
    if let Some(steps) = &arguments.steps {
        choice.steps = Steps::parse(steps).map_err(usage)?;
    }
    for text in &arguments.regions {
        let (name, region) = Region::parse_of(text).map_err(usage)?;
        choice.regions.push((Pattern::parse(&name).map_err(usage)?, region));
    }
    for text in &arguments.types {
        let (pattern, name) = assigned(text, "--type u=real")?;
        let element = ElementType::parse(name).ok_or_else(|| Failure::Usage(format!("'{text}': no type '{name}'")))?;
        choice.elements.push((pattern, element));
    }
    for text in &arguments.transforms {
        let (pattern, transform) = assigned(text, "--transform u=zlib:5")?;
        if transform != "none" {
            thalweg_copy::choice::check_transform(transform).map_err(usage)?;
        }
        choice.transforms.push((pattern, transform.to_string()));
    }
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
    })
}

/// `PATTERN=VALUE`.
fn assigned<'a>(text: &'a str, like: &str) -> Result<(Pattern, &'a str), Failure> {
    let (pattern, value) = text
        .split_once('=')
        .filter(|(pattern, value)| !pattern.is_empty() && !value.is_empty())
        .ok_or_else(|| Failure::Usage(format!("'{text}' is no assignment; write {like}")))?;
    Ok((Pattern::parse(pattern).map_err(|e| Failure::Usage(e.what().to_string()))?, value))
}

fn blocks(text: &str) -> Result<Blocks, Failure> {
    match text {
        "written" => Ok(Blocks::AsWritten),
        "merged" => Ok(Blocks::Merged),
        grid => {
            let numbers: Option<Vec<u64>> =
                grid.split('x').map(|part| part.parse().ok().filter(|number| *number > 0)).collect();
            numbers.map(Blocks::Grid).ok_or_else(|| {
                Failure::Usage(format!("--blocks {text}: write 'written', 'merged', or numbers from 1 as '4x2'"))
            })
        }
    }
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
        let document = json!({
            "steps": copied.steps,
            "had": copied.had,
            "blocks": copied.blocks,
            "bytes": copied.bytes,
            "not_as_it_was": left_out,
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
        Ended::Whole | Ended::Stopped => Ok(Outcome::Done),
    }
}
