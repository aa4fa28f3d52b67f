//! What `small_file` promises: cost, order between processes, crashes, space.

use std::io::IoSlice;
use std::sync::Arc;
use thalweg_conformance::scratch::Scratch;
use thalweg_layout::small_file::{HIDDEN, Settings};
use thalweg_layout::{Change, Layout, OpenWrite, SetXattr, SmallFile, WriterId};
use thalweg_store::wrap::{Counting, Sequential};
use thalweg_store::{Memory, Posix, Store, StoreExt};
use thalweg_types::ErrorKind;

fn over(store: impl Store + 'static) -> SmallFile {
    SmallFile::new(Arc::new(store), Settings::default()).unwrap()
}

fn make(layout: &dyn Layout, path: &str, bytes: &[u8]) {
    let file = layout.open_write(path, OpenWrite::Replace, WriterId(0)).unwrap();
    file.write_at(0, &[IoSlice::new(bytes)]).unwrap();
    file.close().unwrap();
}

fn read(layout: &dyn Layout, path: &str) -> Vec<u8> {
    let file = layout.open_read(path).unwrap();
    let mut bytes = vec![0; file.length().unwrap() as usize];
    file.read_exact_at(0, &mut bytes).unwrap();
    bytes
}

fn missing(layout: &dyn Layout, path: &str) {
    assert_eq!(layout.open_read(path).err().map(|e| e.kind()), Some(ErrorKind::NotFound), "{path}");
    assert_eq!(layout.stat(path).err().map(|e| e.kind()), Some(ErrorKind::NotFound), "{path}");
}

#[test]
fn a_hundred_thousand_creates_are_a_hundred_thousand_writes_and_a_handful_of_operations_on_names() {
    const FILES: u64 = 100_000;
    let counting = Arc::new(Counting::new(Arc::new(Memory::new())));
    let layout = SmallFile::new(counting.clone(), Settings::default()).unwrap();
    for number in 0..FILES {
        make(&layout, &format!("file.{number}"), &number.to_le_bytes());
    }
    layout.finish().unwrap();
    let total = counting.counted().total();
    let on_names = total.opens_for_writing
        + total.opens_for_reading
        + total.stats
        + total.lists
        + total.renames
        + total.removes
        + total.folders_made
        + total.folder_syncs;
    assert!(on_names < 40, "{on_names} operations on names: {total:?}");
    assert!(total.writes < FILES + 500, "{} writes", total.writes);
    let names = total.writes - FILES;
    assert!(names > 20, "the name log is written in blocks: {names}");
    // Another process reads the names from the name log, and looks at each file's bytes only where it opens one.
    counting.take();
    let other = SmallFile::new(counting.clone(), Settings::default()).unwrap();
    assert_eq!(other.list("").unwrap().len() as u64, FILES);
    let total = counting.take().total();
    assert!(total.reads < 400, "{} reads for {FILES} names", total.reads);
    assert_eq!(read(&other, "file.77777"), 77_777u64.to_le_bytes());
}

#[test]
fn names_looked_for_in_vain_are_no_operations_on_names_until_another_process_moves_the_folder() {
    let counting = Arc::new(Counting::new(Arc::new(Memory::new())));
    let layout = SmallFile::new(counting.clone(), Settings::default()).unwrap();
    layout.make_folder("d").unwrap();
    make(&layout, "d/there", b"bytes");
    counting.take();
    for number in 0..100 {
        missing(&layout, &format!("d/{number}"));
    }
    let total = counting.take().total();
    assert_eq!((total.stats, total.lists, total.opens_for_reading, total.failed), (0, 0, 0, 0), "{total:?}");
    let other = SmallFile::new(counting.clone(), Settings::default()).unwrap();
    other.rename("d", "e").unwrap();
    missing(&layout, "d/there");
    other.make_folder("d").unwrap();
    make(&other, "d/7", b"of the new folder");
    assert_eq!(read(&layout, "d/7"), b"of the new folder");
    assert_eq!(read(&layout, "e/there"), b"bytes");
    other.remove("d/7").unwrap();
    other.remove("d").unwrap();
    missing(&layout, "d/7");
}

