//! A set of characteristics. The first byte chooses the type, the second byte order and whether it lies in a process group.
#![no_main]

use libfuzzer_sys::fuzz_target;
use thalweg_bp::characteristic::{bitmap_of, decode_set, next_set, skim_set};
use thalweg_fuzz::cursor;
use thalweg_types::{ByteOrder, ElementType};

fuzz_target!(|data: &[u8]| {
    let [code, how, bytes @ ..] = data else { return };
    let order = if how & 1 == 0 { ByteOrder::Little } else { ByteOrder::Big };
    let mut c = cursor(bytes, order);
    while c.left() > 0 {
        let mut skipped = c.clone();
        let skips = next_set(&mut skipped).is_ok();
        if how & 2 == 0 {
            let (mut skimming, mut decoding) = (c.clone(), c.clone());
            let element = ElementType::from_code(*code);
            let skimmed = skim_set(&mut skimming, element);
            if let (Ok(Some(skimmed)), Ok(set)) = (skimmed, decode_set(&mut decoding, element, false)) {
                assert_eq!((skimming.position(), skimmed.time_index), (decoding.position(), set.time_index));
                assert_eq!(skimmed.dimensions.map(|d| d.left()), set.shape.map(|s| 24 * s.rank()));
            }
        }
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
