//! The records after a stamp of version 3: objects of the container, stored in the object of the file's name (inline
//! object).
//!
//! An append-only log. Its records describe a small folder of objects, with the names that they would have in the
//! container's folders: marks, attributes, data logs (`SESSION-0.data`).
//!
//! | byte | size | field |
//! |------|------|-------|
//! | 0 | 4 | `TWTL` |
//! | 4 | 1 | 1 put: the object gets these bytes; 2 more: the bytes are appended to the object; 3 gone: the object is removed; 4 became: the object is renamed to the name in the bytes; 5 home: the container has a folder |
//! | 5 | 1 | 0 |
//! | 6 | 2 | length of the name |
//! | 8 | 4 | number of bytes |
//! | 12 | 8 | offset of this record in the inline object |
//! | 20 | 4 | CRC-32C of the name and the bytes |
//! | 24 | 4 | CRC-32C of the container's number and the 24 bytes before |
//! | 28 | ... | name, bytes |
//!
//! An incomplete record at the end is ignored and overwritten by the next one: its writer died, or is still writing. A
//! record with a wrong checksum that is followed by a complete one is damage.

use super::wire::{Cursor, bad};
use std::collections::BTreeMap;
use std::sync::Arc;
use thalweg_types::checksum::{Crc32c, crc32c};
use thalweg_types::{ErrorKind, Result};

/// Bytes of a record's header.
pub const HEADER: usize = 28;
/// Largest inline object that is read, in bytes, stamp included.
pub const MOST: u64 = 16 << 20;

/// A record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Record {
    /// The object of this name has these bytes, which replace earlier ones.
    Put(String, Vec<u8>),
    /// These bytes are appended to the object.
    More(String, Vec<u8>),
    /// The object of this name is removed.
    Gone(String),
    /// The object of the first name is renamed to the second.
    Became(String, String),
    /// The container has a folder.
    Home,
}

/// The objects that the records up to byte `end` describe.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tail {
    number: u128,
    /// Offset of the first record.
    start: u64,
    /// End of the last complete record.
    end: u64,
    objects: BTreeMap<String, Arc<Vec<u8>>>,
    home: bool,
}

impl Record {
    /// The record's bytes.
    ///
    /// - `number`: the container's number.
    /// - `at`: offset of the record in the inline object.
    pub fn encode(&self, number: u128, at: u64, out: &mut Vec<u8>) {
        let (kind, name, bytes): (u8, &str, &[u8]) = match self {
            Record::Put(name, bytes) => (1, name, bytes),
            Record::More(name, bytes) => (2, name, bytes),
            Record::Gone(name) => (3, name, &[]),
            Record::Became(name, new) => (4, name, new.as_bytes()),
            Record::Home => (5, "", &[]),
        };
        let from = out.len();
        out.extend_from_slice(b"TWTL");
        out.extend_from_slice(&[kind, 0]);
        out.extend_from_slice(&(name.len() as u16).to_le_bytes());
        out.extend_from_slice(&(bytes.len() as u32).to_le_bytes());
        out.extend_from_slice(&at.to_le_bytes());
        let mut crc = Crc32c::new();
        crc.update(name.as_bytes());
        crc.update(bytes);
        out.extend_from_slice(&crc.finish().to_le_bytes());
        let crc = head_crc(number, &out[from..]);
        out.extend_from_slice(&crc.to_le_bytes());
        out.extend_from_slice(name.as_bytes());
        out.extend_from_slice(bytes);
    }

