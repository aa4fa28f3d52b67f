//! Each call to a store fails once, in each operation of each layout: files closed before read the same afterwards, each name has its
//! old or its new state, and can be used and removed when the store works again.

use std::collections::BTreeMap;
use std::io::IoSlice;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, UNIX_EPOCH};
use thalweg_conformance::scratch::Scratch;
use thalweg_conformance::sweep;
use thalweg_layout::container::Options;
use thalweg_layout::small_file::Settings;
use thalweg_layout::{Change, Container, Direct, Flat, Kind, Layout, OpenWrite, SetXattr, SmallFile, WriterId};
use thalweg_store::wrap::{Operation, StoreCall, Verdict, Watch, Wrapped};
use thalweg_store::{Memory, Posix, Store};
use thalweg_types::{Error, ErrorKind, Result};

/// Which calls fail, of all stores of a world together.
#[derive(Default)]
struct Plan {
    armed: AtomicBool,
    no_space: AtomicBool,
    /// All behind the first that fails, too.
    for_good: AtomicBool,
    left: AtomicU64,
    struck: AtomicU64,
}

struct Nth(Arc<Plan>);

impl Watch for Nth {
    fn describe(&self) -> &'static str {
        "failing"
    }

    fn before(&self, operation: &Operation<'_>) -> Verdict {
        let plan = &self.0;
        let no_space = plan.no_space.load(Ordering::Relaxed);
        // What needs room.
        let grows = matches!(
            operation.asked,
            StoreCall::OpenWrite
                | StoreCall::Write
                | StoreCall::Reserve
                | StoreCall::MakeFolder
                | StoreCall::Rename
                | StoreCall::Attributes
        );
        if !plan.armed.load(Ordering::Relaxed) || (no_space && !grows) {
            return Verdict::Pass;
        }
        let left = plan.left.load(Ordering::Relaxed);
        if left > 0 {
            plan.left.store(left - 1, Ordering::Relaxed);
            return Verdict::Pass;
        }
        if plan.struck.fetch_add(1, Ordering::Relaxed) > 0 && !plan.for_good.load(Ordering::Relaxed) {
            return Verdict::Pass;
        }
        let kind = if no_space { ErrorKind::NoSpace } else { ErrorKind::Io };
        let error = Error::new(kind, format!("cannot {:?} (made to fail)", operation.asked)).in_object(operation.name);
        // Of every second write the first half is there.
        let written = if left == 0 && operation.bytes.is_multiple_of(2) { operation.bytes / 2 } else { 0 };
        Verdict::FailAfter(written, error)
    }
}

/// A layout over these stores.
type Make = fn(&[Arc<dyn Store>]) -> Box<dyn Layout>;

struct World {
    plan: Arc<Plan>,
    stores: Vec<Arc<dyn Store>>,
    make: Make,
    _scratch: Scratch,
}

impl World {
    fn new(stores: usize, make: Make, on_disk: bool) -> World {
        let plan = Arc::new(Plan::default());
        let scratch = Scratch::new();
        let one = |number: usize| {
            let folder = scratch.join(number.to_string());
            let inner: Arc<dyn Store> = match on_disk {
                true => std::fs::create_dir(&folder).map(|()| Arc::new(Posix::at(folder).unwrap())).unwrap(),
                false => Arc::new(Memory::new()),
            };
            Arc::new(Wrapped::with(inner, Nth(plan.clone()))) as Arc<dyn Store>
        };
        World { stores: (0..stores).map(one).collect(), plan, make, _scratch: scratch }
    }

    fn layout(&self) -> Box<dyn Layout> {
        (self.make)(&self.stores)
    }
}

fn small(stores: &[Arc<dyn Store>]) -> Box<dyn Layout> {
    let settings = Settings { small: 1000, ..Settings::default() };
    Box::new(SmallFile::new(stores[0].clone(), settings).unwrap())
}

fn flat(stores: &[Arc<dyn Store>]) -> Box<dyn Layout> {
    Box::new(Flat::new(stores.to_vec()).unwrap())
}

fn container(stores: &[Arc<dyn Store>]) -> Box<dyn Layout> {
    let options = Options { host: "host".into(), ..Options::default() };
    Box::new(Container::new(stores.to_vec(), options).unwrap())
}

fn direct(stores: &[Arc<dyn Store>]) -> Box<dyn Layout> {
    Box::new(Direct::new(stores[0].clone()).unwrap())
}

