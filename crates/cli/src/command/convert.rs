//! `thalweg convert`: BP files as files of other formats, and the other way round.

use crate::arguments::Convert as Arguments;
use crate::converter::{Program, SAFE, replace, replace_folder};
use crate::file;
use crate::outcome::{Failure, Outcome};
use crate::progress::Progress;
use crate::terminal::{Terminal, complain, plain};
use serde_json::json;
use std::ffi::OsStr;
use std::io::Write;
use std::path::Path;
use thalweg_convert::{Converted, Format, LeftOut, Message, Request, Task, format};
use thalweg_report::text::count;
use thalweg_types::{Error, ErrorKind};

pub fn run(arguments: &Arguments, out: &mut Terminal) -> Result<Outcome, Failure> {
    let Arguments { file: source, output: target, .. } = arguments;
    let (from, to) = (of(source)?, of(target)?);
    let task = task(arguments, from, to)?;
    let chosen = arguments.chosen.written(arguments.blocks.clone());
    // The other program would say it in its own name.
    chosen.parse().map_err(|e| Failure::Usage(e.what().to_string()))?;
    file::not_itself(source, target, "its conversion")?;
    let text = |path: &Path| {
        let none = || Failure::Usage(format!("'{}' is no UTF-8 text", path.display()));
        path.to_str().map(str::to_string).ok_or_else(none)
    };
    let (own, other) = (text(source)?, text(target)?);
    let is_there = match to {
        Format::Bp => match thalweg_io::mounts::layout()?.stat(&other) {
            Err(e) if e.kind() == ErrorKind::NotFound => false,
            there => there.map(|_| true)?,
        },
        Format::Hdf5 | Format::Zarr | Format::Csv | Format::Parquet => target.symlink_metadata().is_ok(),
    };
    if is_there && !arguments.force {
        return Err(Error::new(ErrorKind::AlreadyExists, "it is there already: --force replaces it")
            .in_object(other)
            .into());
    }
    // What the libraries of other formats open is no file of a mount.
    for (path, _) in [(&own, from), (&other, to)].iter().filter(|(_, format)| *format != Format::Bp) {
        if thalweg_io::mounts::of_process()?.place(path)?.mount.is_some() {
            let what = "files of other formats are read and written in folders of the system, and this is a mount";
            return Err(Error::new(ErrorKind::Unsupported, what).in_object(path.as_str()).into());
        }
    }
    match from {
        // Says what is wrong with it, and warns of what was cut off.
        Format::Bp => drop(file::open(source, None)?),
        Format::Hdf5 | Format::Zarr | Format::Csv | Format::Parquet => {
            source.metadata().map_err(|e| Error::io(format!("cannot open '{own}'"), e))?;
        }
    }
    let request = Request { source: own, shown: other.clone(), target: other, chosen, memory: arguments.memory, task };
    let converted = match to {
        Format::Bp => perform(&request, target)?,
        Format::Hdf5 | Format::Csv | Format::Parquet => {
            let mut converted = Converted::default();
            replace(target, |made| {
                let made = text(made.path())?;
                converted = perform(&Request { target: made, ..request.clone() }, target)?;
                Ok(())
            })?;
            converted
        }
        Format::Zarr => {
            let mut converted = Converted::default();
            replace_folder(target, |made| {
                converted = perform(&Request { target: text(made)?, ..request.clone() }, target)?;
                Ok(())
            })?;
            converted
        }
    };
    tell(arguments, &converted, out)
}

fn of(path: &Path) -> Result<Format, Failure> {
    Format::of(path).ok_or_else(|| {
        let known: Vec<String> = format::ENDINGS.iter().map(|(ending, _)| format!(".{ending}")).collect();
        Failure::Usage(format!("the name '{}' says no format; known endings are {}", path.display(), known.join(" ")))
    })
}

