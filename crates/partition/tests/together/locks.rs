//! Locks and counters that the servers of a partition keep, over real sockets: exclusion between clients, clients and servers that end.

use crate::servers::{Running, Settings};
use std::io::IoSlice;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use thalweg_layout::locks::{Count, Family, FileLocks, Kind, Range};
use thalweg_layout::{Layout, OpenWrite, WriterId};
use thalweg_open_file::lock::LockDescription;
use thalweg_partition::Partition;
use thalweg_remote::transport::unix::Socket;
use thalweg_remote::transport::{Connection, Transport};
use thalweg_types::mutex::Mutex;
use thalweg_types::{ErrorKind, Result};

const ALL: Range = Range::ALL;

fn bytes(start: u64, length: u64) -> Range {
    Range { start, length }
}

fn with_file() -> Running {
    let running = Running::new(Settings { stripe: 16, ..Settings::default() });
    running.client().open_write("f", OpenWrite::New, WriterId(0)).unwrap().close().unwrap();
    running
}

fn locks(partition: &Partition) -> Box<dyn FileLocks> {
    partition.locks("f").unwrap().expect("its servers keep locks")
}

fn takes(locks: &dyn FileLocks, kind: Kind, range: Range) -> bool {
    locks.lock(Family::Ranges, kind, range, false).unwrap().is_none()
}

/// The connections of a client, which ends as a killed process does.
#[derive(Clone, Default)]
struct Connections(Arc<Mutex<Vec<Arc<dyn Connection>>>>);

struct Recorded(Socket, Connections);

struct Shared(Arc<dyn Connection>);

impl Connections {
    fn client(&self, running: &Running) -> Partition {
        let to = |n| Arc::new(Recorded(Socket::at(&running.socket(n)), self.clone())) as Arc<dyn Transport>;
        let transports: Vec<_> = (0..running.settings.servers).map(to).collect();
        Partition::over("p".into(), transports[0].clone(), transports, 1 << 20, false).unwrap()
    }

    fn end(&self) {
        self.0.lock().iter().for_each(|connection| connection.end());
    }
}

impl Transport for Recorded {
    fn connect(&self) -> Result<Box<dyn Connection>> {
        let connection: Arc<dyn Connection> = Arc::from(self.0.connect()?);
        self.1.0.lock().push(connection.clone());
        Ok(Box::new(Shared(connection)))
    }

    fn describe(&self) -> String {
        self.0.describe()
    }
}

