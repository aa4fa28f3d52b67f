//! What the engine promises when nothing goes wrong.

use crate::common::{content, direct, open, small, value};
use std::io::IoSlice;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::{Duration, Instant};
use thalweg_comm::counting::Counting as CountingComm;
use thalweg_comm::threads::Machine;
use thalweg_comm::{Communicator, threads};
use thalweg_layout::{Flat, Layout, OpenWrite, ReadObject, SmallFile, Stat, WriteObject, WriterId};
use thalweg_owners::{File, OpenFile, Options, Owners};
use thalweg_store::wrap::{Counting, Forgetful, Slow};
use thalweg_store::{Memory, Posix, Store, StoreExt};
use thalweg_types::Result;

/// With one processor used for all, as under `MPI_THREAD_SINGLE`: no thread but the program's, which calls nothing but `write`.
#[test]
fn all_ranks_write_four_times_their_memory_without_any_other_call() {
    const MEMORY: u64 = 256 << 10;
    const EACH: u64 = 4 * MEMORY;
    for ranks in [1, 2, 5] {
        let store = Arc::new(Memory::new());
        let layout = direct(store.clone());
        threads::run(ranks, |comm| {
            let mut file = open(&comm, &layout, MEMORY);
            let options =
                Options { write_stripe: 64 << 10, fraction: 16 << 10, owner_stripe: None, ..small(ranks.min(2)) };
            let window = file.start(0, EACH * u64::from(ranks), &options).unwrap();
            // Interleaved: every rank writes to every owner.
            for number in 0..EACH / 8192 {
                let start = (number * u64::from(ranks) + u64::from(comm.rank())) * 8192;
                file.write(window, start, &content(start, 8192)).unwrap();
                assert!(file.memory() <= MEMORY, "{} of {MEMORY} bytes", file.memory());
            }
            file.end(window).unwrap();
            file.wait(window).unwrap();
            file.close().unwrap();
        });
        assert!(store.read_all("out").unwrap() == content(0, EACH * u64::from(ranks)), "{ranks} ranks");
    }
}

#[test]
fn one_write_may_be_longer_than_all_memory() {
    let store = Arc::new(Memory::new());
    let layout = direct(store.clone());
    threads::run(3, |comm| {
        let mut file = open(&comm, &layout, 64 << 10);
        let window = file.start(0, 3 << 20, &Options { write_stripe: 1 << 20, fraction: 1 << 20, ..small(2) }).unwrap();
        let start = u64::from(comm.rank()) << 20;
        file.write(window, start, &content(start, 1 << 20)).unwrap();
        file.end(window).unwrap();
        file.wait(window).unwrap();
        file.close().unwrap();
    });
    assert!(store.read_all("out").unwrap() == content(0, 3 << 20));
}

#[test]
fn without_room_try_write_says_how_much_it_took() {
    let layout = direct(Arc::new(Memory::new()));
    threads::run(2, |comm| {
        let mut file = open(&comm, &layout, 64 << 10);
        // The owner is the other rank's; it makes no call before the barrier.
        let window = file.start(0, 200_000, &Options { owners: Owners::Ranks(vec![1]), ..small(1) }).unwrap();
        if comm.rank() == 0 {
            let bytes = content(0, 100_000);
            let mut done = file.try_write(window, 0, &bytes).unwrap();
            assert!(done > 10_000 && done < 64 << 10, "{done}");
            assert_eq!(file.try_write(window, done as u64, &bytes[done..]).unwrap(), 0, "again");
            comm.barrier().unwrap();
            while done < bytes.len() {
                file.progress();
                done += file.try_write(window, done as u64, &bytes[done..]).unwrap();
            }
        } else {
            comm.barrier().unwrap();
            file.write(window, 100_000, &content(100_000, 100_000)).unwrap();
        }
        file.end(window).unwrap();
        assert_eq!(file.wait(window).unwrap().bytes, 200_000);
        file.close().unwrap();
    });
}

