//! A mount table that may exist is never passed over: without its mounts a program would write to the wrong place.

use std::process::{Command, Output};
use thalweg_conformance::scratch::Scratch;

/// Runs `thalweg config check` with this folder of settings.
fn check(settings: &std::path::Path) -> (Option<i32>, String) {
    let Output { status, stdout, stderr } = Command::new(env!("CARGO_BIN_EXE_thalweg"))
        .args(["config", "check"])
        .env_remove("THALWEG_MOUNTS")
        .env("XDG_CONFIG_HOME", settings)
        .output()
        .unwrap();
    (status.code(), String::from_utf8_lossy(&stdout).into_owned() + &String::from_utf8_lossy(&stderr))
}

#[test]
fn a_table_that_cannot_be_looked_for_is_an_error_and_one_that_is_not_there_is_none() {
    let scratch = Scratch::new();
    let none = check(scratch.path());
    std::fs::write(scratch.join("file"), "").unwrap();
    assert_eq!(check(&scratch.join("file")), none, "a file in the place of the folder");
    // The system cannot say whether a file exists below a link that leads to itself.
    std::os::unix::fs::symlink("loop", scratch.join("loop")).unwrap();
    let (code, told) = check(&scratch.join("loop"));
    assert_ne!(code, none.0, "{told}");
    assert!(told.contains("cannot look for a mount table") && told.contains("loop/thalweg/mounts.toml"), "{told}");
    // A folder in the place of the table.
    std::fs::create_dir_all(scratch.join("thalweg/mounts.toml")).unwrap();
    let (code, told) = check(scratch.path());
    assert_ne!(code, none.0, "{told}");
    assert!(told.contains("thalweg/mounts.toml"), "{told}");
}
