//! The index of a file costs the same per step however many steps there are, and a file closed for good carries no
//! more of it than a reader needs.

use crate::common::*;
use std::sync::Arc;
use thalweg_bp::live::Live;
use thalweg_bp::{extension, scan, step_record};
use thalweg_comm::Communicator;
use thalweg_comm::alone::Alone;
use thalweg_io::Mode;
use thalweg_reader::Reader;
use thalweg_store::memory::Memory;
use thalweg_store::wrap::{Counting, Forgetful};
use thalweg_types::{ByteOrder, Selection};

/// Full indexes and step records among the bytes of a file that are no process groups.
fn count(file: &[u8]) -> (usize, usize) {
    let scan = scan::scan(file, ByteOrder::NATIVE).unwrap();
    assert!(scan.torn.is_none());
    let starting_with =
        |magic: &[u8]| scan.dead.iter().filter(|e| file[e.offset as usize..].starts_with(magic)).count();
    (starting_with(extension::MAGIC), starting_with(step_record::MAGIC))
}

fn write(place: &Place, method: &str, parameters: &str, steps: u64, finalize: bool) {
    let comm = Alone::new();
    let session = place.session(&heat(method, parameters), &comm);
    for step in 0..steps {
        write_heat(&session, "x.bp", if step == 0 { Mode::Write } else { Mode::Append }, &comm, step);
    }
    if finalize {
        session.finalize().unwrap();
    }
}

#[test]
fn three_thousand_small_steps_bring_a_dozen_full_indexes() {
    let place = Place::memory();
    let steps = 3000u64;
    write(&place, "MPI", "", steps, false);
    let file = bytes(&*place.store, "x.bp");
    let (full, records) = count(&file);
    // One for each doubling; all other steps have a record.
    assert!((10..=13).contains(&full), "{full} full indexes");
    assert_eq!(full + records, steps as usize);

    let live = Live::find(&file).unwrap();
    assert_eq!((u64::from(live.step_count()), live.finished()), (steps, false));
    let index = live.load(&file).unwrap();
    let groups = index.process_groups().unwrap();
    assert!((1..).zip(&groups).all(|(time, g)| g.time_index == time), "one group a step, in order");

    // Data, one index entry a step in its record, and at most twice the last full index.
    let data: u64 = scan::scan(&file, ByteOrder::NATIVE).unwrap().groups.iter().map(|g| g.extent.length).sum();
    let entries = index.length();
    let names_in_records = 1200 * steps;
    assert!((file.len() as u64) < data + 3 * entries + names_in_records, "{} {data} {entries}", file.len());

    let reader = Reader::open(place.layout.clone(), "x.bp").unwrap();
    for step in [0, 1, 511, 512, 2047, 2998, 2999] {
        assert_eq!(reader.read_as::<f64>("t", step, &Selection::All).unwrap(), t(0, step, 4));
    }
    // Nothing was open for writing to the end: this is what a reader that follows along sees. Then it is closed.
    let comm = Alone::new();
    let session = place.session(&heat("MPI", ""), &comm);
    write_heat(&session, "x.bp", Mode::Append, &comm, steps);
    session.finalize().unwrap();
    let file = bytes(&*place.store, "x.bp");
    let live = Live::find(&file).unwrap();
    assert_eq!((u64::from(live.step_count()), live.finished(), live.step_records.len()), (steps + 1, true, 0));
}

#[test]
fn a_step_costs_as_many_calls_and_bytes_at_the_end_as_at_the_beginning() {
    let store = Arc::new(Counting::new(Arc::new(Memory::new())));
    let place = Place::over(store.clone());
    let comm = Alone::new();
    let session = place.session(&heat("POSIX", ""), &comm);
    let mut costs = Vec::new();
    for step in 0..1000 {
        write_heat(&session, "x.bp", if step == 0 { Mode::Write } else { Mode::Append }, &comm, step);
        let total = store.take().total();
        costs.push((total.writes, total.opens_for_writing, total.reads, total.bytes_written));
    }
    let last = costs[900];
    assert_eq!(last, costs[100]);
    assert_eq!((last.0, last.1, last.2), (2, 2, 2), "two opens, two writes; the last bytes of both files are compared");
    let indexes: u64 = costs.iter().map(|c| c.3 - c.3.min(last.3)).sum();
    let all: u64 = costs.iter().map(|c| c.3).sum();
    assert!(indexes < all, "{indexes} of {all}");
}

