//! Files that ranks have open, with threads as ranks: views, pointers, the order of collective calls, outcomes of all ranks.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use thalweg_comm::counting::Counting;
use thalweg_comm::{Communicator, threads};
use thalweg_layout::{
    Attributes, Change, Container, Direct, Layout, OpenWrite, ReadObject, Stat, Stripes, WriteObject, WriterId,
};
use thalweg_mpiio::{At, Caller, Class, Failure, File, Given, Memory, MemoryMut, Mode, Outcome, Whence};
use thalweg_profile::document::path_of;
use thalweg_profile::waits::summary;
use thalweg_profile::{Document, Phase, calls};
use thalweg_store::Posix;
use thalweg_store::wrap::{Failing, Fault, StoreCall};
use thalweg_types::Result;
use thalweg_types::mutex::Mutex;
use thalweg_view::{Datatype, Pattern};

const RANKS: u32 = 4;
const READ_WRITE: u32 = 4;
const CREATE: u32 = 8;
const DELETE_ON_CLOSE: u32 = 32;

fn layouts(folder: &std::path::Path) -> Vec<Arc<dyn Layout>> {
    let store = |name: &str| {
        let below = folder.join(name);
        std::fs::create_dir_all(&below).unwrap();
        Arc::new(Posix::at(below).unwrap())
    };
    let container = Container::new(vec![store("container")], Default::default()).unwrap();
    vec![Arc::new(Direct::new(store("direct")).unwrap()), Arc::new(container)]
}

/// Each rank opens a new file of both layouts and does this with it.
fn on_ranks(work: impl Fn(&dyn Communicator, &File) + Sync) {
    let folder = tempfile::tempdir().unwrap();
    for kind in 0..layouts(folder.path()).len() {
        threads::run(RANKS, |comm| {
            // Ranks are processes elsewhere, which share nothing of a layout's state.
            let layout = layouts(folder.path()).remove(kind);
            let mode = Mode::of_bits(READ_WRITE | CREATE).unwrap();
            let at = Ok((layout.clone(), "file".into()));
            let file = File::open(comm.duplicate().unwrap(), at, mode, WriterId(comm.rank()), Given::default(), false)
                .unwrap();
            work(&comm, &file);
            file.close().unwrap();
        });
    }
}

fn pattern(of: Datatype) -> Outcome<Pattern> {
    Ok(of.pattern()?)
}

fn bytes(count: u64) -> Datatype {
    Datatype::Contiguous { count, of: Box::new(Datatype::Elementary(1)) }
}

fn write(file: &File, at: At, collective: bool, data: &[u8]) {
    let caller = if collective { Caller::AllRanksWaiting } else { Caller::OneRank };
    assert_eq!(file.write(at, caller, Ok(Memory::Run(data))).unwrap(), data.len() as u64);
}

fn all(file: &File) -> Vec<u8> {
    let mut out = vec![0xee; 4096];
    file.set_view(Some(0), pattern(bytes(1)), pattern(bytes(1)), &Given::default()).unwrap();
    let got = file.read(At::Offset(0), Caller::OneRank, Ok(MemoryMut::Run(&mut out))).unwrap();
    out.truncate(got as usize);
    out
}

#[test]
fn each_rank_writes_the_columns_of_its_view() {
    on_ranks(|comm, file| {
        let rank = comm.rank();
        let column = Datatype::Vector { count: 3, block: 2, stride: 8, of: Box::new(Datatype::Elementary(1)) };
        file.set_view(Some(2 * u64::from(rank)), pattern(bytes(1)), pattern(column), &Given::default()).unwrap();
        write(file, At::Individual, true, &[rank as u8; 4]);
        write(file, At::Individual, true, &[rank as u8 + 100; 2]);
        assert_eq!(file.position().unwrap(), 6);
        file.sync().unwrap();
        let row: Vec<u8> = (0..8).map(|i| i / 2).collect();
        let last: Vec<u8> = row.iter().map(|r| r + 100).collect();
        assert_eq!(all(file), [&row[..], &row, &last].concat());
    });
}

