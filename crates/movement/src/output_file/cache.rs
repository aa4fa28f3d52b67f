//! The cache of a process between outputs: the live index of each file that it extends, and the end of each subfile.
//!
//! An open uses the cached index instead of reading the file again, if no other process has changed the file. A file is open for
//! one output at a time, because two would write to the same offsets.
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
    /// `None` after a failure: it is loaded again when needed.
    index: Option<LiveIndex>,
    subfiles: bool,
    sync: bool,
    /// The file's attributes when it was cached; `None` if they could not be read: the index is then read again.
    stat: Option<Stat>,
    run: u64,
}

impl CachedFile {
    fn is(&self, layout: &Arc<dyn Layout>, path: &str) -> bool {
        self.path == path && self.layout.describe() == layout.describe()
    }
}

/// The cached index of a file.
pub struct CachedIndex {
    /// The index.
    pub index: LiveIndex,
    /// Run id of the open that created the file.
    pub run: u64,
}

/// Identifies a file, and how it is closed for good.
#[derive(Clone, Copy)]
pub struct File<'f> {
    /// Its layout.
    pub layout: &'f Arc<dyn Layout>,
    /// Its name.
    pub path: &'f str,
    /// It contains the index alone.
    pub subfiles: bool,
    /// It must be durable.
    pub sync: bool,
}

/// State that a process keeps. One per session, shared by its outputs.
#[derive(Default)]
pub struct Cache {
    files: Mutex<Vec<CachedFile>>,
    ends: Mutex<HashMap<String, End>>,
    in_use: Arc<Mutex<HashSet<String>>>,
    /// The number of steps that outputs of this process have closed, by name of the file, for cached and other files.
    closed: Mutex<HashMap<String, ClosedSteps>>,
    memories: Memories,
    events: Events,
    /// Leases between outputs, by name of the file.
    leases: Mutex<HashMap<String, Lease>>,
    /// The file that a group created last, if nothing was added to it since.
    begun: Mutex<HashMap<String, String>>,
    /// The failure to close an evicted file for good; returned by [`Cache::finish`].
    failed: Mutex<Option<Error>>,
}

/// Known facts about the end of a subfile.
#[derive(Default, Clone, Copy)]
struct End {
    /// Its end, unless an output failed or is open.
    exact: Option<u64>,
    /// Least number of bytes of closed steps.
    least: u64,
    /// Whether an output of this process has closed it: its last closed process group then has the file's run id in this process.
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
    /// An empty cache.
    pub fn new() -> Cache {
        Cache::default()
    }

    /// Marks a file as open for an output.
    ///
    /// # Errors
    /// `InvalidArgument` if it is open already.
    pub fn begin(&self, layout: &Arc<dyn Layout>, path: &str) -> Result<InUse> {
        let name = name_of(layout, path);
        if self.in_use.lock().insert(name.clone()) {
            return Ok(InUse { name, of: self.in_use.clone() });
        }
        Err(Error::new(ErrorKind::InvalidArgument, "this file is open for another output; close that output first"))
    }

    /// Checks that a file that is cached has its payloads where a method adds them.
    ///
    /// # Errors
    /// As [`LiveIndex::check_arrangement`].
    pub fn check_arrangement(&self, layout: &Arc<dyn Layout>, path: &str, subfiles: bool) -> Result<()> {
        let files = self.files.lock();
        let known = files.iter().find(|f| f.is(layout, path)).and_then(|f| f.index.as_ref());
        known.map_or(Ok(()), |index| index.check_arrangement(subfiles))
    }

