//! The write-behind layout where calls meet: failures and what depends on what was lost, names that change, lengths, memory.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};
use thalweg_conformance::gate::{At, Gate};
use thalweg_conformance::scratch::Scratch;
use thalweg_layout::write_behind::WriteBehind;
use thalweg_layout::{Direct, Layout, OpenWrite, WriteObject, WriterId, write_all_at};
use thalweg_store::wrap::{Failing, Fault, StoreCall, Wrapped};
use thalweg_store::{Memory, Posix, Store, StoreExt};
use thalweg_types::Error;

fn gated_over(store: Arc<dyn Store>) -> (Arc<Wrapped<Gate>>, WriteBehind) {
    let gate = Arc::new(Wrapped::with(store, Gate::default()));
    let behind = WriteBehind::new(Arc::new(Direct::new(gate.clone()).unwrap()), 1 << 20).unwrap();
    (gate, behind)
}

fn failing() -> (Arc<Failing>, Arc<Memory>, Arc<Wrapped<Gate>>, WriteBehind) {
    let memory = Arc::new(Memory::new());
    let failing = Arc::new(Failing::new(memory.clone()));
    let (gate, behind) = gated_over(failing.clone());
    (failing, memory, gate, behind)
}

/// A file whose bytes are held when it is closed, and reach the layout below after that.
fn hold(gate: &Wrapped<Gate>, behind: &WriteBehind, name: &str, bytes: &[u8]) {
    gate.watch().shut(StoreCall::Write, name, At::Begin);
    put(behind, name, bytes).unwrap();
    gate.watch().open();
}

fn open(layout: &dyn Layout, path: &str) -> Box<dyn WriteObject> {
    layout.open_write(path, OpenWrite::Any, WriterId(0)).unwrap()
}

fn put(layout: &dyn Layout, path: &str, bytes: &[u8]) -> Result<(), Error> {
    let file = layout.open_write(path, OpenWrite::Any, WriterId(0))?;
    write_all_at(&*file, 0, bytes)?;
    file.close()
}

fn get(layout: &dyn Layout, path: &str) -> Result<Vec<u8>, Error> {
    let object = layout.open_read(path)?;
    let mut all = vec![0; object.length()? as usize];
    object.read_exact_at(0, &mut all)?;
    Ok(all)
}

