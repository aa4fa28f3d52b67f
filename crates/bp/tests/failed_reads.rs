//! A read that fails is never taken for damaged bytes: whatever looks for something in a file ends with that failure, or
//! finds what it would have found.

mod common;

use common::*;
use std::cell::Cell;
use std::path::Path;
use thalweg_bp::live::{Base, Live};
use thalweg_bp::source::{Source, is_damage};
use thalweg_bp::step_record::{self, Groups};
use thalweg_bp::{extension, growth, scan};
use thalweg_types::{ByteOrder, Error, ErrorKind, Result};

/// Bytes of which one read fails, or all from one on.
struct Failing<'b> {
    bytes: &'b [u8],
    /// Reads that go through before.
    left: Cell<u64>,
    once: bool,
    kind: ErrorKind,
    fired: Cell<bool>,
}

impl Source for Failing<'_> {
    fn length(&self) -> u64 {
        self.bytes.len() as u64
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> Result<()> {
        match (self.left.get(), self.once && self.fired.get()) {
            (0, false) => {
                self.fired.set(true);
                Err(Error::new(self.kind, "made to fail").at_byte(offset))
            }
            (0, true) => self.bytes.read(offset, out),
            (left, _) => {
                self.left.set(left - 1);
                self.bytes.read(offset, out)
            }
        }
    }
}

type Look = (&'static str, fn(&dyn Source) -> Result<String>);

const ORDERS: [ByteOrder; 2] = [ByteOrder::Little, ByteOrder::Big];

/// What is looked for in files. The text tells everything that was found.
const LOOKS: &[Look] = &[
    ("the live end", |file| Ok(format!("{:?}", Live::find(file)?))),
    ("the whole index", |file| Ok(format!("{:?}", Live::find(file)?.load(file)?.to_fragment()))),
    ("the end of an index", |file| Ok(format!("{:?}", Base::ending_at(file, file.length())?))),
    ("what was added", |file| Ok(format!("{:?}", growth::since(file, 0)?))),
    ("a step record", |file| {
        ORDERS.iter().map(|o| Ok(format!("{:?}", step_record::before(file, file.length(), *o)?))).collect()
    }),
    ("an extension section", |file| {
        ORDERS.iter().map(|o| Ok(format!("{:?}", extension::before(file, file.length(), *o)?))).collect()
    }),
    ("process groups", |file| {
        let seen = scan::scan(file, ByteOrder::Little)?;
        let mut text = format!("{seen:?}");
        for group in &seen.groups {
            text += &format!("{:?}", scan::damaged_payloads(file, group)?);
            text += &format!("{:?}", group.fragment(file, 0, 0, ByteOrder::Little)?.to_fragment());
            let end = group.extent.end().unwrap();
            text += &format!("{:?}", scan::trailer_at(file, group.extent.offset, ByteOrder::Little)?);
            text += &format!("{:?}", scan::trailer_before(file, end, ByteOrder::Little)?);
        }
        Ok(text)
    }),
];

fn files() -> Vec<(String, Vec<u8>)> {
    let mut files = vec![
        ("closed for good".to_string(), small_file(true).bytes),
        ("to be followed".to_string(), small_file(false).bytes),
    ];
    // A full index and two step records; the same with an output behind them that was cut off.
    let mut chain = File::default();
    for step in 0..3 {
        (0..2).for_each(|rank| chain.add(&small_group(step, rank)));
        if step == 0 { chain.full_index(false) } else { chain.step_record(Groups::Here) }
    }
    let end = chain.bytes.len();
    files.push(("step records".into(), chain.bytes.clone()));
    chain.add(&small_group(3, 0));
    files.push(("an output without an index".into(), chain.bytes.clone()));
    files.push(("an output cut off".into(), chain.bytes[..(end + chain.bytes.len()) / 2].to_vec()));
    chain.step_record(Groups::Here);
    let length = chain.bytes.len();
    files.push(("a step record cut off".into(), chain.bytes[..length - 20].to_vec()));
    let mut damaged = chain.bytes.clone();
    damaged[length - 40] ^= 1;
    files.push(("a damaged step record".into(), damaged));
    let foreign = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures/foreign");
    for name in ["adios1-subfiles.bp", "adios1-subfiles.bp.dir/adios1-subfiles.bp.0", "adios1-two-groups.bp"] {
        files.push((name.to_string(), std::fs::read(foreign.join(name)).unwrap()));
    }
    files
}

#[test]
fn a_failed_read_ends_every_search_or_changes_nothing_that_it_finds() {
    use ErrorKind::{Corrupt, InvalidArgument, Io, NotFound, OutOfBounds, PermissionDenied, Torn, Unsupported};
    let (mut failures, mut harmless) = (0u64, 0u64);
    for (name, bytes) in files() {
        for (what, look) in LOOKS {
            let whole = look(&bytes);
            for kind in [Io, NotFound, PermissionDenied, Corrupt, Torn, OutOfBounds, InvalidArgument, Unsupported] {
                for once in [true, false] {
                    for k in 0.. {
                        let file = Failing { bytes: &bytes, left: Cell::new(k), once, kind, fired: Cell::new(false) };
                        let found = look(&file);
                        if !file.fired.get() {
                            break;
                        }
                        let case = format!("{what} in \"{name}\", read {k} fails with {kind:?}, once: {once}");
                        match (&found, &whole) {
                            (Err(e), _) => {
                                assert!(!is_damage(e), "{case}: taken for damage: {e}");
                                let told = if matches!(kind, NotFound | PermissionDenied) { kind } else { Io };
                                assert_eq!(e.kind(), told, "{case}: {e}");
                                failures += 1;
                            }
                            (Ok(found), Ok(whole)) => {
                                assert!(found == whole, "{case}: something else was found");
                                harmless += 1;
                            }
                            (Ok(_), Err(e)) => panic!("{case}: found although the whole file gives {e}"),
                        }
                    }
                }
            }
        }
    }
    println!("{failures} failed reads told, {harmless} that changed nothing");
    assert!(failures > 1000);
}

#[test]
fn a_file_that_is_cut_while_it_is_read_is_not_taken_for_a_damaged_one() {
    struct Cut<'b>(&'b [u8], u64);
    impl Source for Cut<'_> {
        fn length(&self) -> u64 {
            self.1
        }
        fn read(&self, offset: u64, out: &mut [u8]) -> Result<()> {
            self.0.read(offset, out)
        }
    }
    let file = small_file(false).bytes;
    for cut in 1..file.len() {
        let e = Live::find(&Cut(&file[..file.len() - cut], file.len() as u64)).unwrap_err();
        assert_eq!(e.kind(), ErrorKind::Io, "{cut} bytes less: {e}");
    }
}
