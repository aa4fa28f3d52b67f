//! What a process sees of its open files, on layouts and stores of each kind.

use std::io::IoSlice;
use std::sync::Arc;
use thalweg_layout::errno::{self, Errno};
use thalweg_layout::{Container, Direct, Kind, Layout, SmallFile, container, small_file};
use thalweg_open_file::{Access, OpenFile, about, writer};
use thalweg_store::{Memory, Posix, Store};
use thalweg_types::Result;

/// Runs a body on `direct`, `container` (short files inline where the store can, and in logs) and `small_file` over memory and
/// POSIX.
fn everywhere(body: impl Fn(&Arc<dyn Layout>)) {
    let folder = tempfile::tempdir().unwrap();
    let mut number = 0;
    let mut store = |posix: bool| -> Arc<dyn Store> {
        number += 1;
        let path = folder.path().join(number.to_string());
        std::fs::create_dir(&path).unwrap();
        if posix { Arc::new(Posix::at(path).unwrap()) } else { Arc::new(Memory::new()) }
    };
    for posix in [false, true] {
        let in_logs = container::Options { inline: Some(0), ..container::Options::default() };
        let layouts: [Arc<dyn Layout>; 4] = [
            Arc::new(Direct::new(store(posix)).unwrap()),
            Arc::new(Container::new(vec![store(posix)], container::Options::default()).unwrap()),
            Arc::new(Container::new(vec![store(posix)], in_logs).unwrap()),
            Arc::new(SmallFile::new(store(posix), small_file::Settings::default()).unwrap()),
        ];
        for layout in &layouts {
            eprintln!("on {}", layout.describe());
            body(layout);
        }
    }
}

/// `docs/consistency.md`: a reader refreshes its view, a handle that writes refreshes it at its sync.
#[test]
fn an_open_file_shows_what_another_process_synced_once_it_is_refreshed() {
    type Make = fn(&Arc<dyn Store>) -> Arc<dyn Layout>;
    let direct: Make = |store| Arc::new(Direct::new(store.clone()).unwrap());
    let inline: Make = |store| Arc::new(Container::new(vec![store.clone()], container::Options::default()).unwrap());
    let in_logs: Make = |store| {
        let options = container::Options { inline: Some(0), ..container::Options::default() };
        Arc::new(Container::new(vec![store.clone()], options).unwrap())
    };
    let folder = tempfile::tempdir().unwrap();
    let posix = |name: &str| -> Arc<dyn Store> {
        let path = folder.path().join(name);
        std::fs::create_dir(&path).unwrap();
        Arc::new(Posix::at(path).unwrap())
    };
    let memory = || -> Arc<dyn Store> { Arc::new(Memory::new()) };
    let cases: [(&str, Make, Arc<dyn Store>); 5] = [
        ("direct over memory", direct, memory()),
        ("direct over posix", direct, posix("direct over posix")),
        ("container over memory", inline, memory()),
        ("container, inline", inline, posix("container, inline")),
        ("container, in logs", in_logs, posix("container, in logs")),
    ];
    for (name, make, store) in cases {
        // Three processes: one begins, one reads, one writes as well.
        let (theirs, ours, third) = (make(&store), make(&store), make(&store));
        let file = open(&theirs, "f", MAKE).unwrap();
        file.append(&[IoSlice::new(b"one")]).unwrap();
        file.sync().unwrap();
        let folder_of_logs = folder.path().join(name).join(".thalweg/d");
        assert_eq!(folder_of_logs.exists(), name == "container, in logs", "{name}: data logs that are objects");
        let reader = open(&ours, "f", Access::READ).unwrap();
        let writer = open(&third, "f", MAKE).unwrap();
        assert_eq!((all(&reader), all(&writer)), (b"one".to_vec(), b"one".to_vec()), "{name}");
        file.append(&[IoSlice::new(b" two")]).unwrap();
        file.sync().unwrap();
        if name.starts_with("container") {
            let seen = (all(&reader), all(&writer));
            assert_eq!(seen, (b"one".to_vec(), b"one".to_vec()), "{name}: open handles keep the version they opened");
        }
        reader.refresh().unwrap();
        writer.sync().unwrap();
        assert_eq!((all(&reader), all(&writer)), (b"one two".to_vec(), b"one two".to_vec()), "{name}");
        writer.append(&[IoSlice::new(b" three")]).unwrap();
        writer.sync().unwrap();
        file.sync().unwrap();
        reader.refresh().unwrap();
        for other in [&file, &reader] {
            assert_eq!(all(other), b"one two three", "{name}");
        }
        for handle in [file, reader, writer] {
            handle.close().unwrap();
        }
    }
}

