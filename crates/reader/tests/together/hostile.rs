//! Files made to waste time or memory: ten megabytes of them are opened, listed, read, verified and recovered with work
//! that grows as their length does.
//!
//! The thread's own time is taken, and compared with that of simple passes over as many bytes, so that neither a busy machine nor a slow
//! one decides.

use rustix::time::{ClockId, clock_gettime};
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use thalweg_bp::characteristic::{Location, SINGLE_FILE};
use thalweg_bp::extension::Tag;
use thalweg_bp::index::Index;
use thalweg_bp::process_group::{Block, Header, SECTION_HEAD, put_section_head};
use thalweg_bp::shape::Shape;
use thalweg_bp::statistics::Level;
use thalweg_bp::trailer::{self, Trailer};
use thalweg_bp::wire::Put;
use thalweg_layout::{Direct, Layout};
use thalweg_reader::{Reader, RecoverOptions, live_extents, recover, verify};
use thalweg_store::{Memory, StoreExt};
use thalweg_types::checksum::crc32c;
use thalweg_types::{AttributeValue, BoundingBox, ElementType, ErrorKind, Extent, Selection};

const PATH: &str = "f.bp";

fn now() -> Duration {
    let now = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(now.tv_sec as u64, now.tv_nsec as u32)
}

/// The time of 1000 simple passes over 10 MiB, by this machine and this build. Work that grows as the square of the length takes more.
fn allowed() -> Duration {
    static ALLOWED: OnceLock<Duration> = OnceLock::new();
    *ALLOWED.get_or_init(|| {
        let bytes = vec![7u8; 10 << 20];
        let begun = now();
        let sum = bytes.iter().fold(0u64, |sum, byte| (sum ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3));
        std::hint::black_box(sum);
        1000 * (now() - begun)
    })
}

/// Runs it, and fails where it takes more than [`allowed`].
fn soon<T>(what: &str, body: impl FnOnce() -> T) -> T {
    let begun = now();
    let done = body();
    let took = now() - begun;
    println!("{what}: {took:?} of {:?}", allowed());
    assert!(took < allowed(), "{what} took {took:?}, more than {:?}", allowed());
    done
}

fn layout(bytes: &[u8]) -> Arc<dyn Layout> {
    let store = Memory::new();
    store.write_all(PATH, bytes).unwrap();
    Arc::new(Direct::new(Arc::new(store)).unwrap())
}

fn at(time_index: u32, payload_offset: u64) -> Location {
    Location { record_offset: 0, payload_offset, file_index: SINGLE_FILE, time_index }
}

fn block<'a>(id: u32, name: &'a str, shape: Option<&'a Shape>) -> Block<'a> {
    Block {
        id,
        name,
        path: "",
        element: ElementType::F64,
        is_dimension: false,
        shape,
        level: Level::Off,
        statistics: None,
        payload: 8,
        transform: None,
    }
}

/// `data` bytes, and behind them the index.
fn file(data: usize, index: &Index) -> Vec<u8> {
    let mut bytes = vec![0; data];
    let encoded = index.encode(data as u64, false, true).unwrap().to_bytes();
    bytes.extend(encoded);
    bytes
}

/// Everything a listing asks, and more.
fn list(reader: &Reader) {
    for head in reader.attributes() {
        let _ = reader.attribute(&head.name);
    }
    for head in reader.variables() {
        let _ = (reader.variable(&head.name), reader.summary(&head.name, 0..u64::MAX));
    }
}

#[test]
fn a_hundred_thousand_groups_of_one_variable_and_one_attribute_each() {
    let mut index = Index::default();
    index.add_process_group(&Header { group: "g".into(), time_index: 1, ..Header::default() }, 0, 0);
    let shape = Shape::local([1]);
    for i in 0..40_000 {
        let (group, name) = (format!("g{i}"), format!("v{i}"));
        index.add_block(&group, &block(i, &name, Some(&shape)), at(1, 100), None).unwrap();
        index.add_attribute(&group, i, "", &name, &AttributeValue::Variable(i), at(1, 100)).unwrap();
    }
    let bytes = file(200, &index);
    assert!(bytes.len() > 9 << 20, "{}", bytes.len());
    let layout = layout(&bytes);
    let reader = soon("open", || Reader::open(layout.clone(), PATH)).unwrap();
    assert_eq!(reader.status().groups.len(), 40_000);
    soon("list", || list(&reader));
    soon("verify", || verify(&*layout, PATH)).unwrap();
}

#[test]
fn many_failed_ranks_in_the_extension_section() {
    let mut index = Index::default();
    index.add_process_group(&Header { group: "g".into(), time_index: 1, ..Header::default() }, 0, 0);
    let partial = index.records.list(Tag::Partial);
    for i in 0..600_000 {
        [1, i, 3, 0].into_iter().for_each(|n| partial.put_u32(n));
    }
    let layout = layout(&file(200, &index));
    let reader = soon("open", || Reader::open(layout.clone(), PATH)).unwrap();
    assert_eq!(reader.status().partial.len(), 600_000);
    soon("verify", || verify(&*layout, PATH)).unwrap();
}

