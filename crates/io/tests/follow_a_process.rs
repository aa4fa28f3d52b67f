//! A reader follows another process: while it runs, when it ends well, when it ends without finalizing, when it is killed.

mod common;

use common::*;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};
use thalweg_io::Mode;
use thalweg_layout::{Direct, Layout};
use thalweg_reader::{Follower, Next, Wait};
use thalweg_store::Posix;

const FOLDER: &str = "FOLLOW_TEST_FOLDER";
const METHOD: &str = "FOLLOW_TEST_METHOD";

/// Not a test by itself: the other process. Each line it reads is a step to write, `half` (a step that stays open),
/// `finalize` or `leave`.
#[test]
fn the_writing_process() {
    let (Ok(folder), Ok(method)) = (std::env::var(FOLDER), std::env::var(METHOD)) else { return };
    let place = Place::over(Arc::new(Posix::at(folder).unwrap()));
    place.run(1, |comm| {
        let session = place.session(&heat(&method, ""), &comm);
        let (mut step, mut open) = (0, None);
        println!("\nready");
        for line in std::io::stdin().lock().lines() {
            match line.unwrap().as_str() {
                "step" => {
                    let mode = if step == 0 { Mode::Write } else { Mode::Append };
                    write_heat(&session, "x.bp", mode, &comm, step);
                    step += 1;
                }
                "half" => {
                    let mut output = session
                        .open("heat", "x.bp", Mode::Append, thalweg_comm::Communicator::duplicate(&comm).unwrap())
                        .unwrap();
                    output.write_values("NX", &[4]).unwrap();
                    open = Some(output);
                }
                "finalize" => session.finalize().unwrap(),
                _ => std::process::exit(0),
            }
            println!("\ndone");
        }
        drop(open);
    });
}

struct Writer {
    child: Child,
    lines: std::io::Lines<BufReader<std::process::ChildStdout>>,
}

