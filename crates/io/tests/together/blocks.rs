//! A method that takes blocks gets what the program wrote: name, type, shape, bytes, wherever they wait; and writes a file that
//! is no BP file.

use std::io::IoSlice;
use std::sync::Arc;
use thalweg_comm::Communicator;
use thalweg_comm::threads;
use thalweg_conformance::round_trip::in_memory;
use thalweg_io::output::WriteRequest;
use thalweg_io::registry;
use thalweg_io::{Mode, Session};
use thalweg_layout::{Layout, OpenWrite, WriteObject, WriterId};
use thalweg_movement::method::{CloseRequest, MethodKind, Opened, Parameters};
use thalweg_movement::output_file::spill::Spill;
use thalweg_movement::pack::Reach;
use thalweg_movement::pack::blocks::Takes;
use thalweg_movement::{Closed, Method, OpenRequest};
use thalweg_reader::Reader;
use thalweg_schema::Schema;
use thalweg_types::{Error, ErrorKind, MemorySelection, Result, Selection};

/// Every rank writes its blocks into a text file of its own: a line each.
static LINES: MethodKind = MethodKind {
    names: &["LINES"],
    id: 200,
    about: "a text file per rank",
    parameters: &[],
    least: 0,
    tried: &[],
    make: |_: &Parameters| Ok(Box::new(Lines { open: None })),
};

struct Lines {
    open: Option<(Arc<dyn Layout>, String, Spill)>,
}

fn no_output() -> Error {
    Error::new(ErrorKind::InvalidArgument, "no output is open")
}

impl Method for Lines {
    fn name(&self) -> &'static str {
        "LINES"
    }

    fn open(&mut self, request: &OpenRequest<'_>) -> Result<Opened> {
        let spill = Spill::new(request.layout, request.path, request.comm.rank(), 1 << 16, request.buffer);
        self.open = Some((request.layout.clone(), request.path.to_string(), spill));
        Ok(Opened { time_index: 1, first_time: 1, run: request.run, levels: Vec::new() })
    }

    fn takes(&self) -> Takes {
        Takes::Blocks
    }

    fn through(&mut self, _: &Reach) -> Result<(&dyn WriteObject, u64)> {
        Ok((self.open.as_mut().ok_or_else(no_output)?.2.through()?, 0))
    }

    fn close(&mut self, mut request: CloseRequest<'_, '_>) -> Result<Closed> {
        let (layout, path, spill) = self.open.take().ok_or_else(no_output)?;
        let (rank, group) = (request.comm.rank(), request.header.group.clone());
        let encoded = request.pack.is_process_group();
        let mut text = format!("{group}, encoded: {encoded}\n");
        for block in request.blocks(spill.object().map(|object| (object, 0)))? {
            let (spec, values) = (block.spec(), block.values()?);
            assert_eq!(values.len() as u64, block.length()?);
            let shape = spec
                .shape
                .as_ref()
                .map_or(String::new(), |s| format!(" {:?} at {:?} of {:?}", s.local, s.offset, s.global));
            let memory = if block.in_memory().is_some() { "" } else { ", not in memory" };
            let digest = values.iter().fold(0u64, |sum, byte| sum.wrapping_mul(31).wrapping_add(u64::from(*byte)));
            let has = block.statistics().is_some();
            text += &format!(
                "{} {}{shape}: {} bytes, {digest:x}, statistics {has}{memory}\n",
                spec.name,
                spec.element.name(),
                values.len()
            );
        }
        let object = layout.open_write(&format!("{path}.lines.{rank}"), OpenWrite::Replace, WriterId(rank))?;
        object.write_at(0, &[IoSlice::new(text.as_bytes())])?;
        object.close()?;
        Ok(Closed::of(text.len() as u64))
    }
}

fn digest(bytes: &[u8]) -> String {
    format!("{:x}", bytes.iter().fold(0u64, |sum, byte| sum.wrapping_mul(31).wrapping_add(u64::from(*byte))))
}

fn bytes(values: impl Iterator<Item = u32>) -> Vec<u8> {
    values.flat_map(|value| f64::from(value).to_ne_bytes()).collect()
}

const XML: &str = r#"<adios-config host-language="C">
  <adios-group name="g">
    <var name="nx" type="integer"/>
    <var name="empty" type="double" dimensions="0"/>
    <var name="kept" type="double" dimensions="nx" copy-on-write="no"/>
    <global-bounds dimensions="8,nx" offsets="0,0"><var name="t" type="double" dimensions="8,nx" TRANSFORM/></global-bounds>
    <var name="inside" type="double" dimensions="nx,nx"/>
  </adios-group>
  METHODS
</adios-config>"#;

