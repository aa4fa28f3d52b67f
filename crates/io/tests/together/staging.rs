//! Method `STAGING` beside a server in this process: at what pace outputs are sent, who waits for what, and what failures leave.

use std::sync::Arc;
use std::time::{Duration, Instant};
use thalweg_comm::alone::Alone;
use thalweg_comm::{Communicator, threads};
use thalweg_conformance::gate::{At, Gate};
use thalweg_conformance::scratch::Scratch;
use thalweg_conformance::staging::StagingServer;
use thalweg_io::{Mode, Session};
use thalweg_layout::write_behind::Promise;
use thalweg_layout::{Direct, Layout};
use thalweg_reader::{Follower, Next, Reader, RecoverOptions, Wait};
use thalweg_store::wrap::{Failing, Fault, StoreCall, Wrapped};
use thalweg_store::{Posix, Store};
use thalweg_types::{BoundingBox, ErrorKind, Selection};

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

/// 1,024 x 1,024 numbers, all different, from three ranks; the rank's rows at a step.
const SIDE: u64 = 1024;

fn rows(rank: u32) -> std::ops::Range<u64> {
    [0..100, 100..613, 613..SIDE][rank as usize].clone()
}

/// The file as the server's layout names it.
fn below_the_root(scratch: &Scratch) -> String {
    scratch.join("x.bp").display().to_string().trim_start_matches('/').to_string()
}

#[test]
fn of_every_nth_element_the_server_sends_no_others() {
    let gate = Arc::new(Wrapped::with(all_files(), Gate::default()));
    let (server, scratch) = (server_over(gate.clone()), Scratch::new());
    let layout = folder(&scratch);
    let xml = format!(
        "<adios-config host-language=\"C\"><adios-group name=\"g\"><var name=\"from\" type=\"unsigned long\"/><var name=\"n\" type=\"unsigned long\"/>\
         <global-bounds dimensions=\"{SIDE},{SIDE}\" offsets=\"from,0\"><var name=\"T\" type=\"double\" dimensions=\"n,{SIDE}\"/>\
         </global-bounds></adios-group><method group=\"g\" method=\"STAGING\">partition={};promise=held</method></adios-config>",
        server.file()
    );
    threads::run(3, |comm| {
        let schema = thalweg_schema::xml::parse(&xml, "strided.xml").unwrap();
        let session = Session::with_layout(schema, layout.clone(), comm.duplicate().unwrap()).unwrap();
        for step in 0..2 {
            let mode = if step == 0 { Mode::Write } else { Mode::Append };
            let mut output = session.open("g", "x.bp", mode, comm.duplicate().unwrap()).unwrap();
            let rows = rows(comm.rank());
            output.write_values("from", &[rows.start]).unwrap();
            output.write_values("n", &[rows.end - rows.start]).unwrap();
            let cells = rows.start * SIDE..rows.end * SIDE;
            output.write_values("T", &cells.map(|i| (step * SIDE * SIDE + i) as f64).collect::<Vec<_>>()).unwrap();
            output.close().unwrap();
            if step == 0 {
                // The second step stays in the server's memory.
                comm.barrier().unwrap();
                while comm.rank() == 0 && server.taken_and_held().1 > 0 {
                    std::thread::sleep(Duration::from_millis(5));
                }
                if comm.rank() == 0 {
                    gate.watch().shut(StoreCall::Write, "", At::Begin);
                }
                comm.barrier().unwrap();
            }
        }
        session.leave().unwrap();
    });
    assert!(server.taken_and_held().1 > 8 * SIDE * SIDE, "the second step is held");
    let (through, _) =
        thalweg_partition::client::staging::open(server.file().as_ref(), Promise::Held, None, |_, _| Ok(())).unwrap();
    let reader = Reader::open(Arc::new(through), &below_the_root(&scratch)).unwrap();
    let stride = [8, 16];
    let bounds = BoundingBox::new([5, 3], [SIDE - 5, SIDE - 3]);
    let selection = Selection::Strided { bounds, stride: stride.to_vec() };
    for step in 0..2 {
        let before = server.sent();
        let got: Vec<f64> = reader.read_as("T", step, &selection).unwrap();
        let sent = server.sent() - before;
        let cells = (5..SIDE).step_by(8).flat_map(|y| (3..SIDE).step_by(16).map(move |x| y * SIDE + x));
        let wanted: Vec<f64> = cells.map(|i| (step * SIDE * SIDE + i) as f64).collect();
        assert!(got == wanted, "step {step}");
        assert!(sent < 8 * wanted.len() as u64 + 4096, "{sent} bytes for {} elements", wanted.len());
    }
    // The whole array, for comparison.
    let before = server.sent();
    reader.read_as::<f64>("T", 1, &Selection::All).unwrap();
    assert!(server.sent() - before >= 8 * SIDE * SIDE);
    // With fewer digits the whole array is fewer bytes; all bytes of one come where an infinity may be something else.
    for (digits, share) in [(3, 3), (6, 4)] {
        let rounded = reader.clone().with_digits(thalweg_reader::Digits::new(digits));
        for step in 0..2 {
            let before = server.sent();
            let got: Vec<f64> = rounded.read_as("T", step, &Selection::All).unwrap();
            let sent = server.sent() - before;
            assert!(sent < share * SIDE * SIDE + 8192, "{sent} bytes for {digits} digits");
            for (at, got) in got.iter().enumerate() {
                let wanted = (step * SIDE * SIDE) as f64 + at as f64;
                assert!(*got <= wanted && wanted - got <= wanted * 10f64.powi(-(digits as i32)), "{got} for {wanted}");
            }
        }
        let got: Vec<f64> = rounded.read_as("T", 1, &selection).unwrap();
        let wanted: Vec<f64> = reader.read_as("T", 1, &selection).unwrap();
        let near = |(got, wanted): (&f64, &f64)| (wanted - got).abs() <= wanted * 10f64.powi(-(digits as i32));
        assert!(got.len() == wanted.len() && got.iter().zip(&wanted).all(near));
    }
    gate.watch().open();
    server.end();
}

