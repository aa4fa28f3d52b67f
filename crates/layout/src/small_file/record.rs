//! Records of a log and blocks of a name log, as bytes: see `docs/format/small_file.md`.

use crate::wire::{self, Cursor};
use crate::{Attributes, Change as AttributeChange, Kind};
use std::collections::BTreeMap;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use thalweg_types::checksum::crc32c;
use thalweg_types::{Error, ErrorKind, Result};

const LOG_MAGIC: &[u8; 8] = b"THWSMLOG";
const NAMES_MAGIC: &[u8; 8] = b"THWSMNAM";
const RECORD_MAGIC: [u8; 4] = *b"TSFR";
const BLOCK_MAGIC: [u8; 4] = *b"TSFN";
/// Version of new logs. Logs of version 1 have neither links nor extended attributes.
const VERSION: u32 = 2;
/// Length of the header of a log or name log.
pub const HEADER: u64 = 24;
/// Bytes of a record before its head and after it.
pub const FIXED: u64 = 12;
/// Longest valid head.
pub const LONGEST_HEAD: u32 = 1 << 20;
/// Most bytes of a record with one change, without its name, the file's bytes, its target and extended attributes.
pub const MOST_OF_CHANGE: usize = 192;
/// Bytes of the longest value of an extended attribute.
pub const LONGEST_XATTR: usize = 64 << 10;
/// Bytes of all extended attributes of a file, names and values.
pub const MOST_XATTRS: usize = 256 << 10;
/// Longest valid body of a block.
pub const LONGEST_BLOCK: u32 = 64 << 20;

/// Logical time of a record: a clock, and the log's number as tie-breaker.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Stamp {
    /// Larger than the clocks of all records that the writer had seen.
    pub clock: u64,
    /// The log in which it was recorded first.
    pub log: u64,
}

/// Place of a file's bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Content {
    /// The file was removed.
    Gone,
    /// In the record itself.
    Here {
        /// Bytes.
        length: u32,
        /// CRC-32C of them.
        crc: u32,
    },
    /// In a log.
    There {
        /// Its number.
        log: u64,
        /// First byte in it.
        offset: u64,
        /// Bytes.
        length: u32,
        /// CRC-32C of them.
        crc: u32,
    },
    /// In the file's own object.
    Own {
        /// Its number.
        number: u64,
    },
    /// No bytes: a symbolic link; [`More`] has its target.
    Link,
}

/// Attributes of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RecordedAttributes {
    /// Permission bits.
    pub mode: u32,
    /// Owner.
    pub uid: u32,
    /// Owner's group.
    pub gid: u32,
    /// Time of the last read, if a program set it.
    pub atime: SystemTime,
    /// Time of the last write.
    pub mtime: SystemTime,
    /// Time of the last change of bytes or attributes.
    pub ctime: SystemTime,
    /// Distinguishes files that had the same name.
    pub identity: u64,
}

impl RecordedAttributes {
    /// After this change at `now`.
    pub fn changed(mut self, change: &AttributeChange, now: SystemTime) -> RecordedAttributes {
        if change.uid.is_some() || change.gid.is_some() {
            self.uid = change.uid.unwrap_or(self.uid);
            self.gid = change.gid.unwrap_or(self.gid);
            // As POSIX requires for executable files.
            if self.mode & 0o111 != 0 {
                self.mode &= if self.mode & 0o010 != 0 { !0o6000 } else { !0o4000 };
            }
        }
        self.mode = change.mode.map_or(self.mode, |mode| mode & 0o7777);
        self.atime = change.atime.unwrap_or(self.atime);
        self.mtime = change.mtime.unwrap_or(self.mtime);
        self.ctime = now;
        self
    }

    /// As [`Attributes`].
    pub fn attributes(&self, length: u64) -> Attributes {
        Attributes {
            kind: Kind::File,
            length,
            mode: self.mode,
            uid: self.uid,
            gid: self.gid,
            atime: self.atime,
            mtime: self.mtime,
            ctime: self.ctime,
            links: 1,
            identity: self.identity,
        }
    }
}

