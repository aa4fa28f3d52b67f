//! `watch` shows each step of a program that writes beside it, and ends with it.

use crate::support::{PATIENCE, Ran, command, river, run_in};
use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Child, ChildStdout, Stdio};
use std::time::Duration;
use thalweg_comm::alone::Alone;
use thalweg_conformance::scratch::Scratch;
use thalweg_io::{Mode, Session};
use thalweg_schema::xml;

const DOCUMENT: &str = r#"<adios-config><adios-group name="g"><var name="n" type="integer"/><var name="time" type="double"/>
    <global-bounds dimensions="n" offsets="0"><var name="T" type="double" dimensions="n"/></global-bounds></adios-group>
    <method group="g" method="MPI"/></adios-config>"#;

/// The command, whose lines come one by one.
struct Watching {
    child: Child,
    lines: BufReader<ChildStdout>,
}

impl Watching {
    fn start(folder: &Path, arguments: &[&str]) -> Watching {
        let mut child = command()
            .current_dir(folder)
            .args([&["watch"], arguments].concat())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap());
        Watching { child, lines }
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.lines.read_line(&mut line).unwrap();
        line.trim_end().to_string()
    }

    fn signal(&self, signal: rustix::process::Signal) {
        let pid = rustix::process::Pid::from_raw(self.child.id() as i32).unwrap();
        rustix::process::kill_process(pid, signal).unwrap();
    }

    /// Waits for its end; the rest of what it said.
    fn end(mut self) -> Ran {
        let end = std::time::Instant::now() + PATIENCE;
        while self.child.try_wait().unwrap().is_none() {
            if std::time::Instant::now() > end {
                self.child.kill().unwrap();
                panic!("the command has not ended after {PATIENCE:?}, the limit for hangs");
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        let (mut out, mut err) = (String::new(), String::new());
        self.lines.read_to_string(&mut out).unwrap();
        self.child.stderr.take().unwrap().read_to_string(&mut err).unwrap();
        Ran { code: self.child.wait().unwrap().code().expect("ended by a signal"), out, err }
    }
}

fn write(session: &Session, path: &str, step: i32) {
    let mode = if step == 0 { Mode::Write } else { Mode::Append };
    let mut output = session.open("g", path, mode, Box::new(Alone::new())).unwrap();
    output.write_values("n", &[3]).unwrap();
    output.write_values("time", &[0.5 * f64::from(step)]).unwrap();
    output.write_values("T", &[1.0, 2.0, 6.0].map(|v| v + f64::from(step))).unwrap();
    output.close().unwrap();
}

fn session() -> Session {
    Session::from_schema(xml::parse(DOCUMENT, "t.xml").unwrap(), Box::new(Alone::new())).unwrap()
}

#[test]
fn each_step_is_shown_when_it_is_closed_until_the_file_is_closed_for_good() {
    let folder = Scratch::new();
    let path = folder.join("run.bp");
    let path = path.to_str().unwrap();
    // It begins before the program does.
    let mut watching = Watching::start(folder.path(), &["run.bp"]);
    let session = session();
    for step in 0..3 {
        write(&session, path, step);
        let lines = [watching.line(), watching.line(), watching.line()];
        let said = lines.each_ref().map(|line| line.split_once("  ").unwrap_or_default().1);
        let (time, all) = (0.5 * f64::from(step), [1, 6, 3].map(|v| v + step));
        assert_eq!(
            said,
            [
                format!("step {step}  n     3"),
                format!("step {step}  time  {time}"),
                format!("step {step}  T     min {}  max {}  mean {}", all[0], all[1], all[2]),
            ],
            "{lines:?}"
        );
        assert!(lines[0].as_bytes()[2] == b':' && lines[0].as_bytes()[5] == b':', "{lines:?}");
    }
    session.finalize().unwrap();
    let ran = watching.end();
    assert_eq!((ran.code, ran.out.as_str(), ran.err.as_str()), (0, "", ""));
}

#[test]
fn it_ends_with_ctrl_c_after_so_many_steps_and_when_none_comes_in_time() {
    let folder = Scratch::new();
    let path = folder.join("run.bp");
    let path = path.to_str().unwrap();
    let session = session();
    write(&session, path, 0);
    write(&session, path, 1);
    let mut watching = Watching::start(folder.path(), &["run.bp", "time"]);
    assert!(watching.line().ends_with("step 0  time  0") && watching.line().ends_with("step 1  time  0.5"));
    watching.signal(rustix::process::Signal::INT);
    let ran = watching.end();
    assert_eq!((ran.code, ran.out.as_str(), ran.err.as_str()), (0, "", ""));

    let ran = Watching::start(folder.path(), &["run.bp", "t*", "--steps", "1"]).end();
    assert_eq!((ran.code, ran.out.lines().count(), ran.err.as_str()), (0, 1, ""), "{}", ran.out);

    let ran = Watching::start(folder.path(), &["run.bp", "time", "--new", "--timeout", "300ms"]).end();
    assert_eq!((ran.code, ran.err.as_str()), (1, "thalweg: no step came in time after step 1\n"), "{}", ran.out);
    assert!(ran.out.lines().count() == 1 && ran.out.contains("step 1"), "{}", ran.out);

    let ran = Watching::start(folder.path(), &["run.bp", "tme"]).end();
    assert_eq!((ran.code, ran.err.as_str()), (1, "thalweg: no variable 'tme'; the nearest is 'time'\n"));
    session.finalize().unwrap();
}

#[test]
fn a_writer_that_died_is_told() {
    let folder = Scratch::new();
    // As a program leaves it that was killed between two outputs.
    let mut file = crate::support::Maker::default();
    let index = file.group(0, 0, 1, &[crate::support::Written::scalar("time", &thalweg_types::Value::F64(1.5))], &[]);
    file.step_record(&index);
    file.save(&folder.join("run.bp"));
    let ran = Watching::start(folder.path(), &["run.bp"]).end();
    assert_eq!((ran.code, ran.err.as_str()), (1, "thalweg: the writer died: step 0 is the last that it has closed\n"));
    assert!(ran.out.contains("step 0  time  1.5"), "{}", ran.out);
}

#[test]
fn documents_and_charts_of_steps_are_printed() {
    let folder = Scratch::new();
    river().save(&folder.join("river.bp"));
    let ran = run_in(folder.path(), &["watch", "river.bp", "T", "label", "--json"]);
    assert_eq!((ran.code, ran.err.as_str()), (0, ""));
    let steps: Vec<serde_json::Value> = ran.out.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(steps.len(), 3);
    assert_eq!(steps[2]["step"], 2);
    let variables = steps[2]["variables"].as_array().unwrap();
    assert_eq!(
        (&variables[0]["name"], &variables[0]["max"], &variables[0]["finite"]),
        (&"T".into(), &2.6.into(), &10.into())
    );
    assert_eq!(variables[1]["value"], "step, \"2\"");
    let ran = run_in(folder.path(), &["watch", "river.bp", "T", "time", "--plot"]);
    assert_eq!((ran.code, ran.err.as_str()), (0, ""));
    assert_eq!(ran.out.matches("river.bp: step ").count(), 3, "{}", ran.out);
    assert!(ran.out.contains("max(T)") && !ran.out.contains('\u{1b}'), "{}", ran.out);
}

/// A partition's servers, which end with it.
struct Partition<'a>(&'a Scratch);

