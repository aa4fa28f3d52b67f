//! A data log: a header, then records. Each record's header gives the place of its bytes in the file, so that an index can be rebuilt
//! from data logs alone.
//!
//! Segment header, 64 bytes, of data logs and index logs:
//!
//! | byte | size | field |
//! |------|------|-------|
//! | 0 | 8 | `TWDATLOG`, or `TWIDXLOG` for an index log |
//! | 8 | 4 | version, 1 |
//! | 12 | 4 | writer |
//! | 16 | 16 | the container's number |
//! | 32 | 8 | session |
//! | 40 | 4 | segment, from 0 |
//! | 44 | 16 | 0 |
//! | 60 | 4 | CRC-32C of the 60 bytes before |
//!
//! Record header, 48 bytes, followed by its payload:
//!
//! | byte | size | field |
//! |------|------|-------|
//! | 0 | 4 | `TWRC` |
//! | 4 | 1 | kind: 1 write, 2 hole, 3 cut, 4 end of the log, 5 append |
//! | 5 | 3 | 0 |
//! | 8 | 8 | clock |
//! | 16 | 8 | offset in the logical file; for a cut the new length; for an append the number of bytes that this segment appended earlier at this clock |
//! | 24 | 8 | length of the payload in bytes; for a hole, which has no payload, its length |
//! | 32 | 8 | offset of this header in the log |
//! | 40 | 4 | CRC-32C of the payload |
//! | 44 | 4 | CRC-32C of the 44 bytes before |

use super::wire::{Cursor, bad};
use thalweg_types::checksum::crc32c;
use thalweg_types::{ErrorKind, Result};

/// Bytes of a segment's header.
pub const SEGMENT_HEADER: u64 = 64;
/// Bytes of a record's header.
pub const RECORD_HEADER: u64 = 48;
/// Largest offset in a logical file, as in POSIX files.
pub const MOST: u64 = i64::MAX as u64;

/// Selects one of a session's two logs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Log {
    /// Bytes.
    Data,
    /// Index log.
    Index,
}

/// The header of a segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Segment {
    /// The container.
    pub container: u128,
    /// The session.
    pub session: u64,
    /// Writer number.
    pub writer: u32,
    /// Number of the segment, from 0.
    pub number: u32,
}

impl Segment {
    /// Encodes the header of one of its logs.
    pub fn encode(&self, log: Log) -> [u8; SEGMENT_HEADER as usize] {
        let mut out = [0; SEGMENT_HEADER as usize];
        out[..8].copy_from_slice(magic(log));
        out[8..12].copy_from_slice(&1u32.to_le_bytes());
        out[12..16].copy_from_slice(&self.writer.to_le_bytes());
        out[16..32].copy_from_slice(&self.container.to_le_bytes());
        out[32..40].copy_from_slice(&self.session.to_le_bytes());
        out[40..44].copy_from_slice(&self.number.to_le_bytes());
        let crc = crc32c(&out[..60]);
        out[60..].copy_from_slice(&crc.to_le_bytes());
        out
    }

    /// Decodes the header of a log's segment.
    ///
    /// # Errors
    /// `Corrupt` or `Torn` if this is no header of such a log, `Unsupported` for another version.
    pub fn decode(log: Log, bytes: &[u8]) -> Result<Segment> {
        let mut c = Cursor::new(bytes);
        let head = c.take(60, "segment header")?;
        if crc32c(head) != c.u32("segment header")? || head[..8] != *magic(log) {
            return Err(bad(ErrorKind::Corrupt, "this is no head of a segment").at_byte(0));
        }
        let mut c = Cursor::new(&head[8..]);
        let version = c.u32("version")?;
        if version != 1 {
            return Err(bad(ErrorKind::Unsupported, format!("segment version {version}, known is 1")).at_byte(8));
        }
        let writer = c.u32("writer")?;
        let container = c.u128("container")?;
        Ok(Segment { container, session: c.u64("session")?, writer, number: c.u32("segment")? })
    }
}

fn magic(log: Log) -> &'static [u8; 8] {
    match log {
        Log::Data => b"TWDATLOG",
        Log::Index => b"TWIDXLOG",
    }
}

/// Kinds of records.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Bytes.
    Write,
    /// A range of zeros, without payload.
    Hole,
    /// A new length of the file.
    Cut,
    /// The log was closed.
    End,
    /// Bytes appended to the file: their offset follows from the order of all records.
    Append,
}

/// A record's header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Record {
    /// Its kind.
    pub kind: Kind,
    /// The container's clock at the write.
    pub clock: u64,
    /// Offset in the logical file; for a cut the new length; for an append the number of bytes that this segment appended
    /// earlier at this clock.
    pub offset: u64,
    /// Length in bytes; 0 for cuts.
    pub length: u64,
    /// Offset of the header in the log.
    pub at: u64,
    /// Checksum of the payload.
    pub crc: u32,
}

