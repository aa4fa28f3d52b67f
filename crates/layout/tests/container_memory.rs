//! How long opening takes and how much memory an open file holds, with each index module. Each opens in a process of its own.

use std::process::Command;
use std::sync::Arc;
use std::time::Instant;
use thalweg_conformance::scratch::Scratch;
use thalweg_layout::container::index::{Module, block, block::Entry, run::Run};
use thalweg_layout::container::marks::{self, Home, Published};
use thalweg_layout::container::record::{Log, RECORD_HEADER, Segment};
use thalweg_layout::container::{Options, clock::Summary, stamp::Stamp};
use thalweg_layout::{Container, Layout, OpenWrite, WriterId};
use thalweg_store::{Posix, Store, StoreExt};

const FOLDER: &str = "THALWEG_TEST_OPENED_IN";
const WRITERS: u64 = 4;
const UNIT: u64 = 47_001;

fn container(folder: &std::path::Path, module: Module) -> Container {
    let store: Arc<dyn Store> = Arc::new(Posix::at(folder).unwrap());
    Container::new(vec![store], Options { module, index_folder: folder.into(), inline: Some(0), ..Options::default() })
        .unwrap()
}

/// What four writers of so many records leave, but for their bytes.
fn make(folder: &std::path::Path, module: Module, records: u64, regular: bool) {
    let layout = container(folder, module);
    layout.open_write("file", OpenWrite::New, WriterId(0)).unwrap().close().unwrap();
    let store = Posix::at(folder).unwrap();
    let stamp = Stamp::decode(&store.read_all("file").unwrap()).unwrap();
    let number = format!("{:032x}", stamp.container);
    let (marks_in, logs_in) =
        (format!(".thalweg/c/{}/{number}/m", &number[..2]), format!(".thalweg/d/{}/{number}/00", &number[..2]));
    store.make_folder(&logs_in).unwrap();
    for writer in 0..WRITERS {
        let home = Home { session: writer + 1, writer: writer as u32, store: 0, folder: 0 };
        let segment = Segment { container: stamp.container, session: home.session, writer: home.writer, number: 0 };
        let (mut recorder, mut bytes) = (module.recorder(), segment.encode(Log::Index).to_vec());
        let (mut at, mut covered, mut end) = (64, 64, 0);
        for i in 0..records / WRITERS {
            let length = if regular { UNIT } else { UNIT - (i * 7919 + writer) % 1000 };
            let start = (i * WRITERS + writer) * UNIT;
            recorder.add(Run::one(1, start, length, at + RECORD_HEADER));
            (at, end) = (at + RECORD_HEADER + length, start + length);
            if recorder.count() >= 1 << 16 {
                bytes.extend_from_slice(&block::encode(home.session, covered, at, &recorder.take()));
                covered = at;
            }
        }
        let rest: Vec<Entry> = recorder.take();
        bytes.extend_from_slice(&block::encode(home.session, covered, at, &rest));
        let log = folder.join(&logs_in).join(format!("{:016x}-0", home.session));
        std::fs::write(log.with_extension("index"), &bytes).unwrap();
        std::fs::File::create(log.with_extension("data")).unwrap().set_len(at).unwrap();
        let summary = Summary { first: 1, last: 1, end, bytes: end / WRITERS, ..Summary::default() };
        let index = bytes.len() as u64;
        let p = Published { version: 1, closed: true, segments: 1, data: at, index, summary, time: 1 };
        std::fs::write(folder.join(&marks_in).join(marks::published_name(home, &p)), b"").unwrap();
    }
}

/// Bytes of memory of this process, and the most it had.
fn memory() -> (u64, u64) {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let of = |key: &str| -> u64 {
        let line = status.lines().find_map(|line| line.strip_prefix(key)).unwrap();
        line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() * 1024
    };
    (of("VmRSS:"), of("VmHWM:"))
}

/// Not a test of its own: the process that opens.
#[test]
fn the_one_who_opens() {
    let Ok(folder) = std::env::var(FOLDER) else { return };
    let before = memory().0;
    let layout = container(folder.as_ref(), Module::Flat);
    let started = Instant::now();
    let file = layout.open_read("file").unwrap();
    let mut bytes = [0; 100];
    file.read_exact_at(UNIT * 1001 + 5, &mut bytes).unwrap();
    let opened = started.elapsed();
    let (after, most) = memory();
    let started = Instant::now();
    for i in 0..100 {
        file.read_exact_at(UNIT * (i * 37), &mut bytes).unwrap();
    }
    let each = started.elapsed() / 100;
    let about = layout.about("file").unwrap();
    println!(
        "figures {} {} {} {} {} {}",
        opened.as_micros(),
        after.saturating_sub(before),
        most.saturating_sub(before),
        about.memory,
        about.index_bytes,
        each.as_micros()
    );
}

struct Figures {
    open_us: u64,
    memory: u64,
    most: u64,
    stated: u64,
    index: u64,
    read_us: u64,
}

fn open(module: Module, records: u64, regular: bool) -> Figures {
    let scratch = Scratch::new();
    make(scratch.path(), module, records, regular);
    let done = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "the_one_who_opens", "--nocapture", "--test-threads=1"])
        .env(FOLDER, scratch.path())
        .output()
        .unwrap();
    let text = String::from_utf8(done.stdout).unwrap();
    let told = text.lines().find_map(|line| Some(line.split_once("figures ")?.1)).unwrap_or_else(|| panic!("{text}"));
    let n: Vec<u64> = told.split(' ').map(|n| n.parse().unwrap()).collect();
    let figures = Figures { open_us: n[0], memory: n[1], most: n[2], stated: n[3], index: n[4], read_us: n[5] };
    let mb = |bytes: u64| bytes as f64 / 1e6;
    println!(
        "{:11} {records:9} records, {}: index logs {:.3} MB, open {:.1} ms, memory {:.1} MB (most {:.1}, stated {:.1}), a read {} us",
        module.name(),
        if regular { "strided" } else { "irregular" },
        mb(figures.index),
        figures.open_us as f64 / 1e3,
        mb(figures.memory),
        mb(figures.most),
        mb(figures.stated),
        figures.read_us
    );
    figures
}

#[test]
fn an_open_file_takes_the_memory_that_its_module_states() {
    let flat = open(Module::Flat, 400_000, true);
    assert!((24..26).contains(&(flat.stated / 400_000)), "{} bytes a record", flat.stated / 400_000);
    assert!(flat.memory < 2 * flat.stated + (8 << 20), "{} of {} bytes", flat.memory, flat.stated);
    assert!(flat.index < 12 * 400_000, "{} bytes of index logs", flat.index);
    let pattern = open(Module::Pattern, 400_000, true);
    assert!(pattern.stated < 4000 && pattern.index < 1000 && pattern.memory < 8 << 20);
    let on_disk = open(Module::Distributed, 400_000, false);
    assert!(on_disk.stated < 5 << 20, "{} bytes", on_disk.stated);
    assert!(on_disk.most < 48 << 20, "{} bytes while it opened", on_disk.most);
}

#[test]
#[ignore = "long"]
fn figures_of_ten_million_records() {
    let pattern = open(Module::Pattern, 10_000_000, true);
    assert!(pattern.open_us < 10_000, "{} us to open 10 million strided records", pattern.open_us);
    open(Module::Flat, 10_000_000, true);
    open(Module::Flat, 10_000_000, false);
    open(Module::Distributed, 10_000_000, false);
}
