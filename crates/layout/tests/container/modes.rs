//! What protects a file protects the objects that it is made of.

use super::{open, over, process, put, read, write};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use thalweg_conformance::scratch::Scratch;
use thalweg_layout::container::index::Module;
use thalweg_layout::container::tools::Accept;
use thalweg_layout::{Change, Layout, OpenWrite};
use thalweg_store::{Posix, Store};
use thalweg_types::ErrorKind;

/// Everything below a folder, with what is known of it.
fn below(folder: &Path, out: &mut Vec<(PathBuf, std::fs::Metadata)>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let about = std::fs::symlink_metadata(&path).unwrap();
        if about.is_dir() {
            below(&path, out);
        }
        out.push((path, about));
    }
}

/// Objects of any container that hold its bytes, marks or attributes, and whether somebody of this class gets at them: every
/// folder on the way can be entered, and the object read.
fn reached(root: &Path, path: &Path, class: u32) -> bool {
    let bits = |path: &Path| std::fs::symlink_metadata(path).unwrap().permissions().mode() >> class & 7;
    let folders = path.ancestors().skip(1).take_while(|folder| *folder != root && folder.starts_with(root));
    bits(path) & 4 != 0 && folders.into_iter().all(|folder| bits(folder) & 1 != 0)
}

fn logs(root: &Path) -> Vec<PathBuf> {
    let mut all = Vec::new();
    below(root, &mut all);
    let logs = all.into_iter().filter(|(path, about)| about.is_file() && path.extension().is_some());
    logs.map(|(path, _)| path).collect()
}

#[test]
fn objects_below_have_at_most_the_mode_of_their_file_whenever_it_is_changed() {
    let scratch = Scratch::new();
    let folder = |name: &str| {
        std::fs::create_dir(scratch.join(name)).unwrap();
        Arc::new(Posix::at(scratch.join(name)).unwrap()) as Arc<dyn Store>
    };
    let stores = ["a", "b", "c"].map(folder);
    let layout = process(&stores, Module::Pattern, 100);
    let mode = |mode| Change { mode: Some(mode), ..Change::default() };
    // Made strict before it is written, and made strict afterwards.
    for (name, before) in [("strict", Some(0o600)), ("late", None)] {
        open(&layout, name, OpenWrite::New, 0).close().unwrap();
        before.into_iter().for_each(|bits| layout.set_attributes(name, &mode(bits)).unwrap());
        for writer in 0..4u32 {
            let file = open(&layout, name, OpenWrite::Existing, writer);
            write(&*file, u64::from(writer) * 500, &[7; 500]);
            file.close().unwrap();
        }
        layout.set_attributes(name, &mode(0o600)).unwrap();
        assert!(logs(scratch.path()).len() >= 8);
        for log in logs(scratch.path()) {
            let bits = std::fs::metadata(&log).unwrap().permissions().mode() & 0o777;
            assert_eq!(bits & !0o600, 0, "{name}: {} has mode {bits:o}", log.display());
            for class in [0, 3] {
                assert!(!reached(scratch.path(), &log, class), "{name}: {}", log.display());
            }
        }
        let file = open(&layout, name, OpenWrite::Existing, 9);
        write(&*file, 3000, &[7; 500]);
        file.sync().unwrap();
        layout.repair(name, Accept::SURE).err();
        file.close().unwrap();
        let mut all = Vec::new();
        below(scratch.path(), &mut all);
        // What is locked holds no byte.
        let held = |about: &std::fs::Metadata| about.is_file() && about.len() > 0;
        for (path, about) in all.iter().filter(|(path, about)| held(about) && !path.ends_with(".thalweg/store")) {
            assert_eq!(about.mode() & 0o077, 0, "{name}: {} has mode {:o}", path.display(), about.mode());
        }
        // Made public: all of it is.
        layout.set_attributes(name, &mode(0o644)).unwrap();
        for log in logs(scratch.path()) {
            assert!(reached(scratch.path(), &log, 0), "{name}: {}", log.display());
        }
        assert_eq!(read(&over_all(&stores), name).unwrap().len(), 3500);
        layout.remove(name).unwrap();
    }
}

fn over_all(stores: &[Arc<dyn Store>]) -> thalweg_layout::Container {
    process(stores, Module::Pattern, 100)
}