/// The storage below the server fails at each of its reads in turn, with and without panics: a read that picks elements out gives the error,
/// or the right numbers, never others; and the next one is right.
#[test]
fn where_the_storage_fails_below_picked_reads_they_fail_or_are_right() {
    let failing = Arc::new(Failing::new(all_files()));
    let (server, scratch) = (server_over(failing.clone()), Scratch::new());
    let layout = folder(&scratch);
    let xml = format!(
        "<adios-config host-language=\"C\"><adios-group name=\"g\"><global-bounds dimensions=\"{SIDE},{SIDE}\" offsets=\"0,0\">\
         <var name=\"T\" type=\"double\" dimensions=\"{SIDE},{SIDE}\"/></global-bounds></adios-group>\
         <method group=\"g\" method=\"STAGING\">partition={};promise=stored</method></adios-config>",
        server.file()
    );
    let schema = thalweg_schema::xml::parse(&xml, "picked.xml").unwrap();
    let session = Session::with_layout(schema, layout, Box::new(Alone::new())).unwrap();
    let mut output = session.open("g", "x.bp", Mode::Write, Box::new(Alone::new())).unwrap();
    output.write_values("T", &(0..SIDE * SIDE).map(|i| i as f64).collect::<Vec<f64>>()).unwrap();
    output.close().unwrap();
    session.leave().unwrap();
    let (through, _) =
        thalweg_partition::client::staging::open(server.file().as_ref(), Promise::Held, None, |_, _| Ok(())).unwrap();
    let through: Arc<dyn Layout> = Arc::new(through);
    let bounds = BoundingBox::new([5, 3], [SIDE - 5, SIDE - 3]);
    let every = Selection::Strided { bounds, stride: vec![8, 16] };
    let cells = (5..SIDE).step_by(8).flat_map(|y| (3..SIDE).step_by(16).map(move |x| y * SIDE + x));
    let wanted: Vec<f64> = cells.map(|i| i as f64).collect();
    for panics in [false, true] {
        for skipped in 0.. {
            let fault = Fault::of(StoreCall::Read).named("x.bp").skipping(skipped).times(1);
            failing.fail(if panics { fault.panics() } else { fault });
            let read = || -> thalweg_types::Result<(Vec<f64>, Vec<f64>)> {
                let reader = Reader::open(through.clone(), &below_the_root(&scratch))?;
                let rounded = reader.clone().with_digits(thalweg_reader::Digits::new(3));
                Ok((reader.read_as("T", 0, &every)?, rounded.read_as("T", 0, &Selection::All)?))
            };
            let (outcome, met) = (read(), failing.failed().0 > 0);
            failing.heal();
            match outcome {
                Err(e) => assert!(met && e.kind() == ErrorKind::Io, "call {skipped}: {e}"),
                Ok((some, rounded)) => {
                    assert!(some == wanted, "call {skipped}");
                    let near = |(at, got): (usize, &f64)| *got <= at as f64 && at as f64 - got <= 1e-3 * at as f64;
                    assert!(rounded.iter().enumerate().all(near), "call {skipped}");
                }
            }
            if !met {
                assert!(skipped > 2, "{skipped} reads of the storage");
                break;
            }
        }
    }
    server.end();
}

