//! One rank's failure costs its own part of the step and nobody else's: the others' blocks are indexed, the step is marked
//! partial, all ranks are told the same, and the next step is whole again.

use crate::common::*;
use std::sync::Arc;
use thalweg_comm::threads::ThreadCommunicator;
use thalweg_comm::{Communicator, threads};
use thalweg_io::{Mode, Session};
use thalweg_reader::{Partial, Reader, RecoverOptions, recover};
use thalweg_store::memory::Memory;
use thalweg_store::wrap::{Failing, Fault, StoreCall};
use thalweg_types::{ErrorKind, Result, Selection};

const RANKS: u32 = 4;

/// A run of four steps of which faults spoil step 2: what its close returned, per rank, and where the files are.
struct Run {
    place: Place,
    outcomes: Vec<Result<()>>,
}

/// - `faults`: per rank, what goes wrong in its store during step 2; each rank has a store of its own over the same files.
fn spoil_step_2(method: &str, parameters: &str, faults: impl Fn(u32) -> Vec<Fault> + Sync) -> Run {
    let memory: Arc<dyn thalweg_store::Store> = Arc::new(Memory::new());
    let outcomes = threads::run(RANKS, |comm: ThreadCommunicator| {
        let store = Arc::new(Failing::new(memory.clone()));
        let place = Place::over(store.clone());
        let session = place.session(&heat(method, parameters), &comm);
        for step in 0..2 {
            write_heat(&session, "x.bp", if step == 0 { Mode::Write } else { Mode::Append }, &comm, step);
        }
        faults(comm.rank()).into_iter().for_each(|f| store.fail(f));
        let outcome = try_heat(&session, "x.bp", Mode::Append, &comm, 2);
        store.heal();
        comm.barrier().unwrap();
        let next = next_step(&session, &comm);
        write_heat(&session, "x.bp", Mode::Append, &comm, next);
        session.finalize().unwrap();
        outcome
    });
    Run { place: Place::over(memory), outcomes }
}

/// The step that an append would write now; nothing is left of the look.
fn next_step(session: &Session, comm: &dyn Communicator) -> u64 {
    session.open("heat", "x.bp", Mode::Append, comm.duplicate().unwrap()).unwrap().step()
}

impl Run {
    fn reader(&self) -> Reader {
        Reader::open(self.place.layout.clone(), "x.bp").unwrap()
    }

    /// Steps 0, 1 and 3 are whole, step 2 holds what the ranks not in `failed` wrote.
    fn step_2_lacks(&self, failed: &[u32], kind: ErrorKind) {
        let reader = self.reader();
        let partial: Vec<Partial> = failed.iter().map(|rank| Partial { step: 2, rank: *rank, kind }).collect();
        assert_eq!(reader.status().partial, partial);
        assert_eq!((reader.status().steps, reader.status().finished, reader.status().torn_bytes), (4, true, 0));
        for step in [0, 1, 3] {
            assert_eq!(read_heat(&self.place.layout, "x.bp", step), all_of_t(RANKS, step), "step {step}");
        }
        let left: Vec<u32> = (0..RANKS).filter(|r| !failed.contains(r)).collect();
        let blocks = reader.blocks("t", 2).unwrap();
        assert_eq!(blocks.iter().map(|b| b.offset[0] as u32).collect::<Vec<_>>(), left);
        for (block, rank) in blocks.iter().zip(left) {
            assert_eq!(reader.read_as::<f64>("t", 2, &Selection::Block(block.number)).unwrap(), t(rank, 2, 4));
            assert_eq!(reader.writer(block).unwrap(), Some(rank));
        }
        // The index alone is enough, and so is the data alone.
        let everything = contents(&self.place.layout, "x.bp").unwrap();
        let footer = bytes(&*self.place.store, "x.bp").len() as u64 - 20;
        let object =
            self.place.layout.open_write("x.bp", thalweg_layout::OpenWrite::Existing, thalweg_layout::WriterId(0));
        object.unwrap().write_at(footer, &[std::io::IoSlice::new(&[0xff; 20])]).unwrap();
        let recovery = recover(&*self.place.layout, "x.bp", RecoverOptions::default()).unwrap();
        assert_eq!((recovery.steps, recovery.dropped), (4, vec![]), "{:?}", recovery.actions);
        assert_eq!(contents(&self.place.layout, "x.bp").unwrap(), everything);
        assert_eq!(self.reader().status().partial, partial);
    }
}

/// The name of the object a rank's data goes to.
fn data_of(method: &str, rank: u32) -> String {
    if method == "POSIX" { format!("x.bp.{rank}") } else { "x.bp".into() }
}

