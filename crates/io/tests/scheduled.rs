//! The scheduled method: split files, stripes, turns; what it writes reads back, verifies and is found again without index.

mod common;
#[path = "common/uneven.rs"]
mod uneven;

use common::*;
use std::collections::HashMap;
use std::io::IoSlice;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use thalweg_comm::Communicator;
use thalweg_comm::threads::Machine;
use thalweg_io::Mode;
use thalweg_layout::{OpenWrite, Stat, WriteObject};
use thalweg_reader::{Reader, RecoverOptions, recover, verify};
use thalweg_store::memory::Memory;
use thalweg_store::wrap::{Counting, Failing, Fault, StoreCall};
use thalweg_store::{Capability, ReadObject, Store};
use thalweg_types::{ErrorKind, Result};
use uneven::*;

const BY: By = By("MPI_SCHEDULED");

#[test]
fn any_number_of_ranks_with_uneven_groups_and_appended_steps_reads_back_and_verifies() {
    for (ranks, parameters) in [
        (1, ""),
        (2, "num_files=7"),
        (3, "num_files=2;targets=1"),
        (5, "writers_per_target=1"),
        (8, "num_files=3;writers_per_target=0"),
        (64, "num_files=5;targets=2;sync=yes"),
        (257, "num_files=16;targets=8;index=each"),
    ] {
        let place = Place::memory();
        BY.write(&place, ranks, parameters, 0..2, None, uneven(ranks));
        // Another session finds the ends of the files again.
        BY.write(&place, ranks, parameters, 2..4, None, uneven(ranks));
        check(&place, ranks, 0..4, uneven(ranks));
        let files: u32 =
            parameters.strip_prefix("num_files=").map_or(4, |p| p.split(';').next().unwrap().parse().unwrap());
        assert_eq!(place.store.list("x.bp.dir").unwrap().len() as u32, files.min(ranks), "{ranks} ranks, {parameters}");
    }
}

#[test]
fn a_buffer_smaller_than_the_group_changes_nothing_and_leaves_no_spill_file() {
    BY.reads_back_with_a_buffer_smaller_than_the_group_and_leaves_no_spill_file("num_files=2;spill_copy=512");
}

#[test]
fn other_numbers_of_ranks_and_files_go_on_where_the_last_session_ended() {
    BY.goes_on_with_other_numbers_of_ranks_and_files();
}

#[test]
fn groups_that_fill_their_stripe_but_for_a_few_bytes_leave_no_hole_that_nobody_describes() {
    // Payloads go through every remainder near a multiple of 64 KiB, in steps of 8 bytes.
    let mut filled = 0;
    for less in 0..100 {
        let place = Place::memory();
        let count = |rank: u32, _| if rank == 0 { 8192 - less } else { 100 };
        BY.write(&place, 3, "num_files=1", 0..2, None, count);
        check(&place, 3, 0..2, count);
        let found = scan(&place, "x.bp.dir/x.bp.0");
        assert_eq!(found.groups.len(), 6, "{less}");
        assert!(found.torn.is_none());
        filled += found.groups.iter().filter(|g| g.extent.length == 64 << 10).count();
    }
    assert!(filled > 2, "no group came close enough");
}

fn scan(place: &Place, name: &str) -> thalweg_bp::scan::Scan {
    let bytes = bytes(&*place.store, name);
    thalweg_bp::scan::scan(&bytes[..], thalweg_types::ByteOrder::NATIVE).unwrap()
}

#[test]
fn groups_begin_at_stripe_boundaries() {
    let place = Place::memory();
    BY.write(&place, 6, "num_files=2", 0..2, None, |rank, _| if rank == 3 { 10_000 } else { 5 });
    for file in 0..2 {
        let found = scan(&place, &format!("x.bp.dir/x.bp.{file}"));
        // 80,000 bytes and a little: two steps of 64 KiB.
        let starts: Vec<u64> = found.groups.iter().map(|g| g.extent.offset / (128 << 10)).collect();
        assert_eq!(starts, [0, 1, 2, 3, 4, 5]);
        assert!(found.groups.iter().all(|g| g.extent.offset % (128 << 10) == 0));
    }
}

#[test]
fn after_the_index_is_lost_recover_finds_everything_and_passes_holes_without_reading_them() {
    let store = Arc::new(Counting::new(Arc::new(Memory::new())));
    let place = Place::over(store.clone());
    // Holes of nearly 8 MB each behind small groups.
    let count = |rank: u32, _| if rank == 7 { 1_000_000 } else { 20 };
    BY.write(&place, 16, "num_files=2", 0..3, None, count);
    place.store.remove("x.bp").unwrap();
    let before = store.counted().total().bytes_read;
    let found = recover(&*place.layout, "x.bp", RecoverOptions::default()).unwrap();
    assert_eq!((found.steps, found.dropped.len()), (3, 0), "{:?}", found.actions);
    let read = store.counted().total().bytes_read - before;
    assert!(read < 1 << 20, "{read} bytes read");
    check(&place, 16, 0..3, count);
    let before = store.counted().total().bytes_read;
    verify(&*place.layout, "x.bp").unwrap();
    let read = store.counted().total().bytes_read - before;
    assert!(read < 3 * 8_000_000 + (3 << 20), "{read} bytes read");
    // And on it goes.
    BY.write(&place, 16, "num_files=2", 3..4, None, count);
    check(&place, 16, 0..4, count);
}

