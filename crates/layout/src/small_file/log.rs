//! A log: written by one process, read by all.

use super::record::{self, Head};
use std::io::IoSlice;
use std::sync::Arc;
use thalweg_store::{Change, Lease, OpenWrite, ReadObject, Store, WriteObject};
use thalweg_types::{Error, ErrorKind, Result};

/// Bytes of heads that a process buffers before it writes a block of its name log.
const BLOCK: usize = 64 << 10;
/// Least and most room reserved at the end of a log beyond the requested bytes: an eighth of the log.
const FOUND: (u64, u64) = (64 << 10, 4 << 20);
/// Room at the end of a log that new and growing files leave for records that remove, rename or change names.
const KEPT_BACK: u64 = 16 << 10;
/// Bytes per read of a log's heads.
const WINDOW: usize = 256 << 10;

/// The object of a log in its folder.
pub fn data_name(log: u64) -> String {
    format!("data.{log:016x}")
}

/// The object of its name log.
pub fn names_name(log: u64) -> String {
    format!("names.{log:016x}")
}

/// A file's own object.
pub fn own_name(number: u64) -> String {
    format!("own.{number:016x}")
}

/// The number of a log by the name of its object.
pub fn number(name: &str, kind: &str) -> Option<u64> {
    let digits = name.strip_prefix(kind)?.strip_prefix('.')?;
    (digits.len() == 16).then(|| u64::from_str_radix(digits, 16).ok())?
}

/// A log that this process writes.
pub struct Writer {
    pub number: u64,
    folder: String,
    store: Arc<dyn Store>,
    data: Box<dyn WriteObject>,
    /// First byte of the next record.
    pub end: u64,
    names: Option<(Box<dyn WriteObject>, u64)>,
    /// A block of the name log could not be written: readers read the rest of the log instead.
    nameless: bool,
    /// End of the room reserved for the log.
    found: u64,
    /// Permission bits of the log's object, if the store has modes.
    pub mode: Option<u32>,
    /// Made from the spare: all of its room is for records that remove or change names.
    pub of_spare: bool,
    /// Heads that are in no block yet, and the first byte of their data.
    pending: Vec<(u64, Vec<u8>)>,
    pending_bytes: usize,
    /// First byte of the log that is in no block.
    covered: u64,
    scratch: Vec<u8>,
    _lease: Option<Lease>,
    /// PID of the writing process: a forked child has a copy of this value and does not use the log.
    process: u32,
    /// A write failed: no record may follow in this log.
    broken: bool,
}

impl Writer {
    /// A new log in the existing folder `folder`.
    pub fn new(store: Arc<dyn Store>, folder: &str) -> Result<Writer> {
        let number = thalweg_store::fresh();
        let name = format!("{folder}/{}", data_name(number));
        let data = store.open_write(&name, OpenWrite::New)?;
        let writer = Writer::begun(store.clone(), folder, number, data, false);
        if writer.is_err() {
            // No other process knows of it yet.
            let _ = store.remove(&name);
        }
        writer
    }

    /// A log made from the spare, which has the log's name already.
    pub fn of_spare(store: Arc<dyn Store>, folder: &str, number: u64) -> Result<Writer> {
        let data = store.open_write(&format!("{folder}/{}", data_name(number)), OpenWrite::Existing)?;
        Writer::begun(store, folder, number, data, true)
    }

    /// Takes the lease on the object, then writes the header: a log with a header and without a lease belongs to a dead writer.
    fn begun(
        store: Arc<dyn Store>,
        folder: &str,
        number: u64,
        data: Box<dyn WriteObject>,
        of_spare: bool,
    ) -> Result<Writer> {
        let lease = data.lease()?;
        data.write_at(0, &[IoSlice::new(&record::header(number, false))])?;
        let mode = match store.capability().modes {
            true => store.attributes(&format!("{folder}/{}", data_name(number))).ok().map(|about| about.mode),
            false => None,
        };
        Ok(Writer {
            number,
            folder: folder.to_string(),
            store,
            data,
            end: record::HEADER,
            names: None,
            nameless: false,
            found: record::HEADER,
            mode,
            of_spare,
            pending: Vec::new(),
            pending_bytes: 0,
            covered: record::HEADER,
            scratch: Vec::new(),
            _lease: lease,
            process: thalweg_store::pid(),
            broken: false,
        })
    }

    /// Whether this process began the log, and not its parent before a fork.
    pub fn is_own(&self) -> bool {
        self.process == thalweg_store::pid()
    }

    /// Whether records can still be written.
    pub fn usable(&self) -> bool {
        !self.broken
    }

