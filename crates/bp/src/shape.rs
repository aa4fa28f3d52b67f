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

    /// The same without a time dimension, which ADIOS 1.x gives to blocks of a global array whose extents name the
    /// time index: one more local extent of 1 (in front, in Fortran's files behind) and a global extent of 0 behind
    /// the others, so that global extents and offsets are those of the dimensions that follow.
    ///
    /// `fortran`: where it is looked for first. Blocks without elements in that last extent are as they are.
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

    /// The same with the order of dimensions turned round.
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
