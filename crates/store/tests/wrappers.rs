//! What each wrapper adds: counts, delays, failures.

use std::io::IoSlice;
use std::sync::Arc;
use std::time::{Duration, Instant};
use thalweg_store::wrap::{Asked, Counting, Failing, Fault, Slow};
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
    store.fail(Fault::of(Asked::Write).named("bad").skipping(1).times(2).with(ErrorKind::PermissionDenied));
    let (good, bad) =
        (store.open_write("good", OpenWrite::New).unwrap(), store.open_write("bad", OpenWrite::New).unwrap());
    let four = [IoSlice::new(b"four")];
    let kinds: Vec<_> = (0..5).map(|i| bad.write_at(i * 4, &four).map_err(|e| e.kind())).collect();
    let denied = Err(ErrorKind::PermissionDenied);
    assert_eq!(kinds, [Ok(()), denied, denied, Ok(()), Ok(())]);
    assert_eq!(store.read_all("bad").unwrap(), b"four\0\0\0\0\0\0\0\0fourfour");
    good.write_at(0, &four).unwrap();
    store.fail(Fault::of(Asked::Sync));
    assert_eq!(good.sync().unwrap_err().kind(), ErrorKind::Io);
    store.heal();
    good.sync().unwrap();
}

#[test]
fn a_write_may_stop_half_way_across_pieces() {
    let store = Failing::new(memory());
    let object = store.open_write("a", OpenWrite::New).unwrap();
    store.fail(Fault::of(Asked::Write).times(1).half_way());
    store.fail(Fault::of(Asked::Write).skipping(1).times(1).after_bytes(5));
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
