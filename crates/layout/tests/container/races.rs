//! Processes that open, write, close, look after and look at one file at the same moment: nothing that was closed is lost, and
//! nobody is told of damage where everything is healthy.

use super::{Module, in_folders, open, over, process, put, read, write};
use std::collections::BTreeMap;
use std::io::IoSlice;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Barrier};
use std::time::{Duration, Instant, UNIX_EPOCH};
use thalweg_conformance::scratch::Scratch;
use thalweg_layout::container::tools::{Accept, Trouble};
use thalweg_layout::{Change, Container, Layout, OpenWrite, SetXattr, WriteObject, WriterId};
use thalweg_store::wrap::{Operation, StoreCall, Verdict, Watch, Wrapped};
use thalweg_store::{Memory, Posix, Store, StoreExt};
use thalweg_types::ErrorKind;

const CHILD: &str = "THALWEG_TEST_WRITES_IN";
const NUMBER: &str = "THALWEG_TEST_NUMBER";

fn posix(folder: &Path) -> Arc<dyn Store> {
    Arc::new(Posix::at(folder).unwrap())
}

fn append(object: &dyn WriteObject, bytes: &[u8]) {
    object.append(&[IoSlice::new(bytes)]).unwrap();
}

/// Not a test of its own: a process that opens, appends and closes until it is told to stop. It keeps a handle that it uses later,
/// writes through it, syncs now and then, and says how many lines it closed.
#[test]
fn the_one_who_writes() {
    let Ok(folder) = std::env::var(CHILD) else { return };
    let number: u64 = std::env::var(NUMBER).unwrap().parse().unwrap();
    let mut random = fastrand::Rng::with_seed(number);
    let store = posix(&Path::new(&folder).join("store"));
    let buffer = [0, 200, 2 << 20][number as usize % 3];
    let layout = process(&[store], Module::Pattern, buffer);
    let mut line = 0u64;
    let mut idle: Option<(u32, Box<dyn WriteObject>)> = None;
    let stop = Path::new(&folder).join("stop");
    let lines = |object: &dyn WriteObject, line: &mut u64, count: u64| {
        for _ in 0..count {
            append(object, format!("{number} {line}\n").as_bytes());
            *line += 1;
        }
    };
    while !stop.exists() {
        let file = open(&layout, "file", OpenWrite::Any, random.u32(0..3));
        lines(&*file, &mut line, random.u64(1..4));
        if random.u8(0..8) == 0 {
            file.sync().unwrap();
            lines(&*file, &mut line, 1);
        }
        file.close().unwrap();
        match idle.take() {
            None => idle = Some((random.u32(1..6), open(&layout, "file", OpenWrite::Existing, 7))),
            Some((0, file)) => {
                lines(&*file, &mut line, 2);
                file.close().unwrap();
            }
            Some((left, file)) => idle = Some((left - 1, file)),
        }
    }
    drop(idle);
    std::fs::write(Path::new(&folder).join(format!("wrote.{number}")), line.to_string()).unwrap();
}

fn writers(folder: &Path, seed: u64, count: u64) -> Vec<Child> {
    let child = |number: u64| {
        Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "races::the_one_who_writes", "--nocapture", "--test-threads=1"])
            .env(CHILD, folder)
            .env(NUMBER, (seed * 100 + number).to_string())
            .stdout(Stdio::null())
            .spawn()
            .unwrap()
    };
    (0..count).map(child).collect()
}

/// Every line that a writer closed is there, once, and those of one handle are in their order.
fn all_is_there(folder: &Path, bytes: &[u8], seed: u64, count: u64, words: &str) {
    let mut found: BTreeMap<u64, Vec<u64>> = BTreeMap::new();
    for line in std::str::from_utf8(bytes).unwrap_or_else(|e| panic!("{words}: {e}")).lines() {
        let (number, line) = line.split_once(' ').unwrap_or_else(|| panic!("{words}: a torn line {line:?}"));
        found.entry(number.parse().unwrap()).or_default().push(line.parse().unwrap());
    }
    for number in (0..count).map(|k| seed * 100 + k) {
        let wrote: u64 = std::fs::read_to_string(folder.join(format!("wrote.{number}"))).unwrap().parse().unwrap();
        let mut lines = found.remove(&number).unwrap_or_default();
        lines.sort_unstable();
        let missing: Vec<u64> = (0..wrote).filter(|line| lines.binary_search(line).is_err()).collect();
        assert!(missing.is_empty(), "{words}: of {wrote} lines of writer {number} these are lost: {missing:?}");
        assert_eq!(lines.len() as u64, wrote, "{words}: writer {number} has lines twice");
        assert!(wrote > 0, "{words}: writer {number} wrote nothing");
    }
}

