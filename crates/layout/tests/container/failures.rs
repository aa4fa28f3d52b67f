//! What went wrong in the system that the container layout comes from, each with a test of its name.

use super::{in_folders, open, over, pattern, process, put, read, write};
use std::sync::Arc;
use thalweg_conformance::scratch::Scratch;
use thalweg_layout::container::index::{Module, block, block::Entry, run::Level, run::Run};
use thalweg_layout::container::marks::{self, Home, Published};
use thalweg_layout::container::record::{Log, Segment};
use thalweg_layout::container::{
    clock::Summary,
    stamp::Stamp,
    tools::{Accept, Trouble},
};
use thalweg_layout::{Change, Container, Layout, OpenWrite, SetXattr};
use thalweg_store::wrap::{Counting, Failing, Fault, Forgetful, StoreCall};
use thalweg_store::{Memory, Posix, Store, StoreExt};
use thalweg_types::ErrorKind;

fn memory() -> Arc<dyn Store> {
    Arc::new(Memory::new())
}

/// Folders and objects below a folder, whole names.
pub fn all(store: &dyn Store, folder: &str) -> Vec<String> {
    let mut found = Vec::new();
    for name in store.list(folder).unwrap() {
        let name = if folder.is_empty() { name } else { format!("{folder}/{name}") };
        match store.stat(&name).unwrap().is_folder {
            true => found.extend(all(store, &name)),
            false => found.push(name),
        }
    }
    found
}

fn named(store: &dyn Store, part: &str) -> Vec<String> {
    all(store, "").into_iter().filter(|name| name.contains(part)).collect()
}

#[test]
fn kill_before_close() {
    let store = Arc::new(Forgetful::new());
    let layout = process(&[store.clone() as Arc<dyn Store>], Module::Pattern, 1000);
    let file = open(&layout, "checkpoint", OpenWrite::New, 0);
    let bytes = pattern(1, 10_000);
    for (i, run) in bytes.chunks(100).enumerate() {
        write(&*file, i as u64 * 200, run);
    }
    let left: Arc<dyn Store> = Arc::new(store.crash_after(store.operations()));
    let layout = over(&left);
    let error = read(&layout, "checkpoint").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Torn, "no hole of a file with a lost writer reads as zeros: {error}");
    assert!(error.to_string().contains(&format!("process {} since", std::process::id())), "{error}");
    let mut first = [0; 100];
    layout.open_read("checkpoint").unwrap().read_exact_at(0, &mut first).unwrap();
    assert_eq!(first, bytes[..100], "what reached the data log is found without an index log");
    assert!(layout.check("checkpoint").unwrap().findings.iter().any(|f| f.trouble == Trouble::Died));
    assert!(!layout.repair("checkpoint", Accept::SURE).unwrap().is_empty());
    let report = layout.check("checkpoint").unwrap();
    assert!(report.is_clean(), "{report:?}");
    let found = read(&layout, "checkpoint").unwrap();
    assert!(found.len() > 15_000, "all but what was in the buffer: {}", found.len());
    for (i, run) in found.chunks(200).enumerate() {
        assert_eq!(run[..100], bytes[i * 100..i * 100 + 100], "record {i}");
    }
}

#[test]
fn flatten_then_write() {
    let store = memory();
    let layout = over(&store);
    put(&layout, "file", b"the first bytes");
    let other = open(&layout, "file", OpenWrite::Existing, 1);
    write(&*other, 4, b"other");
    other.close().unwrap();
    layout.snapshot("file").unwrap();
    assert_eq!(named(&*store, "/x-").len(), 1);
    assert_eq!(read(&over(&store), "file").unwrap(), b"the other bytes");
    let file = open(&over(&store), "file", OpenWrite::Existing, 0);
    write(&*file, 4, b"newer");
    file.close().unwrap();
    assert_eq!(read(&over(&store), "file").unwrap(), b"the newer bytes", "the snapshot covers less than there is");
    assert_eq!(read(&layout, "file").unwrap(), b"the newer bytes");
    layout.snapshot("file").unwrap();
    assert_eq!(named(&*store, "/x-").len(), 1, "the old snapshot is removed");
    let plain = Memory::new();
    assert_eq!(layout.flatten("file", &plain, "plain").unwrap(), 15);
    assert_eq!(plain.read_all("plain").unwrap(), b"the newer bytes");
    let again = layout.flatten("file", &plain, "plain").unwrap_err();
    assert_eq!(again.kind(), ErrorKind::AlreadyExists);
}

