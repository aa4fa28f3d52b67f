//! Small files lie in the object of their name, behind the stamp: every promise of a container, without its folder.

use super::{in_folders, open, over, pattern, put, read, write};
use std::io::IoSlice;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use thalweg_conformance::scratch::Scratch;
use thalweg_layout::container::stamp::Stamp;
use thalweg_layout::container::tail::Tail;
use thalweg_layout::container::tools::{Accept, Trouble};
use thalweg_layout::{Change, Container, Layout, OpenWrite, SetXattr};
use thalweg_store::wrap::{Failing, Fault, Operation, StoreCall, Watch, Wrapped};
use thalweg_store::{Posix, Store, StoreExt};
use thalweg_types::ErrorKind;

/// No objects.
const NOTHING: &[PathBuf] = &[];

fn posix(folder: &Path) -> Arc<dyn Store> {
    Arc::new(Posix::at(folder).unwrap())
}

/// Objects below a folder that are no identities of stores.
fn objects(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        match path.is_dir() {
            true => found.extend(objects(&path)),
            false => found.push(path),
        }
    }
    found.retain(|path| !path.ends_with(".thalweg/store"));
    found.sort();
    found
}

/// What a file's object says behind its stamp, by the letter that a name begins with; `d` for data logs, `H` for the folder.
fn inside(file: &Path) -> String {
    let bytes = std::fs::read(file).unwrap();
    let (stamp, length) = Stamp::decode_first(&bytes).unwrap();
    let mut tail = Tail::new(stamp.container, length as u64);
    tail.extend(&bytes[length..]).unwrap();
    let mut letters: Vec<char> =
        tail.names().map(|name| if name.ends_with(".data") { 'd' } else { name.chars().next().unwrap() }).collect();
    letters.extend(tail.has_home().then_some('H'));
    letters.sort_unstable();
    letters.into_iter().collect()
}

fn mode(bits: u32) -> Change {
    Change { mode: Some(bits), ..Change::default() }
}

/// Everything below a folder, elsewhere: what a kill leaves. No process holds or locks anything there.
fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let (path, to) = (entry.path(), to.join(entry.file_name()));
        match path.is_dir() {
            true => copy(&path, &to),
            false => {
                std::fs::copy(&path, &to).unwrap();
            }
        }
    }
}

#[test]
fn a_small_file_is_one_object_and_leaves_nothing() {
    let scratch = Scratch::new();
    let store = posix(scratch.path());
    let layout = over(&store);
    layout.make_folder("d").unwrap();
    let file = open(&layout, "d/file", OpenWrite::New, 0);
    assert_eq!(read(&over(&store), "d/file").unwrap(), b"", "it is there at once");
    write(&*file, 0, &pattern(1, 1000));
    assert_eq!(file.length().unwrap(), 1000);
    assert_eq!(read(&layout, "d/file").unwrap(), pattern(1, 1000), "by the process that writes");
    file.close().unwrap();
    layout.set_attributes("d/file", &mode(0o640)).unwrap();
    layout.xattr_set("d/file", "user.a", b"value", SetXattr::Any).unwrap();
    // Emptied and written again, appended to by another process, cut.
    put(&over(&store), "d/file", &pattern(2, 500));
    let file = open(&over(&store), "d/file", OpenWrite::Existing, 1);
    file.append(&[IoSlice::new(b"more")]).unwrap();
    file.close().unwrap();
    layout.truncate("d/file", 503).unwrap();
    assert_eq!(objects(scratch.path()), [scratch.join("d/file")]);
    let expected = [&pattern(2, 500)[..], b"mor"].concat();
    for layout in [&layout, &over(&store), &in_folders(std::slice::from_ref(&store))] {
        assert_eq!(read(layout, "d/file").unwrap(), expected);
        let about = layout.attributes("d/file").unwrap();
        assert_eq!((about.length, about.mode, about.links), (503, 0o640, 1));
        assert_eq!(layout.xattr_get("d/file", "user.a").unwrap().unwrap(), b"value");
    }
    let report = layout.check("d/file").unwrap();
    assert_eq!((report.findings.as_slice(), report.length), (&[][..], 503));
    let mut mapped = 0;
    layout.map("d/file", 0, 503, |piece| mapped += piece.extent.length).unwrap();
    assert_eq!(mapped, 503);
    let plain = thalweg_store::Memory::new();
    layout.flatten("d/file", &plain, "plain").unwrap();
    assert_eq!(plain.read_all("plain").unwrap(), expected);
    assert_eq!(layout.repair("d/file", Accept::OPEN).unwrap(), []);
    assert_eq!(objects(scratch.path()), [scratch.join("d/file")], "tools that only look make nothing");
    layout.remove("d/file").unwrap();
    assert_eq!(objects(scratch.path()), NOTHING);
    assert!(!scratch.join(".thalweg/c").exists() && !scratch.join(".thalweg/d").exists());
}

