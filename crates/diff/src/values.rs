//! Values of two pieces of memory compared. Pure.
//!
//! | values | equal, if |
//! |---|---|
//! | numbers *a* and *b* | \|*a* - *b*\| is at most the absolute tolerance, or at most the relative one times the larger of \|*a*\| and \|*b*\| |
//! | complex numbers | the same, with magnitudes |
//! | NaN | both are; the difference from a number counts as infinite |
//! | infinities | both have the same sign |
//! | texts | every byte is |
//!
//! Numbers of different types are compared as doubles.

use thalweg_types::value::long_double_to_f64;
use thalweg_types::{ByteOrder, ElementType, Value};

/// How far values may be apart. By default not at all.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Tolerance {
    /// In the unit of the values.
    pub absolute: f64,
    /// As a share of the larger magnitude.
    pub relative: f64,
}

/// Values that differ.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Differing {
    /// How many.
    pub count: u64,
    /// The largest difference.
    pub largest: f64,
    /// The first element that has it.
    pub at: u64,
}

/// Whether values of these types can be compared.
pub fn are_comparable(a: ElementType, b: ElementType) -> bool {
    let sort = |element: ElementType| match element {
        ElementType::String | ElementType::StringArray => 0,
        ElementType::Complex | ElementType::DoubleComplex => 1,
        _ => 2,
    };
    a == b || sort(a) == sort(b)
}

/// Compares as many elements as both have, in this machine's byte order; `None` if none differs.
///
/// - `a`, `b`: types, which are comparable, and bytes; not of texts.
///
/// # Cost
/// Equal stretches cost a comparison of bytes; others one pass, with a vectorised loop for equal types.
pub fn compare(a: (ElementType, &[u8]), b: (ElementType, &[u8]), tolerance: Tolerance) -> Option<Differing> {
    let ((of_a, a), (of_b, b)) = (a, b);
    macro_rules! same {
        ($t:ty, $n:literal, $difference:expr) => {
            stretches::<$n>(a, b, tolerance, |x, y| $difference(<$t>::from_ne_bytes(x), <$t>::from_ne_bytes(y)))
        };
    }
    macro_rules! whole {
        ($t:ty, $n:literal) => {
            same!($t, $n, |x: $t, y: $t| (f64::from(x.abs_diff(y)), f64::from(x).abs().max(f64::from(y).abs())))
        };
    }
    use ElementType::*;
    match (of_a, of_b) {
        (I8, I8) => whole!(i8, 1),
        (U8, U8) | (Char, Char) => whole!(u8, 1),
        (I16, I16) => whole!(i16, 2),
        (U16, U16) => whole!(u16, 2),
        (I32, I32) => whole!(i32, 4),
        (U32, U32) => whole!(u32, 4),
        (I64, I64) => same!(i64, 8, |x: i64, y: i64| {
            (x.abs_diff(y) as f64, (x.unsigned_abs() as f64).max(y.unsigned_abs() as f64))
        }),
        (U64, U64) => same!(u64, 8, |x: u64, y: u64| (x.abs_diff(y) as f64, (x as f64).max(y as f64))),
        (F32, F32) => same!(f32, 4, |x: f32, y: f32| real(f64::from(x), f64::from(y))),
        (F64, F64) => same!(f64, 8, real),
        (LongDouble, LongDouble) => {
            stretches::<16>(a, b, tolerance, |x, y| real(long_double_to_f64(&x), long_double_to_f64(&y)))
        }
        _ => mixed((of_a, a), (of_b, b), tolerance),
    }
}

/// Difference and magnitude of two real numbers.
fn real(x: f64, y: f64) -> (f64, f64) {
    let difference = match x == y || x.is_nan() && y.is_nan() {
        true => 0.0,
        false => (x - y).abs(),
    };
    // Of a NaN and a number.
    let difference = if difference.is_nan() { f64::INFINITY } else { difference };
    (difference, x.abs().max(y.abs()))
}

/// Elements compared byte by byte before they are looked at one by one.
const STRETCH: usize = 1024;

