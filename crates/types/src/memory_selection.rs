//! The position of a block in a larger array of the program, such as the inside of an array with ghost cells.

use crate::bounding_box::elements;
use crate::{Error, ErrorKind, Result};

/// An array in memory and where a block starts in it; row-major, slowest dimension first, in elements.
///
/// The block's extents come from the group's dimensions at a write, and from the selection at a read.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct MemorySelection {
    /// Extents of the whole array.
    pub shape: Vec<u64>,
    /// First element of the block in each dimension.
    pub start: Vec<u64>,
}

impl MemorySelection {
    /// An array of this shape, the block starting at `start` of it; both have one entry per dimension.
    pub fn new(shape: impl Into<Vec<u64>>, start: impl Into<Vec<u64>>) -> MemorySelection {
        MemorySelection { shape: shape.into(), start: start.into() }
    }

    /// The inside of an array with `width` ghost cells on both sides of each dimension, around a block of `count`.
    pub fn ghosts(count: &[u64], width: u64) -> MemorySelection {
        let shape: Vec<u64> = count.iter().map(|c| c.saturating_add(width.saturating_mul(2))).collect();
        MemorySelection { start: vec![width; shape.len()], shape }
    }

    /// The same as a program sees it that counts dimensions from the fastest (Fortran).
    pub fn reversed(&self) -> MemorySelection {
        let turn = |list: &[u64]| list.iter().rev().copied().collect::<Vec<_>>();
        MemorySelection { shape: turn(&self.shape), start: turn(&self.start) }
    }

    /// Number of elements of the whole array.
    ///
    /// # Errors
    /// `OutOfBounds` where that leaves the range of 64 bits.
    pub fn elements(&self) -> Result<u64> {
        elements(&self.shape).ok_or_else(|| Error::new(ErrorKind::OutOfBounds, "a memory of more than 2^64 elements"))
    }

    /// Checks that a block of `count` lies inside.
    ///
    /// # Errors
    /// `InvalidArgument` for another number of dimensions, `OutOfBounds` naming the dimension that the block leaves.
    pub fn check(&self, count: &[u64]) -> Result<()> {
        if self.shape.len() != count.len() || self.start.len() != count.len() {
            let what = format!(
                "a memory of {} dimensions, started at {} numbers, for a block of {}",
                self.shape.len(),
                self.start.len(),
                count.len()
            );
            return Err(Error::new(ErrorKind::InvalidArgument, what));
        }
        for (d, ((shape, start), count)) in self.shape.iter().zip(&self.start).zip(count).enumerate() {
            if start.checked_add(*count).is_none_or(|end| end > *shape) {
                let what = format!("dimension {d}: {count} elements from {start} leave the memory's extent {shape}");
                return Err(Error::new(ErrorKind::OutOfBounds, what));
            }
        }
        self.elements().map(|_| ())
    }

    /// The runs of neighbouring elements that hold a block of `count`, in the order of the block.
    ///
    /// # Errors
    /// As [`MemorySelection::check`].
    pub fn runs(&self, count: &[u64]) -> Result<Runs> {
        self.check(count)?;
        let rank = count.len();
        if count.contains(&0) {
            return Ok(Runs { length: 0, first: 0, outer: Vec::new(), at: Vec::new(), left: 0 });
        }
        // Dimensions that the block fills join the one before them.
        let mut inner = rank.saturating_sub(1);
        while inner > 0 && count[inner] == self.shape[inner] {
            inner -= 1;
        }
        let mut stride = 1u64;
        let mut strides = vec![0; rank];
        for d in (0..rank).rev() {
            strides[d] = stride;
            stride = stride.wrapping_mul(self.shape[d]);
        }
        let first = self.start.iter().zip(&strides).map(|(s, by)| s * by).sum();
        let outer: Vec<(u64, u64)> = count[..inner].iter().copied().zip(strides[..inner].iter().copied()).collect();
        let left = outer.iter().map(|(n, _)| n).product();
        let length = count[inner..].iter().product();
        Ok(Runs { length, first, at: vec![0; outer.len()], outer, left })
    }
}

