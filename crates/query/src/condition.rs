//! One comparison, prepared for values of one type.
//!
//! Every type is compared in its own arithmetic. The number of the query is rounded down to `t`, the greatest value of that type
//! that does not exceed it: `x > t` is above the number, `x < t` below, and `t` itself below or equal.
//!
//! | type | compared as |
//! |---|---|
//! | whole numbers | the number, exactly, also at the ends of 64 bits |
//! | single | the shortest decimal that is printed for it: the single nearest to 0.1 equals 0.1 |
//! | double | the number, exactly |
//! | long double | the nearest double |
//! | complex | the magnitude, as a double |

use crate::number::Number;
use crate::predicate::summary::{BlockFacts, Bounds};
use crate::predicate::{between, summary};
use crate::{Answer, Operator, facts};
use std::cmp::Ordering;
use thalweg_bp::statistics::Level;
use thalweg_reader::Block;
use thalweg_types::value::long_double_to_f64;
use thalweg_types::{ElementType, Error, ErrorKind, Result, Value};

/// How comparisons treat NaN and infinities.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum NonFinite {
    /// As IEEE 754 does: infinities lie beyond every number; NaN is unequal to every number and neither above nor below it.
    #[default]
    Compared,
    /// They match nothing, in accordance with the characteristics, which exclude them.
    Left,
}

/// An operator, a number and a type.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Condition {
    element: ElementType,
    operator: Operator,
    number: Number,
    non_finite: NonFinite,
    /// Whether values below and above match, and NaN.
    below: bool,
    above: bool,
    nan: bool,
}

impl Condition {
    /// The condition for values of this type.
    ///
    /// # Errors
    /// `InvalidArgument` for texts, and for NaN.
    pub fn new(element: ElementType, operator: Operator, number: Number, non_finite: NonFinite) -> Result<Condition> {
        if element.is_text() {
            return Err(Error::new(ErrorKind::InvalidArgument, "text can't be compared with a number"));
        }
        if number.is_nan() {
            return Err(Error::new(ErrorKind::InvalidArgument, "NaN cannot be compared: give a number"));
        }
        let (below, above) = (operator.holds(Ordering::Less), operator.holds(Ordering::Greater));
        let nan = operator == Operator::NotEqual && non_finite == NonFinite::Compared;
        Ok(Condition { element, operator, number, non_finite, below, above, nan })
    }

    /// Bytes of one value.
    pub fn size(&self) -> usize {
        self.element.size() as usize
    }

    /// Evaluates the condition for each value.
    ///
    /// - `bytes`: values in this machine's byte order; as many as `out` is long.
    pub fn look(&self, bytes: &[u8], out: &mut [bool]) {
        match self.element {
            ElementType::I8 | ElementType::Char => self.whole(bytes, out, i8::MIN, i8::MAX, i8::from_ne_bytes),
            ElementType::I16 => self.whole(bytes, out, i16::MIN, i16::MAX, i16::from_ne_bytes),
            ElementType::I32 => self.whole(bytes, out, i32::MIN, i32::MAX, i32::from_ne_bytes),
            ElementType::I64 => self.whole(bytes, out, i64::MIN, i64::MAX, i64::from_ne_bytes),
            ElementType::U8 => self.whole(bytes, out, u8::MIN, u8::MAX, u8::from_ne_bytes),
            ElementType::U16 => self.whole(bytes, out, u16::MIN, u16::MAX, u16::from_ne_bytes),
            ElementType::U32 => self.whole(bytes, out, u32::MIN, u32::MAX, u32::from_ne_bytes),
            ElementType::U64 => self.whole(bytes, out, u64::MIN, u64::MAX, u64::from_ne_bytes),
            ElementType::F32 => {
                let (t, order) = greatest_single(self.number);
                let skip = self.non_finite == NonFinite::Left;
                let equal = self.operator.holds(order);
                each(bytes, out, f32::from_ne_bytes, |x| {
                    if skip && !x.is_finite() { false } else { self.real(x.partial_cmp(&t), equal) }
                });
            }
            ElementType::F64 => self.doubles(bytes, out, |b: [u8; 8]| {
                let x = f64::from_ne_bytes(b);
                (x, x.is_finite())
            }),
            ElementType::LongDouble => self.doubles(bytes, out, |b: [u8; 16]| {
                (long_double_to_f64(&b), u16::from_le_bytes([b[8], b[9]]) & 0x7fff != 0x7fff)
            }),
            ElementType::Complex => self.doubles(bytes, out, |b: [u8; 8]| {
                let [re, im] = [[b[0], b[1], b[2], b[3]], [b[4], b[5], b[6], b[7]]].map(f32::from_ne_bytes);
                (f64::from(re).hypot(f64::from(im)), re.is_finite() && im.is_finite())
            }),
            ElementType::DoubleComplex => self.doubles(bytes, out, |b: [u8; 16]| {
                let (mut re, mut im) = ([0; 8], [0; 8]);
                re.copy_from_slice(&b[..8]);
                im.copy_from_slice(&b[8..]);
                let (re, im) = (f64::from_ne_bytes(re), f64::from_ne_bytes(im));
                (re.hypot(im), re.is_finite() && im.is_finite())
            }),
            ElementType::String | ElementType::StringArray => out.fill(false),
        }
    }

