//! From the blocks of a variable in a step to the blocks of its copy. Pure: a function of what the index says.

use crate::choice::Blocks;
use crate::region::{Region, StridedBox};
use std::collections::HashMap;
use thalweg_reader::variable::Kind;
use thalweg_reader::{Block, overlap};
use thalweg_types::{BoundingBox, Error, ErrorKind, Result, Selection};

/// A block of the copy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Part {
    /// Its values in the source.
    pub from: Selection,
    /// Where they lie in the copy; `None` for scalars and texts.
    pub place: Option<Place>,
}

/// Where a block lies in its array. Slowest dimension first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// Shape of the global array; empty for local arrays.
    pub shape: Vec<u64>,
    /// Its first element there; empty for local arrays.
    pub offset: Vec<u64>,
    /// Its extents.
    pub count: Vec<u64>,
}

/// How a variable is copied.
#[derive(Debug, Clone, Copy)]
pub struct How<'a> {
    /// The part of a global array.
    pub region: Option<&'a Region>,
    /// How it is divided.
    pub blocks: &'a Blocks,
    /// Bytes of an element.
    pub size: u64,
    /// Most bytes of a block that is made of others.
    pub most: u64,
}

/// The blocks of the copy of a variable in a step, in the order in which they are written.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Parts {
    /// The blocks.
    pub parts: Vec<Part>,
    /// The blocks of the source do not cover the array, or overlap: they stay as they are, so that nothing is made up.
    pub not_merged: bool,
}

/// Plans the copy of a variable in a step.
///
/// - `shape`: of the global array; `blocks`: all of the step.
///
/// # Errors
/// As [`Region::of`]; `Unsupported` for a region of a local array.
/// # Cost
/// O(blocks log blocks + parts).
pub fn parts(kind: Kind, shape: &[u64], blocks: &[Block], how: How<'_>) -> Result<Parts> {
    let of = |b: &Block, place| Part { from: Selection::Block(b.number), place };
    let own = |place: &dyn Fn(&Block) -> Option<Place>| Parts {
        parts: blocks.iter().map(|b| of(b, place(b))).collect(),
        not_merged: false,
    };
    match kind {
        Kind::Scalar => Ok(own(&|_| None)),
        Kind::Local if how.region.is_some() => {
            let what = "blocks of a local array have no place in a common array, so there is no part of it";
            Err(Error::new(ErrorKind::Unsupported, what))
        }
        Kind::Local => Ok(own(&|b| Some(Place { shape: vec![], offset: vec![], count: b.count.clone() }))),
        Kind::LocalValue | Kind::Global => {
            let lattice = how.region.map_or_else(|| Ok(StridedBox::whole(shape)), |region| region.of(shape))?;
            let everything = BoundingBox { offset: vec![0; shape.len()], count: lattice.count.clone() };
            let divides = match how.blocks {
                Blocks::AsWritten => false,
                Blocks::Merged => true,
                Blocks::Grid(grid) => grid.len() == shape.len(),
            };
            // First: an array of which there are a few blocks may have more parts than the memory holds.
            let not_merged = divides && !cover(blocks, &lattice.span_of(&everything));
            let divided = match how.blocks {
                _ if !divides || not_merged => None,
                Blocks::Grid(grid) => Some(divide(&lattice.count, grid)),
                Blocks::AsWritten | Blocks::Merged => Some(pieces(&lattice.count, how.size, how.most)),
            };
            match divided {
                Some(boxes) => {
                    let parts = boxes.iter().map(|part| of_lattice(&lattice, part)).collect();
                    Ok(Parts { parts, not_merged })
                }
                None if lattice.is_all_of(shape) => {
                    let place =
                        |b: &Block| Place { shape: b.shape.clone(), offset: b.offset.clone(), count: b.count.clone() };
                    let parts = last_of_each_box(blocks).map(|b| of(b, Some(place(b)))).collect();
                    Ok(Parts { parts, not_merged })
                }
                None => {
                    // An array without elements is one, too.
                    let nothing = lattice.count.contains(&0).then_some(&everything);
                    let within = last_of_each_box(blocks).filter_map(|b| lattice.within(&b.as_box()));
                    let boxes = within.chain(nothing.cloned());
                    Ok(Parts { parts: boxes.map(|part| of_lattice(&lattice, &part)).collect(), not_merged })
                }
            }
        }
    }
}

/// The blocks whose values readers see: of several with the same box, which different ranks may have written, the last.
fn last_of_each_box(blocks: &[Block]) -> impl Iterator<Item = &Block> {
    let last: HashMap<(&[u64], &[u64]), u64> =
        blocks.iter().map(|b| ((b.offset.as_slice(), b.count.as_slice()), b.number)).collect();
    blocks.iter().filter(move |b| {
        b.count.contains(&0) || last.get(&(b.offset.as_slice(), b.count.as_slice())) == Some(&b.number)
    })
}

