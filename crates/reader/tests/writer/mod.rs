//! Files made in memory, through the encoder alone: what a method would write, without one.
#![allow(dead_code)]

use std::sync::Arc;
use thalweg_bp::characteristic::{Location, SINGLE_FILE};
use thalweg_bp::index::Index;
use thalweg_bp::pass;
use thalweg_bp::process_group::{Block, Header, SECTION_HEAD, put_attribute, put_section_head};
use thalweg_bp::shape::Shape;
use thalweg_bp::statistics::Level;
use thalweg_bp::step_record::{self, Groups};
use thalweg_bp::trailer::{self, BlockSum, Trailer};
use thalweg_bp::wire::patch_u64;
use thalweg_layout::{Direct, Layout};
use thalweg_reader::Reader;
use thalweg_store::{Memory, StoreExt};
use thalweg_types::checksum::Crc32c;
use thalweg_types::{AttributeValue, ElementType, Extent, Value};

/// One variable of a process group.
#[derive(Debug, Clone)]
pub struct Variable {
    pub name: String,
    pub path: String,
    pub element: ElementType,
    pub shape: Option<Shape>,
    pub level: Level,
    pub bytes: Vec<u8>,
}

impl Variable {
    pub fn array<T: thalweg_reader::Element>(name: &str, element: ElementType, shape: Shape, values: &[T]) -> Variable {
        let bytes = zerocopy::IntoBytes::as_bytes(values).to_vec();
        Variable { name: name.into(), path: String::new(), element, shape: Some(shape), level: Level::Full, bytes }
    }

    pub fn scalar(name: &str, value: &Value) -> Variable {
        let mut bytes = Vec::new();
        value.append_to(&mut bytes);
        let element = value.element_type();
        Variable { name: name.into(), path: String::new(), element, shape: None, level: Level::Off, bytes }
    }
}

/// What one rank writes in one step.
#[derive(Debug, Clone, Default)]
pub struct Group {
    pub header: Header,
    pub variables: Vec<Variable>,
    pub attributes: Vec<(String, AttributeValue)>,
    pub rank: u32,
    pub ranks: u32,
    pub run: u64,
    /// Without a trailer, as ADIOS 1.13 writes.
    pub foreign: bool,
}

impl Group {
    /// Its bytes at `offset`, and its index.
    pub fn encode(&self, offset: u64, file_index: u32) -> (Vec<u8>, Index) {
        let (mut out, mut index) = (Vec::new(), Index::default());
        let time_index = self.header.time_index;
        self.header.encode(&mut out);
        index.add_process_group(&self.header, self.rank, offset);
        let section = out.len();
        out.extend([0; SECTION_HEAD]);
        let mut blocks = Vec::new();
        for (i, v) in self.variables.iter().enumerate() {
            let record = out.len() as u64;
            let digest = pass::look(&v.bytes, v.element, v.level);
            let block = Block {
                id: i as u32 + 1,
                name: &v.name,
                path: &v.path,
                element: v.element,
                is_dimension: false,
                shape: v.shape.as_ref(),
                level: v.level,
                statistics: digest.statistics.as_ref(),
                transform: None,
                payload: v.bytes.len() as u64,
            };
            block.encode(&mut out);
            let payload = out.len() as u64;
            blocks.push(BlockSum { payload: Extent::new(payload, v.bytes.len() as u64), crc: digest.crc });
            let at =
                Location { record_offset: offset + record, payload_offset: offset + payload, file_index, time_index };
            let value = Value::from_bytes(v.element, &v.bytes, thalweg_types::ByteOrder::NATIVE);
            index.add_block(&self.header.group, &block, at, value.as_ref().filter(|_| v.shape.is_none())).unwrap();
            out.extend(&v.bytes);
        }
        let length = (out.len() - section) as u64;
        put_section_head(&mut out, section, self.variables.len() as u32, length);
        let section = out.len();
        out.extend([0; SECTION_HEAD]);
        for (i, (name, value)) in self.attributes.iter().enumerate() {
            let (id, record) = (100 + i as u32, out.len() as u64);
            put_attribute(&mut out, id, name, "", value);
            let at = Location {
                record_offset: offset + record,
                payload_offset: offset + out.len() as u64,
                file_index,
                time_index,
            };
            index.add_attribute(&self.header.group, id, "", name, value, at).unwrap();
        }
        let length = (out.len() - section) as u64;
        put_section_head(&mut out, section, self.attributes.len() as u32, length);
        if self.foreign {
            let length = out.len() as u64;
            patch_u64(&mut out, 0, length);
            return (out, index);
        }
        let length = out.len() as u64 + trailer::length(blocks.len());
        patch_u64(&mut out, 0, length);
        let mut framing = Crc32c::new();
        let mut at = 0;
        for b in &blocks {
            framing.update(&out[at..b.payload.offset as usize]);
            at = (b.payload.offset + b.payload.length) as usize;
        }
        framing.update(&out[at..]);
        Trailer {
            run: self.run,
            group: Extent::new(offset, length),
            rank: self.rank,
            ranks: self.ranks,
            time_index,
            file_index,
            framing: framing.finish(),
            blocks,
        }
        .encode(&mut out);
        (out, index)
    }
}

