//! Every operation on the store fails, one at a time, once or from then on, while an output opens, is written and closed by
//! each method: all ranks are told the same, nothing that was closed before changes, and the next output is whole.

use crate::common::*;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use thalweg_comm::Communicator;
use thalweg_comm::threads::Machine;
use thalweg_io::{Mode, Session};
use thalweg_reader::{FindingKind, verify};
use thalweg_store::memory::Memory;
use thalweg_store::wrap::{Failing, Fault, StoreCall};
use thalweg_store::{Store, StoreExt};
use thalweg_types::{Error, ErrorKind, Result};

/// A limit for hangs alone.
const PATIENCE: Duration = Duration::from_secs(120);
const NAME: &str = "x.bp";
/// Steps that are closed before.
const STEPS: u64 = 3;

/// Each method, with parameters that make it work with few ranks.
const METHODS: &[(&str, &str)] = &[
    ("MPI", ""),
    ("MPI", "sync=yes;index_ahead=0"),
    ("POSIX", ""),
    ("POSIX", "sync=yes;index_ahead=0"),
    ("MPI_COLLECTIVE", "aggregators=2;stripe=256;buffer=8k"),
    ("MPI_SCHEDULED", "num_files=2;targets=1;writers_per_target=1"),
    ("MPI_AGGREGATE", "aggregators=2;chunk=300"),
    ("MPI_AGGREGATE", "pattern=brigade;aggregators=1;chunk=300"),
    ("ADAPTIVE", "num_files=2;chunk=8k"),
    ("ASYNC", "async=no;owners=2;stripe=256;write_stripe=256"),
    ("ASYNC", "async=no;subfiles=2;owners=1;stripe=256;write_stripe=256"),
];

/// How the output under test is opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum How {
    /// A new file in place of the one that is there.
    Write,
    /// By a process that has not seen the file before.
    Append,
    /// By the process that wrote the steps before.
    AppendOn,
    Update,
    AppendAfter,
}

impl How {
    const ALL: [How; 5] = [How::Write, How::Append, How::AppendOn, How::Update, How::AppendAfter];

    fn mode(self) -> Mode {
        match self {
            How::Write => Mode::Write,
            How::Append | How::AppendOn => Mode::Append,
            How::Update => Mode::Update,
            How::AppendAfter => Mode::AppendAfter(0),
        }
    }

    /// The step it writes.
    fn step(self) -> u64 {
        match self {
            How::Write => 0,
            How::Append | How::AppendOn => STEPS,
            How::Update => STEPS - 1,
            How::AppendAfter => 1,
        }
    }

    /// Steps before this one must never change.
    fn safe(self) -> u64 {
        match self {
            How::Write => 0,
            How::Append | How::AppendOn => STEPS,
            // What an update adds may be there or not.
            How::Update => STEPS - 1,
            How::AppendAfter => 1,
        }
    }
}

/// A copy of a store's objects.
fn copy(from: &dyn Store) -> Arc<dyn Store> {
    let to: Arc<dyn Store> = Arc::new(Memory::new());
    let mut folders = vec![String::new()];
    while let Some(folder) = folders.pop() {
        for name in from.list(&folder).unwrap() {
            let name = if folder.is_empty() { name } else { format!("{folder}/{name}") };
            if from.stat(&name).unwrap().is_folder {
                to.make_folder(&name).unwrap();
                folders.push(name);
            } else {
                to.write_all(&name, &from.read_all(&name).unwrap()).unwrap();
            }
        }
    }
    to
}

fn write_steps(session: &Session, comm: &dyn Communicator) {
    for step in 0..STEPS {
        write_heat(session, NAME, if step == 0 { Mode::Write } else { Mode::Append }, comm, step);
    }
}

/// What happened under a fault.
struct Case {
    place: Place,
    /// By rank, of the output and of the session's end.
    outcomes: Vec<(Result<()>, Result<()>)>,
    /// How many operations failed, and the last of them.
    failed: (u64, Option<(StoreCall, String)>),
}

/// - `closed`: the store with the steps closed before.
fn run(setup: (&str, &str), ranks: u32, how: How, closed: &dyn Store, fault: Fault) -> Case {
    let memory: Arc<dyn Store> = if how == How::AppendOn { Arc::new(Memory::new()) } else { copy(closed) };
    let failing = Arc::new(Failing::new(memory.clone()));
    let outcomes = Machine::new(ranks).timeout(PATIENCE).run(|comm| {
        let session = Place::over(failing.clone()).session(&heat(setup.0, setup.1), &comm);
        if how == How::AppendOn {
            write_steps(&session, &comm);
        }
        comm.barrier().unwrap();
        if comm.rank() == 0 {
            failing.fail(fault.clone());
        }
        comm.barrier().unwrap();
        let outcome = try_heat(&session, NAME, how.mode(), &comm, how.step());
        let ended = session.finalize();
        comm.barrier().unwrap();
        (outcome, ended)
    });
    let failed = failing.failed();
    Case { place: Place::over(memory), outcomes, failed }
}

/// All ranks succeeded, or all failed in the same way and somebody knows why. Returns whether they succeeded.
fn alike<'o>(outcomes: impl Iterator<Item = &'o Result<()>> + Clone, what: &str) -> bool {
    let errors: Vec<&Error> = outcomes.clone().filter_map(|o| o.as_ref().err()).collect();
    assert!(errors.is_empty() || errors.len() == outcomes.count(), "{what}: some ranks heard nothing: {errors:?}");
    for e in &errors {
        assert_eq!(e.kind(), errors[0].kind(), "{what}: {errors:?}");
        assert!(!matches!(e.kind(), ErrorKind::PeerLost | ErrorKind::Timeout), "{what}: {e}");
    }
    assert!(errors.is_empty() || errors.iter().any(|e| e.reported_by().is_none()), "{what}: {errors:?}");
    errors.is_empty()
}

