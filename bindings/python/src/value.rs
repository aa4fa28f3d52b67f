//! Conversion of single values between Rust and Python.

use crate::failure::{Failure, Outcome};
use pyo3::IntoPyObjectExt;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyComplex};
use thalweg_types::value::long_double_to_f64;
use thalweg_types::{AttributeValue, ByteOrder, ElementType, Value};

/// The element type with a BP name such as `double`.
///
/// # Errors
/// `InvalidArgument` for another name.
pub fn element(name: &str) -> Outcome<ElementType> {
    ElementType::ALL
        .into_iter()
        .find(|t| t.name() == name)
        .ok_or_else(|| Failure::argument(format!("\"{name}\" is no element type")))
}

/// A Python string; bytes that are not UTF-8 become surrogate escapes, so that a conversion back restores them.
fn text<'py>(py: Python<'py>, bytes: &[u8]) -> PyResult<Bound<'py, PyAny>> {
    PyBytes::new(py, bytes).call_method1("decode", ("utf-8", "surrogateescape"))
}

/// Converts a value to Python's `int`, `float`, `complex` or `str`.
pub fn to_python<'py>(py: Python<'py>, value: &Value) -> PyResult<Bound<'py, PyAny>> {
    match value {
        Value::I8(v) => v.into_bound_py_any(py),
        Value::I16(v) => v.into_bound_py_any(py),
        Value::I32(v) => v.into_bound_py_any(py),
        Value::I64(v) => v.into_bound_py_any(py),
        Value::U8(v) => v.into_bound_py_any(py),
        Value::U16(v) => v.into_bound_py_any(py),
        Value::U32(v) => v.into_bound_py_any(py),
        Value::U64(v) => v.into_bound_py_any(py),
        Value::F32(v) => f64::from(*v).into_bound_py_any(py),
        Value::F64(v) => v.into_bound_py_any(py),
        Value::LongDouble(v) => long_double_to_f64(v).into_bound_py_any(py),
        Value::Complex([re, im]) => Ok(PyComplex::from_doubles(py, f64::from(*re), f64::from(*im)).into_any()),
        Value::DoubleComplex([re, im]) => Ok(PyComplex::from_doubles(py, *re, *im).into_any()),
        Value::String(bytes) => text(py, bytes),
        Value::Char(byte) => text(py, &[*byte]),
    }
}

/// The value of an attribute, or a list of its values. The reader has replaced a reference to a variable by the variable's value;
/// a reference that is not replaced becomes a text with the variable's id.
pub fn attribute<'py>(py: Python<'py>, value: &AttributeValue) -> PyResult<Bound<'py, PyAny>> {
    match value {
        AttributeValue::One(value) => to_python(py, value),
        AttributeValue::Many(_, values) => {
            values.iter().map(|v| to_python(py, v)).collect::<PyResult<Vec<_>>>()?.into_bound_py_any(py)
        }
        AttributeValue::Variable(id) => format!("the value of variable {id}").into_bound_py_any(py),
    }
}

/// Decodes contiguous values in this machine's byte order.
///
/// # Errors
/// `InvalidArgument` for text, and if the number of bytes is not a multiple of the element size.
pub fn many(element: ElementType, bytes: &[u8]) -> Outcome<Vec<Value>> {
    let size = usize::try_from(element.size()).unwrap_or(0);
    if size == 0 || !bytes.len().is_multiple_of(size) {
        return Err(Failure::argument(format!("{} bytes of {element} values", bytes.len())));
    }
    let value = |chunk| Value::from_bytes(element, chunk, ByteOrder::NATIVE);
    bytes.chunks_exact(size).map(value).collect::<Option<_>>().ok_or_else(|| Failure::argument("values of no type"))
}
