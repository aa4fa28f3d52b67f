//! Facts about variables, for `ADIOS_VARINFO`.

use super::ReadFile;
use crate::adios1::error::{Doing, Failure, Outcome, number};
use thalweg_bp::statistics::ComponentStatistics;
use thalweg_reader::{Block, Kind, Summary};
use thalweg_types::{ElementType, Error, Value};

/// A variable over the steps that are shown.
#[derive(Debug, Clone, PartialEq)]
pub struct Info {
    /// Full name.
    pub name: String,
    /// Type of its values.
    pub element: ElementType,
    /// Its kind.
    pub kind: Kind,
    /// The file's steps that its steps are.
    pub steps: Vec<u64>,
    /// Blocks of each step.
    pub blocks: Vec<u64>,
    /// Shape in its first step, slowest first; of the first block for a local array; empty for a scalar.
    pub shape: Vec<u64>,
    /// Value of a scalar in its first step.
    pub value: Option<Value>,
    /// Places of attributes that are named `<variable>/<name>`.
    pub attributes: Vec<usize>,
    /// Whether values went through a transform.
    pub transform: Option<String>,
}

/// Statistics of the values of a block, a step or all steps.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ValueStatistics {
    /// Bytes of the smallest value, in the variable's type; of a complex one three doubles: magnitude, real, imaginary.
    pub min: Option<Vec<u8>>,
    /// Of the largest.
    pub max: Option<Vec<u8>>,
    /// Mean; three for complex values.
    pub mean: Option<Vec<f64>>,
    /// Standard deviation; three for complex values.
    pub deviation: Option<Vec<f64>>,
}

/// A block in the global array.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VariableBlock {
    /// Where it starts.
    pub start: Vec<u64>,
    /// Its extents.
    pub count: Vec<u64>,
    /// The rank that wrote it, or its number in the step where that is not known.
    pub process: u32,
    /// Step of the file, from 1.
    pub time_index: u32,
}

impl Info {
    /// Whether it has one shape of all blocks.
    pub fn is_global(&self) -> bool {
        matches!(self.kind, Kind::Global | Kind::LocalValue)
    }

    /// Blocks of all steps.
    pub fn all_blocks(&self) -> u64 {
        self.blocks.iter().sum()
    }

    /// The file's steps that correspond to `count` steps of the variable.
    ///
    /// # Errors
    /// `err_invalid_timestep`.
    pub fn file_steps(&self, from: i32, count: i32) -> Outcome<&[u64]> {
        let range = usize::try_from(from).ok().zip(usize::try_from(count).ok());
        let steps = range.and_then(|(from, count)| self.steps.get(from..from.checked_add(count)?));
        steps.ok_or_else(|| {
            let has = self.steps.len();
            let text = format!("{}: {count} steps from step {from}, of {has} in which it was written", self.name);
            Failure::new(number::INVALID_TIMESTEP, text)
        })
    }
}

impl ReadFile {
    /// The facts about the variable at an index.
    ///
    /// # Errors
    /// `err_invalid_varid`; a damaged index entry.
    pub fn info(&self, place: i32) -> Outcome<Info> {
        let name = self.variable_name(place)?;
        let failed = |e: Error| Doing::Read.failed(self.place(e));
        let reader = self.reader();
        let variable = reader.variable(name).map_err(failed)?;
        let mut counts = reader.block_counts(name).map_err(failed)?;
        if let Some(step) = self.current_step() {
            counts.retain(|(s, _)| *s == step);
        }
        let first = counts.first().map(|(s, _)| *s);
        let (mut shape, mut value) = (Vec::new(), None);
        match first {
            Some(first) if variable.kind == Kind::Scalar => value = Some(reader.value(name, first).map_err(failed)?),
            Some(first) => shape = reader.shape(name, first).map_err(failed)?,
            None => {}
        }
        let own = |n: &str| n.strip_prefix(name).and_then(|r| r.strip_prefix('/')).is_some_and(|r| !r.contains('/'));
        Ok(Info {
            name: name.to_string(),
            element: variable.element,
            kind: variable.kind,
            steps: counts.iter().map(|(s, _)| *s).collect(),
            blocks: counts.iter().map(|(_, n)| *n).collect(),
            shape,
            value,
            attributes: self.attribute_names().enumerate().filter(|(_, n)| own(n)).map(|(i, _)| i).collect(),
            transform: variable.transform,
        })
    }

    /// Every block of a variable, step by step.
    ///
    /// # Errors
    /// A damaged index entry.
    pub fn variable_blocks(&self, info: &Info) -> Outcome<Vec<VariableBlock>> {
        let mut blocks = Vec::with_capacity(info.all_blocks() as usize);
        self.each_block(info, &mut |block| {
            let process = self.reader().writer(block)?.unwrap_or(block.number as u32);
            blocks.push(VariableBlock {
                start: block.offset.clone(),
                count: block.count.clone(),
                process,
                time_index: block.step as u32 + 1,
            });
            Ok(())
        })?;
        Ok(blocks)
    }

    /// Statistics of every block.
    ///
    /// # Errors
    /// A damaged index entry.
    pub fn known_of_blocks(&self, info: &Info) -> Outcome<Vec<ValueStatistics>> {
        let mut all = Vec::with_capacity(info.all_blocks() as usize);
        let mut has_elements = false;
        self.each_block(info, &mut |block| {
            has_elements |= block.elements() > 0;
            all.push(of_block(info.element, block));
            Ok(())
        })?;
        if !has_elements {
            // Nothing is known, not even zeros, as in ADIOS 1.13.
            all.iter_mut().for_each(|known| *known = ValueStatistics::default());
        }
        Ok(all)
    }

