//! An object being read: ranges of one version of it.

use super::Shared;
use crate::runtime::run_apart;
use opendal::options::ReaderOptions;
use opendal::{Buffer, Metadata, Reader};
use std::ops::Range;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, UNIX_EPOCH};
use thalweg_store::{Life, ReadObject};
use thalweg_types::{Error, ErrorKind, Result};

/// Bytes of one request, which must arrive within its timeout.
pub const RUN: usize = 16 << 20;

pub struct Reading {
    shared: Arc<Shared>,
    name: String,
    reader: Reader,
    length: u64,
    life: Life,
}

/// Bytes from which on a reply comes in so many parts that they are put together elsewhere.
const LONG: u64 = 256 << 10;

fn ask(shared: &Shared, name: &str, reader: &Reader, range: Range<u64>) -> Result<Buffer> {
    if range.end - range.start < LONG {
        return shared.ask("read", name, reader.read(range));
    }
    let reader = reader.clone();
    let read = run_apart(async move { reader.read(range).await }).map_err(|e| e.in_object(shared.shown(name)))?;
    read.map_err(|cause| shared.failed("read", name, &cause))
}

/// An object that exists as far as is known: its length is asked for when it is needed.
pub struct Unasked {
    shared: Arc<Shared>,
    name: String,
    reader: Reader,
    asked: OnceLock<Reading>,
}

impl Unasked {
    pub fn new(shared: Arc<Shared>, name: &str) -> Result<Unasked> {
        let reader = shared.ask("open", name, shared.operator.reader(name))?;
        Ok(Unasked { shared, name: name.into(), reader, asked: OnceLock::new() })
    }

    fn asked(&self) -> Result<&Reading> {
        if let Some(asked) = self.asked.get() {
            return Ok(asked);
        }
        let about = self.shared.ask("open", &self.name, self.shared.operator.stat(&self.name))?;
        let reading = Reading::new(self.shared.clone(), &self.name, &about)?;
        Ok(self.asked.get_or_init(|| reading))
    }
}

impl ReadObject for Unasked {
    fn length(&self) -> Result<u64> {
        self.asked()?.length()
    }

    fn read_at(&self, offset: u64, out: &mut [u8]) -> Result<usize> {
        let end = offset.checked_add(out.len() as u64).filter(|_| !out.is_empty() && out.len() <= RUN);
        if let (None, Some(end)) = (self.asked.get(), end) {
            let read = || ask(&self.shared, &self.name, &self.reader, offset..end);
            match self.shared.pace.of(out.len(), read) {
                Ok(bytes) if bytes.len() == out.len() => {
                    let mut filled = 0;
                    for part in bytes {
                        out[filled..filled + part.len()].copy_from_slice(&part);
                        filled += part.len();
                    }
                    return Ok(filled);
                }
                Err(e) if e.kind() == ErrorKind::NotFound => return Err(e),
                // Shorter than was asked for, or a failure that the next request meets too.
                _ => {}
            }
        }
        self.asked()?.read_at(offset, out)
    }

    fn life(&self) -> Result<Life> {
        self.asked()?.life()
    }
}

impl Reading {
    pub fn new(shared: Arc<Shared>, name: &str, about: &Metadata) -> Result<Reading> {
        let service = shared.operator.info().full_capability();
        let options = ReaderOptions {
            // The service refuses to read an object that has replaced this one: its tag differs.
            if_match: about.etag().filter(|_| service.read_with_if_match).map(str::to_string),
            content_length_hint: Some(about.content_length()),
            ..ReaderOptions::default()
        };
        let reader = shared.ask("open", name, shared.operator.reader_options(name, options))?;
        let modified = about.last_modified().and_then(|time| {
            let milliseconds = u64::try_from(time.into_inner().as_millisecond()).ok()?;
            UNIX_EPOCH.checked_add(Duration::from_millis(milliseconds))
        });
        // Only closed objects are visible.
        let life = Life { leased: Some(false), modified };
        Ok(Reading { shared, name: name.into(), reader, length: about.content_length(), life })
    }
}

impl ReadObject for Reading {
    fn length(&self) -> Result<u64> {
        Ok(self.length)
    }

    fn read_at(&self, offset: u64, out: &mut [u8]) -> Result<usize> {
        let there = usize::try_from(self.length.saturating_sub(offset)).unwrap_or(usize::MAX).min(out.len());
        let mut at = offset;
        for run in out[..there].chunks_mut(RUN) {
            let range = at..at + run.len() as u64;
            let read = || ask(&self.shared, &self.name, &self.reader, range);
            let read = self.shared.pace.of(run.len(), read);
            let bytes = read.map_err(|error| {
                let replaced = error.kind() == ErrorKind::AlreadyExists;
                let error = error.at_byte(at);
                match replaced {
                    true => {
                        let what = "cannot read: the object was replaced since it was opened";
                        let object = self.shared.shown(&self.name);
                        Error::new(ErrorKind::NotReady, what).in_object(object).at_byte(at).caused_by(error)
                    }
                    false => error,
                }
            })?;
            if bytes.len() != run.len() {
                let what = format!("read: the service sent {} of {} bytes", bytes.len(), run.len());
                let at = at + bytes.len() as u64;
                return Err(self.shared.wrong(ErrorKind::Torn, &what, &self.name).at_byte(at));
            }
            let mut filled = 0;
            for part in bytes {
                run[filled..filled + part.len()].copy_from_slice(&part);
                filled += part.len();
            }
            at += run.len() as u64;
        }
        Ok(there)
    }

    fn life(&self) -> Result<Life> {
        Ok(self.life)
    }
}
