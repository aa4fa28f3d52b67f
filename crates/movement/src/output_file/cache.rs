//! The cache of a process between outputs: the live index of each file that it extends, and the end of each subfile.
//!
//! An open uses the cached index instead of reading the file again, if no other process has changed the file. A file is
//! open for one output at a time: two would write to the same place.
//!
//! Between outputs the process keeps a lease on the file ([`WriteObject::lease`]), so that followers know that more steps may come.

use super::memory::{Memories, Memory, Remembered};
use crate::events::Events;
use crate::output_file::live_index::{ClosedSteps, LiveIndex};
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use thalweg_comm::guarded::caught;
use thalweg_layout::{Layout, Lease, OpenWrite, Stat, WriteObject, WriterId};
use thalweg_types::mutex::Mutex;
use thalweg_types::{Error, ErrorKind, Result};

/// Largest number of cached indexes: a program that writes one file per output would otherwise cache all of them.
const MOST: usize = 32;

/// One file's state between outputs.
struct CachedFile {
    layout: Arc<dyn Layout>,
    path: String,
    /// `None` after a failure: it is loaded again when it is needed.
    index: Option<LiveIndex>,
    subfiles: bool,
    sync: bool,
    /// What the file was when this was kept; `None` where that could not be told: it is read again.
    stat: Option<Stat>,
    run: u64,
}

impl CachedFile {
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
pub struct Cache {
    files: Mutex<Vec<CachedFile>>,
    ends: Mutex<HashMap<String, End>>,
    in_use: Arc<Mutex<HashSet<String>>>,
    /// The steps that outputs of this process have closed, by name of the file: files whose state is kept, and others.
    closed: Mutex<HashMap<String, ClosedSteps>>,
    memories: Memories,
    events: Events,
    /// Leases between outputs, by name of the file.
    holds: Mutex<HashMap<String, Lease>>,
    /// The file that a group began last, if nothing was added to it since.
    begun: Mutex<HashMap<String, String>>,
    /// Why a file that was evicted could not be closed for good; returned by [`Cache::finish`].
    failed: Mutex<Option<Error>>,
}

/// What is known of the end of a subfile.
#[derive(Default, Clone, Copy)]
struct End {
    /// Where it ends, unless an output failed or is open.
    exact: Option<u64>,
    /// Bytes of closed steps at least.
    least: u64,
    /// An output of this process has closed it: its last closed process group is of the file's run in this process.
    own: bool,
}

/// A file that is open for an output, until this is dropped.
pub struct InUse {
    name: String,
    of: Arc<Mutex<HashSet<String>>>,
}

impl Drop for InUse {
    fn drop(&mut self) {
        self.of.lock().remove(&self.name);
    }
}

pub(crate) fn name_of(layout: &Arc<dyn Layout>, path: &str) -> String {
    format!("{}\0{path}", layout.describe())
}

impl Cache {
    /// Nothing yet.
    pub fn new() -> Cache {
        Cache::default()
    }

    /// Marks a file as open for an output.
    ///
    /// # Errors
    /// `InvalidArgument` where it is open already.
    pub fn begin(&self, layout: &Arc<dyn Layout>, path: &str) -> Result<InUse> {
        let name = name_of(layout, path);
        if self.in_use.lock().insert(name.clone()) {
            return Ok(InUse { name, of: self.in_use.clone() });
        }
        Err(Error::new(ErrorKind::InvalidArgument, "this file is open for another output; close that output first"))
    }

    /// Takes the state of a file out, if it is there and the file is still what it was.
    pub fn take(&self, layout: &Arc<dyn Layout>, path: &str) -> Option<Known> {
        let kept = {
            let mut files = self.files.lock();
            let place = files.iter().position(|f| f.is(layout, path))?;
            files.remove(place)
        };
        let same = kept.stat.is_some() && layout.stat(path).ok() == kept.stat;
        if !same {
            // Somebody else's file by now, or none.
            self.holds.lock().remove(&name_of(layout, path));
        }
        let run = kept.run;
        kept.index.filter(|_| same).map(|index| Known { index, run })
    }

