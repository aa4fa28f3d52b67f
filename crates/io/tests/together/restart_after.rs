//! A restart goes on behind an earlier step: later ones are dropped. Whenever it is killed, the steps kept are there
//! bit-equal, the dropped ones are there all together or not at all, and appending, `recover` and `verify` agree.

use crate::common::*;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use thalweg_comm::alone::Alone;
use thalweg_comm::{Communicator, threads};
use thalweg_io::{Mode, Session};
use thalweg_layout::{Direct, Layout};
use thalweg_reader::{Follower, Next, Reader, RecoverOptions, Wait, recover, verify};
use thalweg_store::memory::Memory;
use thalweg_store::wrap::Forgetful;
use thalweg_types::ErrorKind;

fn layout(store: Arc<dyn thalweg_store::Store>) -> Arc<dyn Layout> {
    Arc::new(Direct::new(store).unwrap())
}

/// A step whose values say that they are of another run: `value` instead of the step.
fn write_as(session: &Session, mode: Mode, comm: &dyn Communicator, step: u64, value: u64) {
    let mut output = session.open("heat", "x.bp", mode, comm.duplicate().unwrap()).unwrap();
    assert_eq!(output.step(), step);
    output.write_values("NX", &[4i32]).unwrap();
    output.write_values("ranks", &[comm.size() as i32]).unwrap();
    output.write_values("rank", &[comm.rank() as i32]).unwrap();
    output.write("note", format!("value {value}").as_bytes()).unwrap();
    output.write_values("t", &t(comm.rank(), value, 4)).unwrap();
    output.write_values("mine", &[value as f32; 4]).unwrap();
    output.close().unwrap();
}

/// A run of `steps` steps on 3 ranks, and a restart behind `after` on 2 that writes 2 more.
struct Restart {
    store: Arc<Forgetful>,
    method: &'static str,
    after: u64,
    /// Operations before the restart.
    begun: usize,
    /// After how many operations the file held what, in order.
    states: Vec<(usize, Contents)>,
}

fn restart(method: &'static str, parameters: &str, steps: u64, after: u64, one_session: bool) -> Restart {
    let store = Arc::new(Forgetful::new());
    let states = Mutex::new(Vec::new());
    let note = |comm: &dyn Communicator| {
        comm.barrier().unwrap();
        if comm.rank() == 0 {
            let now = contents(&layout(store.clone()), "x.bp").unwrap();
            states.lock().unwrap().push((store.operations(), now));
        }
        comm.barrier().unwrap();
    };
    let run = |ranks: u32, first: bool, second: bool| {
        threads::run(ranks, |comm| {
            let place = Place::over(store.clone());
            let session = place.session(&heat(method, parameters), &comm);
            if first {
                for step in 0..steps {
                    let mode = if step == 0 { Mode::Write } else { Mode::Append };
                    write_heat(&session, "x.bp", mode, &comm, step);
                }
                if !second {
                    session.finalize().unwrap();
                }
                note(&comm);
            }
            if second {
                let output = session.open("heat", "x.bp", Mode::AppendAfter(after), comm.duplicate().unwrap()).unwrap();
                note(&comm);
                drop(output);
                write_as(&session, Mode::AppendAfter(after), &comm, after + 1, 100);
                note(&comm);
                write_as(&session, Mode::Append, &comm, after + 2, 101);
                note(&comm);
                session.finalize().unwrap();
                note(&comm);
            }
        });
    };
    if one_session {
        run(2, true, true);
    } else {
        run(3, true, false);
        run(2, false, true);
    }
    let states = states.into_inner().unwrap();
    Restart { store, method, after, begun: states[0].0, states }
}

impl Restart {
    /// What the file may hold when so many operations were done: what it held before, or the next state.
    fn allowed(&self, operations: usize) -> Vec<&Contents> {
        let next = self.states.iter().position(|(at, _)| *at > operations).unwrap_or(self.states.len() - 1);
        self.states[next.saturating_sub(1)..=next].iter().map(|(_, c)| c).collect()
    }

    fn holds(&self, left: &Memory, operations: usize, what: &str) -> Contents {
        let now = contents(&layout(Arc::new(left.clone())), "x.bp").unwrap_or_else(|e| panic!("{what}: {e}"));
        let kept = before(&self.states[0].1, self.after + 1);
        assert_eq!(before(&now, self.after + 1), kept, "{what}: a step that is kept has changed");
        assert!(self.allowed(operations).contains(&&now), "{what}: {:?}", now.keys());
        now
    }

