//! What each wrapper adds: counts, delays, failures.

use std::io::IoSlice;
use std::sync::Arc;
use std::time::{Duration, Instant};
use thalweg_store::wrap::{
    Counting, Failing, Fault, Forgetful, Limited, Patience, Retry, Sequential, Slow, StoreCall, Tiered,
};
use thalweg_store::{Memory, OpenWrite, Store, StoreExt};
use thalweg_types::ErrorKind;

fn memory() -> Arc<Memory> {
    Arc::new(Memory::new())
}

#[test]
fn counting_tells_operations_pieces_and_bytes_per_object() {
    let store = Counting::new(memory());
    store.make_folder("d").unwrap();
    let object = store.open_write("d/a", OpenWrite::New).unwrap();
    object.write_at(0, &[IoSlice::new(b"abc"), IoSlice::new(b"de")]).unwrap();
    object.write_at(9, &[IoSlice::new(b"f")]).unwrap();
    object.sync().unwrap();
    assert_eq!(object.read_at(8, &mut [0; 100]).unwrap(), 2);
    store.write_all("b", b"1234").unwrap();
    store.open_read("nothing").map(|_| ()).unwrap_err();
    let counted = store.take();
    let a = counted.object("d/a");
    assert_eq!((a.opens_for_writing, a.writes, a.pieces, a.bytes_written), (1, 2, 3, 6));
    assert_eq!((a.reads, a.bytes_read, a.syncs, a.failed), (1, 2, 1, 0));
    assert_eq!((counted.object("nothing").failed, counted.object("nothing").opens_for_reading), (1, 0));
    let total = counted.total();
    assert_eq!((total.writes, total.bytes_written, total.folders_made, total.failed), (3, 10, 1, 1));
    assert_eq!(store.counted(), Default::default(), "taking begins anew");
}

#[test]
fn slow_waits_for_each_operation_and_each_byte() {
    let store = Slow::new(memory(), Duration::from_millis(20), 1e6);
    let object = store.open_write("a", OpenWrite::New).unwrap();
    let start = Instant::now();
    object.write_at(0, &[IoSlice::new(&[0; 50_000])]).unwrap();
    assert!(start.elapsed() >= Duration::from_millis(70), "{:?}", start.elapsed());
    let start = Instant::now();
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| object.write_at(0, &[IoSlice::new(&[0; 20_000])]).unwrap());
        }
    });
    // Four times 20 ms for bytes that pass one behind the other, and the latency once.
    assert!(start.elapsed() >= Duration::from_millis(100), "{:?}", start.elapsed());
}

#[test]
fn a_fault_meets_the_chosen_operations_only() {
    let store = Failing::new(memory());
    store.fail(Fault::of(StoreCall::Write).named("bad").skipping(1).times(2).with(ErrorKind::PermissionDenied));
    let (good, bad) =
        (store.open_write("good", OpenWrite::New).unwrap(), store.open_write("bad", OpenWrite::New).unwrap());
    let four = [IoSlice::new(b"four")];
    let kinds: Vec<_> = (0..5).map(|i| bad.write_at(i * 4, &four).map_err(|e| e.kind())).collect();
    let denied = Err(ErrorKind::PermissionDenied);
    assert_eq!(kinds, [Ok(()), denied, denied, Ok(()), Ok(())]);
    assert_eq!(store.read_all("bad").unwrap(), b"four\0\0\0\0\0\0\0\0fourfour");
    good.write_at(0, &four).unwrap();
    store.fail(Fault::of(StoreCall::Sync));
    assert_eq!(good.sync().unwrap_err().kind(), ErrorKind::Io);
    store.heal();
    good.sync().unwrap();
}

#[test]
fn a_write_may_stop_half_way_across_pieces() {
    let store = Failing::new(memory());
    let object = store.open_write("a", OpenWrite::New).unwrap();
    store.fail(Fault::of(StoreCall::Write).times(1).half_way());
    store.fail(Fault::of(StoreCall::Write).skipping(1).times(1).after_bytes(5));
    let pieces = [IoSlice::new(b"abc"), IoSlice::new(b"defg"), IoSlice::new(b"hij")];
    let error = object.write_at(10, &pieces).unwrap_err();
    assert_eq!((error.place().object.as_deref(), error.place().byte), (Some("a"), Some(15)));
    assert_eq!(store.read_all("a").unwrap(), b"\0\0\0\0\0\0\0\0\0\0abcde");
    object.truncate(0).unwrap();
    assert_eq!(object.write_at(0, &pieces).unwrap_err().place().byte, Some(5));
    assert_eq!(store.read_all("a").unwrap(), b"abcde");
}