#[test]
fn a_snapshot_is_what_readers_open() {
    let store = Arc::new(Counting::new(Arc::new(Memory::new())));
    let shared: Arc<dyn Store> = store.clone();
    for writer in 0..20u32 {
        let file = open(&over(&shared), "file", OpenWrite::Any, writer);
        write(&*file, u64::from(writer) * 10, &pattern(writer.into(), 10));
        file.close().unwrap();
    }
    over(&shared).snapshot("file").unwrap();
    store.take();
    let bytes = read(&over(&shared), "file").unwrap();
    let opens = store.take().total().opens_for_reading;
    assert_eq!(bytes[190..], pattern(19, 10));
    // The stamp, the store's identity, the snapshot, a data log of each writer.
    assert_eq!(opens, 3 + 20);
}

#[test]
fn a_missing_backing_store() {
    let scratch = Scratch::new();
    let folder = |name: &str| scratch.join(name);
    for name in ["a", "b", "c"] {
        std::fs::create_dir(folder(name)).unwrap();
    }
    let posix = |name: &str| Arc::new(Posix::at(folder(name)).unwrap()) as Arc<dyn Store>;
    let stores = || ["a", "b", "c"].map(posix);
    let layout = in_folders(&stores());
    for writer in 0..6u32 {
        let file = open(&layout, "file", OpenWrite::Any, writer);
        write(&*file, u64::from(writer) * 1000, &pattern(writer.into(), 1000));
        file.close().unwrap();
    }
    for name in ["a", "b", "c"] {
        let logs = std::fs::read_dir(folder(name).join(".thalweg/d")).unwrap().count();
        assert!(logs > 0, "store {name} holds logs");
    }
    // As a mount that did not come up: the folder is there and empty.
    std::fs::rename(folder("b"), folder("gone")).unwrap();
    std::fs::create_dir(folder("b")).unwrap();
    let layout = process(&stores(), Module::Pattern, 4 << 20);
    let error = read(&layout, "file").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Io, "neither not found nor zeros: {error}");
    assert!(error.to_string().contains(&format!("posix:{}", folder("b").display())), "{error}");
    let report = layout.check("file").unwrap();
    assert!(report.findings.iter().any(|f| f.trouble == Trouble::Store && f.place.ends_with("/b")), "{report:?}");
    // A wrong mount table, stores in another order: they are known by what they are, not by their place.
    std::fs::remove_dir_all(folder("b")).unwrap();
    std::fs::rename(folder("gone"), folder("moved")).unwrap();
    let layout = process(&["a", "c", "moved"].map(posix), Module::Pattern, 4 << 20);
    let bytes = read(&layout, "file").unwrap();
    assert_eq!((bytes.len(), &bytes[5000..]), (6000, &pattern(5, 1000)[..]));
    // A log that is gone from a store that is there.
    let lost = named(&*posix("moved"), ".data");
    posix("moved").remove(&lost[0]).unwrap();
    let error = read(&process(&["a", "c", "moved"].map(posix), Module::Pattern, 4 << 20), "file").unwrap_err();
    assert!(error.kind() == ErrorKind::Io && error.to_string().contains("moved"), "{error}");
}

#[test]
fn truncate_down_then_up() {
    for module in [Module::Flat, Module::Pattern, Module::Distributed] {
        let store = memory();
        let layout = process(std::slice::from_ref(&store), module, 100);
        let file = open(&layout, "file", OpenWrite::New, 0);
        let bytes = pattern(3, 5000);
        write(&*file, 0, &bytes);
        file.truncate(1501).unwrap();
        file.truncate(4000).unwrap();
        let mut expected = bytes[..1501].to_vec();
        expected.resize(4000, 0);
        assert!(read(&layout, "file").unwrap() == expected, "by the process that writes");
        assert!(read(&over(&store), "file").unwrap() == expected, "by another, before it closes");
        write(&*file, 3990, b"beyond the end");
        file.close().unwrap();
        expected.resize(4004, 0);
        expected[3990..].copy_from_slice(b"beyond the end");
        assert!(read(&over(&store), "file").unwrap() == expected);
        assert_eq!(over(&store).stat("file").unwrap().length, 4004);
    }
}

