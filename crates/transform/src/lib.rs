//! Transforms: conversions of a block's bytes before they are stored, and back when they are read.
//!
//! | transform | parameters | read by |
//! |---|---|---|
//! | [`identity`](codec::identity) | | ADIOS 1.x, us |
//! | [`zlib`](codec::zlib) | level | ADIOS 1.x, us |
//! | [`bzip2`](codec::bzip2) | level | ADIOS 1.x, us |
//! | [`lz4`](codec::lz4) | `lvl`, `threshold` | ADIOS 1.13, us |
//! | [`blosc`](codec::blosc) | `compressor`, `lvl`, `shuffle`, `threshold`, `threads` | ADIOS 1.13, us |
//! | [`zfp`](codec::zfp) | one of `error`, `relative_error`, `accuracy`, `precision`, `rate` | ADIOS 1.13, us |
//! | [`zstd`](codec::zstd) | level | us |
//! | [`pco`](codec::pco) | level | us |
//!
//! Pure functions on bytes: no files, no ranks. A [`Spec`] is the XML's text (`zlib:5`); [`encode`] applies it to a block,
//! [`decode`] undoes the transform that a file names. Blocks that would not become smaller are stored unchanged, if the
//! transform's metadata can express this. A transform may have an [error bound](error_bound): the loss of each block is then measured and
//! recorded. Bytes from a file are untrusted: the output is never longer than the block's shape
//! requires, and lengths beyond the transform's largest expansion are refused before memory is accessed.
//!
//! Byte tables: `docs/format/transforms.md`.

pub mod codec;
pub mod error_bound;
mod fields;
pub mod spec;

pub use codec::{CODECS, Codec, Encode, Form, find};
pub use error_bound::{ErrorBound, ErrorRecord};
pub use spec::{Spec, is_of_adios1};

use error_bound::BoundedForm;
use thalweg_types::{ByteOrder, ElementType, Error, ErrorKind, Result};

/// A block before its transform.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Block<'b> {
    /// Name of its variable, which some transforms store.
    pub name: &'b str,
    /// Type of its values.
    pub element: ElementType,
    /// Its extents, in elements, slowest dimension first, independent of the order in the file.
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

/// A transformed block, to be stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Encoded {
    /// Its bytes.
    pub payload: Vec<u8>,
    /// Metadata for undoing the transform, stored with the block.
    pub metadata: Vec<u8>,
}

/// The result of [`encode_into`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Applied {
    /// Metadata for undoing the transform, stored with the block.
    pub metadata: Vec<u8>,
    /// Nothing was appended: the block is stored unchanged.
    pub raw: bool,
}

/// Applies a transform to a block.
///
/// - `bytes`: its values, in this machine's byte order.
///
/// # Errors
/// `InvalidArgument` if `bytes` has another length than the block; `Unsupported` for types and numbers of dimensions that the
/// transform does not support; `NoMemory`.
/// # Cost
/// One pass over the block, in the calling thread (`blosc`: in `threads` threads); with an error bound those of
/// [`error_bound::encode`]. Memory for [`Spec::room`] and [`Spec::read_back`] bytes and [`Spec::working_memory`]; a block that is stored
/// unchanged is copied in addition.
pub fn encode(spec: &Spec, block: &Block<'_>, bytes: &[u8]) -> Result<Encoded> {
    let (mut payload, mut back) = (Vec::new(), Vec::new());
    for (memory, room) in [(&mut payload, spec.room(block)?), (&mut back, spec.read_back(block)?)] {
        memory.try_reserve_exact(usize::try_from(room).unwrap_or(usize::MAX)).map_err(|_| no_memory(room))?;
    }
    let applied = encode_into(spec, block, bytes, &mut payload, &mut back)?;
    if applied.raw {
        payload.clear();
        payload.extend_from_slice(bytes);
    }
    Ok(Encoded { payload, metadata: applied.metadata })
}

