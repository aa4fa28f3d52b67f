//! A step record that ends where the bytes end: refused, or joined to an index that can be packed and read again.
#![no_main]

use libfuzzer_sys::fuzz_target;
use thalweg_bp::index::Index;
use thalweg_bp::step_record::{append, before};
use thalweg_fuzz::input;

fuzz_target!(|data: &[u8]| {
    let Some((order, bytes)) = input(data) else { return };
    let Ok(Some(record)) = before(&bytes, bytes.len() as u64, order) else { return };
    assert!(record.previous <= record.extent.offset);
    let mut index = Index::default();
    if append(&bytes, &record, order, &mut index).is_ok() {
        let packed = index.to_fragment();
        let mut again = Index::default();
        again.append_fragment(&packed).unwrap();
        assert_eq!(again.to_fragment(), packed);
    }
});
