//! Metadata of a file, its variables, attributes and blocks, as Python objects with typed, read-only attributes;
//! `python/thalweg/_core.pyi` declares the types.

use crate::value;
use pyo3::prelude::*;
use thalweg_reader::{ErrorBound, Kind};
use thalweg_schema::Dimension;
use thalweg_types::{ByteOrder, Value};

fn optional(py: Python<'_>, value: Option<&Value>) -> PyResult<Option<Py<PyAny>>> {
    value.map(|v| value::to_python(py, v).map(Bound::unbind)).transpose()
}

/// Metadata of a file.
#[pyclass(frozen, get_all, module = "thalweg._core")]
pub struct FileFacts {
    steps: u64,
    finished: bool,
    torn_bytes: u64,
    /// Step, rank and error kind of each missing process group.
    partial: Vec<(u64, u32, String)>,
    groups: Vec<String>,
    writers: Option<u32>,
    byte_order: &'static str,
    subfiles: bool,
    length: u64,
}

impl FileFacts {
    pub fn new(status: &thalweg_reader::Status) -> FileFacts {
        FileFacts {
            steps: status.steps,
            finished: status.finished,
            torn_bytes: status.torn_bytes,
            partial: status.partial.iter().map(|p| (p.step, p.rank, p.kind.words().to_string())).collect(),
            groups: status.groups.clone(),
            writers: status.writers,
            byte_order: if status.order == ByteOrder::Little { "little" } else { "big" },
            subfiles: status.subfiles,
            length: status.length,
        }
    }
}

/// Metadata of a variable from the head of its index entry: known without reading the entry.
#[pyclass(frozen, get_all, module = "thalweg._core")]
pub struct HeadFacts {
    name: String,
    group: String,
    /// BP name of the element type; `None` for a code that BP version 3 does not know.
    element: Option<&'static str>,
    blocks: u64,
}

impl From<&thalweg_reader::Head> for HeadFacts {
    fn from(head: &thalweg_reader::Head) -> HeadFacts {
        HeadFacts {
            name: head.name.clone(),
            group: head.group.clone(),
            element: head.element.map(|t| t.name()),
            blocks: head.blocks,
        }
    }
}

/// An attribute and its last value.
#[pyclass(frozen, get_all, module = "thalweg._core")]
pub struct AttributeFacts {
    /// BP name of the element type.
    element: &'static str,
    /// The value, or a list of the values.
    value: Py<PyAny>,
    /// The variable that the attribute refers to.
    variable: Option<String>,
    /// Written by the library rather than the application.
    internal: bool,
}

impl AttributeFacts {
    pub fn new(py: Python<'_>, a: thalweg_reader::Attribute) -> PyResult<AttributeFacts> {
        let value = value::attribute(py, &a.value)?.unbind();
        Ok(AttributeFacts { element: a.element.name(), value, variable: a.variable, internal: a.internal })
    }
}

/// Metadata of a variable over all its steps.
#[pyclass(frozen, get_all, module = "thalweg._core")]
pub struct VariableFacts {
    name: String,
    group: String,
    /// BP name of the element type.
    element: &'static str,
    /// `scalar`, `value per rank`, `global array` or `local array`.
    kind: &'static str,
    steps: Vec<u64>,
    /// Extents in the variable's first step.
    shape: Vec<u64>,
    shape_changes: bool,
    blocks: u64,
    transform: Option<String>,
}

impl From<thalweg_reader::Variable> for VariableFacts {
    fn from(v: thalweg_reader::Variable) -> VariableFacts {
        let kind = match v.kind {
            Kind::Scalar => "scalar",
            Kind::LocalValue => "value per rank",
            Kind::Global => "global array",
            Kind::Local => "local array",
        };
        VariableFacts {
            name: v.name,
            group: v.group,
            element: v.element.name(),
            kind,
            steps: v.steps,
            shape: v.shape,
            shape_changes: v.shape_changes,
            blocks: v.blocks,
            transform: v.transform,
        }
    }
}

/// Metadata of one block of a step.
#[pyclass(frozen, get_all, module = "thalweg._core")]
pub struct BlockFacts {
    number: u64,
    step: u64,
    /// Offset of the block in the global array; zeros for local arrays.
    offset: Vec<u64>,
    /// Extents of the block.
    count: Vec<u64>,
    /// The value of a scalar or text.
    value: Option<Py<PyAny>>,
    /// The rank that wrote the block; `None` if the file does not record it.
    rank: Option<u32>,
    subfile: Option<u32>,
    /// Bytes of the stored values.
    bytes: u64,
    /// Byte offset of the stored values.
    position: u64,
    min: Option<Py<PyAny>>,
    max: Option<Py<PyAny>>,
    mean: Option<f64>,
    std: Option<f64>,
    /// Largest absolute error, recorded by a transform with an error bound.
    largest_error: Option<f64>,
    /// The absolute error that the bound allows in this block.
    allowed_error: Option<f64>,
    /// Why a block with an error bound is stored without loss.
    lossless: Option<String>,
}

