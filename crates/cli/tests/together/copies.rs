//! `copy`: what is asked for comes out, is said in numbers, and nothing that is there is lost.

use crate::support::{Ran, command, river, run_in};
use serde_json::Value as Json;
use std::path::Path;
use thalweg_conformance::scratch::Scratch;

fn json(ran: &Ran) -> Json {
    assert_eq!(ran.code, 0, "{}{}", ran.out, ran.err);
    serde_json::from_str(&ran.out).unwrap()
}

fn listed(folder: &Path, file: &str) -> Json {
    json(&run_in(folder, &["ls", file, "-a", "--json"]))
}

/// Names of the variables of a file.
fn names(folder: &Path, file: &str) -> Vec<String> {
    let listed = listed(folder, file);
    let variables = listed["variables"].as_array().unwrap();
    variables.iter().map(|variable| variable["name"].as_str().unwrap().to_string()).collect()
}

#[test]
fn a_copy_lists_and_prints_as_its_source_does() {
    let folder = Scratch::new();
    river().save(&folder.join("x.bp"));
    let ran = run_in(folder.path(), &["copy", "x.bp", "y.bp"]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert!(ran.out.starts_with("y.bp: 3 steps, "), "{}", ran.out);
    assert_eq!(listed(folder.path(), "x.bp")["variables"], listed(folder.path(), "y.bp")["variables"]);
    for name in names(folder.path(), "x.bp") {
        let dump = |file: &str| run_in(folder.path(), &["dump", file, &name]).out;
        assert_eq!(dump("x.bp"), dump("y.bp"), "{name}");
    }
    assert_eq!(run_in(folder.path(), &["verify", "y.bp"]).code, 0);
}

#[test]
fn options_choose_and_change() {
    let folder = Scratch::new();
    river().save(&folder.join("x.bp"));
    let all = names(folder.path(), "x.bp");
    let first = all[0].as_str();
    let said = json(&run_in(folder.path(), &["copy", "x.bp", "one.bp", "--only", first, "--steps", "1:", "--json"]));
    assert_eq!((&said["steps"], &said["ended"]), (&Json::from(2), &Json::from("whole")));
    assert_eq!(names(folder.path(), "one.bp"), [first]);
    json(&run_in(folder.path(), &["copy", "x.bp", "rest.bp", "--without", first, "--json"]));
    assert_eq!(names(folder.path(), "rest.bp"), all[1..]);
    let ran = run_in(folder.path(), &["copy", "x.bp", "none.bp", "--only", "nothing*"]);
    assert_eq!(ran.code, 1);
    assert!(ran.err.contains("no variable fits 'nothing*'") && ran.err.contains("nothing was copied"), "{}", ran.err);
}

#[test]
fn what_is_there_is_kept_unless_it_is_given_up() {
    let folder = Scratch::new();
    river().save(&folder.join("x.bp"));
    std::fs::write(folder.join("y.bp"), "notes").unwrap();
    let ran = run_in(folder.path(), &["copy", "x.bp", "y.bp"]);
    assert_eq!(ran.code, 3, "{}", ran.out);
    assert!(ran.err.contains("it is there already"), "{}", ran.err);
    assert_eq!(std::fs::read(folder.join("y.bp")).unwrap(), b"notes");
    assert_eq!(run_in(folder.path(), &["copy", "x.bp", "y.bp", "--force"]).code, 0);
    let again = json(&run_in(folder.path(), &["copy", "x.bp", "y.bp", "--continue", "--json"]));
    assert_eq!((&again["steps"], &again["had"]), (&Json::from(0), &Json::from(3)));
    let ran = run_in(folder.path(), &["copy", "x.bp", "./x.bp", "--force"]);
    assert_eq!(ran.code, 2, "{}", ran.out);
    assert!(ran.err.contains("is the file itself"), "{}", ran.err);
    assert_eq!(names(folder.path(), "x.bp"), names(folder.path(), "y.bp"));
}

#[test]
fn a_wrong_option_is_named_before_anything_is_read() {
    let folder = Scratch::new();
    for (option, value, wanted) in [
        ("--steps", "1:2:0", "'1:2:0' names no steps"),
        ("--region", "u", "'u' is no part of a variable"),
        ("--region", "u[1:b]", "'1:b' in '[1:b]'"),
        ("--type", "u", "'u' is no assignment"),
        ("--type", "u=quaternion", "no type 'quaternion'"),
        ("--transform", "u=squeeze", "squeeze"),
        ("--transform", "u=zlib:77", "77"),
        ("--blocks", "4x0", "--blocks 4x0"),
        ("--only", "u[", "'u['"),
    ] {
        let ran = run_in(folder.path(), &["copy", "x.bp", "y.bp", option, value]);
        assert_eq!(ran.code, 2, "{option} {value}: {}", ran.err);
        assert!(ran.err.contains(wanted), "{option} {value}: {}", ran.err);
    }
    let ran = run_in(folder.path(), &["copy", "x.bp", "y.bp"]);
    assert_eq!(ran.code, 3);
    assert!(ran.err.contains("cannot open 'x.bp'"), "{}", ran.err);
    river().save(&folder.join("x.bp"));
    let ran = run_in(folder.path(), &["copy", "x.bp", "y.bp", "--method", "MIP"]);
    assert_eq!(ran.code, 3);
    assert!(ran.err.contains("MIP") && !folder.join("y.bp").exists(), "{}", ran.err);
}

#[test]
fn files_of_mounts_are_copied_out_and_in() {
    let folder = Scratch::new();
    river().save(&folder.join("x.bp"));
    std::fs::create_dir(folder.join("store")).unwrap();
    let mount = folder.join("mount");
    let table = format!(
        "[[mount]]\npath = \"{}\"\nlayout = \"container\"\nstores = [\"posix:{}\"]\n",
        mount.display(),
        folder.join("store").display()
    );
    std::fs::write(folder.join("mounts.toml"), table).unwrap();
    let inside = mount.join("in.bp");
    let inside = inside.to_str().unwrap();
    for (from, to) in [("x.bp", inside), (inside, "out.bp")] {
        let ran = command()
            .current_dir(folder.path())
            .env("THALWEG_MOUNTS", folder.join("mounts.toml"))
            .args(["copy", from, to])
            .output()
            .unwrap();
        let ran = Ran::from(ran);
        assert_eq!(ran.code, 0, "{from}: {}", ran.err);
    }
    assert!(!mount.exists());
    assert_eq!(listed(folder.path(), "x.bp")["variables"], listed(folder.path(), "out.bp")["variables"]);
}
