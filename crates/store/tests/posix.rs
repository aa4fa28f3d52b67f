//! What is particular to POSIX files: the kind and place of their failures, and their space.

use std::io::IoSlice;
use thalweg_conformance::scratch::Scratch;
use thalweg_store::{OpenWrite, Posix, Store, StoreExt};
use thalweg_types::ErrorKind;

#[test]
#[cfg(target_os = "linux")]
fn a_full_device_is_no_space_at_the_byte_that_did_not_fit() {
    let full = Posix::plain().open_write("/dev/full", OpenWrite::Existing).unwrap();
    let error = full.write_at(4096, &[IoSlice::new(b"head"), IoSlice::new(b"tail")]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NoSpace, "{error}");
    assert_eq!((error.place().object.as_deref(), error.place().byte), (Some("/dev/full"), Some(4096)));
}

#[test]
fn a_write_that_cannot_end_within_63_bits_is_refused_whole() {
    let scratch = Scratch::new();
    let object = Posix::at(scratch.path()).unwrap().open_write("object", OpenWrite::New).unwrap();
    let last = i64::MAX as u64 - 3;
    let error = object.write_at(last, &[IoSlice::new(b"long")]).unwrap_err();
    assert_eq!((error.kind(), error.place().byte), (ErrorKind::OutOfBounds, Some(last)));
    assert_eq!(object.truncate(u64::MAX).unwrap_err().kind(), ErrorKind::OutOfBounds);
    assert_eq!(object.length().unwrap(), 0);
}

#[test]
fn a_store_needs_its_folder() {
    let scratch = Scratch::new();
    let nowhere = scratch.join("nowhere");
    let error = Posix::at(&nowhere).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFound);
    assert!(error.to_string().contains(nowhere.to_str().unwrap()), "{error}");
    std::fs::write(&nowhere, b"").unwrap();
    assert_eq!(Posix::at(&nowhere).unwrap_err().kind(), ErrorKind::NotFound);
}

#[test]
fn the_store_keeps_its_own_folder() {
    let scratch = Scratch::new();
    let store = Posix::at(scratch.path()).unwrap();
    assert_eq!(store.remove("").unwrap_err().kind(), ErrorKind::InvalidArgument);
    assert_eq!(store.remove("./").unwrap_err().kind(), ErrorKind::InvalidArgument);
    assert!(store.exists("").unwrap());
}

#[test]
#[cfg(target_os = "linux")]
fn space_is_taken_by_reserving_and_given_back_by_punching() {
    use std::os::unix::fs::MetadataExt;
    let scratch = Scratch::new();
    let object = Posix::at(scratch.path()).unwrap().open_write("object", OpenWrite::New).unwrap();
    let taken = || std::fs::metadata(scratch.join("object")).unwrap().blocks() * 512;
    object.reserve(0, 1 << 20).unwrap();
    assert!(taken() >= 1 << 20, "reserved: {}", taken());
    object.write_at(0, &[IoSlice::new(&[1; 1 << 20])]).unwrap();
    object.punch(0, 1 << 20).unwrap();
    assert!(taken() < 1 << 20, "punched: {}", taken());
}

#[test]
fn an_object_has_its_mode_from_its_first_moment_on_and_wrappers_pass_it_on() {
    use std::os::unix::fs::PermissionsExt;
    use std::sync::Arc;
    use thalweg_store::wrap::{Counting, Patience, Retry};
    let scratch = Scratch::new();
    let posix: Arc<dyn Store> = Arc::new(Posix::at(scratch.path()).unwrap());
    let counting: Arc<dyn Store> = Arc::new(Counting::new(posix.clone()));
    let retry: Arc<dyn Store> = Arc::new(Retry::new(posix.clone(), Patience::default()));
    for (name, store) in [("posix", posix), ("counting", counting), ("retry", retry)] {
        let mode = || std::fs::metadata(scratch.join(name)).unwrap().permissions().mode() & 0o777;
        drop(store.open_write_as(name, OpenWrite::New, 0o600).unwrap());
        assert_eq!(mode(), 0o600, "{name}");
        drop(store.open_write_as(name, OpenWrite::Any, 0o644).unwrap());
        assert_eq!(mode(), 0o600, "{name}: what is there keeps its mode");
    }
}