    /// Reserves room for `bytes` at the end, and for the part that is kept back. Does nothing if the store cannot reserve.
    ///
    /// # Errors
    /// `NoSpace`; other errors of the store.
    pub fn find(&mut self, bytes: u64) -> Result<()> {
        if self.of_spare {
            return Err(Error::new(ErrorKind::NoSpace, "cannot take more bytes: the store is full"));
        }
        let needed = self.end.saturating_add(bytes).saturating_add(KEPT_BACK);
        if needed <= self.found {
            return Ok(());
        }
        let ample = needed.saturating_add((self.end / 8).clamp(FOUND.0, FOUND.1));
        let found = match self.data.reserve(self.end, ample - self.end) {
            Err(e) if e.kind() == ErrorKind::NoSpace => {
                self.data.reserve(self.end, needed - self.end)?;
                needed
            }
            other => other.map(|()| ample)?,
        };
        self.found = found;
        Ok(())
    }

    /// Writes a record in one write; returns the first byte of its data.
    ///
    /// # Errors
    /// `NoSpace`: the log is unchanged. After any other error the log takes no more records.
    pub fn put(&mut self, head: &Head, data: &[u8]) -> Result<u64> {
        if self.broken {
            return Err(Error::new(ErrorKind::Io, "a write of this log failed before"));
        }
        let mut bytes = std::mem::take(&mut self.scratch);
        bytes.clear();
        let told = record::put(&mut bytes, head, data);
        let at = self.end + told.end as u64 + 4;
        let written = self.data.write_at(self.end, &[IoSlice::new(&bytes)]);
        if let Err(e) = written {
            self.scratch = bytes;
            // Remove the incomplete record, so that the next one follows the last complete one.
            self.broken = e.kind() != ErrorKind::NoSpace || self.data.truncate(self.end).is_err();
            self.found = self.end;
            return Err(e);
        }
        self.end += bytes.len() as u64;
        self.pending_bytes += told.len();
        self.pending.push((at, bytes[told].to_vec()));
        if bytes.capacity() <= 4 * BLOCK {
            self.scratch = bytes;
        }
        if self.pending_bytes >= BLOCK {
            self.write_block();
        }
        Ok(at)
    }

    /// Writes a block of the name log. If that fails, the block and all later ones are missing; the log has the same information.
    fn write_block(&mut self) {
        if !self.pending.is_empty() && !self.nameless {
            self.nameless = self.try_block().is_err();
        }
        self.covered = self.end;
        self.pending.clear();
        self.pending_bytes = 0;
    }

    fn try_block(&mut self) -> Result<()> {
        let block = record::put_block(self.covered, self.end, &self.pending);
        if self.names.is_none() {
            let name = format!("{}/{}", self.folder, names_name(self.number));
            let object = self.store.open_write(&name, OpenWrite::New)?;
            object.write_at(0, &[IoSlice::new(&record::header(self.number, true))])?;
            self.names = Some((object, record::HEADER));
        }
        if let Some((object, end)) = &mut self.names {
            object.write_at(*end, &[IoSlice::new(&block)])?;
            *end += block.len() as u64;
        }
        Ok(())
    }

    /// Makes all records durable.
    pub fn sync(&mut self) -> Result<()> {
        self.data.sync()
    }

    /// Reads from the object that is being written.
    pub fn read_at(&self, offset: u64, out: &mut [u8]) -> Result<usize> {
        self.data.read_at(offset, out)
    }

    /// Ends the log, which makes it visible on stores that show objects only after their close.
    pub fn close(mut self) -> Result<()> {
        let name = format!("{}/{}", self.folder, data_name(self.number));
        // The time of the last record is the folder's time. Ending the log is no change of the folder.
        let recorded = self.mode.and_then(|_| self.store.attributes(&name).ok()).map(|about| about.mtime);
        if !self.broken {
            match self.put(&Head::End, &[]) {
                // A log without an end mark is read like that of a process that has died: all complete records count.
                Err(e) if e.kind() != ErrorKind::NoSpace => return Err(e),
                _ => {}
            }
            // A short log is read as fast as its name log.
            if self.names.is_some() || self.pending.len() > 64 {
                self.write_block();
            }
        }
        if self.of_spare || self.found > self.end {
            // Free the unused reserved room, or the zeros of the spare.
            self.data.truncate(self.end)?;
        }
        self.data.close()?;
        if recorded.is_some() {
            // The times of another owner's file cannot be set.
            let _ = self.store.set_attributes(&name, &Change { mtime: recorded, ..Change::default() });
        }
        match self.names.take() {
            Some((object, _)) if !self.nameless => object.close(),
            _ => Ok(()),
        }
    }
}

/// Where reading a log ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    /// At the end mark: no record will follow.
    Closed,
    /// At the end of a complete record, which is the log's last.
    Whole,
    /// At an incomplete record: it is being written, or its writer died.
    Torn,
}

