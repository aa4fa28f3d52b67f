//! `pco:LEVEL`: a standalone file of Pcodec, level 0 to 12, 8 by default. ADIOS 1.x does not have this transform.
//!
//! Numbers are compressed as numbers: differences, common divisors and repeated patterns are found. Complex numbers are two real ones.
//!
//! Metadata: u64 bytes of the block, u8 1 compressed or 0 unchanged.

use super::{Codec, Done, Encode};
use crate::{Block, Stored, corrupt, fields};
use ::pco::ChunkConfig;
use ::pco::data_types::Number;
use ::pco::standalone::{simple_compress_into, simple_decompress_into};
use std::borrow::Cow;
use thalweg_params::{Parameter, Parameters};
use thalweg_types::{ByteOrder, ElementType, Error, ErrorKind, Result, element::swap_bytes};
use zerocopy::{FromBytes, Immutable, IntoBytes};

const LEVEL: Parameter = Parameter::count(super::LEVEL, 8, "0 is fast, 12 is small").within(0, 12);

/// The transform.
#[derive(Debug)]
pub struct Pco;

impl Codec for Pco {
    fn name(&self) -> &'static str {
        "pco"
    }

    fn about(&self) -> &'static str {
        "compresses numbers as numbers; without loss, small and fast to decode"
    }

    fn parameters(&self) -> &'static [Parameter] {
        &[LEVEL]
    }

    fn foreign(&self, _dimensions: usize) -> bool {
        false
    }

    fn configure(&self, given: &Parameters) -> Result<Box<dyn Encode>> {
        Ok(Box::new(Numbers { level: given.get(&LEVEL)? }))
    }

    fn expansion(&self) -> u64 {
        // 2^18 equal numbers of 8 bytes are encoded in some 20 bytes.
        200_000
    }

    fn decode(&self, stored: &Stored<'_>, out: &mut [u8]) -> Result<()> {
        if !fields::compressed(stored.metadata, stored.order, out.len())? {
            return stored.copy_to(out);
        }
        decompress(stored, out)
    }
}

/// Level of blocks with an error bound that are stored without loss.
pub const LEVEL_OF_LOSSLESS: usize = 8;

/// Decodes a standalone file of Pcodec, the payload of `stored`; metadata are not looked at.
///
/// # Errors
/// As [`Codec::decode`].
pub fn decompress(stored: &Stored<'_>, out: &mut [u8]) -> Result<()> {
    match stored.block.element {
        ElementType::I8 => decode::<i8>(stored.payload, out),
        ElementType::I16 => decode::<i16>(stored.payload, out),
        ElementType::I32 => decode::<i32>(stored.payload, out),
        ElementType::I64 => decode::<i64>(stored.payload, out),
        ElementType::U8 => decode::<u8>(stored.payload, out),
        ElementType::U16 => decode::<u16>(stored.payload, out),
        ElementType::U32 => decode::<u32>(stored.payload, out),
        ElementType::U64 => decode::<u64>(stored.payload, out),
        ElementType::F32 | ElementType::Complex => decode::<f32>(stored.payload, out),
        ElementType::F64 | ElementType::DoubleComplex => decode::<f64>(stored.payload, out),
        other => Err(unsuited(other)),
    }?;
    // The stream has numbers; blocks have the file's byte order.
    if stored.order != ByteOrder::NATIVE {
        swap_bytes(out, stored.block.element.word());
    }
    Ok(())
}

fn unsuited(element: ElementType) -> Error {
    Error::new(
        ErrorKind::Unsupported,
        format!("pco compresses integers, real and complex numbers of up to 8 bytes, not {element}"),
    )
}