#[test]
fn a_full_store_writes_what_fits_and_lets_overwrite() {
    let store = Failing::new(memory());
    store.space(Some(10));
    let (a, b) = (store.open_write("a", OpenWrite::New).unwrap(), store.open_write("b", OpenWrite::New).unwrap());
    a.write_at(0, &[IoSlice::new(b"123456")]).unwrap();
    let error = b.write_at(0, &[IoSlice::new(b"abcd"), IoSlice::new(b"ef")]).unwrap_err();
    assert_eq!((error.kind(), error.place().byte), (ErrorKind::NoSpace, Some(4)));
    assert_eq!(store.read_all("b").unwrap(), b"abcd");
    a.write_at(0, &[IoSlice::new(b"654321")]).unwrap();
    assert_eq!(a.write_at(6, &[IoSlice::new(b"7")]).unwrap_err().kind(), ErrorKind::NoSpace);
    a.truncate(4).unwrap();
    b.write_at(4, &[IoSlice::new(b"ef")]).unwrap();
    assert_eq!(b.truncate(7).unwrap_err().kind(), ErrorKind::NoSpace);
    assert_eq!(b.reserve(6, 1).unwrap_err().kind(), ErrorKind::NoSpace);
    b.reserve(0, 6).unwrap();
    store.space(None);
    b.truncate(7).unwrap();
}

#[test]
fn writers_at_once_share_the_space_of_one_object() {
    // Whatever the order, the object ends at 800 bytes, and that much space there is.
    let inner = Slow::new(memory(), Duration::from_millis(5), f64::INFINITY);
    let store = Failing::new(Arc::new(inner));
    store.space(Some(800));
    let object = store.open_write("a", OpenWrite::New).unwrap();
    std::thread::scope(|scope| {
        for i in 0..8 {
            let object = &*object;
            scope.spawn(move || object.write_at(i * 100, &[IoSlice::new(&[1; 100])]).unwrap());
        }
    });
    assert_eq!(object.write_at(800, &[IoSlice::new(b"!")]).unwrap_err().kind(), ErrorKind::NoSpace);
}

fn patient(times: u32, budget: u32) -> (Arc<Failing>, Retry) {
    let failing = Arc::new(Failing::new(memory()));
    let (first, longest) = (Duration::from_micros(10), Duration::from_micros(100));
    (failing.clone(), Retry::new(failing, Patience { times, first, longest, budget }))
}

#[test]
fn what_may_pass_is_tried_again_and_what_is_an_answer_is_not() {
    let (failing, store) = patient(3, 100);
    let object = store.open_write("a", OpenWrite::New).unwrap();
    for kind in [ErrorKind::Io, ErrorKind::Timeout, ErrorKind::PeerLost] {
        for asked in [StoreCall::Write, StoreCall::Stat, StoreCall::List, StoreCall::OpenRead, StoreCall::Truncate] {
            failing.fail(Fault::of(asked).times(3).with(kind).half_way());
        }
        object.write_at(0, &[IoSlice::new(b"bytes")]).unwrap();
        assert_eq!(store.stat("a").unwrap().length, 5);
        assert_eq!(store.list("").unwrap(), ["a"]);
        assert_eq!(store.read_all("a").unwrap(), b"bytes");
        object.truncate(0).unwrap();
        failing.heal();
    }
    assert_eq!(store.tried_again(), 3 * 5 * 3);
    failing.fail(Fault::of(StoreCall::Stat).times(4));
    assert_eq!(store.stat("a").unwrap_err().kind(), ErrorKind::Io, "the fourth failure is told");
    failing.fail(Fault::of(StoreCall::Stat).times(1).with(ErrorKind::PermissionDenied));
    let before = store.tried_again();
    assert_eq!(store.stat("a").unwrap_err().kind(), ErrorKind::PermissionDenied);
    assert_eq!(store.tried_again(), before);
}

