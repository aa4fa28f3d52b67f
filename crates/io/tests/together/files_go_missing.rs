//! A file or subfile that is removed, renamed, emptied or cut between outputs is missed: the next output fails on all
//! ranks, makes nothing anew and changes nothing, and no step is read with the values of another.

use crate::common::*;
use std::collections::BTreeMap;
use std::sync::Arc;
use thalweg_comm::Communicator;
use thalweg_io::{Mode, Session};
use thalweg_layout::{Direct, Layout, OpenWrite};
use thalweg_reader::{RecoverOptions, recover};
use thalweg_store::memory::Memory;
use thalweg_store::wrap::Failing;
use thalweg_store::{Posix, Store, StoreExt};
use thalweg_types::{Error, ErrorKind, Result};

const NAME: &str = "x.bp";
const RANKS: u32 = 3;
const STEPS: u64 = 3;

const WITH_SUBFILES: &[(&str, &str)] = &[
    ("POSIX", ""),
    ("MPI_AGGREGATE", "aggregators=2;chunk=300"),
    ("MPI_SCHEDULED", "num_files=2;targets=1;writers_per_target=1"),
    ("ADAPTIVE", "num_files=2;chunk=8k"),
    ("ASYNC", "async=no;subfiles=2;stripe=256"),
];

/// What becomes of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Harm {
    Removed,
    Renamed,
    Emptied,
    /// Half of it is left.
    Cut,
    /// A file of the same name of another run, as long, was copied over it: its bytes have changed, its identity has not.
    Overwritten,
    /// A file of the same name of another run, one step longer, was renamed to it.
    Exchanged,
}

impl Harm {
    /// Those that leave less of a file than there was.
    const ALL: [Harm; 4] = [Harm::Removed, Harm::Renamed, Harm::Emptied, Harm::Cut];
    const EXCHANGES: [Harm; 2] = [Harm::Overwritten, Harm::Exchanged];

    /// The objects of another run that writes the same, for [`Harm::EXCHANGES`].
    fn others(self, setup: (&str, &str)) -> BTreeMap<String, Vec<u8>> {
        match self {
            Harm::Overwritten => of_a_running_writer(setup, STEPS),
            Harm::Exchanged => of_a_running_writer(setup, STEPS + 1),
            _ => BTreeMap::new(),
        }
    }

    /// - `others`: as [`Harm::others`] says.
    fn does(self, store: &dyn Store, name: &str, others: &BTreeMap<String, Vec<u8>>) {
        let cut = |length| store.open_write(name, OpenWrite::Existing).unwrap().truncate(length).unwrap();
        match self {
            Harm::Removed => store.remove(name).unwrap(),
            Harm::Renamed => store.rename(name, "elsewhere").unwrap(),
            Harm::Emptied => cut(0),
            Harm::Cut => cut(store.stat(name).unwrap().length / 2),
            Harm::Overwritten => store.write_all(name, &others[name]).unwrap(),
            Harm::Exchanged => {
                store.write_all("another", &others[name]).unwrap();
                store.rename("another", name).unwrap();
            }
        }
    }
}

/// What lies in the store of a writer that goes on.
fn of_a_running_writer(setup: (&str, &str), steps: u64) -> BTreeMap<String, Vec<u8>> {
    let place = Place::memory();
    let found = place.run(RANKS, |comm| {
        let session = place.session(&heat(setup.0, setup.1), &comm);
        for step in 0..steps {
            write_heat(&session, NAME, if step == 0 { Mode::Write } else { Mode::Append }, &comm, step);
        }
        comm.barrier().unwrap();
        let found = objects(&*place.store);
        comm.barrier().unwrap();
        session.finalize().unwrap();
        found
    });
    found.into_iter().next().unwrap()
}

fn all_failed(outcomes: &[Result<()>], what: &str) {
    let errors: Vec<&Error> = outcomes.iter().filter_map(|o| o.as_ref().err()).collect();
    assert_eq!(errors.len(), outcomes.len(), "{what}: some ranks went on: {errors:?}");
    for e in errors {
        assert!(matches!(e.kind(), ErrorKind::NotFound | ErrorKind::Torn | ErrorKind::Corrupt), "{what}: {e}");
        assert_eq!(e.kind(), outcomes[0].as_ref().unwrap_err().kind(), "{what}");
    }
}

