//! Ranks that open a file together: what they read is what one process reads, each index log is read once, and failures reach
//! all.

use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use std::io::IoSlice;
use std::sync::Arc;
use thalweg_collective_open::CollectiveFile;
use thalweg_comm::Communicator;
use thalweg_comm::counting::Counting as CountingRanks;
use thalweg_comm::threads::{self, Machine};
use thalweg_comm::tree::FAN_IN;
use thalweg_layout::container::{Options, index::Module};
use thalweg_layout::{Container, Layout, OpenWrite, ReadObject, WriterId, write_all_at};
use thalweg_store::wrap::Counting;
use thalweg_store::{Memory, Store};
use thalweg_types::{Error, ErrorKind, Result};

const MODULES: [Module; 3] = [Module::Flat, Module::Pattern, Module::Distributed];
/// Bytes of the file that one rank owns together.
const RANGE: u64 = 64 << 20;

fn over(store: &Arc<dyn Store>, module: Module) -> Container {
    let options = Options { module, buffer: 1 << 16, host: "host".into(), ..Options::default() };
    Container::new(vec![store.clone()], options).unwrap()
}

/// Bytes that differ from their neighbours and from zero.
fn pattern(seed: u64, length: usize) -> Vec<u8> {
    (0..length as u64).map(|i| ((i.wrapping_mul(2_654_435_761) ^ seed.wrapping_mul(97)) % 255) as u8 + 1).collect()
}

fn put(store: &Arc<dyn Store>, module: Module, writer: u32, records: &[(u64, Vec<u8>)]) {
    let file = over(store, module).open_write("file", OpenWrite::Any, WriterId(writer)).unwrap();
    records.iter().for_each(|(at, bytes)| write_all_at(&*file, *at, bytes).unwrap());
    file.close().unwrap();
}

/// A process of its own, which is one rank.
fn open(store: &Arc<dyn Store>, comm: Box<dyn Communicator>) -> Result<CollectiveFile> {
    let layout = over(store, Module::Pattern);
    CollectiveFile::open(comm, Ok((&layout, "file")), 3)
}

fn alone(store: &Arc<dyn Store>) -> Box<dyn ReadObject> {
    over(store, Module::Pattern).open_read("file").unwrap()
}

/// Writers that wrote in turn, records far apart, so that every rank of a few owns some.
fn far_apart(module: Module, writers: u64, each: u64) -> Arc<dyn Store> {
    let store: Arc<dyn Store> = Arc::new(Memory::new());
    for writer in 0..writers {
        let record =
            |i: u64| ((i * writers + writer) * (RANGE / 4) + writer * 13 + i % 7, pattern(i * writers + writer, 90));
        put(&store, module, writer as u32, &(0..each).map(record).collect::<Vec<_>>());
    }
    store
}

#[test]
fn each_index_log_is_read_once_by_all_ranks_together_and_marks_by_one() {
    for module in MODULES {
        let counting = Arc::new(Counting::new(far_apart(module, 40, 3)));
        let store: Arc<dyn Store> = counting.clone();
        let whole = alone(&store);
        let length = whole.length().unwrap();
        let mut expected = vec![0; 300];
        whole.read_exact_at(5 * (RANGE / 4), &mut expected).unwrap();
        for ranks in [1, 2, 3, 5, 16] {
            counting.take();
            let read = threads::run(ranks, |comm| {
                let mut bytes = vec![0; 300];
                let file = open(&store, Box::new(comm)).unwrap();
                assert_eq!(file.length().unwrap(), length);
                assert_eq!(file.read_all(5 * (RANGE / 4), &mut bytes).unwrap(), 300);
                assert_eq!(file.is_part(), module == Module::Distributed);
                bytes
            });
            assert!(read.iter().all(|bytes| *bytes == expected), "{module:?}, {ranks} ranks");
            let counted = counting.take();
            let opens = |ends: &str| -> Vec<u64> {
                counted
                    .objects
                    .iter()
                    .filter(|(name, _)| name.ends_with(ends))
                    .map(|(_, c)| c.opens_for_reading)
                    .collect()
            };
            assert_eq!(opens(".index"), [1; 40], "{module:?}, {ranks} ranks");
            let lists: u64 = counted.objects.values().map(|c| c.lists).sum();
            assert_eq!(lists, 1, "one rank lists the marks: {module:?}, {ranks} ranks");
        }
    }
}

