//! Whatever goes wrong, each window ends on every rank, with the same kind of error, in bounded time.

use crate::common::{content, direct, open, small, value};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use thalweg_comm::threads::Machine;
use thalweg_comm::{Communicator, ThreadLevel, in_calls, threads};
use thalweg_layout::{Layout, OpenWrite};
use thalweg_owners::{Commit, Completed, File, OpenFile, Options};
use thalweg_store::wrap::{Failing, Fault, StoreCall};
use thalweg_store::{Memory, Store, StoreExt};
use thalweg_types::{Error, ErrorKind, Extent, Result};

const LENGTH: u64 = 40_000;
const MEMORY: u64 = 1 << 20;

fn brief(time_limit: u64) -> Options {
    Options { time_limit: Some(Duration::from_millis(time_limit)), ..small(3) }
}

/// Each rank writes its quarter, as `write` says.
fn outcomes(
    store: Arc<dyn Store>,
    write: impl Fn(&mut File, thalweg_owners::WindowId, u32) + Sync,
) -> Vec<Result<Completed>> {
    let layout = direct(store);
    threads::run(4, |comm| {
        let mut file = open(&comm, &layout, MEMORY);
        let window = file.start(0, LENGTH, &small(3)).unwrap();
        write(&mut file, window, comm.rank());
        file.end(window).unwrap();
        let outcome = file.wait(window);
        // The file can be used after a window failed.
        let next = file.start(LENGTH, 4, &small(3)).unwrap();
        file.write(next, LENGTH + u64::from(comm.rank()), b"x").unwrap();
        file.end(next).unwrap();
        let after = file.wait(next);
        assert!(after.is_ok() || outcome.as_ref().is_err_and(|e| e.kind() == ErrorKind::NoSpace), "{after:?}");
        file.close().unwrap();
        outcome
    })
}

fn quarter(file: &mut File, window: thalweg_owners::WindowId, rank: u32) {
    let start = u64::from(rank) * LENGTH / 4;
    file.write(window, start, &content(start, LENGTH / 4)).unwrap();
}

fn same_on_all(outcomes: Vec<Result<Completed>>, kind: ErrorKind, text: &str, byte: Option<u64>) -> Vec<Error> {
    let errors: Vec<Error> =
        outcomes.into_iter().map(|outcome| outcome.expect_err("a failure on every rank")).collect();
    for (rank, e) in errors.iter().enumerate() {
        assert_eq!((e.kind(), e.place().byte, e.place().rank), (kind, byte, Some(rank as u32)), "{e}");
        assert!(e.to_string().contains(text) && e.place().object.is_some() && e.still_safe().is_some(), "{e}");
    }
    errors
}

#[test]
fn missing_bytes_are_named_and_the_others_are_written() {
    let store = Arc::new(Memory::new());
    let outcomes = outcomes(store.clone(), |file, window, rank| {
        let start = u64::from(rank) * LENGTH / 4;
        let short = if rank == 2 { 123 } else { 0 };
        file.write(window, start + short, &content(start + short, LENGTH / 4 - short)).unwrap();
    });
    same_on_all(
        outcomes,
        ErrorKind::InvalidArgument,
        "123 bytes of the window were written by no rank",
        Some(LENGTH / 2),
    );
    let bytes = store.read_all("out").unwrap();
    for at in (0..LENGTH).filter(|at| !(LENGTH / 2..LENGTH / 2 + 123).contains(at)) {
        assert_eq!(bytes[at as usize], value(at), "byte {at}");
    }
}

#[test]
fn bytes_that_two_ranks_write_are_named_and_all_are_written() {
    let store = Arc::new(Memory::new());
    let outcomes = outcomes(store.clone(), |file, window, rank| {
        quarter(file, window, rank);
        if rank == 3 {
            file.write(window, 7000, &content(7000, 500)).unwrap();
        }
    });
    same_on_all(
        outcomes,
        ErrorKind::InvalidArgument,
        "500 bytes of the window were written more than once",
        Some(7000),
    );
    assert_eq!(store.read_all("out").unwrap()[..LENGTH as usize], content(0, LENGTH));
}

#[test]
fn a_window_nobody_writes_is_missing_as_a_whole() {
    let outcomes = outcomes(Arc::new(Memory::new()), |_, _, _| {});
    same_on_all(outcomes, ErrorKind::InvalidArgument, "40000 bytes of the window were written by no rank", Some(0));
}