fn write_steps(session: &Session, comm: &dyn Communicator) {
    for step in 0..STEPS {
        write_heat(session, NAME, if step == 0 { Mode::Write } else { Mode::Append }, comm, step);
    }
}

fn written(setup: (&str, &str)) -> Place {
    let place = Place::memory();
    place.run(RANKS, |comm| {
        let session = place.session(&heat(setup.0, setup.1), &comm);
        write_steps(&session, &comm);
        session.finalize().unwrap();
    });
    place
}

/// Whatever can still be read is what was written.
fn nothing_is_read_wrongly(layout: &Arc<dyn Layout>, whole: &Contents, what: &str) {
    let reader = thalweg_reader::Reader::open(layout.clone(), NAME).unwrap();
    for ((name, step), values) in whole {
        for (block, value) in values.iter().enumerate() {
            let selection = thalweg_types::Selection::Block(block as u64);
            if let Ok(read) = reader.read_to_vec(name, *step, &selection) {
                assert!(read == *value, "{what}: {name}, step {step}, block {block} has other values");
            }
        }
    }
}

/// Bytes of a subfile up to the last block of `steps` in it that the index lists.
fn needed_bytes(layout: &Arc<dyn Layout>, name: &str, steps: std::ops::Range<u64>) -> u64 {
    let reader = thalweg_reader::Reader::open(layout.clone(), NAME).unwrap();
    let number: Option<u32> = name.rsplit('.').next().and_then(|n| n.parse().ok());
    let mut needed = 0;
    for head in reader.variables() {
        let mut look = |block: &thalweg_reader::Block| {
            if block.subfile == number {
                needed = needed.max(block.payload.end().unwrap_or(u64::MAX));
            }
            Ok(())
        };
        reader.for_each_block(&head.name, steps.clone(), &mut |block| look(&block)).unwrap();
    }
    needed
}

#[test]
fn an_append_by_another_process_misses_a_subfile() {
    for setup in WITH_SUBFILES {
        for mode in [Mode::Append, Mode::Update, Mode::AppendAfter(1)] {
            for harm in Harm::ALL {
                let subfiles = written(*setup).store.list("x.bp.dir").unwrap();
                for subfile in subfiles {
                    let place = written(*setup);
                    let name = format!("x.bp.dir/{subfile}");
                    let whole = place.store.read_all(&name).unwrap();
                    let left = if harm == Harm::Cut { whole.len() as u64 / 2 } else { 0 };
                    // What goes with the steps that are written anew is not missed.
                    let kept = if let Mode::AppendAfter(last) = mode { 0..last + 1 } else { 0..u64::MAX };
                    if needed_bytes(&place.layout, &name, kept) <= left {
                        // ADAPTIVE has moved what was to go there elsewhere.
                        assert_eq!(setup.0, "ADAPTIVE", "{name} {harm:?}: nothing lies in it");
                        continue;
                    }
                    harm.does(&*place.store, &name, &BTreeMap::new());
                    let before = objects(&*place.store);
                    let what = format!("{setup:?}, {mode:?}, {name} {harm:?}");
                    // Once more with the same session: what failed is not forgotten.
                    let outcomes = place.run(RANKS, |comm| {
                        let session = place.session(&heat(setup.0, setup.1), &comm);
                        let first = try_heat(&session, NAME, mode, &comm, STEPS);
                        let second = try_heat(&session, NAME, mode, &comm, STEPS);
                        session.finalize().unwrap();
                        (first, second)
                    });
                    let (first, second): (Vec<_>, Vec<_>) = outcomes.into_iter().unzip();
                    all_failed(&first, &what);
                    all_failed(&second, &format!("{what}, the second time"));
                    let text: String = first.iter().map(|o| o.as_ref().unwrap_err().to_string()).collect();
                    assert!(
                        text.contains(&name) && text.contains("step") && text.contains("still safe"),
                        "{what}: {text}"
                    );
                    assert!(objects(&*place.store) == before, "{what}: something was changed: {text}");
                    // Given back, it is extended as if nothing had been.
                    place.store.write_all(&name, &whole).unwrap();
                    let all = contents(&place.layout, NAME).unwrap();
                    place.run(RANKS, |comm| {
                        let session = place.session(&heat(setup.0, setup.1), &comm);
                        write_heat(&session, NAME, Mode::Append, &comm, STEPS);
                        session.finalize().unwrap();
                    });
                    assert!(super_of(&place.layout, &all), "{what}");
                }
            }
        }
    }
}

