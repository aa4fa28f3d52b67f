//! One value of any element type, and the values of attributes.

use crate::{ByteOrder, ElementType};
use std::fmt;

/// One value.
#[derive(Debug, Clone, PartialEq)]
#[allow(missing_docs)]
pub enum Value {
    I8(i8),
    I16(i16),
    I32(i32),
    I64(i64),
    U8(u8),
    U16(u16),
    U32(u32),
    U64(u64),
    F32(f32),
    F64(f64),
    /// 16 bytes in the order of this machine.
    LongDouble([u8; 16]),
    Complex([f32; 2]),
    DoubleComplex([f64; 2]),
    /// Text as stored; usually UTF-8, never checked.
    String(Vec<u8>),
    /// adios2's `char`.
    Char(u8),
}

/// The value of an attribute.
#[derive(Debug, Clone, PartialEq)]
pub enum AttributeValue {
    /// A single value.
    One(Value),
    /// An array: the element type and its values ([`ElementType::String`] for string arrays).
    Many(ElementType, Vec<Value>),
    /// The value of the scalar variable with this id in the same group.
    Variable(u32),
}

impl Value {
    /// The type of the value.
    pub fn element_type(&self) -> ElementType {
        match self {
            Value::I8(_) => ElementType::I8,
            Value::I16(_) => ElementType::I16,
            Value::I32(_) => ElementType::I32,
            Value::I64(_) => ElementType::I64,
            Value::U8(_) => ElementType::U8,
            Value::U16(_) => ElementType::U16,
            Value::U32(_) => ElementType::U32,
            Value::U64(_) => ElementType::U64,
            Value::F32(_) => ElementType::F32,
            Value::F64(_) => ElementType::F64,
            Value::LongDouble(_) => ElementType::LongDouble,
            Value::Complex(_) => ElementType::Complex,
            Value::DoubleComplex(_) => ElementType::DoubleComplex,
            Value::String(_) => ElementType::String,
            Value::Char(_) => ElementType::Char,
        }
    }

    /// Reads a value of type `element` from its stored bytes; `None` where their number does not fit.
    pub fn from_bytes(element: ElementType, bytes: &[u8], order: ByteOrder) -> Option<Value> {
        fn word<const N: usize>(bytes: &[u8], order: ByteOrder) -> Option<[u8; N]> {
            let mut word: [u8; N] = bytes.try_into().ok()?;
            if order != ByteOrder::NATIVE {
                word.reverse();
            }
            Some(word)
        }
        Some(match element {
            ElementType::I8 => Value::I8(i8::from_ne_bytes(word(bytes, order)?)),
            ElementType::I16 => Value::I16(i16::from_ne_bytes(word(bytes, order)?)),
            ElementType::I32 => Value::I32(i32::from_ne_bytes(word(bytes, order)?)),
            ElementType::I64 => Value::I64(i64::from_ne_bytes(word(bytes, order)?)),
            ElementType::U8 => Value::U8(u8::from_ne_bytes(word(bytes, order)?)),
            ElementType::Char => Value::Char(u8::from_ne_bytes(word(bytes, order)?)),
            ElementType::U16 => Value::U16(u16::from_ne_bytes(word(bytes, order)?)),
            ElementType::U32 => Value::U32(u32::from_ne_bytes(word(bytes, order)?)),
            ElementType::U64 => Value::U64(u64::from_ne_bytes(word(bytes, order)?)),
            ElementType::F32 => Value::F32(f32::from_ne_bytes(word(bytes, order)?)),
            ElementType::F64 => Value::F64(f64::from_ne_bytes(word(bytes, order)?)),
            ElementType::LongDouble => Value::LongDouble(word(bytes, order)?),
            ElementType::Complex if bytes.len() == 8 => Value::Complex([
                f32::from_ne_bytes(word(&bytes[..4], order)?),
                f32::from_ne_bytes(word(&bytes[4..], order)?),
            ]),
            ElementType::DoubleComplex if bytes.len() == 16 => Value::DoubleComplex([
                f64::from_ne_bytes(word(&bytes[..8], order)?),
                f64::from_ne_bytes(word(&bytes[8..], order)?),
            ]),
            ElementType::String => Value::String(bytes.to_vec()),
            _ => return None,
        })
    }

    /// Appends the bytes of the value in this machine's order; text without length or terminator.
    pub fn append_to(&self, out: &mut Vec<u8>) {
        match self {
            Value::I8(v) => out.extend(v.to_ne_bytes()),
            Value::I16(v) => out.extend(v.to_ne_bytes()),
            Value::I32(v) => out.extend(v.to_ne_bytes()),
            Value::I64(v) => out.extend(v.to_ne_bytes()),
            Value::U8(v) | Value::Char(v) => out.push(*v),
            Value::U16(v) => out.extend(v.to_ne_bytes()),
            Value::U32(v) => out.extend(v.to_ne_bytes()),
            Value::U64(v) => out.extend(v.to_ne_bytes()),
            Value::F32(v) => out.extend(v.to_ne_bytes()),
            Value::F64(v) => out.extend(v.to_ne_bytes()),
            Value::LongDouble(v) => out.extend(v),
            Value::Complex(v) => v.iter().for_each(|part| out.extend(part.to_ne_bytes())),
            Value::DoubleComplex(v) => v.iter().for_each(|part| out.extend(part.to_ne_bytes())),
            Value::String(v) => out.extend(v),
        }
    }

