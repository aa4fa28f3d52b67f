//! Containers over many stores: bytes, marks and attributes lie on all of them.

use super::{Module, open, pattern, process, put, read, write};
use std::sync::Arc;
use thalweg_conformance::scratch::Scratch;
use thalweg_layout::container::{Options, stamp::Stamp};
use thalweg_layout::{Change, Container, Layout, OpenWrite};
use thalweg_store::{Memory, Posix, Store, StoreExt};

fn stores() -> Vec<Arc<dyn Store>> {
    (0..3).map(|_| Arc::new(Memory::new()) as Arc<dyn Store>).collect()
}

fn count(store: &dyn Store, folder: &str, part: &str) -> usize {
    let Ok(names) = store.list(folder) else { return 0 };
    let each = names.iter().map(|name| {
        let name = if folder.is_empty() { name.clone() } else { format!("{folder}/{name}") };
        match store.stat(&name).unwrap().is_folder {
            true => count(store, &name, part),
            false => usize::from(name.contains(part)),
        }
    });
    each.sum()
}

/// Three folders of the system, over which small files may lie behind their stamps.
fn folders(scratch: &Scratch) -> Vec<Arc<dyn Store>> {
    let folder = |number: u32| {
        std::fs::create_dir(scratch.join(number.to_string())).unwrap();
        Arc::new(Posix::at(scratch.join(number.to_string())).unwrap()) as Arc<dyn Store>
    };
    (0..3).map(folder).collect()
}

#[test]
fn marks_attributes_and_logs_of_one_writer_lie_on_all_stores() {
    lie_on_all(stores());
}

#[test]
fn small_files_over_several_folders_lie_on_all_of_them() {
    lie_on_all(folders(&Scratch::new()));
}

#[test]
fn small_files_over_several_folders_lie_on_the_first_where_that_is_asked_for() {
    let scratch = Scratch::new();
    let stores = folders(&scratch);
    let layout = Container::new(stores.clone(), Options { inline: Some(1000), ..Options::default() }).unwrap();
    for number in 0..20u64 {
        put(&layout, &format!("file{number}"), &pattern(number, 100));
    }
    assert!(stores.iter().all(|store| count(&**store, ".thalweg", ".data") == 0));
    // A mount without the key reads them, and writes on.
    let again = process(&stores, Module::Pattern, 4096);
    for number in 0..20u64 {
        let name = format!("file{number}");
        let file = open(&again, &name, OpenWrite::Existing, 1);
        file.append(&[std::io::IoSlice::new(b"more")]).unwrap();
        file.close().unwrap();
        assert_eq!(read(&layout, &name).unwrap(), [&pattern(number, 100)[..], b"more"].concat());
    }
    let counts: Vec<usize> = stores.iter().map(|store| count(&**store, ".thalweg", ".data")).collect();
    assert_eq!(counts.iter().sum::<usize>(), 20, "{counts:?}");
    assert!(counts.iter().filter(|count| **count > 0).count() > 1, "{counts:?}");
}

fn lie_on_all(stores: Vec<Arc<dyn Store>>) {
    let layout = process(&stores, Module::Pattern, 4096);
    // As a mounted folder does: one process, one writer's number.
    for number in 0..60u64 {
        let name = format!("file{number}");
        put(&layout, &name, &pattern(number, 100));
        layout.set_attributes(&name, &Change { mode: Some(0o600), ..Change::default() }).unwrap();
    }
    for part in [".data", ".index", "/stamp", "/m/c-", "/m/a-"] {
        let counts: Vec<usize> = stores.iter().map(|store| count(&**store, ".thalweg", part)).collect();
        assert_eq!(counts.iter().sum::<usize>(), 60, "{part}: {counts:?}");
        // Of 60 that are drawn, fewer than 5 on one of three: once in ten million runs.
        assert!(counts.iter().all(|count| *count >= 5), "{part}: {counts:?}");
    }
    let again = process(&stores, Module::Pattern, 4096);
    for number in 0..60u64 {
        let name = format!("file{number}");
        assert_eq!(read(&again, &name).unwrap(), pattern(number, 100));
        assert_eq!(again.attributes(&name).unwrap().mode, 0o600);
        assert_eq!(again.check(&name).unwrap().findings, []);
        again.rename(&name, &format!("renamed{number}")).unwrap();
        again.remove(&format!("renamed{number}")).unwrap();
    }
    assert!(stores.iter().all(|store| count(&**store, ".thalweg/c", "") + count(&**store, ".thalweg/d", "") == 0));
    assert_eq!(again.nameless(std::time::Duration::ZERO, false).unwrap(), []);
}

