//! One comparison at one step: the blocks that intersect its selection, and the answers from their characteristics.
//!
//! Positions are relative to the selection, from 0 in each dimension; for points they are the points' numbers. So comparisons with
//! selections of the same extents combine element by element.

use crate::Answer;
use crate::comparison::{Comparison, strided};
use crate::condition::{Condition, NonFinite};
use std::collections::BTreeMap;
use thalweg_reader::{Block, Kind, Reader, overlap};
use thalweg_types::bounding_box::elements;
use thalweg_types::{BoundingBox, Error, ErrorKind, Result, Selection};

/// [`Answer`] as a byte of a mask, so that AND is the least and OR the greatest.
pub(crate) const NO: u8 = 0;
pub(crate) const MAYBE: u8 = 1;
pub(crate) const YES: u8 = 2;

fn byte(answer: Answer) -> u8 {
    match answer {
        Answer::No => NO,
        Answer::Maybe => MAYBE,
        Answer::Yes => YES,
    }
}

/// The selection, and data about its parts.
enum LeafSelection {
    /// A box of a global array that starts here.
    Box(Vec<u64>),
    /// A block by its number, and its values once they were read.
    Block(u64, Option<Vec<u8>>),
    /// Single elements, the part that contains each, and its answer as far as known.
    Points { points: Vec<Vec<u64>>, owners: Vec<Option<u32>>, known: Vec<u8> },
}

/// A block, or the part of it inside the selection.
struct SelectedBlock {
    number: u64,
    bounds: BoundingBox,
    answer: Answer,
    share: f64,
}

/// See the module's page.
pub(crate) struct Leaf {
    name: String,
    step: u64,
    condition: Condition,
    selection: LeafSelection,
    /// In the order they were written; of overlapping blocks, the later one counts.
    parts: Vec<SelectedBlock>,
    /// The parts by where they start along the slowest dimension, and the most rows that one has.
    rows: (Vec<u32>, u64),
    overlapping: bool,
    pub frame: Vec<u64>,
}

/// Calls `each` with the runs of `piece` in the row-major order of `within`, which holds it: first place and length.
pub(crate) fn for_each_row(piece: &BoundingBox, within: &BoundingBox, mut each: impl FnMut(usize, usize)) {
    let rank = piece.rank();
    if piece.is_empty() {
        return;
    }
    let mut at = vec![0; rank.saturating_sub(1)];
    loop {
        let mut start = 0;
        for d in 0..rank {
            let inside = piece.offset[d] - within.offset[d] + at.get(d).copied().unwrap_or(0);
            start = start * within.count[d] + inside;
        }
        each(start as usize, piece.count.last().map_or(1, |n| *n as usize));
        let Some(d) = (0..at.len()).rev().find(|d| at[*d] + 1 < piece.count[*d]) else { return };
        at[d] += 1;
        at[d + 1..].fill(0);
    }
}

impl Leaf {
    /// Looks up a comparison's blocks.
    ///
    /// # Errors
    /// As [`Reader::read`]; `InvalidArgument` for text.
    pub fn bind(reader: &Reader, comparison: &Comparison, step: u64, non_finite: NonFinite) -> Result<Leaf> {
        let (name, step) = (&comparison.variable, comparison.step.unwrap_or(step));
        Leaf::find(reader, comparison, step, non_finite)
            .map_err(|e| e.in_variable(name.clone()).at_step(step).in_object(reader.path()))
    }