/// What follows the process groups of a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// A full index.
    Full,
    /// A step record.
    Record,
    /// A full index, no step will come.
    Finished,
    /// Nothing: the step is not closed.
    Open,
}

/// A single file that grows.
#[derive(Debug, Clone, Default)]
pub struct File {
    pub bytes: Vec<u8>,
    pub index: Index,
    pub end: u64,
    pub records: u32,
    /// After how many bytes each step was closed.
    pub closed: Vec<u64>,
}

impl File {
    pub fn step(&mut self, groups: &[Group], ending: Ending) {
        let mut step = Index::default();
        for group in groups {
            let (bytes, index) = group.encode(self.bytes.len() as u64, SINGLE_FILE);
            self.bytes.extend(bytes);
            step.append_fragment(&index.to_fragment()).unwrap();
        }
        let at = self.bytes.len() as u64;
        let fragment = step.to_fragment();
        match ending {
            Ending::Open => return,
            Ending::Record => {
                self.records += 1;
                self.bytes.extend(step_record::encode(&step, at, self.end, 7, self.records, Groups::Here));
                self.index.append_fragment(&fragment).unwrap();
            }
            _ => {
                self.index.append_fragment(&fragment).unwrap();
                self.records = 0;
                let finished = ending == Ending::Finished;
                self.bytes.extend(self.index.encode(at, false, finished).unwrap().to_bytes());
            }
        }
        self.end = self.bytes.len() as u64;
        self.closed.push(self.end);
    }
}

/// A metadata file and a subfile per rank.
#[derive(Debug, Clone, Default)]
pub struct Subfiles {
    pub metadata: Vec<u8>,
    pub parts: Vec<Vec<u8>>,
    pub index: Index,
    pub records: u32,
}

impl Subfiles {
    pub fn step(&mut self, groups: &[Group], ending: Ending) {
        self.parts.resize(self.parts.len().max(groups.len()), Vec::new());
        let mut step = Index::default();
        for group in groups {
            let part = &mut self.parts[group.rank as usize];
            let (bytes, index) = group.encode(part.len() as u64, group.rank);
            part.extend(bytes);
            step.append_fragment(&index.to_fragment()).unwrap();
        }
        let (at, fragment) = (self.metadata.len() as u64, step.to_fragment());
        if ending == Ending::Open {
            return;
        }
        self.index.append_fragment(&fragment).unwrap();
        if ending == Ending::Record {
            self.records += 1;
            self.metadata.extend(step_record::encode(&step, at, at, 7, self.records, Groups::Elsewhere));
        } else {
            self.records = 0;
            let finished = ending == Ending::Finished;
            self.metadata.extend(self.index.encode(at, true, finished).unwrap().to_bytes());
        }
    }

    /// Name and bytes of each object.
    pub fn objects(&self, name: &str) -> Vec<(String, Vec<u8>)> {
        let last = name.rsplit('/').next().unwrap();
        let parts = self.parts.iter().enumerate().map(|(k, p)| (format!("{name}.dir/{last}.{k}"), p.clone()));
        [(name.to_string(), self.metadata.clone())].into_iter().chain(parts).collect()
    }

    pub fn stored_as(&self, name: &str) -> (Memory, Arc<dyn Layout>) {
        let objects = self.objects(name);
        holding(&objects.iter().map(|(n, b)| (n.as_str(), b.as_slice())).collect::<Vec<_>>())
    }
}

