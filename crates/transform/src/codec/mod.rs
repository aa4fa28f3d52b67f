//! The transforms, one file each, and the one list of them.

use crate::{Block, Stored};
use std::fmt::Debug;
use thalweg_params::{Parameter, Parameters};
use thalweg_types::{ElementType, Result};

pub mod blosc;
pub mod bzip2;
pub mod identity;
pub mod lz4;
mod stream;
pub mod zfp;
pub mod zlib;
pub mod zstd;

/// Every transform.
pub const CODECS: &[&dyn Codec] =
    &[&identity::Identity, &zlib::Zlib, &bzip2::Bzip2, &lz4::Lz4, &blosc::Blosc, &zfp::Zfp, &zstd::Zstd];

/// The transform of this name, in any letter case.
pub fn find(name: &str) -> Option<&'static dyn Codec> {
    CODECS.iter().find(|c| c.name().eq_ignore_ascii_case(name)).copied()
}

/// Key of the parameter that is given as a value alone, `zlib:5`.
pub const LEVEL: &str = "LEVEL";

/// Smallest block that is compressed, of `lz4` and `blosc`.
const LEAST_THRESHOLD: u64 = 128;
/// `threshold` of `lz4` and `blosc`.
const THRESHOLD: Parameter =
    Parameter::size("threshold", LEAST_THRESHOLD, "smaller blocks are stored as they are; less than 128 counts as 128");

/// A transform.
pub trait Codec: Sync + Debug {
    /// Its name, in the XML and in files.
    fn name(&self) -> &'static str;

    /// One line.
    fn about(&self) -> &'static str;

    /// Parameters it knows.
    fn parameters(&self) -> &'static [Parameter] {
        &[]
    }

    /// Whether ADIOS 1.13 reads it.
    fn foreign(&self) -> bool {
        true
    }

    /// Whether every value comes back as it was, whatever the parameters.
    fn keeps_every_bit(&self) -> bool {
        true
    }

    /// Takes its parameters.
    ///
    /// # Errors
    /// `Config` naming the parameter.
    fn configure(&self, given: &Parameters) -> Result<Box<dyn Encode>>;

    /// Bytes that one stored byte can become, at most.
    fn expansion(&self) -> u64;

    /// Undoes it; `out` is as long as the block, and not empty.
    ///
    /// # Errors
    /// `Corrupt` where the bytes don't give the block.
    fn decode(&self, stored: &Stored<'_>, out: &mut [u8]) -> Result<()>;
}

/// What [`Encode::encode`] made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Done {
    /// Bytes of output.
    pub length: usize,
    /// What is stored beside.
    pub metadata: Vec<u8>,
}

/// A transform with its parameters.
pub trait Encode: Send + Sync + Debug {
    /// Whether it takes blocks of this type and number of dimensions.
    ///
    /// # Errors
    /// `Unsupported` saying what it takes.
    fn suits(&self, _element: ElementType, _dimensions: usize) -> Result<()> {
        Ok(())
    }

    /// What is odd about the parameters.
    fn remark(&self) -> Option<String> {
        None
    }

    /// Bytes of output at most. What needs more than the block itself is stored as it is.
    ///
    /// # Errors
    /// `OutOfBounds` for a block too large to count.
    fn room(&self, block: &Block<'_>) -> Result<u64> {
        block.bytes()
    }

    /// Memory it takes beside input and output, about.
    fn working_memory(&self, _bytes: u64) -> u64 {
        0
    }

    /// Encodes into `out`, which has [`Encode::room`] bytes; `None` where the output doesn't fit or isn't worth it.
    ///
    /// # Errors
    /// What the library below says.
    fn encode(&self, block: &Block<'_>, bytes: &[u8], out: &mut [u8]) -> Result<Option<Done>>;

    /// Metadata of a block stored as it is.
    fn raw(&self, block: &Block<'_>) -> Option<Vec<u8>>;
}
