//! `thalweg index`: the index alone, as a small file.

use crate::arguments::Index;
use crate::file;
use crate::outcome::{Failure, Outcome};
use crate::terminal::{Terminal, plain};
use std::io::Write;
use thalweg_report::text::count;
use thalweg_types::Error;

pub fn run(arguments: &Index, out: &mut Terminal) -> Result<Outcome, Failure> {
    let target = &arguments.output;
    let shown = target.display().to_string();
    file::not_itself(&arguments.file, target, "its index")?;
    let (layout, name) = file::place(&arguments.file, Some("reading the index"))?;
    let bytes = thalweg_reader::index_only(layout.as_ref(), &name)?;
    std::fs::write(target, &bytes).map_err(|e| Error::io(format!("cannot write '{shown}'"), e))?;
    let of = plain(&arguments.file.display().to_string());
    writeln!(out, "{}: the index of {of}, {}", plain(&shown), count(bytes.len() as u64, "byte"))?;
    Ok(Outcome::Done)
}
