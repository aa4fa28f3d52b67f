//! What fuzzing and reading have found: each file in `found/` broke a decoder once, as its name says.

mod decoders;

use decoders::DECODERS;
use rustix::time::{ClockId, clock_gettime};
use std::time::Duration;
use thalweg_types::ByteOrder;

fn now() -> Duration {
    let now = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(now.tv_sec as u64, now.tv_nsec as u32)
}

#[test]
fn no_find_is_found_again() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/found");
    let mut finds: Vec<_> = std::fs::read_dir(folder).unwrap().map(|e| e.unwrap().path()).collect();
    finds.sort();
    assert!(!finds.is_empty());
    for find in finds {
        let bytes = std::fs::read(&find).unwrap();
        for (name, decode) in DECODERS {
            for order in [ByteOrder::Little, ByteOrder::Big] {
                let begun = now();
                decode(&bytes, order);
                assert!(now() - begun < Duration::from_secs(2), "{}: {name} takes long", find.display());
            }
        }
    }
}