    /// Takes the state of a file out of the cache, if it is cached and the file has not changed.
    pub fn take(&self, layout: &Arc<dyn Layout>, path: &str) -> Option<CachedIndex> {
        let kept = {
            let mut files = self.files.lock();
            let place = files.iter().position(|f| f.is(layout, path))?;
            files.remove(place)
        };
        // On a far store the file is compared when it is open, see [`LiveIndex::is_last_in`].
        let same = is_far(layout, path) || (kept.stat.is_some() && layout.stat(path).ok() == kept.stat);
        if !same {
            // Another process replaced the file, or it was removed.
            self.leases.lock().remove(&name_of(layout, path));
        }
        let run = kept.run;
        kept.index.filter(|_| same).map(|index| CachedIndex { index, run })
    }

    /// Takes a lease on a file that this process extends, until the file is closed for good; one per file, if the store has leases.
    ///
    /// # Errors
    /// Errors of the lease; without it other processes would take this one for dead.
    pub fn take_lease(&self, layout: &Arc<dyn Layout>, path: &str, object: &dyn WriteObject) -> Result<()> {
        let mut leases = self.leases.lock();
        let name = name_of(layout, path);
        if leases.get(&name).is_none_or(Lease::is_lost)
            && let Some(lease) = object.lease()?
        {
            leases.insert(name, lease);
        }
        Ok(())
    }

    /// Records that a group creates a file. Returns whether the group creates a file for each output: its last file was another
    /// one, to which nothing was added; that file is closed for good now. A file with a single output is not leased beyond the
    /// output, because the lease would keep its space allocated if the program removes it.
    pub fn begins(&self, group: &str, layout: &Arc<dyn Layout>, path: &str) -> bool {
        let before = self.begun.lock().insert(group.to_string(), path.to_string());
        let Some(before) = before else { return false };
        if before == path {
            // Replaced by another file of the same name.
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
        self.leases.lock().remove(&name_of(layout, &before));
        self.closed.lock().remove(&name_of(layout, &before));
        true
    }

    /// Records that a group adds to a file.
    pub fn goes_on(&self, group: &str) {
        self.begun.lock().remove(group);
    }

    /// Forgets a file that was replaced.
    pub fn forget(&self, layout: &Arc<dyn Layout>, path: &str) {
        self.files.lock().retain(|f| !f.is(layout, path));
        self.leases.lock().remove(&name_of(layout, path));
        self.closed.lock().remove(&name_of(layout, path));
    }

    /// The number of steps of a file that outputs of this process have closed.
    pub fn closed_steps(&self, layout: &Arc<dyn Layout>, path: &str) -> ClosedSteps {
        self.closed.lock().get(&name_of(layout, path)).copied().unwrap_or_default()
    }

    /// Sets them.
    pub fn set_closed_steps(&self, layout: &Arc<dyn Layout>, path: &str, closed: ClosedSteps) {
        self.closed.lock().insert(name_of(layout, path), closed);
    }

    /// Caches the state of a file; without an index if it is in doubt after a failure, so that it is loaded again. If too many
    /// are cached, the oldest file is closed for good.
    pub fn keep(&self, file: File<'_>, index: Option<LiveIndex>, run: u64) {
        let far = is_far(file.layout, file.path);
        let stat = if far { None } else { caught("read the file's attributes", || file.layout.stat(file.path)).ok() };
        // The file's present attributes are unknown: it is read again.
        let index = index.filter(|_| far || stat.is_some());
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
            self.leases.lock().remove(&name);
        }
    }

    /// The state that methods keep under this type.
    pub fn of<M: Memory>(&self) -> Remembered<M> {
        self.memories.of()
    }

    /// Closes all files for good, and waits for writes that methods left in flight, each for a bounded time. All are tried.
    ///
    /// # Errors
    /// The first failure to close a file, including an evicted one; `Timeout` of [`Memory::end`].
    pub fn finish(&self) -> Result<()> {
        self.end(true)
    }

