//! The profile of an output: what is written beside it, that it adds up, and who is named for keeping others waiting.

mod common;
#[path = "common/fault_injected.rs"]
mod fault_injected;

use common::*;
use fault_injected::{Life, Moment};
use std::sync::Arc;
use std::time::Duration;
use thalweg_comm::Communicator;
use thalweg_comm::threads::Machine;
use thalweg_io::{Closed, Mode, Session};
use thalweg_profile::document::path_of;
use thalweg_profile::waits::{leaves, summary};
use thalweg_profile::{Document, Phase};
use thalweg_store::Store;
use thalweg_store::memory::Memory;
use thalweg_store::wrap::{Failing, Fault, Slow, StoreCall};
use thalweg_types::ErrorKind;

const RANKS: u32 = 5;
const METHODS: [(&str, &str); 9] = [
    ("NULL", ""),
    ("POSIX", ""),
    ("MPI", ""),
    ("MPI_COLLECTIVE", "aggregators=2"),
    ("MPI_AGGREGATE", "aggregators=2"),
    ("MPI_AGGREGATE", "aggregators=2;pattern=brigade;chunk=128"),
    ("MPI_SCHEDULED", "num_files=2"),
    ("ADAPTIVE", "num_files=2"),
    ("MPI_SCHEDULED", "num_files=1;writers_per_target=1;sync=yes"),
];

fn with_profile(parameters: &str) -> String {
    if parameters.is_empty() { "profile=yes".into() } else { format!("{parameters};profile=yes") }
}

fn profile(place: &Place, output: &str, step: u64) -> Document {
    Document::from_json(&bytes(&*place.store, &path_of(output, step))).unwrap()
}

/// One step; `late`: the rank that comes late to close.
fn write(session: &Session, path: &str, mode: Mode, comm: &dyn Communicator, late: Option<u32>) -> Closed {
    let mut output = session.open("heat", path, mode, comm.duplicate().unwrap()).unwrap();
    for (name, value) in [("NX", 4), ("ranks", comm.size() as i32), ("rank", comm.rank() as i32)] {
        output.write_values(name, &[value]).unwrap();
    }
    output.write_values("t", &t(comm.rank(), 0, 4)).unwrap();
    if late == Some(comm.rank()) {
        std::thread::sleep(Duration::from_millis(100));
    }
    output.close().unwrap()
}

#[test]
fn every_method_accounts_for_its_time_and_bytes() {
    let holes = ["MPI_SCHEDULED", "ADAPTIVE"];
    for (method, parameters) in METHODS {
        let place = Place::memory();
        let closed = place.run(RANKS, |comm| {
            let session = place.session(&heat(method, &with_profile(parameters)), &comm);
            [Mode::Write, Mode::Append].map(|mode| write(&session, "x.bp", mode, &comm, None).bytes)
        });
        for step in 0..2 {
            let what = format!("{method} {parameters}, step {step}");
            let profile = profile(&place, "x.bp", step);
            assert_eq!((profile.step, profile.ranks, profile.missing()), (step, RANKS, 0), "{what}");
            assert_eq!(
                (profile.methods.as_slice(), profile.group.as_str()),
                (&[method.to_string()][..], "heat"),
                "{what}"
            );
            assert_eq!(profile.bytes, closed[0][step as usize], "{what}");
            let written = |phase: Phase| profile.by_rank.iter().map(|p| p.total(phase).bytes).sum::<u64>();
            if method != "NULL" {
                let groups = profile.by_rank.iter().map(|p| p.group_bytes).sum::<u64>();
                assert_eq!((groups, profile.error.as_deref()), (profile.bytes, None), "{what}");
                // Marks of holes are written too.
                let more = written(Phase::Write) - profile.bytes;
                assert!(if holes.contains(&method) { more < 1000 } else { more == 0 }, "{what}: {more} bytes more");
                assert!(written(Phase::Index) > 0, "{what}");
            }
            assert!(profile.clock_error_ns < 10_000_000_000, "{what}");
            for (rank, part) in (0..).zip(&profile.by_rank) {
                assert_eq!(part.rank, rank, "{what}");
                let runs = leaves(part);
                assert!(runs.windows(2).all(|two| two[0].end <= two[1].begin), "{what}");
                assert_eq!(part.resolution_ns, 0, "{what}");
                for phase in Phase::ALL {
                    let runs: u64 = runs.iter().filter(|r| r.phase == phase).map(|r| r.end.abs_diff(r.begin)).sum();
                    assert_eq!(runs, part.total(phase).own, "{what}: rank {rank}, {}", phase.name());
                }
                // Open and close are all accounted for.
                let inside = |[from, to]: [i64; 2]| {
                    let runs = runs.iter().filter(|r| r.begin >= from && r.end <= to);
                    (runs.map(|r| r.end.abs_diff(r.begin)).sum::<u64>(), to.abs_diff(from))
                };
                let (opening, open) = inside(part.open);
                let (closing, close) = inside(part.close);
                assert!(opening <= open && closing <= close, "{what}");
                assert!(open - opening < open / 2 + 1_000_000, "{what}: {opening} of {open} ns");
                assert!(close - closing < close / 2 + 1_000_000, "{what}: {closing} of {close} ns");
                let copied = part.total(Phase::Copy).bytes + part.total(Phase::Characteristics).bytes;
                assert!(copied >= 64, "{what}: {copied} bytes");
            }
        }
    }
}

