//! Boxes of elements: an offset and a count per dimension, slowest dimension first.

/// A box in an array, slowest dimension first, in elements.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct BoundingBox {
    /// First element in each dimension.
    pub offset: Vec<u64>,
    /// Number of elements in each dimension.
    pub count: Vec<u64>,
}

impl BoundingBox {
    /// A box; both lists have one entry per dimension.
    pub fn new(offset: impl Into<Vec<u64>>, count: impl Into<Vec<u64>>) -> BoundingBox {
        let (offset, count) = (offset.into(), count.into());
        debug_assert_eq!(offset.len(), count.len());
        BoundingBox { offset, count }
    }

    /// The box that covers a whole array of this shape.
    pub fn whole(shape: &[u64]) -> BoundingBox {
        BoundingBox { offset: vec![0; shape.len()], count: shape.to_vec() }
    }

    /// Number of dimensions.
    pub fn rank(&self) -> usize {
        self.count.len()
    }

    /// Number of elements, 1 for no dimensions; `None` where that leaves the range of 64 bits.
    pub fn elements(&self) -> Option<u64> {
        elements(&self.count)
    }

    /// Whether no element lies inside.
    pub fn is_empty(&self) -> bool {
        self.count.contains(&0)
    }

    /// Whether every element lies inside an array of this shape.
    pub fn fits(&self, shape: &[u64]) -> bool {
        self.rank() == shape.len()
            && self
                .offset
                .iter()
                .zip(&self.count)
                .zip(shape)
                .all(|((o, c), s)| o.checked_add(*c).is_some_and(|e| e <= *s))
    }

    /// The elements in both boxes, or `None` where there are none or the numbers of dimensions differ.
    pub fn intersect(&self, other: &BoundingBox) -> Option<BoundingBox> {
        if self.rank() != other.rank() {
            return None;
        }
        let mut both = BoundingBox::default();
        for d in 0..self.rank() {
            let start = self.offset[d].max(other.offset[d]);
            let end = self.offset[d].checked_add(self.count[d])?.min(other.offset[d].checked_add(other.count[d])?);
            if end <= start {
                return None;
            }
            both.offset.push(start);
            both.count.push(end - start);
        }
        Some(both)
    }
}

/// Number of elements of an array with these extents, 1 for none; `None` on overflow of 64 bits.
pub fn elements(count: &[u64]) -> Option<u64> {
    if count.contains(&0) {
        return Some(0);
    }
    count.iter().try_fold(1u64, |product, c| product.checked_mul(*c))
}

/// Copies the intersection of two boxes from the memory of one into that of the other; the rest of `target` is unchanged.
///
/// - `source`, `target`: the elements of `from` and of `to`, row-major, `size` bytes each; rows that leave them are left out.
///
/// # Cost
/// One copy per row of the intersection.
pub fn copy_shared(from: &BoundingBox, source: &[u8], to: &BoundingBox, target: &mut [u8], size: usize) {
    let Some(shared) = from.intersect(to) else { return };
    let rank = shared.count.len();
    if shared.count.contains(&0) {
        return;
    }
    let inner = rank.checked_sub(1).map_or(1, |d| shared.count[d]) as usize * size;
    let at = |of: &BoundingBox, point: &[u64]| -> usize {
        of.count.iter().zip(&of.offset).zip(point).fold(0, |at, ((n, o), p)| at * *n as usize + (p - o) as usize) * size
    };
    let mut point = shared.offset.clone();
    loop {
        let (s, t) = (at(from, &point), at(to, &point));
        if let (Some(s), Some(t)) = (source.get(s..s + inner), target.get_mut(t..t + inner)) {
            t.copy_from_slice(s);
        }
        // The next row.
        let mut d = rank.saturating_sub(1);
        loop {
            if d == 0 {
                return;
            }
            d -= 1;
            point[d] += 1;
            if point[d] < shared.offset[d] + shared.count[d] {
                break;
            }
            point[d] = shared.offset[d];
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn boxes_meet_where_they_share_elements() {
        let a = BoundingBox::new([0, 2], [4, 3]);
        let b = BoundingBox::new([3, 0], [4, 3]);
        assert_eq!(a.intersect(&b), Some(BoundingBox::new([3, 2], [1, 1])));
        assert_eq!(a.intersect(&BoundingBox::new([4, 0], [1, 9])), None);
        assert!(a.fits(&[4, 5]) && !a.fits(&[4, 4]) && !a.fits(&[4]));
    }

    #[test]
    fn elements_do_not_overflow() {
        assert_eq!(elements(&[]), Some(1));
        assert_eq!(elements(&[u64::MAX, 2]), None);
        assert_eq!(elements(&[u64::MAX, 2, 0]), Some(0));
    }

    #[test]
    fn what_two_boxes_share_is_copied_and_nothing_else() {
        let from = BoundingBox::new([0, 0], [3, 4]);
        let source: Vec<u8> = (0..12).collect();
        let to = BoundingBox::new([1, 2], [4, 3]);
        let mut target = vec![99; 12];
        copy_shared(&from, &source, &to, &mut target, 1);
        assert_eq!(target, [6, 7, 99, 10, 11, 99, 99, 99, 99, 99, 99, 99]);
    }
}