/// Ranks that write and end their part do not wait for owners that compute, nor for a rank that has not started the window.
#[test]
fn start_write_and_end_return_at_once() {
    const COMPUTES: Duration = Duration::from_secs(3);
    let store: Arc<dyn Store> = Arc::new(Memory::new());
    let layout = direct(store.clone());
    threads::run(4, |comm| {
        let mut file = open(&comm, &layout, 4 << 20);
        comm.barrier().unwrap();
        if comm.rank() < 2 {
            std::thread::sleep(COMPUTES);
        }
        let started = Instant::now();
        let windows: Vec<_> = (0..3).map(|number| file.start(number * 4000, 4000, &small(2)).unwrap()).collect();
        for (number, window) in (0u64..).zip(&windows) {
            let start = number * 4000 + u64::from(comm.rank()) * 1000;
            file.write(*window, start, &content(start, 1000)).unwrap();
            file.end(*window).unwrap();
        }
        assert!(started.elapsed() < COMPUTES / 2, "{:?}", started.elapsed());
        for window in windows {
            file.wait(window).unwrap();
        }
        file.close().unwrap();
    });
    assert_eq!(store.read_all("out").unwrap(), content(0, 12_000));
}

#[test]
fn whole_aligned_stripes_reach_the_store_in_fractions() {
    let counting = Arc::new(Counting::new(Arc::new(Memory::new())));
    let layout = direct(counting.clone());
    let options =
        Options { owner_stripe: None, write_stripe: 64 << 10, fraction: 16 << 10, alignment: 64 << 10, ..small(3) };
    threads::run(5, |comm| {
        let mut file = open(&comm, &layout, 8 << 20);
        let window = file.start(0, 640 << 10, &options).unwrap();
        // In pieces of 100 bytes, dealt out to the ranks.
        for number in (u64::from(comm.rank())..(640u64 << 10).div_ceil(100)).step_by(5) {
            let start = number * 100;
            file.write(window, start, &content(start, 100.min((640 << 10) - start))).unwrap();
        }
        file.end(window).unwrap();
        file.wait(window).unwrap();
        file.close().unwrap();
    });
    let counts = counting.counted().object("out");
    assert_eq!(counts.writes, 40, "640 KiB in fractions of 16 KiB");
    assert!(counting.read_all("out").unwrap() == content(0, 640 << 10));
}

/// Two messages for each rank and two for each owner that end a window, whatever the number of ranks and owners; no collective call.
#[test]
fn the_end_of_a_window_takes_two_messages_for_each_rank_and_owner() {
    let layout = direct(Arc::new(Memory::new()));
    for (ranks, owners) in [(10, 1), (10, 4), (70, 7)] {
        let sends = threads::run(ranks, |comm| {
            let comm = CountingComm::new(Box::new(comm));
            let mut file = open(&comm, &layout, 1 << 20);
            comm.barrier().unwrap();
            let before = comm.counts().snapshot();
            let window = file.start(0, 4000 * u64::from(owners), &small(owners)).unwrap();
            // Owners write their own bytes, so that no data is sent.
            if comm.rank() < owners {
                let start = 4000 * u64::from(comm.rank());
                file.write(window, start, &content(start, 4000)).unwrap();
            }
            file.end(window).unwrap();
            file.wait(window).unwrap();
            let counts = comm.counts().snapshot().since(&before);
            assert_eq!(counts.collective(), 0);
            file.close().unwrap();
            counts.sends
        });
        let expected = 2 * (u64::from(ranks) - 1) + 2 * (u64::from(owners) - 1);
        assert_eq!(sends.iter().sum::<u64>(), expected, "{ranks} ranks, {owners} owners");
    }
}

#[test]
fn several_windows_of_several_files_are_under_way_at_once() {
    let store = Arc::new(Memory::new());
    let layout = direct(store.clone());
    threads::run(3, |comm| {
        let mut files: Vec<File> = ["a", "b"]
            .iter()
            .map(|name| File::open(&OpenFile::new(&comm, &layout, name, OpenWrite::Replace)).unwrap())
            .collect();
        let windows: Vec<Vec<_>> = files
            .iter_mut()
            .map(|file| (0..4).map(|n| file.start(n * 6000, 6000, &small(2)).unwrap()).collect())
            .collect();
        for number in (0..4u64).rev() {
            for (file, windows) in files.iter_mut().zip(&windows) {
                let start = number * 6000 + u64::from(comm.rank()) * 2000;
                file.write(windows[number as usize], start, &content(start, 2000)).unwrap();
                file.end(windows[number as usize]).unwrap();
            }
        }
        // Completed in another order than started.
        for number in [2, 0, 3, 1] {
            for (file, windows) in files.iter_mut().zip(&windows).rev() {
                file.wait(windows[number]).unwrap();
            }
        }
        files.into_iter().for_each(|file| file.close().unwrap());
    });
    for name in ["a", "b"] {
        assert_eq!(store.read_all(name).unwrap(), content(0, 24_000), "{name}");
    }
}

