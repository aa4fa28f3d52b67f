//! `zfp:error=X`, `zfp:relative_error=X`, `zfp:accuracy=X`, `zfp:precision=N` or `zfp:rate=X`: lossy compression of `real` and `double`
//! arrays of one to four dimensions; ADIOS 1.13 takes three. `zfp` alone is `zfp:precision=64`: all bits.
//!
//! Metadata, 532 bytes: u64 bytes of the block, u64 stored bytes, u32 mode (0 accuracy, 1 precision, 2 rate), the mode's
//! value as text in 256 bytes, the variable's name in 256 bytes, both filled up with zeros. With an [error bound](crate::error_bound)
//! the mode is accuracy, its value is `lossless` for a block that is not encoded by zfp, and the error record follows.
#![allow(unsafe_code)]

use super::{Codec, Done, ERROR, Encode, RELATIVE_ERROR};
use crate::error_bound::ErrorBound;
use crate::{Block, Stored, corrupt, fields};
use std::ffi::c_void;
use thalweg_params::parameter::ABOVE_ZERO;
use thalweg_params::{Parameter, Parameters};
use thalweg_types::{ByteOrder, ElementType, Error, ErrorKind, Result};

/// Bytes of a text in the metadata.
const TEXT: usize = 256;
/// The value of the mode in the metadata of a block that is stored without loss.
const LOSSLESS: &str = "lossless";

const ACCURACY: Parameter = Parameter::real(
    "accuracy",
    0.0,
    "largest difference between a stored value and the given one, in the variable's unit, as far as zfp keeps to it: it is not measured",
)
.between(ABOVE_ZERO, f64::MAX)
.or_nothing();
const PRECISION: Parameter =
    Parameter::count("precision", 64, "bits kept of each number").within(1, 64).or_else("64 without another bound");
const RATE: Parameter = Parameter::real("rate", 0.0, "stored bits per number").between(ABOVE_ZERO, 128.0).or_nothing();

/// The transform.
#[derive(Debug)]
pub struct Zfp;

impl Codec for Zfp {
    fn name(&self) -> &'static str {
        "zfp"
    }

    fn about(&self) -> &'static str {
        "rounds real numbers and compresses them; with loss, bounded by one of error, relative_error, accuracy, precision and rate"
    }

    fn parameters(&self) -> &'static [Parameter] {
        &[ERROR, RELATIVE_ERROR, ACCURACY, PRECISION, RATE]
    }

    fn foreign(&self, dimensions: usize) -> bool {
        dimensions <= 3
    }

    fn keeps_every_bit(&self) -> bool {
        false
    }

    fn configure(&self, given: &Parameters) -> Result<Box<dyn Encode>> {
        let bound = ErrorBound::of(given)?;
        let modes = [(0, &ACCURACY), (1, &PRECISION), (2, &RATE)];
        for (_, parameter) in modes {
            given.check(parameter)?;
        }
        let mut chosen = modes.into_iter().filter_map(|(code, parameter)| Some((code, given.text(parameter)?)));
        // All bits: values are rounded only by zfp's own arithmetic.
        let (code, text) = chosen.next().unwrap_or((1, "64"));
        if chosen.next().is_some() || bound.is_some() && given.pairs().len() > 1 {
            return Err(given.wrong("expected one of error=X, relative_error=X, accuracy=X, precision=N and rate=X"));
        }
        // The text is stored with each block, as in ADIOS 1.13.
        let text = text.to_string();
        let mode = Mode::read(code, &text).ok_or_else(|| given.wrong(format!("{text:?} bounds no loss")))?;
        Ok(Box::new(Rounded { setting: Setting { mode, code, text }, bound }))
    }

    fn expansion(&self) -> u64 {
        // 64 doubles that are 0 are encoded in one bit.
        4096
    }

    fn decode(&self, stored: &Stored<'_>, out: &mut [u8]) -> Result<()> {
        let field = Field::of(stored.block.element, stored.block.extents)?;
        if stored.order != ByteOrder::NATIVE {
            return Err(Error::new(ErrorKind::Unsupported, "zfp values of the other byte order"));
        }
        let (bytes, length) =
            (fields::u64_at(stored.metadata, 0, stored.order)?, fields::u64_at(stored.metadata, 8, stored.order)?);
        if bytes != out.len() as u64 || length != stored.payload.len() as u64 {
            let what = format!(
                "zfp metadata of {length} bytes that give {bytes}: {} and {} are there",
                stored.payload.len(),
                out.len()
            );
            return Err(corrupt(what));
        }
        let code = fields::u32_at(stored.metadata, 16, stored.order)?;
        let text = stored.metadata.get(20..20 + TEXT).ok_or_else(|| corrupt("zfp metadata is cut off"))?;
        let text = text.split(|b| *b == 0).next().unwrap_or(&[]);
        let mode = std::str::from_utf8(text).ok().and_then(|t| Mode::read(code, t));
        let mode = mode.ok_or_else(|| corrupt(format!("zfp mode {code} of {:?}", String::from_utf8_lossy(text))))?;
        let stream = Stream::new(mode, &field)?;
        let longest = stream.most_read(&field);
        let mut padded =
            vec![0u64; usize::try_from(longest.max(length) / 8 + 1).map_err(|_| crate::no_memory(longest))?];
        for (to, piece) in padded.iter_mut().zip(stored.payload.chunks(8)) {
            *to = word(piece);
        }
        // Values are decoded in place if `out` is aligned.
        let aligned = out.as_ptr().align_offset(8) == 0;
        let mut words = if aligned { Vec::new() } else { vec![0u64; out.len().div_ceil(8)] };
        let memory: *mut c_void = if aligned { out.as_mut_ptr().cast() } else { words.as_mut_ptr().cast() };
        // SAFETY: `memory` is aligned and has room for the field, whose bytes are `out.len()`.
        if !unsafe { stream.decompress(&field, &mut padded, memory) } {
            return Err(corrupt("zfp cannot decode the block"));
        }
        for (piece, word) in out.chunks_mut(8).zip(words) {
            piece.copy_from_slice(&word.to_ne_bytes()[..piece.len()]);
        }
        Ok(())
    }
}

