//! Every *n*-th element of a box, as users write it: `u[0:100, ::4, 7]`, slowest dimension first.
//!
//! | written | along a dimension of extent *n* |
//! |---|---|
//! | `:` | everything |
//! | `a:b` | *a* to *b* - 1, cut at *n* |
//! | `a:b:s`, `::s` | every *s*-th of these, beginning with the first |
//! | `a` | index *a* alone; the dimension stays, with one element |
//!
//! Negative numbers count from the end. Dimensions that are not written are taken whole.

use thalweg_types::{BoundingBox, Error, ErrorKind, Result, Selection, bounding_box};

/// The range of one dimension.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Range {
    from: Option<i64>,
    to: Option<i64>,
    stride: u64,
    /// One index, which must be there.
    single: bool,
}

/// Ranges of the first dimensions of an array.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Region(Vec<Range>);

/// A region of an array of a known shape. All have one entry for each dimension, slowest first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StridedBox {
    /// First element.
    pub start: Vec<u64>,
    /// Distance of elements.
    pub stride: Vec<u64>,
    /// Number of elements.
    pub count: Vec<u64>,
}

impl Region {
    /// Reads what lies between the brackets.
    ///
    /// # Errors
    /// `InvalidArgument` with the entry that is no range.
    pub fn parse(text: &str) -> Result<Region> {
        let refused = |entry: &str, why: &str| {
            Error::new(
                ErrorKind::InvalidArgument,
                format!("'{entry}' in '[{text}]' {why}; ranges are 'a:b' or 'a:b:s'"),
            )
        };
        let range = |entry: &str| {
            let number = |part: &str| match part.trim() {
                "" => Ok(None),
                part => part.parse::<i64>().map(Some).map_err(|_| refused(entry, "is no range of whole numbers")),
            };
            let parts: Vec<&str> = entry.split(':').collect();
            match parts[..] {
                [one] => match number(one)? {
                    Some(at) => Ok(Range { from: Some(at), to: None, stride: 1, single: true }),
                    None => Err(refused(entry, "is empty")),
                },
                [from, to] => Ok(Range { from: number(from)?, to: number(to)?, stride: 1, single: false }),
                [from, to, stride] => match number(stride)?.unwrap_or(1) {
                    stride @ 1.. => {
                        Ok(Range { from: number(from)?, to: number(to)?, stride: stride as u64, single: false })
                    }
                    _ => Err(refused(entry, "has a stride below 1")),
                },
                _ => Err(refused(entry, "has too many colons")),
            }
        };
        Ok(Region(text.split(',').map(|entry| range(entry.trim())).collect::<Result<_>>()?))
    }

    /// Reads a variable's name with its region: `u[0:100, ::4]`.
    ///
    /// # Errors
    /// `InvalidArgument` where there are no brackets, or as [`Region::parse`].
    pub fn parse_of(text: &str) -> Result<(String, Region)> {
        let parts = text.strip_suffix(']').and_then(|inside| inside.split_once('['));
        let (name, ranges) = parts.filter(|(name, _)| !name.trim().is_empty()).ok_or_else(|| {
            Error::new(ErrorKind::InvalidArgument, format!("'{text}' is no part of a variable; write 'u[0:100, ::4]'"))
        })?;
        Ok((name.trim().to_string(), Region::parse(ranges)?))
    }

    /// The elements meant in an array of this shape.
    ///
    /// # Errors
    /// `InvalidArgument` for more ranges than dimensions; `OutOfBounds` for a single index that is not there.
    pub fn of(&self, shape: &[u64]) -> Result<StridedBox> {
        if self.0.len() > shape.len() {
            let what = format!("{} ranges for an array of {} dimensions", self.0.len(), shape.len());
            return Err(Error::new(ErrorKind::InvalidArgument, what));
        }
        let mut lattice = StridedBox::whole(shape);
        for (d, range) in self.0.iter().enumerate() {
            let extent = i128::from(shape[d]);
            let from_end = |at: i64| if at < 0 { i128::from(at) + extent } else { i128::from(at) };
            let start = range.from.map_or(0, from_end);
            if range.single && !(0..extent).contains(&start) {
                let what = format!("index {} of dimension {d}, which has {extent} elements", start);
                return Err(Error::new(ErrorKind::OutOfBounds, what));
            }
            let start = start.clamp(0, extent) as u64;
            let end = match range.single {
                true => start + 1,
                false => range.to.map_or(extent, from_end).clamp(0, extent) as u64,
            };
            lattice.start[d] = start;
            lattice.stride[d] = range.stride;
            lattice.count[d] = end.saturating_sub(start).div_ceil(range.stride);
        }
        Ok(lattice)
    }
}

impl StridedBox {
    /// All elements.
    pub fn whole(shape: &[u64]) -> StridedBox {
        StridedBox { start: vec![0; shape.len()], stride: vec![1; shape.len()], count: shape.to_vec() }
    }

    /// Number of elements; `None` if it is beyond 64 bits.
    pub fn elements(&self) -> Option<u64> {
        bounding_box::elements(&self.count)
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.count.contains(&0)
    }

