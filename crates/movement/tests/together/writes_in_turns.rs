//! A large block that goes to a file of this machine is written in turns with the pass over it: in pieces, its head and the trailer behind
//! them. What stands in the file then is what one write would have left, and the trailer, which makes the group complete, comes last.

use std::io::IoSlice;
use std::sync::{Arc, Mutex};
use thalweg_bp::index::Index;
use thalweg_bp::process_group::Header;
use thalweg_bp::rows::Rows;
use thalweg_bp::shape::Shape;
use thalweg_bp::statistics::Level;
use thalweg_layout::WriteObject;
use thalweg_movement::pack::{Through, Writer};
use thalweg_movement::{BlockSpec, BufferPool, Pack};
use thalweg_types::{ElementType, Error, ErrorKind, Extent, MemorySelection, Result, Value};

/// What was written, call by call. As a file of this machine, or not.
struct Written {
    is_file: bool,
    /// The call that fails, from 0.
    fails: Option<usize>,
    calls: Mutex<Vec<(u64, Vec<u8>)>>,
}

impl Written {
    fn new(is_file: bool, fails: Option<usize>) -> Written {
        Written { is_file, fails, calls: Mutex::default() }
    }

    fn calls(&self) -> Vec<(u64, Vec<u8>)> {
        self.calls.lock().unwrap().clone()
    }

    /// The bytes of the object.
    fn bytes(&self) -> Vec<u8> {
        let mut all = Vec::new();
        for (at, bytes) in self.calls() {
            let (at, end) = (at as usize, at as usize + bytes.len());
            all.resize(end.max(all.len()), 0);
            all[at..end].copy_from_slice(&bytes);
        }
        all
    }
}

fn unused<T>() -> Result<T> {
    Err(Error::new(ErrorKind::Unsupported, "not used here"))
}

impl WriteObject for Written {
    fn write_at(&self, offset: u64, pieces: &[IoSlice<'_>]) -> Result<()> {
        let mut calls = self.calls.lock().unwrap();
        if self.fails == Some(calls.len()) {
            return Err(Error::new(ErrorKind::NoSpace, "full"));
        }
        calls.push((offset, pieces.iter().flat_map(|piece| piece.iter().copied()).collect()));
        Ok(())
    }

    fn length(&self) -> Result<u64> {
        unused()
    }

    fn read_at(&self, _: u64, _: &mut [u8]) -> Result<usize> {
        unused()
    }

    fn truncate(&self, _: u64) -> Result<()> {
        unused()
    }

    fn punch(&self, _: u64, _: u64) -> Result<()> {
        unused()
    }

    fn sync(&self) -> Result<()> {
        unused()
    }

    fn close(self: Box<Self>) -> Result<()> {
        Ok(())
    }

    fn is_file(&self) -> bool {
        self.is_file
    }
}

/// Arrays of 3 MiB and 5 MiB and a bit, one of them a box in a larger one, and small blocks between them.
struct Values {
    doubles: Vec<u8>,
    wholes: Vec<u8>,
    small: Vec<u8>,
}

const BOX: [u64; 2] = [1000, 1311];

impl Values {
    fn new() -> Values {
        let doubles = (0..(3 << 17)).flat_map(|i| (f64::from(i) * 0.37 - 9.0).to_ne_bytes()).collect();
        let wholes = (0..1010 * 1320).flat_map(|i: i32| i.wrapping_mul(2_654_435).to_ne_bytes()).collect();
        Values { doubles, wholes, small: (0..800).map(|i| i as u8).collect() }
    }

    fn boxed(&self) -> Rows<'_> {
        Rows::in_memory(&self.wholes, &MemorySelection::new([1010, 1320], [3, 5]), &BOX, 4).unwrap()
    }
}

fn spec(id: u32, element: ElementType, shape: Option<Shape>, value: Option<Value>) -> BlockSpec {
    BlockSpec {
        id,
        name: format!("v{id}").into(),
        path: "/a".into(),
        element,
        is_dimension: false,
        shape,
        level: Level::Full,
        value,
        transform: None,
    }
}

fn header() -> Header {
    Header { group: "g".into(), fortran: false, time_name: "t".into(), time_index: 3, methods: Vec::new() }
}

/// How the large blocks of a group are given.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Given {
    Deferred,
    /// The first large block goes through to storage, the second is deferred.
    ThroughThenDeferred,
    Through,
    /// Copied, and looked at when the group is written.
    CopiedToWriteLater,
    /// Deferred, and copied out of the program's memory when the output is closed.
    TakenOver,
}

/// Each of these makes the same file.
const ALL: [Given; 5] =
    [Given::Deferred, Given::ThroughThenDeferred, Given::Through, Given::CopiedToWriteLater, Given::TakenOver];