#[test]
fn a_full_disk_on_one_rank_costs_its_blocks_alone() {
    for method in ["MPI", "POSIX"] {
        for failing in 0..RANKS {
            let run = spoil_step_2(method, "", |rank| {
                let full = Fault::of(StoreCall::Write).named(data_of(method, rank)).times(1).with(ErrorKind::NoSpace);
                if rank == failing { vec![full.half_way()] } else { vec![] }
            });
            all_failed_alike(&run.outcomes, &[failing], ErrorKind::NoSpace);
            for outcome in &run.outcomes {
                let e = outcome.as_ref().unwrap_err();
                let safe = "steps 0..=1 are indexed and readable; step 2 is partial (3 of 4 process groups)";
                assert_eq!(e.still_safe(), Some(safe), "{method} {e}");
                assert_eq!(e.place().step, Some(2), "{e}");
            }
            let cause = run.outcomes[failing as usize].as_ref().unwrap_err().to_string();
            assert!(cause.contains("made to fail") && cause.contains(" at byte "), "{method}: {cause}");
            run.step_2_lacks(&[failing], ErrorKind::NoSpace);
        }
    }
}

#[test]
fn several_ranks_may_fail_and_the_lowest_is_named() {
    for method in ["MPI", "POSIX"] {
        let run = spoil_step_2(method, "index=each", |rank| match rank {
            1 => vec![
                Fault::of(StoreCall::Write).named(data_of(method, rank)).times(1).with(ErrorKind::PermissionDenied),
            ],
            3 => vec![
                Fault::of(StoreCall::Write)
                    .named(data_of(method, rank))
                    .times(1)
                    .with(ErrorKind::PermissionDenied)
                    .half_way(),
            ],
            _ => vec![],
        });
        all_failed_alike(&run.outcomes, &[1, 3], ErrorKind::PermissionDenied);
        run.step_2_lacks(&[1, 3], ErrorKind::PermissionDenied);
    }
}

#[test]
fn a_block_that_cannot_be_written_through_is_told_at_the_write_and_at_close() {
    for (method, object) in [("POSIX", "x.bp.2"), ("MPI", "x.bp.spill.2")] {
        let memory: Arc<dyn thalweg_store::Store> = Arc::new(Memory::new());
        let outcomes = threads::run(RANKS, |comm| {
            let store = Arc::new(Failing::new(memory.clone()));
            let session = Place::over(store.clone()).session(&heat(method, ""), &comm);
            session.set_buffer_limit(Some(0));
            if comm.rank() == 2 {
                store.fail(Fault::of(StoreCall::Write).named(object).times(1).skipping(1).with(ErrorKind::NoSpace));
            }
            let mut output = session.open("heat", "x.bp", Mode::Write, comm.duplicate().unwrap()).unwrap();
            output.write_values("NX", &[4i32]).unwrap();
            let second = output.write_values("ranks", &[4i32]).map_err(|e| e.kind());
            assert_eq!(second, if comm.rank() == 2 { Err(ErrorKind::NoSpace) } else { Ok(()) }, "{method}");
            let third = output.write_values("rank", &[comm.rank() as i32]).map_err(|e| e.to_string());
            assert_eq!(third.is_err(), comm.rank() == 2, "what comes after it is lost: {third:?}");
            let outcome = output.close().map(|_| ());
            session.finalize().unwrap();
            outcome
        });
        all_failed_alike(&outcomes, &[2], ErrorKind::NoSpace);
        let place = Place::over(memory);
        let reader = Reader::open(place.layout.clone(), "x.bp").unwrap();
        assert_eq!(reader.status().partial, [Partial { step: 0, rank: 2, kind: ErrorKind::NoSpace }]);
        assert_eq!(reader.blocks("rank", 0).unwrap().len(), 3, "{method}");
        assert!(reader.status().finished);
        assert!(!place.store.list("").unwrap().iter().any(|n| n.contains("spill")), "no spill file stays");
    }
}