/// Target of a link and extended attributes, which few files have.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct More {
    /// Contents of a symbolic link.
    pub target: Option<String>,
    /// Extended attributes.
    pub xattrs: BTreeMap<String, Vec<u8>>,
}

impl More {
    /// Bytes of all extended attributes.
    pub fn bytes(&self) -> usize {
        self.xattrs.iter().map(|(key, value)| key.len() + value.len()).sum()
    }

    fn put(&self, out: &mut Vec<u8>) {
        wire::put_counted(out, self.target.as_deref().unwrap_or_default().as_bytes());
        wire::put_varint(out, self.xattrs.len() as u64);
        for (key, value) in &self.xattrs {
            wire::put_counted(out, key.as_bytes());
            wire::put_counted(out, value);
        }
    }

    fn decode(cursor: &mut Cursor<'_>) -> Result<More> {
        let target = Some(cursor.text("target of a link")?).filter(|target| !target.is_empty());
        let mut xattrs = BTreeMap::new();
        for _ in 0..cursor.varint("number of extended attributes")? {
            let key = cursor.text("extended attribute")?;
            xattrs.insert(key, cursor.counted("extended attribute")?.to_vec());
        }
        Ok(More { target, xattrs })
    }
}

/// Change of one name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    /// In its folder.
    pub name: String,
    /// If it differs from the record's: in copies by compaction.
    pub stamp: Option<Stamp>,
    /// New place of its bytes; `None`: unchanged.
    pub content: Option<Content>,
    /// New attributes; `None`: unchanged.
    pub stored: Option<RecordedAttributes>,
    /// New target and extended attributes; `None`: unchanged.
    pub more: Option<More>,
}

impl Change {
    /// A change of this name without contents.
    pub fn of(name: &str) -> Change {
        Change { name: name.to_string(), stamp: None, content: None, stored: None, more: None }
    }
}

/// The head of a record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Head {
    /// Changes of names, which apply together.
    Changes {
        /// Clock of the record.
        clock: u64,
        /// The changes.
        changes: Vec<Change>,
    },
    /// End mark: no record follows.
    End,
}

/// The first bytes of a log (`names`: of a name log).
pub fn header(log: u64, names: bool) -> Vec<u8> {
    let mut out = if names { NAMES_MAGIC } else { LOG_MAGIC }.to_vec();
    out.extend(VERSION.to_le_bytes());
    out.extend(log.to_le_bytes());
    wire::seal(&mut out);
    out
}

/// The number of a log by its first bytes.
///
/// # Errors
/// `Torn` if there are too few bytes, `Corrupt` for other magic bytes; `Unsupported` for a later version.
pub fn read_header(bytes: &[u8], names: bool) -> Result<u64> {
    let what = if names { "name log" } else { "log" };
    let mut cursor = Cursor::new(wire::sealed(bytes.get(..HEADER as usize).unwrap_or(bytes), what)?);
    if cursor.take(8, what)? != if names { NAMES_MAGIC } else { LOG_MAGIC } {
        return Err(Error::new(ErrorKind::Corrupt, format!("this is no {what} of small files")).at_byte(0));
    }
    match cursor.u32(what)? {
        1..=VERSION => cursor.u64(what),
        later => Err(Error::new(
            ErrorKind::Unsupported,
            format!("a {what} of version {later}, supported are 1 to {VERSION}"),
        )),
    }
}

fn put_time(out: &mut Vec<u8>, time: SystemTime) {
    let (seconds, nanos) = match time.duration_since(UNIX_EPOCH) {
        Ok(after) => (after.as_secs() as i64, after.subsec_nanos()),
        Err(before) => match (before.duration().as_secs() as i64, before.duration().subsec_nanos()) {
            (seconds, 0) => (-seconds, 0),
            (seconds, nanos) => (-seconds - 1, 1_000_000_000 - nanos),
        },
    };
    wire::put_signed(out, seconds);
    wire::put_varint(out, u64::from(nanos));
}

