//! `bzip2:LEVEL`: a bzip2 stream, level 1 to 9, 9 by default.
//!
//! Metadata: u64 bytes of the block, u8 1 compressed or 0 stored as it was. ADIOS counts with 32 bits, so blocks of 4 GiB
//! and more are stored as they are.

use super::{Codec, Done, Encode, Parameter};
use crate::{Block, Given, Stored, corrupt, fields};
use bzip2::{Action, Compress, Compression, Decompress, Status};
use thalweg_types::{Error, ErrorKind, Result};

/// The transform.
#[derive(Debug)]
pub struct Bzip2;

impl Codec for Bzip2 {
    fn name(&self) -> &'static str {
        "bzip2"
    }

    fn about(&self) -> &'static str {
        "Burrows-Wheeler; without loss, small and slow"
    }

    fn parameters(&self) -> &'static [Parameter] {
        &[Parameter { key: "LEVEL", about: "1 to 9, units of 100,000 bytes sorted at a time; default 9" }]
    }

    fn configure(&self, given: &mut Given) -> Result<Box<dyn Encode>> {
        Ok(Box::new(Sort { level: given.level(1..=9)?.unwrap_or(9) as u32 }))
    }

    fn expansion(&self) -> u64 {
        // One value 46 million times takes about 40 bytes.
        2_000_000
    }

    fn decode(&self, stored: &Stored<'_>, out: &mut [u8]) -> Result<()> {
        if !fields::compressed(stored.metadata, stored.order, out.len())? {
            return stored.copy_to(out);
        }
        let mut stream = Decompress::new(false);
        loop {
            let (read, written) = (stream.total_in() as usize, stream.total_out() as usize);
            let status = stream
                .decompress(&stored.payload[read..], &mut out[written..])
                .map_err(|e| corrupt("bzip2 cannot decode the block").caused_by(e))?;
            let same = (stream.total_in() as usize, stream.total_out() as usize) == (read, written);
            match status {
                Status::StreamEnd if stream.total_out() == out.len() as u64 => return Ok(()),
                Status::StreamEnd => break,
                _ if same => break,
                _ => {}
            }
        }
        let what = format!("bzip2 gives {} bytes of a block of {}", stream.total_out(), out.len());
        Err(corrupt(what))
    }
}

#[derive(Debug)]
struct Sort {
    level: u32,
}

impl Encode for Sort {
    fn working_memory(&self, _bytes: u64) -> u64 {
        400_000 + 8 * 100_000 * u64::from(self.level)
    }

    fn encode(&self, _block: &Block<'_>, bytes: &[u8], out: &mut [u8]) -> Result<Option<Done>> {
        if bytes.len() > u32::MAX as usize {
            return Ok(None);
        }
        let mut stream = Compress::new(Compression::new(self.level), 30);
        loop {
            let (read, written) = (stream.total_in() as usize, stream.total_out() as usize);
            if written == out.len() {
                return Ok(None);
            }
            let status = stream
                .compress(&bytes[read..], &mut out[written..], Action::Finish)
                .map_err(|e| Error::new(ErrorKind::Io, "bzip2 failed").caused_by(e))?;
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
