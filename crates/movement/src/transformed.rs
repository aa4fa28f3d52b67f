//! Blocks that are transformed before they are packed.
//!
//! Statistics are those of the original values, or, if the transform has an error bound, those of the values that readers get: queries
//! rely on them. Checksum and length are those of the stored bytes. The output of a transform is in a chunk of the process's buffer until
//! it is packed; values that are read back for an error bound, and the working memory of the transform, are counted there, too, so that
//! the limit holds. If the limit leaves no room, the block is stored untransformed, which every transform but zfp without an error bound
//! can record; such a zfp block is refused.

use crate::buffer::BufferPool;
use crate::pack::BlockSpec;
use std::sync::Arc;
use thalweg_bp::pass;
use thalweg_bp::rows::Rows;
use thalweg_bp::statistics::Statistics;
use thalweg_profile::{Phase, span};
use thalweg_transform::{Block, Spec};
use thalweg_types::{Error, ErrorKind, Result};

/// The transform of a block.
#[derive(Debug, Clone, PartialEq)]
pub struct Applied {
    /// The transform's name in files.
    pub uid: &'static str,
    /// Metadata for undoing it.
    pub metadata: Vec<u8>,
    /// Statistics of the original values; with an error bound, of the values that readers get.
    pub statistics: Option<Statistics>,
}

/// A block after its transform, as [`crate::Pack`] takes it.
pub struct Changed<'d> {
    /// Its description, including the transform.
    pub spec: BlockSpec,
    bytes: Bytes<'d>,
}

enum Bytes<'d> {
    AsTheyWere(Rows<'d>),
    Encoded(Chunk),
}

impl Changed<'_> {
    /// The bytes to be stored.
    pub fn rows(&self) -> Rows<'_> {
        match &self.bytes {
            Bytes::AsTheyWere(rows) => rows.clone(),
            Bytes::Encoded(chunk) => Rows::from(&chunk.bytes),
        }
    }
}

/// Memory of the buffer, returned when dropped.
struct Chunk {
    pool: Arc<BufferPool>,
    bytes: Vec<u8>,
}

impl Chunk {
    fn take(pool: &Arc<BufferPool>, bytes: u64) -> Option<Chunk> {
        let bytes = if bytes == 0 { Vec::new() } else { pool.take(bytes, 0)? };
        Some(Chunk { pool: pool.clone(), bytes })
    }
}

impl Drop for Chunk {
    fn drop(&mut self) {
        let bytes = std::mem::take(&mut self.bytes);
        if bytes.capacity() > 0 {
            self.pool.give(bytes);
        }
    }
}

/// Transforms an array block. `fortran`: its shape lists the fastest dimension first.
///
/// # Errors
/// `Unsupported` for blocks that the transform does not accept; `NoMemory` if the buffer limit leaves no room and the transform
/// cannot store a block untransformed.
pub fn apply<'d>(
    pool: &Arc<BufferPool>,
    transform: &Spec,
    mut spec: BlockSpec,
    fortran: bool,
    rows: Rows<'d>,
) -> Result<Changed<'d>> {
    let _transforming = span(Phase::Transform, rows.len() as u64);
    let mut extents = spec.shape.as_ref().map_or(Vec::new(), |s| s.local.clone());
    if fortran {
        extents.reverse();
    }
    let block = Block { name: &spec.name, element: spec.element, extents: &extents };
    transform.suits(block.element, extents.len())?;
    let encoded = match encode(pool, transform, &block, &rows)? {
        None => transform.raw(&block).map(|metadata| Encoded { metadata, bytes: None, read_back: None }),
        encoded => encoded,
    };
    let Encoded { metadata, bytes, read_back } = match encoded {
        Some(encoded) => encoded,
        None => {
            let what = format!(
                "{} needs {} bytes for a block of {}, which the buffer limit has no room for, and cannot store it as it is",
                transform.name(),
                transform.room(&block)?,
                rows.len()
            );
            return Err(Error::new(ErrorKind::NoMemory, what));
        }
    };
    let given = rows.clone();
    let read = read_back.as_ref().map_or(rows, |chunk| Rows::from(&chunk.bytes));
    let statistics = pass::look(read, spec.element, spec.taken()).statistics;
    let bytes = bytes.map_or(Bytes::AsTheyWere(given), Bytes::Encoded);
    spec.transform = Some(Arc::new(Applied { uid: transform.name(), metadata, statistics }));
    Ok(Changed { spec, bytes })
}

/// An encoded block.
struct Encoded {
    metadata: Vec<u8>,
    /// The stored bytes, if they differ from the block's.
    bytes: Option<Chunk>,
    /// The values that readers get, if they differ from the given ones and there is an error bound.
    read_back: Option<Chunk>,
}

/// `None` if there is no room.
fn encode(pool: &Arc<BufferPool>, transform: &Spec, block: &Block<'_>, rows: &Rows<'_>) -> Result<Option<Encoded>> {
    let Some(_reservation) = pool.try_reserve(transform.working_memory(block)?) else { return Ok(None) };
    let mut given = rows.iter();
    let (first, more) = (given.next().unwrap_or(&[]), given.next().is_some());
    let mut gathered = None;
    if more {
        let Some(mut chunk) = Chunk::take(pool, rows.len() as u64) else { return Ok(None) };
        rows.iter().for_each(|row| chunk.bytes.extend_from_slice(row));
        gathered = Some(chunk);
    }
    let bytes = gathered.as_ref().map_or(first, |chunk| &chunk.bytes);
    let Some(mut out) = Chunk::take(pool, transform.room(block)?) else { return Ok(None) };
    let Some(mut back) = Chunk::take(pool, transform.read_back(block)?) else { return Ok(None) };
    let applied = thalweg_transform::encode_into(transform, block, bytes, &mut out.bytes, &mut back.bytes)?;
    let read_back = (!back.bytes.is_empty()).then_some(back);
    Ok(Some(Encoded { metadata: applied.metadata, bytes: (!applied.raw).then_some(out), read_back }))
}
