//! Methods: parameters and folders, as documents and `select_method` give them. Which methods and keys there are is known
//! later, where methods are made.

use crate::model::MethodChoice;

impl MethodChoice {
    /// The value of a parameter; of several, the last one.
    pub fn parameter(&self, key: &str) -> Option<&str> {
        self.parameters.iter().rev().find(|(k, _)| k == key).map(|(_, v)| v.as_str())
    }
}

/// A folder as it is put in front of file names: with a slash at its end, or empty.
pub(crate) fn base_path(text: &str) -> String {
    let text = text.trim();
    if text.is_empty() || text.ends_with('/') { text.to_string() } else { format!("{text}/") }
}
