//! The adaptive method: what it writes reads back, verifies and is found again without index; slow and failing storage
//! targets cost little, and the index says where each group went.

mod common;
#[path = "common/fault_injected.rs"]
mod fault_injected;
#[path = "common/uneven.rs"]
mod uneven;

use common::*;
use fault_injected::{Life, Moment};
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};
use thalweg_comm::Communicator;
use thalweg_comm::threads::Machine;
use thalweg_io::Mode;
use thalweg_reader::space::space;
use thalweg_reader::{FindingKind, Reader, RecoverOptions, recover, verify};
use thalweg_store::memory::Memory;
use thalweg_store::wrap::{Failing, Fault, Operation, Slow, StoreCall, Verdict, Watch, Wrapped};
use thalweg_store::{Store, StoreExt};
use thalweg_types::{Error, ErrorKind, Selection};
use uneven::*;

const BY: By = By("ADAPTIVE");

/// The subfile of each block of a step, by rank.
fn files(place: &Place, variable: &str, step: u64) -> Vec<u32> {
    let reader = Reader::open(place.layout.clone(), "x.bp").unwrap();
    reader.blocks(variable, step).unwrap().iter().map(|b| b.subfile.unwrap()).collect()
}

#[test]
fn any_number_of_ranks_with_uneven_groups_and_appended_steps_reads_back_and_verifies() {
    for (ranks, parameters) in [
        (1, ""),
        (2, "num_files=7"),
        (3, "num_files=2"),
        (5, "writers_per_target=3;chunk=1"),
        (8, "num_files=3;index=each"),
        (64, "num_files=5;sync=yes"),
    ] {
        let place = Place::memory();
        BY.write(&place, ranks, parameters, 0..2, None, uneven(ranks));
        // Another session finds the ends of the files again.
        BY.write(&place, ranks, parameters, 2..4, None, uneven(ranks));
        check(&place, ranks, 0..4, uneven(ranks));
        let files = parameters.strip_prefix("num_files=").map(|p| p.split(';').next().unwrap().parse().unwrap());
        let files: u32 = files.unwrap_or(4.min(ranks.max(2)));
        assert_eq!(place.store.list("x.bp.dir").unwrap().len() as u32, files, "{ranks} ranks, {parameters}");
    }
}

#[test]
fn a_buffer_smaller_than_the_group_changes_nothing_and_leaves_no_spill_file() {
    BY.reads_back_with_a_buffer_smaller_than_the_group_and_leaves_no_spill_file(
        "num_files=2;spill_copy=512;chunk=9000",
    );
}

#[test]
fn other_numbers_of_ranks_and_files_go_on_where_the_last_session_ended() {
    BY.goes_on_with_other_numbers_of_ranks_and_files();
}

#[test]
fn restarting_from_an_earlier_step_drops_the_later_ones_from_every_file() {
    BY.drops_later_steps_from_every_file_when_it_restarts_from_an_earlier_one();
}

/// A memory store with eight devices, one for each subfile: so many milliseconds for 64 KiB.
fn eight(slow: &[(usize, f64)], usual_ms: f64) -> (Arc<Memory>, Arc<Slow>) {
    let memory = Arc::new(Memory::new());
    let rate = |ms: f64| 65536e3 / ms;
    let mut rates = [rate(usual_ms); 8];
    slow.iter().for_each(|(device, ms)| rates[*device] = rate(*ms));
    let device = |name: &str| match name.contains(".dir/") {
        true => name.rsplit('.').next().and_then(|n| n.parse().ok()).unwrap_or(usize::MAX),
        false => usize::MAX,
    };
    let slow = Arc::new(Slow::with_devices(memory.clone(), Duration::ZERO, &rates, device));
    (memory, slow)
}

/// Values of which a group has about 64 KiB.
const LARGE: usize = 8192;

