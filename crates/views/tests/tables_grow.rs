//! Tables of references that grow step by step are those that are made of all steps at once, and a step changes the last files alone.

use proptest::prelude::*;
use std::collections::BTreeMap;
use std::sync::Arc;
use thalweg_comm::{Communicator, threads};
use thalweg_io::{BlockBox, Mode, Output, Session, WriteRequest};
use thalweg_layout::{Direct, Layout};
use thalweg_reader::Reader;
use thalweg_store::Memory;
use thalweg_views::zarr::tables::{Change, ROWS, Table, Tabled, Tables};

const XML: &str = r#"<adios-config host-language="C">
  <adios-group name="g">
    <var name="n" type="integer"/>
    <var name="at" type="integer"/>
    <var name="label" type="string"/>
    <global-bounds dimensions="n" offsets="at"><var name="v" type="double" dimensions="n"/></global-bounds>
    <global-bounds dimensions="n" offsets="at"><var name="w" path="/now and then" type="integer" dimensions="n"/></global-bounds>
    <var name="s" path="/now and then" type="double"/>
    <attribute name="units" path="/v" value="K" type="string"/>
    <attribute name="now" path="/v" var="n"/>
  </adios-group>
  <method group="g" method="METHOD"/>
</adios-config>"#;

/// What a step writes.
#[derive(Debug, Clone)]
struct Step {
    /// Elements of `v`, and those of each of its blocks.
    shape: u64,
    blocks: Vec<u64>,
    label: String,
    /// The variables that are not in every step.
    has_others: bool,
}

impl Step {
    fn write(&self, output: &mut Output<'_>, number: i32) {
        output.write_values("n", &[number]).unwrap();
        output.write_values("at", &[0i32]).unwrap();
        output.write("label", self.label.as_bytes()).unwrap();
        let mut at = 0;
        for count in &self.blocks {
            let values = vec![0u8; *count as usize * 8];
            let place = BlockBox { count: vec![*count], shape: Some(vec![self.shape]), offset: Some(vec![at]) };
            output.put(WriteRequest::new("v", &values).in_box(place)).unwrap();
            at += count;
        }
        if self.has_others {
            let place = BlockBox { count: vec![5], shape: Some(vec![5]), offset: Some(vec![0]) };
            output.put(WriteRequest::new("/now and then/w", &[0; 20]).in_box(place)).unwrap();
            output.write_values("/now and then/s", &[f64::from(number)]).unwrap();
        }
    }
}

/// Writes the steps, and hands on the reader after each of them, which has followed since the first one.
fn each_step(method: &str, steps: &[Step], look: impl Fn(&Reader, usize) + Sync) {
    let layout: Arc<dyn Layout> = Arc::new(Direct::new(Arc::new(Memory::new())).unwrap());
    let schema = thalweg_schema::xml::parse(&XML.replace("METHOD", method), "g.xml").unwrap();
    threads::run(1, |comm| {
        let session = Session::with_layout(schema.clone(), layout.clone(), comm.duplicate().unwrap()).unwrap();
        let mut reader: Option<Reader> = None;
        for (number, step) in steps.iter().enumerate() {
            let mode = if number == 0 { Mode::Write } else { Mode::Append };
            let mut output = session.open("g", "x.bp", mode, comm.duplicate().unwrap()).unwrap();
            step.write(&mut output, number as i32);
            output.close().unwrap();
            match &mut reader {
                Some(reader) => assert!(reader.catch_up().unwrap()),
                none => *none = Some(Reader::open(layout.clone(), "x.bp").unwrap()),
            }
            look(reader.as_ref().unwrap(), number);
        }
        session.finalize().unwrap();
    });
}

/// A folder of tables.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
struct Folder {
    files: BTreeMap<(String, u64), Table>,
    metadata: String,
}

impl Folder {
    fn take(&mut self, change: &Change) {
        let files = change.tables.iter().map(|table| ((table.array.clone(), table.number), table.clone()));
        self.files.extend(files);
        self.metadata = change.metadata.clone();
    }
}

const AT: Option<&str> = Some("s3://bucket/x.bp");

/// Tables that grow, and how often they were made anew.
#[derive(Default)]
struct Grown {
    tables: Option<Tables>,
    folder: Folder,
    begun: usize,
}

impl Grown {
    fn advance(&mut self, reader: &Reader) -> Tabled {
        let grown = self.tables.as_mut().and_then(|tables| tables.advance(reader).unwrap());
        let tabled = grown.unwrap_or_else(|| {
            self.begun += 1;
            self.folder = Folder::default();
            let (tables, tabled) = Tables::of(reader, AT).unwrap();
            self.tables = Some(tables);
            tabled
        });
        self.folder.take(&tabled.change);
        tabled
    }
}

