//! Arrays of a file that a writer extends: what its new steps add to them. A step costs the same however many are before it.
//!
//! | the new steps bring | [`Growing::advance`] returns |
//! |---|---|
//! | blocks on the grid of their array, values, other attributes | the arrays, with the chunks and values of these steps alone |
//! | another variable, shape or compression, a block off the grid, a variable without those that had its steps so far | nothing: all arrays are to be made anew, since their names, axes and chunks may be others |
//!
//! Arrays of chunks grow ([`crate::Pieces::Chunks`]). A variable that is left out stays so until all arrays are made anew.

use super::{
    AXES, Array, Arrays, Attributes, Codec, Content, ENDS, Placing, blocks_of, named_axes, shape_of, values_of,
};
use crate::grid::Grid;
use std::collections::HashMap;
use std::ops::Range;
use thalweg_reader::variable::Kind;
use thalweg_reader::{Reader, Variable};
use thalweg_types::{Result, Value};

/// What is known of the arrays of a file.
#[derive(Debug)]
pub struct Growing {
    /// Steps of the file.
    steps: u64,
    /// Number of its variables.
    variables: usize,
    /// A variable is left out for a reason that may pass.
    is_passing: bool,
    forms: Vec<Form>,
}

/// An array without its elements.
#[derive(Debug)]
struct Form {
    array: Array,
    /// The names of axes that its attribute gives.
    named: Option<Vec<String>>,
    parts: Parts,
}

#[derive(Debug)]
enum Parts {
    /// Blocks of a variable.
    Chunks(Variable, Placing),
    /// Values of a variable.
    Values(Variable),
    /// The numbers of steps.
    Steps,
}

impl Growing {
    /// - `all`: the arrays of this reader, as chunks.
    ///
    /// # Errors
    /// Errors of reading the index.
    /// # Cost
    /// Time proportional to the number of blocks.
    pub fn of(reader: &Reader, all: &Arrays) -> Result<Growing> {
        let names = reader.variables().iter().map(|head| (head.name.trim_matches('/'), head.name.as_str()));
        let names: HashMap<&str, &str> = names.collect();
        let mut attributes = Attributes::of(reader, &mut Vec::new())?;
        let mut forms = Vec::with_capacity(all.arrays.len());
        for array in &all.arrays {
            let variable = names.get(array.variable.as_str()).map(|name| reader.variable(name)).transpose()?;
            // Its steps are as many as the file's.
            let variable = variable.map(|variable| Variable { steps: Vec::new(), ..variable });
            let (content, parts) = match (&array.content, variable) {
                (Content::Chunks { extents, codec, chunks, has_holes }, Some(variable)) => {
                    let steps = usize::from(array.has_steps);
                    let grid = Grid::of(&array.shape[steps..], [&extents[steps..]]);
                    let placing = Placing::new(grid, &array.shape[steps..], array.element);
                    let mut placing = placing.expect("the array was made with this grid");
                    placing.codec = (!chunks.is_empty()).then_some(*codec);
                    placing.has_holes = *has_holes;
                    (array.content.without_elements(), Parts::Chunks(variable, placing))
                }
                (content, Some(variable)) => (content.without_elements(), Parts::Values(variable)),
                (content, None) => (content.without_elements(), Parts::Steps),
            };
            let named = named_axes(&attributes.take(&array.variable));
            forms.push(Form { array: Array { content, ..array.clone_without_content() }, named, parts });
        }
        let is_passing = all.left_out.iter().any(|left| left.why.ends_with(ENDS));
        Ok(Growing { steps: reader.status().steps, variables: reader.variables().len(), is_passing, forms })
    }

