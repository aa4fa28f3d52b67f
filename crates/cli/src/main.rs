//! The `thalweg` command: lists, prints, searches, checks and repairs files of simulation output.
//!
//! | room | what it owns |
//! |------|--------------|
//! | [`arguments`] | the command line as data: parser, help, completions |
//! | [`command`] | one room per command |
//! | [`mod@slice`] | `var[step, a:b, :]` |
//! | [`mod@format`] | values, shapes and boxes as text and JSON |
//! | [`npy`] | NumPy files |
//! | [`mod@file`] | opens files; warns about files that were cut off |
//! | [`following`] | waits for the steps of a running program |
//! | [`several`] | commands on several files |
//! | [`printf`] | values in the format of `printf` |
//! | [`tune`] | methods tried on the storage at hand |
//! | [`installed`] | where an installation keeps its libraries |
//! | [`version`] | what this build is |
//! | [`detached`] | commands that go on when what started them has ended |
//! | [`terminal`], [`progress`] | colours, width and bars, on a terminal only |
//! | [`outcome`] | exit codes |
//!
//! Results go to standard output, remarks to standard error. Exit codes are in `docs/guide/command-line.md`.
#![forbid(unsafe_code)]

mod arguments;
mod command;
mod converter;
mod detached;
mod document;
mod file;
mod following;
mod format;
mod installed;
mod npy;
mod outcome;
mod printf;
mod progress;
mod several;
mod slice;
mod terminal;
mod tune;
mod version;
mod writers;

use arguments::{Arguments, Command, Config, View};
use clap::Parser;
use clap::error::ErrorKind;
use outcome::{Failure, Outcome};
use std::io::Write;
use std::process::ExitCode;
use terminal::Terminal;

fn main() -> ExitCode {
    thalweg_warnings::listen();
    let mut out = Terminal::stdout();
    let asked = match Arguments::try_parse() {
        Ok(arguments) => run(&arguments.command, &mut out),
        Err(other) if other.kind() == ErrorKind::DisplayVersion => {
            version::print(&mut out).map(|()| Outcome::Done).map_err(Failure::from)
        }
        Err(other) => other.exit(),
    };
    let ended = asked.and_then(|outcome| {
        out.flush()?;
        Ok(outcome)
    });
    let finished = thalweg_io::mounts::finish();
    let failure = match ended.and_then(|outcome| Ok(finished.map(|()| outcome)?)) {
        Ok(outcome) => return ExitCode::from(outcome.code()),
        Err(failure) => failure,
    };
    if !matches!(failure, Failure::Pipe | Failure::Told) {
        // The output so far is printed before the reason of the failure.
        let _ = out.flush();
        terminal::complain("thalweg", &failure.to_string());
    }
    ExitCode::from(failure.code())
}

fn run(command: &Command, out: &mut Terminal) -> Result<Outcome, Failure> {
    match command {
        Command::Ls(a) => command::ls::run(a, out),
        Command::Dump(a) => command::dump::run(a, out),
        Command::Plot(a) => command::plot::run(a, out),
        Command::Watch(a) => command::watch::run(a, out),
        Command::Find(a) => command::find::run(a, out),
        Command::Verify(a) => command::verify::run(a, out),
        Command::Recover(a) => command::recover::run(a, out),
        Command::Stat(a) => command::stat::run(a, out),
        Command::Index(a) => command::index::run(a, out),
        Command::Convert(a) => command::convert::run(a, out),
        Command::Copy(a) => command::copy::run(a, out),
        Command::Diff(a) => command::diff::run(a, out),
        Command::View(View::Zarr(a)) => command::view::zarr(a, out),
        Command::View(View::Hdf5(a)) => command::view::hdf5(a, out),
        Command::View(View::Vtk(a)) => command::view::vtk(a, out),
        Command::View(View::Openpmd(a)) => command::view::openpmd(a, out),
        Command::Config(Config::Lint { file }) => command::config::lint(file, out),
        Command::Mount(a) => command::mount::run(a, out),
        Command::Partition(a) => command::partition::run(a, out),
        Command::Unmount(a) => command::mount::end(a),
        Command::Control(a) => command::control::run(a, out),
        Command::Drain(a) => command::drain::run(a, out),
        Command::Config(Config::Check { file }) => command::config::check(file.as_deref(), out),
        Command::Layout(a) => command::layout::run(a, out),
        Command::Gen(a) => command::generate::run(a, out),
        Command::Run(a) => command::run::run(a),
        Command::Profile(a) => command::profile::run(a, out),
        Command::Sim(a) => command::sim::run(a, out),
        Command::Tune(a) => command::tune::run(a, out),
        Command::Help(a) => command::help::run(a, out),
        Command::Env(a) => command::env::run(a, out),
        Command::Completions(a) => command::completions::run(a, out),
        Command::Man(a) => command::man::run(a),
        Command::Viewers(a) => command::viewers::run(a),
        Command::FunctionHost(a) => {
            thalweg_functions::host::run(a.library.as_os_str(), &a.function)?;
            Ok(Outcome::Done)
        }
    }
}
