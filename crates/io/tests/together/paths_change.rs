//! A program may write the same variables under one path after the other, as codes with several grids do.

use crate::common::*;
use thalweg_comm::Communicator;
use thalweg_io::Mode;
use thalweg_reader::Reader;
use thalweg_types::Selection;

#[test]
fn variables_written_under_several_paths_are_several_variables() {
    let place = Place::memory();
    place.run(1, |comm| {
        let session = place.session(&heat("MPI", ""), &comm);
        let mut output = session.open("heat", "x.bp", Mode::Write, comm.duplicate().unwrap()).unwrap();
        for (grid, nx) in [("/coarse", 2i32), ("/fine", 3)] {
            output.set_path(grid);
            output.write_values("NX", &[nx]).unwrap();
            output.write_values("mine", &vec![nx as f32; nx as usize]).unwrap();
        }
        output.set_path_of("/local/mine", "/coarse/again").unwrap();
        output.write_values("mine", &[7f32; 3]).unwrap();
        output.close().unwrap();
        session.finalize().unwrap();
    });
    let reader = Reader::open(place.layout.clone(), "x.bp").unwrap();
    for (name, values) in
        [("/coarse/mine", vec![2f32; 2]), ("/fine/mine", vec![3.0; 3]), ("/coarse/again/mine", vec![7.0; 3])]
    {
        let mut read = vec![0f32; values.len()];
        reader.read(name, 0, &Selection::Block(0), bytemuck::cast_slice_mut(&mut read)).unwrap();
        assert_eq!(read, values, "{name}");
    }
    assert!(reader.variable("/local/mine").is_err());
}
