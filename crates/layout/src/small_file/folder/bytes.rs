//! Reads the bytes of a small file from its log and verifies their checksum.

use super::{Folder, Inner, hidden};
use crate::small_file::log;
use std::sync::Arc;
use thalweg_store::ReadObject;
use thalweg_types::checksum::crc32c;
use thalweg_types::{Error, ErrorKind, Result};

/// Bytes of a file, or the log to read them from.
enum Found {
    Bytes(Vec<u8>),
    Log(String, Arc<dyn ReadObject>),
}

impl Folder {
    /// The bytes of a file, verified.
    ///
    /// # Errors
    /// `Corrupt` names log and byte; `NotFound` if the log is gone because another process compacted it.
    pub fn bytes(&self, log: u64, offset: u64, length: u32, crc: u32) -> Result<Vec<u8>> {
        let found = self.find_bytes(&mut self.lock(), log, offset, length, crc)?;
        Folder::read_bytes(found, offset, length, crc)
    }

    /// Like [`Folder::bytes`], with the folder locked.
    pub fn bytes_in(&self, inner: &mut Inner, log: u64, offset: u64, length: u32, crc: u32) -> Result<Vec<u8>> {
        let found = self.find_bytes(inner, log, offset, length, crc)?;
        Folder::read_bytes(found, offset, length, crc)
    }

    fn damaged(name: &str, offset: u64) -> Error {
        let what = "the bytes of a small file do not match their checksum: they were not synced before its writer died, or were damaged";
        Error::new(ErrorKind::Corrupt, what).in_object(name).at_byte(offset)
    }

    /// The bytes, or their log, which is then read without the folder's lock.
    fn find_bytes(&self, inner: &mut Inner, log: u64, offset: u64, length: u32, crc: u32) -> Result<Found> {
        if length == 0 {
            return match crc {
                0 => Ok(Found::Bytes(Vec::new())),
                _ => Err(Folder::damaged(&log::data_name(log), offset)),
            };
        }
        let name = format!("{}{}", hidden(&inner.path), log::data_name(log));
        if let Some(recent) = inner.recent.get(&(log, offset)) {
            return Ok(Found::Bytes(recent.to_vec()));
        }
        if let Some(writer) = inner.writer.as_ref().filter(|w| w.number == log) {
            if offset.saturating_add(u64::from(length)) > writer.end {
                return Err(Folder::damaged(&name, offset));
            }
            let mut bytes = vec![0; length as usize];
            let got = writer.read_at(offset, &mut bytes)?;
            let good = got == bytes.len() && crc32c(&bytes) == crc;
            return if good { Ok(Found::Bytes(bytes)) } else { Err(Folder::damaged(&name, offset)) };
        }
        if !inner.known.contains_key(&log) {
            self.look(inner)?;
        }
        let object = inner.known.get(&log).map(|k| k.object.clone());
        let gone = || Error::new(ErrorKind::NotFound, "a log was removed").in_object(name.clone());
        Ok(Found::Log(name.clone(), object.ok_or_else(gone)?))
    }

    fn read_bytes(found: Found, offset: u64, length: u32, crc: u32) -> Result<Vec<u8>> {
        /// A longer length is compared with the log's length before memory is allocated.
        const TAKEN_UNSEEN: u32 = 64 << 10;
        let (name, object) = match found {
            Found::Bytes(bytes) => return Ok(bytes),
            Found::Log(name, object) => (name, object),
        };
        if length > TAKEN_UNSEEN && object.length()? < offset.saturating_add(u64::from(length)) {
            return Err(Folder::damaged(&name, offset));
        }
        let mut bytes = vec![0; length as usize];
        let got = object.read_at(offset, &mut bytes)?;
        let good = got == bytes.len() && crc32c(&bytes) == crc;
        if good { Ok(bytes) } else { Err(Folder::damaged(&name, offset)) }
    }
}
