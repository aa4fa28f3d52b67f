//! The promises of layouts: those of a store that writes at any offset, and that writers don't disturb each other.

use crate::store;
use std::io::IoSlice;
use std::path::Path;
use std::time::{Duration, UNIX_EPOCH};
use thalweg_layout::{Change, Kind, Layout, OpenWrite, ReadObject, SetXattr, Stat, WriteObject, WriterId, errno};
use thalweg_store::{Capability, Rename, Store, Visible};
use thalweg_types::{ErrorKind, Result};

pub mod model;

/// Checks every promise, in a folder `conformance`, which is removed at the end.
///
/// # Panics
/// At the first promise that is broken, naming it on standard error.
pub fn check(layout: &dyn Layout) {
    store::check(&AsStore(layout));
    writers_of_disjoint_extents_form_one_file(layout);
    a_second_open_by_the_same_writer_keeps_the_bytes(layout);
    check_closed_lengths(layout, layout);
}

/// Checks that the length which [`Layout::stat`] tells behind a close covers what other handles have closed.
///
/// - `layout`, `other`: the same files; two layouts over the same stores stand for two processes.
///
/// # Panics
/// As [`check`].
pub fn check_closed_lengths(layout: &dyn Layout, other: &dyn Layout) {
    const NAME: &str = "closed lengths";
    let layouts = [layout, other];
    layout.open_write(NAME, OpenWrite::Replace, WriterId(0)).unwrap().close().unwrap();
    // Three handles, two of the first layout, close in every order; each writes up to an end of its own.
    let handles = [(0, 300), (0, 100), (1, 200)];
    for (round, order) in [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]].into_iter().enumerate() {
        let start = round as u64 * 1000;
        let mut open: Vec<Option<Box<dyn WriteObject>>> = (0..handles.len())
            .map(|n| Some(layouts[handles[n].0].open_write(NAME, OpenWrite::Existing, WriterId(n as u32 + 1)).unwrap()))
            .collect();
        for (file, (_, end)) in open.iter().zip(handles) {
            thalweg_layout::write_all_at(&**file.as_ref().unwrap(), start + end - 10, &[7; 10]).unwrap();
        }
        let mut closed = [0; 2];
        for n in order {
            open[n].take().unwrap().close().unwrap();
            let (by, end) = handles[n];
            closed[by] = closed[by].max(start + end);
            for (asked, layout) in layouts.into_iter().enumerate() {
                // A file that is kept whole and open there shows what others closed when it is opened again.
                let holds = open.iter().zip(handles).any(|(file, (of, _))| file.is_some() && of == asked);
                let covered = if holds && layout.keeps_whole(NAME) { closed[asked] } else { closed[0].max(closed[1]) };
                let length = layout.stat(NAME).unwrap().length;
                let told = format!("{}: round {round}, handle {n} has closed", layout.describe());
                assert!(length >= covered, "{told}, layout {asked} tells {length} bytes: {covered} were closed");
            }
        }
        for layout in layouts {
            assert_eq!(layout.stat(NAME).unwrap().length, start + 300, "{}: round {round}", layout.describe());
        }
    }
    layout.remove(NAME).unwrap();
}

/// Checks names and attributes: cutting, renames of folders, modes, times, links, as far as the layout has them.
///
/// # Panics
/// As [`check`].
pub fn check_names_and_attributes(layout: &dyn Layout) {
    a_file_is_cut_by_its_name_and_what_was_cut_off_does_not_come_back(layout);
    a_folder_is_renamed_with_what_is_in_it(layout);
    one_folder_is_made_at_a_time(layout);
    changed_attributes_are_those_of_one_file(layout);
    links_hold_what_they_were_made_with(layout);
    extended_attributes_come_back(layout);
}

