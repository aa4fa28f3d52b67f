//! The burst buffer: one store to its readers, whatever was drained, and whenever a crash came.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;
use thalweg_conformance::{scratch::Scratch, store};
use thalweg_store::wrap::tiered::{Drain, OURS, Pace, run_until_idle, status};
use thalweg_store::wrap::{
    Counting, Failing, Fault, Operation, Sequential, StoreCall, Tiered, Verdict, Watch, Wrapped,
};
use thalweg_store::{Memory, OpenWrite, Posix, Store, StoreExt};
use thalweg_types::{Error, ErrorKind, Result};

static GO: AtomicBool = AtomicBool::new(false);

fn quick() -> Pace {
    Pace { pause: Duration::from_micros(50), ..Pace::default() }
}

fn tiered(canonical: impl Store + 'static) -> (Arc<Memory>, Tiered) {
    let shadow = Arc::new(Memory::new());
    (shadow.clone(), Tiered::new(shadow, Arc::new(canonical)).unwrap())
}

/// Every object of a store by name, but those that the burst buffer keeps for itself.
fn content(store: &dyn Store) -> BTreeMap<String, Vec<u8>> {
    fn walk(store: &dyn Store, folder: &str, all: &mut BTreeMap<String, Vec<u8>>) {
        for entry in store.list(folder).unwrap() {
            let name = if folder.is_empty() { entry } else { format!("{folder}/{entry}") };
            match store.stat(&name).unwrap().is_folder {
                true if name == OURS => {}
                true => walk(store, &name, all),
                false => drop(all.insert(name.clone(), store.read_all(&name).unwrap())),
            }
        }
    }
    let mut all = BTreeMap::new();
    walk(store, "", &mut all);
    all
}

/// Copies and pointers in the folder that the burst buffer keeps for itself in the canonical store.
fn left_over(canonical: &dyn Store) -> Vec<String> {
    let mut left = Vec::new();
    let mut folders = vec![OURS.to_string()];
    while let Some(folder) = folders.pop() {
        for entry in canonical.list(&folder).unwrap() {
            let name = format!("{folder}/{entry}");
            match canonical.stat(&name).unwrap().is_folder {
                true if entry == "shadows" => {}
                true => folders.push(name),
                false => left.push(name),
            }
        }
    }
    left
}

fn append(store: &dyn Store, name: &str, bytes: &[u8]) -> Result<()> {
    let object = store.open_write(name, OpenWrite::Existing)?;
    object.write_at(object.length()?, &[std::io::IoSlice::new(bytes)])?;
    object.close()
}

#[test]
fn it_keeps_its_promises_with_no_drain_at_work() {
    store::check(&tiered(Memory::new()).1);
    let scratch = Scratch::new();
    let (fast, slow) = (scratch.join("fast"), scratch.join("slow"));
    std::fs::create_dir_all(&fast).unwrap();
    std::fs::create_dir_all(&slow).unwrap();
    let (fast, slow) = (Posix::at(fast).unwrap(), Posix::at(slow).unwrap());
    store::check(&Tiered::new(Arc::new(fast), Arc::new(slow)).unwrap());
}

#[test]
fn it_keeps_its_promises_while_everything_is_drained_at_once() {
    let canonicals: [Arc<dyn Store>; 3] =
        [Arc::new(Memory::new()), Arc::new(Sequential::like_hdfs()), Arc::new(Sequential::like_s3())];
    for canonical in canonicals {
        let tiered = Tiered::new(Arc::new(Memory::new()), canonical.clone()).unwrap();
        let background = tiered.drain_in_background(quick()).unwrap();
        // What is drained is another object of the same name; five GiB of holes are many to copy.
        store::check_but(&tiered, "conformance", &["identity", "offsets beyond 32 bits"]);
        drop(background);
        let moved = status(&tiered).unwrap().objects;
        assert!(moved >= 4, "the drain was at work: {moved}");
    }
}

#[test]
fn on_files_it_keeps_its_promises_while_everything_is_drained_at_once() {
    let scratch = Scratch::new();
    let (fast, slow) = (scratch.join("fast"), scratch.join("slow"));
    std::fs::create_dir_all(&fast).unwrap();
    std::fs::create_dir_all(&slow).unwrap();
    let (fast, slow) = (Posix::at(fast).unwrap(), Posix::at(slow).unwrap());
    let tiered = Tiered::new(Arc::new(fast), Arc::new(slow)).unwrap();
    let background = tiered.drain_in_background(quick()).unwrap();
    store::check_but(&tiered, "conformance", &["identity", "offsets beyond 32 bits"]);
    drop(background);
}

