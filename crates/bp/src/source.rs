//! Where bytes are read from: anything with a length that gives bytes at an offset. No file is known here.

use std::cell::Cell;
use thalweg_types::{Error, ErrorKind, Result};

/// Bytes of one file or object.
pub trait Source {
    /// How many there are.
    fn length(&self) -> u64;
    /// Fills `out` from `offset`; `Torn` where the bytes end before.
    fn read(&self, offset: u64, out: &mut [u8]) -> Result<()>;
}

impl Source for [u8] {
    fn length(&self) -> u64 {
        self.len() as u64
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> Result<()> {
        let bytes = usize::try_from(offset)
            .ok()
            .and_then(|start| self.get(start..start.checked_add(out.len())?))
            .ok_or_else(|| Error::new(ErrorKind::Torn, format!("{} bytes are not there", out.len())).at_byte(offset))?;
        out.copy_from_slice(bytes);
        Ok(())
    }
}

impl Source for Vec<u8> {
    fn length(&self) -> u64 {
        self.len() as u64
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> Result<()> {
        self.as_slice().read(offset, out)
    }
}

/// Reads `length` bytes, refused before memory is taken where the source has fewer.
pub fn bytes(source: &(impl Source + ?Sized), offset: u64, length: u64, what: &str) -> Result<Vec<u8>> {
    if offset.checked_add(length).is_none_or(|end| end > source.length()) {
        return Err(Error::new(
            ErrorKind::Torn,
            format!("{what} needs {length} bytes, the file ends at {}", source.length()),
        )
        .at_byte(offset));
    }
    let length =
        usize::try_from(length).map_err(|_| Error::new(ErrorKind::NoMemory, format!("{what} has {length} bytes")))?;
    let mut out = vec![0; length];
    source.read(offset, &mut out)?;
    Ok(out)
}

/// The `N` bytes at `offset`.
pub fn array<const N: usize>(source: &(impl Source + ?Sized), offset: u64) -> Result<[u8; N]> {
    let mut out = [0; N];
    source.read(offset, &mut out)?;
    Ok(out)
}

/// A source that counts what is read from it, for searches that give up where bytes were made to waste time.
pub struct Metered<'a, S: Source + ?Sized> {
    source: &'a S,
    read: Cell<u64>,
}

impl<'a, S: Source + ?Sized> Metered<'a, S> {
    /// Nothing read yet.
    pub fn new(source: &'a S) -> Metered<'a, S> {
        Metered { source, read: Cell::new(0) }
    }

    /// Bytes read so far; every read counts as 128 at least.
    pub fn read_so_far(&self) -> u64 {
        self.read.get()
    }

    /// Counts work that is more than its reading.
    pub fn charge(&self, bytes: u64) {
        self.read.set(self.read.get().saturating_add(bytes));
    }

    /// How much a search may read of candidates that turn out to be none: far beyond what an interrupted output or
    /// damage can cause, and little enough to be over in a moment.
    pub fn patience(&self) -> u64 {
        self.length().saturating_mul(32).saturating_add(64 << 20)
    }
}

impl<S: Source + ?Sized> Source for Metered<'_, S> {
    fn length(&self) -> u64 {
        self.source.length()
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> Result<()> {
        self.charge((out.len() as u64).max(128));
        self.source.read(offset, out)
    }
}