#[test]
fn a_full_disk_reaches_every_rank_with_its_byte() {
    let failing = Arc::new(Failing::new(Arc::new(Memory::new())));
    failing.space(Some(0));
    let outcomes = outcomes(failing, quarter);
    let errors: Vec<Error> = outcomes.into_iter().map(|outcome| outcome.unwrap_err()).collect();
    for e in &errors {
        // Owners keep their own failures.
        let byte = e.reported_by().map_or(e.place().byte, |_| errors[0].place().byte);
        assert_eq!((e.kind(), e.place().byte), (ErrorKind::NoSpace, byte), "{e}");
        assert!(byte.is_some(), "{e}");
        assert!(e.to_string().contains("the store is full"), "{e}");
    }
}

#[test]
fn one_write_that_fails_fails_its_window_and_no_other() {
    let failing = Arc::new(Failing::new(Arc::new(Memory::new())));
    failing.fail(Fault::of(StoreCall::Write).skipping(5).times(1));
    let outcomes = outcomes(failing.clone(), quarter);
    assert_eq!(failing.failed().0, 1);
    for outcome in outcomes {
        assert_eq!(outcome.unwrap_err().kind(), ErrorKind::Io);
    }
}

#[test]
fn a_panic_in_the_store_is_an_error_of_the_window() {
    let failing = Arc::new(Failing::new(Arc::new(Memory::new())));
    failing.fail(Fault::of(StoreCall::Write).skipping(3).times(1).panics());
    for outcome in outcomes(failing, quarter) {
        let e = outcome.unwrap_err();
        assert!(e.kind() == ErrorKind::Io && e.to_string().contains("panicked"), "{e}");
    }
}

/// Every call of the store fails once, in every order that occurs: each run ends on all ranks, and all agree.
#[test]
fn whichever_call_of_the_store_fails_all_ranks_agree() {
    let mut number = 0;
    loop {
        let failing = Arc::new(Failing::new(Arc::new(Memory::new())));
        failing.fail(Fault::any().skipping(number).times(1));
        let layout = direct(failing.clone());
        let options = Options { durable: true, ..small(2) };
        let kinds = threads::run(3, |comm| -> Result<()> {
            let request = OpenFile { memory: 64 << 10, ..OpenFile::new(&comm, &layout, "out", OpenWrite::Replace) };
            let mut file = File::open(&request)?;
            let window = file.start_with_commit(0, 9000, &options, Some(Commit { offset: 9000, bytes: vec![1] }))?;
            let start = 3000 * u64::from(comm.rank());
            file.write(window, start, &content(start, 3000))?;
            file.end(window)?;
            let outcome = file.wait(window);
            let closed = file.close();
            outcome.and(closed)
        });
        let failed: Vec<bool> = kinds.iter().map(|outcome| outcome.is_err()).collect();
        let met = failing.failed().0 > 0;
        assert_eq!(failed, [met; 3], "call {number}: {kinds:?}");
        if !met {
            break;
        }
        number += 1;
    }
    assert!(number > 20, "{number} calls");
}

#[test]
fn bytes_that_no_rank_writes_are_no_failure_of_a_window_with_holes() {
    let store = Arc::new(Memory::new());
    let layout = direct(store.clone());
    threads::run(3, |comm| {
        let mut file = open(&comm, &layout, MEMORY);
        let options = Options { holes: true, ..small(2) };
        let window = file.start(0, 9000, &options).unwrap();
        if comm.rank() != 1 {
            let start = 3000 * u64::from(comm.rank());
            file.write(window, start, &content(start, 3000)).unwrap();
        }
        file.end(window).unwrap();
        let ended = file.wait_for_end(window).unwrap();
        assert_eq!(ended.outcome.as_ref().unwrap().bytes, 6000);
        assert!(ended.wrote(Extent::new(0, 9000)));
        file.close().unwrap();
    });
    let bytes = store.read_all("out").unwrap();
    assert!(bytes[..3000] == content(0, 3000) && bytes[6000..] == content(6000, 3000));
}

