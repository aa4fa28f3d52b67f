//! A snapshot: the content of all index logs of a container in one object, for files of thousands of writers.
//!
//! It lists the marks that it covers, and is stored beside them as `x-DIGEST`: DIGEST is the CRC-64/NVME of their names, each followed
//! by a line feed, in the order of sessions. After a further publish the digest of the marks differs, and the snapshot is ignored.
//!
//! | byte | size | field |
//! |------|------|-------|
//! | 0 | 8 | `TWSNAPSH` |
//! | 8 | 4 | version, 1 |
//! | 12 | 16 | the container's number |
//! | 28 | ... | number of marks, varint; their names, counted |
//! | ... | ... | content of their index logs, counted: `TWFRAGMT`; number of data logs; of each: writer, session, segment (varints), store, folder (bytes), number of blocks, the blocks ([`index::block`](super::index::block)) counted, end of what they cover; CRC-32C |
//! | -4 | 4 | CRC-32C of all before |

use super::marks::{self, Mark};
use super::parallel::Fragment;
use super::wire::{Cursor, bad, put_counted, put_varint, seal, sealed};
use thalweg_types::{ErrorKind, Result};

/// A snapshot.
#[derive(Debug, Clone, PartialEq)]
pub struct Snapshot {
    /// The container's number.
    pub container: u128,
    /// The marks that it covers.
    pub covers: Vec<String>,
    /// Content of their index logs.
    pub index: Fragment,
}

/// Names of the marks that a snapshot of now would cover; `None` while a session is open.
pub fn covers(marks: &[Mark]) -> Option<Vec<String>> {
    marks.iter().map(|m| m.published.filter(|p| p.closed).map(|p| marks::published_name(m.home, &p))).collect()
}

const DIGEST: crc::Crc<u64> = crc::Crc::<u64>::new(&crc::CRC_64_NVME);

/// The name of a snapshot that covers these marks.
pub fn name(covers: &[String]) -> String {
    let mut digest = DIGEST.digest();
    for name in covers {
        digest.update(name.as_bytes());
        digest.update(b"\n");
    }
    format!("x-{:016x}", digest.finalize())
}

impl Snapshot {
    /// The object's bytes.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = b"TWSNAPSH".to_vec();
        out.extend_from_slice(&1u32.to_le_bytes());
        out.extend_from_slice(&self.container.to_le_bytes());
        put_varint(&mut out, self.covers.len() as u64);
        self.covers.iter().for_each(|name| put_counted(&mut out, name.as_bytes()));
        put_counted(&mut out, &self.index.encode());
        seal(&mut out);
        out
    }

    /// Decodes a snapshot.
    ///
    /// # Errors
    /// `Corrupt` for a wrong checksum or an invalid field, `Torn` if bytes are missing at the end, `Unsupported` for another version.
    pub fn decode(bytes: &[u8]) -> Result<Snapshot> {
        let mut c = Cursor::new(sealed(bytes, "snapshot")?);
        if c.take(8, "snapshot")? != b"TWSNAPSH" {
            return Err(bad(ErrorKind::Corrupt, "this is no snapshot").at_byte(0));
        }
        let version = c.u32("version")?;
        if version != 1 {
            return Err(bad(ErrorKind::Unsupported, format!("snapshot version {version}, known is 1")).at_byte(8));
        }
        let container = c.u128("number")?;
        let count = c.varint("marks")?;
        let covers = (0..count).map(|_| c.text("name of a mark")).collect::<Result<_>>()?;
        let index = Fragment::decode(c.counted("index")?)?;
        match c.is_empty() {
            true => Ok(Snapshot { container, covers, index }),
            false => Err(bad(ErrorKind::Corrupt, "bytes behind a snapshot")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::container::index::Source;
    use crate::container::index::block::Entry;
    use crate::container::index::run::Run;

    #[test]
    fn snapshots_come_back_and_a_changed_byte_is_noticed() {
        let source = Source { writer: 3, session: 7, segment: 0, store: 1, folder: 2 };
        let entries = [Entry::Run(Run::one(1, 100, 50, 112)), Entry::Cut { clock: 2, length: 120, log: 162 }];
        let mut index = Fragment::default();
        index.add(&source, |tell| entries.iter().try_for_each(|entry| tell(*entry)).map(|()| 300)).unwrap();
        let snapshot = Snapshot { container: 5, covers: vec!["c-1".into(), "c-2".into()], index };
        let bytes = snapshot.encode();
        assert_eq!(Snapshot::decode(&bytes).unwrap(), snapshot);
        for at in 0..bytes.len() {
            let mut changed = bytes.clone();
            changed[at] ^= 0x10;
            assert!(Snapshot::decode(&changed).is_err(), "byte {at}");
        }
        assert_ne!(name(&snapshot.covers), name(&snapshot.covers[..1]));
        assert_ne!(name(&["ab".into()]), name(&["a".into(), "b".into()]));
    }
}
