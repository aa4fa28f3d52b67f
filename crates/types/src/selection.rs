//! Selections: the elements that a read selects.

use crate::BoundingBox;

/// The elements of a variable to read, at one step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Selection {
    /// Everything: the whole global array, or block 0 of a local one, or the scalar.
    All,
    /// A box of a global array.
    Box(BoundingBox),
    /// Single elements of a global array: one list of indices (slowest first) per point.
    Points(Vec<Vec<u64>>),
    /// One block as it was written, by its number within the step.
    Block(u64),
}
