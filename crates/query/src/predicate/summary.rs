//! Summaries: the combined characteristics of some blocks of one variable.
//!
//! Values that are not recorded become [`Bounds`]. NaN and infinities in arrays are not part of a summary, because writers
//! exclude them from minimum and maximum.

use crate::number::Number;

/// A number from `low` to `high`, both inclusive.
#[derive(Debug, Clone, Copy)]
pub struct Bounds {
    /// Its least possible value.
    pub low: Number,
    /// Its greatest possible value.
    pub high: Number,
}

impl Bounds {
    /// An unknown number.
    pub const ANYTHING: Bounds = Bounds { low: Number::LEAST, high: Number::GREATEST };

    /// From `low` to `high`.
    pub fn new(low: Number, high: Number) -> Bounds {
        Bounds { low, high }
    }

    /// One number.
    pub fn exactly(n: Number) -> Bounds {
        Bounds { low: n, high: n }
    }

    /// Whether only one value is possible.
    pub fn is_exact(self) -> bool {
        self.low.compare(self.high).is_eq()
    }
}

/// Known facts about one block.
#[derive(Debug, Clone)]
pub enum BlockFacts {
    /// No finite value: an empty block, or one of NaN only.
    Nothing,
    /// No statistics were recorded.
    Unknown {
        /// Elements of the block.
        elements: u64,
    },
    /// Minimum and maximum; the rest if it was recorded.
    Known {
        /// Least finite value.
        min: Number,
        /// Greatest finite value.
        max: Number,
        /// Number of finite values; `None`: at least one.
        finite: Option<u64>,
        /// Elements of the block.
        elements: u64,
        /// Sum of the finite values.
        sum: Option<Number>,
        /// Sum of their squares.
        squares: Option<f64>,
    },
    /// A text.
    Text(Vec<u8>),
}

/// Known facts about several blocks together.
#[derive(Debug, Clone, Default)]
pub struct Summary {
    count: (u64, u64),
    extremes: Option<(Bounds, Bounds)>,
    sum: Sum,
    texts: Vec<Vec<u8>>,
}

#[derive(Debug, Clone, Copy)]
struct Sum {
    low: f64,
    high: f64,
    /// Set if all summands were whole numbers and known.
    exact: Option<i128>,
    known: bool,
    squares: Option<f64>,
}

impl Default for Sum {
    fn default() -> Sum {
        Sum { low: 0.0, high: 0.0, exact: Some(0), known: true, squares: Some(0.0) }
    }
}

impl Summary {
    /// Adds a block.
    pub fn add(&mut self, block: &BlockFacts) {
        match block {
            BlockFacts::Nothing => {}
            BlockFacts::Text(text) => self.texts.push(text.clone()),
            BlockFacts::Unknown { elements } => {
                self.count.1 = self.count.1.saturating_add(*elements);
                self.extend(Bounds::ANYTHING, Bounds::ANYTHING);
                self.sum =
                    Sum { low: f64::NEG_INFINITY, high: f64::INFINITY, exact: None, known: false, squares: None };
            }
            BlockFacts::Known { min, max, finite, elements, sum, squares } => {
                let (least, most) = finite.map_or((1, *elements), |n| (n, n));
                self.count.0 = self.count.0.saturating_add(least);
                self.count.1 = self.count.1.saturating_add(most);
                self.extend(Bounds::exactly(*min), Bounds::exactly(*max));
                match sum {
                    Some(sum) => {
                        self.sum.low += sum.as_f64();
                        self.sum.high += sum.as_f64();
                        self.sum.exact = match (self.sum.exact, sum) {
                            (Some(a), Number::Whole(b)) => a.checked_add(*b),
                            _ => None,
                        };
                    }
                    None => {
                        // At least one element is finite.
                        let (a, b, n) = (min.as_f64(), max.as_f64(), most as f64);
                        self.sum.low += a.min(a * n);
                        self.sum.high += b.max(b * n);
                        self.sum.exact = None;
                        self.sum.known = false;
                    }
                }
                self.sum.squares = self.sum.squares.zip(*squares).map(|(a, b)| a + b);
            }
        }
    }

    fn extend(&mut self, min: Bounds, max: Bounds) {
        self.extremes = Some(match self.extremes {
            None => (min, max),
            // A block that may have no finite value can lower the minimum, but does not raise the bound of the other blocks.
            Some((a, b)) => (
                Bounds::new(a.low.min(min.low), a.high.min(min.high)),
                Bounds::new(b.low.max(max.low), b.high.max(max.high)),
            ),
        });
    }

    /// The texts, if the blocks are text.
    pub fn texts(&self) -> Option<&[Vec<u8>]> {
        (!self.texts.is_empty()).then_some(&self.texts)
    }

    /// Number of finite values.
    pub fn count(&self) -> Bounds {
        Bounds::new(Number::Whole(i128::from(self.count.0)), Number::Whole(i128::from(self.count.1)))
    }

    /// The least finite value; `None` if there is none.
    pub fn min(&self) -> Option<Bounds> {
        self.extremes.map(|(min, _)| min)
    }

    /// The greatest finite value.
    pub fn max(&self) -> Option<Bounds> {
        self.extremes.map(|(_, max)| max)
    }

    /// Sum of the finite values.
    pub fn sum(&self) -> Option<Bounds> {
        self.extremes?;
        Some(match self.sum.exact {
            Some(sum) => Bounds::exactly(Number::Whole(sum)),
            None => Bounds::new(Number::Real(self.sum.low), Number::Real(self.sum.high)),
        })
    }

    /// Mean of the finite values.
    pub fn mean(&self) -> Option<Bounds> {
        let (min, max) = self.extremes?;
        Some(match self.exact_mean() {
            Some(mean) => Bounds::exactly(Number::Real(mean)),
            None => Bounds::new(min.low, max.high),
        })
    }

    /// Standard deviation of the finite values: at most half of the difference between the extremes.
    pub fn std(&self) -> Option<Bounds> {
        let (min, max) = self.extremes?;
        Some(match (self.exact_mean(), self.sum.squares) {
            (Some(mean), Some(squares)) => {
                let variance = (squares / self.count.0 as f64 - mean * mean).max(0.0);
                Bounds::exactly(Number::Real(variance.sqrt()))
            }
            _ => {
                let half = max.high.as_f64() / 2.0 - min.low.as_f64() / 2.0;
                Bounds::new(Number::Real(0.0), Number::Real(half))
            }
        })
    }

    fn exact_mean(&self) -> Option<f64> {
        let counted = self.count.0 == self.count.1 && self.count.0 > 0;
        (counted && self.sum.known).then(|| self.sum.low / self.count.0 as f64)
    }
}