    fn whole<const N: usize, T: Copy + Ord + Into<i128> + TryFrom<i128>>(
        &self,
        bytes: &[u8],
        out: &mut [bool],
        least: T,
        most: T,
        read: impl Fn([u8; N]) -> T,
    ) {
        let below = match self.number {
            Number::Whole(n) => n,
            // The cast is exact below 2^127 and clamps beyond.
            Number::Real(r) => r.floor() as i128,
        };
        let (t, order) = match T::try_from(below) {
            Ok(t) => (t, Number::Whole(below).compare(self.number)),
            Err(_) if below < 0 => (least, Ordering::Greater),
            Err(_) => (most, Ordering::Less),
        };
        let equal = self.operator.holds(order);
        each(bytes, out, read, |x| match x.cmp(&t) {
            Ordering::Less => self.below,
            Ordering::Equal => equal,
            Ordering::Greater => self.above,
        });
    }

    fn doubles<const N: usize>(&self, bytes: &[u8], out: &mut [bool], read: impl Fn([u8; N]) -> (f64, bool)) {
        let (t, order) = greatest_double(self.number);
        let skip = self.non_finite == NonFinite::Left;
        let equal = self.operator.holds(order);
        each(bytes, out, read, |(x, finite)| if skip && !finite { false } else { self.real(x.partial_cmp(&t), equal) });
    }

    #[inline]
    fn real(&self, order: Option<Ordering>, equal: bool) -> bool {
        match order {
            Some(Ordering::Less) => self.below,
            Some(Ordering::Equal) => equal,
            Some(Ordering::Greater) => self.above,
            None => self.nan,
        }
    }

    /// The answer from the characteristics of a block: `Yes` if all its values match, `No` if none does.
    pub fn answer(&self, block: &Block) -> Answer {
        if let Some(value) = &block.value {
            return self.answer_value(value);
        }
        let elements = block.elements();
        if !block.describes_what_is_read() {
            return Answer::Maybe;
        }
        let (min, max) = match facts::of(block, self.element) {
            BlockFacts::Known { min, max, .. } => (min, max),
            // Nothing finite, or no elements at all.
            BlockFacts::Nothing if elements == 0 || self.non_finite == NonFinite::Left => return Answer::No,
            BlockFacts::Nothing => (Number::GREATEST, Number::LEAST),
            BlockFacts::Unknown { .. } | BlockFacts::Text(_) => return Answer::Maybe,
        };
        let empty = min.compare(max).is_gt();
        let bounds = if self.element.is_complex() { widened(min, max) } else { Bounds::new(min, max) };
        let (all, none) =
            if empty { (true, true) } else { between(bounds, self.operator, Bounds::exactly(self.number)) };
        let beside = self.beside(block, elements);
        match (self.non_finite, beside) {
            (_, Beside::Nothing) => Answer::of(all, none),
            (NonFinite::Left, _) => Answer::of(false, none),
            (NonFinite::Compared, Beside::Nan) => Answer::of(all && self.nan, none && !self.nan),
            (NonFinite::Compared, Beside::Anything) => {
                let infinite = |r: f64| self.operator.holds(Number::Real(r).compare(self.number));
                let (low, high) = (infinite(f64::NEG_INFINITY), infinite(f64::INFINITY));
                Answer::of(all && self.nan && low && high, none && !self.nan && !low && !high)
            }
        }
    }