#[test]
fn a_write_is_acknowledged_by_the_fast_store_and_moved_behind() {
    let slow = Arc::new(Counting::new(Arc::new(Memory::new())));
    let shadow = Arc::new(Memory::new());
    let tiered = Tiered::new(shadow.clone(), slow.clone()).unwrap();
    tiered.make_folder("run").unwrap();
    let object = tiered.open_write("run/a", OpenWrite::Replace).unwrap();
    slow.take();
    for n in 0..100 {
        object.write_at(n * 10, &[std::io::IoSlice::new(&[n as u8; 10])]).unwrap();
        object.sync().unwrap();
    }
    assert_eq!(slow.take().objects, BTreeMap::new(), "no write waits for the slow store");
    object.close().unwrap();
    let asked = slow.take().total();
    assert_eq!((asked.opens_for_writing, asked.bytes_written, asked.syncs), (0, 0, 0), "nor does a close");
    let drain = Drain::new(&tiered, quick()).unwrap();
    let passed = drain.pass(&GO).unwrap();
    assert_eq!((passed.objects, passed.bytes, passed.failed.len()), (1, 1000, 0));
    assert_eq!(shadow.list("run").unwrap(), [""; 0], "the shadow store forgot it");
    assert_eq!(tiered.read_all("run/a").unwrap()[990..], [99; 10]);
    assert_eq!(drain.pass(&GO).unwrap().objects, 0);
}

#[test]
fn what_is_being_written_is_left_alone() {
    let (shadow, tiered) = tiered(Memory::new());
    let object = tiered.open_write("a", OpenWrite::New).unwrap();
    object.write_at(0, &[std::io::IoSlice::new(b"first")]).unwrap();
    let drain = Drain::new(&tiered, quick()).unwrap();
    assert_eq!(drain.pass(&GO).unwrap().busy, 1);
    let waiting = status(&tiered).unwrap().waiting;
    assert_eq!((waiting[0].name.as_str(), waiting[0].length, waiting[0].written), ("a", 5, true));
    object.write_at(5, &[std::io::IoSlice::new(b"second")]).unwrap();
    object.close().unwrap();
    assert_eq!(drain.pass(&GO).unwrap().objects, 1);
    assert!(content(&*shadow).is_empty());
    assert_eq!(tiered.read_all("a").unwrap(), b"firstsecond");
    let status = status(&tiered).unwrap();
    assert_eq!((status.objects, status.bytes, status.waiting.len(), status.draining), (1, 11, 0, true));
}

#[test]
fn a_reader_goes_on_reading_what_is_drained_under_it() {
    let (_, tiered) = tiered(Sequential::like_s3());
    tiered.write_all("a", &[7; 100_000]).unwrap();
    let read = tiered.open_read("a").unwrap();
    let mut out = [0; 1000];
    read.read_exact_at(0, &mut out).unwrap();
    assert_eq!(Drain::new(&tiered, quick()).unwrap().pass(&GO).unwrap().objects, 1);
    read.read_exact_at(99_000, &mut out).unwrap();
    assert_eq!(out, [7; 1000]);
}

/// Does something in the middle of a copy: at the first write into the canonical store.
struct Meanwhile(std::sync::Mutex<Option<Box<dyn FnOnce() + Send>>>);

impl Watch for Meanwhile {
    fn describe(&self) -> &'static str {
        "interrupted"
    }

    fn before(&self, operation: &Operation<'_>) -> Verdict {
        // The copy's, not the pointer's; nothing is locked while it acts, which may write there too.
        let act = match operation.asked == StoreCall::Write && !operation.name.contains("/at/") {
            true => self.0.lock().unwrap().take(),
            false => None,
        };
        if let Some(act) = act {
            act();
        }
        Verdict::Pass
    }
}

#[test]
fn what_is_changed_while_it_is_copied_is_copied_again() {
    type Act = (&'static str, fn(&Tiered), Option<&'static [u8]>);
    let acts: [Act; 5] = [
        ("appended", |t| append(t, "a", b" more").unwrap(), Some(b"bytes more")),
        ("replaced", |t| t.write_all("a", b"other").unwrap(), Some(b"other")),
        ("removed", |t| t.remove("a").unwrap(), None),
        ("renamed away", |t| t.rename("a", "b").unwrap(), None),
        ("renamed over", |t| t.write_all("c", b"over").and_then(|()| t.rename("c", "a")).unwrap(), Some(b"over")),
    ];
    for whole in [true, false] {
        for (how, act, left) in acts {
            let inner: Arc<dyn Store> =
                if whole { Arc::new(Sequential::like_s3()) } else { Arc::new(Sequential::like_hdfs()) };
            let canonical = Arc::new(Wrapped::with(inner.clone(), Meanwhile(Default::default())));
            let tiered = Tiered::new(Arc::new(Memory::new()), canonical.clone()).unwrap();
            tiered.write_all("a", b"bytes").unwrap();
            let acting = tiered.clone();
            canonical.watch().0.lock().unwrap().replace(Box::new(move || act(&acting)));
            let drain = Drain::new(&tiered, quick()).unwrap();
            assert_eq!(drain.pass(&GO).unwrap().busy, 1, "{how}");
            let seen = content(&tiered);
            assert_eq!(seen.get("a").map(Vec::as_slice), left, "{how}, whole: {whole}");
            while drain.pass(&GO).unwrap().objects > 0 {}
            assert_eq!(content(&tiered), seen, "{how}: draining changes nothing");
            assert_eq!(content(&*inner), seen, "{how}: everything is behind now, once");
        }
    }
}

