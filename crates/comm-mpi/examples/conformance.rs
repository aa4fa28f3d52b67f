//! Runs the communicator suite inside MPI ranks: `mpirun -n 3 conformance LIBRARY MODE`.
//!
//! LIBRARY is `mpi/shim.c` and `tests/mpi/application.c` compiled by the compiler of that MPI; it is loaded at run
//! time, so that one build of this program serves every MPI. `tests/mpi/comm.sh` does all of that.
//!
//! | mode | what is run |
//! |------|-------------|
//! | `single` | the suite, MPI initialised for one thread |
//! | `multiple` | the suite, MPI initialised for any thread |
//! | `huge` | and messages of 2.5 GiB between two ranks, which takes 16 GiB of memory |
//! | `lost` | instead, the last rank is killed; needs a launcher that lets the others live |
#![allow(unsafe_code)]

use std::ffi::{c_int, c_void};
use std::process::ExitCode;
use std::time::Duration;
use thalweg_comm::{Communicator, ThreadLevel, in_calls};
use thalweg_comm_mpi::{MpiCommunicator, ThalwegMpiTable};
use thalweg_conformance::comm::outcomes;
use thalweg_types::ErrorKind;

/// A case of our own: the communicator, and whether MPI was initialised for any thread.
type Body = fn(&MpiCommunicator, bool);

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [library, level] = &arguments[..] else {
        eprintln!("usage: conformance LIBRARY single|multiple|huge|lost");
        return ExitCode::from(2);
    };
    let threads = level == "multiple";
    // Open MPI loads components that look for its symbols in what is already global.
    let flags = libloading::os::unix::RTLD_NOW | libloading::os::unix::RTLD_GLOBAL;
    // SAFETY: the library is the one named on the command line; its initialisers are MPI's.
    let library = unsafe { libloading::os::unix::Library::open(Some(library), flags) }.expect("the MPI library loads");
    // Never unloaded, as from_raw asks.
    let library: &'static _ = Box::leak(Box::new(library));
    // SAFETY: the signatures are those of thalweg_mpi.h and application.c.
    let (table, start, null, again, free, end) = unsafe {
        (
            library.get::<unsafe extern "C" fn() -> *const ThalwegMpiTable>(b"thalweg_mpi_table").unwrap(),
            library.get::<unsafe extern "C" fn(c_int) -> *mut c_void>(b"application_start").unwrap(),
            library.get::<unsafe extern "C" fn() -> *mut c_void>(b"application_null").unwrap(),
            library.get::<unsafe extern "C" fn() -> *mut c_void>(b"application_again").unwrap(),
            library.get::<unsafe extern "C" fn()>(b"application_free").unwrap(),
            library.get::<unsafe extern "C" fn()>(b"application_end").unwrap(),
        )
    };
    // SAFETY: no pre-conditions; MPI is started once, by the main thread.
    let (table, early, handle) = unsafe { (table(), null(), start(c_int::from(threads))) };
    assert!(early.is_null(), "nothing can be wrapped before MPI runs");
    // SAFETY: table and handle come from the library above, which stays.
    let comm = unsafe { MpiCommunicator::from_raw(table, handle) }.expect("a communicator");
    // SAFETY: as above, until the program's communicator is freed.
    let once_more = || unsafe { MpiCommunicator::from_raw(table, again()) }.expect("a communicator");
    duplicates_serve_again(&comm, once_more);
    // SAFETY: nobody asks for one of it any more.
    unsafe { free() };
    // SAFETY: null pointers are allowed.
    let nulls = unsafe {
        [(table, std::ptr::null_mut()), (std::ptr::null(), std::ptr::null_mut())]
            .map(|(t, h)| kind(MpiCommunicator::from_raw(t, h)))
    };
    assert_eq!(nulls, [Some(ErrorKind::InvalidArgument); 2], "null pointers are refused");
    let first = comm.rank() == 0;
    if level == "lost" {
        return lost(comm);
    }

    let mut results = outcomes(&comm, |_| ());
    let more: [(&'static str, Body); 3] = [
        ("the_thread_level_is_the_programs", |comm, threads| {
            let expected = if threads { ThreadLevel::Multiple } else { ThreadLevel::Single };
            assert_eq!(comm.thread_level(), expected);
        }),
        ("a_thread_that_may_not_call_is_refused", |comm, threads| {
            let twin = comm.duplicate().unwrap();
            let got = std::thread::spawn(move || twin.probe(None, 0).map_err(|e| e.kind())).join().unwrap();
            assert_eq!(got, if threads { Ok(None) } else { Err(ErrorKind::InvalidArgument) });
        }),
        ("a_started_receive_comes_in_while_another_communicator_waits", |comm, _| {
            let (mut own, mut twin) = (comm.duplicate().unwrap(), comm.duplicate().unwrap());
            own.set_timeout(Duration::from_secs(300));
            twin.set_timeout(Duration::from_secs(300));
            let receive = own.start_receive(None, 1).unwrap();
            // Too long to be sent before someone receives it.
            own.send((own.rank() + 1) % own.size(), 1, &vec![5; 10 << 20]).unwrap();
            twin.barrier().unwrap();
            assert_eq!(receive.wait().unwrap().unwrap().bytes.len(), 10 << 20);
        }),
    ];
    for (name, body) in more {
        let passed = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| body(&comm, threads))).is_ok();
        let failed = comm.all_reduce(&[u64::from(!passed)], thalweg_comm::Reduce::Max).expect("agreement");
        results.push((name, failed[0] == 0));
    }

    if !threads {
        let passed = suite_in_calls(&comm);
        let failed = comm.all_reduce(&[u64::from(!passed)], thalweg_comm::Reduce::Max).expect("agreement");
        results.push(("another_thread_keeps_every_promise_through_the_calls_of_this_one", failed[0] == 0));
    }

    if level == "huge" {
        results.push(("messages_beyond_2_gib_arrive_whole", huge(&comm)));
    }

    // After MPI has ended, everything is refused and nothing crashes, whatever was left under way.
    let name = "after_finalize_calls_are_refused_and_drops_are_harmless";
    let (twin, window) = (comm.duplicate().unwrap(), comm.shared_window(64).unwrap());
    let receive = comm.start_receive(None, 3).unwrap();
    let dropped = comm.start_receive(None, 3).unwrap();
    comm.barrier().unwrap();
    // SAFETY: every rank is here; ends MPI once.
    unsafe { end() };
    let waited = kind(receive.wait());
    drop(dropped);
    let refused = |kind| kind == Some(ErrorKind::InvalidArgument);
    let passed = refused(kind(comm.barrier()))
        && refused(kind(comm.send(0, 0, b"late")))
        && refused(kind(twin.duplicate()))
        && refused(kind(window.put(0, 0, b"late")))
        && refused(waited);
    drop((twin, window, comm));
    // SAFETY: asks whether MPI runs, before anything else.
    let late = unsafe { null() };
    results.push((name, passed && late.is_null()));

    let failed: Vec<_> = results.iter().filter(|(_, passed)| !passed).map(|(name, _)| *name).collect();
    if first {
        for name in &failed {
            println!("FAILED {name}");
        }
        println!("{} passed, {} failed", results.len() - failed.len(), failed.len());
    }
    // Leaves time for the words of others to come before the launcher ends them.
    if failed.is_empty() {
        ExitCode::SUCCESS
    } else {
        std::thread::sleep(Duration::from_millis(200));
        ExitCode::FAILURE
    }
}