fn write(layout: &dyn Layout, path: &str, how: OpenWrite, bytes: &[u8]) -> Result<()> {
    let file = layout.open_write(path, how, WriterId(0))?;
    file.append(&[IoSlice::new(bytes)])?;
    file.close()
}

fn read(layout: &dyn Layout, path: &str) -> Result<Vec<u8>> {
    let file = layout.open_read(path)?;
    let mut bytes = vec![0; file.length()? as usize];
    file.read_exact_at(0, &mut bytes)?;
    Ok(bytes)
}

/// What lies below a folder: bytes of files, targets of links (behind `->`), nothing of folders.
fn all(layout: &dyn Layout, folder: &str) -> Result<BTreeMap<String, Option<Vec<u8>>>> {
    let mut found = BTreeMap::new();
    for name in layout.list(folder)? {
        let path = if folder.is_empty() { name } else { format!("{folder}/{name}") };
        let kind = layout.attributes(&path).map_or_else(
            |e| match e.kind() {
                ErrorKind::Unsupported => {
                    layout.stat(&path).map(|s| if s.is_folder { Kind::Folder } else { Kind::File })
                }
                _ => Err(e),
            },
            |about| Ok(about.kind),
        )?;
        match kind {
            Kind::Folder => {
                found.insert(path.clone(), None);
                found.extend(all(layout, &path)?);
            }
            Kind::Link => {
                drop(found.insert(path.clone(), Some(format!("->{}", layout.read_link(&path)?).into_bytes())))
            }
            _ => drop(found.insert(path.clone(), Some(read(layout, &path)?))),
        }
    }
    Ok(found)
}

fn remove_all(layout: &dyn Layout, folder: &str) -> Result<()> {
    for name in layout.list(folder)? {
        let path = if folder.is_empty() { name } else { format!("{folder}/{name}") };
        if matches!(layout.attributes(&path).map(|a| a.kind), Ok(Kind::Link)) || !layout.stat(&path)?.is_folder {
            layout.remove(&path)?;
        } else {
            remove_all(layout, &path)?;
            layout.remove(&path)?;
        }
    }
    Ok(())
}

type Run = fn(&dyn Layout) -> Result<()>;

fn operations() -> Vec<(&'static str, Run)> {
    vec![
        ("create", |l| write(l, "d/new", OpenWrite::Replace, b"new")),
        ("create in a folder not used yet", |l| write(l, "e/new", OpenWrite::Any, b"new")),
        ("create exclusively", |l| write(l, "d/new", OpenWrite::New, b"new")),
        ("create a large one", |l| write(l, "d/new", OpenWrite::Any, &[7; 5000])),
        ("overwrite", |l| write(l, "d/a", OpenWrite::Replace, b"other")),
        ("append", |l| write(l, "d/a", OpenWrite::Existing, b" and more")),
        ("append to a large one", |l| write(l, "d/large", OpenWrite::Existing, b" and more")),
        ("grow out", |l| write(l, "d/a", OpenWrite::Existing, &[8; 3000])),
        ("rename", |l| l.rename("d/a", "d/new")),
        ("rename over", |l| l.rename("d/a", "d/b")),
        ("rename over a large one", |l| l.rename("d/a", "d/large")),
        ("rename a large one", |l| l.rename("d/large", "d/new")),
        ("rename to another folder", |l| l.rename("d/a", "e/moved")),
        ("rename over one in another folder", |l| l.rename("d/a", "f/a")),
        ("rename a large one to another folder", |l| l.rename("d/large", "e/moved")),
        ("rename a folder", |l| l.rename("d", "g")),
        ("rename a folder over an empty one", |l| l.rename("d", "e")),
        ("unlink", |l| l.remove("d/a")),
        ("unlink a large one", |l| l.remove("d/large")),
        ("mkdir", |l| l.make_one_folder("d/new", 0o755)),
        ("mkdir -p", |l| l.make_folder("d/new/deep")),
        ("rmdir", |l| l.remove("e")),
        ("rmdir of a folder that was used", |l| l.remove("used")),
        ("chmod", |l| unless_lacking(l.set_attributes("d/a", &Change { mode: Some(0o600), ..Change::default() }))),
        ("utimes", |l| {
            let time = Some(UNIX_EPOCH + Duration::from_secs(1_000_000));
            unless_lacking(l.set_attributes("d/a", &Change { mtime: time, atime: time, ..Change::default() }))
        }),
        ("symlink", |l| unless_lacking(l.make_link("a", "d/new"))),
        ("setxattr", |l| unless_lacking(l.xattr_set("d/a", "user.k", b"value", SetXattr::Any))),
        ("truncate", |l| l.truncate("d/a", 1)),
        ("extend", |l| l.truncate("d/a", 400)),
        ("compact", |l| match l.concrete().and_then(|l| l.downcast_ref::<SmallFile>()) {
            Some(small) => small.compact("d").map(drop),
            None => Ok(()),
        }),
    ]
}

