//! The program `thalweg-convert`: writes files of other formats, with the libraries of these formats.
//!
//! The command `thalweg` plans what is written, and starts this program where a format's library is needed: so `thalweg` itself starts
//! on machines without these libraries.
//!
//! | room | what it owns |
//! |---|---|
//! | [`hdf5`] | HDF5 files from [`thalweg_views::hdf5::Plan`] |
//! | [`library`] | the calls of the HDF5 library, with handles that close themselves |
//!
//! `thalweg-convert hdf5 FILE` writes a file of the plan on standard input (JSON). Exit codes: 0 written, 2 usage, 3 the file can't be
//! written, with the reason on standard error.
#![deny(unsafe_code)]

mod hdf5;
mod library;

use std::process::ExitCode;
use thalweg_types::{Error, ErrorKind, Result};

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let ["hdf5", file] = &words.iter().map(String::as_str).collect::<Vec<_>>()[..] else {
        eprintln!("usage: thalweg-convert hdf5 FILE, with a plan of the command thalweg on standard input");
        return ExitCode::from(2);
    };
    match written(file) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("thalweg-convert: {error}");
            ExitCode::from(3)
        }
    }
}

fn written(file: &str) -> Result<()> {
    let plan = serde_json::from_reader(std::io::BufReader::new(std::io::stdin().lock())).map_err(|e| {
        Error::new(ErrorKind::InvalidArgument, format!("standard input is no plan of this release: {e}"))
    })?;
    hdf5::write(file, &plan)
}
