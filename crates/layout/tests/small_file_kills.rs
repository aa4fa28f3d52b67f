//! `small_file` when a writer dies or the power goes: what was closed survives the process, what was synced the machine, and
//! nothing reads as bytes that nobody wrote.
//!
//! The process that is killed is this test program again. It says what it is about to do, does it, and says that it did.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, IoSlice, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;
use thalweg_conformance::scratch::Scratch;
use thalweg_layout::small_file::Settings;
use thalweg_layout::{Kind, Layout, OpenWrite, SetXattr, SmallFile, WriterId};
use thalweg_store::wrap::Forgetful;
use thalweg_store::{Posix, Store};
use thalweg_types::ErrorKind;

const CHILD: &str = "THALWEG_TEST_SMALL_FILES_IN";

fn over(store: Arc<dyn Store>) -> SmallFile {
    // Some files grow out of the logs, and logs end often.
    SmallFile::new(store, Settings { small: 20_000, log: 1 << 17, ..Settings::default() }).unwrap()
}

fn at(folder: &Path) -> SmallFile {
    over(Arc::new(Posix::at(folder).unwrap()))
}

/// What a file holds: a function of one number, never zeros.
fn bytes_of(seed: u64) -> Vec<u8> {
    let mut random = fastrand::Rng::with_seed(seed);
    let most = if seed.is_multiple_of(11) { 60_000 } else { 3000 };
    (0..random.usize(1..most)).map(|_| random.u8(1..)).collect()
}

fn name_of(n: u64) -> String {
    if n.is_multiple_of(3) { format!("folder/{n}") } else { format!("{n}") }
}

fn put(layout: &SmallFile, name: &str, seed: u64, sync: bool) {
    let file = layout.open_write(name, OpenWrite::Replace, WriterId(0)).unwrap();
    for (n, run) in bytes_of(seed).chunks(7000).enumerate() {
        file.write_at(n as u64 * 7000, &[IoSlice::new(run)]).unwrap();
    }
    if sync {
        file.sync().unwrap();
    }
    file.close().unwrap();
}

/// Not a test of its own: puts, renames, links, marks and removes a dozen names until it is killed.
#[test]
fn the_one_who_is_killed() {
    let Ok(told) = std::env::var(CHILD) else { return };
    let (seed, folder) = told.split_once(' ').unwrap();
    let mut seed: u64 = seed.parse().unwrap();
    let layout = at(Path::new(folder));
    layout.make_folder("folder").unwrap();
    let say = |line: String| writeln!(std::io::stdout(), "\n{line}").and_then(|()| std::io::stdout().flush()).unwrap();
    let mut random = fastrand::Rng::with_seed(seed);
    loop {
        seed += 1;
        let (name, other) = (name_of(random.u64(0..12)), name_of(random.u64(0..12)));
        let kind = layout.attributes(&name).ok().map(|about| about.kind);
        let there = kind.is_some();
        match random.u8(0..12) {
            0 if there => {
                say(format!("will remove {name}"));
                layout.remove(&name).unwrap();
            }
            1 | 2 if there && name != other => {
                say(format!("will rename {name} {other}"));
                layout.rename(&name, &other).unwrap();
            }
            4 if !there => {
                say(format!("will link {name} {seed}"));
                layout.make_link(&format!("to {seed}"), &name).unwrap();
            }
            5 | 6 if kind == Some(Kind::File) => {
                say(format!("will mark {name} {seed}"));
                layout.xattr_set(&name, MARK, seed.to_string().as_bytes(), SetXattr::Any).unwrap();
            }
            // What would be put through a link lands elsewhere.
            _ if kind == Some(Kind::Link) => continue,
            kind => {
                say(format!("will put {name} {seed}"));
                put(&layout, &name, seed, kind == 3);
            }
        }
        say("did".into());
    }
}

const MARK: &str = "user.mark";

/// Bytes, or where a link leads, and an extended attribute.
type Files = BTreeMap<String, (Vec<u8>, String)>;

