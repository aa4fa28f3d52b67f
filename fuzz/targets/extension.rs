//! The extension section, its records and the directory in it.
#![no_main]

use libfuzzer_sys::fuzz_target;
use thalweg_bp::extension::{Directory, Records, Tag, before, state_offset};
use thalweg_bp::scan::partial_steps;
use thalweg_fuzz::{cursor, input};
use thalweg_types::ByteOrder;

fuzz_target!(|data: &[u8]| {
    let Some((order, bytes)) = input(data) else { return };
    if let Ok(directory) = Directory::decode(&mut cursor(&bytes, order)) {
        if order == ByteOrder::NATIVE && directory.entries.iter().all(|e| e.name.is_ascii()) {
            let again = directory.encode();
            assert_eq!(Directory::decode(&mut cursor(&again, order)).unwrap(), directory);
        }
    }
    if let Ok(records) = Records::decode(&mut cursor(&bytes, order)) {
        let mut twice = records.clone();
        twice.append(&records);
        partial_steps(records.get(Tag::Partial), order);
    }
    for end in [bytes.len() as u64, 0, 48, u64::MAX] {
        let Ok(Some(section)) = before(&bytes, end, order) else { continue };
        assert_eq!(section.extent.end(), Some(end));
        assert!(state_offset(section.extent) < end);
        let _ = Directory::decode(&mut cursor(section.records.get(Tag::Directory), order));
    }
});