impl Connection for Shared {
    fn send(&self, pieces: &mut [IoSlice<'_>]) -> Result<()> {
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

/// Waits until a lock can be taken: the server learns of an end over a connection.
fn takes_within(locks: &dyn FileLocks, time: Duration) -> bool {
    let begun = Instant::now();
    while begun.elapsed() < time {
        if takes(locks, Kind::Exclusive, ALL) {
            return true;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    false
}

#[test]
fn locks_exclude_descriptions_of_all_clients_and_end_with_theirs() {
    let running = with_file();
    let (one, other) = (running.client(), running.client());
    let (first, second, third) = (locks(&one), locks(&one), locks(&other));
    assert!(takes(&*first, Kind::Exclusive, bytes(10, 10)) && takes(&*first, Kind::Exclusive, bytes(30, 0)));
    for others in [&second, &third] {
        let met = others.lock(Family::Ranges, Kind::Shared, bytes(15, 100), false).unwrap().unwrap().met;
        assert_eq!((met.kind, met.pid), (Kind::Exclusive, -1));
        assert!([bytes(10, 10), bytes(30, 0)].contains(&met.range), "{met:?}");
        assert!(takes(&**others, Kind::Shared, bytes(20, 10)));
        assert!(others.test(Kind::Shared, bytes(0, 10)).unwrap().is_none());
        // Locks of the whole file are of their own.
        assert!(others.lock(Family::Whole, Kind::Shared, ALL, false).unwrap().is_none());
    }
    assert_eq!(first.test(Kind::Exclusive, bytes(25, 1)).unwrap().unwrap().kind, Kind::Shared);
    assert!(first.lock(Family::Whole, Kind::Exclusive, ALL, false).unwrap().is_some());
    drop((second, third));
    assert!(first.lock(Family::Whole, Kind::Exclusive, ALL, false).unwrap().is_none());
    assert!(takes(&*first, Kind::Exclusive, ALL));
    let fourth = locks(&other);
    assert!(!takes(&*fourth, Kind::Shared, bytes(5, 1)));
    assert!(takes(&*first, Kind::None, bytes(5, 1)) && takes(&*fourth, Kind::Shared, bytes(5, 1)));
    // Another file's are others.
    one.open_write("g", OpenWrite::New, WriterId(0)).unwrap().close().unwrap();
    assert!(takes(&*one.locks("g").unwrap().unwrap(), Kind::Exclusive, ALL));
}

#[test]
fn increments_under_a_lock_are_not_lost_and_the_file_is_never_mixed() {
    let running = with_file();
    const THREADS: usize = 4;
    const TIMES: usize = 40;
    std::thread::scope(|threads| {
        for thread in 0..THREADS {
            let partition = running.client();
            threads.spawn(move || {
                let file = partition.open_write("f", OpenWrite::Existing, WriterId(thread as u32)).unwrap();
                let lock = LockDescription::open(&partition, "f", &partition.attributes("f").unwrap()).unwrap();
                for _ in 0..TIMES {
                    lock.range(Kind::Exclusive, bytes(0, 100), |_| {}).unwrap();
                    // Over all servers.
                    let mut all = [0; 100];
                    file.read_at(0, &mut all).unwrap();
                    assert!(all.iter().all(|byte| *byte == all[0]), "{all:?}");
                    file.write_at(0, &[IoSlice::new(&[all[0] + 1; 100])]).unwrap();
                    lock.try_range(Kind::None, bytes(0, 100), false).unwrap();
                }
                file.close().unwrap();
            });
        }
    });
    let mut all = [0; 100];
    running.client().open_read("f").unwrap().read_exact_at(0, &mut all).unwrap();
    assert_eq!(all, [(THREADS * TIMES) as u8; 100]);
}

#[test]
fn locks_and_counters_of_a_client_that_ends_are_released_without_a_word_of_it() {
    let running = with_file();
    let connections = Connections::default();
    let (holder, partition) = (connections.client(&running), running.client());
    let (held, waiting) = (locks(&holder), locks(&partition));
    assert!(takes(&*held, Kind::Exclusive, ALL));
    held.make_counter(7).unwrap();
    assert_eq!((held.count(7, Count::Add(5)).unwrap(), waiting.count(7, Count::Read).unwrap()), (0, 5));
    assert!(!takes_within(&*waiting, Duration::from_millis(50)));
    // As of a process that is killed: the system ends its connections, and nothing is sent.
    connections.end();
    assert!(takes_within(&*waiting, Duration::from_secs(10)));
    let lost = waiting.count(7, Count::Read).unwrap_err();
    assert_eq!(lost.kind(), ErrorKind::PeerLost);
    assert!(lost.to_string().contains("this counter is lost"), "{lost}");
}

#[test]
fn a_counter_gives_places_of_their_own_to_all() {
    let running = with_file();
    let first = running.client();
    let owner = locks(&first);
    owner.make_counter(1).unwrap();
    assert_eq!(owner.make_counter(1).unwrap_err().kind(), ErrorKind::AlreadyExists);
    let mut seen: Vec<u64> = std::thread::scope(|threads| {
        let started: Vec<_> = (0..4)
            .map(|_| {
                let partition = running.client();
                threads.spawn(move || {
                    let own = locks(&partition);
                    (0..200).map(|_| own.count(1, Count::Add(3)).unwrap()).collect::<Vec<_>>()
                })
            })
            .collect();
        started.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
    });
    seen.sort_unstable();
    assert_eq!(seen, (0..800).map(|n| n * 3).collect::<Vec<_>>());
    assert_eq!(owner.count(1, Count::Set(u64::MAX - 1)).unwrap(), 2400);
    assert_eq!(owner.count(1, Count::Add(7)).unwrap(), u64::MAX - 1);
    assert_eq!(owner.count(1, Count::Read).unwrap(), u64::MAX);
}

#[test]
fn locks_of_a_server_that_was_killed_are_known_as_lost_also_after_its_next_start() {
    let mut running = with_file();
    let partition = running.client();
    let held = locks(&partition);
    assert!(takes(&*held, Kind::Exclusive, ALL));
    held.make_counter(9).unwrap();
    running.kill(0);
    let begun = Instant::now();
    for _ in 0..2 {
        let lost = held.lock(Family::Ranges, Kind::None, ALL, false).unwrap_err();
        assert_eq!((lost.kind(), lost.place().object.as_deref()), (ErrorKind::PeerLost, Some("f")));
        let counted = held.count(9, Count::Add(1)).unwrap_err();
        assert_eq!(counted.kind(), ErrorKind::PeerLost);
    }
    assert!(begun.elapsed() < Duration::from_secs(60));
    running.start(0).unwrap();
    assert_eq!(held.lock(Family::Ranges, Kind::Exclusive, ALL, false).unwrap_err().kind(), ErrorKind::PeerLost);
    // New descriptions go on, and are told that the counter is gone.
    let next = running.client();
    let again = locks(&next);
    assert!(takes(&*again, Kind::Exclusive, ALL));
    assert_eq!(again.count(9, Count::Read).unwrap_err().kind(), ErrorKind::PeerLost);
}

#[test]
fn locks_of_a_removed_file_stay_with_those_who_have_them() {
    let running = with_file();
    let partition = running.client();
    let old = locks(&partition);
    assert!(takes(&*old, Kind::Exclusive, ALL));
    partition.remove("f").unwrap();
    assert_eq!(partition.locks("f").err().unwrap().kind(), ErrorKind::NotFound);
    partition.open_write("f", OpenWrite::New, WriterId(0)).unwrap().close().unwrap();
    assert!(takes(&*locks(&partition), Kind::Exclusive, ALL), "the name's new file has none");
    assert!(takes(&*old, Kind::None, ALL));
}

#[test]
fn a_waiting_caller_gets_the_lock_soon_after_its_release() {
    let running = with_file();
    let (one, other) = (running.client(), running.client());
    let held = locks(&one);
    assert!(takes(&*held, Kind::Exclusive, ALL));
    let about = other.attributes("f").unwrap();
    let waiting = LockDescription::open(&other, "f", &about).unwrap();
    let refused = waiting.try_range(Kind::Shared, ALL, false).unwrap_err();
    assert_eq!(thalweg_layout::errno::of(&refused), thalweg_layout::errno::Errno::AGAIN.raw_os_error());
    let released = Arc::new(AtomicBool::new(false));
    let seen = released.clone();
    let waits = std::thread::spawn(move || {
        waiting.range(Kind::Exclusive, ALL, |_| {}).unwrap();
        assert!(seen.load(Ordering::Acquire), "it was held by another");
        Instant::now()
    });
    std::thread::sleep(Duration::from_millis(300));
    released.store(true, Ordering::Release);
    let begun = Instant::now();
    assert!(takes(&*held, Kind::None, ALL));
    let got = waits.join().unwrap();
    assert!(got.duration_since(begun) < Duration::from_secs(30));
}

#[test]
fn a_lock_that_is_taken_again_at_once_keeps_nobody_away() {
    let running = with_file();
    let (one, other) = (running.client(), running.client());
    let (greedy, waiting) = (locks(&one), locks(&other));
    let asks = |locks: &dyn FileLocks| locks.lock(Family::Ranges, Kind::Exclusive, ALL, true).unwrap();
    assert!(asks(&*greedy).is_none());
    assert_eq!(asks(&*waiting).unwrap().ahead, 0);
    assert!(takes(&*greedy, Kind::None, ALL));
    assert_eq!(asks(&*greedy).unwrap().ahead, 1);
    assert!(asks(&*waiting).is_none());
    // A description that is closed leaves its turn, too.
    drop(greedy);
    assert!(takes(&*waiting, Kind::None, ALL) && asks(&*locks(&one)).is_none());
}
