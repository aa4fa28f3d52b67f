//! What is written: groups, variables, attributes, meshes, methods, buffer. XML text in, checked [`Schema`] out.
//!
//! | room | what it owns |
//! |------|--------------|
//! | [`model`] | the [`Schema`] and everything in it |
//! | [`dimension`] | dimensions: numbers, names, the time index, arithmetic of these |
//! | [`xml`] | the XML document of the papers and of ADIOS 1.x, read into a schema |
//! | [`declare`] | the same schema declared from code |
//! | [`report`] | all errors of a document at once, each with place, expectation and nearest known name |
#![forbid(unsafe_code)]

pub mod declare;
pub mod dimension;
pub mod model;
pub mod report;
pub mod xml;

pub use declare::GroupBuilder;
pub use dimension::Dimension;
pub use model::*;
pub use report::Report;
