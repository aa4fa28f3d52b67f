//! Fifth requirement: the buffer limit is a contract, measured as the memory of the whole process.
//!
//! Each case runs in a child process (the same test again, alone), which writes to plain files and compares its peak memory
//! (`VmHWM`) with what it had before the first write. What is not buffer (names, index, the spill file's 64 KiB) gets
//! one allowance for all cases.

use std::process::Command;
use thalweg_comm::alone::Alone;
use thalweg_io::{Mode, Session, registry};
use thalweg_layout::Direct;
use thalweg_reader::Reader;
use thalweg_store::posix::Posix;
use thalweg_types::{ErrorKind, Selection};

const MIB: u64 = 1 << 20;
/// Buffer in the cases with a size.
const LIMIT: u64 = 8 * MIB;
/// Bytes of one block; a group has 64 of them: eight times the buffer.
const BLOCK: u64 = MIB;
/// Memory of the process for everything that is no buffer, with the pages of the program itself that it comes to.
const ALLOWANCE: u64 = 6 * MIB;

fn document(method: &str, buffer: &str) -> String {
    let group = |name: &str| {
        format!(
            r#"<adios-group name="{name}"><var name="n_{name}" type="integer"/>
               <var name="{name}" type="double" dimensions="n_{name}"/></adios-group>
               <method group="{name}" method="{method}"/>"#
        )
    };
    format!("<adios-config>{}{}{buffer}</adios-config>", group("one"), group("two"))
}

/// A line of `/proc/self/status`, in bytes.
fn status(line: &str) -> u64 {
    let text = std::fs::read_to_string("/proc/self/status").unwrap();
    let rest = text.lines().find_map(|l| l.strip_prefix(line)).unwrap();
    rest.trim_start_matches(':').trim().trim_end_matches("kB").trim().parse::<u64>().unwrap() * 1024
}

fn block(value: f64) -> Vec<f64> {
    vec![value; (BLOCK / 8) as usize]
}

/// Writes 64 blocks of each group, the groups in turns, and returns how much the process grew at most.
fn write(session: &Session, folder: &str, groups: &[&str]) -> u64 {
    let mut memory = block(-1.0);
    let before = status("VmRSS");
    let mut outputs: Vec<_> = groups
        .iter()
        .map(|g| session.open(g, &format!("{folder}/{g}.bp"), Mode::Write, Box::new(Alone::new())).unwrap())
        .collect();
    for (output, group) in outputs.iter_mut().zip(groups) {
        output.write_values(&format!("n_{group}"), &[(BLOCK / 8) as i32]).unwrap();
    }
    for i in 0..64 {
        for (which, output) in outputs.iter_mut().enumerate() {
            memory.fill(f64::from(i) + 100.0 * which as f64);
            output.write_values(groups[which], &memory).unwrap();
        }
    }
    for output in outputs {
        output.close().unwrap();
    }
    status("VmHWM").saturating_sub(before)
}

fn check(folder: &str, groups: &[&str]) {
    for (which, group) in groups.iter().enumerate() {
        let layout = std::sync::Arc::new(Direct::new(std::sync::Arc::new(Posix::plain())).unwrap());
        let reader = Reader::open(layout, &format!("{folder}/{group}.bp")).unwrap();
        for i in 0..64 {
            let read = reader.read_as::<f64>(group, 0, &Selection::Block(i)).unwrap();
            assert_eq!(read, block(i as f64 + 100.0 * which as f64), "{group} block {i}");
        }
    }
}

