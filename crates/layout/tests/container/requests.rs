//! Requests of small outputs to stores where each one takes long: counted, and any of them may be the last or fail.

use super::{open, over, read};
use std::io::IoSlice;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use thalweg_layout::container::tools::Accept;
use thalweg_layout::{Container, Layout, OpenWrite, WriterId};
use thalweg_store::wrap::{Operation, Sequential, StoreCall, Verdict, Watch, Wrapped};
use thalweg_store::{Memory, Store, StoreExt};
use thalweg_types::{Error, ErrorKind};

/// Counts what a service would be asked for: an object that is written is one request, at its close.
#[derive(Default)]
struct Requests {
    asked: AtomicU64,
    /// Number of the request that fails, from 1; 0: none.
    failing: AtomicU64,
    /// All later ones fail too.
    for_good: AtomicU64,
    /// What one request costs, in bytes.
    cost: AtomicU64,
}

impl Requests {
    fn take(&self) -> u64 {
        self.asked.swap(0, Ordering::SeqCst)
    }
}

impl Watch for Requests {
    fn describe(&self) -> &'static str {
        "requests"
    }

    fn request_cost(&self, _: u64) -> u64 {
        self.cost.load(Ordering::SeqCst)
    }

    fn before(&self, operation: &Operation<'_>) -> Verdict {
        let free = matches!(
            operation.asked,
            StoreCall::OpenWrite | StoreCall::Write | StoreCall::Length | StoreCall::Sync | StoreCall::Lease
        );
        if free {
            return Verdict::Pass;
        }
        let number = self.asked.fetch_add(1, Ordering::SeqCst) + 1;
        let failing = self.failing.load(Ordering::SeqCst);
        if failing > 0 && (number == failing || (number > failing && self.for_good.load(Ordering::SeqCst) > 0)) {
            return Verdict::Fail(Error::new(ErrorKind::Io, "not today").in_object(operation.name));
        }
        Verdict::Pass
    }
}

type Counted = Arc<Wrapped<Requests>>;

fn counted(inner: Sequential) -> (Counted, Arc<dyn Store>) {
    let counted = Arc::new(Wrapped::with(Arc::new(inner), Requests::default()));
    (counted.clone(), counted)
}

fn step(number: u64) -> Vec<u8> {
    format!("step {number} {}\n", "x".repeat(300 + number as usize % 7)).into_bytes()
}

fn steps(numbers: std::ops::Range<u64>) -> Vec<u8> {
    numbers.flat_map(step).collect()
}

fn append(layout: &Container, number: u64, writer: u32) -> thalweg_types::Result<()> {
    let file = layout.open_write("file", OpenWrite::Any, WriterId(writer))?;
    file.append(&[IoSlice::new(&step(number))])?;
    file.close()
}

/// Requests of each of many small steps, and of an open behind them.
fn measure(inner: Sequential, count: u64) -> (Vec<u64>, u64) {
    let (requests, store) = counted(inner);
    let layout = over(&store);
    append(&layout, 0, 0).unwrap();
    requests.watch().take();
    let each: Vec<u64> = (1..count)
        .map(|number| {
            append(&layout, number, 0).unwrap();
            requests.watch().take()
        })
        .collect();
    let reader = over(&store).open_read("file").unwrap();
    let length = reader.length().unwrap();
    let mut end = [0; 64];
    reader.read_exact_at(length - 64, &mut end).unwrap();
    let opened = requests.watch().take();
    assert!(read(&over(&store), "file").unwrap() == steps(0..count));
    (each, opened)
}

#[test]
fn a_small_step_is_four_requests_and_an_open_of_two_thousand_at_most_ten() {
    let (each, opened) = measure(Sequential::like_s3(), 2000);
    let (most, all) = (each.iter().max().unwrap(), each.iter().sum::<u64>());
    println!("like S3: {all} requests for {} steps, {most} at most; an open {opened}", each.len());
    let mut sorted = each.clone();
    sorted.sort_unstable();
    assert_eq!(sorted[each.len() / 2], 4);
    assert!(*most <= 5 && all <= each.len() as u64 * 9 / 2 && opened <= 10);
    let (each, opened) = measure(Sequential::like_hdfs(), 2000);
    let (most, all) = (each.iter().max().unwrap(), each.iter().sum::<u64>());
    println!("like HDFS: {all} calls for {} steps, {most} at most; an open {opened}", each.len());
    assert!(opened <= 10 && all <= each.len() as u64 * 8);
}

