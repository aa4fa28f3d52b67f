//! Values, shapes and boxes as text and as JSON.

use crate::terminal::{plain, quoted};
use serde_json::{Value as Json, json};
use thalweg_query::number::{brief, real, single};
use thalweg_types::value::long_double_to_f64;
use thalweg_types::{AttributeValue, ElementType, Value};

/// A value in its shortest exact form; text without quotes, on one line.
pub fn exact(value: &Value) -> String {
    match value {
        Value::F32(v) => single(*v),
        Value::F64(v) => real(*v),
        Value::LongDouble(v) => real(long_double_to_f64(v)),
        Value::Complex([re, im]) => format!("({},{})", single(*re), single(*im)),
        Value::DoubleComplex([re, im]) => format!("({},{})", real(*re), real(*im)),
        Value::String(text) => plain(&String::from_utf8_lossy(text)),
        Value::Char(v) => (*v as i8).to_string(),
        whole => whole.to_string(),
    }
}

/// A value for a listing: reals in six digits, text between quotes.
pub fn short(value: &Value) -> String {
    match value {
        Value::F32(v) => brief(f64::from(*v)),
        Value::F64(v) => brief(*v),
        Value::LongDouble(v) => brief(long_double_to_f64(v)),
        Value::Complex([re, im]) => format!("({},{})", brief(f64::from(*re)), brief(f64::from(*im))),
        Value::DoubleComplex([re, im]) => format!("({},{})", brief(*re), brief(*im)),
        Value::String(text) => quoted(&String::from_utf8_lossy(text)),
        other => exact(other),
    }
}

/// What an attribute says.
pub fn attribute(value: &AttributeValue) -> String {
    let one = |v: &Value| match v {
        Value::String(text) => quoted(&String::from_utf8_lossy(text)),
        other => exact(other),
    };
    match value {
        AttributeValue::One(v) => one(v),
        AttributeValue::Many(_, values) => format!("{{{}}}", values.iter().map(one).collect::<Vec<_>>().join(", ")),
        AttributeValue::Variable(id) => format!("the value of variable {id}"),
    }
}

/// `{64, 64}`
pub fn shape(extents: &[u64]) -> String {
    format!("{{{}}}", extents.iter().map(u64::to_string).collect::<Vec<_>>().join(", "))
}

/// `[0:4, 8:16]`
pub fn range(offset: &[u64], count: &[u64]) -> String {
    let ranges = offset.iter().zip(count).map(|(o, c)| format!("{o}:{}", o.saturating_add(*c)));
    format!("[{}]", ranges.collect::<Vec<_>>().join(", "))
}

/// `3 steps`, `1 step`.
pub fn count(n: u64, word: &str) -> String {
    format!("{n} {word}{}", if n == 1 { "" } else { "s" })
}

/// Steps as runs: `0 to 3, 5, 7 to 9`; at most ten runs.
pub fn steps(steps: &[u64]) -> String {
    let mut runs: Vec<(u64, u64)> = Vec::new();
    for step in steps {
        match runs.last_mut() {
            Some(run) if run.1 + 1 == *step => run.1 = *step,
            _ => runs.push((*step, *step)),
        }
    }
    let shown = runs.iter().take(10).map(|(a, b)| if a == b { a.to_string() } else { format!("{a} to {b}") });
    let mut text = shown.collect::<Vec<_>>().join(", ");
    if runs.len() > 10 {
        text.push_str(", ...");
    }
    text
}

/// A real number as JSON; what JSON has no number for becomes a text.
pub fn json_real(v: f64) -> Json {
    if v.is_nan() {
        json!("NaN")
    } else if v.is_infinite() {
        json!(if v > 0.0 { "Infinity" } else { "-Infinity" })
    } else {
        json!(v)
    }
}

/// A single as the JSON number with its shortest digits: read as a single, it is equal.
fn json_single(v: f32) -> Json {
    if v.is_finite() { json!(v.to_string().parse::<f64>().unwrap_or(f64::from(v))) } else { json_real(f64::from(v)) }
}

/// A value as JSON: complex ones as `[re, im]`, long doubles as the nearest double.
pub fn json(value: &Value) -> Json {
    match value {
        Value::I8(v) => json!(v),
        Value::I16(v) => json!(v),
        Value::I32(v) => json!(v),
        Value::I64(v) => json!(v),
        Value::U8(v) => json!(v),
        Value::U16(v) => json!(v),
        Value::U32(v) => json!(v),
        Value::U64(v) => json!(v),
        Value::F32(v) => json_single(*v),
        Value::F64(v) => json_real(*v),
        Value::LongDouble(v) => json_real(long_double_to_f64(v)),
        Value::Complex(v) => Json::Array(v.iter().map(|v| json_single(*v)).collect()),
        Value::DoubleComplex(v) => Json::Array(v.iter().map(|v| json_real(*v)).collect()),
        Value::String(v) => json!(String::from_utf8_lossy(v)),
        Value::Char(v) => json!(*v as i8),
    }
}

/// What an attribute says, as JSON.
pub fn json_attribute(value: &AttributeValue) -> Json {
    match value {
        AttributeValue::One(v) => json(v),
        AttributeValue::Many(_, values) => Json::Array(values.iter().map(json).collect()),
        AttributeValue::Variable(id) => json!({ "variable": id }),
    }
}

/// Type of an attribute as the file has it: arrays of text have a name of their own.
pub fn attribute_type(element: ElementType, value: &AttributeValue) -> ElementType {
    match value {
        AttributeValue::Many(ElementType::String, _) => ElementType::StringArray,
        _ => element,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_are_told_in_runs() {
        assert_eq!(steps(&[0, 1, 2, 5, 7, 8]), "0 to 2, 5, 7 to 8");
        assert_eq!(steps(&[]), "");
        let odd: Vec<u64> = (0..40).map(|i| 2 * i).collect();
        assert!(steps(&odd).ends_with("16, 18, ..."));
    }

    #[test]
    fn values_print_as_what_they_are() {
        assert_eq!(exact(&Value::Complex([0.1, -2.0])), "(0.1,-2)");
        assert_eq!(exact(&Value::String(b"a\nb\x1b".to_vec())), "a\\nb\\u{1b}");
        assert_eq!(exact(&Value::Char(200)), "-56");
        assert_eq!(json(&Value::F32(0.1)).to_string(), "0.1");
        assert_eq!(json(&Value::F64(f64::NEG_INFINITY)).to_string(), "\"-Infinity\"");
        assert_eq!(json(&Value::U64(u64::MAX)).to_string(), "18446744073709551615");
    }
}
