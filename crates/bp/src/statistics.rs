//! Statistics of a block: minimum, maximum, count of finite values, sum, sum of squares.
//!
//! NaN and infinities are ignored; `finite` counts the other values. Values are processed in pieces, so that statistics,
//! checksum and copy share one pass over pieces that fit in the cache ([`crate::pass`]).
//!
//! | type | minimum, maximum | sum |
//! |---|---|---|
//! | whole numbers | exact | exact in 128 bits, as a double in the BP index |
//! | real numbers | exact | in doubles, 16 partial sums |
//! | long double | exact | of the nearest doubles |
//! | complex | of magnitude, real and imaginary part, in doubles | likewise, three of them |
//!
//! Source: Lofstead et al., SAND2009-7763, "data characteristics"; which values BP holds: `docs/format/bp3.md`.

mod fused;

use multiversion::multiversion;
use thalweg_types::checksum::crc32c;
use thalweg_types::value::long_double_to_f64;
use thalweg_types::{ByteOrder, ElementType, Value};

/// Statistics level.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub enum Level {
    /// Nothing.
    Off,
    /// Minimum, maximum, whether any value is finite.
    MinMax,
    /// All statistics; the BP index has those of [`Level::MinMax`], like that of ADIOS 1.13 by default, and count and sums are
    /// stored separately ([`crate::sums`]).
    Beside,
    /// All statistics, in the BP index.
    #[default]
    Full,
}

impl Level {
    /// Every level, from the least to the most.
    pub const ALL: [Level; 4] = [Level::Off, Level::MinMax, Level::Beside, Level::Full];

    /// Whether count, sum and sum of squares are recorded.
    pub const fn has_sums(self) -> bool {
        matches!(self, Level::Beside | Level::Full)
    }
}

/// Sums over the finite values of one real quantity.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct ComponentStatistics {
    /// Smallest value.
    pub min: f64,
    /// Largest value.
    pub max: f64,
    /// Sum.
    pub sum: f64,
    /// Sum of squares.
    pub sum_of_squares: f64,
}

/// Statistics of the values of one block.
#[derive(Debug, Clone, PartialEq)]
pub struct Statistics {
    /// Level, which determines the valid fields.
    pub level: Level,
    /// Smallest finite value, in the variable's type. Without finite values, the type's largest value or infinity, which does
    /// not change the minimum of other blocks: adios2 merges the minima of all blocks, including empty ones.
    pub min: Value,
    /// Largest finite value; without finite values, the type's smallest value or negative infinity.
    pub max: Value,
    /// Number of finite values.
    pub finite: u64,
    /// Their sum.
    pub sum: f64,
    /// The sum of their squares.
    pub sum_of_squares: f64,
    /// Their exact sum, for integer types.
    pub exact_sum: Option<i128>,
    /// Magnitude, real and imaginary part, for complex types.
    pub complex: Option<[ComponentStatistics; 3]>,
}

impl Statistics {
    /// Mean of the finite values.
    pub fn mean(&self) -> Option<f64> {
        (self.finite > 0 && self.level == Level::Full).then(|| self.sum / self.finite as f64)
    }

    /// Standard deviation of the finite values.
    pub fn standard_deviation(&self) -> Option<f64> {
        let mean = self.mean()?;
        Some((self.sum_of_squares / self.finite as f64 - mean * mean).max(0.0).sqrt())
    }
}

/// Partial results in lanes, so that the compiler uses vector registers.
const LANES: usize = 16;
/// Elements between two checks for non-finite values.
const STRETCH: usize = 4096;

#[derive(Debug, Clone, Copy)]
struct Real<T> {
    min: T,
    max: T,
    finite: u64,
    sum: f64,
    squares: f64,
}

#[derive(Debug, Clone, Copy)]
struct Whole<T> {
    min: T,
    max: T,
    count: u64,
    sum: i128,
    squares: f64,
}