fn until(what: impl Fn() -> bool) {
    let begun = Instant::now();
    while !what() {
        assert!(begun.elapsed() < Duration::from_secs(60), "it does not happen");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// The result of a call, if it returns within a time.
fn within<T: Send + 'static>(call: impl FnOnce() -> T + Send + 'static) -> Option<T> {
    let (tell, told): (_, Receiver<T>) = channel();
    std::thread::spawn(move || tell.send(call()));
    told.recv_timeout(Duration::from_secs(3)).ok()
}

#[test]
fn a_rename_does_not_replace_a_good_file_by_one_whose_bytes_are_lost() {
    let (failing, memory, gate, behind) = failing();
    memory.write_all("final", b"good").unwrap();
    failing.fail(Fault::of(StoreCall::Write).times(1));
    hold(&gate, &behind, "final.tmp", b"newer");
    let renamed = behind.rename("final.tmp", "final");
    let at_open = put(&behind, "final", b"").err();
    let drained = behind.drain().err();
    assert!(
        renamed.is_err() && memory.read_all("final").unwrap() == b"good",
        "rename: {renamed:?}; the next open: {at_open:?}; drain: {drained:?}; the file has {:?}",
        memory.read_all("final").unwrap()
    );
}

#[test]
fn a_removal_behind_a_failed_write_is_given_up() {
    let (failing, memory, gate, behind) = failing();
    memory.write_all("old", b"the only copy").unwrap();
    failing.fail(Fault::of(StoreCall::Write).times(1));
    hold(&gate, &behind, "copy", b"the only copy");
    let removed = behind.remove("old");
    assert!(removed.is_err() && memory.exists("old").unwrap(), "{removed:?}: no copy is left");
}

#[test]
fn an_index_written_after_the_loss_does_not_refer_to_lost_data() {
    let (failing, memory, gate, behind) = failing();
    failing.fail(Fault::of(StoreCall::Write).times(1));
    hold(&gate, &behind, "data", b"data");
    // The storage fails before the index is written. Nobody has been told.
    until(|| behind.counts().failures == 1);
    let told = put(&behind, "index", b"data is there");
    until(|| behind.counts().queued == 0);
    let index = memory.read_all("index").unwrap_or_default();
    assert!(told.is_err() && index.is_empty(), "{told:?}, index: {:?}", String::from_utf8_lossy(&index));
}

#[test]
fn a_file_with_two_names_can_be_opened_again() {
    let scratch = Scratch::new();
    let below = Direct::new(Arc::new(Posix::at(scratch.join(".")).unwrap())).unwrap();
    let behind = WriteBehind::new(Arc::new(below), 1 << 20).unwrap();
    put(&behind, "x", b"bytes").unwrap();
    behind.drain().unwrap();
    behind.make_hard_link("x", "y").unwrap();
    let (x, y) = (open(&behind, "x"), open(&behind, "y"));
    x.close().unwrap();
    y.close().unwrap();
    behind.drain().unwrap();
    let (read, written) = (get(&behind, "y"), put(&behind, "y", b"b"));
    assert!(read.is_ok() && written.is_ok(), "{read:?} {written:?}");
}

#[test]
fn a_file_renamed_while_it_is_open_can_be_opened_again() {
    let scratch = Scratch::new();
    let below = Direct::new(Arc::new(Posix::at(scratch.join(".")).unwrap())).unwrap();
    let behind = WriteBehind::new(Arc::new(below), 1 << 20).unwrap();
    let first = open(&behind, "run.tmp");
    write_all_at(&*first, 0, b"step").unwrap();
    behind.rename("run.tmp", "run").unwrap();
    let second = open(&behind, "run");
    first.close().unwrap();
    second.close().unwrap();
    behind.drain().unwrap();
    let (read, written) = (get(&behind, "run"), put(&behind, "run", b"b"));
    assert!(read.is_ok() && written.is_ok(), "{read:?} {written:?}");
}

#[test]
fn a_file_made_anew_beside_a_removal_of_its_name_keeps_its_bytes() {
    let scratch = Scratch::new();
    let store = Arc::new(Posix::at(scratch.join(".")).unwrap());
    let (gate, behind) = gated_over(store.clone());
    let old = open(&behind, "x");
    write_all_at(&*old, 0, b"old").unwrap();
    old.sync().unwrap();
    gate.watch().shut(StoreCall::Remove, "x", At::End);
    std::thread::scope(|scope| {
        let removal = scope.spawn(|| behind.remove("x"));
        // The name is gone below.
        gate.watch().wait_for_one();
        let new = behind.open_write("x", OpenWrite::New, WriterId(1)).unwrap();
        gate.watch().open();
        removal.join().unwrap().unwrap();
        write_all_at(&*new, 0, b"new bytes").unwrap();
        new.close().unwrap();
    });
    old.close().unwrap();
    behind.drain().unwrap();
    assert_eq!(store.read_all("x").unwrap(), b"new bytes");
}

#[test]
fn stat_knows_a_write_that_has_returned() {
    let gate = Arc::new(Wrapped::with(Arc::new(Memory::new()) as Arc<dyn Store>, Gate::default()));
    let twice = Arc::new(Wrapped::with(gate.clone() as Arc<dyn Store>, Gate::default()));
    let behind = WriteBehind::new(Arc::new(Direct::new(twice.clone()).unwrap()), 1 << 20).unwrap();
    let file = open(&behind, "z");
    gate.watch().shut(StoreCall::Write, "z", At::Begin);
    write_all_at(&*file, 0, b"bytes").unwrap();
    file.close().unwrap();
    gate.watch().wait_for_one();
    twice.watch().shut(StoreCall::Stat, "z", At::End);
    let own = behind.clone();
    // The layout below answers 0; before that is looked at, the bytes are stored, and the file is forgotten.
    let stat = std::thread::spawn(move || own.stat("z").unwrap().length);
    twice.watch().wait_for_one();
    gate.watch().open();
    until(|| behind.counts().queued == 0);
    twice.watch().open();
    assert_eq!(stat.join().unwrap(), 5);
}

#[test]
fn a_truncation_beside_a_write_leaves_the_right_length() {
    let memory = Arc::new(Memory::new());
    let (gate, behind) = gated_over(memory.clone());
    let file = open(&behind, "x");
    write_all_at(&*file, 0, &[1; 100]).unwrap();
    file.sync().unwrap();
    let other = open(&behind, "x");
    gate.watch().shut(StoreCall::Truncate, "x", At::Begin);
    std::thread::scope(|scope| {
        let truncation = scope.spawn(|| file.truncate(10));
        gate.watch().wait_for_one();
        // Behind the truncation.
        gate.watch().shut(StoreCall::Write, "x", At::Begin);
        write_all_at(&*other, 0, &[2; 5]).unwrap();
        truncation.join().unwrap().unwrap();
        gate.watch().open();
    });
    other.sync().unwrap();
    let below = memory.read_all("x").unwrap().len() as u64;
    let end = other.append(&[std::io::IoSlice::new(b"!")]).unwrap();
    assert_eq!((other.length().unwrap(), end), (below + 1, below + 1), "the file had {below} bytes");
}

#[test]
fn a_removal_that_fails_leaves_the_file_with_its_bytes() {
    let memory = Arc::new(Memory::new());
    let failing = Arc::new(Failing::new(memory.clone()));
    let (gate, behind) = gated_over(failing.clone());
    gate.watch().shut(StoreCall::Write, "first", At::Begin);
    put(&behind, "first", b"first").unwrap();
    gate.watch().wait_for_one();
    let file = behind.open_write("x", OpenWrite::Replace, WriterId(0)).unwrap();
    write_all_at(&*file, 0, b"bytes").unwrap();
    file.close().unwrap();
    failing.fail(Fault::of(StoreCall::Remove).times(1));
    behind.remove("x").unwrap_err();
    gate.watch().open();
    behind.drain().unwrap();
    assert_eq!(memory.read_all("x").unwrap(), b"bytes");
}

#[test]
fn an_open_reader_does_not_read_another_file() {
    let scratch = Scratch::new();
    let below = Direct::new(Arc::new(Posix::at(scratch.join(".")).unwrap())).unwrap();
    let behind = WriteBehind::new(Arc::new(below), 1 << 20).unwrap();
    let file = open(&behind, "x");
    write_all_at(&*file, 0, b"own bytes").unwrap();
    let reader = behind.open_read("x").unwrap();
    file.close().unwrap();
    put(&behind, "y", b"of another").unwrap();
    behind.rename("y", "x").unwrap();
    let mut out = [0; 9];
    let got = reader.read_at(0, &mut out).unwrap();
    assert_eq!(&out[..got], b"own bytes");
}

#[test]
fn drain_takes_no_failure_for_told_that_it_does_not_tell() {
    let (failing, _, gate, behind) = failing();
    failing.fail(Fault::of(StoreCall::Write).times(2));
    for (folder, name) in [("one", "one/file"), ("two", "two/file")] {
        behind.make_folder(folder).unwrap();
        hold(&gate, &behind, name, b"lost");
        until(|| behind.counts().queued == 0);
    }
    assert_eq!(behind.counts().failures, 2);
    let drained = behind.drain().unwrap_err().to_string();
    assert!(drained.contains("one/file") && drained.contains("two/file"), "{drained}");
    behind.drain().unwrap();
    put(&behind, "one/file", b"again").unwrap();
    put(&behind, "two/file", b"again").unwrap();
    behind.drain().unwrap();
}

#[test]
fn a_failure_is_told_under_every_name_of_the_file() {
    let scratch = Scratch::new();
    let failing = Arc::new(Failing::new(Arc::new(Posix::at(scratch.join(".")).unwrap())));
    let (gate, behind) = gated_over(failing.clone());
    put(&behind, "x", b"1").unwrap();
    behind.make_hard_link("x", "y").unwrap();
    failing.fail(Fault::of(StoreCall::Write).times(1));
    hold(&gate, &behind, "x", b"lost");
    until(|| behind.counts().queued == 0);
    let by_link = put(&behind, "y", b"2");
    let drained = behind.drain();
    assert!(by_link.is_err() || drained.is_err(), "nobody is told");
}

#[test]
fn writes_that_wait_hold_no_memory() {
    let memory = Arc::new(Memory::new());
    let gate = Arc::new(Wrapped::with(memory as Arc<dyn Store>, Gate::default()));
    let behind = WriteBehind::new(Arc::new(Direct::new(gate.clone()).unwrap()), 1 << 20).unwrap();
    gate.watch().shut(StoreCall::Write, "x", At::Begin);
    let resident = || {
        let text = std::fs::read_to_string("/proc/self/statm").unwrap();
        text.split(' ').nth(1).unwrap().parse::<u64>().unwrap() * 4096
    };
    let file = open(&behind, "x");
    write_all_at(&*file, 0, &[1]).unwrap();
    gate.watch().wait_for_one();
    let body = vec![7; 64 << 20];
    let before = resident();
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| write_all_at(&*file, 0, &body).unwrap());
        }
        std::thread::sleep(Duration::from_millis(800));
        let more = resident().saturating_sub(before);
        gate.watch().open();
        assert!(more < 64 << 20, "{more} bytes beside a limit of {}", 1 << 20);
    });
}

