//! `compact` of `small_file` while other processes write: nothing is lost, and no process sees an error.

use std::io::IoSlice;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use thalweg_conformance::scratch::Scratch;
use thalweg_layout::small_file::Settings;
use thalweg_layout::{Layout, OpenWrite, SmallFile, WriterId};
use thalweg_store::wrap::{Operation, StoreCall, Verdict, Watch, Wrapped};
use thalweg_store::{Memory, Posix, Store};
use thalweg_types::Error;
use thalweg_types::mutex::Mutex;

const WRITERS: usize = 3;
const ROUNDS: usize = 150;

fn read(layout: &SmallFile, path: &str) -> Vec<u8> {
    let file = layout.open_read(path).unwrap_or_else(|e| panic!("{path}: {e}"));
    let mut bytes = vec![0; file.length().unwrap() as usize];
    file.read_exact_at(0, &mut bytes).unwrap_or_else(|e| panic!("{path}: {e}"));
    bytes
}

fn write(layout: &SmallFile, path: &str, how: OpenWrite, at: u64, bytes: &[u8]) {
    let file = layout.open_write(path, how, WriterId(0)).unwrap_or_else(|e| panic!("{path}: {e}"));
    file.write_at(at, &[IoSlice::new(bytes)]).unwrap_or_else(|e| panic!("{path}: {e}"));
    file.close().unwrap_or_else(|e| panic!("{path}: {e}"));
}

#[test]
fn nothing_is_lost_beside_living_writers() {
    let scratch = Scratch::new();
    // Short logs: they end, and are compacted, while their writers go on.
    let settings = Settings { log: 1 << 16, ..Settings::default() };
    let process = || SmallFile::new(Arc::new(Posix::at(scratch.path()).unwrap()), settings).unwrap();
    write(&process(), "all along", OpenWrite::New, 0, &[b'.'; 100]);
    let holder = process();
    let along = holder.open_write("all along", OpenWrite::Existing, WriterId(0)).unwrap();
    along.write_at(10, &[IoSlice::new(b"begun before")]).unwrap();
    let done = AtomicBool::new(false);
    let logs = std::thread::scope(|scope| {
        let writers: Vec<_> = (0..WRITERS)
            .map(|writer| {
                scope.spawn(move || {
                    let mut layout = process();
                    for round in 0..ROUNDS {
                        let bytes = vec![round as u8; 1000 + round];
                        write(&layout, &format!("own {writer}"), OpenWrite::Replace, 0, &bytes);
                        write(&layout, &format!("new {writer} {round}"), OpenWrite::New, 0, &bytes);
                        let at = (round * WRITERS + writer) as u64;
                        write(&layout, "shared", OpenWrite::Any, at, &[writer as u8 + 1]);
                        assert_eq!(read(&layout, &format!("new {writer} {round}")), bytes);
                        if round % 3 == 0 {
                            layout.remove(&format!("new {writer} {round}")).unwrap();
                        }
                        if round % 20 == 19 {
                            // Another process goes on.
                            layout = process();
                        }
                    }
                })
            })
            .collect();
        let compacts = scope.spawn(|| {
            let mut logs = 0;
            while logs == 0 || !done.load(Ordering::Relaxed) {
                logs += process().compact("").unwrap().logs;
            }
            logs
        });
        let outcomes: Vec<_> = writers.into_iter().map(|writer| writer.join()).collect();
        done.store(true, Ordering::Relaxed);
        outcomes.into_iter().for_each(|outcome| outcome.unwrap());
        compacts.join().unwrap()
    });
    assert!(logs > 0, "nothing was compacted");
    along.write_at(50, &[IoSlice::new(b"ended behind")]).unwrap();
    along.close().unwrap();
    let reader = process();
    let mut wanted = [b'.'; 100];
    wanted[10..22].copy_from_slice(b"begun before");
    wanted[50..62].copy_from_slice(b"ended behind");
    assert_eq!(read(&reader, "all along"), wanted);
    let last = ROUNDS - 1;
    for writer in 0..WRITERS {
        assert_eq!(read(&reader, &format!("own {writer}")), vec![last as u8; 1000 + last]);
        for round in 0..ROUNDS {
            let name = format!("new {writer} {round}");
            match round % 3 {
                0 => assert!(reader.open_read(&name).is_err(), "{name} was removed"),
                _ => assert_eq!(read(&reader, &name), vec![round as u8; 1000 + round], "{name}"),
            }
        }
    }
    let shared = read(&reader, "shared");
    let wanted: Vec<u8> = (0..ROUNDS * WRITERS).map(|at| (at % WRITERS) as u8 + 1).collect();
    assert!(shared == wanted, "a byte of the shared file is lost");
    let report = reader.check("", true).unwrap();
    assert!(report.damaged.is_empty(), "{report:?}");
}