/// Writes a group at `start`; returns its index fragment.
fn write(values: &Values, given: Given, object: &Written, start: u64) -> Result<Index> {
    write_to(values, given, object, start, |length| length + 32)
}

/// As [`write`], to an extent as long as `extent` makes of the group's length.
fn write_to(values: &Values, given: Given, object: &Written, start: u64, extent: impl Fn(u64) -> u64) -> Result<Index> {
    let header = header();
    let mut pack = Pack::new(Arc::new(BufferPool::new(None)), &header);
    let to = [Through { object, start, header: &header }];
    let doubles = spec(1, ElementType::F64, Some(Shape::local([3 << 17])), None);
    let wholes = spec(3, ElementType::I32, Some(Shape::local(BOX)), None);
    pack.copy(&spec(0, ElementType::I32, None, Some(Value::I32(5))), &5i32.to_ne_bytes()[..])?;
    match given {
        Given::Deferred | Given::TakenOver => pack.defer(doubles, values.doubles.as_slice())?,
        Given::CopiedToWriteLater => assert!(pack.copy_to_write_later(&doubles, values.doubles.clone().as_slice())?),
        _ => pack.through(doubles, values.doubles.as_slice(), &to)?,
    }
    pack.copy(&spec(2, ElementType::U8, Some(Shape::local([800])), None), values.small.as_slice())?;
    match given {
        Given::Through => pack.through(wholes, values.boxed(), &to)?,
        Given::CopiedToWriteLater => assert!(pack.copy_to_write_later(&wholes, values.boxed())?),
        _ => pack.defer(wholes, values.boxed())?,
    }
    pack.defer(spec(4, ElementType::U8, Some(Shape::local([800])), None), values.small.as_slice())?;
    let mut pack = match given {
        Given::TakenOver => {
            assert!(pack.copy_deferred());
            pack.into_owned()?
        }
        _ => pack,
    };
    let place = Extent::new(start, extent(pack.length()));
    pack.write(object, place, &header, Writer { rank: 1, ranks: 2, run: 9, file_index: 0 })
}

#[test]
fn the_file_is_that_of_one_write() {
    let values = Values::new();
    for given in ALL {
        let (at_once, in_turns) = (Written::new(false, None), Written::new(true, None));
        let expected = write(&values, Given::Deferred, &at_once, 4096).unwrap();
        let got = write(&values, given, &in_turns, 4096).unwrap();
        assert!(in_turns.calls().len() > 30, "{given:?}: no turns: {} writes", in_turns.calls().len());
        assert!(at_once.bytes() == in_turns.bytes(), "{given:?}: the bytes differ");
        let [got, expected] = [got, expected].map(|index| index.encode(0, false, true).unwrap().to_bytes());
        assert_eq!(got, expected, "{given:?}");
    }
}

#[test]
fn the_end_of_a_group_without_earlier_writes_comes_last_and_no_byte_twice() {
    let written = Written::new(true, None);
    write(&Values::new(), Given::Deferred, &written, 0).unwrap();
    let calls = written.calls();
    let end = calls.iter().map(|(at, bytes)| at + bytes.len() as u64).max();
    assert_eq!(calls.last().map(|(at, bytes)| at + bytes.len() as u64), end);
    let mut extents: Vec<_> = calls.iter().map(|(at, bytes)| (*at, at + bytes.len() as u64)).collect();
    extents.sort_unstable();
    // Of the contiguous block, turns end with those of the file.
    let ends = extents.iter().filter(|(at, end)| end - at == 256 << 10 && end % (256 << 10) == 0).count();
    assert!(ends >= 10, "{extents:?}");
    assert!(extents.windows(2).all(|pair| pair[0].1 == pair[1].0), "{extents:?}");
}

#[test]
fn a_group_that_does_not_fit_writes_nothing_behind_its_extent_nor_in_it() {
    let written = Written::new(true, None);
    let error = write_to(&Values::new(), Given::Deferred, &written, 0, |length| length - 1).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument);
    assert_eq!(written.calls().len(), 0);
}

#[test]
fn a_failure_of_any_of_the_writes_is_an_error() {
    let values = Values::new();
    for given in ALL {
        let complete = Written::new(true, None);
        write(&values, given, &complete, 0).unwrap();
        for call in 0..complete.calls().len() {
            let failing = Written::new(true, Some(call));
            let error = write(&values, given, &failing, 0).expect_err(&format!("{given:?}: write {call} failed"));
            assert_eq!(error.kind(), ErrorKind::NoSpace, "{given:?}, write {call}");
        }
    }
}