#[test]
fn fragments_come_up_a_tree_and_nobody_hears_more_than_the_fan_in() {
    let store = far_apart(Module::Flat, 9, 2);
    let received = threads::run(9, |comm| {
        let comm = CountingRanks::new(Box::new(comm));
        let counts = comm.counts();
        let layout = over(&store, Module::Flat);
        CollectiveFile::open(Box::new(comm), Ok((&layout, "file")), 2).unwrap();
        let counts = counts.snapshot();
        assert_eq!(counts.all_to_alls, 0);
        counts.received
    });
    assert_eq!((received.iter().sum::<u64>(), received.iter().max()), (8, Some(&2)));
}

#[test]
fn a_share_that_cannot_be_read_fails_all_ranks_with_its_place_and_cause() {
    for module in MODULES {
        let store = far_apart(module, 6, 2);
        let mut folder = ".thalweg/d".to_string();
        let lost = loop {
            let names = store.list(&folder).unwrap();
            folder = format!("{folder}/{}", names.iter().find(|n| n.ends_with(".index")).unwrap_or(&names[0]));
            if folder.ends_with(".index") {
                break folder;
            }
        };
        store.remove(&lost).unwrap();
        store.remove(&lost.replace(".index", ".data")).unwrap();
        for ranks in [1, 2, 5] {
            let errors: Vec<Error> = threads::run(ranks, |comm| open(&store, Box::new(comm)).err().unwrap());
            let object = lost.replace(".index", ".data");
            for error in &errors {
                assert_eq!(error.kind(), ErrorKind::Io, "{error}");
                assert!(error.place().object.as_ref().is_some_and(|o| o.ends_with(&object)), "{error}");
                assert_eq!(error.what(), errors[0].what());
            }
            let heard = errors.iter().filter(|e| e.reported_by().is_some()).count();
            assert_eq!(heard, ranks as usize - 1, "one rank reads it and keeps the cause");
        }
    }
}

#[test]
fn a_rank_that_was_called_wrongly_and_a_file_that_is_not_there_fail_all() {
    let store = far_apart(Module::Distributed, 2, 2);
    let errors = threads::run(3, |comm| {
        let layout = over(&store, Module::Pattern);
        let at: Result<(&dyn Layout, &str)> = match comm.rank() {
            1 => Err(Error::new(ErrorKind::InvalidArgument, "the path is a null pointer")),
            _ => Ok((&layout, "file")),
        };
        CollectiveFile::open(Box::new(comm), at, FAN_IN).err().unwrap()
    });
    for (rank, error) in errors.iter().enumerate() {
        assert_eq!((error.kind(), error.what()), (ErrorKind::InvalidArgument, "the path is a null pointer"));
        assert_eq!(error.reported_by(), (rank != 1).then_some(1));
    }
    let errors = threads::run(3, |comm| {
        let layout = over(&store, Module::Pattern);
        CollectiveFile::open(Box::new(comm), Ok((&layout, "no/file")), FAN_IN).err().unwrap()
    });
    assert!(errors.iter().all(|e| e.kind() == ErrorKind::NotFound), "{errors:?}");
}

#[test]
fn what_another_rank_owns_is_read_alone_once_it_was_looked_up() {
    let store = far_apart(Module::Distributed, 4, 10);
    threads::run(3, |comm| {
        let rank = u64::from(comm.rank());
        let file = open(&store, Box::new(comm)).unwrap();
        let own = rank * RANGE;
        let others = (rank + 1) % 3 * RANGE;
        let mut bytes = [0; 90];
        file.read_exact_at(own, &mut bytes).unwrap();
        assert!(rank > 0 || bytes[..] == pattern(0, 90));
        let error = file.read_at(others, &mut bytes).unwrap_err();
        assert_eq!((error.kind(), error.place().byte), (ErrorKind::NotReady, Some(others)), "{error}");
        assert!(error.to_string().contains(&format!("rank {} of 3 owns the index", (rank + 1) % 3)), "{error}");
        // Rank 2 needs nothing, and takes part.
        let wanted = if rank == 2 { vec![] } else { vec![(others, others + 90), (others + 50, others + 200)] };
        file.look_up_all(&wanted).unwrap();
        let outcome = file.read_at(others, &mut bytes);
        assert_eq!(outcome.is_ok(), rank != 2, "{outcome:?}");
        let mut expected = [0; 90];
        alone(&store).read_exact_at(others, &mut expected).unwrap();
        assert!(rank == 2 || bytes == expected);
    });
}