/// Each owner has a third of the window, and writes whole stripes of its own without a copy.
#[test]
fn an_owner_that_fails_is_known_to_all_ranks_and_so_are_the_bytes_that_are_written() {
    let store: Arc<dyn thalweg_store::Store> = Arc::new(Memory::new());
    for failing in 0..3 {
        threads::run(3, |comm| {
            let own = Arc::new(Failing::new(store.clone()));
            let layout = direct(own.clone());
            let mut file = open(&comm, &layout, MEMORY);
            let options = Options { owner_stripe: None, write_stripe: 500, fraction: 500, alignment: 500, ..small(3) };
            let window = file.start(0, 9000, &options).unwrap();
            if comm.rank() == failing {
                own.fail(Fault::of(StoreCall::Write).skipping(1).times(1).with(ErrorKind::NoSpace));
            }
            let start = 3000 * u64::from(comm.rank());
            for at in (start..start + 3000).step_by(500) {
                file.write_own(window, at, &[std::io::IoSlice::new(&content(at, 500))]).unwrap();
            }
            let elsewhere = file.write_own(window, (start + 3000) % 9000, &[std::io::IoSlice::new(b"a")]).unwrap_err();
            assert_eq!(elsewhere.kind(), ErrorKind::InvalidArgument);
            file.end(window).unwrap();
            let ended = file.wait_for_end(window).unwrap();
            let e = ended.outcome.as_ref().unwrap_err();
            assert_eq!((e.kind(), e.reported_by()), (ErrorKind::NoSpace, (comm.rank() != failing).then_some(failing)));
            for rank in 0..3 {
                let part = Extent::new(3000 * u64::from(rank), 3000);
                assert_eq!(ended.wrote(part), rank != failing, "bytes of owner {rank}, owner {failing} failed");
            }
            assert!(!ended.wrote(Extent::new(0, 9000)) && ended.wrote(Extent::new(0, 0)));
            own.heal();
            file.close().unwrap();
        });
    }
}

/// An owner that hangs while another one fails: bytes that did not reach it in time are not taken for written.
#[test]
fn after_the_time_limit_no_bytes_are_taken_for_written_that_may_not_have_come() {
    let store: Arc<dyn Store> = Arc::new(Memory::new());
    threads::run(3, |comm| {
        let own = Arc::new(Failing::new(store.clone()));
        let layout = direct(own.clone());
        let mut file = open(&comm, &layout, 64 << 10);
        let options = Options { owner_stripe: None, time_limit: Some(Duration::from_millis(300)), ..small(3) };
        let window = file.start(0, 300_000, &options).unwrap();
        if comm.rank() == 1 {
            own.fail(Fault::of(StoreCall::Write).times(1).with(ErrorKind::NoSpace));
        }
        let part = Extent::new(100_000 * u64::from(comm.rank()), 100_000);
        file.write(window, part.offset, &content(part.offset, part.length / 2)).unwrap();
        if comm.rank() == 2 {
            // Neither writes the rest nor ends its part, beyond the limit.
            std::thread::sleep(Duration::from_millis(1500));
        }
        let _ = file.end(window);
        let ended = file.wait_for_end(window).unwrap();
        assert!(ended.outcome.is_err() && !ended.is_complete());
        for rank in 0..3u64 {
            assert!(!ended.wrote(Extent::new(100_000 * rank, 50_000)), "bytes of owner {rank}");
        }
        own.heal();
        file.close().unwrap();
    });
}

/// Below `MPI_THREAD_MULTIPLE` messages move inside the program's calls only.
#[test]
fn ranks_that_compute_for_longer_than_the_time_limit_lose_no_window() {
    let layout = direct(Arc::new(Memory::new()));
    Machine::new(2).thread_level(ThreadLevel::Single).run(|comm| {
        let (other, layout) = (in_calls::for_threads(comm.duplicate().unwrap()), &layout);
        let ended = AtomicBool::new(false);
        let has_ended = &ended;
        std::thread::scope(|scope| {
            let writes = scope.spawn(move || {
                in_calls::in_background();
                let mut file = open(&*other, layout, MEMORY);
                let options = Options { time_limit: Some(Duration::from_millis(200)), ..small(2) };
                let window = file.start(0, 9000, &options).unwrap();
                let start = 4500 * u64::from(other.rank());
                file.write(window, start, &content(start, 4500)).unwrap();
                file.end(window).unwrap();
                has_ended.store(true, Ordering::Release);
                let outcome = file.wait(window);
                file.close().unwrap();
                outcome
            });
            let mut computed = false;
            while !writes.is_finished() {
                if ended.load(Ordering::Acquire) && !computed {
                    computed = true;
                    std::thread::sleep(Duration::from_millis(1500));
                }
                in_calls::move_messages();
                std::thread::sleep(Duration::from_micros(50));
            }
            assert_eq!(writes.join().unwrap().unwrap().bytes, 9000);
        });
        comm.barrier().unwrap();
    });
}

