//! A writer that dies: all that it synced is read, what is missing is an error, and never zeros.

use super::{Module, in_folders, open, over, process, read, write};
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;
use thalweg_conformance::scratch::Scratch;
use thalweg_conformance::sweep;
use thalweg_layout::container::Options;
use thalweg_layout::container::tools::{Accept, Trouble};
use thalweg_layout::{Container, Layout, OpenWrite};
use thalweg_store::wrap::Forgetful;
use thalweg_store::{Posix, Store};
use thalweg_types::ErrorKind;

/// What a program does to its file; each is known by its number.
#[derive(Debug, Clone, Copy)]
enum Step {
    Write { at: u64, length: usize },
    Truncate(u64),
    Sync,
}

/// The same for each seed: strided, overlapping, scattered.
fn script(seed: u64) -> Vec<Step> {
    let mut random = fastrand::Rng::with_seed(seed);
    let mut steps = Vec::new();
    for round in 0..40u64 {
        for i in 0..random.u64(1..8) {
            steps.push(Step::Write { at: round * 400 + i * 130, length: random.usize(1..200) });
        }
        match random.u8(0..10) {
            0 => steps.push(Step::Truncate(random.u64(0..round * 400 + 300))),
            1..6 => steps.push(Step::Sync),
            _ => {}
        }
    }
    steps
}

fn byte(step: usize) -> u8 {
    (step % 251) as u8 + 1
}

/// What a file may read as when some steps are known to be there and more may be.
struct Allowed {
    synced: Vec<u8>,
    more: Vec<(usize, Step)>,
    /// A check tells of damaged bytes: what was not synced may read as zeros.
    damaged: bool,
    /// The writer had closed: what nobody wrote reads as zeros.
    closed: bool,
    /// A check tells of a log that ends early.
    ends_early: bool,
}

impl Allowed {
    /// - `synced`: steps that a sync followed; `begun`: steps that may have begun.
    fn new(steps: &[Step], synced: usize, begun: usize) -> Allowed {
        let mut bytes = Vec::new();
        for (number, step) in steps[..synced].iter().enumerate() {
            match *step {
                Step::Write { at, length } => {
                    let (at, end) = (at as usize, at as usize + length);
                    bytes.resize(end.max(bytes.len()), 0);
                    bytes[at..end].fill(byte(number));
                }
                Step::Truncate(to) => bytes.resize(to as usize, 0),
                Step::Sync => {}
            }
        }
        let more = (synced..begun).map(|number| (number, steps[number])).collect();
        Allowed { synced: bytes, more, damaged: false, closed: false, ends_early: false }
    }

    fn cut(&self) -> bool {
        self.more.iter().any(|(_, step)| matches!(step, Step::Truncate(_)))
    }

    fn allows(&self, at: u64, found: u8) -> bool {
        let written = |(number, step): &(usize, Step)| match *step {
            Step::Write { at: from, length } => (from..from + length as u64).contains(&at) && found == byte(*number),
            _ => false,
        };
        let synced = self.synced.get(at as usize).is_some_and(|b| *b == found);
        // The log has the record, and the store lost its bytes.
        let lost = |(_, step): &(usize, Step)| match *step {
            Step::Write { at: from, length } => (from..from + length as u64).contains(&at) && found == 0,
            _ => false,
        };
        synced
            || self.more.iter().any(written)
            || (found == 0 && self.cut())
            || (self.damaged && self.more.iter().any(lost))
            || (self.closed && found == 0 && self.is_hole(at))
    }

    /// Whether nobody wrote a byte.
    fn is_hole(&self, at: u64) -> bool {
        let wrote = |(_, step): &(usize, Step)| match *step {
            Step::Write { at: from, length } => (from..from + length as u64).contains(&at),
            _ => false,
        };
        self.synced.get(at as usize).is_none_or(|b| *b == 0) && !self.more.iter().any(wrote)
    }

