//! Opening a file, with subfiles, and reading everything in it.
#![no_main]

use libfuzzer_sys::fuzz_target;
use thalweg_fuzz::{file, input, read_everything};
use thalweg_reader::Reader;

fuzz_target!(|data: &[u8]| {
    let Some((_, bytes)) = input(data) else { return };
    let (_store, layout) = file(&bytes);
    let Ok(reader) = Reader::open(layout.clone(), "f.bp") else { return };
    read_everything(&layout, &reader);
});
