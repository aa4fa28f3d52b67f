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
    /// Offsets of the block in the global array; zero for local arrays. As long as `local`.
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

    /// Whether the block is part of a global array: at least one global extent is not zero, and none is a marker (a value local
    /// to a writer, a joined dimension).
    pub fn is_global(&self) -> bool {
        self.global.iter().any(|g| *g > 0) && self.global.iter().all(|g| *g < LOCAL_VALUE)
    }

    /// adios2's value local to a writer.
    pub fn is_local_value(&self) -> bool {
        self.global.first() == Some(&LOCAL_VALUE)
    }

    /// Whether every local and global extent is 0: an empty block of an empty global array, or of a local array, which the block
    /// alone does not distinguish.
    pub fn is_nothing(&self) -> bool {
        self.rank() > 0 && self.local.iter().chain(&self.global).all(|n| *n == 0)
    }

    /// Sets the offsets of an empty block to those that readers expect.
    ///
    /// If an extent is 0, its offset is 0: ADIOS 1.13 treats an empty block inside a box as one that meets the box, and reads
    /// 2^64 bytes. A block that [is nothing](Self::is_nothing) has offset 1 in its first dimension: adios2 treats a shape of only
    /// zeros as a single value, and reads 0 for the following blocks. ADIOS 1.13 accepts both.
    pub fn place_nothing(&mut self) {
        for (offset, local) in self.offset.iter_mut().zip(&self.local) {
            if *local == 0 {
                *offset = 0;
            }
        }
        if self.is_nothing() {
            self.offset[0] = 1;
        }
    }

    /// Elements of the block; `None` on overflow.
    pub fn elements(&self) -> Option<u64> {
        thalweg_types::bounding_box::elements(&self.local)
    }

    /// The block as a box of the global array.
    pub fn as_box(&self) -> BoundingBox {
        BoundingBox { offset: self.offset.clone(), count: self.local.clone() }
    }

    /// The shape without a time dimension. ADIOS 1.x adds a time dimension to blocks of a global array whose dimensions contain
    /// the time index: one more local extent of 1 (first; in Fortran files last) and a last global extent of 0, so that global
    /// extents and offsets are those of the other dimensions.
    ///
    /// `fortran`: the position that is tried first. Blocks with a last extent of 0 are unchanged.
    pub fn without_time(mut self, fortran: bool) -> Shape {
        let Some(last) = self.rank().checked_sub(1).filter(|last| *last > 0) else { return self };
        let marked = self.global[last] == 0 && self.offset[last] == 0 && self.local[last] > 0;
        if !marked || !self.is_global() {
            return self;
        }
        let fits = |time: &usize| {
            let others = (0..=last).filter(|d| d != time).zip(self.global.iter().zip(&self.offset));
            let inside = |(d, (global, offset)): (usize, (&u64, &u64))| {
                offset.checked_add(self.local[d]).is_some_and(|end| end <= *global)
            };
            self.local[*time] == 1 && others.into_iter().all(inside)
        };
        let places = if fortran { [last, 0] } else { [0, last] };
        if let Some(time) = places.into_iter().find(fits) {
            self.local.remove(time);
            self.global.pop();
            self.offset.pop();
        }
        self
    }

    /// The shape with the dimensions in reverse order.
    pub fn reversed(mut self) -> Shape {
        self.local.reverse();
        self.global.reverse();
        self.offset.reverse();
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_without_an_element_lies_where_readers_expect_it() {
        let placed = |mut shape: Shape| {
            shape.place_nothing();
            shape.offset
        };
        assert_eq!(placed(Shape::local([0])), [1]);
        assert_eq!(placed(Shape::global([0, 0], [0, 0], [0, 0])), [1, 0]);
        assert_eq!(placed(Shape::local([3, 0])), [0, 0]);
        assert_eq!(placed(Shape::global([0, 2], [7, 2], [5, 0])), [0, 0]);
        assert_eq!(placed(Shape::global([1, 2], [7, 2], [5, 0])), [5, 0]);
        assert_eq!(placed(Shape::default()), []);
    }

    #[test]
    fn a_time_dimension_goes_and_others_stay() {
        let c = Shape::global([1, 2, 3], [8, 3, 0], [4, 0, 0]).without_time(false);
        assert_eq!(c, Shape::global([2, 3], [8, 3], [4, 0]));
        let fortran = Shape::global([2, 3, 1], [8, 3, 0], [4, 0, 0]).without_time(true);
        assert_eq!(fortran, c);
        // Only one place fits.
        assert_eq!(Shape::global([2, 1], [8, 0], [4, 0]).without_time(false), Shape::global([2], [8], [4]));
        // Both fit; what the file says first.
        let either = Shape::global([1, 2, 1], [4, 4, 0], [0, 0, 0]);
        assert_eq!(either.clone().without_time(false).local, [2, 1]);
        assert_eq!(either.without_time(true).local, [1, 2]);
        for other in [
            Shape::global([1, 0], [4, 0], [2, 0]),
            Shape::global([1, 3], [4, 3], [2, 0]),
            Shape::global([2, 2], [4, 0], [0, 0]),
            Shape::global([1, 9], [4, 0], [0, 0]),
            Shape::global([u64::MAX, 1], [4, 0], [1, 0]),
            Shape::local([1, 3]),
            Shape::global([1], [0], [0]),
            Shape::default(),
        ] {
            assert_eq!(other.clone().without_time(false), other);
        }
    }
}
