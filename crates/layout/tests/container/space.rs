//! A store that is full: what was closed before is read as ever, whichever call found no room, and the next writer goes on once
//! there is room again.

use super::{Accept, Module, Options, in_folders, over, pattern, process, put, read};
use std::io::IoSlice;
use std::sync::Arc;
use thalweg_conformance::scratch::Scratch;
use thalweg_layout::{Change, Container, Layout, OpenWrite, WriterId};
use thalweg_store::wrap::{Failing, Fault, Sequential, StoreCall};
use thalweg_store::{Memory, Posix, Store};
use thalweg_types::{ErrorKind, Result};

/// A session that does a bit of everything; whether it got through, and the bytes that the file has then.
fn session(layout: &Container, append: bool) -> Result<()> {
    let file = layout.open_write("file", OpenWrite::Any, WriterId(3))?;
    let outcome = (|| {
        for round in 0..3u64 {
            match append {
                true => drop(file.append(&[IoSlice::new(&pattern(round, 700))])?),
                false => file.write_at(1000 + round * 700, &[IoSlice::new(&pattern(round, 700))])?,
            }
            if round == 1 {
                file.sync()?;
            }
        }
        Ok(())
    })();
    outcome.and(file.close())
}

fn expected(rounds: u64) -> Vec<u8> {
    let mut bytes = pattern(9, 1000);
    (0..rounds).for_each(|round| bytes.extend_from_slice(&pattern(round, 700)));
    bytes
}

fn sweep(inner: impl Fn() -> Arc<dyn Store>, buffer: usize, append: bool, kind: ErrorKind) -> usize {
    let mut swept = 0;
    for asked in [
        StoreCall::OpenWrite,
        StoreCall::Write,
        StoreCall::Rename,
        StoreCall::Sync,
        StoreCall::Close,
        StoreCall::MakeFolder,
        StoreCall::SyncFolder,
    ] {
        for half in [false, true] {
            for k in 0.. {
                let store = Arc::new(Failing::new(inner()));
                let shared: Arc<dyn Store> = store.clone();
                put(&over(&shared), "file", &pattern(9, 1000));
                let layout = process(std::slice::from_ref(&shared), Module::Pattern, buffer);
                let fault = Fault::of(asked).with(kind).skipping(k);
                store.fail(if half { fault.half_way() } else { fault });
                let outcome = session(&layout, append);
                let words = format!("{asked:?} number {k}, half {half}, buffer {buffer}, append {append}: {outcome:?}");
                if outcome.is_ok() {
                    // So many calls there are.
                    assert!(read(&over(&shared), "file").unwrap() == expected(3), "{words}");
                    break;
                }
                swept += 1;
                // Still full: readers make nothing.
                for layout in [&over(&shared), &layout] {
                    let found = read(layout, "file").unwrap_or_else(|e| panic!("{words}: {e}"));
                    let whole = (0..=3).any(|rounds| found == expected(rounds));
                    assert!(whole, "{words}: {} bytes", found.len());
                }
                store.heal();
                let report = over(&shared).check("file").unwrap();
                assert!(report.is_clean(), "{words}: {report:?}");
                for again in [&layout, &over(&shared)] {
                    let before = read(again, "file").unwrap();
                    let file = again.open_write("file", OpenWrite::Existing, WriterId(3)).unwrap();
                    file.append(&[IoSlice::new(b"there is room again")]).unwrap_or_else(|e| panic!("{words}: {e}"));
                    file.close().unwrap_or_else(|e| panic!("{words}: {e}"));
                    let now = [before, b"there is room again".to_vec()].concat();
                    assert!(read(&over(&shared), "file").unwrap() == now, "{words}");
                }
                over(&shared).compact("file").unwrap_or_else(|e| panic!("{words}: {e}"));
            }
        }
    }
    swept
}

#[test]
fn whichever_call_finds_no_room_what_was_closed_is_read_and_the_next_writer_goes_on() {
    let memory = || Arc::new(Memory::new()) as Arc<dyn Store>;
    let mut swept = 0;
    for kind in [ErrorKind::NoSpace, ErrorKind::Io] {
        for (buffer, append) in [(0, false), (0, true), (500, true), (2 << 20, false), (2 << 20, true)] {
            swept += sweep(memory, buffer, append, kind);
        }
        swept += sweep(|| Arc::new(Sequential::like_hdfs()) as Arc<dyn Store>, 500, true, kind);
    }
    println!("{swept} calls failed");
    assert!(swept > 200, "{swept} calls failed");
}