pub fn header(group: &str, step: u32) -> Header {
    Header { group: group.into(), time_index: step + 1, ..Header::default() }
}

/// The value of element (row, column) of `field` at a step.
pub fn field(step: u32, row: u64, column: u64) -> f64 {
    f64::from(step) * 1000.0 + row as f64 * 10.0 + column as f64
}

/// A field of 5 columns cut by rows, two a rank; a scalar, a text, a complex local array, large whole numbers; an attribute.
pub fn groups(step: u32, ranks: u32) -> Vec<Group> {
    (0..ranks)
        .map(|rank| {
            let first = 2 * u64::from(rank);
            let values: Vec<f64> = (0..10).map(|i| field(step, first + i / 5, i % 5)).collect();
            let complex: Vec<[f64; 2]> = (0..3).map(|i| [f64::from(step), f64::from(i * rank)]).collect();
            Group {
                header: header("physics", step),
                variables: vec![
                    Variable::array(
                        "field",
                        ElementType::F64,
                        Shape::global([2, 5], [2 * u64::from(ranks), 5], [first, 0]),
                        &values,
                    ),
                    Variable::scalar("step", &Value::I32(step as i32)),
                    Variable::scalar("label", &Value::String(format!("rank {rank}, step {step}").into_bytes())),
                    Variable::array("wave", ElementType::DoubleComplex, Shape::local([3]), &complex),
                    Variable::array("large", ElementType::U64, Shape::local([2]), &[u64::MAX, u64::from(step)]),
                ],
                attributes: vec![
                    ("units".into(), AttributeValue::One(Value::String(b"K".to_vec()))),
                    ("now".into(), AttributeValue::Variable(2)),
                ],
                rank,
                ranks,
                run: 7,
                foreign: false,
            }
        })
        .collect()
}

/// A store in memory with this file, as a layout.
pub fn holding(files: &[(&str, &[u8])]) -> (Memory, Arc<dyn Layout>) {
    let memory = Memory::new();
    for (name, bytes) in files {
        if let Some((folder, _)) = name.rsplit_once('/') {
            thalweg_store::Store::make_folder(&memory, folder).unwrap();
        }
        memory.write_all(name, bytes).unwrap();
    }
    let layout = Direct::new(Arc::new(memory.clone())).unwrap();
    (memory, Arc::new(layout))
}

pub fn open(layout: &Arc<dyn Layout>, path: &str) -> thalweg_types::Result<Reader> {
    Reader::open(layout.clone(), path)
}

/// Compares everything in steps `0..steps`, and no more where there is more, with what [`groups`] wrote.
pub fn check_steps(reader: &Reader, steps: u32, ranks: u32) {
    use thalweg_types::Selection;
    for step in 0..steps {
        let at = u64::from(step);
        let got: Vec<f64> = reader.read_as("field", at, &Selection::All).unwrap();
        let wanted: Vec<f64> = (0..10 * u64::from(ranks)).map(|i| field(step, i / 5, i % 5)).collect();
        assert_eq!(got, wanted, "step {step}");
        assert_eq!(reader.value("step", at).unwrap(), Value::I32(step as i32));
        for rank in 0..ranks {
            let text = reader.read_to_vec("label", at, &Selection::Block(rank.into())).unwrap();
            assert_eq!(text, format!("rank {rank}, step {step}").as_bytes());
            let wave: Vec<[f64; 2]> = reader.read_as("wave", at, &Selection::Block(rank.into())).unwrap();
            assert_eq!(wave[2], [f64::from(step), f64::from(2 * rank)]);
            let block = &reader.blocks("wave", at).unwrap()[rank as usize];
            let parts = block.statistics.as_ref().unwrap().complex.unwrap();
            assert_eq!((parts[1].max, parts[2].max), (f64::from(step), f64::from(2 * rank)));
            let large = &reader.blocks("large", at).unwrap()[rank as usize];
            let sum = large.statistics.as_ref().unwrap().exact_sum;
            assert_eq!(sum, Some(i128::from(u64::MAX) + i128::from(step)));
        }
    }
    let written = reader.variable("field").unwrap().steps;
    assert!(written.starts_with(&(0..u64::from(steps)).collect::<Vec<_>>()), "{written:?}");
}
