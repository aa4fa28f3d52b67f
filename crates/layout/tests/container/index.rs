//! Index modules: how much they write, hold and cost, and opening by many ranks.

use super::{Module, Options, open, over, pattern, process, put, read, write};
use std::sync::Arc;
use thalweg_layout::container::parallel::{Fragment, Opening};
use thalweg_layout::{Container, Layout, OpenWrite};
use thalweg_store::wrap::Counting;
use thalweg_store::{Memory, Store};
use thalweg_types::ErrorKind;

fn strided(module: Module, writers: u64, records: u64, unit: u64) -> (Arc<dyn Store>, Vec<u8>) {
    let store: Arc<dyn Store> = Arc::new(Memory::new());
    let mut expected = vec![0; (writers * records * unit) as usize];
    for writer in 0..writers {
        let file = open(&process(std::slice::from_ref(&store), module, 1 << 20), "file", OpenWrite::Any, writer as u32);
        for i in 0..records {
            let (at, bytes) = ((i * writers + writer) * unit, pattern(i * writers + writer, unit as usize));
            write(&*file, at, &bytes);
            expected[at as usize..(at + unit) as usize].copy_from_slice(&bytes);
        }
        file.close().unwrap();
    }
    (store, expected)
}

#[test]
fn a_strided_checkpoint_takes_a_few_hundred_bytes_of_index_however_many_records() {
    for records in [100, 10_000] {
        let (store, expected) = strided(Module::Pattern, 4, records, 37);
        let layout = over(&store);
        assert!(read(&layout, "file").unwrap() == expected);
        let about = layout.about("file").unwrap();
        // A segment's head, a block's head, one run.
        assert!(about.index_bytes < 4 * 160, "{} bytes", about.index_bytes);
        assert_eq!((about.entries, about.sessions, about.length), (4, 4, 4 * 37 * records));
        assert!(about.memory < 4000, "{} bytes of memory", about.memory);
    }
}

#[test]
fn every_module_reads_back_what_was_written_and_holds_what_it_says() {
    for (module, most_per_record) in [(Module::Flat, 25.0), (Module::Pattern, 0.2), (Module::Distributed, f64::MAX)] {
        let (store, expected) = strided(module, 3, 20_000, 10);
        let layout = over(&store);
        assert!(read(&layout, "file").unwrap() == expected, "{module:?}");
        let about = layout.about("file").unwrap();
        assert_eq!(about.module, module.name(), "recorded in the container, whatever the mount says now");
        let per_record = about.memory as f64 / 60_000.0;
        assert!(per_record < most_per_record, "{module:?}: {per_record} bytes a record");
    }
}

#[test]
fn distributed_keeps_scattered_records_on_disk_and_finds_them() {
    let store: Arc<dyn Store> = Arc::new(Memory::new());
    let options = Options { module: Module::Distributed, index_cache: 100_000, ..Options::default() };
    let layout = Container::new(vec![store.clone()], options.clone()).unwrap();
    let file = open(&layout, "file", OpenWrite::New, 0);
    let mut expected = vec![0u8; 3_000_000];
    let mut random = fastrand::Rng::with_seed(1);
    for i in 0..30_000u64 {
        let at = random.usize(0..2_999_900);
        let bytes = pattern(i, random.usize(1..100));
        write(&*file, at as u64, &bytes);
        expected[at..at + bytes.len()].copy_from_slice(&bytes);
    }
    file.truncate(2_900_000).unwrap();
    file.close().unwrap();
    expected.truncate(2_900_000);
    let fresh = Container::new(vec![store], options).unwrap();
    assert!(read(&fresh, "file").unwrap() == expected);
    let about = fresh.about("file").unwrap();
    assert!(about.entries > 10_000 && about.memory < 120_000, "{about:?}");
}