    fn find(reader: &Reader, comparison: &Comparison, step: u64, non_finite: NonFinite) -> Result<Leaf> {
        let Comparison { variable: name, selection, operator, number, .. } = comparison;
        let variable = reader.variable(name)?;
        let condition = Condition::new(variable.element, *operator, *number, non_finite)?;
        let number = match (selection, variable.kind) {
            (Selection::Block(n), _) => Some(*n),
            (Selection::All, Kind::Scalar | Kind::Local) => Some(0),
            _ => None,
        };
        let blocks = match number {
            Some(n) => reader.block_of_step(name, step, n)?.into_iter().collect(),
            None => reader.blocks(name, step)?,
        };
        if blocks.is_empty() {
            // Fails if there is no such step at all.
            reader.shape(name, step)?;
        }
        let shape = blocks.last().map(|b| b.shape.clone()).unwrap_or_default();
        let mut leaf = Leaf {
            name: name.clone(),
            step,
            condition,
            selection: LeafSelection::Box(Vec::new()),
            parts: Vec::new(),
            rows: Default::default(),
            overlapping: false,
            frame: Vec::new(),
        };
        let out_of_bounds = |what: String| Error::new(ErrorKind::OutOfBounds, what);
        match (selection, variable.kind) {
            _ if number.is_some() => {
                let n = number.unwrap_or(0);
                let block = blocks.first().ok_or_else(|| out_of_bounds(format!("there is no block {n}")))?;
                leaf.selection = LeafSelection::Block(n, None);
                leaf.frame = block.count.clone();
                leaf.parts = vec![leaf.part(block, BoundingBox::whole(&block.count))];
            }
            (_, Kind::Scalar) => {
                let what = "a single value: it has no boxes and points";
                return Err(Error::new(ErrorKind::InvalidArgument, what));
            }
            (_, Kind::Local) => {
                let what = "a local array has no boxes and points of a whole: choose a block";
                return Err(Error::new(ErrorKind::InvalidArgument, what));
            }
            (Selection::Strided { .. }, _) => return Err(strided()),
            (Selection::Points(points), _) => {
                let wrong = |p: &&Vec<u64>| p.len() != shape.len() || p.iter().zip(&shape).any(|(p, s)| p >= s);
                if let Some(p) = points.iter().find(wrong) {
                    return Err(out_of_bounds(format!("point {p:?} leaves the shape {shape:?}")));
                }
                leaf.frame = vec![points.len() as u64];
                leaf.parts = blocks.iter().map(|b| leaf.part(b, b.as_box())).collect();
                let owners = leaf.owners_of(points);
                // A point in no block has no value, and so does not match.
                let known = owners.iter().map(|o| o.map_or(NO, |n| byte(leaf.parts[n as usize].answer))).collect();
                leaf.selection = LeafSelection::Points { points: points.clone(), owners, known };
            }
            _ => {
                let wanted = match selection {
                    Selection::Box(b) => b.clone(),
                    _ => BoundingBox::whole(&shape),
                };
                if wanted.offset.len() != wanted.count.len() || !wanted.fits(&shape) {
                    let (offset, count) = (&wanted.offset, &wanted.count);
                    return Err(out_of_bounds(format!("a box at {offset:?} of {count:?} leaves the shape {shape:?}")));
                }
                for block in &blocks {
                    if let Some(mut both) = block.as_box().intersect(&wanted) {
                        both.offset.iter_mut().zip(&wanted.offset).for_each(|(o, start)| *o -= start);
                        leaf.parts.push(leaf.part(block, both));
                    }
                }
                let boxes: Vec<BoundingBox> = leaf.parts.iter().map(|p| p.bounds.clone()).collect();
                leaf.overlapping = overlap::find(&boxes).is_some();
                leaf.rows.0 = leaf.everything();
                leaf.rows.0.sort_by_key(|i| boxes[*i as usize].offset.first().copied());
                leaf.rows.1 = boxes.iter().filter_map(|b| b.count.first().copied()).max().unwrap_or(0);
                (leaf.selection, leaf.frame) = (LeafSelection::Box(wanted.offset), wanted.count);
            }
        }
        elements(&leaf.frame).ok_or_else(|| out_of_bounds("a selection of more elements than 64 bits count".into()))?;
        Ok(leaf)
    }

