//! `async=yes`: close waits for no rank and for no storage; outputs of a file are opened and ended in order, within the buffer limit; a
//! failure reaches all ranks; a killed process loses at most the outputs in flight.

use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Barrier, Condvar, Mutex};
use std::time::Duration;
use thalweg_comm::alone::Alone;
use thalweg_comm::threads::{Machine, ThreadCommunicator};
use thalweg_comm::{Communicator, ThreadLevel};
use thalweg_conformance::round_trip::{in_folder, in_memory};
use thalweg_conformance::scratch::Scratch;
use thalweg_io::{Mode, PendingOutput, Session};
use thalweg_layout::{Direct, Layout};
use thalweg_reader::Reader;
use thalweg_schema::Schema;
use thalweg_store::Memory;
use thalweg_store::wrap::{Operation, Slow, StoreCall, Verdict, Watch, Wrapped};
use thalweg_types::{Error, ErrorKind, Selection};

/// Bytes of a rank's array.
const BYTES: usize = 100_000;

fn schema(method: &str, parameters: &str) -> Schema {
    let xml = format!(
        r#"<adios-config host-language="C"><adios-group name="g"><var name="v" type="byte" dimensions="{BYTES}"/></adios-group>
        <method group="g" method="{method}">async=yes;{parameters}</method></adios-config>"#
    );
    thalweg_schema::xml::parse(&xml, "t.xml").unwrap_or_else(|e| panic!("{}", e.render(false)))
}

/// Threads of the library may call the communicator; or only the rank's own, whose calls move the messages.
const LEVELS: [ThreadLevel; 2] = [ThreadLevel::Multiple, ThreadLevel::Single];

fn run(
    level: ThreadLevel,
    layout: &Arc<dyn Layout>,
    schema: &Schema,
    ranks: u32,
    body: impl Fn(&Session, &ThreadCommunicator) + Sync,
) {
    Machine::new(ranks).timeout(Duration::from_secs(60)).thread_level(level).run(|comm| {
        let session = Session::with_layout(schema.clone(), layout.clone(), comm.duplicate().unwrap()).unwrap();
        body(&session, &comm);
    });
}

/// A store whose every operation takes some time.
fn slow(latency: u64) -> Arc<dyn Layout> {
    let store = Slow::new(Arc::new(Memory::new()), Duration::from_millis(latency), f64::INFINITY);
    Arc::new(Direct::new(Arc::new(store)).unwrap())
}

fn start(session: &Session, comm: &dyn Communicator, step: u8) -> PendingOutput {
    let mode = if step == 0 { Mode::Write } else { Mode::Append };
    let mut output = session.open("g", "x.bp", mode, comm.duplicate().unwrap()).unwrap();
    assert_eq!(output.step(), u64::from(step));
    output.write("v", &[step; BYTES]).unwrap();
    output.start_close()
}

/// Steps that a reader finds, with the value that each consists of.
fn steps(layout: &Arc<dyn Layout>) -> Vec<u8> {
    let reader = Reader::open(layout.clone(), "x.bp").unwrap();
    let last = reader.last_step_of("v").unwrap().expect("a step");
    (0..=last)
        .map(|step| {
            let mut bytes = vec![0; BYTES];
            reader.read("v", step, &Selection::Block(0), &mut bytes).unwrap();
            assert!(bytes.iter().all(|b| *b == bytes[0]), "step {step} is whole");
            bytes[0]
        })
        .collect()
}

