//! Runs the real command; builds small files with the format's encoder.
#![allow(dead_code, reason = "each test file uses its part")]

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use thalweg_bp::characteristic::{Location, SINGLE_FILE};
use thalweg_bp::index::Index;
use thalweg_bp::process_group::{Block, Header, SECTION_HEAD, put_attribute, put_section_head};
use thalweg_bp::shape::Shape;
use thalweg_bp::statistics::Level;
use thalweg_bp::step_record::{self, Groups};
use thalweg_bp::trailer::{self, BlockSum, Trailer};
use thalweg_bp::{pass, wire};
use thalweg_types::checksum::crc32c;
use thalweg_types::{AttributeValue, ByteOrder, ElementType, Extent, Value};

/// What a command did.
pub struct Ran {
    pub code: i32,
    pub out: String,
    pub err: String,
}

impl From<Output> for Ran {
    fn from(output: Output) -> Ran {
        Ran {
            code: output.status.code().expect("ended by a signal"),
            out: String::from_utf8(output.stdout).expect("output is text"),
            err: String::from_utf8(output.stderr).expect("errors are text"),
        }
    }
}

pub fn command() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_thalweg"));
    command.env_remove("COLUMNS").env_remove("NO_COLOR").env("CLICOLOR", "0");
    // Functions of Python need NumPy.
    if let Some(python) = std::env::var_os("PYTHON") {
        command.env("THALWEG_PYTHON", python);
    }
    command
}

/// Runs in a folder.
pub fn run_in(folder: &Path, arguments: &[&str]) -> Ran {
    command().current_dir(folder).args(arguments).output().expect("the command starts").into()
}

/// A limit for hangs alone.
pub const PATIENCE: std::time::Duration = std::time::Duration::from_secs(600);

/// Runs in a folder; ends a command that has not ended after [`PATIENCE`], which is a failure.
pub fn run_bounded(folder: &Path, arguments: &[&str]) -> Ran {
    let (out, err) = (tempfile(), tempfile());
    let mut child = command()
        .current_dir(folder)
        .args(arguments)
        .stdin(std::process::Stdio::null())
        .stdout(out.try_clone().unwrap())
        .stderr(err.try_clone().unwrap())
        .spawn()
        .expect("the command starts");
    let end = std::time::Instant::now() + PATIENCE;
    let status = loop {
        if let Some(status) = child.try_wait().unwrap() {
            break status;
        }
        if std::time::Instant::now() > end {
            child.kill().unwrap();
            child.wait().unwrap();
            panic!("{arguments:?} has not ended after {PATIENCE:?}, the limit for hangs");
        }
        std::thread::sleep(std::time::Duration::from_millis(5));
    };
    let text = |mut file: std::fs::File| {
        let mut text = String::new();
        std::io::Seek::rewind(&mut file).unwrap();
        std::io::Read::read_to_string(&mut file, &mut text).unwrap();
        text
    };
    Ran { code: status.code().expect("ended by a signal"), out: text(out), err: text(err) }
}

/// A file without a name.
fn tempfile() -> std::fs::File {
    let folder = thalweg_conformance::scratch::Scratch::new();
    let file = std::fs::File::options().read(true).write(true).create_new(true).open(folder.join("output")).unwrap();
    std::fs::remove_file(folder.join("output")).unwrap();
    file
}

/// Runs where the fixtures are.
pub fn run(arguments: &[&str]) -> Ran {
    run_in(&fixtures(), arguments)
}

/// Standard output of a command that must succeed and have nothing to remark.
pub fn printed(arguments: &[&str]) -> String {
    let ran = run(arguments);
    assert_eq!((ran.code, ran.err.as_str()), (0, ""), "{arguments:?}");
    ran.out
}

pub fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures/foreign")
}

/// One variable of one rank in one step.
pub struct Written {
    pub name: &'static str,
    pub element: ElementType,
    pub shape: Option<Shape>,
    pub level: Level,
    /// In this machine's byte order.
    pub bytes: Vec<u8>,
}