    /// The answers from the characteristics of each block, by number, for blocks that are no parts of a global array: a comparison with
    /// a whole local array or with values local to ranks. `None` otherwise.
    ///
    /// # Errors
    /// As [`Leaf::bind`].
    pub fn of_each_block(
        reader: &Reader,
        comparison: &Comparison,
        step: u64,
        non_finite: NonFinite,
    ) -> Result<Option<Vec<Answer>>> {
        let Comparison { variable: name, selection, operator, number, step: own } = comparison;
        let step = own.unwrap_or(step);
        let find = || {
            let variable = reader.variable(name)?;
            if *selection != Selection::All || !matches!(variable.kind, Kind::Local | Kind::Scalar) {
                return Ok(None);
            }
            let condition = Condition::new(variable.element, *operator, *number, non_finite)?;
            let blocks = reader.blocks(name, step)?;
            if blocks.is_empty() {
                reader.shape(name, step)?;
            }
            Ok(Some(blocks.iter().map(|b| condition.answer(b)).collect()))
        };
        find().map_err(|e: Error| e.in_variable(name.clone()).at_step(step).in_object(reader.path()))
    }

    fn part(&self, block: &Block, bounds: BoundingBox) -> SelectedBlock {
        let answer = self.condition.answer(block);
        SelectedBlock { number: block.number, bounds, answer, share: self.condition.share(block) }
    }

    /// The last part that holds each point.
    fn owners_of(&self, points: &[Vec<u64>]) -> Vec<Option<u32>> {
        let mut owners = vec![None; points.len()];
        // By slowest index, so that a block looks at those alone that lie between its first and last row.
        let mut order: Vec<usize> = (0..points.len()).collect();
        order.sort_by_key(|i| points[*i].first().copied());
        for (n, part) in self.parts.iter().enumerate() {
            let (offset, count) = (&part.bounds.offset, &part.bounds.count);
            let (Some(first), Some(rows)) = (offset.first(), count.first()) else { continue };
            let start = order.partition_point(|i| points[*i][0] < *first);
            for i in order[start..].iter().take_while(|i| points[**i][0] - first < *rows) {
                let inside = points[*i].iter().zip(offset.iter().zip(count)).all(|(p, (o, c))| p >= o && p - o < *c);
                if inside {
                    owners[*i] = Some(n as u32);
                }
            }
        }
        owners
    }

    /// Every part of the selection, by its place in the lists that [`Leaf::meeting`] narrows.
    pub fn everything(&self) -> Vec<u32> {
        (0..self.parts.len() as u32).collect()
    }

    /// The parts in `of` that intersect a region.
    pub fn meeting(&self, region: &BoundingBox, of: &[u32]) -> Vec<u32> {
        match self.selection {
            LeafSelection::Box(_) => {
                let meets = |i: &&u32| self.parts[**i as usize].bounds.intersect(region).is_some();
                of.iter().filter(meets).copied().collect()
            }
            _ => of.to_vec(),
        }
    }

    /// The parts that intersect a region, which is likely to be that of part `n` of another comparison.
    pub fn parts_meeting(&self, region: &BoundingBox, n: usize) -> Vec<u32> {
        if !matches!(self.selection, LeafSelection::Box(_)) {
            return self.everything();
        }
        if !self.overlapping && self.parts.get(n).is_some_and(|p| p.bounds == *region) {
            return vec![n as u32];
        }
        let (Some(first), Some(count)) = (region.offset.first(), region.count.first()) else {
            return self.everything();
        };
        let (order, rows) = &self.rows;
        let start = |i: &u32| self.parts[*i as usize].bounds.offset[0];
        let from = order.partition_point(|i| start(i).saturating_add(*rows) <= *first);
        let to = order.partition_point(|i| start(i) < first.saturating_add(*count));
        let mut near = self.meeting(region, order.get(from..to).unwrap_or_default());
        near.sort_unstable();
        near
    }

