//! One writer for a set of ranks: whatever the set, the pattern and the chunk, what is written reads back equal; who
//! fails or dies takes nobody's data with it but its own.

mod common;
#[path = "common/fault_injected.rs"]
mod fault_injected;

use common::*;
use fault_injected::{Life, Moment};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};
use thalweg_comm::tags;
use thalweg_comm::threads::{Machine, ThreadCommunicator};
use thalweg_comm::watched::{MessageCall, Watch, Watched};
use thalweg_comm::{Communicator, threads};
use thalweg_conformance::round_trip::{self, WriteSetup, everything};
use thalweg_io::Mode;
use thalweg_reader::{FindingKind, Partial, Reader, RecoverOptions, recover, verify};
use thalweg_schema::HostLanguage;
use thalweg_store::Store;
use thalweg_store::memory::Memory;
use thalweg_store::wrap::{Failing, Fault, StoreCall};
use thalweg_types::{Error, ErrorKind, Result, Selection};

const PATTERNS: [&str; 2] = ["simple", "brigade"];

fn setup(pattern: &str, aggregators: u32, chunk: &str) -> WriteSetup {
    WriteSetup::of("MPI_AGGREGATE")
        .with("pattern", pattern)
        .with("aggregators", &aggregators.to_string())
        .with("chunk", chunk)
        .with("spill_copy", "512")
}

fn clean(place: &Place, path: &str) {
    let report = verify(&*place.layout, path).unwrap();
    assert!(report.findings.is_empty(), "{:?}", report.findings);
}

/// Names of the subfiles.
fn subfiles(place: &Place, path: &str) -> Vec<String> {
    place.layout.list(&format!("{path}.dir")).unwrap()
}

#[test]
fn everything_reads_back_equal_by_either_pattern_with_any_chunk_and_any_buffer() {
    for pattern in PATTERNS {
        for (ranks, aggregators, chunk) in
            [(1, 1, "8M"), (2, 1, "8M"), (3, 1, "500"), (5, 2, "2000"), (5, 5, "64k"), (8, 3, "4096")]
        {
            let scenario = everything::scenario(ranks, 2, HostLanguage::C);
            for buffer in [None, Some(0), Some(9000)] {
                let setup = WriteSetup { buffer, ..setup(pattern, aggregators, chunk) };
                eprintln!("{ranks} ranks, {setup:?}");
                round_trip::write_and_check(&round_trip::in_memory(), "file.bp", &scenario, &setup);
            }
        }
    }
}

#[test]
fn many_ranks_share_a_few_files() {
    for pattern in PATTERNS {
        for (ranks, per_node, files) in [(64, 64, 1), (64, 10, 7), (257, 257, 5), (257, 64, 5)] {
            let place = Place::memory();
            let document = heat("MPI_AGGREGATE", &format!("pattern={pattern};chunk=300"));
            Machine::new(ranks).ranks_per_node(per_node).run(|comm| {
                let session = place.session(&document, &comm);
                write_heat(&session, "x.bp", Mode::Write, &comm, 0);
                write_heat(&session, "x.bp", Mode::Append, &comm, 1);
                session.finalize().unwrap();
            });
            for step in 0..2 {
                assert_eq!(read_heat(&place.layout, "x.bp", step), all_of_t(ranks, step), "{pattern} {ranks}");
            }
            assert_eq!(subfiles(&place, "x.bp").len(), files, "{pattern} {ranks} ranks, {per_node} a node");
            clean(&place, "x.bp");
        }
    }
}