fn unless_lacking(outcome: Result<()>) -> Result<()> {
    match outcome {
        Err(e) if e.kind() == ErrorKind::Unsupported => Ok(()),
        other => other,
    }
}

fn set_up(layout: &dyn Layout) {
    for folder in ["d", "e", "f", "used"] {
        layout.make_one_folder(folder, 0o755).unwrap();
    }
    // The large one is longer than what a container keeps in the object of the name.
    for (path, bytes) in
        [("d/a", &b"of a"[..]), ("d/b", b"of b"), ("d/large", &[5; 40_000]), ("f/a", b"other a"), ("used/x", b"x")]
    {
        write(layout, path, OpenWrite::Replace, bytes).unwrap();
    }
    write(layout, "d/b", OpenWrite::Existing, b", appended").unwrap();
    layout.remove("used/x").unwrap();
    unless_lacking(layout.make_link("b", "d/link")).unwrap();
}

/// - `done`: the operation said that it succeeded.
fn check(
    what: &str,
    layout: &dyn Layout,
    before: &BTreeMap<String, Option<Vec<u8>>>,
    after: &BTreeMap<String, Option<Vec<u8>>>,
    done: bool,
) {
    let found = all(layout, "").unwrap_or_else(|e| panic!("{what}: what is there cannot be read: {e:?}"));
    for path in before.keys().chain(after.keys()) {
        let (old, new, now) = (before.get(path), after.get(path), found.get(path));
        if old == new {
            assert_eq!(now, old, "{what}: {path}, which the operation is not about");
        } else if done {
            assert_eq!(now, new, "{what}: {path} after success");
        } else {
            // A file that was made, and could not be written or recorded, may be there without bytes; one that was being written may hold any part.
            let part = matches!((now, new), (Some(Some(now)), Some(Some(new))) if new.starts_with(now) || now.iter().all(|b| *b == 0));
            let part = part
                && (what.contains("create")
                    || what.contains("write")
                    || what.contains("append")
                    || what.contains("grow")
                    || what.contains("tend"));
            assert!(
                now == old || now == new || part,
                "{what}: {path} is neither as it was nor as it should be: {now:?}"
            );
        }
    }
    for path in found.keys() {
        assert!(before.contains_key(path) || after.contains_key(path), "{what}: {path} came from nowhere");
    }
    // No bytes that were closed are gone under every name: of a rename, one of both names is there.
    if what.contains("rename") {
        let mut moved: Vec<&Vec<u8>> =
            before.values().flatten().filter(|bytes| after.values().flatten().any(|b| b == *bytes)).collect();
        moved.retain(|bytes| !found.values().flatten().any(|b| b == *bytes));
        assert!(moved.is_empty(), "{what}: bytes are under no name any more: {moved:?}");
    }
}

fn sweep(name: &str, stores: usize, make: Make, on_disk: bool) {
    sweep_some("", name, stores, make, on_disk);
}

