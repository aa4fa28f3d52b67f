//! Symbolic links and extended attributes of small files: the same for every process, also after compaction.

use std::io::IoSlice;
use std::sync::Arc;
use thalweg_conformance::scratch::Scratch;
use thalweg_layout::errno::{self, Errno};
use thalweg_layout::small_file::Settings;
use thalweg_layout::{Change, Kind, Layout, OpenWrite, SetXattr, SmallFile, WriterId};
use thalweg_store::wrap::Sequential;
use thalweg_store::{Memory, Posix, Store};
use thalweg_types::Result;

fn over(store: &Arc<dyn Store>) -> SmallFile {
    SmallFile::new(store.clone(), Settings::default()).unwrap()
}

fn memory() -> Arc<dyn Store> {
    Arc::new(Memory::new())
}

fn make(layout: &SmallFile, path: &str, bytes: &[u8]) {
    let file = layout.open_write(path, OpenWrite::Any, WriterId(0)).unwrap();
    file.truncate(0).unwrap();
    file.write_at(0, &[IoSlice::new(bytes)]).unwrap();
    file.close().unwrap();
}

fn read(layout: &SmallFile, path: &str) -> Vec<u8> {
    let file = layout.open_read(path).unwrap();
    let mut bytes = vec![0; file.length().unwrap() as usize];
    file.read_exact_at(0, &mut bytes).unwrap();
    bytes
}

#[track_caller]
fn fails<T>(outcome: Result<T>, number: Errno) {
    let error = outcome.err().expect("it succeeded");
    assert_eq!(Errno::from_raw_os_error(errno::of(&error)), number, "{error}");
}

#[test]
fn a_link_leads_where_it_was_made_to_lead_on_the_way_and_at_the_end() {
    let store = memory();
    let (layout, other) = (over(&store), over(&store));
    layout.make_folder("d/e").unwrap();
    make(&layout, "d/e/file", b"bytes");
    layout.make_link("e/file", "d/to file").unwrap();
    layout.make_link("d/e", "to folder").unwrap();
    layout.make_link("../../d", "d/e/back").unwrap();
    for layout in [&layout, &other, &over(&store)] {
        for path in ["d/to file", "to folder/file", "to folder/back/to file", "d/e/back/e/back/e/file"] {
            assert_eq!(read(layout, path), b"bytes", "{path}");
            assert_eq!(layout.stat(path).unwrap().length, 5, "{path}");
        }
        assert_eq!(layout.list("to folder").unwrap(), ["back", "file"]);
        assert!(layout.stat("to folder").unwrap().is_folder);
        let about = layout.attributes("to folder/back").unwrap();
        assert_eq!((about.kind, about.length, about.mode), (Kind::Link, 7, 0o777));
        assert_eq!(layout.read_link("to folder/back").unwrap(), "../../d");
        fails(layout.read_link("d/e/file"), Errno::INVAL);
        fails(layout.read_link("d"), Errno::INVAL);
        fails(layout.read_link("gone"), Errno::NOENT);
    }
    // What is done through a link is done to what it leads to.
    make(&other, "d/to file", b"other bytes");
    other.truncate("to folder/back/to file", 5).unwrap();
    other.make_one_folder("to folder/new", 0o755).unwrap();
    other.make_link("file", "to folder/new link").unwrap();
    other.rename("to folder/new link", "to folder/back/renamed").unwrap();
    assert_eq!((read(&layout, "d/e/file"), read(&layout, "d/to file")), (b"other".to_vec(), b"other".to_vec()));
    assert_eq!(layout.read_link("d/renamed").unwrap(), "file");
    fails(layout.open_read("d/renamed"), Errno::NOENT);
    other.remove("to folder/new").unwrap();
    other.remove("to folder").unwrap();
    assert_eq!(read(&layout, "d/e/file"), b"other", "a link that is removed takes nothing along");
}

