//! Blocks: one variable's box from one rank in one step.

use thalweg_bp::characteristic::{Characteristics, SINGLE_FILE};
use thalweg_bp::shape::{JOINED, Shape};
use thalweg_bp::statistics::Statistics;
use thalweg_transform::{ErrorRecord, Form};
use thalweg_types::{AttributeValue, BoundingBox, ByteOrder, ElementType, Error, ErrorKind, Extent, Result, Value};

use crate::variable::Kind;

/// A block as the index describes it. Dimensions slowest first, in elements.
#[derive(Debug, Clone, PartialEq)]
pub struct Block {
    /// Step, from 0.
    pub step: u64,
    /// Number within the step.
    pub number: u64,
    /// Shape of the global array; empty for local arrays and scalars.
    pub shape: Vec<u64>,
    /// Where the block starts in it; zeros for local arrays.
    pub offset: Vec<u64>,
    /// Its extents; empty for scalars.
    pub count: Vec<u64>,
    /// Recorded statistics of its values, including complex parts and exact sums.
    pub statistics: Option<Statistics>,
    /// The value of a scalar or text.
    pub value: Option<Value>,
    /// The subfile that holds it; `None` for the file itself.
    pub subfile: Option<u32>,
    /// Its stored bytes there.
    pub payload: Extent,
    /// Where its variable record starts there.
    pub record_offset: u64,
    /// The transform that its bytes went through.
    pub transform: Option<Transformed>,
}

/// The transform of a block.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Transformed {
    /// Its name in the file.
    pub name: String,
    /// Its metadata, in the byte order of the file.
    pub metadata: Vec<u8>,
}

impl Block {
    /// The block as a box of the global array.
    pub fn as_box(&self) -> BoundingBox {
        BoundingBox { offset: self.offset.clone(), count: self.count.clone() }
    }

    /// The form of its stored bytes; [`Form::Own`] also for transforms that this library does not know.
    ///
    /// - `element`: type of its values; `order`: byte order of the file.
    ///
    /// # Errors
    /// `Corrupt` where the transform's metadata are damaged.
    pub fn form(&self, element: ElementType, order: ByteOrder) -> Result<Form> {
        let Some(Transformed { name, metadata }) = &self.transform else { return Ok(Form::Plain) };
        let bytes = self.elements().saturating_mul(element.size());
        thalweg_transform::find(name).map_or(Ok(Form::Own), |codec| codec.form(metadata, order, bytes))
    }

    /// The recorded error of the block's values: bound, largest error, form. `None` for blocks that went through no transform with an error
    /// bound.
    ///
    /// # Errors
    /// `Corrupt` where the record is damaged.
    pub fn error_record(&self) -> Result<Option<ErrorRecord>> {
        let Some(Transformed { name, metadata }) = &self.transform else { return Ok(None) };
        Ok(thalweg_transform::error_record(name, metadata)?.map(|(_, record)| record))
    }

    /// Whether the recorded statistics are those of the values that reads return. After a lossy transform without an error record they are
    /// those of the values before it.
    pub fn describes_what_is_read(&self) -> bool {
        let Some(transform) = &self.transform else { return true };
        let lossless = thalweg_transform::find(&transform.name).is_none_or(|codec| codec.keeps_every_bit());
        lossless || matches!(self.error_record(), Ok(Some(_)))
    }

    /// Number of elements.
    pub fn elements(&self) -> u64 {
        thalweg_types::bounding_box::elements(&self.count).unwrap_or(u64::MAX)
    }
}

/// The kind of variable that a shape implies.
pub(crate) fn kind_of(shape: Option<&Shape>) -> Kind {
    match shape {
        None => Kind::Scalar,
        Some(s) if s.rank() == 0 => Kind::Scalar,
        Some(s) if s.is_local_value() => Kind::LocalValue,
        Some(s) if s.is_global() || s.global.contains(&JOINED) => Kind::Global,
        Some(_) => Kind::Local,
    }
}