#[test]
fn sets_are_filled_from_one_node_first() {
    let place = Place::memory();
    Machine::new(6).ranks_per_node(2).run(|comm| {
        // Ranks of a node are not neighbours: 0 2 4 1 3 5.
        let key = [0, 3, 1, 4, 2, 5][comm.rank() as usize];
        let comm = comm.split(Some(0), key).unwrap().unwrap();
        let session = place.session(&heat("MPI_AGGREGATE", ""), &*comm);
        write_heat(&session, "x.bp", Mode::Write, &*comm, 0);
        session.finalize().unwrap();
    });
    assert_eq!(read_heat(&place.layout, "x.bp", 0), all_of_t(6, 0));
    let reader = Reader::open(place.layout.clone(), "x.bp").unwrap();
    let blocks = reader.blocks("t", 0).unwrap();
    let files: Vec<u32> = blocks.iter().filter_map(|b| b.subfile).collect();
    assert_eq!(files, [0, 1, 2, 0, 1, 2]);
}

/// A group of which some ranks write nothing, some a little and one a lot.
fn uneven(parameters: &str) -> String {
    format!(
        r#"<adios-config host-language="C">
  <adios-group name="uneven">
    <var name="n" type="integer"/>
    <var name="sometimes" type="double"/>
    <var name="data" type="integer" dimensions="n"/>
  </adios-group>
  <method group="uneven" method="MPI_AGGREGATE">{parameters}</method>
</adios-config>"#
    )
}

#[test]
fn empty_ranks_optional_variables_and_one_rank_much_larger() {
    for pattern in PATTERNS {
        for larger in [0, 3, 6] {
            for buffer in [None, Some(70_000)] {
                let place = Place::memory();
                place.run(7, |comm| {
                    let rank = comm.rank();
                    let session = place.session(&uneven(&format!("pattern={pattern};chunk=64k;direct=100k")), &comm);
                    session.set_buffer_limit(buffer);
                    for step in 0..2 {
                        let mode = if step == 0 { Mode::Write } else { Mode::Append };
                        let mut output = session.open("uneven", "x.bp", mode, comm.duplicate().unwrap()).unwrap();
                        let n = if rank == larger { 500_000 } else { 10 };
                        let data: Vec<i32> = (0..n).map(|i| i * 7 + rank as i32 + step).collect();
                        if rank % 3 != 1 {
                            output.write_values("n", &[n]).unwrap();
                            output.write_values("data", &data).unwrap();
                        }
                        if rank == 5 && step == 1 {
                            output.write_values("sometimes", &[2.5f64]).unwrap();
                        }
                        output.close().unwrap();
                    }
                    session.finalize().unwrap();
                });
                let reader = Reader::open(place.layout.clone(), "x.bp").unwrap();
                assert_eq!(reader.variable("sometimes").unwrap().steps, [1]);
                for step in 0..2 {
                    let blocks = reader.blocks("data", step).unwrap();
                    let ranks: Vec<u32> = blocks.iter().map(|b| reader.writer(b).unwrap().unwrap()).collect();
                    assert_eq!(ranks, [0, 2, 3, 5, 6]);
                    for (block, rank) in blocks.iter().zip(ranks) {
                        let read = reader.read_as::<i32>("data", step, &Selection::Block(block.number)).unwrap();
                        let n = if rank == larger { 500_000 } else { 10 };
                        assert!(read == (0..n).map(|i| i * 7 + rank as i32 + step as i32).collect::<Vec<_>>());
                    }
                }
                clean(&place, "x.bp");
                assert!(!place.store.list("").unwrap().iter().any(|n| n.contains("spill")), "no spill file stays");
            }
        }
    }
}

