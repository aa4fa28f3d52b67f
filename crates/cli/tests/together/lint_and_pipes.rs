//! `config lint`, and how the command behaves in pipes.

use crate::support::{command, fixtures, river, run, run_in};
use std::io::Read;
use std::process::Stdio;
use thalweg_conformance::scratch::Scratch;

#[test]
fn every_mistake_of_a_configuration_is_shown_with_its_line() {
    let folder = Scratch::new();
    let text = "<adios-config host-language=\"C\">\n  <adios-group name=\"g\">\n    <var name=\"x\" type=\"flaot\"/>\n    \
                <var name=\"y\" type=\"double\" dimensions=\"nx\"/>\n  </adios-group>\n  <method group=\"h\" method=\"MPI\"/>\n</adios-config>\n";
    std::fs::write(folder.join("c.xml"), text).unwrap();
    let ran = run_in(folder.path(), &["config", "lint", "c.xml"]);
    assert_eq!((ran.code, ran.err.as_str()), (1, ""), "{}", ran.out);
    for part in ["c.xml:3:", "\"flaot\"", "nearest known name: \"float\"", "c.xml:4:", "c.xml:6:", "3 errors"] {
        assert!(ran.out.contains(part), "{part} is missing:\n{}", ran.out);
    }
    // Methods and their parameters are checked as well, each where it stands.
    let text = "<adios-config host-language=\"C\">\n  <adios-group name=\"g\"/>\n  <method group=\"g\" method=\"MPJ\"/>\n  \
                <method group=\"g\" method=\"POSIX\">synk=yes</method>\n</adios-config>\n";
    std::fs::write(folder.join("m.xml"), text).unwrap();
    let ran = run_in(folder.path(), &["config", "lint", "m.xml"]);
    assert_eq!(ran.code, 1, "{}", ran.out);
    for part in ["m.xml:3:", "\"MPJ\"", "m.xml:4:36: error: ", "nearest known name: \"sync\"", "2 errors"] {
        assert!(ran.out.contains(part), "{part} is missing:\n{}", ran.out);
    }
    let ran = run_in(folder.path(), &["config", "lint", "none.xml"]);
    assert_eq!((ran.code, ran.out.as_str()), (3, ""));
    assert!(ran.err.starts_with("thalweg: cannot read 'none.xml': "), "{}", ran.err);
    std::fs::write(folder.join("b.xml"), [0xff, 0x00, b'<']).unwrap();
    assert_eq!(run_in(folder.path(), &["config", "lint", "b.xml"]).code, 1);
}

#[test]
fn a_good_configuration_passes_with_its_warnings() {
    let ran = run(&["config", "lint", "adios1.xml"]);
    assert_eq!((ran.code, ran.err.as_str()), (0, ""), "{}", ran.out);
    assert!(
        ran.out.contains("warning: ") && ran.out.ends_with("no errors in adios1.xml: 1 group, 1 method\n"),
        "{}",
        ran.out
    );
}

#[test]
fn a_reader_that_goes_away_is_no_failure() {
    let all: [&[&str]; 4] = [
        &["dump", "adios1-types.bp", "f64_4d", "i16_4d"],
        &["dump", "adios1-types.bp", "f64_4d", "--csv"],
        &["ls", "-lav", "--json", "adios1-types.bp"],
        &["completions", "zsh"],
    ];
    for arguments in all {
        let mut child = command()
            .current_dir(fixtures())
            .args(arguments)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        // Gone before the first byte.
        drop(child.stdout.take());
        let mut said = String::new();
        child.stderr.take().unwrap().read_to_string(&mut said).unwrap();
        assert_eq!((child.wait().unwrap().code(), said.as_str()), (Some(0), ""), "{arguments:?}");
    }
}

#[test]
fn a_full_disk_is_a_failure() {
    let full = std::fs::OpenOptions::new().write(true).open("/dev/full");
    let Ok(full) = full else { return eprintln!("skipped: no /dev/full here") };
    let folder = Scratch::new();
    river().save(&folder.join("river.bp"));
    let output = command().current_dir(folder.path()).args(["ls", "river.bp"]).stdout(full).output().unwrap();
    assert_eq!(output.status.code(), Some(3));
    assert!(String::from_utf8_lossy(&output.stderr).contains("cannot write the output: No space left"), "{output:?}");
}
