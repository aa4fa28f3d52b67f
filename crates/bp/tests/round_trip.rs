//! Whatever is encoded is decoded again as it was.

mod common;

use common::*;
use proptest::prelude::*;
use thalweg_bp::characteristic::{self, Location, SINGLE_FILE};
use thalweg_bp::extension::{Directory, DirectoryEntry, Records};
use thalweg_bp::index::Index;
use thalweg_bp::live::{self, Live};
use thalweg_bp::pass;
use thalweg_bp::scan::{self, scan};
use thalweg_bp::statistics::Level;
use thalweg_bp::step_record::Groups;
use thalweg_bp::wire::Cursor;
use thalweg_types::{AttributeValue, ByteOrder, ElementType, Extent, Value};

fn check_found(file: &[u8], group: &Group, found: &scan::Found) -> Result<(), TestCaseError> {
    prop_assert_eq!(&found.header, &group.header);
    let trailer = found.trailer.as_ref().expect("a trailer");
    prop_assert_eq!((trailer.rank, trailer.ranks, trailer.run), (group.rank, group.ranks, group.run));
    prop_assert_eq!(found.variables.len(), group.blocks.len());
    for ((at, record), data) in found.variables.iter().zip(&group.blocks) {
        prop_assert_eq!((record.id, &record.name, &record.path), (data.id, &data.name, &data.path));
        prop_assert_eq!((record.element, &record.set.shape), (data.element, &data.shape));
        let payload = (at + record.payload.offset) as usize;
        prop_assert_eq!(&file[payload..payload + record.payload.length as usize], data.bytes.as_slice());
    }
    prop_assert_eq!(found.attributes.len(), group.attributes.len());
    for ((_, record), a) in found.attributes.iter().zip(&group.attributes) {
        prop_assert_eq!((record.id, &record.name, &record.path), (a.id, &a.name, &a.path));
        prop_assert_eq!(as_bytes(&record.value), as_bytes(&a.value));
    }
    Ok(())
}

