//! Mode, owner, times and extended attributes of a file, stored in its container; of a folder, on stores without attributes.
//! Each change makes a new object; the highest version counts.
//!
//! Name, beside the marks: `a-VERSION-NUMBER-CRC`, as marks are named; VERSION counts up, NUMBER is drawn. Of a folder:
//! `.thalweg.folder` in it.
//!
//! | byte | size | field |
//! |------|------|-------|
//! | 0 | 8 | `TWATTRIB` |
//! | 8 | 4 | version, 1 |
//! | 12 | 4 | mode |
//! | 16 | 4 | owner |
//! | 20 | 4 | owner's group |
//! | 24 | 8 | last read, nanoseconds since 1970, signed |
//! | 32 | 8 | last write that was set by a program; what is published with a later time counts more |
//! | 40 | 8 | when that was set; 0 for never |
//! | 48 | 8 | last change of any of these |
//! | 56 | ... | number of extended attributes, varint; of each key and value, counted |
//! | -4 | 4 | CRC-32C of all before |

use super::stamp::Stamp;
use super::wire::{Cursor, bad, put_counted, put_varint, seal, sealed};
use std::collections::BTreeMap;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use thalweg_store::{Attributes, Change, Kind};
use thalweg_types::checksum::crc32c;
use thalweg_types::{ErrorKind, Result};

/// Attributes as stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredAttributes {
    /// Permissions.
    pub mode: u32,
    /// Owner.
    pub uid: u32,
    /// Owner's group.
    pub gid: u32,
    /// Last read, nanoseconds since 1970.
    pub atime: i64,
    /// Last write, as set by a program.
    pub mtime: i64,
    /// Time of that call; 0: never.
    pub mtime_set: u64,
    /// Last change of any of these.
    pub ctime: u64,
    /// Extended attributes.
    pub xattrs: BTreeMap<String, Vec<u8>>,
}

impl StoredAttributes {
    /// Attributes of a new file.
    pub fn of(stamp: &Stamp) -> StoredAttributes {
        StoredAttributes::new(stamp.mode, stamp.uid, stamp.gid, stamp.made)
    }

    /// Attributes of a file or folder made at `made`.
    pub fn new(mode: u32, uid: u32, gid: u32, made: u64) -> StoredAttributes {
        let atime = i64::try_from(made).unwrap_or(i64::MAX);
        StoredAttributes { mode, uid, gid, atime, mtime: atime, mtime_set: 0, ctime: made, xattrs: BTreeMap::new() }
    }

    /// Applies a change made at `now`.
    pub fn change(&mut self, change: &Change, now: u64) {
        self.mode = change.mode.map_or(self.mode, |mode| mode & 0o7777);
        self.uid = change.uid.unwrap_or(self.uid);
        self.gid = change.gid.unwrap_or(self.gid);
        self.atime = change.atime.map_or(self.atime, nanoseconds);
        if let Some(mtime) = change.mtime {
            (self.mtime, self.mtime_set) = (nanoseconds(mtime), now);
        }
        self.ctime = now;
    }

    /// Last write, given when something was last published.
    pub fn written(&self, published: Option<u64>) -> i64 {
        match published {
            Some(time) if self.mtime_set == 0 || time > self.mtime_set => i64::try_from(time).unwrap_or(i64::MAX),
            _ => self.mtime,
        }
    }

    /// Attributes as a program sees them.
    ///
    /// - `mtime`: last write, see [`StoredAttributes::written`].
    pub fn told(&self, kind: Kind, length: u64, mtime: i64, links: u64, identity: u64) -> Attributes {
        let ctime = i64::try_from(self.ctime).unwrap_or(i64::MAX).max(if self.mtime == mtime { 0 } else { mtime });
        Attributes {
            kind,
            length,
            mode: self.mode,
            uid: self.uid,
            gid: self.gid,
            atime: time(self.atime),
            mtime: time(mtime),
            ctime: time(ctime),
            links,
            identity,
        }
    }

