//! The node of each rank, and memory shared by a node's ranks; both are determined once and cached.
//!
//! | question | answer |
//! |---|---|
//! | calls | one reduction; the first time also a split by node, a reduction and a gather to all, and for shared memory a split, a window and a reduction |
//! | memory | 4 bytes per rank, and the requested shared memory |
//!
//! Cached state is used only if it is the same on all ranks: they compare its checksum.

use crate::buffer::Room;
use crate::method::OpenRequest;
use crate::nodes::memory::{NodeMemories, NodeMemory};
use crate::output_file::cache::Cache;
use crate::output_file::memory::Memory;
use std::collections::HashMap;
use std::sync::Arc;
use thalweg_comm::{Communicator, Reduce};
use thalweg_types::checksum::crc32c;
use thalweg_types::{Error, ErrorKind, Result};

pub mod memory;

/// Node of each rank, by rank and size of the communicator.
pub type Nodes = HashMap<(u32, u32), Arc<Vec<u32>>>;

impl Memory for Nodes {}

/// Given the node of each rank, the size of this rank's part of the shared memory.
pub type SharedBytes<'w> = &'w dyn Fn(&[u32]) -> u64;

/// Memory that the buffer limit leaves to an output for carrying process groups, including the cached shared memory.
pub fn room(request: &OpenRequest<'_>) -> Room {
    let key = (request.comm.rank(), request.comm.size());
    request.buffer.room(request.cache.of::<NodeMemories>().lock().get(&key).map_or(0, |memory| memory.own))
}

/// Whether `ranks`, without `rank` itself, contain ranks on its node, and ranks on other nodes.
pub fn on_and_off(nodes: &[u32], ranks: impl IntoIterator<Item = u32>, rank: u32) -> (bool, bool) {
    let node = |rank: u32| nodes.get(rank as usize);
    let others = ranks.into_iter().filter(|other| *other != rank);
    others.fold((false, false), |(on, off), other| match node(other) == node(rank) {
        true => (true, off),
        false => (on, true),
    })
}

/// Collective: the node of each rank, given by the node's lowest rank; and memory shared with the ranks of this node.
///
/// - `wanted`: size of this rank's part; `None`, on all ranks: no memory. There is no memory if no two ranks share a node.
///
/// The memory is taken from the cache; [`keep`] returns it when all ranks have closed the output. There is none over a communicator
/// through which ranks share no memory.
///
/// # Errors
/// `PeerLost`, `Timeout`. Shared memory that cannot be allocated is not an error: bytes then travel in messages.
pub fn of(request: &OpenRequest<'_>, wanted: Option<SharedBytes<'_>>) -> Result<(Arc<Vec<u32>>, Option<NodeMemory>)> {
    let (comm, cache) = (request.comm, &**request.cache);
    let key = (comm.rank(), comm.size());
    if comm.size() == 1 {
        return Ok((Arc::new(vec![0]), None));
    }
    let wanted = wanted.filter(|_| comm.shares_memory());
    let known = cache.of::<Nodes>().lock().get(&key).cloned();
    let sum = known.as_ref().map_or(0, |nodes| 1 << 32 | u64::from(sum_of(nodes)));
    // The largest size that any output requested, within the limit, so that alternating kinds of output share one allocation.
    let most = room(request);
    let fits = |memory: &NodeMemory| match (&known, wanted) {
        (Some(nodes), Some(wanted)) => (wanted(nodes)..=most.share(u64::MAX, wanted(nodes))).contains(&memory.own),
        _ => false,
    };
    let had = wanted.and_then(|_| cache.of::<NodeMemories>().lock().remove(&key));
    let id = had.as_ref().filter(|had| fits(had)).map_or(0, |had| had.id);
    // The maximum of a number and of its complement: both match on all ranks only if all numbers are equal.
    let numbers = [sum, !sum, id, !id];
    let seen = comm.all_reduce(&numbers, Reduce::Max)?;
    let nodes = match known.filter(|_| seen[..2] == numbers[..2]) {
        Some(nodes) => nodes,
        None => ask(comm, cache, key)?,
    };
    let shares = nodes.iter().enumerate().any(|(rank, node)| rank as u32 != *node);
    let Some(wanted) = wanted.filter(|_| shares) else { return Ok((nodes, None)) };
    if id > 0 && seen[2..] == numbers[2..] {
        return Ok((nodes, had));
    }
    let own = wanted(&nodes);
    let own = most.share(had.map_or(0, |had| had.own), own).max(own);
    let window = comm.split_by_node()?.shared_window(own);
    let number = if comm.rank() == 0 { request.run | 1 } else { 0 };
    let made = comm.all_reduce(&[number, u64::from(window.is_err())], Reduce::Max)?;
    if let Err(e) = &window {
        tracing::warn!(every_rank = true, "ranks of this node share no memory, so that bytes travel in messages: {e}");
    }
    let window = window.ok().filter(|_| made[1] == 0);
    let reservation = window.is_some().then(|| request.buffer.reserve(own));
    let memory = NodeMemory::new(made[0], own, window, &nodes, comm.rank(), reservation);
    Ok((nodes, Some(memory)))
}

