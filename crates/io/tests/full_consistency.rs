//! `consistency=full`: ranks that disagree on an output learn it, all of them, and nothing is written.

mod common;

use common::*;
use thalweg_comm::Communicator;
use thalweg_io::Mode;
use thalweg_types::{ErrorKind, Result};

const METHODS: [&str; 7] = ["MPI", "POSIX", "MPI_COLLECTIVE", "MPI_AGGREGATE", "ADAPTIVE", "MPI_SCHEDULED", "NULL"];

fn two_groups(method: &str, parameters: &str) -> String {
    format!(
        r#"<adios-config><adios-group name="a"><var name="n" type="integer"/><var name="m" type="integer"/><var name="o" type="integer"/>
        <global-bounds dimensions="n,m" offsets="o,0"><var name="t" type="double" dimensions="1,m"/></global-bounds>
        <var name="mine" type="double" dimensions="m"/></adios-group>
        <adios-group name="b"><var name="n" type="integer"/></adios-group>
        <method group="a" method="{method}">{parameters}</method><method group="b" method="{method}">{parameters}</method></adios-config>"#
    )
}

/// What ranks write: extents of the global array, and this rank's row in it.
fn write(session: &thalweg_io::Session, comm: &dyn Communicator, mode: Mode, (n, m, o): (i32, i32, i32)) -> Result<()> {
    let mut output = session.open("a", "x.bp", mode, comm.duplicate()?)?;
    let _ = output.write_values("n", &[n]);
    let _ = output.write_values("m", &[m]);
    let _ = output.write_values("o", &[o]);
    let _ = output.write_values("t", &vec![f64::from(o); m as usize]);
    let _ = output.write_values("mine", &vec![f64::from(o); m as usize]);
    output.close().map(drop)
}

#[test]
fn ranks_that_open_different_outputs_fail_before_a_file_is_touched() {
    for method in METHODS {
        for differs in ["group", "path", "mode"] {
            let place = Place::memory();
            let outcomes = place.run(3, |comm| {
                let session = place.session(&two_groups(method, "consistency=full"), &comm);
                write(&session, &comm, Mode::Write, (3, 4, comm.rank() as i32)).unwrap();
                let odd = comm.rank() == 2;
                let group = if odd && differs == "group" { "b" } else { "a" };
                let path = if odd && differs == "path" { "y.bp" } else { "x.bp" };
                let mode = if odd && differs == "mode" { Mode::Write } else { Mode::Append };
                session.open(group, path, mode, comm.duplicate().unwrap()).err().unwrap()
            });
            for error in &outcomes {
                assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{method} {differs}: {error}");
                let text = error.to_string();
                assert!(text.contains(&format!("different outputs: {differs}")) && text.contains("rank 2"), "{text}");
            }
            assert!(place.store.open_read("y.bp").is_err(), "{method}: nothing was made");
            if method != "NULL" {
                let read = contents(&place.layout, "x.bp").unwrap();
                assert_eq!(
                    read.keys().map(|(_, step)| *step).max(),
                    Some(0),
                    "{method} {differs}: the closed step stays alone"
                );
            }
        }
    }
}

#[test]
fn ranks_that_write_different_shapes_fail_the_close_and_the_next_step_is_written() {
    for method in METHODS {
        let place = Place::memory();
        let outcomes = place.run(3, |comm| {
            let session = place.session(&two_groups(method, "consistency=full"), &comm);
            let rank = comm.rank() as i32;
            let extent = if rank == 1 { 5 } else { 4 };
            let torn = write(&session, &comm, Mode::Write, (3, extent, rank));
            write(&session, &comm, Mode::Append, (3, 4, rank)).unwrap();
            session.finalize().unwrap();
            torn
        });
        for outcome in &outcomes {
            let error = outcome.as_ref().unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{method}: {error}");
            let text = error.to_string();
            assert!(
                text.contains("\"t\"") && text.contains("[3, 4] on rank 0") && text.contains("[3, 5] on rank 1"),
                "{text}"
            );
        }
        if method != "NULL" {
            let read = contents(&place.layout, "x.bp").unwrap();
            let steps: std::collections::BTreeSet<u64> = read.keys().map(|(_, step)| *step).collect();
            assert_eq!(steps.len(), 1, "{method}: the step that was not closed is not there");
        }
    }
}

