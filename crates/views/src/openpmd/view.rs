//! The view of a file for openPMD: a BP file of metadata whose variables and attributes are those of the standard, and whose blocks are
//! those of the file.
//!
//! | question | answer |
//! |---|---|
//! | which steps | all that are closed; step N is iteration N, `/data/N/`, so that readers have all of them at any time, in one step of BP |
//! | where values are | where they were: file K of the view's folder is a link to the file with the blocks, or to its subfile K |
//! | byte order | that of the file |
//! | arrays | those of [`Pieces::Boxes`]; the blocks of local arrays are records `NAME_block_B` |
//! | not shown | compressed and overlapping blocks, arrays without elements, with the reason |
//!
//! Source: `docs/decisions/0097-openpmd-through-a-list-of-blocks.md`, which says what was tried.

use super::unit::Unit;
use super::{Field, MESHES, Time, of_iteration, of_series, records, unit_in};
use crate::arrays::{self, AXES, Array, Arrays, Content, LeftOut, Pieces};
use crate::mesh::{self, Facts};
use crate::place::url_of;
use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::Range;
use thalweg_bp::listing::{Listed, Listing};
use thalweg_bp::shape::Shape;
use thalweg_reader::Reader;
use thalweg_types::{AttributeValue, BoundingBox, ByteOrder, Error, ErrorKind, Result, Value};

/// A view.
#[derive(Debug, Clone, PartialEq)]
pub struct View {
    /// The bytes of its file.
    pub index: Vec<u8>,
    /// The files with blocks, absolute: what link K of its folder leads to.
    pub files: BTreeMap<u32, String>,
    /// Number of variables that it shows.
    pub arrays: u64,
    /// Number of blocks that are read in place.
    pub blocks: u64,
    /// What it does not show.
    pub left_out: Vec<LeftOut>,
}

/// The view of a file.
///
/// # Errors
/// `Unsupported` if other programs cannot find the file's bytes in a local file, or if the file is one of openPMD itself; errors of
/// [`Arrays::of`].
/// # Cost
/// As [`Arrays::of`]; a kilobyte for each array and step.
pub fn view(reader: &Reader) -> Result<View> {
    if reader.attribute("/openPMD").is_ok() && reader.attribute("/basePath").is_ok() {
        let what = "the file has the attributes of openPMD already: programs of openPMD open it as it is";
        return Err(Error::new(ErrorKind::Unsupported, what).in_object(reader.path()));
    }
    let Arrays { arrays, mut left_out, attributes } = Arrays::of(reader, Pieces::Boxes)?;
    let mut facts = Facts::default();
    for head in reader.attributes() {
        facts.add(&head.name, &reader.attribute(&head.name)?.value);
    }
    facts.is_fortran = match reader.variables().first() {
        Some(head) => reader.is_fortran(&head.group)?,
        None => false,
    };
    if reader.byte_order() != ByteOrder::NATIVE {
        // openPMD-api 0.17 of PyPI refuses such files; adios2 2.12 of PyPI reads them.
        let why = "it is another machine's: openPMD-api opens the view only if its ADIOS2 was built with ADIOS2_USE_Endian_Reverse";
        left_out.push(LeftOut { name: "byte order of the file".into(), why: why.into() });
    }
    let mut steps = Steps::default();
    for array in &arrays {
        steps.add(reader, array, &mut left_out)?;
    }
    let labels = labels(reader, &arrays);
    let mut list = Listing::new("openPMD", reader.byte_order());
    for (name, value) in of_series(&attributes) {
        add(&mut list, "", &name, &value, &mut left_out)?;
    }
    let mut made = Made { arrays: BTreeSet::new(), blocks: 0, files: BTreeMap::new() };
    let times = steps.times(&arrays, &facts, &mut left_out);
    for ((number, step), time) in steps.by_number.iter().zip(times) {
        let base = format!("/data/{number}");
        for (name, value) in of_iteration(time, &step.texts(&arrays)) {
            add(&mut list, &base, &name, &value, &mut left_out)?;
        }
        made.records(reader, &arrays, &labels, &facts, step, &base, &mut list, &mut left_out)?;
    }
    let mut once = BTreeSet::new();
    left_out.retain(|left| once.insert((left.name.clone(), left.why.clone())));
    let Made { arrays, blocks, files } = made;
    Ok(View { index: list.encode(), files, arrays: arrays.len() as u64, blocks, left_out })
}

/// Lists an attribute; one that BP version 3 cannot have is left out.
fn add(list: &mut Listing, at: &str, name: &str, value: &AttributeValue, left_out: &mut Vec<LeftOut>) -> Result<()> {
    let name = format!("{at}/{name}");
    match list.attribute(&name, value) {
        Err(e) if e.kind() == ErrorKind::OutOfBounds => {
            left_out.push(LeftOut { name, why: e.what().to_string() });
            Ok(())
        }
        outcome => outcome,
    }
}

