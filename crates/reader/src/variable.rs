//! Variables: metadata from the index entry's head alone ([`Head`]), and from its blocks ([`Variable`]).

use thalweg_types::ElementType;

/// The head of a variable's index entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Head {
    /// Path and name joined, the name for [`crate::Reader`].
    pub name: String,
    /// Path alone.
    pub path: String,
    /// Name alone.
    pub short_name: String,
    /// Group.
    pub group: String,
    /// Type as stored; `None` for a code BP version 3 does not know.
    pub element: Option<ElementType>,
    /// Blocks over all steps.
    pub blocks: u64,
}

/// The kind of a variable at each step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// One value or text; each rank may have written its own.
    Scalar,
    /// One value per writer; reads as an array of one dimension.
    LocalValue,
    /// Blocks of one array.
    Global,
    /// Independent arrays.
    Local,
}

/// A variable over all steps.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Variable {
    /// Path and name joined.
    pub name: String,
    /// Path alone.
    pub path: String,
    /// Name alone.
    pub short_name: String,
    /// Group.
    pub group: String,
    /// Type of the values: before any transform.
    pub element: ElementType,
    /// Its kind.
    pub kind: Kind,
    /// Steps in which it was written, rising.
    pub steps: Vec<u64>,
    /// Shape in the first of these; of block 0 for local arrays, empty for scalars. Slowest first, in elements.
    pub shape: Vec<u64>,
    /// Whether other steps (or blocks of a local array) have other shapes.
    pub shape_changes: bool,
    /// Blocks over all steps.
    pub blocks: u64,
    /// The transform that the stored bytes went through, by its name in the file.
    pub transform: Option<String>,
}

/// Path and name as one string, as both foreign readers join them.
pub fn full_name(path: &str, name: &str) -> String {
    match path {
        "" => name.to_string(),
        path if path.ends_with('/') => format!("{path}{name}"),
        path => format!("{path}/{name}"),
    }
}
