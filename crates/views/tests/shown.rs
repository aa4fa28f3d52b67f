//! What of a file's variables and attributes other formats get, and the reasons for the rest.

use std::sync::Arc;
use thalweg_comm::{Communicator, threads};
use thalweg_io::{Mode, Session};
use thalweg_layout::{Direct, Layout};
use thalweg_reader::Reader;
use thalweg_store::Memory;
use thalweg_types::{AttributeValue, Value};
use thalweg_views::zarr::references;
use thalweg_views::{Arrays, Content, Pieces};

const XML: &str = r#"<adios-config host-language="C">
  <adios-group name="g">
    <var name="n" type="integer"/>
    <var name="whole" type="integer"/>
    <var name="first" type="integer"/>
    <global-bounds dimensions="whole" offsets="first"><var name="v" type="double" dimensions="n"/></global-bounds>
    <var name="label" type="string"/>
    <attribute name="units" path="/v" value="K" type="string"/>
    <attribute name="title" value="caf&#xE9;" type="string"/>
  </adios-group>
  <method group="g" method="MPI"/>
</adios-config>"#;

/// Ranks that write blocks of these lengths, in two steps.
fn written(lengths: &[i32], label: &[u8]) -> Reader {
    let layout: Arc<dyn Layout> = Arc::new(Direct::new(Arc::new(Memory::new())).unwrap());
    let schema = thalweg_schema::xml::parse(XML, "g.xml").unwrap();
    threads::run(lengths.len() as u32, |comm| {
        let session = Session::with_layout(schema.clone(), layout.clone(), comm.duplicate().unwrap()).unwrap();
        let rank = comm.rank() as usize;
        for mode in [Mode::Write, Mode::Append] {
            let mut output = session.open("g", "x.bp", mode, comm.duplicate().unwrap()).unwrap();
            output.write_values("n", &[lengths[rank]]).unwrap();
            output.write_values("whole", &[lengths.iter().sum::<i32>()]).unwrap();
            output.write_values("first", &[lengths[..rank].iter().sum::<i32>()]).unwrap();
            output.write_values("v", &vec![rank as f64; lengths[rank] as usize]).unwrap();
            output.write("label", label).unwrap();
            output.close().unwrap();
        }
        session.finalize().unwrap();
    });
    Reader::open(layout, "x.bp").unwrap()
}

fn why<'a>(all: &'a Arrays, name: &str) -> Option<&'a str> {
    all.left_out.iter().find(|left| left.name == name).map(|left| left.why.as_str())
}

#[test]
fn blocks_of_one_extent_are_chunks_with_their_attributes() {
    let reader = written(&[4, 4, 3], b"warm");
    let all = Arrays::of(&reader, Pieces::Chunks).unwrap();
    assert_eq!(all.left_out, []);
    let v = all.arrays.iter().find(|array| array.name == "v").unwrap();
    assert_eq!((&v.axes[..], &v.shape[..]), (&["step".to_string(), "dim_0".into()][..], &[2, 11][..]));
    assert_eq!(v.attributes, [("units".to_string(), AttributeValue::One(Value::String(b"K".to_vec())))]);
    let Content::Chunks { extents, chunks, has_holes, .. } = &v.content else { panic!("{v:?}") };
    assert_eq!((&extents[..], chunks.len(), *has_holes), (&[1, 4][..], 6, false));
    for (chunk, number) in chunks.iter().zip([[0, 0], [0, 1], [0, 2], [1, 0], [1, 1], [1, 2]]) {
        let block = &reader.blocks("v", number[0]).unwrap()[number[1] as usize];
        assert_eq!(
            (&chunk.number[..], chunk.bytes.offset, chunk.bytes.length),
            (&number[..], block.payload.offset, 32)
        );
    }
}

#[test]
fn uneven_blocks_and_texts_that_are_not_utf8_are_named_with_the_reason() {
    let all = Arrays::of(&written(&[4, 5], b"\xff\xfe"), Pieces::Chunks).unwrap();
    assert_eq!(why(&all, "v"), Some("block 0 of step 0 has 4 elements along axis 0, other blocks have 5"));
    assert_eq!(why(&all, "label"), Some("in step 0 it is a text that is not UTF-8"));
    let names: Vec<&str> = all.arrays.iter().map(|array| array.name.as_str()).collect();
    assert_eq!(names, ["n", "whole", "first", "step"]);
}

#[test]
fn without_a_url_there_are_no_references_and_with_one_they_are_below_it() {
    let reader = written(&[4, 4], b"warm");
    let e = references(&reader, None).unwrap_err();
    assert_eq!(e.kind(), thalweg_types::ErrorKind::Unsupported);
    assert!(e.to_string().contains("x.bp"), "{e}");
    let view = references(&reader, Some("s3://bucket/x.bp")).unwrap();
    assert_eq!((view.references, view.left_out.len()), (4, 0));
    let text = String::from_utf8(view.json).unwrap();
    assert_eq!(text.matches("[\"s3://bucket/x.bp\",").count(), 4);
}

#[test]
fn no_axis_has_the_name_of_a_group() {
    let layout: Arc<dyn Layout> = Arc::new(Direct::new(Arc::new(Memory::new())).unwrap());
    let xml = r#"<adios-config><adios-group name="g">
        <var name="a" type="integer"/><var name="b" type="integer"/><var name="v" path="/step_1" type="integer"/>
      </adios-group><method group="g" method="MPI"/></adios-config>"#;
    let schema = thalweg_schema::xml::parse(xml, "g.xml").unwrap();
    threads::run(1, |comm| {
        let session = Session::with_layout(schema.clone(), layout.clone(), comm.duplicate().unwrap()).unwrap();
        // Two lists of steps: 0, 1, 2 and 1, 2.
        for (step, mode) in [(0, Mode::Write), (1, Mode::Append), (2, Mode::Append)] {
            let mut output = session.open("g", "x.bp", mode, comm.duplicate().unwrap()).unwrap();
            output.write_values("a", &[step]).unwrap();
            if step > 0 {
                output.write_values("b", &[step]).unwrap();
                output.write_values("/step_1/v", &[step]).unwrap();
            }
            output.close().unwrap();
        }
        session.finalize().unwrap();
    });
    let all = Arrays::of(&Reader::open(layout, "x.bp").unwrap(), Pieces::Chunks).unwrap();
    let axes = |name: &str| all.arrays.iter().find(|array| array.name == name).map(|array| array.axes.clone()).unwrap();
    assert_eq!(
        (axes("a"), axes("b"), axes("step_1/v")),
        (vec!["step".into()], vec!["step_2".into()], vec!["step_2".into()])
    );
    assert!(all.arrays.iter().all(|array| array.name != "step_1"), "a group, and no array");
}