#[test]
fn a_file_grows_whatever_the_number_of_ranks_and_of_aggregators() {
    let place = Place::memory();
    let parts =
        [(5, "aggregators=2"), (3, "aggregators=3;pattern=brigade"), (6, "aggregators=1"), (4, "aggregators=4")];
    for (part, (ranks, parameters)) in (0..).zip(parts) {
        place.run(ranks, |comm| {
            let session = place.session(&heat("MPI_AGGREGATE", parameters), &comm);
            for step in [2 * part, 2 * part + 1] {
                write_heat(&session, "x.bp", if step == 0 { Mode::Write } else { Mode::Append }, &comm, step);
            }
            session.finalize().unwrap();
        });
    }
    for (part, (ranks, _)) in (0..).zip(parts) {
        for step in [2 * part, 2 * part + 1] {
            assert_eq!(read_heat(&place.layout, "x.bp", step), all_of_t(ranks, step), "step {step}");
        }
    }
    clean(&place, "x.bp");
    // A restart goes back behind step 2, with other sets; what lies behind is cut from all subfiles.
    place.run(2, |comm| {
        let session = place.session(&heat("MPI_AGGREGATE", "aggregators=2"), &comm);
        write_heat(&session, "x.bp", Mode::AppendAfter(2), &comm, 3);
        session.finalize().unwrap();
    });
    assert_eq!(Reader::open(place.layout.clone(), "x.bp").unwrap().status().steps, 4);
    assert_eq!(read_heat(&place.layout, "x.bp", 2), all_of_t(3, 2));
    assert_eq!(read_heat(&place.layout, "x.bp", 3), all_of_t(2, 3));
    clean(&place, "x.bp");
    // A new file has no subfiles of the old one.
    place.run(3, |comm| {
        let session = place.session(&heat("MPI_AGGREGATE", ""), &comm);
        write_heat(&session, "x.bp", Mode::Write, &comm, 0);
        session.finalize().unwrap();
    });
    assert_eq!(subfiles(&place, "x.bp"), ["x.bp.0"]);
}

#[test]
fn a_lost_index_is_made_again_from_the_subfiles() {
    for pattern in PATTERNS {
        let place = Place::memory();
        place.run(5, |comm| {
            let session =
                place.session(&heat("MPI_AGGREGATE", &format!("pattern={pattern};aggregators=2;chunk=2")), &comm);
            for step in 0..3 {
                write_heat(&session, "x.bp", if step == 0 { Mode::Write } else { Mode::Append }, &comm, step);
            }
            session.finalize().unwrap();
        });
        let before = contents(&place.layout, "x.bp").unwrap();
        place.layout.remove("x.bp").unwrap();
        let recovery = recover(&*place.layout, "x.bp", RecoverOptions::default()).unwrap();
        assert_eq!((recovery.steps, recovery.dropped), (3, vec![]));
        assert_eq!(contents(&place.layout, "x.bp").unwrap(), before);
        clean(&place, "x.bp");
    }
}

const RANKS: u32 = 6;

/// Six ranks in two sets write three steps; a fault of one rank's store spoils the second of them.
fn spoil(pattern: &str, parameters: &str, faults: impl Fn(u32) -> Vec<Fault> + Sync) -> (Place, Vec<Result<()>>) {
    let memory: Arc<dyn Store> = Arc::new(Memory::new());
    let document = heat("MPI_AGGREGATE", &format!("pattern={pattern};aggregators=2;chunk=512;{parameters}"));
    let outcomes = threads::run(RANKS, |comm: ThreadCommunicator| {
        let store = Arc::new(Failing::new(memory.clone()));
        let session = Place::over(store.clone()).session(&document, &comm);
        write_heat(&session, "x.bp", Mode::Write, &comm, 0);
        faults(comm.rank()).into_iter().for_each(|f| store.fail(f));
        let begun = Instant::now();
        let outcome = try_heat(&session, "x.bp", Mode::Append, &comm, 1);
        assert!(begun.elapsed() < Duration::from_secs(120), "nobody waits for what does not come");
        store.heal();
        comm.barrier().unwrap();
        write_heat(&session, "x.bp", Mode::Append, &comm, 2);
        session.finalize().unwrap();
        outcome
    });
    (Place::over(memory), outcomes)
}

