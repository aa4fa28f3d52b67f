//! An object being written: parts of one length; the object appears at close.

use super::Shared;
use crate::runtime::run;
use opendal::{Buffer, Writer};
use std::io::IoSlice;
use std::sync::{Arc, MutexGuard};
use thalweg_store::pieces::{self, Rest};
use thalweg_store::{WriteObject, unsupported};
use thalweg_types::mutex::Mutex;
use thalweg_types::{Error, ErrorKind, Result};

pub struct Writing {
    shared: Arc<Shared>,
    name: String,
    state: Mutex<State>,
}

struct State {
    /// `None` once the object is closed or aborted.
    writer: Option<Writer>,
    /// The part being collected.
    part: Vec<u8>,
    /// Bytes of earlier parts.
    sent: u64,
    /// Whether a part was passed to the service.
    begun: bool,
    /// The error that ended writing.
    lost: Option<String>,
}

impl State {
    fn length(&self) -> u64 {
        self.sent + self.part.len() as u64
    }
}

impl Writing {
    pub fn new(shared: Arc<Shared>, name: String, writer: Writer) -> Writing {
        let state = State { writer: Some(writer), part: Vec::new(), sent: 0, begun: false, lost: None };
        Writing { shared, name, state: Mutex::new(state) }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }

    fn cannot(&self, what: &str) -> Error {
        unsupported(&self.shared.address, what, &self.shared.shown(&self.name))
    }

    fn alive(&self, what: &str, state: &State) -> Result<()> {
        let Some(why) = &state.lost else { return Ok(()) };
        let what = format!("{what}: an earlier write failed ({why})");
        Err(self.shared.wrong(ErrorKind::Io, &what, &self.name))
    }

    /// Sends the collected part.
    fn send(&self, what: &str, state: &mut State) -> Result<()> {
        let part = std::mem::take(&mut state.part);
        if part.is_empty() {
            return Ok(());
        }
        let (bytes, at) = (part.len() as u64, state.sent);
        let Some(writer) = &mut state.writer else { return Err(self.cannot(what)) };
        state.begun = true;
        let sent = self.shared.ask(what, &self.name, writer.write(Buffer::from(part)));
        sent.map_err(|error| {
            state.lost = Some(error.to_string());
            error.at_byte(at)
        })?;
        state.sent += bytes;
        Ok(())
    }
}

impl WriteObject for Writing {
    fn write_at(&self, offset: u64, pieces: &[IoSlice<'_>]) -> Result<()> {
        let total = pieces::total(pieces);
        if total == 0 {
            return Ok(());
        }
        let state = &mut *self.lock();
        let end = state.length();
        if offset != end {
            return Err(self.cannot(&format!("write anywhere but at the end, byte {end}")).at_byte(offset));
        }
        self.alive("write", state)?;
        let most = self.shared.part;
        let largest = (most as u64).saturating_mul(super::MOST_PARTS);
        if end + total > largest {
            let what = format!("write: an object holds at most {largest} bytes in parts of {most}");
            return Err(self.shared.wrong(ErrorKind::NoSpace, &what, &self.name).at_byte(end));
        }
        let mut rest = Rest::new(pieces);
        while !rest.is_empty() {
            // Grows as needed for a small object; allocated once for a large one.
            if state.part.capacity() == 0 && (total >= most as u64 || state.begun) {
                state.part.reserve_exact(most);
            }
            let room = most - state.part.len();
            let next = rest.next(usize::MAX, room as u64);
            next.iter().for_each(|piece| state.part.extend_from_slice(piece));
            rest = rest.after(pieces::total(&next));
            if state.part.len() == most {
                self.send("write", state)?;
            }
        }
        Ok(())
    }

    fn length(&self) -> Result<u64> {
        Ok(self.lock().length())
    }

    fn read_at(&self, offset: u64, _out: &mut [u8]) -> Result<usize> {
        Err(self.cannot("read an object that is being written").at_byte(offset))
    }

    fn truncate(&self, length: u64) -> Result<()> {
        Err(self.cannot("truncate an object").at_byte(length))
    }

    fn punch(&self, _offset: u64, _length: u64) -> Result<()> {
        Ok(())
    }

    fn sync(&self) -> Result<()> {
        self.alive("sync", &self.lock())
    }

    fn close(self: Box<Self>) -> Result<()> {
        let state = &mut *self.lock();
        self.alive("close", state)?;
        self.send("close", state)?;
        let Some(writer) = &mut state.writer else { return Err(self.cannot("close")) };
        self.shared.ask("close", &self.name, writer.close())?;
        state.writer = None;
        Ok(())
    }
}

impl Drop for Writing {
    /// Aborts the upload: a service keeps, and charges for, parts of unfinished uploads.
    fn drop(&mut self) {
        let state = &mut *self.lock();
        if let (Some(mut writer), true) = (state.writer.take(), state.begun) {
            let _ = run(async move { writer.abort().await });
        }
    }
}
