//! `thalweg man`: manual pages of the command line, one for each command. Packages and `./dev install` call it.

use crate::arguments::{Arguments, Man};
use crate::outcome::{Failure, Outcome};
use clap::CommandFactory;
use std::io;
use std::path::Path;
use thalweg_types::Error;

pub fn run(arguments: &Man) -> Result<Outcome, Failure> {
    let folder = &arguments.folder;
    let failed = |e| Failure::File(Error::io("cannot write manual pages", e).in_object(folder.display().to_string()));
    std::fs::create_dir_all(folder).map_err(failed)?;
    let mut all = Arguments::command();
    all.build();
    write(all, folder).map_err(failed)?;
    Ok(Outcome::Done)
}

/// The page of a command, and those of the commands below it.
fn write(command: clap::Command, folder: &Path) -> io::Result<()> {
    for below in command.get_subcommands().filter(|below| !below.is_hide_set()) {
        write(below.clone(), folder)?;
    }
    let page = clap_mangen::Man::new(command).source(concat!("thalweg ", env!("CARGO_PKG_VERSION"))).manual("Thalweg");
    let mut text = Vec::new();
    page.render(&mut text)?;
    // Examples and tables keep their lines.
    let text = String::from_utf8_lossy(&text).replacen(".SH EXTRA\n", ".SH NOTES\n.nf\n", 1).replacen(
        ".SH VERSION\n",
        ".fi\n.SH VERSION\n",
        1,
    );
    std::fs::write(folder.join(page.get_filename()), text)
}
