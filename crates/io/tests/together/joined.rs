//! Joined arrays are written without offsets and read as plain global arrays, blocks in the order of ranks.

use crate::common::*;
use thalweg_comm::Communicator;
use thalweg_io::{Mode, WriteRequest};
use thalweg_reader::{Block, Reader};
use thalweg_types::{ErrorKind, MemorySelection, Selection};

/// The same array, `joined` or with offsets that the program computes; `order` as the language has it.
fn document(method: &str, parameters: &str, language: &str, buffer: &str, joined: bool) -> String {
    let lists = |list: &[&str]| {
        let mut list = list.to_vec();
        if language == "Fortran" {
            list.reverse();
        }
        list.join(",")
    };
    let bounds = |dimensions: &[&str], offsets: &[&str]| match joined {
        true => format!("dimensions=\"{}\"", lists(dimensions).replace("total", "JoinedDim")),
        false => format!("dimensions=\"{}\" offsets=\"{}\"", lists(dimensions), lists(offsets)),
    };
    format!(
        r#"<adios-config host-language="{language}"><adios-group name="g">
             <var name="n" type="long"/><var name="total" type="long"/><var name="before" type="long"/>
             <global-bounds {}><var name="rows" type="double" dimensions="{}"/></global-bounds>
             <global-bounds {}><var name="columns" path="/b" type="integer" dimensions="{}"/></global-bounds>
           </adios-group><method group="g" method="{method}">{parameters}</method>{buffer}</adios-config>"#,
        bounds(&["total", "500"], &["before", "0"]),
        lists(&["n", "500"]),
        bounds(&["3", "total"], &["0", "before"]),
        lists(&["3", "n"]),
    )
}

/// How many rows the blocks of a rank have in a step.
fn blocks_of(rank: u32, step: u64) -> Vec<u64> {
    match (u64::from(rank) + step) % 4 {
        1 if rank > 0 => vec![],
        2 => vec![1, 4],
        3 => vec![2, 7, 1],
        _ => vec![3],
    }
}

fn write(place: &Place, document: &str, deferred: bool, ranks: u32) {
    place.run(ranks, |comm| {
        let session = place.session(document, &comm);
        for step in 0..3 {
            let mode = if step == 0 { Mode::Write } else { Mode::Append };
            let own = blocks_of(comm.rank(), step);
            let values: Vec<(Vec<f64>, Vec<i32>)> = own
                .iter()
                .map(|n| {
                    let base = 1000 * step as i32 + 100 * comm.rank() as i32 + *n as i32;
                    ((0..500 * n).map(|i| f64::from(base) + i as f64).collect(), (base..base + 3 * *n as i32).collect())
                })
                .collect();
            let mut output = session.open("g", "x.bp", mode, comm.duplicate().unwrap()).unwrap();
            let rows = |r: u32| blocks_of(r, step).iter().sum::<u64>();
            let total: u64 = (0..comm.size()).map(rows).sum();
            let mut before: u64 = (0..comm.rank()).map(rows).sum();
            output.write_values("total", &[total as i64]).unwrap();
            for (n, (rows, columns)) in own.iter().zip(&values) {
                output.write_values("n", &[*n as i64]).unwrap();
                output.write_values("before", &[before as i64]).unwrap();
                before += n;
                if deferred {
                    output.put(WriteRequest::deferred("rows", bytemuck::cast_slice(rows))).unwrap();
                    output.put(WriteRequest::deferred("columns", bytemuck::cast_slice(columns))).unwrap();
                } else {
                    output.write_values("rows", rows).unwrap();
                    output.write_values("columns", columns).unwrap();
                }
            }
            output.close().unwrap();
        }
        session.finalize().unwrap();
    });
}

/// An array in one step: name, shape, blocks with their places and statistics, values.
type Array = (String, Vec<u64>, Vec<Block>, Vec<f64>);

fn arrays(place: &Place) -> Vec<Array> {
    let reader = Reader::open(place.layout.clone(), "x.bp").unwrap();
    let mut all = Vec::new();
    for name in ["rows", "/b/columns"] {
        for step in 0..3 {
            let shape = reader.shape(name, step).unwrap();
            let values = match name {
                "rows" => reader.read_as::<f64>(name, step, &Selection::All).unwrap(),
                _ => reader.read_as::<i32>(name, step, &Selection::All).unwrap().into_iter().map(f64::from).collect(),
            };
            all.push((name.to_string(), shape, reader.blocks(name, step).unwrap(), values));
        }
    }
    all
}