impl Case {
    /// Returns whether the output succeeded.
    fn judge(&self, setup: (&str, &str), ranks: u32, how: How, closed: &Contents, what: &str) -> bool {
        let done = alike(self.outcomes.iter().map(|o| &o.0), &format!("{what}, the output"));
        alike(self.outcomes.iter().map(|o| &o.1), &format!("{what}, finalize"));
        let layout = &self.place.layout;
        let now = match contents(layout, NAME) {
            Ok(now) => now,
            // A new file that was begun and never closed has nothing in it.
            Err(e) => {
                let begun = how == How::Write && !done && matches!(e.kind(), ErrorKind::Torn | ErrorKind::NotFound);
                assert!(begun, "{what}: the file cannot be read any more: {e}");
                Contents::new()
            }
        };
        assert!(before(&now, how.safe()) == before(closed, how.safe()), "{what}: a closed step has changed");
        if how == How::AppendAfter && !done && now.keys().any(|(_, step)| *step >= 2) {
            assert!(now == *closed, "{what}: the steps to be dropped are there in part");
        }
        if done {
            assert_eq!(read_heat(layout, NAME, how.step()), all_of_t(ranks, how.step()), "{what}: the new step");
        }
        // Whatever was left behind, the next output comes behind what is there, and all of it is sound.
        let steps = now.keys().map(|(_, step)| step + 1).max().unwrap_or(0);
        let next = how.step().max(steps);
        Machine::new(ranks).timeout(PATIENCE).run(|comm| {
            let session = self.place.session(&heat(setup.0, setup.1), &comm);
            // A new file of which nothing was closed is begun anew.
            let mode = if steps == 0 { Mode::Write } else { Mode::Append };
            write_heat(&session, NAME, mode, &comm, steps);
            session.finalize().unwrap();
        });
        assert_eq!(read_heat(layout, NAME, steps), all_of_t(ranks, steps), "{what}: the step behind");
        assert!(before(&contents(layout, NAME).unwrap(), steps) == now, "{what}: the next output changed something");
        let report = verify(&**layout, NAME).unwrap();
        let known = |kind| match kind {
            FindingKind::Partial | FindingKind::Gap => true,
            // An update writes the same blocks again; one that failed may leave groups in subfiles that no index lists.
            FindingKind::Overlap | FindingKind::IndexDiffers => how == How::Update,
            _ => false,
        };
        let found: Vec<_> = report.findings.iter().filter(|f| !known(f.kind) || f.step < Some(how.safe())).collect();
        assert!(found.is_empty(), "{what}: step {next}: {found:?}");
        done
    }
}

/// Fails one operation after the other until none is left; returns how many there were, and how often the output went well.
fn sweep(
    setup: (&str, &str),
    ranks: u32,
    how: How,
    fault: &Fault,
    counts: &mut BTreeMap<StoreCall, u64>,
) -> (u64, u64) {
    let place = Place::memory();
    place.run(ranks, |comm| {
        let session = place.session(&heat(setup.0, setup.1), &comm);
        write_steps(&session, &comm);
        session.finalize().unwrap();
    });
    let closed = contents(&place.layout, NAME).unwrap();
    let (mut all, mut well) = (0, 0);
    for k in (0..).step_by(thalweg_conformance::sweep::stride()) {
        let case = run(setup, ranks, how, &*place.store, fault.clone().skipping(k));
        let Some((asked, name)) = &case.failed.1 else {
            // No fault met it: it went well, or the sweep shows nothing.
            assert!(case.judge(setup, ranks, how, &closed, "no fault"), "{setup:?}, {how:?}: fails without a fault");
            break;
        };
        let what = format!("{setup:?}, {ranks} ranks, {how:?}, operation {k} ({asked:?} of {name}), {fault:?}");
        let done = case.judge(setup, ranks, how, &closed, &what);
        let ended = case.outcomes.iter().all(|o| o.1.is_ok());
        assert!(
            *asked != StoreCall::Close || !(done && ended),
            "{what}: what was written may be lost, and nobody was told"
        );
        well += u64::from(done);
        all += 1;
        *counts.entry(*asked).or_default() += 1;
    }
    (all, well)
}

fn sweep_all(fault: &Fault) {
    let wanted = std::env::var("METHOD").ok();
    let mut counts = BTreeMap::new();
    for setup in METHODS.iter().filter(|setup| wanted.as_ref().is_none_or(|w| w.eq_ignore_ascii_case(setup.0))) {
        for ranks in [1, 3] {
            for how in How::ALL {
                let (all, well) = sweep(*setup, ranks, how, fault, &mut counts);
                assert!(
                    all * thalweg_conformance::sweep::stride() as u64 > 5,
                    "{setup:?}, {ranks} ranks, {how:?}: hardly anything was asked of the store"
                );
                println!(
                    "{setup:?}, {ranks} ranks, {how:?}: {all} operations failed, {well} outputs went well all the same"
                );
            }
        }
    }
    assert!(counts.contains_key(&StoreCall::Close), "no file is closed");
    println!("{} operations in all: {counts:?}", counts.values().sum::<u64>());
}

#[test]
fn any_operation_fails_once() {
    sweep_all(&Fault::any().times(1));
}

#[test]
fn any_operation_fails_once_with_a_kind_that_damaged_bytes_have() {
    sweep_all(&Fault::any().times(1).with(ErrorKind::Corrupt).half_way());
}

#[test]
fn any_operation_panics_once() {
    sweep_all(&Fault::any().times(1).panics());
}

#[test]
fn from_any_operation_on_all_fail() {
    sweep_all(&Fault::any());
}
