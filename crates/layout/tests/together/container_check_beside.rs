//! `check` of a container beside a process that changes, replaces or removes the file: whatever it does at any moment of the check, the
//! file that has the name is whole, or nothing has the name.

use std::io::IoSlice;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use thalweg_conformance::scratch::Scratch;
use thalweg_layout::{Change as Attributes, Container, Layout, OpenWrite, WriterId, container};
use thalweg_store::wrap::{Operation, Verdict, Watch, Wrapped};
use thalweg_store::{Posix, Store};
use thalweg_types::{ErrorKind, mutex::Mutex};

type Change = Box<dyn FnOnce() + Send>;

/// Calls `change` before one operation of the check.
struct Meanwhile {
    operations: AtomicUsize,
    at: usize,
    change: Mutex<Option<Change>>,
}

impl Watch for Meanwhile {
    fn describe(&self) -> &'static str {
        "meanwhile"
    }

    fn before(&self, _: &Operation<'_>) -> Verdict {
        if self.operations.fetch_add(1, Ordering::SeqCst) == self.at
            && let Some(change) = self.change.lock().take()
        {
            change();
        }
        Verdict::Pass
    }
}

fn process(store: &Arc<dyn Store>, inline: usize) -> Container {
    let options = container::Options { inline: Some(inline), host: "host".into(), ..container::Options::default() };
    Container::new(vec![store.clone()], options).unwrap()
}

fn put(layout: &Container, name: &str, how: OpenWrite, length: usize) {
    let file = layout.open_write(name, how, WriterId(0)).unwrap();
    file.append(&[IoSlice::new(&vec![7; length])]).unwrap();
    file.close().unwrap();
}

#[test]
fn what_another_process_does_at_any_moment_is_no_damage() {
    type Does = fn(&Container);
    // With whether the name is there afterwards.
    let changes: &[(&str, bool, Does)] = &[
        ("removes", false, |by| by.remove("f").unwrap()),
        ("renames", false, |by| by.rename("f", "g").unwrap()),
        ("replaces", true, |by| {
            put(by, "new", OpenWrite::New, 500);
            by.rename("new", "f").unwrap();
        }),
        ("removes and creates", true, |by| {
            by.remove("f").unwrap();
            put(by, "f", OpenWrite::New, 50);
        }),
        ("truncates", true, |by| put(by, "f", OpenWrite::Replace, 100)),
        ("appends", true, |by| put(by, "f", OpenWrite::Existing, 100)),
        ("lets it grow", true, |by| put(by, "f", OpenWrite::Existing, 100_000)),
        ("compacts", true, |by| drop(by.compact("f"))),
        ("changes the mode", true, |by| {
            by.set_attributes("f", &Attributes { mode: Some(0o600), ..Attributes::default() }).unwrap();
        }),
    ];
    for inline in [0, 32 << 10] {
        for (change, stays, does) in changes {
            for at in 0.. {
                let about = format!("inline {inline}, another {change}, operation {at}");
                let scratch = Scratch::new();
                let store: Arc<dyn Store> = Arc::new(Posix::at(scratch.path()).unwrap());
                let by = Arc::new(process(&store, inline));
                put(&by, "f", OpenWrite::New, 1000);
                put(&process(&store, inline), "f", OpenWrite::Existing, 1000);
                let change: Change = Box::new(move || does(&by));
                let watch = Meanwhile { operations: AtomicUsize::new(0), at, change: Mutex::new(Some(change)) };
                let watched = Arc::new(Wrapped::with(store, watch));
                let checking: Arc<dyn Store> = watched.clone();
                match process(&checking, inline).check("f") {
                    Ok(report) => assert!(report.is_clean(), "{about}: {report:?}"),
                    Err(e) => assert!(e.kind() == ErrorKind::NotFound && !stays, "{about}: {e}"),
                }
                if watched.watch().operations.load(Ordering::SeqCst) <= at {
                    assert!(at > 5, "{about}");
                    break;
                }
            }
        }
    }
}