    /// Takes a lease on a file that this process extends, until the file is closed for good; one per file, if the store has leases.
    ///
    /// # Errors
    /// Those of the lease, without which other processes would take this one for dead.
    pub fn hold(&self, layout: &Arc<dyn Layout>, path: &str, object: &dyn WriteObject) -> Result<()> {
        let mut holds = self.holds.lock();
        let name = name_of(layout, path);
        if !holds.contains_key(&name)
            && let Some(lease) = object.lease()?
        {
            holds.insert(name, lease);
        }
        Ok(())
    }

    /// A group begins a new file. Returns whether it makes one for each output: it began another one last, and added nothing
    /// to it; that one is closed for good now. A file of a single output is not leased beyond the output, as this would keep
    /// the space of one that the program removes.
    pub fn begins(&self, group: &str, layout: &Arc<dyn Layout>, path: &str) -> bool {
        let before = self.begun.lock().insert(group.to_string(), path.to_string());
        let Some(before) = before else { return false };
        if before == path {
            // Replaced by another of the same name.
            return true;
        }
        if self.in_use.lock().contains(&name_of(layout, &before)) {
            // Two methods of one output.
            return false;
        }
        let kept = {
            let mut files = self.files.lock();
            files.iter().position(|f| f.is(layout, &before)).map(|place| files.remove(place))
        };
        if let Some(Err(e)) = kept.map(|file| caught("close a file for good", || finish(file, true))) {
            self.failed.lock().get_or_insert(e);
        }
        self.holds.lock().remove(&name_of(layout, &before));
        self.closed.lock().remove(&name_of(layout, &before));
        true
    }

    /// A group adds to a file.
    pub fn goes_on(&self, group: &str) {
        self.begun.lock().remove(group);
    }

    /// Forgets a file: it was replaced.
    pub fn forget(&self, layout: &Arc<dyn Layout>, path: &str) {
        self.files.lock().retain(|f| !f.is(layout, path));
        self.holds.lock().remove(&name_of(layout, path));
        self.closed.lock().remove(&name_of(layout, path));
    }

    /// The steps of a file that outputs of this process have closed.
    pub fn closed_steps(&self, layout: &Arc<dyn Layout>, path: &str) -> ClosedSteps {
        self.closed.lock().get(&name_of(layout, path)).copied().unwrap_or_default()
    }

    /// Sets them.
    pub fn set_closed_steps(&self, layout: &Arc<dyn Layout>, path: &str, closed: ClosedSteps) {
        self.closed.lock().insert(name_of(layout, path), closed);
    }