#[test]
fn other_processes_see_a_file_once_it_is_closed_and_the_last_to_close_wins() {
    let store = Memory::new();
    let (a, b, c) = (over(store.clone()), over(store.clone()), over(store.clone()));
    missing(&b, "f");
    let file = a.open_write("f", OpenWrite::New, WriterId(1)).unwrap();
    file.write_at(0, &[IoSlice::new(b"from a")]).unwrap();
    file.close().unwrap();
    assert_eq!(read(&b, "f"), b"from a");
    // b began before a's second version and closes after it.
    let late = b.open_write("f", OpenWrite::Replace, WriterId(2)).unwrap();
    late.write_at(0, &[IoSlice::new(b"from b")]).unwrap();
    make(&a, "f", b"second of a");
    late.close().unwrap();
    for reader in [&a, &b, &c, &over(store.clone())] {
        assert_eq!(read(reader, "f"), b"from b");
    }
    a.remove("f").unwrap();
    for reader in [&a, &b, &c] {
        missing(reader, "f");
    }
    make(&c, "f", b"again");
    for reader in [&a, &b, &c] {
        assert_eq!(read(reader, "f"), b"again");
    }
}

#[test]
fn of_many_processes_that_make_one_name_exclusively_one_succeeds() {
    let store = Memory::new();
    for round in 0..60 {
        let name = format!("lock.{round}");
        let winners: usize = std::thread::scope(|scope| {
            let each: Vec<_> = (0..4u32)
                .map(|writer| {
                    let (store, name) = (store.clone(), name.clone());
                    scope.spawn(move || match over(store).open_write(&name, OpenWrite::New, WriterId(writer)) {
                        Ok(_) => 1,
                        Err(e) => {
                            assert_eq!(e.kind(), ErrorKind::AlreadyExists, "{e}");
                            0
                        }
                    })
                })
                .collect();
            each.into_iter().map(|thread| thread.join().unwrap()).sum()
        });
        assert_eq!(winners, 1, "processes that made {name}");
        assert_eq!(over(store.clone()).stat(&name).unwrap().length, 0);
    }
}

#[test]
fn chmod_of_one_small_file_changes_only_it() {
    let store = Memory::new();
    let (a, b) = (over(store.clone()), over(store.clone()));
    for name in ["one", "two", "three"] {
        make(&a, name, name.as_bytes());
    }
    b.set_attributes("two", &Change { mode: Some(0o600), ..Change::default() }).unwrap();
    for layout in [&a, &b, &over(store.clone())] {
        let modes = ["one", "two", "three"].map(|name| layout.attributes(name).unwrap().mode);
        assert_eq!(modes, [0o644, 0o600, 0o644]);
        assert_eq!(read(layout, "two"), b"two");
    }
    // A write after it keeps the mode, also by a process that saw the file before.
    make(&a, "two", b"more");
    assert_eq!(over(store).attributes("two").unwrap().mode, 0o600);
}

#[test]
fn a_rename_is_one_record_and_takes_bytes_mode_and_identity_along() {
    let store = Memory::new();
    let layout = over(store.clone());
    make(&layout, "from", b"bytes");
    make(&layout, "to", b"old");
    layout.set_attributes("from", &Change { mode: Some(0o640), ..Change::default() }).unwrap();
    let identity = layout.stat("from").unwrap().identity;
    layout.rename("from", "to").unwrap();
    let other = over(store.clone());
    missing(&other, "from");
    assert_eq!((read(&other, "to"), other.attributes("to").unwrap().mode), (b"bytes".to_vec(), 0o640));
    assert_eq!(other.stat("to").unwrap().identity, identity);
    layout.make_folder("deep/er").unwrap();
    layout.rename("to", "deep/er/there").unwrap();
    assert_eq!(read(&other, "deep/er/there"), b"bytes");
    missing(&other, "to");
    layout.rename("deep", "moved").unwrap();
    assert_eq!(read(&layout, "moved/er/there"), b"bytes");
    assert_eq!(read(&over(store), "moved/er/there"), b"bytes");
    missing(&layout, "deep/er/there");
}

#[test]
fn a_file_that_is_open_follows_its_renames_and_outlives_its_removal() {
    let layout = over(Memory::new());
    let file = layout.open_write("a", OpenWrite::New, WriterId(0)).unwrap();
    file.write_at(0, &[IoSlice::new(b"one")]).unwrap();
    layout.rename("a", "b").unwrap();
    layout.make_folder("f").unwrap();
    layout.rename("b", "f/c").unwrap();
    file.write_at(3, &[IoSlice::new(b"two")]).unwrap();
    file.sync().unwrap();
    assert_eq!(read(&layout, "f/c"), b"onetwo");
    layout.remove("f/c").unwrap();
    file.write_at(6, &[IoSlice::new(b"three")]).unwrap();
    let mut out = [0; 11];
    assert_eq!(file.read_at(0, &mut out).unwrap(), 11);
    assert_eq!(&out, b"onetwothree");
    file.close().unwrap();
    missing(&layout, "f/c");
}

