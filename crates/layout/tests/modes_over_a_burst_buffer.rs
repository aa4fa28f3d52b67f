//! Permission bits of a file hold in both stores of a burst buffer, before the drain and after it.

use std::io::IoSlice;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use thalweg_conformance::scratch::Scratch;
use thalweg_layout::small_file::Settings;
use thalweg_layout::{Change, Container, Direct, Layout, OpenWrite, SmallFile, WriterId, container};
use thalweg_store::wrap::tiered::{Drain, Pace, Tiered};
use thalweg_store::{Posix, Store};

static GO: AtomicBool = AtomicBool::new(false);
const SECRET: &[u8] = b"the secret of somebody";

type Make = fn(Arc<dyn Store>) -> Box<dyn Layout>;

fn layouts() -> [(&'static str, Make); 3] {
    [
        ("direct", |store| Box::new(Direct::new(store).unwrap())),
        ("small_file", |store| {
            Box::new(SmallFile::new(store, Settings { small: 1000, ..Settings::default() }).unwrap())
        }),
        ("container", |store| Box::new(over(store, "here"))),
    ]
}

fn over(store: Arc<dyn Store>, host: &str) -> Container {
    let options = container::Options { host: host.into(), ..container::Options::default() };
    Container::new(vec![store], options).unwrap()
}

fn stores() -> Scratch {
    rustix::process::umask(rustix::fs::Mode::from_raw_mode(0o022));
    let scratch = Scratch::new();
    for folder in ["fast", "fast2", "slow"] {
        std::fs::create_dir(scratch.join(folder)).unwrap();
    }
    scratch
}

fn tiered(scratch: &Scratch, fast: &str) -> Tiered {
    let posix = |folder: &str| Arc::new(Posix::at(scratch.join(folder)).unwrap());
    Tiered::new(posix(fast), posix("slow")).unwrap()
}

fn drain(store: &Tiered) {
    let drain = Drain::new(store, Pace { quiet: Default::default(), ..Pace::default() }).unwrap();
    while drain.pass(&GO).unwrap().objects > 0 {}
}

/// Files that hold the secret and that others reach: they may enter each folder above, and read.
fn shown(folder: &Path) -> Vec<String> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap().map(|e| e.unwrap()) {
        let about = entry.metadata().unwrap();
        let others = about.permissions().mode() & 0o077;
        if about.is_dir() {
            if others & 0o011 != 0 {
                found.extend(shown(&entry.path()));
            }
        } else if others & 0o044 != 0
            && std::fs::read(entry.path()).unwrap().windows(SECRET.len()).any(|run| run == SECRET)
        {
            found.push(format!("{:o} {}", about.permissions().mode(), entry.path().display()));
        }
    }
    found
}

fn mode(mode: u32) -> Change {
    Change { mode: Some(mode), ..Change::default() }
}

fn put(layout: &dyn Layout, path: &str, how: OpenWrite) {
    let file = layout.open_write(path, how, WriterId(0)).unwrap();
    file.append(&[IoSlice::new(SECRET)]).unwrap();
    file.close().unwrap();
}

fn read(layout: &dyn Layout, path: &str) -> Vec<u8> {
    let file = layout.open_read(path).unwrap();
    let mut bytes = vec![0; file.length().unwrap() as usize];
    file.read_exact_at(0, &mut bytes).unwrap();
    bytes
}

#[test]
fn bytes_of_a_private_file_are_private_in_both_stores_before_and_after_the_drain() {
    for (kind, make) in layouts() {
        let scratch = stores();
        let hides = |what: &str| {
            let found = [shown(&scratch.join("fast")), shown(&scratch.join("slow"))].concat();
            assert_eq!(found, Vec::<String>::new(), "{kind}: {what}");
        };
        let store = tiered(&scratch, "fast");
        let layout = make(Arc::new(store.clone()));
        layout.make_one_folder("d", 0o755).unwrap();
        // As a door makes a file: the name, its mode, then the bytes.
        let file = layout.open_write("d/made", OpenWrite::New, WriterId(0)).unwrap();
        layout.set_attributes("d/made", &mode(0o600)).unwrap();
        file.write_at(0, &[IoSlice::new(SECRET)]).unwrap();
        hides("while it is written");
        file.close().unwrap();
        let file = layout.open_write("d/late", OpenWrite::New, WriterId(0)).unwrap();
        file.write_at(0, &[IoSlice::new(&[7; 5000])]).unwrap();
        layout.set_attributes("d/late", &mode(0o600)).unwrap();
        file.append(&[IoSlice::new(SECRET)]).unwrap();
        file.close().unwrap();
        layout.make_one_folder("private", 0o700).unwrap();
        put(&*layout, "private/made", OpenWrite::New);
        layout.set_attributes("private/made", &mode(0o600)).unwrap();
        hides("made with its mode");
        drop(layout);
        drain(&store);
        hides("drained");
        let layout = make(Arc::new(store.clone()));
        for name in ["d/made", "d/late", "private/made"] {
            assert_eq!(layout.attributes(name).unwrap().mode, 0o600, "{kind}: {name}, drained");
            put(&*layout, name, OpenWrite::Existing);
        }
        hides("appended to");
        layout.rename("d/made", "private/renamed").unwrap();
        hides("renamed");
        drop(layout);
        drain(&store);
        hides("drained again");
        let layout = make(Arc::new(store.clone()));
        assert_eq!(layout.attributes("private").unwrap().mode, 0o700, "{kind}");
        assert_eq!(read(&*layout, "private/renamed"), [SECRET, SECRET].concat(), "{kind}");
        assert_eq!(layout.attributes("d/late").unwrap().mode, 0o600, "{kind}");
        // Wide from now on: the test finds what others can read.
        layout.set_attributes("d/late", &mode(0o644)).unwrap();
        put(&*layout, "d/late", OpenWrite::Replace);
        drop(layout);
        drain(&store);
        assert_ne!(shown(&scratch.join("slow")), Vec::<String>::new(), "{kind}");
    }
}

#[test]
fn the_mode_of_a_container_is_changed_by_one_node_while_another_holds_its_logs() {
    let scratch = stores();
    let [a, b] = ["fast", "fast2"].map(|fast| tiered(&scratch, fast));
    let (here, there) = (over(Arc::new(a.clone()), "a"), over(Arc::new(b.clone()), "b"));
    put(&there, "shared", OpenWrite::New);
    here.set_attributes("shared", &mode(0o600)).unwrap();
    assert_eq!(there.attributes("shared").unwrap().mode, 0o600);
    let file = there.open_write("shared", OpenWrite::Existing, WriterId(1)).unwrap();
    file.append(&[IoSlice::new(SECRET)]).unwrap();
    file.sync().unwrap();
    drain(&b);
    file.close().unwrap();
    for store in ["fast", "fast2", "slow"] {
        assert_eq!(shown(&scratch.join(store)), Vec::<String>::new(), "{store}");
    }
    drain(&b);
    assert_eq!(read(&here, "shared"), [SECRET, SECRET].concat());
    assert_eq!(shown(&scratch.join("slow")), Vec::<String>::new());
}
