//! A reader follows a file that grows: at every byte of its growth it knows what an opening of that file knows, and no
//! step shows before it is whole.

use crate::writer::{Ending, File, Subfiles, check_steps, groups, holding, open};
use std::io::IoSlice;
use std::sync::Arc;
use std::time::{Duration, Instant};
use thalweg_layout::{Direct, Layout, OpenWrite, ReadObject, Stat, WriteObject, WriterId};
use thalweg_reader::{Follower, Next, Reader, Wait};
use thalweg_store::wrap::counting::Counting;
use thalweg_store::wrap::{Failing, Fault, StoreCall};
use thalweg_store::{Memory, StoreExt};
use thalweg_types::{ErrorKind, Result, Selection};

const AT_ONCE: Wait = Wait { timeout: Some(Duration::ZERO), poll: Duration::from_millis(1) };

fn grow_to(layout: &Arc<dyn Layout>, path: &str, bytes: &[u8], length: usize) -> Box<dyn WriteObject> {
    let object = layout.open_write(path, OpenWrite::Any, WriterId(0)).unwrap();
    let from = object.length().unwrap() as usize;
    object.write_at(from as u64, &[IoSlice::new(&bytes[from..length])]).unwrap();
    object
}

#[test]
fn at_every_byte_a_reader_that_caught_up_knows_what_one_that_opens_knows() {
    use Ending::*;
    let mut file = File::default();
    for (step, ending) in [Full, Record, Record, Full, Record, Finished].into_iter().enumerate() {
        file.step(&groups(step as u32, 2), ending);
    }
    let first = file.closed[0] as usize;
    let (_, layout) = holding(&[("a.bp", &file.bytes[..first])]);
    let mut reader = open(&layout, "a.bp").unwrap();
    check_steps(&reader, 1, 2);
    for length in first + 1..=file.bytes.len() {
        grow_to(&layout, "a.bp", &file.bytes, length);
        let news = reader.catch_up().unwrap();
        let closed = file.closed.iter().filter(|end| **end <= length as u64).count();
        assert_eq!(news, file.closed.contains(&(length as u64)), "{length} bytes");
        assert_eq!(reader.status(), open(&layout, "a.bp").unwrap().status(), "{length} bytes");
        if news {
            check_steps(&reader, closed as u32, 2);
            let fresh = open(&layout, "a.bp").unwrap();
            assert_eq!(reader.variables(), fresh.variables());
            assert_eq!(reader.attributes(), fresh.attributes());
            assert_eq!(reader.process_groups().unwrap(), fresh.process_groups().unwrap());
            assert_eq!(reader.attribute("now").unwrap(), fresh.attribute("now").unwrap());
        }
    }
    assert!(reader.status().finished);
}

#[test]
fn steps_closed_before_one_that_is_being_written_are_found_past_it() {
    use Ending::*;
    let mut file = File::default();
    for (step, ending) in [Full, Record, Record, Full, Record, Open].into_iter().enumerate() {
        file.step(&groups(step as u32, 2), ending);
    }
    for known in 0..4 {
        let (_, layout) = holding(&[("a.bp", &file.bytes[..file.closed[known] as usize])]);
        let mut reader = open(&layout, "a.bp").unwrap();
        // Everything else comes between two looks.
        grow_to(&layout, "a.bp", &file.bytes, file.bytes.len());
        assert!(reader.catch_up().unwrap());
        check_steps(&reader, 5, 2);
        assert_eq!(reader.status().steps, 5);
        assert!(reader.status().torn_bytes > 0 && !reader.status().finished);
    }
}

#[test]
fn the_last_end_of_a_file_being_written_is_found_from_its_beginning_past_what_is_in_flight() {
    use Ending::*;
    let mut file = File::default();
    for (step, ending) in [Full, Record, Full, Record, Open].into_iter().enumerate() {
        file.step(&groups(step as u32, 2), ending);
    }
    for cut in 0..=file.bytes.len() {
        let found = thalweg_bp::growth::since(&file.bytes[..cut], 0).unwrap().map(|g| g.end);
        let last = file.closed.iter().copied().filter(|end| *end <= cut as u64).max();
        assert_eq!(found, last, "{cut} bytes");
    }
}

#[test]
fn a_record_whose_end_is_there_before_its_body_is_not_taken_for_a_step() {
    let mut file = File::default();
    file.step(&groups(0, 2), Ending::Full);
    file.step(&groups(1, 2), Ending::Record);
    let mut bytes = file.bytes.clone();
    let body = bytes.len() - 100;
    bytes[body] ^= 1;
    let (memory, layout) = holding(&[("a.bp", &bytes[..file.closed[0] as usize])]);
    let mut reader = open(&layout, "a.bp").unwrap();
    grow_to(&layout, "a.bp", &bytes, bytes.len());
    assert!(!reader.catch_up().unwrap());
    assert_eq!(reader.status().steps, 1);
    memory.write_all("a.bp", &file.bytes).unwrap();
    assert!(reader.catch_up().unwrap());
    check_steps(&reader, 2, 2);
}