/// The suite on a thread that may not call MPI: its messages move inside the calls of this one.
fn suite_in_calls(comm: &MpiCommunicator) -> bool {
    let other = in_calls::for_threads(comm.duplicate().unwrap());
    let suite = std::thread::spawn(move || {
        in_calls::in_background();
        outcomes(&*other, |_| ())
    });
    while !suite.is_finished() {
        if !in_calls::move_messages() {
            std::thread::sleep(Duration::from_micros(20));
        }
    }
    let results = suite.join().expect("the suite ends");
    for (name, passed) in &results {
        if !passed && comm.rank() == 0 {
            println!("FAILED {name}, on another thread");
        }
    }
    comm.barrier().unwrap();
    results.iter().all(|(_, passed)| *passed)
}

/// Sends, broadcasts and gathers more bytes than an `int` counts, from rank 0 to rank 1.
fn huge(comm: &MpiCommunicator) -> bool {
    const BYTES: usize = (5 << 29) + 7;
    let (me, last) = (comm.rank(), comm.size() - 1);
    assert!(last > 0, "huge needs two ranks");
    let make = || (0..BYTES).map(|i| (i / 4096 + i) as u8).collect::<Vec<u8>>();
    let whole =
        |bytes: &[u8]| bytes.len() == BYTES && bytes.iter().enumerate().all(|(i, b)| *b == (i / 4096 + i) as u8);
    let mut bytes = if me == 0 { make() } else { Vec::new() };
    comm.broadcast(0, &mut bytes).unwrap();
    let mut passed = whole(&bytes);
    if me == 0 {
        comm.start_send(last, 0, bytes).unwrap().wait().unwrap();
        bytes = make();
    } else if me == last {
        drop(bytes);
        passed &= whole(&comm.receive(Some(0), 0).unwrap().bytes);
        bytes = Vec::new();
    }
    if let Some(all) = comm.gather(last, if me == 0 { &bytes } else { b"small" }).unwrap() {
        passed &= whole(&all[0]) && all[last as usize] == b"small";
    }
    comm.all_reduce(&[u64::from(passed)], thalweg_comm::Reduce::Min).unwrap() == [1]
}

