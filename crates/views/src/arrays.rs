//! What of a file's variables is one array of other formats.
//!
//! | variable | array |
//! |---|---|
//! | global array, in several steps | steps along the first axis, the blocks of each step as chunks |
//! | global array, in one of several steps | no axis for steps |
//! | local array of one block per step | as a global one |
//! | scalar, text, one value per writer | its values, which the index contains |
//! | other local arrays, arrays whose shape changes, blocks that form no regular grid, that are compressed in several ways, or in a form of BP files alone | none; listed with the reason |
//!
//! These are the arrays of formats whose blocks are chunks ([`Pieces::Chunks`]). Formats that take any boxes ([`Pieces::Boxes`]) also get
//! the following arrays, but none of compressed blocks:
//!
//! | variable | array |
//! |---|---|
//! | blocks that form no regular grid | as other global arrays |
//! | array whose shape changes | `NAME/step_S`, one for each step |
//! | local array of several blocks in a step | `NAME/step_S/block_N`, one for each block |
//!
//! Formats that get the values ([`Pieces::Values`]) get all of these arrays, compressed or not, and of each what is chosen.
//!
//! Axes have the names of the attribute `_ARRAY_DIMENSIONS`, else `dim_0`, `dim_1`...; a name has one extent: with another extent, it
//! is followed by this extent. Axes of steps are named `step`, `step_1`..., one for each list of steps, and have their numbers as
//! coordinates; no axis has the name of a group. These are the names that `xarray.open_dataset(..., engine="thalweg")` gives.

use crate::boxes;
use crate::chosen::{self, Along, Chosen, Read, Taken as Values};
use crate::grid::{Grid, Place, Taken};
use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::ops::Range;
use thalweg_choice::cast;
use thalweg_reader::variable::Kind;
use thalweg_reader::{Attribute, Block, Form, Reader, Variable};
use thalweg_types::{AttributeValue, BoundingBox, ByteOrder, ElementType, Error, ErrorKind, Extent, Result, Value};

pub mod growing;

/// The attribute that names the axes of an array.
pub const AXES: &str = "_ARRAY_DIMENSIONS";
/// Most bytes of values that a view contains itself, for one variable.
const MOST_INLINE: u64 = 64 << 20;
/// The attribute `long_name` of axes of steps.
pub const STEP_IN_FILE: &str = "step in the file";

/// What can be shown, or the reason why it cannot.
pub type Shown<T> = std::result::Result<T, String>;

/// What a format can refer to as parts of one array.
#[derive(Debug, Clone, Copy)]
pub enum Pieces<'c> {
    /// Chunks of one regular grid, all compressed in the same way.
    Chunks,
    /// Boxes at any place of the array, not compressed.
    Boxes,
    /// Values, which are read.
    Values(Chosen<'c>),
}

impl Pieces<'_> {
    fn has(&self, name: &str) -> bool {
        match self {
            Pieces::Values(chosen) => chosen.choice.has(name),
            Pieces::Chunks | Pieces::Boxes => true,
        }
    }

    fn steps<'s>(&self, steps: &'s [u64]) -> Cow<'s, [u64]> {
        match self {
            Pieces::Values(chosen) => chosen.steps(steps),
            Pieces::Chunks | Pieces::Boxes => Cow::Borrowed(steps),
        }
    }

    /// Whether one step of so many is shown.
    fn has_one_step(&self, steps: u64) -> bool {
        match self {
            Pieces::Values(chosen) => (0..steps).filter(|step| chosen.choice.steps.contain(*step)).take(2).count() == 1,
            Pieces::Chunks | Pieces::Boxes => steps == 1,
        }
    }

    fn element(&self, name: &str, own: ElementType) -> Shown<ElementType> {
        match self {
            Pieces::Values(chosen) => chosen.element(name, own),
            Pieces::Chunks | Pieces::Boxes => Ok(own),
        }
    }
}

