//! A search for the live end skips the holes of a sparse file, and finds the same end as without them.

mod common;

use common::*;
use std::cell::Cell;
use thalweg_bp::live::Live;
use thalweg_bp::scan;
use thalweg_bp::source::{Source, is_damage};
use thalweg_bp::step_record::Groups;
use thalweg_types::{ByteOrder, Error, ErrorKind, Result};

/// A file of which only some bytes are stored; the others read as zeros.
struct Sparse<'b> {
    length: u64,
    /// Offset and bytes, rising.
    stored: Vec<(u64, &'b [u8])>,
    read: Cell<u64>,
    asked: Cell<u64>,
}

impl<'b> Sparse<'b> {
    fn new(length: u64, stored: Vec<(u64, &'b [u8])>) -> Sparse<'b> {
        Sparse { length, stored, read: Cell::new(0), asked: Cell::new(0) }
    }
}

impl Source for Sparse<'_> {
    fn length(&self) -> u64 {
        self.length
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> Result<()> {
        self.read.set(self.read.get() + out.len() as u64);
        assert!(self.read.get() < 1 << 30, "the search reads the hole");
        out.fill(0);
        for (at, bytes) in &self.stored {
            let (from, to) = ((*at).max(offset), (at + bytes.len() as u64).min(offset + out.len() as u64));
            if from < to {
                let there = &bytes[(from - at) as usize..(to - at) as usize];
                out[(from - offset) as usize..(to - offset) as usize].copy_from_slice(there);
            }
        }
        Ok(())
    }

    fn stored_before(&self, offset: u64) -> Result<u64> {
        self.asked.set(self.asked.get() + 1);
        let ends = self.stored.iter().filter(|(at, _)| *at < offset);
        Ok(ends.map(|(at, bytes)| (at + bytes.len() as u64).min(offset)).max().unwrap_or(0))
    }
}

/// The same bytes from a source that knows no holes.
struct Unknown<'s, 'b>(&'s Sparse<'b>);

impl Source for Unknown<'_, '_> {
    fn length(&self) -> u64 {
        self.0.length
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> Result<()> {
        self.0.read(offset, out)
    }
}

#[test]
fn the_end_before_a_hole_of_an_exbibyte_is_found_with_few_reads() {
    for finished in [true, false] {
        let file = small_file(finished).bytes;
        let length = 1 << 60;
        // The file alone, and with the end of an interrupted output in the hole.
        for torn in [vec![], vec![(1 << 56, &file[..file.len() / 2]), (1 << 59, &file[..100])]] {
            let sparse = Sparse::new(length, [vec![(0, &file[..])], torn].concat());
            let live = Live::find(&sparse).unwrap();
            assert_eq!((live.end, live.torn), (file.len() as u64, length - file.len() as u64));
            assert_eq!(live.step_count(), Live::find(&file).unwrap().step_count());
            let (read, asked) = (sparse.read.get(), sparse.asked.get());
            assert!(read < 8 << 20 && asked < 20, "{read} bytes were read, {asked} holes looked up");
        }
    }
}

#[test]
fn a_file_that_is_a_hole_has_no_live_end() {
    let sparse = Sparse::new(1 << 60, vec![]);
    assert_eq!(Live::find(&sparse).unwrap_err().kind(), ErrorKind::Torn);
    assert!(sparse.read.get() < 4 << 20);
}

#[test]
fn the_same_end_is_found_wherever_a_hole_begins() {
    let mut record = small_file(false);
    record.add(&small_group(9, 0));
    record.step_record(Groups::Here);
    // Distances at which the end of the file meets the ends of the parts that the search reads.
    const PART: u64 = 1 << 20;
    let near = [0, 1, 7, 8, 27, 28, 29, 55, 56, 57, 63, 64, 65, 100];
    for (file, distance) in [small_file(false).bytes, record.bytes]
        .iter()
        .flat_map(|file| near.map(|by| (file, by)))
        .flat_map(|(file, by)| [by, PART - by, PART + by, 2 * PART + by].map(|distance| (file, distance)))
    {
        let rest = &file[..file.len() / 3];
        let at = file.len() as u64 + distance;
        for torn in [vec![], vec![(at, rest)]] {
            let length = at + rest.len() as u64;
            let sparse = Sparse::new(length, [vec![(0, &file[..])], torn].concat());
            let (known, unknown) = (Live::find(&sparse).unwrap(), Live::find(&Unknown(&sparse)).unwrap());
            assert_eq!(known.end, file.len() as u64, "a hole of {distance} bytes");
            assert_eq!((known.end, known.torn, known.step_count()), (unknown.end, unknown.torn, unknown.step_count()));
        }
    }
}

#[test]
fn an_end_whose_last_bytes_are_zeros_in_the_hole_is_found() {
    // The last bytes of a closed file may be zeros, which a store that drops zeros does not keep.
    let file = small_file(true).bytes;
    let stored = file.iter().rposition(|byte| *byte != 0).unwrap() + 1;
    let sparse = Sparse::new(1 << 40, vec![(0, &file[..stored])]);
    assert_eq!(Live::find(&sparse).unwrap().end, file.len() as u64);
}

#[test]
fn a_failed_look_at_the_holes_ends_the_search_and_is_no_damage() {
    struct Failing<'b>(&'b [u8], ErrorKind);
    impl Source for Failing<'_> {
        fn length(&self) -> u64 {
            self.0.length()
        }
        fn read(&self, offset: u64, out: &mut [u8]) -> Result<()> {
            self.0.read(offset, out)
        }
        fn stored_before(&self, offset: u64) -> Result<u64> {
            Err(Error::new(self.1, "made to fail").at_byte(offset))
        }
    }
    use ErrorKind::{Corrupt, InvalidArgument, Io, OutOfBounds, PermissionDenied, Torn, Unsupported};
    let mut torn = small_file(true).bytes;
    torn.push(1);
    for kind in [Io, PermissionDenied, Corrupt, Torn, OutOfBounds, InvalidArgument, Unsupported] {
        let e = Live::find(&Failing(&torn, kind)).unwrap_err();
        assert!(!is_damage(&e), "{kind:?}: taken for damage: {e}");
        assert_eq!(e.kind(), if kind == PermissionDenied { kind } else { Io }, "{e}");
    }
}

#[test]
fn an_answer_behind_the_offset_does_not_move_the_search_forward() {
    struct Far<'b>(&'b [u8]);
    impl Source for Far<'_> {
        fn length(&self) -> u64 {
            self.0.length()
        }
        fn read(&self, offset: u64, out: &mut [u8]) -> Result<()> {
            self.0.read(offset, out)
        }
        fn stored_before(&self, _offset: u64) -> Result<u64> {
            Ok(u64::MAX)
        }
    }
    let mut torn = small_file(true).bytes;
    let end = torn.len() as u64;
    torn.push(1);
    assert_eq!(Live::find(&Far(&torn)).unwrap().end, end);
    assert_eq!(Live::find(&Far(&[1; 100])).unwrap_err().kind(), ErrorKind::Torn);
}

