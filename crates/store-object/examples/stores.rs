//! Checks a real store: the promises of its capability, and known defects of the client libraries.
//!
//!   stores ADDRESS... [key=value...]    e.g. stores hdfs://127.0.0.1:8020/test s3://bucket/test part=5242880
//!   stores write ADDRESS NAME           writes and syncs until it is killed (the writer of a check)
//!   stores dead ADDRESS PID [long]      an HDFS of three data nodes: kills the data node of this PID, then reads and writes;
//!                                       long: also an object of more than 1 GiB
//!
//! Prints one line `ok NAME` or `not ok NAME` for each check; exit code 1 if a check failed. Makes folders below the address and
//! removes them. Parameters apply to all addresses.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, IoSlice, Write};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::{Command, ExitCode, Stdio};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant, UNIX_EPOCH};
use thalweg_conformance::scratch::Scratch;
use thalweg_conformance::store::{check_but, check_in};
use thalweg_store::wrap::Tiered;
use thalweg_store::wrap::tiered::{Drain, OURS, Pace};
use thalweg_store::{Change, Durability, OpenWrite, Posix, Rename, Store, StoreExt, Visible, WriteObject};
use thalweg_types::{ErrorKind, Result};

type Parameters = BTreeMap<String, String>;
type Check = (&'static str, fn(&Place));

/// Store and folder of a check.
struct Place {
    address: String,
    parameters: Parameters,
    store: Arc<dyn Store>,
    folder: String,
}

impl Place {
    fn name(&self, name: &str) -> String {
        format!("{}/{name}", self.folder)
    }

    fn open(&self, name: &str, how: OpenWrite) -> Box<dyn WriteObject> {
        self.store.open_write(&self.name(name), how).unwrap()
    }

    fn put(&self, name: &str, bytes: &[u8]) {
        self.store.write_all(&self.name(name), bytes).unwrap();
    }

    fn bytes(&self, name: &str) -> Vec<u8> {
        self.store.read_all(&self.name(name)).unwrap()
    }

    fn with(&self, key: &str, value: &str) -> Arc<dyn Store> {
        let mut parameters = self.parameters.clone();
        parameters.insert(key.into(), value.into());
        thalweg_store_object::open(&self.address, &parameters).unwrap()
    }
}

fn write(object: &dyn WriteObject, offset: u64, bytes: &[u8]) {
    object.write_at(offset, &[IoSlice::new(bytes)]).unwrap();
}

fn pattern(length: usize) -> Vec<u8> {
    (0..length as u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 11) as u8).collect()
}

fn kind<T>(result: Result<T>) -> ErrorKind {
    result.map(|_| ()).unwrap_err().kind()
}

/// A burst buffer, its canonical store, and the folder of its fast store.
fn burst_buffer(place: &Place) -> (Tiered, Arc<dyn Store>, Scratch) {
    let mut parameters = place.parameters.clone();
    parameters.remove("settle");
    let below = thalweg_store_object::open(&format!("{}/{}", place.address, place.folder), &parameters).unwrap();
    let fast = Scratch::new();
    let tiered = Tiered::new(Arc::new(Posix::at(fast.path()).unwrap()), below.clone()).unwrap();
    (tiered, below, fast)
}