#[test]
fn a_copy_that_differs_is_not_believed() {
    /// Damages what was copied as soon as it is there.
    struct Damaging(Sequential);
    impl Watch for Damaging {
        fn describe(&self) -> &'static str {
            "damaging"
        }
        fn after(&self, operation: &Operation<'_>, _: std::result::Result<u64, &Error>) {
            if operation.asked == StoreCall::Close {
                self.0.memory().write_all("a", b"bytez").unwrap();
            }
        }
    }
    let inner = Sequential::like_s3();
    let canonical = Arc::new(Wrapped::with(Arc::new(inner.clone()), Damaging(inner.clone())));
    let shadow = Arc::new(Memory::new());
    let tiered = Tiered::new(shadow.clone(), canonical).unwrap();
    tiered.write_all("a", b"bytes").unwrap();
    let drain = Drain::new(&tiered, quick()).unwrap();
    let failed = drain.pass(&GO).unwrap().failed;
    assert_eq!((failed.len(), failed[0].0.as_str(), failed[0].1.kind()), (1, "a", ErrorKind::Corrupt));
    assert_eq!(shadow.read_all("a").unwrap(), b"bytes", "the shadow store keeps it");
    assert_eq!(tiered.read_all("a").unwrap(), b"bytes", "and readers see that one");
}

#[test]
fn a_canonical_store_that_is_away_costs_time_and_nothing_else() {
    let failing = Arc::new(Failing::new(Arc::new(Memory::new())));
    let tiered = Tiered::new(Arc::new(Memory::new()), failing.clone()).unwrap();
    tiered.write_all("a", b"bytes").unwrap();
    let drain = Drain::new(&tiered, quick()).unwrap();
    for asked in [StoreCall::OpenWrite, StoreCall::Write, StoreCall::Close, StoreCall::Rename, StoreCall::Read] {
        failing.fail(Fault::of(asked));
        assert_eq!(drain.pass(&GO).unwrap().failed.len(), 1, "{asked:?}");
        failing.heal();
        assert_eq!(tiered.read_all("a").unwrap(), b"bytes");
    }
    assert_eq!(drain.pass(&GO).unwrap().objects, 1);
    assert_eq!(left_over(&*failing), [""; 0], "no copy is left over");
}

#[test]
fn a_fast_store_that_fails_or_is_full_is_told_and_drained_all_the_same() {
    /// No byte fits any more.
    struct Full(AtomicBool);
    impl Watch for Full {
        fn describe(&self) -> &'static str {
            "full"
        }
        fn before(&self, operation: &Operation<'_>) -> Verdict {
            match operation.asked == StoreCall::Write && self.0.load(Ordering::Relaxed) {
                true => Verdict::Fail(Error::new(ErrorKind::NoSpace, "no space left on device (made to be)")),
                false => Verdict::Pass,
            }
        }
    }
    let canonicals: [Arc<dyn Store>; 3] =
        [Arc::new(Memory::new()), Arc::new(Sequential::like_hdfs()), Arc::new(Sequential::like_s3())];
    for canonical in canonicals {
        let shadow = Arc::new(Wrapped::with(Arc::new(Memory::new()), Full(AtomicBool::new(false))));
        let failing = Arc::new(Failing::new(shadow.clone()));
        let tiered = Tiered::new(failing.clone(), canonical.clone()).unwrap();
        tiered.make_folder("d").unwrap();
        tiered.write_all("d/a", b"bytes").unwrap();
        tiered.write_all("b", b"more bytes").unwrap();
        {
            let drain = Drain::new(&tiered, quick()).unwrap();
            failing.fail(Fault::of(StoreCall::Read));
            assert!(!drain.pass(&GO).unwrap().failed.is_empty());
            failing.heal();
            assert!(shadow.exists("d/a").unwrap() && shadow.exists("b").unwrap(), "what was not read is not forgotten");
        }
        shadow.watch().0.store(true, Ordering::Relaxed);
        let object = tiered.open_write("c", OpenWrite::New).unwrap();
        let error = object.write_at(0, &[std::io::IoSlice::new(b"no room")]).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NoSpace);
        drop(object);
        tiered.remove("c").unwrap();
        let drain = Drain::new(&tiered, Pace { streams: 1, ..quick() }).unwrap();
        let passed = drain.pass(&GO).unwrap();
        assert!(passed.failed.is_empty(), "{:?}", passed.failed);
        assert_eq!(passed.objects, 2, "room is made without room");
        shadow.watch().0.store(false, Ordering::Relaxed);
        tiered.write_all("c", b"room again").unwrap();
        assert_eq!(drain.pass(&GO).unwrap().objects, 1);
        let expected: [(&str, &[u8]); 3] = [("b", b"more bytes"), ("c", b"room again"), ("d/a", b"bytes")];
        let expected: BTreeMap<String, Vec<u8>> =
            expected.into_iter().map(|(name, bytes)| (name.into(), bytes.into())).collect();
        assert_eq!(content(&*canonical), expected);
        assert!(content(&*shadow).is_empty());
        assert_eq!(left_over(&*canonical), [""; 0]);
    }
}