#[test]
fn an_append_by_another_process_finds_a_subfile_that_was_exchanged() {
    for setup in WITH_SUBFILES {
        for mode in [Mode::Append, Mode::Update, Mode::AppendAfter(1)] {
            for exchanged in ["with another run's", "with another rank's", "both of one run"] {
                let place = written(*setup);
                let names: Vec<String> =
                    place.store.list("x.bp.dir").unwrap().iter().map(|n| format!("x.bp.dir/{n}")).collect();
                let name = &names[0];
                let bytes = |place: &Place, name: &str| place.store.read_all(name).unwrap();
                if names.iter().any(|name| needed_bytes(&place.layout, name, 0..u64::MAX) == 0) {
                    assert_eq!(setup.0, "ADAPTIVE", "nothing lies in a subfile");
                    continue;
                }
                match exchanged {
                    "with another run's" => place.store.write_all(name, &bytes(&written(*setup), name)).unwrap(),
                    "with another rank's" => place.store.write_all(name, &bytes(&place, &names[1])).unwrap(),
                    _ => {
                        let (first, second) = (bytes(&place, name), bytes(&place, &names[1]));
                        place.store.write_all(name, &second).unwrap();
                        place.store.write_all(&names[1], &first).unwrap();
                    }
                }
                let before = objects(&*place.store);
                let what = format!("{setup:?}, {mode:?}, {name} {exchanged}");
                let outcomes = place.run(RANKS, |comm| {
                    let session = place.session(&heat(setup.0, setup.1), &comm);
                    let first = try_heat(&session, NAME, mode, &comm, STEPS);
                    session.finalize().unwrap();
                    first
                });
                for outcome in &outcomes {
                    let e = outcome.as_ref().expect_err(&what);
                    // Where the other's is shorter it lacks data, too.
                    assert!(matches!(e.kind(), ErrorKind::Corrupt | ErrorKind::Torn), "{what}: {e}");
                }
                assert!(words(&outcomes).contains("x.bp.dir/x.bp."), "{what}: {}", words(&outcomes));
                assert!(objects(&*place.store) == before, "{what}: something was changed");
            }
        }
    }
}

/// All these values and more.
fn super_of(layout: &Arc<dyn Layout>, known: &Contents) -> bool {
    let now = contents(layout, NAME).unwrap();
    known.iter().all(|(key, value)| now.get(key) == Some(value)) && now.len() > known.len()
}

