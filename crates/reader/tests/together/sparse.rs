//! Files whose length is only a claim: behind their bytes lies a hole that nobody reads.

use crate::writer::{Ending, File, check_steps, groups};
use std::sync::Arc;
use std::time::{Duration, Instant};
use thalweg_conformance::scratch::Scratch;
use thalweg_layout::container::Options;
use thalweg_layout::{Container, Direct, Layout, OpenWrite, WriterId};
use thalweg_reader::{Reader, RecoverOptions, recover};
use thalweg_store::wrap::Counting;
use thalweg_store::{Memory, Posix};

/// A file of three closed steps.
fn three_steps() -> File {
    let mut file = File::default();
    for step in 0..3 {
        file.step(&groups(step, 2), if step == 0 { Ending::Full } else { Ending::Record });
    }
    file
}

#[test]
fn a_posix_file_of_a_tebibyte_opens_with_its_steps_after_few_reads() {
    let (scratch, file) = (Scratch::new(), three_steps());
    std::fs::write(scratch.join("x.bp"), &file.bytes).unwrap();
    let object = std::fs::OpenOptions::new().write(true).open(scratch.join("x.bp")).unwrap();
    object.set_len(1 << 40).unwrap();
    // A piece of an interrupted output in the middle of the hole.
    std::os::unix::fs::FileExt::write_all_at(&object, &file.bytes[..700], 1 << 39).unwrap();
    let store = Arc::new(Counting::new(Arc::new(Posix::at(scratch.path()).unwrap())));
    let layout: Arc<dyn Layout> = Arc::new(Direct::new(store.clone()).unwrap());
    let began = Instant::now();
    let reader = Reader::open(layout, "x.bp").unwrap();
    let read = store.counted().total().bytes_read;
    assert!(read < 16 << 20 && began.elapsed() < Duration::from_secs(300), "{read} bytes, {:?}", began.elapsed());
    check_steps(&reader, 3, 2);
}

#[test]
fn a_container_with_a_write_at_a_far_offset_opens_with_its_steps() {
    let (store, file) = (Arc::new(Memory::new()), three_steps());
    let layout = || -> Arc<dyn Layout> { Arc::new(Container::new(vec![store.clone()], Options::default()).unwrap()) };
    let object = layout().open_write("x.bp", OpenWrite::New, WriterId(0)).unwrap();
    thalweg_layout::write_all_at(&*object, 0, &file.bytes).unwrap();
    thalweg_layout::write_all_at(&*object, 1 << 56, &file.bytes[..700]).unwrap();
    object.close().unwrap();
    let began = Instant::now();
    let reader = Reader::open(layout(), "x.bp").unwrap();
    assert!(began.elapsed() < Duration::from_secs(300), "{:?}", began.elapsed());
    check_steps(&reader, 3, 2);
}

#[test]
fn a_posix_file_of_a_tebibyte_without_an_index_is_recovered_after_few_reads() {
    let (scratch, file) = (Scratch::new(), three_steps());
    // Without the end of its last index or step record.
    let whole = file.bytes.len() - 20;
    std::fs::write(scratch.join("x.bp"), &file.bytes[..whole]).unwrap();
    std::fs::OpenOptions::new().write(true).open(scratch.join("x.bp")).unwrap().set_len(1 << 40).unwrap();
    let store = Arc::new(Counting::new(Arc::new(Posix::at(scratch.path()).unwrap())));
    let layout: Arc<dyn Layout> = Arc::new(Direct::new(store.clone()).unwrap());
    let report = recover(&*layout, "x.bp", RecoverOptions::default()).unwrap();
    let read = store.counted().total().bytes_read;
    assert!(read < 64 << 20, "{read} bytes were read");
    assert!(report.steps >= 2, "{report:?}");
    check_steps(&Reader::open(layout, "x.bp").unwrap(), report.steps as u32, 2);
}
