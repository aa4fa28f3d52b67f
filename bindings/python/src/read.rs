//! Files open for reading.

use crate::failure::Outcome;
use crate::value;
use numpy::PyReadwriteArray1;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use std::sync::Arc;
use thalweg_layout::Layout;
use thalweg_reader::{Block, Kind, Summary};
use thalweg_types::{BoundingBox, ByteOrder, MemoryBox, Result, Selection};

/// At the end of the process: mounts end what they keep open between calls, as logs of small files.
#[pyfunction]
pub fn end_mounts(py: Python<'_>) -> Outcome<()> {
    Ok(py.detach(thalweg_io::mounts::finish)?)
}

/// Where paths lead: the mounts of this process.
pub fn layout() -> Result<Arc<dyn Layout>> {
    thalweg_io::mounts::layout()
}

/// A file open for reading; any thread may use it.
#[pyclass(frozen, module = "thalweg._core")]
pub struct Reader(pub thalweg_reader::Reader);

fn kind(kind: Kind) -> &'static str {
    match kind {
        Kind::Scalar => "scalar",
        Kind::LocalValue => "value per rank",
        Kind::Global => "global array",
        Kind::Local => "local array",
    }
}

/// Name, group, BP type name, blocks.
type Head = (String, String, Option<&'static str>, u64);

#[pymethods]
impl Reader {
    #[new]
    #[pyo3(signature = (path, reads="compared"))]
    fn new(py: Python<'_>, path: &str, reads: &str) -> Outcome<Reader> {
        let reads = reads.parse()?;
        Ok(py.detach(|| thalweg_reader::Reader::open(layout()?, path)).map(|r| Reader(r.with_reads(reads)))?)
    }

    /// Blocks that were read without a checksum although they were to be checked.
    fn blocks_without_checksum(&self) -> u64 {
        self.0.blocks_without_checksum()
    }

    fn status<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let status = self.0.status();
        let all = PyDict::new(py);
        all.set_item("steps", status.steps)?;
        all.set_item("finished", status.finished)?;
        all.set_item("torn_bytes", status.torn_bytes)?;
        let partial: Vec<_> = status.partial.iter().map(|p| (p.step, p.rank, p.kind.words())).collect();
        all.set_item("partial", partial)?;
        all.set_item("groups", &status.groups)?;
        all.set_item("writers", status.writers)?;
        all.set_item("byte_order", if status.order == ByteOrder::Little { "little" } else { "big" })?;
        all.set_item("subfiles", status.subfiles)?;
        all.set_item("length", status.length)?;
        Ok(all)
    }

    fn variables(&self) -> Vec<Head> {
        let name = |h: &thalweg_reader::Head| h.element.map(|t| t.name());
        self.0.variables().iter().map(|h| (h.name.clone(), h.group.clone(), name(h), h.blocks)).collect()
    }

    fn attribute_names(&self) -> Vec<String> {
        self.0.attributes().iter().map(|h| h.name.clone()).collect()
    }

    /// BP type name, value or list of values, name of the variable it follows, internal.
    fn attribute<'py>(
        &self,
        py: Python<'py>,
        name: &str,
    ) -> Outcome<(&'static str, Bound<'py, PyAny>, Option<String>, bool)> {
        let a = py.detach(|| self.0.attribute(name))?;
        Ok((a.element.name(), value::attribute(py, &a.value)?, a.variable, a.internal))
    }

    fn variable<'py>(&self, py: Python<'py>, name: &str) -> Outcome<Bound<'py, PyDict>> {
        let v = py.detach(|| self.0.variable(name))?;
        let all = PyDict::new(py);
        all.set_item("name", v.name)?;
        all.set_item("group", v.group)?;
        all.set_item("type", v.element.name())?;
        all.set_item("kind", kind(v.kind))?;
        all.set_item("steps", v.steps)?;
        all.set_item("shape", v.shape)?;
        all.set_item("shape_changes", v.shape_changes)?;
        all.set_item("blocks", v.blocks)?;
        all.set_item("transform", v.transform)?;
        Ok(all)
    }

    fn shape(&self, py: Python<'_>, name: &str, step: u64) -> Outcome<Vec<u64>> {
        Ok(py.detach(|| self.0.shape(name, step))?)
    }

    fn blocks<'py>(&self, py: Python<'py>, name: &str, step: u64) -> Outcome<Vec<Bound<'py, PyDict>>> {
        let blocks = py.detach(|| -> Result<Vec<(Block, Option<u32>)>> {
            let blocks = self.0.blocks(name, step)?;
            blocks.into_iter().map(|b| self.0.writer(&b).map(|writer| (b, writer))).collect()
        })?;
        Ok(blocks.iter().map(|(b, writer)| block(py, b, *writer)).collect::<PyResult<_>>()?)
    }

    /// Characteristics joined over these steps.
    fn summary<'py>(&self, py: Python<'py>, name: &str, first: u64, end: u64) -> Outcome<Bound<'py, PyDict>> {
        let s = py.detach(|| self.0.summary(name, first..end))?;
        Ok(summary(py, &s)?)
    }

    /// The value of a scalar or text at a step: that of one block.
    #[pyo3(signature = (name, step, block=None))]
    fn value<'py>(&self, py: Python<'py>, name: &str, step: u64, block: Option<u64>) -> Outcome<Bound<'py, PyAny>> {
        let found = py.detach(|| -> Result<_> {
            match block {
                None => self.0.value(name, step).map(Some),
                Some(number) => Ok(self.0.blocks(name, step)?.into_iter().nth(number as usize).and_then(|b| b.value)),
            }
        })?;
        match found {
            Some(v) => Ok(value::to_python(py, &v)?),
            None => Ok(py.None().into_bound(py)),
        }
    }

    /// Reads the same selection at several steps into `out`, one behind the other; returns how many elements were filled.
    /// At most one of box (`offset` and `count`), `points` and `block`; none of them selects everything. With `memory`, one
    /// step is read into an array of these extents, from that place on.
    #[pyo3(signature = (name, steps, out, offset=None, count=None, points=None, block=None, memory=None))]
    #[allow(clippy::too_many_arguments)]
    fn read(
        &self,
        py: Python<'_>,
        name: &str,
        steps: Vec<u64>,
        mut out: PyReadwriteArray1<'_, u8>,
        offset: Option<Vec<u64>>,
        count: Option<Vec<u64>>,
        points: Option<Vec<Vec<u64>>>,
        block: Option<u64>,
        memory: Option<(Vec<u64>, Vec<u64>)>,
    ) -> Outcome<u64> {
        let selection = match (offset, count, points, block) {
            (Some(offset), Some(count), None, None) => Selection::Box(BoundingBox { offset, count }),
            (None, None, Some(points), None) => Selection::Points(points),
            (None, None, None, Some(number)) => Selection::Block(number),
            _ => Selection::All,
        };
        let out = out.as_slice_mut().map_err(PyErr::from)?;
        let memory = memory.map(|(shape, start)| MemoryBox { shape, start });
        Ok(py.detach(|| match (memory, steps.as_slice()) {
            (Some(memory), [step]) => self.0.read_into(name, *step, &selection, out, &memory),
            _ => self.0.read_steps(name, &steps, &selection, out),
        })?)
    }
}

