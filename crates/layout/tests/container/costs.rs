//! What opening, writing, syncing and closing ask of the store.

use super::{open, over, write};
use std::sync::Arc;
use thalweg_layout::{Layout, OpenWrite};
use thalweg_store::wrap::Counting;
use thalweg_store::{Memory, Store};

#[test]
fn marks_are_listed_once_by_each_open_first_write_and_sync() {
    let counting = Arc::new(Counting::new(Arc::new(Memory::new())));
    let store: Arc<dyn Store> = counting.clone();
    let lists = || counting.take().total().lists;
    // What a process does once: it lists nothing of the file.
    over(&store).make_folder("d").unwrap();
    lists();
    let maker = over(&store);
    let file = open(&maker, "d/file", OpenWrite::Any, 0);
    write(&*file, 0, b"bytes");
    assert_eq!(file.length().unwrap(), 5);
    assert_eq!(lists(), 1, "making and writing");
    file.sync().unwrap();
    assert_eq!(lists(), 1, "a sync");
    file.close().unwrap();
    assert_eq!(lists(), 0, "a close");
    for writer in 1..10 {
        let layout = over(&store);
        let file = open(&layout, "d/file", OpenWrite::Any, writer);
        assert_eq!(lists(), 1, "an open of what is there");
        write(&*file, u64::from(writer) * 5, b"bytes");
        file.append(&[std::io::IoSlice::new(b"more")]).unwrap();
        assert_eq!(lists(), 1, "the first write: it comes after what others did since the open");
        write(&*file, u64::from(writer) * 5, b"bytes");
        file.close().unwrap();
        assert_eq!(lists(), 0, "writing on, closing");
    }
    let reader = over(&store).open_read("d/file").unwrap();
    let mut bytes = [0; 10];
    reader.read_exact_at(0, &mut bytes).unwrap();
    assert_eq!((&bytes, lists()), (b"bytesbytes", 1));
}
