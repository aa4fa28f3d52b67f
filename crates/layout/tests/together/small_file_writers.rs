//! Several processes that write one file of `small_file` at the same time: no bytes are lost without an error.

use std::io::IoSlice;
use std::sync::Arc;
use std::sync::Barrier;
use thalweg_conformance::scratch::Scratch;
use thalweg_layout::small_file::Settings;
use thalweg_layout::{Change, Layout, OpenWrite, SmallFile, WriterId};
use thalweg_store::wrap::{Counting, Failing, Fault};
use thalweg_store::{Memory, Posix, Store, WriteObject};
use thalweg_types::ErrorKind;

const WRITER: WriterId = WriterId(0);

fn over(store: impl Store + 'static) -> SmallFile {
    SmallFile::new(Arc::new(store), Settings::default()).unwrap()
}

fn open(layout: &SmallFile, how: OpenWrite) -> Box<dyn WriteObject> {
    layout.open_write("f", how, WRITER).unwrap()
}

fn write(file: &dyn WriteObject, at: u64, bytes: &[u8]) {
    file.write_at(at, &[IoSlice::new(bytes)]).unwrap();
}

fn read(layout: &SmallFile) -> Vec<u8> {
    let file = layout.open_read("f").unwrap();
    let mut bytes = vec![0; file.length().unwrap() as usize];
    file.read_exact_at(0, &mut bytes).unwrap();
    bytes
}

#[test]
fn what_two_processes_wrote_at_different_places_is_all_there() {
    for (first, second) in
        [(OpenWrite::Any, OpenWrite::Any), (OpenWrite::Replace, OpenWrite::Any), (OpenWrite::New, OpenWrite::Any)]
    {
        for sync in [false, true] {
            let store = Memory::new();
            let (a, b) = (over(store.clone()), over(store.clone()));
            let (one, two) = (open(&a, first), open(&b, second));
            write(&*one, 0, b"aaaa");
            write(&*two, 4, b"bbbb");
            if sync {
                one.sync().unwrap();
                write(&*one, 8, b"AA");
            }
            two.close().unwrap();
            one.close().unwrap();
            let wanted: &[u8] = if sync { b"aaaabbbbAA" } else { b"aaaabbbb" };
            for reader in [&a, &b, &over(store)] {
                assert_eq!(read(reader), wanted, "{first:?} {sync}");
            }
        }
    }
}

#[test]
fn of_bytes_that_two_wrote_the_later_ones_stay_and_the_rest_of_both() {
    let store = Memory::new();
    let (a, b) = (over(store.clone()), over(store.clone()));
    let file = open(&a, OpenWrite::New);
    write(&*file, 0, b"0123456789");
    file.close().unwrap();
    let (one, two) = (open(&a, OpenWrite::Existing), open(&b, OpenWrite::Existing));
    write(&*one, 2, b"aaaa");
    write(&*two, 4, b"bbbb");
    one.close().unwrap();
    two.close().unwrap();
    assert_eq!(read(&over(store)), b"01aabbbb89");
}

#[test]
fn what_two_appended_is_there_once_each() {
    let store = Memory::new();
    let (a, b) = (over(store.clone()), over(store.clone()));
    let (one, two) = (open(&a, OpenWrite::Any), open(&b, OpenWrite::Any));
    for (file, bytes) in [(&one, b"a1 "), (&two, b"b1 "), (&one, b"a2 "), (&two, b"b2 ")] {
        file.append(&[IoSlice::new(bytes)]).unwrap();
    }
    two.sync().unwrap();
    two.append(&[IoSlice::new(b"b3 ")]).unwrap();
    one.close().unwrap();
    two.close().unwrap();
    assert_eq!(read(&over(store)), b"b1 b2 a1 a2 b3 ");
}

#[test]
fn a_cut_takes_what_was_published_and_nothing_that_others_write_later() {
    let store = Memory::new();
    let (a, b) = (over(store.clone()), over(store.clone()));
    let file = open(&a, OpenWrite::New);
    write(&*file, 0, b"0123456789");
    file.close().unwrap();
    let (one, two) = (open(&a, OpenWrite::Existing), open(&b, OpenWrite::Existing));
    one.truncate(0).unwrap();
    write(&*one, 0, b"aa");
    write(&*two, 2, b"bb");
    two.close().unwrap();
    one.close().unwrap();
    assert_eq!(read(&over(store)), b"aabb");
}

