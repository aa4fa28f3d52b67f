//! A folder for one test, removed when it is dropped.

use std::path::{Path, PathBuf};

/// An empty folder of its own, removed with all it holds when dropped.
#[derive(Debug)]
pub struct Scratch(tempfile::TempDir);

impl Scratch {
    /// A new folder below the system's temporary folder (`TMPDIR`).
    pub fn new() -> Scratch {
        Scratch(tempfile::Builder::new().prefix("thalweg-").tempdir().expect("cannot make a temporary folder"))
    }

    /// The folder.
    pub fn path(&self) -> &Path {
        self.0.path()
    }

    /// A path inside the folder.
    pub fn join(&self, name: impl AsRef<Path>) -> PathBuf {
        self.0.path().join(name)
    }
}

impl Default for Scratch {
    fn default() -> Scratch {
        Scratch::new()
    }
}
