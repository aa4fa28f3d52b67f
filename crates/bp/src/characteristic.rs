//! Characteristics: the recorded facts of one block, or of one writing of an attribute.
//!
//! A set is `u8 count, u32 length`, then `count` records of `length` bytes together; a record is `u8 id` and its value:
//!
//! | id | record | value |
//! |---|---|---|
//! | 0 | value | the raw value; strings `u16 length` + bytes; arrays of attributes n of these |
//! | 1, 2 | minimum, maximum (older form) | one value each |
//! | 3 | record offset | u64, in the file that holds the block |
//! | 4 | dimensions | u8 n, u16 24 n, n times (u64 local, u64 global, u64 offset) |
//! | 5 | variable id | u32: the attribute's value is that variable |
//! | 6 | payload offset | u64 |
//! | 7 | file index | u32 subfile, 0xFFFFFFFF in a single file |
//! | 8 | time index | u32, from 1 |
//! | 9 | bitmap | u32, which statistics follow |
//! | 10 | statistics | see [`crate::statistics`]: bits 0 min, 1 max, 2 count (u32), 3 sum, 4 sum of squares (f64), 5 histogram, 6 finite (u8) |
//! | 11 | transform | the transform, and type and shape of the original values |
//!
//! In process groups and step records a set of [`Level::Beside`] has records 9 and 10 twice: count and sums, then the bounds, which
//! are valid for readers that use the last record. In a full index its count and sums are stored separately: see [`crate::sums`].
//!
//! Source: `docs/format/bp3.md`.

use crate::process_group::{Applied, Block};
use crate::shape::Shape;
use crate::statistics::{ComponentStatistics, Level, Statistics};
use crate::wire::{Cursor, Put};
use thalweg_types::value::long_double_to_f64;
use thalweg_types::{AttributeValue, ElementType, Error, ErrorKind, Result, Value};

/// File index of a block in a single file.
pub const SINGLE_FILE: u32 = u32::MAX;

const MIN: u32 = 1;
const MAX: u32 = 2;
const COUNT: u32 = 4;
const SUM: u32 = 8;
const SQUARES: u32 = 16;
const HISTOGRAM: u32 = 32;
const FINITE: u32 = 64;
const FULL: u32 = MIN | MAX | COUNT | SUM | SQUARES | FINITE;
pub(crate) const MIN_MAX: u32 = MIN | MAX | FINITE;
/// Bits of the statistics that are stored apart from the BP index.
pub(crate) const SUMS: u32 = COUNT | SUM | SQUARES;

/// Most dimensions that are decoded; more are `Corrupt`.
const MOST_DIMENSIONS: u8 = 64;

/// The transform of a block (bp3 section 8).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Transform {
    /// Its name, as `zlib`.
    pub uid: String,
    /// Type before.
    pub element: ElementType,
    /// Shape before.
    pub shape: Shape,
    /// Metadata for undoing the transform.
    pub metadata: Vec<u8>,
}

/// One set.
#[derive(Debug, Clone, PartialEq)]
pub struct Characteristics {
    /// Where the variable or attribute record starts, in its file.
    pub record_offset: u64,
    /// First byte of the payload, in its file.
    pub payload_offset: u64,
    /// Subfile, or [`SINGLE_FILE`].
    pub file_index: u32,
    /// Time index, from 1 (step + 1).
    pub time_index: u32,
    /// Shape of an array block; `None` for scalars and single attributes.
    pub shape: Option<Shape>,
    /// Value of a scalar, string or attribute.
    pub value: Option<AttributeValue>,
    /// Statistics of an array block.
    pub statistics: Option<Statistics>,
    /// The transform of the stored bytes.
    pub transform: Option<Transform>,
}

impl Characteristics {
    /// A set without records.
    pub fn empty() -> Characteristics {
        Characteristics {
            record_offset: 0,
            payload_offset: 0,
            file_index: SINGLE_FILE,
            time_index: 0,
            shape: None,
            value: None,
            statistics: None,
            transform: None,
        }
    }
}