/// Steps 0 and 2 are whole, step 1 lacks what `failed` ranks wrote; the index and the data alone agree on that.
fn lacks(place: &Place, failed: &[u32], kind: ErrorKind, what: &str) {
    let reader = Reader::open(place.layout.clone(), "x.bp").unwrap();
    let partial: Vec<Partial> = failed.iter().map(|rank| Partial { step: 1, rank: *rank, kind }).collect();
    assert_eq!(reader.status().partial, partial, "{what}");
    assert_eq!((reader.status().steps, reader.status().finished, reader.status().torn_bytes), (3, true, 0), "{what}");
    for step in [0, 2] {
        assert_eq!(read_heat(&place.layout, "x.bp", step), all_of_t(RANKS, step), "{what}, step {step}");
    }
    let left: Vec<u32> = (0..RANKS).filter(|r| !failed.contains(r)).collect();
    let blocks = reader.blocks("t", 1).unwrap();
    assert_eq!(blocks.iter().map(|b| b.offset[0] as u32).collect::<Vec<_>>(), left, "{what}");
    for (block, rank) in blocks.iter().zip(left) {
        let read = reader.read_as::<f64>("t", 1, &Selection::Block(block.number)).unwrap();
        assert_eq!(read, t(rank, 1, 4), "{what}");
    }
    let report = verify(&*place.layout, "x.bp").unwrap();
    let others = report.findings.iter().filter(|f| !matches!(f.kind, FindingKind::Partial | FindingKind::Gap));
    assert_eq!(others.collect::<Vec<_>>(), Vec::<&thalweg_reader::Finding>::new(), "{what}");
    let everything = contents(&place.layout, "x.bp").unwrap();
    place.layout.remove("x.bp").unwrap();
    let recovery =
        recover(&*place.layout, "x.bp", RecoverOptions { keep_partial: true, ..Default::default() }).unwrap();
    assert_eq!((recovery.steps, recovery.dropped), (3, vec![]), "{what}: {:?}", recovery.actions);
    assert_eq!(contents(&place.layout, "x.bp").unwrap(), everything, "{what}");
}

#[test]
fn a_full_disk_is_told_to_all_of_the_set_and_what_is_written_stays() {
    // Sets are 0 1 2 and 3 4 5; a group takes three pieces or more.
    for pattern in PATTERNS {
        for half_way in [false, true] {
            for (skip, failed) in [(0, vec![3, 4, 5]), (1, vec![4, 5]), (3, vec![4, 5])] {
                let (place, outcomes) = spoil(pattern, "", |rank| {
                    let fault =
                        Fault::of(StoreCall::Write).named("x.bp.1").skipping(skip).times(1).with(ErrorKind::NoSpace);
                    let fault = if half_way { fault.half_way() } else { fault };
                    if rank == 3 { vec![fault] } else { vec![] }
                });
                let what = format!("{pattern}, write {skip} fails, half way: {half_way}");
                for (rank, outcome) in outcomes.iter().enumerate() {
                    let e = outcome.as_ref().unwrap_err();
                    assert_eq!(e.kind(), ErrorKind::NoSpace, "{what}: {e}");
                    assert_eq!(e.reported_by(), (rank != 3).then_some(3), "{what}: {e}");
                    let safe = format!("partial ({} of 6 process groups)", 6 - failed.len());
                    assert!(e.still_safe().unwrap().ends_with(&safe), "{what}: {e}");
                }
                let cause = outcomes[3].as_ref().unwrap_err().to_string();
                assert!(cause.contains("made to fail") && cause.contains("x.bp.dir/x.bp.1"), "{what}: {cause}");
                lacks(&place, &failed, ErrorKind::NoSpace, &what);
            }
        }
    }
}

/// Refuses to receive the piece of a process group with this number, once.
struct Lacking(Arc<AtomicU32>);

impl Watch for Lacking {
    type During = ();

    fn begins(&self, _: MessageCall) {}

    fn refuses(&self, call: &MessageCall) -> Option<Error> {
        let is_piece = matches!(call, MessageCall::Receive { tag: tags::TRANSFER_PIECE, .. });
        let lacks = is_piece && self.0.fetch_sub(1, Ordering::Relaxed) == 1;
        lacks.then(|| Error::new(ErrorKind::NoMemory, "no memory for a message (made to fail)"))
    }

