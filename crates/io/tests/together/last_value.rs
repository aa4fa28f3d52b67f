//! What is written twice in a step: of a scalar, a text and the same box the last value counts, with every method, buffer
//! and way to write; other boxes and local arrays stay several blocks, and so do as many values of a scalar or text as it has
//! definitions. What is refused changes nothing.

use crate::common::*;
use thalweg_bp::shape::Shape;
use thalweg_comm::Communicator;
use thalweg_io::{Mode, Output, WriteRequest};
use thalweg_reader::{Reader, verify};
use thalweg_types::{ElementType, ErrorKind, MemorySelection, Selection, Value};

const METHODS: [(&str, &str); 8] = [
    ("MPI", ""),
    ("POSIX", ""),
    ("POSIX", "direct=1"),
    ("MPI_COLLECTIVE", ""),
    ("MPI_SCHEDULED", ""),
    ("MPI_AGGREGATE", "aggregators=1"),
    ("ADAPTIVE", ""),
    ("MPI", "direct=1"),
];
const BUFFERS: [&str; 3] = ["", r#"<buffer max-size-MB="0"/>"#, r#"<buffer max-size-MB="1"/>"#];
/// Doubles of a row: 40 KiB, so that deferred rows are left where they are.
const N: usize = 5000;

fn document(method: &str, parameters: &str, buffer: &str, transform: &str) -> String {
    format!(
        r#"<adios-config host-language="C"><adios-group name="g">
             <var name="before" type="integer"/><var name="n" type="integer"/><var name="rank" type="integer"/>
             <var name="ranks" type="integer"/><var name="note" type="string"/><var name="x" type="double"/>
             <global-bounds dimensions="2*ranks,n" offsets="2*rank,0"><var name="a" type="double" dimensions="2,n"/></global-bounds>
             <global-bounds dimensions="ranks,n" offsets="rank,0"><var name="z" type="double" dimensions="1,n" {transform}/></global-bounds>
             <global-bounds dimensions="ranks,n" offsets="rank,0"><var name="after" type="double" dimensions="1,n"/></global-bounds>
             <var name="local" type="integer" dimensions="3"/>
           </adios-group><method group="g" method="{method}">{parameters}</method>{buffer}</adios-config>"#
    )
}

fn values(first: f64, count: usize) -> Vec<f64> {
    (0..count).map(|i| first + i as f64).collect()
}

/// Memory that an output may defer.
struct Memory {
    old: Vec<f64>,
    new: Vec<f64>,
    wide: Vec<f64>,
    row: Vec<f64>,
}

/// How the array `a` is written, first and then again.
const VALUES: [(&str, &str); 6] = [
    ("copied", "copied"),
    ("copied", "deferred"),
    ("deferred", "copied"),
    ("deferred", "deferred"),
    ("copied", "inside"),
    ("inside", "deferred"),
];

fn put<'m>(output: &mut Output<'m>, how: &str, plain: &'m [f64], wide: &'m [f64]) {
    match how {
        "copied" => output.write_values("a", plain).unwrap(),
        "deferred" => output.put(WriteRequest::deferred("a", bytemuck::cast_slice(plain))).unwrap(),
        _ => {
            let memory = MemorySelection::new([4, N as u64 + 2], [1, 1]);
            output.put(WriteRequest::new("a", bytemuck::cast_slice(wide)).out_of(&memory)).unwrap();
        }
    }
}

/// The inside of an array with ghost zones.
fn wide(first: f64) -> Vec<f64> {
    let mut all = vec![-1.0; 4 * (N + 2)];
    for row in 0..2 {
        for i in 0..N {
            all[(row + 1) * (N + 2) + 1 + i] = first + (row * N + i) as f64;
        }
    }
    all
}