/// Compares elements of `N` bytes.
fn stretches<const N: usize>(
    a: &[u8],
    b: &[u8],
    tolerance: Tolerance,
    difference: impl Fn([u8; N], [u8; N]) -> (f64, f64),
) -> Option<Differing> {
    let mut found = Differing { count: 0, largest: 0.0, at: 0 };
    for (number, (a, b)) in a.chunks(STRETCH * N).zip(b.chunks(STRETCH * N)).enumerate() {
        if a == b {
            continue;
        }
        for (i, (x, y)) in a.as_chunks::<N>().0.iter().zip(b.as_chunks::<N>().0).enumerate() {
            found.add(difference(*x, *y), tolerance, (number * STRETCH + i) as u64);
        }
    }
    (found.count > 0).then_some(found)
}

impl Differing {
    fn add(&mut self, (difference, magnitude): (f64, f64), tolerance: Tolerance, at: u64) {
        // An infinite difference is within no tolerance; the relative one would be infinite, too.
        let allowed = tolerance.absolute.max(tolerance.relative * magnitude);
        if difference > 0.0 && (difference > allowed || difference.is_infinite()) {
            if self.count == 0 || difference > self.largest {
                (self.largest, self.at) = (difference, at);
            }
            self.count += 1;
        }
    }

    /// Both together; `other` begins `offset` elements later.
    pub fn join(self, other: Differing, offset: u64) -> Differing {
        let count = self.count + other.count;
        match other.largest > self.largest {
            true => Differing { count, largest: other.largest, at: other.at + offset },
            false => Differing { count, ..self },
        }
    }
}

/// Real and imaginary part of a value.
fn parts(value: &Value) -> (f64, f64) {
    match value {
        Value::Complex([re, im]) => (f64::from(*re), f64::from(*im)),
        Value::DoubleComplex([re, im]) => (*re, *im),
        Value::LongDouble(bytes) => (long_double_to_f64(bytes), 0.0),
        Value::Char(byte) => (f64::from(*byte), 0.0),
        other => (other.as_f64().unwrap_or(f64::NAN), 0.0),
    }
}

/// Difference and magnitude of two numbers of any type.
fn numbers(a: &Value, b: &Value) -> (f64, f64) {
    let ((re_a, im_a), (re_b, im_b)) = (parts(a), parts(b));
    let ((re, _), (im, _)) = (real(re_a, re_b), real(im_a, im_b));
    (re.hypot(im), re_a.hypot(im_a).max(re_b.hypot(im_b)))
}

/// Elements of any types, one by one.
fn mixed(a: (ElementType, &[u8]), b: (ElementType, &[u8]), tolerance: Tolerance) -> Option<Differing> {
    let values = |(element, bytes): (ElementType, &[u8])| {
        let of = move |bytes: &[u8]| Value::from_bytes(element, bytes, ByteOrder::NATIVE);
        bytes.chunks_exact(element.size().max(1) as usize).filter_map(of).collect::<Vec<_>>()
    };
    let mut found = Differing { count: 0, largest: 0.0, at: 0 };
    for (at, (x, y)) in values(a).iter().zip(&values(b)).enumerate() {
        found.add(numbers(x, y), tolerance, at as u64);
    }
    (found.count > 0).then_some(found)
}

/// The difference of two single values; `None` for texts.
pub fn difference(a: &Value, b: &Value) -> Option<f64> {
    match (a, b) {
        (Value::String(_), _) | (_, Value::String(_)) => None,
        _ => Some(numbers(a, b).0),
    }
}

