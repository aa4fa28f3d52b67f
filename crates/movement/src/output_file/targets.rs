//! Storage targets: how many there are, and files that lie on one of them.

use crate::method::{OpenRequest, folder_of};
use thalweg_comm::guarded::caught;
use thalweg_layout::OpenWrite;
use thalweg_types::Result;

/// What a filesystem is told of stripes: with one per file it decides nothing about where bytes lie.
const STRIPE: u64 = 1 << 20;

/// Storage targets where nobody says how many there are.
const USUAL: u32 = 4;

/// The storage targets there are, as this rank sees them.
pub fn seen(request: &OpenRequest<'_>) -> u32 {
    // A filesystem that fails to say how many it has may well write.
    let targets = caught("count storage targets", || request.layout.targets(folder_of(request.path)));
    targets.ok().flatten().unwrap_or(USUAL).max(1)
}

/// Collective: the storage targets there are, as rank 0 sees them.
///
/// # Errors
/// A lost rank.
pub fn count(request: &OpenRequest<'_>) -> Result<u32> {
    let mut bytes = Vec::new();
    if request.comm.rank() == 0 {
        bytes.extend(seen(request).to_le_bytes());
    }
    request.comm.broadcast(0, &mut bytes)?;
    Ok(bytes.try_into().map_or(USUAL, u32::from_le_bytes))
}

/// Makes a new file on a storage target, where the filesystem has such. Returns how it is then opened.
pub fn place(request: &OpenRequest<'_>, target: u32, path: &str) -> OpenWrite {
    match request.layout.make_on_target(path, target, STRIPE) {
        Ok(true) => OpenWrite::Existing,
        Ok(false) => OpenWrite::Replace,
        Err(e) => {
            tracing::warn!("the file lies where the filesystem puts it: {e}");
            OpenWrite::Replace
        }
    }
}