#[test]
fn what_is_stuck_at_a_slow_target_is_written_elsewhere_and_harms_nothing_whenever_it_ends() {
    let (memory, slow) = eight(&[(3, 400.0)], 4.0);
    let (place, bare) = (Place::over(slow), Place::over(memory));
    let count = |_, _| LARGE;
    place.run(32, |comm| {
        let session = place.session(&group("ADAPTIVE", "num_files=8;stuck=2;patience=20;chunk=32k"), &comm);
        for step in 0..3 {
            write_step(&session, &comm, mode(step), step, LARGE);
            comm.barrier().unwrap();
            if comm.rank() == 0 {
                // Writes that were left to themselves are under way.
                for before in 0..=step {
                    let went = files(&bare, "data", before);
                    assert_eq!(went.len(), 32);
                    assert!(!went.contains(&3), "step {before}: {went:?}");
                }
                let reader = Reader::open(bare.layout.clone(), "x.bp").unwrap();
                for block in reader.blocks("data", step).unwrap() {
                    let read = reader.read_as::<f64>("data", step, &Selection::Block(block.number)).unwrap();
                    assert!(read == values(block.number as u32, step, LARGE), "step {step}");
                }
            }
            comm.barrier().unwrap();
        }
        session.finalize().unwrap();
    });
    check(&bare, 32, 0..3, count);
    // What was begun at the slow target counts as dead, and nothing else of the file does.
    let dead = space(&*bare.layout, "x.bp").unwrap();
    let of: Vec<u64> = dead.parts.iter().filter(|p| p.object.contains(".dir/")).map(|p| p.bytes.dead).collect();
    assert_eq!(of.len(), 8);
    assert!(of[3] >= 16 << 10, "{of:?}");
    assert!(of[3] <= (3 * 66) << 10, "{of:?}");
    // It is found again without the index, and goes on.
    bare.store.remove("x.bp").unwrap();
    let found = recover(&*bare.layout, "x.bp", RecoverOptions::default()).unwrap();
    assert_eq!((found.steps, found.process_groups), (3, Some(96)), "{:?}", found.actions);
    check(&bare, 32, 0..3, count);
    BY.write(&bare, 32, "num_files=8", 3..4, None, count);
    check(&bare, 32, 0..4, count);
}

/// Writes to one subfile wait until it is opened.
struct Gate {
    shut: Arc<(Mutex<bool>, Condvar)>,
    file: &'static str,
}

impl Watch for Gate {
    fn describe(&self) -> &'static str {
        "gated"
    }

    fn before(&self, operation: &Operation<'_>) -> Verdict {
        if operation.asked == StoreCall::Write && operation.name == self.file {
            let (shut, changed) = &*self.shut;
            let mut shut = shut.lock().unwrap();
            while *shut {
                shut = changed.wait(shut).unwrap();
            }
        }
        Verdict::Pass
    }
}

#[test]
fn close_does_not_wait_for_a_write_that_hangs_and_finalize_does() {
    let memory: Arc<dyn Store> = Arc::new(Memory::new());
    let shut = Arc::new((Mutex::new(false), Condvar::new()));
    let set = |to: bool| {
        *shut.0.lock().unwrap() = to;
        shut.1.notify_all();
    };
    let gate = Gate { shut: shut.clone(), file: "x.bp.dir/x.bp.1" };
    let (place, bare) = (Place::over(Arc::new(Wrapped::with(memory.clone(), gate))), Place::over(memory));
    let crashed: Arc<dyn Store> = Arc::new(Memory::new());
    let crashed = Place::over(crashed);
    place.run(12, |comm| {
        let session = place.session(&group("ADAPTIVE", "num_files=4;patience=20"), &comm);
        for step in 0..4 {
            if comm.rank() == 0 {
                // The first output shows how fast writes are.
                set(step > 0);
            }
            comm.barrier().unwrap();
            write_step(&session, &comm, mode(step), step, 3000);
        }
        comm.barrier().unwrap();
        if comm.rank() == 0 {
            for step in 1..4 {
                assert!(!files(&bare, "data", step).contains(&1), "step {step}");
            }
            // What a kill leaves now.
            crashed.store.make_folder("x.bp.dir").unwrap();
            for name in (0..4).map(|k| format!("x.bp.dir/x.bp.{k}")) {
                crashed.store.write_all(&name, &bytes(&*bare.store, &name)).unwrap();
            }
        }
        comm.barrier().unwrap();
        let began = Instant::now();
        if comm.rank() == 0 {
            std::thread::scope(|s| {
                s.spawn(|| {
                    std::thread::sleep(Duration::from_millis(200));
                    set(false);
                });
                session.finalize().unwrap();
            });
        } else {
            session.finalize().unwrap();
        }
        assert!(began.elapsed() >= Duration::from_millis(200));
    });
    check(&bare, 12, 0..4, |_, _| 3000);
    let parts = space(&*bare.layout, "x.bp").unwrap().parts;
    let dead: u64 = parts.iter().filter(|p| p.object.ends_with(".bp.1")).map(|p| p.bytes.dead).sum();
    assert!(dead > 24_000, "{dead}");
    assert_eq!(recover(&*crashed.layout, "x.bp", RecoverOptions::default()).unwrap().process_groups, Some(48));
    check(&crashed, 12, 0..4, |_, _| 3000);
}

