//! The direct layout: a logical file is one object of one store, of the same name.
//!
//! | question | answer |
//! |----------|--------|
//! | needs    | `write_at`: ranks write their extents of one object |
//! | cost     | none: every call is the store's |
//! | writers  | all the same; the store sorts out concurrent writes to disjoint extents |
//! | promises | those of the store |

use crate::{Layout, OpenWrite, ReadObject, Stat, WriteObject, WriterId};
use std::sync::Arc;
use thalweg_store::Store;
use thalweg_types::{Error, ErrorKind, Result};

/// A logical file as one object. See the module's page.
pub struct Direct {
    store: Arc<dyn Store>,
}

impl Direct {
    /// Over a store that can write at any offset.
    ///
    /// # Errors
    /// `Config` names a store that cannot.
    pub fn new(store: Arc<dyn Store>) -> Result<Direct> {
        if !store.capability().write_at {
            let what = format!(
                "layout \"direct\" cannot lie on store {}: it needs write_at (writes at any offset), which the store lacks",
                store.describe()
            );
            return Err(Error::new(ErrorKind::Config, what));
        }
        Ok(Direct { store })
    }
}

impl Layout for Direct {
    fn describe(&self) -> String {
        format!("direct over {}", self.store.describe())
    }

    fn open_write(&self, path: &str, how: OpenWrite, _writer: WriterId) -> Result<Box<dyn WriteObject>> {
        self.store.open_write(path, how)
    }

    fn open_read(&self, path: &str) -> Result<Box<dyn ReadObject>> {
        self.store.open_read(path)
    }

    fn stat(&self, path: &str) -> Result<Stat> {
        self.store.stat(path)
    }

    fn list(&self, folder: &str) -> Result<Vec<String>> {
        self.store.list(folder)
    }

    fn rename(&self, from: &str, to: &str) -> Result<()> {
        self.store.rename(from, to)
    }

    fn remove(&self, path: &str) -> Result<()> {
        self.store.remove(path)
    }

    fn make_folder(&self, path: &str) -> Result<()> {
        self.store.make_folder(path)
    }

    fn sync_folder(&self, folder: &str) -> Result<()> {
        self.store.sync_folder(folder)
    }

    fn targets(&self, folder: &str) -> Result<Option<u32>> {
        self.store.targets(folder)
    }

    fn make_on_target(&self, path: &str, target: u32, stripe: u64) -> Result<bool> {
        self.store.make_on_target(path, target, stripe)
    }
}
