//! Values of attributes, read from text: one number, several separated by commas, text, texts separated by commas.

use crate::model::AttributeSource;
use thalweg_diagnostics::Problem;
use thalweg_types::{ElementType, Value};

/// Names of types that ADIOS 1.13 accepts beside [`ElementType::NAMES`].
const MORE_NAMES: &[(&str, ElementType)] = &[
    ("char", ElementType::I8),
    ("int", ElementType::I32),
    ("unsigned char", ElementType::U8),
    ("unsigned int", ElementType::U32),
    ("long float", ElementType::F64),
];

/// The type a document names, in any letter case.
///
/// # Errors
/// An unknown name, with the nearest known one.
pub fn parse_type(name: &str) -> Result<ElementType, Problem> {
    let wanted = name.split_whitespace().collect::<Vec<_>>().join(" ").to_ascii_lowercase();
    ElementType::parse(&wanted).or_else(|| MORE_NAMES.iter().find(|(n, _)| *n == wanted).map(|(_, t)| *t)).ok_or_else(
        || {
            let all = ElementType::NAMES.iter().chain(MORE_NAMES).map(|(n, _)| *n);
            Problem::unknown("type", name, all)
        },
    )
}

impl AttributeSource {
    /// Reads the value of an attribute of type `element`.
    ///
    /// Text is kept as it is; numbers and the entries of a string array are separated by commas and lose the blanks around
    /// them. Several numbers make an array. A complex number is `(re,im)`, or `re,im` alone.
    ///
    /// # Errors
    /// An entry that is no number of that type.
    pub fn parse(element: ElementType, text: &str) -> Result<AttributeSource, Problem> {
        match element {
            ElementType::String => return Ok(AttributeSource::One(Value::String(text.as_bytes().to_vec()))),
            ElementType::StringArray => {
                let texts = text.split(',').map(|t| Value::String(t.trim().as_bytes().to_vec())).collect();
                return Ok(AttributeSource::Many(ElementType::String, texts));
            }
            _ => {}
        }
        let mut values = if element.is_complex() {
            complex_entries(text)?
                .into_iter()
                .map(|(re, im)| complex(element, re, im))
                .collect::<Result<Vec<_>, _>>()?
        } else {
            text.split(',').map(|t| number(element, t.trim())).collect::<Result<Vec<_>, _>>()?
        };
        Ok(if values.len() == 1 {
            AttributeSource::One(values.remove(0))
        } else {
            AttributeSource::Many(element, values)
        })
    }
}

fn wrong(element: ElementType, text: &str) -> Problem {
    let problem = Problem::new(format!("{text:?} is no value of type {element}"));
    let range = |low: i128, high: i128| format!("a whole number from {low} to {high}");
    match element {
        ElementType::I8 => problem.expected(range(i8::MIN.into(), i8::MAX.into())),
        ElementType::I16 => problem.expected(range(i16::MIN.into(), i16::MAX.into())),
        ElementType::I32 => problem.expected(range(i32::MIN.into(), i32::MAX.into())),
        ElementType::I64 => problem.expected(range(i64::MIN.into(), i64::MAX.into())),
        ElementType::U8 => problem.expected(range(0, u8::MAX.into())),
        ElementType::U16 => problem.expected(range(0, u16::MAX.into())),
        ElementType::U32 => problem.expected(range(0, u32::MAX.into())),
        ElementType::U64 => problem.expected(range(0, u64::MAX.into())),
        ElementType::Complex | ElementType::DoubleComplex => problem.expected("(real,imaginary)"),
        _ => problem.expected("a number"),
    }
}

fn number(element: ElementType, text: &str) -> Result<Value, Problem> {
    let whole = || text.parse::<i128>().ok();
    let value = match element {
        ElementType::I8 => whole().and_then(|v| v.try_into().ok()).map(Value::I8),
        ElementType::I16 => whole().and_then(|v| v.try_into().ok()).map(Value::I16),
        ElementType::I32 => whole().and_then(|v| v.try_into().ok()).map(Value::I32),
        ElementType::I64 => whole().and_then(|v| v.try_into().ok()).map(Value::I64),
        ElementType::U8 => whole().and_then(|v| v.try_into().ok()).map(Value::U8),
        ElementType::U16 => whole().and_then(|v| v.try_into().ok()).map(Value::U16),
        ElementType::U32 => whole().and_then(|v| v.try_into().ok()).map(Value::U32),
        ElementType::U64 => whole().and_then(|v| v.try_into().ok()).map(Value::U64),
        ElementType::F32 => text.parse().ok().map(Value::F32),
        ElementType::F64 => text.parse().ok().map(Value::F64),
        ElementType::LongDouble => text.parse().ok().map(|v| Value::LongDouble(long_double(v))),
        _ => None,
    };
    value.ok_or_else(|| wrong(element, text))
}

fn complex(element: ElementType, re: &str, im: &str) -> Result<Value, Problem> {
    let value = match element {
        ElementType::Complex => re.parse().ok().zip(im.parse().ok()).map(|(re, im)| Value::Complex([re, im])),
        _ => re.parse().ok().zip(im.parse().ok()).map(|(re, im)| Value::DoubleComplex([re, im])),
    };
    value.ok_or_else(|| wrong(element, &format!("({re},{im})")))
}

