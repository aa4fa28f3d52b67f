//! `thalweg sim`: what it prints, what it refuses, figures with their pictures.

mod support;

use support::{printed, run, run_in};
use thalweg_conformance::scratch::Scratch;

const PUBLISHED: [&str; 6] = ["sim", "jaguarpf-xt5", "--ranks", "32768", "--size", "768MiB"];

const LOAD: [&str; 6] = ["sim", "lonestar", "--load", "btio-b", "--ranks", "16"];

fn with(more: &[&str]) -> String {
    printed(&[&PUBLISHED[..], more].concat())
}

#[test]
fn help_is_as_reviewed() {
    insta::assert_snapshot!("help_sim", printed(&["sim", "--help"]));
}

#[test]
fn methods_stand_beside_each_other_with_what_slow_targets_leave_of_them() {
    insta::assert_snapshot!("sim_slow", with(&["--slow", "1%x20"]));
}

#[test]
fn of_one_method_the_slowest_ranks_are_shown() {
    insta::assert_snapshot!(
        "sim_slowest",
        with(&["--method", "MPI_LUSTRE", "-p", "writers_per_target=1", "--slowest", "3"])
    );
}

#[test]
fn json_says_the_same_as_the_table() {
    let text = with(&["-m", "adaptive", "-m", "MPI_SCHEDULED", "--slow", "1%x20", "--slowest", "2", "--json"]);
    let document: serde_json::Value = serde_json::from_str(&text).unwrap();
    let runs = document["runs"].as_array().unwrap();
    assert_eq!(runs.len(), 2);
    let number = |run: usize, key: &str| runs[run][key].as_f64().unwrap();
    for (run, of) in runs.iter().enumerate() {
        let bytes = 32_768.0 * f64::from(768 << 20);
        assert!((bytes / number(run, "seconds") / number(run, "bytes_per_second") - 1.0).abs() < 1e-9);
        assert!((number(run, "bytes_per_second") / 110e9 - number(run, "share_of_peak")).abs() < 1e-9);
        assert_eq!(of["slowest"].as_array().unwrap().len(), 2);
    }
    let kept = |run| number(run, "bytes_per_second") / number(run, "bytes_per_second_without_slow_targets");
    assert!(kept(0) > 0.8 && kept(1) < 0.2);
}

