//! Whether somebody still extends an object: what tells a writer that died from one that is slow.

use std::any::Any;
use std::time::SystemTime;

/// A mark on an object, there until this is dropped or the process ends, however it ends.
pub struct Lease(#[allow(dead_code)] Box<dyn Any + Send + Sync>);

impl Lease {
    /// - `mark`: what removes the mark when it is dropped.
    pub fn new(mark: impl Any + Send + Sync) -> Lease {
        Lease(Box::new(mark))
    }
}

/// What is known about who extends an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Life {
    /// Whether somebody holds it; `None` where that cannot be told.
    pub held: Option<bool>,
    /// When it was last changed, by the clock of the store; `None` where the store keeps no times.
    pub modified: Option<SystemTime>,
}