#[test]
fn two_readers_put_the_arrays_of_three_writers_together_while_they_come() {
    let (server, scratch) = (server_over(all_files()), Scratch::new());
    let layout = folder(&scratch);
    let xml = format!(
        "<adios-config host-language=\"C\"><adios-group name=\"g\" coordination-communicator=\"comm\"><var name=\"from\" type=\"unsigned long\"/>\
         <var name=\"n\" type=\"unsigned long\"/><global-bounds dimensions=\"{SIDE},4\" offsets=\"from,0\" coordination-var=\"from\">\
         <var name=\"T\" type=\"double\" dimensions=\"n,4\"/></global-bounds></adios-group>\
         <method group=\"g\" method=\"STAGING\">partition={}</method></adios-config>",
        server.file()
    );
    let steps = 20;
    std::thread::scope(|scope| {
        scope.spawn(|| {
            threads::run(3, |comm| {
                let schema = thalweg_schema::xml::parse(&xml, "stream.xml").unwrap();
                let session = Session::with_layout(schema, layout.clone(), comm.duplicate().unwrap()).unwrap();
                for step in 0..steps {
                    let mode = if step == 0 { Mode::Write } else { Mode::Append };
                    let mut output = session.open("g", "x.bp", mode, comm.duplicate().unwrap()).unwrap();
                    let rows = rows((comm.rank() + step as u32) % 3);
                    output.write_values("from", &[rows.start]).unwrap();
                    output.write_values("n", &[rows.end - rows.start]).unwrap();
                    let cells = rows.start * 4..rows.end * 4;
                    output.write_values("T", &cells.map(|i| (step << 32 | i) as f64).collect::<Vec<_>>()).unwrap();
                    output.close().unwrap();
                }
                session.finalize().unwrap();
            })
        });
        let through = || {
            let file = server.file();
            thalweg_partition::client::staging::open(file.as_ref(), Promise::Held, None, |_, _| Ok(())).unwrap().0
        };
        // Columns, not rows, as the writers have them.
        threads::run(2, |comm| {
            let path = below_the_root(&scratch);
            let wait = Wait { timeout: Some(Duration::from_secs(60)), poll: Duration::from_millis(1) };
            let mut follower = Follower::open(Arc::new(through()), &path, &wait).unwrap();
            let own = 2 * u64::from(comm.rank());
            for step in 0..steps {
                assert_eq!(follower.step(), step);
                let half = Selection::Box(BoundingBox::new([0, own], [SIDE, 2]));
                let got: Vec<f64> = follower.reader().read_as("T", step, &half).unwrap();
                let cells = (0..SIDE).flat_map(|y| [4 * y + own, 4 * y + own + 1]);
                assert!(got == cells.map(|i| (step << 32 | i) as f64).collect::<Vec<_>>(), "step {step}");
                let next = follower.advance(false, &wait).unwrap();
                assert_eq!(next, if step + 1 < steps { Next::Step(step + 1) } else { Next::End });
            }
        });
    });
    server.end();
}