/// An array of another format.
#[derive(Debug, Clone, PartialEq)]
pub struct Array {
    /// Full name, without slashes at its ends; slashes inside separate groups.
    pub name: String,
    /// The variable that it is, or is a part of: its full name, without slashes at its ends.
    pub variable: String,
    /// Type of the elements.
    pub element: ElementType,
    /// Order of the bytes inside them.
    pub order: ByteOrder,
    /// Names of the axes, slowest first; the axis of steps, if there is one, is the first. Empty for arrays of one step or block among
    /// others: their axes have no names.
    pub axes: Vec<String>,
    /// Extents, slowest axis first.
    pub shape: Vec<u64>,
    /// Whether the first axis is that of steps.
    pub has_steps: bool,
    /// Its elements.
    pub content: Content,
    /// Its attributes, without the names of axes.
    pub attributes: Vec<(String, AttributeValue)>,
}

impl Array {
    /// The groups that it is in, the outermost one first.
    pub fn groups(&self) -> impl Iterator<Item = &str> {
        self.name.match_indices('/').map(|(at, _)| &self.name[..at])
    }
}

/// Where the elements of an array are.
#[derive(Debug, Clone, PartialEq)]
pub enum Content {
    /// In files.
    Chunks {
        /// Extents of a chunk, in the order of [`Array::axes`].
        extents: Vec<u64>,
        /// How each of them is compressed.
        codec: Codec,
        /// The chunks that were written, by step.
        chunks: Vec<Chunk>,
        /// Chunks were not written: their elements have no values.
        has_holes: bool,
    },
    /// In files, as boxes that do not meet, by step.
    Boxes {
        /// The boxes that were written.
        boxes: Vec<Piece>,
        /// Elements are in no box: they have no values.
        has_holes: bool,
    },
    /// In files, to be read.
    Read {
        /// Full name of their variable.
        variable: String,
        /// Type of its values, which the array may have in another one.
        element: ElementType,
        /// The parts, by step; of elements that several have, those of the last count.
        parts: Vec<Read>,
        /// Elements may be in no part: they have no values.
        has_holes: bool,
    },
    /// Here, in order, slowest axis first.
    Values(Vec<Value>),
}

/// A box of an array, whose elements lie one after the other in a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Piece {
    /// Its place in the array, with the axis of steps.
    pub bounds: BoundingBox,
    /// The subfile with its bytes; `None` for the file itself.
    pub subfile: Option<u32>,
    /// Its bytes there; the file has them all.
    pub bytes: Extent,
}

/// A chunk of an array.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Chunk {
    /// Its number along each axis.
    pub number: Vec<u64>,
    /// The subfile with its bytes; `None` for the file itself.
    pub subfile: Option<u32>,
    /// Its bytes there; if chunks are not compressed, as many as those of every chunk of the array.
    pub bytes: Extent,
}

/// The compression of an array's chunks: the format of a library.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Codec {
    /// None.
    Plain,
    /// A zlib stream.
    Zlib,
    /// A bzip2 stream.
    Bzip2,
    /// A Zstandard frame.
    Zstd,
    /// A buffer of c-blosc.
    Blosc,
}

impl Codec {
    /// The compression of a block; `None` if it has a form of BP files alone.
    fn of(block: &Block, element: ElementType, order: ByteOrder) -> Result<Option<Codec>> {
        let name = block.transform.as_ref().map(|transform| transform.name.to_ascii_lowercase());
        Ok(match (block.form(element, order)?, name.as_deref()) {
            (Form::Plain, _) => Some(Codec::Plain),
            (Form::Stream, Some("zlib")) => Some(Codec::Zlib),
            (Form::Stream, Some("bzip2")) => Some(Codec::Bzip2),
            (Form::Stream, Some("zstd")) => Some(Codec::Zstd),
            (Form::Stream, Some("blosc")) => Some(Codec::Blosc),
            _ => None,
        })
    }
}

/// A variable that is no array of other formats, or an attribute that they cannot have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeftOut {
    /// Its full name, without slashes at its ends.
    pub name: String,
    /// Why.
    pub why: String,
}

/// What other formats can show of a file.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Arrays {
    /// The arrays, in the order of the file, then the numbers of steps.
    pub arrays: Vec<Array>,
    /// The others.
    pub left_out: Vec<LeftOut>,
    /// Attributes of the file.
    pub attributes: Vec<(String, AttributeValue)>,
}

