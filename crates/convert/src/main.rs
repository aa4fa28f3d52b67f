//! The program `thalweg-convert`: reads and writes files of other formats, with the libraries of these formats.
//!
//! The command `thalweg` plans what is written, and starts this program where a format's library is needed: so `thalweg` itself starts
//! on machines without these libraries.
//!
//! | room | what it owns |
//! |---|---|
//! | [`hdf5`] | HDF5 files from [`thalweg_views::hdf5::Plan`], and as sources |
//! | [`references`] | tables of references for Zarr, as Parquet files |
//! | [`library`] | the calls of the HDF5 library, with handles that close themselves |
//! | [`zarr`] | Zarr folders, written and as sources |
//! | [`source`] | files of other formats as steps of a BP file, and beside one |
//! | [`table`] | variables as columns of CSV and Parquet files |
//! | [`values`] | values of a BP file for the parts of a plan |
//!
//! `thalweg-convert hdf5 FILE NAME` writes a file of the plan on standard input (JSON), which will have this name. `thalweg-convert convert` carries out the
//! [`thalweg_convert::Request`] on standard input. `thalweg-convert output` answers the questions of [`thalweg_io::hdf5::protocol`] for a program with an output of methods `PHDF5` and `NC4`. `thalweg-convert references` writes the folders of
//! [`thalweg_convert::InFolder`]. Exit codes: 0 written, 2 usage, 3 a file can't be read or written, with the reason on
//! standard error.
#![deny(unsafe_code)]

mod hdf5;
mod library;
mod references;
mod source;
mod table;
mod values;
mod zarr;

use serde::de::DeserializeOwned;
use source::beside::How;
use std::io::Write;
use std::process::ExitCode;
use std::sync::Mutex;
use thalweg_convert::{Format, Message, Request, Task};
use thalweg_diff::Tolerance;
use thalweg_types::{Error, ErrorKind, Result};

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let done = match &words.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["hdf5", file, shown] => {
            let written = input().and_then(|plan| hdf5::writing::write(file, &plan, None));
            written.map_err(|e| e.in_object(*shown).safe("the data, and an earlier file of this name"))
        }
        ["output"] => hdf5::output::serve(),
        ["references"] => references::serve().map_err(|e| e.safe("the data")),
        ["convert"] => input().and_then(|request: Request| convert(&request).map_err(|e| e.in_object(request.shown))),
        _ => {
            eprintln!(
                "usage: thalweg-convert hdf5 FILE NAME, thalweg-convert convert, thalweg-convert output or thalweg-convert references, as thalweg starts it"
            );
            return ExitCode::from(2);
        }
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // Users have started the command.
            eprintln!("thalweg: {error}");
            ExitCode::from(3)
        }
    }
}

/// What stands on standard input.
fn input<T: DeserializeOwned>() -> Result<T> {
    serde_json::from_reader(std::io::BufReader::new(std::io::stdin().lock()))
        .map_err(|e| Error::new(ErrorKind::InvalidArgument, format!("standard input is nothing of this release: {e}")))
}

fn convert(request: &Request) -> Result<()> {
    let told = Mutex::new(std::io::stdout());
    // Who does not listen does not stop the conversion.
    let say = |message: Message| {
        if let (Ok(text), Ok(mut out)) = (serde_json::to_string(&message), told.lock()) {
            let _ = writeln!(out, "{text}").and_then(|()| out.flush());
        }
    };
    let ended = match &request.task {
        Task::FromBp { to: Format::Zarr, chunks } => {
            let converted = zarr::writing::convert(request, chunks, &say);
            Message::End(converted.map_err(|e| e.safe("the source, and an earlier folder of the target's name"))?)
        }
        Task::FromBp { to, .. } if to.is_table() => {
            let converted = table::convert(request, *to, &say);
            Message::End(converted.map_err(|e| e.safe("the source, and an earlier file of the target's name"))?)
        }
        Task::FromBp { chunks, .. } => Message::End(hdf5::writing::convert(request, chunks, &say)?),
        Task::ToBp { from, steps_along, method, parameters } => {
            let method = (method.as_str(), parameters.as_str());
            Message::End(source::to_bp::convert(request, *from, steps_along.as_deref(), method, &say)?)
        }
        Task::Beside { other, absolute, relative, attributes } => {
            let how =
                How { tolerance: Tolerance { absolute: *absolute, relative: *relative }, attributes: *attributes };
            Message::Compared(source::beside::compare(request, *other, &how, &say)?)
        }
    };
    say(ended);
    Ok(())
}
