//! One shared file, one rank: the place of its process group is known from open on, so that large arrays are written from the program's
//! memory, in the first output as in all others. An output that is not closed leaves the file as it was.

use crate::common::*;
use std::sync::Arc;
use thalweg_comm::Communicator;
use thalweg_comm::threads::ThreadCommunicator;
use thalweg_io::{Mode, Output, Session};
use thalweg_reader::{Reader, verify};
use thalweg_store::memory::Memory;
use thalweg_store::wrap::{Failing, Fault, StoreCall};
use thalweg_types::{ErrorKind, Selection};

/// Doubles of a large array.
const LARGE: u64 = 200_000;

const DOCUMENT: &str = r#"<adios-config host-language="C">
  <adios-group name="g">
    <var name="n" type="long"/>
    <var name="a" type="double" dimensions="n"/>
    <var name="b" type="double" dimensions="n"/>
    <attribute name="unit" value="K"/>
  </adios-group>
  <method group="g" method="MPI"/>
</adios-config>"#;

fn values(step: u64, which: u64, n: u64) -> Vec<f64> {
    (0..n).map(|i| (step * 1000 + which * 7 + i % 911) as f64).collect()
}

fn begin<'a>(session: &Session, comm: &ThreadCommunicator, mode: Mode, step: u64, n: u64) -> Output<'a> {
    let mut output = session.open("g", "x.bp", mode, comm.duplicate().unwrap()).unwrap();
    assert_eq!(output.step(), step);
    output.write_values("n", &[n as i64]).unwrap();
    for (which, name) in [(0, "a"), (1, "b")] {
        let mut values = values(step, which, n);
        output.write_values(name, &values).unwrap();
        // The memory is the program's again.
        values.fill(-1.0);
    }
    output
}

/// The steps that were written, each of n(step) doubles.
fn check(place: &Place, steps: u64, n: impl Fn(u64) -> u64) {
    let reader = Reader::open(place.layout.clone(), "x.bp").unwrap();
    assert_eq!((reader.status().steps, reader.status().torn_bytes), (steps, 0));
    for step in 0..steps {
        for (which, name) in [(0, "a"), (1, "b")] {
            let got = reader.read_as::<f64>(name, step, &Selection::Block(0)).unwrap();
            assert!(got == values(step, which, n(step)), "{name}, step {step}");
        }
    }
    let report = verify(&*place.layout, "x.bp").unwrap();
    assert!(report.is_clean(), "{:?}", report.findings);
}

fn places() -> [Place; 2] {
    [Place::memory(), Place::container(Arc::new(Memory::new()))]
}

#[test]
fn large_arrays_are_not_copied_whatever_the_sizes_of_outputs_are() {
    let n = |step: u64| LARGE + step * step * 1000;
    for place in places() {
        place.run(1, |comm| {
            let session = place.session(DOCUMENT, &comm);
            for step in 0..4 {
                let mode = if step == 0 { Mode::Write } else { Mode::Append };
                let output = begin(&session, &comm, mode, step, n(step));
                assert!(session.buffer().used() < 1 << 20, "step {step}: {} bytes", session.buffer().used());
                output.close().unwrap();
            }
            assert!(session.buffer().peak() < 1 << 20, "{} bytes", session.buffer().peak());
            session.finalize().unwrap();
        });
        check(&place, 4, n);
    }
}

#[test]
fn nothing_of_a_step_is_seen_before_its_close() {
    let place = Place::memory();
    place.run(1, |comm| {
        let session = place.session(DOCUMENT, &comm);
        begin(&session, &comm, Mode::Write, 0, LARGE).close().unwrap();
        let output = begin(&session, &comm, Mode::Append, 1, LARGE);
        let reader = Reader::open(place.layout.clone(), "x.bp").unwrap();
        assert_eq!(reader.status().steps, 1);
        output.close().unwrap();
        assert_eq!(Reader::open(place.layout.clone(), "x.bp").unwrap().status().steps, 2);
        session.finalize().unwrap();
    });
    check(&place, 2, |_| LARGE);
}

#[test]
fn an_output_that_is_dropped_leaves_the_file_as_it_was() {
    for place in places() {
        place.run(1, |comm| {
            let session = place.session(DOCUMENT, &comm);
            // The first one of a file: nothing is left, so that an append begins the file.
            drop(begin(&session, &comm, Mode::Append, 0, LARGE));
            begin(&session, &comm, Mode::Append, 0, 10).close().unwrap();
            let length = || place.layout.open_read("x.bp").unwrap().length().unwrap();
            let before = length();
            drop(begin(&session, &comm, Mode::Append, 1, LARGE));
            assert_eq!(length(), before);
            begin(&session, &comm, Mode::Append, 1, 20).close().unwrap();
            session.finalize().unwrap();
        });
        check(&place, 2, |step| 10 * (step + 1));
    }
}

#[test]
fn an_output_that_fails_leaves_the_file_as_it_was() {
    // In a large write before close, and in close.
    for n in [LARGE, 1000] {
        let memory: Arc<dyn thalweg_store::Store> = Arc::new(Memory::new());
        let store = Arc::new(Failing::new(memory.clone()));
        let place = Place::over(store.clone());
        place.run(1, |comm| {
            let session = place.session(DOCUMENT, &comm);
            for mode in [Mode::Write, Mode::Append] {
                let step = u64::from(mode == Mode::Append);
                store.fail(Fault::of(StoreCall::Write).named("x.bp").times(1).with(ErrorKind::NoSpace).half_way());
                let mut output = session.open("g", "x.bp", mode, comm.duplicate().unwrap()).unwrap();
                output.write_values("n", &[n as i64]).unwrap();
                assert_eq!(output.write_values("a", &values(step, 0, n)).is_err(), n == LARGE);
                assert_eq!(output.close().unwrap_err().kind(), ErrorKind::NoSpace);
                store.heal();
                begin(&session, &comm, Mode::Append, step, n).close().unwrap();
            }
            session.finalize().unwrap();
        });
        check(&Place::over(memory), 2, |_| n);
    }
}

#[test]
fn a_restart_writes_large_arrays_behind_the_kept_steps() {
    let place = Place::memory();
    place.run(1, |comm| {
        let session = place.session(DOCUMENT, &comm);
        for step in 0..4 {
            let mode = if step == 0 { Mode::Write } else { Mode::Append };
            begin(&session, &comm, mode, step, LARGE).close().unwrap();
        }
        session.finalize().unwrap();
        let session = place.session(DOCUMENT, &comm);
        begin(&session, &comm, Mode::AppendAfter(1), 2, LARGE / 2 + 70_000).close().unwrap();
        session.finalize().unwrap();
    });
    check(&place, 3, |step| if step < 2 { LARGE } else { LARGE / 2 + 70_000 });
}
