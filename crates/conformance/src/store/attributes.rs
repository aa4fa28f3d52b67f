//! Modes, owners, times, links and extended attributes, and the errors of stores without them.

use super::{Room, fails};
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use thalweg_store::{Change, Kind, OpenWrite, Rename, SetXattr};
use thalweg_types::ErrorKind;

pub(super) fn attributes(room: &Room<'_>) {
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

pub(super) fn modes(room: &Room<'_>) {
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

pub(super) fn no_modes(room: &Room<'_>) {
    let name = room.name("object");
    room.put("object", OpenWrite::New, b"bytes");
    fails(room.store.attributes(&name), ErrorKind::Unsupported, &name);
    fails(room.store.set_attributes(&name, &Change::default()), ErrorKind::Unsupported, &name);
}

pub(super) fn no_links(room: &Room<'_>) {
    let name = room.name("object");
    room.put("object", OpenWrite::New, b"bytes");
    fails(room.store.make_link("object", &room.name("link")), ErrorKind::Unsupported, "link");
    fails(room.store.xattr(&name, "user.thalweg"), ErrorKind::Unsupported, &name);
}