#[test]
fn what_is_touched_and_never_written_has_no_mark_left() {
    let scratch = Scratch::new();
    let store = posix(scratch.path());
    open(&over(&store), "file", OpenWrite::New, 0).close().unwrap();
    assert_eq!(inside(&scratch.join("file")), "");
    assert_eq!(read(&over(&store), "file").unwrap(), b"");
}

#[test]
fn what_outgrows_its_place_gets_a_folder_and_loses_nothing() {
    const LIMIT: usize = 32 << 10;
    for (number, piece) in [100usize, 4000, 40_000].into_iter().enumerate() {
        for synced in [0, 1, 3] {
            for length in [LIMIT - 300, LIMIT - 160, LIMIT - 112, LIMIT - 48, LIMIT, LIMIT + 1, 3 * LIMIT] {
                let scratch = Scratch::new();
                let store = posix(scratch.path());
                let layout = over(&store);
                let bytes = pattern(number as u64, length);
                let file = open(&layout, "file", OpenWrite::New, 0);
                for (k, run) in bytes.chunks(piece).enumerate() {
                    write(&*file, (k * piece) as u64, run);
                    if synced > 0 && k % (length / piece / synced + 1) == 0 {
                        file.sync().unwrap();
                        let there = (k * piece + run.len()).min(length);
                        let words = format!("{there} of {length} bytes in pieces of {piece}, synced");
                        assert!(read(&over(&store), "file").unwrap() == bytes[..there], "{words}");
                        assert!(read(&layout, "file").unwrap() == bytes[..there], "{words}");
                    }
                }
                let words = format!("{length} bytes in pieces of {piece}, {synced} syncs");
                assert!(read(&layout, "file").unwrap() == bytes, "{words}");
                file.close().unwrap();
                for layout in [&layout, &over(&store)] {
                    assert!(read(layout, "file").unwrap() == bytes, "{words}");
                    let report = layout.check("file").unwrap();
                    assert!(report.findings.is_empty(), "{words}: {report:?}");
                }
                let grown = objects(scratch.path()).len() > 1;
                assert_eq!(grown, inside(&scratch.join("file")) == "H", "{words}: {}", inside(&scratch.join("file")));
                assert!(grown == (length + 200 > LIMIT) || (LIMIT - 300..LIMIT).contains(&length), "{words}");
                let snapshot = over(&store);
                snapshot.snapshot("file").unwrap();
                assert!(read(&over(&store), "file").unwrap() == bytes, "{words}: snapshot");
                over(&store).compact("file").unwrap();
                assert!(read(&over(&store), "file").unwrap() == bytes, "{words}: compacted");
                over(&store).remove("file").unwrap();
                assert_eq!(objects(scratch.path()), NOTHING, "{words}");
            }
        }
    }
}

#[test]
fn a_session_beside_one_that_has_not_closed_lies_in_the_folder() {
    let scratch = Scratch::new();
    let store = posix(scratch.path());
    let layout = over(&store);
    let first = open(&layout, "file", OpenWrite::New, 0);
    write(&*first, 0, b"first");
    let second = open(&over(&store), "file", OpenWrite::Existing, 1);
    write(&*second, 5, b"second");
    assert_eq!(inside(&scratch.join("file")), "Ho");
    second.close().unwrap();
    let report = over(&store).check("file").unwrap();
    assert_eq!(report.findings.iter().map(|f| f.trouble).collect::<Vec<_>>(), [Trouble::Writing]);
    assert!(over(&store).repair("file", Accept::OPEN).unwrap().is_empty(), "it lives");
    assert_eq!(over(&store).compact("file").unwrap_err().kind(), ErrorKind::NotReady);
    first.publish().unwrap();
    assert_eq!(read(&over(&store), "file").unwrap(), b"firstsecond");
    write(&*first, 0, b"F");
    assert_eq!(inside(&scratch.join("file")), "Hdop");
    first.close().unwrap();
    assert_eq!(inside(&scratch.join("file")), "Hcd");
    assert_eq!(read(&over(&store), "file").unwrap(), b"Firstsecond");
    over(&store).compact("file").unwrap();
    assert_eq!(inside(&scratch.join("file")), "H");
    assert_eq!(read(&over(&store), "file").unwrap(), b"Firstsecond");
    assert!(over(&store).check("file").unwrap().findings.is_empty());
}

