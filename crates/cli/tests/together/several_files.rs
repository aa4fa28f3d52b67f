//! Commands on several files: each is treated, the exit code is the worst, and a word is a file or a pattern by a rule.

use crate::support::{river, run_in};
use serde_json::Value as Json;
use thalweg_conformance::scratch::Scratch;

/// `a.bp`, `b.bp`; `torn.bp` lacks its last bytes.
fn folder() -> Scratch {
    let folder = Scratch::new();
    let file = river();
    file.save(&folder.join("a.bp"));
    file.save(&folder.join("b.bp"));
    std::fs::write(folder.join("torn.bp"), &file.bytes[..file.bytes.len() - 9]).unwrap();
    folder
}

#[test]
fn several_files_are_listed_below_their_names() {
    let folder = folder();
    let one = run_in(folder.path(), &["ls", "a.bp", "t*"]);
    let two = run_in(folder.path(), &["ls", "a.bp", "b.bp", "t*"]);
    assert_eq!((two.code, two.err.as_str()), (0, ""));
    assert_eq!(two.out, format!("a.bp:\n{0}\nb.bp:\n{0}", one.out));
    let all = run_in(folder.path(), &["ls", "a.bp", "b.bp"]);
    let whole = run_in(folder.path(), &["ls", "a.bp"]);
    assert_eq!(all.out, format!("a.bp:\n{0}\nb.bp:\n{0}", whole.out));
    let none = run_in(folder.path(), &["ls", "a.bp", "b.bp", "nothing"]);
    assert_eq!((none.code, none.out.as_str(), none.err.as_str()), (1, "", "thalweg: no variable matches\n"));
}

#[test]
fn a_word_is_a_file_if_it_ends_in_bp_or_is_there_and_a_pattern_otherwise() {
    let folder = folder();
    let listed = |arguments: &[&str]| run_in(folder.path(), &[&["ls", "a.bp"], arguments].concat());
    assert!(!listed(&["T"]).out.contains("a.bp:"), "a pattern");
    // A folder of the name of a variable.
    std::fs::create_dir(folder.join("T")).unwrap();
    assert_eq!(listed(&["T"]).code, 0);
    std::fs::remove_dir(folder.join("T")).unwrap();
    river().save(&folder.join("T"));
    assert!(listed(&["T"]).out.contains("\nT:\n"), "a file");
    assert_eq!(listed(&["-p", "T"]).out, listed(&["--pattern", "/T"]).out);
    assert!(!listed(&["-p", "T"]).out.contains("T:\n"), "a pattern for certain");
    let both = listed(&["T", "-p", "time"]);
    assert!(both.out.contains("\nT:\n") && both.out.matches("time").count() == 2, "{}", both.out);
    let missing = listed(&["c.bp"]);
    assert_eq!(missing.code, 3);
    assert!(
        missing.err.contains("cannot open 'c.bp'") && missing.out.contains("a.bp:\n"),
        "{}{}",
        missing.out,
        missing.err
    );
    // With --pattern every word is a file.
    let missing = listed(&["x*", "-p", "time"]);
    assert_eq!(missing.code, 3);
    assert!(missing.err.contains("cannot open 'x*'"), "{}", missing.err);
}

#[test]
fn the_exit_code_is_the_worst_and_the_others_are_treated_all_the_same() {
    let folder = folder();
    let ran = |arguments: &[&str]| run_in(folder.path(), arguments);
    let good = ran(&["verify", "a.bp", "b.bp"]);
    assert_eq!((good.code, good.out.matches("sound: ").count()), (0, 2), "{}", good.out);
    let one_bad = ran(&["verify", "torn.bp", "b.bp"]);
    assert_eq!(one_bad.code, 1, "{}", one_bad.err);
    assert!(one_bad.out.contains("torn.bp: ") && one_bad.out.contains("sound: b.bp"), "{}", one_bad.out);
    let missing = ran(&["verify", "none.bp", "torn.bp", "b.bp"]);
    assert_eq!(missing.code, 3);
    assert!(missing.err.contains("'none.bp'") && missing.out.contains("sound: b.bp"), "{}{}", missing.out, missing.err);
    let stat = ran(&["stat", "a.bp", "b.bp"]);
    let alone = ["a.bp", "b.bp"].map(|file| ran(&["stat", file]).out).concat();
    assert_eq!((stat.code, stat.out), (0, alone));
    let repaired = ran(&["recover", "torn.bp", "a.bp"]);
    assert_eq!(repaired.code, 0, "{}", repaired.err);
    assert!(
        repaired.out.contains("recovered: torn.bp") && repaired.out.contains("nothing to do: a.bp"),
        "{}",
        repaired.out
    );
    assert_eq!(ran(&["verify", "torn.bp"]).code, 0);
}

#[test]
fn json_of_several_files_is_one_array() {
    let folder = folder();
    for command in [&["ls", "--json"][..], &["verify", "--json"], &["stat", "--json", "--files"]] {
        let ran = run_in(folder.path(), &[command, &["a.bp", "none.bp", "b.bp"]].concat());
        assert_eq!(ran.code, 3, "{command:?}");
        let all: Json = serde_json::from_str(&ran.out).unwrap();
        let alone = |file: &str| -> Json {
            serde_json::from_str(&run_in(folder.path(), &[command, &[file]].concat()).out).unwrap()
        };
        assert_eq!((&all[0], &all[2]), (&alone("a.bp"), &alone("b.bp")), "{command:?}");
        assert_eq!(all[1]["file"], "none.bp");
        assert!(all[1]["error"].as_str().unwrap().contains("cannot open 'none.bp'"), "{command:?}");
    }
}

#[test]
fn a_document_that_is_not_complete_stays_in_the_array_and_counts_as_a_failure() {
    let folder = folder();
    let file = std::fs::read(folder.join("a.bp")).unwrap();
    // The last place of the name is in the index; something behind it is damaged.
    let name = file.windows(5).rposition(|bytes| bytes == b"piece").unwrap();
    let damaged = (name + 5..name + 200).find(|at| {
        let mut other = file.clone();
        other[*at] ^= 0xff;
        std::fs::write(folder.join("odd.bp"), other).unwrap();
        let alone = run_in(folder.path(), &["ls", "--json", "odd.bp"]);
        alone.code == 3 && alone.out.starts_with('{')
    });
    assert!(damaged.is_some(), "no damage leaves the others readable");
    let ran = run_in(folder.path(), &["ls", "--json", "a.bp", "odd.bp", "b.bp"]);
    assert_eq!(ran.code, 3, "{}", ran.err);
    let all: Json = serde_json::from_str(&ran.out).unwrap();
    assert!(all.as_array().unwrap().len() == 3 && all[1].get("error").is_none(), "{all}");
}