/// What is done to the file while others write it.
type Tool = fn(&Container, &Path) -> Result<(), String>;

/// A failure that says that the file is being written is an answer; any other is not.
fn fine<T>(outcome: thalweg_types::Result<T>) -> Result<Option<T>, String> {
    match outcome {
        Ok(done) => Ok(Some(done)),
        Err(e) if e.kind() == ErrorKind::NotReady => Ok(None),
        Err(e) => Err(e.to_string()),
    }
}

fn repairs(layout: &Container, _: &Path) -> Result<(), String> {
    match fine(layout.repair("file", Accept::SURE))? {
        Some(done) if !done.is_empty() => Err(format!("repaired what was whole: {done:?}")),
        _ => Ok(()),
    }
}

fn checks(layout: &Container, _: &Path) -> Result<(), String> {
    let report = layout.check("file").map_err(|e| e.to_string())?;
    if report.is_clean() { Ok(()) } else { Err(format!("{:?}", report.findings)) }
}

fn compacts(layout: &Container, _: &Path) -> Result<(), String> {
    fine(layout.compact("file")).map(|_| ())
}

fn flattens(layout: &Container, folder: &Path) -> Result<(), String> {
    let name = folder.join("flat").to_str().unwrap().to_string();
    let _ = std::fs::remove_file(&name);
    let flat = fine(layout.flatten("file", &Posix::plain(), &name))?;
    let whole = flat.is_none() || std::fs::read(&name).is_ok_and(|bytes| bytes.is_empty() || bytes.ends_with(b"\n"));
    if whole { Ok(()) } else { Err("flattened a torn line".into()) }
}

fn snapshots(layout: &Container, _: &Path) -> Result<(), String> {
    fine(layout.snapshot("file")).map(|_| ())
}

fn reads(layout: &Container, _: &Path) -> Result<(), String> {
    // Writers continue: the file may be longer a moment after its length was read. If the bytes moved meanwhile, `read` looks again, and
    // appends of processes that had not seen each other may then lie in front of bytes that were counted. So a torn end is a
    // failure only if it is there each time.
    for _ in 0..5 {
        let file = layout.open_read("file").map_err(|e| e.to_string())?;
        let mut bytes = vec![0; file.length().map_err(|e| e.to_string())? as usize];
        file.read_exact_at(0, &mut bytes).map_err(|e| e.to_string())?;
        if bytes.is_empty() || bytes.ends_with(b"\n") {
            return Ok(());
        }
    }
    Err("read a torn line".into())
}

fn touches(layout: &Container, _: &Path) -> Result<(), String> {
    let time = UNIX_EPOCH + Duration::from_secs(1_000_000);
    layout.set_attributes("file", &Change { atime: Some(time), ..Change::default() }).map_err(|e| e.to_string())?;
    layout.attributes("file").map(|_| ()).map_err(|e| e.to_string())
}

const TOOLS: [(&str, Tool); 7] = [
    ("repair", repairs),
    ("check", checks),
    ("compact", compacts),
    ("flatten", flattens),
    ("snapshot", snapshots),
    ("read", reads),
    ("touch", touches),
];