fn step() -> impl Strategy<Value = Step> {
    let blocks = prop_oneof![
        8 => Just((300u64, vec![1u64; 300])),
        2 => Just((300, vec![1; 200])),
        1 => Just((300, vec![7; 42])),
        1 => Just((200, vec![1; 200])),
        1 => Just((0, vec![])),
    ];
    (blocks, "[a-z]{0,5}", prop::bool::weighted(0.3)).prop_map(|((shape, blocks), label, has_others)| Step {
        shape,
        blocks,
        label,
        has_others,
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, ..ProptestConfig::default() })]
    #[test]
    fn tables_that_grow_are_those_of_all_steps(
        steps in prop::collection::vec(step(), 1..8), method in prop::sample::select(vec!["MPI", "POSIX"]),
    ) {
        let grown = thalweg_types::mutex::Mutex::new(Grown::default());
        each_step(method, &steps, |reader, _| {
            let mut grown = grown.lock();
            let tabled = grown.advance(reader);
            let (_, fresh) = Tables::of(&Reader::open(reader.layout().clone(), "x.bp").unwrap(), AT).unwrap();
            let mut folder = Folder::default();
            folder.take(&fresh.change);
            assert_eq!(grown.folder, folder);
            assert_eq!((tabled.arrays, tabled.references), (fresh.arrays, fresh.references));
        });
    }
}

fn regular(number: usize) -> Step {
    Step { shape: 100, blocks: vec![25; 4], label: format!("step {number}"), has_others: number.is_multiple_of(10) }
}

#[test]
fn a_step_changes_the_last_file_of_each_array_however_many_are_before() {
    let steps: Vec<Step> = (0..400).map(regular).collect();
    let grown = thalweg_types::mutex::Mutex::new(Grown::default());
    each_step("POSIX", &steps, |reader, number| {
        let mut grown = grown.lock();
        let tabled = grown.advance(reader);
        if number < 11 {
            return;
        }
        // The second step decides on axes of steps; the eleventh brings others to the variables that had one.
        assert_eq!(grown.begun, 3, "step {number}");
        let of = |array: &str| tabled.change.tables.iter().filter(|table| table.array == array).count();
        let last = tabled.change.tables.iter().find(|table| table.array == "v").unwrap();
        assert_eq!((last.number, last.places.len() as u64), (number as u64 * 4 / ROWS, (number as u64 * 4) % ROWS + 4));
        assert_eq!((of("v"), of("n"), of("label"), of("step")), (1, 1, 1, 1));
        let is_theirs = number.is_multiple_of(10) as usize;
        assert_eq!((of("now and then/w"), of("now and then/s"), of("step_1")), (is_theirs, is_theirs, is_theirs));
        let names = || tabled.change.tables.iter().map(|table| &table.array).collect::<Vec<_>>();
        assert_eq!(tabled.change.tables.len(), 5 + 3 * is_theirs, "{:?}", names());
    });
    let grown = grown.lock();
    assert_eq!(grown.folder.files.keys().filter(|(array, _)| array == "v").count() as u64, 1600u64.div_ceil(ROWS));
}

#[test]
fn a_name_that_no_folder_can_have_is_left_out() {
    let layout: Arc<dyn Layout> = Arc::new(Direct::new(Arc::new(Memory::new())).unwrap());
    let xml = r#"<adios-config><adios-group name="g">
        <var name="a" path="/../up" type="integer"/><var name=".zmetadata" type="integer"/><var name="b" path="/x//y" type="integer"/>
        <var name="c" type="integer"/></adios-group><method group="g" method="MPI"/></adios-config>"#;
    let schema = thalweg_schema::xml::parse(xml, "g.xml").unwrap();
    threads::run(1, |comm| {
        let session = Session::with_layout(schema.clone(), layout.clone(), comm.duplicate().unwrap()).unwrap();
        let mut output = session.open("g", "x.bp", Mode::Write, comm.duplicate().unwrap()).unwrap();
        for name in ["/../up/a", ".zmetadata", "/x//y/b", "c"] {
            output.write_values(name, &[1i32]).unwrap();
        }
        output.close().unwrap();
        session.finalize().unwrap();
    });
    let (_, tabled) = Tables::of(&Reader::open(layout, "x.bp").unwrap(), AT).unwrap();
    let names: Vec<&str> = tabled.left_out.iter().map(|left| left.name.as_str()).collect();
    assert_eq!(names, ["../up/a", ".zmetadata", "x//y/b"]);
    let arrays: Vec<&str> = tabled.change.tables.iter().map(|table| table.array.as_str()).collect();
    assert_eq!(arrays, ["c", "step"]);
}
