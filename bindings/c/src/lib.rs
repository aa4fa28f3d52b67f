//! The C interfaces over `thalweg-io` and `thalweg-reader`, as `libthalweg-core`: no MPI in any signature.
//!
//! Functions that take an `MPI_Comm` (`adios_init`, `adios_open`, `adios_read_open`...) are in one thin C library per MPI
//! (`mpi/adios_mpi.c`), which turn it into a table of functions and an opaque communicator and call `thalweg_core_*`.
//!
//! | room | what it owns |
//! |------|--------------|
//! | [`adios1`] | `adios*.h`: programs written for ADIOS 1.x |
//! | `native` | `thalweg.h`: new codes |
//! | `mpiio` | the door for MPI-IO: what its C part calls |
//! | `spawner` | processes that MPI starts for the library |
//! | `collective` | steps between collective calls, with one outcome on all ranks |
//! | `pointer` | pointers from C, and the requirements on them |
//! | [`leaving`] | sessions that a program leaves open when it exits |
//!
//! Any thread may call; calls on one file take turns. Calls that MPI's thread level does not allow are refused.
#![deny(unsafe_op_in_unsafe_fn)]

/// Runs when the library is loaded, so that a relative `THALWEG_MOUNTS` stays valid if the program changes its directory.
// SAFETY: the loader calls the functions of this section with the program's arguments, which a function without parameters ignores;
// the standard library is usable then.
#[used]
#[allow(unsafe_code)]
#[unsafe(link_section = ".init_array")]
static AT_LOAD: extern "C" fn() = at_load;

extern "C" fn at_load() {
    let _ = std::panic::catch_unwind(thalweg_io::mounts::remember_working_directory);
}

pub mod adios1;
mod collective;
pub mod leaving;
mod mpiio;
mod native;
mod pointer;
mod spawner;
