//! `thalweg dump`: values, or part of them, and attributes.
//!
//! | room | what it owns |
//! |------|--------------|
//! | [`part`] | slices applied to the contents of the file |
//! | [`read`] | values of a part, a stretch of bounded size at a time |
//! | [`table`], [`csv`], [`json`], [`numpy`] | how they are printed |

mod csv;
mod json;
mod numpy;
pub(super) mod part;
pub(super) mod read;
mod table;

use super::ls;
use crate::arguments::Dump;
use crate::converter::{replace, unwritten};
use crate::file;
use crate::format;
use crate::outcome::{Failure, Outcome};
use crate::printf::Printf;
use crate::terminal::{Terminal, complain, plain};
use part::{NamedSlice, ResolvedSlice};
use std::io::Write;
use thalweg_reader::{Attribute, Reader, Reads};
use thalweg_report::text::count;
use thalweg_types::Value;

/// How values are printed.
#[derive(Default)]
struct Form {
    /// In this format, not in their shortest exact form.
    format: Option<Printf>,
    /// So many in a line.
    per_line: Option<usize>,
    /// Without names, steps and indices.
    bare: bool,
}

impl Form {
    fn text(&self, value: &Value) -> String {
        match &self.format {
            Some(format) => format.text(value),
            None => format::exact(value),
        }
    }
}

pub fn run(arguments: &Dump, out: &mut Terminal) -> Result<Outcome, Failure> {
    let slices = part::parse_all(&arguments.slice)?;
    if arguments.npy.is_some() && slices.len() > 1 {
        return Err(Failure::Usage(format!("--npy writes one array; {} are given", slices.len())));
    }
    let format = arguments.format.as_deref().map(Printf::parse).transpose().map_err(Failure::Usage)?;
    let form = Form { format, per_line: arguments.per_line, bare: arguments.no_index };
    let reads = match (arguments.checked, arguments.unchecked) {
        (true, _) => Reads::Checked,
        (_, true) => Reads::Unchecked,
        _ => Reads::Compared,
    };
    let reader = file::open(&arguments.file, Some("reading"))?.with_reads(reads);
    let wanted = Wanted::find(&reader, arguments, &slices, &form)?;
    match &arguments.output {
        None => print(&reader, arguments, &wanted, &form, out)?,
        Some(target) => {
            file::not_itself(&arguments.file, target, "its values")?;
            replace(target, |made| {
                let made = made.as_file().try_clone().map_err(|e| unwritten(target, e))?;
                let mut into = Terminal::file(made);
                print(&reader, arguments, &wanted, &form, &mut into)?;
                into.flush().map_err(|e| unwritten(target, e).into())
            })?;
        }
    }
    let bare = reader.blocks_without_checksum();
    if bare > 0 {
        let (file, n) = (arguments.file.display(), count(bare, "block"));
        complain("thalweg", &format!("{file}: {n} read unchecked: the library that wrote them makes no checksums"));
    }
    Ok(Outcome::Done)
}

/// What is printed.
struct Wanted {
    parts: Vec<ResolvedSlice>,
    attributes: Vec<Attribute>,
}

impl Wanted {
    fn find(reader: &Reader, arguments: &Dump, slices: &[NamedSlice], form: &Form) -> Result<Wanted, Failure> {
        let mut wanted = Wanted { parts: Vec::new(), attributes: Vec::new() };
        for slice in slices {
            match slice.attribute(reader) {
                Some(name) => wanted.attributes.push(reader.attribute(name)?),
                None => wanted.parts.push(ResolvedSlice::find(reader, slice, arguments.fill)?),
            }
        }
        if arguments.attributes {
            for head in reader.attributes() {
                let is_of_part = wanted.parts.iter().any(|part| file::is_below(&head.name, &part.variable.name));
                let is_there = wanted.attributes.iter().any(|a| a.name == head.name);
                if (is_of_part || slices.is_empty()) && !is_there {
                    let attribute = reader.attribute(&head.name)?;
                    wanted.attributes.extend(Some(attribute).filter(|a| !a.internal));
                }
            }
        }
        if (arguments.csv || arguments.npy.is_some()) && !wanted.attributes.is_empty() {
            let what = "attributes are printed as a table, or with --json; --csv and --npy are for variables";
            return Err(Failure::Usage(what.into()));
        }
        for part in &wanted.parts {
            if let Some(format) = &form.format {
                let name = plain(&part.variable.name);
                format.check(part.variable.element).map_err(|why| Failure::Usage(format!("'{name}': {why}")))?;
            }
        }
        if wanted.parts.is_empty() && wanted.attributes.is_empty() {
            return Err(Failure::Absent("the file has no attributes".into()));
        }
        Ok(wanted)
    }
}

fn print(reader: &Reader, arguments: &Dump, wanted: &Wanted, form: &Form, out: &mut Terminal) -> Result<(), Failure> {
    let Wanted { parts, attributes } = wanted;
    if arguments.csv {
        csv::print(reader, parts, form, out)
    } else if arguments.json {
        let shown = arguments.attributes || !attributes.is_empty();
        json::print(reader, parts, shown.then_some(&attributes[..]), out)
    } else if let Some(target) = &arguments.npy {
        numpy::write(reader, &parts[0], target, out)
    } else {
        table::print(reader, parts, form, out)?;
        if form.bare {
            return attributes.iter().try_for_each(|a| Ok(writeln!(out, "{}", format::attribute(&a.value))?));
        }
        ls::print_attributes(attributes, !parts.is_empty(), out)
    }
}
