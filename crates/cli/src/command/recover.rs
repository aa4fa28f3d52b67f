//! `thalweg recover`: a good index again, every closed step kept.

use crate::arguments::Recover;
use crate::file;
use crate::outcome::{Failure, Outcome};
use crate::terminal::{BAD, GOOD, Terminal, plain};
use std::io::Write;
use thalweg_reader::RecoverOptions;
use thalweg_report::text;

pub fn run(arguments: &Recover, out: &mut Terminal) -> Result<Outcome, Failure> {
    let (layout, name) = file::place(&arguments.file, Some("scanning"))?;
    let options = RecoverOptions { dry_run: arguments.dry_run, keep_partial: arguments.partial };
    let recovery = thalweg_reader::recover(layout.as_ref(), &name, options)?;
    let shown = plain(&arguments.file.display().to_string());
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