/// In a child: runs the case that the environment names. Returns whether this is a child.
fn is_child() -> bool {
    let Ok(case) = std::env::var("THALWEG_TEST_CASE") else { return false };
    let folder = std::env::var("THALWEG_TEST_FOLDER").unwrap();
    let (method, case) = case.split_once(' ').unwrap();
    let buffer = match case {
        "zero" => r#"<buffer size-MB="0"/>"#,
        "now" | "later" => &format!(r#"<buffer free-memory-percentage="PERCENT" allocate-time="{case}"/>"#),
        "unlimited" => "",
        _ => r#"<buffer size-MB="8"/>"#,
    };
    // So much of the free memory that about 8 MiB come out.
    let percent = 100.0 * LIMIT as f64 / free_memory() as f64;
    let document = document(method, &buffer.replace("PERCENT", &format!("{percent:.9}")));
    let session = Session::from_xml(&document, "limit.xml", Box::new(Alone::new())).unwrap();
    let taken = session.buffer().limit();
    match case {
        // What is taken later is not known before the first open.
        "later" | "unlimited" => assert_eq!(taken, None),
        "zero" => assert_eq!(taken, Some(0)),
        "now" => assert!(taken.unwrap().abs_diff(LIMIT) < LIMIT / 2, "{taken:?}"),
        _ => assert_eq!(taken, Some(LIMIT)),
    }
    let groups: &[&str] = if case == "two" { &["one", "two"] } else { &["one"] };
    let grew = write(&session, &folder, groups);
    let limit = session.buffer().limit();
    if case == "later" {
        assert!(limit.unwrap().abs_diff(LIMIT) < LIMIT / 2, "{limit:?}");
    }
    session.finalize().unwrap();
    println!("grew {grew} limit {} peak {}", limit.unwrap_or(u64::MAX), session.buffer().peak());
    true
}

fn free_memory() -> u64 {
    let text = std::fs::read_to_string("/proc/meminfo").unwrap();
    let rest = text.lines().find_map(|l| l.strip_prefix("MemAvailable:")).unwrap();
    rest.trim().trim_end_matches("kB").trim().parse::<u64>().unwrap() * 1024
}

/// Runs a case in a process of its own: how much it grew, its limit, and the most the buffer held.
fn run(method: &str, case: &str, groups: &[&str]) -> (u64, u64, u64) {
    let folder = tempfile::tempdir().unwrap();
    let test = std::thread::current().name().unwrap().to_string();
    let path = folder.path().display().to_string();
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", &test, "--nocapture", "--test-threads=1"])
        .env("THALWEG_TEST_CASE", format!("{method} {case}"))
        .env("THALWEG_TEST_FOLDER", &path)
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{method} {case}: {text} {}", String::from_utf8_lossy(&output.stderr));
    check(&path, groups);
    let line = text.lines().find_map(|l| l.split_once("grew ")).unwrap().1;
    let numbers: Vec<u64> = line.split_whitespace().filter_map(|w| w.parse().ok()).collect();
    println!("{method} {case}: grew {} KiB, limit {} KiB", numbers[0] / 1024, numbers[1] / 1024);
    (numbers[0], numbers[1], numbers[2])
}

fn stays_within(case: &str, groups: &[&str]) {
    if is_child() {
        return;
    }
    for method in ["POSIX", "MPI"] {
        let (grew, limit, peak) = run(method, case, groups);
        let least = registry::find(method).unwrap().least;
        assert!(peak <= limit.max(least), "{method} {case}: the buffer held {peak} of {limit}");
        assert!(grew <= limit + ALLOWANCE, "{method} {case}: the process grew by {grew}, its buffer has {limit}");
    }
}

#[test]
fn a_group_eight_times_larger_than_the_buffer_stays_within_it() {
    stays_within("size", &["one"]);
}

#[test]
fn two_groups_share_one_buffer() {
    stays_within("two", &["one", "two"]);
}

#[test]
fn a_buffer_of_nothing_writes_everything_through() {
    stays_within("zero", &["one"]);
}

#[test]
fn a_share_of_the_free_memory_is_taken_at_initialisation() {
    stays_within("now", &["one"]);
}

#[test]
fn a_share_of_the_free_memory_is_taken_at_the_first_open() {
    stays_within("later", &["one"]);
}

#[test]
fn without_a_limit_the_whole_group_is_held_which_shows_that_the_measure_sees_it() {
    if is_child() {
        return;
    }
    // On one rank, `MPI` and `POSIX` write large arrays at once.
    let (grew, ..) = run("MPI_COLLECTIVE", "unlimited", &["one"]);
    assert!(grew > 60 * MIB, "{grew}");
}

#[test]
fn a_share_of_more_than_everything_is_refused_where_it_stands() {
    let document = document("MPI", r#"<buffer free-memory-percentage="150"/>"#);
    let e = Session::from_xml(&document, "limit.xml", Box::new(Alone::new())).err().unwrap();
    assert_eq!(e.kind(), ErrorKind::Config);
    assert!(e.to_string().contains("150"), "{e}");
}