#[test]
fn a_file_that_grew_or_was_protected_through_another_handle_outlives_its_removal() {
    for how in ["cut", "write", "chmod"] {
        for ends in ["remove", "rename", "replace"] {
            let scratch = Scratch::new();
            let settings = Settings { small: 1000, ..Settings::default() };
            let layout = SmallFile::new(Arc::new(Posix::at(scratch.path()).unwrap()), settings).unwrap();
            let file = layout.open_write("f", OpenWrite::New, WriterId(0)).unwrap();
            file.write_at(0, &[IoSlice::new(b"one")]).unwrap();
            file.sync().unwrap();
            let reader = layout.open_read("f").unwrap();
            match how {
                "cut" => layout.truncate("f", 5000).unwrap(),
                "write" => {
                    let other = layout.open_write("f", OpenWrite::Existing, WriterId(0)).unwrap();
                    other.write_at(4000, &[IoSlice::new(&[0; 1000])]).unwrap();
                    other.close().unwrap();
                }
                _ => layout.set_attributes("f", &Change { mode: Some(0o600), ..Change::default() }).unwrap(),
            }
            match ends {
                "remove" => layout.remove("f").unwrap(),
                "rename" => {
                    make(&layout, "g", b"g");
                    layout.rename("g", "f").unwrap();
                }
                _ => {
                    layout.remove("f").unwrap();
                    make(&layout, "f", b"another");
                }
            }
            let length = if how == "chmod" { 3 } else { 5000 };
            for (read, what) in [(file.length().unwrap(), "writer"), (reader.length().unwrap(), "reader")] {
                assert_eq!(read, length, "{how} {ends} {what}");
            }
            let mut out = [0; 3];
            assert_eq!((reader.read_at(0, &mut out).unwrap(), &out), (3, b"one"), "{how} {ends}");
            file.write_at(1, &[IoSlice::new(b"N")]).unwrap();
            assert_eq!((file.read_at(0, &mut out).unwrap(), &out), (3, b"oNe"), "{how} {ends}");
            drop(reader);
            file.close().unwrap();
        }
    }
}

#[test]
fn a_file_grows_out_of_the_log_and_stays_the_same_file() {
    let scratch = Scratch::new();
    let settings = Settings { small: 1000, ..Settings::default() };
    let at = || SmallFile::new(Arc::new(Posix::at(scratch.path()).unwrap()), settings).unwrap();
    let (layout, other) = (at(), at());
    let file = layout.open_write("f", OpenWrite::New, WriterId(0)).unwrap();
    let bytes: Vec<u8> = (0..5000u32).map(|i| i as u8).collect();
    for (i, part) in bytes.chunks(300).enumerate() {
        file.write_at(i as u64 * 300, &[IoSlice::new(part)]).unwrap();
    }
    let identity = layout.stat("f").unwrap().identity;
    file.close().unwrap();
    assert_eq!(read(&other, "f"), bytes);
    assert_eq!(other.stat("f").unwrap().identity, identity);
    other.truncate("f", 10).unwrap();
    other.truncate("f", 20).unwrap();
    assert_eq!(read(&layout, "f"), [&bytes[..10], &[0; 10]].concat());
    layout.rename("f", "g").unwrap();
    assert_eq!(read(&other, "g").len(), 20);
    layout.remove("g").unwrap();
    missing(&other, "g");
    let left = std::fs::read_dir(scratch.join(HIDDEN)).unwrap();
    let own = left.filter(|e| e.as_ref().unwrap().file_name().to_string_lossy().starts_with("own.")).count();
    assert_eq!(own, 0, "its object went with it");
}

#[test]
fn compaction_gives_space_back_and_changes_nothing_else() {
    let store = Memory::new();
    {
        let layout = over(store.clone());
        for round in 0..10u8 {
            for number in 0..50 {
                make(&layout, &format!("f{number}"), &vec![round; 1000]);
            }
        }
        for number in 0..25 {
            layout.remove(&format!("f{number}")).unwrap();
        }
        layout.set_attributes("f30", &Change { mode: Some(0o400), ..Change::default() }).unwrap();
        layout.rename("f31", "g").unwrap();
    }
    let layout = over(store.clone());
    let before = layout.check("", true).unwrap();
    assert_eq!((before.files, before.bytes, before.damaged.len()), (25, 25_000, 0));
    let done = layout.compact("").unwrap();
    assert_eq!((done.files, done.logs), (25, 1));
    assert!(done.freed > 450_000, "{done:?}");
    for reader in [layout, over(store.clone())] {
        assert_eq!(reader.list("").unwrap().len(), 25);
        assert_eq!(read(&reader, "g"), vec![9; 1000]);
        assert_eq!(reader.attributes("f30").unwrap().mode, 0o400);
        missing(&reader, "f3");
        missing(&reader, "f31");
        let after = reader.check("", true).unwrap();
        assert!(after.log_bytes < 40_000 && after.damaged.is_empty() && after.torn.is_empty(), "{after:?}");
    }
    // What is removed stays removed over several compactions of several logs.
    let (a, b) = (over(store.clone()), over(store.clone()));
    make(&a, "x", b"1");
    make(&b, "y", b"2");
    b.remove("x").unwrap();
    b.finish().unwrap();
    b.compact("").unwrap();
    a.finish().unwrap();
    a.compact("").unwrap();
    let last = over(store);
    missing(&last, "x");
    assert_eq!(read(&last, "y"), b"2");
}

