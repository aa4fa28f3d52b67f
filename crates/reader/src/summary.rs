//! Characteristics joined over blocks and steps.

use crate::{Block, CompressionErrors};
use std::cmp::Ordering;
use thalweg_bp::statistics::{Accumulator, ComponentStatistics, Level};
use thalweg_types::value::long_double_to_f64;
use thalweg_types::{ElementType, Value};

/// Statistics of the values of many blocks.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Summary {
    /// Blocks joined.
    pub blocks: u64,
    /// Elements in them.
    pub elements: u64,
    /// Number of finite elements, if every block recorded it.
    pub finite: Option<u64>,
    /// Smallest finite value; `None` if a block with elements recorded none, or no value is finite.
    pub min: Option<Value>,
    /// Largest finite value.
    pub max: Option<Value>,
    /// Mean of the finite values, if every block recorded sums.
    pub mean: Option<f64>,
    /// Standard deviation of these.
    pub std: Option<f64>,
    /// Exact sum of whole numbers, where every block recorded it or its double is exact.
    pub exact_sum: Option<i128>,
    /// Magnitude, real and imaginary part of complex values.
    pub complex: Option<[ComponentStatistics; 3]>,
    /// Errors of blocks that went through a lossy transform; `None` without such blocks.
    pub errors: Option<CompressionErrors>,
}

/// Orders two values of one real type; `None` for text and complex numbers.
pub fn compare(a: &Value, b: &Value) -> Option<Ordering> {
    match (a, b) {
        (Value::U64(a), Value::U64(b)) => Some(a.cmp(b)),
        (Value::LongDouble(a), Value::LongDouble(b)) => long_double_to_f64(a).partial_cmp(&long_double_to_f64(b)),
        _ => match (a.as_i64(), b.as_i64()) {
            (Some(a), Some(b)) => Some(a.cmp(&b)),
            _ => a.as_f64()?.partial_cmp(&b.as_f64()?),
        },
    }
}

/// Joins blocks one by one.
pub(crate) struct Joining {
    element: ElementType,
    summary: Summary,
    sum: f64,
    squares: f64,
    exact: i128,
    finite: u64,
    /// Statistics that every block so far has recorded.
    all_bounds: bool,
    all_sums: bool,
    all_exact: bool,
    parts: Option<[ComponentStatistics; 3]>,
    errors: CompressionErrors,
}

impl Joining {
    /// Of no block yet.
    pub fn new(element: ElementType) -> Joining {
        Joining {
            element,
            summary: Summary::default(),
            sum: 0.0,
            squares: 0.0,
            exact: 0,
            finite: 0,
            all_bounds: true,
            all_sums: true,
            all_exact: element.is_integer(),
            parts: None,
            errors: CompressionErrors::default(),
        }
    }

