//! Holes of a file are known from the index, so that a search skips them however far a write lies.

use super::{Accept, Module, Options, in_folders, open, over, pattern, process, put, write};
use std::sync::Arc;
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
