//! The promise of the whole library: written values read back equal, with any method, on any layout, from any number of
//! ranks.
//!
//! A [`Scenario`] is data: a schema, and what each rank writes of it in each step, shapes and bytes included. [`write()`]
//! hands it to the programming interface, [`check`] asks the reader for every block, box, point, value and attribute
//! of it. Neither looks at how the other does it.
//!
//! | room | what it owns |
//! |------|--------------|
//! | [`everything`] | a scenario with every type, 0 to 7 dimensions, holes, optional variables, all kinds of attributes |
//! | [`edge_cases`] | edge cases that break other readers |
//! | [`arbitrary`] | scenarios made of nothing but chance |
//! | [`numbers`] | bytes of any type, always the same for the same seed |

pub mod arbitrary;
pub mod edge_cases;
pub mod everything;
pub mod numbers;

use crate::scratch::Scratch;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use thalweg_bp::shape::Shape;
use thalweg_comm::{Communicator, threads};
use thalweg_io::{Mode, Session, WriteRequest};
use thalweg_layout::{Direct, Layout};
use thalweg_reader::{Kind, Reader};
use thalweg_schema::{HostLanguage, MethodChoice, Schema};
use thalweg_store::{Memory, Posix};
use thalweg_types::bounding_box::elements;
use thalweg_types::value::long_double_to_f64;
use thalweg_types::{AttributeValue, BoundingBox, ByteOrder, ElementType, Selection, Value};

/// The writes of a test, and so the expected reads.
#[derive(Debug, Clone)]
pub struct Scenario {
    /// One group, without methods.
    pub schema: Schema,
    /// The writes of each rank in each step, in order: `steps[step][rank]`, with the same number of ranks in every step.
    pub steps: Vec<Vec<Vec<Write>>>,
    /// The final value of each attribute, by full name; those of meshes included.
    pub attributes: BTreeMap<String, AttributeValue>,
}

/// One block, scalar or text of one rank in one step.
#[derive(Debug, Clone)]
pub struct Write {
    /// Position of the variable in the group.
    pub variable: usize,
    /// Its shape, slowest dimension first, also where the host language is Fortran; `None` for scalars and text.
    pub shape: Option<Shape>,
    /// Its values, row-major, in this machine's byte order.
    pub bytes: Vec<u8>,
    /// Handed over without a copy, to stay unchanged until close.
    pub deferred: bool,
}

impl Write {
    /// Where the block lies in the global array, as files have it: where it has no extent it begins at 0.
    pub fn stored_offset(&self) -> Vec<u64> {
        let shape = self.shape.iter().flat_map(|s| s.offset.iter().zip(&s.local));
        shape.map(|(offset, extent)| if *extent == 0 { 0 } else { *offset }).collect()
    }
}

/// How a scenario is written.
#[derive(Debug, Clone, Default)]
pub struct WriteSetup {
    /// Name of the method.
    pub method: String,
    /// Its parameters.
    pub parameters: Vec<(String, String)>,
    /// The buffer limit in bytes; `None` for no limit.
    pub buffer: Option<u64>,
    /// Steps are spread over so many sessions, each finalized before the next begins; at least 1.
    pub sessions: usize,
    /// The file is opened and checked after every step, while the session goes on.
    pub follow: bool,
}

impl WriteSetup {
    /// A method as it comes.
    pub fn of(method: &str) -> WriteSetup {
        WriteSetup { method: method.to_string(), sessions: 1, ..WriteSetup::default() }
    }

    /// With a parameter.
    pub fn with(mut self, key: &str, value: &str) -> WriteSetup {
        self.parameters.push((key.to_string(), value.to_string()));
        self
    }
}

impl Scenario {
    /// Ranks that write it.
    pub fn ranks(&self) -> u32 {
        self.steps[0].len() as u32
    }