fn time(cursor: &mut Cursor<'_>) -> Result<SystemTime> {
    let seconds = cursor.signed("time")?;
    let nanos = cursor.varint("time")?;
    let whole = Duration::from_secs(seconds.unsigned_abs());
    let start = if seconds < 0 { UNIX_EPOCH.checked_sub(whole) } else { UNIX_EPOCH.checked_add(whole) };
    start
        .filter(|_| nanos < 1_000_000_000)
        .and_then(|s| s.checked_add(Duration::from_nanos(nanos)))
        .ok_or_else(|| Error::new(ErrorKind::Corrupt, "a time that no clock shows"))
}

impl Head {
    /// Appends the head's bytes to `out`.
    pub fn put(&self, out: &mut Vec<u8>) {
        let Head::Changes { clock, changes } = self else {
            out.push(2);
            return;
        };
        out.push(1);
        wire::put_varint(out, *clock);
        wire::put_varint(out, changes.len() as u64);
        for change in changes {
            wire::put_counted(out, change.name.as_bytes());
            let flag = |on: bool, bit: u8| if on { bit } else { 0 };
            out.push(
                flag(change.content.is_some(), 1)
                    | flag(change.stored.is_some(), 2)
                    | flag(change.stamp.is_some(), 4)
                    | flag(change.more.is_some(), 8),
            );
            if let Some(stamp) = change.stamp {
                wire::put_varint(out, stamp.clock);
                out.extend(stamp.log.to_le_bytes());
            }
            match change.content {
                None => {}
                Some(Content::Gone) => out.push(0),
                Some(Content::Here { length, crc }) => {
                    out.push(1);
                    wire::put_varint(out, u64::from(length));
                    out.extend(crc.to_le_bytes());
                }
                Some(Content::There { log, offset, length, crc }) => {
                    out.push(2);
                    out.extend(log.to_le_bytes());
                    wire::put_varint(out, offset);
                    wire::put_varint(out, u64::from(length));
                    out.extend(crc.to_le_bytes());
                }
                Some(Content::Own { number }) => {
                    out.push(3);
                    out.extend(number.to_le_bytes());
                }
                Some(Content::Link) => out.push(4),
            }
            if let Some(stored) = &change.stored {
                wire::put_varint(out, u64::from(stored.mode));
                wire::put_varint(out, u64::from(stored.uid));
                wire::put_varint(out, u64::from(stored.gid));
                put_time(out, stored.atime);
                put_time(out, stored.mtime);
                put_time(out, stored.ctime);
                out.extend(stored.identity.to_le_bytes());
            }
            if let Some(more) = &change.more {
                more.put(out);
            }
        }
    }

    /// Decodes a head. At most one change has its bytes in the record.
    ///
    /// # Errors
    /// `Torn` if the bytes end early; `Corrupt` if they are no valid head.
    pub fn decode(bytes: &[u8]) -> Result<Head> {
        let mut cursor = Cursor::new(bytes);
        let corrupt = |what: &str| Err(Error::new(ErrorKind::Corrupt, what.to_string()));
        let head = match cursor.u8("record")? {
            2 => Head::End,
            1 => {
                let clock = cursor.varint("clock")?;
                let count = cursor.varint("number of changes")?;
                // A change has at least two bytes.
                if count > bytes.len() as u64 / 2 {
                    return corrupt("more changes than a record holds");
                }
                let mut changes = Vec::new();
                for _ in 0..count {
                    changes.push(change(&mut cursor)?);
                }
                let here = changes.iter().filter(|c| matches!(c.content, Some(Content::Here { .. })));
                if here.count() > 1 {
                    return corrupt("a record that holds two files");
                }
                Head::Changes { clock, changes }
            }
            _ => return corrupt("a record of unknown kind"),
        };
        if cursor.is_empty() { Ok(head) } else { corrupt("a record with bytes left over") }
    }

    /// Bytes of a file in the record.
    pub fn data_length(&self) -> u32 {
        let Head::Changes { changes, .. } = self else { return 0 };
        let here = changes.iter().find_map(|c| match c.content {
            Some(Content::Here { length, .. }) => Some(length),
            _ => None,
        });
        here.unwrap_or(0)
    }
}

