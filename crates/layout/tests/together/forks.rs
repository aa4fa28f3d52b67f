//! Forks: everything that parent, children and siblings write on one store is there afterwards.
//!
//! A test program of its own, because a forked child has only one of its parent's threads.

use std::io::IoSlice;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command};
use std::sync::{Arc, Mutex};
use thalweg_conformance::layout::data_logs;
use thalweg_conformance::scratch::Scratch;
use thalweg_layout::container::Options;
use thalweg_layout::small_file::Settings;
use thalweg_layout::{Container, Flat, Layout, OpenWrite, SmallFile, WriteObject, WriterId};
use thalweg_store::{Posix, Store, StoreExt};

const CHILDREN: usize = 4;

/// Forks; the child runs this and ends.
fn forked(run: impl Fn() + Send + Sync + 'static) -> Child {
    let mut command = Command::new("true");
    #[allow(unsafe_code)]
    // SAFETY: this program has no other thread that could hold a lock: its one test forks.
    unsafe {
        command.pre_exec(move || {
            run();
            Ok(())
        })
    };
    command.spawn().unwrap()
}

fn put(layout: &dyn Layout, path: &str, bytes: &[u8]) {
    let file = layout.open_write(path, OpenWrite::Replace, WriterId(0)).unwrap();
    file.write_at(0, &[IoSlice::new(bytes)]).unwrap();
    file.close().unwrap();
}

fn read(layout: &dyn Layout, path: &str) -> Vec<u8> {
    let file = layout.open_read(path).unwrap_or_else(|e| panic!("{path}: {e}"));
    let mut bytes = vec![0; file.length().unwrap() as usize];
    file.read_exact_at(0, &mut bytes).unwrap();
    bytes
}

fn ends_well(children: Vec<Child>) {
    for mut child in children {
        assert!(child.wait().unwrap().success());
    }
}

fn small(scratch: &Scratch) -> SmallFile {
    SmallFile::new(Arc::new(Posix::at(scratch.join("")).unwrap()), Settings::default()).unwrap()
}

/// As through the preload door: each child opens its mounts anew.
fn siblings_with_a_layout_each() {
    let scratch = Arc::new(Scratch::new());
    put(&small(&scratch), "of the parent", b"before");
    let children = (0..CHILDREN).map(|k| {
        let scratch = scratch.clone();
        forked(move || {
            let layout = small(&scratch);
            for file in 0..10 {
                put(&layout, &format!("{k}.{file}"), format!("{k} {file}").as_bytes());
            }
        })
    });
    ends_well(children.collect());
    let layout = small(&scratch);
    for (k, file) in (0..CHILDREN).flat_map(|k| (0..10).map(move |file| (k, file))) {
        assert_eq!(read(&layout, &format!("{k}.{file}")), format!("{k} {file}").as_bytes());
    }
}

/// As in a program that uses the library itself: the children go on with the layout that their parent had, and with its log.
fn children_that_inherit_a_layout() {
    let scratch = Scratch::new();
    let layout = Arc::new(small(&scratch));
    put(&*layout, "first", b"of the parent");
    // Written and not closed: it belongs to the parent alone.
    let open = layout.open_write("open", OpenWrite::New, WriterId(0)).unwrap();
    open.write_at(0, &[IoSlice::new(b"half")]).unwrap();
    let mut children = Vec::new();
    for k in 0..CHILDREN {
        let of_child = layout.clone();
        children.push(forked(move || {
            for file in 0..10 {
                put(&*of_child, &format!("{k}.{file}"), format!("{k} {file}").as_bytes());
            }
            assert_eq!(read(&*of_child, "first"), b"of the parent");
            of_child.finish().unwrap();
        }));
        put(&*layout, &format!("parent.{k}"), b"beside them");
    }
    ends_well(children);
    open.write_at(4, &[IoSlice::new(b" and whole")]).unwrap();
    open.close().unwrap();
    put(&*layout, "last", b"of the parent");
    for layout in [&*layout, &small(&scratch)] {
        for (k, file) in (0..CHILDREN).flat_map(|k| (0..10).map(move |file| (k, file))) {
            assert_eq!(read(layout, &format!("{k}.{file}")), format!("{k} {file}").as_bytes());
        }
        for k in 0..CHILDREN {
            assert_eq!(read(layout, &format!("parent.{k}")), b"beside them");
        }
        assert_eq!(read(layout, "first"), b"of the parent");
        assert_eq!(read(layout, "open"), b"half and whole");
        assert_eq!(read(layout, "last"), b"of the parent");
    }
}