/// A reader's position in a log.
#[derive(Debug, Clone)]
pub struct Position {
    /// The next record.
    pub at: u64,
    /// The next block of its name log; `None` after the last usable one.
    names_at: Option<u64>,
    /// Whether the header was read.
    begun: bool,
}

impl Position {
    pub fn start() -> Position {
        Position { at: record::HEADER, names_at: Some(record::HEADER), begun: false }
    }

    /// Whether the log had its header, before which its writer took the lease.
    pub fn begun(&self) -> bool {
        self.begun
    }
}

/// Passes every head from `position` on, and the first byte of its data, to `take`; moves `position` past the last one.
///
/// - `names`: opens the name log, which is read first: its blocks replace reading the log itself.
pub fn read_on(
    data: &dyn ReadObject,
    names: impl FnOnce() -> Result<Option<Box<dyn ReadObject>>>,
    number: u64,
    position: &mut Position,
    take: &mut dyn FnMut(u64, Head),
) -> Result<Ended> {
    if !position.begun {
        let mut header = [0; record::HEADER as usize];
        let got = data.read_at(0, &mut header)?;
        if got < header.len() {
            return Ok(Ended::Torn);
        }
        if header.iter().all(|byte| *byte == 0) {
            // A power cut may leave zeros in a log that was not synced or was made from the spare.
            return Ok(Ended::Torn);
        }
        if record::read_header(&header, false)? != number {
            return Err(Error::new(ErrorKind::Corrupt, "a log under the name of another").at_byte(0));
        }
        position.begun = true;
    }
    if let Some(mut at) = position.names_at.take()
        && let Some(names) = names()?
    {
        let mut header = [0; record::HEADER as usize];
        // A torn or damaged name log is ignored: the log itself is read.
        let good = names.read_at(0, &mut header)? == header.len()
            && record::read_header(&header, true).is_ok_and(|n| n == number);
        let next = |at| if good { next_block(&*names, at) } else { Ok(None) };
        while let Some(block) = next(at)? {
            let Ok(told) = record::block(&block) else { break };
            if told.from != position.at {
                break;
            }
            at += block.len() as u64;
            position.at = told.to;
            for (offset, head) in told.entries {
                if matches!(head, Head::End) {
                    return Ok(Ended::Closed);
                }
                take(offset, head);
            }
        }
    }
    let mut window = vec![0; 4 << 10];
    loop {
        let got = data.read_at(position.at, &mut window)?;
        if got == 0 {
            return Ok(Ended::Whole);
        }
        let mut used = 0;
        loop {
            let bytes = &window[used..got];
            let Some((head_length, data_length)) = record::fixed(bytes) else {
                if bytes.len() >= record::FIXED as usize {
                    return Ok(Ended::Torn);
                }
                break;
            };
            let Some(whole) = bytes.get(..record::FIXED as usize + head_length as usize + 4) else { break };
            let Ok(head) = record::head(whole, data_length) else { return Ok(Ended::Torn) };
            let data_at = position.at + whole.len() as u64;
            if matches!(head, Head::End) {
                position.at = data_at;
                return Ok(Ended::Closed);
            }
            // A record counts only with all of its data.
            let end = data_at + u64::from(data_length);
            let step = whole.len() + data_length as usize;
            if bytes.len() < step {
                let mut last = [0];
                if data_length > 0 && data.read_at(end - 1, &mut last)? == 0 {
                    return Ok(Ended::Torn);
                }
            }
            take(data_at, head);
            position.at = end;
            if bytes.len() < step {
                used = got;
                break;
            }
            used += step;
        }
        if used == 0 {
            // A record that does not fit the window.
            let needed = record::fixed(&window[..got]).map_or(0, |(h, _)| record::FIXED as usize + h as usize + 4);
            if got < window.len() && got < needed.max(record::FIXED as usize) {
                return Ok(Ended::Torn);
            }
            window.resize(needed.max(window.len() * 2), 0);
        } else if got == window.len() && window.len() < WINDOW {
            window.resize(WINDOW, 0);
        }
    }
}

fn next_block(names: &dyn ReadObject, at: u64) -> Result<Option<Vec<u8>>> {
    let mut fixed = [0; 8];
    if names.read_at(at, &mut fixed)? < fixed.len() {
        return Ok(None);
    }
    let Some(length) = record::block_length(&fixed) else { return Ok(None) };
    // A damaged length allocates no more memory than the object has bytes.
    if names.length()?.saturating_sub(at) < u64::from(length) + 12 {
        return Ok(None);
    }
    let mut bytes = vec![0; length as usize + 12];
    let got = names.read_at(at, &mut bytes)?;
    Ok((got == bytes.len()).then_some(bytes))
}