fn beside_writers(tool: &str, runs: &[Tool], seed: u64, count: u64, length: Duration) {
    let scratch = Scratch::new();
    let folder = scratch.join("store");
    std::fs::create_dir(&folder).unwrap();
    let store = posix(&folder);
    put(&over(&store), "file", b"");
    let children = writers(scratch.path(), seed, count);
    let started = Instant::now();
    let (mut failures, mut rounds) = (Vec::new(), 0);
    while started.elapsed() < length {
        for run in runs {
            // As a command does: a process of its own each time, as far as what it knows of the file goes.
            failures.extend(run(&over(&store), scratch.path()).err());
            rounds += 1;
        }
    }
    std::fs::write(scratch.join("stop"), b"").unwrap();
    for mut child in children {
        assert!(child.wait().unwrap().success(), "{tool}, seed {seed}: a writer failed");
    }
    let words = format!("{tool}, seed {seed}, {rounds} rounds");
    let bytes = read(&over(&store), "file").unwrap_or_else(|e| panic!("{words}: {e}"));
    all_is_there(scratch.path(), &bytes, seed, count, &words);
    assert!(failures.is_empty(), "{words}: {} failures, the first {}", failures.len(), failures[0]);
    let report = over(&store).check("file").unwrap();
    assert!(report.is_clean(), "{words}: {report:?}");
    // Nobody writes now: the tools do all they can, and the bytes are the same.
    over(&store).repair("file", Accept::SURE).unwrap();
    over(&store).compact("file").unwrap();
    assert!(read(&over(&store), "file").unwrap() == bytes, "{words}: compacted");
    assert_eq!(over(&store).check("file").unwrap().findings, [], "{words}");
}

fn seeds() -> u64 {
    std::env::var("THALWEG_TEST_SEEDS").ok().and_then(|seeds| seeds.parse().ok()).unwrap_or(1)
}

#[test]
fn each_tool_beside_living_writers_loses_nothing_and_finds_nothing_broken() {
    for seed in 0..seeds() {
        for (name, tool) in TOOLS {
            beside_writers(name, &[tool], seed, 2, Duration::from_millis(1200));
        }
    }
}

#[test]
fn all_tools_together_beside_living_writers_lose_nothing() {
    for seed in 0..seeds() {
        beside_writers("all", &TOOLS.map(|(_, tool)| tool), 50 + seed, 3, Duration::from_secs(4));
    }
}

#[test]
fn appends_of_many_processes_land_once_each() {
    for seed in 0..seeds() {
        beside_writers(
            "nothing",
            &[|_, _| {
                std::thread::sleep(Duration::from_millis(50));
                Ok(())
            }],
            80 + seed,
            6,
            Duration::from_secs(2),
        );
    }
}

/// Runs these until one of them has done its share; a failure of any is the test's.
fn together(tasks: &[&(dyn Fn(u64) + Sync)], rounds: u64) {
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for task in tasks {
            let done = &done;
            scope.spawn(move || {
                struct Ends<'a>(&'a AtomicBool);
                impl Drop for Ends<'_> {
                    fn drop(&mut self) {
                        self.0.store(true, Ordering::Relaxed);
                    }
                }
                let _ends = Ends(done);
                for round in 0..rounds {
                    if done.load(Ordering::Relaxed) && round > rounds / 10 {
                        break;
                    }
                    task(round);
                }
            });
        }
    });
}