    /// A further step, or another restart, over what a kill has left.
    fn goes_on(&self, left: &Memory, back: bool, what: &str) {
        let left: Arc<dyn thalweg_store::Store> = Arc::new(left.snapshot());
        let place = layout(left.clone());
        let held = contents(&place, "x.bp").unwrap();
        let steps = Reader::open(place.clone(), "x.bp").unwrap().status().steps;
        let (mode, step) = if back { (Mode::AppendAfter(self.after), self.after + 1) } else { (Mode::Append, steps) };
        threads::run(2, |comm| {
            let session = Place::over(left.clone()).session(&heat(self.method, ""), &comm);
            write_as(&session, mode, &comm, step, 200);
            session.finalize().unwrap();
        });
        let reader = Reader::open(place.clone(), "x.bp").unwrap();
        assert_eq!((reader.status().steps, reader.status().torn_bytes), (step + 1, 0), "{what}");
        assert_eq!(read_heat(&place, "x.bp", step), all_of_t(2, 200), "{what}");
        assert_eq!(before(&contents(&place, "x.bp").unwrap(), step), before(&held, step), "{what}");
        self.verifies(&place, what);
    }

    fn verifies(&self, place: &Arc<dyn Layout>, what: &str) {
        let report = verify(&**place, "x.bp").unwrap();
        assert!(report.is_clean(), "{what}: {:?}", report.findings);
    }

    fn recovers(&self, left: &Memory, operations: usize, what: &str) {
        let left = left.snapshot();
        let place = layout(Arc::new(left.clone()));
        recover(&*place, "x.bp", RecoverOptions::default()).unwrap_or_else(|e| panic!("{what}: {e}"));
        self.holds(&left, operations, what);
        self.verifies(&place, what);
    }

    fn survives_kills(&self) {
        for n in self.begun..=self.store.operations() {
            let left = self.store.crash_after(n);
            let what = format!(
                "{} after step {}: killed before operation {n} ({})",
                self.method,
                self.after,
                self.store.operation(n)
            );
            self.holds(&left, n, &what);
            self.goes_on(&left, n % 2 == 0, &what);
            self.recovers(&left, n, &what);
            let Some(bytes) = self.store.bytes_written_by(n).filter(|b| *b != 8) else { continue };
            for cut in (1..bytes.min(12)).chain(bytes.saturating_sub(70)..bytes).chain((13..bytes).step_by(61)) {
                let left = self.store.crash_after_bytes(n, cut);
                let what = format!("{what}, {cut} of {bytes} bytes");
                self.holds(&left, n, &what);
                if cut % 7 == 0 {
                    self.goes_on(&left, cut % 2 == 0, &what);
                    self.recovers(&left, n, &what);
                }
            }
        }
    }
}

#[test]
fn kills_at_any_moment_of_a_restart() {
    for method in ["MPI", "POSIX"] {
        // The first step alone is kept; some; all but one, which leaves less room than an index needs.
        for (steps, after) in [(5, 0), (6, 2), (6, 4)] {
            restart(method, "", steps, after, false).survives_kills();
        }
        restart(method, "index=each", 4, 1, false).survives_kills();
    }
}

#[test]
fn kills_while_a_running_program_goes_back() {
    for method in ["MPI", "POSIX"] {
        restart(method, "", 6, 2, true).survives_kills();
    }
}

#[test]
fn power_cuts_with_sync() {
    for method in ["MPI", "POSIX"] {
        for after in [0, 3] {
            let restart = restart(method, "sync=yes", 5, after, false);
            for n in restart.begun..=restart.store.operations() {
                for seed in 0..8 {
                    let seed = if seed < 2 { seed } else { seed + 1000 * n as u64 };
                    let left = restart.store.power_cut(n, seed);
                    let what = format!("{method} after {after}: power cut before operation {n}, outcome {seed}");
                    let now =
                        contents(&layout(Arc::new(left.clone())), "x.bp").unwrap_or_else(|e| panic!("{what}: {e}"));
                    assert_eq!(before(&now, after + 1), before(&restart.states[0].1, after + 1), "{what}");
                    if seed % 3 == 0 {
                        restart.goes_on(&left, false, &what);
                    }
                }
            }
        }
    }
}

