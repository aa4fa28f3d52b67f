//! Ranks that die while an output is open: those left close the step as a partial one, whoever is lost and whenever.

mod common;
#[path = "common/fault_injected.rs"]
mod fault_injected;

use common::*;
use fault_injected::{Life, Moment};
use std::sync::Arc;
use std::time::Duration;
use thalweg_comm::Communicator;
use thalweg_comm::threads::Machine;
use thalweg_io::Mode;
use thalweg_layout::container::{Options, tools::Accept};
use thalweg_layout::{Container, Layout};
use thalweg_reader::{FindingKind, Partial, Reader, verify};
use thalweg_store::memory::Memory;
use thalweg_store::wrap::{Failing, Fault, StoreCall};
use thalweg_types::{ErrorKind, Result, Selection};

const RANKS: u32 = 5;
/// A limit for hangs alone: the longest wait of one call, which then fails with `Timeout`.
const PATIENCE: Duration = Duration::from_secs(120);

/// Two steps are written, ranks die in the third, the others go on among themselves with a fourth. Returns what the
/// close of the third said, per rank, and the files.
///
/// - `moments`: per rank, when it dies, counted from the beginning of its close.
fn lose(method: &str, buffer: Option<u64>, moments: impl Fn(u32) -> Option<Moment> + Sync) -> (Place, Vec<Result<()>>) {
    lose_with(method, "", buffer, moments)
}

fn lose_with(
    method: &str,
    parameters: &str,
    buffer: Option<u64>,
    moments: impl Fn(u32) -> Option<Moment> + Sync,
) -> (Place, Vec<Result<()>>) {
    lose_in(Place::over, method, parameters, buffer, moments)
}

/// - `place`: the layout over a store.
fn lose_in(
    place_over: fn(Arc<dyn thalweg_store::Store>) -> Place,
    method: &str,
    parameters: &str,
    buffer: Option<u64>,
    moments: impl Fn(u32) -> Option<Moment> + Sync,
) -> (Place, Vec<Result<()>>) {
    let memory: Arc<dyn thalweg_store::Store> = Arc::new(Memory::new());
    let machine = Machine::new(RANKS).timeout(PATIENCE);
    let outcomes = machine.run(|own| {
        let life = Life::of(own);
        let place = place_over(Arc::new(life.store(memory.clone())));
        let comm = life.communicator();
        let session = place.session(&heat(method, parameters), &comm);
        session.set_buffer_limit(buffer);
        write_heat(&session, "x.bp", Mode::Write, &comm, 0);
        write_heat(&session, "x.bp", Mode::Append, &comm, 1);
        let mut output = session.open("heat", "x.bp", Mode::Append, comm.duplicate().unwrap()).unwrap();
        let (rank, ranks) = (comm.rank() as i32, comm.size() as i32);
        for (name, value) in [("NX", 4), ("ranks", ranks), ("rank", rank)] {
            output.write_values(name, &[value]).unwrap();
        }
        output.write("note", b"step 2").unwrap();
        output.write_values("t", &t(comm.rank(), 2, 4)).unwrap();
        output.write_values("mine", &[comm.rank() as f32; 4]).unwrap();
        let moment = moments(comm.rank());
        life.ends(moment);
        let outcome = output.close().map(|_| ());
        if moment.is_some() {
            life.end();
            return outcome;
        }
        let left = comm.survivors().unwrap();
        let next = session.open("heat", "x.bp", Mode::Append, left.duplicate().unwrap()).unwrap().step();
        assert_eq!(next, 3, "{outcome:?}");
        write_heat(&session, "x.bp", Mode::Append, &*left, 3);
        // Ranks of the session are missing, but the files are closed for good.
        assert_eq!(session.finalize().unwrap_err().kind(), ErrorKind::PeerLost);
        left.barrier().unwrap();
        outcome
    });
    (place_over(memory), outcomes)
}