#[test]
fn a_running_writer_misses_its_file_or_subfile() {
    let folder = std::env::temp_dir().join(format!("thalweg-missing-{}", std::process::id()));
    let shared = [("MPI", ""), ("MPI_COLLECTIVE", "aggregators=2;stripe=256;buffer=8k")];
    for setup in shared.iter().chain(WITH_SUBFILES) {
        for harm in Harm::ALL.into_iter().chain(Harm::EXCHANGES) {
            let others = harm.others(*setup);
            for plain in [false, true] {
                let mut names = vec![NAME.to_string()];
                if setup.0 != "MPI" && setup.0 != "MPI_COLLECTIVE" {
                    names.extend(
                        written(*setup).store.list("x.bp.dir").unwrap().iter().map(|n| format!("x.bp.dir/{n}")),
                    );
                }
                for name in names {
                    let _ = std::fs::remove_dir_all(&folder);
                    std::fs::create_dir_all(&folder).unwrap();
                    let store: Arc<dyn Store> =
                        if plain { Arc::new(Posix::at(&folder).unwrap()) } else { Arc::new(Memory::new()) };
                    let place = Place::over(store);
                    let what = format!("{setup:?}, {name} {harm:?}, files: {plain}");
                    let whole = std::sync::Mutex::new(Contents::new());
                    let harmed = std::sync::atomic::AtomicBool::new(true);
                    let outcomes = place.run(RANKS, |comm| {
                        let session = place.session(&heat(setup.0, setup.1), &comm);
                        write_steps(&session, &comm);
                        comm.barrier().unwrap();
                        if comm.rank() == 0 {
                            *whole.lock().unwrap() = contents(&place.layout, NAME).unwrap();
                            let left = if harm == Harm::Cut { place.store.stat(&name).unwrap().length / 2 } else { 0 };
                            let needed = needed_bytes(&place.layout, &name, 0..u64::MAX);
                            harmed.store(name == NAME || needed > left, std::sync::atomic::Ordering::SeqCst);
                            harm.does(&*place.store, &name, &others);
                        }
                        comm.barrier().unwrap();
                        let first = try_heat(&session, NAME, Mode::Append, &comm, STEPS);
                        let second = try_heat(&session, NAME, Mode::Append, &comm, STEPS + 1);
                        session.finalize().unwrap();
                        (first, second)
                    });
                    if !harmed.into_inner() {
                        // ADAPTIVE has moved all that was to go there elsewhere.
                        assert_eq!(setup.0, "ADAPTIVE", "{what}: nothing lies in it");
                        continue;
                    }
                    let (first, second): (Vec<_>, Vec<_>) = outcomes.into_iter().unzip();
                    all_failed(&first, &what);
                    all_failed(&second, &format!("{what}, the second time"));
                    let there = place.store.stat(&name);
                    if let Some(other) = others.get(&name) {
                        assert!(place.store.read_all(&name).unwrap() == *other, "{what}: another's file was changed");
                    }
                    if name == NAME {
                        assert_eq!(there.is_err(), matches!(harm, Harm::Removed | Harm::Renamed), "{what}: made anew");
                    } else {
                        nothing_is_read_wrongly(&place.layout, &whole.into_inner().unwrap(), &what);
                    }
                    // A new file may be begun at any time.
                    place.run(RANKS, |comm| {
                        let session = place.session(&heat(setup.0, setup.1), &comm);
                        write_steps(&session, &comm);
                        session.finalize().unwrap();
                    });
                    assert_eq!(read_heat(&place.layout, NAME, 2), all_of_t(RANKS, 2), "{what}");
                }
            }
        }
    }
    let _ = std::fs::remove_dir_all(&folder);
}

#[test]
fn a_running_writer_misses_an_exchanged_subfile_that_only_an_earlier_run_wrote() {
    let setup = ("ADAPTIVE", "num_files=2;chunk=8k;patience=60000");
    // One rank writes to the first subfile.
    let name = "x.bp.dir/x.bp.1";
    let place = written(setup);
    let length = |place: &Place| place.store.stat(name).unwrap().length;
    // How groups are spread over subfiles depends on time.
    let other = (0..100).map(|_| written(setup)).find(|other| length(other) == length(&place)).expect("one as long");
    assert!(needed_bytes(&place.layout, name, 0..STEPS) > 0, "nothing lies in it");
    let append = |place: &Place, session: &Session, comm: &dyn Communicator, step| {
        let outcome = try_heat(session, NAME, Mode::Append, comm, step);
        assert_eq!(needed_bytes(&place.layout, name, STEPS..u64::MAX), 0, "the later run wrote to it");
        outcome
    };
    let outcomes = place.run(1, |comm| {
        let session = place.session(&heat(setup.0, setup.1), &comm);
        append(&place, &session, &comm, STEPS).unwrap();
        append(&place, &session, &comm, STEPS + 1).unwrap();
        let whole = place.store.read_all(name).unwrap();
        place.store.write_all(name, &other.store.read_all(name).unwrap()).unwrap();
        let before = objects(&*place.store);
        let outcome = append(&place, &session, &comm, STEPS + 2);
        assert!(objects(&*place.store) == before, "something was changed");
        // Given back, all that was closed can be read.
        place.store.write_all(name, &whole).unwrap();
        let _ = session.finalize();
        outcome
    });
    all_failed(&outcomes, "an exchanged subfile");
    assert!(words(&outcomes).contains(name) && words(&outcomes).contains("exchanged"), "{}", words(&outcomes));
    assert!(contents(&place.layout, NAME).unwrap().keys().any(|(_, step)| *step == STEPS + 1));
}

