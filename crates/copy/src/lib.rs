//! Copies of a file: the steps, variables and boxes that are chosen, in other blocks, types and transforms, by any method and layout.
//!
//! What is not chosen to be changed comes out as it was: names, groups, attributes, types, shapes, the order of dimensions, the level of
//! statistics, blocks and transforms. Subfiles become what the method of the target writes; holes and dead bytes are gone. What has no
//! place in the copy is listed, never dropped silently. The source is not changed. A step of the target is whole or not there.
//!
//! | room | what it owns |
//! |------|--------------|
//! | [`services`] | what happens to values on their way: histograms, functions of the user |
//! | [`events`] | what a target is told, whatever the source is |
//! | [`fetch`] | values of several blocks, read together |
//! | `source` | reads the steps, a bounded number of bytes at a time |
//! | [`target`] | declares groups, writes the steps |
//! | [`mod@copy`] | from the one to the other |
//!
//! Source: the requirements "converters" and "reorganize" of ADIOS 1.x, Lofstead et al., SAND2009-7763.
#![forbid(unsafe_code)]

pub mod copy;
pub mod events;
pub mod fetch;
pub mod services;
mod source;
pub mod target;

pub use copy::{Asked, Copied, Existing, LeftOut, Options, Served, copy};
