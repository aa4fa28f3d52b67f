//! The words everything else is written in: element types, values, boxes, extents, errors. No I/O.
//!
//! | room | what it owns |
//! |------|--------------|
//! | [`abi`] | which libraries of an installation can replace each other |
//! | [`checksum`] | CRC-32C |
//! | [`element`] | the element types of the format: codes, sizes, names and their aliases |
//! | [`value`] | one value of any element type, and attribute values |
//! | [`mod@equal`] | equality of byte strings that are often empty |
//! | [`extent`] | runs of bytes in a file |
//! | [`holes`] | byte ranges in which nothing is stored: the search for the next stored byte |
//! | [`bounding_box`] | boxes of elements: intersection, linear order |
//! | [`memory_selection`] | a block inside a larger array in memory |
//! | [`mutex`] | locks that a panic does not poison |
//! | [`selection`] | the elements that a read selects |
//! | [`transform_names`] | names of transforms in configurations and files |
//! | [`error`] | the error type: kind, place, safe data, cause |
#![deny(unsafe_code)]

pub mod abi;
pub mod bounding_box;
pub mod checksum;
pub mod element;
pub mod equal;
pub mod error;
pub mod extent;
pub mod guarded;
pub mod holes;
pub mod memory_selection;
pub mod mutex;
pub mod printable;
pub mod selection;
pub mod transform_names;
pub mod value;

pub use bounding_box::BoundingBox;
pub use element::{ByteOrder, ElementType};
pub use equal::equal;
pub use error::{Error, ErrorKind, Place, Result};
pub use extent::Extent;
pub use memory_selection::MemorySelection;
pub use selection::Selection;
pub use value::{AttributeValue, Value};
