//! `bzip2:LEVEL`: a bzip2 stream, level 1 to 9, 9 by default.
//!
//! Metadata: u64 bytes of the block, u8 1 compressed or 0 unchanged. ADIOS counts with 32 bits, so blocks of 4 GiB
//! and more are stored unchanged.

use super::stream::{self, StreamProgress};
use super::{Codec, Done, Encode, Form};
use crate::{Block, Stored, corrupt, fields};
use bzip2::{Action, Compress, Compression, Decompress, Status};
use thalweg_params::{Parameter, Parameters};
use thalweg_types::{ByteOrder, Error, ErrorKind, Result};

const LEVEL: Parameter = Parameter::count(super::LEVEL, 9, "units of 100,000 bytes sorted at a time").within(1, 9);

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
        &[LEVEL, super::ALWAYS]
    }

    fn configure(&self, given: &Parameters) -> Result<Box<dyn Encode>> {
        Ok(Box::new(Sort { level: given.get(&LEVEL)?, always: given.get(&super::ALWAYS)? }))
    }

    fn expansion(&self) -> u64 {
        // 46 million equal bytes are encoded in about 40 bytes.
        2_000_000
    }

    fn form(&self, metadata: &[u8], order: ByteOrder, bytes: u64) -> Result<Form> {
        fields::stream_or_plain(metadata, order, bytes)
    }

    fn decode(&self, stored: &Stored<'_>, out: &mut [u8]) -> Result<()> {
        if !fields::compressed(stored.metadata, stored.order, out.len())? {
            return stored.copy_to(out);
        }
        let mut stream = Decompress::new(false);
        stream::decode("bzip2", stored.payload, out, |from, to| {
            let status =
                stream.decompress(from, to).map_err(|e| corrupt("bzip2 cannot decode the block").caused_by(e))?;
            Ok(StreamProgress {
                read: stream.total_in(),
                written: stream.total_out(),
                ended: status == Status::StreamEnd,
            })
        })
    }
}

#[derive(Debug)]
struct Sort {
    level: u32,
    always: bool,
}

impl Encode for Sort {
    fn room(&self, block: &Block<'_>) -> Result<u64> {
        if self.always { super::bound(block) } else { block.bytes() }
    }

    fn working_memory(&self, _bytes: u64) -> u64 {
        400_000 + 8 * 100_000 * u64::from(self.level)
    }

    fn encode(&self, _block: &Block<'_>, bytes: &[u8], out: &mut [u8]) -> Result<Option<Done>> {
        if bytes.len() > u32::MAX as usize {
            return Ok(None);
        }
        let mut stream = Compress::new(Compression::new(self.level), 30);
        stream::encode(bytes, out, |from, to| {
            let status = stream
                .compress(from, to, Action::Finish)
                .map_err(|e| Error::new(ErrorKind::Io, "bzip2 failed").caused_by(e))?;
            Ok(StreamProgress {
                read: stream.total_in(),
                written: stream.total_out(),
                ended: status == Status::StreamEnd,
            })
        })
    }

    fn raw(&self, block: &Block<'_>) -> Option<Vec<u8>> {
        if self.always { None } else { Some(fields::size_and_flag(block.bytes().ok()?, false)) }
    }
}
