//! A file that a program has open.
//!
//! A handle lives from `open` to `release`. Where the layout publishes a file when it is closed, `flush`, which the kernel sends
//! at every `close(2)`, closes the file below: so the program is told of failures, and others see the file when `close` returns. The
//! handle then rests, and is woken by whoever still uses it (a second descriptor, a mapping), or before its name goes.

use std::io::IoSlice;
use std::sync::RwLock;
use std::sync::atomic::{AtomicBool, Ordering};
use thalweg_layout::errno::{self, Errno};
use thalweg_layout::{Layout, OpenWrite, ReadObject, WriteObject, WriterId};
use thalweg_types::Result;

/// A handle.
pub struct Open {
    /// The file's number.
    pub ino: u64,
    state: RwLock<State>,
    dirty: AtomicBool,
}

enum State {
    Read(Box<dyn ReadObject>),
    Write(Box<dyn WriteObject>),
    /// Closed below; open for writing above.
    Rests,
    Closed,
}

fn poisoned() -> thalweg_types::Error {
    errno::failure(Errno::IO, "use a file whose last call broke off", "")
}

impl Open {
    /// Opened for reading.
    pub fn to_read(ino: u64, object: Box<dyn ReadObject>) -> Open {
        Open { ino, state: RwLock::new(State::Read(object)), dirty: AtomicBool::new(false) }
    }

    /// Opened for writing, and reading.
    pub fn to_write(ino: u64, object: Box<dyn WriteObject>) -> Open {
        Open { ino, state: RwLock::new(State::Write(object)), dirty: AtomicBool::new(false) }
    }

    /// Bytes now; `None` where that is not known to the handle.
    pub fn length(&self) -> Result<Option<u64>> {
        match &*self.state.read().map_err(|_| poisoned())? {
            State::Read(object) => object.length().map(Some),
            State::Write(object) => object.length().map(Some),
            State::Rests | State::Closed => Ok(None),
        }
    }

    /// Whether it can write now.
    pub fn writes(&self) -> bool {
        self.state.read().is_ok_and(|state| matches!(&*state, State::Write(_)))
    }

    /// Reads at an offset; `name` wakes a handle that rests.
    pub fn read_at(
        &self,
        offset: u64,
        out: &mut [u8],
        wake: &dyn Fn() -> Result<Box<dyn WriteObject>>,
    ) -> Result<usize> {
        loop {
            match &*self.state.read().map_err(|_| poisoned())? {
                State::Read(object) => return object.read_at(offset, out),
                State::Write(object) => return object.read_at(offset, out),
                State::Closed => return Err(errno::failure(Errno::BADF, "read", "")),
                State::Rests => {}
            }
            self.wake(wake)?;
        }
    }

    /// Calls with the file open for writing.
    pub fn writing<T>(
        &self,
        wake: &dyn Fn() -> Result<Box<dyn WriteObject>>,
        call: impl Fn(&dyn WriteObject) -> Result<T>,
    ) -> Result<T> {
        loop {
            match &*self.state.read().map_err(|_| poisoned())? {
                State::Write(object) => return call(&**object),
                State::Read(_) | State::Closed => return Err(errno::failure(Errno::BADF, "write", "")),
                State::Rests => {}
            }
            self.wake(wake)?;
        }
    }

    /// Writes at an offset.
    pub fn write_at(&self, offset: u64, bytes: &[u8], wake: &dyn Fn() -> Result<Box<dyn WriteObject>>) -> Result<()> {
        self.dirty.store(true, Ordering::Release);
        self.writing(wake, |object| object.write_at(offset, &[IoSlice::new(bytes)]))
    }

    /// Cuts or extends.
    pub fn truncate(&self, length: u64, wake: &dyn Fn() -> Result<Box<dyn WriteObject>>) -> Result<()> {
        self.dirty.store(true, Ordering::Release);
        self.writing(wake, |object| object.truncate(length))
    }

