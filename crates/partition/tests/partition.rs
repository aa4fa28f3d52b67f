//! Partitions whose servers are threads, over real sockets: promises of layouts, views, failures.

mod servers;

use proptest::prelude::*;
use servers::{Running, Settings};
use std::io::IoSlice;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use thalweg_conformance::layout;
use thalweg_layout::locks::{Family, Kind, Range};
use thalweg_layout::{Layout, OpenWrite, Stripes, WriterId};
use thalweg_partition::Partition;
use thalweg_partition::checking::check;
use thalweg_partition::server::CONTROL;
use thalweg_remote::Remote;
use thalweg_remote::transport::unix::Socket;
use thalweg_remote::transport::{Connection, Transport};
use thalweg_store::wrap::{Failing, Fault, StoreCall};
use thalweg_store::{Posix, Store};
use thalweg_types::{ErrorKind, Result};
use thalweg_view::{Datatype, Pattern, View};

#[test]
fn a_partition_keeps_every_promise_of_layouts() {
    for settings in [
        Settings::default(),
        Settings { stripe: 7, servers: 5, unit: 50, ..Settings::default() },
        Settings { servers: 1, cache: 0, ..Settings::default() },
        Settings { views_in_client: true, stripe: 64, ..Settings::default() },
    ] {
        let running = Running::new(settings);
        let partition = running.client();
        layout::check(&partition);
        layout::check_names_and_attributes(&partition);
        layout::check_error_numbers(&partition);
        layout::check_closed_lengths(&partition, &running.client());
    }
}

#[test]
fn a_partition_keeps_them_over_each_way_of_a_socket() {
    let ways: [fn(Socket) -> Socket; 3] =
        [Socket::with_shared_writes, Socket::without_segments, |socket| socket.without_lending().without_segments()];
    for ways in ways {
        let running = Running::new(Settings { ways, ..Settings::default() });
        let partition = running.client();
        layout::check(&partition);
        // Long enough for every way, with a hole and an end within a stripe.
        let all: Vec<u8> = (0..3_000_001usize).map(|i| (i.wrapping_mul(2_654_435_761) >> 11) as u8).collect();
        let file = partition.open_write("long", OpenWrite::New, WriterId(0)).unwrap();
        file.write_at(5_000_000, &[IoSlice::new(&all)]).unwrap();
        file.close().unwrap();
        let mut out = vec![1; 8_000_001];
        running.client().open_read("long").unwrap().read_exact_at(0, &mut out).unwrap();
        assert!(out[..5_000_000].iter().all(|byte| *byte == 0) && out[5_000_000..] == all);
    }
}