#[test]
fn ranks_that_open_together_read_each_index_log_once() {
    let store = Arc::new(Counting::new(Arc::new(Memory::new())));
    let shared: Arc<dyn Store> = store.clone();
    for writer in 0..40u32 {
        let file = open(&over(&shared), "file", OpenWrite::Any, writer);
        write(&*file, u64::from(writer) * 500, &pattern(writer.into(), 700));
        file.close().unwrap();
    }
    let expected = read(&over(&shared), "file").unwrap();
    for ranks in [1, 2, 3, 5, 16] {
        store.take();
        let layouts: Vec<_> = (0..ranks).map(|_| over(&shared)).collect();
        let opening = Opening::decode(&layouts[0].opening("file").unwrap().encode()).unwrap();
        let shares = opening.shares(ranks).unwrap();
        let mut all = Fragment::default();
        for (layout, share) in layouts.iter().zip(&shares) {
            let sent = layout.read_share("file", &opening, share).unwrap().encode();
            all.join(Fragment::decode(&sent).unwrap());
        }
        let files: Vec<_> = layouts.iter().map(|l| l.open_joined("file", &opening, &all).unwrap()).collect();
        let counted = store.take();
        let index = |name: &&String| name.ends_with(".index");
        let opens: Vec<u64> =
            counted.objects.iter().filter(|(n, _)| index(n)).map(|(_, c)| c.opens_for_reading).collect();
        assert_eq!(opens, [1; 40], "{ranks} ranks");
        for file in files {
            let mut bytes = vec![0; expected.len()];
            file.read_exact_at(0, &mut bytes).unwrap();
            assert!(bytes == expected);
        }
        let counted = store.take();
        assert!(!counted.objects.keys().any(|name| name.ends_with(".index")), "reading needs no index log any more");
    }
    // Something newer: the gathered index is not taken.
    let layout = over(&shared);
    let opening = layout.opening("file").unwrap();
    let all = layout.read_share("file", &opening, &(0..40).collect::<Vec<_>>()).unwrap();
    put(&over(&shared), "file", b"newer");
    let file = over(&shared).open_joined("file", &opening, &all).unwrap();
    let mut bytes = [0; 5];
    file.read_exact_at(0, &mut bytes).unwrap();
    assert_eq!((&bytes, file.length().unwrap()), (b"newer", 5));
}

#[test]
fn the_unit_of_access_does_not_change_the_number_of_store_calls() {
    let calls = |unit: usize| {
        let store = Arc::new(Counting::new(Arc::new(Memory::new())));
        let layout = over(&(store.clone() as Arc<dyn Store>));
        let file = open(&layout, "file", OpenWrite::New, 0);
        let bytes = vec![1; unit];
        for i in 0..(256 << 20) / unit {
            write(&*file, (i * unit * 4) as u64, &bytes);
        }
        file.close().unwrap();
        let total = store.take().total();
        total.writes + total.opens_for_writing + total.lists + total.stats + total.removes + total.closes
    };
    let (odd, even, large) = (calls(47_001), calls(48 << 10), calls(1 << 20));
    println!("store calls: {odd}, {even}, {large}");
    let near = |a: u64, b: u64| a.abs_diff(b) <= (b / 100).max(1);
    assert!(near(odd, large) && near(even, large), "{odd}, {even}, {large}");
}

#[test]
fn a_list_that_may_be_late_and_no_stores_are_refused() {
    struct Late;
    impl thalweg_store::wrap::Watch for Late {
        fn describe(&self) -> &'static str {
            "late"
        }
        fn capability(&self, inner: thalweg_store::Capability) -> thalweg_store::Capability {
            thalweg_store::Capability { list: thalweg_store::ListConsistency::Eventual, ..inner }
        }
    }
    let late: Arc<dyn Store> = Arc::new(thalweg_store::wrap::Wrapped::with(Arc::new(Memory::new()), Late));
    let refused = |stores: Vec<Arc<dyn Store>>| Container::new(stores, Options::default()).err().unwrap();
    let error = refused(vec![Arc::new(Memory::new()), late]);
    assert_eq!(error.kind(), ErrorKind::Config);
    assert!(error.to_string().contains("late around memory:"), "{error}");
    assert_eq!(refused(Vec::new()).kind(), ErrorKind::Config);
    let name = Module::from_name("mdhim").unwrap_err();
    assert!(name.to_string().contains("flat, pattern, distributed"), "{name}");
}

#[test]
fn names_that_begin_with_ours_are_not_for_programs() {
    let store: Arc<dyn Store> = Arc::new(Memory::new());
    let layout = over(&store);
    put(&layout, "file", b"x");
    assert_eq!(layout.list("").unwrap(), ["file"]);
    for name in [".thalweg", ".thalweg/store", "./.thalweg/c"] {
        assert_eq!(layout.stat(name).unwrap_err().kind(), ErrorKind::NotFound, "{name}");
        assert!(layout.open_write(name, OpenWrite::Any, thalweg_layout::WriterId(0)).is_err());
    }
}