/// The bound of the loss.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Mode {
    Accuracy(f64),
    Precision(u32),
    Rate(f64),
}

impl Mode {
    fn read(code: u32, text: &str) -> Option<Mode> {
        let text = text.trim();
        let above_zero = |x: &f64| x.is_finite() && *x > 0.0;
        match code {
            0 => text.parse().ok().filter(above_zero).map(Mode::Accuracy),
            1 => text.parse().ok().filter(|n| (1..=64).contains(n)).map(Mode::Precision),
            2 => text.parse().ok().filter(above_zero).filter(|r| *r <= 128.0).map(Mode::Rate),
            _ => None,
        }
    }
}

/// An array in zfp's terms.
#[derive(Debug)]
struct Field {
    double: bool,
    extents: Vec<usize>,
}

impl Field {
    fn of(element: ElementType, extents: &[u64]) -> Result<Field> {
        suits(element, extents.len())?;
        let extents = extents.iter().map(|n| usize::try_from(*n)).collect::<std::result::Result<Vec<_>, _>>();
        let extents = extents.map_err(|_| Error::new(ErrorKind::OutOfBounds, "a block larger than memory"))?;
        Ok(Field { double: element == ElementType::F64, extents })
    }

    fn kind(&self) -> zfp_sys::zfp_type {
        if self.double { zfp_sys::zfp_type_zfp_type_double } else { zfp_sys::zfp_type_zfp_type_float }
    }

    /// Number of zfp blocks, with four elements per dimension.
    fn blocks(&self) -> u64 {
        self.extents.iter().map(|n| n.div_ceil(4) as u64).fold(1, u64::saturating_mul)
    }

    /// Calls `then` with a field over `memory`.
    fn with<T>(&self, memory: *mut c_void, then: impl FnOnce(*mut zfp_sys::zfp_field) -> T) -> Option<T> {
        // SAFETY: these make a description of an array and touch no element; it is freed below.
        unsafe {
            let field = match *self.extents.as_slice() {
                [x] => zfp_sys::zfp_field_1d(memory, self.kind(), x),
                [x, y] => zfp_sys::zfp_field_2d(memory, self.kind(), x, y),
                [x, y, z] => zfp_sys::zfp_field_3d(memory, self.kind(), x, y, z),
                [x, y, z, w] => zfp_sys::zfp_field_4d(memory, self.kind(), x, y, z, w),
                _ => return None,
            };
            if field.is_null() {
                return None;
            }
            let got = then(field);
            zfp_sys::zfp_field_free(field);
            Some(got)
        }
    }
}