const ALL: &[Check] = &[
    ("a burst buffer before it keeps its promises while all is drained at once", |place| {
        let (tiered, below, _fast) = burst_buffer(place);
        let background =
            tiered.drain_in_background(Pace { pause: Duration::from_millis(1), ..Pace::default() }).unwrap();
        check_but(&tiered, "conformance", &["identity", "offsets beyond 32 bits"]);
        drop(background);
        assert!(below.list("").unwrap().iter().all(|name| name == OURS), "what was removed is removed behind too");
    }),
    ("what a burst buffer drains is whole, and reads the same before and after", |place| {
        let (tiered, below, _fast) = burst_buffer(place);
        let bytes = pattern(11_000_000);
        tiered.make_folder("run").unwrap();
        for n in 0..8 {
            tiered.write_all(&format!("run/{n}"), &bytes[n * 100_000..]).unwrap();
        }
        let drain = Drain::new(&tiered, Pace::default()).unwrap();
        let passed = drain.pass(&AtomicBool::new(false)).unwrap();
        assert_eq!((passed.objects, passed.failed.len()), (8, 0), "{:?}", passed.failed);
        for n in 0..8 {
            assert!(below.read_all(&format!("run/{n}")).unwrap() == bytes[n * 100_000..]);
            assert!(tiered.read_all(&format!("run/{n}")).unwrap() == bytes[n * 100_000..]);
        }
        assert!(tiered.shadow().list("run").unwrap().is_empty());
        // Fetched back, extended, drained again.
        let object = tiered.open_write("run/0", OpenWrite::Existing).unwrap();
        write(&*object, 11_000_000, b"more");
        object.close().unwrap();
        assert_eq!(drain.pass(&AtomicBool::new(false)).unwrap().objects, 1);
        assert!(below.read_all("run/0").unwrap()[11_000_000..] == *b"more");
        if tiered.capability().modes {
            let change =
                Change { mode: Some(0o600), mtime: Some(UNIX_EPOCH + Duration::from_secs(7)), ..Change::default() };
            tiered.write_all("run/private", b"bytes").unwrap();
            tiered.set_attributes("run/private", &change).unwrap();
            assert_eq!(drain.pass(&AtomicBool::new(false)).unwrap().objects, 1);
            let about = below.attributes("run/private").unwrap();
            assert_eq!((about.mode, Some(about.mtime)), (0o600, change.mtime));
            tiered.open_write("run/private", OpenWrite::Existing).unwrap().close().unwrap();
            let about = tiered.shadow().attributes("run/private").unwrap();
            assert_eq!((about.mode, Some(about.mtime)), (0o600, change.mtime));
        }
    }),
    ("every promise it states is kept", |place| {
        place.store.remove(&place.folder).unwrap();
        check_in(&*place.store, &place.folder);
        place.store.make_folder(&place.folder).unwrap();
    }),
    ("append is never used: what is closed is refused, whatever asks", |place| {
        place.put("object", b"closed");
        assert!(!place.store.capability().append);
        for how in [OpenWrite::Existing, OpenWrite::Any] {
            assert_eq!(kind(place.store.open_write(&place.name("object"), how)), ErrorKind::Unsupported);
        }
        assert_eq!(place.bytes("object"), b"closed");
    }),
    ("many small writes are all there (an append of the S3 library lost bytes silently)", |place| {
        let all = pattern(300_000);
        let object = place.open("object", OpenWrite::New);
        let mut at = 0;
        for run in all.chunks(997) {
            write(&*object, at, run);
            at += run.len() as u64;
        }
        object.close().unwrap();
        assert!(place.bytes("object") == all);
    }),
    ("a range past the end is cut, no panic and no error", |place| {
        place.put("object", b"0123456789");
        let object = place.store.open_read(&place.name("object")).unwrap();
        let mut out = vec![b'-'; 1 << 20];
        assert_eq!(object.read_at(4, &mut out).unwrap(), 6);
        assert_eq!(&out[..8], b"456789--");
        for past in [10, 11, 1 << 40, u64::MAX] {
            assert_eq!(object.read_at(past, &mut out).unwrap(), 0);
        }
        place.put("empty", b"");
        assert_eq!(place.store.open_read(&place.name("empty")).unwrap().read_at(0, &mut out).unwrap(), 0);
    }),
    ("a rename that fails leaves both ends as they were", |place| {
        place.put("target", b"target");
        assert_eq!(kind(place.store.rename(&place.name("missing"), &place.name("target"))), ErrorKind::NotFound);
        assert_eq!(place.bytes("target"), b"target", "a target is not removed, nor made, before its source is known");
        assert_eq!(kind(place.store.rename(&place.name("missing"), &place.name("new"))), ErrorKind::NotFound);
        assert!(!place.store.exists(&place.name("new")).unwrap());
    }),
    ("an object is never moved into a folder of the target's name", |place| {
        place.put("object", b"bytes");
        place.store.make_folder(&place.name("folder")).unwrap();
        let moved = place.store.rename(&place.name("object"), &place.name("folder"));
        assert_eq!(kind(moved), ErrorKind::InvalidArgument);
        assert!(place.store.list(&place.name("folder")).unwrap().is_empty());
        assert_eq!(place.bytes("object"), b"bytes");
    }),
    ("names with spaces, signs and other alphabets", |place| {
        let names = ["a b", "100%", "a+b&c=d?e#f", "größe", "数据", "~tilde", "'quotes\""];
        for (n, name) in names.iter().enumerate() {
            place.put(name, &[n as u8; 3]);
        }
        let mut sorted = names.to_vec();
        sorted.sort_unstable();
        assert_eq!(place.store.list(&place.folder).unwrap(), sorted);
        for (n, name) in names.iter().enumerate() {
            assert_eq!(place.bytes(name), [n as u8; 3], "{name}");
        }
    }),
    ("a refused request tells object and reason, and no credential", |place| {
        let error = place.store.open_read(&place.name("missing")).err().unwrap().to_string();
        assert!(error.contains("missing"), "{error}");
        for key in ["AWS_SECRET_ACCESS_KEY", "AWS_ACCESS_KEY_ID"] {
            if let Ok(secret) = std::env::var(key) {
                assert!(!error.contains(&secret) || secret.len() < 8, "{error}");
            }
        }
    }),
];

