//! The live index of a file: what it writes where, what it refuses, and in which order a file is closed for good.

use std::sync::Arc;
use thalweg_bp::characteristic::Location;
use thalweg_bp::extension;
use thalweg_bp::index::Index;
use thalweg_bp::live::Live;
use thalweg_bp::process_group::{Block, Header};
use thalweg_bp::shape::Shape;
use thalweg_bp::statistics::Level;
use thalweg_layout::{Direct, Layout, OpenWrite, WriteObject, WriterId};
use thalweg_movement::guarded::Guarded;
use thalweg_movement::output_file::handle::Handle;
use thalweg_movement::output_file::live_index::LiveIndex;
use thalweg_store::Store;
use thalweg_store::memory::Memory;
use thalweg_store::wrap::{Counting, Forgetful};
use thalweg_types::{ElementType, ErrorKind};

/// The index of one process group with one array.
fn step(group: &str, name: &str, time_index: u32, element: ElementType, level: Level) -> Index {
    let header = Header { group: group.into(), fortran: false, time_name: String::new(), time_index, methods: vec![] };
    let mut index = Index::default();
    index.add_process_group(&header, 0, 0);
    let shape = Shape::local([4]);
    let block = Block {
        id: 1,
        name,
        path: "",
        element,
        is_dimension: false,
        shape: Some(&shape),
        level,
        statistics: None,
        transform: None,
        payload: 4 * element.size(),
    };
    let at = Location { record_offset: 0, payload_offset: 100, file_index: u32::MAX, time_index };
    index.add_block(group, &block, at, None).unwrap();
    index
}

fn object(store: &dyn Store) -> Box<dyn WriteObject> {
    store.open_write("x", OpenWrite::Any).unwrap()
}

fn bytes(store: &dyn Store) -> Vec<u8> {
    let object = store.open_read("x").unwrap();
    let mut bytes = vec![0; object.length().unwrap() as usize];
    object.read_exact_at(0, &mut bytes).unwrap();
    bytes
}

#[test]
fn the_end_mark_never_lies_in_two_sectors() {
    // Wherever in a sector the data ends.
    let mut moved = 0;
    for data_end in 1000..1512u64 {
        let store = Memory::new();
        let object = object(&store);
        let mut live = LiveIndex::new(false);
        live.commit(&*object, step("g", "v", 1, ElementType::F64, Level::Full), data_end, data_end, 1, false).unwrap();
        let file = bytes(&store);
        let mark = file.windows(8).position(|w| w == extension::FOLLOWED).unwrap() as u64;
        assert_eq!(mark / 512, (mark + 7) / 512, "data to {data_end}, mark at {mark}");
        let section = file.windows(8).position(|w| w == extension::MAGIC).unwrap() as u64;
        assert!(section - data_end < 8, "{section} behind {data_end}");
        moved += u64::from(section > data_end);
        live.finish(&*object, false).unwrap();
        assert!(Live::find(&bytes(&store)).unwrap().finished());
    }
    assert_eq!(moved, 7, "as many places as begin in one sector and end in the next");
}

#[test]
fn an_appending_open_skips_the_hole_behind_the_last_step() {
    let store = Arc::new(Counting::new(Arc::new(Memory::new())));
    let first = object(&*store);
    let mut live = LiveIndex::new(false);
    live.commit(&*first, step("g", "v", 1, ElementType::F64, Level::Full), 500, 500, 1, false).unwrap();
    first.truncate(1 << 60).unwrap();
    first.close().unwrap();
    store.take();
    // As a method opens the file.
    let layout = Guarded::new(Arc::new(Direct::new(store.clone()).unwrap()));
    let again = Handle::from(layout.open_write("x", OpenWrite::Existing, WriterId(0)).unwrap());
    let loaded = LiveIndex::load(&again, false).unwrap();
    let counted = store.take().total();
    assert!(counted.reads < 100 && counted.bytes_read < 4 << 20, "{counted:?}");
    assert_eq!((loaded.end(), loaded.steps()), (live.end(), 1));
    assert_eq!(again.length().unwrap(), live.end(), "the hole was cut off");
    // Readers of a layout that a method was given, too.
    again.truncate(1 << 60).unwrap();
    let reader = layout.open_read("x").unwrap();
    assert!(reader.stored_before(1 << 60).unwrap() < 1 << 20);
}

#[test]
fn what_does_not_fit_a_file_is_refused_and_named() {
    let store = Memory::new();
    let object = object(&store);
    let mut live = LiveIndex::new(false);
    live.commit(&*object, step("g", "v", 1, ElementType::F64, Level::Full), 500, 500, 1, false).unwrap();
    live.check(&step("g", "v", 2, ElementType::F64, Level::Full)).unwrap();
    live.check(&step("h", "w", 2, ElementType::F32, Level::Off)).unwrap();
    let others = [
        (step("h", "v", 2, ElementType::F64, Level::Full), "in group \"g\""),
        (step("g", "v", 2, ElementType::F32, Level::Full), "type code"),
        (step("g", "v", 2, ElementType::F64, Level::MinMax), "different statistics"),
        (step("g", "v", 2, ElementType::F64, Level::Off), "different statistics"),
    ];
    for (step, words) in others {
        let e = live.check(&step).unwrap_err();
        assert_eq!(e.kind(), ErrorKind::InvalidArgument);
        assert!(e.to_string().contains(words) && e.to_string().contains("\"v\""), "{e}");
    }
}