#[test]
fn callbacks_run_inside_the_programs_calls_with_the_result() {
    let layout = direct(Arc::new(Memory::new()));
    threads::run(3, |comm| {
        let mut file = open(&comm, &layout, 1 << 20);
        let thread = std::thread::current().id();
        let called = Arc::new(AtomicBool::new(false));
        let window = file.start(0, 3000, &small(2)).unwrap();
        let told = called.clone();
        let callback = Box::new(move |outcome: Result<thalweg_owners::Completed>| {
            assert_eq!(outcome.unwrap().bytes, 3000);
            assert_eq!(std::thread::current().id(), thread);
            told.store(true, Ordering::SeqCst);
        });
        file.on_complete(window, callback).unwrap();
        let start = 1000 * u64::from(comm.rank());
        file.write(window, start, &content(start, 1000)).unwrap();
        file.end(window).unwrap();
        assert!(file.wait(window).is_err(), "the callback gets the result");
        while file.is_busy() {
            file.progress();
        }
        assert!(called.load(Ordering::SeqCst));
        file.close().unwrap();
    });
}

#[test]
fn windows_of_files_of_every_layout() {
    let folder = tempfile::tempdir().unwrap();
    let posix: Arc<dyn Store> = Arc::new(Posix::at(folder.path()).unwrap());
    let two: Vec<Arc<dyn Store>> = vec![Arc::new(Memory::new()), Arc::new(Memory::new())];
    let small_file = SmallFile::new(Arc::new(Memory::new()), Default::default()).unwrap();
    let layouts: Vec<Arc<dyn Layout>> = vec![direct(posix), Arc::new(Flat::new(two).unwrap()), Arc::new(small_file)];
    for layout in layouts {
        Machine::new(5).ranks_per_node(2).run(|comm| {
            let mut file = open(&comm, &layout, 1 << 20);
            let options = Options { owners: Owners::PerNode, ..small(1) };
            for round in 0..3 {
                let window = file.start(round * 5000, 10_000, &options).unwrap();
                let start = round * 5000 + u64::from(comm.rank()) * 2000;
                let bytes: Vec<u8> = content(start, 2000).iter().map(|byte| byte.wrapping_add(round as u8)).collect();
                file.write(window, start, &bytes).unwrap();
                file.end(window).unwrap();
                file.wait(window).unwrap();
            }
            file.close().unwrap();
        });
        let object = layout.open_read("out").unwrap();
        assert_eq!(object.length().unwrap(), 20_000, "{}", layout.describe());
        let mut bytes = vec![0; 20_000];
        object.read_exact_at(0, &mut bytes).unwrap();
        for at in 0..20_000u64 {
            let round = (at / 5000).min(2) as u8;
            assert_eq!(bytes[at as usize], value(at).wrapping_add(round), "byte {at}, {}", layout.describe());
        }
    }
}

/// A power cut after the window is complete takes nothing, whatever it does to writes that are not synced.
#[test]
fn a_durable_window_survives_a_power_cut() {
    for durable in [true, false] {
        let store = Arc::new(Forgetful::new());
        let layout = direct(store.clone());
        threads::run(3, |comm| {
            let mut file = open(&comm, &layout, 1 << 20);
            let window = file.start(0, 9000, &Options { durable, ..small(2) }).unwrap();
            let start = 3000 * u64::from(comm.rank());
            file.write(window, start, &content(start, 3000)).unwrap();
            file.end(window).unwrap();
            file.wait(window).unwrap();
            file.close().unwrap();
        });
        let kept = (0..20)
            .all(|seed| store.power_cut(store.operations(), seed).read_all("out").ok() == Some(content(0, 9000)));
        assert_eq!(kept, durable, "without `durable` a power cut may take bytes, or this test shows nothing");
    }
}

