//! How objects are opened and made, and when their bytes are seen.

use super::{Room, fails, write};
use std::io::IoSlice;
use thalweg_store::{OpenWrite, StoreExt, Visible};
use thalweg_types::{ErrorKind, Result};

pub(super) fn opening(room: &Room<'_>) {
    let (store, name) = (room.store, room.name("object"));
    fails(
        store.open_write(&name, OpenWrite::Existing).and_then(|object| object.close()),
        missing_or_refused(room),
        &name,
    );
    assert!(!store.exists(&name).unwrap(), "a failed open makes nothing");
    room.put("object", OpenWrite::New, b"first");
    fails(store.open_write(&name, OpenWrite::New), ErrorKind::AlreadyExists, &name);
    assert_eq!(room.bytes("object"), b"first");
    let replaced = room.open("object", OpenWrite::Replace);
    assert_eq!(replaced.length().unwrap(), 0);
    replaced.close().unwrap();
    assert_eq!(room.bytes("object"), b"");
    room.put("object", OpenWrite::Replace, b"another");
    assert_eq!(room.bytes("object"), b"another");
    room.put("other", OpenWrite::Any, b"2nd");
    assert_eq!(room.bytes("other"), b"2nd");
    room.put("third", OpenWrite::Replace, b"3rd");
    assert_eq!(room.bytes("third"), b"3rd");
    let about = store.stat(&room.name("third")).unwrap();
    assert_eq!((about.length, about.is_folder), (3, false));
}

/// The error of a store that opens an absent object without truncation.
pub(super) fn missing_or_refused(room: &Room<'_>) -> ErrorKind {
    if room.store.capability().append { ErrorKind::NotFound } else { ErrorKind::Unsupported }
}

pub(super) fn keeping(room: &Room<'_>) {
    room.put("object", OpenWrite::New, b"first");
    for how in [OpenWrite::Existing, OpenWrite::Any] {
        let object = room.open("object", how);
        assert_eq!(object.length().unwrap(), 5);
        object.close().unwrap();
    }
    assert_eq!(room.bytes("object"), b"first");
}

pub(super) fn closed(room: &Room<'_>) {
    let name = room.name("object");
    room.put("object", OpenWrite::New, b"first");
    for how in [OpenWrite::Existing, OpenWrite::Any] {
        fails(room.store.open_write(&name, how), ErrorKind::Unsupported, &name);
    }
    assert_eq!(room.bytes("object"), b"first");
}

pub(super) fn whole(room: &Room<'_>) {
    // Lengths around the units that stores think in, written in runs that meet none of them.
    for length in [0usize, 1, 511, 65_536, 65_537, 1_048_577, 11 << 20] {
        let name = format!("of {length} bytes");
        let bytes: Vec<u8> = (0..length as u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 11) as u8).collect();
        let object = room.open(&name, OpenWrite::New);
        let mut at = 0;
        for run in bytes.chunks(777_777) {
            let (first, second) = run.split_at(run.len() / 3);
            object.write_at(at, &[IoSlice::new(first), IoSlice::new(&[]), IoSlice::new(second)]).unwrap();
            at += run.len() as u64;
            assert_eq!(object.length().unwrap(), at);
        }
        object.close().unwrap();
        assert_eq!(room.store.stat(&room.name(&name)).unwrap().length, length as u64);
        assert!(room.bytes(&name) == bytes, "{name}: other bytes than were written");
        let read = room.store.open_read(&room.name(&name)).unwrap();
        let mut out = vec![0; 1000];
        for at in [0, length / 3, length.saturating_sub(500)] {
            let got = read.read_at(at as u64, &mut out).unwrap();
            assert!(out[..got] == bytes[at..length.min(at + 1000)], "{name}: other bytes at {at}");
        }
    }
}

pub(super) fn sequential(room: &Room<'_>) {
    // Of a wrapper, the store inside.
    let store = room.store.describe();
    let store = store.split_whitespace().last().unwrap_or_default();
    let object = room.open("object", OpenWrite::New);
    let refused = |offset: u64, bytes: &[u8]| {
        let error = object.write_at(offset, &[IoSlice::new(bytes)]).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unsupported, "a write at {offset}: {error}");
        assert!(error.to_string().contains(store), "the error names {store}: {error}");
    };
    refused(1, b"beyond the end");
    write(&*object, 0, b"0123");
    refused(3, b"before the end");
    refused(5, b"beyond the end");
    refused(u64::MAX, b"far beyond");
    object.write_at(17, &[]).unwrap();
    assert_eq!(object.length().unwrap(), 4);
    write(&*object, 4, b"4567");
    fails(object.read_at(0, &mut [0; 4]), ErrorKind::Unsupported, "object");
    object.reserve(0, 100).unwrap();
    object.close().unwrap();
    assert_eq!(room.bytes("object"), b"01234567");
}

pub(super) fn uncut(room: &Room<'_>) {
    let object = room.open("object", OpenWrite::New);
    write(&*object, 0, b"0123");
    fails(object.truncate(2), ErrorKind::Unsupported, "object");
    object.close().unwrap();
    assert_eq!(room.bytes("object"), b"0123");
}

pub(super) fn visible(room: &Room<'_>) {
    let when = room.store.capability().visible;
    let object = room.open("object", OpenWrite::New);
    let sees = |bytes: &[u8], moment: &str| {
        assert_eq!(room.bytes("object"), bytes, "after {moment}");
    };
    write(&*object, 0, b"first");
    if when >= Visible::AtWrite {
        sees(b"first", "a write");
    }
    object.sync().unwrap();
    if when >= Visible::AtSync {
        sees(b"first", "a sync");
    }
    write(&*object, 5, b"second");
    object.sync().unwrap();
    if when >= Visible::AtSync {
        sees(b"firstsecond", "a second sync");
    }
    write(&*object, 11, b"third");
    object.close().unwrap();
    sees(b"firstsecondthird", "closing");
}

pub(super) fn unclosed(room: &Room<'_>) {
    let name = room.name("object");
    write(&*room.open("object", OpenWrite::New), 0, b"dropped");
    assert!(!room.store.exists(&name).unwrap(), "dropped without close");
    assert_eq!(room.store.list(room.folder).unwrap(), [""; 0]);
    room.put("object", OpenWrite::New, b"kept");
    let next = room.open("object", OpenWrite::Replace);
    write(&*next, 0, b"next");
    assert_eq!(room.bytes("object"), b"kept", "until the next one is closed");
    drop(next);
    assert_eq!(room.bytes("object"), b"kept", "the next one was never closed");
}

pub(super) fn exclusive(room: &Room<'_>) {
    for round in 0..5 {
        let name = room.name(&format!("object {round}"));
        let outcomes: Vec<Result<u8>> = std::thread::scope(|scope| {
            let writers: Vec<_> = (0..6u8)
                .map(|writer| {
                    let name = &name;
                    scope.spawn(move || {
                        let object = room.store.open_write(name, OpenWrite::New)?;
                        object.write_at(0, &[IoSlice::new(&[writer; 1000])])?;
                        object.close().map(|()| writer)
                    })
                })
                .collect();
            writers.into_iter().map(|writer| writer.join().unwrap()).collect()
        });
        let mut won = Vec::new();
        for outcome in outcomes {
            match outcome {
                Ok(writer) => won.push(writer),
                Err(error) => assert_eq!(error.kind(), ErrorKind::AlreadyExists, "{error}"),
            }
        }
        assert_eq!(won.len(), 1, "writers who made {name}: {won:?}");
        assert!(room.store.read_all(&name).unwrap() == [won[0]; 1000], "the bytes are the winner's");
    }
}
