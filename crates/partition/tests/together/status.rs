//! What servers say about themselves, over real sockets: locks and who waits for whom, views, bytes that are not stored; also while a
//! storage answers nothing.

use crate::servers::{Running, Settings};
use std::io::IoSlice;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use thalweg_layout::locks::{Family, Kind, Range};
use thalweg_layout::{Layout, OpenWrite, WriteObject, WriterId};
use thalweg_partition::Partition;
use thalweg_partition::server::{CONTROL, DATA, Status};
use thalweg_remote::Remote;
use thalweg_remote::client::link::Link;
use thalweg_remote::message::{MOST_VIEWS, Request};
use thalweg_remote::transport::unix::Socket;
use thalweg_store::wrap::Slow;
use thalweg_store::{Posix, Store};
use thalweg_types::ErrorKind;
use thalweg_view::{Datatype, Pattern, View};

fn status(running: &Running, server: u32) -> Status {
    let control = Remote::over(Arc::new(Socket::at(&running.socket(server))), CONTROL).unwrap();
    toml::from_str(std::str::from_utf8(&control.whole("status", 1 << 20).unwrap()).unwrap()).unwrap()
}

/// The states of all servers, once they are as expected. Servers learn of the end of a connection by themselves.
fn states(running: &Running, expected: impl Fn(&[Status]) -> bool) -> Vec<Status> {
    for _ in 0..3000 {
        let states: Vec<Status> = (0..running.settings.servers).map(|n| status(running, n)).collect();
        if expected(&states) {
            return states;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    panic!("{:#?}", (0..running.settings.servers).map(|n| status(running, n)).collect::<Vec<_>>())
}

fn file(partition: &Partition, name: &str) -> Box<dyn WriteObject> {
    partition.open_write(name, OpenWrite::Any, WriterId(0)).unwrap()
}

#[test]
fn locks_have_their_clients_and_who_waits_waits_for_somebody() {
    let running = Running::new(Settings::default());
    let (one, two) = (running.client(), running.client());
    file(&one, "f").close().unwrap();
    let (first, second) = (one.locks("f").unwrap().unwrap(), two.locks("f").unwrap().unwrap());
    let range = Range { start: 10, length: 20 };
    assert!(first.lock(Family::Ranges, Kind::Exclusive, range, false).unwrap().is_none());
    assert!(first.lock(Family::Whole, Kind::Shared, Range::ALL, false).unwrap().is_none());
    let done = AtomicBool::new(false);
    let told = std::thread::scope(|scope| {
        scope.spawn(|| {
            // A caller that waits asks again.
            while !done.load(Ordering::Relaxed)
                && second.lock(Family::Ranges, Kind::Shared, range, true).unwrap().is_some()
            {
                std::thread::sleep(Duration::from_millis(5));
            }
        });
        let told = states(&running, |states| states.iter().map(|s| s.locks).sum::<u64>() == 3);
        done.store(true, Ordering::Relaxed);
        told
    });
    let locks: Vec<_> = told.into_iter().flat_map(|state| state.first_locks).collect();
    let us = format!("process {}", std::process::id());
    assert!(locks.iter().all(|lock| lock.client.contains(&us) && lock.file.len() > 32), "{locks:?}");
    // Those that wait come first.
    let told: Vec<_> = locks.iter().map(|l| (l.whole, l.exclusive, l.start, l.length, l.waits_for.is_some())).collect();
    assert_eq!(told, [(false, false, 10, 20, true), (false, true, 10, 20, false), (true, false, 0, 0, false)]);
    assert!(locks[0].waits_for.as_ref().is_some_and(|other| other.contains(&us)), "{locks:?}");
    drop((first, second));
    states(&running, |states| states.iter().all(|state| state.locks == 0));
}

#[test]
fn bytes_that_are_not_stored_are_told_until_they_are() {
    let running = Running::new(Settings { servers: 2, ..Settings::default() });
    let partition = running.client();
    let open = file(&partition, "f");
    open.write_at(0, &[IoSlice::new(&vec![7; 1 << 20])]).unwrap();
    let told = states(&running, |_| true);
    assert_eq!(told.iter().map(|state| state.outlook.bytes).collect::<Vec<_>>(), [1 << 19; 2]);
    assert!(told.iter().all(|state| state.outlook.rate.is_none() && state.outlook.needed_ms.is_none()), "{told:?}");
    assert!(told.iter().all(|state| state.files == 1 && state.kill_wait == 30), "{told:?}");
    open.sync().unwrap();
    let told = states(&running, |_| true);
    assert!(told.iter().all(|state| state.outlook.bytes == 0 && state.outlook.rate.is_some()), "{told:?}");
    // Now the rate is known, and so is the time.
    open.write_at(0, &[IoSlice::new(&[8; 5000])]).unwrap();
    let told = states(&running, |_| true);
    assert_eq!(told.iter().map(|state| state.outlook.bytes).sum::<u64>(), 5000);
    assert!(told.iter().all(|state| state.outlook.needed_ms.is_some_and(|ms| ms > 0)), "{told:?}");
    open.close().unwrap();
    partition.remove("f").unwrap();
    let told = states(&running, |_| true);
    assert!(told.iter().all(|state| (state.files, state.outlook.bytes) == (0, 0)), "{told:?}");
}

#[test]
fn bytes_are_written_back_while_clients_go_on_and_survive_servers_that_are_killed_then() {
    let mut running = Running::new(Settings { servers: 2, ..Settings::default() });
    let partition = running.client();
    let open = file(&partition, "f");
    let bytes: Vec<u8> = (0..1_000_000u32).map(|i| (i % 251) as u8).collect();
    open.write_at(0, &[IoSlice::new(&bytes)]).unwrap();
    std::thread::scope(|scope| {
        for serving in running.serving.iter().flatten() {
            scope.spawn(serving.write_back());
        }
        // Meanwhile the same file.
        (0..50)
            .for_each(|n| open.write_at(n * 20_000, &[IoSlice::new(&bytes[n as usize * 20_000..][..20_000])]).unwrap());
    });
    running.serving.iter().flatten().for_each(|serving| serving.write_back()());
    let told = states(&running, |_| true);
    assert!(told.iter().all(|state| (state.files, state.outlook.bytes) == (1, 0)), "{told:?}");
    (0..2).for_each(|server| running.kill(server));
    (0..2).for_each(|server| running.start(server).unwrap());
    let mut out = vec![0; bytes.len()];
    running.client().open_read("f").unwrap().read_exact_at(0, &mut out).unwrap();
    assert!(out == bytes);
}

#[test]
fn a_server_tells_its_state_while_its_storage_answers_nothing() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir(folder.path().join("data0")).unwrap();
    let posix: Arc<dyn Store> = Arc::new(Posix::at(folder.path().join("data0")).unwrap());
    let slow: Arc<dyn Store> = Arc::new(Slow::new(posix, Duration::ZERO, 100_000.0));
    let running = Running::over(Settings { servers: 1, ..Settings::default() }, vec![slow], folder);
    let partition = running.client();
    let open = file(&partition, "f");
    open.write_at(0, &[IoSlice::new(&[1; 300_000])]).unwrap();
    let closed = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            open.close().unwrap();
            closed.store(true, Ordering::Release);
        });
        let told = states(&running, |states| states[0].requests > 0);
        assert!(!closed.load(Ordering::Acquire), "the state was told meanwhile: {told:?}");
        assert!(told[0].clients.iter().any(|client| client.waits_for.as_deref() == Some("close")), "{told:?}");
        assert!(told[0].outlook.bytes > 0, "{told:?}");
    });
    let told = status(&running, 0);
    assert!(told.outlook.rate.is_some_and(|rate| rate <= 120_000), "{told:?}");
}

