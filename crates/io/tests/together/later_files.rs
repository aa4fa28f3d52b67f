//! Files whose time index does not begin with 1, as later files of a process of ADIOS 1.x: each method that extends them counts
//! steps from the first one there is, and drops, lists and recovers the right ones.

use crate::common::*;
use std::path::Path;
use std::sync::Arc;
use thalweg_comm::Communicator;
use thalweg_io::{Mode, Session};
use thalweg_layout::Layout;
use thalweg_reader::{Reader, RecoverOptions, recover, verify};
use thalweg_store::StoreExt;
use thalweg_types::{ErrorKind, Result, Selection};

const NAME: &str = "x.bp";
/// Steps that ADIOS wrote, with the time indexes 3, 4 and 5.
const STEPS: u64 = 3;

/// Methods, with parameters, and whether their data lie in subfiles.
const METHODS: &[(&str, &str, bool)] = &[
    ("MPI", "", false),
    ("MPI_COLLECTIVE", "aggregators=2;stripe=256;buffer=8k", false),
    ("POSIX", "", true),
    ("MPI_AGGREGATE", "aggregators=2", true),
    ("MPI_SCHEDULED", "num_files=2;targets=1", true),
    ("ADAPTIVE", "num_files=2;chunk=8k", true),
];

fn late(method: &str, parameters: &str) -> String {
    format!(
        r#"<adios-config host-language="C"><adios-group name="late"><global-bounds dimensions="4" offsets="0">
<var name="x" type="double" dimensions="4"/></global-bounds></adios-group>
<method group="late" method="{method}">{parameters}</method></adios-config>"#
    )
}

/// The second file of an ADIOS 1.13 process. Its subfile is a file by itself.
fn second_file(subfiles: bool) -> Place {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures/foreign");
    let read = |name: &str| std::fs::read(folder.join(name)).unwrap();
    let (index, data) = (read("adios1-second-file.bp"), read("adios1-second-file.bp.dir/adios1-second-file.bp.0"));
    let place = Place::memory();
    if subfiles {
        place.store.make_folder("x.bp.dir").unwrap();
        place.store.write_all("x.bp.dir/x.bp.0", &data).unwrap();
        place.store.write_all(NAME, &index).unwrap();
    } else {
        place.store.write_all(NAME, &data).unwrap();
    }
    place
}

fn values(step: u64) -> [f64; 4] {
    [0.0, 1.0, 2.0, 3.0].map(|x| x + 100.0 * step as f64)
}

/// Rank 0 writes all.
fn write(session: &Session, mode: Mode, comm: &dyn Communicator, step: u64) -> Result<()> {
    let mut output = session.open("late", NAME, mode, comm.duplicate()?)?;
    assert_eq!(output.step(), step);
    if comm.rank() == 0 {
        output.write_values("x", &values(step))?;
    }
    output.close().map(|_| ())
}

/// The last of ADIOS' steps below `kept` is as it was, those behind are ours, and there are `steps`.
fn check(layout: &Arc<dyn Layout>, kept: u64, steps: u64, what: &str) {
    let reader = Reader::open(layout.clone(), NAME).unwrap();
    let all: Vec<u64> = (0..steps).collect();
    assert_eq!((reader.status().steps, reader.variable("x").unwrap().steps), (steps, all), "{what}");
    let x = |step| reader.read_as::<f64>("x", step, &Selection::All).unwrap();
    let last = [[5e-324, f64::MAX], [-1.0 / 3.0, -0.208_333_333_333_333_34], [0.0, 0.125]][kept as usize - 1];
    assert_eq!(x(kept - 1)[..2], last, "{what}: a step that was there has changed");
    (kept..steps).for_each(|step| assert_eq!(x(step), values(step), "{what}: step {step}"));
    let findings = verify(&**layout, NAME).unwrap().findings;
    assert!(findings.is_empty(), "{what}: {findings:?}");
}

#[test]
fn an_append_counts_from_the_first_step_there_is() {
    for (method, parameters, subfiles) in METHODS {
        let place = second_file(*subfiles);
        for ranks in [1, 2] {
            place.run(ranks, |comm| {
                let session = place.session(&late(method, parameters), &comm);
                let first = STEPS + 2 * (u64::from(ranks) - 1);
                (first..first + 2).for_each(|step| write(&session, Mode::Append, &comm, step).unwrap());
                session.finalize().unwrap();
            });
            check(&place.layout, STEPS, STEPS + 2 * u64::from(ranks), &format!("{method}, {ranks} ranks"));
        }
        // Recovered, it counts as before.
        let whole = place.store.read_all(NAME).unwrap();
        place.store.write_all(NAME, &whole[..whole.len() - 5]).unwrap();
        let done = recover(&*place.layout, NAME, RecoverOptions::default()).unwrap();
        assert_eq!(done.steps, STEPS + 4, "{method}: {:?}", done.actions);
        check(&place.layout, STEPS, STEPS + 4, &format!("{method}, recovered"));
    }
}

#[test]
fn steps_behind_one_are_dropped_by_their_number() {
    for (method, parameters, subfiles) in METHODS {
        for after in 0..STEPS {
            let place = second_file(*subfiles);
            place.run(2, |comm| {
                let session = place.session(&late(method, parameters), &comm);
                let session_of_its_own = place.session(&late(method, parameters), &comm);
                let e = write(&session_of_its_own, Mode::AppendAfter(STEPS), &comm, STEPS + 1).unwrap_err();
                assert_eq!(e.kind(), ErrorKind::OutOfBounds, "{method}: {e}");
                assert!(comm.rank() > 0 || e.to_string().contains("the last one is 2"), "{method}: {e}");
                write(&session, Mode::AppendAfter(after), &comm, after + 1)
                    .unwrap_or_else(|e| panic!("{method}, after step {after}: {e}"));
                write(&session, Mode::Append, &comm, after + 2).unwrap();
                session.finalize().unwrap();
            });
            check(&place.layout, after + 1, after + 3, &format!("{method}, after step {after}"));
        }
    }
}

#[test]
fn an_error_names_the_steps_by_their_numbers() {
    for (method, parameters, subfiles) in METHODS {
        let place = second_file(*subfiles);
        let words = place.run(1, |comm| {
            let session = place.session(&late(method, parameters), &comm);
            write(&session, Mode::Append, &comm, STEPS).unwrap();
            place.store.remove(NAME).unwrap();
            let e = write(&session, Mode::Append, &comm, STEPS + 1).unwrap_err();
            session.finalize().unwrap();
            e.to_string()
        });
        assert!(words[0].contains("steps 0..=3 "), "{method}: {}", words[0]);
    }
}
