//! What opening, listing and reading cost, counted at the store.

mod writer;

use std::sync::Arc;
use thalweg_bp::characteristic::SINGLE_FILE;
use thalweg_bp::index::Index;
use thalweg_layout::{Direct, Layout};
use thalweg_reader::Reader;
use thalweg_store::Memory;
use thalweg_store::wrap::Counting;
use thalweg_types::{BoundingBox, Selection, Value};
use writer::{Ending, File, Group, Variable, header, holding};

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
    file.step(&writer::groups(0, 8), Ending::Finished);
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
