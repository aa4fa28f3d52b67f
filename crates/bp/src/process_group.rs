//! The process group: the data that one rank writes of a group in one step.
//!
//! | part | content |
//! |---|---|
//! | header | u64 length (all of the group), u8 `y`/`n` Fortran order, str16 group, u32 coordination variable (0), str16 time name, u32 time index, u8 methods, u16 bytes of these, per method u8 id + str16 parameters |
//! | variables | u32 count, u64 length with these 12 bytes, then the records |
//! | variable record | u64 length of all of it, u32 id, str16 name, str16 path, u8 type, u8 `y`/`n` is a dimension, u8 n, u16 27 n, 3 n times `n` + u64, the set of characteristics, the payload |
//! | attributes | u32 count, u64 length with these 12 bytes, then the records |
//! | attribute record | u32 length behind it, u32 id, str16 name, str16 path, `y` + u32 variable, or `n` + u8 type + u32 bytes + value |
//! | trailer | see [`crate::trailer`] |
//!
//! Dimensions are always written as numbers. Source: `docs/format/bp3.md`, section 7.

use crate::characteristic::{self, Characteristics};
use crate::shape::Shape;
use crate::statistics::{Level, Statistics};
use crate::wire::{Cursor, Put, patch_u64};
use thalweg_types::{AttributeValue, ByteOrder, ElementType, ErrorKind, Extent, Result, Value};

/// The header of a process group.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Header {
    /// Group.
    pub group: String,
    /// Dimensions are stored fastest first.
    pub fortran: bool,
    /// Name of the time index, usually empty.
    pub time_name: String,
    /// Step + 1.
    pub time_index: u32,
    /// Method ids and parameters, informational.
    pub methods: Vec<(u8, String)>,
}

/// Bytes of the count and length in front of variables and of attributes.
pub const SECTION_HEAD: usize = 12;

impl Header {
    /// Appends the header, with 0 in place of the length.
    pub fn encode(&self, out: &mut Vec<u8>) {
        out.put_u64(0);
        out.put_u8(if self.fortran { b'y' } else { b'n' });
        out.put_str16(self.group.as_bytes());
        out.put_u32(0);
        out.put_str16(self.time_name.as_bytes());
        out.put_u32(self.time_index);
        out.put_u8(self.methods.len() as u8);
        let at = out.len();
        out.put_u16(0);
        for (id, parameters) in &self.methods {
            out.put_u8(*id);
            out.put_str16(parameters.as_bytes());
        }
        let length = (out.len() - at - 2) as u16;
        out[at..at + 2].copy_from_slice(&length.to_ne_bytes());
    }

    /// Bytes of the header.
    pub fn length(&self) -> usize {
        let mut bytes = Vec::new();
        self.encode(&mut bytes);
        bytes.len()
    }

    /// Reads a header; returns the length of the group in it, and leaves the cursor at the variables.
    ///
    /// # Errors
    /// `Torn` where the header exceeds the cursor, `Corrupt` for an unknown host order.
    pub fn decode(c: &mut Cursor<'_>) -> Result<(u64, Header)> {
        let length = c.u64("process group")?;
        let fortran = match c.u8("process group")? {
            b'y' => true,
            b'n' => false,
            other => return Err(c.fail(ErrorKind::Corrupt, format!("host order {other} in a process group"))),
        };
        let group = c.name("group name")?;
        c.u32("coordination variable")?;
        let time_name = c.name("time name")?;
        let time_index = c.u32("time index")?;
        let n = c.u8("methods")?;
        let bytes = c.u16("methods")?;
        let mut inside = c.inside(u64::from(bytes), "methods")?;
        let mut methods = Vec::new();
        for _ in 0..n {
            methods.push((inside.u8("method")?, inside.name("method")?));
        }
        Ok((length, Header { group, fortran, time_name, time_index, methods }))
    }
}

/// Overwrites the head of a section at `at`.
pub fn put_section_head(bytes: &mut [u8], at: usize, count: u32, length: u64) {
    bytes[at..at + 4].copy_from_slice(&count.to_ne_bytes());
    patch_u64(bytes, at + 4, length);
}