    /// Whether all of a region matches, none of it, or neither is certain; `near` are the parts that intersect it.
    pub fn answer(&self, region: &BoundingBox, near: &[u32]) -> Answer {
        match &self.selection {
            LeafSelection::Block(..) => self.parts[0].answer,
            LeafSelection::Points { known, .. } => {
                let all = &known[region.offset[0] as usize..][..region.count[0] as usize];
                alike(all.iter().map(|a| match *a {
                    NO => Answer::No,
                    MAYBE => Answer::Maybe,
                    _ => Answer::Yes,
                }))
            }
            LeafSelection::Box(_) => {
                let near = || near.iter().map(|i| &self.parts[*i as usize]);
                let answer = alike(near().map(|p| p.answer));
                // Elements that no block covers have no value, and do not match.
                if answer != Answer::Yes || self.covers(region, near()) { answer } else { Answer::Maybe }
            }
        }
    }

    fn covers<'a>(&self, region: &BoundingBox, mut parts: impl Iterator<Item = &'a SelectedBlock>) -> bool {
        let volume = |b: &BoundingBox| b.elements().unwrap_or(0);
        if self.overlapping {
            return parts.any(|p| p.bounds.intersect(region).as_ref() == Some(region));
        }
        let covered = parts.filter_map(|p| p.bounds.intersect(region)).map(|b| volume(&b)).sum::<u64>();
        covered == volume(region)
    }

    /// The answer for each element of a region as far as known, in row-major order.
    pub fn paint(&self, region: &BoundingBox, near: &[u32]) -> Vec<u8> {
        match &self.selection {
            LeafSelection::Points { known, .. } => {
                known[region.offset[0] as usize..][..region.count[0] as usize].to_vec()
            }
            LeafSelection::Block(..) => vec![byte(self.parts[0].answer); volume(region)],
            LeafSelection::Box(_) => {
                let mut mask = vec![NO; volume(region)];
                for part in near.iter().map(|i| &self.parts[*i as usize]) {
                    if let Some(inside) = part.bounds.intersect(region) {
                        let answer = byte(part.answer);
                        for_each_row(&inside, region, |start, n| mask[start..start + n].fill(answer));
                    }
                }
                mask
            }
        }
    }

    /// Whether both compare the same values.
    pub fn shares_values_with(&self, other: &Leaf) -> bool {
        let same_selection = match (&self.selection, &other.selection) {
            (LeafSelection::Box(a), LeafSelection::Box(b)) => a == b,
            (LeafSelection::Block(a, _), LeafSelection::Block(b, _)) => a == b,
            (LeafSelection::Points { points: a, .. }, LeafSelection::Points { points: b, .. }) => a == b,
            _ => false,
        };
        same_selection && self.name == other.name && self.step == other.step && self.frame == other.frame
    }

    /// Number of elements of the selection that certainly match, that may match, and the expected number.
    pub fn count(&self) -> (u64, u64, f64) {
        let all = elements(&self.frame).unwrap_or(u64::MAX);
        if let LeafSelection::Points { known, .. } = &self.selection {
            let count = |least: u8| known.iter().filter(|k| **k >= least).count() as u64;
            let (least, most) = (count(YES), count(MAYBE));
            return (least, most, least as f64 + (most - least) as f64 / 2.0);
        }
        let (mut least, mut most, mut likely) = (0u64, 0u64, 0.0);
        for part in &self.parts {
            let n = part.bounds.elements().unwrap_or(0);
            least = least.saturating_add(if part.answer == Answer::Yes { n } else { 0 });
            most = most.saturating_add(if part.answer == Answer::No { 0 } else { n });
            likely += part.share * n as f64;
        }
        if self.overlapping {
            // Elements were counted more than once, and the last block decides about them.
            least = 0;
        }
        (least, most.min(all), likely.min(all as f64))
    }

    /// The blocks inside the selection: number, and position in the selection.
    pub fn blocks(&self) -> Vec<(u64, Where)> {
        let numbered = |p: &SelectedBlock| (p.number, Where::Region(p.bounds.clone()));
        match &self.selection {
            LeafSelection::Points { owners, .. } => {
                let mut of: BTreeMap<u32, Vec<u64>> = BTreeMap::new();
                for (place, owner) in owners.iter().enumerate() {
                    if let Some(n) = owner {
                        of.entry(*n).or_default().push(place as u64);
                    }
                }
                of.into_iter().map(|(n, places)| (self.parts[n as usize].number, Where::Places(places))).collect()
            }
            _ => self.parts.iter().map(numbered).collect(),
        }
    }

    /// The element at a place, as an index of the array or, of a block, inside the block.
    pub fn index_of(&self, place: u64) -> Vec<u64> {
        if let LeafSelection::Points { points, .. } = &self.selection {
            return points.get(place as usize).cloned().unwrap_or_default();
        }
        let mut index = vec![0; self.frame.len()];
        let mut rest = place;
        for d in (0..self.frame.len()).rev() {
            (index[d], rest) = (rest % self.frame[d].max(1), rest / self.frame[d].max(1));
        }
        if let LeafSelection::Box(origin) = &self.selection {
            index.iter_mut().zip(origin).for_each(|(i, o)| *i += o);
        }
        index
    }

    /// Bytes that one place takes while it is looked at.
    pub fn weight(&self) -> u64 {
        2 + self.condition.size() as u64
    }
}