/// Elements of one type, added to their statistics in lanes, a stretch at a time.
trait Lanes: Copy {
    /// The statistics.
    type Total;
    /// Bytes of an element.
    const SIZE: usize;

    /// Before the first element of a stretch.
    fn start() -> Self;

    /// Adds at most [`LANES`] elements.
    fn add(&mut self, elements: &[u8]);

    /// Adds the results of a stretch.
    fn finish(self, stretch: &[u8], total: &mut Self::Total);
}

/// Adds whole elements.
#[inline(always)]
fn add<L: Lanes>(bytes: &[u8], total: &mut L::Total) {
    for stretch in bytes.chunks(STRETCH * L::SIZE) {
        let mut lanes = L::start();
        let whole = stretch.chunks_exact(LANES * L::SIZE);
        let rest = whole.remainder();
        whole.for_each(|elements| lanes.add(elements));
        lanes.add(rest);
        lanes.finish(stretch, total);
    }
}

#[derive(Clone, Copy)]
struct RealLanes<T> {
    min: [T; LANES],
    max: [T; LANES],
    sum: [f64; LANES],
    squares: [f64; LANES],
}

macro_rules! real {
    ($name:ident, $type:ty) => {
        impl Lanes for RealLanes<$type> {
            type Total = Real<$type>;
            const SIZE: usize = size_of::<$type>();

            #[inline(always)]
            fn start() -> Self {
                RealLanes {
                    min: [<$type>::INFINITY; LANES],
                    max: [<$type>::NEG_INFINITY; LANES],
                    sum: [0.0; LANES],
                    squares: [0.0; LANES],
                }
            }

            #[inline(always)]
            fn add(&mut self, elements: &[u8]) {
                for (l, bytes) in elements.as_chunks().0.iter().enumerate() {
                    let x = <$type>::from_ne_bytes(*bytes);
                    self.min[l] = if x < self.min[l] { x } else { self.min[l] };
                    self.max[l] = if x > self.max[l] { x } else { self.max[l] };
                    let d = f64::from(x);
                    self.sum[l] += d;
                    self.squares[l] += d * d;
                }
            }

            #[inline(always)]
            fn finish(self, stretch: &[u8], total: &mut Real<$type>) {
                let sum: f64 = self.sum.iter().sum();
                let squares: f64 = self.squares.iter().sum();
                // A NaN, an infinity or an overflow makes the sum of squares non-finite; the slow loop handles all of them.
                if squares.is_finite() {
                    total.sum += sum;
                    total.squares += squares;
                    total.finite += (stretch.len() / Self::SIZE) as u64;
                    for l in 0..LANES {
                        total.min = total.min.min(self.min[l]);
                        total.max = total.max.max(self.max[l]);
                    }
                } else {
                    for bytes in stretch.as_chunks().0 {
                        let x = <$type>::from_ne_bytes(*bytes);
                        if x.is_finite() {
                            total.min = total.min.min(x);
                            total.max = total.max.max(x);
                            total.finite += 1;
                            total.sum += f64::from(x);
                            total.squares += f64::from(x) * f64::from(x);
                        }
                    }
                }
            }
        }

        #[multiversion(targets("x86_64+avx512f", "x86_64+avx2+fma", "aarch64+neon"))]
        fn $name(bytes: &[u8], total: &mut Real<$type>) {
            add::<RealLanes<$type>>(bytes, total);
        }
    };
}
real!(real_f32, f32);
real!(real_f64, f64);

#[derive(Clone, Copy)]
struct WholeLanes<T> {
    min: T,
    max: T,
    /// Two halves, so that sums of 64-bit numbers stay exact without 128-bit arithmetic inside the loop.
    low: u64,
    high: i64,
    squares: [f64; LANES],
}

