//! What a program sees: the layout below, completed by what is held.

use super::below::closed;
use super::queue::Queue;
use super::state::File;
use crate::{Attributes, Kind, Life, ReadObject, Stat, WriteObject};
use thalweg_types::{Error, ErrorKind, Result};

/// Looks at a file that is closed below just then, before a look waits for the queue.
const LOOKS: usize = 100;

/// A reader's own object of the layout below, and how often the file had been closed below when it was opened.
pub(super) type ReaderBelow = (Box<dyn ReadObject>, u64);

impl Queue {
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

    /// Whether a program extends the file.
    ///
    /// - `own`: as for [`Queue::read`].
    pub(super) fn life(&self, file: u64, own: Option<(&str, &mut ReaderBelow)>) -> Result<Life> {
        let (leased, written, closes, identity) = {
            let mut state = self.state.lock();
            let of = state.file(file)?;
            // The lease below is ours, and stays until what was written is stored.
            (of.lease.is_some().then_some(of.leases > 0), of.written, of.closes, of.identity)
        };
        if leased.is_some() {
            return Ok(Life { leased, modified: written });
        }
        match own {
            Some((path, own)) => self.own(path, identity, closes, own)?.life(),
            None => self.ask(file, |object| object.life()),
        }
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
}
