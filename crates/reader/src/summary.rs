//! Characteristics joined over blocks and steps.

use thalweg_bp::statistics::Part;
use thalweg_types::Value;

/// What is known about the values of many blocks.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Summary {
    /// Blocks joined.
    pub blocks: u64,
    /// Elements in them.
    pub elements: u64,
    /// Finite elements, where every block recorded them.
    pub finite: Option<u64>,
    /// Smallest finite value; `None` where a block that has elements recorded none, or nothing is finite.
    pub min: Option<Value>,
    /// Largest finite value.
    pub max: Option<Value>,
    /// Mean of the finite values, where every block recorded sums.
    pub mean: Option<f64>,
    /// Standard deviation of these.
    pub std: Option<f64>,
    /// Exact sum of whole numbers, where every block recorded it.
    pub exact_sum: Option<i128>,
    /// Magnitude, real and imaginary part of complex values.
    pub complex: Option<[Part; 3]>,
}
