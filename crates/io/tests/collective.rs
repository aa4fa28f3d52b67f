//! Collective writing: whatever the number of ranks, aggregators, stripes and buffers, what is written reads back equal;
//! each byte travels once; an aggregator that cannot write costs the groups it wrote for and no others.

mod common;
#[path = "common/fault_injected.rs"]
mod fault_injected;
#[path = "common/shared_stripes.rs"]
mod shared_stripes;

use common::*;
use shared_stripes::{By, uneven, write_uneven};
use std::sync::atomic::{AtomicU64, Ordering};
use thalweg_comm::counting::Counting;
use thalweg_comm::threads::Machine;
use thalweg_conformance::round_trip::{self, WriteSetup, everything};
use thalweg_io::Mode;
use thalweg_schema::HostLanguage;
use thalweg_store::wrap::StoreCall;

const METHOD: &str = "MPI_COLLECTIVE";

/// Parameters small enough that a test's output has many stripes, aggregators and rounds.
const SMALL: &str = "aggregators=3;stripe=4096;buffer=8k";

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
            let session = place.session(&uneven(METHOD, "aggregators=4;stripe=4096;buffer=16k"), &comm);
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
fn any_number_of_uneven_ranks_reads_back_equal_verifies_and_is_recovered_without_an_index() {
    By(METHOD).reads_back_equal_verifies_and_is_recovered(&[
        "",
        SMALL,
        "aggregators=100;stripe=1;buffer=8k;sync=yes",
        "aggregators=2;stripe=1M;index=each",
    ]);
}

#[test]
fn only_aggregators_open_the_file_and_they_write_whole_stripes() {
    By(METHOD).only_writers_open_the_file_and_they_write_whole_stripes("stripe=4096;buffer=16k");
}

#[test]
fn an_aggregator_with_a_full_disk_costs_the_groups_it_wrote_for_alone() {
    By(METHOD).a_writer_with_a_full_disk_costs_the_groups_it_wrote_for_alone(
        SMALL,
        &[
            (0, 0, StoreCall::Write),
            (3, 0, StoreCall::Write),
            (3, 3, StoreCall::Write),
            (6, 1, StoreCall::Write),
            (6, 0, StoreCall::Sync),
        ],
    );
}

#[test]
fn a_rank_that_cannot_read_its_spill_file_costs_its_own_group() {
    By(METHOD).loses_its_own_group_with_its_spill_file(SMALL, 1);
    // All groups in one window: those behind the lost one keep their places.
    By(METHOD).loses_its_own_group_with_its_spill_file("stripe=1M", 0);
}

#[test]
fn whenever_a_rank_dies_the_others_close_the_step_among_themselves() {
    By(METHOD).whenever_a_rank_dies_the_others_close_the_step_among_themselves("aggregators=3;stripe=4096;buffer=16k");
}
