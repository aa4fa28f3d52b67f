//! Recorded errors of blocks that went through a transform with an error bound, joined.

use crate::Block;
use thalweg_transform::error_bound::{BoundedForm, ErrorBound};

/// The errors of many blocks.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct CompressionErrors {
    /// Blocks with a recorded error; blocks without elements do not count.
    pub blocks: u64,
    /// Of these, blocks that are stored without loss.
    pub lossless: u64,
    /// Blocks that went through a lossy transform that does not record the error.
    pub unrecorded: u64,
    /// The bound that all blocks with a recorded error have; `None` if they differ, and without such a block.
    pub bound: Option<ErrorBound>,
    /// Largest absolute error that was recorded.
    pub largest: f64,
    /// Largest error as a fraction of the range of its block's values, of the blocks whose bound is relative.
    pub largest_relative: f64,
}

impl CompressionErrors {
    /// Adds a block; a damaged error record counts as none.
    pub(crate) fn add(&mut self, block: &Block) {
        let record = match block.error_record() {
            Ok(Some(record)) => record,
            _ => {
                self.unrecorded += u64::from(!block.describes_what_is_read());
                return;
            }
        };
        self.bound = if self.blocks == 0 { Some(record.bound) } else { self.bound.filter(|b| *b == record.bound) };
        self.blocks += 1;
        self.lossless += u64::from(record.form != BoundedForm::Encoded);
        self.largest = self.largest.max(record.largest);
        if let (ErrorBound::Relative(_), true) = (record.bound, record.range > 0.0) {
            self.largest_relative = self.largest_relative.max(record.largest / record.range);
        }
    }

    /// Whether no block went through a lossy transform.
    pub(crate) fn is_nothing(&self) -> bool {
        self.blocks == 0 && self.unrecorded == 0
    }
}
