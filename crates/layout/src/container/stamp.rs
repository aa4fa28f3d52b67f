//! The stamp: the object of a file's name, which leads to its container. And the identity of a store.
//!
//! Stamp, an object of the logical file's name on the first store, and a copy in the container, on the store that holds its folder:
//!
//! | byte | size | field |
//! |------|------|-------|
//! | 0 | 8 | `TWCONTNR` |
//! | 8 | 4 | version, 1; 2 where the container's folder is not on the first store; 3 where records of the inline object may follow the stamp ([`tail`](super::tail)) |
//! | 12 | 1 | what it is: 1 a file, 2 a symbolic link |
//! | 13 | 1 | index module: 0 `flat`, 1 `pattern`, 2 `distributed` |
//! | 14 | 1 | folders of logs on each store |
//! | 15 | 1 | number of stores |
//! | 16 | 16 | the container's number |
//! | 32 | 4 | mode it was made with |
//! | 36 | 4 | owner |
//! | 40 | 4 | owner's group |
//! | 44 | 8 | when it was made, nanoseconds since 1970 |
//! | 52 | ... | per store: its identity, 8 bytes; its name as the mount had it, counted text |
//! | ... | 1 | version 2 and 3: number, from 0, of the store of the container's folder among these stores |
//! | ... | ... | for a link, its target: counted text |
//! | -4 | 4 | CRC-32C of all before; of version 3, of which more may follow, behind the last field |
//!
//! Identity of a store, its object `.thalweg/store`: `TWSTORE1`, 8 bytes of identity, CRC-32C of the 16 bytes before.

use super::index::Module;
use super::wire::{Cursor, bad, put_counted, seal, sealed};
use thalweg_types::checksum::crc32c;
use thalweg_types::{ErrorKind, Result};

/// The content of a name's object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stamp {
    /// The container's number.
    pub container: u128,
    /// Index module of its logs.
    pub module: Module,
    /// Folders of logs on each store.
    pub folders: u8,
    /// Permissions when it was made.
    pub mode: u32,
    /// Owner when it was made.
    pub uid: u32,
    /// Owner's group when it was made.
    pub gid: u32,
    /// When it was made, nanoseconds since 1970.
    pub made: u64,
    /// Identity and name of each of its stores.
    pub stores: Vec<(u64, String)>,
    /// Number of the store of the container's folder: copy of the stamp, marks, attributes, snapshots.
    pub home: u8,
    /// Target of a symbolic link; `None` for a file.
    pub link: Option<String>,
    /// Whether objects of the container may be stored after the stamp, and its folder may be missing.
    pub tail: bool,
    /// Whether closed sessions may be stored in their marks and in bundles (`packed`). Excludes `tail`.
    pub packed: bool,
}