#[test]
fn a_short_hole_is_read_as_fresh_bytes_may_be_taken_for_one() {
    struct Wrong<'b>(&'b [u8]);
    impl Source for Wrong<'_> {
        fn length(&self) -> u64 {
            self.0.length()
        }
        fn read(&self, offset: u64, out: &mut [u8]) -> Result<()> {
            self.0.read(offset, out)
        }
        fn stored_before(&self, _offset: u64) -> Result<u64> {
            Ok(0)
        }
    }
    let mut torn = small_file(true).bytes;
    let end = torn.len() as u64;
    torn.push(1);
    assert_eq!(Live::find(&Wrong(&torn)).unwrap().end, end);
}

#[test]
fn a_scan_finds_the_process_groups_between_holes() {
    let file = small_file(true).bytes;
    let scanned = |source: &dyn Source| {
        let seen = scan::scan(source, ByteOrder::NATIVE).unwrap();
        seen.groups.iter().map(|found| found.extent.offset).collect::<Vec<_>>()
    };
    // Two far groups, one of which begins within a part of the search, and the rest of a torn one.
    let far = [1u64 << 50, (1 << 55) + 777];
    let groups = far.map(|at| {
        let mut bytes = Vec::new();
        append_group_of(&mut bytes, at, &small_group(7, 0));
        bytes
    });
    let torn = &groups[0][..groups[0].len() / 2];
    let stored = vec![(0, &file[..]), (far[0], &groups[0][..]), (1 << 52, torn), (far[1], &groups[1][..])];
    let sparse = Sparse::new(1 << 60, stored);
    let (expected, found) = (scanned(&file), scanned(&sparse));
    assert!(found.starts_with(&expected) && found.ends_with(&far) && found.len() == expected.len() + 2, "{found:?}");
    let (read, asked) = (sparse.read.get(), sparse.asked.get());
    assert!(read < 64 << 20 && asked < 2000, "{read} bytes were read, {asked} holes looked up");
}