/// The bitmap of blocks of this type in the BP index at this level; 0 for types without statistics there.
pub fn bitmap(element: ElementType, level: Level) -> u32 {
    match level {
        _ if element.is_complex() || element.is_text() || element == ElementType::Char => 0,
        Level::Off => 0,
        Level::MinMax | Level::Beside => MIN_MAX,
        Level::Full => FULL,
    }
}

/// The bitmap in a full index of a set whose first bitmap is `first`.
pub fn bitmap_in_index(first: u32) -> u32 {
    if first == SUMS { MIN_MAX } else { first }
}

pub(crate) fn put_shape(out: &mut impl Put, shape: &Shape) {
    out.put_u8(4);
    put_triples(out, shape);
}

fn put_triples(out: &mut impl Put, shape: &Shape) {
    out.put_u8(shape.rank() as u8);
    out.put_u16(24 * shape.rank() as u16);
    for d in 0..shape.rank() {
        out.put_u64(shape.local[d]);
        out.put_u64(shape.global[d]);
        out.put_u64(shape.offset[d]);
    }
}

/// Appends dimensions, transform and statistics of an array block, the common records of process group and index.
/// Returns their number.
fn put_array(out: &mut Vec<u8>, shape: &Shape, block: &Block<'_>) -> u8 {
    let (element, level, statistics) = (block.element, block.level, block.statistics);
    match (block.stored_shape(), &block.transform) {
        (Some(stored), Some(transform)) => {
            put_shape(out, &stored);
            put_transform(out, transform, element, shape);
        }
        _ => put_shape(out, shape),
    }
    let bits = bitmap(element, level);
    let none = match statistics {
        Some(_) => None,
        None => crate::statistics::Accumulator::new(element, level).finish(),
    };
    let known = statistics.or(none.as_ref()).filter(|_| bits != 0);
    let beside = known.filter(|_| level == Level::Beside);
    if let Some(s) = beside {
        out.put_u8(9);
        out.put_u32(SUMS);
        out.put_u8(10);
        put_sums(out, s);
    }
    out.put_u8(9);
    out.put_u32(bits);
    out.put_u8(10);
    if let Some(s) = known {
        s.min.append_to(out);
        s.max.append_to(out);
        if bits & COUNT != 0 {
            put_sums(out, s);
        }
        out.put_u8(u8::from(s.finite > 0));
    }
    3 + u8::from(block.transform.is_some()) + if beside.is_some() { 2 } else { 0 }
}

fn put_sums(out: &mut Vec<u8>, s: &Statistics) {
    out.put_u32(u32::try_from(s.finite).unwrap_or(u32::MAX));
    out.put_f64(s.sum);
    out.put_f64(s.sum_of_squares);
}

/// Appends type and shape of the block before its transform.
fn put_transform(out: &mut Vec<u8>, transform: &Applied<'_>, element: ElementType, shape: &Shape) {
    let uid = &transform.uid.as_bytes()[..transform.uid.len().min(usize::from(u8::MAX))];
    out.put_u8(11);
    out.put_u8(uid.len() as u8);
    out.put(uid);
    out.put_u8(element.code());
    put_triples(out, shape);
    out.put_str16(transform.metadata);
}

/// Appends `u8 count, u32 length` and the records.
fn put_set(out: &mut Vec<u8>, records: impl FnOnce(&mut Vec<u8>) -> u8) {
    let start = out.len();
    out.put(&[0; 5]);
    let count = records(out);
    let length = (out.len() - start - 5) as u32;
    out[start] = count;
    out[start + 1..start + 5].copy_from_slice(&length.to_ne_bytes());
}

/// The set inside a process group's variable record; empty for scalars and strings.
pub fn put_group_set(out: &mut Vec<u8>, block: &Block<'_>) {
    put_set(out, |out| block.shape.map_or(0, |shape| put_array(out, shape, block)));
}