#[test]
fn each_rank_knows_the_holes_of_the_ranges_that_it_owns() {
    let store = far_apart(Module::Distributed, 4, 10);
    threads::run(3, |comm| {
        let rank = u64::from(comm.rank());
        let file = open(&store, Box::new(comm)).unwrap();
        let (alone, length) = (alone(&store), file.length().unwrap());
        assert_eq!(file.stored_before(length + 1).unwrap(), length + 1);
        let starts = (1..length).step_by(RANGE as usize).flat_map(|start| [start, start + 5, start + 20]);
        for offset in starts.chain((1..length).step_by(RANGE as usize / 9)).filter(|offset| *offset <= length) {
            let end = file.stored_before(offset).unwrap();
            let range = (offset - 1) / RANGE;
            // The last bytes may lie in a range of another rank.
            let expected = alone.stored_before(offset).unwrap().max(range * RANGE);
            assert_eq!(end, if range % 3 == rank { expected } else { offset }, "rank {rank}, byte {offset}");
        }
    });
}

#[test]
fn a_file_that_is_being_written_is_opened_by_each_rank_alone() {
    let store = far_apart(Module::Distributed, 3, 4);
    let layout = over(&store, Module::Pattern);
    let file = layout.open_write("file", OpenWrite::Any, WriterId(9)).unwrap();
    write_all_at(&*file, 3, b"newest").unwrap();
    file.sync().unwrap();
    write_all_at(&*file, 30, b"not published").unwrap();
    let read = threads::run(3, |comm| {
        let file = open(&store, Box::new(comm)).unwrap();
        let mut bytes = [0; 6];
        assert_eq!((file.is_part(), file.read_all(3, &mut bytes).unwrap()), (false, 6));
        bytes
    });
    assert_eq!(read, [*b"newest"; 3]);
}

#[test]
fn of_a_file_whose_logs_end_early_all_ranks_read_what_is_there() {
    for module in MODULES {
        let store = far_apart(module, 2, 2);
        let file = over(&store, module).open_write("file", OpenWrite::Any, WriterId(9)).unwrap();
        write_all_at(&*file, 300, b"synced").unwrap();
        file.sync().unwrap();
        let logs = |store: &Arc<dyn Store>| -> Vec<(u64, String)> {
            let (mut folders, mut found) = (vec![".thalweg".to_string()], Vec::new());
            while let Some(folder) = folders.pop() {
                for name in store.list(&folder).unwrap() {
                    let name = format!("{folder}/{name}");
                    match store.stat(&name).unwrap() {
                        about if about.is_folder => folders.push(name),
                        about => found.push((about.length, name)),
                    }
                }
            }
            found
        };
        let synced = logs(&store);
        write_all_at(&*file, 306, b"closed").unwrap();
        file.close().unwrap();
        for (length, name) in synced.iter().filter(|(_, name)| name.ends_with(".data") || name.ends_with(".index")) {
            if store.stat(name).is_ok_and(|about| about.length > *length) {
                let object = store.open_write(name, OpenWrite::Existing).unwrap();
                object.truncate(*length).unwrap();
                object.close().unwrap();
            }
        }
        let read = threads::run(3, |comm| {
            let file = open(&store, Box::new(comm)).unwrap();
            let (mut there, mut lost) = ([0; 6], [0; 6]);
            assert_eq!(file.read_all(300, &mut there).unwrap(), 6);
            let error = file.read_all(306, &mut lost).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Torn, "{module:?}: {error}");
            there
        });
        assert_eq!(read, [*b"synced"; 3]);
    }
}

#[test]
fn what_a_rank_closed_before_it_came_is_seen_by_all() {
    for module in MODULES {
        let store = far_apart(module, 1, 1);
        let read = threads::run(4, |comm| {
            if comm.rank() == 3 {
                // The others are waiting by now.
                std::thread::sleep(std::time::Duration::from_millis(30));
                put(&store, module, 7, &[(40, b"late".to_vec())]);
            }
            let mut bytes = [0; 4];
            assert_eq!(open(&store, Box::new(comm)).unwrap().read_all(40, &mut bytes).unwrap(), 4);
            bytes
        });
        assert_eq!(read, [*b"late"; 4], "{module:?}");
    }
}

