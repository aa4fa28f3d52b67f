//! The commands that the guide shows do what it says.

use crate::support::{Maker, Written, run_in};
use thalweg_bp::shape::Shape;
use thalweg_conformance::scratch::Scratch;
use thalweg_types::Value;

/// The file of the guide, with its first two steps alone.
fn folder() -> Scratch {
    let folder = Scratch::new();
    let mut file = Maker::default();
    for step in 0..2u32 {
        let v: Vec<f64> = [0.25, 0.0625, 0.125].into_iter().cycle().take(64 * 64 * 64).collect();
        let shape = || Shape::global([64, 64, 64], [64, 64, 64], [0, 0, 0]);
        let blocks = [
            Written::reals("u", shape(), &v),
            Written::reals("v", shape(), &v),
            Written::scalar("time", &Value::F64(50.0 * f64::from(step))),
            Written::scalar("nx", &Value::I32(64)),
        ];
        file.group(step, 0, 1, &blocks, &[]);
    }
    file.close(true);
    file.save(&folder.join("run.bp"));
    folder
}

/// Commands with these names, each with what the page shows below it.
fn shown(names: &[&str]) -> Vec<(Vec<String>, String)> {
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/guide/command-line.md");
    let text = std::fs::read_to_string(page).unwrap();
    let mut all: Vec<(Vec<String>, String)> = Vec::new();
    for block in text.split("```").skip(1).step_by(2) {
        for line in block.lines().skip(1) {
            match line.strip_prefix("$ thalweg ") {
                // Arguments have blanks only between quotes.
                Some(command) => {
                    let parts = command.split('\'').enumerate();
                    let words = parts.flat_map(|(number, part)| match number % 2 {
                        0 => part.split_whitespace().map(str::to_string).collect::<Vec<_>>(),
                        _ => vec![part.to_string()],
                    });
                    all.push((words.collect(), String::new()));
                }
                None => {
                    if let Some((_, below)) = all.last_mut() {
                        *below += &format!("{line}\n");
                    }
                }
            }
        }
    }
    all.retain(|(words, _)| words.first().is_some_and(|word| names.contains(&word.as_str())));
    all
}

#[test]
fn commands_that_show_values_run_and_print_what_the_guide_prints() {
    let folder = folder();
    let all = shown(&["ls", "dump", "plot", "watch", "find"]);
    assert!(all.len() >= 8, "{all:?}");
    let mut compared = 0;
    for (words, below) in &all {
        let arguments: Vec<&str> = words.iter().map(String::as_str).collect();
        let ran = run_in(folder.path(), &arguments);
        // `find` looks for a value that this run has not reached.
        let wanted = if words[0] == "find" { 1 } else { 0 };
        assert_eq!(ran.code, wanted, "{words:?}: {}", ran.err);
        if words[0] == "dump" && !below.contains("step 19") {
            assert_eq!(ran.out.trim_end(), below.trim_end(), "{words:?}");
            compared += 1;
        }
    }
    assert_eq!(compared, 2);
}