/// How the sets of a variable become blocks.
#[derive(Debug, Clone, Copy)]
pub(crate) struct How {
    /// Type as stored.
    pub element: ElementType,
    /// Dimensions are stored fastest first.
    pub fortran: bool,
    /// File indexes name subfiles.
    pub subfiles: bool,
    /// Kind of the variable; a block without elements does not always show it.
    pub kind: Kind,
}

impl How {
    /// One set as a block; its number is given, joined dimensions are not resolved.
    pub fn block(self, set: Characteristics, step: u64, number: u64) -> Result<Block> {
        let too_large = || {
            Error::new(ErrorKind::Corrupt, "a block has more bytes than 64 bits count")
                .at_step(step)
                .at_byte(set.record_offset)
        };
        let subfile = (self.subfiles && set.file_index != SINGLE_FILE).then_some(set.file_index);
        let stored = set.shape.as_ref().filter(|s| s.rank() > 0);
        let value = match set.value {
            Some(AttributeValue::One(value)) => Some(value),
            Some(AttributeValue::Many(_, mut values)) if values.len() == 1 => values.pop(),
            _ => None,
        };
        let bytes = match (stored, &value) {
            (Some(shape), _) if shape.is_local_value() => self.element.size(),
            (Some(shape), _) => {
                shape.elements().and_then(|n| n.checked_mul(self.element.size())).ok_or_else(too_large)?
            }
            (None, Some(Value::String(text))) => text.len() as u64,
            (None, _) => self.element.size(),
        };
        let payload = Extent::new(set.payload_offset, bytes);
        payload.end().ok_or_else(too_large)?;
        let (original, transform) = match set.transform {
            Some(t) => (Some(t.shape), Some(Transformed { name: t.uid, metadata: t.metadata })),
            None => (set.shape.filter(|s| s.rank() > 0), None),
        };
        let is_nothing = original.as_ref().is_some_and(Shape::is_nothing);
        let kind = if is_nothing && self.kind == Kind::Global { Kind::Global } else { kind_of(original.as_ref()) };
        let mut shape = original.unwrap_or_default().without_time(self.fortran);
        if is_nothing {
            shape.offset.fill(0);
        }
        if self.fortran {
            shape = shape.reversed();
        }
        shape.elements().ok_or_else(too_large)?;
        let (shape, offset, count) = match kind {
            Kind::Scalar => (vec![], vec![], vec![]),
            Kind::LocalValue => (vec![number + 1], vec![number], vec![1]),
            Kind::Global => (shape.global, shape.offset, shape.local),
            Kind::Local => (vec![], vec![0; shape.local.len()], shape.local),
        };
        Ok(Block {
            step,
            number,
            shape,
            offset,
            count,
            statistics: set.statistics,
            value,
            subfile,
            payload,
            record_offset: set.record_offset,
            transform,
        })
    }
}

/// Whether [`resolve`] would change anything in a step that starts with this block.
pub(crate) fn needs_the_others(first: &Block, kind: Kind) -> bool {
    kind == Kind::LocalValue || first.shape.contains(&JOINED)
}

/// Sets the properties that depend on all blocks of a step: offsets in a joined dimension, and the number of values local to
/// writers. Source: `docs/format/bp3.md`, section 5.2.
pub(crate) fn resolve(blocks: &mut [Block], kind: Kind) -> Result<()> {
    if kind == Kind::LocalValue {
        let n = blocks.len() as u64;
        blocks.iter_mut().for_each(|b| b.shape = vec![n]);
    }
    let joined = blocks.first().and_then(|b| b.shape.iter().position(|g| *g == JOINED));
    if let Some(d) = joined {
        let mut end = 0u64;
        for block in blocks.iter_mut().filter(|b| b.count.len() > d) {
            block.offset[d] = end;
            end = end
                .checked_add(block.count[d])
                .ok_or_else(|| Error::new(ErrorKind::Corrupt, "a joined array is longer than 64 bits count"))?;
        }
        blocks.iter_mut().filter(|b| b.shape.len() > d).for_each(|b| b.shape[d] = end);
    }
    Ok(())
}