#[test]
fn what_a_close_fails_with_is_a_failure_of_the_window_where_owners_close_the_file() {
    let store: Arc<dyn Store> = Arc::new(Memory::new());
    threads::run(3, |comm| {
        let own = Arc::new(Failing::new(store.clone()));
        let layout = direct(own.clone());
        let mut file = open(&comm, &layout, MEMORY);
        let options = Options { owner_stripe: None, alignment: 500, closes: true, ..small(3) };
        for (number, failing) in (0..).zip([Some(1), None, Some(2), None]) {
            let at = 9000 * number;
            let window = file.start(at, 9000, &options).unwrap();
            if failing == Some(comm.rank()) {
                own.fail(Fault::of(StoreCall::Close).times(1).with(ErrorKind::NoSpace));
            }
            let start = at + 3000 * u64::from(comm.rank());
            file.write(window, start, &content(start, 3000)).unwrap();
            file.end(window).unwrap();
            let ended = file.wait_for_end(window).unwrap();
            assert!(ended.is_complete());
            assert_eq!(ended.outcome.as_ref().err().map(Error::kind), failing.map(|_| ErrorKind::NoSpace));
            for rank in 0..3 {
                let part = Extent::new(at + 3000 * u64::from(rank), 3000);
                assert_eq!(ended.wrote(part), failing != Some(rank), "bytes of owner {rank} of window {number}");
            }
            own.heal();
        }
        file.close().unwrap();
    });
    let bytes = store.read_all("out").unwrap();
    assert!(bytes[9000..18_000] == content(9000, 9000) && bytes[27_000..] == content(27_000, 9000));
}

#[test]
fn bytes_outside_the_window_are_refused_at_once() {
    let layout = direct(Arc::new(Memory::new()));
    threads::run(2, |comm| {
        let mut file = open(&comm, &layout, MEMORY);
        let window = file.start(10, 100, &small(2)).unwrap();
        let e = file.write(window, 109, b"ab").unwrap_err();
        assert_eq!((e.kind(), e.place().byte), (ErrorKind::OutOfBounds, Some(109)));
        assert_eq!(file.wait(window).unwrap_err().kind(), ErrorKind::InvalidArgument, "the part has not ended");
        let rest = if comm.rank() == 0 { 10..70 } else { 70..110 };
        file.write(window, rest.start, &content(rest.start, rest.end - rest.start)).unwrap();
        file.end(window).unwrap();
        assert_eq!(file.write(window, 10, b"a").unwrap_err().kind(), ErrorKind::InvalidArgument);
        assert_eq!(file.end(window).unwrap_err().kind(), ErrorKind::InvalidArgument);
        assert_eq!(file.wait(window).unwrap().bytes, 100);
        assert_eq!(file.wait(window).unwrap_err().kind(), ErrorKind::InvalidArgument, "the result was returned");
        file.close().unwrap();
    });
}

#[test]
fn ranks_that_start_different_windows_are_told() {
    let layout = direct(Arc::new(Memory::new()));
    let outcomes = threads::run(3, |comm| {
        let mut file = open(&comm, &layout, MEMORY);
        let length = if comm.rank() == 1 { 5000 } else { LENGTH };
        let window = file.start(0, length, &small(3)).unwrap();
        file.write(window, 1000 * u64::from(comm.rank()), &[1; 1000]).unwrap();
        file.end(window).unwrap();
        let outcome = file.wait(window);
        file.close().unwrap();
        outcome
    });
    same_on_all(outcomes, ErrorKind::InvalidArgument, "rank 1 started a window of other bytes", None);
}

/// A rank that computes for ever: it takes part in `open` and then makes no call until the others are done.
fn silent(rank: u32, ends: bool) -> Vec<(Result<Completed>, Duration)> {
    let layout = direct(Arc::new(Memory::new()));
    threads::run(4, |comm| {
        let mut file = open(&comm, &layout, MEMORY);
        let window = file.start(0, LENGTH, &brief(300)).unwrap();
        if ends || comm.rank() != rank {
            quarter(&mut file, window, comm.rank());
            file.end(window).unwrap();
        }
        let started = Instant::now();
        let outcome = if comm.rank() == rank { None } else { Some(file.wait(window)) };
        let waited = started.elapsed();
        // The silent rank comes back, much too late.
        comm.barrier().unwrap();
        if comm.rank() == rank && !ends {
            file.end(window).unwrap();
        }
        let outcome = outcome.unwrap_or_else(|| file.wait(window));
        _ = file.close();
        (outcome, waited)
    })
}