    /// The blocks that each variable must have after the first `steps` steps, by full name and step, in the order in which
    /// readers number them. Of a scalar, a text, and the same box of a global array it is the last one.
    pub fn blocks(&self, steps: usize) -> BTreeMap<String, Vec<Expected<'_>>> {
        let group = &self.schema.groups[0];
        let mut all: BTreeMap<String, Vec<Expected<'_>>> = BTreeMap::new();
        for (step, ranks) in self.steps[..steps].iter().enumerate() {
            for (rank, writes) in ranks.iter().enumerate() {
                for write in writes {
                    let variable = &group.variables[write.variable];
                    let block = Expected { step: step as u64, rank: rank as u32, element: variable.element, write };
                    // Files keep paths without slashes at their end.
                    let name = thalweg_schema::full_name(&variable.path, &variable.name);
                    let known = all.entry(name).or_default();
                    match known.iter_mut().find(|earlier| block.is_in_the_place_of(earlier)) {
                        Some(earlier) => *earlier = block,
                        None => known.push(block),
                    }
                }
            }
        }
        all
    }
}

/// One block a reader must find.
#[derive(Debug, Clone, Copy)]
pub struct Expected<'s> {
    /// Step, from 0.
    pub step: u64,
    /// Rank that wrote it.
    pub rank: u32,
    /// Type of its elements.
    pub element: ElementType,
    /// The writes.
    pub write: &'s Write,
}

impl Expected<'_> {
    /// Whether only the last of the two counts: the same rank writes the same scalar, text, or box of a global array again
    /// in a step.
    fn is_in_the_place_of(&self, earlier: &Expected<'_>) -> bool {
        let same_box = match (&self.write.shape, &earlier.write.shape) {
            (None, None) => true,
            (Some(a), Some(b)) => {
                let sizes = (&a.local, &a.global) == (&b.local, &b.global);
                a.is_global()
                    && !a.local.contains(&0)
                    && sizes
                    && self.write.stored_offset() == earlier.write.stored_offset()
            }
            _ => false,
        };
        same_box && (self.step, self.rank) == (earlier.step, earlier.rank)
    }
}

/// Writes a scenario to `path`, with ranks as threads. After each step rank 0 calls `after`, and the others wait.
///
/// # Panics
/// Where a call of the programming interface fails.
pub fn write(
    layout: &Arc<dyn Layout>,
    path: &str,
    scenario: &Scenario,
    setup: &WriteSetup,
    after: &(dyn Fn(usize) + Sync),
) {
    let mut schema = scenario.schema.clone();
    let group = schema.groups[0].name.clone();
    let choice = MethodChoice { parameters: setup.parameters.clone(), ..MethodChoice::new(&group, &setup.method) };
    schema.methods.push(choice);
    let per_session = scenario.steps.len().div_ceil(setup.sessions.max(1)).max(1);
    threads::run(scenario.ranks(), |comm| {
        let rank = comm.rank() as usize;
        for (part, steps) in scenario.steps.chunks(per_session).enumerate() {
            let session = Session::with_layout(schema.clone(), layout.clone(), comm.duplicate().unwrap()).unwrap();
            if setup.buffer.is_some() {
                session.set_buffer_limit(setup.buffer);
            }
            for (i, ranks) in steps.iter().enumerate() {
                let step = part * per_session + i;
                let mode = if step == 0 { Mode::Write } else { Mode::Append };
                let mut output = session.open(&group, path, mode, comm.duplicate().unwrap()).unwrap();
                // Half of the outputs say beforehand how much will come.
                if step % 2 == 1 {
                    output.group_size(ranks[rank].iter().map(|w| w.bytes.len() as u64).sum());
                }
                let mut reused = Vec::new();
                for w in &ranks[rank] {
                    let done = if w.deferred && step % 3 == 2 {
                        output.commit(w.variable, None, w.bytes.clone())
                    } else if w.deferred {
                        output.put(WriteRequest::deferred(w.variable, &w.bytes))
                    } else {
                        reused.clear();
                        reused.extend_from_slice(&w.bytes);
                        let done = output.put(WriteRequest::new(w.variable, &reused));
                        // The memory is the program's again.
                        reused.fill(0xee);
                        done
                    };
                    done.unwrap_or_else(|e| panic!("step {step}: {e}"));
                }
                // Some methods write in the background.
                let closed = output.start_close().wait();
                closed.unwrap_or_else(|e| panic!("close of step {step}: {e}"));
                if rank == 0 {
                    after(step);
                }
                comm.barrier().unwrap();
            }
            session.finalize().unwrap();
        }
    });
}

