//! Error bounds: loss that is measured when a block is written.
//!
//! A transform with an error bound encodes a block, decodes it again as a reader does, and computes the largest error. If it exceeds the
//! bound, the block is stored without loss. The block's [`ErrorRecord`] tells bound, largest error and form.
//!
//! | bound | parameter | holds for each value `x` and the value `y` that a reader gets |
//! |---|---|---|
//! | absolute | `error=E` | `abs(x - y) <= E` |
//! | relative to the value range | `relative_error=R` | `abs(x - y) <= R * (max - min)`, with the extremes of the block's values |
//!
//! - The range of a block is not larger than that of its array: a relative bound holds for the range of the array, too.
//! - The largest error is rounded up to a double: no error is larger than the recorded one.
//! - Complex numbers are two values each. A zero may lose its sign.
//! - A block with a NaN or an infinity is stored without loss, bit for bit, as are blocks without a range if the bound is relative to it.
//!
//! The error record is at the end of the transform's metadata, behind the metadata that the transform itself has:
//!
//! | byte | size | field |
//! |---|---|---|
//! | 0 | 8 | f64 absolute error that the bound allows in this block |
//! | 8 | 8 | f64 largest absolute error; 0 for a block without loss |
//! | 16 | 8 | f64 range: maximum - minimum of the values; NaN if it is not known, because of values that are not finite, or without memory |
//! | 24 | 8 | f64 the bound as given |
//! | 32 | 1 | kind of the bound: 0 absolute, 1 relative to the range |
//! | 33 | 1 | form of the block: 0 encoded with loss, 1 unchanged, 2 pco |
//! | 34 | 1 | why it is without loss: 0 it is not, or is empty; 1 values that are not finite; 2 no range; 3 the bound would not hold; 4 not smaller; 5 no memory |
//! | 35 | 5 | 0 |
//! | 40 | 8 | magic, the number 0x5457_4552_524f_5231 |
//!
//! Numbers are in the byte order of the file, which the magic shows.

use crate::codec::{Codec, ERROR, Encode, RELATIVE_ERROR, pco};
use crate::{Block, Stored, corrupt, fields};
use std::fmt;
use thalweg_params::Parameters;
use thalweg_types::{ByteOrder, ElementType, Result};

/// Bytes of an error record.
pub const RECORD: usize = 48;
const MAGIC: u64 = 0x5457_4552_524f_5231;

/// The largest error that is allowed.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum ErrorBound {
    /// Of each value, in the unit of the variable.
    Absolute(f64),
    /// Of each value, as a fraction of the range of the block's values: maximum - minimum.
    Relative(f64),
}

impl ErrorBound {
    /// The bound of a transform's parameters.
    ///
    /// # Errors
    /// `Config` for bounds that are no numbers above 0, and for two bounds.
    pub fn of(given: &Parameters) -> Result<Option<ErrorBound>> {
        match (given.get(&ERROR)?, given.get(&RELATIVE_ERROR)?) {
            (Some(_), Some(_)) => Err(given.wrong("expected one of error=X and relative_error=X")),
            (Some(error), None) => Ok(Some(ErrorBound::Absolute(error))),
            (None, relative) => Ok(relative.map(ErrorBound::Relative)),
        }
    }

    /// Its number.
    pub fn value(self) -> f64 {
        let (ErrorBound::Absolute(value) | ErrorBound::Relative(value)) = self;
        value
    }

    /// The absolute error that it allows in a block of this range.
    pub fn allowed(self, range: f64) -> f64 {
        match self {
            ErrorBound::Absolute(error) => error,
            ErrorBound::Relative(fraction) => fraction * range,
        }
    }
}

impl fmt::Display for ErrorBound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ErrorBound::Absolute(error) => write!(f, "{error:?}"),
            ErrorBound::Relative(fraction) => write!(f, "{fraction:?} of the range"),
        }
    }
}

/// The form in which a block with an error bound is stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BoundedForm {
    /// Encoded by its transform, with loss.
    Encoded = 0,
    /// Its values.
    Plain = 1,
    /// A standalone file of Pcodec, without loss.
    Pco = 2,
}

