//! `lz4:lvl=N,threshold=BYTES`: LZ4 blocks (no frame), one per 2,113,929,216 bytes.
//!
//! Metadata: i32 full chunks, i32 stored bytes of the last chunk; both 0 for an unchanged block. In ADIOS a chunk may refer
//! to earlier bytes, and its length is not stored, so the end of a chunk is found by reading its sequences.
#![allow(unsafe_code)]

use super::{Codec, Done, Encode, Form};
use crate::{Block, Stored, corrupt, fields};
use std::ffi::c_int;
use thalweg_params::{Parameter, Parameters};
use thalweg_types::{ByteOrder, Result};

/// Largest input of one LZ4 block.
const CHUNK: usize = 0x7E00_0000;

const LVL: Parameter =
    Parameter::count("lvl", 1, "acceleration: larger is faster and compresses less").within(1, 65_537);

/// The transform.
#[derive(Debug)]
pub struct Lz4;

impl Codec for Lz4 {
    fn name(&self) -> &'static str {
        "lz4"
    }

    fn about(&self) -> &'static str {
        "LZ4; without loss, very fast"
    }

    fn parameters(&self) -> &'static [Parameter] {
        &[LVL, super::THRESHOLD]
    }

    fn configure(&self, given: &Parameters) -> Result<Box<dyn Encode>> {
        let acceleration = given.get(&LVL)?;
        let threshold = given.get::<u64>(&super::THRESHOLD)?.max(super::LEAST_THRESHOLD);
        Ok(Box::new(Fast { acceleration, threshold }))
    }

    fn expansion(&self) -> u64 {
        255
    }

    fn form(&self, metadata: &[u8], order: ByteOrder, _: u64) -> Result<Form> {
        Ok(match fields::read_chunks(metadata, order)? {
            (0, 0) => Form::Plain,
            // Without a frame.
            _ => Form::Own,
        })
    }

    fn decode(&self, stored: &Stored<'_>, out: &mut [u8]) -> Result<()> {
        decode(stored, out, CHUNK)
    }
}

fn decode(stored: &Stored<'_>, out: &mut [u8], chunk: usize) -> Result<()> {
    let (full, last) = fields::read_chunks(stored.metadata, stored.order)?;
    if (full, last) == (0, 0) {
        return stored.copy_to(out);
    }
    if full != out.len() / chunk {
        return Err(corrupt(format!("{full} chunks of lz4 for a block of {} bytes", out.len())));
    }
    let (mut at, mut done) = (0, 0);
    while done < out.len() {
        let size = chunk.min(out.len() - done);
        let rest = &stored.payload[at..];
        let whole = done + size == out.len();
        let length = if whole { rest.len() } else { length_of(rest, size).ok_or_else(bad)? };
        decompress(&rest[..length], out, done, size)?;
        (at, done) = (at + length, done + size);
    }
    if at != stored.payload.len() {
        return Err(bad());
    }
    Ok(())
}

fn bad() -> thalweg_types::Error {
    corrupt("lz4 cannot decode the block")
}

/// Stored bytes of an LZ4 block that decodes to `size` bytes, from the lengths of its sequences.
fn length_of(bytes: &[u8], size: usize) -> Option<usize> {
    fn long(bytes: &[u8], at: &mut usize, short: usize) -> Option<usize> {
        let mut n = short;
        if short == 15 {
            loop {
                let more = *bytes.get(*at)?;
                *at += 1;
                n = n.checked_add(usize::from(more))?;
                if more != 255 {
                    break;
                }
            }
        }
        Some(n)
    }
    let (mut at, mut given) = (0, 0usize);
    loop {
        let token = usize::from(*bytes.get(at)?);
        at += 1;
        let literals = long(bytes, &mut at, token >> 4)?;
        at = at.checked_add(literals)?;
        given = given.checked_add(literals)?;
        if given >= size {
            // The last sequence has only literals.
            return (given == size && at <= bytes.len()).then_some(at);
        }
        at = at.checked_add(2)?;
        given = given.checked_add(long(bytes, &mut at, token & 15)?.checked_add(4)?)?;
    }
}