#[test]
fn they_are_what_the_same_array_with_offsets_is() {
    for ranks in [1, 3, 4] {
        for (method, parameters) in [("MPI", ""), ("POSIX", ""), ("POSIX", "direct=2000")] {
            for buffer in ["", "<buffer max-size-MB=\"0\"/>"] {
                for language in ["C", "Fortran"] {
                    let (with_offsets, joined) = (Place::memory(), Place::memory());
                    write(&with_offsets, &document(method, parameters, language, buffer, false), false, ranks);
                    for deferred in [false, true] {
                        let document = document(method, parameters, language, buffer, true);
                        write(&joined, &document, deferred, ranks);
                        let case = format!("{ranks} {deferred} {document}");
                        assert_eq!(arrays(&joined), arrays(&with_offsets), "{case}");
                        let report = thalweg_reader::verify(&*joined.layout, "x.bp").unwrap();
                        assert!(report.is_clean(), "{case}: {:?}", report.findings);
                    }
                }
            }
        }
    }
}

#[test]
fn a_block_without_elements_adds_nothing() {
    let place = Place::memory();
    place.run(3, |comm| {
        let session = place.session(&document("MPI", "", "C", "", true), &comm);
        for step in 0..2 {
            let mode = if step == 0 { Mode::Write } else { Mode::Append };
            let mut output = session.open("g", "x.bp", mode, comm.duplicate().unwrap()).unwrap();
            let n = if comm.rank() == 1 && step == 0 { 2i64 } else { 0 };
            output.write_values("n", &[n]).unwrap();
            output.write_values("columns", &vec![7i32; 3 * n as usize]).unwrap();
            output.close().unwrap();
        }
        session.finalize().unwrap();
    });
    let reader = Reader::open(place.layout.clone(), "x.bp").unwrap();
    assert_eq!(reader.shape("/b/columns", 0).unwrap(), [3, 2]);
    let places = reader.blocks("/b/columns", 0).unwrap().into_iter().map(|b| (b.offset, b.count));
    assert!(places.eq([(vec![0, 0], vec![3, 0]), (vec![0, 0], vec![3, 2]), (vec![0, 0], vec![3, 0])]));
    assert_eq!(reader.shape("/b/columns", 1).unwrap(), [3, 0]);
    assert_eq!(reader.variable("/b/columns").unwrap().steps, [0, 1]);
}

#[test]
fn the_blocks_of_a_rank_that_failed_leave_no_hole() {
    let place = Place::memory();
    place.run(3, |comm| {
        let session = place.session(&document("MPI", "", "C", "", true), &comm);
        let mut output = session.open("g", "x.bp", Mode::Write, comm.duplicate().unwrap()).unwrap();
        output.write_values("n", &[2i64]).unwrap();
        output.write_values("columns", &[comm.rank() as i32; 6]).unwrap();
        if comm.rank() == 1 {
            output.fail(thalweg_types::Error::new(ErrorKind::Io, "cannot go on"));
        }
        assert!(output.close().is_err());
    });
    let reader = Reader::open(place.layout.clone(), "x.bp").unwrap();
    let row = [0, 0, 2, 2];
    assert_eq!(reader.read_as::<i32>("/b/columns", 0, &Selection::All).unwrap(), [row; 3].concat());
}

#[test]
fn what_cannot_be_joined_is_refused() {
    let place = Place::memory();
    let outcomes = place.run(2, |comm| {
        let other = comm.rank() == 1;
        let session = place.session(&document("MPI", "", "C", "", !other), &comm);
        session.open("g", "x.bp", Mode::Write, comm.duplicate().unwrap()).err().map(|e| e.to_string())
    });
    for outcome in outcomes {
        let words = outcome.expect("ranks disagree about what is joined");
        assert!(words.contains("ranks have declared different joined arrays"), "{words}");
    }
    place.run(1, |comm| {
        let session = place.session(&document("MPI", "", "C", "", true), &comm);
        let mut output = session.open("g", "x.bp", Mode::Write, comm.duplicate().unwrap()).unwrap();
        output.write_values("n", &[2i64]).unwrap();
        output.set_path("/first");
        output.write_values("columns", &[1i32; 6]).unwrap();
        output.set_path("/second");
        let error = output.write_values("columns", &[1i32; 6]).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
        output.set_path("/first");
        let memory = MemorySelection::new([3, 4], [0, 2]);
        output
            .put(
                WriteRequest::new("columns", bytemuck::cast_slice(&[1, 1, 8, 9, 1, 1, 8, 9, 1, 1, 8, 9i32]))
                    .out_of(&memory),
            )
            .unwrap();
        output.close().unwrap();
    });
    let reader = Reader::open(place.layout.clone(), "x.bp").unwrap();
    let row = [1, 1, 8, 9];
    assert_eq!(reader.read_as::<i32>("/first/columns", 0, &Selection::All).unwrap(), [row; 3].concat());
}
