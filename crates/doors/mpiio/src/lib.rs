//! The door for MPI-IO: files of mounts, for unmodified programs that use the `MPI_File_` functions.
//!
//! | question | answer |
//! |----------|--------|
//! | how | `libthalweg-mpiio-MPI.so` is found before the MPI library (`thalweg run`, or linked); its C part (`mpi/`) defines the functions of MPI-IO, decodes datatypes and calls this crate through `libthalweg-core.so` |
//! | paths | below mounts, and those that begin with `thalweg:`; all others go to the MPI library |
//! | data | each rank reads and writes the extents of its view itself, and waits for no rank; exception: blocking collective writes of small interleaved extents where the layout prefers runs ([`two_phase`]) |
//! | ordered and shared pointers | one number per open file, in memory that the ranks of a node share, or at the file's server ([`pointer`](mod@pointer)) |
//! | nonblocking calls | are complete when they return their request |
//! | profiles | with `THALWEG_PROFILE`, one per open of a file ([`mod@profile`]) |
//! | consistency | as MPI says: other ranks see bytes after `MPI_File_sync` or close, and at once in atomic mode, for which a layout must have locks: those of the system, or of its servers |
//! | errors | MPI's error class ([`class`]), on all ranks of collective calls that agree on an outcome (open, close, sizes, views, sync); a class that says too little is explained on the standard error stream |
//!
//! | room | what it owns |
//! |------|--------------|
//! | [`file`](mod@file) | open files: positions, views, sizes, atomic mode |
//! | [`mode`] | access modes of an open |
//! | [`transfer`] | bytes between memory and the extents of a view |
//! | [`hints`] | hints of programs, and the values in use |
//! | [`mod@profile`] | the profile of a file, from open to close |
//! | [`two_phase`] | collective writes of small interleaved extents, planned and exchanged |
//! | [`pointer`](mod@pointer) | the shared file pointer |
//! | [`class`] | MPI's error classes of failures |
//! | [`tree`] | datatypes, as the C part hands them over |
//!
//! Source: MPI 4.1, chapter 14. No MPI here: ranks are a [`thalweg_comm::Communicator`].
#![forbid(unsafe_code)]

pub mod class;
pub mod file;
pub mod hints;
pub mod mode;
pub mod pointer;
pub mod profile;
pub mod transfer;
pub mod tree;
pub mod two_phase;

pub use class::{Class, Failure, Outcome};
pub use file::{At, Caller, File, Whence};
pub use hints::Given;
pub use mode::Mode;
pub use transfer::{Memory, MemoryMut};