#[test]
fn attributes_are_changed_beside_stat_without_an_error_and_no_change_is_lost() {
    let scratch = Scratch::new();
    let store = posix(scratch.path());
    put(&over(&store), "file", b"bytes");
    let time = |round: u64| UNIX_EPOCH + Duration::from_secs(1_000_000 + round);
    const ROUNDS: u64 = 400;
    let change = |change: Change| over(&store).set_attributes("file", &change).unwrap();
    std::thread::scope(|scope| {
        let done = Arc::new(AtomicBool::new(false));
        for _ in 0..2 {
            let (store, done) = (&store, done.clone());
            scope.spawn(move || {
                while !done.load(Ordering::Relaxed) {
                    let about = over(store).attributes("file").unwrap();
                    assert_eq!(about.length, 5);
                    over(store).xattr_list("file").unwrap();
                    assert_eq!(read(&over(store), "file").unwrap(), b"bytes");
                }
            });
        }
        let (change, store) = (&change, &store);
        // Each is the only one who changes this: what it set is there until it sets it again.
        let changes = [
            scope.spawn(move || {
                for mode in (0..ROUNDS).map(|round| 0o600 + (round % 64) as u32) {
                    change(Change { mode: Some(mode), ..Change::default() });
                    assert_eq!(over(store).attributes("file").unwrap().mode, mode);
                }
            }),
            scope.spawn(move || {
                for atime in (0..ROUNDS).map(time) {
                    change(Change { atime: Some(atime), ..Change::default() });
                    assert_eq!(over(store).attributes("file").unwrap().atime, atime);
                }
            }),
            scope.spawn(move || {
                for round in 0..ROUNDS {
                    let (key, value) = (format!("user.{}", round % 50), round.to_le_bytes());
                    over(store).xattr_set("file", &key, &value, SetXattr::Any).unwrap();
                    assert_eq!(over(store).xattr_get("file", &key).unwrap().unwrap(), value);
                }
            }),
        ];
        let ended = changes.map(|change| change.join());
        done.store(true, Ordering::Relaxed);
        ended.into_iter().for_each(|end| end.unwrap());
    });
    let about = over(&store).attributes("file").unwrap();
    assert_eq!((about.mode, about.atime), (0o600 + ((ROUNDS - 1) % 64) as u32, time(ROUNDS - 1)));
    assert_eq!(over(&store).xattr_list("file").unwrap().len(), 50, "each change keeps the others'");
}

#[test]
fn files_are_made_written_replaced_and_removed_beside_readers_without_an_error() {
    many_at_once(&(Arc::new(Memory::new()) as Arc<dyn Store>));
    let scratch = Scratch::new();
    many_at_once(&posix(scratch.path()));
}

fn many_at_once(store: &Arc<dyn Store>) {
    let missing = |e: &thalweg_types::Error| e.kind() == ErrorKind::NotFound;
    let makes = |round: u64| {
        let layout = over(store);
        let file = layout.open_write(&format!("file{}", round % 3), OpenWrite::Replace, WriterId(1)).unwrap();
        write(&*file, 0, b"0123456789");
        file.close().unwrap();
    };
    let appends = |round: u64| {
        let layout = over(store);
        let file = layout.open_write(&format!("file{}", round % 3), OpenWrite::Any, WriterId(2)).unwrap();
        append(&*file, b"x");
        file.close().unwrap();
    };
    let reads = |round: u64| match over(store).open_read(&format!("file{}", round % 3)) {
        Ok(file) => {
            let mut bytes = [0; 100];
            let mut at = 0;
            loop {
                match file.read_at(at, &mut bytes) {
                    Ok(0) => break,
                    Ok(got) => at += got as u64,
                    Err(e) => panic!("reading: {e}"),
                }
            }
        }
        Err(e) => assert!(missing(&e), "opening: {e}"),
    };
    let stats = |round: u64| {
        if let Err(e) = over(store).attributes(&format!("file{}", round % 3)) {
            assert!(missing(&e), "stat: {e}");
        }
    };
    together(&[&makes, &appends, &appends, &reads, &reads, &stats], 300);
    for number in 0..3 {
        let name = format!("file{number}");
        read(&over(store), &name).unwrap();
        let report = over(store).check(&name).unwrap();
        assert!(report.is_clean(), "{report:?}");
    }
}

#[test]
fn a_handle_that_was_open_all_along_writes_behind_what_others_cut_and_compacted() {
    for append_it in [false, true] {
        let store: Arc<dyn Store> = Arc::new(Memory::new());
        put(&over(&store), "file", b"0123456789");
        let early = over(&store);
        let idle = open(&early, "file", OpenWrite::Existing, 1);
        for _ in 0..3 {
            let cutter = open(&over(&store), "file", OpenWrite::Existing, 2);
            cutter.truncate(0).unwrap();
            write(&*cutter, 0, b"xyz");
            cutter.close().unwrap();
        }
        over(&store).compact("file").unwrap();
        match append_it {
            true => append(&*idle, b"idle"),
            false => write(&*idle, 3, b"idle"),
        }
        idle.close().unwrap();
        assert_eq!(read(&over(&store), "file").unwrap(), b"xyzidle", "appended: {append_it}");
        assert_eq!(read(&early, "file").unwrap(), b"xyzidle", "in its own process");
    }
}