/// All files, each read to its end and held against its checksum.
fn content(layout: &SmallFile, words: &str) -> Files {
    let mut all = Files::new();
    for folder in ["", "folder"] {
        let Ok(names) = layout.list(folder) else { continue };
        for name in names.into_iter().filter(|name| name != "folder") {
            let name = if folder.is_empty() { name } else { format!("{folder}/{name}") };
            if let Ok(target) = layout.read_link(&name) {
                all.insert(name, (target.into_bytes(), String::new()));
                continue;
            }
            let mark =
                layout.xattr_get(&name, MARK).unwrap_or_else(|e| panic!("{words}: {name}: {e}")).unwrap_or_default();
            let file = layout.open_read(&name).unwrap_or_else(|e| panic!("{words}: {name} is listed: {e}"));
            let mut bytes = vec![0; file.length().unwrap() as usize];
            file.read_exact_at(0, &mut bytes).unwrap_or_else(|e| panic!("{words}: {name}: {e}"));
            all.insert(name, (bytes, String::from_utf8(mark).unwrap()));
        }
        let report = layout.check(folder, true).unwrap();
        assert!(report.damaged.is_empty(), "{words}: {report:?}");
    }
    all
}

/// Whether the files are those before an operation or behind it, for each name that it is about.
fn fits(seen: &Files, before: &Files, operation: &[&str]) -> bool {
    let then = after(before, operation);
    let names = seen.keys().chain(before.keys()).chain(then.keys());
    for name in names {
        let (is, was, will) = (seen.get(name), before.get(name), then.get(name));
        // A file that grew out of the log is written in its place, piece by piece.
        let begun = operation[1] == "put"
            && operation[2] == name
            && is.zip(will).is_some_and(|((is, mark), (will, meant))| {
                mark == meant && will.starts_with(is) && (is.is_empty() || will.len() > 20_000)
            });
        if !(is == was || is == will || begun) {
            return false;
        }
    }
    operation[1] != "rename" || seen.contains_key(operation[2]) || seen.contains_key(operation[3])
}

fn after(before: &Files, operation: &[&str]) -> Files {
    let mut next = before.clone();
    match operation {
        [_, "put", name, seed] => next.entry(name.to_string()).or_default().0 = bytes_of(seed.parse().unwrap()),
        [_, "mark", name, seed] => next.entry(name.to_string()).or_default().1 = seed.to_string(),
        [_, "link", name, seed] => {
            drop(next.insert(name.to_string(), (format!("to {seed}").into_bytes(), String::new())))
        }
        [_, "rename", from, to] => {
            let bytes = next.remove(*from).unwrap();
            next.insert(to.to_string(), bytes);
        }
        [_, "remove", name] => drop(next.remove(*name)),
        words => panic!("{words:?}"),
    }
    next
}

/// - `seed`: where `KILL_SEED` says none.
fn kills(count: u64, seed: u64) {
    let seed = std::env::var("KILL_SEED").ok().and_then(|s| s.parse().ok()).unwrap_or(seed);
    println!("KILL_SEED={seed}");
    let mut random = fastrand::Rng::with_seed(seed);
    let scratch = Scratch::new();
    let (mut model, mut torn, mut done) = (Files::new(), 0, 0);
    for life in 0..count {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "the_one_who_is_killed", "--nocapture", "--test-threads=1"])
            .env(CHILD, format!("{} {}", seed.wrapping_add(life << 20), scratch.path().display()))
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let mut told: Vec<String> = lines.by_ref().take(random.usize(6..400)).map_while(Result::ok).collect();
        std::thread::sleep(Duration::from_micros(random.u64(0..400)));
        assert!(child.try_wait().unwrap().is_none(), "the writer ended by itself");
        child.kill().unwrap();
        child.wait().unwrap();
        told.extend(lines.map_while(Result::ok));
        let mut under_way: Option<Vec<&str>> = None;
        for line in told.iter().filter(|line| line.starts_with("will ") || *line == "did") {
            match line.as_str() {
                "did" => {
                    model = after(&model, &under_way.take().unwrap());
                    done += 1;
                }
                line => under_way = Some(line.split(' ').collect()),
            }
        }
        let words = format!("kill {life} (KILL_SEED={seed}), under way {under_way:?}");
        let layout = at(scratch.path());
        let seen = content(&layout, &words);
        let good = under_way.as_ref().map_or(seen == model, |operation| fits(&seen, &model, operation));
        let short = |files: &Files| files.iter().map(|(n, (b, m))| (n.clone(), b.len(), m.clone())).collect::<Vec<_>>();
        assert!(good, "{words}:\n is {:?}\n was {:?}", short(&seen), short(&model));
        model = seen;
        for folder in ["", "folder"].into_iter().filter(|f| layout.stat(f).is_ok()) {
            torn += layout.check(folder, false).unwrap().torn.len();
            // Putting the dead writers' logs together takes what is torn away, and no file.
            if life % 4 == 3 {
                layout.compact(folder).unwrap();
                let after = layout.check(folder, true).unwrap();
                assert!(after.torn.is_empty() && after.damaged.is_empty() && after.logs <= 1, "{words}: {after:?}");
            }
        }
        let now = content(&layout, &words);
        let (is, was) = (short(&now), short(&model));
        assert!(now == model, "{words}: checking and compacting change nothing:\n is {is:?}\n was {was:?}");
    }
    println!("{done} operations were done, {torn} logs torn");
    assert!(done > count, "{done} operations in {count} lives");
}