fn change(cursor: &mut Cursor<'_>) -> Result<Change> {
    let corrupt = |what: &str| Error::new(ErrorKind::Corrupt, what.to_string());
    let name = cursor.text("name")?;
    if name.is_empty() || name.contains(['/', '\0']) || matches!(name.as_str(), "." | "..") {
        return Err(corrupt("a name that no file has"));
    }
    let flags = cursor.u8("flags")?;
    if flags & !15 != 0 {
        return Err(corrupt("unknown flags"));
    }
    let stamp = match flags & 4 {
        0 => None,
        _ => Some(Stamp { clock: cursor.varint("clock")?, log: cursor.u64("log")? }),
    };
    let short = |n: u64| u32::try_from(n).map_err(|_| corrupt("a small file of more than 4 GiB"));
    let content = match flags & 1 {
        0 => None,
        _ => Some(match cursor.u8("content")? {
            0 => Content::Gone,
            1 => Content::Here { length: short(cursor.varint("length")?)?, crc: cursor.u32("checksum")? },
            2 => Content::There {
                log: cursor.u64("log")?,
                offset: cursor.varint("offset")?,
                length: short(cursor.varint("length")?)?,
                crc: cursor.u32("checksum")?,
            },
            3 => Content::Own { number: cursor.u64("number")? },
            4 => Content::Link,
            _ => return Err(corrupt("content of unknown kind")),
        }),
    };
    let stored = match flags & 2 {
        0 => None,
        _ => {
            let mut number = |what| -> Result<u32> {
                u32::try_from(cursor.varint(what)?).map_err(|_| corrupt("a number of more than 32 bits"))
            };
            let (mode, uid, gid) = (number("mode")?, number("user")?, number("group")?);
            Some(RecordedAttributes {
                mode,
                uid,
                gid,
                atime: time(cursor)?,
                mtime: time(cursor)?,
                ctime: time(cursor)?,
                identity: cursor.u64("identity")?,
            })
        }
    };
    let more = match flags & 8 {
        0 => None,
        _ => Some(More::decode(cursor)?),
    };
    Ok(Change { name, stamp, content, stored, more })
}

/// Appends a record to `out`; returns the place of its head.
///
/// - `data`: the bytes of the change with [`Content::Here`].
pub fn put(out: &mut Vec<u8>, head: &Head, data: &[u8]) -> std::ops::Range<usize> {
    let start = out.len();
    out.extend(RECORD_MAGIC);
    out.extend([0; 4]);
    out.extend((data.len() as u32).to_le_bytes());
    let head_start = out.len();
    head.put(out);
    let length = (out.len() - head_start) as u32;
    out[start + 4..start + 8].copy_from_slice(&length.to_le_bytes());
    let head = head_start..out.len();
    let crc = crc32c(&out[start..]);
    out.extend(crc.to_le_bytes());
    out.extend_from_slice(data);
    head
}

/// Lengths of head and data from the first [`FIXED`] bytes of a record; `None` if no record begins here.
pub fn fixed(bytes: &[u8]) -> Option<(u32, u32)> {
    let fixed = bytes.first_chunk::<{ FIXED as usize }>()?;
    let head = u32::from_le_bytes([fixed[4], fixed[5], fixed[6], fixed[7]]);
    let data = u32::from_le_bytes([fixed[8], fixed[9], fixed[10], fixed[11]]);
    (fixed[..4] == RECORD_MAGIC && head <= LONGEST_HEAD).then_some((head, data))
}

/// The head of the record in `bytes`, which begin with its magic and reach as far as its head's checksum.
///
/// # Errors
/// `Corrupt` for a wrong checksum or contradicting lengths.
pub fn head(bytes: &[u8], data_length: u32) -> Result<Head> {
    let sealed = wire::sealed(bytes, "record")?;
    let head = Head::decode(sealed.get(FIXED as usize..).unwrap_or_default())?;
    match head.data_length() == data_length {
        true => Ok(head),
        false => Err(Error::new(ErrorKind::Corrupt, "a record's lengths contradict each other").at_byte(8)),
    }
}

