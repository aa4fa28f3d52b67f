//! Counts and sums that are stored separately from their index entries, where other libraries ignore them.
//!
//! ADIOS 1.13 records minimum and maximum by default, and its listings change if an index has more. The sets of
//! [`crate::statistics::Level::Beside`] are therefore split when a full index is written: the BP index gets the bounds, and counts
//! and sums are stored in the extension section, as its last record:
//!
//! | size | field, one for each set of the variable with bitmap 0x43, in the order of the sets |
//! |---|---|
//! | u32 | number of finite values |
//! | f64 | their sum |
//! | f64 | sum of their squares |
//!
//! 20 bytes 0xFF mark a set with bounds only. Record [`crate::extension::Tag::SumsOf`] contains the location of each variable's
//! counts and sums ([`SumsLocations`]). Reading an entry joins the sets again, as in process groups and step records
//! ([`crate::characteristic`]).

use crate::characteristic::{self, MIN_MAX, Record, SUMS};
use crate::wire::{Cursor, Put};
use thalweg_types::checksum::{Crc32c, combined, crc32c};
use thalweg_types::{ByteOrder, ErrorKind, Extent, Result};

/// Bytes of count and sums of a set.
pub const LENGTH: usize = 20;
/// Marks a set without count and sums.
const NONE: [u8; LENGTH] = [0xff; LENGTH];
/// Bytes of a set's records that are stored separately: bitmap, id of the statistics, count and sums.
const RECORDS: usize = 6 + LENGTH;

/// Offset of the statistics records in a set, and whether they contain count and sums; `None` for sets without bounds and for
/// sets of [`crate::statistics::Level::Full`].
fn bounds(records: u8, set: &mut Cursor<'_>) -> Option<(usize, bool)> {
    for left in (1..=records).rev() {
        let at = set.position();
        match Record::next(set).ok()? {
            Record::Bitmap(MIN_MAX) => return Some((at, false)),
            Record::Bitmap(SUMS) if left >= 4 => {
                let again = set.take(1 + LENGTH, "statistics").ok()?[0] == 10;
                let again = again && matches!(Record::next(set).ok()?, Record::Bitmap(MIN_MAX));
                return again.then_some((at, true));
            }
            Record::Bitmap(_) | Record::Typed(_) => return None,
            _ => {}
        }
    }
    None
}

/// The sets of a variable with separate counts and sums, split one set at a time, without a copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Split<'a> {
    whole: &'a [u8],
    /// The sets without counts and sums.
    pub sets: LengthAndCrc,
    /// Counts and sums.
    pub sums: LengthAndCrc,
}

/// Length and checksum of bytes that are not in memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LengthAndCrc {
    /// Number of bytes.
    pub length: u64,
    /// Their CRC-32C.
    pub crc: u32,
}

/// One of the two parts of [`Split`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SplitPart {
    /// The sets without counts and sums.
    Sets,
    /// Counts and sums.
    Sums,
}

/// One split set.
struct Apart<'a> {
    /// The number of its records and their length.
    head: [u8; 5],
    /// Its records before and after the sums.
    records: [&'a [u8]; 2],
    /// Its count and sums; `None` for a set that cannot have any.
    sums: Option<&'a [u8]>,
}

impl Apart<'_> {
    fn put(&self, part: SplitPart, out: &mut Vec<u8>) {
        match part {
            SplitPart::Sets => {
                out.put(&self.head);
                self.records.iter().for_each(|records| out.put(records));
            }
            SplitPart::Sums => out.put(self.sums.unwrap_or(&[])),
        }
    }
}

/// Splits consecutive sets; yields `None` for a set that ends early, and then ends.
fn apart(whole: &[u8]) -> impl Iterator<Item = Option<Apart<'_>>> {
    let mut c = Cursor::new(whole, ByteOrder::NATIVE, 0);
    std::iter::from_fn(move || {
        if c.left() == 0 {
            return None;
        }
        let start = c.position();
        let Ok((records, mut set)) = characteristic::next_set(&mut c) else {
            c = Cursor::new(&[], ByteOrder::NATIVE, 0);
            return Some(None);
        };
        let (head, body) = whole[start..c.position()].split_first_chunk::<5>()?;
        Some(Some(match bounds(records, &mut set) {
            Some((at, true)) => {
                let (front, back) = body.split_at(at);
                let mut head = [records - 2; 5];
                head[1..].copy_from_slice(&((body.len() - RECORDS) as u32).to_ne_bytes());
                Apart { head, records: [front, &back[RECORDS..]], sums: Some(&back[6..RECORDS]) }
            }
            Some((_, false)) => Apart { head: *head, records: [body, &[]], sums: Some(&NONE) },
            None => Apart { head: *head, records: [body, &[]], sums: None },
        }))
    })
}

