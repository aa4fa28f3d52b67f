//! Blocks of an index log: each describes a range of a data log.
//!
//! | byte | size | field |
//! |------|------|-------|
//! | 0 | 4 | `TWIB` |
//! | 4 | 4 | number of entries |
//! | 8 | 8 | length of the entries, in bytes |
//! | 16 | 8 | first byte of the data log that the block covers |
//! | 24 | 8 | end of the covered range |
//! | 32 | 8 | session |
//! | 40 | 4 | CRC-32C of the entries |
//! | 44 | 4 | CRC-32C of the 44 bytes before |
//! | 48 | ... | entries |
//!
//! An entry: a byte, then varints (`wire`). Differences are signed and relative to the values predicted from the previous
//! entry: a record of the same length and clock that follows it directly.
//!
//! | byte | entry | numbers |
//! |------|-------|---------|
//! | 0 | record | offset, length, offset of its payload in the data log, clock, all as differences |
//! | 1 | run | as 0; stride, stride in the log (signed), count |
//! | 2 | run of runs | as 1; then stride, stride in the log, count of the runs |
//! | 3 | hole | as 0, with the offset of its header in the data log |
//! | 4 | cut | new length, offset of its header in the data log, clock; no differences |
//! | 5, 6, 7 | as 0, 1, 2, of appended records | as 0, 1, 2; offsets are relative to the file's end before the first append of their clock and data log |

use super::run::{Level, Run};
use crate::container::record::{MOST, RECORD_HEADER};
use crate::container::wire::{Cursor, bad, put_signed, put_varint};
use thalweg_types::checksum::crc32c;
use thalweg_types::{ErrorKind, Result};

/// Bytes of a block's header.
pub const BLOCK_HEADER: u64 = 48;
/// Added to the kind of an appended record or run.
const APPENDED: u8 = 5;
/// Longest block, in bytes.
pub const MOST_BYTES: u64 = 16 << 20;

/// An entry of a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Entry {
    /// Records.
    Run(Run),
    /// A new length of the file.
    Cut {
        /// Its clock.
        clock: u64,
        /// The new length.
        length: u64,
        /// Offset of its header in the data log.
        log: u64,
    },
}

impl Entry {
    /// Length of the shortest data log that can contain the entry.
    pub fn log_end(&self) -> u64 {
        match self {
            Entry::Run(run) => run.log_end(),
            Entry::Cut { log, .. } => log + RECORD_HEADER,
        }
    }
}

/// A block's header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Head {
    /// Number of entries.
    pub entries: u32,
    /// Length of the entries in bytes.
    pub length: u64,
    /// First byte of the data log that is covered.
    pub from: u64,
    /// End of the covered range.
    pub to: u64,
    /// The session.
    pub session: u64,
    crc: u32,
}

/// Encodes a block of these entries.
pub fn encode(session: u64, from: u64, to: u64, entries: &[Entry]) -> Vec<u8> {
    let mut out = vec![0; BLOCK_HEADER as usize];
    let mut expected = Expected::default();
    for entry in entries {
        match entry {
            Entry::Cut { clock, length, log } => {
                out.push(4);
                [*length, *log, *clock].iter().for_each(|v| put_varint(&mut out, *v));
            }
            Entry::Run(run) => {
                let levels = match (run.inner.count, run.outer.count) {
                    (1, 1) => 0,
                    (_, 1) => 1,
                    _ => 2,
                };
                out.push(if run.hole { 3 } else { levels + if run.appended { APPENDED } else { 0 } });
                for (value, base) in [
                    (run.start, expected.start),
                    (run.length, expected.length),
                    (run.log, expected.log),
                    (run.clock, expected.clock),
                ] {
                    put_signed(&mut out, value.wrapping_sub(base) as i64);
                }
                for level in [&run.inner, &run.outer].into_iter().take(if run.hole { 0 } else { levels.into() }) {
                    put_signed(&mut out, level.stride);
                    put_signed(&mut out, level.log_stride);
                    put_varint(&mut out, level.count);
                }
                expected = Expected::after(run);
            }
        }
    }
    let (head, body) = out.split_at_mut(BLOCK_HEADER as usize);
    head[..4].copy_from_slice(b"TWIB");
    head[4..8].copy_from_slice(&(entries.len() as u32).to_le_bytes());
    head[8..16].copy_from_slice(&(body.len() as u64).to_le_bytes());
    head[16..24].copy_from_slice(&from.to_le_bytes());
    head[24..32].copy_from_slice(&to.to_le_bytes());
    head[32..40].copy_from_slice(&session.to_le_bytes());
    head[40..44].copy_from_slice(&crc32c(body).to_le_bytes());
    let crc = crc32c(&head[..44]);
    head[44..].copy_from_slice(&crc.to_le_bytes());
    out
}

/// Decodes a block's header.
///
/// # Errors
/// `Torn` or `Corrupt` if there is no valid header.
pub fn decode_head(bytes: &[u8]) -> Result<Head> {
    let mut c = Cursor::new(bytes);
    let head = c.take(44, "index block")?;
    if crc32c(head) != c.u32("index block")? || head[..4] != *b"TWIB" {
        return Err(bad(ErrorKind::Corrupt, "this is no head of an index block").at_byte(0));
    }
    let mut c = Cursor::new(&head[4..]);
    let entries = c.u32("entries")?;
    let head = Head {
        entries,
        length: c.u64("length")?,
        from: c.u64("from")?,
        to: c.u64("to")?,
        session: c.u64("session")?,
        crc: c.u32("checksum")?,
    };
    if head.length > MOST_BYTES
        || u64::from(head.entries) * 4 > head.length
        || head.from > head.to
        || head.to > MOST / 4
    {
        return Err(bad(ErrorKind::Corrupt, "an index block of impossible lengths").at_byte(4));
    }
    Ok(head)
}

