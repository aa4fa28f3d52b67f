//! Arrays without an element are in the file, as in ADIOS 1.x: with their shape and no value.

use crate::common::*;
use thalweg_comm::Communicator;
use thalweg_io::{Mode, WriteRequest};
use thalweg_reader::{Kind, Reader};
use thalweg_types::Selection;

const DOCUMENT: &str = r#"<adios-config host-language="C"><adios-group name="g">
  <var name="n" type="long"/><var name="total" type="long"/>
  <var name="own" type="double" dimensions="n"/>
  <var name="square" type="integer" dimensions="n,n" transform="TRANSFORM"/>
  <global-bounds dimensions="total" offsets="0"><var name="whole" type="double" dimensions="n"/></global-bounds>
  <global-bounds dimensions="JoinedDim"><var name="joined" type="double" dimensions="n"/></global-bounds>
</adios-group><method group="g" method="METHOD">PARAMETERS</method></adios-config>"#;

#[test]
fn they_are_listed_and_have_no_value() {
    for (method, parameters) in
        [("MPI", ""), ("POSIX", ""), ("MPI_AGGREGATE", "num_aggregators=1"), ("POSIX", "direct=0")]
    {
        for transform in ["none", "zlib"] {
            let document = DOCUMENT.replace("METHOD", method).replace("PARAMETERS", parameters);
            let document = document.replace("TRANSFORM", transform);
            let place = Place::memory();
            place.run(2, |comm| {
                let session = place.session(&document, &comm);
                for step in 0..3 {
                    let mode = if step == 0 { Mode::Write } else { Mode::Append };
                    let mut output = session.open("g", "x.bp", mode, comm.duplicate().unwrap()).unwrap();
                    // Nothing anywhere, then on rank 1 alone, then nothing again.
                    let n = if step == 1 && comm.rank() == 1 { 2i64 } else { 0 };
                    output.write_values("n", &[n]).unwrap();
                    output.write_values("total", &[if step == 1 { 2i64 } else { 0 }]).unwrap();
                    let values = vec![1.5; n as usize];
                    output.write_values("own", &values).unwrap();
                    output.write_values("square", &vec![7i32; (n * n) as usize]).unwrap();
                    output
                        .put(WriteRequest::deferred(
                            "whole",
                            if n > 0 { bytemuck::cast_slice(&[1.5f64, 1.5]) } else { &[] },
                        ))
                        .unwrap();
                    output.write_values("joined", &values).unwrap();
                    output.close().unwrap();
                }
                session.finalize().unwrap();
            });
            let reader = Reader::open(place.layout.clone(), "x.bp").unwrap();
            for (name, kind) in
                [("own", Kind::Local), ("square", Kind::Local), ("whole", Kind::Global), ("joined", Kind::Global)]
            {
                let case = format!("{name} {method} {parameters} {transform}");
                let variable = reader.variable(name).unwrap();
                assert_eq!((variable.kind, variable.steps), (kind, vec![0, 1, 2]), "{case}");
                for step in 0..3 {
                    let blocks = reader.blocks(name, step).unwrap();
                    let dimensions = if name == "square" { 2 } else { 1 };
                    let extents: Vec<_> = blocks.iter().map(|b| b.count.clone()).collect();
                    let second = if step == 1 { 2 } else { 0 };
                    assert_eq!(extents, [vec![0; dimensions], vec![second; dimensions]], "{case} {step}");
                    assert!(blocks.iter().all(|b| b.offset.iter().all(|o| *o == 0)), "{case} {step}");
                    let wanted = second.pow(dimensions as u32) as usize;
                    let read = reader.read_to_vec(name, step, &Selection::Block(1)).unwrap();
                    assert_eq!(read.len(), wanted * variable.element.size() as usize, "{case} {step}");
                    if kind == Kind::Global {
                        assert_eq!(reader.shape(name, step).unwrap(), [second], "{case} {step}");
                        let read = reader.read_as::<f64>(name, step, &Selection::All).unwrap();
                        assert_eq!(read, vec![1.5; wanted], "{case} {step}");
                    }
                }
            }
            let report = thalweg_reader::verify(&*place.layout, "x.bp").unwrap();
            assert!(report.is_clean(), "{method} {transform}: {:?}", report.findings);
        }
    }
}
