//! Several methods of a group run in order; TRIGGER runs a command or posts once per output, beside the program.

use crate::common::*;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver};
use std::time::{Duration, Instant};
use thalweg_comm::Communicator;
use thalweg_comm::alone::Alone;
use thalweg_comm::threads::Machine;
use thalweg_io::{Mode, Session};
use thalweg_reader::Reader;
use thalweg_store::memory::Memory;
use thalweg_store::posix::Posix;
use thalweg_store::wrap::{Failing, Fault, StoreCall};
use thalweg_types::{ErrorKind, Result};

const SOON: Duration = Duration::from_secs(20);

/// The group of `heat` with these methods: name, base path, parameters.
fn methods(list: &[(&str, &str, &str)]) -> String {
    let document = heat("NULL", "");
    let end = document.find("  <method").unwrap();
    let mut text = document[..end].to_string();
    for (method, base, parameters) in list {
        let parameters = parameters.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
        text += &format!("  <method group=\"heat\" method=\"{method}\" base-path=\"{base}\">{parameters}</method>\n");
    }
    text + "</adios-config>"
}

fn plain() -> Place {
    Place::over(Arc::new(Posix::plain()))
}

fn json(path: impl AsRef<Path>) -> serde_json::Value {
    serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap()
}

fn log(folder: &Path) -> String {
    std::fs::read_to_string(folder.join("heat.trigger.log")).unwrap_or_default()
}

/// Writes these steps, of which the first begins a file.
fn write(document: &str, path: &str, ranks: u32, steps: std::ops::Range<u64>) {
    let place = plain();
    place.run(ranks, |comm| {
        let session = place.session(document, &comm);
        for step in steps.clone() {
            write_heat(&session, path, if step == 0 { Mode::Write } else { Mode::Append }, &comm, step);
        }
        session.finalize().unwrap();
    });
}

#[test]
fn the_command_finds_the_file_of_the_method_before_it_finished() {
    for method in ["MPI", "POSIX", "MPI_AGGREGATE"] {
        let folder = tempfile::tempdir().unwrap();
        let at = folder.path().display().to_string();
        let path = format!("{at}/x.bp");
        let command = "cd $(dirname $THALWEG_OUTPUT) && mkdir s$THALWEG_STEP && cat > s$THALWEG_STEP/json \
                       && cp -r x.bp* s$THALWEG_STEP";
        let document = methods(&[(method, "", ""), ("TRIGGER", "", &format!("command={command}"))]);
        write(&document, &path, 4, 0..2);
        // A run that goes on with the file goes on counting.
        write(&document, &path, 4, 2..3);
        for step in 0..3u64 {
            let copy = format!("{at}/s{step}/x.bp");
            assert_eq!(read_heat(&plain().layout, &copy, step), all_of_t(4, step), "{method}\n{}", log(folder.path()));
            let document = json(format!("{at}/s{step}/json"));
            assert_eq!(document["output"], path.as_str());
            assert_eq!((&document["group"], &document["step"]), (&"heat".into(), &step.into()));
            assert_eq!((&document["method"], &document["ranks"]), (&method.into(), &4.into()));
            assert!(document["bytes"].as_u64().unwrap() > 4 * 100);
            let variables = document["variables"].as_array().unwrap();
            let of = |name: &str| variables.iter().find(|v| v["name"] == name).unwrap_or_else(|| panic!("{name}"));
            let (t, mine) = (of("t"), of("/local/mine"));
            assert_eq!((&t["type"], &t["kind"]), (&"double".into(), &"global array".into()));
            assert_eq!(t["shape"], serde_json::json!([4, 8]));
            let base = 10_000.0 * step as f64;
            assert_eq!((t["min"].as_f64(), t["max"].as_f64()), (Some(base), Some(base + 307.0)));
            assert_eq!((&mine["kind"], &mine["blocks"]), (&"local array".into(), &4.into()));
            assert_eq!(of("note")["value"], format!("step {step}"));
        }
        let log = log(folder.path());
        assert_eq!((log.lines().count(), log.matches(": exit 0, ").count()), (3, 3), "once per output: {log}");
    }
}

#[test]
fn what_hangs_fails_or_does_not_exist_neither_holds_up_nor_fails_the_program() {
    let folder = tempfile::tempdir().unwrap();
    let path = format!("{}/x.bp", folder.path().display());
    let document = methods(&[
        ("MPI", "", ""),
        ("TRIGGER", "", "command=sleep 100;timeout=200ms;at_end=500ms"),
        ("TRIGGER", "", "command=/no/such/command"),
        ("TRIGGER", "", "command=echo broken >&2 && false"),
        ("TRIGGER", "", "command=kill -9 $$"),
    ]);
    let began = Instant::now();
    let place = plain();
    place.run(3, |comm| {
        let session = place.session(&document, &comm);
        for step in 0..2 {
            write_heat(&session, &path, if step == 0 { Mode::Write } else { Mode::Append }, &comm, step);
        }
        assert!(began.elapsed() < SOON, "no close waits");
        session.finalize().unwrap();
    });
    assert!(began.elapsed() < SOON);
    let log = log(folder.path());
    for (says, times) in [
        ("killed, over its time limit of 200ms", 2),
        ("exit 127", 2),
        ("exit 1, ", 2),
        ("    broken", 2),
        ("killed by signal 9", 2),
    ] {
        assert_eq!(log.matches(says).count(), times, "{says}\n{log}");
    }
}

