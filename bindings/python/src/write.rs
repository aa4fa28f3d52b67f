//! Sessions, and steps being written.

use crate::facts::DeclaredFacts;
use crate::failure::{Failure, Outcome};
use crate::known::{Bytes, Definitions, KnownWrite};
use crate::mpi::Ranks;
use crate::value;
use numpy::{PyArray1, PyReadonlyArray1};
use pyo3::prelude::*;
use std::sync::Arc;
use std::time::Duration;
use thalweg_exit_status::record_loss;
use thalweg_io::session::DeclaredGroup;
use thalweg_io::{BlockBox, Closed, Mode, PendingOutput, Values, WriteRequest};
use thalweg_schema::{GroupBuilder, HostLanguage, MethodChoice, Statistics};
use thalweg_types::mutex::Mutex;
use thalweg_types::{ElementType, Error, ErrorKind, MemorySelection, Value};

/// A session: the groups, methods and buffer of a process's outputs.
#[pyclass(frozen, module = "thalweg._core")]
pub struct Session {
    session: thalweg_io::Session,
    due: Due,
}

impl Session {
    fn group(&self, name: &str) -> Outcome<Arc<Mutex<DeclaredGroup>>> {
        Ok(self.session.group(name)?)
    }
}

fn statistics(name: &str) -> Outcome<Statistics> {
    match name {
        "off" => Ok(Statistics::Off),
        "minmax" => Ok(Statistics::MinMax),
        "default" => Ok(Statistics::Default),
        "full" => Ok(Statistics::Full),
        other => Err(Failure::argument(format!(
            "statistics are \"off\", \"minmax\", \"default\" or \"full\", not \"{other}\""
        ))),
    }
}

#[pymethods]
impl Session {
    /// Collective. `xml`: the document's text; without it, groups are declared by [`Session::declare`]. `name`: the document's name
    /// in errors.
    #[new]
    #[pyo3(signature = (ranks, xml=None, name="the configuration"))]
    fn new(py: Python<'_>, ranks: &Ranks, xml: Option<&str>, name: &str) -> Outcome<Session> {
        let session = py.detach(|| -> Outcome<_> {
            let comm = ranks.duplicate()?;
            Ok(match xml {
                Some(text) => thalweg_io::Session::from_xml(text, name, comm)?,
                None => thalweg_io::Session::without_xml(comm)?,
            })
        })?;
        Ok(Session { session, due: Due::default() })
    }

    /// Collective; every rank reads the XML file.
    #[staticmethod]
    fn from_file(py: Python<'_>, ranks: &Ranks, path: &str) -> Outcome<Session> {
        let session =
            py.detach(|| -> Outcome<_> { Ok(thalweg_io::Session::from_xml_file(path, ranks.duplicate()?)?) })?;
        Ok(Session { session, due: Due::default() })
    }

    fn groups(&self) -> Vec<String> {
        self.session.groups()
    }

    fn set_buffer_limit(&self, bytes: Option<u64>) {
        self.session.set_buffer_limit(bytes);
    }

    fn begin_calculation(&self, py: Python<'_>) {
        py.detach(|| self.session.begin_calculation());
    }

    fn end_calculation(&self, py: Python<'_>) {
        py.detach(|| self.session.end_calculation());
    }

    fn end_iteration(&self, py: Python<'_>) {
        py.detach(|| self.session.end_iteration());
    }

    fn declare(&self, group: &str, statistics_of_all: &str) -> Outcome<()> {
        let mut builder = GroupBuilder::new(group)?;
        builder.set_statistics(statistics(statistics_of_all)?);
        self.session.declare(builder)?;
        Ok(())
    }

