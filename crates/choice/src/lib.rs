//! What of a file is chosen, and in what form: variables, steps, regions, number types, transforms, blocks.
//!
//! Copies, conversions and comparisons are told in the same words. Nothing here reads or writes a file.
//!
//! | room | what it owns |
//! |------|--------------|
//! | [`choice`] | what is chosen |
//! | [`written`] | a choice as users write it |
//! | [`pattern`] | names by pattern |
//! | [`region`] | every *n*-th element of a box: as users write it, and of an array of a known shape |
//! | [`plan`] | from the blocks of a variable in a step to the chosen blocks; pure |
//! | [`cast`] | values of one number type as values of another |
#![forbid(unsafe_code)]

pub mod cast;
pub mod choice;
pub mod pattern;
pub mod plan;
pub mod region;
pub mod written;

pub use choice::{Blocks, Choice, Steps};
pub use pattern::Pattern;
pub use region::Region;
pub use written::Written;