/// - `lost`: who died; `missing`: whose part of step 2 is lost with them.
fn check(place: &Place, outcomes: &[Result<()>], lost: &[u32], missing: &[u32], what: &str) {
    let list = lost.iter().map(u32::to_string).collect::<Vec<_>>().join(", ");
    for (rank, outcome) in (0..).zip(outcomes).filter(|(r, _)| !lost.contains(r)) {
        let Err(e) = outcome else { panic!("{what}: rank {rank} heard nothing of the loss") };
        assert_eq!(e.kind(), ErrorKind::PeerLost, "{what}: {e}");
        assert!(e.to_string().contains(&format!("rank {list} was lost")), "{what}: {e}");
        let safe = match missing.len() {
            0 => "steps 0..=1 are indexed and readable; step 2 is whole".to_string(),
            n => format!("steps 0..=1 are indexed and readable; step 2 is partial ({} of 5 process groups)", 5 - n),
        };
        assert_eq!(e.still_safe(), Some(safe.as_str()), "{what}: {e}");
    }
    let reader = Reader::open(place.layout.clone(), "x.bp").unwrap();
    assert_eq!((reader.status().steps, reader.status().torn_bytes), (4, 0), "{what}");
    assert!(reader.status().finished, "{what}");
    for step in 0..2 {
        assert_eq!(read_heat(&place.layout, "x.bp", step), all_of_t(RANKS, step), "{what}");
    }
    let partial = |rank: &u32| Partial { step: 2, rank: *rank, kind: ErrorKind::PeerLost };
    assert_eq!(reader.status().partial, missing.iter().map(partial).collect::<Vec<_>>(), "{what}");
    let left: Vec<u32> = (0..RANKS).filter(|r| !missing.contains(r)).collect();
    let blocks = reader.blocks("t", 2).unwrap();
    assert_eq!(blocks.iter().map(|b| b.offset[0] as u32).collect::<Vec<_>>(), left, "{what}");
    for (block, rank) in blocks.iter().zip(left) {
        let read = reader.read_as::<f64>("t", 2, &Selection::Block(block.number)).unwrap();
        assert_eq!(read, t(rank, 2, 4), "{what}");
    }
    assert_eq!(read_heat(&place.layout, "x.bp", 3), all_of_t(RANKS - lost.len() as u32, 3), "{what}");
    let report = verify(&*place.layout, "x.bp").unwrap();
    let others: Vec<_> = report
        .findings
        .iter()
        .filter(|f| !matches!(f.kind, FindingKind::Partial | FindingKind::Gap) || f.step != Some(2))
        // What a dead rank left at the end of its own subfile is cut when that rank is there again.
        .filter(|f| f.kind != FindingKind::Structure || !lost.iter().any(|r| f.object.ends_with(&format!("x.bp.{r}"))))
        .collect();
    assert!(others.is_empty(), "{what}: {others:?}");
}

/// Collective calls of close before the gather of fragments: a shared file has its scan, stripes their largest group.
fn before_gather(method: &str) -> u32 {
    u32::from(method != "POSIX")
}

#[test]
fn whoever_dies_before_its_part_is_told_the_others_close_the_step() {
    for method in ["MPI", "POSIX", "MPI_SCHEDULED"] {
        for lost in 0..RANKS {
            for call in 0..=before_gather(method) {
                let what = format!("{method}, rank {lost} dies before call {call}");
                let (place, outcomes) = lose(method, None, |rank| (rank == lost).then_some(Moment::MessageCall(call)));
                check(&place, &outcomes, &[lost], &[lost], &what);
            }
        }
    }
}

#[test]
fn bytes_of_a_lost_rank_hide_nothing_of_the_others_on_a_container() {
    for method in ["MPI", "POSIX", "MPI_SCHEDULED", "MPI_COLLECTIVE"] {
        for lost in 0..RANKS {
            // Before its place is known, and when it has written and closed.
            for call in 0..4 {
                let moments = |rank: u32| (rank == lost).then_some(Moment::MessageCall(call));
                let (place, outcomes) = lose_in(Place::container, method, "", None, moments);
                let what = format!("{method}, rank {lost} dies before call {call}: {}", words(&outcomes));
                // What the lost rank left in its logs is published: it has the clock of its time.
                let container = Container::new(vec![place.store.clone()], Options::default()).unwrap();
                for path in
                    std::iter::once("x.bp".to_string()).chain((0..RANKS).map(|rank| format!("x.bp.dir/x.bp.{rank}")))
                {
                    if container.stat(&path).is_ok() {
                        container.repair(&path, Accept { open: true, lost: false }).unwrap();
                    }
                }
                let reader = Reader::open(place.layout.clone(), "x.bp").unwrap_or_else(|e| panic!("{what}: {e}"));
                assert_eq!((reader.status().steps, reader.status().torn_bytes), (4, 0), "{what}");
                for step in 0..4 {
                    for block in reader.blocks("t", step).unwrap_or_else(|e| panic!("{what}: step {step}: {e}")) {
                        let read = reader.read_as::<f64>("t", step, &Selection::Block(block.number));
                        let read = read.unwrap_or_else(|e| panic!("{what}: step {step}: {e}"));
                        assert_eq!(read, t(block.offset[0] as u32, step, 4), "{what}: step {step}");
                    }
                }
            }
        }
    }
}