    /// Keeps the state of a file; without an index where it is in doubt after a failure, to be loaded again. Where too
    /// many are kept, the oldest is closed for good.
    pub fn keep(&self, file: File<'_>, index: Option<LiveIndex>, run: u64) {
        let stat = caught("read the file's attributes", || file.layout.stat(file.path)).ok();
        // What the file is now is not known: it is read again.
        let index = index.filter(|_| stat.is_some());
        let oldest = {
            let mut files = self.files.lock();
            files.retain(|f| !f.is(file.layout, file.path));
            files.push(CachedFile {
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
            if let Err(e) = caught("close a file for good", || finish(oldest, true)) {
                self.failed.lock().get_or_insert(e);
            }
            self.holds.lock().remove(&name);
        }
    }

    /// What methods remember under this type.
    pub fn of<M: Memory>(&self) -> Remembered<M> {
        self.memories.of()
    }

    /// Closes all files for good, and waits for what methods left under way, as long as each allows. All are tried; the first failure is returned.
    ///
    /// # Errors
    /// The first failure of closing a file, of one that was closed before as too many were kept included; `Timeout` of [`Memory::end`].
    pub fn finish(&self) -> Result<()> {
        self.end(true)
    }

    /// As [`Cache::finish`], without the mark that no step will come: for a program that ends without having closed its files.
    ///
    /// # Errors
    /// As [`Cache::finish`].
    pub fn leave(&self) -> Result<()> {
        self.end(false)
    }

    fn end(&self, marked: bool) -> Result<()> {
        let files = std::mem::take(&mut *self.files.lock());
        self.ends.lock().clear();
        self.closed.lock().clear();
        let before = self.failed.lock().take().map_or(Ok(()), Err);
        let finish = |kept| caught("close a file for good", || finish(kept, marked));
        let outcome = files.into_iter().map(finish).fold(before, Result::and);
        // After the files were closed: a follower that finds no lease must find the end mark.
        self.holds.lock().clear();
        outcome.and(self.memories.end())
    }

    /// Waits until what methods left under way to a file has ended; for a bounded time.
    ///
    /// # Errors
    /// `Timeout`: it has not ended.
    pub fn settle(&self, file: &str) -> Result<()> {
        self.memories.settle(file)
    }

    /// What the program says between its writes, for whoever listens.
    pub fn events(&self) -> &Events {
        &self.events
    }

    /// The end of a subfile this process wrote last.
    pub fn end_of(&self, path: &str) -> Option<u64> {
        self.ends.lock().get(path)?.exact
    }

    /// Remembers it; `None` where the next output is to look.
    pub fn set_end(&self, path: &str, end: Option<u64>) {
        let mut ends = self.ends.lock();
        let known = ends.entry(path.to_string()).or_default();
        known.exact = end;
        known.least = end.unwrap_or(known.least);
        known.own |= end.is_some();
    }

    /// Whether the last closed process group of a subfile is of this process's run.
    pub fn is_own(&self, path: &str) -> bool {
        self.ends.lock().get(path).is_some_and(|known| known.own)
    }

    /// Steps were dropped: the last closed process group of a subfile may be of another run.
    pub fn is_not_own(&self, path: &str) {
        if let Some(known) = self.ends.lock().get_mut(path) {
            known.own = false;
        }
    }

    /// The length that a subfile has at least.
    pub fn least(&self, path: &str) -> u64 {
        self.ends.lock().get(path).map_or(0, |known| known.least)
    }

    /// Remembers that closed steps of a subfile end at byte `end` or behind it.
    pub fn set_least(&self, path: &str, end: u64) {
        self.ends.lock().entry(path.to_string()).or_default().least = end;
    }

    /// Whether a subfile that ends at `end` holds all that this process knows to be closed.
    ///
    /// # Errors
    /// `Torn` where somebody has cut it.
    pub fn is_longer(&self, path: &str, end: u64) -> Result<()> {
        let least = self.ends.lock().get(path).map_or(0, |known| known.least);
        if end >= least {
            return Ok(());
        }
        let what = format!("the subfile was cut under this process: closed steps reached to byte {least}");
        Err(Error::new(ErrorKind::Torn, what).at_byte(end).safe("nothing was changed"))
    }
}

/// Closes one file for good, unless somebody else has touched it. `marked`: with the mark that no step will come.
fn finish(kept: CachedFile, marked: bool) -> Result<()> {
    match (kept.layout.stat(&kept.path), &kept.stat) {
        (Ok(now), Some(then)) if now != *then => return Ok(()),
        (Ok(_), _) => {}
        // The program may have moved it.
        (Err(e), _) if e.kind() == ErrorKind::NotFound => return Ok(()),
        (Err(e), _) => return Err(e.in_object(kept.path)),
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
        if marked {
            index.finish(&*object, kept.sync)?
        } else {
            index.leave(&*object, kept.sync)?
        }
        object.close()
    };
    close().map_err(|e: Error| e.in_object(kept.path.clone()))
}
