//! Values and attributes as JSON: one form for every command and page.

use serde_json::{Value as Json, json};
use thalweg_types::value::long_double_to_f64;
use thalweg_types::{AttributeValue, Value};

/// A double as JSON; NaN and the infinities, which JSON numbers lack, become text.
pub fn real(v: f64) -> Json {
    if v.is_nan() {
        json!("NaN")
    } else if v.is_infinite() {
        json!(if v > 0.0 { "Infinity" } else { "-Infinity" })
    } else {
        json!(v)
    }
}

/// A single as the JSON number with its shortest digits: parsed as a single, the number is equal.
fn single(v: f32) -> Json {
    if v.is_finite() { json!(v.to_string().parse::<f64>().unwrap_or(f64::from(v))) } else { real(f64::from(v)) }
}

/// A value as JSON: complex ones as `[re, im]`, long doubles as the nearest double.
pub fn value(value: &Value) -> Json {
    match value {
        Value::I8(v) => json!(v),
        Value::I16(v) => json!(v),
        Value::I32(v) => json!(v),
        Value::I64(v) => json!(v),
        Value::U8(v) => json!(v),
        Value::U16(v) => json!(v),
        Value::U32(v) => json!(v),
        Value::U64(v) => json!(v),
        Value::F32(v) => single(*v),
        Value::F64(v) => real(*v),
        Value::LongDouble(v) => real(long_double_to_f64(v)),
        Value::Complex(v) => Json::Array(v.iter().map(|v| single(*v)).collect()),
        Value::DoubleComplex(v) => Json::Array(v.iter().map(|v| real(*v)).collect()),
        Value::String(v) => json!(String::from_utf8_lossy(v)),
        Value::Char(v) => json!(*v as i8),
    }
}

/// The value of an attribute as JSON; a reference to a variable is an object with its id.
pub fn attribute(value: &AttributeValue) -> Json {
    match value {
        AttributeValue::One(v) => self::value(v),
        AttributeValue::Many(_, values) => Json::Array(values.iter().map(self::value).collect()),
        AttributeValue::Variable(id) => json!({ "variable": id }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_keep_their_value() {
        assert_eq!(value(&Value::F32(0.1)).to_string(), "0.1");
        assert_eq!(value(&Value::F64(f64::NEG_INFINITY)).to_string(), "\"-Infinity\"");
        assert_eq!(value(&Value::U64(u64::MAX)).to_string(), "18446744073709551615");
    }
}
