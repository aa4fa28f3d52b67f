//! Communicators of MPI, whichever MPI the program was built with.
//!
//! This crate knows no MPI header. It calls a small table of C functions that `mpi/shim.c` fills; that one file is
//! compiled by each MPI's own compiler into a library of its own, which hands over the table and a duplicate of the
//! program's communicator (`mpi/thalweg_mpi.h`). Nothing here uses `MPI_COMM_WORLD`.
//!
//! | question | answer |
//! |----------|--------|
//! | which MPI | 3.0 or later, initialised by the program at any thread level |
//! | who may call | as the thread level says; a call from another thread is refused with `InvalidArgument` |
//! | how it waits | starts everything nonblocking and tests it: first at once, then yielding, then sleeping up to half a millisecond, so that ranks may be more than cores; bounded by the timeout |
//! | after a timeout | a receive or send that timed out can be repeated; a collective call cannot be called back, so its communicator refuses further ones, and memory that MPI may still touch stays allocated |
//! | when a rank dies | `PeerLost` where MPI says so (most end the whole program first), else `Timeout`; `survivors` is `Unsupported` with more than one rank |
//! | message length | any; what MPI cannot count in an `int` is described to it in blocks |
//! | copies | `send` copies, since the bytes must outlive a timeout; `start_send` does not |
//! | after `MPI_Finalize` | calls fail with `InvalidArgument`; dropping is harmless |
//! | duplicates | of a program's communicator are kept with it and used again, by those who said that nothing is under way on theirs ([`thalweg_comm::Communicator::set_idle`]); the first collective call finds out whether all ranks have the same one. Before it, only collective calls can be made |
//! | shared windows | MPI's; the memory of a dropped one is freed by the next `shared_window` of the same communicator, or when the program ends |
//!
//! Making communicators (`duplicate`, `split`, windows) waits in MPI itself, but only after a bounded wait has seen
//! every rank arrive.
//!
//! | room | what it owns |
//! |------|--------------|
//! | [`MpiCommunicator`] | the trait, and how collective calls of any length are made of MPI's |
//! | `core` | one communicator's messages under way; progress of all of them whenever any waits |
//! | `window` | memory shared by the ranks of a node |
//! | `patience` | how a wait spends its time |
//! | `ffi` | the table, and safe handles around it |
//! | `error` | MPI's failures in our words |
#![deny(unsafe_op_in_unsafe_fn)]

mod communicator;
mod core;
mod error;
mod ffi;
mod patience;
mod window;

pub use communicator::MpiCommunicator;
pub use ffi::Table as ThalwegMpiTable;