#[test]
fn memory_with_holes_is_gathered_and_scattered_in_parts() {
    on_ranks(|comm, file| {
        let rank = comm.rank();
        let every_third = pattern(Datatype::Resized { lower: 0, extent: 3, of: Box::new(bytes(2)) }).unwrap();
        // More than one buffer.
        let count = 3_000_000;
        let memory: Vec<u8> = (0..3 * count as usize).map(|i| (i / 3 + i % 3 * 7 + rank as usize) as u8).collect();
        let given = Memory::Pattern { pattern: &every_third, count, memory: &memory, origin: 0 };
        let at = At::Offset(u64::from(rank) * 2 * count);
        assert_eq!(file.write(at, Caller::OneRank, Ok(given)).unwrap(), 2 * count);
        let mut back = vec![0xee; memory.len()];
        let into = MemoryMut::Pattern { pattern: &every_third, count, memory: &mut back, origin: 0 };
        assert_eq!(file.read(at, Caller::OneRank, Ok(into)).unwrap(), 2 * count);
        for (i, (got, wrote)) in back.iter().zip(&memory).enumerate() {
            assert_eq!(*got, if i % 3 == 2 { 0xee } else { *wrote }, "byte {i}");
        }
    });
}

#[test]
fn the_later_collective_call_stays_without_a_sync() {
    on_ranks(|comm, file| {
        let rank = comm.rank();
        for round in 0..8u8 {
            let place = (rank + u32::from(round)) % RANKS;
            // Writes of a rank alone, more of one rank than of another, do not move the order of the collective ones.
            for _ in 0..rank {
                write(file, At::Offset(64 + u64::from(rank)), false, &[1]);
            }
            write(file, At::Offset(u64::from(place)), true, &[round]);
            // As ranks that know from elsewhere that all have written.
            comm.barrier().unwrap();
        }
        file.sync().unwrap();
        assert_eq!(all(file)[..RANKS as usize], [7; RANKS as usize]);
    });
}

#[test]
fn what_one_rank_writes_after_a_collective_call_stays() {
    on_ranks(|comm, file| {
        let rank = comm.rank();
        for round in 0..4u8 {
            // As HDF5, whose ranks write fill values together before a rank writes values alone.
            write(file, At::Offset(u64::from(rank) * 10), true, &[round; 10]);
            comm.barrier().unwrap();
            let other = (rank + 1 + u32::from(round) % (RANKS - 1)) % RANKS;
            write(file, At::Offset(u64::from(other) * 10), false, &[100 + round; 10]);
            comm.barrier().unwrap();
        }
        file.sync().unwrap();
        assert_eq!(all(file), [103; 10 * RANKS as usize]);
    });
}

#[test]
fn ordered_writes_follow_the_ranks_and_a_failing_rank_fails_all() {
    on_ranks(|comm, file| {
        let rank = comm.rank();
        let own = vec![rank as u8; rank as usize];
        write(file, At::Ordered, true, &own);
        let memory = if rank == 1 { Err(Failure::new(Class::Type, "no datatype")) } else { Ok(Memory::Run(&own)) };
        let failure = file.write(At::Ordered, Caller::AllRanksWaiting, memory).unwrap_err();
        assert_eq!(failure.class == Class::Type, rank == 1);
        write(file, At::Ordered, true, &own);
        file.sync().unwrap();
        assert_eq!(file.shared_position().unwrap(), 12);
        assert_eq!(all(file), [1, 2, 2, 3, 3, 3, 1, 2, 2, 3, 3, 3]);
        file.seek_shared(-3, Whence::End).unwrap();
        assert_eq!(file.shared_position().unwrap(), 9);
    });
}

#[test]
fn atomic_accesses_are_whole_and_seen_at_once() {
    on_ranks(|comm, file| {
        let rank = comm.rank();
        file.set_atomicity(true).unwrap();
        for _ in 0..20 {
            write(file, At::Offset(0), false, &[rank as u8 + 1; 100]);
            let mut got = [0; 100];
            assert_eq!(file.read(At::Offset(0), Caller::OneRank, Ok(MemoryMut::Run(&mut got))).unwrap(), 100);
            assert!(got[0] > 0 && got.iter().all(|byte| *byte == got[0]), "{got:?}");
        }
        file.set_atomicity(false).unwrap();
    });
}