impl Arrays {
    /// The arrays of a file, from its index.
    ///
    /// - `pieces`: what the format can refer to.
    ///
    /// # Errors
    /// `NotFound` if a file with payloads is missing; errors of reading the index.
    /// # Cost
    /// Time and memory proportional to the number of blocks; no payload is read, but for scalars that the index does not contain.
    pub fn of(reader: &Reader, pieces: Pieces<'_>) -> Result<Arrays> {
        let mut all = Arrays::default();
        let heads = || reader.variables().iter().filter(|head| pieces.has(&head.name));
        let groups = heads().filter_map(|head| head.name.trim_matches('/').split_once('/'));
        let mut axes = Axes { groups: groups.map(|(group, _)| group.to_string()).collect(), ..Axes::default() };
        let mut attributes = Attributes::of(reader, &mut all.left_out)?;
        let names: HashSet<&str> = heads().map(|head| head.name.trim_matches('/')).collect();
        for head in heads() {
            let name = head.name.trim_matches('/').to_string();
            let own = attributes.take(&name);
            let parents = name.match_indices('/').map(|(at, _)| &name[..at]);
            let parent = parents.into_iter().find(|parent| names.contains(parent)).map(str::to_string);
            let made = match parent {
                Some(parent) => Err(format!("its name lies below that of the variable {parent}")),
                None => {
                    let variable = reader.variable(&head.name)?;
                    arrays_of(reader, &variable, &name, own, pieces, &mut axes, &mut all.left_out)?
                }
            };
            match made {
                Ok(arrays) => all.arrays.extend(arrays),
                Err(why) => all.left_out.push(LeftOut { name, why }),
            }
        }
        for (axis, steps) in axes.of_steps {
            if names.contains(&*axis) {
                continue;
            }
            all.arrays.push(Array {
                variable: axis.clone(),
                element: ElementType::I64,
                order: ByteOrder::NATIVE,
                axes: vec![axis.clone()],
                shape: vec![steps.len() as u64],
                has_steps: true,
                content: Content::Values(steps.iter().map(|step| Value::I64(*step as i64)).collect()),
                attributes: vec![("long_name".into(), text(STEP_IN_FILE))],
                name: axis,
            });
        }
        all.attributes = attributes.of_file;
        Ok(all)
    }
}

fn text(text: &str) -> AttributeValue {
    AttributeValue::One(Value::String(text.as_bytes().to_vec()))
}