/// Counts the syncs of open files and folders; the wrappers of stores count a publication as a sync.
struct Syncs {
    inner: Arc<dyn Layout>,
    files: Arc<AtomicU32>,
    folders: AtomicU32,
}

struct SyncsOfAFile(Box<dyn WriteObject>, Arc<AtomicU32>);

impl WriteObject for SyncsOfAFile {
    fn write_at(&self, offset: u64, pieces: &[IoSlice<'_>]) -> Result<()> {
        self.0.write_at(offset, pieces)
    }
    fn read_at(&self, offset: u64, out: &mut [u8]) -> Result<usize> {
        self.0.read_at(offset, out)
    }
    fn length(&self) -> Result<u64> {
        self.0.length()
    }
    fn truncate(&self, length: u64) -> Result<()> {
        self.0.truncate(length)
    }
    fn punch(&self, offset: u64, length: u64) -> Result<()> {
        self.0.punch(offset, length)
    }
    fn sync(&self) -> Result<()> {
        self.1.fetch_add(1, Ordering::SeqCst);
        self.0.sync()
    }
    fn publish(&self) -> Result<()> {
        self.0.publish()
    }
}

impl Layout for Syncs {
    fn describe(&self) -> String {
        self.inner.describe()
    }
    fn open_write(&self, path: &str, how: OpenWrite, writer: WriterId) -> Result<Box<dyn WriteObject>> {
        Ok(Box::new(SyncsOfAFile(self.inner.open_write(path, how, writer)?, self.files.clone())))
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
        self.folders.fetch_add(1, Ordering::SeqCst);
        self.inner.sync_folder(folder)
    }
}

#[test]
fn only_a_durable_window_waits_for_the_device() {
    for durable in [true, false] {
        let syncs = Arc::new(Syncs {
            inner: direct(Arc::new(Memory::new())),
            files: Arc::default(),
            folders: AtomicU32::new(0),
        });
        let layout: Arc<dyn Layout> = syncs.clone();
        threads::run(3, |comm| {
            let mut file = open(&comm, &layout, 1 << 20);
            let window = file.start(0, 9000, &Options { durable, ..small(2) }).unwrap();
            let start = 3000 * u64::from(comm.rank());
            file.write(window, start, &content(start, 3000)).unwrap();
            file.end(window).unwrap();
            file.wait(window).unwrap();
            file.close().unwrap();
        });
        let counted = (syncs.files.load(Ordering::SeqCst), syncs.folders.load(Ordering::SeqCst));
        assert_eq!(counted, if durable { (2, 1) } else { (0, 0) }, "two owners");
    }
}

/// The time limit measures silence, not the time of the whole window.
#[test]
fn a_slow_store_is_no_reason_to_give_up() {
    let slow = Arc::new(Slow::new(Arc::new(Memory::new()), Duration::from_millis(60), 1e9));
    let layout = direct(slow);
    threads::run(3, |comm| {
        let mut file = open(&comm, &layout, 1 << 20);
        let options =
            Options { time_limit: Some(Duration::from_millis(400)), owners: Owners::Ranks(vec![1]), ..small(1) };
        let started = Instant::now();
        let window = file.start(0, 15_000, &options).unwrap();
        let start = 5000 * u64::from(comm.rank());
        file.write(window, start, &content(start, 5000)).unwrap();
        file.end(window).unwrap();
        file.wait(window).unwrap();
        assert!(started.elapsed() > 3 * Duration::from_millis(400), "{:?}", started.elapsed());
        file.close().unwrap();
    });
}

#[test]
fn owners_open_the_file_with_their_first_write_and_nobody_else_does() {
    let counting = Arc::new(Counting::new(Arc::new(Memory::new())));
    let layout = direct(counting.clone());
    threads::run(6, |comm| {
        let mut file = open(&comm, &layout, 1 << 20);
        // Three owners, of which the last has no bytes.
        let window = file
            .start(0, 8000, &Options { owners: Owners::Every { active: 3, base: 1, skip: 2 }, ..small(3) })
            .unwrap();
        if comm.rank() == 5 {
            file.write(window, 0, &content(0, 8000)).unwrap();
        }
        file.end(window).unwrap();
        file.wait(window).unwrap();
        file.close().unwrap();
    });
    assert_eq!(counting.counted().object("out").opens_for_writing, 3, "rank 0, and the two owners with bytes");
}
