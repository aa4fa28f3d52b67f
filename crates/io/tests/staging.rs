//! Method `STAGING` beside a server in this process: at what pace outputs are sent, who waits for what, and what failures leave.

use std::sync::Arc;
use std::time::{Duration, Instant};
use thalweg_comm::alone::Alone;
use thalweg_comm::{Communicator, threads};
use thalweg_conformance::gate::{At, Gate};
use thalweg_conformance::scratch::Scratch;
use thalweg_conformance::staging::StagingServer;
use thalweg_io::{Mode, Session};
use thalweg_layout::{Direct, Layout};
use thalweg_reader::{Follower, Next, Reader, RecoverOptions, Wait};
use thalweg_store::wrap::{Failing, Fault, StoreCall, Wrapped};
use thalweg_store::{Posix, Store};
use thalweg_types::ErrorKind;

/// Values of a rank: 10 MiB.
const VALUES: usize = 10 << 17;
const BYTES: u64 = 8 * VALUES as u64;

fn all_files() -> Arc<dyn Store> {
    Arc::new(Posix::at("/").unwrap())
}

fn server_over(store: Arc<dyn Store>) -> StagingServer {
    StagingServer::begin(Arc::new(Direct::new(store).unwrap()), 1 << 30)
}

fn folder(folder: &Scratch) -> Arc<dyn Layout> {
    Arc::new(Direct::new(Arc::new(Posix::at(folder.path()).unwrap())).unwrap())
}

/// A session with groups of one array, each with its method.
fn session(layout: &Arc<dyn Layout>, comm: Box<dyn Communicator>, methods: &[(&str, String)]) -> Session {
    let group = |name: &str| {
        format!(
            "<adios-group name=\"{name}\"><var name=\"n\" type=\"integer\"/><var name=\"v\" type=\"double\" dimensions=\"n\"/></adios-group>"
        )
    };
    let groups: String = methods.iter().map(|(name, _)| group(name)).collect();
    let chosen: String = methods.iter().map(|(_, method)| method.as_str()).collect();
    let xml = format!("<adios-config>{groups}{chosen}</adios-config>");
    let schema = thalweg_schema::xml::parse(&xml, "staging.xml").unwrap();
    Session::with_layout(schema, layout.clone(), comm).unwrap()
}

fn staging(group: &str, server: &StagingServer, more: &str) -> (String, String) {
    let file = server.file();
    (group.into(), format!("<method group=\"{group}\" method=\"STAGING\">partition={file};{more}</method>"))
}

fn write(session: &Session, group: &str, path: &str, mode: Mode, comm: &dyn Communicator) -> thalweg_types::Result<()> {
    let mut output = session.open(group, path, mode, comm.duplicate().unwrap())?;
    output.write_values("n", &[VALUES as i32])?;
    output.write_values("v", &vec![comm.rank() as f64; VALUES])?;
    output.close().map(drop)
}