/// A variable as an array, or several, or the reason why it is none.
fn arrays_of(
    reader: &Reader,
    variable: &Variable,
    name: &str,
    mut attributes: Vec<(String, AttributeValue)>,
    pieces: Pieces<'_>,
    axes: &mut Axes,
    left_out: &mut Vec<LeftOut>,
) -> Result<Shown<Vec<Array>>> {
    if variable.steps.is_empty() {
        return Ok(Err("it has no blocks".into()));
    }
    let wanted = named_axes(&attributes);
    attributes.retain(|(key, _)| key != AXES);
    let named = wanted.clone().filter(|names| names.len() == variable.shape.len());
    let is_coordinate = named.as_deref() == Some(&[name.to_string()]);
    // As the engine for xarray: a variable of one of several steps, and a coordinate of the only one, have no axis for steps.
    let steps = pieces.steps(&variable.steps);
    let Some(last) = steps.last() else { return Ok(Ok(vec![])) };
    let along = match pieces {
        Pieces::Values(_) => chosen::along(&mut attributes, named.as_deref()),
        Pieces::Chunks | Pieces::Boxes => Along::Axis(None),
    };
    let is_axis = matches!(along, Along::Axis(_));
    let has_steps = is_axis && (steps.len() > 1 || (pieces.has_one_step(reader.status().steps) && !is_coordinate));
    let element = match pieces.element(&variable.name, variable.element) {
        Ok(element) => element,
        Err(why) => return Ok(Err(why)),
    };
    if element != variable.element && variable.element == ElementType::LongDouble {
        let why = format!("its type {}: values become {element}", variable.element);
        left_out.push(LeftOut { name: name.into(), why });
    }
    let part = |content, shape, below: String| Array {
        name: format!("{name}/{below}"),
        variable: name.to_string(),
        element,
        // Values that are read have this machine's.
        order: if matches!(pieces, Pieces::Values(_)) { ByteOrder::NATIVE } else { reader.byte_order() },
        axes: Vec::new(),
        shape,
        has_steps: false,
        content,
        attributes: attributes.clone(),
    };
    let (content, shape) = match (variable.kind, pieces) {
        (Kind::Scalar, Pieces::Values(_)) => {
            let steps = if has_steps { &*steps } else { std::slice::from_ref(last) };
            if let Some(step) = has_others(reader, variable, steps)? {
                let why =
                    format!("each writer has its own value, first in step {step}: that of the first writer is left");
                left_out.push(LeftOut { name: name.into(), why });
            }
            match values_of(reader, variable, steps, element)? {
                Ok((values, shape)) => (Content::Values(values), shape),
                Err(why) => return Ok(Err(why)),
            }
        }
        (_, Pieces::Values(chosen)) => {
            match chosen.take(reader, variable, &steps, if is_axis && !has_steps { &Along::Last } else { &along })? {
                Ok(Values::Whole(content, shape)) => (content, shape),
                Ok(Values::Parts(parts)) => {
                    return Ok(Ok(parts
                        .into_iter()
                        .map(|(below, content, shape)| part(content, shape, below))
                        .collect()));
                }
                Err(why) => return Ok(Err(why)),
            }
        }
        (Kind::Scalar | Kind::LocalValue, _) => match values_of(reader, variable, &steps, element)? {
            Ok((values, shape)) => (Content::Values(values), shape),
            Err(why) => return Ok(Err(why)),
        },
        (Kind::Global | Kind::Local, Pieces::Chunks) => match chunks_of(reader, variable, has_steps)? {
            Ok(whole) => whole,
            Err(why) => return Ok(Err(why)),
        },
        (Kind::Global | Kind::Local, Pieces::Boxes) => match boxes_of(reader, variable, has_steps)? {
            Ok(Boxed::Whole(content, shape)) => (content, shape),
            Ok(Boxed::Parts(parts)) => {
                return Ok(Ok(parts.into_iter().map(|(below, content, shape)| part(content, shape, below)).collect()));
            }
            Err(why) => return Ok(Err(why)),
        },
    };
    let order = match content {
        Content::Values(_) | Content::Read { .. } => ByteOrder::NATIVE,
        Content::Chunks { .. } | Content::Boxes { .. } => reader.byte_order(),
    };
    // Axes of steps are named first, so that no other axis gets their names.
    let own = if let Along::Axis(name) = &along { name.as_deref() } else { None };
    let of_steps = has_steps.then(|| (axes.of_steps(&steps, own), steps.len() as u64));
    let wanted = wanted.filter(|names| names.len() == shape.len());
    let wanted = wanted.unwrap_or_else(|| unnamed(shape.len()));
    let others = axes.of_shape(&wanted, &shape).into_iter().zip(shape);
    let (axes, shape) = of_steps.into_iter().chain(others).unzip();
    let (name, variable) = (name.to_string(), name.to_string());
    Ok(Ok(vec![Array { name, variable, element, order, axes, shape, has_steps, content, attributes }]))
}

/// The first step in which writers of a scalar have other values than the first one.
fn has_others(reader: &Reader, variable: &Variable, steps: &[u64]) -> Result<Option<u64>> {
    for step in steps {
        if reader.block_count(&variable.name, *step)? > 1 {
            let blocks = reader.blocks(&variable.name, *step)?;
            if blocks.windows(2).any(|pair| pair[0].value != pair[1].value) {
                return Ok(Some(*step));
            }
        }
    }
    Ok(None)
}