fn kind<T>(result: thalweg_types::Result<T>) -> Option<ErrorKind> {
    result.err().map(|error| error.kind())
}

/// The last rank is killed; every call of the others that needs it ends, in time, with an error that says so.
fn lost(mut comm: MpiCommunicator) -> ExitCode {
    comm.barrier().unwrap();
    comm.set_timeout(Duration::from_secs(1));
    let last = comm.size() - 1;
    if comm.rank() == last {
        let _ = std::process::Command::new("kill").args(["-9", &std::process::id().to_string()]).status();
        loop {
            std::thread::park();
        }
    }
    std::thread::sleep(Duration::from_millis(300));
    let started = std::time::Instant::now();
    let kinds = [
        kind(comm.receive(Some(last), 0)),
        kind(comm.send(last, 0, &vec![0; 10 << 20])),
        kind(comm.barrier()),
        kind(comm.duplicate()),
    ];
    let noticed = |kind: &Option<ErrorKind>| matches!(kind, Some(ErrorKind::Timeout | ErrorKind::PeerLost));
    let passed = kinds.iter().all(noticed) && started.elapsed() < Duration::from_secs(300);
    if comm.rank() == 0 {
        println!("{} passed, {} failed", u8::from(passed), u8::from(!passed));
    }
    // MPI cannot be finalized without the lost rank.
    std::process::exit(i32::from(!passed))
}

/// Duplicates of one communicator of the program, kept and not: messages of several at a time never mix, and where ranks do
/// not keep the same ones they take a new one.
fn duplicates_serve_again(comm: &MpiCommunicator, once_more: impl Fn() -> MpiCommunicator) {
    let (rank, size) = (comm.rank(), comm.size());
    let works = |comms: &[&MpiCommunicator]| {
        for (i, comm) in comms.iter().enumerate() {
            comm.send((rank + 1) % size, 1, &[i as u8]).unwrap();
        }
        for (i, comm) in comms.iter().enumerate().rev() {
            assert_eq!(comm.receive(Some((rank + size - 1) % size), 1).unwrap().bytes, [i as u8]);
            assert_eq!(comm.all_reduce(&[u64::from(rank)], thalweg_comm::Reduce::Max).unwrap(), [u64::from(size - 1)]);
        }
    };
    for round in 0..6 {
        let (first, second) = (once_more(), once_more());
        works(&[comm, &first, &second]);
        // Kept on all ranks, on some, by turns, in another order.
        if round % 2 == 0 || rank > 0 {
            first.set_idle();
        }
        if round != 3 || rank == 0 {
            second.set_idle();
        }
        if rank % 2 == round % 2 {
            drop(first);
        }
        let third = once_more();
        works(&[&second, &third]);
    }
}
