//! Following: the steps of a file that a running writer extends, one after the other.
//!
//! | question | answer |
//! |---|---|
//! | when a step appears | once its index entries are complete and their checksum is right; an output in flight is not visible |
//! | cost of a step | reading its step record, or a full index if the writer wrote one: see [`Reader::catch_up`]. Polling an unchanged file: its length twice, and two short reads |
//! | when following ends | at the mark that `finalize` sets, if no process holds a lease; files of other libraries: at once |
//! | the writer | the process that holds a lease of the file ([`thalweg_layout::WriteObject::lease`]), from its first output to the end of the file, between outputs too. The system drops the lease of a process that dies |
//! | when the writer is dead | at two polls 100 ms apart no process holds a lease, the file has no mark, and nothing new came in between |
//! | stores without leases | remote filesystems, unless a lease was seen there before: the writer is dead when the file has not changed for [`Follower::set_patience`], by default 10 minutes |
//! If the file is truncated (steps are dropped), created again, removed or replaced, the next poll fails with `NotFound`, even if
//! known steps were not returned yet: their bytes may have been overwritten.

use crate::object::{self, Object};
use crate::{Digits, Reader, Reads};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};
use thalweg_bp::growth;
use thalweg_bp::source::Source;
use thalweg_layout::Layout;
use thalweg_types::{Error, ErrorKind, Result};

/// Time between the two polls that find no lease.
const TWO_LOOKS: Duration = Duration::from_millis(100);
/// Number of bytes that are searched backwards for the last end, in a file that is opened while it is written.
const SHORT: u64 = 64 << 20;

/// How to wait for a writer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Wait {
    /// Timeout; `None`: until the writer dies. Zero: poll once.
    pub timeout: Option<Duration>,
    /// Time between two polls.
    pub poll: Duration,
}

impl Default for Wait {
    /// No timeout, polling every 50 ms.
    fn default() -> Wait {
        Wait { timeout: None, poll: Duration::from_millis(50) }
    }
}

/// The outcome of a wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Next {
    /// This step is the current one now.
    Step(u64),
    /// Nothing new within the timeout; the writer is still there.
    NotYet,
    /// No step will come: the file was closed for good.
    End,
    /// No step will come: the writer died without closing the file for good. The steps that were closed stay readable.
    WriterDied,
}

/// A file being followed. See the module's page.
pub struct Follower {
    layout: Arc<dyn Layout>,
    reader: Reader,
    identity: u64,
    step: u64,
    life: Watch,
}

/// Observations of the writer.
struct Watch {
    patience: Duration,
    /// A lease was seen on this filesystem.
    seen: bool,
    /// Since when no process holds a lease.
    alone: Option<Instant>,
    /// Length and time of change, and since when they are the same.
    state: Option<(u64, Option<SystemTime>)>,
    since: Instant,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Writer {
    There,
    /// No lease at this poll, which may be momentary.
    Unseen,
    Gone,
}

impl Watch {
    fn new() -> Watch {
        Watch { patience: Duration::from_secs(600), seen: false, alone: None, state: None, since: Instant::now() }
    }

    /// - `second`: opens another object that the same writer changes, if there is one; called if leases are not visible.
    fn look(&mut self, file: &Object, second: impl FnOnce() -> Result<Option<Object>>) -> Result<Writer> {
        let life = file.life()?;
        match life.leased {
            Some(true) => {
                (self.seen, self.alone) = (true, None);
                return Ok(Writer::There);
            }
            // Where one was seen, none is none.
            leased => {
                if leased.is_some() || self.seen {
                    let alone = *self.alone.get_or_insert_with(Instant::now);
                    return Ok(if alone.elapsed() >= TWO_LOOKS { Writer::Gone } else { Writer::Unseen });
                }
            }
        }
        let second = second()?.map(|o| Ok::<_, Error>((o.length(), o.life()?.modified))).transpose()?;
        let length = file.now()?.length();
        let state = match second {
            Some((more, modified)) => (length.saturating_add(more), life.modified.max(modified)),
            None => (length, life.modified),
        };
        if self.state != Some(state) {
            (self.state, self.since) = (Some(state), Instant::now());
        }
        let age = state.1.and_then(|at| at.elapsed().ok()).unwrap_or_default();
        Ok(if self.since.elapsed().max(age) >= self.patience { Writer::Gone } else { Writer::There })
    }
}

/// Looks at a file until the wait is over.
struct Clock {
    end: Option<Instant>,
    poll: Duration,
}

impl Clock {
    fn start(wait: &Wait) -> Clock {
        // More than a clock can count means no limit.
        let end = wait.timeout.and_then(|t| Instant::now().checked_add(t));
        Clock { end, poll: wait.poll.max(Duration::from_micros(100)) }
    }

    /// Sleeps until the next poll; false if the wait is over.
    fn sleep(&self, at_most: Option<Duration>) -> bool {
        let mut nap = at_most.map_or(self.poll, |most| most.min(self.poll));
        if let Some(end) = self.end {
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return false;
            }
            nap = nap.min(left);
        }
        std::thread::sleep(nap);
        true
    }
}

