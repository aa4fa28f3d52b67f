//! The calls that are to reach the layout below, and what is known of the files that they concern.

use super::Counts;
use super::overlay::Overlay;
use crate::{Attributes, Change, Kind, Layout, OpenWrite, ReadObject, WriteObject, WriterId};
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

/// A file that is open below.
pub(super) struct Opened(RwLock<Option<Box<dyn WriteObject>>>);

impl Opened {
    fn ask<T>(&self, what: impl FnOnce(&dyn WriteObject) -> Result<T>) -> Result<T> {
        let object = self.0.read();
        let closed = || Error::new(ErrorKind::InvalidArgument, "the file is closed");
        let object = object.as_ref().ok_or_else(closed)?;
        caught(|| what(&**object))
    }

    fn close(&self) -> Result<()> {
        let object = self.0.write().take();
        caught(|| object.map_or(Ok(()), |object| object.close()))
    }
}

/// A panic below is a failure: the thread that makes the calls goes on.
fn caught<T>(call: impl FnOnce() -> Result<T>) -> Result<T> {
    let panicked = |_| Err(Error::new(ErrorKind::Io, "a call of the layout below panicked"));
    catch_unwind(AssertUnwindSafe(call)).unwrap_or_else(panicked)
}

type Call = Box<dyn FnOnce(&dyn WriteObject) -> Result<()> + Send>;
type Answer = Arc<Mutex<Option<Result<()>>>>;

enum Work {
    Write(u64, Arc<Vec<u8>>),
    Publish,
    Close,
    /// Of a program that waits for the answer.
    Call(Call, Answer),
}

struct Operation {
    file: u64,
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
    /// The layout below does not know all of it, or need not show it to a new reader.
    fn is_active(&self) -> bool {
        self.object.is_some() || self.queued > 0
    }

    fn usable(&mut self) -> Result<()> {
        match &self.failed {
            None => Ok(()),
            Some(e) => {
                self.told = true;
                Err(e.again())
            }
        }
    }
}

#[derive(Default)]
struct State {
    queue: VecDeque<Operation>,
    next: u64,
    /// The first call that is being made.
    current: Option<u64>,
    files: HashMap<u64, File>,
    by_path: HashMap<String, u64>,
    by_identity: HashMap<u64, u64>,
    next_file: u64,
    ends: bool,
    counts: Counts,
}

impl State {
    fn file(&mut self, file: u64) -> Result<&mut File> {
        let gone = || Error::new(ErrorKind::InvalidArgument, "the file is closed");
        self.files.get_mut(&file).ok_or_else(gone)
    }

    /// All calls below this number have been made, or given up.
    fn reached(&self) -> u64 {
        self.current.or_else(|| self.queue.front().map(|operation| operation.number)).unwrap_or(self.next)
    }

    fn find(&self, path: &str, identity: u64) -> Option<u64> {
        let by_identity = || self.by_identity.get(&identity).filter(|_| identity != 0);
        self.by_path.get(path).or_else(by_identity).copied()
    }

    fn add(&mut self, path: &str, identity: u64) -> u64 {
        let number = self.next_file;
        self.next_file += 1;
        let path = path.to_string();
        self.by_path.insert(path.clone(), number);
        if identity != 0 {
            self.by_identity.insert(identity, number);
        }
        let file = File {
            path,
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
        };
        self.files.insert(number, file);
        number
    }

    fn push(&mut self, file: u64, work: Work) {
        let number = self.next;
        self.next += 1;
        self.counts.queued += 1;
        if let Some(of) = self.files.get_mut(&file) {
            (of.queued, of.end) = (of.queued + 1, number + 1);
            if let Work::Write(offset, bytes) = &work {
                of.held.put(*offset, bytes, number);
                of.length = of.length.max(*offset + bytes.len() as u64);
                of.written = Some(SystemTime::now());
                self.counts.held += bytes.len() as u64;
            }
        }
        self.queue.push_back(Operation { file, number, work });
    }