/// The location of a block or attribute: the records at the start of every index set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Location {
    /// Start of the record in its file.
    pub record_offset: u64,
    /// Start of the payload in its file.
    pub payload_offset: u64,
    /// Subfile, or [`SINGLE_FILE`].
    pub file_index: u32,
    /// Time index, from 1.
    pub time_index: u32,
}

pub(crate) fn put_location(out: &mut impl Put, at: Location) {
    out.put_u8(3);
    out.put_u64(at.record_offset);
    out.put_u8(6);
    out.put_u64(at.payload_offset);
    out.put_u8(7);
    out.put_u32(at.file_index);
    out.put_u8(8);
    out.put_u32(at.time_index);
}

/// The index set of an array block of this shape.
pub fn put_array_set(out: &mut Vec<u8>, at: Location, shape: &Shape, block: &Block<'_>) {
    put_set(out, |out| {
        put_location(out, at);
        4 + put_array(out, shape, block)
    });
}

/// The index set of a scalar or string variable.
pub fn put_scalar_set(out: &mut Vec<u8>, at: Location, value: &Value) {
    put_set(out, |out| {
        put_location(out, at);
        out.put_u8(0);
        out.put_value(value);
        5
    });
}

/// The index set of a block from its variable record: `records` records in `set`, and the payload.
pub(crate) fn put_set_of_record(out: &mut Vec<u8>, at: Location, records: u8, set: &[u8], code: u8, payload: &[u8]) {
    put_set(out, |out| {
        put_location(out, at);
        if records > 0 {
            out.put(set);
            return records.saturating_add(4);
        }
        out.put_u8(0);
        if ElementType::from_code(code) == Some(ElementType::String) {
            out.put_str16(payload)
        } else {
            out.put(payload)
        }
        5
    });
}

/// The index set of an attribute.
pub fn put_attribute_set(out: &mut Vec<u8>, at: Location, value: &AttributeValue) {
    put_set(out, |out| put_attribute(out, at, value));
}

/// Appends the records of an attribute; returns their number.
pub(crate) fn put_attribute(out: &mut impl Put, at: Location, value: &AttributeValue) -> u8 {
    put_location(out, at);
    match value {
        AttributeValue::One(value) => {
            out.put_u8(0);
            out.put_value(value);
            5
        }
        AttributeValue::Many(_, values) => {
            let n = values.len() as u64;
            put_shape(out, &Shape::global([n], [n], [0]));
            out.put_u8(0);
            values.iter().for_each(|v| out.put_value(v));
            6
        }
        AttributeValue::Variable(id) => {
            out.put_u8(5);
            out.put_u32(*id);
            5
        }
    }
}

/// Skips a set; returns its number of records, and a cursor over them.
///
/// # Errors
/// As [`Cursor::inside`].
pub fn next_set<'a>(c: &mut Cursor<'a>) -> Result<(u8, Cursor<'a>)> {
    let count = c.u8("characteristics")?;
    let length = c.u32("characteristics")?;
    Ok((count, c.inside(u64::from(length), "characteristics")?))
}