impl BlockFacts {
    pub fn new(py: Python<'_>, b: &thalweg_reader::Block, writer: Option<u32>) -> PyResult<BlockFacts> {
        let known = b.statistics.as_ref().filter(|s| s.finite > 0 && s.complex.is_none());
        let record = b.error_record().ok().flatten();
        Ok(BlockFacts {
            number: b.number,
            step: b.step,
            offset: b.offset.clone(),
            count: b.count.clone(),
            value: optional(py, b.value.as_ref())?,
            rank: writer,
            subfile: b.subfile,
            bytes: b.payload.length,
            position: b.payload.offset,
            min: optional(py, known.map(|s| &s.min))?,
            max: optional(py, known.map(|s| &s.max))?,
            mean: known.and_then(|s| s.mean()),
            std: known.and_then(|s| s.standard_deviation()),
            largest_error: record.map(|r| r.largest),
            allowed_error: record.map(|r| r.allowed).filter(|allowed| !allowed.is_nan()),
            lossless: record.and_then(|r| r.lossless).map(|why| why.to_string()),
        })
    }
}

/// Minimum and maximum.
type Range = (f64, f64);

/// Errors of blocks that went through a lossy transform, joined.
#[pyclass(frozen, get_all, module = "thalweg._core")]
pub struct ErrorFacts {
    blocks: u64,
    lossless: u64,
    not_measured: u64,
    /// The bound, if all blocks have the same.
    bound: Option<f64>,
    /// The bound is a fraction of the range.
    relative: bool,
    largest: f64,
    largest_relative: f64,
}

impl ErrorFacts {
    fn new(errors: &thalweg_reader::CompressionErrors) -> ErrorFacts {
        ErrorFacts {
            blocks: errors.blocks,
            lossless: errors.lossless,
            not_measured: errors.unrecorded,
            bound: errors.bound.map(ErrorBound::value),
            relative: matches!(errors.bound, Some(ErrorBound::Relative(_))),
            largest: errors.largest,
            largest_relative: errors.largest_relative,
        }
    }
}

/// Characteristics combined over blocks and steps.
#[pyclass(frozen, get_all, module = "thalweg._core")]
pub struct SummaryFacts {
    blocks: u64,
    elements: u64,
    finite: Option<u64>,
    min: Option<Py<PyAny>>,
    max: Option<Py<PyAny>>,
    mean: Option<f64>,
    std: Option<f64>,
    sum: Option<i128>,
    /// Of complex values: the range of the magnitude; `real` and `imag`: the ranges of the real and the imaginary part.
    magnitude: Option<Range>,
    real: Option<Range>,
    imag: Option<Range>,
    errors: Option<Py<ErrorFacts>>,
}

impl SummaryFacts {
    pub fn new(py: Python<'_>, s: &thalweg_reader::Summary) -> PyResult<SummaryFacts> {
        let part = |n: usize| s.complex.as_ref().map(|parts| (parts[n].min, parts[n].max));
        Ok(SummaryFacts {
            blocks: s.blocks,
            elements: s.elements,
            finite: s.finite,
            min: optional(py, s.min.as_ref())?,
            max: optional(py, s.max.as_ref())?,
            mean: s.mean,
            std: s.std,
            sum: s.exact_sum,
            magnitude: part(0),
            real: part(1),
            imag: part(2),
            errors: s.errors.as_ref().map(|errors| Py::new(py, ErrorFacts::new(errors))).transpose()?,
        })
    }
}

/// The declaration of a variable in a group; dimensions are texts, in the order of the document.
#[pyclass(frozen, get_all, module = "thalweg._core")]
pub struct DeclaredFacts {
    name: String,
    /// BP name of the element type.
    element: &'static str,
    local: Vec<String>,
    bounds: Vec<String>,
    offset: Vec<String>,
    is_dimension: bool,
    transform: Option<String>,
    /// The fastest dimension is listed first.
    fortran: bool,
}

impl DeclaredFacts {
    pub fn new(v: &thalweg_schema::Variable, fortran: bool) -> DeclaredFacts {
        let texts = |dimensions: &[Dimension]| dimensions.iter().map(Dimension::to_string).collect();
        DeclaredFacts {
            name: v.full_name(),
            element: v.element.name(),
            local: texts(&v.local),
            bounds: texts(&v.global),
            offset: texts(&v.offset),
            is_dimension: v.is_dimension,
            transform: v.transform.clone(),
            fortran,
        }
    }
}
