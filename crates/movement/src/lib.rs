//! Movement: which rank's bytes go to which writer, in which turn.
//!
//! | room | what it owns |
//! |------|--------------|
//! | [`plan`] | placement as a pure function: sizes in, extents out |
//! | [`buffer`] | the memory of the process for output, and its limit |
//! | [`pack`] | one rank's process group while it is being written |
//! | [`pack::blocks`] | the blocks of an output as they were written, for methods that take no process groups |
//! | [`summary`] | what an output has, over all ranks: types, shapes, smallest and largest values |
//! | [`laid`] | a finished process group, taken in any order |
//! | [`transformed`] | blocks that go through a transform before they are packed |
//! | [`output_file`] | files that are open for an output: their index, its commit, subfiles, what is cached between outputs |
//! | [`nodes`] | which ranks share a node, and the memory that they share |
//! | [`method`] | the methods, each with its own parts |
//! | [`guarded`] | panics of a store, or of a step that a rank takes alone, become failures |
//! | [`events`] | events that the program reports between its writes |
#![forbid(unsafe_code)]

pub mod buffer;
pub mod events;
pub mod guarded;
pub mod laid;
pub mod method;
pub mod nodes;
pub mod output_file;
pub mod pack;
pub mod plan;
pub mod summary;
pub mod transformed;

pub use buffer::{BlockMemory, BufferPool};
pub use method::{Closed, Method, Mode, OpenRequest, Opened};
pub use pack::{BlockSpec, Pack};