/// Objects of the hidden folder whose names begin with `kind`.
fn objects(store: &dyn Store, kind: &str) -> Vec<String> {
    let names = store.list(HIDDEN).unwrap().into_iter().filter(|n| n.starts_with(kind));
    names.map(|n| format!("{HIDDEN}/{n}")).collect()
}

#[test]
fn a_lost_or_damaged_name_log_loses_nothing() {
    let store = Memory::new();
    {
        let layout = over(store.clone());
        (0..5000).for_each(|n| make(&layout, &format!("some-longer-name.{n}"), &[n as u8; 20]));
    }
    let names = objects(&store, "names.");
    assert_eq!(names.len(), 1);
    let whole = store.read_all(&names[0]).unwrap();
    let mut damaged = whole.clone();
    damaged[whole.len() / 2] ^= 1;
    for left in [Some(&damaged[..]), Some(&whole[..whole.len() - 100]), Some(&whole[..10]), Some(&[][..]), None] {
        match left {
            Some(bytes) => store.write_all(&names[0], bytes).unwrap(),
            None => store.remove(&names[0]).unwrap(),
        }
        let layout = over(store.clone());
        assert_eq!(layout.list("").unwrap().len(), 5000);
        assert_eq!(read(&layout, "some-longer-name.4321"), [4321u32 as u8; 20]);
        assert!(layout.check("", true).unwrap().damaged.is_empty());
    }
}

/// Every prefix of a log, as a killed process may leave: what is there is right, nothing else is.
#[test]
fn any_prefix_of_a_log_holds_whole_files_only() {
    let store = Memory::new();
    let layout = over(store.clone());
    for number in 0..8u8 {
        make(&layout, &format!("f{number}"), &[number + 1; 100]);
    }
    drop(layout);
    let log = objects(&store, "data.").remove(0);
    let whole = store.read_all(&log).unwrap();
    let mut seen = 0;
    for length in 0..=whole.len() {
        store.write_all(&log, &whole[..length]).unwrap();
        let layout = over(store.clone());
        let files = layout.list("").unwrap();
        assert!(files.len() >= seen, "a longer log holds fewer files");
        seen = files.len();
        for (number, name) in files.iter().enumerate() {
            assert_eq!((name.clone(), read(&layout, name)), (format!("f{number}"), vec![number as u8 + 1; 100]));
        }
        let report = layout.check("", true).unwrap();
        assert!(report.damaged.is_empty());
    }
    assert_eq!(seen, 8);
}

#[test]
fn bytes_that_are_not_what_was_written_are_an_error_and_never_zeros() {
    let store = Memory::new();
    let layout = over(store.clone());
    make(&layout, "good", &[1; 500]);
    make(&layout, "bad", &[2; 500]);
    drop(layout);
    let log = objects(&store, "data.").remove(0);
    let mut bytes = store.read_all(&log).unwrap();
    let at = bytes.windows(500).position(|w| w == [2; 500]).unwrap();
    bytes[at..at + 500].fill(0);
    store.write_all(&log, &bytes).unwrap();
    let layout = over(store);
    assert_eq!(read(&layout, "good"), [1; 500]);
    let file = layout.open_read("bad").unwrap();
    let error = file.read_at(0, &mut [0; 10]).unwrap_err();
    assert_eq!((error.kind(), error.place().byte), (ErrorKind::Corrupt, Some(at as u64)), "{error}");
    let report = layout.check("", true).unwrap();
    assert_eq!(report.damaged.len(), 1);
    assert_eq!(report.damaged[0].0, "bad");
    assert_eq!(
        layout.compact("").unwrap_err().kind(),
        ErrorKind::Corrupt,
        "compaction does not throw a log away that it cannot copy"
    );
}