#[test]
fn a_part_of_a_file_that_was_compacted_since_says_so() {
    let store = far_apart(Module::Distributed, 3, 4);
    let errors = threads::run(2, |comm| {
        let file = open(&store, comm.duplicate().unwrap()).unwrap();
        if comm.rank() == 0 {
            over(&store, Module::Pattern).compact("file").unwrap();
        }
        comm.barrier().unwrap();
        let mut bytes = [0; 90];
        file.read_all(0, &mut bytes).unwrap_err()
    });
    assert!(errors.iter().all(|e| e.kind() == ErrorKind::NotReady && e.what().contains("open it again")), "{errors:?}");
}

#[test]
fn each_rank_of_a_distributed_index_holds_its_part_of_the_records_only() {
    let store: Arc<dyn Store> = Arc::new(Memory::new());
    let (writers, each, ranks) = (4u64, 8000u64, 4u32);
    for writer in 0..writers {
        // At irregular distances, so that nothing is folded, over 16 ranges.
        let record = |i: u64| {
            let slot = i * writers + writer;
            (
                slot * (16 * RANGE / (writers * each)) + slot.wrapping_mul(0x9e37_79b9_7f4a_7c15) % 20_000,
                pattern(slot, 9),
            )
        };
        put(&store, Module::Distributed, writer as u32, &(0..each).map(record).collect::<Vec<_>>());
    }
    let whole = over(&store, Module::Pattern).about("file").unwrap().memory;
    let held = threads::run(ranks, |comm| open(&store, Box::new(comm)).unwrap().memory().unwrap());
    for (own, learned) in held {
        assert!(own * 2 < whole && learned < 1000, "{own} and {learned} bytes of {whole}");
    }
}

#[derive(Debug, Clone)]
enum What {
    Write { at: u64, length: usize },
    Strided { at: u64, length: usize, stride: u64, count: u64 },
    Append { length: usize },
    Cut { to: u64 },
    Sync,
}

/// Near the borders of ranges, where owners change.
fn place() -> impl Strategy<Value = u64> {
    (0..12u64, 0..4000u64).prop_map(|(range, at)| (range * RANGE + at).saturating_sub(2000))
}

fn what() -> impl Strategy<Value = What> {
    prop_oneof![
        6 => (place(), 1..900usize).prop_map(|(at, length)| What::Write { at, length }),
        2 => (place(), 1..200usize, 100..400u64, 2..30u64)
            .prop_map(|(at, length, stride, count)| What::Strided { at, length, stride, count }),
        2 => (place(), 1..200usize, RANGE / 3..RANGE * 2, 2..9u64)
            .prop_map(|(at, length, stride, count)| What::Strided { at, length, stride, count }),
        1 => (1..300usize).prop_map(|length| What::Append { length }),
        1 => place().prop_map(|to| What::Cut { to }),
        1 => Just(What::Sync),
    ]
}

/// Writers one after the other or, two and two, without having seen each other.
fn written(module: Module, writers: &[Vec<What>]) -> Arc<dyn Store> {
    let store: Arc<dyn Store> = Arc::new(Memory::new());
    let mut seed = 0;
    for pair in writers.chunks(2).enumerate() {
        let open = |k: usize| {
            over(&store, module).open_write("file", OpenWrite::Any, WriterId((pair.0 * 2 + k) as u32)).unwrap()
        };
        let files: Vec<_> = (0..pair.1.len()).map(open).collect();
        for (file, all) in files.iter().zip(pair.1) {
            for what in all {
                seed += 1;
                match what {
                    What::Write { at, length } => write_all_at(&**file, *at, &pattern(seed, *length)).unwrap(),
                    What::Strided { at, length, stride, count } => (0..*count)
                        .for_each(|i| write_all_at(&**file, at + i * stride, &pattern(seed + i, *length)).unwrap()),
                    What::Append { length } => {
                        file.append(&[IoSlice::new(&pattern(seed, *length))]).unwrap();
                    }
                    What::Cut { to } => file.truncate(*to).unwrap(),
                    What::Sync => file.sync().unwrap(),
                }
            }
        }
        files.into_iter().for_each(|file| file.close().unwrap());
    }
    store
}

