//! What `ls` prints.

use crate::support::{printed, river, run, run_in};
use thalweg_conformance::scratch::Scratch;

fn listed(arguments: &[&str]) -> String {
    let folder = Scratch::new();
    river().save(&folder.join("river.bp"));
    let ran = run_in(folder.path(), &[&["ls", "river.bp"], arguments].concat());
    assert_eq!((ran.code, ran.err.as_str()), (0, ""), "{arguments:?}");
    ran.out
}

#[test]
fn a_listing_of_our_own_file_is_as_reviewed() {
    insta::assert_snapshot!("ls", listed(&[]));
    insta::assert_snapshot!("ls_long_with_attributes", listed(&["-la"]));
    insta::assert_snapshot!("ls_verbose", listed(&["-lv"]));
    insta::assert_snapshot!("ls_json", listed(&["-lav", "--json"]));
}

#[test]
fn a_listing_of_foreign_files_is_as_reviewed() {
    insta::assert_snapshot!("ls_adios2_blocks", printed(&["ls", "-lav", "adios2-blocks.bp"]));
    insta::assert_snapshot!("ls_adios1_xml", printed(&["ls", "-la", "adios1-xml.bp", "*data*", "temperature"]));
    insta::assert_snapshot!("ls_complex", printed(&["ls", "-l", "adios1-complex-full.bp"]));
    insta::assert_snapshot!("ls_no_statistics", printed(&["ls", "-l", "encoded-no-stats.bp"]));
}

#[test]
fn steps_of_a_file_whose_time_does_not_begin_with_1_are_all_listed() {
    let json: serde_json::Value =
        serde_json::from_str(&printed(&["ls", "--json", "adios1-second-file.bp", "x"])).unwrap();
    let x = &json["variables"][0];
    assert_eq!(
        (&json["steps"], &x["steps"], &x["first_step"], &x["last_step"]),
        (&3.into(), &3.into(), &0.into(), &2.into())
    );
    let table = printed(&["ls", "adios1-second-file.bp", "x"]);
    assert!(!table.contains(" of 3"), "{table}");
}

#[test]
fn json_is_one_document_with_what_the_listing_says() {
    let json: serde_json::Value = serde_json::from_str(&listed(&["-lav", "--json"])).unwrap();
    assert_eq!((&json["steps"], &json["finished"]), (&3.into(), &true.into()));
    let variables = json["variables"].as_array().unwrap();
    let of = |name: &str| variables.iter().find(|v| v["name"] == name).unwrap();
    assert_eq!(of("T")["type"], "double");
    assert_eq!(of("T")["finite"], 30);
    assert_eq!(of("T")["max"], 2.6);
    assert_eq!(of("T")["each_block"].as_array().unwrap().len(), 6);
    assert_eq!(of("T")["each_block"][3]["rank"], 1);
    assert_eq!(of("T")["each_block"][3]["offset"], serde_json::json!([2, 0]));
    assert_eq!(of("sometimes")["each_block"][0]["value"], u64::MAX);
    assert_eq!(of("c")["magnitude"]["min"], 4.0);
    assert_eq!(json["attributes"][0]["value"], "K");
    assert_eq!(json["attributes"][1]["value"], serde_json::json!(["a, b", "c\u{1b}[31m"]));
}

#[test]
fn patterns_choose_names() {
    let names = |patterns: &[&str]| -> Vec<String> {
        let out = listed(patterns);
        out.lines()
            .skip(1)
            .map(|l| l.split("  ").map(str::trim).filter(|c| !c.is_empty()).nth(1).unwrap().into())
            .collect()
    };
    assert_eq!(names(&["T"]), ["T"]);
    assert_eq!(names(&["t*", "[c-e]*"]), ["c", "time", "exact"]);
    assert_eq!(names(&["/T"]), ["T"]);
    assert_eq!(names(&["-e", "^.a"]), ["bare", "label"]);
    assert_eq!(names(&["-e", "im"]), ["time", "sometimes"]);
    let ran = run(&["ls", "adios1-xml.bp", "nothing*"]);
    assert_eq!((ran.code, ran.out.as_str(), ran.err.as_str()), (1, "", "thalweg: no variable matches\n"));
}

#[test]
fn nothing_in_a_file_steers_the_terminal() {
    assert!(!listed(&["-lav"]).contains('\u{1b}'));
}
