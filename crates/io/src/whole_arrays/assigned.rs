//! Where the blocks of each rank belong in the files of a step. Pure.

use super::content::Block;
use super::places::Places;
use serde::{Deserialize, Serialize};
use std::collections::HashMap;
use thalweg_types::{Error, ErrorKind, Result};
use thalweg_views::hdf5::Kind;

/// An array of a file.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Part {
    /// Its name, for errors.
    pub(crate) name: String,
    /// The position of its file.
    pub(crate) file: usize,
    /// The array of [`Content::arrays`] with its values, by position; of several the elements lie one after the other, as components
    /// of the last axis. `None`: zeros.
    pub(crate) arrays: Vec<Option<usize>>,
    pub(crate) kind: Kind,
    /// Extents, with the axis of components if there are several arrays.
    pub(crate) shape: Vec<u64>,
    pub(crate) places: Places,
}

/// Where blocks belong.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Place {
    /// Their positions among the rank's blocks, one for each component; `None`: zeros.
    pub(super) blocks: Vec<Option<usize>>,
    pub(super) file: usize,
    pub(super) kind: Kind,
    /// Extents of the array.
    pub(super) shape: Vec<u64>,
    /// The block in it.
    pub(super) offset: Vec<u64>,
    pub(super) count: Vec<u64>,
    pub(super) places: Places,
}

/// The places of a rank's blocks.
///
/// - `arrays`: for each of the blocks the array of the content that it is a part of.
///
/// # Errors
/// `Unsupported` if components of an array are in different blocks.
pub(super) fn placed(parts: &[Part], blocks: &[Block], arrays: &[Option<usize>]) -> Result<Vec<Place>> {
    let mut of_array: HashMap<usize, Vec<usize>> = HashMap::new();
    for (block, array) in arrays.iter().enumerate() {
        if let Some(array) = array {
            of_array.entry(*array).or_default().push(block);
        }
    }
    let mut all = Vec::new();
    for part in parts {
        let several = part.arrays.len() > 1;
        let Some(first) = part.arrays.iter().flatten().next() else { continue };
        let apart = || {
            let what = "its components are in different blocks";
            Error::new(ErrorKind::Unsupported, what).in_variable(&*part.name)
        };
        let number = |array: &usize| of_array.get(array).map_or(0, Vec::len);
        if part.arrays.iter().flatten().any(|array| number(array) != number(first)) {
            return Err(apart());
        }
        for at in of_array.get(first).into_iter().flatten() {
            let own = &blocks[*at];
            let same = |other: &usize| blocks[*other].offset == own.offset && blocks[*other].count == own.count;
            let mut components = Vec::new();
            for array in &part.arrays {
                components.push(match array {
                    None => None,
                    Some(array) => {
                        // Of a block that is written twice the last one counts.
                        let found = of_array.get(array).and_then(|all| all.iter().copied().rev().find(same));
                        Some(if several { found.ok_or_else(apart)? } else { *at })
                    }
                });
            }
            let axes = part.shape.len() - usize::from(several);
            let (mut offset, mut count) = match own.shape {
                Some(_) => (own.offset.clone(), own.count.clone()),
                None => (vec![0; axes], own.count.clone()),
            };
            if several {
                offset.push(0);
                count.push(part.arrays.len() as u64);
            }
            let Part { file, kind, shape, places, .. } = part;
            let (shape, places) = (shape.clone(), places.clone());
            all.push(Place { blocks: components, file: *file, kind: *kind, shape, offset, count, places });
        }
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;
    use thalweg_types::ElementType;

    fn block(name: &str, offset: u64, count: u64) -> Block {
        Block {
            name: name.into(),
            element: ElementType::F64.code(),
            count: vec![count],
            shape: Some(vec![10]),
            offset: vec![offset],
            value: None,
            is_dimension: false,
        }
    }

    fn part(arrays: &[Option<usize>]) -> Part {
        let mut shape = vec![10];
        shape.extend((arrays.len() > 1).then_some(arrays.len() as u64));
        let places = Places { rows: 10, chunks: vec![64], skipped: Vec::new() };
        Part { name: "p".into(), file: 1, arrays: arrays.to_vec(), kind: Kind::Real(8, false), shape, places }
    }

    #[test]
    fn each_block_of_an_array_has_a_place_in_each_part_with_the_array() {
        let blocks = [block("x", 0, 4), block("t", 0, 1), block("x", 6, 2)];
        let all = placed(&[part(&[Some(0)]), part(&[Some(0)]), part(&[Some(1)])], &blocks, &[Some(0), None, Some(0)]);
        let found: Vec<_> = all.unwrap().into_iter().map(|one| (one.blocks, one.file, one.offset, one.count)).collect();
        let wanted = [(vec![Some(0)], 1, vec![0], vec![4]), (vec![Some(2)], 1, vec![6], vec![2])];
        assert_eq!(found, [&wanted[..], &wanted].concat());
    }

    #[test]
    fn components_are_the_blocks_of_the_same_box_and_the_last_that_was_written() {
        let blocks = [block("x", 0, 4), block("y", 4, 4), block("y", 0, 4), block("x", 4, 4)];
        let arrays = [Some(0), Some(1), Some(1), Some(0)];
        let all = placed(&[part(&[Some(0), Some(1), None])], &blocks, &arrays).unwrap();
        let found: Vec<_> = all.into_iter().map(|one| (one.blocks, one.offset, one.count)).collect();
        let wanted = [
            (vec![Some(0), Some(2), None], vec![0, 0], vec![4, 3]),
            (vec![Some(3), Some(1), None], vec![4, 0], vec![4, 3]),
        ];
        assert_eq!(found, wanted);
        let twice = [block("x", 0, 4), block("y", 0, 4), block("x", 0, 4), block("y", 0, 4)];
        let all = placed(&[part(&[Some(0), Some(1)])], &twice, &[Some(0), Some(1), Some(0), Some(1)]).unwrap();
        assert_eq!(all.last().unwrap().blocks, [Some(2), Some(3)]);
    }

    #[test]
    fn components_in_different_blocks_are_refused() {
        let kind = |blocks: &[Block], arrays: &[Option<usize>]| {
            placed(&[part(&[Some(0), Some(1)])], blocks, arrays).map_err(|e| e.kind())
        };
        for (blocks, arrays) in [
            (vec![block("x", 0, 4), block("y", 0, 3)], vec![Some(0), Some(1)]),
            (vec![block("x", 0, 4)], vec![Some(0)]),
            (vec![block("y", 0, 4)], vec![Some(1)]),
        ] {
            assert_eq!(kind(&blocks, &arrays), Err(ErrorKind::Unsupported));
        }
        assert_eq!(kind(&[], &[]), Ok(Vec::new()));
    }
}