#[test]
fn ranks_that_write_different_types_fail_the_close_in_every_mode_and_closed_steps_stay() {
    for method in METHODS {
        for (step, mode) in [(0, Mode::Write), (1, Mode::Append), (0, Mode::Update)] {
            // In the global array, in the local one, and in a scalar that several ranks write.
            for (variable, now, other, words) in [
                ("name=\"t\"", "double", "real", "double on rank 0, real on rank 2"),
                ("name=\"mine\"", "double", "long", "double on rank 0, long long on rank 2"),
                ("name=\"o\"", "integer", "unsigned integer", "integer on rank 0, unsigned integer on rank 2"),
            ] {
                let what = format!("{method} {mode:?} {variable}");
                let place = Place::memory();
                if mode != Mode::Write {
                    place.run(3, |comm| {
                        let session = place.session(&two_groups(method, "consistency=full"), &comm);
                        write(&session, &comm, Mode::Write, (3, 4, comm.rank() as i32)).unwrap();
                        session.finalize().unwrap();
                    });
                }
                let files = |layout| if method == "NULL" { None } else { contents(layout, "x.bp").ok() };
                let before = files(&place.layout);
                let outcomes = place.run(3, |comm| {
                    let document = two_groups(method, "consistency=full");
                    let typed = |kind: &str| format!("{variable} type=\"{kind}\"");
                    let document = match comm.rank() {
                        2 => document.replace(&typed(now), &typed(other)),
                        _ => document,
                    };
                    let session = place.session(&document, &comm);
                    let outcome = write_as(&session, &comm, mode, other == "real" && comm.rank() == 2);
                    // What was opened in this process is closed for good all the same.
                    session.finalize().unwrap();
                    outcome
                });
                for outcome in &outcomes {
                    let error = outcome.as_ref().expect_err(&what);
                    assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{what}: {error}");
                    let text = error.to_string();
                    let name = variable.trim_start_matches("name=");
                    assert!(text.contains(&format!("variable {name}")) && text.contains(words), "{what}: {text}");
                }
                if mode != Mode::Write {
                    assert!(files(&place.layout) == before, "{what}: step {step} was written");
                }
            }
        }
    }
}

/// As `write` of the same rows; `narrow`: the global array is of floats on this rank.
fn write_as(session: &thalweg_io::Session, comm: &dyn Communicator, mode: Mode, narrow: bool) -> Result<()> {
    let row = comm.rank();
    let mut output = session.open("a", "x.bp", mode, comm.duplicate()?)?;
    let _ = output.write_values("n", &[3i32]);
    let _ = output.write_values("m", &[4i32]);
    let _ = output.write_values("o", &[row]);
    let _ = match narrow {
        true => output.write_values("t", &[row as f32; 4]),
        false => output.write_values("t", &[f64::from(row); 4]),
    };
    let _ = output.write_values("mine", &[f64::from(row); 4]);
    output.close().map(drop)
}

/// Set in the child of the next test.
const CHILD: &str = "RANKS_THAT_DIFFER";

/// What the child of the next test does; nothing elsewhere.
#[test]
fn ranks_that_differ_in_a_shape() {
    if std::env::var_os(CHILD).is_none() {
        return;
    }
    let place = Place::memory();
    let outcomes = place.run(3, |comm| {
        let session = place.session(&two_groups("POSIX", ""), &comm);
        let extent = if comm.rank() == 1 { 5 } else { 4 };
        write(&session, &comm, Mode::Write, (3, extent, comm.rank() as i32))
    });
    let heard: Vec<String> =
        outcomes.iter().map(|o| o.as_ref().map_or_else(ToString::to_string, |()| "fine".into())).collect();
    println!("outcomes: {}", heard.join(" | "));
}

#[test]
fn the_environment_asks_for_all_outputs_of_a_process() {
    for (value, expected) in [
        (None, "fine | fine | fine"),
        (Some("delayed"), "fine | fine | fine"),
        (Some(" FULL "), "ranks disagree on variable"),
        (Some("some"), "THALWEG_CONSISTENCY=some: expected delayed or full"),
    ] {
        let mut child = std::process::Command::new(std::env::current_exe().unwrap());
        child.args(["--exact", "--nocapture", "ranks_that_differ_in_a_shape"]).env(CHILD, "1");
        match value {
            Some(value) => child.env("THALWEG_CONSISTENCY", value),
            None => child.env_remove("THALWEG_CONSISTENCY"),
        };
        let output = child.output().unwrap();
        let said = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        assert!(said.contains(expected), "{value:?}: {said}");
        if expected.starts_with("ranks") {
            assert!(
                said.contains("[3, 4] on rank 0") && said.contains("[3, 5] on rank 1") && !said.contains("fine"),
                "{said}"
            );
        }
    }
}

#[test]
fn one_rank_is_enough_to_ask_and_without_it_nobody_compares() {
    for asks in [false, true] {
        let place = Place::memory();
        let outcomes = place.run(3, |comm| {
            let parameters = if asks && comm.rank() == 2 { "consistency=full" } else { "" };
            let session = place.session(&two_groups("POSIX", parameters), &comm);
            let extent = if comm.rank() == 1 { 5 } else { 4 };
            write(&session, &comm, Mode::Write, (3, extent, comm.rank() as i32))
        });
        for outcome in outcomes {
            match outcome {
                // The methods' parameters differ, which is what is compared first.
                Err(e) => assert!(asks && e.to_string().contains("different outputs: methods"), "{e}"),
                Ok(()) => assert!(!asks),
            }
        }
    }
}

#[test]
fn ranks_that_agree_write_what_they_write_without_comparing() {
    for method in METHODS.into_iter().filter(|m| *m != "NULL") {
        let mut files = Vec::new();
        for parameters in ["", "consistency=full"] {
            let place = Place::memory();
            place.run(4, |comm| {
                let session = place.session(&heat(method, parameters), &comm);
                (0..3).for_each(|step| {
                    let mode = if step == 0 { Mode::Write } else { Mode::Append };
                    write_heat(&session, "x.bp", mode, &comm, step);
                });
                session.finalize().unwrap();
            });
            files.push(contents(&place.layout, "x.bp").unwrap());
        }
        assert_eq!(files[0], files[1], "{method}");
    }
}
