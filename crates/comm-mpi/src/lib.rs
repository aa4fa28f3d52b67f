//! Communicators of MPI, for any MPI library.
//!
//! This crate uses no MPI header. It calls a small table of C functions that `mpi/shim.c` fills; this file is compiled with
//! each MPI's own compiler into a separate library, which passes the table and a duplicate of the program's communicator
//! (`mpi/thalweg_mpi.h`). Nothing here uses `MPI_COMM_WORLD`.
//!
//! | question | answer |
//! |----------|--------|
//! | MPI version | 3.0 or later, initialised by the program at any thread level |
//! | threads | as the thread level allows; a call from another thread fails with `InvalidArgument` |
//! | waiting | operations are nonblocking and polled: first continuously, then with yields, then with sleeps of up to half a millisecond, so that there may be more ranks than cores; bounded by the timeout |
//! | after a timeout | a receive or send that timed out can be repeated; a collective call cannot be cancelled, so that its communicator refuses further ones, and memory in use by MPI stays allocated |
//! | loss of a rank | `PeerLost` if MPI reports it (most MPIs abort the program first), else `Timeout`; `survivors` is `Unsupported` with more than one rank |
//! | message length | any; lengths beyond `int` are passed to MPI in blocks |
//! | copies | `send` copies, since the bytes must outlive a timeout; `start_send` does not |
//! | after `MPI_Finalize` | calls fail with `InvalidArgument`; dropping is harmless |
//! | duplicates | of a program's communicator are cached with it and reused, after [`thalweg_comm::Communicator::set_idle`] has declared that no operation is in flight on them; the first collective call checks that all ranks have the same one. Before it, only collective calls are allowed |
//! | shared windows | MPI's; the memory of a dropped window is freed by the next `shared_window` of the same communicator, or at the end of the program |
//!
//! Creating communicators and windows (`duplicate`, `split`, `shared_window`) blocks in MPI, but only after a bounded wait for
//! all ranks to arrive.
//!
//! | room | what it owns |
//! |------|--------------|
//! | [`MpiCommunicator`] | the trait, and collective calls of any length on top of MPI's |
//! | `core` | one communicator's messages in flight; progress of all communicators while any waits |
//! | `window` | memory shared by the ranks of a node |
//! | `patience` | polling, yields and sleeps of a wait |
//! | `ffi` | the table, and safe handles around it |
//! | `error` | error kinds of MPI's error classes |
#![deny(unsafe_op_in_unsafe_fn)]

mod communicator;
mod core;
mod error;
mod ffi;
mod patience;
mod window;

pub use communicator::MpiCommunicator;
pub use ffi::Table as ThalwegMpiTable;
