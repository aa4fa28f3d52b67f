//! Whether the blocks of an array form the chunks of a regular grid: pure functions of boxes.
//!
//! All chunks of such a grid have the same extents, and chunk `i` of an axis begins at `i` times the extent. The chunk at the end of
//! an axis may reach beyond the array; readers then read the bytes of a whole chunk and drop those behind the array. So a block that
//! is shorter than a chunk can be one only if its values are the first ones of the chunk: [`Place::is_short`].

use std::collections::HashSet;

/// A regular grid that finds the chunk of each block.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Grid {
    /// Extents of the array, slowest first.
    shape: Vec<u64>,
    /// Extents of a chunk, at least 1.
    chunk: Vec<u64>,
}

/// The chunk that a block is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// Number of the chunk along each axis.
    pub chunk: Vec<u64>,
    /// The block ends at the end of the array, before its chunk does: a reader also reads bytes behind the block.
    pub is_short: bool,
}

impl Grid {
    /// The grid whose chunks have the extents of the largest block.
    ///
    /// - `shape`: extents of the array; `counts`: extents of its blocks. Blocks without elements are ignored.
    pub fn of<'b>(shape: &[u64], counts: impl IntoIterator<Item = &'b [u64]>) -> Grid {
        let mut chunk = vec![0; shape.len()];
        for count in counts.into_iter().filter(|count| !count.contains(&0)) {
            chunk.iter_mut().zip(count).for_each(|(most, count)| *most = (*most).max(*count));
        }
        // Without blocks: one chunk for the array.
        chunk.iter_mut().zip(shape).filter(|(most, _)| **most == 0).for_each(|(most, all)| *most = (*all).max(1));
        Grid { shape: shape.to_vec(), chunk }
    }

    /// Extents of a chunk, slowest first.
    pub fn chunk(&self) -> &[u64] {
        &self.chunk
    }

    /// Number of chunks; `None` beyond 64 bits.
    pub fn chunks(&self) -> Option<u64> {
        self.shape
            .iter()
            .zip(&self.chunk)
            .try_fold(1u64, |all, (extent, chunk)| all.checked_mul(extent.div_ceil(*chunk)))
    }

    /// The chunk that a block is.
    ///
    /// - `offset`, `count`: of the block, in the array.
    ///
    /// # Errors
    /// The reason why it is none, as the end of a sentence that begins with the block.
    pub fn place(&self, offset: &[u64], count: &[u64]) -> Result<Place, String> {
        if offset.len() != self.shape.len() || count.len() != self.shape.len() {
            return Err(format!("has {} axes, the array has {}", count.len(), self.shape.len()));
        }
        let mut chunk = Vec::with_capacity(self.shape.len());
        let (mut is_short, mut has_rows) = (false, false);
        for axis in 0..self.shape.len() {
            let (offset, count) = (offset[axis], count[axis]);
            let (most, end) = (self.chunk[axis], self.shape[axis]);
            if offset % most != 0 {
                return Err(format!("begins at {offset} along axis {axis}, where chunks of {most} begin elsewhere"));
            }
            if offset.checked_add(count).is_none_or(|behind| behind > end) {
                return Err(format!("reaches beyond the array along axis {axis}"));
            }
            if count != most {
                if offset + count != end {
                    return Err(format!("has {count} elements along axis {axis}, other blocks have {most}"));
                }
                // With several rows, the bytes of a chunk have gaps behind each of them.
                if has_rows {
                    return Err(format!(
                        "is the last one along axis {axis} and has {count} elements, other blocks have {most}, which only the \
                         slowest axis may have"
                    ));
                }
                is_short = true;
            }
            has_rows |= count > 1;
            chunk.push(offset / most);
        }
        Ok(Place { chunk, is_short })
    }
}

/// The chunks of a step that have a block already.
#[derive(Debug, Default)]
pub struct Taken(HashSet<Vec<u64>>);

impl Taken {
    /// Whether the chunk had no block before.
    pub fn take(&mut self, place: &Place) -> bool {
        self.0.insert(place.chunk.clone())
    }

    /// Number of chunks with a block.
    pub fn len(&self) -> u64 {
        self.0.len() as u64
    }

    /// Whether no chunk has a block.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use thalweg_types::BoundingBox;

    fn grid_of(shape: &[u64], blocks: &[BoundingBox]) -> Grid {
        Grid::of(shape, blocks.iter().map(|block| &block.count[..]))
    }

    fn place(grid: &Grid, block: &BoundingBox) -> Result<Place, String> {
        grid.place(&block.offset, &block.count)
    }

    fn boxed(offset: &[u64], count: &[u64]) -> BoundingBox {
        BoundingBox { offset: offset.to_vec(), count: count.to_vec() }
    }

    /// Blocks that cover an array, cut at these places of each axis.
    fn cut(shape: &[u64], cuts: &[Vec<u64>]) -> Vec<BoundingBox> {
        let mut blocks = vec![boxed(&[], &[])];
        for (axis, extent) in shape.iter().enumerate() {
            let mut ends: Vec<u64> =
                cuts[axis].iter().copied().filter(|c| c < extent && *c > 0).chain([*extent]).collect();
            ends.sort_unstable();
            ends.dedup();
            blocks = blocks
                .into_iter()
                .flat_map(|block| {
                    let mut start = 0;
                    ends.iter()
                        .map(|end| {
                            let mut longer = block.clone();
                            longer.offset.push(start);
                            longer.count.push(end - start);
                            start = *end;
                            longer
                        })
                        .collect::<Vec<_>>()
                })
                .collect();
        }
        blocks
    }

