//! Files made with nothing but the encoders, and things to put in them.
#![allow(dead_code)]

use proptest::prelude::*;
use thalweg_bp::characteristic::{Location, SINGLE_FILE};
use thalweg_bp::index::Index;
use thalweg_bp::pass;
use thalweg_bp::process_group::{self, Block, Header, SECTION_HEAD};
use thalweg_bp::shape::Shape;
use thalweg_bp::statistics::Level;
use thalweg_bp::step_record::{self, Groups};
use thalweg_bp::trailer::{self, BlockSum, Trailer};
use thalweg_bp::wire::patch_u64;
use thalweg_types::checksum::{Crc32c, crc32c};
use thalweg_types::{AttributeValue, ByteOrder, ElementType, Extent, Value};

/// A block and its values.
#[derive(Debug, Clone)]
pub struct Data {
    pub id: u32,
    pub name: String,
    pub path: String,
    pub element: ElementType,
    pub shape: Option<Shape>,
    pub level: Level,
    pub bytes: Vec<u8>,
}

impl Data {
    pub fn value(&self) -> Option<Value> {
        match self.shape {
            None => Value::from_bytes(self.element, &self.bytes, ByteOrder::NATIVE),
            Some(_) => None,
        }
    }
}

#[derive(Debug, Clone)]
pub struct Attribute {
    pub id: u32,
    pub name: String,
    pub path: String,
    pub value: AttributeValue,
}

/// What one rank writes of a group in one step.
#[derive(Debug, Clone)]
pub struct Group {
    pub header: Header,
    pub rank: u32,
    pub ranks: u32,
    pub run: u64,
    pub blocks: Vec<Data>,
    pub attributes: Vec<Attribute>,
}

pub fn header(group: &str, time_index: u32) -> Header {
    Header { group: group.into(), time_index, methods: vec![(0, "MPI".into())], ..Header::default() }
}

/// Appends a process group to a file; returns its index.
pub fn append_group(file: &mut Vec<u8>, group: &Group) -> Index {
    append_group_of(file, 0, group)
}

/// As [`append_group`], to bytes of a file from byte `from` on.
pub fn append_group_of(file: &mut Vec<u8>, from: u64, group: &Group) -> Index {
    let start = from + file.len() as u64;
    let mut index = Index::default();
    index.add_process_group(&group.header, group.rank, start);
    let mut out = Vec::new();
    group.header.encode(&mut out);
    let section = out.len();
    out.extend_from_slice(&[0; SECTION_HEAD]);
    let mut sums = Vec::new();
    let at = |record: usize, payload: usize| Location {
        record_offset: start + record as u64,
        payload_offset: start + payload as u64,
        file_index: SINGLE_FILE,
        time_index: group.header.time_index,
    };
    for data in &group.blocks {
        let level = if data.shape.is_some() { data.level } else { Level::Off };
        let digest = pass::look(&data.bytes, data.element, level);
        let block = Block {
            id: data.id,
            name: &data.name,
            path: &data.path,
            element: data.element,
            is_dimension: false,
            shape: data.shape.as_ref(),
            level: data.level,
            statistics: digest.statistics.as_ref(),
            transform: None,
            payload: data.bytes.len() as u64,
        };
        let record = out.len();
        block.encode(&mut out);
        let payload = out.len();
        out.extend_from_slice(&data.bytes);
        sums.push(BlockSum { payload: Extent::new(payload as u64, data.bytes.len() as u64), crc: crc32c(&data.bytes) });
        index.add_block(&group.header.group, &block, at(record, payload), data.value().as_ref()).unwrap();
    }
    let length = (out.len() - section) as u64;
    process_group::put_section_head(&mut out, section, group.blocks.len() as u32, length);
    let section = out.len();
    out.extend_from_slice(&[0; SECTION_HEAD]);
    for a in &group.attributes {
        let record = out.len();
        process_group::put_attribute(&mut out, a.id, &a.name, &a.path, &a.value);
        index.add_attribute(&group.header.group, a.id, &a.path, &a.name, &a.value, at(record, out.len())).unwrap();
    }
    let length = (out.len() - section) as u64;
    process_group::put_section_head(&mut out, section, group.attributes.len() as u32, length);
    let length = out.len() as u64 + trailer::length(sums.len());
    patch_u64(&mut out, 0, length);
    let mut framing = Crc32c::new();
    let mut done = 0;
    for s in &sums {
        framing.update(&out[done..s.payload.offset as usize]);
        done = s.payload.end().unwrap() as usize;
    }
    framing.update(&out[done..]);
    Trailer {
        run: group.run,
        group: Extent::new(start, length),
        rank: group.rank,
        ranks: group.ranks,
        time_index: group.header.time_index,
        file_index: SINGLE_FILE,
        framing: framing.finish(),
        blocks: sums,
    }
    .encode(&mut out);
    file.extend_from_slice(&out);
    index
}