/// Names of axes that the file says, by variable.
fn labels<'a>(reader: &Reader, arrays: &'a [Array]) -> HashMap<&'a str, Vec<String>> {
    let of = |array: &'a Array| {
        let said = reader.attribute(&format!("{}/{AXES}", array.variable)).ok()?;
        Some((array.variable.as_str(), arrays::names_of_axes(&said.value)?))
    };
    arrays.iter().filter_map(of).collect()
}

/// An array in a step.
struct Part {
    /// Its position.
    array: usize,
    /// Its name there.
    name: String,
    /// Extents, slowest axis first.
    space: Vec<u64>,
    /// Its boxes.
    boxes: Range<usize>,
}

/// What a step has.
#[derive(Default)]
struct Step {
    parts: Vec<Part>,
    /// Scalars, texts, values of each writer, by position of their arrays.
    values: BTreeMap<usize, Vec<Value>>,
}

impl Step {
    /// The values as attributes.
    fn texts(&self, arrays: &[Array]) -> Vec<(String, AttributeValue)> {
        let of = |(at, values): (&usize, &Vec<Value>)| {
            let Array { name, element, shape, has_steps, .. } = &arrays[*at];
            let is_one = shape.len() == usize::from(*has_steps);
            let value = match values.first().filter(|_| is_one) {
                Some(one) => AttributeValue::One(one.clone()),
                None => AttributeValue::Many(*element, values.clone()),
            };
            (name.clone(), value)
        };
        self.values.iter().map(of).collect()
    }

    /// A scalar by its name, as a mesh gives it.
    fn number(&self, arrays: &[Array], name: &str) -> Option<f64> {
        let names = self.values.keys().map(|at| arrays[*at].name.as_str());
        let at = mesh::named(names, name)?;
        match self.values.values().nth(at)?.as_slice() {
            [one] => one.as_f64(),
            _ => None,
        }
    }
}

/// The steps of a file.
#[derive(Default)]
struct Steps {
    by_number: BTreeMap<u64, Step>,
    /// Arrays read so far.
    count: usize,
}

impl Steps {
    /// Sorts the content of an array by step.
    fn add(&mut self, reader: &Reader, array: &Array, left_out: &mut Vec<LeftOut>) -> Result<()> {
        let at = self.count;
        self.count += 1;
        let numbers = match reader.variable(&array.variable) {
            Ok(variable) => variable.steps,
            // The numbers of steps, which no variable has.
            Err(e) if e.kind() == ErrorKind::NotFound => return Ok(()),
            Err(e) => return Err(e),
        };
        // An array of one step or block below its variable: `step_S`, `step_S/block_B`.
        let below = array.name.strip_prefix(&format!("{}/", array.variable));
        let of_below = below.and_then(|below| {
            let (step, block) = below.split_once('/').map_or((below, None), |(step, block)| (step, Some(block)));
            Some((step.strip_prefix("step_")?.parse().ok()?, block))
        });
        let space = array.shape[usize::from(array.has_steps)..].to_vec();
        let name = match of_below {
            Some((_, Some(block))) => format!("{}_{block}", array.variable),
            _ => array.variable.clone(),
        };
        let only = match of_below {
            Some((step, _)) => Some(step),
            None if array.has_steps => None,
            None => numbers.last().copied(),
        };
        let number_of = |position: usize| only.or_else(|| numbers.get(position).copied());
        match &array.content {
            Content::Values(values) => {
                let length = if only.is_some() { values.len() } else { values.len() / numbers.len().max(1) };
                for (position, values) in values.chunks(length.max(1)).enumerate() {
                    let Some(number) = number_of(position) else { continue };
                    self.by_number.entry(number).or_default().values.insert(at, values.to_vec());
                }
            }
            Content::Boxes { boxes, has_holes } => {
                if *has_holes {
                    let name = format!("elements of {name} that no rank wrote");
                    let why = "openPMD has no such elements: programs may read any values there".to_string();
                    left_out.push(LeftOut { name, why });
                }
                let position = |at: usize| if array.has_steps { boxes[at].bounds.offset[0] as usize } else { 0 };
                let mut shown = 0;
                let mut begin = 0;
                while begin < boxes.len() {
                    let here = position(begin);
                    let end = (begin..boxes.len()).find(|at| position(*at) != here).unwrap_or(boxes.len());
                    if let Some(number) = number_of(here) {
                        let (name, space) = (name.clone(), space.clone());
                        let part = Part { array: at, name, space, boxes: begin..end };
                        self.by_number.entry(number).or_default().parts.push(part);
                        shown += 1;
                    }
                    begin = end;
                }
                if shown < if only.is_some() { 1 } else { numbers.len() } {
                    let name = format!("steps of {} without elements", array.variable);
                    let why = "openPMD has no arrays without elements: it is not in these iterations".to_string();
                    left_out.push(LeftOut { name, why });
                }
            }
            Content::Chunks { .. } | Content::Read { .. } => {}
        }
        Ok(())
    }

