//! What fuzzing has found: each file in `found/` broke a reader, `verify` or `recover` once, as its name says. Where a file
//! has subfiles, "\nsubfile" stands in front of each.

use std::sync::Arc;
use thalweg_layout::{Direct, Layout};
use thalweg_reader::{Reader, RecoverOptions, index_only, live_extents, recover, verify};
use thalweg_store::{Memory, Store, StoreExt};
use thalweg_types::Selection;

fn layout(bytes: &[u8]) -> Arc<dyn Layout> {
    let store = Memory::new();
    store.make_folder("f.bp.dir").unwrap();
    let mut parts = Vec::new();
    let mut rest = bytes;
    while let Some(at) = rest.windows(8).position(|w| w == b"\nsubfile") {
        parts.push(&rest[..at]);
        rest = &rest[at + 8..];
    }
    parts.push(rest);
    store.write_all("f.bp", parts[0]).unwrap();
    for (i, part) in parts[1..].iter().enumerate() {
        store.write_all(&format!("f.bp.dir/f.bp.{i}"), part).unwrap();
    }
    Arc::new(Direct::new(Arc::new(store)).unwrap())
}

fn read(layout: &Arc<dyn Layout>) {
    let _ = index_only(&**layout, "f.bp");
    let Ok(reader) = Reader::open(layout.clone(), "f.bp") else { return };
    for head in reader.attributes() {
        let _ = reader.attribute(&head.name);
    }
    for head in reader.variables() {
        let Ok(v) = reader.variable(&head.name) else { continue };
        let _ = reader.summary(&head.name, 0..u64::MAX);
        for step in v.steps {
            for selection in [Selection::All, Selection::Block(0)] {
                let _ = reader.read_to_vec(&head.name, step, &selection);
            }
        }
    }
}

#[test]
fn no_find_is_found_again() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/found");
    let mut finds: Vec<_> = std::fs::read_dir(folder).unwrap().map(|e| e.unwrap().path()).collect();
    finds.sort();
    assert!(!finds.is_empty());
    for find in finds {
        println!("{}", find.display());
        let bytes = std::fs::read(&find).unwrap();
        read(&layout(&bytes));
        let given = layout(&bytes);
        verify(&*given, "f.bp").expect("damage is a finding, not a failure");
        let _ = live_extents(&*given, "f.bp");
        for keep_partial in [false, true] {
            let given = layout(&bytes);
            let options = RecoverOptions { dry_run: false, keep_partial, ..RecoverOptions::default() };
            let Ok(done) = recover(&*given, "f.bp", options) else { continue };
            let reader = Reader::open(given.clone(), "f.bp").expect("what was recovered opens");
            assert_eq!(reader.status().steps, done.steps);
            assert!(!recover(&*given, "f.bp", options).unwrap().changed, "there is nothing left to recover");
            read(&given);
        }
    }
}