/// Passes all entries of a block to `tell`, given the bytes after its header.
///
/// # Errors
/// `Corrupt` if the bytes do not match their checksum or are no valid entries; errors of `tell`.
pub fn decode(head: &Head, bytes: &[u8], mut tell: impl FnMut(Entry) -> Result<()>) -> Result<()> {
    if bytes.len() as u64 != head.length || crc32c(bytes) != head.crc {
        return Err(bad(ErrorKind::Corrupt, "the entries of an index block do not match their checksum").at_byte(48));
    }
    let mut c = Cursor::new(bytes);
    let mut expected = Expected::default();
    for _ in 0..head.entries {
        let kind = c.u8("entry")?;
        if kind == 4 {
            let cut = (c.varint("length")?, c.varint("place")?, c.varint("clock")?);
            if cut.0 > MOST || cut.1 >= head.to {
                return Err(bad(ErrorKind::Corrupt, "an index entry beyond what its block covers"));
            }
            tell(Entry::Cut { length: cut.0, log: cut.1, clock: cut.2 })?;
            continue;
        }
        let mut difference = |base: u64| Ok::<u64, thalweg_types::Error>(base.wrapping_add(c.signed("entry")? as u64));
        let mut run = Run::one(0, difference(expected.start)?, difference(expected.length)?, difference(expected.log)?);
        run.clock = difference(expected.clock)?;
        run.hole = kind == 3;
        run.appended = kind >= APPENDED;
        let mut level = || {
            Ok::<Level, thalweg_types::Error>(Level {
                stride: c.signed("stride")?,
                log_stride: c.signed("stride")?,
                count: c.varint("count")?,
            })
        };
        match kind {
            0 | 3 | 5 => {}
            1 | 6 => run.inner = level()?,
            2 | 7 => (run.inner, run.outer) = (level()?, level()?),
            _ => {
                let what = format!("an index entry of kind {kind}, which this release does not know");
                return Err(bad(ErrorKind::Unsupported, what));
            }
        }
        if !run.is_sound(head.to) {
            return Err(bad(ErrorKind::Corrupt, "an index entry beyond what its block covers"));
        }
        expected = Expected::after(&run);
        tell(Entry::Run(run))?;
    }
    match c.is_empty() {
        true => Ok(()),
        false => Err(bad(ErrorKind::Corrupt, "bytes behind the last entry of an index block")),
    }
}

#[derive(Default)]
struct Expected {
    start: u64,
    length: u64,
    log: u64,
    clock: u64,
}

impl Expected {
    fn after(run: &Run) -> Expected {
        Expected {
            start: run.start.wrapping_add(run.length),
            length: run.length,
            log: run.log.wrapping_add(run.length).wrapping_add(RECORD_HEADER),
            clock: run.clock,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn level() -> impl Strategy<Value = Level> {
        (-50..1000i64, 50..500i64, 1..20u64).prop_map(|(stride, log_stride, count)| match count {
            1 => Level::ONE,
            _ => Level { stride, log_stride, count },
        })
    }

    fn entry() -> impl Strategy<Value = Entry> {
        let run = (1..9u64, 10_000..1u64 << 40, 1..40u64, 112..1u64 << 30, level(), level(), 0..3u8);
        prop_oneof![
            run.prop_map(|(clock, start, length, log, inner, outer, kind)| {
                let (hole, appended) = (kind == 1, kind == 2);
                let (inner, outer) = match (hole, inner.count, outer.count) {
                    (true, ..) => (Level::ONE, Level::ONE),
                    (_, 1, _) => (outer, inner),
                    _ => (inner, outer),
                };
                Entry::Run(Run { clock, start, length, log, hole, appended, inner, outer })
            }),
            (1..9u64, 0..1u64 << 50, 64..1u64 << 30).prop_map(|(clock, length, log)| Entry::Cut { clock, length, log }),
        ]
    }

    proptest! {
        #[test]
        fn entries_come_back(entries in prop::collection::vec(entry(), 0..60)) {
            let bytes = encode(7, 64, 1 << 40, &entries);
            let head = decode_head(&bytes).unwrap();
            prop_assert_eq!((head.session, head.from, head.to), (7, 64, 1 << 40));
            let mut back = Vec::new();
            decode(&head, &bytes[48..], |entry| { back.push(entry); Ok(()) }).unwrap();
            prop_assert_eq!(back, entries);
        }

        #[test]
        fn a_changed_byte_is_noticed(entries in prop::collection::vec(entry(), 1..9), at: prop::sample::Index, by in 1..=255u8) {
            let mut bytes = encode(7, 64, 1 << 40, &entries);
            let at = at.index(bytes.len());
            bytes[at] ^= by;
            let whole = decode_head(&bytes).and_then(|head| decode(&head, &bytes[48..], |_| Ok(())));
            prop_assert!(whole.is_err());
        }
    }

    #[test]
    fn an_entry_beyond_the_data_log_is_refused() {
        let bytes = encode(7, 64, 200, &[Entry::Run(Run::one(1, 0, 100, 112))]);
        assert!(decode(&decode_head(&bytes).unwrap(), &bytes[48..], |_| Ok(())).is_err());
    }
}
