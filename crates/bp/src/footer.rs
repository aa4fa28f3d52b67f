//! The tag and the minifooter: the fixed-size end of a file, with the offsets of the indexes.
//!
//! | byte from the end | size | field |
//! |---|---|---|
//! | 56 | 24 | tag: ASCII `ADIOS-BP v...`, space padded |
//! | 32 | 4 | tag: major, minor, patch as digits, 0 |
//! | 28 | 8 | offset of the process group index |
//! | 20 | 8 | offset of the variable index |
//! | 12 | 8 | offset of the attribute index |
//! | 4 | 1 | byte order: 0 little, 0x01 or 0x80 big (0x01 is written) |
//! | 3 | 1 | 0 |
//! | 2 | 1 | flags: 2 one file, 3 payloads in subfiles |
//! | 1 | 1 | version, 3 |
//!
//! Source: `docs/format/bp3.md`.

use crate::wire::{Cursor, Put};
use thalweg_types::{ByteOrder, Error, ErrorKind, Result};

/// Bytes of the minifooter.
pub const MINIFOOTER: u64 = 28;
/// Bytes that a device writes atomically.
const SECTOR: u64 = 512;
/// Bytes of tag and minifooter.
pub const FOOTER: u64 = 56;

/// The content of the minifooter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Footer {
    /// Offset of the process group index.
    pub process_groups: u64,
    /// Offset of the variable index.
    pub variables: u64,
    /// Offset of the attribute index.
    pub attributes: u64,
    /// Byte order of the file.
    pub order: ByteOrder,
    /// Whether payloads are in subfiles.
    pub subfiles: bool,
}

impl Footer {
    /// Appends tag and minifooter of an index with an extension section.
    pub fn encode(&self, out: &mut Vec<u8>) {
        self.encode_as("Thalweg", out);
    }

    /// Appends tag and minifooter, in the byte order of `out`, which is that of the file.
    ///
    /// - `kind`: the end of the tag; an extension section is not looked for where it is not `Thalweg`.
    pub(crate) fn encode_as(&self, kind: &str, out: &mut impl Put) {
        let tag = format!("{:<24}", format!(concat!("ADIOS-BP v", env!("CARGO_PKG_VERSION"), " {}"), kind));
        out.put(tag.as_bytes().get(..24).unwrap_or(&[b' '; 24]));
        // Digits: adios2 reads them as text, ADIOS 1.13 ignores them.
        out.put(b"010\0");
        out.put_u64(self.process_groups);
        out.put_u64(self.variables);
        out.put_u64(self.attributes);
        out.put(&[u8::from(out.order() == ByteOrder::Big), 0, if self.subfiles { 3 } else { 2 }, 3]);
    }

    /// Whether a tag is of this library: an extension section then precedes the index.
    pub fn is_ours(tag: &[u8]) -> bool {
        tag.windows(5).any(|w| w == b" Thal")
    }

    /// Whether a power failure has lost the beginning of a tag: its bytes are zeros up to the last sector boundary before the
    /// minifooter, which ends at byte `end`. The library that wrote the index is then not known.
    pub fn is_cut(tag: &[u8; (FOOTER - MINIFOOTER) as usize], end: u64) -> bool {
        let Some(start) = end.checked_sub(FOOTER) else { return false };
        let boundary = (end - MINIFOOTER) / SECTOR * SECTOR;
        let Some(lost) = boundary.checked_sub(start).filter(|lost| *lost > 0) else { return false };
        let (lost, left) = tag.split_at(lost as usize);
        let is_of_a_tag = |(at, byte): (usize, &u8)| match at {
            27 => *byte == 0,
            24..27 => byte.is_ascii_digit(),
            _ => *byte == b' ' || byte.is_ascii_graphic(),
        };
        lost.iter().all(|byte| *byte == 0) && (lost.len()..).zip(left).all(is_of_a_tag)
    }

    /// Decodes the last 28 bytes of a file that ends at byte `end`.
    ///
    /// # Errors
    /// `Corrupt` where version, byte order or flags are unknown, or the offsets do not ascend within the file.
    pub fn decode(tail: &[u8; MINIFOOTER as usize], end: u64) -> Result<Footer> {
        let start = end.saturating_sub(MINIFOOTER);
        let corrupt = |what: String| Error::new(ErrorKind::Corrupt, what).at_byte(start);
        let [order, zero, flags, version] = [tail[24], tail[25], tail[26], tail[27]];
        if version != 3 || zero != 0 {
            return Err(corrupt(format!("no BP version 3 footer (version byte {version})")));
        }
        let order = match order {
            0 => ByteOrder::Little,
            1 | 0x80 => ByteOrder::Big,
            other => return Err(corrupt(format!("byte order {other} in the footer"))),
        };
        if flags > 3 {
            return Err(corrupt(format!("flags {flags} in the footer")));
        }
        let mut c = Cursor::new(tail, order, start);
        let footer = Footer {
            process_groups: c.u64("footer")?,
            variables: c.u64("footer")?,
            attributes: c.u64("footer")?,
            order,
            subfiles: flags == 3,
        };
        let index_end = end.checked_sub(FOOTER).ok_or_else(|| corrupt("too short for a footer".into()))?;
        let rises = footer.process_groups.checked_add(16).is_some_and(|e| e <= footer.variables)
            && footer.variables.checked_add(12).is_some_and(|e| e <= footer.attributes)
            && footer.attributes.checked_add(12).is_some_and(|e| e <= index_end);
        if !rises {
            return Err(corrupt(format!(
                "index offsets {}, {}, {} do not rise inside {end} bytes",
                footer.process_groups, footer.variables, footer.attributes
            )));
        }
        Ok(footer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_footer_survives_and_a_changed_version_does_not() {
        let footer =
            Footer { process_groups: 100, variables: 116, attributes: 128, order: ByteOrder::NATIVE, subfiles: true };
        let mut bytes = vec![0; 140];
        footer.encode(&mut bytes);
        assert_eq!(bytes.len(), 196);
        assert!(Footer::is_ours(&bytes[140..168]) && !Footer::is_ours(b"ADIOS-BP v1.13.1        \x01\x0d\x01\0"));
        let mut tail: [u8; 28] = bytes[168..].try_into().unwrap();
        assert_eq!(Footer::decode(&tail, 196).unwrap(), footer);
        assert!(Footer::decode(&tail, 195).is_err());
        tail[27] = 2;
        assert_eq!(Footer::decode(&tail, 196).unwrap_err().kind(), ErrorKind::Corrupt);
    }

    #[test]
    fn a_tag_whose_beginning_a_power_cut_took_is_told_from_one_that_was_never_there() {
        let footer =
            Footer { process_groups: 100, variables: 116, attributes: 128, order: ByteOrder::NATIVE, subfiles: true };
        let mut bytes = Vec::new();
        footer.encode(&mut bytes);
        let whole: [u8; 28] = bytes[..28].try_into().unwrap();
        for end in 2 * SECTOR..3 * SECTOR {
            let lost = ((end - MINIFOOTER) / SECTOR * SECTOR).saturating_sub(end - FOOTER) as usize;
            let mut tag = whole;
            tag[..lost].fill(0);
            assert_eq!(Footer::is_cut(&tag, end), lost > 0, "{end}");
            assert!(!Footer::is_cut(&whole, end), "{end}");
            assert!(lost >= 27 || !Footer::is_cut(&[0; 28], end), "{end}: the end of an index without a tag");
        }
    }
}