    /// The object's bytes.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = b"TWATTRIB".to_vec();
        [1, self.mode, self.uid, self.gid].iter().for_each(|v| out.extend_from_slice(&v.to_le_bytes()));
        [self.atime as u64, self.mtime as u64, self.mtime_set, self.ctime]
            .iter()
            .for_each(|v| out.extend_from_slice(&v.to_le_bytes()));
        put_varint(&mut out, self.xattrs.len() as u64);
        for (key, value) in &self.xattrs {
            put_counted(&mut out, key.as_bytes());
            put_counted(&mut out, value);
        }
        seal(&mut out);
        out
    }

    /// Decodes an object of attributes.
    ///
    /// # Errors
    /// `Corrupt` for a wrong checksum or an invalid field, `Torn` if bytes are missing at the end, `Unsupported` for another version.
    pub fn decode(bytes: &[u8]) -> Result<StoredAttributes> {
        let mut c = Cursor::new(sealed(bytes, "attributes")?);
        if c.take(8, "attributes")? != b"TWATTRIB" {
            return Err(bad(ErrorKind::Corrupt, "these are no attributes").at_byte(0));
        }
        let version = c.u32("version")?;
        if version != 1 {
            return Err(bad(ErrorKind::Unsupported, format!("attributes of version {version}, known is 1")).at_byte(8));
        }
        let mut stored = StoredAttributes::new(c.u32("mode")?, c.u32("owner")?, c.u32("group")?, 0);
        (stored.atime, stored.mtime) = (c.u64("atime")? as i64, c.u64("mtime")? as i64);
        (stored.mtime_set, stored.ctime) = (c.u64("mtime")?, c.u64("ctime")?);
        for _ in 0..c.varint("extended attributes")? {
            stored.xattrs.insert(c.text("key")?, c.counted("value")?.to_vec());
        }
        match c.is_empty() {
            true => Ok(stored),
            false => Err(bad(ErrorKind::Corrupt, "bytes behind attributes")),
        }
    }
}

/// The name of an object of attributes.
pub fn name(version: u64, number: u64) -> String {
    let name = format!("a-{version:x}-{number:016x}-");
    format!("{name}{:08x}", crc32c(name.as_bytes()))
}

/// Version and number in a name; `None` for other names.
pub fn parse(text: &str) -> Option<(u64, u64)> {
    let mut fields = text.strip_prefix("a-")?.split('-').map(|field| u64::from_str_radix(field, 16).ok());
    let found = (fields.next()??, fields.next()??);
    (name(found.0, found.1) == text).then_some(found)
}

/// A time as stored: nanoseconds since 1970.
pub fn nanoseconds(time: SystemTime) -> i64 {
    match time.duration_since(UNIX_EPOCH) {
        Ok(since) => i64::try_from(since.as_nanos()).unwrap_or(i64::MAX),
        Err(before) => i64::try_from(before.duration().as_nanos()).map_or(i64::MIN, |n| -n),
    }
}

/// The time that is stored as so many nanoseconds since 1970.
pub fn time(nanoseconds: i64) -> SystemTime {
    let by = Duration::from_nanos(nanoseconds.unsigned_abs());
    if nanoseconds < 0 { UNIX_EPOCH - by } else { UNIX_EPOCH + by }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn attributes_come_back(mode: u32, uid: u32, gid: u32, atime: i64, mtime: i64, mtime_set: u64, ctime: u64,
                                xattrs: BTreeMap<String, Vec<u8>>) {
            let stored = StoredAttributes { mode, uid, gid, atime, mtime, mtime_set, ctime, xattrs };
            prop_assert_eq!(StoredAttributes::decode(&stored.encode()).unwrap(), stored);
            prop_assert_eq!(nanoseconds(time(atime)), atime.max(-i64::MAX));
            prop_assert_eq!(parse(&name(uid.into(), ctime)), Some((uid.into(), ctime)));
        }

        #[test]
        fn no_bytes_are_attributes_by_chance(bytes: Vec<u8>) {
            prop_assert!(StoredAttributes::decode(&bytes).is_err());
        }
    }
}