    /// Adds a variable, and returns its position in the group. Dimensions are written as in XML; all are empty for a scalar.
    #[pyo3(signature = (group, name, element, local="", bounds="", offset="", statistics_of_it=None, transform=None))]
    #[allow(clippy::too_many_arguments)]
    fn define_variable(
        &self,
        group: &str,
        name: &str,
        element: &str,
        local: &str,
        bounds: &str,
        offset: &str,
        statistics_of_it: Option<&str>,
        transform: Option<&str>,
    ) -> Outcome<usize> {
        let group = self.group(group)?;
        let builder = &mut group.lock().builder;
        let statistics = statistics_of_it.map(statistics).transpose()?;
        let at = builder.define_variable(name, "", value::element(element)?, local, bounds, offset)?;
        if let Some(variable) = builder.variable_mut(at) {
            variable.statistics = statistics;
        }
        if let Some(transform) = transform {
            builder.set_transform(at, transform)?;
        }
        Ok(at)
    }

    /// Defines an attribute with numbers, given as their bytes.
    fn define_attribute(
        &self,
        group: &str,
        name: &str,
        element: &str,
        values: PyReadonlyArray1<'_, u8>,
    ) -> Outcome<()> {
        let element = value::element(element)?;
        let values = value::many(element, values.as_slice().map_err(PyErr::from)?)?;
        self.group(group)?.lock().builder.define_attribute_values(name, "", element, values)?;
        Ok(())
    }

    /// Defines a text attribute: a string array if `several` is set, otherwise a string.
    fn define_text_attribute(&self, group: &str, name: &str, texts: Vec<Vec<u8>>, several: bool) -> Outcome<()> {
        let element = if several { ElementType::StringArray } else { ElementType::String };
        let texts = texts.into_iter().map(Value::String).collect();
        self.group(group)?.lock().builder.define_attribute_values(name, "", element, texts)?;
        Ok(())
    }

    /// Defines an attribute with the value of a scalar variable.
    fn define_attribute_from(&self, group: &str, name: &str, variable: &str) -> Outcome<()> {
        self.group(group)?.lock().builder.define_attribute_from(name, "", variable)?;
        Ok(())
    }

    fn select_method(&self, group: &str, method: &str, parameters: &str, folder: &str) -> Outcome<()> {
        self.group(group)?.lock().builder.select_method(method, parameters, folder)?;
        Ok(())
    }

    /// The variables of a group, in order.
    fn describe(&self, group: &str) -> Outcome<Vec<DeclaredFacts>> {
        let fortran = self.session.host_language() == HostLanguage::Fortran;
        let group = self.group(group)?;
        let group = group.lock();
        let variables = &group.builder.group().variables;
        Ok(variables.iter().map(|v| DeclaredFacts::new(v, fortran)).collect())
    }

    /// Names of the methods of a group.
    fn methods(&self, group: &str) -> Outcome<Vec<String>> {
        Ok(self.group(group)?.lock().all_methods().into_iter().map(|m: MethodChoice| m.method).collect())
    }

    /// Collective: opens a step. `mode`: `w`, `a` or `u`; `after`, for mode `a`: the step behind which the new step is appended.
    #[pyo3(signature = (group, path, mode, ranks, after=None))]
    fn open(
        &self,
        py: Python<'_>,
        group: &str,
        path: &str,
        mode: &str,
        ranks: &Ranks,
        after: Option<u64>,
    ) -> Outcome<Output> {
        let mode = match (mode, after) {
            ("w", _) => Mode::Write,
            ("a", None) => Mode::Append,
            ("a", Some(step)) => Mode::AppendAfter(step),
            ("u", _) => Mode::Update,
            (other, _) => return Err(Failure::argument(format!("mode is \"w\", \"a\" or \"u\", not \"{other}\""))),
        };
        let output = py.detach(|| -> Outcome<_> { Ok(self.session.open(group, path, mode, ranks.duplicate()?)?) })?;
        let output = Mutex::new(Writing { output: Some(output), deferred: Vec::new() });
        Ok(Output { output, due: self.due.clone() })
    }

    /// Whether a step is wanted that the program is about to open.
    fn wanted(&self, group: &str, path: &str, step: u64) -> Outcome<bool> {
        Ok(self.session.wanted(group, path, step)?)
    }

    /// Whether the next step writes an array.
    fn wants_array(&self, group: &str, path: &str, name: &str) -> Outcome<bool> {
        Ok(self.session.wants_array(group, path, name)?)
    }