#[test]
fn the_drain_keeps_to_its_bandwidth_and_is_alone() {
    let (_, tiered) = tiered(Memory::new());
    tiered.write_all("a", &vec![1; 3_000_000]).unwrap();
    // Written and read back are 6 MB; the first second's worth was saved up.
    let pace = Pace { bytes_per_second: 10_000_000.0, ..quick() };
    let drain = Drain::new(&tiered, pace).unwrap();
    assert_eq!(Drain::new(&tiered, pace).err().unwrap().kind(), ErrorKind::AlreadyExists);
    tiered.write_all("b", &vec![1; 4_000_000]).unwrap();
    let start = std::time::Instant::now();
    assert_eq!(drain.pass(&GO).unwrap().objects, 2);
    assert!(start.elapsed() >= Duration::from_millis(350), "{:?}", start.elapsed());
    drop(drain);
    Drain::new(&tiered, pace).unwrap();
}

#[test]
fn a_store_that_cannot_be_a_shadow_or_a_canonical_one_is_refused_with_the_reason() {
    let memory = || Arc::new(Memory::new());
    let refused = |shadow: Arc<dyn Store>, canonical: Arc<dyn Store>| {
        let error = Tiered::new(shadow, canonical).err().unwrap();
        assert_eq!(error.kind(), ErrorKind::Config);
        error.to_string()
    };
    let text = refused(Arc::new(Sequential::like_s3()), memory());
    assert!(text.contains("sequential:s3") && text.contains("writes at any offset"), "{text}");
    struct Plain;
    impl Watch for Plain {
        fn describe(&self) -> &'static str {
            "plain"
        }
        fn capability(&self, inner: thalweg_store::Capability) -> thalweg_store::Capability {
            thalweg_store::Capability { rename: thalweg_store::Rename::None, ..inner }
        }
    }
    let text = refused(memory(), Arc::new(Wrapped::with(memory(), Plain)));
    assert!(text.contains("plain around memory:") && text.contains("renames"), "{text}");
}

#[test]
fn a_pointer_whose_making_was_interrupted_hides_nothing_and_hinders_nobody_for_long() {
    let canonical = Arc::new(Sequential::like_hdfs());
    let tiered = Tiered::new(Arc::new(Memory::new()), canonical.clone()).unwrap();
    tiered.write_all("b", b"x").unwrap();
    canonical.write_all(&format!("{OURS}/at/a"), b"THWG").unwrap();
    assert_eq!(tiered.list("").unwrap(), ["b"]);
    assert_eq!(tiered.read_all("a").unwrap_err().kind(), ErrorKind::NotFound);
    tiered.write_all("a", b"bytes").unwrap();
    assert_eq!(tiered.read_all("a").unwrap(), b"bytes");
    assert_eq!(Drain::new(&tiered, quick()).unwrap().pass(&GO).unwrap().objects, 2);
    assert_eq!(left_over(&*canonical), [""; 0]);
}