/// The values of a variable that the index contains, step by step, and the shape at each step.
///
/// - `element`: the type that they get.
fn values_of(
    reader: &Reader,
    variable: &Variable,
    steps: &[u64],
    element: ElementType,
) -> Result<Shown<(Vec<Value>, Vec<u64>)>> {
    let mut values = Vec::new();
    let mut writers: Option<u64> = None;
    let mut bytes = 0u64;
    for step in steps {
        let before = values.len();
        match variable.kind {
            Kind::Scalar => values.push(reader.value(&variable.name, *step)?),
            _ => {
                for block in reader.blocks(&variable.name, *step)? {
                    match block.value {
                        Some(value) => values.push(value),
                        None => return Ok(Err("it has one value per writer, which the index does not contain".into())),
                    }
                }
                let here = (values.len() - before) as u64;
                if writers.replace(here).is_some_and(|writers| writers != here) {
                    return Ok(Err(format!("in step {step} other numbers of ranks wrote it than before")));
                }
            }
        }
        for value in &values[before..] {
            if !is_utf8(value) {
                return Ok(Err(format!("in step {step} it is a text that is not UTF-8")));
            }
            bytes = bytes.saturating_add(match value {
                Value::String(text) => text.len() as u64,
                _ => variable.element.size(),
            });
        }
        if bytes > MOST_INLINE {
            return Ok(Err(format!("its values have more than {} MiB", MOST_INLINE >> 20)));
        }
    }
    if element != variable.element {
        let cast = |value: Value| {
            let mut bytes = Vec::new();
            value.append_to(&mut bytes);
            let cast = cast::cast(variable.element, element, &bytes)?;
            Value::from_bytes(element, &cast, ByteOrder::NATIVE)
                .ok_or_else(|| Error::new(ErrorKind::Corrupt, format!("no value of {element}")))
        };
        let cast: Result<Vec<Value>> = values.into_iter().map(cast).collect();
        values = cast.map_err(|e| e.in_variable(variable.name.clone()))?;
    }
    Ok(Ok((values, writers.into_iter().collect())))
}

/// The chunks of an array over its steps, and its shape without the axis of steps.
fn chunks_of(reader: &Reader, variable: &Variable, has_steps: bool) -> Result<Shown<(Content, Vec<u64>)>> {
    if variable.shape_changes {
        return Ok(Err("its shape changes from step to step, or from block to block".into()));
    }
    let blocks = blocks_of(reader, variable, 0..u64::MAX)?;
    let steps = || blocks.chunk_by(|a, b| a.step == b.step);
    if variable.kind == Kind::Local && steps().any(|step| step.len() > 1) {
        return Ok(Err("it is a local array with several blocks in a step".into()));
    }
    // The shape of joined arrays is known from all blocks of a step.
    let of = |block: &Block| shape_of(variable.kind, block);
    let shape = blocks.first().map(of).unwrap_or_default();
    if let Some(other) = blocks.iter().find(|block| of(block) != shape) {
        let (first, there) = (blocks[0].step, of(other));
        return Ok(Err(format!("its shape is {shape:?} in step {first}, and {there:?} in step {}", other.step)));
    }
    let grid = Grid::of(&shape, blocks.iter().map(|block| &block.count[..]));
    let Some(mut placing) = Placing::new(grid, &shape, variable.element) else {
        return Ok(Err("one of its blocks has more bytes than 64 bits count".into()));
    };
    let mut chunks = Vec::with_capacity(blocks.len());
    for (position, step) in (0..).zip(steps()) {
        if let Err(why) = placing.place(reader, step, has_steps.then_some(position), &mut chunks)? {
            return Ok(Err(why));
        }
    }
    let mut extents = placing.grid.chunk().to_vec();
    if has_steps {
        extents.insert(0, 1);
    }
    let codec = placing.codec.unwrap_or(Codec::Plain);
    Ok(Ok((Content::Chunks { extents, codec, chunks, has_holes: placing.has_holes }, shape)))
}

/// The end of the reason for which a block cannot be shown until the file is longer.
const ENDS: &str = "is shorter than the others, and the file ends where a whole block would";

/// Blocks of an array as chunks, step by step.
#[derive(Debug)]
struct Placing {
    grid: Grid,
    element: ElementType,
    /// Bytes of a chunk that is not compressed.
    length: u64,
    /// The array has elements.
    has_elements: bool,
    /// The compression of all chunks; `None` before the first one.
    codec: Option<Codec>,
    has_holes: bool,
}

impl Placing {
    /// `None` if a chunk has more bytes than 64 bits count.
    fn new(grid: Grid, shape: &[u64], element: ElementType) -> Option<Placing> {
        let length = grid.chunk().iter().try_fold(element.size(), |all, extent| all.checked_mul(*extent))?;
        let has_elements = !shape.contains(&0);
        Some(Placing { grid, element, length, has_elements, codec: None, has_holes: false })
    }