#[test]
fn no_method_that_asks_for_it_leaves_no_profile_and_one_of_two_is_enough() {
    for (first, second, there) in [("", "", false), ("", "profile=yes", true), ("profile=no", "profile=no", false)] {
        let place = Place::memory();
        place.run(2, |comm| {
            let document = heat("POSIX", first).replace(
                "</adios-config>",
                &format!("<method group=\"heat\" method=\"MPI\" base-path=\"b\">{second}</method></adios-config>"),
            );
            place.store.make_folder("b").unwrap();
            write(&place.session(&document, &comm), "x.bp", Mode::Write, &comm, None);
        });
        assert_eq!(place.store.open_read(&path_of("x.bp", 0)).is_ok(), there, "{first} {second}");
        if there {
            assert_eq!(profile(&place, "x.bp", 0).methods, ["POSIX", "MPI"]);
        }
    }
}

#[test]
fn a_rank_whose_program_comes_late_is_named() {
    for (method, parameters) in METHODS {
        if method == "NULL" {
            continue;
        }
        let place = Place::memory();
        place.run(RANKS, |comm| {
            let session = place.session(&heat(method, &with_profile(parameters)), &comm);
            write(&session, "x.bp", Mode::Write, &comm, Some(3));
        });
        let held = summary(&[profile(&place, "x.bp", 0)]).causes;
        let first = held[0];
        assert_eq!((first.rank, first.doing), (3, None), "{method} {parameters}: {held:?}");
        assert!(first.waited > 150_000_000, "{method} {parameters}: {held:?}");
    }
}

#[test]
fn ranks_that_write_to_a_slow_place_are_named() {
    for (method, parameters, slow) in [
        ("MPI_SCHEDULED", "num_files=1;writers_per_target=1", 0..RANKS),
        ("ADAPTIVE", "num_files=1", 0..RANKS),
        ("MPI_AGGREGATE", "aggregators=1", 0..1),
    ] {
        let place = Place::over(Arc::new(Slow::new(Arc::new(Memory::new()), Duration::from_millis(15), f64::INFINITY)));
        place.run(RANKS, |comm| {
            let session = place.session(&heat(method, &with_profile(parameters)), &comm);
            write(&session, "x.bp", Mode::Write, &comm, None);
        });
        let mut held = summary(&[profile(&place, "x.bp", 0)]).causes;
        // Opening files is slow too.
        held.retain(|held| held.doing.is_some_and(|doing| !matches!(doing, Phase::Open | Phase::Index)));
        let writing: u64 = held.iter().filter(|h| h.doing == Some(Phase::Write)).map(|h| h.waited).sum();
        let all: u64 = held.iter().map(|h| h.waited).sum();
        assert!(writing > 50_000_000 && writing > all / 2, "{method}: {held:?}");
        assert!(
            held.iter().filter(|h| h.doing == Some(Phase::Write)).all(|h| slow.contains(&h.rank)),
            "{method}: {held:?}"
        );
    }
}

#[test]
fn a_rank_that_fails_is_in_the_profile_with_its_error() {
    for (method, parameters) in METHODS {
        let place = Place::memory();
        place.run(RANKS, |comm| {
            let session = place.session(&heat(method, &with_profile(parameters)), &comm);
            let mut output = session.open("heat", "x.bp", Mode::Write, comm.duplicate().unwrap()).unwrap();
            if comm.rank() == 2 {
                output.fail(thalweg_types::Error::new(ErrorKind::NoSpace, "the device is full"));
            }
            let closed = output.close();
            assert!(method == "NULL" || closed.unwrap_err().kind() == ErrorKind::NoSpace);
        });
        let profile = profile(&place, "x.bp", 0);
        assert_eq!(profile.missing(), 0, "{method}");
        let failed = profile.by_rank[2].error.as_deref().unwrap();
        assert!(failed.contains("NoSpace") && failed.contains("the device is full"), "{method}: {failed}");
        assert!(method == "NULL" || profile.error.unwrap().contains("NoSpace"), "{method}");
    }
}

