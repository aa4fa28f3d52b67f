//! Methods: parameters and folders, as documents and `select_method` give them. Which methods and keys there are is known
//! later, where methods are made.

use crate::model::MethodChoice;
use std::ops::Range;

/// The `key=value` pairs of a parameter text (`key=value;key=value`), with the bytes each takes in it. A key alone means `yes`.
pub fn parse_parameters(text: &str) -> Vec<(Range<usize>, (String, String))> {
    let (mut pairs, mut at) = (Vec::new(), 0);
    for pair in text.split(';') {
        let start = at + pair.len() - pair.trim_start().len();
        at += pair.len() + 1;
        let pair = pair.trim();
        if pair.is_empty() {
            continue;
        }
        let (key, value) = pair.split_once('=').unwrap_or((pair, "yes"));
        pairs.push((start..start + pair.len(), (key.trim().to_string(), value.trim().to_string())));
    }
    pairs
}

impl MethodChoice {
    /// The value of a parameter; the last one where it is given several times.
    pub fn parameter(&self, key: &str) -> Option<&str> {
        self.parameters.iter().rev().find(|(k, _)| k == key).map(|(_, v)| v.as_str())
    }
}

/// A folder as it is put in front of file names: with a slash at its end, or empty.
pub(crate) fn base_path(text: &str) -> String {
    let text = text.trim();
    if text.is_empty() || text.ends_with('/') { text.to_string() } else { format!("{text}/") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_lose_blanks_and_a_bare_key_means_yes() {
        let pairs = parse_parameters("\n stripe_count = 4 ;verbose;;path=a=b\n");
        let pairs: Vec<(&str, &str)> = pairs.iter().map(|(_, (k, v))| (k.as_str(), v.as_str())).collect();
        assert_eq!(pairs, [("stripe_count", "4"), ("verbose", "yes"), ("path", "a=b")]);
    }
}
