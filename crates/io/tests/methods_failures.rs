//! What goes wrong costs its own part of the step, by every method that the registry lists: all ranks are told the same in
//! bounded time, what the others wrote is indexed, the step is marked partial, steps before it stay as they were and the
//! next one is whole.
//!
//! Here is what holds for all methods. What each loses exactly is in `partial_steps`, `lost_ranks`, `aggregated`,
//! `collective`, `scheduled`, `adaptive`.

mod common;
#[path = "common/fault_injected.rs"]
mod fault_injected;

use common::*;
use fault_injected::{Life, Moment};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};
use thalweg_comm::Communicator;
use thalweg_comm::threads::{Machine, ThreadCommunicator};
use thalweg_io::registry;
use thalweg_io::{Mode, Session};
use thalweg_layout::Direct;
use thalweg_reader::{FindingKind, Partial, Reader, RecoverOptions, recover, verify};
use thalweg_store::memory::Memory;
use thalweg_store::wrap::{Failing, Fault, Operation, StoreCall, Verdict, Watch, Wrapped};
use thalweg_store::{Posix, Store};
use thalweg_types::{Error, ErrorKind, Result, Selection};

const RANKS: u32 = 5;
/// A limit for hangs alone: no call waits longer for what does not come.
const PATIENCE: Duration = Duration::from_secs(120);

/// Every method that writes files, as it comes and with parameters that make other ranks write.
fn setups() -> Vec<(&'static str, &'static str)> {
    let further = [
        ("MPI", "index_ahead=0"),
        ("POSIX", "index_ahead=0;index_fan_in=2"),
        ("MPI_COLLECTIVE", "aggregators=3;stripe=256;buffer=8k;index_ahead=0"),
        ("MPI_AGGREGATE", "aggregators=2;chunk=300;index_ahead=0"),
        ("MPI_SCHEDULED", "num_files=2;targets=1;writers_per_target=1;index_ahead=0"),
        ("MPI_COLLECTIVE", "aggregators=3;stripe=256;buffer=8k"),
        ("MPI_AGGREGATE", "aggregators=2;chunk=300"),
        ("MPI_AGGREGATE", "pattern=brigade;aggregators=2;chunk=300"),
        ("MPI_SCHEDULED", "num_files=2;targets=1;writers_per_target=1"),
        ("ADAPTIVE", "num_files=2;chunk=8k"),
        ("ASYNC", "async=no;owners=3;stripe=256;write_stripe=256;buffer=64k;index_ahead=0"),
        ("ASYNC", "async=no;owners=2;base=1;owner_stripe=300;fraction=100"),
        ("ASYNC", "async=no;subfiles=2;owners=2;stripe=256;write_stripe=256;buffer=64k;index_ahead=0"),
        ("ASYNC", "async=no;subfiles=2"),
    ];
    let all = registry::that_write_by_themselves().map(|kind| (kind.names[0], registry::written_by_close(kind)));
    // `METHOD=NAME` runs that method alone.
    let wanted = std::env::var("METHOD").ok();
    let is_wanted = |method: &str| wanted.as_ref().is_none_or(|name| name.eq_ignore_ascii_case(method));
    all.chain(further).filter(|(method, _)| is_wanted(method)).collect()
}

/// Whose part may be lost when this rank's store fails: those whose data went through it.
fn may_lose(method: &str, parameters: &str, failing: u32) -> BTreeSet<u32> {
    match method {
        // Stripes have bytes of anybody.
        "MPI_COLLECTIVE" | "ASYNC" => (0..RANKS).collect(),
        "MPI_AGGREGATE" if parameters.contains("aggregators=2") => {
            if failing < 3 {
                (failing..3).collect()
            } else {
                (failing..5).collect()
            }
        }
        "MPI_AGGREGATE" => (0..RANKS).collect(),
        _ => BTreeSet::from([failing]),
    }
}

struct Run {
    place: Place,
    outcomes: Vec<Result<()>>,
    what: String,
}

/// The step that an append would write now; nothing is left of the look.
fn next_step(session: &Session, comm: &dyn Communicator) -> u64 {
    session.open("heat", "x.bp", Mode::Append, comm.duplicate().unwrap()).unwrap().step()
}

