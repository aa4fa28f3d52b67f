//! Names with slashes at the end of a path, at the beginning of a name, and several in a row: read by the full names that they are
//! written by, none in another's place.

use crate::common::*;
use thalweg_comm::Communicator;
use thalweg_io::{Mode, Session};
use thalweg_schema::{GroupBuilder, Schema, full_name};
use thalweg_types::ElementType;

const PATHS: [&str; 10] = ["", "/", "//", "a", "a/", "a//", "/a", "/a/", "//a", "a//c"];

#[test]
fn every_path_and_name_is_read_as_it_was_written() {
    for name in ["b", "/b", "b//d", "//b"] {
        let place = Place::memory();
        // One after the other, as different paths and names join to one full name.
        for path in PATHS {
            let full = full_name(path, name);
            place.run(2, |comm| {
                let session =
                    Session::with_layout(Schema::default(), place.layout.clone(), comm.duplicate().unwrap()).unwrap();
                let mut group = GroupBuilder::new("g").unwrap();
                group.define_variable(name, path, ElementType::I32, "", "", "").unwrap();
                group.define_variable("many", path, ElementType::I32, "2", "", "").unwrap();
                group.select_method("MPI", "", "").unwrap();
                session.declare(group).unwrap();
                let mut output = session.open("g", "x.bp", Mode::Write, comm.duplicate().unwrap()).unwrap();
                output.write_values(&full, &[7i32]).unwrap();
                output.write_values(&full_name(path, "many"), &[8i32, 9]).unwrap();
                output.close().unwrap();
                session.finalize().unwrap();
            });
            let reader = thalweg_reader::Reader::open(place.layout.clone(), "x.bp").unwrap();
            let mut names: Vec<String> = reader.variables().iter().map(|head| head.name.clone()).collect();
            names.sort();
            let mut wanted = vec![full.clone(), full_name(path, "many")];
            wanted.sort();
            assert_eq!(names, wanted, "path {path:?}, name {name:?}");
        }
    }
}

#[test]
fn names_that_differ_in_slashes_alone_are_several() {
    let names = ["b", "/b", "//b", "a/b", "a//b", "/a/b", "a///b"];
    // As path and name, cut at each place.
    let cuts = names.map(|full| full.split_at(full.rfind('/').map_or(0, |at| at + 1)));
    let place = Place::memory();
    place.run(2, |comm| {
        let session = Session::with_layout(Schema::default(), place.layout.clone(), comm.duplicate().unwrap()).unwrap();
        let mut group = GroupBuilder::new("g").unwrap();
        for (path, name) in cuts {
            group.define_variable(name, path, ElementType::I32, "", "", "").unwrap();
        }
        group.select_method("MPI", "", "").unwrap();
        session.declare(group).unwrap();
        let mut output = session.open("g", "x.bp", Mode::Write, comm.duplicate().unwrap()).unwrap();
        for (value, name) in (10i32..).zip(names) {
            output.write_values(name, &[value]).unwrap();
        }
        output.close().unwrap();
        session.finalize().unwrap();
    });
    let reader = thalweg_reader::Reader::open(place.layout.clone(), "x.bp").unwrap();
    assert_eq!(reader.variables().len(), names.len());
    for (value, name) in (10i32..).zip(names) {
        assert_eq!(reader.value(name, 0).unwrap(), thalweg_types::Value::I32(value), "{name}");
    }
}