#[test]
fn whoever_dies_in_the_middle_of_its_write_leaves_a_hole_that_nobody_falls_into() {
    for method in ["MPI", "POSIX", "MPI_SCHEDULED"] {
        for lost in 0..RANKS {
            let what = format!("{method}, rank {lost} dies writing");
            let (place, outcomes) = lose(method, None, |rank| (rank == lost).then_some(Moment::Write));
            check(&place, &outcomes, &[lost], &[lost], &what);
        }
    }
}

#[test]
fn a_step_that_was_indexed_before_the_loss_is_not_indexed_twice() {
    let mut whole = 0;
    for method in ["MPI", "POSIX", "MPI_SCHEDULED"] {
        let last = before_gather(method) + 1;
        for lost in 1..RANKS {
            let what = format!("{method}, rank {lost} dies before the last call");
            let (place, outcomes) = lose(method, None, |rank| (rank == lost).then_some(Moment::CallLate(last)));
            // Nearly always it is indexed by then; where it is not, it is without that rank.
            let indexed = Reader::open(place.layout.clone(), "x.bp").unwrap().blocks("t", 2).unwrap().len();
            let missing: &[u32] = if indexed == 5 { &[] } else { &[lost] };
            whole += u32::from(missing.is_empty());
            check(&place, &outcomes, &[lost], missing, &what);
        }
        // The rank that indexed it is the one that dies: another does it again, without that rank's part.
        let (place, outcomes) = lose(method, None, |rank| (rank == 0).then_some(Moment::MessageCall(last)));
        check(&place, &outcomes, &[0], &[0], &format!("{method}, rank 0 dies before the last call"));
    }
    assert!(whole > 0);
}

#[test]
fn whoever_dies_after_its_fragment_went_ahead_is_left_out_all_the_same() {
    for method in ["MPI", "POSIX", "MPI_SCHEDULED"] {
        // Storage targets one for each rank: nobody waits for a turn, so that outcomes are the only messages.
        for more in ["index_ahead=0", "index_ahead=0;index_fan_in=2", "index_ahead=0;index=each"] {
            let parameters =
                if method == "MPI_SCHEDULED" { format!("{more};num_files=5;targets=5") } else { more.into() };
            for lost in 0..RANKS {
                // In the middle of its write; and, where it has written, before it says so. Rank 0 then has staged the index.
                for moment in [Moment::Write, Moment::Message(0)] {
                    let what = format!("{method}, {parameters}, rank {lost} dies, {moment:?}");
                    let dies = |rank| (rank == lost).then_some(moment);
                    let (place, outcomes) = lose_with(method, &parameters, None, dies);
                    check(&place, &outcomes, &[lost], &[lost], &what);
                }
            }
        }
    }
}

#[test]
fn whoever_dies_inside_the_tree_takes_nobody_along() {
    // 13 ranks, three children each: 0 has 1, 5 and 9; 5 has 6, 7 and 8.
    const MANY: u32 = 13;
    for method in ["POSIX", "MPI"] {
        for lost in [0, 1, 5, 7, 12] {
            let memory: Arc<dyn thalweg_store::Store> = Arc::new(Memory::new());
            let outcomes = Machine::new(MANY).timeout(PATIENCE).run(|own| {
                let life = Life::of(own);
                let place = Place::over(Arc::new(life.store(memory.clone())));
                let comm = life.communicator();
                let session = place.session(&heat(method, "index_fan_in=3"), &comm);
                write_heat(&session, "x.bp", Mode::Write, &comm, 0);
                // Opening takes two calls.
                life.ends((comm.rank() == lost).then_some(Moment::MessageCall(2 + before_gather(method))));
                let outcome = try_heat(&session, "x.bp", Mode::Append, &comm, 1);
                if comm.rank() == lost { Ok(()) } else { outcome }
            });
            let what = format!("{method}, rank {lost} of {MANY}");
            for (rank, outcome) in (0..).zip(outcomes).filter(|(rank, _)| *rank != lost) {
                let e = outcome.unwrap_err();
                assert_eq!(e.kind(), ErrorKind::PeerLost, "{what}: rank {rank}: {e}");
                assert!(e.still_safe().is_some_and(|s| s.contains("partial (12 of 13")), "{what}: rank {rank}: {e}");
            }
            let reader = Reader::open(Place::over(memory).layout, "x.bp").unwrap();
            let partial = [Partial { step: 1, rank: lost, kind: ErrorKind::PeerLost }];
            assert_eq!((reader.status().steps, &reader.status().partial[..]), (2, &partial[..]), "{what}");
            let left: Vec<u32> = (0..MANY).filter(|rank| *rank != lost).collect();
            let blocks = reader.blocks("t", 1).unwrap();
            assert_eq!(blocks.iter().map(|b| b.offset[0] as u32).collect::<Vec<_>>(), left, "{what}");
        }
    }
}

