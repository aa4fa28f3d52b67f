//! `thalweg config lint`: every mistake of a configuration in one go.

use crate::format::count;
use crate::outcome::{Failure, Outcome};
use crate::terminal::{GOOD, Terminal};
use std::io::Write;
use std::path::Path;
use thalweg_schema::xml;
use thalweg_types::Error;

pub fn lint(path: &Path, out: &mut Terminal) -> Result<Outcome, Failure> {
    let shown = path.display().to_string();
    let bytes = std::fs::read(path).map_err(|e| Error::io(format!("cannot read '{shown}'"), e))?;
    let (schema, mut report) = match xml::decode(&bytes, &shown) {
        Ok(text) => xml::parse_with_warnings(&text, &shown),
        Err(report) => (None, report),
    };
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