/// A box of the lattice as a block.
fn of_lattice(lattice: &StridedBox, part: &BoundingBox) -> Part {
    let bounds = lattice.span_of(part);
    let from = match lattice.stride.iter().all(|stride| *stride == 1) {
        true => Selection::Box(bounds),
        false => Selection::Strided { bounds, stride: lattice.stride.clone() },
    };
    let place = Place { shape: lattice.count.clone(), offset: part.offset.clone(), count: part.count.clone() };
    Part { from, place: Some(place) }
}

/// Whether blocks cover every element of a box exactly once. Blocks that overlap count as not covering it: which of their values holds
/// is for readers to say.
fn cover(blocks: &[Block], wanted: &BoundingBox) -> bool {
    let inside: Vec<BoundingBox> = blocks.iter().filter_map(|b| b.as_box().intersect(wanted)).collect();
    let covered = inside.iter().try_fold(0u64, |sum, b| sum.checked_add(b.elements()?));
    covered == wanted.elements() && overlap::find(&inside).is_none()
}

/// Divides an array into so many boxes along each dimension; fewer where it has fewer elements.
pub fn divide(count: &[u64], grid: &[u64]) -> Vec<BoundingBox> {
    if count.contains(&0) {
        return vec![BoundingBox { offset: vec![0; count.len()], count: count.to_vec() }];
    }
    let mut boxes = vec![BoundingBox { offset: vec![], count: vec![] }];
    for (extent, parts) in count.iter().zip(grid) {
        let parts = (*parts).clamp(1, *extent);
        // Without overflow, however large the extent.
        let cut = |i: u64| (u128::from(*extent) * u128::from(i) / u128::from(parts)) as u64;
        boxes = boxes
            .iter()
            .flat_map(|outer| {
                (0..parts).map(move |i| {
                    let mut inner = outer.clone();
                    inner.offset.push(cut(i));
                    inner.count.push(cut(i + 1) - cut(i));
                    inner
                })
            })
            .collect();
    }
    boxes
}