/// Two steps are written, one is spoiled, and one more is written.
///
/// - `store_of`: per rank, what it writes to, over the same memory; `spoil` makes it fail, and is undone by `heal`.
fn spoil_step_2(
    (method, parameters): (&str, &str),
    what: &str,
    buffer: Option<u64>,
    store_of: impl Fn(Arc<dyn Store>, u32) -> Arc<Failing> + Sync,
    spoil: impl Fn(u32, &Failing) + Sync,
) -> Run {
    let memory: Arc<dyn Store> = Arc::new(Memory::new());
    let outcomes = Machine::new(RANKS).timeout(PATIENCE).run(|comm: ThreadCommunicator| {
        let store = store_of(memory.clone(), comm.rank());
        let session = Place::over(store.clone()).session(&heat(method, parameters), &comm);
        session.set_buffer_limit(buffer);
        write_heat(&session, "x.bp", Mode::Write, &comm, 0);
        write_heat(&session, "x.bp", Mode::Append, &comm, 1);
        comm.barrier().unwrap();
        spoil(comm.rank(), &store);
        let begun = Instant::now();
        let outcome = try_heat(&session, "x.bp", Mode::Append, &comm, 2);
        let took = begun.elapsed();
        assert!(took < PATIENCE / 2, "{method} {parameters}, {what}: somebody waited {took:?} for what does not come");
        store.heal();
        comm.barrier().unwrap();
        let next = next_step(&session, &comm);
        write_heat(&session, "x.bp", Mode::Append, &comm, next);
        session.finalize().unwrap();
        outcome
    });
    Run { place: Place::over(memory), outcomes, what: format!("{method} {parameters}, {what}") }
}

impl Run {
    /// All ranks were told the same, and the files say it, too. Returns the ranks whose part of step 2 is lost: all where
    /// the step is not in the index.
    fn judge(&self, kind: ErrorKind) -> BTreeSet<u32> {
        let what = &self.what;
        let failed: Vec<&Error> = self.outcomes.iter().filter_map(|o| o.as_ref().err()).collect();
        assert!(failed.is_empty() || failed.len() == self.outcomes.len(), "{what}: some heard nothing: {failed:?}");
        let causes = failed.iter().filter(|e| e.reported_by().is_none());
        let causes: Vec<u32> = causes.filter_map(|e| e.place().rank).collect();
        for e in &failed {
            assert_eq!(e.kind(), kind, "{what}: {e}");
            assert!(e.reported_by().is_none_or(|by| causes.contains(&by)), "{what}: {causes:?} have the cause: {e}");
            let safe = e.still_safe().unwrap_or_else(|| panic!("{what}: {e}: nothing is said of what is safe"));
            assert!(safe.starts_with("steps 0..=1 are indexed and readable"), "{what}: {e}");
        }
        let reader = Reader::open(self.place.layout.clone(), "x.bp").unwrap();
        let status = reader.status();
        let indexed = failed.first().is_none_or(|e| !e.still_safe().unwrap_or("").contains("not in the index"));
        let last = if indexed { 3 } else { 2 };
        assert_eq!((status.steps, status.finished, status.torn_bytes), (last + 1, true, 0), "{what}: {failed:?}");
        for step in (0..=last).filter(|s| *s != 2 || !indexed) {
            assert_eq!(read_heat(&self.place.layout, "x.bp", step), all_of_t(RANKS, step), "{what}, step {step}");
        }
        let missing = if indexed { partial_step(&reader, kind, what) } else { (0..RANKS).collect() };
        assert_eq!(failed.is_empty(), missing.is_empty(), "{what}: {failed:?}");
        for e in failed.iter().filter(|_| indexed) {
            let safe = format!("step 2 is partial ({} of 5 process groups)", RANKS as usize - missing.len());
            assert!(e.still_safe().is_some_and(|s| s.ends_with(&safe)), "{what}: {e}: {missing:?} are missing");
        }
        let report = verify(&*self.place.layout, "x.bp").unwrap();
        let known = |f: &&thalweg_reader::Finding| {
            f.step == Some(2) && matches!(f.kind, FindingKind::Partial | FindingKind::Gap) && indexed
        };
        let others: Vec<_> = report.findings.iter().filter(|f| !known(f)).collect();
        assert!(others.is_empty(), "{what}: {others:?}");
        let leftovers = self.place.store.list("").unwrap();
        assert!(leftovers.iter().all(|n| n == "x.bp" || n == "x.bp.dir"), "{what}: {leftovers:?} are left");
        missing
    }