    /// Forgets a file that nobody uses, unless a failure is still to be told.
    fn let_go(&mut self, number: u64) {
        let unused = |file: &File| {
            let idle = file.writers == 0 && file.readers == 0 && !file.is_active();
            idle && (file.failed.is_none() || file.told)
        };
        if !self.files.get(&number).is_some_and(unused) {
            return;
        }
        let Some(file) = self.files.remove(&number) else { return };
        self.by_path.retain(|_, of| *of != number);
        if self.by_identity.get(&file.identity) == Some(&number) {
            self.by_identity.remove(&file.identity);
        }
    }

    /// A call of this file has failed below. Calls behind it are given up; returns the answers of those that somebody waits for.
    fn fail(&mut self, file: u64, failure: &Error) {
        self.counts.failures += 1;
        let path = self.files.get(&file).map(|file| file.path.clone()).unwrap_or_default();
        self.counts.last_failure = Some(format!("{path}: {failure}"));
        self.give_up(file, failure.again().safe("bytes that were stored before"));
        let behind = || {
            Error::new(failure.kind(), "given up, because an earlier call has failed")
                .caused_by(failure.again().in_object(path.clone()))
                .safe("bytes that were stored before")
        };
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
                Work::Call(_, answer) => *answer.lock() = Some(Err(behind())),
            }
            self.counts.queued -= 1;
            if let Some(of) = self.files.get_mut(&operation.file) {
                of.queued -= 1;
            }
            if operation.file != file {
                self.give_up(operation.file, behind());
            }
        }
        self.queue = kept;
    }

    fn give_up(&mut self, file: u64, failure: Error) {
        if let Some(file) = self.files.get_mut(&file) {
            let failure = if failure.place().object.is_none() { failure.in_object(file.path.clone()) } else { failure };
            file.held.clear();
            if file.failed.is_none() {
                (file.failed, file.told) = (Some(failure), false);
            }
        }
    }
}

/// See the module's page.
pub(super) struct Queue {
    pub(super) below: Arc<dyn Layout>,
    limit: u64,
    /// Files of the layout below are the system's: their times can be set as they are closed. Elsewhere attributes wait until the file is
    /// stored, and its time is that of the storing.
    sets_times: bool,
    state: Mutex<State>,
    changed: Condvar,
}

/// A reader's own object of the layout below, and [`Queue::closes`] when it was opened.
pub(super) type ReaderBelow = Option<(Box<dyn ReadObject>, u64)>;