macro_rules! whole {
    ($name:ident, $type:ty) => {
        impl Lanes for WholeLanes<$type> {
            type Total = Whole<$type>;
            const SIZE: usize = size_of::<$type>();

            #[inline(always)]
            fn start() -> Self {
                WholeLanes { min: <$type>::MAX, max: <$type>::MIN, low: 0, high: 0, squares: [0.0; LANES] }
            }

            #[inline(always)]
            fn add(&mut self, elements: &[u8]) {
                for (l, bytes) in elements.as_chunks().0.iter().enumerate() {
                    let x = <$type>::from_ne_bytes(*bytes);
                    self.min = self.min.min(x);
                    self.max = self.max.max(x);
                    if Self::SIZE == 8 {
                        self.low += (x as u64) & 0xffff_ffff;
                        self.high += if <$type>::MIN == 0 { ((x as u64) >> 32) as i64 } else { (x as i64) >> 32 };
                    } else {
                        self.high += x as i64;
                    }
                    self.squares[l] += x as f64 * x as f64;
                }
            }

            #[inline(always)]
            fn finish(self, stretch: &[u8], total: &mut Whole<$type>) {
                total.min = total.min.min(self.min);
                total.max = total.max.max(self.max);
                total.count += (stretch.len() / Self::SIZE) as u64;
                let (low, high) = (i128::from(self.low), i128::from(self.high));
                total.sum += if Self::SIZE == 8 { (high << 32) + low } else { high };
                total.squares += self.squares.iter().sum::<f64>();
            }
        }

        #[multiversion(targets("x86_64+avx512f+avx512bw+avx512dq+avx512vl", "x86_64+avx2", "aarch64+neon"))]
        fn $name(bytes: &[u8], total: &mut Whole<$type>) {
            add::<WholeLanes<$type>>(bytes, total);
        }
    };
}
whole!(whole_i8, i8);
whole!(whole_i16, i16);
whole!(whole_i32, i32);
whole!(whole_i64, i64);
whole!(whole_u8, u8);
whole!(whole_u16, u16);
whole!(whole_u32, u32);
whole!(whole_u64, u64);

/// A sort key for x86 extended numbers (and IEEE quads) in numerical order.
fn long_double_key(bytes: &[u8; 16]) -> i128 {
    let mut magnitude = [0; 16];
    magnitude[..10].copy_from_slice(&bytes[..10]);
    magnitude[9] &= 0x7f;
    let key = i128::from_le_bytes(magnitude);
    if bytes[9] & 0x80 != 0 { -key } else { key }
}

/// An infinite x86 extended number.
fn long_double_infinity(negative: bool) -> [u8; 16] {
    let mut bytes = [0; 16];
    bytes[7] = 0x80;
    bytes[8] = 0xff;
    bytes[9] = if negative { 0xff } else { 0x7f };
    bytes
}

#[derive(Debug, Clone)]
enum State {
    None,
    F32(Real<f32>),
    F64(Real<f64>),
    I8(Whole<i8>),
    I16(Whole<i16>),
    I32(Whole<i32>),
    I64(Whole<i64>),
    U8(Whole<u8>),
    U16(Whole<u16>),
    U32(Whole<u32>),
    U64(Whole<u64>),
    LongDouble { min: Option<[u8; 16]>, max: Option<[u8; 16]>, sums: Real<f64> },
    Complex { single: bool, parts: [Real<f64>; 3] },
}

/// Computes the statistics of one block from pieces, in this machine's byte order.
#[derive(Debug, Clone)]
pub struct Accumulator {
    level: Level,
    state: State,
}

