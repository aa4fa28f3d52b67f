//! Types and attributes in Zarr's JSON. Pure.
//!
//! xarray keeps the value of missing elements in the attribute `_FillValue`: of real numbers as the base64 of a double, least significant byte first.

use crate::source::found::{Attribute, Form, Value as Held};
use crate::values::element_of;
use base64::prelude::{BASE64_STANDARD, Engine as _};
use serde_json::{Value as Json, json};
use thalweg_types::{AttributeValue, ByteOrder, ElementType, Value};
use thalweg_views::hdf5::Kind;

/// The attribute with the value of missing elements.
pub const FILL: &str = "_FillValue";

/// The names of types, and the kinds as which they are read.
const TYPES: [(&str, ElementType); 12] = [
    ("int8", ElementType::I8),
    ("int16", ElementType::I16),
    ("int32", ElementType::I32),
    ("int64", ElementType::I64),
    ("uint8", ElementType::U8),
    ("uint16", ElementType::U16),
    ("uint32", ElementType::U32),
    ("uint64", ElementType::U64),
    ("float32", ElementType::F32),
    ("float64", ElementType::F64),
    ("complex64", ElementType::Complex),
    ("complex128", ElementType::DoubleComplex),
];

/// The name of the type of elements; texts and characters are texts.
pub fn name_of(element: ElementType) -> Option<&'static str> {
    match element {
        ElementType::String | ElementType::Char => Some("string"),
        other => TYPES.iter().find(|(_, known)| *known == other).map(|(name, _)| *name),
    }
}

/// The kind of elements in this machine's byte order.
fn kind_of(element: ElementType) -> Option<Kind> {
    let is_big = ByteOrder::NATIVE == ByteOrder::Big;
    Some(match element {
        ElementType::I8 | ElementType::I16 | ElementType::I32 | ElementType::I64 => {
            Kind::Integer(element.size(), true, is_big)
        }
        ElementType::U8 | ElementType::U16 | ElementType::U32 | ElementType::U64 => {
            Kind::Integer(element.size(), false, is_big)
        }
        ElementType::F32 | ElementType::F64 => Kind::Real(element.size(), is_big),
        ElementType::Complex | ElementType::DoubleComplex => Kind::Complex(element.size() / 2, is_big),
        _ => return None,
    })
}

/// What the elements of a type are.
pub fn form_of(name: &str) -> Form {
    let is_big = ByteOrder::NATIVE == ByteOrder::Big;
    match name {
        "bool" => {
            let members = vec![("FALSE".to_string(), vec![0]), ("TRUE".to_string(), vec![1])];
            Form::Enumeration(Kind::Integer(1, true, is_big), members)
        }
        "float16" => Form::Nearest(Kind::Real(4, is_big), "of half width"),
        "string" => Form::Texts,
        other => {
            let known = TYPES.iter().find(|(known, _)| *known == other).and_then(|(_, element)| kind_of(*element));
            known.map_or_else(|| Form::Other(other.to_string()), Form::Numbers)
        }
    }
}

/// The value of elements that nobody wrote.
///
/// - `is_nan`: of real numbers NaN.
pub fn fill_value(element: ElementType, is_nan: bool) -> Json {
    match element {
        ElementType::String | ElementType::Char => json!(""),
        ElementType::F32 | ElementType::F64 if is_nan => json!("NaN"),
        ElementType::F32 | ElementType::F64 => json!(0.0),
        ElementType::Complex | ElementType::DoubleComplex => json!([0.0, 0.0]),
        _ => json!(0),
    }
}

/// An attribute of an array.
///
/// - `element`: the type of the array's elements.
pub fn json_of(key: &str, value: &AttributeValue, element: Option<ElementType>) -> Json {
    let one = match value {
        AttributeValue::One(value) => Some(value),
        AttributeValue::Many(_, values) if values.len() == 1 => values.first(),
        _ => None,
    };
    let is_real = matches!(element, Some(ElementType::F32 | ElementType::F64));
    match one.and_then(Value::as_f64) {
        Some(number) if key == FILL && is_real => Json::from(BASE64_STANDARD.encode(number.to_le_bytes())),
        _ if key == FILL => one.map_or(Json::Null, thalweg_views::zarr::scalar),
        _ => thalweg_views::zarr::attribute(value),
    }
}