impl Written {
    pub fn scalar(name: &'static str, value: &Value) -> Written {
        let mut bytes = Vec::new();
        value.append_to(&mut bytes);
        Written { name, element: value.element_type(), shape: None, level: Level::Full, bytes }
    }

    pub fn array(name: &'static str, shape: Shape, values: &[Value]) -> Written {
        let element = values.first().map_or(ElementType::F64, Value::element_type);
        let mut bytes = Vec::new();
        values.iter().for_each(|v| v.append_to(&mut bytes));
        Written { name, element, shape: Some(shape), level: Level::Full, bytes }
    }

    pub fn reals(name: &'static str, shape: Shape, values: &[f64]) -> Written {
        Written::array(name, shape, &values.iter().map(|v| Value::F64(*v)).collect::<Vec<_>>())
    }

    /// Of this type: what no value tells where there are none.
    pub fn of(self, element: ElementType) -> Written {
        Written { element, ..self }
    }

    pub fn level(self, level: Level) -> Written {
        Written { level, ..self }
    }
}

/// A file in the making.
#[derive(Default)]
pub struct Maker {
    pub bytes: Vec<u8>,
    pub index: Index,
    /// Where the last step record ends, and how many there are.
    chain: (u64, u32),
}

const RUN: u64 = 7;

impl Maker {
    /// Adds the process group of a rank; returns its index alone.
    pub fn group(
        &mut self,
        step: u32,
        rank: u32,
        ranks: u32,
        blocks: &[Written],
        attributes: &[(&str, AttributeValue)],
    ) -> Index {
        let (bytes, mut own) = (&mut self.bytes, Index::default());
        let start = bytes.len();
        let header = Header { group: "fluid".into(), time_index: step + 1, ..Header::default() };
        header.encode(bytes);
        own.add_process_group(&header, rank, start as u64);
        let section = bytes.len();
        bytes.extend([0; SECTION_HEAD]);
        let mut sums = Vec::new();
        let mut framing = Vec::new();
        let mut framed = start;
        for (id, b) in blocks.iter().enumerate() {
            let digest = pass::look(&b.bytes, b.element, if b.shape.is_some() { b.level } else { Level::Off });
            let block = Block {
                id: id as u32 + 1,
                name: b.name,
                path: "",
                element: b.element,
                is_dimension: false,
                shape: b.shape.as_ref(),
                level: b.level,
                statistics: digest.statistics.as_ref(),
                transform: None,
                payload: b.bytes.len() as u64,
            };
            let at = bytes.len() as u64;
            block.encode(bytes);
            let payload = bytes.len();
            framing.push(framed..payload);
            bytes.extend_from_slice(&b.bytes);
            framed = bytes.len();
            sums.push(BlockSum {
                payload: Extent::new((payload - start) as u64, b.bytes.len() as u64),
                crc: digest.crc,
            });
            let location = Location {
                record_offset: at,
                payload_offset: payload as u64,
                file_index: SINGLE_FILE,
                time_index: step + 1,
            };
            let value =
                if b.shape.is_none() { Value::from_bytes(b.element, &b.bytes, ByteOrder::NATIVE) } else { None };
            own.add_block("fluid", &block, location, value.as_ref()).unwrap();
        }
        let length = (bytes.len() - section) as u64;
        put_section_head(bytes, section, blocks.len() as u32, length);
        let section = bytes.len();
        bytes.extend([0; SECTION_HEAD]);
        for (id, (name, value)) in attributes.iter().enumerate() {
            let at = bytes.len() as u64;
            put_attribute(bytes, id as u32 + 100, name, "", value);
            let location = Location {
                record_offset: at,
                payload_offset: bytes.len() as u64,
                file_index: SINGLE_FILE,
                time_index: step + 1,
            };
            own.add_attribute("fluid", id as u32 + 100, "", name, value, location).unwrap();
        }
        let length = (bytes.len() - section) as u64;
        put_section_head(bytes, section, attributes.len() as u32, length);
        framing.push(framed..bytes.len());
        let length = (bytes.len() - start) as u64 + trailer::length(blocks.len());
        wire::patch_u64(bytes, start, length);
        let framed: Vec<u8> = framing.into_iter().flat_map(|r| bytes[r].to_vec()).collect();
        Trailer {
            run: RUN,
            group: Extent::new(start as u64, length),
            rank,
            ranks,
            time_index: step + 1,
            file_index: SINGLE_FILE,
            framing: crc32c(&framed),
            blocks: sums,
        }
        .encode(bytes);
        self.index.append_fragment(&own.to_fragment()).unwrap();
        own
    }