/// One record of a set; records whose length depends on the variable's type are not decoded.
#[derive(Debug, Clone)]
pub enum Record<'a> {
    /// Offset of the block's record in its file.
    RecordOffset(u64),
    /// First byte of the values.
    PayloadOffset(u64),
    /// Subfile.
    File(u32),
    /// Time index.
    Time(u32),
    /// The variable that an attribute takes its value from.
    VariableId(u32),
    /// Per dimension u64 local, global, offset.
    Dimensions(Cursor<'a>),
    /// Which statistics follow.
    Bitmap(u32),
    /// The transform of the values: u8 length and name, u8 type, dimensions, u16 length and metadata.
    Transform(Cursor<'a>),
    /// Values or statistics (0, 1, 2, 10), with the cursor before them.
    Typed(u8),
}

impl<'a> Record<'a> {
    /// Reads the next record. All decoders of sets use this method.
    ///
    /// # Errors
    /// `Corrupt` for record ids unknown to BP version 3, and for more dimensions than arrays have; `Torn` where the set ends early.
    // Part of each decoder's loop: as a call it costs readers of many steps a sixth of their time.
    #[inline(always)]
    pub fn next(c: &mut Cursor<'a>) -> Result<Record<'a>> {
        Ok(match c.u8("characteristic")? {
            3 => Record::RecordOffset(c.u64("record offset")?),
            4 => Record::Dimensions(dimensions(c)?),
            5 => Record::VariableId(c.u32("variable id")?),
            6 => Record::PayloadOffset(c.u64("payload offset")?),
            7 => Record::File(c.u32("file index")?),
            8 => Record::Time(c.u32("time index")?),
            9 => Record::Bitmap(c.u32("bitmap")?),
            11 => Record::Transform(transform(c)?),
            typed @ (0 | 1 | 2 | 10) => Record::Typed(typed),
            other => return Err(unknown(c, other)),
        })
    }
}

/// The bytes of a transform's record.
#[cold]
fn transform<'a>(c: &mut Cursor<'a>) -> Result<Cursor<'a>> {
    let mut end = c.clone();
    let uid = end.u8("transform")?;
    end.take(usize::from(uid) + 1, "transform")?;
    dimensions(&mut end)?;
    end.str16("transform")?;
    c.inside((end.position() - c.position()) as u64, "transform")
}

#[cold]
fn unknown(c: &Cursor<'_>, id: u8) -> Error {
    c.fail(ErrorKind::Corrupt, format!("characteristic {id} is none of BP version 3"))
}

/// The name of a transform, at the start of its record.
///
/// # Errors
/// As [`Cursor::take`].
pub fn transform_name<'a>(transform: &mut Cursor<'a>) -> Result<&'a [u8]> {
    let length = transform.u8("transform")?;
    transform.take(usize::from(length), "transform")
}

/// Reads one set of a variable or attribute.
///
/// - `element`: its type; `None` for unknown type codes.
/// - `in_group`: the set is in a process group, where a 16-bit length precedes values.
///
/// # Errors
/// As [`Record::next`]; `Corrupt` for statistics without or with an unknown bitmap, values that exceed the set, a transform
/// of an unknown type, and bytes after the last record; `Unsupported` for values and statistics of an unknown type.
pub fn decode_set(c: &mut Cursor<'_>, element: Option<ElementType>, in_group: bool) -> Result<Characteristics> {
    let (count, mut c) = next_set(c)?;
    let mut set = Characteristics::empty();
    let mut bits = None;
    let mut sums = None;
    let mut legacy: (Option<Value>, Option<Value>) = (None, None);
    for _ in 0..count {
        match Record::next(&mut c)? {
            Record::RecordOffset(at) => set.record_offset = at,
            Record::PayloadOffset(at) => set.payload_offset = at,
            Record::File(file) => set.file_index = file,
            Record::Time(time) => set.time_index = time,
            Record::VariableId(id) => set.value = Some(AttributeValue::Variable(id)),
            Record::Dimensions(mut of) => set.shape = Some(decode_shape(&mut of)?),
            Record::Bitmap(bitmap) => bits = Some(bitmap),
            Record::Transform(mut of) => set.transform = Some(decode_transform(&mut of)?),
            Record::Typed(0) => {
                if in_group {
                    c.u16("value")?;
                }
                set.value = decode_value(&mut c, element, set.shape.as_ref())?;
            }
            Record::Typed(1) => legacy.0 = decode_number(&mut c, element)?,
            Record::Typed(2) => legacy.1 = decode_number(&mut c, element)?,
            Record::Typed(_) => {
                let original = set.transform.as_ref().map_or(element, |t| Some(t.element));
                let bits = bits.ok_or_else(|| c.fail(ErrorKind::Corrupt, "statistics without a bitmap"))?;
                let found = decode_statistics(&mut c, original, bits)?;
                set.statistics = match (sums.take(), found) {
                    (Some(sums), Some(bounds)) if bits == MIN_MAX => Some(beside(bounds, sums)),
                    (_, found) => found,
                };
                if bits == SUMS && original.is_some_and(|t| !t.is_complex()) {
                    sums.clone_from(&set.statistics);
                }
            }
        }
    }
    if c.left() > 0 {
        return Err(c.fail(ErrorKind::Corrupt, format!("{} bytes after the last characteristic", c.left())));
    }
    if let (None, (Some(min), Some(max))) = (&set.statistics, legacy) {
        set.statistics = Some(Statistics {
            level: Level::MinMax,
            min,
            max,
            finite: set.shape.as_ref().map_or(1, |s| s.elements().unwrap_or(0)),
            sum: 0.0,
            sum_of_squares: 0.0,
            exact_sum: None,
            complex: None,
        });
    }
    Ok(set)
}