    /// Adds the chunks of a step to `chunks`.
    ///
    /// - `position`: of the step along the axis of steps, if there is one.
    fn place(
        &mut self,
        reader: &Reader,
        step: &[Block],
        position: Option<u64>,
        chunks: &mut Vec<Chunk>,
    ) -> Result<Shown<()>> {
        let mut taken = Taken::default();
        for block in step.iter().filter(|block| !block.count.contains(&0)) {
            let here = |why: String| format!("block {} of step {} {why}", block.number, block.step);
            let Place { chunk: mut number, is_short } = match self.grid.place(&block.offset, &block.count) {
                Ok(place) if taken.take(&place) => place,
                Ok(_) => return Ok(Err(here("covers elements of another block".into()))),
                Err(why) => return Ok(Err(here(why))),
            };
            let Some(own) = Codec::of(block, self.element, reader.byte_order())? else {
                let transform = block.transform.as_ref().map_or("", |transform| &transform.name);
                return Ok(Err(here(format!("is stored with the transform {transform}, in a form of BP files alone"))));
            };
            if own != *self.codec.get_or_insert(own) {
                let why = "is compressed in another way than blocks before: one of them did not become smaller";
                return Ok(Err(here(why.into())));
            }
            let bytes =
                if own == Codec::Plain { Extent::new(block.payload.offset, self.length) } else { block.payload };
            if is_short && own != Codec::Plain {
                return Ok(Err(here("is shorter than the others, which a compressed chunk may not be".into())));
            }
            if is_short && !has_byte_before(reader, block.subfile, bytes.end())? {
                return Ok(Err(here(ENDS.into())));
            }
            number.splice(0..0, position);
            chunks.push(Chunk { number, subfile: block.subfile, bytes });
        }
        self.has_holes |= self.grid.chunks() != Some(taken.len()) && self.has_elements;
        Ok(Ok(()))
    }
}

/// The shape of the array that a block is a part of.
fn shape_of(kind: Kind, block: &Block) -> Vec<u64> {
    if kind == Kind::Local { block.count.clone() } else { block.shape.clone() }
}

/// The blocks of a variable in these steps, by step.
fn blocks_of(reader: &Reader, variable: &Variable, steps: Range<u64>) -> Result<Vec<Block>> {
    let mut blocks: Vec<Block> = Vec::new();
    reader.for_each_block(&variable.name, steps, &mut |block| {
        blocks.push(block);
        Ok(())
    })?;
    Ok(blocks)
}

/// The boxes of a variable.
enum Boxed {
    /// One array, and its shape without the axis of steps.
    Whole(Content, Vec<u64>),
    /// Arrays below the variable's name, and their shapes.
    Parts(Vec<(String, Content, Vec<u64>)>),
}

/// The boxes of an array over its steps.
fn boxes_of(reader: &Reader, variable: &Variable, has_steps: bool) -> Result<Shown<Boxed>> {
    let is_local = variable.kind == Kind::Local;
    let blocks = blocks_of(reader, variable, 0..u64::MAX)?;
    let steps: Vec<&[Block]> = blocks.chunk_by(|a, b| a.step == b.step).collect();
    let of = |block: &Block| if is_local { block.count.clone() } else { block.shape.clone() };
    for block in &blocks {
        if let Some(why) = not_a_box(reader, variable, block, &of(block))? {
            return Ok(Err(format!("block {} of step {} {why}", block.number, block.step)));
        }
    }
    if is_local && steps.iter().any(|step| step.len() > 1) {
        let part = |block: &Block| {
            let below = format!("step_{}/block_{}", block.step, block.number);
            match content_of(&[std::slice::from_ref(block)], &block.count, is_local, false) {
                Ok(content) => Ok((below, content, block.count.clone())),
                Err(why) => Err(why),
            }
        };
        return Ok(blocks.iter().map(part).collect::<Shown<_>>().map(Boxed::Parts));
    }
    let Some(shape) = blocks.first().map(of) else { return Ok(Err("it has no blocks".into())) };
    if blocks.iter().all(|block| of(block) == shape) {
        return Ok(content_of(&steps, &shape, is_local, has_steps).map(|content| Boxed::Whole(content, shape)));
    }
    let part = |step: &&[Block]| {
        let (number, shape) = (step[0].step, of(&step[0]));
        if step.iter().any(|block| of(block) != shape) {
            return Err(format!("its blocks of step {number} belong to arrays of several shapes"));
        }
        Ok((format!("step_{number}"), content_of(&[*step], &shape, is_local, false)?, shape))
    };
    Ok(steps.iter().map(part).collect::<Shown<_>>().map(Boxed::Parts))
}