#[test]
fn an_open_that_empties_the_file_replaces_what_was_there() {
    let store = Memory::new();
    let (a, b) = (over(store.clone()), over(store.clone()));
    let file = open(&a, OpenWrite::New);
    write(&*file, 0, b"0123456789");
    file.close().unwrap();
    let (one, two) = (open(&a, OpenWrite::Replace), open(&b, OpenWrite::Existing));
    write(&*one, 0, b"new");
    write(&*two, 2, b"bb");
    two.close().unwrap();
    one.close().unwrap();
    assert_eq!(read(&over(store)), b"new");
}

#[test]
fn a_file_that_another_process_removed_or_replaced_is_told_and_stays_so() {
    for replaced in [false, true] {
        for sync in [false, true] {
            let store = Memory::new();
            let (a, b) = (over(store.clone()), over(store.clone()));
            let file = open(&a, OpenWrite::New);
            write(&*file, 0, b"first");
            file.close().unwrap();
            let late = open(&b, OpenWrite::Existing);
            write(&*late, 0, b"late");
            match replaced {
                true => {
                    let other = a.open_write("g", OpenWrite::New, WRITER).unwrap();
                    write(&*other, 0, b"another");
                    other.close().unwrap();
                    a.rename("g", "f").unwrap();
                }
                false => a.remove("f").unwrap(),
            }
            let error = if sync { late.sync().unwrap_err() } else { late.close().unwrap_err() };
            assert_eq!(thalweg_layout::errno::of(&error), rustix::io::Errno::STALE.raw_os_error(), "{error}");
            assert!(error.to_string().contains("bytes that the other process published"), "{error}");
            let reader = over(store);
            match replaced {
                true => assert_eq!(read(&reader), b"another"),
                false => assert_eq!(reader.open_read("f").err().unwrap().kind(), ErrorKind::NotFound),
            }
        }
    }
}

fn bytes_of(file: &dyn WriteObject) -> Vec<u8> {
    let mut bytes = vec![0; file.length().unwrap() as usize];
    assert_eq!(file.read_at(0, &mut bytes).unwrap(), bytes.len());
    bytes
}

/// A process that keeps a file open sees what another one published: at its next open, `stat` or sync of that file, through all its handles.
#[test]
fn what_another_process_published_is_seen_at_an_open_a_stat_or_a_sync_while_handles_stay_open() {
    let grown = vec![7; (Settings::default().small + 1) as usize];
    for theirs in [&b"new bytes"[..], b"", &grown] {
        for looks in ["open", "stat", "sync"] {
            let folder = Scratch::new();
            let (a, b) = (over(Posix::at(folder.path()).unwrap()), over(Posix::at(folder.path()).unwrap()));
            let file = open(&a, OpenWrite::New);
            write(&*file, 0, b"old");
            file.close().unwrap();
            let (held, reading) = (open(&a, OpenWrite::Existing), a.open_read("f").unwrap());
            assert_eq!((bytes_of(&*held), reading.length().unwrap()), (b"old".to_vec(), 3));

            let file = open(&b, OpenWrite::Replace);
            write(&*file, 0, theirs);
            file.close().unwrap();
            match looks {
                "open" => assert_eq!(read(&a), theirs, "{looks}"),
                "stat" => assert_eq!(a.stat("f").unwrap().length, theirs.len() as u64, "{looks}"),
                _ => held.sync().unwrap(),
            }
            assert_eq!(bytes_of(&*held), theirs, "{looks}");
            assert_eq!(reading.length().unwrap(), theirs.len() as u64, "{looks}");

            // Changes over it are changes of the new version.
            held.append(&[IoSlice::new(b"more")]).unwrap();
            held.close().unwrap();
            let wanted = [theirs, b"more"].concat();
            for reader in [&a, &b, &over(Posix::at(folder.path()).unwrap())] {
                assert_eq!(read(reader), wanted, "{looks}");
            }
        }
    }
}