#[test]
fn what_ranks_look_up_together_is_what_one_process_looks_up() {
    let cases = if thalweg_conformance::sweep::is_long() { 1000 } else { 60 };
    let mut runner = TestRunner::new(Config { cases, failure_persistence: None, ..Config::default() });
    let writers = prop::collection::vec(prop::collection::vec(what(), 1..12), 1..7);
    let asked = prop::collection::vec((place(), 1..5000usize, any::<bool>()), 8);
    runner
        .run(&(writers, asked, 0..3usize), |(writers, asked, module)| {
            let store = written(MODULES[module], &writers);
            let whole = alone(&store);
            let length = whole.length().unwrap();
            let expected: Vec<(usize, Vec<u8>)> = asked
                .iter()
                .map(|(at, bytes, _)| {
                    let mut out = vec![0; *bytes];
                    (whole.read_at(*at, &mut out).unwrap(), out)
                })
                .collect();
            for ranks in [1, 2, 3, 5, 8] {
                threads::run(ranks, |comm| {
                    let rank = comm.rank() as usize;
                    let file = open(&store, Box::new(comm)).unwrap();
                    assert_eq!(file.length().unwrap(), length);
                    // Each in another order, some look up first and then read alone; the last time after all was learned.
                    for k in 0..asked.len() {
                        let (at, bytes, first) = asked[(k + rank) % asked.len()];
                        let mut out = vec![0; bytes];
                        let got = match asked[k].2 {
                            true => {
                                let ranges = if first { vec![(at, at + bytes as u64)] } else { vec![] };
                                file.look_up_all(&ranges).unwrap();
                                if first { file.read_at(at, &mut out).unwrap() } else { continue }
                            }
                            false => file.read_all(at, &mut out).unwrap(),
                        };
                        let (count, expected) = &expected[(k + rank) % asked.len()];
                        assert_eq!(got, *count, "{ranks} ranks, at {at}");
                        assert!(out[..got] == expected[..got], "{ranks} ranks, rank {rank}: {bytes} bytes at {at}");
                    }
                });
            }
            Ok(())
        })
        .unwrap();
}

#[test]
fn more_than_fits_a_message_is_dealt_and_answered_in_several() {
    // More entries than are gathered for one rank, all in one range, and more pieces than an answer has.
    let store: Arc<dyn Store> = Arc::new(Memory::new());
    let each = 60_000u64;
    for writer in 0..2u64 {
        let record = |i: u64| {
            // Of many lengths, so that nothing is folded.
            let (slot, mixed) = (i * 2 + writer, (i * 2 + writer).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40);
            (RANGE + slot * 64 + mixed % 24, pattern(slot, 1 + (mixed / 24 % 40) as usize))
        };
        put(&store, Module::Distributed, writer as u32, &(0..each).map(record).collect::<Vec<_>>());
    }
    let mut expected = vec![0; (each * 128) as usize];
    let count = alone(&store).read_at(RANGE, &mut expected).unwrap();
    threads::run(3, |comm| {
        let owner = comm.rank() == 1;
        let comm = CountingRanks::new(Box::new(comm));
        let counts = comm.counts();
        let file = open(&store, Box::new(comm)).unwrap();
        let opened = counts.snapshot().all_to_alls;
        assert!(opened >= 2, "{opened} exchanges");
        let mut bytes = vec![0; expected.len()];
        assert_eq!(file.read_all(RANGE, &mut bytes).unwrap(), count);
        assert!(bytes[..count] == expected[..count]);
        let asked = counts.snapshot().all_to_alls - opened;
        assert!(asked >= 7, "{asked} exchanges for {} pieces", each * 2);
        assert!(!owner || file.memory().unwrap().1 < 1000, "it asked nobody");
    });
}

#[test]
fn a_lost_rank_fails_the_others_within_the_time_limit() {
    for module in MODULES {
        let store = far_apart(module, 6, 2);
        let machine = Machine::new(4).timeout(std::time::Duration::from_secs(20));
        let began = std::time::Instant::now();
        let errors = machine.run(|comm| {
            if comm.rank() == 2 {
                comm.leave();
                return None;
            }
            open(&store, Box::new(comm)).err()
        });
        assert!(began.elapsed().as_secs() < 15);
        assert_eq!(errors.iter().flatten().filter(|e| e.kind() == ErrorKind::PeerLost).count(), 3, "{errors:?}");
    }
}