/// - `which`: operations whose names hold this.
fn sweep_some(which: &str, name: &str, stores: usize, make: Make, on_disk: bool) {
    let mut struck = 0;
    for (operation, run) in operations().into_iter().filter(|(operation, _)| operation.contains(which)) {
        let (before, after) = {
            let world = World::new(stores, make, on_disk);
            let layout = world.layout();
            set_up(&*layout);
            let before = all(&*layout, "").unwrap();
            run(&*layout).unwrap_or_else(|e| panic!("{name}: {operation}: {e:?}"));
            (before, all(&*layout, "").unwrap())
        };
        for (no_space, for_good, another) in [
            (true, false, false),
            (true, true, true),
            (false, false, false),
            (false, true, true),
            (false, false, true),
            (false, true, false),
        ] {
            // A real filesystem takes its time.
            if on_disk && (no_space || for_good != another) {
                continue;
            }
            for number in (0..).step_by(sweep::stride()) {
                let world = World::new(stores, make, on_disk);
                set_up(&*world.layout());
                let layout = world.layout();
                // As a process that has worked there for a while, or as one that has just begun.
                if !another {
                    all(&*layout, "").unwrap();
                    write(&*layout, "f/b", OpenWrite::Any, b"").unwrap();
                    layout.remove("f/b").unwrap();
                }
                world.plan.no_space.store(no_space, Ordering::Relaxed);
                world.plan.for_good.store(for_good, Ordering::Relaxed);
                world.plan.left.store(number, Ordering::Relaxed);
                world.plan.armed.store(true, Ordering::Relaxed);
                let outcome = run(&*layout);
                world.plan.armed.store(false, Ordering::Relaxed);
                let hits = world.plan.struck.load(Ordering::Relaxed);
                struck += u64::from(hits > 0);
                let error = outcome.as_ref().err().map(|e| format!("{e}")).unwrap_or_default();
                let what = format!(
                    "{name}: {operation}, call {number} {} with {}{}: {error}",
                    if for_good { "and all later ones fail" } else { "fails" },
                    if no_space { "NoSpace" } else { "Io" },
                    if another { ", a new process" } else { "" },
                );
                check(&what, &*layout, &before, &after, outcome.is_ok());
                drop(layout);
                let next = world.layout();
                check(&format!("{what}; another process"), &*next, &before, &after, outcome.is_ok());
                // Each folder can be used, and one that is not there can be made.
                let found = all(&*next, "").unwrap();
                for (path, _) in after.iter().filter(|(path, bytes)| bytes.is_none() && !found.contains_key(*path)) {
                    next.make_one_folder(path, 0o755)
                        .unwrap_or_else(|e| panic!("{what}: {path} cannot be made again: {e:?}"));
                }
                for (folder, _) in all(&*next, "").unwrap().iter().filter(|(_, bytes)| bytes.is_none()) {
                    write(&*next, &format!("{folder}/used now"), OpenWrite::New, b"")
                        .unwrap_or_else(|e| panic!("{what}: nothing can be made in {folder}: {e:?}"));
                }
                // What is there can be written, each file for itself, and removed, and made again.
                let files = all(&*next, "").unwrap().into_iter();
                let files = files.filter(|(_, bytes)| bytes.as_ref().is_some_and(|b| !b.starts_with(b"->")));
                let paths: Vec<String> = files.map(|(path, _)| path).collect();
                for path in &paths {
                    write(&*next, path, OpenWrite::Replace, format!("again {path}").as_bytes())
                        .unwrap_or_else(|e| panic!("{what}: {path} cannot be written: {e:?}"));
                }
                for path in &paths {
                    assert_eq!(read(&*next, path).unwrap(), format!("again {path}").as_bytes(), "{what}: {path}");
                }
                remove_all(&*next, "").unwrap_or_else(|e| panic!("{what}: not all can be removed: {e:?}"));
                assert!(all(&*next, "").unwrap().is_empty(), "{what}");
                set_up(&*next);
                let last = world.layout();
                assert_eq!(all(&*last, "").unwrap(), before, "{what}: made again");
                if hits == 0 {
                    assert!(outcome.is_ok(), "{what}: failed without a failing call");
                    break;
                }
                assert!(number < 2000, "{what}: no end of calls");
            }
        }
    }
    println!("{name}: {struck} failing calls");
    let least = if which.is_empty() { 100 } else { 4 };
    assert!(struck * sweep::stride() as u64 > least, "{name}: no more than {struck} calls were made to fail");
}

#[test]
fn small_files_outlive_any_failing_call() {
    sweep("small_file in memory", 1, small, false);
}

#[test]
fn small_files_on_a_filesystem_outlive_any_failing_call() {
    sweep("small_file", 1, small, true);
}

#[test]
fn flat_files_outlive_any_failing_call() {
    sweep("flat in memory", 3, flat, false);
}

#[test]
fn flat_files_on_a_filesystem_outlive_any_failing_call() {
    sweep("flat", 3, flat, true);
}

#[test]
fn direct_files_outlive_any_failing_call() {
    sweep("direct in memory", 1, direct, false);
    sweep("direct", 1, direct, true);
}

// What a container that is being made or written is after a failure, its own tests say.
#[test]
fn containers_outlive_any_failing_call_of_a_rename_or_removal() {
    for which in ["rename", "unlink", "rmdir"] {
        sweep_some(which, "container in memory", 2, container, false);
        sweep_some(which, "container", 1, container, true);
    }
}