#[test]
fn what_must_not_be_done_twice_is_not() {
    let (failing, store) = patient(3, 100);
    let object = store.open_write("a", OpenWrite::New).unwrap();
    for asked in [StoreCall::OpenWrite, StoreCall::Rename, StoreCall::Remove, StoreCall::Sync, StoreCall::Close] {
        failing.fail(Fault::of(asked).times(1));
    }
    assert!(store.open_write("b", OpenWrite::New).is_err(), "the second try would find what the first one made");
    assert!(store.rename("a", "c").is_err());
    assert!(store.remove("a").is_err());
    assert!(object.sync().is_err(), "a second sync would hide that bytes are gone");
    assert!(object.close().is_err());
    assert_eq!(store.tried_again(), 0);
    // A store that only goes on at the end can't be told whether a write that failed left some of its bytes.
    let failing = Arc::new(Failing::new(Arc::new(Sequential::like_hdfs())));
    let store = Retry::new(failing.clone(), Patience::default());
    let object = store.open_write("a", OpenWrite::Replace).unwrap();
    failing.fail(Fault::of(StoreCall::Write).times(1).half_way());
    assert!(object.write_at(0, &[IoSlice::new(b"bytes")]).is_err());
    assert_eq!(store.tried_again(), 0);
}

#[test]
fn a_budget_that_is_used_up_lets_failures_pass_at_once() {
    let (failing, store) = patient(5, 7);
    failing.fail(Fault::of(StoreCall::Stat));
    assert_eq!(store.stat("a").unwrap_err().kind(), ErrorKind::Io);
    assert_eq!(store.stat("a").unwrap_err().kind(), ErrorKind::Io);
    assert_eq!(store.tried_again(), 7, "five of the first, two of the second, none of what follows");
    assert!(store.stat("a").is_err());
    assert_eq!(store.tried_again(), 7);
    failing.heal();
    (0..10).for_each(|_| drop(store.list("").unwrap()));
    failing.fail(Fault::of(StoreCall::Stat));
    assert!(store.stat("a").is_err());
    assert_eq!(store.tried_again(), 8, "ten that went well paid for one more");
}

#[test]
fn a_limit_holds_bytes_and_operations_back_together_with_all_callers() {
    let store = Limited::new(memory(), 1e6, f64::INFINITY);
    let object = store.open_write("a", OpenWrite::New).unwrap();
    let start = Instant::now();
    std::thread::scope(|scope| {
        for n in 0..4u64 {
            let object = &*object;
            scope.spawn(move || object.write_at(n * 300_000, &[IoSlice::new(&[1; 300_000])]).unwrap());
        }
    });
    // Of 1.2 MB the first second's worth may have been saved up.
    assert!(start.elapsed() >= Duration::from_millis(150), "{:?}", start.elapsed());
    let store = Limited::new(memory(), f64::INFINITY, 100.0);
    store.write_all("a", b"x").unwrap();
    let start = Instant::now();
    (0..130).for_each(|_| assert_eq!(store.stat("a").unwrap().length, 1));
    assert!(start.elapsed() >= Duration::from_millis(250), "{:?}", start.elapsed());
}

#[test]
fn every_wrapper_passes_holes_on() {
    const LONG: u64 = 1 << 40;
    let wrapped: Vec<Arc<dyn Store>> = vec![
        memory(),
        Arc::new(Counting::new(memory())),
        Arc::new(patient(1, 1).1),
        Arc::new(Forgetful::new()),
        Arc::new(Tiered::new(memory(), memory()).unwrap()),
    ];
    for store in wrapped {
        let object = store.open_write("object", OpenWrite::New).unwrap();
        object.write_at(0, &[IoSlice::new(b"bytes")]).unwrap();
        object.truncate(LONG).unwrap();
        let reader = store.open_read("object").unwrap();
        for end in [object.stored_before(LONG).unwrap(), reader.stored_before(LONG).unwrap()] {
            assert!((5..1 << 20).contains(&end), "{}: {end}", store.describe());
        }
    }
}

#[test]
fn a_look_at_the_holes_is_an_operation_that_may_fail() {
    let store = Failing::new(memory());
    let object = store.open_write("object", OpenWrite::New).unwrap();
    object.write_at(0, &[IoSlice::new(b"bytes")]).unwrap();
    let reader = store.open_read("object").unwrap();
    store.fail(Fault::of(StoreCall::Length));
    assert_eq!(object.stored_before(5).unwrap_err().kind(), ErrorKind::Io);
    assert_eq!(reader.stored_before(5).unwrap_err().kind(), ErrorKind::Io);
}
