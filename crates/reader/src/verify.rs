//! Verify.

use thalweg_layout::Layout;
use thalweg_types::{Extent, Result};

/// What sort of finding it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum FindingKind {
    /// Bytes behind the last index or step record that checks: an output that was cut off.
    Torn,
    /// A checksum does not match its bytes.
    Checksum,
    /// Bytes of the format are none, or contradict each other.
    Structure,
    /// An offset or length leaves its file, or a block its array.
    OutOfBounds,
    /// The index says other than the process groups.
    IndexDiffers,
    /// Blocks of a step disagree on the shape of their array.
    Shape,
    /// The type differs between index and process group.
    Type,
    /// Blocks of a global array share elements.
    Overlap,
    /// Elements of a global array that no block covers.
    Gap,
    /// A step was closed although a rank failed.
    Partial,
    /// A subfile is not there.
    MissingSubfile,
}

/// One thing that is not as it should be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// What sort.
    pub kind: FindingKind,
    /// File or subfile.
    pub object: String,
    /// Byte in it.
    pub byte: Option<u64>,
    /// Step, from 0.
    pub step: Option<u64>,
    /// Variable or attribute.
    pub variable: Option<String>,
    /// In words.
    pub words: String,
}

/// What verifying found, and how much it looked at.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Report {
    /// What is not as it should be, in the order it was found.
    pub findings: Vec<Finding>,
    /// Steps.
    pub steps: u64,
    /// Process groups looked at.
    pub process_groups: u64,
    /// Blocks looked at.
    pub blocks: u64,
    /// Bytes whose checksums were compared.
    pub checked_bytes: u64,
    /// What could not be checked, and why (foreign files have no checksums).
    pub not_checked: Vec<String>,
}

/// Checks a file and its subfiles.
pub fn verify(layout: &dyn Layout, path: &str) -> Result<Report> {
    let _ = (layout, path);
    todo!()
}

/// The bytes of each object that readers, `verify` and `recover` use; all others are dead (superseded indexes, padding).
pub fn live_extents(layout: &dyn Layout, path: &str) -> Result<Vec<(String, Vec<Extent>)>> {
    let _ = (layout, path);
    todo!()
}
