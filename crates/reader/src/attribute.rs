//! Attributes and their values.

use thalweg_types::{AttributeValue, ElementType};

/// An attribute and its last value.
#[derive(Debug, Clone, PartialEq)]
pub struct Attribute {
    /// Path and name joined.
    pub name: String,
    /// Path alone.
    pub path: String,
    /// Name alone.
    pub short_name: String,
    /// Group.
    pub group: String,
    /// Type of the value.
    pub element: ElementType,
    /// The value; if the attribute refers to a variable, that variable's.
    pub value: AttributeValue,
    /// The variable it names.
    pub variable: Option<String>,
    /// Written by the library rather than the application (below `/__adios__`).
    pub internal: bool,
}
