//! A rank that writes or passes for others holds one chunk more than its own group, however many ranks there are.
mod common;
mod counting;

use common::*;
use std::sync::Arc;
use thalweg_comm::Communicator;
use thalweg_comm::threads::Machine;
use thalweg_io::{Mode, WriteRequest};
use thalweg_reader::Reader;
use thalweg_store::Posix;
use thalweg_types::Selection;

const RANKS: usize = 256;
const CHUNK: usize = 128 << 10;
/// Bytes of each rank's block: three times a chunk.
const BLOCK: usize = 3 * CHUNK;

fn document(parameters: &str) -> String {
    format!(
        r#"<adios-config host-language="C">
  <adios-group name="g"><var name="a" type="byte" dimensions="{BLOCK}"/></adios-group>
  <method group="g" method="MPI_AGGREGATE">chunk={CHUNK};{parameters}</method>
</adios-config>"#
    )
}

/// The most that 256 ranks held above what they had before they opened; blocks stay in the program's memory.
fn held_by_an_output(parameters: &str, ranks_per_node: u32) -> usize {
    let folder = tempfile::tempdir().unwrap();
    let place = Place::over(Arc::new(Posix::at(folder.path()).unwrap()));
    let block: Vec<u8> = (0..BLOCK).map(|i| (i * 31 + i / 1000) as u8).collect();
    let document = document(parameters);
    let machine = Machine::new(RANKS as u32).ranks_per_node(ranks_per_node);
    let held = machine.run(|comm| {
        let session = place.session(&document, &comm);
        comm.barrier().unwrap();
        let before = counting::begin();
        comm.barrier().unwrap();
        let mut output = session.open("g", "x.bp", Mode::Write, comm.duplicate().unwrap()).unwrap();
        output.put(WriteRequest::deferred("a", &block)).unwrap();
        output.close().unwrap();
        comm.barrier().unwrap();
        let most = counting::most();
        session.finalize().unwrap();
        most - before
    });
    let reader = Reader::open(place.layout.clone(), "x.bp").unwrap();
    for number in [0, 1, 100, RANKS as u64 - 1] {
        assert!(reader.read_to_vec("a", 0, &Selection::Block(number)).unwrap() == block);
    }
    held.into_iter().max().unwrap()
}

#[test]
fn no_rank_holds_more_than_one_chunk_of_others() {
    // What ranks say to each other, framing and the index take besides: with blocks of a few bytes, too, 11 to 26 KiB a rank, as
    // ranks come to their turns.
    let besides = RANKS * (40 << 10);
    for files in [1, 4] {
        for ranks_per_node in [1, RANKS as u32] {
            // Of each set the writer, and between nodes the rank that passes, and the next one with its first piece.
            let held = held_by_an_output(&format!("pattern=simple;aggregators={files}"), ranks_per_node);
            let most = if ranks_per_node == 1 { 3 } else { 1 } * files * CHUNK;
            assert!(held <= most + besides, "simple, {files} files, {ranks_per_node} ranks a node: {held} bytes");
        }
        // In a chain everybody, while a set of 256 groups is 96 MiB.
        let held = held_by_an_output(&format!("pattern=brigade;aggregators={files}"), RANKS as u32);
        assert!(held <= RANKS * CHUNK + besides, "brigade, {files} files: {held} bytes");
    }
}