impl Queue {
    pub(super) fn new(below: Arc<dyn Layout>, limit: u64) -> Queue {
        let sets_times = below.plain_file("file").is_some();
        Queue { below, limit, sets_times, state: Mutex::default(), changed: Condvar::default() }
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

    /// The last failure of a file that no program has been told, which is then told.
    pub(super) fn untold(&self) -> Result<()> {
        let mut state = self.state.lock();
        let untold: Vec<u64> = state
            .files
            .iter()
            .filter(|(_, file)| file.failed.is_some() && !file.told)
            .map(|(number, _)| *number)
            .collect();
        let mut outcome = Ok(());
        for number in untold {
            outcome = outcome.and(state.file(number).and_then(File::usable));
            state.let_go(number);
        }
        outcome
    }

    /// A name means another file from now on, or none; other names may lead there through links. Files are then found by their identity.
    pub(super) fn forget(&self, path: &str) {
        let below = format!("{path}/");
        let mut state = self.state.lock();
        let State { by_path, files, .. } = &mut *state;
        let is_known_otherwise = |number: &u64| files.get(number).is_none_or(|file| file.identity != 0);
        by_path.retain(|name, number| name != path && !name.starts_with(&below) && !is_known_otherwise(number));
    }

    /// The length of a file of which the layout below may not know all.
    pub(super) fn length_of(&self, path: &str, identity: u64) -> Option<u64> {
        let state = self.state.lock();
        let file = state.find(path, identity).and_then(|number| state.files.get(&number));
        file.filter(|file| file.is_active() && file.failed.is_none()).map(|file| file.length)
    }

    /// The attributes of a file of which the layout below may not know all: length and time are those of the last write.
    ///
    /// - `file`: its number, if that is known.
    /// - `ask`: those of the layout below.
    ///
    /// # Errors
    /// As `ask`.
    pub(super) fn attributes(
        &self,
        file: Option<u64>,
        path: &str,
        ask: impl FnOnce() -> Result<Attributes>,
    ) -> Result<Attributes> {
        if !self.sets_times {
            self.settle();
            return ask();
        }
        let about = ask()?;
        // A link has its own.
        if about.kind != Kind::File {
            return Ok(about);
        }
        let state = self.state.lock();
        let file = file.or_else(|| state.find(path, about.identity)).and_then(|number| state.files.get(&number));
        Ok(match file.filter(|file| file.is_active() && file.failed.is_none()) {
            Some(file) => Attributes { length: file.length, mtime: file.written.unwrap_or(about.mtime), ..about },
            None => about,
        })
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

    /// Lengths have been changed by name.
    pub(super) fn ask_lengths(&self) {
        let mut state = self.state.lock();
        for file in state.files.values_mut().filter(|file| file.queued == 0) {
            if let Some(length) = file.object.as_ref().and_then(|object| object.ask(|object| object.length()).ok()) {
                file.length = length;
            }
        }
    }

    fn is_missing(&self, path: &str) -> bool {
        matches!(self.below.stat(path), Err(e) if e.kind() == ErrorKind::NotFound)
    }

    /// Gives up the calls of a file that is to be removed, if it was made here and nothing of it has reached the layout below: it is as
    /// if it had never been made, whatever of the calls before reaches the layout below. Otherwise waits for all calls.
    pub(super) fn before_removal(&self, path: &str) {
        let mut state = self.state.lock();
        let number = state.by_path.get(path).copied().filter(|number| {
            state.files.get(number).is_some_and(|file| file.unstored && file.failed.is_none() && file.writers == 0)
        });
        let Some(number) = number else {
            drop(state);
            return self.settle();
        };
        let (of_file, kept) =
            std::mem::take(&mut state.queue).into_iter().partition(|operation| operation.file == number);
        state.queue = kept;
        let of_file: VecDeque<Operation> = of_file;
        for operation in &of_file {
            match &operation.work {
                Work::Write(_, bytes) => state.counts.held -= bytes.len() as u64,
                Work::Call(_, answer) => *answer.lock() = Some(Ok(())),
                Work::Publish | Work::Close => {}
            }
        }
        state.counts.queued -= of_file.len() as u64;
        let object = state.files.get_mut(&number).and_then(|file| {
            file.queued -= of_file.len() as u64;
            file.held.clear();
            file.closes += 1;
            file.object.take()
        });
        state.let_go(number);
        drop(state);
        self.changed.notify_all();
        if let Some(object) = object {
            // Nobody asks for its bytes.
            let _ = object.close();
        }
    }

    fn identity(&self, path: &str) -> u64 {
        self.below.stat(path).map_or(0, |about| about.identity)
    }

    /// Opens a file for writing; returns its number.
    pub(super) fn open_write(&self, path: &str, how: OpenWrite, writer: WriterId) -> Result<u64> {
        let makes = match how {
            OpenWrite::Replace => self.is_missing(path),
            OpenWrite::New => true,
            OpenWrite::Any | OpenWrite::Existing => false,
        };
        if how == OpenWrite::Replace && !makes {
            self.settle();
        }
        {
            let mut state = self.state.lock();
            if let Some(number) = state.by_path.get(path).copied() {
                let file = state.file(number)?;
                let known = file.told;
                if file.writers > 0 || !known {
                    file.usable()?;
                }
                let usable = file.failed.is_none() && file.object.is_some();
                if usable && matches!(how, OpenWrite::Any | OpenWrite::Existing) {
                    file.writers += 1;
                    return Ok(number);
                }
            }
        }
        let object = self.below.open_write(path, how, writer)?;
        let identity = self.identity(path);
        let length = match how {
            OpenWrite::Replace | OpenWrite::New => 0,
            OpenWrite::Any | OpenWrite::Existing => object.length()?,
        };
        let mut state = self.state.lock();
        let found = state.find(path, identity);
        let number = found.unwrap_or_else(|| state.add(path, identity));
        if !state.by_path.contains_key(path) {
            state.by_path.insert(path.to_string(), number);
        }
        let file = state.file(number)?;
        // Of a failure that was told, nothing is left.
        let anew = how == OpenWrite::Replace || file.failed.is_some() && file.writers == 0;
        if anew {
            (file.failed, file.told) = (None, false);
        }
        if let Err(e) = file.usable() {
            drop(state);
            let _ = object.close();
            return Err(e);
        }
        file.writers += 1;
        file.unstored = makes && file.queued == 0;
        // Another thread may have opened it meanwhile, and a replaced file was open as what it was.
        let spare = if file.object.is_none() || anew {
            file.length = if file.queued > 0 && !anew { length.max(file.length) } else { length };
            file.object.replace(Arc::new(Opened(RwLock::new(Some(object)))))
        } else {
            Some(Arc::new(Opened(RwLock::new(Some(object)))))
        };
        drop(state);
        // Nothing was written through it, or everything that was has reached it.
        spare.map_or(Ok(()), |spare| spare.close())?;
        Ok(number)
    }

    /// Opens a file for reading; returns its number.
    pub(super) fn open_read(&self, path: &str) -> Result<(u64, ReaderBelow)> {
        {
            let mut state = self.state.lock();
            if let Some(file) = state.by_path.get(path).copied()
                && let Some(of) = state.files.get_mut(&file).filter(|of| of.is_active())
            {
                of.failed.as_ref().map_or(Ok(()), |e| Err(e.again()))?;
                of.readers += 1;
                return Ok((file, None));
            }
        }
        let object = self.below.open_read(path)?;
        let identity = self.identity(path);
        let mut state = self.state.lock();
        let number = state.find(path, identity).unwrap_or_else(|| state.add(path, identity));
        let file = state.file(number)?;
        file.readers += 1;
        let closes = file.closes;
        Ok((number, Some((object, closes))))
    }

    /// Adds a write; waits while too many bytes are held.
    ///
    /// - `offset`: `None` for the end of the file. Returns the end of the bytes.
    pub(super) fn write(&self, file: u64, offset: Option<u64>, pieces: &[IoSlice<'_>]) -> Result<u64> {
        let total: usize = pieces.iter().map(|piece| piece.len()).sum();
        let mut bytes = Vec::new();
        let memory = |_| Error::new(ErrorKind::NoMemory, format!("cannot hold {total} bytes"));
        bytes.try_reserve_exact(total).map_err(memory)?;
        pieces.iter().for_each(|piece| bytes.extend_from_slice(piece));
        let mut state = self.state.lock();
        let has_room = |state: &State| {
            let failed = state.files.get(&file).is_none_or(|file| file.failed.is_some());
            failed || state.counts.held == 0 || state.counts.held + total as u64 <= self.limit
        };
        state = self.wait_until(state, has_room);
        let of = state.file(file)?;
        of.usable()?;
        let offset = offset.unwrap_or(of.length);
        let end = offset.checked_add(total as u64).filter(|end| *end <= i64::MAX as u64);
        let beyond = || Error::new(ErrorKind::OutOfBounds, "file offsets end at 2^63 - 1").at_byte(offset);
        let end = end.ok_or_else(|| beyond().in_object(of.path.clone()))?;
        if total > 0 {
            state.push(file, Work::Write(offset, Arc::new(bytes)));
            self.changed.notify_all();
        }
        Ok(end)
    }

    fn settle_file(&self, file: u64) -> Result<()> {
        let mut state = self.state.lock();
        let end = state.file(file)?.end;
        state = self.wait_until(state, |state| state.reached() >= end);
        state.file(file)?.usable()
    }

    /// Publishes what was written; `wait`: returns when it was.
    pub(super) fn publish(&self, file: u64, wait: bool) -> Result<()> {
        {
            let mut state = self.state.lock();
            state.file(file)?.usable()?;
            state.push(file, Work::Publish);
            self.changed.notify_all();
        }
        if wait { self.settle_file(file) } else { Ok(()) }
    }

    /// A call of the file below, behind those that are queued; its result.
    pub(super) fn call(
        &self,
        file: u64,
        call: impl FnOnce(&dyn WriteObject) -> Result<()> + Send + 'static,
    ) -> Result<()> {
        let answer = Answer::default();
        let mut state = self.state.lock();
        state.file(file)?.usable()?;
        state.push(file, Work::Call(Box::new(call), answer.clone()));
        self.changed.notify_all();
        let state = self.wait_until(state, |_| answer.lock().is_some());
        drop(state);
        let result = answer.lock().take();
        if result.as_ref().is_some_and(Result::is_err) {
            // A failure of the queue is known now.
            let _ = self.state.lock().file(file).and_then(File::usable);
        }
        result.unwrap_or(Ok(()))
    }

    /// Truncates or extends a file.
    pub(super) fn truncate(&self, file: u64, length: u64) -> Result<()> {
        self.forget_time_of(file);
        let after = Arc::new(Mutex::new(None));
        let told = after.clone();
        let outcome = self.call(file, move |object| {
            let outcome = object.truncate(length);
            *told.lock() = object.length().ok();
            outcome
        });
        let after = *after.lock();
        let mut state = self.state.lock();
        if let (Ok(file), Some(after)) = (state.file(file), after)
            && file.queued == 0
        {
            file.length = after;
        }
        outcome
    }

    pub(super) fn length(&self, file: u64) -> Result<u64> {
        let mut state = self.state.lock();
        let file = state.file(file)?;
        file.usable()?;
        Ok(file.length)
    }

    /// The file that is open below.
    pub(super) fn ask<T>(&self, file: u64, what: impl FnOnce(&dyn WriteObject) -> Result<T>) -> Result<T> {
        let object = self.state.lock().file(file)?.object.clone();
        let closed = || Error::new(ErrorKind::InvalidArgument, "the file is closed");
        object.ok_or_else(closed)?.ask(what)
    }

    /// Reads: held bytes from memory, others from the file below.
    ///
    /// - `own`: the reader's own object below, opened here where it is needed; `None` for a writer.
    pub(super) fn read(
        &self,
        file: u64,
        offset: u64,
        out: &mut [u8],
        own: Option<(&str, &mut ReaderBelow)>,
    ) -> Result<usize> {
        let (object, length, covered, closes) = {
            let mut state = self.state.lock();
            let of = state.file(file)?;
            if let Some(e) = &of.failed {
                return Err(e.again());
            }
            let active = of.is_active().then_some(of.length);
            let end = offset.saturating_add(out.len() as u64);
            (of.object.clone(), active, of.held.within(offset..end), of.closes)
        };
        let mut own = own;
        let mut below = |at: u64, out: &mut [u8]| -> Result<usize> {
            if let Some(object) = &object {
                match object.ask(|object| object.read_at(at, out)) {
                    Err(e)
                        if matches!(e.kind(), ErrorKind::Unsupported | ErrorKind::InvalidArgument) && own.is_some() => {
                    }
                    outcome => return outcome,
                }
            }
            let Some((path, own)) = &mut own else {
                return Err(Error::new(ErrorKind::InvalidArgument, "the file is closed"));
            };
            if own.as_ref().is_none_or(|(_, opened)| *opened != closes) {
                match self.below.open_read(path) {
                    Ok(object) => **own = Some((object, closes)),
                    // Its name is gone; the object is not.
                    Err(e) if e.kind() == ErrorKind::NotFound && own.is_some() => {}
                    Err(e) => return Err(e),
                }
            }
            own.as_ref().map_or(Ok(0), |(object, _)| object.read_at(at, out))
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
        let closes = {
            let mut state = self.state.lock();
            let of = state.file(file)?;
            if let Some(e) = &of.failed {
                return Err(e.again());
            }
            if of.is_active() {
                return Ok(of.length);
            }
            of.closes
        };
        if own.as_ref().is_none_or(|(_, opened)| *opened != closes) {
            match self.below.open_read(path) {
                Ok(object) => *own = Some((object, closes)),
                Err(e) if e.kind() == ErrorKind::NotFound && own.is_some() => {}
                Err(e) => return Err(e),
            }
        }
        own.as_ref().map_or(Ok(0), |(object, _)| object.length())
    }

    /// A writer is gone.
    pub(super) fn leave(&self, file: u64) {
        let mut state = self.state.lock();
        let Ok(of) = state.file(file) else { return };
        of.writers -= 1;
        if of.writers == 0 {
            state.push(file, Work::Close);
            self.changed.notify_all();
        }
    }

    /// A writer has closed the file; `wait`: returns when its bytes lie below.
    pub(super) fn close(&self, file: u64, wait: bool) -> Result<()> {
        let mut state = self.state.lock();
        let outcome = state.file(file)?.usable();
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
        let of = state.file(file)?;
        of.readers -= 1;
        let outcome = outcome.and(of.usable());
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
            let calls = Queue::take(&mut state);
            let Some(first) = calls.first() else { return };
            let file = first.file;
            state.current = Some(first.number);
            let mut of = state.files.get_mut(&file);
            if let Some(of) = &mut of {
                of.unstored = false;
            }
            let mut object = of.as_ref().and_then(|of| of.object.clone());
            // Closed below if nobody has opened it again.
            let closes = matches!(first.work, Work::Close);
            let mut stamp = None;
            if closes {
                let idle = of.filter(|of| of.writers == 0 && of.queued == 1);
                object = idle.and_then(|of| {
                    of.closes += 1;
                    stamp = of.written.take();
                    of.object.take()
                });
            }
            drop(state);
            if let (Some(time), Some(object)) = (stamp, object.as_ref().filter(|_| self.sets_times)) {
                // The file's time is that of the program's last write, not of ours. The bytes do not depend on it.
                let change = Change { mtime: Some(time), ..Change::default() };
                let _ = object.ask(|object| object.set_attributes(&change));
            }
            let (made, failed) = Queue::make(calls, object.as_deref());
            let mut state = self.state.lock();
            state.counts.queued -= made.len() as u64;
            if let Some(of) = state.files.get_mut(&file) {
                of.queued -= made.len() as u64;
            }
            for (number, write) in made {
                let Some((offset, length)) = write else { continue };
                state.counts.held -= length;
                if failed.is_none() {
                    state.counts.stored += length;
                }
                if let Some(of) = state.files.get_mut(&file) {
                    of.held.take_out(offset..offset + length, number);
                }
            }
            if let Some(failure) = failed {
                state.fail(file, &failure);
            }
            state.current = None;
            state.let_go(file);
            drop(state);
            self.changed.notify_all();
        }
    }

    /// Makes calls of one file; returns their numbers, with offset and length of writes, and the failure.
    #[allow(clippy::type_complexity)] // One pair, used once.
    fn make(calls: Vec<Operation>, object: Option<&Opened>) -> (Vec<(u64, Option<(u64, u64)>)>, Option<Error>) {
        let about = |operation: &Operation| match &operation.work {
            Work::Write(offset, bytes) => (operation.number, Some((*offset, bytes.len() as u64))),
            _ => (operation.number, None),
        };
        let made = calls.iter().map(about).collect();
        let lost = || Error::new(ErrorKind::InvalidArgument, "the file is closed");
        let ask =
            |what: &mut dyn FnMut(&dyn WriteObject) -> Result<()>| object.ok_or_else(lost)?.ask(|object| what(object));
        let writes: Vec<&Arc<Vec<u8>>> =
            calls.iter().filter_map(|o| if let Work::Write(_, b) = &o.work { Some(b) } else { None }).collect();
        if let Some(Operation { work: Work::Write(offset, _), .. }) = calls.first() {
            let pieces: Vec<IoSlice<'_>> = writes.iter().map(|bytes| IoSlice::new(bytes)).collect();
            return (made, ask(&mut |object| object.write_at(*offset, &pieces)).err());
        }
        let mut failed = None;
        for Operation { work, .. } in calls {
            match work {
                Work::Write(..) => {}
                Work::Publish => failed = ask(&mut |object| object.publish()).err(),
                Work::Close => failed = object.and_then(|object| object.close().err()),
                Work::Call(call, answer) => {
                    let mut call = Some(call);
                    let outcome = ask(&mut |object| call.take().map_or(Ok(()), |call| call(object)));
                    *answer.lock() = Some(outcome);
                }
            }
        }
        (made, failed)
    }
}
