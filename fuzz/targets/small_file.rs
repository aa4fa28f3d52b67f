//! Records and name logs of small files, stamps and notes of `flat`: refused, or read, written and read again to the same; and a folder
//! whose log and name log hold made-up bytes is listed, read, checked and compacted without harm.
#![no_main]

use libfuzzer_sys::fuzz_target;
use std::sync::Arc;
use thalweg_layout::small_file::{HIDDEN, Settings, SmallFile, record};
use thalweg_layout::{Layout, flat};
use thalweg_store::{Memory, Store, StoreExt};

const LOG: u64 = 7;

fuzz_target!(|data: &[u8]| {
    if let Ok(head) = record::Head::decode(data) {
        let mut again = Vec::new();
        head.put(&mut again);
        assert_eq!(record::Head::decode(&again).unwrap(), head);
    }
    let _ = (record::block(data), record::read_header(data, true), record::head(data, 0));
    if let Ok(stamp) = flat::Stamp::decode(data) {
        assert_eq!(flat::Stamp::decode(&stamp.encode()).unwrap(), stamp);
    }
    if let Ok(note) = flat::Note::decode(data) {
        assert_eq!(flat::Note::decode(&note.encode()).unwrap(), note);
    }
    // The first byte says how many of the others are the head of a record; what follows is its file, then bytes as they are.
    let Some((length, rest)) = data.split_first() else { return };
    let (head, rest) = rest.split_at(rest.len().min(usize::from(*length)));
    let mut log = record::header(LOG, false);
    if let Ok(head) = record::Head::decode(head) {
        let file = usize::try_from(head.data_length()).unwrap_or(usize::MAX).min(rest.len());
        record::put(&mut log, &head, &rest[..file]);
    }
    log.extend_from_slice(rest);
    let mut names = record::header(LOG, true);
    names.extend(record::put_block(record::HEADER, rest.len() as u64 + record::HEADER, &[(30, head.to_vec())]));
    let store = Memory::new();
    store.make_folder(HIDDEN).unwrap();
    store.write_all(&format!("{HIDDEN}/data.{LOG:016x}"), &log).unwrap();
    if length % 2 == 1 {
        store.write_all(&format!("{HIDDEN}/names.{LOG:016x}"), &names).unwrap();
    }
    let Ok(layout) = SmallFile::new(Arc::new(store), Settings { small: 1 << 16, ..Settings::default() }) else {
        return;
    };
    for name in layout.list("").unwrap_or_default() {
        let mut out = [0; 64];
        let _ = layout.stat(&name);
        let _ = layout.open_read(&name).and_then(|file| file.read_at(0, &mut out));
    }
    let _ = layout.check("", true);
    let _ = layout.compact("");
});
