//! Every read, open, listing and question fails, one at a time or from one on, while the files of each method are opened, read,
//! verified, measured, followed and recovered: the outcome is that failure with its place, or what the file holds in full.
//! Recovering changes nothing after a read that failed.

use crate::common::*;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::Arc;
use thalweg_io::Mode;
use thalweg_layout::Layout;
use thalweg_reader::{
    Follower, Next, Reader, Reads, RecoverOptions, Recovery, Wait, index_only, live_extents, recover, space, verify,
};
use thalweg_store::memory::Memory;
use thalweg_store::wrap::{Failing, Fault, StoreCall};
use thalweg_store::{Store, StoreExt};
use thalweg_types::{Error, ErrorKind, Result, Selection};

const NAME: &str = "runs/x.bp";
const RANKS: u32 = 3;
const STEPS: u64 = 3;

/// Each method with its sorts of files: one file, subfiles, step records, sums beside the index.
const METHODS: &[(&str, &str)] = &[
    ("MPI", ""),
    ("MPI", "index=each"),
    ("POSIX", ""),
    ("MPI_COLLECTIVE", "aggregators=2;stripe=256;buffer=8k"),
    ("MPI_SCHEDULED", "num_files=2;targets=1;writers_per_target=1"),
    ("MPI_AGGREGATE", "aggregators=2;chunk=300"),
    ("ADAPTIVE", "num_files=2;chunk=8k"),
    ("ASYNC", "async=no;owners=2;stripe=256;write_stripe=256"),
    ("ASYNC", "async=no;subfiles=2;owners=1;stripe=256;write_stripe=256"),
];

fn holding(objects: &Objects) -> Arc<dyn Store> {
    let store: Arc<dyn Store> = Arc::new(Memory::new());
    for (name, bytes) in objects {
        if let Some((folder, _)) = name.rsplit_once('/') {
            store.make_folder(folder).unwrap();
        }
        store.write_all(name, bytes).unwrap();
    }
    store
}

/// The files of a method as a simulation leaves them that ended, runs, or was killed, and as they are without their index.
fn states(setup: (&str, &str)) -> Vec<(&'static str, Objects)> {
    let write = |finished: bool| {
        let place = Place::memory();
        place.store.make_folder("runs").unwrap();
        place.run(RANKS, |comm| {
            let session = place.session(&heat(setup.0, setup.1), &comm);
            for step in 0..STEPS {
                write_heat(&session, NAME, if step == 0 { Mode::Write } else { Mode::Append }, &comm, step);
            }
            match finished {
                true => session.finalize().unwrap(),
                false => std::mem::forget(session),
            }
        });
        objects(&*place.store)
    };
    let (closed, live) = (write(true), write(false));
    let cut = |objects: &Objects, keep: &dyn Fn(usize) -> usize| {
        let mut objects = objects.clone();
        let file = objects.get_mut(NAME).unwrap();
        file.truncate(keep(file.len()));
        objects
    };
    let torn = cut(&live, &|length| length - 24);
    let half = cut(&closed, &|length| length / 2);
    vec![("closed", closed), ("live", live), ("cut off", torn), ("without its index", half)]
}

fn everything(reader: &Reader) -> Result<String> {
    let mut text = format!("{:?}\n", reader.status());
    for head in reader.attributes() {
        writeln!(text, "{:?}", reader.attribute(&head.name)?).unwrap();
    }
    for head in reader.variables() {
        writeln!(text, "{:?}", reader.variable(&head.name)?).unwrap();
        writeln!(text, "{:?}", reader.summary(&head.name, 0..u64::MAX)?).unwrap();
        for step in reader.variable(&head.name)?.steps {
            for block in reader.blocks(&head.name, step)? {
                let bytes = reader.read_to_vec(&head.name, step, &Selection::Block(block.number));
                // The bytes of texts are in the index.
                let bytes = if block.value.is_some() { Ok(Vec::new()) } else { bytes };
                writeln!(text, "{block:?} {:?}", bytes?).unwrap();
            }
        }
    }
    Ok(text)
}

fn follow(layout: &Arc<dyn Layout>) -> Result<String> {
    let once = Wait { timeout: Some(std::time::Duration::ZERO), ..Wait::default() };
    let mut file = Follower::open(layout.clone(), NAME, &once)?;
    let mut text = String::new();
    loop {
        writeln!(text, "{}: {:?}", file.step(), file.reader().read_to_vec("t", file.step(), &Selection::All)?).unwrap();
        match file.advance(false, &once)? {
            Next::Step(_) => {}
            end => return Ok(format!("{text}{end:?}")),
        }
    }
}

const DRY: RecoverOptions = RecoverOptions { dry_run: true, keep_partial: true, even_if_written: false };