#[test]
fn a_command_that_still_runs_at_the_end_is_given_its_time_and_no_more() {
    let folder = tempfile::tempdir().unwrap();
    let path = format!("{}/x.bp", folder.path().display());
    let document = methods(&[("MPI", "", ""), ("TRIGGER", "", "command=sleep 100;at_end=0.2")]);
    let began = Instant::now();
    write(&document, &path, 2, 0..2);
    assert!(began.elapsed() < Duration::from_secs(60), "{:?}", began.elapsed());
    let log = log(folder.path());
    assert_eq!(log.matches("the program ended").count(), 2, "{log}");
    assert_eq!(read_heat(&plain().layout, &path, 1), all_of_t(2, 1));
}

/// A server that answers each request with `answer`; what was asked comes out of the channel: request line and body.
fn server(answer: &'static str) -> (String, Receiver<(String, String)>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let (say, hear) = mpsc::channel();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = BufReader::new(stream.unwrap());
            let (mut first, mut length) = (String::new(), 0);
            stream.read_line(&mut first).unwrap();
            loop {
                let mut line = String::new();
                stream.read_line(&mut line).unwrap();
                if let Some((key, value)) = line.split_once(':')
                    && key.eq_ignore_ascii_case("content-length")
                {
                    length = value.trim().parse().unwrap();
                }
                if line.trim().is_empty() {
                    break;
                }
            }
            let mut body = vec![0; length];
            stream.read_exact(&mut body).unwrap();
            stream.get_mut().write_all(answer.as_bytes()).unwrap();
            if say.send((first.trim().to_string(), String::from_utf8(body).unwrap())).is_err() {
                return;
            }
        }
    });
    (address, hear)
}

#[test]
fn an_address_gets_one_post_per_output() {
    let folder = tempfile::tempdir().unwrap();
    let path = format!("{}/x.bp", folder.path().display());
    let (address, asked) = server("HTTP/1.1 200 OK\r\ncontent-length: 2\r\nconnection: close\r\n\r\nok");
    let url = format!("url=http://{address}/steps?run=7");
    write(&methods(&[("POSIX", "", ""), ("TRIGGER", "", &url)]), &path, 3, 0..3);
    for step in 0..3u64 {
        let (first, body) = asked.recv_timeout(SOON).unwrap();
        assert_eq!(first, "POST /steps?run=7 HTTP/1.1");
        let body: serde_json::Value = serde_json::from_str(&body).unwrap();
        assert_eq!((&body["step"], &body["output"]), (&step.into(), &path.as_str().into()));
    }
    assert!(asked.try_recv().is_err(), "no more than one per output");
    let log = log(folder.path());
    assert_eq!(log.matches("answer 200 OK").count(), 3, "{log}");
}

#[test]
fn a_server_that_hangs_refuses_or_complains_is_told_in_the_log_alone() {
    let folder = tempfile::tempdir().unwrap();
    let path = format!("{}/x.bp", folder.path().display());
    // It takes connections and never says a word.
    let hanging = TcpListener::bind("127.0.0.1:0").unwrap();
    let hangs = format!("url=http://{}/;timeout=300ms", hanging.local_addr().unwrap());
    let gone = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let refuses = format!("url=http://{gone}/");
    let (address, _asked) = server("HTTP/1.1 503 Busy\r\ncontent-length: 9\r\nconnection: close\r\n\r\ncome back");
    let complains = format!("url=http://{address}/");
    let garbage = server("what?\r\n\r\n");
    let garbles = format!("url=http://{}/", garbage.0);
    let list: Vec<_> = [&hangs, &refuses, &complains, &garbles].map(|p| ("TRIGGER", "", p.as_str())).to_vec();
    let began = Instant::now();
    write(&methods(&[&[("MPI", "", "")][..], &list].concat()), &path, 2, 0..1);
    assert!(began.elapsed() < Duration::from_secs(60), "{:?}", began.elapsed());
    let log = log(folder.path());
    assert_eq!(log.matches("no answer").count(), 3, "{log}");
    assert_eq!(log.matches("answer 503").count(), 1, "{log}");
    assert!(log.contains("    come back"), "{log}");
    assert_eq!(read_heat(&plain().layout, &path, 0), all_of_t(2, 0));
}

