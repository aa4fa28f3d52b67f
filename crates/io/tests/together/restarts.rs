//! Mode `r`: any number of ranks takes its boxes out of a restart, straight into arrays with ghost zones, and reads little
//! else.

use crate::common::*;
use std::sync::Arc;
use thalweg_comm::Communicator;
use thalweg_io::Mode;
use thalweg_store::memory::Memory;
use thalweg_store::wrap::counting::Counting;
use thalweg_types::{ErrorKind, MemorySelection};

const ROWS: u64 = 96;
const COLUMNS: u64 = 512;

const SCHEMA: &str = r#"<adios-config host-language="C">
  <adios-group name="restart">
    <var name="rows" type="integer"/><var name="first" type="integer"/><var name="seed" type="long"/>
    <global-bounds dimensions="96,512" offsets="first,0">
      <var name="u" type="double" dimensions="rows,512"/>
    </global-bounds>
  </adios-group>
  <method group="restart" method="MPI"/>
</adios-config>"#;

fn share(comm: &dyn Communicator) -> (i32, i32) {
    let at = |rank: u32| (ROWS * u64::from(rank) / u64::from(comm.size())) as i32;
    (at(comm.rank()), at(comm.rank() + 1) - at(comm.rank()))
}

fn u(row: u64, column: u64) -> f64 {
    (row * 1000 + column) as f64
}

#[test]
fn each_rank_reads_its_own_rows_into_the_inside_of_its_ghosts() {
    let counting = Arc::new(Counting::new(Arc::new(Memory::new())));
    let place = Place::over(counting.clone());
    place.run(4, |comm| {
        let session = place.session(SCHEMA, &comm);
        let (first, rows) = share(&comm);
        let mut out = session.open("restart", "r.bp", Mode::Write, comm.duplicate().unwrap()).unwrap();
        out.write_values("rows", &[rows]).unwrap();
        out.write_values("first", &[first]).unwrap();
        out.write_values("seed", &[i64::from(comm.rank()) + 70]).unwrap();
        let values: Vec<f64> = (0..rows as u64 * COLUMNS).map(|i| u(first as u64 + i / COLUMNS, i % COLUMNS)).collect();
        out.write_values("u", &values).unwrap();
        out.close().unwrap();
        session.finalize().unwrap();
    });
    for ranks in [1, 3, 4, 7] {
        counting.take();
        place.run(ranks, |comm| {
            let session = place.session(SCHEMA, &comm);
            let mut input = session.open_to_read("restart", "r.bp", comm.duplicate().unwrap()).unwrap();
            let mut seed = [0; 8];
            input.read("seed", &mut seed).unwrap();
            let mine = if comm.rank() < 4 { comm.rank() } else { 0 };
            assert_eq!(i64::from_ne_bytes(seed), i64::from(mine) + 70);
            let (first, rows) = share(&comm);
            input.set("rows", &rows.to_ne_bytes()).unwrap();
            input.set("first", &first.to_ne_bytes()).unwrap();
            let memory = MemorySelection::ghosts(&[rows as u64, COLUMNS], 2);
            let mut values = vec![-1.0f64; memory.elements().unwrap() as usize];
            let filled = input.read_into("u", bytemuck::cast_slice_mut(&mut values), &memory).unwrap();
            assert_eq!(filled, 8 * memory.elements().unwrap());
            for (i, got) in (0u64..).zip(&values) {
                let (row, column) = (i / (COLUMNS + 4), i % (COLUMNS + 4));
                let inside = (2..rows as u64 + 2).contains(&row) && (2..COLUMNS + 2).contains(&column);
                let wanted = if inside { u(first as u64 + row - 2, column - 2) } else { -1.0 };
                assert_eq!(*got, wanted, "{ranks} ranks, row {row}, column {column}");
            }
            let narrow = MemorySelection::new([rows as u64, COLUMNS], [1, 0]);
            let refused = input.read_into("u", bytemuck::cast_slice_mut(&mut values), &narrow).unwrap_err();
            assert_eq!(refused.kind(), ErrorKind::OutOfBounds);
        });
        let read = counting.counted().object("r.bp").bytes_read;
        let index = u64::from(ranks) * 4096;
        assert!(read <= ROWS * COLUMNS * 8 + index, "{ranks} ranks read {read} bytes");
    }
}
