//! The write-behind layout: what it promises, in which order calls reach the layout below, and what is left after a failure there.

use std::io::IoSlice;
use std::sync::Arc;
use std::time::Duration;
use thalweg_conformance::gate::{At, Gate};
use thalweg_conformance::layout;
use thalweg_conformance::scratch::Scratch;
use thalweg_layout::container::Options;
use thalweg_layout::write_behind::{Promise, WriteBehind};
use thalweg_layout::{Container, Direct, Layout, OpenWrite, WriteObject, WriterId, write_all_at};
use thalweg_store::wrap::{Failing, Fault, StoreCall, Wrapped};
use thalweg_store::{Memory, Posix, Store, StoreExt};
use thalweg_types::{Error, ErrorKind};

fn gated(limit: u64) -> (Arc<Wrapped<Gate>>, Arc<Memory>, WriteBehind) {
    let memory = Arc::new(Memory::new());
    let gate = Arc::new(Wrapped::with(memory.clone() as Arc<dyn Store>, Gate::default()));
    let behind = WriteBehind::new(Arc::new(Direct::new(gate.clone()).unwrap()), limit).unwrap();
    (gate, memory, behind)
}

fn open(layout: &dyn Layout, path: &str) -> Box<dyn WriteObject> {
    layout.open_write(path, OpenWrite::Any, WriterId(0)).unwrap()
}

fn bytes(layout: &dyn Layout, path: &str) -> Vec<u8> {
    let object = layout.open_read(path).unwrap();
    let mut all = vec![0; object.length().unwrap() as usize];
    object.read_exact_at(0, &mut all).unwrap();
    all
}

#[test]
fn it_keeps_the_promises_of_layouts() {
    let scratch = Scratch::new();
    for (name, limit) in [("a", 0), ("b", 1000), ("c", 1 << 30)] {
        let folder = scratch.join(name);
        std::fs::create_dir(&folder).unwrap();
        let below = Direct::new(Arc::new(Posix::at(folder).unwrap())).unwrap();
        let behind = WriteBehind::new(Arc::new(below), limit).unwrap();
        layout::check(&behind);
        layout::check_names_and_attributes(&behind);
        layout::check_error_numbers(&behind);
        layout::check_closed_lengths(&behind, &behind.promising(Promise::Stored));
    }
    let store: Arc<dyn Store> = Arc::new(Posix::at(scratch.join("a")).unwrap());
    let below = Container::new(vec![store], Options::default()).unwrap();
    layout::check(&WriteBehind::new(Arc::new(below), 1 << 20).unwrap());
}

#[test]
fn what_is_held_is_seen_before_it_is_stored_and_close_returns_at_once() {
    let (gate, memory, behind) = gated(1 << 20);
    memory.write_all("x", b"before, and a tail").unwrap();
    gate.watch().shut(StoreCall::Write, "", At::Begin);
    let reader = behind.open_read("x").unwrap();
    let file = open(&behind, "x");
    write_all_at(&*file, 0, b"BEFORE").unwrap();
    write_all_at(&*file, 3, b"!").unwrap();
    assert_eq!(file.append(&[IoSlice::new(b" grows")]).unwrap(), 24);
    write_all_at(&*file, 30, b"z").unwrap();
    file.publish().unwrap();
    file.close().unwrap();
    let wanted = b"BEF!RE, and a tail grows\0\0\0\0\0\0z";
    assert_eq!(memory.read_all("x").unwrap(), b"before, and a tail");
    assert_eq!(bytes(&behind, "x"), wanted);
    assert_eq!((behind.stat("x").unwrap().length, reader.length().unwrap()), (31, 31));
    let mut out = [0; 40];
    assert_eq!(reader.read_at(2, &mut out).unwrap(), 29, "opened before the writes");
    assert_eq!(out[..29], wanted[2..]);
    assert_eq!((behind.counts().held, behind.counts().stored), (14, 0));
    gate.watch().open();
    behind.drain().unwrap();
    assert_eq!((behind.counts().held, behind.counts().stored, behind.counts().queued), (0, 14, 0));
    assert_eq!(memory.read_all("x").unwrap(), wanted);
    assert_eq!(reader.read_at(2, &mut out).unwrap(), 29, "and after");
    assert_eq!(out[..29], wanted[2..]);
}