#[test]
fn clock_skew_between_hosts() {
    let store = memory();
    let first = open(&over(&store), "file", OpenWrite::New, 7);
    write(&*first, 0, b"from a host whose clock is ahead");
    first.close().unwrap();
    // Its mark says that it was written in the year 2255.
    let (old, home, mut p) = published(&*store).remove(0);
    p.time = 9_000_000_000_000_000_000;
    let folder = thalweg_store::name::folder_of(&old).to_string();
    store.remove(&old).unwrap();
    store.write_all(&format!("{folder}/{}", marks::published_name(home, &p)), b"").unwrap();
    let second = open(&over(&store), "file", OpenWrite::Existing, 3);
    write(&*second, 7, b"another");
    second.close().unwrap();
    let bytes = read(&over(&store), "file").unwrap();
    assert_eq!(
        String::from_utf8_lossy(&bytes),
        "from a anotherose clock is ahead",
        "the later one by what each had seen"
    );
}

#[test]
fn a_mark_that_a_failed_renaming_left_does_not_come_back() {
    for how in ["replace", "compact", "repair"] {
        let store = memory();
        let file = open(&in_folders(std::slice::from_ref(&store)), "file", OpenWrite::New, 7);
        write(&*file, 0, b"one");
        file.sync().unwrap();
        let (early, ..) = published(&*store).remove(0);
        write(&*file, 3, b" two");
        file.close().unwrap();
        // The new name was given, the old one not taken away.
        store.write_all(&early, b"").unwrap();
        assert_eq!(published(&*store).len(), 2);
        let layout = in_folders(std::slice::from_ref(&store));
        assert_eq!(read(&layout, "file").unwrap(), b"one two", "the later mark is valid");
        let expected: &[u8] = match how {
            "replace" => {
                let file = open(&layout, "file", OpenWrite::Replace, 8);
                write(&*file, 0, b"new");
                file.close().unwrap();
                b"new"
            }
            "compact" => {
                layout.compact("file").unwrap();
                b"one two"
            }
            _ => {
                layout.repair("file", Accept { lost: true, open: true }).unwrap();
                b"one two"
            }
        };
        assert_eq!(read(&in_folders(std::slice::from_ref(&store)), "file").unwrap(), expected, "{how}");
        if how != "repair" {
            assert!(!published(&*store).iter().any(|(name, ..)| *name == early), "{how}");
        }
    }
}

fn published(store: &dyn Store) -> Vec<(String, Home, Published)> {
    let of_mark = |name: String| match marks::parse(thalweg_store::name::last_part(&name)) {
        Ok(marks::MarkName::Published(home, p)) => Some((name, home, p)),
        _ => None,
    };
    named(store, "/m/").into_iter().filter_map(of_mark).collect()
}

#[test]
fn writes_that_nothing_orders_resolve_identically_and_are_told() {
    let store = memory();
    let (a, b) = (over(&store), over(&store));
    put(&a, "file", &[b'.'; 30]);
    let (high, low) = (open(&a, "file", OpenWrite::Existing, 9), open(&b, "file", OpenWrite::Existing, 2));
    write(&*high, 0, &[b'h'; 20]);
    write(&*low, 10, &[b'l'; 20]);
    // Closed in this order or the other: neither had seen the other when it wrote.
    high.close().unwrap();
    low.close().unwrap();
    for layout in [&a, &b, &over(&store)] {
        assert_eq!(read(layout, "file").unwrap(), b"hhhhhhhhhhhhhhhhhhhhllllllllll");
    }
    let report = a.check("file").unwrap();
    let ties: Vec<_> = report.findings.iter().filter(|f| f.trouble == Trouble::Tie).collect();
    assert_eq!((ties.len(), ties[0].place.as_str()), (1, "bytes 10..20"), "{report:?}");
    assert!(report.is_clean());
}

