//! Leases, locks, handles opened anew, and settling.

use super::{Room, fails, write};
use std::time::Duration;
use thalweg_store::OpenWrite;
use thalweg_types::ErrorKind;

pub(super) fn leases(room: &Room<'_>) {
    if room.open("asked", OpenWrite::New).lease().unwrap().is_none() {
        return;
    }
    let name = room.name("held");
    let writer = room.store.open_write(&name, OpenWrite::Replace).unwrap();
    let life = || room.store.open_read(&name).unwrap().life().unwrap();
    assert_ne!(life().leased, Some(true), "nobody holds it yet");
    let first = writer.lease().unwrap().unwrap();
    assert_eq!(life().leased, Some(true));
    let second = writer.lease().unwrap().unwrap();
    drop((first, writer));
    assert_eq!(life().leased, Some(true), "another hold is there, though the object is closed");
    drop(second);
    assert_ne!(life().leased, Some(true), "nobody holds it any more");
}

pub(super) fn locks(room: &Room<'_>) {
    let name = room.name("lock");
    let first = match room.store.lock(&name, false) {
        Err(error) if error.kind() == ErrorKind::Unsupported => return,
        outcome => outcome.unwrap().expect("nobody else has it"),
    };
    assert!(room.store.lock(&name, false).unwrap().is_none(), "it is taken");
    assert!(room.store.lock(&room.name("another"), true).unwrap().is_some(), "another is not");
    let counter = thalweg_types::mutex::Mutex::new(0);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..25 {
                    let _lock = room.store.lock(&name, true).unwrap().unwrap();
                    // Only the lock keeps these apart.
                    let before = *counter.lock();
                    std::thread::yield_now();
                    *counter.lock() = before + 1;
                }
            });
        }
        std::thread::sleep(Duration::from_millis(10));
        assert_eq!(*counter.lock(), 0, "nobody passes while it is taken");
        drop(first);
    });
    assert_eq!(*counter.lock(), 100);
    assert!(room.store.lock(&name, false).unwrap().is_some());
}

pub(super) fn reopening(room: &Room<'_>) {
    if !room.store.reopens() {
        return;
    }
    let writer = room.open("object", OpenWrite::New);
    write(&*writer, 0, b"bytes");
    let reader = room.store.open_read(&room.name("object")).unwrap();
    room.store.rename(&room.name("object"), &room.name("moved")).unwrap();
    for again in [writer.reopen().unwrap(), reader.reopen().unwrap()] {
        let mut bytes = [0; 5];
        assert_eq!(again.read_at(0, &mut bytes).unwrap(), 5);
        assert_eq!(&bytes, b"bytes");
        assert_eq!(again.attributes().unwrap().links, 1);
        let lease = writer.lease().unwrap().unwrap();
        assert_eq!((again.life().unwrap().leased, reader.life().unwrap().leased), (Some(true), Some(true)));
        let lock = again.lock(false).unwrap().expect("nobody else has it");
        let other = reader.reopen().unwrap();
        assert!(other.lock(false).unwrap().is_none(), "it is taken");
        assert!(room.store.lock(&room.name("moved"), false).unwrap().is_none(), "by its name too");
        drop((lock, lease));
        assert!(other.lock(false).unwrap().is_some(), "given up, and the handle is still there");
        assert_ne!(other.life().unwrap().leased, Some(true));
    }
    room.store.remove(&room.name("moved")).unwrap();
    let left = reader.reopen().unwrap();
    write(&*left, 5, b" and more");
    let mut bytes = [0; 20];
    assert_eq!(reader.read_at(0, &mut bytes).unwrap(), 14, "it has no name, and is there");
    assert_eq!(reader.attributes().unwrap().links, 0);
}

pub(super) fn settling(room: &Room<'_>) {
    room.put("object", OpenWrite::New, b"bytes");
    room.store.settle(&room.name("object")).unwrap();
    assert_eq!(room.bytes("object"), b"bytes");
    fails(room.store.settle(&room.name("nothing")), ErrorKind::NotFound, "nothing");
}
