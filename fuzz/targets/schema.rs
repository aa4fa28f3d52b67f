//! XML documents: a schema or a report, and the report prints.
#![no_main]

use libfuzzer_sys::fuzz_target;
use thalweg_schema::parse_bytes;

fuzz_target!(|data: &[u8]| {
    match parse_bytes(data, "fuzz.xml") {
        Ok(_schema) => {}
        Err(report) => {
            assert!(report.errors() > 0);
            let _ = report.to_string();
        }
    }
});
