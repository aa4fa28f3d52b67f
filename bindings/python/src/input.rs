//! Input windows: bytes that owners read ahead in the background.

use crate::failure::{Failure, Outcome};
use crate::mpi::Ranks;
use crate::windows::{Stripes, options};
use numpy::PyArray1;
use pyo3::prelude::*;
use std::sync::Arc;
use thalweg_comm::Communicator;
use thalweg_io::mounts;
use thalweg_layout::Layout;
use thalweg_owners::{InputWindow, OpenInput, ReadId};
use thalweg_types::mutex::Mutex;
use thalweg_types::{Error, ErrorKind, Result};

/// Results whose callbacks Python calls next.
type Due = Arc<Mutex<Vec<(u64, Result<Vec<u8>>)>>>;

/// Bytes for Python, or the failure.
type Given<'py> = (u64, Option<Bound<'py, PyArray1<u8>>>, Option<PyErr>);

/// A file open for input windows.
#[pyclass(frozen, module = "thalweg._core")]
pub struct Input {
    /// `None` once it is closed.
    file: Mutex<Option<thalweg_owners::Input>>,
    due: Due,
}

impl Input {
    fn on_file<T: Send>(
        &self,
        py: Python<'_>,
        body: impl FnOnce(&mut thalweg_owners::Input) -> Result<T> + Send,
    ) -> Outcome<T> {
        let closed = || Error::new(ErrorKind::InvalidArgument, "the file is closed");
        Ok(py.detach(|| self.file.lock().as_mut().ok_or_else(closed).and_then(body))?)
    }
}

#[pymethods]
impl Input {
    /// Collective. `memory`: in bytes.
    #[staticmethod]
    fn open(py: Python<'_>, ranks: &Ranks, path: &str, memory: u64) -> Outcome<Input> {
        let file = py.detach(|| -> Outcome<_> {
            let comm = ranks.duplicate()?;
            let found = mounts::of_process().and_then(|mounts| {
                let at = mounts.place(path)?;
                Ok((at.layout.clone(), at.name))
            });
            let (found, own) = thalweg_comm::outcome::apart::<(Arc<dyn Layout>, String)>(found);
            thalweg_comm::agreement::agree(&*comm, own, "open the file for input windows", &[])?;
            let Some((layout, path)) = found else { return Err(Failure::argument("no place for the file")) };
            let request = OpenInput { memory, ..OpenInput::new(&*comm as &dyn Communicator, &layout, &path) };
            Ok(thalweg_owners::Input::open(&request)?)
        })?;
        Ok(Input { file: Mutex::new(Some(file)), due: Due::default() })
    }

    /// Bytes of the file when it was opened.
    fn length(&self, py: Python<'_>) -> Outcome<u64> {
        self.on_file(py, |file| Ok(file.length()))
    }

    /// The number of the new window.
    #[pyo3(signature = (offset, length, owners=None, active=None, base=0, skip=1, owner_stripe=None, write_stripe=None,
        fraction=None, alignment=None, time_limit=None))]
    #[allow(clippy::too_many_arguments)]
    fn start(
        &self,
        py: Python<'_>,
        offset: u64,
        length: u64,
        owners: Option<Vec<u32>>,
        active: Option<u32>,
        base: u32,
        skip: u32,
        owner_stripe: Option<u64>,
        write_stripe: Option<u64>,
        fraction: Option<u64>,
        alignment: Option<u64>,
        time_limit: Option<f64>,
    ) -> Outcome<u64> {
        let stripes = Stripes { owner_stripe, write_stripe, fraction, alignment };
        let options = options((owners, active, base, skip), stripes, time_limit);
        let Ok(options) = &options else {
            self.on_file(py, |file| {
                file.skip();
                Ok(())
            })?;
            return options.map(|_| 0);
        };
        Ok(self.on_file(py, |file| file.start(offset, length, options))?.0)
    }

    /// The number of the request.
    fn read(&self, py: Python<'_>, window: u64, offset: u64, length: u64) -> Outcome<u64> {
        Ok(self.on_file(py, |file| file.read(InputWindow(window), offset, length))?.0)
    }

    /// The bytes, or `None` if they are not there.
    fn test<'py>(&self, py: Python<'py>, request: u64) -> Outcome<Option<Bound<'py, PyArray1<u8>>>> {
        Ok(self.on_file(py, |file| file.test(ReadId(request)))?.map(|bytes| PyArray1::from_vec(py, bytes)))
    }

    fn wait<'py>(&self, py: Python<'py>, request: u64) -> Outcome<Bound<'py, PyArray1<u8>>> {
        Ok(PyArray1::from_vec(py, self.on_file(py, |file| file.wait(ReadId(request)))?))
    }

    /// The bytes will be among [`Input::due`].
    fn on_read(&self, py: Python<'_>, request: u64) -> Outcome<()> {
        let due = self.due.clone();
        let keep = Box::new(move |outcome| due.lock().push((request, outcome)));
        self.on_file(py, |file| file.on_read(ReadId(request), keep))
    }

    /// Requests that were answered since the last call: their bytes, or their failures.
    fn due<'py>(&self, py: Python<'py>) -> Vec<Given<'py>> {
        let due = std::mem::take(&mut *self.due.lock());
        let give = |(request, outcome): (u64, Result<Vec<u8>>)| match outcome {
            Ok(bytes) => (request, Some(PyArray1::from_vec(py, bytes)), None),
            Err(e) => (request, None, Some(Failure::Thalweg(e).into())),
        };
        due.into_iter().map(give).collect()
    }

    fn end(&self, py: Python<'_>, window: u64) -> Outcome<()> {
        self.on_file(py, |file| file.end(InputWindow(window)))
    }

    fn finish(&self, py: Python<'_>, window: u64) -> Outcome<()> {
        self.on_file(py, |file| file.finish(InputWindow(window)))
    }

    fn progress(&self, py: Python<'_>) -> Outcome<bool> {
        self.on_file(py, |file| Ok(file.progress()))
    }

    /// Collective.
    fn close(&self, py: Python<'_>) -> Outcome<()> {
        let file = self.file.lock().take();
        Ok(py.detach(|| file.map_or(Ok(()), thalweg_owners::Input::close))?)
    }

    /// Not collective.
    fn abandon(&self, py: Python<'_>) {
        let file = self.file.lock().take();
        py.detach(|| drop(file));
    }
}