/// Why a block cannot be shown as a box of an array of this shape, as the end of a sentence that begins with the block.
fn not_a_box(reader: &Reader, variable: &Variable, block: &Block, shape: &[u64]) -> Result<Option<String>> {
    if Codec::of(block, variable.element, reader.byte_order())? != Some(Codec::Plain) {
        let transform = block.transform.as_ref().map_or("", |transform| &transform.name);
        return Ok(Some(format!("is compressed with the transform {transform}")));
    }
    let length = block.count.iter().try_fold(variable.element.size(), |all, extent| all.checked_mul(*extent));
    if length != Some(block.payload.length) {
        return Ok(Some(format!(
            "has {} bytes, which its extents {:?} do not need",
            block.payload.length, block.count
        )));
    }
    if block.count.len() != shape.len() || (variable.kind != Kind::Local && block.offset.len() != shape.len()) {
        return Ok(Some(format!("has {} axes, the array has {}", block.count.len(), shape.len())));
    }
    let beyond =
        |((offset, count), extent): ((&u64, &u64), &u64)| offset.checked_add(*count).is_none_or(|end| end > *extent);
    if variable.kind != Kind::Local && block.offset.iter().zip(&block.count).zip(shape).any(beyond) {
        return Ok(Some("reaches beyond the array".into()));
    }
    if length != Some(0) && !has_byte_before(reader, block.subfile, block.payload.end())? {
        return Ok(Some("lies behind the end of its file".into()));
    }
    Ok(None)
}

/// The boxes of steps of one shape.
fn content_of(steps: &[&[Block]], shape: &[u64], is_local: bool, has_steps: bool) -> Shown<Content> {
    let (mut boxes, mut has_holes) = (Vec::new(), false);
    for (position, step) in (0u64..).zip(steps) {
        let written: Vec<&Block> = step.iter().filter(|block| !block.count.contains(&0)).collect();
        let bounds = |block: &&Block| {
            let offset = if is_local { vec![0; block.count.len()] } else { block.offset.clone() };
            BoundingBox { offset, count: block.count.clone() }
        };
        let all: Vec<BoundingBox> = written.iter().map(bounds).collect();
        if let Some(second) = boxes::meets_another(&all) {
            let block = written[second];
            return Err(format!("block {} of step {} covers elements of another block", block.number, block.step));
        }
        // The boxes do not meet and lie in the array: their elements are no more than its.
        let elements =
            |extents: &[u64]| extents.iter().map(|extent| u128::from(*extent)).try_fold(1u128, u128::checked_mul);
        has_holes |= elements(shape) != all.iter().try_fold(0u128, |sum, own| Some(sum + elements(&own.count)?));
        for (block, mut bounds) in written.into_iter().zip(all) {
            if has_steps {
                bounds.offset.insert(0, position);
                bounds.count.insert(0, 1);
            }
            boxes.push(Piece { bounds, subfile: block.subfile, bytes: block.payload });
        }
    }
    Ok(Content::Boxes { boxes, has_holes })
}

/// Whether a file with payloads reaches up to byte `end`; `None` is beyond all files.
fn has_byte_before(reader: &Reader, subfile: Option<u32>, end: Option<u64>) -> Result<bool> {
    end.map_or(Ok(false), |end| reader.data_reaches(subfile, end))
}

/// The names that an array's attribute [`AXES`] gives to its axes.
fn named_axes(attributes: &[(String, AttributeValue)]) -> Option<Vec<String>> {
    names_of_axes(&attributes.iter().find(|(key, _)| key == AXES)?.1)
}

/// The names of axes to which the file gives none.
pub fn unnamed(axes: usize) -> Vec<String> {
    (0..axes).map(|axis| format!("dim_{axis}")).collect()
}

