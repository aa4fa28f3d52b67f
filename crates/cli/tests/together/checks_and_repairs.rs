//! `verify`, `recover`, `index`, and what is said about files that were cut off.

use crate::support::{Maker, Written, river, run, run_in};
use serde_json::Value as Json;
use thalweg_bp::shape::Shape;
use thalweg_conformance::scratch::Scratch;
use thalweg_types::Value;

fn saved(name: &str, file: &Maker) -> Scratch {
    let folder = Scratch::new();
    file.save(&folder.join(name));
    folder
}

/// Three steps closed, the fourth cut off in the middle.
fn cut_off() -> Maker {
    let mut file = river();
    let whole = file.bytes.len();
    file.group(3, 0, 1, &[Written::reals("T", Shape::global([4, 3], [4, 3], [0, 0]), &[9.0; 12])], &[]);
    file.bytes.truncate(whole + (file.bytes.len() - whole) / 2);
    file
}

#[test]
fn a_file_that_was_cut_off_is_listed_with_what_is_safe_and_what_to_do() {
    let folder = saved("cut off.bp", &cut_off());
    let whole = run_in(saved("cut off.bp", &river()).path(), &["ls", "-l", "cut off.bp"]);
    let ran = run_in(folder.path(), &["ls", "-l", "cut off.bp"]);
    assert_eq!((ran.code, ran.out.as_str()), (0, whole.out.as_str()));
    let lines: Vec<&str> = ran.err.lines().collect();
    assert!(lines[0].starts_with("thalweg: cut off.bp was cut off, or is being written: "), "{}", ran.err);
    assert_eq!(lines[1], "  safe: steps 0 to 2, shown here");
    assert!(lines[2].starts_with("  next: thalweg recover 'cut off.bp'"), "{}", ran.err);

    let ran = run_in(folder.path(), &["verify", "cut off.bp"]);
    assert_eq!(ran.code, 1, "{}{}", ran.out, ran.err);
    assert!(ran.out.starts_with("torn: ") && ran.out.contains("  next: thalweg recover 'cut off.bp'"), "{}", ran.out);

    let before = std::fs::read(folder.join("cut off.bp")).unwrap();
    let ran = run_in(folder.path(), &["recover", "cut off.bp", "--dry-run"]);
    assert_eq!((ran.code, ran.err.as_str()), (0, ""));
    assert!(
        ran.out.contains("would: ") && ran.out.ends_with("can be recovered: cut off.bp with 3 steps\n"),
        "{}",
        ran.out
    );
    assert_eq!(std::fs::read(folder.join("cut off.bp")).unwrap(), before, "a dry run wrote");

    let ran = run_in(folder.path(), &["recover", "cut off.bp"]);
    assert_eq!((ran.code, ran.err.as_str()), (0, ""));
    assert!(ran.out.ends_with("recovered: cut off.bp with 3 steps\n"), "{}", ran.out);
    let ran = run_in(folder.path(), &["ls", "-l", "cut off.bp"]);
    assert_eq!((ran.out.as_str(), ran.err.as_str()), (whole.out.as_str(), ""));
    let ran = run_in(folder.path(), &["verify", "cut off.bp"]);
    assert!(ran.out.contains("sound: cut off.bp: 3 steps"), "{}", ran.out);
    let ran = run_in(folder.path(), &["recover", "cut off.bp"]);
    assert!(ran.out.ends_with("nothing to do: cut off.bp with 3 steps\n"), "{}", ran.out);
}

#[test]
fn steps_that_other_readers_do_not_see_yet_are_said() {
    let mut file = Maker::default();
    file.group(0, 0, 1, &[Written::scalar("n", &Value::I32(1))], &[]);
    file.close(false);
    let step = file.group(1, 0, 1, &[Written::scalar("n", &Value::I32(2))], &[]);
    file.step_record(&step);
    let folder = saved("open.bp", &file);
    let ran = run_in(folder.path(), &["dump", "open.bp", "n"]);
    assert_eq!((ran.code, ran.out.as_str()), (0, "step  n\n   0  1\n   1  2\n"));
    assert!(ran.err.contains("other BP readers don't see its last 1 step\n  safe: steps 0 to 1, shown here\n  next: thalweg recover open.bp"), "{}", ran.err);
}

