//! Movement: which rank's bytes go to which writer, in which turn.
//!
//! | room | what it owns |
//! |------|--------------|
//! | [`plan`] | placement as a pure function: sizes in, extents out |
//! | [`buffer`] | the memory of the process for output, and its limit |
//! | [`pack`] | one rank's process group while it is being written |
//! | [`laid`] | a finished process group, taken in any order |
//! | [`transformed`] | blocks that go through a transform before they are packed |
//! | [`parts`] | pieces that methods share: the live index of a file, agreement of ranks |
//! | [`method`] | the methods, one file each |
//! | [`profile`] | what each rank did in an output, when, and for whom it waited |
//! | [`events`] | what the program says it is doing between its writes |
//! | [`together`] | a file that all ranks open together to read it, its index shared |
#![forbid(unsafe_code)]

pub mod buffer;
pub mod events;
pub mod laid;
pub mod method;
pub mod pack;
pub mod parts;
pub mod plan;
pub mod profile;
pub mod together;
pub mod transformed;

pub use buffer::BufferPool;
pub use method::{Closed, Method, Mode, OpenRequest, Opened};
pub use pack::{BlockSpec, Pack};
