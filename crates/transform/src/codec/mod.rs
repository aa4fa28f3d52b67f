//! The transforms, one file each, and their list.

use crate::error_bound::ErrorBound;
use crate::{Block, Stored};
use std::fmt::Debug;
use thalweg_params::parameter::ABOVE_ZERO;
use thalweg_params::{Parameter, Parameters};
use thalweg_types::{ByteOrder, ElementType, Error, ErrorKind, Result};

pub mod blosc;
pub mod bzip2;
pub mod identity;
pub mod lz4;
pub mod pco;
mod stream;
pub mod zfp;
pub mod zlib;
pub mod zstd;

/// Every transform.
pub const CODECS: &[&dyn Codec] =
    &[&identity::Identity, &zlib::Zlib, &bzip2::Bzip2, &lz4::Lz4, &blosc::Blosc, &zfp::Zfp, &zstd::Zstd, &pco::Pco];

/// The transform of this name, in any letter case.
pub fn find(name: &str) -> Option<&'static dyn Codec> {
    CODECS.iter().find(|c| c.name().eq_ignore_ascii_case(name)).copied()
}

/// Key of the parameter that is given without a key, as in `zlib:5`.
pub const LEVEL: &str = "LEVEL";

/// Smallest block that is compressed, of `lz4` and `blosc`.
const LEAST_THRESHOLD: u64 = 128;
/// `threshold` of `lz4` and `blosc`.
const THRESHOLD: Parameter =
    Parameter::size("threshold", LEAST_THRESHOLD, "smaller blocks are stored as they are; less than 128 counts as 128");

/// Whether blocks are encoded that do not become smaller.
const ALWAYS: Parameter = Parameter::switch(
    "always",
    false,
    "yes: blocks that do not become smaller are encoded, too, so that all blocks of an array have one form, as Zarr wants it",
);

/// Absolute error bound of transforms with a measured loss.
pub const ERROR: Parameter = Parameter::real(
    "error",
    0.0,
    "error bound: largest difference between a value that is read and the given one, in the variable's unit; measured for each block when it is written",
)
.between(ABOVE_ZERO, f64::MAX)
.or_nothing();

/// Relative error bound of transforms with a measured loss.
pub const RELATIVE_ERROR: Parameter = Parameter::real(
    "relative_error",
    0.0,
    "the same, as a fraction of the range (maximum - minimum) of the values of each block",
)
.between(ABOVE_ZERO, 1.0)
.or_nothing();

/// Most bytes of a block that is always encoded: what the libraries ask for input that has no pattern.
fn bound(block: &Block<'_>) -> Result<u64> {
    let bytes = block.bytes()?;
    Ok(bytes + bytes / 64 + 1024)
}

/// The form of a stored block, as far as programs know it that do not know BP files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// The values.
    Plain,
    /// One stream or buffer in the format of the compression library.
    Stream,
    /// A form of BP files alone.
    Own,
}

/// A transform.
pub trait Codec: Sync + Debug {
    /// Its name, in the XML and in files.
    fn name(&self) -> &'static str;

    /// A one-line description.
    fn about(&self) -> &'static str;

    /// Its parameters.
    fn parameters(&self) -> &'static [Parameter] {
        &[]
    }

    /// Whether ADIOS 1.13 reads it, of arrays with this number of dimensions.
    fn foreign(&self, _dimensions: usize) -> bool {
        true
    }

    /// Whether the transform is lossless with all parameters.
    fn keeps_every_bit(&self) -> bool {
        true
    }

    /// Makes an encoder with these parameters.
    ///
    /// # Errors
    /// `Config`, with the parameter.
    fn configure(&self, given: &Parameters) -> Result<Box<dyn Encode>>;

    /// Largest number of bytes that one stored byte can expand to.
    fn expansion(&self) -> u64;

    /// The form of a stored block.
    ///
    /// - `metadata`: of the block, in byte order `order`; `bytes`: of its values.
    ///
    /// # Errors
    /// `Corrupt` for metadata that are none of this transform.
    fn form(&self, metadata: &[u8], order: ByteOrder, bytes: u64) -> Result<Form> {
        let _ = (metadata, order, bytes);
        Ok(Form::Own)
    }

    /// Undoes the transform; `out` has the length of the block, and is not empty.
    ///
    /// # Errors
    /// `Corrupt` if the bytes do not decode to the block; `Unsupported` for the other byte order, if the transform depends on it.
    /// # Cost
    /// As [`crate::decode`].
    fn decode(&self, stored: &Stored<'_>, out: &mut [u8]) -> Result<()>;
}

/// The result of [`Encode::encode`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Done {
    /// Bytes of output.
    pub length: usize,
    /// Metadata stored with the block.
    pub metadata: Vec<u8>,
}

/// A transform with its parameters.
pub trait Encode: Send + Sync + Debug {
    /// Checks that the transform supports blocks of this type and number of dimensions.
    ///
    /// # Errors
    /// `Unsupported`, with the supported types.
    fn suits(&self, _element: ElementType, _dimensions: usize) -> Result<()> {
        Ok(())
    }

    /// A remark about valid but unusual parameters.
    fn remark(&self) -> Option<String> {
        None
    }

    /// Largest number of bytes of output. Blocks that do not fit are stored unchanged.
    ///
    /// # Errors
    /// `OutOfBounds` for a block of more than 2^62 bytes.
    fn room(&self, block: &Block<'_>) -> Result<u64> {
        block.bytes()
    }

    /// Approximate memory for encoding, in addition to input and output.
    fn working_memory(&self, _bytes: u64) -> u64 {
        0
    }

    /// Encodes into `out`, which has [`Encode::room`] bytes; `None` if the output does not fit or is not smaller.
    ///
    /// # Errors
    /// Errors of the compression library.
    /// # Cost
    /// As [`crate::encode_into`].
    fn encode(&self, block: &Block<'_>, bytes: &[u8], out: &mut [u8]) -> Result<Option<Done>>;

    /// Metadata of a block that is stored unchanged.
    fn raw(&self, block: &Block<'_>) -> Option<Vec<u8>>;

    /// The error bound that is measured for each block; `None`: loss, if any, is not measured. With a bound,
    /// [`crate::error_bound::encode`] calls the following functions in place of [`Encode::encode`] and [`Encode::raw`].
    fn error_bound(&self) -> Option<ErrorBound> {
        None
    }

    /// As [`Encode::encode`], changing no value by more than `tolerance` as far as the transform can; the result is measured.
    ///
    /// - `tolerance`: above 0, finite. All values are finite, and there is one.
    ///
    /// # Errors
    /// As [`Encode::encode`].
    fn encode_within(&self, tolerance: f64, block: &Block<'_>, bytes: &[u8], out: &mut [u8]) -> Result<Option<Done>> {
        let _ = (tolerance, block, bytes, out);
        Ok(None)
    }

    /// Memory for [`Codec::decode`] of such a block, in addition to input and output.
    ///
    /// # Errors
    /// As [`Encode::room`].
    fn decoding_memory(&self, _block: &Block<'_>) -> Result<u64> {
        Ok(0)
    }

    /// Metadata of a block with an error bound that is not encoded by the transform, in front of its error record: readers that know the
    /// transform, but no error records, must refuse them.
    ///
    /// - `stored`: its stored bytes.
    ///
    /// # Errors
    /// `Unsupported` without an error bound.
    fn lossless_metadata(&self, _block: &Block<'_>, _stored: u64) -> Result<Vec<u8>> {
        Err(Error::new(ErrorKind::Unsupported, "a transform without an error bound"))
    }
}
