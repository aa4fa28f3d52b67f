//! The attributes of a file that record changes: one for each, written with the output that brought the change.
//!
//! | part | value |
//! |------|-------|
//! | path | [`PATH`] |
//! | name | the first output for which the change holds |
//! | value | `step 3: every=1, box=10:20`: the first step of the file, and the change |

/// The path of these attributes.
pub const PATH: &str = "/thalweg/control";

/// A change on record.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Entry {
    /// The first output for which it holds, counted by the program.
    pub output: u64,
    /// The first step of the file.
    pub step: u64,
    /// In words.
    pub change: String,
}

impl Entry {
    /// The attribute's name, below [`PATH`].
    pub fn name(&self) -> String {
        self.output.to_string()
    }

    /// The attribute's value.
    pub fn value(&self) -> String {
        format!("step {}: {}", self.step, self.change)
    }

    /// The entry of an attribute; `None` if it is none.
    ///
    /// - `full`: the attribute's full name.
    pub fn of(full: &str, value: &str) -> Option<Entry> {
        let output = output(full)?;
        let (step, change) = value.strip_prefix("step ")?.split_once(": ")?;
        Some(Entry { output, step: step.parse().ok()?, change: change.to_string() })
    }
}

/// The output of an attribute that may be an entry, from its full name.
pub fn output(full: &str) -> Option<u64> {
    full.strip_prefix(PATH)?.strip_prefix('/')?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_attribute_is_read_back() {
        let entry = Entry { output: 21, step: 3, change: "every=1, box=1:2".into() };
        assert_eq!(Entry::of("/thalweg/control/21", &entry.value()), Some(entry));
        assert_eq!(Entry::of("/thalweg/controls/21", "step 3: every=1"), None);
        assert_eq!(Entry::of("/thalweg/control/21", "every=1"), None);
    }
}
