//! A full store: accepted writes can be published, and names can be removed, renamed and changed.

use std::io::IoSlice;
use std::sync::Arc;
use thalweg_layout::small_file::Settings;
use thalweg_layout::{Change, Layout, OpenWrite, SmallFile, WriterId};
use thalweg_store::wrap::{Failing, Fault, StoreCall};
use thalweg_store::{Memory, Store};
use thalweg_types::{ErrorKind, Result};

fn process(store: &Arc<Failing>) -> SmallFile {
    SmallFile::new(store.clone() as Arc<dyn Store>, Settings::default()).unwrap()
}

fn put(layout: &dyn Layout, path: &str, bytes: &[u8]) -> Result<()> {
    let file = layout.open_write(path, OpenWrite::Any, WriterId(0))?;
    file.append(&[IoSlice::new(bytes)])?;
    file.close()
}

fn read(layout: &dyn Layout, path: &str) -> Vec<u8> {
    let file = layout.open_read(path).unwrap_or_else(|e| panic!("{path}: {e}"));
    let mut bytes = vec![0; file.length().unwrap() as usize];
    file.read_exact_at(0, &mut bytes).unwrap();
    bytes
}

fn missing(layout: &dyn Layout, path: &str) {
    assert_eq!(layout.stat(path).unwrap_err().kind(), ErrorKind::NotFound, "{path}");
}

#[test]
fn others_hear_of_a_file_also_where_the_store_has_no_room_to_ring_for_it() {
    let store = Arc::new(Failing::new(Arc::new(Memory::new())));
    let [first, reader, second] = [(); 3].map(|()| process(&store));
    put(&first, "first", b"1").unwrap();
    assert_eq!(read(&reader, "first"), b"1");
    missing(&reader, "second");
    // The bell is there, and the store writes elsewhere what it writes again.
    store.fail(Fault::of(StoreCall::Write).named("bell").with(ErrorKind::NoSpace));
    put(&second, "second", b"2").unwrap();
    assert_eq!(read(&reader, "second"), b"2");
}

#[test]
fn bytes_that_a_write_took_are_there_after_the_close_however_little_room_there_is() {
    let mut refused = 0;
    for room in (0..400_000).step_by(7001) {
        let store = Arc::new(Failing::new(Arc::new(Memory::new())));
        let layout = process(&store);
        put(&layout, "before", b"whole").unwrap();
        store.space(Some(room));
        // Many are open at once: each has its own share of the room.
        let mut taken: Vec<(String, Box<dyn thalweg_layout::WriteObject>, Vec<u8>)> = Vec::new();
        for number in 0..20 {
            let name = format!("file.{number}");
            match layout.open_write(&name, OpenWrite::Any, WriterId(0)) {
                Ok(file) => taken.push((name, file, Vec::new())),
                Err(e) => assert_eq!(e.kind(), ErrorKind::NoSpace, "{e}"),
            }
        }
        for run in 0..20u8 {
            for (name, file, bytes) in &mut taken {
                let more = [run; 1000];
                match file.write_at(bytes.len() as u64, &[IoSlice::new(&more)]) {
                    Ok(()) => bytes.extend(more),
                    Err(e) => {
                        assert_eq!(e.kind(), ErrorKind::NoSpace, "{name}: {e}");
                        refused += 1;
                    }
                }
            }
        }
        let mut meant = Vec::new();
        for (name, file, bytes) in taken {
            file.close()
                .unwrap_or_else(|e| panic!("{name} with {room} bytes of room: accepted, and refused at close: {e:?}"));
            meant.push((name, bytes));
        }
        drop(layout);
        let after = process(&store);
        for (name, bytes) in meant {
            assert!(read(&after, &name) == bytes, "{name} with {room} bytes of room");
        }
        assert_eq!(read(&after, "before"), b"whole");
    }
    assert!(refused > 100, "the store was never full");
}

#[test]
fn names_are_removed_renamed_and_changed_on_a_full_store_by_the_process_that_made_them_and_by_others() {
    let store = Arc::new(Failing::new(Arc::new(Memory::new())));
    let layout = process(&store);
    layout.make_folder("d").unwrap();
    for number in 0..200 {
        put(&layout, &format!("d/file.{number}"), &[3; 3000]).unwrap();
    }
    store.space(Some(0));
    for number in 0..50 {
        layout.remove(&format!("d/file.{number}")).unwrap_or_else(|e| panic!("file {number}: {e:?}"));
    }
    layout.rename("d/file.60", "d/renamed").unwrap();
    layout.set_attributes("d/file.61", &Change { mode: Some(0o640), ..Change::default() }).unwrap();
    assert_eq!(
        put(&layout, "d/new", &[1; 100_000]).unwrap_err().kind(),
        ErrorKind::NoSpace,
        "files leave the room to removals"
    );
    drop(layout);
    // As `rm` does, started once for each file: every one has no log yet, and there is no room for one.
    store.space(Some(0));
    for number in 100..110 {
        let another = process(&store);
        another.remove(&format!("d/file.{number}")).unwrap_or_else(|e| panic!("file {number}: {e:?}"));
        assert_eq!(put(&another, "d/new", &[1; 100_000]).unwrap_err().kind(), ErrorKind::NoSpace);
    }
    let another = process(&store);
    another.rename("d/file.111", "d/renamed too").unwrap();
    another.set_attributes("d/file.112", &Change { mode: Some(0o640), ..Change::default() }).unwrap();
    drop(another);
    let after = process(&store);
    for number in (0..50).chain(100..110).chain([60, 111]) {
        missing(&after, &format!("d/file.{number}"));
    }
    for number in (112..200).chain(62..100) {
        assert_eq!(read(&after, &format!("d/file.{number}")), [3; 3000], "file {number}");
    }
    assert_eq!((read(&after, "d/renamed"), read(&after, "d/renamed too")), (vec![3; 3000], vec![3; 3000]));
    missing(&after, "d/new");
    assert_eq!(after.attributes("d/file.112").unwrap().mode, 0o640);
    store.space(None);
    put(&after, "d/new", &[1; 100_000]).unwrap();
    assert_eq!(read(&process(&store), "d/new").len(), 100_000);
}
