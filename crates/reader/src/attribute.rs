//! Attributes and their values.

use thalweg_types::{AttributeValue, ElementType};

/// An attribute and what it says last.
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
    /// The value; of the variable it names, where it names one.
    pub value: AttributeValue,
    /// The variable it names.
    pub variable: Option<String>,
    /// Written by the library rather than the application (below `/__adios__`).
    pub internal: bool,
}
