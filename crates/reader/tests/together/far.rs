//! Reading from stores whose requests take long: few of them, several at the same time, and the same values.

use crate::writer::{Ending, File, Group, Subfiles, Variable, header, holding};
use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::SeqCst};
use std::time::{Duration, Instant};
use thalweg_bp::shape::Shape;
use thalweg_layout::{Direct, Layout};
use thalweg_reader::Reader;
use thalweg_store::wrap::{Operation, StoreCall, Verdict, Watch, Wrapped};
use thalweg_store::{Memory, Store};
use thalweg_types::{BoundingBox, ElementType, Error, ErrorKind, Selection};

/// Tells a cost of requests, counts reads, and knows how many were under way at the same time.
#[derive(Default)]
struct Far {
    cost: u64,
    reads: AtomicU64,
    bytes: AtomicU64,
    now: AtomicUsize,
    most: AtomicUsize,
    /// How long a read of at least this many bytes waits for others.
    meeting: Option<Duration>,
    /// Reads from this number on fail.
    fails_from: Option<u64>,
}

impl Watch for Far {
    fn describe(&self) -> &'static str {
        "far"
    }

    fn request_cost(&self, _inner: u64) -> u64 {
        self.cost
    }

    fn before(&self, operation: &Operation<'_>) -> Verdict {
        if operation.asked == StoreCall::Read {
            let number = self.reads.fetch_add(1, SeqCst);
            self.bytes.fetch_add(operation.bytes, SeqCst);
            let now = self.now.fetch_add(1, SeqCst) + 1;
            self.most.fetch_max(now, SeqCst);
            if let Some(limit) = self.meeting {
                let until = Instant::now() + limit;
                while self.most.load(SeqCst) < 2 && Instant::now() < until {
                    std::thread::sleep(Duration::from_millis(1));
                }
            }
            if self.fails_from.is_some_and(|from| number >= from) {
                return Verdict::Fail(Error::new(ErrorKind::Io, "the network is down"));
            }
        }
        Verdict::Pass
    }

    fn after(&self, operation: &Operation<'_>, _outcome: std::result::Result<u64, &Error>) {
        if operation.asked == StoreCall::Read {
            self.now.fetch_sub(1, SeqCst);
        }
    }
}

impl Far {
    fn taken(&self) -> (u64, u64) {
        (self.reads.swap(0, SeqCst), self.bytes.swap(0, SeqCst))
    }
}

fn far(memory: Memory, watch: Far) -> (Arc<Wrapped<Far>>, Arc<dyn Layout>) {
    let store = Arc::new(Wrapped::with(Arc::new(memory), watch));
    (store.clone(), Arc::new(Direct::new(store as Arc<dyn Store>).unwrap()))
}

const SIDE: u64 = 8;

/// An array in SIDE × SIDE blocks of `edge` × `edge` numbers, each the number of its place.
fn grid(edge: u64, step: u32) -> Vec<Group> {
    let whole = SIDE * edge;
    let blocks = (0..SIDE * SIDE).map(|rank| {
        let (row, column) = (rank / SIDE * edge, rank % SIDE * edge);
        let numbers = (0..edge * edge).map(|i| ((row + i / edge) * whole + column + i % edge) as f64 + f64::from(step));
        let numbers: Vec<f64> = numbers.collect();
        let shape = Shape::global([edge, edge], [whole, whole], [row, column]);
        let field = Variable::array("field", ElementType::F64, shape, &numbers);
        let (variables, rank) = (vec![field], rank as u32);
        Group { header: header("g", step), variables, rank, ranks: (SIDE * SIDE) as u32, ..Group::default() }
    });
    blocks.collect()
}

fn one_file(edge: u64) -> Memory {
    let mut file = File::default();
    file.step(&grid(edge, 0), Ending::Finished);
    holding(&[("a.bp", &file.bytes)]).0
}

fn part(offset: [u64; 2], count: [u64; 2]) -> Selection {
    Selection::Box(BoundingBox::new(offset, count))
}

#[test]
fn every_selection_has_the_same_values_whatever_a_request_costs() {
    let edge = 16;
    let n = SIDE * edge;
    let mut files = Subfiles::default();
    files.step(&grid(edge, 0), Ending::Full);
    files.step(&grid(edge, 1), Ending::Finished);
    for memory in [one_file(edge), files.stored_as("a.bp").0] {
        for cost in [1, 700, 5000, 40_000, 1 << 20] {
            let (_, layout) = far(memory.clone(), Far { cost, ..Far::default() });
            let reader = Reader::open(layout, "a.bp").unwrap();
            for (offset, count) in [([0, 0], [n, n]), ([3, 5], [n - 4, n - 9]), ([0, 7], [n, 1]), ([9, 0], [1, n])] {
                let got: Vec<f64> = reader.read_as("field", 0, &part(offset, count)).unwrap();
                let expected: Vec<f64> = (0..count[0] * count[1])
                    .map(|i| ((offset[0] + i / count[1]) * n + offset[1] + i % count[1]) as f64)
                    .collect();
                assert!(got == expected, "{offset:?} {count:?} at a cost of {cost}");
            }
        }
    }
}