    fn of_a_part(&self) -> Lacking {
        Lacking(self.0.clone())
    }
}

#[test]
fn a_rank_without_memory_for_a_piece_keeps_nobody_waiting() {
    // Sets are 0 1 2 and 3 4 5, each rank on a node of its own. In a chain, 4 passes on what 5 has.
    for (pattern, lacking, piece, failed) in [
        ("simple", 3, 1, &[4, 5][..]),
        ("simple", 3, 2, &[4, 5]),
        ("brigade", 3, 1, &[4, 5]),
        ("brigade", 4, 1, &[5]),
        ("brigade", 4, 2, &[5]),
    ] {
        let what = format!("{pattern}, rank {lacking}, piece {piece}");
        let memory: Arc<dyn Store> = Arc::new(Memory::new());
        let document = heat("MPI_AGGREGATE", &format!("pattern={pattern};aggregators=2;chunk=512"));
        // Who waits for what does not come gets another error then.
        let machine = Machine::new(RANKS).ranks_per_node(1).timeout(Duration::from_secs(120));
        let outcomes = machine.run(|comm| {
            let session = Place::over(memory.clone()).session(&document, &comm);
            write_heat(&session, "x.bp", Mode::Write, &comm, 0);
            let number = if comm.rank() == lacking { piece } else { 0 };
            let watched = Watched::with(comm.duplicate().unwrap(), Lacking(Arc::new(AtomicU32::new(number))));
            let outcome = try_heat(&session, "x.bp", Mode::Append, &watched, 1);
            write_heat(&session, "x.bp", Mode::Append, &comm, 2);
            session.finalize().unwrap();
            outcome
        });
        for outcome in &outcomes {
            let e = outcome.as_ref().unwrap_err();
            assert_eq!(e.kind(), ErrorKind::NoMemory, "{what}: {e}");
        }
        lacks(&Place::over(memory), failed, ErrorKind::NoMemory, &what);
    }
}

#[test]
fn what_cannot_be_made_durable_is_not_in_the_step() {
    for pattern in PATTERNS {
        let (place, outcomes) = spoil(pattern, "sync=yes", |rank| {
            let fault = Fault::of(StoreCall::Sync).named("x.bp.1").times(1).with(ErrorKind::Io);
            if rank == 3 { vec![fault] } else { vec![] }
        });
        all_failed_alike(&outcomes[..4], &[3], ErrorKind::Io);
        let reader = Reader::open(place.layout.clone(), "x.bp").unwrap();
        let partial = reader.status().partial.iter().map(|p| p.rank).collect::<Vec<_>>();
        assert_eq!(partial, [3, 4, 5], "{pattern}");
        assert_eq!(read_heat(&place.layout, "x.bp", 2), all_of_t(RANKS, 2));
    }
}

/// Two steps are written by six ranks in two sets, one rank dies in the second, the others write a third.
fn lose(pattern: &str, buffer: Option<u64>, lost: u32, moment: Moment) -> (Place, Vec<Result<()>>) {
    let memory: Arc<dyn Store> = Arc::new(Memory::new());
    let document = heat("MPI_AGGREGATE", &format!("pattern={pattern};aggregators=2;chunk=600"));
    let outcomes = Machine::new(RANKS).timeout(Duration::from_secs(120)).run(|own| {
        let life = Life::of(own);
        let place = Place::over(Arc::new(life.store(memory.clone())));
        let comm = life.communicator();
        let session = place.session(&document, &comm);
        session.set_buffer_limit(buffer);
        write_heat(&session, "x.bp", Mode::Write, &comm, 0);
        let mut output = session.open("heat", "x.bp", Mode::Append, comm.duplicate().unwrap()).unwrap();
        let (rank, ranks) = (comm.rank() as i32, comm.size() as i32);
        for (name, value) in [("NX", 4), ("ranks", ranks), ("rank", rank)] {
            output.write_values(name, &[value]).unwrap();
        }
        output.write("note", b"step 1").unwrap();
        output.write_values("t", &t(comm.rank(), 1, 4)).unwrap();
        output.write_values("mine", &[comm.rank() as f32; 4]).unwrap();
        if comm.rank() == lost {
            life.ends(Some(moment));
            let outcome = output.close().map(|_| ());
            life.end();
            return outcome;
        }
        let outcome = output.close().map(|_| ());
        let left = comm.survivors().unwrap();
        write_heat(&session, "x.bp", Mode::Append, &*left, 2);
        assert_eq!(session.finalize().unwrap_err().kind(), ErrorKind::PeerLost);
        left.barrier().unwrap();
        outcome
    });
    (Place::over(memory), outcomes)
}