#[test]
fn a_file_lies_on_as_many_servers_as_were_asked_for() {
    let mut running = Running::new(Settings { stripe: 4096, servers: 3, ..Settings::default() });
    let all: Vec<u8> = (0..100_001usize).map(|i| (i.wrapping_mul(2_654_435_761) >> 11) as u8).collect();
    let partition = running.client();
    let of_others = Stripes { targets: 3, bytes: 4096 };
    let view = vector(3, 4, 7, 10);
    let mut used = [0; 3];
    for (asked, wanted) in [
        (Stripes { targets: 1, bytes: 0 }, Stripes { targets: 1, bytes: 4096 }),
        (Stripes { targets: 2, bytes: 8192 }, Stripes { targets: 2, bytes: 8192 }),
        (Stripes { targets: 2, bytes: 1 }, Stripes { targets: 2, bytes: 512 }),
        (Stripes { targets: 0, bytes: 1000 }, Stripes { targets: 3, bytes: 1000 }),
        (Stripes { targets: 99, bytes: 0 }, of_others),
    ] {
        for n in 0..4 {
            let name = format!("{}.{}.{n}", asked.targets, asked.bytes);
            assert!(partition.make_striped(&name, asked).unwrap());
            let twice = partition.make_striped(&name, of_others).unwrap_err();
            assert_eq!(twice.kind(), ErrorKind::AlreadyExists, "{twice}");
            assert_eq!(partition.stripes(&name).unwrap(), Some(wanted));
            let file = partition.open_write(&name, OpenWrite::Any, WriterId(0)).unwrap();
            file.write_at(0, &[IoSlice::new(&all)]).unwrap();
            file.write_view(&view, 1000, &all[..5000]).unwrap();
            let mut back = vec![0; 5000];
            assert_eq!(file.read_view(&view, 1000, &mut back).unwrap(), 5000);
            assert!(back == all[..5000]);
            file.write_at(0, &[IoSlice::new(&all)]).unwrap();
            file.close().unwrap();
            assert_eq!(partition.stat(&name).unwrap().length, all.len() as u64);
            let mut out = vec![0; all.len()];
            running.client().open_read(&name).unwrap().read_exact_at(0, &mut out).unwrap();
            assert!(out == all, "{name}");
            if let Some(locks) = partition.locks(&name).unwrap() {
                assert!(locks.lock(Family::Whole, Kind::Exclusive, Range::ALL, false).unwrap().is_none());
            }
        }
        let on: Vec<usize> = partition.stored().unwrap().iter().map(Vec::len).collect();
        let now = on.iter().zip(used).map(|(now, before)| now - before).sum::<usize>();
        assert_eq!(now, 4 * wanted.targets as usize, "{asked:?}: {on:?}");
        used.copy_from_slice(&on);
    }
    assert_eq!(check(&partition).unwrap().findings, []);
    // By another client, after a restart, and gone afterwards.
    for n in 0..3 {
        running.kill(n);
        running.start(n).unwrap();
    }
    let partition = running.client();
    for name in partition.list("").unwrap() {
        let mut out = vec![0; all.len()];
        partition.open_read(&name).unwrap().read_exact_at(0, &mut out).unwrap();
        assert!(out == all, "{name}");
        partition.truncate(&name, 5).unwrap();
        assert_eq!(partition.stat(&name).unwrap().length, 5);
        partition.remove(&name).unwrap();
    }
    assert!(partition.stored().unwrap().iter().all(Vec::is_empty));
    // A file that is made in the usual way has the usual stripes.
    partition.open_write("usual", OpenWrite::Any, WriterId(0)).unwrap().close().unwrap();
    assert_eq!(partition.stripes("usual").unwrap(), Some(of_others));
}

fn vector(displacement: u64, count: u64, block: u64, stride: i64) -> Arc<View> {
    let byte: Pattern = Datatype::Elementary(1).pattern().unwrap();
    let of = Box::new(Datatype::Elementary(1));
    let pattern = Datatype::Vector { count, block, stride, of }.pattern().unwrap();
    Arc::new(View::new(displacement, &byte, pattern).unwrap())
}