#[test]
fn a_long_write_is_not_passed_by_short_ones_for_ever() {
    let gate = Arc::new(Wrapped::with(Arc::new(Memory::new()) as Arc<dyn Store>, Gate::default()));
    let behind = WriteBehind::new(Arc::new(Direct::new(gate.clone()).unwrap()), 1000).unwrap();
    gate.watch().shut(StoreCall::Write, "first", At::Begin);
    put(&behind, "first", b"1").unwrap();
    gate.watch().wait_for_one();
    let own = behind.clone();
    let long = std::thread::spawn(move || put(&own, "long", &[1; 1000]));
    std::thread::sleep(Duration::from_millis(100));
    let own = behind.clone();
    let short = within(move || put(&own, "short", b"short"));
    let passed = !long.is_finished() && short.is_some();
    gate.watch().open();
    long.join().unwrap().unwrap();
    assert!(!passed, "a write that came later was taken first; a stream of such writes holds the long one up for ever");
}

#[test]
fn two_replacing_opens_leave_the_right_length() {
    let memory = Arc::new(Memory::new());
    let (gate, behind) = gated_over(memory.clone());
    gate.watch().shut(StoreCall::OpenWrite, "x", At::End);
    let own = behind.clone();
    let second = std::thread::spawn(move || own.open_write("x", OpenWrite::Replace, WriterId(1)).unwrap());
    gate.watch().wait_for_one();
    // The second one has truncated the file below; it is not known here yet.
    gate.watch().shut(StoreCall::Write, "x", At::Begin);
    let first = open(&behind, "x");
    write_all_at(&*first, 0, b"0123456789").unwrap();
    std::thread::sleep(Duration::from_millis(100));
    // Its close of the first handle waits for the write.
    gate.watch().open();
    let second = second.join().unwrap();
    first.sync().unwrap();
    let seen = (first.length().unwrap(), second.length().unwrap());
    assert_eq!((seen, memory.read_all("x").unwrap().len()), ((10, 10), 10));
}