#[test]
fn nobody_finds_the_objects_of_a_file_that_lies_in_a_closed_folder() {
    let scratch = Scratch::new();
    let store: Arc<dyn Store> = Arc::new(Posix::at(scratch.path()).unwrap());
    let layout = over(&store);
    layout.make_one_folder("closed", 0o700).unwrap();
    // Too long to lie behind the stamp, with an attribute of its own: logs, and a folder of the container.
    put(&layout, "closed/file", &vec![1; 200_000]);
    layout.set_attributes("closed/file", &Change { mode: Some(0o644), ..Change::default() }).unwrap();
    let mut all = Vec::new();
    below(scratch.path(), &mut all);
    // Numbers are drawn at random and stand in the stamp, which the closed folder hides: what lists them must not.
    let numbers = |path: &Path| std::fs::read_dir(path).unwrap().any(|e| e.unwrap().file_name().len() == 32);
    let lists: Vec<_> = all.iter().filter(|(path, about)| about.is_dir() && numbers(path)).collect();
    for kind in ["c", "d"] {
        assert!(lists.iter().any(|(path, _)| path.parent().unwrap().ends_with(kind)), "{kind}: {lists:?}");
    }
    for (path, about) in lists {
        assert_eq!(about.mode() & 0o044, 0, "{} is listed by all: {:o}", path.display(), about.mode());
    }
    assert_eq!(layout.check("closed/file").unwrap().findings, []);
    assert_eq!(layout.nameless(std::time::Duration::ZERO, false).unwrap(), []);
}

#[test]
fn objects_belong_to_the_owner_of_their_file() {
    if !rustix_is_root() {
        println!("skipped: only root gives files away");
        return;
    }
    let scratch = Scratch::new();
    let store: Arc<dyn Store> = Arc::new(Posix::at(scratch.path()).unwrap());
    let layout = over(&store);
    let (long, more) = (vec![1; 200_000], vec![2; 200_000]);
    put(&layout, "file", &long);
    let change = Change { mode: Some(0o640), uid: Some(77), gid: Some(78), ..Change::default() };
    layout.set_attributes("file", &change).unwrap();
    let file = open(&layout, "file", OpenWrite::Existing, 1);
    write(&*file, 200_000, &more);
    file.close().unwrap();
    // Data and index of the writing before the change and of the one after it.
    assert_eq!(logs(scratch.path()).len(), 4);
    for log in logs(scratch.path()) {
        let about = std::fs::metadata(&log).unwrap();
        assert_eq!((about.uid(), about.gid(), about.mode() & 0o777), (77, 78, 0o640), "{}", log.display());
    }
    assert_eq!(read(&over(&store), "file").unwrap(), [long, more].concat());
}

fn rustix_is_root() -> bool {
    std::fs::metadata("/proc/self").is_ok_and(|about| about.uid() == 0)
}

#[test]
fn the_handle_that_made_a_file_tells_what_its_name_tells() {
    let scratch = Scratch::new();
    let store: Arc<dyn Store> = Arc::new(Posix::at(scratch.path()).unwrap());
    let layout = super::over(&store);
    let by_name = || super::over(&store).attributes("file").unwrap();
    let file = super::open(&layout, "file", OpenWrite::New, 0);
    for mode in [None, Some(0o444), Some(0o600), Some(0o4755)] {
        if mode.is_some() {
            file.set_attributes(&Change { mode, ..Change::default() }).unwrap();
        }
        assert_eq!(file.attributes().unwrap(), by_name(), "{mode:?}");
    }
    assert_eq!(by_name().mode, 0o4755);
    let guarded = |bits: u32| {
        let layout = super::over(&store);
        layout.set_attributes("file", &Change { mode: Some(bits), ..Change::default() }).unwrap();
        by_name().mode
    };
    assert_eq!(guarded(0o640), 0o640, "changed by another, who goes on from there");
    super::write(&*file, 0, b"bytes");
    assert_eq!(file.attributes().unwrap_err().kind(), ErrorKind::Unsupported, "from now on its name knows more");
    file.close().unwrap();
    assert_eq!((by_name().mode, by_name().length), (0o640, 5));
    let again = super::open(&layout, "file", OpenWrite::Existing, 0);
    assert_eq!(again.attributes().unwrap_err().kind(), ErrorKind::Unsupported);
}
