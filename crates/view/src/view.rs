//! A view: a pattern that is repeated from a displacement of the file on.
//!
//! Byte `v` of a view is byte `v mod s` of instance `v / s`, where `s` is the pattern's size; the instances follow each other at
//! the pattern's extent. Source: MPI 4.1, section 14.3 (file views).

use crate::pattern::{Node, Outline, Pattern, Runs};
use std::ops::Range;
use thalweg_types::{Error, ErrorKind, Extent, Result};

/// The bytes of a file that a rank sees.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct View {
    displacement: u64,
    etype: u64,
    pattern: Pattern,
    /// No byte of the view comes before an earlier one, in the whole file.
    rising: bool,
    /// All bytes from the displacement on.
    dense: bool,
}

/// Bytes that two views share.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Overlap {
    /// In the file.
    pub file: Extent,
    /// First byte in the first view.
    pub first: u64,
    /// First byte in the second view.
    pub second: u64,
}

impl View {
    /// The view of a filetype.
    ///
    /// - `displacement`: first byte of the first instance.
    /// - `etype`: the unit of offsets.
    ///
    /// # Errors
    /// `InvalidArgument` for an etype of no bytes, a filetype whose size is no multiple of its size, bytes in front of the file, and
    /// instances that do not advance.
    pub fn new(displacement: u64, etype: &Pattern, filetype: Pattern) -> Result<View> {
        View::of_units(displacement, etype.size(), filetype)
    }

    /// As [`View::new`], from the size of the etype.
    pub(crate) fn of_units(displacement: u64, unit: u64, filetype: Pattern) -> Result<View> {
        let refused = |what: String| Err(Error::new(ErrorKind::InvalidArgument, what));
        let size = filetype.size();
        if unit == 0 || !size.is_multiple_of(unit) {
            return refused(format!("a filetype of {size} bytes, the etype has {unit}"));
        }
        let (low, high) = filetype.true_bounds();
        if low < 0 && low.unsigned_abs() > displacement {
            return refused(format!("the filetype begins {} bytes before the file", low.unsigned_abs() - displacement));
        }
        if size > 0 && filetype.extent() <= 0 {
            return refused(format!("a filetype of extent {}: its instances do not advance", filetype.extent()));
        }
        let rising = filetype.is_rising() && filetype.extent() >= high - low;
        let dense = filetype.is_contiguous() && low == 0 && filetype.extent() == high;
        Ok(View { displacement, etype: unit, pattern: filetype, rising, dense })
    }

    /// A view of the runs of an outline, instances of which follow each other at `extent`.
    ///
    /// - `displacement`: of displacement 0 of the first instance.
    ///
    /// # Errors
    /// As [`View::new`]; `OutOfBounds` for an outline that no file has.
    pub fn of_outline(displacement: u64, outline: &Outline, extent: i64) -> Result<View> {
        let outside = || Error::new(ErrorKind::OutOfBounds, "an outline beyond the largest file");
        let run = outline.high.checked_sub(outline.low).and_then(|run| u64::try_from(run).ok()).ok_or_else(outside)?;
        let mut node = Node::bytes(0, run);
        for (count, stride) in outline.repeats.iter().rev() {
            node = Node::repeat(&node, *count, *stride)?;
        }
        let displacement = displacement.checked_add_signed(outline.low).ok_or_else(outside)?;
        View::of_units(displacement, 1, Pattern { node, lower: 0, upper: extent })
    }

    /// All bytes of the file, as after `MPI_File_open`.
    pub fn whole() -> View {
        let pattern = Pattern { node: Node::bytes(0, 1), lower: 0, upper: 1 };
        View { displacement: 0, etype: 1, pattern, rising: true, dense: true }
    }

    /// First byte of the first instance.
    pub fn displacement(&self) -> u64 {
        self.displacement
    }

    /// Bytes of an etype, the unit of offsets in MPI's calls.
    pub fn etype(&self) -> u64 {
        self.etype
    }

    /// The pattern of the filetype.
    pub fn pattern(&self) -> &Pattern {
        &self.pattern
    }

    /// Whether no byte of the view comes before an earlier one, and none twice: then [`View::count_below`] and [`View::overlaps`]
    /// answer.
    pub fn is_rising(&self) -> bool {
        self.rising
    }

    /// The file offset of byte `v` of the view (`MPI_File_get_byte_offset`, in bytes); `None` beyond 63 bits, and for a view of no
    /// bytes.
    pub fn file_offset(&self, v: u64) -> Option<u64> {
        let size = self.pattern.size();
        let instance = v.checked_div(size)?;
        let place = self.pattern.place_of(v % size)?;
        self.start_of(instance)?.checked_add_signed(place).filter(|at| *at < 1 << 63)
    }

