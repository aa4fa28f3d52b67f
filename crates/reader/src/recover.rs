//! Recover.

use thalweg_layout::Layout;
use thalweg_types::Result;

/// How to recover.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Options {
    /// Say what would be done, change nothing.
    pub dry_run: bool,
    /// Keep steps that lack process groups, marked partial.
    pub keep_partial: bool,
}

/// What recovering did.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Recovery {
    /// Steps readable afterwards.
    pub steps: u64,
    /// Steps seen in the data but not kept.
    pub dropped: Vec<u64>,
    /// Whether anything was changed (would be, in a dry run).
    pub changed: bool,
    /// What was done, in words, in order.
    pub actions: Vec<String>,
}

/// Recovers.
pub fn recover(layout: &dyn Layout, path: &str, options: Options) -> Result<Recovery> {
    let _ = (layout, path, options);
    todo!()
}