#[test]
fn the_first_write_comes_after_what_others_wrote_since_the_file_was_made() {
    let scratch = Scratch::new();
    let store = posix(scratch.path());
    let maker = open(&over(&store), "file", OpenWrite::New, 3);
    let other = open(&over(&store), "file", OpenWrite::Existing, 9);
    write(&*other, 0, b"the other's bytes");
    other.close().unwrap();
    write(&*maker, 0, b"mine");
    maker.close().unwrap();
    assert_eq!(read(&over(&store), "file").unwrap(), b"mineother's bytes");
    assert!(over(&store).check("file").unwrap().findings.is_empty(), "no tie");
}

/// Keeps what the folder below looks like before each operation that changes something, and half way through each write.
struct Kills {
    folder: PathBuf,
    to: PathBuf,
    taken: AtomicUsize,
    said: Mutex<Vec<String>>,
}

impl Watch for Kills {
    fn describe(&self) -> &'static str {
        "killed"
    }

    fn before(&self, operation: &Operation<'_>) -> thalweg_store::wrap::Verdict {
        if !matches!(
            operation.asked,
            StoreCall::Stat | StoreCall::List | StoreCall::OpenRead | StoreCall::Read | StoreCall::Length
        ) {
            let number = self.taken.fetch_add(1, Ordering::Relaxed);
            copy(&self.folder, &self.to.join(number.to_string()));
            self.said.lock().unwrap().push(format!("{number}: before {:?} {}", operation.asked, operation.name));
        }
        thalweg_store::wrap::Verdict::Pass
    }
}

#[test]
fn a_kill_at_any_moment_leaves_a_file_that_tells_what_it_has() {
    for length in [0usize, 1000, 40_000] {
        let (scratch, kills) = (Scratch::new(), Scratch::new());
        let watch = Kills {
            folder: scratch.path().into(),
            to: kills.path().into(),
            taken: AtomicUsize::new(0),
            said: Mutex::default(),
        };
        let around = Arc::new(Wrapped::with(posix(scratch.path()), watch));
        let layout = over(&(around.clone() as Arc<dyn Store>));
        let bytes = pattern(4, length);
        let moment = || around.watch().taken.load(Ordering::Relaxed);
        let file = open(&layout, "file", OpenWrite::New, 0);
        let half = length / 2;
        write(&*file, 0, &bytes[..half]);
        file.sync().unwrap();
        let synced = moment();
        write(&*file, half as u64, &bytes[half..]);
        file.close().unwrap();
        let closed = moment();
        layout.set_attributes("file", &mode(0o600)).unwrap();
        let other = open(&layout, "file", OpenWrite::Existing, 1);
        other.append(&[IoSlice::new(b"more")]).unwrap();
        other.close().unwrap();
        let appended = moment();
        layout.remove("file").unwrap();
        copy(scratch.path(), &kills.join(moment().to_string()));
        let all = [&bytes[..], b"more"].concat();
        for number in 0..=moment() {
            let store = posix(&kills.join(number.to_string()));
            let words = format!("{length} bytes, {:?}", around.watch().said.lock().unwrap().get(number));
            if !store.exists("file").unwrap() {
                over(&store).nameless(std::time::Duration::ZERO, true).unwrap();
                let mut left = objects(&kills.join(number.to_string()));
                // Of a container that is being removed logs go last.
                left.retain(|path| number < appended || !path.components().any(|part| part.as_os_str() == "d"));
                assert_eq!(left, NOTHING, "{words}");
                continue;
            }
            for repaired in [false, true] {
                let found = read(&over(&store), "file").unwrap_or_else(|e| panic!("{words}: {e}"));
                assert!(all.starts_with(&found), "{words}: {} bytes", found.len());
                let least = match number {
                    n if n >= appended => all.len(),
                    n if n >= closed => length,
                    n if n >= synced => half,
                    _ => 0,
                };
                assert!(found.len() >= least, "{words}: {} bytes of {least}", found.len());
                if !repaired {
                    over(&store).repair("file", Accept::SURE).unwrap_or_else(|e| panic!("{words}: {e}"));
                    let report = over(&store).check("file").unwrap();
                    assert!(report.findings.is_empty(), "{words}: {report:?}");
                }
            }
            let before = read(&over(&store), "file").unwrap();
            let file = open(&over(&store), "file", OpenWrite::Existing, 2);
            file.append(&[IoSlice::new(b"again")]).unwrap();
            file.close().unwrap();
            assert!(read(&over(&store), "file").unwrap() == [&before[..], b"again"].concat(), "{words}");
            over(&store).remove("file").unwrap();
            over(&store).nameless(std::time::Duration::ZERO, true).unwrap();
            assert_eq!(objects(&kills.join(number.to_string())), NOTHING, "{words}");
        }
    }
}

