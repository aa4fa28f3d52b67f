//! Small files to search.
#![allow(dead_code, reason = "each test file uses its part")]

use std::path::Path;
use std::sync::Arc;
use thalweg_comm::Communicator;
use thalweg_comm::alone::Alone;
use thalweg_io::{Mode, Session};
use thalweg_layout::{Direct, Layout};
use thalweg_reader::Reader;
use thalweg_schema::xml;
use thalweg_store::{Memory, Posix, Store};
use thalweg_types::{BoundingBox, ElementType, Value};

/// The variables of a file that [`written`] makes.
pub const NAMES: [&str; 2] = ["a", "b"];

/// An array of two dimensions as one rank writes it, block by block.
#[derive(Debug, Clone)]
pub struct Array {
    pub element: ElementType,
    pub stats: &'static str,
    pub shape: [u64; 2],
    pub blocks: Vec<(BoundingBox, Vec<Value>)>,
}

pub fn disk(folder: &Path) -> Arc<dyn Layout> {
    Arc::new(Direct::new(Arc::new(Posix::at(folder).unwrap())).unwrap())
}

/// A group with both arrays, each with sizes and places of its own.
pub fn document(arrays: &[Array]) -> String {
    let mut text = String::from("<adios-config host-language=\"C\"><adios-group name=\"g\">");
    for (name, array) in NAMES.iter().zip(arrays) {
        for letter in ["gy", "gx", "oy", "ox", "ny", "nx"] {
            text += &format!("<var name=\"{letter}_{name}\" type=\"unsigned long\"/>");
        }
        text += &format!(
            "<global-bounds dimensions=\"gy_{name},gx_{name}\" offsets=\"oy_{name},ox_{name}\">\
             <var name=\"{name}\" type=\"{}\" stats=\"{}\" dimensions=\"ny_{name},nx_{name}\"/></global-bounds>",
            array.element, array.stats
        );
    }
    text + "</adios-group><method group=\"g\" method=\"MPI\"/></adios-config>"
}

/// Writes one step.
pub fn write_step(session: &Session, path: &str, mode: Mode, arrays: &[Array]) {
    let mut output = session.open("g", path, mode, Box::new(Alone::new())).unwrap();
    for (name, array) in NAMES.iter().zip(arrays) {
        for (bounds, values) in &array.blocks {
            let sizes = [
                ("gy", array.shape[0]),
                ("gx", array.shape[1]),
                ("oy", bounds.offset[0]),
                ("ox", bounds.offset[1]),
                ("ny", bounds.count[0]),
                ("nx", bounds.count[1]),
            ];
            for (letter, size) in sizes {
                output.write_values(&format!("{letter}_{name}"), &[size]).unwrap();
            }
            let mut bytes = Vec::new();
            values.iter().for_each(|v| v.append_to(&mut bytes));
            output.write(name, &bytes).unwrap();
        }
    }
    output.close().unwrap();
}

/// A file with these steps on a store.
pub fn write(store: Arc<dyn Store>, steps: &[&[Array]]) -> Arc<dyn Layout> {
    let layout: Arc<dyn Layout> = Arc::new(Direct::new(store).unwrap());
    let schema = xml::parse(&document(steps[0]), "test.xml").unwrap();
    let session = Session::with_layout(schema, layout.clone(), Alone::new().duplicate().unwrap()).unwrap();
    for (n, arrays) in steps.iter().enumerate() {
        write_step(&session, "x.bp", if n == 0 { Mode::Write } else { Mode::Append }, arrays);
    }
    session.finalize().unwrap();
    layout
}

/// A file with one step in memory.
pub fn written(arrays: &[Array]) -> Reader {
    Reader::open(write(Arc::new(Memory::new()), &[arrays]), "x.bp").unwrap()
}
