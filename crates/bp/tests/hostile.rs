//! Bytes made to waste time: 10 MB of them are opened, scanned and refused with work that grows as their length does.
//!
//! The thread's own time is taken, and compared with that of simple passes over as many bytes, so that neither a busy machine nor a slow
//! one decides.

mod common;

use common::*;
use rustix::time::{ClockId, clock_gettime};
use std::sync::OnceLock;
use std::time::Duration;
use thalweg_bp::characteristic::SINGLE_FILE;
use thalweg_bp::extension::{self, Records};
use thalweg_bp::footer::Footer;
use thalweg_bp::live::Live;
use thalweg_bp::process_group::SECTION_HEAD;
use thalweg_bp::scan::{self, scan};
use thalweg_bp::statistics::Level;
use thalweg_bp::step_record::{self, Groups};
use thalweg_bp::trailer::{self, Trailer};
use thalweg_types::{ByteOrder, ElementType, Extent};

const BYTES: usize = 10 << 20;

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

/// Opens and scans; both may fail, neither may take long.
fn is_soon_done_with(what: &str, file: &[u8]) {
    for (name, body) in [
        ("open", (&|| drop(Live::find(file).and_then(|l| l.load(file)))) as &dyn Fn()),
        ("scan", &|| drop(scan(file, ByteOrder::NATIVE))),
        ("scan", &|| drop(scan(file, ByteOrder::Big))),
    ] {
        let begun = now();
        body();
        let took = now() - begun;
        println!("{what}, {name}: {took:?} of {:?}", allowed());
        assert!(took < allowed(), "{what}: {name} took {took:?}, more than {:?}", allowed());
    }
}

/// `unit(offset)` again and again.
fn repeated(unit: impl Fn(u64) -> Vec<u8>) -> Vec<u8> {
    let mut file = Vec::new();
    while file.len() < BYTES {
        let unit = unit(file.len() as u64);
        file.extend_from_slice(&unit);
    }
    file
}

fn footer(process_groups: u64, variables: u64, attributes: u64) -> Vec<u8> {
    let mut out = Vec::new();
    Footer { process_groups, variables, attributes, order: ByteOrder::NATIVE, subfiles: false }.encode(&mut out);
    out
}

#[test]
fn nothing_but_magics() {
    for magic in [
        &trailer::MAGIC[..],
        &extension::MAGIC[..],
        &extension::END[..],
        &step_record::MAGIC[..],
        &step_record::END[..],
        b"ADIOS-BP v",
        b"ADIOS-BP vTWSTEPNDTWPGTRL1TWEXTSECTWSTEPRC",
        &[0; 64],
        &[0xff; 64],
        b"n\0\0\0\0\0\0\0\0y",
    ] {
        is_soon_done_with(&String::from_utf8_lossy(magic), &repeated(|_| magic.to_vec()));
    }
}

#[test]
fn footers_that_each_name_a_huge_index() {
    let offsets = |at: u64| (at / 3, at / 3 + 16, at / 2);
    is_soon_done_with(
        "footers",
        &repeated(|at| {
            if at < 200 {
                vec![b'y'; 200]
            } else {
                let (p, v, a) = offsets(at);
                footer(p, v, a)
            }
        }),
    );
    // Each says that a section of all the bytes before it lies in front of its index.
    is_soon_done_with(
        "sections",
        &repeated(|at| {
            let mut out = Vec::new();
            out.extend_from_slice(extension::FOLLOWED);
            for number in [0, at + extension::TAIL, 84u64] {
                out.extend_from_slice(&number.to_ne_bytes());
            }
            out.extend_from_slice(&[7; 8]);
            out.extend_from_slice(extension::END);
            let index = at + extension::TAIL;
            out.extend_from_slice(&[0; 28]);
            out.extend_from_slice(&footer(index, index + 16, index + 28));
            out
        }),
    );
}

