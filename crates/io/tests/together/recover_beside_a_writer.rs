//! `recover` beside a living writer, at every moment at which an output may be in flight: refused, nothing is changed, and the
//! writer's outputs are whole and readable.

use crate::common::*;
use std::collections::BTreeMap;
use std::sync::Arc;
use thalweg_comm::Communicator;
use thalweg_conformance::scratch::Scratch;
use thalweg_io::{Mode, Session};
use thalweg_layout::Layout;
use thalweg_reader::{RecoverOptions, recover, verify};
use thalweg_store::{Posix, Store};
use thalweg_types::ErrorKind;

const METHODS: [&str; 6] = ["MPI", "POSIX", "MPI_COLLECTIVE", "MPI_AGGREGATE", "ADAPTIVE", "MPI_SCHEDULED"];
const RANKS: u32 = 2;

/// Every object below a folder of a store, with its bytes.
fn objects(store: &dyn Store, folder: &str) -> BTreeMap<String, Vec<u8>> {
    let mut all = BTreeMap::new();
    for name in store.list(folder).unwrap() {
        let name = if folder.is_empty() { name } else { format!("{folder}/{name}") };
        match store.stat(&name).unwrap().is_folder {
            true => all.extend(objects(store, &name)),
            false => _ = all.insert(name.clone(), bytes(store, &name)),
        }
    }
    all
}

/// Rank 0 recovers, with every flag, while the other ranks wait.
fn is_refused(place: &Place, path: &str, comm: &dyn Communicator, when: &str) {
    comm.barrier().unwrap();
    if comm.rank() == 0 {
        let before = objects(&*place.store, "");
        for (dry_run, keep_partial) in [(true, false), (true, true), (false, false), (false, true)] {
            let options = RecoverOptions { dry_run, keep_partial, ..RecoverOptions::default() };
            let error = recover(&*place.layout, path, options).expect_err(when);
            assert_eq!(error.kind(), ErrorKind::NotReady, "{when}: {error}");
            assert!(error.to_string().contains(path), "{when}: {error}");
        }
        assert!(objects(&*place.store, "") == before, "{when}: something was changed");
    }
    comm.barrier().unwrap();
}

/// As `write_heat`; `recover` is refused between the writes and the close.
fn write_beside_recover(
    place: &Place,
    session: &Session,
    path: &str,
    mode: Mode,
    comm: &dyn Communicator,
    step: u64,
    what: &str,
) {
    let mut output = session.open("heat", path, mode, comm.duplicate().unwrap()).unwrap();
    output.write_values("NX", &[4i32]).unwrap();
    output.write_values("ranks", &[comm.size() as i32]).unwrap();
    output.write_values("rank", &[comm.rank() as i32]).unwrap();
    output.write("note", format!("step {step}").as_bytes()).unwrap();
    output.write_values("t", &t(comm.rank(), step, 4)).unwrap();
    output.write_values("mine", &[comm.rank() as f32; 4]).unwrap();
    is_refused(place, path, comm, &format!("{what}: between the writes and the close of step {step}"));
    output.close().unwrap();
}

/// - `alone`: files of one output, too, which a store may be unable to tell without cost.
fn a_living_writer_is_left_alone(place: &Place, method: &str, alone: bool) {
    place.run(RANKS, |comm| {
        let session = place.session(&heat(method, ""), &comm);
        for (step, mode) in [(0, Mode::Write), (1, Mode::Append), (2, Mode::Append)] {
            write_beside_recover(place, &session, "steps.bp", mode, &comm, step, method);
            is_refused(place, "steps.bp", &comm, &format!("{method}: between outputs, behind step {step}"));
        }
        // A group that begins a second file makes one for each output: each is closed for good with it.
        for path in ["0.bp", "1.bp", "2.bp"] {
            match alone {
                true => write_beside_recover(place, &session, path, Mode::Write, &comm, 0, method),
                false => write_heat(&session, path, Mode::Write, &comm, 0),
            }
        }
        session.finalize().unwrap();
    });
    for (path, steps) in [("steps.bp", 3), ("0.bp", 1), ("1.bp", 1), ("2.bp", 1)] {
        let done = recover(&*place.layout, path, RecoverOptions::default()).unwrap();
        assert_eq!((done.changed, done.steps), (false, steps), "{method}: {path}: {done:?}");
        for step in 0..steps {
            assert_eq!(read_heat(&place.layout, path, step), all_of_t(RANKS, step), "{method}: {path}, step {step}");
        }
        assert!(verify(&*place.layout, path).unwrap().is_clean(), "{method}: {path}");
    }
}

#[test]
fn recover_refuses_a_file_whose_writer_lives() {
    for method in METHODS {
        a_living_writer_is_left_alone(&Place::memory(), method, false);
        let folder = Scratch::new();
        let place = Place::over(Arc::new(Posix::at(folder.path()).unwrap()));
        a_living_writer_is_left_alone(&place, method, true);
    }
}

#[test]
fn a_file_whose_writer_is_gone_is_recovered() {
    for method in METHODS {
        let place = Place::memory();
        place.run(RANKS, |comm| {
            let session = place.session(&heat(method, ""), &comm);
            write_heat(&session, "x.bp", Mode::Write, &comm, 0);
            write_heat(&session, "x.bp", Mode::Append, &comm, 1);
            // Its leases go with the session; nothing is closed for good.
            drop(session);
        });
        let done = recover(&*place.layout, "x.bp", RecoverOptions::default()).unwrap();
        assert_eq!(done.steps, 2, "{method}");
        let layout: &Arc<dyn Layout> = &place.layout;
        assert_eq!(read_heat(layout, "x.bp", 1), all_of_t(RANKS, 1), "{method}");
    }
}
