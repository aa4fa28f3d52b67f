//! Symbolic links lead where the system would lead, on every layout that follows them: itself, or through its store.

use std::io::IoSlice;
use std::sync::Arc;
use thalweg_conformance::layout::check_short_file;
use thalweg_conformance::scratch::Scratch;
use thalweg_layout::errno::{self, Errno};
use thalweg_layout::links::MOST_LINKS;
use thalweg_layout::{Container, Direct, Flat, Layout, OpenWrite, SmallFile, WriterId, container, small_file};
use thalweg_store::wrap::{Failing, Fault, Sequential, StoreCall};
use thalweg_store::{Memory, Posix, Store};
use thalweg_types::{ErrorKind, Result};

/// Layouts whose names may have links to directories in them.
fn with_links_to_folders(scratch: &Scratch) -> Vec<Box<dyn Layout>> {
    let mut number = 0;
    let mut posix = || -> Arc<dyn Store> {
        number += 1;
        let path = scratch.join(format!("store-{number}"));
        std::fs::create_dir(&path).unwrap();
        Arc::new(Posix::at(path).unwrap())
    };
    let container = |stores: Vec<Arc<dyn Store>>, in_log: bool| -> Box<dyn Layout> {
        let layout = Container::new(stores, container::Options::default()).unwrap();
        check_short_file(&layout, scratch.path(), in_log);
        Box::new(layout)
    };
    vec![
        Box::new(Direct::new(posix()).unwrap()),
        Box::new(Flat::new(vec![posix()]).unwrap()),
        Box::new(Flat::new(vec![posix(), posix(), posix()]).unwrap()),
        container(vec![posix(), posix()], true),
        container(vec![posix()], false),
        Box::new(SmallFile::new(posix(), small_file::Settings::default()).unwrap()),
        Box::new(SmallFile::new(Arc::new(Memory::new()), small_file::Settings::default()).unwrap()),
    ]
}

/// As [`with_links_to_folders`], and those that keep links on stores without links.
fn with_links(scratch: &Scratch) -> Vec<Box<dyn Layout>> {
    let mut all = with_links_to_folders(scratch);
    for store in [Arc::new(Memory::new()) as Arc<dyn Store>, Arc::new(Sequential::like_s3())] {
        all.push(Box::new(Container::new(vec![store], container::Options::default()).unwrap()));
    }
    all
}

fn write(layout: &dyn Layout, path: &str, bytes: &[u8]) {
    let file = layout.open_write(path, OpenWrite::Any, WriterId(0)).unwrap();
    file.write_at(0, &[IoSlice::new(bytes)]).unwrap();
    file.close().unwrap();
}

fn read(layout: &dyn Layout, path: &str) -> Result<Vec<u8>> {
    let file = layout.open_read(path)?;
    let mut bytes = vec![0; file.length()? as usize];
    file.read_exact_at(0, &mut bytes)?;
    Ok(bytes)
}

#[test]
fn forty_links_are_followed_and_one_more_is_refused() {
    let scratch = Scratch::new();
    for layout in with_links(&scratch) {
        let told = layout.describe();
        write(&*layout, "file", b"bytes");
        layout.make_link("file", "1").unwrap();
        for n in 2..=MOST_LINKS + 1 {
            layout.make_link(&(n - 1).to_string(), &n.to_string()).unwrap();
        }
        let last = MOST_LINKS.to_string();
        assert_eq!(read(&*layout, &last).unwrap(), b"bytes", "{told}");
        assert_eq!(layout.stat(&last).unwrap().length, 5, "{told}");
        write(&*layout, &last, b"other");
        assert_eq!(read(&*layout, "file").unwrap(), b"other", "{told}");
        let beyond = (MOST_LINKS + 1).to_string();
        for outcome in [
            read(&*layout, &beyond).map(drop),
            layout.stat(&beyond).map(drop),
            layout.open_write(&beyond, OpenWrite::Any, WriterId(0)).map(drop),
        ] {
            assert_eq!(errno::of(&outcome.unwrap_err()), Errno::LOOP.raw_os_error(), "{told}");
        }
    }
}