#[test]
fn unpublished_changes_stay_before_the_eyes_of_the_process_that_made_them() {
    let store = Memory::new();
    let (a, b) = (over(store.clone()), over(store.clone()));
    let file = open(&a, OpenWrite::New);
    write(&*file, 0, b"0123456789");
    file.close().unwrap();
    let held = open(&a, OpenWrite::Existing);
    write(&*held, 0, b"aa");
    let file = open(&b, OpenWrite::Existing);
    write(&*file, 8, b"bb");
    file.close().unwrap();
    assert_eq!(read(&a), b"aa23456789");
    assert_eq!(a.stat("f").unwrap().length, 10);
    held.sync().unwrap();
    assert_eq!(read(&a), b"aa234567bb");
    held.close().unwrap();
    assert_eq!(read(&over(store)), b"aa234567bb");
}

#[test]
fn a_file_that_another_process_replaced_is_seen_by_a_new_open_and_the_old_one_through_old_handles() {
    let store = Memory::new();
    let (a, b) = (over(store.clone()), over(store.clone()));
    for (name, bytes) in [("f", &b"old"[..]), ("g", b"another")] {
        let file = b.open_write(name, OpenWrite::New, WRITER).unwrap();
        write(&*file, 0, bytes);
        file.close().unwrap();
    }
    let (held, reading) = (open(&a, OpenWrite::Existing), a.open_read("f").unwrap());
    assert_eq!(bytes_of(&*held), b"old");
    b.rename("g", "f").unwrap();
    assert_eq!(read(&a), b"another");
    assert_eq!((bytes_of(&*held), reading.length().unwrap()), (b"old".to_vec(), 3));
    write(&*held, 0, b"lost");
    let failed = held.close().unwrap_err();
    assert!(failed.to_string().contains("replaced by another file"), "{failed}");
    assert_eq!((read(&a), read(&over(store))), (b"another".to_vec(), b"another".to_vec()));
}

#[test]
fn files_that_grow_out_of_the_logs_in_two_processes_are_one_file() {
    for modes in [false, true] {
        let scratch = Scratch::new();
        let settings = Settings { small: 1000, ..Settings::default() };
        let at = || SmallFile::new(Arc::new(Posix::at(scratch.path()).unwrap()), settings).unwrap();
        let (a, b, c) = (at(), at(), at());
        let file = open(&a, OpenWrite::New);
        write(&*file, 0, &[9; 10]);
        file.close().unwrap();
        if modes {
            a.set_attributes("f", &Change { mode: Some(0o600), ..Change::default() }).unwrap();
        }
        let files = [&a, &b, &c].map(|layout| open(layout, OpenWrite::Existing));
        for round in 0..6u64 {
            for (writer, file) in files.iter().enumerate() {
                // The third stays small until the end.
                let length = if writer == 2 { 10 } else { 400 };
                write(&**file, 10 + (round * 3 + writer as u64) * 400, &vec![writer as u8 + 1; length]);
                if writer == 2 && round == 1 {
                    file.sync().unwrap();
                }
            }
        }
        for file in files {
            file.close().unwrap();
        }
        let bytes = read(&at());
        for round in 0..6usize {
            for writer in 0..3usize {
                let (from, length) = (10 + (round * 3 + writer) * 400, if writer == 2 { 10 } else { 400 });
                assert_eq!(bytes[from..from + length], vec![writer as u8 + 1; length], "{modes} {round} {writer}");
            }
        }
    }
}

