//! `dump --json` against what the writer of each foreign fixture says it wrote.

use crate::support::{fixtures, printed, run};
use serde_json::Value as Json;

/// Whether a printed number is the one of the manifest, of this type.
fn same(printed: &Json, said: &Json, element: &str) -> bool {
    match (printed, said) {
        (Json::Array(a), Json::Array(b)) => a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same(a, b, element)),
        (Json::Number(a), Json::Number(b)) => match element {
            "real" | "complex" => a.as_f64().map(|v| v as f32) == b.as_f64().map(|v| v as f32),
            "double" | "double complex" | "long double" => a.as_f64() == b.as_f64(),
            _ => a.to_string() == b.to_string(),
        },
        (a, b) => a == b,
    }
}

#[test]
fn every_value_of_every_fixture_is_printed_as_it_was_written() {
    let mut checked = 0;
    let mut manifests: Vec<_> = std::fs::read_dir(fixtures()).unwrap().map(|e| e.unwrap().path()).collect();
    manifests.retain(|p| p.extension().is_some_and(|e| e == "json"));
    manifests.sort();
    for path in manifests {
        let manifest: Json = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
        let file = manifest["file"].as_str().unwrap();
        for (name, variable) in manifest["variables"].as_object().unwrap() {
            let element = variable["type"].as_str().unwrap();
            let ran = run(&["dump", file, name, "--json"]);
            assert_eq!(ran.code, 0, "{file} {name}: {}", ran.err);
            let said = variable["blocks"].as_array().unwrap();
            let document: Json = serde_json::from_str(&ran.out).unwrap();
            let parts = document["variables"][0]["parts"].as_array().unwrap();
            assert_eq!(document["variables"][0]["type"], element, "{file} {name}");
            for part in parts {
                let of_step = said.iter().filter(|b| b["step"].as_u64() == part["step"].as_u64());
                if let Some(value) = part.get("value") {
                    let first = of_step.clone().next().unwrap();
                    assert!(same(value, &first["value"], element), "{file} {name}: {value}, not {}", first["value"]);
                    checked += 1;
                } else if part.get("block").is_some() {
                    let block = of_step.clone().nth(part["block"].as_u64().unwrap() as usize).unwrap();
                    assert!(same(&part["values"], &block["values"], element), "{file} {name}: {part}, not {block}");
                    checked += 1;
                } else {
                    // The blocks of a global array, put where they belong.
                    let shape: Vec<u64> =
                        part["shape"].as_array().unwrap().iter().map(|n| n.as_u64().unwrap()).collect();
                    let values = part["values"].as_array().unwrap();
                    for block in of_step {
                        let list = |key: &str| -> Vec<u64> {
                            block[key].as_array().map_or(vec![], |l| l.iter().map(|n| n.as_u64().unwrap()).collect())
                        };
                        let (offset, count) = (list("offset"), list("count"));
                        if block.get("values").is_none() {
                            continue;
                        }
                        for (i, value) in block["values"].as_array().unwrap().iter().enumerate() {
                            let (mut rest, mut at, mut stride) = (i as u64, 0, 1);
                            for d in (0..count.len()).rev() {
                                at += (offset[d] + rest % count[d]) * stride;
                                rest /= count[d];
                                stride *= shape[d];
                            }
                            assert!(
                                same(&values[at as usize], value, element),
                                "{file} {name} step {}: element {at} is {}, not {value}",
                                part["step"],
                                values[at as usize]
                            );
                            checked += 1;
                        }
                    }
                }
            }
            let steps: Vec<u64> = parts.iter().map(|p| p["step"].as_u64().unwrap()).collect();
            for block in said {
                assert!(
                    steps.contains(&block["step"].as_u64().unwrap()),
                    "{file} {name}: step {} is missing",
                    block["step"]
                );
            }
        }
    }
    assert!(checked > 5000, "only {checked} values were compared");
}

#[test]
fn every_fixture_lists_its_variables_with_their_types() {
    for entry in std::fs::read_dir(fixtures()).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|e| e != "json") {
            continue;
        }
        let manifest: Json = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
        let file = manifest["file"].as_str().unwrap();
        let listed: Json = serde_json::from_str(&printed(&["ls", "-lav", "--json", file])).unwrap();
        assert_eq!(listed["steps"].as_u64(), manifest["steps"].as_u64(), "{file}");
        assert_eq!(listed["byte_order"], manifest["byte_order"], "{file}");
        for (name, said) in manifest["variables"].as_object().unwrap() {
            let found = listed["variables"].as_array().unwrap().iter().find(|v| v["name"] == *name);
            let found = found.unwrap_or_else(|| panic!("{file}: {name} is not listed"));
            assert_eq!(found["type"], said["type"], "{file} {name}");
            assert_eq!(found["blocks"], said["blocks"].as_array().unwrap().len(), "{file} {name}");
        }
        for name in manifest["attributes"].as_object().unwrap().keys() {
            assert!(listed["attributes"].as_array().unwrap().iter().any(|a| a["name"] == *name), "{file}: {name}");
        }
    }
}
