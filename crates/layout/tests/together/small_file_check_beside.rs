//! `check` of a `small_file` folder beside processes that create, append, rename, remove and compact: whatever they do at any moment of
//! the check, it reports no damage that is not there, and changes nothing.

use std::io::IoSlice;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use thalweg_conformance::scratch::Scratch;
use thalweg_layout::small_file::{Report, Settings};
use thalweg_layout::{Layout, OpenWrite, SmallFile, WriterId};
use thalweg_store::wrap::{Operation, StoreCall, Verdict, Watch, Wrapped};
use thalweg_store::{Memory, Posix, Store};
use thalweg_types::{Error, ErrorKind, mutex::Mutex};

const SMALL: u64 = 1000;

fn process(store: &Arc<dyn Store>) -> SmallFile {
    SmallFile::new(store.clone(), Settings { small: SMALL, ..Settings::default() }).unwrap()
}

fn put(layout: &SmallFile, name: &str, how: OpenWrite, length: usize) {
    let file = layout.open_write(name, how, WriterId(0)).unwrap();
    file.append(&[IoSlice::new(&vec![name.as_bytes()[0]; length])]).unwrap();
    file.close().unwrap();
}

type Change = Box<dyn FnOnce() + Send>;

/// Calls `change` before one operation of the check, and refuses the check what would change something.
struct Meanwhile {
    operations: AtomicUsize,
    at: usize,
    change: Mutex<Option<Change>>,
    /// What would change something.
    refused: Mutex<Vec<String>>,
}

impl Watch for Meanwhile {
    fn describe(&self) -> &'static str {
        "meanwhile"
    }

    fn before(&self, operation: &Operation<'_>) -> Verdict {
        let looks = [StoreCall::OpenRead, StoreCall::Stat, StoreCall::List, StoreCall::Length, StoreCall::Read]
            .into_iter()
            .chain([StoreCall::Attributes, StoreCall::Lease])
            .any(|call| call == operation.asked);
        if !looks {
            let what = format!("{:?} of {}", operation.asked, operation.name);
            self.refused.lock().push(what.clone());
            return Verdict::Fail(Error::new(ErrorKind::PermissionDenied, what));
        }
        if self.operations.fetch_add(1, Ordering::SeqCst) == self.at
            && let Some(change) = self.change.lock().take()
        {
            change();
        }
        Verdict::Pass
    }
}

/// Checks with a change before operation `at`; returns also whether the check came that far.
fn check(store: &Arc<dyn Store>, at: usize, change: Change, about: &str) -> (Report, bool) {
    let watch =
        Meanwhile { operations: AtomicUsize::new(0), at, change: Mutex::new(Some(change)), refused: Mutex::default() };
    let watched = Arc::new(Wrapped::with(store.clone(), watch));
    let checking: Arc<dyn Store> = watched.clone();
    let report = process(&checking).check("", true).unwrap_or_else(|e| panic!("{about}, operation {at}: {e:?}"));
    let refused = watched.watch().refused.lock().clone();
    assert!(refused.is_empty(), "{about}, operation {at}: the check asked for {refused:?}");
    (report, watched.watch().operations.load(Ordering::SeqCst) > at)
}

/// What lies in a folder and below: names, lengths, times, bytes.
fn all(folder: &Path) -> Vec<(std::path::PathBuf, u64, std::time::SystemTime, Vec<u8>)> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap()) {
        let about = entry.metadata().unwrap();
        if about.is_dir() {
            found.extend(all(&entry.path()));
        }
        let bytes = if about.is_dir() { Vec::new() } else { std::fs::read(entry.path()).unwrap() };
        found.push((entry.path(), about.len(), about.modified().unwrap(), bytes));
    }
    found.sort();
    found
}

/// Small files and large ones, in logs that ended and in one that its process still writes.
fn filled(store: &Arc<dyn Store>) -> SmallFile {
    let earlier = process(store);
    for name in ["a", "b", "c"] {
        put(&earlier, name, OpenWrite::New, 100);
    }
    put(&earlier, "Large", OpenWrite::New, 3000);
    earlier.remove("c").unwrap();
    drop(earlier);
    let living = process(store);
    for name in ["d", "e"] {
        put(&living, name, OpenWrite::New, 200);
    }
    put(&living, "Own", OpenWrite::New, 2000);
    living
}

#[test]
fn a_check_beside_a_living_writer_changes_nothing() {
    let scratch = Scratch::new();
    let store: Arc<dyn Store> = Arc::new(Posix::at(scratch.path()).unwrap());
    let _living = filled(&store);
    let before = all(scratch.path());
    let (report, _) = check(&store, usize::MAX, Box::new(|| ()), "nothing else happens");
    assert_eq!((report.files, report.own, report.logs, report.live), (6, 2, 2, 1), "{report:?}");
    assert!(report.damaged.is_empty() && report.torn.is_empty(), "{report:?}");
    assert!(all(scratch.path()) == before, "something was changed");
}