#[test]
fn an_output_that_failed_on_a_rank_triggers_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let said = folder.path().join("log");
    let parameters = format!("command=echo >> {0}.ran;log={0}", said.display());
    let document = methods(&[("POSIX", "", ""), ("TRIGGER", "", &parameters)]);
    let memory: Arc<dyn thalweg_store::Store> = Arc::new(Memory::new());
    let outcomes: Vec<Result<()>> = Machine::new(3).timeout(SOON).run(|comm| {
        let store = Arc::new(Failing::new(memory.clone()));
        let session = Place::over(store.clone()).session(&document, &comm);
        write_heat(&session, "x.bp", Mode::Write, &comm, 0);
        if comm.rank() == 1 {
            store.fail(Fault::of(StoreCall::Write).times(1).with(ErrorKind::NoSpace));
        }
        let outcome = try_heat(&session, "x.bp", Mode::Append, &comm, 1);
        write_heat(&session, "x.bp", Mode::Append, &comm, 2);
        session.finalize().unwrap();
        outcome
    });
    all_failed_alike(&outcomes, &[1], ErrorKind::NoSpace);
    let log = std::fs::read_to_string(&said).unwrap();
    assert_eq!(log.matches("exit 0").count(), 2, "{log}");
    assert_eq!(log.matches("step 1: command").count(), 1, "{log}");
    assert!(log.contains("not run: the output failed"), "{log}");
    assert_eq!(std::fs::read_to_string(format!("{}.ran", said.display())).unwrap().len(), 2);
}

#[test]
fn two_methods_write_the_same_step_each_to_its_own_files_attributes_too() {
    let place = Place::memory();
    place.layout.make_folder("one").unwrap();
    place.layout.make_folder("two").unwrap();
    let document = methods(&[("NULL", "", ""), ("MPI", "one", ""), ("POSIX", "two", ""), ("NULL", "two", "")]);
    let closed = place.run(3, |comm| {
        let session = place.session(&document, &comm);
        write_heat(&session, "x.bp", Mode::Write, &comm, 0);
        write_heat(&session, "x.bp", Mode::Append, &comm, 1);
        let mut output = session.open("heat", "x.bp", Mode::Append, comm.duplicate().unwrap()).unwrap();
        output.write_values("NX", &[4]).unwrap();
        let closed = output.close().unwrap();
        session.finalize().unwrap();
        closed.bytes
    });
    let (one, two) = (contents(&place.layout, "one/x.bp").unwrap(), contents(&place.layout, "two/x.bp").unwrap());
    assert_eq!(one, two);
    assert_eq!(read_heat(&place.layout, "two/x.bp", 1), all_of_t(3, 1));
    for path in ["one/x.bp", "two/x.bp"] {
        let reader = Reader::open(place.layout.clone(), path).unwrap();
        assert!(reader.attributes().iter().any(|a| a.name.ends_with("units")), "{path}");
    }
    // What all methods wrote together.
    let of = |path: &str| Reader::open(place.layout.clone(), path).unwrap().process_groups().unwrap().len();
    assert_eq!((of("one/x.bp"), of("two/x.bp")), (9, 9));
    assert!(closed.iter().all(|bytes| *bytes == closed[0] && *bytes > 2 * 3 * 100), "{closed:?}");
}

#[test]
fn two_methods_that_would_write_the_same_files_are_refused_before_anything_is_written() {
    let document = methods(&[("MPI", "", ""), ("POSIX", "", "")]);
    let e = Session::from_xml(&document, "heat.xml", Box::new(Alone::new())).err().unwrap().to_string();
    assert!(
        e.contains("methods MPI and POSIX of group \"heat\" write the same files") && e.contains("base-path"),
        "{e}"
    );
    // Declared from code they meet at open.
    let place = Place::memory();
    place.run(2, |comm| {
        let session = place.session(&document, &comm);
        let e = session.open("heat", "x.bp", Mode::Write, comm.duplicate().unwrap()).err().unwrap();
        assert_eq!(e.kind(), ErrorKind::Config, "{e}");
        assert!(place.layout.stat("x.bp").is_err());
    });
}

#[test]
fn a_command_is_no_business_of_the_file() {
    let place = Place::memory();
    let document = methods(&[("MPI", "", "sync=no"), ("TRIGGER", "", "command=true s3cret;log=no")]);
    place.run(1, |comm| {
        let session = place.session(&document, &comm);
        write_heat(&session, "x.bp", Mode::Write, &comm, 0);
        session.finalize().unwrap();
    });
    let bytes = bytes(&*place.store, "x.bp");
    let holds = |text: &[u8]| bytes.windows(text.len()).any(|w| w == text);
    assert!(holds(b"sync=no") && !holds(b"s3cret"));
}

#[test]
fn mistakes_in_parameters_are_shown_with_their_place() {
    for (parameters, says) in [
        ("comand=true;strict=yes", "nearest known name: \"command\""),
        ("command=true;timeout=soon;strict=yes", "timeout=soon: expected a time"),
        ("url=https://example.org/", "https is not spoken here"),
        ("timeout=5", "neither command nor url"),
    ] {
        let document = methods(&[("TRIGGER", "", parameters)]);
        let e = Session::from_xml(&document, "heat.xml", Box::new(Alone::new())).err().unwrap().to_string();
        assert!(e.contains(says) && e.contains("heat.xml:13:"), "{parameters}: {e}");
    }
}
