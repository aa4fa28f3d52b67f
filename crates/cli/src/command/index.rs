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
    // Through links too: the data must never be overwritten by its own index.
    if let (Ok(a), Ok(b)) = (arguments.file.canonicalize(), target.canonicalize())
        && a == b
    {
        return Err(Failure::Usage(format!("'{shown}' is the file itself; give another file for its index")));
    }
    let (layout, name) = file::place(&arguments.file, Some("reading the index"))?;
    let bytes = thalweg_reader::index_only(layout.as_ref(), &name)?;
    std::fs::write(target, &bytes).map_err(|e| Error::io(format!("cannot write '{shown}'"), e))?;
    let of = plain(&arguments.file.display().to_string());
    writeln!(out, "{}: the index of {of}, {}", plain(&shown), count(bytes.len() as u64, "byte"))?;
    Ok(Outcome::Done)
}