#[test]
fn overlapping_writes_of_one_collective_open() {
    const RANKS: u32 = 8;
    let expected: Vec<u8> = (0..RANKS * 5 + 15).map(|at| b'a' + (at / 5).min(RANKS - 1) as u8).collect();
    for seed in 0..20 {
        let store = memory();
        put(&over(&store), "file", b"");
        // All have it open before the first of them writes.
        let ranks: Vec<_> =
            (0..RANKS).map(|rank| (rank, open(&over(&store), "file", OpenWrite::Existing, rank))).collect();
        let mut ranks = ranks;
        let mut random = fastrand::Rng::with_seed(seed);
        random.shuffle(&mut ranks);
        for (rank, file) in &ranks {
            write(&**file, u64::from(*rank) * 5, &[b'a' + *rank as u8; 20]);
        }
        random.shuffle(&mut ranks);
        ranks.into_iter().for_each(|(_, file)| file.close().unwrap());
        // Whatever the order of writes and closes: where ranks overlap the greater one's bytes stay.
        for _ in 0..2 {
            assert_eq!(
                String::from_utf8_lossy(&read(&over(&store), "file").unwrap()),
                String::from_utf8_lossy(&expected)
            );
        }
        let ties = over(&store).check("file").unwrap().findings.into_iter().filter(|f| f.trouble == Trouble::Tie);
        assert!(ties.count() > 0, "check tells that ranks overwrote each other");
    }
}

#[test]
fn ten_thousand_writers() {
    const WRITERS: u32 = 10_000;
    let scratch = Scratch::new();
    let store: Arc<dyn Store> = Arc::new(Posix::at(scratch.path()).unwrap());
    put(&in_folders(std::slice::from_ref(&store)), "file", b"");
    let stamp = Stamp::decode(&store.read_all("file").unwrap()).unwrap();
    let number = format!("{:032x}", stamp.container);
    let marks_in = format!(".thalweg/c/{}/{number}/m", &number[..2]);
    let logs_in = format!(".thalweg/d/{}/{number}/00", &number[..2]);
    store.make_folder(&logs_in).unwrap();
    for writer in 0..WRITERS {
        // What a writer of 1000 records of 64 bytes, dealt in turn, leaves but for its bytes; of some those too.
        let home = Home { session: u64::from(writer) + 1, writer, store: 0, folder: 0 };
        let run = Run {
            inner: Level { stride: 64 * i64::from(WRITERS), log_stride: 112, count: 1000 },
            ..Run::one(1, u64::from(writer) * 64, 64, 112)
        };
        let data = 64 + 1000 * 112;
        let segment = Segment { container: stamp.container, session: home.session, writer, number: 0 };
        let mut index = segment.encode(Log::Index).to_vec();
        index.extend_from_slice(&block::encode(home.session, 64, data, &[Entry::Run(run)]));
        let log = format!("{logs_in}/{:016x}-0", home.session);
        std::fs::write(scratch.join(format!("{log}.index")), &index).unwrap();
        if writer % 100 == 0 {
            let bytes = vec![writer as u8; data as usize];
            std::fs::write(scratch.join(format!("{log}.data")), bytes).unwrap();
        }
        let end = u64::from(WRITERS) * 64 * 999 + u64::from(writer + 1) * 64;
        let summary = Summary { first: 1, last: 1, end, bytes: 64_000, ..Summary::default() };
        let p = Published { version: 1, closed: true, segments: 1, data, index: index.len() as u64, summary, time: 1 };
        std::fs::write(scratch.join(format!("{marks_in}/{}", marks::published_name(home, &p))), b"").unwrap();
    }
    let layout = over(&store);
    assert_eq!(layout.stat("file").unwrap().length, 640_000_000, "the size needs no index log");
    let started = std::time::Instant::now();
    let file = layout.open_read("file").unwrap();
    let mut bytes = [0; 64];
    for writer in (0..WRITERS).step_by(100) {
        file.read_exact_at(u64::from(WRITERS) * 64 * 500 + u64::from(writer) * 64, &mut bytes).unwrap();
        assert_eq!(bytes, [writer as u8; 64]);
    }
    println!("10,000 writers, 10 million records: opened and read in {:?}", started.elapsed());
    let about = layout.about("file").unwrap();
    assert_eq!((about.sessions, about.entries), (WRITERS as usize, WRITERS.into()));
    assert!(about.memory < 5 << 20, "{} bytes of index", about.memory);
    let open = std::fs::read_dir("/proc/self/fd").unwrap().filter_map(|fd| std::fs::read_link(fd.ok()?.path()).ok());
    let open = open.filter(|path| path.starts_with(scratch.path())).count();
    assert!(open <= 64, "{open} files open");
}

