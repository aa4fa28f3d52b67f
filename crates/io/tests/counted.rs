//! An output costs each rank one open, one write per contiguous piece, at most one receive, and no broadcast.
//!
//! Run with `--nocapture` to see the table that `docs/guide/counted.md` shows.

mod common;

use common::*;
use std::sync::Arc;
use thalweg_comm::Communicator;
use thalweg_comm::counting::{Counting as CountingComm, Snapshot};
use thalweg_comm::threads;
use thalweg_comm::tree;
use thalweg_io::Mode;
use thalweg_movement::plan::turns;
use thalweg_store::memory::Memory;
use thalweg_store::wrap::Counting;
use thalweg_store::wrap::counting::Counts;

struct Cost {
    comm: Snapshot,
    store: Counts,
}

/// What each rank did for the third output of three; `buffer` is the limit in bytes.
fn third_output(method: &str, ranks: u32, buffer: Option<u64>) -> Vec<Cost> {
    let memory: Arc<dyn thalweg_store::Store> = Arc::new(Memory::new());
    threads::run(ranks, |own| {
        // Each rank counts its own calls, on the same files.
        let store = Arc::new(Counting::new(memory.clone()));
        let place = Place::over(store.clone());
        let comm = CountingComm::new(Box::new(own));
        let session = place.session(&heat(method, ""), &comm);
        session.set_buffer_limit(buffer);
        for step in 0..2 {
            let mode = if step == 0 { Mode::Write } else { Mode::Append };
            write_heat(&session, "heat.bp", mode, &comm, step);
        }
        store.take();
        let before = comm.counts().snapshot();
        write_heat(&session, "heat.bp", Mode::Append, &comm, 2);
        let cost = Cost { comm: comm.counts().snapshot().since(&before), store: store.take().total() };
        comm.barrier().unwrap();
        session.finalize().unwrap();
        cost
    })
}

#[test]
fn one_open_one_write_one_receive_and_no_broadcast_per_rank_and_output() {
    println!("| ranks | method | rank | opens | writes | sends | receives | broadcasts | scans | reductions |");
    println!("|---|---|---|---|---|---|---|---|---|---|");
    for ranks in [1, 4, 64, 257] {
        for method in ["POSIX", "MPI"] {
            let costs = third_output(method, ranks, None);
            for (rank, cost) in (0..).zip(&costs) {
                let Cost { comm, store } = cost;
                let first = rank == 0;
                let posix = method == "POSIX";
                let here = format!("{method}, rank {rank} of {ranks}: {comm:?} {store:?}");
                assert_eq!(store.opens_for_writing, if posix && first { 2 } else { 1 }, "{here}");
                assert_eq!(store.opens_for_reading, 0, "{here}");
                assert_eq!(store.writes, if first { 2 } else { 1 }, "{here}: its process group; rank 0 the index too");
                // The token of the opens; index entries up the tree.
                let children = tree::node(rank, ranks, tree::FAN_IN).children.len() as u64;
                assert_eq!(comm.receives, u64::from(!posix && !first) + children, "{here}");
                assert!(comm.receives <= 1 + u64::from(tree::FAN_IN), "{here}");
                let tokens = if posix { 0 } else { turns::opens_shared_before(rank, ranks).len() as u64 };
                assert_eq!(comm.sends, tokens + u64::from(!first), "{here}");
                assert_eq!(comm.broadcasts, 0, "{here}");
                assert_eq!(comm.scans, u64::from(!posix), "{here}");
                assert_eq!((comm.gathers, comm.reductions), (0, 3), "{here}");
                // `duplicate` is this test's own; nothing else is collective.
                assert_eq!(comm.collective() - comm.scans, 3 + comm.duplicates, "{here}");
                assert_eq!(comm.duplicates, 1, "{here}");
                if first || rank == 1 {
                    let who = if first { "0" } else { "any other" };
                    println!(
                        "| {ranks} | `{method}` | {who} | {} | {} | {} | {} | {} | {} | {} |",
                        store.opens_for_writing,
                        store.writes,
                        comm.sends,
                        comm.receives,
                        comm.broadcasts,
                        comm.scans,
                        comm.reductions
                    );
                }
            }
        }
    }
}

#[test]
fn without_a_buffer_each_block_is_one_write_and_nothing_more_is_said_to_others() {
    for method in ["POSIX", "MPI"] {
        let costs = third_output(method, 4, Some(0));
        for (rank, cost) in (0..).zip(&costs) {
            // Six blocks, what follows them, and the front, whose lengths are known last. With a shared file they go
            // to a spill file first, which is one more open, and are copied in one piece.
            let index = u64::from(rank == 0);
            let expected = match method {
                "POSIX" => (6 + 2 + index, 1 + index),
                _ => (6 + 1 + 1 + 1 + index, 2),
            };
            assert_eq!((cost.store.writes, cost.store.opens_for_writing), expected, "{method} rank {rank}");
            assert_eq!(cost.comm.broadcasts, 0);
            // The token of the opens; index entries of the three others.
            assert!(cost.comm.receives <= if rank == 0 { 3 } else { 1 });
        }
    }
}
