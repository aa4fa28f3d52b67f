//! Conversion of Thalweg's errors to Python exceptions: `python/thalweg/errors.py` defines a class per error kind, selected by the
//! kind's number.

use pyo3::prelude::*;
use pyo3::types::PyDict;
use thalweg_types::{Error, ErrorKind};

/// An error to be raised in Python.
pub enum Failure {
    /// An error of Thalweg.
    Thalweg(Error),
    /// A Python exception.
    Python(PyErr),
}

/// The result of a function that Python calls.
pub type Outcome<T> = Result<T, Failure>;

impl From<Error> for Failure {
    fn from(error: Error) -> Failure {
        Failure::Thalweg(error)
    }
}

impl From<PyErr> for Failure {
    fn from(error: PyErr) -> Failure {
        Failure::Python(error)
    }
}

impl Failure {
    /// An `InvalidArgument` error with the message `what`.
    pub fn argument(what: impl Into<String>) -> Failure {
        Failure::Thalweg(Error::new(ErrorKind::InvalidArgument, what))
    }
}

impl From<Failure> for PyErr {
    fn from(failure: Failure) -> PyErr {
        match failure {
            Failure::Python(error) => error,
            Failure::Thalweg(error) => Python::attach(|py| exception(py, &error).unwrap_or_else(|e| e)),
        }
    }
}

fn exception(py: Python<'_>, error: &Error) -> PyResult<PyErr> {
    let facts = PyDict::new(py);
    let place = error.place();
    facts.set_item("what", error.what())?;
    facts.set_item("rank", place.rank)?;
    facts.set_item("group", &place.group)?;
    facts.set_item("step", place.step)?;
    facts.set_item("variable", &place.variable)?;
    facts.set_item("file", &place.object)?;
    facts.set_item("byte", place.byte)?;
    facts.set_item("safe", error.still_safe())?;
    facts.set_item("reported_by", error.reported_by())?;
    let make = py.import("thalweg.errors")?.getattr("_make")?;
    // As keywords: the function's signature declares their names and types.
    Ok(PyErr::from_value(make.call((error.kind().code(), error.to_string()), Some(&facts))?))
}