#[test]
fn fast_stores_of_several_nodes_need_a_canonical_store_that_makes_names_exclusively() {
    struct Careless;
    impl Watch for Careless {
        fn describe(&self) -> &'static str {
            "careless"
        }
        fn capability(&self, inner: thalweg_store::Capability) -> thalweg_store::Capability {
            thalweg_store::Capability { exclusive: false, ..inner }
        }
    }
    let canonical: Arc<dyn Store> = Arc::new(Wrapped::with(Arc::new(Memory::new()), Careless));
    let fast = Arc::new(Memory::new());
    let one = Tiered::new(fast.clone(), canonical.clone()).unwrap();
    one.write_all("a", b"bytes").unwrap();
    let refused = Tiered::new(Arc::new(Memory::new()), canonical.clone()).err().unwrap();
    assert_eq!(refused.kind(), ErrorKind::Config);
    assert!(refused.to_string().contains("exclusive creation"), "{refused}");
    // The first one goes on.
    let again = Tiered::new(fast, canonical).unwrap();
    assert_eq!(Drain::new(&again, quick()).unwrap().pass(&GO).unwrap().objects, 1);
    assert_eq!(again.read_all("a").unwrap(), b"bytes");
}

#[test]
fn a_fast_store_of_before_there_were_pointers_is_taken_over_and_replaces_nothing_of_another_node() {
    let canonical = Arc::new(Memory::new());
    let node = |fast: &[(&str, &[u8])]| {
        let shadow = Arc::new(Memory::new());
        for (name, bytes) in fast {
            shadow.make_folder(thalweg_store::name::folder_of(name)).unwrap();
            shadow.write_all(name, bytes).unwrap();
        }
        Tiered::new(shadow, canonical.clone()).unwrap()
    };
    let a = node(&[("d/mine", b"of a"), ("both", b"of a")]);
    let b = node(&[("both", b"of b")]);
    assert!(b.read_all("d/mine").unwrap_err().to_string().contains("not drained yet"));
    // Whoever was there first keeps the name; the other's object stays where it is, and this is told.
    for node in [&b, &a, &b] {
        let _ = Drain::new(node, quick()).unwrap().pass(&GO).unwrap();
    }
    let failed = Drain::new(&b, quick()).unwrap().pass(&GO).unwrap().failed;
    assert_eq!((failed.len(), failed[0].1.kind()), (1, ErrorKind::AlreadyExists), "{failed:?}");
    assert_eq!(a.read_all("both").unwrap(), b"of a");
    assert_eq!(canonical.read_all("both").unwrap(), b"of a");
    assert_eq!(b.shadow().read_all("both").unwrap(), b"of b");
    assert_eq!(b.read_all("d/mine").unwrap(), b"of a");
}

#[test]
fn what_a_lost_fast_store_held_can_be_given_up() {
    let canonical = Arc::new(Memory::new());
    let lost = Tiered::new(Arc::new(Memory::new()), canonical.clone()).unwrap();
    lost.make_folder("d").unwrap();
    lost.write_all("d/a", b"older").unwrap();
    Drain::new(&lost, quick()).unwrap().pass(&GO).unwrap();
    append(&lost, "d/a", b", newer").unwrap();
    lost.write_all("b", b"bytes").unwrap();
    let number = lost.pointers().us.number;
    drop(lost);
    let left = Tiered::new(Arc::new(Memory::new()), canonical.clone()).unwrap();
    assert_eq!(left.read_all("d/a").unwrap_err().kind(), ErrorKind::Io);
    assert_eq!(left.pointers().others().unwrap()[0].number, number);
    assert_eq!(left.pointers().forget(number).unwrap(), 2);
    assert_eq!(left.read_all("d/a").unwrap(), b"older");
    assert_eq!(left.read_all("b").unwrap_err().kind(), ErrorKind::NotFound);
    assert_eq!(left_over(&*canonical), [""; 0]);
}

#[test]
fn its_own_folder_is_not_seen() {
    let (_, tiered) = tiered(Memory::new());
    tiered.write_all("a", b"x").unwrap();
    assert_eq!(tiered.list("").unwrap(), ["a"]);
    for refused in [OURS.to_string(), format!("{OURS}/journal"), format!("./{OURS}//journal")] {
        assert_eq!(tiered.stat(&refused).unwrap_err().kind(), ErrorKind::InvalidArgument, "{refused}");
        assert_eq!(tiered.remove(&refused).unwrap_err().kind(), ErrorKind::InvalidArgument, "{refused}");
    }
}

/// Lets so many operations through, of all stores that share it; then nothing works any more, as after a crash.
struct FaultInjected(Arc<AtomicU64>);

impl Watch for FaultInjected {
    fn describe(&self) -> &'static str {
        "fault-injected"
    }

    fn before(&self, operation: &Operation<'_>) -> Verdict {
        let left = self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1));
        match (left, operation.asked) {
            (Ok(_), _) => Verdict::Pass,
            (Err(_), StoreCall::Write) => Verdict::FailAfter(operation.bytes / 2, dead()),
            (Err(_), _) => Verdict::Fail(dead()),
        }
    }
}