/// Checks that failures have the numbers that the manual pages name; for layouts over stores that tell them apart.
///
/// # Panics
/// As [`check`].
pub fn check_error_numbers(layout: &dyn Layout) {
    use errno::Errno as E;
    #[track_caller]
    fn is<T>(result: Result<T>, number: E, what: &str) {
        let error = result.err().unwrap_or_else(|| panic!("{what}: succeeded"));
        assert_eq!(E::from_raw_os_error(errno::of(&error)), number, "{what}: {error}");
    }
    make(layout, "file", b"bytes");
    make(layout, "other", b"bytes");
    layout.make_folder("full/inner").unwrap();
    layout.make_folder("empty").unwrap();
    is(layout.open_read("gone"), E::NOENT, "reading what is not there");
    is(layout.open_read("empty"), E::ISDIR, "reading a folder");
    is(layout.open_write("empty", OpenWrite::Any, WriterId(0)), E::ISDIR, "writing a folder");
    is(layout.open_write("file", OpenWrite::New, WriterId(0)), E::EXIST, "making what is there");
    is(layout.open_write("gone/x", OpenWrite::New, WriterId(0)), E::NOENT, "making a file in no folder");
    is(layout.make_one_folder("empty", 0o755), E::EXIST, "making a folder that is there");
    is(layout.make_one_folder("file", 0o755), E::EXIST, "making a folder of a file's name");
    is(layout.make_one_folder("gone/x", 0o755), E::NOENT, "making a folder in no folder");
    is(layout.remove("full"), E::NOTEMPTY, "removing a folder that is not empty");
    is(layout.remove("gone"), E::NOENT, "removing what is not there");
    is(layout.rename("gone", "x"), E::NOENT, "renaming what is not there");
    is(layout.rename("file", "empty"), E::ISDIR, "renaming a file over a folder");
    is(layout.rename("empty", "file"), E::NOTDIR, "renaming a folder over a file");
    is(layout.rename("empty", "full"), E::NOTEMPTY, "renaming over a folder that is not empty");
    is(layout.rename("full", "full/inner/x"), E::INVAL, "renaming a folder into itself");
    is(layout.truncate("gone", 1), E::NOENT, "cutting what is not there");
    is(layout.attributes("gone"), E::NOENT, "asking about what is not there");
    for name in ["file", "other", "full/inner", "full", "empty"] {
        layout.remove(name).unwrap();
    }
}

/// The data logs of `container` files that are objects below a folder. Inline data logs are not counted.
///
/// # Panics
/// If the folder cannot be read.
pub fn data_logs(folder: &Path) -> usize {
    let mut found = 0;
    for entry in std::fs::read_dir(folder).unwrap() {
        let entry = entry.unwrap();
        // Of the entry itself: a link to a directory is not entered.
        match entry.file_type().unwrap().is_dir() {
            true => found += data_logs(&entry.path()),
            false => found += usize::from(entry.path().extension().is_some_and(|kind| kind == "data")),
        }
    }
    found
}

/// Checks where a container stores a short file, so that a test of one form is not a test of the other.
///
/// - `folder`: holds the layout's stores.
/// - `in_log`: in a data log that is an object; otherwise inline, in the object of the file's name.
///
/// # Panics
/// As [`check`].
pub fn check_short_file(layout: &dyn Layout, folder: &Path, in_log: bool) {
    const NAME: &str = "short file";
    let before = data_logs(folder);
    make(layout, NAME, b"bytes");
    let made = data_logs(folder) - before;
    assert_eq!(made, usize::from(in_log), "{}: data logs of a short file", layout.describe());
    assert_eq!(read(layout, NAME), b"bytes");
    layout.remove(NAME).unwrap();
}

fn make(layout: &dyn Layout, path: &str, bytes: &[u8]) {
    let file = layout.open_write(path, OpenWrite::Replace, WriterId(0)).unwrap();
    thalweg_layout::write_all_at(&*file, 0, bytes).unwrap();
    file.close().unwrap();
}

