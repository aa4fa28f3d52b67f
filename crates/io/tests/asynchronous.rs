//! Method `ASYNC`: whatever the number of ranks, owners, stripes and buffers, what is written reads back equal, in the bytes that `MPI`
//! writes; an owner that cannot write costs the groups with bytes in its stripes and no others.

mod common;
#[path = "common/fault_injected.rs"]
mod fault_injected;
#[path = "common/shared_stripes.rs"]
mod shared_stripes;

use common::*;
use shared_stripes::{By, uneven, write_uneven};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use thalweg_comm::counting::Counting;
use thalweg_comm::threads::Machine;
use thalweg_comm::{Communicator, threads};
use thalweg_conformance::round_trip::{self, WriteSetup, everything};
use thalweg_io::Mode;
use thalweg_reader::Reader;
use thalweg_schema::HostLanguage;
use thalweg_store::memory::Memory;
use thalweg_store::wrap::{Failing, Fault, StoreCall};
use thalweg_types::ErrorKind;

const METHOD: &str = "ASYNC";

/// Parameters small enough that a test's output has many stripes and several owners.
const SMALL: &str = "async=no;owners=3;stripe=4096;write_stripe=4096;fraction=1000;buffer=64k";

#[test]
fn any_number_of_uneven_ranks_reads_back_equal_verifies_and_is_recovered_without_an_index() {
    By(METHOD).reads_back_equal_verifies_and_is_recovered(&[
        "",
        SMALL,
        "owners=100;owner_stripe=300;write_stripe=1000;sync=yes",
        "owners=2;stripe=1M;index=each",
    ]);
}

#[test]
fn every_kind_of_variable_reads_back_equal_with_any_stripe_and_buffer() {
    for (ranks, owners, stripe, buffer) in [(5, "2", "100", None), (8, "8", "7", Some(0)), (3, "1", "64k", Some(9000))]
    {
        let scenario = everything::scenario(ranks, 3, HostLanguage::C);
        let setup = WriteSetup::of(METHOD).with("owners", owners).with("write_stripe", stripe).with("buffer", "64k");
        let setup = WriteSetup { buffer, sessions: 2, follow: true, ..setup.with("async", "no") };
        round_trip::write_and_check(&round_trip::in_memory(), "file.bp", &scenario, &setup);
    }
}

#[test]
fn only_owners_open_the_file_and_they_write_whole_stripes() {
    By(METHOD).only_writers_open_the_file_and_they_write_whole_stripes("async=no;stripe=4096;write_stripe=4096");
}

#[test]
fn an_owner_with_a_full_disk_costs_the_groups_with_bytes_in_its_stripes_alone() {
    By(METHOD).a_writer_with_a_full_disk_costs_the_groups_it_wrote_for_alone(
        SMALL,
        &[
            (0, 0, StoreCall::Write),
            (3, 0, StoreCall::Write),
            (3, 3, StoreCall::Write),
            (6, 1, StoreCall::Write),
            (6, 0, StoreCall::Sync),
            (6, 0, StoreCall::Close),
        ],
    );
}

#[test]
fn a_rank_that_cannot_read_its_spill_file_costs_its_own_group() {
    By(METHOD).loses_its_own_group_with_its_spill_file(SMALL, 1);
    By(METHOD).loses_its_own_group_with_its_spill_file("async=no", 0);
}

#[test]
fn whenever_a_rank_dies_the_others_close_the_step_among_themselves() {
    By(METHOD).whenever_a_rank_dies_the_others_close_the_step_among_themselves(
        "async=no;owners=3;stripe=4096;write_stripe=4096;buffer=64k",
    );
}

#[test]
fn whenever_a_rank_dies_its_set_writes_subfiles_of_its_own_and_the_others_go_on() {
    By(METHOD).whenever_a_rank_dies_the_others_close_the_step_among_themselves(
        "async=no;subfiles=2;owners=2;stripe=4096;write_stripe=4096;buffer=64k",
    );
}

#[test]
fn each_set_of_ranks_has_a_subfile_that_its_owners_write_in_whole_stripes() {
    let place = Place::memory();
    place.run(8, |comm| {
        let session = place.session(&heat(METHOD, "async=no;subfiles=3;owners=2;write_stripe=256;stripe=256"), &comm);
        for step in 0..2 {
            write_heat(&session, "x.bp", if step == 0 { Mode::Write } else { Mode::Append }, &comm, step);
        }
        session.finalize().unwrap();
    });
    assert_eq!(place.layout.list("x.bp.dir").unwrap(), ["x.bp.0", "x.bp.1", "x.bp.2"]);
    (0..2).for_each(|step| assert_eq!(read_heat(&place.layout, "x.bp", step), all_of_t(8, step)));
    let reader = Reader::open(place.layout.clone(), "x.bp").unwrap();
    // Ranks 0 to 2, 3 to 5 and 6 to 7, in this order; each group behind the one before.
    let blocks = reader.blocks("t", 1).unwrap();
    let sets: Vec<Option<u32>> = blocks.iter().map(|block| block.subfile).collect();
    assert_eq!(sets, [0, 0, 0, 1, 1, 1, 2, 2].map(Some));
    assert!(
        blocks.windows(2).all(|two| two[0].subfile != two[1].subfile || two[0].payload.offset < two[1].payload.offset)
    );
    assert!(thalweg_reader::verify(&*place.layout, "x.bp").unwrap().findings.is_empty());
}