/// A stream with its mode set.
struct Stream(*mut zfp_sys::zfp_stream);

impl Stream {
    fn new(mode: Mode, field: &Field) -> Result<Stream> {
        // SAFETY: makes a stream without bytes, and sets numbers in it; freed on drop.
        unsafe {
            let stream = zfp_sys::zfp_stream_open(std::ptr::null_mut());
            if stream.is_null() {
                return Err(crate::no_memory(64));
            }
            match mode {
                Mode::Accuracy(tolerance) => drop(zfp_sys::zfp_stream_set_accuracy(stream, tolerance)),
                Mode::Precision(bits) => drop(zfp_sys::zfp_stream_set_precision(stream, bits)),
                Mode::Rate(rate) => {
                    let dimensions = field.extents.len() as u32;
                    zfp_sys::zfp_stream_set_rate(stream, rate, field.kind(), dimensions, 0);
                }
            }
            Ok(Stream(stream))
        }
    }

    /// Most bytes of output.
    fn maximum_size(&self, field: &Field) -> u64 {
        // SAFETY: computes from the numbers of stream and field alone.
        field.with(std::ptr::null_mut(), |f| unsafe { zfp_sys::zfp_stream_maximum_size(self.0, f) }).unwrap_or(0) as u64
    }

    /// Most bytes that the decoder reads. It does not check the end of its input: the largest encoded blocks, and one bit per plane
    /// and block more, as in damaged blocks.
    fn most_read(&self, field: &Field) -> u64 {
        self.maximum_size(field).saturating_add(field.blocks().saturating_mul(32)).saturating_add(256)
    }

    /// Calls `then` with the stream at the start of `bytes`, which are aligned.
    fn on<T>(&self, bytes: *mut u8, length: usize, then: impl FnOnce() -> T) -> Option<T> {
        // SAFETY: a bit stream only notes where its bytes are; they are used by `then`, and it is closed below.
        unsafe {
            let bits = zfp_sys::stream_open(bytes.cast(), length);
            if bits.is_null() {
                return None;
            }
            zfp_sys::zfp_stream_set_bit_stream(self.0, bits);
            zfp_sys::zfp_stream_rewind(self.0);
            let got = then();
            zfp_sys::stream_close(bits);
            Some(got)
        }
    }

    /// Stored bytes; `None` on failure.
    ///
    /// # Safety
    /// `values` is aligned and holds the field; `to` is aligned for 8 bytes and has [`Stream::maximum_size`] bytes.
    unsafe fn compress(&self, field: &Field, values: *const c_void, to: &mut [u8]) -> Option<usize> {
        // SAFETY: as the caller promises; values are only read.
        let compress = |f: *mut zfp_sys::zfp_field| unsafe { zfp_sys::zfp_compress(self.0, f) };
        let length = to.len();
        self.on(to.as_mut_ptr(), length, || field.with(values.cast_mut(), compress)).flatten().filter(|n| *n > 0)
    }

    /// Decodes; returns whether it succeeded.
    ///
    /// # Safety
    /// `values` is aligned and has room for the field; `from` is longer than any field can take.
    unsafe fn decompress(&self, field: &Field, from: &mut [u64], values: *mut c_void) -> bool {
        // SAFETY: as the caller promises.
        let decompress = |f| unsafe { zfp_sys::zfp_decompress(self.0, f) };
        let length = 8 * from.len();
        self.on(from.as_mut_ptr().cast(), length, || field.with(values, decompress)).flatten().is_some_and(|n| n > 0)
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        // SAFETY: opened in `new`, closed once.
        unsafe { zfp_sys::zfp_stream_close(self.0) }
    }
}

fn suits(element: ElementType, dimensions: usize) -> Result<()> {
    if !matches!(element, ElementType::F32 | ElementType::F64) {
        return Err(Error::new(ErrorKind::Unsupported, format!("zfp takes real and double, not {element}")));
    }
    if !(1..=4).contains(&dimensions) {
        return Err(Error::new(ErrorKind::Unsupported, format!("zfp takes 1 to 4 dimensions, not {dimensions}")));
    }
    Ok(())
}

/// A mode, with its code and text in the metadata.
#[derive(Debug)]
struct Setting {
    mode: Mode,
    code: u32,
    text: String,
}

impl Setting {
    fn accuracy(tolerance: f64) -> Setting {
        Setting { mode: Mode::Accuracy(tolerance), code: 0, text: format!("{tolerance:e}") }
    }