#[test]
fn a_log_that_is_just_being_begun_is_left_alone_and_one_that_never_was_goes_one_day() {
    let scratch = Scratch::new();
    let store = Arc::new(Posix::at(scratch.path()).unwrap());
    let process = || SmallFile::new(store.clone(), Settings::default()).unwrap();
    for name in ["a", "b"] {
        write(&process(), name, OpenWrite::New, 0, b"closed");
    }
    let begun = scratch.path().join(".thalweg-small/data.0000000000000007");
    for header in [0, 16] {
        std::fs::write(&begun, vec![0; header]).unwrap();
        process().compact("").unwrap();
        assert!(begun.exists(), "{header} bytes of zeros");
    }
    std::fs::write(&begun, b"").unwrap();
    let report = process().check("", true).unwrap();
    assert_eq!((report.logs, report.torn.len()), (1, 0));
    let hours_ago = std::time::SystemTime::now() - std::time::Duration::from_secs(2 * 3600);
    let file = std::fs::File::options().write(true).open(&begun).unwrap();
    file.set_modified(hours_ago).unwrap();
    drop(file);
    process().compact("").unwrap();
    assert!(!begun.exists());
    for name in ["a", "b"] {
        assert_eq!(read(&process(), name), b"closed");
    }
}

/// Has the logs of a store compacted, once, after a log was closed or before it is opened again.
struct Compacts {
    store: Arc<dyn Store>,
    logs: Mutex<u64>,
    closed: bool,
}

impl Compacts {
    fn compact(&self, operation: &Operation<'_>, when: StoreCall) {
        let mut logs = self.logs.lock();
        if *logs == 0 && operation.asked == when && operation.name.contains("/data.") {
            *logs = SmallFile::new(self.store.clone(), Settings::default()).unwrap().compact("").unwrap().logs;
        }
    }
}

impl Watch for Compacts {
    fn describe(&self) -> &'static str {
        "compacts"
    }

    fn before(&self, operation: &Operation<'_>) -> Verdict {
        if !self.closed {
            self.compact(operation, StoreCall::OpenRead);
        }
        Verdict::Pass
    }

    fn after(&self, operation: &Operation<'_>, _: Result<u64, &Error>) {
        if self.closed {
            self.compact(operation, StoreCall::Close);
        }
    }
}

#[test]
fn a_log_that_another_process_compacts_as_soon_as_it_has_ended_has_ended_well() {
    for memory in [false, true] {
        for closed in [false, true] {
            let scratch = Scratch::new();
            let store: Arc<dyn Store> = match memory {
                true => Arc::new(Memory::new()),
                false => Arc::new(Posix::at(scratch.path()).unwrap()),
            };
            let about = format!("memory: {memory}, after the close: {closed}");
            let compacts = Compacts { store: store.clone(), logs: Mutex::new(0), closed };
            let watched = Arc::new(Wrapped::with(store.clone(), compacts));
            let layout = SmallFile::new(watched.clone(), Settings::default()).unwrap();
            for name in ["a", "b"] {
                write(&layout, name, OpenWrite::New, 0, name.as_bytes());
            }
            layout.finish().unwrap_or_else(|e| panic!("{about}: {e}"));
            assert_eq!(*watched.watch().logs.lock(), 1, "{about}: nothing was compacted");
            // The process goes on.
            write(&layout, "a", OpenWrite::Existing, 1, b"nother");
            write(&layout, "c", OpenWrite::New, 0, b"c");
            layout.finish().unwrap();
            for reader in [&layout, &SmallFile::new(store, Settings::default()).unwrap()] {
                assert_eq!(
                    [read(reader, "a"), read(reader, "b"), read(reader, "c")],
                    [&b"another"[..], b"b", b"c"],
                    "{about}"
                );
            }
        }
    }
}