    /// As [`Cache::finish`], without the mark that no step will follow: for a program that ends without closing its files.
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
        self.leases.lock().clear();
        outcome.and(self.memories.end())
    }

    /// Waits, for a bounded time, until writes that methods left in flight to a file have ended.
    ///
    /// # Errors
    /// `Timeout` if they have not ended.
    pub fn settle(&self, file: &str) -> Result<()> {
        self.memories.settle(file)
    }

    /// A method adds to a file of which others may know the end: they know it no longer. Returns whether writes of any rank may be in
    /// flight to it; the same on all ranks.
    pub fn forget_ends(&self, file: &str) -> bool {
        self.memories.forget(file)
    }

    /// Events between the program's writes, for subscribed methods.
    pub fn events(&self) -> &Events {
        &self.events
    }

    /// The end of a subfile that this process wrote last.
    pub fn end_of(&self, path: &str) -> Option<u64> {
        self.ends.lock().get(path)?.exact
    }

    /// Records it; `None` if the next output must find it.
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

    /// Steps were dropped: the last closed process group of a subfile may have another run id.
    pub fn is_not_own(&self, path: &str) {
        if let Some(known) = self.ends.lock().get_mut(path) {
            known.own = false;
        }
    }

    /// The least length of a subfile.
    pub fn least(&self, path: &str) -> u64 {
        self.ends.lock().get(path).map_or(0, |known| known.least)
    }

    /// Records that closed steps of a subfile extend at least to byte `end`.
    pub fn set_least(&self, path: &str, end: u64) {
        self.ends.lock().entry(path.to_string()).or_default().least = end;
    }

    /// Checks that a subfile that ends at `end` contains all steps that this process knows to be closed.
    ///
    /// # Errors
    /// `Torn` if it was truncated.
    pub fn is_longer(&self, path: &str, end: u64) -> Result<()> {
        let least = self.ends.lock().get(path).map_or(0, |known| known.least);
        if end >= least {
            return Ok(());
        }
        let what = format!("the subfile was cut under this process: closed steps reached to byte {least}");
        Err(Error::new(ErrorKind::Torn, what).at_byte(end).safe("nothing was changed"))
    }
}

/// Whether each look at the file is a request to another machine: the file is then compared with what is cached when it is open, not
/// before.
fn is_far(layout: &Arc<dyn Layout>, path: &str) -> bool {
    layout.request_cost(path) > 0
}

/// Closes a file for good, unless another process has changed it. `marked`: with the mark that no step will follow.
fn finish(kept: CachedFile, marked: bool) -> Result<()> {
    let far = is_far(&kept.layout, &kept.path);
    let (layout, path) = (kept.layout.clone(), kept.path.clone());
    if !far {
        match (kept.layout.stat(&kept.path), &kept.stat) {
            (Ok(now), Some(then)) if now != *then => return Ok(()),
            (Ok(_), _) => {}
            // The program may have renamed it.
            (Err(e), _) if e.kind() == ErrorKind::NotFound => return Ok(()),
            (Err(e), _) => return Err(e.in_object(kept.path)),
        }
    }
    let close = || {
        let object = match kept.layout.open_write(&kept.path, OpenWrite::Existing, WriterId(0)) {
            Err(e) if far && e.kind() == ErrorKind::NotFound => return Ok(()),
            object => object?,
        };
        if far {
            object.will_write()?;
            if let Some(index) = &kept.index
                && !(index.is_last_in(&*object)? && index.is_in(&*object)?)
            {
                return object.close();
            }
        }
        let mut index = match kept.index {
            Some(index) => index,
            None => match LiveIndex::load(&*object, kept.subfiles) {
                Ok(index) => index,
                // No output of this file was ever closed, and failed ones have reported their failure.
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
    close().map_err(|e: Error| e.in_object(path.clone()))?;
    if far
        && let Err(e) = layout.write_synopsis(&path)
        // The program may have renamed it.
        && e.kind() != ErrorKind::NotFound
    {
        // The file is whole.
        tracing::warn!(file = path, error = %e, "readers will open the file with more requests: its synopsis was not written");
    }
    Ok(())
}