#[test]
fn a_folder_that_a_kill_left_goes_with_the_file() {
    let scratch = Scratch::new();
    let store = posix(scratch.path());
    put(&over(&store), "file", b"bytes");
    let before = std::fs::read(scratch.join("file")).unwrap();
    over(&store).snapshot("file").unwrap();
    assert!(objects(scratch.path()).len() > 1);
    // Killed before the record that says so.
    std::fs::write(scratch.join("file"), before).unwrap();
    assert_eq!(read(&over(&store), "file").unwrap(), b"bytes");
    over(&store).remove("file").unwrap();
    assert_eq!(objects(scratch.path()), NOTHING);
}

#[test]
fn a_maker_that_died_is_told_of_as_any_writer() {
    let (scratch, left) = (Scratch::new(), Scratch::new());
    let file = open(&over(&posix(scratch.path())), "file", OpenWrite::New, 0);
    write(&*file, 100, b"behind a hole");
    file.publish().unwrap();
    write(&*file, 200, b"lost");
    copy(scratch.path(), left.path());
    file.close().unwrap();
    let store = posix(left.path());
    let layout = over(&store);
    assert_eq!(layout.stat("file").unwrap().length, 113);
    let error = read(&layout, "file").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Torn, "{error}");
    assert!(error.to_string().contains(&format!("process {} since", std::process::id())), "{error}");
    let found = layout.check("file").unwrap();
    assert_eq!(found.findings.iter().map(|f| f.trouble).collect::<Vec<_>>(), [Trouble::Died]);
    assert_eq!(layout.flatten("file", &*store, "plain").unwrap_err().kind(), ErrorKind::Torn);
    assert_eq!(layout.repair("file", Accept::SURE).unwrap().len(), 1);
    assert_eq!(read(&layout, "file").unwrap()[100..], *b"behind a hole");
    assert!(layout.check("file").unwrap().findings.is_empty());
}

#[test]
fn who_made_a_file_and_has_it_open_is_not_taken_for_a_session_that_died() {
    let (scratch, left) = (Scratch::new(), Scratch::new());
    let store = posix(scratch.path());
    let maker = over(&store);
    let made = open(&maker, "file", OpenWrite::New, 0);
    let reader = maker.open_read("file").unwrap();
    write(&*made, 0, b"made");
    made.close().unwrap();
    // Another process' session dies: its descriptors are closed, its mark is there.
    let other = open(&over(&store), "file", OpenWrite::Existing, 1);
    write(&*other, 100, b"behind a hole");
    copy(scratch.path(), left.path());
    other.close().unwrap();
    std::fs::write(scratch.join("file"), std::fs::read(left.join("file")).unwrap()).unwrap();
    let report = over(&store).check("file").unwrap();
    assert_eq!(report.findings.iter().map(|f| f.trouble).collect::<Vec<_>>(), [Trouble::Died]);
    drop(reader);
}

