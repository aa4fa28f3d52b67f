//! A write request: a variable, its values, the box of the block in its array, and the position of the values in memory.
//!
//! The same five parts in every language:
//!
//! | part | Rust | C (`thalweg_put`) | C++ | Python | default |
//! |------|------|-------------------|-----|--------|------------|
//! | variable | `variable` | `name` | `name` | `name` | required |
//! | values | `values` | `data`, `bytes` | `values` | `data` | required |
//! | box | `place` | `box` | `box` | `shape`, `offset` | the declared dimensions |
//! | memory selection | `memory` | `memory` | `memory` | the strides of `data` | the values are contiguous |
//! | deferral | [`Values::Deferred`] | `deferred` | `write_deferred` | `copy=False` | the memory is free when the write returns |
//!
//! `adios_write` has the variable and the address of the values; deferral is the schema's `copy-on-write="no"`.

use crate::resolve::{self, Scalars};
use thalweg_bp::shape::Shape;
use thalweg_schema::dimension::Dimension;
use thalweg_schema::{Group, Variable};
use thalweg_types::{Error, ErrorKind, MemorySelection, Result};

/// Names a variable of the output's group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum VariableKey<'r> {
    /// Full name, or bare name where only one variable has it.
    Name(&'r str),
    /// Position in the group, from 0.
    Position(usize),
}

impl<'r> From<&'r str> for VariableKey<'r> {
    fn from(name: &'r str) -> VariableKey<'r> {
        VariableKey::Name(name)
    }
}

impl<'r> From<&'r String> for VariableKey<'r> {
    fn from(name: &'r String) -> VariableKey<'r> {
        VariableKey::Name(name)
    }
}

impl From<usize> for VariableKey<'_> {
    fn from(position: usize) -> Self {
        VariableKey::Position(position)
    }
}

/// Values of a block, in this machine's byte order, and how long their memory stays unchanged.
///
/// `'r`: during the call; `'a`: until the output is closed.
#[derive(Debug, Clone, Copy)]
pub enum Values<'r, 'a> {
    /// The memory is free again when the write returns.
    Copied(&'r [u8]),
    /// The memory stays unchanged until close: nothing is copied, no buffer is used. Rows of a memory selection below 4 KiB are
    /// copied nevertheless, because a list of them costs more.
    Deferred(&'a [u8]),
}

/// The box of a block in its array, in elements, in the declared order of dimensions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BlockBox {
    /// Extents of the block.
    pub count: Vec<u64>,
    /// Extents of the global array; `None`: the declared ones, which then must be numbers.
    pub shape: Option<Vec<u64>>,
    /// First element of the block in the global array; `None`: zeros.
    pub offset: Option<Vec<u64>>,
}

impl From<Shape> for BlockBox {
    fn from(shape: Shape) -> BlockBox {
        BlockBox { count: shape.local, shape: Some(shape.global), offset: Some(shape.offset) }
    }
}

impl BlockBox {
    /// The box as a shape of a block of `variable`.
    ///
    /// # Errors
    /// `InvalidArgument` for another number of dimensions, a box in a local array, or a missing shape that is declared by names;
    /// `OutOfBounds` if the block exceeds the array.
    fn shape_of(self, variable: &Variable) -> Result<Shape> {
        let BlockBox { count, shape, offset } = self;
        let number = |d: &Dimension| {
            let by_name = "the shape of the array is given by scalars: its box needs that shape";
            d.evaluate(&mut |_| Err(Error::new(ErrorKind::InvalidArgument, by_name)))
        };
        let zeros = || vec![0; count.len()];
        let global = match shape {
            Some(shape) => shape,
            None if variable.global.is_empty() => zeros(),
            None => variable.global.iter().map(number).collect::<Result<_>>()?,
        };
        let shape = Shape { global, offset: offset.unwrap_or_else(zeros), local: count };
        resolve::check_box(variable, &shape)?;
        Ok(shape)
    }
}

/// One block to write.
#[derive(Debug, Clone)]
pub struct WriteRequest<'r, 'a> {
    /// The variable.
    pub variable: VariableKey<'r>,
    /// Its values; with a memory selection the whole larger array.
    pub values: Values<'r, 'a>,
    /// The box of the block; `None`: as the declared dimensions specify.
    pub place: Option<BlockBox>,
    /// Offset of the block in the larger array `values`, in the order of dimensions of the program's language, without an entry
    /// for the time dimension. `None`: `values` is the block.
    pub memory: Option<&'r MemorySelection>,
}

impl<'r, 'a> WriteRequest<'r, 'a> {
    /// A block whose memory is free again when the write returns.
    pub fn new(variable: impl Into<VariableKey<'r>>, data: &'r [u8]) -> WriteRequest<'r, 'a> {
        WriteRequest { variable: variable.into(), values: Values::Copied(data), place: None, memory: None }
    }

    /// A block whose memory stays unchanged until close.
    pub fn deferred(variable: impl Into<VariableKey<'r>>, data: &'a [u8]) -> WriteRequest<'r, 'a> {
        WriteRequest { variable: variable.into(), values: Values::Deferred(data), place: None, memory: None }
    }

    /// Sets the box of the block, instead of the declared dimensions.
    pub fn in_box(mut self, place: impl Into<BlockBox>) -> WriteRequest<'r, 'a> {
        self.place = Some(place.into());
        self
    }

    /// Declares that the values are a larger array, and the offset of the block in it.
    pub fn out_of(mut self, memory: &'r MemorySelection) -> WriteRequest<'r, 'a> {
        self.memory = Some(memory);
        self
    }
}

/// The shape of a block of `variable`, from its box or its declared dimensions; `None` for scalars and texts.
///
/// # Errors
/// As `BlockBox::shape_of` and [`resolve::shape`]; `InvalidArgument` for an array without extents and without a box.
pub(super) fn shape(
    variable: &Variable,
    place: Option<BlockBox>,
    group: &Group,
    scalars: &Scalars,
) -> Result<Option<Shape>> {
    let mut shape = match place {
        Some(place) => Some(place.shape_of(variable)?),
        None => {
            resolve::check_says_extents(variable)?;
            resolve::shape(variable, &mut resolve::lookup(group, scalars))?
        }
    };
    if let Some(shape) = &mut shape {
        shape.place_nothing();
    }
    Ok(shape)
}
