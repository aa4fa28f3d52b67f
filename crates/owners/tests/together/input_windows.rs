//! Input windows: bytes that owners read ahead come to the ranks that ask for them, whatever they ask and whatever fails.

use crate::common::{Sequence, content, direct, small};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;
use thalweg_comm::{Communicator, threads};
use thalweg_layout::Layout;
use thalweg_owners::{Input, InputWindow, OpenInput, Options, Owners, ReadId};
use thalweg_store::wrap::{Counting, Failing, Fault, StoreCall};
use thalweg_store::{Memory, StoreExt};
use thalweg_types::mutex::Mutex;
use thalweg_types::{ErrorKind, Extent};

const LENGTH: u64 = 40_000;

fn filled(length: u64) -> Arc<Memory> {
    let store = Arc::new(Memory::new());
    store.write_all("in", &content(0, length)).unwrap();
    store
}

fn open(comm: &dyn Communicator, layout: &Arc<dyn Layout>, memory: u64) -> Input {
    Input::open(&OpenInput { memory, ..OpenInput::new(comm, layout, "in") }).unwrap()
}

/// Waits until all ranks are here, and serves the file meanwhile: an owner that is in a barrier serves nobody.
fn meet(input: &mut Input, here: &AtomicU64, ranks: u64) {
    let round = here.fetch_add(1, Ordering::AcqRel) / ranks;
    while here.load(Ordering::Acquire) < (round + 1) * ranks {
        input.progress();
    }
}

fn geometry(number: u64, ranks: u32, file: u64) -> (Extent, Options) {
    let mut random = Sequence(number.wrapping_mul(0x2545_F491_4F6C_DD1D) | 1);
    (0..5).for_each(|_| _ = random.below(2));
    let offset = random.below(file);
    let length = match random.below(8) {
        0 => 0,
        1 => random.below(3).min(file - offset),
        _ => random.below(file - offset + 1),
    };
    let active = 1 + random.below(u64::from(ranks)) as u32;
    let owners = match random.below(3) {
        0 => Owners::PerNode,
        1 => Owners::Every { active, base: random.below(u64::from(ranks - active + 1)) as u32, skip: 1 },
        _ => Owners::Ranks((0..active).rev().collect()),
    };
    let options = Options {
        owners,
        owner_stripe: (random.below(2) == 0).then(|| 1 + random.below(9000)),
        write_stripe: 1 + random.below(5000),
        fraction: 1 + random.below(2000),
        alignment: 1 + random.below(600),
        time_limit: Some(Duration::from_secs(60)),
        ..Options::default()
    };
    (Extent::new(offset, length), options)
}

#[test]
fn a_thousand_windows_give_what_the_file_has() {
    const AT_ONCE: u64 = 5;
    for (ranks, memory) in [(1, 64 << 10), (5, 64 << 10), (3, 1 << 20)] {
        let file = 150_000;
        let layout = direct(filled(file));
        threads::Machine::new(ranks).ranks_per_node(2).run(|comm| {
            let mut input = open(&comm, &layout, memory);
            assert_eq!(input.length(), file);
            let mut random = Sequence(u64::from(comm.rank()) * 77 + 13);
            for first in (0..1000 / AT_ONCE).map(|n| n * AT_ONCE) {
                let all: Vec<(Extent, Options)> = (first..first + AT_ONCE).map(|n| geometry(n, ranks, file)).collect();
                let ids: Vec<_> =
                    all.iter().map(|(w, options)| input.start(w.offset, w.length, options).unwrap()).collect();
                let mut reads: Vec<(ReadId, Extent)> = Vec::new();
                for _ in 0..random.below(20) {
                    let at = random.below(AT_ONCE) as usize;
                    let window = all[at].0;
                    let start = window.offset + random.below(window.length + 1);
                    let part = Extent::new(start, random.below(window.offset + window.length - start + 1));
                    reads.push((input.read(ids[at], part.offset, part.length).unwrap(), part));
                    assert!(input.memory() <= memory, "{} of {memory} bytes", input.memory());
                    if random.below(3) == 0 {
                        input.progress();
                    }
                    if random.below(4) == 0 {
                        let (read, part) = reads.swap_remove(random.below(reads.len() as u64) as usize);
                        assert_eq!(input.wait(read).unwrap(), content(part.offset, part.length));
                    }
                }
                // In every other round a rank says first that it asks for nothing more.
                if first % 2 == 0 {
                    ids.iter().for_each(|id| input.end(*id).unwrap());
                }
                for (read, part) in reads {
                    assert_eq!(input.wait(read).unwrap(), content(part.offset, part.length));
                }
                if first % 2 == 1 {
                    ids.iter().for_each(|id| input.end(*id).unwrap());
                }
            }
            input.close().unwrap();
        });
    }
}

