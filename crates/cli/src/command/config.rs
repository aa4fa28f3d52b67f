//! `thalweg config`: all errors of a configuration, or of the mount table, in one report.

use crate::document;
use crate::outcome::{Failure, Outcome};
use crate::terminal::{BAD, GOOD, Terminal};
use std::io::Write;
use std::path::Path;
use thalweg_io::mounts;
use thalweg_report::text::count;
use thalweg_types::Error;

pub fn lint(path: &Path, out: &mut Terminal) -> Result<Outcome, Failure> {
    let shown = path.display().to_string();
    let (schema, mut report) = document::read(path)?;
    if let Some(schema) = &schema {
        // Names of methods and their parameters are known where methods are made.
        thalweg_io::registry::lint(schema, &mut report);
    }
    write!(out, "{}", report.render(out.color()))?;
    let Some(schema) = schema.filter(|_| report.errors() == 0) else { return Ok(Outcome::No) };
    out.styled(GOOD, "no errors")?;
    let (groups, methods) = (schema.groups.len() as u64, schema.methods.len() as u64);
    writeln!(out, " in {shown}: {}, {}", count(groups, "group"), count(methods, "method"))?;
    Ok(Outcome::Done)
}

pub fn check(file: Option<&Path>, out: &mut Terminal) -> Result<Outcome, Failure> {
    let files = match file {
        Some(file) => vec![file.to_path_buf()],
        None => mounts::files()?,
    };
    if files.is_empty() {
        writeln!(out, "no mount table: every path is a plain file")?;
        return Ok(Outcome::Done);
    }
    let mut wrong = 0;
    for path in &files {
        let shown = path.display().to_string();
        let text = std::fs::read_to_string(path).map_err(|e| Error::io(format!("cannot read '{shown}'"), e))?;
        let checked = mounts::check(&text, &shown);
        write!(out, "{}", checked.report.render(out.color()))?;
        wrong += checked.report.errors();
        for (entry, mount) in &checked.mounts {
            match mount.answering() {
                Ok(layout) => {
                    out.styled(GOOD, "works")?;
                    writeln!(out, "  {}  {}", entry.path, layout.describe())?;
                }
                Err(why) => {
                    wrong += 1;
                    out.styled(BAD, "fails")?;
                    writeln!(out, "  {}  {why}", entry.path)?;
                }
            }
        }
    }
    Ok(if wrong == 0 { Outcome::Done } else { Outcome::No })
}