fn decode<T: Number + FromBytes + IntoBytes + Immutable>(payload: &[u8], out: &mut [u8]) -> Result<()> {
    let bad = |e: ::pco::errors::PcoError| corrupt("pco cannot decode the block").caused_by(e);
    let wanted = out.len() / size_of::<T>();
    let done = match <[T]>::mut_from_bytes(out) {
        Ok(numbers) => simple_decompress_into(payload, numbers).map_err(bad)?,
        Err(_) => {
            let mut numbers = vec![T::default(); wanted];
            let done = simple_decompress_into(payload, &mut numbers).map_err(bad)?;
            out.copy_from_slice(numbers.as_slice().as_bytes());
            done
        }
    };
    if done.n_processed != wanted || !done.finished {
        return Err(corrupt(format!("pco gives {} numbers of a block of {wanted}", done.n_processed)));
    }
    Ok(())
}

/// Encodes as a standalone file of Pcodec: its length; `None` if `out` is too short.
///
/// # Errors
/// `Unsupported` for types other than numbers of up to 8 bytes; those of the library.
pub fn compress(level: usize, element: ElementType, bytes: &[u8], out: &mut [u8]) -> Result<Option<usize>> {
    match element {
        ElementType::I8 => compress_as::<i8>(level, bytes, out),
        ElementType::I16 => compress_as::<i16>(level, bytes, out),
        ElementType::I32 => compress_as::<i32>(level, bytes, out),
        ElementType::I64 => compress_as::<i64>(level, bytes, out),
        ElementType::U8 => compress_as::<u8>(level, bytes, out),
        ElementType::U16 => compress_as::<u16>(level, bytes, out),
        ElementType::U32 => compress_as::<u32>(level, bytes, out),
        ElementType::U64 => compress_as::<u64>(level, bytes, out),
        ElementType::F32 | ElementType::Complex => compress_as::<f32>(level, bytes, out),
        ElementType::F64 | ElementType::DoubleComplex => compress_as::<f64>(level, bytes, out),
        other => Err(unsuited(other)),
    }
}

/// `None` if `out` is too short.
fn compress_as<T: Number + FromBytes + Immutable>(level: usize, bytes: &[u8], out: &mut [u8]) -> Result<Option<usize>> {
    let numbers: Cow<'_, [T]> = match <[T]>::ref_from_bytes(bytes) {
        Ok(numbers) => Cow::Borrowed(numbers),
        Err(_) => Cow::Owned(
            bytes.chunks_exact(size_of::<T>()).filter_map(|number| T::read_from_bytes(number).ok()).collect(),
        ),
    };
    let config = ChunkConfig::default().with_compression_level(level).with_enable_8_bit(true);
    let room = out.len();
    match simple_compress_into(&numbers, &config, out) {
        Ok(rest) => Ok(Some(room - rest.len())),
        Err(e) if e.kind == ::pco::errors::ErrorKind::Io(std::io::ErrorKind::WriteZero) => Ok(None),
        Err(e) => Err(Error::new(ErrorKind::Io, "pco failed").caused_by(e)),
    }
}

/// Memory for encoding `bytes` bytes.
pub fn working_memory(bytes: u64) -> u64 {
    // Latent variables of a page of 2^18 numbers, and what is tried of them.
    bytes.min(2 << 20) * 8 + (1 << 20)
}

#[derive(Debug)]
struct Numbers {
    level: usize,
}

impl Encode for Numbers {
    fn suits(&self, element: ElementType, _dimensions: usize) -> Result<()> {
        let is_number = !matches!(element, ElementType::LongDouble | ElementType::Char) && !element.is_text();
        if is_number { Ok(()) } else { Err(unsuited(element)) }
    }

    fn working_memory(&self, bytes: u64) -> u64 {
        working_memory(bytes)
    }

    fn encode(&self, block: &Block<'_>, bytes: &[u8], out: &mut [u8]) -> Result<Option<Done>> {
        let length = compress(self.level, block.element, bytes, out)?;
        Ok(length.map(|length| Done { length, metadata: fields::size_and_flag(bytes.len() as u64, true) }))
    }

    fn raw(&self, block: &Block<'_>) -> Option<Vec<u8>> {
        Some(fields::size_and_flag(block.bytes().ok()?, false))
    }
}