fn dead() -> Error {
    Error::new(ErrorKind::Io, "the process is dead (made to be)")
}

type Step = (&'static str, fn(&Tiered, &Drain) -> Result<()>);

/// Objects that a step touches, and what they hold after it.
type After = BTreeMap<&'static str, Option<&'static [u8]>>;

#[test]
fn a_crash_at_any_operation_loses_nothing_and_doubles_nothing() {
    fn pass(_: &Tiered, drain: &Drain) -> Result<()> {
        match drain.pass(&GO)?.failed.pop() {
            None => Ok(()),
            Some((_, error)) => Err(error),
        }
    }
    let steps: Vec<(Step, After)> = vec![
        (("put a", |t, _| t.write_all("a", b"a one")), [("a", Some(&b"a one"[..]))].into()),
        (
            ("put d/b", |t, _| t.make_folder("d").and_then(|()| t.write_all("d/b", b"b one"))),
            [("d/b", Some(&b"b one"[..]))].into(),
        ),
        (("drain", pass), [].into()),
        (("append a", |t, _| append(t, "a", b" two")), [("a", Some(&b"a one two"[..]))].into()),
        (("put c", |t, _| t.write_all("c", b"c one")), [("c", Some(&b"c one"[..]))].into()),
        (("rename d/b e", |t, _| t.rename("d/b", "e")), [("d/b", None), ("e", Some(&b"b one"[..]))].into()),
        (("drain", pass), [].into()),
        (("replace c", |t, _| t.write_all("c", b"c two")), [("c", Some(&b"c two"[..]))].into()),
        (("rename c a", |t, _| t.rename("c", "a")), [("c", None), ("a", Some(&b"c two"[..]))].into()),
        (("put d/b", |t, _| t.write_all("d/b", b"b two")), [("d/b", Some(&b"b two"[..]))].into()),
        (("remove e", |t, _| t.remove("e")), [("e", None)].into()),
        (("drain", pass), [].into()),
        (("remove d/b", |t, _| t.remove("d/b")), [("d/b", None)].into()),
    ];
    type Pair = (Arc<Memory>, Arc<dyn Store>);
    let pairs: [fn() -> Pair; 3] = [
        || (Arc::new(Memory::new()), Arc::new(Memory::new())),
        || (Arc::new(Memory::new()), Arc::new(Sequential::like_hdfs())),
        || (Arc::new(Memory::new()), Arc::new(Sequential::like_s3())),
    ];
    for pair in pairs {
        let mut crashes = 0;
        for life in 0.. {
            let (shadow, canonical) = pair();
            let left = Arc::new(AtomicU64::new(u64::MAX));
            let injected = |store: Arc<dyn Store>| Arc::new(Wrapped::with(store, FaultInjected(left.clone())));
            let dying = Tiered::new(injected(shadow.clone()), injected(canonical.clone())).unwrap();
            let drain = Drain::new(&dying, Pace { streams: 1, ..quick() }).unwrap();
            left.store(life, Ordering::Relaxed);
            let mut model: BTreeMap<String, Vec<u8>> = BTreeMap::new();
            let mut died_in = None;
            for ((name, step), after) in &steps {
                if step(&dying, &drain).is_err() {
                    died_in = Some((name, after));
                    break;
                }
                for (object, bytes) in after {
                    match bytes {
                        Some(bytes) => drop(model.insert(object.to_string(), bytes.to_vec())),
                        None => drop(model.remove(*object)),
                    }
                }
            }
            drop((drain, dying));
            let Some((died_in, after)) = died_in else { break };
            crashes += 1;
            // Another process finds what is left.
            let found = Tiered::new(shadow.clone(), canonical.clone()).unwrap();
            let seen = content(&found);
            let names: std::collections::BTreeSet<_> = seen.keys().chain(model.keys()).collect();
            for name in names {
                let (is, was) = (seen.get(name), model.get(name));
                let fine = match after.get(name.as_str()) {
                    None => is == was,
                    // As before, as after, or the first bytes of what was being written.
                    Some(Some(bytes)) => is == was || is.is_some_and(|is| bytes.starts_with(is)),
                    Some(None) => is == was || is.is_none(),
                };
                assert!(fine, "crash {life} in {died_in}: {name} is {is:?}, was {was:?}");
            }
            // What was renamed is there under one name at least.
            if died_in.starts_with("rename") {
                assert!(
                    after.keys().any(|name| seen.contains_key(*name)),
                    "crash {life} in {died_in}: both names are gone"
                );
            }
            let drain = Drain::new(&found, quick()).unwrap();
            while drain.pass(&GO).unwrap().objects > 0 {}
            assert_eq!(content(&found), seen, "crash {life} in {died_in}: draining changes nothing");
            assert_eq!(content(&*canonical), seen, "crash {life} in {died_in}: all is behind, once");
            assert!(content(&*shadow).is_empty(), "crash {life} in {died_in}: the shadow store forgot all");
            let mut left = left_over(&*canonical);
            // One whose making was interrupted hinders nobody for long, and is removed when it is old.
            left.retain(|name| !name.contains("/at/") || canonical.stat(name).unwrap().length > 40);
            assert_eq!(left, [""; 0], "crash {life} in {died_in}: copies or pointers are left over");
            let mut own = shadow.list(OURS).unwrap();
            own.retain(|name| !name.starts_with("group-"));
            assert_eq!(own, ["drain", "identity", "journal"], "crash {life} in {died_in}");
        }
        assert!(crashes > 150, "{crashes} crashes were tried");
    }
}

/// A pair of stores, and the folder that they lie in.
type Placed = (Arc<dyn Store>, Arc<dyn Store>, Option<Scratch>);

fn placed_pairs() -> [fn() -> Placed; 4] {
    fn folders() -> Placed {
        let scratch = Scratch::new();
        let store = |folder: &str| -> Arc<dyn Store> {
            std::fs::create_dir(scratch.join(folder)).unwrap();
            Arc::new(Posix::at(scratch.join(folder)).unwrap())
        };
        (store("fast"), store("slow"), Some(scratch))
    }
    [
        || (Arc::new(Memory::new()), Arc::new(Memory::new()), None),
        || (Arc::new(Memory::new()), Arc::new(Sequential::like_hdfs()), None),
        || (Arc::new(Memory::new()), Arc::new(Sequential::like_s3()), None),
        folders,
    ]
}

/// How a drain meets the failing call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Drained {
    /// It is at work already, and its next round follows.
    ByRounds,
    /// From its start until nothing waits.
    UntilIdle,
}

