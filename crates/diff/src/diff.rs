//! What of two files is compared with what.

use crate::values::{self, Differing, Tolerance};
use std::collections::BTreeSet;
use thalweg_reader::{Block, Kind, Reader, Variable};
use thalweg_types::{AttributeValue, BoundingBox, ByteOrder, ElementType, Error, ErrorKind, Result, Selection, Value};

/// How two files are compared.
pub struct Options<'a> {
    /// Whether a variable or attribute of this name is compared.
    pub names: &'a dyn Fn(&str) -> bool,
    /// How far values may be apart.
    pub tolerance: Tolerance,
    /// Attributes too.
    pub attributes: bool,
    /// Bytes of memory for values.
    pub memory: u64,
}

/// One of the two files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// The first.
    A,
    /// The second.
    B,
}

/// Where values differ most.
#[derive(Debug, Clone, PartialEq)]
pub struct Place {
    /// Indices in the global array, or in the block; slowest dimension first. Empty for scalars.
    pub index: Vec<u64>,
    /// Number of the block, where the variable has no common array.
    pub block: Option<u64>,
    /// The values there.
    pub values: (Value, Value),
}

/// One difference.
#[derive(Debug, Clone, PartialEq)]
pub enum Difference {
    /// A variable is in one file alone.
    Variable {
        /// Its name.
        name: String,
        /// The file that has it.
        only_in: Side,
    },
    /// Kinds or types that cannot be compared.
    Form {
        /// Name of the variable.
        name: String,
        /// In words, of both files.
        forms: (String, String),
    },
    /// A variable was written in steps of one file alone.
    Steps {
        /// Its name.
        name: String,
        /// The file that has them.
        only_in: Side,
        /// The steps.
        steps: Vec<u64>,
    },
    /// Other shapes, or another number of blocks.
    Shape {
        /// Name of the variable.
        name: String,
        /// Step.
        step: u64,
        /// In words, of both files.
        shapes: (String, String),
    },
    /// Blocks of one file cover other elements of the array than those of the other.
    Coverage {
        /// Name of the variable.
        name: String,
        /// Step.
        step: u64,
        /// Elements that blocks cover, of both files.
        covered: (u64, u64),
    },
    /// Other values.
    Values {
        /// Name of the variable.
        name: String,
        /// Step.
        step: u64,
        /// How many elements.
        differing: u64,
        /// Of how many.
        elements: u64,
        /// The largest difference; `None` for texts.
        largest: Option<f64>,
        /// Where it is.
        place: Place,
    },
    /// Other attributes.
    Attribute {
        /// Its name.
        name: String,
        /// The values, where they are.
        values: (Option<AttributeValue>, Option<AttributeValue>),
    },
}

/// What was compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Summary {
    /// Variables compared.
    pub variables: u64,
    /// Variables that differ in anything.
    pub differing: u64,
    /// Attributes compared.
    pub attributes: u64,
    /// Attributes that differ.
    pub differing_attributes: u64,
}

impl Summary {
    /// Whether nothing differs.
    pub fn is_equal(&self) -> bool {
        self.differing == 0 && self.differing_attributes == 0
    }
}

/// Compares two files; tells each difference in the order of the first file's variables.
///
/// # Errors
/// Those of reads; the first of `tell`.
/// # Cost
/// Reads all values of variables that both files have, the two files at the same time: a part of each global array at a time, local arrays block
/// by block.
pub fn diff(
    a: &Reader,
    b: &Reader,
    options: &Options<'_>,
    tell: &mut dyn FnMut(Difference) -> Result<()>,
) -> Result<Summary> {
    let mut summary = Summary::default();
    let names = |reader: &Reader| -> Vec<String> {
        let names = reader.variables().iter().map(|head| head.name.clone());
        names.filter(|name| (options.names)(name)).collect()
    };
    let (of_a, of_b) = (names(a), names(b));
    let in_b: BTreeSet<&str> = of_b.iter().map(|name| bare(name)).collect();
    let in_a: BTreeSet<&str> = of_a.iter().map(|name| bare(name)).collect();
    for name in &of_a {
        summary.variables += 1;
        let mut differs = false;
        let mut tell = |difference| {
            differs = true;
            tell(difference)
        };
        match in_b.contains(bare(name)) {
            false => tell(Difference::Variable { name: name.clone(), only_in: Side::A })?,
            true => Both { a, b, name, options }.variable(&mut tell).map_err(|e| e.in_variable(name.clone()))?,
        }
        summary.differing += u64::from(differs);
    }
    for name in of_b.iter().filter(|name| !in_a.contains(bare(name))) {
        summary.variables += 1;
        summary.differing += 1;
        tell(Difference::Variable { name: name.clone(), only_in: Side::B })?;
    }
    if options.attributes {
        attributes(a, b, options, &mut summary, tell)?;
    }
    Ok(summary)
}