#[test]
fn steps_too_large_to_be_packed_cost_those_behind_them_nothing() {
    let (requests, store) = counted(Sequential::like_s3());
    let layout = over(&store);
    let mut all = Vec::new();
    let mut asked = Vec::new();
    for number in 0..200u64 {
        let bytes = if number % 20 == 10 { vec![number as u8; 1100 << 10] } else { step(number) };
        requests.watch().take();
        let file = open(&layout, "file", OpenWrite::Any, 0);
        // As a writer does that looks at the last step.
        let mut last = vec![0; all.len().min(8)];
        file.read_at(all.len() as u64 - last.len() as u64, &mut last).unwrap();
        assert!(all.ends_with(&last));
        file.append(&[IoSlice::new(&bytes)]).unwrap();
        file.close().unwrap();
        all.extend(bytes);
        asked.push((number, requests.watch().take()));
    }
    // The first step behind a large one reads its index log and opens its data log.
    let behind = |number: u64| if number % 20 == 11 { 3 } else { 0 };
    let small = asked[1..].iter().filter(|(number, _)| number % 20 != 10);
    assert!(small.clone().all(|(number, asked)| *asked <= 6 + behind(*number)), "{asked:?}");
    assert!(read(&over(&store), "file").unwrap() == all);
}

#[test]
fn reads_that_take_turns_in_one_bundle_read_each_part_of_it_once() {
    let (requests, store) = counted(Sequential::like_s3());
    let layout = over(&store);
    // Some megabytes in bundles.
    let step_of = |number: u64| -> Vec<u8> { (0..60_000u64).map(|i| (i * 7 + number) as u8).collect() };
    const STEPS: u64 = 64;
    for number in 0..STEPS {
        let file = open(&layout, "file", OpenWrite::Any, 0);
        file.append(&[IoSlice::new(&step_of(number))]).unwrap();
        file.close().unwrap();
    }
    let reader = over(&store).open_read("file").unwrap();
    assert_eq!(reader.length().unwrap(), STEPS * 60_000);
    requests.watch().take();
    // As four threads do that read a quarter each.
    for number in (0..STEPS / 4).flat_map(|n| (0..4).map(move |thread| thread * STEPS / 4 + n)) {
        let mut out = vec![0; 60_000];
        reader.read_exact_at(number * 60_000, &mut out).unwrap();
        assert!(out == step_of(number), "step {number}");
    }
    let asked = requests.watch().take();
    assert!(asked <= 8, "{asked} requests for 4 MB in windows of 1 MiB");
}

#[test]
fn a_few_bytes_that_were_written_later_do_not_cut_a_read_in_two() {
    let (requests, store) = counted(Sequential::like_s3());
    requests.watch().cost.store(1 << 20, Ordering::SeqCst);
    let layout = over(&store);
    let mut all: Vec<u8> = (0..1_500_000u32).map(|i| (i * 7) as u8).collect();
    for (offset, bytes) in [(0, all.clone()), (500_000, b"later".to_vec())] {
        let file = layout.open_write("file", OpenWrite::Any, WriterId(0)).unwrap();
        file.write_at(offset, &[IoSlice::new(&bytes)]).unwrap();
        file.close().unwrap();
        all[offset as usize..offset as usize + bytes.len()].copy_from_slice(&bytes);
    }
    let reader = over(&store).open_read("file").unwrap();
    assert_eq!(reader.length().unwrap(), all.len() as u64);
    // What an open needs is there.
    reader.read_exact_at(500_001, &mut [0; 2]).unwrap();
    requests.watch().take();
    let mut out = vec![0; 800_000];
    reader.read_exact_at(100_000, &mut out).unwrap();
    assert!(out == all[100_000..900_000]);
    assert_eq!(requests.watch().take(), 2, "an open of a log, and one read");
}