/// Waits, for a bounded time, until so many bytes were taken over.
fn taken(server: &StagingServer, least: u64) -> u64 {
    let begun = Instant::now();
    loop {
        let (taken, _) = server.taken_and_held();
        if taken >= least {
            return taken;
        }
        assert!(begun.elapsed() < Duration::from_secs(60), "{taken} bytes of {least} were taken over in a minute");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn an_output_is_sent_over_its_iterations() {
    let (server, scratch) = (server_over(all_files()), Scratch::new());
    let (group, method) = staging("a", &server, "iterations=10");
    let session = session(&folder(&scratch), Box::new(Alone::new()), &[(&group, method)]);
    write(&session, "a", "x.bp", Mode::Write, &Alone::new()).unwrap();
    for k in 0..10u64 {
        taken(&server, k.saturating_sub(1) * BYTES / 10);
        std::thread::sleep(Duration::from_millis(50));
        let most = (k + 1) * BYTES / 10 + (64 << 10);
        let now = taken(&server, 0);
        assert!(now <= most || k == 9, "after {k} iterations {now} bytes of {BYTES} were sent");
        session.end_iteration();
    }
    taken(&server, BYTES);
    session.finalize().unwrap();
    server.end();
    assert_eq!(Reader::open(folder(&scratch), "x.bp").unwrap().status().steps, 1);
}

#[test]
fn followers_of_the_folder_get_steps_that_are_stored_after_the_program_has_gone() {
    let gate = Arc::new(Wrapped::with(all_files(), Gate::default()));
    let (server, scratch) = (server_over(gate.clone()), Scratch::new());
    let files = folder(&scratch);
    let (group, method) = staging("a", &server, "promise=held");
    let program = session(&files, Box::new(Alone::new()), &[(&group, method)]);
    write(&program, "a", "x.bp", Mode::Write, &Alone::new()).unwrap();
    let wait = Wait { timeout: Some(Duration::from_secs(60)), poll: Duration::from_millis(1) };
    let mut follower = Follower::open(files.clone(), "x.bp", &wait).unwrap();
    gate.watch().shut(StoreCall::Write, "", At::Begin);
    for _ in 1..4 {
        write(&program, "a", "x.bp", Mode::Append, &Alone::new()).unwrap();
    }
    program.finalize().unwrap();
    drop(program);
    let short = Wait { timeout: Some(Duration::from_millis(500)), poll: Duration::from_millis(1) };
    assert_eq!(follower.advance(false, &short).unwrap(), Next::NotYet, "the server goes on writing");
    gate.watch().open();
    for step in 1..4 {
        assert_eq!(follower.advance(false, &wait).unwrap(), Next::Step(step));
    }
    assert_eq!(follower.advance(false, &wait).unwrap(), Next::End);
    // A program that dies is dead for followers when its last step is stored.
    let (group, method) = staging("a", &server, "promise=held");
    let program = session(&files, Box::new(Alone::new()), &[(&group, method)]);
    write(&program, "a", "y.bp", Mode::Write, &Alone::new()).unwrap();
    let mut follower = Follower::open(files.clone(), "y.bp", &wait).unwrap();
    write(&program, "a", "y.bp", Mode::Append, &Alone::new()).unwrap();
    program.leave().unwrap();
    drop(program);
    assert_eq!(follower.advance(false, &wait).unwrap(), Next::Step(1));
    assert_eq!(follower.advance(false, &wait).unwrap(), Next::WriterDied);
    server.end();
}

#[test]
fn nothing_long_is_sent_outside_of_calculations_until_the_program_waits() {
    let (server, scratch) = (server_over(all_files()), Scratch::new());
    let (group, method) = staging("a", &server, "");
    let session = session(&folder(&scratch), Box::new(Alone::new()), &[(&group, method)]);
    session.begin_calculation();
    session.end_calculation();
    for mode in [Mode::Write, Mode::Append] {
        let before = taken(&server, 0);
        write(&session, "a", "x.bp", mode, &Alone::new()).unwrap();
        std::thread::sleep(Duration::from_millis(200));
        let outside = taken(&server, 0);
        assert!(outside < before + (64 << 10), "{outside} bytes");
        if mode == Mode::Write {
            session.begin_calculation();
            taken(&server, before + BYTES);
            session.end_calculation();
        }
    }
    // The program waits now.
    session.finalize().unwrap();
    assert!(taken(&server, 0) >= 2 * BYTES);
    server.end();
    assert_eq!(Reader::open(folder(&scratch), "x.bp").unwrap().status().steps, 2);
}

#[test]
fn the_output_of_the_highest_priority_is_sent_first() {
    let (server, scratch) = (server_over(all_files()), Scratch::new());
    // By the parameter and by the element's attribute.
    let low = staging("low", &server, "priority=1");
    let high = staging("high", &server, "");
    let methods = [("low", low.1), ("high", high.1.replace("group=", "priority=\"7\" group="))];
    let layout = folder(&scratch);
    let session = session(&layout, Box::new(Alone::new()), &methods);
    session.end_calculation();
    for name in ["low", "high"] {
        write(&session, name, &format!("{name}.bp"), Mode::Write, &Alone::new()).unwrap();
    }
    // Both wait for the next calculation, which is too short for both.
    std::thread::sleep(Duration::from_millis(200));
    session.begin_calculation();
    let begun = Instant::now();
    let size = |name: &str| std::fs::metadata(scratch.join(name)).map_or(0, |about| about.len());
    while size("high.bp") < BYTES {
        assert!(begun.elapsed() < Duration::from_secs(60));
        let (low, high) = (size("low.bp"), size("high.bp"));
        assert!(low < 1 << 20 || size("high.bp") >= BYTES, "{low} bytes of the low one before {high} of the high one");
    }
    session.finalize().unwrap();
    server.end();
}

#[test]
fn another_method_that_opens_the_file_waits_until_it_is_stored() {
    let gate = Arc::new(Wrapped::with(all_files(), Gate::default()));
    let (server, scratch) = (server_over(gate.clone()), Scratch::new());
    let layout = folder(&scratch);
    let staged = staging("a", &server, "promise=held").1;
    let begin = |method: &str| session(&layout, Box::new(Alone::new()), &[("a", method.to_string())]);
    gate.watch().shut(StoreCall::Write, "", At::Begin);
    let first = begin(&staged);
    write(&first, "a", "x.bp", Mode::Write, &Alone::new()).unwrap();
    first.finalize().unwrap();
    assert!(server.taken_and_held().1 >= BYTES, "it is held");
    // In another session of the program, too.
    let second = begin("<method group=\"a\" method=\"MPI\"/>");
    std::thread::scope(|scope| {
        let second = &second;
        let other = scope.spawn(move || write(second, "a", "x.bp", Mode::Append, &Alone::new()));
        std::thread::sleep(Duration::from_millis(300));
        assert!(!other.is_finished());
        gate.watch().open();
        other.join().unwrap().unwrap();
    });
    second.finalize().unwrap();
    let third = begin(&staged);
    write(&third, "a", "x.bp", Mode::Append, &Alone::new()).unwrap();
    third.finalize().unwrap();
    server.end();
    let reader = Reader::open(layout, "x.bp").unwrap();
    assert_eq!((reader.status().steps, reader.status().finished), (3, true));
}

#[test]
fn what_cannot_be_stored_is_told_to_all_ranks_and_the_steps_before_stay() {
    for (promise, background) in [("none", true), ("held", false), ("stored", false)] {
        let failing = Arc::new(Failing::new(all_files()));
        let (server, scratch) = (server_over(failing.clone()), Scratch::new());
        let layout = folder(&scratch);
        let (_, method) = staging("a", &server, &format!("promise={promise}"));
        let told = threads::run(3, |comm| {
            let session = session(&layout, comm.duplicate().unwrap(), &[("a", method.clone())]);
            write(&session, "a", "x.bp", Mode::Write, &comm).unwrap();
            if background {
                session.wait_for_outputs().unwrap();
            }
            if comm.rank() == 0 {
                // Everything so far is stored.
                while server.taken_and_held().1 > 0 {
                    std::thread::sleep(Duration::from_millis(5));
                }
                failing.fail(Fault::of(StoreCall::Write).times(1));
            }
            comm.barrier().unwrap();
            // The failing output itself, or one of the next ones.
            let steps = (0..4).map(|_| write(&session, "a", "x.bp", Mode::Append, &comm));
            let failed = steps.filter_map(Result::err).map(|e| e.kind()).next();
            let ended = session.finalize().err().map(|e| e.kind());
            failed.or(ended)
        });
        assert_eq!(told, [Some(ErrorKind::Io); 3], "promise={promise}");
        drop(server);
        let _ = thalweg_reader::recover(&*layout, "x.bp", RecoverOptions::default());
        let reader = Reader::open(layout, "x.bp").unwrap();
        assert!(reader.status().steps >= 1, "promise={promise}");
        for step in 0..reader.status().steps {
            for block in reader.blocks("v", step).unwrap() {
                assert_eq!(block.count, [VALUES as u64]);
            }
        }
        assert!(thalweg_reader::verify(&*folder(&scratch), "x.bp").unwrap().findings.is_empty());
    }
}
