//! Step records give the entries of their output, whether they contain them or refer to the process groups.

mod common;

use common::{Data, Group, append_group, block, header, small_file, small_group};
use proptest::prelude::*;
use thalweg_bp::characteristic::{Location, SINGLE_FILE};
use thalweg_bp::extension::Tag;
use thalweg_bp::index::Index;
use thalweg_bp::live::Live;
use thalweg_bp::pass;
use thalweg_bp::process_group::{Applied, Block, SECTION_HEAD, put_section_head};
use thalweg_bp::scan::{partial_steps, scan};
use thalweg_bp::shape::Shape;
use thalweg_bp::statistics::Level;
use thalweg_bp::step_record::{self, Groups};
use thalweg_bp::wire::patch_u64;
use thalweg_types::checksum::crc32c;
use thalweg_types::{ByteOrder, ElementType, ErrorKind};

const VERSION: usize = 8;
const TAIL_CRC: usize = 36;

/// An output behind some other bytes, and its record.
struct Output {
    bytes: Vec<u8>,
    step: Index,
    previous: u64,
    start: u64,
}

impl Output {
    fn of(groups: &[Group], before: usize) -> Output {
        let mut bytes = vec![0xee; before];
        let mut step = Index::default();
        for group in groups {
            let fragment = append_group(&mut bytes, group).to_fragment();
            step.append_fragment(&fragment).unwrap();
        }
        let start = bytes.len() as u64;
        Output { bytes, step, previous: before as u64, start }
    }

    fn record(&self, groups: Groups) -> Vec<u8> {
        step_record::encode(&self.step, self.start, self.previous, 7, 1, groups)
    }

    /// The sections that a reader gets from the output and this record.
    fn read(&self, record: &[u8]) -> thalweg_types::Result<Vec<u8>> {
        let file = [self.bytes.as_slice(), record].concat();
        let found = step_record::before(&file, file.len() as u64, ByteOrder::NATIVE)?.expect("a record is at the end");
        step_record::body(&file, &found, ByteOrder::NATIVE)
    }
}

fn version(record: &[u8]) -> u32 {
    u32::from_ne_bytes(record[VERSION..VERSION + 4].try_into().unwrap())
}

/// Sets the checksums of a record that was changed.
fn checked(mut record: Vec<u8>) -> Vec<u8> {
    let tail = record.len() - step_record::TAIL as usize;
    let crc = crc32c(&record[..tail]);
    record[tail + TAIL_CRC..tail + TAIL_CRC + 4].copy_from_slice(&crc.to_ne_bytes());
    let own = crc32c(&record[tail..tail + 40]);
    record[tail + 40..tail + 44].copy_from_slice(&own.to_ne_bytes());
    record
}

/// Small blocks of every type, at every statistics level, scalars and strings; one variable twice.
fn every_kind(rank: u32) -> Group {
    let mut blocks = Vec::new();
    let mut add = |name: String, element, shape, level, bytes| {
        blocks.push(Data { id: blocks.len() as u32, name, path: "/p".into(), element, shape, level, bytes });
    };
    for element in ElementType::ALL.into_iter().filter(|t| t.size() > 0) {
        let size = element.size() as usize;
        let bytes = |n: usize| (0..n * size).map(|i| (i * 37 + rank as usize) as u8).collect::<Vec<u8>>();
        if element != ElementType::Char {
            add(format!("scalar {element}"), element, None, Level::Full, bytes(1));
        }
        for level in Level::ALL {
            let shape = Shape::global([1, 3], [4, 3], [u64::from(rank), 0]);
            add(format!("{element} {level:?}"), element, Some(shape), level, bytes(3));
        }
        add(format!("empty {element}"), element, Some(Shape::local([0])), Level::Full, Vec::new());
    }
    add("text".into(), ElementType::String, None, Level::Off, b"a few words".to_vec());
    add("no text".into(), ElementType::String, None, Level::Off, Vec::new());
    for n in 0..2 {
        add(
            "twice".into(),
            ElementType::F64,
            Some(Shape::local([1])),
            Level::Full,
            f64::from(n).to_ne_bytes().to_vec(),
        );
    }
    Group { header: header("every kind", 3), rank, ranks: 2, run: 7, blocks, attributes: Vec::new() }
}