#[test]
fn every_number_of_steps_opens_with_few_requests() {
    let (requests, store) = counted(Sequential::like_s3());
    let layout = over(&store);
    for number in 0..150 {
        append(&layout, number, 0).unwrap();
        requests.watch().take();
        let reader = over(&store).open_read("file").unwrap();
        reader.read_exact_at(0, &mut [0; 64]).unwrap();
        let asked = requests.watch().take();
        assert!(asked <= 10, "{asked} requests for an open of {} steps", number + 1);
    }
}

#[test]
fn a_process_that_begins_with_each_step_reads_what_it_merges() {
    let (requests, store) = counted(Sequential::like_s3());
    append(&over(&store), 0, 0).unwrap();
    requests.watch().take();
    for number in 1..200 {
        append(&over(&store), number, 0).unwrap();
    }
    let asked = requests.watch().take();
    println!("{asked} requests for 199 steps of a process each");
    assert!(read(&over(&store), "file").unwrap() == steps(0..200));
}

#[test]
fn a_handle_that_says_that_it_will_write_and_does_not_leaves_nothing() {
    for inner in [Sequential::like_s3(), Sequential::like_hdfs()] {
        let store: Arc<dyn Store> = Arc::new(inner.clone());
        let layout = over(&store);
        append(&layout, 0, 0).unwrap();
        let marks = |store: &Arc<dyn Store>| {
            let mut left = Vec::new();
            for group in store.list(".thalweg/c").unwrap() {
                for number in store.list(&format!(".thalweg/c/{group}")).unwrap() {
                    left.extend(store.list(&format!(".thalweg/c/{group}/{number}/m")).unwrap());
                }
            }
            left
        };
        let before = marks(&store);
        let file = open(&layout, "file", OpenWrite::Existing, 3);
        file.will_write().unwrap();
        assert_eq!(file.length().unwrap(), step(0).len() as u64);
        file.close().unwrap();
        assert_eq!(marks(&store), before);
        assert!(layout.check("file").unwrap().is_clean());
    }
}

/// What can be read is a whole number of steps, at least the closed ones, and the file can be used.
fn holds(store: &Arc<dyn Store>, closed: &[u64], words: &str) {
    let found = read(&over(store), "file").unwrap_or_else(|e| panic!("{words}: {e:?}"));
    let text = String::from_utf8(found).unwrap();
    let mut numbers: Vec<u64> = Vec::new();
    for line in text.lines() {
        let number = line.split(' ').nth(1).and_then(|n| n.parse().ok()).unwrap_or_else(|| panic!("{words}: {line}"));
        assert_eq!(format!("{line}\n").into_bytes(), step(number), "{words}");
        numbers.push(number);
    }
    let mut rest = numbers.iter();
    assert!(closed.iter().all(|number| rest.any(|n| n == number)), "{words}: closed {closed:?}, found {numbers:?}");
    let mut once = numbers.clone();
    once.dedup();
    assert_eq!(once, numbers, "{words}");
    let mut all = text.into_bytes();
    let layout = over(store);
    for (more, writer) in [(900, 0), (901, 1), (902, 0), (903, 0), (904, 0), (905, 0)] {
        append(&layout, more, writer).unwrap_or_else(|e| panic!("{words}: {e:?}"));
        all.extend(step(more));
        assert!(read(&over(store), "file").unwrap() == all, "{words}: behind {more}");
    }
    over(store).repair("file", Accept::ALL).unwrap_or_else(|e| panic!("{words}: repair: {e:?}"));
    let report = over(store).check("file").unwrap();
    assert!(report.is_clean(), "{words}: {report:?}");
    assert!(read(&over(store), "file").unwrap() == all, "{words}: repaired");
    match over(store).compact("file") {
        // The writer that failed was this process, which lives.
        Err(e) if e.kind() == ErrorKind::NotReady => {}
        outcome => drop(outcome.unwrap_or_else(|e| panic!("{words}: compact: {e:?}"))),
    }
    assert!(read(&over(store), "file").unwrap() == all, "{words}: compacted");
    append(&over(store), 906, 0).unwrap();
    all.extend(step(906));
    assert!(read(&over(store), "file").unwrap() == all, "{words}: behind the compaction");
}

