//! What opening, listing and reading cost, counted at the store.

use crate::writer::{Ending, File, Group, Subfiles, Variable, header, holding};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use thalweg_bp::characteristic::SINGLE_FILE;
use thalweg_bp::index::Index;
use thalweg_bp::shape::Shape;
use thalweg_layout::{Direct, Layout};
use thalweg_reader::{Reader, Reads};
use thalweg_store::Memory;
use thalweg_store::wrap::{Counting, Operation, Verdict, Watch, Wrapped};
use thalweg_types::{BoundingBox, ElementType, Error, Selection, Value};

fn counted(memory: Memory) -> (Arc<Counting>, Arc<dyn Layout>) {
    let counting = Arc::new(Counting::new(Arc::new(memory)));
    (counting.clone(), Arc::new(Direct::new(counting).unwrap()))
}

#[test]
fn one_variable_of_many_is_listed_without_reading_the_others() {
    let mut file = File::default();
    let mut index = Index::default();
    for step in 0..2000 {
        let variables = (0..10).map(|v| Variable::scalar(&format!("v{v}"), &Value::F64(f64::from(step * v)))).collect();
        let group = Group { header: header("g", step), variables, ranks: 1, ..Group::default() };
        let (bytes, fragment) = group.encode(file.bytes.len() as u64, SINGLE_FILE);
        file.bytes.extend(bytes);
        index.append_fragment(&fragment.to_fragment()).unwrap();
    }
    let encoded = index.encode(file.bytes.len() as u64, false, true).unwrap();
    let index_length = encoded.length;
    file.bytes.extend(encoded.to_bytes());
    let (memory, _) = holding(&[("a.bp", &file.bytes)]);
    let (counting, layout) = counted(memory);
    let reader = Reader::open(layout, "a.bp").unwrap();
    let opened = counting.take().total();
    assert!(opened.reads <= 8, "{opened:?}");
    assert!(opened.bytes_read < 4096, "{opened:?}");
    assert_eq!(reader.variable("v7").unwrap().steps.len(), 2000);
    let listed = counting.take().total();
    assert_eq!(listed.reads, 1, "{listed:?}");
    assert!(listed.bytes_read < index_length / 8, "{listed:?} of {index_length}");
    let steps: Vec<u64> = (0..2000).collect();
    let values: Vec<f64> = reader.read_steps_as("v7", &steps, &Selection::All).unwrap();
    assert_eq!((values[3], counting.take().total().reads), (21.0, 0));
}

#[test]
fn neighbouring_blocks_are_one_read() {
    let mut file = File::default();
    file.step(&crate::writer::groups(0, 8), Ending::Finished);
    let (memory, _) = holding(&[("a.bp", &file.bytes)]);
    let (counting, layout) = counted(memory);
    let reader = Reader::open(layout, "a.bp").unwrap();
    reader.variable("field").unwrap();
    counting.take();
    reader.read_to_vec("field", 0, &Selection::All).unwrap();
    assert_eq!(counting.take().total().reads, 1);
    let part = Selection::Box(BoundingBox::new([3, 0], [2, 5]));
    reader.read_to_vec("field", 0, &part).unwrap();
    let read = counting.take().total();
    assert!(read.reads == 1 && read.bytes_read < 1000, "{read:?}");
}

#[test]
fn comparing_groups_costs_no_request_where_values_lie_near_what_tells_of_them() {
    let (ranks, steps) = (20, 5);
    let mut files = Subfiles::default();
    (0..steps).for_each(|step| files.step(&crate::writer::groups(step, ranks), Ending::Full));
    let (memory, _) = files.stored_as("a.bp");
    let (counting, layout) = counted(memory);
    let reads = |reads: Reads| {
        let reader = Reader::open(layout.clone(), "a.bp").unwrap().with_reads(reads);
        reader.variable("field").unwrap();
        counting.take();
        let pass = || {
            for step in 0..u64::from(steps) {
                for row in 0..2 * u64::from(ranks) {
                    let point = Selection::Points(vec![vec![row, 3]]);
                    let value: Vec<f64> = reader.read_as("field", step, &point).unwrap();
                    assert_eq!(value, [crate::writer::field(step as u32, row, 3)]);
                }
            }
            counting.take().total()
        };
        (pass(), pass())
    };
    let (groups, points) = (u64::from(ranks * steps), u64::from(2 * ranks * steps));
    let (first, again) = reads(Reads::Unchecked);
    assert_eq!((first.reads, again.reads, first.opens_for_reading), (points, points, u64::from(ranks)));
    let (first, again) = reads(Reads::Compared);
    // The process group index was read with what is known of the variable.
    assert_eq!((first.reads, again.reads, first.opens_for_reading), (points, points, u64::from(ranks)));
    let length = files.parts[0].len() as u64 / u64::from(steps);
    assert!(first.bytes_read <= 8 * points + length * groups, "{first:?}");
}

