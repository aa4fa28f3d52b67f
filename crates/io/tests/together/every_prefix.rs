//! A writer killed at any moment loses nothing that was closed: every prefix of what it did to its files opens with the
//! steps closed until then bit-equal, appending goes on from there, and `recover` agrees. With `sync=yes` the same
//! holds for power cuts.

use crate::common::*;
use std::sync::{Arc, Mutex};
use thalweg_comm::{Communicator, threads};
use thalweg_io::Mode;
use thalweg_layout::{Direct, Layout};
use thalweg_reader::{Finding, FindingKind, Reader, RecoverOptions, recover};
use thalweg_store::memory::Memory;
use thalweg_store::wrap::Forgetful;

/// A run that was watched: after how many operations each close had returned on all ranks, and what the file held then.
struct Watched {
    store: Arc<Forgetful>,
    method: String,
    updates: bool,
    /// Sorted by operations. Steps closed, and the whole content by then.
    closed: Vec<(usize, u64, Contents)>,
}

/// One step, an update of it, or the end of a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Act {
    Step,
    Update,
    /// `finalize`; the next act begins another session with so many ranks.
    Finish(u32),
}
use Act::{Finish, Step, Update};

fn layout(store: Arc<dyn thalweg_store::Store>) -> Arc<dyn Layout> {
    Arc::new(Direct::new(store).unwrap())
}

fn watch(method: &str, parameters: &str, mut ranks: u32, acts: &[Act]) -> Watched {
    let store = Arc::new(Forgetful::new());
    let closed = Mutex::new(Vec::new());
    let mut next = 0;
    for session in acts.split_inclusive(|a| matches!(a, Finish(_))) {
        let first = next;
        threads::run(ranks, |comm| {
            let place = Place::over(store.clone());
            let session_of_rank = place.session(&heat(method, parameters), &comm);
            let mut step = first;
            for act in session {
                match act {
                    Step => {
                        let mode = if step == 0 { Mode::Write } else { Mode::Append };
                        write_heat(&session_of_rank, "x.bp", mode, &comm, step);
                        step += 1;
                    }
                    Update => {
                        let own = comm.duplicate().unwrap();
                        let mut output = session_of_rank.open("heat", "x.bp", Mode::Update, own).unwrap();
                        output.write_values("NX", &[1i32]).unwrap();
                        output.write_values("mine", &[f32::from(100 + comm.rank() as u8)]).unwrap();
                        output.close().unwrap();
                    }
                    Finish(_) => session_of_rank.finalize().unwrap(),
                }
                comm.barrier().unwrap();
                if comm.rank() == 0 {
                    let now = contents(&place.layout, "x.bp").unwrap();
                    closed.lock().unwrap().push((store.operations(), step, now));
                }
                comm.barrier().unwrap();
            }
        });
        next += session.iter().filter(|a| **a == Step).count() as u64;
        if let Some(Finish(n)) = session.last() {
            ranks = *n;
        }
    }
    Watched { store, method: method.into(), updates: acts.contains(&Update), closed: closed.into_inner().unwrap() }
}

impl Watched {
    /// What was closed after so many operations: steps and their content, which later updates may have added to.
    fn closed_by(&self, operations: usize) -> Option<(u64, &Contents)> {
        self.closed.iter().rev().find(|(at, ..)| *at <= operations).map(|(_, steps, c)| (*steps, c))
    }

    /// What may be there: what was closed by then, or what the close under way leaves.
    fn next_content(&self, operations: usize) -> Option<&Contents> {
        self.closed.iter().find(|(at, ..)| *at > operations).map(|(.., c)| c)
    }

    fn holds(&self, left: &Memory, operations: usize, what: &str) {
        let Some((steps, content)) = self.closed_by(operations) else { return };
        let place = layout(Arc::new(left.clone()));
        let now = contents(&place, "x.bp").unwrap_or_else(|e| panic!("{what}: {e}"));
        if now == *content || self.next_content(operations) == Some(&now) {
            return;
        }
        let all: Vec<_> = content.iter().filter(|(key, value)| now.get(*key) != Some(*value)).map(|(k, _)| k).collect();
        panic!("{what}: of {steps} closed steps these differ or are lost: {all:?}");
    }