#[test]
fn a_dead_writer_leaves_a_file_that_ends_and_holes_that_are_errors() {
    let store = Arc::new(thalweg_store::wrap::Forgetful::new());
    let shared: Arc<dyn Store> = store.clone();
    let layout = process(std::slice::from_ref(&shared), Module::Pattern, 0);
    put(&layout, "file", b"closed");
    let file = open(&layout, "file", OpenWrite::Existing, 1);
    write(&*file, 6, b" and handed on");
    write(&*file, 30, b"behind a hole");
    let left: Arc<dyn Store> = Arc::new(store.crash_after(store.operations()));
    let reader = over(&left).open_read("file").unwrap();
    let (mut head, mut hole) = ([0; 20], [0; 1]);
    reader.read_exact_at(0, &mut head).unwrap();
    assert_eq!(&head, b"closed and handed on");
    assert_eq!(reader.read_at(25, &mut hole).unwrap_err().kind(), ErrorKind::Torn, "nothing is known of the hole");
    assert_eq!(reader.length().unwrap(), 43);
    assert_eq!(reader.read_at(43, &mut hole).unwrap(), 0, "the end is an end, through every door");
    let plain = Memory::new();
    assert_eq!(over(&left).flatten("file", &plain, "flat").unwrap_err().kind(), ErrorKind::Torn, "tools say so");
    assert!(plain.stat("flat").is_err());
    assert!(over(&left).check("file").unwrap().findings.iter().any(|f| f.trouble == Trouble::Died));
}

#[test]
fn a_file_that_is_written_is_not_flattened() {
    let store: Arc<dyn Store> = Arc::new(Memory::new());
    put(&over(&store), "file", b"closed");
    let (layout, plain) = (over(&store), Memory::new());
    let file = open(&layout, "file", OpenWrite::Existing, 1);
    write(&*file, 6, b" and more");
    for layout in [&over(&store), &layout] {
        assert_eq!(layout.flatten("file", &plain, "flat").unwrap_err().kind(), ErrorKind::NotReady);
        assert_eq!(layout.settled("file").unwrap_err().kind(), ErrorKind::NotReady);
        assert!(plain.stat("flat").is_err(), "and nothing is left of the try");
    }
    file.close().unwrap();
    assert_eq!(over(&store).flatten("file", &plain, "flat").unwrap(), 15);
}

#[test]
fn a_name_whose_making_was_interrupted_reads_as_empty_and_several_that_write_to_it_make_one_file() {
    let scratch = Scratch::new();
    let store = posix(scratch.path());
    put(&over(&store), "other", b"");
    store.write_all("file", b"").unwrap();
    assert_eq!(read(&over(&store), "file").unwrap(), b"");
    assert_eq!(over(&store).stat("file").unwrap().length, 0);
    std::thread::scope(|scope| {
        for writer in 0..6u32 {
            let store = &store;
            scope.spawn(move || {
                let layout = over(store);
                let file = open(&layout, "file", OpenWrite::Any, writer);
                append(&*file, format!("{writer}\n").as_bytes());
                file.close().unwrap();
            });
        }
    });
    let bytes = read(&over(&store), "file").unwrap();
    let mut lines: Vec<&str> = std::str::from_utf8(&bytes).unwrap().lines().collect();
    lines.sort_unstable();
    assert_eq!(lines, ["0", "1", "2", "3", "4", "5"]);
}

