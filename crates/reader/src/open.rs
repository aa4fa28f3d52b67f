//! The reader.

use crate::{Attribute, Block, Element, Head, Status, Summary, Variable};
use std::ops::Range;
use std::sync::Arc;
use thalweg_bp::index::ProcessGroupEntry;
use thalweg_layout::Layout;
use thalweg_types::{Result, Selection, Value};

/// An open file. A clone is the same file; any thread may use it. It sees what was there when it was opened.
#[derive(Clone)]
pub struct Reader(Arc<()>);

#[allow(unused_variables)]
impl Reader {
    /// Opens a file, metadata file or index file by its end alone.
    pub fn open(layout: Arc<dyn Layout>, path: &str) -> Result<Reader> {
        todo!()
    }
    /// The path it was opened by.
    pub fn path(&self) -> &str {
        todo!()
    }
    /// What the file holds.
    pub fn status(&self) -> &Status {
        todo!()
    }
    /// Every variable's head, in the order of the file.
    pub fn variables(&self) -> &[Head] {
        todo!()
    }
    /// A variable; reads its index entry.
    pub fn variable(&self, name: &str) -> Result<Variable> {
        todo!()
    }
    /// Every attribute's head.
    pub fn attributes(&self) -> &[Head] {
        todo!()
    }
    /// An attribute.
    pub fn attribute(&self, name: &str) -> Result<Attribute> {
        todo!()
    }
    /// The shape at a step; of block 0 for local arrays; empty for scalars.
    pub fn shape(&self, name: &str, step: u64) -> Result<Vec<u64>> {
        todo!()
    }
    /// The blocks of a step; an empty list where the variable was not written in it.
    pub fn blocks(&self, name: &str, step: u64) -> Result<Vec<Block>> {
        todo!()
    }
    /// Hands every block of these steps to `each`, one at a time.
    pub fn for_each_block(
        &self,
        name: &str,
        steps: Range<u64>,
        each: &mut dyn FnMut(Block) -> Result<()>,
    ) -> Result<()> {
        todo!()
    }
    /// Characteristics joined over these steps.
    pub fn summary(&self, name: &str, steps: Range<u64>) -> Result<Summary> {
        todo!()
    }
    /// The value of a scalar or text at a step (the first block's).
    pub fn value(&self, name: &str, step: u64) -> Result<Value> {
        todo!()
    }
    /// The process group index. Reads it at the first call.
    pub fn process_groups(&self) -> Result<Arc<Vec<ProcessGroupEntry>>> {
        todo!()
    }
    /// The rank that wrote a block, where that can be told. Reads the process group index.
    pub fn writer(&self, block: &Block) -> Result<Option<u32>> {
        todo!()
    }
    /// Bytes of a selection at a step.
    pub fn length(&self, name: &str, step: u64, selection: &Selection) -> Result<u64> {
        todo!()
    }
    /// Reads a selection at a step into `out`; returns how many elements were filled.
    pub fn read(&self, name: &str, step: u64, selection: &Selection, out: &mut [u8]) -> Result<u64> {
        todo!()
    }
    /// Reads the same selection at several steps, one behind the other.
    pub fn read_steps(&self, name: &str, steps: &[u64], selection: &Selection, out: &mut [u8]) -> Result<u64> {
        todo!()
    }
    /// As [`Reader::read`], into new memory; 0 where no block covers an element.
    pub fn read_to_vec(&self, name: &str, step: u64, selection: &Selection) -> Result<Vec<u8>> {
        todo!()
    }
    /// As [`Reader::read_to_vec`], as numbers.
    pub fn read_as<T: Element>(&self, name: &str, step: u64, selection: &Selection) -> Result<Vec<T>> {
        todo!()
    }
    /// As [`Reader::read_steps`], as numbers.
    pub fn read_steps_as<T: Element>(&self, name: &str, steps: &[u64], selection: &Selection) -> Result<Vec<T>> {
        todo!()
    }
}
