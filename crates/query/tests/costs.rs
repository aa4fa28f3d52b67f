//! What a query reads, and what it keeps for its next batch.

mod common;

use common::*;
use std::sync::Arc;
use thalweg_layout::{Direct, Layout};
use thalweg_query::{Answer, How, NonFinite, Operator, Query};
use thalweg_reader::Reader;
use thalweg_store::wrap::Counting;
use thalweg_store::{Memory, Store};
use thalweg_types::{BoundingBox, ElementType, ErrorKind, Selection, Value};

/// 64 rows in 16 blocks of 4 rows; a row's values are its number and a little more. The other array counts down.
fn arrays() -> [Array; 2] {
    let shape = [64, 32];
    let array = |value: &dyn Fn(u64) -> f64| Array {
        element: ElementType::F64,
        stats: "full",
        shape,
        blocks: (0..16)
            .map(|b| {
                let values = (0..4).flat_map(|y| (0..32).map(move |x| (4 * b + y, x)));
                let values = values.map(|(y, x)| Value::F64(value(y) + x as f64 / 100.0)).collect();
                (BoundingBox::new([4 * b, 0], [4, 32]), values)
            })
            .collect(),
    };
    [array(&|y| y as f64), array(&|y| 64.0 - y as f64)]
}

const BLOCK: u64 = 4 * 32 * 8;

struct Counted {
    store: Arc<Counting>,
    reader: Reader,
}

impl Counted {
    fn new(steps: &[&[Array]]) -> Counted {
        let store = Arc::new(Counting::new(Arc::new(Memory::new())));
        let layout: Arc<dyn Layout> = Arc::new(Direct::new(store.clone() as Arc<dyn Store>).unwrap());
        write(store.clone(), steps);
        let reader = Reader::open(layout, "x.bp").unwrap();
        // What is known of variables is read once.
        for name in NAMES {
            reader.blocks(name, 0).unwrap();
        }
        Counted { store, reader }
    }

    /// Bytes that `f` reads, and what it gives.
    fn read<T>(&self, f: impl FnOnce(&Reader) -> T) -> (u64, T) {
        let before = self.store.counted().total().bytes_read;
        let result = f(&self.reader);
        (self.store.counted().total().bytes_read - before, result)
    }
}

fn count(query: &Query, reader: &Reader) -> u64 {
    query.evaluate(reader, 0).unwrap().next_batch(u64::MAX).unwrap().places.len() as u64
}

#[test]
fn only_blocks_that_are_in_doubt_are_read() {
    let file = Counted::new(&[&arrays()]);
    let above = |n: f64| Query::compare("a", Operator::Greater, n);
    for (query, found, blocks) in [
        // Whole blocks match or fail.
        (above(31.5), 32 * 32, 0),
        (above(-1.0), 64 * 32, 0),
        (above(64.0), 0, 0),
        (Query::compare("a", Operator::Equal, 99.0), 0, 0),
        // One block has both.
        (above(29.5), 34 * 32, 1),
        (Query::compare("a", Operator::Equal, 17.25), 1, 1),
        // Where one comparison fails for certain, the other is not looked at.
        (above(29.5).and(Query::compare("b", Operator::Greater, 64.5)), 0, 0),
        (above(29.5).or(Query::compare("b", Operator::Greater, 0.5)), 64 * 32, 0),
        // a from 29.5 and b from 29.5: rows 30 to 34; the first block in doubt for a is certain for b and so on.
        (above(29.5).and(Query::compare("b", Operator::Greater, 29.5)), 5 * 32, 2),
        (above(29.5).within(&Selection::Box(BoundingBox::new([0, 0], [30, 32]))), 0, 1),
        (above(29.5).within(&Selection::Points(vec![vec![40, 0], vec![0, 0]])), 1, 0),
        (above(29.5).within(&Selection::Block(9)), 4 * 32, 0),
    ] {
        let (bytes, n) = file.read(|reader| count(&query, reader));
        assert_eq!(n, found, "{query}");
        assert!(bytes <= blocks * BLOCK, "{query}: {bytes} bytes, {blocks} blocks are in doubt");
        assert!(blocks == 0 || bytes > 0, "{query}");
        let (bytes, estimate) = file.read(|reader| query.estimate(reader, 0).unwrap());
        assert_eq!(bytes, 0, "an estimate of {query}");
        assert!((estimate.least..=estimate.most).contains(&found), "{query}");
        let (bytes, _) = file.read(|reader| query.blocks(reader, 0, NonFinite::Compared).unwrap());
        assert_eq!(bytes, 0, "blocks of {query}");
    }
}

