//! Containers without a name are removed only where that is certain: no file that was closed goes, and nothing that a process has
//! open, whatever call to a store fails and whatever others do meanwhile.

use super::{in_folders, open, over, pattern, put, read, write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;
use thalweg_conformance::scratch::Scratch;
use thalweg_layout::container::marks::{self, Home};
use thalweg_layout::container::stamp::Stamp;
use thalweg_layout::container::tools::Nameless;
use thalweg_layout::{Container, Layout, OpenWrite};
use thalweg_store::wrap::{Failing, Fault, Operation, Sequential, Verdict, Watch, Wrapped};
use thalweg_store::{Memory, Posix, Store, StoreExt};
use thalweg_types::{ErrorKind, Result};

/// Makes a closed file lose its name as a kill in the middle of a removal does.
fn lose(layout: &Container, store: &dyn Store, name: &str) {
    put(layout, name, &pattern(9, 100_000));
    store.remove(name).unwrap();
}

/// Folders of containers on a store.
fn containers(store: &dyn Store) -> Vec<String> {
    let listed = |folder: &str| match store.list(folder) {
        Err(e) if e.kind() == ErrorKind::NotFound => Vec::new(),
        names => names.unwrap(),
    };
    let groups = listed(".thalweg/c").into_iter();
    groups
        .flat_map(|group| {
            listed(&format!(".thalweg/c/{group}")).into_iter().map(move |c| format!(".thalweg/c/{group}/{c}"))
        })
        .collect()
}

/// Containers that are removed, and those that are left, with the reason.
fn done(found: Result<Vec<Nameless>>) -> (usize, Vec<String>) {
    let found = found.unwrap();
    let left: Vec<String> = found.iter().filter_map(|found| found.left.clone()).collect();
    (found.len() - left.len(), left)
}

fn posix(scratch: &Scratch) -> Arc<dyn Store> {
    Arc::new(Posix::at(scratch.path()).unwrap())
}

#[test]
fn a_call_that_fails_once_ends_the_search_or_changes_nothing() {
    let scratch = Scratch::new();
    let [memory, other] = [(); 2].map(|()| Arc::new(Memory::new()) as Arc<dyn Store>);
    let both = [ErrorKind::Io, ErrorKind::PermissionDenied];
    for (stores, kinds) in
        [(vec![memory.clone()], &both[..]), (vec![memory, other], &both), (vec![posix(&scratch)], &both[..1])]
    {
        let healthy = in_folders(&stores);
        healthy.make_folder("a/b").unwrap();
        let files =
            [("a/b/f", pattern(1, 50)), ("a/g", pattern(2, 70_000)), ("h", pattern(3, 10)), ("a/b/i", pattern(4, 9))];
        files.iter().for_each(|(name, bytes)| put(&healthy, name, bytes));
        put(&over(&stores[0]), "small", b"behind its stamp");
        for kind in kinds.iter().copied() {
            for n in 0.. {
                lose(&healthy, &*stores[0], "lost");
                let failing: Vec<_> = stores.iter().map(|store| Arc::new(Failing::new(store.clone()))).collect();
                // The n-th call of the first store, then of the second.
                let which = n as usize % failing.len();
                failing[which].fail(Fault::any().skipping(n / failing.len() as u64).times(1).with(kind));
                let around: Vec<_> = failing.iter().map(|store| store.clone() as Arc<dyn Store>).collect();
                let outcome = in_folders(&around).nameless(Duration::ZERO, true);
                let (struck, last) = failing[which].failed();
                let words = format!("{kind:?} from call {n}: {last:?}");
                for (name, bytes) in &files {
                    assert!(read(&in_folders(&stores), name).is_ok_and(|is| is == *bytes), "{words}: {name} is lost");
                }
                assert_eq!(read(&in_folders(&stores), "small").unwrap(), b"behind its stamp", "{words}");
                if struck > 0
                    && let Ok(found) = &outcome
                {
                    assert_eq!(found.len(), 1, "{words}: told as if nothing had failed");
                }
                in_folders(&stores).nameless(Duration::ZERO, true).unwrap();
                if struck == 0 && which + 1 == failing.len() {
                    break;
                }
            }
        }
    }
}

/// Does something at some calls of a store.
struct Meanwhile {
    /// Calls to come before the first.
    left: AtomicU64,
    /// Calls from one time to the next; 0 for once.
    every: u64,
    busy: AtomicBool,
    times: AtomicU64,
    act: Box<dyn Fn(u64) + Send + Sync>,
}

impl Meanwhile {
    fn new(first: u64, every: u64, act: impl Fn(u64) + Send + Sync + 'static) -> Meanwhile {
        let act = Box::new(act);
        Meanwhile { left: first.into(), every, busy: false.into(), times: 0.into(), act }
    }
}

impl Watch for Meanwhile {
    fn describe(&self) -> &'static str {
        "meanwhile"
    }

    fn before(&self, _: &Operation<'_>) -> Verdict {
        let left = self.left.load(Ordering::SeqCst);
        if left > 0 {
            self.left.store(left - 1, Ordering::SeqCst);
        } else if (self.every > 0 || self.times.load(Ordering::SeqCst) == 0) && !self.busy.swap(true, Ordering::SeqCst)
        {
            (self.act)(self.times.fetch_add(1, Ordering::SeqCst));
            self.left.store(self.every.saturating_sub(1), Ordering::SeqCst);
            self.busy.store(false, Ordering::SeqCst);
        }
        Verdict::Pass
    }
}