/// Decodes one LZ4 block to `out[done..done + size]`; the block may refer to the preceding 64 KiB.
fn decompress(bytes: &[u8], out: &mut [u8], done: usize, size: usize) -> Result<()> {
    let (Ok(length), Ok(expected)) = (c_int::try_from(bytes.len()), c_int::try_from(size)) else { return Err(bad()) };
    let before = done.min(64 << 10);
    let place = out.get_mut(done - before..done + size).ok_or_else(bad)?.as_mut_ptr();
    // SAFETY: the stream lives until it is freed below. `place` starts a slice of `before + size` bytes; the first
    // `before` are the dictionary, already decoded, the next `size` the target. The safe decoder reads `length` bytes
    // of `bytes` at most and writes `size` bytes at most.
    let got = unsafe {
        let stream = lz4_sys::LZ4_createStreamDecode();
        if stream.is_null() {
            return Err(crate::no_memory(64));
        }
        let target = place.add(before);
        lz4_sys::LZ4_setStreamDecode(stream, place, before as c_int);
        let got = lz4_sys::LZ4_decompress_safe_continue(stream, bytes.as_ptr(), target, length, expected);
        lz4_sys::LZ4_freeStreamDecode(stream);
        got
    };
    if got == expected { Ok(()) } else { Err(bad()) }
}

#[derive(Debug)]
struct Fast {
    acceleration: i32,
    threshold: u64,
}

impl Fast {
    fn encode_chunks(&self, bytes: &[u8], out: &mut [u8], chunk: usize) -> Option<Done> {
        let (mut length, mut last) = (0, 0);
        for piece in bytes.chunks(chunk) {
            let room = &mut out[length..];
            let most = c_int::try_from(room.len()).unwrap_or(c_int::MAX);
            // SAFETY: reads `piece`, at most CHUNK bytes long, and writes at most `most` bytes, which `room` has.
            let n = unsafe {
                lz4_sys::LZ4_compress_fast(
                    piece.as_ptr().cast(),
                    room.as_mut_ptr().cast(),
                    piece.len() as c_int,
                    most,
                    self.acceleration,
                )
            };
            if n <= 0 {
                return None;
            }
            length += n as usize;
            last = if piece.len() < chunk { n as usize } else { 0 };
        }
        Some(Done { length, metadata: fields::chunks(bytes.len() / chunk, last) })
    }
}

impl Encode for Fast {
    fn working_memory(&self, _bytes: u64) -> u64 {
        16 << 10
    }

    fn encode(&self, _block: &Block<'_>, bytes: &[u8], out: &mut [u8]) -> Result<Option<Done>> {
        if (bytes.len() as u64) < self.threshold {
            return Ok(None);
        }
        Ok(self.encode_chunks(bytes, out, CHUNK))
    }

    fn raw(&self, _block: &Block<'_>) -> Option<Vec<u8>> {
        Some(fields::chunks(0, 0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use thalweg_types::{ByteOrder, ElementType};

    fn block(extents: &[u64]) -> Block<'_> {
        Block { name: "v", element: ElementType::U8, extents }
    }

    #[test]
    fn a_block_of_several_chunks_comes_back_whether_or_not_chunks_refer_to_each_other() {
        let bytes: Vec<u8> = (0..200_000u32).map(|i| (i / 3 % 251) as u8).collect();
        let extents = [bytes.len() as u64];
        for chunk in [200_000, 60_000, 50_000, 1000] {
            let mut out = vec![0; bytes.len()];
            let fast = Fast { acceleration: 1, threshold: 0 };
            let done = fast.encode_chunks(&bytes, &mut out, chunk).unwrap();
            let check = |payload: &[u8], metadata: &[u8]| {
                let stored = Stored { block: block(&extents), metadata, order: ByteOrder::NATIVE, payload };
                let mut back = vec![0; bytes.len()];
                decode(&stored, &mut back, chunk).unwrap();
                assert!(back == bytes, "{chunk}");
            };
            check(&out[..done.length], &done.metadata);
            // As ADIOS does it: each chunk with those before it as dictionary.
            let (mut linked, mut last) = (Vec::new(), 0);
            // SAFETY: the stream is freed after its last use; input stays in place, output has room for the worst case.
            unsafe {
                let stream = lz4_sys::LZ4_createStream();
                for piece in bytes.chunks(chunk) {
                    let mut to = vec![0u8; piece.len() + piece.len() / 255 + 16];
                    let n = LZ4_compress_fast_continue(
                        stream,
                        piece.as_ptr(),
                        to.as_mut_ptr(),
                        piece.len() as c_int,
                        to.len() as c_int,
                        1,
                    );
                    assert!(n > 0);
                    linked.extend_from_slice(&to[..n as usize]);
                    last = if piece.len() < chunk { n as usize } else { 0 };
                }
                lz4_sys::LZ4_freeStream(stream);
            }
            check(&linked, &fields::chunks(bytes.len() / chunk, last));
        }
    }

    unsafe extern "C" {
        fn LZ4_compress_fast_continue(
            stream: *mut lz4_sys::LZ4StreamEncode,
            source: *const u8,
            dest: *mut u8,
            source_size: c_int,
            dest_capacity: c_int,
            acceleration: c_int,
        ) -> c_int;
    }
}