    /// A further step by a new session, over what a kill has left.
    fn goes_on(&self, left: &Memory, operations: usize, what: &str) {
        let Some((_, closed)) = self.closed_by(operations) else { return };
        let left: Arc<dyn thalweg_store::Store> = Arc::new(left.snapshot());
        let place = layout(left.clone());
        let before = contents(&place, "x.bp").unwrap();
        let steps = Reader::open(place.clone(), "x.bp").unwrap().status().steps;
        threads::run(2, |comm| {
            let session = Place::over(left.clone()).session(&heat(&self.method, ""), &comm);
            write_heat(&session, "x.bp", Mode::Append, &comm, steps);
            session.finalize().unwrap();
        });
        let reader = Reader::open(place.clone(), "x.bp").unwrap();
        assert_eq!((reader.status().steps, reader.status().torn_bytes), (steps + 1, 0), "{what}");
        assert!(reader.status().finished, "{what}");
        assert_eq!(read_heat(&place, "x.bp", steps), all_of_t(2, steps), "{what}");
        assert_eq!(crate::common::before(&contents(&place, "x.bp").unwrap(), steps), before, "{what}");
        assert!(closed.keys().all(|key| before.contains_key(key)), "{what}");
        let report = thalweg_reader::verify(&*place, "x.bp").unwrap();
        let findings: Vec<_> = report.findings.iter().filter(|f| !self.left_over(f)).collect();
        assert!(findings.is_empty(), "{what}: {findings:?}");
    }

    /// What may stay in a subfile: the whole group of an update that was never closed, as its time is that of the step
    /// it adds to.
    fn left_over(&self, finding: &Finding) -> bool {
        self.updates && finding.kind == FindingKind::IndexDiffers && finding.object.contains(".dir/")
    }

    /// Recovering what a kill has left keeps every closed step.
    fn recovers(&self, left: &Memory, operations: usize, what: &str) {
        if self.closed_by(operations).is_none() {
            return;
        }
        let left = left.snapshot();
        let place = layout(Arc::new(left.clone()));
        recover(&*place, "x.bp", RecoverOptions::default()).unwrap_or_else(|e| panic!("{what}: {e}"));
        self.holds(&left, operations, what);
        assert_eq!(Reader::open(place, "x.bp").unwrap().status().torn_bytes, 0, "{what}");
    }

    /// Kills the writer after every operation, and inside every write.
    fn survives_kills(&self) {
        for n in 0..=self.store.operations() {
            let left = self.store.crash_after(n);
            let what = format!("{}: killed before operation {n} ({})", self.method, self.store.operation(n));
            self.holds(&left, n, &what);
            self.goes_on(&left, n, &what);
            self.recovers(&left, n, &what);
            let Some(bytes) = self.store.bytes_written_by(n) else { continue };
            // The end mark, 8 bytes inside one sector, is written whole or not at all.
            let cuts = if bytes == 8 { vec![] } else { cuts(bytes) };
            for cut in cuts {
                let left = self.store.crash_after_bytes(n, cut);
                let what = format!("{what}, {cut} of {bytes} bytes");
                self.holds(&left, n, &what);
                if cut % 7 == 0 {
                    self.goes_on(&left, n, &what);
                    self.recovers(&left, n, &what);
                }
            }
        }
    }

    /// Cuts the power after every operation, with several outcomes each.
    fn survives_power_cuts(&self, seeds: u64) {
        for n in 0..=self.store.operations() {
            for seed in 0..seeds {
                // Outcomes are chosen anew for each operation.
                let seed = if seed < 2 { seed } else { seed + 1000 * n as u64 };
                let left = self.store.power_cut(n, seed);
                let what = format!(
                    "{}: power cut before operation {n} ({}), outcome {seed}",
                    self.method,
                    self.store.operation(n)
                );
                self.holds(&left, n, &what);
                if seed % 5 == 0 {
                    self.goes_on(&left, n, &what);
                }
            }
        }
    }
}

/// Every length at both ends of a write, and some in the middle.
fn cuts(bytes: u64) -> Vec<u64> {
    let ends = (1..bytes.min(12)).chain(bytes.saturating_sub(70)..bytes);
    let mut cuts: Vec<u64> = ends.chain((0..bytes).step_by(61)).filter(|c| *c > 0).collect();
    cuts.sort_unstable();
    cuts.dedup();
    cuts
}

