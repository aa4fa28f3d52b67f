//! Collective writing: whatever the number of ranks, aggregators, stripes and buffers, what is written reads back equal;
//! each byte travels once; an aggregator that cannot write costs the groups it wrote for and no others.

mod common;
#[path = "common/fault_injected.rs"]
mod fault_injected;

use common::*;
use fault_injected::{Life, Moment};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use thalweg_comm::counting::Counting;
use thalweg_comm::threads::Machine;
use thalweg_comm::{Communicator, threads};
use thalweg_conformance::round_trip::{self, WriteSetup, everything};
use thalweg_io::Mode;
use thalweg_layout::{OpenWrite, WriterId};
use thalweg_reader::{Partial, Reader, RecoverOptions, recover, verify};
use thalweg_schema::HostLanguage;
use thalweg_store::memory::Memory;
use thalweg_store::wrap::{Failing, Fault, StoreCall};
use thalweg_types::{ErrorKind, Result, Selection};

const METHOD: &str = "MPI_COLLECTIVE";

/// Parameters small enough that a test's output has many stripes, aggregators and rounds.
const SMALL: &str = "aggregators=3;stripe=4096;buffer=8k";

/// What a rank writes: rank 1 much more than the others, every fourth nothing.
fn values(rank: u32, step: u64) -> Vec<f64> {
    let n = match rank {
        1 => 9000,
        r if r % 4 == 2 => 0,
        r => 50 + (r as usize * 37) % 400,
    };
    (0..n).map(|i| f64::from(rank) * 1e6 + step as f64 * 1e4 + i as f64).collect()
}

fn uneven(parameters: &str) -> String {
    format!(
        r#"<adios-config host-language="C">
  <adios-group name="uneven">
    <var name="n" type="integer"/>
    <var name="sometimes" type="double"/>
    <var name="v" type="double" dimensions="n"/>
  </adios-group>
  <method group="uneven" method="{METHOD}">{parameters}</method>
</adios-config>"#
    )
}

fn write_uneven(session: &thalweg_io::Session, comm: &dyn Communicator, step: u64) -> Result<u64> {
    let mode = if step == 0 { Mode::Write } else { Mode::Append };
    let rank = comm.rank();
    let mut output = session.open("uneven", "u.bp", mode, comm.duplicate()?)?;
    let values = values(rank, step);
    if !values.is_empty() {
        let _ = output.write_values("n", &[values.len() as i32]);
        let _ = output.write_values("v", &values);
    }
    if (u64::from(rank) + step).is_multiple_of(3) {
        let _ = output.write_values("sometimes", &[f64::from(rank)]);
    }
    output.close().map(|closed| closed.bytes)
}

fn check_uneven(reader: &Reader, ranks: u32, step: u64, missing: &[u32]) {
    let blocks = reader.blocks("v", step).unwrap();
    let writers: Vec<u32> = (0..ranks).filter(|r| !values(*r, step).is_empty() && !missing.contains(r)).collect();
    assert_eq!(blocks.len(), writers.len());
    for (block, rank) in blocks.iter().zip(writers) {
        assert_eq!(reader.writer(block).unwrap(), Some(rank));
        let read = reader.read_as::<f64>("v", step, &Selection::Block(block.number)).unwrap();
        assert!(read == values(rank, step), "rank {rank}, step {step}");
    }
}