type Look = (&'static str, fn(&Arc<dyn Layout>) -> Result<String>);

const LOOKS: &[Look] = &[
    ("reading", |layout| everything(&Reader::open(layout.clone(), NAME)?)),
    ("reading with checksums", |layout| everything(&Reader::open(layout.clone(), NAME)?.with_reads(Reads::Checked))),
    ("verifying", |layout| Ok(format!("{:?}", verify(&**layout, NAME)?))),
    ("measuring", |layout| Ok(format!("{:?}", space(&**layout, NAME)?))),
    ("finding what is used", |layout| Ok(format!("{:?}", live_extents(&**layout, NAME)?))),
    ("making an index file", |layout| Ok(format!("{:?}", index_only(&**layout, NAME)?))),
    ("following", follow),
    ("a dry recovery", |layout| Ok(format!("{:?}", recover(&**layout, NAME, DRY)?))),
];

/// What is asked before anything is written. The length is asked again behind a written index.
fn comes_first(asked: StoreCall) -> bool {
    matches!(asked, StoreCall::OpenRead | StoreCall::Stat | StoreCall::List | StoreCall::Read)
}

fn faults() -> Vec<Fault> {
    vec![
        Fault::any().times(1),
        Fault::any(),
        Fault::any().times(1).with(ErrorKind::PermissionDenied),
        Fault::of(StoreCall::Read).times(1).with(ErrorKind::Corrupt),
    ]
}

/// The failure is told as what it is, and where.
fn told(e: &Error, fault: &Fault, case: &str) {
    let its = [ErrorKind::PermissionDenied, ErrorKind::Corrupt]
        .into_iter()
        .find(|k| format!("{fault:?}").contains(&format!("{k:?}")));
    // A store's own word for what it could not give may become that of a failed read.
    assert!(
        Some(e.kind()) == its || (e.kind() == ErrorKind::Io && its != Some(ErrorKind::PermissionDenied)),
        "{case}: {e}"
    );
    let object = e.place().object.as_deref().unwrap_or_default();
    assert!(object.contains("runs"), "{case}: no place is named: {e}");
}

#[test]
fn a_read_that_fails_is_told_with_its_place_or_changes_nothing_that_is_seen() {
    let (mut failures, mut harmless) = (BTreeMap::<_, u64>::new(), 0);
    for setup in METHODS {
        for (state, objects) in states(*setup) {
            let place = Place::over(holding(&objects));
            for (what, look) in LOOKS {
                let whole = look(&place.layout);
                for fault in faults() {
                    for k in 0.. {
                        let failing = Arc::new(Failing::new(place.store.clone()));
                        failing.fail(fault.clone().skipping(k));
                        let found = look(&Place::over(failing.clone()).layout);
                        let (_, Some((asked, name))) = failing.failed() else { break };
                        let case = format!("{setup:?}, {state}, {what}: {asked:?} {k} of {name} fails, {fault:?}");
                        match (&found, &whole) {
                            (Err(e), _) => {
                                told(e, &fault, &case);
                                *failures.entry((*what, asked)).or_default() += 1;
                            }
                            (Ok(found), Ok(whole)) => {
                                assert!(
                                    found == whole,
                                    "{case}: something else is seen:\n{found}\ninstead of\n{whole}"
                                );
                                harmless += 1;
                            }
                            (Ok(_), Err(e)) => panic!("{case}: seen although the whole file gives {e}"),
                        }
                    }
                }
            }
        }
    }
    println!("{failures:#?}, {harmless} that changed nothing");
    for (what, _) in LOOKS {
        assert!(failures.contains_key(&(*what, StoreCall::Read)), "{what}: no failed read was told");
    }
}

#[test]
fn recovering_changes_nothing_after_a_read_that_failed() {
    let (mut failures, mut harmless) = (BTreeMap::<_, u64>::new(), 0);
    for setup in METHODS {
        for (state, before) in states(*setup) {
            for keep_partial in [false, true] {
                let options = RecoverOptions { dry_run: false, keep_partial, ..RecoverOptions::default() };
                let run = |layout: &dyn Layout| -> Result<Recovery> { recover(layout, NAME, options) };
                let place = Place::over(holding(&before));
                let whole = run(&*place.layout).unwrap();
                let after = objects(&*place.store);
                for fault in faults() {
                    for k in 0.. {
                        let store = holding(&before);
                        let failing = Arc::new(Failing::new(store.clone()));
                        failing.fail(fault.clone().skipping(k));
                        let done = run(&*Place::over(failing.clone()).layout);
                        let (_, Some((asked, name))) = failing.failed() else { break };
                        let case = format!("{setup:?}, {state}, {options:?}: {asked:?} {k} of {name} fails, {fault:?}");
                        let now = objects(&*store);
                        match done {
                            Ok(done) => {
                                assert_eq!(done, whole, "{case}");
                                assert!(now == after, "{case}: the files are others than without the failure");
                                harmless += 1;
                            }
                            Err(e) => {
                                told(&e, &fault, &case);
                                assert!(!comes_first(asked) || now == before, "{case}: the files were changed: {e}");
                                *failures.entry(asked).or_default() += 1;
                                // What failed can be done again.
                                let place = Place::over(store);
                                run(&*place.layout).unwrap_or_else(|e| panic!("{case}: again: {e}"));
                                let steps = Reader::open(place.layout.clone(), NAME).unwrap().status().steps;
                                assert_eq!(steps, whole.steps, "{case}: after another recovery");
                            }
                        }
                    }
                }
            }
        }
    }
    println!("{failures:#?}, {harmless} that changed nothing");
    assert!(failures.contains_key(&StoreCall::Read) && failures.contains_key(&StoreCall::List), "{failures:?}");
}