impl Accumulator {
    /// An accumulator for a block of this type; text and [`Level::Off`] yield no statistics.
    pub fn new(element: ElementType, level: Level) -> Accumulator {
        macro_rules! real {
            ($t:ty) => {
                Real { min: <$t>::INFINITY, max: <$t>::NEG_INFINITY, finite: 0, sum: 0.0, squares: 0.0 }
            };
        }
        macro_rules! whole {
            ($t:ty) => {
                Whole { min: <$t>::MAX, max: <$t>::MIN, count: 0, sum: 0, squares: 0.0 }
            };
        }
        use ElementType::*;
        let state = match element {
            _ if level == Level::Off => State::None,
            F32 => State::F32(real!(f32)),
            F64 => State::F64(real!(f64)),
            I8 => State::I8(whole!(i8)),
            I16 => State::I16(whole!(i16)),
            I32 => State::I32(whole!(i32)),
            I64 => State::I64(whole!(i64)),
            U8 => State::U8(whole!(u8)),
            U16 => State::U16(whole!(u16)),
            U32 => State::U32(whole!(u32)),
            U64 => State::U64(whole!(u64)),
            LongDouble => State::LongDouble { min: None, max: None, sums: real!(f64) },
            Complex | DoubleComplex => State::Complex { single: element == Complex, parts: [real!(f64); 3] },
            String | StringArray | Char => State::None,
        };
        Accumulator { level, state }
    }

    /// Adds a piece, which must consist of whole elements.
    pub fn update(&mut self, bytes: &[u8]) {
        match &mut self.state {
            State::None => {}
            State::F32(t) => real_f32(bytes, t),
            State::F64(t) => real_f64(bytes, t),
            State::I8(t) => whole_i8(bytes, t),
            State::I16(t) => whole_i16(bytes, t),
            State::I32(t) => whole_i32(bytes, t),
            State::I64(t) => whole_i64(bytes, t),
            State::U8(t) => whole_u8(bytes, t),
            State::U16(t) => whole_u16(bytes, t),
            State::U32(t) => whole_u32(bytes, t),
            State::U64(t) => whole_u64(bytes, t),
            State::LongDouble { min, max, sums } => {
                for b in bytes.chunks_exact(16) {
                    let mut x = [0; 16];
                    x.copy_from_slice(b);
                    if u16::from_le_bytes([x[8], x[9]]) & 0x7fff == 0x7fff {
                        continue;
                    }
                    if min.as_ref().is_none_or(|m| long_double_key(&x) < long_double_key(m)) {
                        *min = Some(x);
                    }
                    if max.as_ref().is_none_or(|m| long_double_key(&x) > long_double_key(m)) {
                        *max = Some(x);
                    }
                    let d = long_double_to_f64(&x);
                    sums.finite += 1;
                    sums.sum += d;
                    sums.squares += d * d;
                }
            }
            State::Complex { single, parts } => {
                let half = if *single { 4 } else { 8 };
                let read = |b: &[u8]| {
                    let t = if *single { ElementType::F32 } else { ElementType::F64 };
                    Value::from_bytes(t, b, ByteOrder::NATIVE).and_then(|v| v.as_f64()).unwrap_or(f64::NAN)
                };
                for b in bytes.chunks_exact(2 * half) {
                    let (re, im) = (read(&b[..half]), read(&b[half..]));
                    if !re.is_finite() || !im.is_finite() {
                        continue;
                    }
                    for (part, x) in parts.iter_mut().zip([re.hypot(im), re, im]) {
                        part.min = part.min.min(x);
                        part.max = part.max.max(x);
                        part.finite += 1;
                        part.sum += x;
                        part.squares += x * x;
                    }
                }
            }
        }
    }

