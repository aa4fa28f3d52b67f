//! The chosen values of a variable as parts of arrays: for formats that get the values, not places of bytes.
//!
//! What a variable's attribute `_STEP_DIMENSION` says of its steps holds, as for datasets of xarray (`docs/format/xarray.md`).

use crate::arrays::{Content, Shown};
use std::borrow::Cow;
use thalweg_choice::plan::{How, Part, parts};
use thalweg_choice::{Blocks, Choice};
use thalweg_reader::variable::Kind;
use thalweg_reader::{Reader, Variable};
use thalweg_types::{AttributeValue, BoundingBox, ElementType, ErrorKind, Result, Selection, Value};

/// The attribute that says what the steps of a variable are.
pub const STEPS: &str = "_STEP_DIMENSION";

/// What of a file is read.
#[derive(Debug, Clone, Copy)]
pub struct Chosen<'c> {
    /// Variables, steps, regions and types. Its blocks, transforms and statistics are not looked at.
    pub choice: &'c Choice,
    /// Most bytes of a part that is made of several blocks.
    pub most: u64,
}

/// A part of an array, and where its values are.
#[derive(Debug, Clone, PartialEq)]
pub struct Read {
    /// Its place in the array, with the axis of steps.
    pub bounds: BoundingBox,
    /// Step of the file.
    pub step: u64,
    /// What is read there, of the array's variable.
    pub from: Selection,
}

/// What the steps of a variable are in its array.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Along {
    /// Its first axis, with this name if the file says one.
    Axis(Option<String>),
    /// Nothing: only the last one counts.
    Last,
    /// Each extends this axis of the variable.
    Extends(usize),
}

/// An array, or several below the variable's name, with their shapes without the axis of steps.
pub enum Taken {
    /// One array.
    Whole(Content, Vec<u64>),
    /// Several: what is added to the name.
    Parts(Vec<(String, Content, Vec<u64>)>),
}

