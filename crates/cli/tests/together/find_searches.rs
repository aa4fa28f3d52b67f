//! What `find` finds, and that it can't miss anything.

use crate::support::{Maker, Ran, Written, printed, river, run, run_in};
use serde_json::Value as Json;
use thalweg_bp::shape::Shape;
use thalweg_bp::statistics::Level;
use thalweg_conformance::scratch::Scratch;
use thalweg_types::{ElementType, Value};

fn find(arguments: &[&str]) -> Ran {
    let folder = Scratch::new();
    river().save(&folder.join("river.bp"));
    run_in(folder.path(), &[&["find", "river.bp"], arguments].concat())
}

#[test]
fn steps_and_blocks_are_as_reviewed() {
    insta::assert_snapshot!("find_blocks", find(&["max(T) > 1.55", "--blocks"]).out);
    insta::assert_snapshot!("find_first", find(&["T == 2 or time == 0.5", "--first"]).out);
    insta::assert_snapshot!("find_json", find(&["T == 2.05", "--blocks", "--json"]).out);
    insta::assert_snapshot!("find_nothing", find(&["max(T) > 3"]).out);
}

/// Steps found, with whether they are certain.
fn steps(expression: &str) -> Vec<(u64, bool)> {
    let ran = find(&[expression, "--json"]);
    assert_eq!(ran.err, "", "{expression}");
    let json: Json = serde_json::from_str(&ran.out).unwrap();
    assert_eq!(json["read"], "characteristics");
    let found: Vec<(u64, bool)> = json["found"]
        .as_array()
        .unwrap()
        .iter()
        .map(|f| (f["step"].as_u64().unwrap(), f["answer"] == "certain"))
        .collect();
    assert_eq!(ran.code, if found.is_empty() { 1 } else { 0 }, "{expression}");
    found
}

#[test]
fn every_kind_of_variable_can_be_asked() {
    for (expression, expected) in [
        ("max(T) > 1.55", &[(1, true), (2, true)][..]),
        ("min(T) == -0.125", &[(0, true), (1, true), (2, true)]),
        ("count(T) == 10", &[(0, true), (1, true), (2, true)]),
        ("0.7 < mean(T) < 0.8", &[(1, true)]),
        ("std(T) < 0.3", &[(0, true)]),
        ("max(c) > 7", &[(2, true)]),
        ("bare > 100", &[(0, false), (1, false), (2, false)]),
        ("bare > 100 and step = 1", &[(1, false)]),
        ("sum(piece) < 0", &[(0, true), (1, true)]),
        ("count(piece) = 3", &[(2, true)]),
        ("time >= 0.5", &[(1, true), (2, true)]),
        ("label == 'step, \"1\"'", &[(1, true)]),
        ("exact == 1 and step < 1", &[(0, true)]),
        ("sometimes > 0", &[(0, true), (2, true)]),
        ("sometimes == 18446744073709551613", &[(2, true)]),
        ("not sometimes > 0", &[(1, true)]),
        ("attribute(T/units) == \"K\" and step != 1", &[(0, true), (2, true)]),
        ("attribute(spacing) > 0.2 and step == 0", &[(0, true)]),
        ("attribute(names) == 'a, b' and step == 0", &[(0, true)]),
        ("step > 7", &[]),
    ] {
        assert_eq!(steps(expression), expected, "{expression}");
    }
}

#[test]
fn what_makes_no_sense_is_said() {
    for (expression, code, what) in [
        ("max(v) > 1", 1, "no variable 'v'"),
        ("max(tim) > 1", 1, "no variable 'tim'; the nearest is 'time'"),
        ("attribute(unit) == 'K'", 1, "no attribute 'unit'"),
        ("label > 3", 1, "variable 'label' is text, 3 a number"),
        ("max(label) > 3", 1, "'label' is text, it has no minimum"),
        ("time == 'x'", 1, "\"x\" is text, variable 'time' a number"),
        ("max(T) >", 2, "expected a number, a name or a \"text\"\n  max(T) >\n          ^"),
    ] {
        let ran = find(&[expression]);
        assert_eq!((ran.code, ran.out.as_str()), (code, ""), "{expression}");
        assert!(ran.err.contains(what), "{expression}: {}", ran.err);
    }
}

