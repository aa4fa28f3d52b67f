//! Large arrays in many blocks, read by several threads, into arrays with ghost zones, and many reads planned together.

use crate::writer::{Ending, File, Group, Variable, header, holding, open};
use std::sync::Arc;
use thalweg_bp::shape::Shape;
use thalweg_layout::{Direct, Layout};
use thalweg_reader::Reader;
use thalweg_store::wrap::counting::Counting;
use thalweg_store::{Memory, StoreExt};
use thalweg_types::{BoundingBox, ElementType, ErrorKind, MemorySelection, Selection};

/// Extents of the array, and into how many blocks it is cut.
const SHAPE: [u64; 3] = [160, 128, 80];
const CUTS: [u64; 3] = [4, 2, 5];

fn value(step: u32, at: [u64; 3]) -> f64 {
    f64::from(step) * 1e9 + (at[0] * 1_000_000 + at[1] * 1000 + at[2]) as f64
}

fn each(offset: [u64; 3], count: [u64; 3], mut each: impl FnMut([u64; 3])) {
    for x in offset[0]..offset[0] + count[0] {
        for y in offset[1]..offset[1] + count[1] {
            for z in offset[2]..offset[2] + count[2] {
                each([x, y, z]);
            }
        }
    }
}

/// A step of one array in 40 blocks of 320 KB, each written by a rank of its own.
fn large(steps: u32) -> File {
    let mut file = File::default();
    let size = [SHAPE[0] / CUTS[0], SHAPE[1] / CUTS[1], SHAPE[2] / CUTS[2]];
    for step in 0..steps {
        let mut groups = Vec::new();
        each([0; 3], CUTS, |at| {
            let offset = [at[0] * size[0], at[1] * size[1], at[2] * size[2]];
            let mut values = Vec::new();
            each(offset, size, |at| values.push(value(step, at)));
            let shape = Shape::global(size, SHAPE, offset);
            groups.push(Group {
                header: header("g", step),
                variables: vec![Variable::array("v", ElementType::F64, shape, &values)],
                rank: groups.len() as u32,
                ranks: 40,
                ..Group::default()
            });
        });
        file.step(&groups, if step + 1 == steps { Ending::Finished } else { Ending::Record });
    }
    file
}

fn read(reader: &Reader, step: u32, offset: [u64; 3], count: [u64; 3]) {
    let got: Vec<f64> = reader.read_as("v", u64::from(step), &Selection::Box(BoundingBox::new(offset, count))).unwrap();
    let mut wanted = Vec::new();
    each(offset, count, |at| wanted.push(value(step, at)));
    assert!(got == wanted, "step {step}, {count:?} at {offset:?}");
}

#[test]
fn every_part_of_an_array_in_many_blocks_is_as_it_was_written() {
    let file = large(2);
    let (_, layout) = holding(&[("a.bp", &file.bytes)]);
    let reader = open(&layout, "a.bp").unwrap();
    read(&reader, 1, [0; 3], SHAPE);
    // Large enough to be cut among threads, which happens in the middle of blocks.
    read(&reader, 1, [5, 0, 0], [153, 128, 80]);
    read(&reader, 0, [3, 1, 2], [150, 127, 78]);
    for d in 0..3 {
        let (mut offset, mut plane, mut pencil) = ([7, 60, 41], SHAPE, [1; 3]);
        (offset[d], plane[d], pencil[d]) = (SHAPE[d] / 2 + 1, 1, SHAPE[d]);
        read(&reader, 0, std::array::from_fn(|i| if i == d { offset[i] } else { 0 }), plane);
        offset[d] = 0;
        read(&reader, 1, offset, pencil);
    }
    // A restart on 6 ranks, whose boxes fit no block.
    for rank in 0..6 {
        read(&reader, 0, [0, rank * 128 / 6, 0], [160, (rank + 1) * 128 / 6 - rank * 128 / 6, 80]);
    }
}

#[test]
fn a_selection_fills_its_place_in_a_larger_array_and_nothing_else() {
    let file = large(1);
    let (_, layout) = holding(&[("a.bp", &file.bytes)]);
    let reader = open(&layout, "a.bp").unwrap();
    for (offset, count) in [([0; 3], SHAPE), ([20, 40, 10], [50, 70, 61]), ([5, 0, 3], [1, 128, 1])] {
        let memory = MemorySelection::new(count.map(|c| c + 4), [2, 1, 3]);
        let mut out = vec![-1.0f64; memory.elements().unwrap() as usize];
        let selection = Selection::Box(BoundingBox::new(offset, count));
        let bytes = zerocopy::IntoBytes::as_mut_bytes(out.as_mut_slice());
        let filled = reader.read_into("v", 0, &selection, bytes, &memory).unwrap();
        assert_eq!(filled, count.iter().product::<u64>());
        let mut values = out.iter();
        each([0; 3], count.map(|c| c + 4), |at| {
            let inside = (0..3).all(|d| at[d] >= memory.start[d] && at[d] < memory.start[d] + count[d]);
            let place = std::array::from_fn(|d| at[d].wrapping_sub(memory.start[d]).wrapping_add(offset[d]));
            let wanted = if inside { value(0, place) } else { -1.0 };
            assert_eq!(*values.next().unwrap(), wanted, "{at:?}");
        });
        let (narrow, flat) = (MemorySelection::new(count, [0, 1, 0]), MemorySelection::new([1000], [0]));
        let refused = |memory, kind| {
            assert_eq!(reader.read_into("v", 0, &selection, &mut [], memory).unwrap_err().kind(), kind);
        };
        refused(&narrow, ErrorKind::OutOfBounds);
        refused(&flat, ErrorKind::InvalidArgument);
        refused(&memory, ErrorKind::InvalidArgument);
    }
}