const OF_HDFS: &[Check] = &[
    ("bytes of the block being written are read after a sync (the library's reader does not see them)", |place| {
        assert_eq!(place.store.capability().visible, Visible::AtSync);
        let bytes = pattern(200_000);
        let object = place.open("live", OpenWrite::New);
        write(&*object, 0, &bytes[..70_001]);
        object.sync().unwrap();
        let early = place.store.open_read(&place.name("live")).unwrap();
        assert_eq!(early.length().unwrap(), 70_001);
        assert!(place.bytes("live") == bytes[..70_001]);
        write(&*object, 70_001, &bytes[70_001..]);
        object.sync().unwrap();
        let mut out = vec![0; 1000];
        assert_eq!(early.read_at(199_500, &mut out).unwrap(), 500, "a reader opened before sees what came since");
        assert!(out[..500] == bytes[199_500..]);
        object.close().unwrap();
        assert!(place.bytes("live") == bytes);
    }),
    ("without WebHDFS the block being written is cut off, no panic", |place| {
        let blind = place.with("web", "none");
        assert_eq!(blind.capability().visible, Visible::AtClose);
        let object = place.open("live", OpenWrite::New);
        write(&*object, 0, b"synced");
        object.sync().unwrap();
        let mut out = [0; 10];
        assert_eq!(blind.open_read(&place.name("live")).unwrap().read_at(0, &mut out).unwrap(), 0);
        object.close().unwrap();
    }),
    ("without WebHDFS a closed object is whole at once, though its last block is not yet reported", |place| {
        let blind = place.with("web", "none");
        for n in 0..30 {
            let name = place.name(&format!("{n}"));
            let object = blind.open_write(&name, OpenWrite::New).unwrap();
            write(&*object, 0, b"bytes");
            object.close().unwrap();
            assert_eq!(blind.read_all(&name).unwrap(), b"bytes", "object {n}");
        }
    }),
    ("an object over several blocks is read across their borders, the last one open or closed", |place| {
        let small = place.with("block", "1048576");
        let bytes = pattern(3_500_000);
        let object = small.open_write(&place.name("blocks"), OpenWrite::New).unwrap();
        write(&*object, 0, &bytes);
        object.sync().unwrap();
        let check = || {
            let read = small.open_read(&place.name("blocks")).unwrap();
            assert_eq!(read.length().unwrap(), 3_500_000);
            let mut out = vec![0; 1_100_000];
            for at in [0, 1_048_000, 2_096_000, 2_600_000] {
                let got = read.read_at(at, &mut out).unwrap();
                assert!(got > 0 && out[..got] == bytes[at as usize..at as usize + got], "at {at}");
            }
        };
        check();
        object.close().unwrap();
        check();
    }),
    ("replication is the mount's choice", |place| {
        let one = place.with("replication", "1");
        one.write_all(&place.name("one"), b"bytes").unwrap();
        place.put("usual", b"bytes");
        let store = thalweg_store_object::hdfs::Hdfs::open(
            &place.address,
            &place.parameters.iter().map(|(k, v)| (k.as_str(), v.as_str())).collect(),
        );
        let store = store.unwrap();
        assert_eq!(store.replication_of(&place.name("one")).unwrap(), Some(1));
        store.with_replication(2).write_all(&place.name("two"), b"bytes").unwrap();
        assert_eq!(store.replication_of(&place.name("two")).unwrap(), Some(2));
    }),
    ("what a killed writer had synced is there once its lease is recovered", |place| {
        let mut writer = Command::new(std::env::current_exe().unwrap())
            .args(["write", &place.address, &place.name("orphan")])
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut synced = 0;
        for line in BufReader::new(writer.stdout.take().unwrap()).lines().take(5) {
            synced = line.unwrap().parse::<usize>().unwrap();
        }
        writer.kill().unwrap();
        writer.wait().unwrap();
        place.store.settle(&place.name("orphan")).unwrap();
        let bytes = place.bytes("orphan");
        assert!(bytes.len() >= synced && synced > 0, "{} bytes of {synced} synced", bytes.len());
        assert!(bytes == pattern(1 << 20)[..bytes.len()]);
        place.store.settle(&place.name("orphan")).unwrap();
        place.store.rename(&place.name("orphan"), &place.name("found")).unwrap();
        place.put("orphan", b"another");
    }),
    ("a name that somebody is writing is refused to others", |place| {
        let object = place.open("busy", OpenWrite::New);
        write(&*object, 0, b"mine");
        object.sync().unwrap();
        let other = place.with("timeout", "50");
        assert_eq!(kind(other.open_write(&place.name("busy"), OpenWrite::New)), ErrorKind::AlreadyExists);
        object.close().unwrap();
        assert_eq!(place.bytes("busy"), b"mine");
    }),
    ("a writer whose object was replaced meanwhile is told so", |place| {
        let object = place.open("object", OpenWrite::New);
        write(&*object, 0, b"old");
        place.put("object", b"new");
        object.close().unwrap_err();
        assert_eq!(place.bytes("object"), b"new");
    }),
    ("sync means the pipeline", |place| assert_eq!(place.store.capability().durability, Durability::Pipeline)),
    ("a close right after a sync right after a write, fifty times", |place| {
        for n in 0..50usize {
            let bytes = pattern(1000 + n * 37);
            let object = place.open("again", OpenWrite::Replace);
            write(&*object, 0, &bytes);
            object.sync().unwrap();
            object.close().unwrap();
            assert!(place.bytes("again") == bytes, "round {n}");
        }
    }),
];