    /// The data alone say the same, and may say more of a rank that failed when all its data were there.
    fn recovers(&self) {
        let everything = contents(&self.place.layout, "x.bp").unwrap();
        spoil_index(&self.place);
        let options = RecoverOptions { keep_partial: true, ..Default::default() };
        let recovery = recover(&*self.place.layout, "x.bp", options).unwrap();
        assert!(recovery.dropped.is_empty(), "{}: {:?}", self.what, recovery.actions);
        let found = contents(&self.place.layout, "x.bp").unwrap();
        assert!(found.keys().eq(everything.keys()), "{}: {:?}", self.what, recovery.actions);
        for ((name, step), blocks) in &everything {
            let found = &found[&(name.clone(), *step)];
            let there = blocks.iter().all(|b| found.contains(b)) && (*step == 2 || found == blocks);
            assert!(there, "{}: {name}, step {step}: {:?}", self.what, recovery.actions);
        }
    }
}

fn spoil_index(place: &Place) {
    let object =
        place.layout.open_write("x.bp", thalweg_layout::OpenWrite::Existing, thalweg_layout::WriterId(0)).unwrap();
    let end = object.length().unwrap();
    object.write_at(end - 20, &[std::io::IoSlice::new(&[0xff; 20])]).unwrap();
}

/// What is there of step 2 is as it was written, and the rest is marked. Returns the ranks that are missing.
fn partial_step(reader: &Reader, kind: ErrorKind, what: &str) -> BTreeSet<u32> {
    let mut missing: BTreeSet<u32> = (0..RANKS).collect();
    for block in reader.blocks("t", 2).unwrap() {
        let rank = block.offset[0] as u32;
        assert!(missing.remove(&rank), "{what}: rank {rank} twice");
        assert_eq!(reader.writer(&block).unwrap(), Some(rank), "{what}");
        let read = reader.read_as::<f64>("t", 2, &Selection::Block(block.number)).unwrap();
        assert_eq!(read, t(rank, 2, 4), "{what}");
    }
    let partial: Vec<Partial> = missing.iter().map(|rank| Partial { step: 2, rank: *rank, kind }).collect();
    assert_eq!(reader.status().partial, partial, "{what}");
    missing
}

fn own_store(memory: Arc<dyn Store>, _: u32) -> Arc<Failing> {
    Arc::new(Failing::new(memory))
}

#[test]
fn a_write_that_fails_on_one_rank() {
    for setup in setups() {
        let mut met = 0;
        for failing in 0..RANKS {
            // Which write, whether half of it is written, and the buffer limit.
            for (skip, half_way, buffer) in [(0, false, None), (0, true, None), (1, false, None), (2, true, Some(0))] {
                let what = format!("write {skip} of rank {failing} fails, half way: {half_way}, buffer {buffer:?}");
                let fault = Fault::of(StoreCall::Write).skipping(skip).times(1).with(ErrorKind::NoSpace);
                let fault = if half_way { fault.half_way() } else { fault };
                let spoil = |rank, store: &Failing| {
                    if rank == failing {
                        store.fail(fault.clone());
                    }
                };
                let run = spoil_step_2(setup, &what, buffer, own_store, spoil);
                let missing = run.judge(ErrorKind::NoSpace);
                met += u32::from(!missing.is_empty());
                // The index is rank 0's, and all of it or nothing.
                let index = failing == 0 && missing.len() == RANKS as usize;
                assert!(index || missing.is_subset(&may_lose(setup.0, setup.1, failing)), "{}: {missing:?}", run.what);
                run.recovers();
            }
        }
        // Where a target fails ADAPTIVE goes to another.
        assert!(met > 0 || setup.0 == "ADAPTIVE", "{setup:?}: no fault was met");
    }
}

#[test]
fn a_file_that_cannot_be_written_to_by_anybody() {
    for setup in setups() {
        // A subfile, or the file that has the index, and with a shared file everything.
        for object in ["x.bp.dir/x.bp.1", "x.bp"] {
            let what = format!("no write to {object} succeeds");
            let fault = Fault::of(StoreCall::Write).named(object).with(ErrorKind::PermissionDenied);
            let run = spoil_step_2(setup, &what, None, own_store, |_, store| store.fail(fault.clone()));
            let missing = run.judge(ErrorKind::PermissionDenied);
            if object == "x.bp" {
                assert_eq!(missing.len(), RANKS as usize, "{}", run.what);
            } else if setup.0 == "ADAPTIVE" {
                assert!(missing.is_empty(), "{}: {missing:?}", run.what);
            }
            run.recovers();
        }
    }
}