const MAKE: Access = Access { read: true, write: true, create: true, ..Access::READ };

fn open(layout: &Arc<dyn Layout>, name: &str, access: Access) -> Result<OpenFile> {
    OpenFile::open(layout, name, access, Some(0o644), writer())
}

#[track_caller]
fn fails<T>(outcome: Result<T>, number: Errno) {
    match outcome {
        Ok(_) => panic!("worked, expected {number}"),
        Err(e) => assert_eq!(errno::of(&e), number.raw_os_error(), "{e}, expected {number}"),
    }
}

fn all(file: &OpenFile) -> Vec<u8> {
    let mut out = vec![0; file.length().unwrap() as usize + 10];
    let got = file.read_at(0, &mut out).unwrap();
    out.truncate(got);
    out
}

#[test]
fn handles_of_one_file_see_each_others_writes_and_appends_never_meet() {
    everywhere(|layout| {
        let one = open(layout, "f", Access { exclusive: true, ..MAKE }).unwrap();
        one.write_at(3, &[IoSlice::new(b"ab"), IoSlice::new(b"c")]).unwrap();
        let two = open(layout, "f", Access { append: true, ..MAKE }).unwrap();
        let reader = open(layout, "f", Access::READ).unwrap();
        assert_eq!(all(&reader), b"\0\0\0abc");
        assert_eq!(two.append(&[IoSlice::new(b"de")]).unwrap(), 8);
        one.write_at(0, &[IoSlice::new(b"x")]).unwrap();
        for file in [&one, &two, &reader] {
            assert_eq!(all(file), b"x\0\0abcde");
        }
        one.truncate(1).unwrap();
        assert_eq!((all(&reader), two.append(&[IoSlice::new(b"y")]).unwrap()), (b"x".to_vec(), 2));
        std::thread::scope(|threads| {
            for file in [&one, &two] {
                threads.spawn(move || {
                    for _ in 0..50 {
                        file.append(&[IoSlice::new(b"12")]).unwrap();
                    }
                });
            }
        });
        assert_eq!(all(&reader), [b"xy".to_vec(), b"12".repeat(100)].concat());
        one.publish().unwrap();
        two.sync().unwrap();
        reader.refresh().unwrap();
        for file in [one, two, reader] {
            file.close().unwrap();
        }
        assert_eq!(open(layout, "f", Access::READ).unwrap().length().unwrap(), 202);
    });
}

#[test]
fn an_open_does_what_its_flags_say_or_fails_with_the_number_of_the_manual_page() {
    everywhere(|layout| {
        layout.make_folder("d").unwrap();
        let write = Access { read: false, write: true, ..Access::default() };
        fails(open(layout, "f", Access::READ), Errno::NOENT);
        fails(open(layout, "f", write), Errno::NOENT);
        fails(open(layout, "no/f", MAKE), Errno::NOENT);
        for access in [Access::READ, write, MAKE] {
            fails(open(layout, "d", access), Errno::ISDIR);
        }
        fails(open(layout, "d", Access { exclusive: true, ..MAKE }), Errno::EXIST);
        let file = open(layout, "f", Access { write: false, ..MAKE }).unwrap();
        assert_eq!(file.length().unwrap(), 0, "made, for reading alone");
        fails(file.write_at(0, &[IoSlice::new(b"x")]), Errno::BADF);
        fails(file.append(&[IoSlice::new(b"x")]), Errno::BADF);
        fails(open(layout, "f", Access { exclusive: true, ..MAKE }), Errno::EXIST);
        fails(open(layout, "f", Access { directory: true, ..Access::READ }), Errno::NOTDIR);
        let file = open(layout, "f", write).unwrap();
        file.write_at(0, &[IoSlice::new(b"abc")]).unwrap();
        fails(file.read_at(0, &mut [0]), Errno::BADF);
        file.close().unwrap();
        assert_eq!(all(&open(layout, "f", MAKE).unwrap()), b"abc", "found, not emptied");
        open(layout, "f", Access { truncate: true, ..Access::READ }).unwrap().close().unwrap();
        assert_eq!(layout.stat("f").unwrap().length, 0, "emptied by who only reads, as on Linux");
        for emptying in [Access { truncate: true, ..write }, Access { truncate: true, ..MAKE }] {
            let file = open(layout, "f", MAKE).unwrap();
            file.write_at(0, &[IoSlice::new(b"abc")]).unwrap();
            file.close().unwrap();
            open(layout, "f", emptying).unwrap().close().unwrap();
            assert_eq!(layout.stat("f").unwrap().length, 0, "{emptying:?}");
        }
    });
}

