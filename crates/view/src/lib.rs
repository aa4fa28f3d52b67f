//! Views of files, as in MPI-IO: the bytes of a file that a rank sees.
//!
//! A [`Datatype`] is the tree that a program built with MPI's constructors. A [`Pattern`] is its normal form: which bytes one
//! instance covers, in their order. A [`View`] repeats a pattern from a displacement to the end of the file; its bytes are
//! numbered from 0, and it maps ranges of these numbers to extents of the file and back. The memory of a program is described by
//! a pattern too ([`Pattern::gather`], [`Pattern::scatter`]).
//!
//! Pure functions of values: no file, no MPI. No list of extents is ever made: a vector of 10^9 blocks costs as much as one of 10.
//!
//! | type | room |
//! |---|---|
//! | the tree: what the program made | [`datatype`] |
//! | the normal form, its runs of bytes | [`pattern`] |
//! | encoding, for servers | [`wire`] |
//! | a pattern over a file | [`view`] |

pub mod datatype;
pub mod pattern;
pub mod view;
pub mod wire;

pub use datatype::{Block, Datatype, Distribution, Order};
pub use pattern::{Outline, Pattern, Run, Runs};
pub use view::{Overlap, View};