/// One change of a file, or a look at it.
#[derive(Debug, Clone)]
enum Step {
    Write(u64, usize),
    WriteView(u64, usize),
    Read(u64, usize),
    ReadView(u64, usize),
    Cut(u64),
    Punch(u64, u64),
    Sync,
    Reopen,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (0u64..3000, 0usize..700).prop_map(|(at, n)| Step::Write(at, n)),
        2 => (0u64..900, 1usize..300).prop_map(|(at, n)| Step::WriteView(at, n)),
        4 => (0u64..4000, 0usize..900).prop_map(|(at, n)| Step::Read(at, n)),
        2 => (0u64..900, 1usize..300).prop_map(|(at, n)| Step::ReadView(at, n)),
        1 => (0u64..3500).prop_map(Step::Cut),
        1 => (0u64..3000, 1u64..900).prop_map(|(at, n)| Step::Punch(at, n)),
        1 => Just(Step::Sync),
        1 => Just(Step::Reopen),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]
    #[test]
    fn a_file_is_what_a_model_says_whatever_the_stripes_and_the_cache(
        stripe in 1u64..200, servers in 1u32..5, unit in 20usize..500, views_in_client: bool,
        steps in proptest::collection::vec(step(), 1..40),
    ) {
        // A cache of the least size.
        let settings = Settings { stripe, servers, unit, views_in_client, cache: 0, ..Settings::default() };
        let running = Running::new(settings);
        let (writer, reader) = (running.client(), running.client());
        let view = vector(11, 3, 5, 9);
        let mut model: Vec<u8> = Vec::new();
        let mut object = writer.open_write("f", OpenWrite::New, WriterId(0)).unwrap();
        for (n, step) in steps.into_iter().enumerate() {
            let bytes = |length: usize| -> Vec<u8> { (0..length).map(|i| (i * 31 + n * 7 + 1) as u8).collect() };
            match step {
                Step::Write(at, length) => {
                    let bytes = bytes(length);
                    object.write_at(at, &[IoSlice::new(&bytes)]).unwrap();
                    if length > 0 {
                        model.resize(model.len().max(at as usize + length), 0);
                        model[at as usize..at as usize + length].copy_from_slice(&bytes);
                    }
                }
                Step::WriteView(at, length) => {
                    let bytes = bytes(length);
                    object.write_view(&view, at, &bytes).unwrap();
                    for (i, byte) in bytes.iter().enumerate() {
                        let place = view.file_offset(at + i as u64).unwrap() as usize;
                        model.resize(model.len().max(place + 1), 0);
                        model[place] = *byte;
                    }
                }
                Step::Read(at, length) => {
                    let mut out = vec![0xee; length];
                    let got = reader.open_read("f").unwrap().read_at(at, &mut out).unwrap();
                    let there = model.get(at as usize..).unwrap_or_default();
                    prop_assert_eq!(&out[..got], &there[..there.len().min(length)]);
                }
                Step::ReadView(at, length) => {
                    let mut out = vec![0xee; length];
                    let got = object.read_view(&view, at, &mut out).unwrap() as usize;
                    let there = (0..length as u64).map(|i| model.get(view.file_offset(at + i).unwrap() as usize));
                    let there: Vec<u8> = there.map_while(|byte| byte.copied()).collect();
                    prop_assert_eq!(&out[..got], &there[..]);
                }
                Step::Cut(length) => {
                    object.truncate(length).unwrap();
                    model.resize(length as usize, 0);
                }
                Step::Punch(at, length) => {
                    object.punch(at, length).unwrap();
                    let end = model.len().min((at + length) as usize);
                    if let Some(hole) = model.get_mut(at as usize..end) {
                        hole.fill(0);
                    }
                }
                Step::Sync => object.sync().unwrap(),
                Step::Reopen => {
                    object.close().unwrap();
                    object = writer.open_write("f", OpenWrite::Existing, WriterId(0)).unwrap();
                }
            }
            prop_assert_eq!(object.length().unwrap(), model.len() as u64);
        }
        object.close().unwrap();
        prop_assert_eq!(reader.stat("f").unwrap().length, model.len() as u64);
        // Servers that are started again on what the storage has.
        let mut running = running;
        (0..servers).for_each(|n| running.kill(n));
        (0..servers).for_each(|n| running.start(n).unwrap());
        let again = running.client().open_read("f").unwrap();
        let mut out = vec![0; model.len()];
        again.read_exact_at(0, &mut out).unwrap();
        prop_assert_eq!(out, model);
    }
}

#[test]
fn clients_that_append_at_the_same_time_write_behind_each_other() {
    const CLIENTS: u32 = 4;
    const TIMES: u32 = 60;
    let running = Running::new(Settings { stripe: 64, ..Settings::default() });
    let record =
        |client: u32, number: u32| format!("{client} {number} {}\n", "x".repeat((number * 7 + client) as usize % 200));
    running.client().open_write("log", OpenWrite::New, WriterId(0)).unwrap().close().unwrap();
    let start = std::sync::Barrier::new(CLIENTS as usize);
    std::thread::scope(|scope| {
        for client in 0..CLIENTS {
            let (partition, start) = (running.client(), &start);
            scope.spawn(move || {
                let file = partition.open_write("log", OpenWrite::Existing, WriterId(client)).unwrap();
                start.wait();
                for number in 0..TIMES {
                    let text = record(client, number);
                    let (front, back) = text.as_bytes().split_at(text.len() / 2);
                    let end = file.append(&[IoSlice::new(front), IoSlice::new(back)]).unwrap();
                    let mut written = vec![0; text.len()];
                    assert_eq!(file.read_at(end - text.len() as u64, &mut written).unwrap(), text.len());
                    assert_eq!(written, text.as_bytes());
                }
                file.close().unwrap();
            });
        }
    });
    let file = running.client().open_read("log").unwrap();
    let mut bytes = vec![0; file.length().unwrap() as usize];
    file.read_exact_at(0, &mut bytes).unwrap();
    let text = String::from_utf8(bytes).unwrap();
    let mut next = [0; CLIENTS as usize];
    for line in text.lines() {
        let mut words = line.split(' ').map(|word| word.parse::<u32>().unwrap_or(0));
        let (client, number) = (words.next().unwrap(), words.next().unwrap());
        assert_eq!(format!("{line}\n"), record(client, number));
        assert_eq!(next[client as usize], number);
        next[client as usize] += 1;
    }
    assert_eq!(next, [TIMES; CLIENTS as usize]);
    // A file that was cut ends where it was cut to.
    let (one, other) = (running.client(), running.client());
    let file = other.open_write("log", OpenWrite::Existing, WriterId(1)).unwrap();
    one.truncate("log", 10).unwrap();
    assert_eq!(file.append(&[IoSlice::new(b"abc")]).unwrap(), 13);
    drop(one.open_write("log", OpenWrite::Replace, WriterId(0)).unwrap());
    assert_eq!(file.append(&[IoSlice::new(b"abc")]).unwrap(), 3);
}

