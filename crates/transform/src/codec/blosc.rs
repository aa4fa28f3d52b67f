//! `blosc:compressor=NAME,lvl=N,shuffle=byte|bit|no,threshold=BYTES,threads=N`: buffers of c-blosc 1, one per
//! 2,147,483,631 bytes.
//!
//! Metadata: i32 full chunks, i32 stored bytes of the last chunk; both 0 for an unchanged block. As in ADIOS 1.13, blocks are
//! not compressed unless a compressor is given.
#![allow(unsafe_code)]

use super::{Codec, Done, Encode, Form};
use crate::{Block, Stored, corrupt, fields};
use std::ffi::{CStr, c_int};
use thalweg_params::{Parameter, Parameters};
use thalweg_types::{ByteOrder, ElementType, Result};

/// Largest input of one buffer.
const CHUNK: usize = blosc_src::BLOSC_MAX_BUFFERSIZE as usize;
/// Header of a buffer: u8 version, u8 version of the compressor, u8 flags, u8 type size, then u32 bytes before, u32 bytes
/// of a block, u32 bytes stored, little endian.
const HEADER: usize = blosc_src::BLOSC_MAX_OVERHEAD as usize;

/// Decodes one buffer of c-blosc, as other formats have them.
///
/// - `length`: bytes that it has decoded.
///
/// # Errors
/// `Corrupt` for a damaged buffer, and for one of another length; `Unsupported` for a compressor that is not built in; `NoMemory`.
pub fn decode_buffer(bytes: &[u8], length: u64) -> Result<Vec<u8>> {
    let none = || crate::no_memory(length);
    let size = usize::try_from(length).map_err(|_| none())?;
    let mut out = Vec::new();
    out.try_reserve_exact(size).map_err(|_| none())?;
    out.resize(size, 0);
    decompress(bytes, &mut out)?;
    Ok(out)
}

/// Built-in compressors of blosc.
const COMPRESSORS: [(&str, &CStr); 5] =
    [("blosclz", c"blosclz"), ("lz4", c"lz4"), ("lz4hc", c"lz4hc"), ("zlib", c"zlib"), ("zstd", c"zstd")];

const COMPRESSOR: Parameter =
    Parameter::choice("compressor", &["memcpy", "blosclz", "lz4", "lz4hc", "zlib", "zstd"], "memcpy: no compression");
const LVL: Parameter = Parameter::count("lvl", 1, "1 is fast, 9 is small").within(1, 9);
const SHUFFLE: Parameter =
    Parameter::choice("shuffle", &["no", "byte", "bit"], "unit that is sorted before compression");
const THREADS: Parameter = Parameter::count("threads", 1, "threads that compress").within(1, 8);

/// The transform.
#[derive(Debug)]
pub struct Blosc;

impl Codec for Blosc {
    fn name(&self) -> &'static str {
        "blosc"
    }

    fn about(&self) -> &'static str {
        "shuffles the bytes of numbers, then compresses; without loss"
    }

    fn parameters(&self) -> &'static [Parameter] {
        &[COMPRESSOR, LVL, SHUFFLE, super::THRESHOLD, THREADS, super::ALWAYS]
    }

    fn configure(&self, given: &Parameters) -> Result<Box<dyn Encode>> {
        let compressor = given.get::<String>(&COMPRESSOR)?;
        let compressor = COMPRESSORS.iter().find(|(name, _)| *name == compressor).map(|(_, name)| *name);
        let shuffle = match given.get::<String>(&SHUFFLE)?.as_str() {
            "byte" => blosc_src::BLOSC_SHUFFLE,
            "bit" => blosc_src::BLOSC_BITSHUFFLE,
            _ => blosc_src::BLOSC_NOSHUFFLE,
        };
        let always = given.get(&super::ALWAYS)?;
        if always && compressor.is_none() {
            return Err(given.wrong("always=yes needs a compressor"));
        }
        Ok(Box::new(Shuffled {
            always,
            compressor,
            shuffle: shuffle as c_int,
            level: given.get(&LVL)?,
            threshold: given.get::<u64>(&super::THRESHOLD)?.max(super::LEAST_THRESHOLD),
            threads: given.get(&THREADS)?,
        }))
    }

    fn expansion(&self) -> u64 {
        32 << 10
    }

    fn form(&self, metadata: &[u8], order: ByteOrder, _: u64) -> Result<Form> {
        Ok(match fields::read_chunks(metadata, order)? {
            (0, 0) => Form::Plain,
            // One buffer of c-blosc, which says its own length.
            (0, _) => Form::Stream,
            _ => Form::Own,
        })
    }

    fn decode(&self, stored: &Stored<'_>, out: &mut [u8]) -> Result<()> {
        let (full, last) = fields::read_chunks(stored.metadata, stored.order)?;
        if (full, last) == (0, 0) {
            return stored.copy_to(out);
        }
        let (mut at, mut done) = (0, 0);
        while done < out.len() {
            let size = CHUNK.min(out.len() - done);
            at += decompress(&stored.payload[at..], &mut out[done..done + size])?;
            done += size;
        }
        if at != stored.payload.len() {
            return Err(corrupt("bytes after the last buffer of blosc"));
        }
        Ok(())
    }
}

