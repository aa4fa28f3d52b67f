//! Writes that are gathered before they are sent: how many round trips they take, who sees what, and what becomes of failures.

use std::io::IoSlice;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use thalweg_layout::{Container, Direct, Layout, Mount, Mounts, OpenWrite, WriteObject, WriterId, container::Options};
use thalweg_remote::client::buffer;
use thalweg_remote::transport::{Connection, Transport, pair};
use thalweg_remote::{Remote, Served, serve};
use thalweg_store::wrap::Failing;
use thalweg_store::{Memory, Posix, Store};
use thalweg_types::{ErrorKind, Result};

/// A transport that counts messages of the program: each has one reply.
struct Counting(pair::Client, Arc<AtomicUsize>);

struct Counted(Box<dyn Connection>, Arc<AtomicUsize>);

impl Transport for Counting {
    fn connect(&self) -> Result<Box<dyn Connection>> {
        Ok(Box::new(Counted(self.0.connect()?, self.1.clone())))
    }

    fn describe(&self) -> String {
        self.0.describe()
    }
}

impl Connection for Counted {
    fn send(&self, pieces: &mut [IoSlice<'_>]) -> Result<()> {
        self.1.fetch_add(1, Ordering::Relaxed);
        self.0.send(pieces)
    }

    fn receive(&self, out: &mut [u8]) -> Result<usize> {
        self.0.receive(out)
    }

    fn end(&self) {
        self.0.end();
    }

    fn describe(&self) -> String {
        self.0.describe()
    }
}

struct Daemon {
    client: pair::Client,
    served: Option<Served>,
}

impl Daemon {
    fn over(store: Arc<dyn Store>) -> Daemon {
        let (client, server) = pair::new();
        let (of_direct, of_container) = (store.clone(), store);
        let mounts = vec![
            Mount::new("/direct", move || Ok(Arc::new(Direct::new(of_direct.clone()).unwrap()))),
            Mount::new("/container", move || {
                Ok(Arc::new(Container::new(vec![of_container.clone()], Options::default()).unwrap()))
            }),
        ];
        let plain = Arc::new(Direct::new(Arc::new(Memory::new())).unwrap());
        let served = serve(Arc::new(Mounts::new(mounts, plain)), Arc::new(server)).unwrap();
        Daemon { client, served: Some(served) }
    }

    fn new() -> Daemon {
        Daemon::over(Arc::new(Memory::new()))
    }