#[test]
fn a_client_that_lives_on_uses_servers_that_are_started_again() {
    let mut running = Running::new(Settings::default());
    let partition = running.client();
    partition.open_write("old", OpenWrite::New, WriterId(0)).unwrap().close().unwrap();
    let begun = partition.open_write("begun", OpenWrite::New, WriterId(0)).unwrap();
    type Call = fn(&Partition);
    let calls: [Call; 6] = [
        |partition| drop(partition.open_read("old").unwrap()),
        |partition| partition.open_write("old", OpenWrite::Any, WriterId(0)).unwrap().close().unwrap(),
        |partition| partition.open_write("new", OpenWrite::New, WriterId(0)).unwrap().close().unwrap(),
        |partition| partition.rename("new", "newer").unwrap(),
        |partition| partition.remove("newer").unwrap(),
        |partition| assert_eq!(partition.list("").unwrap(), ["begun", "old"]),
    ];
    for call in calls {
        // The first call after each restart.
        (0..3).for_each(|n| running.kill(n));
        (0..3).for_each(|n| running.start(n).unwrap());
        call(&partition);
    }
    // What was open then stays lost.
    let lost = begun.write_at(0, &[IoSlice::new(b"x")]).unwrap_err();
    assert_eq!(lost.kind(), ErrorKind::PeerLost);
}

#[test]
fn what_was_synced_or_closed_survives_servers_that_are_killed() {
    let mut running = Running::new(Settings::default());
    let partition = running.client();
    let bytes: Vec<u8> = (0..100_000u32).map(|i| (i % 251) as u8).collect();
    let closed = partition.open_write("closed", OpenWrite::New, WriterId(0)).unwrap();
    closed.write_at(5, &[IoSlice::new(&bytes)]).unwrap();
    closed.close().unwrap();
    let synced = partition.open_write("synced", OpenWrite::New, WriterId(0)).unwrap();
    synced.write_at(0, &[IoSlice::new(&bytes)]).unwrap();
    synced.sync().unwrap();
    (0..3).for_each(|n| running.kill(n));
    (0..3).for_each(|n| running.start(n).unwrap());
    let again = running.client();
    for (name, at) in [("closed", 5), ("synced", 0)] {
        let file = again.open_read(name).unwrap();
        let mut out = vec![0; bytes.len()];
        file.read_exact_at(at, &mut out).unwrap();
        assert_eq!(out, bytes, "{name}");
    }
    // Files that were open stay lost, with the server's name.
    let e = synced.write_at(0, &[IoSlice::new(b"x")]).unwrap_err();
    assert_eq!(e.kind(), ErrorKind::PeerLost);
}

#[test]
fn bytes_of_a_server_that_is_gone_are_an_error_and_no_zeros() {
    let mut running = Running::new(Settings::default());
    let partition = running.client();
    let file = partition.open_write("f", OpenWrite::New, WriterId(0)).unwrap();
    file.write_at(0, &[IoSlice::new(&[7; 50_000])]).unwrap();
    running.kill(1);
    let mut out = vec![0; 4096];
    assert_eq!(file.read_at(0, &mut out).unwrap(), 4096);
    assert_eq!(out, [7; 4096], "stripes of servers that run can be read");
    for at in [4096, 4000, 8191] {
        assert_eq!(file.read_at(at, &mut out).unwrap_err().kind(), ErrorKind::PeerLost, "{at}");
    }
    assert_eq!(file.length().unwrap_err().kind(), ErrorKind::PeerLost);
    assert_eq!(file.sync().unwrap_err().kind(), ErrorKind::PeerLost);
    assert_eq!(partition.stat("f").unwrap_err().kind(), ErrorKind::PeerLost);
    assert_eq!(file.close().unwrap_err().kind(), ErrorKind::PeerLost);
}

