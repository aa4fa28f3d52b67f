//! Views that a session makes itself, of files that it has closed for good.
//!
//! | question | answer |
//! |---|---|
//! | of which files | BP files of groups with `schema="openPMD"` |
//! | who makes them | rank 0 of the file's outputs, in `finalize`; from the index alone |
//! | where | beside the file ([`thalweg_views::openpmd::file`]) |
//! | on failure | a warning: the file is whole without its view |
//!
//! Source: `docs/decisions/0097-openpmd-through-a-list-of-blocks.md`.

use std::path::Path;
use std::sync::Arc;
use thalweg_layout::Layout;
use thalweg_reader::Reader;
use thalweg_types::{Error, ErrorKind, Result};
use thalweg_views::openpmd::{file, view};

/// Makes the view of a file for openPMD. Returns what it does not show, as sentences.
///
/// # Errors
/// `Unsupported` if the file is on a mount; `NotFound` if it is not there, or not yet, as with method `STAGING`; errors of [`view::view`]
/// and [`file::write`].
pub(crate) fn openpmd(layout: &Arc<dyn Layout>, path: &str) -> Result<Vec<String>> {
    let Some(plain) = layout.plain_file(path) else {
        return Err(Error::new(ErrorKind::Unsupported, "programs of openPMD do not find files of a mount"));
    };
    let made = view::view(&Reader::open(layout.clone(), path)?)?;
    file::write(&made, &file::beside(Path::new(&plain)))?;
    let told = |left: thalweg_views::LeftOut| format!("{path}: openPMD does not show {}: {}", left.name, left.why);
    Ok(made.left_out.into_iter().map(told).collect())
}