#[test]
fn a_point_in_doubt_costs_no_whole_block() {
    let file = Counted::new(&[&arrays()]);
    let points = Selection::Points(vec![vec![28, 3], vec![31, 31]]);
    let query = Query::compare("a", Operator::Greater, 29.5).within(&points);
    let (bytes, found) = file.read(|reader| query.evaluate(reader, 0).unwrap().next_batch(9).unwrap().places);
    assert_eq!(found, [1]);
    assert!(bytes <= BLOCK, "{bytes}");
}

#[test]
fn a_later_batch_goes_on_where_the_last_one_ended() {
    let file = Counted::new(&[&arrays()]);
    // The first column of every row: each block is in doubt.
    let rows = (0..16).map(|b| Query::compare("a", Operator::Equal, f64::from(4 * b + 1)));
    let query = Query::Any(rows.collect());
    let (all, n) = file.read(|reader| count(&query, reader));
    // What lies between blocks in the file is read through.
    assert!(n == 16 && (16 * BLOCK..24 * BLOCK).contains(&all), "{n} {all}");
    let (batches, places) = file.read(|reader| {
        let mut evaluation = query.evaluate_with(reader, 0, &How { memory: 20_000, ..How::default() }).unwrap();
        let mut places = Vec::new();
        loop {
            let batch = evaluation.next_batch(1).unwrap();
            places.extend(batch.places.iter().map(|p| evaluation.index_of(*p)));
            if !batch.more {
                break;
            }
        }
        places
    });
    assert_eq!(places, (0..16).map(|b| vec![4 * b + 1, 0]).collect::<Vec<_>>());
    assert!(batches <= all, "one by one reads {batches} bytes, all at once {all}");
}

#[test]
fn the_first_match_does_not_cost_the_whole_array() {
    let file = Counted::new(&[&arrays()]);
    let query = Query::Any((0..64).map(|y| Query::compare("a", Operator::Equal, f64::from(y) + 0.05)).collect());
    let how = How { memory: 4 * BLOCK * 20, ..How::default() };
    let (bytes, batch) = file.read(|reader| query.evaluate_with(reader, 0, &how).unwrap().next_batch(1).unwrap());
    assert_eq!((batch.places, batch.more), (vec![5], true));
    assert!(bytes <= 8 * BLOCK, "{bytes}");
}

#[test]
fn an_array_larger_than_memory_is_searched_in_parts() {
    let values = |n: u64| (0..n).map(|i| Value::U8((i % 251) as u8)).collect::<Vec<_>>();
    let shape = [1000, 1000];
    let array = Array {
        element: ElementType::U8,
        stats: "full",
        shape,
        blocks: vec![(BoundingBox::new([0, 0], shape), values(1_000_000))],
    };
    let reader = written(&[array.clone(), array]);
    let query = Query::compare("a", Operator::Equal, 7).and(Query::compare("b", Operator::Less, 9));
    let how = How { memory: 10_000, ..How::default() };
    let mut evaluation = query.evaluate_with(&reader, 0, &how).unwrap();
    let mut n = 0;
    loop {
        let batch = evaluation.next_batch(1000).unwrap();
        assert!(batch.places.iter().all(|p| p % 251 == 7));
        n += batch.places.len();
        if !batch.more {
            break;
        }
    }
    assert_eq!(n, (0..1_000_000).filter(|i| i % 251 == 7).count());
}

