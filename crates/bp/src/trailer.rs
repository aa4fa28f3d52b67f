//! The trailer of a process group: within its length, behind its attributes, where other readers ignore it.
//!
//! With the trailer, whole groups are distinguished from torn ones without an index.
//!
//! | byte | size | field |
//! |---|---|---|
//! | 0 | 8 | magic `TWPGTRL1` |
//! | 8 | 8 | run id: the same for all files and ranks of one opening |
//! | 16 | 8 | offset of the process group in its file |
//! | 24 | 8 | length of the process group, including the trailer |
//! | 32 | 4 | writer's rank |
//! | 36 | 4 | number of ranks that write this step |
//! | 40 | 4 | time index (step + 1) |
//! | 44 | 4 | subfile, 0xFFFFFFFF in a single file |
//! | 48 | 4 | number of blocks n |
//! | 52 | 4 | CRC-32C of the framing: all bytes of the group before the trailer, except payloads of listed blocks |
//! | 56 | 20 n | per block: u64 payload offset in the group, u64 payload length, u32 CRC-32C of the payload |
//! | 56 + 20 n | 4 | CRC-32C of the trailer up to here |
//! | 60 + 20 n | 4 | length of the trailer, 68 + 20 n |
//! | 64 + 20 n | 4 | magic `TWPE` |

use crate::wire::{Cursor, Put};
use thalweg_types::checksum::crc32c;
use thalweg_types::{ByteOrder, ErrorKind, Extent, Result};

/// Magic at the start of a trailer.
pub const MAGIC: &[u8; 8] = b"TWPGTRL1";
/// Magic at the end of a trailer.
pub const END: &[u8; 4] = b"TWPE";
const FIXED: usize = 68;

/// Extent and checksum of one block's payload.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BlockSum {
    /// Extent in the process group.
    pub payload: Extent,
    /// CRC-32C of the payload.
    pub crc: u32,
}

/// A trailer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Trailer {
    /// Run id, the same for all files and ranks of one opening.
    pub run: u64,
    /// Extent of the group in its file.
    pub group: Extent,
    /// Writer.
    pub rank: u32,
    /// Ranks that write this step.
    pub ranks: u32,
    /// Step + 1.
    pub time_index: u32,
    /// Subfile.
    pub file_index: u32,
    /// CRC-32C of the framing.
    pub framing: u32,
    /// The blocks.
    pub blocks: Vec<BlockSum>,
}

/// Bytes of a trailer for `blocks` blocks.
pub const fn length(blocks: usize) -> u64 {
    (FIXED + 20 * blocks) as u64
}

impl Trailer {
    /// Appends it.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let start = out.len();
        out.put(MAGIC);
        out.put_u64(self.run);
        out.put_u64(self.group.offset);
        out.put_u64(self.group.length);
        out.put_u32(self.rank);
        out.put_u32(self.ranks);
        out.put_u32(self.time_index);
        out.put_u32(self.file_index);
        out.put_u32(self.blocks.len() as u32);
        out.put_u32(self.framing);
        for block in &self.blocks {
            out.put_u64(block.payload.offset);
            out.put_u64(block.payload.length);
            out.put_u32(block.crc);
        }
        let crc = crc32c(&out[start..]);
        out.put_u32(crc);
        out.put_u32(length(self.blocks.len()) as u32);
        out.put(END);
    }

    /// The length of a trailer, from its last 8 bytes; `None` if these are not a trailer's.
    pub fn length_from_end(last: &[u8; 8], order: ByteOrder) -> Option<u64> {
        let mut c = Cursor::new(last, order, 0);
        let length = u64::from(c.u32("trailer").ok()?);
        let whole = length.checked_sub(FIXED as u64)? % 20 == 0;
        (c.take(4, "trailer").ok()? == END && whole).then_some(length)
    }

    /// Decodes a trailer that fills `bytes`, which are at byte `base`.
    ///
    /// # Errors
    /// `Corrupt` where magic, length or checksum is wrong, or a block exceeds the group; `Torn` where `bytes` are too few.
    pub fn decode(bytes: &[u8], order: ByteOrder, base: u64) -> Result<Trailer> {
        let mut c = Cursor::new(bytes, order, base);
        if c.take(8, "trailer")? != MAGIC {
            return Err(c.fail(ErrorKind::Corrupt, "no trailer of a process group"));
        }
        let run = c.u64("trailer")?;
        let group = Extent::new(c.u64("trailer")?, c.u64("trailer")?);
        let (rank, ranks) = (c.u32("trailer")?, c.u32("trailer")?);
        let (time_index, file_index) = (c.u32("trailer")?, c.u32("trailer")?);
        let (n, framing) = (c.u32("trailer")? as usize, c.u32("trailer")?);
        if bytes.len() as u64 != FIXED as u64 + 20 * n as u64 {
            return Err(c.fail(ErrorKind::Corrupt, format!("trailer of {n} blocks in {} bytes", bytes.len())));
        }
        let mut blocks = Vec::with_capacity(n);
        for _ in 0..n {
            let payload = Extent::new(c.u64("trailer")?, c.u64("trailer")?);
            if payload.end().is_none_or(|e| e > group.length) {
                return Err(c.fail(ErrorKind::Corrupt, "a block leaves its process group"));
            }
            blocks.push(BlockSum { payload, crc: c.u32("trailer")? });
        }
        let crc = crc32c(&bytes[..c.position()]);
        let stored = c.u32("trailer")?;
        if stored != crc {
            return Err(c.fail(ErrorKind::Corrupt, format!("trailer checksum is {stored:#010x}, computed {crc:#010x}")));
        }
        if u64::from(c.u32("trailer")?) != bytes.len() as u64 || c.take(4, "trailer")? != END {
            return Err(c.fail(ErrorKind::Corrupt, "the end of a trailer is damaged"));
        }
        Ok(Trailer { run, group, rank, ranks, time_index, file_index, framing, blocks })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_changed_byte_of_a_trailer_is_noticed() {
        let trailer = Trailer {
            run: 7,
            group: Extent::new(4096, 5000),
            rank: 3,
            ranks: 4,
            time_index: 2,
            file_index: u32::MAX,
            framing: 99,
            blocks: vec![BlockSum { payload: Extent::new(100, 800), crc: 5 }; 2],
        };
        let mut bytes = Vec::new();
        trailer.encode(&mut bytes);
        assert_eq!(bytes.len() as u64, length(2));
        let last: &[u8; 8] = bytes.last_chunk().unwrap();
        assert_eq!(Trailer::length_from_end(last, ByteOrder::NATIVE), Some(108));
        assert_eq!(Trailer::decode(&bytes, ByteOrder::NATIVE, 0).unwrap(), trailer);
        for at in 0..bytes.len() {
            let mut bad = bytes.clone();
            bad[at] ^= 1;
            assert!(Trailer::decode(&bad, ByteOrder::NATIVE, 0).is_err(), "byte {at}");
        }
    }
}