#[test]
fn the_last_value_counts_with_every_method() {
    for ranks in [1, 3] {
        for (method, parameters) in METHODS {
            for buffer in BUFFERS {
                for (first, again) in VALUES {
                    let case = format!("{ranks} {method} {parameters} {buffer} {first} {again}");
                    let place = Place::memory();
                    place.run(ranks, |comm| {
                        let session = place.session(&document(method, parameters, buffer, ""), &comm);
                        for step in 0..2u32 {
                            let mode = if step == 0 { Mode::Write } else { Mode::Append };
                            let base = f64::from(1000 * step + 10 * comm.rank());
                            let memory = Memory {
                                old: values(-5.0, 2 * N),
                                new: values(base, 2 * N),
                                wide: wide(if again == "inside" { base } else { -5.0 }),
                                row: values(base + 7.0, N),
                            };
                            let mut output = session.open("g", "x.bp", mode, comm.duplicate().unwrap()).unwrap();
                            output.write_values("before", &[1i32]).unwrap();
                            for (name, value) in
                                [("n", N as i32), ("rank", comm.rank() as i32), ("ranks", ranks as i32)]
                            {
                                output.write_values(name, &[value]).unwrap();
                            }
                            output.write_values("x", &[0.5f64]).unwrap();
                            put(&mut output, first, &memory.old, &memory.wide);
                            output.write_values("local", &[1i32, 1, 1]).unwrap();
                            output.write_values("after", &memory.row).unwrap();
                            // The same again.
                            output.write_values("before", &[2i32]).unwrap();
                            output.write_values("x", &[1.5f64]).unwrap();
                            output.write_values("x", &[2.5 + base]).unwrap();
                            put(&mut output, again, &memory.new, &memory.wide);
                            output.write_values("local", &[2i32, 2, 2]).unwrap();
                            output.close().unwrap_or_else(|e| panic!("{case}: {e}"));
                        }
                        session.finalize().unwrap();
                    });
                    check(&place, ranks, &case);
                }
            }
        }
    }
}

fn check(place: &Place, ranks: u32, case: &str) {
    let reader = Reader::open(place.layout.clone(), "x.bp").unwrap();
    for step in 0..2u64 {
        for name in ["before", "x", "a", "after"] {
            assert_eq!(reader.blocks(name, step).unwrap().len(), ranks as usize, "{case}: {name}");
        }
        assert_eq!(reader.blocks("local", step).unwrap().len(), 2 * ranks as usize, "{case}");
        for (rank, block) in (0..ranks).zip(reader.blocks("x", step).unwrap()) {
            let base = (1000 * step + 10 * u64::from(rank)) as f64;
            assert_eq!(block.value, Some(Value::F64(2.5 + base)), "{case}");
        }
        assert_eq!(reader.blocks("before", step).unwrap()[0].value, Some(Value::I32(2)), "{case}");
        let all = |per_rank: usize, more: f64| -> Vec<f64> {
            (0..ranks).flat_map(|r| values(1000.0 * step as f64 + 10.0 * f64::from(r) + more, per_rank)).collect()
        };
        assert!(reader.read_as::<f64>("a", step, &Selection::All).unwrap() == all(2 * N, 0.0), "{case}: a");
        assert!(reader.read_as::<f64>("after", step, &Selection::All).unwrap() == all(N, 7.0), "{case}: after");
        let statistics = reader.blocks("a", step).unwrap()[0].statistics.clone().unwrap();
        assert_eq!(statistics.min, Value::F64(1000.0 * step as f64), "{case}");
        for number in 0..2 {
            let read = reader.read_as::<i32>("local", step, &Selection::Block(number)).unwrap();
            assert_eq!(read, [number as i32 + 1; 3], "{case}");
        }
    }
    let report = verify(&*place.layout, "x.bp").unwrap();
    assert!(report.is_clean(), "{case}: {:?}", report.findings);
}

/// A program that defines the offset of an array once for each of the array's blocks means a block each.
#[test]
fn a_scalar_is_as_many_blocks_as_it_has_definitions() {
    for (method, parameters) in METHODS {
        for buffer in BUFFERS {
            let case = format!("{method} {parameters} {buffer}");
            let place = Place::memory();
            place.run(2, |comm| {
                let session = place.session(&document(method, parameters, buffer, ""), &comm);
                let (second, note) = {
                    let group = session.group("g").unwrap();
                    let mut group = group.lock();
                    let mut define =
                        |name, element| group.builder.define_variable(name, "", element, "", "", "").unwrap();
                    let second = define("before", ElementType::I32);
                    define("before", ElementType::I32);
                    (second, define("note", ElementType::String))
                };
                for step in 0..2 {
                    let mode = if step == 0 { Mode::Write } else { Mode::Append };
                    let mut output = session.open("g", "x.bp", mode, comm.duplicate().unwrap()).unwrap();
                    let base = 100 * step + 10 * comm.rank() as i32;
                    // Of step 1 the third definition stays without a value, and the second is written by its position.
                    output.write_values("before", &[base]).unwrap();
                    output.write("note", b"one").unwrap();
                    output.write_values("x", &[f64::from(base)]).unwrap();
                    match step {
                        0 => output.write_values("before", &[base + 1]).unwrap(),
                        _ => output.put(WriteRequest::new(second, &(base + 1).to_ne_bytes())).unwrap(),
                    }
                    output.put(WriteRequest::new(note, b"two")).unwrap();
                    output.write_values("x", &[f64::from(base) + 0.5]).unwrap();
                    for more in [2, 3, 4].into_iter().filter(|_| step == 0) {
                        output.write_values("before", &[base + more]).unwrap();
                    }
                    output.write("note", b"six").unwrap();
                    output.close().unwrap_or_else(|e| panic!("{case}: {e}"));
                }
                session.finalize().unwrap();
            });
            let reader = Reader::open(place.layout.clone(), "x.bp").unwrap();
            let values = |name: &str, step| -> Vec<Value> {
                reader.blocks(name, step).unwrap().iter().map(|b| b.value.clone().unwrap()).collect()
            };
            let numbers = |all: &[i32]| -> Vec<Value> { all.iter().map(|n| Value::I32(*n)).collect() };
            assert_eq!(values("before", 0), numbers(&[0, 1, 4, 10, 11, 14]), "{case}");
            assert_eq!(values("before", 1), numbers(&[100, 101, 110, 111]), "{case}");
            let text = |t: &str| Value::String(t.as_bytes().to_vec());
            for step in 0..2 {
                assert_eq!(values("note", step), [text("one"), text("six"), text("one"), text("six")], "{case}");
                let x = 100.0 * step as f64 + 0.5;
                assert_eq!(values("x", step), [Value::F64(x), Value::F64(x + 10.0)], "{case}");
            }
            let report = verify(&*place.layout, "x.bp").unwrap();
            assert!(report.is_clean(), "{case}: {:?}", report.findings);
        }
    }
}