#[test]
fn chmod_of_one_small_file() {
    let store = memory();
    let layout = over(&store);
    layout.make_one_folder("folder", 0o750).unwrap();
    for name in ["folder/one", "folder/two"] {
        put(&layout, name, name.as_bytes());
    }
    let two = layout.attributes("folder/two").unwrap();
    let folder = layout.attributes("folder").unwrap();
    layout.set_attributes("folder/one", &Change { mode: Some(0o600), uid: Some(77), ..Change::default() }).unwrap();
    let one = over(&store).attributes("folder/one").unwrap();
    assert_eq!((one.mode, one.uid, one.length), (0o600, 77, 10));
    assert_eq!(over(&store).attributes("folder/two").unwrap(), two, "no other file changes");
    assert_eq!((folder.mode, layout.attributes("folder").unwrap()), (0o750, folder));
    layout.xattr_set("folder/one", "user.k", b"v", thalweg_layout::SetXattr::New).unwrap();
    assert_eq!(layout.xattr_list("folder/two").unwrap(), [""; 0]);
    assert_eq!(over(&store).xattr_get("folder/one", "user.k").unwrap(), Some(b"v".to_vec()));
    assert_eq!(over(&store).attributes("folder/one").unwrap().mode, 0o600);
}

#[test]
fn times_are_those_of_the_last_write_or_what_a_program_set_since() {
    let store = memory();
    let layout = over(&store);
    put(&layout, "file", b"bytes");
    let written = layout.attributes("file").unwrap().mtime;
    assert!(written.elapsed().unwrap().as_secs() < 60);
    let early = std::time::UNIX_EPOCH + std::time::Duration::from_secs(1000);
    layout.set_attributes("file", &Change { mtime: Some(early), atime: Some(early), ..Change::default() }).unwrap();
    let set = over(&store).attributes("file").unwrap();
    assert_eq!((set.mtime, set.atime), (early, early));
    let file = open(&layout, "file", OpenWrite::Existing, 0);
    write(&*file, 0, b"B");
    assert!(layout.attributes("file").unwrap().mtime >= written, "written since");
    layout.set_attributes("file", &Change { mtime: Some(early), ..Change::default() }).unwrap();
    file.close().unwrap();
    assert_eq!(over(&store).attributes("file").unwrap().mtime, early, "closing writes nothing");
}

#[test]
fn rename_between_backing_stores() {
    let scratch = Scratch::new();
    let stores: Vec<Arc<dyn Store>> = ["a", "b", "c"]
        .map(|name| {
            std::fs::create_dir(scratch.join(name)).unwrap();
            Arc::new(Posix::at(scratch.join(name)).unwrap()) as Arc<dyn Store>
        })
        .to_vec();
    let layout = in_folders(&stores);
    for (name, seed) in [("from", 1), ("to", 2)] {
        for writer in 0..3u32 {
            let file = open(&layout, name, OpenWrite::Any, writer);
            write(&*file, u64::from(writer) * 100, &pattern(seed + u64::from(writer), 100));
        }
    }
    let logs = || stores.iter().map(|store| named(&**store, ".data").len()).sum::<usize>();
    assert_eq!(logs(), 6);
    layout.rename("from", "to").unwrap();
    assert_eq!((layout.list("").unwrap(), logs()), (vec!["to".to_string()], 3), "one object moved, no log did");
    assert_eq!(read(&layout, "to").unwrap()[200..], pattern(3, 100));
    let before = stores[0].list("").unwrap();
    layout.remove("to").unwrap();
    assert_eq!((logs(), before), (0, vec![".thalweg".to_string(), "to".to_string()]));
    assert_eq!(layout.nameless(std::time::Duration::ZERO, true).unwrap(), []);
}

