//! A writer that forks and is killed: other processes detect its death although its child lives on.

use std::io::{BufRead, BufReader, IoSlice, Read, Write};
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::sync::Arc;
use thalweg_conformance::scratch::Scratch;
use thalweg_layout::container::tools::{Accept, Trouble};
use thalweg_layout::small_file::Settings;
use thalweg_layout::{Container, Layout, OpenWrite, SmallFile, WriteObject, WriterId};
use thalweg_store::{Posix, Store};
use thalweg_types::ErrorKind;

const WRITER: &str = "THALWEG_TEST_WRITER_IN";
/// Names of files in the container: one behind its stamp, one with a folder.
const FILES: [&str; 2] = ["small", "large"];

fn store(folder: &str) -> Arc<dyn Store> {
    let _ = std::fs::create_dir_all(folder);
    Arc::new(Posix::at(folder).unwrap())
}

fn container(folder: &str) -> Container {
    Container::new(vec![store(&format!("{folder}/container"))], Default::default()).unwrap()
}

fn small_file(folder: &str) -> SmallFile {
    SmallFile::new(store(&format!("{folder}/small_file")), Settings::default()).unwrap()
}

/// Not a test of its own: the writer that is killed, and its child, which lives until its input ends.
#[test]
fn the_writer_that_forks() {
    let Ok(folder) = std::env::var(WRITER) else { return };
    let (container, small) = (container(&folder), small_file(&folder));
    let open: Vec<Box<dyn WriteObject>> = FILES
        .iter()
        .map(|name| {
            let file = container.open_write(name, OpenWrite::New, WriterId(0)).unwrap();
            let count = if *name == "large" { 300_000 } else { 100 };
            file.write_at(50, &[IoSlice::new(&vec![1; count])]).unwrap();
            file.sync().unwrap();
            file.write_at(1_000_000, &[IoSlice::new(b"not synced")]).unwrap();
            file
        })
        .collect();
    let file = small.open_write("file", OpenWrite::New, WriterId(0)).unwrap();
    file.write_at(0, &[IoSlice::new(b"small")]).unwrap();
    file.close().unwrap();
    let mut child = Command::new("true");
    #[allow(unsafe_code)]
    // SAFETY: what the child does there it does with calls of the system alone.
    unsafe {
        child.pre_exec(|| {
            rustix::io::write(std::io::stdout(), b"forked\n")?;
            while rustix::io::read(std::io::stdin(), &mut [0; 16][..])? > 0 {}
            Ok(())
        })
    };
    let _ = child.spawn();
    drop(open);
}

#[test]
fn the_death_of_a_writer_is_seen_while_a_child_of_it_lives_on() {
    let scratch = Scratch::new();
    let folder = scratch.path().to_str().unwrap();
    let mut writer = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "the_writer_that_forks", "--nocapture", "--test-threads=1"])
        .env(WRITER, folder)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut input = writer.stdin.take().unwrap();
    let mut told = BufReader::new(writer.stdout.take().unwrap());
    let mut line = String::new();
    while !line.contains("forked") {
        line.clear();
        assert!(told.read_line(&mut line).unwrap() > 0, "the writer ended before it forked");
    }
    let died = |name: &str| container(folder).check(name).unwrap().findings.iter().any(|f| f.trouble == Trouble::Died);
    assert_eq!(FILES.map(died), [false; 2], "the writer lives");
    assert_eq!(small_file(folder).check("", true).unwrap().live, 1, "the writer lives");
    writer.kill().unwrap();
    writer.wait().unwrap();
    assert_eq!(FILES.map(died), [true; 2], "its child is no writer");
    assert_eq!(small_file(folder).check("", true).unwrap().live, 0, "its child is no writer");
    for name in FILES {
        container(folder).repair(name, Accept::OPEN).unwrap();
        assert!(!died(name), "{name} is repaired");
        let mut byte = [0; 1];
        let file = container(folder).open_read(name).unwrap();
        assert_eq!((file.read_at(60, &mut byte).unwrap(), byte), (1, [1]), "{name}");
        let hole = file.read_at(600_000, &mut byte);
        assert!(hole.is_ok() || hole.is_err_and(|e| e.kind() == ErrorKind::Torn), "{name}");
    }
    // The child was there all along: it holds the other end of the pipes, and ends with its input.
    input.write_all(b"x").unwrap();
    drop(input);
    let mut rest = String::new();
    told.read_to_string(&mut rest).unwrap();
}