/// Compares what `find` says with the values themselves, for many expressions over every fixture.
#[test]
fn no_step_that_fits_is_ever_ruled_out() {
    let mut compared = 0;
    for file in [
        "adios1-types.bp",
        "adios1-xml.bp",
        "adios2-types.bp",
        "adios2-blocks.bp",
        "adios1-ranks.bp",
        "encoded-no-stats.bp",
        "encoded-old-minmax.bp",
        "encoded-big-01.bp",
    ] {
        let listed: Json = serde_json::from_str(&printed(&["ls", "--json", file])).unwrap();
        for variable in listed["variables"].as_array().unwrap() {
            let (name, element) = (variable["name"].as_str().unwrap(), variable["type"].as_str().unwrap());
            if element.contains("complex") || element == "string" || name.contains("__adios__") {
                continue;
            }
            let dumped: Json = serde_json::from_str(&printed(&["dump", file, name, "--json"])).unwrap();
            let parts = dumped["variables"][0]["parts"].as_array().unwrap();
            for part in parts {
                let values: Vec<f64> = match part["values"].as_array() {
                    Some(values) => values.iter().filter_map(Json::as_f64).collect(),
                    None => part["value"].as_f64().into_iter().collect(),
                };
                let Some(some) = values.get(values.len() / 2).filter(|v| v.abs() < 1e15 && v.abs() > 1e-300) else {
                    continue;
                };
                let step = part["step"].as_u64().unwrap();
                let mean = values.iter().sum::<f64>() / values.len() as f64;
                for expression in [
                    format!("any(\"{name}\") == {some} and step == {step}"),
                    format!("any(\"{name}\") >= {some} and step == {step}"),
                    format!("max(\"{name}\") >= {some} and min(\"{name}\") <= {some} and step == {step}"),
                    format!("count(\"{name}\") >= 1 and std(\"{name}\") >= 0 and step == {step}"),
                    format!("min(\"{name}\") <= {mean} and step == {step}"),
                ] {
                    let ran = run(&["find", file, &expression]);
                    assert_eq!(ran.code, 0, "{file}: {expression}: {}{}", ran.out, ran.err);
                    compared += 1;
                }
            }
        }
    }
    assert!(compared > 300, "only {compared}");
}

#[test]
fn overflowed_sums_of_other_writers_rule_nothing_out() {
    // ADIOS 1.13 recorded a sum of squares for these unsigned short numbers that no such numbers have.
    let ran = run(&["find", "adios1-xml.bp", "std(/data/u16) > 1000"]);
    assert!(ran.out.contains("step 0  possible"), "{}", ran.out);
}

#[test]
fn a_hundred_thousand_steps_are_listed_and_searched_in_one_pass() {
    const STEPS: u32 = 100_000;
    let mut file = Maker::default();
    for step in 0..STEPS {
        let wave = f64::from(step) / f64::from(STEPS);
        let blocks = [
            Written::scalar("time", &Value::F64(wave)),
            Written::reals("v", Shape::global([2], [2], [0]), &[wave, wave / 2.0]).level(Level::Full),
            Written::array("n", Shape::local([u64::from(step % 3)]), &vec![Value::I32(7); step as usize % 3])
                .of(ElementType::I32),
        ];
        file.group(step, 0, 1, &blocks, &[]);
    }
    file.close(true);
    let folder = Scratch::new();
    file.save(&folder.join("long.bp"));
    let started = std::time::Instant::now();
    let ran = run_in(folder.path(), &["find", "long.bp", "max(v) > 0.5 and time > 0.25", "--first", "--blocks"]);
    assert_eq!((ran.code, ran.err.as_str()), (0, ""));
    assert!(ran.out.starts_with("step 50001  certain\n    v  block 0  rank 0  [0:2]  certain\n"), "{}", ran.out);
    let ran = run_in(folder.path(), &["find", "long.bp", "v > 0.5", "--blocks"]);
    assert_eq!(ran.out.lines().count(), 2 * 49_999 + 1);
    let ran = run_in(folder.path(), &["ls", "-l", "long.bp"]);
    assert!(ran.out.contains("100000  1 x [0..2]"), "{}", ran.out);
    let ran = run_in(folder.path(), &["ls", "-lv", "long.bp"]);
    assert_eq!(ran.out.lines().count(), 8 + 3 * 100_001);
    let ran = run_in(folder.path(), &["dump", "long.bp", "time", "--csv"]);
    assert_eq!(ran.out.lines().count(), 100_001);
    // One pass takes a few seconds even here; passing over all steps for each of them would take hours.
    assert!(started.elapsed().as_secs() < 60, "took {:?}", started.elapsed());
}