#[test]
fn an_index_that_cannot_be_written_loses_the_step_and_nothing_before_it() {
    for method in ["MPI", "POSIX"] {
        // With a shared file the second write of rank 0 is the index; with subfiles the only one to this object.
        let skip = u64::from(method == "MPI");
        for half_way in [false, true] {
            let run = spoil_step_2(method, "", |rank| {
                let mut fault =
                    Fault::of(StoreCall::Write).named("x.bp").skipping(skip).times(1).with(ErrorKind::NoSpace);
                if method == "POSIX" {
                    fault = Fault::of(StoreCall::Write).named("x.bp").skipping(1).times(1).with(ErrorKind::NoSpace);
                }
                let fault = if half_way { fault.half_way() } else { fault };
                if rank == 0 { vec![fault] } else { vec![] }
            });
            all_failed_alike(&run.outcomes, &[0], ErrorKind::NoSpace);
            let e = words(&run.outcomes);
            assert!(e.contains("steps 0..=1 are indexed and readable; step 2 is not in the index"), "{e}");
            // The append after it is step 2 then.
            let reader = run.reader();
            assert_eq!((reader.status().steps, reader.status().finished), (3, true), "{method} {half_way}");
            assert!(reader.status().partial.is_empty());
            for step in 0..3 {
                assert_eq!(read_heat(&run.place.layout, "x.bp", step), all_of_t(RANKS, step), "{method}");
            }
            let report = thalweg_reader::verify(&*run.place.layout, "x.bp").unwrap();
            assert!(report.findings.is_empty(), "{method}: {:?}", report.findings);
        }
    }
}

#[test]
fn what_a_failed_rank_left_behind_the_index_is_cut_at_once() {
    for method in ["MPI", "POSIX"] {
        let memory: Arc<dyn thalweg_store::Store> = Arc::new(Memory::new());
        let outcomes = threads::run(RANKS, |comm| {
            let store = Arc::new(Failing::new(memory.clone()));
            let session = Place::over(store.clone()).session(&heat(method, ""), &comm);
            write_heat(&session, "x.bp", Mode::Write, &comm, 0);
            if comm.rank() == 3 {
                store.fail(Fault::of(StoreCall::Write).times(1).with(ErrorKind::NoSpace).half_way());
            }
            let mut output = session.open("heat", "x.bp", Mode::Append, comm.duplicate().unwrap()).unwrap();
            output.write_values("NX", &[100_000i32]).unwrap();
            output.write_values("mine", &vec![comm.rank() as f32; 100_000]).unwrap();
            output.close().map(|_| ())
        });
        all_failed_alike(&outcomes, &[3], ErrorKind::NoSpace);
        // Nothing was finalised: this is what a reader that follows along sees.
        let place = Place::over(memory);
        let reader = Reader::open(place.layout.clone(), "x.bp").unwrap();
        assert_eq!((reader.status().steps, reader.status().torn_bytes), (2, 0), "{method}");
        let read = reader.read_as::<f32>("/local/mine", 1, &Selection::Block(2)).unwrap();
        assert!(read == [2.0; 100_000]);
    }
}

#[test]
fn when_every_rank_fails_the_step_is_not_there() {
    for method in ["MPI", "POSIX"] {
        let run = spoil_step_2(method, "", |rank| {
            vec![Fault::of(StoreCall::Write).named(data_of(method, rank)).times(1).with(ErrorKind::NoSpace).half_way()]
        });
        all_failed_alike(&run.outcomes, &[0, 1, 2, 3], ErrorKind::NoSpace);
        assert_eq!(run.reader().status().steps, 3);
        for step in 0..3 {
            assert_eq!(read_heat(&run.place.layout, "x.bp", step), all_of_t(RANKS, step), "{method}");
        }
    }
}

#[test]
fn a_subfile_whose_end_cannot_be_read_is_told_to_all_and_nothing_is_written() {
    let memory: Arc<dyn thalweg_store::Store> = Arc::new(Memory::new());
    let write = |spoiled: bool, step: u64| {
        threads::run(RANKS, |comm| {
            let store = Arc::new(Failing::new(memory.clone()));
            let session = Place::over(store.clone()).session(&heat("POSIX", ""), &comm);
            if spoiled && comm.rank() == 1 {
                store.fail(Fault::of(StoreCall::Read).named("x.bp.1").with(ErrorKind::Io));
            }
            let mode = if step == 0 { Mode::Write } else { Mode::Append };
            let outcome = try_heat(&session, "x.bp", mode, &comm, step);
            session.finalize().unwrap();
            outcome
        })
    };
    write(false, 0).into_iter().for_each(|o| o.unwrap());
    all_failed_alike(&write(true, 1), &[1], ErrorKind::Io);
    write(false, 1).into_iter().for_each(|o| o.unwrap());
    let place = Place::over(memory);
    let reader = Reader::open(place.layout.clone(), "x.bp").unwrap();
    assert_eq!((reader.status().steps, reader.status().partial.len()), (2, 0));
    assert_eq!(read_heat(&place.layout, "x.bp", 0), all_of_t(RANKS, 0));
    assert_eq!(read_heat(&place.layout, "x.bp", 1), all_of_t(RANKS, 1));
}