    /// Adds a block.
    pub fn add(&mut self, block: &Block) {
        self.summary.blocks += 1;
        self.summary.elements = self.summary.elements.saturating_add(block.elements());
        if block.elements() == 0 {
            return;
        }
        self.errors.add(block);
        // The statistics of a scalar are those of its value.
        let of_value = match (&block.statistics, &block.value) {
            (None, Some(value)) if value.element_type() == self.element => {
                let (mut all, mut bytes) = (Accumulator::new(self.element, Level::Full), Vec::new());
                value.append_to(&mut bytes);
                all.update(&bytes);
                all.finish()
            }
            _ => None,
        };
        // The order of complex numbers in adios2 is not defined: their bounds give no information about magnitude or parts.
        let recorded = block.statistics.as_ref().filter(|s| !self.element.is_complex() || s.complex.is_some());
        let Some(s) = recorded.or(of_value.as_ref()) else {
            (self.all_bounds, self.all_sums, self.all_exact) = (false, false, false);
            return;
        };
        if !s.level.has_sums() {
            (self.all_sums, self.all_exact) = (false, false);
        }
        if s.finite == 0 {
            return;
        }
        // Damaged statistics may have any value.
        self.finite = self.finite.saturating_add(s.finite);
        self.sum += s.sum;
        self.squares += s.sum_of_squares;
        match s.exact_sum {
            Some(sum) => self.exact = self.exact.saturating_add(sum),
            // A sum that only the double holds is exact up to 2^53.
            None if s.sum.abs() <= (1u64 << 53) as f64 => self.exact += s.sum as i128,
            None => self.all_exact = false,
        }
        if let Some(parts) = &s.complex {
            match &mut self.parts {
                None => self.parts = Some(*parts),
                Some(all) => {
                    for (a, p) in all.iter_mut().zip(parts) {
                        a.min = a.min.min(p.min);
                        a.max = a.max.max(p.max);
                        a.sum += p.sum;
                        a.sum_of_squares += p.sum_of_squares;
                    }
                }
            }
            return;
        }
        let better = |old: &Option<Value>, new: &Value, wanted: Ordering| match old {
            None => true,
            Some(old) => compare(new, old) == Some(wanted),
        };
        if better(&self.summary.min, &s.min, Ordering::Less) {
            self.summary.min = Some(s.min.clone());
        }
        if better(&self.summary.max, &s.max, Ordering::Greater) {
            self.summary.max = Some(s.max.clone());
        }
    }

    /// The statistics of all blocks.
    pub fn finish(mut self) -> Summary {
        let some = self.summary.blocks > 0;
        if !self.all_bounds {
            (self.summary.min, self.summary.max, self.parts) = (None, None, None);
        }
        if some && self.all_sums && !self.element.is_text() {
            self.summary.finite = Some(self.finite);
            if self.finite > 0 && self.parts.is_none() {
                let n = self.finite as f64;
                let mean = self.sum / n;
                self.summary.mean = Some(mean);
                self.summary.std = Some((self.squares / n - mean * mean).max(0.0).sqrt());
            }
            self.summary.exact_sum = self.all_exact.then_some(self.exact);
        }
        self.summary.complex = self.parts;
        self.summary.errors = Some(self.errors).filter(|errors| !errors.is_nothing());
        self.summary
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use thalweg_bp::pass;
    use thalweg_types::Extent;

    fn block(values: &[u64], level: Level) -> Block {
        let bytes: Vec<u8> = values.iter().flat_map(|v| v.to_ne_bytes()).collect();
        Block {
            step: 0,
            number: 0,
            shape: vec![],
            offset: vec![0],
            count: vec![values.len() as u64],
            statistics: pass::look(&bytes, ElementType::U64, level).statistics,
            value: None,
            subfile: None,
            payload: Extent::new(0, 8 * values.len() as u64),
            record_offset: 0,
            transform: None,
        }
    }

    fn join(blocks: &[Block]) -> Summary {
        let mut all = Joining::new(ElementType::U64);
        blocks.iter().for_each(|b| all.add(b));
        all.finish()
    }

    #[test]
    fn blocks_joined_are_as_one_block_of_all_values() {
        let s = join(&[block(&[3, u64::MAX], Level::Full), block(&[], Level::Full), block(&[4], Level::Full)]);
        assert_eq!((s.min, s.max), (Some(Value::U64(3)), Some(Value::U64(u64::MAX))));
        assert_eq!((s.blocks, s.elements, s.finite), (3, 3, Some(3)));
        assert_eq!(s.exact_sum, Some(i128::from(u64::MAX) + 7));
    }

    #[test]
    fn one_block_without_statistics_leaves_nothing_known() {
        let s = join(&[block(&[3], Level::Full), block(&[1], Level::Off)]);
        assert_eq!((s.min, s.max, s.mean, s.finite), (None, None, None, None));
        let s = join(&[block(&[3], Level::Full), block(&[1], Level::MinMax)]);
        assert_eq!((s.min, s.mean), (Some(Value::U64(1)), None));
    }
}
