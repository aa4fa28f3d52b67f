//! What a kill or a power cut leaves of a forgetful store.

use std::collections::BTreeSet;
use std::io::IoSlice;
use thalweg_store::wrap::Forgetful;
use thalweg_store::{Memory, OpenWrite, Store, StoreExt, WriteObject};

fn write(object: &dyn WriteObject, offset: u64, bytes: &[u8]) {
    object.write_at(offset, &[IoSlice::new(bytes)]).unwrap();
}

/// All names below a folder with their bytes (folders: none), for comparison.
fn content(store: &dyn Store, folder: &str) -> Vec<(String, Option<Vec<u8>>)> {
    let mut all = Vec::new();
    for entry in store.list(folder).unwrap() {
        let name = if folder.is_empty() { entry } else { format!("{folder}/{entry}") };
        if store.stat(&name).unwrap().is_folder {
            all.push((name.clone(), None));
            all.extend(content(store, &name));
        } else {
            let bytes = store.read_all(&name).unwrap();
            all.push((name, Some(bytes)));
        }
    }
    all
}

/// Does something of everything to a store; calls `after` behind each operation.
fn workload(store: &dyn Store, mut after: impl FnMut()) {
    store.make_folder("d").unwrap();
    after();
    let a = store.open_write("d/a", OpenWrite::New).unwrap();
    after();
    write(&*a, 0, &[1; 3000]);
    after();
    write(&*a, 2000, &[2; 40_000]);
    after();
    a.sync().unwrap();
    after();
    a.punch(100, 20_000).unwrap();
    after();
    a.truncate(30_000).unwrap();
    after();
    store.rename("d/a", "b").unwrap();
    after();
    // Open since before it was renamed.
    write(&*a, 29_999, b"tail");
    after();
    let c = store.open_write("d/a", OpenWrite::Any).unwrap();
    after();
    write(&*c, 0, b"another a");
    after();
    store.rename("d/a", "b").unwrap();
    after();
    write(&*a, 0, b"to an object without a name");
    after();
    store.open_write("b", OpenWrite::Replace).unwrap();
    after();
    store.sync_folder("d").unwrap();
    after();
    store.remove("d").unwrap();
    after();
}

#[test]
fn a_kill_leaves_exactly_the_operations_before_it() {
    let store = Forgetful::new();
    let mut states = vec![content(&store, "")];
    workload(&store, || states.push(content(&store, "")));
    assert_eq!(store.operations(), 16);
    // Downwards and upwards: the answer does not depend on what was asked before.
    for n in (0..=16).rev().chain(0..=16) {
        assert_eq!(content(&store.crash_after(n), ""), states[n], "after {n}, next: {}", store.operation(n));
    }
    assert_eq!(content(&store.crash_after(99), ""), states[16]);
    let distinct: BTreeSet<_> = states.iter().collect();
    assert!(distinct.len() >= 13, "the workload shows something at nearly every operation");
}

#[test]
fn a_kill_may_come_at_any_byte_of_a_write() {
    let store = Forgetful::new();
    let object = store.open_write("a", OpenWrite::New).unwrap();
    write(&*object, 0, b"0123456789");
    write(&*object, 5, b"abcdefgh");
    assert_eq!((store.bytes_written_by(0), store.bytes_written_by(2)), (None, Some(8)));
    for bytes in 0..=9 {
        let left = store.crash_after_bytes(2, bytes).read_all("a").unwrap();
        let mut expected = b"0123456789".to_vec();
        let cut = &b"abcdefgh"[..8.min(bytes as usize)];
        expected.resize(expected.len().max(5 + cut.len()), 0);
        expected[5..5 + cut.len()].copy_from_slice(cut);
        assert_eq!(left, expected);
    }
    assert_eq!(store.crash_after_bytes(0, 5).list("").unwrap(), [""; 0], "no write comes next");
}

#[test]
fn what_is_left_is_a_store_of_its_own() {
    let store = Forgetful::new();
    store.write_all("a", b"once").unwrap();
    let left = store.crash_after(2);
    left.write_all("a", b"changed").unwrap();
    assert_eq!(store.crash_after(2).read_all("a").unwrap(), b"once");
    assert_eq!(store.read_all("a").unwrap(), b"once");
    let again = Forgetful::over(&left);
    again.write_all("a", b"and once more").unwrap();
    assert_eq!(again.crash_after(0).read_all("a").unwrap(), b"changed");
    assert_eq!(again.power_cut(0, 0).read_all("a").unwrap(), b"changed", "what it began with is durable");
}

#[test]
fn a_power_cut_keeps_what_was_synced_whatever_the_seed() {
    let store = Forgetful::new();
    store.make_folder("d").unwrap();
    let object = store.open_write("d/a", OpenWrite::New).unwrap();
    write(&*object, 0, &[1; 5000]);
    write(&*object, 1000, &[2; 100]);
    object.sync().unwrap();
    store.sync_folder("d").unwrap();
    store.sync_folder("").unwrap();
    let durable = store.read_all("d/a").unwrap();
    write(&*object, 5000, &[3; 5000]);
    store.write_all("d/b", b"not synced").unwrap();
    for seed in 0..200 {
        let left = store.power_cut(store.operations(), seed).read_all("d/a").unwrap();
        assert_eq!(left[..5000], durable, "seed {seed}");
    }
}

#[test]
fn the_first_seeds_lose_all_or_nothing() {
    let store = Forgetful::new();
    workload(&store, || ());
    for n in 0..=store.operations() {
        assert_eq!(content(&store.power_cut(n, 1), ""), content(&store.crash_after(n), ""), "after {n}");
    }
    // The folder's own name was never synced, nor the name "b" in the store's folder.
    assert_eq!(store.power_cut(15, 0).list("").unwrap(), [""; 0]);
}