/// Texts and transformed blocks change their length.
#[test]
fn other_lengths_take_the_place_in_memory_and_are_refused_in_storage() {
    for (method, parameters) in METHODS {
        for buffer in BUFFERS {
            let case = format!("{method} {parameters} {buffer}");
            let place = Place::memory();
            place.run(2, |comm| {
                let session = place.session(&document(method, parameters, buffer, r#"transform="zlib""#), &comm);
                let mut output = session.open("g", "x.bp", Mode::Write, comm.duplicate().unwrap()).unwrap();
                for (name, value) in [("n", N as i32), ("rank", comm.rank() as i32), ("ranks", 2)] {
                    output.write_values(name, &[value]).unwrap();
                }
                let (plain, noise) = (vec![1.0; N], values(0.25, N));
                output.write("note", b"short").unwrap();
                output.write_values("z", &plain).unwrap();
                output.write_values("after", &values(7.0, N)).unwrap();
                for again in [output.write("note", b"a longer text"), output.write_values("z", &noise)] {
                    if let Err(e) = again {
                        assert_eq!(e.kind(), ErrorKind::Unsupported, "{case}: {e}");
                        assert!(e.to_string().contains("in storage already"), "{case}: {e}");
                        assert!(buffer.contains("\"0\"") || parameters == "direct=1", "{case}: {e}");
                    }
                }
                output.write("note", b"other").unwrap();
                output.close().unwrap();
                session.finalize().unwrap();
            });
            let reader = Reader::open(place.layout.clone(), "x.bp").unwrap();
            let stored = buffer.contains("\"0\"") || parameters == "direct=1";
            for rank in 0..2u64 {
                let note = &reader.blocks("note", 0).unwrap()[rank as usize];
                assert_eq!(note.value, Some(Value::String(b"other".to_vec())), "{case}");
            }
            assert_eq!(reader.blocks("z", 0).unwrap().len(), 2, "{case}");
            let z = reader.read_as::<f64>("z", 0, &Selection::All).unwrap();
            let (new, old) = ([values(0.25, N), values(0.25, N)].concat(), vec![1.0; 2 * N]);
            assert!(z == new || (stored && z == old), "{case}");
            let after = reader.read_as::<f64>("after", 0, &Selection::All).unwrap();
            assert!(after == [values(7.0, N), values(7.0, N)].concat(), "{case}");
            let report = verify(&*place.layout, "x.bp").unwrap();
            assert!(report.is_clean(), "{case}: {:?}", report.findings);
        }
    }
}

#[test]
fn boxes_that_differ_stay_blocks_and_a_recovered_file_says_the_same() {
    let place = Place::memory();
    let text = document("MPI", "", "", "");
    place.run(1, |comm| {
        let session = place.session(&text, &comm);
        let mut output = session.open("g", "x.bp", Mode::Write, comm.duplicate().unwrap()).unwrap();
        for (value, row) in [(1.0, 0), (2.0, 2), (3.0, 0), (4.0, 1)] {
            let values = [value; 6];
            let request = WriteRequest::new("a", bytemuck::cast_slice(&values));
            output.put(request.in_box(Shape::global([2, 3], [8, 3], [2 * row, 0]))).unwrap();
        }
        output.close().unwrap();
        session.finalize().unwrap();
    });
    let before = contents(&place.layout, "x.bp").unwrap();
    let first: Vec<f64> = before[&("a".to_string(), 0)].iter().map(|b| bytemuck::pod_read_unaligned(&b[..8])).collect();
    assert_eq!(first, [3.0, 2.0, 4.0]);
}

/// A name has one number of dimensions in a step: the first write says which. Of its type, definitions see to that.
#[test]
fn another_number_of_dimensions_is_refused() {
    let place = Place::memory();
    place.run(1, |comm| {
        let session = place.session(&document("MPI", "", "", ""), &comm);
        let at = {
            let group = session.group("g").unwrap();
            let mut group = group.lock();
            group.builder.define_variable("x", "", ElementType::F64, "3", "", "").unwrap()
        };
        let mut output = session.open("g", "x.bp", Mode::Write, comm.duplicate().unwrap()).unwrap();
        output.write_values("x", &[1.5f64]).unwrap();
        let error = output.put(WriteRequest::new(at, &[0; 24])).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument);
        assert!(error.to_string().contains("in this step"), "{error}");
        output.close().unwrap();
        session.finalize().unwrap();
    });
    let reader = Reader::open(place.layout.clone(), "x.bp").unwrap();
    assert_eq!(reader.blocks("x", 0).unwrap()[0].value, Some(Value::F64(1.5)));
}

#[test]
fn an_array_that_only_a_box_describes_needs_the_box() {
    let place = Place::memory();
    let text = document("MPI", "", "", "");
    place.run(1, |comm| {
        let session = place.session(&text, &comm);
        for name in ["a", "local"] {
            let group = session.group("g").unwrap();
            let mut group = group.lock();
            let at = group.builder.group().variables.iter().position(|v| v.name == name).unwrap();
            group.builder.variable_mut(at).unwrap().needs_box = true;
        }
        let mut output = session.open("g", "x.bp", Mode::Write, comm.duplicate().unwrap()).unwrap();
        for name in ["a", "local"] {
            let at = output.position(name).unwrap();
            let outcomes = [
                output.write(name, &[]),
                output.put(WriteRequest::deferred(name, &[])),
                output.resolve(name, None, None).map(|_| ()),
                output.resolve(at, None, None).map(|_| ()),
            ];
            for outcome in outcomes {
                let error = outcome.unwrap_err();
                assert_eq!(error.kind(), ErrorKind::InvalidArgument);
                assert!(error.to_string().contains("needs a box"), "{error}");
            }
        }
        let request = WriteRequest::new("local", bytemuck::cast_slice(&[1i32, 2]));
        output.put(request.in_box(Shape::local([2]))).unwrap();
        output.close().unwrap();
        session.finalize().unwrap();
    });
    let reader = Reader::open(place.layout.clone(), "x.bp").unwrap();
    assert_eq!(reader.read_as::<i32>("local", 0, &Selection::Block(0)).unwrap(), [1, 2]);
}

#[test]
fn arrays_without_elements_are_there() {
    for (method, parameters) in METHODS {
        for buffer in BUFFERS {
            let case = format!("{method} {parameters} {buffer}");
            let place = Place::memory();
            place.run(2, |comm| {
                let session = place.session(&document(method, parameters, buffer, ""), &comm);
                let mut output = session.open("g", "x.bp", Mode::Write, comm.duplicate().unwrap()).unwrap();
                output.put(WriteRequest::new("local", &[]).in_box(Shape::local([0]))).unwrap();
                let nothing = Shape::global([0, 3], [0, 3], [0, 0]);
                output.put(WriteRequest::deferred("a", &[]).in_box(nothing)).unwrap();
                output.close().unwrap();
                session.finalize().unwrap();
            });
            let reader = Reader::open(place.layout.clone(), "x.bp").unwrap();
            assert_eq!(reader.shape("a", 0).unwrap(), [0, 3], "{case}");
            assert_eq!(reader.read_as::<f64>("a", 0, &Selection::All).unwrap().len(), 0, "{case}");
            let blocks = reader.blocks("local", 0).unwrap();
            assert_eq!(blocks.len(), 2, "{case}");
            assert_eq!(blocks[1].count, [0], "{case}");
            assert_eq!(reader.read_as::<i32>("local", 0, &Selection::Block(1)).unwrap().len(), 0, "{case}");
            let report = verify(&*place.layout, "x.bp").unwrap();
            assert!(report.is_clean(), "{case}: {:?}", report.findings);
        }
    }
}
