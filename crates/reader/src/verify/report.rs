//! What verifying found, in the order it was found.

use super::*;

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

/// Findings beyond this many are counted, not listed.
const MOST: usize = 10_000;

impl Report {
    /// Whether nothing was found.
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
