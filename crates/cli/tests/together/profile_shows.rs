//! `thalweg profile`: the table, the picture, the trace, what is refused.

use crate::support::{printed, run};
use serde_json::{Value, json};
use std::path::Path;
use thalweg_comm::Communicator;
use thalweg_comm::threads;
use thalweg_conformance::scratch::Scratch;
use thalweg_io::{Mode, Session};

const PHASES: [&str; 12] = [
    "open",
    "wait",
    "copy",
    "characteristics",
    "transform",
    "send",
    "write",
    "sync",
    "index",
    "close",
    "calculation",
    "iteration",
];
const MS: i64 = 1_000_000;

/// A step in which ranks write in turn, a rank's write takes 2 ms, and the one in the middle takes 50 ms.
fn turns(ranks: u32, step: u64) -> Value {
    let slow = ranks / 2;
    let took = |rank: u32| if rank == slow { 50 * MS } else { 2 * MS };
    let mut at = 5 * MS;
    let ends: Vec<[i64; 2]> = (0..ranks)
        .map(|rank| {
            let begin = at;
            at += took(rank);
            [begin, at]
        })
        .collect();
    let end = at + MS;
    let by_rank: Vec<Value> = (0..ranks)
        .map(|rank| {
            let [begin, written] = ends[rank as usize];
            let mut totals = [[0i64; 3]; 12];
            let mut spans = vec![[0, 0, 3 * MS, 0, -1, -1], [2, 3 * MS, MS, 4096, -1, -1], [9, 4 * MS, end - 4 * MS, 0, -1, -1]];
            totals[0] = [3 * MS, 1, 0];
            totals[2] = [MS, 1, 4096];
            totals[9] = [MS, 1, 0];
            if rank > 0 {
                spans.push([1, 4 * MS, begin - 4 * MS, 12, i64::from(rank) - 1, -1]);
            }
            spans.push([6, begin, written - begin, 4096, -1, -1]);
            totals[6] = [written - begin, 1, 4096];
            spans.push([1, written, end - written, 0, -1, 0]);
            totals[1] = [end - written + begin - 4 * MS, 2, 12];
            json!({
                "rank": rank, "open": [0, 3 * MS], "close": [4 * MS, end], "group_bytes": 4096, "totals": totals, "spans": spans,
                "resolution_ns": 0,
            })
        })
        .collect();
    json!({
        "format": "thalweg-profile", "version": 1, "output": "run.bp", "group": "restart", "methods": ["MPI_SCHEDULED"],
        "step": step, "run": "1f", "ranks": ranks, "began_unix_us": 1_700_000_000_000_000u64 + 200_000 * step,
        "clock_error_ns": 12_300, "bytes": 4096 * u64::from(ranks), "phases": PHASES, "by_rank": by_rank,
    })
}

fn save(folder: &Path, name: &str, document: &Value) -> String {
    let path = folder.join(name);
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(&path, serde_json::to_vec(document).unwrap()).unwrap();
    path.display().to_string()
}

#[test]
fn help_is_as_reviewed() {
    insta::assert_snapshot!("help_profile", printed(&["profile", "--help"]));
}

#[test]
fn the_table_names_the_rank_that_the_others_waited_for_in_the_end() {
    let folder = Scratch::new();
    let one = save(folder.path(), "step-0.json", &turns(8, 0));
    insta::assert_snapshot!("profile_of_one", printed(&["profile", &one]));
    save(folder.path(), "step-1.json", &turns(8, 1));
    insta::assert_snapshot!("profile_of_two", printed(&["profile", &folder.path().display().to_string()]));
}

#[test]
fn names_in_a_profile_that_is_whole_steer_no_terminal() {
    const NAME: &str = "T\u{1b}c\u{202e}\n\u{9b}2J";
    let folder = Scratch::new();
    let mut document = turns(4, 0);
    (document["output"], document["group"], document["methods"]) = (json!(NAME), json!(NAME), json!([NAME]));
    let path = save(folder.path(), "hostile.json", &document);
    let plain = |text: &str| !text.chars().any(|c| (c.is_control() && c != '\n') || c == '\u{202e}');
    let picture = folder.path().join("hostile.svg").display().to_string();
    let text = printed(&["profile", &path, "--svg", &picture]);
    assert!(plain(&text) && text.contains("2J"), "{text:?}");
    let picture = std::fs::read_to_string(picture).unwrap();
    assert!(plain(&picture), "{picture:?}");
    let exact: Value = serde_json::from_str(&printed(&["profile", &path, "--json"])).unwrap();
    assert_eq!(exact["outputs"][0]["group"], NAME, "programs get the exact name");
}

