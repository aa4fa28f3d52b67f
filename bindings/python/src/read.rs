//! Files open for reading.

use crate::facts::{AttributeFacts, BlockFacts, FileFacts, HeadFacts, SummaryFacts, VariableFacts};
use crate::failure::Outcome;
use crate::value;
use numpy::{PyReadonlyArray1, PyReadwriteArray1};
use pyo3::prelude::*;
use std::sync::Arc;
use thalweg_exit_status::record_loss;
use thalweg_layout::Layout;
use thalweg_reader::{Block, Digits};
use thalweg_types::{BoundingBox, MemorySelection, Result, Selection};

/// Called at the end of the process: ends the files that mounts keep open between calls, such as logs of small files.
///
/// # Errors
/// The error of a mount that could not store data it had accepted. The process then does not exit with 0.
#[pyfunction]
pub fn end_mounts(py: Python<'_>) -> Outcome<()> {
    Ok(py.detach(thalweg_io::mounts::finish).inspect_err(|_| record_loss())?)
}

/// From this call on, the process exits with 1 instead of 0 if files or mounts that it left open could not be closed. A relative
/// `THALWEG_MOUNTS` is resolved against the working directory at this call, even if the program changes directory later.
#[pyfunction]
pub fn watch_exit() {
    thalweg_io::mounts::remember_working_directory();
    thalweg_exit_status::watch();
}

/// The layout that resolves paths through the mounts of this process.
///
/// # Errors
/// `Config` for an invalid mount table; errors of opening a store.
pub fn layout() -> Result<Arc<dyn Layout>> {
    thalweg_io::mounts::layout()
}

/// Numbers of steps.
#[derive(FromPyObject)]
pub enum Steps<'py> {
    /// A contiguous array: the way for many.
    Array(PyReadonlyArray1<'py, u64>),
    List(Vec<u64>),
}

/// A file open for reading; any thread may use it.
#[pyclass(frozen, module = "thalweg._core")]
pub struct Reader(pub thalweg_reader::Reader);

#[pymethods]
impl Reader {
    #[new]
    #[pyo3(signature = (path, reads="compared", digits=0))]
    fn new(py: Python<'_>, path: &str, reads: &str, digits: u32) -> Outcome<Reader> {
        let (reads, digits) = (reads.parse()?, Digits::new(digits));
        let opened = py.detach(|| thalweg_reader::Reader::open(layout()?, path))?;
        Ok(Reader(opened.with_reads(reads).with_digits(digits)))
    }

    /// Number of blocks that were read with `reads="checked"` but have no checksum.
    fn blocks_without_checksum(&self) -> u64 {
        self.0.blocks_without_checksum()
    }

    fn status(&self) -> FileFacts {
        FileFacts::new(self.0.status())
    }

    fn variables(&self) -> Vec<HeadFacts> {
        self.0.variables().iter().map(HeadFacts::from).collect()
    }

    fn attribute_names(&self) -> Vec<String> {
        self.0.attributes().iter().map(|h| h.name.clone()).collect()
    }

    fn attribute(&self, py: Python<'_>, name: &str) -> Outcome<AttributeFacts> {
        let a = py.detach(|| self.0.attribute(name))?;
        Ok(AttributeFacts::new(py, a)?)
    }

    fn variable(&self, py: Python<'_>, name: &str) -> Outcome<VariableFacts> {
        Ok(py.detach(|| self.0.variable(name))?.into())
    }

    fn shape(&self, py: Python<'_>, name: &str, step: u64) -> Outcome<Vec<u64>> {
        Ok(py.detach(|| self.0.shape(name, step))?)
    }

    fn blocks(&self, py: Python<'_>, name: &str, step: u64) -> Outcome<Vec<BlockFacts>> {
        let blocks = py.detach(|| -> Result<Vec<(Block, Option<u32>)>> {
            let blocks = self.0.blocks(name, step)?;
            blocks.into_iter().map(|b| self.0.writer(&b).map(|writer| (b, writer))).collect()
        })?;
        Ok(blocks.iter().map(|(b, writer)| BlockFacts::new(py, b, *writer)).collect::<PyResult<_>>()?)
    }

