//! A machine to try methods on at scale: ranks, nodes, a metadata server and storage targets in virtual time.
//!
//! | room | what it owns |
//! |------|--------------|
//! | [`machine`] | the description of a machine: TOML in, checked numbers out; those that are shipped |
//! | [`noise`] | what differs from process to process and target to target, seeded |
//! | [`target`] | one storage target: bandwidth shared by those who write to it, less for seeks between them |
//! | [`world`] | virtual time: what happens next |
//! | [`methods`] | the methods' turn order, one file each, by the planner of `thalweg-movement` |
//! | [`outcome`] | seconds by rank, bandwidth, share of the peak, the slowest ranks |
//! | [`figure`] | series beside published numbers, as a table and a picture |
//!
//! Time is simulated as discrete events. Bytes are not: a write is a flow, and a target's bandwidth is shared evenly by the flows to it.
//! What is left out is in `docs/guide/sim.md`.
#![forbid(unsafe_code)]

pub mod figure;
pub mod machine;
pub mod methods;
pub mod noise;
pub mod outcome;
pub mod target;
pub mod world;

pub use machine::Machine;
pub use methods::{Job, parameters, run};
pub use outcome::Outcome;