/// The runs of a block in memory; each is as long as the others.
#[derive(Debug, Clone)]
pub struct Runs {
    length: u64,
    first: u64,
    /// Count and stride of the dimensions outside a run.
    outer: Vec<(u64, u64)>,
    at: Vec<u64>,
    left: u64,
}

impl Runs {
    /// Elements of each run.
    pub fn length(&self) -> u64 {
        self.length
    }
}

impl Iterator for Runs {
    /// First element of the run in the memory.
    type Item = u64;

    fn next(&mut self) -> Option<u64> {
        self.left = self.left.checked_sub(1)?;
        let now = self.first;
        for ((n, stride), at) in self.outer.iter().zip(&mut self.at).rev() {
            *at += 1;
            self.first += stride;
            if *at < *n {
                break;
            }
            self.first -= stride * n;
            *at = 0;
        }
        Some(now)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let left = usize::try_from(self.left).unwrap_or(usize::MAX);
        (left, Some(left))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn elements_of(memory: &MemorySelection, count: &[u64]) -> Vec<u64> {
        let runs = memory.runs(count).unwrap();
        let length = runs.length();
        runs.flat_map(|at| at..at + length).collect()
    }

    #[test]
    fn the_inside_of_ghost_zones_is_a_run_per_row() {
        let memory = MemorySelection::ghosts(&[2, 3], 1);
        assert_eq!(memory, MemorySelection::new([4, 5], [1, 1]));
        assert_eq!(memory.runs(&[2, 3]).unwrap().collect::<Vec<_>>(), [6, 11]);
        assert_eq!(elements_of(&memory, &[2, 3]), [6, 7, 8, 11, 12, 13]);
    }

    #[test]
    fn runs_are_the_elements_of_the_block_in_order() {
        let (shape, start, count) = ([3u64, 4, 5, 2], [1u64, 0, 2, 0], [2u64, 4, 3, 2]);
        let memory = MemorySelection::new(shape, start);
        let mut expected = Vec::new();
        for a in 0..count[0] {
            for b in 0..count[1] {
                for c in 0..count[2] {
                    for d in 0..count[3] {
                        let at = ((a + start[0]) * shape[1] + b + start[1]) * shape[2] + c + start[2];
                        expected.push(at * shape[3] + d + start[3]);
                    }
                }
            }
        }
        assert_eq!(elements_of(&memory, &count), expected);
        // Three rows of two are neighbours.
        assert_eq!(memory.runs(&count).unwrap().length(), 6);
    }

    #[test]
    fn a_block_that_fills_the_memory_is_one_run() {
        let memory = MemorySelection::new([3, 4], [0, 0]);
        assert_eq!(memory.runs(&[3, 4]).unwrap().collect::<Vec<_>>(), [0]);
        assert_eq!(memory.runs(&[3, 4]).unwrap().length(), 12);
        assert_eq!(elements_of(&MemorySelection::new([], []), &[]), [0]);
    }

    #[test]
    fn a_block_without_elements_has_no_runs() {
        assert_eq!(MemorySelection::new([3, 4], [3, 0]).runs(&[0, 4]).unwrap().count(), 0);
    }

    #[test]
    fn what_leaves_the_memory_is_refused() {
        let memory = MemorySelection::new([4, 5], [1, 1]);
        assert_eq!(memory.check(&[3, 5]).unwrap_err().kind(), ErrorKind::OutOfBounds);
        assert_eq!(memory.check(&[3]).unwrap_err().kind(), ErrorKind::InvalidArgument);
        assert_eq!(MemorySelection::new([4], [u64::MAX]).check(&[2]).unwrap_err().kind(), ErrorKind::OutOfBounds);
        let huge = MemorySelection::new([1 << 40, 1 << 40], [0, 0]);
        assert_eq!(huge.check(&[1, 1]).unwrap_err().kind(), ErrorKind::OutOfBounds);
    }
}