#[test]
fn entries_of_every_kind_are_made_again_from_small_groups() {
    for before in [0, 1, 500] {
        let output = Output::of(&[every_kind(0), every_kind(1)], before);
        let (short, whole) = (output.record(Groups::Here), output.record(Groups::Elsewhere));
        assert_eq!((version(&short), version(&whole)), (2, 1));
        assert!(short.len() * 5 < whole.len(), "{} of {}", short.len(), whole.len());
        let entries = output.step.to_fragment();
        assert_eq!(output.read(&whole).unwrap(), entries);
        assert_eq!(output.read(&short).unwrap(), entries);
    }
}

#[test]
fn a_transformed_block_is_made_again_from_its_group() {
    let values = [1.5f64, -2.0, 0.25].iter().flat_map(|v| v.to_ne_bytes()).collect::<Vec<u8>>();
    let statistics = pass::look(&values, ElementType::F64, Level::Full).statistics;
    let shape = Shape::global([3], [3], [0]);
    let block = Block {
        id: 4,
        name: "packed",
        path: "",
        element: ElementType::F64,
        is_dimension: false,
        shape: Some(&shape),
        level: Level::Full,
        statistics: statistics.as_ref(),
        transform: Some(Applied { uid: "zlib", metadata: &[1, 2, 3] }),
        payload: 5,
    };
    let header = header("packed", 1);
    let mut bytes = Vec::new();
    header.encode(&mut bytes);
    let section = bytes.len();
    bytes.extend_from_slice(&[0; SECTION_HEAD]);
    let record_offset = bytes.len() as u64;
    block.encode(&mut bytes);
    let at = Location { record_offset, payload_offset: bytes.len() as u64, file_index: SINGLE_FILE, time_index: 1 };
    bytes.extend_from_slice(&[9; 5]);
    let length = (bytes.len() - section) as u64;
    put_section_head(&mut bytes, section, 1, length);
    let length = bytes.len() as u64;
    patch_u64(&mut bytes, 0, length);
    let mut step = Index::default();
    step.add_process_group(&header, 0, 0);
    step.add_block("packed", &block, at, None).unwrap();
    let output = Output { start: bytes.len() as u64, bytes, step, previous: 0 };
    let record = output.record(Groups::Here);
    assert_eq!(version(&record), 2);
    assert_eq!(output.read(&record).unwrap(), output.step.to_fragment());
}

#[test]
fn a_record_contains_the_entries_of_groups_that_are_large_or_elsewhere() {
    let mut large = small_group(1, 0);
    large.blocks[2].shape = Some(Shape::local([4096]));
    large.blocks[2].bytes = vec![0; 4096 * 8];
    let output = Output::of(&[large], 10);
    assert_eq!(version(&output.record(Groups::Here)), 1, "the values are more than the entries");
    let mut output = Output::of(&[small_group(1, 0)], 10);
    assert_eq!(version(&output.record(Groups::Here)), 2);
    output.previous = 11;
    assert_eq!(version(&output.record(Groups::Here)), 1, "the group is not behind the record before");
}

#[test]
fn a_damaged_group_never_gives_other_entries() {
    let output = Output::of(&[small_group(1, 0), small_group(1, 1)], 8);
    let record = output.record(Groups::Here);
    let entries = output.step.to_fragment();
    let mut noticed = 0;
    for at in output.previous as usize..output.bytes.len() {
        let mut bytes = output.bytes.clone();
        bytes[at] ^= 0x11;
        let damaged = Output { bytes, step: output.step.clone(), ..output };
        match damaged.read(&record) {
            Ok(read) => assert_eq!(read, entries, "byte {at}"),
            Err(e) => {
                assert!(matches!(e.kind(), ErrorKind::Corrupt | ErrorKind::Torn | ErrorKind::InvalidArgument), "{e}");
                noticed += 1;
            }
        }
    }
    assert!(noticed > 400, "{noticed}");
}

