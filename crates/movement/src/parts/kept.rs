//! What a process keeps between outputs: the live index of each file it extends, the end of each subfile, and how large
//! outputs were.
//!
//! An open finds it here instead of reading the file again, after checking that nobody else has touched the file. A
//! file is open for one output at a time: two would write to the same place.
//!
//! Between outputs the file is held ([`WriteObject::hold`]), so that readers who follow it know that more may come.

use super::drains::{self, Drains};
use super::errands::Errands;
use super::live_index::LiveIndex;
use super::node_memory::Memories;
use super::nodes::Nodes;
use super::slot::Sizes;
use crate::events::Events;
use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use thalweg_layout::{Hold, Layout, OpenWrite, Stat, WriteObject, WriterId};
use thalweg_types::{Error, ErrorKind, Result};

/// Most live indexes that are kept: a code that writes one file per output would otherwise hold them all.
const MOST: usize = 32;

/// One file's state between outputs.
struct KeptFile {
    layout: Arc<dyn Layout>,
    path: String,
    /// `None` after a failure: it is loaded again when it is needed.
    index: Option<LiveIndex>,
    subfiles: bool,
    sync: bool,
    /// What the file was when this was kept.
    stat: Stat,
    run: u64,
}

impl KeptFile {
    fn is(&self, layout: &Arc<dyn Layout>, path: &str) -> bool {
        self.path == path && self.layout.describe() == layout.describe()
    }
}

/// What is kept of a file.
pub struct Known {
    /// Its index.
    pub index: LiveIndex,
    /// Run id of the opening that began it.
    pub run: u64,
}

/// Which file, and how it is to be closed for good.
#[derive(Clone, Copy)]
pub struct File<'f> {
    /// Where it is.
    pub layout: &'f Arc<dyn Layout>,
    /// Under which name.
    pub path: &'f str,
    /// It holds the index alone.
    pub subfiles: bool,
    /// It is to be durable.
    pub sync: bool,
}

/// Everything a process keeps. One per session, shared by its outputs.
#[derive(Default)]
pub struct Kept {
    files: Mutex<Vec<KeptFile>>,
    ends: Mutex<HashMap<String, u64>>,
    in_use: Arc<Mutex<HashSet<String>>>,
    sizes: Mutex<Sizes>,
    nodes: Mutex<Nodes>,
    memories: Mutex<Memories>,
    drains: Mutex<Drains>,
    events: Events,
    /// Files that are held between outputs, by name.
    holds: Mutex<HashMap<String, Hold>>,
    /// The file that a group began last, if nothing was added to it since.
    begun: Mutex<HashMap<String, String>>,
    /// Why a file that was kept too long could not be closed for good; told at the end.
    failed: Mutex<Option<Error>>,
    errands: Errands,
}

/// A file that is open for an output, until this is dropped.
pub struct InUse {
    name: String,
    of: Arc<Mutex<HashSet<String>>>,
}

impl Drop for InUse {
    fn drop(&mut self) {
        lock(&self.of).remove(&self.name);
    }
}

