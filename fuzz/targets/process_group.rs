//! A process group: found whole or refused; what is found whole can be indexed again and its payloads compared.
#![no_main]

use libfuzzer_sys::fuzz_target;
use thalweg_bp::process_group::{AttributeRecord, Header, VariableRecord};
use thalweg_bp::scan::{damaged_payloads, group_at};
use thalweg_fuzz::{cursor, input};

fuzz_target!(|data: &[u8]| {
    let Some((order, bytes)) = input(data) else { return };
    let _ = (Header::decode(&mut cursor(&bytes, order)), AttributeRecord::decode(&mut cursor(&bytes, order)));
    if let Ok(record) = VariableRecord::decode(&mut cursor(&bytes, order)) {
        assert_eq!(record.payload.end(), Some(record.length));
    }
    let Ok(found) = group_at(&bytes, 0, order) else { return };
    assert!(found.extent.end().unwrap() <= bytes.len() as u64);
    let _ = damaged_payloads(&bytes, &found);
    if let Ok(index) = found.fragment(&bytes, 3, 5, order) {
        assert_eq!(index.process_group_count(), 1);
        assert!(index.sets() as usize <= 1 + found.variables.len() + found.attributes.len());
    }
});
