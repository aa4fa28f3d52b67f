//! What is known of files, calls and failures. No call is made here, and nothing waits.

use super::Counts;
use super::below::{Opened, closed};
use super::overlay::Overlay;
use crate::{Layout, Lease, WriteObject, WriterId};
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::SystemTime;
use thalweg_types::mutex::Mutex;
use thalweg_types::{Error, Result};

/// Of a program that waits.
pub(super) type Answer = Arc<Mutex<Option<Result<u64>>>>;
pub(super) type Call = Box<dyn FnOnce(&dyn WriteObject) -> Result<()> + Send>;
pub(super) type CallOfLayout = Box<dyn FnOnce(&dyn Layout) -> Result<()> + Send>;

pub(super) enum Work {
    Write(u64, Arc<Vec<u8>>),
    Publish,
    Close,
    /// A lease ends.
    Release,
    Call(Call, Answer),
    Truncate(u64, Answer),
    /// As `Truncate`, of a name: no handle needs to be open.
    TruncateNamed(String, u64, Answer),
    /// Of names, which mean other files afterwards.
    Names(CallOfLayout, Vec<String>, Answer),
    /// Opens a file that exists, emptied. The answer is its number.
    Replace(String, WriterId, Answer),
}

pub(super) struct Operation {
    /// `None` for calls of names.
    pub(super) file: Option<u64>,
    pub(super) number: u64,
    pub(super) work: Work,
}

/// What is known of a file that is open, or has calls in the queue.
pub(super) struct File {
    pub(super) path: String,
    /// 0: not known.
    pub(super) identity: u64,
    pub(super) object: Option<Arc<Opened>>,
    pub(super) writers: u64,
    pub(super) readers: u64,
    /// Calls in the queue, with those that are being made.
    pub(super) queued: u64,
    /// Leases that programs have.
    pub(super) leases: u64,
    /// Leases that end in the queue.
    pub(super) ending: u64,
    /// Of the layout below, while there are any.
    pub(super) lease: Option<Lease>,
    /// Behind the last call in the queue.
    pub(super) end: u64,
    pub(super) held: Overlay,
    pub(super) length: u64,
    pub(super) failed: Option<Error>,
    /// The program knows the failure.
    pub(super) told: bool,
    /// How often it was closed below.
    pub(super) closes: u64,
    /// It was made here, and nothing of it has reached the layout below.
    pub(super) unstored: bool,
    /// The last write, if the layout below does not have its time.
    pub(super) written: Option<SystemTime>,
}

impl File {
    pub(super) fn new(path: &str, identity: u64) -> File {
        File {
            path: path.to_string(),
            identity,
            object: None,
            writers: 0,
            readers: 0,
            queued: 0,
            leases: 0,
            ending: 0,
            lease: None,
            end: 0,
            held: Overlay::default(),
            length: 0,
            failed: None,
            told: false,
            closes: 0,
            unstored: false,
            written: None,
        }
    }

    /// The layout below does not know all of it.
    pub(super) fn is_active(&self) -> bool {
        self.failed.is_none() && (self.object.is_some() || self.queued > 0)
    }
}

/// A failure of which no program knows.
pub(super) struct Untold {
    pub(super) file: u64,
    /// The folder in which files may depend on what was lost.
    pub(super) folder: String,
    pub(super) failure: Error,
}

/// The folder in which other files may refer to a file: its own; for a subfile of a BP file, that of the BP file.
pub(super) fn dependents(path: &str) -> &str {
    let mut folder = path.rsplit_once('/').map_or("", |(folder, _)| folder);
    while folder.ends_with(".dir") {
        folder = folder.rsplit_once('/').map_or("", |(above, _)| above);
    }
    folder
}