/// A file being extended: what `movement` does, without any file.
#[derive(Default)]
pub struct File {
    pub bytes: Vec<u8>,
    /// Everything so far.
    pub index: Index,
    /// What no full index or step record holds yet.
    pub step: Index,
    /// First byte behind the last index or step record.
    pub end: u64,
    pub records: u32,
}

impl File {
    pub fn add(&mut self, group: &Group) {
        let fragment = append_group(&mut self.bytes, group).to_fragment();
        self.index.append_fragment(&fragment).unwrap();
        self.step.append_fragment(&fragment).unwrap();
    }

    pub fn full_index(&mut self, finished: bool) {
        let start = self.bytes.len() as u64;
        let encoded = self.index.encode(start, false, finished).unwrap().to_bytes();
        self.bytes.extend_from_slice(&encoded);
        self.end = self.bytes.len() as u64;
        self.step = Index::default();
        self.records = 0;
    }

    pub fn step_record(&mut self, groups: Groups) {
        self.records += 1;
        let start = self.bytes.len() as u64;
        let record = step_record::encode(&self.step, start, self.end, 7, self.records, groups);
        self.bytes.extend_from_slice(&record);
        self.end = self.bytes.len() as u64;
        self.step = Index::default();
    }
}

/// Four steps of two ranks: a full index behind the first, step records behind two, a full index at the end.
pub fn small_file(finished: bool) -> File {
    small_file_with(finished, Groups::Here)
}

/// As [`small_file`]: step records that refer to the groups in front of them, or contain all entries.
pub fn small_file_with(finished: bool, groups: Groups) -> File {
    let mut file = File::default();
    for step in 0..4u32 {
        for rank in 0..2u32 {
            file.add(&small_group(step, rank));
        }
        match step {
            0 => file.full_index(false),
            3 => file.full_index(finished),
            _ => file.step_record(groups),
        }
    }
    file
}

/// One rank's part of a small step, made of numbers that are exact everywhere.
pub fn small_group(step: u32, rank: u32) -> Group {
    let data = |id, name: &str, element, shape, bytes| Data {
        id,
        name: name.into(),
        path: "/fields".into(),
        element,
        shape,
        level: Level::Full,
        bytes,
    };
    let v: Vec<u8> =
        (0..6).flat_map(|i| (f64::from(i) + 10.0 * f64::from(step) + 0.5 * f64::from(rank)).to_ne_bytes()).collect();
    let z: Vec<u8> = (1..5).flat_map(|i| [3.0f32 * i as f32, -4.0 * i as f32]).flat_map(f32::to_ne_bytes).collect();
    let big = [i64::MAX, i64::MAX - 1, step as i64].iter().flat_map(|v| v.to_ne_bytes()).collect();
    let text = |t: &str| AttributeValue::One(Value::String(t.into()));
    Group {
        header: header("heat", step + 1),
        rank,
        ranks: 2,
        run: 0x0123_4567_89ab_cdef,
        blocks: vec![
            data(0, "nx", ElementType::I32, None, 6i32.to_ne_bytes().to_vec()),
            data(1, "note", ElementType::String, None, format!("step {step}").into_bytes()),
            data(2, "v", ElementType::F64, Some(Shape::global([1, 6], [2, 6], [u64::from(rank), 0])), v),
            data(3, "z", ElementType::Complex, Some(Shape::local([4])), z),
            data(4, "big", ElementType::I64, Some(Shape::local([3])), big),
        ],
        attributes: if step == 0 && rank == 0 {
            vec![
                Attribute { id: 5, name: "units".into(), path: "/fields/v".into(), value: text("K") },
                Attribute {
                    id: 6,
                    name: "limits".into(),
                    path: "".into(),
                    value: AttributeValue::Many(ElementType::F64, vec![Value::F64(-1.5), Value::F64(2.0)]),
                },
                Attribute {
                    id: 7,
                    name: "authors".into(),
                    path: "".into(),
                    value: AttributeValue::Many(
                        ElementType::String,
                        vec![Value::String("Ada".into()), Value::String("".into())],
                    ),
                },
                Attribute { id: 8, name: "points".into(), path: "".into(), value: AttributeValue::Variable(0) },
            ]
        } else {
            vec![]
        },
    }
}

/// Types that blocks are written with.
pub fn element() -> impl Strategy<Value = ElementType> {
    let written = ElementType::ALL.into_iter().filter(|t| !matches!(t, ElementType::StringArray | ElementType::Char));
    prop::sample::select(written.collect::<Vec<_>>())
}