#[test]
fn what_other_processes_do_at_any_moment_is_no_damage() {
    type Does = fn(&SmallFile);
    let changes: &[(&str, Does)] = &[
        ("removes a small file", |by| by.remove("a").unwrap()),
        ("removes its own small file", |by| by.remove("d").unwrap()),
        ("removes a large file", |by| by.remove("Large").unwrap()),
        ("removes all", |by| by.list("").unwrap().iter().for_each(|name| by.remove(name).unwrap())),
        ("appends", |by| ["a", "d", "Large", "Own"].iter().for_each(|name| put(by, name, OpenWrite::Existing, 50))),
        ("lets small files grow", |by| ["a", "d"].iter().for_each(|name| put(by, name, OpenWrite::Existing, 3000))),
        ("replaces large files by small ones", |by| {
            for name in ["Large", "Own"] {
                put(by, "new", OpenWrite::New, 10);
                by.rename("new", name).unwrap();
            }
        }),
        ("replaces small files", |by| ["a", "d"].iter().for_each(|name| put(by, name, OpenWrite::Replace, 70))),
        ("renames", |by| ["a", "Large", "Own"].iter().for_each(|name| by.rename(name, &format!("{name}2")).unwrap())),
        ("moves to another folder", |by| {
            by.make_folder("f").unwrap();
            ["a", "Large", "Own"].iter().for_each(|name| by.rename(name, &format!("f/{name}")).unwrap());
        }),
        ("creates", |by| ["x", "Xl"].iter().for_each(|name| put(by, name, OpenWrite::New, 20 * name.len().pow(7)))),
        ("ends its log", |by| by.finish().unwrap()),
        ("compacts", |by| assert!(by.compact("").unwrap().logs > 0)),
        ("removes and compacts", |by| {
            ["a", "d", "Large", "Own"].iter().for_each(|name| by.remove(name).unwrap());
            by.compact("").unwrap();
        }),
    ];
    for memory in [false, true] {
        for (change, does) in changes {
            for at in 0.. {
                let scratch = Scratch::new();
                let store: Arc<dyn Store> = match memory {
                    true => Arc::new(Memory::new()),
                    false => Arc::new(Posix::at(scratch.path()).unwrap()),
                };
                let living = Arc::new(filled(&store));
                let about = format!("memory: {memory}, another {change}");
                let by = living.clone();
                let (report, came) = check(&store, at, Box::new(move || does(&by)), &about);
                assert!(report.damaged.is_empty() && report.torn.is_empty(), "{about}, operation {at}: {report:?}");
                if !came {
                    assert!(at > 20, "{about}: {at} operations");
                    break;
                }
            }
        }
    }
}

#[test]
fn a_record_that_a_living_process_is_writing_is_not_torn_and_one_of_a_dead_process_is() {
    // Half a record: its fixed part and some of the head.
    let half = [&b"TSFR"[..], &40u32.to_le_bytes(), &100u32.to_le_bytes(), &[1, 2, 3]].concat();
    for at in 0.. {
        let scratch = Scratch::new();
        let store: Arc<dyn Store> = Arc::new(Posix::at(scratch.path()).unwrap());
        let living = filled(&store);
        let hidden = scratch.path().join(".thalweg-small");
        let logs = || std::fs::read_dir(&hidden).unwrap().map(|entry| entry.unwrap().path());
        let is_log = |path: &std::path::PathBuf| path.file_name().unwrap().to_str().unwrap().starts_with("data.");
        // The log that does not end with an end mark: kind 2, and its checksum.
        let mark = thalweg_layout::small_file::record::FIXED as usize + 1 + 4;
        let open = logs().filter(is_log).find(|path| {
            let bytes = std::fs::read(path).unwrap();
            let last = &bytes[bytes.len().saturating_sub(mark)..];
            !(last.starts_with(b"TSFR") && last[mark - 5] == 2)
        });
        let open = open.expect("a log that is open");
        let mut bytes = std::fs::read(&open).unwrap();
        bytes.extend(&half);
        std::fs::write(&open, &bytes).unwrap();
        // It ends its log, over the half record.
        let (report, came) = check(&store, at, Box::new(move || drop(living)), "half a record");
        assert!(report.torn.is_empty() && report.damaged.is_empty(), "operation {at}: {report:?}");
        if came {
            continue;
        }
        // A log of a process that died looks the same, without a lease.
        let dead = hidden.join("data.00000000000000aa");
        bytes[12..20].copy_from_slice(&0xaau64.to_le_bytes());
        let header = thalweg_layout::small_file::record::header(0xaa, false);
        bytes[..header.len()].copy_from_slice(&header);
        std::fs::write(&dead, &bytes).unwrap();
        let (report, _) = check(&store, usize::MAX, Box::new(|| ()), "a dead process");
        assert_eq!(report.torn.len(), 1, "{report:?}");
        assert!(report.torn[0].0.ends_with("data.00000000000000aa"), "{report:?}");
        break;
    }
}

#[test]
fn damage_that_is_there_is_reported_beside_a_living_writer() {
    let scratch = Scratch::new();
    let store: Arc<dyn Store> = Arc::new(Posix::at(scratch.path()).unwrap());
    let _living = filled(&store);
    let hidden = scratch.path().join(".thalweg-small");
    for entry in std::fs::read_dir(&hidden).unwrap().map(|entry| entry.unwrap().path()) {
        let name = entry.file_name().unwrap().to_str().unwrap().to_string();
        if name.starts_with("own.") && std::fs::metadata(&entry).unwrap().len() == 3000 {
            std::fs::remove_file(&entry).unwrap();
        } else if name.starts_with("data.") {
            // The bytes of files `b` and `e`.
            let bytes = std::fs::read(&entry).unwrap();
            let changed: Vec<u8> =
                bytes.iter().map(|byte| if matches!(byte, b'b' | b'e') { b'!' } else { *byte }).collect();
            let runs = |bytes: &[u8], at: usize| bytes[at..].iter().take_while(|byte| **byte == b'!').count();
            let at = (0..bytes.len()).find(|at| runs(&changed, *at) >= 100).unwrap();
            let mut bytes = bytes;
            bytes[at + 1] = b'!';
            std::fs::write(&entry, bytes).unwrap();
        }
    }
    let (report, _) = check(&store, usize::MAX, Box::new(|| ()), "damage");
    let names: Vec<&str> = report.damaged.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["Large", "b", "e"], "{report:?}");
}
