//! The communicators of mpi4py.
//!
//! `python/thalweg/mpi.py` finds or builds the shim (crates/comm-mpi/mpi/shim.c) of the MPI that mpi4py has loaded. This module
//! loads the shim, obtains its table of functions, and passes it the address of the program's `MPI_Comm`. The shim is never
//! unloaded.

use crate::failure::{Failure, Outcome};
use pyo3::prelude::*;
use std::ffi::c_void;
use std::mem::ManuallyDrop;
use std::time::Duration;
use thalweg_comm::Communicator;
use thalweg_comm::agreement::agree;
use thalweg_comm_mpi::{MpiCommunicator, ThalwegMpiTable};
use thalweg_comm_processes::Rendezvous;
use thalweg_types::mutex::Mutex;
use thalweg_types::{Error, ErrorKind};

type TableFunction = unsafe extern "C" fn() -> *const ThalwegMpiTable;
type WrapFunction = unsafe extern "C" fn(*const c_void) -> *mut c_void;

/// A loaded shim.
#[pyclass(frozen, module = "thalweg._core")]
pub struct Mpi {
    table: TableFunction,
    wrap: WrapFunction,
    /// Keeps the functions valid.
    _library: ManuallyDrop<libloading::Library>,
}

#[pymethods]
impl Mpi {
    /// Loads a shim. The file must be a shim of this release: the version that it states is compared, its functions cannot be
    /// verified.
    #[new]
    fn new(path: &str) -> Outcome<Mpi> {
        let refuse = |e: libloading::Error| {
            Error::new(ErrorKind::Unsupported, "cannot load the library that reaches MPI").in_object(path).caused_by(e)
        };
        // SAFETY: the library is built from shim.c, which runs no code when it is loaded.
        #[allow(unsafe_code)]
        let (library, table, wrap) = unsafe {
            let library = libloading::Library::new(path).map_err(refuse)?;
            let table = *library.get::<TableFunction>(b"thalweg_mpi_table\0").map_err(refuse)?;
            let wrap = *library.get::<WrapFunction>(b"thalweg_mpi_wrap_at\0").map_err(refuse)?;
            (library, table, wrap)
        };
        Ok(Mpi { table, wrap, _library: ManuallyDrop::new(library) })
    }

    /// Collective: a duplicate of the `MPI_Comm` at an address (`mpi4py.MPI._addressof`).
    fn communicator(&self, py: Python<'_>, address: usize) -> Outcome<Ranks> {
        if address == 0 {
            return Err(Failure::argument("no communicator at address 0"));
        }
        let comm = py.detach(|| {
            // SAFETY: both functions belong to the shim, which stays loaded; mpi4py keeps the MPI_Comm at its address as long as
            // its object exists, to which the caller holds a reference; the handle is not used elsewhere.
            #[allow(unsafe_code)]
            unsafe {
                let handle = (self.wrap)(std::ptr::without_provenance(address));
                MpiCommunicator::from_raw((self.table)(), handle)
            }
        })?;
        Ok(Ranks(Mutex::new(Box::new(comm))))
    }
}

/// A communicator: the ranks that write together.
#[pyclass(frozen, module = "thalweg._core")]
pub struct Ranks(Mutex<Box<dyn Communicator>>);

impl Ranks {
    /// Collective: a duplicate of the communicator, owned by the caller.
    ///
    /// # Errors
    /// Errors of the MPI library.
    pub fn duplicate(&self) -> Outcome<Box<dyn Communicator>> {
        Ok(self.0.lock().duplicate()?)
    }
}

#[pymethods]
impl Ranks {
    /// A communicator of this process alone.
    #[staticmethod]
    fn alone() -> Ranks {
        Ranks(Mutex::new(Box::new(thalweg_comm::alone::Alone::new())))
    }

    /// A communicator of processes that meet in a folder.
    #[staticmethod]
    fn meet(py: Python<'_>, folder: &str, rank: u32, size: u32, within: f64) -> Outcome<Ranks> {
        let wait = Duration::try_from_secs_f64(within);
        let wait = wait.map_err(|_| Failure::argument(format!("a wait of {within} seconds")))?;
        let comm = py.detach(|| Rendezvous::new(folder, rank, size).within(wait).join())?;
        Ok(Ranks(Mutex::new(Box::new(comm))))
    }

    /// Collective: succeeds if no rank has failed.
    ///
    /// - `doing`: the operation, as in "cannot `doing`".
    /// - `failed`: number of the kind and text of this rank's error.
    ///
    /// # Errors
    /// On a rank that has failed this error; on the others one of its kind that names the rank.
    #[pyo3(signature = (doing, failed=None))]
    fn agree(&self, py: Python<'_>, doing: &str, failed: Option<(u8, String)>) -> Outcome<()> {
        let own = failed.map_or(Ok(()), |(code, what)| Err(Error::new(ErrorKind::from_code(code), what)));
        Ok(py.detach(|| agree(&**self.0.lock(), own, doing, &[])).map(|_| ())?)
    }

    #[getter]
    fn rank(&self) -> u32 {
        self.0.lock().rank()
    }

    #[getter]
    fn size(&self) -> u32 {
        self.0.lock().size()
    }
}
