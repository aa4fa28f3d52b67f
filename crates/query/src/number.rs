//! Exact comparison of 64-bit integers and doubles, without rounding.

use std::cmp::Ordering;
use std::fmt;
use thalweg_types::Value;

/// A real number.
#[derive(Debug, Clone, Copy)]
pub enum Number {
    /// A whole number.
    Whole(i128),
    /// Any other, infinities and NaN too.
    Real(f64),
}

impl Number {
    /// Below every other.
    pub const LEAST: Number = Number::Real(f64::NEG_INFINITY);
    /// Above every other.
    pub const GREATEST: Number = Number::Real(f64::INFINITY);

    /// The number in a value; `None` for text and complex numbers.
    pub fn of(value: &Value) -> Option<Number> {
        match value {
            // As it is printed and typed: 0.1 is the single nearest to 0.1. The order of singles stays.
            Value::F32(v) => Some(Number::Real(single(*v).parse().unwrap_or(f64::from(*v)))),
            Value::F64(v) => Some(Number::Real(*v)),
            Value::U64(v) => Some(Number::Whole(i128::from(*v))),
            // adios2 calls its signed bytes so.
            Value::Char(v) => Some(Number::Whole(i128::from(*v as i8))),
            Value::LongDouble(v) => Some(Number::Real(thalweg_types::value::long_double_to_f64(v))),
            other => other.as_i64().map(|v| Number::Whole(i128::from(v))),
        }
    }

    /// Reads `3`, `-2.5`, `1e-3`, `inf`.
    pub fn parse(text: &str) -> Option<Number> {
        if let Ok(whole) = text.parse::<i128>() {
            return Some(Number::Whole(whole));
        }
        // Names such as `nan` or `infinity` are not numbers here.
        let digits = text.trim_start_matches(['+', '-']);
        if digits != "inf" && !digits.starts_with(|c: char| c.is_ascii_digit() || c == '.') {
            return None;
        }
        text.parse::<f64>().ok().map(Number::Real)
    }

    /// Whether it is NaN.
    pub fn is_nan(self) -> bool {
        matches!(self, Number::Real(v) if v.is_nan())
    }

    /// The nearest double.
    pub fn as_f64(self) -> f64 {
        match self {
            Number::Whole(v) => v as f64,
            Number::Real(v) => v,
        }
    }

    /// The total order of two numbers; NaN equals NaN only and is greater than every number.
    pub fn compare(self, other: Number) -> Ordering {
        match (self, other) {
            (Number::Whole(a), Number::Whole(b)) => a.cmp(&b),
            (Number::Real(a), Number::Real(b)) => a.partial_cmp(&b).unwrap_or_else(|| a.is_nan().cmp(&b.is_nan())),
            (Number::Whole(a), Number::Real(b)) => whole_with_real(a, b),
            (Number::Real(a), Number::Whole(b)) => whole_with_real(b, a).reverse(),
        }
    }

    /// The lesser of two.
    pub fn min(self, other: Number) -> Number {
        if other.compare(self).is_lt() { other } else { self }
    }

    /// The greater of two.
    pub fn max(self, other: Number) -> Number {
        if other.compare(self).is_gt() { other } else { self }
    }
}

fn whole_with_real(a: i128, b: f64) -> Ordering {
    const BEYOND: f64 = 1e38;
    if b.is_nan() || b > BEYOND {
        return Ordering::Less;
    }
    if b < -BEYOND {
        return Ordering::Greater;
    }
    // Below 2^127 the cast is exact on the whole part.
    let below = b.floor();
    a.cmp(&(below as i128)).then(if b > below { Ordering::Less } else { Ordering::Equal })
}

macro_rules! from {
    ($($whole:ty),*; $($real:ty),*) => {
        $(impl From<$whole> for Number {
            fn from(v: $whole) -> Number {
                Number::Whole(i128::from(v))
            }
        })*
        $(impl From<$real> for Number {
            fn from(v: $real) -> Number {
                Number::Real(v)
            }
        })*
    };
}
from!(i8, i16, i32, i64, i128, u8, u16, u32, u64; f64);

impl fmt::Display for Number {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Number::Whole(v) => write!(f, "{v}"),
            Number::Real(v) => f.write_str(&real(*v)),
        }
    }
}

/// A double in its shortest exact form, very small and very large ones with an exponent.
pub fn real(v: f64) -> String {
    if v == 0.0 || !v.is_finite() || (1e-5..1e16).contains(&v.abs()) { format!("{v}") } else { format!("{v:e}") }
}

/// A single, likewise.
pub fn single(v: f32) -> String {
    if v == 0.0 || !v.is_finite() || (1e-5..1e8).contains(&v.abs()) { format!("{v}") } else { format!("{v:e}") }
}