#[test]
fn those_left_may_be_lost_too() {
    for method in ["MPI", "POSIX", "MPI_SCHEDULED"] {
        // Rank 3 dies first; then rank 1, or rank 0 with the index, while the survivors gather and commit.
        for second in [0, 1, 4] {
            for call in 0..5 {
                let what = format!("{method}, rank 3 and then rank {second} before call {call}");
                let (place, outcomes) = lose(method, None, |rank| match rank {
                    3 => Some(Moment::MessageCall(before_gather(method))),
                    r if r == second => Some(Moment::MessageCall(before_gather(method) + call)),
                    _ => None,
                });
                let mut lost = [second, 3];
                lost.sort_unstable();
                // The last call of all is made after the step was indexed.
                let indexed = Reader::open(place.layout.clone(), "x.bp").unwrap().blocks("t", 2).unwrap().len();
                let missing: &[u32] = if indexed == 4 { &[3] } else { &lost };
                check(&place, &outcomes, &lost, missing, &what);
            }
        }
    }
}

#[test]
fn what_went_to_a_spill_file_or_straight_to_a_subfile_survives_the_others_as_well() {
    for method in ["MPI", "POSIX", "MPI_SCHEDULED"] {
        for lost in [0, 2] {
            let what = format!("{method}, rank {lost}, no buffer");
            let (place, outcomes) = lose(method, Some(0), |rank| (rank == lost).then_some(Moment::MessageCall(0)));
            check(&place, &outcomes, &[lost], &[lost], &what);
        }
    }
}

#[test]
fn a_rank_that_fails_while_another_is_lost_keeps_its_cause_and_is_named() {
    for method in ["MPI", "POSIX", "MPI_SCHEDULED"] {
        let memory: Arc<dyn thalweg_store::Store> = Arc::new(Memory::new());
        let outcomes = Machine::new(RANKS).timeout(PATIENCE).run(|own| {
            let life = Life::of(own);
            let store = Arc::new(Failing::new(memory.clone()));
            let comm = life.communicator();
            let session = Place::over(store.clone()).session(&heat(method, ""), &comm);
            write_heat(&session, "x.bp", Mode::Write, &comm, 0);
            match comm.rank() {
                // Before the gather: opening takes two calls, or three where files have storage targets.
                1 => {
                    let opening = 2 + u32::from(method == "MPI_SCHEDULED");
                    life.ends(Some(Moment::MessageCall(opening + before_gather(method))));
                }
                3 => store.fail(Fault::of(StoreCall::Write).times(1).with(ErrorKind::NoSpace)),
                _ => {}
            }
            try_heat(&session, "x.bp", Mode::Append, &comm, 1)
        });
        for (rank, outcome) in (0..).zip(&outcomes).filter(|(rank, _)| *rank != 1) {
            let e = outcome.as_ref().unwrap_err();
            assert_eq!(e.kind(), ErrorKind::NoSpace, "{method} rank {rank}: {e}");
            assert_eq!(e.reported_by(), (rank != 3).then_some(3), "{method} rank {rank}: {e}");
            assert!(e.to_string().contains("step 1 is partial (3 of 5 process groups)"), "{e}");
        }
        let reader = Reader::open(Place::over(memory).layout.clone(), "x.bp").unwrap();
        let partial = |rank, kind| Partial { step: 1, rank, kind };
        let both = [partial(1, ErrorKind::PeerLost), partial(3, ErrorKind::NoSpace)];
        assert_eq!(reader.status().partial, both, "{method}");
        assert_eq!(reader.blocks("t", 1).unwrap().len(), 3);
    }
}
