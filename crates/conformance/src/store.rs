//! The promises of stores: `Store`, `ReadObject`, `WriteObject`, as far as the store's abilities go.

use std::io::{IoSlice, IoSliceMut};
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use thalweg_store::{
    Capability, Change, Kind, ListConsistency, OpenWrite, Rename, SetXattr, Store, StoreExt, Visible, WriteObject, name,
};
use thalweg_types::{ErrorKind, Result};

/// Checks every promise, in a folder `conformance` of the store, which is removed at the end.
///
/// # Panics
/// At the first promise that is broken, naming it on standard error.
pub fn check(store: &dyn Store) {
    for outside in ["/absolute", "../beside", "a/../../beside"] {
        fails(store.open_write(outside, OpenWrite::Any), ErrorKind::InvalidArgument, outside);
        fails(store.stat(outside), ErrorKind::InvalidArgument, outside);
    }
    check_in(store, "conformance");
}

/// As [`check`], in a folder of this name that isn't there yet; names need not stay inside the store.
pub fn check_in(store: &dyn Store, folder: &str) {
    check_but(store, folder, &[]);
}

/// As [`check_in`], but for promises whose words contain one of these.
pub fn check_but(store: &dyn Store, folder: &str, but: &[&str]) {
    assert!(
        but.iter().all(|but| PROMISES.iter().any(|promise| promise.words.contains(but))),
        "known promises: {but:?}"
    );
    assert!(!store.describe().is_empty(), "a store has a name");
    assert!(!store.exists(folder).unwrap(), "{folder} is not there before the suite runs");
    let asked = PROMISES.iter().filter(|promise| (promise.asked_of)(&store.capability()));
    for promise in asked.filter(|promise| !but.iter().any(|but| promise.words.contains(but))) {
        let told = Told { store: store.describe(), promise: promise.words };
        store.make_folder(folder).unwrap();
        (promise.check)(&Room { store, folder });
        clear(store, folder);
        drop(told);
    }
}

struct Promise {
    words: &'static str,
    asked_of: fn(&Capability) -> bool,
    check: fn(&Room<'_>),
}

const PROMISES: &[Promise] = &[
    Promise { words: "opening makes or replaces as asked", asked_of: any, check: opening },
    Promise { words: "opening keeps the bytes as asked", asked_of: |can| can.append, check: keeping },
    Promise {
        words: "a closed object stays closed where it cannot be extended",
        asked_of: |can| !can.append,
        check: closed,
    },
    Promise { words: "what is closed is whole", asked_of: any, check: whole },
    Promise { words: "writes go to the end and nowhere else", asked_of: |can| !can.write_at, check: sequential },
    Promise { words: "what cannot be cut is not", asked_of: |can| !can.truncate, check: uncut },
    Promise { words: "bytes are seen when promised", asked_of: any, check: visible },
    Promise {
        words: "what is not closed is not there, nor does it take what was there",
        asked_of: |can| can.whole,
        check: unclosed,
    },
    Promise { words: "one of many writers makes a new object", asked_of: |can| can.exclusive, check: exclusive },
    Promise {
        words: "a list tells what just happened",
        asked_of: |can| can.list == ListConsistency::Strong,
        check: listing,
    },
    Promise { words: "what is not there is not found", asked_of: any, check: missing },
    Promise { words: "folders are made, listed and removed", asked_of: any, check: folders },
    Promise { words: "a folder is no object, an object no folder", asked_of: any, check: mixed_up },
    Promise { words: "reads end where the object ends", asked_of: any, check: ends },
    Promise { words: "sync succeeds", asked_of: any, check: syncing },
    Promise { words: "pieces are written behind each other", asked_of: writes_at, check: pieces },
    Promise { words: "later writes win where they overlap", asked_of: writes_at, check: overlaps },
    Promise { words: "holes read as zeros", asked_of: writes_at, check: holes },
    Promise { words: "offsets beyond 32 bits", asked_of: writes_at, check: far_offsets },
    Promise { words: "offsets beyond the largest are refused", asked_of: writes_at, check: too_far },
    Promise { words: "a write of no bytes does nothing", asked_of: writes_at, check: no_bytes },
    Promise { words: "reserving changes no byte", asked_of: writes_at, check: reserving },
    Promise { words: "threads write disjoint extents at once", asked_of: writes_at, check: threads },
    Promise { words: "an object is extended when opened again", asked_of: |can| can.append, check: appends },
    Promise { words: "truncation cuts and extends", asked_of: |can| can.truncate, check: truncation },
    Promise { words: "what is punched reads as zeros", asked_of: |can| can.punch, check: punching },
    Promise { words: "renaming replaces", asked_of: |can| can.rename != Rename::None, check: renaming },
    Promise {
        words: "a name is never gone while renamed over",
        asked_of: |can| matches!(can.rename, Rename::Atomic | Rename::Copy),
        check: atomic,
    },
    Promise { words: "folders move with all that is in them", asked_of: |can| can.rename_folder, check: moving },
    Promise { words: "modes, owners, times and links are kept", asked_of: |can| can.attributes, check: attributes },
    Promise { words: "modes, owners and times are kept", asked_of: |can| can.modes, check: modes },
    Promise { words: "what keeps no modes says so", asked_of: |can| !can.modes, check: no_modes },
    Promise { words: "what keeps no links says so", asked_of: |can| !can.attributes, check: no_links },
    Promise { words: "identity tells objects apart", asked_of: any, check: identity },
    Promise { words: "a lease is seen until it is dropped", asked_of: any, check: holds },
    Promise { words: "a lock keeps others out until it is dropped", asked_of: any, check: locks },
    Promise {
        words: "an open object is opened anew, and locked, whatever its name is",
        asked_of: any,
        check: reopening,
    },
    Promise { words: "settling what nobody writes changes nothing", asked_of: any, check: settling },
];

fn any(_: &Capability) -> bool {
    true
}

fn writes_at(can: &Capability) -> bool {
    can.write_at
}

/// A store and the folder in it where one promise is checked.
struct Room<'a> {
    store: &'a dyn Store,
    folder: &'a str,
}