    /// Whether a value matches.
    pub fn answer_value(&self, value: &Value) -> Answer {
        let (mut bytes, mut out) = (Vec::new(), [false]);
        value.append_to(&mut bytes);
        if value.element_type() != self.element || bytes.len() != self.size() {
            return Answer::Maybe;
        }
        self.look(&bytes, &mut out);
        if out[0] { Answer::Yes } else { Answer::No }
    }

    /// The values that a block may contain outside of its minimum and maximum.
    fn beside(&self, block: &Block, elements: u64) -> Beside {
        let whole = self.element.is_integer() || self.element == ElementType::Char;
        let Some(s) = block.statistics.as_ref().filter(|_| !whole) else { return Beside::Nothing };
        match s.level {
            // The number of finite values is not recorded, only whether there are any; but in files of adios2, whose number is
            // that of all values, infinities are inside the bounds.
            Level::MinMax if s.finite == elements && elements > 1 => Beside::Nan,
            _ if s.finite == elements => Beside::Nothing,
            _ => Beside::Anything,
        }
    }

    /// Estimated fraction of a block's values that match, assuming an even distribution between minimum and maximum.
    pub fn share(&self, block: &Block) -> f64 {
        match self.answer(block) {
            Answer::Yes => return 1.0,
            Answer::No => return 0.0,
            Answer::Maybe => {}
        }
        let BlockFacts::Known { min, max, .. } = facts::of(block, self.element) else { return 0.5 };
        let (min, max, at) = (min.as_f64(), max.as_f64(), self.number.as_f64());
        // Halved first, because the difference of the extremes may exceed the range of a double.
        let below = ((at / 2.0 - min / 2.0) / (max / 2.0 - min / 2.0)).clamp(0.0, 1.0);
        let below = if below.is_nan() { 0.5 } else { below };
        let equal = 1.0 / (block.elements() as f64).max(1.0);
        match self.operator {
            Operator::Less | Operator::LessOrEqual => below,
            Operator::Greater | Operator::GreaterOrEqual => 1.0 - below,
            Operator::Equal => equal,
            Operator::NotEqual => 1.0 - equal,
        }
    }
}

/// The non-finite values of a block.
enum Beside {
    Nothing,
    Nan,
    Anything,
}

/// Bounds of magnitudes that another library may have rounded in another way.
fn widened(min: Number, max: Number) -> summary::Bounds {
    const SLACK: f64 = 1e-6;
    let (min, max) = (min.as_f64(), max.as_f64());
    Bounds::new(Number::Real(min - min.abs() * SLACK), Number::Real(max + max.abs() * SLACK))
}

fn each<const N: usize, T>(bytes: &[u8], out: &mut [bool], read: impl Fn([u8; N]) -> T, holds: impl Fn(T) -> bool) {
    for (b, o) in bytes.as_chunks::<N>().0.iter().zip(out) {
        *o = holds(read(*b));
    }
}

/// The greatest double that is not above a number, and how they compare.
fn greatest_double(number: Number) -> (f64, Ordering) {
    let mut t = number.as_f64();
    let compare = |t: f64| Number::Real(t).compare(number);
    while compare(t).is_gt() {
        t = t.next_down();
    }
    while t < f64::INFINITY && compare(t.next_up()).is_le() {
        t = t.next_up();
    }
    (t, compare(t))
}

