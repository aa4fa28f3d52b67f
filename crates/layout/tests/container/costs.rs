//! What opening, writing, syncing and closing ask of the store.

use super::{open, over, write};
use std::sync::Arc;
use thalweg_conformance::scratch::Scratch;
use thalweg_layout::{Change, Container, Layout, OpenWrite, WriteObject};
use thalweg_store::wrap::Counting;
use thalweg_store::{Memory, Posix, Store};

#[test]
fn marks_are_listed_once_by_each_open_first_write_and_sync() {
    let counting = Arc::new(Counting::new(Arc::new(Memory::new())));
    let store: Arc<dyn Store> = counting.clone();
    let lists = || counting.take().total().lists;
    // What a process does once: it lists nothing of the file.
    over(&store).make_folder("d").unwrap();
    lists();
    let maker = over(&store);
    let file = open(&maker, "d/file", OpenWrite::Any, 0);
    write(&*file, 0, b"bytes");
    assert_eq!(file.length().unwrap(), 5);
    assert_eq!(lists(), 1, "making and writing");
    file.sync().unwrap();
    assert_eq!(lists(), 1, "a sync");
    file.close().unwrap();
    assert_eq!(lists(), 0, "a close");
    for writer in 1..10 {
        let layout = over(&store);
        let file = open(&layout, "d/file", OpenWrite::Any, writer);
        assert_eq!(lists(), 1, "an open of what is there");
        write(&*file, u64::from(writer) * 5, b"bytes");
        file.append(&[std::io::IoSlice::new(b"more")]).unwrap();
        assert_eq!(lists(), 1, "the first write: it comes after what others did since the open");
        write(&*file, u64::from(writer) * 5, b"bytes");
        file.close().unwrap();
        assert_eq!(lists(), 0, "writing on, closing");
    }
    let reader = over(&store).open_read("d/file").unwrap();
    let mut bytes = [0; 10];
    reader.read_exact_at(0, &mut bytes).unwrap();
    assert_eq!((&bytes, lists()), (b"bytesbytes", 1));
}

#[test]
fn the_first_sync_of_a_large_file_syncs_nothing_twice_and_folders_that_files_share_once_by_a_process() {
    let scratch = Scratch::new();
    let counting = Arc::new(Counting::new(Arc::new(Posix::at(scratch.path()).unwrap())));
    let layout = super::in_folders(&[counting.clone() as Arc<dyn Store>]);
    let syncs = |file: &dyn WriteObject| {
        counting.take();
        file.sync().unwrap();
        let counted = counting.take().objects.into_iter().map(|(name, c)| (name, c.syncs + c.folder_syncs));
        counted.filter(|(_, syncs)| *syncs > 0).collect::<Vec<_>>()
    };
    let total = |syncs: &[(String, u64)]| syncs.iter().map(|(_, syncs)| *syncs).sum::<u64>();
    for (number, most) in [15, 12, 12, 12].into_iter().enumerate() {
        let file = open(&layout, &format!("file{number}"), OpenWrite::New, 0);
        write(&*file, 0, &[7; 1 << 20]);
        let first = syncs(&*file);
        let twice: Vec<_> = first.iter().filter(|(name, syncs)| *syncs > 1 && name != ".thalweg").collect();
        assert!(twice.is_empty() && total(&first) <= most, "file {number}: {first:?}");
        let shared = |name: &str| ["", ".thalweg"].contains(&name);
        assert!(number == 0 || !first.iter().any(|(name, _)| shared(name)), "file {number}: {first:?}");
        write(&*file, 1 << 20, &[8; 1 << 20]);
        // Both logs, the folder of logs, that of marks.
        let second = syncs(&*file);
        assert_eq!(total(&second), 4, "{second:?}");
        file.close().unwrap();
    }
}

/// Calls of a store, whatever they ask for.
fn calls(store: &Counting) -> u64 {
    let c = store.take().total();
    let opened = c.opens_for_writing + c.opens_for_reading + c.writes + c.reads + c.lengths + c.syncs + c.closes;
    let named = c.stats + c.lists + c.renames + c.removes + c.folders_made + c.folder_syncs + c.attributes;
    opened + named + c.reserves + c.truncates + c.punches + c.failed
}