#[test]
fn a_file_that_is_replaced_gets_nothing_of_what_was_stuck_on_its_way_to_the_old_one() {
    let (memory, slow) = eight(&[(1, 600.0)], 4.0);
    let (place, bare) = (Place::over(slow.clone()), Place::over(memory));
    place.run(16, |comm| {
        let session = place.session(&group("ADAPTIVE", "num_files=8;stuck=2;patience=20"), &comm);
        for _ in 0..2 {
            write_step(&session, &comm, Mode::Write, 0, LARGE);
        }
        // A restart cuts files too.
        write_step(&session, &comm, Mode::Append, 1, LARGE);
        write_step(&session, &comm, Mode::AppendAfter(0), 1, 100);
        session.finalize().unwrap();
    });
    check(&bare, 16, 0..2, |_, step| if step == 0 { LARGE } else { 100 });
    assert_eq!(Reader::open(bare.layout.clone(), "x.bp").unwrap().status().steps, 2);
}

#[test]
fn a_target_that_was_slow_gets_work_again_when_it_is_fast() {
    let (_, slow) = eight(&[(0, 200.0)], 2.0);
    let place = Place::over(slow.clone());
    let used = place.run(32, |comm| {
        let session = place.session(&group("ADAPTIVE", "num_files=8;stuck=2;patience=20;chunk=32k"), &comm);
        let mut used = Vec::new();
        for step in 0..12 {
            if step == 1 && comm.rank() == 0 {
                slow.set_rate(0, 65536e3 / 2.0);
            }
            write_step(&session, &comm, mode(step), step, LARGE);
            comm.barrier().unwrap();
            used.push(files(&place, "data", step).iter().filter(|f| **f == 0).count());
            comm.barrier().unwrap();
        }
        session.finalize().unwrap();
        used
    });
    assert_eq!(used[0][0], 0, "{:?}", used[0]);
    assert!(used[0][11] > 0, "{:?}", used[0]);
}

/// The time of `outputs` outputs, from before the first open to behind the last close, on the slowest rank.
fn time(method: &str, parameters: &str, slow: &[(usize, f64)], n: usize, outputs: u64) -> Vec<f64> {
    let (_, slow) = eight(slow, 16.0);
    let place = Place::over(slow);
    let times = place.run(64, |comm| {
        let session = place.session(&group(method, parameters), &comm);
        let mut times = Vec::new();
        for step in 0..outputs {
            comm.barrier().unwrap();
            let began = Instant::now();
            write_step(&session, &comm, mode(step), step, n);
            comm.barrier().unwrap();
            times.push(began.elapsed().as_secs_f64());
        }
        session.finalize().unwrap();
        times
    });
    (0..outputs as usize).map(|i| times.iter().map(|t| t[i]).fold(0.0, f64::max)).collect()
}

#[test]
fn one_of_eight_targets_a_hundred_times_slower_costs_little() {
    let parameters = "num_files=8;patience=30;chunk=32k";
    let slow = [(5, 1600.0)];
    let mut ratios = Vec::new();
    for _ in 0..3 {
        let clean = time("ADAPTIVE", parameters, &[], LARGE, 2);
        let slowed = time("ADAPTIVE", parameters, &slow, LARGE, 2);
        let (first, next) = (slowed[0] / clean[0], slowed[1] / clean[1]);
        println!("clean {clean:.3?} s, one slow {slowed:.3?} s: {first:.2} times, the next output {next:.2} times");
        ratios.push(first);
    }
    // A twentieth of the bytes: all of them would take half a minute.
    let scheduled = "num_files=8;targets=8;writers_per_target=1";
    let base = time("MPI_SCHEDULED", scheduled, &slow, LARGE / 20, 1)[0]
        / time("MPI_SCHEDULED", scheduled, &[], LARGE / 20, 1)[0];
    ratios.sort_by(f64::total_cmp);
    println!("ADAPTIVE loses {:.2} times (median of {ratios:.2?}), MPI_SCHEDULED {base:.1} times", ratios[1]);
    // 1.5 times is what it should be; other work on the machine makes it more.
    assert!(ratios[1] < 3.0 && ratios[1] < base / 3.0, "{ratios:?} {base}");
}