    #[test]
    fn even_blocks_are_chunks() {
        let blocks = cut(&[8, 10], &[vec![4], vec![5]]);
        let grid = grid_of(&[8, 10], &blocks);
        assert_eq!((grid.chunk(), grid.chunks()), (&[4, 5][..], Some(4)));
        let places: Vec<Place> = blocks.iter().map(|block| place(&grid, block).unwrap()).collect();
        assert_eq!(places[3], Place { chunk: vec![1, 1], is_short: false });
    }

    #[test]
    fn a_short_block_is_a_chunk_if_its_values_are_the_first_of_it() {
        let grid = grid_of(&[7, 10], &cut(&[7, 10], &[vec![4], vec![5]]));
        assert_eq!(place(&grid, &boxed(&[4, 5], &[3, 5])), Ok(Place { chunk: vec![1, 1], is_short: true }));
        // Along the second axis only if chunks have one row.
        let blocks = cut(&[3, 7], &[vec![1, 2], vec![4]]);
        assert!(place(&grid_of(&[3, 7], &blocks), &boxed(&[1, 4], &[1, 3])).unwrap().is_short);
        let blocks = cut(&[4, 7], &[vec![2], vec![4]]);
        let why = place(&grid_of(&[4, 7], &blocks), &boxed(&[0, 4], &[2, 3])).unwrap_err();
        assert!(why.contains("axis 1") && why.contains("3 elements"), "{why}");
    }

    #[test]
    fn uneven_blocks_and_blocks_beyond_the_array_are_none() {
        let blocks = cut(&[9], &[vec![2, 6]]);
        let grid = grid_of(&[9], &blocks);
        assert!(place(&grid, &blocks[0]).unwrap_err().contains("has 2 elements along axis 0, other blocks have 4"));
        assert!(place(&grid, &blocks[1]).unwrap_err().contains("begins at 2 along axis 0"));
        let beyond = boxed(&[8], &[4]);
        assert!(place(&grid_of(&[9], std::slice::from_ref(&beyond)), &beyond).unwrap_err().contains("beyond"));
        assert!(place(&grid, &boxed(&[0, 0], &[4, 4])).unwrap_err().contains("has 2 axes, the array has 1"));
        let huge = boxed(&[u64::MAX - 1], &[2]);
        assert!(place(&grid_of(&[9], std::slice::from_ref(&huge)), &huge).is_err());
    }

    #[test]
    fn an_array_without_blocks_is_one_chunk() {
        assert_eq!(grid_of(&[3, 0], &[]).chunk(), [3, 1]);
        assert_eq!(grid_of(&[], &[]).chunks(), Some(1));
    }

    proptest! {
        /// Against the definition: which elements of the array are at which position of which chunk.
        #[test]
        fn a_block_is_a_chunk_exactly_if_its_values_are_the_first_ones_of_it(
            shape in prop::collection::vec(1u64..7, 1..4),
            cuts in prop::collection::vec(prop::collection::vec(1u64..7, 0..3), 3),
        ) {
            let blocks = cut(&shape, &cuts);
            let grid = grid_of(&shape, &blocks);
            let mut taken = Taken::default();
            let mut all = true;
            for block in &blocks {
                let elements = |b: &BoundingBox| -> Vec<Vec<u64>> {
                    let mut points = vec![vec![]];
                    for (offset, count) in b.offset.iter().zip(&b.count) {
                        points = points.iter().flat_map(|p: &Vec<u64>| (*offset..offset + count).map(|x| {
                            let mut p = p.clone();
                            p.push(x);
                            p
                        }).collect::<Vec<_>>()).collect();
                    }
                    points
                };
                let number: Vec<u64> = block.offset.iter().zip(grid.chunk()).map(|(o, c)| o / c).collect();
                let chunk = BoundingBox {
                    offset: number.iter().zip(grid.chunk()).map(|(n, c)| n * c).collect(),
                    count: grid.chunk().to_vec(),
                };
                // A reader takes the chunk's elements from the block's bytes, in order; behind the block it finds anything.
                let (found, wanted) = (elements(block), elements(&chunk));
                let inside = |p: &Vec<u64>| p.iter().zip(&shape).all(|(x, extent)| x < extent);
                let is_chunk = wanted.iter().enumerate().all(|(at, p)| !inside(p) || found.get(at) == Some(p))
                    && found.len() == wanted.iter().filter(|p| inside(p)).count();
                let placed = place(&grid, block);
                prop_assert_eq!(placed.is_ok(), is_chunk, "{:?} in chunks of {:?}: {:?}", block, grid.chunk(), placed);
                all &= is_chunk;
                if let Ok(place) = placed {
                    prop_assert_eq!(&place.chunk, &number);
                    prop_assert_eq!(place.is_short, found.len() < wanted.len());
                    prop_assert!(taken.take(&place));
                    prop_assert!(!taken.take(&place));
                }
            }
            if all {
                prop_assert_eq!(Some(taken.len()), grid.chunks());
            }
        }
    }
}