/// Splits the sets of a variable, in this machine's byte order; `None` if no counts and sums are stored separately.
///
/// # Cost
/// Two passes, with 64 KiB of memory. Only the first set is read if it has no bounds, or is of the full level: all sets of a
/// variable have the same level.
pub fn split(whole: &[u8]) -> Option<Split<'_>> {
    const TOGETHER: usize = 32 << 10;
    let mut c = Cursor::new(whole, ByteOrder::NATIVE, 0);
    let (records, mut first) = characteristic::next_set(&mut c).ok()?;
    bounds(records, &mut first)?;
    let mut any = false;
    let tell = |part: SplitPart, any: &mut bool| {
        let (mut total, mut crc, mut bytes) = (LengthAndCrc { length: 0, crc: 0 }, Crc32c::new(), Vec::new());
        for set in apart(whole) {
            let set = set?;
            *any |= set.sums.is_some_and(|sums| sums != NONE);
            set.put(part, &mut bytes);
            if bytes.len() >= TOGETHER {
                crc.update(&bytes);
                total.length += bytes.len() as u64;
                bytes.clear();
            }
        }
        crc.update(&bytes);
        Some(LengthAndCrc { length: total.length + bytes.len() as u64, crc: crc.finish() })
    };
    let split = Split { whole, sums: tell(SplitPart::Sums, &mut any)?, sets: tell(SplitPart::Sets, &mut any)? };
    any.then_some(split)
}

impl Split<'_> {
    /// Appends a part to `out`, which `each` may empty after any set.
    ///
    /// # Errors
    /// Errors of `each`.
    pub fn put<E>(
        &self,
        part: SplitPart,
        out: &mut Vec<u8>,
        each: &mut dyn FnMut(&mut Vec<u8>) -> std::result::Result<(), E>,
    ) -> std::result::Result<(), E> {
        for set in apart(self.whole).flatten() {
            set.put(part, out);
            each(out)?;
        }
        Ok(())
    }
}

/// The inverse of [`split`]: joins a variable's encoded sets, in any byte order, and its counts and sums.
///
/// # Errors
/// `Corrupt` where the number of sums does not match the sets; as [`characteristic::next_set`]. Values of the sets are not
/// checked.
pub fn join(sets: &mut Cursor<'_>, sums: &[u8]) -> Result<Vec<u8>> {
    let order = sets.order();
    let number = |n: u32| if order == ByteOrder::Little { n.to_le_bytes() } else { n.to_be_bytes() };
    let mut left = sums;
    let mut out = Vec::with_capacity(sets.left() + sums.len() / LENGTH * RECORDS);
    while sets.left() > 0 {
        let mut whole = sets.clone();
        let (records, mut set) = characteristic::next_set(sets)?;
        let whole = whole.take(sets.position() - whole.position(), "characteristics")?;
        let Some((at, false)) = bounds(records, &mut set) else {
            out.put(whole);
            continue;
        };
        let Some((own, rest)) = left.split_at_checked(LENGTH) else {
            return Err(sets.fail(ErrorKind::Corrupt, format!("{} bytes of sums for more sets", sums.len())));
        };
        left = rest;
        if own == NONE {
            out.put(whole);
            continue;
        }
        let (Some(records), Some(length)) = (records.checked_add(2), u32::try_from(whole.len() - 5 + RECORDS).ok())
        else {
            return Err(sets.fail(ErrorKind::Corrupt, "a set without room for its sums"));
        };
        let (front, back) = whole[5..].split_at(at);
        out.put_u8(records);
        out.put(&number(length));
        out.put(front);
        out.put_u8(9);
        out.put(&number(SUMS));
        out.put_u8(10);
        out.put(own);
        out.put(back);
    }
    if !left.is_empty() {
        return Err(sets.fail(ErrorKind::Corrupt, format!("{} bytes of sums for no set", left.len())));
    }
    Ok(out)
}

/// The location of one variable's sums.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SumsLocation {
    /// Number of the variable's entry in the directory.
    pub entry: u32,
    /// CRC-32C of its sums.
    pub crc: u32,
    /// Their extent within the section's sums.
    pub extent: Extent,
}