#[test]
fn large_steps_are_each_followed_by_a_full_index() {
    let place = Place::memory();
    let comm = Alone::new();
    let session = place.session(&heat("MPI", ""), &comm);
    for step in 0..12 {
        let mode = if step == 0 { Mode::Write } else { Mode::Append };
        let mut output = session.open("heat", "x.bp", mode, comm.duplicate().unwrap()).unwrap();
        output.write_values("NX", &[60_000i32]).unwrap();
        output.write_values("mine", &vec![0f32; 60_000]).unwrap();
        output.close().unwrap();
    }
    assert_eq!(count(&bytes(&*place.store, "x.bp")), (12, 0));
}

#[test]
fn index_each_gives_followers_a_full_index_each_time() {
    for method in ["MPI", "POSIX"] {
        let place = Place::memory();
        write(&place, method, "index=each", 20, false);
        assert_eq!(count(&bytes(&*place.store, "x.bp")), (20, 0), "{method}");
        write(&place, method, "index=auto", 20, false);
        assert_eq!(count(&bytes(&*place.store, "x.bp")).0, 4, "{method}: steps 1, 3, 7, 15");
    }
}

#[test]
fn the_end_mark_is_set_once_and_dead_space_is_given_back() {
    for (method, parameters) in [("MPI", "index=each"), ("POSIX", "index=each"), ("POSIX", "")] {
        let store = Arc::new(Forgetful::new());
        let place = Place::over(store.clone());
        write(&place, method, parameters, 200, true);
        let operations: Vec<String> = (0..store.operations()).map(|n| store.operation(n)).collect();
        let marks = operations.iter().filter(|o| o.starts_with("write 8 bytes to x.bp at")).count();
        assert_eq!(marks, 1, "{method}");
        let given: u64 = operations
            .iter()
            .filter(|o| o.starts_with("punch"))
            .map(|o| o.split(' ').nth(1).unwrap().parse::<u64>().unwrap())
            .sum();
        let length = place.store.stat("x.bp").unwrap().length;
        assert!(given > 0 && given < length, "{method} {parameters}: {given} of {length}");
        // Nothing that anybody reads is gone.
        for step in [0, 100, 199] {
            assert_eq!(read_heat(&place.layout, "x.bp", step), all_of_t(1, step), "{method}");
        }
        let report = thalweg_reader::verify(&*place.layout, "x.bp").unwrap();
        assert!(report.findings.is_empty(), "{method}: {:?}", report.findings);
    }
}

#[test]
fn a_file_closed_for_good_can_be_extended_and_closed_again() {
    for method in ["MPI", "POSIX"] {
        let place = Place::memory();
        for session in 0..4u64 {
            let comm = Alone::new();
            let own = place.session(&heat(method, ""), &comm);
            for step in 3 * session..3 * session + 3 {
                write_heat(&own, "x.bp", if step == 0 { Mode::Write } else { Mode::Append }, &comm, step);
                assert!(!Reader::open(place.layout.clone(), "x.bp").unwrap().status().finished);
            }
            own.finalize().unwrap();
            let reader = Reader::open(place.layout.clone(), "x.bp").unwrap();
            assert_eq!((reader.status().steps, reader.status().finished), (3 * session + 3, true), "{method}");
        }
        for step in 0..12 {
            assert_eq!(read_heat(&place.layout, "x.bp", step), all_of_t(1, step), "{method}");
        }
    }
}
