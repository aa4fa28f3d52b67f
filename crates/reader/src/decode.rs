//! Transformed blocks: decoding their values from the bytes of a file. [`crate::fetch`] chooses the blocks of a read and how many are
//! decoded at a time.

use thalweg_bp::characteristic::Transform;
use thalweg_transform::Block;
use thalweg_types::{ByteOrder, Error, ErrorKind, Result};

/// A block before its transform, dimensions slowest first; in the file they are fastest first if `fortran` is set.
pub(crate) fn before(mut transform: Transform, fortran: bool) -> Transform {
    if fortran {
        transform.shape = transform.shape.reversed();
    }
    transform
}

fn block_of(transform: &Transform) -> Block<'_> {
    // Decoding a block does not need the name.
    Block { name: "", element: transform.element, extents: &transform.shape.local }
}

/// Bytes of the block's values, refused where so many stored bytes cannot give them.
fn size(transform: &Transform, payload: u64) -> Result<u64> {
    let block = block_of(transform);
    thalweg_transform::check(&transform.uid, &block, payload)?;
    block.bytes()
}

/// Whether decoding the block needs memory in proportion to its stored bytes, for callers that only inspect it.
pub(crate) fn worthwhile(transform: &Transform, payload: u64) -> Result<bool> {
    const MUCH: u64 = 64 << 20;
    let bytes = size(transform, payload)?;
    Ok(bytes <= MUCH || bytes / 1024 <= payload)
}

/// The values of a block, in the file's byte order. `transform`: see [`before`].
///
/// # Errors
/// `Corrupt` where the bytes don't give the block, `Unsupported` for a transform that isn't known, `NoMemory`.
pub(crate) fn values(transform: &Transform, order: ByteOrder, payload: &[u8]) -> Result<Vec<u8>> {
    let mut out = zeros(size(transform, payload.len() as u64)?)?;
    thalweg_transform::decode(&transform.uid, &transform.metadata, &block_of(transform), order, payload, &mut out)?;
    Ok(out)
}

fn zeros(bytes: u64) -> Result<Vec<u8>> {
    let refuse = || Error::new(ErrorKind::NoMemory, format!("no memory for a block of {bytes} bytes"));
    let n = usize::try_from(bytes).map_err(|_| refuse())?;
    // Reserved first, so that too large a request is an error; then allocated as zeros, which cost nothing until they are
    // touched.
    Vec::<u8>::new().try_reserve_exact(n).map_err(|_| refuse())?;
    Ok(vec![0; n])
}
