//! Numbers in the records of layouts: little endian, of fixed size or as varints; every structure of a container ends with a CRC-32C.
//!
//! A varint has 7 bits per byte, lowest first, the top bit set in all but the last byte; at most 10 bytes. Signed numbers are
//! zigzag-encoded first: 0, -1, 1, -2 become 0, 1, 2, 3.

use thalweg_types::checksum::crc32c;
use thalweg_types::{Error, ErrorKind, Result};

/// Reads consecutive numbers.
pub struct Cursor<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Cursor<'a> {
    pub fn new(bytes: &'a [u8]) -> Cursor<'a> {
        Cursor { bytes, at: 0 }
    }

    pub fn is_empty(&self) -> bool {
        self.at == self.bytes.len()
    }

    /// How many bytes were read.
    pub fn at(&self) -> usize {
        self.at
    }

    /// The next bytes.
    pub fn take(&mut self, count: usize, what: &str) -> Result<&'a [u8]> {
        let end = self.at.checked_add(count).filter(|end| *end <= self.bytes.len());
        let Some(end) = end else {
            return Err(Error::new(ErrorKind::Torn, format!("{what} ends early")).at_byte(self.at as u64));
        };
        let taken = &self.bytes[self.at..end];
        self.at = end;
        Ok(taken)
    }

    /// All remaining bytes.
    pub fn rest(self) -> &'a [u8] {
        &self.bytes[self.at..]
    }

    fn array<const N: usize>(&mut self, what: &str) -> Result<[u8; N]> {
        let mut out = [0; N];
        out.copy_from_slice(self.take(N, what)?);
        Ok(out)
    }

    pub fn u8(&mut self, what: &str) -> Result<u8> {
        Ok(self.array::<1>(what)?[0])
    }

    pub fn u32(&mut self, what: &str) -> Result<u32> {
        Ok(u32::from_le_bytes(self.array(what)?))
    }

    pub fn u64(&mut self, what: &str) -> Result<u64> {
        Ok(u64::from_le_bytes(self.array(what)?))
    }

    pub fn u128(&mut self, what: &str) -> Result<u128> {
        Ok(u128::from_le_bytes(self.array(what)?))
    }

    /// An unsigned varint.
    pub fn varint(&mut self, what: &str) -> Result<u64> {
        let mut value = 0u64;
        for shift in (0..64).step_by(7) {
            let byte = self.u8(what)?;
            let bits = u64::from(byte & 0x7f);
            if shift == 63 && bits > 1 {
                break;
            }
            value |= bits << shift;
            if byte & 0x80 == 0 {
                return Ok(value);
            }
        }
        Err(Error::new(ErrorKind::Corrupt, format!("{what} is a number of more than 64 bits")).at_byte(self.at as u64))
    }

    /// A signed varint.
    pub fn signed(&mut self, what: &str) -> Result<i64> {
        let folded = self.varint(what)?;
        Ok((folded >> 1) as i64 ^ -((folded & 1) as i64))
    }

    /// Bytes preceded by their count, a varint.
    pub fn counted(&mut self, what: &str) -> Result<&'a [u8]> {
        let count = usize::try_from(self.varint(what)?).unwrap_or(usize::MAX);
        self.take(count, what)
    }

    /// Text, as [`counted`](Cursor::counted).
    pub fn text(&mut self, what: &str) -> Result<String> {
        let bytes = self.counted(what)?;
        let no_text = |_| Error::new(ErrorKind::Corrupt, format!("{what} is no text")).at_byte(self.at as u64);
        std::str::from_utf8(bytes).map(str::to_string).map_err(no_text)
    }
}

pub fn put_varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

pub fn put_signed(out: &mut Vec<u8>, value: i64) {
    put_varint(out, ((value as u64) << 1) ^ ((value >> 63) as u64));
}

pub fn put_counted(out: &mut Vec<u8>, bytes: &[u8]) {
    put_varint(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

/// Appends the checksum of all bytes.
pub fn seal(out: &mut Vec<u8>) {
    let crc = crc32c(out);
    out.extend_from_slice(&crc.to_le_bytes());
}

/// Verifies the checksum; returns the bytes before it.
pub fn sealed<'a>(bytes: &'a [u8], what: &str) -> Result<&'a [u8]> {
    let Some((body, crc)) = bytes.split_last_chunk::<4>() else {
        return Err(Error::new(ErrorKind::Torn, format!("{what} ends early")).at_byte(0));
    };
    match crc32c(body) == u32::from_le_bytes(*crc) {
        true => Ok(body),
        false => Err(Error::new(ErrorKind::Corrupt, format!("{what} does not match its checksum")).at_byte(0)),
    }
}

/// An error of the kind, about a structure.
pub fn bad(kind: ErrorKind, what: impl Into<String>) -> Error {
    Error::new(kind, what)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn numbers_come_back(values: Vec<u64>, signed: Vec<i64>) {
            let mut out = Vec::new();
            values.iter().for_each(|v| put_varint(&mut out, *v));
            signed.iter().for_each(|v| put_signed(&mut out, *v));
            let mut cursor = Cursor::new(&out);
            for v in &values {
                prop_assert_eq!(cursor.varint("v").unwrap(), *v);
            }
            for v in &signed {
                prop_assert_eq!(cursor.signed("v").unwrap(), *v);
            }
            prop_assert!(cursor.is_empty());
        }

        #[test]
        fn no_bytes_make_the_cursor_fail_but_in_words(bytes: Vec<u8>) {
            let mut cursor = Cursor::new(&bytes);
            while cursor.varint("v").is_ok() {}
            let mut cursor = Cursor::new(&bytes);
            while !cursor.is_empty() && cursor.text("t").is_ok() {}
        }
    }

    #[test]
    fn a_varint_of_eleven_bytes_is_refused() {
        assert!(Cursor::new(&[0xff; 11]).varint("v").is_err());
        assert!(Cursor::new(&[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 2]).varint("v").is_err());
        let most = [0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1];
        assert_eq!(Cursor::new(&most).varint("v").unwrap(), u64::MAX);
    }
}