#[test]
fn links_that_cannot_be_are_refused_as_the_manual_pages_say() {
    let store = memory();
    let layout = over(&store);
    make(&layout, "file", b"");
    layout.make_folder("d").unwrap();
    layout.make_link("gone", "link").unwrap();
    for taken in ["file", "d", "link", ""] {
        fails(layout.make_link("x", taken), Errno::EXIST);
    }
    fails(layout.make_link("x", "no/link"), Errno::NOENT);
    fails(layout.make_link("", "empty"), Errno::NOENT);
    fails(layout.make_link(&"t".repeat(4096), "long"), Errno::NAMETOOLONG);
    fails(layout.make_link("x", &"n".repeat(256)), Errno::NAMETOOLONG);
    layout.make_link(&"t".repeat(4095), &"n".repeat(255)).unwrap();
    assert_eq!(over(&store).read_link(&"n".repeat(255)).unwrap().len(), 4095);
    // One that leads nowhere is no file, and becomes one where it is opened to be made.
    fails(layout.open_read("link"), Errno::NOENT);
    fails(layout.open_write("link", OpenWrite::New, WriterId(0)), Errno::EXIST);
    fails(layout.open_write("link", OpenWrite::Existing, WriterId(0)), Errno::NOENT);
    make(&layout, "link", b"made");
    assert_eq!((read(&layout, "gone"), layout.read_link("link").unwrap()), (b"made".to_vec(), "gone".into()));
    layout.make_link("a", "b").unwrap();
    layout.make_link("b", "a").unwrap();
    fails(layout.open_read("a"), Errno::LOOP);
    fails(layout.stat("b"), Errno::LOOP);
    fails(layout.open_read("a/x"), Errno::LOOP);
    layout.make_link("/abs", "whole").unwrap();
    layout.make_link("../out", "out").unwrap();
    fails(layout.open_read("whole"), Errno::NOENT);
    fails(layout.open_read("out"), Errno::NOENT);
    for (link, target) in [("whole", "/abs"), ("out", "../out")] {
        assert_eq!(layout.read_link(link).unwrap(), target);
        let about = layout.attributes(link).unwrap();
        assert_eq!((about.kind, about.length), (Kind::Link, target.len() as u64), "doors follow it");
    }
    layout.rename("out", "moved").unwrap();
    layout.remove("moved").unwrap();
    fails(layout.set_attributes("link", &Change { mode: Some(0o600), ..Change::default() }), Errno::OPNOTSUPP);
    fails(layout.xattr_set("link", "user.k", b"v", SetXattr::Any), Errno::PERM);
    assert_eq!(layout.xattr_list("link").unwrap(), [""; 0]);
}

#[test]
fn extended_attributes_are_set_and_refused_as_the_manual_pages_say() {
    let layout = over(&memory());
    make(&layout, "file", b"bytes");
    let set = |key: &str, value: &[u8], how| layout.xattr_set("file", key, value, how);
    fails(set("user.k", b"v", SetXattr::Existing), Errno::NODATA);
    set("user.k", b"v", SetXattr::New).unwrap();
    fails(set("user.k", b"w", SetXattr::New), Errno::EXIST);
    set("user.k", b"w", SetXattr::Existing).unwrap();
    set("user.a", b"", SetXattr::Any).unwrap();
    assert_eq!(layout.xattr_list("file").unwrap(), ["user.a", "user.k"]);
    assert_eq!(layout.xattr_get("file", "user.k").unwrap(), Some(b"w".to_vec()));
    // A list of access control that nothing here obeys: who copies files sets the mode instead.
    fails(set("system.posix_acl_access", b"\x02\0\0\0", SetXattr::Any), Errno::OPNOTSUPP);
    assert_eq!(layout.xattr_get("file", "user.gone").unwrap(), None);
    fails(layout.xattr_remove("file", "user.gone"), Errno::NODATA);
    layout.xattr_remove("file", "user.a").unwrap();
    fails(set("", b"", SetXattr::Any), Errno::RANGE);
    fails(set(&format!("user.{}", "k".repeat(251)), b"", SetXattr::Any), Errno::RANGE);
    fails(set("user.big", &vec![0; (64 << 10) + 1], SetXattr::Any), Errno::TOOBIG);
    for number in 0..3 {
        set(&format!("user.{number}"), &vec![number; 64 << 10], SetXattr::Any).unwrap();
    }
    fails(set("user.3", &vec![3; 64 << 10], SetXattr::Any), Errno::NOSPC);
    assert_eq!(layout.xattr_get("file", "user.2").unwrap(), Some(vec![2; 64 << 10]));
    fails(layout.xattr_get("gone", "user.k"), Errno::NOENT);
    fails(layout.xattr_set("gone", "user.k", b"", SetXattr::Any), Errno::NOENT);
    assert_eq!(read(&layout, "file"), b"bytes");
}