/// Why a block with an error bound is stored without loss.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lossless {
    /// Some of its values are not finite.
    NotFinite = 1,
    /// Its bound is relative to the range of its values, which is 0 or more than the largest double.
    NoRange = 2,
    /// The transform would exceed the bound.
    Exceeded = 3,
    /// The transform would not make it smaller.
    NotSmaller = 4,
    /// The buffer limit left no room to encode it and to decode it again.
    NoRoom = 5,
}

impl fmt::Display for Lossless {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Lossless::NotFinite => "values that are not finite",
            Lossless::NoRange => "no range",
            Lossless::Exceeded => "the bound would not hold",
            Lossless::NotSmaller => "not smaller with loss",
            Lossless::NoRoom => "no room in the buffer",
        })
    }
}

/// The recorded error of one block.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ErrorRecord {
    /// The bound as given.
    pub bound: ErrorBound,
    /// The absolute error that it allows in this block.
    pub allowed: f64,
    /// Largest absolute error of its values, rounded up; 0 without loss.
    pub largest: f64,
    /// Maximum - minimum of its values; NaN if it is not known.
    pub range: f64,
    /// Its form.
    pub form: BoundedForm,
    /// Why it is without loss; `None` if it is not, or if it is empty.
    pub lossless: Option<Lossless>,
}

impl ErrorRecord {
    /// The record of a block without loss.
    fn without_loss(bound: ErrorBound, range: f64, form: BoundedForm, lossless: Option<Lossless>) -> ErrorRecord {
        ErrorRecord { bound, allowed: bound.allowed(range), largest: 0.0, range, form, lossless }
    }

    /// The record of a block that is stored unchanged for lack of memory.
    pub(crate) fn without_room(bound: ErrorBound) -> ErrorRecord {
        ErrorRecord::without_loss(bound, f64::NAN, BoundedForm::Plain, Some(Lossless::NoRoom))
    }

    /// Appends the record to a transform's metadata.
    pub fn append_to(&self, metadata: &mut Vec<u8>) {
        for number in [self.allowed, self.largest, self.range, self.bound.value()] {
            metadata.extend_from_slice(&number.to_ne_bytes());
        }
        let relative = matches!(self.bound, ErrorBound::Relative(_));
        metadata.extend_from_slice(&[u8::from(relative), self.form as u8, self.lossless.map_or(0, |l| l as u8)]);
        metadata.extend_from_slice(&[0; 5]);
        metadata.extend_from_slice(&MAGIC.to_ne_bytes());
    }

    /// Separates a block's metadata: those of the transform itself, and the record. `None` for metadata without a record.
    ///
    /// # Errors
    /// `Corrupt` for a record whose kind or form is unknown.
    pub fn split(metadata: &[u8]) -> Result<Option<(&[u8], ErrorRecord)>> {
        let Some((own, record)) = metadata.len().checked_sub(RECORD).map(|at| metadata.split_at(at)) else {
            return Ok(None);
        };
        let order = match fields::u64_at(record, 40, ByteOrder::Little)? {
            MAGIC => ByteOrder::Little,
            other if other.swap_bytes() == MAGIC => ByteOrder::Big,
            _ => return Ok(None),
        };
        let number = |at| fields::u64_at(record, at, order).map(f64::from_bits);
        let value = number(24)?;
        let unknown = |what: &str, code: u8| Err(corrupt(format!("{what} {code} in an error record")));
        let bound = match record[32] {
            0 => ErrorBound::Absolute(value),
            1 => ErrorBound::Relative(value),
            other => return unknown("bound", other),
        };
        let form = match record[33] {
            0 => BoundedForm::Encoded,
            1 => BoundedForm::Plain,
            2 => BoundedForm::Pco,
            other => return unknown("form", other),
        };
        let lossless = match record[34] {
            0 => None,
            1 => Some(Lossless::NotFinite),
            2 => Some(Lossless::NoRange),
            3 => Some(Lossless::Exceeded),
            4 => Some(Lossless::NotSmaller),
            5 => Some(Lossless::NoRoom),
            other => return unknown("reason", other),
        };
        let record =
            ErrorRecord { bound, allowed: number(0)?, largest: number(8)?, range: number(16)?, form, lossless };
        Ok(Some((own, record)))
    }