    /// Whether someone has asked that the program stops.
    fn stop_requested(&self) -> bool {
        self.session.stop_requested()
    }

    /// Moves messages of outputs in flight; those that have ended are then among [`Session::due`].
    fn progress(&self, py: Python<'_>) {
        py.detach(|| self.session.progress());
    }

    /// Outputs that have ended since the last call, of those that [`Pending::on_completion`] was called for: number, bytes, failure.
    fn due(&self) -> Vec<(u64, u64, Option<PyErr>)> {
        let due = std::mem::take(&mut *self.due.lock());
        let told = |(number, ended): (u64, thalweg_types::Result<Closed>)| match ended {
            Ok(closed) => (number, closed.bytes, None),
            Err(e) => (number, 0, Some(Failure::Thalweg(e).into())),
        };
        due.into_iter().map(told).collect()
    }

    /// Collective: waits until all outputs have ended.
    fn wait_for_outputs(&self, py: Python<'_>) -> Outcome<()> {
        Ok(py.detach(|| self.session.wait_for_outputs())?)
    }

    /// Closes this rank's files with a full index, but without marking them as finished. Not collective.
    fn leave(&self, py: Python<'_>) -> Outcome<()> {
        Ok(py.detach(|| self.session.leave()).inspect_err(|_| record_loss())?)
    }

    /// Collective: closes all files and marks them as finished.
    fn finalize(&self, py: Python<'_>) -> Outcome<()> {
        Ok(py.detach(|| self.session.finalize())?)
    }
}

/// The variables that an XML document declares, each with the name of its group, in the form of [`Session::describe`].
///
/// # Errors
/// `Config` with all errors of the document.
#[pyfunction]
pub fn schema_names(xml: &str, name: &str) -> Outcome<Vec<(String, DeclaredFacts)>> {
    let schema = thalweg_schema::xml::parse(xml, name).map_err(|report| {
        Error::new(ErrorKind::Config, format!("the configuration is refused\n{}", report.render(false).trim_end()))
    })?;
    let fortran = schema.host_language == HostLanguage::Fortran;
    let mut all = Vec::new();
    for group in &schema.groups {
        for v in &group.variables {
            all.push((group.name.clone(), DeclaredFacts::new(v, fortran)));
        }
    }
    Ok(all)
}

/// Outputs that have ended and whose callbacks Python calls next.
type Due = Arc<Mutex<Vec<(u64, thalweg_types::Result<Closed>)>>>;

struct Writing {
    /// Declared before `deferred`, so that it is dropped first: until then it may read the deferred arrays.
    output: Option<thalweg_io::Output<'static>>,
    deferred: Vec<Py<PyAny>>,
}

/// The memory of an array that a program has given away.
struct ArrayMemory {
    start: usize,
    length: usize,
    /// Keeps the memory.
    _array: Py<PyArray1<u8>>,
}

impl AsRef<[u8]> for ArrayMemory {
    fn as_ref(&self) -> &[u8] {
        if self.length == 0 {
            return &[];
        }
        // SAFETY: the memory of a contiguous array that `_array` keeps. The caller guarantees not to change it, as for any memory that Python
        // shares.
        #[allow(unsafe_code)]
        unsafe {
            std::slice::from_raw_parts(std::ptr::with_exposed_provenance(self.start), self.length)
        }
    }
}

/// A step being written.
#[pyclass(frozen, module = "thalweg._core")]
pub struct Output {
    output: Mutex<Writing>,
    due: Due,
}

