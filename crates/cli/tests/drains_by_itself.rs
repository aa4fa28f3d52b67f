//! A mount over a burst buffer drains by itself: a program writes and ends, and its bytes reach the slow store; one drain at
//! a time; a slow store that fails is asked again, and told of; a drain that is killed loses nothing.
//!
//! The programs are this test program again, told by an environment variable what to write.

mod support;

use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::time::{Duration, Instant};
use support::{command, run};
use thalweg_conformance::scratch::Scratch;
use thalweg_io::mounts;
use thalweg_layout::{Layout, OpenWrite, WriterId};

const WHAT: &str = "DRAIN_TEST_WRITE";
const PREFIX: &str = "/drained/by/itself";
/// For hangs alone.
const LONG: Duration = Duration::from_secs(120);

struct Room {
    scratch: Scratch,
    url: String,
}

impl Room {
    fn new(keys: &str) -> Room {
        let scratch = Scratch::new();
        for folder in ["fast", "slow"] {
            std::fs::create_dir(scratch.join(folder)).unwrap();
        }
        let url = format!("tiered:posix:{}=>posix:{}", scratch.join("fast").display(), scratch.join("slow").display());
        let table = format!("[[mount]]\npath = \"{PREFIX}\"\nlayout = \"direct\"\nstore = \"{url}\"\n{keys}\n");
        std::fs::write(scratch.join("mounts.toml"), table).unwrap();
        Room { scratch, url }
    }

    /// A program that writes objects of these names, each of 100,000 bytes.
    fn program(&self, names: &str) -> Child {
        Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "program", "--nocapture"])
            .env(WHAT, names)
            .env("THALWEG_MOUNTS", self.scratch.join("mounts.toml"))
            .env("THALWEG_COMMAND", command().get_program())
            .spawn()
            .unwrap()
    }

    fn write(&self, names: &str) {
        assert!(self.program(names).wait().unwrap().success());
    }

    fn slow(&self, name: &str) -> PathBuf {
        self.scratch.join("slow").join(name)
    }

    /// Waits until an object has left the fast store for the slow one.
    fn moved(&self, name: &str) {
        let start = Instant::now();
        while self.scratch.join("fast").join(name).exists() {
            assert!(start.elapsed() < LONG, "{name} was not moved: {}", self.status());
            std::thread::sleep(Duration::from_millis(20));
        }
        assert_eq!(std::fs::read(self.slow(name)).unwrap(), content(name));
    }

    fn status(&self) -> String {
        let told = run(&["drain", &self.url, "--status"]);
        assert_eq!(told.code, 0, "{}", told.err);
        told.out
    }

    /// Processes that drain this burst buffer.
    fn drains(&self) -> Vec<i32> {
        let ours = |path: &Path| {
            let line = std::fs::read(path.join("cmdline")).ok()?;
            let line = String::from_utf8_lossy(&line).into_owned();
            let yes = line.contains(&self.url) && line.contains("--behind") && line.contains("--idle");
            path.file_name()?.to_str()?.parse().ok().filter(|_| yes)
        };
        std::fs::read_dir("/proc").unwrap().filter_map(|entry| ours(&entry.ok()?.path())).collect()
    }

    fn kill_drains(&self) {
        for process in self.drains() {
            let process = rustix::process::Pid::from_raw(process).unwrap();
            let _ = rustix::process::kill_process(process, rustix::process::Signal::KILL);
        }
        let start = Instant::now();
        while !self.status().contains("none at work") {
            assert!(start.elapsed() < LONG);
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        self.kill_drains();
    }
}

fn content(name: &str) -> Vec<u8> {
    name.bytes().cycle().take(100_000).collect()
}

/// No test but the program that others start.
#[test]
fn program() {
    let Ok(names) = std::env::var(WHAT) else { return };
    let layout = mounts::of_process().unwrap();
    for name in names.split(' ') {
        let path = format!("{PREFIX}/{name}");
        let object = layout.open_write(&path, OpenWrite::Any, WriterId(0)).unwrap();
        object.write_at(0, &[std::io::IoSlice::new(&content(name))]).unwrap();
        object.close().unwrap();
    }
}

