//! The region of global arrays that is written: a box, as `10:20,0:64`, slowest dimension first.

use std::fmt;
use std::str::FromStr;
use thalweg_types::{Error, ErrorKind, Result};

/// First element, and the one behind the last, of each dimension, slowest first. It counts for arrays of as many dimensions.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Region(Vec<(u64, u64)>);

/// The part of a block inside a region, in the order of dimensions of the block.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Part {
    /// First element in the global array.
    pub offset: Vec<u64>,
    /// Extents.
    pub count: Vec<u64>,
    /// First element in the block.
    pub start: Vec<u64>,
}

impl Region {
    /// Number of dimensions.
    pub fn dimensions(&self) -> usize {
        self.0.len()
    }

    /// The part of a block inside the region; `None` if there is none. A block of another number of dimensions is not cut.
    ///
    /// - `offset`, `count`: of the block; `fastest_first`: so are its dimensions (Fortran).
    pub fn part(&self, offset: &[u64], count: &[u64], fastest_first: bool) -> Option<Part> {
        if offset.len() != self.0.len() || count.len() != self.0.len() {
            return Some(Part { offset: offset.to_vec(), count: count.to_vec(), start: vec![0; count.len()] });
        }
        let mut part = Part { offset: Vec::new(), count: Vec::new(), start: Vec::new() };
        for (d, (offset, count)) in offset.iter().zip(count).enumerate() {
            let (from, to) = self.0[if fastest_first { self.0.len() - 1 - d } else { d }];
            let begin = from.max(*offset);
            let end = to.min(offset.saturating_add(*count));
            if begin >= end {
                return None;
            }
            part.offset.push(begin);
            part.count.push(end - begin);
            part.start.push(begin - offset);
        }
        Some(part)
    }
}

impl fmt::Display for Region {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (d, (from, to)) in self.0.iter().enumerate() {
            write!(f, "{}{from}:{to}", if d == 0 { "" } else { "," })?;
        }
        Ok(())
    }
}

impl FromStr for Region {
    type Err = Error;

    fn from_str(text: &str) -> Result<Region> {
        let wrong = || {
            let what = format!("box {text:?}: expected FROM:TO for each dimension, as 10:20,0:64, FROM below TO");
            Error::new(ErrorKind::InvalidArgument, what)
        };
        let range = |part: &str| {
            let (from, to) = part.trim().split_once(':')?;
            let (from, to) = (from.parse::<u64>().ok()?, to.parse::<u64>().ok()?);
            (from < to).then_some((from, to))
        };
        let ranges: Option<Vec<(u64, u64)>> = text.split(',').map(range).collect();
        // A file has at most 255 dimensions.
        ranges.filter(|ranges| ranges.len() <= 255).map(Region).ok_or_else(wrong)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_is_cut_to_the_region_in_the_order_of_its_dimensions() {
        let region: Region = "2:5,10:20".parse().unwrap();
        let part = region.part(&[0, 15], &[4, 10], false).unwrap();
        assert_eq!(part, Part { offset: vec![2, 15], count: vec![2, 5], start: vec![2, 0] });
        let part = region.part(&[15, 0], &[10, 4], true).unwrap();
        assert_eq!(part, Part { offset: vec![15, 2], count: vec![5, 2], start: vec![0, 2] });
        assert_eq!(region.part(&[5, 15], &[4, 10], false), None);
        assert_eq!(region.part(&[7], &[4], false).unwrap().count, [4], "another number of dimensions");
    }

    #[test]
    fn what_is_no_box_is_refused() {
        for text in ["", "3", "3:3", "4:3", "a:b", "1:2,", "1:2;3:4", "-1:2", "1:99999999999999999999"] {
            assert!(text.parse::<Region>().is_err(), "{text}");
        }
        assert_eq!(" 1:2, 3:4".parse::<Region>().unwrap().to_string(), "1:2,3:4");
    }
}