#[test]
fn what_an_output_wrote_beside_it_is_found_and_shown_in_every_form() {
    let folder = Scratch::new();
    let output = folder.path().join("x.bp").display().to_string();
    let xml = r#"<adios-config><adios-group name="g"><var name="a" type="double"/></adios-group>
        <method group="g" method="MPI_AGGREGATE">aggregators=2;profile=yes</method></adios-config>"#;
    threads::run(4, |comm| {
        let session = Session::from_xml(xml, "x.xml", comm.duplicate().unwrap()).unwrap();
        for mode in [Mode::Write, Mode::Append] {
            session.begin_calculation();
            session.end_calculation();
            let mut step = session.open("g", &output, mode, comm.duplicate().unwrap()).unwrap();
            step.write_values("a", &[1.0f64]).unwrap();
            step.close().unwrap();
        }
        session.finalize().unwrap();
    });
    let text = printed(&["profile", &output]);
    assert!(text.contains("x.bp, steps 0 to 1, group g: MPI_AGGREGATE, 4 ranks"), "{text}");
    for phase in ["open", "wait", "copy", "send", "write", "index", "close", "calculation"] {
        assert!(text.lines().any(|line| line.starts_with(phase)), "{phase}: {text}");
    }
    let (picture, trace) = (format!("{output}.svg"), format!("{output}.trace"));
    let json = printed(&["profile", &format!("{output}.profile"), "--svg", &picture, "--chrome", &trace, "--json"]);
    let json: Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json["outputs"].as_array().unwrap().len(), 2);
    assert_eq!(json["outputs"][1]["step"], 1);
    let trace: Value = serde_json::from_slice(&std::fs::read(trace).unwrap()).unwrap();
    let events = trace["traceEvents"].as_array().unwrap();
    let writes = events.iter().filter(|e| e["name"] == "write" && e["ph"] == "X" && e["args"]["bytes"].is_u64());
    assert!(writes.count() >= 8);
    assert_eq!(events.iter().filter(|e| e["name"] == "thread_name").count(), 4);
    let picture = std::fs::read_to_string(picture).unwrap();
    for rank in 0..4 {
        assert!(picture.contains(&format!(">rank {rank}</text>")), "{picture}");
    }
}

#[test]
fn a_picture_of_many_ranks_stays_small_and_shows_who_held_the_others_up() {
    let folder = Scratch::new();
    let many = save(folder.path(), "many.json", &turns(4000, 0));
    let picture = folder.path().join("many.svg").display().to_string();
    let text = printed(&["profile", &many, "--svg", &picture, "--delaying", "1"]);
    assert_eq!(text, printed(&["profile", &many, "--held", "1"]), "the former name of the switch");
    let first = text.lines().last().unwrap();
    assert!(first.trim().starts_with("2000") && first.contains("write"), "{text}");
    let picture = std::fs::read_to_string(picture).unwrap();
    assert!(picture.len() < 1_000_000, "{} bytes", picture.len());
    assert!(picture.contains(" of 4000 ranks have a row") && picture.contains(">rank 2000</text>"));
}

#[test]
fn what_is_no_profile_is_refused_and_its_place_named() {
    let folder = Scratch::new();
    let mut wrong = turns(2, 0);
    wrong["by_rank"][1]["spans"][0][0] = 77.into();
    let wrong = save(folder.path(), "wrong.json", &wrong);
    let other = save(folder.path(), "other.json", &json!({ "format": "a", "version": 1 }));
    let newer = save(folder.path(), "newer.json", &json!({ "format": "thalweg-profile", "version": 3 }));
    let torn = folder.path().join("torn.json");
    std::fs::write(&torn, &serde_json::to_vec(&turns(2, 0)).unwrap()[..300]).unwrap();
    let bare = folder.path().join("run.bp");
    std::fs::write(&bare, b"").unwrap();
    let empty = folder.path().join("empty");
    std::fs::create_dir(&empty).unwrap();
    for (path, says) in [
        (wrong, "rank 1: span 0: there is no phase 77"),
        (other, "not a profile: its format is \"a\""),
        (newer, "a profile of version 3; versions 1 to 2 are understood"),
        (torn.display().to_string(), "EOF while parsing"),
        (bare.display().to_string(), "has no profile"),
        (empty.display().to_string(), "no file is called step-N.json"),
        (folder.path().join("none.json").display().to_string(), "cannot open"),
    ] {
        let ended = run(&["profile", &path]);
        assert_eq!(ended.code, 3, "{path}");
        assert!(ended.err.contains(says) && ended.err.contains(&path), "{}", ended.err);
    }
    assert_eq!(run(&["profile"]).code, 2);
}
