//! `diff`: every difference is told with its place, and the exit code says whether there is one.

use crate::support::{river, run_in};
use serde_json::Value as Json;
use thalweg_conformance::scratch::Scratch;

/// The fixture, and a copy of it with these options.
fn pair(options: &[&str]) -> Scratch {
    let folder = Scratch::new();
    river().save(&folder.join("a.bp"));
    let ran = run_in(folder.path(), &[&["copy", "a.bp", "b.bp"], options].concat());
    assert_eq!(ran.code, 0, "{}", ran.err);
    folder
}

#[test]
fn equal_files_are_equal_however_they_are_stored() {
    for options in [&[][..], &["--blocks", "merged"], &["--transform", "*=zlib"], &["--method", "POSIX"]] {
        let folder = pair(options);
        let ran = run_in(folder.path(), &["diff", "a.bp", "b.bp"]);
        assert_eq!((ran.code, ran.err.as_str()), (0, ""), "{options:?}: {}", ran.out);
        assert_eq!(ran.out, "8 variables equal, 3 attributes equal\n");
    }
}

#[test]
fn rounding_is_within_a_tolerance_and_is_found_without() {
    let folder = pair(&["--type", "T=real"]);
    let ran = run_in(folder.path(), &["diff", "a.bp", "b.bp"]);
    assert_eq!(ran.code, 1);
    let lines: Vec<&str> = ran.out.lines().collect();
    assert_eq!(lines.len(), 4, "{}", ran.out);
    assert!(lines[1].starts_with("T, step 1: ") && lines[1].contains(" of 12 differ, most at ["), "{}", ran.out);
    assert_eq!(lines[3], "1 of 8 variables differ, 3 attributes equal");
    for tolerance in [["--relative", "1e-6"], ["--absolute", "1e-6"]] {
        let ran = run_in(folder.path(), &["diff", "a.bp", "b.bp", tolerance[0], tolerance[1]]);
        assert_eq!(ran.code, 0, "{}", ran.out);
    }
    let ran = run_in(folder.path(), &["diff", "a.bp", "b.bp", "--without", "T"]);
    assert_eq!((ran.code, ran.out.as_str()), (0, "7 variables equal, 3 attributes equal\n"));
}

#[test]
fn what_is_missing_is_told_with_its_file() {
    let folder = pair(&["--without", "c,T", "--steps", "0:2"]);
    let ran = run_in(folder.path(), &["diff", "a.bp", "b.bp"]);
    assert_eq!(ran.code, 1);
    assert!(ran.out.contains("c: only in a.bp\n") && ran.out.contains("time: only in a.bp: steps 2\n"), "{}", ran.out);
    let ran = run_in(folder.path(), &["diff", "b.bp", "a.bp", "--json"]);
    assert_eq!(ran.code, 1);
    let told: Json = serde_json::from_str(&ran.out).unwrap();
    let missing = serde_json::json!({"variable": "c", "only_in": "b"});
    assert!(told["differences"].as_array().unwrap().contains(&missing), "{told:#}");
    assert_eq!(told["equal"], false);
    let ran = run_in(folder.path(), &["diff", "a.bp", "b.bp", "--only", "bare", "--only", "nothing"]);
    assert_eq!(ran.code, 1, "{}", ran.out);
    let ran = run_in(folder.path(), &["diff", "a.bp", "b.bp", "--only", "nothing"]);
    assert!(ran.code == 1 && ran.err.contains("of either file fits"), "{}", ran.err);
}

#[test]
fn wrong_tolerances_and_missing_files_are_named() {
    let folder = pair(&[]);
    for tolerance in ["-1", "nan", "much"] {
        let ran = run_in(folder.path(), &["diff", "a.bp", "b.bp", "--absolute", tolerance]);
        assert_eq!(ran.code, 2, "{tolerance}");
    }
    let ran = run_in(folder.path(), &["diff", "a.bp", "c.bp"]);
    assert!(ran.code == 3 && ran.err.contains("cannot open 'c.bp'"), "{}", ran.err);
}