#[test]
fn a_file_outlives_a_link_to_it_that_is_replaced() {
    let scratch = Scratch::new();
    let store: Arc<dyn Store> = Arc::new(Posix::at(scratch.path()).unwrap());
    let layout = over(&store);
    put(&layout, "file", b"bytes");
    put(&layout, "other", b"others");
    layout.make_link("file", "link").unwrap();
    layout.rename("other", "link").unwrap();
    assert_eq!(read(&over(&store), "file").unwrap(), b"bytes", "what the link led to");
    assert_eq!(read(&over(&store), "link").unwrap(), b"others");
    layout.make_link("free", "ahead").unwrap();
    put(&layout, "ahead", b"made through a link");
    assert_eq!(read(&over(&store), "free").unwrap(), b"made through a link");
}

#[test]
fn the_size_of_a_closed_file_opens_no_log() {
    let store = Arc::new(Counting::new(Arc::new(Memory::new())));
    let shared: Arc<dyn Store> = store.clone();
    for writer in 0..50u32 {
        let file = open(&over(&shared), "file", OpenWrite::Any, writer);
        write(&*file, u64::from(writer) * 10, &[1; 10]);
        file.close().unwrap();
    }
    store.take();
    assert_eq!(over(&shared).stat("file").unwrap().length, 500);
    let opened = store.take().total().opens_for_reading;
    assert_eq!(opened, 2, "the stamp and the store's identity");
}

#[test]
fn a_file_written_again_and_again_leaves_no_old_logs() {
    let store = memory();
    for round in 0..10u64 {
        put(&over(&store), "file", &pattern(round, 1000));
        assert_eq!(read(&over(&store), "file").unwrap(), pattern(round, 1000));
    }
    assert!(named(&*store, ".data").len() <= 2, "{:?}", named(&*store, ".data"));
}

#[test]
fn an_open_file_that_is_removed_is_read_to_its_end() {
    let store = memory();
    let layout = over(&store);
    put(&layout, "file", b"bytes");
    let reader = layout.open_read("file").unwrap();
    let writer = open(&layout, "file", OpenWrite::Existing, 1);
    layout.remove("file").unwrap();
    write(&*writer, 5, b" and more");
    let mut bytes = [0; 14];
    reader.read_exact_at(0, &mut bytes).unwrap();
    assert_eq!(&bytes, b"bytes and more");
    assert!(layout.stat("file").is_err());
    drop((reader, writer));
    assert_eq!(all(&*store, ""), [".thalweg/store"], "with the last handle all of it goes");
}

#[test]
fn a_session_is_removed_with_all_its_logs_or_the_removal_fails_whichever_look_fails() {
    // Of a compaction that was killed no mark tells how many logs it has: only looks do.
    let store = Arc::new(Forgetful::new());
    let shared: Arc<dyn Store> = store.clone();
    for writer in 0..3 {
        let file = open(&in_folders(std::slice::from_ref(&shared)), "file", OpenWrite::Any, writer);
        write(&*file, u64::from(writer) * 3000, &pattern(writer.into(), 4000));
        file.close().unwrap();
    }
    let bytes = read(&in_folders(std::slice::from_ref(&shared)), "file").unwrap();
    let before = store.operations();
    in_folders(std::slice::from_ref(&shared)).compact("file").unwrap();
    let (mut failed, mut told) = (0, 0);
    let strays = |store: &Arc<dyn Store>| {
        let found = in_folders(std::slice::from_ref(store)).check("file").unwrap().findings;
        found.iter().filter(|f| f.trouble == Trouble::Stray).count()
    };
    for n in before..=store.operations() {
        // Behind the removal of a mark the kill itself leaves logs, which `repair` removes.
        let unfailed: Arc<dyn Store> = Arc::new(store.crash_after(n));
        in_folders(std::slice::from_ref(&unfailed)).compact("file").unwrap();
        for skipped in 0.. {
            let inner: Arc<dyn Store> = Arc::new(store.crash_after(n));
            let failing = Arc::new(Failing::new(inner.clone()));
            let layout = in_folders(&[failing.clone() as Arc<dyn Store>]);
            layout.stat("file").unwrap();
            failing.fail(Fault::of(StoreCall::Stat).skipping(skipped).times(1));
            let outcome = layout.compact("file");
            let words = format!("killed after {n} ({}), look {skipped} failed", store.operation(n));
            let now = failing.failed().0;
            failing.heal();
            let fresh = in_folders(std::slice::from_ref(&inner));
            assert!(read(&fresh, "file").unwrap() == bytes, "{words}");
            let left = strays(&inner);
            assert!(outcome.is_err() || left <= strays(&unfailed), "{words}: nobody is told of {left} logs");
            (failed, told) = (failed + now, told + u64::from(outcome.is_err()));
            if now == 0 {
                break;
            }
        }
    }
    assert!(failed > 0 && told > 0, "{failed} looks failed, {told} were told");
}