#[test]
fn a_target_that_fails_costs_nobody_its_data() {
    let memory: Arc<dyn Store> = Arc::new(Memory::new());
    let store = Arc::new(Failing::new(memory.clone()));
    let (place, bare) = (Place::over(store.clone()), Place::over(memory));
    place.run(12, |comm| {
        let session = place.session(&group("ADAPTIVE", "num_files=4"), &comm);
        for step in 0..3 {
            if step == 1 && comm.rank() == 0 {
                store.fail(Fault::of(StoreCall::Write).named("x.bp.dir/x.bp.2").with(ErrorKind::NoSpace).half_way());
            }
            comm.barrier().unwrap();
            write_step(&session, &comm, mode(step), step, 500);
        }
        store.heal();
        session.finalize().unwrap();
    });
    assert!(files(&bare, "data", 0).contains(&2));
    for step in [1, 2] {
        assert!(!files(&bare, "data", step).contains(&2));
    }
    check(&bare, 12, 0..3, |_, _| 500);
    BY.write(&bare, 12, "num_files=4", 3..4, None, |_, _| 500);
    check(&bare, 12, 0..4, |_, _| 500);
}

#[test]
fn where_every_target_fails_all_ranks_say_so_and_the_steps_before_stay() {
    for ranks in [1, 6] {
        let memory: Arc<dyn Store> = Arc::new(Memory::new());
        let store = Arc::new(Failing::new(memory.clone()));
        let place = Place::over(store.clone());
        let began = Instant::now();
        let outcomes = place.run(ranks, |comm| {
            let session = place.session(&heat("ADAPTIVE", "num_files=3"), &comm);
            write_heat(&session, "x.bp", Mode::Write, &comm, 0);
            if comm.rank() == 0 {
                store.fail(Fault::of(StoreCall::Write).named("x.bp.dir/").with(ErrorKind::NoSpace));
            }
            comm.barrier().unwrap();
            let outcome = try_heat(&session, "x.bp", Mode::Append, &comm, 1);
            comm.barrier().unwrap();
            if comm.rank() == 0 {
                store.heal();
            }
            comm.barrier().unwrap();
            write_heat(&session, "x.bp", Mode::Append, &comm, 1);
            session.finalize().unwrap();
            outcome
        });
        assert!(began.elapsed() < Duration::from_secs(100));
        for (rank, outcome) in outcomes.iter().enumerate() {
            let e = outcome.as_ref().unwrap_err();
            assert_eq!((e.kind(), e.place().rank), (ErrorKind::NoSpace, Some(rank as u32)), "{e}");
        }
        let place = Place::over(memory);
        for step in 0..2 {
            assert_eq!(read_heat(&place.layout, "x.bp", step), all_of_t(ranks, step));
        }
        clean(&place);
    }
}

#[test]
fn a_rank_that_fails_costs_its_own_group_alone() {
    for failing in [0, 3, 5] {
        let place = Place::memory();
        let outcomes = Machine::new(6).timeout(Duration::from_secs(300)).run(|comm| {
            let session = place.session(&heat("ADAPTIVE", "num_files=3"), &comm);
            write_heat(&session, "x.bp", Mode::Write, &comm, 0);
            let output = session.open("heat", "x.bp", Mode::Append, comm.duplicate().unwrap()).unwrap();
            let outcome = if comm.rank() == failing {
                output.abandon(Error::new(ErrorKind::Io, "given up")).map(drop)
            } else {
                let mut output = output;
                output.write_values("NX", &[4i32]).unwrap();
                output.write_values("ranks", &[6i32]).unwrap();
                output.write_values("rank", &[comm.rank() as i32]).unwrap();
                output.write_values("t", &t(comm.rank(), 1, 4)).unwrap();
                output.close().map(drop)
            };
            write_heat(&session, "x.bp", Mode::Append, &comm, 2);
            session.finalize().unwrap();
            outcome
        });
        all_failed_alike(&outcomes, &[failing], ErrorKind::Io);
        let reader = Reader::open(place.layout.clone(), "x.bp").unwrap();
        assert_eq!(reader.status().partial.iter().map(|p| (p.step, p.rank)).collect::<Vec<_>>(), [(1, failing)]);
        assert_eq!(reader.blocks("t", 1).unwrap().len(), 5);
        for step in [0, 2] {
            assert_eq!(read_heat(&place.layout, "x.bp", step), all_of_t(6, step));
        }
    }
}

