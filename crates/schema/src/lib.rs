//! The description of an output: groups, variables, attributes, meshes, methods, buffer. From XML text to a checked [`Schema`].
//!
//! | room | what it owns |
//! |------|--------------|
//! | [`escape`] | text in documents of XML |
//! | [`model`] | the [`Schema`] and everything in it |
//! | [`name`] | rules of names |
//! | [`dimension`] | dimensions: numbers, names, the time index, arithmetic of these |
//! | [`attribute`] | values of attributes, read from text; names of types |
//! | [`mesh`] | meshes, and the attributes that describe them to viewers |
//! | [`method`] | parameters of methods |
//! | [`services`] | what happens to outputs on their way |
//! | [`xml`] | the XML document of the papers and of ADIOS 1.x, read into a schema |
//! | [`declare`] | the same schema declared from code |
//! | [`calls`] | program text that writes and reads a group |
//!
//! All mistakes in a document are one [`thalweg_diagnostics::Report`].
#![forbid(unsafe_code)]

pub mod attribute;
pub mod calls;
pub mod declare;
pub mod dimension;
pub mod escape;
pub mod mesh;
pub mod method;
pub mod model;
pub mod name;
pub mod services;
pub mod xml;

pub use declare::GroupBuilder;
pub use dimension::Dimension;
pub use mesh::mesh_attributes;
pub use model::*;
pub use xml::{parse, parse_bytes, parse_with_warnings};
