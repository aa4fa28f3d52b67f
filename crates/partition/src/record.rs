//! What is known of a file: its identity and how it is striped. The bytes are the file's object in the storage of names
//! (`docs/format/partition.md`).
//!
//! | byte | size | field |
//! |------|------|-------|
//! | 0 | 8 | `TWSTRIPE` |
//! | 8 | 4 | version, 1 |
//! | 12 | 4 | number of servers |
//! | 16 | 8 | bytes of a stripe |
//! | 24 | 16 | identity |
//! | 40 | 4 | CRC-32C of bytes 0 to 39 |
//!
//! Numbers are little endian. The data of server `k` are the object `XX/IDENTITY.STRIPE.SERVERS.k` of its storage, where `XX` are the
//! first two of the 32 digits of the identity.

use crate::striping::Striping;
use thalweg_layout::ReadObject;
use thalweg_types::checksum::crc32c;
use thalweg_types::{Error, ErrorKind, Result};

/// Bytes of a record.
pub const LONGEST: usize = 44;
const MAGIC: &[u8; 8] = b"TWSTRIPE";

/// What is known of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Record {
    /// The file's identity, the same under every name.
    pub id: u128,
    /// How it is striped.
    pub striping: Striping,
}

impl Record {
    /// As bytes.
    pub fn encode(&self) -> [u8; LONGEST] {
        let mut out = [0; LONGEST];
        out[..8].copy_from_slice(MAGIC);
        out[8..12].copy_from_slice(&1u32.to_le_bytes());
        out[12..16].copy_from_slice(&self.striping.servers().to_le_bytes());
        out[16..24].copy_from_slice(&self.striping.stripe().to_le_bytes());
        out[24..40].copy_from_slice(&self.id.to_le_bytes());
        let sum = crc32c(&out[..40]);
        out[40..].copy_from_slice(&sum.to_le_bytes());
        out
    }

    /// From bytes.
    ///
    /// # Errors
    /// `Corrupt` for bytes that are no record; `Unsupported` for one of a later version.
    pub fn decode(bytes: &[u8]) -> Result<Record> {
        let corrupt = |what: &str| Error::new(ErrorKind::Corrupt, what.to_string());
        let bytes: &[u8; LONGEST] = bytes.try_into().map_err(|_| corrupt("this is no record of a partition's file"))?;
        let part = |from: usize, length: usize| &bytes[from..from + length];
        let four = |at: usize| u32::from_le_bytes(part(at, 4).try_into().unwrap_or_default());
        if part(0, 8) != MAGIC {
            return Err(corrupt("this is no record of a partition's file").at_byte(0));
        }
        if four(40) != crc32c(part(0, 40)) {
            return Err(corrupt("the record's checksum does not match").at_byte(40));
        }
        if four(8) != 1 {
            return Err(
                Error::new(ErrorKind::Unsupported, format!("a record of version {}, known is 1", four(8))).at_byte(8)
            );
        }
        let stripe = u64::from_le_bytes(part(16, 8).try_into().unwrap_or_default());
        let id = u128::from_le_bytes(part(24, 16).try_into().unwrap_or_default());
        let striping = Striping::new(stripe, four(12)).map_err(|e| corrupt(e.what()).at_byte(12))?;
        Ok(Record { id, striping })
    }

    /// Reads the record of a file.
    ///
    /// # Errors
    /// As [`Record::decode`], naming the file; errors of reading.
    pub fn read(object: &dyn ReadObject, path: &str) -> Result<Record> {
        let mut bytes = [0; LONGEST + 1];
        let mut got = 0;
        while got < bytes.len() {
            match object.read_at(got as u64, &mut bytes[got..])? {
                0 => break,
                more => got += more,
            }
        }
        Record::decode(&bytes[..got]).map_err(|e| e.in_object(path))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_record_comes_back(id: u128, stripe in 1u64..1 << 40, servers in 1u32..4097) {
            let record = Record { id, striping: Striping::new(stripe, servers).unwrap() };
            prop_assert_eq!(Record::decode(&record.encode()).unwrap(), record);
        }

        #[test]
        fn a_changed_byte_is_found(id: u128, at in 0..LONGEST, change in 1u8..) {
            let mut bytes = Record { id, striping: Striping::new(65536, 4).unwrap() }.encode();
            bytes[at] ^= change;
            prop_assert!(Record::decode(&bytes).is_err());
        }
    }

    #[test]
    fn bytes_of_another_length_are_no_record() {
        let bytes = Record { id: 1, striping: Striping::new(1, 1).unwrap() }.encode();
        assert!((0..LONGEST).all(|length| Record::decode(&bytes[..length]).is_err()));
        assert!(Record::decode(&[&bytes[..], &[0]].concat()).is_err());
    }
}