#[test]
fn an_empty_name_that_another_process_fills_at_any_call_is_the_file_then() {
    const BYTES: &[u8] = b"made meanwhile";
    type Call = fn(&Container) -> bool; // whether it saw the bytes; else it saw an empty file
    let calls: [(&str, Call); 3] = [
        ("read", |layout| {
            let bytes = read(layout, "file").unwrap();
            assert!(bytes.is_empty() || bytes == BYTES, "{bytes:?}");
            !bytes.is_empty()
        }),
        ("stat", |layout| match layout.stat("file").unwrap().length {
            0 => false,
            length => length == BYTES.len() as u64,
        }),
        ("append", |layout| {
            let file = open(layout, "file", OpenWrite::Any, 7);
            append(&*file, b"!");
            file.close().unwrap();
            read(layout, "file").unwrap() == [BYTES, b"!"].concat()
        }),
    ];
    let run = |call: Call, at: Option<u64>| {
        let scratch = Scratch::new();
        let store = posix(scratch.path());
        put(&over(&store), "made", BYTES);
        store.write_all("file", b"").unwrap();
        let filling = Filling { at, calls: 0.into(), filled: false.into(), inner: store.clone() };
        let around = Arc::new(Wrapped::with(store.clone(), filling));
        let saw = call(&over(&(around.clone() as Arc<dyn Store>)));
        let watch = around.watch();
        (saw, watch.calls.load(Ordering::SeqCst), watch.filled.load(Ordering::SeqCst))
    };
    // A name is taken for an interrupted one after some patience, so all wait at the same time.
    std::thread::scope(|scope| {
        for (name, call) in calls {
            let run = &run;
            scope.spawn(move || {
                let (_, last, _) = run(call, None);
                std::thread::scope(|scope| {
                    for at in last.saturating_sub(24)..last {
                        scope.spawn(move || {
                            let (saw, _, filled) = run(call, Some(at));
                            let lost = name == "append" && filled && !saw;
                            assert!(!lost, "filled at call {at} of {last}: bytes are lost");
                        });
                    }
                });
            });
        }
    });
}

/// Gives a file that was made the name `file`, which is there and empty, at one call.
struct Filling {
    at: Option<u64>,
    calls: AtomicU64,
    filled: AtomicBool,
    inner: Arc<dyn Store>,
}

impl Watch for Filling {
    fn describe(&self) -> &'static str {
        "filling"
    }

    fn before(&self, _: &Operation<'_>) -> Verdict {
        // Under its lock, as all who make a file of an empty name.
        if Some(self.calls.fetch_add(1, Ordering::SeqCst)) == self.at
            && let Some(_alone) = self.inner.lock("file", false).unwrap()
            && self.inner.stat("file").unwrap().length == 0
        {
            self.inner.rename("made", "file").unwrap();
            self.filled.store(true, Ordering::SeqCst);
        }
        Verdict::Pass
    }
}

/// What lies in a file's folder of marks, by the letter that a name begins with.
fn marks(folder: &Path) -> String {
    let lists = |folder: &Path| std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let groups = lists(&folder.join(".thalweg/c"));
    let containers = groups.flat_map(|group| lists(&group).collect::<Vec<_>>());
    let names = containers.flat_map(|container| lists(&container.join("m")).collect::<Vec<_>>());
    let mut letters: Vec<char> =
        names.map(|name| name.file_name().unwrap().to_str().unwrap().chars().next().unwrap()).collect();
    letters.sort_unstable();
    letters.into_iter().collect()
}

#[test]
fn a_writer_that_lives_is_not_taken_for_dead_whatever_it_published() {
    let scratch = Scratch::new();
    let store = posix(scratch.path());
    let layout = in_folders(std::slice::from_ref(&store));
    let file = open(&layout, "file", OpenWrite::New, 0);
    write(&*file, 0, b"shown");
    assert_eq!(marks(scratch.path()), "o");
    file.publish().unwrap();
    assert_eq!(marks(scratch.path()), "p", "nothing is outstanding: the mark of the beginning becomes it");
    let left_alone = |words: &str| {
        let other = over(&store);
        for all in [false, true] {
            assert_eq!(other.repair("file", Accept { open: all, ..Accept::SURE }).unwrap(), [], "{words}");
        }
        assert_eq!(other.compact("file").unwrap_err().kind(), ErrorKind::NotReady, "{words}");
        let found: Vec<Trouble> = other.check("file").unwrap().findings.iter().map(|f| f.trouble).collect();
        assert_eq!(found, [Trouble::Writing], "{words}");
    };
    left_alone("published");
    assert_eq!(read(&over(&store), "file").unwrap(), b"shown");
    write(&*file, 5, b", more");
    assert_eq!(marks(scratch.path()), "op", "more than is published");
    left_alone("published and writing on");
    file.publish().unwrap();
    left_alone("published twice");
    file.close().unwrap();
    assert_eq!(marks(scratch.path()), "c");
    assert_eq!(read(&over(&store), "file").unwrap(), b"shown, more");
    assert!(over(&store).check("file").unwrap().findings.is_empty());
}

