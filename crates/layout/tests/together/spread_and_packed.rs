//! `flat` and `small_file` keep the promises of layouts, over stores in memory and files.

use std::sync::Arc;
use thalweg_conformance::{layout, scratch::Scratch};
use thalweg_layout::small_file::Settings;
use thalweg_layout::{Container, Direct, Flat, Layout, SmallFile};
use thalweg_store::wrap::{Counting, Sequential};
use thalweg_store::{Memory, Posix, Store};

fn memories(count: usize) -> Vec<Arc<dyn Store>> {
    (0..count).map(|_| Arc::new(Memory::new()) as Arc<dyn Store>).collect()
}

fn folders(scratch: &Scratch, count: usize) -> Vec<Arc<dyn Store>> {
    let each = (0..count).map(|n| {
        let path = scratch.join(format!("store-{n}"));
        std::fs::create_dir(&path).unwrap();
        Arc::new(Posix::at(path).unwrap()) as Arc<dyn Store>
    });
    each.collect()
}

#[test]
fn flat_over_one_and_three_stores_in_memory() {
    for count in [1, 3] {
        layout::check(&Flat::new(memories(count)).unwrap());
    }
}

#[test]
fn flat_over_one_and_three_folders() {
    for count in [1, 3] {
        let scratch = Scratch::new();
        layout::check(&Flat::new(folders(&scratch, count)).unwrap());
    }
}

#[test]
fn small_file_over_memory() {
    layout::check(&SmallFile::new(Arc::new(Memory::new()), Settings::default()).unwrap());
    layout::check(&SmallFile::new(Arc::new(Counting::new(Arc::new(Memory::new()))), Settings::default()).unwrap());
}

#[test]
fn small_file_over_a_folder() {
    let scratch = Scratch::new();
    let store = folders(&scratch, 1).remove(0);
    layout::check(&SmallFile::new(store, Settings::default()).unwrap());
}

#[test]
fn small_file_whose_files_all_grow_out_of_the_log() {
    let scratch = Scratch::new();
    let store = folders(&scratch, 1).remove(0);
    layout::check(&SmallFile::new(store, Settings { small: 0, ..Settings::default() }).unwrap());
}

#[test]
fn small_file_whose_logs_end_often() {
    let settings = Settings { log: 1 << 16, ..Settings::default() };
    layout::check(&SmallFile::new(Arc::new(Memory::new()), settings).unwrap());
}

#[test]
fn names_and_attributes_and_the_numbers_of_failures_are_as_the_manual_pages_say() {
    let scratch = Scratch::new();
    let mut stores = folders(&scratch, 6);
    let container = Container::new(vec![stores.remove(0)], Default::default()).unwrap();
    let small = SmallFile::new(stores.remove(0), Settings::default()).unwrap();
    let direct = Direct::new(stores.remove(0)).unwrap();
    let flat = Flat::new(stores).unwrap();
    for each in [&small as &dyn Layout, &direct, &flat, &container] {
        layout::check_names_and_attributes(each);
        layout::check_error_numbers(each);
    }
    // Where the store keeps no attributes.
    layout::check_names_and_attributes(&SmallFile::new(Arc::new(Memory::new()), Settings::default()).unwrap());
    layout::check_names_and_attributes(&Flat::new(memories(3)).unwrap());
    layout::check_names_and_attributes(&Container::new(memories(2), Default::default()).unwrap());
    let sequential: Vec<Arc<dyn Store>> = vec![Arc::new(Sequential::like_s3())];
    layout::check_names_and_attributes(&Container::new(sequential, Default::default()).unwrap());
}
