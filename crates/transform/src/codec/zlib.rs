//! `zlib:LEVEL`: a zlib stream (RFC 1950), level 1 to 9, 6 by default.
//!
//! Metadata: u64 bytes of the block, u8 1 compressed or 0 unchanged. Files before ADIOS 1.6 have no metadata.

use super::stream::{self, StreamProgress};
use super::{Codec, Done, Encode, Form};
use crate::{Block, Stored, corrupt, fields};
use flate2::{Compress, Compression, Decompress, FlushCompress, FlushDecompress, Status};
use thalweg_params::{Parameter, Parameters};
use thalweg_types::{ByteOrder, Error, ErrorKind, Result};

const LEVEL: Parameter = Parameter::count(super::LEVEL, 6, "1 is fast, 9 is small").within(1, 9);

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
        &[LEVEL, super::ALWAYS]
    }

    fn configure(&self, given: &Parameters) -> Result<Box<dyn Encode>> {
        Ok(Box::new(Deflate { level: given.get(&LEVEL)?, always: given.get(&super::ALWAYS)? }))
    }

    fn expansion(&self) -> u64 {
        // Two bits can expand to 258 bytes.
        1032
    }

    fn form(&self, metadata: &[u8], order: ByteOrder, bytes: u64) -> Result<Form> {
        fields::stream_or_plain(metadata, order, bytes)
    }

    fn decode(&self, stored: &Stored<'_>, out: &mut [u8]) -> Result<()> {
        if !fields::compressed(stored.metadata, stored.order, out.len())? {
            return stored.copy_to(out);
        }
        let mut stream = Decompress::new(true);
        stream::decode("zlib", stored.payload, out, |from, to| {
            let status = stream
                .decompress(from, to, FlushDecompress::Finish)
                .map_err(|e| corrupt("zlib cannot decode the block").caused_by(e))?;
            Ok(StreamProgress {
                read: stream.total_in(),
                written: stream.total_out(),
                ended: status == Status::StreamEnd,
            })
        })
    }
}

#[derive(Debug)]
struct Deflate {
    level: u32,
    always: bool,
}

impl Encode for Deflate {
    fn room(&self, block: &Block<'_>) -> Result<u64> {
        if self.always { super::bound(block) } else { block.bytes() }
    }

    fn working_memory(&self, _bytes: u64) -> u64 {
        // Window and tables of deflate with 15 bits.
        320 << 10
    }

    fn encode(&self, _block: &Block<'_>, bytes: &[u8], out: &mut [u8]) -> Result<Option<Done>> {
        let mut stream = Compress::new(Compression::new(self.level), true);
        stream::encode(bytes, out, |from, to| {
            let status = stream
                .compress(from, to, FlushCompress::Finish)
                .map_err(|e| Error::new(ErrorKind::Io, "zlib failed").caused_by(e))?;
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
