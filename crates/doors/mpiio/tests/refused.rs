//! What a store without locks cannot promise is refused when it is asked for, on all ranks, and the file works as before.

use std::sync::Arc;
use thalweg_comm::{Communicator, threads};
use thalweg_layout::{Container, Direct, Layout, OpenWrite, SmallFile, WriterId};
use thalweg_mpiio::{At, Caller, Class, File, Given, Memory, MemoryMut, Mode};
use thalweg_store::{Memory as InMemory, Store};

const RANKS: u32 = 3;
const READ_WRITE: u32 = 4;
const CREATE: u32 = 8;

fn layouts(store: &Arc<dyn Store>) -> Vec<(&'static str, Arc<dyn Layout>)> {
    vec![
        ("direct", Arc::new(Direct::new(store.clone()).unwrap())),
        ("container", Arc::new(Container::new(vec![store.clone()], Default::default()).unwrap())),
        ("small_file", Arc::new(SmallFile::new(store.clone(), Default::default()).unwrap())),
    ]
}

fn opened(comm: &dyn Communicator, layout: &Arc<dyn Layout>) -> File {
    let mode = Mode::of_bits(READ_WRITE | CREATE).unwrap();
    let at = Ok((layout.clone(), "file".into()));
    File::open(comm.duplicate().unwrap(), at, mode, WriterId(comm.rank()), Given::default(), false).unwrap()
}

/// Each rank writes a byte, and all see it after a sync.
fn works(comm: &dyn Communicator, file: &File, value: u8) {
    let own = [value + comm.rank() as u8];
    let at = At::Offset(comm.rank().into());
    assert_eq!(file.write(at, Caller::AllRanksWaiting, Ok(Memory::Run(&own))).unwrap(), 1);
    file.sync().unwrap();
    let mut all = [0; RANKS as usize + 1];
    let got = file.read(At::Offset(0), Caller::OneRank, Ok(MemoryMut::Run(&mut all))).unwrap();
    assert_eq!((got, &all[..3]), (3, &[value, value + 1, value + 2][..]));
}

#[test]
fn atomic_mode_is_refused_on_a_store_without_locks_and_the_mode_stays() {
    for kind in 0..3 {
        let store: Arc<dyn Store> = Arc::new(InMemory::new());
        threads::run(RANKS, |comm| {
            let (name, layout) = layouts(&store).remove(kind);
            let file = opened(&comm, &layout);
            works(&comm, &file, 10);
            let failure = file.set_atomicity(true).unwrap_err();
            assert_eq!(failure.class, Class::Unsupported, "{name}: {failure}");
            assert!(!file.is_atomic(), "{name}");
            works(&comm, &file, 20);
            file.set_atomicity(false).unwrap();
            file.close().unwrap();
        });
    }
}

#[test]
fn atomic_mode_is_refused_on_all_ranks_where_one_rank_has_no_locks() {
    let folder = tempfile::tempdir().unwrap();
    let memory: Arc<dyn Store> = Arc::new(InMemory::new());
    threads::run(RANKS, |comm| {
        // The last rank's mount table names another store, which has a file of that name.
        let posix: Arc<dyn Store> = Arc::new(thalweg_store::Posix::at(folder.path()).unwrap());
        let last = comm.rank() == RANKS - 1;
        let layout: Arc<dyn Layout> = Arc::new(Direct::new(if last { memory.clone() } else { posix }).unwrap());
        if last {
            layout.open_write("file", OpenWrite::New, WriterId(0)).unwrap().close().unwrap();
        }
        comm.barrier().unwrap();
        let file = opened(&comm, &layout);
        assert_eq!(file.set_atomicity(true).unwrap_err().class, Class::Unsupported);
        assert!(!file.is_atomic());
        file.close().unwrap();
    });
}