/// Reads the values that the answer depends on and that the masks of some comparisons leave open, once for all of these.
///
/// - `group`: comparisons of the same values.
/// - `near`: the parts that intersect the region.
/// - `wanted`: the answer so far; elements that are certain there are not read.
pub(crate) fn resolve(
    leaves: &mut [Leaf],
    group: &[usize],
    reader: &Reader,
    region: &BoundingBox,
    near: &[u32],
    wanted: &[u8],
    masks: &mut [Vec<u8>],
) -> Result<()> {
    let open = |masks: &[Vec<u8>], i: usize| wanted[i] == MAYBE && group.iter().any(|g| masks[*g][i] == MAYBE);
    let Some(first) = group.first().copied() else { return Ok(()) };
    if !(0..wanted.len()).any(|i| open(masks, i)) {
        return Ok(());
    }
    let mut matches = Vec::new();
    if let LeafSelection::Block(number, values @ None) = &mut leaves[first].selection {
        let selection = Selection::Block(*number);
        *values = Some(reader.read_to_vec(&leaves[first].name, leaves[first].step, &selection)?);
    }
    let leaf = &leaves[first];
    match &leaf.selection {
        LeafSelection::Points { points, .. } => {
            let start = region.offset[0] as usize;
            let asked: Vec<usize> = (0..wanted.len()).filter(|i| open(masks, *i)).collect();
            let selection = Selection::Points(asked.iter().map(|i| points[start + i].clone()).collect());
            let bytes = reader.read_to_vec(&leaf.name, leaf.step, &selection)?;
            matches.resize(asked.len(), false);
            for g in group {
                leaves[*g].condition.look(&bytes, &mut matches);
                for (i, matches) in asked.iter().zip(&matches) {
                    settle(&mut masks[*g][*i..*i + 1], &[*matches]);
                }
            }
        }
        LeafSelection::Block(_, values) => {
            let size = leaf.condition.size();
            let bytes = values.as_deref().unwrap_or_default();
            let whole = BoundingBox::whole(&leaf.frame);
            for g in group {
                let mut at = 0;
                for_each_row(region, &whole, |start, n| {
                    matches.resize(n, false);
                    leaves[*g].condition.look(&bytes[start * size..(start + n) * size], &mut matches);
                    settle(&mut masks[*g][at..at + n], &matches);
                    at += n;
                });
            }
        }
        LeafSelection::Box(origin) => {
            let in_doubt = |i: &&u32| group.iter().any(|g| leaves[*g].parts[**i as usize].answer == Answer::Maybe);
            let pieces = near.iter().filter(in_doubt).filter_map(|i| leaf.parts[*i as usize].bounds.intersect(region));
            let asked = pieces.filter(|piece| {
                let mut any = false;
                for_each_row(piece, region, |start, n| any = any || (start..start + n).any(|i| open(masks, i)));
                any
            });
            let pieces = joined(asked);
            let mut batch = reader.batch();
            for piece in &pieces {
                let offset: Vec<u64> = piece.offset.iter().zip(origin).map(|(p, o)| p + o).collect();
                let selection = Selection::Box(BoundingBox::new(offset, piece.count.clone()));
                batch.add(&leaf.name, &[leaf.step], &selection, None)?;
            }
            let mut values: Vec<Vec<u8>> = (0..batch.len()).map(|n| vec![0; batch.bytes(n) as usize]).collect();
            let mut out: Vec<&mut [u8]> = values.iter_mut().map(Vec::as_mut_slice).collect();
            batch.perform(&mut out)?;
            for (piece, bytes) in pieces.iter().zip(&values) {
                matches.resize(volume(piece), false);
                for g in group {
                    leaves[*g].condition.look(bytes, &mut matches);
                    let mut at = 0;
                    for_each_row(piece, region, |start, n| {
                        settle(&mut masks[*g][start..start + n], &matches[at..at + n]);
                        at += n;
                    });
                }
            }
        }
    }
    Ok(())
}