#[test]
fn a_storage_that_was_exchanged_or_lost_is_not_served() {
    let mut running = Running::new(Settings::default());
    (0..3).for_each(|n| running.kill(n));
    running.entry.starts = 2;
    running.stores.swap(0, 1);
    let e = running.start(1).unwrap_err();
    assert!(e.kind() == ErrorKind::Config && e.to_string().contains("stripes of server 0"), "{e}");
    let empty = running.folder.path().join("empty");
    std::fs::create_dir(&empty).unwrap();
    running.stores[2] = Arc::new(Posix::at(empty).unwrap());
    let e = running.start(2).unwrap_err();
    assert!(e.kind() == ErrorKind::Config && e.to_string().contains("lost its stamp"), "{e}");
}

#[test]
fn a_storage_that_fails_is_told_at_close_and_its_bytes_stay_until_it_works() {
    let (running, failing) = with_failing_storage(Settings { servers: 2, ..Settings::default() });
    let partition = running.client();
    let file = partition.open_write("f", OpenWrite::New, WriterId(0)).unwrap();
    let other = partition.open_write("f", OpenWrite::Existing, WriterId(1)).unwrap();
    failing[1].fail(Fault::of(StoreCall::Write).with(ErrorKind::NoSpace));
    file.write_at(0, &[IoSlice::new(&[7; 20_000])]).unwrap();
    let e = file.close().unwrap_err();
    assert_eq!(e.kind(), ErrorKind::NoSpace, "{e}");
    failing[1].heal();
    let mut out = [0; 20_000];
    assert_eq!(other.read_at(0, &mut out).unwrap(), out.len());
    assert_eq!(out, [7; 20_000]);
    other.close().unwrap();
    let stored = failing[1].list("").unwrap();
    assert!(stored.len() > 1, "{stored:?}");
}

#[test]
fn bytes_of_a_client_that_ended_which_cannot_be_written_are_in_the_servers_state() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir(folder.path().join("0")).unwrap();
    let failing = Arc::new(Failing::new(Arc::new(Posix::at(folder.path().join("0")).unwrap())));
    let stores = vec![failing.clone() as Arc<dyn Store>];
    let running = Running::over(Settings { servers: 1, ..Settings::default() }, stores, folder);
    let partition = running.client();
    let file = partition.open_write("f", OpenWrite::New, WriterId(0)).unwrap();
    file.write_at(0, &[IoSlice::new(&[7; 20_000])]).unwrap();
    failing.fail(Fault::of(StoreCall::Write).with(ErrorKind::NoSpace));
    drop(file);
    let failures = running.serving[0].as_ref().unwrap().failures();
    assert_eq!(failures.count, 1);
    assert!(failures.last.unwrap().contains("no space"), "the last one is told");
    // The bytes are still there: who opens the file has them, and a close writes them.
    failing.heal();
    let file = partition.open_write("f", OpenWrite::Existing, WriterId(0)).unwrap();
    let mut out = [0; 20_000];
    assert_eq!(file.read_at(0, &mut out).unwrap(), 20_000);
    assert_eq!(out, [7; 20_000]);
    file.close().unwrap();
}

#[test]
fn a_storage_has_one_server_at_a_time() {
    let mut running = Running::new(Settings::default());
    let first = running.serving[1].take();
    // As a server that was started by hand once more, with a socket of its own.
    std::fs::rename(running.socket(1), running.socket(9)).unwrap();
    let e = running.start(1).unwrap_err();
    assert_eq!(e.kind(), ErrorKind::AlreadyExists, "{e}");
    assert!(e.to_string().contains("stripes of server 1 of partition p"), "{e}");
    drop(first);
    running.start(1).unwrap();
}

#[test]
fn a_server_that_cannot_write_everything_says_so_and_does_not_end() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir(folder.path().join("0")).unwrap();
    let failing = Arc::new(Failing::new(Arc::new(Posix::at(folder.path().join("0")).unwrap())));
    let running = Running::over(Settings { servers: 1, ..Settings::default() }, vec![failing.clone()], folder);
    let partition = running.client();
    let file = partition.open_write("f", OpenWrite::New, WriterId(0)).unwrap();
    file.write_at(0, &[IoSlice::new(&[7; 20_000])]).unwrap();
    let control = Remote::over(Arc::new(Socket::at(&running.socket(0))), CONTROL).unwrap();
    let ends = || running.serving[0].as_ref().unwrap().wait(std::time::Duration::ZERO);
    failing.fail(Fault::of(StoreCall::Write).with(ErrorKind::NoSpace));
    assert_eq!(control.remove("running").unwrap_err().kind(), ErrorKind::NoSpace);
    assert!(!ends());
    failing.heal();
    control.remove("running").unwrap();
    assert!(ends());
}