#[test]
fn what_a_program_wrote_reaches_the_slow_store_with_nothing_typed() {
    let room = Room::new("");
    room.write("a b");
    room.moved("a");
    room.moved("b");
    // One that was started besides goes at once.
    let start = Instant::now();
    while room.drains().len() > 1 {
        assert!(start.elapsed() < LONG, "several processes drain");
        std::thread::sleep(Duration::from_millis(20));
    }
    assert_eq!(room.drains().len(), 1);
    let told = room.status();
    assert!(told.contains("drain               at work") && told.contains("fast/.thalweg-drain/log"), "{told}");
    assert!(!told.contains("last failure"), "{told}");
    // It goes by itself, too.
    let start = Instant::now();
    while !room.drains().is_empty() {
        assert!(start.elapsed() < LONG, "the drain stays without end");
        std::thread::sleep(Duration::from_millis(50));
    }
    room.write("c");
    room.moved("c");
}

#[test]
fn programs_that_end_at_once_start_one_drain() {
    let room = Room::new("drain = \"after-close\"");
    let programs: Vec<Child> = (0..6).map(|n| room.program(&format!("x{n} y{n}"))).collect();
    for mut program in programs {
        assert!(program.wait().unwrap().success());
    }
    for n in 0..6 {
        room.moved(&format!("x{n}"));
        room.moved(&format!("y{n}"));
    }
    // Others that were on their way found it at work.
    let start = Instant::now();
    while room.drains().len() != 1 {
        assert!(start.elapsed() < LONG, "{:?} drain", room.drains());
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn a_slow_store_that_fails_is_told_and_asked_again() {
    let room = Room::new("");
    // A folder where the object shall go, made behind the burst buffer's back.
    std::fs::create_dir_all(room.slow("a/in the way")).unwrap();
    std::fs::create_dir(room.scratch.join("fast/.thalweg-drain")).unwrap();
    std::fs::write(room.scratch.join("fast/a"), content("a")).unwrap();
    room.write("b");
    room.moved("b");
    let start = Instant::now();
    while !room.status().contains("last failure") {
        assert!(start.elapsed() < LONG, "{}", room.status());
        std::thread::sleep(Duration::from_millis(50));
    }
    let told = room.status();
    assert!(told.contains("a stays in the fast store"), "{told}");
    assert_eq!(std::fs::read(room.scratch.join("fast/a")).unwrap(), content("a"), "nothing is lost");
    std::fs::remove_dir_all(room.slow("a")).unwrap();
    room.moved("a");
    // The drain says so after it has moved the object.
    let start = Instant::now();
    while room.status().contains("last failure") {
        assert!(start.elapsed() < LONG, "{}", room.status());
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn a_drain_that_is_killed_loses_nothing_and_the_next_close_starts_another() {
    let room = Room::new("");
    for life in 0..5 {
        let mut program = room.program(&format!("a{life} b{life} c{life}"));
        let start = Instant::now();
        while room.drains().is_empty() && start.elapsed() < LONG {
            std::thread::sleep(Duration::from_millis(1));
        }
        std::thread::sleep(Duration::from_millis(7 * life));
        for process in room.drains() {
            let process = rustix::process::Pid::from_raw(process).unwrap();
            let _ = rustix::process::kill_process(process, rustix::process::Signal::KILL);
        }
        assert!(program.wait().unwrap().success());
    }
    room.kill_drains();
    room.write("last");
    room.moved("last");
    for life in 0..5 {
        for name in ["a", "b", "c"] {
            room.moved(&format!("{name}{life}"));
        }
    }
}

#[test]
fn a_mount_that_says_manual_is_drained_by_hand_alone() {
    let room = Room::new("drain = \"manual\"");
    room.write("a");
    assert!(room.status().contains("none at work"));
    assert!(room.drains().is_empty());
    assert_eq!(run(&["drain", &room.url, "--once"]).code, 0);
    room.moved("a");
}
