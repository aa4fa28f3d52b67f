//! A panic on one rank between collective calls is an error on all ranks: none waits for the one that panicked.

use std::io::IoSlice;
use std::sync::Arc;
use std::time::Duration;
use thalweg_collective_open::CollectiveFile;
use thalweg_comm::Communicator;
use thalweg_comm::threads::Machine;
use thalweg_layout::container::{Options, index::Module};
use thalweg_layout::{Container, Direct, Layout, OpenWrite, WriterId, write_all_at};
use thalweg_store::wrap::{Failing, Fault};
use thalweg_store::{Memory, Store};
use thalweg_types::Result;

const RANKS: u32 = 3;
/// Bytes of the file that one rank owns together.
const RANGE: u64 = 64 << 20;

fn container(store: &Arc<dyn Store>, module: Module) -> Container {
    let options = Options { module, buffer: 1 << 16, host: "host".into(), ..Options::default() };
    Container::new(vec![store.clone()], options).unwrap()
}

/// A file of a container, written by five writers to each rank's range; some appended.
fn of_container(module: Module) -> Arc<dyn Store> {
    let store: Arc<dyn Store> = Arc::new(Memory::new());
    for writer in 0..5u64 {
        let file = container(&store, module).open_write("file", OpenWrite::Any, WriterId(writer as u32)).unwrap();
        for range in 0..u64::from(RANKS) {
            write_all_at(&*file, range * RANGE + writer * 100, &[7; 50]).unwrap();
        }
        file.append(&[IoSlice::new(&[8; 20])]).unwrap();
        file.close().unwrap();
    }
    store
}

fn of_direct() -> Arc<dyn Store> {
    let store: Arc<dyn Store> = Arc::new(Memory::new());
    let file = Direct::new(store.clone()).unwrap().open_write("file", OpenWrite::New, WriterId(0)).unwrap();
    write_all_at(&*file, 0, &[7; 500]).unwrap();
    file.close().unwrap();
    store
}

/// What a rank does: opens the file, then looks up, then reads. The fault is added before the step of this number.
fn steps(comm: Box<dyn Communicator>, layout: &dyn Layout, mut before: impl FnMut(u32)) -> Result<()> {
    before(0);
    let file = CollectiveFile::open(comm, Ok((layout, "file")), 2)?;
    before(1);
    file.look_up_all(&[(0, 1000), (RANGE, RANGE + 1000)])?;
    before(2);
    let mut out = vec![0; 300];
    file.read_all(2 * RANGE, &mut out)?;
    file.read_all(0, &mut out).map(drop)
}

/// Every store call of one rank panics, one after the other; in each run all ranks fail, or none if the call was not reached.
fn every_call_panics_once(store: &Arc<dyn Store>, layout: impl Fn(Arc<dyn Store>) -> Box<dyn Layout> + Sync) {
    let mut panics = 0;
    for victim in 0..RANKS {
        for step in 0..3 {
            for call in 0.. {
                let failing = Arc::new(Failing::new(store.clone()));
                let outcomes = Machine::new(RANKS).timeout(Duration::from_secs(60)).run(|comm| {
                    let rank = comm.rank();
                    let own = if rank == victim { failing.clone() as Arc<dyn Store> } else { store.clone() };
                    let layout = layout(own);
                    steps(Box::new(comm), &*layout, |at| {
                        if (rank, at) == (victim, step) {
                            failing.fail(Fault::any().skipping(call).times(1).panics());
                        }
                    })
                });
                let reached = failing.failed().0 > 0;
                let wrong: Vec<_> = outcomes.iter().filter(|outcome| outcome.is_err() != reached).collect();
                assert!(wrong.is_empty(), "call {call} of step {step} panics on rank {victim}: {outcomes:?}");
                if !reached {
                    break;
                }
                panics += 1;
                for (rank, outcome) in outcomes.into_iter().enumerate() {
                    let e = outcome.unwrap_err();
                    assert!(e.what().contains("the program panicked"), "rank {rank}: {e}");
                    assert_eq!(e.reported_by().is_some(), rank as u32 != victim, "rank {rank}: {e}");
                }
            }
        }
    }
    assert!(panics > 4, "{panics} panics were tried");
}

#[test]
fn of_a_file_of_a_container() {
    for module in [Module::Flat, Module::Pattern, Module::Distributed] {
        every_call_panics_once(&of_container(module), |store| Box::new(container(&store, module)));
    }
}

#[test]
fn of_a_file_that_each_rank_opens_alone() {
    every_call_panics_once(&of_direct(), |store| Box::new(Direct::new(store).unwrap()));
}
