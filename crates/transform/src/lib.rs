//! Transforms: the bytes of a block changed before they are stored, and changed back when they are read.
//!
//! | transform | parameters | read by |
//! |---|---|---|
//! | [`identity`](codec::identity) | | ADIOS 1.x, us |
//! | [`zlib`](codec::zlib) | level | ADIOS 1.x, us |
//! | [`bzip2`](codec::bzip2) | level | ADIOS 1.x, us |
//! | [`lz4`](codec::lz4) | `lvl`, `threshold` | ADIOS 1.13, us |
//! | [`blosc`](codec::blosc) | `compressor`, `lvl`, `shuffle`, `threshold`, `threads` | ADIOS 1.13, us |
//! | [`zfp`](codec::zfp) | one of `accuracy`, `precision`, `rate` | ADIOS 1.13, us |
//! | [`zstd`](codec::zstd) | level | us |
//!
//! Bytes in, bytes out: no file, no rank. A [`Spec`] is what the XML says (`zlib:5`); [`encode`] applies it to a block,
//! [`decode`] undoes what a file names. What doesn't get smaller is stored as it is, where the transform can say so.
//! Bytes from a file are not trusted: output is never longer than the block's shape says, and a length that so few
//! bytes cannot give is refused before memory is touched.
//!
//! Byte tables: `docs/format/transforms.md`.

pub mod codec;
mod fields;
pub mod spec;

pub use codec::{CODECS, Codec, Encode, find};
pub use spec::{Spec, is_of_adios1};

use thalweg_types::{ByteOrder, ElementType, Error, ErrorKind, Result};

/// What a block is before its transform.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Block<'b> {
    /// Name of its variable, which some transforms record.
    pub name: &'b str,
    /// Type of its values.
    pub element: ElementType,
    /// Its extents, in elements, slowest dimension first, whatever order the file has them in.
    pub extents: &'b [u64],
}

impl Block<'_> {
    /// Bytes of its values.
    ///
    /// # Errors
    /// `OutOfBounds` for more than 2^62.
    pub fn bytes(&self) -> Result<u64> {
        thalweg_types::bounding_box::elements(self.extents)
            .and_then(|n| n.checked_mul(self.element.size()))
            .filter(|bytes| *bytes < 1 << 62)
            .ok_or_else(|| Error::new(ErrorKind::OutOfBounds, "a block of more than 2^62 bytes"))
    }
}

/// A block as it is to be stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Encoded {
    /// Its bytes.
    pub payload: Vec<u8>,
    /// What is needed to undo it, stored beside.
    pub metadata: Vec<u8>,
}

/// What [`encode_into`] did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Applied {
    /// What is needed to undo it, stored beside the block.
    pub metadata: Vec<u8>,
    /// Nothing was appended: the block's own bytes are what is stored.
    pub raw: bool,
}

/// Applies a transform to a block.
///
/// - `bytes`: its values, this machine's byte order.
///
/// # Errors
/// `InvalidArgument` where the block has another length; `Unsupported` for types and numbers of dimensions that the
/// transform doesn't know; `NoMemory` where there is none.
pub fn encode(spec: &Spec, block: &Block<'_>, bytes: &[u8]) -> Result<Encoded> {
    let mut payload = Vec::new();
    let room = spec.room(block)?;
    payload.try_reserve_exact(usize::try_from(room).unwrap_or(usize::MAX)).map_err(|_| no_memory(room))?;
    let applied = encode_into(spec, block, bytes, &mut payload)?;
    if applied.raw {
        payload.clear();
        payload.extend_from_slice(bytes);
    }
    Ok(Encoded { payload, metadata: applied.metadata })
}