/// A double in at most six significant digits, for listings.
pub fn brief(v: f64) -> String {
    if v == 0.0 || !v.is_finite() {
        return format!("{v}");
    }
    let scientific = format!("{v:.5e}");
    let (mantissa, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    let trim = |s: &str| -> String {
        if s.contains('.') { s.trim_end_matches('0').trim_end_matches('.').to_string() } else { s.to_string() }
    };
    if (-5..6).contains(&exponent) {
        trim(&format!("{v:.*}", (5 - exponent).max(0) as usize))
    } else {
        format!("{}e{exponent}", trim(mantissa))
    }
}

/// Whether numbers from `min` to `max` can have this mean, rounding forgiven. Some writers' sums overflow.
pub fn possible_mean(min: f64, max: f64, mean: f64) -> bool {
    let slack = 1e-9 * min.abs().max(max.abs());
    mean >= min - slack && mean <= max + slack
}

/// Whether `n` numbers, `min` and `max` among them, can have this variance: those two alone give at least half the square of the
/// range over `n`, and the variance is at most a quarter of that square. Results of rounding or overflow are refused.
pub fn possible_variance(min: f64, max: f64, n: f64, variance: f64) -> bool {
    let square = (max - min).powi(2);
    variance >= square / (2.0 * n) * (1.0 - 1e-6) && variance <= square / 4.0 * (1.0 + 1e-6)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_numbers_and_doubles_compare_without_rounding() {
        let big = Number::Whole((1 << 53) + 1);
        assert_eq!(big.compare(Number::Real(9_007_199_254_740_992.0)), Ordering::Greater);
        assert_eq!(Number::Real(9_007_199_254_740_992.0).compare(big), Ordering::Less);
        assert_eq!(Number::Whole(3).compare(Number::Real(3.0)), Ordering::Equal);
        assert_eq!(Number::Whole(-3).compare(Number::Real(-2.5)), Ordering::Less);
        assert_eq!(Number::Whole(-2).compare(Number::Real(-2.5)), Ordering::Greater);
        assert_eq!(Number::Whole(i128::MAX).compare(Number::GREATEST), Ordering::Less);
        assert_eq!(Number::Whole(i128::MIN).compare(Number::LEAST), Ordering::Greater);
    }

    #[test]
    fn brief_numbers_have_six_digits_at_most() {
        let shown: Vec<String> =
            [0.1 + 0.2, 1e-9, 123_456.7, 1_234_567.0, -0.00012345678, 5e-324, f64::MAX, f64::NAN, 2.0]
                .map(brief)
                .to_vec();
        assert_eq!(
            shown,
            ["0.3", "1e-9", "123457", "1.23457e6", "-0.000123457", "4.94066e-324", "1.79769e308", "NaN", "2"]
        );
    }

    #[test]
    fn exact_numbers_read_back_equal() {
        for v in [0.1 + 0.2, 5e-324, f64::MAX, -1e-5, 1e16, 123456789.123] {
            assert_eq!(real(v).parse::<f64>().unwrap(), v);
        }
        assert_eq!(single(0.1), "0.1");
        assert_eq!(real(f64::MAX), "1.7976931348623157e308");
    }

    #[test]
    fn statistics_that_overflowed_are_told_from_possible_ones() {
        assert!(possible_variance(0.0, 65535.0, 24.0, 65535.0f64.powi(2) / 24.0));
        assert!(!possible_variance(0.0, 65535.0, 24.0, 0.0));
        assert!(!possible_variance(0.0, 1.0, 24.0, 0.3));
        assert!(!possible_variance(0.0, 1.0, 24.0, f64::NAN));
        assert!(possible_variance(3.0, 3.0, 8.0, 0.0) && !possible_variance(1e9, 1e9, 8.0, 1e-7));
        assert!(possible_mean(0.0, 1.0, 1.0) && !possible_mean(0.0, 1.0, -0.1) && !possible_mean(0.0, 1.0, f64::NAN));
    }

    #[test]
    fn singles_are_the_numbers_that_are_typed_for_them() {
        let of = |v: f32| Number::of(&Value::F32(v)).unwrap();
        assert_eq!(of(0.1).compare(Number::Real(0.1)), Ordering::Equal);
        assert_eq!(of(f32::INFINITY).compare(Number::GREATEST), Ordering::Equal);
        assert!(of(f32::NAN).is_nan());
        for v in [0.1f32, 1e-40, 3.3, 16_777_216.0, f32::MAX / 2.0] {
            assert_eq!(of(v).compare(of(v.next_up())), Ordering::Less, "{v}");
        }
    }

    #[test]
    fn names_are_not_taken_for_numbers() {
        assert!(Number::parse("nan").is_none() && Number::parse("e3").is_none() && Number::parse("1x").is_none());
        assert!(matches!(Number::parse("-3"), Some(Number::Whole(-3))));
        assert!(matches!(Number::parse("1e3"), Some(Number::Real(_))));
        assert!(matches!(Number::parse("-inf"), Some(Number::Real(_))));
    }
}
