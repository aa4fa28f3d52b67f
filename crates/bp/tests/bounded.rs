//! Decoding takes memory in proportion to its input: of N bytes of anything, never more than 64 N + 1 MiB.
// A counting allocator is a foreign border: the trait it implements is unsafe.
#![allow(unsafe_code)]

mod common;
mod decoders;

use common::*;
use decoders::DECODERS;
use proptest::prelude::*;
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use thalweg_bp::characteristic::{Location, SINGLE_FILE};
use thalweg_bp::extension;
use thalweg_bp::footer::FOOTER;
use thalweg_bp::index::Index;
use thalweg_bp::pass;
use thalweg_bp::process_group::{Block, Header};
use thalweg_bp::shape::Shape;
use thalweg_bp::statistics::Level;
use thalweg_bp::step_record;
use thalweg_bp::trailer;
use thalweg_bp::wire::Put;
use thalweg_types::{ByteOrder, ElementType};

struct Counting;

thread_local! {
    /// Bytes this thread holds, and the most it held since the last look.
    static HELD: Cell<(isize, isize)> = const { Cell::new((0, 0)) };
}

fn note(change: isize) {
    let _ = HELD.try_with(|held| {
        let (now, most) = held.get();
        held.set((now + change, most.max(now + change)));
    });
}

