//! One shared file, large outputs: where a rank's size is known from the last output it has its place from open on, and
//! writes from the program's memory. Whatever the size then is, nothing overlaps, and nothing is lost.

use crate::common::*;
use std::sync::Arc;
use thalweg_comm::Communicator;
use thalweg_comm::threads::ThreadCommunicator;
use thalweg_io::{Mode, Session};
use thalweg_reader::{Reader, RecoverOptions, recover, verify};
use thalweg_store::memory::Memory;
use thalweg_store::wrap::{Failing, Fault, StoreCall};
use thalweg_types::ErrorKind;
use thalweg_types::Selection;

const RANKS: u32 = 3;
/// Doubles that make an output large.
const LARGE: u64 = 700_000;

const DOCUMENT: &str = r#"<adios-config host-language="C">
  <adios-group name="g">
    <var name="n" type="long"/>
    <var name="a" type="double" dimensions="n"/>
    <var name="b" type="double" dimensions="n"/>
    <attribute name="unit" value="K"/>
  </adios-group>
  <method group="g" method="MPI">direct=64k</method>
</adios-config>"#;

fn values(rank: u32, step: u64, which: u64, n: u64) -> Vec<f64> {
    (0..n).map(|i| (u64::from(rank) * 1_000_000 + step * 1000 + which * 7 + i % 911) as f64).collect()
}

/// Writes a step of n(rank, step) doubles twice; returns what memory the buffer had to give.
fn step(session: &Session, comm: &ThreadCommunicator, step: u64, n: u64, told: bool) -> u64 {
    let mode = if step == 0 { Mode::Write } else { Mode::Append };
    let mut output = session.open("g", "x.bp", mode, comm.duplicate().unwrap()).unwrap();
    if told {
        output.group_size(8 + 16 * n);
    }
    output.write_values("n", &[n as i64]).unwrap();
    for (which, name) in [(0, "a"), (1, "b")] {
        let mut values = values(comm.rank(), step, which, n);
        output.write_values(name, &values).unwrap();
        // The memory is the program's again.
        values.fill(-1.0);
    }
    let used = session.buffer().used();
    output.close().unwrap();
    used
}

/// All steps as they were written, by index and without one; and nothing that verify minds.
fn check(place: &Place, steps: u64, n: impl Fn(u32, u64) -> u64) {
    for rebuilt in [false, true] {
        if rebuilt {
            let object = place
                .layout
                .open_write("x.bp", thalweg_layout::OpenWrite::Existing, thalweg_layout::WriterId(0))
                .unwrap();
            let end = object.length().unwrap();
            object.write_at(end - 20, &[std::io::IoSlice::new(&[0xff; 20])]).unwrap();
            object.close().unwrap();
            let recovery = recover(&*place.layout, "x.bp", RecoverOptions::default()).unwrap();
            assert_eq!((recovery.steps, recovery.dropped), (steps, vec![]), "{:?}", recovery.actions);
        }
        let reader = Reader::open(place.layout.clone(), "x.bp").unwrap();
        assert_eq!((reader.status().steps, reader.status().torn_bytes), (steps, 0));
        for step in 0..steps {
            for (which, name) in [(0, "a"), (1, "b")] {
                let blocks = reader.blocks(name, step).unwrap();
                assert_eq!(blocks.len(), RANKS as usize);
                for (block, rank) in blocks.iter().zip(0..) {
                    let got = reader.read_as::<f64>(name, step, &Selection::Block(block.number)).unwrap();
                    assert!(got == values(rank, step, which, n(rank, step)), "{name} of rank {rank}, step {step}");
                }
            }
        }
        let report = verify(&*place.layout, "x.bp").unwrap();
        assert!(report.is_clean(), "{:?}", report.findings);
    }
}

/// Runs steps of n(rank, step) doubles; returns the buffer's memory per rank and step.
fn run(steps: u64, told: bool, n: impl Fn(u32, u64) -> u64 + Sync) -> Vec<Vec<u64>> {
    run_in(&Place::memory(), steps, told, n)
}

fn run_in(place: &Place, steps: u64, told: bool, n: impl Fn(u32, u64) -> u64 + Sync) -> Vec<Vec<u64>> {
    let used = place.run(RANKS, |comm| {
        let session = place.session(DOCUMENT, &comm);
        let used: Vec<u64> = (0..steps).map(|s| step(&session, &comm, s, n(comm.rank(), s), told)).collect();
        session.finalize().unwrap();
        used
    });
    check(place, steps, n);
    used
}

#[test]
fn bytes_in_a_slot_that_was_left_hide_nothing_on_a_container() {
    for grows in [100, 10_000, LARGE] {
        let place = Place::container(Arc::new(Memory::new()));
        run_in(&place, 5, false, |rank, step| LARGE + if step == 3 { grows * u64::from(rank) } else { 0 });
    }
}

#[test]
fn an_output_of_the_size_of_the_last_one_is_not_copied() {
    let told = run(3, true, |_, _| LARGE);
    let seen = run(4, false, |_, _| LARGE);
    for rank in 0..RANKS as usize {
        assert!(told[rank][0] > 16 * LARGE, "the first has no place: {told:?}");
        assert!(told[rank][1..].iter().all(|used| *used < 1 << 20), "{told:?}");
        assert!(seen[rank][1] > 16 * LARGE, "once is not a habit: {seen:?}");
        assert!(seen[rank][2..].iter().all(|used| *used < 1 << 20), "{seen:?}");
    }
}

#[test]
fn ranks_of_different_sizes_have_places_of_different_sizes() {
    let used = run(3, true, |rank, _| LARGE * (1 + u64::from(rank)) / 2);
    assert!(used.iter().all(|u| u[2] < 1 << 20), "{used:?}");
}