#[test]
fn any_number_of_uneven_ranks_reads_back_equal_verifies_and_is_recovered_without_an_index() {
    for ranks in [1, 2, 3, 5, 8, 64, 257] {
        for parameters in
            ["", SMALL, "aggregators=100;stripe=1;buffer=8k;sync=yes", "aggregators=2;stripe=1M;index=each"]
        {
            let place = Place::memory();
            place.run(ranks, |comm| {
                let session = place.session(&uneven(parameters), &comm);
                for step in 0..3 {
                    write_uneven(&session, &comm, step).unwrap();
                }
                session.finalize().unwrap();
            });
            let what = format!("{ranks} ranks, {parameters}");
            let check = || {
                let reader = Reader::open(place.layout.clone(), "u.bp").unwrap();
                assert_eq!((reader.status().steps, reader.status().partial.len()), (3, 0), "{what}");
                (0..3).for_each(|step| check_uneven(&reader, ranks, step, &[]));
            };
            check();
            let report = verify(&*place.layout, "u.bp").unwrap();
            assert!(report.findings.is_empty(), "{what}: {:?}", report.findings);
            let footer = bytes(&*place.store, "u.bp").len() as u64 - 20;
            let object = place.layout.open_write("u.bp", OpenWrite::Existing, WriterId(0)).unwrap();
            object.write_at(footer, &[std::io::IoSlice::new(&[0xff; 20])]).unwrap();
            let recovery = recover(&*place.layout, "u.bp", RecoverOptions::default()).unwrap();
            assert_eq!((recovery.steps, recovery.dropped), (3, vec![]), "{what}: {:?}", recovery.actions);
            check();
        }
    }
}

#[test]
fn every_kind_of_variable_reads_back_equal_with_any_stripe_and_buffer() {
    for (ranks, aggregators, stripe, buffer) in
        [(5, "2", "100", None), (8, "8", "7", Some(0)), (3, "1", "64k", Some(9000))]
    {
        let scenario = everything::scenario(ranks, 3, HostLanguage::C);
        let setup = WriteSetup::of(METHOD).with("aggregators", aggregators).with("stripe", stripe).with("buffer", "8k");
        let setup = WriteSetup { buffer, sessions: 2, follow: true, ..setup };
        round_trip::write_and_check(&round_trip::in_memory(), "file.bp", &scenario, &setup);
    }
}

#[test]
fn the_old_name_and_the_file_of_method_mpi_go_on_where_the_other_left_off() {
    let place = Place::memory();
    for (step, method) in (0..).zip(["MPI", "MPI_CIO", "MPI", "mpi_collective"]) {
        place.run(4, |comm| {
            let session = place.session(&heat(method, ""), &comm);
            write_heat(&session, "x.bp", if step == 0 { Mode::Write } else { Mode::Append }, &comm, step);
            session.finalize().unwrap();
        });
    }
    (0..4).for_each(|step| assert_eq!(read_heat(&place.layout, "x.bp", step), all_of_t(4, step)));
}

#[test]
fn each_byte_travels_once_and_an_aggregators_own_bytes_stay() {
    for ranks_per_node in [1, 16] {
        let (ranks, place) = (16, Place::memory());
        let [sent, put, written] = [const { AtomicU64::new(0) }; 3];
        Machine::new(ranks).ranks_per_node(ranks_per_node).run(|comm| {
            let comm = Counting::new(Box::new(comm));
            let session = place.session(&uneven("aggregators=4;stripe=4096;buffer=16k"), &comm);
            write_uneven(&session, &comm, 0).unwrap();
            let before = comm.counts().snapshot();
            let bytes = write_uneven(&session, &comm, 1).unwrap();
            let counts = comm.counts().snapshot().since(&before);
            sent.fetch_add(counts.bytes_sent, Ordering::Relaxed);
            put.fetch_add(counts.bytes_put, Ordering::Relaxed);
            written.store(bytes, Ordering::Relaxed);
            session.finalize().unwrap();
        });
        let [sent, put, written] = [sent, put, written].map(AtomicU64::into_inner);
        // Four short messages for each meeting of a rank and a domain, and one call and one head for each piece.
        let words =
            26 * (2 * (u64::from(ranks) + 4) + 2 * (written / 4096 + 4 * u64::from(ranks))) + 8 * u64::from(ranks);
        // Each rank but the first sends its index entries, of a few blocks.
        let index = 600 * (u64::from(ranks) - 1);
        let (by_message, in_memory) = if ranks_per_node == 1 { (written, 0) } else { (0, written) };
        let least = "bytes of data, words and index entries";
        assert!(sent <= by_message + words + index, "{sent} bytes sent for {by_message} + {words} + {index} {least}");
        assert!(put <= in_memory, "{put} bytes put of {in_memory}");
        assert!(sent + put > written / 2, "most ranks are no aggregators: {sent} and {put} of {written}");
    }
}