#[test]
fn of_a_log_that_ends_before_its_mark_says_all_that_is_there_is_read_and_the_rest_is_an_error_until_it_is_accepted() {
    let store: Arc<dyn Store> = Arc::new(Memory::new());
    let fresh = || in_folders(std::slice::from_ref(&store));
    let file = open(&fresh(), "file", OpenWrite::New, 1);
    write(&*file, 0, b"synced");
    file.sync().unwrap();
    let logs = all(&*store, ".thalweg/d").into_iter().map(|name| (store.stat(&name).unwrap(), name));
    let synced: Vec<(u64, String)> = logs.filter(|(s, _)| !s.is_folder).map(|(s, name)| (s.length, name)).collect();
    write(&*file, 6, b"closed");
    write(&*file, 0, b"S");
    file.close().unwrap();
    let other = open(&fresh(), "file", OpenWrite::Existing, 2);
    write(&*other, 12, b"other");
    other.close().unwrap();
    for (length, name) in &synced {
        let object = store.open_write(name, OpenWrite::Existing).unwrap();
        object.truncate(*length).unwrap();
        object.close().unwrap();
    }
    let layout = fresh();
    let reader = layout.open_read("file").unwrap();
    assert_eq!(reader.length().unwrap(), 17);
    let mut six = [0; 6];
    reader.read_exact_at(0, &mut six).unwrap();
    assert_eq!(&six, b"synced");
    let error = reader.read_at(6, &mut six).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Torn, "{error}");
    assert!(error.to_string().contains("repair --lost"), "{error}");
    let mut five = [0; 5];
    reader.read_exact_at(12, &mut five).unwrap();
    assert_eq!(&five, b"other");
    drop(reader);
    let troubles = |layout: &Container| -> Vec<Trouble> {
        layout.check("file").unwrap().findings.iter().map(|f| f.trouble).collect()
    };
    assert!(troubles(&layout).contains(&Trouble::Lost), "{:?}", layout.check("file"));
    assert_eq!(layout.compact("file").unwrap_err().kind(), ErrorKind::Torn);
    assert!(layout.flatten("file", &Memory::new(), "plain").is_err());
    // It waits to be told: the rest of the log may come back.
    let left = fresh().repair("file", Accept::OPEN).unwrap();
    assert!(!left.is_empty() && left.iter().all(|f| f.left), "{left:?}");
    assert_eq!(fresh().repair("file", Accept { lost: true, ..Accept::SURE }).unwrap().len(), 1);
    let layout = fresh();
    assert_eq!(troubles(&layout), []);
    assert_eq!(read(&layout, "file").unwrap(), b"synced\0\0\0\0\0\0other");
    layout.compact("file").unwrap();
    assert_eq!(read(&fresh(), "file").unwrap(), b"synced\0\0\0\0\0\0other");
}

#[test]
fn a_punch_does_not_undo_the_truncation_of_another_process() {
    let store = memory();
    put(&over(&store), "file", &[1; 1000]);
    let mine = open(&over(&store), "file", OpenWrite::Existing, 1);
    let other = open(&over(&store), "file", OpenWrite::Existing, 2);
    other.truncate(10).unwrap();
    other.close().unwrap();
    mine.punch(0, 1000).unwrap();
    mine.close().unwrap();
    assert_eq!(read(&over(&store), "file").unwrap(), [0; 10]);
    assert_eq!(over(&store).stat("file").unwrap().length, 10);
}