#[test]
fn clones_see_what_they_saw() {
    let mut file = File::default();
    file.step(&groups(0, 2), Ending::Full);
    let (_, layout) = holding(&[("a.bp", &file.bytes)]);
    let mut reader = open(&layout, "a.bp").unwrap();
    check_steps(&reader, 1, 2);
    let before = reader.clone();
    file.step(&groups(1, 2), Ending::Record);
    grow_to(&layout, "a.bp", &file.bytes, file.bytes.len());
    assert!(reader.catch_up().unwrap());
    check_steps(&reader, 2, 2);
    assert_eq!(before.status().steps, 1);
    assert_eq!(before.read("field", 1, &Selection::All, &mut []).unwrap_err().kind(), ErrorKind::NotFound);
    check_steps(&before, 1, 2);
}

#[test]
fn subfiles_that_grew_are_read_to_their_new_end() {
    let mut file = Subfiles::default();
    file.step(&groups(0, 3), Ending::Full);
    let (memory, layout) = file.stored_as("a.bp");
    let mut reader = open(&layout, "a.bp").unwrap();
    check_steps(&reader, 1, 3);
    for step in 1..5 {
        file.step(&groups(step, 3), if step == 3 { Ending::Full } else { Ending::Record });
        for (name, bytes) in file.objects("a.bp") {
            memory.write_all(&name, &bytes).unwrap();
        }
        assert!(reader.catch_up().unwrap());
        check_steps(&reader, step + 1, 3);
    }
}

#[test]
fn a_step_costs_the_same_however_many_came_before() {
    let mut file = File::default();
    file.step(&groups(0, 2), Ending::Full);
    let counting = Arc::new(Counting::new(Arc::new(Memory::new())));
    let layout: Arc<dyn Layout> = Arc::new(Direct::new(counting.clone()).unwrap());
    grow_to(&layout, "a.bp", &file.bytes, file.bytes.len());
    let mut reader = open(&layout, "a.bp").unwrap();
    let mut costs = Vec::new();
    for step in 1..200 {
        file.step(&groups(step, 2), Ending::Record);
        grow_to(&layout, "a.bp", &file.bytes, file.bytes.len());
        counting.take();
        assert!(reader.catch_up().unwrap());
        reader.read_to_vec("field", u64::from(step), &Selection::All).unwrap();
        reader.value("step", u64::from(step)).unwrap();
        costs.push(counting.counted().total().bytes_read);
    }
    let (first, last) = (costs[2], costs[198]);
    assert!(last <= first + 16, "{first} bytes read for step 3, {last} for step 199");
    check_steps(&reader, 200, 2);
}

#[test]
fn a_follower_takes_step_after_step_or_goes_to_the_last() {
    let mut file = File::default();
    file.step(&groups(0, 2), Ending::Full);
    file.step(&groups(1, 2), Ending::Record);
    let (_, layout) = holding(&[("a.bp", &file.bytes)]);
    let held = grow_to(&layout, "a.bp", &file.bytes, file.bytes.len()).lease().unwrap().unwrap();
    let mut follower = Follower::open(layout.clone(), "a.bp", &AT_ONCE).unwrap();
    assert_eq!((follower.step(), follower.last()), (0, 1));
    assert_eq!(follower.advance(false, &AT_ONCE).unwrap(), Next::Step(1));
    assert_eq!(follower.advance(false, &AT_ONCE).unwrap(), Next::NotYet);
    for step in 2..6 {
        file.step(&groups(step, 2), Ending::Record);
    }
    grow_to(&layout, "a.bp", &file.bytes, file.bytes.len());
    assert_eq!(follower.advance(false, &AT_ONCE).unwrap(), Next::Step(2));
    assert_eq!(follower.advance(true, &AT_ONCE).unwrap(), Next::Step(5));
    check_steps(follower.reader(), 6, 2);
    file.step(&groups(6, 2), Ending::Finished);
    grow_to(&layout, "a.bp", &file.bytes, file.bytes.len());
    assert_eq!(follower.advance(false, &AT_ONCE).unwrap(), Next::Step(6));
    // It could be opened once more, and held for that.
    assert_eq!(follower.advance(false, &AT_ONCE).unwrap(), Next::NotYet);
    drop(held);
    assert_eq!(follower.advance(false, &Wait::default()).unwrap(), Next::End);
    assert_eq!(follower.advance(true, &Wait::default()).unwrap(), Next::End);
}

