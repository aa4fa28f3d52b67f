//! A set of characteristics. The first byte chooses the type, the second byte order and whether it lies in a process group.
#![no_main]

use libfuzzer_sys::fuzz_target;
use thalweg_bp::characteristic::{bitmap_of, decode_set, next_set};
use thalweg_fuzz::cursor;
use thalweg_types::{ByteOrder, ElementType};

fuzz_target!(|data: &[u8]| {
    let [code, how, bytes @ ..] = data else { return };
    let order = if how & 1 == 0 { ByteOrder::Little } else { ByteOrder::Big };
    let mut c = cursor(bytes, order);
    while c.left() > 0 {
        let mut skipped = c.clone();
        let skips = next_set(&mut skipped).is_ok();
        let Ok(set) = decode_set(&mut c, ElementType::from_code(*code), how & 2 != 0) else { break };
        assert!(skips && skipped.position() == c.position());
        bitmap_of(&set);
        if let Some(shape) = &set.shape {
            assert!(shape.local.len() == shape.global.len() && shape.local.len() == shape.offset.len());
            let _ = (shape.elements(), shape.is_global(), shape.as_box().elements());
        }
        if let Some(s) = &set.statistics {
            let _ = (s.mean(), s.standard_deviation());
        }
    }
});