impl Writer {
    fn start(folder: &Path, method: &str) -> Writer {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["the_writing_process", "--exact", "--nocapture"])
            .env(FOLDER, folder)
            .env(METHOD, method)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let mut writer = Writer { child, lines };
        writer.wait_for("ready");
        writer
    }

    fn wait_for(&mut self, word: &str) {
        assert!(self.lines.any(|line| line.unwrap() == word), "the writer ended before it was {word}");
    }

    fn tell(&mut self, word: &str) {
        writeln!(self.child.stdin.as_mut().unwrap(), "{word}").unwrap();
    }

    fn run(&mut self, word: &str) {
        self.tell(word);
        self.wait_for("done");
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn layout(folder: &Path) -> Arc<dyn Layout> {
    Arc::new(Direct::new(Arc::new(Posix::at(folder).unwrap())).unwrap())
}

const SHORT: Wait = Wait { timeout: Some(Duration::from_millis(250)), poll: Duration::from_millis(5) };
/// Nothing here takes this long unless something hangs.
const LONG: Wait = Wait { timeout: Some(Duration::from_secs(60)), poll: Duration::from_millis(5) };

#[test]
fn steps_come_as_they_are_closed_and_the_end_when_it_is_marked() {
    for method in ["MPI", "POSIX"] {
        let folder = tempfile::tempdir().unwrap();
        let layout = layout(folder.path());
        let mut writer = Writer::start(folder.path(), method);
        writer.run("step");
        let mut follower = Follower::open(layout.clone(), "x.bp", &LONG).unwrap();
        assert_eq!((follower.step(), follower.last()), (0, 0));
        for step in 1..40u64 {
            if step % 10 == 0 {
                // Between outputs the file is not open, yet the writer is there.
                assert_eq!(follower.advance(false, &SHORT).unwrap(), Next::NotYet, "{method}");
            }
            writer.run("step");
            assert_eq!(follower.advance(false, &LONG).unwrap(), Next::Step(step), "{method}");
            let t: Vec<f64> = follower.reader().read_as("t", step, &thalweg_types::Selection::All).unwrap();
            assert_eq!(t, all_of_t(1, step), "{method}");
        }
        writer.run("finalize");
        assert_eq!(follower.advance(false, &LONG).unwrap(), Next::End, "{method}");
    }
}

#[test]
fn a_killed_writer_is_told_from_a_slow_one() {
    for method in ["MPI", "POSIX"] {
        for inside_an_output in [false, true] {
            let folder = tempfile::tempdir().unwrap();
            let layout = layout(folder.path());
            let mut writer = Writer::start(folder.path(), method);
            writer.run("step");
            writer.run("step");
            let mut follower = Follower::open(layout.clone(), "x.bp", &LONG).unwrap();
            assert_eq!(follower.advance(false, &LONG).unwrap(), Next::Step(1));
            if inside_an_output {
                writer.run("half");
            }
            assert_eq!(follower.advance(false, &SHORT).unwrap(), Next::NotYet, "{method}: slow");
            let start = Instant::now();
            std::thread::scope(|scope| {
                let waiting = scope.spawn(|| follower.advance(false, &Wait::default()).unwrap());
                std::thread::sleep(Duration::from_millis(100));
                writer.child.kill().unwrap();
                writer.child.wait().unwrap();
                assert_eq!(waiting.join().unwrap(), Next::WriterDied, "{method}: killed");
            });
            assert!(start.elapsed() < Duration::from_secs(300), "{:?}", start.elapsed());
            assert_eq!(read_heat(&layout, "x.bp", 1), all_of_t(1, 1), "what was closed stays readable");
            // One who comes later is told the same.
            let mut late = Follower::open(layout.clone(), "x.bp", &LONG).unwrap();
            assert_eq!(late.advance(true, &LONG).unwrap(), Next::Step(1));
            assert_eq!(late.advance(true, &LONG).unwrap(), Next::WriterDied);
        }
    }
}

#[test]
fn a_writer_that_leaves_without_finalizing_is_gone_too() {
    let folder = tempfile::tempdir().unwrap();
    let layout = layout(folder.path());
    let mut writer = Writer::start(folder.path(), "MPI");
    writer.run("step");
    let mut follower = Follower::open(layout, "x.bp", &LONG).unwrap();
    writer.tell("leave");
    assert_eq!(follower.advance(false, &Wait::default()).unwrap(), Next::WriterDied);
}

#[test]
fn a_writer_that_goes_on_with_a_finished_file_is_followed() {
    let folder = tempfile::tempdir().unwrap();
    let layout = layout(folder.path());
    let mut first = Writer::start(folder.path(), "MPI");
    first.run("step");
    first.run("step");
    first.run("finalize");
    let mut follower = Follower::open(layout, "x.bp", &LONG).unwrap();
    assert_eq!(follower.advance(true, &LONG).unwrap(), Next::Step(1));
    assert_eq!(follower.advance(true, &LONG).unwrap(), Next::End);
    drop(first);
    let mut second = Writer::start(folder.path(), "MPI");
    second.run("half");
    assert_eq!(follower.advance(true, &SHORT).unwrap(), Next::NotYet);
}

#[test]
fn a_file_begun_anew_between_two_looks_is_told_however_long_it_has_become() {
    let place = Place::memory();
    let write = |ranks, steps| {
        place.run(ranks, |comm| {
            let session = place.session(&heat("MPI", "index=each"), &comm);
            for step in 0..steps {
                write_heat(&session, "x.bp", if step == 0 { Mode::Write } else { Mode::Append }, &comm, step);
            }
        });
    };
    write(1, 2);
    let mut follower = Follower::open(place.layout.clone(), "x.bp", &LONG).unwrap();
    assert_eq!(follower.advance(false, &LONG).unwrap(), Next::Step(1));
    write(2, 9);
    let told = follower.advance(false, &LONG).unwrap_err();
    assert_eq!(told.kind(), thalweg_types::ErrorKind::NotFound, "{told}");
}