#[test]
fn a_disk_that_is_full() {
    for setup in setups() {
        let mut met = BTreeSet::new();
        for space in [0, 300, 900, 2000, 3000, 5000, 1 << 20] {
            for buffer in [None, Some(0)] {
                // One disk for all ranks.
                let disk = std::sync::OnceLock::new();
                let all = |memory: Arc<dyn Store>, _| disk.get_or_init(|| Arc::new(Failing::new(memory))).clone();
                let spoil = |rank, store: &Failing| {
                    if rank == 0 {
                        store.space(Some(space));
                    }
                };
                let run =
                    spoil_step_2(setup, &format!("{space} bytes are free, buffer {buffer:?}"), buffer, all, spoil);
                met.insert(run.judge(ErrorKind::NoSpace).len());
                run.recovers();
            }
        }
        assert!(met.contains(&0) && met.contains(&(RANKS as usize)), "{setup:?}: so many ranks lost theirs: {met:?}");
    }
}

#[test]
fn an_open_that_fails_on_one_rank_changes_nothing_or_costs_its_own_part_alone() {
    for setup in setups() {
        for failing in 0..RANKS {
            for which in [StoreCall::OpenWrite, StoreCall::Read, StoreCall::OpenRead, StoreCall::Stat] {
                let what = format!("rank {failing} fails: {which:?}");
                let spoil = |rank, store: &Failing| {
                    if rank == failing {
                        store.fail(Fault::of(which).times(1).with(ErrorKind::PermissionDenied));
                    }
                };
                let run = spoil_step_2(setup, &what, None, own_store, spoil);
                let told = run.outcomes.iter().filter(|o| o.is_err()).count();
                if run.outcomes[failing as usize].as_ref().is_err_and(|e| e.still_safe().is_none()) {
                    all_failed_alike(&run.outcomes, &[failing], ErrorKind::PermissionDenied);
                    let steps = Reader::open(run.place.layout.clone(), "x.bp").unwrap().status().steps;
                    assert_eq!(steps, 3, "{}", run.what);
                    for step in 0..3 {
                        assert_eq!(read_heat(&run.place.layout, "x.bp", step), all_of_t(RANKS, step), "{}", run.what);
                    }
                    let report = verify(&*run.place.layout, "x.bp").unwrap();
                    assert!(report.is_clean(), "{}: {:?}", run.what, report.findings);
                } else {
                    // It was met at close, or not at all.
                    assert!(told == 0 || told == RANKS as usize, "{}", run.what);
                    let missing = run.judge(ErrorKind::PermissionDenied);
                    if failing > 0 {
                        assert!(missing.is_subset(&may_lose(setup.0, setup.1, failing)), "{}: {missing:?}", run.what);
                    }
                    if (setup.0, which, failing > 0) == ("POSIX", StoreCall::OpenWrite, true) {
                        assert_eq!(
                            missing,
                            BTreeSet::from([failing]),
                            "nobody waits for another's subfile: {}",
                            run.what
                        );
                    }
                }
            }
        }
    }
}

#[test]
fn a_restart_that_one_rank_cannot_open_drops_no_steps() {
    for failing in 0..RANKS {
        let memory: Arc<dyn Store> = Arc::new(Memory::new());
        let outcomes = Machine::new(RANKS).timeout(PATIENCE).run(|comm: ThreadCommunicator| {
            let store = own_store(memory.clone(), comm.rank());
            let session = Place::over(store.clone()).session(&heat("POSIX", ""), &comm);
            for step in 0..3 {
                write_heat(&session, "x.bp", if step == 0 { Mode::Write } else { Mode::Append }, &comm, step);
            }
            comm.barrier().unwrap();
            if comm.rank() == failing {
                store.fail(Fault::of(StoreCall::OpenWrite).times(1).with(ErrorKind::PermissionDenied));
            }
            let opened = session.open("heat", "x.bp", Mode::AppendAfter(0), comm.duplicate().unwrap()).map(drop);
            store.heal();
            opened
        });
        all_failed_alike(&outcomes, &[failing], ErrorKind::PermissionDenied);
        let layout = Place::over(memory).layout;
        for step in 0..3 {
            assert_eq!(read_heat(&layout, "x.bp", step), all_of_t(RANKS, step), "rank {failing}");
        }
    }
}

