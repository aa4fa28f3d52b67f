//! Copies of a file: the steps, variables and boxes that are chosen, in other blocks, types and transforms, by any method and layout.
//!
//! What is not chosen to be changed comes out as it was: names, groups, attributes, types, shapes, the order of dimensions, the level of
//! statistics, blocks and transforms. Subfiles become what the method of the target writes; holes and dead bytes are gone. What has no
//! place in the copy is listed, never dropped silently. The source is not changed. A step of the target is whole or not there.
//!
//! | room | what it owns |
//! |------|--------------|
//! | [`choice`] | what of a file is copied, and in what form |
//! | [`pattern`] | names by pattern |
//! | [`region`] | every *n*-th element of a box: as users write it, and of an array of a known shape |
//! | [`plan`] | from the blocks of a variable in a step to the blocks of the copy; pure |
//! | [`cast`] | values of one number type as values of another |
//! | [`services`] | what happens to values on their way: histograms, functions of the user |
//! | `source` | reads the steps, a bounded number of bytes at a time |
//! | `target` | declares groups, writes the steps |
//! | [`mod@copy`] | from the one to the other |
//!
//! Source: the requirements "converters" and "reorganize" of ADIOS 1.x, Lofstead et al., SAND2009-7763.
#![forbid(unsafe_code)]

pub mod cast;
pub mod choice;
pub mod copy;
pub mod pattern;
pub mod plan;
pub mod region;
pub mod services;
mod source;
mod target;

pub use choice::{Blocks, Choice, Steps};
pub use copy::{Asked, Copied, Existing, LeftOut, Options, Served, copy};
pub use pattern::Pattern;
pub use region::Region;
