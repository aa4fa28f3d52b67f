//! Thalweg for Python, the part in Rust: the extension module `thalweg._core`, which the package `thalweg` (in `python/thalweg`)
//! calls.
//!
//! The interface consists of numbers, texts and memory; slices, data types, mappings and HTML are implemented in Python. Arrays are
//! passed as their bytes (a one-dimensional `uint8` view without a copy), so that one function serves all element types. Functions
//! that read, write or wait for ranks release Python's global interpreter lock (GIL).
//!
//! | module | content |
//! |--------|---------|
//! | `messages` | warnings for Python's `logging` |
//! | `failure` | Thalweg's errors as Python exceptions, a class per error kind |
//! | `facts` | metadata of files, variables, attributes and blocks, as typed objects |
//! | `value` | conversion of single values between Rust and Python |
//! | `read` | files open for reading |
//! | `follow` | following a file while its writer runs |
//! | `write` | sessions, and steps being written |
//! | `known` | the short way of a write: variables written before, values as they are |
//! | `steering` | changes of what a run writes |
//! | `windows` | output windows |
//! | `input` | input windows |
//! | `mpi` | the communicators of mpi4py, through the shim of the MPI that mpi4py has loaded |
#![deny(unsafe_op_in_unsafe_fn)]

mod facts;
mod failure;
mod follow;
mod input;
mod known;
mod messages;
mod mpi;
mod read;
mod steering;
mod value;
mod windows;
mod write;

/// `thalweg._core`; its Python signatures are in `python/thalweg/_core.pyi`.
#[pyo3::pymodule]
mod _core {
    #[pymodule_export]
    use crate::facts::{
        AttributeFacts, BlockFacts, DeclaredFacts, ErrorFacts, FileFacts, HeadFacts, SummaryFacts, VariableFacts,
    };
    #[pymodule_export]
    use crate::follow::Follower;
    #[pymodule_export]
    use crate::input::Input;
    #[pymodule_export]
    use crate::known::Definitions;
    #[pymodule_export]
    use crate::messages::{flush_messages, hear_messages};
    #[pymodule_export]
    use crate::mpi::{Mpi, Ranks};
    #[pymodule_export]
    use crate::read::{Reader, end_mounts, watch_exit};
    #[pymodule_export]
    use crate::steering::control;
    #[pymodule_export]
    use crate::windows::Windows;
    #[pymodule_export]
    use crate::write::{Output, Pending, Session, schema_names};

    /// Source of the shim, the library that connects Thalweg to an MPI.
    #[pymodule_export]
    const SHIM_SOURCE: &str = include_str!("../../../crates/comm-mpi/mpi/shim.c");
    /// Header of the shim.
    #[pymodule_export]
    const SHIM_HEADER: &str = include_str!("../../../crates/comm-mpi/mpi/thalweg_mpi.h");
    /// The number in the names of this release's libraries.
    #[pymodule_export]
    const ABI: &str = thalweg_types::abi::ABI;
    /// Version of this release.
    #[pymodule_export]
    const VERSION: &str = env!("CARGO_PKG_VERSION");
}
