//! The calls that are to reach the layout below, and what is known of the files that they concern.

use super::Counts;
use super::overlay::Overlay;
use crate::{Attributes, Change, Kind, Layout, OpenWrite, ReadObject, Stat, WriteObject, WriterId};
use std::collections::{HashMap, VecDeque};
use std::io::IoSlice;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, MutexGuard};
use std::time::SystemTime;
use thalweg_types::mutex::{Condvar, Mutex, RwLock};
use thalweg_types::{Error, ErrorKind, Result};

/// Most writes that one call of the layout below takes.
const RUN: usize = 256;
/// Most bytes of these.
const RUN_BYTES: u64 = 32 << 20;
/// Looks at a file that is closed below just then, before a look waits for the queue.
const LOOKS: usize = 100;

/// A file that is open below.
pub(super) struct Opened(RwLock<Option<Box<dyn WriteObject>>>);

impl Opened {
    fn new(object: Box<dyn WriteObject>) -> Arc<Opened> {
        Arc::new(Opened(RwLock::new(Some(object))))
    }

    fn ask<T>(&self, what: impl FnOnce(&dyn WriteObject) -> Result<T>) -> Result<T> {
        let object = self.0.read();
        let object = object.as_ref().ok_or_else(closed)?;
        caught(|| what(&**object))
    }

    fn close(&self) -> Result<()> {
        let object = self.0.write().take();
        caught(|| object.map_or(Ok(()), |object| object.close()))
    }
}

fn closed() -> Error {
    Error::new(ErrorKind::InvalidArgument, "the file is closed")
}

/// A panic below is a failure: the thread that makes the calls goes on.
fn caught<T>(call: impl FnOnce() -> Result<T>) -> Result<T> {
    let panicked = |_| Err(Error::new(ErrorKind::Io, "a call of the layout below panicked"));
    catch_unwind(AssertUnwindSafe(call)).unwrap_or_else(panicked)
}

/// Of a program that waits.
type Answer = Arc<Mutex<Option<Result<u64>>>>;
type Call = Box<dyn FnOnce(&dyn WriteObject) -> Result<()> + Send>;
type CallOfLayout = Box<dyn FnOnce(&dyn Layout) -> Result<()> + Send>;

enum Work {
    Write(u64, Arc<Vec<u8>>),
    Publish,
    Close,
    Call(Call, Answer),
    Truncate(u64, Answer),
    /// Of names, which mean other files afterwards.
    Names(CallOfLayout, Vec<String>, Answer),
    /// Opens a file that exists, emptied. The answer is its number.
    Replace(String, WriterId, Answer),
}

struct Operation {
    /// `None` for calls of names.
    file: Option<u64>,
    number: u64,
    work: Work,
}

/// What is known of a file that is open, or has calls in the queue.
struct File {
    path: String,
    /// 0: not known.
    identity: u64,
    object: Option<Arc<Opened>>,
    writers: u64,
    readers: u64,
    /// Calls in the queue, with those that are being made.
    queued: u64,
    /// Behind the last of them.
    end: u64,
    held: Overlay,
    length: u64,
    failed: Option<Error>,
    /// The program knows the failure.
    told: bool,
    /// How often it was closed below.
    closes: u64,
    /// It was made here, and nothing of it has reached the layout below.
    unstored: bool,
    /// The last write, if the layout below does not have its time.
    written: Option<SystemTime>,
}

