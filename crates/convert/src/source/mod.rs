//! Files of other formats that are read.
//!
//! | room | what it owns |
//! |---|---|
//! | [`found`] | what a file has |
//! | [`steps`] | which axes of a file are steps; pure |
//! | [`to_bp`] | a file as steps of a BP file |
//! | [`beside`] | a BP file beside a file of another format |

pub mod beside;
pub mod found;
pub mod steps;
pub mod to_bp;

use found::{Content, Found};
use thalweg_convert::Format;
use thalweg_types::{Error, ErrorKind, Result};

/// A file of another format that is open. It is used by the thread that has opened it.
pub trait Source {
    /// What it has.
    fn content(&self) -> &Content;

    /// Reads every `stride`-th element of a box of numbers, or texts of a fixed length, in this machine's byte order.
    ///
    /// - `offset`, `stride`, `count`: one number for each axis, slowest first; inside the array.
    ///
    /// # Errors
    /// `Io` with the library's reason.
    fn read(&self, found: &Found, offset: &[u64], stride: &[u64], count: &[u64]) -> Result<Vec<u8>>;
}

/// Opens a file.
///
/// # Errors
/// `Io` with the library's reason; `Unsupported` for formats that are not read here.
pub fn open(path: &str, format: Format) -> Result<Box<dyn Source>> {
    let source: Result<Box<dyn Source>> = match format {
        Format::Hdf5 => crate::hdf5::reading::Hdf5::open(path).map(|open| Box::new(open) as Box<dyn Source>),
        Format::Zarr => crate::zarr::reading::Zarr::open(path).map(|open| Box::new(open) as Box<dyn Source>),
        Format::Bp => Err(Error::new(ErrorKind::Unsupported, "a BP file is no file of another format")),
        Format::Csv | Format::Parquet => Err(Error::new(ErrorKind::Unsupported, "tables are written and not read")),
    };
    source.map_err(|e| e.in_object(path))
}
