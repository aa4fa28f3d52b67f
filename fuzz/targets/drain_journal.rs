//! A burst buffer's journal: refused, or read as far as it is whole, and what was read is written as it was.
#![no_main]

use libfuzzer_sys::fuzz_target;
use thalweg_store::wrap::tiered::journal::{HEADER, Record, header, read};
use thalweg_types::checksum::crc32c;

fuzz_target!(|data: &[u8]| {
    // A first byte of 1 puts a header in front and sets the checksum of the first record right.
    let Some((how, rest)) = data.split_first() else { return };
    let mut bytes = if how & 1 == 1 { header().to_vec() } else { Vec::new() };
    bytes.extend_from_slice(rest);
    if how & 1 == 1 && rest.len() > 8 {
        let length = u32::from_le_bytes([rest[0], rest[1], rest[2], rest[3]]) as usize;
        let body = &rest[8..rest.len().min(length.saturating_add(8))];
        let checksum = crc32c(body).to_le_bytes();
        bytes[HEADER + 4..HEADER + 8].copy_from_slice(&checksum);
    }
    let Ok(journal) = read(&bytes) else { return };
    assert!(journal.whole <= bytes.len() as u64);
    assert!(journal.unfinished().len() <= journal.records.len());
    let _ = journal.totals();
    let whole = journal.whole as usize;
    let mut again = if whole > 0 { header().to_vec() } else { Vec::new() };
    for record in &journal.records {
        again.extend(Record::encode(record).unwrap());
    }
    assert_eq!(again, bytes[..whole]);
});