    /// Where displacement 0 of an instance is.
    fn start_of(&self, instance: u64) -> Option<u64> {
        let extent = u64::try_from(self.pattern.extent()).ok()?;
        instance.checked_mul(extent)?.checked_add(self.displacement).filter(|at| *at < 1 << 63)
    }

    /// Whether [`View::extents`] has all bytes of a range: none lies beyond 63 bits. Where the view does not rise, none of the instances
    /// that the range touches.
    pub fn reaches(&self, range: Range<u64>) -> bool {
        let Some(last) = range.end.checked_sub(1).filter(|last| *last >= range.start) else { return true };
        if self.rising {
            return self.file_offset(last).is_some();
        }
        let (_, high) = self.pattern.true_bounds();
        let start = last.checked_div(self.pattern.size()).and_then(|instance| self.start_of(instance));
        start.and_then(|start| start.checked_add_signed(high)).is_some_and(|end| end <= 1 << 63)
    }

    /// The number of bytes of the view at file offsets below `offset`: the first byte of the view at or after `offset`. `None` if
    /// the view does not rise.
    pub fn count_below(&self, offset: u64) -> Option<u64> {
        if !self.rising {
            return None;
        }
        let size = self.pattern.size();
        let (low, high) = self.pattern.true_bounds();
        let place = i128::from(offset) - i128::from(self.displacement);
        if size == 0 || place <= i128::from(low) {
            return Some(0);
        }
        // Instances that end at or before the offset.
        let extent = i128::from(self.pattern.extent());
        let whole = if place < i128::from(high) { 0 } else { (place - i128::from(high)) / extent + 1 };
        let rest = i64::try_from(place - whole * extent).ok()?;
        u64::try_from(whole).ok()?.checked_mul(size)?.checked_add(self.pattern.count_below(rest)?)
    }

    /// The extents of the file that hold bytes `range` of the view, in the order of the view; consecutive ones are joined. Ends before
    /// the first run that reaches beyond 63 bits.
    ///
    /// # Cost
    /// Constant for each extent, after the depth of the datatype for the first one.
    pub fn extents(&self, range: Range<u64>) -> Extents<'_> {
        let mut extents =
            Extents { view: self, at: range.start, end: range.end.max(range.start), runs: None, last: None };
        if self.pattern.size() == 0 {
            extents.end = extents.at;
        }
        extents
    }

    /// The bytes that range `mine` of this view and range `theirs` of `other` share, in the order of the file; `None` if one of the
    /// views does not rise.
    pub fn overlaps<'v>(
        &'v self,
        mine: Range<u64>,
        other: &'v View,
        theirs: Range<u64>,
    ) -> Option<impl Iterator<Item = Overlap> + 'v> {
        if !self.rising || !other.rising {
            return None;
        }
        let (mut first, mut second) = (Pieces::of(self, mine), Pieces::of(other, theirs));
        Some(std::iter::from_fn(move || {
            loop {
                let (a, b) = (first.now?, second.now?);
                let start = a.0.offset.max(b.0.offset);
                let end = (a.0.offset + a.0.length).min(b.0.offset + b.0.length);
                if start < end {
                    let file = Extent::new(start, end - start);
                    let shared = Overlap { file, first: a.1 + start - a.0.offset, second: b.1 + start - b.0.offset };
                    first.skip_to(end);
                    second.skip_to(end);
                    return Some(shared);
                }
                // The one in front has nothing before the other one: thousands of blocks are passed over at once.
                if a.0.offset < b.0.offset { first.skip_to(b.0.offset) } else { second.skip_to(a.0.offset) }
            }
        }))
    }
}

/// Extents of a view: see [`View::extents`].
#[derive(Debug, Clone)]
pub struct Extents<'v> {
    view: &'v View,
    /// Next byte of the view.
    at: u64,
    end: u64,
    /// The runs of an instance that starts at this offset.
    runs: Option<(u64, Runs<'v>)>,
    /// Not returned yet, because the next run may continue it.
    last: Option<Extent>,
}