impl File {
    fn new(path: &str, identity: u64) -> File {
        File {
            path: path.to_string(),
            identity,
            object: None,
            writers: 0,
            readers: 0,
            queued: 0,
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
    fn is_active(&self) -> bool {
        self.failed.is_none() && (self.object.is_some() || self.queued > 0)
    }
}

/// A failure of which no program knows.
struct Untold {
    file: u64,
    /// The folder in which files may depend on what was lost.
    folder: String,
    failure: Error,
}

/// The folder in which other files may refer to a file: its own; for a subfile of a BP file, that of the BP file.
fn dependents(path: &str) -> &str {
    let mut folder = path.rsplit_once('/').map_or("", |(folder, _)| folder);
    while folder.ends_with(".dir") {
        folder = folder.rsplit_once('/').map_or("", |(above, _)| above);
    }
    folder
}

fn lies_in(path: &str, folder: &str) -> bool {
    folder.is_empty() || path.strip_prefix(folder).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

#[derive(Default)]
struct State {
    queue: VecDeque<Operation>,
    next: u64,
    /// The first call that is being made.
    current: Option<u64>,
    files: HashMap<u64, File>,
    /// Files whose identity is not known.
    by_path: HashMap<String, u64>,
    by_identity: HashMap<u64, u64>,
    next_file: u64,
    untold: Vec<Untold>,
    /// Writes that wait for room, in the order in which they came.
    waiting: VecDeque<u64>,
    next_ticket: u64,
    /// Files closed below.
    closes: u64,
    ends: bool,
    counts: Counts,
}

impl State {
    fn file(&mut self, file: u64) -> Result<&mut File> {
        self.files.get_mut(&file).ok_or_else(closed)
    }

    /// All calls below this number have been made, or given up.
    fn reached(&self) -> u64 {
        self.current.or_else(|| self.queue.front().map(|operation| operation.number)).unwrap_or(self.next)
    }

    fn find(&self, path: &str, identity: u64) -> Option<u64> {
        match identity {
            0 => self.by_path.get(path).copied(),
            identity => self.by_identity.get(&identity).copied(),
        }
    }

    fn find_or_add(&mut self, path: &str, identity: u64) -> u64 {
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
    fn usable(&mut self, number: u64) -> Result<()> {
        let file = self.file(number)?;
        let Some(failure) = file.failed.as_ref().map(Error::again) else { return Ok(()) };
        file.told = true;
        self.untold.retain(|untold| untold.file != number);
        Err(failure)
    }

    /// Refuses a call of these names that may depend on bytes whose loss no program knows yet; then one does.
    fn depends_on_nothing_lost(&mut self, paths: &[&str]) -> Result<()> {
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

    fn push(&mut self, file: Option<u64>, work: Work) {
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
    fn let_go(&mut self, number: u64) {
        let unused = |file: &File| {
            let idle = file.writers == 0 && file.readers == 0 && file.object.is_none() && file.queued == 0;
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
    fn fail(&mut self, number: u64, failure: &Error) {
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
                // The file itself is to be closed.
                Work::Close => {
                    kept.push_back(operation);
                    continue;
                }
                Work::Write(_, bytes) => self.counts.held -= bytes.len() as u64,
                Work::Publish => {}
                Work::Call(_, answer)
                | Work::Truncate(_, answer)
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

    fn give_up(&mut self, file: u64, failure: Error) {
        if let Some(file) = self.files.get_mut(&file) {
            file.held.clear();
            if file.failed.is_none() {
                (file.failed, file.told) = (Some(failure.in_object(file.path.clone())), false);
            }
        }
    }
}

/// See the module's page.
pub(super) struct Queue {
    pub(super) below: Arc<dyn Layout>,
    limit: u64,
    /// A file of the layout below is one object: its time can be set as it is closed, and readers see what was written after they opened
    /// it. Elsewhere attributes wait until the file is stored, and readers open it again.
    of_system: bool,
    state: Mutex<State>,
    changed: Condvar,
}

/// A reader's own object of the layout below, and how often the file had been closed below when it was opened.
pub(super) type ReaderBelow = (Box<dyn ReadObject>, u64);

impl Queue {
    pub(super) fn new(below: Arc<dyn Layout>, limit: u64) -> Queue {
        let of_system = below.concrete().is_none();
        Queue { below, limit, of_system, state: Mutex::default(), changed: Condvar::default() }
    }

    pub(super) fn counts(&self) -> Counts {
        Counts { limit: self.limit, ..self.state.lock().counts.clone() }
    }

    /// The thread ends when the queue is empty.
    pub(super) fn end(&self) {
        self.state.lock().ends = true;
        self.changed.notify_all();
    }

    fn wait_until<'a>(
        &'a self,
        mut state: MutexGuard<'a, State>,
        is_so: impl Fn(&State) -> bool,
    ) -> MutexGuard<'a, State> {
        while !is_so(&state) {
            state = self.changed.wait(state);
        }
        state
    }

    /// Waits until the calls that were queued before this one have been made or given up.
    pub(super) fn settle(&self) {
        let state = self.state.lock();
        let end = state.next;
        drop(self.wait_until(state, |state| state.reached() >= end));
    }

    /// All failures that no program knows; then one does.
    pub(super) fn untold(&self) -> Result<()> {
        let mut state = self.state.lock();
        let mut lost: Vec<(u64, String)> = Vec::new();
        let mut first: Option<Error> = None;
        for (number, file) in state.files.iter_mut().filter(|(_, file)| !file.told) {
            if let Some(failure) = &file.failed {
                first.get_or_insert_with(|| failure.again());
                lost.push((*number, file.path.clone()));
                file.told = true;
            }
        }
        for Untold { failure, file, .. } in std::mem::take(&mut state.untold) {
            if lost.iter().all(|(number, _)| *number != file) {
                lost.push((file, failure.place().object.clone().unwrap_or_default()));
            }
            // The failure itself, rather than what was given up because of it.
            first = Some(failure);
        }
        lost.iter().for_each(|(number, _)| state.let_go(*number));
        let Some(first) = first else { return Ok(()) };
        let mut names: Vec<String> = lost.into_iter().map(|(_, path)| path).collect();
        names.sort();
        let what = format!("bytes could not be stored, of {}", names.join(", "));
        Err(Error::new(first.kind(), what).caused_by(first).safe("what was stored before"))
    }

    fn identity(&self, path: &str) -> u64 {
        self.below.stat(path).map_or(0, |about| about.identity)
    }

    /// What the layout below knows of a name, completed by what is held.
    fn look<T>(&self, path: &str, ask: impl Fn() -> Result<(u64, T)>, complete: impl Fn(T, &File) -> T) -> Result<T> {
        for _ in 0..LOOKS {
            let before = self.state.lock().closes;
            let (identity, about) = ask()?;
            let state = self.state.lock();
            let file = state.find(path, identity).and_then(|number| state.files.get(&number));
            match file.filter(|file| file.is_active()) {
                Some(file) => return Ok(complete(about, file)),
                None if state.closes == before => return Ok(about),
                // It may have been stored and closed after the look.
                None => {}
            }
        }
        self.settle();
        Ok(ask()?.1)
    }

    pub(super) fn stat(&self, path: &str) -> Result<Stat> {
        let ask = || self.below.stat(path).map(|about| (about.identity, about));
        self.look(path, ask, |about, file| if about.is_folder { about } else { Stat { length: file.length, ..about } })
    }

    pub(super) fn attributes(&self, path: &str) -> Result<Attributes> {
        if !self.of_system {
            self.settle();
            return self.below.attributes(path);
        }
        // A link has its own, and its own identity.
        let ask = || self.below.attributes(path).map(|about| (about.identity, about));
        self.look(path, ask, Queue::complete)
    }

    pub(super) fn attributes_of(&self, file: u64) -> Result<Attributes> {
        if !self.of_system {
            self.settle();
            return self.ask(file, |object| object.attributes());
        }
        let about = self.ask(file, |object| object.attributes())?;
        let mut state = self.state.lock();
        state.usable(file)?;
        Ok(Queue::complete(about, state.file(file)?))
    }

    fn complete(about: Attributes, file: &File) -> Attributes {
        match about.kind {
            Kind::File => Attributes { length: file.length, mtime: file.written.unwrap_or(about.mtime), ..about },
            Kind::Folder | Kind::Link => about,
        }
    }

    /// Pushes a call and waits for its answer.
    fn answered(
        &self,
        mut state: MutexGuard<'_, State>,
        file: Option<u64>,
        work: impl FnOnce(Answer) -> Work,
    ) -> Result<u64> {
        let answer = Answer::default();
        state.push(file, work(answer.clone()));
        self.changed.notify_all();
        let mut state = self.wait_until(state, |_| answer.lock().is_some());
        let result = answer.lock().take().unwrap_or(Ok(0));
        if result.is_err()
            && let Some(file) = file
        {
            // A failure of the queue is known now.
            let _ = state.usable(file);
        }
        result
    }

    /// A call of names, behind all calls before it.
    pub(super) fn names(
        &self,
        paths: &[&str],
        call: impl FnOnce(&dyn Layout) -> Result<()> + Send + 'static,
    ) -> Result<()> {
        let mut state = self.state.lock();
        state.depends_on_nothing_lost(paths)?;
        let names = paths.iter().map(|path| path.to_string()).collect();
        self.answered(state, None, |answer| Work::Names(Box::new(call), names, answer)).map(drop)
    }

    /// Removes a name. A file that was made here, and of which nothing has reached the layout below, waits for nothing: it is as if it
    /// had never been made, whatever of the calls before reaches the layout below.
    pub(super) fn remove(&self, path: &str) -> Result<()> {
        let identity = self.identity(path);
        let mut state = self.state.lock();
        state.depends_on_nothing_lost(&[path])?;
        let unstored = |file: &File| file.unstored && file.failed.is_none() && file.writers == 0 && file.path == path;
        let number = state.find(path, identity).filter(|number| state.files.get(number).is_some_and(unstored));
        let Some(number) = number else {
            drop(state);
            let name = path.to_string();
            return self.names(&[path], move |below| below.remove(&name));
        };
        let all = std::mem::take(&mut state.queue);
        let (taken, kept): (Vec<_>, Vec<_>) = all.into_iter().partition(|operation| operation.file == Some(number));
        state.queue = kept.into();
        drop(state);
        let removed = caught(|| self.below.remove(path));
        let mut state = self.state.lock();
        let mut object = None;
        match &removed {
            Ok(()) => {
                for operation in &taken {
                    match &operation.work {
                        Work::Write(_, bytes) => state.counts.held -= bytes.len() as u64,
                        Work::Call(_, answer) | Work::Truncate(_, answer) => *answer.lock() = Some(Ok(0)),
                        _ => {}
                    }
                }
                state.counts.queued -= taken.len() as u64;
                state.by_path.retain(|_, of| *of != number);
                if let Ok(file) = state.file(number) {
                    file.queued -= taken.len() as u64;
                    for operation in &taken {
                        if let Work::Write(offset, bytes) = &operation.work {
                            file.held.take_out(*offset..*offset + bytes.len() as u64, operation.number);
                        }
                    }
                    if file.writers == 0 {
                        object = file.object.take();
                    }
                }
                state.closes += 1;
            }
            Err(_) => {
                state.queue.extend(taken);
                state.queue.make_contiguous().sort_by_key(|operation| operation.number);
            }
        }
        state.let_go(number);
        drop(state);
        self.changed.notify_all();
        // Nobody asks for its bytes.
        object.map_or(Ok(()), |object| object.close()).ok();
        removed
    }

    /// The time of a file has been set.
    pub(super) fn forget_time(&self, path: &str) {
        let identity = self.identity(path);
        let mut state = self.state.lock();
        if let Some(file) = state.find(path, identity).and_then(|number| state.files.get_mut(&number)) {
            file.written = None;
        }
    }

    /// As [`Queue::forget_time`], of an open file.
    pub(super) fn forget_time_of(&self, file: u64) {
        if let Ok(file) = self.state.lock().file(file) {
            file.written = None;
        }
    }

    /// Opens a file for writing; returns its number.
    pub(super) fn open_write(&self, path: &str, how: OpenWrite, writer: WriterId) -> Result<u64> {
        match how {
            OpenWrite::Any | OpenWrite::Existing => self.open_existing(path, how, writer),
            OpenWrite::New => self.open_new(path, writer),
            OpenWrite::Replace => match self.open_new(path, writer) {
                Err(e) if e.kind() == ErrorKind::AlreadyExists => self.open_replaced(path, writer),
                opened => opened,
            },
        }
    }

    /// The failure of a file that is to be opened: its own, or one on which it may depend.
    fn may_be_opened(&self, state: &mut State, path: &str, number: Option<u64>) -> Result<()> {
        if let Some(number) = number
            && state.files.get(&number).is_some_and(|file| file.failed.is_some() && (!file.told || file.writers > 0))
        {
            return state.usable(number);
        }
        state.depends_on_nothing_lost(&[path])
    }

    fn open_existing(&self, path: &str, how: OpenWrite, writer: WriterId) -> Result<u64> {
        let identity = self.identity(path);
        {
            let mut state = self.state.lock();
            let number = state.find(path, identity);
            self.may_be_opened(&mut state, path, number)?;
            if let Some(number) = number
                && let Some(file) = state.files.get_mut(&number)
                && file.failed.is_none()
                && file.object.is_some()
            {
                file.writers += 1;
                return Ok(number);
            }
        }
        let object = self.below.open_write(path, how, writer)?;
        let (identity, length) = (self.identity(path), object.length()?);
        self.opened(path, identity, object, length, false)
    }

    fn open_new(&self, path: &str, writer: WriterId) -> Result<u64> {
        self.may_be_opened(&mut self.state.lock(), path, None)?;
        let object = self.below.open_write(path, OpenWrite::New, writer)?;
        let identity = self.identity(path);
        if identity == 0 {
            // A name that meant another file.
            self.state.lock().by_path.remove(path);
        }
        self.opened(path, identity, object, 0, true)
    }

    /// Adds a file that was opened below.
    ///
    /// - `made`: it did not exist before.
    fn opened(&self, path: &str, identity: u64, object: Box<dyn WriteObject>, length: u64, made: bool) -> Result<u64> {
        let mut state = self.state.lock();
        let number = state.find_or_add(path, identity);
        let file = state.file(number)?;
        if file.failed.is_some() && file.told && file.writers == 0 {
            // Nothing is left of what failed, but for a close.
            (file.failed, file.told, file.object) = (None, false, None);
        }
        if let Err(e) = state.usable(number) {
            drop(state);
            let _ = object.close();
            return Err(e);
        }
        let file = state.file(number)?;
        file.writers += 1;
        file.unstored = made && file.queued == 0;
        if file.object.is_some() {
            // Another thread has opened it meanwhile.
            drop(state);
            let _ = caught(|| object.close());
        } else {
            file.length = length.max(file.held.end());
            file.object = Some(Opened::new(object));
        }
        Ok(number)
    }

    /// In the queue: nothing is written meanwhile, through whatever handle.
    fn open_replaced(&self, path: &str, writer: WriterId) -> Result<u64> {
        let identity = self.identity(path);
        let mut state = self.state.lock();
        let number = state.find(path, identity);
        self.may_be_opened(&mut state, path, number)?;
        let name = path.to_string();
        self.answered(state, None, |answer| Work::Replace(name, writer, answer))
    }

    /// Opens a file for reading; returns its number.
    pub(super) fn open_read(&self, path: &str) -> Result<(u64, ReaderBelow)> {
        let object = self.below.open_read(path)?;
        let identity = self.identity(path);
        let mut state = self.state.lock();
        let number = state.find_or_add(path, identity);
        let file = state.file(number)?;
        if let Some(failure) = &file.failed {
            return Err(failure.again());
        }
        file.readers += 1;
        Ok((number, (object, file.closes)))
    }

    /// Adds a write; waits while too many bytes are held, in the order in which writes come.
    ///
    /// - `offset`: `None` for the end of the file. Returns the end of the bytes.
    pub(super) fn write(&self, file: u64, offset: Option<u64>, pieces: &[IoSlice<'_>]) -> Result<u64> {
        let total: usize = pieces.iter().map(|piece| piece.len()).sum();
        {
            let mut state = self.state.lock();
            let ticket = state.next_ticket;
            state.next_ticket += 1;
            state.waiting.push_back(ticket);
            let has_room = |state: &State| {
                let failed = state.files.get(&file).is_none_or(|file| file.failed.is_some());
                let fits = state.counts.held == 0 || state.counts.held + total as u64 <= self.limit;
                failed || state.waiting.front() == Some(&ticket) && fits
            };
            state = self.wait_until(state, has_room);
            state.waiting.retain(|waiting| *waiting != ticket);
            self.changed.notify_all();
            state.usable(file)?;
            // The copy is counted from now on.
            state.counts.held += total as u64;
        }
        let mut bytes = Vec::new();
        let memory = |_| Error::new(ErrorKind::NoMemory, format!("cannot hold {total} bytes"));
        let reserved = bytes.try_reserve_exact(total).map_err(memory);
        if reserved.is_ok() {
            pieces.iter().for_each(|piece| bytes.extend_from_slice(piece));
        }
        let mut state = self.state.lock();
        let placed = reserved.and_then(|()| {
            state.usable(file)?;
            let of = state.file(file)?;
            let offset = offset.unwrap_or(of.length);
            let beyond = || Error::new(ErrorKind::OutOfBounds, "file offsets end at 2^63 - 1").at_byte(offset);
            let end = offset.checked_add(total as u64).filter(|end| *end <= i64::MAX as u64);
            Ok((offset, end.ok_or_else(|| beyond().in_object(of.path.clone()))?))
        });
        match &placed {
            Ok((offset, _)) if total > 0 => state.push(Some(file), Work::Write(*offset, Arc::new(bytes))),
            _ => state.counts.held -= total as u64,
        }
        self.changed.notify_all();
        placed.map(|(_, end)| end)
    }

    /// Publishes what was written; `wait`: returns when it was.
    pub(super) fn publish(&self, file: u64, wait: bool) -> Result<()> {
        let mut state = self.state.lock();
        state.usable(file)?;
        state.push(Some(file), Work::Publish);
        self.changed.notify_all();
        if wait {
            let end = state.file(file)?.end;
            state = self.wait_until(state, |state| state.reached() >= end);
            state.usable(file)?;
        }
        Ok(())
    }

    /// A call of the file below, behind those that are queued; its result.
    pub(super) fn call(
        &self,
        file: u64,
        call: impl FnOnce(&dyn WriteObject) -> Result<()> + Send + 'static,
    ) -> Result<()> {
        let mut state = self.state.lock();
        state.usable(file)?;
        self.answered(state, Some(file), |answer| Work::Call(Box::new(call), answer)).map(drop)
    }

    /// Truncates or extends a file.
    pub(super) fn truncate(&self, file: u64, length: u64) -> Result<()> {
        let mut state = self.state.lock();
        state.usable(file)?;
        self.answered(state, Some(file), |answer| Work::Truncate(length, answer)).map(drop)
    }

    pub(super) fn length(&self, file: u64) -> Result<u64> {
        let mut state = self.state.lock();
        state.usable(file)?;
        Ok(state.file(file)?.length)
    }

    /// The file that is open below.
    fn ask<T>(&self, file: u64, what: impl FnOnce(&dyn WriteObject) -> Result<T>) -> Result<T> {
        let object = self.state.lock().file(file)?.object.clone();
        object.ok_or_else(closed)?.ask(what)
    }

    /// A reader's own object, opened again if it may not show what was written since.
    fn own<'o>(&self, path: &str, identity: u64, closes: u64, own: &'o mut ReaderBelow) -> Result<&'o dyn ReadObject> {
        if own.1 != closes && !self.of_system {
            let object = self.below.open_read(path);
            if identity != self.identity(path) {
                let what = "the file has another name, or its name another file, since it was opened for reading";
                return Err(Error::new(ErrorKind::NotReady, what).in_object(path));
            }
            *own = (object?, closes);
        }
        Ok(&*own.0)
    }

    /// Reads: held bytes from memory, others from the file below.
    ///
    /// - `own`: the reader's name of the file and its own object below; `None` for a writer.
    pub(super) fn read(
        &self,
        file: u64,
        offset: u64,
        out: &mut [u8],
        mut own: Option<(&str, &mut ReaderBelow)>,
    ) -> Result<usize> {
        let (object, length, covered, closes, identity) = {
            let mut state = self.state.lock();
            let of = state.file(file)?;
            if let Some(failure) = &of.failed {
                return Err(failure.again());
            }
            let length = of.is_active().then_some(of.length);
            let end = offset.saturating_add(out.len() as u64);
            (of.object.clone(), length, of.held.within(offset..end), of.closes, of.identity)
        };
        let mut below = |at: u64, out: &mut [u8]| -> Result<usize> {
            if let Some(object) = &object {
                match object.ask(|object| object.read_at(at, out)) {
                    Err(e)
                        if matches!(e.kind(), ErrorKind::Unsupported | ErrorKind::InvalidArgument) && own.is_some() => {
                    }
                    outcome => return outcome,
                }
            }
            let (path, own) = own.as_mut().ok_or_else(closed)?;
            self.own(path, identity, closes, own)?.read_at(at, out)
        };
        let Some(length) = length else { return below(offset, out) };
        let wanted = usize::try_from(length.saturating_sub(offset)).unwrap_or(usize::MAX).min(out.len());
        let out = &mut out[..wanted];
        let mut at = 0;
        let mut gap = |from: usize, to: usize, out: &mut [u8]| -> Result<()> {
            let out = &mut out[from..to];
            let mut done = 0;
            while done < out.len() {
                match below(offset + (from + done) as u64, &mut out[done..])? {
                    // Behind the end of the file below, and before bytes that are held.
                    0 => {
                        out[done..].fill(0);
                        break;
                    }
                    got => done += got,
                }
            }
            Ok(())
        };
        for piece in covered {
            let (from, to) = ((piece.range.start - offset) as usize, ((piece.range.end - offset) as usize).min(wanted));
            if from >= wanted {
                break;
            }
            gap(at, from, out)?;
            out[from..to].copy_from_slice(&piece.bytes()[..to - from]);
            at = to;
        }
        gap(at, wanted, out)?;
        Ok(wanted)
    }

    /// The length that a reader sees.
    pub(super) fn length_read(&self, file: u64, path: &str, own: &mut ReaderBelow) -> Result<u64> {
        let (closes, identity) = {
            let mut state = self.state.lock();
            let of = state.file(file)?;
            if let Some(failure) = &of.failed {
                return Err(failure.again());
            }
            if of.is_active() {
                return Ok(of.length);
            }
            (of.closes, of.identity)
        };
        self.own(path, identity, closes, own)?.length()
    }

    /// A writer is gone.
    pub(super) fn leave(&self, file: u64) {
        let mut state = self.state.lock();
        let Ok(of) = state.file(file) else { return };
        of.writers -= 1;
        if of.writers == 0 {
            state.push(Some(file), Work::Close);
            self.changed.notify_all();
        }
    }

    /// A writer has closed the file; `wait`: returns when its bytes lie below.
    pub(super) fn close(&self, file: u64, wait: bool) -> Result<()> {
        let mut state = self.state.lock();
        let outcome = state.usable(file);
        // The file stays known until the outcome is.
        state.file(file)?.readers += u64::from(wait);
        drop(state);
        self.leave(file);
        let mut state = self.state.lock();
        if !wait {
            state.let_go(file);
            return outcome;
        }
        let end = state.file(file)?.end;
        state = self.wait_until(state, |state| state.reached() >= end);
        state.file(file)?.readers -= 1;
        let outcome = outcome.and(state.usable(file));
        state.let_go(file);
        outcome
    }

    /// A reader has closed the file.
    pub(super) fn close_reader(&self, file: u64) {
        let mut state = self.state.lock();
        if let Ok(of) = state.file(file) {
            of.readers -= 1;
        }
        state.let_go(file);
    }

    /// The next calls: one, or writes that continue each other.
    fn take(state: &mut State) -> Vec<Operation> {
        let mut taken: Vec<Operation> = state.queue.pop_front().into_iter().collect();
        let Some(Operation { file, work: Work::Write(offset, bytes), .. }) = taken.first() else { return taken };
        let file = *file;
        let mut end = offset + bytes.len() as u64;
        let most = offset + RUN_BYTES;
        while taken.len() < RUN && end < most {
            match state.queue.front() {
                Some(Operation { file: of, work: Work::Write(offset, bytes), .. }) if *of == file && *offset == end => {
                    end += bytes.len() as u64;
                    taken.extend(state.queue.pop_front());
                }
                _ => break,
            }
        }
        taken
    }

    /// Makes the calls, until the queue is empty and ends.
    pub(super) fn run(&self) {
        loop {
            let state = self.state.lock();
            let mut state = self.wait_until(state, |state| !state.queue.is_empty() || state.ends);
            let mut calls = Queue::take(&mut state);
            let Some(first) = calls.first() else { return };
            state.current = Some(first.number);
            let file = first.file;
            let object = file.and_then(|file| state.files.get_mut(&file)).and_then(|file| {
                file.unstored = false;
                file.object.clone()
            });
            drop(state);
            let count = calls.len() as u64;
            let failed = if let Work::Write(..) = calls[0].work {
                self.make_writes(&calls, object.as_deref())
            } else {
                calls.pop().and_then(|call| self.make(call, object.as_deref()))
            };
            let mut state = self.state.lock();
            state.counts.queued -= count;
            if let Some(of) = file.and_then(|file| state.files.get_mut(&file)) {
                of.queued -= count;
            }
            for Operation { number, work, .. } in &calls {
                let Work::Write(offset, bytes) = work else { continue };
                let length = bytes.len() as u64;
                state.counts.held -= length;
                if failed.is_none() {
                    state.counts.stored += length;
                }
                if let Some(of) = file.and_then(|file| state.files.get_mut(&file)) {
                    of.held.take_out(*offset..*offset + length, *number);
                }
            }
            if let (Some(failure), Some(file)) = (failed, file) {
                state.fail(file, &failure);
            }
            state.current = None;
            file.into_iter().for_each(|file| state.let_go(file));
            drop(state);
            self.changed.notify_all();
        }
    }

    fn make_writes(&self, calls: &[Operation], object: Option<&Opened>) -> Option<Error> {
        let bytes = |call: &Operation| if let Work::Write(_, bytes) = &call.work { Some(bytes.clone()) } else { None };
        let all: Vec<Arc<Vec<u8>>> = calls.iter().filter_map(bytes).collect();
        let pieces: Vec<IoSlice<'_>> = all.iter().map(|bytes| IoSlice::new(bytes)).collect();
        let Some(Operation { work: Work::Write(offset, _), .. }) = calls.first() else { return None };
        object.ok_or_else(closed).and_then(|object| object.ask(|object| object.write_at(*offset, &pieces))).err()
    }

    /// Makes a call; the failure of one for which nobody waits.
    fn make(&self, Operation { file, work, .. }: Operation, object: Option<&Opened>) -> Option<Error> {
        let open = || object.ok_or_else(closed);
        match work {
            Work::Write(..) => None,
            Work::Publish => open().and_then(|object| object.ask(|object| object.publish())).err(),
            Work::Close => self.make_close(file?),
            Work::Call(call, answer) => {
                let outcome = open().and_then(|object| object.ask(call));
                *answer.lock() = Some(outcome.map(|()| 0));
                None
            }
            Work::Truncate(length, answer) => {
                let outcome = open().and_then(|object| object.ask(|object| object.truncate(length)));
                let now = open().and_then(|object| object.ask(|object| object.length()));
                if let (Ok(file), Ok(now)) = (self.state.lock().file(file?), now) {
                    // Bytes that are held were written after it.
                    (file.length, file.written) = (now.max(file.held.end()), None);
                }
                *answer.lock() = Some(outcome.map(|()| 0));
                None
            }
            Work::Names(call, paths, answer) => {
                let outcome = caught(|| call(&*self.below));
                let mut state = self.state.lock();
                let is_below = |name: &str| paths.iter().any(|path| lies_in(name, path));
                state.by_path.retain(|name, _| !is_below(name));
                for file in state.files.values_mut() {
                    // Its length may have been changed.
                    if let Some(Ok(length)) = file.object.as_ref().map(|object| object.ask(|object| object.length())) {
                        file.length = length.max(file.held.end());
                    }
                }
                *answer.lock() = Some(outcome.map(|()| 0));
                None
            }
            Work::Replace(path, writer, answer) => {
                let outcome = self.make_replaced(&path, writer);
                *answer.lock() = Some(outcome);
                None
            }
        }
    }

    /// Closes a file below if nobody has opened it again.
    fn make_close(&self, number: u64) -> Option<Error> {
        let (object, time) = {
            let mut state = self.state.lock();
            let file = state.files.get_mut(&number).filter(|file| file.writers == 0 && file.queued == 1)?;
            file.closes += 1;
            let taken = (file.object.take(), file.written.take());
            state.closes += 1;
            taken
        };
        let object = object?;
        if let Some(time) = time.filter(|_| self.of_system) {
            // The file's time is that of the program's last write, not of ours. The bytes do not depend on it.
            let change = Change { mtime: Some(time), ..Change::default() };
            let _ = object.ask(|object| object.set_attributes(&change));
        }
        object.close().err()
    }

    fn make_replaced(&self, path: &str, writer: WriterId) -> Result<u64> {
        let identity = self.identity(path);
        let before = {
            let mut state = self.state.lock();
            let number = state.find(path, identity);
            number.and_then(|number| Some((number, state.files.get_mut(&number)?.object.take()?)))
        };
        // Everything written through it has reached it.
        if let Some((number, object)) = before
            && let Err(e) = object.close()
        {
            self.state.lock().fail(number, &e);
            return Err(e);
        }
        let object = caught(|| self.below.open_write(path, OpenWrite::Replace, writer))?;
        let identity = self.identity(path);
        let mut state = self.state.lock();
        let number = state.find_or_add(path, identity);
        let file = state.file(number)?;
        (file.failed, file.told, file.written) = (None, false, None);
        file.writers += 1;
        // Bytes that are held were written after it.
        file.length = file.held.end();
        file.object = Some(Opened::new(object));
        Ok(number)
    }
}