#[test]
fn a_tail_that_is_torn_at_any_byte_reads_as_what_is_whole_and_a_changed_byte_is_never_taken_for_another() {
    let scratch = Scratch::new();
    let store = posix(scratch.path());
    put(&over(&store), "file", b"the bytes of the first session");
    let file = open(&over(&store), "file", OpenWrite::Existing, 1);
    file.append(&[IoSlice::new(b", more")]).unwrap();
    file.close().unwrap();
    let whole = std::fs::read(scratch.join("file")).unwrap();
    let (_, start) = Stamp::decode_first(&whole).unwrap();
    let states: [&[u8]; 3] = [b"", b"the bytes of the first session", b"the bytes of the first session, more"];
    for cut in start..=whole.len() {
        std::fs::write(scratch.join("file"), &whole[..cut]).unwrap();
        let found = read(&over(&store), "file").unwrap_or_else(|e| panic!("cut to {cut} bytes: {e}"));
        assert!(states.contains(&&found[..]), "cut to {cut} bytes: {found:?}");
        let file = open(&over(&store), "file", OpenWrite::Existing, 2);
        file.append(&[IoSlice::new(b" and on")]).unwrap();
        file.close().unwrap();
        assert_eq!(read(&over(&store), "file").unwrap(), [&found[..], b" and on"].concat(), "cut to {cut} bytes");
        if scratch.join(".thalweg/c").exists() {
            std::fs::remove_dir_all(scratch.join(".thalweg/c")).unwrap();
            std::fs::remove_dir_all(scratch.join(".thalweg/d")).unwrap();
        }
    }
    let mut refused = 0;
    for at in 0..whole.len() {
        let mut changed = whole.clone();
        changed[at] ^= 0x10;
        std::fs::write(scratch.join("file"), &changed).unwrap();
        match read(&over(&store), "file") {
            Ok(found) => assert!(states.contains(&&found[..]), "byte {at}: {found:?}"),
            Err(e) => {
                assert!(matches!(e.kind(), ErrorKind::Corrupt | ErrorKind::Unsupported), "byte {at}: {e}");
                assert!(e.to_string().contains("file"), "{e}");
                refused += 1;
            }
        }
    }
    assert!(refused * 2 > whole.len(), "{refused} of {} changed bytes are refused", whole.len());
}

#[test]
fn who_makes_appends_and_changes_the_same_file_at_once_loses_nothing() {
    const EACH: u32 = 12;
    let scratch = Scratch::new();
    let store = posix(scratch.path());
    for round in 0..10 {
        let name = format!("file{round}");
        std::thread::scope(|scope| {
            for writer in 0..3u32 {
                let (store, name) = (&store, &name);
                scope.spawn(move || {
                    for k in 0..EACH {
                        let layout = over(store);
                        let file = open(&layout, name, OpenWrite::Any, writer);
                        file.append(&[IoSlice::new(format!("{writer} {k}\n").as_bytes())]).unwrap();
                        file.close().unwrap();
                    }
                });
            }
            let (store, name) = (&store, &name);
            scope.spawn(move || {
                let layout = over(store);
                // Until one of the others has made it.
                while !store.exists(name).unwrap() {
                    std::thread::yield_now();
                }
                for k in 0..EACH {
                    layout.xattr_set(name, &format!("user.{k}"), b"kept", SetXattr::New).unwrap();
                    assert!(layout.xattr_list(name).unwrap().contains(&format!("user.{k}")));
                    layout.set_attributes(name, &mode(0o600 | k)).unwrap();
                }
            });
        });
        let bytes = read(&over(&store), &name).unwrap();
        let mut lines: Vec<String> = String::from_utf8(bytes).unwrap().lines().map(str::to_string).collect();
        lines.sort_unstable();
        let mut expected: Vec<String> = (0..3).flat_map(|w| (0..EACH).map(move |k| format!("{w} {k}"))).collect();
        expected.sort_unstable();
        assert_eq!(lines, expected);
        let report = over(&store).check(&name).unwrap();
        assert!(report.findings.iter().all(|f| f.trouble == Trouble::Tie), "{report:?}");
        over(&store).remove(&name).unwrap();
    }
    assert_eq!(objects(scratch.path()), NOTHING);
}

