//! Permission bits of a file apply on its store too: no object that other users can read has bytes of a file that they cannot read.

use std::io::IoSlice;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::Arc;
use thalweg_conformance::scratch::Scratch;
use thalweg_layout::small_file::Settings;
use thalweg_layout::{Change, Direct, Flat, Layout, OpenWrite, SmallFile, WriterId};
use thalweg_store::{Posix, Store};

const SECRET: &[u8] = b"the secret of somebody";

fn mode(mode: u32) -> Change {
    Change { mode: Some(mode), ..Change::default() }
}

fn stores(scratch: &Scratch, count: usize) -> Vec<Arc<dyn Store>> {
    (0..count)
        .map(|k| {
            let _ = std::fs::create_dir(scratch.join(k.to_string()));
            Arc::new(Posix::at(scratch.join(k.to_string())).unwrap()) as Arc<dyn Store>
        })
        .collect()
}

fn small(scratch: &Scratch) -> Box<dyn Layout> {
    let settings = Settings { small: 1000, ..Settings::default() };
    Box::new(SmallFile::new(stores(scratch, 1).remove(0), settings).unwrap())
}

fn flat(scratch: &Scratch) -> Box<dyn Layout> {
    Box::new(Flat::new(stores(scratch, 3)).unwrap())
}

fn direct(scratch: &Scratch) -> Box<dyn Layout> {
    Box::new(Direct::new(stores(scratch, 1).remove(0)).unwrap())
}

/// Objects below that others than the owner can read and that hold these bytes.
fn shown(folder: &Path, bytes: &[u8]) -> Vec<String> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap().map(|e| e.unwrap()) {
        let about = entry.metadata().unwrap();
        if about.is_dir() {
            found.extend(shown(&entry.path(), bytes));
        } else if about.permissions().mode() & 0o077 != 0
            && std::fs::read(entry.path()).unwrap().windows(bytes.len()).any(|run| run == bytes)
        {
            found.push(format!("{:o} {}", about.permissions().mode(), entry.path().display()));
        }
    }
    found
}

fn put(layout: &dyn Layout, path: &str, how: OpenWrite, bytes: &[u8]) {
    let file = layout.open_write(path, how, WriterId(0)).unwrap();
    file.append(&[IoSlice::new(bytes)]).unwrap();
    file.close().unwrap();
}

fn read(layout: &dyn Layout, path: &str) -> Vec<u8> {
    let file = layout.open_read(path).unwrap();
    let mut bytes = vec![0; file.length().unwrap() as usize];
    file.read_exact_at(0, &mut bytes).unwrap();
    bytes
}

