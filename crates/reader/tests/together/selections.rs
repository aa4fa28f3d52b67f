//! What a reader can ask for, and what it is told where it can't be had.

use crate::writer::{Ending, File, Group, Variable, field, groups, header, holding, open};
use std::sync::Arc;
use thalweg_bp::shape::{JOINED, Shape};
use thalweg_reader::{Kind, Reader};
use thalweg_types::{BoundingBox, ElementType, ErrorKind, Selection, Value};

fn one_step(variables: Vec<Vec<Variable>>, fortran: bool) -> Reader {
    let ranks = variables.len() as u32;
    let groups: Vec<Group> = variables
        .into_iter()
        .enumerate()
        .map(|(rank, variables)| {
            let mut header = header("g", 0);
            header.fortran = fortran;
            Group { header, variables, rank: rank as u32, ranks, ..Group::default() }
        })
        .collect();
    let mut file = File::default();
    file.step(&groups, Ending::Finished);
    let (_, layout) = holding(&[("a.bp", &file.bytes)]);
    assert!(
        thalweg_reader::verify(&*layout, "a.bp").unwrap().findings.iter().all(|f| f.byte.is_none() || f.step.is_some())
    );
    open(&layout, "a.bp").unwrap()
}

fn steps(n: u32) -> Reader {
    let mut file = File::default();
    (0..n).for_each(|step| file.step(&groups(step, 3), if step + 1 < n { Ending::Record } else { Ending::Finished }));
    let (_, layout) = holding(&[("a.bp", &file.bytes)]);
    open(&layout, "a.bp").unwrap()
}

#[test]
fn a_box_over_several_steps_comes_step_by_step() {
    let reader = steps(4);
    let wanted = Selection::Box(BoundingBox::new([1, 2], [4, 2]));
    let got: Vec<f64> = reader.read_steps_as("field", &[3, 0, 1], &wanted).unwrap();
    let expected: Vec<f64> =
        [3, 0, 1].iter().flat_map(|s| (1..5).flat_map(move |r| (2..4).map(move |c| field(*s, r, c)))).collect();
    assert_eq!(got, expected);
    let all: Vec<i32> = reader.read_steps_as("step", &[0, 1, 2, 3], &Selection::All).unwrap();
    assert_eq!(all, [0, 1, 2, 3]);
}

#[test]
fn points_come_in_the_order_asked() {
    let reader = steps(1);
    let points = vec![vec![5, 4], vec![0, 0], vec![2, 3], vec![5, 4]];
    let got: Vec<f64> = reader.read_as("field", 0, &Selection::Points(points)).unwrap();
    assert_eq!(got, [field(0, 5, 4), field(0, 0, 0), field(0, 2, 3), field(0, 5, 4)]);
}

#[test]
fn fortran_groups_are_turned_round_for_the_caller() {
    // 3 x 2 in Fortran: stored fastest first, so C sees [2][3] with the same bytes.
    let values = [11i16, 21, 31, 12, 22, 32];
    let v = Variable::array("a", ElementType::I16, Shape::global([3, 2], [3, 4], [0, 2]), &values);
    let reader = one_step(vec![vec![v]], true);
    assert_eq!(reader.shape("a", 0).unwrap(), [4, 3]);
    let block = &reader.blocks("a", 0).unwrap()[0];
    assert_eq!((&block.offset[..], &block.count[..]), (&[2, 0][..], &[2, 3][..]));
    let column: Vec<i16> = reader.read_as("a", 0, &Selection::Box(BoundingBox::new([2, 1], [2, 1]))).unwrap();
    assert_eq!(column, [21, 22]);
}

#[test]
fn the_later_of_two_blocks_wins_where_both_hold_an_element() {
    let block =
        |from: u64, value: i32| Variable::array("a", ElementType::I32, Shape::global([4], [6], [from]), &[value; 4]);
    for (order, wanted) in [([0, 2], [1, 1, 2, 2, 2, 2]), ([2, 0], [2, 2, 2, 2, 1, 1])] {
        let reader = one_step(vec![vec![block(order[0], 1)], vec![block(order[1], 2)]], false);
        let mut out = [0i32; 6];
        let filled = reader.read("a", 0, &Selection::All, zerocopy::IntoBytes::as_mut_bytes(&mut out[..])).unwrap();
        assert_eq!((filled, out), (6, wanted));
        let points = Selection::Points(vec![vec![2], vec![3], vec![0]]);
        let got: Vec<i32> = reader.read_as("a", 0, &points).unwrap();
        assert_eq!(got, [wanted[2], wanted[3], wanted[0]]);
    }
}

#[test]
fn joined_arrays_get_their_offsets_in_the_order_of_blocks() {
    let block = |n: u64, value: u8| {
        Variable::array("a", ElementType::U8, Shape::global([n, 2], [JOINED, 2], [0, 0]), &vec![value; 2 * n as usize])
    };
    let reader = one_step(vec![vec![block(1, 1)], vec![block(3, 2)], vec![block(1, 3)]], false);
    assert_eq!(reader.variable("a").unwrap().kind, Kind::Global);
    assert_eq!(reader.shape("a", 0).unwrap(), [5, 2]);
    let got: Vec<u8> = reader.read_as("a", 0, &Selection::All).unwrap();
    assert_eq!(got, [1, 1, 2, 2, 2, 2, 2, 2, 3, 3]);
}