impl Drop for Partition<'_> {
    fn drop(&mut self) {
        run_in(self.0.path(), &["partition", "stop", "stage.cfg"]);
    }
}

#[test]
fn a_file_that_a_staging_server_holds_is_watched_through_it() {
    let folder = Scratch::new();
    let at = |name: &str| folder.join(name).display().to_string();
    std::fs::create_dir(folder.join("out")).unwrap();
    let configuration = format!(
        "name = stage\nstaging = {}\nahpios_server = localhost:{}\nmetadata = localhost:{}\n",
        at("out"),
        at("data"),
        at("names")
    );
    std::fs::write(folder.join("stage.cfg"), configuration).unwrap();
    for arguments in [["partition", "create", "stage.cfg"], ["partition", "start", "stage.cfg"]] {
        let ran = run_in(folder.path(), &arguments);
        assert_eq!(ran.code, 0, "{arguments:?}: {}", ran.err);
    }
    let _partition = Partition(&folder);
    let method = format!("method=\"STAGING\">partition={};promise=held</method>", at("stage.cfg"));
    let document = DOCUMENT.replace("method=\"MPI\"/>", &method);
    let session = Session::from_schema(xml::parse(&document, "t.xml").unwrap(), Box::new(Alone::new())).unwrap();
    let path = at("out/run.bp");
    write(&session, &path, 0);
    let mut watching = Watching::start(folder.path(), &["out/run.bp", "time", "--through", "stage.cfg"]);
    assert!(watching.line().ends_with("step 0  time  0"));
    write(&session, &path, 1);
    assert!(watching.line().ends_with("step 1  time  0.5"));
    session.finalize().unwrap();
    let ran = watching.end();
    assert_eq!((ran.code, ran.out.as_str(), ran.err.as_str()), (0, "", ""));
}