#[test]
fn process_group_indexes_without_end() {
    // A count of 2^60, entries of 23 bytes, for each of many footers.
    let mut file = repeated(|at| {
        if at == 0 {
            (1u64 << 60).to_ne_bytes().repeat(2)
        } else {
            let mut entry = 21u16.to_ne_bytes().to_vec();
            entry.extend_from_slice(&[0; 21]);
            entry
        }
    });
    let end = file.len() as u64;
    for _ in 0..1000 {
        file.extend_from_slice(&footer(0, end - 24, end - 12));
    }
    is_soon_done_with("process group index", &file);
}

#[test]
fn step_records_that_lead_nowhere() {
    // Tails with right checksums whose bodies are everything before them.
    let tail = |start: u64, length: u64, previous: u64| {
        let mut out = Vec::new();
        for number in [start, length, previous, 7] {
            out.extend_from_slice(&number.to_ne_bytes());
        }
        out.extend_from_slice(&[1; 8]);
        let crc = thalweg_types::checksum::crc32c(&out);
        out.extend_from_slice(&crc.to_ne_bytes());
        out.extend_from_slice(&[0; 12]);
        out.extend_from_slice(step_record::END);
        out
    };
    is_soon_done_with("bodies", &repeated(|at| if at < 100 { vec![0; 100] } else { tail(0, at + 64, 0) }));
    // A chain of 100,000 good records whose first follows nothing.
    let mut previous = 5;
    let mut file = vec![0; 64];
    while file.len() < BYTES {
        let start = file.len() as u64;
        file.extend_from_slice(&step_record::encode(&Default::default(), start, previous, 1, 1, Groups::Here));
        previous = file.len() as u64;
    }
    is_soon_done_with("chain", &file);
    // Many ends of one long chain, each with a body that does not check.
    let half = file.len() / 2;
    let root = step_record::encode(&Default::default(), 0, 0, 1, 1, Groups::Here);
    let mut file = root.clone();
    let mut previous = file.len() as u64;
    while file.len() < half {
        let start = file.len() as u64;
        file.extend_from_slice(&step_record::encode(&Default::default(), start, previous, 1, 1, Groups::Here));
        previous = file.len() as u64;
    }
    while file.len() < BYTES {
        let start = file.len() as u64;
        file.extend_from_slice(&[0; 24]);
        file.extend_from_slice(&tail(start, 88, previous));
    }
    is_soon_done_with("leaves", &file);
}

#[test]
fn trailers_that_each_name_all_bytes_before_them() {
    // The group starts with a header that reads well and ends nowhere.
    let mut front = Vec::new();
    header("g", 1).encode(&mut front);
    let head = front.len() as u64;
    let file = repeated(|at| {
        if at == 0 {
            front.repeat(50)
        } else {
            let mut out = Vec::new();
            let start = at % (head * 50) / head * head;
            Trailer {
                run: 1,
                group: Extent::new(start, at + trailer::length(0) - start),
                rank: 0,
                ranks: 1,
                time_index: 1,
                file_index: SINGLE_FILE,
                framing: 0,
                blocks: vec![],
            }
            .encode(&mut out);
            out
        }
    });
    is_soon_done_with("trailers", &file);
}