/// One operation on each of many small files of a folder, as a door asks for it.
type Step = (&'static str, [u64; 2], fn(&Container, &str));

fn make(layout: &Container, name: &str) {
    let file = open(layout, name, OpenWrite::New, 0);
    write(&*file, 0, &[7; 1024]);
    file.close().unwrap();
}

fn make_and_publish(layout: &Container, name: &str) {
    let file = open(layout, name, OpenWrite::New, 0);
    file.attributes().unwrap();
    write(&*file, 0, &[7; 1024]);
    file.publish().unwrap();
    file.close().unwrap();
}

fn look_at(layout: &Container, name: &str) {
    assert_eq!(layout.attributes(name).unwrap().length, 1024);
}

fn measure(layout: &Container, name: &str) {
    assert_eq!(layout.stat(name).unwrap().length, 1024);
}

fn read_all(layout: &Container, name: &str) {
    let file = layout.open_read(name).unwrap();
    let mut bytes = [0; 4096];
    assert_eq!(file.read_at(0, &mut bytes).unwrap(), 1024);
}

fn append(layout: &Container, name: &str) {
    let file = open(layout, name, OpenWrite::Existing, 0);
    file.append(&[std::io::IoSlice::new(&[8; 100])]).unwrap();
    file.close().unwrap();
}

fn replace(layout: &Container, name: &str) {
    let file = open(layout, name, OpenWrite::Replace, 0);
    write(&*file, 0, &[7; 1024]);
    file.close().unwrap();
}

fn rename(layout: &Container, name: &str) {
    layout.rename(name, &format!("{name}.new")).unwrap();
    layout.rename(&format!("{name}.new"), name).unwrap();
}

fn make_stricter(layout: &Container, name: &str) {
    layout.set_attributes(name, &Change { mode: Some(0o600), ..Change::default() }).unwrap();
}

fn remove(layout: &Container, name: &str) {
    layout.remove(name).unwrap();
}

/// What is done to each file, one step after the other, and the most calls of a store that it takes: of a file with a folder, and of one
/// that lies behind its stamp. Containers have random numbers: one whose shared folder is new takes two calls more.
const STEPS: &[Step] = &[
    ("make, write, close", [32, 11], make),
    ("attributes", [4, 2], look_at),
    ("stat", [4, 2], measure),
    ("open and read", [8, 2], read_all),
    ("append", [19, 13], append),
    ("replace", [40, 25], replace),
    ("rename there and back", [6, 6], rename),
    ("remove", [16, 4], remove),
    ("make, attributes, write, publish, close", [38, 16], make_and_publish),
    ("chmod", [38, 13], make_stricter),
    ("open and read what has attributes", [8, 2], read_all),
    ("remove what has attributes", [13, 4], remove),
];

/// Does all steps; says which take more calls than they may.
fn too_many(which: usize, layout: impl Fn(&Arc<dyn Store>) -> Container) -> Vec<String> {
    let scratch = Scratch::new();
    let counting = Arc::new(Counting::new(Arc::new(Posix::at(scratch.path()).unwrap())));
    let store: Arc<dyn Store> = counting.clone();
    let layout = layout(&store);
    layout.make_folder("d").unwrap();
    let files = std::env::var("THALWEG_TEST_FILES").map_or(100, |files| files.parse().unwrap());
    // The folders of numbers are made once.
    for number in 0..1000 {
        make(&layout, &format!("d/before{number}"));
    }
    let mut many = Vec::new();
    for (what, most, step) in STEPS {
        counting.take();
        let started = std::time::Instant::now();
        for number in 0..files {
            step(&layout, &format!("d/file{number}"));
        }
        let each = started.elapsed() / files;
        let calls = calls(&counting).div_ceil(u64::from(files));
        println!("{what}: {calls} calls, {each:?}");
        if calls > most[which] {
            many.push(format!("{what}: {calls} calls of the store, {} at most", most[which]));
        }
    }
    many
}

#[test]
fn each_operation_on_a_file_with_a_folder_asks_a_posix_store_few_things() {
    assert_eq!(too_many(0, |store| super::in_folders(std::slice::from_ref(store))), [""; 0]);
}

#[test]
fn each_operation_on_a_small_file_asks_a_posix_store_few_things() {
    assert_eq!(too_many(1, over), [""; 0]);
}

/// Tells how long a large file takes and where the time goes; the medium is that of `TMPDIR`.
#[test]
#[ignore = "long, measures"]
fn a_large_file_is_written_and_synced() {
    let size: u64 = 600 << 20;
    let piece: Vec<u8> = super::pattern(1, 128 << 10);
    let rate = |started: std::time::Instant| size as f64 / started.elapsed().as_secs_f64() / 1e6;
    for round in 0..3 {
        let scratch = Scratch::new();
        let store: Arc<dyn Store> = Arc::new(Posix::at(scratch.path()).unwrap());
        let mut told = Vec::new();
        let plain = store.open_write("plain", OpenWrite::New).unwrap();
        let layout = super::process(std::slice::from_ref(&store), super::Module::Pattern, 2 << 20);
        let kept = open(&layout, "kept", OpenWrite::New, 0);
        for (what, object) in [("plain", &plain), ("container", &kept)] {
            let started = std::time::Instant::now();
            for at in (0..size).step_by(piece.len()) {
                write(&**object, at, &piece);
            }
            let written = rate(started);
            object.sync().unwrap();
            told.push(format!("{what}: {written:.0} MB/s without, {:.0} MB/s with the sync", rate(started)));
        }
        kept.close().unwrap();
        println!("round {round}: {}", told.join(", "));
    }
}

#[test]
fn space_is_reserved_a_few_times_for_the_first_buffer_and_once_for_each_other() {
    let scratch = Scratch::new();
    let counting = Arc::new(Counting::new(Arc::new(Posix::at(scratch.path()).unwrap())));
    let store: Arc<dyn Store> = counting.clone();
    for (inline, first) in [(true, 14), (false, 8)] {
        let layout = if inline { over(&store) } else { super::in_folders(std::slice::from_ref(&store)) };
        let file = open(&layout, if inline { "small" } else { "folder" }, OpenWrite::New, 0);
        counting.take();
        let mut at = 0;
        let mut fill = |buffers: u64| {
            for _ in 0..buffers * (2 << 20) / 1000 {
                write(&*file, at, &[7; 1000]);
                at += 1000;
            }
            counting.take().total().reserves
        };
        let reserves = fill(1);
        assert!(reserves <= first, "inline {inline}: {reserves} for the first buffer");
        let reserves = fill(10);
        assert!(reserves <= 11, "inline {inline}: {reserves} for ten buffers");
        file.close().unwrap();
        let counted = counting.take().total();
        assert!(counted.reserves == 0 && counted.truncates <= 2, "inline {inline}: {counted:?}");
    }
}