#[test]
fn who_makes_a_file_gives_it_its_mode_and_who_finds_it_leaves_it() {
    everywhere(|layout| {
        OpenFile::open(layout, "f", MAKE, Some(0o600), writer()).unwrap().close().unwrap();
        let kept = about::attributes(&**layout, "f").unwrap().mode;
        assert!(kept == 0o600 || layout.describe() == "direct over memory:", "{kept:o}");
        OpenFile::open(layout, "f", MAKE, Some(0o640), writer()).unwrap().close().unwrap();
        assert_eq!(about::attributes(&**layout, "f").unwrap().mode, kept);
    });
}

#[test]
fn an_open_file_goes_on_when_its_name_is_renamed_or_removed() {
    everywhere(|layout| {
        layout.make_folder("d").unwrap();
        let file = open(layout, "d/f", MAKE).unwrap();
        file.write_at(0, &[IoSlice::new(b"abc")]).unwrap();
        let before = file.attributes().unwrap();
        assert_eq!((before.kind, before.length, before.links), (Kind::File, 3, 1));
        layout.rename("d/f", "g").unwrap();
        file.renamed("d", "elsewhere");
        file.renamed("elsewhere/f", "g");
        assert_eq!(file.name().as_deref(), Some("g"));
        assert_eq!(file.attributes().unwrap().identity, before.identity);
        file.unlinked();
        layout.remove("g").unwrap();
        file.write_at(3, &[IoSlice::new(b"d")]).unwrap();
        let after = file.attributes().unwrap();
        assert_eq!((after.length, after.links, after.identity), (4, 0, before.identity));
        assert_eq!(all(&file), b"abcd");
        file.close().unwrap();
        fails(layout.stat("g"), Errno::NOENT);
    });
}

#[test]
fn links_are_followed_by_an_open_and_by_what_is_told_of_it() {
    everywhere(|layout| {
        if layout.make_link("f", "l").is_err() {
            assert!(!layout.describe().starts_with("container"), "{}", layout.describe());
            return;
        }
        open(layout, "f", MAKE).unwrap().close().unwrap();
        let through = open(layout, "l", MAKE).unwrap();
        through.write_at(0, &[IoSlice::new(b"abc")]).unwrap();
        let told = through.attributes().unwrap();
        assert_eq!((told.kind, told.length, through.name().as_deref()), (Kind::File, 3, Some("f")));
        through.close().unwrap();
        fails(open(layout, "l", Access { no_follow: true, ..Access::READ }), Errno::LOOP);
        layout.make_link("m", "n").unwrap();
        layout.make_link("n", "m").unwrap();
        fails(about::followed(&**layout, "m"), Errno::LOOP);
    });
}

/// As the system does; `direct` and `container` over POSIX hand names with links in them to the system.
#[test]
fn a_target_that_goes_up_counts_from_the_directory_that_holds_the_link() {
    everywhere(|layout| {
        layout.make_folder("real/folder").unwrap();
        if layout.make_link("real/folder", "way").is_err() || layout.list("way").is_err() {
            assert!(layout.describe().contains("memory:"), "{}", layout.describe());
            return;
        }
        layout.make_link("../file", "real/folder/up").unwrap();
        open(layout, "real/file", MAKE).unwrap().close().unwrap();
        open(layout, "file", MAKE).unwrap().close().unwrap();
        let (name, about) = about::followed(&**layout, "way/up").unwrap();
        assert_eq!(name, "real/file");
        assert_eq!(about.identity, layout.attributes("real/file").unwrap().identity);
        layout.remove("file").unwrap();
        let file = open(layout, "way/up", MAKE).unwrap();
        assert_eq!(file.attributes().unwrap().identity, about.identity);
        assert_eq!(file.name().as_deref(), Some("real/file"));
    });
}

#[test]
fn forty_links_are_followed_and_one_more_is_refused() {
    everywhere(|layout| {
        open(layout, "0", MAKE).unwrap().close().unwrap();
        for n in 1..=41 {
            if layout.make_link(&format!("{}", n - 1), &n.to_string()).is_err() {
                assert!(n == 1 && layout.describe() == "direct over memory:", "{n}, {}", layout.describe());
                return;
            }
        }
        assert_eq!(about::followed(&**layout, "40").unwrap().0, "0");
        fails(about::followed(&**layout, "41"), Errno::LOOP);
    });
}