/// Decodes the buffer at the start of `bytes`, which fills `out`; returns its length.
fn decompress(bytes: &[u8], out: &mut [u8]) -> Result<usize> {
    let bad = || corrupt("blosc cannot decode the block");
    let header = bytes.first_chunk::<HEADER>().ok_or_else(bad)?;
    let length = u32::from_le_bytes([header[12], header[13], header[14], header[15]]) as usize;
    let buffer = bytes.get(..length).ok_or_else(bad)?;
    // Compressors by their number in the flags; 2 is snappy.
    if header[2] >> 5 == 2 && header[2] & 2 == 0 {
        let what = "compressed by snappy within blosc, which is not built in";
        return Err(thalweg_types::Error::new(thalweg_types::ErrorKind::Unsupported, what));
    }
    let mut size = 0;
    // SAFETY: reads `length` bytes of `buffer` and fails unless its header has the same length.
    let valid = unsafe { blosc_src::blosc_cbuffer_validate(buffer.as_ptr().cast(), length, &mut size) };
    if valid != 0 || size != out.len() {
        return Err(bad());
    }
    // SAFETY: the buffer has the length of its header (checked above), and the library refuses reads beyond it; at most
    // `out.len()` bytes are written.
    let got = unsafe { blosc_src::blosc_decompress_ctx(buffer.as_ptr().cast(), out.as_mut_ptr().cast(), out.len(), 1) };
    if usize::try_from(got) == Ok(out.len()) { Ok(length) } else { Err(bad()) }
}

#[derive(Debug)]
struct Shuffled {
    always: bool,
    compressor: Option<&'static CStr>,
    shuffle: c_int,
    level: c_int,
    threshold: u64,
    threads: c_int,
}

impl Shuffled {
    fn compress(&self, element: ElementType, compressor: &CStr, bytes: &[u8], out: &mut [u8]) -> Option<usize> {
        // SAFETY: reads all of `bytes`, at most CHUNK, and writes at most `out.len()` bytes; the name ends in 0.
        let n = unsafe {
            blosc_src::blosc_compress_ctx(
                self.level,
                self.shuffle,
                element.size() as usize,
                bytes.len(),
                bytes.as_ptr().cast(),
                out.as_mut_ptr().cast(),
                out.len(),
                compressor.as_ptr(),
                0,
                self.threads,
            )
        };
        usize::try_from(n).ok().filter(|n| *n > 0)
    }
}

impl Encode for Shuffled {
    fn remark(&self) -> Option<String> {
        self.compressor.is_none().then(|| {
            "blosc does not compress unless a compressor is named, as in ADIOS 1.13: \
             blosc:compressor=lz4,shuffle=byte,lvl=5"
                .to_string()
        })
    }

    fn room(&self, block: &Block<'_>) -> Result<u64> {
        match self.compressor {
            None => Ok(0),
            Some(_) if self.always => super::bound(block),
            Some(_) => block.bytes(),
        }
    }

    fn working_memory(&self, bytes: u64) -> u64 {
        // Per thread, three buffers of a blosc block, and the compressor's tables.
        if self.compressor.is_none() { 0 } else { self.threads as u64 * (3 * bytes.min(2 << 20) + (4 << 20)) }
    }

    fn encode(&self, block: &Block<'_>, bytes: &[u8], out: &mut [u8]) -> Result<Option<Done>> {
        let Some(compressor) = self.compressor.filter(|_| self.always || bytes.len() as u64 >= self.threshold) else {
            return Ok(None);
        };
        let (mut length, mut last) = (0, 0);
        for piece in bytes.chunks(CHUNK) {
            let Some(n) = self.compress(block.element, compressor, piece, &mut out[length..]) else { return Ok(None) };
            length += n;
            last = if piece.len() < CHUNK { n } else { 0 };
        }
        Ok(Some(Done { length, metadata: fields::chunks(bytes.len() / CHUNK, last) }))
    }

    fn raw(&self, _block: &Block<'_>) -> Option<Vec<u8>> {
        if self.always { None } else { Some(fields::chunks(0, 0)) }
    }
}
