//! Holes of a file are known from the index, so that a search skips them however far a write lies.

use super::{Accept, Module, Options, in_folders, open, over, pattern, process, put, write};
use std::sync::Arc;
use thalweg_layout::container::tools::Mapped;
use thalweg_layout::{Container, Layout, OpenWrite};
use thalweg_store::wrap::Forgetful;
use thalweg_store::{Memory, Store};

const FAR: u64 = 1 << 50;

fn memory() -> Arc<dyn Store> {
    Arc::new(Memory::new())
}

/// The answers of a reader that opens the file now.
fn before(layout: &Container, offsets: &[u64]) -> Vec<u64> {
    let file = layout.open_read("file").unwrap();
    offsets.iter().map(|offset| file.stored_before(*offset).unwrap()).collect()
}

#[test]
fn the_hole_before_a_write_at_a_pebibyte_is_skipped() {
    for module in [Module::Flat, Module::Pattern, Module::Distributed] {
        let store = memory();
        let layout = process(std::slice::from_ref(&store), module, 4 << 20);
        let file = open(&layout, "file", OpenWrite::New, 0);
        write(&*file, 0, &pattern(1, 1000));
        write(&*file, FAR, &pattern(2, 500));
        let offsets = [0, 1, 999, 1000, 1001, FAR / 2, FAR, FAR + 1, FAR + 500, FAR + 501];
        let expected = [0, 1, 999, 1000, 1000, 1000, 1000, FAR + 1, FAR + 500, FAR + 501];
        // Written by this handle; then as another process reads.
        let own: Vec<u64> = offsets.iter().map(|offset| file.stored_before(*offset).unwrap()).collect();
        assert_eq!(own, expected, "{module:?}");
        file.close().unwrap();
        assert_eq!(before(&over(&store), &offsets), expected, "{module:?}");
        assert_eq!(before(&layout, &offsets), expected, "{module:?}");
    }
}

#[test]
fn a_file_that_was_extended_is_a_hole_behind_its_bytes() {
    for in_one_object in [true, false] {
        let store = memory();
        let layout = if in_one_object { over(&store) } else { in_folders(std::slice::from_ref(&store)) };
        put(&layout, "file", &pattern(1, 1000));
        let file = open(&layout, "file", OpenWrite::Existing, 1);
        file.truncate(FAR).unwrap();
        assert_eq!(file.stored_before(FAR).unwrap(), 1000);
        file.close().unwrap();
        assert_eq!(before(&over(&store), &[FAR, FAR / 2, 10]), [1000, 1000, 10]);
    }
}

#[test]
fn bytes_that_were_punched_or_cut_off_are_no_stored_bytes() {
    let store = memory();
    let layout = over(&store);
    let file = open(&layout, "file", OpenWrite::New, 0);
    write(&*file, 0, &pattern(1, 1000));
    write(&*file, FAR / 2, &pattern(2, 5000));
    write(&*file, FAR, &pattern(3, 1000));
    file.punch(FAR / 2 + 1000, 1 << 40).unwrap();
    let look = |offsets: &[u64]| -> (Vec<u64>, Vec<u64>) {
        file.publish().unwrap();
        (offsets.iter().map(|at| file.stored_before(*at).unwrap()).collect(), before(&over(&store), offsets))
    };
    let expected = vec![FAR / 2 + 1000, FAR / 2 + 1000, FAR / 2 + 10, 1000];
    assert_eq!(look(&[FAR, FAR / 2 + 2000, FAR / 2 + 10, FAR / 4]), (expected.clone(), expected));
    // Cut within the middle bytes, then extended: what was cut off does not come back.
    file.truncate(FAR / 2 + 300).unwrap();
    file.truncate(FAR).unwrap();
    let expected = vec![FAR / 2 + 300; 2];
    assert_eq!(look(&[FAR, FAR / 2 + 800]), (expected.clone(), expected));
    file.punch(0, FAR).unwrap();
    assert_eq!(look(&[FAR, 1]), (vec![0, 0], vec![0, 0]));
    file.close().unwrap();
}