#[test]
fn blocks_without_elements_and_elements_without_blocks_are_no_trouble() {
    let empty = Variable::array("a", ElementType::F32, Shape::global([0, 3], [4, 3], [0, 0]), &[0f32; 0]);
    let full = Variable::array("a", ElementType::F32, Shape::global([2, 3], [4, 3], [1, 0]), &[7f32; 6]);
    let reader = one_step(vec![vec![empty], vec![full]], false);
    let mut out = [-1f32; 12];
    let filled = reader.read("a", 0, &Selection::All, zerocopy::IntoBytes::as_mut_bytes(&mut out[..])).unwrap();
    assert_eq!(filled, 6);
    assert_eq!(out, [-1., -1., -1., 7., 7., 7., 7., 7., 7., -1., -1., -1.]);
    assert!(reader.read_to_vec("a", 0, &Selection::Block(0)).unwrap().is_empty());
    let nothing = Selection::Box(BoundingBox::new([1, 1], [0, 2]));
    assert!(reader.read_to_vec("a", 0, &nothing).unwrap().is_empty());
    let summary = reader.summary("a", 0..9).unwrap();
    assert_eq!((summary.min, summary.finite, summary.blocks), (Some(Value::F32(7.0)), Some(6), 2));
}

#[test]
fn what_cannot_be_had_is_said_with_name_step_and_reason() {
    let reader = steps(2);
    let kind = |name: &str, step, selection: &Selection| {
        let e = reader.read_to_vec(name, step, selection).unwrap_err();
        assert!(e.to_string().contains(name) && e.to_string().contains("a.bp"), "{e}");
        e.kind()
    };
    let boxed = |o: &[u64], c: &[u64]| Selection::Box(BoundingBox { offset: o.to_vec(), count: c.to_vec() });
    assert_eq!(kind("field", 2, &Selection::All), ErrorKind::NotFound);
    assert_eq!(kind("field", u64::MAX, &Selection::All), ErrorKind::NotFound);
    assert_eq!(kind("field", 0, &boxed(&[0, 0], &[7, 1])), ErrorKind::OutOfBounds);
    assert_eq!(kind("field", 0, &boxed(&[u64::MAX, 0], &[2, 1])), ErrorKind::OutOfBounds);
    assert_eq!(kind("field", 0, &boxed(&[0], &[1])), ErrorKind::OutOfBounds);
    assert_eq!(kind("field", 0, &boxed(&[0, 0, 0], &[1])), ErrorKind::OutOfBounds);
    assert_eq!(kind("field", 0, &Selection::Points(vec![vec![0, 5]])), ErrorKind::OutOfBounds);
    assert_eq!(kind("field", 0, &Selection::Block(3)), ErrorKind::OutOfBounds);
    assert_eq!(kind("wave", 0, &boxed(&[0], &[1])), ErrorKind::InvalidArgument);
    assert_eq!(kind("step", 0, &boxed(&[], &[])), ErrorKind::InvalidArgument);
    let e = reader.read_to_vec("feild", 0, &Selection::All).unwrap_err();
    assert!(e.kind() == ErrorKind::NotFound && e.to_string().contains("\"field\""), "{e}");
    assert_eq!(reader.read_as::<f32>("field", 0, &Selection::All).unwrap_err().kind(), ErrorKind::InvalidArgument);
    assert_eq!(reader.read("field", 0, &Selection::All, &mut [0; 8]).unwrap_err().kind(), ErrorKind::InvalidArgument);
    assert_eq!(reader.value("field", 0).unwrap_err().kind(), ErrorKind::InvalidArgument);
}

#[test]
fn a_shape_far_larger_than_the_data_takes_no_memory() {
    let v = Variable::array("a", ElementType::F64, Shape::global([2], [1 << 50], [7]), &[1f64, 2.0]);
    let reader = one_step(vec![vec![v]], false);
    assert_eq!(reader.read_to_vec("a", 0, &Selection::All).unwrap_err().kind(), ErrorKind::NoMemory);
    let part: Vec<f64> = reader.read_as("a", 0, &Selection::Box(BoundingBox::new([6], [4]))).unwrap();
    assert_eq!(part, [0., 1., 2., 0.]);
}

#[test]
fn many_threads_read_one_file() {
    let reader = Arc::new(steps(3));
    std::thread::scope(|scope| {
        for _ in 0..8 {
            let reader = Reader::clone(&reader);
            scope.spawn(move || (0..20).for_each(|_| crate::writer::check_steps(&reader, 3, 3)));
        }
    });
}

#[test]
fn a_result_larger_than_a_cache_comes_whole_wherever_its_rows_begin() {
    // 4 x 4 blocks of 1030 x 701 numbers: rows that begin and end anywhere in a line of the cache.
    let (rows, columns) = (1030u64, 701u64);
    let number = |row: u64, column: u64| (row * 4 * columns + column) as i32;
    let blocks = (0..16u64).map(|b| {
        let (y, x) = (b / 4 * rows, b % 4 * columns);
        let values: Vec<i32> = (0..rows * columns).map(|i| number(y + i / columns, x + i % columns)).collect();
        vec![Variable::array(
            "a",
            ElementType::I32,
            Shape::global([rows, columns], [4 * rows, 4 * columns], [y, x]),
            &values,
        )]
    });
    let reader = one_step(blocks.collect(), false);
    for inside in
        [BoundingBox::new([0, 0], [4 * rows, 4 * columns]), BoundingBox::new([3, 5], [4 * rows - 7, 4 * columns - 9])]
    {
        let got: Vec<i32> = reader.read_as("a", 0, &Selection::Box(inside.clone())).unwrap();
        let (y, x, width) = (inside.offset[0], inside.offset[1], inside.count[1]);
        let wrong = got.iter().zip(0u64..).find(|(v, i)| **v != number(y + i / width, x + i % width));
        assert_eq!((got.len() as u64, wrong), (inside.elements().unwrap(), None));
    }
}