/// Names of objects that are there for a moment, and identities.
fn numbers_that_are_drawn() {
    let scratch = Arc::new(Scratch::new());
    let store = || Posix::at(scratch.join("")).unwrap();
    thalweg_store::fresh();
    let children = (0..CHILDREN).map(|k| {
        let store = store();
        forked(move || {
            let drawn: Vec<String> = (0..100).map(|_| format!("{:016x}\n", thalweg_store::fresh())).collect();
            store.write_all(&k.to_string(), drawn.concat().as_bytes()).unwrap();
        })
    });
    ends_well(children.collect());
    let mut all: Vec<String> = (0..CHILDREN)
        .flat_map(|k| {
            String::from_utf8(store().read_all(&k.to_string()).unwrap())
                .unwrap()
                .lines()
                .map(str::to_string)
                .collect::<Vec<_>>()
        })
        .collect();
    all.sort_unstable();
    all.dedup();
    assert_eq!(all.len(), CHILDREN * 100, "two processes drew one number");
}

/// Files on their way to another store have names of their own.
fn renames_to_another_store() {
    let scratch = Arc::new(Scratch::new());
    for store in ["a", "b"] {
        std::fs::create_dir(scratch.join(store)).unwrap();
    }
    let open = |scratch: &Scratch| {
        Flat::new(vec![
            Arc::new(Posix::at(scratch.join("a")).unwrap()),
            Arc::new(Posix::at(scratch.join("b")).unwrap()),
        ])
        .unwrap()
    };
    drop(open(&scratch));
    let children = (0..CHILDREN).map(|k| {
        let scratch = scratch.clone();
        forked(move || {
            let layout = open(&scratch);
            for file in 0..20 {
                put(&layout, &format!("{k}.{file}"), format!("{k} {file}").as_bytes());
                layout.rename(&format!("{k}.{file}"), &format!("moved.{k}.{file}")).unwrap();
            }
        })
    });
    ends_well(children.collect());
    let layout = open(&scratch);
    for (k, file) in (0..CHILDREN).flat_map(|k| (0..20).map(move |file| (k, file))) {
        assert_eq!(read(&layout, &format!("moved.{k}.{file}")), format!("{k} {file}").as_bytes());
    }
}

/// - `inline`: over one store, where short data logs are inline. Over two stores every data log is an object.
fn open_in(scratch: &Scratch, buffer: usize, inline: bool) -> Container {
    let names: &[&str] = if inline { &["a"] } else { &["a", "b"] };
    let stores = names.iter().map(|name| Arc::new(Posix::at(scratch.join(name)).unwrap()) as Arc<dyn Store>);
    Container::new(stores.collect(), Options { buffer, ..Options::default() }).unwrap()
}