/// One block, as in its variable record.
#[derive(Debug, Clone, PartialEq)]
pub struct Block<'a> {
    /// Id of the variable in its group.
    pub id: u32,
    /// Name.
    pub name: &'a str,
    /// Path.
    pub path: &'a str,
    /// Type.
    pub element: ElementType,
    /// Whether other variables use it as a dimension.
    pub is_dimension: bool,
    /// Shape, in file order; `None` for scalars and strings.
    pub shape: Option<&'a Shape>,
    /// Statistics level.
    pub level: Level,
    /// Statistics.
    pub statistics: Option<&'a Statistics>,
    /// The transform of its bytes; type, shape and statistics are those of the original values.
    pub transform: Option<Applied<'a>>,
    /// Bytes of the payload.
    pub payload: u64,
}

/// A transform that was applied to a block's bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Applied<'a> {
    /// Its name, as `zlib`.
    pub uid: &'a str,
    /// Metadata for undoing it, at most 65,535 bytes.
    pub metadata: &'a [u8],
}

impl Block<'_> {
    /// The type as stored: bytes, if the block is transformed.
    pub fn stored_element(&self) -> ElementType {
        if self.transform.is_some() { ElementType::I8 } else { self.element }
    }

    /// The shape as stored, of a transformed block: a row of bytes.
    pub fn stored_shape(&self) -> Option<Shape> {
        self.transform.map(|_| Shape::local([self.payload]))
    }

    /// Appends the record without its payload, which follows directly.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let start = out.len();
        // Room for the set of characteristics, unless it names a transform.
        out.reserve(160 + self.name.len() + self.path.len() + 51 * self.shape.map_or(0, Shape::rank));
        out.put_u64(0);
        out.put_u32(self.id);
        out.put_str16(self.name.as_bytes());
        out.put_str16(self.path.as_bytes());
        out.put_u8(self.stored_element().code());
        out.put_u8(if self.is_dimension { b'y' } else { b'n' });
        let stored = self.stored_shape();
        let shape = stored.as_ref().or(self.shape);
        let n = shape.map_or(0, Shape::rank);
        out.put_u8(n as u8);
        out.put_u16(27 * n as u16);
        if let Some(shape) = shape {
            for d in 0..n {
                for number in [shape.local[d], shape.global[d], shape.offset[d]] {
                    out.put_u8(b'n');
                    out.put_u64(number);
                }
            }
        }
        characteristic::put_group_set(out, self);
        let length = (out.len() - start) as u64 + self.payload;
        patch_u64(out, start, length);
    }
}

/// Appends an attribute record.
pub fn put_attribute(out: &mut Vec<u8>, id: u32, name: &str, path: &str, value: &AttributeValue) {
    let start = out.len();
    out.put_u32(0);
    out.put_u32(id);
    out.put_str16(name.as_bytes());
    out.put_str16(path.as_bytes());
    match value {
        AttributeValue::Variable(id) => {
            out.put_u8(b'y');
            out.put_u32(*id);
        }
        AttributeValue::One(value) => {
            let mut bytes = Vec::new();
            value.append_to(&mut bytes);
            out.put_u8(b'n');
            out.put_u8(value.element_type().code());
            out.put_u32(bytes.len() as u32);
            out.put(&bytes);
        }
        AttributeValue::Many(ElementType::String, values) => {
            out.put_u8(b'n');
            out.put_u8(ElementType::StringArray.code());
            out.put_u32(values.len() as u32);
            for value in values {
                let mut bytes = Vec::new();
                value.append_to(&mut bytes);
                out.put_u32(bytes.len() as u32 + 1);
                out.put(&bytes);
                out.put_u8(0);
            }
        }
        AttributeValue::Many(element, values) => {
            let mut bytes = Vec::new();
            values.iter().for_each(|v| v.append_to(&mut bytes));
            out.put_u8(b'n');
            out.put_u8(element.code());
            out.put_u32(bytes.len() as u32);
            out.put(&bytes);
        }
    }
    let length = (out.len() - start - 4) as u32;
    out[start..start + 4].copy_from_slice(&length.to_ne_bytes());
}

/// The type code of an attribute in the index.
pub fn attribute_code(value: &AttributeValue) -> u8 {
    match value {
        AttributeValue::One(v) => v.element_type().code(),
        AttributeValue::Many(ElementType::String, _) => ElementType::StringArray.code(),
        AttributeValue::Many(t, _) => t.code(),
        AttributeValue::Variable(_) => 255,
    }
}

/// A decoded variable record.
#[derive(Debug, Clone, PartialEq)]
pub struct VariableRecord {
    /// Id.
    pub id: u32,
    /// Name.
    pub name: String,
    /// Path.
    pub path: String,
    /// Type as stored.
    pub element: ElementType,
    /// The set in the record.
    pub set: Characteristics,
    /// Payload, relative to the start of the record.
    pub payload: Extent,
    /// Bytes of the whole record.
    pub length: u64,
}

