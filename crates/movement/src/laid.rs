//! A finished process group as it is taken by whoever carries it: in any order, in pieces of any length.

use crate::buffer::grow;
use crate::pack::COPIED;
use std::borrow::Cow;
use thalweg_layout::WriteObject;
use thalweg_types::{Error, ErrorKind, Extent, Result};

/// A finished process group: its bytes in storage, and slices of memory for the rest.
pub struct Laid<'p> {
    /// Where its first bytes are, and how many.
    stored: Option<(&'p dyn WriteObject, u64)>,
    slices: Vec<Cow<'p, [u8]>>,
    /// End of each slice within the group.
    ends: Vec<u64>,
}

impl<'p> Laid<'p> {
    /// A group of which so many bytes are in storage, at its beginning; the rest is to be pushed.
    pub(crate) fn behind(stored: Option<(&'p dyn WriteObject, u64)>) -> Laid<'p> {
        Laid { stored, slices: Vec::new(), ends: Vec::new() }
    }

    pub(crate) fn push(&mut self, slice: Cow<'p, [u8]>) {
        if !slice.is_empty() {
            self.ends.push(self.length() + slice.len() as u64);
            self.slices.push(slice);
        }
    }

    /// Bytes of the group.
    pub fn length(&self) -> u64 {
        self.ends.last().copied().unwrap_or(self.stored.map_or(0, |(_, length)| length))
    }

    /// The bytes of `part`, counted from the group's start; only those in storage are copied.
    ///
    /// # Errors
    /// `OutOfBounds` where it leaves the group; `NoMemory`; errors of reading.
    pub fn get(&self, part: Extent) -> Result<Vec<Cow<'_, [u8]>>> {
        let (stored, slices) = self.parts(part)?;
        let mut found = Vec::new();
        if stored > 0 {
            let mut bytes = Vec::new();
            self.read_stored(part.offset, stored, &mut bytes)?;
            found.push(Cow::Owned(bytes));
        }
        found.extend(slices.map(Cow::Borrowed));
        Ok(found)
    }

    /// As [`Laid::get`], appended to `out`.
    ///
    /// # Errors
    /// As [`Laid::get`]; `out` is then as it was.
    pub fn append_to(&self, part: Extent, out: &mut Vec<u8>) -> Result<()> {
        let (stored, slices) = self.parts(part)?;
        grow(out, usize::try_from(part.length).unwrap_or(usize::MAX), "for a piece of the process group")?;
        if stored > 0 {
            self.read_stored(part.offset, stored, out)?;
        }
        slices.for_each(|slice| out.extend_from_slice(slice));
        Ok(())
    }

    /// Number of bytes of `part` in storage, at its beginning, and the slices with the rest.
    fn parts(&self, part: Extent) -> Result<(usize, impl Iterator<Item = &[u8]>)> {
        let Some(end) = part.end().filter(|end| *end <= self.length()) else {
            return Err(Error::new(
                ErrorKind::OutOfBounds,
                format!("{part:?} leaves a group of {} bytes", self.length()),
            ));
        };
        let at = part.offset.max(self.stored.map_or(0, |(_, length)| length.min(end)));
        let first = self.ends.partition_point(|e| *e <= at);
        let slices = self.slices.iter().zip(&self.ends).skip(first).map(move |(slice, slice_end)| {
            let start = slice_end - slice.len() as u64;
            let (from, until) = (at.max(start), end.min(*slice_end));
            slice.get(from.saturating_sub(start) as usize..until.saturating_sub(start) as usize).unwrap_or_default()
        });
        Ok(((at - part.offset) as usize, slices.take_while(|slice| !slice.is_empty())))
    }

    fn read_stored(&self, from: u64, count: usize, out: &mut Vec<u8>) -> Result<()> {
        let Some((object, _)) = self.stored else { return Ok(()) };
        grow(out, count, COPIED)?;
        let before = out.len();
        out.resize(before + count, 0);
        let read = object.read_at(from, &mut out[before..]).and_then(|n| match n == count {
            true => Ok(()),
            false => Err(Error::new(ErrorKind::Torn, "bytes written before are lost").at_byte(from)),
        });
        read.inspect_err(|_| out.truncate(before))
    }
}