#[test]
fn only_aggregators_open_the_file_and_they_write_whole_stripes() {
    use thalweg_store::wrap;
    let memory: Arc<dyn thalweg_store::Store> = Arc::new(Memory::new());
    let counts = Machine::new(12).ranks_per_node(4).run(|comm| {
        let store = Arc::new(wrap::Counting::new(memory.clone()));
        let place = Place::over(store.clone());
        let session = place.session(&uneven("stripe=4096;buffer=16k"), &comm);
        write_uneven(&session, &comm, 0).unwrap();
        let counts = store.counted().total();
        session.finalize().unwrap();
        (counts.opens_for_writing, counts.writes)
    });
    for (rank, (opens, writes)) in counts.into_iter().enumerate() {
        let aggregator = rank % 4 == 0;
        assert_eq!((opens > 0, writes > 0), (aggregator, aggregator), "rank {rank}: {opens} opens, {writes} writes");
    }
}

/// Two steps, of which the aggregator `failing` spoils the second at its write number `skip` + 1. Returns the outcomes and
/// the files.
fn spoil(failing: u32, skip: u64, asked: StoreCall) -> (Place, Vec<Result<()>>) {
    let memory: Arc<dyn thalweg_store::Store> = Arc::new(Memory::new());
    let outcomes = threads::run(9, |comm| {
        let store = Arc::new(Failing::new(memory.clone()));
        let place = Place::over(store.clone());
        let session = place.session(&uneven(&format!("{SMALL};sync=yes")), &comm);
        write_uneven(&session, &comm, 0).unwrap();
        if comm.rank() == failing {
            store.fail(Fault::of(asked).named("u.bp").skipping(skip).times(1).with(ErrorKind::NoSpace).half_way());
        }
        let outcome = write_uneven(&session, &comm, 1).map(drop);
        store.heal();
        comm.barrier().unwrap();
        let _ = write_uneven(&session, &comm, 2).unwrap();
        session.finalize().unwrap();
        outcome
    });
    (Place::over(memory), outcomes)
}

#[test]
fn an_aggregator_with_a_full_disk_costs_the_groups_it_wrote_for_alone() {
    for (failing, skip, asked) in [
        (0, 0, StoreCall::Write),
        (3, 0, StoreCall::Write),
        (3, 3, StoreCall::Write),
        (6, 1, StoreCall::Write),
        (6, 0, StoreCall::Sync),
    ] {
        let (place, outcomes) = spoil(failing, skip, asked);
        let what = format!("aggregator {failing}, {asked:?} {skip}");
        for (rank, outcome) in (0..).zip(&outcomes) {
            let e = outcome.as_ref().unwrap_err();
            assert_eq!(e.kind(), ErrorKind::NoSpace, "{what}, rank {rank}: {e}");
            assert_eq!(e.reported_by().is_none(), rank == failing, "{what}, rank {rank}: {e}");
            assert!(
                e.still_safe().unwrap().starts_with("steps 0..=0 are") || e.still_safe().unwrap().contains("step 0")
            );
        }
        let reader = Reader::open(place.layout.clone(), "u.bp").unwrap();
        assert!(reader.status().finished && reader.status().torn_bytes == 0, "{what}");
        let partial = &reader.status().partial;
        if reader.status().steps == 2 {
            // No rank's group was whole.
            panic!("{what}: nothing is left of the step");
        }
        let missing: Vec<u32> = partial.iter().map(|p| p.rank).collect();
        assert!(!missing.is_empty() && missing.len() < 9, "{what}: {partial:?}");
        assert!(partial.iter().all(|p: &Partial| (p.step, p.kind) == (1, ErrorKind::NoSpace)), "{what}: {partial:?}");
        check_uneven(&reader, 9, 0, &[]);
        check_uneven(&reader, 9, 1, &missing);
        check_uneven(&reader, 9, 2, &[]);
    }
}

#[test]
fn a_rank_that_cannot_read_its_spill_file_costs_its_own_group() {
    lose_spill(SMALL, 1);
    // All groups in one window: those behind the lost one keep their places.
    lose_spill("stripe=1M", 0);
}