#[test]
fn a_call_that_fails_once_loses_nothing_and_doubles_nothing() {
    let expected: BTreeMap<String, Vec<u8>> =
        [("a", "a one"), ("d/b", "b one"), ("c", "c one two"), ("busy", "half"), ("d/e/f", "")]
            .into_iter()
            .map(|(name, bytes)| (name.to_string(), bytes.as_bytes().to_vec()))
            .collect();
    for pair in placed_pairs() {
        for (how, fast_fails) in
            [Drained::ByRounds, Drained::UntilIdle].into_iter().flat_map(|how| [(how, true), (how, false)])
        {
            // On files, which are slow: of the fast store every third call.
            let on_files = pair().2.is_some();
            if on_files && how == Drained::UntilIdle {
                continue;
            }
            let mut failures = 0;
            for call in (0..).step_by(if on_files && fast_fails { 3 } else { 1 }) {
                let (shadow, canonical, _scratch) = pair();
                let (fast, slow) = (Arc::new(Failing::new(shadow.clone())), Arc::new(Failing::new(canonical.clone())));
                let tiered = Tiered::new(fast.clone(), slow.clone()).unwrap();
                tiered.write_all("c", b"c one").unwrap();
                assert_eq!(Drain::new(&tiered, quick()).unwrap().pass(&GO).unwrap().objects, 1);
                append(&tiered, "c", b" two").unwrap();
                tiered.write_all("a", b"a one").unwrap();
                tiered.make_folder("d/e").unwrap();
                tiered.write_all("d/b", b"b one").unwrap();
                tiered.write_all("d/e/f", b"").unwrap();
                let busy = tiered.open_write("busy", OpenWrite::New).unwrap();
                busy.write_at(0, &[std::io::IoSlice::new(b"half")]).unwrap();
                let drain = (how == Drained::ByRounds).then(|| Drain::new(&tiered, quick()).unwrap());
                let failing = if fast_fails { &fast } else { &slow };
                failing.fail(Fault::any().skipping(call).times(1).half_way());
                // Errors of objects; an error that ends the round or the drain.
                let (told, ended) = match &drain {
                    Some(drain) => match drain.pass(&GO) {
                        Ok(passed) => (passed.failed.len(), None),
                        Err(e) => (0, Some(e)),
                    },
                    None => {
                        let (mut told, patience) = (0, (Duration::ZERO, Duration::from_secs(600)));
                        let ended = run_until_idle(&tiered, quick(), patience, &GO, |round| {
                            told += round.map_or(1, |passed| passed.failed.len());
                        });
                        (told, ended.err())
                    }
                };
                let (failed, last) = failing.failed();
                failing.heal();
                let about = format!("{how:?} over {}, call {call}: {last:?}", tiered.describe());
                assert!(told <= 1 && (told == 0 || ended.is_none()), "{about}: {told} errors, then {ended:?}");
                assert_eq!(content(&tiered), expected, "{about}: at once");
                if how == Drained::UntilIdle && ended.is_none() {
                    let waiting = status(&tiered).unwrap().waiting;
                    assert!(waiting.iter().all(|object| object.written), "{about}: left {waiting:?}");
                }
                // The same drain goes on, or another one begins.
                let drain = drain.unwrap_or_else(|| Drain::new(&tiered, quick()).unwrap());
                loop {
                    let passed = drain.pass(&GO).unwrap();
                    assert!(passed.failed.is_empty(), "{about}: then {:?}", passed.failed);
                    if passed.objects == 0 {
                        break;
                    }
                }
                assert_eq!(content(&tiered), expected, "{about}: drained");
                let behind: BTreeMap<_, _> = expected.clone().into_iter().filter(|(name, _)| name != "busy").collect();
                assert_eq!(content(&*canonical), behind, "{about}: behind");
                busy.close().unwrap();
                drop(drain);
                assert_eq!(Drain::new(&tiered, quick()).unwrap().pass(&GO).unwrap().objects, 1, "{about}");
                assert_eq!(content(&*canonical), expected, "{about}: all is behind, once");
                assert!(content(&*shadow).is_empty(), "{about}: the shadow store forgot all");
                // What a failed removal has left is removed by the next drain.
                drop(Drain::new(&tiered, quick()).unwrap());
                assert_eq!(left_over(&*canonical), [""; 0], "{about}");
                let mut own = shadow.list(OURS).unwrap();
                own.retain(|name| !name.starts_with("group-"));
                assert_eq!(own, ["drain", "identity", "journal"], "{about}");
                if failed == 0 {
                    break;
                }
                failures += 1;
            }
            assert!(failures > 20, "{how:?}: {failures} calls failed");
        }
    }
}