    /// Appends a step record.
    pub fn step_record(&mut self, step: &Index) {
        let start = self.bytes.len() as u64;
        let (previous, number) = (self.chain.0, self.chain.1 + 1);
        self.bytes.extend(step_record::encode(step, start, previous, RUN, number, Groups::Here));
        self.chain = (self.bytes.len() as u64, number);
    }

    /// Appends the full index.
    pub fn close(&mut self, finished: bool) {
        let encoded = self.index.encode(self.bytes.len() as u64, false, finished).unwrap().to_bytes();
        self.bytes.extend(encoded);
        self.chain = (self.bytes.len() as u64, 0);
    }

    pub fn save(&self, path: &Path) {
        std::fs::write(path, &self.bytes).unwrap();
    }
}

/// Two ranks, three steps: a global array, scalars, text, complex and long double numbers, a local array with a block
/// without elements, a variable that step 1 lacks, attributes.
pub fn river() -> Maker {
    let mut file = Maker::default();
    for step in 0..3u32 {
        for rank in 0..2u32 {
            let base = f64::from(step) + f64::from(rank) / 10.0;
            let mut blocks = vec![
                Written::reals(
                    "T",
                    Shape::global([2, 3], [4, 3], [u64::from(rank) * 2, 0]),
                    &[base, base + 0.25, f64::NAN, base + 0.5, -0.125, 1e-9],
                ),
                Written::array(
                    "c",
                    Shape::global([1], [2], [u64::from(rank)]),
                    &[Value::Complex([3.0 * base as f32, -4.0])],
                ),
                Written::array(
                    "piece",
                    Shape::local([u64::from(rank * (step + 1))]),
                    &(0..rank * (step + 1)).map(|i| Value::I32(i as i32 - 1)).collect::<Vec<_>>(),
                )
                .of(ElementType::I32),
                Written::reals("bare", Shape::global([1], [2], [u64::from(rank)]), &[base]).level(Level::Off),
            ];
            if rank == 0 {
                blocks.push(Written::scalar("time", &Value::F64(0.5 * f64::from(step))));
                blocks.push(Written::scalar("label", &Value::String(format!("step, \"{step}\"").into_bytes())));
                let mut one = [0; 16];
                one[7] = 0x80;
                one[8..10].copy_from_slice(&0x3fffu16.to_le_bytes());
                blocks.push(Written::scalar("exact", &Value::LongDouble(one)));
                if step != 1 {
                    blocks.push(Written::scalar("sometimes", &Value::U64(u64::MAX - u64::from(step))));
                }
            }
            let text = |t: &str| Value::String(t.as_bytes().to_vec());
            let attributes = [
                ("T/units", AttributeValue::One(text("K"))),
                ("names", AttributeValue::Many(ElementType::String, vec![text("a, b"), text("c\u{1b}[31m")])),
                ("spacing", AttributeValue::Many(ElementType::F64, vec![Value::F64(0.1), Value::F64(0.25)])),
            ];
            file.group(step, rank, 2, &blocks, if rank == 0 { &attributes } else { &[] });
        }
    }
    file.close(true);
    file
}
