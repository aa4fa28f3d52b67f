//! The extension section, its records, the directory in it and where sums lie; and these joined to sets.
#![no_main]

use libfuzzer_sys::fuzz_target;
use std::convert::Infallible;
use thalweg_bp::extension::{Directory, Records, Tag, before, state_offset};
use thalweg_bp::scan::partial_steps;
use thalweg_bp::sums::{LENGTH, SplitPart, SumsLocations, join, split};
use thalweg_fuzz::{cursor, input};
use thalweg_types::ByteOrder;

fuzz_target!(|data: &[u8]| {
    let Some((order, bytes)) = input(data) else { return };
    if let Ok(directory) = Directory::decode(&mut cursor(&bytes, order))
        && order == ByteOrder::NATIVE
        && directory.entries.iter().all(|e| e.name.is_ascii())
    {
        let again = directory.encode();
        assert_eq!(Directory::decode(&mut cursor(&again, order)).unwrap(), directory);
    }
    if let Ok(records) = Records::decode(&mut cursor(&bytes, order)) {
        let mut twice = records.clone();
        twice.append(&records);
        partial_steps(records.get(Tag::Partial), order);
    }
    // Taken for places of sums, for sums, and for sets.
    let length = bytes.get(8..16).and_then(|_| cursor(&bytes[8..], order).u64("").ok()).unwrap_or(0);
    if let Ok(locations) = SumsLocations::decode(&mut cursor(&bytes, order), length) {
        assert_eq!(locations.length(), length);
        if order == ByteOrder::NATIVE {
            assert_eq!(locations.encode(), bytes);
        }
    }
    for cut in [0, LENGTH, bytes.len() / 2] {
        if let Some((sums, sets)) = bytes.split_at_checked(cut) {
            let _ = join(&mut cursor(sets, order), sums);
        }
    }
    if let Some(split) = split(&bytes) {
        let of = |part| {
            let mut bytes = Vec::new();
            split.put::<Infallible>(part, &mut bytes, &mut |_| Ok(())).unwrap();
            bytes
        };
        let (sets, sums) = (of(SplitPart::Sets), of(SplitPart::Sums));
        assert_eq!((sets.len() as u64, sums.len() as u64), (split.sets.length, split.sums.length));
        join(&mut cursor(&sets, ByteOrder::NATIVE), &sums).expect("what was split is joined");
    }
    for end in [bytes.len() as u64, 0, 48, u64::MAX] {
        let Ok(Some(section)) = before(&bytes, end, order) else { continue };
        assert_eq!(section.extent.end(), Some(end));
        assert!(state_offset(section.extent) < end);
        let _ = Directory::decode(&mut cursor(section.records.get(Tag::Directory), order));
        assert!(section.sums.is_none_or(|sums| sums.locations.length() == sums.extent.length));
    }
});