#[test]
fn one_that_outgrows_its_place_lies_behind_all_others() {
    for grows in 0..RANKS {
        // Told or not, and by a few bytes or by much; then steady again.
        for more in [1, LARGE] {
            for told in [false, true] {
                run(6, told, |rank, step| LARGE + if rank == grows && step >= 3 { more } else { 0 });
            }
        }
    }
    run(5, false, |rank, step| LARGE + if step == 3 { 100 * u64::from(rank) } else { 0 });
}

#[test]
fn one_that_needs_less_fills_its_place_or_leaves_a_gap() {
    for less in [1, 1000, LARGE / 2, LARGE - 1] {
        for shrinks in 0..RANKS {
            run(5, false, |rank, step| LARGE - if rank == shrinks && step == 3 { less } else { 0 });
        }
    }
}

#[test]
fn a_size_that_differs_from_what_was_told_loses_nothing() {
    let place = Place::memory();
    place.run(RANKS, |comm| {
        let session = place.session(DOCUMENT, &comm);
        for s in 0..5 {
            let mode = if s == 0 { Mode::Write } else { Mode::Append };
            let mut output = session.open("g", "x.bp", mode, comm.duplicate().unwrap()).unwrap();
            // Always the same, whatever is written; told between two writes where the step is odd.
            let n = LARGE + s * 1000;
            output.write_values("n", &[n as i64]).unwrap();
            if s % 2 == 0 {
                output.group_size(LARGE * 16);
            }
            output.write_values("a", &values(comm.rank(), s, 0, n)).unwrap();
            output.group_size(LARGE * 16);
            output.write_values("b", &values(comm.rank(), s, 1, n)).unwrap();
            output.close().unwrap();
        }
        session.finalize().unwrap();
    });
    check(&place, 5, |_, s| LARGE + s * 1000);
}

#[test]
fn an_output_that_is_dropped_leaves_nothing_behind() {
    let place = Place::memory();
    place.run(RANKS, |comm| {
        let session = place.session(DOCUMENT, &comm);
        for s in 0..3 {
            step(&session, &comm, s, LARGE, true);
        }
        {
            let mut output = session.open("g", "x.bp", Mode::Append, comm.duplicate().unwrap()).unwrap();
            output.group_size(8 + 16 * LARGE);
            output.write_values("n", &[LARGE as i64]).unwrap();
            output.write_values("a", &values(comm.rank(), 9, 9, LARGE)).unwrap();
        }
        // A much smaller step: what was dropped would lie behind its index.
        step(&session, &comm, 3, 10, false);
        session.finalize().unwrap();
    });
    check(&place, 4, |_, s| if s < 3 { LARGE } else { 10 });
}

#[test]
fn another_group_and_a_new_file_have_places_too() {
    let place = Place::memory();
    let used = place.run(RANKS, |comm| {
        let session = place.session(DOCUMENT, &comm);
        for file in ["y.bp", "z.bp"] {
            let mut output = session.open("g", file, Mode::Write, comm.duplicate().unwrap()).unwrap();
            output.group_size(8 + 16 * LARGE);
            output.write_values("n", &[LARGE as i64]).unwrap();
            output.write_values("a", &values(comm.rank(), 0, 0, LARGE)).unwrap();
            output.write_values("b", &values(comm.rank(), 0, 1, LARGE)).unwrap();
            output.close().unwrap();
        }
        let used = step(&session, &comm, 0, LARGE, true);
        session.finalize().unwrap();
        used
    });
    assert!(used.iter().all(|u| *u < 1 << 20), "{used:?}");
    check(&place, 1, |_, _| LARGE);
}

#[test]
fn a_rank_that_fails_within_its_place_costs_its_part_alone() {
    for failing in 0..RANKS {
        let memory: Arc<dyn thalweg_store::Store> = Arc::new(Memory::new());
        Place::over(memory.clone()).run(RANKS, |comm| {
            let store = Arc::new(Failing::new(memory.clone()));
            let place = Place::over(store.clone());
            let session = place.session(DOCUMENT, &comm);
            for s in 0..3 {
                step(&session, &comm, s, LARGE, true);
            }
            if comm.rank() == failing {
                store.fail(Fault::of(StoreCall::Write).named("x.bp").times(1).with(ErrorKind::NoSpace).half_way());
            }
            let mut output = session.open("g", "x.bp", Mode::Append, comm.duplicate().unwrap()).unwrap();
            output.group_size(8 + 16 * LARGE);
            output.write_values("n", &[LARGE as i64]).unwrap();
            let wrote = output.write_values("a", &values(comm.rank(), 3, 0, LARGE));
            assert_eq!(wrote.is_err(), comm.rank() == failing);
            assert_eq!(output.close().unwrap_err().kind(), ErrorKind::NoSpace);
            store.heal();
            step(&session, &comm, 4, 10, true);
            session.finalize().unwrap();
        });
        let place = Place::over(memory);
        let reader = Reader::open(place.layout.clone(), "x.bp").unwrap();
        assert_eq!((reader.status().steps, reader.status().torn_bytes), (5, 0));
        assert_eq!(reader.status().partial.iter().map(|p| (p.step, p.rank)).collect::<Vec<_>>(), [(3, failing)]);
        let left: Vec<u32> = (0..RANKS).filter(|r| *r != failing).collect();
        for (block, rank) in reader.blocks("a", 3).unwrap().iter().zip(left) {
            let got = reader.read_as::<f64>("a", 3, &Selection::Block(block.number)).unwrap();
            assert!(got == values(rank, 3, 0, LARGE));
        }
        for s in [0, 1, 2, 4] {
            assert_eq!(reader.blocks("b", s).unwrap().len(), RANKS as usize);
        }
    }
}