#[test]
fn a_rank_that_never_ends_its_part_is_named_after_the_time_limit() {
    let (outcomes, waits): (Vec<_>, Vec<_>) = silent(3, false).into_iter().unzip();
    same_on_all(
        outcomes,
        ErrorKind::Timeout,
        "rank 3 did not end their part of the window within the time limit",
        None,
    );
    assert!(waits.iter().all(|waited| *waited < Duration::from_secs(60)), "{waits:?}");
}

/// Rank 2 is below rank 1 in the tree: rank 0 itself only knows that rank 1 has not ended for all ranks below it.
#[test]
fn a_rank_deep_in_the_tree_is_named_and_not_its_parent() {
    let layout = direct(Arc::new(Memory::new()));
    let errors = threads::run(70, |comm| {
        let mut file = open(&comm, &layout, MEMORY);
        let options = Options { owners: thalweg_owners::Owners::Ranks(vec![0]), ..brief(1000) };
        let window = file.start(0, 70, &options).unwrap();
        let outcome = if comm.rank() == 2 {
            None
        } else {
            file.write(window, u64::from(comm.rank()), b"x").unwrap();
            file.end(window).unwrap();
            file.wait(window).err().map(|e| e.to_string())
        };
        comm.barrier().unwrap();
        _ = file.close();
        outcome
    });
    for (rank, e) in errors.iter().enumerate().filter(|(rank, _)| *rank != 2) {
        let text = e.as_ref().unwrap();
        assert!(text.contains(": rank 2 did not end their part"), "rank {rank}: {text}");
    }
}

#[test]
fn an_owner_that_makes_no_call_is_named_after_the_time_limit() {
    let (outcomes, waits): (Vec<_>, Vec<_>) = silent(2, true).into_iter().unzip();
    same_on_all(outcomes, ErrorKind::Timeout, "rank 2, an owner, did not report", None);
    assert!(waits.iter().all(|waited| *waited < Duration::from_secs(60)), "{waits:?}");
}

#[test]
fn without_rank_0_the_others_give_up_after_three_time_limits() {
    let outcomes = silent(0, false);
    for (outcome, waited) in &outcomes[1..] {
        let e = outcome.as_ref().unwrap_err();
        assert!(e.kind() == ErrorKind::Timeout && e.to_string().contains("rank 0 did not complete the window"), "{e}");
        assert!(*waited > Duration::from_millis(850) && *waited < Duration::from_secs(60), "{waited:?}");
    }
}

#[test]
fn a_rank_that_dies_is_named_at_once() {
    let layout = direct(Arc::new(Memory::new()));
    let outcomes = Machine::new(4).run_each(|comm| {
        let mut file = open(&comm, &layout, MEMORY);
        let window = file.start(0, LENGTH, &small(3)).unwrap();
        if comm.rank() == 1 {
            panic!("on purpose");
        }
        // The loss may be noticed by any of these calls.
        let start = u64::from(comm.rank()) * LENGTH / 4;
        _ = file.write(window, start, &content(start, LENGTH / 4));
        _ = file.end(window);
        let outcome = file.wait(window).unwrap_err();
        let closed = file.close().unwrap_err();
        (outcome.kind(), outcome.to_string(), closed.kind())
    });
    for (rank, outcome) in outcomes.into_iter().enumerate().filter(|(rank, _)| *rank != 1) {
        let (kind, text, closed) = outcome.expect("no panic but one");
        assert_eq!((kind, closed), (ErrorKind::PeerLost, ErrorKind::PeerLost), "rank {rank}");
        assert!(text.contains("rank 1"), "{text}");
    }
}