impl Room<'_> {
    fn name(&self, name: &str) -> String {
        format!("{}/{name}", self.folder)
    }

    fn open(&self, name: &str, how: OpenWrite) -> Box<dyn WriteObject> {
        self.store.open_write(&self.name(name), how).unwrap()
    }

    /// Makes an object of these bytes and closes it.
    fn put(&self, name: &str, how: OpenWrite, bytes: &[u8]) {
        let object = self.open(name, how);
        write(&*object, 0, bytes);
        object.close().unwrap();
    }

    fn bytes(&self, name: &str) -> Vec<u8> {
        self.store.read_all(&self.name(name)).unwrap()
    }
}

/// Says which promise was being checked when the suite panics.
struct Told {
    store: String,
    promise: &'static str,
}

impl Drop for Told {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("store {} does not keep: {}", self.store, self.promise);
        }
    }
}

#[track_caller]
fn fails<T>(result: Result<T>, kind: ErrorKind, name: &str) {
    let Err(error) = result else { panic!("{name}: succeeded, should fail with {kind:?}") };
    assert_eq!(error.kind(), kind, "{name}: {error}");
    assert!(error.to_string().contains(name::last_part(name)), "the error does not name {name}: {error}");
}

fn write(object: &dyn WriteObject, offset: u64, bytes: &[u8]) {
    object.write_at(offset, &[IoSlice::new(bytes)]).unwrap();
}

fn clear(store: &dyn Store, folder: &str) {
    for entry in store.list(folder).unwrap() {
        let name = format!("{folder}/{entry}");
        if store.stat(&name).unwrap().is_folder { clear(store, &name) } else { store.remove(&name).unwrap() }
    }
    store.remove(folder).unwrap();
    assert!(!store.exists(folder).unwrap(), "{folder} was removed");
}