/// The names in an attribute [`AXES`]: an array of texts, or words with spaces between.
pub fn names_of_axes(value: &AttributeValue) -> Option<Vec<String>> {
    let name = |value: &Value| match value {
        Value::String(text) => Some(String::from_utf8_lossy(text).into_owned()),
        _ => None,
    };
    match value {
        AttributeValue::One(value) => Some(name(value)?.split_whitespace().map(str::to_string).collect()),
        AttributeValue::Many(_, values) => values.iter().map(name).collect(),
        AttributeValue::Variable(_) => None,
    }
}

/// Whether other formats have a value: texts of theirs are UTF-8.
fn is_utf8(value: &Value) -> bool {
    !matches!(value, Value::String(text) if std::str::from_utf8(text).is_err())
}

fn all_utf8(value: &AttributeValue) -> bool {
    match value {
        AttributeValue::One(value) => is_utf8(value),
        AttributeValue::Many(_, values) => values.iter().all(is_utf8),
        AttributeValue::Variable(_) => true,
    }
}

/// Attributes by the variable that they belong to.
struct Attributes {
    of_variables: HashMap<String, Vec<(String, AttributeValue)>>,
    of_file: Vec<(String, AttributeValue)>,
}

impl Attributes {
    /// - `left_out`: gets the attributes that cannot be shown.
    fn of(reader: &Reader, left_out: &mut Vec<LeftOut>) -> Result<Attributes> {
        let variables: HashSet<&str> = reader.variables().iter().map(|head| head.name.trim_matches('/')).collect();
        let mut all = Attributes { of_variables: HashMap::new(), of_file: Vec::new() };
        for head in reader.attributes() {
            let Attribute { name, value, internal, .. } = reader.attribute(&head.name)?;
            if internal {
                continue;
            }
            let name = name.trim_matches('/');
            if !all_utf8(&value) {
                left_out.push(LeftOut { name: name.into(), why: "the attribute is a text that is not UTF-8".into() });
                continue;
            }
            match name.rsplit_once('/').filter(|(path, _)| variables.contains(path)) {
                Some((path, key)) => all.of_variables.entry(path.into()).or_default().push((key.into(), value)),
                None => all.of_file.push((name.into(), value)),
            }
        }
        Ok(all)
    }

    fn take(&mut self, name: &str) -> Vec<(String, AttributeValue)> {
        self.of_variables.remove(name).unwrap_or_default()
    }
}

/// The names of axes, and the extents that they have.
#[derive(Default)]
struct Axes {
    extents: HashMap<String, u64>,
    /// The axes of steps, and the steps that they stand for; the first one is the longest-known.
    of_steps: BTreeMap<String, Vec<u64>>,
    /// Names of groups, which no axis gets: a group has one thing of a name.
    groups: HashSet<String>,
}

impl Axes {
    /// - `wanted`: the name that the file says.
    fn of_steps(&mut self, steps: &[u64], wanted: Option<&str>) -> String {
        let fits = |axis: &str| wanted.is_none_or(|wanted| axis == wanted || axis.starts_with(&format!("{wanted}_")));
        if let Some((axis, _)) = self.of_steps.iter().find(|(axis, known)| *known == steps && fits(axis)) {
            return axis.clone();
        }
        let wanted = wanted.unwrap_or("step");
        let mut number = if self.of_steps.contains_key(wanted) { self.of_steps.len() } else { 0 };
        let axis = loop {
            let axis = if number == 0 { wanted.to_string() } else { format!("{wanted}_{number}") };
            if !self.groups.contains(&axis) && !self.of_steps.contains_key(&axis) {
                break axis;
            }
            number += 1;
        };
        self.of_steps.insert(axis.clone(), steps.to_vec());
        axis
    }

    fn of_shape(&mut self, wanted: &[String], shape: &[u64]) -> Vec<String> {
        let mut made: Vec<String> = Vec::with_capacity(shape.len());
        for (name, extent) in wanted.iter().zip(shape) {
            let mut free = name.clone();
            while made.contains(&free)
                || self.of_steps.contains_key(&free)
                || self.groups.contains(&free)
                || self.extents.get(&free).is_some_and(|known| known != extent)
            {
                free = if free == *name { format!("{name}_{extent}") } else { format!("{free}_") };
            }
            self.extents.insert(free.clone(), *extent);
            made.push(free);
        }
        made
    }
}
