//! Reading an XML document of groups and methods.

use crate::outcome::Failure;
use std::path::Path;
use thalweg_diagnostics::Report;
use thalweg_schema::{Schema, xml};
use thalweg_types::Error;

/// The schema of a document, if its text gives one, and everything that is wrong with it.
///
/// # Errors
/// Those of reads.
pub fn read(path: &Path) -> Result<(Option<Schema>, Report), Failure> {
    let shown = path.display().to_string();
    let bytes = std::fs::read(path).map_err(|e| Error::io(format!("cannot read '{shown}'"), e))?;
    Ok(match xml::decode(&bytes, &shown) {
        Ok(text) => xml::parse_with_warnings(&text, &shown),
        Err(report) => (None, report),
    })
}
