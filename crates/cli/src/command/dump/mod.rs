//! `thalweg dump`: values, or part of them.
//!
//! | room | what it owns |
//! |------|--------------|
//! | [`part`] | slices applied to the contents of the file |
//! | [`read`] | values of a part, a stretch of bounded size at a time |
//! | [`table`], [`csv`], [`json`], [`numpy`] | how they are printed |

mod csv;
mod json;
mod numpy;
mod part;
mod read;
mod table;

use crate::arguments::Dump;
use crate::file;
use crate::outcome::{Failure, Outcome};
use crate::terminal::{Terminal, complain};
use part::ResolvedSlice;
use thalweg_reader::Reads;
use thalweg_report::text::count;

pub fn run(arguments: &Dump, out: &mut Terminal) -> Result<Outcome, Failure> {
    let slices = part::parse_all(&arguments.slice)?;
    if arguments.npy.is_some() && slices.len() > 1 {
        return Err(Failure::Usage(format!("--npy writes one array; {} are given", slices.len())));
    }
    let reads = match (arguments.checked, arguments.unchecked) {
        (true, _) => Reads::Checked,
        (_, true) => Reads::Unchecked,
        _ => Reads::Compared,
    };
    let reader = file::open(&arguments.file, Some("reading"))?.with_reads(reads);
    let parts =
        slices.iter().map(|s| ResolvedSlice::find(&reader, s, arguments.fill)).collect::<Result<Vec<_>, _>>()?;
    if arguments.csv {
        csv::print(&reader, &parts, out)?;
    } else if arguments.json {
        json::print(&reader, &parts, out)?;
    } else if let Some(target) = &arguments.npy {
        numpy::write(&reader, &parts[0], target, out)?;
    } else {
        table::print(&reader, &parts, out)?;
    }
    let bare = reader.blocks_without_checksum();
    if bare > 0 {
        let (file, n) = (arguments.file.display(), count(bare, "block"));
        complain("thalweg", &format!("{file}: {n} read unchecked: the library that wrote them makes no checksums"));
    }
    Ok(Outcome::Done)
}
