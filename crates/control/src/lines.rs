//! Lines of a key and a value; values are any text, escaped.

use std::fmt::Write;
use thalweg_types::{Error, ErrorKind, Result};

/// Appends a line. Line breaks and backslashes of the value are escaped.
pub(crate) fn put(text: &mut String, key: &str, value: &str) {
    let _ = write!(text, "{key} ");
    for c in value.chars() {
        match c {
            '\\' => text.push_str("\\\\"),
            '\n' => text.push_str("\\n"),
            '\r' => text.push_str("\\r"),
            c => text.push(c),
        }
    }
    text.push('\n');
}

/// The lines of a document whose first line is `head`, as keys and values.
///
/// # Errors
/// `Corrupt` for another first line, or text that is no UTF-8.
pub(crate) fn parse(bytes: &[u8], head: &str) -> Result<Vec<(String, String)>> {
    let text = std::str::from_utf8(bytes).map_err(|_| Error::new(ErrorKind::Corrupt, "text that is no UTF-8"))?;
    let mut lines = text.split('\n').map(|line| line.strip_suffix('\r').unwrap_or(line));
    if lines.next() != Some(head) {
        return Err(Error::new(ErrorKind::Corrupt, format!("the first line is not \"{head}\"")));
    }
    let rest = lines.filter(|line| !line.is_empty());
    Ok(rest.map(|line| line.split_once(' ').unwrap_or((line, ""))).map(|(k, v)| (k.to_string(), plain(v))).collect())
}

fn plain(value: &str) -> String {
    let mut plain = String::new();
    let mut chars = value.chars();
    while let Some(c) = chars.next() {
        match c {
            '\\' => match chars.next() {
                Some('n') => plain.push('\n'),
                Some('r') => plain.push('\r'),
                Some(other) => plain.push(other),
                None => {}
            },
            c => plain.push(c),
        }
    }
    plain
}