    /// What a read has to select to get them.
    pub fn selection(&self) -> Selection {
        let bounds = self.span_of(&BoundingBox::whole(&self.count));
        match self.stride.iter().all(|stride| *stride == 1) {
            true => Selection::Box(bounds),
            false => Selection::Strided { bounds, stride: self.stride.clone() },
        }
    }

    /// Whether these are all elements of an array of this shape.
    pub fn is_all_of(&self, shape: &[u64]) -> bool {
        *self == StridedBox::whole(shape)
    }

    /// The elements of the lattice that lie in a box of the array, as a box of the lattice; `None` if there are none.
    pub fn within(&self, bounds: &BoundingBox) -> Option<BoundingBox> {
        let (mut offset, mut count) = (Vec::new(), Vec::new());
        for d in 0..self.start.len() {
            let (start, stride) = (self.start[d], self.stride[d]);
            let first = bounds.offset[d].saturating_sub(start).div_ceil(stride);
            let end = bounds.offset[d].saturating_add(bounds.count[d]);
            let end = end.saturating_sub(start).div_ceil(stride).min(self.count[d]);
            if first >= end {
                return None;
            }
            offset.push(first);
            count.push(end - first);
        }
        Some(BoundingBox { offset, count })
    }

    /// The box of the array that spans a box of the lattice, from its first element to its last.
    pub fn span_of(&self, part: &BoundingBox) -> BoundingBox {
        let offset = (0..self.start.len()).map(|d| self.start[d] + part.offset[d] * self.stride[d]).collect();
        let count = (0..self.start.len()).map(|d| match part.count[d] {
            0 => 0,
            n => (n - 1) * self.stride[d] + 1,
        });
        BoundingBox { offset, count: count.collect() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn lattice(text: &str, shape: &[u64]) -> StridedBox {
        Region::parse(text).unwrap().of(shape).unwrap()
    }

    #[test]
    fn a_lattice_is_selected_by_its_span_and_strides() {
        assert_eq!(
            lattice("1:9:3, 2:5", &[10, 10]).selection(),
            Selection::Strided { bounds: BoundingBox::new([1, 2], [7, 3]), stride: vec![3, 1] }
        );
        assert_eq!(lattice("1:3", &[10]).selection(), Selection::Box(BoundingBox::new([1], [2])));
        assert_eq!((lattice("1:9:3, 2:5", &[10, 10]).elements(), lattice("5:5", &[9]).is_empty()), (Some(9), true));
    }

    #[test]
    fn regions_are_read_as_python_reads_them() {
        let of =
            |start: u64, stride, count| StridedBox { start: vec![start], stride: vec![stride], count: vec![count] };
        assert_eq!(lattice(":", &[10]), of(0, 1, 10));
        assert_eq!(lattice("2:5", &[10]), of(2, 1, 3));
        assert_eq!(lattice("-3:", &[10]), of(7, 1, 3));
        assert_eq!(lattice("8:50", &[10]), of(8, 1, 2));
        assert_eq!(lattice("::4", &[10]), of(0, 4, 3));
        assert_eq!(lattice("1:-1:3", &[10]), of(1, 3, 3));
        assert_eq!(lattice("-1", &[10]), of(9, 1, 1));
        assert_eq!(lattice("5:2", &[10]).count, [0]);
        assert_eq!(lattice("2:4", &[10, 7]).count, [2, 7]);
        for (text, wanted) in
            [("a", "'a' in '[a]'"), ("::0", "a stride below 1"), ("1:2:3:4", "too many colons"), (",", "empty")]
        {
            let refused = Region::parse(text).unwrap_err();
            assert_eq!(refused.kind(), ErrorKind::InvalidArgument);
            assert!(refused.to_string().contains(wanted), "{refused}");
        }
        assert_eq!(Region::parse("12").unwrap().of(&[10]).unwrap_err().kind(), ErrorKind::OutOfBounds);
        assert_eq!(Region::parse("1,2").unwrap().of(&[10]).unwrap_err().kind(), ErrorKind::InvalidArgument);
        assert_eq!(Region::parse_of("grid/u[3:4, :]").unwrap().0, "grid/u");
        assert!(Region::parse_of("u").is_err() && Region::parse_of("[1]").is_err());
    }

    proptest! {
        #[test]
        fn what_lies_in_a_box_is_what_a_walk_over_all_elements_finds(
            (n, start, stride) in (1u64..40, 0u64..40, 1u64..9), count in 0u64..20, (from, length) in (0u64..45, 0u64..45)
        ) {
            let count = count.min((n.saturating_sub(start)).div_ceil(stride));
            let lattice = StridedBox { start: vec![start], stride: vec![stride], count: vec![count] };
            let walked: Vec<u64> =
                (0..count).filter(|i| (from..from + length).contains(&(start + i * stride))).collect();
            match lattice.within(&BoundingBox::new([from], [length])) {
                None => prop_assert!(walked.is_empty()),
                Some(found) => {
                    prop_assert_eq!(&walked, &(found.offset[0]..found.offset[0] + found.count[0]).collect::<Vec<_>>());
                    let span = lattice.span_of(&found);
                    prop_assert_eq!(span.offset[0], start + walked[0] * stride);
                    prop_assert_eq!(span.offset[0] + span.count[0] - 1, start + walked[walked.len() - 1] * stride);
                }
            }
        }
    }
}