#[test]
fn a_rank_that_gives_up_costs_its_own_part_alone() {
    for (method, parameters) in setups() {
        for failing in 0..RANKS {
            let what = format!("{method} {parameters}, rank {failing} gives up");
            let place = Place::memory();
            let outcomes = place.run(RANKS, |comm| {
                let session = place.session(&heat(method, parameters), &comm);
                write_heat(&session, "x.bp", Mode::Write, &comm, 0);
                write_heat(&session, "x.bp", Mode::Append, &comm, 1);
                let outcome = if comm.rank() == failing {
                    let output = session.open("heat", "x.bp", Mode::Append, comm.duplicate().unwrap()).unwrap();
                    output.abandon(Error::new(ErrorKind::NoMemory, "no more")).map(|_| ())
                } else {
                    try_heat(&session, "x.bp", Mode::Append, &comm, 2)
                };
                write_heat(&session, "x.bp", Mode::Append, &comm, 3);
                session.finalize().unwrap();
                outcome
            });
            all_failed_alike(&outcomes, &[failing], ErrorKind::NoMemory);
            let run = Run { place, outcomes, what };
            assert_eq!(run.judge(ErrorKind::NoMemory), BTreeSet::from([failing]), "{}", run.what);
            run.recovers();
        }
    }
}

/// Two steps are written, one rank dies in the third, the others go on among themselves with a fourth.
fn lose((method, parameters): (&str, &str), buffer: Option<u64>, lost: u32, moment: Moment) -> Run {
    let memory: Arc<dyn Store> = Arc::new(Memory::new());
    let what = format!("{method} {parameters}, buffer {buffer:?}, rank {lost} dies: {moment:?}");
    let outcomes = Machine::new(RANKS).timeout(PATIENCE).run(|own| {
        let life = Life::of(own);
        let place = Place::over(Arc::new(life.store(memory.clone())));
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
        let begun = Instant::now();
        if comm.rank() == lost {
            life.ends(Some(moment));
            let outcome = output.close().map(|_| ());
            life.end();
            return outcome;
        }
        let outcome = output.close().map(|_| ());
        let took = begun.elapsed();
        assert!(took < PATIENCE / 2, "{what}: rank {rank} waited {took:?} for what does not come");
        let left = comm.survivors().unwrap();
        write_heat(&session, "x.bp", Mode::Append, &*left, 3);
        // Ranks of the session are missing, but the files are closed for good.
        assert_eq!(session.finalize().unwrap_err().kind(), ErrorKind::PeerLost, "{what}");
        left.barrier().unwrap();
        outcome
    });
    Run { place: Place::over(memory), outcomes, what }
}

fn survives(run: &Run, lost: u32) {
    let what = &run.what;
    let others = || (0..).zip(&run.outcomes).filter(|(rank, _)| *rank != lost);
    let told = others().filter(|(_, o)| o.is_err()).count();
    assert!(told == 0 || told == RANKS as usize - 1, "{what}: {told} ranks heard of the loss");
    for e in others().filter_map(|(_, o)| o.as_ref().err()) {
        assert_eq!(e.kind(), ErrorKind::PeerLost, "{what}: {e}");
        assert!(e.still_safe().is_some_and(|s| s.starts_with("steps 0..=1 are indexed")), "{what}: {e}");
    }
    let reader = Reader::open(run.place.layout.clone(), "x.bp").unwrap();
    let status = reader.status();
    assert_eq!((status.steps, status.finished, status.torn_bytes), (4, true, 0), "{what}");
    for step in 0..2 {
        assert_eq!(read_heat(&run.place.layout, "x.bp", step), all_of_t(RANKS, step), "{what}");
    }
    assert_eq!(read_heat(&run.place.layout, "x.bp", 3), all_of_t(RANKS - 1, 3), "{what}");
    // The dead rank's own part is there if it was told so before.
    let missing = partial_step(&reader, ErrorKind::PeerLost, what);
    assert!(missing.is_subset(&BTreeSet::from([lost])), "{what}: {missing:?} are missing");
    assert!(told > 0 || missing.is_empty(), "{what}: rank {lost}'s part is missing, and nobody was told");
    let report = verify(&*run.place.layout, "x.bp").unwrap();
    let known = |f: &&thalweg_reader::Finding| match f.kind {
        FindingKind::Partial | FindingKind::Gap => f.step == Some(2),
        // What a dead rank left at the end of a subfile is cut when it is written to again.
        FindingKind::Structure => f.object != "x.bp",
        _ => false,
    };
    let others: Vec<_> = report.findings.iter().filter(|f| !known(f)).collect();
    assert!(others.is_empty(), "{what}: {others:?}");
}