/// All sets of an index entry.
fn sets(entry: &thalweg_bp::index::Entry) -> Vec<characteristic::Characteristics> {
    let mut all = Vec::new();
    live::for_each_set(&mut Cursor::new(&entry.sets, ByteOrder::NATIVE, 0), entry.code, entry.count, |s| {
        all.push(s);
        Ok(())
    })
    .unwrap();
    all
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn process_groups_of_anything_are_found_again_as_they_were_written(
        groups in (1u32..5).prop_flat_map(|n| (0..n).map(|r| group(1, r, n)).collect::<Vec<_>>())
    ) {
        let mut file = Vec::new();
        let fragments: Vec<Index> = groups.iter().map(|g| append_group(&mut file, g)).collect();
        let seen = scan(&file, ByteOrder::NATIVE).unwrap();
        prop_assert!(seen.torn.is_none() && seen.dead.is_empty());
        prop_assert_eq!(seen.groups.len(), groups.len());
        for ((group, found), fragment) in groups.iter().zip(&seen.groups).zip(&fragments) {
            check_found(&file, group, found)?;
            prop_assert!(scan::damaged_payloads(&file, found).unwrap().is_empty());
            // The index that a scan rebuilds is the writer's, byte for byte.
            let again = found.fragment(&file, SINGLE_FILE, 99, ByteOrder::NATIVE).unwrap();
            // But a process group does not say that nothing was wanted to be known about complex numbers.
            if group.blocks.iter().any(|b| b.element.is_complex() && b.shape.is_some() && b.level != Level::Full) {
                prop_assert_eq!(again.variables.entries(), fragment.variables.entries());
                continue;
            }
            prop_assert_eq!(again.to_fragment(), fragment.to_fragment());
        }
    }

    #[test]
    fn indexes_merged_from_fragments_are_found_at_the_end_of_the_file(
        steps in prop::collection::vec((group(0, 0, 2), group(0, 1, 2), any::<bool>()), 1..6), finished: bool
    ) {
        let mut file = File::default();
        let last = steps.len() - 1;
        for (i, (mut one, mut two, full)) in steps.into_iter().enumerate() {
            // A file holds a name once, with one type and in one group.
            for (rank, g) in [&mut one, &mut two].into_iter().enumerate() {
                g.header.time_index = i as u32 + 1;
                g.blocks.iter_mut().for_each(|b| b.path = format!("/{i}/{rank}"));
                g.attributes.iter_mut().for_each(|a| a.path = format!("/{i}/{rank}"));
                file.add(g);
            }
            if full || i == 0 || (i == last && finished) { file.full_index(i == last && finished) } else { file.step_record(Groups::Here) }
        }
        let live = Live::find(&file.bytes).unwrap();
        prop_assert_eq!((live.end, live.torn), (file.bytes.len() as u64, 0));
        prop_assert_eq!(live.finished(), finished);
        prop_assert_eq!(live.step_count() as usize, last + 1);
        let loaded = live.load(&file.bytes).unwrap();
        prop_assert_eq!(loaded.to_fragment(), file.index.to_fragment());
        prop_assert_eq!(loaded.sets(), file.index.sets());
        prop_assert_eq!(loaded.length(), file.index.length());
        // Cut off anywhere behind the first index: the last good end before the cut is found.
        let seen = scan(&file.bytes, ByteOrder::NATIVE).unwrap();
        prop_assert!(seen.torn.is_none());
        prop_assert_eq!(seen.groups.len(), 2 * (last + 1));
        let ends: Vec<u64> = seen.dead.iter().map(|d| d.end().unwrap()).collect();
        for cut in [file.bytes.len() - 1, file.bytes.len() - 60, (ends[0] as usize + file.bytes.len()) / 2] {
            if (cut as u64) < ends[0] { continue }
            let live = Live::find(&file.bytes[..cut]).unwrap();
            let expected = ends.iter().rev().find(|e| **e <= cut as u64).unwrap();
            prop_assert_eq!(live.end, *expected, "cut at {} of {:?}", cut, ends);
            prop_assert_eq!(live.torn, cut as u64 - expected);
        }
    }

    #[test]
    fn what_an_index_says_of_a_block_is_what_was_put_in(data in block()) {
        let mut file = Vec::new();
        let group = Group { header: header("g", 3), rank: 0, ranks: 1, run: 1, blocks: vec![data.clone()], attributes: vec![] };
        let index = append_group(&mut file, &group);
        let entry = &index.variables.entries()[0];
        let set = sets(entry).remove(0);
        prop_assert_eq!((entry.code, set.time_index, set.file_index), (data.element.code(), 3, SINGLE_FILE));
        prop_assert_eq!(&set.shape, &data.shape);
        let at = set.payload_offset as usize;
        prop_assert_eq!(&file[at..at + data.bytes.len()], data.bytes.as_slice());
        match data.value() {
            Some(value) => prop_assert_eq!(as_bytes(&set.value.unwrap()), as_bytes(&AttributeValue::One(value))),
            None if data.element.is_complex() => prop_assert!(set.statistics.is_none()),
            None => {
                let computed = pass::look(&data.bytes, data.element, data.level).statistics;
                let stored = set.statistics;
                prop_assert_eq!(stored.is_some(), data.level != Level::Off);
                if let (Some(s), Some(c)) = (stored, computed) {
                    prop_assert_eq!(as_bytes(&AttributeValue::One(s.min)), as_bytes(&AttributeValue::One(c.min)));
                    prop_assert_eq!(as_bytes(&AttributeValue::One(s.max)), as_bytes(&AttributeValue::One(c.max)));
                    if data.level.has_sums() {
                        prop_assert_eq!((s.finite, s.sum.to_bits()), (c.finite, c.sum.to_bits()));
                    }
                }
            }
        }
    }

    #[test]
    fn attributes_of_anything_survive_the_index(a in attribute()) {
        let mut out = Vec::new();
        let at = Location { record_offset: 1, payload_offset: 2, file_index: 3, time_index: 4 };
        characteristic::put_attribute_set(&mut out, at, &a.value);
        let code = thalweg_bp::process_group::attribute_code(&a.value);
        let mut c = Cursor::new(&out, ByteOrder::NATIVE, 0);
        let set = characteristic::decode_set(&mut c, ElementType::from_code(code), false).unwrap();
        prop_assert_eq!(c.left(), 0);
        prop_assert_eq!((set.record_offset, set.payload_offset, set.file_index, set.time_index), (1, 2, 3, 4));
        // An array of texts is told from its items by the type code of its entry.
        let expected = match &a.value {
            AttributeValue::Many(ElementType::String, v) => AttributeValue::Many(ElementType::StringArray, v.clone()),
            other => other.clone(),
        };
        let got = match set.value.unwrap() {
            AttributeValue::Many(ElementType::String, v) => AttributeValue::Many(ElementType::StringArray, v),
            other => other,
        };
        prop_assert_eq!(as_bytes(&got), as_bytes(&expected));
    }

    #[test]
    fn extension_records_and_directories_survive(
        records in prop::collection::btree_map(2u32..9, prop::collection::vec(any::<u8>(), 0..60), 0..5),
        entries in prop::collection::vec((any::<bool>(), any::<u8>(), any::<u32>(), any::<u64>(), name(), name()), 0..5),
        numbers in any::<(u32, u64, u32, u32)>(),
    ) {
        let records = Records(records.into_iter().filter(|(_, b)| !b.is_empty()).collect());
        let mut out = Vec::new();
        records.encode(&mut out);
        prop_assert_eq!(&Records::decode(&mut Cursor::new(&out, ByteOrder::NATIVE, 0)).unwrap(), &records);
        let directory = Directory {
            steps: numbers.0,
            process_groups: numbers.1,
            process_groups_crc: numbers.2,
            rest_crc: numbers.3,
            entries: entries
                .into_iter()
                .map(|(is_attribute, code, crc, n, group, name)| DirectoryEntry {
                    is_attribute, code, crc, extent: Extent::new(n, !n), sets: n / 3, id: crc ^ 1, path: format!("/{group}"), group, name,
                })
                .collect(),
        };
        let out = directory.encode();
        prop_assert_eq!(Directory::decode(&mut Cursor::new(&out, ByteOrder::NATIVE, 0)).unwrap(), directory);
    }
}