const OF_S3: &[Check] = &[
    ("parts of an upload are whole at any length around their size", |place| {
        let part = 5 << 20;
        for length in [part - 1, part, part + 1, 3 * part, 3 * part + 7] {
            let bytes = pattern(length);
            let object = place.open("parts", OpenWrite::Replace);
            let mut at = 0;
            for run in bytes.chunks(1_234_567) {
                write(&*object, at, run);
                at += run.len() as u64;
            }
            object.close().unwrap();
            assert!(place.bytes("parts") == bytes, "{length} bytes");
        }
    }),
    ("an upload of many parts takes bounded memory", |place| {
        // 160 MiB in parts of 5 MiB, two at once: at most five parts are held.
        let before = resident();
        let run = pattern(1 << 20);
        let object = place.open("large", OpenWrite::New);
        for n in 0..160u64 {
            write(&*object, n << 20, &run);
        }
        object.close().unwrap();
        let grown = resident().saturating_sub(before);
        assert_eq!(place.store.stat(&place.name("large")).unwrap().length, 160 << 20);
        assert!(grown < 60 << 20, "memory grew by {} MiB", grown >> 20);
    }),
    ("a reader of a replaced object gets the old bytes or an error, never a mixture", |place| {
        place.put("object", &[1; 100_000]);
        let read = place.store.open_read(&place.name("object")).unwrap();
        let mut out = vec![0; 50_000];
        read.read_exact_at(0, &mut out).unwrap();
        place.put("object", &[2; 100_000]);
        match read.read_exact_at(50_000, &mut out) {
            Ok(()) => assert!(out == [1; 50_000]),
            Err(error) => assert_eq!(error.kind(), ErrorKind::NotReady, "{error}"),
        }
    }),
    ("of two writers that both saw no object, the second to close is told so", |place| {
        let (first, second) = (place.open("object", OpenWrite::New), place.open("object", OpenWrite::New));
        let large = pattern(6 << 20);
        write(&*first, 0, b"first");
        // In parts: the condition must hold for an upload of several parts too.
        write(&*second, 0, &large);
        first.close().unwrap();
        assert_eq!(kind(second.close()), ErrorKind::AlreadyExists);
        assert_eq!(place.bytes("object"), b"first");
    }),
    ("an upload given up leaves nothing behind", |place| {
        let object = place.open("object", OpenWrite::New);
        write(&*object, 0, &pattern(11 << 20));
        drop(object);
        assert!(place.store.list(&place.folder).unwrap().is_empty());
        place.store.remove(&place.folder).unwrap();
        place.store.make_folder(&place.folder).unwrap();
    }),
    ("a rename is a copy that replaces", |place| {
        assert_eq!(place.store.capability().rename, Rename::Copy);
        place.put("a", &pattern(6 << 20));
        place.put("b", b"old");
        place.store.rename(&place.name("a"), &place.name("b")).unwrap();
        assert!(place.bytes("b") == pattern(6 << 20));
        assert!(!place.store.exists(&place.name("a")).unwrap());
        place.store.make_folder(&place.name("folder")).unwrap();
        let moved = place.store.rename(&place.name("folder"), &place.name("other"));
        assert_eq!(kind(moved), ErrorKind::Unsupported);
    }),
    ("an object beside a folder of its name is refused", |place| {
        place.put("p", b"bytes");
        assert_eq!(kind(place.store.open_write(&place.name("p/q"), OpenWrite::New)), ErrorKind::NotFound);
        place.store.make_folder(&place.name("f")).unwrap();
        assert_eq!(kind(place.store.open_write(&place.name("f"), OpenWrite::New)), ErrorKind::InvalidArgument);
        assert_eq!(place.bytes("p"), b"bytes");
    }),
];