/// An attribute from JSON, and what is not as it was.
///
/// - `element`: the type of the array's elements.
pub fn attribute_of(key: &str, json: &Json, element: Option<ElementType>) -> (Attribute, Option<&'static str>) {
    let attribute = |value| Attribute { name: key.to_string(), shape: vec![], value };
    if key == FILL
        && let Some(value) = element.and_then(|element| fill_of(json, element))
    {
        return (attribute(value), None);
    }
    let is_big = ByteOrder::NATIVE == ByteOrder::Big;
    let signed = |numbers: Vec<i64>| {
        let bytes = numbers.iter().flat_map(|number| number.to_ne_bytes()).collect();
        Held::Numbers(Kind::Integer(8, true, is_big), bytes)
    };
    let real = |numbers: Vec<f64>| {
        let bytes = numbers.iter().flat_map(|number| number.to_ne_bytes()).collect();
        Held::Numbers(Kind::Real(8, is_big), bytes)
    };
    let all: Vec<&Json> = json.as_array().map_or_else(|| vec![json], |list| list.iter().collect());
    let texts: Option<Vec<Vec<u8>>> = all.iter().map(|one| one.as_str().map(|text| text.as_bytes().to_vec())).collect();
    let whole: Option<Vec<i64>> = all.iter().map(|one| one.as_i64()).collect();
    let numbers: Option<Vec<f64>> = all.iter().map(|one| one.as_f64()).collect();
    let truths: Option<Vec<i64>> = all.iter().map(|one| one.as_bool().map(i64::from)).collect();
    let (value, remark) = match (texts, whole, numbers, truths) {
        _ if all.is_empty() => (Held::Other("it has no values".into()), None),
        (Some(texts), ..) => (Held::Texts(texts), None),
        (_, Some(whole), ..) => (signed(whole), None),
        (_, _, Some(numbers), _) => (real(numbers), None),
        (.., Some(truths)) => (signed(truths), Some("true and false become 1 and 0")),
        _ => (Held::Texts(vec![json.to_string().into_bytes()]), Some("it becomes a text of JSON")),
    };
    let mut made = attribute(value);
    if json.is_array() {
        made.shape = vec![all.len() as u64];
    }
    (made, remark)
}

/// The value of missing elements, of the array's type.
fn fill_of(json: &Json, element: ElementType) -> Option<Held> {
    let kind = kind_of(element)?;
    let real = |json: &Json| match json.as_str() {
        Some("NaN") => Some(f64::NAN),
        Some("Infinity") => Some(f64::INFINITY),
        Some("-Infinity") => Some(f64::NEG_INFINITY),
        Some(text) => BASE64_STANDARD.decode(text).ok()?.try_into().ok().map(f64::from_le_bytes),
        None => json.as_f64(),
    };
    let bytes = match element {
        ElementType::F32 => (real(json)? as f32).to_ne_bytes().to_vec(),
        ElementType::F64 => real(json)?.to_ne_bytes().to_vec(),
        _ => {
            let number = json.as_i64().map(i128::from).or_else(|| json.as_u64().map(i128::from))?;
            let bytes = number.to_le_bytes()[..element.size() as usize].to_vec();
            if ByteOrder::NATIVE == ByteOrder::Big { bytes.into_iter().rev().collect() } else { bytes }
        }
    };
    let is_whole = element_of(kind).is_some_and(|own| Value::from_bytes(own, &bytes, ByteOrder::NATIVE).is_some());
    is_whole.then_some(Held::Numbers(kind, bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn back(key: &str, value: AttributeValue, element: Option<ElementType>) -> Attribute {
        attribute_of(key, &json_of(key, &value, element), element).0
    }

    #[test]
    fn attributes_come_back_as_they_were() {
        let is_big = ByteOrder::NATIVE == ByteOrder::Big;
        let text = AttributeValue::One(Value::String(b"K".to_vec()));
        assert_eq!(back("units", text, None).value, Held::Texts(vec![b"K".to_vec()]));
        let whole = AttributeValue::Many(ElementType::I32, vec![Value::I32(1), Value::I32(-2)]);
        let bytes = [1i64, -2].iter().flat_map(|n| n.to_ne_bytes()).collect();
        let made = back("range", whole, None);
        assert_eq!((made.shape, made.value), (vec![2], Held::Numbers(Kind::Integer(8, true, is_big), bytes)));
        let fill = back(FILL, AttributeValue::One(Value::F32(f32::NAN)), Some(ElementType::F32));
        let Held::Numbers(Kind::Real(4, _), bytes) = fill.value else { panic!("{fill:?}") };
        assert!(f32::from_ne_bytes(bytes.try_into().unwrap()).is_nan());
        let fill = back(FILL, AttributeValue::One(Value::I16(-7)), Some(ElementType::I16));
        assert_eq!(fill.value, Held::Numbers(Kind::Integer(2, true, is_big), (-7i16).to_ne_bytes().to_vec()));
    }

    #[test]
    fn what_is_no_attribute_of_ours_becomes_one_with_a_remark() {
        let of = |json: Json| attribute_of("x", &json, None);
        assert_eq!(of(json!(true)).1, Some("true and false become 1 and 0"));
        assert_eq!(of(json!({"a": 1})).0.value, Held::Texts(vec![b"{\"a\":1}".to_vec()]));
        assert!(of(json!([1, "a"])).1.is_some() && of(json!(null)).1.is_some());
        assert!(matches!(of(json!([])).0.value, Held::Other(_)));
        assert!(matches!(of(json!([1, 2.5])).0.value, Held::Numbers(Kind::Real(8, _), _)));
    }

    #[test]
    fn types_have_names_both_ways() {
        for (name, element) in TYPES {
            assert_eq!(name_of(element), Some(name));
            assert_eq!(form_of(name).kind().and_then(element_of), Some(element));
        }
        assert_eq!(form_of("numpy.datetime64"), Form::Other("numpy.datetime64".into()));
    }
}