#[test]
fn a_target_that_goes_up_counts_from_the_directory_that_holds_the_link() {
    let scratch = Scratch::new();
    for layout in with_links_to_folders(&scratch) {
        let told = layout.describe();
        layout.make_folder("real/folder").unwrap();
        layout.make_link("real/folder", "way").unwrap();
        // In the directory, used by a name with a link in it; and a target that goes up behind a link.
        layout.make_link("../file", "real/folder/up").unwrap();
        layout.make_link("way/../file", "behind").unwrap();
        for (name, bytes) in [("way/up", b"first"), ("behind", b"later")] {
            // Once the link leads to a name that is free, once to a file.
            write(&*layout, name, bytes);
            assert_eq!(read(&*layout, "real/file").unwrap(), bytes, "{name} on {told}");
            assert_eq!(read(&*layout, name).unwrap(), bytes, "{name} on {told}");
            assert_eq!(layout.stat(name).unwrap().length, 5, "{name} on {told}");
            assert_eq!(layout.stat("file").unwrap_err().kind(), ErrorKind::NotFound, "{name} on {told}");
            layout.remove("real/file").unwrap();
            assert_eq!(layout.stat(name).unwrap_err().kind(), ErrorKind::NotFound, "{name} on {told}");
        }
    }
}

/// The store follows a link to a file that is no container, and would create one where plain files are expected. `ENOENT` lets a door
/// follow the link itself.
#[test]
fn a_link_that_leads_out_of_a_container_reaches_no_file_and_creates_none() {
    let scratch = Scratch::new();
    let outside = scratch.join("outside");
    std::fs::create_dir(&outside).unwrap();
    std::fs::write(outside.join("full"), "plain").unwrap();
    std::fs::write(outside.join("empty"), "").unwrap();
    let (outside, files) = (outside.to_str().unwrap().to_string(), ["full", "empty", "new"]);
    for inline in [None, Some(0)] {
        let root = scratch.join(format!("store-{}", inline.is_some()));
        std::fs::create_dir(&root).unwrap();
        let store = Arc::new(Posix::at(root).unwrap());
        let options = container::Options { inline, ..container::Options::default() };
        let layout = Container::new(vec![store], options).unwrap();
        layout.make_folder("d").unwrap();
        layout.make_link(&outside, "d/whole").unwrap();
        layout.make_link("../../outside", "d/up").unwrap();
        for file in files {
            layout.make_link(&format!("{outside}/{file}"), &format!("to {file}")).unwrap();
        }
        let names = files.iter().map(|file| format!("to {file}"));
        let below = ["d/whole", "d/up"].into_iter().flat_map(|d| files.iter().map(move |file| format!("{d}/{file}")));
        for name in names.chain(below) {
            let failed = |outcome: Result<()>, what: &str| {
                let e = outcome.expect_err(&format!("{what} of {name}"));
                let number = errno::of(&e);
                // A name that a link occupies cannot be created.
                let taken = what == "New" && number == Errno::EXIST.raw_os_error();
                assert!(taken || number == Errno::NOENT.raw_os_error(), "{what} of {name}: {e}");
            };
            failed(layout.open_read(&name).map(drop), "reading");
            for how in [OpenWrite::Existing, OpenWrite::Any, OpenWrite::Replace, OpenWrite::New] {
                failed(layout.open_write(&name, how, WriterId(0)).map(drop), &format!("{how:?}"));
            }
        }
        // A folder in the place of the link is one again.
        layout.remove("d/up").unwrap();
        layout.make_folder("d/up").unwrap();
        write(&layout, "d/up/new", b"bytes");
        assert_eq!(read(&layout, "d/up/new").unwrap(), b"bytes");
        let mut there: Vec<_> = std::fs::read_dir(&outside).unwrap().map(|e| e.unwrap().file_name()).collect();
        there.sort();
        assert_eq!(there, ["empty", "full"]);
        assert_eq!(std::fs::read_to_string(format!("{outside}/full")).unwrap(), "plain");
    }
}

/// Taken for "no link", the failure would make the file on the store that the link's name picks, where no later open finds it.
#[test]
fn a_link_whose_lookup_fails_is_never_taken_for_no_link() {
    let scratch = Scratch::new();
    let stores: Vec<Arc<Failing>> = (0..3)
        .map(|n| {
            let path = scratch.join(format!("store-{n}"));
            std::fs::create_dir(&path).unwrap();
            Arc::new(Failing::new(Arc::new(Posix::at(path).unwrap())))
        })
        .collect();
    let flat = Flat::new(stores.iter().map(|s| s.clone() as Arc<dyn Store>).collect()).unwrap();
    for n in 0..6 {
        let (link, target) = (format!("link.{n}"), format!("target.{n}"));
        flat.make_link(&target, &link).unwrap();
        stores.iter().for_each(|s| s.fail(Fault::of(StoreCall::Attributes).times(1)));
        assert!(flat.open_write(&link, OpenWrite::Any, WriterId(0)).is_err(), "{n}");
        stores.iter().for_each(|s| s.heal());
        assert_eq!(flat.stat(&target).unwrap_err().kind(), ErrorKind::NotFound, "{n}");
        write(&flat, &link, b"bytes");
        assert_eq!(read(&flat, &target).unwrap(), b"bytes", "{n}");
    }
}