#[test]
fn a_file_that_is_renamed_at_any_call_of_the_search_stays() {
    let scratch = Scratch::new();
    let store = posix(&scratch);
    let layout = in_folders(std::slice::from_ref(&store));
    ["a", "m", "z"].iter().for_each(|folder| layout.make_folder(folder).unwrap());
    put(&layout, "m/other", b"other");
    put(&layout, "a/f", b"closed");
    let mut at = ["a/f", "z/f"];
    for every in [0, 1, 3, 8] {
        for n in 0.. {
            lose(&layout, &*store, "lost");
            for _ in 0..2 {
                let inner = store.clone();
                let (from, to) = (at[0], at[1]);
                let rename = move |times: u64| {
                    let (from, to) = if times.is_multiple_of(2) { (from, to) } else { (to, from) };
                    in_folders(std::slice::from_ref(&inner)).rename(from, to).unwrap();
                };
                let around = Arc::new(Wrapped::with(store.clone(), Meanwhile::new(n, every, rename)));
                let outcome = in_folders(&[around.clone() as Arc<dyn Store>]).nameless(Duration::ZERO, true);
                let times = around.watch().times.load(Ordering::SeqCst);
                if times % 2 == 1 {
                    at.swap(0, 1);
                }
                let words = format!("renamed {times} times from call {n}, every {every}: {outcome:?}");
                assert_eq!(read(&layout, at[0]).unwrap_or_else(|e| panic!("{words}: {e}")), b"closed", "{words}");
            }
            if n > 40 || (every > 0 && n >= every) {
                break;
            }
        }
    }
    // Nobody renames now: what has no name goes.
    done(layout.nameless(Duration::ZERO, true));
    assert_eq!(containers(&*store).len(), 2);
}