#[test]
fn survivors_close_the_step_when_a_rank_dies_at_any_moment() {
    let moments = (0..7).map(Moment::MessageCall).chain((0..5).map(Moment::Message)).chain([Moment::Write]);
    for moment in moments {
        for dying in [0, 2] {
            let memory: Arc<dyn Store> = Arc::new(Memory::new());
            let began = Instant::now();
            let outcomes = Machine::new(5).timeout(Duration::from_secs(120)).run(|comm| {
                let rank = comm.rank();
                let life = Life::of(comm);
                let place = Place::over(Arc::new(life.store(memory.clone())));
                let comm = life.communicator();
                let session = place.session(&heat("ADAPTIVE", "num_files=2"), &comm);
                write_heat(&session, "x.bp", Mode::Write, &comm, 0);
                let mut output = session.open("heat", "x.bp", Mode::Append, comm.duplicate().unwrap()).unwrap();
                output.write_values("NX", &[4i32]).unwrap();
                output.write_values("ranks", &[5i32]).unwrap();
                output.write_values("rank", &[rank as i32]).unwrap();
                output.write_values("t", &t(rank, 1, 4)).unwrap();
                if rank == dying {
                    life.ends(Some(moment));
                }
                let outcome = output.close().map(drop);
                if rank == dying {
                    life.end();
                }
                outcome
            });
            assert!(began.elapsed() < Duration::from_secs(100), "{moment:?}, rank {dying}: {:?}", began.elapsed());
            let place = Place::over(memory);
            assert_eq!(read_heat(&place.layout, "x.bp", 0), all_of_t(5, 0));
            let reader = Reader::open(place.layout.clone(), "x.bp").unwrap();
            let context = format!("{moment:?}, rank {dying}: {outcomes:?}");
            if reader.status().steps == 2 {
                let ranks: Vec<u32> =
                    reader.blocks("t", 1).unwrap().iter().map(|b| reader.writer(b).unwrap().unwrap()).collect();
                for rank in 0..5 {
                    assert!(ranks.contains(&rank) || rank == dying, "{ranks:?}, {context}");
                }
                for (i, rank) in ranks.iter().enumerate() {
                    let read = reader.read_as::<f64>("t", 1, &Selection::Block(i as u64)).unwrap();
                    assert_eq!(read, t(*rank, 1, 4), "{context}");
                }
            } else {
                assert!(outcomes.iter().any(Result::is_err), "{context}");
                panic!("the survivors did not close the step: {context}");
            }
            let report = verify(&*place.layout, "x.bp").unwrap();
            let damage: Vec<_> = report
                .findings
                .iter()
                .filter(|f| matches!(f.kind, FindingKind::Checksum | FindingKind::Structure))
                .collect();
            assert!(damage.is_empty(), "{damage:?}, {context}");
        }
    }
}

#[test]
fn where_every_write_is_taken_for_stuck_all_groups_come_to_rest() {
    for parameters in ["num_files=3;stuck=1;patience=0", "num_files=2;stuck=1;patience=0;writers_per_target=3"] {
        let place = Place::memory();
        Machine::new(8).timeout(Duration::from_secs(120)).run(|comm| {
            let session = place.session(&group("ADAPTIVE", parameters), &comm);
            for step in 0..60 {
                write_step(&session, &comm, mode(step), step, uneven(8)(comm.rank(), step) / 20);
            }
            session.finalize().unwrap();
        });
        check(&place, 8, 0..60, |rank, step| uneven(8)(rank, step) / 20);
    }
}

#[test]
fn parameters_that_make_no_sense_are_named() {
    use thalweg_movement::method::{Parameters, adaptive};
    for (key, value) in
        [("num_files", "0"), ("writers_per_target", "0"), ("stuck", "no"), ("patience", "long"), ("chunk", "x")]
    {
        let e = (adaptive::KIND.make)(&Parameters::from_iter([(key, value)])).err().unwrap();
        assert!(e.kind() == ErrorKind::Config && e.what().contains(key), "{e}");
    }
}