#[test]
fn what_is_made_of_a_name_that_others_take_makes_one_file() {
    let scratch = Scratch::new();
    let store = posix(scratch.path());
    for round in 0..50 {
        let name = format!("file{round}");
        let made = std::thread::scope(|scope| {
            let makers = [0u32, 1, 2].map(|writer| {
                let (store, name) = (&store, &name);
                scope.spawn(move || {
                    match over(store).open_write(name, OpenWrite::New, thalweg_layout::WriterId(writer)) {
                        Ok(file) => {
                            write(&*file, 0, &[writer as u8 + 1]);
                            file.close().unwrap();
                            1
                        }
                        Err(e) => {
                            assert_eq!(e.kind(), ErrorKind::AlreadyExists);
                            0
                        }
                    }
                })
            });
            makers.map(|maker| maker.join().unwrap()).iter().sum::<u32>()
        });
        assert_eq!((made, read(&over(&store), &name).unwrap().len()), (1, 1));
    }
    assert_eq!(objects(scratch.path()).len(), 50, "nothing else is left");
}

#[test]
fn a_file_that_is_renamed_linked_and_removed_under_its_maker_stays_that_file() {
    for length in [100usize, 40_000] {
        let scratch = Scratch::new();
        let store = posix(scratch.path());
        let other = over(&store);
        let bytes = pattern(3, length);
        // Renamed, with another file under the old name; and a hard link.
        let file = open(&over(&store), "file", OpenWrite::New, 0);
        write(&*file, 0, &bytes[..50]);
        other.make_hard_link("file", "second").unwrap();
        other.rename("file", "renamed").unwrap();
        put(&other, "file", b"of another");
        write(&*file, 50, &bytes[50..]);
        file.close().unwrap();
        for name in ["renamed", "second"] {
            assert!(read(&over(&store), name).unwrap() == bytes, "{name}");
            assert_eq!(over(&store).attributes(name).unwrap().links, 2);
        }
        assert_eq!(read(&over(&store), "file").unwrap(), b"of another");
        over(&store).remove("second").unwrap();
        assert!(read(&over(&store), "renamed").unwrap() == bytes);
        // Removed by another, and by its own process.
        for remover in [&over(&store), &other] {
            let file = open(&other, "gone", OpenWrite::New, 0);
            write(&*file, 0, &bytes[..50]);
            remover.remove("gone").unwrap();
            write(&*file, 50, &bytes[50..]);
            let mut again = vec![0; length];
            assert_eq!(file.read_at(0, &mut again).unwrap(), length);
            assert!(again == bytes);
            file.close().unwrap();
            assert!(!other.list("").unwrap().contains(&"gone".to_string()));
        }
        // Replaced while another reads it.
        let reader = over(&store).open_read("renamed").unwrap();
        over(&store).rename("file", "renamed").unwrap();
        let mut first = [0; 50];
        if length < 1000 {
            assert_eq!(reader.read_at(0, &mut first).unwrap(), 50);
            assert_eq!(first, bytes[..50]);
        }
        drop(reader);
        over(&store).remove("renamed").unwrap();
        assert_eq!(objects(scratch.path()), NOTHING);
    }
}

#[test]
fn a_stricter_mode_protects_what_lies_behind_the_stamp_and_what_it_becomes() {
    use std::os::unix::fs::PermissionsExt;
    let scratch = Scratch::new();
    let store = posix(scratch.path());
    let layout = over(&store);
    let bits = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    put(&layout, "file", b"secret");
    layout.set_attributes("file", &mode(0o600)).unwrap();
    assert_eq!(bits(&scratch.join("file")), 0o600);
    // As a door makes it: the mode comes before the first byte.
    let file = open(&layout, "made", OpenWrite::New, 0);
    file.set_attributes(&mode(0o640)).unwrap();
    assert_eq!(bits(&scratch.join("made")), 0o640);
    assert_eq!(file.attributes().unwrap().mode, 0o640);
    write(&*file, 0, b"secret");
    file.close().unwrap();
    assert_eq!(objects(scratch.path()).len(), 2);
    assert_eq!(layout.attributes("made").unwrap().mode, 0o640);
    // Outgrown.
    let file = open(&layout, "file", OpenWrite::Existing, 0);
    write(&*file, 0, &pattern(1, 50_000));
    file.close().unwrap();
    let folders = |group: &str| {
        let group = std::fs::read_dir(scratch.join(group)).unwrap().next().unwrap().unwrap().path();
        std::fs::read_dir(group).unwrap().next().unwrap().unwrap().path()
    };
    for folder in [folders(".thalweg/c"), folders(".thalweg/d")] {
        assert_eq!(bits(&folder), 0o700, "{}", folder.display());
    }
    layout.set_attributes("file", &mode(0o644)).unwrap();
    assert_eq!((bits(&scratch.join("file")), bits(&folders(".thalweg/d"))), (0o644, 0o755));
}

