//! Summary of a file.

use thalweg_types::{ByteOrder, ErrorKind};

/// A step that was closed although a rank's process group is missing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Partial {
    /// Step, from 0.
    pub step: u64,
    /// The rank that failed.
    pub rank: u32,
    /// The kind of its failure.
    pub kind: ErrorKind,
}

/// Summary of a file, from its last bytes alone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Status {
    /// Number of steps: one more than the last step.
    pub steps: u64,
    /// Closed for good: no step will come.
    pub finished: bool,
    /// Bytes behind the last valid index or step record: an output that was cut off, or is in flight.
    pub torn_bytes: u64,
    /// Steps that lack process groups.
    pub partial: Vec<Partial>,
    /// Groups, in order of first appearance.
    pub groups: Vec<String>,
    /// Number of process groups.
    pub process_groups: u64,
    /// Ranks of the last open; `None` if the file does not contain it (foreign files).
    pub writers: Option<u32>,
    /// Byte order of the file.
    pub order: ByteOrder,
    /// Whether payloads are in subfiles.
    pub subfiles: bool,
    /// Whether the file has Thalweg's extension section or step records.
    pub extended: bool,
    /// Step records behind the last full index; readers of other libraries do not see their steps.
    pub step_records: u64,
    /// For an index file: the name of the data file.
    pub data_file: Option<String>,
    /// Bytes of the file that was opened.
    pub length: u64,
}