#[test]
fn a_writer_that_is_gone_ends_an_endless_wait_and_one_that_is_there_does_not() {
    let mut file = File::default();
    file.step(&groups(0, 2), Ending::Full);
    let (_, layout) = holding(&[("a.bp", &file.bytes)]);
    let held = grow_to(&layout, "a.bp", &file.bytes, file.bytes.len()).lease().unwrap().unwrap();
    let mut follower = Follower::open(layout.clone(), "a.bp", &AT_ONCE).unwrap();
    let wait = Wait { timeout: Some(Duration::from_millis(300)), poll: Duration::from_millis(5) };
    let start = Instant::now();
    assert_eq!(follower.advance(false, &wait).unwrap(), Next::NotYet);
    assert!(start.elapsed() >= Duration::from_millis(300));
    drop(held);
    assert_eq!(follower.advance(false, &Wait::default()).unwrap(), Next::WriterDied);
    check_steps(follower.reader(), 1, 2);
    // Somebody else goes on with it.
    file.step(&groups(1, 2), Ending::Record);
    let _held = grow_to(&layout, "a.bp", &file.bytes, file.bytes.len()).lease().unwrap().unwrap();
    assert_eq!(follower.advance(false, &AT_ONCE).unwrap(), Next::Step(1));
    assert_eq!(follower.advance(false, &AT_ONCE).unwrap(), Next::NotYet);
}

#[test]
fn opening_waits_for_the_first_step_and_not_for_a_writer_that_is_gone() {
    let mut file = File::default();
    file.step(&groups(0, 2), Ending::Full);
    let (_, layout) = holding(&[]);
    let short = Wait { timeout: Some(Duration::from_millis(30)), poll: Duration::from_millis(2) };
    let not_found = Follower::open(layout.clone(), "a.bp", &short).err().unwrap();
    assert_eq!(not_found.kind(), ErrorKind::NotFound);
    let part = file.bytes.len() - 10;
    let held = grow_to(&layout, "a.bp", &file.bytes, part).lease();
    assert_eq!(Follower::open(layout.clone(), "a.bp", &short).err().unwrap().kind(), ErrorKind::NotFound);
    std::thread::scope(|scope| {
        let follower = scope.spawn(|| Follower::open(layout.clone(), "a.bp", &Wait::default()).unwrap());
        std::thread::sleep(Duration::from_millis(60));
        grow_to(&layout, "a.bp", &file.bytes, file.bytes.len());
        check_steps(follower.join().unwrap().reader(), 1, 2);
    });
    drop(held);
    let (_, layout) = holding(&[("a.bp", &file.bytes[..part])]);
    let died = Follower::open(layout, "a.bp", &Wait::default()).err().unwrap();
    assert_eq!(died.kind(), ErrorKind::PeerLost);
}

#[test]
fn a_file_begun_anew_or_replaced_is_told() {
    let mut file = File::default();
    file.step(&groups(0, 2), Ending::Full);
    file.step(&groups(1, 2), Ending::Record);
    let mut other = File::default();
    for step in 0..9 {
        other.step(&groups(step, 3), Ending::Record);
    }
    for bytes in [&file.bytes[..100], &other.bytes] {
        let (memory, layout) = holding(&[("a.bp", &file.bytes)]);
        let mut reader = Reader::open(layout, "a.bp").unwrap();
        memory.write_all("a.bp", bytes).unwrap();
        assert_eq!(reader.catch_up().unwrap_err().kind(), ErrorKind::NotFound);
    }
    let (memory, layout) = holding(&[("a.bp", &file.bytes)]);
    let _held = grow_to(&layout, "a.bp", &file.bytes, file.bytes.len()).lease().unwrap().unwrap();
    let mut follower = Follower::open(layout, "a.bp", &AT_ONCE).unwrap();
    follower.advance(true, &AT_ONCE).unwrap();
    memory.write_all("b.bp", &other.bytes).unwrap();
    thalweg_store::Store::rename(&memory, "b.bp", "a.bp").unwrap();
    assert_eq!(follower.advance(false, &Wait::default()).unwrap_err().kind(), ErrorKind::NotFound);
}

#[test]
fn files_of_other_libraries_end_at_once() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/fixtures/foreign");
    let layout: Arc<dyn Layout> = Arc::new(Direct::new(Arc::new(thalweg_store::Posix::at(folder).unwrap())).unwrap());
    let mut seen = 0;
    for name in layout.list("").unwrap().into_iter().filter(|n| n.ends_with(".bp")) {
        let mut follower = Follower::open(layout.clone(), &name, &AT_ONCE).unwrap();
        while follower.step() < follower.last() {
            let next = follower.step() + 1;
            assert_eq!(follower.advance(false, &AT_ONCE).unwrap(), Next::Step(next));
        }
        assert_eq!(follower.advance(false, &Wait::default()).unwrap(), Next::End, "{name}");
        seen += 1;
    }
    assert!(seen > 3);
}