#[test]
fn of_a_process_that_died_behind_what_it_published_nothing_is_missing() {
    let store = Arc::new(thalweg_store::wrap::Forgetful::new());
    let shared: Arc<dyn Store> = store.clone();
    let file = open(&over(&shared), "file", OpenWrite::New, 0);
    write(&*file, 0, b"shown");
    write(&*file, 10, b"behind a hole");
    file.publish().unwrap();
    let left: Arc<dyn Store> = Arc::new(store.crash_after(store.operations()));
    assert_eq!(read(&over(&left), "file").unwrap(), b"shown\0\0\0\0\0behind a hole");
    let file = open(&over(&left), "file", OpenWrite::Existing, 1);
    write(&*file, 5, b"12345");
    file.close().unwrap();
    assert_eq!(read(&over(&left), "file").unwrap(), b"shown12345behind a hole");
    assert_eq!(over(&left).repair("file", Accept::OPEN).unwrap().len(), 1);
    assert!(over(&left).check("file").unwrap().findings.is_empty());
    assert_eq!(read(&over(&left), "file").unwrap(), b"shown12345behind a hole");
}

/// Stops a reader, by its thread's name, once it has read the object of a name, and a writer before it removes the first object of a
/// container.
struct Meeting {
    read: Barrier,
    go_on: Barrier,
    removing: Barrier,
    remove: Barrier,
    met: [AtomicBool; 2],
}

impl Watch for Meeting {
    fn describe(&self) -> &'static str {
        "meeting"
    }

    fn before(&self, operation: &Operation<'_>) -> Verdict {
        let mine = std::thread::current().name() == Some("writer");
        let removes = operation.asked == StoreCall::Remove && operation.name.ends_with("/stamp");
        if mine && removes && !self.met[1].swap(true, Ordering::SeqCst) {
            self.removing.wait();
            self.remove.wait();
        }
        Verdict::Pass
    }

    fn after(&self, operation: &Operation<'_>, _: std::result::Result<u64, &thalweg_types::Error>) {
        let mine = std::thread::current().name() == Some("reader");
        if mine
            && matches!(operation.asked, StoreCall::OpenRead | StoreCall::Read)
            && operation.name == "f"
            && !self.met[0].swap(true, Ordering::SeqCst)
        {
            self.read.wait();
            self.go_on.wait();
        }
    }
}

#[test]
fn who_read_a_name_just_before_its_file_was_replaced_gets_the_new_one_while_the_old_one_is_being_removed() {
    let barrier = || Barrier::new(2);
    let met = [AtomicBool::new(false), AtomicBool::new(false)];
    let meeting = Meeting { read: barrier(), go_on: barrier(), removing: barrier(), remove: barrier(), met };
    let around = Arc::new(Wrapped::with(Arc::new(Memory::new()), meeting));
    let layout = in_folders(&[around.clone() as Arc<dyn Store>]);
    put(&layout, "f", b"old");
    put(&layout, "new", b"new");
    std::thread::scope(|scope| {
        let named = |name: &str| std::thread::Builder::new().name(name.into());
        let reader = named("reader").spawn_scoped(scope, || layout.open_read("f")).unwrap();
        let meeting = around.watch();
        meeting.read.wait();
        let writer = named("writer").spawn_scoped(scope, || layout.rename("new", "f")).unwrap();
        meeting.removing.wait();
        meeting.go_on.wait();
        let file = reader.join().unwrap().unwrap();
        meeting.remove.wait();
        writer.join().unwrap().unwrap();
        let mut bytes = [0; 3];
        file.read_exact_at(0, &mut bytes).unwrap();
        assert_eq!(&bytes, b"new");
    });
    drop(layout);
    let groups = around.list(".thalweg/c").unwrap();
    let containers = groups.iter().map(|group| around.list(&format!(".thalweg/c/{group}")).unwrap().len());
    assert_eq!(containers.sum::<usize>(), 1, "the old container is gone");
}
