//! What a process keeps between outputs: the live index of each file it extends, and the end of each subfile.
//!
//! An open finds it here instead of reading the file again, after checking that nobody else has touched the file.

use super::live_index::LiveIndex;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use thalweg_layout::{Layout, OpenWrite, Stat, WriterId};
use thalweg_types::Result;

/// Most live indexes that are kept: a code that writes one file per output would otherwise hold them all.
const MOST: usize = 32;

/// One file's state between outputs.
pub struct KeptFile {
    /// Where it is.
    pub layout: Arc<dyn Layout>,
    /// Under which name.
    pub path: String,
    /// Its index.
    pub index: LiveIndex,
    /// What the file was when this was kept.
    pub stat: Stat,
    /// Run id of the opening that began it.
    pub run: u64,
}

/// Everything a process keeps. One per session, shared by its outputs.
#[derive(Default)]
pub struct Kept {
    files: Mutex<Vec<KeptFile>>,
    ends: Mutex<HashMap<String, u64>>,
}

impl Kept {
    /// Nothing yet.
    pub fn new() -> Kept {
        Kept::default()
    }

    /// Takes the state of a file out, if it is there and the file is still what it was.
    pub fn take(&self, layout: &Arc<dyn Layout>, path: &str) -> Option<KeptFile> {
        let kept = {
            let mut files = self.files.lock().unwrap_or_else(PoisonError::into_inner);
            let place = files.iter().position(|f| f.path == path && f.layout.describe() == layout.describe())?;
            files.remove(place)
        };
        let now = layout.stat(path).ok()?;
        (now == kept.stat).then_some(kept)
    }

    /// Forgets a file: it was replaced.
    pub fn forget(&self, layout: &Arc<dyn Layout>, path: &str) {
        let mut files = self.files.lock().unwrap_or_else(PoisonError::into_inner);
        files.retain(|f| f.path != path || f.layout.describe() != layout.describe());
    }

    /// Keeps the state of a file. Where too many are kept, the oldest is closed for good.
    ///
    /// # Errors
    /// That of closing the oldest.
    pub fn keep(&self, layout: &Arc<dyn Layout>, path: &str, index: LiveIndex, run: u64) -> Result<()> {
        let stat = layout.stat(path)?;
        let oldest = {
            let mut files = self.files.lock().unwrap_or_else(PoisonError::into_inner);
            files.push(KeptFile { layout: layout.clone(), path: path.to_string(), index, stat, run });
            (files.len() > MOST).then(|| files.remove(0))
        };
        oldest.map_or(Ok(()), finish)
    }

    /// Closes all files for good. All are tried; the first failure is returned.
    pub fn finish(&self) -> Result<()> {
        let files = std::mem::take(&mut *self.files.lock().unwrap_or_else(PoisonError::into_inner));
        self.ends.lock().unwrap_or_else(PoisonError::into_inner).clear();
        files.into_iter().map(finish).fold(Ok(()), Result::and)
    }

    /// The end of a subfile this process wrote last.
    pub fn end_of(&self, path: &str) -> Option<u64> {
        self.ends.lock().unwrap_or_else(PoisonError::into_inner).get(path).copied()
    }

    /// Remembers it, or forgets it.
    pub fn set_end(&self, path: &str, end: Option<u64>) {
        let mut ends = self.ends.lock().unwrap_or_else(PoisonError::into_inner);
        match end {
            Some(end) => ends.insert(path.to_string(), end),
            None => ends.remove(path),
        };
    }
}

/// Closes one file for good, unless somebody else has touched it.
fn finish(mut kept: KeptFile) -> Result<()> {
    match kept.layout.stat(&kept.path) {
        Ok(now) if now == kept.stat => {
            let object = kept.layout.open_write(&kept.path, OpenWrite::Existing, WriterId(0))?;
            kept.index.finish(&*object)
        }
        _ => Ok(()),
    }
}