    /// The record at the beginning of these bytes, and its length. `None` if there is no complete record.
    ///
    /// # Errors
    /// `Unsupported` for a record that a later release wrote.
    fn decode(number: u128, at: u64, bytes: &[u8]) -> Result<Option<(Record, usize)>> {
        let Some((head, rest)) = bytes.split_at_checked(HEADER) else { return Ok(None) };
        let mut c = Cursor::new(head);
        let what = "record behind a stamp";
        let magic = c.take(4, what)?;
        let (kind, zero) = (c.u8(what)?, c.u8(what)?);
        let name = usize::from(c.u8(what)?) | usize::from(c.u8(what)?) << 8;
        let (length, place) = (c.u32(what)? as usize, c.u64(what)?);
        let (crc, head_sum) = (c.u32(what)?, c.u32(what)?);
        if magic != b"TWTL" || place != at || head_sum != head_crc(number, &head[..HEADER - 4]) {
            return Ok(None);
        }
        let Some(payload) = name.checked_add(length).and_then(|whole| rest.get(..whole)) else { return Ok(None) };
        if crc32c(payload) != crc {
            return Ok(None);
        }
        let text = |bytes: &[u8]| {
            let no_text = |_| bad(ErrorKind::Corrupt, "a name behind a stamp is no text").at_byte(at);
            std::str::from_utf8(bytes).map(str::to_string).map_err(no_text)
        };
        let (name, bytes) = payload.split_at(name);
        let record = match (kind, zero) {
            (1, 0) => Record::Put(text(name)?, bytes.to_vec()),
            (2, 0) => Record::More(text(name)?, bytes.to_vec()),
            (3, 0) => Record::Gone(text(name)?),
            (4, 0) => Record::Became(text(name)?, text(bytes)?),
            (5, 0) => Record::Home,
            _ => {
                let what = format!("a record of kind {kind} behind a stamp, which this release does not know");
                return Err(bad(ErrorKind::Unsupported, what).at_byte(at));
            }
        };
        Ok(Some((record, HEADER + payload.len())))
    }
}

fn head_crc(number: u128, head: &[u8]) -> u32 {
    let mut crc = Crc32c::new();
    crc.update(&number.to_le_bytes());
    crc.update(head);
    crc.finish()
}

impl Tail {
    /// The empty state for an object whose stamp ends at byte `start`.
    pub fn new(number: u128, start: u64) -> Tail {
        Tail { number, start, end: start, objects: BTreeMap::new(), home: false }
    }

    /// The empty state for the same object, to read its records again.
    pub fn anew(&self) -> Tail {
        Tail::new(self.number, self.start)
    }

    /// End of the last complete record.
    pub fn end(&self) -> u64 {
        self.end
    }

    /// Bytes of the records.
    pub fn length(&self) -> u64 {
        self.end - self.start
    }

    /// Whether the container also has a folder.
    pub fn has_home(&self) -> bool {
        self.home
    }