/// Joins bounds and sums that were recorded separately.
fn beside(bounds: Statistics, sums: Statistics) -> Statistics {
    let Statistics { finite, sum, sum_of_squares, .. } = sums;
    Statistics { level: Level::Beside, finite, sum, sum_of_squares, ..bounds }
}

/// The fields of a set that listings need; no memory is allocated.
#[derive(Debug, Clone)]
pub struct Skimmed<'a> {
    /// Time index, from 1.
    pub time_index: u32,
    /// First byte of the values.
    pub payload_offset: u64,
    /// Subfile, or [`SINGLE_FILE`].
    pub file_index: u32,
    /// The dimensions of an array block: per dimension u64 local, global, offset.
    pub dimensions: Option<Cursor<'a>>,
}

/// Reads the main fields of one set of an index; `None` if the set must be decoded (values, transforms, bounds of old files).
/// In either case the cursor is then behind the set.
///
/// # Errors
/// As [`Record::next`]; `Corrupt` for bytes after the last record.
pub fn skim_set<'a>(c: &mut Cursor<'a>, element: Option<ElementType>) -> Result<Option<Skimmed<'a>>> {
    let (count, mut c) = next_set(c)?;
    let mut set = Skimmed { time_index: 0, payload_offset: 0, file_index: SINGLE_FILE, dimensions: None };
    let mut bits = None;
    for _ in 0..count {
        match Record::next(&mut c)? {
            Record::RecordOffset(_) => {}
            Record::PayloadOffset(at) => set.payload_offset = at,
            Record::File(file) => set.file_index = file,
            Record::Time(time) => set.time_index = time,
            Record::Dimensions(of) => set.dimensions = Some(of),
            Record::Bitmap(bitmap) => bits = Some(bitmap),
            Record::Typed(10) => match (bits, element) {
                (Some(0), _) => {}
                (Some(bits), Some(t)) if t.size() > 0 && !t.is_complex() && bits & !FULL == 0 => {
                    let sizes = [(MIN, t.size()), (MAX, t.size()), (COUNT, 4), (SUM, 8), (SQUARES, 8), (FINITE, 1)];
                    let length = sizes.into_iter().filter(|(bit, _)| bits & bit != 0).map(|(_, size)| size).sum();
                    c.take_u64(length, "statistics")?;
                }
                _ => return Ok(None),
            },
            Record::Typed(0) if set.dimensions.is_none() && element.is_some_and(|t| t.size() > 0) => {
                c.take_u64(element.map_or(0, ElementType::size), "value")?;
            }
            Record::Typed(_) | Record::VariableId(_) | Record::Transform(_) => return Ok(None),
        }
    }
    if c.left() > 0 {
        return Err(c.fail(ErrorKind::Corrupt, format!("{} bytes after the last characteristic", c.left())));
    }
    Ok(Some(set))
}