/// What a program does to a file until something fails, or so many syncs and closes have succeeded: the bytes that were acknowledged,
/// and whether all succeeded.
fn work(partition: &Partition, most: usize) -> (Vec<u8>, bool) {
    let bytes = |length: usize, of: u8| -> Vec<u8> { (0..length).map(|i| (i % 241) as u8 ^ of).collect() };
    let mut acknowledged = Vec::new();
    let mut steps = || -> Result<()> {
        let file = partition.open_write("f", OpenWrite::New, WriterId(0))?;
        file.write_at(0, &[IoSlice::new(&bytes(20_000, 0))])?;
        file.close()?;
        acknowledged = bytes(20_000, 0);
        if most == 1 {
            return Ok(());
        }
        let file = partition.open_write("f", OpenWrite::Existing, WriterId(0))?;
        file.write_at(15_000, &[IoSlice::new(&bytes(9_000, 0x55))])?;
        file.sync()?;
        acknowledged.truncate(15_000);
        acknowledged.extend(bytes(9_000, 0x55));
        if most == 2 {
            return Ok(());
        }
        file.truncate(17_000)?;
        file.sync()?;
        acknowledged.truncate(17_000);
        if most == 3 {
            return Ok(());
        }
        file.punch(100, 200)?;
        file.close()?;
        acknowledged[100..300].fill(0);
        partition.rename("f", "g")?;
        partition.rename("g", "f")
    };
    let all = steps().is_ok();
    (acknowledged, all)
}

/// A partition of two servers whose storages fail when told to.
fn with_failing_storage(settings: Settings) -> (Running, Vec<Arc<Failing>>) {
    let folder = tempfile::tempdir().unwrap();
    let failing: Vec<Arc<Failing>> = (0..2)
        .map(|n| {
            let folder = folder.path().join(format!("{n}"));
            std::fs::create_dir(&folder).unwrap();
            Arc::new(Failing::new(Arc::new(Posix::at(folder).unwrap())))
        })
        .collect();
    let stores = failing.iter().map(|store| store.clone() as Arc<dyn Store>).collect();
    (Running::over(Settings { servers: 2, ..settings }, stores, folder), failing)
}

#[test]
fn an_error_of_a_servers_storage_names_the_programs_file_and_the_server() {
    let (running, failing) = with_failing_storage(Settings { stripe: 1000, ..Settings::default() });
    let partition = running.client();
    partition.make_folder("run").unwrap();
    let file = partition.open_write("run/x", OpenWrite::New, WriterId(0)).unwrap();
    file.write_at(0, &[IoSlice::new(&[1; 5000])]).unwrap();
    failing[1].fail(Fault::of(StoreCall::Sync));
    let error = file.sync().unwrap_err();
    assert_eq!(error.place().object.as_deref(), Some("run/x"));
    assert!(error.to_string().contains("server 1 of the partition reports an error in run/x: "), "{error}");
}

#[test]
fn whichever_call_of_a_storage_fails_nothing_acknowledged_is_lost() {
    let mut tried = 0;
    for (server, most) in (0..2).flat_map(|server| (1..5).map(move |most| (server, most))) {
        for call in 0.. {
            // A cache so small that blocks are written back at any time.
            let settings = Settings { stripe: 1000, cache: 0, ..Settings::default() };
            let (mut running, failing) = with_failing_storage(settings);
            failing[server].fail(Fault::any().skipping(call).times(1));
            let (acknowledged, all) = work(&running.client(), most);
            if failing[server].failed().0 == 0 {
                assert!(all, "without a failure all succeeds");
                break;
            }
            tried += 1;
            failing[server].heal();
            (0..2).for_each(|n| running.kill(n));
            (0..2).for_each(|n| running.start(n).unwrap());
            let again = running.client();
            let mut found = Vec::new();
            if let Ok(file) = again.open_read("f").or_else(|_| again.open_read("g")) {
                found.resize(file.length().unwrap() as usize, 0);
                file.read_exact_at(0, &mut found).unwrap();
            }
            // What was done after the last acknowledgement may be there or not: bytes of 15,000 on, those of the hole, the length.
            let sure = acknowledged.len().min(15_000);
            assert!(
                found.len() >= sure,
                "server {server}, call {call}, {most} acknowledged: {} bytes of {sure}",
                found.len()
            );
            for (at, byte) in acknowledged[..sure].iter().enumerate() {
                let hole = (100..300).contains(&at) && found[at] == 0;
                assert!(found[at] == *byte || hole, "server {server}, call {call}, {most} acknowledged: byte {at}");
            }
        }
    }
    assert!(tried > 80, "{tried} failures were tried");
}