#[test]
fn whoever_dies_takes_nobody_elses_group_with_it() {
    let moments = [Moment::Write, Moment::MessageCall(0), Moment::MessageCall(1)];
    let moments = moments.into_iter().chain([0, 1, 2, 3, 4, 5, 7, 9].map(Moment::Message));
    for (pattern, moment) in PATTERNS.into_iter().flat_map(|p| moments.clone().map(move |m| (p, m))) {
        for lost in 0..RANKS {
            if moment == Moment::Write && lost % 3 != 0 {
                // It does not write.
                continue;
            }
            let buffer = if lost % 2 == 0 { None } else { Some(0) };
            let what = format!("{pattern}, rank {lost} dies: {moment:?}");
            let (place, outcomes) = lose(pattern, buffer, lost, moment);
            if outcomes[lost as usize].is_ok() {
                // It had nothing more to say, and died when all was done.
                assert!(outcomes.iter().all(Result::is_ok), "{what}");
                assert_eq!(read_heat(&place.layout, "x.bp", 1), all_of_t(RANKS, 1), "{what}");
                continue;
            }
            for (rank, outcome) in outcomes.iter().enumerate().filter(|(r, _)| *r as u32 != lost) {
                let Err(e) = outcome else { panic!("{what}: rank {rank} heard nothing of the loss") };
                assert_eq!(e.kind(), ErrorKind::PeerLost, "{what}: {e}");
            }
            let reader = Reader::open(place.layout.clone(), "x.bp").unwrap();
            assert_eq!((reader.status().steps, reader.status().torn_bytes), (3, 0), "{what}");
            assert!(reader.status().finished, "{what}");
            assert_eq!(read_heat(&place.layout, "x.bp", 0), all_of_t(RANKS, 0), "{what}");
            assert_eq!(read_heat(&place.layout, "x.bp", 2), all_of_t(RANKS - 1, 2), "{what}");
            let blocks = reader.blocks("t", 1).unwrap();
            let mut there: Vec<u32> = blocks.iter().map(|b| b.offset[0] as u32).collect();
            for block in &blocks {
                let read = reader.read_as::<f64>("t", 1, &Selection::Block(block.number)).unwrap();
                assert_eq!(read, t(block.offset[0] as u32, 1, 4), "{what}");
            }
            // The dead rank's own is there if it was told so before.
            there.retain(|r| *r != lost);
            assert_eq!(there, (0..RANKS).filter(|r| *r != lost).collect::<Vec<_>>(), "{what}");
            // The data alone say the same, but for what the dead rank left behind.
            let everything = contents(&place.layout, "x.bp").unwrap();
            place.layout.remove("x.bp").unwrap();
            let options = RecoverOptions { keep_partial: true, ..Default::default() };
            assert_eq!(recover(&*place.layout, "x.bp", options).unwrap().steps, 3, "{what}");
            let found = contents(&place.layout, "x.bp").unwrap();
            let step_1 = |c: &Contents| {
                c[&("rank".to_string(), 1)].iter().filter(|r| r[0] != lost as u8).cloned().collect::<Vec<_>>()
            };
            assert_eq!(step_1(&found), step_1(&everything), "{what}");
        }
    }
}