/// A slash in front makes no difference.
fn bare(name: &str) -> &str {
    name.strip_prefix('/').unwrap_or(name)
}

fn attributes(
    a: &Reader,
    b: &Reader,
    options: &Options<'_>,
    summary: &mut Summary,
    tell: &mut dyn FnMut(Difference) -> Result<()>,
) -> Result<()> {
    let mut names: Vec<&str> = Vec::new();
    let mut known = BTreeSet::new();
    for head in a.attributes().iter().chain(b.attributes()) {
        if (options.names)(&head.name) && known.insert(bare(&head.name)) {
            names.push(&head.name);
        }
    }
    for name in names {
        let of = |reader: &Reader| match reader.attribute(name) {
            Err(e) if e.kind() == ErrorKind::NotFound => Ok(None),
            attribute => attribute.map(Some),
        };
        let (of_a, of_b) = (of(a)?, of(b)?);
        // The library writes what it knows of itself, and of the run.
        if of_a.iter().chain(&of_b).any(|attribute| attribute.internal) {
            continue;
        }
        summary.attributes += 1;
        let equal = match (&of_a, &of_b) {
            (Some(a), Some(b)) => equal(&a.value, &b.value, options.tolerance),
            _ => false,
        };
        if !equal {
            summary.differing_attributes += 1;
            let values = (of_a.map(|a| a.value), of_b.map(|b| b.value));
            tell(Difference::Attribute { name: name.to_string(), values })?;
        }
    }
    Ok(())
}

fn equal(a: &AttributeValue, b: &AttributeValue, tolerance: Tolerance) -> bool {
    let list = |value: &AttributeValue| match value {
        AttributeValue::One(value) => vec![value.clone()],
        AttributeValue::Many(_, values) => values.clone(),
        AttributeValue::Variable(_) => vec![],
    };
    let (a, b) = (list(a), list(b));
    a.len() == b.len() && a.iter().zip(&b).all(|(a, b)| !values::differ(a, b, tolerance))
}

/// Bytes whose reading takes longer than the start of a thread.
const WORTH_A_THREAD: u64 = 256 << 10;

/// Values, and how many of them blocks cover.
type Values = (Vec<u8>, u64);

/// A variable of both files.
struct Both<'a> {
    a: &'a Reader,
    b: &'a Reader,
    name: &'a str,
    options: &'a Options<'a>,
}

/// Kind and type in words.
fn words(variable: &Variable) -> String {
    let kind = match variable.kind {
        Kind::Scalar => "scalar",
        Kind::Global | Kind::LocalValue => "global array",
        Kind::Local => "local array",
    };
    format!("{kind} of type {}", variable.element)
}

fn shown(extents: &[u64]) -> String {
    let numbers: Vec<String> = extents.iter().map(u64::to_string).collect();
    format!("[{}]", numbers.join(", "))
}

