//! What of an array a viewer sees: a plane, or a line of an array of one axis, with every n-th element of it. Pure.

use serde::{Deserialize, Serialize};

/// Most elements along an axis of a frame.
pub const MOST: u64 = 2048;

/// What a viewer asks for.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Ask {
    /// Full name of the variable.
    pub variable: String,
    /// The axes that are shown, by position, slowest first: rows and columns. The last two of an array where they are missing.
    #[serde(default)]
    pub axes: Vec<usize>,
    /// The position along each other axis, by axis; the middle where it is missing.
    #[serde(default)]
    pub at: Vec<Option<u64>>,
    /// Of each axis that is shown, the first element and the one behind the last; all where it is missing.
    #[serde(default)]
    pub within: Vec<[u64; 2]>,
    /// Most elements along an axis.
    #[serde(default = "most")]
    pub most: u64,
}

fn most() -> u64 {
    512
}

impl Ask {
    /// Most elements of its plane.
    pub fn elements(&self) -> u64 {
        let along = self.most.clamp(1, MOST);
        along * along
    }
}

/// What of it is shown: the first ones, as long as their planes have at most `elements` elements together.
pub fn affordable<'a>(asks: impl IntoIterator<Item = &'a Ask>, elements: u64) -> Vec<Ask> {
    let mut shown: Vec<Ask> = Vec::new();
    let mut left = elements;
    for ask in asks {
        if !shown.contains(ask) && ask.elements() <= left {
            left -= ask.elements();
            shown.push(ask.clone());
        }
    }
    shown
}

/// A plane of an array, or a line.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Plane {
    /// The axes that are shown.
    pub axes: Vec<usize>,
    /// The first element along each axis of the array.
    pub offset: Vec<u64>,
    /// Every n-th element along each axis.
    pub stride: Vec<u64>,
    /// Elements along each axis that is shown.
    pub count: Vec<u64>,
}

/// Elements of a plane that a block has.
#[derive(Debug, Clone, PartialEq)]
pub struct Piece {
    /// Where they begin in the plane, along each axis that is shown.
    pub offset: Vec<u64>,
    /// How many they are.
    pub count: Vec<u64>,
    /// For each, its position in the block.
    pub elements: Vec<u64>,
}

/// The plane of an array that a viewer asks for; `None` if the array has none.
///
/// - `shape`: extents, slowest axis first.
pub fn plane(ask: &Ask, shape: &[u64]) -> Option<Plane> {
    let last = shape.len();
    if last == 0 || shape.contains(&0) {
        return None;
    }
    let axes = match &ask.axes[..] {
        [] if last == 1 => vec![0],
        [] => vec![last - 2, last - 1],
        own => own.to_vec(),
    };
    let is_known = axes.len() <= 2 && axes.iter().all(|axis| *axis < last);
    if !is_known || (axes.len() == 2 && axes[0] == axes[1]) {
        return None;
    }
    let most = ask.most.clamp(1, MOST);
    let mut made = Plane { axes: axes.clone(), offset: vec![0; last], stride: vec![1; last], count: Vec::new() };
    for (axis, extent) in shape.iter().enumerate() {
        if !axes.contains(&axis) {
            let wanted = ask.at.get(axis).copied().flatten().unwrap_or(extent / 2);
            made.offset[axis] = wanted.min(extent - 1);
        }
    }
    for (number, axis) in axes.iter().enumerate() {
        let extent = shape[*axis];
        let [first, end] = ask.within.get(number).copied().unwrap_or([0, extent]);
        let (first, end) = (first.min(extent - 1), end.min(extent));
        let length = end.saturating_sub(first).max(1);
        let stride = length.div_ceil(most);
        made.offset[*axis] = first;
        made.stride[*axis] = stride;
        made.count.push(length.div_ceil(stride));
    }
    Some(made)
}

impl Plane {
    /// Number of elements.
    pub fn elements(&self) -> usize {
        self.count.iter().product::<u64>() as usize
    }

    /// What a block has of it; `None` if that is nothing.
    ///
    /// - `offset`, `count`: the block in the array, slowest axis first.
    pub fn piece(&self, offset: &[u64], count: &[u64]) -> Option<Piece> {
        if offset.len() != self.offset.len() || count.len() != self.offset.len() {
            return None;
        }
        let mut strides = vec![1u64; count.len()];
        for axis in (1..count.len()).rev() {
            strides[axis - 1] = strides[axis].checked_mul(count[axis])?;
        }
        // The position in the block of what is fixed, and of each axis that is shown its range in the plane.
        let mut fixed = 0;
        for axis in 0..count.len() {
            let end = offset[axis].checked_add(count[axis])?;
            if !self.axes.contains(&axis) {
                let at = self.offset[axis];
                if at < offset[axis] || at >= end {
                    return None;
                }
                fixed += (at - offset[axis]) * strides[axis];
            }
        }
        let mut piece = Piece { offset: Vec::new(), count: Vec::new(), elements: Vec::new() };
        let mut along: Vec<Vec<u64>> = Vec::new();
        for (number, axis) in self.axes.iter().copied().enumerate() {
            let (first, stride) = (self.offset[axis], self.stride[axis]);
            let end = offset[axis] + count[axis];
            let begin = offset[axis].saturating_sub(first).div_ceil(stride);
            let behind = end.saturating_sub(first).div_ceil(stride).min(self.count[number]);
            if begin >= behind {
                return None;
            }
            piece.offset.push(begin);
            piece.count.push(behind - begin);
            along.push((begin..behind).map(|k| (first + k * stride - offset[axis]) * strides[axis]).collect());
        }
        let empty = vec![0];
        let (rows, columns) = match &along[..] {
            [columns] => (&empty, columns),
            [rows, columns] => (rows, columns),
            _ => return None,
        };
        piece.elements = rows.iter().flat_map(|row| columns.iter().map(move |column| fixed + row + column)).collect();
        Some(piece)
    }