#[test]
fn a_seed_gives_the_same_each_time() {
    let store = Forgetful::new();
    workload(&store, || ());
    for seed in 0..50 {
        let (once, again) = (store.power_cut(14, seed), store.power_cut(14, seed));
        assert_eq!(content(&once, ""), content(&again, ""), "seed {seed}");
    }
}

#[test]
fn writes_that_were_not_synced_end_in_every_way() {
    const LENGTH: usize = 700 + 4096;
    let store = Forgetful::new();
    let object = store.open_write("a", OpenWrite::New).unwrap();
    write(&*object, 0, &[1; 700]);
    object.sync().unwrap();
    store.sync_folder("").unwrap();
    write(&*object, 100, &[2; LENGTH - 100]);
    let (mut whole, mut lost, mut zeros, mut prefix, mut scattered) = (0, 0, 0, 0, 0);
    for seed in 2..400 {
        let left = store.power_cut(store.operations(), seed).read_all("a").unwrap();
        assert!(left.len() >= 700 && left.len() <= LENGTH);
        assert!(left[..100].iter().all(|byte| *byte == 1), "outside the write nothing changes");
        // Sectors are there whole or not at all.
        let new: Vec<bool> =
            left[100..512].chunks(512).chain(left[512..].chunks(512)).map(|sector| sector[0] == 2).collect();
        for (sector, new) in left[100..512].chunks(512).chain(left[512..].chunks(512)).zip(&new) {
            assert!(sector.iter().all(|byte| (*byte == 2) == *new), "seed {seed}: a torn sector");
        }
        let first_old = new.iter().position(|new| !new).unwrap_or(new.len());
        match new.iter().filter(|new| **new).count() {
            _ if left.len() == LENGTH && first_old == new.len() => whole += 1,
            0 if left.len() == 700 => lost += 1,
            0 if left.len() == LENGTH => zeros += 1,
            count if count == first_old => prefix += 1,
            _ => scattered += 1,
        }
    }
    for (times, what) in
        [(whole, "whole"), (lost, "lost"), (zeros, "zeros"), (prefix, "first sectors"), (scattered, "any sectors")]
    {
        assert!(times > 10, "{what}: only {times} times");
    }
}

#[test]
fn a_name_is_durable_once_its_folder_is_synced() {
    let store = Forgetful::new();
    let object = store.open_write("new", OpenWrite::New).unwrap();
    write(&*object, 0, b"new");
    object.sync().unwrap();
    assert!(!store.power_cut(store.operations(), 0).exists("new").unwrap(), "syncing an object leaves its name");
    store.sync_folder("").unwrap();
    assert_eq!(store.power_cut(store.operations(), 0).read_all("new").unwrap(), b"new");

    store.write_all("old", b"old").unwrap();
    store.open_write("old", OpenWrite::Existing).unwrap().sync().unwrap();
    store.sync_folder("").unwrap();
    store.rename("new", "old").unwrap();
    let mut seen = BTreeSet::new();
    for seed in 0..100 {
        seen.insert(content(&store.power_cut(store.operations(), seed), ""));
    }
    let file = |name: &str, bytes: &[u8]| (name.to_string(), Some(bytes.to_vec()));
    let before = vec![file("new", b"new"), file("old", b"old")];
    assert_eq!(seen, BTreeSet::from([before, vec![file("old", b"new")]]), "a rename is there or not, never half");
    store.sync_folder("").unwrap();
    assert_eq!(content(&store.power_cut(store.operations(), 0), ""), [file("old", b"new")]);
}

#[test]
fn a_rename_between_folders_needs_both_synced() {
    let store = Forgetful::new();
    store.make_folder("d").unwrap();
    store.write_all("a", b"bytes").unwrap();
    store.open_write("a", OpenWrite::Existing).unwrap().sync().unwrap();
    store.sync_folder("").unwrap();
    store.rename("a", "d/a").unwrap();
    store.sync_folder("d").unwrap();
    assert!(store.power_cut(store.operations(), 0).exists("a").unwrap());
    store.sync_folder("").unwrap();
    assert_eq!(store.power_cut(store.operations(), 0).read_all("d/a").unwrap(), b"bytes");
}

#[test]
fn thousands_of_operations_are_replayed_one_by_one_in_no_time() {
    let store = Forgetful::over(&Memory::new());
    let object = store.open_write("a", OpenWrite::New).unwrap();
    for i in 0..4000u64 {
        write(&*object, i * 100, &[i as u8; 100]);
    }
    let start = std::time::Instant::now();
    for n in 0..=store.operations() {
        let length = store.crash_after(n).stat("a").map_or(0, |stat| stat.length);
        assert_eq!(length, (n as u64).saturating_sub(1) * 100);
    }
    // A replay from the beginning each time would be 8 million writes.
    assert!(start.elapsed().as_secs() < 60, "{:?}", start.elapsed());
}

#[test]
fn syncing_makes_that_object_durable_and_what_was_written_before() {
    let store = Forgetful::new();
    let (a, b) = (store.open_write("a", OpenWrite::New).unwrap(), store.open_write("b", OpenWrite::New).unwrap());
    store.sync_folder("").unwrap();
    write(&*a, 0, b"synced");
    write(&*b, 0, b"not synced");
    a.sync().unwrap();
    write(&*a, 6, b" and after");
    let left = store.power_cut(store.operations(), 0);
    assert_eq!((left.read_all("a").unwrap(), left.read_all("b").unwrap()), (b"synced".to_vec(), vec![]));
}