fn read(layout: &dyn Layout, path: &str) -> Vec<u8> {
    let file = layout.open_read(path).unwrap();
    let mut bytes = vec![0; file.length().unwrap() as usize];
    file.read_exact_at(0, &mut bytes).unwrap();
    bytes
}

/// The result, or nothing where the layout does not have it.
#[track_caller]
fn where_kept<T>(result: Result<T>) -> Option<T> {
    match result {
        Ok(value) => Some(value),
        Err(e) if e.kind() == ErrorKind::Unsupported => None,
        Err(e) => panic!("{e}"),
    }
}

fn a_file_is_cut_by_its_name_and_what_was_cut_off_does_not_come_back(layout: &dyn Layout) {
    make(layout, "cut", &[7; 1000]);
    layout.truncate("cut", 10).unwrap();
    layout.truncate("cut", 20).unwrap();
    assert_eq!(read(layout, "cut"), [[7; 10], [0; 10]].concat());
    assert_eq!(layout.stat("cut").unwrap().length, 20);
    layout.remove("cut").unwrap();
}

fn a_folder_is_renamed_with_what_is_in_it(layout: &dyn Layout) {
    layout.make_folder("from/deep").unwrap();
    make(layout, "from/a", b"a");
    make(layout, "from/deep/b", b"b");
    let Some(()) = where_kept(layout.rename("from", "to")) else {
        for name in ["from/deep/b", "from/deep", "from/a", "from"] {
            layout.remove(name).unwrap();
        }
        return;
    };
    assert_eq!(layout.list("to").unwrap(), ["a", "deep"]);
    assert_eq!((read(layout, "to/a"), read(layout, "to/deep/b")), (b"a".to_vec(), b"b".to_vec()));
    assert_eq!(layout.stat("from").unwrap_err().kind(), ErrorKind::NotFound);
    layout.make_folder("empty").unwrap();
    layout.rename("to", "empty").unwrap();
    assert_eq!(read(layout, "empty/deep/b"), b"b", "an empty folder is replaced");
    make(layout, "empty/deep/c", b"c");
    for name in ["empty/deep/b", "empty/deep/c", "empty/deep", "empty/a", "empty"] {
        layout.remove(name).unwrap();
    }
}

fn one_folder_is_made_at_a_time(layout: &dyn Layout) {
    assert_eq!(layout.make_one_folder("one/two", 0o755).unwrap_err().kind(), ErrorKind::NotFound);
    layout.make_one_folder("one", 0o755).unwrap();
    layout.make_one_folder("one/two", 0o755).unwrap();
    assert_eq!(layout.make_one_folder("one", 0o755).unwrap_err().kind(), ErrorKind::AlreadyExists);
    layout.remove("one/two").unwrap();
    layout.remove("one").unwrap();
}

fn changed_attributes_are_those_of_one_file(layout: &dyn Layout) {
    make(layout, "one", b"1");
    make(layout, "two", b"22");
    if let Some(before) = where_kept(layout.attributes("two")) {
        assert_eq!((before.kind, before.length, before.links), (Kind::File, 2, 1));
        let time = UNIX_EPOCH + Duration::new(1_000_000_000, 123_000_000);
        let change = Change { mode: Some(0o640), mtime: Some(time), ..Change::default() };
        layout.set_attributes("one", &change).unwrap();
        let after = layout.attributes("one").unwrap();
        assert_eq!((after.mode, after.mtime, after.length), (0o640, time, 1));
        let other = layout.attributes("two").unwrap();
        assert_eq!((other.mode, other.mtime), (before.mode, before.mtime), "the other file is as it was");
        layout.rename("one", "three").unwrap();
        let moved = layout.attributes("three").unwrap();
        assert_eq!((moved.mode, moved.mtime), (0o640, time), "a rename takes them along");
        layout.rename("three", "one").unwrap();
    }
    layout.remove("one").unwrap();
    layout.remove("two").unwrap();
}