    /// As [`Accumulator::update`], and returns the CRC-32C of the piece: of most types in one loop, which reads each register's worth
    /// of bytes once.
    pub fn update_with_checksum(&mut self, bytes: &[u8]) -> u32 {
        let in_one_loop = match &mut self.state {
            State::F32(t) => fused::add::<RealLanes<f32>>(bytes, t),
            State::F64(t) => fused::add::<RealLanes<f64>>(bytes, t),
            State::I8(t) => fused::add::<WholeLanes<i8>>(bytes, t),
            State::I16(t) => fused::add::<WholeLanes<i16>>(bytes, t),
            State::I32(t) => fused::add::<WholeLanes<i32>>(bytes, t),
            State::I64(t) => fused::add::<WholeLanes<i64>>(bytes, t),
            State::U8(t) => fused::add::<WholeLanes<u8>>(bytes, t),
            State::U16(t) => fused::add::<WholeLanes<u16>>(bytes, t),
            State::U32(t) => fused::add::<WholeLanes<u32>>(bytes, t),
            State::U64(t) => fused::add::<WholeLanes<u64>>(bytes, t),
            State::None | State::LongDouble { .. } | State::Complex { .. } => None,
        };
        in_one_loop.unwrap_or_else(|| {
            self.update(bytes);
            crc32c(bytes)
        })
    }