#[test]
fn stored_waits_and_memory_is_bounded() {
    let (gate, memory, behind) = gated(100);
    let stored = behind.promising(Promise::Stored);
    gate.watch().shut(StoreCall::Write, "", At::Begin);
    let file = open(&behind, "a");
    write_all_at(&*file, 0, &[1; 100]).unwrap();
    let (told, ended) = std::sync::mpsc::channel();
    std::thread::scope(|scope| {
        let more = told.clone();
        scope.spawn(move || {
            write_all_at(&*file, 100, &[2; 10]).unwrap();
            file.close().unwrap();
            more.send("more").unwrap();
        });
        let stored = &stored;
        scope.spawn(move || {
            let file = open(stored, "b");
            file.close().unwrap();
            told.send("stored").unwrap();
        });
        assert!(ended.recv_timeout(Duration::from_millis(300)).is_err(), "both wait for the store");
        assert!(behind.counts().held <= 100);
        gate.watch().open();
        assert!(ended.recv().is_ok() && ended.recv().is_ok());
    });
    behind.drain().unwrap();
    assert_eq!(memory.read_all("a").unwrap(), [&[1; 100][..], &[2; 10]].concat());
    // One write longer than the limit.
    let file = open(&behind, "long");
    write_all_at(&*file, 0, &[3; 1000]).unwrap();
    file.sync().unwrap();
    assert_eq!(memory.read_all("long").unwrap(), [3; 1000]);
}

/// Writes that know the order: each one of `b` refers to those of `a` before it.
fn write_in_turns(behind: &WriteBehind) -> Result<(), Error> {
    let try_open = |path| behind.open_write(path, OpenWrite::Any, WriterId(0));
    let (a, b) = (try_open("a")?, try_open("b")?);
    for step in 0..6u8 {
        write_all_at(&*a, u64::from(step) * 10, &[step + 1; 10])?;
        a.publish()?;
        write_all_at(&*b, 0, &[step + 1])?;
        b.publish()?;
    }
    a.close()?;
    b.close()
}

#[test]
fn after_any_failing_call_the_files_are_as_after_one_of_the_calls_and_the_program_is_told() {
    let faults = [StoreCall::Write, StoreCall::Sync, StoreCall::Close].map(Fault::of);
    for fault in faults.iter().chain([&Fault::of(StoreCall::Write).half_way(), &Fault::of(StoreCall::Write).panics()]) {
        for skipped in 0.. {
            let memory = Arc::new(Memory::new());
            memory.write_all("a", b"").unwrap();
            memory.write_all("b", &[0]).unwrap();
            let failing = Arc::new(Failing::new(memory.clone()));
            let below: Arc<dyn Layout> = Arc::new(Direct::new(failing.clone()).unwrap());
            let behind = WriteBehind::new(below, 1 << 20).unwrap();
            failing.fail(fault.clone().skipping(skipped).times(1));
            let at_once = write_in_turns(&behind);
            let drained = behind.drain();
            let (a, b) = (memory.read_all("a").unwrap(), memory.read_all("b").unwrap());
            // What `b` refers to is in `a`.
            let of_a: Vec<u8> = (0..6u8).flat_map(|step| [step + 1; 10]).collect();
            assert!(of_a.starts_with(&a) && a.len() >= usize::from(b[0]) * 10, "{fault:?} {skipped}: {a:?} {b:?}");
            assert!(a.len() <= usize::from(b[0]) * 10 + 10, "nothing behind the failure: {a:?} {b:?}");
            if failing.failed().0 == 0 {
                assert!(at_once.is_ok() && drained.is_ok() && a.len() == 60 && b == [6]);
                break;
            }
            let told = at_once.and(drained).expect_err("the failure is told");
            assert_eq!(told.kind(), ErrorKind::Io, "{told}");
            assert_eq!((behind.counts().failures, behind.counts().held), (1, 0));
            // It is told by the other file, too, and then both can be written again.
            let _ = write_in_turns(&behind).and(behind.drain());
            let _ = write_in_turns(&behind).and(behind.drain());
            write_in_turns(&behind).and(behind.drain()).unwrap();
            assert_eq!((memory.read_all("a").unwrap(), memory.read_all("b").unwrap()), (of_a, vec![6]));
        }
    }
}

#[test]
fn lost_bytes_are_errors_and_never_zeros() {
    let failing = Arc::new(Failing::new(Arc::new(Memory::new())));
    let behind = WriteBehind::new(Arc::new(Direct::new(failing.clone()).unwrap()), 1 << 20).unwrap();
    let file = open(&behind, "x");
    failing.fail(Fault::of(StoreCall::Write).times(1));
    write_all_at(&*file, 0, b"lost").unwrap();
    let _ = behind.drain();
    let mut out = [0; 4];
    assert_eq!(file.read_at(0, &mut out).unwrap_err().kind(), ErrorKind::Io);
    assert_eq!(behind.open_read("x").err().map(|e| e.kind()), Some(ErrorKind::Io));
    let e = write_all_at(&*file, 4, b"more").unwrap_err();
    assert!(e.to_string().contains('x') && e.still_safe().is_some(), "{e}");
    assert!(file.close().is_err());
    behind.drain().unwrap();
    assert_eq!(bytes(&behind, "x"), b"");
}