    /// Makes what was written durable; nothing for a handle that reads.
    pub fn sync(&self, wake: &dyn Fn() -> Result<Box<dyn WriteObject>>) -> Result<()> {
        if let State::Read(_) = &*self.state.read().map_err(|_| poisoned())? {
            return Ok(());
        }
        self.writing(wake, |object| object.sync())
    }

    /// At a `close(2)`: what was written is published, the handle rests.
    pub fn rest(&self) -> Result<()> {
        if !self.dirty.swap(false, Ordering::AcqRel) {
            return Ok(());
        }
        let mut state = self.state.write().map_err(|_| poisoned())?;
        match std::mem::replace(&mut *state, State::Rests) {
            State::Write(object) => object.close(),
            other => {
                *state = other;
                Ok(())
            }
        }
    }

    /// Opens a handle that rests again. Opens before it locks: whoever takes a name away holds the names and wakes handles.
    pub fn wake(&self, open: &dyn Fn() -> Result<Box<dyn WriteObject>>) -> Result<()> {
        if !self.rests() {
            return Ok(());
        }
        let opened = open();
        let mut state = self.state.write().map_err(|_| poisoned())?;
        match (&*state, opened) {
            (State::Rests, Ok(object)) => *state = State::Write(object),
            (State::Rests, Err(e)) => return Err(e),
            // Another was faster.
            (_, Ok(object)) => object.close()?,
            (_, Err(_)) => {}
        }
        Ok(())
    }

    fn rests(&self) -> bool {
        self.state.read().is_ok_and(|state| matches!(&*state, State::Rests))
    }

    /// Ends it.
    pub fn close(&self) -> Result<()> {
        let Ok(mut state) = self.state.write() else { return Err(poisoned()) };
        match std::mem::replace(&mut *state, State::Closed) {
            State::Write(object) => object.close(),
            _ => Ok(()),
        }
    }
}

/// Opens a file that is there for writing.
pub fn open_again(layout: &dyn Layout, path: Option<&str>, writer: WriterId) -> Result<Box<dyn WriteObject>> {
    let gone = || errno::failure(Errno::STALE, "open again a file that has no name any more", "");
    layout.open_write(path.ok_or_else(gone)?, OpenWrite::Existing, writer)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use thalweg_layout::{Container, container::Options};
    use thalweg_store::Memory;

    const WRITER: WriterId = WriterId(3);

    fn container() -> Arc<dyn Layout> {
        Arc::new(Container::new(vec![Arc::new(Memory::new())], Options::default()).unwrap())
    }

    fn read(layout: &dyn Layout) -> Vec<u8> {
        let object = layout.open_read("f").unwrap();
        let mut out = vec![0; object.length().unwrap() as usize];
        object.read_exact_at(0, &mut out).unwrap();
        out
    }

    #[test]
    fn a_handle_that_rests_goes_on_when_it_is_used() {
        let layout = container();
        let open = Open::to_write(2, layout.open_write("f", OpenWrite::New, WRITER).unwrap());
        let wake = || open_again(&*layout, Some("f"), WRITER);
        open.write_at(0, b"one", &wake).unwrap();
        open.rest().unwrap();
        assert!(!open.writes());
        open.write_at(3, b"two", &wake).unwrap();
        let mut out = [0; 6];
        assert_eq!(open.read_at(0, &mut out, &wake).unwrap(), 6);
        assert_eq!(&out, b"onetwo");
        open.close().unwrap();
        assert_eq!(read(&*layout), b"onetwo");
        assert_eq!(errno::of(&open.write_at(0, b"x", &wake).unwrap_err()), Errno::BADF.raw_os_error());
    }

    #[test]
    fn a_handle_that_wrote_nothing_does_not_rest_and_one_without_a_name_cannot_wake() {
        let layout = container();
        let open = Open::to_write(2, layout.open_write("f", OpenWrite::New, WRITER).unwrap());
        open.rest().unwrap();
        assert!(open.writes());
        open.truncate(3, &|| unreachable!()).unwrap();
        open.rest().unwrap();
        let stale = open.sync(&|| open_again(&*layout, None, WRITER)).unwrap_err();
        assert_eq!(errno::of(&stale), Errno::STALE.raw_os_error());
    }
}
