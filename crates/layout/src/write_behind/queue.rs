//! The calls of programs: what they add to the queue, and what they wait for.

use super::Counts;
use super::below::{Opened, caught, closed};
use super::looks::ReaderBelow;
use super::state::{Answer, File, Operation, State, Untold, Work};
use crate::{Layout, OpenWrite, WriteObject, WriterId};
use std::io::IoSlice;
use std::sync::{Arc, MutexGuard};
use thalweg_types::mutex::{Condvar, Mutex};
use thalweg_types::{Error, ErrorKind, Result};

/// See the module's page.
pub(super) struct Queue {
    pub(super) below: Arc<dyn Layout>,
    pub(super) limit: u64,
    /// A file of the layout below is one object: its time can be set as it is closed, and readers see what was written after they opened
    /// it. Elsewhere attributes wait until the file is stored, and readers open it again.
    pub(super) of_system: bool,
    pub(super) state: Mutex<State>,
    pub(super) changed: Condvar,
}

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

    pub(super) fn wait_until<'a>(
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

    pub(super) fn identity(&self, path: &str) -> u64 {
        self.below.stat(path).map_or(0, |about| about.identity)
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

    /// Truncates or extends a file by its name.
    pub(super) fn truncate_named(&self, path: &str, length: u64) -> Result<()> {
        let mut state = self.state.lock();
        state.depends_on_nothing_lost(&[path])?;
        let name = path.to_string();
        self.answered(state, None, |answer| Work::TruncateNamed(name, length, answer)).map(drop)
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
        let is_taken =
            |operation: &Operation| operation.file == Some(number) && !matches!(operation.work, Work::Release);
        let (taken, kept): (Vec<_>, Vec<_>) = all.into_iter().partition(is_taken);
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
        let mut bytes = {
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
            let spare = state.spares.take(total);
            let left = self.limit.saturating_sub(state.counts.held);
            state.spares.shrink(left);
            spare
        };
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

    /// Takes a lease of the file below, until [`Queue::release`]; `false` if the layout below has none.
    pub(super) fn lease(&self, file: u64) -> Result<bool> {
        let mut state = self.state.lock();
        state.usable(file)?;
        if state.file(file)?.lease.is_none() {
            let object = state.file(file)?.object.clone();
            drop(state);
            let Some(lease) = object.ok_or_else(closed)?.ask(|object| object.lease())? else { return Ok(false) };
            state = self.state.lock();
            state.file(file)?.lease.get_or_insert(lease);
        }
        state.file(file)?.leases += 1;
        Ok(true)
    }

    /// A lease ends, when the calls before have been made: followers of the file below know until then that more may come.
    pub(super) fn release(&self, file: u64) {
        let mut state = self.state.lock();
        if let Ok(of) = state.file(file) {
            (of.leases, of.ending) = (of.leases - 1, of.ending + 1);
        }
        state.push(Some(file), Work::Release);
        self.changed.notify_all();
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
}
