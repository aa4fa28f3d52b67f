//! Output windows: bytes that ranks write into a file in the background.

use crate::failure::{Failure, Outcome};
use crate::mpi::Ranks;
use numpy::PyReadonlyArray1;
use pyo3::prelude::*;
use std::sync::Arc;
use std::time::Duration;
use thalweg_comm::Communicator;
use thalweg_io::mounts;
use thalweg_layout::{Layout, OpenWrite};
use thalweg_owners::{Commit, Completed, File, OpenFile, Options, Owners, WindowId};
use thalweg_types::mutex::Mutex;
use thalweg_types::{Error, ErrorKind, Result};

/// Results whose callbacks Python calls next.
type Due = Arc<Mutex<Vec<(u64, Result<Completed>)>>>;

/// A file open for output windows.
#[pyclass(frozen, module = "thalweg._core")]
pub struct Windows {
    /// `None` once it is closed.
    file: Mutex<Option<File>>,
    due: Due,
}

impl Windows {
    fn on_file<T: Send>(&self, py: Python<'_>, body: impl FnOnce(&mut File) -> Result<T> + Send) -> Outcome<T> {
        let closed = || Error::new(ErrorKind::InvalidArgument, "the file is closed");
        Ok(py.detach(|| self.file.lock().as_mut().ok_or_else(closed).and_then(body))?)
    }
}

/// Lengths in bytes; `None` for defaults.
pub(crate) struct Stripes {
    pub owner_stripe: Option<u64>,
    pub write_stripe: Option<u64>,
    pub fraction: Option<u64>,
    pub alignment: Option<u64>,
}

/// Options of a window. `owners`: a list; or `active`, `base` and `skip`; or neither.
pub(crate) fn options(
    (owners, active, base, skip): (Option<Vec<u32>>, Option<u32>, u32, u32),
    stripes: Stripes,
    time_limit: Option<f64>,
) -> Outcome<Options> {
    let defaults = Options::default();
    Ok(Options {
        owners: match (owners, active) {
            (Some(ranks), _) => Owners::Ranks(ranks),
            (None, Some(active)) => Owners::Every { active, base, skip },
            (None, None) => Owners::PerNode,
        },
        owner_stripe: stripes.owner_stripe,
        write_stripe: stripes.write_stripe.unwrap_or(defaults.write_stripe),
        fraction: stripes.fraction.unwrap_or(defaults.fraction),
        alignment: stripes.alignment.unwrap_or(defaults.alignment),
        time_limit: time_limit
            .map(Duration::try_from_secs_f64)
            .transpose()
            .map_err(|_| Failure::argument("the time limit is no time"))?,
        ..defaults
    })
}

#[pymethods]
impl Windows {
    /// Collective. `memory`: in bytes.
    #[staticmethod]
    fn open(py: Python<'_>, ranks: &Ranks, path: &str, keep: bool, memory: u64) -> Outcome<Windows> {
        let file = py.detach(|| -> Outcome<_> {
            let comm = ranks.duplicate()?;
            let found = mounts::of_process().and_then(|mounts| {
                let at = mounts.place(path)?;
                Ok((at.layout.clone(), at.name))
            });
            let (found, own) = thalweg_comm::outcome::apart::<(Arc<dyn Layout>, String)>(found);
            thalweg_comm::agreement::agree(&*comm, own, "open the file for output windows", &[])?;
            let Some((layout, path)) = found else { return Err(Failure::argument("no place for the file")) };
            let how = if keep { OpenWrite::Any } else { OpenWrite::Replace };
            Ok(File::open(&OpenFile { memory, ..OpenFile::new(&*comm as &dyn Communicator, &layout, &path, how) })?)
        })?;
        Ok(Windows { file: Mutex::new(Some(file)), due: Due::default() })
    }

    /// The number of the new window. `owners`: a list; or `active`, `base` and `skip`; or neither.
    #[pyo3(signature = (offset, length, owners=None, active=None, base=0, skip=1, owner_stripe=None, write_stripe=None,
        fraction=None, alignment=None, time_limit=None, durable=false, commit=None))]
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
        durable: bool,
        commit: Option<(u64, Vec<u8>)>,
    ) -> Outcome<u64> {
        let stripes = Stripes { owner_stripe, write_stripe, fraction, alignment };
        let options = options((owners, active, base, skip), stripes, time_limit);
        let options = options.map(|options| Options { durable, ..options });
        let commit = commit.map(|(offset, bytes)| Commit { offset, bytes });
        let Ok(options) = &options else {
            self.on_file(py, |file| {
                file.skip();
                Ok(())
            })?;
            return options.map(|_| 0);
        };
        Ok(self.on_file(py, |file| file.start_with_commit(offset, length, options, commit))?.0)
    }

    fn write(&self, py: Python<'_>, window: u64, offset: u64, data: PyReadonlyArray1<'_, u8>) -> Outcome<()> {
        let bytes = data.as_slice().map_err(PyErr::from)?;
        self.on_file(py, |file| file.write(WindowId(window), offset, bytes))
    }

    /// How many bytes were taken.
    fn try_write(&self, py: Python<'_>, window: u64, offset: u64, data: PyReadonlyArray1<'_, u8>) -> Outcome<usize> {
        let bytes = data.as_slice().map_err(PyErr::from)?;
        self.on_file(py, |file| file.try_write(WindowId(window), offset, bytes))
    }

    fn end(&self, py: Python<'_>, window: u64) -> Outcome<()> {
        self.on_file(py, |file| file.end(WindowId(window)))
    }

    /// Whether the window is complete; its failure is raised.
    fn test(&self, py: Python<'_>, window: u64) -> Outcome<bool> {
        Ok(self.on_file(py, |file| file.test(WindowId(window)))?.is_some())
    }

    fn wait(&self, py: Python<'_>, window: u64) -> Outcome<()> {
        self.on_file(py, |file| file.wait(WindowId(window))).map(drop)
    }

    /// The window's result will be among [`Windows::due`].
    fn on_complete(&self, py: Python<'_>, window: u64) -> Outcome<()> {
        let due = self.due.clone();
        let keep = Box::new(move |outcome| due.lock().push((window, outcome)));
        self.on_file(py, |file| file.on_complete(WindowId(window), keep))
    }

    /// Windows that are complete since the last call, and their failures.
    fn due(&self) -> Vec<(u64, Option<PyErr>)> {
        let due = std::mem::take(&mut *self.due.lock());
        due.into_iter().map(|(window, outcome)| (window, outcome.err().map(|e| Failure::Thalweg(e).into()))).collect()
    }

    fn progress(&self, py: Python<'_>) -> Outcome<bool> {
        self.on_file(py, |file| Ok(file.progress()))
    }

    /// Collective.
    fn close(&self, py: Python<'_>) -> Outcome<()> {
        let file = self.file.lock().take();
        Ok(py.detach(|| file.map_or(Ok(()), File::close))?)
    }

    /// Not collective: windows under way are lost.
    fn abandon(&self, py: Python<'_>) {
        let file = self.file.lock().take();
        py.detach(|| drop(file));
    }
}