impl Chosen<'_> {
    /// The chosen ones of these steps.
    pub fn steps<'s>(&self, steps: &'s [u64]) -> Cow<'s, [u64]> {
        match steps.iter().all(|step| self.choice.steps.contain(*step)) {
            true => Cow::Borrowed(steps),
            false => steps.iter().copied().filter(|step| self.choice.steps.contain(*step)).collect(),
        }
    }

    /// The type that a variable's values get.
    ///
    /// Real numbers of more than 8 bytes become double: few formats have them.
    ///
    /// # Errors
    /// Why the variable cannot have the type that is asked for by its name.
    pub fn element(&self, name: &str, own: ElementType) -> Shown<ElementType> {
        match self.choice.becomes(name, own) {
            Ok(ElementType::LongDouble) => Ok(ElementType::F64),
            becomes => becomes.map_err(|e| e.what().to_string()),
        }
    }

    /// The values of an array.
    ///
    /// - `steps`: the chosen ones; at least one.
    ///
    /// # Errors
    /// Those of reading the index; `OutOfBounds` for a region beyond the array.
    pub fn take(&self, reader: &Reader, variable: &Variable, steps: &[u64], along: &Along) -> Result<Shown<Taken>> {
        let steps = if *along == Along::Last { &steps[steps.len() - 1..] } else { steps };
        let content = |steps, along: &Along| content(variable, steps, along);
        let mut planned = Vec::with_capacity(steps.len());
        for step in steps {
            match self.step(reader, variable, *step)? {
                Ok(step) => planned.push(step),
                Err(why) => return Ok(Err(why)),
            }
        }
        if variable.kind == Kind::Local && planned.iter().any(|step| step.parts.len() > 1) {
            let alone = |step: InStep| {
                let number = step.number;
                let own = move |(block, part): (usize, (Selection, BoundingBox))| {
                    let shape = part.1.count.clone();
                    let step = InStep { number, shape: shape.clone(), parts: vec![part], has_holes: false };
                    (format!("step_{number}/block_{block}"), content(vec![step], &Along::Last), shape)
                };
                step.parts.into_iter().enumerate().map(own)
            };
            return Ok(Ok(Taken::Parts(planned.into_iter().flat_map(alone).collect())));
        }
        let others = |shape: &[u64]| match along {
            Along::Extends(axis) => shape.iter().enumerate().filter(|(at, _)| at != axis).map(|(_, n)| *n).collect(),
            Along::Axis(_) | Along::Last => shape.to_vec(),
        };
        let Some(first) = planned.first() else { return Ok(Err("it has no blocks".into())) };
        let mut shape = first.shape.clone();
        if planned.iter().any(|step| others(&step.shape) != others(&shape)) {
            let alone = |step: InStep| {
                let (name, shape) = (format!("step_{}", step.number), step.shape.clone());
                (name, content(vec![step], &Along::Last), shape)
            };
            return Ok(Ok(Taken::Parts(planned.into_iter().map(alone).collect())));
        }
        if let Along::Extends(axis) = along {
            shape[*axis] = planned.iter().map(|step| step.shape[*axis]).sum();
        }
        Ok(Ok(Taken::Whole(content(planned, along), shape)))
    }

    fn step(&self, reader: &Reader, variable: &Variable, step: u64) -> Result<Shown<InStep>> {
        let blocks = reader.blocks(&variable.name, step)?;
        let is_local = variable.kind == Kind::Local;
        let shape = if is_local { vec![] } else { reader.shape(&variable.name, step)? };
        let how = How {
            region: self.choice.region(&variable.name),
            blocks: if is_local { &Blocks::AsWritten } else { &Blocks::Merged },
            size: variable.element.size(),
            most: self.most,
        };
        let planned = match parts(variable.kind, &shape, &blocks, how) {
            Err(e) if e.kind() == ErrorKind::Unsupported => return Ok(Err(e.what().to_string())),
            planned => planned.map_err(|e| e.in_variable(variable.name.clone()).at_step(step))?,
        };
        // Of a global array, also where no block lies in the region.
        let mut shape = match (is_local, how.region) {
            (false, Some(region)) => region.of(&shape).map(|lattice| lattice.count)?,
            _ => shape,
        };
        let mut parts = Vec::with_capacity(planned.parts.len());
        for Part { from, place } in planned.parts {
            let Some(place) = place else { continue };
            if is_local {
                shape.clone_from(&place.count);
            }
            let offset = if is_local { vec![0; place.count.len()] } else { place.offset };
            let bounds = BoundingBox { offset, count: place.count };
            let from = match (from, variable.kind) {
                // Of elements that several blocks have, every part gets those that readers see.
                (Selection::Block(_), Kind::Global) => Selection::Box(bounds.clone()),
                (from, _) => from,
            };
            parts.push((from, bounds));
        }
        Ok(Ok(InStep { number: step, shape, parts, has_holes: planned.not_merged }))
    }
}

/// A step of a variable.
struct InStep {
    number: u64,
    shape: Vec<u64>,
    parts: Vec<(Selection, BoundingBox)>,
    has_holes: bool,
}

/// The parts of steps as one array.
fn content(variable: &Variable, steps: Vec<InStep>, along: &Along) -> Content {
    let (mut all, mut has_holes, mut before) = (Vec::new(), false, 0);
    for (position, step) in (0u64..).zip(steps) {
        has_holes |= step.has_holes;
        for (from, mut bounds) in step.parts {
            match along {
                Along::Axis(_) => {
                    bounds.offset.insert(0, position);
                    bounds.count.insert(0, 1);
                }
                Along::Extends(axis) => bounds.offset[*axis] += before,
                Along::Last => {}
            }
            if !bounds.count.contains(&0) {
                all.push(Read { bounds, step: step.number, from });
            }
        }
        if let Along::Extends(axis) = along {
            before += step.shape[*axis];
        }
    }
    Content::Read { variable: variable.name.clone(), element: variable.element, parts: all, has_holes }
}

/// What the steps of a variable are, by its attributes, from which this one is taken.
///
/// - `axes`: names of its axes, if there are any.
pub fn along(attributes: &mut Vec<(String, AttributeValue)>, axes: Option<&[String]>) -> Along {
    let Some(at) = attributes.iter().position(|(key, _)| key == STEPS) else { return Along::Axis(None) };
    let (_, value) = attributes.remove(at);
    let AttributeValue::One(Value::String(text)) = value else { return Along::Axis(None) };
    let text = String::from_utf8_lossy(&text).into_owned();
    match axes.into_iter().flatten().position(|axis| *axis == text) {
        _ if text.is_empty() => Along::Last,
        Some(axis) => Along::Extends(axis),
        None => Along::Axis(Some(text)),
    }
}