/// Closes at the same moment, as ranks do behind a barrier: on plain files and in memory.
#[test]
fn processes_that_close_in_the_same_moment_lose_nothing() {
    const WRITERS: usize = 4;
    for round in 0..300u64 {
        let scratch = Scratch::new();
        let memory = Memory::new();
        let (appends, plain, small) = (round % 3 == 0, round % 2 == 0, if round % 5 == 0 { 50 } else { 1 << 20 });
        let at = || -> SmallFile {
            let store: Arc<dyn Store> = match plain {
                true => Arc::new(Posix::at(scratch.path()).unwrap()),
                false => Arc::new(memory.clone()),
            };
            SmallFile::new(store, Settings { small, ..Settings::default() }).unwrap()
        };
        let barrier = Barrier::new(WRITERS);
        std::thread::scope(|scope| {
            for writer in 0..WRITERS {
                let (at, barrier) = (&at, &barrier);
                scope.spawn(move || {
                    let layout = at();
                    let how = if writer == 0 { OpenWrite::Replace } else { OpenWrite::Any };
                    let file = open(&layout, how);
                    // What is there when it is opened, an open that empties the file takes.
                    barrier.wait();
                    for part in 0..3 {
                        let bytes = [b'a' + writer as u8; 10];
                        match appends {
                            true => file.append(&[IoSlice::new(&bytes)]).map(|_| ()).unwrap(),
                            false => write(&*file, ((part * WRITERS + writer) * 10) as u64, &bytes),
                        }
                    }
                    barrier.wait();
                    file.close().unwrap();
                });
            }
        });
        let bytes = read(&at());
        assert_eq!(bytes.len(), WRITERS * 30, "round {round}");
        for writer in 0..WRITERS {
            let count = bytes.iter().filter(|byte| **byte == b'a' + writer as u8).count();
            assert_eq!(count, 30, "of writer {writer} in round {round}: {}", String::from_utf8_lossy(&bytes));
        }
    }
}

#[test]
fn a_new_file_costs_one_write_and_a_change_of_one_costs_two_writes_and_two_looks() {
    let counting = Arc::new(Counting::new(Arc::new(Memory::new())));
    let layout = SmallFile::new(counting.clone(), Settings::default()).unwrap();
    open(&layout, OpenWrite::Any).close().unwrap();
    for (how, writes) in [(OpenWrite::Replace, 100), (OpenWrite::Existing, 200)] {
        counting.take();
        for n in 0..100 {
            let name = if how == OpenWrite::Replace { format!("new {n}") } else { "f".to_string() };
            let file = layout.open_write(&name, how, WRITER).unwrap();
            write(&*file, 0, b"x");
            file.sync().unwrap();
            file.close().unwrap();
        }
        let total = counting.take().total();
        assert_eq!(total.writes, writes, "{how:?}: {total:?}");
        let others = (total.opens_for_reading, total.opens_for_writing, total.lists, total.stats);
        assert_eq!(others, (0, 0, 0, 0), "{how:?}: {total:?}");
        // A look is a read of the bell, and of what follows in the logs of others.
        assert!(total.reads <= 2 * writes + 2, "{how:?}: {total:?}");
    }
}

/// A process that fails after it has announced a change, and goes on living, must not keep others from theirs.
#[test]
fn a_call_that_fails_once_in_one_process_keeps_no_other_one_from_writing() {
    for call in 0.. {
        let scratch = Scratch::new();
        let store: Arc<dyn Store> = Arc::new(Posix::at(scratch.path()).unwrap());
        let failing = Arc::new(Failing::new(store.clone()));
        let process = |store: Arc<dyn Store>| SmallFile::new(store, Settings::default()).unwrap();
        let (a, b) = (process(failing.clone()), process(store.clone()));
        let file = open(&a, OpenWrite::New);
        write(&*file, 0, b"before ");
        file.close().unwrap();
        let append = |layout: &SmallFile, bytes: &[u8]| -> thalweg_types::Result<()> {
            let file = layout.open_write("f", OpenWrite::Existing, WRITER)?;
            file.append(&[IoSlice::new(bytes)])?;
            file.close()
        };
        append(&b, b"b1 ").unwrap();
        failing.fail(Fault::any().skipping(call).times(1));
        let outcome = append(&a, b"a ");
        let (failed, at) = failing.failed();
        failing.heal();
        append(&b, b"b2 ").unwrap_or_else(|e| panic!("call {call}, {at:?}, {outcome:?}: {e}"));
        let bytes = String::from_utf8(read(&process(store))).unwrap();
        // What failed may be there, or not.
        let expected = ["before b1 a b2 ", "before b1 b2 "];
        let told = if outcome.is_ok() { &expected[..1] } else { &expected[..] };
        assert!(told.contains(&bytes.as_str()), "call {call}, {at:?}, {outcome:?}: {bytes}");
        drop(a);
        if failed == 0 {
            assert!(call > 5, "{call} calls");
            break;
        }
    }
}