#[test]
fn close_waits_for_no_rank() {
    const METHODS: [&str; 7] =
        ["POSIX", "MPI", "MPI_COLLECTIVE", "MPI_AGGREGATE", "MPI_SCHEDULED", "ADAPTIVE", "ASYNC"];
    let late = |method: &str, level: ThreadLevel| {
        let (layout, schema) = (in_memory(), schema(method, ""));
        let closed = AtomicU32::new(0);
        run(level, &layout, &schema, 3, |session, comm| {
            let mut output = session.open("g", "x.bp", Mode::Write, comm.duplicate().unwrap()).unwrap();
            output.write("v", &[7; BYTES]).unwrap();
            // Rank 1 closes after the others have: a close that waits for it times out.
            while comm.rank() == 1 && closed.load(Ordering::SeqCst) < 2 {
                std::thread::sleep(Duration::from_millis(1));
            }
            let pending = output.start_close();
            assert!(comm.rank() == 1 || !pending.has_ended(), "{method}: nothing ends without rank 1");
            closed.fetch_add(1, Ordering::SeqCst);
            assert!(pending.wait().unwrap().bytes > 300_000);
            session.finalize().unwrap();
        });
        assert_eq!(steps(&layout), [7]);
    };
    for level in LEVELS {
        let late = &late;
        std::thread::scope(|scope| {
            METHODS.map(|method| scope.spawn(move || late(method, level))).map(|t| t.join().unwrap())
        });
    }
}

/// A store whose writes wait while its gate is shut.
#[derive(Clone, Default)]
struct Gate(Arc<(Mutex<bool>, Condvar)>);

impl Gate {
    fn set(&self, shut: bool) {
        *self.0.0.lock().unwrap() = shut;
        self.0.1.notify_all();
    }
}

impl Watch for Gate {
    fn describe(&self) -> &'static str {
        "gate"
    }

    fn before(&self, operation: &Operation<'_>) -> Verdict {
        if operation.asked == StoreCall::Write {
            drop(self.0.1.wait_while(self.0.0.lock().unwrap(), |shut| *shut).unwrap());
        }
        Verdict::Pass
    }
}

#[test]
fn outputs_of_one_file_are_in_flight_together_and_end_in_order() {
    for (method, level) in ["POSIX", "MPI", "MPI_AGGREGATE"].into_iter().flat_map(|method| LEVELS.map(|l| (method, l)))
    {
        let gate = Gate::default();
        let store = Wrapped::with(Arc::new(Memory::new()), gate.clone());
        let layout: Arc<dyn Layout> = Arc::new(Direct::new(Arc::new(store)).unwrap());
        let (schema, all) = (schema(method, "in_flight=20"), Barrier::new(2));
        run(level, &layout, &schema, 2, |session, comm| {
            start(session, comm, 0).wait().unwrap();
            all.wait();
            gate.set(true);
            all.wait();
            let outputs: Vec<PendingOutput> = (1..10).map(|step| start(session, comm, step)).collect();
            assert!(!outputs.iter().any(PendingOutput::has_ended), "{method}: nothing was written");
            all.wait();
            gate.set(false);
            outputs[8].wait().unwrap();
            assert!(outputs.iter().all(PendingOutput::has_ended), "{method}: in the order of the closes");
            session.finalize().unwrap();
            if method != "MPI_AGGREGATE" || level == ThreadLevel::Single {
                // It keeps memory that the ranks of a node share.
                assert_eq!(session.buffer().used(), 0);
            }
        });
        assert_eq!(steps(&layout), (0..10).collect::<Vec<u8>>(), "{method}");
    }
}

#[test]
fn the_limit_of_outputs_in_flight_holds_for_all_files_together() {
    for level in LEVELS {
        let (layout, schema) = (slow(5), schema("MPI", "in_flight=2"));
        run(level, &layout, &schema, 2, |session, comm| {
            let mut outputs = Vec::new();
            for step in 0..6 {
                let name = format!("{step}.bp");
                let mut output = session.open("g", &name, Mode::Write, comm.duplicate().unwrap()).unwrap();
                output.write("v", &[step; BYTES]).unwrap();
                outputs.push(output.start_close());
                assert!(outputs.iter().filter(|output| !output.has_ended()).count() <= 2, "step {step}");
            }
            session.finalize().unwrap();
        });
    }
}

#[test]
fn close_waits_where_the_limit_of_outputs_in_flight_is_reached() {
    for level in LEVELS {
        let (layout, schema) = (slow(5), schema("MPI", "in_flight=2"));
        run(level, &layout, &schema, 2, |session, comm| {
            let mut outputs = Vec::new();
            for step in 0..6 {
                outputs.push(start(session, comm, step));
                assert!(outputs.iter().filter(|output| !output.has_ended()).count() <= 2, "step {step}");
            }
            session.finalize().unwrap();
        });
        let (layout, schema) = (slow(1), self::schema("MPI", "in_flight=0"));
        run(level, &layout, &schema, 2, |session, comm| {
            for step in 0..3 {
                assert!(start(session, comm, step).has_ended(), "its own end, too");
            }
            session.finalize().unwrap();
        });
    }
}