#[test]
fn the_part_of_a_lost_rank_is_missing_and_no_more() {
    for method in ["POSIX", "MPI", "MPI_AGGREGATE"] {
        for (lost, moment) in
            [(1, Moment::MessageCall(0)), (1, Moment::Message(0)), (1, Moment::Write), (0, Moment::Write)]
        {
            let memory: Arc<dyn Store> = Arc::new(Memory::new());
            Machine::new(RANKS).timeout(Duration::from_secs(120)).run(|own| {
                let life = Life::of(own);
                let place = Place::over(Arc::new(life.store(memory.clone())));
                let comm = life.communicator();
                let session = place.session(&heat(method, "profile=yes"), &comm);
                let mut output = session.open("heat", "x.bp", Mode::Write, comm.duplicate().unwrap()).unwrap();
                output.write_values("NX", &[4]).unwrap();
                if comm.rank() == lost {
                    life.ends(Some(moment));
                }
                let _ = output.close();
                if comm.rank() == lost {
                    life.end();
                }
            });
            let profile = profile(&Place::over(memory), "x.bp", 0);
            let there: Vec<u32> = profile.by_rank.iter().map(|p| p.rank).collect();
            let all: Vec<u32> = (0..RANKS).collect();
            let left: Vec<u32> = all.iter().copied().filter(|rank| *rank != lost).collect();
            // A rank that was to die and did not get to it has died after it had sent its part.
            let alive = profile.error.is_none() && there == all;
            assert!(there == left || alive, "{method}, {moment:?} of rank {lost}: {there:?}");
            assert!(
                moment != Moment::Write || !alive || method == "MPI_AGGREGATE",
                "{method}, {moment:?} of rank {lost}"
            );
        }
    }
}

#[test]
fn an_output_whose_profile_cannot_be_written_is_well() {
    let failing = Arc::new(Failing::new(Arc::new(Memory::new())));
    failing.fail(Fault::of(StoreCall::Write).named("step-0.json"));
    let place = Place::over(failing);
    place.run(3, |comm| {
        let session = place.session(&heat("POSIX", "profile=yes"), &comm);
        write(&session, "x.bp", Mode::Write, &comm, None);
        write(&session, "x.bp", Mode::Append, &comm, None);
        session.finalize().unwrap();
    });
    assert_eq!(profile(&place, "x.bp", 1).missing(), 0);
}

#[test]
fn calculation_between_outputs_is_shown_and_profiles_of_an_older_file_go() {
    let place = Place::memory();
    let step = |session: &Session, mode: Mode, comm: &dyn Communicator| {
        session.begin_calculation();
        std::thread::sleep(Duration::from_millis(10));
        session.end_calculation();
        session.end_iteration();
        write(session, "x.bp", mode, comm, None);
    };
    place.run(2, |comm| {
        let session = place.session(&heat("MPI", "profile=yes"), &comm);
        step(&session, Mode::Write, &comm);
        step(&session, Mode::Append, &comm);
    });
    let second = profile(&place, "x.bp", 1);
    for part in &second.by_rank {
        let calculation = part.total(Phase::Calculation);
        assert_eq!((calculation.calls, part.total(Phase::Iteration).calls), (1, 1));
        assert!(calculation.own >= 10_000_000);
        let span = part.spans().find(|s| s.phase == Phase::Calculation).unwrap();
        assert!(span.end() <= part.open[0]);
    }
    place.run(2, |comm| {
        let session = place.session(&heat("MPI", "profile=yes"), &comm);
        step(&session, Mode::Write, &comm);
    });
    assert_eq!(place.store.list("x.bp.profile").unwrap(), ["step-0.json"]);
    assert_ne!(profile(&place, "x.bp", 0).run, second.run);
}

#[test]
fn profile_says_yes_or_no() {
    let place = Place::memory();
    place.run(1, |comm| {
        let schema = thalweg_schema::xml::parse(&heat("MPI", "strict=yes;profile=maybe"), "test.xml").unwrap();
        let e = Session::with_layout(schema, place.layout.clone(), comm.duplicate().unwrap()).err().unwrap();
        assert!(e.kind() == ErrorKind::Config && e.to_string().contains("profile=maybe"), "{e}");
    });
}
