//! `thalweg recover`: repairs the index of a file that was cut off; keeps every closed step.

use crate::arguments::Recover;
use crate::file;
use crate::outcome::{Failure, Outcome};
use crate::several;
use crate::terminal::{BAD, GOOD, Terminal, plain};
use std::io::Write;
use std::path::Path;
use thalweg_io::mounts;
use thalweg_reader::RecoverOptions;
use thalweg_reader::writers::check_no_writer;
use thalweg_report::text;
use thalweg_types::ErrorKind;

pub fn run(arguments: &Recover, out: &mut Terminal) -> Result<Outcome, Failure> {
    several::each(&arguments.file, false, out, &mut |file, out| repair(arguments, file, out))
}

fn repair(arguments: &Recover, path: &Path, out: &mut Terminal) -> Result<Outcome, Failure> {
    let (layout, name) = file::place(path, Some("scanning"))?;
    let options = RecoverOptions {
        dry_run: arguments.dry_run,
        keep_partial: arguments.partial,
        even_if_written: arguments.even_if_written,
    };
    let unwritten = || match arguments.even_if_written {
        true => Ok(()),
        false if file::is_url(path) => check_no_writer(layout.as_ref(), &name),
        false => mounts::of_process()?.place(&name).and_then(|place| check_no_writer(&**place.layout, &place.name)),
    };
    // The layout of a mount knows more about writers than the layout of all mounts shows.
    let recovery = unwritten().and_then(|()| thalweg_reader::recover(layout.as_ref(), &name, options));
    let recovery = recovery.map_err(|e| match e.kind() {
        ErrorKind::NotReady => e.safe(
            "nothing was changed; once the writer has ended, `thalweg recover --even-if-written` skips this check",
        ),
        _ => e,
    })?;
    let shown = plain(&path.display().to_string());
    for action in &recovery.actions {
        writeln!(out, "{}{}", if arguments.dry_run { "would: " } else { "" }, plain(action))?;
    }
    if !recovery.dropped.is_empty() {
        let steps = text::steps(&recovery.dropped);
        let hint = if arguments.partial { "" } else { " (--partial indexes them)" };
        writeln!(
            out,
            "not indexed: whole process groups of steps that were not closed, which stay in the file: {steps}{hint}"
        )?;
    }
    if recovery.steps == 0 {
        out.styled(BAD, "nothing to recover")?;
        writeln!(out, ": {shown} has no whole step")?;
        return Ok(Outcome::No);
    }
    let state = match (recovery.changed, arguments.dry_run) {
        (false, _) => "nothing to do",
        (true, true) => "can be recovered",
        (true, false) => "recovered",
    };
    out.styled(GOOD, state)?;
    writeln!(out, ": {shown} with {}", text::count(recovery.steps, "step"))?;
    Ok(Outcome::Done)
}