    /// Names of the objects.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.objects.keys().map(String::as_str)
    }

    /// The bytes of an object.
    pub fn get(&self, name: &str) -> Option<&Arc<Vec<u8>>> {
        self.objects.get(name)
    }

    /// Records that describe the same objects.
    pub fn records(&self) -> impl Iterator<Item = Record> + '_ {
        let put = |(name, bytes): (&String, &Arc<Vec<u8>>)| Record::Put(name.clone(), bytes.to_vec());
        self.objects.iter().map(put).chain(self.home.then_some(Record::Home))
    }

    /// Applies the records in `bytes`, which were read from byte [`end`](Tail::end) on; an incomplete record at their end
    /// is ignored.
    ///
    /// # Errors
    /// `Corrupt` if a record has a wrong checksum and a complete one follows; `Unsupported` for records of later releases.
    pub fn extend(&mut self, bytes: &[u8]) -> Result<()> {
        let mut rest = bytes;
        while !rest.is_empty() {
            let Some((record, length)) = Record::decode(self.number, self.end, rest)? else {
                return self.is_torn(rest);
            };
            self.apply(record);
            self.end += length as u64;
            rest = &rest[length..];
        }
        Ok(())
    }

    /// Whether no complete record follows in these bytes, which do not begin with one.
    fn is_torn(&self, rest: &[u8]) -> Result<()> {
        for (from, _) in rest.windows(4).enumerate().skip(1).filter(|(_, four)| *four == b"TWTL") {
            if let Ok(None) = Record::decode(self.number, self.end + from as u64, &rest[from..]) {
                continue;
            }
            let what = "the inline data of this file is damaged";
            return Err(bad(ErrorKind::Corrupt, what).at_byte(self.end));
        }
        Ok(())
    }

    /// Applies a record that was written at [`end`](Tail::end) and is `length` bytes long.
    pub fn wrote(&mut self, records: Vec<Record>, length: u64) {
        records.into_iter().for_each(|record| self.apply(record));
        self.end += length;
    }

    fn apply(&mut self, record: Record) {
        match record {
            Record::Put(name, bytes) => drop(self.objects.insert(name, Arc::new(bytes))),
            Record::More(name, mut bytes) => {
                Arc::make_mut(self.objects.entry(name).or_default()).append(&mut bytes);
            }
            Record::Gone(name) => drop(self.objects.remove(&name)),
            Record::Became(name, new) => {
                let bytes = self.objects.remove(&name).unwrap_or_default();
                self.objects.insert(new, bytes);
            }
            Record::Home => self.home = true,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn any_record() -> impl Strategy<Value = Record> {
        let name = "[a-d]";
        let bytes = || prop::collection::vec(any::<u8>(), 0..40);
        prop_oneof![
            (name, bytes()).prop_map(|(name, bytes)| Record::Put(name, bytes)),
            (name, bytes()).prop_map(|(name, bytes)| Record::More(name, bytes)),
            name.prop_map(Record::Gone),
            (name, name).prop_map(|(name, new)| Record::Became(name, new)),
            Just(Record::Home),
        ]
    }

    fn written(number: u128, start: u64, records: &[Record]) -> (Vec<u8>, Vec<usize>) {
        let (mut out, mut ends) = (Vec::new(), vec![0]);
        for record in records {
            let at = start + out.len() as u64;
            record.encode(number, at, &mut out);
            ends.push(out.len());
        }
        (out, ends)
    }

    proptest! {
        #[test]
        fn records_say_the_same_however_they_are_read(number: u128, start in 0..1u64 << 40, records in prop::collection::vec(any_record(), 0..12)) {
            let (bytes, ends) = written(number, start, &records);
            let mut known = Tail::new(number, start);
            known.wrote(records.clone(), bytes.len() as u64);
            let mut read = Tail::new(number, start);
            read.extend(&bytes).unwrap();
            prop_assert_eq!(&read, &known);
            // Records cut off at any byte: the complete ones are applied, and reading continues after them.
            for cut in 0..=bytes.len() {
                let mut torn = Tail::new(number, start);
                torn.extend(&bytes[..cut]).unwrap();
                let whole = ends.iter().rev().find(|end| **end <= cut).unwrap();
                prop_assert_eq!(torn.end(), start + *whole as u64);
                torn.extend(&bytes[*whole..]).unwrap();
                prop_assert_eq!(&torn, &known);
            }
        }

        #[test]
        fn a_changed_byte_is_damage_or_the_end(records in prop::collection::vec(any_record(), 1..6), at: prop::sample::Index, by in 1..=255u8) {
            let (mut bytes, ends) = written(7, 100, &records);
            let at = at.index(bytes.len());
            bytes[at] ^= by;
            let mut read = Tail::new(7, 100);
            let outcome = read.extend(&bytes);
            let hit = ends.iter().rposition(|end| *end <= at).unwrap();
            prop_assert_eq!(outcome.is_err(), hit + 1 < records.len(), "record {} of {}", hit, records.len());
            prop_assert_eq!(read.end(), 100 + ends[hit] as u64);
        }

        #[test]
        fn no_bytes_are_records_by_chance(bytes: Vec<u8>) {
            let mut read = Tail::new(1, 100);
            read.extend(&bytes).unwrap();
            prop_assert_eq!(read.end(), 100);
        }
    }

    #[test]
    fn a_record_of_another_file_or_place_counts_for_nothing() {
        let (bytes, _) = written(7, 100, &[Record::Put("o-1".into(), b"host".to_vec())]);
        for (number, start) in [(8, 100), (7, 101)] {
            let mut read = Tail::new(number, start);
            read.extend(&bytes).unwrap();
            assert_eq!(read.names().count(), 0);
        }
    }

    #[test]
    fn a_record_of_a_later_release_is_refused() {
        let (mut bytes, _) = written(7, 100, &[Record::Home]);
        bytes[4] = 9;
        let crc = head_crc(7, &bytes[..24]);
        bytes[24..28].copy_from_slice(&crc.to_le_bytes());
        assert_eq!(Tail::new(7, 100).extend(&bytes).unwrap_err().kind(), ErrorKind::Unsupported);
    }
}
