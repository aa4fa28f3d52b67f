//! `zstd:LEVEL`: a Zstandard frame (RFC 8878), level 1 to 19, default 3. ADIOS 1.x does not have this transform.
//!
//! Metadata: u64 bytes of the block, u8 1 compressed or 0 unchanged.

use super::{Codec, Done, Encode, Form};
use crate::{Block, Stored, corrupt, fields};
use thalweg_params::{Parameter, Parameters};
use thalweg_types::{ByteOrder, Result};

const LEVEL: Parameter = Parameter::count(super::LEVEL, 3, "1 is fast, 19 is small").within(1, 19);

/// The transform.
#[derive(Debug)]
pub struct Zstd;

impl Codec for Zstd {
    fn name(&self) -> &'static str {
        "zstd"
    }

    fn about(&self) -> &'static str {
        "Zstandard; without loss, fast and small"
    }

    fn parameters(&self) -> &'static [Parameter] {
        &[LEVEL, super::ALWAYS]
    }

    fn foreign(&self, _dimensions: usize) -> bool {
        false
    }

    fn configure(&self, given: &Parameters) -> Result<Box<dyn Encode>> {
        Ok(Box::new(Frame { level: given.get(&LEVEL)?, always: given.get(&super::ALWAYS)? }))
    }

    fn expansion(&self) -> u64 {
        // A block of 128 KiB with one value is encoded in four bytes.
        32 << 10
    }

    fn form(&self, metadata: &[u8], order: ByteOrder, bytes: u64) -> Result<Form> {
        fields::stream_or_plain(metadata, order, bytes)
    }

    fn decode(&self, stored: &Stored<'_>, out: &mut [u8]) -> Result<()> {
        if !fields::compressed(stored.metadata, stored.order, out.len())? {
            return stored.copy_to(out);
        }
        let got = ::zstd::bulk::decompress_to_buffer(stored.payload, out)
            .map_err(|e| corrupt("zstd cannot decode the block").caused_by(e))?;
        if got != out.len() {
            return Err(corrupt(format!("zstd gives {got} bytes of a block of {}", out.len())));
        }
        Ok(())
    }
}

#[derive(Debug)]
struct Frame {
    level: i32,
    always: bool,
}

impl Encode for Frame {
    fn room(&self, block: &Block<'_>) -> Result<u64> {
        if self.always { super::bound(block) } else { block.bytes() }
    }

    fn working_memory(&self, bytes: u64) -> u64 {
        // Window and tables of the level, less for small blocks.
        let tables = if self.level <= 6 { 4 << 20 } else { 16 << 20 };
        if self.level <= 12 { (bytes.saturating_mul(4) + (1 << 20)).min(2 * tables) } else { 96 << 20 }
    }

    fn encode(&self, _block: &Block<'_>, bytes: &[u8], out: &mut [u8]) -> Result<Option<Done>> {
        // The only possible failure is too small an output.
        let Ok(length) = ::zstd::bulk::compress_to_buffer(bytes, out, self.level) else { return Ok(None) };
        Ok(Some(Done { length, metadata: fields::size_and_flag(bytes.len() as u64, true) }))
    }

    fn raw(&self, block: &Block<'_>) -> Option<Vec<u8>> {
        if self.always { None } else { Some(fields::size_and_flag(block.bytes().ok()?, false)) }
    }
}
