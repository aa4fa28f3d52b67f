//! One element of many steps, a series in time. A program that plots several of them reads the same small blocks again and again: from the
//! second series of a variable on, the blocks are in memory.
//!
//! | question | answer |
//! |---|---|
//! | which variables | global arrays with one block per step, at the same place in all of these steps; no transforms, no comparison of checksums |
//! | memory | the blocks of one variable, at most [`MOST`] bytes per open file |
//! | which bytes | those that the blocks had when they were read: blocks of closed steps do not change |

use super::lookup::IndexedVariable;
use super::*;
use crate::boxes::Boxes;

/// Most bytes of blocks in memory.
const MOST: u64 = 8 << 20;
/// Fewest steps of a series.
const FEWEST: usize = 64;

/// The series that were read last.
#[derive(Default)]
pub(super) struct Series {
    /// Variable and steps of the last one.
    name: String,
    steps: Vec<u64>,
    /// From the second one on.
    blocks: Option<Blocks>,
}

/// The blocks of all steps, one after the other.
struct Blocks {
    bounds: BoundingBox,
    bytes: Vec<u8>,
}

impl Blocks {
    /// The values at a point of all blocks; `None` if it is in none.
    fn values(&self, point: &[u64], size: usize, steps: usize) -> Option<Vec<u8>> {
        let BoundingBox { offset, count } = &self.bounds;
        let mut element = 0u64;
        for ((p, from), n) in point.iter().zip(offset).zip(count) {
            let inside = p.checked_sub(*from).filter(|inside| inside < n)?;
            element = element.checked_mul(*n)?.checked_add(inside)?;
        }
        let first = usize::try_from(element).ok()?.checked_mul(size)?;
        let mut values = Vec::with_capacity(steps * size);
        for block in self.bytes.chunks_exact(self.bytes.len() / steps) {
            values.extend_from_slice(block.get(first..first + size)?);
        }
        Some(values)
    }
}

impl Reader {
    /// The values of a series in this machine's byte order, if its blocks are in memory, or are read into it now because this is not
    /// the first series of these steps; `None` if it has to be read element by element.
    pub(super) fn series(
        &self,
        v: &IndexedVariable,
        boxes: &Boxes,
        name: &str,
        steps: &[u64],
        requested: &BoundingBox,
    ) -> Option<Vec<u8>> {
        if steps.len() < FEWEST || requested.offset.is_empty() || requested.count.iter().any(|n| *n != 1) {
            return None;
        }
        let size = v.original.size() as usize;
        {
            let mut series = self.0.series.lock();
            if series.name != name || series.steps != steps {
                *series = Series { name: name.to_string(), steps: steps.to_vec(), blocks: None };
                return None;
            }
            if let Some(blocks) = &series.blocks {
                return blocks.values(&requested.offset, size, steps.len());
            }
        }
        let bounds = boxes.in_common(steps.iter().map(|step| v.sets.of_steps(*step..step.saturating_add(1))))?;
        let bytes = bounds.elements()?.checked_mul(size as u64)?.checked_mul(steps.len() as u64)?;
        if bounds.count.len() != requested.offset.len() || !(1..=MOST).contains(&bytes) {
            return None;
        }
        let mut read = vec![0; usize::try_from(bytes).ok()?];
        // A failure is reported where the element itself is read.
        self.read_steps(name, steps, &Selection::Block(0), &mut read).ok()?;
        let blocks = Blocks { bounds, bytes: read };
        let values = blocks.values(&requested.offset, size, steps.len());
        let mut series = self.0.series.lock();
        if series.name == name && series.steps == steps {
            series.blocks = Some(blocks);
        }
        values
    }
}
