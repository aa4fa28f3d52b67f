//! Names as long as the system takes them, and longer: a file is there as a whole, or it is refused as too long and nothing
//! of it is left.

use std::io::IoSlice;
use std::process::Command;
use std::sync::Arc;
use thalweg_conformance::scratch::Scratch;
use thalweg_layout::small_file::Settings;
use thalweg_layout::{Container, Direct, Flat, Layout, OpenWrite, SmallFile, WriterId, errno};
use thalweg_store::{Posix, Store};
use thalweg_types::Result;

const NAMETOOLONG: i32 = 36;
const BYTES: &[u8] = b"bytes of a file with a long name";

fn layouts(scratch: &Scratch) -> Vec<(&'static str, Box<dyn Layout>)> {
    let store = |name: &str| {
        std::fs::create_dir(scratch.join(name)).unwrap();
        Arc::new(Posix::at(scratch.join(name)).unwrap()) as Arc<dyn Store>
    };
    vec![
        ("direct", Box::new(Direct::new(store("direct")).unwrap())),
        ("flat", Box::new(Flat::new(vec![store("flat-0"), store("flat-1"), store("flat-2")]).unwrap())),
        ("container", Box::new(Container::new(vec![store("container")], Default::default()).unwrap())),
        (
            "small_file",
            Box::new(SmallFile::new(store("small"), Settings { small: 1000, ..Settings::default() }).unwrap()),
        ),
    ]
}

/// Everything below a folder, however long its path.
fn below(scratch: &Scratch) -> usize {
    let told = Command::new("find").current_dir(scratch.path()).arg(".").output().unwrap();
    assert!(told.status.success(), "{}", String::from_utf8_lossy(&told.stderr));
    told.stdout.iter().filter(|byte| **byte == b'\n').count()
}

fn write(layout: &dyn Layout, path: &str) -> Result<()> {
    let file = layout.open_write(path, OpenWrite::New, WriterId(0))?;
    file.append(&[IoSlice::new(BYTES)])?;
    file.sync()?;
    file.close()
}

fn is_refused(what: &str, error: &thalweg_types::Error, last: &str) {
    assert_eq!(errno::of(error), NAMETOOLONG, "{what}: {error}");
    assert!(error.to_string().contains(last), "{what}: the place is missing in {error}");
}

/// Whether a file can be made there.
fn whole_or_refused(what: &str, layout: &dyn Layout, scratch: &Scratch, parent: &str, last: &str) -> bool {
    let path = format!("{parent}/{last}");
    let before = below(scratch);
    if let Err(error) = write(layout, &path) {
        is_refused(what, &error, last);
        assert_eq!(below(scratch), before, "{what}: something is left of what was refused");
        assert!(!layout.list(parent).unwrap_or_default().contains(&last.to_string()), "{what}");
        let other = format!("{}-other", what.split(' ').next().unwrap());
        write(layout, &other).unwrap();
        is_refused(what, &layout.rename(&other, &path).unwrap_err(), last);
        let mut out = [0; BYTES.len()];
        assert_eq!(layout.open_read(&other).unwrap().read_at(0, &mut out).unwrap(), BYTES.len(), "{what}");
        layout.remove(&other).unwrap();
        return false;
    }
    let mut out = [0; BYTES.len()];
    assert_eq!(layout.open_read(&path).unwrap().read_at(0, &mut out).unwrap(), BYTES.len(), "{what}");
    assert_eq!((&out[..], layout.stat(&path).unwrap().length), (BYTES, BYTES.len() as u64), "{what}");
    assert!(layout.list(parent).unwrap().contains(&last.to_string()), "{what}");
    let moved = format!("{parent}/{}", "m".repeat(last.len()));
    layout.rename(&path, &moved).unwrap_or_else(|e| panic!("{what}: {e}"));
    layout.remove(&moved).unwrap_or_else(|e| panic!("{what}: {e}"));
    assert!(layout.list(parent).unwrap().is_empty(), "{what}");
    true
}

#[test]
fn names_of_255_bytes_are_names_and_longer_ones_are_refused() {
    let scratch = Scratch::new();
    for (kind, layout) in layouts(&scratch) {
        layout.make_folder("folder").unwrap();
        for length in [200, 240, 250, 254, 255] {
            let what = format!("{kind}, a name of {length}");
            assert!(whole_or_refused(&what, &*layout, &scratch, "folder", &"n".repeat(length)), "{what}");
        }
        for length in [256, 300, 5000] {
            let what = format!("{kind}, a name of {length}");
            assert!(!whole_or_refused(&what, &*layout, &scratch, "folder", &"n".repeat(length)), "{what}");
        }
        let refused = layout.make_one_folder(&"n".repeat(256), 0o777).unwrap_err();
        is_refused(kind, &refused, "nnn");
    }
}

/// Folders below each other, so that a name of `last` bytes in the innermost makes a path of `length` bytes.
fn folders(layout: &dyn Layout, length: usize, last: usize) -> String {
    let mut path = "d".repeat(100);
    layout.make_one_folder(&path, 0o777).unwrap();
    while path.len() + 1 + last < length {
        let left = length - last - 1 - path.len();
        // No name of nothing is left over.
        let next = if left > 252 { 200 } else { left - 1 };
        path = format!("{path}/{}", "d".repeat(next));
        layout.make_one_folder(&path, 0o777).unwrap_or_else(|e| panic!("{} bytes: {e}", path.len()));
    }
    path
}

#[test]
fn a_path_of_4095_bytes_is_a_path_whatever_the_stores_folder_and_the_layout_add_to_it() {
    for (which, kind) in layouts(&Scratch::new()).iter().map(|(kind, _)| *kind).enumerate() {
        let scratch = Scratch::new();
        let (_, layout) = layouts(&scratch).swap_remove(which);
        let parent = folders(&*layout, 3880, 10);
        // From where the path alone is long to where all that a program can say is used up.
        for last in (1..=255).step_by(14).filter(|last| parent.len() + 1 + last <= 4095).chain([4094 - parent.len()]) {
            let what = format!("{kind}, a path of {} bytes", parent.len() + 1 + last);
            assert!(whole_or_refused(&what, &*layout, &scratch, &parent, &"n".repeat(last)), "{what}");
        }
        // And what outgrows its first place.
        let path = format!("{parent}/{}", "n".repeat(4094 - parent.len()));
        let file = layout.open_write(&path, OpenWrite::New, WriterId(0)).unwrap();
        for at in 0..3 {
            file.write_at(at * 1_000_000, &[IoSlice::new(&vec![at as u8; 1_000_000])]).unwrap();
            file.sync().unwrap();
        }
        file.close().unwrap();
        layout.sync_folder(&parent).unwrap();
        let mut out = vec![7; 3_000_000];
        assert_eq!(layout.open_read(&path).unwrap().read_at(0, &mut out).unwrap(), out.len(), "{kind}");
        assert!((0..3).all(|at| out[at * 1_000_000..][..1_000_000].iter().all(|byte| *byte == at as u8)), "{kind}");
        // The folder and the file itself move together.
        let folder = parent.rsplit_once('/').unwrap().0;
        layout.rename(&parent, &format!("{folder}/r")).unwrap();
        assert_eq!(layout.stat(&format!("{folder}/r/{}", "n".repeat(4094 - parent.len()))).unwrap().length, 3_000_000);
        layout.remove(&format!("{folder}/r/{}", "n".repeat(4094 - parent.len()))).unwrap();
        layout.remove(&format!("{folder}/r")).unwrap();
        assert!(layout.list(folder).unwrap().is_empty(), "{kind}");
    }
}