/// As [`encode`], appended to `out`, which has room for [`Spec::room`] bytes and does not grow.
///
/// # Errors
/// As [`encode`]; `NoMemory` too where `out` has not that room.
pub fn encode_into(spec: &Spec, block: &Block<'_>, bytes: &[u8], out: &mut Vec<u8>) -> Result<Applied> {
    spec.suits(block.element, block.extents.len())?;
    if block.bytes()? != bytes.len() as u64 {
        let what = format!("{} bytes were given, the block has {}", bytes.len(), block.bytes()?);
        return Err(Error::new(ErrorKind::InvalidArgument, what));
    }
    let encoder = spec.encoder();
    let room = usize::try_from(spec.room(block)?).unwrap_or(usize::MAX);
    if out.capacity() - out.len() < room {
        return Err(no_memory(room as u64));
    }
    let start = out.len();
    out.resize(start + room, 0);
    let done = encoder.encode(block, bytes, &mut out[start..]);
    let length = done.as_ref().ok().and_then(|d| d.as_ref()).map_or(0, |d| d.length);
    out.truncate(start + length);
    match (done?, encoder.raw(block)) {
        (Some(done), Some(_)) if done.length < bytes.len() => Ok(Applied { metadata: done.metadata, raw: false }),
        (Some(done), None) => Ok(Applied { metadata: done.metadata, raw: false }),
        (_, Some(metadata)) => {
            out.truncate(start);
            Ok(Applied { metadata, raw: true })
        }
        (None, None) => Err(Error::new(ErrorKind::Io, format!("{} cannot encode this block", spec.name()))),
    }
}

/// Names of the transforms that are built in.
pub fn names() -> impl Iterator<Item = &'static str> + Clone {
    CODECS.iter().map(|c| c.name())
}

/// Undoes a transform.
///
/// - `name`, `metadata`, `payload`: as the file has them; `order`: the file's byte order.
/// - `out`: as long as the block; holds its values in the file's byte order afterwards.
///
/// # Errors
/// `Unsupported` for a transform that isn't known; `Corrupt` where the bytes don't give the block.
pub fn decode(
    name: &str,
    metadata: &[u8],
    block: &Block<'_>,
    order: ByteOrder,
    payload: &[u8],
    out: &mut [u8],
) -> Result<()> {
    check(name, block, payload.len() as u64)?;
    if block.bytes()? != out.len() as u64 {
        return Err(Error::new(ErrorKind::InvalidArgument, "memory to decode into has another length than the block"));
    }
    if out.is_empty() {
        return Ok(());
    }
    find(name).ok_or_else(|| unknown(name))?.decode(&Stored { block: *block, metadata, order, payload }, out)
}

/// Whether [`decode`] may be tried on so many stored bytes: the transform is known, and they can give the block.
///
/// # Errors
/// As [`decode`].
pub fn check(name: &str, block: &Block<'_>, payload: u64) -> Result<()> {
    // Headers and single bits are beyond any ratio.
    const SMALL: u64 = 1 << 20;
    let codec = find(name).ok_or_else(|| unknown(name))?;
    let bytes = block.bytes()?;
    if bytes > payload.saturating_mul(codec.expansion()).saturating_add(SMALL) {
        return Err(corrupt(format!("{payload} bytes through {name} cannot give the {bytes} of the block")));
    }
    Ok(())
}

/// A block as it was found in a file.
#[derive(Debug, Clone, Copy)]
pub struct Stored<'s> {
    /// What it was before.
    pub block: Block<'s>,
    /// Stored beside it.
    pub metadata: &'s [u8],
    /// Byte order of the file.
    pub order: ByteOrder,
    /// Its bytes.
    pub payload: &'s [u8],
}

impl Stored<'_> {
    /// The payload is the block itself.
    fn copy_to(&self, out: &mut [u8]) -> Result<()> {
        if self.payload.len() != out.len() {
            let what = format!("{} bytes stored as they are, the block has {}", self.payload.len(), out.len());
            return Err(corrupt(what));
        }
        out.copy_from_slice(self.payload);
        Ok(())
    }
}

fn unknown(name: &str) -> Error {
    let known: Vec<&str> = CODECS.iter().map(|c| c.name()).collect();
    let what = format!("stored through the transform \"{name}\"; {} can be undone", known.join(", "));
    Error::new(ErrorKind::Unsupported, what)
}

fn corrupt(what: impl Into<String>) -> Error {
    Error::new(ErrorKind::Corrupt, what)
}

fn no_memory(bytes: u64) -> Error {
    Error::new(ErrorKind::NoMemory, format!("no memory of {bytes} bytes for a transform"))
}