#[test]
fn process_groups_that_start_every_few_bytes_and_fail_at_their_end() {
    // Each header claims all bytes up to a trailer of its own; all share the many small records behind them.
    let mut records = Vec::new();
    let n = 100_000u32;
    for i in 0..n {
        let block = thalweg_bp::process_group::Block {
            id: i,
            name: "v",
            path: "",
            element: ElementType::I32,
            is_dimension: false,
            shape: None,
            level: Level::Off,
            statistics: None,
            transform: None,
            payload: 4,
        };
        block.encode(&mut records);
        records.extend_from_slice(&i.to_ne_bytes());
    }
    let mut one = Vec::new();
    header("g", 1).encode(&mut one);
    let heads = 20_000;
    let mut file = one.repeat(heads);
    let mut section = vec![0; SECTION_HEAD];
    thalweg_bp::process_group::put_section_head(&mut section, 0, n, (SECTION_HEAD + records.len()) as u64);
    file.extend_from_slice(&section);
    file.extend_from_slice(&records);
    file.extend_from_slice(&[0; SECTION_HEAD]);
    let attributes = file.len() - SECTION_HEAD;
    thalweg_bp::process_group::put_section_head(&mut file, attributes, 0, SECTION_HEAD as u64);
    // Trailers with right checksums, one for each start, whose groups end with them; the framing is wrong.
    for i in 0..heads {
        let start = (i * one.len()) as u64;
        let length = file.len() as u64 + trailer::length(0) - start;
        file[start as usize..start as usize + 8].copy_from_slice(&length.to_ne_bytes());
        Trailer {
            run: 1,
            group: Extent::new(start, length),
            rank: 0,
            ranks: 1,
            time_index: 1,
            file_index: SINGLE_FILE,
            framing: 0,
            blocks: vec![],
        }
        .encode(&mut file);
    }
    is_soon_done_with("nested groups", &file);
}

#[test]
fn partial_steps_by_the_hundred_thousand() {
    let mut records = Records::default();
    for i in 0..(BYTES / 16) as u32 {
        let list = records.list(extension::Tag::Partial);
        for number in [i, i, 1, 0] {
            list.extend_from_slice(&number.to_ne_bytes());
        }
    }
    let mut file = Vec::new();
    let (front, tail) = extension::encode(0, &records, &Default::default(), false, 84, 0);
    file.extend([front, tail].concat());
    file.extend_from_slice(&[0; 84]);
    is_soon_done_with("partial steps", &file);
}

#[test]
fn a_long_interrupted_output_full_of_false_ends_still_opens() {
    let mut file = small_file(false).bytes;
    let end = file.len() as u64;
    let torn = repeated(|_| b"ADIOS-BP v1 TWSTEPND TWEXTEND".to_vec());
    file.extend_from_slice(&torn);
    let begun = now();
    let live = Live::find(&file).unwrap();
    assert_eq!((live.end, live.torn), (end, torn.len() as u64));
    let took = now() - begun;
    assert!(took < allowed(), "it took {took:?}, more than {:?}", allowed());
}

#[test]
fn a_damaged_length_of_a_dead_record_hides_no_process_group() {
    let file = small_file(true);
    let whole = scan(&file.bytes, ByteOrder::NATIVE).unwrap();
    for dead in &whole.dead[..whole.dead.len() - 1] {
        for (at, bad) in [(16, 0u64), (16, dead.length + 700), (24, 0), (24, dead.length + 700), (0, 0)] {
            let mut bytes = file.bytes.clone();
            let at = dead.offset as usize + at;
            bytes[at..at + 8].copy_from_slice(&bad.to_ne_bytes());
            let seen = scan(&bytes, ByteOrder::NATIVE).unwrap();
            assert_eq!(seen.groups.len(), whole.groups.len(), "{dead:?}");
            assert_eq!(seen.torn.is_some(), whole.torn.is_some());
        }
    }
}

#[test]
fn groups_behind_a_hole_with_old_marks_in_it_are_found() {
    // A hole full of magics, and a group whose own payload holds them too.
    let mut file = Vec::new();
    append_group(&mut file, &small_group(0, 0));
    let marks = [&trailer::MAGIC[..], extension::MAGIC, step_record::MAGIC, step_record::END, b"ADIOS-BP v"].concat();
    file.extend_from_slice(&marks.repeat(70_000));
    let mut group = small_group(0, 1);
    group.blocks[1].bytes = marks.clone();
    append_group(&mut file, &group);
    append_group(&mut file, &small_group(1, 0));
    let seen: scan::Scan = scan(&file, ByteOrder::NATIVE).unwrap();
    assert_eq!(seen.groups.len(), 3);
    assert!(seen.torn.is_none());
}