fn opening(room: &Room<'_>) {
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

/// What a store says that is to open an object that is not there, its bytes kept.
fn missing_or_refused(room: &Room<'_>) -> ErrorKind {
    if room.store.capability().append { ErrorKind::NotFound } else { ErrorKind::Unsupported }
}

fn keeping(room: &Room<'_>) {
    room.put("object", OpenWrite::New, b"first");
    for how in [OpenWrite::Existing, OpenWrite::Any] {
        let object = room.open("object", how);
        assert_eq!(object.length().unwrap(), 5);
        object.close().unwrap();
    }
    assert_eq!(room.bytes("object"), b"first");
}

fn closed(room: &Room<'_>) {
    let name = room.name("object");
    room.put("object", OpenWrite::New, b"first");
    for how in [OpenWrite::Existing, OpenWrite::Any] {
        fails(room.store.open_write(&name, how), ErrorKind::Unsupported, &name);
    }
    assert_eq!(room.bytes("object"), b"first");
}

fn whole(room: &Room<'_>) {
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

fn sequential(room: &Room<'_>) {
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

fn uncut(room: &Room<'_>) {
    let object = room.open("object", OpenWrite::New);
    write(&*object, 0, b"0123");
    fails(object.truncate(2), ErrorKind::Unsupported, "object");
    object.close().unwrap();
    assert_eq!(room.bytes("object"), b"0123");
}

fn visible(room: &Room<'_>) {
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

fn unclosed(room: &Room<'_>) {
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

fn exclusive(room: &Room<'_>) {
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

fn listing(room: &Room<'_>) {
    let names: Vec<String> = (10..30).map(|i| format!("object {i}")).collect();
    for (done, name) in names.iter().enumerate() {
        room.put(name, OpenWrite::New, b"x");
        assert_eq!(room.store.list(room.folder).unwrap(), names[..=done]);
    }
    for (done, name) in names.iter().enumerate() {
        room.store.remove(&room.name(name)).unwrap();
        assert_eq!(room.store.list(room.folder).unwrap(), names[done + 1..]);
    }
}

fn moving(room: &Room<'_>) {
    let store = room.store;
    store.make_folder(&room.name("a/b")).unwrap();
    room.put("a/b/object", OpenWrite::New, b"deep");
    room.put("a/object", OpenWrite::New, b"here");
    room.put("a-object", OpenWrite::New, b"beside");
    store.make_folder(&room.name("empty")).unwrap();
    store.make_folder(&room.name("full/x")).unwrap();
    let to = |from: &str, to: &str| store.rename(&room.name(from), &room.name(to));
    fails(to("a", "full"), ErrorKind::InvalidArgument, "full");
    fails(to("a", "a-object"), ErrorKind::InvalidArgument, "a-object");
    fails(to("a", "a/b/c"), ErrorKind::InvalidArgument, "a");
    fails(to("a", "nothing/c"), ErrorKind::NotFound, "nothing/c");
    to("a", "a").unwrap();
    to("a", "empty").unwrap();
    assert_eq!(store.list(room.folder).unwrap(), ["a-object", "empty", "full"]);
    to("empty", "full/moved").unwrap();
    assert_eq!(store.list(&room.name("full/moved")).unwrap(), ["b", "object"]);
    assert_eq!((room.bytes("full/moved/b/object"), room.bytes("a-object")), (b"deep".to_vec(), b"beside".to_vec()));
    assert!(store.stat(&room.name("full/moved/b")).unwrap().is_folder);
}

fn attributes(room: &Room<'_>) {
    let (store, name, link) = (room.store, room.name("object"), room.name("link"));
    room.put("object", OpenWrite::New, b"bytes");
    store.make_folder(&room.name("folder")).unwrap();
    assert_eq!(store.attributes(&room.name("folder")).unwrap().kind, Kind::Folder);
    let (read, written) = (UNIX_EPOCH + Duration::new(1_000_000_000, 123_456_000), SystemTime::UNIX_EPOCH);
    let change = Change { mode: Some(0o640), atime: Some(read), mtime: Some(written), ..Change::default() };
    store.set_attributes(&name, &change).unwrap();
    let about = store.attributes(&name).unwrap();
    assert_eq!((about.kind, about.length, about.mode), (Kind::File, 5, 0o640));
    assert_eq!((about.atime, about.mtime, about.links), (read, written, 1));
    assert_eq!(about.identity, store.stat(&name).unwrap().identity);
    store.set_attributes(&name, &Change { uid: Some(about.uid), gid: Some(about.gid), ..Change::default() }).unwrap();
    store.set_attributes(&name, &Change { mtime: Some(read), ..Change::default() }).unwrap();
    let again = store.attributes(&name).unwrap();
    assert_eq!((again.mode, again.uid, again.gid, again.atime, again.mtime), (0o640, about.uid, about.gid, read, read));
    store.make_link("object", &link).unwrap();
    fails(store.make_link("object", &link), ErrorKind::AlreadyExists, &link);
    assert_eq!(store.read_link(&link).unwrap(), "object");
    assert_eq!(store.attributes(&link).unwrap().kind, Kind::Link);
    fails(store.read_link(&name), ErrorKind::InvalidArgument, &name);
    known(room);
    store.remove(&link).unwrap();
    assert_eq!(room.bytes("object"), b"bytes", "removing a link leaves what it led to");
    fails(store.attributes(&link), ErrorKind::NotFound, &link);
    let space = store.space(room.folder).unwrap();
    assert!(space.bytes >= space.free && space.free >= space.available && space.bytes > 0, "{space:?}");
    match store.set_xattr(&name, "user.thalweg", b"\0value", SetXattr::New) {
        // Not every filesystem below has them.
        Err(error) if error.kind() == ErrorKind::Unsupported => return,
        outcome => outcome.unwrap(),
    }
    fails(store.set_xattr(&name, "user.thalweg", b"", SetXattr::New), ErrorKind::AlreadyExists, &name);
    fails(store.set_xattr(&name, "user.other", b"", SetXattr::Existing), ErrorKind::NotFound, &name);
    let long = vec![7; 3000];
    store.set_xattr(&name, "user.long", &long, SetXattr::Any).unwrap();
    assert_eq!(store.list_xattrs(&name).unwrap(), ["user.long", "user.thalweg"]);
    assert_eq!(store.xattr(&name, "user.long").unwrap(), Some(long));
    store.remove_xattr(&name, "user.long").unwrap();
    fails(store.remove_xattr(&name, "user.long"), ErrorKind::NotFound, &name);
    assert_eq!(store.xattr(&name, "user.long").unwrap(), None);
    assert_eq!(store.xattr(&name, "user.thalweg").unwrap(), Some(b"\0value".to_vec()));
}

/// With `object`, `folder` and `link`, which leads to the object.
fn known(room: &Room<'_>) {
    let (store, name) = (room.store, room.name("object"));
    let (about, object) = store.open_known(&name).unwrap();
    assert_eq!(about, store.attributes(&name).unwrap());
    // The object that was opened, whatever has its name now.
    store.rename(&name, &room.name("moved")).unwrap();
    room.put("object", OpenWrite::New, b"another");
    let (object, mut out) = (object.expect("an object is opened"), [0; 5]);
    object.read_exact_at(0, &mut out).unwrap();
    assert_eq!((&out, object.length().unwrap()), (b"bytes", 5));
    store.rename(&room.name("moved"), &name).unwrap();
    for other in ["folder", "link"] {
        let (about, object) = store.open_known(&room.name(other)).unwrap();
        assert_eq!(about.kind, store.attributes(&room.name(other)).unwrap().kind, "{other}");
        assert!(object.is_none(), "{other}: no link is followed, no folder opened");
    }
    fails(store.open_known(&room.name("nothing")), ErrorKind::NotFound, "nothing");
    fails(store.open_known(&room.name("object/below")), ErrorKind::NotFound, "below");
}

fn modes(room: &Room<'_>) {
    let (store, name, folder) = (room.store, room.name("object"), room.name("folder"));
    room.put("object", OpenWrite::New, b"bytes");
    store.make_one_folder(&folder, 0o750).unwrap();
    let about = store.attributes(&folder).unwrap();
    // What the process withholds is taken off.
    assert_eq!((about.kind, about.length, about.mode & !0o750, about.mode & 0o700), (Kind::Folder, 0, 0, 0o700));
    let (read, written) = (UNIX_EPOCH + Duration::new(1_000_000_000, 123_000_000), UNIX_EPOCH + Duration::from_secs(7));
    let change = Change { mode: Some(0o640), atime: Some(read), mtime: Some(written), ..Change::default() };
    store.set_attributes(&name, &change).unwrap();
    let about = store.attributes(&name).unwrap();
    assert_eq!((about.kind, about.length, about.mode, about.links), (Kind::File, 5, 0o640, 1));
    assert_eq!((about.atime, about.mtime), (read, written));
    assert_eq!(about.identity, store.stat(&name).unwrap().identity);
    store.set_attributes(&name, &Change { uid: Some(about.uid), gid: Some(about.gid), ..Change::default() }).unwrap();
    store.set_attributes(&name, &Change { mtime: Some(read), ..Change::default() }).unwrap();
    let again = store.attributes(&name).unwrap();
    assert_eq!((again.mode, again.uid, again.gid, again.atime, again.mtime), (0o640, about.uid, about.gid, read, read));
    store.set_attributes(&folder, &Change { mode: Some(0o711), ..Change::default() }).unwrap();
    assert_eq!(store.attributes(&folder).unwrap().mode, 0o711);
    let moved = room.name("moved");
    if store.capability().rename != Rename::None {
        store.rename(&name, &moved).unwrap();
        assert_eq!(store.attributes(&moved).unwrap().mode, 0o640, "a rename takes them along");
    }
    let private = room.name("private");
    store.open_write_as(&private, OpenWrite::New, 0o600).unwrap().close().unwrap();
    assert_eq!(store.attributes(&private).unwrap().mode, 0o600, "private from the first moment");
    fails(store.attributes(&room.name("nothing")), ErrorKind::NotFound, "nothing");
    fails(store.set_attributes(&room.name("nothing"), &change), ErrorKind::NotFound, "nothing");
}

fn no_modes(room: &Room<'_>) {
    let name = room.name("object");
    room.put("object", OpenWrite::New, b"bytes");
    fails(room.store.attributes(&name), ErrorKind::Unsupported, &name);
    fails(room.store.set_attributes(&name, &Change::default()), ErrorKind::Unsupported, &name);
}

fn no_links(room: &Room<'_>) {
    let name = room.name("object");
    room.put("object", OpenWrite::New, b"bytes");
    fails(room.store.make_link("object", &room.name("link")), ErrorKind::Unsupported, "link");
    fails(room.store.xattr(&name, "user.thalweg"), ErrorKind::Unsupported, &name);
}

fn missing(room: &Room<'_>) {
    let (store, name) = (room.store, room.name("nothing"));
    fails(store.open_read(&name), ErrorKind::NotFound, &name);
    fails(store.stat(&name), ErrorKind::NotFound, &name);
    fails(store.remove(&name), ErrorKind::NotFound, &name);
    fails(store.list(&name), ErrorKind::NotFound, &name);
    fails(store.sync_folder(&name), ErrorKind::NotFound, &name);
    for how in [OpenWrite::Replace, OpenWrite::New, OpenWrite::Existing, OpenWrite::Any] {
        let name = room.name("nothing/object");
        let kind = if how == OpenWrite::Existing { missing_or_refused(room) } else { ErrorKind::NotFound };
        fails(store.open_write(&name, how), kind, &name);
    }
    if store.capability().rename != Rename::None {
        fails(store.rename(&name, &room.name("to")), ErrorKind::NotFound, &name);
        store.write_all(&room.name("object"), b"kept").unwrap();
        let nowhere = room.name("nothing/to");
        fails(store.rename(&room.name("object"), &nowhere), ErrorKind::NotFound, &nowhere);
        assert_eq!(room.bytes("object"), b"kept");
    }
}

fn folders(room: &Room<'_>) {
    let store = room.store;
    store.make_folder(&room.name("b/c/d")).unwrap();
    store.make_folder(&room.name("b/c/d")).unwrap();
    store.make_folder(&room.name("b")).unwrap();
    for name in ["z", "a", "b-", "b/x", "b/c/y", "B", "10", "9"] {
        store.write_all(&room.name(name), b"").unwrap();
    }
    assert_eq!(store.list(room.folder).unwrap(), ["10", "9", "B", "a", "b", "b-", "z"]);
    assert_eq!(store.list(&room.name("b")).unwrap(), ["c", "x"]);
    assert_eq!(store.list(&room.name("b/c/d")).unwrap(), [""; 0]);
    assert!(store.stat(&room.name("b/c")).unwrap().is_folder);
    for name in ["new", "b/new"] {
        store.make_new_folder(&room.name(name)).unwrap();
        assert_eq!(store.list(&room.name(name)).unwrap(), [""; 0]);
        store.write_all(&room.name(&format!("{name}/older")), b"").unwrap();
        assert!(
            !store.make_new_folder(&room.name(name)).unwrap(),
            "a folder that was there is not taken for a new one"
        );
        store.remove(&room.name(&format!("{name}/older"))).unwrap();
        store.remove(&room.name(name)).unwrap();
    }
    fails(store.remove(&room.name("b/c")), ErrorKind::InvalidArgument, "c");
    assert_eq!(store.list(&room.name("b/c")).unwrap(), ["d", "y"]);
    store.remove(&room.name("b/c/d")).unwrap();
    store.remove(&room.name("b/c/y")).unwrap();
    store.remove(&room.name("b/c")).unwrap();
    assert_eq!(store.list(&room.name("b")).unwrap(), ["x"]);
}

fn mixed_up(room: &Room<'_>) {
    let store = room.store;
    let (folder, object, below) = (room.name("folder"), room.name("object"), room.name("object/below"));
    store.make_folder(&folder).unwrap();
    store.write_all(&object, b"kept").unwrap();
    fails(store.open_read(&folder), ErrorKind::InvalidArgument, &folder);
    fails(store.open_write(&folder, OpenWrite::Any), ErrorKind::InvalidArgument, &folder);
    fails(store.open_write(&folder, OpenWrite::Replace), ErrorKind::InvalidArgument, &folder);
    fails(store.open_read(&below), ErrorKind::NotFound, &below);
    fails(store.open_write(&below, OpenWrite::Any), ErrorKind::NotFound, &below);
    fails(store.stat(&below), ErrorKind::NotFound, &below);
    fails(store.list(&object), ErrorKind::NotFound, &object);
    fails(store.make_folder(&object), ErrorKind::AlreadyExists, &object);
    fails(store.make_folder(&below), ErrorKind::NotFound, &below);
    if store.capability().rename != Rename::None {
        fails(store.rename(&object, &folder), ErrorKind::InvalidArgument, &folder);
    }
    assert_eq!(room.bytes("object"), b"kept");
}

fn ends(room: &Room<'_>) {
    room.put("object", OpenWrite::New, b"0123456789");
    let object = room.store.open_read(&room.name("object")).unwrap();
    assert_eq!(object.length().unwrap(), 10);
    let mut out = [b'-'; 6];
    assert_eq!(object.read_at(7, &mut out).unwrap(), 3);
    assert_eq!(&out, b"789---", "nothing is put behind what was read");
    for past in [10, 11, 1 << 40, i64::MAX as u64, u64::MAX] {
        assert_eq!(object.read_at(past, &mut out).unwrap(), 0, "at {past}");
    }
    assert_eq!(object.read_at(3, &mut []).unwrap(), 0);
    object.read_exact_at(4, &mut out).unwrap();
    assert_eq!(&out, b"456789");
    let torn = object.read_exact_at(5, &mut out).unwrap_err();
    assert_eq!((torn.kind(), torn.place().byte), (ErrorKind::Torn, Some(10)));
    let (mut first, mut second, mut third) = ([b'-'; 3], [b'-'; 4], [b'-'; 5]);
    let mut pieces = [&mut first[..], &mut [], &mut second[..], &mut third[..]].map(IoSliceMut::new);
    assert_eq!(object.read_vectored_at(1, &mut pieces).unwrap(), 9, "as far as the object goes");
    assert_eq!((&first, &second, &third[..2], third[4]), (b"123", b"4567", &b"89"[..], b'-'));
}

fn syncing(room: &Room<'_>) {
    let object = room.open("object", OpenWrite::New);
    object.sync().unwrap();
    write(&*object, 0, b"bytes");
    object.sync().unwrap();
    room.store.sync_folder(room.folder).unwrap();
    room.store.sync_folder(name::folder_of(room.folder)).unwrap();
    object.close().unwrap();
    assert_eq!(room.bytes("object"), b"bytes");
}

fn pieces(room: &Room<'_>) {
    // More pieces than one system call takes, some of them empty, of lengths that meet no boundary.
    let all: Vec<u8> = (0..200_000u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
    let (mut pieces, mut rest) = (Vec::new(), &all[..]);
    for length in (0..).map(|i| (i * 7) % 131) {
        let (piece, behind) = rest.split_at(length.min(rest.len()));
        pieces.push(IoSlice::new(piece));
        rest = behind;
        if rest.is_empty() {
            break;
        }
    }
    assert!(pieces.len() > 3000);
    let object = room.open("object", OpenWrite::New);
    object.write_at(5, &pieces).unwrap();
    assert_eq!(object.length().unwrap(), 200_005);
    assert_eq!(room.bytes("object")[5..], all);
    let mut out = vec![0; 1000];
    assert_eq!(object.read_at(105, &mut out).unwrap(), 1000, "an object open for writing reads back");
    assert_eq!(out, all[100..1100]);
    // The same memory may be given twice.
    let twice = [IoSlice::new(b"ab"), IoSlice::new(b""), IoSlice::new(b"ab")];
    room.open("twice", OpenWrite::New).write_at(0, &twice).unwrap();
    assert_eq!(room.bytes("twice"), b"abab");
}

fn overlaps(room: &Room<'_>) {
    let object = room.open("object", OpenWrite::New);
    let mut expected = vec![0u8; 100_000];
    let mut at = 1;
    for round in 1..=60u8 {
        at = (at * 48_271) % 80_000;
        let length = (at * 31) % 20_000;
        let bytes = vec![round; length];
        write(&*object, at as u64, &bytes);
        expected[at..at + length].copy_from_slice(&bytes);
    }
    let length = object.length().unwrap() as usize;
    assert!(room.bytes("object") == expected[..length], "bytes differ from what was written last");
}

fn holes(room: &Room<'_>) {
    let object = room.open("object", OpenWrite::New);
    write(&*object, 100_000, b"end");
    write(&*object, 0, b"start");
    assert_eq!(object.length().unwrap(), 100_003);
    let bytes = room.bytes("object");
    assert_eq!((&bytes[..5], &bytes[100_000..]), (&b"start"[..], &b"end"[..]));
    assert!(bytes[5..100_000].iter().all(|byte| *byte == 0));
}

fn far_offsets(room: &Room<'_>) {
    let far = (5u64 << 32) + 3;
    if room.store.capability().largest_object < far + 4 {
        return;
    }
    let object = room.open("object", OpenWrite::New);
    write(&*object, far, b"far");
    write(&*object, 3, b"near");
    assert_eq!(object.length().unwrap(), far + 3);
    let mut out = [0; 5];
    assert_eq!(object.read_at(far - 1, &mut out).unwrap(), 4);
    assert_eq!(&out[..4], b"\0far");
    assert_eq!(object.read_at(2, &mut out).unwrap(), 5);
    assert_eq!(&out, b"\0near");
}

fn too_far(room: &Room<'_>) {
    let object = room.open("object", OpenWrite::New);
    let beyond = u64::MAX - 2;
    let error = object.write_at(beyond, &[IoSlice::new(b"four")]).unwrap_err();
    assert_eq!((error.kind(), error.place().byte), (ErrorKind::OutOfBounds, Some(beyond)), "{error}");
    assert!(error.to_string().contains("object"), "{error}");
    assert_eq!(object.length().unwrap(), 0);
}

fn no_bytes(room: &Room<'_>) {
    let object = room.open("object", OpenWrite::New);
    object.write_at(50, &[]).unwrap();
    object.write_at(50, &[IoSlice::new(b""), IoSlice::new(b"")]).unwrap();
    assert_eq!(object.length().unwrap(), 0);
    write(&*object, 0, b"abc");
    write(&*object, 1, b"");
    assert_eq!(room.bytes("object"), b"abc");
}

fn reserving(room: &Room<'_>) {
    let object = room.open("object", OpenWrite::New);
    object.reserve(0, 100_000).unwrap();
    assert_eq!(object.length().unwrap(), 0);
    write(&*object, 0, b"abc");
    object.reserve(0, 100_000).unwrap();
    object.reserve(1, 0).unwrap();
    object.reserve(u64::MAX, 1).unwrap();
    assert_eq!(room.bytes("object"), b"abc");
    write(&*object, 50_000, b"d");
    let bytes = room.bytes("object");
    assert_eq!((bytes.len(), &bytes[..4], bytes[50_000]), (50_001, &b"abc\0"[..], b'd'));
}

fn threads(room: &Room<'_>) {
    const EACH: usize = 40;
    const RUN: usize = 4099;
    let shared = room.open("object", OpenWrite::New);
    std::thread::scope(|scope| {
        for thread in 0..8usize {
            let shared = &*shared;
            scope.spawn(move || {
                // Half of the threads share a handle, the others have their own.
                let own = (thread % 2 == 1).then(|| room.open("object", OpenWrite::Existing));
                let object = own.as_deref().unwrap_or(shared);
                for i in (0..EACH).rev() {
                    let offset = (i * 8 + thread) * RUN;
                    let bytes = vec![(i * 8 + thread) as u8; RUN];
                    object.write_at(offset as u64, &[IoSlice::new(&bytes[..1]), IoSlice::new(&bytes[1..])]).unwrap();
                }
            });
        }
    });
    let bytes = room.bytes("object");
    assert_eq!(bytes.len(), 8 * EACH * RUN);
    for (i, run) in bytes.chunks(RUN).enumerate() {
        assert!(run.iter().all(|byte| *byte == i as u8), "run {i} is not what its thread wrote");
    }
}

fn appends(room: &Room<'_>) {
    for round in 0..5u8 {
        let object = room.open("object", OpenWrite::Any);
        let end = object.length().unwrap();
        assert_eq!(end, u64::from(round) * 3);
        write(&*object, end, &[round; 3]);
    }
    assert_eq!(room.bytes("object"), [0, 0, 0, 1, 1, 1, 2, 2, 2, 3, 3, 3, 4, 4, 4]);
}

fn truncation(room: &Room<'_>) {
    let object = room.open("object", OpenWrite::New);
    write(&*object, 0, &[7; 50_000]);
    object.truncate(20_001).unwrap();
    assert_eq!(object.length().unwrap(), 20_001);
    assert!(room.bytes("object") == [7; 20_001]);
    object.truncate(60_000).unwrap();
    let bytes = room.bytes("object");
    assert_eq!(bytes.len(), 60_000);
    assert!(bytes[..20_001].iter().all(|byte| *byte == 7), "what was kept is as it was");
    assert!(bytes[20_001..].iter().all(|byte| *byte == 0), "what was cut off does not come back");
    object.truncate(0).unwrap();
    assert_eq!(room.store.stat(&room.name("object")).unwrap().length, 0);
}

fn punching(room: &Room<'_>) {
    let object = room.open("object", OpenWrite::New);
    write(&*object, 0, &[7; 200_000]);
    object.punch(10_001, 100_000).unwrap();
    object.punch(190_000, 1 << 40).unwrap();
    object.punch(300_000, 1000).unwrap();
    object.punch(5, 0).unwrap();
    object.punch(u64::MAX, 1).unwrap();
    let bytes = room.bytes("object");
    assert_eq!(bytes.len(), 200_000, "the length stays");
    for (i, byte) in bytes.iter().enumerate() {
        let punched = (10_001..110_001).contains(&i) || i >= 190_000;
        assert_eq!(*byte, if punched { 0 } else { 7 }, "byte {i}");
    }
    write(&*object, 50_000, b"again");
    assert_eq!(room.bytes("object")[49_999..50_006], *b"\0again\0");
}

fn renaming(room: &Room<'_>) {
    let store = room.store;
    store.make_folder(&room.name("folder")).unwrap();
    store.write_all(&room.name("new"), b"new").unwrap();
    store.write_all(&room.name("old"), b"older").unwrap();
    store.rename(&room.name("new"), &room.name("old")).unwrap();
    assert_eq!(store.list(room.folder).unwrap(), ["folder", "old"]);
    assert_eq!(room.bytes("old"), b"new");
    store.rename(&room.name("old"), &room.name("folder/moved")).unwrap();
    assert_eq!(store.list(room.folder).unwrap(), ["folder"]);
    assert_eq!(room.bytes("folder/moved"), b"new");
    store.rename(&room.name("folder/moved"), &room.name("folder/moved")).unwrap();
    assert_eq!(room.bytes("folder/moved"), b"new");
}

fn atomic(room: &Room<'_>) {
    let store = room.store;
    let (name, done) = (room.name("object"), std::sync::atomic::AtomicBool::new(false));
    store.write_all(&name, b"0").unwrap();
    std::thread::scope(|scope| {
        let reader = scope.spawn(|| {
            let mut seen = 0;
            while !done.load(std::sync::atomic::Ordering::Relaxed) {
                match store.read_all(&name) {
                    Ok(bytes) => assert_eq!(bytes.len(), 1),
                    // Replaced between opening and reading, which some stores tell.
                    Err(error) => assert_eq!(error.kind(), ErrorKind::NotReady, "{error}"),
                }
                seen += 1;
            }
            seen
        });
        for round in 0..100u8 {
            store.write_all(&room.name("next"), &[round]).unwrap();
            store.rename(&room.name("next"), &name).unwrap();
        }
        done.store(true, std::sync::atomic::Ordering::Relaxed);
        reader.join().unwrap();
    });
    assert_eq!(room.bytes("object"), [99]);
}

fn identity(room: &Room<'_>) {
    let (store, can) = (room.store, room.store.capability());
    // Stores that know objects by their bytes and the time alone may take two of the same bytes for one.
    let identity = || store.stat(&room.name("object")).unwrap().identity;
    room.put("object", OpenWrite::New, b"first");
    let first = identity();
    assert_eq!(identity(), first, "asking keeps it");
    if can.write_at {
        write(&*room.open("object", OpenWrite::Existing), 0, b"bytes");
        room.open("object", OpenWrite::Replace).close().unwrap();
        assert_eq!(identity(), first, "writing and emptying keep it");
    }
    if can.rename != Rename::None {
        store.write_all(&room.name("next"), b"the second").unwrap();
        store.rename(&room.name("next"), &room.name("object")).unwrap();
        assert_ne!(identity(), first, "a rename over it changes it");
    }
    let before = identity();
    store.remove(&room.name("object")).unwrap();
    // Filesystems tell objects that come after each other apart by time, which they count in milliseconds.
    std::thread::sleep(Duration::from_millis(30));
    room.put("object", OpenWrite::New, b"the third");
    assert_ne!(identity(), before, "another object of the same name has another");
}

fn holds(room: &Room<'_>) {
    if room.open("asked", OpenWrite::New).lease().is_none() {
        return;
    }
    let name = room.name("held");
    let writer = room.store.open_write(&name, OpenWrite::Replace).unwrap();
    let life = || room.store.open_read(&name).unwrap().life().unwrap();
    assert_ne!(life().held, Some(true), "nobody holds it yet");
    let first = writer.lease().unwrap();
    assert_eq!(life().held, Some(true));
    let second = writer.lease().unwrap();
    drop((first, writer));
    assert_eq!(life().held, Some(true), "another hold is there, though the object is closed");
    drop(second);
    assert_ne!(life().held, Some(true), "nobody holds it any more");
}

fn locks(room: &Room<'_>) {
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

fn reopening(room: &Room<'_>) {
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
        let lease = writer.lease().unwrap();
        assert_eq!((again.life().unwrap().held, reader.life().unwrap().held), (Some(true), Some(true)));
        let lock = again.lock(false).unwrap().expect("nobody else has it");
        let other = reader.reopen().unwrap();
        assert!(other.lock(false).unwrap().is_none(), "it is taken");
        assert!(room.store.lock(&room.name("moved"), false).unwrap().is_none(), "by its name too");
        drop((lock, lease));
        assert!(other.lock(false).unwrap().is_some(), "given up, and the handle is still there");
        assert_ne!(other.life().unwrap().held, Some(true));
    }
    room.store.remove(&room.name("moved")).unwrap();
    let left = reader.reopen().unwrap();
    write(&*left, 5, b" and more");
    let mut bytes = [0; 20];
    assert_eq!(reader.read_at(0, &mut bytes).unwrap(), 14, "it has no name, and is there");
    assert_eq!(reader.attributes().unwrap().links, 0);
}

fn settling(room: &Room<'_>) {
    room.put("object", OpenWrite::New, b"bytes");
    room.store.settle(&room.name("object")).unwrap();
    assert_eq!(room.bytes("object"), b"bytes");
    fails(room.store.settle(&room.name("nothing")), ErrorKind::NotFound, "nothing");
}