impl Output {
    fn with<T: Send>(
        &self,
        py: Python<'_>,
        f: impl FnOnce(&mut thalweg_io::Output<'static>) -> thalweg_types::Result<T> + Send,
    ) -> Outcome<T> {
        // The GIL is released first: no thread that holds the GIL waits for this lock or holds it.
        Ok(py.detach(|| match &mut self.output.lock().output {
            Some(output) => f(output),
            None => Err(Error::new(ErrorKind::InvalidArgument, "the step is closed")),
        })?)
    }

    /// Writes one block.
    ///
    /// - `kept`: the array to which the bytes belong, if they are deferred.
    fn put(
        &self,
        py: Python<'_>,
        position: usize,
        bytes: &[u8],
        place: Option<BlockBox>,
        memory: Option<&MemorySelection>,
        kept: Option<Py<PyAny>>,
    ) -> Outcome<()> {
        // SAFETY: the slice is used after this call only if the block is deferred: `Writing::deferred` then holds the array until the
        // output is closed or dropped. The caller guarantees not to change it, as for any memory that Python shares.
        #[allow(unsafe_code)]
        let bytes: &'static [u8] = unsafe { std::slice::from_raw_parts(bytes.as_ptr(), bytes.len()) };
        Ok(py.detach(|| {
            let Writing { output: Some(output), deferred: held } = &mut *self.output.lock() else {
                return Err(Error::new(ErrorKind::InvalidArgument, "the step is closed"));
            };
            let deferred = kept.is_some() && !(memory.is_none() && output.writes_at_once(bytes.len() as u64));
            let values = if deferred { Values::Deferred(bytes) } else { Values::Copied(bytes) };
            held.extend(kept);
            output.put(WriteRequest { variable: position.into(), values, place, memory })
        })?)
    }

    fn end(
        &self,
        py: Python<'_>,
        f: impl FnOnce(thalweg_io::Output<'static>) -> thalweg_types::Result<Closed> + Send,
    ) -> Outcome<u64> {
        let (closed, kept) = py.detach(|| {
            let mut writing = self.output.lock();
            let closed = match writing.output.take() {
                Some(output) => f(output),
                None => Err(Error::new(ErrorKind::InvalidArgument, "the step is closed already")),
            };
            (closed, std::mem::take(&mut writing.deferred))
        });
        drop(kept);
        Ok(closed?.bytes)
    }
}

#[pymethods]
impl Output {
    /// The step's number in the file.
    #[getter]
    fn step(&self, py: Python<'_>) -> Outcome<u64> {
        self.with(py, |output| Ok(output.step()))
    }

    fn position(&self, py: Python<'_>, name: &str) -> Outcome<usize> {
        self.with(py, |output| output.position(name))
    }

    /// Announces how many bytes this rank will write, so that memory is allocated once.
    fn group_size(&self, py: Python<'_>, bytes: u64) -> Outcome<u64> {
        self.with(py, |output| Ok(output.group_size(bytes)))
    }

    /// Writes one block.
    ///
    /// - `deferred`: nothing is copied; the caller must not change the array until the step is closed.
    /// - `memory`: extents of the array `data`, and the position in it of the block's first element.
    /// - `place`: extents, shape and offset of the block, in place of the values of the variable's declared dimensions.
    #[pyo3(signature = (position, data, deferred=false, memory=None, place=None))]
    fn write(
        &self,
        py: Python<'_>,
        position: usize,
        data: PyReadonlyArray1<'_, u8>,
        deferred: bool,
        memory: Option<(Vec<u64>, Vec<u64>)>,
        place: Option<(Vec<u64>, Vec<u64>, Vec<u64>)>,
    ) -> Outcome<()> {
        let bytes = data.as_slice().map_err(PyErr::from)?;
        let memory = memory.map(|(shape, start)| MemorySelection { shape, start });
        let whole = |(count, shape, offset)| BlockBox { count, shape: Some(shape), offset: Some(offset) };
        let place = place.map(whole);
        let kept = deferred.then(|| (*data).clone().into_any().unbind());
        self.put(py, position, bytes, place, memory.as_ref(), kept)
    }

    /// Writes one block from the memory of an array, which is kept until the output has ended.
    #[pyo3(signature = (position, data, place=None))]
    fn commit(
        &self,
        py: Python<'_>,
        position: usize,
        data: PyReadonlyArray1<'_, u8>,
        place: Option<(Vec<u64>, Vec<u64>, Vec<u64>)>,
    ) -> Outcome<()> {
        let bytes = data.as_slice().map_err(PyErr::from)?;
        let place = place.map(|(count, shape, offset)| BlockBox { count, shape: Some(shape), offset: Some(offset) });
        let memory = ArrayMemory {
            start: bytes.as_ptr().expose_provenance(),
            length: bytes.len(),
            _array: (*data).clone().unbind(),
        };
        self.with(py, |output| output.commit(position, place, memory))
    }

    /// Writes `data` to a variable of `known`, as `StepWriter.write` does; `False`, without a write, if that needs more than a look at
    /// `known`.
    #[pyo3(signature = (known, name, data, shape=None, offset=None, deferred=false))]
    #[allow(clippy::too_many_arguments)]
    fn write_known(
        &self,
        py: Python<'_>,
        known: &Definitions,
        name: &Bound<'_, PyAny>,
        data: &Bound<'_, PyAny>,
        shape: Option<&Bound<'_, PyAny>>,
        offset: Option<&Bound<'_, PyAny>>,
        deferred: bool,
    ) -> Outcome<bool> {
        let Some(KnownWrite { position, bytes, place }) = known.find(name, data, shape, offset) else {
            return Ok(false);
        };
        match bytes {
            Bytes::Array(address, length) => {
                // SAFETY: `find` took address and length of a contiguous array, which `data` keeps; that of an empty array may be anything.
                #[allow(unsafe_code)]
                let bytes = if length == 0 { &[] } else { unsafe { std::slice::from_raw_parts(address, length) } };
                self.put(py, position, bytes, place, None, deferred.then(|| data.clone().unbind()))?;
            }
            Bytes::Number(bytes, length) => self.put(py, position, &bytes[..length], place, None, None)?,
            Bytes::Text(text) => self.put(py, position, text.as_bytes(), place, None, None)?,
        }
        Ok(true)
    }

    /// Collective, in place of `close`: this rank's process group is lost; the other ranks keep theirs and get an error.
    fn abandon(&self, py: Python<'_>, what: &str) -> Outcome<()> {
        let cause = Error::new(ErrorKind::InvalidArgument, what);
        self.end(py, |output| output.abandon(cause)).map(|_| ())
    }

    /// Collective: commits the step; returns the number of bytes that all ranks wrote.
    fn close(&self, py: Python<'_>) -> Outcome<u64> {
        self.end(py, thalweg_io::Output::close)
    }

    /// Collective: as `close`; the output may end later.
    fn start_close(&self, py: Python<'_>) -> Outcome<Pending> {
        let (pending, kept) = py.detach(|| {
            let mut writing = self.output.lock();
            let output = writing.output.take();
            (output.map(thalweg_io::Output::start_close), std::mem::take(&mut writing.deferred))
        });
        // What ends later has copied them.
        drop(kept);
        let pending = pending.ok_or_else(|| Failure::argument("the step is closed already".to_string()))?;
        Ok(Pending { pending, due: self.due.clone() })
    }

    /// Drops the step without communication: the file stays as it was before.
    fn drop(&self, py: Python<'_>) -> Outcome<()> {
        self.end(py, |_| Ok(Closed::default())).map(|_| ())
    }
}

/// A closed step that may still be written.
#[pyclass(frozen, module = "thalweg._core")]
pub struct Pending {
    pending: PendingOutput,
    due: Due,
}

#[pymethods]
impl Pending {
    /// The number of bytes that all ranks wrote; `None` while the output is in flight. Its failure is raised.
    fn test(&self, py: Python<'_>) -> Outcome<Option<u64>> {
        Ok(py.detach(|| self.pending.test())?.map(|closed| closed.bytes))
    }

    /// As [`Pending::test`], after at most these seconds.
    fn wait_for(&self, py: Python<'_>, seconds: f64) -> Outcome<Option<u64>> {
        let most = Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX);
        Ok(py.detach(|| self.pending.wait_for(most))?.map(|closed| closed.bytes))
    }

    /// The result will be among [`Session::due`], with this number.
    fn on_completion(&self, number: u64) {
        let due = self.due.clone();
        self.pending.on_completion(Box::new(move |ended| due.lock().push((number, ended))));
    }
}
