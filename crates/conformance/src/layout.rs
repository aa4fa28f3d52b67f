//! The promises of layouts: those of a store that writes at any offset, and that writers don't disturb each other.

use crate::store;
use std::io::IoSlice;
use thalweg_layout::{Layout, OpenWrite, ReadObject, Stat, WriteObject, WriterId};
use thalweg_store::{Capability, Rename, Store, Visible};
use thalweg_types::Result;

/// Checks every promise, in a folder `conformance`, which is removed at the end.
///
/// # Panics
/// At the first promise that is broken, naming it on standard error.
pub fn check(layout: &dyn Layout) {
    store::check(&AsStore(layout));
    writers_of_disjoint_extents_form_one_file(layout);
    a_second_open_by_the_same_writer_keeps_the_bytes(layout);
}

/// Each writer opens the file for itself, as ranks do: one makes it, the others find it there.
fn writers_of_disjoint_extents_form_one_file(layout: &dyn Layout) {
    const RUN: usize = 10_007;
    layout.open_write("shared", OpenWrite::Replace, WriterId(0)).unwrap();
    std::thread::scope(|scope| {
        for writer in 0..7u32 {
            scope.spawn(move || {
                let file = layout.open_write("shared", OpenWrite::Existing, WriterId(writer)).unwrap();
                for round in 0..5u32 {
                    let number = round * 7 + writer;
                    let bytes = vec![number as u8 + 1; RUN];
                    file.write_at(u64::from(number) * RUN as u64, &[IoSlice::new(&bytes)]).unwrap();
                }
            });
        }
    });
    let file = layout.open_read("shared").unwrap();
    let mut bytes = vec![0; file.length().unwrap() as usize];
    file.read_exact_at(0, &mut bytes).unwrap();
    assert_eq!(bytes.len(), 35 * RUN);
    for (number, run) in bytes.chunks(RUN).enumerate() {
        assert!(run.iter().all(|byte| *byte == number as u8 + 1), "run {number} is not what its writer wrote");
    }
    layout.remove("shared").unwrap();
}

fn a_second_open_by_the_same_writer_keeps_the_bytes(layout: &dyn Layout) {
    for (offset, bytes) in [(0, b"one"), (3, b"two")] {
        let file = layout.open_write("again", OpenWrite::Any, WriterId(4)).unwrap();
        thalweg_layout::write_all_at(&*file, offset, bytes).unwrap();
    }
    let mut bytes = [0; 6];
    layout.open_read("again").unwrap().read_exact_at(0, &mut bytes).unwrap();
    assert_eq!(&bytes, b"onetwo");
    layout.remove("again").unwrap();
}

/// A layout with the face of a store. Space that is given back is no promise of layouts.
struct AsStore<'a>(&'a dyn Layout);

impl Store for AsStore<'_> {
    fn describe(&self) -> String {
        self.0.describe()
    }

    fn capability(&self) -> Capability {
        Capability {
            write_at: true,
            append: true,
            truncate: true,
            rename: Rename::Atomic,
            visible: Visible::AtWrite,
            ..Capability::NONE
        }
    }

    fn open_write(&self, name: &str, how: OpenWrite) -> Result<Box<dyn WriteObject>> {
        self.0.open_write(name, how, WriterId(0))
    }

    fn open_read(&self, name: &str) -> Result<Box<dyn ReadObject>> {
        self.0.open_read(name)
    }

    fn stat(&self, name: &str) -> Result<Stat> {
        self.0.stat(name)
    }

    fn list(&self, folder: &str) -> Result<Vec<String>> {
        self.0.list(folder)
    }

    fn rename(&self, from: &str, to: &str) -> Result<()> {
        self.0.rename(from, to)
    }

    fn remove(&self, name: &str) -> Result<()> {
        self.0.remove(name)
    }

    fn make_folder(&self, name: &str) -> Result<()> {
        self.0.make_folder(name)
    }

    fn sync_folder(&self, folder: &str) -> Result<()> {
        self.0.sync_folder(folder)
    }
}
