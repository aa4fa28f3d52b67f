//! Shapes of blocks: local extents, global extents and offsets, in the order the file stores them.

use thalweg_types::BoundingBox;

/// adios2 marks a value local to a writer by this global extent (bp3 section 5.2).
pub const LOCAL_VALUE: u64 = u64::MAX - 2;
/// ADIOS 1.13 marks the joined dimension by this global extent (bp3 section 5.2).
pub const JOINED: u64 = u64::MAX - 1;

/// The shape of one block; dimensions in file order: slowest first unless the process group is Fortran's.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Shape {
    /// Extents of the block, in elements. Empty for scalars.
    pub local: Vec<u64>,
    /// Extents of the global array; all zero for local arrays. As long as `local`.
    pub global: Vec<u64>,
    /// Where the block lies in it; zero for local arrays. As long as `local`.
    pub offset: Vec<u64>,
}

impl Shape {
    /// A block of a global array.
    pub fn global(local: impl Into<Vec<u64>>, global: impl Into<Vec<u64>>, offset: impl Into<Vec<u64>>) -> Shape {
        Shape { local: local.into(), global: global.into(), offset: offset.into() }
    }

    /// A local array.
    pub fn local(local: impl Into<Vec<u64>>) -> Shape {
        let local = local.into();
        Shape { global: vec![0; local.len()], offset: vec![0; local.len()], local }
    }

    /// Number of dimensions.
    pub fn rank(&self) -> usize {
        self.local.len()
    }

    /// Whether it is part of a global array: an array is global when any global extent is not zero, and also where
    /// an extent of zero was meant, as in an array that is empty on every rank.
    pub fn is_global(&self) -> bool {
        self.global.iter().any(|g| *g > 0) && self.global.iter().all(|g| *g < LOCAL_VALUE)
    }

    /// adios2's value local to a writer.
    pub fn is_local_value(&self) -> bool {
        self.global.first() == Some(&LOCAL_VALUE)
    }

    /// Elements of the block; `None` on overflow.
    pub fn elements(&self) -> Option<u64> {
        thalweg_types::bounding_box::elements(&self.local)
    }

    /// The block as a box of the global array.
    pub fn as_box(&self) -> BoundingBox {
        BoundingBox { offset: self.offset.clone(), count: self.local.clone() }
    }

    /// The same with the order of dimensions turned round.
    pub fn reversed(mut self) -> Shape {
        self.local.reverse();
        self.global.reverse();
        self.offset.reverse();
        self
    }
}
