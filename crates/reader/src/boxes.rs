//! The boxes of a global array's blocks in compact form: planning iterates over every block of a step, and decoded blocks are
//! large.

use crate::plan::Stored;
use crate::sets::Sets;
use std::ops::Range;
use thalweg_bp::characteristic::SINGLE_FILE;
use thalweg_bp::shape::JOINED;
use thalweg_types::{BoundingBox, Result};

/// Boxes and payloads of all sets of a variable, in their order.
#[derive(Clone)]
pub struct Boxes {
    rank: usize,
    /// Bytes of an element.
    size: u64,
    fortran: bool,
    /// Per set: subfile, first byte of the payload, then per dimension, slowest first, offset and count.
    numbers: Vec<u64>,
}

impl Boxes {
    /// None yet. `size`: bytes of an element; `fortran`: dimensions are stored fastest first.
    pub fn new(rank: usize, size: u64, fortran: bool) -> Boxes {
        Boxes { rank, size, fortran, numbers: Vec::new() }
    }

    /// Bytes of memory per set.
    pub fn weight(rank: usize) -> usize {
        8 * (2 + 2 * rank)
    }

    /// Whether they were made with dimensions turned round.
    pub fn fortran(&self) -> bool {
        self.fortran
    }

    /// Adds the sets from `first` on; false where these are not plain blocks of a global array.
    pub fn add(&mut self, sets: &Sets, first: usize) -> bool {
        self.numbers.reserve((sets.len() - first) * (2 + 2 * self.rank));
        (first..sets.len()).all(|number| self.add_one(sets, number).unwrap_or(false))
    }

    fn add_one(&mut self, sets: &Sets, number: usize) -> Option<bool> {
        let set = sets.skim(number).ok()??;
        let mut dimensions = set.dimensions.filter(|d| d.left() == 24 * self.rank)?;
        let at = self.numbers.len() + 2;
        self.numbers.extend([u64::from(set.file_index), set.payload_offset]);
        self.numbers.resize(at + 2 * self.rank, 0);
        let (mut elements, mut global_elements) = (1u64, 1u64);
        let mut is_global = false;
        for d in 0..self.rank {
            let mut next = || dimensions.u64("dimensions").ok();
            let (local, global, offset) = (next()?, next()?, next()?);
            is_global |= global != 0;
            // An extent of nothing with something in it: a time dimension.
            let is_odd = global == JOINED || (global == 0 && local != 0);
            if is_odd || offset.checked_add(local).is_none() {
                return None;
            }
            (elements, global_elements) = (elements.checked_mul(local)?, global_elements.checked_mul(global.max(1))?);
            let d = if self.fortran { self.rank - 1 - d } else { d };
            (self.numbers[at + 2 * d], self.numbers[at + 2 * d + 1]) = (offset, local);
        }
        elements.checked_mul(self.size)?.checked_add(set.payload_offset)?;
        Some(is_global)
    }

    /// Extents of the global array, slowest first, as a set has them.
    pub fn shape(&self, sets: &Sets, number: usize) -> Result<Vec<u64>> {
        let mut shape = Vec::with_capacity(self.rank);
        if let Some(mut dimensions) = sets.skim(number)?.and_then(|s| s.dimensions) {
            for _ in 0..self.rank {
                dimensions.u64("dimensions")?;
                shape.push(dimensions.u64("dimensions")?);
                dimensions.u64("dimensions")?;
            }
        }
        if self.fortran {
            shape.reverse();
        }
        Ok(shape)
    }

    /// The box of the one block that each of these groups of sets has, if it is the same in all of them.
    pub fn in_common(&self, groups: impl Iterator<Item = Range<usize>>) -> Option<BoundingBox> {
        let mut common: Option<(usize, &[u64])> = None;
        for sets in groups {
            let number = sets.start;
            if sets.len() != 1 {
                return None;
            }
            let (_, dimensions) = self.of(number);
            if common.is_some_and(|(_, before)| before != dimensions) {
                return None;
            }
            common = Some((number, dimensions));
        }
        common.map(|(number, _)| self.stored(number, false).bounds)
    }

    fn of(&self, number: usize) -> (&[u64], &[u64]) {
        let width = 2 + 2 * self.rank;
        self.numbers[number * width..(number + 1) * width].split_at(2)
    }

    fn stored(&self, number: usize, subfiles: bool) -> Stored {
        let (place, dimensions) = self.of(number);
        let file = place[0] as u32;
        let column = |d: usize| dimensions.iter().skip(d).step_by(2).copied().collect();
        Stored {
            file: (subfiles && file != SINGLE_FILE).then_some(file),
            offset: place[1],
            bounds: BoundingBox { offset: column(0), count: column(1) },
            coded: None,
        }
    }

    /// The blocks among these sets that intersect a box, in order.
    pub fn meeting(&self, sets: Range<usize>, requested: &BoundingBox, subfiles: bool) -> Vec<Stored> {
        let meets = |number: &usize| {
            let mut d = 0;
            self.of(*number).1.chunks_exact(2).all(|dimension| {
                let (first, end) = (requested.offset[d], requested.offset[d] + requested.count[d]);
                d += 1;
                dimension[0] < end && dimension[0] + dimension[1] > first
            })
        };
        sets.filter(meets).map(|number| self.stored(number, subfiles)).collect()
    }

    /// The last block among these sets that contains a point: its subfile, and the element's offset there.
    pub fn element(&self, sets: Range<usize>, point: &[u64], subfiles: bool) -> Option<(Option<u32>, u64)> {
        let number = sets.rev().find(|number| {
            let dimensions = self.of(*number).1.chunks_exact(2);
            dimensions.zip(point).all(|(d, p)| *p >= d[0] && *p - d[0] < d[1])
        })?;
        let (place, dimensions) = self.of(number);
        let element = dimensions.chunks_exact(2).zip(point).fold(0, |n, (d, p)| n * d[1] + p - d[0]);
        let file = place[0] as u32;
        Some(((subfiles && file != SINGLE_FILE).then_some(file), place[1] + element * self.size))
    }
}