#[test]
#[cfg(target_os = "linux")]
fn a_list_of_many_names_is_that_of_one_moment() {
    use std::sync::atomic::{AtomicBool, Ordering};
    let scratch = Scratch::new();
    let store = Posix::at(scratch.path()).unwrap();
    let name = |number: usize| format!("{number:0100}");
    (0..3000).for_each(|number| store.write_all(&name(number), b"").unwrap());
    let names = |of: usize| [format!("a-{of}-{}", name(1)), format!("z-{of}-{}", name(2))];
    (0..10).for_each(|of| store.write_all(&names(of)[0], b"").unwrap());
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            // Each of the ten is there at every moment, under one of two names.
            let mut round = 0;
            while !done.load(Ordering::Relaxed) {
                for names in (0..10).map(names) {
                    store.rename(&names[round % 2], &names[(round + 1) % 2]).unwrap();
                }
                round += 1;
            }
        });
        let outcome = std::panic::catch_unwind(|| {
            for _ in 0..200 {
                assert_eq!(store.list("").unwrap().len(), 3010, "what is renamed is in every list, once");
            }
        });
        done.store(true, Ordering::Relaxed);
        outcome.unwrap();
    });
}

#[test]
#[cfg(target_os = "linux")]
fn a_rename_to_a_free_name_replaces_nothing() {
    let scratch = Scratch::new();
    let store = Posix::at(scratch.path()).unwrap();
    store.write_all("from", b"from").unwrap();
    store.write_all("to", b"to").unwrap();
    match store.rename_new("from", "to") {
        Err(e) if e.kind() == ErrorKind::Unsupported => return println!("skipped: this filesystem cannot"),
        outcome => assert_eq!(outcome.unwrap_err().kind(), ErrorKind::AlreadyExists),
    }
    assert_eq!(store.read_all("to").unwrap(), b"to");
    store.rename_new("from", "free").unwrap();
    assert_eq!(store.list("").unwrap(), ["free", "to"]);
    assert_eq!(store.rename_new("gone", "other").unwrap_err().kind(), ErrorKind::NotFound);
}

#[test]
fn a_pipe_is_refused_at_once() {
    let scratch = Scratch::new();
    let made = std::process::Command::new("mkfifo").arg(scratch.join("pipe")).status().unwrap();
    assert!(made.success());
    let error = Posix::at(scratch.path()).unwrap().open_read("pipe").err().unwrap();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
}

#[test]
#[cfg(target_os = "linux")]
fn the_holes_of_a_file_of_a_tebibyte_are_skipped() {
    const TEBIBYTE: u64 = 1 << 40;
    let scratch = Scratch::new();
    let store = Posix::at(scratch.path()).unwrap();
    let object = store.open_write("object", OpenWrite::New).unwrap();
    let far = TEBIBYTE / 3;
    object.write_at(0, &[IoSlice::new(&[1; 100_000])]).unwrap();
    object.write_at(far, &[IoSlice::new(&[2; 5000])]).unwrap();
    object.truncate(TEBIBYTE).unwrap();
    let reader = store.open_read("object").unwrap();
    // Filesystems keep whole blocks.
    let near = |found: u64, end: u64| assert!(found >= end && found < end + (1 << 20), "{found} instead of {end}");
    for offset in [TEBIBYTE, TEBIBYTE / 2, far + (2 << 20)] {
        near(reader.stored_before(offset).unwrap(), far + 5000);
        near(object.stored_before(offset).unwrap(), far + 5000);
    }
    assert_eq!(reader.stored_before(far + 1234).unwrap(), far + 1234, "within stored bytes");
    for offset in [far - (1 << 20), far / 2, 8 << 20] {
        near(reader.stored_before(offset).unwrap(), 100_000);
    }
    assert_eq!(reader.stored_before(99_000).unwrap(), 99_000);
    assert_eq!(reader.stored_before(TEBIBYTE + 1).unwrap(), TEBIBYTE + 1, "behind the end nothing is a hole");
    // Reads and writes do not depend on the position that the look moved.
    let mut out = [0; 4];
    assert_eq!(object.append(&[IoSlice::new(b"tail")]).unwrap(), TEBIBYTE + 4);
    reader.read_exact_at(TEBIBYTE, &mut out).unwrap();
    assert_eq!(&out, b"tail");
    assert_eq!(reader.stored_before(TEBIBYTE + 4).unwrap(), TEBIBYTE + 4);
}

#[test]
#[cfg(target_os = "linux")]
fn reserved_space_that_was_never_written_is_a_hole() {
    let scratch = Scratch::new();
    let store = Posix::at(scratch.path()).unwrap();
    let object = store.open_write("object", OpenWrite::New).unwrap();
    object.write_at(0, &[IoSlice::new(b"bytes")]).unwrap();
    object.reserve(0, 64 << 20).unwrap();
    object.truncate(64 << 20).unwrap();
    object.sync().unwrap();
    let end = object.stored_before(64 << 20).unwrap();
    assert!((5..1 << 20).contains(&end), "{end}");
}

#[test]
#[cfg(target_os = "linux")]
fn what_has_no_positions_has_no_holes() {
    let null = Posix::plain().open_write("/dev/null", OpenWrite::Existing).unwrap();
    for offset in [0, 1, 1 << 20] {
        assert_eq!(null.stored_before(offset).unwrap(), offset);
    }
}