impl Record {
    /// The header's bytes.
    pub fn encode(&self) -> [u8; RECORD_HEADER as usize] {
        let mut out = [0; RECORD_HEADER as usize];
        out[..4].copy_from_slice(b"TWRC");
        out[4] = match self.kind {
            Kind::Write => 1,
            Kind::Hole => 2,
            Kind::Cut => 3,
            Kind::End => 4,
            Kind::Append => 5,
        };
        out[8..16].copy_from_slice(&self.clock.to_le_bytes());
        out[16..24].copy_from_slice(&self.offset.to_le_bytes());
        out[24..32].copy_from_slice(&self.length.to_le_bytes());
        out[32..40].copy_from_slice(&self.at.to_le_bytes());
        out[40..44].copy_from_slice(&self.crc.to_le_bytes());
        let crc = crc32c(&out[..44]);
        out[44..].copy_from_slice(&crc.to_le_bytes());
        out
    }

    /// Decodes the record header at byte `at` of a log.
    ///
    /// # Errors
    /// `Corrupt` or `Torn`, with the byte, if there is no complete valid header.
    pub fn decode(bytes: &[u8], at: u64) -> Result<Record> {
        let corrupt = |what: &str| bad(ErrorKind::Corrupt, what).at_byte(at);
        let mut c = Cursor::new(bytes);
        let head = c.take(44, "record header").map_err(|e| e.shifted(at))?;
        if crc32c(head) != c.u32("record header").map_err(|e| e.shifted(at))? {
            return Err(corrupt("a record header does not match its checksum"));
        }
        let mut c = Cursor::new(head);
        if c.take(4, "record header")? != b"TWRC" {
            return Err(corrupt("this is no head of a record"));
        }
        let kind = match c.u32("kind")? {
            1 => Kind::Write,
            2 => Kind::Hole,
            3 => Kind::Cut,
            4 => Kind::End,
            5 => Kind::Append,
            kind => {
                let what = format!("a record of kind {kind}, which this release does not know");
                return Err(bad(ErrorKind::Unsupported, what).at_byte(at));
            }
        };
        let record = Record {
            kind,
            clock: c.u64("clock")?,
            offset: c.u64("offset")?,
            length: c.u64("length")?,
            at: c.u64("place")?,
            crc: c.u32("checksum")?,
        };
        if record.at != at {
            return Err(corrupt(&format!("a record that belongs to byte {}", record.at)));
        }
        if record.offset > MOST
            || record.length > MOST - record.offset
            || record.payload() > MOST / 4 - at.min(MOST / 4)
        {
            return Err(corrupt("a record of bytes beyond the largest offset"));
        }
        Ok(record)
    }

    /// Length of the payload in bytes.
    pub fn payload(&self) -> u64 {
        if matches!(self.kind, Kind::Write | Kind::Append) { self.length } else { 0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn headers_come_back(container: u128, session: u64, writer: u32, number: u32, kind in 0..5usize, clock: u64,
                             offset in 0..1u64 << 62, length in 0..1u64 << 40, at in 0..1u64 << 50, crc: u32) {
            let segment = Segment { container, session, writer, number };
            for log in [Log::Data, Log::Index] {
                prop_assert_eq!(Segment::decode(log, &segment.encode(log)).unwrap(), segment);
            }
            prop_assert!(Segment::decode(Log::Index, &segment.encode(Log::Data)).is_err());
            let kind = [Kind::Write, Kind::Hole, Kind::Cut, Kind::End, Kind::Append][kind];
            let record = Record { kind, clock, offset, length, at, crc };
            prop_assert_eq!(Record::decode(&record.encode(), at).unwrap(), record);
            prop_assert!(Record::decode(&record.encode(), at + 1).is_err());
        }

        #[test]
        fn a_record_of_a_later_release_is_refused_and_not_taken_for_damage(kind in 6..=255u8) {
            let mut bytes = Record { kind: Kind::Write, clock: 1, offset: 2, length: 3, at: 64, crc: 5 }.encode();
            bytes[4] = kind;
            let crc = crc32c(&bytes[..44]);
            bytes[44..].copy_from_slice(&crc.to_le_bytes());
            let refused = Record::decode(&bytes, 64).unwrap_err();
            prop_assert_eq!(refused.kind(), ErrorKind::Unsupported);
            let words = format!("kind {kind}");
            prop_assert!(refused.to_string().contains(&words));
        }

        #[test]
        fn a_changed_bit_is_noticed(bit in 0..48usize * 8) {
            let record = Record { kind: Kind::Write, clock: 1, offset: 2, length: 3, at: 64, crc: 5 };
            let mut bytes = record.encode();
            bytes[bit / 8] ^= 1 << (bit % 8);
            prop_assert!(Record::decode(&bytes, 64).is_err());
        }
    }
}