fn view(displacement: u64) -> Arc<View> {
    let byte: Pattern = Datatype::Elementary(1).pattern().unwrap();
    let of = Box::new(Datatype::Elementary(1));
    let pattern = Datatype::Vector { count: 2, block: 1, stride: 4, of }.pattern().unwrap();
    Arc::new(View::new(displacement, &byte, pattern).unwrap())
}

#[test]
fn servers_forget_views_of_a_client_that_goes_on_and_all_of_one_that_ends() {
    let running = Running::new(Settings { servers: 1, ..Settings::default() });
    let views = |states: &[Status]| {
        let data = states[0].clients.iter().filter(|client| client.mount == DATA);
        data.map(|client| client.views as usize).collect::<Vec<_>>()
    };
    let partition = running.client();
    let open = file(&partition, "f");
    // Each one is dropped before the next, as by MPI_File_set_view.
    for n in 0..3 * MOST_VIEWS as u64 {
        open.write_view(&view(n), 0, b"ab").unwrap();
    }
    assert_eq!(views(&states(&running, |_| true)), [1]);
    // Those that a client keeps are sent again where a server has forgotten them.
    let kept: Vec<Arc<View>> = (0..MOST_VIEWS as u64 + 100).map(|n| view(n * 8)).collect();
    for round in [b"cd", b"ef"] {
        for view in &kept {
            open.write_view(view, 0, round).unwrap();
        }
    }
    let mut out = [0; 2];
    for view in &kept {
        assert_eq!(open.read_view(view, 0, &mut out).unwrap(), 2);
        assert_eq!(&out, b"ef");
    }
    let many = views(&states(&running, |_| true));
    assert!(many[0] <= MOST_VIEWS / 2 && many[0] > 1, "{many:?}");
    let of_other = running.client();
    file(&of_other, "g").write_view(&kept[0], 0, b"gh").unwrap();
    drop((open, partition));
    // The other client's view is there.
    let left = states(&running, |states| views(states).len() == 1);
    assert_eq!((views(&left), left[0].files), (vec![1], 0));
    drop(of_other);
    states(&running, |states| states[0].clients.is_empty());
}

#[test]
fn a_client_that_forgets_no_view_gets_an_error_and_no_memory_of_others() {
    let running = Running::new(Settings { servers: 1, ..Settings::default() });
    let link = Link::new(Arc::new(Socket::at(&running.socket(0))), DATA).unwrap();
    let encoded = view(0).encode();
    let register = |number| link.call(&Request::View(number), &[IoSlice::new(&encoded)]).map(drop);
    (0..MOST_VIEWS as u64).for_each(|number| register(number).unwrap());
    assert_eq!(register(MOST_VIEWS as u64).unwrap_err().kind(), ErrorKind::NoMemory);
    register(0).unwrap();
    link.call(&Request::ForgetView(7), &[]).unwrap();
    register(MOST_VIEWS as u64).unwrap();
    let partition = running.client();
    file(&partition, "f").write_view(&view(0), 0, b"ab").unwrap();
}
