//! The trailer of a process group: what decodes is encoded again as it was.
#![no_main]

use libfuzzer_sys::fuzz_target;
use thalweg_bp::trailer::{Trailer, length};
use thalweg_fuzz::input;
use thalweg_types::ByteOrder;

fuzz_target!(|data: &[u8]| {
    let Some((order, bytes)) = input(data) else { return };
    if let Some(last) = bytes.last_chunk::<8>() {
        Trailer::length_from_end(last, order);
    }
    let Ok(trailer) = Trailer::decode(&bytes, order, 0) else { return };
    assert_eq!(length(trailer.blocks.len()), bytes.len() as u64);
    if order == ByteOrder::NATIVE {
        let mut again = Vec::new();
        trailer.encode(&mut again);
        assert_eq!(again, bytes);
    }
});