#[test]
fn whichever_request_is_the_last_or_fails_no_closed_step_is_lost() {
    let mut swept = 0;
    for hdfs in [false, true] {
        for for_good in [true, false] {
            // A process for each step, or one for all.
            for fresh in if for_good { &[false, true][..] } else { &[false] } {
                for failing in (1..).step_by(thalweg_conformance::sweep::stride()) {
                    let inner = if hdfs { Sequential::like_hdfs() } else { Sequential::like_s3() };
                    let plain: Arc<dyn Store> = Arc::new(inner.clone());
                    append(&over(&plain), 0, 0).unwrap();
                    let (requests, store) = counted(inner);
                    requests.watch().failing.store(failing, Ordering::SeqCst);
                    requests.watch().for_good.store(u64::from(for_good), Ordering::SeqCst);
                    let mut layout = over(&store);
                    let mut closed = vec![0];
                    for number in 1..12 {
                        if *fresh {
                            layout = over(&store);
                        }
                        match append(&layout, number, u32::from(number % 5 == 2)) {
                            Ok(()) => closed.push(number),
                            Err(_) if for_good => break,
                            Err(_) => {}
                        }
                    }
                    let asked = requests.watch().asked.load(Ordering::SeqCst);
                    let words =
                        format!("hdfs {hdfs}, for good {for_good}, fresh {fresh}, request {failing} of {asked}");
                    holds(&plain, &closed, &words);
                    if asked < failing {
                        break;
                    }
                    swept += 1;
                }
            }
        }
    }
    println!("{swept} requests failed");
    assert!(swept * thalweg_conformance::sweep::stride() > 200, "{swept}");
}

#[test]
fn a_reader_that_opened_before_merges_reads_the_version_that_it_opened() {
    for inner in [Sequential::like_s3(), Sequential::like_hdfs()] {
        let store: Arc<dyn Store> = Arc::new(inner);
        let writer = over(&store);
        for number in 0..3 {
            append(&writer, number, 0).unwrap();
        }
        // Nothing but the marks is read yet; the index; a part of the bytes.
        let readers: Vec<_> = (0..3).map(|_| over(&store)).collect();
        let files: Vec<_> = readers.iter().map(|reader| reader.open_read("file").unwrap()).collect();
        let expected = steps(0..3);
        files[1].stored_before(10).unwrap();
        files[2].read_exact_at(0, &mut [0; 10]).unwrap();
        for number in 3..40 {
            append(&writer, number, 0).unwrap();
        }
        for (kind, file) in files.iter().enumerate() {
            let mut bytes = vec![0; expected.len()];
            file.read_exact_at(0, &mut bytes).unwrap_or_else(|e| panic!("reader {kind}: {e:?}"));
            assert!(bytes == expected, "reader {kind}");
        }
    }
}