#[test]
fn an_open_file_is_removed_without_a_lease_where_its_user_may_not_make_one_and_a_failed_lease_is_told() {
    for (fault, outcome) in [
        (Fault::of(StoreCall::OpenWrite).named("/unlinked").with(ErrorKind::PermissionDenied), Ok(())),
        (Fault::of(StoreCall::OpenWrite).named("/unlinked").with(ErrorKind::NoSpace), Ok(())),
        (Fault::of(StoreCall::OpenWrite).named("/unlinked").with(ErrorKind::Io), Err(ErrorKind::Io)),
        (Fault::of(StoreCall::Lease).named("/unlinked").with(ErrorKind::Io), Err(ErrorKind::Io)),
    ] {
        for replace in [false, true] {
            let scratch = Scratch::new();
            let failing = Arc::new(Failing::new(Arc::new(Posix::at(scratch.path()).unwrap())));
            let store: Arc<dyn Store> = failing.clone();
            let layout = in_folders(&[store]);
            put(&layout, "file", b"bytes");
            put(&layout, "other", b"other");
            let file = layout.open_read("file").unwrap();
            failing.fail(fault.clone());
            let done = if replace { layout.rename("other", "file") } else { layout.remove("file") };
            assert_eq!(done.map_err(|e| e.kind()), outcome, "{fault:?}, replace: {replace}");
            failing.heal();
            let mut bytes = [0; 5];
            file.read_exact_at(0, &mut bytes).unwrap();
            assert_eq!(&bytes, b"bytes");
            assert_eq!(layout.stat("file").is_ok(), replace || outcome.is_err());
        }
    }
}

/// On stores without attributes those of a folder lie in an object in it.
#[test]
fn an_empty_folder_that_is_not_removed_or_replaced_keeps_its_attributes() {
    let failing = Arc::new(Failing::new(memory()));
    let layout = over(&(failing.clone() as Arc<dyn Store>));
    layout.make_one_folder("a", 0o755).unwrap();
    layout.make_one_folder("a/empty", 0o700).unwrap();
    layout.make_one_folder("other", 0o755).unwrap();
    layout.xattr_set("a/empty", "user.k", b"value", SetXattr::Any).unwrap();
    let keeps = |about: &str| {
        assert_eq!(layout.xattr_get("a/empty", "user.k").unwrap().as_deref(), Some(&b"value"[..]), "{about}");
        assert_eq!(layout.attributes("a/empty").unwrap().mode & 0o777, 0o700, "{about}");
    };
    assert_eq!(layout.rename("a", "a/empty").unwrap_err().kind(), ErrorKind::InvalidArgument);
    keeps("renamed into itself");
    failing.fail(Fault::of(StoreCall::Rename).times(1));
    assert_eq!(layout.rename("other", "a/empty").unwrap_err().kind(), ErrorKind::Io);
    keeps("a rename failed");
    failing.fail(Fault::of(StoreCall::Remove).named("a/empty").skipping(1).times(1));
    assert_eq!(layout.remove("a/empty").unwrap_err().kind(), ErrorKind::Io);
    keeps("a removal failed");
    failing.fail(Fault::of(StoreCall::Remove).named("a/empty").times(1));
    assert_eq!(layout.remove("a/empty").unwrap_err().kind(), ErrorKind::Io);
    keeps("the removal of its attributes failed");
    failing.fail(Fault::of(StoreCall::List).named("a/empty").times(1));
    assert_eq!(layout.remove("a/empty").unwrap_err().kind(), ErrorKind::Io);
    keeps("the folder could not be listed");
    layout.rename("other", "a/empty").unwrap();
    assert_eq!(layout.xattr_get("a/empty", "user.k").unwrap(), None);
    layout.xattr_set("a/empty", "user.k", b"value", SetXattr::Any).unwrap();
    failing.write_all("a/empty/.thalweg.folder", b"torn").unwrap();
    layout.remove("a/empty").unwrap();
    assert_eq!(layout.list("a").unwrap(), [""; 0]);
}
