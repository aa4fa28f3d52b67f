//! The index as one rank sends it to another: refused, or joined; what is joined is encoded as a file that opens.
#![no_main]

use libfuzzer_sys::fuzz_target;
use thalweg_bp::index::{Index, process_groups};
use thalweg_bp::live::{Live, for_each_set};
use thalweg_fuzz::cursor;
use thalweg_types::ByteOrder;

fuzz_target!(|data: &[u8]| {
    let _ = (process_groups(&mut cursor(data, ByteOrder::NATIVE)), process_groups(&mut cursor(data, ByteOrder::Big)));
    let mut index = Index::default();
    if index.append_fragment(data).is_err() {
        return;
    }
    let _ = (index.sets(), index.last_time(), index.process_groups());
    for entry in index.variables.entries().iter().chain(index.attributes.entries()) {
        let _ = for_each_set(&mut cursor(&entry.sets, ByteOrder::NATIVE), entry.code, entry.count, |_| Ok(()));
    }
    let encoded = index.encode(0, false, true).unwrap();
    let bytes = encoded.to_bytes();
    assert_eq!(bytes.len() as u64, encoded.length);
    let live = Live::find(&bytes).unwrap();
    assert!(live.finished());
    assert_eq!(live.load(&bytes).unwrap().sets(), index.sets());
});