/// The handle of a container that parent and children go on with: each process has a session of its own.
fn children_that_inherit_a_handle_of_a_container(buffer: usize, inline: bool) {
    let scratch = Arc::new(Scratch::new());
    for store in ["a", "b"] {
        std::fs::create_dir(scratch.join(store)).unwrap();
    }
    let write = |file: &dyn WriteObject, at: u64, byte: u8, count: usize| {
        file.write_at(at, &[IoSlice::new(&vec![byte; count])]).unwrap();
    };
    let layout = Arc::new(open_in(&scratch, buffer, inline));
    // Nobody wrote to the first before the fork; the last was synced.
    let names = ["fresh", "written", "synced"];
    let handles = names.map(|name| {
        let file = layout.open_write(name, OpenWrite::New, WriterId(0)).unwrap();
        if name != "fresh" {
            write(&*file, 0, b'p', 3000);
        }
        if name == "synced" {
            file.sync().unwrap();
        }
        Mutex::new(Some(file))
    });
    assert_eq!(data_logs(scratch.path()) == 0, inline, "what the parent wrote before the fork, buffer {buffer}");
    let handles = Arc::new(handles);
    put(&*layout, "unlinked", b"held by the parent");
    let unlinked = Arc::new(Mutex::new(Some(layout.open_read("unlinked").unwrap())));
    layout.remove("unlinked").unwrap();
    let mut children = Vec::new();
    for k in 0..CHILDREN as u64 {
        let (of_child, unlinked, scratch) = (handles.clone(), unlinked.clone(), scratch.clone());
        children.push(forked(move || {
            drop(unlinked.lock().unwrap().take());
            for (name, handle) in names.iter().zip(&*of_child) {
                let file = handle.lock().unwrap().take().unwrap();
                // Over what the parent wrote before the fork, in part.
                for piece in 0..10 {
                    write(&*file, 1000 * (k + 1) + 100 * piece, b'0' + k as u8, 100);
                }
                if *name != "written" {
                    file.sync().unwrap();
                }
                let mut bytes = [0; 1000];
                assert_eq!(file.read_at(1000 * (k + 1), &mut bytes).unwrap(), 1000);
                assert_eq!(bytes, [b'0' + k as u8; 1000], "a child reads what it wrote");
                if *name == "synced" {
                    assert_eq!(file.read_at(0, &mut bytes).unwrap(), 1000);
                    assert_eq!(bytes, [b'p'; 1000], "a child reads what its parent synced");
                }
                file.close().unwrap();
            }
            // What its parent writes is another process' for it.
            let other = open_in(&scratch, buffer, inline);
            put(&other, &format!("of child {k}"), b"by a layout of its own");
        }));
        for handle in &*handles {
            write(&**handle.lock().unwrap().as_ref().unwrap(), 6000 + 10 * k, b'P', 10);
        }
    }
    ends_well(children);
    let mut bytes = [0; 18];
    assert_eq!(unlinked.lock().unwrap().as_ref().unwrap().read_at(0, &mut bytes).unwrap(), 18);
    assert_eq!(&bytes, b"held by the parent");
    for (name, handle) in names.iter().zip(&*handles) {
        let file = handle.lock().unwrap().take().unwrap();
        file.sync().unwrap();
        // Behind what the children published, which it saw.
        write(&*file, 4500, b'L', 1000);
        file.close().unwrap();
        let first = if *name == "fresh" { 0 } else { b'p' };
        let mut meant = vec![first; 1000];
        (0..CHILDREN as u8).for_each(|k| meant.extend([b'0' + k; 1000]));
        meant.resize(6000, 0);
        meant[4500..5500].fill(b'L');
        meant.extend([b'P'; 10 * CHILDREN]);
        for layout in [&*layout, &open_in(&scratch, buffer, inline)] {
            assert!(read(layout, name) == meant, "{name}, buffer {buffer}, inline {inline}");
        }
    }
    for k in 0..CHILDREN {
        assert_eq!(read(&*layout, &format!("of child {k}")), b"by a layout of its own");
    }
}

#[test]
fn what_forked_processes_write_is_there() {
    numbers_that_are_drawn();
    renames_to_another_store();
    siblings_with_a_layout_each();
    children_that_inherit_a_layout();
    // Inline data logs are held in the buffer: without one there are none.
    for (inline, buffer) in [(false, 0), (false, 4 << 20), (true, 8 << 10), (true, 4 << 20)] {
        children_that_inherit_a_handle_of_a_container(buffer, inline);
    }
}
