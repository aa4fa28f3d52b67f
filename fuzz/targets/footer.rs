//! Tag and minifooter: what decodes names offsets that rise inside the file, and is encoded again as it was.
#![no_main]

use libfuzzer_sys::fuzz_target;
use thalweg_bp::footer::{FOOTER, Footer, MINIFOOTER};
use thalweg_types::ByteOrder;

fuzz_target!(|data: &[u8]| {
    let Some(tail) = data.last_chunk::<{ MINIFOOTER as usize }>() else { return };
    for end in [data.len() as u64, FOOTER - 1, u64::MAX, 1 << 40] {
        let Ok(footer) = Footer::decode(tail, end) else { continue };
        assert!(footer.process_groups < footer.variables && footer.variables < footer.attributes);
        assert!(footer.attributes < end);
        if footer.order == ByteOrder::NATIVE {
            let mut again = Vec::new();
            footer.encode(&mut again);
            assert_eq!(Footer::decode(again.last_chunk().unwrap(), end).unwrap(), footer);
        }
    }
});
