//! Names of groups, variables, attributes and meshes: any text without a comma; how many of them an unknown name is compared with.

use std::cell::Cell;
use thalweg_diagnostics::Problem;

/// Longest name, and longest path, in bytes: files keep the length in two bytes.
pub const LONGEST_NAME: usize = u16::MAX as usize;

/// Whether `name` may name a thing of this kind ("variable", "group").
///
/// # Errors
/// An empty or overlong name, or one with a comma (which separates dimensions).
pub fn check_name(kind: &str, name: &str) -> Result<(), Problem> {
    if name.trim().is_empty() {
        Err(Problem::new(format!("a {kind} without a name")).expected("a name"))
    } else if name.contains(',') {
        Err(Problem::new(format!("a comma in the name of {kind} {name:?}")).expected("a name without commas"))
    } else if name.len() > LONGEST_NAME {
        Err(Problem::new(format!("a {kind} with a name of {} bytes", name.len())).expected("at most 65535 bytes"))
    } else {
        Ok(())
    }
}

/// Whether `path` may be the path of a variable or attribute.
///
/// # Errors
/// An overlong path, or one with a comma.
pub fn check_path(path: &str) -> Result<(), Problem> {
    if path.contains(',') {
        Err(Problem::new(format!("a comma in path {path:?}")).expected("a path without commas"))
    } else if path.len() > LONGEST_NAME {
        Err(Problem::new(format!("a path of {} bytes", path.len())).expected("at most 65535 bytes"))
    } else {
        Ok(())
    }
}

/// The known names that an unknown name is compared with: none once a document had a million compared, because each
/// of its mistakes would cost all its names. `before` counts the names compared so far.
pub(crate) fn few<'a, I: Iterator<Item = &'a str>>(before: &Cell<usize>, known: I) -> std::iter::Take<I> {
    const MOST: usize = 1_000_000;
    let left = MOST.saturating_sub(before.get());
    let named = known.size_hint().1.unwrap_or(left).min(left);
    before.set(before.get() + named);
    known.take(left)
}