pub fn name() -> impl Strategy<Value = String> {
    prop_oneof!["[a-z]{1,8}", "\\PC{1,12}", Just("x".repeat(5000))]
}

fn shape() -> impl Strategy<Value = Shape> {
    prop::collection::vec((0u64..4, 0u64..1 << 40, 0u64..1 << 40, any::<bool>()), 1..8).prop_map(|d| {
        let global = d[0].3;
        Shape {
            local: d.iter().map(|d| d.0).collect(),
            global: d.iter().map(|d| if global { d.1 + 4 } else { 0 }).collect(),
            offset: d.iter().map(|d| if global { d.2 } else { 0 }).collect(),
        }
    })
}

/// Bytes of so many values; real ones are any pattern of bits.
fn values(element: ElementType, n: u64) -> impl Strategy<Value = Vec<u8>> {
    let n = (n * element.size()) as usize;
    prop_oneof![
        prop::collection::vec(any::<u8>(), n),
        Just(vec![0xff; n]),
        // Small numbers, so that not everything is a NaN or an outlier.
        prop::collection::vec(0u8..4, n),
    ]
}

pub fn block() -> impl Strategy<Value = Data> {
    let level = prop::sample::select(Level::ALL.to_vec());
    (element(), prop::option::of(shape()), level, name(), name(), any::<u32>()).prop_flat_map(
        |(element, shape, level, name, path, id)| {
            let shape = shape.filter(|_| !element.is_text());
            let bytes = match (&shape, element) {
                (None, ElementType::String) => prop::collection::vec(any::<u8>(), 0..300).boxed(),
                (None, t) => values(t, 1).boxed(),
                (Some(s), t) => values(t, s.elements().unwrap()).boxed(),
            };
            bytes.prop_map(move |bytes| Data {
                id,
                name: name.clone(),
                path: path.clone(),
                element,
                shape: shape.clone(),
                level,
                bytes,
            })
        },
    )
}

pub fn attribute_value() -> impl Strategy<Value = AttributeValue> {
    let one = |t: ElementType| {
        let bytes = match t {
            ElementType::String => prop::collection::vec(any::<u8>(), 0..40).boxed(),
            t => values(t, 1).boxed(),
        };
        bytes.prop_map(move |b| Value::from_bytes(t, &b, ByteOrder::NATIVE).unwrap())
    };
    prop_oneof![
        any::<u32>().prop_map(AttributeValue::Variable),
        element().prop_flat_map(one).prop_map(AttributeValue::One),
        // An array of one value reads back as that value, except of texts.
        element().prop_flat_map(move |t| prop::collection::vec(one(t), if t.is_text() { 0 } else { 2 }..6)
            .prop_map(move |v| AttributeValue::Many(t, v))),
    ]
}

pub fn attribute() -> impl Strategy<Value = Attribute> {
    (any::<u32>(), name(), name(), attribute_value()).prop_map(|(id, name, path, value)| Attribute {
        id,
        name,
        path,
        value,
    })
}

pub fn group(time_index: u32, rank: u32, ranks: u32) -> impl Strategy<Value = Group> {
    (
        name(),
        any::<bool>(),
        prop::collection::vec((any::<u8>(), name()), 0..3),
        prop::collection::vec(block(), 0..6),
        prop::collection::vec(attribute(), 0..4),
        any::<u64>(),
    )
        .prop_map(move |(name, fortran, methods, blocks, attributes, run)| {
            let time_name = format!("t{time_index}");
            let header = Header { group: name, fortran, time_name, time_index, methods };
            Group { header, rank, ranks, run, blocks: apart(blocks), attributes: apart_too(attributes) }
        })
}

/// One type per name, as a file holds it.
fn apart(mut blocks: Vec<Data>) -> Vec<Data> {
    for (i, b) in blocks.iter_mut().enumerate() {
        b.name = format!("{i}{}", b.name);
    }
    blocks
}

fn apart_too(mut attributes: Vec<Attribute>) -> Vec<Attribute> {
    for (i, a) in attributes.iter_mut().enumerate() {
        a.name = format!("{i}{}", a.name);
    }
    attributes
}

/// The bytes that tell two values apart, NaN included.
pub fn as_bytes(value: &AttributeValue) -> (u8, Vec<Vec<u8>>) {
    let bytes = |v: &Value| {
        let mut out = vec![v.element_type().code()];
        v.append_to(&mut out);
        out
    };
    match value {
        AttributeValue::One(v) => (0, vec![bytes(v)]),
        AttributeValue::Many(t, v) => (1 + t.code(), v.iter().map(bytes).collect()),
        AttributeValue::Variable(id) => (255, vec![id.to_ne_bytes().to_vec()]),
    }
}
