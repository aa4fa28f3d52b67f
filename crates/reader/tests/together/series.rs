//! One element of many steps: from the second series on, the blocks of the steps are in memory, and the values are the same.

use crate::writer::{Ending, File, Group, Variable, header, holding};
use std::sync::Arc;
use thalweg_bp::shape::Shape;
use thalweg_layout::{Direct, Layout};
use thalweg_reader::Reader;
use thalweg_store::wrap::Counting;
use thalweg_types::{BoundingBox, ElementType, ErrorKind, Result, Selection};

const STEPS: u32 = 100;
const SHAPE: [u64; 2] = [4, 5];

fn value(variable: u32, step: u32, element: u64) -> f32 {
    (variable * 100_000 + step * 100) as f32 + element as f32
}

/// Two variables of one block per step. In step `moves`, the block is another one of the same array.
fn steps(from: u32, to: u32, moves: Option<u32>, file: &mut File) {
    for step in from..to {
        let moved = moves == Some(step);
        let variables = (0..2).map(|variable| {
            let values: Vec<f32> = (0..20).map(|element| value(variable, step, element)).collect();
            let shape = match moved {
                true => Shape::global([2, 5], SHAPE, [2, 0]),
                false => Shape::global(SHAPE, SHAPE, [0, 0]),
            };
            let values = if moved { &values[10..] } else { &values };
            Variable::array(["u", "v"][variable as usize], ElementType::F32, shape, values)
        });
        let group =
            Group { header: header("g", step), variables: variables.collect(), ranks: 1, run: 7, ..Group::default() };
        file.step(&[group], if step == 0 { Ending::Full } else { Ending::Record });
    }
}

fn series(reader: &Reader, name: &str, steps: &[u64], point: [u64; 2]) -> Result<Vec<f32>> {
    reader.read_steps_as(name, steps, &Selection::Box(BoundingBox::new(point, [1, 1])))
}

fn counted(file: &File) -> (Arc<Counting>, Arc<dyn Layout>) {
    let (memory, _) = holding(&[("x.bp", &file.bytes)]);
    let counting = Arc::new(Counting::new(Arc::new(memory)));
    (counting.clone(), Arc::new(Direct::new(counting).unwrap()))
}

#[test]
fn the_third_series_of_a_variable_reads_nothing_and_all_have_the_values_of_the_file() {
    let mut file = File::default();
    steps(0, STEPS, None, &mut file);
    let (counting, layout) = counted(&file);
    let reader = Reader::open(layout, "x.bp").unwrap();
    let all: Vec<u64> = (0..u64::from(STEPS)).collect();
    let back: Vec<u64> = all.iter().rev().copied().collect();
    for (number, name) in [(0, "u"), (1, "v"), (0, "u")] {
        for order in [&all, &back] {
            for element in 0..20u64 {
                counting.take();
                let got = series(&reader, name, order, [element / 5, element % 5]).unwrap();
                let wanted: Vec<f32> = order.iter().map(|step| value(number, *step as u32, element)).collect();
                assert_eq!(got, wanted, "{name} {element}");
                let reads = counting.take().total().reads;
                assert_eq!(reads == 0, element > 1, "{name} {element}: {reads} reads");
            }
        }
    }
    // A box outside is refused as before, whatever is in memory.
    series(&reader, "u", &all, [0, 0]).unwrap();
    series(&reader, "u", &all, [0, 0]).unwrap();
    let refused = series(&reader, "u", &all, [4, 0]).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::OutOfBounds);
    let no_such_step = series(&reader, "u", &[all.clone(), vec![u64::from(STEPS)]].concat(), [0, 0]).unwrap_err();
    assert_eq!(no_such_step.kind(), ErrorKind::NotFound);
}

#[test]
fn blocks_that_differ_between_steps_are_read_element_by_element() {
    let mut file = File::default();
    steps(0, STEPS, Some(70), &mut file);
    let (_, layout) = counted(&file);
    let reader = Reader::open(layout, "x.bp").unwrap();
    let all: Vec<u64> = (0..u64::from(STEPS)).collect();
    for round in 0..3 {
        for element in [3u64, 13] {
            let got = series(&reader, "u", &all, [element / 5, element % 5]).unwrap();
            // No block of step 70 covers the first rows.
            let there = |step: u32| step != 70 || element >= 10;
            let wanted = (0..STEPS).map(|step| if there(step) { value(0, step, element) } else { 0.0 });
            assert_eq!(got, wanted.collect::<Vec<f32>>(), "{round} {element}");
        }
    }
}

#[test]
fn steps_that_were_added_are_part_of_the_next_series() {
    let mut file = File::default();
    steps(0, STEPS, None, &mut file);
    let (memory, layout) = holding(&[("x.bp", &file.bytes)]);
    let mut reader = Reader::open(layout, "x.bp").unwrap();
    let all: Vec<u64> = (0..u64::from(STEPS)).collect();
    for _ in 0..3 {
        series(&reader, "v", &all, [1, 1]).unwrap();
    }
    steps(STEPS, STEPS + 9, None, &mut file);
    thalweg_store::StoreExt::write_all(&memory, "x.bp", &file.bytes).unwrap();
    assert!(reader.catch_up().unwrap());
    let all: Vec<u64> = (0..u64::from(STEPS + 9)).collect();
    for _ in 0..3 {
        let wanted: Vec<f32> = (0..STEPS + 9).map(|step| value(1, step, 6)).collect();
        assert_eq!(series(&reader, "v", &all, [1, 1]).unwrap(), wanted);
    }
}
