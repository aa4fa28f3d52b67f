//! Files that are no files are refused at once, and no name steers the terminal it is printed on.

use crate::support::{Maker, Ran, Written, run_bounded};
use thalweg_bp::shape::Shape;
use thalweg_conformance::scratch::Scratch;
use thalweg_layout::{Layout, OpenWrite, WriterId, write_all_at};
use thalweg_types::{AttributeValue, Value};

#[test]
fn pipes_sockets_devices_and_folders_are_refused_at_once_by_every_command() {
    let folder = Scratch::new();
    let pipe = folder.join("pipe");
    assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let _socket = std::os::unix::net::UnixListener::bind(folder.join("socket")).unwrap();
    std::fs::create_dir(folder.join("sub")).unwrap();
    for (name, what) in
        [("pipe", "a named pipe"), ("socket", "a socket"), ("/dev/zero", "a device"), ("sub", "a folder")]
    {
        for command in [
            &["ls"][..],
            &["ls", "-v", "--json"],
            &["dump", "", "v"],
            &["plot", "", "v"],
            &["watch"],
            &["find", "", "v > 1"],
            &["verify"],
            &["recover"],
            &["recover", "--dry-run", "--partial"],
            &["stat"],
            &["index", "", "-o", "out.idx"],
        ] {
            let mut arguments: Vec<&str> = command.iter().map(|a| if a.is_empty() { name } else { *a }).collect();
            if !command.contains(&"") {
                arguments.push(name);
            }
            let ran = run_bounded(folder.path(), &arguments);
            assert_eq!((ran.code, ran.out.as_str()), (3, ""), "{arguments:?}: {}", ran.err);
            assert!(ran.err.contains(&format!("'{name}' is {what}, not a file")), "{arguments:?}: {}", ran.err);
        }
    }
    let ran = run_bounded(folder.path(), &["profile", "pipe"]);
    assert!(ran.code == 3 && ran.err.contains("no profile"), "{} {}", ran.code, ran.err);
}

/// Whether nothing in it moves the cursor, changes colours or the direction of writing.
fn is_plain(text: &str) -> bool {
    !text
        .chars()
        .any(|c| (c.is_control() && c != '\n') || matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}'))
}

fn check(ran: &Ran, what: &[&str]) {
    assert!(is_plain(&ran.out), "{what:?}: {:?}", ran.out);
    assert!(is_plain(&ran.err), "{what:?}: {:?}", ran.err);
}

const NAME: &str = "T\u{1b}c\u{202e}\n\u{9b}2J";
const FILE: &str = "a\u{1b}]0;x\u{7}\u{202e}.bp";