impl Both<'_> {
    fn variable(&self, tell: &mut dyn FnMut(Difference) -> Result<()>) -> Result<()> {
        let name = || self.name.to_string();
        let (a, b) = (self.a.variable(self.name)?, self.b.variable(self.name)?);
        let sort = |kind| if kind == Kind::LocalValue { Kind::Global } else { kind };
        if sort(a.kind) != sort(b.kind) || !values::are_comparable(a.element, b.element) {
            return tell(Difference::Form { name: name(), forms: (words(&a), words(&b)) });
        }
        let (in_a, in_b): (BTreeSet<u64>, BTreeSet<u64>) =
            (a.steps.iter().copied().collect(), b.steps.iter().copied().collect());
        for (side, own, other) in [(Side::A, &in_a, &in_b), (Side::B, &in_b, &in_a)] {
            let steps: Vec<u64> = own.difference(other).copied().collect();
            if !steps.is_empty() {
                tell(Difference::Steps { name: name(), only_in: side, steps })?;
            }
        }
        for step in in_a.intersection(&in_b) {
            match sort(a.kind) {
                Kind::Global => self.global(*step, (a.element, b.element), tell),
                Kind::Local | Kind::Scalar | Kind::LocalValue => self.blocks(*step, &a, &b, tell),
            }
            .map_err(|e| e.at_step(*step))?;
        }
        Ok(())
    }

    /// Blocks one by one: of scalars, texts and local arrays.
    fn blocks(
        &self,
        step: u64,
        a: &Variable,
        b: &Variable,
        tell: &mut dyn FnMut(Difference) -> Result<()>,
    ) -> Result<()> {
        let name = || self.name.to_string();
        let (of_a, of_b) = (self.a.blocks(self.name, step)?, self.b.blocks(self.name, step)?);
        let several = of_a.len() > 1 || a.kind == Kind::Local;
        if of_a.len() != of_b.len() {
            let count = |blocks: &[Block]| format!("{} blocks", blocks.len());
            return tell(Difference::Shape { name: name(), step, shapes: (count(&of_a), count(&of_b)) });
        }
        for (x, y) in of_a.iter().zip(&of_b) {
            let block = several.then_some(x.number);
            if x.count != y.count {
                let of = |block: &Block| format!("block {} of {}", block.number, shown(&block.count));
                tell(Difference::Shape { name: name(), step, shapes: (of(x), of(y)) })?;
                continue;
            }
            // The index has them.
            if let (Some(left), Some(right)) = (&x.value, &y.value) {
                if values::differ(left, right, self.options.tolerance) {
                    let place = Place { index: vec![], block, values: (left.clone(), right.clone()) };
                    let largest = values::difference(left, right);
                    tell(Difference::Values { name: name(), step, differing: 1, elements: 1, largest, place })?;
                }
                continue;
            }
            if x.count.contains(&0) {
                continue;
            }
            let selections = (Selection::Block(x.number), Selection::Block(y.number));
            let (left, right) = self.read(step, &selections)?;
            let elements = x.elements();
            if let Some(found) = values::compare((a.element, &left.0), (b.element, &right.0), self.options.tolerance) {
                let values = both((a.element, &left.0), (b.element, &right.0), found.at)?;
                let place = Place { index: index(found.at, &x.count), block, values };
                let Differing { count: differing, largest, .. } = found;
                tell(Difference::Values { name: name(), step, differing, elements, largest: Some(largest), place })?;
            }
        }
        Ok(())
    }

    /// A global array, a part at a time.
    fn global(
        &self,
        step: u64,
        elements: (ElementType, ElementType),
        tell: &mut dyn FnMut(Difference) -> Result<()>,
    ) -> Result<()> {
        let name = || self.name.to_string();
        let (shape, other) = (self.a.shape(self.name, step)?, self.b.shape(self.name, step)?);
        if shape != other {
            return tell(Difference::Shape { name: name(), step, shapes: (shown(&shape), shown(&other)) });
        }
        if shape.contains(&0) {
            return Ok(());
        }
        let size = elements.0.size().max(elements.1.size()).max(1);
        let most = (self.options.memory / 2 / size).max(1);
        let mut found: Option<(Differing, (Value, Value))> = None;
        let (mut covered, mut done) = ((0u64, 0u64), 0u64);
        for part in parts(&shape, most) {
            let length = part.elements().unwrap_or(u64::MAX);
            let selection = Selection::Box(part);
            let (left, right) = self.read(step, &(selection.clone(), selection))?;
            covered = (covered.0 + left.1, covered.1 + right.1);
            let here = values::compare((elements.0, &left.0), (elements.1, &right.0), self.options.tolerance);
            if let Some(here) = here {
                let values = both((elements.0, &left.0), (elements.1, &right.0), here.at)?;
                found = Some(match found {
                    None => (Differing { at: here.at + done, ..here }, values),
                    Some((so_far, _)) if here.largest > so_far.largest => (so_far.join(here, done), values),
                    Some((so_far, known)) => (so_far.join(here, done), known),
                });
            }
            done += length;
        }
        if covered.0 != covered.1 {
            tell(Difference::Coverage { name: name(), step, covered })?;
        }
        if let Some((Differing { count: differing, largest, at }, values)) = found {
            let place = Place { index: index(at, &shape), block: None, values };
            tell(Difference::Values { name: name(), step, differing, elements: done, largest: Some(largest), place })?;
        }
        Ok(())
    }

    /// Values of both files with the numbers of elements that blocks cover, read at the same time.
    fn read(&self, step: u64, selections: &(Selection, Selection)) -> Result<(Values, Values)> {
        let of = |reader: &Reader, selection: &Selection| -> Result<Values> {
            let length = reader.length(self.name, step, selection)?;
            let mut memory = Vec::new();
            let none = || Error::new(ErrorKind::NoMemory, format!("the system has no {length} bytes of memory"));
            memory.try_reserve_exact(usize::try_from(length).map_err(|_| none())?).map_err(|_| none())?;
            memory.resize(length as usize, 0);
            let filled = reader.read(self.name, step, selection, &mut memory)?;
            Ok((memory, filled))
        };
        if self.a.length(self.name, step, &selections.0)? < WORTH_A_THREAD {
            return Ok((of(self.a, &selections.0)?, of(self.b, &selections.1)?));
        }
        std::thread::scope(|scope| {
            let left = scope.spawn(|| of(self.a, &selections.0));
            let right = of(self.b, &selections.1);
            let left = left.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            Ok((left?, right?))
        })
    }
}