#[test]
fn groups_lie_where_method_mpi_puts_them_and_each_method_goes_on_where_another_left_off() {
    let groups = |methods: &[(&str, &str)]| {
        let place = Place::memory();
        for (step, (method, parameters)) in (0..).zip(methods) {
            place.run(4, |comm| {
                let session = place.session(&heat(method, parameters), &comm);
                write_heat(&session, "x.bp", if step == 0 { Mode::Write } else { Mode::Append }, &comm, step);
                session.finalize().unwrap();
            });
        }
        let steps = methods.len() as u64;
        (0..steps).for_each(|step| assert_eq!(read_heat(&place.layout, "x.bp", step), all_of_t(4, step)));
        let reader = Reader::open(place.layout.clone(), "x.bp").unwrap();
        let blocks = (0..steps).flat_map(|step| reader.blocks("t", step).unwrap());
        (bytes(&*place.store, "x.bp").len(), blocks.map(|block| block.payload.offset).collect::<Vec<u64>>())
    };
    let by_mpi = groups(&[("MPI", ""), ("MPI", ""), ("MPI", "")]);
    assert_eq!(groups(&[("ASYNC", ""), ("ASYNC", ""), ("ASYNC", "")]), by_mpi);
    assert_eq!(groups(&[("MPI", ""), ("ASYNC", ""), ("MPI", "")]), by_mpi);
}

#[test]
fn each_byte_travels_once_and_an_owners_own_bytes_stay() {
    let (ranks, place) = (16, Place::memory());
    let [sent, written] = [const { AtomicU64::new(0) }; 2];
    Machine::new(ranks).ranks_per_node(1).run(|comm| {
        let comm = Counting::new(Box::new(comm));
        let session = place.session(&uneven(METHOD, "async=no;owners=4;stripe=4096;write_stripe=4096"), &comm);
        write_uneven(&session, &comm, 0).unwrap();
        let before = comm.counts().snapshot();
        let bytes = write_uneven(&session, &comm, 1).unwrap();
        sent.fetch_add(comm.counts().snapshot().since(&before).bytes_sent, Ordering::Relaxed);
        written.store(bytes, Ordering::Relaxed);
        session.finalize().unwrap();
    });
    let [sent, written] = [sent, written].map(AtomicU64::into_inner);
    // Of each rank and owner: what it has, a grant, and the sums; index entries of a few blocks.
    let words = u64::from(ranks) * (4 * 100 + 16 * (written / 4096 + 8) + 600);
    assert!((written / 2..=written + words).contains(&sent), "{sent} bytes sent of {written}, and {words} of words");
}

/// By itself it writes in the background: close returns, and a failure is told by the next open.
#[test]
fn a_failure_in_the_background_is_told_on_all_ranks_and_the_next_step_is_whole() {
    let memory: Arc<dyn thalweg_store::Store> = Arc::new(Memory::new());
    threads::run(4, |comm| {
        let store = Arc::new(Failing::new(memory.clone()));
        let session = Place::over(store.clone()).session(&heat(METHOD, "owners=2;stripe=64"), &comm);
        write_heat(&session, "x.bp", Mode::Write, &comm, 0);
        session.wait_for_outputs().unwrap();
        if comm.rank() == 2 {
            store.fail(Fault::of(StoreCall::Write).times(1).with(ErrorKind::NoSpace));
        }
        comm.barrier().unwrap();
        write_heat(&session, "x.bp", Mode::Append, &comm, 1);
        let e = session.wait_for_outputs().unwrap_err();
        assert_eq!((e.kind(), e.reported_by()), (ErrorKind::NoSpace, (comm.rank() != 2).then_some(2)), "{e}");
        comm.barrier().unwrap();
        write_heat(&session, "x.bp", Mode::Append, &comm, 2);
        session.finalize().unwrap();
    });
    let place = Place::over(memory);
    let reader = Reader::open(place.layout.clone(), "x.bp").unwrap();
    assert_eq!(reader.status().steps, 3);
    assert!(!reader.status().partial.is_empty() && reader.status().partial.iter().all(|p| p.step == 1));
    for step in [0, 2] {
        assert_eq!(read_heat(&place.layout, "x.bp", step), all_of_t(4, step));
    }
}