    /// The arrays with all steps that the file has by now, and of their elements those of steps that are new. `None`: all arrays are to
    /// be made anew, and this is of no use any more.
    ///
    /// - `reader`: of the same file.
    ///
    /// # Errors
    /// Errors of reading the index.
    /// # Cost
    /// Time proportional to the number of variables, attributes and new blocks.
    pub fn advance(&mut self, reader: &Reader) -> Result<Option<Arrays>> {
        let new = self.steps..reader.status().steps;
        // Whether an array has an axis of steps may depend on the second one.
        if new.start < 2 || self.is_passing || reader.variables().len() != self.variables {
            return Ok(None);
        }
        let mut grown = Arrays::default();
        let mut attributes = Attributes::of(reader, &mut grown.left_out)?;
        let mut along: HashMap<String, Vec<u64>> = HashMap::new();
        for form in &mut self.forms {
            let Form { array, named, parts } = form;
            if !matches!(parts, Parts::Steps) {
                let mut own = attributes.take(&array.variable);
                if named_axes(&own) != *named {
                    return Ok(None);
                }
                own.retain(|(key, _)| key != AXES);
                array.attributes = own;
            }
            let Some((content, steps)) = form.advance(reader, new.clone(), &along)? else { return Ok(None) };
            let array = &mut form.array;
            if array.has_steps {
                let known = along.entry(array.axes[0].clone()).or_insert_with(|| steps.clone());
                if *known != steps {
                    return Ok(None);
                }
                array.shape[0] += steps.len() as u64;
            } else if !steps.is_empty() {
                return Ok(None);
            }
            grown.arrays.push(Array { content, ..array.clone_without_content() });
        }
        grown.attributes = attributes.of_file;
        self.steps = new.end;
        Ok(Some(grown))
    }
}

impl Form {
    /// What the array gets, and in which steps.
    ///
    /// - `along`: the new steps of each axis, of the arrays before.
    fn advance(
        &mut self,
        reader: &Reader,
        new: Range<u64>,
        along: &HashMap<String, Vec<u64>>,
    ) -> Result<Option<(Content, Vec<u64>)>> {
        let Form { array, parts, .. } = self;
        let (known, shape) = array.shape.split_at(usize::from(array.has_steps));
        match parts {
            Parts::Steps => {
                let steps = along.get(&array.axes[0]).cloned().unwrap_or_default();
                let values = steps.iter().map(|step| Value::I64(*step as i64)).collect();
                Ok(Some((Content::Values(values), steps)))
            }
            Parts::Values(variable) => {
                let mut steps = Vec::new();
                for step in new {
                    if reader.is_written(&variable.name, step)? {
                        steps.push(step);
                    }
                }
                let Ok((values, here)) = values_of(reader, variable, &steps, array.element)? else { return Ok(None) };
                if !steps.is_empty() && here != shape {
                    return Ok(None);
                }
                Ok(Some((Content::Values(values), steps)))
            }
            Parts::Chunks(variable, placing) => {
                let blocks = blocks_of(reader, variable, new)?;
                let position = known.first().copied();
                if blocks.iter().any(|block| shape_of(variable.kind, block) != shape) {
                    return Ok(None);
                }
                let (mut all, mut steps) = (Vec::with_capacity(blocks.len()), Vec::new());
                for step in blocks.chunk_by(|a, b| a.step == b.step) {
                    if variable.kind == Kind::Local && step.len() > 1 {
                        return Ok(None);
                    }
                    let position = position.map(|position| position + steps.len() as u64);
                    if placing.place(reader, step, position, &mut all)?.is_err() {
                        return Ok(None);
                    }
                    steps.push(step[0].step);
                }
                let Content::Chunks { extents, codec, has_holes, .. } = &mut array.content else {
                    unreachable!("an array of chunks stays one")
                };
                (*codec, *has_holes) = (placing.codec.unwrap_or(Codec::Plain), placing.has_holes);
                let (extents, codec, has_holes) = (extents.clone(), *codec, *has_holes);
                Ok(Some((Content::Chunks { extents, codec, chunks: all, has_holes }, steps)))
            }
        }
    }
}

impl Array {
    /// The same array of which nothing is known but its form.
    fn clone_without_content(&self) -> Array {
        Array {
            name: self.name.clone(),
            variable: self.variable.clone(),
            element: self.element,
            order: self.order,
            axes: self.axes.clone(),
            shape: self.shape.clone(),
            has_steps: self.has_steps,
            content: Content::Values(Vec::new()),
            attributes: self.attributes.clone(),
        }
    }
}

impl Content {
    /// The same content without an element.
    fn without_elements(&self) -> Content {
        match self {
            Content::Chunks { extents, codec, has_holes, .. } => {
                Content::Chunks { extents: extents.clone(), codec: *codec, chunks: Vec::new(), has_holes: *has_holes }
            }
            Content::Values(_) | Content::Boxes { .. } | Content::Read { .. } => Content::Values(Vec::new()),
        }
    }
}