#[test]
fn a_file_that_is_being_made_written_and_closed_is_complete_whenever_others_search() {
    for inline in [false, true] {
        for n in 0.. {
            let scratch = Scratch::new();
            let store = posix(&scratch);
            let inner = store.clone();
            let search = move |_| {
                in_folders(std::slice::from_ref(&inner)).nameless(Duration::from_secs(60), true).unwrap();
            };
            let around = Arc::new(Wrapped::with(store.clone(), Meanwhile::new(n, 0, search)));
            let shared = around.clone() as Arc<dyn Store>;
            let layout = if inline { over(&shared) } else { in_folders(&[shared]) };
            let words = format!("inline {inline}, searched at call {n}");
            let file = layout.open_write("f", OpenWrite::New, thalweg_layout::WriterId(0));
            let file = file.unwrap_or_else(|e| panic!("{words}: {e}"));
            write(&*file, 0, &pattern(1, 100));
            file.sync().unwrap();
            // Of a small file what no longer fits behind the stamp.
            write(&*file, 100, &pattern(2, 100_000));
            file.sync().unwrap();
            file.close().unwrap_or_else(|e| panic!("{words}: {e}"));
            let bytes = read(&over(&store), "f").unwrap_or_else(|e| panic!("{words}: {e}"));
            assert_eq!(bytes, [pattern(1, 100), pattern(2, 100_000)].concat(), "{words}");
            if around.watch().times.load(Ordering::SeqCst) == 0 {
                break;
            }
        }
    }
}

#[test]
fn an_unlinked_file_stays_as_long_as_a_process_has_it_open() {
    let scratch = Scratch::new();
    let store = posix(&scratch);
    for inline in [false, true] {
        let layout = if inline { over(&store) } else { in_folders(std::slice::from_ref(&store)) };
        // One that reads, and whose process removed the name.
        put(&layout, "read", &pattern(1, 100_000));
        let reader = layout.open_read("read").unwrap();
        layout.remove("read").unwrap();
        // One that reads a file whose name another took.
        put(&layout, "replaced", &pattern(2, 100_000));
        put(&layout, "new", b"new");
        let replaced = layout.open_read("replaced").unwrap();
        layout.rename("new", "replaced").unwrap();
        // One that writes, and gets its folder only then.
        let writer = open(&layout, "written", OpenWrite::New, 0);
        write(&*writer, 0, b"begins");
        layout.remove("written").unwrap();
        write(&*writer, 6, &pattern(3, 100_000));
        assert_eq!(done(over(&store).nameless(Duration::ZERO, true)), (0, Vec::new()), "inline {inline}");
        let mut bytes = vec![0; 100_000];
        reader.read_exact_at(0, &mut bytes).unwrap();
        assert!(bytes == pattern(1, 100_000));
        replaced.read_exact_at(0, &mut bytes).unwrap();
        assert!(bytes == pattern(2, 100_000));
        writer.sync().unwrap();
        assert_eq!(writer.read_at(6, &mut bytes).unwrap(), 100_000);
        assert!(bytes == pattern(3, 100_000));
        drop((reader, replaced, writer));
        drop(layout);
        let left = containers(&*store).len();
        assert_eq!(left, usize::from(!inline), "with the last handle all goes, but for the file that took a name");
        over(&store).remove("replaced").unwrap();
    }
}