#[test]
fn one_rank_s_failure_to_open_is_that_of_all() {
    let folder = tempfile::tempdir().unwrap();
    for layout in layouts(folder.path()) {
        threads::run(RANKS, |comm| {
            let rank = comm.rank();
            let mode = Mode::of_bits(READ_WRITE | CREATE | DELETE_ON_CLOSE).unwrap();
            let other = Mode::of_bits(READ_WRITE | CREATE).unwrap();
            let open =
                |at, mode| File::open(comm.duplicate().unwrap(), at, mode, WriterId(rank), Given::default(), false);
            let named = || Ok((layout.clone(), "file".to_owned()));
            let failed = match rank {
                2 => open(Err(Failure::new(Class::NoSpace, "full")), mode),
                _ => open(named(), mode),
            };
            assert_eq!(failed.err().unwrap().class == Class::NoSpace, rank == 2);
            let differ = open(named(), if rank == 3 { other } else { mode });
            assert_eq!(differ.err().unwrap().class, Class::NotSame);
            let file = open(named(), mode).unwrap();
            let same = file.set_size(if rank == 0 { 8 } else { 16 });
            assert_eq!(same.unwrap_err().class, Class::NotSame);
            file.close().unwrap();
            comm.barrier().unwrap();
            assert!(layout.stat("file").is_err(), "removed at its close");
        });
    }
}

#[test]
fn hints_begin_and_end_the_exchange_of_collective_writes() {
    let folder = tempfile::tempdir().unwrap();
    for (layout, exchanges) in layouts(folder.path()).into_iter().zip([true, false]) {
        threads::run(RANKS, |comm| {
            let rank = comm.rank();
            let mode = Mode::of_bits(READ_WRITE | CREATE).unwrap();
            let counting = Counting::new(comm.duplicate().unwrap());
            let counts = counting.counts();
            let always = Given::of([("romio_cb_write", "enable"), ("cb_buffer_size", "4096"), ("cb_nodes", "2")]);
            // One rank's hint is one of all.
            let own = if rank == 1 { always } else { Given::default() };
            let at = Ok((layout.clone(), "file".into()));
            let file = File::open(Box::new(counting), at, mode, WriterId(rank), own, false).unwrap();
            let data = vec![rank as u8; 10_000];
            let exchanged = || {
                let before = counts.snapshot();
                write(&file, At::Offset(u64::from(rank) * 10_000), true, &data);
                counts.snapshot().since(&before).all_to_alls
            };
            // Two ranks write 16,384 and 23,616 bytes, 4096 at a time.
            assert_eq!(exchanged(), if exchanges { 6 } else { 0 });
            file.set_hints(&Given::of([("cb_buffer_size", "1048576")])).unwrap();
            assert_eq!(exchanged(), u64::from(exchanges));
            file.set_hints(&Given::of([("collective_buffering", "true")])).unwrap();
            assert_eq!(exchanged(), 0, "side by side it does not pay");
            file.set_view(Some(0), pattern(bytes(1)), pattern(bytes(1)), &always).unwrap();
            assert_eq!(exchanged(), if exchanges { 6 } else { 0 });
            file.set_hints(&Given::of([("romio_cb_write", "disable")])).unwrap();
            assert_eq!(exchanged(), 0);
            let in_use = file.hints_in_use();
            assert!(in_use.contains(&("romio_cb_write", "disable".into())), "{in_use:?}");
            file.sync().unwrap();
            let mut back = vec![0xee; 40_001];
            let got = file.read(At::Offset(0), Caller::OneRank, Ok(MemoryMut::Run(&mut back))).unwrap();
            assert_eq!(got, 40_000);
            assert!((0..40_000).all(|i| back[i] == (i / 10_000) as u8));
            file.close().unwrap();
        });
    }
}

/// Boxes of a cube of 48 x 48 x 48 elements of 8 bytes, for a grid of 1 x 2 x 2 ranks.
fn block(rank: u32) -> Datatype {
    let at = |d: u32| u64::from(if d == 0 { rank / 2 } else { rank % 2 }) * 24;
    Datatype::Subarray {
        sizes: vec![48; 3],
        subsizes: vec![48, 24, 24],
        starts: vec![0, at(0), at(1)],
        order: thalweg_view::Order::C,
        of: Box::new(bytes(8)),
    }
}

/// Byte `v` of what a rank writes.
fn value(rank: u32, v: usize) -> u8 {
    (v * 7 + v / 256 + rank as usize * 50) as u8
}