#[test]
fn a_file_whose_index_is_lost_says_how_to_go_on() {
    let mut file = river();
    let whole = file.bytes.len();
    // The index, its extension section included, is behind the last process group.
    let at = file.bytes.windows(8).rposition(|w| w == b"TWEXTSEC").unwrap();
    file.bytes.truncate(at + (whole - at) / 3);
    let folder = saved("lost.bp", &file);
    let ran = run_in(folder.path(), &["ls", "lost.bp"]);
    assert!(ran.err.contains("thalweg recover"), "{} {}{}", ran.code, ran.out, ran.err);
    let ran = run_in(folder.path(), &["recover", "lost.bp"]);
    assert_eq!(ran.code, 0, "{}{}", ran.out, ran.err);
    assert!(ran.out.ends_with("recovered: lost.bp with 3 steps\n"), "{}", ran.out);
    let whole = run_in(saved("lost.bp", &river()).path(), &["ls", "-la", "lost.bp"]);
    assert_eq!(run_in(folder.path(), &["ls", "-la", "lost.bp"]).out, whole.out);
}

#[test]
fn a_changed_byte_is_found() {
    let mut file = river();
    let at = file.bytes.windows(8).position(|w| w == 0.25f64.to_ne_bytes()).unwrap();
    file.bytes[at + 3] ^= 4;
    let folder = saved("changed.bp", &file);
    let ran = run_in(folder.path(), &["verify", "changed.bp"]);
    assert_eq!(ran.code, 1, "{}{}", ran.out, ran.err);
    assert!(ran.out.contains("checksum: ") && ran.out.contains("\"T\""), "{}", ran.out);
    let ran = run_in(folder.path(), &["verify", "changed.bp", "--json"]);
    let json: Json = serde_json::from_str(&ran.out).unwrap();
    assert_eq!((ran.code, &json["sound"]), (1, &false.into()));
    assert_eq!(json["findings"][0]["kind"], "checksum");
}

#[test]
fn a_sound_file_is_said_to_be() {
    let folder = saved("river.bp", &river());
    let ran = run_in(folder.path(), &["verify", "river.bp"]);
    assert_eq!((ran.code, ran.err.as_str()), (0, ""), "{}", ran.out);
    assert!(ran.out.starts_with("sound: river.bp: 3 steps, 6 process groups, "), "{}", ran.out);
    let ran = run(&["verify", "adios2-blocks.bp"]);
    assert_eq!(ran.code, 0, "{}{}", ran.out, ran.err);
    assert!(ran.out.contains("not checked: "), "{}", ran.out);
}

#[test]
fn an_index_alone_is_listed_and_searched_like_the_file() {
    let folder = saved("river.bp", &river());
    let ran = run_in(folder.path(), &["index", "river.bp", "-o", "small.index"]);
    assert_eq!((ran.code, ran.err.as_str()), (0, ""));
    for command in [&["ls", "-la"][..], &["find", "max(T) > 1.55 and label != 'x'"]] {
        let of = |file: &str| {
            let mut arguments = command.to_vec();
            arguments.insert(1, file);
            run_in(folder.path(), &arguments)
        };
        let (index, whole) = (of("small.index"), of("river.bp"));
        assert_eq!((index.code, index.out, index.err), (0, whole.out, whole.err));
    }
    // Through a link, too, the data is not overwritten by its index.
    std::os::unix::fs::symlink("river.bp", folder.join("link.bp")).unwrap();
    let before = std::fs::read(folder.join("river.bp")).unwrap();
    let ran = run_in(folder.path(), &["index", "river.bp", "-o", "link.bp"]);
    assert_eq!(ran.code, 2, "{}", ran.err);
    assert_eq!(std::fs::read(folder.join("river.bp")).unwrap(), before);
}

#[test]
fn damage_never_makes_a_command_panic() {
    let whole = river();
    let folder = Scratch::new();
    let commands: [&[&str]; 5] = [
        &["ls", "-lav", "d.bp"],
        &["dump", "d.bp", "T", "piece", "label"],
        &["find", "d.bp", "T > 1 or label == 'x'", "--blocks"],
        &["verify", "d.bp"],
        &["recover", "--dry-run", "d.bp"],
    ];
    let mut seed = 12345u64;
    for i in 0..120 {
        let mut bytes = whole.bytes.clone();
        seed = seed.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        let at = (seed >> 20) as usize % bytes.len();
        if i % 3 == 0 {
            bytes.truncate(at);
        } else {
            bytes[at] ^= 1 << (seed % 8);
        }
        std::fs::write(folder.join("d.bp"), &bytes).unwrap();
        let ran = run_in(folder.path(), commands[i % 5]);
        assert!((0..=3).contains(&ran.code), "{:?} of damage {i}: {} {}", commands[i % 5], ran.code, ran.err);
    }
}