#[test]
fn the_buffer_limit_holds_for_all_outputs_in_flight() {
    let told = Arc::new(Mutex::new(String::new()));
    let hears = told.clone();
    thalweg_warnings::hear(Some(Arc::new(move |_, text: &str| hears.lock().unwrap().push_str(text))));
    let written_inside_calls = || told.lock().unwrap().contains("exceed the buffer limit");
    // Room for two outputs and what carries them, for none, and none at all.
    for limit in [400_000, 90_000, 0] {
        for (method, level) in ["POSIX", "MPI"].into_iter().flat_map(|method| LEVELS.map(|l| (method, l))) {
            let (layout, schema) = (slow(2), schema(method, "in_flight=20"));
            run(level, &layout, &schema, 2, |session, comm| {
                session.set_buffer_limit(Some(limit));
                for step in 0..6 {
                    let output = start(session, comm, step);
                    // Where messages move inside calls, the other ranks may be in none.
                    let waits = limit < BYTES as u64 && level == ThreadLevel::Multiple;
                    assert!(!waits || output.has_ended(), "larger than the limit: inside close");
                }
                session.finalize().unwrap();
                // MPI holds at least 64 KiB to carry data from its spill file.
                let most = limit.max(if method == "MPI" { 65_536 } else { 0 });
                assert!(session.buffer().peak() <= most, "{method}, {limit}: {}", session.buffer().peak());
            });
            assert_eq!(steps(&layout), (0..6).collect::<Vec<u8>>(), "{method}, {limit}");
            // Writes wait for the memory of earlier outputs, where there is room for their own.
            assert_eq!(written_inside_calls(), limit < BYTES as u64, "{method}, {limit}");
        }
    }
    thalweg_warnings::hear(None);
}

#[test]
fn a_failure_reaches_all_ranks_by_wait_or_by_the_next_open_and_later_outputs_are_whole() {
    for level in LEVELS {
        let (layout, schema) = (slow(3), schema("POSIX", ""));
        run(level, &layout, &schema, 2, |session, comm| {
            start(session, comm, 0);
            let mut output = session.open("g", "x.bp", Mode::Append, comm.duplicate().unwrap()).unwrap();
            output.write("v", &[1; BYTES]).unwrap();
            if comm.rank() == 1 {
                output.fail(Error::new(ErrorKind::NotFound, "the mesh is lost"));
            }
            let failing = output.start_close();
            // Rank 0 asks; rank 1 hears of it at the next open, which fails on both.
            if comm.rank() == 0 {
                assert_eq!(failing.wait().unwrap_err().kind(), ErrorKind::NotFound);
                assert_eq!(failing.test().unwrap_err().kind(), ErrorKind::NotFound);
            } else {
                while !failing.has_ended() {
                    std::thread::sleep(Duration::from_millis(1));
                }
            }
            let e = session.open("g", "x.bp", Mode::Append, comm.duplicate().unwrap()).err().expect("the open fails");
            assert_eq!(e.kind(), ErrorKind::NotFound, "{e}");
            let mut output = session.open("g", "x.bp", Mode::Append, comm.duplicate().unwrap()).unwrap();
            output.write("v", &[2; BYTES]).unwrap();
            assert!(output.close().unwrap().pending);
            session.finalize().unwrap();
        });
        // Rank 0's part of the failed step is kept.
        assert_eq!(steps(&layout), [0, 1, 2]);
    }
}