/// Peak memory of this process, in bytes.
fn resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    line.and_then(|line| line.trim().trim_end_matches(" kB").parse::<u64>().ok()).unwrap_or(0) << 10
}

fn clear(store: &dyn Store, folder: &str) {
    for entry in store.list(folder).unwrap() {
        let name = format!("{folder}/{entry}");
        if store.stat(&name).unwrap().is_folder { clear(store, &name) } else { store.remove(&name).unwrap() }
    }
    store.remove(folder).unwrap();
}

fn write_until_killed(address: &str, name: &str) {
    let store = thalweg_store_object::open(address, &Parameters::new()).unwrap();
    let object = store.open_write(name, OpenWrite::New).unwrap();
    let bytes = pattern(1 << 20);
    let mut at = 0;
    for run in bytes.chunks(3001) {
        write(&*object, at as u64, run);
        at += run.len();
        object.sync().unwrap();
        println!("{at}");
        std::io::stdout().flush().unwrap();
    }
    std::thread::sleep(std::time::Duration::from_secs(60));
}

/// The limit for hangs of a check, which makes some dozen attempts of some milliseconds each: a client that waits for a dead node does
/// so for a minute each time.
const LIMIT: Duration = Duration::from_secs(180);

fn in_time<T>(name: &str, check: impl FnOnce() -> T) -> T {
    let start = Instant::now();
    let passed = check();
    let took = start.elapsed();
    eprintln!("{:.2} s", took.as_secs_f64());
    assert!(took < LIMIT, "{name}: {took:?}, the limit for hangs is {LIMIT:?}");
    println!("ok hdfs: {name}");
    passed
}