#[test]
fn a_rank_that_dies_takes_nobody_elses_part_along() {
    let moments = [Moment::Write].into_iter().chain((0..5).map(Moment::MessageCall)).chain((0..6).map(Moment::Message));
    for setup in setups() {
        let mut died = 0;
        for moment in moments.clone() {
            for lost in 0..RANKS {
                let buffer = if lost % 2 == 0 { None } else { Some(0) };
                let run = lose(setup, buffer, lost, moment);
                died += u32::from(run.outcomes.iter().any(Result::is_err));
                survives(&run, lost);
            }
        }
        assert!(died > RANKS, "{setup:?}: hardly a rank died");
    }
}

#[test]
fn a_rank_that_drops_its_output_without_closing_is_lost_to_the_step_alone() {
    for (method, parameters) in setups() {
        for dropping in 0..3 {
            let place = Place::memory();
            place.run(3, |comm| {
                let session = place.session(&heat(method, parameters), &comm);
                session.set_buffer_limit(Some(200));
                write_heat(&session, "x.bp", Mode::Write, &comm, 0);
                let mut output = session.open("heat", "x.bp", Mode::Append, comm.duplicate().unwrap()).unwrap();
                output.write_values("NX", &[4i32]).unwrap();
                output.write_values("mine", &[comm.rank() as f32; 4]).unwrap();
                if comm.rank() == dropping {
                    drop(output);
                } else {
                    let error = output.close().unwrap_err();
                    assert_eq!(error.kind(), ErrorKind::PeerLost, "{method} {parameters}: {error}");
                }
                comm.barrier().unwrap();
                write_heat(&session, "x.bp", Mode::Append, &comm, 2);
                session.finalize().unwrap();
            });
            let what = format!("{method} {parameters}, rank {dropping} drops its output");
            let reader = Reader::open(place.layout.clone(), "x.bp").unwrap();
            let partial = [Partial { step: 1, rank: dropping, kind: ErrorKind::PeerLost }];
            assert_eq!(reader.status().partial, partial, "{what}");
            assert_eq!(reader.blocks("/local/mine", 1).unwrap().len(), 2, "{what}");
            assert_eq!(read_heat(&place.layout, "x.bp", 2), all_of_t(3, 2), "{what}");
        }
    }
}

/// A store of one rank: rank 0 makes the folder of subfiles, and cannot open the file while others are between this folder and their
/// subfiles.
struct Apart(u32);

impl Watch for Apart {
    fn describe(&self) -> &'static str {
        "apart"
    }

    fn before(&self, operation: &Operation<'_>) -> Verdict {
        let pause = |milliseconds| std::thread::sleep(Duration::from_millis(milliseconds));
        match operation.asked {
            StoreCall::OpenWrite if self.0 == 0 && operation.name == "x.bp" => {
                pause(100);
                return Verdict::Fail(Error::new(ErrorKind::NoSpace, "cannot open"));
            }
            StoreCall::MakeFolder if self.0 > 0 => pause(40),
            StoreCall::OpenWrite if self.0 > 0 => pause(200),
            _ => {}
        }
        Verdict::Pass
    }
}

#[test]
fn an_open_that_fails_on_rank_0_takes_no_folder_from_ranks_that_open_subfiles_in_it() {
    for (method, parameters) in [("POSIX", ""), ("ADAPTIVE", "num_files=3"), ("MPI_SCHEDULED", "num_files=3")] {
        let folder = tempfile::tempdir().unwrap();
        let store: Arc<dyn Store> = Arc::new(Posix::at(folder.path()).unwrap());
        Machine::new(3).timeout(PATIENCE).run(|comm| {
            let own = Wrapped::with(store.clone(), Apart(comm.rank()));
            let layout = Arc::new(Direct::new(Arc::new(own)).unwrap());
            let xml = format!(
                r#"<adios-config host-language="C"><adios-group name="g"><var name="n" type="integer"/></adios-group>
                <method group="g" method="{method}">{parameters}</method></adios-config>"#
            );
            let schema = thalweg_schema::xml::parse(&xml, "x.xml").unwrap_or_else(|e| panic!("{}", e.render(false)));
            let session = Session::with_layout(schema, layout, comm.duplicate().unwrap()).unwrap();
            let failed = session.open("g", "x.bp", Mode::Write, comm.duplicate().unwrap()).err().expect("rank 0 fails");
            assert_eq!(failed.kind(), ErrorKind::NoSpace, "{method}, rank {}: {failed}", comm.rank());
        });
    }
}
