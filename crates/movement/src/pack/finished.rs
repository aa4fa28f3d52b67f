//! Writing a pack as a process group: its front, back and index.

use super::{COPIED, Encoding, Pack, Writer, move_bytes, reserve};
use crate::buffer::zeros;
use crate::laid::Laid;
use std::borrow::Cow;
use std::io::IoSlice;
use thalweg_bp::characteristic::Location;
use thalweg_bp::index::Index;
use thalweg_bp::process_group::{self, Header, SECTION_HEAD};
use thalweg_bp::trailer::{self, BlockSum, Trailer};
use thalweg_layout::WriteObject;
use thalweg_profile::{Phase, span};
use thalweg_types::checksum::Crc32c;
use thalweg_types::{Error, ErrorKind, Extent, Result};

/// The writes of `slices`, which follow each other from byte `start`, without those at `written`.
fn unwritten<'s>(slices: Vec<&'s [u8]>, start: u64, written: &[Extent]) -> Vec<(u64, Vec<IoSlice<'s>>)> {
    let mut writes = Vec::new();
    let (mut begin, mut at, mut io) = (start, start, Vec::new());
    let mut left = written.iter().peekable();
    for slice in slices.into_iter().filter(|slice| !slice.is_empty()) {
        let end = at + slice.len() as u64;
        while left.peek().is_some_and(|extent| extent.offset + extent.length <= at) {
            left.next();
        }
        if left.peek().is_some_and(|extent| extent.offset <= at) {
            if !io.is_empty() {
                writes.push((begin, std::mem::take(&mut io)));
            }
            begin = end;
        } else {
            io.push(IoSlice::new(slice));
        }
        at = end;
    }
    if !io.is_empty() {
        writes.push((begin, io));
    }
    writes
}

/// Zeros behind a group of `needed` bytes in the extent `place`.
fn filler(place: Extent, needed: u64) -> Result<u64> {
    let length = place.length;
    length
        .checked_sub(needed)
        .ok_or_else(|| Error::new(ErrorKind::InvalidArgument, format!("{needed} bytes do not fit {length}")))
}