impl Extents<'_> {
    /// The next run, at most up to the end of the range.
    fn run(&mut self) -> Option<Extent> {
        if self.at >= self.end {
            return None;
        }
        if self.view.dense {
            let start = self.view.displacement.checked_add(self.at)?;
            let length = self.end - self.at;
            self.at = self.end;
            return in_a_file(start, length);
        }
        loop {
            if let Some((start, runs)) = &mut self.runs
                && let Some(run) = runs.next()
            {
                let length = run.length.min(self.end - self.at);
                let extent = start.checked_add_signed(run.displacement).and_then(|at| in_a_file(at, length));
                // The iteration ends, even if a later run lies at a smaller offset.
                self.at = if extent.is_some() { self.at + length } else { self.end };
                return extent;
            }
            let size = self.view.pattern.size();
            let start = self.view.start_of(self.at / size)?;
            self.runs = Some((start, self.view.pattern.runs(self.at % size)));
        }
    }
}

/// The extent, unless it reaches beyond 63 bits.
fn in_a_file(offset: u64, length: u64) -> Option<Extent> {
    let end = offset.checked_add(length)?;
    (end <= 1 << 63).then_some(Extent::new(offset, length))
}

impl Iterator for Extents<'_> {
    type Item = Extent;

    fn next(&mut self) -> Option<Extent> {
        loop {
            match (self.run(), &mut self.last) {
                (Some(run), Some(last)) if last.end() == Some(run.offset) => last.length += run.length,
                (Some(run), last) => {
                    if let Some(last) = last.replace(run) {
                        return Some(last);
                    }
                }
                (None, last) => return last.take(),
            }
        }
    }
}

/// The extents of a range of a view with their places in the view, from some file offset on.
struct Pieces<'v> {
    view: &'v View,
    range: Range<u64>,
    extents: Extents<'v>,
    /// The current extent and its first byte in the view.
    now: Option<(Extent, u64)>,
}

impl<'v> Pieces<'v> {
    fn of(view: &'v View, range: Range<u64>) -> Pieces<'v> {
        let mut extents = view.extents(range.clone());
        let now = extents.next().map(|extent| (extent, range.start));
        Pieces { view, range, extents, now }
    }

    /// Leaves what is before file offset `offset`.
    fn skip_to(&mut self, offset: u64) {
        let Some((extent, at)) = self.now else { return };
        let end = extent.offset + extent.length;
        if offset < end {
            let cut = offset.saturating_sub(extent.offset);
            self.now = Some((Extent::new(extent.offset + cut, extent.length - cut), at + cut));
            return;
        }
        let next = at + extent.length;
        // The next extent is usually the one wanted; else the view is asked.
        match self.extents.next() {
            Some(extent) if extent.offset + extent.length > offset => {
                self.now = Some((extent, next));
                self.skip_to(offset);
            }
            Some(_) => {
                let at = self.view.count_below(offset).unwrap_or(u64::MAX).clamp(next, self.range.end);
                self.extents = self.view.extents(at..self.range.end);
                self.now = self.extents.next().map(|extent| (extent, at));
            }
            None => self.now = None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Block, Datatype};

    /// Bytes at 0, 32 and 88 of each instance; instances as far apart as a file is long.
    fn wide(order: [usize; 3]) -> View {
        let blocks = [(8, 0), (16, 32), (8, 88)].map(|(count, displacement)| Block { count, displacement });
        let of = Box::new(Datatype::Elementary(1));
        let blocks = Datatype::Hindexed { blocks: order.map(|n| blocks[n]).to_vec(), of };
        let datatype = Datatype::Resized { lower: 0, extent: i64::MAX - 95, of: Box::new(blocks) };
        View::new(17, &Datatype::Elementary(1).pattern().unwrap(), datatype.pattern().unwrap()).unwrap()
    }

    /// Found by fuzzing: the second instance begins within 63 bits and ends beyond.
    #[test]
    fn extents_end_before_the_first_one_beyond_63_bits() {
        for (order, bytes) in [([0, 1, 2], 32 + 24), ([2, 0, 1], 32)] {
            let view = wide(order);
            let mut at = 0;
            for extent in view.extents(0..1000) {
                assert_eq!(view.file_offset(at), Some(extent.offset));
                at += extent.length;
                assert_eq!(view.file_offset(at - 1), Some(extent.offset + extent.length - 1));
            }
            assert_eq!(at, bytes, "{order:?}");
            assert!(view.reaches(0..32) && !view.reaches(0..bytes + 1));
        }
        // The last byte lies in the file, one before it does not.
        assert!(wide([2, 0, 1]).file_offset(63).is_some() && !wide([2, 0, 1]).reaches(32..64));
        let dense = View::whole();
        assert_eq!(dense.extents((1 << 63) - 2..1 << 63).count(), 1);
        assert_eq!(dense.extents((1 << 63) - 2..(1 << 63) + 1).count(), 0);
    }
}