    /// A program, and the number of its round trips.
    fn program(&self, prefix: &str) -> (Remote, Arc<AtomicUsize>) {
        let trips = Arc::new(AtomicUsize::new(0));
        (Remote::over(Arc::new(Counting(self.client.clone(), trips.clone())), prefix).unwrap(), trips)
    }
}

fn make(remote: &dyn Layout, name: &str) -> Box<dyn WriteObject> {
    remote.open_write(name, OpenWrite::Replace, WriterId(1)).unwrap()
}

fn put(file: &dyn WriteObject, at: u64, bytes: &[u8]) {
    thalweg_layout::write_all_at(file, at, bytes).unwrap();
}

fn content(remote: &dyn Layout, name: &str) -> Vec<u8> {
    let object = remote.open_read(name).unwrap();
    let mut out = vec![0; object.length().unwrap() as usize];
    object.read_exact_at(0, &mut out).unwrap();
    out
}

#[test]
fn a_thousand_short_writes_take_a_few_round_trips() {
    let daemon = Daemon::new();
    for (name, prefix, appends) in [("a", "/direct", false), ("b", "/container", false), ("c", "/container", true)] {
        let (remote, trips) = daemon.program(prefix);
        let file = make(&remote, name);
        let before = trips.load(Ordering::Relaxed);
        for k in 0..1000u64 {
            let line = [k as u8; 100];
            match appends {
                true => assert_eq!(file.append(&[IoSlice::new(&line)]).unwrap(), (k + 1) * 100),
                false => put(&*file, k * 100, &line),
            }
        }
        file.close().unwrap();
        let took = trips.load(Ordering::Relaxed) - before;
        println!("{prefix}, {}: {took} round trips", if appends { "behind the end" } else { "one behind the other" });
        // The first, the rest, the close; one more for each second that the machine stood still.
        assert!(took <= 20, "{took} round trips for 1000 writes");
        let wanted: Vec<u8> = (0..1000u64).flat_map(|k| [k as u8; 100]).collect();
        assert!(content(&remote, name) == wanted);
    }
}

#[test]
fn a_process_sees_what_it_wrote_whatever_call_it_asks_with() {
    for prefix in ["/direct", "/container"] {
        let daemon = Daemon::new();
        let (remote, _) = daemon.program(prefix);
        let file = make(&remote, "f");
        let reader = remote.open_read("f").unwrap();
        let mut wanted = Vec::new();
        let mut more = |file: &dyn WriteObject| {
            for _ in 0..3 {
                put(file, wanted.len() as u64, b"some bytes, ");
                wanted.extend(b"some bytes, ");
            }
            wanted.clone()
        };
        let now = more(&*file);
        assert_eq!(file.length().unwrap(), now.len() as u64, "length of the handle");
        let now = more(&*file);
        let mut out = vec![0; now.len()];
        assert_eq!(file.read_at(0, &mut out).unwrap(), now.len(), "read of the handle");
        assert!(out == now);
        let now = more(&*file);
        let mut out = vec![0; now.len()];
        reader.read_exact_at(0, &mut out).unwrap();
        assert!(out == now, "read of another handle");
        let now = more(&*file);
        assert_eq!(remote.stat("f").unwrap().length, now.len() as u64, "length by name");
        let now = more(&*file);
        assert!(content(&remote, "f") == now, "read by name");
        let now = more(&*file);
        remote.rename("f", "g").unwrap();
        assert!(content(&remote, "g") == now, "after a rename");
        more(&*file);
        remote.truncate("g", 7).unwrap();
        assert_eq!(remote.stat("g").unwrap().length, 7, "a cut by name cuts what was written before it");
        put(&*file, 7, b"ab");
        put(&*file, 9, b"cd");
        file.truncate(8).unwrap();
        assert_eq!(content(&remote, "g"), b"some bya", "as does a cut of the handle");
    }
}

#[test]
fn what_one_process_writes_through_two_handles_stays_in_the_order_of_its_calls() {
    let folder = tempfile::tempdir().unwrap();
    let posix: Arc<dyn Store> = Arc::new(Posix::at(folder.path()).unwrap());
    let daemon = Daemon::over(posix);
    let (remote, _) = daemon.program("/direct");
    drop(make(&remote, "f"));
    remote.make_link("f", "link").unwrap();
    remote.make_hard_link("f", "hard").unwrap();
    for other in ["f", "link", "hard"] {
        let one = make(&remote, "f");
        let two = remote.open_write(other, OpenWrite::Existing, WriterId(1)).unwrap();
        put(&*one, 0, b"a");
        put(&*one, 1, b"aaaa");
        put(&*two, 1, b"b");
        put(&*two, 2, b"b");
        put(&*one, 2, b"c");
        one.close().unwrap();
        two.close().unwrap();
        assert_eq!(content(&remote, "f"), b"abcaa", "{other}");
        // Behind the end.
        let one = make(&remote, "f");
        let two = remote.open_write(other, OpenWrite::Existing, WriterId(1)).unwrap();
        for k in 0..9u8 {
            let file = if k % 3 == 2 { &two } else { &one };
            assert_eq!(file.append(&[IoSlice::new(&[b'0' + k])]).unwrap(), u64::from(k) + 1, "{other}");
        }
        one.close().unwrap();
        two.close().unwrap();
        assert_eq!(content(&remote, "f"), b"012345678", "{other}");
    }
}

#[test]
fn files_that_are_written_by_turns_are_gathered_each_for_itself() {
    let daemon = Daemon::new();
    let (remote, trips) = daemon.program("/container");
    let files: Vec<_> = (0..8).map(|k| make(&remote, &format!("{k}"))).collect();
    let before = trips.load(Ordering::Relaxed);
    for round in 0..500u64 {
        files.iter().for_each(|file| put(&**file, round * 10, b"0123456789"));
    }
    files.into_iter().for_each(|file| file.close().unwrap());
    let took = trips.load(Ordering::Relaxed) - before;
    assert!(took <= 8 * 12, "{took} round trips for 4000 writes to 8 files");
    for k in 0..8 {
        assert!(content(&remote, &format!("{k}")) == b"0123456789".repeat(500));
    }
}

#[test]
fn other_processes_see_what_was_closed_or_synced() {
    let daemon = Daemon::new();
    let ((one, _), (other, _)) = (daemon.program("/container"), daemon.program("/container"));
    let file = make(&one, "f");
    put(&*file, 0, b"abc");
    put(&*file, 3, b"def");
    file.sync().unwrap();
    assert_eq!(content(&other, "f"), b"abcdef");
    put(&*file, 6, b"ghi");
    file.publish().unwrap();
    assert_eq!(content(&other, "f"), b"abcdefghi");
    put(&*file, 9, b"jkl");
    file.close().unwrap();
    assert_eq!(content(&other, "f"), b"abcdefghijkl");
}

#[test]
fn appends_of_two_processes_all_stay_and_those_of_each_in_order() {
    let daemon = Daemon::new();
    std::thread::scope(|scope| {
        for writer in 0..2u32 {
            let (remote, _) = daemon.program("/container");
            scope.spawn(move || {
                let file = remote.open_write("log", OpenWrite::Any, WriterId(writer)).unwrap();
                for k in 0..2000u32 {
                    file.append(&[IoSlice::new(format!("{writer} {k}\n").as_bytes())]).unwrap();
                }
                file.close().unwrap();
            });
        }
    });
    let (remote, _) = daemon.program("/container");
    let text = String::from_utf8(content(&remote, "log")).unwrap();
    for writer in 0..2 {
        let lines: Vec<_> = text.lines().filter_map(|line| line.strip_prefix(&format!("{writer} "))).collect();
        assert!(lines.iter().map(|line| line.parse::<u32>().unwrap()).eq(0..2000), "of {writer}");
    }
    assert_eq!(text.lines().count(), 4000);
}

#[test]
fn memory_for_gathering_is_bounded_over_all_files() {
    let daemon = Daemon::new();
    let (remote, trips) = daemon.program("/direct");
    let files: Vec<_> = (0..buffer::FILES + 20).map(|k| make(&remote, &format!("{k}"))).collect();
    for round in 0..3 {
        files.iter().for_each(|file| put(&**file, round * 2, b"ab"));
    }
    let before = trips.load(Ordering::Relaxed);
    files.iter().for_each(|file| put(&**file, 6, b"ab"));
    // Those without memory send each write.
    assert_eq!(trips.load(Ordering::Relaxed) - before, 20);
    files.into_iter().for_each(|file| file.close().unwrap());
    // It is given back.
    let file = make(&remote, "later");
    (0..3).for_each(|round| put(&*file, round * 2, b"ab"));
    let before = trips.load(Ordering::Relaxed);
    put(&*file, 6, b"ab");
    assert_eq!(trips.load(Ordering::Relaxed), before);
}

#[test]
fn bytes_that_cannot_be_sent_are_told_by_every_later_call_and_by_close() {
    let mut daemon = Daemon::new();
    let (remote, _) = daemon.program("/container");
    let open = |name: &str| {
        let file = make(&remote, name);
        put(&*file, 0, b"sent");
        put(&*file, 4, b"not sent");
        file
    };
    let (one, two, three) = (open("one"), open("two"), open("three"));
    daemon.served = None;
    assert_eq!(one.sync().unwrap_err().kind(), ErrorKind::PeerLost);
    assert_eq!(one.close().unwrap_err().kind(), ErrorKind::PeerLost);
    assert_eq!(two.close().unwrap_err().kind(), ErrorKind::PeerLost);
    // What another call could not send is told by the handle that wrote it.
    assert!(remote.stat("three").is_err());
    for error in [three.write_at(12, &[IoSlice::new(b"x")]).err(), three.length().err(), three.sync().err()] {
        assert_eq!(error.unwrap().kind(), ErrorKind::PeerLost);
    }
    assert_eq!(three.close().unwrap_err().kind(), ErrorKind::PeerLost);
}

#[test]
fn a_full_store_is_told_at_the_latest_by_sync_or_close_and_stays_told_once_bytes_are_lost() {
    for ends_with_sync in [true, false] {
        let store = Arc::new(Failing::new(Arc::new(Memory::new())));
        let daemon = Daemon::over(store.clone());
        let (remote, _) = daemon.program("/direct");
        let file = make(&remote, "f");
        store.space(Some(5000));
        let failed = (0..100u64).find_map(|k| file.write_at(k * 100, &[IoSlice::new(&[1; 100])]).err());
        assert!(failed.is_none(), "all of them are gathered");
        if ends_with_sync {
            assert_eq!(file.sync().unwrap_err().kind(), ErrorKind::NoSpace);
            // Room again does not bring the bytes back.
            store.space(None);
            assert_eq!(file.sync().unwrap_err().kind(), ErrorKind::NoSpace);
        }
        let error = file.close().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NoSpace, "{error}");
        store.space(None);
        put(&*make(&remote, "f"), 0, b"the next writer goes on");
    }
    // A first write, and one that is sent by itself, is refused where it happens, and costs nothing else.
    let store = Arc::new(Failing::new(Arc::new(Memory::new())));
    let daemon = Daemon::over(store.clone());
    let (remote, _) = daemon.program("/direct");
    let file = make(&remote, "f");
    store.space(Some(0));
    assert_eq!(file.write_at(0, &[IoSlice::new(b"x")]).unwrap_err().kind(), ErrorKind::NoSpace);
    store.space(None);
    put(&*file, 0, b"y");
    file.close().unwrap();
    assert_eq!(content(&remote, "f"), b"y");
}