/// Name, where it leads, extended attributes.
type Seen = (String, Option<String>, Vec<(String, Vec<u8>)>);

/// What a program sees of the files of a folder beside their bytes.
fn seen(layout: &SmallFile, folder: &str) -> Vec<Seen> {
    let names = layout.list(folder).unwrap();
    let each = names.into_iter().filter(|name| name != "inner").map(|name| {
        let path = if folder.is_empty() { name.clone() } else { format!("{folder}/{name}") };
        let xattrs = layout.xattr_list(&path).unwrap().into_iter().map(|key| {
            let value = layout.xattr_get(&path, &key).unwrap().unwrap();
            (key, value)
        });
        (name, layout.read_link(&path).ok(), xattrs.collect())
    });
    each.collect()
}

#[test]
fn links_and_attributes_outlive_renames_rewrites_compaction_and_every_kind_of_store() {
    let scratch = Scratch::new();
    let stores: [Arc<dyn Store>; 4] = [
        memory(),
        Arc::new(Posix::at(scratch.path()).unwrap()),
        Arc::new(Sequential::like_hdfs()),
        Arc::new(Sequential::like_s3()),
    ];
    for store in stores {
        let layout = over(&store);
        layout.make_folder("inner").unwrap();
        for name in ["plain", "kept", "replaced", "moved", "remade", "grown"] {
            make(&layout, name, name.as_bytes());
            if name != "plain" {
                layout.xattr_set(name, "user.name", name.as_bytes(), SetXattr::New).unwrap();
            }
        }
        layout.make_link("kept", "link").unwrap();
        layout.make_link("gone", "other link").unwrap();
        make(&layout, "kept", b"rewritten");
        layout.rename("plain", "replaced").unwrap();
        layout.rename("moved", "inner/moved").unwrap();
        layout.rename("other link", "inner/link").unwrap();
        layout.remove("remade").unwrap();
        make(&layout, "remade", b"anew");
        let user = |name: &str| vec![("user.name".to_string(), name.as_bytes().to_vec())];
        let here = [
            ("grown".to_string(), None, user("grown")),
            ("kept".into(), None, user("kept")),
            ("link".into(), Some("kept".into()), vec![]),
            // Another file took the name, or it was made anew: what was there before is not its own.
            ("remade".into(), None, vec![]),
            ("replaced".into(), None, vec![]),
        ];
        let inner = [("link".to_string(), Some("gone".to_string()), vec![]), ("moved".into(), None, user("moved"))];
        assert_eq!((seen(&layout, ""), seen(&layout, "inner")), (here.to_vec(), inner.to_vec()));
        layout.finish().unwrap();
        // One log and then another, which stays while the first is put together.
        let second = over(&store);
        assert_eq!((seen(&second, ""), seen(&second, "inner")), (here.to_vec(), inner.to_vec()));
        make(&second, "kept", b"by the second");
        for folder in ["", "inner"] {
            layout.compact(folder).unwrap();
        }
        assert_eq!((seen(&second, ""), seen(&over(&store), "inner")), (here.to_vec(), inner.to_vec()));
        drop(second);
        for folder in ["", "inner", "", "inner"] {
            over(&store).compact(folder).unwrap();
            let fresh = over(&store);
            assert_eq!((seen(&fresh, ""), seen(&fresh, "inner")), (here.to_vec(), inner.to_vec()));
        }
        assert_eq!(read(&over(&store), "link"), b"by the second");
    }
}

#[test]
fn a_file_that_grew_out_of_the_log_keeps_its_attributes() {
    let store = memory();
    let settings = Settings { small: 100, ..Settings::default() };
    let layout = SmallFile::new(store.clone(), settings).unwrap();
    make(&layout, "file", b"small");
    layout.xattr_set("file", "user.k", b"v", SetXattr::New).unwrap();
    make(&layout, "file", &[7; 1000]);
    layout.rename("file", "other").unwrap();
    layout.make_folder("d").unwrap();
    layout.rename("other", "d/other").unwrap();
    let fresh = over(&store);
    assert_eq!(fresh.xattr_get("d/other", "user.k").unwrap(), Some(b"v".to_vec()));
    assert_eq!(read(&fresh, "d/other"), [7; 1000]);
    fresh.compact("d").unwrap();
    assert_eq!(over(&store).xattr_get("d/other", "user.k").unwrap(), Some(b"v".to_vec()));
}