#[test]
fn writers_of_one_number_that_merge_at_once_lose_nothing() {
    // While others append, a file may grow between the call that tells its length and the one that reads: no end is looked for.
    let numbers = |store: &Arc<dyn Store>| -> Vec<u64> {
        let file = over(store).open_read("file").unwrap();
        let mut bytes = vec![0; file.length().unwrap() as usize];
        file.read_exact_at(0, &mut bytes).unwrap();
        let text = String::from_utf8(bytes).unwrap();
        text.lines().map(|line| line.split(' ').nth(1).unwrap().parse().unwrap()).collect()
    };
    let of_thread = |numbers: &[u64], thread: u64| -> Vec<u64> {
        numbers.iter().filter(|n| *n / 1000 == thread + 1).map(|n| n % 1000).collect()
    };
    for inner in [Sequential::like_s3(), Sequential::like_hdfs()] {
        let store: Arc<dyn Store> = Arc::new(inner);
        append(&over(&store), 0, 0).unwrap();
        std::thread::scope(|scope| {
            for thread in 0..4u64 {
                let store = &store;
                scope.spawn(move || {
                    let layout = over(store);
                    for number in 0..40 {
                        append(&layout, 1000 * (thread + 1) + number, 0).unwrap();
                        if number % 8 == 0 {
                            assert_eq!(of_thread(&numbers(store), thread), (0..=number).collect::<Vec<_>>());
                        }
                    }
                });
            }
        });
        let numbers = numbers(&store);
        for thread in 0..4 {
            assert_eq!(of_thread(&numbers, thread), (0..40).collect::<Vec<_>>());
        }
        assert_eq!(numbers.len(), 161);
        let report = over(&store).check("file").unwrap();
        assert!(report.is_clean(), "{report:?}");
    }
}

#[test]
fn overwritten_and_truncated_bytes_stay_so_through_merges() {
    for inner in [Sequential::like_s3(), Sequential::like_hdfs()] {
        let store: Arc<dyn Store> = Arc::new(inner);
        let mut random = fastrand::Rng::with_seed(7);
        let (layout, mut expected) = (over(&store), Vec::new());
        for number in 0..120u64 {
            let file = open(&layout, "file", OpenWrite::Any, random.u32(0..2));
            match random.u8(0..10) {
                0 => {
                    let to = random.usize(0..600);
                    file.truncate(to as u64).unwrap();
                    expected.resize(to, 0);
                }
                1 => {
                    let file = open(&layout, "file", OpenWrite::Replace, 1);
                    expected.clear();
                    file.close().unwrap();
                }
                2..=5 => {
                    let (at, bytes) = (random.usize(0..700), step(number));
                    super::write(&*file, at as u64, &bytes);
                    expected.resize(expected.len().max(at + bytes.len()), 0);
                    expected[at..at + bytes.len()].copy_from_slice(&bytes);
                }
                _ => {
                    file.append(&[IoSlice::new(&step(number))]).unwrap();
                    expected.extend(step(number));
                }
            }
            file.close().unwrap();
            assert!(read(&over(&store), "file").unwrap() == expected, "{number} over {}", store.describe());
        }
        let report = over(&store).check("file").unwrap();
        assert!(report.is_clean(), "{report:?}");
        over(&store).snapshot("file").unwrap();
        assert!(read(&over(&store), "file").unwrap() == expected);
    }
}

fn copy(from: &dyn Store, to: &dyn Store, folder: &str) {
    for name in from.list(folder).unwrap() {
        let name = if folder.is_empty() { name } else { format!("{folder}/{name}") };
        match from.stat(&name).unwrap().is_folder {
            true => {
                to.make_folder(&name).unwrap();
                copy(from, to, &name);
            }
            false => to.write_all(&name, &from.read_all(&name).unwrap()).unwrap(),
        }
    }
}

#[test]
fn a_container_of_an_earlier_release_is_read_and_extended_as_it_is() {
    // What a store with appends is given has stamp version 1, as everything had before.
    let memory: Arc<dyn Store> = Arc::new(Memory::new());
    for number in 0..3 {
        append(&super::in_folders(std::slice::from_ref(&memory)), number, 0).unwrap();
    }
    for inner in [Sequential::like_s3(), Sequential::like_hdfs()] {
        let store: Arc<dyn Store> = Arc::new(inner);
        copy(&*memory, &*store, "");
        assert_eq!(store.read_all("file").unwrap()[8..12], 1u32.to_le_bytes());
        for number in 3..12 {
            append(&over(&store), number, 0).unwrap();
            assert!(read(&over(&store), "file").unwrap() == steps(0..number + 1));
        }
        assert!(over(&store).check("file").unwrap().is_clean());
        over(&store).compact("file").unwrap();
        assert!(read(&over(&store), "file").unwrap() == steps(0..12));
    }
}