#[test]
fn restarting_from_an_earlier_step_drops_the_later_ones_from_every_file() {
    BY.drops_later_steps_from_every_file_when_it_restarts_from_an_earlier_one();
}

/// A memory store whose writes take a moment, and that counts how many go on at a time per subfile. It says that it has
/// some storage targets.
struct Watched {
    inner: Memory,
    targets: Option<u32>,
    /// Which file was made on which.
    made: Mutex<Vec<(String, u32)>>,
    writing: Arc<Mutex<HashMap<String, (usize, usize)>>>,
}

struct WatchedObject {
    inner: Box<dyn WriteObject>,
    name: String,
    writing: Arc<Mutex<HashMap<String, (usize, usize)>>>,
}

impl Store for Watched {
    fn describe(&self) -> String {
        "watched".into()
    }
    fn capability(&self) -> Capability {
        self.inner.capability()
    }
    fn open_write(&self, name: &str, how: OpenWrite) -> Result<Box<dyn WriteObject>> {
        let inner = self.inner.open_write(name, how)?;
        Ok(Box::new(WatchedObject { inner, name: name.into(), writing: self.writing.clone() }))
    }
    fn open_read(&self, name: &str) -> Result<Box<dyn ReadObject>> {
        self.inner.open_read(name)
    }
    fn stat(&self, name: &str) -> Result<Stat> {
        self.inner.stat(name)
    }
    fn list(&self, folder: &str) -> Result<Vec<String>> {
        self.inner.list(folder)
    }
    fn rename(&self, from: &str, to: &str) -> Result<()> {
        self.inner.rename(from, to)
    }
    fn remove(&self, name: &str) -> Result<()> {
        self.inner.remove(name)
    }
    fn make_folder(&self, name: &str) -> Result<()> {
        self.inner.make_folder(name)
    }
    fn sync_folder(&self, folder: &str) -> Result<()> {
        self.inner.sync_folder(folder)
    }
    fn targets(&self, _: &str) -> Result<Option<u32>> {
        Ok(self.targets)
    }
    fn make_on_target(&self, name: &str, target: u32, stripe: u64) -> Result<bool> {
        assert_eq!(stripe % (64 << 10), 0);
        if self.targets.is_none() {
            return Ok(false);
        }
        self.made.lock().unwrap().push((name.into(), target));
        self.inner.open_write(name, OpenWrite::Replace).map(|_| true)
    }
}

impl Watched {
    fn new(targets: Option<u32>, writing: &Arc<Mutex<HashMap<String, (usize, usize)>>>) -> Watched {
        Watched { inner: Memory::new(), targets, made: Mutex::default(), writing: writing.clone() }
    }
}

#[test]
fn files_are_made_on_the_targets_that_the_filesystem_says_it_has_before_anything_is_written() {
    let store = Arc::new(Watched::new(Some(3), &Arc::default()));
    let place = Place::over(store.clone());
    BY.write(&place, 8, "", 0..2, None, uneven(8));
    check(&place, 8, 0..2, uneven(8));
    let file = |k| format!("x.bp.dir/x.bp.{k}");
    assert_eq!(*store.made.lock().unwrap(), [(file(0), 0), (file(1), 1), (file(2), 2)]);
    // Where there are more files than targets they go round.
    BY.write(&place, 8, "num_files=5", 0..1, None, uneven(8));
    check(&place, 8, 0..1, uneven(8));
    assert_eq!(store.made.lock().unwrap()[3..].iter().map(|(_, t)| *t).collect::<Vec<_>>(), [0, 1, 2, 0, 1]);
}