#[test]
fn the_file_is_no_longer_than_before_the_dropped_steps() {
    for method in ["MPI", "POSIX"] {
        let lengths = |steps: u64, after: Option<u64>| {
            let place = Place::memory();
            place.run(2, |comm| {
                let session = place.session(&heat(method, "index=each"), &comm);
                for step in 0..steps {
                    let mode = if step == 0 { Mode::Write } else { Mode::Append };
                    write_heat(&session, "x.bp", mode, &comm, step);
                }
                if let Some(after) = after {
                    write_as(&session, Mode::AppendAfter(after), &comm, after + 1, 7);
                }
                session.finalize().unwrap();
            });
            let data = if method == "MPI" { "x.bp" } else { "x.bp.dir/x.bp.1" };
            bytes(&*place.store, data).len()
        };
        let (straight, back) = (lengths(3, None), lengths(9, Some(1)));
        assert!(back <= straight + 4096, "{method}: {straight} {back}");
    }
}

#[test]
fn attributes_that_only_dropped_steps_had_are_written_again() {
    let document = r#"<adios-config><adios-group name="g">
        <var name="n" type="integer"/><attribute name="a" var="n"/>
      </adios-group><method group="g" method="MPI"/></adios-config>"#;
    let place = Place::memory();
    let session = place.session(document, &Alone::new());
    for (mode, n) in [(Mode::Write, 1), (Mode::Append, 2), (Mode::AppendAfter(0), 2)] {
        let mut output = session.open("g", "x.bp", mode, Box::new(Alone::new())).unwrap();
        output.write_values("n", &[n]).unwrap();
        output.close().unwrap();
    }
    session.finalize().unwrap();
    let reader = Reader::open(place.layout.clone(), "x.bp").unwrap();
    assert_eq!(reader.status().steps, 2);
    assert_eq!(format!("{:?}", reader.attribute("a").unwrap().value), "One(I32(2))");
}

#[test]
fn a_step_that_is_not_there_is_refused_by_all_ranks_and_nothing_changes() {
    for method in ["MPI", "POSIX"] {
        let place = Place::memory();
        let outcomes = place.run(3, |comm| {
            let session = place.session(&heat(method, ""), &comm);
            let missing = session.open("heat", "x.bp", Mode::AppendAfter(0), comm.duplicate().unwrap()).err().unwrap();
            assert_eq!(missing.kind(), ErrorKind::NotFound, "{missing}");
            for step in 0..3 {
                let mode = if step == 0 { Mode::Write } else { Mode::Append };
                write_heat(&session, "x.bp", mode, &comm, step);
            }
            let error = session.open("heat", "x.bp", Mode::AppendAfter(3), comm.duplicate().unwrap()).err().unwrap();
            assert_eq!(error.kind(), ErrorKind::OutOfBounds, "{error}");
            // Behind the last one: nothing to drop.
            write_as(&session, Mode::AppendAfter(2), &comm, 3, 9);
            session.finalize().unwrap();
            error.to_string()
        });
        assert!(outcomes[0].contains("cannot continue after step 3: the last one is 2"), "{}", outcomes[0]);
        let reader = Reader::open(place.layout.clone(), "x.bp").unwrap();
        assert_eq!(reader.status().steps, 4);
        assert_eq!(read_heat(&place.layout, "x.bp", 2), all_of_t(3, 2));
        assert_eq!(read_heat(&place.layout, "x.bp", 3), all_of_t(3, 9));
    }
}

#[test]
fn who_follows_the_file_is_told_that_steps_were_dropped_and_not_given_others_in_their_place() {
    for method in ["MPI", "POSIX"] {
        let place = Place::memory();
        let comm = Alone::new();
        let session = place.session(&heat(method, ""), &comm);
        for step in 0..5 {
            write_heat(&session, "x.bp", if step == 0 { Mode::Write } else { Mode::Append }, &comm, step);
        }
        let look = Wait { timeout: Some(Duration::ZERO), poll: Duration::from_millis(1) };
        let follow = || Follower::open(place.layout.clone(), "x.bp", &look).unwrap();
        let (mut early, mut at_the_end) = (follow(), follow());
        assert_eq!(early.advance(false, &look).unwrap(), Next::Step(1));
        assert_eq!(at_the_end.advance(true, &look).unwrap(), Next::Step(4));
        write_as(&session, Mode::AppendAfter(2), &comm, 3, 100);
        for follower in [&mut early, &mut at_the_end] {
            let error = follower.advance(false, &look).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::NotFound, "{method}: {error}");
            assert!(error.to_string().contains("steps were dropped"), "{method}: {error}");
        }
        assert_eq!(follow().last(), 3);
        session.finalize().unwrap();
    }
}