#[test]
fn strided_records_end_where_the_last_one_before_the_offset_ends() {
    for module in [Module::Flat, Module::Pattern, Module::Distributed] {
        let store = memory();
        // A small cache: the distributed index goes to disk.
        let options = Options { module, index_cache: 10_000, ..Options::default() };
        let layout = Container::new(vec![store], options).unwrap();
        let file = open(&layout, "file", OpenWrite::New, 0);
        // A run over the whole range, one over its middle, and single records.
        let (stride, mut ends) = (FAR / 2000, Vec::new());
        let mut put = |at: u64, length: usize| {
            write(&*file, at, &pattern(at, length));
            ends.push((at, at + length as u64));
        };
        (0..2000).for_each(|k| put(k * stride, 40));
        (0..300).for_each(|k| put(FAR / 3 + k * 100, 60));
        (0..700).for_each(|k| put(FAR / 2 + k * k * 977, 50 + k as usize % 9));
        file.close().unwrap();
        let reader = layout.open_read("file").unwrap();
        let length = reader.length().unwrap();
        for k in 0..4000u64 {
            let offset =
                if k % 2 == 0 { k * 7919 * 7919 * 1000 % length } else { ends[k as usize % ends.len()].1 + k % 3 };
            let offset = offset.min(length);
            let expected = ends.iter().filter(|(at, _)| *at < offset).map(|(_, end)| (*end).min(offset)).max();
            assert_eq!(reader.stored_before(offset).unwrap(), expected.unwrap_or(0), "{module:?}, byte {offset}");
        }
    }
}

#[test]
fn many_punched_records_are_passed_in_a_moment() {
    let store = memory();
    let layout = over(&store);
    let file = open(&layout, "file", OpenWrite::New, 0);
    write(&*file, 0, b"bytes");
    (1..20_000u64).for_each(|k| write(&*file, k * k * 1_000_003, &[7; 20]));
    file.punch(5, FAR).unwrap();
    file.truncate(FAR).unwrap();
    file.close().unwrap();
    let reader = over(&store).open_read("file").unwrap();
    // Not all in one call: each looks up a limited number of places.
    let (mut at, mut calls) = (FAR, 0);
    while at > 5 {
        at = reader.stored_before(at).unwrap();
        calls += 1;
        assert!(calls < 20, "{calls} calls, at byte {at}");
    }
    assert_eq!(at, 5);
}

#[test]
fn gaps_are_no_holes_while_bytes_may_be_missing() {
    let store = Arc::new(Forgetful::new());
    let layout = process(&[store.clone() as Arc<dyn Store>], Module::Pattern, 0);
    put(&layout, "file", b"closed");
    let file = open(&layout, "file", OpenWrite::Existing, 1);
    write(&*file, FAR, b"behind a gap");
    let left: Arc<dyn Store> = Arc::new(store.crash_after(store.operations()));
    assert_eq!(before(&over(&left), &[FAR, 1 << 20]), [FAR, 1 << 20], "its writer died");
    over(&left).repair("file", Accept::SURE).unwrap();
    assert_eq!(before(&over(&left), &[FAR, 1 << 20, FAR + 12]), [6, 6, FAR + 12]);
}

#[test]
fn a_punched_hole_of_an_exbibyte_costs_one_entry() {
    const LENGTH: u64 = 1 << 60;
    for (module, index_cache) in
        [(Module::Flat, 1 << 20), (Module::Pattern, 1 << 20), (Module::Distributed, 1 << 20), (Module::Distributed, 1)]
    {
        let store = memory();
        let layout =
            Container::new(vec![store.clone()], Options { module, index_cache, ..Options::default() }).unwrap();
        let file = open(&layout, "file", OpenWrite::New, 0);
        file.truncate(LENGTH).unwrap();
        let (low, high) = (pattern(1, 1000), pattern(2, 500));
        write(&*file, 0, &low);
        write(&*file, 1 << 50, &high);
        file.punch(900, (1 << 50) - 800).unwrap();
        file.punch((1 << 50) + 400, LENGTH).unwrap();
        file.close().unwrap();
        let about = layout.about("file").unwrap();
        assert!(about.entries < 10 && about.memory < 2 << 20, "{about:?}");
        // Its end lies within the hole.
        let check = |layout: &Container| {
            assert_eq!(before(layout, &[LENGTH, (1 << 50) + 300, 5000]), [(1 << 50) + 400, (1 << 50) + 300, 900]);
            let file = layout.open_read("file").unwrap();
            assert_eq!(file.length().unwrap(), LENGTH);
            let mut bytes = [1; 600];
            file.read_exact_at((1 << 50) - 50, &mut bytes).unwrap();
            assert!(bytes[..150].iter().all(|b| *b == 0) && bytes[150..450] == high[100..400]);
            assert!(bytes[450..].iter().all(|b| *b == 0));
            let mut bytes = [1; 1000];
            file.read_exact_at(0, &mut bytes).unwrap();
            assert!(bytes[..900] == low[..900] && bytes[900..].iter().all(|b| *b == 0));
            let mut ranges = Vec::new();
            layout.map("file", 0, u64::MAX, |mapped| ranges.push(mapped)).unwrap();
            assert!(ranges.len() < 10, "{ranges:?}");
            assert_eq!(ranges.iter().map(|range| range.extent.length).sum::<u64>(), LENGTH);
            let stored = |range: &&Mapped| range.at.as_ref().is_some_and(|at| at.byte.is_some());
            assert_eq!(ranges.iter().filter(stored).map(|range| range.extent.length).sum::<u64>(), 1200);
        };
        check(&layout);
        check(&over(&store));
        let plain = Memory::new();
        assert_eq!(layout.flatten("file", &plain, "plain").unwrap(), LENGTH);
        let copy = thalweg_store::Store::open_read(&plain, "plain").unwrap();
        assert_eq!(copy.length().unwrap(), LENGTH);
        let mut bytes = [1; 600];
        copy.read_exact_at((1 << 50) - 50, &mut bytes).unwrap();
        assert!(bytes[..150].iter().all(|b| *b == 0) && bytes[150..450] == high[100..400]);
        assert_eq!(layout.compact("file").unwrap().bytes, 1200);
        check(&layout);
        check(&over(&store));
        assert_eq!(over(&store).check("file").unwrap().findings, []);
    }
}

