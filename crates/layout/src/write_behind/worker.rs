//! The thread that makes the calls in the queue, one at a time.

use super::below::{Opened, caught, closed};
use super::queue::Queue;
use super::state::{Operation, State, Work, lies_in};
use crate::{Change, OpenWrite, WriterId};
use std::io::IoSlice;
use std::sync::Arc;
use thalweg_types::{Error, Result};

/// Most writes that one call of the layout below takes.
const RUN: usize = 256;
/// Most bytes of these.
const RUN_BYTES: u64 = 32 << 20;

impl Queue {
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
            // Not under the lock: it takes the system a while.
            let mut freed = Vec::new();
            for Operation { number, work, .. } in calls {
                let Work::Write(offset, bytes) = work else { continue };
                let length = bytes.len() as u64;
                state.counts.held -= length;
                if failed.is_none() {
                    state.counts.stored += length;
                }
                if let Some(of) = file.and_then(|file| state.files.get_mut(&file)) {
                    of.held.take_out(offset..offset + length, number);
                }
                // Else a reader has it still.
                if let Ok(bytes) = Arc::try_unwrap(bytes) {
                    let left = self.limit.saturating_sub(state.counts.held);
                    freed.extend(state.spares.keep(bytes, left));
                }
            }
            if let (Some(failure), Some(file)) = (failed, file) {
                state.fail(file, &failure);
            }
            state.current = None;
            file.into_iter().for_each(|file| state.let_go(file));
            drop(state);
            drop(freed);
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
            Work::Release => {
                let number = file?;
                let ended = self.state.lock().files.get_mut(&number).and_then(|file| {
                    file.ending -= 1;
                    if file.leases + file.ending == 0 { file.lease.take() } else { None }
                });
                drop(ended);
                // A close before it has left the file to this call.
                self.make_close(number)
            }
            Work::Close => self.make_close(file?),
            Work::Call(call, answer) => {
                let outcome = open().and_then(|object| object.ask(call));
                *answer.lock() = Some(outcome.map(|()| 0));
                None
            }
            Work::Truncate(length, answer) => {
                let outcome = open().and_then(|object| object.ask(|object| object.truncate(length)));
                self.has_been_truncated(file?);
                *answer.lock() = Some(outcome.map(|()| 0));
                None
            }
            Work::TruncateNamed(path, length, answer) => {
                let outcome = caught(|| self.below.truncate(&path, length));
                let identity = self.identity(&path);
                let number = self.state.lock().find(&path, identity);
                number.into_iter().for_each(|number| self.has_been_truncated(number));
                *answer.lock() = Some(outcome.map(|()| 0));
                None
            }
            Work::Names(call, paths, answer) => {
                let outcome = caught(|| call(&*self.below));
                self.state.lock().by_path.retain(|name, _| !paths.iter().any(|path| lies_in(name, path)));
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

    /// The length of a file has been changed below. Bytes that are held were written after that.
    fn has_been_truncated(&self, number: u64) {
        let object = self.state.lock().files.get(&number).and_then(|file| file.object.clone());
        let now = object.map(|object| object.ask(|object| object.length()));
        if let (Some(Ok(now)), Ok(file)) = (now, self.state.lock().file(number)) {
            (file.length, file.written) = (now.max(file.held.end()), None);
        }
    }

    /// Closes a file below if nobody has opened it again.
    fn make_close(&self, number: u64) -> Option<Error> {
        let (object, time) = {
            let mut state = self.state.lock();
            let file = state.files.get_mut(&number).filter(|file| file.writers == 0 && file.queued == 1)?;
            let object = file.object.take()?;
            file.closes += 1;
            let taken = (object, file.written.take());
            state.closes += 1;
            taken
        };
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