#[test]
fn what_cannot_be_told_is_left_and_reported() {
    // A writer of another host, on a store that does not tell who holds an object.
    let store: Arc<dyn Store> = Arc::new(Sequential::like_s3());
    let layout = in_folders(std::slice::from_ref(&store));
    let lost = |what: &str, change: &dyn Fn(&str)| {
        lose(&layout, &*store, "lost");
        let folder = containers(&*store).remove(0);
        change(&folder);
        let (removed, left) = done(in_folders(std::slice::from_ref(&store)).nameless(Duration::ZERO, true));
        assert_eq!(removed, 0, "{what}");
        assert_eq!(left.len(), 1, "{what}: {left:?}");
        assert!(containers(&*store).contains(&folder), "{what}");
        store
            .list(&format!("{folder}/m"))
            .unwrap()
            .iter()
            .for_each(|name| store.remove(&format!("{folder}/m/{name}")).unwrap());
        let _ = store.remove(&format!("{folder}/stamp"));
        assert_eq!(
            done(in_folders(std::slice::from_ref(&store)).nameless(Duration::ZERO, true)).0,
            1,
            "{what}: whole again"
        );
        assert!(containers(&*store).is_empty(), "{what}");
    };
    let mark = marks::open_name(Home { session: 5, writer: 0, store: 0, folder: 0 });
    lost("a writer whose life is not known", &|folder| {
        store.write_all(&format!("{folder}/m/{mark}"), b"host elsewhere, process 1 since 5, writer 0").unwrap();
    });
    lost("a damaged mark", &|folder| {
        store.write_all(&format!("{folder}/m/o-0000000000000005-0-0-0-00000000"), b"").unwrap();
    });
    lost("a damaged stamp", &|folder| {
        let name = format!("{folder}/m/stamp");
        let mut bytes = store.read_all(&name).unwrap();
        bytes[20] ^= 1;
        store.write_all(&name, &bytes).unwrap();
    });
    // A name that cannot be read may be that of any container.
    lose(&layout, &*store, "lost");
    store.write_all("foreign", b"of somebody else").unwrap();
    let (removed, left) = done(layout.nameless(Duration::ZERO, true));
    assert_eq!((removed, left.len()), (0, 1), "{left:?}");
    assert!(left[0].contains("foreign"), "{left:?}");
    store.remove("foreign").unwrap();
    // Files may be moving where the store does not tell when a folder changed.
    let (removed, left) = done(layout.nameless(Duration::from_nanos(1), true));
    assert_eq!((removed, left.len()), (0, 1), "{left:?}");
    assert_eq!(done(layout.nameless(Duration::ZERO, true)).0, 1);
}

#[test]
fn what_is_younger_than_asked_for_stays() {
    let scratch = Scratch::new();
    let store = posix(&scratch);
    let layout = in_folders(std::slice::from_ref(&store));
    lose(&layout, &*store, "young");
    let young = containers(&*store);
    assert_eq!(done(layout.nameless(Duration::from_secs(3600), true)), (0, Vec::new()));
    // What its stamp says is long ago; what was done in its folder is not.
    let name = format!("{}/stamp", young[0]);
    let stamp = Stamp { made: 1, ..Stamp::decode(&store.read_all(&name).unwrap()).unwrap() };
    store.write_all(&name, &stamp.encode()).unwrap();
    assert_eq!(done(layout.nameless(Duration::from_secs(3600), true)), (0, Vec::new()));
    store.remove(&name).unwrap();
    assert_eq!(done(layout.nameless(Duration::from_secs(3600), true)), (0, Vec::new()), "without a stamp");
    assert_eq!(containers(&*store), young);
    std::thread::sleep(Duration::from_millis(1100));
    assert_eq!(done(layout.nameless(Duration::from_secs(1), true)).0, 1);
    assert!(containers(&*store).is_empty());
}

#[test]
fn containers_of_a_mount_that_shares_a_store_are_not_ours_to_remove() {
    let scratches = [Scratch::new(), Scratch::new(), Scratch::new()];
    let [a, b, c] = [0, 1, 2].map(|k| posix(&scratches[k]));
    let (ours, theirs) = (in_folders(&[a.clone(), b.clone()]), in_folders(&[b.clone(), c.clone()]));
    put(&ours, "ours", b"ours");
    for number in 0..60 {
        put(&theirs, &format!("theirs{number}"), &pattern(number, 1000));
    }
    lose(&ours, &*a, "lost");
    // Of some files of theirs only the logs are on a store of ours.
    let (removed, left) = done(ours.nameless(Duration::ZERO, true));
    assert!(removed == 1 && left.iter().all(|why| why.contains("only its logs")), "{removed}, {left:?}");
    // Of 60, each with a chance of one in four, none: once in thirty million runs.
    assert!(!left.is_empty());
    for number in 0..60 {
        assert_eq!(read(&theirs, &format!("theirs{number}")).unwrap(), pattern(number, 1000));
    }
    assert_eq!(read(&ours, "ours").unwrap(), b"ours");
}
