//! A machine to try methods on at scale: ranks, nodes, a metadata server and storage targets in virtual time.
//!
//! | room | what it owns |
//! |------|--------------|
//! | [`machine`] | the description of a machine: TOML in, checked numbers out; those that are shipped |
//! | [`noise`] | seeded variation between processes and between targets |
//! | [`target`] | one storage target: bandwidth shared by its writers, reduced by seeks between them |
//! | [`world`] | virtual time: the queue of events |
//! | [`methods`] | the methods' turn order, one file each, by the planner of `thalweg-movement` |
//! | [`load`] | loads of collective MPI-IO calls, as views of ranks |
//! | [`partition`] | collective calls on files of data servers: a partition's own way beside two-phase |
//! | [`outcome`] | seconds by rank, bandwidth, share of the peak, the slowest ranks |
//! | [`figure`] | series beside published numbers, as a table and a picture |
//!
//! Time is simulated as discrete events. Bytes are not: a write is a flow, and a target's bandwidth is shared evenly by the flows to it.
//! Limits of the model: `docs/guide/sim.md`.
#![forbid(unsafe_code)]

pub mod figure;
pub mod load;
pub mod machine;
pub mod methods;
pub mod noise;
pub mod outcome;
pub mod partition;
pub mod target;
pub mod world;

pub use load::Load;
pub use machine::Machine;
pub use methods::{Job, parameters, run};
pub use outcome::Outcome;