#[test]
fn bytes_that_a_log_has_lost_are_no_hole_to_be_passed_over() {
    let store = memory();
    let layout = in_folders(std::slice::from_ref(&store));
    let file = open(&layout, "file", OpenWrite::New, 0);
    // What is copied at a time: no gap is read beside these bytes.
    write(&*file, 0, &pattern(1, 4 << 20));
    file.sync().unwrap();
    let logs = super::failures::all(&*store, ".thalweg/d").into_iter().map(|name| (store.stat(&name).unwrap(), name));
    let synced: Vec<(u64, String)> = logs.filter(|(s, _)| !s.is_folder).map(|(s, name)| (s.length, name)).collect();
    // Far from all other bytes.
    write(&*file, 64 << 20, b"lost");
    file.close().unwrap();
    put_at(&in_folders(std::slice::from_ref(&store)), 128 << 20, b"other");
    for (length, name) in &synced {
        let object = store.open_write(name, OpenWrite::Existing).unwrap();
        object.truncate(*length).unwrap();
        object.close().unwrap();
    }
    let (layout, plain) = (in_folders(std::slice::from_ref(&store)), Memory::new());
    let error = layout.flatten("file", &plain, "plain").unwrap_err();
    assert!(error.to_string().contains("repair --lost"), "{error}");
    assert!(!thalweg_store::StoreExt::exists(&plain, "plain").unwrap(), "a copy without the lost bytes");
    assert!(layout.compact("file").is_err());
}

/// Bytes of another process.
fn put_at(layout: &Container, offset: u64, bytes: &[u8]) {
    let file = open(layout, "file", OpenWrite::Existing, 2);
    write(&*file, offset, bytes);
    file.close().unwrap();
}

#[test]
fn a_hole_before_an_append_survives_a_compaction_at_once() {
    // With appends a compaction writes the hole itself.
    const LENGTH: u64 = 1 << 60;
    let store = memory();
    let layout = over(&store);
    let file = open(&layout, "file", OpenWrite::New, 0);
    write(&*file, 0, b"first");
    file.truncate(LENGTH).unwrap();
    file.append(&[std::io::IoSlice::new(b"last")]).unwrap();
    file.close().unwrap();
    assert_eq!(layout.compact("file").unwrap().bytes, 9);
    for layout in [&layout, &over(&store)] {
        assert!(layout.about("file").unwrap().memory < 1 << 20);
        assert_eq!(before(layout, &[LENGTH + 4, LENGTH]), [LENGTH + 4, 5]);
    }
}

#[test]
fn a_search_in_an_index_on_disk_of_long_runs_gives_up_at_once() {
    // More runs than a search looks at, each of which spans the file, and all of them punched: nothing short of reading them all
    // tells where the last stored byte lies.
    let options = Options { module: Module::Distributed, index_cache: 1, ..Options::default() };
    let layout = Container::new(vec![memory()], options).unwrap();
    let file = open(&layout, "file", OpenWrite::New, 0);
    for k in 0..24_000u64 {
        (0..2).for_each(|i| write(&*file, i * (FAR / 2) + k * k * 7, &[7; 9][..1 + k as usize % 8]));
    }
    file.punch(0, FAR).unwrap();
    file.truncate(FAR).unwrap();
    file.close().unwrap();
    let reader = layout.open_read("file").unwrap();
    assert_eq!(reader.stored_before(FAR).unwrap(), FAR, "not known");
}