#[test]
fn a_whole_array_takes_one_request_for_each_window_not_one_for_each_row() {
    // 64 blocks of 2 MiB; a window is 4 MiB.
    let (store, layout) = far(one_file(512), Far { cost: 1 << 20, ..Far::default() });
    let reader = Reader::open(layout, "a.bp").unwrap();
    reader.variable("field").unwrap();
    store.watch().taken();
    let all: Vec<f64> = reader.read_as("field", 0, &Selection::All).unwrap();
    let (reads, bytes) = store.watch().taken();
    assert!(all.iter().enumerate().all(|(i, x)| *x == i as f64));
    assert!((32..=64).contains(&reads), "{reads} requests");
    assert!(bytes < (130 << 20), "{bytes} bytes");
    // Four blocks side by side, which lie behind each other in the file; and a part of one, gaps and all.
    reader.read_to_vec("field", 0, &part([0, 0], [512, 2048])).unwrap();
    let (reads, _) = store.watch().taken();
    assert!(reads <= 4, "{reads} requests");
    reader.read_to_vec("field", 0, &part([600, 600], [100, 100])).unwrap();
    let (reads, bytes) = store.watch().taken();
    assert!(reads == 1 && bytes < (420 << 10), "{reads} requests, {bytes} bytes");
}

#[test]
fn a_small_file_is_one_request() {
    let (store, layout) = far(one_file(4), Far { cost: 1 << 20, ..Far::default() });
    let reader = Reader::open(layout, "a.bp").unwrap();
    reader.variable("field").unwrap();
    let all: Vec<f64> = reader.read_as("field", 0, &Selection::All).unwrap();
    assert_eq!((all.len() as u64, store.watch().taken().0), (16 * SIDE * SIDE, 1));
}

#[test]
fn small_subfiles_are_one_request_each() {
    let mut files = Subfiles::default();
    (0..3).for_each(|step| files.step(&grid(4, step), Ending::Full));
    let (store, layout) = far(files.stored_as("a.bp").0, Far { cost: 1 << 20, ..Far::default() });
    let reader = Reader::open(layout, "a.bp").unwrap();
    for step in 0..3 {
        let all: Vec<f64> = reader.read_as("field", step, &Selection::All).unwrap();
        assert_eq!(all[17], 17.0 + step as f64);
    }
    assert_eq!(store.watch().taken().0, 1 + SIDE * SIDE);
}

#[test]
fn several_requests_are_under_way_at_the_same_time() {
    // One block of 32 MiB is several requests, too. A read waits until another is under way, or for long.
    let mut file = File::default();
    let numbers: Vec<f64> = (0..(4 << 20)).map(f64::from).collect();
    let shape = Shape::global([4 << 20], [4 << 20], [0]);
    let field = Variable::array("field", ElementType::F64, shape, &numbers);
    file.step(
        &[Group { header: header("g", 0), variables: vec![field], ranks: 1, ..Group::default() }],
        Ending::Finished,
    );
    let (store, layout) = far(
        holding(&[("a.bp", &file.bytes)]).0,
        Far { cost: 1 << 20, meeting: Some(Duration::from_secs(60)), ..Far::default() },
    );
    store.watch().most.store(2, SeqCst);
    let reader = Reader::open(layout, "a.bp").unwrap();
    reader.variable("field").unwrap();
    store.watch().most.store(0, SeqCst);
    let all: Vec<f64> = reader.read_as("field", 0, &Selection::All).unwrap();
    assert!(all == numbers);
    let most = store.watch().most.load(SeqCst);
    assert!((2..=16).contains(&most), "{most} requests at the same time");
}

#[test]
fn a_request_that_fails_ends_the_read_with_its_failure() {
    let memory = one_file(512);
    let mut kinds = HashSet::new();
    for fails_from in [1, 2, 5, 20, 60] {
        let watch = Far { cost: 1 << 20, fails_from: Some(fails_from), ..Far::default() };
        let (_, layout) = far(memory.clone(), watch);
        let failed = match Reader::open(layout, "a.bp") {
            Ok(reader) => reader.read_as::<f64>("field", 0, &Selection::All).map(|all| all.len()).unwrap_err(),
            Err(e) => e,
        };
        assert!(failed.to_string().contains("a.bp"), "{failed}");
        kinds.insert(failed.kind());
    }
    assert_eq!(kinds, HashSet::from([ErrorKind::Io]));
}
