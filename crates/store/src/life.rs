//! Leases: they distinguish a writer that died from a writer that is slow.

use std::any::Any;
use std::time::SystemTime;

/// A lease or a lock of an object; ends when it is dropped or its process ends, however the process ends.
pub struct Lease {
    _guard: Box<dyn Any + Send + Sync>,
    lost: Option<Box<dyn Fn() -> bool + Send + Sync>>,
}

impl Lease {
    /// - `guard`: ends the lease when dropped.
    pub fn new(guard: impl Any + Send + Sync) -> Lease {
        Lease { _guard: Box::new(guard), lost: None }
    }

    /// As [`Lease::new`], of a lease that another process has.
    ///
    /// - `lost`: whether it has ended with that process.
    pub fn of_server(guard: impl Any + Send + Sync, lost: impl Fn() -> bool + Send + Sync + 'static) -> Lease {
        Lease { _guard: Box::new(guard), lost: Some(Box::new(lost)) }
    }

    /// Whether it has ended although it was not dropped.
    pub fn is_lost(&self) -> bool {
        self.lost.as_ref().is_some_and(|lost| lost())
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
