//! Fourth requirement: the memory of a write may be used again at once; deferred memory is read when the output closes.

use crate::common::*;
use std::sync::Arc;
use thalweg_comm::Communicator;
use thalweg_io::{Mode, WriteRequest};
use thalweg_reader::Reader;
use thalweg_store::memory::Memory;
use thalweg_store::wrap::Counting;
use thalweg_types::Selection;

const LARGE: &str = r#"<adios-config host-language="C">
  <adios-group name="large">
    <var name="n" type="integer"/>
    <var name="x" type="double" dimensions="n"/>
    <var name="promised" type="double" dimensions="n" copy-on-write="no"/>
  </adios-group>
  <method group="large" method="METHOD">PARAMETERS</method>
</adios-config>"#;

#[test]
fn one_buffer_serves_all_writes() {
    for (method, parameters) in [("MPI", ""), ("POSIX", ""), ("POSIX", "direct=1")] {
        for limit in [None, Some(0), Some(100_000)] {
            let place = Place::memory();
            place.run(2, |comm| {
                let document = LARGE.replace("METHOD", method).replace("PARAMETERS", parameters);
                let session = place.session(&document, &comm);
                session.set_buffer_limit(limit);
                let mut output = session.open("large", "x.bp", Mode::Write, comm.duplicate().unwrap()).unwrap();
                let mut buffer = vec![0f64; 5000];
                output.write_values("n", &[5000i32]).unwrap();
                for round in 0..5 {
                    buffer.fill(f64::from(round) + 10.0 * f64::from(comm.rank()));
                    output.write_values("x", &buffer).unwrap();
                    buffer.fill(f64::NAN);
                }
                output.close().unwrap();
            });
            let reader = Reader::open(place.layout.clone(), "x.bp").unwrap();
            let blocks = reader.blocks("x", 0).unwrap();
            assert_eq!(blocks.len(), 10);
            for (number, block) in (0..).zip(blocks) {
                let expected = f64::from(number % 5) + 10.0 * f64::from(number / 5);
                let read = reader.read_as::<f64>("x", 0, &Selection::Block(u64::from(number as u32))).unwrap();
                assert_eq!(read, [expected; 5000], "{method} {parameters} {limit:?}");
                assert_eq!(block.statistics.unwrap().min.as_f64(), Some(expected));
            }
        }
    }
}

#[test]
fn deferred_memory_is_read_at_close_and_no_sooner() {
    for (method, parameters) in [("MPI", ""), ("POSIX", "direct=1")] {
        let store = Arc::new(Counting::new(Arc::new(Memory::new())));
        let place = Place::over(store.clone());
        place.run(1, |comm| {
            let session = place.session(&LARGE.replace("METHOD", method).replace("PARAMETERS", parameters), &comm);
            let values = vec![7.5f64; 1000];
            let mut output = session.open("large", "x.bp", Mode::Write, comm.duplicate().unwrap()).unwrap();
            output.write_values("n", &[1000i32]).unwrap();
            assert!(output.resolve("promised", None, None).unwrap().may_defer());
            assert!(!output.resolve("x", None, None).unwrap().may_defer());
            let used = session.buffer().used();
            output.put(WriteRequest::deferred("promised", bytemuck::cast_slice(&values))).unwrap();
            assert_eq!(session.buffer().used(), used, "nothing was copied");
            assert_eq!(store.counted().total().writes, 0, "nothing was written");
            output.close().unwrap();
        });
        let reader = Reader::open(place.layout.clone(), "x.bp").unwrap();
        assert_eq!(reader.read_as::<f64>("promised", 0, &Selection::All).unwrap(), [7.5; 1000], "{method}");
        assert_eq!(reader.blocks("promised", 0).unwrap()[0].statistics.as_ref().unwrap().sum, 7500.0);
    }
}