/// Whether two single values differ; texts by their bytes.
pub fn differ(a: &Value, b: &Value, tolerance: Tolerance) -> bool {
    match (a, b) {
        (Value::String(a), Value::String(b)) => a != b,
        (Value::String(_), _) | (_, Value::String(_)) => true,
        _ => {
            let mut found = Differing { count: 0, largest: 0.0, at: 0 };
            found.add(numbers(a, b), tolerance, 0);
            found.count > 0
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn bytes(values: &[f64]) -> Vec<u8> {
        values.iter().flat_map(|value| value.to_ne_bytes()).collect()
    }

    fn doubles(a: &[f64], b: &[f64], tolerance: Tolerance) -> Option<Differing> {
        compare((ElementType::F64, &bytes(a)), (ElementType::F64, &bytes(b)), tolerance)
    }

    #[test]
    fn the_largest_difference_is_found_with_its_place() {
        let exact = Tolerance::default();
        assert_eq!(
            doubles(&[1.0, 2.0, 3.0], &[1.0, 2.5, 1.0], exact),
            Some(Differing { count: 2, largest: 2.0, at: 2 })
        );
        assert_eq!(doubles(&[0.0, f64::NAN, f64::INFINITY], &[-0.0, f64::NAN, f64::INFINITY], exact), None);
        let infinite = doubles(&[1.0, f64::NAN, f64::INFINITY], &[9.0, 1.0, -f64::INFINITY], exact).unwrap();
        assert_eq!((infinite.count, infinite.largest, infinite.at), (3, f64::INFINITY, 1));
        // Of two million elements, the last.
        let (a, mut b) = (vec![1.0; 2_000_000], vec![1.0; 2_000_000]);
        b[1_999_999] = 1.5;
        assert_eq!(doubles(&a, &b, exact), Some(Differing { count: 1, largest: 0.5, at: 1_999_999 }));
    }

    #[test]
    fn either_tolerance_suffices_but_none_for_infinite_differences() {
        let absolute = Tolerance { absolute: 0.1, relative: 0.0 };
        let relative = Tolerance { absolute: 0.0, relative: 0.01 };
        assert_eq!(doubles(&[1000.0, 1.0], &[1000.1, 1.05], absolute).map(|found| found.at), Some(0));
        assert_eq!(doubles(&[1000.0, 1.0], &[1009.0, 1.05], relative).map(|found| found.at), Some(1));
        let both = Tolerance { absolute: 0.1, relative: 0.01 };
        assert_eq!(doubles(&[1000.0, 1.0], &[1009.0, 1.05], both), None);
        let huge = Tolerance { absolute: 1e300, relative: 1.0 };
        assert_eq!(doubles(&[1.0, f64::INFINITY], &[f64::NAN, 0.0], huge).map(|found| found.count), Some(2));
    }

    #[test]
    fn types_need_not_be_equal() {
        let singles: Vec<u8> = [0.5f32, 0.1].iter().flat_map(|value| value.to_ne_bytes()).collect();
        let found =
            compare((ElementType::F32, &singles), (ElementType::F64, &bytes(&[0.5, 0.1])), Tolerance::default());
        assert_eq!(found.map(|found| (found.count, found.at)), Some((1, 1)));
        let near = Tolerance { absolute: 0.0, relative: 1e-6 };
        assert_eq!(compare((ElementType::F32, &singles), (ElementType::F64, &bytes(&[0.5, 0.1])), near), None);
        assert!(
            !are_comparable(ElementType::Complex, ElementType::F64)
                && !are_comparable(ElementType::String, ElementType::I8)
        );
        let complex = |values: &[f64]| bytes(values);
        let found = compare(
            (ElementType::DoubleComplex, &complex(&[1.0, 1.0, 3.0, 0.0])),
            (ElementType::DoubleComplex, &complex(&[1.0, 1.0, 0.0, 4.0])),
            Tolerance::default(),
        );
        assert_eq!(found, Some(Differing { count: 1, largest: 5.0, at: 1 }));
    }

    #[test]
    fn whole_numbers_differ_by_exact_amounts() {
        let wide = |a: i64, b: i64| {
            compare((ElementType::I64, &a.to_ne_bytes()), (ElementType::I64, &b.to_ne_bytes()), Tolerance::default())
        };
        assert_eq!(wide(i64::MIN, i64::MAX).map(|found| found.largest), Some(2f64.powi(64)));
        assert_eq!(wide(1 << 60, (1 << 60) + 1).map(|found| found.largest), Some(1.0));
        let narrow = compare((ElementType::I8, &[0x80]), (ElementType::I8, &[0x7f]), Tolerance::default());
        assert_eq!(narrow.map(|found| found.largest), Some(255.0));
    }

    proptest! {
        #[test]
        fn the_loop_for_equal_types_agrees_with_the_one_for_any(
            pairs in proptest::collection::vec((any::<f32>(), any::<f32>(), any::<bool>()), 0..3000), absolute in 0f64..10.0,
        ) {
            let a: Vec<f32> = pairs.iter().map(|pair| pair.0).collect();
            let b: Vec<f32> = pairs.iter().map(|pair| if pair.2 { pair.0 } else { pair.1 }).collect();
            let bytes = |values: &[f32]| values.iter().flat_map(|value| value.to_ne_bytes()).collect::<Vec<u8>>();
            let tolerance = Tolerance { absolute, relative: 1e-3 };
            let (a, b) = (bytes(&a), bytes(&b));
            let fast = compare((ElementType::F32, &a), (ElementType::F32, &b), tolerance);
            prop_assert_eq!(fast, mixed((ElementType::F32, &a), (ElementType::F32, &b), tolerance));
        }
    }
}
