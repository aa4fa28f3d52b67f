//! Failures of the POSIX store name the file and the byte, and have the kind callers act on.

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