#[test]
fn names_in_files_and_arguments_are_printed_with_escapes_and_kept_exact_for_programs() {
    let folder = Scratch::new();
    let mut file = Maker::default();
    let text = |t: &str| Value::String(t.as_bytes().to_vec());
    let blocks = [Written::reals(NAME, Shape::global([2], [2], [0]), &[1.0, 2.0]), Written::scalar("s", &text(NAME))];
    file.group(0, 0, 1, &blocks, &[(NAME, AttributeValue::One(text(NAME)))]);
    file.close(true);
    file.save(&folder.join(FILE));
    let torn = format!("torn{FILE}");
    std::fs::write(folder.join(&torn), &file.bytes[..file.bytes.len() - 3]).unwrap();
    std::fs::write(folder.join("profile.json"), format!("not a profile {NAME}")).unwrap();
    for arguments in [
        &["ls", FILE][..],
        &["ls", "-l", "-a", FILE],
        &["ls", "-v", FILE],
        &["dump", FILE, NAME],
        &["dump", FILE, "s"],
        &["dump", FILE, "-a"],
        &["dump", FILE, NAME, "-o", "\u{1b}[1m.txt"],
        &["plot", FILE, NAME],
        &["plot", FILE, NAME, "-o", "\u{1b}[1m.svg"],
        &["plot", FILE, "s"],
        &["plot", FILE, "no\u{1b}[31m"],
        &["watch", FILE],
        &["watch", FILE, NAME, "s"],
        &["watch", FILE, "--plot"],
        &["watch", FILE, "no\u{1b}[31m"],
        &["find", FILE, "step >= 0", "--blocks"],
        &["verify", FILE],
        &["stat", FILE],
        &["stat", "--files", FILE],
        &["recover", FILE],
        &["index", FILE, "-o", "\u{1b}[1m.idx"],
        &["dump", FILE, "s[9]"],
        &["dump", FILE, NAME, "--npy", "\u{1b}[1m.npy"],
        &["dump", FILE, "no\u{1b}[31m"],
        &["find", FILE, "no\u{1b}[31m > 1"],
        &["ls", &torn],
        &["verify", &torn],
        &["recover", "--dry-run", &torn],
        &["recover", &torn],
        &["ls", NAME],
        &["verify", NAME],
        &["profile", NAME],
        &["profile", FILE],
        &["profile", "profile.json"],
        &["gen", NAME],
        &["config", "lint", NAME],
        &["config", "lint", FILE],
        &["sim", NAME],
        &["tune", NAME],
        &["drain", NAME],
    ] {
        check(&run_bounded(folder.path(), arguments), arguments);
    }
    let ran = run_bounded(folder.path(), &["ls", "--json", FILE]);
    let listed: serde_json::Value = serde_json::from_str(&ran.out).unwrap();
    assert_eq!(listed["variables"][0]["name"], NAME, "programs get the exact name");
    let ran = run_bounded(folder.path(), &["dump", "--csv", FILE, NAME]);
    assert!(ran.out.starts_with(&format!("step,i0,\"{NAME}\"\n")), "{:?}", ran.out);
}

#[test]
fn names_of_files_under_mounts_are_printed_with_escapes() {
    let folder = Scratch::new();
    let mount = |layout: &str| {
        let store = folder.join(layout);
        std::fs::create_dir(&store).unwrap();
        format!(
            "[[mount]]\npath = \"/nowhere/{layout}\"\nlayout = \"{layout}\"\nstore = \"posix:{}\"\n",
            store.display()
        )
    };
    let text = ["direct", "flat", "container", "small_file"].map(mount).concat();
    let table = folder.join("mounts.toml");
    std::fs::write(&table, text).unwrap();
    let mounts = thalweg_io::mounts::of_files(std::slice::from_ref(&table)).unwrap();
    let run = |arguments: &[&str]| -> Ran {
        let ran =
            crate::support::command().env("THALWEG_MOUNTS", &table).current_dir(folder.path()).args(arguments).output();
        let ran: Ran = ran.unwrap().into();
        check(&ran, arguments);
        // A line of a name's own would pass for one of ours.
        assert!(!ran.out.lines().any(|line| line.starts_with('\u{9b}') || line.starts_with("2J")), "{:?}", ran.out);
        ran
    };
    for layout in ["direct", "flat", "container", "small_file"] {
        let name = format!("/nowhere/{layout}/{NAME}");
        let object = mounts.open_write(&name, OpenWrite::New, WriterId(1)).unwrap();
        write_all_at(&*object, 0, b"bytes").unwrap();
        object.close().unwrap();
        let told = name.replace('\u{1b}', "\\u{1b}").replace('\u{202e}', "\\u{202e}").replace('\n', "\\n");
        let told = told.replace('\u{9b}', "\\u{9b}");
        for command in ["stat", "map", "check", "compact", "repair"] {
            let ran = run(&["layout", command, &name]);
            let said = format!("{}{}", ran.out, ran.err);
            assert!(command == "map" || said.contains(&told), "{layout} {command}: {said}");
            run(&["layout", command, &format!("/nowhere/{layout}")]);
            run(&["layout", command, &format!("{name}x")]);
        }
        run(&["layout", "flatten", &name, &format!("{layout}{NAME}")]);
    }
    run(&["mount", "--foreground", "--path", NAME, NAME]);
}