#[test]
fn owners_read_ahead_and_each_byte_once() {
    let counting = Arc::new(Counting::new(filled(LENGTH)));
    let (layout, here) = (direct(counting.clone()), AtomicU64::new(0));
    threads::run(3, |comm| {
        let mut input = open(&comm, &layout, 1 << 20);
        let window = input.start(100, LENGTH - 100, &small(2)).unwrap();
        // Nobody has asked for anything yet: the owners read everything, a fraction in each call.
        while input.progress() {}
        meet(&mut input, &here, 3);
        let before = counting.counted().object("in");
        assert_eq!(before.bytes_read, LENGTH - 100, "each byte once");
        let reads = [(LENGTH / 2, 3000), (100, 900), (LENGTH - 10, 10)];
        let reads = reads.map(|(at, length)| (input.read(window, at, length).unwrap(), at, length));
        for (read, at, length) in reads {
            assert_eq!(input.wait(read).unwrap(), content(at, length));
        }
        meet(&mut input, &here, 3);
        assert_eq!(counting.counted().object("in"), before, "everything was held");
        input.end(window).unwrap();
        input.close().unwrap();
    });
}

#[test]
fn callbacks_get_their_bytes_inside_a_later_call_and_a_test_never_waits() {
    let layout = direct(filled(LENGTH));
    threads::run(2, |comm| {
        let mut input = open(&comm, &layout, 1 << 20);
        let window = input.start(0, LENGTH, &small(1)).unwrap();
        let (came, told) = (Arc::new(Mutex::new(None)), Arc::new(AtomicBool::new(false)));
        let read = input.read(window, 5, 10).unwrap();
        let (came_there, told_there) = (came.clone(), told.clone());
        input
            .on_read(
                read,
                Box::new(move |bytes| {
                    *came_there.lock() = Some(bytes.unwrap());
                    told_there.store(true, Ordering::Release);
                }),
            )
            .unwrap();
        assert_eq!(input.wait(read).map_err(|e| e.kind()), Err(ErrorKind::InvalidArgument));
        while !told.load(Ordering::Acquire) {
            input.progress();
        }
        assert_eq!(came.lock().take().unwrap(), content(5, 10));
        assert_eq!(input.test(read).map_err(|e| e.kind()), Err(ErrorKind::InvalidArgument), "it was returned");
        let read = input.read(window, 777, 4000).unwrap();
        let bytes = loop {
            if let Some(bytes) = input.test(read).unwrap() {
                break bytes;
            }
        };
        assert_eq!(bytes, content(777, 4000));
        input.end(window).unwrap();
        input.close().unwrap();
    });
}

#[test]
fn a_failure_of_the_store_is_one_of_the_reads_that_it_concerns() {
    // More than owners hold, so that its end is not read ahead.
    const LONG: u64 = 200_000;
    let failing = Arc::new(Failing::new(filled(LONG)));
    let layout = direct(failing.clone());
    let here = AtomicU64::new(0);
    threads::run(3, |comm| {
        let mut input = open(&comm, &layout, 64 << 10);
        let window = input.start(0, LONG, &small(2)).unwrap();
        let read = input.read(window, 0, 100).unwrap();
        assert_eq!(input.wait(read).unwrap(), content(0, 100));
        meet(&mut input, &here, 3);
        if comm.rank() == 0 {
            failing.fail(Fault::of(StoreCall::Read));
        }
        comm.barrier().unwrap();
        let read = input.read(window, LONG - 400, 400).unwrap();
        let failed = input.wait(read).unwrap_err();
        assert_eq!((failed.kind(), failed.place().rank), (ErrorKind::Io, Some(comm.rank())), "{failed}");
        assert!(failed.place().byte.is_some() && failed.place().object.as_deref() == Some("in"), "{failed}");
        meet(&mut input, &here, 3);
        failing.heal();
        comm.barrier().unwrap();
        // The next one tries again.
        let read = input.read(window, LONG - 400, 400).unwrap();
        assert_eq!(input.wait(read).unwrap(), content(LONG - 400, 400));
        input.end(window).unwrap();
        input.close().unwrap();
    });
}

/// Every call of the store fails once, on whichever rank makes it: all opens fail, or each read gives what the file has or this failure, with
/// its byte; the close is one of all ranks, and the next read tries again.
#[test]
fn whichever_call_of_the_store_fails_a_read_fails_or_is_right() {
    let mut number = 0;
    loop {
        let failing = Arc::new(Failing::new(filled(LENGTH)));
        failing.fail(Fault::any().skipping(number).times(1));
        let layout = direct(failing.clone());
        let opened = threads::run(3, |comm| {
            let mut input = match Input::open(&OpenInput::new(&comm, &layout, "in")) {
                Ok(input) => input,
                Err(e) => {
                    assert_eq!((e.kind(), e.place().rank), (ErrorKind::Io, Some(comm.rank())), "call {number}: {e}");
                    return false;
                }
            };
            let window = input.start(0, LENGTH, &small(2)).unwrap();
            let at = u64::from(comm.rank()) * 9000;
            let reads = [(at, 5000), (LENGTH - 5000, 5000)].map(|(at, length)| (input.read(window, at, length), at));
            for (read, at) in reads {
                match input.wait(read.unwrap()) {
                    Ok(bytes) => assert_eq!(bytes, content(at, 5000), "call {number}"),
                    Err(e) => {
                        assert!(e.kind() == ErrorKind::Io && e.place().byte.is_some(), "call {number}: {e}");
                        let again = input.read(window, at, 5000).unwrap();
                        assert_eq!(input.wait(again).unwrap(), content(at, 5000), "call {number}");
                    }
                }
            }
            input.finish(window).unwrap();
            input.close().unwrap();
            true
        });
        assert!(opened.iter().all(|o| *o == opened[0]), "call {number}: {opened:?}");
        if failing.failed().0 == 0 {
            break;
        }
        number += 1;
    }
    assert!(number > 20, "{number} calls");
}

