//! Runs the communicator suite inside MPI ranks: `mpirun -n 3 conformance LIBRARY [single|multiple]`.
//!
//! LIBRARY is `mpi/shim.c` and `tests/mpi/application.c` compiled by the compiler of that MPI; it is loaded at run
//! time, so that one build of this program serves every MPI. `tests/mpi/comm.sh` does all of that.
#![allow(unsafe_code)]

use std::ffi::{c_int, c_void};
use std::process::ExitCode;
use std::time::Duration;
use thalweg_comm::{Communicator, ThreadLevel};
use thalweg_comm_mpi::{MpiCommunicator, ThalwegMpiTable};
use thalweg_conformance::comm::outcomes;
use thalweg_types::ErrorKind;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [library, level] = &arguments[..] else {
        eprintln!("usage: conformance LIBRARY single|multiple");
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
    let (table, start, null, end) = unsafe {
        (
            library.get::<unsafe extern "C" fn() -> *const ThalwegMpiTable>(b"thalweg_mpi_table").unwrap(),
            library.get::<unsafe extern "C" fn(c_int) -> *mut c_void>(b"application_start").unwrap(),
            library.get::<unsafe extern "C" fn() -> *mut c_void>(b"application_null").unwrap(),
            library.get::<unsafe extern "C" fn()>(b"application_end").unwrap(),
        )
    };
    // SAFETY: no pre-conditions; MPI is started once, by the main thread.
    let (table, early, handle) = unsafe { (table(), null(), start(c_int::from(threads))) };
    assert!(early.is_null(), "nothing can be wrapped before MPI runs");
    // SAFETY: table and handle come from the library above, which stays.
    let comm = unsafe { MpiCommunicator::from_raw(table, handle) }.expect("a communicator");
    let first = comm.rank() == 0;

    let mut results = outcomes(&comm, |_| ());
    let more: [(&'static str, fn(&MpiCommunicator, bool)); 3] = [
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
            let twin = comm.duplicate().unwrap();
            let next = (comm.rank() + 1) % comm.size();
            let receive = comm.start_receive(None, 1).unwrap();
            // Too long to be sent before someone receives it.
            comm.send(next, 1, &vec![5; 10 << 20]).unwrap();
            twin.barrier().unwrap();
            assert_eq!(receive.wait().unwrap().unwrap().bytes.len(), 10 << 20);
        }),
    ];
    for (name, body) in more {
        let passed = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| body(&comm, threads))).is_ok();
        let failed = comm.all_reduce(&[u64::from(!passed)], thalweg_comm::Reduce::Max).expect("agreement");
        results.push((name, failed[0] == 0));
    }

    // After MPI has ended, everything is refused and nothing crashes, whatever was left under way.
    let name = "after_finalize_calls_are_refused_and_drops_are_harmless";
    let (twin, window) = (comm.duplicate().unwrap(), comm.shared_window(64).unwrap());
    let receive = comm.start_receive(None, 3).unwrap();
    let dropped = comm.start_receive(None, 3).unwrap();
    comm.barrier().unwrap();
    // SAFETY: every rank is here; ends MPI once.
    unsafe { end() };
    let waited = receive.wait().err().map(|e| e.kind());
    drop(dropped);
    let refused = |kind: Option<ErrorKind>| kind == Some(ErrorKind::InvalidArgument);
    let passed = refused(comm.barrier().err().map(|e| e.kind()))
        && refused(comm.send(0, 0, b"late").err().map(|e| e.kind()))
        && refused(twin.duplicate().err().map(|e| e.kind()))
        && refused(window.put(0, 0, b"late").err().map(|e| e.kind()))
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