#[test]
fn collective_reads_exchange_bytes_up_to_the_end_of_the_file() {
    const SIZE: usize = 48 * 24 * 24 * 8;
    let folder = tempfile::tempdir().unwrap();
    for (layout, exchanges) in layouts(folder.path()).into_iter().zip([true, false]) {
        threads::run(RANKS, |comm| {
            let rank = comm.rank();
            let mode = Mode::of_bits(READ_WRITE | CREATE).unwrap();
            let counting = Counting::new(comm.duplicate().unwrap());
            let counts = counting.counts();
            let at = Ok((layout.clone(), "reads".into()));
            let hints = Given::of([("cb_buffer_size", "100000"), ("romio_cb_read", "enable")]);
            let file = File::open(Box::new(counting), at, mode, WriterId(rank), hints, false).unwrap();
            file.set_view(Some(16), pattern(bytes(8)), pattern(block(rank)), &Given::default()).unwrap();
            let data: Vec<u8> = (0..SIZE).map(|v| value(rank, v)).collect();
            write(&file, At::Individual, true, &data);
            file.sync().unwrap();
            let read = |at: At, bytes: usize| {
                let before = counts.snapshot();
                let mut back = vec![0xee; bytes];
                let got = file.read(at, Caller::AllRanksWaiting, Ok(MemoryMut::Run(&mut back))).unwrap() as usize;
                assert!(back[got..].iter().all(|byte| *byte == 0xee), "nothing behind what was there");
                back.truncate(got);
                (back, counts.snapshot().since(&before).all_to_alls)
            };
            let (back, rounds) = read(At::Offset(0), SIZE);
            assert!(back == data);
            assert_eq!(rounds > 0, exchanges, "{rounds}");
            // Other parts on each rank, one of them without bytes.
            let from = 8 * (100 + 1000 * rank as usize);
            let few = if rank == 2 { 0 } else { 8 * (1 + 2000 * rank as usize) };
            assert!(read(At::Offset(from as u64 / 8), few).0 == data[from..from + few]);
            // Memory with holes.
            let holes = pattern(Datatype::Resized { lower: 0, extent: 16, of: Box::new(bytes(8)) }).unwrap();
            let mut back = vec![0xee; 16 * 1000];
            let into = MemoryMut::Pattern { pattern: &holes, count: 1000, memory: &mut back, origin: 0 };
            assert_eq!(file.read(At::Offset(10), Caller::AllRanksWaiting, Ok(into)).unwrap(), 8000);
            for (i, byte) in back.iter().enumerate() {
                let wanted = if i % 16 < 8 { data[80 + i / 16 * 8 + i % 8] } else { 0xee };
                assert_eq!(*byte, wanted, "byte {i}");
            }
            // A file that ends in the middle of a row of rank 3, and of the last plane of all.
            let end = 16 + (47 * 48 * 48 + 30 * 48 + 30) * 8;
            file.set_size(end).unwrap();
            let (back, _) = read(At::Offset(0), SIZE);
            let there =
                [47 * 576 + 576, 47 * 576 + 576, 47 * 576 + 6 * 24 + 24, 47 * 576 + 6 * 24 + 6][rank as usize] * 8;
            assert_eq!((back.len(), rank), (there, rank));
            assert!(back == data[..there]);
            // The pointer is behind what was read.
            file.seek(0, Whence::Set).unwrap();
            assert_eq!(read(At::Individual, SIZE).0.len(), there);
            assert_eq!(file.position().unwrap(), there as u64 / 8);
            // Never, if a hint says so; and a rank's own bytes are seen without a sync.
            file.set_hints(&Given::of([("romio_cb_read", "disable")])).unwrap();
            assert_eq!(read(At::Offset(0), 800).1, 0);
            file.set_hints(&Given::of([("romio_cb_read", "enable")])).unwrap();
            write(&file, At::Offset(3), false, &[9; 16]);
            let (back, rounds) = read(At::Offset(3), 800);
            assert_eq!((&back[..16], &back[16..], rounds > 0), (&[9; 16][..], &data[40..824], exchanges));
            assert_eq!(read(At::Offset(3), 16).1, 0, "no rank has bytes between those of another one");
            file.close().unwrap();
        });
    }
}