impl Stamp {
    /// The stamp's bytes.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = b"TWCONTNR".to_vec();
        // The oldest version that describes the container.
        let version: u32 = match self.tail {
            true => 3,
            false if self.packed => 4,
            false if self.home == 0 => 1,
            false => 2,
        };
        out.extend_from_slice(&version.to_le_bytes());
        out.push(if self.link.is_some() { 2 } else { 1 });
        out.extend_from_slice(&[self.module.code(), self.folders, self.stores.len() as u8]);
        out.extend_from_slice(&self.container.to_le_bytes());
        [self.mode, self.uid, self.gid].iter().for_each(|v| out.extend_from_slice(&v.to_le_bytes()));
        out.extend_from_slice(&self.made.to_le_bytes());
        for (identity, name) in &self.stores {
            out.extend_from_slice(&identity.to_le_bytes());
            put_counted(&mut out, name.as_bytes());
        }
        if version > 1 {
            out.push(self.home);
        }
        if let Some(target) = &self.link {
            put_counted(&mut out, target.as_bytes());
        }
        seal(&mut out);
        out
    }

    /// Decodes a stamp. Bytes after a stamp of version 3 are ignored.
    ///
    /// # Errors
    /// As [`Stamp::decode_first`].
    pub fn decode(bytes: &[u8]) -> Result<Stamp> {
        Stamp::decode_first(bytes).map(|(stamp, _)| stamp)
    }

    /// Decodes a stamp; also returns its length: all bytes, except of version 3, which records may follow.
    ///
    /// # Errors
    /// `Corrupt` for a wrong checksum or an invalid field, `Torn` if bytes are missing at the end, `Unsupported` for a version, kind or
    /// index module of a later release.
    pub fn decode_first(bytes: &[u8]) -> Result<(Stamp, usize)> {
        if !bytes.starts_with(b"TWCONTNR") {
            return Err(bad(ErrorKind::Corrupt, "this is no file of layout \"container\"").at_byte(0));
        }
        let tail = bytes.get(8..12) == Some(&3u32.to_le_bytes());
        let mut c = Cursor::new(if tail { &bytes[8..] } else { &sealed(bytes, "stamp")?[8..] });
        let stamp = Stamp::fields(&mut c)?;
        let fields = 8 + c.at();
        if tail && c.u32("checksum of a stamp")? != crc32c(&bytes[..fields]) {
            return Err(bad(ErrorKind::Corrupt, "a stamp does not match its checksum").at_byte(fields as u64));
        }
        if !tail && !c.is_empty() {
            return Err(bad(ErrorKind::Corrupt, "a stamp of impossible content").at_byte(14));
        }
        Ok((stamp, if tail { fields + 4 } else { bytes.len() }))
    }

    fn fields(c: &mut Cursor<'_>) -> Result<Stamp> {
        let version = c.u32("version")?;
        if !(1..=4).contains(&version) {
            let what = format!("container version {version}, known are 1 to 4");
            return Err(bad(ErrorKind::Unsupported, what).at_byte(8));
        }
        let kind = c.u8("kind")?;
        let module = c.u8("index module")?;
        let Some(module) = Module::from_code(module) else {
            return Err(bad(ErrorKind::Unsupported, format!("index module {module} is not known")).at_byte(13));
        };
        let (folders, count, container) = (c.u8("folders")?, c.u8("stores")?, c.u128("number")?);
        let (mode, uid, gid, made) = (c.u32("mode")?, c.u32("owner")?, c.u32("group")?, c.u64("time")?);
        let stores =
            (0..count).map(|_| Ok((c.u64("store")?, c.text("name of a store")?))).collect::<Result<Vec<_>>>()?;
        let home = if version > 1 { c.u8("store of the container's folder")? } else { 0 };
        let link = match kind {
            1 => None,
            2 => Some(c.text("target of a link")?),
            _ => return Err(bad(ErrorKind::Unsupported, format!("a container of kind {kind}")).at_byte(12)),
        };
        let somewhere = usize::from(home) < stores.len().max(1);
        if folders == 0 || !somewhere || (link.is_none() && stores.is_empty()) {
            return Err(bad(ErrorKind::Corrupt, "a stamp of impossible content").at_byte(14));
        }
        let (tail, packed) = (version == 3, version == 4);
        Ok(Stamp { container, module, folders, mode, uid, gid, made, stores, home, link, tail, packed })
    }
}

/// The object with a store's identity.
pub fn encode_identity(identity: u64) -> Vec<u8> {
    let mut out = b"TWSTORE1".to_vec();
    out.extend_from_slice(&identity.to_le_bytes());
    seal(&mut out);
    out
}

/// The identity that these bytes give.
///
/// # Errors
/// `Torn` or `Corrupt` if the bytes are no identity.
pub fn decode_identity(bytes: &[u8]) -> Result<u64> {
    let mut c = Cursor::new(sealed(bytes, "identity of a store")?);
    match c.take(8, "identity of a store")? == b"TWSTORE1" {
        true => c.u64("identity of a store"),
        false => Err(bad(ErrorKind::Corrupt, "this gives no store an identity").at_byte(0)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn stamps_come_back(container: u128, module in 0..3u8, folders in 1..=255u8, stores: Vec<(u64, String)>, home: u8, link: Option<String>, tail: bool, packed: bool, behind: Vec<u8>) {
            let packed = packed && !tail;
            let mut stores = stores;
            stores.truncate(255);
            if link.is_none() && stores.is_empty() {
                stores.push((1, "posix:/a".into()));
            }
            let (mode, uid, gid, made) = (0o640, 1000, u32::MAX, u64::MAX);
            let module = Module::from_code(module).unwrap();
            let home = (usize::from(home) % stores.len().max(1)) as u8;
            let stamp = Stamp { container, module, folders, mode, uid, gid, made, stores, home, link, tail, packed };
            let mut bytes = stamp.encode();
            prop_assert_eq!(Stamp::decode_first(&bytes).unwrap(), (stamp.clone(), bytes.len()));
            let length = bytes.len();
            bytes.extend_from_slice(&behind);
            match tail || behind.is_empty() {
                true => prop_assert_eq!(Stamp::decode_first(&bytes).unwrap(), (stamp, length)),
                false => prop_assert!(Stamp::decode(&bytes).is_err()),
            }
        }

        #[test]
        fn a_changed_byte_is_noticed(at in 0..100usize, by in 1..=255u8, tail: bool) {
            let stores = vec![(9, "memory:".into())];
            let stamp = Stamp { container: 5, module: Module::Flat, folders: 3, mode: 1, uid: 2, gid: 3, made: 4, stores, home: 0, link: None, tail, packed: false };
            let mut bytes = stamp.encode();
            let at = at % bytes.len();
            bytes[at] ^= by;
            prop_assert!(Stamp::decode(&bytes).is_err());
        }
    }

    #[test]
    fn identities_come_back() {
        assert_eq!(decode_identity(&encode_identity(77)).unwrap(), 77);
        assert!(decode_identity(&encode_identity(77)[..19]).is_err());
    }
}