#[test]
fn an_owner_that_makes_no_calls_is_named_and_the_file_can_be_used_further() {
    let layout = direct(filled(LENGTH));
    threads::run(3, |comm| {
        let mut input = open(&comm, &layout, 1 << 20);
        let brief = Options { time_limit: Some(Duration::from_millis(200)), ..small(2) };
        let window = input.start(0, LENGTH, &brief).unwrap();
        if comm.rank() == 2 {
            // Rank 1 owns these, and computes.
            let read = input.read(window, 4000, 10).unwrap();
            let late = input.wait(read).unwrap_err();
            assert!(late.kind() == ErrorKind::Timeout && late.to_string().contains("rank 1"), "{late}");
        }
        comm.barrier().unwrap();
        let read = input.read(window, 4000, 10).unwrap();
        assert_eq!(input.wait(read).unwrap(), content(4000, 10));
        // Nobody leaves before all have what they want.
        input.finish(window).unwrap();
        comm.barrier().unwrap();
        input.finish(window).unwrap();
        assert_eq!(input.finish(InputWindow(window.0 + 1)).unwrap_err().kind(), ErrorKind::InvalidArgument);
        input.close().unwrap();
    });
}

#[test]
fn a_rank_that_dies_ends_reads_and_the_close() {
    let layout = direct(filled(LENGTH));
    let ended = threads::Machine::new(3).run_each(|comm| {
        let mut input = open(&comm, &layout, 1 << 20);
        let window = input.start(0, LENGTH, &small(2)).unwrap();
        if comm.rank() == 1 {
            panic!("this rank is to die");
        }
        let lost = input.read(window, 4000, 10).and_then(|read| input.wait(read)).unwrap_err();
        assert_eq!(lost.kind(), ErrorKind::PeerLost, "{lost}");
        assert_eq!(input.close().unwrap_err().kind(), ErrorKind::PeerLost);
    });
    assert_eq!(ended.iter().map(|outcome| outcome.is_ok()).collect::<Vec<bool>>(), [true, false, true]);
}

#[test]
fn what_makes_no_sense_is_refused_on_the_rank_that_asks() {
    let (layout, here) = (direct(filled(LENGTH)), AtomicU64::new(0));
    threads::run(2, |comm| {
        let none = Input::open(&OpenInput::new(&comm, &layout, "nothing"));
        assert_eq!(none.err().unwrap().kind(), ErrorKind::NotFound);
        let little = Input::open(&OpenInput { memory: 10, ..OpenInput::new(&comm, &layout, "in") });
        assert_eq!(little.err().unwrap().kind(), ErrorKind::Config);
        let mut input = open(&comm, &layout, 64 << 10);
        let beyond = input.start(1, LENGTH, &small(1)).unwrap_err();
        assert_eq!((beyond.kind(), beyond.place().byte), (ErrorKind::OutOfBounds, Some(1)));
        // Ranks that start different windows.
        let window = input.start(u64::from(comm.rank()), 1000, &small(1)).unwrap();
        if comm.rank() == 1 {
            let read = input.read(window, 500, 3).unwrap();
            let differs = input.wait(read).unwrap_err();
            assert!(differs.kind() == ErrorKind::InvalidArgument && differs.to_string().contains("different windows"));
        }
        meet(&mut input, &here, 2);
        let out = input.read(window, 990, 30).unwrap_err();
        assert_eq!((out.kind(), out.place().byte), (ErrorKind::OutOfBounds, Some(990)));
        let nothing = input.read(window, 700, 0).unwrap();
        assert_eq!(input.wait(nothing).unwrap(), []);
        input.end(window).unwrap();
        assert_eq!(input.end(window).unwrap_err().kind(), ErrorKind::InvalidArgument);
        assert_eq!(input.read(window, 500, 3).unwrap_err().kind(), ErrorKind::InvalidArgument);
        let open = input.start(0, 10, &small(1)).unwrap();
        assert!(comm.rank() == 0 || input.end(open).is_ok());
        let closed = input.close();
        assert_eq!(closed.unwrap_err().kind(), ErrorKind::InvalidArgument, "rank 0 has not ended its part");
    });
}
