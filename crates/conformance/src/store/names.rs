//! Names, folders, lists, renames, and the identity of objects.

use super::opening::missing_or_refused;
use super::{Room, fails, write};
use std::time::Duration;
use thalweg_store::{OpenWrite, Rename, StoreExt};
use thalweg_types::ErrorKind;

pub(super) fn listing(room: &Room<'_>) {
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

pub(super) fn moving(room: &Room<'_>) {
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

pub(super) fn beginnings(room: &Room<'_>) {
    for folder in ["run7", "run7/m", "run70", "other"] {
        room.store.make_folder(&room.name(folder)).unwrap();
    }
    let names = ["run7/a", "run7/m/b", "run70/c", "other/run7", "run6"];
    names.iter().for_each(|name| room.put(name, OpenWrite::New, b"x"));
    let found = |prefix: &str| -> Option<Vec<String>> {
        let mut found = room.store.list_beginning(&room.name(prefix)).unwrap()?;
        found.sort();
        Some(found)
    };
    let expected = |names: &[&str]| Some(names.iter().map(|name| room.name(name)).collect::<Vec<_>>());
    // A store that would have to ask for each folder says so.
    if found("run7").is_none() {
        return;
    }
    assert_eq!(found("run7"), expected(&["run7/a", "run7/m/b", "run70/c"]));
    assert_eq!(found("run7/"), expected(&["run7/a", "run7/m/b"]));
    assert_eq!(found("run7/m/b"), expected(&["run7/m/b"]));
    assert_eq!(found("run8"), expected(&[]));
    room.store.remove(&room.name("run7/a")).unwrap();
    assert_eq!(found("run7/"), expected(&["run7/m/b"]));
}

pub(super) fn first_bytes(room: &Room<'_>) {
    let first = |name: &str, most: usize| room.store.first_if_there(&room.name(name), most).unwrap();
    assert_eq!(first("nothing", 10), None);
    room.store.make_folder(&room.name("folder")).unwrap();
    assert_eq!(first("folder", 10), None);
    room.put("object", OpenWrite::New, b"some bytes");
    assert_eq!(first("object", 4).unwrap(), b"some");
    assert_eq!(first("object", 100).unwrap(), b"some bytes");
    room.put("empty", OpenWrite::New, b"");
    assert_eq!(first("empty", 100).unwrap(), b"");
}

pub(super) fn missing(room: &Room<'_>) {
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

pub(super) fn folders(room: &Room<'_>) {
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

pub(super) fn mixed_up(room: &Room<'_>) {
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

pub(super) fn renaming(room: &Room<'_>) {
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

pub(super) fn atomic(room: &Room<'_>) {
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

pub(super) fn identity(room: &Room<'_>) {
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