#[test]
fn an_append_that_fails_at_one_server_is_an_error_and_leaves_only_zeros_or_its_bytes() {
    for server in 0..2 {
        let settings = Settings { stripe: 1000, cache: 0, ..Settings::default() };
        let (running, failing) = with_failing_storage(settings);
        let (one, other) = (running.client(), running.client());
        let open = |partition: &Partition| partition.open_write("f", OpenWrite::Any, WriterId(0)).unwrap();
        let (first, second) = (open(&one), open(&other));
        assert_eq!(first.append(&[IoSlice::new(&[1; 5000])]).unwrap(), 5000);
        first.sync().unwrap();
        // More than the cache holds: blocks are written back during the append.
        failing[server].fail(Fault::of(StoreCall::Write).with(ErrorKind::Io));
        let long = vec![2; 2_000_000];
        let failed = first.append(&[IoSlice::new(&long)]).unwrap_err();
        assert_eq!((failed.kind(), failed.place().object.as_deref()), (ErrorKind::Io, Some("f")));
        assert!(failed.to_string().contains(&format!("server {server} of the partition")), "{failed}");
        failing[server].heal();
        let end = second.append(&[IoSlice::new(&[3; 7000])]).unwrap();
        assert_eq!(end, 5000 + 2_000_000 + 7000, "its place was claimed");
        let again = first.append(&[IoSlice::new(&[4; 100])]).unwrap();
        assert_eq!(again, end + 100);
        first.close().unwrap();
        second.close().unwrap();
        let mut all = vec![9; again as usize];
        running.client().open_read("f").unwrap().read_exact_at(0, &mut all).unwrap();
        assert!(all[..5000].iter().all(|byte| *byte == 1));
        assert!(all[5000..2_005_000].iter().all(|byte| *byte == 0 || *byte == 2));
        assert!(all[2_005_000..2_012_000].iter().all(|byte| *byte == 3));
        assert!(all[2_012_000..].iter().all(|byte| *byte == 4));
    }
}

#[test]
fn files_move_to_a_partition_with_other_stripes_and_servers_with_all_that_belongs_to_them() {
    use std::time::{Duration, UNIX_EPOCH};
    use thalweg_layout::{Change, SetXattr};
    let (old, new) = (
        Running::new(Settings { servers: 3, stripe: 700, ..Settings::default() }),
        Running::new(Settings { servers: 2, stripe: 5000, ..Settings::default() }),
    );
    let (from, to) = (old.client(), new.client());
    from.make_folder("a/b").unwrap();
    let bytes: Vec<u8> = (0..50_000u32).map(|i| (i % 251) as u8).collect();
    for (name, length) in [("a/b/f", 50_000), ("empty", 0), ("a/g", 1)] {
        let file = from.open_write(name, OpenWrite::New, WriterId(0)).unwrap();
        file.write_at(0, &[IoSlice::new(&bytes[..length])]).unwrap();
        file.close().unwrap();
    }
    // Ends in a hole.
    from.truncate("a/g", 9999).unwrap();
    from.make_link("b/f", "a/link").unwrap();
    from.make_hard_link("a/b/f", "same").unwrap();
    from.xattr_set("a/g", "user.note", b"note", SetXattr::Any).unwrap();
    let time = UNIX_EPOCH + Duration::from_secs(1_000_000_000);
    for name in ["a/g", "a/b", "a"] {
        from.set_attributes(name, &Change { mode: Some(0o750), mtime: Some(time), ..Change::default() }).unwrap();
    }
    // The second one finds what the first one made.
    for _ in 0..2 {
        let moved = thalweg_partition::moving::copy_all(&from, &to).unwrap();
        assert_eq!((moved.files, moved.folders, moved.bytes), (3, 2, 50_000 + 9999));
    }
    assert_eq!(to.list("").unwrap(), ["a", "empty", "same"]);
    for name in ["a/b/f", "same", "a/link"] {
        let file = to.open_read(name).unwrap();
        let mut out = vec![0; file.length().unwrap() as usize];
        file.read_exact_at(0, &mut out).unwrap();
        assert_eq!(out, bytes, "{name}");
    }
    assert_eq!(to.read_link("a/link").unwrap(), "b/f");
    assert_eq!(to.attributes("same").unwrap().identity, to.attributes("a/b/f").unwrap().identity);
    assert_eq!((to.stat("a/g").unwrap().length, to.stat("empty").unwrap().length), (9999, 0));
    assert_eq!(to.xattr_get("a/g", "user.note").unwrap().unwrap(), b"note");
    for name in ["a/g", "a/b", "a"] {
        let about = to.attributes(name).unwrap();
        assert_eq!((about.mode, about.mtime), (0o750, time), "{name}");
    }
}