/// A layout on which leases are not visible, as on some network filesystems.
struct NoLeases(Arc<dyn Layout>);

struct NoLeasesObject(Box<dyn ReadObject>);

impl ReadObject for NoLeasesObject {
    fn length(&self) -> Result<u64> {
        self.0.length()
    }

    fn read_at(&self, offset: u64, out: &mut [u8]) -> Result<usize> {
        self.0.read_at(offset, out)
    }
}

impl Layout for NoLeases {
    fn describe(&self) -> String {
        "without leases".into()
    }

    fn open_write(&self, path: &str, how: OpenWrite, writer: WriterId) -> Result<Box<dyn WriteObject>> {
        self.0.open_write(path, how, writer)
    }

    fn open_read(&self, path: &str) -> Result<Box<dyn ReadObject>> {
        Ok(Box::new(NoLeasesObject(self.0.open_read(path)?)))
    }

    fn stat(&self, path: &str) -> Result<Stat> {
        self.0.stat(path)
    }

    fn list(&self, folder: &str) -> Result<Vec<String>> {
        self.0.list(folder)
    }

    fn rename(&self, from: &str, to: &str) -> Result<()> {
        self.0.rename(from, to)
    }

    fn remove(&self, path: &str) -> Result<()> {
        self.0.remove(path)
    }

    fn make_folder(&self, path: &str) -> Result<()> {
        self.0.make_folder(path)
    }

    fn sync_folder(&self, folder: &str) -> Result<()> {
        self.0.sync_folder(folder)
    }
}

#[test]
fn where_leases_are_not_visible_a_file_that_stays_as_it_is_for_long_has_lost_its_writer() {
    let mut file = File::default();
    file.step(&groups(0, 2), Ending::Full);
    let (_, below) = holding(&[("a.bp", &file.bytes)]);
    let layout: Arc<dyn Layout> = Arc::new(NoLeases(below));
    let mut follower = Follower::open(layout.clone(), "a.bp", &AT_ONCE).unwrap();
    let short = Wait { timeout: Some(Duration::from_millis(150)), poll: Duration::from_millis(2) };
    assert_eq!(follower.advance(false, &short).unwrap(), Next::NotYet, "10 minutes if nothing else is said");
    follower.set_patience(Duration::from_millis(400));
    // What is being written shows that somebody writes.
    file.step(&groups(1, 2), Ending::Record);
    for part in 1..4 {
        let length = file.closed[0] as usize + 100 * part;
        grow_to(&layout, "a.bp", &file.bytes, length);
        assert_eq!(follower.advance(false, &short).unwrap(), Next::NotYet);
    }
    grow_to(&layout, "a.bp", &file.bytes, file.bytes.len());
    assert_eq!(follower.advance(false, &short).unwrap(), Next::Step(1));
    assert_eq!(follower.advance(false, &Wait::default()).unwrap(), Next::WriterDied);
    file.step(&groups(2, 2), Ending::Finished);
    grow_to(&layout, "a.bp", &file.bytes, file.bytes.len());
    assert_eq!(follower.advance(false, &AT_ONCE).unwrap(), Next::Step(2));
    assert_eq!(follower.advance(false, &Wait::default()).unwrap(), Next::End);
}

#[test]
fn a_subfile_that_cannot_be_looked_at_is_an_error_and_no_dead_writer() {
    let mut files = Subfiles::default();
    files.step(&groups(0, 2), Ending::Full);
    let objects = files.objects("a.bp");
    let (memory, _) = holding(&objects.iter().map(|(n, b)| (n.as_str(), b.as_slice())).collect::<Vec<_>>());
    let failing = Arc::new(Failing::new(Arc::new(memory)));
    let layout: Arc<dyn Layout> = Arc::new(NoLeases(Arc::new(Direct::new(failing.clone()).unwrap())));
    let mut follower = Follower::open(layout.clone(), "a.bp", &AT_ONCE).unwrap();
    follower.set_patience(Duration::ZERO);
    for asked in [StoreCall::OpenRead, StoreCall::Length] {
        for kind in [ErrorKind::Io, ErrorKind::PermissionDenied] {
            failing.fail(Fault::of(asked).named("a.bp.0").with(kind));
            let e = follower.advance(false, &AT_ONCE).unwrap_err();
            assert_eq!((e.kind(), e.place().object.as_deref()), (kind, Some("a.bp.dir/a.bp.0")), "{asked:?}: {e}");
            failing.heal();
        }
    }
    // One that is not there is none.
    failing.fail(Fault::of(StoreCall::OpenRead).named("a.bp.0").with(ErrorKind::NotFound));
    assert_eq!(follower.advance(false, &AT_ONCE).unwrap(), Next::WriterDied);
}