/// What rank 0 of two wrote to its text file, and the layout.
fn lines(transform: &str, methods: &str, buffer: Option<u64>) -> (String, Arc<dyn Layout>) {
    registry::add(&LINES).unwrap();
    let layout = in_memory();
    if methods.contains("bp") {
        layout.make_folder("bp").unwrap();
    }
    let xml = XML.replace("TRANSFORM", transform).replace("METHODS", methods);
    let schema: Schema = thalweg_schema::xml::parse(&xml, "t.xml").unwrap_or_else(|e| panic!("{}", e.render(false)));
    threads::run(2, |comm| {
        let (kept, t, around) = values();
        let session = Session::with_layout(schema.clone(), layout.clone(), comm.duplicate().unwrap()).unwrap();
        session.set_buffer_limit(buffer);
        let mut output = session.open("g", "x", Mode::Write, comm.duplicate().unwrap()).unwrap();
        output.write("nx", &100i32.to_ne_bytes()).unwrap();
        output.write("empty", &[]).unwrap();
        output.put(WriteRequest::deferred("kept", &kept)).unwrap();
        output.write("t", &t).unwrap();
        output.put(WriteRequest::new("inside", &around).out_of(&MemorySelection::new([102, 102], [1, 1]))).unwrap();
        output.close().unwrap();
        session.finalize().unwrap();
    });
    let object = layout.open_read("x.lines.0").unwrap();
    let mut text = vec![0; object.length().unwrap() as usize];
    object.read_exact_at(0, &mut text).unwrap();
    (String::from_utf8(text).unwrap(), layout)
}

/// Of `kept`, `t`, and of the array around `inside`.
fn values() -> (Vec<u8>, Vec<u8>, Vec<u8>) {
    (bytes((0..1000).take(100)), bytes((0..800).map(|i| i / 7)), bytes(0..102 * 102))
}

fn expected(encoded: bool, spilled: bool, transformed: bool) -> String {
    let (kept, t, _) = values();
    let inside = bytes((1..101).flat_map(|row| (1..101).map(move |column| row * 102 + column)));
    let gone = |is: bool| if is { ", not in memory" } else { "" };
    format!(
        "g, encoded: {encoded}\nnx integer: 4 bytes, {}, statistics false{}\nempty double [0] at [1] of [0]: 0 bytes, 0, statistics {}{}\n\
         kept double [100] at [0] of [0]: 800 bytes, {}, statistics true{}\n\
         t double [8, 100] at [0, 0] of [8, 100]: 6400 bytes, {}, statistics true{}\n\
         inside double [100, 100] at [0, 0] of [0, 0]: 80000 bytes, {}, statistics true{}\n",
        digest(&100i32.to_ne_bytes()),
        gone(spilled),
        "EMPTY",
        gone(spilled),
        digest(&kept),
        gone(spilled),
        digest(&t),
        gone(spilled || transformed),
        digest(&inside),
        gone(spilled),
    )
}

#[track_caller]
fn check(found: &str, expected: &str) {
    // Whether an empty block has statistics, and where no bytes are, is not the point.
    let same = |text: &str| {
        text.lines()
            .map(|line| {
                if line.starts_with("empty") { line.split(',').next().unwrap_or(line) } else { line }.to_string()
            })
            .collect::<Vec<_>>()
    };
    assert_eq!(same(found), same(expected));
}

#[test]
fn blocks_come_as_they_were_written_and_nothing_is_encoded() {
    let (text, layout) = lines("transform=\"zlib\"", r#"<method group="g" method="LINES"/>"#, None);
    check(&text, &expected(false, false, false));
    assert_eq!(layout.list("").unwrap(), ["x.lines.0", "x.lines.1"]);
}

#[test]
fn blocks_that_found_no_room_in_the_buffer_come_from_where_they_were_spilled() {
    let (text, layout) = lines("", r#"<method group="g" method="LINES"/>"#, Some(1000));
    check(&text, &expected(false, true, false));
    assert_eq!(layout.list("").unwrap(), ["x.lines.0", "x.lines.1"]);
}

#[test]
fn beside_a_method_that_writes_bp_the_same_blocks_come_with_their_transforms_undone() {
    let methods = r#"<method group="g" method="MPI" base-path="bp"/><method group="g" method="LINES"/>"#;
    for (buffer, spilled) in [(None, false), (Some(1000), true)] {
        // Without room in the buffer no block is transformed either.
        let (text, layout) = lines("transform=\"zlib\"", methods, buffer);
        check(&text, &expected(true, spilled, true));
        let reader = Reader::open(layout, "bp/x").unwrap();
        assert_eq!(reader.read_to_vec("t", 0, &Selection::Block(0)).unwrap(), values().1);
    }
}

#[test]
fn a_method_has_one_name_for_itself() {
    static TAKEN: MethodKind = MethodKind { names: &["OTHER", "posix1"], ..LINES };
    registry::add(&LINES).unwrap();
    registry::add(&LINES).unwrap();
    assert_eq!(registry::add(&TAKEN).unwrap_err().kind(), ErrorKind::Config);
    assert!(registry::find("other").is_none() && registry::find("lines").is_some());
    let suggested = registry::examine(&thalweg_schema::MethodChoice::new("g", "LINE")).remarks;
    assert!(suggested[0].problem.to_string().contains("LINES"), "{:?}", suggested[0].problem);
}
