//! What the command line reads: slices, numbers and predicates.
#![no_main]

use libfuzzer_sys::fuzz_target;
use thalweg_query::{number, predicate};

#[allow(dead_code)]
#[path = "../../crates/cli/src/slice.rs"]
mod slice;

fuzz_target!(|data: &[u8]| {
    let Ok(text) = std::str::from_utf8(data) else { return };
    if let Ok(slice) = slice::Slice::parse(text) {
        for pick in slice.picks {
            for extent in [0, 1, 5, u64::MAX] {
                if let Some(picked) = pick.of(extent) {
                    assert!(picked.start.checked_add(picked.count).unwrap() <= extent);
                }
            }
            let _ = pick.to_string();
        }
    }
    if let Some(number) = number::Number::parse(text) {
        assert!(number.compare(number).is_eq() || number.is_nan());
        let _ = number.to_string();
    }
    match predicate::parse::parse(text) {
        Ok(predicate) => drop(predicate.comparisons()),
        Err(mistake) => drop(mistake.to_string()),
    }
});