#[test]
fn one_rank_s_mistake_in_a_collective_read_is_one_of_all_and_the_file_can_be_used_further() {
    let folder = tempfile::tempdir().unwrap();
    for layout in layouts(folder.path()) {
        threads::run(RANKS, |comm| {
            let rank = comm.rank();
            let mode = Mode::of_bits(READ_WRITE | CREATE).unwrap();
            let at = Ok((layout.clone(), "mistake".into()));
            let given = Given::of([("romio_cb_read", "enable")]);
            let file = File::open(comm.duplicate().unwrap(), at, mode, WriterId(rank), given, false).unwrap();
            file.set_view(Some(0), pattern(bytes(8)), pattern(block(rank)), &given).unwrap();
            write(&file, At::Offset(0), true, &[rank as u8; 8000]);
            file.sync().unwrap();
            let mut back = vec![0; 8000];
            let exchanged = file.hints_in_use().contains(&("romio_cb_read", "enable".into()));
            let memory = match rank {
                1 => Err(Failure::new(Class::Type, "no datatype")),
                _ => Ok(MemoryMut::Run(&mut back)),
            };
            let read = file.read(At::Offset(0), Caller::AllRanksWaiting, memory);
            assert_eq!(read.is_err(), exchanged || rank == 1);
            assert_eq!(read.is_err_and(|failure| failure.class == Class::Type), rank == 1);
            let read = file.read(At::Offset(0), Caller::AllRanksWaiting, Ok(MemoryMut::Run(&mut back)));
            assert_eq!((read.unwrap(), &back[..]), (8000, &[rank as u8; 8000][..]));
            file.close().unwrap();
        });
    }
}

#[test]
fn a_read_that_fails_on_one_rank_of_an_exchange_fails_on_all_with_its_kind_and_the_next_one_is_whole() {
    let folder = tempfile::tempdir().unwrap();
    for k in 0.. {
        let reached = Mutex::new(false);
        threads::run(RANKS, |comm| {
            let rank = comm.rank();
            let failing = Arc::new(Failing::new(Arc::new(Posix::at(folder.path()).unwrap())));
            let inner = Arc::new(Direct::new(failing.clone()).unwrap());
            let layout: Arc<dyn Layout> = Arc::new(Striped { inner, made: Mutex::default() });
            let mode = Mode::of_bits(READ_WRITE | CREATE).unwrap();
            let given = Given::of([("romio_cb_read", "enable"), ("cb_nodes", "4"), ("cb_buffer_size", "100000")]);
            let at = Ok((layout, format!("eio.{k}")));
            let file = File::open(comm.duplicate().unwrap(), at, mode, WriterId(rank), given, false).unwrap();
            file.set_view(Some(0), pattern(bytes(8)), pattern(block(rank)), &given).unwrap();
            let data = vec![rank as u8 + 1; 48 * 24 * 24 * 8];
            write(&file, At::Offset(0), true, &data);
            file.sync().unwrap();
            if rank == 2 {
                failing.fail(Fault::of(StoreCall::Read).skipping(k).times(1));
            }
            let mut back = vec![0; data.len()];
            let read = file.read(At::Offset(0), Caller::AllRanksWaiting, Ok(MemoryMut::Run(&mut back)));
            if rank == 2 {
                *reached.lock() = read.is_err();
            }
            comm.barrier().unwrap();
            // The others name the rank.
            let failed = *reached.lock();
            assert_eq!(
                read.as_ref().err().map(|e| (e.class, e.to_string().contains("rank 2"))),
                failed.then_some((Class::Io, true))
            );
            // The fault is met once.
            if failed {
                let read = file.read(At::Offset(0), Caller::AllRanksWaiting, Ok(MemoryMut::Run(&mut back)));
                assert_eq!((read.unwrap(), back == data), (data.len() as u64, true));
            }
            file.close().unwrap();
        });
        if !reached.into_inner() {
            assert!(k > 1, "rank 2 reads in several windows");
            break;
        }
    }
}

#[test]
fn permissions_of_a_new_file_are_a_hint() {
    let folder = tempfile::tempdir().unwrap();
    for layout in layouts(folder.path()) {
        threads::run(RANKS, |comm| {
            let mode = Mode::of_bits(READ_WRITE | CREATE).unwrap();
            let hints = Given::of([("file_perm", "600")]);
            let at = Ok((layout.clone(), "file".into()));
            let file = File::open(comm.duplicate().unwrap(), at, mode, WriterId(comm.rank()), hints, false);
            file.unwrap().close().unwrap();
            assert_eq!(layout.attributes("file").unwrap().mode & 0o777, 0o600);
        });
    }
}