#[test]
fn a_stuck_write_of_an_earlier_run_that_ends_behind_the_data_of_a_later_one_is_no_exchange() {
    let setup = ("ADAPTIVE", "num_files=1;chunk=8k;patience=60000");
    let name = "x.bp.dir/x.bp.0";
    // The same groups in the same places, and one step more.
    let other = of_a_running_writer(setup, STEPS + 1).remove(name).unwrap();
    for sealed in [false, true] {
        let place = Place::memory();
        place.run(RANKS, |comm| {
            let session = place.session(&heat(setup.0, setup.1), &comm);
            write_steps(&session, &comm);
            comm.barrier().unwrap();
            if comm.rank() == 0 {
                let end = place.store.stat(name).unwrap().length;
                let mut late = other[end as usize..].to_vec();
                assert!(!late.is_empty());
                if !sealed {
                    let dead = thalweg_bp::hole::encode_dead(thalweg_types::Extent::new(end, late.len() as u64));
                    late[..dead.len()].copy_from_slice(&dead);
                }
                let object = place.store.open_write(name, OpenWrite::Existing).unwrap();
                object.write_at(end, &[std::io::IoSlice::new(&late)]).unwrap();
            }
            comm.barrier().unwrap();
            for step in STEPS..STEPS + 2 {
                try_heat(&session, NAME, Mode::Append, &comm, step).unwrap();
            }
            session.finalize().unwrap();
        });
        for step in 0..STEPS + 2 {
            assert_eq!(read_heat(&place.layout, NAME, step), all_of_t(RANKS, step), "sealed: {sealed}, step {step}");
        }
    }
}

#[test]
fn a_larger_run_adds_subfiles_and_a_smaller_one_leaves_some_alone() {
    for (method, of_ranks) in [("POSIX", ""), ("MPI_AGGREGATE", "aggregators="), ("MPI_SCHEDULED", "num_files=")] {
        let place = Place::memory();
        for (step, ranks) in [3, 5, 2, 4].into_iter().enumerate() {
            place.run(ranks, |comm| {
                let parameters = if of_ranks.is_empty() { String::new() } else { format!("{of_ranks}{ranks}") };
                let session = place.session(&heat(method, &parameters), &comm);
                let mode = if step == 0 { Mode::Write } else { Mode::Append };
                write_heat(&session, NAME, mode, &comm, step as u64);
                session.finalize().unwrap();
            });
        }
        for (step, ranks) in [3, 5, 2, 4].into_iter().enumerate() {
            assert_eq!(read_heat(&place.layout, NAME, step as u64), all_of_t(ranks, step as u64), "{method}");
        }
    }
}

#[test]
fn subfiles_whose_index_was_lost_are_not_begun_anew() {
    for setup in WITH_SUBFILES {
        for harm in [Harm::Removed, Harm::Emptied] {
            let place = written(*setup);
            let whole = contents(&place.layout, NAME).unwrap();
            harm.does(&*place.store, NAME, &BTreeMap::new());
            let data = |place: &Place| {
                objects(&*place.store).into_iter().filter(|(n, _)| n != NAME).collect::<BTreeMap<_, _>>()
            };
            let before = data(&place);
            let outcomes = place.run(RANKS, |comm| {
                let session = place.session(&heat(setup.0, setup.1), &comm);
                let outcome = try_heat(&session, NAME, Mode::Append, &comm, 0);
                session.finalize().unwrap();
                outcome
            });
            all_failed(&outcomes, &format!("{setup:?} {harm:?}"));
            assert!(words(&outcomes).contains("thalweg recover"), "{}", words(&outcomes));
            assert!(data(&place) == before, "{setup:?} {harm:?}: a subfile was changed");
            recover(&*place.layout, NAME, RecoverOptions::default()).unwrap();
            assert!(contents(&place.layout, NAME).unwrap() == whole, "{setup:?} {harm:?}");
        }
    }
}

#[test]
fn a_failing_store_is_not_a_missing_file() {
    // `Direct` over a store that fails says so; nobody is told that a file was removed.
    let failing = Arc::new(Failing::new(Arc::new(Memory::new())));
    let layout: Arc<dyn Layout> = Arc::new(Direct::new(failing.clone()).unwrap());
    let place = Place { store: failing.clone(), layout };
    place.run(1, |comm| {
        let session = place.session(&heat("MPI", ""), &comm);
        write_steps(&session, &comm);
        failing.fail(thalweg_store::wrap::Fault::any());
        let e = try_heat(&session, NAME, Mode::Append, &comm, STEPS).unwrap_err();
        assert_eq!(e.kind(), ErrorKind::Io, "{e}");
        failing.heal();
        write_heat(&session, NAME, Mode::Append, &comm, STEPS);
        session.finalize().unwrap();
    });
}
