//! Hole records: a record at the start of unused bytes between process groups contains their length, so that a scan without an
//! index can skip them.
//!
//! A writer that puts process groups at stripe boundaries leaves holes behind them; other readers use the index and never read
//! holes. The bytes of a hole behind its record are not written.
//!
//! | byte | size | field |
//! |---|---|---|
//! | 0 | 8 | magic `TWHOLERC` |
//! | 8 | 8 | offset of the record in its file |
//! | 16 | 8 | length of the hole, this record included; it may reach behind the end of the file |
//! | 24 | 4 | CRC-32C of the bytes up to here |
//! | 28 | 4 | 0; 1 if bytes behind the record were written: a dead copy of a process group |

use crate::wire::{Cursor, Put};
use thalweg_types::checksum::crc32c;
use thalweg_types::{ByteOrder, Extent};

/// Magic at the start of a record.
pub const MAGIC: &[u8; 8] = b"TWHOLERC";
/// Bytes of the record, and of the shortest hole.
pub const LENGTH: u64 = 32;

const DEAD: u32 = 1;

/// The record of a hole.
pub fn encode(hole: Extent) -> [u8; LENGTH as usize] {
    record(hole, 0)
}

/// The record of a hole with a dead copy of a process group.
pub fn encode_dead(hole: Extent) -> [u8; LENGTH as usize] {
    record(hole, DEAD)
}

/// Whether a valid record is of a hole with a dead copy.
pub fn is_dead(record: &[u8; LENGTH as usize], order: ByteOrder) -> bool {
    Cursor::new(&record[28..], order, 0).u32("hole").is_ok_and(|kind| kind == DEAD)
}

fn record(hole: Extent, kind: u32) -> [u8; LENGTH as usize] {
    let mut bytes = Vec::with_capacity(LENGTH as usize);
    bytes.put(MAGIC);
    bytes.put_u64(hole.offset);
    bytes.put_u64(hole.length);
    bytes.put_u32(crc32c(&bytes));
    bytes.put_u32(kind);
    let mut record = [0; LENGTH as usize];
    record.copy_from_slice(&bytes);
    record
}

/// The length of the hole with this record at byte `at`; `None` if the record is invalid or of another offset.
pub fn length(record: &[u8; LENGTH as usize], at: u64, order: ByteOrder) -> Option<u64> {
    let mut c = Cursor::new(record, order, at);
    let known = c.take(8, "hole").ok()? == MAGIC && c.u64("hole").ok()? == at;
    let length = c.u64("hole").ok()?;
    let whole = c.u32("hole").ok()? == crc32c(&record[..24]);
    (known && whole && length >= LENGTH).then_some(length)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_changed_byte_of_a_record_is_noticed_and_so_is_another_place() {
        let record = encode(Extent::new(4096, 61_440));
        assert_eq!(length(&record, 4096, ByteOrder::NATIVE), Some(61_440));
        assert_eq!(length(&record, 0, ByteOrder::NATIVE), None);
        for at in 0..28 {
            let mut bad = record;
            bad[at] ^= 1;
            assert_eq!(length(&bad, 4096, ByteOrder::NATIVE), None, "byte {at}");
        }
        assert_eq!(length(&encode(Extent::new(0, LENGTH - 1)), 0, ByteOrder::NATIVE), None);
        let dead = encode_dead(Extent::new(4096, 61_440));
        assert_eq!(length(&dead, 4096, ByteOrder::NATIVE), Some(61_440));
        assert!(is_dead(&dead, ByteOrder::NATIVE) && !is_dead(&record, ByteOrder::NATIVE));
    }
}