/// Dimensions: u8 count, u16 length, per dimension u64 local, global, offset. The returned cursor is over the last part.
fn dimensions<'a>(c: &mut Cursor<'a>) -> Result<Cursor<'a>> {
    let n = c.u8("dimensions")?;
    let length = c.u16("dimensions")?;
    if n > MOST_DIMENSIONS || u32::from(length) != 24 * u32::from(n) {
        return Err(c.fail(ErrorKind::Corrupt, format!("{n} dimensions in {length} bytes")));
    }
    c.inside(u64::from(length), "dimensions")
}

fn decode_shape(dimensions: &mut Cursor<'_>) -> Result<Shape> {
    let n = dimensions.left() / 24;
    let room = || Vec::with_capacity(n);
    let mut shape = Shape { local: room(), global: room(), offset: room() };
    for _ in 0..n {
        shape.local.push(dimensions.u64("dimensions")?);
        shape.global.push(dimensions.u64("dimensions")?);
        shape.offset.push(dimensions.u64("dimensions")?);
    }
    Ok(shape)
}

fn decode_number(c: &mut Cursor<'_>, element: Option<ElementType>) -> Result<Option<Value>> {
    match element {
        Some(t) if t.size() > 0 => {
            let bytes = c.take(t.size() as usize, "value")?;
            Ok(Value::from_bytes(t, bytes, c.order()))
        }
        Some(ElementType::String) => Ok(Some(Value::String(c.str16("value")?.to_vec()))),
        _ => Err(c.fail(ErrorKind::Unsupported, "a value of unknown type")),
    }
}

fn decode_value(
    c: &mut Cursor<'_>,
    element: Option<ElementType>,
    shape: Option<&Shape>,
) -> Result<Option<AttributeValue>> {
    let item = match element {
        Some(ElementType::StringArray) => Some(ElementType::String),
        other => other,
    };
    let Some(shape) = shape else {
        return Ok(decode_number(c, item)?.map(AttributeValue::One));
    };
    let n = shape.local.first().copied().unwrap_or(1);
    let smallest = item.map_or(1, |t| t.size().max(2).min(if t == ElementType::String { 2 } else { t.size() }));
    if n.checked_mul(smallest.max(1)).is_none_or(|bytes| bytes > c.left() as u64) {
        return Err(c.fail(ErrorKind::Corrupt, format!("an array of {n} values in {} bytes", c.left())));
    }
    let mut values = Vec::with_capacity(n as usize);
    for _ in 0..n {
        values.extend(decode_number(c, item)?);
    }
    Ok(item.map(|t| AttributeValue::Many(t, values)))
}

fn decode_transform(c: &mut Cursor<'_>) -> Result<Transform> {
    let uid = String::from_utf8_lossy(transform_name(c)?).into_owned();
    let code = c.u8("transform")?;
    let element = ElementType::from_code(code)
        .ok_or_else(|| c.fail(ErrorKind::Corrupt, format!("transform of the unknown type {code}")))?;
    let shape = decode_shape(&mut dimensions(c)?)?;
    let length = c.u16("transform")?;
    let metadata = c.take(usize::from(length), "transform")?.to_vec();
    Ok(Transform { uid, element, shape, metadata })
}