#[test]
fn a_replacing_open_makes_no_write_of_another_handle_fail() {
    let memory = Arc::new(Memory::new());
    memory.write_all("x", b"").unwrap();
    let behind = WriteBehind::new(Arc::new(Direct::new(memory).unwrap()), 1 << 20).unwrap();
    let (begun, long) = (Instant::now(), Duration::from_secs(5));
    let failed = || behind.counts().failures > 0;
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while begun.elapsed() < long && !failed() {
                let Ok(file) = behind.open_write("x", OpenWrite::Any, WriterId(0)) else { return };
                (0..100u64).for_each(|n| drop(write_all_at(&*file, n % 7, b"bytes")));
                let _ = file.close();
            }
        });
        while begun.elapsed() < long && !failed() {
            let file = behind.open_write("x", OpenWrite::Replace, WriterId(1));
            let _ = file.and_then(|file| file.close());
        }
    });
    assert_eq!(behind.counts().last_failure, None);
}

#[test]
fn a_replacing_open_whose_close_of_the_older_handle_fails_leaves_a_file_that_can_be_opened() {
    let failing = Arc::new(Failing::new(Arc::new(Memory::new())));
    let (_, behind) = gated_over(failing.clone());
    let first = open(&behind, "x");
    failing.fail(Fault::of(StoreCall::Close).times(1));
    assert!(behind.open_write("x", OpenWrite::Replace, WriterId(1)).is_err(), "its close of the older handle fails");
    assert!(write_all_at(&*first, 0, b"bytes").is_err() && first.close().is_err());
    let _ = behind.drain();
    put(&behind, "x", b"bytes").unwrap();
    behind.drain().unwrap();
    assert_eq!(get(&behind, "x").unwrap(), b"bytes");
}