// SAFETY: every call is passed on to the system's allocator unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        note(layout.size() as isize);
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        note(layout.size() as isize);
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, place: *mut u8, layout: Layout) {
        note(-(layout.size() as isize));
        unsafe { System.dealloc(place, layout) }
    }

    unsafe fn realloc(&self, place: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        note(size as isize - layout.size() as isize);
        unsafe { System.realloc(place, layout, size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// The most that was held at once while `body` ran.
fn most_held(body: impl FnOnce()) -> u64 {
    let begun = HELD.with(|held| {
        let (now, _) = held.get();
        held.set((now, now));
        now
    });
    body();
    HELD.with(|held| held.get().1 - begun) as u64
}

fn check(bytes: &[u8]) -> Result<(), TestCaseError> {
    let allowed = 64 * bytes.len() as u64 + (1 << 20);
    for (name, decode) in DECODERS {
        for order in [ByteOrder::Little, ByteOrder::Big] {
            let held = most_held(|| decode(bytes, order));
            prop_assert!(held <= allowed, "{name} held {held} bytes for {} bytes", bytes.len());
        }
    }
    Ok(())
}

/// Bytes between marks and small numbers, so that decoders come far.
fn garbage() -> impl Strategy<Value = Vec<u8>> {
    let piece = prop_oneof![
        prop::collection::vec(any::<u8>(), 0..40),
        prop::sample::select(vec![
            trailer::MAGIC.to_vec(),
            trailer::END.to_vec(),
            extension::MAGIC.to_vec(),
            extension::END.to_vec(),
            extension::FOLLOWED.to_vec(),
            step_record::MAGIC.to_vec(),
            step_record::END.to_vec(),
            b"ADIOS-BP v".to_vec(),
            vec![0; FOOTER as usize],
            vec![0xff; 8],
        ]),
        any::<u16>().prop_map(|n| u64::from(n).to_ne_bytes().to_vec()),
        any::<u32>().prop_map(|n| n.to_ne_bytes().to_vec()),
        (0u8..60).prop_map(|n| vec![n]),
    ];
    prop::collection::vec(piece, 0..60).prop_map(|pieces| pieces.concat())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn of_garbage(bytes in garbage()) {
        check(&bytes)?;
    }

    #[test]
    fn of_a_real_file_with_damage(
        damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u64>(), 1usize..9), 1..5),
        from in any::<prop::sample::Index>(),
        cut in any::<prop::sample::Index>(),
    ) {
        let mut bytes = small_file(true).bytes;
        for (at, value, width) in damage {
            let at = at.index(bytes.len() - 8);
            bytes[at..at + width].copy_from_slice(&value.to_ne_bytes()[..width]);
        }
        check(&bytes)?;
        bytes.truncate(cut.index(bytes.len()));
        check(&bytes)?;
        // Decoders of parts start anywhere.
        check(&bytes[from.index(bytes.len() + 1)..])?;
    }
}

#[test]
fn of_as_many_entries_as_fit() {
    // The smallest entry of each kind, half a megabyte of them.
    let mut group = 21u16.to_ne_bytes().to_vec();
    group.extend_from_slice(&[0; 21]);
    let groups = [&(1u64 << 40).to_ne_bytes()[..], &[0; 8], &group.repeat(20_000)].concat();
    check(&groups).unwrap();
    let mut directory = vec![0; 24];
    directory[4..8].copy_from_slice(&u32::MAX.to_ne_bytes());
    directory.resize(500_000, 0);
    check(&directory).unwrap();
    let records: Vec<u8> = (0..30_000u32).flat_map(|tag| [&tag.to_ne_bytes()[..], &[0; 12]].concat()).collect();
    check(&records).unwrap();
    // An index of 20,000 variables without a set, each of another name.
    let mut entries = Vec::new();
    for i in 0..20_000u32 {
        entries.put_u32(23);
        entries.put_u32(i);
        entries.put_str16(b"");
        entries.put_str16(format!("{i:04x}").as_bytes());
        entries.put_str16(b"");
        entries.put(&[0; 9]);
    }
    let section = [&20_000u32.to_ne_bytes()[..], &[0; 8], &entries].concat();
    let lengths = [16u64, section.len() as u64, 12, 0];
    let fragment = [lengths.iter().flat_map(|l| l.to_ne_bytes()).collect(), vec![0; 16], section, vec![0; 12]].concat();
    let mut index = Index::default();
    index.append_fragment(&fragment).unwrap();
    assert_eq!(index.variables.entries().len(), 20_000);
    check(&fragment).unwrap();
}

/// 20,000 steps of 2 arrays, whose sums lie beside the index.
fn many_steps() -> Index {
    let statistics = pass::look([7u8; 80].as_slice(), ElementType::F64, Level::Beside).statistics;
    let shape = Shape::local([10]);
    let mut index = Index::default();
    for time_index in 1..=20_000 {
        let header = Header { group: "g".into(), time_index, ..Header::default() };
        index.add_process_group(&header, 0, u64::from(time_index) * 1000);
        for (id, name) in [(1, "u"), (2, "v")] {
            let block = Block {
                id,
                name,
                path: "",
                element: ElementType::F64,
                is_dimension: false,
                shape: Some(&shape),
                level: Level::Beside,
                statistics: statistics.as_ref(),
                transform: None,
                payload: 80,
            };
            let at = Location { record_offset: 1, payload_offset: 2, file_index: SINGLE_FILE, time_index };
            index.add_block("g", &block, at, None).unwrap();
        }
    }
    index
}

#[test]
fn writing_an_index_holds_no_second_copy_of_it() {
    let index = many_steps();
    let (mut bytes, mut writes) = (0, 0);
    let held = most_held(|| {
        let encoded = index.encode(0, false, true).unwrap();
        encoded
            .write(|before, slices| {
                assert_eq!(before, bytes);
                bytes += slices.iter().map(|s| s.len() as u64).sum::<u64>();
                writes += 1;
                Ok::<_, ()>(())
            })
            .unwrap();
        assert_eq!(bytes, encoded.length);
    });
    println!("an index of {bytes} bytes in {writes} writes: {held} more held");
    assert!(bytes > 4 << 20 && writes < 10, "{bytes} bytes, {writes} writes");
    assert!(held < 2 << 20, "{held} bytes held for an index of {bytes}");
}

#[test]
fn the_count_counts() {
    assert!(most_held(|| drop(std::hint::black_box(vec![1u8; 5 << 20]))) >= 5 << 20);
}
