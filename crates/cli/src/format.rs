//! Values, shapes and boxes as text.

use crate::terminal::{plain, quoted};
use thalweg_choice::region::StridedBox;
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

/// The value of an attribute.
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

/// `[0:4, 1:9:2]`
pub fn lattice(area: &StridedBox) -> String {
    let ranges = (0..area.count.len()).map(|d| {
        let (start, stride, count) = (area.start[d], area.stride[d], area.count[d]);
        match stride {
            1 => format!("{start}:{}", start.saturating_add(count)),
            _ => {
                let end = start.saturating_add(count.saturating_sub(1).saturating_mul(stride));
                format!("{start}:{}:{stride}", end.saturating_add(u64::from(count > 0)))
            }
        }
    });
    format!("[{}]", ranges.collect::<Vec<_>>().join(", "))
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
    fn values_print_as_what_they_are() {
        assert_eq!(exact(&Value::Complex([0.1, -2.0])), "(0.1,-2)");
        assert_eq!(exact(&Value::String(b"a\nb\x1b".to_vec())), "a\\nb\\u{1b}");
        assert_eq!(exact(&Value::Char(200)), "-56");
    }
}
