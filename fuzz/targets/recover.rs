//! Recovering: what is recovered opens, its steps are as many as was said, and there is nothing left to recover.
#![no_main]

use libfuzzer_sys::fuzz_target;
use thalweg_fuzz::{file, input, read_everything};
use thalweg_reader::{Reader, RecoverOptions, recover};

fuzz_target!(|data: &[u8]| {
    let Some((_, bytes)) = input(data) else { return };
    let (_store, layout) = file(&bytes);
    let how =
        RecoverOptions { dry_run: false, keep_partial: data.len().is_multiple_of(2), ..RecoverOptions::default() };
    let before = Reader::open(layout.clone(), "f.bp").ok().map(|r| r.status().steps);
    let Ok(done) = recover(&*layout, "f.bp", how) else { return };
    let reader = Reader::open(layout.clone(), "f.bp").expect("what was recovered opens");
    assert_eq!(reader.status().steps, done.steps);
    if let Some(before) = before {
        assert!(done.steps >= before, "{before} steps before, {} after", done.steps);
    }
    assert_eq!(reader.status().step_records, 0);
    let again = recover(&*layout, "f.bp", how).expect("what was recovered is recovered again");
    assert!(!again.changed, "{:?}", again.actions);
    read_everything(&layout, &reader);
});
