//! Verifying: what it finds nothing in, and has checksums, reads without a word of damage.
#![no_main]

use libfuzzer_sys::fuzz_target;
use thalweg_fuzz::{file, input, read_everything};
use thalweg_reader::{Reader, live_extents, verify};
use thalweg_types::ErrorKind;

fuzz_target!(|data: &[u8]| {
    let Some((_, bytes)) = input(data) else { return };
    let (_store, layout) = file(&bytes);
    let report = match verify(&*layout, "f.bp") {
        Ok(report) => report,
        // Of a later version, with the checksum that belongs to it.
        Err(e) if e.kind() == ErrorKind::Unsupported => return,
        Err(e) => panic!("{e}"),
    };
    for (_, extents) in live_extents(&*layout, "f.bp").unwrap_or_default() {
        assert!(extents.windows(2).all(|w| w[0].end().unwrap() <= w[1].offset));
    }
    if report.findings.is_empty() && report.not_checked.is_empty() {
        let reader = Reader::open(layout.clone(), "f.bp").expect("a file without findings opens");
        if let Some(e) = read_everything(&layout, &reader) {
            panic!("nothing was found, but: {e}");
        }
    }
});