impl Pack<'_> {
    pub(super) fn encode_attributes(&self) -> (Vec<u8>, Vec<Extent>) {
        let mut out = vec![0; SECTION_HEAD];
        let mut places = Vec::with_capacity(self.attributes.len());
        for a in &self.attributes {
            let at = out.len() as u64;
            process_group::put_attribute(&mut out, a.id, &a.name, &a.path, &a.value);
            places.push(Extent::new(at, out.len() as u64 - at));
        }
        let length = out.len() as u64;
        process_group::put_section_head(&mut out, 0, self.attributes.len() as u32, length);
        (out, places)
    }

    /// The group's index fragment for the extent `place`, as the writing methods return it; nothing is written.
    ///
    /// # Errors
    /// `InvalidArgument` if the group does not fit in `place`, or the pack has no encoded records ([`Pack::of_blocks`]).
    pub fn fragment(&mut self, place: Extent, header: &Header, writer: Writer) -> Result<Index> {
        self.settle_deferred();
        self.finish(place, header, writer).map(|(_, _, fragment)| fragment)
    }

    /// Writes the group to the extent `place` of `object`: with one write, if no bytes were written through; otherwise the
    /// remaining bytes, then the front, which contains the final lengths. Large deferred blocks are written before, in turns with their
    /// statistics, if `object` is a file of this machine. An extent longer than the group is filled with zeros.
    ///
    /// Returns the group's index fragment. A pack may be written several times (once per method).
    ///
    /// # Errors
    /// As [`Pack::fragment`], and nothing is written then; errors of the store.
    pub fn write(&mut self, object: &dyn WriteObject, place: Extent, header: &Header, writer: Writer) -> Result<Index> {
        let offset = place.offset;
        let mut written = Vec::new();
        if self.has_turns(object) {
            // Before the first turn: bytes behind the extent are those of other ranks.
            self.check_encoding()?;
            filler(place, self.length())?;
            if self.gone == 0 {
                reserve(object, offset, place.length)?;
            }
            written = self.write_deferred_in_turns(object, offset)?;
        }
        self.settle_deferred();
        let (front, back, fragment) = self.finish(place, header, writer)?;
        let mut slices: Vec<&[u8]> = Vec::new();
        let mut at = self.front + self.gone;
        if self.gone == 0 {
            slices.push(&front);
            at = 0;
        }
        slices.extend(self.waiting());
        slices.push(&back);
        if self.gone == 0 && written.is_empty() {
            reserve(object, offset, place.length)?;
        }
        // The trailer, which makes the group complete, is in the last write.
        for (at, io) in unwritten(slices, at, &written) {
            object.write_at(offset + at, &io)?;
        }
        if self.gone > 0 {
            object.write_at(offset, &[IoSlice::new(&front)])?;
            self.write_moved(object, offset)?;
        }
        Ok(fragment)
    }

    /// Like [`Pack::write`], for a group with blocks in a spill file, from its byte 0: completes the front there, copies the
    /// spilled bytes to `place` of `object`, `step` bytes at a time, and writes the remaining bytes behind them.
    ///
    /// - `spill`: `None` if the rank has no spill file.
    ///
    /// # Errors
    /// As [`Pack::write`]; `Torn` if the spill file no longer contains the spilled bytes; `NoMemory`.
    pub fn write_spilled(
        &mut self,
        spill: Option<&dyn WriteObject>,
        object: &dyn WriteObject,
        place: Extent,
        header: &Header,
        writer: Writer,
        step: usize,
    ) -> Result<Index> {
        let Some(spill) = spill.filter(|_| self.gone > 0) else { return self.write(object, place, header, writer) };
        self.settle_deferred();
        let (front, back, fragment) = self.finish(place, header, writer)?;
        spill.write_at(0, &[IoSlice::new(&front)])?;
        self.write_moved(spill, 0)?;
        let spilled = self.front + self.gone;
        move_bytes(spill, 0, object, place.offset, spilled, step)?;
        let mut slices = self.waiting();
        slices.push(&back);
        let io: Vec<IoSlice<'_>> = slices.into_iter().filter(|s| !s.is_empty()).map(IoSlice::new).collect();
        object.write_at(place.offset + spilled, &io)?;
        Ok(fragment)
    }

    /// Passes the bytes of the group for the extent `place` to `sink`, in order, on a rank whose bytes another rank writes.
    /// Spilled bytes are read from `spill`, where the group starts at byte 0, `step` bytes at a time.
    ///
    /// # Errors
    /// As [`Pack::write_spilled`]; that of `sink`.
    pub fn pour(
        &mut self,
        spill: Option<&dyn WriteObject>,
        place: Extent,
        header: &Header,
        writer: Writer,
        step: usize,
        sink: &mut dyn FnMut(&[u8]) -> Result<()>,
    ) -> Result<Index> {
        self.settle_deferred();
        let (front, back, fragment) = self.finish(place, header, writer)?;
        sink(&front)?;
        if self.gone > 0 {
            let spill =
                spill.ok_or_else(|| Error::new(ErrorKind::InvalidArgument, "where bytes went through to is lost"))?;
            self.write_moved(spill, 0)?;
            let (mut at, end) = (self.front, self.front + self.gone);
            let mut chunk = zeros(usize::try_from(end - at).unwrap_or(step).min(step.max(1)), COPIED)?;
            while at < end {
                let n = (end - at).min(chunk.len() as u64) as usize;
                if spill.read_at(at, &mut chunk[..n])? != n {
                    return Err(Error::new(ErrorKind::Torn, "bytes written before are lost").at_byte(at));
                }
                sink(&chunk[..n])?;
                at += n as u64;
            }
        }
        self.waiting().into_iter().try_for_each(&mut *sink)?;
        sink(&back)?;
        Ok(fragment)
    }

    /// The bytes of the group for the extent `place`, for access in any order, on a rank whose bytes other ranks write. Spilled
    /// bytes are read from `spill`, where the group starts at byte 0.
    ///
    /// # Errors
    /// As [`Pack::fragment`]; errors of writing the front to `spill`.
    pub fn lay<'p>(
        &'p mut self,
        spill: Option<&'p dyn WriteObject>,
        place: Extent,
        header: &Header,
        writer: Writer,
    ) -> Result<(Laid<'p>, Index)> {
        self.settle_deferred();
        let (front, back, fragment) = self.finish(place, header, writer)?;
        let mut stored = None;
        if self.gone > 0 {
            let spill =
                spill.ok_or_else(|| Error::new(ErrorKind::InvalidArgument, "where bytes went through to is lost"))?;
            spill.write_at(0, &[IoSlice::new(&front)])?;
            self.write_moved(spill, 0)?;
            stored = Some((spill, self.front + self.gone));
        }
        let mut laid = Laid::behind(stored);
        if stored.is_none() {
            laid.push(Cow::Owned(front));
        }
        self.waiting().into_iter().for_each(|slice| laid.push(Cow::Borrowed(slice)));
        laid.push(Cow::Owned(back));
        Ok((laid, fragment))
    }

    fn check_encoding(&self) -> Result<()> {
        if self.encoding == Encoding::Blocks {
            let what = "no method of the group takes process groups: the pack contains only blocks";
            return Err(Error::new(ErrorKind::InvalidArgument, what));
        }
        Ok(())
    }

    /// Front, back and index fragment of the group for the extent `place`. All blocks must be settled.
    fn finish(&self, place: Extent, header: &Header, writer: Writer) -> Result<(Vec<u8>, Vec<u8>, Index)> {
        self.check_encoding()?;
        let _taking = span(Phase::Characteristics, 0);
        let (mut attributes, attribute_places) = self.encode_attributes();
        let records_end = self.front + self.records;
        let Extent { offset, length } = place;
        let needed = records_end + attributes.len() as u64 + trailer::length(self.blocks.len());
        attributes.resize(attributes.len() + filler(place, needed)? as usize, 0);
        let mut front = Vec::with_capacity(self.front as usize);
        header.encode(&mut front);
        if (front.len() + SECTION_HEAD) as u64 != self.front {
            return Err(Error::new(ErrorKind::InvalidArgument, "the header of a process group changed its length"));
        }
        thalweg_bp::wire::patch_u64(&mut front, 0, length);
        let section = front.len();
        front.extend_from_slice(&[0; SECTION_HEAD]);
        process_group::put_section_head(
            &mut front,
            section,
            self.blocks.len() as u32,
            SECTION_HEAD as u64 + self.records,
        );

        let mut framing = Crc32c::new();
        framing.update(&front);
        let mut index = Index::default();
        index.add_process_group(header, writer.rank, offset);
        let mut sums = Vec::with_capacity(self.blocks.len());
        for placed in &self.blocks {
            let digest = placed.digest.as_ref().ok_or_else(|| {
                Error::new(ErrorKind::InvalidArgument, "a block without statistics").in_variable(&*placed.spec.name)
            })?;
            framing.update(&placed.head_bytes);
            let payload = self.front + placed.record + placed.head;
            sums.push(BlockSum { payload: Extent::new(payload, placed.payload), crc: digest.crc });
            let location = Location {
                record_offset: offset + self.front + placed.record,
                payload_offset: offset + payload,
                file_index: writer.file_index,
                time_index: header.time_index,
            };
            let record = placed.spec.record(digest.statistics.as_ref(), placed.payload);
            index.add_block(&header.group, &record, location, placed.spec.value.as_ref())?;
        }
        framing.update(&attributes);
        for (a, place) in self.attributes.iter().zip(&attribute_places) {
            let start = offset + records_end + place.offset;
            let location = Location {
                record_offset: start,
                payload_offset: start + place.length,
                file_index: writer.file_index,
                time_index: header.time_index,
            };
            index.add_attribute(&header.group, a.id, &a.path, &a.name, &a.value, location)?;
        }
        let mut back = attributes;
        Trailer {
            run: writer.run,
            group: Extent::new(offset, length),
            rank: writer.rank,
            ranks: writer.ranks,
            time_index: header.time_index,
            file_index: writer.file_index,
            framing: framing.finish(),
            blocks: sums,
        }
        .encode(&mut back);
        Ok((front, back, index))
    }
}