fn block<'py>(py: Python<'py>, b: &Block, writer: Option<u32>) -> PyResult<Bound<'py, PyDict>> {
    let all = PyDict::new(py);
    all.set_item("number", b.number)?;
    all.set_item("step", b.step)?;
    all.set_item("shape", &b.shape)?;
    all.set_item("offset", &b.offset)?;
    all.set_item("count", &b.count)?;
    all.set_item("value", b.value.as_ref().map(|v| value::to_python(py, v)).transpose()?)?;
    all.set_item("rank", writer)?;
    all.set_item("subfile", b.subfile)?;
    all.set_item("bytes", b.payload.length)?;
    all.set_item("position", b.payload.offset)?;
    let known = b.statistics.as_ref().filter(|s| s.finite > 0 && s.complex.is_none());
    all.set_item("min", known.map(|s| value::to_python(py, &s.min)).transpose()?)?;
    all.set_item("max", known.map(|s| value::to_python(py, &s.max)).transpose()?)?;
    all.set_item("mean", known.and_then(|s| s.mean()))?;
    all.set_item("std", known.and_then(|s| s.standard_deviation()))?;
    Ok(all)
}

fn summary<'py>(py: Python<'py>, s: &Summary) -> PyResult<Bound<'py, PyDict>> {
    let all = PyDict::new(py);
    all.set_item("blocks", s.blocks)?;
    all.set_item("elements", s.elements)?;
    all.set_item("finite", s.finite)?;
    all.set_item("min", s.min.as_ref().map(|v| value::to_python(py, v)).transpose()?)?;
    all.set_item("max", s.max.as_ref().map(|v| value::to_python(py, v)).transpose()?)?;
    all.set_item("mean", s.mean)?;
    all.set_item("std", s.std)?;
    all.set_item("sum", s.exact_sum)?;
    // Smallest and largest magnitude, real and imaginary part.
    all.set_item("complex", s.complex.map(|parts| parts.map(|p| (p.min, p.max))))?;
    Ok(all)
}
