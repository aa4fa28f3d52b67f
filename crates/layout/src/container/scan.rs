//! Scans logs from front to back: index logs block by block; data logs record by record, if an index log is missing, torn
//! or incomplete.

use super::index::Source;
use super::index::block::{self, BLOCK_HEADER, Entry};
use super::index::run::Run;
use super::place::Place;
use super::record::{Kind, Log, RECORD_HEADER, Record, SEGMENT_HEADER, Segment};
use thalweg_store::ReadObject;
use thalweg_types::checksum::Crc32c;
use thalweg_types::{Error, ErrorKind, Result};

/// Bytes read at a time.
const WINDOW: u64 = 256 << 10;

/// Reads an object one window at a time.
struct Window<'a> {
    object: &'a dyn ReadObject,
    end: u64,
    at: u64,
    bytes: Vec<u8>,
}

impl<'a> Window<'a> {
    fn new(object: &'a dyn ReadObject, end: u64) -> Window<'a> {
        Window { object, end, at: 0, bytes: Vec::new() }
    }

    /// Bytes `at..at + count`.
    ///
    /// # Errors
    /// `Torn` if the object ends earlier.
    fn take(&mut self, at: u64, count: u64) -> Result<&[u8]> {
        let window = self.at..self.at + self.bytes.len() as u64;
        if at < window.start || at + count > window.end {
            if count > self.end.saturating_sub(at) {
                return Err(Error::new(ErrorKind::Torn, "the log ends early").at_byte(self.end));
            }
            let length = (self.end - at).min(WINDOW.max(count));
            self.bytes.clear();
            let no_memory = |_| Error::new(ErrorKind::NoMemory, format!("cannot hold {length} bytes"));
            self.bytes.try_reserve(length as usize).map_err(no_memory)?;
            self.bytes.resize(length as usize, 0);
            self.at = at;
            let got = self.object.read_at(at, &mut self.bytes)?;
            self.bytes.truncate(got);
            if (got as u64) < count {
                return Err(Error::new(ErrorKind::Torn, "the log ends early").at_byte(at + got as u64));
            }
        }
        let within = (at - self.at) as usize;
        Ok(&self.bytes[within..within + count as usize])
    }
}

fn check_head(place: &Place, source: &Source, log: Log, bytes: &[u8]) -> Result<()> {
    let found = Segment::decode(log, bytes)?;
    let expected = Segment {
        container: place.stamp.container,
        session: source.session,
        writer: source.writer,
        number: source.segment,
    };
    match found == expected {
        true => Ok(()),
        false => Err(Error::new(ErrorKind::Corrupt, "this is the log of another segment").at_byte(0)),
    }
}

/// Passes all entries of an index log up to byte `end` to `tell`, block by block. Returns the end of the covered part of
/// the data log, and the damage that ended the scan early, if any.
///
/// # Errors
/// Errors of the store, and of `tell`. Damage is no error.
pub fn index_log(
    place: &Place,
    source: &Source,
    object: &dyn ReadObject,
    end: u64,
    mut tell: impl FnMut(Entry) -> Result<()>,
) -> Result<(u64, Option<Error>)> {
    let mut window = Window::new(object, end);
    let (mut covered, mut before) = (SEGMENT_HEADER, SEGMENT_HEADER);
    let mut failed = None;
    let read = (|| {
        check_head(place, source, Log::Index, window.take(0, SEGMENT_HEADER)?)?;
        let mut at = SEGMENT_HEADER;
        while at < end {
            let head = block::decode_head(window.take(at, BLOCK_HEADER)?).map_err(|e| e.shifted(at))?;
            if head.session != source.session || head.from > covered {
                return Err(Error::new(ErrorKind::Corrupt, "a block that does not follow the one before").at_byte(at));
            }
            at += BLOCK_HEADER;
            let entries = window.take(at, head.length)?;
            let decoded = block::decode(&head, entries, |entry| {
                tell(entry).map_err(|e| {
                    failed = Some(e);
                    Error::new(ErrorKind::Corrupt, "told")
                })
            });
            decoded.map_err(|e| e.shifted(at))?;
            at += head.length;
            covered = covered.max(head.to);
            // Several blocks may cover one range: the range is known to be complete when a block covers the next.
            before = head.from;
        }
        Ok(())
    })();
    match (read, failed) {
        (_, Some(e)) => Err(e),
        (Ok(()), None) => Ok((covered, None)),
        (Err(e), None) if is_damage(&e) => Ok((before, Some(e))),
        (Err(e), None) => Err(e),
    }
}

/// Whether an error means damaged bytes, and not a failed read or the format of a later release.
fn is_damage(e: &Error) -> bool {
    matches!(e.kind(), ErrorKind::Torn | ErrorKind::Corrupt)
}

/// Result of a scan of a data log.
#[derive(Debug)]
pub struct Scanned {
    /// End of the last complete record.
    pub whole: u64,
    /// Whether the log was closed.
    pub ended: bool,
    /// The damage that ended the scan before the end of the object.
    pub torn: Option<Error>,
}

/// Passes each record of a data log from byte `from` (0: its header is checked) to byte `end` to `tell`.
///
/// - `verify`: payloads are read and checked; the first damaged payload ends the scan.
///
/// # Errors
/// Errors of the store, and of `tell`. Damage is no error: it ends the scan.
pub fn data_log(
    place: &Place,
    source: &Source,
    object: &dyn ReadObject,
    from: u64,
    end: u64,
    verify: bool,
    mut tell: impl FnMut(&Record) -> Result<()>,
) -> Result<Scanned> {
    let mut window = Window::new(object, end);
    let mut at = from;
    if from < SEGMENT_HEADER {
        at = SEGMENT_HEADER;
        if let Err(e) = window.take(0, SEGMENT_HEADER).and_then(|head| check_head(place, source, Log::Data, head)) {
            return if is_damage(&e) { Ok(Scanned { whole: 0, ended: false, torn: Some(e) }) } else { Err(e) };
        }
    }
    while at < end {
        let next = window.take(at, RECORD_HEADER).and_then(|bytes| Record::decode(bytes, at));
        let record = match next {
            Ok(record) => record,
            Err(e) if is_damage(&e) => return Ok(Scanned { whole: at, ended: false, torn: Some(e) }),
            Err(e) => return Err(e),
        };
        let behind = at + RECORD_HEADER + record.payload();
        let whole = if behind > end {
            Err(Error::new(ErrorKind::Torn, "the log ends within a record").at_byte(end))
        } else if verify {
            check_payload(&mut window, &record)
        } else {
            Ok(())
        };
        match whole {
            Ok(()) => {}
            Err(e) if is_damage(&e) => return Ok(Scanned { whole: at, ended: false, torn: Some(e) }),
            Err(e) => return Err(e),
        }
        at = behind;
        if record.kind == Kind::End {
            return Ok(Scanned { whole: at, ended: true, torn: None });
        }
        tell(&record)?;
    }
    Ok(Scanned { whole: at, ended: false, torn: None })
}

/// Whether the bytes of a record match their checksum.
///
/// # Errors
/// Errors of the store.
pub fn is_intact(object: &dyn ReadObject, record: &Record) -> Result<bool> {
    let mut window = Window::new(object, record.at + RECORD_HEADER + record.payload());
    match check_payload(&mut window, record) {
        Ok(()) => Ok(true),
        Err(e) if matches!(e.kind(), ErrorKind::Corrupt | ErrorKind::Torn) => Ok(false),
        Err(e) => Err(e),
    }
}

fn check_payload(window: &mut Window<'_>, record: &Record) -> Result<()> {
    let (mut crc, mut at, mut left) = (Crc32c::new(), record.at + RECORD_HEADER, record.payload());
    while left > 0 {
        let run = left.min(WINDOW);
        crc.update(window.take(at, run)?);
        (at, left) = (at + run, left - run);
    }
    match record.payload() == 0 || crc.finish() == record.crc {
        true => Ok(()),
        false => {
            Err(Error::new(ErrorKind::Corrupt, "the bytes of a record do not match their checksum").at_byte(record.at))
        }
    }
}

/// The index entry of a record; `None` for records that affect no bytes.
pub fn entry_of(record: &Record) -> Option<Entry> {
    match record.kind {
        Kind::Write if record.length > 0 => {
            Some(Entry::Run(Run::one(record.clock, record.offset, record.length, record.at + RECORD_HEADER)))
        }
        Kind::Append if record.length > 0 => {
            let run = Run::one(record.clock, record.offset, record.length, record.at + RECORD_HEADER);
            Some(Entry::Run(Run { appended: true, ..run }))
        }
        Kind::Hole if record.length > 0 => {
            Some(Entry::Run(Run { hole: true, ..Run::one(record.clock, record.offset, record.length, record.at) }))
        }
        Kind::Cut => Some(Entry::Cut { clock: record.clock, length: record.offset, log: record.at }),
        _ => None,
    }
}
