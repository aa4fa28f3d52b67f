//! The ADIOS 1.13 C interface over `thalweg-io` and `thalweg-reader`, as `libthalweg-core`: no MPI in any signature.
//!
//! Functions that take an `MPI_Comm` (`adios_init`, `adios_open`, `adios_read_open`...) are in one thin C library per MPI
//! (`mpi/adios_mpi.c`), which turn it into a table of functions and an opaque communicator and call `thalweg_core_*`.
//!
//! | room | what it owns |
//! |------|--------------|
//! | [`error`] | failures as C programs see them: one table from our kinds to `ADIOS_ERRCODES` |
//! | [`handle`] | the 64-bit numbers that stand for files, groups and variables |
//! | [`process`] | what a process has: the session, declared groups, open files |
//! | [`file`](mod@file) | an open file: an output, or a group being read back |
//! | [`leaving`] | sessions that a program leaves open when it exits |
//! | [`read`] | files and streams as `adios_read.h` shows them |
//! | [`border`] | the C functions, grouped as in `adios.h`; all `unsafe` is there |
//!
//! Any thread may call; calls on one file take turns. What MPI's thread level does not allow is refused.
#![deny(unsafe_op_in_unsafe_fn)]

pub mod border;
pub mod error;
pub mod file;
pub mod handle;
pub mod leaving;
pub mod process;
pub mod read;
