//! Whichever call to a store fails while a container's file, folder or link is changed, looked at or read: each name is as it was or as
//! it should be, a look gives the right answer or the error, and the same operation works once the store is well again.

use super::{in_folders, over, pattern, put, read};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use thalweg_conformance::scratch::Scratch;
use thalweg_layout::{Change, Container, Kind, Layout, OpenWrite, SetXattr, WriterId};
use thalweg_store::wrap::{Failing, Fault};
use thalweg_store::{Memory, Posix, Store};
use thalweg_types::{ErrorKind, Result};

/// An operation.
type Step = (&'static str, fn(&Container) -> Result<()>);

fn then() -> SystemTime {
    UNIX_EPOCH + Duration::from_secs(1_000_000)
}

fn is<T: PartialEq + std::fmt::Debug>(found: T, expected: T) -> Result<()> {
    assert_eq!(found, expected);
    Ok(())
}

fn stretch(layout: &Container) -> Result<()> {
    let file = layout.open_write("d/f", OpenWrite::Existing, WriterId(1))?;
    let written = file.truncate(200).and_then(|()| file.punch(10, 20));
    written.and(file.close())
}

const CHANGES: &[Step] = &[
    ("utimes", |c| c.set_attributes("d/f", &Change { mtime: Some(then()), ..Change::default() })),
    ("utimes of a folder", |c| c.set_attributes("d", &Change { mtime: Some(then()), ..Change::default() })),
    ("chmod", |c| c.set_attributes("d/f", &Change { mode: Some(0o600), ..Change::default() })),
    ("symlink", |c| c.make_link("f", "d/new")),
    ("link", |c| c.make_hard_link("d/f", "d/hard")),
    ("set an xattr", |c| c.xattr_set("d/f", "user.new", b"value", SetXattr::New)),
    ("replace an xattr", |c| c.xattr_set("d/f", "user.old", b"value", SetXattr::Existing)),
    ("remove an xattr", |c| c.xattr_remove("d/f", "user.old")),
    ("chmod of a small file", |c| c.set_attributes("d/g", &Change { mode: Some(0o600), ..Change::default() })),
    ("set an xattr of a small file", |c| c.xattr_set("d/g", "user.new", b"value", SetXattr::New)),
    ("remove a link", |c| c.remove("d/l")),
    ("mkdir", |c| c.make_one_folder("d/folder", 0o755)),
];

const LOOKS: &[Step] = &[
    ("list", |c| c.list("d").and_then(|names| is(names, ["f".to_string(), "g".into(), "l".into()].into()))),
    ("stat", |c| c.stat("d/f").and_then(|about| is(about.length, 70_000))),
    ("attributes", |c| c.attributes("d/g").and_then(|about| is((about.kind, about.length), (Kind::File, 100)))),
    ("attributes of a link", |c| c.attributes("d/l").and_then(|about| is(about.kind, Kind::Link))),
    ("readlink", |c| c.read_link("d/l").and_then(|target| is(target, "f".into()))),
    ("read", |c| read_now(c, "d/f", pattern(1, 70_000))),
    ("read through a link", |c| read_now(c, "d/l", pattern(1, 70_000))),
    ("read a small file", |c| read_now(c, "d/g", pattern(2, 100))),
    ("get an xattr", |c| c.xattr_get("d/f", "user.old").and_then(|value| is(value, Some(b"old".to_vec())))),
    ("list xattrs", |c| c.xattr_list("d/f").and_then(|keys| is(keys, ["user.old".to_string()].into()))),
];

/// As a reader does, which knows nothing of what a length should be.
fn read_now(layout: &Container, path: &str, expected: Vec<u8>) -> Result<()> {
    let file = layout.open_read(path)?;
    let mut bytes = vec![0; file.length()? as usize];
    file.read_exact_at(0, &mut bytes)?;
    assert!(bytes == expected, "{path}: {} bytes", bytes.len());
    Ok(())
}

/// All names, and what is known of each but for times that nobody set.
fn state(layout: &Container, folder: &str) -> BTreeMap<String, String> {
    let mut all = BTreeMap::new();
    for name in layout.list(folder).unwrap() {
        let path = if folder.is_empty() { name } else { format!("{folder}/{name}") };
        let about = layout.attributes(&path).unwrap();
        let content = match about.kind {
            Kind::Folder => {
                all.extend(state(layout, &path));
                String::new()
            }
            Kind::Link => layout.read_link(&path).unwrap(),
            Kind::File => format!("{:?}", thalweg_types::checksum::crc32c(&read(layout, &path).unwrap())),
        };
        let mut xattrs = Vec::new();
        if about.kind == Kind::File {
            for key in layout.xattr_list(&path).unwrap() {
                xattrs.push((key.clone(), layout.xattr_get(&path, &key).unwrap()));
            }
        }
        let set = about.mtime == then();
        let (kind, mode, length) = (about.kind, about.mode, if about.kind == Kind::Folder { 0 } else { about.length });
        all.insert(path, format!("{kind:?} {mode:o} {length} {set} {content} {xattrs:?} {}", about.links));
    }
    all
}

/// A layout over a store.
type Make = fn(&Arc<dyn Store>) -> Container;

/// Makes the files; the store that can be made to fail, and what keeps it there.
fn world(on_disk: bool, small: bool) -> (Arc<Failing>, Make, Option<Scratch>) {
    let scratch = on_disk.then(Scratch::new);
    let inner: Arc<dyn Store> = match &scratch {
        Some(scratch) => Arc::new(Posix::at(scratch.path()).unwrap()),
        None => Arc::new(Memory::new()),
    };
    let layout: Make = if small { over } else { |store| in_folders(std::slice::from_ref(store)) };
    let healthy = layout(&inner);
    healthy.make_one_folder("d", 0o755).unwrap();
    put(&healthy, "d/f", &pattern(1, 70_000));
    put(&healthy, "d/g", &pattern(2, 100));
    healthy.make_link("f", "d/l").unwrap();
    healthy.xattr_set("d/f", "user.old", b"old", SetXattr::New).unwrap();
    (Arc::new(Failing::new(inner)), layout, scratch)
}

#[test]
fn a_change_is_made_or_not_whichever_call_fails() {
    let stretched: Step = ("truncate and punch", stretch);
    let mut swept = 0;
    for (on_disk, small) in [(false, false), (true, false), (true, true)] {
        for (what, step) in CHANGES.iter().chain([&stretched]) {
            let (store, layout, _scratch) = world(on_disk, small);
            let shared = store.clone() as Arc<dyn Store>;
            let before = state(&layout(&shared), "");
            match step(&layout(&shared)) {
                Err(e) if e.kind() == ErrorKind::Unsupported => continue,
                outcome => outcome.unwrap_or_else(|e| panic!("{what}: {e}")),
            }
            let after = state(&layout(&shared), "");
            for for_good in [false, true] {
                for n in 0.. {
                    let (store, layout, _scratch) = world(on_disk, small);
                    let shared = store.clone() as Arc<dyn Store>;
                    let fault = Fault::any().skipping(n);
                    store.fail(if for_good { fault } else { fault.times(1) });
                    let outcome = step(&layout(&shared));
                    let (struck, last) = store.failed();
                    store.heal();
                    let words =
                        format!("{what}, call {n} failed ({last:?}), for good {for_good}, disk {on_disk}: {outcome:?}");
                    if for_good && outcome.is_err() {
                        // A name without bytes, of a store that went away while a link was made, gives way to a removal.
                        let names = layout(&shared).list("d").unwrap().into_iter().map(|name| format!("d/{name}"));
                        let torn = names
                            .filter(|name| shared.stat(name).is_ok_and(|about| !about.is_folder && about.length == 0));
                        torn.for_each(|name| layout(&shared).remove(&name).unwrap());
                    }
                    let found = state(&layout(&shared), "");
                    let partly = *what == stretched.0 && one_differs(&found, &before);
                    let fits = found == after || (outcome.is_err() && (found == before || partly));
                    assert!(fits, "{words}: {found:#?}");
                    if struck == 0 {
                        break;
                    }
                    swept += 1;
                    if found == before {
                        step(&layout(&shared)).unwrap_or_else(|e| panic!("{words}, again: {e}"));
                        assert_eq!(state(&layout(&shared), ""), after, "{words}, again");
                    }
                    put(&layout(&shared), "d/f", b"replaced");
                    assert_eq!(read(&layout(&shared), "d/f").unwrap(), b"replaced", "{words}");
                }
            }
        }
    }
    assert!(swept > 300, "{swept} calls failed");
}

/// Of an operation of several steps the first may be made, to one file.
fn one_differs(found: &BTreeMap<String, String>, before: &BTreeMap<String, String>) -> bool {
    found.keys().eq(before.keys()) && found.iter().filter(|(path, about)| before.get(*path) != Some(about)).count() == 1
}

#[test]
fn a_look_gives_the_right_answer_or_the_error_whichever_call_fails() {
    let mut swept = 0;
    for (on_disk, small) in [(false, false), (true, false), (true, true)] {
        let (store, layout, _scratch) = world(on_disk, small);
        let shared = store.clone() as Arc<dyn Store>;
        for (what, step) in LOOKS {
            for for_good in [false, true] {
                for n in 0.. {
                    let fault = Fault::any().skipping(n);
                    store.fail(if for_good { fault } else { fault.times(1) });
                    let outcome = step(&layout(&shared));
                    let (struck, last) = store.failed();
                    store.heal();
                    let words = format!("{what}, call {n} failed ({last:?}), for good {for_good}: {outcome:?}");
                    if let Err(e) = &outcome {
                        assert_ne!(e.kind(), ErrorKind::NotFound, "{words}: told as if it were not there");
                    }
                    step(&layout(&shared)).unwrap_or_else(|e| panic!("{words}, again: {e}"));
                    if struck == 0 {
                        outcome.unwrap_or_else(|e| panic!("{words}: {e}"));
                        break;
                    }
                    swept += 1;
                }
            }
        }
    }
    assert!(swept > 50, "{swept} calls failed");
}
