//! Storage targets: their number, and the creation of files on one of them.

use crate::method::{OpenRequest, folder_of};
use thalweg_comm::guarded::caught;
use thalweg_layout::OpenWrite;
use thalweg_types::Result;

/// Stripe size that is passed to the filesystem; without effect, because each file is on one target only.
const STRIPE: u64 = 1 << 20;

/// Assumed number of storage targets if the filesystem does not report it.
const USUAL: u32 = 4;

/// The number of storage targets, as reported to this rank.
pub fn seen(request: &OpenRequest<'_>) -> u32 {
    // A filesystem that cannot report its storage targets may still accept writes.
    let targets = caught("count storage targets", || request.layout.targets(folder_of(request.path)));
    targets.ok().flatten().unwrap_or(USUAL).max(1)
}

/// Collective: the number of storage targets, as reported to rank 0.
///
/// # Errors
/// `PeerLost` or `Timeout` of the broadcast.
pub fn count(request: &OpenRequest<'_>) -> Result<u32> {
    let mut bytes = Vec::new();
    if request.comm.rank() == 0 {
        bytes.extend(seen(request).to_le_bytes());
    }
    request.comm.broadcast(0, &mut bytes)?;
    Ok(bytes.try_into().map_or(USUAL, u32::from_le_bytes))
}

/// Creates a file on a storage target, if the filesystem supports it. Returns the mode in which the file must then be opened.
pub fn place(request: &OpenRequest<'_>, target: u32, path: &str) -> OpenWrite {
    match request.layout.make_on_target(path, target, STRIPE) {
        Ok(true) => OpenWrite::Existing,
        Ok(false) => OpenWrite::Replace,
        Err(e) => {
            tracing::warn!("cannot place the file on the chosen storage target, the filesystem selects a target: {e}");
            OpenWrite::Replace
        }
    }
}
