//! Control files, run files and rules: no bytes do harm, and what decodes is encoded again to the same.
#![no_main]

use libfuzzer_sys::fuzz_target;
use thalweg_control::{Record, Request, Rules};

fuzz_target!(|data: &[u8]| {
    if let Ok(request) = Request::parse(data) {
        assert_eq!(Request::parse(request.encode().as_bytes()).unwrap(), request);
    }
    if let Ok(text) = std::str::from_utf8(data) {
        let _ = Rules::parse(text);
    }
    if let Ok(Some(record)) = Record::parse(data) {
        assert_eq!(Record::parse(record.encode(1).as_bytes()).unwrap(), Some(record));
    }
});