#[test]
fn a_figure_is_a_table_and_a_picture() {
    let folder = Scratch::new();
    let ran = run_in(folder.path(), &["sim", "--figure", "cug2009-7"]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert!(
        ran.out.contains("67 ranks pass data to each, 11 to the last") && ran.out.contains("Picture: cug2009-7.svg")
    );
    let picture = std::fs::read_to_string(folder.path().join("cug2009-7.svg")).unwrap();
    assert!(picture.starts_with("<svg") && picture.contains("pattern=brigade"));
    let ran = run_in(folder.path(), &["sim", "--figure", "sand-5", "--svg", "nowhere/x.svg"]);
    assert_eq!(ran.code, 3);
    assert!(ran.err.contains("nowhere/x.svg"));
    let ran = run_in(folder.path(), &["sim", "--figure", "sand-5", "--json"]);
    let document: serde_json::Value = serde_json::from_str(&ran.out).unwrap();
    assert_eq!(document["figure"], "sand-5");
    assert!(!folder.path().join("sand-5.svg").exists());
}

#[test]
fn a_load_shows_a_partition_beside_two_phase() {
    insta::assert_snapshot!("sim_load", printed(&LOAD));
    let document: serde_json::Value = serde_json::from_str(&printed(&[&LOAD[..], &["--json"]].concat())).unwrap();
    let contenders = document["contenders"].as_array().unwrap();
    let names: Vec<&str> = contenders.iter().map(|of| of["contender"].as_str().unwrap()).collect();
    assert_eq!(names, ["partition", "two-phase", "pvfs2"]);
    let seconds = |key: &str| contenders.iter().map(|of| of[key].as_f64().unwrap()).collect::<Vec<_>>();
    for (key, direction) in [("write_seconds", "writes"), ("read_seconds", "reads")] {
        let [own, two_phase, pvfs2] = seconds(key)[..] else { panic!("{names:?}") };
        let advantage = document["advantage"][direction].as_f64().unwrap();
        assert!((two_phase.min(pvfs2) / own / advantage - 1.0).abs() < 1e-9);
    }
    for of in contenders {
        assert_eq!(of["server_bytes"], document["bytes"]);
    }
}

#[test]
fn a_figure_of_a_load_stands_beside_published_numbers() {
    let folder = Scratch::new();
    let ran = run_in(folder.path(), &["sim", "--figure", "ahpios-tile"]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert!(ran.out.contains("most in reads: 6.3 at 4") && ran.out.contains("constants were fitted to it"));
    let picture = std::fs::read_to_string(folder.path().join("ahpios-tile.svg")).unwrap();
    assert!(picture.contains("reads, published"));
}

/// Commands of the guide's page, and what it says that they print.
#[test]
fn commands_of_the_guide_print_what_it_says() {
    let page = include_str!("../../../docs/guide/sim.md");
    let mut shown = 0;
    for block in page.split("```").skip(1).step_by(2) {
        let mut lines = block.trim_start().lines();
        let Some(command) = lines.next().and_then(|line| line.strip_prefix("$ thalweg ")) else { continue };
        let arguments: Vec<&str> = command.split_whitespace().collect();
        let expected: Vec<&str> = lines.collect();
        assert_eq!(printed(&arguments).lines().collect::<Vec<_>>(), expected, "{command}");
        shown += 1;
    }
    assert_eq!(shown, 2);
}

#[test]
fn a_description_with_a_mistake_is_shown_its_line() {
    let folder = Scratch::new();
    std::fs::write(folder.path().join("mine.toml"), "name = \"mine\"\nabout = \"\"\n[targets]\ncount = 0\n").unwrap();
    let ran = run_in(folder.path(), &["sim", "mine.toml"]);
    assert_eq!(ran.code, 3);
    assert!(
        ran.err.contains("mine.toml") && ran.err.contains("line 4") && ran.err.contains("count = 0"),
        "{}",
        ran.err
    );
}

#[test]
fn what_makes_no_sense_is_refused() {
    for (wrong, says) in [
        (&["sim"][..], "MACHINE"),
        (&["sim", "jaguar-xt4", "--size", "8parsec"], "8parsec"),
        (&["sim", "jaguar-xt4", "--ranks", "0"], "--ranks"),
        (&["sim", "jaguar-xt4", "-m", "FAST"], "FAST"),
        (&["sim", "jaguar-xt4", "-p", "colour=red"], "colour"),
        (&["sim", "jaguar-xt4", "--slow", "3"], "1%x20"),
        (&["sim", "jaguar-xt4", "--background", "120%"], "1.2"),
        (&["sim", "lonestar", "--load", "btio-z"], "btio-c"),
        (&["sim", "lonestar", "--load", "btio-b", "--ranks", "32"], "square"),
        (&["sim", "lonestar", "--load", "tile", "--size", "1MiB"], "--size"),
        (&["sim", "jaguar-xt4", "--load", "tile"], "[servers]"),
        (&["sim", "--figure", "ahpios-tile", "--load", "tile"], "--load"),
        (&["sim", "--figure", "cug2009-9"], "cug2009-8"),
        (&["sim", "--figure", "sand-5", "--ranks", "3"], "--ranks"),
    ] {
        let ran = run(wrong);
        assert_eq!(ran.code, 2, "{wrong:?}: {}", ran.err);
        assert!(ran.err.contains(says) && ran.out.is_empty(), "{wrong:?}: {}", ran.err);
    }
}

#[test]
fn sizes_and_defaults_are_those_of_the_methods() {
    let seconds = |more: &[&str]| {
        let small = ["sim", "jaguarpf-xt5", "--ranks", "500", "-m", "MPI_COLLECTIVE", "-m", "ADAPTIVE", "--json"];
        let text = printed(&[&small[..], more].concat());
        let document: serde_json::Value = serde_json::from_str(&text).unwrap();
        let runs = document["runs"].as_array().unwrap();
        runs.iter().map(|run| (run["size_bytes"].as_u64(), run["seconds"].as_f64())).collect::<Vec<_>>()
    };
    let usual = seconds(&["--size", "8MB"]);
    assert_eq!(usual[0].0, Some(8 << 20));
    assert_eq!(usual, seconds(&["--size", "8MiB", "-p", "buffer=16M;stuck=3;patience=100"]));
    assert_ne!(usual[0], seconds(&["--size", "8MiB", "-p", "buffer=1M"])[0]);
}