#[test]
fn closing_for_good_is_durable_step_by_step_where_that_is_asked_for() {
    let store = Arc::new(Forgetful::new());
    let object = object(&*store);
    let mut live = LiveIndex::new(false);
    let mut end = 500;
    for time in 1..=6 {
        live.commit(&*object, step("g", "v", time, ElementType::F64, Level::Full), end, 500, 1, false).unwrap();
        object.sync().unwrap();
        end = live.end() + 500;
    }
    let before = store.operations();
    live.finish(&*object, true).unwrap();
    let done: Vec<String> =
        (before..store.operations()).map(|n| store.operation(n).split(' ').next().unwrap().to_string()).collect();
    assert_eq!(done, ["write", "sync", "write", "sync"], "the index, and only then the mark");
    let mut there = 0;
    for n in before..=store.operations() {
        for seed in 0..40 {
            let left = store.power_cut(n, seed);
            // Names were not synced: the object may be gone, but if it is there its steps are.
            let Ok(object) = left.open_read("x") else { continue };
            there += 1;
            let mut file = vec![0; object.length().unwrap() as usize];
            object.read_exact_at(0, &mut file).unwrap();
            assert_eq!(Live::find(&file).unwrap().step_count(), 6, "operation {n}, outcome {seed}");
        }
    }
    assert!(there > 20, "the object was there {there} times");
}

#[test]
fn a_loaded_index_goes_on_as_the_one_that_was_kept() {
    let (kept, loaded) = (Memory::new(), Memory::new());
    let mut live = LiveIndex::new(false);
    let mut end = 300;
    for time in 1..=40 {
        let next = || step("g", "v", time, ElementType::I32, Level::MinMax);
        live.commit(&*object(&kept), next(), end, 300, 1, false).unwrap();
        let mut again =
            if time == 1 { LiveIndex::new(false) } else { LiveIndex::load(&*object(&loaded), false).unwrap() };
        again.commit(&*object(&loaded), next(), end, 300, 1, false).unwrap();
        assert_eq!((again.end(), again.last_time()), (live.end(), time));
        assert_eq!(bytes(&kept), bytes(&loaded), "time {time}");
        end = live.end() + 300;
    }
    live.finish(&*object(&kept), false).unwrap();
    LiveIndex::load(&*object(&loaded), false).unwrap().finish(&*object(&loaded), false).unwrap();
    assert_eq!(bytes(&kept), bytes(&loaded));
}

/// The same file twice, five steps long: by commits, and staged and sealed. What `each` says decides what is written.
#[test]
fn what_is_staged_is_seen_when_it_is_sealed_and_is_the_same_to_the_byte() {
    for (each, subfiles) in [(false, false), (true, false), (false, true), (true, true)] {
        let (at_once, in_two) = (Memory::new(), Memory::new());
        let (mut live, mut staging) = (LiveIndex::new(subfiles), LiveIndex::new(subfiles));
        let mut end = if subfiles { 0 } else { 300 };
        for time in 1..=5 {
            let next = || step("g", "v", time, ElementType::F64, Level::Full);
            let seen = |file: &[u8]| Live::find(file).map_or(0, |live| live.step_count());
            let what = format!("each {each}, subfiles {subfiles}, time {time}");
            live.commit(&*object(&at_once), next(), end, 300, 1, each).unwrap();
            let object = object(&in_two);
            // Somebody fails, and nothing stays of it.
            let before = bytes(&in_two);
            let staged = staging.stage(&*object, next(), end + 7, 300, 1, each).unwrap();
            assert!(bytes(&in_two).len() > before.len(), "{what}");
            assert_eq!(seen(&bytes(&in_two)), time - 1, "{what}");
            staging.drop_staged(&*object, staged).unwrap();
            let mut left = bytes(&in_two);
            assert!(left.split_off(before.len()).iter().all(|byte| *byte == 0), "{what}");
            assert_eq!(left, before, "{what}");
            // Then all is well.
            let staged = staging.stage(&*object, next(), end, 300, 1, each).unwrap();
            assert_eq!(seen(&bytes(&in_two)), time - 1, "{what}");
            staging.seal(&*object, staged).unwrap();
            assert_eq!(bytes(&in_two), bytes(&at_once), "{what}");
            assert_eq!((staging.end(), staging.last_time()), (live.end(), time), "{what}");
            end = live.end() + if subfiles { 0 } else { 300 };
        }
        live.finish(&*object(&at_once), false).unwrap();
        staging.finish(&*object(&in_two), false).unwrap();
        assert_eq!(bytes(&in_two), bytes(&at_once));
    }
}