/// The two halves of each complex number in `(a,b),(c,d)`, or in `a,b`.
fn complex_entries(text: &str) -> Result<Vec<(&str, &str)>, Problem> {
    let refuse = || wrong(ElementType::Complex, text);
    let halves = |t: &'_ str| -> Option<(usize, usize)> {
        let comma = t.find(',')?;
        (t.rfind(',') == Some(comma)).then_some((comma, comma + 1))
    };
    let pair = |t| halves(t).map(|(a, b): (usize, usize)| (str::trim(&t[..a]), str::trim(&t[b..])));
    let mut rest = text.trim();
    if !rest.starts_with('(') {
        return pair(rest).map(|p| vec![p]).ok_or_else(refuse);
    }
    let mut entries = Vec::new();
    loop {
        let inner = rest.strip_prefix('(').ok_or_else(refuse)?;
        let end = inner.find(')').ok_or_else(refuse)?;
        entries.push(pair(&inner[..end]).ok_or_else(refuse)?);
        rest = inner[end + 1..].trim_start();
        if rest.is_empty() {
            return Ok(entries);
        }
        rest = rest.strip_prefix(',').ok_or_else(refuse)?.trim_start();
    }
}

/// A double as an x86 extended number: 64-bit mantissa with an explicit leading one, sign and exponent, 6 bytes of padding.
fn long_double(value: f64) -> [u8; 16] {
    let bits = value.to_bits();
    let (sign, exponent, fraction) = ((bits >> 63) as u16, (bits >> 52 & 0x7ff) as i32, bits & ((1 << 52) - 1));
    let (exponent, mantissa) = match (exponent, fraction) {
        (0, 0) => (0, 0),
        (0, small) => {
            // Extended numbers have room to write the smallest doubles with a leading one.
            let shift = small.leading_zeros();
            (16383 - 1022 - (shift as i32 - 11), small << shift)
        }
        (0x7ff, fraction) => (0x7fff, 1 << 63 | fraction << 11),
        (exponent, fraction) => (exponent - 1023 + 16383, 1 << 63 | fraction << 11),
    };
    let mut bytes = [0; 16];
    bytes[..8].copy_from_slice(&mantissa.to_le_bytes());
    bytes[8..10].copy_from_slice(&(sign << 15 | exponent as u16).to_le_bytes());
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;
    use thalweg_types::value::long_double_to_f64;

    fn one(element: ElementType, text: &str) -> Value {
        match AttributeSource::parse(element, text).unwrap() {
            AttributeSource::One(value) => value,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn every_type_name_of_adios_is_known_in_any_case() {
        for (name, element) in [
            ("INTEGER", ElementType::I32),
            ("int", ElementType::I32),
            ("unsigned  char", ElementType::U8),
            ("long float", ElementType::F64),
            ("Real*8", ElementType::F64),
            ("complex*16", ElementType::DoubleComplex),
        ] {
            assert_eq!(parse_type(name), Ok(element), "{name}");
        }
        assert_eq!(parse_type("flaot").unwrap_err().nearest.as_deref(), Some("float"));
    }

    #[test]
    fn numbers_keep_their_type_and_range() {
        assert_eq!(one(ElementType::I8, " -128 "), Value::I8(-128));
        assert_eq!(one(ElementType::U64, "18446744073709551615"), Value::U64(u64::MAX));
        assert_eq!(one(ElementType::F32, "1.5e3"), Value::F32(1500.0));
        assert_eq!(one(ElementType::Complex, "1.5, -2"), Value::Complex([1.5, -2.0]));
        assert_eq!(one(ElementType::DoubleComplex, "(0,1)"), Value::DoubleComplex([0.0, 1.0]));
        assert_eq!(one(ElementType::String, " a, b "), Value::String(b" a, b ".to_vec()));
        for (element, text) in [
            (ElementType::I8, "128"),
            (ElementType::U16, "-1"),
            (ElementType::I32, "1.5"),
            (ElementType::F64, ""),
            (ElementType::F64, "1,,2"),
            (ElementType::Complex, "1"),
            (ElementType::Complex, "(1,2"),
            (ElementType::Complex, "(1,2)(3,4)"),
        ] {
            let problem = AttributeSource::parse(element, text).unwrap_err().to_string();
            assert!(problem.contains("is no value of type"), "{problem}");
        }
    }

    #[test]
    fn commas_make_arrays_of_numbers_and_texts() {
        assert_eq!(
            AttributeSource::parse(ElementType::I16, "1, 2,3"),
            Ok(AttributeSource::Many(ElementType::I16, vec![Value::I16(1), Value::I16(2), Value::I16(3)]))
        );
        assert_eq!(
            AttributeSource::parse(ElementType::StringArray, "ab, cd"),
            Ok(AttributeSource::Many(
                ElementType::String,
                vec![Value::String(b"ab".to_vec()), Value::String(b"cd".to_vec())]
            ))
        );
        assert_eq!(
            AttributeSource::parse(ElementType::Complex, "(1,2), (3,4)"),
            Ok(AttributeSource::Many(
                ElementType::Complex,
                vec![Value::Complex([1.0, 2.0]), Value::Complex([3.0, 4.0])]
            ))
        );
    }

    #[test]
    fn long_doubles_hold_every_double() {
        for value in
            [0.0, -0.0, 1.0, -2.5, f64::MAX, f64::MIN_POSITIVE, 5e-324, 3e-310, f64::INFINITY, f64::NEG_INFINITY]
        {
            assert_eq!(long_double_to_f64(&long_double(value)).to_bits(), value.to_bits(), "{value}");
        }
        assert!(long_double_to_f64(&long_double(f64::NAN)).is_nan());
        let mut one = [0; 16];
        one[7] = 0x80;
        one[8..10].copy_from_slice(&0x3fffu16.to_le_bytes());
        assert_eq!(long_double(1.0), one, "as gcc stores 1.0L");
    }
}