    /// Statistics of each step.
    ///
    /// # Errors
    /// A damaged index entry.
    pub fn known_of_steps(&self, info: &Info) -> Outcome<Vec<ValueStatistics>> {
        let of_step = |step: &u64| self.summary(info, *step..*step + 1);
        info.steps.iter().map(of_step).collect()
    }

    /// Statistics of all values.
    ///
    /// # Errors
    /// A damaged index entry.
    pub fn known_of_all(&self, info: &Info) -> Outcome<ValueStatistics> {
        let (Some(first), Some(last)) = (info.steps.first(), info.steps.last()) else {
            return Ok(ValueStatistics::default());
        };
        self.summary(info, *first..*last + 1)
    }

    fn summary(&self, info: &Info, steps: std::ops::Range<u64>) -> Outcome<ValueStatistics> {
        let summary = self.reader().summary(&info.name, steps);
        Ok(of_summary(info.element, &summary.map_err(|e| Doing::Read.failed(self.place(e)))?))
    }

    fn each_block(&self, info: &Info, each: &mut dyn FnMut(&Block) -> thalweg_types::Result<()>) -> Outcome<()> {
        let (Some(first), Some(last)) = (info.steps.first(), info.steps.last()) else { return Ok(()) };
        let blocks = self.reader().for_each_block(&info.name, *first..*last + 1, &mut |block| each(&block));
        blocks.map_err(|e| Doing::Read.failed(self.place(e)))
    }
}

fn bytes(value: &Value) -> Vec<u8> {
    let mut bytes = Vec::new();
    value.append_to(&mut bytes);
    bytes
}

fn doubles(values: [f64; 3]) -> Vec<u8> {
    values.iter().flat_map(|v| v.to_ne_bytes()).collect()
}

/// Without finite values there is no smallest value; floating-point types represent this by a special value.
fn none_is_finite(element: ElementType) -> Option<Vec<u8>> {
    match element {
        ElementType::F32 => Some(bytes(&Value::F32(f32::NAN))),
        ElementType::F64 => Some(bytes(&Value::F64(f64::NAN))),
        _ => None,
    }
}

fn of_parts(parts: &[ComponentStatistics; 3], finite: Option<u64>) -> ValueStatistics {
    let n = finite.unwrap_or(0) as f64;
    let mean = |p: &ComponentStatistics| p.sum / n;
    let deviation = |p: &ComponentStatistics| (p.sum_of_squares / n - mean(p) * mean(p)).max(0.0).sqrt();
    ValueStatistics {
        min: Some(doubles([parts[0].min, parts[1].min, parts[2].min])),
        max: Some(doubles([parts[0].max, parts[1].max, parts[2].max])),
        mean: finite.filter(|n| *n > 0).map(|_| parts.iter().map(mean).collect()),
        deviation: finite.filter(|n| *n > 0).map(|_| parts.iter().map(deviation).collect()),
    }
}

fn of_summary(element: ElementType, summary: &Summary) -> ValueStatistics {
    if let Some(parts) = &summary.complex {
        return of_parts(parts, summary.finite);
    }
    let nothing = if summary.finite == Some(0) && summary.elements > 0 { none_is_finite(element) } else { None };
    ValueStatistics {
        min: summary.min.as_ref().map(bytes).or_else(|| nothing.clone()),
        max: summary.max.as_ref().map(bytes).or(nothing),
        mean: summary.mean.map(|m| vec![m]),
        deviation: summary.std.map(|d| vec![d]),
    }
}

fn of_block(element: ElementType, block: &Block) -> ValueStatistics {
    if let (Some(value), None) = (&block.value, &block.statistics)
        && let Some(number) = value.as_f64()
    {
        return ValueStatistics {
            min: Some(bytes(value)),
            max: Some(bytes(value)),
            mean: Some(vec![number]),
            deviation: Some(vec![0.0]),
        };
    }
    let complex = match &block.value {
        Some(Value::Complex([re, im])) => Some([f64::from(*re), f64::from(*im)]),
        Some(Value::DoubleComplex(parts)) => Some(*parts),
        _ => None,
    };
    if let Some([re, im]) = complex {
        let parts = [re.hypot(im), re, im];
        return ValueStatistics {
            min: Some(doubles(parts)),
            max: Some(doubles(parts)),
            mean: Some(parts.to_vec()),
            deviation: Some(vec![0.0; 3]),
        };
    }
    let Some(s) = &block.statistics else { return ValueStatistics::default() };
    if let Some(parts) = &s.complex {
        return of_parts(parts, s.level.has_sums().then_some(s.finite));
    }
    if element.is_complex() {
        return ValueStatistics::default();
    }
    let none = block.elements() == 0;
    let bound = |value: &Value| match s.finite {
        _ if none => None,
        0 => none_is_finite(element),
        _ => Some(bytes(value)),
    };
    let full = s.level.has_sums();
    let zero = || (full && none).then(|| vec![0.0]);
    ValueStatistics {
        min: bound(&s.min),
        max: bound(&s.max),
        mean: s.mean().map(|m| vec![m]).or_else(zero),
        deviation: s.standard_deviation().map(|d| vec![d]).or_else(zero),
    }
}
