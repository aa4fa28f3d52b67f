//! The program `thalweg-convert`: reads and writes files of other formats, with the libraries of these formats.
//!
//! The command `thalweg` plans what is written, and starts this program where a format's library is needed: so `thalweg` itself starts
//! on machines without these libraries.
//!
//! | room | what it owns |
//! |---|---|
//! | [`hdf5`] | HDF5 files from [`thalweg_views::hdf5::Plan`], and HDF5 files as steps of a BP file |
//! | [`library`] | the calls of the HDF5 library, with handles that close themselves |
//! | [`values`] | values of a BP file for the parts of a plan |
//!
//! `thalweg-convert hdf5 FILE` writes a file of the plan on standard input (JSON). `thalweg-convert convert` carries out the
//! [`thalweg_convert::Request`] on standard input. Exit codes: 0 written, 2 usage, 3 a file can't be read or written, with the reason on
//! standard error.
#![deny(unsafe_code)]

mod hdf5;
mod library;
mod values;

use hdf5::comparing::How;
use serde::de::DeserializeOwned;
use std::io::Write;
use std::process::ExitCode;
use std::sync::Mutex;
use thalweg_convert::{Message, Request, Task};
use thalweg_diff::Tolerance;
use thalweg_types::{Error, ErrorKind, Result};

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let done = match &words.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["hdf5", file] => input().and_then(|plan| hdf5::writing::write(file, &plan, None)),
        ["convert"] => input().and_then(|request| convert(&request)),
        _ => {
            eprintln!("usage: thalweg-convert hdf5 FILE, or thalweg-convert convert, as the command thalweg starts it");
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
        Task::BpToHdf5 { chunks } => Message::End(hdf5::writing::convert(request, chunks, &say)?),
        Task::Hdf5ToBp { steps_along, method, parameters } => {
            Message::End(hdf5::reading::convert(request, steps_along.as_deref(), (method, parameters), &say)?)
        }
        Task::BpBesideHdf5 { absolute, relative, attributes } => {
            let how =
                How { tolerance: Tolerance { absolute: *absolute, relative: *relative }, attributes: *attributes };
            Message::Compared(hdf5::comparing::compare(request, &how, &say)?)
        }
    };
    say(ended);
    Ok(())
}