    /// Reads all there is and compares. Returns how many bytes were refused.
    fn compare(&self, layout: &dyn Layout, repaired: bool, words: &str) -> usize {
        let file = layout.open_read("file").unwrap();
        let length = file.length().unwrap();
        if !self.cut() {
            assert!(length >= self.synced.len() as u64, "{words}: {length} bytes of {}", self.synced.len());
        }
        let mut refused = 0;
        let mut at = 0;
        while at < length {
            // Many at a time where all of them are known.
            let mut out = [0; 64];
            if let Ok(got) = file.read_at(at, &mut out) {
                for (at, found) in (at..).zip(&out[..got]) {
                    let hole = repaired && *found == 0 && self.synced.get(at as usize).is_none_or(|b| *b == 0);
                    assert!(hole || self.allows(at, *found), "{words}: byte {at} is {found}");
                }
                at += got as u64;
                continue;
            }
            let mut out = [0];
            match file.read_at(at, &mut out) {
                Ok(got) => {
                    assert_eq!(got, 1, "{words}: byte {at}");
                    let hole = repaired && out[0] == 0 && self.synced.get(at as usize).is_none_or(|b| *b == 0);
                    assert!(hole || self.allows(at, out[0]), "{words}: byte {at} is {}", out[0]);
                }
                Err(e) => {
                    // Of a log whose end the store lost, and whose index it kept, the repair brings back what was there before.
                    let lost = e.kind() == ErrorKind::Io && self.ends_early;
                    assert!(
                        lost || matches!(e.kind(), ErrorKind::Torn | ErrorKind::NotReady),
                        "{words}: byte {at}: {e}"
                    );
                    assert!(!repaired, "{words}: byte {at} after repair: {e}");
                    let synced = self.synced.get(at as usize).is_some_and(|b| *b != 0);
                    assert!(!synced || self.cut() || lost, "{words}: byte {at} was synced: {e}");
                    refused += 1;
                }
            }
            at += 1;
        }
        let end = file.read_at(length, &mut [0]);
        assert!(!repaired || end.is_ok_and(|got| got == 0), "{words}: at the end after repair");
        refused
    }
}

/// Does the script; tells the number of each step before it and of each sync behind it.
fn perform(layout: &dyn Layout, steps: &[Step], mut begun: impl FnMut(usize), mut synced: impl FnMut(usize)) {
    let file = layout.open_write("file", OpenWrite::Existing, thalweg_layout::WriterId(1)).unwrap();
    for (number, step) in steps.iter().enumerate() {
        begun(number + 1);
        match *step {
            Step::Write { at, length } => write(&*file, at, &vec![byte(number); length]),
            Step::Truncate(to) => {
                file.truncate(to).unwrap();
                synced(number + 1);
            }
            Step::Sync => {
                file.sync().unwrap();
                synced(number + 1);
            }
        }
    }
    file.close().unwrap();
    begun(steps.len());
    synced(steps.len());
}

fn check_and_repair_agree(layout: &super::Container, words: &str) {
    let before = layout.check("file").unwrap();
    let due: Vec<Trouble> = before.findings.iter().map(|f| f.trouble).filter(|t| t.mended()).collect();
    let done: Vec<Trouble> = layout.repair("file", Accept::ALL).unwrap().iter().map(|f| f.trouble).collect();
    assert_eq!(due.is_empty(), done.is_empty(), "{words}: {before:?}, repaired {done:?}");
    for trouble in &done {
        assert!(due.contains(trouble), "{words}: repaired {trouble:?}, which no check told of: {before:?}");
    }
    let after = layout.check("file").unwrap();
    // Bytes that are damaged stay so.
    assert!(after.findings.iter().all(|f| f.trouble == Trouble::Data), "{words}: after repair {after:?}");
    assert!(layout.repair("file", Accept::ALL).unwrap().is_empty(), "{words}: nothing is left to repair");
}

#[test]
fn a_kill_after_any_operation_loses_nothing_that_was_synced() {
    let mut refused = 0;
    for seed in 0..3 {
        let buffer = [300, 4 << 20, 0][seed as usize % 3];
        let store = Arc::new(Forgetful::new());
        let shared: Vec<Arc<dyn Store>> = vec![store.clone()];
        let layout = process(&shared, [Module::Pattern, Module::Flat][seed as usize % 2], buffer);
        open(&layout, "file", OpenWrite::New, 0).close().unwrap();
        let (first, steps) = (store.operations(), script(seed));
        let (mut begun, mut synced) = (Vec::new(), vec![(first, 0)]);
        perform(
            &layout,
            &steps,
            |number| begun.push((store.operations(), number)),
            |number| synced.push((store.operations(), number)),
        );
        let mut random = fastrand::Rng::with_seed(seed);
        for n in (first..=store.operations()).step_by(sweep::stride()) {
            // Whole operations, and now and then a part of the next write.
            let part =
                store.bytes_written_by(n).filter(|_| random.bool()).map_or(0, |bytes| random.u64(0..bytes.max(1)));
            let left: Arc<dyn Store> = Arc::new(store.crash_after_bytes(n, part));
            let at =
                |told: &[(usize, usize)], or: usize| told.iter().rev().find(|(op, _)| *op <= n).map_or(or, |(_, s)| *s);
            let allowed = Allowed::new(&steps, at(&synced, 0), at(&begun, 0));
            let words = format!("seed {seed}, killed after {n} ({}) and {part} bytes", store.operation(n));
            refused += allowed.compare(&over(&left), false, &words);
            if n % 7 == 0 || part > 0 {
                check_and_repair_agree(&over(&left), &words);
                allowed.compare(&over(&left), true, &words);
            }
        }
        read(&over(&(store.clone() as Arc<dyn Store>)), "file").unwrap();
    }
    assert!(refused * sweep::stride() > 1000, "{refused} bytes of which nothing was known were refused");
}