#[test]
fn stores_that_show_objects_when_they_are_closed_hold_small_files_too() {
    for store in [Sequential::like_hdfs(), Sequential::like_s3()] {
        let told = store.describe();
        let (a, b) = (over(store.clone()), over(store.clone()));
        a.make_folder("d").unwrap();
        for number in 0..5u8 {
            make(&a, &format!("d/f{number}"), &[number; 10]);
        }
        assert_eq!(read(&b, "d/f3"), [3; 10], "{told}");
        make(&b, "d/f3", b"new");
        a.remove("d/f1").unwrap();
        let c = over(store);
        assert_eq!(read(&c, "d/f3"), b"new", "{told}");
        missing(&c, "d/f1");
        assert_eq!(c.list("d").unwrap(), ["f0", "f2", "f3", "f4"], "{told}");
        let error = c.open_write("big", OpenWrite::New, WriterId(0)).unwrap().truncate(2 << 20).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unsupported, "{told}: {error}");
    }
}

#[test]
fn publishing_at_syncs_only_makes_few_objects_of_many_files() {
    let counting = Arc::new(Counting::new(Arc::new(Sequential::like_s3())));
    let settings = Settings { publish_at_close: false, ..Settings::default() };
    let layout = SmallFile::new(counting.clone(), settings).unwrap();
    for number in 0..2000u32 {
        make(&layout, &format!("f{number}"), &number.to_le_bytes());
    }
    assert_eq!(read(&layout, "f1999"), 1999u32.to_le_bytes(), "its own process reads what is not published yet");
    layout.sync_folder("").unwrap();
    assert!(counting.counted().total().opens_for_writing < 5);
    let other = SmallFile::new(counting, settings).unwrap();
    assert_eq!(other.list("").unwrap().len(), 2000);
    assert_eq!(read(&other, "f1000"), 1000u32.to_le_bytes());
}

#[test]
fn a_folder_that_another_process_fills_is_not_removed_under_it() {
    let store = Memory::new();
    let (a, b) = (over(store.clone()), over(store.clone()));
    a.make_folder("d").unwrap();
    make(&b, "d/f", b"1");
    assert_eq!(a.remove("d").unwrap_err().kind(), ErrorKind::InvalidArgument);
    b.remove("d/f").unwrap();
    a.remove("d").unwrap();
    let error = b.open_write("d/g", OpenWrite::Replace, WriterId(0)).err().unwrap();
    assert_eq!(error.kind(), ErrorKind::NotFound, "{error}");
    assert!(!store.exists("d").unwrap());
}

#[test]
fn what_lay_in_the_folder_before_stays_what_it_was() {
    let store = Memory::new();
    store.write_all("plain", b"before").unwrap();
    let layout = over(store.clone());
    make(&layout, "new", b"packed");
    assert_eq!(layout.list("").unwrap(), ["new", "plain"]);
    assert_eq!(read(&layout, "plain"), b"before");
    make(&layout, "plain", b"after");
    assert_eq!(store.read_all("plain").unwrap(), b"after");
    layout.rename("new", "plain").unwrap();
    assert_eq!(read(&over(store), "plain"), b"packed");
    missing(&layout, "new");
    assert_eq!(
        layout.open_write(&format!("{HIDDEN}/x"), OpenWrite::New, WriterId(0)).err().unwrap().kind(),
        ErrorKind::NotFound
    );
}

#[test]
fn a_file_that_gets_an_object_of_its_own_before_it_is_recorded_has_nothing_of_one_of_its_name_that_was_removed() {
    let folder = Scratch::new();
    let store: Arc<dyn Store> = Arc::new(Posix::at(folder.path()).unwrap());
    let [first, remover, second] = [(); 3].map(|()| SmallFile::new(store.clone(), Settings::default()).unwrap());
    make(&first, "f", b"old");
    second.xattr_set("f", "user.l", b"old", SetXattr::Any).unwrap();
    remover.remove("f").unwrap();
    let file = second.open_write("f", OpenWrite::Replace, WriterId(9)).unwrap();
    file.write_at(0, &[IoSlice::new(b"new")]).unwrap();
    second.set_attributes("f", &Change { mode: Some(0o600), ..Change::default() }).unwrap();
    for layout in [&first, &remover, &second] {
        assert_eq!(layout.xattr_list("f").unwrap(), [""; 0]);
    }
    file.close().unwrap();
    assert_eq!(read(&first, "f"), b"new");
    assert_eq!(first.xattr_list("f").unwrap(), [""; 0]);
}