    /// Checks that the fields do not contradict each other, and that the largest error keeps to the bound.
    ///
    /// # Errors
    /// `Corrupt`, with what contradicts.
    pub fn check(&self) -> Result<()> {
        let ErrorRecord { bound, allowed, largest, range, form, .. } = *self;
        let same = |a: f64, b: f64| a == b || a.is_nan() && b.is_nan();
        let sound = bound.value() > 0.0 && bound.value().is_finite();
        if !sound {
            return Err(corrupt(format!("an error record has the bound {bound}")));
        }
        if range < 0.0 || !same(allowed, bound.allowed(range)) {
            return Err(corrupt(format!(
                "an error record allows {allowed:?} where the bound is {bound}, of {range:?}"
            )));
        }
        match form {
            BoundedForm::Encoded if !(0.0..=allowed).contains(&largest) => {
                Err(corrupt(format!("the recorded error of {largest:?} exceeds the bound of {allowed:?}")))
            }
            BoundedForm::Encoded if self.lossless.is_some() => Err(corrupt("a block with loss is said to have none")),
            BoundedForm::Plain | BoundedForm::Pco if largest != 0.0 => {
                Err(corrupt(format!("an error of {largest:?} is recorded for a block without loss")))
            }
            _ => Ok(()),
        }
    }
}

/// A block that was encoded within its error bound.
#[derive(Debug, Clone, PartialEq)]
pub struct Bounded {
    /// Bytes of output; for [`BoundedForm::Plain`] none: the block is stored unchanged.
    pub length: usize,
    /// Metadata stored with the block, the record included.
    pub metadata: Vec<u8>,
    /// Bound, largest error and form.
    pub record: ErrorRecord,
}

/// Encodes a block, decodes it, measures the largest error, and decides on the form of the block.
///
/// - `codec`, `encoder`: the transform. An error of either makes the block lossless.
/// - `bytes`: the values, in this machine's byte order.
/// - `out`: room for the output. `back`: as long as `bytes`; contains the values that readers get if the form is
///   [`BoundedForm::Encoded`], else anything.
///
/// # Errors
/// Those of [`Encode::lossless_metadata`].
/// # Cost
/// Two passes over the values, an encoding and a decoding; for a lossless block an encoding through pco.
pub fn encode(
    bound: ErrorBound,
    codec: &dyn Codec,
    encoder: &dyn Encode,
    block: &Block<'_>,
    bytes: &[u8],
    out: &mut [u8],
    back: &mut [u8],
) -> Result<Bounded> {
    let mut range = f64::NAN;
    let lossless = if bytes.is_empty() {
        range = 0.0;
        None
    } else if let Some(known) = range_of(block.element, bytes) {
        range = known;
        match within(bound.allowed(range), codec, encoder, block, bytes, out, back) {
            Ok((length, mut metadata, largest)) => {
                let allowed = bound.allowed(range);
                let record = ErrorRecord { bound, allowed, largest, range, form: BoundedForm::Encoded, lossless: None };
                record.append_to(&mut metadata);
                return Ok(Bounded { length, metadata, record });
            }
            Err(reason) => Some(reason),
        }
    } else {
        Some(Lossless::NotFinite)
    };
    let smaller = pco::compress(pco::LEVEL_OF_LOSSLESS, block.element, bytes, out).ok().flatten();
    let (form, length) = match smaller.filter(|length| *length < bytes.len()) {
        Some(length) => (BoundedForm::Pco, length),
        None => (BoundedForm::Plain, 0),
    };
    let stored = if form == BoundedForm::Plain { bytes.len() } else { length };
    let mut metadata = encoder.lossless_metadata(block, stored as u64)?;
    let record = ErrorRecord::without_loss(bound, range, form, lossless);
    record.append_to(&mut metadata);
    Ok(Bounded { length, metadata, record })
}