/// A layout with three targets that prefers runs, which counts files that it makes as asked.
struct Striped {
    inner: Arc<dyn Layout>,
    made: Mutex<HashMap<String, Stripes>>,
}

impl Layout for Striped {
    fn describe(&self) -> String {
        self.inner.describe()
    }

    fn open_write(&self, path: &str, how: OpenWrite, writer: WriterId) -> Result<Box<dyn WriteObject>> {
        self.inner.open_write(path, how, writer)
    }

    fn open_read(&self, path: &str) -> Result<Box<dyn ReadObject>> {
        self.inner.open_read(path)
    }

    fn stat(&self, path: &str) -> Result<Stat> {
        self.inner.stat(path)
    }

    fn list(&self, folder: &str) -> Result<Vec<String>> {
        self.inner.list(folder)
    }

    fn rename(&self, from: &str, to: &str) -> Result<()> {
        self.inner.rename(from, to)
    }

    fn remove(&self, path: &str) -> Result<()> {
        self.inner.remove(path)
    }

    fn make_folder(&self, path: &str) -> Result<()> {
        self.inner.make_folder(path)
    }

    fn sync_folder(&self, folder: &str) -> Result<()> {
        self.inner.sync_folder(folder)
    }

    fn attributes(&self, path: &str) -> Result<Attributes> {
        self.inner.attributes(path)
    }

    fn set_attributes(&self, path: &str, change: &Change) -> Result<()> {
        self.inner.set_attributes(path, change)
    }

    fn make_striped(&self, path: &str, asked: Stripes) -> Result<bool> {
        self.inner.open_write(path, OpenWrite::New, WriterId(0))?.close()?;
        let stripes = Stripes { targets: asked.targets.min(3), bytes: asked.bytes.max(4096) };
        assert!(self.made.lock().insert(path.into(), stripes).is_none(), "made twice");
        Ok(true)
    }

    fn prefers_runs(&self, _path: &str) -> bool {
        true
    }

    fn stripes(&self, path: &str) -> Result<Option<Stripes>> {
        Ok(Some(self.made.lock().get(path).copied().unwrap_or(Stripes { targets: 3, bytes: 4096 })))
    }
}

#[test]
fn stripes_of_a_new_file_are_hints_and_those_in_force_are_returned() {
    let folder = tempfile::tempdir().unwrap();
    let layout = Striped { inner: layouts(folder.path()).remove(0), made: Mutex::default() };
    let layout: Arc<dyn Layout> = Arc::new(layout);
    const EXCLUSIVE: u32 = 16;
    threads::run(RANKS, |comm| {
        let opened = |name: &str, bits: u32, hints: &[(&str, &str)]| -> Outcome<[String; 2]> {
            let at = Ok((layout.clone(), name.to_string()));
            let given = Given::of(hints.iter().copied());
            let mode = Mode::of_bits(bits).unwrap();
            let file = File::open(comm.duplicate().unwrap(), at, mode, WriterId(comm.rank()), given, false)?;
            let in_use = file.hints_in_use();
            file.close()?;
            comm.barrier().unwrap();
            Ok(["striping_factor", "striping_unit"].map(|key| {
                let values: Vec<_> =
                    in_use.iter().filter(|(known, _)| *known == key).map(|(_, value)| value.clone()).collect();
                values.join(" and ")
            }))
        };
        let two = [("striping_factor", "2"), ("striping_unit", "65536"), ("file_perm", "600")];
        assert_eq!(opened("two", READ_WRITE | CREATE, &two).unwrap(), ["2", "65536"]);
        assert_eq!(layout.attributes("two").unwrap().mode & 0o777, 0o600);
        // Of a file that is there, nothing is asked.
        assert_eq!(opened("two", READ_WRITE | CREATE, &[("striping_factor", "1")]).unwrap(), ["2", "65536"]);
        assert_eq!(opened("two", READ_WRITE, &[("striping_factor", "1")]).unwrap(), ["2", "65536"]);
        assert_eq!(
            opened("most", READ_WRITE | CREATE | EXCLUSIVE, &[("striping_factor", "99")]).unwrap(),
            ["3", "4096"]
        );
        let there = opened("most", READ_WRITE | CREATE | EXCLUSIVE, &two).unwrap_err();
        assert_eq!(there.class, Class::Exists, "{there}");
        assert_eq!(opened("usual", READ_WRITE | CREATE, &[("cb_nodes", "2")]).unwrap(), ["3", "4096"]);
        assert!(opened("none", READ_WRITE, &two).is_err(), "an open that creates nothing");
    });
}

