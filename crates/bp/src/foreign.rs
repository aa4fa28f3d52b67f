//! What a file is that is no BP file: by its first bytes, so that an error says it and what opens the file.

use crate::source::{self, Source};
use thalweg_types::{Error, ErrorKind, Result};

/// Bytes at the beginning that are looked at.
const LOOKED_AT: u64 = 4096;

/// Formats by their first bytes, and what to do with them.
const KNOWN: &[(&[u8], &str)] = &[
    (b"\x89HDF\r\n\x1a\n", "it is an HDF5 or netCDF-4 file: `thalweg convert IN.h5 OUT.bp` makes a BP file of it"),
    (
        b"CDF",
        "it is a netCDF file of the classic format: `nccopy -k nc4 IN OUT.nc` and `thalweg convert OUT.nc OUT.bp` make a BP file of it",
    ),
    (b"PAR1", "it is a Parquet file"),
    (b"\x1f\x8b", "it is compressed by gzip: a BP file is not compressed as a whole"),
    (b"\x28\xb5\x2f\xfd", "it is compressed by zstd: a BP file is not compressed as a whole"),
    (b"PK\x03\x04", "it is a zip archive"),
    (b"\x93NUMPY", "it is an array of numpy: numpy.load reads it"),
    (b"\x7fELF", "it is a program"),
];

/// The error for a file that is of another format; `None` where its bytes may be those of a BP file.
///
/// # Errors
/// Failures of reads.
pub fn told(source: &(impl Source + ?Sized)) -> Result<Option<Error>> {
    let length = source.length();
    if length == 0 {
        return Ok(Some(Error::new(ErrorKind::Torn, "it is empty: no step was written")));
    }
    let mut begin = vec![0u8; length.min(LOOKED_AT) as usize];
    source::fill(source, 0, &mut begin)?;
    Ok(what(&begin).map(|what| Error::new(ErrorKind::Unsupported, format!("no BP file: {what}"))))
}

/// What a file is that begins so.
fn what(begin: &[u8]) -> Option<&'static str> {
    if let Some((_, what)) = KNOWN.iter().find(|(magic, _)| begin.starts_with(magic)) {
        return Some(what);
    }
    // The first eight bytes of a BP file are a length, which ends with bytes 0. Fewer may be the begin of one that was cut off.
    if begin.len() < 8 {
        return None;
    }
    let is_text = |byte: &u8| matches!(byte, b'\t' | b'\n' | b'\r' | 0x20..=0x7e | 0x80..);
    let valid = match std::str::from_utf8(begin) {
        Ok(_) => true,
        // The last character may go on behind the end.
        Err(e) => e.error_len().is_none(),
    };
    (valid && begin.iter().all(is_text)).then_some("it is a text")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_formats_are_named_and_bp_files_are_not() {
        for (magic, text) in KNOWN {
            let mut bytes = magic.to_vec();
            bytes.extend([0, 1, 2, 3, 0xff, 0, 0, 0]);
            let e = told(&bytes[..]).unwrap().unwrap();
            assert!(e.kind() == ErrorKind::Unsupported && e.what().contains(text), "{e}");
        }
        assert_eq!(what("Zeilen\nmit ü".as_bytes()), Some("it is a text"));
        // Cut in the middle of a character.
        assert_eq!(what(&"Zeilen\nmit ü".as_bytes()[..12]), Some("it is a text"));
        assert_eq!(told(&[][..]).unwrap().unwrap().kind(), ErrorKind::Torn);
        for bytes in [&[0x86, 0x1f, 0, 0, 0, 0, 0, 0, 0x6e][..], &[0; 100], b"some text\0", b"x", b"x1"] {
            assert!(told(bytes).unwrap().is_none(), "{bytes:?}");
        }
    }
}