/// From what to what, if the options fit.
fn task(arguments: &Arguments, from: Format, to: Format) -> Result<Task, Failure> {
    let unfit = |options: &[(&str, bool)], why: &str| {
        let given = options.iter().find(|(_, is_given)| *is_given);
        given.map_or(Ok(()), |(option, _)| Err(Failure::Usage(format!("{option} is for {why}"))))
    };
    match (from, to) {
        (from, _) if from.is_table() => {
            Err(Failure::Usage("tables are written and not read: their rows have no shapes and steps".into()))
        }
        (Format::Bp, to) if to.is_table() && !arguments.chunks.is_empty() => {
            Err(Failure::Usage("--chunks is for HDF5 and Zarr files that are written".into()))
        }
        (Format::Bp, Format::Bp) => Err(Failure::Usage("both files are BP: thalweg copy does this".into())),
        (Format::Bp, to) => {
            let options = [
                ("--steps-along", arguments.steps_along.is_some()),
                ("--blocks", arguments.blocks.is_some()),
                ("--method", arguments.method.is_some()),
            ];
            unfit(&options, "BP files that are written")?;
            Ok(Task::FromBp { to, chunks: arguments.chunks.clone() })
        }
        (from, Format::Bp) => {
            unfit(&[("--chunks", !arguments.chunks.is_empty())], "HDF5 and Zarr files that are written")?;
            let method = arguments.method.as_deref().unwrap_or("MPI");
            let (method, parameters) = method.split_once(';').unwrap_or((method, ""));
            let (method, parameters) = (method.to_string(), parameters.to_string());
            Ok(Task::ToBp { from, steps_along: arguments.steps_along.clone(), method, parameters })
        }
        (Format::Hdf5, Format::Hdf5) => Err(Failure::Usage("neither file is BP: h5repack and nccopy do this".into())),
        (_, _) => Err(Failure::Usage("neither file is BP: convert the one to BP, and this to the other".into())),
    }
}

/// Lets the other program do it, with a progress bar.
fn perform(request: &Request, target: &Path) -> Result<Converted, Failure> {
    let mut bar = Progress::bytes("converting");
    let (mut total, mut converted) = (0, None);
    // A BP file is written under its name.
    let safe = match &request.task {
        Task::ToBp { .. } => "the source, and the steps of the target that are whole",
        Task::FromBp { .. } | Task::Beside { .. } => SAFE,
    };
    Program::start("files of other formats are converted", &[OsStr::new("convert")], target, safe)?.ask(
        request,
        &mut |line| match serde_json::from_str(line) {
            Ok(Message::Total(bytes)) => total = bytes,
            Ok(Message::Done(done)) if total > 0 => bar.at(done.min(total), total),
            Ok(Message::End(all)) => converted = Some(all),
            Ok(Message::Done(_) | Message::Differs(_) | Message::Compared(_)) | Err(_) => {}
        },
    )?;
    let unsaid = || Error::new(ErrorKind::Io, "thalweg-convert is of another release: it did not say what it has done");
    Ok(converted.ok_or_else(unsaid)?)
}

fn tell(arguments: &Arguments, converted: &Converted, out: &mut Terminal) -> Result<Outcome, Failure> {
    for LeftOut { name, why } in &converted.left_out {
        complain("thalweg", &format!("not as it was: {}: {}", plain(name), plain(why)));
    }
    for pattern in &converted.unknown {
        complain("thalweg", &format!("no variable fits '{}'", plain(pattern)));
    }
    let Converted { variables, steps, bytes, left_out, .. } = converted;
    if arguments.json {
        let left_out: Vec<_> = left_out.iter().map(|left| json!({"name": left.name, "why": left.why})).collect();
        let document = json!({"variables": variables, "steps": steps, "bytes": bytes, "not_as_it_was": left_out});
        writeln!(out, "{document:#}")?;
    } else {
        let shown = plain(&arguments.output.display().to_string()).to_string();
        writeln!(
            out,
            "{shown}: {}, {}, {}",
            count(*variables, "variable"),
            count(*steps, "step"),
            count(*bytes, "byte")
        )?;
    }
    if *variables == 0 {
        complain("thalweg", "nothing was converted");
        return Ok(Outcome::No);
    }
    Ok(Outcome::Done)
}