/// A block of a name log: the heads of the records in a range of the log, and the first byte of each one's data.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Block {
    /// First byte of the log that it covers.
    pub from: u64,
    /// End of that range.
    pub to: u64,
    /// First byte of each record's data, and the record's head.
    pub entries: Vec<(u64, Head)>,
}

/// Encodes a block of encoded heads.
pub fn put_block(from: u64, to: u64, entries: &[(u64, Vec<u8>)]) -> Vec<u8> {
    let mut body = Vec::new();
    body.extend(from.to_le_bytes());
    body.extend(to.to_le_bytes());
    wire::put_varint(&mut body, entries.len() as u64);
    for (offset, head) in entries {
        wire::put_varint(&mut body, *offset);
        wire::put_counted(&mut body, head);
    }
    let mut out = BLOCK_MAGIC.to_vec();
    out.extend((body.len() as u32).to_le_bytes());
    out.extend(body);
    wire::seal(&mut out);
    out
}

/// Length of a block's body from its first 8 bytes; `None` if no block begins here.
pub fn block_length(bytes: &[u8]) -> Option<u32> {
    let fixed = bytes.first_chunk::<8>()?;
    let length = u32::from_le_bytes([fixed[4], fixed[5], fixed[6], fixed[7]]);
    (fixed[..4] == BLOCK_MAGIC && length <= LONGEST_BLOCK).then_some(length)
}