#[test]
fn attributes_that_would_fill_it_go_to_the_folder() {
    let scratch = Scratch::new();
    let store = posix(scratch.path());
    let layout = over(&store);
    put(&layout, "file", b"bytes");
    for k in 0..300u32 {
        layout.xattr_set("file", "user.a", &vec![k as u8; 2000], SetXattr::Any).unwrap();
    }
    assert!(std::fs::metadata(scratch.join("file")).unwrap().len() < 300_000);
    assert_eq!(over(&store).xattr_get("file", "user.a").unwrap().unwrap(), vec![43; 2000]);
    for k in 0..300u32 {
        put(&layout, "file", format!("{k}").as_bytes());
    }
    assert!(std::fs::metadata(scratch.join("file")).unwrap().len() < 300_000);
    assert_eq!(read(&over(&store), "file").unwrap(), b"299");
    assert_eq!(over(&store).xattr_get("file", "user.a").unwrap().unwrap(), vec![43; 2000]);
    layout.remove("file").unwrap();
    assert_eq!(objects(scratch.path()), NOTHING);
}

/// Makes a file, syncs, closes; then another session.
fn session(layout: &Container) -> thalweg_types::Result<()> {
    let file = layout.open_write("file", OpenWrite::Any, thalweg_layout::WriterId(3))?;
    let written = (|| {
        file.append(&[IoSlice::new(&pattern(1, 700))])?;
        file.sync()?;
        file.append(&[IoSlice::new(&pattern(2, 700))]).map(|_| ())
    })();
    written.and(file.close())
}

#[test]
fn whichever_call_fails_what_was_closed_is_read_and_the_error_is_told() {
    let mut swept = 0;
    for (kind, before) in [(ErrorKind::NoSpace, 0), (ErrorKind::Io, 0), (ErrorKind::NoSpace, 1), (ErrorKind::Io, 1)] {
        for asked in [
            StoreCall::OpenWrite,
            StoreCall::Write,
            StoreCall::Rename,
            StoreCall::Sync,
            StoreCall::Truncate,
            StoreCall::Length,
            StoreCall::Read,
        ] {
            for half in [false, true] {
                for k in 0.. {
                    let scratch = Scratch::new();
                    let failing = Arc::new(Failing::new(posix(scratch.path())));
                    let store: Arc<dyn Store> = failing.clone();
                    over(&store).list("").unwrap();
                    put(&over(&store), "other", b"other");
                    if before > 0 {
                        put(&over(&store), "file", b"before");
                    }
                    let old = if before > 0 { &b"before"[..] } else { b"" };
                    let fault = Fault::of(asked).with(kind).skipping(k).times(1);
                    failing.fail(if half { fault.half_way() } else { fault });
                    let outcome = session(&over(&store));
                    let words = format!("{asked:?} number {k}, half {half}, {before} before: {outcome:?}");
                    let struck = failing.failed().0 > 0;
                    failing.heal();
                    let states = [0, 700, 1400]
                        .map(|n| [old, &pattern(1, 700)[..n.min(700)], &pattern(2, 700)[..n.max(700) - 700]].concat());
                    if store.exists("file").unwrap() {
                        let found = read(&over(&store), "file").unwrap_or_else(|e| panic!("{words}: {e}"));
                        assert!(states.contains(&found), "{words}: {} bytes", found.len());
                        assert!(outcome.is_err() || found == states[2], "{words}: {} bytes", found.len());
                        // The session that failed was given up.
                        let report = over(&store).check("file").unwrap();
                        assert!(report.is_clean(), "{words}: {report:?}");
                        assert_eq!(over(&store).repair("file", Accept::SURE).unwrap(), [], "{words}");
                        session(&over(&store)).unwrap_or_else(|e| panic!("{words}: {e}"));
                        assert_eq!(read(&over(&store), "file").unwrap().len(), found.len() + 1400, "{words}");
                        over(&store).remove("file").unwrap();
                    } else {
                        assert!(outcome.is_err() && before == 0, "{words}");
                    }
                    assert_eq!(read(&over(&store), "other").unwrap(), b"other");
                    over(&store).remove("other").unwrap();
                    over(&store).nameless(std::time::Duration::ZERO, true).unwrap();
                    assert_eq!(objects(scratch.path()), NOTHING, "{words}");
                    if !struck {
                        assert!(outcome.is_ok(), "{words}");
                        break;
                    }
                    swept += 1;
                }
            }
        }
    }
    println!("{swept} calls failed");
    assert!(swept > 60, "{swept} calls failed");
}

