//! The one table of layouts: a name and parameters become a layout over stores.

use std::sync::Arc;
use thalweg_layout::{Direct, Layout};
use thalweg_movement::method::{Parameter, Parameters};
use thalweg_store::Store;
use thalweg_types::{Error, ErrorKind, Result};

/// A kind of layout.
pub struct LayoutKind {
    /// As the mount table names it.
    pub name: &'static str,
    /// What it does with files, in a few words.
    pub about: &'static str,
    /// Parameters it knows.
    pub parameters: &'static [Parameter],
    /// Over how many stores it lies at most.
    pub most_stores: usize,
    /// Makes it, parameters checked; refuses stores that lack what it needs.
    pub make: fn(&[Arc<dyn Store>], &Parameters) -> Result<Arc<dyn Layout>>,
}

/// Every kind.
pub const LAYOUTS: &[LayoutKind] = &[LayoutKind {
    name: "direct",
    about: "a file is one object of one store",
    parameters: &[],
    most_stores: 1,
    make: |stores, _| Ok(Arc::new(Direct::new(one(stores)?)?)),
}];

/// The layout of this name, in any letter case.
pub fn find(name: &str) -> Option<&'static LayoutKind> {
    LAYOUTS.iter().find(|kind| kind.name.eq_ignore_ascii_case(name))
}

fn one(stores: &[Arc<dyn Store>]) -> Result<Arc<dyn Store>> {
    stores.first().cloned().ok_or_else(|| Error::new(ErrorKind::Config, "a layout needs a store"))
}