fn links_hold_what_they_were_made_with(layout: &dyn Layout) {
    let Some(()) = where_kept(layout.make_link("not/there", "link")) else { return };
    assert_eq!(layout.read_link("link").unwrap(), "not/there");
    let about = layout.attributes("link").unwrap();
    assert_eq!((about.kind, about.length), (Kind::Link, 9));
    assert_eq!(layout.make_link("x", "link").unwrap_err().kind(), ErrorKind::AlreadyExists);
    layout.rename("link", "moved").unwrap();
    assert_eq!(layout.read_link("moved").unwrap(), "not/there");
    layout.remove("moved").unwrap();
    make(layout, "file", b"");
    assert_eq!(layout.read_link("file").unwrap_err().kind(), ErrorKind::InvalidArgument);
    layout.remove("file").unwrap();
}

fn extended_attributes_come_back(layout: &dyn Layout) {
    make(layout, "file", b"");
    if let Some(()) = where_kept(layout.xattr_set("file", "user.comment", b"text", SetXattr::New)) {
        assert_eq!(layout.xattr_get("file", "user.comment").unwrap(), Some(b"text".to_vec()));
        assert_eq!(layout.xattr_list("file").unwrap(), ["user.comment"]);
        let again = layout.xattr_set("file", "user.comment", b"", SetXattr::New).unwrap_err();
        assert_eq!(again.kind(), ErrorKind::AlreadyExists);
        let gone = layout.xattr_set("file", "user.gone", b"", SetXattr::Existing).unwrap_err();
        let number = errno::Errno::from_raw_os_error(errno::of(&gone));
        assert!([errno::Errno::NODATA, errno::Errno::NOENT].contains(&number), "{gone}");
        layout.rename("file", "moved").unwrap();
        assert_eq!(
            layout.xattr_get("moved", "user.comment").unwrap(),
            Some(b"text".to_vec()),
            "a rename takes it along"
        );
        make(layout, "file", b"");
        assert_eq!(layout.xattr_list("file").unwrap(), [""; 0], "a file that is made anew has none");
        layout.rename("moved", "file").unwrap();
        layout.xattr_remove("file", "user.comment").unwrap();
        assert_eq!(layout.xattr_get("file", "user.comment").unwrap(), None);
    }
    layout.remove("file").unwrap();
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

/// Of two handles that have not seen each other's writes: bytes of the one that was ordered later stay, whichever writer has the higher
/// number and whichever wrote first.
///
/// - `layout`, `other`: the same files; two layouts over the same stores stand for two processes.
///
/// # Panics
/// As [`check`].
pub fn check_order(layout: &dyn Layout, other: &dyn Layout) {
    const NAME: &str = "ordered";
    for (first, second) in [(1, 2), (2, 1)] {
        layout.open_write(NAME, OpenWrite::Replace, WriterId(0)).unwrap().close().unwrap();
        let later = layout.open_write(NAME, OpenWrite::Existing, WriterId(first)).unwrap();
        let earlier = other.open_write(NAME, OpenWrite::Existing, WriterId(second)).unwrap();
        let order = later.order().max(earlier.order());
        earlier.order_from(order + 1);
        thalweg_layout::write_all_at(&*earlier, 0, b"earlier").unwrap();
        later.order_from(order + 1000);
        assert!(later.order() >= order + 1000 || later.order() == 0, "{}", layout.describe());
        thalweg_layout::write_all_at(&*later, 2, b"later").unwrap();
        thalweg_layout::write_all_at(&*earlier, 7, b"!").unwrap();
        later.close().unwrap();
        earlier.close().unwrap();
        for layout in [layout, other] {
            let mut bytes = [0; 8];
            layout.open_read(NAME).unwrap().read_exact_at(0, &mut bytes).unwrap();
            assert_eq!(&bytes, b"ealater!", "{}", layout.describe());
        }
    }
    layout.remove(NAME).unwrap();
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

/// A layout with the interface of a store. Reclaiming space is no promise of layouts.
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
