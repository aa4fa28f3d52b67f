//! What the library says beside its results reaches somebody: nothing that changes an output is done without a word.

mod common;

use common::*;
use std::cell::Cell;
use std::sync::{Arc, Mutex};
use thalweg_comm::Communicator;
use thalweg_io::Mode;
use thalweg_layout::{Layout, OpenWrite, ReadObject, Stat, WriteObject, WriterId};
use thalweg_types::{Error, ErrorKind, Result};
use thalweg_warnings::{Level, hear};

/// Warnings, each with the rank that gave it.
type Warnings = Arc<Mutex<Vec<(Option<u32>, String)>>>;

thread_local! {
    /// The rank that runs on this thread.
    static RANK: Cell<Option<u32>> = const { Cell::new(None) };
}

/// A layout with storage targets, whose first creation of a file on target 1 fails.
struct FailedTarget {
    inner: Arc<dyn Layout>,
    /// The rank whose call failed.
    failed: Mutex<Option<Option<u32>>>,
}

impl Layout for FailedTarget {
    fn describe(&self) -> String {
        "a layout with a failed storage target".into()
    }

    fn open_write(&self, path: &str, how: OpenWrite, writer: WriterId) -> Result<Box<dyn WriteObject>> {
        self.inner.open_write(path, how, writer)
    }

    fn open_read(&self, path: &str) -> Result<Box<dyn ReadObject>> {
        self.inner.open_read(path)
    }

    fn stat(&self, path: &str) -> Result<Stat> {
        self.inner.stat(path)
    }

    fn list(&self, folder: &str) -> Result<Vec<String>> {
        self.inner.list(folder)
    }

    fn rename(&self, from: &str, to: &str) -> Result<()> {
        self.inner.rename(from, to)
    }

    fn remove(&self, path: &str) -> Result<()> {
        self.inner.remove(path)
    }

    fn make_folder(&self, path: &str) -> Result<()> {
        self.inner.make_folder(path)
    }

    fn sync_folder(&self, folder: &str) -> Result<()> {
        self.inner.sync_folder(folder)
    }

    fn targets(&self, _folder: &str) -> Result<Option<u32>> {
        Ok(Some(2))
    }

    fn make_on_target(&self, path: &str, target: u32, _stripe: u64) -> Result<bool> {
        let mut failed = self.failed.lock().unwrap();
        if target == 1 && failed.is_none() {
            *failed = Some(RANK.get());
            return Err(Error::new(ErrorKind::Io, "storage target 1 is out of order").in_object(path));
        }
        Ok(false)
    }
}

/// The warning of a storage target is emitted on the rank that creates the file; the output of all ranks succeeds.
fn failed_target(method: &str, warnings: &Warnings) {
    let mut place = Place::memory();
    let layout = Arc::new(FailedTarget { inner: place.layout.clone(), failed: Mutex::default() });
    place.layout = layout.clone();
    place.run(4, |comm| {
        RANK.set(Some(comm.rank()));
        let session = place.session(&heat(method, "num_files=2"), &comm);
        write_heat(&session, "x.bp", Mode::Write, &comm, 0);
        session.finalize().unwrap();
    });
    let by = layout.failed.lock().unwrap().expect("a file is created on target 1");
    assert!(by.is_some_and(|rank| rank > 0), "{method}: {by:?} creates the file of target 1");
    let told = std::mem::take(&mut *warnings.lock().unwrap());
    let [(rank, text)] = &told[..] else { panic!("{method}: one warning is expected: {told:?}") };
    assert_eq!(*rank, by, "{method}: {text}");
    for part in ["cannot place the file on the chosen storage target", "storage target 1 is out of order"] {
        assert!(text.contains(part), "{method}: {text}");
    }
    assert_eq!(read_heat(&place.layout, "x.bp", 0), all_of_t(4, 0), "{method}");
}

/// One test: a process has one hearer.
#[test]
fn what_is_done_otherwise_than_asked_is_told() {
    let warnings = Warnings::default();
    let into = warnings.clone();
    hear(Some(Arc::new(move |level, text: &str| {
        assert_eq!(level, Level::Warn);
        into.lock().unwrap().push((RANK.get(), text.to_string()));
    })));
    let heard = |what: &str| {
        let told = std::mem::take(&mut *warnings.lock().unwrap());
        assert!(told.iter().any(|(_, text)| text.contains(what)), "{what}: {told:?}");
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
    assert!(warnings.lock().unwrap().is_empty());
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

    // Each kind of warning is heard once in a process: one method stands for both that choose storage targets.
    failed_target("MPI_SCHEDULED", &warnings);
}