#[test]
fn a_temporary_file_waits_for_nothing_and_other_removals_keep_their_order() {
    let (gate, memory, behind) = gated(1 << 20);
    memory.write_all("old", b"old").unwrap();
    gate.watch().shut(StoreCall::Write, "", At::Begin);
    let file = open(&behind, "new");
    write_all_at(&*file, 0, b"new").unwrap();
    let spill = behind.open_write("spill", OpenWrite::Replace, WriterId(0)).unwrap();
    write_all_at(&*spill, 0, b"spilled").unwrap();
    let mut out = [0; 7];
    assert_eq!((spill.read_at(0, &mut out).unwrap(), &out), (7, b"spilled"));
    spill.close().unwrap();
    behind.remove("spill").unwrap();
    assert_eq!((behind.counts().held, memory.exists("spill").unwrap()), (3, false));
    assert_eq!(behind.open_read("spill").err().map(|e| e.kind()), Some(ErrorKind::NotFound));
    std::thread::scope(|scope| {
        let removal = scope.spawn(|| behind.remove("old").unwrap());
        std::thread::sleep(Duration::from_millis(100));
        assert!(!removal.is_finished() && memory.exists("old").unwrap(), "the new file is not stored");
        gate.watch().open();
    });
    assert_eq!((memory.read_all("new").unwrap(), memory.exists("old").unwrap()), (b"new".to_vec(), false));
    file.close().unwrap();
}

#[test]
fn attributes_wait_for_nothing_and_the_time_is_that_of_the_write() {
    let scratch = Scratch::new();
    let posix: Arc<dyn Store> = Arc::new(Posix::at(scratch.path()).unwrap());
    let gate = Arc::new(Wrapped::with(posix, Gate::default()));
    let behind = WriteBehind::new(Arc::new(Direct::new(gate.clone()).unwrap()), 1 << 20).unwrap();
    gate.watch().shut(StoreCall::Write, "", At::Begin);
    let file = open(&behind, "x");
    let begun = std::time::SystemTime::now();
    write_all_at(&*file, 0, b"written").unwrap();
    let (held, of_handle) = (behind.attributes("x").unwrap(), file.attributes().unwrap());
    file.close().unwrap();
    assert_eq!((held.length, held.mtime), (7, of_handle.mtime));
    assert!(held.mtime >= begun && of_handle.length == 7);
    std::thread::sleep(Duration::from_millis(50));
    gate.watch().open();
    behind.drain().unwrap();
    assert_eq!(behind.attributes("x").unwrap().mtime, held.mtime, "as before it was stored");
    assert_eq!(std::fs::metadata(scratch.join("x")).unwrap().modified().unwrap(), held.mtime);
}

#[test]
fn neighbouring_writes_are_one_call_below_and_a_file_is_closed_when_nobody_has_it_open() {
    let (gate, _, behind) = gated(1 << 20);
    gate.watch().shut(StoreCall::Write, "", At::Begin);
    let (file, other) = (open(&behind, "x"), open(&behind, "y"));
    // The first one is under way.
    write_all_at(&*other, 0, b"0").unwrap();
    for n in 0..100 {
        write_all_at(&*file, n * 3, b"abc").unwrap();
    }
    file.close().unwrap();
    let again = open(&behind, "x");
    gate.watch().open();
    behind.drain().unwrap();
    let count = |call, name: &str| gate.watch().made(call, name);
    assert_eq!(
        (count(StoreCall::Write, "x"), count(StoreCall::Close, "x"), count(StoreCall::OpenWrite, "x")),
        (1, 0, 1)
    );
    again.close().unwrap();
    behind.drain().unwrap();
    assert_eq!(count(StoreCall::Close, "x"), 1);
}

#[test]
fn a_lease_ends_below_when_what_was_written_before_is_stored() {
    let (gate, memory, behind) = gated(1 << 20);
    let below = || memory.open_read("x").unwrap().life().unwrap().leased;
    let seen = || behind.open_read("x").unwrap().life().unwrap().leased;
    let file = open(&behind, "x");
    let (first, second) = (file.lease().unwrap().unwrap(), file.lease().unwrap().unwrap());
    gate.watch().shut(StoreCall::Write, "", At::Begin);
    write_all_at(&*file, 0, b"a step").unwrap();
    drop(first);
    file.close().unwrap();
    drop(second);
    // The program has gone; its last step is held, and seen through this layout.
    assert_eq!((below(), seen()), (Some(true), Some(false)));
    gate.watch().open();
    behind.drain().unwrap();
    assert_eq!((below(), seen()), (Some(false), Some(false)));
    // Between two outputs the file is closed.
    let file = open(&behind, "x");
    let lease = file.lease().unwrap().unwrap();
    file.close().unwrap();
    behind.drain().unwrap();
    assert_eq!((below(), seen()), (Some(true), Some(true)));
    let file = open(&behind, "x");
    write_all_at(&*file, 6, b", and another one").unwrap();
    file.close().unwrap();
    drop(lease);
    behind.drain().unwrap();
    assert_eq!((below(), seen()), (Some(false), Some(false)));
    assert_eq!(memory.read_all("x").unwrap(), b"a step, and another one");
}
