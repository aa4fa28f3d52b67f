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
}
