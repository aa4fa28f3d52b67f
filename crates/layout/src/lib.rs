//! Layouts: how a logical file lies on stores.
//!
//! | room | what it owns |
//! |------|--------------|
//! | [`direct`] | a logical file is one object of one store |
#![forbid(unsafe_code)]

use std::io::IoSlice;
use thalweg_types::Result;

pub mod direct;

pub use direct::Direct;
pub use thalweg_store::{Hold, Life, OpenWrite, ReadObject, Stat, WriteObject};

/// Who writes, where a layout keeps writers apart: a number unique among the writers of one logical file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct WriterId(pub u32);

/// Logical files below a mount point. Paths are relative to it, parts separated by `/`.
///
/// `direct` passes every call on; other layouts make one logical file out of many objects.
pub trait Layout: Send + Sync {
    /// For messages: `direct over posix:/scratch/run7`.
    fn describe(&self) -> String;
    /// Opens a logical file for writing.
    fn open_write(&self, path: &str, how: OpenWrite, writer: WriterId) -> Result<Box<dyn WriteObject>>;
    /// Opens a logical file for reading.
    fn open_read(&self, path: &str) -> Result<Box<dyn ReadObject>>;
    /// What is known about a logical file or folder.
    fn stat(&self, path: &str) -> Result<Stat>;
    /// Names directly inside a folder, sorted.
    fn list(&self, folder: &str) -> Result<Vec<String>>;
    /// Moves a logical file, replacing one at `to`.
    fn rename(&self, from: &str, to: &str) -> Result<()>;
    /// Removes a logical file or an empty folder.
    fn remove(&self, path: &str) -> Result<()>;
    /// Makes a folder and those above it.
    fn make_folder(&self, path: &str) -> Result<()>;
    /// Makes the names inside a folder durable.
    fn sync_folder(&self, folder: &str) -> Result<()>;
    /// How many storage targets the bytes of files in a folder are spread over; `None` where that is not known.
    fn targets(&self, folder: &str) -> Result<Option<u32>> {
        let _ = folder;
        Ok(None)
    }
    /// Makes an empty file, in place of one that is there, whose bytes will all lie on one storage target (from 0).
    /// `false`, and nothing done, where the layout knows of no targets.
    ///
    /// - `stripe`: bytes of a stripe, as the filesystem wants to know it; rounded up to what it takes.
    fn make_on_target(&self, name: &str, target: u32, stripe: u64) -> Result<bool> {
        let _ = (name, target, stripe);
        Ok(false)
    }
}

/// Writes one slice: what most callers of [`WriteObject::write_at`] want.
pub fn write_all_at(object: &dyn WriteObject, offset: u64, bytes: &[u8]) -> Result<()> {
    object.write_at(offset, &[IoSlice::new(bytes)])
}
