//! Where two files differ, in what readers see: variables, steps, shapes, values beyond a tolerance, attributes.
//!
//! How values are stored makes no difference: blocks of global arrays, subfiles, byte order, the order of dimensions, transforms, statistics.
//!
//! | room | what it owns |
//! |------|--------------|
//! | [`values`] | values of two pieces of memory compared; pure |
//! | [`mod@diff`] | what of two files is compared with what |
//!
//! Source: the tools `h5diff` and `bpdiff`, whose users ask for the place of the largest difference and for all differences in one run.
#![forbid(unsafe_code)]

pub mod diff;
pub mod values;

pub use diff::{Difference, Options, Place, Side, Summary, diff};
pub use values::{Differing, Tolerance};