/// A profile beside the file.
fn document(layout: &Arc<dyn Layout>, number: u64) -> Document {
    let object = layout.open_read(&path_of("file", number)).unwrap();
    let mut text = vec![0; object.length().unwrap() as usize];
    object.read_at(0, &mut text).unwrap();
    Document::from_json(&text).unwrap()
}

#[test]
fn a_profile_names_the_rank_that_came_last_and_counts_calls() {
    let folder = tempfile::tempdir().unwrap();
    for layout in layouts(folder.path()) {
        for number in [0, 1, 0] {
            let in_sync = AtomicU32::new(0);
            threads::run(RANKS, |comm| {
                let rank = comm.rank();
                // The third open finds no file.
                let mode = if number == 0 { READ_WRITE | CREATE } else { READ_WRITE };
                let at = Ok((layout.clone(), "file".into()));
                let mode = Mode::of_bits(mode).unwrap();
                // Rank 2 asks for all.
                let file = File::open(comm.duplicate().unwrap(), at, mode, WriterId(rank), Given::default(), rank == 2);
                let file = file.unwrap();
                let profile = file.profile().unwrap();
                for name in ["write_at_all_c", "sync"] {
                    // Rank 1 comes 100 ms after all others, however busy the machine is.
                    while rank == 1 && name == "sync" && in_sync.load(Ordering::SeqCst) < RANKS - 1 {
                        std::thread::yield_now();
                    }
                    if rank == 1 && name == "sync" {
                        std::thread::sleep(std::time::Duration::from_millis(100));
                    }
                    let begin = profile.begins();
                    if name == "sync" {
                        in_sync.fetch_add(1, Ordering::SeqCst);
                    }
                    match name {
                        "sync" => file.sync().unwrap(),
                        _ => write(&file, At::Offset(u64::from(rank) * 100), true, &[1; 100]),
                    }
                    profile.ends(begin, name, if name == "sync" { 0 } else { 100 });
                }
                file.close().unwrap();
                comm.barrier().unwrap();
            });
            let document = document(&layout, number);
            assert_eq!((document.ranks, document.bytes, document.by_rank.len()), (RANKS, 400, 4));
            assert_eq!((document.step, document.methods[0].as_str()), (number, "MPI-IO"));
            let made = calls::collective(&document);
            let names: Vec<&str> = made.iter().map(|call| call.name.as_str()).collect();
            assert_eq!(names, ["open", "write_at_all", "sync", "close"]);
            assert_eq!(made[1].waited, 0, "nobody waits for another rank's write");
            let sync = &made[2];
            assert_eq!(sync.last, 1);
            // How long a rank is inside of the barrier, of the time that it is inside of the call, is the scheduler's choice.
            assert!(sync.apart >= 100_000_000 && (1..=3 * sync.apart).contains(&sync.waited), "{sync:?}");
            let rows = calls::rows(std::slice::from_ref(&document));
            let row = rows.iter().find(|row| row.name == "write_at_all").unwrap();
            assert_eq!((row.calls, row.bytes), (4, 400));
            let summary = summary(&[document]);
            let write = summary.phases.iter().find(|row| row.phase == Phase::Write).unwrap();
            assert_eq!(write.bytes, 400);
            // Rank 1 may be interrupted between its call and the barrier, and is then also waited for in `sync`.
            let late = summary.causes.iter().find(|cause| (cause.rank, cause.doing) == (1, None));
            assert!(late.is_some(), "its program came late: {:?}", summary.causes);
            if number == 1 {
                layout.remove("file").unwrap();
            }
        }
        assert!(layout.open_read(&path_of("file", 1)).is_err(), "profiles of the former file are gone");
    }
}