/// Kills one of three data nodes, which the name node still counts as alive, then reads and writes: no operation fails,
/// no written byte is missing, and no operation takes long.
fn with_a_dead_node(address: &str, process: &str, long: bool) {
    let parameters = Parameters::from([("block".into(), "1048576".into()), ("replication".into(), "2".into())]);
    let store = thalweg_store_object::open(address, &parameters).unwrap();
    let all = pattern((40 << 20) + 17);
    let open = |name: &str| store.open_write(name, OpenWrite::New).unwrap();
    let is_whole = |name: &str, bytes: &[u8]| assert!(store.read_all(name).unwrap() == bytes, "{name}");

    // Begun while all nodes are alive: so many that each pair of nodes has some.
    let names: Vec<String> = (0..12).map(|n| format!("begun-{n}")).collect();
    for name in &names {
        let object = open(&format!("closed-{name}"));
        write(&*object, 0, &all[..3 << 20]);
        object.close().unwrap();
    }
    let begun: Vec<_> = names.iter().map(|name| open(name)).collect();
    for (n, object) in begun.iter().enumerate() {
        write(&**object, 0, &all[..300_000]);
        if n % 3 > 0 {
            object.sync().unwrap();
        }
    }
    let reading: Vec<_> = names.iter().map(|name| store.open_read(&format!("closed-{name}")).unwrap()).collect();
    assert!(Command::new("kill").args(["-KILL", process]).status().unwrap().success());

    in_time("what is closed is read over a dead data node, by readers from before it died, too", || {
        let mut out = vec![0; 3 << 20];
        for (name, reader) in names.iter().zip(&reading) {
            reader.read_exact_at(0, &mut out).unwrap();
            assert!(out == all[..3 << 20]);
            is_whole(&format!("closed-{name}"), &all[..3 << 20]);
        }
    });
    in_time("what is synced and still being written is read over a dead data node", || {
        for (_, name) in names.iter().enumerate().filter(|(n, _)| n % 3 > 0) {
            let reader = store.open_read(name).unwrap();
            let mut out = vec![0; 300_000];
            reader.read_exact_at(0, &mut out).unwrap();
            assert!(out == all[..300_000], "{name}");
        }
    });
    in_time("objects that were being written when a data node died are written on", || {
        for (n, (object, name)) in begun.into_iter().zip(&names).enumerate() {
            write(&*object, 300_000, &all[300_000..600_000]);
            if n % 2 == 0 {
                object.sync().unwrap();
            }
            write(&*object, 600_000, &all[600_000..2_500_000]);
            object.close().unwrap();
            is_whole(name, &all[..2_500_000]);
        }
    });
    in_time("short objects pass over a dead data node, synced and not", || {
        for n in 0..20 {
            let name = format!("short-{n}");
            let object = open(&name);
            if n % 4 == 0 {
                object.sync().unwrap();
            }
            write(&*object, 0, &all[..1000]);
            if n % 2 == 0 {
                object.sync().unwrap();
            }
            write(&*object, 1000, &all[1000..30_000]);
            object.close().unwrap();
            is_whole(&name, &all[..30_000]);
        }
    });
    in_time("objects that threads write at once pass over a dead data node", || {
        std::thread::scope(|scope| {
            for n in 0..20 {
                let (open, is_whole, all) = (&open, &is_whole, &all);
                scope.spawn(move || {
                    let object = open(&format!("at-once-{n}"));
                    write(&*object, 0, &all[..1_500_000]);
                    object.sync().unwrap();
                    write(&*object, 1_500_000, &all[1_500_000..1_600_000]);
                    object.close().unwrap();
                    is_whole(&format!("at-once-{n}"), &all[..1_600_000]);
                });
            }
        });
    });
    for synced in [false, true] {
        let name = format!("an object of forty blocks passes over a dead data node, synced: {synced}");
        in_time(&name, || {
            let name = format!("several-{synced}");
            let object = open(&name);
            for (k, run) in all.chunks(1_500_000).enumerate() {
                write(&*object, k as u64 * 1_500_000, run);
                if synced && k % 5 == 0 {
                    object.sync().unwrap();
                    let seen = store.open_read(&name).unwrap().length().unwrap();
                    assert_eq!(seen, k as u64 * 1_500_000 + run.len() as u64);
                }
            }
            object.close().unwrap();
            is_whole(&name, &all);
        });
    }
    in_time("three copies on two nodes that are left", || {
        let parameters = Parameters::from([("replication".into(), "3".into())]);
        let three = thalweg_store_object::open(&format!("{address}/three"), &parameters).unwrap();
        for n in 0..5 {
            three.write_all(&format!("{n}"), &all[..100_000]).unwrap();
            assert!(three.read_all(&format!("{n}")).unwrap() == all[..100_000]);
        }
    });
    in_time("an object made anew keeps its mode", || {
        for n in 0..5 {
            let name = format!("mode-{n}");
            let object = open(&name);
            store.set_attributes(&name, &Change { mode: Some(0o600), ..Change::default() }).unwrap();
            write(&*object, 0, &all[..1000]);
            object.close().unwrap();
            assert_eq!(store.attributes(&name).unwrap().mode, 0o600);
        }
    });
    in_time("a writer that was settled does not come back", || {
        for n in 0..5 {
            let name = format!("settled-{n}");
            let object = open(&name);
            store.settle(&name).unwrap();
            let written = object.write_at(0, &[IoSlice::new(&all[..1000])]).and_then(|()| object.close());
            assert!(written.is_err() && store.read_all(&name).unwrap().is_empty());
        }
    });
    if long {
        let start = Instant::now();
        let parameters =
            Parameters::from([("block".into(), (128 << 20).to_string()), ("replication".into(), "2".into())]);
        let store = thalweg_store_object::open(address, &parameters).unwrap();
        let object = store.open_write("long", OpenWrite::New).unwrap();
        let length = (5 << 30) / 2 + 12_345;
        let run = &all[..16 << 20];
        for at in (0..length).step_by(run.len()) {
            write(&*object, at, &run[..(length - at).min(run.len() as u64) as usize]);
        }
        object.close().unwrap();
        let read = store.open_read("long").unwrap();
        assert_eq!(read.length().unwrap(), length);
        let mut out = vec![0; run.len()];
        for at in (0..length).step_by(run.len()) {
            let part = (length - at).min(run.len() as u64) as usize;
            read.read_exact_at(at, &mut out[..part]).unwrap();
            assert!(out[..part] == run[..part], "{at}");
        }
        eprintln!("{:.2} s", start.elapsed().as_secs_f64());
        println!("ok hdfs: an object of 2.5 GiB passes over a dead data node");
    }
    let left = store.list("").unwrap();
    assert!(left.iter().all(|name| !name.contains(".anew-")), "{left:?}");
    println!("ok hdfs: nothing is left of what was made anew");
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let [command, address, process, how @ ..] = &arguments[..]
        && command == "dead"
    {
        with_a_dead_node(address, process, how.iter().any(|how| how == "long"));
        return ExitCode::SUCCESS;
    }
    if let [command, address, name] = &arguments[..]
        && command == "write"
    {
        write_until_killed(address, name);
        return ExitCode::SUCCESS;
    }
    let (addresses, given): (Vec<_>, Vec<_>) = arguments.iter().partition(|argument| argument.contains("://"));
    let parameters: Parameters =
        given.iter().filter_map(|pair| pair.split_once('=')).map(|(k, v)| (k.into(), v.into())).collect();
    let mut failed = addresses.is_empty();
    for address in addresses {
        let store = thalweg_store_object::open(address, &parameters).unwrap_or_else(|e| panic!("{address}: {e}"));
        let scheme = address.split("://").next().unwrap_or_default();
        let own = if scheme == "hdfs" { OF_HDFS } else { OF_S3 };
        for (number, (name, check)) in ALL.iter().chain(own).enumerate() {
            let folder = format!("check-{number}");
            store.make_folder(&folder).unwrap();
            let place = Place {
                address: address.clone(),
                parameters: parameters.clone(),
                store: store.clone(),
                folder: folder.clone(),
            };
            let start = std::time::Instant::now();
            let passed = catch_unwind(AssertUnwindSafe(|| check(&place))).is_ok();
            eprintln!("{:.1} s", start.elapsed().as_secs_f64());
            println!("{} {scheme}: {name}", if passed { "ok" } else { "not ok" });
            failed |= !passed;
            clear(&*store, &folder);
        }
    }
    ExitCode::from(u8::from(failed))
}
