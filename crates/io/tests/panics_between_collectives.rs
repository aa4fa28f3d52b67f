//! A rank that panics between two collective calls of a session, here as the program's hearer of warnings panics, fails the call on
//! all ranks: none waits for it, and the session goes on.

mod common;

use common::*;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use thalweg_comm::Communicator;
use thalweg_io::{Mode, Session};
use thalweg_types::{Error, ErrorKind, Result};
use thalweg_warnings::hear;

const RANKS: u32 = 3;

/// Rows 0, 0 and 1 of three: two ranks write the same one, which rank 0 remarks at close.
fn overlapping(array: &str) -> String {
    format!(
        r#"<adios-config host-language="C"><adios-group name="g"><var name="n" type="integer"/><var name="o" type="integer"/>
        <global-bounds dimensions="n,n" offsets="o,0"><var name="{array}" type="double" dimensions="1,n"/></global-bounds></adios-group>
        <method group="g" method="MPI">consistency=full</method></adios-config>"#
    )
}

fn write_rows(session: &Session, comm: &dyn Communicator, array: &str, mode: Mode, row: i32) -> Result<()> {
    let mut output = session.open("g", "x.bp", mode, comm.duplicate()?)?;
    output.write_values("n", &[3i32])?;
    output.write_values("o", &[row])?;
    output.write_values(array, &[f64::from(row); 3])?;
    output.close().map(drop)
}

fn all_failed<T>(outcomes: &[Result<T>], what: &str) {
    for (rank, outcome) in outcomes.iter().enumerate() {
        let error: &Error = outcome.as_ref().err().unwrap_or_else(|| panic!("{what}: rank {rank} heard of nothing"));
        assert_eq!(error.kind(), ErrorKind::Io, "{what}: rank {rank}: {error}");
        assert!(rank > 0 || error.to_string().contains("the hearer panics"), "{what}: {error}");
    }
}

/// One test: a process has one hearer.
#[test]
fn a_panic_on_one_rank_fails_the_call_on_all() {
    let panics = Arc::new(AtomicBool::new(true));
    let heard = panics.clone();
    hear(Some(Arc::new(move |_, _: &str| {
        if heard.load(Ordering::SeqCst) {
            panic!("the hearer panics");
        }
    })));

    // Where a configuration is read: rank 0 tells of a parameter that is no method's.
    let place = Place::memory();
    let document = heat("MPI", "stripe_cuont=4");
    let read = |comm: Box<dyn Communicator>| Session::from_xml(&document, "t.xml", comm).map(drop);
    let outcomes = place.run(RANKS, |comm| read(comm.duplicate().unwrap()));
    all_failed(&outcomes, "reading a configuration");

    // Where an output is opened, its group declared from code.
    let outcomes = place.run(RANKS, |comm| {
        let session = place.session(&heat("NULL", ""), &comm);
        let group = session.group("heat").unwrap();
        group.lock().builder.select_method("MPI", "agregators=4", "").unwrap();
        session.open("heat", "x.bp", Mode::Write, comm.duplicate().unwrap()).map(drop)
    });
    all_failed(&outcomes, "opening an output");
    assert!(place.layout.stat("x.bp").is_err(), "a file was touched");

    // Where outputs are compared at their close.
    let outcomes = place.run(RANKS, |comm| {
        let session = place.session(&overlapping("t"), &comm);
        let rank = comm.rank() as i32;
        let outcome = write_rows(&session, &comm, "t", Mode::Write, rank.max(1) - 1);
        write_rows(&session, &comm, "t", Mode::Append, rank).unwrap();
        session.finalize().unwrap();
        outcome
    });
    all_failed(&outcomes, "comparing what was written");
    let whole: Vec<f64> = (0..9).map(|i| f64::from(i / 3)).collect();
    let reader = thalweg_reader::Reader::open(place.layout.clone(), "x.bp").unwrap();
    assert_eq!(reader.status().steps, 1);
    assert_eq!(reader.read_as::<f64>("t", 0, &thalweg_types::Selection::All).unwrap(), whole);

    // The same output with a hearer that hears.
    panics.store(false, Ordering::SeqCst);
    let outcomes = place.run(RANKS, |comm| {
        let session = place.session(&overlapping("u"), &comm);
        write_rows(&session, &comm, "u", Mode::Write, (comm.rank() as i32).max(1) - 1)
    });
    assert!(outcomes.iter().all(Result::is_ok), "{outcomes:?}");
    hear(None);
}