#[test]
fn a_step_over_many_subfiles_costs_as_many_requests_compared_as_not() {
    let ranks = 100;
    let mut files = Subfiles::default();
    (0..3).for_each(|step| files.step(&crate::writer::groups(step, ranks), Ending::Full));
    let (memory, _) = files.stored_as("a.bp");
    let (counting, layout) = counted(memory);
    let mut costs = Vec::new();
    for reads in [Reads::Unchecked, Reads::Compared] {
        let reader = Reader::open(layout.clone(), "a.bp").unwrap().with_reads(reads);
        counting.take();
        let all: Vec<f64> = reader.read_as("field", 1, &Selection::All).unwrap();
        assert_eq!(all[10 * 70 + 7], crate::writer::field(1, 141, 2));
        let total = counting.take().total();
        costs.push((total.opens_for_reading, total.lengths, total.reads));
    }
    assert_eq!((costs[0].0, costs[0].1), (costs[1].0, costs[1].1));
    assert!(costs[1].2 <= costs[0].2, "{costs:?}");
}

#[test]
fn values_far_from_the_end_of_their_group_cost_one_small_read_more() {
    // A point at the front of a large block.
    let large = vec![0.5f64; 100_000];
    let group = |rank: u32| Group {
        header: header("g", 0),
        variables: vec![Variable::array(
            "large",
            ElementType::F64,
            Shape::global([1, 100_000], [2, 100_000], [u64::from(rank), 0]),
            &large,
        )],
        rank,
        ranks: 2,
        run: 7,
        ..Group::default()
    };
    let mut files = Subfiles::default();
    files.step(&[group(0), group(1)], Ending::Finished);
    let (memory, _) = files.stored_as("a.bp");
    let (counting, layout) = counted(memory);
    let reader = Reader::open(layout, "a.bp").unwrap();
    reader.variable("large").unwrap();
    counting.take();
    reader.read_to_vec("large", 0, &Selection::Points(vec![vec![1, 7]])).unwrap();
    let first = counting.take().total();
    assert_eq!((first.reads, first.bytes_read), (2, 512 + 8));
    reader.read_to_vec("large", 0, &Selection::Points(vec![vec![1, 9]])).unwrap();
    assert_eq!(counting.take().total().reads, 1);
    // The other one as a whole: its values go straight to their place.
    reader.read_to_vec("large", 0, &Selection::Box(BoundingBox::new([0, 0], [1, 100_000]))).unwrap();
    let whole = counting.take().total();
    assert_eq!((whole.reads, whole.bytes_read), (2, 512 + 800_000));
}

/// How many operations are inside of the store at once.
#[derive(Default)]
struct Together {
    now: AtomicUsize,
    most: AtomicUsize,
}

impl Watch for Together {
    fn describe(&self) -> &'static str {
        "counting"
    }

    fn before(&self, _: &Operation<'_>) -> Verdict {
        let now = self.now.fetch_add(1, SeqCst) + 1;
        self.most.fetch_max(now, SeqCst);
        // As far away as some stores are.
        std::thread::sleep(std::time::Duration::from_millis(2));
        Verdict::Pass
    }

    fn after(&self, _: &Operation<'_>, _: std::result::Result<u64, &Error>) {
        self.now.fetch_sub(1, SeqCst);
    }
}

#[test]
fn subfiles_on_a_far_store_are_opened_and_looked_at_several_at_a_time() {
    let mut files = Subfiles::default();
    files.step(&crate::writer::groups(0, 60), Ending::Finished);
    let (memory, _) = files.stored_as("a.bp");
    let far = Arc::new(Wrapped::with(Arc::new(memory), Together::default()));
    let reader = Reader::open(Arc::new(Direct::new(far.clone()).unwrap()), "a.bp").unwrap();
    let all: Vec<f64> = reader.read_as("field", 0, &Selection::All).unwrap();
    assert_eq!(all[10 * 41 + 7], crate::writer::field(0, 83, 2));
    assert!(far.watch().most.load(SeqCst) > 1);
}

#[test]
fn small_groups_of_one_subfile_are_compared_many_at_a_time() {
    // Steps of one rank: all groups lie behind each other in one subfile.
    let mut files = Subfiles::default();
    (0..300).for_each(|step| {
        files.step(&crate::writer::groups(step, 1), if step == 0 { Ending::Full } else { Ending::Record })
    });
    files.step(&crate::writer::groups(300, 1), Ending::Finished);
    let (memory, _) = files.stored_as("a.bp");
    let (counting, layout) = counted(memory);
    let reader = Reader::open(layout, "a.bp").unwrap();
    reader.variable("field").unwrap();
    counting.take();
    let steps: Vec<u64> = (0..=300).collect();
    let all: Vec<f64> = reader.read_steps_as("field", &steps, &Selection::All).unwrap();
    assert_eq!(all[10 * 300 + 7], crate::writer::field(300, 1, 2));
    let read = counting.take().total();
    assert!(read.reads < 20, "{read:?} for {} bytes", files.parts[0].len());
}

#[test]
fn a_single_file_costs_nothing_more() {
    let mut file = File::default();
    file.step(&crate::writer::groups(0, 8), Ending::Finished);
    let (memory, _) = holding(&[("a.bp", &file.bytes)]);
    let (counting, layout) = counted(memory);
    let mut costs = Vec::new();
    for reads in [Reads::Unchecked, Reads::Compared] {
        let reader = Reader::open(layout.clone(), "a.bp").unwrap().with_reads(reads);
        reader.read_to_vec("field", 0, &Selection::Points(vec![vec![5, 2]])).unwrap();
        reader.read_to_vec("wave", 0, &Selection::Block(3)).unwrap();
        let total = counting.take().total();
        costs.push((total.reads, total.bytes_read));
    }
    assert_eq!(costs[0], costs[1]);
}