#[test]
fn an_output_that_is_dropped_behind_others_leaves_no_step() {
    for level in LEVELS {
        let (layout, schema) = (slow(3), schema("MPI", ""));
        run(level, &layout, &schema, 2, |session, comm| {
            start(session, comm, 0);
            let mut dropped = session.open("g", "x.bp", Mode::Append, comm.duplicate().unwrap()).unwrap();
            dropped.write("v", &[9; BYTES]).unwrap();
            // The file is open for one output at a time, also behind others.
            let second = session.open("g", "x.bp", Mode::Append, comm.duplicate().unwrap());
            assert_eq!(second.err().map(|e| e.kind()), Some(ErrorKind::InvalidArgument));
            drop(dropped);
            session.wait_for_outputs().unwrap();
            start(session, comm, 1);
            session.finalize().unwrap();
        });
        assert_eq!(steps(&layout), [0, 1]);
    }
}

#[test]
fn a_callback_is_called_once_inside_a_call_of_the_program() {
    for level in LEVELS {
        let (layout, schema) = (slow(2), schema("MPI", ""));
        run(level, &layout, &schema, 2, |session, comm| {
            let (calls, program) = (Arc::new(AtomicU32::new(0)), std::thread::current().id());
            let heard = calls.clone();
            let output = start(session, comm, 0);
            output.on_completion(Box::new(move |result| {
                assert!(result.unwrap().bytes > 0);
                assert_eq!(std::thread::current().id(), program);
                heard.fetch_add(1, Ordering::SeqCst);
            }));
            while !output.has_ended() {
                std::thread::sleep(Duration::from_millis(1));
            }
            assert_eq!(calls.load(Ordering::SeqCst), 0, "not on a thread of the library");
            session.progress();
            session.progress();
            assert_eq!(calls.load(Ordering::SeqCst), 1);
            session.finalize().unwrap();
        });
    }
}

#[test]
fn a_rank_that_lacks_memory_waits_where_the_others_are_in_the_library_too() {
    for level in LEVELS {
        let (layout, schema, step_ends) = (slow(1), schema("MPI", "in_flight=20"), Barrier::new(2));
        run(level, &layout, &schema, 2, |session, comm| {
            // Rank 1 has room for two outputs, rank 0 for all.
            session.set_buffer_limit((comm.rank() == 1).then_some(250_000));
            for step in 0..8 {
                start(session, comm, step);
                // The program's own meeting: here rank 0 moves no messages.
                step_ends.wait();
            }
            session.finalize().unwrap();
        });
        assert_eq!(steps(&layout), (0..8).collect::<Vec<u8>>());
    }
}

const FOLDER: &str = "BACKGROUND_TEST_FOLDER";

/// Not a test by itself: the process that is killed. It prints a line for each output that has ended.
#[test]
fn the_killed_process() {
    let Ok(folder) = std::env::var(FOLDER) else { return };
    let layout = in_folder(folder.as_ref());
    let session = Session::with_layout(schema("POSIX", "in_flight=3"), layout, Box::new(Alone::new())).unwrap();
    let outputs = Mutex::new(Vec::new());
    for step in 0..250 {
        let output = start(&session, &Alone::new(), step);
        output.on_completion(Box::new(move |result| println!("\nended {step} {}", result.is_ok())));
        outputs.lock().unwrap().push(output);
    }
    std::thread::sleep(Duration::from_secs(60));
}

#[test]
fn a_killed_process_loses_at_most_the_outputs_in_flight() {
    use std::io::BufRead;
    for kill_after in [1, 4, 9] {
        let folder = Scratch::new();
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["the_killed_process", "--exact", "--nocapture"])
            .env(FOLDER, folder.path())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut ended = Vec::new();
        for line in std::io::BufReader::new(child.stdout.take().unwrap()).lines() {
            if let Some(rest) = line.unwrap().strip_prefix("ended ") {
                let (step, succeeded) = rest.split_once(' ').unwrap();
                assert_eq!(succeeded, "true");
                ended.push(step.parse::<u8>().unwrap());
                if ended.len() == kill_after {
                    child.kill().unwrap();
                }
            }
        }
        child.wait().unwrap();
        let found = steps(&in_folder(folder.path()));
        assert!(found.len() >= ended.len(), "{ended:?} had ended, {found:?} are there");
        assert_eq!(found, (0..found.len() as u8).collect::<Vec<u8>>(), "in order, without a gap");
    }
}