    /// The time of each step.
    fn times(&self, arrays: &[Array], facts: &Facts, left_out: &mut Vec<LeftOut>) -> Vec<Time> {
        let scale = arrays.iter().find_map(|array| facts.text(facts.mesh_of(&array.name)?, "time-scale-var"));
        let name = scale.unwrap_or("time");
        let at = |step: &Step, name: &str| step.number(arrays, name).filter(|number| number.is_finite());
        let all: Vec<Option<f64>> = self.by_number.values().map(|step| at(step, name)).collect();
        let is_known = all.iter().all(Option::is_some);
        if !is_known && (scale.is_some() || all.iter().any(Option::is_some)) {
            let why = "it is no number in each step: iterations have the numbers of steps as their time".to_string();
            left_out.push(LeftOut { name: format!("time {name}"), why });
        }
        let own: Vec<f64> =
            self.by_number.keys().zip(&all).map(|(n, time)| time.filter(|_| is_known).unwrap_or(*n as f64)).collect();
        let mut unit_si = 1.0;
        let names = arrays.iter().map(|array| array.name.as_str());
        if is_known
            && let Some(variable) = mesh::named(names, name).map(|at| &arrays[at])
            && let Some(said) = unit_in(&variable.attributes)
        {
            match Unit::parse(&said).filter(|unit| unit.dimension == Unit::TIME) {
                Some(unit) => unit_si = unit.si,
                None => {
                    let name = format!("unit of {}", variable.name);
                    left_out.push(LeftOut { name, why: super::not_understood(&said) });
                }
            }
        }
        let distance = |position: usize| match position {
            0 if own.len() > 1 => own[1] - own[0],
            0 => 1.0,
            _ => own[position] - own[position - 1],
        };
        let of = |(position, step): (usize, &Step)| {
            let dt = at(step, "dt").unwrap_or_else(|| distance(position));
            Time { time: own[position], dt, unit_si }
        };
        self.by_number.values().enumerate().map(of).collect()
    }
}

/// What has been listed.
struct Made {
    /// Positions of the arrays.
    arrays: BTreeSet<usize>,
    blocks: u64,
    files: BTreeMap<u32, String>,
}

impl Made {
    /// Lists the records of a step.
    #[allow(clippy::too_many_arguments)]
    fn records(
        &mut self,
        reader: &Reader,
        arrays: &[Array],
        labels: &HashMap<&str, Vec<String>>,
        facts: &Facts,
        step: &Step,
        base: &str,
        list: &mut Listing,
        left_out: &mut Vec<LeftOut>,
    ) -> Result<()> {
        let fields = step.parts.iter().map(|part| {
            let array = &arrays[part.array];
            Field {
                name: &part.name,
                element: array.element,
                space: &part.space,
                labels: labels.get(array.variable.as_str()).map(Vec::as_slice),
                attributes: &array.attributes,
            }
        });
        let fields: Vec<Field<'_>> = fields.collect();
        let number = |name: &str| step.number(arrays, name);
        for record in records(&fields, facts, &number, left_out) {
            let path = format!("{base}/{MESHES}/{}", record.name);
            for (name, value) in &record.attributes {
                add(list, &path, name, value, left_out)?;
            }
            for component in &record.components {
                let path = format!("{base}/{MESHES}/{}", record.path_of(component));
                for (name, value) in &component.attributes {
                    add(list, &path, name, value, left_out)?;
                }
                let part = &step.parts[component.field];
                self.variable(reader, &arrays[part.array], part, &path, list)?;
            }
        }
        Ok(())
    }

    /// Lists the blocks of an array in a step.
    fn variable(&mut self, reader: &Reader, array: &Array, part: &Part, name: &str, list: &mut Listing) -> Result<()> {
        let Content::Boxes { boxes, .. } = &array.content else { return Ok(()) };
        let mut blocks = Vec::with_capacity(part.boxes.len());
        for piece in &boxes[part.boxes.clone()] {
            let skip = usize::from(array.has_steps);
            let BoundingBox { offset, count } = &piece.bounds;
            let shape = Shape::global(&count[skip..], &part.space[..], &offset[skip..]);
            let file = piece.subfile.unwrap_or(0);
            if let Entry::Vacant(new) = self.files.entry(file) {
                new.insert(path_of(reader, piece.subfile)?);
            }
            blocks.push(Listed { shape, file, payload_offset: piece.bytes.offset });
        }
        self.blocks += blocks.len() as u64;
        self.arrays.insert(part.array);
        list.variable(name, array.element, &blocks)
    }
}

/// The absolute name of a file with blocks.
fn path_of(reader: &Reader, subfile: Option<u32>) -> Result<String> {
    let url = url_of(reader, subfile, None)?;
    url.strip_prefix("file://").map(str::to_string).ok_or_else(|| {
        Error::new(ErrorKind::Unsupported, "programs of openPMD read local files alone").in_object(url.clone())
    })
}