#[test]
fn blocks_that_all_overlap() {
    let mut index = Index::default();
    index.add_process_group(&Header { group: "g".into(), time_index: 1, ..Header::default() }, 0, 0);
    for i in 0..60_000 {
        // Each as large as the array, or with one element less.
        let shape = Shape::global([1000, 100 - i % 2], [1000, 100], [0, i % 2]);
        index.add_block("g", &block(1, "v", Some(&shape)), at(1, 8 * i), None).unwrap();
    }
    let layout = layout(&file(2 << 20, &index));
    let reader = soon("open", || Reader::open(layout.clone(), PATH)).unwrap();
    soon("list", || list(&reader));
    let corner = Selection::Box(BoundingBox::new([5, 5], [1, 1]));
    soon("a corner", || reader.read_to_vec("v", 0, &corner)).unwrap();
    let points = (0..100).map(|i| vec![i, i]).collect();
    soon("points", || reader.read_to_vec("v", 0, &Selection::Points(points))).unwrap();
    soon("verify", || verify(&*layout, PATH)).unwrap();
}

#[test]
fn arrays_larger_than_any_memory_are_refused_before_memory_is_taken() {
    for (local, global, offset) in [
        ([1u64 << 30, 1], [1u64 << 30, 1], [0u64, 0]),
        ([1 << 20, 1 << 20], [1 << 20, 1 << 20], [0, 0]),
        ([1, 1], [1 << 30, 1 << 29], [7, 7]),
        ([u64::MAX, 0], [u64::MAX - 5, 9], [3, 3]),
    ] {
        let mut index = Index::default();
        index.add_process_group(&Header { group: "g".into(), time_index: 1, ..Header::default() }, 0, 0);
        // Twice, so that they overlap.
        for _ in 0..2 {
            let shape = Shape::global(local, global, offset);
            index.add_block("g", &block(1, "v", Some(&shape)), at(1, 8), None).unwrap();
        }
        let layout = layout(&file(100, &index));
        let Ok(reader) = soon("open", || Reader::open(layout.clone(), PATH)) else { continue };
        soon("list", || list(&reader));
        for selection in [Selection::All, Selection::Block(0)] {
            let read = soon("read", || reader.read_to_vec("v", 0, &selection));
            assert!(read.as_ref().map_or(true, |bytes| bytes.len() < 1 << 20), "{local:?} of {global:?}");
        }
        soon("verify", || verify(&*layout, PATH)).unwrap();
        let _ = soon("live extents", || live_extents(&*layout, PATH));
    }
}

/// An empty process group with a trailer, of the step and the number of ranks it says.
fn group(bytes: &mut Vec<u8>, time_index: u32, ranks: u32) {
    let start = bytes.len() as u64;
    let mut out = Vec::new();
    Header { group: "g".into(), time_index, ..Header::default() }.encode(&mut out);
    for _ in 0..2 {
        let at = out.len();
        out.extend_from_slice(&[0; SECTION_HEAD]);
        put_section_head(&mut out, at, 0, SECTION_HEAD as u64);
    }
    let length = out.len() as u64 + trailer::length(0);
    out[..8].copy_from_slice(&length.to_ne_bytes());
    let framing = crc32c(&out);
    Trailer {
        run: u64::from(time_index),
        group: Extent::new(start, length),
        rank: 0,
        ranks,
        time_index,
        file_index: SINGLE_FILE,
        framing,
        blocks: vec![],
    }
    .encode(&mut out);
    bytes.extend(out);
}

#[test]
fn process_groups_of_four_thousand_million_ranks_and_steps() {
    for keep_partial in [false, true] {
        let options = RecoverOptions { dry_run: false, keep_partial, ..RecoverOptions::default() };
        let mut bytes = Vec::new();
        (1..1000).for_each(|time| group(&mut bytes, time, u32::MAX));
        let _ = soon("ranks", || recover(&*layout(&bytes), PATH, options));
        let mut bytes = Vec::new();
        group(&mut bytes, 1, 1);
        group(&mut bytes, u32::MAX, 1);
        let done = soon("steps", || recover(&*layout(&bytes), PATH, options));
        match keep_partial {
            true => assert_eq!(done.unwrap_err().kind(), ErrorKind::Corrupt),
            false => assert_eq!(done.unwrap().steps, 1),
        }
    }
}

#[test]
fn a_hundred_thousand_process_groups_without_an_index_are_recovered() {
    let mut bytes = Vec::new();
    (1..=70_000).for_each(|time| group(&mut bytes, time, 1));
    let layout = layout(&bytes);
    let done = soon("recover", || recover(&*layout, PATH, RecoverOptions::default())).unwrap();
    assert_eq!(done.steps, 70_000);
    let reader = soon("open", || Reader::open(layout.clone(), PATH)).unwrap();
    assert_eq!(reader.status().steps, 70_000);
    assert!(soon("verify", || verify(&*layout, PATH)).unwrap().findings.is_empty());
}
