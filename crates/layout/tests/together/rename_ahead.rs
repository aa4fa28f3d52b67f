//! Renames of large files to another store: copied before the rename, so that operations on names do not wait for the copy.

use std::io::IoSlice;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use thalweg_conformance::scratch::Scratch;
use thalweg_layout::{Flat, Layout, OpenWrite, WriterId, flat::pick};
use thalweg_store::wrap::{Counting, Operation, StoreCall, Verdict, Watch, Wrapped};
use thalweg_store::{Posix, Store, StoreExt};

const LENGTH: u64 = 6 << 20;

struct Mounted {
    layout: Flat,
    stores: Vec<Arc<Counting>>,
    scratch: Scratch,
}

fn mounted() -> Mounted {
    let scratch = Scratch::new();
    let one = |k: usize| {
        std::fs::create_dir(scratch.join(k.to_string())).unwrap();
        Arc::new(Counting::new(Arc::new(Posix::at(scratch.join(k.to_string())).unwrap())))
    };
    let stores: Vec<_> = (0..2).map(one).collect();
    let layout = Flat::new(stores.iter().map(|s| s.clone() as Arc<dyn Store>).collect()).unwrap();
    Mounted { layout, stores, scratch }
}

/// A name on the other store.
fn elsewhere(name: &str) -> String {
    (0..).map(|k| format!("moved.{k}")).find(|new| pick(new, 2) != pick(name, 2)).unwrap()
}

fn put(layout: &dyn Layout, path: &str, offset: u64, bytes: &[u8]) {
    let file = layout.open_write(path, OpenWrite::Any, WriterId(0)).unwrap();
    file.write_at(offset, &[IoSlice::new(bytes)]).unwrap();
    file.close().unwrap();
}

fn read(layout: &dyn Layout, path: &str) -> Vec<u8> {
    let file = layout.open_read(path).unwrap();
    let mut bytes = vec![0; file.length().unwrap() as usize];
    file.read_exact_at(0, &mut bytes).unwrap();
    bytes
}

fn written(stores: &[Arc<Counting>]) -> u64 {
    stores.iter().map(|store| store.take().total().bytes_written).sum()
}

/// Names in all folders of the stores that are not the user's.
fn left(mounted: &Mounted) -> Vec<String> {
    (0..2)
        .flat_map(|k| std::fs::read_dir(mounted.scratch.join(k.to_string())).unwrap())
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| name.starts_with(".thalweg-flat-"))
        .collect()
}

#[test]
fn the_bytes_are_copied_before_the_rename_and_not_by_it() {
    let mounted = mounted();
    let layout = &mounted.layout;
    put(layout, "file", 0, &vec![7; LENGTH as usize]);
    let to = elsewhere("file");
    written(&mounted.stores);
    layout.prepare_rename("file", &to).unwrap();
    assert!(written(&mounted.stores) >= LENGTH, "copied ahead");
    assert_eq!(layout.list("").unwrap(), ["file"], "nothing has another name yet");
    layout.rename("file", &to).unwrap();
    assert!(written(&mounted.stores) < LENGTH, "the rename copies nothing");
    assert_eq!((layout.list("").unwrap(), read(layout, &to)), (vec![to], vec![7; LENGTH as usize]));
    assert_eq!(left(&mounted), Vec::<String>::new());
}

#[test]
fn what_is_written_between_the_copy_and_the_rename_is_not_lost() {
    let mounted = mounted();
    let layout = &mounted.layout;
    for round in 0..5u8 {
        put(layout, "file", 0, &vec![round; LENGTH as usize]);
        let to = elsewhere("file");
        layout.prepare_rename("file", &to).unwrap();
        // At once, and after a while.
        std::thread::sleep(Duration::from_millis(5 * u64::from(round)));
        put(layout, "file", 1000, b"later");
        layout.rename("file", &to).unwrap();
        assert_eq!(read(layout, &to)[1000..1005], *b"later", "round {round}");
        assert_eq!(left(&mounted), Vec::<String>::new());
        layout.remove(&to).unwrap();
    }
}

#[test]
fn a_copy_that_fails_leaves_the_rename_to_tell() {
    let mounted = mounted();
    let layout = &mounted.layout;
    let to = elsewhere("file");
    assert!(layout.prepare_rename("file", &to).is_err());
    put(layout, "file", 0, b"short");
    layout.prepare_rename("file", &to).unwrap();
    assert_eq!(left(&mounted), Vec::<String>::new(), "short files are copied by the rename");
    layout.rename("file", &to).unwrap();
    assert_eq!(read(layout, &to), b"short");
}

const NOTE: &str = ".thalweg-flat/rename";

/// Removes the note of a folder's rename before it is durable, as many times as `left` says; counts renames without a note.
struct Removes {
    store: Arc<dyn Store>,
    left: AtomicU64,
    renamed: [AtomicU64; 2],
}

struct Watching(Arc<Removes>);

impl Watch for Watching {
    fn describe(&self) -> &'static str {
        "removing notes"
    }

    fn before(&self, operation: &Operation<'_>) -> Verdict {
        if operation.asked == StoreCall::Sync && operation.name == NOTE && self.0.left.load(Ordering::Relaxed) > 0 {
            self.0.left.fetch_sub(1, Ordering::Relaxed);
            self.0.store.remove(NOTE).unwrap();
        }
        if operation.asked == StoreCall::Rename && operation.name == "d" {
            let noted = self.0.store.exists(NOTE).unwrap();
            self.0.renamed[usize::from(noted)].fetch_add(1, Ordering::Relaxed);
        }
        Verdict::Pass
    }
}

#[test]
fn no_folder_moves_without_a_note_though_another_process_took_it_for_a_dead_ones() {
    let scratch = Scratch::new();
    let one = |k: usize| {
        std::fs::create_dir(scratch.join(k.to_string())).unwrap();
        Arc::new(Posix::at(scratch.join(k.to_string())).unwrap()) as Arc<dyn Store>
    };
    let (first, second) = (one(0), one(1));
    let removes = Arc::new(Removes {
        store: first.clone(),
        left: AtomicU64::new(0),
        renamed: [AtomicU64::new(0), AtomicU64::new(0)],
    });
    let watched: Arc<dyn Store> = Arc::new(Wrapped::with(first, Watching(removes.clone())));
    let layout = Flat::new(vec![watched, second]).unwrap();
    layout.make_one_folder("d", 0o755).unwrap();
    put(&layout, "d/a", 0, b"there");
    removes.left.store(3, Ordering::Relaxed);
    layout.rename("d", "e").unwrap();
    assert_eq!(read(&layout, "e/a"), b"there");
    assert_eq!(removes.renamed.each_ref().map(|n| n.load(Ordering::Relaxed)), [0, 1]);
    assert!(!removes.store.exists(NOTE).unwrap());
}