impl WriteObject for WatchedObject {
    fn write_at(&self, offset: u64, pieces: &[IoSlice<'_>]) -> Result<()> {
        {
            let mut writing = self.writing.lock().unwrap();
            let now = writing.entry(self.name.clone()).or_default();
            now.0 += 1;
            now.1 = now.1.max(now.0);
        }
        std::thread::sleep(Duration::from_millis(3));
        let done = self.inner.write_at(offset, pieces);
        self.writing.lock().unwrap().get_mut(&self.name).unwrap().0 -= 1;
        done
    }
    fn length(&self) -> Result<u64> {
        self.inner.length()
    }
    fn read_at(&self, offset: u64, out: &mut [u8]) -> Result<usize> {
        self.inner.read_at(offset, out)
    }
    fn truncate(&self, length: u64) -> Result<()> {
        self.inner.truncate(length)
    }
    fn punch(&self, offset: u64, length: u64) -> Result<()> {
        self.inner.punch(offset, length)
    }
    fn sync(&self) -> Result<()> {
        self.inner.sync()
    }
}

/// The most that wrote to each subfile at a time.
fn most_writers(parameters: &str) -> Vec<usize> {
    let writing = Arc::new(Mutex::new(HashMap::new()));
    let place = Place::over(Arc::new(Watched::new(None, &writing)));
    BY.write(&place, 24, parameters, 0..2, None, |_, _| 100);
    check(&place, 24, 0..2, |_, _| 100);
    let writing = writing.lock().unwrap();
    (0..3).map(|file| writing[&format!("x.bp.dir/x.bp.{file}")].1).collect()
}

#[test]
fn no_more_ranks_than_allowed_write_to_a_target_at_a_time() {
    assert_eq!(most_writers("num_files=3;targets=3;writers_per_target=1"), [1; 3]);
    assert!(most_writers("num_files=3;targets=3").iter().all(|most| *most <= 2));
    // The watch would see more.
    assert!(most_writers("num_files=3;targets=3;writers_per_target=0").iter().any(|most| *most > 2));
}

#[test]
fn a_rank_that_fails_passes_its_turn_on_and_the_step_is_partial() {
    for failing in 0..6 {
        let memory: Arc<dyn Store> = Arc::new(Memory::new());
        let machine = Machine::new(6).timeout(Duration::from_secs(120));
        let began = std::time::Instant::now();
        let outcomes = machine.run(|comm| {
            let store = Arc::new(Failing::new(memory.clone()));
            let place = Place::over(store.clone());
            let session = place.session(&heat("MPI_SCHEDULED", "num_files=2;writers_per_target=1"), &comm);
            write_heat(&session, "x.bp", Mode::Write, &comm, 0);
            let file = format!("x.bp.dir/x.bp.{}", comm.rank() % 2);
            if comm.rank() == failing {
                // Its group, and not the record that then tells how long the hole is.
                store.fail(Fault::of(StoreCall::Write).named(file).with(ErrorKind::NoSpace).times(1));
            }
            let outcome = try_heat(&session, "x.bp", Mode::Append, &comm, 1);
            store.heal();
            write_heat(&session, "x.bp", Mode::Append, &comm, 2);
            session.finalize().unwrap();
            outcome
        });
        assert!(began.elapsed() < Duration::from_secs(100));
        all_failed_alike(&outcomes, &[failing], ErrorKind::NoSpace);
        let place = Place::over(memory);
        let reader = Reader::open(place.layout.clone(), "x.bp").unwrap();
        assert_eq!(reader.status().partial.iter().map(|p| (p.step, p.rank)).collect::<Vec<_>>(), [(1, failing)]);
        assert_eq!(reader.blocks("t", 1).unwrap().len(), 5);
        for step in [0, 2] {
            assert_eq!(read_heat(&place.layout, "x.bp", step), all_of_t(6, step), "{failing}");
        }
        let report = verify(&*place.layout, "x.bp").unwrap();
        let others: Vec<_> = report.findings.iter().filter(|f| f.step != Some(1)).collect();
        assert!(others.is_empty(), "rank {failing}: {others:?}");
        let found = scan(&place, &format!("x.bp.dir/x.bp.{}", failing % 2));
        assert_eq!((found.groups.len(), found.torn.is_some()), (8, false), "rank {failing}");
    }
}

#[test]
fn a_file_that_cannot_be_opened_fails_everywhere_and_leaves_the_steps_before_readable() {
    let memory: Arc<dyn Store> = Arc::new(Memory::new());
    let outcomes = Machine::new(6).timeout(Duration::from_secs(120)).run(|comm| {
        let store = Arc::new(Failing::new(memory.clone()));
        let session = Place::over(store.clone()).session(&heat("MPI_SCHEDULED", "num_files=2"), &comm);
        write_heat(&session, "x.bp", Mode::Write, &comm, 0);
        if comm.rank() == 3 {
            store.fail(Fault::of(StoreCall::OpenWrite).named("x.bp.dir/x.bp.1").with(ErrorKind::PermissionDenied));
        }
        let outcome = try_heat(&session, "x.bp", Mode::Append, &comm, 1);
        store.heal();
        write_heat(&session, "x.bp", Mode::Append, &comm, 1);
        session.finalize().unwrap();
        outcome
    });
    all_failed_alike(&outcomes, &[3], ErrorKind::PermissionDenied);
    let place = Place::over(memory);
    for step in 0..2 {
        assert_eq!(read_heat(&place.layout, "x.bp", step), all_of_t(6, step));
    }
    assert!(verify(&*place.layout, "x.bp").unwrap().is_clean());
}