fn decode_statistics(c: &mut Cursor<'_>, element: Option<ElementType>, bits: u32) -> Result<Option<Statistics>> {
    if bits == 0 {
        return Ok(None);
    }
    let Some(element) = element else {
        return Err(c.fail(ErrorKind::Unsupported, "statistics of unknown type"));
    };
    if bits & !(FULL | HISTOGRAM) != 0 {
        return Err(c.fail(ErrorKind::Corrupt, format!("statistics bitmap {bits:#x}")));
    }
    // ADIOS 1.13 stores three sets for complex types, in doubles, or in long doubles for the double ones.
    let (sets, wide) = match element {
        ElementType::Complex => (3, Some(ElementType::F64)),
        ElementType::DoubleComplex => (3, Some(ElementType::LongDouble)),
        _ => (1, None),
    };
    let mut s = Statistics {
        level: if bits & COUNT != 0 { Level::Full } else { Level::MinMax },
        min: Value::U8(0),
        max: Value::U8(0),
        finite: 0,
        sum: 0.0,
        sum_of_squares: 0.0,
        exact_sum: None,
        complex: None,
    };
    let mut parts = [ComponentStatistics::default(); 3];
    let real = |c: &mut Cursor<'_>, t: ElementType| -> Result<f64> {
        let bytes = c.take(t.size() as usize, "statistics")?;
        Ok(match Value::from_bytes(t, bytes, c.order()) {
            Some(Value::LongDouble(bytes)) => long_double_to_f64(&bytes),
            Some(v) => v.as_f64().unwrap_or(0.0),
            None => 0.0,
        })
    };
    for part in parts.iter_mut().take(sets) {
        for bit in [MIN, MAX, COUNT, SUM, SQUARES, HISTOGRAM, FINITE] {
            if bits & bit == 0 {
                continue;
            }
            match (bit, wide) {
                (MIN, Some(t)) => part.min = real(c, t)?,
                (MAX, Some(t)) => part.max = real(c, t)?,
                (MIN, None) => s.min = decode_number(c, Some(element))?.unwrap_or(Value::U8(0)),
                (MAX, None) => s.max = decode_number(c, Some(element))?.unwrap_or(Value::U8(0)),
                (COUNT, _) => s.finite = u64::from(c.u32("statistics")?),
                (SUM, t) => part.sum = real(c, t.unwrap_or(ElementType::F64))?,
                (SQUARES, t) => part.sum_of_squares = real(c, t.unwrap_or(ElementType::F64))?,
                (FINITE, _) => {
                    let any = c.u8("statistics")?;
                    if bits & COUNT == 0 {
                        s.finite = u64::from(any > 0);
                    }
                }
                _ => {
                    // Histogram: u32 breaks, f64 min, f64 max, breaks + 1 frequencies (u32), breaks (f64).
                    let breaks = u64::from(c.u32("histogram")?);
                    c.take_u64(16 + (breaks + 1) * 4 + breaks * 8, "histogram")?;
                }
            }
        }
    }
    if sets == 3 {
        let zero =
            if element == ElementType::Complex { Value::Complex([0.0; 2]) } else { Value::DoubleComplex([0.0; 2]) };
        (s.min, s.max, s.complex) = (zero.clone(), zero, Some(parts));
    } else {
        (s.sum, s.sum_of_squares) = (parts[0].sum, parts[0].sum_of_squares);
    }
    Ok(Some(s))
}