    /// One block of a step; other blocks are decoded only if needed for its offset. `None` if the step has at most `number` blocks.
    fn block(&self, py: Python<'_>, name: &str, step: u64, number: u64) -> Outcome<Option<BlockFacts>> {
        let found = py.detach(|| -> Result<Option<(Block, Option<u32>)>> {
            let block = self.0.block_of_step(name, step, number)?;
            block.map(|b| self.0.writer(&b).map(|writer| (b, writer))).transpose()
        })?;
        Ok(found.map(|(b, writer)| BlockFacts::new(py, &b, writer)).transpose()?)
    }

    /// Number of blocks of a step. No block is decoded.
    fn block_count(&self, py: Python<'_>, name: &str, step: u64) -> Outcome<u64> {
        Ok(py.detach(|| self.0.block_count(name, step))?)
    }

    /// Characteristics combined over the steps `first..end`.
    fn summary(&self, py: Python<'_>, name: &str, first: u64, end: u64) -> Outcome<SummaryFacts> {
        let s = py.detach(|| self.0.summary(name, first..end))?;
        Ok(SummaryFacts::new(py, &s)?)
    }

    /// The value of a scalar or text at a step; with `block`, the value of that block, or `None` if there is no such block.
    #[pyo3(signature = (name, step, block=None))]
    fn value<'py>(&self, py: Python<'py>, name: &str, step: u64, block: Option<u64>) -> Outcome<Bound<'py, PyAny>> {
        let found = py.detach(|| -> Result<_> {
            match block {
                None => self.0.value(name, step).map(Some),
                Some(number) => Ok(self.0.block_of_step(name, step, number)?.and_then(|b| b.value)),
            }
        })?;
        match found {
            Some(v) => Ok(value::to_python(py, &v)?),
            None => Ok(py.None().into_bound(py)),
        }
    }

    /// Reads the same selection at several steps into `out`, one step after the other; returns the number of elements filled.
    ///
    /// - `offset` and `count`, `points` or `block`: the selection, at most one of the three; without any, the whole variable. With
    ///   `stride`, every so many elements of the box along each dimension.
    /// - `memory`: extents of the array `out`, and the position in it of the selection's first element; for one step only.
    #[pyo3(signature = (name, steps, out, offset=None, count=None, points=None, block=None, memory=None, stride=None))]
    #[allow(clippy::too_many_arguments)]
    fn read(
        &self,
        py: Python<'_>,
        name: &str,
        steps: Steps<'_>,
        mut out: PyReadwriteArray1<'_, u8>,
        offset: Option<Vec<u64>>,
        count: Option<Vec<u64>>,
        points: Option<Vec<Vec<u64>>>,
        block: Option<u64>,
        memory: Option<(Vec<u64>, Vec<u64>)>,
        stride: Option<Vec<u64>>,
    ) -> Outcome<u64> {
        let selection = match (offset, count, points, block) {
            (Some(offset), Some(count), None, None) => match stride {
                Some(stride) if stride.iter().any(|n| *n != 1) => {
                    Selection::Strided { bounds: BoundingBox { offset, count }, stride }
                }
                _ => Selection::Box(BoundingBox { offset, count }),
            },
            (None, None, Some(points), None) => Selection::Points(points),
            (None, None, None, Some(number)) => Selection::Block(number),
            _ => Selection::All,
        };
        let steps = match &steps {
            Steps::Array(steps) => steps.as_slice().map_err(PyErr::from)?,
            Steps::List(steps) => steps,
        };
        let out = out.as_slice_mut().map_err(PyErr::from)?;
        let memory = memory.map(|(shape, start)| MemorySelection { shape, start });
        Ok(py.detach(|| match (memory, steps) {
            (Some(memory), [step]) => self.0.read_into(name, *step, &selection, out, &memory),
            _ => self.0.read_steps(name, steps, &selection, out),
        })?)
    }
}
