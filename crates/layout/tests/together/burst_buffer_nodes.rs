//! A burst buffer with a fast store on each node: two nodes write one logical file; whatever is drained in whatever order,
//! nothing is lost, and what another node has not drained yet is an error, never a hole.

use std::io::IoSlice;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, SystemTime};
use thalweg_conformance::scratch::Scratch;
use thalweg_layout::small_file::Settings;
use thalweg_layout::{Change, Container, Direct, Layout, OpenWrite, SmallFile, WriteObject, WriterId, container};
use thalweg_store::wrap::tiered::{Drain, OURS, Pace, Tiered, status};
use thalweg_store::wrap::{Patience, Retry, Sequential};
use thalweg_store::{Posix, Store, StoreExt};
use thalweg_types::{ErrorKind, Result};

static GO: AtomicBool = AtomicBool::new(false);
const PIECE: usize = 10_000;
const PIECES: u64 = 20;

struct Node {
    store: Tiered,
    layout: Container,
    writer: WriterId,
}

struct Machine {
    _scratch: Scratch,
    nodes: Vec<Node>,
    canonical: Arc<dyn Store>,
}

fn container_on(store: Arc<dyn Store>, host: &str) -> Container {
    // Small, so that a session's bytes are in its log before it publishes them.
    let options = container::Options { host: host.into(), buffer: 4 * PIECE, ..container::Options::default() };
    Container::new(vec![store], options).unwrap()
}

type Make = fn(&Scratch) -> Arc<dyn Store>;

