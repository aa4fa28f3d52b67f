//! One request per write: box, memory selection and deferral go together, and a resolved request tells what it needs.

use crate::common::*;
use thalweg_bp::shape::Shape;
use thalweg_comm::alone::Alone;
use thalweg_io::{BlockBox, Mode, Values, WriteRequest};
use thalweg_reader::Reader;
use thalweg_types::{BoundingBox, ElementType, ErrorKind, MemorySelection, Selection};

const DOCUMENT: &str = r#"<adios-config host-language="C"><adios-group name="g">
    <var name="n" type="integer"/>
    <var name="text" type="string"/>
    <global-bounds dimensions="6,8" offsets="0,0"><var name="v" type="double" dimensions="6,8"/></global-bounds>
    <global-bounds dimensions="n" offsets="0"><var name="named" type="double" dimensions="n"/></global-bounds>
    <var name="promised" path="deep" type="real" dimensions="4" copy-on-write="no"/>
  </adios-group><method group="g" method="MPI"/></adios-config>"#;

#[test]
fn box_memory_selection_and_deferral_go_together() {
    for deferred in [false, true] {
        let place = Place::memory();
        let session = place.session(DOCUMENT, &Alone::new());
        let around: Vec<f64> = (0..5 * 6).map(f64::from).collect();
        let memory = MemorySelection::ghosts(&[3, 4], 1);
        let mut output = session.open("g", "x.bp", Mode::Write, Box::new(Alone::new())).unwrap();
        let at = output.position("v").unwrap();
        let values = bytemuck::cast_slice(&around);
        let values = if deferred { Values::Deferred(values) } else { Values::Copied(values) };
        // No shape: the declared one.
        let corner = BlockBox { count: vec![3, 4], shape: None, offset: Some(vec![2, 4]) };
        output.put(WriteRequest { variable: at.into(), values, place: Some(corner), memory: Some(&memory) }).unwrap();
        output.close().unwrap();
        session.finalize().unwrap();
        let reader = Reader::open(place.layout.clone(), "x.bp").unwrap();
        assert_eq!(reader.shape("v", 0).unwrap(), [6, 8]);
        let corner = Selection::Box(BoundingBox::new([2, 4], [3, 4]));
        let inside = [7, 8, 9, 10, 13, 14, 15, 16, 19, 20, 21, 22].map(f64::from);
        assert_eq!(reader.read_as::<f64>("v", 0, &corner).unwrap(), inside, "deferred: {deferred}");
    }
}

#[test]
fn a_resolved_request_tells_what_it_needs_and_writes_nothing_by_itself() {
    let place = Place::memory();
    let session = place.session(DOCUMENT, &Alone::new());
    let mut output = session.open("g", "x.bp", Mode::Write, Box::new(Alone::new())).unwrap();
    let memory = MemorySelection::ghosts(&[6, 8], 1);
    let v = output.resolve("v", None, Some(&memory)).unwrap();
    assert_eq!((v.bytes().unwrap(), v.element(), v.may_defer()), (Some(8 * 8 * 10), ElementType::F64, false));
    let promised = output.resolve("deep/promised", None, None).unwrap();
    assert_eq!((promised.bytes().unwrap(), promised.name(), promised.may_defer()), (Some(16), "deep/promised", true));
    assert_eq!(output.resolve("text", None, None).unwrap().bytes().unwrap(), None);
    // A dimension counts as it is when the request is resolved.
    assert_eq!(output.resolve("named", None, None).map(drop).unwrap_err().kind(), ErrorKind::InvalidArgument);
    for n in [3, 5] {
        output.write_values("n", &[n]).unwrap();
        assert_eq!(output.resolve("named", None, None).unwrap().bytes().unwrap(), Some(8 * n as u64));
    }
    output.close().unwrap();
    session.finalize().unwrap();
    let reader = Reader::open(place.layout.clone(), "x.bp").unwrap();
    let written: Vec<String> = reader.variables().iter().map(|head| head.name.clone()).collect();
    assert_eq!(written, ["n"]);
}

#[test]
fn a_box_counts_for_its_own_write_alone_and_needs_a_shape_where_names_declare_it() {
    let place = Place::memory();
    let session = place.session(DOCUMENT, &Alone::new());
    let mut output = session.open("g", "x.bp", Mode::Write, Box::new(Alone::new())).unwrap();
    output.write_values("n", &[4]).unwrap();
    let half = |shape| BlockBox { count: vec![2], shape, offset: None };
    let data = [1.0f64, 2.0];
    let request = WriteRequest::new("named", bytemuck::cast_slice(&data));
    let error = output.put(request.clone().in_box(half(None))).unwrap_err();
    assert!(error.to_string().contains("needs that shape"), "{error}");
    let outside = output.put(request.clone().in_box(Shape::global([2], [4], [3]))).unwrap_err();
    assert_eq!(outside.kind(), ErrorKind::OutOfBounds);
    let flat = output.put(request.clone().in_box(Shape::global([1, 2], [1, 4], [0, 0]))).unwrap_err();
    assert_eq!(flat.kind(), ErrorKind::InvalidArgument);
    output.put(request.clone().in_box(half(Some(vec![4])))).unwrap();
    // Without a box the declared extents count again: 4, not 2.
    let short = output.put(request).unwrap_err();
    assert!(short.to_string().contains("16 bytes were given, its dimensions need 32"), "{short}");
    output.close().unwrap();
    session.finalize().unwrap();
    let reader = Reader::open(place.layout.clone(), "x.bp").unwrap();
    assert_eq!(reader.read_as::<f64>("named", 0, &Selection::All).unwrap(), [1.0, 2.0, 0.0, 0.0]);
}
