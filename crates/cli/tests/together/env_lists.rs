//! `thalweg env`: every variable that the sources read is listed, as it is set; what nothing reads is told.

use crate::support::{Ran, command, printed};
use std::collections::BTreeSet;
use std::path::Path;

/// With nothing in the environment but this.
fn env(variables: &[(&str, &str)], arguments: &[&str]) -> Ran {
    command().env_clear().envs(variables.iter().copied()).arg("env").args(arguments).output().unwrap().into()
}

#[test]
fn help_is_as_reviewed() {
    insta::assert_snapshot!("help_env", printed(&["env", "--help"]));
}

#[test]
fn those_that_are_set_are_shown_as_they_are_and_secrets_are_not() {
    let set = [
        ("THALWEG_MOUNTS", "/here/mounts.toml"),
        ("AWS_SECRET_ACCESS_KEY", "dont-tell"),
        ("THALWEG_PARTITION", "a\nb"),
    ];
    let ran = env(&set, &["--set"]);
    assert_eq!((ran.code, ran.err.as_str()), (0, ""));
    insta::assert_snapshot!("env_set", ran.out);
    let all = env(&set, &[]);
    assert!(all.out.contains("not set: thalweg in PATH") && !all.out.contains("dont-tell"), "{}", all.out);
    let document: serde_json::Value = serde_json::from_str(&env(&set, &["--json"]).out).unwrap();
    let value = |name: &str| {
        document["variables"].as_array().unwrap().iter().find(|v| v["name"] == name).unwrap()["value"].clone()
    };
    assert_eq!(value("THALWEG_PARTITION"), "a\nb");
    assert_eq!(value("AWS_SECRET_ACCESS_KEY"), "(set)");
    assert!(value("THALWEG_STRICT").is_null());
    assert_eq!(env(&[], &["--set"]).out, "");
}

#[test]
fn what_nothing_reads_is_told_with_the_nearest_name() {
    let ran = env(&[("THALWEG_MOUNT", "x"), ("THALWEG_STEP", "3")], &[]);
    assert_eq!(ran.code, 1);
    assert_eq!(ran.err, "thalweg: THALWEG_MOUNT is set, and nothing reads it; nearest known name: THALWEG_MOUNTS\n");
    let document: serde_json::Value = serde_json::from_str(&env(&[("THALWEG_MOUNT", "x")], &["--json"]).out).unwrap();
    assert_eq!(document["unknown"], serde_json::json!(["THALWEG_MOUNT"]));
}

/// The names of ours in quotes in the sources of a folder.
fn names(folder: &Path, found: &mut BTreeSet<String>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            if !["tests", "target", "examples"].iter().any(|name| path.ends_with(name)) {
                names(&path, found);
            }
        } else if path.extension().is_some_and(|e| ["rs", "py", "c", "h", "hpp"].iter().any(|known| e == *known)) {
            let text = std::fs::read_to_string(&path).unwrap();
            let quoted = text.split('"').filter(|word| {
                word.starts_with("THALWEG_") && word.bytes().all(|b| b == b'_' || b.is_ascii_uppercase())
            });
            found.extend(quoted.filter(|name| !name.starts_with("THALWEG_TEST_")).map(String::from));
        }
    }
}

#[test]
fn every_variable_of_the_sources_is_listed_and_no_other() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut read = BTreeSet::new();
    for folder in ["crates", "bindings"] {
        names(&root.join(folder), &mut read);
    }
    for not_read in [
        // What triggers get, a prefix, and the commit of a build.
        "THALWEG_OUTPUT",
        "THALWEG_GROUP",
        "THALWEG_STEP",
        "THALWEG_",
        "THALWEG_COMMIT",
    ] {
        assert!(read.remove(not_read), "{not_read}");
    }
    let document: serde_json::Value = serde_json::from_str(&env(&[], &["--json"]).out).unwrap();
    let listed: BTreeSet<String> = document["variables"]
        .as_array()
        .unwrap()
        .iter()
        .map(|v| v["name"].as_str().unwrap().to_string())
        .filter(|name| name.starts_with("THALWEG_"))
        .collect();
    assert_eq!(read, listed);
}
