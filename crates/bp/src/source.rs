//! Byte sources of decoders: a length, and bytes at an offset.
//!
//! Decoders read through [`fill`], [`bytes`] and [`array()`], and searches skip holes through [`stored_before`]. These distinguish two kinds of failure. *Damage*: the bytes were
//! read and are invalid, or refer to an offset behind the end; a search for an older end continues ([`unless_damaged`]). *A
//! failed read*: the bytes are not known, and nothing may be concluded from them; every search ends with the error.

use std::cell::Cell;
use thalweg_types::{Error, ErrorKind, Result, holes};

/// Bytes of one file or object.
pub trait Source {
    /// Number of bytes.
    fn length(&self) -> u64;
    /// Fills `out` from `offset`. Decoders call [`fill`] instead.
    ///
    /// # Errors
    /// `Torn` where the bytes end before; others are failures of the device or store, after which `out` has no defined content.
    fn read(&self, offset: u64, out: &mut [u8]) -> Result<()>;
    /// The end of the last stored bytes before `offset`, or a later offset, `offset` at most: bytes between the returned offset and
    /// `offset` are a hole and read as zeros. `offset` itself where holes are not known. Searches call [`stored_before`] instead.
    ///
    /// # Errors
    /// Failures of the device or store: where the bytes are stored is not known.
    fn stored_before(&self, offset: u64) -> Result<u64> {
        Ok(offset)
    }
}

/// Whether an error means damaged bytes, rather than a failed read.
pub fn is_damage(error: &Error) -> bool {
    use ErrorKind::{Corrupt, InvalidArgument, OutOfBounds, Torn};
    matches!(error.kind(), Corrupt | Torn | OutOfBounds | InvalidArgument)
}

/// `None` for an error that means damage.
///
/// # Errors
/// Errors of failed reads.
pub fn unless_damaged<T>(result: Result<T>) -> Result<Option<T>> {
    match result {
        Ok(value) => Ok(Some(value)),
        Err(e) if is_damage(&e) => Ok(None),
        Err(e) => Err(e),
    }
}

/// Fills `out` from `offset`.
///
/// # Errors
/// `Torn` where `out` reaches behind [`Source::length`], which is damage. Errors of the source are never damage: kinds that
/// decoders use for damage, and `Unsupported`, become `Io`, also if the file was truncated meanwhile.
pub fn fill(source: &(impl Source + ?Sized), offset: u64, out: &mut [u8]) -> Result<()> {
    if offset.checked_add(out.len() as u64).is_none_or(|end| end > source.length()) {
        return Err(Error::new(ErrorKind::Torn, format!("{} bytes are not there", out.len())).at_byte(offset));
    }
    source.read(offset, out).map_err(|e| {
        let what = match e.kind() {
            ErrorKind::Torn => "the file is shorter than when it was opened: it was cut meanwhile",
            _ => "the bytes cannot be read",
        };
        no_damage(e, what, offset)
    })
}

/// As [`Source::stored_before`], never more than `offset`.
///
/// # Errors
/// Errors of the source; they are never damage, as in [`fill`].
pub fn stored_before(source: &(impl Source + ?Sized), offset: u64) -> Result<u64> {
    let end =
        source.stored_before(offset).map_err(|e| no_damage(e, "the holes of the file cannot be looked up", offset))?;
    Ok(end.min(offset))
}

/// The first byte at or after `from` that may be stored, the end of the source if there is none: `from` itself where the hole is
/// shorter than what is believed ([`holes::BELIEVED`]).
///
/// # Errors
/// As [`stored_before`].
/// # Cost
/// Up to 64 calls of [`Source::stored_before`].
pub fn stored_after(source: &(impl Source + ?Sized), from: u64) -> Result<u64> {
    let next = holes::stored_after(from, source.length(), |offset| stored_before(source, offset))?;
    Ok(if next.saturating_sub(from) >= holes::BELIEVED { next } else { from })
}

/// An error of a source: kinds that decoders use for damage, and `Unsupported`, become `Io`.
fn no_damage(e: Error, what: &str, offset: u64) -> Error {
    if !is_damage(&e) && e.kind() != ErrorKind::Unsupported {
        return e;
    }
    let mut error = Error::new(ErrorKind::Io, what).at_byte(e.place().byte.unwrap_or(offset));
    if let Some(object) = &e.place().object {
        error = error.in_object(object.clone());
    }
    error.caused_by(e)
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

/// Reads `length` bytes; fails before the allocation if the source has fewer.
///
/// # Errors
/// `Torn` where the source has fewer bytes; `NoMemory`; as [`fill`].
pub fn bytes(source: &(impl Source + ?Sized), offset: u64, length: u64, what: &str) -> Result<Vec<u8>> {
    if offset.checked_add(length).is_none_or(|end| end > source.length()) {
        return Err(Error::new(
            ErrorKind::Torn,
            format!("{what} needs {length} bytes, the file ends at {}", source.length()),
        )
        .at_byte(offset));
    }
    let too_long = || Error::new(ErrorKind::NoMemory, format!("cannot hold {length} bytes of {what}")).at_byte(offset);
    let wanted = usize::try_from(length).map_err(|_| too_long())?;
    let mut out = Vec::new();
    out.try_reserve_exact(wanted).map_err(|_| too_long())?;
    out.resize(wanted, 0);
    fill(source, offset, &mut out)?;
    Ok(out)
}

/// The `N` bytes at `offset`.
///
/// # Errors
/// As [`fill`].
pub fn array<const N: usize>(source: &(impl Source + ?Sized), offset: u64) -> Result<[u8; N]> {
    let mut out = [0; N];
    fill(source, offset, &mut out)?;
    Ok(out)
}

/// A source that counts the bytes read, to limit searches in files that were made to waste time.
pub struct Metered<'a, S: Source + ?Sized> {
    source: &'a S,
    read: Cell<u64>,
}

impl<'a, S: Source + ?Sized> Metered<'a, S> {
    /// A source with a count of 0.
    pub fn new(source: &'a S) -> Metered<'a, S> {
        Metered { source, read: Cell::new(0) }
    }

    /// Bytes read so far; every read counts as 128 at least.
    pub fn read_so_far(&self) -> u64 {
        self.read.get()
    }

    /// Adds work beyond reading to the count.
    pub fn charge(&self, bytes: u64) {
        self.read.set(self.read.get().saturating_add(bytes));
    }

    /// Most bytes that a search may read of false candidates: far more than after an interrupted output or damage, and still
    /// read within a moment.
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

    /// Counts as a short read.
    fn stored_before(&self, offset: u64) -> Result<u64> {
        self.charge(128);
        self.source.stored_before(offset)
    }
}
