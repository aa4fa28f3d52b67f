//! Outputs of uneven sizes by one method: some ranks write nothing, one much more than the others, and sizes change from step
//! to step. What every method with subfiles that ranks share has to keep.
#![allow(dead_code)]

use super::common::Place;
use std::ops::Range;
use thalweg_comm::Communicator;
use thalweg_io::{Mode, Session};
use thalweg_reader::{Reader, RecoverOptions, recover, verify};
use thalweg_types::Selection;

/// A group whose arrays are of any size.
pub fn group(method: &str, parameters: &str) -> String {
    format!(
        r#"<adios-config host-language="C">
  <adios-group name="g">
    <var name="n" type="unsigned long"/>
    <var name="data" type="double" dimensions="n"/>
    <var name="sometimes" type="integer"/>
  </adios-group>
  <method group="g" method="{method}">{parameters}</method>
</adios-config>"#
    )
}

pub fn values(rank: u32, step: u64, n: usize) -> Vec<f64> {
    (0..n).map(|i| i as f64 + 1e4 * f64::from(rank) + 1e8 * step as f64).collect()
}

/// Writes one step; a rank without values writes nothing.
pub fn write_step(session: &Session, comm: &dyn Communicator, mode: Mode, step: u64, n: usize) {
    let mut output = session.open("g", "x.bp", mode, comm.duplicate().unwrap()).unwrap();
    assert_eq!(output.step(), step);
    if n > 0 {
        output.write_values("n", &[n as u64]).unwrap();
        output.write_values("data", &values(comm.rank(), step, n)).unwrap();
        if (u64::from(comm.rank()) + step).is_multiple_of(3) {
            output.write_values("sometimes", &[comm.rank() as i32]).unwrap();
        }
    }
    output.close().unwrap();
}

/// How step `step` of a file is opened.
pub fn mode(step: u64) -> Mode {
    if step == 0 { Mode::Write } else { Mode::Append }
}

/// Outputs by one method.
#[derive(Clone, Copy)]
pub struct By(pub &'static str);

impl By {
    /// Writes these steps in one session; a rank writes `count(rank, step)` values.
    pub fn write(
        self,
        place: &Place,
        ranks: u32,
        parameters: &str,
        steps: Range<u64>,
        buffer: Option<u64>,
        count: impl Fn(u32, u64) -> usize + Sync,
    ) {
        place.run(ranks, |comm| {
            let session = place.session(&group(self.0, parameters), &comm);
            session.set_buffer_limit(buffer);
            for step in steps.clone() {
                write_step(&session, &comm, mode(step), step, count(comm.rank(), step));
            }
            session.finalize().unwrap();
        });
    }

    pub fn reads_back_with_a_buffer_smaller_than_the_group_and_leaves_no_spill_file(self, small: &str) {
        let place = Place::memory();
        self.write(&place, 5, small, 0..3, Some(0), uneven(5));
        self.write(&place, 5, "num_files=2", 3..4, Some(3000), uneven(5));
        check(&place, 5, 0..4, uneven(5));
        assert_eq!(place.store.list("").unwrap(), ["x.bp", "x.bp.dir"]);
    }

    pub fn goes_on_with_other_numbers_of_ranks_and_files(self) {
        let place = Place::memory();
        self.write(&place, 8, "num_files=4", 0..2, None, uneven(8));
        self.write(&place, 3, "num_files=2", 2..3, None, uneven(3));
        self.write(&place, 12, "num_files=5", 3..5, None, uneven(12));
        for (steps, ranks) in [(0..2, 8), (2..3, 3), (3..5, 12)] {
            check(&place, ranks, steps, uneven(ranks));
        }
        // A new file has no subfiles of the old one.
        self.write(&place, 3, "num_files=2", 0..1, None, uneven(3));
        assert_eq!(place.store.list("x.bp.dir").unwrap(), ["x.bp.0", "x.bp.1"]);
    }

    pub fn drops_later_steps_from_every_file_when_it_restarts_from_an_earlier_one(self) {
        let place = Place::memory();
        self.write(&place, 6, "num_files=2", 0..4, None, uneven(6));
        place.run(6, |comm| {
            let session = place.session(&group(self.0, "num_files=2"), &comm);
            write_step(&session, &comm, Mode::AppendAfter(1), 2, 3);
            session.finalize().unwrap();
        });
        check(&place, 6, 0..2, uneven(6));
        check(&place, 6, 2..3, |_, _| 3);
        assert_eq!(Reader::open(place.layout.clone(), "x.bp").unwrap().status().steps, 3);
        place.store.remove("x.bp").unwrap();
        recover(&*place.layout, "x.bp", RecoverOptions::default()).unwrap();
        check(&place, 6, 2..3, |_, _| 3);
    }
}

/// All that was written reads back, and the file is sound.
pub fn check(place: &Place, ranks: u32, steps: Range<u64>, count: impl Fn(u32, u64) -> usize) {
    let reader = Reader::open(place.layout.clone(), "x.bp").unwrap();
    assert_eq!((reader.status().torn_bytes, reader.status().finished), (0, true));
    for step in steps {
        let writers: Vec<u32> = (0..ranks).filter(|r| count(*r, step) > 0).collect();
        let blocks = reader.blocks("data", step).unwrap();
        assert_eq!(blocks.len(), writers.len(), "step {step}");
        for (block, rank) in blocks.iter().zip(writers) {
            let read = reader.read_as::<f64>("data", step, &Selection::Block(block.number)).unwrap();
            assert!(read == values(rank, step, count(rank, step)), "step {step}, rank {rank}");
            assert_eq!(reader.writer(block).unwrap(), Some(rank), "step {step}");
        }
    }
    clean(place);
}

pub fn clean(place: &Place) {
    let report = verify(&*place.layout, "x.bp").unwrap();
    assert!(report.is_clean(), "{:?}", report.findings);
}

/// Some ranks write nothing, one much more than the others; sizes change from step to step.
pub fn uneven(ranks: u32) -> impl Fn(u32, u64) -> usize + Sync + Copy {
    move |rank, step| match rank {
        r if r == ranks / 2 => 20_000 + 1000 * step as usize,
        r if r % 5 == 1 => 0,
        r => 10 + (r as usize * 37 + step as usize * 11) % 300,
    }
}