    /// The statistics of all pieces; `None` for types and levels without statistics.
    pub fn finish(self) -> Option<Statistics> {
        let level = self.level;
        macro_rules! real {
            ($t:expr, $v:ident) => {
                Statistics {
                    level,
                    min: Value::$v($t.min),
                    max: Value::$v($t.max),
                    finite: $t.finite,
                    sum: $t.sum,
                    sum_of_squares: $t.squares,
                    exact_sum: None,
                    complex: None,
                }
            };
        }
        macro_rules! whole {
            ($t:expr, $v:ident) => {
                Statistics {
                    level,
                    min: Value::$v($t.min),
                    max: Value::$v($t.max),
                    finite: $t.count,
                    sum: $t.sum as f64,
                    sum_of_squares: $t.squares,
                    exact_sum: Some($t.sum),
                    complex: None,
                }
            };
        }
        Some(match self.state {
            State::None => return None,
            State::F32(t) => real!(t, F32),
            State::F64(t) => real!(t, F64),
            State::I8(t) => whole!(t, I8),
            State::I16(t) => whole!(t, I16),
            State::I32(t) => whole!(t, I32),
            State::I64(t) => whole!(t, I64),
            State::U8(t) => whole!(t, U8),
            State::U16(t) => whole!(t, U16),
            State::U32(t) => whole!(t, U32),
            State::U64(t) => whole!(t, U64),
            State::LongDouble { min, max, sums } => Statistics {
                level,
                min: Value::LongDouble(min.unwrap_or(long_double_infinity(false))),
                max: Value::LongDouble(max.unwrap_or(long_double_infinity(true))),
                finite: sums.finite,
                sum: sums.sum,
                sum_of_squares: sums.squares,
                exact_sum: None,
                complex: None,
            },
            State::Complex { single, parts } => {
                let zero = if single { Value::Complex([0.0; 2]) } else { Value::DoubleComplex([0.0; 2]) };
                let part = |t: &Real<f64>| {
                    let none = t.finite == 0;
                    ComponentStatistics {
                        min: if none { 0.0 } else { t.min },
                        max: if none { 0.0 } else { t.max },
                        sum: t.sum,
                        sum_of_squares: t.squares,
                    }
                };
                Statistics {
                    level,
                    min: zero.clone(),
                    max: zero,
                    finite: parts[0].finite,
                    sum: 0.0,
                    sum_of_squares: 0.0,
                    exact_sum: None,
                    complex: Some([part(&parts[0]), part(&parts[1]), part(&parts[2])]),
                }
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn of<const N: usize>(element: ElementType, values: impl IntoIterator<Item = [u8; N]>) -> Statistics {
        let bytes: Vec<u8> = values.into_iter().flatten().collect();
        let mut all = Accumulator::new(element, Level::Full);
        all.update(&bytes);
        all.finish().unwrap()
    }

    #[test]
    fn nan_and_infinity_stay_out_and_are_counted() {
        let values = [f64::NAN, 3.0, f64::INFINITY, -1.0, f64::NEG_INFINITY];
        let s = of(ElementType::F64, values.map(f64::to_ne_bytes));
        assert_eq!(
            (s.min, s.max, s.finite, s.sum, s.sum_of_squares),
            (Value::F64(-1.0), Value::F64(3.0), 2, 2.0, 10.0)
        );
    }

    #[test]
    fn sums_of_whole_numbers_are_exact() {
        let s = of(ElementType::U64, [u64::MAX; 3].map(u64::to_ne_bytes));
        assert_eq!(s.exact_sum, Some(3 * i128::from(u64::MAX)));
        let s = of(ElementType::I64, [i64::MIN, i64::MIN, -1].map(i64::to_ne_bytes));
        assert_eq!(s.exact_sum, Some(2 * i128::from(i64::MIN) - 1));
        assert_eq!((s.min, s.max), (Value::I64(i64::MIN), Value::I64(-1)));
    }

    #[test]
    fn bounds_of_nothing_change_no_other_bounds() {
        let s = of(ElementType::F32, [f32::NAN; 2].map(f32::to_ne_bytes));
        assert_eq!((s.min, s.max, s.finite), (Value::F32(f32::INFINITY), Value::F32(f32::NEG_INFINITY), 0));
        let s = of::<2>(ElementType::I16, []);
        assert_eq!((s.min, s.max, s.finite), (Value::I16(i16::MAX), Value::I16(i16::MIN), 0));
        let s = of::<16>(ElementType::LongDouble, []);
        let [min, max] = [s.min, s.max].map(|v| match v {
            Value::LongDouble(bytes) => long_double_to_f64(&bytes),
            other => panic!("{other}"),
        });
        assert_eq!((min, max), (f64::INFINITY, f64::NEG_INFINITY));
        assert!(Accumulator::new(ElementType::String, Level::Full).finish().is_none());
    }

    #[test]
    fn complex_numbers_have_three_parts() {
        let s = of(
            ElementType::DoubleComplex,
            [[3.0f64, -4.0], [0.0, 1.0]].map(|[a, b]| {
                let mut w = [0; 16];
                w[..8].copy_from_slice(&a.to_ne_bytes());
                w[8..].copy_from_slice(&b.to_ne_bytes());
                w
            }),
        );
        let [magnitude, real, imaginary] = s.complex.unwrap();
        assert_eq!((magnitude.min, magnitude.max), (1.0, 5.0));
        assert_eq!((real.min, real.max, real.sum), (0.0, 3.0, 3.0));
        assert_eq!((imaginary.min, imaginary.max), (-4.0, 1.0));
    }

    proptest! {
        #[test]
        fn lanes_agree_with_one_value_after_the_other(values in prop::collection::vec(any::<f64>(), 0..10_000), cut in 0usize..10_000) {
            let bytes: Vec<u8> = values.iter().flat_map(|v| v.to_ne_bytes()).collect();
            let mut all = Accumulator::new(ElementType::F64, Level::Full);
            let cut = cut.min(values.len()) * 8;
            all.update(&bytes[..cut]);
            all.update(&bytes[cut..]);
            let s = all.finish().unwrap();
            let finite: Vec<f64> = values.iter().copied().filter(|v| v.is_finite()).collect();
            prop_assert_eq!(s.finite, finite.len() as u64);
            if !finite.is_empty() {
                prop_assert_eq!(s.min, Value::F64(finite.iter().copied().fold(f64::INFINITY, f64::min)));
                prop_assert_eq!(s.max, Value::F64(finite.iter().copied().fold(f64::NEG_INFINITY, f64::max)));
            }
        }

        #[test]
        fn short_numbers_agree_with_wide_arithmetic(values in prop::collection::vec(any::<i16>(), 0..9_000)) {
            let s = of(ElementType::I16, values.iter().map(|v| v.to_ne_bytes()));
            prop_assert_eq!(s.exact_sum, Some(values.iter().map(|v| i128::from(*v)).sum()));
            if let Some(min) = values.iter().min() {
                prop_assert_eq!(s.min, Value::I16(*min));
            }
        }
    }
}
