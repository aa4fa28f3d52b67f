//! Calls of the layout below: on a file that is open there, and what becomes of a panic.

use crate::WriteObject;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use thalweg_types::mutex::RwLock;
use thalweg_types::{Error, ErrorKind, Result};

/// A file that is open below.
pub(super) struct Opened(RwLock<Option<Box<dyn WriteObject>>>);

impl Opened {
    pub(super) fn new(object: Box<dyn WriteObject>) -> Arc<Opened> {
        Arc::new(Opened(RwLock::new(Some(object))))
    }

    pub(super) fn ask<T>(&self, what: impl FnOnce(&dyn WriteObject) -> Result<T>) -> Result<T> {
        let object = self.0.read();
        let object = object.as_ref().ok_or_else(closed)?;
        caught(|| what(&**object))
    }

    pub(super) fn close(&self) -> Result<()> {
        let object = self.0.write().take();
        caught(|| object.map_or(Ok(()), |object| object.close()))
    }
}

pub(super) fn closed() -> Error {
    Error::new(ErrorKind::InvalidArgument, "the file is closed")
}

/// A panic below is a failure: the thread that makes the calls goes on.
pub(super) fn caught<T>(call: impl FnOnce() -> Result<T>) -> Result<T> {
    let panicked = |_| Err(Error::new(ErrorKind::Io, "a call of the layout below panicked"));
    catch_unwind(AssertUnwindSafe(call)).unwrap_or_else(panicked)
}
