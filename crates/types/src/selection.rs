//! Selections: the elements that a read selects.

use crate::BoundingBox;

/// The elements of a variable to read, at one step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Selection {
    /// Everything: the whole global array, or block 0 of a local one, or the scalar.
    All,
    /// A box of a global array.
    Box(BoundingBox),
    /// Every `stride[d]`-th element of a box of a global array along dimension `d`, beginning with the box's first one. The result
    /// has `count[d] / stride[d]` elements along it, rounded up.
    Strided {
        /// The box.
        bounds: BoundingBox,
        /// One number for each dimension, slowest first; 1 or more.
        stride: Vec<u64>,
    },
    /// Single elements of a global array: one list of indices (slowest first) per point.
    Points(Vec<Vec<u64>>),
    /// One block as it was written, by its number within the step.
    Block(u64),
}