#[test]
fn opening_for_reading_what_waits_asks_the_slow_store_nothing() {
    let counting = Arc::new(Counting::new(Arc::new(Memory::new())));
    let tiered = Tiered::new(Arc::new(Memory::new()), counting.clone()).unwrap();
    tiered.write_all("a", b"bytes").unwrap();
    counting.take();
    assert_eq!(tiered.read_all("a").unwrap(), b"bytes");
    assert_eq!(counting.take(), Default::default());
}

#[test]
fn a_sparse_object_of_tebibytes_is_drained_and_stays_sparse() {
    use std::os::unix::fs::MetadataExt;
    const LENGTH: u64 = 8 << 40;
    let scratch = Scratch::new();
    let store = |folder: &str| -> Arc<dyn Store> {
        std::fs::create_dir_all(scratch.join(folder)).unwrap();
        Arc::new(Posix::at(scratch.join(folder)).unwrap())
    };
    let tiered = Tiered::new(store("fast"), store("slow")).unwrap();
    for (name, tail) in [("tail", true), ("hole", false)] {
        let object = tiered.open_write(name, OpenWrite::New).unwrap();
        object.write_at(0, &[std::io::IoSlice::new(b"head")]).unwrap();
        object.write_at(1 << 42, &[std::io::IoSlice::new(b"middle")]).unwrap();
        object.truncate(LENGTH - 4 * u64::from(tail)).unwrap();
        if tail {
            object.append(&[std::io::IoSlice::new(b"tail")]).unwrap();
        }
        object.close().unwrap();
    }
    let passed = Drain::new(&tiered, quick()).unwrap().pass(&GO).unwrap();
    assert_eq!((passed.objects, passed.failed.len()), (2, 0), "{:?}", passed.failed);
    for (name, tail) in [("tail", "tail"), ("hole", "\0\0\0\0")] {
        let about = std::fs::metadata(scratch.join("slow").join(name)).unwrap();
        assert!(about.len() == LENGTH && about.blocks() < 100_000, "{about:?}");
        let reader = tiered.open_read(name).unwrap();
        for (at, expected) in [(0, "head"), (1 << 42, "middle"), (LENGTH - 4, tail)] {
            let mut bytes = vec![1; expected.len()];
            reader.read_exact_at(at, &mut bytes).unwrap();
            assert_eq!(bytes, expected.as_bytes(), "{name} at {at}");
        }
        // Back to the fast store to be written on.
        let object = tiered.open_write(name, OpenWrite::Existing).unwrap();
        object.write_at(2, &[std::io::IoSlice::new(b"!")]).unwrap();
        object.close().unwrap();
        assert_eq!(
            std::fs::metadata(scratch.join("fast").join(name)).map(|about| about.len()).unwrap_or(LENGTH),
            LENGTH
        );
    }
}