impl Follower {
    /// Waits for the file and its first step, which becomes the current one.
    ///
    /// # Errors
    /// `NotFound` where neither came in time; `PeerLost` where the writer died before its first step was closed; errors of
    /// [`Reader::open`] for a damaged file.
    pub fn open(layout: Arc<dyn Layout>, path: &str, wait: &Wait) -> Result<Follower> {
        let clock = Clock::start(wait);
        let mut life = Watch::new();
        for looks in 1u32.. {
            let mut nap = None;
            match Object::open(&*layout, path) {
                Ok(file) => {
                    let writer = life.look(&file, || object_beside(&*layout, path))?;
                    // Now and then everything is searched, where nothing else has found a step.
                    let search = writer != Writer::There || (looks > 8 && looks.is_power_of_two());
                    if let Some(reader) = open_growing(&layout, path, file.now()?, search)? {
                        let identity = layout.stat(path)?.identity;
                        return Ok(Follower { layout, reader, identity, step: 0, life });
                    }
                    match writer {
                        Writer::Gone => {
                            let what = "the writer ended before its first step was closed";
                            return Err(Error::new(ErrorKind::PeerLost, what).in_object(path));
                        }
                        Writer::Unseen => nap = Some(TWO_LOOKS),
                        Writer::There => {}
                    }
                }
                Err(e) if e.kind() == ErrorKind::NotFound => {}
                Err(e) => return Err(e),
            }
            if !clock.sleep(nap) {
                break;
            }
        }
        Err(Error::new(ErrorKind::NotFound, "no step of it came in time").in_object(path))
    }

    /// Sets how long a file may stay unchanged before its writer counts as dead, on stores without leases.
    pub fn set_patience(&mut self, patience: Duration) {
        self.life.patience = patience;
    }

    /// The comparisons before values of later steps are returned.
    pub fn set_reads(&mut self, reads: Reads) {
        self.reader = self.reader.clone().with_reads(reads);
    }

    /// The digits of real numbers that reads of later steps keep.
    pub fn set_digits(&mut self, digits: Digits) {
        self.reader = self.reader.clone().with_digits(digits);
    }

    /// The file as of the last poll; contains at least the current step.
    pub fn reader(&self) -> &Reader {
        &self.reader
    }

    /// The current step, as the file counts.
    pub fn step(&self) -> u64 {
        self.step
    }

    /// The newest step seen so far.
    pub fn last(&self) -> u64 {
        self.reader.status().steps.saturating_sub(1)
    }

    /// Goes on to the next step, or the newest one; waits where there is none yet.
    ///
    /// # Errors
    /// `NotFound` if the file was shortened, created again, replaced or removed: open it again.
    pub fn advance(&mut self, to_last: bool, wait: &Wait) -> Result<Next> {
        // Also before a step that is known already: it may have been dropped.
        self.reader.catch_up()?;
        if self.step >= self.last() {
            let clock = Clock::start(wait);
            loop {
                let writer = self.look()?;
                let gone = writer != Writer::There;
                // A writer marks the file, then lets it go: one look after it is seen to be gone knows all.
                if gone {
                    self.reader.catch_up()?;
                    if self.step < self.last() {
                        break;
                    }
                    if self.reader.status().finished {
                        return Ok(Next::End);
                    }
                }
                if self.reader.status().finished && !self.life.seen {
                    return Ok(Next::End);
                }
                if writer == Writer::Gone {
                    return Ok(Next::WriterDied);
                }
                self.check_identity()?;
                if !clock.sleep(gone.then_some(TWO_LOOKS)) {
                    return Ok(Next::NotYet);
                }
                self.reader.catch_up()?;
                if self.step < self.last() {
                    break;
                }
            }
        }
        self.step = if to_last { self.last() } else { self.step + 1 };
        Ok(Next::Step(self.step))
    }

    fn look(&mut self) -> Result<Writer> {
        let (layout, reader) = (&*self.layout, &self.reader);
        self.life.look(reader.file(), || object_beside(layout, reader.path()))
    }

    fn check_identity(&self) -> Result<()> {
        let path = self.reader.path();
        if self.layout.stat(path)?.identity == self.identity {
            return Ok(());
        }
        Err(Error::new(ErrorKind::NotFound, "the file was replaced by another while it was followed").in_object(path))
    }
}

/// The first subfile, which changes while an output is written and the index does not; `None` where there is none.
fn object_beside(layout: &dyn Layout, path: &str) -> Result<Option<Object>> {
    match Object::open(layout, &object::subfile(path, 0)) {
        Ok(object) => Ok(Some(object)),
        Err(e) if e.kind() == ErrorKind::NotFound => Ok(None),
        Err(e) => Err(e),
    }
}

/// A reader, if the file holds a step. `search`: through all of an output that is being written, however long.
fn open_growing(layout: &Arc<dyn Layout>, path: &str, file: Object, search: bool) -> Result<Option<Reader>> {
    let length = file.length();
    let mut end = length;
    if !search && length > SHORT {
        match growth::since(&file, 0) {
            Ok(Some(growth)) => end = growth.end,
            Ok(None) => return Ok(None),
            Err(_) if file.was_cut() => return Ok(None),
            Err(e) => return Err(e.in_object(path)),
        }
    }
    match Reader::open_up_to(layout.clone(), path, file.clone(), end) {
        Ok(reader) if reader.status().steps > 0 => Ok(Some(reader)),
        Ok(_) => Ok(None),
        Err(e) if e.kind() == ErrorKind::Torn || file.was_cut() => Ok(None),
        Err(e) => Err(e),
    }
}