fn check(name: &str, open: fn(&Scratch) -> Box<dyn Layout>) {
    let scratch = Scratch::new();
    let hides = |what: &str| assert_eq!(shown(&scratch.join(""), SECRET), Vec::<String>::new(), "{name}: {what}");
    let layout = open(&scratch);
    layout.make_one_folder("d", 0o755).unwrap();
    layout.make_one_folder("e", 0o755).unwrap();
    put(&*layout, "d/public", OpenWrite::New, b"for everybody");
    // As a door makes a file: the name, its mode, then the bytes.
    let file = layout.open_write("d/made", OpenWrite::New, WriterId(0)).unwrap();
    layout.set_attributes("d/made", &mode(0o600)).unwrap();
    file.write_at(0, &[IoSlice::new(SECRET)]).unwrap();
    hides("while it is written");
    file.close().unwrap();
    hides("made with its mode");
    put(&*layout, "d/made", OpenWrite::Existing, b" and more");
    put(&*layout, "d/made", OpenWrite::Existing, SECRET);
    hides("appended to");
    let file = layout.open_write("d/large", OpenWrite::New, WriterId(0)).unwrap();
    layout.set_attributes("d/large", &mode(0o640)).unwrap();
    layout.set_attributes("d/large", &mode(0o600)).unwrap();
    file.write_at(0, &[IoSlice::new(&[7; 5000])]).unwrap();
    file.append(&[IoSlice::new(SECRET)]).unwrap();
    file.close().unwrap();
    hides("a large one");
    // Written before its mode is changed, recorded after.
    let file = layout.open_write("d/late", OpenWrite::New, WriterId(0)).unwrap();
    file.write_at(0, &[IoSlice::new(SECRET)]).unwrap();
    layout.set_attributes("d/late", &mode(0o600)).unwrap();
    file.close().unwrap();
    hides("its mode changed while it is open");
    for (from, to) in
        [("d/made", "d/renamed"), ("d/large", "e/large"), ("d/late", "e/other name"), ("d/renamed", "e/x")]
    {
        layout.rename(from, to).unwrap();
        hides("renamed");
    }
    let next = open(&scratch);
    if let Some(small) = next.concrete().and_then(|l| l.downcast_ref::<SmallFile>()) {
        drop(layout);
        small.compact("d").unwrap();
        small.compact("e").unwrap();
        hides("compacted");
    }
    assert_eq!(read(&*next, "e/x"), [SECRET, b" and more", SECRET].concat());
    assert_eq!((read(&*next, "e/large").len(), read(&*next, "e/other name")), (5000 + SECRET.len(), SECRET.to_vec()));
    assert_eq!(["e/x", "e/large", "e/other name"].map(|p| next.attributes(p).unwrap().mode), [0o600; 3]);
    assert_eq!(read(&*next, "d/public"), b"for everybody");
    // Wide again: others read it.
    next.set_attributes("e/x", &mode(0o644)).unwrap();
    assert_ne!(shown(&scratch.join(""), SECRET), Vec::<String>::new(), "{name}: the test finds what others can read");
    // A file that others could read is taken out of what they can read from now on.
    put(&*next, "d/public", OpenWrite::Replace, b"no more");
    next.set_attributes("d/public", &mode(0o600)).unwrap();
    let before = next.attributes("d/public").unwrap();
    assert_eq!((read(&*next, "d/public"), before.mode, before.length), (b"no more".to_vec(), 0o600, 7));
    put(&*next, "d/public", OpenWrite::Existing, SECRET);
    next.remove("e/x").unwrap();
    drop(next);
    hides("its mode changed, then written");
    assert_eq!(read(&*open(&scratch), "d/public"), [b"no more", SECRET].concat());
}

#[test]
fn bytes_of_small_files_are_read_by_those_alone_whom_the_mode_lets() {
    check("small_file", small);
}

#[test]
fn bytes_of_files_on_several_stores_are_read_by_those_alone_whom_the_mode_lets() {
    check("flat", flat);
    check("direct", direct);
}

#[test]
fn compaction_leaves_each_log_to_those_who_could_read_it() {
    let scratch = Scratch::new();
    let layout = small(&scratch);
    put(&*layout, "public", OpenWrite::New, b"for everybody");
    drop(layout);
    let hidden = scratch.join("0/.thalweg-small");
    let logs = || -> Vec<std::path::PathBuf> {
        let all = std::fs::read_dir(&hidden).unwrap().map(|e| e.unwrap().path());
        all.filter(|p| p.file_name().unwrap().to_str().unwrap().starts_with("data.")).collect()
    };
    let of_others = logs();
    let layout = small(&scratch);
    put(&*layout, "private", OpenWrite::New, SECRET);
    drop(layout);
    // As a process with a umask of 077 makes it.
    for log in logs().into_iter().filter(|log| !of_others.contains(log)) {
        std::fs::set_permissions(log, std::fs::Permissions::from_mode(0o600)).unwrap();
    }
    let layout = small(&scratch);
    layout.concrete().unwrap().downcast_ref::<SmallFile>().unwrap().compact("").unwrap();
    assert_eq!(shown(&scratch.join(""), SECRET), Vec::<String>::new());
    assert_ne!(shown(&scratch.join(""), b"for everybody"), Vec::<String>::new());
    assert_eq!((read(&*layout, "public"), read(&*layout, "private")), (b"for everybody".to_vec(), SECRET.to_vec()));
}