/// Cuts the power at a few moments from the first sync to behind the close, which promises nothing to survive that.
fn power_cuts(seeds: std::ops::Range<u64>) {
    let mut refused = 0;
    for seed in seeds {
        let store = Arc::new(Forgetful::new());
        let shared: Vec<Arc<dyn Store>> = vec![store.clone()];
        let layout = process(&shared, Module::Pattern, [300, 4 << 20][seed as usize % 2]);
        open(&layout, "file", OpenWrite::New, 0).close().unwrap();
        layout.sync_folder("").unwrap();
        let steps: Vec<Step> = script(seed).into_iter().filter(|s| !matches!(s, Step::Truncate(_))).collect();
        let (mut begun, mut synced) = (Vec::new(), Vec::new());
        perform(
            &layout,
            &steps,
            |number| begun.push((store.operations(), number)),
            |number| synced.push((store.operations(), number)),
        );
        synced.pop();
        let Some((earliest, _)) = synced.first().copied() else { continue };
        let mut random = fastrand::Rng::with_seed(seed);
        let behind = store.operations();
        for n in [random.usize(earliest..=behind), random.usize(earliest..=behind), behind - random.usize(0..8), behind]
        {
            let n = n.max(earliest);
            let left: Arc<dyn Store> = Arc::new(store.power_cut(n, random.u64(..)));
            let at = |told: &[(usize, usize)]| told.iter().rev().find(|(op, _)| *op <= n).map_or(0, |(_, step)| *step);
            let report = over(&left).check("file").unwrap();
            let tells = |trouble: Trouble| report.findings.iter().any(|f| f.trouble == trouble);
            let (damaged, closed) = (tells(Trouble::Data) || tells(Trouble::Lost), !tells(Trouble::Died));
            let allowed = Allowed {
                damaged,
                closed,
                ends_early: tells(Trouble::Lost),
                ..Allowed::new(&steps, at(&synced), at(&begun))
            };
            let words = format!("seed {seed}, power cut after {n} of {behind} ({})", store.operation(n));
            refused += allowed.compare(&over(&left), false, &words);
            check_and_repair_agree(&over(&left), &words);
            allowed.compare(&over(&left), true, &words);
        }
    }
    println!("{refused} bytes that were lost were refused");
    assert!(refused > 0, "bytes that were lost were refused");
}

#[test]
fn a_power_cut_loses_nothing_that_was_synced() {
    power_cuts(0..40);
}

#[test]
#[ignore = "long"]
fn ten_thousand_power_cuts_lose_nothing_that_was_synced() {
    power_cuts(40..2540);
}

const CHILD: &str = "THALWEG_TEST_KILLED_IN";

/// Not a test of its own: what the process does that is killed.
#[test]
fn the_one_who_is_killed() {
    let Ok(folder) = std::env::var(CHILD) else { return };
    let store: Arc<dyn Store> = Arc::new(Posix::at(folder).unwrap());
    let seed = std::env::var("THALWEG_TEST_SEED").unwrap().parse().unwrap();
    let layout = process(&[store], Module::Pattern, 500);
    perform(&layout, &script(seed), |number| println!("begun {number} "), |number| println!("synced {number} "));
}

