//! The direct layout: a logical file is one object of one store, of the same name.
//!
//! | question | answer |
//! |----------|--------|
//! | needs    | `write_at`: ranks write their extents of one object |
//! | cost     | none: every call is the store's |
//! | writers  | not distinguished; the store handles concurrent writes to disjoint extents |
//! | promises | those of the store |

use crate::{
    Attributes, Change, Layout, OpenWrite, OtherNodes, ReadObject, SetXattr, Space, Stat, WriteObject, WriterId,
};
use std::path::PathBuf;
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

    /// Over any store, for reading files that lie in it as they are. A write that the store cannot carry out is refused by the store.
    pub fn of_whole_files(store: Arc<dyn Store>) -> Direct {
        Direct { store }
    }
}

impl Layout for Direct {
    fn describe(&self) -> String {
        format!("direct over {}", self.store.describe())
    }

    fn url(&self, path: &str) -> Option<String> {
        self.store.url(path)
    }

    fn request_cost(&self, _path: &str) -> u64 {
        self.store.request_cost()
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

    fn make_new_folder(&self, path: &str) -> Result<bool> {
        self.store.make_new_folder(path)
    }

    fn sync_folder(&self, folder: &str) -> Result<()> {
        self.store.sync_folder(folder)
    }

    fn make_one_folder(&self, path: &str, mode: u32) -> Result<()> {
        self.store.make_one_folder(path, mode)
    }

    fn attributes(&self, path: &str) -> Result<Attributes> {
        self.store.attributes(path)
    }

    fn set_attributes(&self, path: &str, change: &Change) -> Result<()> {
        self.store.set_attributes(path, change)
    }

    fn truncate(&self, path: &str, length: u64) -> Result<()> {
        let object = self.store.open_write(path, OpenWrite::Existing)?;
        object.truncate(length)?;
        object.close()
    }

    fn make_link(&self, target: &str, path: &str) -> Result<()> {
        self.store.make_link(target, path)
    }

    fn read_link(&self, path: &str) -> Result<String> {
        self.store.read_link(path)
    }

    fn make_hard_link(&self, from: &str, to: &str) -> Result<()> {
        self.store.make_hard_link(from, to)
    }

    fn xattr_get(&self, path: &str, key: &str) -> Result<Option<Vec<u8>>> {
        self.store.xattr(path, key)
    }

    fn xattr_set(&self, path: &str, key: &str, value: &[u8], how: SetXattr) -> Result<()> {
        self.store.set_xattr(path, key, value, how)
    }

    fn xattr_list(&self, path: &str) -> Result<Vec<String>> {
        self.store.list_xattrs(path)
    }

    fn xattr_remove(&self, path: &str, key: &str) -> Result<()> {
        self.store.remove_xattr(path, key)
    }

    fn space(&self, path: &str) -> Result<Space> {
        self.store.space(path)
    }

    fn plain_file(&self, path: &str) -> Option<PathBuf> {
        self.store.plain_file(path)
    }

    fn other_nodes(&self, _path: &str) -> OtherNodes {
        OtherNodes::of_objects(&*self.store)
    }

    fn targets(&self, folder: &str) -> Result<Option<u32>> {
        self.store.targets(folder)
    }

    fn make_on_target(&self, path: &str, target: u32, stripe: u64) -> Result<bool> {
        self.store.make_on_target(path, target, stripe)
    }
}