/// Returns the memory to the cache, for the next output.
pub fn keep(cache: &Cache, comm: &dyn Communicator, memory: Option<NodeMemory>) {
    if let Some(memory) = memory {
        cache.of::<NodeMemories>().lock().insert((comm.rank(), comm.size()), memory);
    }
}

/// Collective: determines and caches the node of each rank.
fn ask(comm: &dyn Communicator, cache: &Cache, key: (u32, u32)) -> Result<Arc<Vec<u32>>> {
    let lowest = comm.split_by_node()?.all_reduce(&[u64::from(comm.rank())], Reduce::Min)?;
    let own = lowest.first().map_or(key.0, |lowest| *lowest as u32);
    let all = comm.all_gather(&own.to_le_bytes())?;
    let nodes: Option<Vec<u32>> = all.iter().map(|n| Some(u32::from_le_bytes(n.as_slice().try_into().ok()?))).collect();
    let nodes = nodes.filter(|nodes| nodes.iter().all(|node| *node < key.1));
    let nodes = Arc::new(nodes.ok_or_else(|| Error::new(ErrorKind::Corrupt, "a rank has no node number"))?);
    cache.of::<Nodes>().lock().insert(key, nodes.clone());
    Ok(nodes)
}

fn sum_of(nodes: &[u32]) -> u32 {
    crc32c(&nodes.iter().flat_map(|n| n.to_le_bytes()).collect::<Vec<u8>>())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::buffer::BufferPool;
    use crate::method::Mode;
    use thalweg_comm::counting::Counting;
    use thalweg_comm::threads::Machine;
    use thalweg_layout::Layout;

    fn asked(comm: &dyn Communicator, cache: &Arc<Cache>, own: Option<u64>) -> (Arc<Vec<u32>>, Option<NodeMemory>) {
        let store = Arc::new(thalweg_store::Memory::new());
        let layout: Arc<dyn Layout> = Arc::new(thalweg_layout::Direct::new(store).unwrap());
        let (path, group, mode, buffer) = ("x.bp", "g", Mode::Write, &Arc::new(BufferPool::new(None)));
        let request = OpenRequest { comm, layout: &layout, path, group, mode, run: 7, cache, buffer, arrays: &[] };
        let wanted = own.map(|own| move |_: &[u32]| own);
        of(&request, wanted.as_ref().map(|w| w as SharedBytes<'_>)).unwrap()
    }

    #[test]
    fn ranks_of_a_node_are_found_together_and_asked_for_once() {
        Machine::new(7).ranks_per_node(3).run(|comm| {
            let cache = Arc::new(Cache::new());
            let comm = Counting::new(Box::new(comm));
            for _ in 0..3 {
                assert_eq!(*asked(&comm, &cache, None).0, [0, 0, 0, 3, 3, 3, 6]);
            }
            let counts = comm.counts().snapshot();
            assert_eq!((counts.all_gathers, counts.splits, counts.windows), (1, 1, 0), "{counts:?}");
        });
    }

    #[test]
    fn what_only_some_ranks_remember_is_asked_for_again() {
        Machine::new(4).ranks_per_node(2).run(|comm| {
            let cache = Arc::new(Cache::new());
            if comm.rank() == 2 {
                cache.of::<Nodes>().lock().insert((2, 4), Arc::new(vec![0, 0, 0, 0]));
            }
            assert_eq!(*asked(&comm, &cache, None).0, [0, 0, 2, 2]);
        });
    }

    #[test]
    fn memory_is_made_once_and_again_where_a_rank_has_lost_it_or_wants_more() {
        Machine::new(5).ranks_per_node(2).run(|comm| {
            let cache = Arc::new(Cache::new());
            let rank = comm.rank();
            for (output, own) in [100, 60, 100, 100, 101].into_iter().enumerate() {
                let counting = Counting::new(comm.duplicate().unwrap());
                let memory = asked(&counting, &cache, Some(if rank % 2 == 0 { own } else { 0 })).1.unwrap();
                // At first, after rank 3 has lost its own, and for more.
                assert_eq!(counting.counts().snapshot().splits, [2, 0, 0, 1, 1][output], "output {output}");
                assert_eq!(memory.own, if rank % 2 == 0 { own.max(100) } else { 0 });
                assert!(
                    memory.reaches(rank) && memory.reaches(rank ^ 1) == (rank < 4) && !memory.reaches((rank + 2) % 5)
                );
                if rank == 1 || rank == 3 {
                    memory.put(rank - 1, 40, &[rank as u8; 20]).unwrap();
                    assert!(
                        memory.put(rank - 1, 90, &[0; 20]).is_err() && memory.put((rank + 2) % 4, 0, &[0]).is_err()
                    );
                    comm.send(rank - 1, 1, &[]).unwrap();
                } else if rank < 4 {
                    comm.receive(Some(rank + 1), 1).unwrap();
                    assert_eq!(memory.show(40, 20, |bytes| Ok(bytes.to_vec())).unwrap(), [rank as u8 + 1; 20]);
                }
                if output != 2 || rank != 3 {
                    keep(&cache, &comm, Some(memory));
                }
            }
        });
    }

    #[test]
    fn ranks_on_nodes_of_their_own_share_nothing() {
        Machine::new(3).ranks_per_node(1).run(|comm| {
            assert!(asked(&comm, &Arc::new(Cache::new()), Some(10)).1.is_none());
        });
    }
}