pub(super) fn lies_in(path: &str, folder: &str) -> bool {
    folder.is_empty() || path.strip_prefix(folder).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

#[derive(Default)]
pub(super) struct State {
    pub(super) queue: VecDeque<Operation>,
    pub(super) next: u64,
    /// The first call that is being made.
    pub(super) current: Option<u64>,
    pub(super) files: HashMap<u64, File>,
    /// Files whose identity is not known.
    pub(super) by_path: HashMap<String, u64>,
    pub(super) by_identity: HashMap<u64, u64>,
    pub(super) next_file: u64,
    pub(super) untold: Vec<Untold>,
    /// Writes that wait for room, in the order in which they came.
    pub(super) waiting: VecDeque<u64>,
    pub(super) next_ticket: u64,
    /// Files closed below.
    pub(super) closes: u64,
    pub(super) ends: bool,
    pub(super) counts: Counts,
    pub(super) spares: Spares,
}

/// Memory of bytes that have been stored, for further ones: a system gives new memory page by page, which takes longer than a copy.
#[derive(Default)]
pub(super) struct Spares {
    all: Vec<Vec<u8>>,
    /// Their capacity.
    bytes: u64,
}

impl Spares {
    /// Most bytes that are kept.
    const MOST: u64 = 64 << 20;
    /// Shorter memory is not worth it.
    const SHORTEST: usize = 64 << 10;

    /// Keeps memory, unless that would be more than `most` bytes; returns what is to be freed.
    pub(super) fn keep(&mut self, mut memory: Vec<u8>, most: u64) -> Option<Vec<u8>> {
        memory.clear();
        let bytes = memory.capacity() as u64;
        if memory.capacity() < Self::SHORTEST || self.bytes + bytes > most.min(Self::MOST) {
            return Some(memory);
        }
        self.bytes += bytes;
        self.all.push(memory);
        None
    }

    /// Memory for `length` bytes, empty; without capacity if there is none that suits.
    pub(super) fn take(&mut self, length: usize) -> Vec<u8> {
        let suits = |memory: &Vec<u8>| (length..=length.saturating_mul(4)).contains(&memory.capacity());
        match self.all.iter().rposition(suits) {
            Some(at) => {
                let memory = self.all.swap_remove(at);
                self.bytes -= memory.capacity() as u64;
                memory
            }
            None => Vec::new(),
        }
    }

    /// Gives memory back to the system until at most `most` bytes are kept.
    pub(super) fn shrink(&mut self, most: u64) {
        while self.bytes > most
            && let Some(memory) = self.all.pop()
        {
            self.bytes -= memory.capacity() as u64;
        }
    }
}

impl State {
    pub(super) fn file(&mut self, file: u64) -> Result<&mut File> {
        self.files.get_mut(&file).ok_or_else(closed)
    }

    /// All calls below this number have been made, or given up.
    pub(super) fn reached(&self) -> u64 {
        self.current.or_else(|| self.queue.front().map(|operation| operation.number)).unwrap_or(self.next)
    }

    pub(super) fn find(&self, path: &str, identity: u64) -> Option<u64> {
        match identity {
            0 => self.by_path.get(path).copied(),
            identity => self.by_identity.get(&identity).copied(),
        }
    }

    pub(super) fn find_or_add(&mut self, path: &str, identity: u64) -> u64 {
        if let Some(number) = self.find(path, identity) {
            return number;
        }
        let number = self.next_file;
        self.next_file += 1;
        match identity {
            0 => self.by_path.insert(path.to_string(), number),
            identity => self.by_identity.insert(identity, number),
        };
        self.files.insert(number, File::new(path, identity));
        number
    }

    /// The failure of a file, which the program knows now.
    pub(super) fn usable(&mut self, number: u64) -> Result<()> {
        let file = self.file(number)?;
        let Some(failure) = file.failed.as_ref().map(Error::again) else { return Ok(()) };
        file.told = true;
        self.untold.retain(|untold| untold.file != number);
        Err(failure)
    }

    /// Refuses a call of these names that may depend on bytes whose loss no program knows yet; then one does.
    pub(super) fn depends_on_nothing_lost(&mut self, paths: &[&str]) -> Result<()> {
        let depends = |untold: &Untold| paths.iter().any(|path| lies_in(path, &untold.folder));
        let Some(at) = self.untold.iter().position(depends) else { return Ok(()) };
        let Untold { file, failure, .. } = self.untold.remove(at);
        if let Some(file) = self.files.get_mut(&file) {
            file.told = true;
        }
        self.let_go(file);
        let what = "not done: it may depend on bytes that could not be stored";
        let error = Error::new(failure.kind(), what).caused_by(failure).safe("what was stored before");
        Err(paths.iter().fold(error, |error, path| error.in_object(*path)))
    }

    pub(super) fn push(&mut self, file: Option<u64>, work: Work) {
        let number = self.next;
        self.next += 1;
        self.counts.queued += 1;
        if let Some(of) = file.and_then(|file| self.files.get_mut(&file)) {
            (of.queued, of.end) = (of.queued + 1, number + 1);
            if let Work::Write(offset, bytes) = &work {
                of.held.put(*offset, bytes, number);
                of.length = of.length.max(*offset + bytes.len() as u64);
                of.written = Some(SystemTime::now());
            }
        }
        self.queue.push_back(Operation { file, number, work });
    }

    /// Forgets a file that nobody uses, unless a failure is still to be told.
    pub(super) fn let_go(&mut self, number: u64) {
        let unused = |file: &File| {
            let idle = file.writers == 0
                && file.readers == 0
                && file.object.is_none()
                && file.queued == 0
                && file.leases + file.ending == 0;
            idle && (file.failed.is_none() || file.told)
        };
        if !self.files.get(&number).is_some_and(unused) {
            return;
        }
        self.files.remove(&number);
        self.by_path.retain(|_, of| *of != number);
        self.by_identity.retain(|_, of| *of != number);
    }

    /// A call of this file has failed below. What is behind it may refer to what is lost: it is given up, and so are the files that are
    /// open beside it.
    pub(super) fn fail(&mut self, number: u64, failure: &Error) {
        self.counts.failures += 1;
        let path = self.files.get(&number).map(|file| file.path.clone()).unwrap_or_default();
        let failure = failure.again().in_object(path.clone()).safe("what was stored before");
        self.counts.last_failure = Some(failure.to_string());
        let folder = dependents(&path).to_string();
        let behind = || {
            let what = "given up: an earlier call, on which it may depend, has failed";
            Error::new(failure.kind(), what).caused_by(failure.again()).safe("what was stored before")
        };
        let beside = |file: &File| file.writers > 0 && lies_in(&file.path, &folder);
        let others: Vec<u64> = self.files.iter().filter(|(_, file)| beside(file)).map(|(number, _)| *number).collect();
        self.give_up(number, failure.again());
        others.into_iter().filter(|other| *other != number).for_each(|other| self.give_up(other, behind()));
        let mut kept = VecDeque::new();
        for operation in std::mem::take(&mut self.queue) {
            match operation.work {
                // The file itself is to be closed, and leases end.
                Work::Close | Work::Release => {
                    kept.push_back(operation);
                    continue;
                }
                Work::Write(_, bytes) => self.counts.held -= bytes.len() as u64,
                Work::Publish => {}
                Work::Call(_, answer)
                | Work::Truncate(_, answer)
                | Work::TruncateNamed(_, _, answer)
                | Work::Names(_, _, answer)
                | Work::Replace(_, _, answer) => *answer.lock() = Some(Err(behind())),
            }
            self.counts.queued -= 1;
            let Some(file) = operation.file else { continue };
            if let Some(of) = self.files.get_mut(&file) {
                of.queued -= 1;
            }
            if file != number {
                self.give_up(file, behind());
            }
        }
        self.queue = kept;
        self.untold.push(Untold { file: number, folder, failure });
    }

    pub(super) fn give_up(&mut self, file: u64, failure: Error) {
        if let Some(file) = self.files.get_mut(&file) {
            file.held.clear();
            if file.failed.is_none() {
                (file.failed, file.told) = (Some(failure.in_object(file.path.clone())), false);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_kept_within_bounds_and_given_for_writes_that_it_suits() {
        const MIB: usize = 1 << 20;
        let mut spares = Spares::default();
        let memory = |bytes: usize| Vec::<u8>::with_capacity(bytes);
        assert!(spares.keep(memory(1000), u64::MAX).is_some(), "too short");
        assert!(spares.keep(memory(MIB), MIB as u64 - 1).is_some(), "beyond the limit");
        for n in 0..70 {
            assert_eq!(spares.keep(memory(MIB), u64::MAX).is_none(), n < 64, "{n}");
        }
        assert_eq!(spares.take(2 * MIB).capacity(), 0);
        assert_eq!(spares.take(MIB / 8).capacity(), 0, "it would be wasted");
        assert_eq!(spares.take(MIB / 2).capacity(), MIB);
        spares.shrink(10 * MIB as u64);
        assert_eq!((spares.all.len(), spares.bytes), (10, 10 * MIB as u64));
    }
}