#[test]
fn kills_between_and_inside_all_writes_of_a_shared_file() {
    watch("MPI", "", 2, &[Step, Step, Step, Step, Step, Finish(3), Step, Step, Finish(1), Step, Finish(1)])
        .survives_kills();
}

#[test]
fn kills_between_and_inside_all_writes_of_subfiles() {
    watch("POSIX", "", 2, &[Step, Step, Step, Step, Step, Finish(3), Step, Step, Finish(1), Step, Finish(1)])
        .survives_kills();
}

#[test]
fn kills_where_each_step_has_a_full_index() {
    for method in ["MPI", "POSIX"] {
        watch(method, "index=each", 2, &[Step, Step, Step, Finish(2), Step, Finish(2)]).survives_kills();
    }
}

#[test]
fn kills_between_staging_an_index_and_sealing_it() {
    for method in ["MPI", "POSIX"] {
        for index in ["auto", "each"] {
            let parameters = format!("index_ahead=0;index={index}");
            watch(method, &parameters, 3, &[Step, Step, Step, Finish(2), Step, Finish(2)]).survives_kills();
        }
    }
}

#[test]
fn kills_while_a_step_is_added_to() {
    for method in ["MPI", "POSIX"] {
        watch(method, "", 2, &[Step, Step, Update, Step, Update, Finish(2), Update, Finish(2)]).survives_kills();
    }
}

#[test]
fn nothing_stays_of_a_large_step_that_was_killed_before_a_small_one() {
    for method in ["MPI", "POSIX"] {
        let store = Arc::new(Forgetful::new());
        let mut large = 0;
        let mut before_it = 0;
        threads::run(1, |comm| {
            let session = Place::over(store.clone()).session(&heat(method, ""), &comm);
            write_heat(&session, "x.bp", Mode::Write, &comm, 0);
        });
        threads::run(1, |comm| {
            let session = Place::over(store.clone()).session(&heat(method, ""), &comm);
            let mut output = session.open("heat", "x.bp", Mode::Append, comm.duplicate().unwrap()).unwrap();
            output.write_values("NX", &[100_000i32]).unwrap();
            output.write_values("mine", &vec![1f32; 100_000]).unwrap();
            output.close().unwrap();
        });
        for n in 0..store.operations() {
            if store.bytes_written_by(n).is_some_and(|bytes| bytes > 400_000) {
                (large, before_it) = (store.bytes_written_by(n).unwrap(), n);
            }
        }
        let left: Arc<dyn thalweg_store::Store> = Arc::new(store.crash_after_bytes(before_it, large - 1));
        threads::run(1, |comm| {
            let session = Place::over(left.clone()).session(&heat(method, ""), &comm);
            write_heat(&session, "x.bp", Mode::Append, &comm, 1);
        });
        let reader = Reader::open(layout(left.clone()), "x.bp").unwrap();
        assert_eq!((reader.status().steps, reader.status().torn_bytes), (2, 0), "{method}");
        let longest = ["x.bp", "x.bp.dir/x.bp.0"].map(|name| left.stat(name).map_or(0, |stat| stat.length));
        assert!(longest.into_iter().all(|length| length < 10_000), "{method}: {longest:?}");
    }
}

#[test]
fn power_cuts_with_sync() {
    for method in ["MPI", "POSIX"] {
        let acts = [Step, Step, Step, Step, Step, Finish(2), Step, Step, Finish(2)];
        watch(method, "sync=yes", 2, &acts).survives_power_cuts(12);
        watch(method, "sync=yes;index=each", 2, &acts[3..]).survives_power_cuts(12);
        watch(method, "sync=yes;index_ahead=0", 3, &acts[2..]).survives_power_cuts(12);
    }
}

#[test]
fn without_sync_a_power_cut_may_take_everything_which_shows_that_the_store_forgets() {
    let watched = watch("MPI", "", 2, &[Step, Step]);
    let left = watched.store.power_cut(watched.store.operations(), 0);
    assert!(contents(&layout(Arc::new(left)), "x.bp").is_err());
}