    fn encode(&self, block: &Block<'_>, bytes: &[u8], out: &mut [u8]) -> Result<Option<Done>> {
        let mut length = 0;
        if !bytes.is_empty() {
            let field = Field::of(block.element, block.extents)?;
            let stream = Stream::new(self.mode, &field)?;
            let shift = out.as_ptr().align_offset(8);
            let to = out.get_mut(shift..).unwrap_or(&mut []);
            if (to.len() as u64) < stream.maximum_size(&field) {
                return Ok(None);
            }
            // A program's values are usually aligned; others are copied.
            let mut words = Vec::new();
            let mut values: *const c_void = bytes.as_ptr().cast();
            if bytes.as_ptr().align_offset(block.element.size() as usize) != 0 {
                words = bytes.chunks(8).map(word).collect::<Vec<u64>>();
                values = words.as_ptr().cast();
            }
            // SAFETY: `values` is aligned and holds `bytes.len()` bytes, those of the field (see `encode_into`); `to` is
            // aligned, and long enough as checked.
            let got = unsafe { stream.compress(&field, values, to) };
            drop(words);
            length = got.ok_or_else(|| Error::new(ErrorKind::Io, "zfp failed"))?;
            out.copy_within(shift..shift + length, 0);
        }
        let metadata = metadata(block.name, bytes.len() as u64, length as u64, self.code, &self.text);
        Ok(Some(Done { length, metadata }))
    }
}

fn metadata(name: &str, bytes: u64, length: u64, code: u32, text: &str) -> Vec<u8> {
    let mut metadata = bytes.to_ne_bytes().to_vec();
    metadata.extend_from_slice(&length.to_ne_bytes());
    metadata.extend_from_slice(&code.to_ne_bytes());
    for text in [text, name] {
        let text = &text.as_bytes()[..text.len().min(TEXT - 1)];
        let start = metadata.len();
        metadata.extend_from_slice(text);
        metadata.resize(start + TEXT, 0);
    }
    metadata
}

#[derive(Debug)]
struct Rounded {
    /// Without `bound`.
    setting: Setting,
    bound: Option<ErrorBound>,
}

impl Encode for Rounded {
    fn suits(&self, element: ElementType, dimensions: usize) -> Result<()> {
        suits(element, dimensions)
    }

    fn remark(&self) -> Option<String> {
        let what = "ADIOS 1.x reads blocks that are stored with loss, and refuses those that are stored without";
        self.bound.map(|_| what.to_string())
    }

    fn room(&self, block: &Block<'_>) -> Result<u64> {
        if block.bytes()? == 0 {
            return Ok(0);
        }
        let field = Field::of(block.element, block.extents)?;
        // Additional bytes to align the output.
        Ok(Stream::new(self.setting.mode, &field)?.maximum_size(&field) + 8)
    }

    fn working_memory(&self, _bytes: u64) -> u64 {
        4 << 10
    }

    fn decoding_memory(&self, block: &Block<'_>) -> Result<u64> {
        let field = Field::of(block.element, block.extents)?;
        Ok(Stream::new(self.setting.mode, &field)?.most_read(&field).saturating_add(block.bytes()?))
    }

    fn encode(&self, block: &Block<'_>, bytes: &[u8], out: &mut [u8]) -> Result<Option<Done>> {
        self.setting.encode(block, bytes, out)
    }

    fn raw(&self, _block: &Block<'_>) -> Option<Vec<u8>> {
        None
    }

    fn error_bound(&self) -> Option<ErrorBound> {
        self.bound
    }

    fn encode_within(&self, tolerance: f64, block: &Block<'_>, bytes: &[u8], out: &mut [u8]) -> Result<Option<Done>> {
        Setting::accuracy(tolerance).encode(block, bytes, out)
    }

    fn lossless_metadata(&self, block: &Block<'_>, stored: u64) -> Result<Vec<u8>> {
        // ADIOS 1.13 refuses an accuracy that is no number; it knows no mode for unchanged values.
        Ok(metadata(block.name, block.bytes()?, stored, 0, LOSSLESS))
    }
}

/// Up to 8 bytes in memory order, padded with zeros.
fn word(bytes: &[u8]) -> u64 {
    let mut eight = [0; 8];
    eight[..bytes.len()].copy_from_slice(bytes);
    u64::from_ne_bytes(eight)
}