pub(crate) fn name_of(layout: &Arc<dyn Layout>, path: &str) -> String {
    format!("{}\0{path}", layout.describe())
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // What the mutexes hold stays consistent between statements.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Kept {
    /// Nothing yet.
    pub fn new() -> Kept {
        Kept::default()
    }

    /// Marks a file as open for an output.
    ///
    /// # Errors
    /// `InvalidArgument` where it is open already.
    pub fn begin(&self, layout: &Arc<dyn Layout>, path: &str) -> Result<InUse> {
        let name = name_of(layout, path);
        if lock(&self.in_use).insert(name.clone()) {
            return Ok(InUse { name, of: self.in_use.clone() });
        }
        Err(Error::new(ErrorKind::InvalidArgument, "this file is open for another output; close that one first"))
    }

    /// Takes the state of a file out, if it is there and the file is still what it was.
    pub fn take(&self, layout: &Arc<dyn Layout>, path: &str) -> Option<Known> {
        let kept = {
            let mut files = lock(&self.files);
            let place = files.iter().position(|f| f.is(layout, path))?;
            files.remove(place)
        };
        let same = layout.stat(path).is_ok_and(|now| now == kept.stat);
        if !same {
            // Somebody else's file by now, or none.
            lock(&self.holds).remove(&name_of(layout, path));
        }
        let run = kept.run;
        kept.index.filter(|_| same).map(|index| Known { index, run })
    }

    /// Holds a file that this process extends, until it is closed for good; once, where the store can.
    pub fn hold(&self, layout: &Arc<dyn Layout>, path: &str, object: &dyn WriteObject) {
        let mut holds = lock(&self.holds);
        let name = name_of(layout, path);
        if !holds.contains_key(&name)
            && let Some(hold) = object.hold()
        {
            holds.insert(name, hold);
        }
    }

    /// A group begins a new file. Returns whether it makes one for each output: it began another one last, and added nothing
    /// to it; that one is closed for good now. A file of a single output is not held, as this would keep the space of one
    /// that the program removes.
    pub fn begins(&self, group: &str, layout: &Arc<dyn Layout>, path: &str) -> bool {
        let before = lock(&self.begun).insert(group.to_string(), path.to_string());
        let Some(before) = before else { return false };
        if before == path {
            // Replaced by another of the same name.
            return true;
        }
        if lock(&self.in_use).contains(&name_of(layout, &before)) {
            // Two methods of one output.
            return false;
        }
        let kept = {
            let mut files = lock(&self.files);
            files.iter().position(|f| f.is(layout, &before)).map(|place| files.remove(place))
        };
        if let Some(Err(e)) = kept.map(|file| finish(file, true)) {
            lock(&self.failed).get_or_insert(e);
        }
        lock(&self.holds).remove(&name_of(layout, &before));
        true
    }

    /// A group adds to a file.
    pub fn goes_on(&self, group: &str) {
        lock(&self.begun).remove(group);
    }

    /// Forgets a file: it was replaced.
    pub fn forget(&self, layout: &Arc<dyn Layout>, path: &str) {
        lock(&self.files).retain(|f| !f.is(layout, path));
        lock(&self.holds).remove(&name_of(layout, path));
    }

    /// Keeps the state of a file; without an index where it is in doubt after a failure, to be loaded again. Where too
    /// many are kept, the oldest is closed for good.
    pub fn keep(&self, file: File<'_>, index: Option<LiveIndex>, run: u64) {
        // Without it the next open reads the file.
        let Ok(stat) = file.layout.stat(file.path) else { return };
        let oldest = {
            let mut files = lock(&self.files);
            files.retain(|f| !f.is(file.layout, file.path));
            files.push(KeptFile {
                layout: file.layout.clone(),
                path: file.path.to_string(),
                index,
                subfiles: file.subfiles,
                sync: file.sync,
                stat,
                run,
            });
            (files.len() > MOST).then(|| files.remove(0))
        };
        if let Some(oldest) = oldest {
            let name = name_of(&oldest.layout, &oldest.path);
            if let Err(e) = finish(oldest, true) {
                lock(&self.failed).get_or_insert(e);
            }
            lock(&self.holds).remove(&name);
        }
    }

    /// Errands that follow outputs.
    pub fn errands(&self) -> &Errands {
        &self.errands
    }

    /// Closes all files for good, and waits for errands as long as they may take, and for writes that were left to
    /// themselves. All are tried; the first failure is returned.
    pub fn finish(&self) -> Result<()> {
        self.end(true)
    }

    /// As [`Kept::finish`], without the mark that no step will come: for a program that ends without having closed its files.
    pub fn leave(&self) -> Result<()> {
        self.end(false)
    }

    fn end(&self, marked: bool) -> Result<()> {
        let files = std::mem::take(&mut *lock(&self.files));
        lock(&self.ends).clear();
        let before = lock(&self.failed).take().map_or(Ok(()), Err);
        let outcome = files.into_iter().map(|file| finish(file, marked)).fold(before, Result::and);
        // Only now: a follower that sees no hold must find the mark.
        lock(&self.holds).clear();
        self.errands.finish();
        outcome.and(self.wait_for_late(None))
    }

    /// What adaptive writing keeps.
    pub fn drains(&self) -> MutexGuard<'_, Drains> {
        lock(&self.drains)
    }

    /// Waits until writes to a file, or all, that were left to themselves have ended; for a bounded time.
    pub fn wait_for_late(&self, file: Option<&str>) -> Result<()> {
        drains::wait(file, |with| with(&mut lock(&self.drains)))
    }

    /// What the last output of each group was like.
    pub fn sizes(&self) -> MutexGuard<'_, Sizes> {
        lock(&self.sizes)
    }

    /// Memory that is shared with ranks of the node, where no output uses it.
    pub fn memories(&self) -> MutexGuard<'_, Memories> {
        lock(&self.memories)
    }

    /// Which ranks are on which node.
    pub fn nodes(&self) -> MutexGuard<'_, Nodes> {
        lock(&self.nodes)
    }

    /// What the program says between its writes, for whoever listens.
    pub fn events(&self) -> &Events {
        &self.events
    }

    /// The end of a subfile this process wrote last.
    pub fn end_of(&self, path: &str) -> Option<u64> {
        lock(&self.ends).get(path).copied()
    }

    /// Remembers it, or forgets it.
    pub fn set_end(&self, path: &str, end: Option<u64>) {
        let mut ends = lock(&self.ends);
        match end {
            Some(end) => ends.insert(path.to_string(), end),
            None => ends.remove(path),
        };
    }
}

/// Closes one file for good, unless somebody else has touched it. `marked`: with the mark that no step will come.
fn finish(kept: KeptFile, marked: bool) -> Result<()> {
    if kept.layout.stat(&kept.path).ok().as_ref() != Some(&kept.stat) {
        return Ok(());
    }
    let close = || {
        let object = kept.layout.open_write(&kept.path, OpenWrite::Existing, WriterId(0))?;
        let mut index = match kept.index {
            Some(index) => index,
            None => match LiveIndex::load(&*object, kept.subfiles) {
                Ok(index) => index,
                // No output of this file was ever closed, and those that failed have said so.
                Err(e) if e.kind() == ErrorKind::Torn => return Ok(()),
                Err(e) => return Err(e),
            },
        };
        if marked { index.finish(&*object, kept.sync) } else { index.leave(&*object, kept.sync) }
    };
    close().map_err(|e: Error| e.in_object(kept.path.clone()))
}