/// Encodes with loss: length, metadata and largest error, which is not above `allowed`.
fn within(
    allowed: f64,
    codec: &dyn Codec,
    encoder: &dyn Encode,
    block: &Block<'_>,
    bytes: &[u8],
    out: &mut [u8],
    back: &mut [u8],
) -> std::result::Result<(usize, Vec<u8>, f64), Lossless> {
    let bounded = allowed > 0.0 && allowed.is_finite();
    if !bounded {
        return Err(Lossless::NoRange);
    }
    let done = encoder.encode_within(allowed, block, bytes, out).ok().flatten().ok_or(Lossless::Exceeded)?;
    if done.length >= bytes.len() {
        return Err(Lossless::NotSmaller);
    }
    let payload = &out[..done.length];
    let stored = Stored { block: *block, metadata: &done.metadata, order: ByteOrder::NATIVE, payload };
    codec.decode(&stored, back).map_err(|_| Lossless::Exceeded)?;
    let largest = largest_error(block.element, bytes, back);
    if largest <= allowed { Ok((done.length, done.metadata, largest)) } else { Err(Lossless::Exceeded) }
}

/// Undoes the transform of a block with an error record, whose own metadata are in `stored`.
///
/// # Errors
/// As [`Codec::decode`].
pub(crate) fn decode(codec: &dyn Codec, form: BoundedForm, stored: &Stored<'_>, out: &mut [u8]) -> Result<()> {
    match form {
        BoundedForm::Encoded => codec.decode(stored, out),
        BoundedForm::Plain => stored.copy_to(out),
        BoundedForm::Pco => pco::decompress(stored, out),
    }
}

/// Maximum - minimum of real and complex values, of whose components; `None` if one is not finite, or for other types.
///
/// - `bytes`: in this machine's byte order, not empty.
pub fn range_of(element: ElementType, bytes: &[u8]) -> Option<f64> {
    fn of(values: impl Iterator<Item = f64>) -> Option<f64> {
        let (mut min, mut max, mut finite) = (f64::INFINITY, f64::NEG_INFINITY, true);
        for value in values {
            finite &= value.is_finite();
            min = if value < min { value } else { min };
            max = if value > max { value } else { max };
        }
        finite.then_some(max - min)
    }
    match element.word() {
        _ if !is_real(element) => None,
        4 => of(singles(bytes)),
        _ => of(doubles(bytes)),
    }
}

/// Largest absolute difference between given values and those that a reader gets, rounded up; infinite if one of these is not finite, and
/// for types that are neither real nor complex.
///
/// - `given`, `got`: of the same length, in this machine's byte order.
pub fn largest_error(element: ElementType, given: &[u8], got: &[u8]) -> f64 {
    fn of(pairs: impl Iterator<Item = (f64, f64)>) -> f64 {
        let mut largest = 0f64;
        for (x, y) in pairs {
            let rounded = (x - y).abs();
            // Equal ones may have been rounded differently.
            if (rounded >= largest || rounded.is_nan()) && rounded != 0.0 {
                largest = largest.max(error_of(x, y));
            }
        }
        largest
    }
    match element.word() {
        _ if !is_real(element) => f64::INFINITY,
        4 => of(singles(given).zip(singles(got))),
        _ => of(doubles(given).zip(doubles(got))),
    }
}

/// The absolute difference, rounded up.
fn error_of(x: f64, y: f64) -> f64 {
    let difference = x - y;
    if !difference.is_finite() {
        return f64::INFINITY;
    }
    // What rounding took away from the difference (Knuth, The Art of Computer Programming, volume 2, 4.2.2).
    let shifted = difference - x;
    let rest = (x - (difference - shifted)) - (y + shifted);
    let away = if difference > 0.0 { rest } else { -rest };
    if away > 0.0 { difference.abs().next_up() } else { difference.abs() }
}

fn is_real(element: ElementType) -> bool {
    matches!(element, ElementType::F32 | ElementType::F64) || element.is_complex()
}

fn singles(bytes: &[u8]) -> impl Iterator<Item = f64> + '_ {
    bytes.as_chunks::<4>().0.iter().map(|word| f64::from(f32::from_ne_bytes(*word)))
}

fn doubles(bytes: &[u8]) -> impl Iterator<Item = f64> + '_ {
    bytes.as_chunks::<8>().0.iter().map(|word| f64::from_ne_bytes(*word))
}