/// More than all memory is written to an owner that makes no call: the writers wait, and then learn that the window has failed.
#[test]
fn a_writer_that_waits_for_memory_is_released_when_the_window_fails() {
    let layout = direct(Arc::new(Memory::new()));
    let memory = 64 << 10;
    let outcomes = threads::run(3, |comm| {
        let mut file = open(&comm, &layout, memory);
        let window =
            file.start(0, 4 << 20, &Options { time_limit: Some(Duration::from_millis(300)), ..small(3) }).unwrap();
        let outcome = match comm.rank() {
            2 => Ok(()),
            rank => file.write(window, u64::from(rank) << 20, &vec![1; 1 << 20]),
        };
        if comm.rank() < 2 {
            file.progress();
            assert_eq!(file.memory(), 0, "memory of a failed window is free");
        }
        comm.barrier().unwrap();
        _ = file.close();
        outcome
    });
    for outcome in &outcomes[..2] {
        assert_eq!(outcome.as_ref().unwrap_err().kind(), ErrorKind::Timeout);
    }
}

#[test]
fn what_is_committed_comes_after_all_bytes_and_only_then() {
    let failing = Arc::new(Failing::new(Arc::new(Memory::new())));
    let layout = direct(failing.clone());
    for fails in [false, true] {
        failing.heal();
        if fails {
            failing.fail(Fault::of(StoreCall::Write).skipping(1).times(1));
        }
        threads::run(3, |comm| {
            let mut file = open(&comm, &layout, MEMORY);
            let commit = Commit { offset: 100, bytes: b"valid".to_vec() };
            let window = file.start_with_commit(100, 9000, &small(3), Some(commit)).unwrap();
            let start = 100 + 3000 * u64::from(comm.rank());
            file.write(window, start, &[0; 3000]).unwrap();
            file.end(window).unwrap();
            assert_eq!(file.wait(window).is_err(), fails);
            file.close().unwrap();
        });
        let committed = failing.read_all("out").unwrap().get(100..105) == Some(b"valid");
        assert_eq!(committed, !fails);
    }
}

#[test]
fn a_file_that_cannot_be_opened_is_the_same_error_everywhere() {
    let store = Arc::new(Memory::new());
    let layout: Arc<dyn Layout> = direct(store);
    let kinds = threads::run(3, |comm| {
        File::open(&OpenFile::new(&comm, &layout, "none/out", OpenWrite::Replace)).err().map(|e| e.kind())
    });
    assert_eq!(kinds, [Some(ErrorKind::NotFound); 3]);
    let kinds = threads::run(3, |comm| {
        let memory = if comm.rank() == 1 { 10 } else { MEMORY };
        let request = OpenFile { memory, ..OpenFile::new(&comm, &layout, "out", OpenWrite::Replace) };
        File::open(&request).err().map(|e| e.kind())
    });
    assert_eq!(kinds, [Some(ErrorKind::Config); 3]);
}

#[test]
fn closing_with_a_part_that_has_not_ended_is_an_error_and_no_hang() {
    let layout = direct(Arc::new(Memory::new()));
    let kinds = threads::run(3, |comm| {
        let mut file = open(&comm, &layout, MEMORY);
        let window = file.start(0, 3000, &small(3)).unwrap();
        file.write(window, 1000 * u64::from(comm.rank()), &[1; 1000]).unwrap();
        if comm.rank() != 1 {
            file.end(window).unwrap();
        }
        file.close().err().map(|e| e.kind())
    });
    assert_eq!(kinds, [Some(ErrorKind::InvalidArgument); 3]);
}

#[test]
fn windows_that_end_while_the_file_is_closed_leave_no_rank_behind() {
    let layout = direct(Arc::new(Memory::new()));
    let outcomes = threads::run(2, |comm| {
        let mut file = open(&comm, &layout, 1 << 20);
        let options = Options { time_limit: Some(Duration::from_millis(100)), ..small(2) };
        let windows: Vec<_> = (0..2).map(|n| file.start(n * 100, 100, &options).unwrap()).collect();
        if comm.rank() == 0 {
            for window in windows {
                file.end(window).unwrap();
                assert_eq!(file.wait(window).unwrap_err().kind(), ErrorKind::Timeout);
            }
            comm.barrier().unwrap();
        } else {
            // Learns of the end of both in the call that closes the file.
            windows.iter().for_each(|window| file.on_complete(*window, Box::new(drop)).unwrap());
            comm.barrier().unwrap();
        }
        file.close()
    });
    for outcome in outcomes {
        let e = outcome.unwrap_err();
        assert_eq!(e.kind(), ErrorKind::InvalidArgument, "{e}");
    }
}
