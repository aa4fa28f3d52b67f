//! Numbers in transform metadata: written in this machine's byte order, read in the file's.

use crate::codec::Form;
use crate::corrupt;
use thalweg_types::{ByteOrder, Result};

macro_rules! read {
    ($name:ident, $type:ty) => {
        /// The number at byte `at`.
        pub fn $name(bytes: &[u8], at: usize, order: ByteOrder) -> Result<$type> {
            let word = bytes.get(at..).and_then(|b| b.first_chunk::<{ size_of::<$type>() }>());
            let word = word.ok_or_else(|| corrupt(format!("transform metadata of {} bytes", bytes.len())))?;
            Ok(if order == ByteOrder::Little { <$type>::from_le_bytes(*word) } else { <$type>::from_be_bytes(*word) })
        }
    };
}
read!(u64_at, u64);
read!(u32_at, u32);
read!(i32_at, i32);

/// The metadata of zlib, bzip2 and zstd: u64 bytes of the block, u8 1 compressed or 0 unchanged.
pub fn size_and_flag(bytes: u64, compressed: bool) -> Vec<u8> {
    let mut metadata = bytes.to_ne_bytes().to_vec();
    metadata.push(u8::from(compressed));
    metadata
}

/// Reads [`size_and_flag`]: whether the block is compressed. Files before ADIOS 1.6 have no metadata, and are compressed.
pub fn compressed(metadata: &[u8], order: ByteOrder, bytes: usize) -> Result<bool> {
    if metadata.is_empty() {
        return Ok(true);
    }
    let size = u64_at(metadata, 0, order)?;
    if size != bytes as u64 {
        return Err(corrupt(format!("transform metadata of a block of {size} bytes, its shape has {bytes}")));
    }
    match metadata.get(8) {
        Some(flag) => Ok(*flag != 0),
        None => Err(corrupt(format!("transform metadata of {} bytes", metadata.len()))),
    }
}

/// The form of a block with the metadata of [`size_and_flag`].
pub fn stream_or_plain(metadata: &[u8], order: ByteOrder, bytes: u64) -> Result<Form> {
    let bytes = usize::try_from(bytes).map_err(|_| corrupt(format!("a block of {bytes} bytes")))?;
    Ok(if compressed(metadata, order, bytes)? { Form::Stream } else { Form::Plain })
}

/// The metadata of lz4 and blosc: i32 full chunks, i32 stored bytes of the last chunk; both 0 for an unchanged block.
pub fn chunks(full: usize, last: usize) -> Vec<u8> {
    let mut metadata = (full as i32).to_ne_bytes().to_vec();
    metadata.extend_from_slice(&(last as i32).to_ne_bytes());
    metadata
}

/// Reads [`chunks`].
pub fn read_chunks(metadata: &[u8], order: ByteOrder) -> Result<(usize, usize)> {
    let number = |at| {
        let n = i32_at(metadata, at, order)?;
        usize::try_from(n).map_err(|_| corrupt(format!("{n} chunks or bytes in transform metadata")))
    };
    Ok((number(0)?, number(4)?))
}