#[test]
fn sessions_of_one_writer_in_one_file_are_spread() {
    let stores = stores();
    let layout = process(&stores, Module::Pattern, 4096);
    put(&layout, "file", b"");
    // The file stays open, as where a program has it open or a door keeps what it knows.
    let reader = layout.open_read("file").unwrap();
    for number in 0..30u64 {
        let file = open(&layout, "file", OpenWrite::Existing, 4);
        write(&*file, number * 10, &pattern(number, 10));
        file.close().unwrap();
    }
    let counts: Vec<usize> = stores.iter().map(|store| count(&**store, ".thalweg", ".data")).collect();
    assert_eq!(counts, [10, 10, 10]);
    drop(reader);
    assert_eq!(read(&process(&stores, Module::Pattern, 0), "file").unwrap()[290..], pattern(29, 10));
}

/// A file as it was made when all containers' folders were on the first store.
fn old_file(stores: &[Arc<dyn Store>]) {
    let layout = |stores: &[Arc<dyn Store>]| process(stores, Module::Pattern, 4096);
    let made = |layout: &Container| {
        for number in 0.. {
            let name = format!("draw{number}");
            put(layout, &name, b"old bytes");
            if Stamp::decode(&stores[0].read_all(&name).unwrap()).unwrap().home == 0 {
                layout.rename(&name, "old").unwrap();
                return;
            }
            layout.remove(&name).unwrap();
        }
    };
    made(&layout(stores));
}

#[test]
fn a_container_whose_folder_is_on_the_first_store_has_a_stamp_of_version_1_and_others_of_version_2() {
    let stores = stores();
    old_file(&stores);
    let version = |name: &str| u32::from_le_bytes(stores[0].read_all(name).unwrap()[8..12].try_into().unwrap());
    assert_eq!(version("old"), 1);
    let layout = process(&stores, Module::Pattern, 4096);
    let mut versions = [0; 3];
    for number in 0..40 {
        let name = format!("new{number}");
        put(&layout, &name, b"");
        versions[version(&name) as usize] += 1;
    }
    assert!(versions[1] > 0 && versions[2] > 0, "{versions:?}");
    let file = open(&layout, "old", OpenWrite::Existing, 1);
    file.append(&[std::io::IoSlice::new(b", appended to")]).unwrap();
    file.close().unwrap();
    assert_eq!(read(&process(&stores, Module::Pattern, 0), "old").unwrap(), b"old bytes, appended to");
}

#[test]
fn the_error_names_a_missing_store_that_holds_the_containers_folder() {
    let stores = stores();
    let layout = process(&stores, Module::Pattern, 4096);
    let mut missed = 0;
    for number in 0..60 {
        let name = format!("file{number}");
        put(&layout, &name, b"bytes");
        let fewer = process(&stores[..2], Module::Pattern, 4096);
        let home = Stamp::decode(&stores[0].read_all(&name).unwrap()).unwrap().home;
        if home == 2 {
            missed += 1;
            for error in [read(&fewer, &name).unwrap_err(), fewer.stat(&name).unwrap_err()] {
                assert_eq!(error.kind(), thalweg_types::ErrorKind::Io, "{error}");
                assert!(error.to_string().contains("is not among the stores of this mount"), "{error}");
            }
            let report = fewer.check(&name).unwrap();
            assert!(!report.is_clean(), "{report:?}");
        }
    }
    assert!(missed > 0);
}
