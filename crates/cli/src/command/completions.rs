//! `thalweg completions`: shell completions of the command line.

use crate::arguments::{Arguments, Completions};
use crate::outcome::{Failure, Outcome};
use crate::terminal::Terminal;
use clap::CommandFactory;
use std::io::Write;

pub fn run(arguments: &Completions, out: &mut Terminal) -> Result<Outcome, Failure> {
    let mut script = Vec::new();
    clap_complete::generate(arguments.shell, &mut Arguments::command(), "thalweg", &mut script);
    out.write_all(&script)?;
    Ok(Outcome::Done)
}
