//! What the library says beside its results reaches somebody: nothing that changes an output is done without a word.

mod common;

use common::*;
use std::sync::{Arc, Mutex};
use thalweg_io::Mode;
use thalweg_warnings::{Level, hear};

/// One test: a process has one hearer.
#[test]
fn what_is_done_otherwise_than_asked_is_told() {
    let told: Arc<Mutex<Vec<String>>> = Arc::default();
    let into = told.clone();
    hear(Some(Arc::new(move |level, text: &str| {
        assert_eq!(level, Level::Warn);
        into.lock().unwrap().push(text.to_string());
    })));
    let heard = |what: &str| {
        let told = std::mem::take(&mut *told.lock().unwrap());
        assert!(told.iter().any(|text| text.contains(what)), "{what}: {told:?}");
    };
    let write = |place: &Place, document: &str, mode: Mode, step: u64| {
        place.run(1, |comm| {
            let session = place.session(document, &comm);
            write_heat(&session, "x.bp", mode, &comm, step);
            session.finalize().unwrap();
        });
    };

    // A file keeps the statistics it began with.
    let place = Place::memory();
    let without = heat("MPI", "").replace("name=\"heat\">", "name=\"heat\" stats=\"off\">");
    write(&place, &heat("MPI", ""), Mode::Write, 0);
    assert_eq!(*told.lock().unwrap(), [""; 0]);
    write(&place, &without, Mode::Append, 1);
    heard("keeps the statistics it began with");

    // A profile that has no room: a file lies where its folder would be.
    let place = Place::memory();
    write(&place, &heat("MPI", ""), Mode::Write, 0);
    place
        .layout
        .open_write("x.bp.profile", thalweg_layout::OpenWrite::New, thalweg_layout::WriterId(0))
        .unwrap()
        .close()
        .unwrap();
    write(&place, &heat("MPI", "profile=yes"), Mode::Append, 1);
    heard("profile of this output is not written");

    // An unknown parameter costs no output.
    let place = Place::memory();
    write(&place, &heat("MPI", "stripe_cuont=4"), Mode::Write, 0);
    heard("stripe_cuont");
}