#[test]
fn a_full_filesystem_keeps_what_was_closed_and_lets_files_be_removed() {
    for inline in [true, false] {
        let scratch = Scratch::new();
        let store = Arc::new(Failing::new(Arc::new(Posix::at(scratch.path()).unwrap())));
        let shared: Arc<dyn Store> = store.clone();
        let layout = || if inline { over(&shared) } else { in_folders(std::slice::from_ref(&shared)) };
        put(&layout(), "other", b"other");
        for room in (0..6000).step_by(97) {
            put(&layout(), "file", &pattern(9, 1000));
            store.space(Some(room));
            let outcome = session(&layout(), room % 2 == 0);
            let words = format!("inline {inline}, room for {room} bytes, {outcome:?}");
            let found = read(&layout(), "file").unwrap_or_else(|e| panic!("{words}: {e}"));
            assert!((0..=3).any(|rounds| found == expected(rounds)), "{words}: {} bytes", found.len());
            if outcome.is_ok() {
                assert_eq!(found.len(), 3100, "{words}");
            }
            layout().rename("file", "renamed").unwrap();
            layout().remove("renamed").unwrap();
            store.space(None);
            layout().set_attributes("other", &Change { mode: Some(0o600), ..Change::default() }).unwrap();
        }
        assert_eq!(layout().nameless(std::time::Duration::ZERO, false).unwrap(), []);
    }
}

#[test]
fn bytes_that_a_write_took_are_there_after_the_close_however_little_room_there_is() {
    let scratch = Scratch::new();
    let mut refused = 0;
    for (number, inner) in [Arc::new(Memory::new()) as Arc<dyn Store>, Arc::new(Posix::at(scratch.path()).unwrap())]
        .into_iter()
        .enumerate()
    {
        // Behind the stamp, from there into logs, and in logs from the first byte on; of one buffer and of many.
        for (inline, buffer) in [(None, 2 << 20), (Some(0), 2 << 20), (Some(0), 3000), (Some(600), 2 << 20)] {
            for room in (0..60_000).step_by(2003).chain((0..2500).step_by(61)) {
                let store = Arc::new(Failing::new(inner.clone()));
                let shared: Arc<dyn Store> = store.clone();
                let options = Options { inline, buffer, host: "host".into(), ..Options::default() };
                let layout = Container::new(vec![shared.clone()], options).unwrap();
                put(&layout, "file", &pattern(9, 1000));
                store.space(Some(room));
                let words = format!("store {number}, inline {inline:?}, buffer {buffer}, room {room}");
                let file = layout.open_write("file", OpenWrite::Existing, WriterId(3)).unwrap();
                let mut taken = pattern(9, 1000);
                for round in 0..60u64 {
                    let more = pattern(round, 700);
                    let outcome = match round % 2 {
                        0 => file.append(&[IoSlice::new(&more)]).map(|_| ()),
                        _ => file.write_at(taken.len() as u64, &[IoSlice::new(&more)]),
                    };
                    match outcome {
                        Ok(()) => taken.extend_from_slice(&more),
                        Err(e) => {
                            assert_eq!(e.kind(), ErrorKind::NoSpace, "{words}: {e}");
                            refused += 1;
                            break;
                        }
                    }
                }
                file.close().unwrap_or_else(|e| panic!("{words}: accepted, and refused at close: {e:?}"));
                assert!(read(&over(&shared), "file").unwrap() == taken, "{words}: {} bytes were taken", taken.len());
                store.space(None);
                let report = over(&shared).check("file").unwrap();
                over(&shared).repair("file", Accept::SURE).unwrap();
                assert!(read(&over(&shared), "file").unwrap() == taken, "{words}, repaired: {report:?}");
                over(&shared).remove("file").unwrap();
            }
        }
    }
    assert!(refused > 100, "{refused} writes were refused");
}
