//! Second requirement: any variable may be left out, on any rank and in any step.

use crate::common::*;
use thalweg_comm::Communicator;
use thalweg_io::Mode;
use thalweg_reader::Reader;
use thalweg_types::Selection;

#[test]
fn every_rank_and_step_writes_another_choice_of_the_variables() {
    for method in ["MPI", "POSIX"] {
        let place = Place::memory();
        let ranks = 5u32;
        // Whether a rank writes in a step: the local array, the global one; rank 4 writes nothing at all.
        let writes = |rank: u32, step: u64, what: u64| rank < 4 && (u64::from(rank) + step + what).is_multiple_of(3);
        place.run(ranks, |comm| {
            let session = place.session(&heat(method, ""), &comm);
            let rank = comm.rank();
            for step in 0..4u64 {
                let mode = if step == 0 { Mode::Write } else { Mode::Append };
                let mut output = session.open("heat", "x.bp", mode, comm.duplicate().unwrap()).unwrap();
                if rank < 4 {
                    output.write_values("NX", &[2i32]).unwrap();
                    output.write_values("ranks", &[ranks as i32]).unwrap();
                    output.write_values("rank", &[rank as i32]).unwrap();
                }
                if writes(rank, step, 0) {
                    output.write_values("mine", &[rank as f32 + 10.0 * step as f32; 2]).unwrap();
                }
                if writes(rank, step, 1) {
                    output.write_values("t", &t(rank, step, 2)).unwrap();
                }
                output.close().unwrap();
            }
            session.finalize().unwrap();
        });
        let reader = Reader::open(place.layout.clone(), "x.bp").unwrap();
        assert_eq!(reader.status().steps, 4);
        assert!(reader.status().partial.is_empty(), "a rank that writes nothing is no failure");
        assert_eq!(reader.status().process_groups, 20, "{method}");
        for step in 0..4u64 {
            let of = |what| (0..ranks).filter(move |r| writes(*r, step, what)).collect::<Vec<u32>>();
            let mine = reader.blocks("/local/mine", step).unwrap();
            assert_eq!(mine.len(), of(0).len(), "{method} step {step}");
            for (number, rank) in (0..).zip(of(0)) {
                let read = reader.read_as::<f32>("/local/mine", step, &Selection::Block(number)).unwrap();
                assert_eq!(read, [rank as f32 + 10.0 * step as f32; 2]);
            }
            for block in reader.blocks("t", step).unwrap() {
                let rank = block.offset[0] as u32;
                assert!(of(1).contains(&rank));
                let read = reader.read_as::<f64>("t", step, &Selection::Block(block.number)).unwrap();
                assert_eq!(read, t(rank, step, 2));
            }
            assert_eq!(reader.blocks("t", step).unwrap().len(), of(1).len());
        }
    }
}

#[test]
fn a_step_in_which_nobody_writes_anything_is_a_step() {
    for method in ["MPI", "POSIX"] {
        let place = Place::memory();
        place.run(2, |comm| {
            let session = place.session(&heat(method, ""), &comm);
            write_heat(&session, "x.bp", Mode::Write, &comm, 0);
            session.open("heat", "x.bp", Mode::Append, comm.duplicate().unwrap()).unwrap().close().unwrap();
            write_heat(&session, "x.bp", Mode::Append, &comm, 2);
            session.finalize().unwrap();
        });
        let reader = Reader::open(place.layout.clone(), "x.bp").unwrap();
        assert_eq!(reader.variable("t").unwrap().steps, [0, 2], "{method}");
        assert_eq!(read_heat(&place.layout, "x.bp", 2), all_of_t(2, 2));
    }
}