#[test]
fn a_damaged_group_costs_its_own_part_of_the_step_and_no_other_one() {
    let mut file = small_file(false);
    let cut = Live::find(&file.bytes).unwrap().base.unwrap().extension.unwrap().extent.offset;
    file.bytes.truncate(cut as usize);
    let whole = Live::find(&file.bytes).unwrap();
    let groups = scan(&file.bytes, ByteOrder::NATIVE).unwrap().groups;
    let (mut partial, mut values) = (0, 0);
    for group in groups.iter().filter(|g| g.header.time_index == 2) {
        let rank = group.trailer.as_ref().unwrap().rank;
        for at in group.extent.offset..group.extent.end().unwrap() {
            let mut bytes = file.bytes.clone();
            bytes[at as usize] ^= 0x11;
            let live = Live::find(&bytes).unwrap();
            assert_eq!((live.end, live.step_count(), live.step_records.len()), (whole.end, 3, 2), "byte {at}");
            let missing = partial_steps(live.steps.records.get(Tag::Partial), ByteOrder::NATIVE);
            if missing.is_empty() {
                // A value of an array, or the trailer: not in the index.
                assert_eq!(live.steps.to_fragment(), whole.steps.to_fragment(), "byte {at}");
                values += 1;
                continue;
            }
            assert_eq!(missing, [(2, rank, u32::from(ErrorKind::Corrupt.code()))], "byte {at}");
            for entry in whole.steps.variables.entries() {
                let left = live.steps.variables.find(&entry.path, &entry.name).unwrap().count;
                assert_eq!(left, entry.count - 1, "byte {at}: {}", entry.name);
            }
            partial += 1;
        }
    }
    assert!(partial > 300 && values > 300, "{partial}, {values}");
}

#[test]
fn a_record_that_refers_to_other_groups_is_refused() {
    let output = Output::of(&[small_group(1, 0)], 100);
    let record = output.record(Groups::Here);
    // The offset ends the only entry of the process group index.
    let section = 24 + 32;
    let length = u64::from_ne_bytes(record[24..32].try_into().unwrap()) as usize;
    let place = section + length - 8;
    assert_eq!(record[place..place + 8], 100u64.to_ne_bytes());
    for offset in [0, 99, 101, output.start, output.start + 1, u64::MAX] {
        let mut other = record.clone();
        other[place..place + 8].copy_from_slice(&offset.to_ne_bytes());
        let e = output.read(&checked(other)).unwrap_err();
        assert!(matches!(e.kind(), ErrorKind::Corrupt | ErrorKind::Torn), "{offset}: {e}");
    }
    let mut other = record.clone();
    other[VERSION] = 3;
    let e = output.read(&checked(other)).unwrap_err();
    assert_eq!(e.kind(), ErrorKind::Unsupported);
    assert!(e.to_string().contains("version 3"), "{e}");
}

#[test]
fn a_record_that_lists_a_group_twice_is_refused() {
    let mut output = Output::of(&[small_group(1, 0), small_group(1, 1)], 8);
    let groups = output.step.process_groups().unwrap();
    output.step.add_process_group(&header("heat", 2), 2, groups[0].offset);
    let e = output.read(&output.record(Groups::Here)).unwrap_err();
    assert_eq!(e.kind(), ErrorKind::Corrupt);
    assert!(e.to_string().contains("overlap"), "{e}");
}

#[test]
fn an_open_joins_the_steps_of_short_records() {
    let mut file = small_file(false);
    // As a writer leaves it that was killed: without the index of the last step.
    file.bytes.truncate(Live::find(&file.bytes).unwrap().base.unwrap().extension.unwrap().extent.offset as usize);
    let live = Live::find(&file.bytes).unwrap();
    assert_eq!((live.step_records.len(), live.step_count()), (2, 3));
    assert!(live.step_records.iter().all(|record| version(&file.bytes[record.extent.offset as usize..]) == 2));
    assert!(live.torn > 0);
}

proptest! {
    #[test]
    fn short_records_of_any_groups_give_their_entries(
        blocks in prop::collection::vec(prop::collection::vec(block(), 0..5), 1..4),
        before in 0usize..100,
    ) {
        let mut names = std::collections::HashMap::new();
        let groups: Vec<Group> = blocks.into_iter().enumerate().map(|(rank, mut blocks)| {
            blocks.retain(|b| *names.entry((b.path.clone(), b.name.clone())).or_insert(b.element) == b.element);
            Group { header: header("g", 2), rank: rank as u32, ranks: 3, run: 7, blocks, attributes: Vec::new() }
        }).collect();
        let output = Output::of(&groups, before);
        let record = output.record(Groups::Here);
        prop_assert_eq!(output.read(&record).unwrap(), output.step.to_fragment());
    }
}