/// The bitmap of a set in the BP index: all blocks of a variable must agree on it (bp3 section 5.1).
pub fn bitmap_of(set: &Characteristics) -> u32 {
    match &set.statistics {
        None => 0,
        Some(s) if s.level == Level::Full => FULL,
        Some(_) => MIN_MAX, // the sums of `Beside` are stored separately
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pass;
    use thalweg_types::ByteOrder;

    #[test]
    fn a_set_of_an_array_block_survives() {
        let values: Vec<u8> = [1.0f64, -2.0, f64::NAN].iter().flat_map(|v| v.to_ne_bytes()).collect();
        let s = pass::look(&values, ElementType::F64, Level::Full).statistics;
        let shape = Shape::global([1, 3], [4, 3], [2, 0]);
        let at = Location { record_offset: 10, payload_offset: 99, file_index: 3, time_index: 7 };
        let mut bytes = Vec::new();
        let mut block = block(ElementType::F64, Level::Full, &shape, s.as_ref());
        put_array_set(&mut bytes, at, &shape, &block);
        let mut c = Cursor::new(&bytes, ByteOrder::NATIVE, 0);
        let set = decode_set(&mut c, Some(ElementType::F64), false).unwrap();
        assert_eq!(c.left(), 0);
        assert_eq!((set.record_offset, set.payload_offset, set.file_index, set.time_index), (10, 99, 3, 7));
        assert_eq!(set.shape.as_ref(), Some(&shape));
        assert_eq!(set.statistics, s);

        block.transform = Some(Applied { uid: "zlib", metadata: &[5; 9] });
        block.payload = 77;
        let mut bytes = Vec::new();
        put_array_set(&mut bytes, at, &shape, &block);
        let mut c = Cursor::new(&bytes, ByteOrder::NATIVE, 0);
        let set = decode_set(&mut c, Some(ElementType::I8), false).unwrap();
        assert_eq!(set.shape, Some(Shape::local([77])));
        assert_eq!(set.statistics, s);
        let before = Transform { uid: "zlib".into(), element: ElementType::F64, shape, metadata: vec![5; 9] };
        assert_eq!(set.transform, Some(before));
    }

    fn block<'a>(
        element: ElementType,
        level: Level,
        shape: &'a Shape,
        statistics: Option<&'a Statistics>,
    ) -> Block<'a> {
        Block {
            id: 1,
            name: "v",
            path: "",
            element,
            is_dimension: false,
            shape: Some(shape),
            level,
            statistics,
            transform: None,
            payload: 24,
        }
    }

    #[test]
    fn passing_over_a_set_tells_what_decoding_it_tells() {
        let shape = Shape::global([1, 3], [4, 3], [2, 0]);
        let at = Location { record_offset: 10, payload_offset: 99, file_index: 3, time_index: 7 };
        for element in ElementType::ALL.into_iter().filter(|t| t.size() > 0) {
            let values = vec![1; 3 * element.size() as usize];
            let mut all = Vec::new();
            for level in Level::ALL {
                let s = pass::look(&values, element, level).statistics;
                put_array_set(&mut all, at, &shape, &block(element, level, &shape, s.as_ref()));
            }
            let value = Value::from_bytes(element, &values[..element.size() as usize], ByteOrder::NATIVE).unwrap();
            put_scalar_set(&mut all, at, &value);
            let (mut skimming, mut decoding) =
                (Cursor::new(&all, ByteOrder::NATIVE, 0), Cursor::new(&all, ByteOrder::NATIVE, 0));
            for _ in 0..5 {
                let skimmed = skim_set(&mut skimming, Some(element)).unwrap().expect("nothing in it needs decoding");
                let set = decode_set(&mut decoding, Some(element), false).unwrap();
                assert_eq!(skimming.position(), decoding.position(), "{element}");
                assert_eq!(skimmed.time_index, set.time_index, "{element}");
                let numbers = skimmed.dimensions.map(|mut d| [(); 6].map(|()| d.u64("dimensions").unwrap()));
                assert_eq!(numbers, set.shape.map(|_| [1, 4, 2, 3, 3, 0]), "{element}");
            }
        }
    }

    #[test]
    fn a_count_that_does_not_fit_its_bytes_is_named() {
        let mut bytes = Vec::new();
        let at = Location { record_offset: 1, payload_offset: 2, file_index: 0, time_index: 1 };
        put_attribute_set(&mut bytes, at, &AttributeValue::Many(ElementType::F64, vec![Value::F64(1.0); 2]));
        for n in [3u64, u64::MAX, 1 << 61] {
            let mut bad = bytes.clone();
            let local = bad.len() - 16 - 1 - 24;
            bad[local..local + 8].copy_from_slice(&n.to_ne_bytes());
            let e =
                decode_set(&mut Cursor::new(&bad, ByteOrder::NATIVE, 0), Some(ElementType::F64), false).unwrap_err();
            assert!(matches!(e.kind(), ErrorKind::Corrupt | ErrorKind::Torn), "{e}");
        }
    }
}
