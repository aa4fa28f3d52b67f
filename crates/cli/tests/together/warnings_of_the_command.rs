//! The library's warnings in the command: their form, and the environment variables.

use crate::support::{Ran, command};
use std::process::Command;
use thalweg_conformance::scratch::Scratch;

/// A short command with these environment variables, and none other of the messages.
fn with(variables: &[(&str, &str)]) -> Ran {
    let mut command: Command = command();
    for name in ["THALWEG_LOG", "THALWEG_LOG_FILE", "THALWEG_ERRORS"] {
        command.env_remove(name);
    }
    Ran::from(command.args(["completions", "bash"]).envs(variables.iter().copied()).output().unwrap())
}

#[test]
fn an_invalid_level_is_one_warning_in_the_form_of_the_library() {
    let told = "THALWEG_LOG=loud: expected off, warn, info or debug";
    let ran = with(&[("THALWEG_LOG", "loud")]);
    assert_eq!((ran.code, ran.err), (0, format!("thalweg: warning: {told}\n")));
    for valid in ["off", "warn", "info", "debug", ""] {
        let ran = with(&[("THALWEG_LOG", valid)]);
        assert_eq!((ran.code, ran.err.as_str()), (0, ""), "THALWEG_LOG={valid}");
    }
}

#[test]
fn a_command_is_no_rank_and_appends_to_the_log_file_itself() {
    let folder = Scratch::new();
    let log = folder.join("log");
    for runs in 1..=2 {
        let ran = with(&[("THALWEG_LOG", "loud"), ("THALWEG_LOG_FILE", log.to_str().unwrap())]);
        assert_eq!((ran.code, ran.err.lines().count()), (0, 1), "{}", ran.err);
        let lines = std::fs::read_to_string(&log).unwrap();
        assert_eq!(lines.lines().count(), runs, "{lines}");
        assert!(lines.lines().all(|line| line.contains("Z warn THALWEG_LOG=loud: expected off")), "{lines}");
    }
}