    /// The value as a dimension: whole and not negative.
    pub fn as_u64(&self) -> Option<u64> {
        match self {
            Value::U8(v) => Some(u64::from(*v)),
            Value::U16(v) => Some(u64::from(*v)),
            Value::U32(v) => Some(u64::from(*v)),
            Value::U64(v) => Some(*v),
            other => u64::try_from(other.as_i64()?).ok(),
        }
    }

    /// The value as a signed whole number; `None` for other types or where it does not fit.
    pub fn as_i64(&self) -> Option<i64> {
        match self {
            Value::I8(v) => Some(i64::from(*v)),
            Value::I16(v) => Some(i64::from(*v)),
            Value::I32(v) => Some(i64::from(*v)),
            Value::I64(v) => Some(*v),
            Value::U8(v) => Some(i64::from(*v)),
            Value::U16(v) => Some(i64::from(*v)),
            Value::U32(v) => Some(i64::from(*v)),
            Value::U64(v) => i64::try_from(*v).ok(),
            _ => None,
        }
    }

    /// The nearest double; `None` for complex numbers, long doubles and text.
    pub fn as_f64(&self) -> Option<f64> {
        match self {
            Value::F32(v) => Some(f64::from(*v)),
            Value::F64(v) => Some(*v),
            Value::U64(v) => Some(*v as f64),
            other => other.as_i64().map(|v| v as f64),
        }
    }
}

impl fmt::Display for Value {
    /// Numbers as Rust prints them (shortest form that reads back equal); text as it is.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Value::I8(v) => write!(f, "{v}"),
            Value::I16(v) => write!(f, "{v}"),
            Value::I32(v) => write!(f, "{v}"),
            Value::I64(v) => write!(f, "{v}"),
            Value::U8(v) => write!(f, "{v}"),
            Value::U16(v) => write!(f, "{v}"),
            Value::U32(v) => write!(f, "{v}"),
            Value::U64(v) => write!(f, "{v}"),
            Value::F32(v) => write!(f, "{v}"),
            Value::F64(v) => write!(f, "{v}"),
            Value::LongDouble(v) => write!(f, "{}", long_double_to_f64(v)),
            Value::Complex([re, im]) => write!(f, "({re},{im})"),
            Value::DoubleComplex([re, im]) => write!(f, "({re},{im})"),
            Value::String(v) => f.write_str(&String::from_utf8_lossy(v)),
            Value::Char(v) => write!(f, "{}", char::from(*v)),
        }
    }
}

/// The double nearest to an x86 extended number (64-bit mantissa with explicit leading one, in 16 bytes, this machine's order).
pub fn long_double_to_f64(bytes: &[u8; 16]) -> f64 {
    let mantissa = u64::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3], bytes[4], bytes[5], bytes[6], bytes[7]]);
    let sign_exponent = u16::from_le_bytes([bytes[8], bytes[9]]);
    let sign = if sign_exponent & 0x8000 != 0 { -1.0 } else { 1.0 };
    let exponent = i32::from(sign_exponent & 0x7fff);
    if exponent == 0x7fff {
        return if mantissa << 1 == 0 { sign * f64::INFINITY } else { f64::NAN };
    }
    // In two steps, so that neither factor leaves the range of a double before the product does.
    let power = exponent - 16383 - 63;
    sign * mantissa as f64 * 2f64.powi(power / 2) * 2f64.powi(power - power / 2)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_survive_their_bytes_in_both_orders() {
        let values = [
            Value::I8(-3),
            Value::I16(-300),
            Value::I32(-70_000),
            Value::I64(i64::MIN),
            Value::U64(u64::MAX),
            Value::F32(1.5),
            Value::F64(-0.1),
            Value::Complex([1.0, -2.0]),
            Value::DoubleComplex([1.0, -2.0]),
            Value::String(b"K".to_vec()),
        ];
        for value in values {
            let (mut bytes, t) = (Vec::new(), value.element_type());
            value.append_to(&mut bytes);
            assert_eq!(Value::from_bytes(t, &bytes, ByteOrder::NATIVE), Some(value.clone()));
            crate::element::swap_bytes(&mut bytes, t.word());
            let other = if ByteOrder::NATIVE == ByteOrder::Little { ByteOrder::Big } else { ByteOrder::Little };
            assert_eq!(Value::from_bytes(t, &bytes, other), Some(value));
        }
        assert_eq!(Value::from_bytes(ElementType::F64, &[0; 7], ByteOrder::Little), None);
    }

    #[test]
    fn extended_numbers_become_doubles() {
        // 1.0L and -2.5L as gcc stores them on x86-64.
        let mut one = [0; 16];
        one[7] = 0x80;
        one[8..10].copy_from_slice(&0x3fffu16.to_le_bytes());
        assert_eq!(long_double_to_f64(&one), 1.0);
        let mut other = [0; 16];
        other[7] = 0xa0;
        other[8..10].copy_from_slice(&0xc000u16.to_le_bytes());
        assert_eq!(long_double_to_f64(&other), -2.5);
        assert_eq!(long_double_to_f64(&[0; 16]), 0.0);
    }
}
