//! Blocks: one variable's box from one rank in one step.

use thalweg_bp::statistics::Statistics;
use thalweg_types::{BoundingBox, Extent, Value};

/// A block as the index describes it. Dimensions slowest first, in elements.
#[derive(Debug, Clone, PartialEq)]
pub struct Block {
    /// Step, from 0.
    pub step: u64,
    /// Number within the step.
    pub number: u64,
    /// Shape of the global array; empty for local arrays and scalars.
    pub shape: Vec<u64>,
    /// Where the block starts in it; zeros for local arrays.
    pub offset: Vec<u64>,
    /// Its extents; empty for scalars.
    pub count: Vec<u64>,
    /// What is recorded about its values; complex parts and exact sums included.
    pub statistics: Option<Statistics>,
    /// The value of a scalar or text.
    pub value: Option<Value>,
    /// The subfile that holds it; `None` for the file itself.
    pub subfile: Option<u32>,
    /// Its stored bytes there.
    pub payload: Extent,
    /// Where its variable record starts there.
    pub record_offset: u64,
    /// The transform that its bytes went through.
    pub transform: Option<String>,
}

impl Block {
    /// The block as a box of the global array.
    pub fn as_box(&self) -> BoundingBox {
        BoundingBox { offset: self.offset.clone(), count: self.count.clone() }
    }

    /// Number of elements.
    pub fn elements(&self) -> u64 {
        thalweg_types::bounding_box::elements(&self.count).unwrap_or(u64::MAX)
    }
}