/// The position of a block in a selection.
pub(crate) enum Where {
    Region(BoundingBox),
    Places(Vec<u64>),
}

/// The answer common to all; `No` if there are none.
pub(crate) fn alike(mut all: impl Iterator<Item = Answer>) -> Answer {
    let first = all.next().unwrap_or(Answer::No);
    if all.any(|a| a != first) { Answer::Maybe } else { first }
}

fn volume(region: &BoundingBox) -> usize {
    region.elements().unwrap_or(0) as usize
}

/// Enters the answers from values where none was certain.
fn settle(mask: &mut [u8], matches: &[bool]) {
    for (m, matches) in mask.iter_mut().zip(matches) {
        if *m == MAYBE {
            *m = if *matches { YES } else { NO };
        }
    }
}

/// Joins boxes that are neighbours into one, so that fewer reads give the same elements.
fn joined(boxes: impl Iterator<Item = BoundingBox>) -> Vec<BoundingBox> {
    let mut all: Vec<BoundingBox> = Vec::new();
    for next in boxes {
        all.push(next);
        while let [.., a, b] = all.as_slice() {
            let Some(both) = neighbours(a, b) else { break };
            all.truncate(all.len() - 2);
            all.push(both);
        }
    }
    all
}

fn neighbours(a: &BoundingBox, b: &BoundingBox) -> Option<BoundingBox> {
    let mut differs = (0..a.rank()).filter(|d| a.offset[*d] != b.offset[*d] || a.count[*d] != b.count[*d]);
    let d = differs.next()?;
    if differs.next().is_some() || a.offset[d] + a.count[d] != b.offset[d] {
        return None;
    }
    let mut both = a.clone();
    both.count[d] += b.count[d];
    Some(both)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbours_are_read_together_and_others_are_not() {
        let grid = (0..3u64).flat_map(|y| (0..4u64).map(move |x| BoundingBox::new([2 * y, 5 * x], [2, 5])));
        assert_eq!(joined(grid.clone()), [BoundingBox::new([0, 0], [6, 20])]);
        let without = grid.filter(|b| b.offset != [2, 5]);
        assert_eq!(
            joined(without),
            [
                BoundingBox::new([0, 0], [2, 20]),
                BoundingBox::new([2, 0], [2, 5]),
                BoundingBox::new([2, 10], [2, 10]),
                BoundingBox::new([4, 0], [2, 20])
            ]
        );
    }

    #[test]
    fn rows_of_a_box_in_a_larger_one() {
        let rows = |piece: BoundingBox, within: BoundingBox| {
            let mut all = Vec::new();
            for_each_row(&piece, &within, |start, n| all.push((start, n)));
            all
        };
        let within = BoundingBox::new([1, 2, 3], [2, 3, 4]);
        assert_eq!(rows(BoundingBox::new([1, 3, 4], [2, 2, 2]), within), [(5, 2), (9, 2), (17, 2), (21, 2)]);
        assert_eq!(rows(BoundingBox::default(), BoundingBox::default()), [(0, 1)]);
        assert_eq!(rows(BoundingBox::new([3], [0]), BoundingBox::new([0], [9])), []);
    }
}
