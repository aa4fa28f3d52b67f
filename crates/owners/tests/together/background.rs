//! Files that a thread of their own serves.

use crate::common::{content, direct, open, small};
use std::sync::Arc;
use std::sync::mpsc;
use thalweg_comm::{Communicator, threads};
use thalweg_owners::background::Background;
use thalweg_owners::{Options, Owners};
use thalweg_store::{Memory, StoreExt};

/// The owner's program makes no call on the file until the others have what they wait for.
#[test]
fn owners_that_compute_delay_nobody() {
    let store = Arc::new(Memory::new());
    let layout = direct(store.clone());
    threads::run(3, |comm| {
        let mut file = open(&comm, &layout, 256 << 10);
        let options = Options { owners: Owners::Ranks(vec![0]), ..small(1) };
        let window = file.start(0, 3 << 20, &options).unwrap();
        let start = u64::from(comm.rank()) << 20;
        if comm.rank() == 0 {
            let file = Background::serve(file).unwrap();
            file.with(|file| file.write(window, start, &content(start, 1 << 20))).unwrap();
            file.with(|file| file.end(window)).unwrap();
            for other in 1..3 {
                comm.receive(Some(other), 5).unwrap();
            }
            assert!(file.with(|file| file.wait(window)).is_ok());
            file.close().unwrap();
        } else {
            file.write(window, start, &content(start, 1 << 20)).unwrap();
            file.end(window).unwrap();
            file.wait(window).unwrap();
            comm.send(0, 5, &[]).unwrap();
            file.close().unwrap();
        }
    });
    assert!(store.read_all("out").unwrap() == content(0, 3 << 20));
}

#[test]
fn a_callback_runs_in_the_thread() {
    let layout = direct(Arc::new(Memory::new()));
    threads::run(2, |comm| {
        let file = Background::serve(open(&comm, &layout, 256 << 10)).unwrap();
        let (told, hear) = mpsc::channel();
        file.with(|file| {
            let window = file.start(0, 2000, &small(2)).unwrap();
            let callback = move |outcome: thalweg_types::Result<_>| {
                told.send((std::thread::current().name().map(str::to_string), outcome.is_ok())).unwrap();
            };
            file.on_complete(window, Box::new(callback)).unwrap();
            let start = 1000 * u64::from(comm.rank());
            file.write(window, start, &content(start, 1000)).unwrap();
            file.end(window).unwrap();
        });
        // No call is made until the result has come.
        let (thread, fine) = hear.recv().unwrap();
        assert!(fine && thread.as_deref() == Some("output windows"), "{thread:?}");
        file.close().unwrap();
    });
}

#[test]
fn a_file_that_is_dropped_ends_its_thread() {
    let layout = direct(Arc::new(Memory::new()));
    threads::run(1, |comm| {
        let file = Background::serve(open(&comm, &layout, 256 << 10)).unwrap();
        file.with(|file| file.start(0, 10, &small(1))).unwrap();
        drop(file);
    });
}