#[test]
fn stores_that_cannot_and_mounts_that_are_told_not_to_make_folders_as_ever() {
    let scratch = Scratch::new();
    let store = posix(scratch.path());
    let layout = in_folders(std::slice::from_ref(&store));
    put(&layout, "file", b"bytes");
    let bytes = std::fs::read(scratch.join("file")).unwrap();
    assert_eq!(bytes[8], 1, "version");
    assert!(objects(scratch.path()).len() > 3);
    let memory: Arc<dyn Store> = Arc::new(thalweg_store::Memory::new());
    put(&over(&memory), "file", b"bytes");
    assert_eq!(memory.read_all("file").unwrap()[8], 1);
    // What others made small is written there as told.
    put(&over(&store), "small", b"bytes");
    let file = open(&layout, "small", OpenWrite::Existing, 1);
    write(&*file, 5, b"more");
    file.close().unwrap();
    assert_eq!(inside(&scratch.join("small")), "Hcd");
    assert_eq!(read(&over(&store), "small").unwrap(), b"bytesmore");
}

#[test]
fn torn_bytes_are_cut_off_before_something_is_added() {
    let scratch = Scratch::new();
    let store = posix(scratch.path());
    put(&over(&store), "file", b"closed");
    let whole = std::fs::read(scratch.join("file")).unwrap();
    let file = open(&over(&store), "file", OpenWrite::Existing, 1);
    file.append(&[IoSlice::new(&pattern(1, 20_000))]).unwrap();
    file.close().unwrap();
    let longer = std::fs::read(scratch.join("file")).unwrap();
    // Of what the second session wrote, as much as a power cut leaves: the head of its data, and more than is added next.
    for left in [1, 20, 5000, 15_000] {
        for folder in ["c", "d"] {
            let _ = std::fs::remove_dir_all(scratch.join(".thalweg").join(folder));
        }
        std::fs::write(scratch.join("file"), &longer[..whole.len() + left]).unwrap();
        let file = open(&over(&store), "file", OpenWrite::Existing, 2);
        file.append(&[IoSlice::new(b" and on")]).unwrap();
        file.close().unwrap();
        assert_eq!(read(&over(&store), "file").unwrap(), b"closed and on", "{left} bytes were left");
        let bytes = std::fs::read(scratch.join("file")).unwrap();
        let (stamp, length) = Stamp::decode_first(&bytes).unwrap();
        let mut tail = Tail::new(stamp.container, length as u64);
        tail.extend(&bytes[length..]).unwrap();
        assert_eq!(tail.end(), bytes.len() as u64, "{left} bytes were left: torn ones lie behind what was added");
    }
}

#[test]
fn a_file_that_outgrows_its_place_without_a_name_leaves_no_folder_though_a_look_at_its_names_fails() {
    for skipped in 0.. {
        let scratch = Scratch::new();
        let store = Arc::new(Failing::new(posix(scratch.path())));
        let layout = over(&(store.clone() as Arc<dyn Store>));
        let file = open(&layout, "file", OpenWrite::New, 0);
        write(&*file, 0, b"small");
        file.publish().unwrap();
        // By another process.
        over(&posix(scratch.path())).remove("file").unwrap();
        store.fail(Fault::of(StoreCall::Attributes).skipping(skipped).times(1));
        let _ = thalweg_layout::write_all_at(&*file, 0, &pattern(2, 3_000_000)).and_then(|()| file.sync());
        let failed = store.failed().0;
        store.heal();
        let _ = file.close();
        drop(layout);
        assert_eq!(objects(scratch.path()), NOTHING, "look {skipped} failed");
        if failed == 0 {
            assert!(skipped > 0, "no look was made to fail");
            break;
        }
    }
}