/// Divides an array into as few boxes as there must be of at most `most` bytes each, or of one element.
pub fn pieces(count: &[u64], size: u64, most: u64) -> Vec<BoundingBox> {
    let mut grid = vec![1; count.len()];
    for d in 0..count.len() {
        let row = count[d + 1..].iter().fold(size.max(1), |bytes, n| bytes.saturating_mul((*n).max(1)));
        let rows = most / row;
        if rows >= 1 {
            grid[d] = count[d].div_ceil(rows).max(1);
            break;
        }
        grid[d] = count[d].max(1);
    }
    divide(count, &grid)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use thalweg_types::Extent;

    fn block(number: u64, shape: &[u64], offset: &[u64], count: &[u64]) -> Block {
        Block {
            step: 0,
            number,
            shape: shape.to_vec(),
            offset: offset.to_vec(),
            count: count.to_vec(),
            statistics: None,
            value: None,
            subfile: None,
            payload: Extent::new(0, 0),
            record_offset: 0,
            transform: None,
        }
    }

    fn how<'a>(region: Option<&'a Region>, blocks: &'a Blocks) -> How<'a> {
        How { region, blocks, size: 8, most: 1 << 20 }
    }

    /// For each element of the copy, the element of the source that it gets; fails where two blocks meet or an element gets none.
    fn sources(parts: &[Part], source: &[u64], blocks: &[Block]) -> Vec<Vec<u64>> {
        let shape = parts[0].place.as_ref().unwrap().shape.clone();
        let mut all: Vec<Option<Vec<u64>>> = vec![None; shape.iter().product::<u64>() as usize];
        for part in parts {
            let place = part.place.as_ref().unwrap();
            assert_eq!(place.shape, shape);
            let (start, stride) = match &part.from {
                Selection::Box(bounds) => (bounds.offset.clone(), vec![1; source.len()]),
                Selection::Strided { bounds, stride } => (bounds.offset.clone(), stride.clone()),
                Selection::Block(number) => (blocks[*number as usize].offset.clone(), vec![1; source.len()]),
                other => panic!("{other:?}"),
            };
            for i in 0..place.count.iter().product::<u64>() {
                let (mut rest, mut to, mut from) = (i, 0u64, vec![0; source.len()]);
                let mut inside = vec![0; source.len()];
                for d in (0..source.len()).rev() {
                    inside[d] = rest % place.count[d];
                    rest /= place.count[d];
                    from[d] = start[d] + inside[d] * stride[d];
                    assert!(from[d] < source[d]);
                }
                for d in 0..source.len() {
                    to = to * shape[d] + place.offset[d] + inside[d];
                }
                assert!(all[to as usize].replace(from).is_none(), "two blocks meet");
            }
        }
        all.into_iter().map(|from| from.expect("an element without a block")).collect()
    }

    fn quarters() -> Vec<Block> {
        let at = |number, x, y| block(number, &[8, 6], &[x, y], &[4, 3]);
        vec![at(0, 0, 0), at(1, 0, 3), at(2, 4, 0), at(3, 4, 3)]
    }

    #[test]
    fn blocks_stay_as_they_are_where_nothing_is_asked_for() {
        let blocks = quarters();
        let planned = parts(Kind::Global, &[8, 6], &blocks, how(None, &Blocks::AsWritten)).unwrap();
        assert_eq!(planned.parts.len(), 4);
        for (part, block) in planned.parts.iter().zip(&blocks) {
            assert_eq!(part.from, Selection::Block(block.number));
            assert_eq!(part.place.as_ref().unwrap().offset, block.offset);
        }
        assert!(
            parts(Kind::Scalar, &[], &[block(0, &[], &[], &[])], how(None, &Blocks::Merged)).unwrap().parts[0]
                .place
                .is_none()
        );
        let local = [block(0, &[], &[0], &[5]), block(1, &[], &[0], &[7])];
        let planned = parts(Kind::Local, &[5], &local, how(None, &Blocks::Merged)).unwrap();
        assert_eq!(planned.parts[1].place, Some(Place { shape: vec![], offset: vec![], count: vec![7] }));
        let region = Region::parse("0:2").unwrap();
        let refused = parts(Kind::Local, &[5], &local, how(Some(&region), &Blocks::AsWritten)).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Unsupported);
    }

    #[test]
    fn merged_blocks_are_one_or_as_few_as_fit() {
        let blocks = quarters();
        let planned = parts(Kind::Global, &[8, 6], &blocks, how(None, &Blocks::Merged)).unwrap();
        assert_eq!(planned.parts.len(), 1);
        // Rows of 48 bytes: two in 100.
        let few = How { most: 100, ..how(None, &Blocks::Merged) };
        let planned = parts(Kind::Global, &[8, 6], &blocks, few).unwrap();
        assert_eq!(planned.parts.len(), 4);
        // Not a row: single elements at least.
        let few = How { most: 1, ..how(None, &Blocks::Merged) };
        assert_eq!(parts(Kind::Global, &[8, 6], &blocks, few).unwrap().parts.len(), 48);
    }

    #[test]
    fn what_blocks_leave_out_is_not_made_up() {
        let mut blocks = quarters();
        blocks.pop();
        for merged in [Blocks::Merged, Blocks::Grid(vec![1, 2])] {
            let planned = parts(Kind::Global, &[8, 6], &blocks, how(None, &merged)).unwrap();
            assert!(planned.not_merged);
            assert_eq!(planned.parts.len(), 3);
        }
        // The hole does not lie in what is asked for.
        let region = Region::parse("0:4").unwrap();
        let planned = parts(Kind::Global, &[8, 6], &blocks, how(Some(&region), &Blocks::Merged)).unwrap();
        assert_eq!((planned.parts.len(), planned.not_merged), (1, false));
        // As many elements as the array, but twice the same.
        blocks.push(blocks[0].clone());
        assert!(parts(Kind::Global, &[8, 6], &blocks, how(None, &Blocks::Merged)).unwrap().not_merged);
    }

    #[test]
    fn an_array_without_elements_stays_one() {
        let blocks = [block(0, &[0, 4], &[0, 0], &[0, 4])];
        for divided in [Blocks::AsWritten, Blocks::Merged, Blocks::Grid(vec![3, 2])] {
            let planned = parts(Kind::Global, &[0, 4], &blocks, how(None, &divided)).unwrap();
            assert_eq!(planned.parts.len(), 1, "{divided:?}");
            assert_eq!(planned.parts[0].place.as_ref().unwrap().count, [0, 4]);
        }
    }

    proptest! {
        #[test]
        fn each_element_of_the_copy_gets_its_element_of_the_source(
            shape in proptest::collection::vec(1u64..9, 1..4), cuts in proptest::collection::vec(1u64..4, 3),
            starts in proptest::collection::vec((0i64..8, 1i64..9, 1u64..4), 3), choice in 0usize..3, most in 8u64..200,
        ) {
            let blocks: Vec<Block> = divide(&shape, &cuts[..shape.len()]).into_iter().enumerate()
                .map(|(number, b)| block(number as u64, &shape, &b.offset, &b.count)).collect();
            let text: Vec<String> =
                starts[..shape.len()].iter().map(|(from, length, s)| format!("{from}:{}:{s}", from + length)).collect();
            let region = Region::parse(&text.join(",")).unwrap();
            let lattice = region.of(&shape).unwrap();
            let divided = [Blocks::AsWritten, Blocks::Merged, Blocks::Grid(cuts[..shape.len()].to_vec())][choice].clone();
            let how = How { region: Some(&region), blocks: &divided, size: 8, most };
            let planned = parts(Kind::Global, &shape, &blocks, how).unwrap();
            prop_assert!(!planned.not_merged);
            if lattice.count.contains(&0) {
                prop_assert!(planned.parts.iter().all(|part| part.place.as_ref().unwrap().count.contains(&0)));
            } else {
                let found = sources(&planned.parts, &shape, &blocks);
                for (i, from) in found.iter().enumerate() {
                    let mut rest = i as u64;
                    for d in (0..shape.len()).rev() {
                        prop_assert_eq!(from[d], lattice.start[d] + rest % lattice.count[d] * lattice.stride[d]);
                        rest /= lattice.count[d];
                    }
                }
            }
        }
    }
}