/// Checks that a reader finds the first `steps` steps of a scenario, and nothing else.
///
/// # Panics
/// At the first difference.
pub fn check(reader: &Reader, scenario: &Scenario, steps: usize) {
    assert_eq!(reader.status().steps, steps as u64, "number of steps");
    assert!(reader.status().torn_bytes == 0 && reader.status().partial.is_empty(), "{:?}", reader.status());
    check_values(reader, &scenario.blocks(steps));
    if steps == scenario.steps.len() {
        check_attributes(reader, &scenario.attributes);
    }
}

/// Checks that a reader finds these blocks, by full name of the variable and in the order of their numbers, and no others:
/// values, places, ranks, statistics.
///
/// # Panics
/// At the first difference.
pub fn check_values(reader: &Reader, expected: &BTreeMap<String, Vec<Expected<'_>>>) {
    let mut found: Vec<&str> = reader.variables().iter().map(|h| h.name.as_str()).collect();
    found.sort_unstable();
    assert_eq!(found, expected.keys().map(String::as_str).collect::<Vec<_>>(), "names of variables");
    for (name, blocks) in expected {
        check_variable(reader, name, blocks);
    }
}

/// Checks that a reader finds these attributes, by full name, and no others.
///
/// # Panics
/// At the first difference.
pub fn check_attributes(reader: &Reader, expected: &BTreeMap<String, AttributeValue>) {
    let mut found: Vec<&str> = reader.attributes().iter().map(|h| h.name.as_str()).collect();
    found.sort_unstable();
    assert_eq!(found, expected.keys().map(String::as_str).collect::<Vec<_>>(), "names of attributes");
    for (name, value) in expected {
        let attribute = reader.attribute(name).unwrap();
        assert!(same_attribute(&attribute.value, value), "attribute {name}: {:?} is not {value:?}", attribute.value);
    }
}

/// Equal bit by bit, NaN included.
fn same_attribute(a: &AttributeValue, b: &AttributeValue) -> bool {
    fn bytes(value: &Value) -> Vec<u8> {
        let mut out = Vec::new();
        value.append_to(&mut out);
        out
    }
    match (a, b) {
        (AttributeValue::One(a), AttributeValue::One(b)) => {
            a.element_type() == b.element_type() && bytes(a) == bytes(b)
        }
        (AttributeValue::Many(s, a), AttributeValue::Many(t, b)) => {
            s == t && a.len() == b.len() && a.iter().zip(b).all(|(a, b)| bytes(a) == bytes(b))
        }
        _ => false,
    }
}