#[test]
fn twenty_kills_of_a_writer_lose_no_small_file_that_was_closed() {
    kills(20, 1);
}

#[test]
#[ignore = "long"]
fn two_hundred_kills_of_a_writer_lose_no_small_file_that_was_closed() {
    kills(200, fastrand::u64(..1 << 40));
}

/// What was recorded of a name: after which operation of the store it began, and what it is then.
type Versions = Vec<(usize, Option<u64>)>;

#[test]
fn a_power_cut_loses_no_small_file_that_was_synced() {
    let (mut errors, mut kept) = (0, 0);
    for seed in 0..80u64 {
        let mut random = fastrand::Rng::with_seed(seed);
        let store = Arc::new(Forgetful::new());
        let layout = over(store.clone());
        let mut versions: BTreeMap<String, Versions> = BTreeMap::new();
        let mut synced: Vec<(usize, usize)> = Vec::new();
        for step in 1..60u64 {
            let name = random.u8(0..6).to_string();
            let there = versions.get(&name).and_then(|v| v.last()).is_some_and(|v| v.1.is_some());
            let begun = store.operations();
            // Those that stay in the log: a file of its own is as the store has it.
            let content = ((seed << 20) + step) * 11 + 1;
            if there && random.u8(0..6) == 0 {
                layout.remove(&name).unwrap();
                versions.entry(name).or_default().push((begun, None));
            } else {
                put(&layout, &name, content, false);
                versions.entry(name).or_default().push((begun, Some(content)));
            }
            if random.u8(0..5) == 0 {
                let from = store.operations();
                layout.sync_folder("").unwrap();
                synced.push((store.operations(), from));
            }
        }
        let n = random.usize(0..=store.operations());
        let left: Arc<dyn Store> = Arc::new(store.power_cut(n, seed));
        // What was recorded before the last sync that had returned is there, or something later.
        let safe = synced.iter().rev().find(|(done, _)| *done <= n).map_or(0, |(_, from)| *from);
        let layout = over(left);
        for (name, versions) in &versions {
            let words = format!("seed {seed}, power cut after {n}, file {name}");
            let last = versions.iter().rposition(|(begun, _)| *begun < safe);
            let mut allowed: Vec<Option<u64>> =
                versions[last.unwrap_or(0)..].iter().filter(|v| v.0 <= n).map(|v| v.1).collect();
            if last.is_none() {
                allowed.push(None);
            }
            let found = layout.open_read(name).and_then(|file| {
                let mut bytes = vec![0; file.length()? as usize];
                file.read_exact_at(0, &mut bytes)?;
                Ok(bytes)
            });
            match found {
                Ok(bytes) => {
                    assert!(allowed.iter().flatten().any(|c| bytes_of(*c) == bytes), "{words}: {} bytes", bytes.len());
                    kept += 1;
                }
                Err(e) if e.kind() == ErrorKind::NotFound => assert!(allowed.contains(&None), "{words}: {e}"),
                Err(e) => {
                    assert_eq!(e.kind(), ErrorKind::Corrupt, "{words}: {e}");
                    assert!(allowed.len() > 1, "{words}: it was synced, and nothing was written since: {e}");
                    errors += 1;
                }
            }
        }
    }
    println!("{kept} files were there, {errors} were told to be damaged");
    assert!(kept > 100);
}