fn canonicals() -> [(&'static str, Make); 3] {
    [
        ("posix", |scratch| Arc::new(Posix::at(scratch.join("slow")).unwrap())),
        ("like HDFS", |_| Arc::new(Sequential::like_hdfs())),
        ("like S3", |_| Arc::new(Sequential::like_s3())),
    ]
}

fn machine(canonical: fn(&Scratch) -> Arc<dyn Store>) -> Machine {
    let scratch = Scratch::new();
    for folder in ["fast0", "fast1", "slow"] {
        std::fs::create_dir(scratch.join(folder)).unwrap();
    }
    let canonical = canonical(&scratch);
    let nodes = (0..2).map(|n| {
        let fast = Posix::at(scratch.join(format!("fast{n}"))).unwrap();
        let store = Tiered::new(Arc::new(fast), canonical.clone()).unwrap();
        // What a mount puts around a store hides nothing of it.
        let around = Arc::new(Retry::new(Arc::new(store.clone()), Patience { times: 1, ..Patience::default() }));
        Node { layout: container_on(around, &format!("node{n}")), store, writer: WriterId(n) }
    });
    Machine { nodes: nodes.collect(), canonical, _scratch: scratch }
}

fn byte_of(node: u64, piece: u64) -> u8 {
    (node * 100 + piece + 1) as u8
}

/// Writes every second piece: those of a node.
fn write(node: &Node, path: &str) -> Result<()> {
    let object = node.layout.open_write(path, OpenWrite::Any, node.writer)?;
    let n = u64::from(node.writer.0);
    for piece in 0..PIECES {
        let at = (2 * piece + n) * PIECE as u64;
        object.write_at(at, &[IoSlice::new(&[byte_of(n, piece); PIECE])])?;
    }
    object.close()
}

fn expected() -> Vec<u8> {
    (0..2 * PIECES).flat_map(|k| [byte_of(k % 2, k / 2); PIECE]).collect()
}

fn read(layout: &dyn Layout, path: &str) -> Result<Vec<u8>> {
    let object = layout.open_read(path)?;
    let mut bytes = vec![0; object.length()? as usize];
    object.read_exact_at(0, &mut bytes)?;
    Ok(bytes)
}

fn refused(layout: &dyn Layout, path: &str) -> thalweg_types::Error {
    read(layout, path).map(|bytes| bytes.len()).unwrap_err()
}

fn drain(node: &Node) {
    let drain = Drain::new(&node.store, Pace::default()).unwrap();
    loop {
        let passed = drain.pass(&GO).unwrap();
        assert!(passed.failed.is_empty(), "{:?}", passed.failed);
        if passed.objects == 0 {
            break;
        }
    }
    assert_eq!(status(&node.store).unwrap().waiting, []);
}

/// All of the file, or an error: whatever another reader of any node may see.
fn whole_or_refused(layout: &dyn Layout, path: &str, about: &str) {
    match read(layout, path) {
        Ok(bytes) => assert!(bytes == expected(), "{about}: {} bytes, some wrong", bytes.len()),
        Err(e) => assert!(e.to_string().contains("not drained yet"), "{about}: {e}"),
    }
}

#[test]
fn a_container_written_by_two_nodes_is_whole_whichever_is_drained_first() {
    for (kind, canonical) in canonicals() {
        for first in [0, 1] {
            let machine = machine(canonical);
            let [a, b] = [&machine.nodes[first], &machine.nodes[1 - first]];
            std::thread::scope(|scope| {
                // At once: both make the file.
                for node in &machine.nodes {
                    scope.spawn(move || write(node, "shared").unwrap());
                }
            });
            for node in [a, b] {
                let error = refused(&node.layout, "shared");
                assert!(error.to_string().contains("not drained yet"), "{kind}: {error}");
                assert_eq!(node.layout.list("").unwrap(), ["shared"], "{kind}");
            }
            drain(a);
            assert_eq!(refused(&a.layout, "shared").kind(), ErrorKind::Io, "{kind}");
            assert!(
                read(&b.layout, "shared").unwrap() == expected(),
                "{kind}: the other node has its own and the drained"
            );
            drain(b);
            for (who, layout) in [("a", &a.layout), ("b", &b.layout)] {
                assert!(read(layout, "shared").unwrap() == expected(), "{kind}, node {who}");
                let whole = layout.check("shared").unwrap();
                assert!(whole.is_clean(), "{kind}: {whole:?}");
            }
            let plain = container_on(machine.canonical.clone(), "login");
            assert!(read(&plain, "shared").unwrap() == expected(), "{kind}: without the fast stores");
        }
    }
}

#[test]
fn a_container_is_never_seen_with_holes_while_two_nodes_drain_at_once() {
    for (kind, canonical) in canonicals() {
        let machine = machine(canonical);
        for node in &machine.nodes {
            write(node, "shared").unwrap();
        }
        std::thread::scope(|scope| {
            let drains: Vec<_> = machine.nodes.iter().map(|node| scope.spawn(move || drain(node))).collect();
            while drains.iter().any(|drain| !drain.is_finished()) {
                for node in &machine.nodes {
                    whole_or_refused(&node.layout, "shared", kind);
                }
            }
        });
        for node in &machine.nodes {
            assert!(read(&node.layout, "shared").unwrap() == expected(), "{kind}");
        }
    }
}

#[test]
fn one_object_is_not_written_by_two_nodes_and_never_replaced_by_the_drain() {
    for (kind, canonical) in canonicals() {
        let machine = machine(canonical);
        let direct: Vec<_> =
            machine.nodes.iter().map(|node| Direct::new(Arc::new(node.store.clone())).unwrap()).collect();
        let [a, b] = [&direct[0], &direct[1]];
        let put = |layout: &Direct, how, bytes: &[u8]| {
            let object = layout.open_write("file", how, WriterId(0))?;
            object.write_at(0, &[IoSlice::new(bytes)])?;
            object.close()
        };
        put(a, OpenWrite::New, b"of node 0").unwrap();
        for how in [OpenWrite::Any, OpenWrite::Existing, OpenWrite::Replace] {
            let error = put(b, how, b"of node 1").unwrap_err();
            assert!(error.kind() == ErrorKind::Io && error.to_string().contains("fast0"), "{kind}, {how:?}: {error}");
        }
        assert_eq!(put(b, OpenWrite::New, b"of node 1").unwrap_err().kind(), ErrorKind::AlreadyExists, "{kind}");
        for error in [
            refused(b, "file"),
            b.stat("file").unwrap_err(),
            b.remove("file").unwrap_err(),
            b.rename("file", "other").unwrap_err(),
        ] {
            assert!(error.to_string().contains("not drained yet"), "{kind}: {error}");
        }
        put(b, OpenWrite::New, b"").unwrap_err();
        let object = b.open_write("other", OpenWrite::New, WriterId(0)).unwrap();
        object.close().unwrap();
        assert!(b.rename("other", "file").unwrap_err().to_string().contains("not drained yet"), "{kind}");
        drain(&machine.nodes[0]);
        drain(&machine.nodes[1]);
        assert_eq!(read(b, "file").unwrap(), b"of node 0", "{kind}");
        // Drained, so that it is anybody's.
        put(b, OpenWrite::Existing, b"OF").unwrap();
        assert!(refused(a, "file").to_string().contains("fast1"), "{kind}: the older one is not shown");
        drain(&machine.nodes[1]);
        assert_eq!(read(a, "file").unwrap(), b"OF node 0", "{kind}");
        a.remove("file").unwrap();
        assert_eq!(refused(b, "file").kind(), ErrorKind::NotFound, "{kind}");
    }
}

#[test]
fn folders_are_those_of_all_nodes() {
    for (kind, canonical) in canonicals() {
        let machine = machine(canonical);
        let [a, b] = [&machine.nodes[0].store, &machine.nodes[1].store];
        a.make_folder("run/sub").unwrap();
        let object = b.open_write("run/sub/x", OpenWrite::New).unwrap();
        object.write_at(0, &[IoSlice::new(b"x")]).unwrap();
        object.close().unwrap();
        assert_eq!(a.list("run/sub").unwrap(), ["x"], "{kind}");
        assert_eq!(a.remove("run/sub").unwrap_err().kind(), ErrorKind::InvalidArgument, "{kind}");
        drain(&machine.nodes[1]);
        a.remove("run/sub/x").unwrap();
        a.remove("run/sub").unwrap();
        assert_eq!(b.stat("run/sub").unwrap_err().kind(), ErrorKind::NotFound, "{kind}");
        drain(&machine.nodes[1]);
        drain(&machine.nodes[0]);
        assert_eq!(a.stat("run/sub").unwrap_err().kind(), ErrorKind::NotFound, "{kind}: no drain brings it back");
    }
}

/// Makes the marks of sessions that have not closed name a process of another host, as marks of another node do.
fn make_strangers(canonical: &dyn Store) {
    let mut folders = vec![".thalweg/c".to_string()];
    while let Some(folder) = folders.pop() {
        for name in canonical.list(&folder).unwrap() {
            let name = format!("{folder}/{name}");
            if canonical.stat(&name).unwrap().is_folder {
                folders.push(name);
            } else if name.contains("/m/o-") {
                canonical.remove(&name).unwrap();
                canonical.write_all(&name, b"host elsewhere, process 1 since 1, writer 1, among others").unwrap();
            }
        }
    }
}

fn piece_at(object: &dyn WriteObject, piece: u64) -> Result<Vec<u8>> {
    let mut bytes = vec![0; PIECE];
    let got = object.read_at(piece * PIECE as u64, &mut bytes)?;
    bytes.truncate(got);
    Ok(bytes)
}

fn put_piece(object: &dyn WriteObject, piece: u64, byte: u8) {
    object.write_at(piece * PIECE as u64, &[IoSlice::new(&[byte; PIECE])]).unwrap();
}

#[test]
fn who_writes_beside_another_node_needs_none_of_its_logs() {
    for (kind, canonical) in canonicals() {
        for strangers in [false, true] {
            let about = format!("{kind}, strangers: {strangers}");
            let machine = machine(canonical);
            let [a, b] = [&machine.nodes[0], &machine.nodes[1]];
            // The other node has closed a session, and has one open whose log has bytes that are not published.
            let object = b.layout.open_write("shared", OpenWrite::Any, b.writer).unwrap();
            put_piece(&*object, 0, 10);
            object.close().unwrap();
            let open = b.layout.open_write("shared", OpenWrite::Any, b.writer).unwrap();
            (1..20).for_each(|piece| put_piece(&*open, piece, 11));
            if strangers {
                make_strangers(&*machine.canonical);
            }
            let object = a.layout.open_write("shared", OpenWrite::Any, a.writer).unwrap();
            put_piece(&*object, 30, 12);
            let length = 31 * PIECE as u64;
            assert_eq!(object.length().unwrap(), length, "{about}");
            object.publish().unwrap();
            assert_eq!(a.layout.stat("shared").unwrap().length, length, "{about}");
            assert_eq!(piece_at(&*object, 30).unwrap(), [12; PIECE], "{about}");
            assert!(piece_at(&*object, 31).unwrap().is_empty(), "{about}");
            let error = piece_at(&*object, 0).unwrap_err();
            assert!(error.to_string().contains("not drained yet"), "{about}: {error}");
            match (strangers, piece_at(&*object, 5)) {
                // One that lives shows what it publishes.
                (false, bytes) => assert_eq!(bytes.unwrap(), [0; PIECE], "{about}"),
                // Nobody knows what one has written that may be dead.
                (true, bytes) => assert_eq!(bytes.unwrap_err().kind(), ErrorKind::NotReady, "{about}"),
            }
            if strangers {
                // An end that nobody knows is not appended to.
                let error = object.append(&[IoSlice::new(b"end")]).unwrap_err();
                assert!(error.to_string().contains("not drained yet"), "{about}: {error}");
                assert_eq!(a.layout.stat("shared").unwrap().length, length, "{about}");
            } else {
                assert_eq!(object.append(&[IoSlice::new(b"end")]).unwrap(), length + 3, "{about}");
            }
            let end: &[u8] = if strangers { b"" } else { b"end" };
            object.close().unwrap();
            open.close().unwrap();
            // Where something was appended beside others, the logs alone tell the length.
            match b.layout.stat("shared") {
                Ok(about_it) => assert_eq!(about_it.length, length + end.len() as u64, "{about}"),
                Err(e) => assert!(!end.is_empty() && e.to_string().contains("not drained yet"), "{about}: {e}"),
            }
            machine.nodes.iter().for_each(drain);
            let expected = [vec![10; PIECE], vec![11; 19 * PIECE], vec![0; 10 * PIECE], vec![12; PIECE], end.to_vec()];
            for node in &machine.nodes {
                assert!(read(&node.layout, "shared").unwrap() == expected.concat(), "{about}");
            }
        }
    }
}

#[test]
fn bytes_that_another_node_may_have_changed_are_refused_until_it_is_drained() {
    type Step = fn(&dyn WriteObject);
    let changes: [(&str, Step, usize); 4] = [
        ("overwritten", |object| put_piece(object, 3, 20), 4 * PIECE),
        (
            "cut and extended",
            |object| {
                object.truncate(PIECE as u64).unwrap();
                object.truncate(4 * PIECE as u64).unwrap();
            },
            4 * PIECE,
        ),
        ("a hole", |object| object.punch(3 * PIECE as u64, PIECE as u64).unwrap(), 4 * PIECE),
        ("behind all", |object| put_piece(object, 9, 20), 10 * PIECE),
    ];
    for (kind, canonical) in canonicals() {
        for (change, step, length) in changes {
            let about = format!("{kind}, {change}");
            let machine = machine(canonical);
            let [a, b] = [&machine.nodes[0], &machine.nodes[1]];
            let object = a.layout.open_write("shared", OpenWrite::Any, a.writer).unwrap();
            (0..4).for_each(|piece| put_piece(&*object, piece, 30));
            object.close().unwrap();
            let object = b.layout.open_write("shared", OpenWrite::Any, b.writer).unwrap();
            step(&*object);
            object.close().unwrap();
            let writes = a.layout.open_write("shared", OpenWrite::Any, a.writer).unwrap();
            assert_eq!(writes.length().unwrap(), length as u64, "{about}");
            let error = piece_at(&*writes, 3).unwrap_err();
            assert!(error.to_string().contains("not drained yet"), "{about}: {error}");
            // Written after all that the other node did, and so it stays.
            put_piece(&*writes, 2, 31);
            writes.close().unwrap();
            machine.nodes.iter().for_each(drain);
            for node in &machine.nodes {
                let bytes = read(&node.layout, "shared").unwrap();
                let of = |piece: usize| bytes[piece * PIECE];
                let third = match change {
                    "overwritten" => 20,
                    "behind all" => 30,
                    _ => 0,
                };
                assert_eq!((bytes.len(), of(2), of(3)), (length, 31, third), "{about}");
            }
        }
    }
}

#[test]
fn modes_of_files_and_folders_are_seen_by_other_nodes_before_anything_is_drained() {
    for (kind, canonical) in canonicals() {
        let machine = machine(canonical);
        let [a, b] = [&machine.nodes[0], &machine.nodes[1]];
        a.layout.make_folder("folder").unwrap();
        let object = a.layout.open_write("shared", OpenWrite::Any, a.writer).unwrap();
        put_piece(&*object, 0, 1);
        object.close().unwrap();
        for (node, mode) in [(a, 0o640), (b, 0o600), (a, 0o660)] {
            for name in ["folder", "shared"] {
                node.layout.set_attributes(name, &Change { mode: Some(mode), ..Change::default() }).unwrap();
                for node in &machine.nodes {
                    let seen = node.layout.attributes(name).unwrap_or_else(|e| panic!("{kind}, {name}: {e}")).mode;
                    assert_eq!(seen, mode, "{kind}, {name}");
                }
            }
        }
        machine.nodes.iter().for_each(drain);
        for (node, name) in [(a, "folder"), (b, "folder"), (a, "shared"), (b, "shared")] {
            assert_eq!(node.layout.attributes(name).unwrap().mode, 0o660, "{kind}, {name}");
        }
    }
}

/// Drains what no process has open.
fn drain_closed(node: &Node) {
    let drain = Drain::new(&node.store, Pace::default()).unwrap();
    while drain.pass(&GO).unwrap().objects > 0 {}
}

/// A process that uses small files; files of more than `small` bytes become objects of their own.
fn small_files(store: Arc<dyn Store>, small: usize) -> SmallFile {
    SmallFile::new(store, Settings { small: small as u64, ..Settings::default() }).unwrap()
}

fn put(layout: &SmallFile, name: &str, how: OpenWrite, bytes: &[u8]) -> Result<()> {
    let object = layout.open_write(name, how, WriterId(0))?;
    object.write_at(0, &[IoSlice::new(bytes)])?;
    object.close()
}

/// As a process sees it that begins now.
fn found_whole(store: Arc<dyn Store>, files: &[(&str, Vec<u8>)], about: &str) {
    let layout = small_files(store, PIECE);
    for (name, bytes) in files {
        assert!(read(&layout, name).unwrap() == *bytes, "{about}: {name}");
    }
    let report = layout.check("", true).unwrap();
    assert!(report.damaged.is_empty() && report.torn.is_empty(), "{about}: {report:?}");
    assert_eq!((report.files, report.live), (files.len() as u64, 0), "{about}");
    let names: Vec<&str> = files.iter().map(|(name, _)| *name).collect();
    let mut listed = layout.list("").unwrap();
    listed.retain(|name| name != OURS);
    assert_eq!(listed, names, "{about}");
}

#[test]
fn processes_of_one_node_see_each_others_small_files_whatever_is_drained_between() {
    for (kind, canonical) in canonicals() {
        let machine = machine(canonical);
        let node = &machine.nodes[0];
        let processes = [0, 1].map(|_| small_files(Arc::new(node.store.clone()), PIECE));
        for round in 0..6u8 {
            let [writer, other] = [&processes[usize::from(round % 2)], &processes[usize::from(1 - round % 2)]];
            let about = format!("{kind}, round {round}");
            // One in the log, one an object of its own; both were looked for before.
            for (name, length) in [("a", 10), ("b", 2 * PIECE)] {
                let (name, bytes) = (format!("{name}{round}"), vec![round; length]);
                assert_eq!(refused(other, &name).kind(), ErrorKind::NotFound, "{about}");
                drain_closed(node);
                put(writer, &name, OpenWrite::New, &bytes).unwrap();
                drain_closed(node);
                let error = put(other, &name, OpenWrite::New, b"again").unwrap_err();
                assert_eq!(error.kind(), ErrorKind::AlreadyExists, "{about}: {name} was made twice");
                assert!(read(other, &name).unwrap() == bytes, "{about}: {name}");
                assert_eq!(writer.list("").unwrap(), other.list("").unwrap(), "{about}");
            }
            put(other, "common", OpenWrite::Any, &[round; 5]).unwrap();
            drain_closed(node);
            assert_eq!(read(writer, "common").unwrap(), [round; 5], "{about}");
            writer.remove(&format!("a{round}")).unwrap();
            drain_closed(node);
            assert_eq!(refused(other, &format!("a{round}")).kind(), ErrorKind::NotFound, "{about}: removed");
        }
        processes.iter().for_each(|layout| layout.finish().unwrap());
        drain(node);
        let rounds = (0..6u8).map(|round| (format!("b{round}"), vec![round; 2 * PIECE]));
        let files: Vec<_> = rounds.chain([("common".to_string(), vec![5; 5])]).collect();
        let files: Vec<_> = files.iter().map(|(name, bytes)| (name.as_str(), bytes.clone())).collect();
        for node in &machine.nodes {
            found_whole(Arc::new(node.store.clone()), &files, kind);
        }
        found_whole(machine.canonical.clone(), &files, kind);
    }
}

/// As after a remover that was killed, and a drain.
#[test]
fn a_folder_whose_remover_was_killed_long_ago_is_used_after_a_drain_has_moved_its_bell() {
    // Others give what is drained the time of the drain: there it takes a minute.
    let machine = machine(canonicals()[0].1);
    let node = &machine.nodes[0];
    let layout = small_files(Arc::new(node.store.clone()), PIECE);
    layout.make_one_folder("folder", 0o755).unwrap();
    put(&layout, "folder/file", OpenWrite::New, b"bytes").unwrap();
    layout.remove("folder/file").unwrap();
    layout.finish().unwrap();
    let bell = format!("folder/{}/bell", thalweg_layout::small_file::HIDDEN);
    let removed = node.store.open_write(&bell, OpenWrite::Existing).unwrap();
    removed.write_at(0, &[IoSlice::new(&[0xff; 8])]).unwrap();
    removed.close().unwrap();
    let long_ago = Change { mtime: Some(SystemTime::now() - Duration::from_secs(120)), ..Change::default() };
    node.store.set_attributes(&bell, &long_ago).unwrap();
    drain(node);
    let layout = small_files(Arc::new(node.store.clone()), PIECE);
    put(&layout, "folder/file", OpenWrite::New, b"new").unwrap();
    assert_eq!(read(&layout, "folder/file").unwrap(), b"new");
}

/// What a process gets of a folder that another node has.
fn refuses_all(layout: &SmallFile, about: &str) {
    let refusals = [
        refused(layout, "shared"),
        refused(layout, "absent"),
        layout.stat("shared").unwrap_err(),
        layout.attributes("shared").unwrap_err(),
        layout.list("").unwrap_err(),
        layout.remove("shared").unwrap_err(),
        layout.rename("shared", "other").unwrap_err(),
        put(layout, "shared", OpenWrite::Any, b"x").unwrap_err(),
        put(layout, "shared", OpenWrite::Existing, b"x").unwrap_err(),
        put(layout, "shared", OpenWrite::Replace, b"x").unwrap_err(),
        put(layout, "absent", OpenWrite::New, b"x").unwrap_err(),
        layout.check("", true).unwrap_err(),
        layout.compact("").unwrap_err(),
    ];
    for error in refusals {
        assert_eq!(error.kind(), ErrorKind::Io, "{about}: {error}");
        assert!(error.to_string().contains("not drained yet"), "{about}: {error}");
    }
}

#[test]
fn a_folder_of_small_files_is_one_nodes_until_it_is_drained_and_then_anybodys() {
    for (kind, canonical) in canonicals() {
        for first in [0, 1] {
            for small in [1 << 20, PIECE] {
                let machine = machine(canonical);
                let about = format!("{kind}, node {first} first, up to {small} bytes in logs");
                let [a, b] = [&machine.nodes[first], &machine.nodes[1 - first]];
                let of = |node: &Node| small_files(Arc::new(node.store.clone()), small);
                let (of_a, of_b) = (of(a), of(b));
                let write = |layout: &SmallFile, n: u64| -> Result<()> {
                    let object = layout.open_write("shared", OpenWrite::Any, WriterId(n as u32))?;
                    for piece in 0..PIECES {
                        object
                            .write_at((2 * piece + n) * PIECE as u64, &[IoSlice::new(&[byte_of(n, piece); PIECE])])?;
                    }
                    object.close()
                };
                let [n, m] = [a, b].map(|node| u64::from(node.writer.0));
                write(&of_a, n).unwrap();
                refuses_all(&of_b, &format!("{about}, not drained"));
                // Its log is open, and stays.
                drain_closed(a);
                refuses_all(&of_b, &format!("{about}, all but the log drained"));
                of_a.finish().unwrap();
                refuses_all(&of_b, &format!("{about}, the log closed"));
                drain(a);
                write(&of_b, m).unwrap();
                // The process that wrote first is alive.
                refuses_all(&of_a, &format!("{about}, the other wrote"));
                of_b.finish().unwrap();
                drain(b);
                assert!(read(&of_a, "shared").unwrap() == expected(), "{about}: who wrote first");
                let files = [("shared", expected())];
                for store in [&a.store, &b.store] {
                    found_whole(Arc::new(store.clone()), &files, &about);
                }
                found_whole(machine.canonical.clone(), &files, &format!("{about}, without the fast stores"));
            }
        }
    }
}

#[test]
fn two_nodes_that_begin_in_one_folder_at_once_lose_nothing_that_was_closed() {
    for (kind, canonical) in canonicals() {
        for round in 0..10 {
            let about = format!("{kind}, round {round}");
            let machine = machine(canonical);
            let start = std::sync::Barrier::new(2);
            // The names that were closed, and whether the common one was made.
            let closed: Vec<(Vec<String>, bool)> = std::thread::scope(|scope| {
                let node = |node: &'static str, store: Tiered| {
                    let (start, about) = (&start, &about);
                    move || {
                        let layout = small_files(Arc::new(store), PIECE);
                        start.wait();
                        let made = put(&layout, "common", OpenWrite::New, node.as_bytes());
                        let mut closed = Vec::new();
                        for k in 0..5 {
                            let name = format!("{node}{k}");
                            match put(&layout, &name, OpenWrite::Any, name.as_bytes()) {
                                Ok(()) => closed.push(name),
                                Err(e) => assert!(e.to_string().contains("not drained yet"), "{about}: {e}"),
                            }
                        }
                        // An error says that the other node was not told.
                        let _ = layout.finish();
                        (closed, made.is_ok())
                    }
                };
                let stores = machine.nodes.iter().map(|node| node.store.clone());
                let threads: Vec<_> =
                    ["a", "b"].into_iter().zip(stores).map(|(n, s)| scope.spawn(node(n, s))).collect();
                threads.into_iter().map(|thread| thread.join().unwrap()).collect()
            });
            assert!(closed.iter().filter(|(_, made)| *made).count() < 2, "{about}: one file was made by both");
            for k in [round % 2, 1 - round % 2] {
                drain(&machine.nodes[k]);
            }
            for node in &machine.nodes {
                let layout = small_files(Arc::new(node.store.clone()), PIECE);
                let report = layout.check("", true).unwrap();
                assert!(report.damaged.is_empty() && report.torn.is_empty(), "{about}: {report:?}");
                for name in closed.iter().flat_map(|(names, _)| names) {
                    assert_eq!(read(&layout, name).unwrap(), name.as_bytes(), "{about}");
                }
                if let Some(maker) = closed.iter().position(|(_, made)| *made) {
                    assert_eq!(read(&layout, "common").unwrap(), ["a", "b"][maker].as_bytes(), "{about}");
                }
            }
            // Each may have refused the other until both ended.
            let layout = small_files(Arc::new(machine.nodes[round % 2].store.clone()), PIECE);
            put(&layout, "later", OpenWrite::New, b"later").unwrap_or_else(|e| panic!("{about}: {e}"));
            layout.finish().unwrap_or_else(|e| panic!("{about}: {e}"));
        }
    }
}