/// - `skip`: reads of rank 1's spill file that succeed.
fn lose_spill(parameters: &str, skip: u64) {
    let memory: Arc<dyn thalweg_store::Store> = Arc::new(Memory::new());
    let outcomes = threads::run(6, |comm| {
        let store = Arc::new(Failing::new(memory.clone()));
        let place = Place::over(store.clone());
        let session = place.session(&uneven(parameters), &comm);
        session.set_buffer_limit(Some(0));
        if comm.rank() == 1 {
            store.fail(Fault::of(StoreCall::Read).named("spill").skipping(skip).with(ErrorKind::Io));
        }
        let outcome = write_uneven(&session, &comm, 0).map(drop);
        session.finalize().unwrap();
        outcome
    });
    for (rank, outcome) in outcomes.iter().enumerate() {
        let e = outcome.as_ref().unwrap_err();
        assert_eq!((e.kind(), e.reported_by()), (ErrorKind::Io, (rank != 1).then_some(1)), "rank {rank}: {e}");
    }
    let place = Place::over(memory);
    let reader = Reader::open(place.layout.clone(), "u.bp").unwrap();
    assert_eq!(reader.status().partial, [Partial { step: 0, rank: 1, kind: ErrorKind::Io }]);
    check_uneven(&reader, 6, 0, &[1]);
    assert_eq!(place.store.list("").unwrap(), ["u.bp"], "no spill file stays");
}

#[test]
fn whenever_a_rank_dies_the_others_close_the_step_among_themselves() {
    let calls = (0..5).map(Moment::MessageCall);
    let moments: Vec<Moment> = calls.chain((0..10).map(Moment::Message)).chain([Moment::Write]).collect();
    for lost in 0..5 {
        for moment in &moments {
            let what = format!("rank {lost} dies: {moment:?}");
            let memory: Arc<dyn thalweg_store::Store> = Arc::new(Memory::new());
            let machine = Machine::new(5).timeout(Duration::from_secs(120));
            let outcomes = machine.run(|own| {
                let life = Life::of(own);
                let place = Place::over(Arc::new(life.store(memory.clone())));
                let comm = life.communicator();
                let session = place.session(&uneven("aggregators=3;stripe=4096;buffer=16k"), &comm);
                write_uneven(&session, &comm, 0).unwrap();
                let mut output = session.open("uneven", "u.bp", Mode::Append, comm.duplicate().unwrap()).unwrap();
                let mine = values(comm.rank(), 1);
                if !mine.is_empty() {
                    output.write_values("n", &[mine.len() as i32]).unwrap();
                    output.write_values("v", &mine).unwrap();
                }
                if comm.rank() == lost {
                    life.ends(Some(*moment));
                    let outcome = output.close().map(drop);
                    life.end();
                    return outcome;
                }
                let outcome = output.close().map(drop);
                let left = comm.survivors().unwrap();
                write_uneven(&session, &*left, 2).unwrap();
                assert_eq!(session.finalize().unwrap_err().kind(), ErrorKind::PeerLost);
                left.barrier().unwrap();
                outcome
            });
            let place = Place::over(memory);
            let reader = Reader::open(place.layout.clone(), "u.bp").unwrap();
            assert_eq!((reader.status().steps, reader.status().finished), (3, true), "{what}");
            let missing: Vec<u32> = reader.status().partial.iter().map(|p| p.rank).collect();
            assert!(missing.is_empty() || missing == [lost], "{what}: {missing:?}");
            check_uneven(&reader, 5, 0, &[]);
            check_uneven(&reader, 5, 1, &missing);
            check_uneven(&reader, 4, 2, &[]);
            let mut told = outcomes.iter().enumerate().filter(|(rank, _)| *rank as u32 != lost);
            if missing.is_empty() {
                // It did all it had to, or died behind the commit.
                assert!(told.all(|(_, o)| o.as_ref().map_or_else(|e| e.kind() == ErrorKind::PeerLost, |()| true)));
            } else {
                assert!(
                    told.all(|(_, o)| o.as_ref().is_err_and(|e| e.kind() == ErrorKind::PeerLost)),
                    "{what}: {outcomes:?}"
                );
            }
        }
    }
}