impl VariableRecord {
    /// Reads a record up to its payload; `c` need not contain the payload.
    ///
    /// # Errors
    /// As [`characteristic::decode_set`]; `Corrupt` for an unknown type, and for a record shorter than its head.
    pub fn decode(c: &mut Cursor<'_>) -> Result<VariableRecord> {
        let start = c.position();
        let length = c.u64("variable record")?;
        let id = c.u32("variable record")?;
        let name = c.name("variable name")?;
        let path = c.name("variable path")?;
        let code = c.u8("variable type")?;
        let element = ElementType::from_code(code)
            .ok_or_else(|| c.fail(ErrorKind::Corrupt, format!("variable \"{name}\" has the unknown type {code}")))?;
        c.u8("variable record")?;
        c.u8("dimensions")?;
        let bytes = c.u16("dimensions")?;
        c.take(usize::from(bytes), "dimensions")?;
        let set = characteristic::decode_set(c, Some(element), true)?;
        let head = (c.position() - start) as u64;
        let payload = length.checked_sub(head).ok_or_else(|| {
            c.fail(ErrorKind::Corrupt, format!("variable record of {length} bytes, its head has {head}"))
        })?;
        Ok(VariableRecord { id, name, path, element, set, payload: Extent::new(head, payload), length })
    }
}

/// A decoded attribute record.
#[derive(Debug, Clone, PartialEq)]
pub struct AttributeRecord {
    /// Id.
    pub id: u32,
    /// Name.
    pub name: String,
    /// Path.
    pub path: String,
    /// Its value.
    pub value: AttributeValue,
    /// Bytes of the whole record.
    pub length: u64,
}

impl AttributeRecord {
    /// Reads a whole record.
    ///
    /// # Errors
    /// `Torn` where the record exceeds the cursor; `Corrupt` for an unknown type or mark, and for a value whose length is no
    /// multiple of its type's size.
    pub fn decode(c: &mut Cursor<'_>) -> Result<AttributeRecord> {
        let length = c.u32("attribute record")?;
        let mut c = c.inside(u64::from(length), "attribute record")?;
        let id = c.u32("attribute record")?;
        let name = c.name("attribute name")?;
        let path = c.name("attribute path")?;
        let value = match c.u8("attribute record")? {
            b'y' => AttributeValue::Variable(c.u32("attribute record")?),
            b'n' => {
                let code = c.u8("attribute type")?;
                let element = ElementType::from_code(code).ok_or_else(|| {
                    c.fail(ErrorKind::Corrupt, format!("attribute \"{name}\" has the unknown type {code}"))
                })?;
                let n = c.u32("attribute value")?;
                decode_attribute_value(&mut c, element, n)?
            }
            other => return Err(c.fail(ErrorKind::Corrupt, format!("attribute \"{name}\" is marked {other}"))),
        };
        Ok(AttributeRecord { id, name, path, value, length: u64::from(length) + 4 })
    }
}

fn decode_attribute_value(c: &mut Cursor<'_>, element: ElementType, n: u32) -> Result<AttributeValue> {
    if element == ElementType::StringArray {
        let mut values = Vec::new();
        for _ in 0..n {
            let length = c.u32("attribute value")?;
            let bytes = c.take_u64(u64::from(length), "attribute value")?;
            values.push(Value::String(bytes.strip_suffix(&[0]).unwrap_or(bytes).to_vec()));
        }
        return Ok(AttributeValue::Many(ElementType::String, values));
    }
    let order = c.order();
    let bytes = c.take_u64(u64::from(n), "attribute value")?;
    if element == ElementType::String {
        return Ok(AttributeValue::One(Value::String(bytes.to_vec())));
    }
    let size = element.size() as usize;
    if size == 0 || bytes.len() % size != 0 || bytes.is_empty() {
        return Err(c.fail(ErrorKind::Corrupt, format!("attribute value of {n} bytes of type {element}")));
    }
    let mut values: Vec<Value> =
        bytes.chunks_exact(size).filter_map(|b| Value::from_bytes(element, b, order)).collect();
    Ok(if values.len() == 1 { AttributeValue::One(values.remove(0)) } else { AttributeValue::Many(element, values) })
}

/// The native byte order, for callers that decode their own encoding.
pub const NATIVE: ByteOrder = ByteOrder::NATIVE;