/// The locations of a section's sums, which are contiguous: per variable u32 number of its directory entry, u32 CRC-32C of its
/// sums, u64 their length.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SumsLocations(pub Vec<SumsLocation>);

impl SumsLocations {
    /// Adds the next variable.
    pub fn add(&mut self, entry: u32, sums: LengthAndCrc) {
        let extent = Extent::new(self.length(), sums.length);
        self.0.push(SumsLocation { entry, crc: sums.crc, extent });
    }

    /// Bytes of all sums.
    pub fn length(&self) -> u64 {
        self.0.last().and_then(|last| last.extent.end()).unwrap_or(0)
    }

    /// CRC-32C of all of them.
    pub fn crc(&self) -> u32 {
        self.0.iter().fold(crc32c(&[]), |crc, location| combined(crc, location.crc, location.extent.length))
    }

    /// Encodes the record.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(16 * self.0.len());
        for location in &self.0 {
            out.put_u32(location.entry);
            out.put_u32(location.crc);
            out.put_u64(location.extent.length);
        }
        out
    }

    /// Decodes the record, for a section with `length` bytes of sums.
    ///
    /// # Errors
    /// `Corrupt` where the lengths do not add up to `length`; `Torn` where the record ends early.
    pub fn decode(c: &mut Cursor<'_>, length: u64) -> Result<SumsLocations> {
        let mut locations = SumsLocations(Vec::with_capacity(c.left() / 16));
        while c.left() > 0 {
            let (entry, crc) = (c.u32("places of sums")?, c.u32("places of sums")?);
            let extent = Extent::new(locations.length(), c.u64("places of sums")?);
            if extent.end().is_none_or(|end| end > length) {
                return Err(c.fail(ErrorKind::Corrupt, "more checksums than blocks"));
            }
            locations.0.push(SumsLocation { entry, crc, extent });
        }
        if locations.length() != length {
            return Err(c.fail(ErrorKind::Corrupt, "fewer checksums than blocks"));
        }
        Ok(locations)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::characteristic::{Location, decode_set, put_array_set, put_scalar_set};
    use crate::pass;
    use crate::process_group::{Applied, Block};
    use crate::shape::Shape;
    use crate::statistics::{Level, Statistics};
    use proptest::prelude::*;
    use thalweg_types::{ElementType, Value};

    const AT: Location = Location { record_offset: 10, payload_offset: 99, file_index: 3, time_index: 7 };

    fn put(out: &mut Vec<u8>, values: &[f64], level: Level, transform: Option<Applied<'_>>) -> Option<Statistics> {
        let bytes: Vec<u8> = values.iter().flat_map(|v| v.to_ne_bytes()).collect();
        let statistics = pass::look(&bytes, ElementType::F64, level).statistics;
        let shape = Shape::global([values.len() as u64], [9], [2]);
        let block = Block {
            id: 1,
            name: "v",
            path: "",
            element: ElementType::F64,
            is_dimension: false,
            shape: Some(&shape),
            level,
            statistics: statistics.as_ref(),
            transform,
            payload: bytes.len() as u64,
        };
        put_array_set(out, AT, &shape, &block);
        statistics
    }

    fn decoded(sets: &[u8], element: ElementType) -> Vec<Option<Statistics>> {
        let mut c = Cursor::new(sets, ByteOrder::NATIVE, 0);
        let mut all = Vec::new();
        while c.left() > 0 {
            all.push(decode_set(&mut c, Some(element), false).unwrap().statistics);
        }
        all
    }

    /// Both parts.
    fn both(split: &Split<'_>) -> (Vec<u8>, Vec<u8>) {
        let bytes = |part| {
            let mut out = Vec::new();
            split.put(part, &mut out, &mut |_| Ok::<_, ()>(())).unwrap();
            out
        };
        let (sets, sums) = (bytes(SplitPart::Sets), bytes(SplitPart::Sums));
        for (total, bytes) in [(split.sets, &sets), (split.sums, &sums)] {
            assert_eq!(total, LengthAndCrc { length: bytes.len() as u64, crc: crc32c(bytes) });
        }
        (sets, sums)
    }

    fn joined(sets: &[u8], sums: &[u8]) -> Result<Vec<u8>> {
        join(&mut Cursor::new(sets, ByteOrder::NATIVE, 0), sums)
    }

    #[test]
    fn what_is_split_has_the_bytes_of_bounds_alone_and_is_joined_again() {
        for transform in [None, Some(Applied { uid: "zlib", metadata: &[5; 9] })] {
            let element = if transform.is_some() { ElementType::I8 } else { ElementType::F64 };
            let (mut with, mut without) = (Vec::new(), Vec::new());
            let mut wanted = Vec::new();
            for values in [&[1.0, -2.5, f64::NAN][..], &[f64::INFINITY], &[4.0]] {
                wanted.push(put(&mut with, values, Level::Beside, transform));
                put(&mut without, values, Level::MinMax, transform);
            }
            let (sets, sums) = both(&split(&with).unwrap());
            assert_eq!(sets, without);
            assert_eq!(sums.len(), 3 * LENGTH);
            assert_eq!(joined(&sets, &sums).unwrap(), with);
            assert_eq!(decoded(&with, element), wanted);
            assert_eq!(wanted[0].as_ref().map(|s| (s.level, s.finite, s.sum)), Some((Level::Beside, 2, -1.5)));
            // One more, one fewer, half of one.
            for length in [2 * LENGTH, 4 * LENGTH, 3 * LENGTH - 7] {
                let mut sums = sums.clone();
                sums.resize(length, 0);
                assert_eq!(joined(&sets, &sums).unwrap_err().kind(), ErrorKind::Corrupt, "{length}");
            }
        }
    }

    #[test]
    fn blocks_of_which_only_bounds_are_known_stay_such() {
        let mut sets = Vec::new();
        put(&mut sets, &[1.0], Level::MinMax, None);
        assert_eq!(split(&sets), None, "an older file");
        put(&mut sets, &[2.0, 3.0], Level::Beside, None);
        let (front, sums) = both(&split(&sets).unwrap());
        assert_eq!(sums.len(), 2 * LENGTH);
        assert_eq!(sums[..LENGTH], NONE);
        let again = joined(&front, &sums).unwrap();
        assert_eq!(again, sets);
        let levels: Vec<Level> = decoded(&again, ElementType::F64).into_iter().map(|s| s.unwrap().level).collect();
        assert_eq!(levels, [Level::MinMax, Level::Beside]);
    }

    #[test]
    fn other_sets_are_left_alone() {
        let mut sets = Vec::new();
        put(&mut sets, &[1.0], Level::Full, None);
        put(&mut sets, &[1.0], Level::Off, None);
        put_scalar_set(&mut sets, AT, &Value::F64(2.0));
        assert_eq!(split(&sets), None);
        assert_eq!(joined(&sets, &[]).unwrap(), sets);
    }

    proptest! {
        /// Fragments of other ranks are joined without being decoded: for any content, the resulting index can be loaded again.
        #[test]
        fn what_was_split_of_any_bytes_can_be_joined(
            levels in prop::collection::vec(0..4usize, 1..5), changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..4)
        ) {
            let mut sets = Vec::new();
            for level in levels {
                put(&mut sets, &[1.0, 2.0], Level::ALL[level], None);
            }
            for (at, byte) in changes {
                let at = at.index(sets.len());
                sets[at] = byte;
            }
            if let Some(split) = split(&sets) {
                let count = |sets: &[u8]| {
                    let mut c = Cursor::new(sets, ByteOrder::NATIVE, 0);
                    std::iter::from_fn(|| characteristic::next_set(&mut c).ok()).count()
                };
                let (front, sums) = both(&split);
                let again = joined(&front, &sums).unwrap();
                prop_assert_eq!(count(&again), count(&sets));
            }
            let _ = (joined(&sets, &[]), joined(&sets, &[7; LENGTH]), joined(&sets, &[7; 4 * LENGTH]));
        }
    }

    #[test]
    fn places_cover_all_sums_one_behind_the_other() {
        let mut locations = SumsLocations::default();
        let all: Vec<u8> = (0..100).collect();
        for (entry, part) in [(2, 0..40), (7, 40..100)] {
            let sums = &all[part];
            locations.add(entry, LengthAndCrc { length: sums.len() as u64, crc: crc32c(sums) });
        }
        assert_eq!(locations.crc(), crc32c(&all));
        let bytes = locations.encode();
        let decode =
            |bytes: &[u8], length| SumsLocations::decode(&mut Cursor::new(bytes, ByteOrder::NATIVE, 0), length);
        assert_eq!(decode(&bytes, 100).unwrap(), locations);
        for length in [0, 40, 99, 101, u64::MAX] {
            assert_eq!(decode(&bytes, length).unwrap_err().kind(), ErrorKind::Corrupt);
        }
        for cut in 0..bytes.len() {
            assert!(decode(&bytes[..cut], 100).is_err());
        }
    }
}