/// Decodes a whole block.
///
/// # Errors
/// `Torn` if the bytes end early; `Corrupt` for a wrong checksum or invalid contents.
pub fn block(bytes: &[u8]) -> Result<Block> {
    let mut cursor = Cursor::new(wire::sealed(bytes, "block")?);
    cursor.take(8, "block")?;
    let (from, to) = (cursor.u64("block")?, cursor.u64("block")?);
    let count = cursor.varint("number of entries")?;
    if count > bytes.len() as u64 / 2 || from > to {
        return Err(Error::new(ErrorKind::Corrupt, "a block that makes no sense"));
    }
    let mut entries = Vec::new();
    for _ in 0..count {
        let offset = cursor.varint("offset")?;
        entries.push((offset, Head::decode(cursor.counted("head")?)?));
    }
    match cursor.is_empty() {
        true => Ok(Block { from, to, entries }),
        false => Err(Error::new(ErrorKind::Corrupt, "a block with bytes left over")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn any_time() -> impl Strategy<Value = SystemTime> {
        (-(1i64 << 33)..(1i64 << 33), 0u32..1_000_000_000).prop_map(|(seconds, nanos)| {
            let whole = Duration::from_secs(seconds.unsigned_abs());
            let start = if seconds < 0 { UNIX_EPOCH - whole } else { UNIX_EPOCH + whole };
            start + Duration::from_nanos(u64::from(nanos))
        })
    }

    fn any_attributes() -> impl Strategy<Value = RecordedAttributes> {
        (0u32..0o10000, any::<u32>(), any::<u32>(), any_time(), any_time(), any_time(), any::<u64>()).prop_map(
            |(mode, uid, gid, atime, mtime, ctime, identity)| RecordedAttributes {
                mode,
                uid,
                gid,
                atime,
                mtime,
                ctime,
                identity,
            },
        )
    }

    fn any_content() -> impl Strategy<Value = Content> {
        prop_oneof![
            Just(Content::Gone),
            (any::<u64>(), any::<u64>(), any::<u32>(), any::<u32>())
                .prop_map(|(log, offset, length, crc)| Content::There { log, offset, length, crc }),
            any::<u64>().prop_map(|number| Content::Own { number }),
            Just(Content::Link),
        ]
    }

    fn any_more() -> impl Strategy<Value = More> {
        let xattrs = prop::collection::btree_map("user[.][a-z]{1,9}", prop::collection::vec(any::<u8>(), 0..40), 0..4);
        (prop::option::of("[a-z./]{1,20}"), xattrs).prop_map(|(target, xattrs)| More { target, xattrs })
    }

    fn any_change() -> impl Strategy<Value = Change> {
        let stamp = prop::option::of((any::<u64>(), any::<u64>()).prop_map(|(clock, log)| Stamp { clock, log }));
        let (content, stored) = (prop::option::of(any_content()), prop::option::of(any_attributes()));
        ("[a-zé. -]{3,20}", stamp, content, stored, prop::option::of(any_more()))
            .prop_map(|(name, stamp, content, stored, more)| Change { name, stamp, content, stored, more })
    }

    fn any_record() -> impl Strategy<Value = (Head, Vec<u8>)> {
        let data = prop::collection::vec(any::<u8>(), 0..300);
        (any::<u64>(), prop::collection::vec(any_change(), 1..5), prop::option::of(data)).prop_map(
            |(clock, mut changes, data)| {
                if let Some(data) = &data {
                    changes[0].content = Some(Content::Here { length: data.len() as u32, crc: crc32c(data) });
                }
                (Head::Changes { clock, changes }, data.unwrap_or_default())
            },
        )
    }

    proptest! {
        #[test]
        fn records_come_back_as_they_were((told, data) in any_record()) {
            let mut bytes = vec![9; 5];
            let at = put(&mut bytes, &told, &data);
            let (head_length, data_length) = fixed(&bytes[5..]).unwrap();
            prop_assert_eq!((head_length as usize, data_length as usize), (at.len(), data.len()));
            let end = at.end + 4;
            prop_assert_eq!(head(&bytes[5..end], data_length).unwrap(), told);
            prop_assert_eq!(&bytes[end..], &data[..]);
        }

        #[test]
        fn blocks_come_back_as_they_were(records in prop::collection::vec(any_record(), 0..6), from in 0u64..99, more: u32) {
            let entries: Vec<(u64, Vec<u8>)> = records.iter().enumerate().map(|(i, (told, _))| {
                let mut bytes = Vec::new();
                told.put(&mut bytes);
                (i as u64 * 1000, bytes)
            }).collect();
            let to = from + u64::from(more);
            let bytes = put_block(from, to, &entries);
            prop_assert_eq!(block_length(&bytes).unwrap() as usize + 12, bytes.len());
            let back = block(&bytes).unwrap();
            prop_assert_eq!((back.from, back.to, back.entries.len()), (from, to, records.len()));
            for ((_, told), (meant, _)) in back.entries.iter().zip(&records) {
                prop_assert_eq!(told, meant);
            }
        }

        #[test]
        fn a_changed_byte_of_a_head_is_seen((told, data) in any_record(), at: prop::sample::Index, flip in 1u8..) {
            let mut bytes = Vec::new();
            let end = put(&mut bytes, &told, &data).end + 4;
            bytes[at.index(end)] ^= flip;
            let seen = fixed(&bytes).and_then(|(head_length, data_length)| {
                let whole = bytes.get(..FIXED as usize + head_length as usize + 4)?;
                head(whole, data_length).ok()
            });
            prop_assert!(seen.is_none());
        }

        #[test]
        fn no_bytes_make_a_decoder_fail_otherwise_than_by_an_error(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
            let _ = (Head::decode(&bytes), block(&bytes), read_header(&bytes, false), head(&bytes, 3));
        }
    }

    #[test]
    fn headers_tell_logs_from_name_logs() {
        assert_eq!(header(7, false).len() as u64, HEADER);
        assert_eq!(read_header(&header(7, false), false).unwrap(), 7);
        assert_eq!(read_header(&header(7, true), true).unwrap(), 7);
        assert_eq!(read_header(&header(7, true), false).unwrap_err().kind(), ErrorKind::Corrupt);
        assert_eq!(read_header(&header(7, true)[..10], true).unwrap_err().kind(), ErrorKind::Corrupt);
        let of_version = |version: u32| {
            let mut bytes = header(7, false)[..20].to_vec();
            bytes[8..12].copy_from_slice(&version.to_le_bytes());
            wire::seal(&mut bytes);
            bytes
        };
        assert_eq!(read_header(&of_version(1), false).unwrap(), 7, "what was written before links were");
        let later = read_header(&of_version(3), false).unwrap_err();
        assert_eq!(later.kind(), ErrorKind::Unsupported);
        assert!(later.to_string().contains("version 3"), "{later}");
    }
}