#[test]
fn reads_of_a_batch_get_what_each_alone_gets() {
    let file = large(3);
    let (_, layout) = holding(&[("a.bp", &file.bytes)]);
    let reader = open(&layout, "a.bp").unwrap();
    let mut batch = reader.batch();
    let mut alone = Vec::new();
    for step in 0..3u64 {
        for selection in [
            Selection::All,
            Selection::Box(BoundingBox::new([step, 3, 9], [70, 1, 30])),
            Selection::Points((0..50).map(|i| vec![i % 96, (7 * i) % 128, (11 * i) % 80]).collect()),
            Selection::Block(step + 30),
        ] {
            let number = batch.add("v", &[step], &selection, None).unwrap();
            assert_eq!(number, alone.len());
            alone.push(reader.read_to_vec("v", step, &selection).unwrap());
        }
    }
    let points = Selection::Points(vec![vec![1, 2, 3], vec![95, 127, 79]]);
    batch.add("v", &[0, 1, 2], &points, None).unwrap();
    let mut over_time = vec![0u8; 48];
    reader.read_steps("v", &[0, 1, 2], &points, &mut over_time).unwrap();
    alone.push(over_time);
    assert_eq!(batch.add("w", &[0], &Selection::All, None).unwrap_err().kind(), ErrorKind::NotFound);
    let mut memory: Vec<Vec<u8>> = (0..batch.len()).map(|n| vec![0; batch.bytes(n) as usize]).collect();
    let mut out: Vec<&mut [u8]> = memory.iter_mut().map(Vec::as_mut_slice).collect();
    let filled = batch.perform(&mut out).unwrap();
    assert!(memory == alone);
    assert_eq!(filled.iter().sum::<u64>(), alone.iter().map(|a| a.len() as u64 / 8).sum::<u64>());
}

#[test]
fn what_lies_side_by_side_is_read_at_once_whatever_it_belongs_to() {
    let mut file = File::default();
    let names = ["a", "b", "c", "d"];
    let variables = names.map(|n| Variable::array(n, ElementType::F64, Shape::global([8], [8], [0]), &[1.0f64; 8]));
    let group = Group { header: header("g", 0), variables: variables.to_vec(), ranks: 1, ..Group::default() };
    file.step(&[group], Ending::Finished);
    let memory = Arc::new(Memory::new());
    memory.write_all("a.bp", &file.bytes).unwrap();
    let counting = Arc::new(Counting::new(memory));
    let layout: Arc<dyn Layout> = Arc::new(Direct::new(counting.clone()).unwrap());
    let reader = open(&layout, "a.bp").unwrap();
    let mut batch = reader.batch();
    for name in names {
        batch.add(name, &[0], &Selection::All, None).unwrap();
    }
    counting.take();
    let mut out = [[0u8; 64]; 4];
    batch.perform(&mut out.each_mut().map(<[u8; 64]>::as_mut_slice)).unwrap();
    assert_eq!(out.concat(), [1.0f64; 32].map(f64::to_ne_bytes).concat());
    assert_eq!(counting.counted().total().reads, 1);
}

#[test]
fn planes_along_blocks_read_hardly_more_than_they_hold() {
    let file = large(1);
    let memory = Arc::new(Memory::new());
    memory.write_all("a.bp", &file.bytes).unwrap();
    let counting = Arc::new(Counting::new(memory));
    let layout: Arc<dyn Layout> = Arc::new(Direct::new(counting.clone()).unwrap());
    let reader = open(&layout, "a.bp").unwrap();
    reader.length("v", 0, &Selection::All).unwrap();
    for x in [0, 40, 159] {
        counting.take();
        let plane = Selection::Box(BoundingBox::new([x, 0, 0], [1, 128, 80]));
        let bytes = reader.read_to_vec("v", 0, &plane).unwrap().len() as u64;
        let read = counting.counted().total().bytes_read;
        assert!(read * 10 <= bytes * 11, "{read} bytes read for {bytes}");
    }
}

#[test]
fn data_that_is_cut_off_is_told_with_its_variable_whoever_reads_it() {
    let file = large(1);
    let (memory, layout) = holding(&[("a.bp", &file.bytes)]);
    let reader = open(&layout, "a.bp").unwrap();
    reader.length("v", 0, &Selection::All).unwrap();
    memory.write_all("a.bp", &file.bytes[..file.bytes.len() / 2]).unwrap();
    let mut out = vec![0; 8 * SHAPE.iter().product::<u64>() as usize];
    let told = reader.read("v", 0, &Selection::All, &mut out).unwrap_err();
    assert_eq!((told.kind(), told.place().variable.as_deref()), (ErrorKind::Torn, Some("v")), "{told}");
}