/// The values at an element.
fn both(a: (ElementType, &[u8]), b: (ElementType, &[u8]), at: u64) -> Result<(Value, Value)> {
    let of = |(element, bytes): (ElementType, &[u8])| {
        let size = element.size() as usize;
        let bytes = bytes.get(at as usize * size..(at as usize + 1) * size);
        let value = bytes.and_then(|bytes| Value::from_bytes(element, bytes, ByteOrder::NATIVE));
        value.ok_or_else(|| Error::new(ErrorKind::Corrupt, "an element without a value"))
    };
    Ok((of(a)?, of(b)?))
}

/// The indices of an element, slowest dimension first.
fn index(at: u64, shape: &[u64]) -> Vec<u64> {
    let mut rest = at;
    let mut index: Vec<u64> = shape
        .iter()
        .rev()
        .map(|extent| {
            let here = rest % extent;
            rest /= extent;
            here
        })
        .collect();
    index.reverse();
    index
}

/// An array in parts of at most `most` elements, in the order of its elements.
fn parts(shape: &[u64], most: u64) -> impl Iterator<Item = BoundingBox> {
    // The first dimension along which whole rows fit; of single elements they always do.
    let row = |d: usize| shape[d + 1..].iter().fold(1u64, |product, extent| product.saturating_mul(*extent));
    let cut = (0..shape.len()).find(|d| row(*d) <= most).unwrap_or(0);
    let rows = (most / row(cut)).max(1);
    let outer = shape[..cut].iter().fold(1u64, |product, extent| product.saturating_mul(*extent));
    (0..outer).flat_map(move |number| {
        let fixed = index(number, &shape[..cut]);
        (0..shape[cut]).step_by(usize::try_from(rows).unwrap_or(usize::MAX)).map(move |from| {
            let mut offset = fixed.clone();
            offset.push(from);
            offset.resize(shape.len(), 0);
            let mut count = vec![1; cut];
            count.push(rows.min(shape[cut] - from));
            count.extend_from_slice(&shape[cut + 1..]);
            BoundingBox { offset, count }
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn parts_are_consecutive_elements_and_no_larger_than_allowed(
            shape in proptest::collection::vec(1u64..8, 1..5), most in 1u64..200,
        ) {
            let mut next = 0;
            for part in parts(&shape, most) {
                let elements = part.elements().unwrap();
                prop_assert!(elements <= most);
                let first = part.offset.iter().zip(&shape).fold(0, |at, (offset, extent)| at * extent + offset);
                prop_assert_eq!(first, next);
                let last: Vec<u64> = part.offset.iter().zip(&part.count).map(|(o, c)| o + c - 1).collect();
                let last = last.iter().zip(&shape).fold(0, |at, (offset, extent)| at * extent + offset);
                prop_assert_eq!(last, next + elements - 1);
                next += elements;
            }
            prop_assert_eq!(next, shape.iter().product::<u64>());
        }
    }
}
