//! Which ranks share a node: asked once, then remembered.
//!
//! | question | answer |
//! |---|---|
//! | calls | one reduction; the first time a split by node, a reduction and a gather to all as well |
//! | memory | 4 bytes per rank |
//!
//! What is remembered is used only where all ranks remember the same: they compare a checksum of it.

use super::kept::Kept;
use std::collections::HashMap;
use std::sync::Arc;
use thalweg_bp::checksum::crc32c;
use thalweg_comm::{Communicator, Reduce};
use thalweg_types::{Error, ErrorKind, Result};

/// Nodes by rank and size of the communicator that was asked.
pub type Nodes = HashMap<(u32, u32), Arc<Vec<u32>>>;

/// Collective: by rank, a number for its node: the lowest rank there.
///
/// # Errors
/// A lost rank.
pub fn of(comm: &dyn Communicator, kept: &Kept) -> Result<Arc<Vec<u32>>> {
    let key = (comm.rank(), comm.size());
    if comm.size() == 1 {
        return Ok(Arc::new(vec![0]));
    }
    let known = kept.nodes().get(&key).cloned();
    let sum = known.as_ref().map_or(0, |nodes| 1 << 32 | u64::from(sum_of(nodes)));
    // The largest and, upside down, the smallest.
    let seen = comm.all_reduce(&[sum, !sum], Reduce::Max)?;
    if let Some(nodes) = known.filter(|_| seen == [sum, !sum]) {
        return Ok(nodes);
    }
    let lowest = comm.split_by_node()?.all_reduce(&[u64::from(comm.rank())], Reduce::Min)?;
    let own = lowest.first().map_or(key.0, |lowest| *lowest as u32);
    let all = comm.all_gather(&own.to_le_bytes())?;
    let nodes: Option<Vec<u32>> = all.iter().map(|n| Some(u32::from_le_bytes(n.as_slice().try_into().ok()?))).collect();
    let nodes = nodes.filter(|nodes| nodes.iter().all(|node| *node < key.1));
    let nodes = Arc::new(nodes.ok_or_else(|| Error::new(ErrorKind::Corrupt, "a rank does not know its node"))?);
    kept.nodes().insert(key, nodes.clone());
    Ok(nodes)
}

fn sum_of(nodes: &[u32]) -> u32 {
    crc32c(&nodes.iter().flat_map(|n| n.to_le_bytes()).collect::<Vec<u8>>())
}

#[cfg(test)]
mod tests {
    use super::*;
    use thalweg_comm::counting::Counting;
    use thalweg_comm::threads::Machine;

    #[test]
    fn ranks_of_a_node_are_found_together_and_asked_for_once() {
        Machine::new(7).ranks_per_node(3).run(|comm| {
            let kept = Kept::new();
            let comm = Counting::new(Box::new(comm));
            for _ in 0..3 {
                assert_eq!(*of(&comm, &kept).unwrap(), [0, 0, 0, 3, 3, 3, 6]);
            }
            let counts = comm.counts().snapshot();
            assert_eq!((counts.all_gathers, counts.splits), (1, 1), "{counts:?}");
        });
    }

    #[test]
    fn what_only_some_ranks_remember_is_asked_for_again() {
        Machine::new(4).ranks_per_node(2).run(|comm| {
            let kept = Kept::new();
            if comm.rank() == 2 {
                kept.nodes().insert((2, 4), Arc::new(vec![0, 0, 0, 0]));
            }
            assert_eq!(*of(&comm, &kept).unwrap(), [0, 0, 2, 2]);
        });
    }
}