#[test]
fn blocks_over_each_other_do_not_cover_what_neither_holds() {
    // Together they have as many elements as the array.
    let block = (BoundingBox::new([0, 0], [1, 2]), vec![Value::I32(5); 2]);
    let array = Array { element: ElementType::I32, stats: "full", shape: [1, 4], blocks: vec![block.clone(), block] };
    let reader = written(&[array.clone(), array]);
    let query = Query::compare("a", Operator::Equal, 5);
    assert_eq!(query.evaluate(&reader, 0).unwrap().next_batch(9).unwrap().places, [0, 1]);
}

#[test]
fn what_became_so_between_two_steps() {
    let [a, b] = arrays();
    let file = Counted::new(&[&[a.clone(), b.clone()], &[b, a]]);
    let query = Query::compare("a", Operator::Less, 16.0).and(Query::compare("a", Operator::Greater, 60.0).at_step(1));
    let found = query.evaluate(&file.reader, 0).unwrap().next_batch(u64::MAX).unwrap();
    // Rows 0 to 15 were below 16, rows 0 to 3 were above 60 a step later, and most of row 4: 60 itself is not.
    assert_eq!(found.places.len(), 4 * 32 + 31);
}

#[test]
fn blocks_are_told_apart_with_what_is_certain() {
    let file = Counted::new(&[&arrays()]);
    let blocks = |query: &Query| -> Vec<(u64, Answer)> {
        let found = query.blocks(&file.reader, 0, NonFinite::Left).unwrap();
        found.into_iter().map(|c| (c.block, c.answer)).collect()
    };
    let query = Query::compare("a", Operator::Greater, 57.5);
    assert_eq!(blocks(&query), [(14, Answer::Maybe), (15, Answer::Yes)]);
    let both = query.clone().and(Query::compare("b", Operator::Less, 3.0));
    assert_eq!(blocks(&both), [(15, Answer::Maybe)]);
    let boxed = query.within(&Selection::Box(BoundingBox::new([2, 0], [57, 8])));
    assert_eq!(blocks(&boxed), [(14, Answer::Maybe)]);
}

#[test]
fn what_does_not_fit_is_refused_with_its_place() {
    let [a, mut b] = arrays();
    b.shape = [64, 40];
    let reader = written(&[a, b]);
    let ask = |query: Query| query.evaluate(&reader, 0).err().unwrap();
    let above = |name: &str| Query::compare(name, Operator::Greater, 1);
    let leaves = Selection::Box(BoundingBox::new([60, 0], [5, 1]));
    let every_second = Selection::Strided { bounds: BoundingBox::new([0, 0], [4, 4]), stride: vec![2, 2] };
    for (query, step, kind, part) in [
        (above("c"), 0, ErrorKind::NotFound, "\"c\""),
        (above("a"), 1, ErrorKind::NotFound, "1 steps"),
        (above("a").and(above("b")), 0, ErrorKind::InvalidArgument, "[64, 40]"),
        (above("a").within(&leaves), 0, ErrorKind::OutOfBounds, "leaves the shape"),
        (above("a").within(&every_second), 0, ErrorKind::InvalidArgument, "every n-th element"),
        (above("a").within(&Selection::Block(16)), 0, ErrorKind::OutOfBounds, "no block 16"),
        (above("a").within(&Selection::Points(vec![vec![0]])), 0, ErrorKind::OutOfBounds, "point [0]"),
        (above("gy_a").within(&leaves), 0, ErrorKind::InvalidArgument, "single value"),
        (Query::All(vec![]), 0, ErrorKind::InvalidArgument, "without a comparison"),
        (Query::compare("a", Operator::Less, f64::NAN), 0, ErrorKind::InvalidArgument, "NaN"),
    ] {
        let error = query.evaluate(&reader, step).err().unwrap();
        assert_eq!(error.kind(), kind, "{query}: {error}");
        assert!(error.to_string().contains(part), "{error}");
        assert_eq!(query.estimate(&reader, step).unwrap_err().kind(), kind);
    }
    assert!(ask(above("c")).to_string().contains("x.bp"));
    // A value alone has one place.
    let found = above("gy_a").evaluate(&reader, 0).unwrap().next_batch(5).unwrap();
    assert_eq!(found.places, [0]);
}
