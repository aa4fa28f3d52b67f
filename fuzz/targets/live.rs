//! The live end of a file: found and joined, or refused.
#![no_main]

use libfuzzer_sys::fuzz_target;
use thalweg_bp::live::Live;
use thalweg_fuzz::input;

fuzz_target!(|data: &[u8]| {
    let Some((_, bytes)) = input(data) else { return };
    let Ok(live) = Live::find(&bytes) else { return };
    assert_eq!(live.end + live.torn, bytes.len() as u64);
    let _ = (live.finished(), live.step_count());
    if let Some(base) = &live.base {
        let _ = base.check_bytes(&bytes);
        for entry in &base.entries {
            let _ = entry.for_each_set(&bytes, base.footer.order, |_| Ok(()));
        }
    }
    if let Ok(index) = live.load(&bytes) {
        let _ = (index.process_groups(), index.encode(0, false, true).unwrap().to_bytes());
    }
});
