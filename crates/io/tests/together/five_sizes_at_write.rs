//! Third requirement: sizes are known only when an array is written; they differ by rank and step.

use crate::common::*;
use thalweg_comm::Communicator;
use thalweg_io::Mode;
use thalweg_reader::Reader;
use thalweg_types::{ErrorKind, Selection};

const PARTICLES: &str = r#"<adios-config host-language="C">
  <adios-group name="particles">
    <var name="many" type="long"/><var name="before" type="long"/><var name="total" type="long"/>
    <var name="width" type="unsigned short"/>
    <attribute name="extra" type="integer" value="1"/>
    <global-bounds dimensions="total,2*width+extra" offsets="before,0">
      <var name="x" type="double" dimensions="many,2*width+extra"/>
    </global-bounds>
    <var name="names" type="byte" dimensions="many"/>
  </adios-group>
  <method group="particles" method="METHOD"/>
</adios-config>"#;

/// How many a rank has in a step; sometimes none.
fn many(rank: u32, step: u64) -> u64 {
    (u64::from(rank) * 7 + step * 3) % 5
}

#[test]
fn shapes_change_with_rank_and_step() {
    for method in ["MPI", "POSIX"] {
        let place = Place::memory();
        let ranks = 4u32;
        let width = |step: u64| 1 + step % 3;
        let columns = |step: u64| 2 * width(step) + 1;
        let value = |rank: u32, step: u64, i: u64| f64::from(rank) * 1000.0 + step as f64 * 100.0 + i as f64;
        place.run(ranks, |comm| {
            let session = place.session(&PARTICLES.replace("METHOD", method), &comm);
            let rank = comm.rank();
            for step in 0..6u64 {
                let mode = if step == 0 { Mode::Write } else { Mode::Append };
                let mut output = session.open("particles", "p.bp", mode, comm.duplicate().unwrap()).unwrap();
                let before: u64 = (0..rank).map(|r| many(r, step)).sum();
                let total: u64 = (0..ranks).map(|r| many(r, step)).sum();
                output.write_values("many", &[many(rank, step)]).unwrap();
                output.write_values("before", &[before]).unwrap();
                output.write_values("total", &[total]).unwrap();
                output.write_values("width", &[width(step) as u16]).unwrap();
                let n = many(rank, step) * columns(step);
                assert_eq!(output.resolve("x", None, None).unwrap().bytes().unwrap(), Some(8 * n));
                output.write_values("x", &(0..n).map(|i| value(rank, step, i)).collect::<Vec<_>>()).unwrap();
                output.write_values("names", &vec![rank as i8; many(rank, step) as usize]).unwrap();
                output.close().unwrap();
            }
            session.finalize().unwrap();
        });
        let reader = Reader::open(place.layout.clone(), "p.bp").unwrap();
        for step in 0..6u64 {
            let total: u64 = (0..ranks).map(|r| many(r, step)).sum();
            assert_eq!(reader.shape("x", step).unwrap(), [total, columns(step)], "{method} step {step}");
            let expected: Vec<f64> =
                (0..ranks).flat_map(|r| (0..many(r, step) * columns(step)).map(move |i| value(r, step, i))).collect();
            assert_eq!(reader.read_as::<f64>("x", step, &Selection::All).unwrap(), expected, "{method} step {step}");
            let names: Vec<u64> = reader.blocks("names", step).unwrap().iter().map(|b| b.count[0]).collect();
            let written: Vec<u64> = (0..ranks).map(|r| many(r, step)).collect();
            assert_eq!(names, written);
        }
    }
}

#[test]
fn a_dimension_may_change_between_two_arrays_of_one_output() {
    let place = Place::memory();
    place.run(1, |comm| {
        let session = place.session(&PARTICLES.replace("METHOD", "MPI"), &comm);
        let mut output = session.open("particles", "p.bp", Mode::Write, comm.duplicate().unwrap()).unwrap();
        for n in [3u64, 1, 2] {
            output.write_values("many", &[n]).unwrap();
            output.write_values("names", &vec![n as i8; n as usize]).unwrap();
        }
        output.close().unwrap();
    });
    let reader = Reader::open(place.layout.clone(), "p.bp").unwrap();
    for (number, n) in [(0, 3), (1, 1), (2, 2)] {
        assert_eq!(reader.read_as::<i8>("names", 0, &Selection::Block(number)).unwrap(), vec![n; n as usize]);
    }
}

#[test]
fn a_mistake_with_sizes_is_told_at_the_write_and_costs_nothing() {
    let place = Place::memory();
    place.run(1, |comm| {
        let session = place.session(&PARTICLES.replace("METHOD", "MPI"), &comm);
        let mut output = session.open("particles", "p.bp", Mode::Write, comm.duplicate().unwrap()).unwrap();
        let too_early = output.write_values("names", &[1i8]).unwrap_err();
        assert_eq!(too_early.kind(), ErrorKind::InvalidArgument);
        assert!(too_early.to_string().contains("\"many\" was not written before the array"), "{too_early}");
        output.write_values("many", &[2u64]).unwrap();
        let wrong = output.write_values("names", &[1i8, 2, 3]).unwrap_err();
        assert!(wrong.to_string().contains("3 bytes were given, its dimensions need 2"), "{wrong}");
        let unknown = output.write_values("nmaes", &[1i8]).unwrap_err();
        assert!(unknown.to_string().contains("did you mean \"names\"?"), "{unknown}");
        output.write_values("total", &[2u64]).unwrap();
        output.write_values("before", &[1u64]).unwrap();
        output.write_values("width", &[1u16]).unwrap();
        let outside = output.write_values("x", &[0.0f64; 6]).unwrap_err();
        assert_eq!(outside.kind(), ErrorKind::OutOfBounds);
        output.write_values("names", &[5i8, 6]).unwrap();
        output.close().unwrap();
    });
    let reader = Reader::open(place.layout.clone(), "p.bp").unwrap();
    assert_eq!(reader.read_as::<i8>("names", 0, &Selection::All).unwrap(), [5, 6]);
}