fn check_variable(reader: &Reader, name: &str, blocks: &[Expected<'_>]) {
    let variable = reader.variable(name).unwrap_or_else(|e| panic!("{name}: {e}"));
    assert_eq!(variable.element, blocks[0].element, "{name}");
    let kind = match &blocks[0].write.shape {
        None => Kind::Scalar,
        Some(shape) if shape.is_global() => Kind::Global,
        Some(_) => Kind::Local,
    };
    assert_eq!(variable.kind, kind, "{name}");
    let mut steps: Vec<u64> = blocks.iter().map(|b| b.step).collect();
    steps.dedup();
    assert_eq!(variable.steps, steps, "{name}: steps");
    assert_eq!(variable.blocks, blocks.len() as u64, "{name}: number of blocks");
    for step in &steps {
        let of_step: Vec<Expected<'_>> = blocks.iter().filter(|b| b.step == *step).copied().collect();
        check_step(reader, name, *step, kind, &of_step);
    }
    if kind == Kind::Global && !variable.shape_changes && steps.len() > 1 {
        let whole = |step: &u64| reader.read_to_vec(name, *step, &Selection::All).unwrap();
        let wanted: Vec<u8> = steps.iter().flat_map(whole).collect();
        let mut out = vec![0; wanted.len()];
        reader.read_steps(name, &steps, &Selection::All, &mut out).unwrap();
        assert!(out == wanted, "{name}: all steps at once are not its steps one by one");
    }
    check_summary(reader, name, blocks);
}

fn check_step(reader: &Reader, name: &str, step: u64, kind: Kind, expected: &[Expected<'_>]) {
    let what = format!("{name}, step {step}");
    let found = reader.blocks(name, step).unwrap_or_else(|e| panic!("{what}: {e}"));
    assert_eq!(found.len(), expected.len(), "{what}: number of blocks");
    for (number, (block, e)) in found.iter().zip(expected).enumerate() {
        let what = format!("{what}, block {number}");
        assert_eq!(reader.writer(block).unwrap(), Some(e.rank), "{what}: its rank");
        let bytes = reader.read_to_vec(name, step, &Selection::Block(number as u64)).unwrap();
        assert!(bytes == e.write.bytes, "{what}: {bytes:?} is not {:?}", e.write.bytes);
        let Some(shape) = &e.write.shape else {
            let mut value = Vec::new();
            block.value.as_ref().unwrap_or_else(|| panic!("{what}: no value")).append_to(&mut value);
            assert!(value == e.write.bytes, "{what}: {value:?} in the index is not {:?}", e.write.bytes);
            continue;
        };
        assert_eq!(block.count, shape.local, "{what}: extents");
        if kind == Kind::Global {
            let place = (&shape.global, &e.write.stored_offset());
            assert_eq!((&block.shape, &block.offset), place, "{what}: global shape, offset");
        }
    }
    match kind {
        Kind::Scalar => {
            let value = reader.value(name, step).unwrap();
            assert_eq!(value.element_type(), expected[0].element, "{what}");
            let mut bytes = Vec::new();
            value.append_to(&mut bytes);
            assert!(bytes == expected[0].write.bytes, "{what}: {bytes:?} is not {:?}", expected[0].write.bytes);
        }
        Kind::Global => check_global(reader, name, step, expected),
        _ => {}
    }
}

/// A global array put together from its blocks: byte 0xa5 where there is none, later blocks over earlier ones.
fn whole(shape: &[u64], expected: &[Expected<'_>]) -> (Vec<u8>, Vec<bool>) {
    let size = expected[0].element.size() as usize;
    let n = elements(shape).unwrap() as usize;
    let (mut bytes, mut covered) = (vec![0xa5; n * size], vec![false; n]);
    for e in expected {
        let block = e.write.shape.as_ref().unwrap();
        for (i, value) in e.write.bytes.chunks_exact(size).enumerate() {
            let at = place(&position(i as u64, &block.local), &block.offset, shape);
            bytes[at * size..][..size].copy_from_slice(value);
            covered[at] = true;
        }
    }
    (bytes, covered)
}

/// Where element `i` of a box of these extents lies in it, row-major.
fn position(mut i: u64, count: &[u64]) -> Vec<u64> {
    let mut at = vec![0; count.len()];
    for d in (0..count.len()).rev() {
        (at[d], i) = (i % count[d], i / count[d]);
    }
    at
}

/// The number of the element at `offset` + `at` in an array of this shape.
fn place(at: &[u64], offset: &[u64], shape: &[u64]) -> usize {
    (0..shape.len()).fold(0, |n, d| n * shape[d] as usize + (offset[d] + at[d]) as usize)
}

fn check_global(reader: &Reader, name: &str, step: u64, expected: &[Expected<'_>]) {
    let what = format!("{name}, step {step}");
    let shape = &expected[0].write.shape.as_ref().unwrap().global;
    assert_eq!(&reader.shape(name, step).unwrap(), shape, "{what}: shape");
    let size = expected[0].element.size() as usize;
    let (wanted, covered) = whole(shape, expected);
    let mut out = vec![0xa5; wanted.len()];
    let filled = reader.read(name, step, &Selection::All, &mut out).unwrap_or_else(|e| panic!("{what}: {e}"));
    assert!(out == wanted, "{what}: the whole array: {out:?} is not {wanted:?}");
    assert_eq!(filled, covered.iter().filter(|c| **c).count() as u64, "{what}: elements filled");
    check_rounded(reader, name, step, expected[0].element, &wanted, &covered);
    let mut chance = numbers::Chance::new(&what);
    for _ in 0..3 {
        let offset: Vec<u64> = shape.iter().map(|s| chance.below(s + 1)).collect();
        let count: Vec<u64> = shape.iter().zip(&offset).map(|(s, o)| chance.below(s - o + 1)).collect();
        let part = BoundingBox::new(offset.clone(), count.clone());
        let n = part.elements().unwrap();
        let bounds = part.clone();
        let mut out = vec![0xa5; n as usize * size];
        reader.read(name, step, &Selection::Box(part), &mut out).unwrap_or_else(|e| panic!("{what}: {e}"));
        for i in 0..n {
            let at = place(&position(i, &count), &offset, shape);
            let (got, wanted) = (&out[i as usize * size..][..size], &wanted[at * size..][..size]);
            assert!(
                got == wanted,
                "{what}: element {i} of the box at {offset:?} of {count:?}: {got:?}, not {wanted:?}"
            );
        }
        let stride: Vec<u64> = shape.iter().map(|_| 1 + chance.below(4)).collect();
        let found: Vec<u64> = count.iter().zip(&stride).map(|(c, s)| c.div_ceil(*s)).collect();
        let n: u64 = found.iter().product();
        let mut out = vec![0xa5; n as usize * size];
        let every = Selection::Strided { bounds, stride: stride.clone() };
        reader.read(name, step, &every, &mut out).unwrap_or_else(|e| panic!("{what}: {e}"));
        for i in 0..n {
            let at: Vec<u64> = position(i, &found).iter().zip(&stride).map(|(at, s)| at * s).collect();
            let at = place(&at, &offset, shape);
            let (got, wanted) = (&out[i as usize * size..][..size], &wanted[at * size..][..size]);
            assert!(got == wanted, "{what}: element {i} of {every:?}: {got:?}, not {wanted:?}");
        }
    }
    if covered.is_empty() {
        return;
    }
    let points: Vec<Vec<u64>> = (0..5).map(|_| shape.iter().map(|s| chance.below(*s)).collect()).collect();
    let mut out = vec![0xa5; points.len() * size];
    reader.read(name, step, &Selection::Points(points.clone()), &mut out).unwrap();
    for (point, got) in points.iter().zip(out.chunks_exact(size)) {
        let at = place(point, &vec![0; shape.len()], shape);
        assert!(got == &wanted[at * size..][..size], "{what}: the point {point:?}");
    }
}

/// The number in some bytes, if they are one.
type Number = fn(&[u8]) -> Option<f64>;

/// With fewer digits, real numbers are near those that were written, and everything else is the same.
fn check_rounded(reader: &Reader, name: &str, step: u64, element: ElementType, wanted: &[u8], covered: &[bool]) {
    let size = element.size() as usize;
    let (part, number): (usize, Number) = match element {
        ElementType::F32 | ElementType::Complex => (4, |b| b.try_into().ok().map(f32::from_ne_bytes).map(f64::from)),
        ElementType::F64 | ElementType::DoubleComplex => (8, |b| b.try_into().ok().map(f64::from_ne_bytes)),
        _ => (size, |_| None),
    };
    for digits in [2, 5, 11] {
        let rounded = reader.clone().with_digits(thalweg_reader::Digits::new(digits as u32));
        let mut out = vec![0xa5; wanted.len()];
        rounded.read(name, step, &Selection::All, &mut out).unwrap();
        for (at, (got, wanted)) in out.chunks_exact(part).zip(wanted.chunks_exact(part)).enumerate() {
            let fits = match number(got).zip(number(wanted)).filter(|_| covered[at * part / size]) {
                Some((got, wanted)) if wanted.is_finite() => {
                    let most = (wanted.abs() * 10f64.powi(-digits)).max(f64::from(f32::MIN_POSITIVE));
                    got.abs() <= wanted.abs() && (wanted - got).abs() <= most
                }
                Some((got, wanted)) => got == wanted || (got.is_nan() && wanted.is_nan()),
                None => got == wanted,
            };
            assert!(fits, "{name}, step {step}, {digits} digits, number {at}: {got:?} for {wanted:?}");
        }
    }
}

/// Statistics of real numbers in the index, if recorded, are those of the values.
fn check_summary(reader: &Reader, name: &str, blocks: &[Expected<'_>]) {
    let element = blocks[0].element;
    if element.is_text() || element.is_complex() {
        return;
    }
    let summary = reader.summary(name, 0..u64::MAX).unwrap();
    let size = element.size() as usize;
    let values = blocks.iter().flat_map(|b| b.write.bytes.chunks_exact(size));
    let values = values.filter_map(|v| Value::from_bytes(element, v, ByteOrder::NATIVE));
    let finite: Vec<(f64, Value)> = values.map(|v| (as_double(&v), v)).filter(|(d, _)| d.is_finite()).collect();
    let all = blocks.iter().map(|b| b.write.shape.as_ref().map_or(1, |s| s.elements().unwrap())).sum::<u64>();
    assert_eq!((summary.blocks, summary.elements), (blocks.len() as u64, all), "{name}");
    if let Some(n) = summary.finite {
        // Long doubles beyond the range of doubles are finite, too.
        assert!(n == finite.len() as u64 || element == ElementType::LongDouble, "{name}: {n} finite values");
    }
    let near = |a: f64, b: f64, scale: f64| (a - b).abs() <= 1e-9 * scale || !a.is_finite();
    if let (Some(mean), false) = (summary.mean, element == ElementType::LongDouble) {
        let n = finite.len() as f64;
        let scale = finite.iter().map(|(d, _)| d.abs() / n).sum::<f64>();
        let wanted = finite.iter().map(|(d, _)| d / n).sum::<f64>();
        assert!(near(mean, wanted, scale), "{name}: mean {mean} is not {wanted}");
    }
    if summary.min.is_some() || summary.max.is_some() {
        let (min, max) = (summary.min.unwrap(), summary.max.unwrap());
        let smallest = finite.iter().map(|(d, _)| *d).fold(f64::INFINITY, f64::min);
        let largest = finite.iter().map(|(d, _)| *d).fold(f64::NEG_INFINITY, f64::max);
        if element != ElementType::LongDouble {
            assert_eq!((as_double(&min), as_double(&max)), (smallest, largest), "{name}: smallest and largest");
        }
    }
}

fn as_double(value: &Value) -> f64 {
    match value {
        Value::LongDouble(bytes) => long_double_to_f64(bytes),
        other => other.as_f64().unwrap_or(f64::NAN),
    }
}

/// Writes a scenario and checks it: after every step where the way says so, and at the end with a reader that knows
/// nothing of the writer.
///
/// # Panics
/// At the first difference.
pub fn write_and_check(layout: &Arc<dyn Layout>, path: &str, scenario: &Scenario, setup: &WriteSetup) {
    let open = || Reader::open(layout.clone(), path).unwrap_or_else(|e| panic!("cannot open {path}: {e}"));
    write(layout, path, scenario, setup, &|step| {
        if setup.follow {
            let reader = open();
            assert!(!reader.status().finished, "the file says it is complete while it is being written");
            check(&reader, scenario, step + 1);
        }
    });
    let reader = open();
    assert!(reader.status().finished, "the file does not say that it is complete");
    check(&reader, scenario, scenario.steps.len());
}

/// A layout over memory.
pub fn in_memory() -> Arc<dyn Layout> {
    Arc::new(Direct::new(Arc::new(Memory::new())).unwrap())
}

/// A layout over a folder.
pub fn in_folder(folder: &Path) -> Arc<dyn Layout> {
    Arc::new(Direct::new(Arc::new(Posix::at(folder).unwrap())).unwrap())
}

/// Crosses methods with stores, numbers of ranks, host languages, buffer limits and sessions: [`everything`] reads back
/// equal from each.
///
/// - `methods`: names of methods that write something.
///
/// # Panics
/// At the first difference; standard error names the combination.
pub fn check_everything(methods: &[&str]) {
    let folder = Scratch::new();
    let layouts = [("memory", in_memory()), ("posix", in_folder(folder.path()))];
    for method in methods {
        for (store, layout) in &layouts {
            for ranks in [1u32, 2, 3, 5, 8, 16] {
                let language = if ranks % 3 == 2 { HostLanguage::Fortran } else { HostLanguage::C };
                let scenario = everything::scenario(ranks, 3, language);
                // Each number of ranks meets each buffer limit on one of the stores, sessions change with them.
                let tiny = (u64::from(ranks) + u64::from(*store == "posix")) % 3;
                let setup = WriteSetup {
                    buffer: [None, Some(0), Some(9000)][tiny as usize],
                    sessions: 1 + ranks as usize % 3,
                    follow: ranks == 3,
                    ..WriteSetup::of(method)
                };
                eprintln!("method {method}, {store}, {ranks} ranks, {language:?}, {setup:?}");
                write_and_check(layout, &format!("{method}-{ranks}.bp"), &scenario, &setup);
            }
        }
    }
}