/// As [`encode`], appending to `out`, which must have a free capacity of [`Spec::room`] bytes and does not grow.
///
/// - `back`: has a capacity of [`Spec::read_back`] bytes. Contains the values that readers get if these differ from the given ones and
///   the transform has an error bound, else nothing.
///
/// # Errors
/// As [`encode`]; `NoMemory` also if `out` or `back` has less capacity.
/// # Cost
/// As [`encode`], but without memory for the output and without the copy of an unchanged block. Zeros [`Spec::room`] and
/// [`Spec::read_back`] bytes first.
pub fn encode_into(
    spec: &Spec,
    block: &Block<'_>,
    bytes: &[u8],
    out: &mut Vec<u8>,
    back: &mut Vec<u8>,
) -> Result<Applied> {
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
    back.clear();
    if let Some(bound) = encoder.error_bound() {
        if back.capacity() < bytes.len() {
            return Err(no_memory(bytes.len() as u64));
        }
        back.resize(bytes.len(), 0);
        let done = error_bound::encode(bound, spec.codec(), encoder, block, bytes, &mut out[start..], back);
        out.truncate(start + done.as_ref().map_or(0, |d| d.length));
        let done = done?;
        if done.record.form != BoundedForm::Encoded {
            back.clear();
        }
        return Ok(Applied { metadata: done.metadata, raw: done.record.form == BoundedForm::Plain });
    }
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

/// Names of the built-in transforms.
pub fn names() -> impl Iterator<Item = &'static str> + Clone {
    CODECS.iter().map(|c| c.name())
}

/// Undoes a transform.
///
/// - `name`, `metadata`, `payload`: from the file; `order`: the file's byte order.
/// - `out`: has the length of the block, and contains its values in the file's byte order afterwards.
///
/// # Errors
/// `Unsupported` for an unknown transform; `Corrupt` if the bytes do not decode to the block; `InvalidArgument` if `out` has
/// another length than the block.
/// # Cost
/// One pass over the block, in the calling thread. No memory of the block's size besides `out`, except for `zfp`: a copy of the
/// payload, padded to the largest size of a stream, and a copy of the block if `out` is not aligned to 8 bytes.
pub fn decode(
    name: &str,
    metadata: &[u8],
    block: &Block<'_>,
    order: ByteOrder,
    payload: &[u8],
    out: &mut [u8],
) -> Result<()> {
    check(name, metadata, block, payload.len() as u64)?;
    if block.bytes()? != out.len() as u64 {
        return Err(Error::new(ErrorKind::InvalidArgument, "memory to decode into has another length than the block"));
    }
    if out.is_empty() {
        return Ok(());
    }
    let codec = find(name).ok_or_else(|| unknown(name))?;
    let mut stored = Stored { block: *block, metadata, order, payload };
    match error_record(name, metadata)? {
        None => codec.decode(&stored, out),
        Some((own, record)) => {
            stored.metadata = own;
            error_bound::decode(codec, record.form, &stored, out)
        }
    }
}

/// The error record of a block, behind the metadata of the transform itself, which come first; `None` for transforms without an error
/// bound.
///
/// # Errors
/// As [`ErrorRecord::split`].
pub fn error_record<'m>(name: &str, metadata: &'m [u8]) -> Result<Option<(&'m [u8], ErrorRecord)>> {
    match find(name) {
        Some(codec) if !codec.keeps_every_bit() => ErrorRecord::split(metadata),
        _ => Ok(None),
    }
}

/// Checks before [`decode`]: the transform is known, and `payload` stored bytes can expand to the block.
///
/// # Errors
/// `Unsupported` for an unknown transform; `Corrupt` if the bytes are too few, and for a damaged error record.
pub fn check(name: &str, metadata: &[u8], block: &Block<'_>, payload: u64) -> Result<()> {
    // Small blocks are exempt: headers and partly used bytes dominate their ratio.
    const SMALL: u64 = 1 << 20;
    let codec = find(name).ok_or_else(|| unknown(name))?;
    let bytes = block.bytes()?;
    let expansion = match error_record(name, metadata)? {
        Some((_, record)) if record.form == BoundedForm::Pco => codec::pco::Pco.expansion(),
        _ => codec.expansion(),
    };
    if bytes > payload.saturating_mul(expansion).saturating_add(SMALL) {
        return Err(corrupt(format!("{payload} bytes through {name} cannot give the {bytes} of the block")));
    }
    Ok(())
}

/// A stored block of a file.
#[derive(Debug, Clone, Copy)]
pub struct Stored<'s> {
    /// The block before its transform.
    pub block: Block<'s>,
    /// Metadata stored with the block.
    pub metadata: &'s [u8],
    /// Byte order of the file.
    pub order: ByteOrder,
    /// Its stored bytes.
    pub payload: &'s [u8],
}

impl Stored<'_> {
    /// Copies a payload that is the unchanged block.
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
