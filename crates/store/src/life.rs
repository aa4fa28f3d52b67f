//! Leases: they distinguish a writer that died from a writer that is slow.

use std::any::Any;
use std::time::SystemTime;

/// A lease or a lock of an object; ends when it is dropped or its process ends, however the process ends.
pub struct Lease(#[allow(dead_code)] Box<dyn Any + Send + Sync>);

impl Lease {
    /// - `guard`: ends the lease when dropped.
    pub fn new(guard: impl Any + Send + Sync) -> Lease {
        Lease(Box::new(guard))
    }
}

/// Signs of a writer that extends an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Life {
    /// Whether any other handle has a lease; `None` if the store cannot determine that.
    pub leased: Option<bool>,
    /// Time of the last change, by the store's clock; `None` where the store keeps no times.
    pub modified: Option<SystemTime>,
}
