//! Where the bytes of a block belong in the file. Pure.

use serde::{Deserialize, Serialize};
use std::ops::Range;
use thalweg_types::{Error, ErrorKind, Result};

/// Where the values of an array belong: the rows along its slowest axis lie in chunks, one after the other inside of each.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Places {
    /// Rows of a chunk.
    pub rows: u64,
    /// The first byte of each chunk of this step.
    pub chunks: Vec<u64>,
    /// The first byte of each chunk of steps before, in which the array was not written.
    pub skipped: Vec<u64>,
}

/// Bytes of a block that lie in one piece in the file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Run {
    /// First byte in the file.
    pub at: u64,
    /// Bytes of the block.
    pub from: Range<usize>,
}

/// The pieces of a block, in its order.
///
/// - `shape`: extents of the array; `offset`, `count`: the block in it, slowest axis first; `size`: bytes of an element.
///
/// # Errors
/// `OutOfBounds` if the block does not lie in the array; `InvalidArgument` if the places are not those of the array.
pub fn runs(
    places: &Places,
    shape: &[u64],
    offset: &[u64],
    count: &[u64],
    size: u64,
) -> Result<impl Iterator<Item = Run>> {
    let axes = shape.len();
    let inside = |axis: usize| offset[axis].checked_add(count[axis]).is_some_and(|end| end <= shape[axis]);
    if offset.len() != axes || count.len() != axes || axes == 0 || !(0..axes).all(inside) {
        return Err(Error::new(ErrorKind::OutOfBounds, "the block does not lie in the array"));
    }
    let elements = |extents: &[u64]| extents.iter().try_fold(1u64, |all, extent| all.checked_mul(*extent));
    let wrong = || Error::new(ErrorKind::InvalidArgument, "the places are not those of the array");
    let is_empty = count.contains(&0);
    let row = elements(&shape[1..]).and_then(|row| row.checked_mul(size)).ok_or_else(wrong)?;
    let needed = if is_empty { 0 } else { (offset[0] + count[0]).div_ceil(places.rows.max(1)) };
    if places.rows == 0 || needed > places.chunks.len() as u64 || row.checked_mul(places.rows).is_none() {
        return Err(wrong());
    }
    // Axes from this one on are whole: their elements lie in one piece.
    let whole = (1..axes).rev().take_while(|axis| count[*axis] == shape[*axis]).last().unwrap_or(axes);
    let (places, offset, count, shape) = (places.clone(), offset.to_vec(), count.to_vec(), shape.to_vec());
    // Bytes of an element of the axis before the whole ones, and of the piece that a block has of it.
    let unit = size * elements(&shape[whole..]).unwrap_or(0);
    let is_rows = whole == 1;
    let length = if is_rows { row } else { unit * count[whole - 1] };
    let pieces: u64 = if is_empty { 0 } else { count[..whole - 1].iter().product() };
    let first = offset[0];
    let mut done = 0usize;
    let mut piece = 0u64;
    // Of a block of whole rows the next row; of others, the next piece.
    let mut next_row = 0u64;
    Ok(std::iter::from_fn(move || {
        let take = if is_rows {
            if is_empty || next_row == count[0] {
                return None;
            }
            let at = first + next_row;
            let rows = (places.rows - at % places.rows).min(count[0] - next_row);
            next_row += rows;
            (places.chunks[(at / places.rows) as usize] + at % places.rows * row, rows * row)
        } else {
            if piece == pieces {
                return None;
            }
            // The position along the axes before that of the piece.
            let (mut rest, mut inner, mut stride) = (piece, offset[whole - 1] * unit, shape[whole - 1] * unit);
            let mut along_first = 0;
            for axis in (0..whole - 1).rev() {
                let position = offset[axis] + rest % count[axis];
                rest /= count[axis];
                if axis == 0 {
                    along_first = position;
                } else {
                    inner += position * stride;
                    stride *= shape[axis];
                }
            }
            piece += 1;
            (places.chunks[(along_first / places.rows) as usize] + along_first % places.rows * row + inner, length)
        };
        let from = done..done + take.1 as usize;
        done = from.end;
        Some(Run { at: take.0, from })
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn each_element_of_a_block_comes_to_its_place(
            axes in prop::collection::vec((1u64..6, 0u64..6, 0u64..7), 1..5),
            rows in 1u64..6,
            size in 1u64..9,
        ) {
            let shape: Vec<u64> = axes.iter().map(|(extent, ..)| *extent).collect();
            let offset: Vec<u64> = axes.iter().map(|(extent, at, _)| at % extent).collect();
            let count: Vec<u64> = axes.iter().zip(&offset).map(|((extent, _, n), at)| n % (extent - at + 1)).collect();
            let row: u64 = shape[1..].iter().product::<u64>() * size;
            // Chunks in any order, with bytes of others between them.
            let number = shape[0].div_ceil(rows);
            let chunks: Vec<u64> = (0..number).map(|k| (number - 1 - k) * (rows * row + 3) + 5).collect();
            let places = Places { rows, chunks: chunks.clone(), skipped: Vec::new() };
            let elements: u64 = count.iter().product();
            let mut found = Vec::new();
            let mut end = 0;
            for run in runs(&places, &shape, &offset, &count, size).unwrap() {
                prop_assert_eq!(run.from.start, end);
                prop_assert!(!run.from.is_empty());
                end = run.from.end;
                found.extend((0..run.from.len() as u64).map(|byte| run.at + byte));
            }
            prop_assert_eq!(end as u64, elements * size);
            let mut wanted = Vec::new();
            for element in 0..elements {
                let (mut rest, mut position) = (element, vec![0; shape.len()]);
                for axis in (0..shape.len()).rev() {
                    position[axis] = offset[axis] + rest % count[axis];
                    rest /= count[axis];
                }
                let inner = position[1..].iter().zip(&shape[1..]).fold(0, |at, (p, extent)| at * extent + p);
                let at = chunks[(position[0] / rows) as usize] + position[0] % rows * row + inner * size;
                wanted.extend((0..size).map(|byte| at + byte));
            }
            prop_assert_eq!(found, wanted);
        }
    }

    #[test]
    fn whole_rows_are_one_piece_for_each_chunk() {
        let places = Places { rows: 4, chunks: vec![100, 1000, 2000], skipped: Vec::new() };
        let all: Vec<Run> = runs(&places, &[10, 3], &[2, 0], &[7, 3], 8).unwrap().collect();
        let wanted = [(148, 0..48), (1000, 48..144), (2000, 144..168)];
        assert_eq!(all, wanted.map(|(at, from)| Run { at, from }));
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        let places = Places { rows: 4, chunks: vec![0], skipped: Vec::new() };
        let kind = |places: &Places, shape: &[u64], offset: &[u64], count: &[u64]| {
            runs(places, shape, offset, count, 8).map(Iterator::count).map_err(|e| e.kind())
        };
        assert_eq!(kind(&places, &[4, 2], &[1, 0], &[4, 2]), Err(ErrorKind::OutOfBounds));
        assert_eq!(kind(&places, &[4, 2], &[u64::MAX, 0], &[4, 2]), Err(ErrorKind::OutOfBounds));
        assert_eq!(kind(&places, &[4, 2], &[0], &[4]), Err(ErrorKind::OutOfBounds));
        assert_eq!(kind(&places, &[8, 2], &[4, 0], &[1, 2]), Err(ErrorKind::InvalidArgument));
        assert_eq!(kind(&Places::default(), &[4, 2], &[0, 0], &[1, 2]), Err(ErrorKind::InvalidArgument));
        assert_eq!(kind(&places, &[8, 2], &[5, 0], &[0, 2]), Ok(0));
    }
}
