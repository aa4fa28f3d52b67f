//! The findings of a verification, in their order.

use super::*;

/// The kind of a finding.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum FindingKind {
    /// Bytes after the last valid index or step record: an interrupted output.
    Torn,
    /// A checksum does not match its bytes.
    Checksum,
    /// Bytes violate the format or contradict each other.
    Structure,
    /// An offset or length exceeds its file, or a block exceeds its array.
    OutOfBounds,
    /// The index differs from the process groups.
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
    /// A subfile is missing.
    MissingSubfile,
}

/// A finding.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// Its kind.
    pub kind: FindingKind,
    /// File or subfile.
    pub object: String,
    /// Offset in the file.
    pub byte: Option<u64>,
    /// Step, from 0.
    pub step: Option<u64>,
    /// Variable or attribute.
    pub variable: Option<String>,
    /// Description.
    pub words: String,
}

/// The result of a verification.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Report {
    /// Findings, in their order.
    pub findings: Vec<Finding>,
    /// Number of steps.
    pub steps: u64,
    /// Number of process groups that were checked.
    pub process_groups: u64,
    /// Number of blocks that were checked.
    pub blocks: u64,
    /// Bytes whose checksums were compared.
    pub checked_bytes: u64,
    /// Parts that could not be checked, and why (foreign files have no checksums).
    pub not_checked: Vec<String>,
}

/// Findings beyond this number are counted, not listed.
const MOST: usize = 10_000;

impl Report {
    /// Whether there are no findings.
    pub fn is_clean(&self) -> bool {
        self.findings.is_empty()
    }

    pub(super) fn add(&mut self, finding: Finding) {
        if self.findings.len() < MOST {
            self.findings.push(finding);
        } else if self.findings.len() == MOST {
            self.not_checked.push(format!("findings beyond the first {MOST} are not listed"));
            self.findings.push(finding);
        }
    }

    pub(super) fn add_error(&mut self, kind: FindingKind, object: &str, e: &Error) {
        let place = e.place();
        let mut words = e.what().to_string();
        let mut cause = std::error::Error::source(e);
        while let Some(c) = cause {
            words = format!("{words}: {c}");
            cause = c.source();
        }
        self.add(Finding {
            kind,
            object: place.object.clone().unwrap_or_else(|| object.to_string()),
            byte: place.byte,
            step: place.step,
            variable: place.variable.clone(),
            words,
        });
    }
}

pub(super) fn finding(kind: FindingKind, object: &str, words: impl Into<String>) -> Finding {
    Finding { kind, object: object.to_string(), byte: None, step: None, variable: None, words: words.into() }
}
