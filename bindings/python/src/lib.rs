//! Thalweg for Python, the part in Rust: what the package `thalweg` (in `python/thalweg`) calls as `thalweg._core`.
//!
//! It speaks numbers, texts and memory; what makes it pleasant (slices, data types, mappings, HTML) is in Python.
//! Arrays come as their bytes (one-dimensional `uint8`, which Python makes without a copy), so one function serves every
//! type. Whatever reads, writes or waits for ranks lets other Python threads run.
//!
//! | room | what it owns |
//! |------|--------------|
//! | `messages` | warnings for Python's `logging` |
//! | `failure` | our errors as Python's exceptions, a class per kind |
//! | `facts` | what is known of files, variables and blocks, as typed objects |
//! | `value` | single values from and to Python |
//! | `read` | files open for reading |
//! | `follow` | following a running writer |
//! | `write` | sessions and steps being written |
//! | `mpi` | the communicators of mpi4py, through the shim of the MPI it has loaded |
#![deny(unsafe_op_in_unsafe_fn)]

mod facts;
mod failure;
mod follow;
mod messages;
mod mpi;
mod read;
mod value;
mod write;

/// `thalweg._core`; its Python signatures are in `python/thalweg/_core.pyi`.
#[pyo3::pymodule]
mod _core {
    #[pymodule_export]
    use crate::facts::{BlockFacts, DeclaredFacts, FileFacts, SummaryFacts, VariableFacts};
    #[pymodule_export]
    use crate::follow::Follower;
    #[pymodule_export]
    use crate::messages::{flush_messages, hear_messages};
    #[pymodule_export]
    use crate::mpi::{Mpi, Ranks};
    #[pymodule_export]
    use crate::read::{Reader, end_mounts, watch_exit};
    #[pymodule_export]
    use crate::write::{Output, Session, schema_names};

    /// Source of the library that reaches an MPI.
    #[pymodule_export]
    const SHIM_SOURCE: &str = include_str!("../../../crates/comm-mpi/mpi/shim.c");
    /// Its header.
    #[pymodule_export]
    const SHIM_HEADER: &str = include_str!("../../../crates/comm-mpi/mpi/thalweg_mpi.h");
    /// This release.
    #[pymodule_export]
    const VERSION: &str = env!("CARGO_PKG_VERSION");
}
