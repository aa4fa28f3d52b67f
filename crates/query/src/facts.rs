//! The characteristics of one block, in comparable form.
//!
//! Implausible records of other libraries count as missing: bounds that are NaN or reversed, means and variances that no numbers within
//! the bounds can have.

use crate::number::{Number, possible_mean, possible_variance};
use crate::predicate::summary::BlockFacts;
use thalweg_bp::statistics::{Level, Statistics};
use thalweg_reader::Block;
use thalweg_types::{ElementType, Value};

/// The characteristics of a block's values.
pub fn of(block: &Block, element: ElementType) -> BlockFacts {
    if let Some(value) = &block.value {
        return of_value(value);
    }
    let elements = block.elements();
    if elements == 0 {
        return BlockFacts::Nothing;
    }
    match block.statistics.as_ref().filter(|s| s.level != Level::Off) {
        Some(s) => of_statistics(s, element, elements),
        None => BlockFacts::Unknown { elements },
    }
}

fn of_value(value: &Value) -> BlockFacts {
    let number = match value {
        Value::String(text) => return BlockFacts::Text(text.clone()),
        Value::Complex([re, im]) => Number::Real(f64::from(*re).hypot(f64::from(*im))),
        Value::DoubleComplex([re, im]) => Number::Real(re.hypot(*im)),
        other => match Number::of(other) {
            Some(number) => number,
            None => return BlockFacts::Nothing,
        },
    };
    if number.is_nan() {
        return BlockFacts::Nothing;
    }
    let squares = Some(number.as_f64() * number.as_f64());
    BlockFacts::Known { min: number, max: number, finite: Some(1), elements: 1, sum: Some(number), squares }
}

fn of_statistics(s: &Statistics, element: ElementType, elements: u64) -> BlockFacts {
    if s.finite == 0 {
        return BlockFacts::Nothing;
    }
    let full = s.level.has_sums();
    let known = |min: Number, max: Number, sum: Number, squares: f64| {
        // Statistics of another library may be NaN, or minimum and maximum exchanged: then nothing is known.
        if min.is_nan() || max.is_nan() || min.compare(max).is_gt() {
            return BlockFacts::Unknown { elements };
        }
        let n = s.finite as f64;
        let sound = full && s.finite <= elements && possible_mean(min.as_f64(), max.as_f64(), sum.as_f64() / n);
        let spread = squares / n - (sum.as_f64() / n).powi(2);
        let squares = (sound && possible_variance(min.as_f64(), max.as_f64(), n, spread)).then_some(squares);
        BlockFacts::Known {
            min,
            max,
            finite: if sound {
                Some(s.finite)
            } else if element.is_integer() {
                Some(elements)
            } else {
                None
            },
            elements,
            sum: sound.then_some(sum),
            squares,
        }
    };
    if element.is_complex() {
        return match &s.complex {
            Some([m, _, _]) => known(Number::Real(m.min), Number::Real(m.max), Number::Real(m.sum), m.sum_of_squares),
            None => BlockFacts::Unknown { elements },
        };
    }
    match (Number::of(&s.min), Number::of(&s.max)) {
        (Some(min), Some(max)) => {
            let sum = s.exact_sum.map_or(Number::Real(s.sum), Number::Whole);
            known(min, max, sum, s.sum_of_squares)
        }
        _ => BlockFacts::Unknown { elements },
    }
}