fn processes_killed(count: u64) {
    let mut random = fastrand::Rng::with_seed(7);
    let (mut torn, mut whole) = (0, 0);
    for seed in 0..count {
        let scratch = Scratch::new();
        let store: Arc<dyn Store> = Arc::new(Posix::at(scratch.path()).unwrap());
        // What these scripts write stays in the object of the name, unless the file is made with a folder.
        let maker = if seed % 2 == 0 { over(&store) } else { in_folders(std::slice::from_ref(&store)) };
        open(&maker, "file", OpenWrite::New, 0).close().unwrap();
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "kill::the_one_who_is_killed", "--nocapture", "--test-threads=1"])
            .env(CHILD, scratch.path())
            .env("THALWEG_TEST_SEED", seed.to_string())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        // After so many lines, and then a moment.
        let (lines, moment) = (random.usize(3..230), Duration::from_micros(random.u64(0..300)));
        let mut told = BufReader::new(child.stdout.take().unwrap()).lines();
        let mut all: Vec<String> = told.by_ref().take(lines).map_while(Result::ok).collect();
        std::thread::sleep(moment);
        child.kill().unwrap();
        child.wait().unwrap();
        all.extend(told.map_while(Result::ok));
        let last = |word: &str| {
            let numbers = all.iter().filter_map(|line| line.split_once(word)?.1.split(' ').next()?.parse().ok());
            numbers.max().unwrap_or(0usize)
        };
        let steps = script(seed);
        let allowed = Allowed::new(&steps, last("synced "), last("begun "));
        let words = format!("seed {seed}, killed after {} of {} steps", last("begun "), steps.len());
        let died = over(&store).check("file").unwrap().findings.iter().any(|f| f.trouble == Trouble::Died);
        // Killed behind its close, nothing of it is missing: what nobody wrote reads as zeros.
        allowed.compare(&over(&store), !died, &words);
        match died {
            true => torn += 1,
            false => whole += 1,
        }
        check_and_repair_agree(&over(&store), &words);
        allowed.compare(&over(&store), true, &words);
    }
    println!("{torn} killed while they wrote, {whole} before or behind");
    assert!(torn > count / 3, "{torn} of {count} were killed while they wrote");
}

#[test]
fn processes_killed_at_random_moments_lose_nothing_that_they_synced() {
    processes_killed(25);
}

#[test]
#[ignore = "long"]
fn two_hundred_processes_killed_at_random_moments_lose_nothing_that_they_synced() {
    processes_killed(200);
}

#[test]
fn what_was_published_before_a_sync_survives_a_power_cut() {
    let store = Arc::new(Forgetful::new());
    let shared: Vec<Arc<dyn Store>> = vec![store.clone()];
    let layout = process(&shared, Module::Pattern, 4 << 20);
    let file = open(&layout, "file", OpenWrite::New, 0);
    layout.sync_folder("").unwrap();
    // As a door does at each close of a descriptor, of which a file may have several.
    write(&*file, 0, b"published");
    file.publish().unwrap();
    file.sync().unwrap();
    let left: Arc<dyn Store> = Arc::new(store.power_cut(store.operations(), 0));
    assert_eq!(read(&over(&left), "file").unwrap(), b"published");
}

#[test]
fn each_file_that_a_process_synced_survives_a_power_cut_whatever_folders_it_shares_with_others() {
    let store = Arc::new(Forgetful::new());
    let layout = super::in_folders(&[store.clone() as Arc<dyn Store>]);
    // What a close adds is not durable: they stay open.
    let mut files = Vec::new();
    for number in 0..40 {
        let file = open(&layout, &format!("file{number}"), OpenWrite::New, 0);
        layout.sync_folder("").unwrap();
        write(&*file, 0, b"synced");
        file.sync().unwrap();
        // All that was not synced is lost, or some of it.
        for seed in [0, number + 2] {
            let left: Arc<dyn Store> = Arc::new(store.power_cut(store.operations(), seed));
            for known in 0..=number {
                let bytes = read(&over(&left), &format!("file{known}"));
                assert_eq!(bytes.unwrap(), b"synced", "file {known} of {number}, seed {seed}");
            }
        }
        files.push(file);
    }
}

#[test]
fn a_sync_covers_logs_that_were_full_before_it() {
    let store = Arc::new(Forgetful::new());
    let shared: Arc<dyn Store> = store.clone();
    let options = Options { segment: 1 << 20, buffer: 300_000, ..Options::default() };
    let layout = Container::new(vec![shared], options).unwrap();
    let file = open(&layout, "file", OpenWrite::New, 0);
    layout.sync_folder("").unwrap();
    let bytes = super::pattern(3, 3 << 20);
    for (at, piece) in (0..).step_by(100_000).zip(bytes.chunks(100_000)) {
        write(&*file, at, piece);
    }
    file.sync().unwrap();
    for seed in 0..8 {
        let left: Arc<dyn Store> = Arc::new(store.power_cut(store.operations(), seed));
        assert!(read(&over(&left), "file").unwrap() == bytes, "seed {seed}");
    }
}