/// Counts what a client sends.
struct Counted(Socket, Arc<AtomicU64>);

struct CountedConnection(Box<dyn Connection>, Arc<AtomicU64>);

impl Transport for Counted {
    fn connect(&self) -> Result<Box<dyn Connection>> {
        Ok(Box::new(CountedConnection(self.0.connect()?, self.1.clone())))
    }

    fn describe(&self) -> String {
        self.0.describe()
    }
}

impl Connection for CountedConnection {
    fn send(&self, pieces: &mut [IoSlice<'_>]) -> Result<()> {
        self.1.fetch_add(pieces.iter().map(|piece| piece.len() as u64).sum(), Ordering::Relaxed);
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

#[test]
fn a_view_is_sent_once_and_bytes_cross_once_without_lists_of_offsets() {
    let running = Running::new(Settings { servers: 2, stripe: 1024, ..Settings::default() });
    let sent = Arc::new(AtomicU64::new(0));
    let transports: Vec<Arc<dyn Transport>> =
        (0..2).map(|n| Arc::new(Counted(Socket::at(&running.socket(n)), sent.clone())) as Arc<dyn Transport>).collect();
    let partition = Partition::over("p".into(), transports[0].clone(), transports, 1 << 20, false).unwrap();
    let file = partition.open_write("f", OpenWrite::New, WriterId(0)).unwrap();
    // 1,000 blocks of two bytes.
    let view = vector(0, 1000, 2, 10);
    let bytes: Vec<u8> = (0..2000u32).map(|i| (i % 251) as u8).collect();
    let mut of_call = Vec::new();
    for instance in 0..3 {
        let before = sent.load(Ordering::Relaxed);
        file.write_view(&view, instance * 2000, &bytes).unwrap();
        of_call.push(sent.load(Ordering::Relaxed) - before);
    }
    assert!(of_call[0] > of_call[1], "the first call sends the view: {of_call:?}");
    // Ten stripes: some twenty bytes for each, where a list of offsets has sixteen for each of 1,000 blocks.
    assert!(of_call[1] == of_call[2] && of_call[1] < 2000 + 250, "{of_call:?}");
    let mut out = vec![0; 6000];
    assert_eq!(file.read_view(&view, 0, &mut out).unwrap(), 6000);
    assert_eq!(out, [&bytes[..], &bytes[..], &bytes[..]].concat());
    let counts: Vec<_> = (0..2).map(|n| running.serving[n].as_ref().unwrap().counts().unwrap()).collect();
    assert!(counts.iter().all(|c| c.hits > 0 && c.misses == 1), "blocks stay from one call to the next: {counts:?}");
}

#[test]
fn the_papers_view_is_scattered_into_both_servers() {
    let running = Running::new(Settings { servers: 2, stripe: 8, ..Settings::default() });
    let partition = running.client();
    let file = partition.open_write("f", OpenWrite::New, WriterId(0)).unwrap();
    let view = vector(0, 4, 1, 4);
    file.write_view(&view, 0, b"abcdefgh").unwrap();
    let mut out = [0xee; 29];
    assert_eq!(file.read_at(0, &mut out).unwrap(), 26);
    assert_eq!(out[..26], b"a\0\0\0b\0\0\0c\0\0\0de\0\0\0f\0\0\0g\0\0\0h"[..]);
}
