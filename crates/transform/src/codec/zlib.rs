//! `zlib:LEVEL`: a zlib stream (RFC 1950), level 1 to 9, 6 by default.
//!
//! Metadata: u64 bytes of the block, u8 1 compressed or 0 stored as it was. Files of old ADIOS have none.

use super::{Codec, Done, Encode, Parameter};
use crate::{Block, Given, Stored, corrupt, fields};
use flate2::{Compress, Compression, Decompress, FlushCompress, FlushDecompress, Status};
use thalweg_types::{Error, ErrorKind, Result};

/// The transform.
#[derive(Debug)]
pub struct Zlib;

impl Codec for Zlib {
    fn name(&self) -> &'static str {
        "zlib"
    }

    fn about(&self) -> &'static str {
        "deflate; without loss"
    }

    fn parameters(&self) -> &'static [Parameter] {
        &[Parameter { key: "LEVEL", about: "1 (fast) to 9 (small); default 6" }]
    }

    fn configure(&self, given: &mut Given) -> Result<Box<dyn Encode>> {
        Ok(Box::new(Deflate { level: given.level(1..=9)?.unwrap_or(6) as u32 }))
    }

    fn expansion(&self) -> u64 {
        // 258 bytes of two bits.
        1032
    }

    fn decode(&self, stored: &Stored<'_>, out: &mut [u8]) -> Result<()> {
        if !fields::compressed(stored.metadata, stored.order, out.len())? {
            return stored.copy_to(out);
        }
        let mut stream = Decompress::new(true);
        loop {
            let (read, written) = (stream.total_in() as usize, stream.total_out() as usize);
            let status = stream
                .decompress(&stored.payload[read..], &mut out[written..], FlushDecompress::Finish)
                .map_err(|e| corrupt("zlib cannot decode the block").caused_by(e))?;
            let same = (stream.total_in() as usize, stream.total_out() as usize) == (read, written);
            match status {
                Status::StreamEnd if stream.total_out() == out.len() as u64 => return Ok(()),
                Status::StreamEnd => break,
                _ if same => break,
                _ => {}
            }
        }
        let what = format!("zlib gives {} bytes of a block of {}", stream.total_out(), out.len());
        Err(corrupt(what))
    }
}

#[derive(Debug)]
struct Deflate {
    level: u32,
}

impl Encode for Deflate {
    fn working_memory(&self, _bytes: u64) -> u64 {
        // Window and tables of deflate with 15 bits.
        320 << 10
    }

    fn encode(&self, _block: &Block<'_>, bytes: &[u8], out: &mut [u8]) -> Result<Option<Done>> {
        let mut stream = Compress::new(Compression::new(self.level), true);
        loop {
            let (read, written) = (stream.total_in() as usize, stream.total_out() as usize);
            if written == out.len() {
                return Ok(None);
            }
            let status = stream
                .compress(&bytes[read..], &mut out[written..], FlushCompress::Finish)
                .map_err(|e| Error::new(ErrorKind::Io, "zlib failed").caused_by(e))?;
            match status {
                Status::StreamEnd => break,
                _ if (stream.total_in() as usize, stream.total_out() as usize) == (read, written) => return Ok(None),
                _ => {}
            }
        }
        let metadata = fields::size_and_flag(bytes.len() as u64, true);
        Ok(Some(Done { length: stream.total_out() as usize, metadata }))
    }

    fn raw(&self, block: &Block<'_>) -> Option<Vec<u8>> {
        Some(fields::size_and_flag(block.bytes().ok()?, false))
    }
}