    /// Puts values of a piece into those of the plane.
    pub fn put(&self, offset: &[u64], count: &[u64], values: &[f32], into: &mut [f32]) {
        let width = self.count.last().copied().unwrap_or(1) as usize;
        let (row, column) = match offset {
            [column] => (0, *column as usize),
            [row, column] => (*row as usize, *column as usize),
            _ => return,
        };
        let length = count.last().copied().unwrap_or(0) as usize;
        if length == 0 || column + length > width {
            return;
        }
        for (number, own) in values.chunks_exact(length).enumerate() {
            let at = (row + number) * width + column;
            if let Some(to) = into.get_mut(at..at + length) {
                to.copy_from_slice(own);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn ask(variable: &str) -> Ask {
        Ask { variable: variable.into(), axes: Vec::new(), at: Vec::new(), within: Vec::new(), most: 512 }
    }

    #[test]
    fn a_viewer_that_says_nothing_sees_the_middle_of_the_fastest_axes() {
        let made = plane(&ask("T"), &[10, 2000, 30]).unwrap();
        let wanted = Plane { axes: vec![1, 2], offset: vec![5, 0, 0], stride: vec![1, 4, 1], count: vec![500, 30] };
        assert_eq!(made, wanted);
        assert_eq!(plane(&ask("T"), &[7]).unwrap().count, [7]);
        for (shape, axes) in [
            (&[][..], vec![]),
            (&[3, 0], vec![]),
            (&[3, 3], vec![2]),
            (&[3, 3], vec![1, 1]),
            (&[3, 3, 3], vec![0, 1, 2]),
        ] {
            assert_eq!(plane(&Ask { axes, ..ask("T") }, shape), None);
        }
    }

    #[test]
    fn what_many_ask_for_is_bounded_and_the_same_counts_once() {
        let all: Vec<Ask> = (0..10).map(|n| Ask { most: 10, ..ask(&format!("v{}", n / 2)) }).collect();
        let shown = affordable(&all, 350);
        assert_eq!(shown.iter().map(|one| &*one.variable).collect::<Vec<_>>(), ["v0", "v1", "v2"]);
        let large = Ask { most: u64::MAX, ..ask("T") };
        assert!(affordable([&large], MOST * MOST - 1).is_empty());
    }

    proptest! {
        #[test]
        fn blocks_have_each_element_of_a_plane_once(
            shape in prop::collection::vec(1u64..9, 1..5),
            picks in prop::collection::vec(0u64..20, 12),
            most in 1u64..6,
            cut in 0u64..9,
        ) {
            let axes = match shape.len() {
                1 => vec![0],
                n => {
                    let (a, b) = (picks[0] as usize % n, picks[1] as usize % n);
                    if a == b { vec![a] } else { vec![a, b] }
                }
            };
            let at = (0..shape.len()).map(|axis| Some(picks[2 + axis])).collect();
            let within = axes.iter().enumerate().map(|(n, _)| [picks[7 + n] % 4, picks[9 + n]]).collect();
            let plane = plane(&Ask { axes, at, within, most, ..ask("T") }, &shape).unwrap();
            // The value of an element is its position in the array.
            let position = |index: &[u64]| index.iter().zip(&shape).fold(0, |all, (own, extent)| all * extent + own);
            let mut got = vec![f32::NAN; plane.elements()];
            let cut = cut.min(shape[0]);
            for (first, length) in [(0, cut), (cut, shape[0] - cut)] {
                let (mut offset, mut count) = (vec![0; shape.len()], shape.clone());
                (offset[0], count[0]) = (first, length);
                let Some(piece) = plane.piece(&offset, &count) else { continue };
                let values: Vec<f32> = piece.elements.iter().map(|at| (at + first * shape[1..].iter().product::<u64>()) as f32).collect();
                prop_assert_eq!(values.len() as u64, piece.count.iter().product::<u64>());
                plane.put(&piece.offset, &piece.count, &values, &mut got);
            }
            for (number, value) in got.iter().enumerate() {
                let mut index = plane.offset.clone();
                let mut rest = number as u64;
                for (axis, count) in plane.axes.iter().zip(&plane.count).rev() {
                    index[*axis] += rest % count * plane.stride[*axis];
                    rest /= count;
                }
                prop_assert_eq!(*value, position(&index) as f32);
            }
        }
    }
}