/// The same of singles.
fn greatest_single(number: Number) -> (f32, Ordering) {
    let mut t = number.as_f64() as f32;
    let compare = |t: f32| Number::of(&Value::F32(t)).map_or(Ordering::Equal, |n| n.compare(number));
    while compare(t).is_gt() {
        t = t.next_down();
    }
    while t < f32::INFINITY && compare(t.next_up()).is_le() {
        t = t.next_up();
    }
    (t, compare(t))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const OPERATORS: [Operator; 6] = [
        Operator::Less,
        Operator::LessOrEqual,
        Operator::Greater,
        Operator::GreaterOrEqual,
        Operator::Equal,
        Operator::NotEqual,
    ];

    fn matches(value: &Value, operator: Operator, number: Number) -> bool {
        let condition = Condition::new(value.element_type(), operator, number, NonFinite::Compared).unwrap();
        condition.answer_value(value) == Answer::Yes
    }

    /// The result from the numbers themselves.
    fn plainly(value: &Value, operator: Operator, number: Number) -> bool {
        let of = match value {
            Value::Complex([re, im]) => Number::Real(f64::from(*re).hypot(f64::from(*im))),
            Value::DoubleComplex([re, im]) => Number::Real(re.hypot(*im)),
            other => Number::of(other).unwrap(),
        };
        if of.is_nan() { operator == Operator::NotEqual } else { operator.holds(of.compare(number)) }
    }

    fn values() -> impl Strategy<Value = Value> {
        prop_oneof![
            any::<i8>().prop_map(Value::I8),
            any::<u16>().prop_map(Value::U16),
            prop_oneof![any::<i64>(), Just(i64::MIN), Just(i64::MAX)].prop_map(Value::I64),
            prop_oneof![any::<u64>(), Just(u64::MAX), Just(0)].prop_map(Value::U64),
            any::<f32>().prop_map(Value::F32),
            any::<f64>().prop_map(Value::F64),
            (-9i16..9).prop_map(|v| Value::F64(f64::from(v) / 2.0)),
            (-9i16..9).prop_map(|v| Value::F32(f32::from(v) / 2.0)),
            any::<[f32; 2]>().prop_map(Value::Complex),
            any::<[f64; 2]>().prop_map(Value::DoubleComplex),
        ]
    }

    proptest! {
        #[test]
        fn every_type_compares_as_numbers_do(a in values(), b in values(), near in -1i128..2, o in 0usize..6) {
            for of in [&a, &b] {
                let Some(number) = Number::of(of).filter(|n| !n.is_nan()) else { continue };
                let number = match number {
                    Number::Whole(n) => Number::Whole(n + near),
                    real => real,
                };
                prop_assert_eq!(matches(&a, OPERATORS[o], number), plainly(&a, OPERATORS[o], number), "{} {:?}", a, number);
            }
        }
    }

    #[test]
    fn the_ends_of_64_bits_are_compared_exactly() {
        let most = Number::Whole(i128::from(u64::MAX));
        assert!(matches(&Value::U64(u64::MAX), Operator::Equal, most));
        assert!(matches(&Value::U64(u64::MAX - 1), Operator::Less, most));
        assert!(matches(&Value::U64(u64::MAX), Operator::Less, Number::Real(18_446_744_073_709_551_616.0)));
        assert!(!matches(&Value::I64(i64::MAX), Operator::Equal, Number::Real(9_223_372_036_854_775_808.0)));
        assert!(matches(&Value::I64(i64::MIN), Operator::Equal, Number::Real(-9_223_372_036_854_775_808.0)));
        assert!(matches(&Value::I64((1 << 53) + 1), Operator::Greater, Number::Real(9_007_199_254_740_992.0)));
        assert!(matches(&Value::I64(i64::MIN), Operator::Greater, Number::LEAST));
        assert!(matches(&Value::U8(3), Operator::Greater, Number::Real(2.5)));
        assert!(matches(&Value::U8(0), Operator::Greater, Number::Whole(-1)));
    }

    #[test]
    fn not_a_number_differs_from_every_number_and_that_is_all() {
        for operator in OPERATORS {
            let nan = matches(&Value::F64(f64::NAN), operator, Number::Whole(1));
            assert_eq!(nan, operator == Operator::NotEqual, "{operator:?}");
        }
        assert!(matches(&Value::F32(f32::INFINITY), Operator::Greater, Number::Real(1e300)));
        assert!(matches(&Value::Complex([f32::NEG_INFINITY, 0.0]), Operator::Equal, Number::GREATEST));
        assert!(Condition::new(ElementType::F64, Operator::Equal, Number::Real(f64::NAN), NonFinite::Left).is_err());
    }

    #[test]
    fn singles_are_the_numbers_typed_for_them() {
        assert!(matches(&Value::F32(0.1), Operator::Equal, Number::Real(0.1)));
        assert!(!matches(&Value::F32(0.1f32.next_up()), Operator::Equal, Number::Real(0.1)));
        assert!(matches(&Value::F32(f32::MAX), Operator::Less, Number::Real(1e39)));
        assert!(!matches(&Value::F32(f32::INFINITY), Operator::Less, Number::Real(1e39)));
    }
}