#[test]
fn a_type_that_changes_between_fragments_is_refused() {
    let mut index = Index::default();
    let mut file = Vec::new();
    let mut group = small_group(0, 0);
    index.append_fragment(&append_group(&mut file, &group).to_fragment()).unwrap();
    group.blocks[0].element = ElementType::F32;
    let e = index.append_fragment(&append_group(&mut file, &group).to_fragment()).unwrap_err();
    assert!(e.to_string().contains("nx"), "{e}");
}

#[test]
fn sums_that_no_double_holds_and_complex_statistics_survive_in_the_extension_section() {
    let file = small_file(true);
    let live = Live::find(&file.bytes).unwrap();
    let records = live.base.as_ref().unwrap().records().unwrap();
    let sums = records.get(thalweg_bp::extension::Tag::ExactSum);
    assert_eq!(sums.len(), 8 * 32, "one of each block of \"big\"");
    let sum = i128::from_ne_bytes(sums[7 * 32 + 16..].try_into().unwrap());
    assert_eq!(sum, 2 * i128::from(i64::MAX) - 1 + 3);
    assert_eq!(records.get(thalweg_bp::extension::Tag::ComplexStatistics).len(), 8 * 120);
    let value = Value::F64(35.5);
    let v = live.load(&file.bytes).unwrap();
    let last = sets(v.variables.find("/fields", "v").unwrap()).pop().unwrap();
    assert_eq!(last.statistics.unwrap().max, value);
}
